# SPDX-License-Identifier: Apache-2.0
"""What strangers send to a port: requests that mean two things, endless ones, slow ones, and too many.

Everything goes over plain sockets, since no HTTP library would send it. The right answer is one in
JSON, the end of the connection where its next byte could mean anything, and a server that
goes on as if nothing had been.
"""

import contextlib
import json
import os
import pathlib
import resource
import select
import socket
import time

import pytest
from conftest import children, is_gate, open_cli, wait_until
from mcp_client import Server

REQUEST_S = 1  # --request-timeout
CONNECTIONS = 40
BODY = 64 * 1024
GUARD_S = 60

HOST = b"Host: localhost\r\n"
GET = b"GET /health HTTP/1.1\r\n"
POST = b"POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
HEALTHY = GET + HOST + b"\r\n"
LAST = GET + HOST + b"Connection: close\r\n\r\n"
CODE = b'{"code": "1 + 1"}'
VALIDATE = POST.replace(b"/mcp", b"/api/v1/validate") + b"Content-Length: %d\r\n" % len(CODE)
KEY = b"correct-horse-battery"
KEYS = {"CONSTRICTOR_API_KEY": f"a:{KEY.decode()}"}
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@pytest.fixture(scope="module")
def server(program):
    with open_cli(program) as cli:
        server = Server(
            cli,
            f"--request-timeout={REQUEST_S}s",
            f"--connections={CONNECTIONS}",
            f"--body={BODY}",
        )
        server.gate = wait_until(lambda: gate(server))
        yield server
        assert server.process.poll() is None, server.stderr()


@pytest.fixture(autouse=True)
def undisturbed(server):
    """After each test the server answers, and it is the same gate that does."""
    yield
    assert wait_until(lambda: b" 200 OK" in talk(server, LAST, quiet=GUARD_S)), server.stderr()
    assert server.gate and gate(server) == server.gate, server.stderr()


def gate(server):
    """The child of the keeper that is the same program: the zygote is an interpreter."""
    return next(filter(is_gate, children(server.process.pid)), None)


def connect(server):
    return socket.create_connection((server.host, server.port), timeout=GUARD_S)


def listen(link, quiet):
    """All that comes until the server is silent for so long; then `<end>` if it has hung up.  It has all the time
    that it needs for its first words."""
    link.settimeout(GUARD_S)
    heard = b""
    try:
        while piece := link.recv(1 << 16):
            heard += piece
            link.settimeout(quiet)
        return heard + b"<end>"
    except TimeoutError:
        return heard
    except OSError:
        return heard + b"<reset>"


def talk(server, *pieces, pause=0, quiet=0.25):
    with connect(server) as link:
        with contextlib.suppress(OSError):
            for piece in pieces:
                link.sendall(piece)
                time.sleep(pause)
        return listen(link, quiet)


def check_refusal(answer, status, ends=True):
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer
    assert answer.endswith(b"<end>") == ends, answer
    assert (b"connection: close" in head.lower()) == ends, answer
    error = json.loads(body.removesuffix(b"<end>"))["error"]
    assert error["code"] and error["message"], error


