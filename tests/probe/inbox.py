# SPDX-License-Identifier: Apache-2.0
"""The part of the probe harness that travels: it runs a list of snippets and prints what happened.

harness.py sends this text, with the snippets as data behind it, into a box and also into an
ordinary python3 outside; it runs there as plain user code. Each snippet is the body of a function
and runs in a forked child, so that it may kill, confine or damage itself. Standard library only,
CPython 3.9 on.

The outcome of a snippet is what it returns, or "EPERM" (the name of the errno) if it raised
OSError, "SIGSYS" (a signal's name) if it died, "exit 3" if it left without an answer, "hang", or
"raised ...".
"""

import ctypes
import errno
import json
import os
import select
import signal
import stat
import struct  # noqa: F401, for the snippets
import sys  # noqa: F401, for the snippets
import time

ALL_ONES = (1 << 64) - 1
# As a pointer it faults, as a descriptor it is not open, and as a number it is out of range: a call
# that gets through answers EFAULT, EBADF or EINVAL and does nothing.
BAD = ALL_ONES
HIGH = 1 << 32
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
NR = {}
PARAMS = {}
KEEP = []

NEW = {
    "user": 0x10000000,
    "mnt": 0x00020000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "cgroup": 0x02000000,
    "time": 0x00000080,
}


def kind_of(fd):
    info = os.fstat(fd)
    if stat.S_ISCHR(info.st_mode):
        return "device %d:%d" % (os.major(info.st_rdev), os.minor(info.st_rdev))
    for name in ("FIFO", "SOCK", "DIR", "REG"):
        if getattr(stat, "S_IS" + name)(info.st_mode):
            return name.lower()
    return "other"


def start_state():
    """What the process was given, before the harness opens anything of its own.

    Descriptors are found by asking for each number: a box need not be able to list its own.
    """
    fds = {}
    for fd in range(4096):
        try:
            fds[str(fd)] = kind_of(fd)
        except OSError:
            pass
    with open("/proc/self/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    return {
        "fds": fds,
        "status": status,
        "sid": os.getsid(0),
        "pgid": os.getpgid(0),
        "cwd": os.getcwd(),
        "env": dict(os.environ),
        "pid": os.getpid(),
    }


def errname(number):
    return errno.errorcode.get(number, "errno %d" % number)


def raw(call, *args):
    """A system call by name or number: (result, errno)."""
    number = NR[call] if isinstance(call, str) else call
    ctypes.set_errno(0)
    words = [ctypes.c_ulong(arg & ALL_ONES) for arg in args]
    result = LIBC.syscall(ctypes.c_long(number), *words)
    return result, ctypes.get_errno()


def sc(call, *args):
    """The same, as an outcome: "ok" or the name of the errno."""
    result, number = raw(call, *args)
    return errname(number) if result == -1 else "ok"


def sc_fork(call, *args):
    """A call that makes a child: the child leaves at once and is collected."""
    result, number = raw(call, *args)
    if result == 0:
        os._exit(0)
    if result == -1:
        return errname(number)
    os.waitpid(result, 0)
    return "ok"


def six(call):
    return sc(call, BAD, BAD, BAD, BAD, BAD, BAD)


def buffer(size, content=b""):
    return ctypes.create_string_buffer(content, size)


def address(thing):
    return ctypes.addressof(thing)


def at(size, content=b""):
    """The address of a new buffer, which stays where it is."""
    KEEP.append(buffer(size, content))
    return address(KEEP[-1])


def child(function):
    """Runs a function in a child of its own: the outcome as the harness would put it."""
    return run_one(function)


def sleeper():
    """A child that sleeps; it dies with the probe's process group."""
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    return pid


def machine_code(code, low=False):
    """Puts x86-64 machine code in memory; returns its address."""
    flags = 0x22 | (0x40 if low else 0)  # PRIVATE|ANONYMOUS, 32BIT
    where = LIBC.mmap(None, 4096, 7, flags, -1, 0)
    if where is None or where == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap")
    ctypes.memmove(where, code, len(code))
    return where


def open_only(path, flags=os.O_WRONLY):
    """Whether a file can be opened for writing; nothing is written."""
    os.close(os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC))
    return "ok"


def readable(path, size=64):
    """What reading the start of a file, a link or a directory gives: "ok", "empty" or an errno."""
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return "ok" if os.readlink(path) else "empty"
    if stat.S_ISDIR(mode):
        return "ok" if os.listdir(path) else "empty"
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return "ok" if os.read(fd, size) else "empty"
    finally:
        os.close(fd)


TREE = []  # what walk() found of the box's tree, which does not change but for scratch; see main()


def walk(roots, skip=("/proc",)):
    """Every path below the roots, with its lstat; the tree may not change under a reader."""
    if TREE and roots == PARAMS["tree"]:
        below = tuple(path + "/" for path in skip)
        yield from ((path, info) for path, info in TREE if path not in skip and not path.startswith(below))
        return
    pending = list(roots)
    while pending:
        folder = pending.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        yield folder, os.lstat(folder)
        for entry in entries:
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(info.st_mode):
                if entry.path not in skip:
                    pending.append(entry.path)
            else:
                yield entry.path, info


def run_one(function, limit=60.0):
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read_end)
            os.setsid()
            for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL):
                signal.signal(number, signal.SIG_DFL)
            try:
                value = function()
            except OSError as error:
                value = errname(error.errno)
            except BaseException as error:
                value = "raised %s: %s" % (type(error).__name__, error)
            os.write(write_end, json.dumps(value).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(write_end)
    answer = b""
    deadline = time.monotonic() + limit
    while not answer.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([read_end], [], [], left)[0]:
            answer = b'"hang"\n'
            break
        part = os.read(read_end, 65536)
        if not part:
            break
        answer += part
    os.close(read_end)
    if answer.endswith(b"\n"):
        for end in (lambda: os.killpg(pid, signal.SIGKILL), lambda: os.kill(pid, signal.SIGKILL)):
            try:
                end()
            except OSError:
                pass
    status = os.waitpid(pid, 0)[1]
    if answer.endswith(b"\n"):
        return json.loads(answer)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return "exit %d" % os.WEXITSTATUS(status)


def compile_probe(name, source):
    body = "".join("    " + line + "\n" for line in source.strip().splitlines())
    scope = dict(globals())
    exec(compile("def probe():\n" + body, name, "exec"), scope)
    return scope["probe"]


def main(job):
    NR.update(job["nr"])
    PARAMS.update(job["params"])
    PARAMS["start"] = START
    outcomes = {}
    # Those first who walk over the whole tree.  That is done once for all of them, who are children of this process:
    # it takes longer than all other probes together.
    for name, source in sorted(job["probes"], key=lambda probe: "walk(" not in probe[1]):
        if PARAMS["side"] == "inside" and "walk(" in source and not TREE:
            TREE.extend(walk(PARAMS["tree"]))
        elif "walk(" not in source:
            TREE.clear()
        outcomes[name] = run_one(compile_probe(name, source))
    text = json.dumps(outcomes)
    print("\n<outcomes>" + text + "</outcomes>", flush=True)


START = start_state()
