# SPDX-License-Identifier: Apache-2.0
"""Stems, the processes between the zygote and the boxes of a slot (src/box/stem.h)."""

import concurrent.futures
import contextlib
import os
import pathlib
import re
import signal
import time

import pytest
from rest_client import serve


def status(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return {key: value.strip() for key, value in re.findall(r"^(\S+):(.*)$", text, re.MULTILINE)}


class Tree:
    """A server with one box at a time, so that the same slot is used again and again."""

    def __init__(self, cli, tools, *flags):
        self.api, self.tools = serve(cli, *flags), tools
        assert self.api.run("1 + 1")["result"] == "2"
        self.zygote = next(filter(tools.children, tools.children(self.api.process.pid)))

    def stems(self):
        return self.tools.children(self.zygote)

    def resting(self):
        """The one that had a box and has none; with `--stock 1` one is parked in another slot."""
        return [stem for stem in self.stems() if not self.tools.children(stem)]

    def works(self):
        with contextlib.suppress(OSError):
            return self.api.run("6 * 7").get("result") == "42"
        return False


@pytest.fixture
def tree(cli, tools):
    return Tree(cli, tools, "--stock", "1")


def test_the_boxes_of_a_slot_have_the_same_stem(tree):
    assert all(tree.works() for _ in range(20))
    before = set(tree.stems())
    assert all(tree.works() for _ in range(20))
    assert set(tree.stems()) & before
    assert len(tree.stems()) <= 10      # of 40 boxes: one at a time, one parked, and those that are on their way out


def test_what_a_stem_may(tree, tools):
    """One capability of a user namespace of its own, and no way to more; no process may look into it."""
    assert tools.wait_until(lambda: all(map(is_settled, tree.stems())))  # also of one that has just made a box
    for stem in tree.stems():
        now = status(stem)
        assert now["CapPrm"] == now["CapEff"] == f"{1 << 21:016x}"      # CAP_SYS_ADMIN
        assert {now["CapBnd"], now["CapInh"], now["CapAmb"]} == {"0" * 16}
        assert now["NoNewPrivs"] == "1" and now["Seccomp"] == "2"
        if os.getuid() == 0:        # else all have one uid; not dumpable: its files are not its own user's
            assert os.stat(f"/proc/{stem}/mem").st_uid != os.stat(f"/proc/{stem}").st_uid
        assert os.readlink(f"/proc/{stem}/ns/user") != os.readlink(f"/proc/{tree.zygote}/ns/user")
        for name in "net", "ipc":
            assert os.readlink(f"/proc/{stem}/ns/{name}") != os.readlink("/proc/self/ns/" + name)
        assert is_settled(stem)


def is_settled(stem):
    """It has its socket to the keeper, two files about its network namespace, and nothing that belongs to a box."""
    with contextlib.suppress(OSError):
        names = [os.readlink(f"/proc/{stem}/fd/{fd}") for fd in os.listdir(f"/proc/{stem}/fd")]
        return len(names) == 6 and len([name for name in names if name.startswith("socket:")]) == 1
    return False


HOSTILE = """
import ctypes, os, signal, resource, socket
libc = ctypes.CDLL(None, use_errno=True)
for which, who in (os.PRIO_PROCESS, 0), (os.PRIO_PGRP, 0), (os.PRIO_USER, 0):
    try:
        os.setpriority(which, who, 19)
    except OSError:
        pass
libc.sethostname(b"mine", 4)
s = socket.socket(socket.AF_UNIX)
try:
    s.bind("\\0left behind")
except OSError:
    pass
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
os.umask(0o777)
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for pid in 1, os.getpgid(1), -1, 0:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
os.wait()
"""

LOOK = """
import os, resource, signal, socket
s = socket.socket(socket.AF_UNIX)
try:
    s.bind("\\0left behind")
    name = "free"
except OSError as e:
    name = e.errno
mask = os.umask(0o22)
print(os.getpriority(os.PRIO_PROCESS, 0), os.uname().nodename, name, resource.getrlimit(resource.RLIMIT_NOFILE), oct(mask),
      sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), os.sched_getaffinity(0) == set(range(os.cpu_count())))
"""


def test_a_box_leaves_nothing_to_its_slot(tree):
    """What code can do to processes of its own uid reaches neither its stem nor the next box."""
    before = tree.api.run(LOOK)["stdout"]
    stems = set(tree.stems())
    for _ in range(4):
        tree.api.run(HOSTILE)
        assert tree.api.run(LOOK)["stdout"] == before
    assert set(tree.stems()) >= stems       # none of them was killed, stopped, or slowed down
    for stem in stems:
        stat = pathlib.Path(f"/proc/{stem}/stat").read_text().rpartition(")")[2].split()
        assert (stat[0] in "SR", int(stat[16])) == (True, os.nice(0))      # state, nice: that of the server
        limits = pathlib.Path(f"/proc/{stem}/limits").read_text()
        assert int(re.search(r"Max open files +(\d+)", limits).group(1)) > 32


def test_slots_have_nothing_in_common(tree, tools):
    assert tools.wait_until(lambda: tree.works() and len(tree.stems()) >= 2)
    stems = tree.stems()
    for name in "user", "net", "ipc", "uts":
        assert len({os.readlink(f"/proc/{stem}/ns/{name}") for stem in stems}) == len(stems), name


def test_a_stem_without_a_box_is_killed(tree, tools):
    """No client notices: the slot gets another."""
    assert tools.wait_until(tree.resting)
    os.kill(tree.resting()[0], signal.SIGKILL)
    assert all(tree.works() for _ in range(5))
    assert os.path.exists(f"/proc/{tree.zygote}")


@pytest.mark.parametrize("limits", [{}, {"memory_mb": 200}], ids=["parked", "to_order"])
def test_a_stem_is_killed_that_has_an_order(tree, tools, limits):
    """It has not said yet that it makes a box: who waits for that one is told, the others get another."""
    assert tools.wait_until(tree.resting)
    stopped = tree.resting()[:2]        # three in a row are logged
    for stem in stopped:
        os.kill(stem, signal.SIGSTOP)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(tree.api.post, "/execute", {"code": "6 * 7", "stream": False, **limits}) for _ in range(8)]
        time.sleep(.3)
        for stem in stopped:
            os.kill(stem, signal.SIGKILL)
        answers = [w.result() for w in waiting]
    for answer in answers:
        if answer.status != 200 or not answer.json["success"]:
            assert limits and answer.json["error"]["code"] == "zygote_failed", answer
    assert os.path.exists(f"/proc/{tree.zygote}")
    assert all(tree.works() for _ in range(5))


