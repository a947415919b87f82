# SPDX-License-Identifier: Apache-2.0
"""Failures that the issue threads of other MCP servers and clients report do not happen here."""

import json
import os
import subprocess
import sys
import time

import pytest
from conftest import TOP, descendants, open_cli, wait_until
from mcp_client import (
    LEGACY,
    MODERN,
    Http,
    Server,
    Sse,
    Stdio,
    alive,
    check_received,
    marked,
    text,
)

CLIENT_TIMEOUT_S = 60  # what most clients wait, and do not let their users raise
KEEP_ALIVE_S = 15  # the shortest idle time after which proxies were seen to cut a stream: 60 s
MARK = f"mark{os.getpid()}"[:15]


@pytest.fixture(scope="module")
def server(program):
    with open_cli(program) as cli:
        yield Server(cli, "--legacy-sse")


@pytest.fixture(scope="module")
def idle(server):
    """Streams without traffic, opened before the first test of this file."""
    legacy = Http(server)
    legacy.open()
    legacy.listen()
    modern = Http(server, version=MODERN)
    modern.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    streams = {"GET /mcp": legacy, "subscriptions/listen": modern, "GET /sse": Sse(server)}
    yield {"since": time.monotonic(), "streams": streams}
    for stream in streams.values():
        stream.close()


@pytest.fixture(autouse=True)
def begin_idling(idle):
    """The streams are idle while the other tests run."""


@pytest.fixture
def stdio(cli):
    with Stdio(cli) as c:
        c.open()
        yield c
    check_received(c)


def gone(mark):
    return wait_until(lambda: alive(mark) == 0)


def begin_endless(c, mark, **arguments):
    """A run that never ends, once it has begun: the id of the call."""
    arguments = {"code": marked(mark), **arguments}
    id = c.begin("tools/call", {"name": "execute_python", "arguments": arguments})
    assert wait_until(lambda: alive(mark) > 0), f"it never began: {c.received[-2:]}"
    return id


# -- time


def test_a_run_is_answered_before_clients_give_up(stdio):
    """A run without a limit of its own must be answered before the client gives up."""
    tool = next(t for t in stdio.result("tools/list")["tools"] if t["name"] == "execute_python")
    limit = tool["inputSchema"]["properties"]["timeout"]
    assert limit.get("default", 0) < CLIENT_TIMEOUT_S, limit
    assert limit["maximum"] >= CLIENT_TIMEOUT_S, limit


def test_a_long_run_goes_on_in_the_background(stdio):
    """Progress does not extend a client's patience, so there is a way to start and to ask later."""
    begun = stdio.python("import time\ntime.sleep(0.5)\n'late ' + str(6 * 7)", background=True)
    id = begun["structuredContent"]["execution_id"]
    assert id in text(begun), "the text does not name the run"
    assert wait_until(lambda: "late 42" in text(stdio.call("check_run", execution_id=id)), pause=0.05)


def test_a_timeout_keeps_what_was_printed_and_ends_every_child(stdio):
    code = marked(
        MARK, "import os\nprint('before', flush=True)\nos.fork()\nwhile True: time.sleep(0.1)\n"
    )
    result = stdio.python(code, timeout=1)
    assert "before" in text(result), result
    assert "time" in text(result).lower(), result
    assert gone(MARK), "a process outlived the timeout"


def test_set_up_is_not_counted_as_run_time(cli):
    """The first call comes while the interpreter is still getting warm, with heavy libraries."""
    python = TOP / "build" / "venv-data" / "bin" / "python"
    with Stdio(cli, "--python", python, "--preload", "pandas,numpy") as c:
        c.open()
        result = c.python("import pandas\npandas.DataFrame({'a': [6 * 7]}).a.sum()", timeout=1)
        assert "42" in text(result), result
        assert not result.get("isError"), result


# -- size


def test_a_large_result_is_its_head_its_tail_and_a_link(stdio):
    result = stdio.python("for i in range(30000): print('line', i)\nprint('the end')")
    shown = text(result)
    assert len(shown) < 26000, len(shown)
    assert "line 0" in shown and "the end" in shown, "head or tail is missing"
    links = [b["uri"] for b in result["content"] if b["type"] == "resource_link"]
    assert links and links[0] in shown, "nothing says where the rest is"
    whole = stdio.result("resources/read", {"uri": links[0]})["contents"][0]["text"]
    assert "line 15000\n" in whole and whole.count("\n") == 30001


