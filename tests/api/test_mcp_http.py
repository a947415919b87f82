# SPDX-License-Identifier: Apache-2.0
"""Streamable HTTP as it is on the wire: statuses, headers, streams, sessions, in both eras.

Requests are made by hand here, so that each of them can be wrong in one way. What clients do with
it is tested elsewhere (test_mcp_clients.py).
"""

import contextlib
import http.client
import itertools
import json
import os
import threading
import time

import pytest
from conftest import CONFORMANCE, open_cli, wait_until
from mcp_client import LEGACY, META, MODERN, Server, alive, events, marked

JSON = "application/json"
EVENTS = "text/event-stream"
BOTH = f"{JSON}, {EVENTS}"
NEWEST = LEGACY[-1]
KEEP_ALIVE_S = 15
GUARD_S = 120
MARK = f"http{os.getpid()}"[:15]
ids = itertools.count(1000)


@pytest.fixture(scope="module")
def server(program):
    with open_cli(program) as cli:
        server = Server(cli, program=CONFORMANCE)
        yield server
        assert server.process.poll() is None, server.stderr()


@pytest.fixture(scope="module")
def keyed(program):
    """A server for two owners."""
    keys = {"CONSTRICTOR_API_KEY": "ann:key-of-ann-0123456789,bob:key-of-bob-0123456789"}
    with open_cli(program) as cli:
        yield Server(cli, program=CONFORMANCE, env=keys)


class Idle:
    """Of each kind, on a server of their own: a subscription, a session's stream, and a call that takes long."""

    def __init__(self, server):
        self.session = Session(server)
        self.streams = [listen(server, toolsListChanged=True), self.session.get()]
        self.thread = threading.Thread(target=self.ask, daemon=True)
        self.thread.start()

    def ask(self):
        begin = time.monotonic()
        slow = self.session.post(call("slow_compute", seconds=KEEP_ALIVE_S + 2, label="slow"))
        self.type, self.took, self.messages = slow.type, time.monotonic() - begin, slow.rest()


@pytest.fixture(scope="module", autouse=True)
def idle(program):
    """They grow idle while the other tests are made."""
    with open_cli(program) as cli:
        yield Idle(Server(cli, program=CONFORMANCE))


ANN = {"X-API-Key": "key-of-ann-0123456789"}
BOB = {"Authorization": "Bearer key-of-bob-0123456789"}


class Answer:
    """The beginning of an answer; a stream is read event by event."""

    def __init__(self, server, method, body=None, headers=None, path="/mcp"):
        self.link = http.client.HTTPConnection(server.host, server.port, timeout=GUARD_S)
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        self.link.putrequest(method, path)
        for name, value in (headers or {}).items():
            for one in value if isinstance(value, list) else [value]:
                self.link.putheader(name, one)
        if body is not None:
            body = body.encode() if isinstance(body, str) else body
            self.link.putheader("Content-Length", str(len(body)))
        self.link.endheaders(body)
        self.answer = self.link.getresponse()
        self.status = self.answer.status
        self.headers = {key.lower(): value for key, value in self.answer.getheaders()}
        self.type = self.headers.get("content-type", "").partition(";")[0]
        self.events = events(self.answer)
        self._body = None

    @property
    def body(self):
        if self._body is None:
            self._body = self.answer.read()
            self.close()
        return self._body

    @property
    def json(self):
        assert self.type == JSON, (self.status, self.headers, self.body[:300])
        return json.loads(self.body)

    @property
    def code(self):
        """The code of the JSON-RPC error."""
        return self.json["error"]["code"]

    def next(self):
        """The next event with data: (id, message)."""
        for name, id, data in self.events:
            if name == "message" and data:
                return id, json.loads(data)
        return None

    def rest(self):
        """All messages to the end of the stream."""
        found = []
        while event := self.next():
            found.append(event)
        self.close()
        return found

    def close(self):
        """Also as a client does that goes away."""
        with contextlib.suppress(OSError, AttributeError):
            self.link.sock.shutdown(2)
        self.answer.close()
        self.link.close()


def request(method, params=None, id=None):
    message = {"jsonrpc": "2.0", "id": next(ids) if id is None else id, "method": method}
    return {**message, "params": params} if params is not None else message


