# SPDX-License-Identifier: Apache-2.0
"""Streams of POST /execute: Server-Sent Events and NDJSON, while the code runs; a client that leaves cancels."""

import contextlib
import json
import time

import pytest
from conftest import open_cli, wait_until
from mcp_client import alive, marked
from rest_client import serve

SSE = {"Accept": "text/event-stream"}
# Prints, and then waits for longer than any test.
WAIT = "import time\nprint('begun', flush=True)\ntime.sleep(50)"


@pytest.fixture(scope="module")
def api(program):
    with open_cli(program) as cli:
        yield serve(cli)


def events(text):
    """What a reader makes of an event stream: (event, id, data) of each; comments are None."""
    found = []
    for block in text.split("\n\n"):
        if not block:
            continue
        fields = {}
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            assert name in ("", "event", "id", "data"), block
            assert name not in fields, block
            fields[name] = value.removeprefix(" ")
        if "data" in fields:
            found.append((fields["event"], fields["id"], json.loads(fields["data"])))
    return found


@contextlib.contextmanager
def opened(api, body, path="/execute", headers=None):
    with contextlib.closing(api.connect()) as connection:
        connection.request("POST", "/api/v1" + path, json.dumps(body), api.headers(
            {"Content-Type": "application/json", **(headers or {})}))
        yield connection


def runs(api):
    return api.get("/health").json["active_runs"]


# ---- the form ------------------------------------------------------------------------------------


def test_an_execution_as_events(api):
    code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nopen('f', 'w').write('x')\n6 * 7"
    answer = api.ask("POST", "/execute", {"code": code}, SSE)
    assert answer.status == 200 and answer.headers["Content-Type"] == "text/event-stream"
    assert answer.headers["Cache-Control"] == "no-store"
    found = events(answer.data.decode())
    names = [event for event, _, _ in found]
    assert names.count("output") >= 2 and names[-2:] == ["file", "done"] and "result" in names
    assert [number for _, number, _ in found] == [str(i + 1) for i in range(len(found))]
    assert found[-1][2]["execution"]["result_json"] == 42
    lines = api.stream(code)
    assert [sorted(m) for m in lines] == [sorted(m) for _, _, m in found]  # the same messages


def test_an_error_as_an_event(api):
    found = events(api.ask("POST", "/execute", {"code": "1 / 0"}, SSE).data.decode())
    assert [event for event, _, _ in found] == ["error", "done"]
    assert found[0][2]["error"].startswith("ZeroDivisionError") and found[0][2]["traceback"]


@pytest.mark.parametrize("text", ["a\n\nb", "a\r\nb\rc", "data: x\n\nevent: y", "\u2028\u2029\x85", "\0\x1b[0m"])
def test_no_output_breaks_an_event(api, text):
    answer = api.ask("POST", "/execute", {"code": f"print({text!r}, end='')"}, SSE)
    body = answer.data.decode()
    assert "\r" not in body
    found = events(body)
    assert "".join(m["text"] for event, _, m in found if event == "output") == text


@pytest.mark.parametrize("accept, type", [
    ("*/*", "application/x-ndjson"),
    ("application/json, text/plain, */*", "application/x-ndjson"),
    ("text/*", "application/x-ndjson"),
    ("application/x-ndjson, text/event-stream", "application/x-ndjson"),
    ("application/x-ndjson;q=0.5, text/event-stream", "text/event-stream"),
    ("application/x-ndjson, text/event-stream;q=0.9", "application/x-ndjson"),
    ("text/event-stream;q=0, */*", "application/x-ndjson"),
    ("Text/Event-Stream; q=1.0", "text/event-stream"),
    ("application/json, text/event-stream", "text/event-stream"),
])  # fmt: skip
def test_which_form_a_client_gets(api, accept, type):
    answer = api.ask("POST", "/execute", {"code": "1"}, {"Accept": accept})
    assert answer.headers["Content-Type"] == type, answer


