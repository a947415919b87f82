# SPDX-License-Identifier: Apache-2.0
"""workers: runs tasks in child processes, several at a time: downloads, unpacking, compiling.

In the user process of an installing box. A child that crashes, hangs or runs out of memory because of a
package only loses its own task. No threads, so that a fork is a plain copy.
"""

import errno
import json
import os
import selectors
import signal
import sys
import time

from failure import Failure

REPORT_BYTES = 1 << 20      # progress is reported in steps of this size
LINE_MAX = 64 << 20         # bytes that a child may answer


class Task:
    def __init__(self, kind, work, args, done, died=None, seconds=0):
        """The parent calls done(result), or died() if the child crashes."""
        self.kind, self.work, self.args, self.done = kind, work, args, done
        self.died, self.seconds = died, seconds
        self.pid, self.fd, self.data, self.told = 0, -1, b"", 0


def failure_of(exc):
    if isinstance(exc, Failure):
        return [exc.code, exc.message, exc.requirement, exc.hint, exc.says]
    if isinstance(exc, OSError) and exc.errno in (errno.ENOSPC, errno.EDQUOT):
        return ["disk_full", "there is no disk space left for unpacking", None,
                "ask the operator for more disk space (install-disk)", None]
    return ["internal", f"{type(exc).__name__}: {exc}", None, None, None]


def in_child(task, fd):
    """Never returns."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if task.seconds:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(task.seconds)
        waiting = [0]

        def report(count):
            waiting[0] += count
            if waiting[0] >= REPORT_BYTES:
                os.write(fd, b"%d\n" % waiting[0])
                waiting[0] = 0
        try:
            answer = {"result": task.work(*task.args, report)}
        except BaseException as exc:
            answer = {"failure": failure_of(exc)}
        data = b"%d\n" % waiting[0] + json.dumps(answer).encode() + b"\n"
        while data:
            data = data[os.write(fd, data):]
    finally:
        os._exit(0)


class Workers:
    """limits: {kind of task: how many at once}. on_bytes(kind, count) tells progress."""

    def __init__(self, limits, deadline, on_bytes):
        self.limits, self.deadline, self.on_bytes = limits, deadline, on_bytes
        self.waiting = {kind: [] for kind in limits}
        self.busy = dict.fromkeys(limits, 0)
        self.selector = selectors.DefaultSelector()

    def add(self, task):
        self.waiting[task.kind].append(task)

    def start(self, task):
        reader, writer = os.pipe()
        sys.stdout.flush()
        task.pid = os.fork()
        if task.pid == 0:
            os.close(reader)
            in_child(task, writer)
        os.close(writer)
        task.fd = reader
        self.busy[task.kind] += 1
        self.selector.register(reader, selectors.EVENT_READ, task)

    def run(self):
        """Runs all tasks; a Failure of one ends the others."""
        try:
            while True:
                for kind, waiting in self.waiting.items():
                    while waiting and self.busy[kind] < self.limits[kind]:
                        self.start(waiting.pop(0))
                if not self.selector.get_map():
                    return
                left = self.deadline - time.monotonic()
                if left <= 0:
                    raise Failure("timeout", "the install took too long",
                                  hint="install fewer packages at once, or ask the operator for more time")
                for key, _ in self.selector.select(min(left, 1.0)):
                    self.hear(key.data)
        finally:
            self.end()

    def hear(self, task):
        data = os.read(task.fd, 1 << 16)
        if data:
            task.data += data
            if len(task.data) > LINE_MAX:
                raise Failure("internal", "a worker process sent too much output")
            *lines, rest = task.data.split(b"\n") if b"{" not in task.data else [task.data]
            task.data = rest
            for line in lines:
                self.on_bytes(task.kind, int(line))
            return
        status = self.reap(task)
        lines = task.data.splitlines()
        for line in lines[:-1]:
            self.on_bytes(task.kind, int(line))
        if not lines or not lines[-1].startswith(b"{"):
            if task.died is None:
                raise Failure("internal", f"a worker process ended with status {status}",
                              hint="it may have run out of memory (install-memory)")
            task.died()
            return
        answer = json.loads(lines[-1])
        if "failure" in answer:
            raise Failure(*answer["failure"])
        task.done(answer["result"])

    def reap(self, task):
        self.selector.unregister(task.fd)
        os.close(task.fd)
        self.busy[task.kind] -= 1
        return os.waitpid(task.pid, 0)[1]

    def end(self):
        for key in list(self.selector.get_map().values()):
            os.kill(key.data.pid, signal.SIGKILL)
            self.reap(key.data)
        self.selector.close()