def call(tool, meta=None, id=None, **arguments):
    params = {"name": tool, "arguments": arguments}
    if meta:
        params["_meta"] = meta
    return request("tools/call", params, id)


def post(server, body, accept=BOTH, type=JSON, path="/mcp", **headers):
    """Headers are named as Python allows: Mcp_Session_Id."""
    named = {"Content-Type": type, "Accept": accept}
    named.update({key.replace("_", "-"): value for key, value in headers.items()})
    return Answer(server, "POST", body, {k: v for k, v in named.items() if v is not None}, path)


def initialize(version=NEWEST, capabilities=None, id=None):
    return request(
        "initialize",
        {
            "protocolVersion": version,
            "capabilities": capabilities or {},
            "clientInfo": {"name": "tests", "version": "1"},
        },
        id,
    )


class Session:
    """A legacy session."""

    def __init__(self, server, version=NEWEST, capabilities=None, **headers):
        self.server = server
        self.version = version
        self.extra = headers
        answer = post(server, initialize(version, capabilities), **headers)
        assert answer.status == 200, answer.body
        self.id = answer.headers["mcp-session-id"]
        assert answer.json["result"]["protocolVersion"] == version
        assert self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202

    def post(self, body, **headers):
        return post(self.server, body, Mcp_Session_Id=self.id, **{**self.extra, **headers})

    def other(self, method, **headers):
        named = {"Mcp-Session-Id": self.id, "Accept": EVENTS}
        named.update({key.replace("_", "-"): value for key, value in self.extra.items()})
        named.update({key.replace("_", "-"): value for key, value in headers.items()})
        return Answer(self.server, method, None, named)

    def get(self, last=None, **headers):
        return self.other("GET", **({"Last_Event_ID": last} if last else {}), **headers)

    def delete(self):
        return self.other("DELETE")

    def ping(self):
        return self.post(request("ping"))


@pytest.fixture
def session(server):
    return Session(server)


def modern(method, params=None, id=None, **meta):
    whole = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}, **meta}
    whole = {key: value for key, value in whole.items() if value is not None}
    return request(method, {**(params or {}), "_meta": whole}, id)


def post_modern(server, body, **headers):
    """With the headers that the body wants, unless they are given; None leaves one out."""
    named = {"MCP_Protocol_Version": MODERN, "Mcp_Method": body["method"]}
    params = body.get("params", {})
    for key in ("name", "uri", "taskId"):
        if key in params:
            named["Mcp_Name"] = params[key]
    return post(server, body, **{**named, **headers})


# -- what is read


@pytest.mark.parametrize("type", ["text/plain", "application/jsonp", "application/x-json", None])
def test_other_content_types_are_refused(server, type):
    answer = post(server, initialize(), type=type)
    assert answer.status == 415
    assert answer.json["error"]["code"] == "unsupported_media_type"


@pytest.mark.parametrize("type", ["application/json; charset=utf-8", "Application/JSON"])
def test_json_may_be_written_in_several_ways(server, type):
    assert post(server, initialize(), type=type).status == 200


@pytest.mark.parametrize(
    "body, code",
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700),
        (b"[" * 5000, -32600),
        (b"[]", -32600),
        (b'{"id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
    ],
)
def test_what_is_no_message(server, body, code):
    answer = post(server, body)
    assert (answer.status, answer.code) == (400, code)


def test_path_with_a_slash_behind_it(server):
    assert post(server, initialize(), path="/mcp/").status == 200


# -- legacy sessions


def test_initialize_makes_a_session(server):
    answer = post(server, initialize("2025-06-18"))
    assert (answer.status, answer.type) == (200, JSON)
    assert len(answer.headers["mcp-session-id"]) >= 32
    assert answer.json["result"]["protocolVersion"] == "2025-06-18"


def test_failed_initialize_makes_none(server):
    answer = post(server, request("initialize", {}))
    assert (answer.status, answer.code) == (200, -32602)
    assert "mcp-session-id" not in answer.headers


def test_each_session_has_its_own_id(server):
    assert len({Session(server).id for _ in range(20)}) == 20


