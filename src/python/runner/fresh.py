# SPDX-License-Identifier: Apache-2.0
"""fresh: runs of a session that each have a new interpreter.

Called by runner.handle() in the user process of a box, when a run's meta has "fresh". That process then
runs no user code: it forks a child for each run and waits. So files and packages stay from run to run,
variables and other changes to the interpreter do not. The child answers through a pipe; a forged
answer only concerns the child's own run.

An interrupt is passed on. A child that ignores it is killed, together with all other processes of the
box, which are left over from this run or earlier ones.
"""

import posix
from _signal import SIGINT, SIGKILL
from select import POLLIN, poll
from time import monotonic

from base import __builtins__           # first: functions look builtins up there
from base import Box, PAYLOAD_MAX, to_json

LENGTH = 8                  # bytes of the length before the answer
LOOK_MS = 50                # how often a silent child is checked
GRACE_S = 1.0               # from an interrupt to the kill; the gate waits longer
CHUNK = 1 << 16


def end_all():
    """Kills all processes of the box except this one and init."""
    try:
        posix.kill(-1, SIGKILL)
    except OSError:
        pass                # there are no others


def write_all(fd, data):
    view = memoryview(data)
    while view:
        view = view[posix.write(fd, view):]


def be_child(ends, meta, source, handle, renew):
    """Runs in the child; never returns."""
    code = 1
    try:
        posix.close(ends[0])
        Box.pid = posix.getpid()
        renew()
        payload = handle(to_json(meta, PAYLOAD_MAX).encode(), source)
        if posix.getpid() == Box.pid and len(payload) <= PAYLOAD_MAX:
            write_all(ends[1], len(payload).to_bytes(LENGTH, "little") + payload)
            code = 0
    finally:
        posix._exit(code)


def make_child(ends, *run):
    try:
        pid = posix.fork()
    except OSError:
        end_all()           # processes of earlier runs use up the limit
        pid = posix.fork()
    if pid == 0:
        be_child(ends, *run)
    return pid


def say(exit_code, message=None, name="ChildProcessError"):
    answer = {"exit_code": exit_code, "phase": "execution"}
    if message:
        answer["error"] = {"type": name, "message": message, "line": None, "column": None,
                           "code_line": None, "traceback": [], "text": f"{name}: {message}\n",
                           "reported": False}
    return to_json(answer).encode()


def ended(status):
    """The answer for a child that sent none."""
    if posix.WIFSIGNALED(status):
        number = posix.WTERMSIG(status)
        return say(128 + number, f"the interpreter was ended by signal {number}")
    return say(posix.WEXITSTATUS(status))


class Child:
    """A child and the part of its answer that has arrived."""
    def __init__(self, pid, fd):
        self.pid, self.fd, self.data, self.status = pid, fd, bytearray(), None
        self.until = None   # when to kill it
        self.poll = poll()
        self.poll.register(fd, POLLIN)

    def is_answered(self):
        if len(self.data) < LENGTH:
            return False
        length = int.from_bytes(self.data[:LENGTH], "little")
        return length > PAYLOAD_MAX or len(self.data) >= LENGTH + length

    def read(self, wait_ms):
        """Returns False if nothing came, or nothing more can come."""
        if not self.poll.poll(wait_ms):
            return False
        data = posix.read(self.fd, CHUNK)
        self.data += data
        return bool(data)

    def interrupt(self):
        try:
            posix.kill(self.pid, SIGINT)
        except OSError:
            pass
        self.until = self.until or monotonic() + GRACE_S

    def wait(self):
        """Waits until the child has answered or ended."""
        while not self.is_answered() and self.status is None:
            if self.until and monotonic() > self.until:
                end_all()
            if not self.read(LOOK_MS):
                pid, status = posix.waitpid(self.pid, posix.WNOHANG)
                self.status = status if pid else None
        while not self.is_answered() and self.read(0):
            pass            # drain the pipe
        if self.status is None:
            self.status = posix.waitpid(self.pid, 0)[1]

    def payload(self):
        length = int.from_bytes(self.data[:LENGTH], "little")
        if len(self.data) < LENGTH or length > PAYLOAD_MAX or len(self.data) < LENGTH + length:
            return ended(self.status)
        return bytes(self.data[LENGTH:LENGTH + length])


def wait_for(child):
    while True:
        try:
            child.wait()
            return
        except KeyboardInterrupt:
            child.interrupt()


def apart(meta, source, handle, renew, heed, ignore):
    """Does one run; returns the payload. heed() and ignore() set the handling of SIGINT."""
    Box.session = True
    inner = {key: value for key, value in meta.items() if key not in ("fresh", "mode", "fork")}
    ends = posix.pipe2(posix.O_CLOEXEC)
    try:
        child = Child(make_child(ends, inner, source, handle, renew), ends[0])
        posix.close(ends[1])
        ends = ends[:1]
        if Box.on_interrupt is not None:
            heed()
        try:
            wait_for(child)
        finally:
            ignore()
        if child.until and monotonic() > child.until:
            return say(130, "the run was interrupted but did not stop, and was killed", "KeyboardInterrupt")
        return child.payload()
    except OSError as exc:
        return say(1, f"a new interpreter could not be started: {exc.strerror}")
    finally:
        for fd in ends:
            posix.close(fd)
