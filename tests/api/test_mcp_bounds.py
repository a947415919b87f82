# SPDX-License-Identifier: Apache-2.0
"""What one client can take from the server: memory for answers, for requests that stay open, for
bytes that no client reads; and what one owner can take from another.
"""

import base64
import contextlib
import json
import pathlib
import re
import select
import socket

import pytest
from conftest import CONFORMANCE, children, is_gate, open_cli, wait_until
from mcp_client import META, MODERN, TASKS, WAIT_S, Http, Server, Stdio

MIB = 1 << 20
KEYS = {"CONSTRICTOR_API_KEY": "alice:key-of-alice-0123456789,bob:key-of-bob-0123456789"}
NOISE = "import sys\nsys.stdout.write(chr(1) * 1000000)"
LISTEN = "subscriptions/listen"


@pytest.fixture(scope="module")
def server(program):
    with open_cli(program) as cli:
        yield Server(cli)


@pytest.fixture
def fresh(program):
    """For what measures memory: one that has not freed anything yet."""
    with open_cli(program) as cli:
        yield Server(cli)


@pytest.fixture(scope="module")
def guarded(program):
    with open_cli(program) as cli:
        yield Server(cli, env=KEYS)


def gate(server):
    """The child of the keeper that has its command line; the zygote has one of its own."""
    return next(filter(is_gate, children(server.process.pid)), None)