def test_without_a_session(server):
    assert post(server, request("tools/list")).status == 400
    assert post(server, {"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 400
    assert Answer(server, "GET", headers={"Accept": EVENTS}).status == 400
    assert Answer(server, "DELETE").status == 400


def test_forged_sessions(server, session):
    last = session.id[-1]
    forged = [
        "x",
        "A" * 43,
        session.id[:-1] + ("A" if last != "A" else "B"),
        session.id.swapcase(),
        session.id + "A",
        session.id[:-1],
        "../../etc/passwd",
        "%s%n" * 10,
    ]
    for id in forged:
        answer = post(server, request("ping"), Mcp_Session_Id=id)
        assert (answer.status, answer.code) == (404, -32600), id
        named = {"Mcp-Session-Id": id}
        assert Answer(server, "GET", headers=named).status == 404
        assert Answer(server, "DELETE", headers=named).status == 404
    assert session.ping().status == 200


def test_a_session_that_stands_twice(server, session):
    other = Session(server)
    answer = post(server, request("ping"), Mcp_Session_Id=[session.id, other.id])
    assert answer.status == 400


def test_sessions_of_somebody_else(keyed):
    mine = Session(keyed, **{key.replace("-", "_"): value for key, value in ANN.items()})
    assert post(keyed, request("ping"), Mcp_Session_Id=mine.id).status == 401
    theirs = {"Mcp-Session-Id": mine.id, **BOB}
    body = json.dumps(request("ping"))
    assert Answer(keyed, "POST", body, {"Content-Type": JSON, **theirs}).status == 404
    assert Answer(keyed, "GET", headers=theirs).status == 404
    assert Answer(keyed, "DELETE", headers=theirs).status == 404
    assert mine.ping().status == 200


def test_delete_ends_a_session(session):
    answer = session.delete()
    assert (answer.status, answer.body) == (204, b"")
    assert session.delete().status == 404
    assert session.ping().status == 404
    assert session.get().status == 404


def test_delete_ends_its_streams_and_what_it_waits_for(server, session):
    listening = session.get()
    assert listening.status == 200
    streaming = session.post(call("test_sampling", prompt="x"))  # refused: not declared
    assert streaming.status == 200
    slow = http.client.HTTPConnection(server.host, server.port, timeout=GUARD_S)
    headers = {"Content-Type": JSON, "Accept": BOTH, "Mcp-Session-Id": session.id}
    slow.request("POST", "/mcp", json.dumps(call("slow_compute", seconds=15, label="x")), headers)
    time.sleep(0.3)
    assert session.delete().status == 204
    assert slow.getresponse().status == 404
    assert listening.rest() == []


def test_version_header(session):
    for version in LEGACY:
        assert session.post(request("ping"), MCP_Protocol_Version=version).status == 200
    for version in ["2024-01-01", "1", "", "2025-11-25x", [NEWEST, NEWEST]]:
        assert session.post(request("ping"), MCP_Protocol_Version=version).status == 400, version
        assert session.get(MCP_Protocol_Version=version).status == 400
    # The new version in the header wants the new body.
    answer = session.post(request("ping"), MCP_Protocol_Version=MODERN)
    assert (answer.status, answer.code) == (400, -32602)


def test_errors_of_handlers_come_with_200(session):
    answer = session.post(request("no/such/method"))
    assert (answer.status, answer.code) == (200, -32601)
    answer = session.post(call("no_such_tool"))
    assert (answer.status, answer.code) == (200, -32602)


def test_notifications_and_responses(session):
    for message in [
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}},
        {"jsonrpc": "2.0", "method": "notifications/unheard/of"},
        {"jsonrpc": "2.0", "id": 999, "result": {}},
        {"jsonrpc": "2.0", "id": 999, "error": {"code": 1, "message": "x"}},
    ]:
        answer = session.post(message)
        assert (answer.status, answer.body) == (202, b""), message


def test_an_id_that_is_in_flight(server, session):
    first = session.post(call("test_tool_with_progress", {"progressToken": 1}, id=5))
    answer = session.post(request("ping", id=5))
    assert answer.code == -32600
    assert first.rest()[-1][1]["result"]
    assert session.post(request("ping", id=5)).json["result"] == {}
    assert Session(server).post(request("ping", id=5)).json["result"] == {}


# -- one body, or a stream


PROGRESS = {"progressToken": "p"}


