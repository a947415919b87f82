# SPDX-License-Identifier: Apache-2.0
"""Every message of the server is valid by the official schema of its revision.

One client does everything there is, also what is refused, over each transport and in each of the
five revisions; the oracle of tests/mcp_client.py then judges all that it has heard. The schemas are
those of the official conformance suite, which itself covers HTTP only.
"""

import concurrent.futures
import json
import time

import jsonschema
import pytest
from conftest import CONFORMANCE, open_cli
from mcp_client import (
    LEGACY,
    META,
    MODERN,
    TASKS,
    VERSIONS,
    Http,
    Oracle,
    Server,
    Sse,
    Stdio,
    check_received,
    oracle,
    text,
)

WAYS = [
    (way, v) for way in ("stdio", "http", "sse") for v in VERSIONS if (way, v) != ("sse", MODERN)
]
BOTH = pytest.mark.parametrize("way,version", WAYS, ids=[f"{w}-{v}" for w, v in WAYS])
CAPABILITIES = {
    "sampling": {},
    "elicitation": {},
    "roots": {"listChanged": True},
    "extensions": {TASKS: {}},
}
SECOND = "import time\nfor i in range(6):\n    print(i, flush=True)\n    time.sleep(0.2)\n"


@pytest.fixture(scope="module")
def server(program):
    with open_cli(program) as cli:
        yield Server(cli, "--legacy-sse", "--text-budget", "2000")


@pytest.fixture(scope="module")
def fixture_server(program):
    with open_cli(program) as cli:
        yield Server(cli, "--legacy-sse", program=CONFORMANCE)


@pytest.fixture(scope="module")
def asking_server(program):
    with open_cli(program) as cli:
        yield Server(cli, "--legacy-sse", "--consent", "always")


PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)


def connect(way, version, cli, server, *flags, program=None):
    capabilities = dict(CAPABILITIES)
    if version != MODERN:
        del capabilities["extensions"]
    if way == "stdio":
        return Stdio(cli, *flags, version=version, capabilities=capabilities, program=program)
    kind = Http if way == "http" else Sse
    return kind(server, version=version, capabilities=capabilities)


def check_all(connection):
    """Also that a tool's structured result is what the tool said it would be."""
    check_received(connection)
    tools = {}
    for message, method in connection.received:
        for tool in message.get("result", {}).get("tools", []) if method == "tools/list" else []:
            tools[tool["name"]] = tool
    for name, result in connection.calls:
        schema = tools[name].get("outputSchema")
        asks = result.get("resultType") == "input_required"  # get_sandbox_info: for the client's folders
        if schema and not result.get("isError") and not asks:
            assert "structuredContent" in result, f"{name} broke its promise: {result}"
            jsonschema.Draft202012Validator(schema).validate(result["structuredContent"])


def call(connection, name, /, meta=None, **arguments):
    result = connection.call(name, meta=meta, **arguments)
    connection.calls.append((name, result))
    return result


def lists(c):
    c.tool_list = c.result("tools/list")["tools"]
    c.result("resources/templates/list")
    for resource in c.result("resources/list")["resources"]:
        c.result("resources/read", {"uri": resource["uri"]})
    for prompt in c.result("prompts/list")["prompts"]:
        ref = {"type": "ref/prompt", "name": prompt["name"]}
        filled = {}
        for argument in prompt.get("arguments", []):
            part = {"ref": ref, "argument": {"name": argument["name"], "value": ""}}
            values = c.result("completion/complete", part)["completion"]["values"]
            filled[argument["name"]] = values[0] if values else "x = 1"
        c.result("prompts/get", {"name": prompt["name"], "arguments": filled})


def begin_slow(c):
    """A run that is long enough for progress, while the rest is done: the id of the call."""
    params = {"name": "execute_python", "arguments": {"code": SECOND}}
    return c.begin("tools/call", params, meta={"progressToken": "token"})


def end_slow(c, id):
    c.calls.append(("execute_python", c.wait(id)["result"]))
    assert c.notes("notifications/progress"), "no progress"


def runs(c):
    call(c, "get_sandbox_info")
    value = call(
        c, "execute_python", code="print('out')\nimport sys\nprint('err', file=sys.stderr)\n6*7"
    )
    assert "42" in text(value), value
    assert "ZeroDivisionError" in text(call(c, "execute_python", code="1/0"))
    call(c, "execute_python", code="def f(:\n")
    call(c, "execute_python", code="import os; os._exit(3)")
    call(c, "execute_python", code="while True: pass", timeout=0.2)
    call(c, "execute_python", code="print('\\x00\\x1b[31m \\ud800 \\U0001f40d')")
    long = call(c, "execute_python", code="for i in range(3000): print('line', i)")
    assert len(json.dumps(long)) < 60000, "the output was not shortened"
    for block in long["content"]:
        if block["type"] == "resource_link":
            c.result("resources/read", {"uri": block["uri"]})


