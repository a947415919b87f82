# SPDX-License-Identifier: Apache-2.0
"""What code sees of the side of the network that is inside the box, on every CPython there is: texts,
classes and errno of exceptions, tracebacks, and that nothing else of the module socket changed.

test_network_refused.py has the libraries and the rules; tests/unit/test_runner_network.py what can be
had without a box.
"""

import contextlib
import socket
import threading

import pytest
from test_interpreters import NEW, label

CAUGHT = """
import asyncio, socket, time, traceback
def caught(call, *args):
    started = time.monotonic()
    try:
        return call(*args)
    except Exception as exc:
        text = traceback.format_exc()
        return [type(exc).__name__, exc.errno, str(exc), "/opt/constrictor/" in text,
                time.monotonic() - started]
"""
OFF = "network is off for this run"


@pytest.fixture(scope="module", params=NEW, ids=label)
def python(request):
    return request.param


@contextlib.contextmanager
def greeter():
    """A server on loopback that says hello."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection:
                    connection.sendall(b"hello")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        server.close()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_network_off(cli, python):
    code = """[caught(socket.create_connection, ("far.test", 443)),
 caught(socket.gethostbyname, "far.test"), caught(socket.create_connection, ("192.0.2.7", 443)),
 caught(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, 0)]"""
    ran = cli.run(CAUGHT + code, "--python", python)
    name, again, address, raw = ran.result_json
    for value in name, again:
        assert value[:4] == ["gaierror", -2, f"[Errno -2] cannot resolve 'far.test': {OFF}", False]
    assert address[:2] == ["OSError", 101] and address[2].endswith(f"192.0.2.7:443: {OFF}")
    assert raw[1] == 97 and "boxes never have raw" in raw[2]
    assert not address[3] and not raw[3]
    assert [e for e in ran.security_events if e["layer"] == "seccomp"] == []
    events = {(e["action"], e["target"]): e for e in ran.security_events if e["kind"] == "network"}
    assert set(events) == {
        ("resolve", "far.test:443"),
        ("resolve", "far.test"),
        ("connect", "192.0.2.7:443"),
        ("raw", "family 16, type 3, protocol 0"),
    }
    assert all(e["kind"] == "network" and e["layer"] == "box" and e["hint"] for e in events.values())


def test_uncaught_error_shows_the_text_and_no_frame_of_ours(cli, python):
    code = "import urllib.request\nurllib.request.urlopen('http://far.test/')"
    ran = cli.run(code, "--python", python)
    assert OFF in ran.error["message"] and ran.error["type"] == "urllib.error.URLError"
    assert "/opt/constrictor/" not in ran.error["text"]
    assert [e["target"] for e in ran.security_events if e["kind"] == "network"] == ["far.test:80"]


def test_imports_are_no_events(cli, python):
    code = """import asyncio, ftplib, http.server, multiprocessing.connection, smtplib, socket, ssl
import socketserver, urllib.request, xmlrpc.client
socket.getfqdn(); socket.getaddrinfo("localhost", 80); socket.socketpair()
socket.has_dualstack_ipv6()
try: socket.gethostbyname(socket.gethostname())
except OSError: pass"""
    assert cli.run(code, "--python", python).json.get("security_events", []) == []


def test_socket_looks_as_it_did(cli, python):
    code = """
import inspect, pickle, socket
kind = type(socket.socket.recv)
assert all(type(getattr(socket.socket, n)) is kind for n in "connect connect_ex sendto sendmsg".split())
assert repr(socket.gethostbyname) == "<built-in function gethostbyname>"
assert pickle.loads(pickle.dumps(socket.gethostbyname)) is socket.gethostbyname
assert "family=-1, type=-1, proto=-1, fileno=None" in str(inspect.signature(socket.socket))
assert "connect(address)" in socket.socket.connect.__doc__
for wrong in (), (1, 2, 3):
    try: socket.socket.connect(*wrong)
    except TypeError: pass
    else: assert False
a, b = socket.socketpair(); a.sendmsg([b"x"]); assert b.recv(1) == b"x"
for name in "network", "base", "display":
    try: __import__(name)
    except ImportError: pass
    else: assert False, name
7"""
    assert cli.run(code, "--python", python).result_json == 7


def test_loopback(cli, python):
    """A server that the rules allow, one that they do not, one of the box, and none at all."""
    closed = free_port()
    with greeter() as allowed, greeter() as forbidden:
        code = f"""
def hello(port, timeout=10):
    with socket.create_connection(("127.0.0.1", port), timeout) as s: return s.recv(5).decode()
async def slowly(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    said = (await reader.read(5)).decode()
    writer.close()
    return said
def later(port): return asyncio.run(slowly(port))
own = socket.create_server(("127.0.0.1", 0)); own_port = own.getsockname()[1]
import threading
def serve():
    while True: own.accept()[0].sendall(b"own")
threading.Thread(target=serve, daemon=True).start()
[[caught(call, port) for call in (later, hello)] for port in ({allowed}, own_port, {forbidden}, {closed})]"""
        flags = ("--allow-host", f"127.0.0.1:{allowed}", "--allow-host", f"127.0.0.1:{closed}")
        ran = cli.run(CAUGHT + code, "--python", python, *flags)
    assert ran.error is None, ran
    reached, own, refused, closed_port = ran.result_json
    assert (reached, own) == (["hello"] * 2, ["own"] * 2), ran
    for value in refused:
        assert value[:2] == ["ConnectionRefusedError", 111], ran
        assert "nothing listens" in value[2] and f"127.0.0.1:{forbidden}" in value[2], ran
        assert value[4] < 5, ran
    assert closed_port[1][:2] == ["ConnectionRefusedError", 111] and str(closed) in closed_port[1][2], ran
    assert not refused[1][3] and not closed_port[1][3]
    targets = {e["target"] for e in ran.security_events}
    assert f"127.0.0.1:{forbidden}" in targets and f"127.0.0.1:{allowed}" not in targets, ran
    assert [e for e in ran.security_events if e.get("action") == "resolve"] == [], ran


def test_time_out_of_a_socket_is_kept(cli):
    """Of a server whose queue is full: it is there, and never answers."""
    with socket.socket() as server, contextlib.ExitStack() as stack:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        address = server.getsockname()
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(address)
        code = f"""
s = socket.socket(); s.settimeout(0.7)
caught(s.connect, {address!r})"""
        ran = cli.run(CAUGHT + code, "--allow-host", f"127.0.0.1:{address[1]}")
    name, _, text, _, seconds = ran.result_json
    assert name in ("timeout", "TimeoutError") and text.startswith("timed out"), ran
    assert 0.6 < seconds < 5, ran

def test_code_that_reads_proc_and_connects(cli):
    with greeter() as port:
        code = f"""import socket, ssl
with socket.create_connection(("127.0.0.1", {port}), 60) as s:
    said = s.recv(5).decode()
[said, open("/proc/meminfo").read(8), hasattr(ssl.SSLSocket, "do_handshake")]"""
        ran = cli.run(code, "--allow-host", f"127.0.0.1:{port}")
    assert ran.result_json == ["hello", "MemTotal", True]
