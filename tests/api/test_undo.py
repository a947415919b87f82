# SPDX-License-Identifier: Apache-2.0
"""Checkpoints, undo and forks of sessions, over MCP: variables and files are what they were.

The long walk compares every state with the one that was recorded when it was first there. The
others take one thing each: what a checkpoint must bring back, what makes it unavailable, what a
crash leaves, what bounds it.
"""

import json
import random
import statistics
import subprocess
import sys
import time

import pytest
from mcp_client import Stdio

# What a session is made of here: everything that has a state, and a way to say it.
SETUP = r"""
import hashlib, json, os, random, stat
random.seed(7)
numbers, table, text = [1], {}, "a"
def count():
    n = 0
    while True:
        n += 1
        yield n
walk, letters = count(), iter("abcdefghijklmnopqrstuvwxyz" * 20)
taken = []
with open("lines.txt", "w") as f:
    f.write("".join(f"line {n}\n" for n in range(2000)))
lines = open("lines.txt")
log = open("log.txt", "w")
def state():
    files = {}
    for folder, folders, names in os.walk(".", followlinks=False):
        for name in folders + names:
            path = os.path.join(folder, name)
            s = os.lstat(path)
            what = os.readlink(path) if stat.S_ISLNK(s.st_mode) else ""
            if stat.S_ISREG(s.st_mode):
                what = hashlib.sha1(open(path, "rb").read()).hexdigest()
            files[path] = [oct(s.st_mode), what, s.st_mtime_ns, s.st_nlink]
    return json.dumps([numbers, table, text, taken, lines.tell(), log.tell(), hash(random.getstate()),
                       os.getcwd(), files], sort_keys=True)
print(state())
"""

CHANGES = [
    "numbers.append(len(numbers) * 3)",
    "numbers = numbers[1:] + [random.random()]",
    "table[str(len(table))] = random.randrange(10**9)",
    "text += random.choice('xyz')",
    "taken = taken[-5:] + [next(walk), next(letters)]",
    "taken = taken[-5:] + [lines.readline()]",
    "_ = log.write(f'{len(numbers)} entries\\n'); log.flush()",
    "open(f'file{random.randrange(5)}.bin', 'wb').write(random.randbytes(random.randrange(1, 9000)))",
    "open('same.txt', 'w').write(random.choice('ab') * 100)",
    "os.makedirs('folder/inner', exist_ok=True); open('folder/inner/x', 'a').write('x')",
    "os.path.lexists('link') and os.remove('link'); os.symlink(random.choice(['same.txt', '/etc/passwd']), 'link')",
    "[os.remove(n) for n in os.listdir('.') if n.startswith('file')][:1]",
    "import shutil; shutil.rmtree('folder', ignore_errors=True)",
    "os.path.exists('pipe') or os.mkfifo('pipe', 0o640)",
    "open('mode', 'w').close(); os.chmod('mode', random.choice([0o600, 0o444, 0o755]))",
    "os.makedirs('empty', exist_ok=True)",
    "open('one', 'w').write(text); os.path.exists('two') and os.remove('two'); os.link('one', 'two')",
    "os.path.exists('lines.txt') and os.rename('lines.txt', 'moved.txt')",
    "raise ValueError('an error is a run as well')",
]
CRASHES = ["os._exit(3)", "os.abort()", "os.kill(os.getpid(), 9)",
           "open('crash', 'w').write('x'); numbers.clear(); os._exit(0)"]


class Session:
    """A session as its caller sees it, and the states that it went through."""

    def __init__(self, connection, name, states=()):
        self.c, self.name = connection, name
        self.states = list(states)      # after each run that can be undone, the oldest first
        self.names = {}                 # checkpoint -> how many states there were

    def call(self, tool, **arguments):
        answer = self.c.call(tool, session=self.name, **arguments)
        assert "structuredContent" in answer, answer
        return answer["structuredContent"]

    def undo(self, **how):
        answer = self.call("undo_session", **how)
        assert answer["verdict"] == "ok" and answer["checkpoint"]["state"] == "restored", answer
        return answer

    def run(self, code):
        return self.call("execute_python", code=code)

    def step(self, code):
        """A change, and the state that it led to."""
        answer = self.run(f"try:\n    {code}\nexcept ValueError: pass\nprint(state())")
        assert answer["verdict"] == "ok", answer
        assert answer["checkpoint"]["state"] == "made", answer
        self.states.append(answer["stdout"])
        return answer

    def check(self):
        """The state is the last one that was recorded; looking at it is a run."""
        answer = self.run("print(state())")
        assert answer["verdict"] == "ok", answer
        assert difference(answer["stdout"], self.states[-1]) == [], self.name
        self.states.append(self.states[-1])


