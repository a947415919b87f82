# SPDX-License-Identifier: Apache-2.0
"""One key takes every place for runs that it can get, with runs that sleep, and another key's code still runs at
once: by every way to run code, on REST and on MCP."""

import contextlib
import json
import threading

import pytest
from conftest import open_cli
from mcp_client import MODERN, Http, Server
from rest_client import Rest

RUNS = 8
KEYS = {"CONSTRICTOR_API_KEY": "ann:key-of-ann-1,bob:key-of-bob-1"}
SLEEP = "print('here', flush=True)\nimport time\ntime.sleep(300)"


@pytest.fixture
def server(program):
    with open_cli(program) as cli:
        yield Server(cli, f"--runs={RUNS}", "--wall=400s", "--cpu=400s", "--sessions=32", env=KEYS)


def client(server, name):
    return Http(server, MODERN, headers={"Authorization": f"Bearer key-of-{name}-1"})


def begin(stack, api, body, path="/execute"):
    """A run that sleeps, once its first line was printed; None: it was refused."""
    link = stack.enter_context(contextlib.closing(api.connect()))
    link.request("POST", "/api/v1" + path, json.dumps(body), api.headers({"Content-Type": "application/json"}))
    answer = link.getresponse()
    if answer.status != 200:
        error = json.loads(answer.read())
        assert error["code"] == "busy" and "your key" in error["detail"] + error["error"]["message"], error
        assert error["error"]["hint"], error
        return None
    while b"here" not in answer.readline():
        pass
    return answer


def fresh(stack, server, ann):
    while begin(stack, ann, {"code": SLEEP}):
        pass


def sessions(stack, server, ann):
    n = 0
    while begin(stack, ann, {"code": SLEEP, "session_id": f"s{n}"}):
        n += 1


def background(stack, server, ann):
    alice = stack.enter_context(client(server, "ann"))
    for _ in range(RUNS):
        if alice.python(SLEEP, background=True).get("isError"):
            break
    fresh(stack, server, ann)


@pytest.mark.parametrize("take", [fresh, sessions, background])
def test_a_key_with_sleeping_runs_does_not_shut_out_another(server, take):
    ann, bob = Rest(server.port, "key-of-ann-1"), Rest(server.port, "key-of-bob-1")
    with contextlib.ExitStack() as stack:
        take(stack, server, ann)
        assert bob.run("1 + 1")["result"] == "2"
        assert bob.run("1 + 1", session_id="mine")["result"] == "2"
        answer = bob.post("/batch", {"items": [{"code": "1 + 1"}] * 6})
        assert answer.lines[-1]["verdicts"] == {"ok": 6}, answer
        with client(server, "bob") as robert:
            assert not robert.python("1 + 1").get("isError")
            assert not robert.python("1 + 1", background=True).get("isError")
            refused = client(server, "ann").python("1 + 1")
            assert refused["isError"] and "your key" in json.dumps(refused), refused


def test_a_batch_of_sleeping_items_does_not_hold_up_the_batch_of_another_key(server):
    ann, bob = Rest(server.port, "key-of-ann-1"), Rest(server.port, "key-of-bob-1")
    with contextlib.closing(ann.connect()) as link:
        body = {"items": [{"code": "1"}] + [{"code": SLEEP}] * 2 * RUNS, "order": "finish", "concurrency": RUNS}
        link.request("POST", "/api/v1/batch", json.dumps(body), ann.headers({"Content-Type": "application/json"}))
        assert link.getresponse().readline()    # the first item has ended, and others began
        found = []
        ask = lambda: found.append(bob.post("/batch", {"items": [{"code": "1 + 1"}] * 6}))  # noqa: E731
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(100)
        assert found and found[0].lines[-1]["verdicts"] == {"ok": 6}, found


def test_a_key_alone_may_use_every_place(program):
    with open_cli(program) as cli:
        server = Server(cli, f"--runs={RUNS}", "--wall=400s", env={"CONSTRICTOR_API_KEY": "ann:key-of-ann-1"})
        ann = Rest(server.port, "key-of-ann-1")
        with contextlib.ExitStack() as stack:
            for _ in range(RUNS):
                assert begin(stack, ann, {"code": SLEEP})
            answer = ann.post("/execute", {"code": "1 + 1"})
            assert answer.status == 503 and "--runs" in answer.error["hint"], answer