def test_one_object_whatever_is_accepted(api):
    answer = api.ask("POST", "/execute", {"code": "1", "stream": False}, SSE)
    assert answer.headers["Content-Type"] == "application/json" and answer.json["result"] == "1"


# ---- while the code runs -------------------------------------------------------------------------


@pytest.mark.parametrize("headers, first", [({}, b'{"text":"begun\\n"'), (SSE, b"event: output")])
def test_the_first_output_comes_while_the_code_runs(api, headers, first):
    with opened(api, {"code": WAIT, "timeout": 60}, headers=headers) as connection:
        begin = time.monotonic()
        response = connection.getresponse()
        line = response.readline()
        assert line.startswith(first) and time.monotonic() - begin < 45
        assert runs(api) == 1
    assert wait_until(lambda: runs(api) == 0)


# ---- a client that leaves ------------------------------------------------------------------------


@pytest.mark.parametrize("fields, headers", [
    ({"stream": True}, {}), ({"stream": True}, SSE), ({"stream": False}, {})])  # fmt: skip
def test_leaving_ends_the_box(api, tools, fields, headers):
    before = set(tools.descendants(api.process.pid))
    # Another process of the box is gone as well, also one that left its session.
    code = "import os, time\nif os.fork() == 0:\n    os.setsid()\n" + WAIT
    with opened(api, {"code": code, "timeout": 60, **fields}, headers=headers) as connection:
        if fields["stream"]:
            connection.getresponse().readline()
        assert wait_until(lambda: runs(api) == 1)
    assert wait_until(lambda: runs(api) == 0)

    def sleepers():
        """Those of the box are below the server; the stock makes new ones, which run nothing."""
        return [p for p in tools.descendants(api.process.pid) if p not in before and sleeps(p)]

    def sleeps(pid):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/wchan") as file:
            return "nanosleep" in file.read()
        return False

    assert wait_until(lambda: not sleepers()), tools.describe(sleepers())


@pytest.mark.parametrize("fields", [{"stream": True}, {"stream": False}])
def test_leaving_interrupts_a_session_and_keeps_it(api, fields):
    name = f"left-{fields['stream']}"
    api.run("kept = 'x'", session=name)
    begun = marked(name, "print(1, flush=True)\ntime.sleep(50)").replace("\n", "\n    ")
    code = f"try:\n    {begun}\nexcept KeyboardInterrupt:\n    why = 'left'\n    raise"
    with opened(api, {"code": code, "session": name, "timeout": 60, **fields}) as connection:
        if fields["stream"]:
            connection.getresponse().readline()
        assert wait_until(lambda: alive(name))  # for the one that says nothing
        assert api.get(f"/sessions/{name}").json["state"] == "busy"
    assert wait_until(lambda: api.get(f"/sessions/{name}").json["state"] == "idle")
    assert api.run("kept, why", session=name)["result"] == "('x', 'left')"


@pytest.mark.parametrize("headers", [{}, SSE])
def test_much_output_is_the_same_in_each_form(api, headers):
    """The lines, and the last line, which is written bit by bit: the same as the whole object has."""
    code = r"""
import os, sys
for i in range(400):
    print("o", i, "\u20ac" * i, "\x01\t'\\", flush=True)
    print('e "', i, "\U0001f600" * 9, file=sys.stderr, flush=True)
os.write(1, b"\xff\xe2\x82" * 30000)
os.write(1, b"\xe2\x82")
"""
    whole = api.run(code)
    answer = api.ask("POST", "/execute", {"code": code}, headers)
    lines = [data for _, _, data in events(answer.data.decode())] if headers else answer.lines
    said = lines[-1]["execution"]
    assert len(whole["stdout"]) > 100000 and whole["stdout"].endswith("\ufffd")
    assert list(said) == list(whole)
    for stream in "stdout", "stderr":
        assert said[stream] == whole[stream]
        assert "".join(line["text"] for line in lines if line.get("stream") == stream) == whole[stream]