def difference(one, other):
    """What differs between two states, in words that a failure can be found by."""
    one, other = json.loads(one), json.loads(other)
    found = [(a, b) for a, b in zip(one[:-1], other[:-1]) if a != b]
    files, expected = one[-1], other[-1]
    return found + [(path, files.get(path), expected.get(path))
                    for path in sorted({*files, *expected}) if files.get(path) != expected.get(path)]


@pytest.fixture
def connection(cli):
    c = Stdio(cli, "--checkpoints", "12", "--processes", "200", "--state", cli.folder / "state")
    c.open()
    yield c
    c.close()


@pytest.fixture
def session(connection):
    connection.call("open_session", checkpoint=True, **{"name": "s"})
    return Session(connection, "s")


def value(session, code):
    answer = session.run(code)
    assert answer["verdict"] == "ok", answer
    return answer["stdout"].strip()


# ---- The long walk -------------------------------------------------------------------------------

@pytest.mark.parametrize("seed", range(3))
def test_a_hundred_steps_lead_back_to_recorded_states(connection, seed):
    chance = random.Random(seed)
    sessions, counts = [], {}
    connection.call("open_session", checkpoint=True, **{"name": "s0"})
    first = Session(connection, "s0")
    first.step("pass\n" + SETUP.replace("\n", "\n    "))
    first.states[0] = first.states[0].splitlines()[-1] + "\n"
    sessions.append(first)
    for number in range(100):
        s = chance.choice(sessions)
        what = chance.choices(["run", "undo", "name", "back", "fork", "crash"], [40, 20, 8, 12, 5, 10])[0]
        counts[what] = counts.get(what, 0) + 1
        if what == "run":
            s.step(chance.choice(CHANGES))
        elif what == "undo":
            steps = chance.randint(1, 3)
            if steps >= len(s.states):
                continue
            answer = s.call("undo_session", steps=steps)
            if answer["verdict"] == "ok":
                del s.states[-steps:]
                s.names = {n: at for n, at in s.names.items() if at <= len(s.states)}
                s.check()
            else:
                assert "steps can be" in answer["error"]["message"] or \
                    "no run" in answer["error"]["message"] or \
                    "no checkpoint" in answer["error"]["message"], answer
                counts["refused"] = counts.get("refused", 0) + 1
        elif what == "name":
            name = chance.choice("pqr")
            answer = s.call("checkpoint_session", **{"name": name})
            assert answer["checkpoint"]["state"] == "made", answer
            s.names[name] = len(s.states)
        elif what == "back" and s.names:
            name = chance.choice(sorted(s.names))
            answer = s.call("undo_session", checkpoint=name)
            if answer["verdict"] == "ok":
                del s.states[s.names[name]:]
                s.names = {n: at for n, at in s.names.items() if at <= len(s.states)}
                s.check()
            else:
                assert "no checkpoint is named" in answer["error"]["message"], answer
                del s.names[name]
        elif what == "fork" and len(sessions) < 5:
            name = f"s{len(sessions)}"
            answer = s.call("fork_session", **{"name": name})
            assert answer["verdict"] == "ok", answer
            sessions.append(Session(connection, name, s.states[-1:]))
            sessions[-1].check()
        elif what == "crash":
            answer = s.run(chance.choice(CRASHES))
            assert answer["error"]["type"] == "InterpreterCrash", answer
            s.check()
    for s in sessions:
        s.check()
    print(counts)
    assert counts["undo"] > 5 and counts["crash"] > 2 and counts["fork"] > 0
    assert counts.get("refused", 0) < counts["undo"]


# ---- What comes back -----------------------------------------------------------------------------

def test_generators_iterators_and_random_numbers_go_on_where_they_were(session):
    session.run("import random\ng = (n * n for n in range(100)); i = iter('abcdef'); random.seed(1)")
    first = value(session, "print(next(g), next(g), next(i), random.random(), random.gauss(0, 1))")
    session.undo(steps=1)
    assert value(session, "print(next(g), next(g), next(i), random.random(), random.gauss(0, 1))") == first


