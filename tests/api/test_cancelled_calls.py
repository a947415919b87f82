# SPDX-License-Identifier: Apache-2.0
"""Calls that are cancelled at once cost no more boxes than runs may, and the next call is served."""

import json
import subprocess

import pytest
from stdio_client import Client, cancelled, initialize, run_code, started

COUNT = 2000
RUNS = 4


@pytest.mark.parametrize("limits", [{}, {"memory_mb": 100}], ids=["parked", "to_order"])
def test_cancelled_calls_cost_no_more_than_runs_may(cli, tools, limits):
    """Each call is cancelled in the same breath: the next one is served, and few boxes are made."""
    client = started(cli, "--runs", RUNS, "--stock", "2")
    zygote = tools.zygote(client.process)
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
    assert tools.wait_until(lambda: sum(len(tools.children(stem)) for stem in tools.children(zygote)) <= 2)
    # Only boxes of the stock are left: all runs are free again.
    for id in range(RUNS):
        client.send(run_code(f"again {id}", "import time; time.sleep(.2)", **limits))
    answers = [client.receive() for _ in range(RUNS)]
    assert all(not a["result"].get("isError") for a in answers), answers
    assert client.end()[0] == 0


def test_calls_that_are_cancelled_before_there_are_boxes(cli):
    client = Client(cli.start("stdio", "--runs", RUNS, stdin=subprocess.PIPE))
    client.send(initialize(0))
    for id in range(1, COUNT + 1):
        client.send(run_code(id, "1"), cancelled(id))
    answer = client.ask(run_code("last", "20011 * 30011"))
    assert "600550121" in json.dumps(answer["result"])
    assert client.end()[0] == 0