def test_nothing_before_the_answer_is_one_body(session):
    answer = session.post(call("test_simple_text"))
    assert (answer.status, answer.type) == (200, JSON)


def test_progress_makes_it_a_stream(session):
    answer = session.post(call("test_tool_with_progress", PROGRESS))
    assert (answer.status, answer.type) == (200, EVENTS)
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    messages = [message for _, message in answer.rest()]
    assert [m.get("method") for m in messages] == ["notifications/progress"] * 3 + [None]
    assert "result" in messages[-1]


@pytest.mark.parametrize("accept", [BOTH, "*/*", None, "application/*", "text/html"])
def test_accept_that_takes_json(session, accept):
    answer = session.post(call("test_simple_text"), accept=accept)
    assert (answer.status, answer.type) == (200, JSON)


def test_accept_of_json_only(session):
    answer = session.post(call("test_tool_with_progress", PROGRESS), accept=JSON)
    assert (answer.status, answer.type) == (200, JSON)
    assert answer.json["result"]["content"]


def test_accept_of_events_only(server, session):
    answer = session.post(call("test_simple_text"), accept=EVENTS)
    assert (answer.status, answer.type) == (200, EVENTS)
    assert len(answer.rest()) == 1
    answer = post_modern(server, modern("tools/list"), accept=EVENTS)
    assert answer.type == EVENTS
    assert answer.rest()[0][1]["result"]["tools"]
    answer = post(server, initialize(), accept=EVENTS)
    assert answer.type == EVENTS
    assert answer.headers["mcp-session-id"]
    assert answer.rest()[0][1]["result"]


def test_accept_without_events_and_a_question(server):
    """A client that can be asked must get the question, whatever it says."""
    session = Session(server, capabilities={"sampling": {}})
    answer = session.post(call("test_sampling", prompt="x"), accept=JSON)
    assert answer.type == EVENTS
    _, question = answer.next()
    assert question["method"] == "sampling/createMessage"
    content = {"role": "assistant", "content": {"type": "text", "text": "yes"}, "model": "m"}
    reply = {"jsonrpc": "2.0", "id": question["id"], "result": content}
    assert session.post(reply).status == 202
    assert "yes" in answer.rest()[-1][1]["result"]["content"][0]["text"]


@pytest.mark.parametrize("version", LEGACY)
def test_ids_and_prime_of_each_version(server, version):
    answer = Session(server, version).post(call("test_tool_with_progress", PROGRESS))
    raw = answer.body.decode()
    if version == "2025-11-25":
        first, _, raw = raw.partition("\n\n")
        lines = first.split("\n")
        assert lines[0].startswith("id: ") and lines[1].startswith("retry: ")
        assert lines[2] == "data: "
    assert "retry" not in raw
    heard = [event.split("\n") for event in raw.strip().split("\n\n")]
    assert all(e[0].startswith("id: ") and e[-1].startswith("data: {") for e in heard), raw
    assert len({e[0] for e in heard}) == len(heard) == 4


def test_modern_streams_have_no_ids(server):
    body = modern("tools/call", {"name": "test_tool_with_progress"}, progressToken=1)
    answer = post_modern(server, body)
    assert answer.type == EVENTS
    raw = answer.body.decode()
    assert "\nid:" not in "\n" + raw and "retry" not in raw
    assert raw.count("data: ") == 4


# -- coming back (legacy)


def test_resume_in_the_middle(server, session):
    answer = session.post(call("test_tool_with_progress", PROGRESS))
    last, _ = answer.next()
    answer.close()  # does not cancel
    again = session.get(last)
    assert (again.status, again.type) == (200, EVENTS)
    messages = [message for _, message in again.rest()]
    assert "result" in messages[-1]
    assert all(m["params"]["progress"] > 0 for m in messages[:-1])
    # Once more, from the same place, when all is over: the same again.
    assert [message for _, message in session.get(last).rest()] == messages


def test_resume_is_of_one_stream(session):
    first = session.post(call("test_tool_with_progress", {"progressToken": "first"}))
    second = session.post(call("test_tool_with_progress", {"progressToken": "second"}))
    last, _ = first.next()
    first.close()
    tokens = [m["params"]["progressToken"] for _, m in session.get(last).rest() if "params" in m]
    assert set(tokens) == {"first"}
    tokens = [m["params"]["progressToken"] for _, m in second.rest() if "params" in m]
    assert tokens == ["second"] * 3


