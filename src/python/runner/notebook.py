# SPDX-License-Identifier: Apache-2.0
"""notebook: finds IPython's lines in a text (%time f(), !ls, name?) and makes Python of them.

source.py and check.py import this module when a text did not compile, so valid Python never comes here
and costs nothing. A command is a whole logical line: one inside a string, inside brackets or behind a
backslash is left alone. Every command becomes Python on the line where it stood, so that errors keep the
user's line numbers; shell.py runs it. The rules are those of IPython's input transformer, and two more:
comments may precede a `%%` line, and `pip install x` needs no percent sign.
"""

import sys

from base import __builtins__           # first: functions look builtins up there
from base import Box, LINE_MAX, clip, need
from source import ONLY_AST, TOP_LEVEL_AWAIT, WRONG, compile_body, compile_steps, compile_tree

COMMANDS_MAX = 10_000       # in one text
NAME = r"%{0,2}(?!\d)[\w*.]+(?:\[[\w'\"-]+\])*(?:\.[\w*.]+)?"
# Cell magics whose body is Python, and line magics whose rest is.
PYTHON_CELLS = frozenset(("time", "timeit", "capture", "prun"))
PYTHON_LINES = frozenset(("time", "timeit", "prun", "memit", "lprun", "mprun"))
# Commands that make names which the text does not show.
MAKES_NAMES = frozenset(("run", "pylab", "load_ext", "load", "sql", "store", "script"))
# The module that a command stands for, under a policy of imports.
NEEDS = {
    "bash": "subprocess", "sh": "subprocess", "script": "subprocess", "system": "subprocess",
    "sx": "subprocess", "cd": "os", "pwd": "os", "env": "os", "set_env": "os", "run": "runpy",
}
FILES = frozenset("""ls ll lx la cat cp mv rm mkdir rmdir head tail wc grep touch echo less more man
    pycat find""".split())
NEEDS.update(dict.fromkeys(FILES, "subprocess"))
# Without a percent sign, where no other reading is valid Python.
BARE = r"(pip3?|conda|mamba) +(install|uninstall|list|show|freeze|--version)\b"
# A command of the shell that installs packages.
INSTALLS = r"(?:python3? +-m +)?(?:pip3?|conda|mamba|uv +pip) +install\b"


class Command:
    """One command: `first` and `last` are its line numbers, sign is % %% ! !! ? or ??."""
    __slots__ = "first", "last", "indent", "target", "sign", "name", "rest"

    def __init__(self, first, last, indent, target, sign, name, rest):
        self.first, self.last, self.indent, self.target = first, last, indent, target
        self.sign, self.name, self.rest = sign, name, rest

    def is_needless(self):
        return self.sign == "%" and self.name in NEEDLESS

    def __str__(self):
        return clip(f"{self.sign}{self.name} {self.rest}".strip() if self.name else
                    f"{self.sign}{self.rest}", 60)


class Patterns:
    token = None


Patterns = Patterns()


def compile_patterns():
    """Not at import: a cold start has no module re yet."""
    make = need("re", "compile")
    Patterns.string = {quote: make(r"\\.|" + quote) for quote in ("'", '"', "'''", '"""')}
    Patterns.help = make(rf"(\?\??)\s*({NAME})\s*|({NAME})\s*(\?\??)\s*")
    Patterns.bare, Patterns.installs = make(BARE), make(INSTALLS)
    Patterns.target = make(r"[\w\s,.*()\[\]'\"]+")
    Patterns.magic = make(r"[\w.\-]*")
    Patterns.token = make(
        r"""\#.* | '''|\""" | '(?:[^'\\]|\\.)*'? | "(?:[^"\\]|\\.)*"? | [(\[{] | [)\]}]""",
        need("re", "VERBOSE"))


# ---- Finding ------------------------------------------------------------------------------------

class Scanner:
    """Follows strings, brackets and backslashes from line to line."""
    def __init__(self):
        self.quote, self.depth, self.goes_on = "", 0, False

    def is_at_start(self):
        """Does the next line begin a logical line?"""
        return not (self.quote or self.depth or self.goes_on)

    def feed(self, line):
        at = 0
        self.goes_on = line.endswith("\\")
        if self.quote:
            at = self.end_of_string(line, 0)
        while at is not None:
            match = Patterns.token.search(line, at)
            if match is None:
                return
            text, at = match[0], match.end()
            if text[0] == "#":
                self.goes_on = False
                return
            if text in "([{":
                self.depth += 1
            elif text in ")]}":
                self.depth = max(0, self.depth - 1)
            elif text in ("'''", '"""'):
                self.quote = text
                at = self.end_of_string(line, at)
            elif (len(text) == 1 or text[-1] != text[0]) and self.goes_on:
                self.quote = text[0]    # a backslash takes it to the next line
                return

    def end_of_string(self, line, at):
        """The position behind the end of the open string; None if it goes on."""
        for match in Patterns.string[self.quote].finditer(line, at):
            if match[0] == self.quote:
                self.quote = ""
                return match.end()
        if len(self.quote) == 1 and not self.goes_on:
            self.quote = ""             # an error; the compiler reports it
        return None


