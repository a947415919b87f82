# SPDX-License-Identifier: Apache-2.0
"""Errors as problem details (RFC 9457), on every path below /api/, from every part of the server; and the answers to bad input."""

import contextlib
import json
import socket
import time

import pytest
from conftest import open_cli
from rest_client import Answer, Rest, serve

KEYS = {"CONSTRICTOR_API_KEY": "ann:key-of-ann-1"}
TYPE = "application/problem+json"


@pytest.fixture(scope="module")
def api(program):
    with open_cli(program) as cli:
        yield Rest(serve(cli, "--body", "1M", env=KEYS).port, "key-of-ann-1")


@pytest.fixture(scope="module")
def large(program):
    with open_cli(program) as cli:
        yield serve(cli)


def check(answer, status, code):
    assert answer.status == status, answer
    assert answer.headers["Content-Type"] == TYPE, answer
    p = answer.json
    assert p["type"] == f"urn:constrictor:problem:{code}" and p["status"] == status, p
    assert p["title"] and p["title"][0].isupper() and "_" not in p["title"]
    assert p["detail"] and p["code"] == code
    # What clients of this server knew before.
    assert p["error"]["code"] == code and p["error"]["message"] == p["detail"]
    assert p["error"].get("hint") == p.get("hint")
    return p


@pytest.mark.parametrize("method, path, body, status, code", [
    ("POST", "/execute", {}, 400, "bad_value"),
    ("POST", "/execute", b"{", 400, "bad_json"),
    ("POST", "/execute", b'{"code": "n", "variables": {"n": 100000000000000000000}}', 400, "bad_value"),
    ("POST", "/execute", {"code": "1", "session": "ses_000000000000000000000"}, 404, "session_not_found"),
    ("GET", "/sessions/nobody", None, 404, "session_not_found"),
    ("GET", "/nothing", None, 404, "not_found"),
    ("GET", "/sessions/%zz", None, 404, "not_found"),
    ("GET", "/sessions/" + "x" * 2000, None, 404, "not_found"),
    ("GET", "/sessions/" + "x" * 200, None, 400, "bad_value"),
    ("DELETE", "/execute", None, 405, "method_not_allowed"),
    ("GET", "/environments/nobody", None, 404, "env_not_found"),
    ("GET", "/sessions/nobody/files/x", None, 404, "session_not_found"),
    ("PUT", "/sessions/s/files/%2e%2e/x", b"x", 400, "bad_file_path"),
    ("DELETE", "/artifacts", None, 400, "bad_value"),
])  # fmt: skip
def test_errors_of_the_api(api, method, path, body, status, code):
    headers = {"Content-Type": "application/json"} if isinstance(body, bytes) and method == "POST" else None
    p = check(api.ask(method, path, body, headers), status, code)
    if "%" not in path and len(path) < 1000:
        assert p["instance"] == "/api/v1" + path
    if code == "session_not_found":
        assert "POST /api/v1/sessions" in p["hint"] and "open_session" not in p["hint"]


def test_errors_of_the_server_below_it(api):
    check(Rest(api.port).get("/sessions"), 401, "key_required")
    check(Rest(api.port, "wrong-key-0").get("/sessions"), 401, "key_invalid")
    check(api.ask("PATCH", "/execute"), 405, "method_not_allowed")
    check(api.ask("POST", "/execute", b"x" * (2 << 20), {"Content-Type": "application/json"}), 413, "body_too_large")
    check(api.ask("POST", "/execute", b"x", {"Content-Type": "text/plain"}), 415, "unsupported_media_type")


MANY = 15 << 20     # bytes of a body, below the largest that is read


@pytest.mark.parametrize("path, begin, end", [
    ("/execute", b'{"code": "1", "variables": {"a": [', b"1]}}"),
    ("/batch", b'{"items": [', b"1]}"),
    ("/sessions", b'{"name": [', b"1]}"),
    ("/environments", b"[", b"1]"),
])
def test_a_body_of_millions_of_numbers_is_refused_before_it_is_read(large, path, begin, end):
    """Reading them would take seconds, in which all others wait."""
    body = begin + b"1," * ((MANY - 100) // 2) + end
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(contextlib.closing(large.connect())) for _ in range(3)]
        for link in links:
            link.request("POST", "/api/v1" + path, body, {"Content-Type": "application/json"})
        begun = time.monotonic()
        assert large.get("/health").status == 200
        took = time.monotonic() - begun     # 6 s and more when all three are read
        for link in links:
            response = link.getresponse()
            check(Answer(response, response.read()), 413, "too_many_values")
    assert took < 3, took
    deep = b'{"code": "1", "variables": {"a": ' + b"[" * 200 + b"]" * 200 + b"}}"
    check(large.ask("POST", "/execute", deep, {"Content-Type": "application/json"}), 400, "bad_json")
    # What stands in a string is one value.
    fine = {"code": "len(a)", "stream": False, "variables": {"a": "[1," * 200000}}
    answer = large.post("/execute", fine)
    assert answer.status == 200 and answer.json["result"] == "600000", answer


