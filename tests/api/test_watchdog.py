# SPDX-License-Identifier: Apache-2.0
"""No process of the server waits for what a box holds; and if one does all the same, it is noticed."""

import contextlib
import os
import signal
import threading
import time

import pytest
import rest_client

# Processes that together have more than the limit, in pages that they share, so that the exact figures are wanted; and
# each changes its mappings all the time, with the lowest priority, on one CPU with many that spin.
HOLD_MAPPINGS = """
import ctypes, mmap, os, time
libc = ctypes.CDLL(None)
size = 40 << 20
memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.write(b"x" * size)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
def hard(function, *arguments):
    try: function(*arguments)
    except OSError: pass  # a box may not, and need not then
def hold():
    hard(os.sched_setaffinity, 0, {0})
    hard(os.nice, 19)
    while True:
        libc.mprotect(address, size, 1)
        libc.mprotect(address, size, 3)
def spin():
    hard(os.sched_setaffinity, 0, {0})
    while True: pass
for i in range(6):
    if not os.fork(): hold()
for i in range(40):
    if not os.fork(): spin()
print("ready", flush=True)
time.sleep(60)
"""


def wait_for_line(response, mark=b"ready"):
    while mark not in (line := response.readline()):
        assert line, "the run ended"


@pytest.mark.user
def test_a_box_that_holds_its_mappings_delays_no_other(cli):
    """Without cgroups memory is summed over /proc, which waits for the box; the keeper does not."""
    client = rest_client.serve(cli, "--memory", "128M", "--cpu", "60s")
    assert client.run("1")["verdict"] == "ok"
    with client.streaming(HOLD_MAPPINGS, timeout=60) as response:
        wait_for_line(response)
        took, end = [], time.monotonic() + 12
        while time.monotonic() < end:
            start = time.monotonic()
            assert client.run("1 + 1")["verdict"] == "ok"
            took.append(time.monotonic() - start)
            time.sleep(0.05)
    assert max(took) < 1, [round(t, 2) for t in took if t > 0.3]


def keeper_and_gate(client, tools):
    keeper = client.process.pid
    return keeper, next(pid for pid in tools.children(keeper) if tools.is_gate(pid))


class Log:
    """What the server writes to stderr."""

    def __init__(self, process):
        self.text = ""
        self.thread = threading.Thread(target=self.read, args=(process.stderr,), daemon=True)
        self.thread.start()

    def read(self, stream):
        with contextlib.suppress(ValueError):  # closed at the end
            for line in stream:
                self.text += line.decode()


def test_a_gate_that_does_not_move_is_noticed(cli, tools):
    """A signal stops it, in place of a call that does not return."""
    client = rest_client.serve(cli, "--cpu", "60s")
    log = Log(client.process)
    _, gate = keeper_and_gate(client, tools)
    with client.streaming("import time; print('ready', flush=True); time.sleep(60)", timeout=60) as response:
        wait_for_line(response)
        os.kill(gate, signal.SIGSTOP)
        try:
            start = time.monotonic()
            assert tools.wait_until(lambda: "the gate has not moved for" in log.text)
            assert time.monotonic() - start < 10
        finally:
            os.kill(gate, signal.SIGCONT)
        assert tools.wait_until(lambda: "the gate moves again" in log.text)
    assert client.run("1 + 1")["verdict"] == "ok"


def test_a_gate_that_waits_for_a_cpu_is_not_stuck(cli, tools):
    """Everything of the server shares one CPU with many processes that spin."""
    client = rest_client.serve(cli, "--cpu", "120s")
    log = Log(client.process)
    _, gate = keeper_and_gate(client, tools)
    os.sched_setaffinity(gate, {0})
    spin = "import os\nfor i in range(30):\n    if not os.fork():\n        while True: pass\nimport time; time.sleep(100)"
    stop = threading.Event()

    def run():
        with client.streaming(spin, timeout=100):
            stop.wait()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        for i in range(20):
            assert client.run("1 + 1")["verdict"] == "ok"
            time.sleep(0.1)
    finally:
        stop.set()
        thread.join()
    assert "has not moved" not in log.text, log.text