def test_a_shortened_result_says_so(stdio):
    shown = text(stdio.python("for i in range(30000): print('line', i)"))
    assert any(word in shown for word in ("left out", "omitted", "shortened", "truncated")), shown[
        -600:
    ]
    assert "\nline 29999" in shown


def test_one_endless_line_is_shortened(stdio):
    """One line without an end, as a picture that is printed."""
    result = stdio.python("import base64, os\nprint(base64.b64encode(os.urandom(600000)).decode())")
    assert len(json.dumps(result)) < 60000, len(json.dumps(result))


# -- streams


def test_user_code_cannot_write_to_the_stdout_of_the_server(stdio):
    code = (
        "import os, subprocess, sys\n"
        "os.write(1, b'raw {\\n')\nos.write(2, b'raw err\\n')\n"
        "sys.__stdout__.write('text\\n')\nsys.__stdout__.flush()\n"
        "os.system('echo from a shell')\n"
        'print(\'{"jsonrpc": "2.0", "id": 1, "result": {}}\')'
    )
    before = len(stdio.lines)
    result = stdio.python(code)
    assert "raw {" in text(result) and "from a shell" in text(result), result
    time.sleep(0.1)
    assert len(stdio.lines) == before + 1, stdio.lines[before:]
    for line in stdio.lines:
        assert json.loads(line)["jsonrpc"] == "2.0"


def test_user_code_cannot_read_the_stdin_of_the_server(stdio):
    result = stdio.python(
        "import subprocess, sys\n(sys.stdin.read(), subprocess.run(['cat']).returncode)"
    )
    assert "('', 0)" in text(result), result
    assert stdio.result("ping") == {}


def test_a_full_pipe_is_no_deadlock(stdio):
    code = (
        "import sys\nfor i in range(400):\n"
        "    sys.stdout.write('o' * 1000)\n    sys.stderr.write('e' * 1000)\n"
        "'not stuck'"
    )
    assert "not stuck" in text(stdio.python(code))


# -- ends


def test_the_server_ends_with_its_client(cli):
    c = Stdio(cli)
    c.open()
    begin_endless(c, MARK)
    tree = descendants(c.process.pid)
    c.close()
    assert gone(MARK), "the run is still there"
    assert wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in tree)), tree


def test_sigterm_ends_the_run(cli):
    c = Stdio(cli)
    c.open()
    begin_endless(c, MARK)
    c.process.terminate()
    c.process.wait(600)
    assert gone(MARK), "the run is still there"


def test_the_server_ends_when_its_client_is_killed(cli, tmp_path):
    """The client is killed while another process still holds the server's stdin."""
    hold = os.open(tmp_path / "fifo", os.O_RDWR) if os.mkfifo(tmp_path / "fifo") is None else -1
    code = (
        "import subprocess, sys, time\n"
        "held = open(sys.argv[1], 'rb')\n"
        "p = subprocess.Popen(sys.argv[2:], stdin=held, stdout=subprocess.DEVNULL)\n"
        "print(p.pid, flush=True)\ntime.sleep(600)"
    )
    args = [sys.executable, "-c", code, str(tmp_path / "fifo"), str(cli.program), "stdio"]
    client = subprocess.Popen(args, stdout=subprocess.PIPE, env=cli.environ())
    cli.started.append(client)
    server = int(client.stdout.readline())
    assert wait_until(lambda: len(descendants(server)) > 0)
    client.kill()
    client.wait()

    def ended():
        try:
            return open(f"/proc/{server}/stat").read().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    try:
        assert wait_until(ended), "the server did not notice that its parent is dead"
    finally:
        os.close(hold)


def test_a_cancel_stops_the_run_over_stdio(stdio):
    id = begin_endless(stdio, MARK)
    stdio.cancel(id)
    assert gone(MARK), "the work goes on"
    assert "42" in text(stdio.python("6 * 7")), "the session stays busy"
    assert id not in stdio.answers, "a cancelled call was answered"


def test_a_cancel_stops_the_run_over_http(server):
    with Http(server) as c:
        c.open()
        c.cancel(begin_endless(c, MARK))
        assert gone(MARK), "the work goes on"
        assert "42" in text(c.python("6 * 7"))