def rss(server):
    status = pathlib.Path(f"/proc/{wait_until(lambda: gate(server))}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024


def cpu_ns(client):
    """What the gate has used of a processor until now."""
    root = client.process if isinstance(client, Stdio) else client.server.process
    command = b"stdio" if isinstance(client, Stdio) else b"serve"
    (pid,) = [pid for pid in children(root.pid) if is_gate(pid, command)]
    return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def run_in_background(client, code):
    id = client.python(code, background=True)
    found = re.search(r"([0-9a-f]{8}-[0-9a-f-]{27})", id["content"][0]["text"])[1]
    # Revisions before 2025-06-18 have no structured result, and so no word for its state.
    wait_until(lambda: "still running" not in json.dumps(client.call("check_run", execution_id=found)))
    return found


def read_of(id, number):
    params = {"uri": f"run://{id}/stdout"}
    return {"jsonrpc": "2.0", "id": 1000 + number, "method": "resources/read", "params": params}


# ---- answers -------------------------------------------------------------------------------------


@pytest.fixture(params=["http", "stdio"])
def old(request, cli, server):
    if request.param == "http":
        client = Http(server, "2025-03-26")
    else:
        client = Stdio(cli, version="2025-03-26")
    with client:
        client.open()
        yield client


def test_a_batch_has_a_budget(old):
    id = run_in_background(old, NOISE)
    start = cpu_ns(old)
    for _ in range(16):
        assert "contents" in old.result("resources/read", {"uri": f"run://{id}/stdout"})
    sixteen = cpu_ns(old) - start
    start = cpu_ns(old)
    old.answers.clear()
    old.send([read_of(id, i) for i in range(64)])
    old.until(lambda: all(1000 + i in old.answers for i in range(64)), WAIT_S, "not all answered")
    spent = cpu_ns(old) - start
    good = [a for a in old.answers.values() if "contents" in a.get("result", {})]
    bad = [a for a in old.answers.values() if "error" in a]
    assert 1 <= len(good) < 12 and len(good) + len(bad) == 64
    assert sum(len(json.dumps(a)) for a in good) <= 8 * MIB
    assert {a["error"]["code"] for a in bad} == {-32603}
    assert "send one request at a time" in bad[0]["error"]["message"]
    # Asking for all at a time costs the server no more than asking one by one (and twice that for a busy machine).
    assert spent < 2 * (64 / 16) * sixteen, (spent, sixteen)
    assert "contents" in old.result("resources/read", {"uri": f"run://{id}/stdout"})


def test_mostly_control_characters_come_as_bytes(old):
    id = run_in_background(old, NOISE)
    found = old.result("resources/read", {"uri": f"run://{id}/stdout"})["contents"][0]
    assert "text" not in found
    assert base64.b64decode(found["blob"], validate=True) == b"\x01" * 1000000
    id = run_in_background(old, "print('\\x1b[31mred\\x1b[0m and more words, as people print them')")
    found = old.result("resources/read", {"uri": f"run://{id}/stdout"})["contents"][0]
    assert found["text"].startswith("\x1b[31mred\x1b[0m and")


# ---- requests ------------------------------------------------------------------------------------


def post(server, method, params, id=1, wait=False):
    """A modern request over a plain socket, left open."""
    meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": meta}}
    body = json.dumps(message).encode()
    name = f"Mcp-Name: {params['name']}\r\n" if "name" in params else ""
    link = socket.create_connection((server.host, server.port), WAIT_S)
    link.sendall(
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nMCP-Protocol-Version: {MODERN}\r\n"
        f"Mcp-Method: {method}\r\n{name}Accept: application/json, text/event-stream\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    if wait:
        link.recv(1)
    return link


@pytest.mark.parametrize("method", ["ping", "tools/list", "resources/read", "initialize"])
def test_parameters_have_a_limit(old, method):
    error = old.error(method, {"junk": "A" * 70000})
    assert error["code"] == -32602
    assert "65536" in error["message"]
    assert "error" not in old.request("tools/list", {"junk": "A" * 60000})


def test_parameters_of_a_batch_have_a_limit(old):
    params = {"junk": "A" * 70000}
    old.send([{"jsonrpc": "2.0", "id": 7001, "method": "tools/list", "params": params}])
    assert old.wait(7001)["error"]["code"] == -32602


def test_code_may_be_long(old):
    assert not old.python("x = 0\n" * 40000 + "print('done')").get("isError")
    error = old.error("tools/call", {"name": "execute_python", "arguments": {"code": "1"},
                                     "junk": "A" * 70000})  # fmt: skip
    assert error["code"] == -32602


def test_open_requests_keep_little(fresh):
    with contextlib.ExitStack() as links:
        links.enter_context(post(fresh, LISTEN, {"notifications": {}}, wait=True))
        before = rss(fresh)
        for i in range(40):
            junk = [[] for _ in range(15000)]
            params = {"notifications": {}, "junk": junk}
            links.enter_context(post(fresh, LISTEN, params, i, wait=True))
        assert rss(fresh) - before < 12 * MIB


def test_open_runs_keep_only_their_code(fresh):
    """The text of a request is not kept beside what was read from it."""
    with contextlib.ExitStack() as links:
        links.enter_context(post(fresh, LISTEN, {"notifications": {}}, wait=True))
        before = rss(fresh)
        for i in range(6):
            code = "import time\ntime.sleep(100)\n#" + "A" * (7 * MIB)
            params = {"name": "execute_python", "arguments": {"code": code, "timeout": 120}}
            links.enter_context(post(fresh, "tools/call", params, i))
        assert wait_until(lambda: json.loads(fresh.fetch("GET", "/health")[2])["active_runs"] == 6)
        assert rss(fresh) - before < 6 * 7 * MIB * 2


def test_slow_bodies_have_a_total(fresh):
    """Bodies that do not end: the largest make room, others are told so, and small ones go on."""
    head = (
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {15 * MIB}\r\n\r\n"
    ).encode()
    before = rss(fresh)
    links = []
    try:
        for _ in range(30):
            link = socket.create_connection((fresh.host, fresh.port), WAIT_S)
            links.append(link)
            link.settimeout(20)
            with contextlib.suppress(OSError):  # refused while it sends
                link.sendall(head + b" " * (14 * MIB))
        assert rss(fresh) - before < 330 * MIB
        said = b""

        def told():
            nonlocal said
            for link in select.select(links, [], [], 0)[0]:
                with contextlib.suppress(OSError):
                    said += link.recv(4096)
            return b" 503 " in said

        assert wait_until(told), said
        assert fresh.fetch("GET", "/health")[0] == 200
        with Http(fresh, MODERN) as small:
            assert small.result("tools/list")
    finally:
        for link in links:
            link.close()


# ---- owners --------------------------------------------------------------------------------------


def client_of(server, name, version=MODERN, capabilities=None):
    key = {"X-API-Key": f"key-of-{name}-0123456789"}
    return Http(server, version, capabilities, headers=key)


def test_runs_of_one_owner_do_not_push_out_anothers(guarded):
    with client_of(guarded, "alice") as alice, client_of(guarded, "bob") as bob:
        mine = alice.python("print('mine')", background=True)["structuredContent"]["execution_id"]
        for _ in range(70):
            wait_until(lambda: not bob.python("1", background=True).get("isError"))
        found = alice.call("check_run", execution_id=mine, wait=10)
        assert not found.get("isError"), found
        assert "mine" in found["content"][0]["text"]


def test_an_owner_has_half_of_the_listeners(guarded):
    links = []

    def listen(name):
        meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
        params = {"notifications": {}, "_meta": meta}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": LISTEN, "params": params})
        link = socket.create_connection((guarded.host, guarded.port), WAIT_S)
        links.append(link)
        link.sendall(
            f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nMCP-Protocol-Version: {MODERN}\r\n"
            f"X-API-Key: key-of-{name}-0123456789\r\nMcp-Method: {LISTEN}\r\n"
            "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        answer = b""
        while b"acknowledged" not in answer and b"error" not in answer:
            answer += link.recv(4096)
        return b"acknowledged" in answer

    try:
        assert all(listen("bob") for _ in range(512))
        assert not listen("bob")
        assert listen("alice")
    finally:
        for link in links:
            link.close()


def test_tasks_of_one_owner_do_not_push_out_anothers(program):
    with open_cli(program) as cli:
        can = {"extensions": {TASKS: {}}}
        keys = ",".join(f"o{i}:key-of-o{i}-0123456789" for i in range(6))
        server = Server(cli, program=CONFORMANCE, env={"CONSTRICTOR_API_KEY": keys})
        with client_of(server, "o0", capabilities=can) as first:
            mine = first.call("slow_compute", seconds=0)["taskId"]
            for i in range(1, 6):
                with client_of(server, f"o{i}", capabilities=can) as other:
                    for _ in range(250):
                        other.call("slow_compute", seconds=0)
            assert first.result("tasks/get", {"taskId": mine})["status"] == "completed"


def test_sessions(program):
    """An owner makes room among its own sessions first; open calls of old ones do not block it."""
    with open_cli(program) as cli:
        server = Server(cli, "--mcp-sessions=80", env=KEYS)
        alice = client_of(server, "alice", "2025-11-25")
        alice.open()
        busy = []
        for _ in range(79):
            bob = client_of(server, "bob", "2025-11-25")
            bob.open()
            busy.append(bob)
        for _ in range(10):
            client_of(server, "bob", "2025-11-25").open()
        assert alice.result("ping") == {}
