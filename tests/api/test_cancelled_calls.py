# SPDX-License-Identifier: Apache-2.0
"""What a hostile review found: calls that are cancelled at once, what a gate keeps, used groups."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
from test_stdio import Client, cancelled, run_code

COUNT = 2000
RUNS = 4


def start(cli, *flags):
    client = Client(cli.start("stdio", *flags, stdin=subprocess.PIPE))
    client.start_legacy()
    assert not client.ask(run_code("first", "1"))["result"].get("isError")
    return client


def zygote_of(server, tools):
    """The child of the server that has children of its own."""
    return next(filter(tools.children, tools.children(server.pid)))


def structured(answer):
    return answer["result"]["structuredContent"]


@pytest.mark.parametrize("limits", [{}, {"memory_mb": 100}], ids=["parked", "to_order"])
def test_cancelled_calls_cost_no_more_than_runs_may(cli, tools, limits):
    """Each call is cancelled in the same breath: the next one is served, and few boxes are made."""
    client = start(cli, "--runs", RUNS, "--stock", "2")
    zygote = zygote_of(client.process, tools)
    for begin in range(0, COUNT, 100):
        lines = []
        for id in range(begin + 1, begin + 101):
            lines += [run_code(id, "1", **limits), cancelled(id)]
        client.send(*lines)
        # those for the stock, those for runs, and for each of them one that is on its way out; each has had a stem
        assert len(tools.children(zygote)) <= 2 + 3 * RUNS
    answer = client.ask(run_code("last", "20011 * 30011"))
    assert "600550121" in json.dumps(answer["result"])
    assert not answer["result"].get("isError")
    assert tools.wait_until(lambda: sum(len(tools.children(stem)) for stem in tools.children(zygote)) <= 2 + RUNS)
    # All places are there again.
    for id in range(RUNS):
        client.send(run_code(f"again {id}", "import time; time.sleep(.2)", **limits))
    answers = [client.receive() for _ in range(RUNS)]
    assert all(not a["result"].get("isError") for a in answers), answers
    assert client.end()[0] == 0


def test_calls_that_are_cancelled_before_there_are_boxes(cli):
    client = Client(cli.start("stdio", "--runs", RUNS, stdin=subprocess.PIPE))
    client.send(
        {
            "jsonrpc": "2.0",
            "id": 0,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        }
    )
    for id in range(1, COUNT + 1):
        client.send(run_code(id, "1"), cancelled(id))
    answer = client.ask(run_code("last", "20011 * 30011"))
    assert "600550121" in json.dumps(answer["result"])
    assert client.end()[0] == 0


def open_server(cli, tools):
    """`constrictor serve` and its gate."""
    process = cli.start("serve", "--port", "0")
    for line in process.stdout:
        if b"/mcp" in line:
            break
    gate = [pid for pid in tools.descendants(process.pid) if tools.is_gate(pid)]
    assert len(gate) == 1, tools.describe(tools.descendants(process.pid))
    return process, gate[0]


def status_of(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return dict(re.findall(r"^(\w+):\s*(.*)$", text, re.MULTILINE))


@pytest.mark.root
def test_a_gate_has_no_capability_left_to_get(cli, tools):
    process, gate = open_server(cli, tools)
    for again in range(2):
        status = status_of(gate)
        sets = {key: int(status[key], 16) for key in status if key.startswith("Cap")}
        assert len(sets) == 5 and not any(sets.values()), (again, sets)
        # The keeper's own bounding set has no more than it uses.
        keeper = status_of(process.pid)
        assert keeper["CapBnd"] == keeper["CapPrm"]
        # The next gate is made by a keeper that has dropped its capabilities long since.
        os.kill(gate, signal.SIGKILL)
        old = gate

        def found(old=old):
            for pid in tools.descendants(process.pid):
                if pid != old and tools.is_gate(pid):
                    return pid
            return None

        gate = tools.wait_until(found)
        assert gate
        assert tools.wait_until(lambda pid=gate: status_of(pid)["Seccomp"] == "2")


def test_a_new_zygote_works_after_the_old_one_was_killed(cli, tools):
    client = start(cli)
    os.kill(zygote_of(client.process, tools), signal.SIGKILL)

    def works():
        answer = client.ask(run_code(f"{time.monotonic()}", "20011 * 30011"))
        return "600550121" in json.dumps(answer["result"])

    assert tools.wait_until(works)
    assert client.end()[0] == 0


FORKS = "import os\nfor i in range(200):\n    try: os.fork() or os._exit(0)\n    except OSError: pass"
EATS = "x = []\nwhile True: x.append(bytearray(1 << 20))"


@pytest.mark.parametrize(
    ("code", "flags"),
    [
        (FORKS, ["--processes", "1"]),
        (FORKS, ["--processes", "2"]),
        (EATS, ["--memory", "64M"]),
        ("open('/tmp/x', 'wb').write(bytes(30 << 20))", ["--memory", "128M"]),
        ("import os; os.write(1, bytes(60000)); os._exit(3)", []),
        ("x = 0\nfor i in range(2000000): x += i", ["--cpu", "5s"]),
    ],
    ids=["one process", "two processes", "memory", "scratch", "output", "cpu"],
)
def test_nothing_of_a_box_is_counted_to_the_next(cli, code, flags):
    """Boxes may get the groups of earlier ones, whatever those did."""
    client = start(cli, "--stock", "1", *flags)
    for id in range(8):
        client.ask(run_code(f"bad {id}", code))
        good = structured(client.ask(run_code(f"good {id}", "1")))
        assert good["verdict"] == "ok", good
        usage = good["usage"]
        assert usage["cpu_user_ms"] + usage["cpu_system_ms"] < 200, good
        assert usage["processes"] <= 1 and usage["peak_memory_bytes"] < 40 << 20, good
    assert client.end()[0] == 0


def test_forks_that_were_refused_to_one_box_do_not_end_the_next(cli):
    """Each stays below the number of refusals that ends a box; together they are above it."""
    client = start(cli, "--stock", "1", "--processes", "1")
    for id in range(8):
        result = structured(client.ask(run_code(f"{id}", FORKS + "\nimport time; time.sleep(.1)")))
        assert result["verdict"] == "ok", (id, result)
    assert client.end()[0] == 0
