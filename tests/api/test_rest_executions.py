# SPDX-License-Identifier: Apache-2.0
"""Runs in the background over REST: their state, their output while they run, cancelling, and the webhook."""

import base64
import contextlib
import hashlib
import hmac
import http.server
import json
import re
import socket
import threading
import time

import pytest
from conftest import open_cli
from rest_client import Rest, serve

KEYS = {"CONSTRICTOR_API_KEY": "ann:key-of-ann-1,bob:key-of-bob-1"}
LOOP = "import time\nwhile True: time.sleep(0.01)"


class Receiver(http.server.BaseHTTPRequestHandler):
    """A webhook that does what its path says, and keeps what it got."""

    protocol_version = "HTTP/1.1"
    got = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Receiver.got.append((self.path, dict(self.headers), body))
        name = self.path.strip("/")
        with contextlib.suppress(OSError):
            getattr(self, f"answer_{name}", self.answer)()

    def answer(self, status=204, *headers):
        self.send_response(status)
        for header in headers:
            self.send_header(*header)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def answer_redirect(self):
        self.answer(307, ("Location", "http://169.254.169.254/latest/"))

    def answer_broken(self):
        self.answer(500)

    def answer_gigabyte(self):
        self.send_response(200)
        self.send_header("Content-Length", str(2**30))
        self.end_headers()
        for _ in range(1024):
            self.wfile.write(bytes(2**20))

    def answer_endless(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-A: ")
        while True:
            self.wfile.write(b"a" * 65536)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def receiver():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def api(program, receiver):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        down = closed.getsockname()[1]
    with open_cli(program) as cli:
        allowed = f"{receiver.removeprefix('http://')},127.0.0.1:{down}"
        server = serve(cli, "--offline", "--allow-host", allowed, env=KEYS)
        client = Rest(server.port, "key-of-ann-1")
        client.bob = Rest(server.port, "key-of-bob-1")
        client.down = f"http://127.0.0.1:{down}/"
        yield client


def start(api, code, **fields):
    answer = api.post("/executions", {"code": code, **fields})
    assert answer.status == 202 and answer.json["state"] in ("running", "finished"), answer
    assert answer.headers["Location"] == f"/api/v1/executions/{answer.json['execution_id']}"
    return answer.json["execution_id"]


def finish(api, execution):
    answer = api.get(f"/executions/{execution}?wait=600")
    assert answer.status == 200 and answer.json["state"] == "finished", answer
    return answer.json


def settle(api, execution):
    """The state when the webhook has been called."""
    while (state := finish(api, execution))["webhook"]["state"] in ("waiting", "calling"):
        time.sleep(0.05)
    return state["webhook"]


def test_the_result_of_a_run_in_the_background(api):
    state = finish(api, start(api, "import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7"))
    run = state["execution"]
    assert (state["verdict"], run["stdout"], run["stderr"], run["result"]) == ("ok", "out\n", "err\n", "42")
    assert run["execution_id"] == state["execution_id"] and state["output_offset"] == 8
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z", state["created_at"]) and state["created_at"] > "2025"


def test_it_takes_what_execute_takes(api):
    session = {"session": "of the background", "files": [{"path": "a.txt", "text": "text"}], "variables": {"n": 1}}
    state = finish(api, start(api, "print(n, open('a.txt').read(), input())", stdin="line\n", **session))
    assert state["execution"]["stdout"] == "1 text line\n" and state["execution"]["session_name"] == "of the background"
    assert api.run("n + 1", session="of the background")["result"] == "2"
    for bad in {"stream": False}, {"interactive": True}, {"nonsense": 1}, {"timeout": -1}, {"code": None}:
        answer = api.post("/executions", {"code": "1", **bad})
        assert answer.status == 400 and next(iter(bad)) in answer.error["message"], answer


def test_output_is_read_while_it_runs(api):
    code = "import sys\nprint('é1', flush=True)\ninput_file = 'go'\nimport os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('2')"
    execution = start(api, code, session="live")
    connection = api.connect()
    with contextlib.closing(connection):
        connection.request("GET", f"/api/v1/executions/{execution}/output", headers=api.headers())
        answer = connection.getresponse()
        first = json.loads(answer.readline())
        assert first == {"text": "é1\n", "stream": "stdout", "offset": 4}
        running = api.get(f"/executions/{execution}").json
        assert running["state"] == "running" and running["output_offset"] == 4 and "execution" not in running
        assert api.put("live", "go", b"").status == 200
        rest = [json.loads(line) for line in answer if line.strip()]
    assert rest[0] == {"text": "2\n", "stream": "stdout", "offset": 6} and rest[-1]["verdict"] == "ok"
    assert rest[-1]["execution"]["stdout"] == "é1\n2\n"
    again = api.get(f"/executions/{execution}/output?offset={first['offset']}").lines
    assert again == rest, again
    for bad in "7", "-1", "x", "99999999999999999999":
        assert api.get(f"/executions/{execution}/output?offset={bad}").status == 400, bad


def test_output_as_events(api):
    execution = start(api, "print(1)")
    told = api.get(f"/executions/{execution}/output", Accept="text/event-stream").data.decode()
    assert told.startswith('event: output\nid: 1\ndata: {"text":"1\\n"') and "event: done\n" in told


def test_a_reader_that_does_not_read_costs_nothing(api):
    """The run ends, and others read its output, whatever one reader does."""
    execution = start(api, "for i in range(1000): print('x' * 900)")
    lazy = [socket.create_connection(("127.0.0.1", api.port)) for _ in range(3)]
    for sock in lazy:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(f"GET /api/v1/executions/{execution}/output HTTP/1.1\r\nHost: 127.0.0.1:{api.port}\r\n"
                     f"Authorization: Bearer {api.key}\r\n\r\n".encode())  # fmt: skip
    assert len(finish(api, execution)["execution"]["stdout"]) == 901000
    lines = api.get(f"/executions/{execution}/output").lines
    assert sum(len(line.get("text", "")) for line in lines if line.get("stream") == "stdout") == 901000
    for sock in lazy:
        sock.close()


def test_cancelling(api):
    execution = start(api, LOOP)
    waiting = []
    thread = threading.Thread(target=lambda: waiting.append(finish(api, execution)))
    thread.start()
    assert api.ask("DELETE", f"/executions/{execution}").json == {"execution_id": execution, "cancelled": True, "deleted": False}
    thread.join()
    assert waiting[0]["verdict"] == "cancelled"
    assert api.ask("DELETE", f"/executions/{execution}").json["deleted"]
    assert api.get(f"/executions/{execution}").status == 404


def test_an_id_of_another_key_is_unknown(api):
    execution = start(api, LOOP)
    never = "00000000-0000-4000-8000-000000000000"
    for method, path in ("GET", "/executions/{}"), ("GET", "/executions/{}/output"), ("DELETE", "/executions/{}"):
        answers = [api.bob.ask(method, path.format(name)) for name in (execution, never)]
        assert [answer.status for answer in answers] == [404, 404]
        assert answers[0].data.replace(execution.encode(), b"") == answers[1].data.replace(never.encode(), b"")
    assert execution not in api.bob.get("/executions").data.decode()
    assert execution in [item["execution_id"] for item in api.get("/executions").json["executions"]]
    api.ask("DELETE", f"/executions/{execution}")
    assert finish(api, execution)["verdict"] == "cancelled"


def test_a_repeated_call_starts_nothing_twice(api):
    headers = {"Idempotency-Key": "once"}
    answers = [api.ask("POST", "/executions", {"code": "1"}, headers) for _ in range(2)]
    assert answers[0].json == answers[1].json and answers[1].headers["Idempotency-Replayed"] == "true"


def test_there_are_only_so_many(api):
    started = []
    while (answer := api.post("/executions", {"code": LOOP})).status == 202:
        started.append(answer.json["execution_id"])
    assert answer.status == 503 and "in the background" in answer.error["message"] and answer.headers["Retry-After"]
    assert api.run("1")["verdict"] == "ok" and api.bob.post("/executions", {"code": "1"}).status == 202
    for execution in started:
        api.ask("DELETE", f"/executions/{execution}")
    for execution in started:
        assert finish(api, execution)["verdict"] == "cancelled"


def signature(secret, identity, when, body):
    key = base64.b64decode(secret[6:]) if secret.startswith("whsec_") else secret.encode()
    mac = hmac.new(key, f"{identity}.{when}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(mac).decode()


@pytest.mark.parametrize("secret", ["a secret".replace(" ", "-"), "whsec_" + base64.b64encode(b"\xff\x00binary key!").decode()])
def test_a_webhook_is_signed(api, receiver, secret):
    execution = start(api, "print('done')", webhook=receiver + "/signed", webhook_secret=secret)
    assert settle(api, execution) == {"state": "delivered", "status": 204, "attempts": 1}
    _, headers, body = next(call for call in reversed(Receiver.got) if call[0] == "/signed")
    assert headers["Webhook-Id"] == execution and abs(int(headers["Webhook-Timestamp"]) - time.time()) < 600
    assert headers["Webhook-Signature"] == signature(secret, execution, headers["Webhook-Timestamp"], body)
    told = json.loads(body)
    assert (told["execution_id"], told["state"], told["execution"]["stdout"]) == (execution, "finished", "done\n")
    assert secret not in api.get(f"/executions/{execution}").data.decode()


def test_a_webhook_without_secret_has_no_signature(api, receiver):
    settle(api, start(api, "1", webhook=receiver + "/plain"))
    assert "Webhook-Signature" not in next(call for call in Receiver.got if call[0] == "/plain")[1]


def test_a_large_result_is_left_out(api, receiver):
    settle(api, start(api, "from base64 import b64encode\nimport os\nb64encode(os.urandom(10**6)).decode()\nprint('x' * 10**6 + chr(0) * 10**4)",
                      webhook=receiver + "/large"))  # fmt: skip
    told = json.loads(next(call for call in Receiver.got if call[0] == "/large")[2])
    assert told["execution_omitted"] is True and "execution" not in told and told["verdict"]


@pytest.mark.parametrize("path, attempts, why", [
    ("redirect", 1, "redirects (307), which is not followed"), ("broken", 3, "answered 500"), ("endless", 3, "LineTooLong"),
])  # fmt: skip
def test_a_webhook_that_misbehaves(api, receiver, path, attempts, why):
    state = settle(api, start(api, "1", webhook=f"{receiver}/{path}"))
    assert state["state"] == "failed" and state["attempts"] == attempts and why in state["error"], state
    assert len([call for call in Receiver.got if call[0] == f"/{path}"]) == attempts


def test_a_webhook_that_answers_a_gigabyte(api, receiver):
    """Its status counts; the rest is not read."""
    assert settle(api, start(api, "1", webhook=receiver + "/gigabyte")) == {"state": "delivered", "status": 200, "attempts": 1}


def test_a_webhook_that_is_down(api):
    state = settle(api, start(api, "1", webhook=api.down))
    assert state["state"] == "failed" and state["attempts"] == 3 and "refused" in state["error"].lower(), state


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/", "http://169.254.169.254/", "http://10.0.0.1/", "https://example.org/"])
def test_a_webhook_to_a_host_that_is_not_allowed(api, address):
    answer = api.post("/executions", {"code": "1", "webhook": address})
    assert answer.status == 403 and answer.error["code"] == "network_not_allowed" and "--allow-host" in answer.error["hint"], answer


@pytest.mark.parametrize("address", ["ftp://example.org/", "http://user:pass@example.org/", "http://", "x", "http://a b/", "http://a/\n", 5])
def test_a_webhook_that_is_no_address(api, address):
    assert api.post("/executions", {"code": "1", "webhook": address}).status == 400
    assert api.post("/executions", {"code": "1", "webhook_secret": "alone"}).status == 400


def test_ready_when_code_can_run(api):
    import http.client

    for path in "/ready", "/health":
        connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=600)
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["status"]) == (200, "ok"), path
        connection.close()
