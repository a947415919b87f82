# SPDX-License-Identifier: Apache-2.0
"""source: from the text of a run to code objects, and to a value.

Called by runner.py in the user process of a box. Text that does not compile is searched for notebook
commands (%matplotlib inline, !ls), which models write out of habit: needless ones are left out with a
note, others get an error that says what to write instead.
"""

import sys

from base import __builtins__           # first: functions look builtins up there
from base import Box, LINE_MAX, clip, need, remember

ONLY_AST, TOP_LEVEL_AWAIT, COROUTINE = 0x400, 0x2000, 0x80
FUTURES = 0x1FE0000         # the bits of `from __future__` in co_flags, unchanged since 3.9
COOKIE = (rb"(?:\xef\xbb\xbf)?(?:[ \t\f]*(?:#[^\r\n]*)?(?:\r\n?|\n))??"
          rb"[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)")
MAGICS_MAX = 100            # notebook commands in a text; each costs a compilation
WRONG = SyntaxError, IndentationError, TabError
BARED_MAX = 3               # attempts: as it is, without prompts, without common indentation

# Magics that have no effect here: name -> reason.
NEEDLESS = {
    "matplotlib": "figures are shown without it",
    "pylab": "figures are shown without it; import numpy and matplotlib.pyplot by name",
    "config": "there is no IPython to configure",
    "load_ext": "there is no IPython to extend",
    "reload_ext": "there is no IPython to extend",
    "autoreload": "use importlib.reload() after a module has changed",
}
TIMING = "measure with time.perf_counter() or the module timeit"
SHELL = "use subprocess.run([...], capture_output=True, text=True), or os and pathlib for files"
INSTALL = ("code cannot install packages; use the installed ones "
           "(importlib.metadata.distributions() lists them)")
# Hints for other magics; SHELL and PLAIN for those that are not listed.
INSTEAD = {
    "time": TIMING, "timeit": TIMING, "prun": "use the module cProfile",
    "pip": INSTALL, "conda": INSTALL, "mamba": INSTALL, "uv": INSTALL,
    "cd": "use os.chdir()", "pwd": "use os.getcwd()", "ls": "use os.listdir()",
    "cat": "use open(path).read()", "mkdir": "use os.makedirs()", "env": "use os.environ",
    "who": "use dir()", "who_ls": "use dir()", "reset": "use del",
    "run": "use runpy.run_path(path)", "writefile": "use open(path, 'w').write(text)",
    "bash": SHELL, "sh": SHELL, "script": SHELL, "system": SHELL, "sx": SHELL,
    "capture": "use contextlib.redirect_stdout()", "debug": "use print() or the module traceback",
    "html": "use display() with an object that has _repr_html_()",
}
PLAIN = "write it in plain Python"


# ---- Compiling ----------------------------------------------------------------------------------

def lines_in(source):
    """Lines as the compiler counts them."""
    return source.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")


def is_utf8(source):
    try:
        return source.decode() is not None
    except UnicodeDecodeError:
        return False


def recoded(source, filename):
    """(UTF-8 source to show, source to compile) of a source with the word "coding". An encoding in a comment
    (PEP 263) holds for files; in code that came as text it means nothing, as with -c."""
    is_text, found = filename.startswith("<code"), None
    try:
        match = need("re", "match")
        found = match(COOKIE, source)
        name = found and found[1].decode()
        if not found or not is_text and need("codecs", "lookup")(name).name == "utf-8":
            return source, source
        text = source if is_text and is_utf8(source) else source.decode(name).encode()
        start, end = match(COOKIE, text).span(1)
    except Exception:       # unknown encoding, or invalid bytes: the compiler reports it better
        return source, source
    name = b"u8" if 1 < end - start < 5 else b"utf-8"       # same length: columns stay the same
    return text, text[:start] + name.ljust(end - start) + text[end:]


def is_quiet(source, last):
    """Does a semicolon follow the last expression? Then its value is not shown, as in notebooks."""
    lines = lines_in(source)
    tail = [lines[last.end_lineno - 1][last.end_col_offset:], *lines[last.end_lineno:]]
    # Only brackets, blanks and comments can follow.
    return any([b";" in line.partition(b"#")[0] for line in tail])


def compile_steps(source, filename):
    """One or two code objects, the last of which gives the result; a final None hides the result."""
    flags = TOP_LEVEL_AWAIT | Box.futures
    if b"\n" not in source.strip():
        # A single expression needs no syntax tree, which would cost a cold start 1-2 ms.
        try:
            return [compile(source, filename, "eval", flags, True)]
        except (SyntaxError, RecursionError, MemoryError):
            pass
    return compile_body(source, filename)


