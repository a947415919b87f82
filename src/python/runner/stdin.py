# SPDX-License-Identifier: Apache-2.0
"""stdin: what a run reads.

Called by runner.handle() in the user process of a box, when a run's meta has "stdin". Descriptor 0 becomes a pipe
that init fills (box/init.c), so that programs which the code starts read it as well. It belongs to this run: the
next one of a session finds an empty stdin, and copies of the process (undo.py) are made before it is opened.

With "stdin": "ask" a person answers: a read of sys.stdin that finds nothing sends an ASK frame with the prompt of
input(), and waits.
"""

import sys
from _io import BufferedReader, FileIO, TextIOWrapper, _RawIOBase
from posix import O_CLOEXEC, O_RDWR
from posix import close, dup2, getpid, open as open_fd, readv, set_inheritable

import _constrictor as native
from base import __builtins__           # first: functions look builtins up there
from base import Box, clip

ASKED_MAX = 4000            # characters of a prompt: FRAME_ASK_MAX


class Person(_RawIOBase):
    """Descriptor 0 with a person at the other end."""
    name, mode = "<stdin>", "rb"

    def fileno(self):
        return 0

    def readable(self):
        return True

    def readinto(self, room):
        if getpid() == Box.pid:         # a child has no way to ask
            prompt, Box.prompt = Box.prompt, ""
            native.ask(clip(prompt, ASKED_MAX).encode())
        return readv(0, [room])


def make_stream(asks):
    raw = Person() if asks else FileIO(0, "r", closefd=False)
    raw.name = "<stdin>"
    # As in CPython on Linux, only "\n" ends a line, and "\r\n" stays as it is.
    return TextIOWrapper(BufferedReader(raw), "utf-8", "surrogateescape", "\n", line_buffering=True)


def become(fd):
    """Makes `fd` descriptor 0."""
    if fd == 0:             # code has closed descriptor 0, so this one got its number
        set_inheritable(0, True)
        return
    try:
        dup2(fd, 0)
    finally:
        close(fd)


def bring(meta):
    """Returns what to call after the run."""
    try:
        become(native.open_input())
    except OSError as exc:
        raise OSError(exc.errno, f"stdin cannot be opened: {exc.strerror}") from None
    before, Box.prompt = (sys.stdin, sys.__stdin__), ""
    sys.stdin = sys.__stdin__ = make_stream(meta["stdin"] == "ask")

    def restore():
        try:
            become(open_fd("/dev/null", O_RDWR | O_CLOEXEC))
        except OSError:
            close(0)        # no stdin is better than the rest of this one
        replaced = getattr(sys, "stdin", None) is not sys.__stdin__
        sys.__stdin__ = before[1]
        if not replaced:
            sys.stdin = before[0]
    return restore