def test_an_open_file_is_where_it_was(session):
    session.run("open('f', 'w').write('one\\ntwo\\nthree\\n'); f = open('f'); f.readline()")
    assert value(session, "print(f.readline(), f.read())") == "two\n three"
    session.undo(steps=1)
    session.run("import os; os.remove('f'); open('f', 'w').write('other')")
    session.undo(steps=1)
    assert value(session, "print(f.readline(), f.read())") == "two\n three"


def test_a_file_that_is_being_written_goes_on_where_it_was(session):
    session.run("f = open('f', 'w'); f.write('a'); f.flush()")
    session.run("f.write('bbbb'); f.flush()")
    session.undo(steps=1)
    session.run("f.write('c'); f.flush()")
    assert value(session, "print(open('f').read())") == "ac"
    session.run("buffered = open('g', 'w'); buffered.write('x')")
    session.run("buffered.write('yyy'); buffered.flush()")
    session.undo(steps=1)
    session.run("buffered.write('z'); buffered.flush()")
    assert value(session, "print(open('g').read())") == "xz"


def test_a_change_of_the_same_size_at_the_same_moment_is_seen(session):
    for n in range(5):
        session.run(f"open('f', 'w').write('{n}')")
        session.run("f = open('f', 'r+'); f.write('x'); f.close()")
        session.undo(steps=1)
        assert value(session, "print(open('f').read())") == str(n)


def test_odd_files_come_back(session):
    session.run(
        "import os\n"
        "os.mkdir('shut'); open('shut/in', 'w').write('in'); os.chmod('shut', 0)\n"
        "open(b'\\xff\\n', 'w').write('name'); os.symlink('nowhere', 'dangling'); os.mkfifo('pipe')\n"
        "open('none', 'w').write('secret'); os.chmod('none', 0)\n"
        "f = open('sparse', 'wb'); f.truncate(1 << 27); f.seek(1 << 26); f.write(b'middle'); f.close()"
    )
    look = (
        "print([(n, oct(os.lstat(n).st_mode), os.lstat(n).st_size) for n in sorted(os.listdir(b'.'))],"
        " os.stat('sparse').st_blocks < 100)"
    )
    before = value(session, look)
    answer = session.run(
        "os.chmod('shut', 0o700); os.remove('shut/in'); os.rmdir('shut'); os.chmod('none', 0o600)\n"
        "for n in os.listdir(b'.'): os.remove(n)\nos.mkdir('none')"
    )
    assert answer["checkpoint"]["state"] in ("made", "unavailable"), answer
    if answer["checkpoint"]["state"] == "unavailable":
        assert "Permission denied" in answer["checkpoint"]["reason"], answer
        return
    session.undo(steps=1)
    assert value(session, look) == before


def test_a_named_checkpoint_can_be_gone_back_to_again_and_again(session):
    session.run("x = 1; open('f', 'w').write('1')")
    session.call("checkpoint_session", **{"name": "start"})
    for n in range(3):
        session.run(f"x = {n} + 10; import os; os.remove('f')")
        answer = session.call("undo_session", checkpoint="start")
        assert answer["checkpoint"]["name"] == "start"
        assert value(session, "print(x, open('f').read())") == "1 1"


def test_numpy_arrays_and_large_data_come_back(cli):
    c = Stdio(cli, "--memory", "1G", "--state", cli.folder / "state")
    c.open()
    c.call("open_session", checkpoint=True, **{"name": "s"})
    s = Session(c, "s")
    s.run("big = bytearray(b'x') * (120 << 20)")
    s.run("big[:] = bytes(len(big)); del big[100:]")
    s.undo(steps=1)
    assert value(s, "print(len(big), set(big[::4096]) == {120})") == f"{120 << 20} True"
    c.close()


def test_the_process_is_the_same_as_long_as_nothing_is_undone(session):
    session.run("import os, signal, time")
    before = value(session, "print(os.getpid())")
    assert value(session, "print(os.getpid())") == before
    assert "ChildProcessError" in session.run("os.wait()")["error"]["type"]


# ---- Forks ---------------------------------------------------------------------------------------

