# SPDX-License-Identifier: Apache-2.0
"""After many runs the machine is as before: cgroups, mounts, namespaces, processes, files.

LEAK_RUNS (200) sets how many. Other things happen on the machine meanwhile, also other tests, so a
difference counts only if it stays, and only what can be ours is looked at: groups have the pid of their
keeper in their names, and every process of ours is below this one, whatever its parent was (conftest.py).
"""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import time

import pytest

RUNS = int(os.environ.get("LEAK_RUNS", "200"))
CODES = (
    ("print(1)", 0),
    ("import os\nif os.fork() == 0:\n    import time; time.sleep(1000)", 0),
    ("open('/tmp/x', 'w').write('x' * 100000)", 0),
    ("1 / 0", 1),
    ("import os; os.kill(os.getpid(), 9)", 137),
    ("import socket; a = socket.socketpair(); b = open('/dev/null')", 0),
    ("import multiprocessing.shared_memory as s; s.SharedMemory(create=True, size=9)", 0),
    ("raise SystemExit(5)", 5),
)


def find_cgroups(beginnings):
    found = set()
    for folder, names, _ in os.walk("/sys/fs/cgroup"):
        found |= {f"{folder}/{name}" for name in names if name.startswith(beginnings)}
        names[:] = [name for name in names if not name.startswith("constrictor.")]
    return found


# A killed server leaves its groups until the next start there, and the number of its process
# is given again.
OLD_CGROUPS = find_cgroups("constrictor.")


def cgroups(cli):
    return find_cgroups(tuple(f"constrictor.{process.pid}." for process in cli.started)) - OLD_CGROUPS


def mounts():
    """By place and kind: the ids in front of them are given anew to every mount."""
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    places = {(words[4], words[3], words[-2]) for words in map(str.split, lines)}
    return {place for place in places if not re.match("/var/tmp/constrictor-(test|[0-9]+)-", place[0])}


def namespaces(tools):
    """Of our own descendants; others come and go with other people's processes."""
    found = set()
    for pid in tools.descendants(os.getpid()):
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/ns"):
                found.add(os.readlink(f"/proc/{pid}/ns/{name}"))
    return found


def processes(tools):
    """Those that live; the dead whose parents are gone are ours to collect."""
    return set(tools.reap(tools.descendants(os.getpid())))


def folders():
    found = set()
    for folder in (
        "/tmp",
        "/run",
        "/var/tmp",
        "/dev/shm",
        os.environ.get("XDG_RUNTIME_DIR") or "/run",
    ):
        with contextlib.suppress(OSError):
            found |= {f"{folder}/{name}" for name in os.listdir(folder) if "constrictor" in name}
    return {path for path in found if not os.path.basename(path).startswith("constrictor-")}


def shared_memory():
    with contextlib.suppress(OSError):
        return {line.split()[1] for line in open("/proc/sysvipc/shm")}
    return set()


def snapshot(cli, tools):
    return {
        "cgroups": cgroups(cli),
        "mounts": mounts(),
        "namespaces": namespaces(tools),
        "processes": processes(tools),
        "folders": folders(),
        "shared memory": shared_memory(),
        "descriptors": set(os.listdir("/proc/self/fd")),
    }


def lasting_difference(before, cli, tools, guard=60):
    """What is new and stays: asked again until nothing is left or the guard is over."""
    deadline = time.monotonic() + guard
    lasting = None
    while True:
        now = snapshot(cli, tools)
        new = {(kind, str(item)) for kind in now for item in now[kind] - before[kind]}
        lasting = new if lasting is None else lasting & new
        if not lasting or time.monotonic() > deadline:
            return sorted(lasting)
        time.sleep(0.25)


def test_many_runs_leave_nothing(cli, tools):
    for code, status in CODES:  # what is made once and kept is no leak
        assert cli.plain(code).status == status
    before = snapshot(cli, tools)

    def one(index):
        code, status = CODES[index % len(CODES)]
        result = cli.plain(code)
        return None if result.status == status else result

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        bad = [result for result in pool.map(one, range(RUNS)) if result]
    assert not bad, bad[0]
    for process in cli.started:
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()
    assert lasting_difference(before, cli, tools) == []
    assert os.listdir(cli.folder) == []


def test_a_thousand_runs_through_one_keeper(cli, tools):
    """What a server does: nothing of a box is left, and keeper and gate do not grow."""
    before = snapshot(cli, tools)
    load = {"runs": 1000, "at_once": 8, "memory": True}
    result = cli.call(json.dumps(load), program=tools.LOAD)
    report = json.loads(result.out)
    assert (report["ok"], report["runs"], report["failed"]) == (True, 1000, 0), report
    spare = 32 * 10  # groups that wait for the next box, with their files (keeper/cgroup.h)
    moving = 3 * 16  # boxes that are being made or reaped at that moment, with all they have
    stems = 64 + 32  # those that rest, those of boxes (keeper/stems.h)
    start, end = report["before"], report["after"]
    assert end["keeper_fds"] <= start["keeper_fds"] + moving + spare + stems, report
    assert end["keeper_rss_kb"] < start["keeper_rss_kb"] + 2048, report
    assert end["gate_rss_kb"] < start["gate_rss_kb"] + 4096, report
    assert lasting_difference(before, cli, tools) == []


@pytest.mark.parametrize(
    "args",
    [
        ["run", "nothing.py"],
        ["run", "--memory", "lots", "-c", "1"],
        ["run", "--python", "/bin/true", "-c", "1"],
        ["run", "--preload", "no_such_module", "-c", "1"],
        ["run", "-c", "while True: print('x' * 9999)"],
        [
            "run",
            "--wall",
            "300ms",
            "-c",
            "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        ],
        ["run", "--memory", "32M", "-c", "x = bytearray(b'x' * (1 << 28))"],
        ["doctor"],
    ],
    ids=lambda args: " ".join(args)[:40],
)
def test_failures_leave_nothing(cli, tools, args):
    before = snapshot(cli, tools)
    cli.call(*args)
    for process in cli.started:
        process.stdout.close()
        process.stderr.close()
    assert lasting_difference(before, cli, tools) == []
    assert os.listdir(cli.folder) == []
