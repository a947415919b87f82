# SPDX-License-Identifier: Apache-2.0
"""Stems, the processes between the zygote and the boxes of a slot (src/box/stem.h)."""

import contextlib
import os
import pathlib
import re
import signal

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
    assert len(tree.stems()) <= 4       # one box at a time, one parked, one that ends


def test_what_a_stem_may(tree):
    """One capability of a user namespace of its own, and no way to more; nobody may look into it."""
    for stem in tree.stems():
        now = status(stem)
        assert now["CapPrm"] == now["CapEff"] == f"{1 << 21:016x}"      # CAP_SYS_ADMIN
        assert {now["CapBnd"], now["CapInh"], now["CapAmb"]} == {"0" * 16}
        assert now["NoNewPrivs"] == "1" and now["Seccomp"] == "2"
        assert os.readlink(f"/proc/{stem}/ns/user") != os.readlink(f"/proc/{tree.zygote}/ns/user")
        for name in "net", "ipc":
            assert os.readlink(f"/proc/{stem}/ns/{name}") != os.readlink("/proc/self/ns/" + name)
        names = sorted(os.readlink(f"/proc/{stem}/fd/{fd}") for fd in os.listdir(f"/proc/{stem}/fd"))
        assert len(names) == 4 and len([name for name in names if name.startswith("socket:")]) == 1, names


def test_slots_have_nothing_in_common(tree, tools):
    assert tools.wait_until(lambda: tree.works() and len(tree.stems()) >= 2)
    stems = tree.stems()
    for name in "user", "net", "ipc", "uts":
        assert len({os.readlink(f"/proc/{stem}/ns/{name}") for stem in stems}) == len(stems), name


def test_a_stem_without_a_box_is_killed(tree, tools):
    """Nobody notices: the slot gets another."""
    assert tools.wait_until(tree.resting)
    os.kill(tree.resting()[0], signal.SIGKILL)
    assert all(tree.works() for _ in range(5))
    assert os.path.exists(f"/proc/{tree.zygote}")


SLEEPS = "import os, time; print('in', os.readlink('/proc/self/ns/pid'), flush=True); time.sleep({}); print('done')"


def stem_and_box(tree, namespace):
    """Of the box whose processes have this pid namespace."""
    for stem in tree.stems():
        for box in tree.tools.children(stem):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{box}/ns/pid") == namespace:
                    return stem, box
    raise AssertionError(f"nobody is in {namespace}")


def begun(tree, stream):
    """The stem and the box of a run that has printed where it is."""
    while not (found := re.search(r"pid:\[\d+\]", stream.readline().decode())):
        pass
    return stem_and_box(tree, found.group())


def with_box(tree):
    return [stem for stem in tree.stems() if tree.tools.children(stem)]


def test_a_stem_with_a_parked_box_is_killed(tree, tools):
    """Nobody would see its box end, so it is ended; who has another one does not notice."""
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