def sessions(c):
    """Every tool for sessions and files, with every form of answer that it has."""
    name = f"of {c.version} over {c.name}"
    data = [{"path": "in/data.csv", "text": "a,b\n1,2\n"}]
    call(c, "open_session", name=name, files=data, variables={"k": [1, {"b": None}]})
    code = "x = k\nprint(open('in/data.csv').read())\nopen('out.txt', 'w').write('é' * 99)"
    made = call(c, "execute_python", code=code, session=name)
    assert not made.get("isError"), made
    call(c, "execute_python", code="del x\nimport json, time", session=name)
    call(c, "list_sessions")
    call(c, "interrupt_session", session=name)
    call(c, "write_file", session=name, path="b.bin", base64="AAECgP8=")
    call(c, "write_file", session=name, path="p.png", base64=PNG)
    call(c, "list_files", session=name)
    for path in ("out.txt", "b.bin", "p.png"):
        assert not call(c, "read_file", session=name, path=path).get("isError")
    call(c, "read_file", session=name, path="out.txt", offset=1, length=3)
    call(c, "delete_file", session=name, path="b.bin")
    call(c, "checkpoint_session", session=name, name="one")
    call(c, "undo_session", session=name, checkpoint="one")
    call(c, "fork_session", session=name)
    for resource in c.result("resources/list")["resources"]:
        c.result("resources/read", {"uri": resource["uri"]})
    call(c, "close_session", session=name)
    assert call(c, "read_file", session=name, path="x")["isError"]
    assert call(c, "write_file", session="x", path="../y", text="")["isError"]


def mistakes(c):
    assert call(c, "execute_python", code=5)["isError"]
    assert call(c, "execute_python")["isError"]
    assert call(c, "execute_python", code="1", nonsense=True)["isError"]
    c.error("tools/call", {"name": "no_such_tool", "arguments": {}})
    c.error("tools/call", {"arguments": {}})
    c.error("tools/call")
    c.error("resources/read", {"uri": "run://none/stdout"})
    c.error("resources/read", {})
    c.error("prompts/get", {"name": "none"})
    c.error("completion/complete", {"ref": {"type": "ref/none"}, "argument": {}})
    c.error("tools/list", {"cursor": "forged"})
    c.error("no/such/method")


def logging(c):
    if c.modern:
        c.call("get_sandbox_info", meta={META + "logLevel": "debug"})
        for method in ("ping", "initialize", "logging/setLevel", "resources/subscribe"):
            assert c.error(method, {"level": "debug"})["code"] == -32601
        assert c.error("tools/list", meta={META + "protocolVersion": "1999-01-01"})["code"] in (
            -32022,
            -32020,  # HTTP: the header names another version
        )
        return
    c.result("ping")
    c.result("logging/setLevel", {"level": "debug"})
    call(c, "execute_python", code="1/0")
    c.error("logging/setLevel", {"level": "loud"})
    c.error("initialize", {})


def subscriptions(c):
    uri = c.result("resources/list")["resources"][0]["uri"]
    if not c.modern:
        c.result("resources/subscribe", {"uri": uri})
        c.result("resources/unsubscribe", {"uri": uri})
        return
    wish = {"toolsListChanged": True, "resourcesListChanged": True, "resourceSubscriptions": [uri]}
    id = c.begin("subscriptions/listen", {"notifications": wish})
    first = c.until_note("notifications/subscriptions/acknowledged")[0]
    assert first["_meta"][META + "subscriptionId"] == id, first
    if c.name == "http":
        c.hang_up(id)
    else:
        c.cancel(id)


def tasks(c):
    code = "import time\ntime.sleep(0.3)\n'slow'"
    arguments = {"code": code, "timeout": 120}
    made = c.result("tools/call", {"name": "execute_python", "arguments": arguments})
    assert made["resultType"] == "task", made
    id = {"taskId": made["taskId"]}
    while (state := c.result("tasks/get", id))["status"] == "working":
        time.sleep(0.05)
    assert state["status"] == "completed" and "slow" in text(state["result"]), state
    arguments["code"] = "while True: pass"
    other = {
        "taskId": c.result("tools/call", {"name": "execute_python", "arguments": arguments})[
            "taskId"
        ]
    }
    c.result("tasks/update", {**other, "inputResponses": {}})
    c.result("tasks/cancel", other)
    assert c.result("tasks/get", other)["status"] == "cancelled"
    c.error("tasks/get", {"taskId": "none"})
    c.error("tasks/result", other)
    c.error("tasks/list")


@BOTH
def test_everything_a_client_can_hear(way, version, cli, server):
    flags = ("--text-budget", "2000")
    with connect(way, version, cli, server, *flags) as c:
        c.calls = []
        opened = c.open()
        if version != MODERN:
            assert opened["protocolVersion"] == version
        slow = begin_slow(c)
        lists(c)
        runs(c)
        sessions(c)
        mistakes(c)
        logging(c)
        subscriptions(c)
        if c.modern:
            tasks(c)
        end_slow(c, slow)
        check_all(c)


ANSWERS = {
    "sampling/createMessage": lambda p: {
        "role": "assistant",
        "content": {"type": "text", "text": "hello"},
        "model": "none",
    },
    "elicitation/create": lambda p: {"action": "accept", "content": answer_form(p)},
    "roots/list": lambda p: {"roots": [{"uri": "file:///home", "name": "home"}]},
}