def command_of(text):
    """(target, sign, name, rest) of a logical line; None if it is no command."""
    if text[0] in "!%?":
        return ("", *split(text))
    if text.endswith("?"):
        match = Patterns.help.fullmatch(text)
        if match:
            return "", match[4], "", match[3]
    at = text.find("=")
    if at > 0 and text[at + 1:].lstrip()[:1] in ("!", "%"):
        target, found = text[:at].strip(), split(text[at + 1:].lstrip())
        if Patterns.target.fullmatch(target) and found[0] in ("!", "!!", "%"):
            return (target, *found)
    if Patterns.bare.match(text):
        name, _, rest = text.partition(" ")
        return "", "%", name, rest.strip()
    return None


def split(text):
    """(sign, name, rest) of a text that begins with a sign."""
    sign = text[:2] if text[:2] in ("%%", "!!", "??") else text[0]
    rest = text[len(sign):].strip()
    if sign[0] == "?":
        return sign, "", rest
    if sign[0] == "!":
        return sign, "", rest
    name = Patterns.magic.match(rest)[0]
    if rest[len(name):].rstrip("?") == "" and rest.endswith("?"):
        return "??" if rest.endswith("??") else "?", "", sign + name    # %time?
    return sign, name, rest[len(name):].strip()


def find_cell(lines):
    """The command of a text whose first line, blank lines and comments aside, begins with %%."""
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text[:2] == "%%" and line[:2] == "%%":
            sign, name, rest = split(text)
            return Command(number, len(lines), "", "", sign, name, rest) if sign == "%%" else None
        if text and text[0] != "#":
            return None
    return None


def find(text):
    """The commands of a text, in its order."""
    if Patterns.token is None:
        compile_patterns()
    lines = text.split("\n")
    cell = find_cell(lines)
    if cell is not None:
        return lines, [cell]
    commands, scanner, number = [], Scanner(), 0
    while number < len(lines):
        line = lines[number]
        number += 1
        text = line.strip()
        if not text or not scanner.is_at_start():
            scanner.feed(line)
            continue
        found, first = None, number
        if text[0] in "!%?":
            # A backslash takes a command to the next line.
            while text.endswith("\\") and number < len(lines):
                text = f"{text[:-1].rstrip()} {lines[number].strip()}"
                number += 1
        if text[0] in "!%?" or text[-1] == "?" or "=" in text or text[0] in "pcm":
            found = command_of(text)
        if found is None:
            scanner.feed(line)
            continue
        if found[0] and found[1][0] == "!" or found[0] and found[1] == "%":
            while text.endswith("\\") and number < len(lines):
                text = f"{text[:-1].rstrip()} {lines[number].strip()}"
                number += 1
            found = command_of(text)
        if found[1] == "%%":            # not on the first line: shell.py raises the error
            found = "", "%", "%" + found[2], found[3]
        commands.append(Command(first, number, line[:len(line) - len(line.lstrip())], *found))
        if len(commands) > COMMANDS_MAX:
            raise SyntaxError(f"more than {COMMANDS_MAX} notebook commands in one text")
    return lines, commands


# ---- Python -------------------------------------------------------------------------------------

def body_of(cell, lines):
    body = "\n".join(lines[cell.first:])
    return body + "\n" if body and not body.endswith("\n") else body


def call_of(command, lines):
    """The Python for a command."""
    sign, name, rest = command.sign, command.name, command.rest
    if sign == "%%":
        return f"get_ipython().run_cell_magic({name!r}, {rest!r}, {body_of(command, lines)!r})"
    if sign == "!" and not command.target:
        return f"get_ipython().system({rest!r})"
    if sign[0] == "!":
        return f"get_ipython().getoutput({rest!r})"
    if sign[0] == "?":
        return f"get_ipython().run_line_magic({'pinfo2' if sign == '??' else 'pinfo'!r}, {rest!r})"
    return f"get_ipython().run_line_magic({name!r}, {rest!r})"


def replace(lines, commands, make):
    """The lines with make(command) instead of each command."""
    lines = [*lines]
    for command in commands:
        text = make(command)
        if command.sign != "%%":
            lines[command.first - 1:command.last] = \
                [command.indent + (f"{command.target} = " if command.target else "") + text] + \
                [""] * (command.last - command.first)
        else:
            lines[command.first - 1] = text
    return lines


def to_python(lines, commands):
    """The text to compile for a run."""
    if commands[0].sign == "%%":
        cell = commands[0]
        return "\n" * (cell.first - 1) + call_of(cell, lines) + "\n"
    return "\n".join(replace(lines, commands, lambda command: call_of(command, lines)))


def harmless(command):
    """Python with the same names as the command, for a text that is looked at and not run."""
    if command.sign == "%" and command.name in PYTHON_LINES and not command.target:
        rest = statement_of(command.rest)
        try:
            compile(rest, "<code>", "exec", TOP_LEVEL_AWAIT | ONLY_AST, True)
            return rest or "pass"
        except (SyntaxError, ValueError):
            return "pass"
    if command.sign == "%%" and command.name == "capture":
        words = [word for word in command.rest.split() if word.isidentifier()]
        return f"{words[0]} = None" if words else "pass"
    return "None" if command.target else "pass"