SLEEPS = "import os, time; print('in', os.readlink('/proc/self/ns/pid'), flush=True); time.sleep({}); print('done')"


def stem_and_box(tree, namespace):
    """Of the box whose processes have this pid namespace."""
    for stem in tree.stems():
        for box in tree.tools.children(stem):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{box}/ns/pid") == namespace:
                    return stem, box
    raise AssertionError(f"no process is in {namespace}")


def begun(tree, stream):
    """The stem and the box of a run that has printed where it is."""
    while not (found := re.search(r"pid:\[\d+\]", stream.readline().decode())):
        pass
    return stem_and_box(tree, found.group())


def with_box(tree):
    return [stem for stem in tree.stems() if tree.tools.children(stem)]


def test_a_stem_with_a_parked_box_is_killed(tree, tools):
    """No process would see its box end, so the keeper ends it; other boxes are not affected."""
    with tree.api.streaming(SLEEPS.format(2)) as other:
        busy, _ = begun(tree, other)
        assert tools.wait_until(lambda: len(set(with_box(tree)) - {busy}) == 1)
        (parked,) = set(with_box(tree)) - {busy}
        (box,) = tools.children(parked)
        os.kill(parked, signal.SIGKILL)
        assert tools.wait_until(lambda: not os.path.exists(f"/proc/{box}"))
        assert tree.works()
        assert "done" in other.read().decode()
    assert os.path.exists(f"/proc/{tree.zygote}")
    assert all(tree.works() for _ in range(5))


def test_a_stem_with_a_run_is_killed(tree, tools):
    with tree.api.streaming(SLEEPS.format(60)) as lost:
        busy, box = begun(tree, lost)
        os.kill(busy, signal.SIGKILL)
        assert '"lost"' in lost.read().decode()
    assert tools.wait_until(lambda: not os.path.exists(f"/proc/{box}"))
    assert os.path.exists(f"/proc/{tree.zygote}")
    assert all(tree.works() for _ in range(5))


def test_a_stem_with_a_session_is_killed(tree, tools):
    where = tree.api.run("x = 1; import os; print(os.readlink('/proc/self/ns/pid'))", session="mine")["stdout"].strip()
    busy, _ = stem_and_box(tree, where)
    os.kill(busy, signal.SIGKILL)
    assert tools.wait_until(lambda: "mine" not in tree.api.get("/sessions").json["sessions"])
    assert tree.api.run("'x' in globals()", session="mine")["result"] == "False"
    assert os.path.exists(f"/proc/{tree.zygote}")