MALFORMED = {
    "length-and-chunks": (CHUNKED[:-2] + b"Content-Length: 5\r\n\r\n0\r\n\r\n", 400),
    "two-lengths": (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", 400),
    "same-length-twice": (POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400),
    "list-of-lengths": (POST + b"Content-Length: 2, 2\r\n\r\n{}", 400),
    "length-with-sign": (POST + b"Content-Length: +2\r\n\r\n{}", 400),
    "length-in-hex": (POST + b"Content-Length: 0x2\r\n\r\n{}", 400),
    "length-of-20-digits": (POST + b"Content-Length: 18446744073709551618\r\n\r\n{}", 400),
    "blank-before-colon": (POST + b"Content-Length : 2\r\n\r\n{}", 400),
    "other-encoding": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    "hidden-encoding": (POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400),
    "chunks-in-1.0": (CHUNKED.replace(b"1.1", b"1.0") + b"0\r\n\r\n", 400),
    "two-hosts": (GET + HOST + b"Host: evil.example.com\r\n\r\n", 400),
    "no-host": (GET + b"\r\n", 400),
    "two-keys": (GET + HOST + b"Authorization: Bearer a\r\nauthorization: Bearer b\r\n\r\n", 400),
    "two-methods": (POST + b"Mcp-Method: ping\r\nMCP-Method: tools/call\r\n\r\n", 400),
    "two-params": (POST + b"Mcp-Param-A: 1\r\nMcp-Param-A: 1\r\n\r\n", 400),
    "folded": (GET + HOST + b"X-A: b\r\n\tc\r\n\r\n", 400),
    "nul-in-value": (GET + HOST + b"X-A: b\0c\r\n\r\n", 400),
    "nul-in-name": (GET + HOST + b"X\0A: b\r\n\r\n", 400),
    "bare-cr": (GET + HOST + b"X-A: b\rContent-Length: 5\r\n\r\n", 400),
    "bare-lf": (GET + HOST + b"X-A: b\nContent-Length: 5\r\n\r\n", 400),
    "no-colon": (GET + HOST + b"nonsense\r\n\r\n", 400),
    "two-blanks": (b"GET  /health HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "http-0.9": (b"GET /health\r\n\r\n", 400),
    "http-2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "proxy": (b"GET http://evil.example.com/ HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "connect": (b"CONNECT localhost:22 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "trace": (b"TRACE /mcp HTTP/1.1\r\n" + HOST + b"\r\n", 405),
    "unknown-method": (b"FROB /mcp HTTP/1.1\r\n" + HOST + b"\r\n", 405),
    "long-target": (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
    "large-head": (GET + HOST + b"X: " + b"a" * 40000 + b"\r\n\r\n", 431),
    "endless-head": (GET + HOST + b"X: " + b"a" * 1000000, 431),
    "many-headers": (GET + HOST + b"X: 1\r\n" * 100 + b"\r\n", 431),
    "body-of-head": (b"HEAD /health HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\n\r\na", 400),
    "other-expectation": (POST + b"Expect: more\r\nContent-Length: 2\r\n\r\n{}", 417),
    "announced-too-large": (POST + b"Content-Length: 65537\r\n\r\n", 413),
    "sent-too-large": (POST + b"Content-Length: 4000000\r\n\r\n" + b" " * 4000000, 413),
    "chunks-too-large": (CHUNKED + b"ffff\r\n" + b" " * 65535 + b"\r\n2\r\n", 413),
    "chunk-size-too-large": (CHUNKED + b"ffffffff\r\n", 413),
    "chunk-size-too-long": (CHUNKED + b"0" * 100000, 400),
    "chunk-with-sign": (CHUNKED + b"+2\r\n{}\r\n0\r\n\r\n", 400),
    "chunk-with-extension": (CHUNKED + b"2;a=b\r\n{}\r\n0\r\n\r\n", 400),
    "chunk-longer-than-said": (CHUNKED + b"2\r\n{} \r\n0\r\n\r\n", 400),
    "chunk-with-lf": (CHUNKED + b"2\n{}\n0\n\n", 400),
    "trailer": (CHUNKED + b"2\r\n{}\r\n0\r\nAuthorization: Bearer a\r\n\r\n", 400),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_request_that_is_none_ends_the_connection(server, name):
    request, status = MALFORMED[name]
    check_refusal(talk(server, request + HEALTHY, quiet=GUARD_S), status)


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"Host: evil.example.com\r\n", 403),
        (b"Host: localhost.evil.example.com\r\n", 403),
        (b"Host:\r\n", 403),
        (HOST + b"Origin: http://evil.example.com\r\n", 403),
        (HOST + b"Origin: null\r\n", 403),
    ],
)
@pytest.mark.parametrize("path", [b"/health", b"/mcp", b"/", b"/nothing", b"/.well-known/x"])
def test_one_door_for_every_path(server, path, line, status):
    check_refusal(talk(server, b"GET %s HTTP/1.1\r\n" % path + line + b"\r\n"), status, ends=False)


def test_byte_by_byte(server):
    answer = talk(server, *[bytes([byte]) for byte in HEALTHY], pause=0.001)
    assert answer.count(b"HTTP/1.1 200 OK") == 1 and not answer.endswith(b"<end>"), answer


def test_requests_before_their_turn(server):
    body = b"Content-Length: %d\r\n\r\n" % len(PING) + PING
    answer = talk(server, HEALTHY + POST + body + HEALTHY + CHUNKED + b"0\r\n\r\n" + LAST, quiet=GUARD_S)
    assert answer.count(b"HTTP/1.1 ") == 5 and answer.count(b"HTTP/1.1 200 OK") >= 3, answer


def test_a_body_is_no_request(server):
    inner = b"DELETE /mcp HTTP/1.1\r\n" + HOST + b"\r\n"
    answer = talk(server, POST + b"Content-Length: %d\r\n\r\n" % len(inner) + inner)
    assert answer.count(b"HTTP/1.1 ") == 1, answer


def test_100_continue(server):
    ask = POST + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    with connect(server) as link:
        link.sendall(ask % len(PING))
        answer = link.recv(1 << 16)     # before the body is there
        link.sendall(PING)
        answer += listen(link, 0.25)
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 "), answer
    assert talk(server, ask % 10**9).startswith(b"HTTP/1.1 413 ")
    lost = ask.replace(b"/mcp", b"/nothing")
    assert talk(server, lost % 9).startswith(b"HTTP/1.1 404 ")


def test_http_1_0(server):
    old = HEALTHY.replace(b"1.1", b"1.0")
    answer = talk(server, old, quiet=GUARD_S)
    assert answer.startswith(b"HTTP/1.0 200 OK") and answer.endswith(b"}<end>"), answer
    answer = talk(server, old[:-2] + b"Connection: keep-alive\r\n\r\n")
    assert answer.startswith(b"HTTP/1.0 200 OK") and answer.endswith(b"}"), answer


def test_a_balancer_asks_for_the_health_without_a_host(server):
    """As HAProxy and old checks do; every other path wants one."""
    assert talk(server, b"GET /health HTTP/1.0\r\n\r\n", quiet=GUARD_S).startswith(b"HTTP/1.0 200 OK")
    for path in (b"/", b"/metrics", b"/api/v1/sessions", b"/health/../metrics"):
        answer = talk(server, b"GET " + path + b" HTTP/1.0\r\n\r\n", quiet=GUARD_S)
        assert answer.startswith((b"HTTP/1.0 400 ", b"HTTP/1.1 400 ")), (path, answer)


@pytest.mark.parametrize("start", [b"", GET, GET + HOST + b"X: ", POST + b"Content-Length: 999\r\n\r\n"])
def test_dribbling_ends_in_time(server, start):
    """Every byte is a sign of life, and yet the time for all of it is limited."""
    with connect(server) as link:
        began = time.monotonic()
        link.sendall(start or b"G")
        link.settimeout(0.05)
        heard = b""
        while time.monotonic() - began < GUARD_S:
            try:
                link.sendall(b"a")
                piece = link.recv(1 << 16)
            except TimeoutError:
                continue
            except OSError:
                break
            heard += piece
            if not piece:
                break
        took = time.monotonic() - began
    assert 0.9 * REQUEST_S < took, took
    assert heard.startswith(b"HTTP/1.1 408 "), heard


def test_silence_ends_in_time(server):
    with connect(server) as silent, connect(server) as stuck:
        stuck.sendall(GET)
        began = time.monotonic()
        assert listen(silent, GUARD_S) == b"<end>"
        assert listen(stuck, GUARD_S).startswith(b"HTTP/1.1 408 ")
        assert 0.9 * REQUEST_S < time.monotonic() - began


def test_a_client_that_never_reads(server):
    """Its answers are not kept for ever, and no call waits for it."""
    with connect(server) as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.settimeout(0.2)
        sent = 0
        with contextlib.suppress(OSError):
            for _ in range(20000):
                link.sendall(HEALTHY.replace(b"/health", b"/"))
                sent += 1
        # Nothing is taken from the link until the server has given up on it.
        assert wait_until(lambda: hung_up(link)), sent
        answer = listen(link, GUARD_S)
        assert answer.endswith((b"<end>", b"<reset>")), (sent, len(answer))


def hung_up(link):
    """Whether the other side has, seen without reading what it said before."""
    poll = select.poll()
    poll.register(link, select.POLLRDHUP)
    return bool(poll.poll(0))


def test_one_more_than_allowed(cli):
    server = Server(cli, "--request-timeout=60s", f"--connections={CONNECTIONS}")
    with contextlib.ExitStack() as stack:
        busy = [stack.enter_context(connect(server)) for _ in range(CONNECTIONS)]
        for link in busy:   # let in, and their bodies are on their way
            link.sendall(VALIDATE + b"\r\n")
        answers = [talk(server, HEALTHY, quiet=GUARD_S) for _ in range(3)]
        for answer in answers:
            assert answer.startswith(b"HTTP/1.1 503 ") or answer == b"<reset>", answer
        assert any(answer.startswith(b"HTTP/1.1 503 ") for answer in answers), answers
        for link in busy:  # and they go on undisturbed
            link.sendall(CODE)
        for link in busy:
            assert link.recv(1 << 16).startswith(b"HTTP/1.1 200 OK")
        # Those that have nothing to do any more make room after a while.
        assert wait_until(lambda: talk(server, LAST).startswith(b"HTTP/1.1 200 OK"))


def test_half_sent_heads_do_not_shut_out_a_client_with_a_key(cli):
    """A client without a key takes every place, and takes it again whenever it was closed."""
    server = Server(cli, "--request-timeout=60s", f"--connections={CONNECTIONS}", env=KEYS)
    request = VALIDATE + b"X-API-Key: %s\r\n\r\n" % KEY
    with contextlib.ExitStack() as stack:
        def half():
            link = stack.enter_context(connect(server))
            with contextlib.suppress(OSError):
                link.sendall(GET + HOST)
            return link

        kept = stack.enter_context(connect(server))
        kept.sendall(request)   # its body is on its way
        for _ in range(2 * CONNECTIONS):
            half()
        for _ in range(5):
            with connect(server) as link:
                link.sendall(request + CODE)
                assert listen(link, 0.25).startswith(b"HTTP/1.1 200 OK")
            for _ in range(CONNECTIONS):
                half()
        kept.sendall(CODE)
        assert listen(kept, 0.25).startswith(b"HTTP/1.1 200 OK")


def test_ten_thousand_connections(server):
    """As many of them as this process may open at a time."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    links = []
    try:
        for _ in range(10000):
            links.append(socket.create_connection((server.host, server.port), timeout=GUARD_S))
            if len(links) > 1000:
                links.pop(0).close()
        with connect(server) as link:
            link.sendall(HEALTHY)
            assert listen(link, 0.25).startswith(b"HTTP/1.1 ")
    finally:
        for link in links:
            link.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_nothing_stays_open(server):
    def open_files():
        try:
            return len(os.listdir(f"/proc/{server.gate}/fd"))
        except PermissionError:
            return open_links()     # only root may look at the gate; its connections are seen by all

    def open_links():
        established, close_wait = "01", "08"
        rows = [row.split() for row in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(int(row[1].split(":")[1], 16) == server.port and row[3] in (established, close_wait)
                   for row in rows)

    time.sleep(1.5 * REQUEST_S)     # what other tests left is gone then
    before = open_files()
    for request, _ in MALFORMED.values():
        with connect(server) as link, contextlib.suppress(OSError):
            link.sendall(request)
    assert wait_until(lambda: open_files() <= before), open_files() - before