def test_a_newer_connection_takes_over(session):
    answer = session.post(call("test_tool_with_progress", PROGRESS))
    last, _ = answer.next()
    again = session.get(last)
    messages = again.rest()
    assert "result" in messages[-1][1]
    heard = [id for id, _ in answer.rest()]
    assert not any(id == messages[-1][0] for id in heard), "the answer came twice"


def test_forged_events(server, session):
    answer = session.post(call("test_tool_with_progress", PROGRESS))
    last = answer.rest()[0][0]
    stream, _, number = last.partition("-")
    forged = [
        "x",
        "1",
        "0",
        "-",
        stream,
        f"{stream}-",
        f"{stream}-{int(number) + 100}",
        f"{stream}-0{number}",
        f"{stream.upper()}-{number}" if stream.upper() != stream else "-1",
        "0" * 16 + "-1",
        "A" * 5000,
    ]
    for id in forged:
        assert session.get(id).status == 400, id
    assert session.get(last).status == 200
    # Another client's session does not get it, nor does one that never had a stream.
    other = Session(server)
    assert other.get(last).status == 400
    other.post(call("test_tool_with_progress", PROGRESS)).rest()
    assert other.get(last).status == 400


def test_events_of_a_session_that_has_ended(server, session):
    last = session.post(call("test_tool_with_progress", PROGRESS)).rest()[0][0]
    session.delete()
    assert session.get(last).status == 404
    assert Session(server).get(last).status == 400


def test_server_hangs_up_and_the_client_comes_back(session):
    answer = session.post(call("test_reconnection"))
    assert answer.type == EVENTS
    raw = answer.body.decode()
    lines = raw.strip("\n").split("\n")
    assert lines[0].startswith("id: ") and lines[1].startswith("retry: ") and "data: {" not in raw
    messages = session.get(lines[0].removeprefix("id: ")).rest()
    assert len(messages) == 1 and "result" in messages[0][1]


def test_old_streams_are_forgotten(session):
    ids = [session.post(call("test_simple_text"), accept=EVENTS).rest()[0][0] for _ in range(40)]
    known = [session.get(id.partition("-")[0] + "-0").status for id in ids]
    assert known[-1] == 200 and known[0] == 400
    assert 10 <= known.count(200) <= 20


# -- the session's own stream (legacy)


def change(session):
    assert session.post(call("test_trigger_tool_change")).status == 200


def test_own_stream(session):
    stream = session.get()
    assert (stream.status, stream.type) == (200, EVENTS)
    change(session)
    id, message = stream.next()
    assert message["method"] == "notifications/tools/list_changed"
    # What comes while the client is away is kept for it.
    stream.close()
    time.sleep(0.2)
    change(session)
    again = session.get(id)
    assert again.next()[1]["method"] == "notifications/tools/list_changed"
    change(session)
    assert again.next()[1]["method"] == "notifications/tools/list_changed"
    again.close()


def test_each_message_is_on_one_stream(session):
    first, second = session.get(), session.get()
    change(session)
    assert second.next()
    session.delete()
    assert (first.rest(), second.rest()) == ([], [])


def test_many_own_streams(session):
    streams = [session.get() for _ in range(12)]
    assert all(s.status == 200 for s in streams)
    change(session)
    assert streams[-1].next()
    session.delete()
    for stream in streams:
        stream.close()


# -- batches (2025-03-26)


@pytest.fixture
def batching(server):
    return Session(server, "2025-03-26")


def test_batch(batching):
    note = {"jsonrpc": "2.0", "method": "notifications/unheard/of"}
    answer = batching.post([request("ping", id=1), note, call("test_simple_text", id="two")])
    assert (answer.status, answer.type) == (200, JSON)
    assert {one["id"]: "result" in one for one in answer.json} == {1: True, "two": True}


def test_batch_of_nothing_to_answer(batching):
    note = {"jsonrpc": "2.0", "method": "notifications/unheard/of"}
    answer = batching.post([note, {"jsonrpc": "2.0", "id": 5, "result": {}}])
    assert (answer.status, answer.body) == (202, b"")