def raw(port, data):
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), 10)) as s:
        s.sendall(data)
        text = b""
        while part := s.recv(65536):
            text += part
    head, _, body = text.partition(b"\r\n\r\n")
    return int(head.split()[1]), head, json.loads(body)


@pytest.mark.parametrize("data, status", [
    (b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nx y: 1\r\n\r\n", 400),
    (b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nA: " + b"x" * 40000 + b"\r\n\r\n", 431),
    (b"GET /api/v1/health HTTP/3.7\r\nHost: 127.0.0.1\r\n\r\n", 505),
    (b"GET /api/v1/health HTTP/1.1\r\nHost: evil.example.org\r\nConnection: close\r\n\r\n", 403),
])  # fmt: skip
def test_heads_that_nobody_reads(api, data, status):
    found, head, body = raw(api.port, data)
    assert found == status and TYPE.encode() in head, head
    assert body["status"] == status and body["detail"] == body["error"]["message"]


def test_other_paths_are_as_they_were(api):
    found, head, body = raw(api.port, b"GET /elsewhere HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                                      b"Authorization: Bearer key-of-ann-1\r\n\r\n")  # fmt: skip
    assert found == 404 and b"application/json" in head and set(body) == {"error"}


def test_a_session_that_ended_says_why(api):
    handle = api.run("1", session="short")["session"]
    api.ask("DELETE", "/sessions/short")
    p = check(api.get(f"/sessions/{handle}"), 409, "session_ended")
    assert p["error"]["reason"] == "closed" and p["error"]["ended_at"]


def test_a_job_that_failed_is_a_problem_and_a_job(api):
    api.ask("POST", "/environments", {"name": "bad"})
    answer = api.ask("POST", "/environments/bad/packages", {"packages": ["does-not-exist-0123"], "wait": 3})
    if answer.status == 409:  # with an index or without one
        assert answer.headers["Content-Type"] == TYPE and answer.json["state"] == "failed"
        assert answer.json["status"] == 409 and answer.json["detail"] and answer.json["job"]
    else:
        assert answer.status in (202, 403, 503), answer


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fields, words, hint", [
    ({"timeouts": 5}, "unknown field 'timeouts'", "did you mean 'timeout'?"),
    ({"sessions": "x"}, "unknown field 'sessions'", "did you mean 'session'?"),
    ({"zzzzzzzz": 1}, "unknown field 'zzzzzzzz'", "the fields are: code"),
    ({"files": [{"pth": "x"}]}, "unknown field 'files[0].pth'", "did you mean 'path'?"),
    ({"timeout": "5"}, "field 'timeout' is the string '5', but must be a number", ""),
    ({"timeout": True}, "field 'timeout' is true, but must be a number", ""),
    ({"stream": 1}, "field 'stream' is 1, but must be true or false", ""),
    ({"memory_mb": 1.5}, "field 'memory_mb' is 1.5, but must be a whole number", ""),
    ({"args": "x"}, "field 'args' is the string 'x', but must be an array of strings", ""),
    ({"args": ["a", 1]}, "1 at position 1", ""),
    ({"files": {}}, "field 'files' is an object, but must be an array of objects", ""),
    ({"variables": []}, "field 'variables' is an array of 0 items, but must be an object", ""),
    ({"timeout": 301}, "field 'timeout' is 301, but may be at most 300", ""),
    ({"policy": "wide"}, "field 'policy' is the string 'wide', but must be one of open|guarded|restricted", ""),
])  # fmt: skip
def test_what_bad_input_is_told(api, fields, words, hint):
    p = check(api.post("/execute", {"code": "1", **fields}), 400, "bad_value")
    assert words in p["detail"] and hint in p["hint"], p


def test_hostile_names_are_shown_short_and_clean(api):
    p = check(api.post("/execute", {"code": "1", "\x1b[31m" + "x" * 100000: 1}), 400, "bad_value")
    assert len(json.dumps(p)) < 6000 and "\x1b" not in p["detail"]