def test_a_fork_is_independent(session, connection):
    session.run("x = [1]; open('f', 'w').write('one'); h = open('f', 'a')")
    session.call("fork_session", **{"name": "t"})
    other = Session(connection, "t")
    other.run("x.append(2); h.write('+fork'); h.flush(); open('new', 'w').write('n')")
    session.run("x.append(3); h.write('+first'); h.flush()")
    assert value(session, "import os; print(x, open('f').read(), sorted(os.listdir()))") == \
        "[1, 3] one+first ['f']"
    assert value(other, "import os; print(x, open('f').read(), sorted(os.listdir()))") == \
        "[1, 2] one+fork ['f', 'new']"
    other.undo(steps=2)
    assert value(other, "import os; print(x, open('f').read(), sorted(os.listdir()))") == "[1] one ['f']"
    assert value(session, "print(x)") == "[1, 3]"


def test_a_fork_outlives_a_crash_of_its_origin(connection):
    connection.call("open_session", **{"name": "s"})
    session = Session(connection, "s")
    session.run("x = 1")
    session.call("fork_session", **{"name": "t"})
    answer = session.run("import os; os._exit(1)")
    assert "lost" in answer["error"]["message"], answer
    other = Session(connection, "t")
    assert value(other, "print(x)") == "1"


def test_files_of_a_fork_are_its_own_over_every_way_to_them(session, connection):
    session.run("open('f', 'w').write('first')")
    session.call("fork_session", **{"name": "t"})
    other = Session(connection, "t")
    other.call("write_file", path="f", text="fork")
    session.call("write_file", path="g", text="only first")
    assert value(other, "import os; print(open('f').read(), os.listdir())") == "fork ['f']"
    assert value(session, "import os; print(open('f').read(), sorted(os.listdir()))") == \
        "first ['f', 'g']"
    assert [f["path"] for f in other.call("list_files")["files"]] == ["f"]


def test_a_closed_fork_is_freed(session, connection, tools):
    def processes():
        return len(tools.descendants(connection.process.pid))

    session.run("x = 1")
    session.call("fork_session", **{"name": "t"})
    other = Session(connection, "t")
    other.run("x += 1")
    before = processes()
    for _ in range(8):
        other.run("x += 1; open('f', 'w').write('fork')")
    assert processes() >= before + 8
    connection.call("close_session", session="t")
    assert tools.wait_until(lambda: processes() <= before), "copies of a closed fork are left"
    assert value(session, "import os; print(x, os.listdir())") == "1 []"


def test_the_memory_of_the_first_process_goes_with_it(cli, tools):
    """The user process begins in init's memory, and moves out when there is the first copy of it."""
    c = Stdio(cli, "--memory", "1G", "--state", cli.folder / "state")
    c.open()
    c.call("open_session", **{"name": "s"})
    s = Session(c, "s")
    s.run("data = bytearray(b'x') * (100 << 20)")
    s.call("checkpoint_session", **{"name": "here"})

    def inits():
        sizes = []
        for pid in tools.descendants(c.process.pid):
            text = open(f"/proc/{pid}/status").read()
            if text.split("NSpid:")[1].split("\n")[0].split()[2:] == ["1"]:
                sizes.append(int(text.split("RssAnon:")[1].split()[0]))
        return sizes

    assert inits() and max(inits()) < 60_000, inits()
    c.close()


# ---- What cannot be done -------------------------------------------------------------------------

@pytest.mark.parametrize("code, why, end", [
    ("import threading, time; t = threading.Thread(target=time.sleep, args=(30,), daemon=True); t.start()",
     "thread", None),
    ("import socket; a, b = socket.socketpair()", "socket", "a.close(); b.close()"),
    ("import os; r, w = os.pipe()", "pipe", "os.close(r); os.close(w)"),
    ("import subprocess; p = subprocess.Popen(['sleep', '30'])", "child", "p.kill(); p.wait()"),
    ("import tempfile; f = tempfile.TemporaryFile(dir='.')", "without a name", "f.close()"),
    ("import mmap; f = open('m', 'w+b'); f.truncate(4096); m = mmap.mmap(f.fileno(), 4096)",
     "mapped", "m.close(); f.close()"),
])
def test_a_checkpoint_is_unavailable_and_says_why(session, code, why, end):
    assert session.run(code)["checkpoint"]["state"] == "made"
    answer = session.run("x = 1")
    assert answer["verdict"] == "ok"
    assert answer["checkpoint"]["state"] == "unavailable"
    assert "checkpoint unavailable" in answer["checkpoint"]["reason"]
    assert why in answer["checkpoint"]["reason"], answer
    answer = session.call("checkpoint_session", **{"name": "n"})
    assert answer["error"]["type"] == "CheckpointError" and why in answer["error"]["message"]
    assert value(session, "print(x)") == "1"
    if end:
        session.run(end)
        assert session.run("x = 2")["checkpoint"]["state"] == "made"


