# SPDX-License-Identifier: Apache-2.0
"""`constrictor serve` as a long-lived process: start, page, health, keys, signals, crashes.

The protocol behind /mcp has tests of its own; here one request shows that it is there.
"""

import contextlib
import gzip
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

import pytest


class Server:
    def __init__(self, process, host="127.0.0.1"):
        self.process = process
        self.host = host
        self.lines = []
        line = ""
        while "MCP" not in line:
            line = process.stdout.readline().decode()
            assert line, process.stderr.read().decode()
            self.lines.append(line)
        self.url = line.split()[-1]
        self.port = int(re.search(r":(\d+)/mcp$", self.url).group(1))

    def ask(self, method, path, body=None, guard=600, **headers):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=guard)
        with contextlib.closing(connection):
            headers = {k.replace("_", "-"): v for k, v in headers.items()}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            answer.text = answer.read()
            return answer

    def health(self, **headers):
        return json.loads(self.ask("GET", "/health", **headers).text)

    def run(self, code, guard=600, **headers):
        """One run by the stateless protocol."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": "execute_python", "arguments": {"code": code}, "_meta": meta}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return self.ask(
            "POST", "/mcp", json.dumps(body), guard,
            Content_Type="application/json", Accept="application/json, text/event-stream",
            MCP_Protocol_Version="2026-07-28", Mcp_Method="tools/call", Mcp_Name="execute_python",
            **headers,
        )  # fmt: skip


@pytest.fixture
def serve(cli):
    def start(*flags, host="127.0.0.1", **options):
        return Server(cli.start("serve", "--port", 0, *flags, **options), host)

    return start


def gate_of(server, tools):
    return next(filter(tools.is_gate, tools.children(server.process.pid)), None)


def sleepers(server, tools):
    found = []
    for pid in tools.descendants(server.process.pid):
        with contextlib.suppress(OSError):
            if b"sleep" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def wait_running(server, tools):
    assert tools.wait_until(lambda: sleepers(server, tools)), "the code never ran"


def quiet(function):
    """The answer is not of interest, and may not come."""

    def call(*args):
        with contextlib.suppress(OSError, http.client.HTTPException):
            function(*args)

    return call


# A value that is in no id by accident.
CODE, VALUE = "20011 * 30011", b"600550121"
SLEEP = "import subprocess; subprocess.run(['sleep', '1000'])"


# ---- start ---------------------------------------------------------------------------------------


def test_it_says_where_it_is_and_runs_code(serve):
    server = serve()
    assert server.url == f"http://127.0.0.1:{server.port}/mcp"
    answer = server.run(CODE)
    assert answer.status == 200 and VALUE in answer.text
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=60) == 0
    assert json.dumps({"url": server.url})[1:-1] in server.process.stdout.read().decode()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]"])
def test_addresses(serve, host):
    if ":" in host and not socket.has_ipv6:
        pytest.fail("no IPv6 here")
    server = serve("--host", host, host="::1" if ":" in host else "localhost")
    assert server.health(Host=f"localhost:{server.port}")["status"] in ("ok", "starting")


def test_a_port_that_is_taken(cli, serve):
    server = serve()
    r = cli.call("serve", "--port", server.port)
    assert r.status == 69 and "[busy]" in r.err and str(server.port) in r.err
    assert "in use" in r.err and "--port" in r.err and r.raw == b""


@pytest.mark.parametrize("host", ["nosuchhost.invalid", "300.1.2.3", "203.0.113.77"])
def test_addresses_that_are_not_ours(cli, host):
    flags = ["--allow-public"] if host == "203.0.113.77" else []
    r = cli.call("serve", "--port", 0, "--host", host, *flags)
    assert r.status != 0 and host in r.err and "hint:" in r.err


def test_a_public_address_needs_a_key(cli, serve):
    r = cli.call("serve", "--port", 0, "--host", "0.0.0.0")
    assert r.status == 64 and "hint:" in r.err and r.raw == b""
    serve("--host", "0.0.0.0", env={"CONSTRICTOR_API_KEY": "hunter2-hunter2"})


def test_no_interpreter_no_server(cli):
    r = cli.call("serve", "--port", 0, "--python", "/nonexistent/python3")
    assert r.status == 69 and "interpreter" in r.err


def test_a_missing_layer_stops_it(cli, tools):
    """Fail closed: no server that could not make a box."""
    hide = cli.folder / "hide"
    source = tools.top / "tests" / "helpers" / "hide.c"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-O1", "-o", hide, source, "-lseccomp"], check=True)
    r = cli.call("serve", "--port", 0, prefix=[hide, "clone3=ENOSYS", "--"])
    assert r.status == 69 and "user_ns" in r.err and "hint:" in r.err and r.raw == b""


@pytest.fixture
def slow_python(cli):
    """An interpreter with modules that take three seconds to import, and more than any test."""
    folder = cli.folder / "venv"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "slow_module.py").write_text("import time; time.sleep(3)\n")
    (site / "endless_module.py").write_text("import time; time.sleep(100)\n")
    return folder / "bin" / "python3"


def test_it_answers_while_the_interpreter_warms_up(serve, slow_python):
    """A preload that takes seconds delays runs, and nothing else."""
    began = time.monotonic()
    server = serve("--python", slow_python, "--preload", "slow_module")
    assert server.health()["status"] == "starting"
    assert server.ask("GET", "/").status == 200
    assert VALUE in server.run(CODE).text
    assert time.monotonic() - began > 3
    assert server.health()["status"] == "ok"


def test_it_can_be_ended_while_the_interpreter_warms_up(serve, slow_python):
    server = serve("--python", slow_python, "--preload", "endless_module")
    assert server.health()["status"] == "starting"
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=60) == 0


def test_a_preload_that_ends_the_interpreter_is_the_answer_of_every_run(cli, serve, slow_python, tools):
    (site,) = (cli.folder / "venv").glob("lib/python3*/site-packages")
    (site / "deadly.py").write_text("import os; print('aargh', file=__import__('sys').stderr); os._exit(3)\n")
    server = serve("--python", slow_python, "--preload", "deadly")
    for _ in range(2):
        answer = server.run("1")
        assert answer.status == 200 and b"zygote_failed" in answer.text and b"aargh" in answer.text
    health = server.ask("GET", "/health")
    assert health.status == 503 and json.loads(health.text)["error"]["code"] == "zygote_failed"
    assert b"unavailable" in server.ask("GET", "/sheet").text
    # It is tried again, so mending it is enough.
    (site / "deadly.py").write_text("")
    assert tools.wait_until(lambda: VALUE in server.run(CODE).text, pause=0.2)
    assert server.health()["status"] == "ok"
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(timeout=60)
    assert b"aargh" in server.process.stderr.read()


# ---- page and health -------------------------------------------------------------------------------


def test_sheet(serve):
    server = serve()
    answer = server.ask("GET", "/sheet")
    text = answer.text.decode()
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/html")
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert server.url in text and "mcpServers" in text and "httpUrl" in text
    assert not re.search(r"<script|src=|href=|@import|url\(", text)
    assert server.ask("HEAD", "/sheet").text == b""
    assert server.ask("POST", "/sheet", b"x").status == 405


def test_page_and_its_files_are_in_the_program(serve):
    server = serve()
    answer = server.ask("GET", "/")
    text = answer.text.decode()
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/html")
    policy = answer.headers["Content-Security-Policy"]
    assert "script-src 'self';" in policy and "unsafe" not in policy and "require-trusted-types-for" in policy
    nonces = {re.search("nonce-([0-9a-f]{36})", server.ask("GET", "/").headers["Content-Security-Policy"])[1]
              for _ in range(3)}
    assert len(nonces) == 3
    names = re.findall(r'(?:src|href)="(/assets/[^"]+)"', text)
    assert len(names) >= 2 and not re.search(r'(?:src|href)="(?!/assets/|/sheet|data:)', text)
    for name in names:
        file = server.ask("GET", name, **{"Accept-Encoding": "gzip, br"})
        assert file.status == 200 and file.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert file.headers["Content-Encoding"] == "gzip" and gzip.decompress(file.text)
        assert server.ask("GET", name, **{"Accept-Encoding": "br"}).status == 406
    assert sum(len(server.ask("GET", name, **{"Accept-Encoding": "gzip"}).text) for name in [*names, "/"]) < 250_000
    for name in ("/assets/", "/assets/none.js", "/assets/../index.html", "/assets/index.html", "/assets/%2e%2e/x"):
        assert server.ask("GET", name).status in (400, 404), name
    frame = server.ask("GET", "/frame.html").headers["Content-Security-Policy"]
    assert frame.startswith("sandbox allow-scripts;") and "connect-src" not in frame and "default-src 'none'" in frame


@pytest.mark.parametrize("path", ["/health", "/api/v1/health"])
def test_health(serve, path, tools):
    server = serve()
    server.run("1")
    body = json.loads(server.ask("GET", path).text)
    assert body["name"] == "constrictor" and body["status"] == "ok"
    assert body["mcp_endpoint"] == server.url and body["active_sessions"] == 0
    assert body["uptime"] >= 0 and re.match(r"\d+\.\d+", body["version"])


def test_health_and_page_are_open_and_the_rest_is_not(serve):
    server = serve(env={"CONSTRICTOR_API_KEY": "hunter2-hunter2"})
    assert server.ask("GET", "/health").status == 200
    page = server.ask("GET", "/sheet")
    assert page.status == 200 and b"hunter2" not in page.text and b"Authorization" in page.text
    assert server.run("1").status == 401
    assert server.run("1", Authorization="Bearer wrong-wrong").status == 401
    assert server.run("1", Authorization="Bearer hunter2-hunter2").status == 200


# ---- limits --------------------------------------------------------------------------------------


def test_too_many_runs_are_refused_at_once(serve, tools):
    server = serve("--runs", 2, "--stock", 1)
    for _ in range(2):
        threading.Thread(target=quiet(server.run), args=[SLEEP], daemon=True).start()
    assert tools.wait_until(lambda: server.health()["active_runs"] == 2)
    answer = server.run("1")
    assert b"busy" in answer.text and b'"isError":true' in answer.text.replace(b" ", b"")
    assert b"--runs" in answer.text or b"again" in answer.text


# ---- signals -------------------------------------------------------------------------------------


GRACE_S = 5     # what runs may take to finish when the server is told to end
TRIES = 5       # a busy machine may keep a client waiting for as long, but not again and again


def gone(tree, tools):
    return tools.wait_until(lambda: not tools.reap([p for p in tree if os.path.exists(f"/proc/{p}")]))


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_ends_at_once(serve, tools, sig):
    """That is, without the time which it would give to what runs."""
    took = []
    while not took or (took[-1] > GRACE_S - 1 and len(took) < TRIES):
        server = serve()
        server.run("1")
        tree = tools.descendants(server.process.pid)
        began = time.monotonic()
        server.process.send_signal(sig)
        assert server.process.wait(timeout=60) == 0
        took.append(time.monotonic() - began)
        assert gone(tree, tools)
    assert took[-1] < GRACE_S - 1, took


def stop(server):
    """Tells it to end, and waits until it knows: a connection that it has nothing to do with is closed then."""
    with socket.create_connection((server.host, server.port), 60) as idle:
        idle.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert idle.recv(65536).startswith(b"HTTP/1.1 200 ")
        server.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(ConnectionResetError):
            while idle.recv(65536):
                pass


def test_what_runs_may_finish(serve, tools):
    server = serve()
    server.run("1")
    answers = []
    thread = threading.Thread(target=lambda: answers.append(server.run("import time; time.sleep(1.5); 'done' * 2")))
    thread.start()
    assert tools.wait_until(lambda: server.health()["active_runs"] == 1)
    stop(server)
    for path in ("/health", "/mcp", "/api/v1/sessions"):
        with pytest.raises(ConnectionRefusedError):     # a client that connects now fails at once
            server.ask("GET", path)
    thread.join(timeout=60)
    assert answers and b"donedone" in answers[0].text
    assert server.process.wait(timeout=60) == 0


def test_what_does_not_finish_is_ended(serve, tools):
    server = serve()
    threading.Thread(target=quiet(server.run), args=[SLEEP], daemon=True).start()
    wait_running(server, tools)
    tree = tools.descendants(server.process.pid)
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=60) == 0
    assert time.monotonic() - began > GRACE_S - 1
    assert gone(tree, tools)


def test_a_second_signal_ends_it_at_once(serve, tools):
    took = []
    while not took or (took[-1] > GRACE_S - 1 and len(took) < TRIES):
        server = serve()
        threading.Thread(target=quiet(server.run), args=[SLEEP], daemon=True).start()
        wait_running(server, tools)
        began = time.monotonic()
        stop(server)    # two signals at a time would be one
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=60) == 0
        took.append(time.monotonic() - began)
    assert took[-1] < GRACE_S - 1, took


def test_sighup_reads_the_keys_again(cli, serve, tools):
    keys = cli.folder / "keys"
    keys.write_text("alice:first-first-key\n")
    keys.chmod(0o600)
    server = serve("--api-key-file", keys)
    first, second = ({"Authorization": f"Bearer {k}-{k}-key"} for k in ("first", "second"))
    assert server.run("1", **first).status == 200 and server.run("1", **second).status == 401
    (cli.folder / "new").write_text("bob:second-second-key\n")
    os.rename(cli.folder / "new", keys)  # as editors do
    server.process.send_signal(signal.SIGHUP)
    assert tools.wait_until(lambda: server.run("1", **second).status == 200)
    assert server.run("1", **first).status == 401
    # A file that is gone or broken changes nothing.
    keys.unlink()
    server.process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert server.run("1", **second).status == 200
    keys.write_text("short\n")
    server.process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert server.run("1", **second).status == 200


def restart_gate(server, tools):
    gate = gate_of(server, tools)
    os.kill(gate, signal.SIGSEGV)
    assert tools.wait_until(lambda: gate_of(server, tools) not in (None, gate))


def test_a_key_that_was_taken_away_stays_so_after_a_crash(cli, serve, tools):
    keys = cli.folder / "keys"
    keys.write_text("alice:first-first-key\n")
    keys.chmod(0o600)
    server = serve("--api-key-file", keys)
    first, second = ({"Authorization": f"Bearer {k}-{k}-key"} for k in ("first", "second"))
    keys.write_text("bob:second-second-key\n")
    server.process.send_signal(signal.SIGHUP)
    assert tools.wait_until(lambda: server.run("1", **second).status == 200)
    restart_gate(server, tools)
    assert server.run("1", **first).status == 401
    assert server.run("1", **second).status == 200
    # Without the file no key is known to be good, so no client is served.
    keys.unlink()
    os.kill(gate_of(server, tools), signal.SIGSEGV)
    assert server.process.wait(timeout=60) != 0


def test_a_key_that_is_taken_away_ends_what_it_has_open(cli, serve, tools):
    """Streams, MCP sessions and Python sessions: not only the next request is refused."""
    keys = cli.folder / "keys"
    keys.write_text("alice:first-first-key\nbob:second-second-key\n")
    keys.chmod(0o600)
    server = serve("--api-key-file", keys)
    first, second = ({"Authorization": f"Bearer {k}-{k}-key"} for k in ("first", "second"))
    start = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
    streams = {}
    for who, key in (("alice", first), ("bob", second)):
        answer = server.ask("POST", "/mcp", json.dumps(start), Content_Type="application/json",
                            Accept="application/json, text/event-stream", **key)
        session = answer.getheader("Mcp-Session-Id")
        connection = http.client.HTTPConnection(server.host, server.port, timeout=600)
        connection.request("GET", "/mcp", headers={
            "Accept": "text/event-stream", "Mcp-Session-Id": session,
            "MCP-Protocol-Version": "2025-06-18", **key})
        streams[who] = connection.getresponse()
        assert streams[who].status == 200
        body = json.dumps({"code": "x = 1", "session": "mine", "stream": False})
        ran = server.ask("POST", "/api/v1/execute", body, Content_Type="application/json", **key)
        assert ran.status == 200, ran.text
    assert server.health()["active_sessions"] == 2
    keys.write_text("bob:second-second-key\n")
    server.process.send_signal(signal.SIGHUP)
    with contextlib.suppress(http.client.IncompleteRead):
        streams["alice"].read()     # ends
    assert tools.wait_until(lambda: server.health()["active_sessions"] == 1)
    listed = json.loads(server.ask("GET", "/api/v1/sessions", **second).text)
    assert list(listed["sessions"]) == ["mine"]
    streams["bob"].fp.raw._sock.settimeout(0.3)
    with pytest.raises(TimeoutError):
        while streams["bob"].read(1):   # a comment to keep it alive, perhaps; but no end
            pass
    keys.write_text("alice:first-first-key\nbob:second-second-key\n")
    server.process.send_signal(signal.SIGHUP)
    body = json.dumps({"code": "x", "session": "mine", "stream": False})

    def told():
        answer = server.ask("POST", "/api/v1/execute", body, Content_Type="application/json", **first)
        return answer.status == 200 and "taken away" in answer.text.decode()

    assert tools.wait_until(told)


# ---- crashes -------------------------------------------------------------------------------------


def test_a_gate_that_crashes_is_started_again(serve, tools):
    server = serve()
    server.run("1")
    threading.Thread(target=quiet(server.run), args=[SLEEP], daemon=True).start()
    wait_running(server, tools)
    for round in range(8):
        gate = gate_of(server, tools)
        os.kill(gate, signal.SIGSEGV)
        assert tools.wait_until(lambda: gate_of(server, tools) not in (None, gate))
        assert VALUE in server.run(CODE).text, round
    # The code of the client that was lost does not run any more.
    assert tools.wait_until(lambda: not sleepers(server, tools))


def test_a_gate_that_never_comes_to_serve_is_given_up(serve, tools):
    server = serve()
    deadline = time.monotonic() + 240
    while server.process.poll() is None:        # a hundred in a row, each as soon as it is there
        assert time.monotonic() < deadline
        with contextlib.suppress(OSError, TypeError):
            os.kill(gate_of(server, tools), signal.SIGSEGV)
    assert server.process.returncode != 0
    assert "giving up" in server.process.stderr.read().decode()


def test_a_zygote_that_dies_is_replaced(serve, tools):
    server = serve()
    assert VALUE in server.run(CODE).text

    def zygote():
        return (set(tools.children(server.process.pid)) - {gate_of(server, tools)} or {None}).pop()

    for _ in range(2):
        old = zygote()
        os.kill(old, signal.SIGKILL)
        # A box that was parked may still answer while it dies.
        assert tools.wait_until(lambda: zygote() not in (None, old))
        assert tools.wait_until(lambda: VALUE in server.run(CODE).text)


def test_nothing_outlives_the_keeper(serve, tools):
    server = serve()
    server.run("1")
    tree = tools.descendants(server.process.pid)
    server.process.kill()
    server.process.wait()
    assert tools.wait_until(lambda: not tools.reap([p for p in tree if os.path.exists(f"/proc/{p}")]))


def test_stdout_may_be_closed(cli, tools):
    process = cli.start("serve", "--port", 0, stdout=subprocess.DEVNULL)

    def heeds_the_end(pid):
        """Before that the signal just ends the process."""
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        return int(re.search(r"^SigCgt:\s+(\w+)", status, re.M)[1], 16) >> (signal.SIGTERM - 1) & 1

    def is_up():
        return any(tools.is_gate(pid) and heeds_the_end(pid) for pid in tools.descendants(process.pid))

    assert tools.wait_until(lambda: process.poll() is not None or is_up())
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