def test_batch_with_a_stream(batching):
    answer = batching.post([request("ping", id=1), call("test_tool_with_progress", PROGRESS, id=2)])
    assert answer.type == EVENTS
    messages = [m for _, m in answer.rest()]
    assert sorted(m["id"] for m in messages if "result" in m) == [1, 2]
    assert sum("method" in m for m in messages) == 3


def test_batch_with_faults(batching):
    answer = batching.post(
        [7, initialize(id=1), [request("ping")], modern("tools/list", id=2), request("ping", id=3)]
    )
    assert answer.status == 200
    found = answer.json
    assert len(found) == 5
    assert [one["error"]["code"] for one in found if "error" in one] == [-32600] * 4
    assert {one["id"] for one in found if one.get("id")} == {1, 2, 3}


def test_batches_of_other_versions(server):
    for version in LEGACY:
        if version != "2025-03-26":
            answer = Session(server, version).post([request("ping")])
            assert (answer.status, answer.code) == (400, -32600)
    answer = post(server, [modern("tools/list")], MCP_Protocol_Version=MODERN)
    assert (answer.status, answer.code) == (400, -32600)
    assert post(server, [initialize("2025-03-26")]).status == 400


def test_large_batch(batching):
    assert len(batching.post([request("ping") for _ in range(64)]).json) == 64
    assert batching.post([request("ping") for _ in range(65)]).status == 400


# -- modern requests: the order of the checks


VERSION, CAPABILITIES = META + "protocolVersion", META + "clientCapabilities"
ECHO = {"name": "test_simple_text", "arguments": {}}


@pytest.mark.parametrize(
    "method, params, meta, headers, status, code",
    [
        ("tools/list", None, {}, {}, 200, None),
        ("tools/call", ECHO, {}, {}, 200, None),
        # the header against the body comes first
        ("tools/list", None, {VERSION: "v999"}, {}, 400, -32020),
        ("no/such", None, {}, {"MCP_Protocol_Version": NEWEST}, 400, -32020),
        # then the version, and what must be beside it
        ("no/such", None, {VERSION: "v999"}, {"MCP_Protocol_Version": "v999"}, 400, -32022),
        ("tools/list", None, {VERSION: NEWEST}, {"MCP_Protocol_Version": NEWEST}, 400, -32022),
        ("tools/list", None, {VERSION: 7}, {}, 400, -32602),
        ("no/such", None, {CAPABILITIES: None}, {}, 400, -32602),
        ("tools/list", None, {CAPABILITIES: []}, {}, 400, -32602),
        # a method that is not there needs no header
        ("no/such", None, {}, {"Mcp_Method": None, "MCP_Protocol_Version": None}, 404, -32601),
        ("tasks/result", {"taskId": "x"}, {}, {"Mcp_Name": None}, 404, -32601),
        ("initialize", None, {}, {}, 404, -32601),
        ("ping", None, {}, {"Mcp_Method": "wrong"}, 404, -32601),
        # then the headers
        ("tools/list", None, {}, {"MCP_Protocol_Version": None}, 400, -32020),
        ("tools/list", None, {}, {"Mcp_Method": None}, 400, -32020),
        ("tools/list", None, {}, {"Mcp_Method": "TOOLS/LIST"}, 400, -32020),
        ("tools/list", None, {}, {"Mcp_Method": "  tools/list\t"}, 200, None),
        ("tools/call", ECHO, {}, {"Mcp_Name": None}, 400, -32020),
        ("tools/call", ECHO, {}, {"Mcp_Name": "other"}, 400, -32020),
        ("tools/call", ECHO, {}, {"Mcp_Name": "=?base64?dGVzdF9zaW1wbGVfdGV4dA==?="}, 200, None),
        ("tools/call", ECHO, {}, {"Mcp_Name": "=?base64?dGVzdF9zaW1wbGVfdGV4dA?="}, 400, -32020),
        ("resources/read", {"uri": "test://static-text"}, {}, {"Mcp_Name": "x"}, 400, -32020),
        # what handlers find is in the answer
        ("tools/call", {"name": "no_such_tool"}, {}, {}, 200, -32602),
        ("resources/read", {"uri": "test://no-such"}, {}, {}, 200, -32602),
        ("tools/call", {"name": "test_missing_capability"}, {}, {}, 400, -32021),
    ],
)
def test_order_of_modern_checks(server, method, params, meta, headers, status, code):
    body = modern(method, params, id="the-id", **meta)
    answer = post_modern(server, body, **headers)
    assert answer.status == status, answer.body
    assert answer.json["id"] == "the-id"
    assert answer.json.get("error", {}).get("code") == code