def test_awaiting_is_no_reason(session):
    session.run("import asyncio\nawait asyncio.sleep(0.001)\nx = 1")
    assert session.run("x = 2")["checkpoint"]["state"] == "made"
    session.undo(steps=1)
    assert value(session, "await asyncio.sleep(0.001)\nprint(x)") == "1"


def test_mistakes_are_told(connection):
    connection.call("open_session", **{"name": "s"})
    session = Session(connection, "s")
    session.run("x = 1")
    answer = session.call("undo_session", steps=1)
    assert answer["error"]["type"] == "CheckpointError"
    assert "checkpoint=true" in answer["error"]["message"]
    session.call("checkpoint_session", **{"name": "a"})
    session.call("checkpoint_session", **{"name": "b"})
    session.run("x = 2")
    answer = session.call("undo_session", checkpoint="c")
    assert "'a', 'b'" in answer["error"]["message"]
    answer = session.call("undo_session", steps=7)
    assert "steps can be 1" in answer["error"]["message"]
    assert value(session, "print(x)") == "2"
    answer = session.call("undo_session", steps=2)
    assert answer["verdict"] == "ok" and value(session, "print(x)") == "1"


def test_the_number_is_bounded_and_names_go_last(session):
    session.call("checkpoint_session", **{"name": "keep"})
    for n in range(20):
        answer = session.run(f"x = {n}")
        assert answer["checkpoint"]["kept"] <= 12
    assert answer["checkpoint"]["kept"] == 12 and answer["checkpoint"]["dropped"] == 1
    assert answer["usage"]["processes"] < 20
    assert session.call("undo_session", checkpoint="keep")["verdict"] == "ok"


def test_memory_is_bounded_by_dropping_the_oldest(cli):
    """Every run writes to all of its memory: eight copies would be twice what the box has.  It does so bit by bit:
    `data[:] = bytes` makes two more copies for a moment, and these would be too many for the box."""
    c = Stdio(cli, "--memory", "512M", "--state", cli.folder / "state")
    c.open()
    c.call("open_session", checkpoint=True, **{"name": "s"})
    s = Session(c, "s")
    s.run("data = bytearray(b'x') * (100 << 20)")
    for n in range(8):
        answer = s.run(f"for at in range(0, len(data), 1 << 20): data[at:at + (1 << 20)] = bytes([{n}]) * (1 << 20)\n"
                       "print(data[0])")
        assert answer["verdict"] == "ok", answer
        assert answer["checkpoint"]["state"] == "made", answer
    assert 1 <= answer["checkpoint"]["kept"] < 6, answer
    s.undo(steps=1)
    assert value(s, "print(data[0], data[-1])") == "6 6"
    answer = s.run("more = bytearray(b'y') * (170 << 20)")
    assert answer["verdict"] == "ok", answer
    answer = s.run("1")
    assert answer["verdict"] == "ok" and answer["checkpoint"]["state"] == "unavailable", answer
    assert "MiB" in answer["checkpoint"]["reason"]
    c.close()


@pytest.mark.parametrize("size", [8, 40])
def test_large_objects_that_are_replaced_never_fill_the_box(cli, size):
    """Each checkpoint keeps the object that the next run let go of, and huge pages hide from the count of faults:
    the oldest make room in time, and the session lives."""
    c = Stdio(cli, "--memory", "256M", "--state", cli.folder / "state")
    c.open()
    c.call("open_session", checkpoint=True, **{"name": "s"})
    s, kept = Session(c, "s"), []
    for step in range(24):
        answer = s.run(f"data = bytearray(b'{step % 10}') * ({size} << 20)")
        assert answer["verdict"] == "ok", answer
        kept.append(answer["checkpoint"]["kept"])
    assert value(s, "print(chr(data[0]), len(data))") == f"3 {size << 20}"
    assert kept[-1] >= 1 and (size > 8 or max(kept) == 8), kept
    c.close()


def test_files_too_large_to_copy_are_no_disaster(session):
    session.run("open('f', 'wb').write(bytes(1)); x = 1")
    answer = session.run("f = open('big', 'wb')\nfor n in range(50): f.write(bytes(1 << 20))\nf.close()")
    assert answer["verdict"] == "ok", answer
    answer = session.run("[open(f'n{n}', 'w').close() for n in range(11000)] and None")
    if answer["verdict"] == "ok":
        answer = session.run("x = 2")
        assert answer["checkpoint"]["state"] == "unavailable"
        assert "files" in answer["checkpoint"]["reason"], answer
    assert session.call("undo_session", steps=1)["verdict"] in ("ok", "error")