def compile_body(source, filename):
    """The same for more than one expression."""
    flags = TOP_LEVEL_AWAIT | Box.futures
    try:
        tree = compile(source, filename, "exec", flags | ONLY_AST, True)
        body, steps = tree.body, []
        last = body.pop() if body and type(body[-1]) is need("_ast", "Expr") else None
        if body or last is None:
            steps.append(compile(tree, filename, "exec", flags, True))
            flags |= steps[0].co_flags & FUTURES
        if last is not None:
            tree = need("_ast", "Expression")(last.value)
            steps.append(compile(tree, filename, "eval", flags, True))
            if b";" in source and is_quiet(source, last):
                steps.append(None)
        Box.futures = flags & FUTURES
        return steps
    except (RecursionError, MemoryError):
        pass                # a tree needs more of both than the compiler does
    return [compile(source, filename, "exec", flags, True)]


# ---- Notebook commands --------------------------------------------------------------------------

def name_of(command):
    """`%%time x` -> "time"; for a shell command its first word."""
    words = command.lstrip("%!").split(None, 1)
    return words[0] if words else ""


def refusal(line):
    """The error text for a notebook command; None if the line is none."""
    if line.startswith("%"):
        name = name_of(line)
        return (f"IPython magics such as '{clip(line, 60)}' are not available here: "
                f"{INSTEAD.get(name, PLAIN)}") if name.isidentifier() else None
    if line.startswith("!"):
        name = name_of(line)
        advice = INSTALL if name in ("pip", "pip3", "conda", "mamba", "uv") else SHELL
        return f"shell commands such as '{clip(line, 60)}' are not available here: {advice}"
    if "?" in (line[:1], line[-1:]) and line.strip("?").replace(".", "").isidentifier():
        return f"'{clip(line, 60)}' is not available here: use help() or inspect.getsource()"
    target, _, command = line.partition("=")        # files = !ls
    return refusal(command.strip()) if target.strip().isidentifier() else None


def leave_out(line, number):
    try:
        text = line.strip().decode("utf-8", "replace")
        sys.stderr.write(f"note: line {number}, '{clip(text, LINE_MAX)}', was left out: "
                         f"{NEEDLESS[name_of(text)]}\n")
    except Exception:
        pass                # no stderr


def compile_notebook(source, filename, error, compiler):
    """Compiles a text that raised the error again, without its needless magics.

    The compiler's error names the line, so a line of a string or formula that looks like a magic is
    never removed.
    """
    lines, left_out = lines_in(source), []
    for _ in range(MAGICS_MAX):
        number = error.lineno
        if type(number) is not int or not 1 <= number <= len(lines):
            raise error
        line = lines[number - 1]
        text = line.strip().decode("utf-8", "replace")
        if not (text.startswith("%") and name_of(text) in NEEDLESS):
            message = refusal(text)
            if message is None:
                raise error
            raise SyntaxError(message, (filename, number, len(line) - len(line.lstrip()) + 1,
                                        line.decode("utf-8", "replace"))) from None
        left_out.append((line, number))
        # `pass`, because a block may contain nothing else.
        lines[number - 1] = line[:len(line) - len(line.lstrip())] + b"pass"
        try:
            steps = compiler(b"\n".join(lines), filename)
        except WRONG as exc:
            if type(exc) not in WRONG:
                raise
            error = exc
            continue
        for line, number in sorted(left_out, key=lambda item: item[1]):
            leave_out(line, number)
        return steps
    raise error


def bared(source, error):
    """Removes prompts (>>>) or common indentation, as notebooks do; returns the same source if that is not the
    error."""
    lines = lines_in(source)
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith(b">>>"):
        return b"\n".join([line[4:] if line[:4].rstrip() in (b">>>", b"...") else line for line in lines])
    blanks = lines[first][:len(lines[first]) - len(lines[first].lstrip())]
    if type(error) is not IndentationError or error.lineno != first + 1 or not blanks:
        return source
    return b"\n".join([line[len(blanks):] if line.startswith(blanks) else line for line in lines])


def to_steps(source, filename, compiler=compile_steps):
    for _ in range(BARED_MAX):
        try:
            return compiler(source, filename)
        except WRONG as exc:
            if type(exc) not in WRONG:
                raise           # a policy refused valid Python
            error = exc
        plain = bared(source, error) if Box.session else source
        if plain == source:
            break
        source = plain
        remember(filename, source)
    if b"%" not in source and b"!" not in source and b"?" not in source:
        raise error
    return compile_notebook(source, filename, error, compiler)