def statement_of(rest):
    """What follows the options of %timeit."""
    words = rest
    while words.startswith("-"):
        option, _, words = words.partition(" ")
        if option in ("-n", "-r", "-p", "-m"):
            words = words.lstrip().partition(" ")[2]
        words = words.lstrip()
    return words


def to_look_at(lines, commands):
    """(text, commands) to check instead of a run: the Python that the commands contain is in it."""
    if commands[0].sign != "%%":
        return "\n".join(replace(lines, commands, harmless)), commands
    cell = commands[0]
    if cell.name not in PYTHON_CELLS:
        return "\n" * (cell.first - 1) + "pass\n", commands
    head = [""] * (cell.first - 1) + [harmless(cell)]
    body = [""] * cell.first + lines[cell.first:]
    try:
        compile("\n".join(body), "<code>", "exec", TOP_LEVEL_AWAIT | ONLY_AST, True)
        return "\n".join(head + lines[cell.first:]), commands
    except (SyntaxError, ValueError):
        pass
    inner_lines, inner = find("\n".join(body))
    if not inner:
        return "\n".join(head + lines[cell.first:]), commands
    text, inner = to_look_at(inner_lines, inner)
    return "\n".join(head + text.split("\n")[cell.first:]), commands + inner


def spot(tree, commands, lines):
    """Gives the nodes of each command the columns of the user's line."""
    spans = {}
    for command in commands:
        line = lines[command.first - 1]
        spans[command.first] = len(line) - len(line.lstrip()), len(line.encode())
    todo = [*tree.body]
    for node in todo:       # grows in the loop
        span = spans.get(getattr(node, "lineno", None))
        if span is not None and node.end_lineno == node.lineno:
            node.col_offset, node.end_col_offset = span
        for field in node._fields:
            value = getattr(node, field, None)
            todo += [item for item in (value if type(value) is list else (value,))
                     if hasattr(item, "_fields")]


def is_hidden(commands, lines):
    """Does the text end with a command that ends with a semicolon?"""
    last = commands[-1]
    return last.sign != "%%" and last.rest.endswith(";") and not any([line.strip() for line in lines[last.last:]])


# ---- For check.py --------------------------------------------------------------------------------

def module_for(command):
    """The module that a policy has to allow for the command, or None."""
    is_pip = Patterns.installs.match(f"{command.name} {command.rest}".strip())
    return None if is_pip else "subprocess" if command.sign[0] == "!" else NEEDS.get(command.name)


def advice_on(command):
    reason = NEEDLESS.get(command.name) if command.sign == "%" else None
    return f"; it has no effect here: {reason}" if reason else ""


# ---- For source.py -------------------------------------------------------------------------------

# Commands that need nothing here: name -> what is said about them; None: nothing.
NEEDLESS = {
    "matplotlib": None, "config": None, "reload_ext": "there is nothing to reload",
    "load_ext": "nothing has to be loaded here",
    "autoreload": "use importlib.reload() after a module has changed",
}


def text_of(source):
    """The text as the compiler reads it; None if it is not UTF-8."""
    try:
        text = source.decode()
    except UnicodeDecodeError:
        return None
    return text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def leave_out(command):
    reason = NEEDLESS[command.name]
    if reason is not None:
        try:
            sys.stderr.write(f"note: line {command.first}, '{command}', was left out: {reason}\n")
        except Exception:
            pass            # no stderr


def restricted_steps(lines, commands, filename, compiler):
    """Under a policy that transforms the code there are no commands but needless ones."""
    for command in commands:
        if not command.is_needless():
            raise SyntaxError(f"notebook commands such as '{command}' are not available in restricted "
                              "mode: write it in plain Python",
                              (filename, command.first, len(command.indent) + 1,
                               clip(lines[command.first - 1], LINE_MAX))) from None
    steps = compiler("\n".join(replace(lines, commands, lambda command: "pass")).encode(), filename)
    for command in commands:
        leave_out(command)
    return steps


def to_steps(source, filename, error, compiler):
    """The code objects of a text that raised the error; raises it again if the text has no commands."""
    text = text_of(source)
    lines, commands = find(text) if text is not None else ([], [])
    if not commands:
        raise error
    if compiler not in (compile_steps, compile_body):
        return restricted_steps(lines, commands, filename, compiler)
    flags = TOP_LEVEL_AWAIT | Box.futures
    try:
        tree = compile(to_python(lines, commands), filename, "exec", flags | ONLY_AST, True)
        spot(tree, commands, lines)
        return compile_tree(tree, filename, flags, lambda last: is_hidden(commands, lines))
    except WRONG as exc:
        if type(exc.lineno) is int and 1 <= exc.lineno <= len(lines):
            if exc.lineno in [command.first for command in commands]:
                exc.offset = exc.end_offset = None
            exc.text = lines[exc.lineno - 1]
        raise exc from None
