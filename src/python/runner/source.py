# SPDX-License-Identifier: Apache-2.0
"""source: from the text of a run to code objects, and to a value.

Called by runner.py in the user process of a box. A text that does not compile may have lines of IPython
(%time f(), !ls): notebook.py makes Python of them.
"""

from base import __builtins__           # first: functions look builtins up there
from base import Box, need, remember

ONLY_AST, TOP_LEVEL_AWAIT, COROUTINE = 0x400, 0x2000, 0x80
FUTURES = 0x1FE0000         # the bits of `from __future__` in co_flags, unchanged since 3.9
COOKIE = (rb"(?:\xef\xbb\xbf)?(?:[ \t\f]*(?:#[^\r\n]*)?(?:\r\n?|\n))??"
          rb"[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)")
WRONG = SyntaxError, IndentationError, TabError
SIGNS = b"%", b"!", b"?", b"pip", b"conda", b"mamba"    # a text without any of them has no command
BARED_MAX = 3               # attempts: as it is, without prompts, without common indentation

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
        return compile_tree(tree, filename, flags, lambda last: b";" in source and is_quiet(source, last))
    except (RecursionError, MemoryError):
        pass                # a tree needs more of both than the compiler does
    return [compile(source, filename, "exec", flags, True)]


def compile_tree(tree, filename, flags, is_hidden):
    """The same from a syntax tree. is_hidden(node) says whether the value of the last expression is hidden."""
    body, steps = tree.body, []
    last = body.pop() if body and type(body[-1]) is need("_ast", "Expr") else None
    if body or last is None:
        steps.append(compile(tree, filename, "exec", flags, True))
        flags |= steps[0].co_flags & FUTURES
    if last is not None:
        tree = need("_ast", "Expression")(last.value)
        steps.append(compile(tree, filename, "eval", flags, True))
        if is_hidden(last):
            steps.append(None)
    Box.futures = flags & FUTURES
    return steps


# ---- Notebooks -----------------------------------------------------------------------------------

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
    if not any([sign in source for sign in SIGNS]):
        raise error
    return Box.rich.own("notebook").to_steps(source, filename, error, compiler)
