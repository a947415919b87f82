# SPDX-License-Identifier: Apache-2.0
"""report: describes a value or an error for the answer to a run.

Called by runner.py and display.py in the user process of a box, beside user code and under the rules
of runner.py: a repr may raise, an exception may lie, and the standard library may be broken.
"""

import sys
from itertools import islice
from sys import modules

from base import __builtins__           # first: functions look builtins up there
from base import Box, HERE, LINE_MAX, MESSAGE_MAX, TEXT_MAX
from base import clip, fill_linecache, is_own_file, lines_of, need, to_json

FRAMES_MAX = 64             # entries of error.traceback: the outer half and the inner half
NAMED_ITEMS = 101           # items in the result for callers that show 100 of them
DEPTH_MAX = 1000            # frames in the text of a traceback, the innermost, as in CPython


def plain(value, depth=16):
    """A value as json.dumps() accepts it: subclasses become plain types, number keys become strings; long
    ones are cut to one item more than is shown."""
    if isinstance(value, (bool, type(None))) or depth == 0:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (int, float)):
        return (int if isinstance(value, int) else float).__add__(value, 0)
    if isinstance(value, (list, tuple)):
        return [plain(item, depth - 1) for item in islice(value, NAMED_ITEMS)]
    if isinstance(value, dict):
        return {str(key) if type(key) in (int, float) else key: plain(item, depth - 1)
                for key, item in islice(value.items(), NAMED_ITEMS)}
    return value


def describe_value(value, answer):
    try:
        # Callers with named results expect str().
        text = str(value) if Box.named else (Box.pretty or repr)(value)
    except Exception as exc:
        text = f"<repr failed: {type_name(exc)}: {message_of(exc)}>"
    answer["result"] = clip(text, TEXT_MAX)
    try:
        answer["result_json"] = to_json(plain(value) if Box.named else value)
        return
    except Exception:
        pass                # not JSON, or another thread changes it
    if Box.rich is not None:            # JSON needs no other display
        Box.rich.show_value(value)


def type_name(exc):
    module, name = type(exc).__module__, type(exc).__qualname__
    return clip(name if module in ("builtins", "__main__") else f"{module}.{name}", LINE_MAX)


def message_of(exc):
    try:
        return clip(str(exc), MESSAGE_MAX)
    except Exception:
        return "<exception str() failed>"


def line_at(filename, number):
    """One source line with its indentation, which columns count; None if unknown."""
    try:
        if filename in Box.sources:
            line = lines_of(filename)[number - 1]
        else:
            line = need("linecache", "getline")(filename, number)
        return line.rstrip("\r\n") or None
    except Exception:
        return None


def column_of(tb, line):
    """The column, from 1 in characters; None before CPython 3.11, which records no columns."""
    if line is not None and sys.version_info >= (3, 11):
        for position in islice(tb.tb_frame.f_code.co_positions(), tb.tb_lasti // 2, None):
            if position[2] is not None:         # from 0 in bytes of UTF-8
                return len(line.encode()[:position[2]].decode("utf-8", "ignore")) + 1
            break
    return None


def user_frames(tb):
    """The frames in files of user code, outermost first."""
    found, frames = [], []
    while tb is not None:
        filename = tb.tb_frame.f_code.co_filename
        if filename in Box.sources or is_own_file(filename):
            found.append(tb)
        tb = tb.tb_next
    if len(found) > FRAMES_MAX:
        del found[FRAMES_MAX // 2:-FRAMES_MAX // 2]
    for tb in found:
        code, number = tb.tb_frame.f_code, tb.tb_lineno
        line = line_at(code.co_filename, number)
        frames.append({"file": clip(code.co_filename, LINE_MAX), "line": number,
                       "column": column_of(tb, line), "function": clip(code.co_name, LINE_MAX),
                       "code_line": line and clip(line, LINE_MAX)})
    return frames


def traceback_text(exc, tb):
    """What python3 prints for the exception, without our frames."""
    try:
        if "linecache" in modules:
            fill_linecache(modules["linecache"], Box.sources)
        shown = need("traceback", "TracebackException")(type(exc), exc, tb, limit=-DEPTH_MAX)
        todo = [shown]
        for item in todo:   # grows in the loop
            item.stack[:] = [frame for frame in item.stack if not frame.filename.startswith(HERE)]
            linked = item.__cause__, item.__context__, *(getattr(item, "exceptions", None) or ())
            todo += [other for other in linked if other is not None]
        text = "".join(shown.format() if tb is not None else shown.format_exception_only())
    except Exception:       # user code broke traceback, or memory is short
        text = "".join([f'  File "{frame["file"]}", line {frame["line"]}, in {frame["function"]}\n'
                        f'    {(frame["code_line"] or "").strip()}\n' for frame in user_frames(tb)])
        text = f"Traceback (most recent call last):\n{text}{type_name(exc)}: {message_of(exc)}\n"
    return clip(text, TEXT_MAX, tail=TEXT_MAX // 2)     # the end names the exception


def describe_error(exc, filename, phase):
    tb = exc.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename != filename:
        tb = tb.tb_next     # the runner and, around a coroutine, asyncio
    frames = user_frames(tb)
    inner = frames[-1] if frames else {}
    error = {"type": type_name(exc), "message": message_of(exc)}
    if isinstance(exc, OSError) and type(exc.errno) is int:
        error["errno"] = exc.errno      # shows the gate which limit was met
    for key in "line", "column", "code_line":
        error[key] = inner.get(key)
    if phase == "syntax_check" and isinstance(exc, SyntaxError):
        if exc.lineno == 0:             # an error of the whole source, such as its encoding
            exc.lineno = exc.offset = None
        line = exc.text or line_at(filename, exc.lineno)
        exc.text = line     # errors of the compiler lack the line
        error.update(message=clip(exc.msg, MESSAGE_MAX), line=exc.lineno, column=exc.offset or None,
                     code_line=line and clip(line.rstrip("\r\n"), LINE_MAX))
    error.update(traceback=frames, text=traceback_text(exc, tb), reported=call_excepthook(exc, tb))
    return error


def call_excepthook(exc, tb):
    """True if user code has its own hook and that worked: then the error is not printed again."""
    hook = getattr(sys, "excepthook", None)
    if hook is None or hook is Box.excepthook:
        return False
    try:
        hook(type(exc), exc, tb)
        return True
    except BaseException as failure:
        complain(hook, failure)
        return False


def complain(where, exc):
    """Prints an error that is not the run's on stderr, as CPython does, and ignores it."""
    try:
        text = traceback_text(exc, exc.__traceback__)
        sys.stderr.write(f"Exception ignored in: {where!r}\n{text}")
    except Exception:
        pass