def test_modern_needs_no_session_and_makes_none(server):
    answer = post_modern(server, modern("tools/list"), Mcp_Session_Id="forged")
    assert answer.status == 200
    assert "mcp-session-id" not in answer.headers


def test_modern_header_without_modern_body(server):
    answer = post(server, request("tools/list"), MCP_Protocol_Version=MODERN)
    assert (answer.status, answer.code) == (400, -32602)
    # initialize says by itself which era it is of
    assert post(server, initialize(), MCP_Protocol_Version=MODERN).status == 200


def test_modern_has_only_post(server, session):
    for method in ("GET", "DELETE"):
        answer = session.other(method, MCP_Protocol_Version=MODERN)
        assert answer.status == 405
        assert answer.headers["allow"] == "POST"
    assert session.ping().status == 200


def test_modern_notifications_and_responses(server):
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    answer = post(server, note, MCP_Protocol_Version=MODERN)
    assert (answer.status, answer.body) == (202, b"")
    note["params"]["_meta"] = {VERSION: MODERN}
    assert post(server, note).status == 202
    response = {"jsonrpc": "2.0", "id": 1, "result": {}}
    answer = post(server, response, MCP_Protocol_Version=MODERN)
    assert (answer.status, answer.code) == (400, -32600)


def mirrored(server):
    """A tool with an argument that a header mirrors: its name, the argument, the header."""
    for tool in post_modern(server, modern("tools/list")).json["result"]["tools"]:
        for key, property in tool["inputSchema"].get("properties", {}).items():
            if property.get("x-mcp-header") and property["type"] == "string":
                return tool["name"], key, "Mcp_Param_" + property["x-mcp-header"]
    raise AssertionError("no tool has x-mcp-header")


@pytest.mark.parametrize(
    "value, header, good",
    [
        ("Hello", "Hello", True),
        ("Hello", " Hello ", True),
        ("Hello", "=?base64?SGVsbG8=?=", True),
        ("SGVsbG8=", "SGVsbG8=", True),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8=", True),
        ("grün", "=?base64?Z3LDvG4=?=", True),
        ("Hello", "hello", False),
        ("Hello", "=?base64?SGVsbG8?=", False),
        ("Hello", "=?base64?SGVs!!!bG8=?=", False),
        ("Hello", "=?base64?SGVsbG9=?=", False),
        ("Hello", None, False),
        (None, "Hello", False),
    ],
)
def test_headers_that_mirror_arguments(server, value, header, good):
    tool, key, name = mirrored(server)
    arguments = {} if value is None else {key: value}
    body = modern("tools/call", {"name": tool, "arguments": arguments})
    answer = post_modern(server, body, **{name: header})
    if good:
        assert answer.status == 200 and "result" in answer.json, answer.body
    else:
        assert (answer.status, answer.code) == (400, -32020)


def test_headers_that_stand_twice(server):
    """Two readers could take two different ones."""
    tool, key, name = mirrored(server)
    body = modern("tools/call", {"name": tool, "arguments": {key: "x"}})
    given = {
        name: "x",
        "Mcp_Name": tool,
        "Mcp_Method": "tools/call",
        "MCP_Protocol_Version": MODERN,
    }
    assert post_modern(server, body, **given).status == 200
    for one, value in given.items():
        for twice in ([value, value], [value, "other"], ["other", value]):
            assert post_modern(server, body, **{**given, one: twice}).status == 400


def test_legacy_needs_no_mirrored_headers(server, session):
    tool, key, _ = mirrored(server)
    assert "result" in session.post(call(tool, **{key: "Hello"})).json


# -- clients that leave


