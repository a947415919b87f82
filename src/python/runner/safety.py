# SPDX-License-Identifier: Apache-2.0
"""safety: finds what a copy of this process would lack or share, for undo.py.

Called in the user process of a box between runs. A copy has one thread, no children, and shares open
files with the original: this file records their offsets and undo.py sets them again. State that cannot
be restored makes a checkpoint unavailable, with the reason.
"""

import _constrictor as native
import posix
from _thread import _count as count_threads
from posix import close, fstat, listdir, open as open_fd, read, readlink, waitid
from sys import modules

from base import __builtins__           # first: functions look builtins up there
from base import Box, LINE_MAX, clip
from snapshot import Unavailable

FORMAT, SOCKET, FOLDER, REGULAR, CHARACTER = 0o170000, 0o140000, 0o040000, 0o100000, 0o020000
DELETED = " (deleted)"


def read_proc(name):
    """A small file of /proc/self."""
    try:
        fd = open_fd(f"/proc/self/{name}", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        raise Unavailable("this box has no /proc, so its state cannot be checked") from None
    try:
        parts = []
        while not parts or parts[-1]:
            parts.append(read(fd, 1 << 16))
        return b"".join(parts).decode("utf-8", "surrogateescape")
    finally:
        close(fd)


def thread_names():
    try:
        threads = list(modules["threading"]._active.values())
        return ", ".join([clip(thread._name, 40) for thread in threads[:8]
                          if type(thread).__name__ != "_MainThread"])
    except Exception:
        return ""           # threads of a library, or a module that user code changed


def refuse_threads():
    others = len(listdir("/proc/self/task")) - 1
    if others > 0 and not count_threads():
        native.end_library_threads()        # those of OpenBLAS
        others = len(listdir("/proc/self/task")) - 1
    if others > 0:
        names = thread_names()
        raise Unavailable(f"{others} other thread{'s' * (others > 1)} cannot be copied"
                          + (f" ({names})" if names else ""))


def refuse_children():
    try:
        waitid(posix.P_ALL, 0, posix.WEXITED | posix.WNOHANG | posix.WNOWAIT)
    except ChildProcessError:
        return
    raise Unavailable("child processes are running or were not waited for, and cannot be copied")


def loop_fds():
    """Descriptors of the session's own idle event loop, which works in any copy."""
    loop = Box.loop
    try:
        if loop is None or loop.is_closed() or loop.is_running() or \
                len(loop._selector.get_map()) > 1:
            return ()
        return loop._selector.fileno(), loop._ssock.fileno(), loop._csock.fileno()
    except Exception:
        return ()           # a loop of another kind


def look_at(fd):
    """(fd, path, inode, flags, offset) of an open file; None if it needs no restoring."""
    try:
        stat = fstat(fd)
    except OSError:
        return None         # the descriptor of the listing
    kind = stat.st_mode & FORMAT
    if kind == SOCKET:
        raise Unavailable(f"a socket is open (descriptor {fd}), and its other end cannot be restored")
    if kind in (FOLDER, CHARACTER):
        return None
    path = readlink(f"/proc/self/fd/{fd}")
    if kind != REGULAR:
        what = "a pipe" if path.startswith("pipe:") else clip(path, 60)
        raise Unavailable(f"{what} is open (descriptor {fd}), and its state cannot be restored")
    fields = dict([line.split(":\t") for line in read_proc(f"fdinfo/{fd}").splitlines()
                   if ":\t" in line])
    flags = int(fields["flags"], 8)
    if path.endswith(DELETED) and stat.st_nlink == 0 and flags & 3:
        raise Unavailable(f"a file without a name, as tempfile makes, is open for writing (descriptor {fd}) "
                          "and cannot be restored")
    return fd, path, stat.st_ino, flags, int(fields["pos"])


def refuse_maps(files):
    """Writes to a mapped file cannot be seen."""
    if not any([flags & 3 for _, _, _, flags, _ in files]) or "mmap" not in modules:
        return
    for line in read_proc("maps").splitlines():
        words = line.split(None, 5)
        if len(words) == 6 and words[1].startswith("rw-s") and words[5].startswith(Box.scratch):
            raise Unavailable(f"{clip(words[5], LINE_MAX)} is mapped into memory for writing")


def open_files():
    """The open files; raises Unavailable if the process cannot be copied."""
    refuse_threads()
    refuse_children()
    known = loop_fds()
    numbers = [int(name) for name in listdir("/proc/self/fd")]
    files = [look_at(fd) for fd in numbers if fd > 2 and fd not in known]
    files = [file for file in files if file is not None]
    refuse_maps(files)
    return files


def descriptors():
    """The open files, for a process that sleeps itself and keeps the rest of its state."""
    files = []
    for name in listdir("/proc/self/fd"):
        try:
            file = look_at(int(name)) if int(name) > 2 else None
        except (OSError, Unavailable):
            continue
        if file is not None:
            files.append(file)
    return files
