# SPDX-License-Identifier: Apache-2.0
"""Killed with -9 in the middle of a run: nothing of the box survives, and the next start sweeps up.

The processes below the command are told apart by what they are: the zygote and the boxes live in
pid namespaces of their own, the gate in the host's.
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
from test_leaks import cgroups

# The code resists as well as it can: a crowd of daemons that ignore what can be ignored.
CODE = """
import os, signal, time
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError): pass
for i in range(5):
    if os.fork() == 0:
        os.setsid()
        while True: time.sleep(0.05)
print('ready', flush=True)
while True: time.sleep(0.05)
"""


def status(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return {key: value.strip() for key, value in re.findall(r"^(\S+):(.*)$", text, re.MULTILINE)}


class Family:
    """The processes of one live command, by their part."""

    def __init__(self, process, tools):
        self.process = process
        self.keeper = process.pid
        self.all = tools.descendants(process.pid)
        depth = {}
        for pid in self.all:
            with contextlib.suppress(OSError, KeyError):    # one that ends just now
                depth[pid] = len(status(pid)["NSpid"].split())
        # The sampler is there where a box was looked at.
        self.gates = [pid for pid in depth if depth[pid] == 1 and status(pid)["Name"] != "constrictor-see"]
        inner = max(depth.values())
        self.boxes = [pid for pid in depth if depth[pid] == inner]
        self.zygotes = [pid for pid in depth if 1 < depth[pid] < inner]


@pytest.fixture
def family(cli, tools):
    """A streaming run with its crowd; afterwards all must be gone, however it ended."""
    process = cli.ready(CODE, "--wall", "60s")
    family = Family(process, tools)
    assert len(family.boxes) >= 7, tools.describe(family.all)
    yield family

    def alive():
        tools.reap([pid for pid in family.all])
        return [pid for pid in family.all if os.path.exists(f"/proc/{pid}") and status_or_none(pid)]

    def status_or_none(pid):
        try:
            return status(pid)["State"][0] not in "ZX"
        except (OSError, KeyError):
            return False

    tools.wait_until(lambda: not alive())
    assert not alive(), tools.describe(alive())
    result = cli.run("6 * 7")
    assert (result.verdict, result.result) == ("ok", "42")
    tools.wait_until(lambda: not cgroups(cli))
    assert not cgroups(cli), "cgroups are left after the next start"


def finish(process):
    process.communicate(timeout=60)
    return process.returncode


def test_keeper_killed(family):
    os.kill(family.keeper, signal.SIGKILL)
    assert finish(family.process) == -signal.SIGKILL


def test_gate_killed(family):
    """The keeper outlives its gate and ends in order: not as a success."""
    assert len(family.gates) == 1
    os.kill(family.gates[0], signal.SIGKILL)
    assert finish(family.process) not in (0, None)


def test_zygote_killed(family):
    """Its boxes live in its pid namespace and go with it: the run is lost, and that is said."""
    assert len(family.zygotes) == 1
    os.kill(family.zygotes[0], signal.SIGKILL)
    assert finish(family.process) == 125


def test_box_killed_from_the_host(family, tools):
    """A process outside kills the code: it looks like its own death by SIGKILL."""
    code = [pid for pid in family.boxes if status(pid)["NSpid"].split()[-1] == "2"]
    running = [pid for pid in code if len(tools.descendants(pid)) >= 5]
    assert len(running) == 1
    os.kill(running[0], signal.SIGKILL)
    assert finish(family.process) in (125, 137)


def test_init_killed_from_the_host(family, tools):
    inits = [pid for pid in family.boxes if status(pid)["NSpid"].split()[-1] == "1"]
    (init,) = [pid for pid in inits if len(tools.descendants(pid)) >= 6]
    os.kill(init, signal.SIGKILL)
    assert finish(family.process) in (125, 137)


@pytest.mark.parametrize(
    "number", [signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name
)
def test_command_told_to_end(family, number):
    family.process.send_signal(number)
    assert finish(family.process) != 0


def test_parent_of_the_command_dies(cli, tools):
    """The shell that started the command is killed: whatever happens, nothing is orphaned."""
    shell = subprocess.Popen(
        [
            "/bin/sh",
            "-c",
            (
                f"'{cli.program}' run --wall 3s -c 'import time; print(1, flush=True);"
                " time.sleep(60)'; true"
            ),
        ],
        stdout=subprocess.PIPE,
        env=cli.environ(),
    )
    assert shell.stdout.readline() == b"1\n"
    below = tools.descendants(shell.pid)
    assert below
    shell.kill()
    shell.wait()
    shell.stdout.close()

    def alive():
        tools.reap(below)
        return [pid for pid in below if os.path.exists(f"/proc/{pid}")]

    assert tools.wait_until(lambda: not alive()), tools.describe(alive())


def test_killed_at_every_moment(cli, tools):
    """Killed after 0, 5, 10 ... ms: whatever is under way then, nothing of it stays."""
    others = set(tools.descendants(os.getpid()))
    for step in range(20):
        process = cli.start("run", "-c", "import time; time.sleep(20)")
        time.sleep(step * 0.005)
        below = tools.descendants(process.pid)
        process.kill()
        process.communicate(timeout=60)

        def alive():
            now = (set(tools.descendants(os.getpid())) - others) | set(below)
            tools.reap(now)
            return [pid for pid in now if os.path.exists(f"/proc/{pid}")]

        assert tools.wait_until(lambda: not alive()), tools.describe(alive())
    assert cli.run("6 * 7").result == "42"
    tools.wait_until(lambda: not cgroups(cli))
    assert not cgroups(cli), "cgroups are left after the next start"


def test_stopped_and_continued(cli, tools):
    """The whole command is stopped for a while, as by Ctrl-Z; then it goes on."""
    process = cli.ready("import time\nprint('ready')\ntime.sleep(0.5)\nprint('done')")
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    process.send_signal(signal.SIGCONT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert (process.seen + out).endswith(b"done\n")