def test_modern_client_that_leaves_cancels(server):
    """Before anything was sent, and from a stream."""
    for mark, meta in [(MARK + "a", {}), (MARK + "b", {"progressToken": 1})]:
        code = marked(mark, "print(1, flush=True)\nwhile True:\n    time.sleep(0.05)\n")
        body = modern("tools/call", {"name": "execute_python", "arguments": {"code": code}}, **meta)
        link = http.client.HTTPConnection(server.host, server.port, timeout=GUARD_S)
        headers = {
            "Content-Type": JSON,
            "Accept": BOTH,
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": "tools/call",
            "Mcp-Name": "execute_python",
        }
        link.request("POST", "/mcp", json.dumps(body), headers)
        assert wait_until(lambda: alive(mark), GUARD_S), "it never ran"
        link.sock.shutdown(2)
        link.close()
        assert wait_until(lambda: not alive(mark)), "it still runs"


def test_legacy_client_that_leaves_does_not_cancel(server, session):
    mark = MARK + "c"
    body = call("execute_python", code=marked(mark), id="run")
    link = http.client.HTTPConnection(server.host, server.port, timeout=GUARD_S)
    headers = {"Content-Type": JSON, "Accept": BOTH, "Mcp-Session-Id": session.id}
    link.request("POST", "/mcp", json.dumps(body), headers)
    assert wait_until(lambda: alive(mark), GUARD_S), "it never ran"
    link.sock.shutdown(2)
    link.close()
    time.sleep(1)
    assert alive(mark), "it was cancelled"
    cancel = {"method": "notifications/cancelled", "params": {"requestId": "run"}}
    assert session.post({"jsonrpc": "2.0", **cancel}).status == 202
    assert wait_until(lambda: not alive(mark)), "it still runs"


def test_cancelled_call_is_let_go(server, session):
    link = http.client.HTTPConnection(server.host, server.port, timeout=GUARD_S)
    headers = {"Content-Type": JSON, "Accept": BOTH, "Mcp-Session-Id": session.id}
    body = call("slow_compute", seconds=15, label="x", id="slow")
    link.request("POST", "/mcp", json.dumps(body), headers)
    time.sleep(0.3)
    cancel = {"method": "notifications/cancelled", "params": {"requestId": "slow"}}
    assert session.post({"jsonrpc": "2.0", **cancel}).status == 202
    answer = link.getresponse()
    assert (answer.status, answer.read()) == (202, b"")


# -- subscriptions, long waits, the end


def listen(server, **filter):
    body = modern("subscriptions/listen", {"notifications": filter}, id="sub")
    answer = post_modern(server, body)
    assert (answer.status, answer.type) == (200, EVENTS)
    return answer


def test_listen_is_a_stream_from_its_first_message(server, session):
    stream = listen(server, toolsListChanged=True)
    _, first = stream.next()
    assert first["method"] == "notifications/subscriptions/acknowledged"
    change(session)
    _, message = stream.next()
    assert message["params"]["_meta"][META + "subscriptionId"] == "sub"
    stream.close()
    # A client that takes JSON only cannot mean it here.
    body = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    answer = post_modern(server, body, accept=JSON)
    assert answer.type == EVENTS
    answer.close()


def test_stop_ends_subscriptions_with_a_result(cli):
    server = Server(cli, program=CONFORMANCE)
    session = Session(server)
    own, stream = session.get(), listen(server, toolsListChanged=True)
    assert stream.next()
    server.stop()
    messages = stream.rest()
    assert messages[-1][1]["id"] == "sub"
    assert messages[-1][1]["result"]["resultType"] == "complete"
    assert own.rest() == []


def test_sessions_that_nobody_uses_end(cli):
    server = Server(cli, "--mcp-session-ttl", "2s")
    unused, listening = Session(server), Session(server)
    assert unused.ping().status == 200
    stream = listening.get()
    time.sleep(3)
    assert unused.ping().status == 404
    stream.close()


def test_open_streams_are_kept_alive(idle):
    """The last test, so that they have been idle for long."""
    idle.thread.join(GUARD_S)
    # It was one body, until nothing had come for too long.
    assert idle.type == EVENTS and idle.took > KEEP_ALIVE_S - 1
    assert "result" in idle.messages[-1][1]
    for stream in idle.streams:
        assert any(name == ":" for name, _, _ in stream.events)
        stream.close()


def test_many_sessions(cli):
    server = Server(cli, "--mcp-sessions", "50")
    sessions = [Session(server) for _ in range(60)]
    assert sessions[0].ping().status == 404
    assert sessions[-1].ping().status == 200