def answer_form(params):
    """Something valid for each field of a form."""
    found = {}
    for name, field in params.get("requestedSchema", {}).get("properties", {}).items():
        kind = field.get("type")
        found[name] = field.get("default") or {"boolean": True, "integer": 1, "number": 1}.get(
            kind, "a@b.cd"
        )
    return found


def rounds(c, name, arguments):
    """A tool call of the modern era with its questions, until it is complete."""
    params = {"name": name, "arguments": arguments}
    for _ in range(5):
        answer = c.request("tools/call", params)
        result = answer.get("result", {})
        if result.get("resultType") != "input_required":
            return answer
        asked = result.get("inputRequests", {})
        params["inputResponses"] = {
            key: ANSWERS[r["method"]](r.get("params", {})) for key, r in asked.items()
        }
        if "requestState" in result:
            params["requestState"] = result["requestState"]
    raise AssertionError(f"{name} asks without end: {answer}")


# Valid arguments of the fixtures that need some.
ARGUMENTS = {"string": "text", "integer": 1, "number": 1, "boolean": True}


def use(c, tool):
    """Calls a fixture with something valid."""
    needs = tool["inputSchema"].get("required", [])
    properties = tool["inputSchema"].get("properties", {})
    arguments = {n: ARGUMENTS.get(properties[n].get("type"), "text") for n in needs}
    if tool["name"].startswith(("execute_", "test_reconnection")):
        return None
    if tool["name"].endswith("sep1330_enums") and c.version < "2025-11-25":
        return None  # the suite's own question is not valid before
    if c.modern:
        return rounds(c, tool["name"], arguments)
    return c.request("tools/call", {"name": tool["name"], "arguments": arguments})


@BOTH
def test_every_fixture_of_the_suite(way, version, cli, fixture_server):
    """Images, audio, embedded resources, questions: what our own tools do not have yet."""
    with connect(way, version, cli, fixture_server, program=CONFORMANCE) as c:
        c.calls = []
        c.on_request = ANSWERS
        c.open()
        lists(c)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for answer in pool.map(lambda tool: use(c, tool), c.tool_list):
                assert answer is None or "result" in answer or "error" in answer
        check_received(c)


@BOTH
def test_consent_is_asked_for(way, version, cli, asking_server):
    with connect(way, version, cli, asking_server, "--consent", "always") as c:
        asked = []
        yes = {"action": "accept", "content": {"allow": True, "approve": True, "run": True}}
        c.on_request = {"elicitation/create": lambda p: asked.append(p) or yes}
        c.open()
        if c.modern:
            answer = rounds(c, "execute_python", {"code": "6*7"})
        else:
            answer = c.request(
                "tools/call", {"name": "execute_python", "arguments": {"code": "6*7"}}
            )
        if version >= "2025-06-18":  # before, no client could be asked
            assert "42" in text(answer["result"]), answer
            assert c.modern or asked
        check_received(c)


def test_batches_are_answered_in_the_one_revision_that_has_them(cli):
    batch = [
        {"jsonrpc": "2.0", "id": "a", "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/unknown"},
        {"jsonrpc": "2.0", "id": "b", "method": "tools/list"},
        {"jsonrpc": "2.0", "id": "c", "method": "no/such/method"},
    ]
    with Stdio(cli, version="2025-03-26") as c:
        c.open()
        c.methods.update(a="ping", b="tools/list")
        c.send(batch)
        for id in "abc":
            c.wait(id)
        check_received(c)
    with Stdio(cli, version="2025-06-18") as c:
        c.open()
        c.send(batch)
        assert c.wait(None)["error"]["code"] == -32600
        check_received(c)


@pytest.mark.parametrize("version", VERSIONS)
def test_garbage_is_refused_with_valid_errors(cli, version):
    with Stdio(cli, version=version) as c:
        c.open()
        for line in (
            b"nonsense",
            b"{",
            b'"text"',
            b"[]",
            b"1",
            b"{}",
            b'{"jsonrpc":"1.0","id":1,"method":"x"}',
        ):
            with c._news:
                c.answers.pop(None, None)
                before = len(c.received)
            c.raw(line + b"\n")
            c.until(lambda: len(c.received) > before, 10, f"no answer to {line}")
            error = c.received[-1].message["error"]
            assert error["code"] in (-32700, -32600), (line, error)
        c.result("tools/list")
        check_received(c)


def test_the_oracle_finds_mistakes():
    """A judge that never says no is none."""
    for version in VERSIONS:
        judge = oracle(version)
        good = {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}
        if version == MODERN:
            good["result"].update(resultType="complete", ttlMs=0, cacheScope="public")
        assert judge.wrong(good, "tools/list") == []
        assert judge.wrong({**good, "jsonrpc": "1.0"}, "tools/list")
        assert judge.wrong({**good, "result": {"tools": [{}]}}, "tools/list")
        assert judge.wrong({"jsonrpc": "2.0", "id": 1, "error": {"code": "x"}}, "tools/list")
        assert judge.wrong({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})
    assert isinstance(judge, Oracle) and len(LEGACY) == 4