def test_a_cancel_stops_the_run_over_sse(server):
    with Sse(server) as c:
        c.open()
        c.cancel(begin_endless(c, MARK))
        assert gone(MARK), "the work goes on"
        assert "42" in text(c.python("6 * 7"))


def test_a_modern_client_that_hangs_up_stops_its_run(server):
    with Http(server, version=MODERN) as c:
        c.hang_up(begin_endless(c, MARK))
        assert gone(MARK), "the work goes on"


def test_a_cancel_ends_what_the_code_started(stdio):
    code = marked(
        MARK,
        "import os\nfor _ in range(3): os.fork()\nos.setsid() if os.getpid() > 2 else 0\n"
        "while True: time.sleep(0.1)\n",
    )
    id = stdio.begin("tools/call", {"name": "execute_python", "arguments": {"code": code}})
    assert wait_until(lambda: alive(MARK) == 8), alive(MARK)
    stdio.cancel(id)
    assert gone(MARK), "processes outlived the cancel"


# -- sessions


def status_of(server, session, method="ping"):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method})
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY[-1]}
    return server.fetch("POST", "/mcp", body, headers)[0]


def test_an_idle_client_is_forgotten_without_a_delete(cli):
    server = Server(cli, "--mcp-session-ttl", "1s")
    c = Http(server)
    c.open()
    assert status_of(server, c.session) == 200
    assert wait_until(lambda: False, 2.5) is False
    assert status_of(server, c.session) == 404, "an idle session lives for ever"


def test_a_working_client_is_not_forgotten(cli):
    server = Server(cli, "--mcp-session-ttl", "2s")
    with Http(server) as c:
        c.open()
        assert "42" in text(c.python("import time\ntime.sleep(3)\n6 * 7"))
        assert status_of(server, c.session) == 200


def test_the_oldest_client_makes_room(cli):
    server = Server(cli, "--mcp-sessions", "3")
    clients = [Http(server) for _ in range(5)]
    for c in clients:
        c.open()
    assert [status_of(server, c.session) for c in clients] == [404, 404, 200, 200, 200]


def test_delete_forgets_a_client(server):
    c = Http(server)
    c.open()
    assert c.delete()[0] in (200, 202, 204)
    assert status_of(server, c.session) == 404


def test_a_result_survives_a_cut_stream(server):
    """A legacy client that lost its stream asks for the rest with the last id that it saw."""
    with Http(server) as c:
        c.open()
        code = (
            "import time\nfor i in range(4):\n    print(i, flush=True)\n    time.sleep(0.3)\n6 * 7"
        )
        params = {"name": "execute_python", "arguments": {"code": code}}
        id = c.begin("tools/call", params, meta={"progressToken": 1})
        assert wait_until(lambda: c.last_event), "the stream has no event ids"
        c.hang_up(id)
        c.listen(c.last_event)
        assert "42" in text(c.wait(id)["result"])


# -- HTTP


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream", "*/*", "", None])
@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
def test_any_accept_header_gets_an_answer(server, version, accept):
    c = Http(server, version=version)
    params = {
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    method, params = ("server/discover", None) if c.modern else ("initialize", params)
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": c.params(params)}
    headers = c.headers(body)
    del headers["Accept"]
    if accept is not None:
        headers["Accept"] = accept
    status, found, answer = server.fetch("POST", "/mcp", json.dumps(body), headers)
    assert status == 200, (status, answer[:300])
    kind = found["content-type"].partition(";")[0]
    assert accept in (None, "", "*/*", kind), f"wanted {accept}, got {kind}"
    assert b'"result"' in answer, answer[:300]


# -- shapes


def portable(schema, path="inputSchema"):
    """What providers and clients choke on."""
    assert schema.get("type") == "object", f"{path}: the root is no object"
    for word in ("anyOf", "oneOf", "allOf", "not", "if", "enum"):
        assert word not in schema, f"{path}: '{word}' at the root"
    words = json.dumps(schema)
    for word in ('"$ref"', '"$defs"', '"$dynamicRef"', '"$anchor"'):
        assert word not in words, f"{path}: {word}"


