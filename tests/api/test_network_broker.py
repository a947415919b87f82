# SPDX-License-Identifier: Apache-2.0
"""Processes that die: the broker, the gate, the keeper. What goes on then, and what is left.

Gate and broker are children of the keeper in its own pid namespace; the broker has a name of its own.
"""

import contextlib
import json
import os
import pathlib
import signal
import threading

import pytest
from conftest import wait_until
from net_lab import PRELUDE, Boxes, Ran

DOWNLOAD = """
import urllib.request
def read():
    with urllib.request.urlopen("http://web.test/bytes/100000000?pause=0.02") as answer:
        total = 0
        print("begun", flush=True)
        while part := answer.read(1 << 16):
            total += len(part)
    if total < 100000000: raise EOFError(f"ended after {total}")
attempt(read)
"""


BROKER = "constrictor-net"  # what ps shows of it


def outside_boxes(tools, process):
    """Gate and broker, with their names: children of the keeper in its own pid namespace."""
    found = {}
    for pid in tools.children(process.pid):
        with contextlib.suppress(OSError):
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
            if fields and fields["State"][0] != "Z" and len(fields["NSpid"].split()) == 1:
                found[pid] = fields["Name"].strip()
    return found


def broker_of(tools, process):
    def look():
        return [pid for pid, name in outside_boxes(tools, process).items() if name == BROKER]

    found = wait_until(look)
    assert len(found) == 1, tools.describe(tools.descendants(process.pid))
    return found[0]


def gate_of(tools, process):
    (gate,) = [pid for pid, name in outside_boxes(tools, process).items() if name == "constrictor"]
    return gate


@pytest.fixture
def rest(lab, cli):
    return lab.serve(cli, "--allow-host", "web.test", "--stock", "1")


def run(rest, code, **fields):
    return Ran(rest.run(PRELUDE + code, **fields))


@pytest.mark.parametrize("session", [None, "s"])
def test_broker_killed_in_a_download_is_a_clear_error_and_the_next_request_works(
    lab, rest, tools, session
):
    where = {"session_id": session} if session else {}
    if session:
        assert rest.post("/sessions", {"name": session}).status in (200, 201)
        assert run(
            rest, "kept = 41; attempt(lambda: connect('web.test', 80))", **where
        ).attempt.get("value")
    broker = broker_of(tools, rest.process)
    lab.clear()
    done = {}
    thread = threading.Thread(target=lambda: done.update(ran=run(rest, DOWNLOAD, **where)))
    thread.start()
    assert wait_until(lambda: any(r["target"].startswith("/bytes") for r in lab.show("requests")))
    os.kill(broker, signal.SIGKILL)
    thread.join()
    ran = done["ran"]
    assert ran.verdict == "ok" and "error" in ran.attempt, ran
    assert ran.attempt["seconds"] < 25, ran
    assert "reset" in ran.attempt["error"].lower() or "ended after" in ran.attempt["error"], ran
    after = run(
        rest,
        "attempt(lambda: connect('web.test', 80)); attempt(lambda: connect('other.test', 80))",
        **where,
    )
    assert ["value" in one for one in after.attempts] == [True, False], after
    assert "other.test" in after.attempts[1]["error"]
    if session:
        assert run(rest, "kept", **where).result == "41", "the session is the same"
    assert broker_of(tools, rest.process) != broker


def test_code_that_goes_on_after_the_broker_died_reaches_its_hosts(lab, rest, tools):
    """The same run: its next connection is the new broker's."""
    code = """
attempt(lambda: connect("web.test", 80))
print("now", flush=True)
time.sleep(2)
for n in range(20):
    try:
        connect("web.test", 80, 20); break
    except OSError: time.sleep(0.2)
attempt(lambda: connect("web.test", 80))
attempt(lambda: connect("other.test", 80))"""
    broker = broker_of(tools, rest.process)
    with rest.streaming(PRELUDE + code) as answer:
        lines = [json.loads(answer.readline())]
        while "now" not in lines[-1].get("text", ""):
            lines.append(json.loads(answer.readline()))
        os.kill(broker, signal.SIGKILL)
        ran = Ran(json.loads(answer.read().splitlines()[-1])["execution"])
    assert ["value" in one for one in ran.attempts] == [True, True, False], ran


