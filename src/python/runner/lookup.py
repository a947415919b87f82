# SPDX-License-Identifier: Apache-2.0
"""lookup: name?, name?? and np.*load*?: describes objects for magics.py. It prints, because a run has no pager."""

import builtins
import sys

from base import __builtins__           # first: functions look builtins up there
from base import LINE_MAX, clip, need
from report import message_of, type_name
from shell import UsageError, names_at

TEXT_MAX = 16 * 1024        # characters of a docstring or a source
VALUE_MAX = 200             # of a value
NAMES_MAX = 200             # names that match a pattern


def find(text, frame):
    """The object that an expression such as a.b[0] names."""
    name = text.strip().rstrip("()")
    if not name:
        raise UsageError("the name of an object is missing, as in print? or np.array?")
    try:
        return eval(name, {"__builtins__": builtins}, names_at(frame))
    except (NameError, AttributeError, SyntaxError, LookupError):
        raise UsageError(f"Object `{clip(name, 60)}` not found.") from None


def signature_of(value, name):
    try:
        return f"{name}{need('inspect', 'signature')(value)}"
    except Exception:
        return None         # no function, or one of C without a signature


def doc_of(value):
    try:
        text = need("inspect", "getdoc")(value)
        return text if isinstance(text, str) else None
    except Exception:
        return None


def file_of(value):
    try:
        return need("inspect", "getfile")(value)
    except Exception:
        return None


def source_of(text, frame):
    value = find(text, frame)
    try:
        return clip(need("inspect", "getsource")(value), TEXT_MAX)
    except (TypeError, OSError):
        raise UsageError(f"no source of '{clip(text, 60)}' was found: it may be written in C") from None


def describe(shell, text, frame, with_source=False):
    """Prints what an object is."""
    if text.startswith("%"):
        return describe_magic(shell, text)
    if not text.strip():
        print("name? describes an object, name?? also shows its source, np.*load*? lists names.\n"
              "%lsmagic lists the commands, %magic describes them.")
        return
    value, name, rows = find(text, frame), text.strip().rpartition(".")[2], []
    is_callable = callable(value)
    if is_callable:
        rows.append(("Signature" if not isinstance(value, type) else "Init signature",
                     signature_of(value, name)))
    rows.append(("Type", type(value).__name__))
    if not is_callable and not isinstance(value, type(sys)):
        try:
            rows.append(("String form", clip(str(value), VALUE_MAX)))
        except Exception as exc:
            rows.append(("String form", f"<str failed: {type_name(exc)}: {message_of(exc)}>"))
        try:
            rows.append(("Length", str(len(value))))
        except Exception:
            pass            # it has none
    rows.append(("File", file_of(value)))
    source = None
    if with_source:
        try:
            source = clip(need("inspect", "getsource")(value), TEXT_MAX)
        except Exception:
            pass            # there is none: the docstring is shown
    rows.append(("Source", source) if source is not None else ("Docstring", doc_of(value)))
    for title, said in rows:
        if said is not None:
            said = clip(said, TEXT_MAX)
            print(f"{title}:\n{said}" if "\n" in said else f"{title + ':':<13}{said}")


def describe_magic(shell, text):
    kind, name = ("cell" if text.startswith("%%") else "line"), text.lstrip("%").strip()
    found = shell.find_magic(name, kind) or shell.find_magic(name, "cell" if kind == "line" else "line")
    if found is None:
        raise shell._unknown(kind, name)
    print(f"%{name}: {(found.__doc__ or 'no description').strip()}")


def names_like(text, frame):
    """Prints the names that match a pattern such as np.*load*."""
    fits = need("fnmatch", "fnmatchcase")
    before, dot, pattern = text.strip().split(" ")[0].rpartition(".")
    if dot:
        value = find(before, frame)
        names = [f"{before}.{name}" for name in dir(value)]
    else:
        names = [*names_at(frame), *dir(builtins)]
    found = sorted({name for name in names if fits(name.rpartition(".")[2], pattern) and
                    (pattern.startswith("_") or not name.rpartition(".")[2].startswith("_"))})
    print(clip("\n".join(found[:NAMES_MAX]) or f"no name matches '{clip(text, LINE_MAX)}'", TEXT_MAX))
