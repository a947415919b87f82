# SPDX-License-Identifier: Apache-2.0
"""formats: how libraries and %precision want values shown, and results that are shown within a run.

shell.py imports it for get_ipython(). Box.formats and Box.pretty are functions of this module once
something is registered; until then displaying asks nothing of it.
"""

import sys
from _io import StringIO

from base import __builtins__           # first: functions look builtins up there
import display as core
from base import Box, need
from report import message_of, traceback_text, type_name

PLAIN = "text/plain"
KEPT = "items", "originals", "omitted", "room", "figures", "ids", "clear", "value"


class Formats:
    by_type = {}            # MIME type -> {class: function}
    number = ""             # the format of %precision


Formats = Formats()


class Printer:
    """What functions for text/plain write to: a little of IPython.lib.pretty."""
    def __init__(self):
        self.out = StringIO()

    def text(self, text):
        self.out.write(text)

    def breakable(self, sep=" "):
        self.out.write(sep)

    def break_(self):
        self.out.write("\n")

    def pretty(self, value):
        self.out.write(text_of(value))

    def begin_group(self, indent=0, open=""):
        self.out.write(open)

    def end_group(self, dedent=0, close=""):
        self.out.write(close)

    def group(self, indent=0, open="", close=""):
        return Group(self, open, close)


class Group:
    def __init__(self, printer, *ends):
        self.printer, self.ends = printer, ends

    def __enter__(self):
        self.printer.text(self.ends[0])

    def __exit__(self, *exc):
        self.printer.text(self.ends[1])


def function_for(mime, value):
    known = Formats.by_type.get(mime)
    for kind in type(value).__mro__ if known else ():
        if kind in known:
            return known[kind]
    return None


def of_value(value):
    """{MIME type: content} by the registered functions."""
    found = {}
    for mime in [mime for mime in Formats.by_type if mime != PLAIN]:
        function = function_for(mime, value)
        try:
            given = function and function(value)
        except Exception as exc:
            core.note(f"{mime} of {core.name_of(value)} failed: {type_name(exc)}: {message_of(exc)}")
            continue
        if given is not None:
            found[mime] = given[0] if type(given) is tuple and len(given) == 2 else given
    return found


def text_of(value):
    """The text of a result."""
    if Formats.number and type(value) is float:
        return Formats.number % value
    function = function_for(PLAIN, value)
    if function is None:
        return repr(value)
    printer = Printer()
    given = function(value, printer, False)
    return given if isinstance(given, str) else printer.out.getvalue()


def register(mime, kind, function):
    """Returns the function that was there before."""
    known = Formats.by_type.setdefault(mime, {})
    before = known.get(kind)
    if function is not None:
        known[kind] = function
        Box.formats, Box.pretty = of_value, text_of
    return before


def set_number(form):
    Formats.number, Box.pretty = form, text_of


def show_result(value):
    """Shows a value within a run, as if it were the last one."""
    if core.is_rich(value):
        core.display(value)
    else:
        print(text_of(value))


def text_of_error(exc):
    return traceback_text(exc, exc.__traceback__)


def set_aside():
    """Takes away what the run has shown so far; returns it for take_back()."""
    kept = {name: getattr(core.Shown, name) for name in KEPT}
    core.forget()
    return kept


def take_back(kept):
    """Shows it again; returns the bundles that were shown since."""
    loads = need("json", "loads")
    bundles = [loads(item) for item in core.Shown.items]
    for name, value in kept.items():
        setattr(core.Shown, name, value)
    return bundles
