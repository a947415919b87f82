# SPDX-License-Identifier: Apache-2.0
"""check: syntax, policy, analysis and advice for a source, without executing it.

Called by policed.py in the user process of a box: a crash of CPython's parser ends only a box. The
answer is advice; the isolation of the box does not depend on it.

The syntax tree is made once and walked once (walk.py). The compiler finds errors that the parser
does not see, such as a `return` outside a function, and gives warnings; but compiling takes as long
as everything else. So the walk sets `doubt` where the compiler may object, and only then the
compiler runs. A test compares the result with compiling always.
"""

import sys
from gc import disable as gc_disable, enable as gc_enable, isenabled as gc_is_enabled
from time import perf_counter

from base import __builtins__           # first: functions look builtins up there
import notebook
from base import Box, LINE_MAX, MESSAGE_MAX, clip, need
from lint import lint as run_ruff
from policy import Policy
from source import ONLY_AST, SIGNS, TOP_LEVEL_AWAIT
from walk import Walk

FILENAME = "<code>"
AROUND = 2                  # lines of context before and after an error
BIG_LINES, BIG_BYTES = 20_000, 1 << 20      # above that a tree is made part by part
PART = 4000                 # lines of a part
LONG_LINE = 300             # characters above which code may be nested too deeply to compile
LONG_STATEMENT = 1000       # the same for a statement of several lines
WARNINGS_MAX = 20
MODULES_MAX = 20            # modules that are searched for
SECONDS = 6.0               # after that the analysis of a long source stops
SOON = 4.0                  # a source that will take longer is compiled first
LATER = "else", "elif", "except", "finally", ")", "]", "}", "case"      # no statement begins so
NULL = "source code cannot contain null bytes"
FLAGS = TOP_LEVEL_AWAIT
STDLIB = frozenset(getattr(sys, "stdlib_module_names", ())) | frozenset(sys.builtin_module_names)


# ---- Syntax -------------------------------------------------------------------------------------

def to_lines(source):
    """Lines as the compiler counts them: not split at form feeds or U+2028."""
    text = source.decode("utf-8", "replace")
    if text[:1] == "\ufeff":
        text = text[1:]
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text, text.split("\n")


class Text:
    """A source, its lines, and their measures."""

    __slots__ = "source", "is_ascii", "characters", "lines", "longest", "has_long_strings"

    def __init__(self, source):
        text, lines = to_lines(source)
        self.source, self.lines, self.is_ascii = source, lines, text.isascii()
        self.characters = len(source.decode("utf-8", "replace"))    # as sent, before line ends are normalised
        self.longest = len(max(lines, key=len))
        self.has_long_strings = has_long_strings(text, lines)

    @property
    def is_big(self):
        return len(self.lines) > BIG_LINES or len(self.source) > BIG_BYTES


