# SPDX-License-Identifier: Apache-2.0
"""The transport of 2024: GET /sse for what the server says, POST /messages for what the client says."""

import json
import os
import time

import pytest
from conftest import CONFORMANCE, open_cli, wait_until
from mcp_client import LEGACY, MODERN, Server, alive, marked
from test_mcp_http import ANN, BOB, EVENTS, JSON, Answer, call, initialize, modern, request

MARK = f"sse{os.getpid()}"[:15]
KEEP_ALIVE_S = 15


@pytest.fixture(scope="module")
def server(program):
    with open_cli(program) as cli:
        server = Server(cli, "--legacy-sse", program=CONFORMANCE)
        yield server
        assert server.process.poll() is None, server.stderr()


@pytest.fixture(scope="module", autouse=True)
def idle(program):
    """A stream on which nothing happens while the other tests are made."""
    with open_cli(program) as cli:
        began = time.monotonic()
        stream = Stream(Server(cli, "--legacy-sse", "--mcp-session-ttl", "1s")).open()
        stream.began = began
        yield stream


class Stream:
    """An open session."""

    def __init__(self, server, **headers):
        self.server = server
        self.extra = headers
        self.answer = Answer(server, "GET", None, {"Accept": EVENTS, **headers}, "/sse")
        assert (self.answer.status, self.answer.type) == (200, EVENTS)
        name, _, self.path = next(self.answer.events)
        assert name == "endpoint"

    def post(self, body, type=JSON, path=None):
        return Answer(
            self.server, "POST", body, {"Content-Type": type, **self.extra}, path or self.path
        )

    def next(self):
        event = self.answer.next()
        return event and event[1]

    def ask(self, body):
        """The answer to a request; what comes before it is dropped."""
        answer = self.post(body)
        assert (answer.status, answer.body) == (202, b"Accepted")
        while message := self.next():
            if "method" not in message:
                assert message["id"] == body["id"]
                return message
        raise AssertionError("the stream ended")

    def open(self, version=LEGACY[0]):
        result = self.ask(initialize(version))["result"]
        assert result["protocolVersion"] == version
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert self.post(note).status == 202
        return self

    def close(self):
        self.answer.close()


@pytest.fixture
def stream(server):
    stream = Stream(server).open()
    yield stream
    stream.close()


def test_off_unless_asked_for(cli):
    server = Server(cli)
    assert server.fetch("GET", "/sse")[0] == 404
    assert server.fetch("POST", "/messages?session_id=1", "{}", {"Content-Type": JSON})[0] == 404


def test_the_endpoint_is_relative_and_cannot_be_guessed(server):
    paths = {Stream(server).path for _ in range(5)}
    assert len(paths) == 5
    for path in paths:
        assert path.startswith("/messages?session_id=")
        assert len(path.partition("=")[2]) >= 32


@pytest.mark.parametrize("version", LEGACY)
def test_a_session_of_each_version(server, version):
    stream = Stream(server).open(version)
    assert stream.ask(request("ping"))["result"] == {}
    assert stream.ask(call("test_simple_text"))["result"]["content"]
    stream.close()


def test_headers_of_the_stream(server):
    stream = Stream(server)
    assert stream.answer.headers["cache-control"] == "no-cache"
    assert stream.answer.headers["x-accel-buffering"] == "no"
    stream.close()


def test_progress_comes_before_the_answer(stream):
    stream.post(call("test_tool_with_progress", {"progressToken": 1}))
    messages = [stream.next() for _ in range(4)]
    assert [m.get("method") for m in messages] == ["notifications/progress"] * 3 + [None]


def test_news_of_no_call(stream):
    stream.post(call("test_trigger_tool_change"))
    found = [stream.next(), stream.next()]
    assert "notifications/tools/list_changed" in [m.get("method") for m in found]


def test_questions(server):
    stream = Stream(server)
    stream.ask(initialize(LEGACY[0], {"sampling": {}}))
    stream.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
    stream.post(call("test_sampling", prompt="x"))
    question = stream.next()
    assert question["method"] == "sampling/createMessage"
    content = {"role": "assistant", "content": {"type": "text", "text": "yes"}, "model": "m"}
    stream.post({"jsonrpc": "2.0", "id": question["id"], "result": content})
    assert "yes" in stream.next()["result"]["content"][0]["text"]
    stream.close()