def test_broker_killed_again_and_again_comes_back(rest, tools):
    for _ in range(5):
        os.kill(broker_of(tools, rest.process), signal.SIGKILL)
        assert wait_until(
            lambda: "value" in run(rest, "attempt(lambda: connect('web.test', 80))").attempt
        )


def test_broker_has_no_rights(rest, tools):
    broker = broker_of(tools, rest.process)
    status = pathlib.Path(f"/proc/{broker}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb", *(["CapBnd"] if tools.root else [])):
        assert int(fields[name], 16) == 0, (name, fields[name])
    assert fields["NoNewPrivs"].strip() == "1" and fields["Seccomp"].strip() == "2", status
    if tools.root:
        assert "0" not in fields["Uid"].split() and "0" not in fields["Gid"].split(), status


def test_gate_killed_ends_the_command_and_nothing_is_left(lab, rest, tools):
    """With its boxes, their namespaces and the broker."""
    assert rest.post("/sessions", {"name": "g"}).status in (200, 201)
    assert "value" in run(rest, "attempt(lambda: connect('web.test', 80))", session_id="g").attempt
    below = tools.descendants(rest.process.pid)
    os.kill(gate_of(tools, rest.process), signal.SIGKILL)

    # Either the server ends, or it has a new gate that keeps to the rules.
    def answers():
        try:
            return "value" in run(rest, "attempt(lambda: connect('web.test', 80))").attempt
        except Exception:
            return rest.process.poll() is not None

    assert wait_until(answers)
    if rest.process.poll() is None:
        ran = run(rest, "attempt(lambda: connect('other.test', 80))")
        assert "error" in ran.attempt, ran
    else:
        gone(tools, below)


def gone(tools, pids):
    def alive():
        tools.reap(pids)
        return [p for p in pids if os.path.exists(f"/proc/{p}")]

    assert wait_until(lambda: not alive()), tools.describe(alive())


def test_keeper_killed_leaves_nothing(lab, rest, tools):
    """No process, and so no namespace: nothing holds one but the processes in it."""
    assert rest.post("/sessions", {"name": "k"}).status in (200, 201)
    assert "value" in run(rest, "attempt(lambda: connect('web.test', 80))", session_id="k").attempt
    below = tools.descendants(rest.process.pid)
    spaces = set()
    for pid in below:
        with contextlib.suppress(OSError):  # those of gate and broker cannot be seen
            spaces.add(os.readlink(f"/proc/{pid}/ns/net"))
    os.kill(rest.process.pid, signal.SIGKILL)
    rest.process.wait(600)
    gone(tools, below)
    left = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            left.add(os.readlink(f"/proc/{pid}/ns/net"))
        except OSError:
            pass
    spaces -= {os.readlink(f"/proc/{pid}/ns/net") for pid in (lab.near, lab.far)}
    assert spaces and not spaces & left, "a network namespace of a box is left"
    mounts = pathlib.Path("/proc/self/mountinfo").read_text()
    assert not any(space in mounts for space in spaces)


def test_a_stopped_broker_does_not_stop_runs_that_need_none(rest, tools):
    broker = broker_of(tools, rest.process)
    os.kill(broker, signal.SIGSTOP)
    try:
        assert run(rest, "6 * 7", network="off").result == "42"
        ran = run(rest, "6 * 7")
        assert ran.verdict in ("ok", "error"), ran
    finally:
        os.kill(broker, signal.SIGCONT)
    assert wait_until(
        lambda: "value" in run(rest, "attempt(lambda: connect('web.test', 80))").attempt
    )


def test_boxes_come_and_go_and_nothing_grows(lab, cli, tools):
    """Descriptors of keeper and broker after many boxes with network."""
    with Boxes(lab, cli, "--allow-host", "web.test", "--stock", "2") as boxes:

        def count():
            total = {}
            for pid in [boxes.process.pid, broker_of(tools, boxes.process)]:
                with contextlib.suppress(
                    PermissionError
                ):  # an ordinary user sees the keeper's only
                    total[pid] = len(os.listdir(f"/proc/{pid}/fd"))
            assert total
            return total

        for _ in range(5):
            boxes.run("attempt(lambda: connect('web.test', 80))")
        before = count()
        for _ in range(40):
            assert "value" in boxes.run("attempt(lambda: connect('web.test', 80))").attempt
        # What a box has is given back some moments after its end.
        assert wait_until(lambda: all(n <= before[p] + 20 for p, n in count().items())), (
            before,
            count(),
        )
