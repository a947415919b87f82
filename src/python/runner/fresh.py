# SPDX-License-Identifier: Apache-2.0
"""fresh: a run in a session that has an interpreter of its own.

Called by runner.handle() in the user process of a box, when a run's meta has "fresh". That process
never runs code then: it makes a child for each run, which has seen none either, and waits. So files
and packages stay from run to run, variables and whatever else code does to its interpreter do not.
The child answers through a pipe; what it lies about is itself, as everywhere.

An interrupt is passed on. A child that does not heed it is killed, with every other process of the
box: they are of this run or of earlier ones, and nobody waits for them.
"""

import posix
from _signal import SIGINT, SIGKILL
from select import POLLIN, poll
from time import monotonic

from base import __builtins__           # first: functions look builtins up there
from base import Box, PAYLOAD_MAX, to_json

LENGTH = 8                  # bytes that say how long the answer is
LOOK_MS = 50                # how often a child is looked at that says nothing
GRACE_S = 1.0               # between an interrupt and the end; the gate waits for longer
CHUNK = 1 << 16


def end_all():
    """All processes of the box but this one and init."""
    try:
        posix.kill(-1, SIGKILL)
    except OSError:
        pass                # there are none


def write_all(fd, data):
    view = memoryview(data)
    while view:
        view = view[posix.write(fd, view):]


def be_child(ends, meta, source, handle, renew):
    """The rest of the life of a child."""
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
        end_all()           # what earlier runs have left behind takes up all the room
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
    """The answer of a child that gave none."""
    if posix.WIFSIGNALED(status):
        number = posix.WTERMSIG(status)
        return say(128 + number, f"the interpreter was ended by signal {number}")
    return say(posix.WEXITSTATUS(status))


class Child:
    """A child and what it has answered so far."""
    def __init__(self, pid, fd):
        self.pid, self.fd, self.data, self.status = pid, fd, bytearray(), None
        self.until = None   # when it is killed
        self.poll = poll()
        self.poll.register(fd, POLLIN)

    def is_answered(self):
        if len(self.data) < LENGTH:
            return False
        length = int.from_bytes(self.data[:LENGTH], "little")
        return length > PAYLOAD_MAX or len(self.data) >= LENGTH + length

    def read(self, wait_ms):
        """False: nothing came, or nothing more can come."""
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
        """Until it has answered, or is gone."""
        while not self.is_answered() and self.status is None:
            if self.until and monotonic() > self.until:
                end_all()
            if not self.read(LOOK_MS):
                pid, status = posix.waitpid(self.pid, posix.WNOHANG)
                self.status = status if pid else None
        while not self.is_answered() and self.read(0):
            pass            # what was in the pipe when it ended
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
    """One run; returns the payload to answer with. `heed` and `ignore` are what SIGINT does."""
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
            return say(130, "it was interrupted and did not stop", "KeyboardInterrupt")
        return child.payload()
    except OSError as exc:
        return say(1, f"no interpreter could be started: {exc.strerror}")
    finally:
        for fd in ends:
            posix.close(fd)