@pytest.mark.parametrize("version", [*LEGACY, MODERN])
def test_schemas_are_simple_enough_for_every_client(cli, version):
    with Stdio(cli, version=version) as c:
        c.open()
        for tool in c.result("tools/list")["tools"]:
            portable(tool["inputSchema"], tool["name"])
            for name, field in tool["inputSchema"]["properties"].items():
                assert "type" in field, f"{tool['name']}.{name} has no type"
            assert tool["description"] and len(tool["name"]) <= 64
            if "outputSchema" in tool:
                portable(tool["outputSchema"], tool["name"] + ".output")


def test_content_and_structured_content_say_the_same(stdio):
    result = stdio.python(
        "import sys\nprint('to out')\nprint('to err', file=sys.stderr)\n{'value': 42}"
    )
    whole = json.dumps(result["structuredContent"])
    for part in ("to out", "to err", "42"):
        assert part in text(result), f"'{part}' is not in the text"
        assert part in whole, f"'{part}' is not in the structure"
    failed = stdio.python("def broken():\n    raise KeyError('lost')\nbroken()")
    for part in ("KeyError", "lost"):
        assert part in text(failed) and part in json.dumps(failed["structuredContent"]), failed


def test_links_can_be_switched_off(cli):
    with Stdio(cli, "--no-links") as c:
        c.open()
        result = c.python("for i in range(30000): print('line', i)")
        assert {b["type"] for b in result["content"]} == {"text"}, "a link in spite of --no-links"
        assert "run://" in text(result), "the text does not say where the rest is"


# -- isolation


def test_no_state_passes_from_call_to_call(stdio):
    stdio.python(
        "leak = 1\nimport builtins\nbuiltins.leak = 2\nopen('/mnt/data/leak', 'w').write('x')"
    )
    result = stdio.python(
        "import builtins, os\n"
        "('leak' in dir(), hasattr(builtins, 'leak'), os.path.exists('/mnt/data/leak'))"
    )
    assert "(False, False, False)" in text(result), result


def test_no_state_passes_from_key_to_key(cli):
    keys = {
        "CONSTRICTOR_API_KEY": "anna:first-key-0123456789abcdef,bert:second-key-0123456789abcdef"
    }
    server = Server(cli, env=keys)
    anna = Http(server, headers={"Authorization": "Bearer first-key-0123456789abcdef"})
    bert = Http(server, headers={"X-API-Key": "second-key-0123456789abcdef"})
    anna.open()
    bert.open()
    result = anna.python("for i in range(30000): print('secret', i)")
    uri = next(b["uri"] for b in result["content"] if b["type"] == "resource_link")
    anna.result("resources/read", {"uri": uri})
    assert bert.error("resources/read", {"uri": uri})["code"] == -32002
    bert.session = anna.session
    assert bert.request("ping").get("error") or bert.status, "another client's session"
    stranger = Http(server)
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert server.fetch("POST", "/mcp", json.dumps(body), stranger.headers(body))[0] == 401
    anna.close()


def test_memory_has_a_limit(stdio):
    result = stdio.python("x = bytearray(1 << 30)\nlen(x)")
    assert "memory" in text(result).lower(), result
    assert "42" in text(stdio.python("6 * 7"))


CRASHES = {
    "segfault": "import ctypes\nctypes.string_at(0)",
    "abort": "import os\nos.abort()",
    "exit": "import os\nos._exit(139)",
    "kill_all": "import os, signal\nos.kill(-1, signal.SIGKILL)",
    "recursion": "import sys\nsys.setrecursionlimit(10**8)\ndef f(): f()\nf()",
}


@pytest.mark.parametrize("name", CRASHES)
def test_code_that_crashes_leaves_the_server_running(stdio, name):
    result = stdio.python(CRASHES[name])
    assert result["content"], result
    assert "42" in text(stdio.python("6 * 7"))


# -- last, so that the streams have been idle for long


def test_idle_streams_get_a_comment_in_time(idle):
    """A comment keeps proxies and clients from cutting a stream on which nothing happens."""
    late = [
        name
        for name, stream in idle["streams"].items()
        if not wait_until(
            lambda s=stream: s.comments, idle["since"] + 2 * KEEP_ALIVE_S - time.monotonic()
        )
    ]
    assert not late, f"silence for {2 * KEEP_ALIVE_S} s on {late}"