# ---- Crashes -------------------------------------------------------------------------------------

@pytest.mark.parametrize("code", CRASHES)
def test_a_crash_takes_nothing_with_it(session, code):
    session.run("import os; numbers = [1]; open('f', 'w').write('1')")
    answer = session.run(code)
    assert answer["verdict"] == "error" and answer["error"]["type"] == "InterpreterCrash"
    assert answer["checkpoint"]["state"] == "restored"
    assert value(session, "print(numbers, os.listdir())") == "[1] ['f']"
    assert answer["exit_code"] == {"os._exit(3)": 3, "os.abort()": 134,
                                   "os.kill(os.getpid(), 9)": 137}.get(code, 1)


def test_killing_everybody_ends_with_a_clear_answer(session):
    session.run("import os; x = 1")
    answer = session.run("os.kill(-1, 9)")
    assert answer["verdict"] == "ok"
    assert value(session, "print(x)") == "1"
    assert session.call("undo_session", steps=2)["verdict"] == "error"


def test_an_interrupt_reaches_the_active_process(session, connection):
    session.run("x = 1")
    session.undo(steps=1)
    session.run("x = 5\nimport time")
    answer = connection.call("execute_python", session="s", code="time.sleep(30)", timeout=1)
    answer = answer["structuredContent"]
    assert answer["verdict"] == "timeout_wall", answer
    assert value(session, "print(x)") == "5"


# ---- What it costs -------------------------------------------------------------------------------

HUGE_KIB = """
kib, data_here = 0, False                   # not of code: src/box/code_pages.c
for line in open("/proc/self/smaps"):
    fields = line.split()
    if "-" in fields[0]:
        data_here = "w" in fields[1]
    elif fields[0] == "AnonHugePages:" and data_here:
        kib += int(fields[1])
kib
"""


def test_large_objects_are_in_huge_pages(cli):
    """Only where the kernel offers them and the session has checkpoints; no other box forks."""
    with open("/sys/kernel/mm/transparent_hugepage/enabled") as file:
        enabled = file.read()
    c = Stdio(cli, "--memory", "2G", "--state", cli.folder / "state")
    c.open()

    def huge_kib(checkpoint):
        name = f"huge-{checkpoint}"
        c.call("open_session", checkpoint=checkpoint, **{"name": name})
        s = Session(c, name)
        s.run("data = bytearray(b'x') * (64 << 20)\nmore = [0] * (4 << 20)")
        answer = s.run(HUGE_KIB)
        assert answer["verdict"] == "ok", answer
        assert s.run("data[1 << 20] = 1; (len(data), sum(data[:9]), len(more))")["result"] == \
            f"({64 << 20}, {9 * ord('x')}, {4 << 20})"
        return int(answer["result"])

    with_them, without = huge_kib(True), huge_kib(False)
    c.close()
    if "[madvise]" in enabled:
        assert with_them > 32 << 10 and without == 0
    elif "[never]" in enabled:
        assert with_them == without == 0


def test_a_checkpoint_of_120_mib_costs_less_than_a_third_of_a_cold_python(cli):
    """Printed; asserted loosely, for a machine that has something else to do as well."""
    c = Stdio(cli, "--memory", "2G", "--state", cli.folder / "state")
    c.open()

    def times(name, checkpoint):
        c.call("open_session", checkpoint=checkpoint, **{"name": name})
        s = Session(c, name)
        s.run("data = bytearray(b'x') * (120 << 20)")
        spent = []
        for _ in range(15):
            start = time.perf_counter()
            s.run("1")
            spent.append((time.perf_counter() - start) * 1e3)
        return spent

    plain, kept, cold = times("plain", False), times("kept", True), []
    for _ in range(15):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        cold.append((time.perf_counter() - start) * 1e3)
    c.close()
    cost = statistics.median(kept) - statistics.median(plain)
    print(f"checkpoint of 120 MiB: {cost:.2f} ms (least {min(kept) - min(plain):.2f}); "
          f"cold python3 -c pass: {statistics.median(cold):.2f} ms (least {min(cold):.2f})")
    assert min(min(kept) - min(plain), cost) < min(cold)
