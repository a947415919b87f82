# SPDX-License-Identifier: Apache-2.0
"""A gate or zygote that was killed is replaced by one that works, with no more privileges than the first."""

import json
import os
import pathlib
import re
import signal
import time

import pytest
from stdio_client import run_code, started


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
    client = started(cli)
    os.kill(tools.zygote(client.process), signal.SIGKILL)

    def works():
        answer = client.ask(run_code(f"{time.monotonic()}", "20011 * 30011"))
        return "600550121" in json.dumps(answer["result"])

    assert tools.wait_until(works)
    assert client.end()[0] == 0