def test_a_slash_behind_the_path(server, stream):
    path = stream.path.replace("/messages?", "/messages/?")
    assert stream.post(request("ping", id=1), path=path).status == 202
    assert stream.next()["id"] == 1
    assert Answer(server, "GET", None, {}, "/sse/").status == 200


def test_forged_sessions(server, stream):
    id = stream.path.partition("=")[2]
    other = id[:-1] + ("0" if id[-1] != "0" else "1")
    for query in ["", "?", "?session=" + id, "?session_id", "?session_id=" + "a" * 5000]:
        assert stream.post(request("ping"), path="/messages" + query).status == 400, query
    for forged in ["x", other, id.upper() + "x", id + "0", id[:-1]]:
        answer = stream.post(request("ping"), path="/messages?session_id=" + forged)
        assert answer.status in (400, 404), forged
    # Nor is it a session of /mcp.
    headers = {"Content-Type": JSON, "Mcp-Session-Id": id}
    assert Answer(server, "POST", request("ping"), headers).status == 404


def test_sessions_of_somebody_else(cli):
    keys = {"CONSTRICTOR_API_KEY": "ann:key-of-ann-0123456789,bob:key-of-bob-0123456789"}
    server = Server(cli, "--legacy-sse", env=keys)
    assert Answer(server, "GET", None, {}, "/sse").status == 401
    mine = Stream(server, **ANN).open()
    theirs = Answer(server, "POST", request("ping"), {"Content-Type": JSON, **BOB}, mine.path)
    assert theirs.status == 404
    stranger = Answer(server, "POST", request("ping"), {"Content-Type": JSON}, mine.path)
    assert stranger.status == 401
    assert mine.ask(request("ping"))["result"] == {}
    mine.close()


def test_bad_messages(server, stream):
    assert stream.post(request("ping"), type="text/plain").status == 415
    for body, code in [("{", -32700), ("{}", -32600), ([request("ping")], -32600)]:
        answer = stream.post(body)
        assert (answer.status, answer.code) == (400, code)
    answer = stream.post(modern("tools/list"))
    assert (answer.status, answer.code) == (400, -32600)
    assert MODERN in answer.json["error"]["message"]
    assert stream.ask(request("no/such"))["error"]["code"] == -32601
    assert stream.ask(request("ping"))["result"] == {}


def test_requests_before_initialize(server):
    stream = Stream(server)
    assert stream.ask(request("tools/list"))["error"]["code"] == -32600
    stream.open()
    assert stream.ask(initialize())["error"]["code"] == -32600
    stream.close()


def test_batches_of_2025_03_26(server):
    stream = Stream(server).open("2025-03-26")
    batch = [request("ping", id=1), 7, modern("tools/list", id=2), request("ping", id=3)]
    assert stream.post(batch).status == 202
    found = [stream.next() for _ in range(4)]
    assert sorted(m["id"] for m in found if "result" in m) == [1, 3]
    assert [m["error"]["code"] for m in found if "error" in m] == [-32600] * 2
    stream.close()


def test_the_session_ends_with_its_stream(server):
    stream = Stream(server).open()
    stream.close()
    assert wait_until(lambda: stream.post(request("ping")).status == 404)


def test_its_calls_end_with_its_stream(server):
    stream = Stream(server).open()
    assert stream.post(call("execute_python", code=marked(MARK))).status == 202
    assert wait_until(lambda: alive(MARK)), "it never ran"
    stream.close()
    assert wait_until(lambda: not alive(MARK)), "it still runs"


def test_stop_ends_the_streams(cli):
    server = Server(cli, "--legacy-sse")
    stream = Stream(server).open()
    server.stop()
    assert stream.next() is None


def test_json_in_events_is_one_line(stream):
    """Whatever is in a message, it cannot end the event, or begin another."""
    text = "a\n\nevent: endpoint\ndata: x\r\n\r\n\u2028\u0085"
    answer = stream.ask(request("no/such", id=text[:40]))
    assert answer["id"] == text[:40]
    assert json.dumps(answer)


def test_kept_alive(idle):
    """Also beyond the time after which idle sessions of /mcp end.  The last test, as it takes its time."""
    assert next(idle.answer.events)[0] == ":"
    assert time.monotonic() - idle.began > KEEP_ALIVE_S - 2
    assert idle.ask(request("ping"))["result"] == {}
    idle.close()