def window(line, offset):
    """A part of a line around an offset, and the number of characters left out before it."""
    if len(line) <= LINE_MAX:
        return line, 0
    begin = max(0, min(offset - LINE_MAX // 2, len(line) - LINE_MAX))
    return line[begin:begin + LINE_MAX], begin


def marks(piece, begin, end):
    """A line of carets to show below the piece; keeps tabs, so that it lines up in any editor."""
    blank = "".join(["\t" if sign == "\t" else " " for sign in piece[:begin]])
    return blank + " " * (begin - len(blank)) + "^" * max(1, min(end, len(piece)) - begin)


def describe_syntax(exc, lines):
    """A SyntaxError as an object of the answer, with the lines around it."""
    line = exc.lineno if type(exc.lineno) is int else 1
    line = max(1, min(line, len(lines)))
    text = lines[line - 1]
    offset = exc.offset if type(exc.offset) is int and exc.offset > 0 else 0
    offset = min(offset, len(text) + 1)
    end_line, end = getattr(exc, "end_lineno", None), getattr(exc, "end_offset", None)
    if type(end_line) is not int or type(end) is not int or end_line != line or end <= offset:
        end = offset + 1
    piece, left_out = window(text, offset)
    caret = marks(piece, offset - 1 - left_out, end - 1 - left_out) if offset else ""
    first = max(1, line - AROUND)
    around = [{"line": number, "text": clip(lines[number - 1], LINE_MAX)}
              for number in range(first, min(len(lines), line + AROUND) + 1)]
    shown, width = [], len(str(min(len(lines), line + AROUND)))
    for item in around:
        is_it = item["line"] == line
        said = clip(piece, 2 * LINE_MAX) if is_it else item["text"]
        shown.append(f"{'>' if is_it else ' '} {item['line']:>{width}} | {said}")
        if is_it and caret:
            shown.append(f"  {'':>{width}} | {caret}")
    return {"type": type(exc).__name__, "message": clip(str(exc.msg), MESSAGE_MAX), "line": line,
            "offset": offset or None, "end_offset": end if offset else None,
            "text": clip(piece, 2 * LINE_MAX), "caret": caret, "context": "\n".join(shown),
            "lines": around}


def too_deep(exc):
    """The error object for a parser or compiler that gives up."""
    return {"type": type(exc).__name__, "line": None, "offset": None, "end_offset": None,
            "text": "", "caret": "", "context": "", "lines": [],
            "message": "the code is too large or nested too deeply for the compiler: "
                       "split long expressions and chains into several statements"}


def null_byte(source, lines):
    at = source.index(b"\0")
    head, _ = to_lines(source[:at])
    exc = SyntaxError(NULL)
    exc.lineno, exc.offset = head.count("\n") + 1, len(head) - head.rfind("\n")
    return describe_syntax(exc, lines)


class Refused(Exception):
    """The source is invalid; the argument is the error object."""


def parse(text, walk):
    """(tree, source it was made from). Commands of notebooks become Python, as in a run."""
    try:
        return compile(text.source, FILENAME, "exec", FLAGS | ONLY_AST, True), text.source
    except SyntaxError as exc:
        error = exc
    except (RecursionError, MemoryError):
        return None, text.source        # a tree needs more of both than the compiler does
    except ValueError as exc:           # null bytes, before 3.12
        raise Refused(describe_syntax(SyntaxError(str(exc)), text.lines)) from None
    source = without_commands(text, walk, error)
    try:
        return compile(source, FILENAME, "exec", FLAGS | ONLY_AST, True), source
    except SyntaxError as exc:
        raise Refused(describe_syntax(exc, text.lines)) from None
    except (RecursionError, MemoryError):
        return None, source


def without_commands(text, walk, error):
    """The source of a text that raised the error, with Python in the place of IPython's commands."""
    given = any([sign in text.source for sign in SIGNS]) and notebook.text_of(text.source)
    try:
        lines, commands = notebook.find(given) if given else ((), ())
    except SyntaxError as exc:
        error, commands = exc, ()
    if not commands:
        raise Refused(describe_syntax(error, text.lines)) from None
    source, commands = notebook.to_look_at(lines, commands)
    for command in commands:
        look_at_command(command, walk)
    return source.encode("utf-8", "surrogatepass")


def look_at_command(command, walk):
    """Says what a command of a notebook is, and whether the policy allows it."""
    module, policy = notebook.module_for(command), walk.policy
    spot = {"line": command.first, "column": len(command.indent) + 1}
    if policy.mode == "restricted" and not command.is_needless():
        walk.list("violations", {
            "kind": "command", "target": str(command), **spot, "layer": "python",
            "reason": "notebook commands are not available in restricted mode",
            "hint": "write it in plain Python"})
    elif module and policy.mode != "restricted" and not policy.allows(module):
        walk.list("violations", {
            "kind": "import", "target": module, **spot, "layer": "python",
            "reason": f"'{command}' needs the module '{module}'", "hint": policy.hint(module)})
    walk.list("recommendations", {
        "rule": "magic", **spot, "message": f"'{command}' is a command of IPython: sessions and runs "
        f"of this server have it, python3 has not{notebook.advice_on(command)}"})
    if command.name in notebook.MAKES_NAMES or "." in command.name:
        walk.dynamic = walk.dynamic or f"'{command}' is used"


def ask_compiler(source, text):
    try:
        compile(source, FILENAME, "exec", FLAGS, True)
    except SyntaxError as exc:
        raise Refused(describe_syntax(exc, text.lines)) from None
    except (RecursionError, MemoryError, OverflowError, ValueError) as exc:
        raise Refused(too_deep(exc)) from None


def is_long(text, tree):
    """May a statement be nested too deeply for the compiler, although the parser accepts it?"""
    for node in tree.body:
        first, last = node.lineno, node.end_lineno
        if last > first and not hasattr(node, "body") and \
                sum([len(line) for line in text.lines[first - 1:last]]) > LONG_STATEMENT:
            return True
    return False


# ---- Analysis -----------------------------------------------------------------------------------

def parts(lines):
    """(first line, last line) of the parts of a long source, each beginning at the left margin.
    Parsing shows whether a part is complete."""
    begin, count = 0, len(lines)
    while begin < count:
        end = begin + PART
        while end < count and (not lines[end] or lines[end][0] in " \t\f#" or
                               lines[end].startswith(LATER)):
            end += 1
        yield begin, min(end, count)
        begin = end


class Compiler:
    """Compiles a whole source, at most once: that takes as long as everything else."""

    def __init__(self, text, is_asked=False):
        self.text, self.is_asked = text, is_asked

    def ask(self):
        if not self.is_asked:
            self.is_asked = True
            ask_compiler(self.text.source, self.text)


def walk_parts(text, walk, compiler):
    """Feeds a long source part by part, so that the whole tree never exists. Returns None, or why the
    analysis is incomplete."""
    start, begin, lines = perf_counter(), None, text.lines
    for first, last in parts(lines):
        begin = first if begin is None else begin
        try:
            # Empty lines before the part keep the line numbers of the parser's warnings right.
            part = "\n" * begin + "\n".join(lines[begin:last]) + "\n"
            tree = compile(part, FILENAME, "exec", FLAGS | ONLY_AST, True)
        except SyntaxError:
            compiler.ask()              # is it wrong, or does it end within a statement?
            if last - begin > 8 * PART:
                return f"the statement at line {begin + 1} is too long to analyse"
            continue                    # together with the next one
        except (RecursionError, MemoryError, ValueError):
            return f"nested too deeply after line {begin + 1}"
        walk.feed(tree)
        if is_long(text, tree):
            compiler.ask()
        tree = begin = None
        seconds = perf_counter() - start
        if seconds * len(lines) > SOON * last:
            compiler.ask()              # it takes long: find out first whether it is valid
        if perf_counter() - start > SECONDS:
            return f"the analysis ran out of time at line {last}"
    if begin is None:
        return None
    return f"the statement at line {begin + 1} is too long to analyse"


def has_long_strings(text, lines):
    """May a string span several lines? Most docstrings do not."""
    if "\\\n" in text or "'\"\"\"'" in text or "\"'''\"" in text:
        return True
    for quotes in '"""', "'''":
        if quotes in text and any([line.count(quotes) & 1 for line in lines if quotes in line]):
            return True
    return False


def count_lines(lines, strings):
    """(all, blank, comment, code). Lines within a string are code."""
    bare = [line.strip() for line in lines]
    if bare and not bare[-1]:
        bare.pop()          # no line follows the last line break
    for first, last in strings or ():
        bare[first:last] = ["x"] * (last - first)
    blank = bare.count("")
    comments = len([line for line in bare if line[:1] == "#"])
    return len(bare), blank, comments, len(bare) - blank - comments


def grade(total, highest):
    if highest <= 10 and total <= 30:
        return "low"
    return "medium" if highest <= 20 and total <= 100 else "high"


def look_for_modules(walk):
    """Advice about imports of modules that are not installed."""
    seen = set()
    for item in walk.found["imports"]:
        top = item["module"].partition(".")[0]
        if item["level"] or top in STDLIB or top in sys.modules or top in seen or not top:
            continue
        seen.add(top)
        if len(seen) > MODULES_MAX:
            return
        try:
            missing = need("importlib.util", "util").find_spec(top) is None
        except Exception:
            continue
        if missing:
            walk.list("recommendations", {
                "rule": "not-installed", "line": item["line"], "column": 1,
                "message": f"the module '{top}' is not installed in this environment: install "
                           "it first, or do without it"})


def analyse(walk, text, complete):
    count, blank, comments, code = count_lines(text.lines, walk.strings)
    names = walk.finish()
    said = {"complete": complete is None, "line_count": count, "blank_lines": blank,
            "comment_lines": comments, "code_lines": code, "character_count": text.characters,
            "byte_count": len(text.source), "estimated_complexity": grade(walk.total, walk.highest),
            "complexity": {"total": max(1, walk.total), "highest": max(1, walk.highest)}}
    if complete is not None:
        said["incomplete"] = complete
    for key in "functions", "classes", "imports":
        said[key] = walk.found[key]
    if names is None or complete is not None:
        said["names"] = {"followed": False, "reason": walk.dynamic or complete, "unbound": []}
    else:
        unbound, total = names
        said["names"] = {"followed": True, "unbound": unbound}
        if total > len(unbound):
            walk.omitted["unbound"] = total - len(unbound)
    if walk.omitted:
        said["omitted"] = walk.omitted
    return said


def count_characters(lines, walk, analysis):
    """Converts columns from bytes of UTF-8, as in a tree, to characters."""
    unbound = analysis.get("names", {}).get("unbound", ())
    for item in (*walk.found["violations"], *walk.found["recommendations"], *unbound):
        if item["column"] > 1 and 0 < item["line"] <= len(lines):
            head = lines[item["line"] - 1].encode("utf-8", "replace")[:item["column"] - 1]
            item["column"] = len(head.decode("utf-8", "ignore")) + 1


# ---- The whole ----------------------------------------------------------------------------------

def note_warnings(caught, walk):
    """Lists each warning once: the parser may have read the source twice."""
    said = {(item.lineno, f"{item.category.__name__}: {item.message}") for item in caught}
    for line, message in sorted(said)[:WARNINGS_MAX]:
        walk.list("recommendations", {"rule": "warning", "line": line, "column": 1,
                                      "message": clip(message, LINE_MAX)})


def examine(text, walk):
    """Parses, walks, and compiles if in doubt. Returns (None or why the analysis is incomplete, tree)."""
    source = text.source
    if b"\0" in source:
        raise Refused(null_byte(source, text.lines))
    if text.is_big:
        compiler = Compiler(text)
        if not text.is_ascii:
            compiler.ask()              # the compiler reads bytes, but parts are read as text
        incomplete = walk_parts(text, walk, compiler)
        if incomplete or walk.doubt or text.longest > LONG_LINE or b"__debug__" in source:
            compiler.ask()
        return incomplete, None
    tree, source = parse(text, walk)
    if tree is None:
        ask_compiler(source, text)
        return "the code is nested too deeply to analyse", None
    walk.feed(tree)
    if b"global_enum" in source:
        walk.dynamic = walk.dynamic or "global_enum is used"
    if walk.doubt or text.longest > LONG_LINE or b"__debug__" in source or is_long(text, tree):
        ask_compiler(source, text)
    return None, tree


class Unsettled:
    tree = None
    collects = False        # the garbage collector was on before the check


Unsettled = Unsettled()


def settle():
    """Frees the tree of a check when its answer has been sent. Until then the garbage collector stays off: it
    would visit the whole tree."""
    Unsettled.tree = None
    if Unsettled.collects:
        Unsettled.collects = False
        gc_enable()


def check(source, policy=None, lint=False):
    """Checks a source; returns a dict for JSON."""
    if type(source) is str:
        source = source.encode("utf-8", "surrogatepass")
    policy = policy if isinstance(policy, Policy) else Policy(policy)
    text = Text(source)
    walk = Walk(policy, text.has_long_strings)
    error = complete = tree = None
    collects = gc_is_enabled()
    gc_disable()            # a tree has thousands of new objects, none of them garbage
    try:
        with need("warnings", "catch_warnings")(record=True) as caught:
            need("warnings", "simplefilter")("always")
            try:
                complete, tree = examine(text, walk)
            except Refused as exc:
                error = exc.args[0]
        if caught:
            note_warnings(caught, walk)
        if policy.mode == "restricted" and error is None:
            judge_restricted(source, tree, walk)
        if error is None:
            look_for_modules(walk)
            analysis = analyse(walk, text, complete)
        else:
            count, blank, comments, code = count_lines(text.lines, None)
            analysis = {"complete": False, "incomplete": "the code has a syntax error",
                        "line_count": count, "blank_lines": blank, "comment_lines": comments,
                        "code_lines": code, "character_count": text.characters,
                        "byte_count": len(source)}
    finally:
        # The tree is freed after the answer: see settle().
        Unsettled.tree, Unsettled.collects = tree, Unsettled.collects or collects
    if not text.is_ascii:
        count_characters(text.lines, walk, analysis)
    answer = {"valid": error is None and not walk.found["violations"], "error": error,
              "violations": walk.found["violations"], "analysis": analysis,
              "recommendations": walk.found["recommendations"], "policy": policy.summary(),
              "python": "%d.%d.%d" % sys.version_info[:3]}
    if lint:
        answer["lint"] = run_ruff(source)
    return answer


def judge(source, policy):
    """Only the violations, before a run; none if the source is invalid: the run reports that."""
    text, walk = Text(source), Walk(policy, False)
    try:
        with need("warnings", "catch_warnings")():
            need("warnings", "simplefilter")("ignore")
            if text.is_big:
                walk_parts(text, walk, Compiler(text, is_asked=True))
            else:
                tree, _ = parse(text, walk)
                if tree is not None:
                    walk.feed(tree)
    except Refused:
        return []
    return walk.found["violations"]


def judge_restricted(source, tree, walk):
    """Lists what restricted mode refuses. Comes last: it changes the tree."""
    for entry in Box.rich.own("restricted").violations(source, tree, walk.policy):
        walk.list("violations", entry)
