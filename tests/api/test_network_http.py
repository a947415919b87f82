# SPDX-License-Identifier: Apache-2.0
"""Inside a connection: methods and paths of plain HTTP, the Host of requests, the server name of TLS.

Whatever two servers could read in two ways must not pass where rules bound requests: the far side's own
record of what arrived decides.
"""

import json

import pytest
from conftest import open_cli
from net_lab import Boxes


@pytest.fixture(scope="module")
def boxes(program, lab):
    """Hosts without bounds on requests."""
    with open_cli(program) as cli:
        with Boxes(lab, cli, "--allow-host", "web.test,44.128.5.0/24", "--stock", "1") as boxes:
            yield boxes


# ---- HTTP ----------------------------------------------------------------------------------------

HTTP_RULES = {
    "default": {
        "allow": [
            {
                "host": "web.test",
                "port": 80,
                "methods": ["GET", "HEAD"],
                "paths": ["/v1/*", "/open"],
            },
            {"host": "web.test", "port": 80, "methods": ["POST"], "paths": ["/echo"]},
            "a.wild.test",
        ]
    }
}


@pytest.fixture(scope="module")
def bounded(program, lab):
    with open_cli(program) as cli:
        (cli.folder / "net.json").write_text(json.dumps(HTTP_RULES))
        with Boxes(lab, cli, "--network-file", cli.folder / "net.json", "--stock", "1") as boxes:
            yield boxes


REQUESTS = {
    "get": ("get", "/v1/x?y=z", True),
    "get_exact": ("get", "/open", True),
    "head": ("head", "/v1/", True),
    "post_elsewhere": ("post", "/echo", True),
    "post": ("post", "/v1/x", False),
    "delete": ("delete", "/v1/x", False),
    "other_path": ("get", "/v2/x", False),
    "prefix_of_path": ("get", "/v1", False),
    "longer_than_exact": ("get", "/open/x", False),
    "root": ("get", "/", False),
}


@pytest.mark.parametrize("what", REQUESTS)
def test_methods_and_paths_of_plain_http(lab, bounded, what):
    method, path, good = REQUESTS[what]
    lab.clear()
    code = f"""
import requests
attempt(lambda: requests.{method}("http://web.test{path}", timeout=25).status_code)"""
    ran = bounded.run(code)
    assert ("value" in ran.attempt) == good, ran
    assert [r["target"] for r in lab.show("requests")] == [path] * good
    if not good:
        (found,) = [e for e in ran.events if e["action"] == "http"]
        assert path in json.dumps(found) and found["host"] == "web.test" and found["hint"], found
        assert method.upper() in json.dumps(found)
        assert "rule 'web.test:80 " in ran.attempt["error"], ran


RAW = {
    "dots": b"GET /v1/../v2 HTTP/1.1\r\nHost: web.test\r\n\r\n",
    "dots_in_hex": b"GET /v1/%2e%2e/v2 HTTP/1.1\r\nHost: web.test\r\n\r\n",
    "slash_in_hex": b"GET /v1/..%2fv2 HTTP/1.1\r\nHost: web.test\r\n\r\n",
    "backslash": b"GET /v1/..\\v2 HTTP/1.1\r\nHost: web.test\r\n\r\n",
    "absolute_form": b"GET http://other.test/v1/x HTTP/1.1\r\nHost: web.test\r\n\r\n",
    "connect": b"CONNECT other.test:80 HTTP/1.1\r\nHost: web.test\r\n\r\n",
    "other_host": b"GET /v1/x HTTP/1.1\r\nHost: other.test\r\n\r\n",
    "no_host": b"GET /v1/x HTTP/1.1\r\nAccept: */*\r\n\r\n",
    "two_hosts": b"GET /v1/x HTTP/1.1\r\nHost: web.test\r\nHost: other.test\r\n\r\n",
    "host_with_user": b"GET /v1/x HTTP/1.1\r\nHost: web.test@other.test\r\n\r\n",
    "pipelined": b"GET /v1/a HTTP/1.1\r\nHost: web.test\r\n\r\nGET /v2/b HTTP/1.1\r\nHost: web.test\r\n\r\n",
    "pipelined_host": b"GET /v1/a HTTP/1.1\r\nHost: web.test\r\n\r\nGET /v1/b HTTP/1.1\r\nHost: other.test\r\n\r\n",
    "length_and_chunks": b"POST /echo HTTP/1.1\r\nHost: web.test\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v2/b HTTP/1.1\r\nHost: web.test\r\n\r\n",
    "two_lengths": b"POST /echo HTTP/1.1\r\nHost: web.test\r\nContent-Length: 0\r\nContent-Length: 44\r\n\r\n"
    b"GET /v2/b HTTP/1.1\r\nHost: web.test\r\n\r\n",
    "odd_length": b"POST /echo HTTP/1.1\r\nHost: web.test\r\nContent-Length: +5\r\n\r\nhello",
    "blank_before_colon": b"POST /echo HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "odd_coding": b"POST /echo HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "folded_header": b"GET /v1/x HTTP/1.1\r\nHost: web.test\r\nX: a\r\n b\r\n\r\n",
    "bare_newlines": b"GET /v1/x HTTP/1.1\nHost: web.test\n\n",
    "bare_return": b"GET /v1/x HTTP/1.1\r\nHost: web.test\r\nX: a\rGET /v2/b HTTP/1.1\r\n\r\n",
    "nul": b"GET /v1/x\0y HTTP/1.1\r\nHost: web.test\r\n\r\n",
    "old_version": b"GET /v1/x HTTP/0.9\r\nHost: web.test\r\n\r\n",
    "no_version": b"GET /v2/x\r\n",
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "not_http": b"EHLO web.test\r\n",
    "tls": b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
    "lower_method": b"get /v1/x HTTP/1.1\r\nHost: web.test\r\n\r\n",
    "upgrade": b"GET /v1/x HTTP/1.1\r\nHost: web.test\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\nGET /v2/b HTTP/1.1\r\n"
    b"Host: web.test\r\n\r\n",
}
ALLOWED_TARGETS = {"/v1/x", "/v1/a", "/echo"}


@pytest.mark.parametrize("what", RAW)
def test_requests_that_try_to_get_past_the_rules_do_not(lab, bounded, what):
    lab.clear()
    code = f"""
def talk():
    with socket.create_connection(("web.test", 80), 5) as s:
        s.sendall({RAW[what]!r})
        s.settimeout(2)
        data = b""
        while part := s.recv(65536):
            data += part
            if data.count(b"HTTP/1.1 200") and data.endswith(b"}}"):
                s.settimeout(0.5)
        return data
attempt(talk)"""
    ran = bounded.run(code)
    assert ran.verdict == "ok", ran
    seen = lab.show("requests")
    assert all(r["target"] in ALLOWED_TARGETS and r["host"] == "web.test" for r in seen), seen
    if what in ("pipelined", "pipelined_host"):
        assert len(seen) <= 1, seen
    elif what != "lower_method":
        assert seen == [], seen
    assert [e for e in ran.events if e["action"] in ("http", "tls")], ran


CLIENTS = {
    "requests": "import requests\nattempt(lambda: requests.get('http://web.test/v2'))",
    "httpx": "import httpx\nattempt(lambda: httpx.get('http://web.test/v2'))",
    "urllib": "import urllib.request as u\nattempt(lambda: u.urlopen('http://web.test/v2'))",
    # It has a body that can no longer be sent, and then looks for an answer.
    "body": "import requests\nattempt(lambda: requests.post('http://web.test/v2', data='x' * 9999))",
    "aiohttp": """
import aiohttp, asyncio
async def work():
    async with aiohttp.ClientSession() as session:
        await session.get("http://web.test/v2")
attempt(lambda: asyncio.run(work()))""",
}


@pytest.mark.parametrize("client", CLIENTS)
def test_refused_request_is_explained_in_the_exception(bounded, client):
    ran = bounded.run(CLIENTS[client])
    assert "does not allow this method or path" in ran.attempt["error"], ran
    assert "ConnectionResetError" in ran.attempt["kinds"], ran


def test_a_reset_of_the_far_side_is_said_as_ever(boxes):
    """Nothing that the broker did, and no connection before it, is named then."""
    ran = boxes.run(
        """
import requests
attempt(lambda: requests.get("http://web.test/", headers={"Host": "other.test"}))
attempt(lambda: requests.get("http://web.test/reset"))"""
    )
    assert "host_mismatch" in ran.attempts[0]["error"], ran
    assert "refused" not in ran.attempts[1]["error"], ran
    assert "reset by peer" in ran.attempts[1]["error"], ran


def test_head_in_many_small_pieces_is_read_like_any_other(lab, bounded):
    code = """
def slowly(data):
    with socket.create_connection(("web.test", 80), 5) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in data:
            s.send(bytes([byte]))
        return s.recv(1000)
attempt(lambda: slowly(b"GET /v1/x HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n"))
attempt(lambda: slowly(b"GET /v2/x HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n") or 1 / 0)"""
    lab.clear()
    ran = bounded.run(code)
    assert ["value" in one for one in ran.attempts] == [True, False], ran
    assert [r["target"] for r in lab.show("requests")] == ["/v1/x"]


def test_bodies_and_keep_alive_pass_where_requests_are_judged(lab, bounded):
    code = """
import requests
with requests.Session() as s:
    sizes = [len(s.post("http://web.test/echo", data=b"x" * n).content) for n in (0, 1, 70000)]
    sizes.append(len(s.post("http://web.test/echo", data=iter([b"x" * 1000] * 5)).content))
    sizes.append(s.get("http://web.test/v1/x").status_code)
sizes"""
    ran = bounded.run(code)
    assert ran.result_json == [0, 1, 70000, 5000, 200], ran
    assert ran.network["connections"] == 1 and ran.network["requests"] == 5, ran


def test_host_header_must_be_the_host_that_was_asked_for(lab, bounded):
    """Also where no rule bounds requests: another Host is another site of the same server."""
    code = """
import requests
attempt(lambda: requests.get("http://a.wild.test/", timeout=25).status_code)
attempt(lambda: requests.get("http://a.wild.test:80/", headers={"Host": "A.wild.test:80"}, timeout=25).status_code)
attempt(lambda: requests.get("http://a.wild.test/", headers={"Host": "other.test"}, timeout=25).status_code)"""
    ran = bounded.run(code)
    assert ["value" in one for one in ran.attempts] == [True, True, False], ran
    assert any(e["host"] == "a.wild.test" and e["action"] == "http" for e in ran.events), ran


# ---- TLS -----------------------------------------------------------------------------------------

TLS = """
import ssl
context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
def tls(name, host="web.test", pieces=None, records=None):
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    link = context.wrap_bio(into, out, server_hostname=name)
    with socket.create_connection((host, 443), 5) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        first = True
        while True:
            try:
                link.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                done = False
            data = out.read()
            if first and records:  # the message in several records
                body, step = data[5:], records
                parts = [body[i:i + step] for i in range(0, len(body), step)]
                data = b"".join(b"\\x16\\x03\\x01" + len(p).to_bytes(2, "big") + p for p in parts)
            if first and pieces:
                for i in range(0, len(data), pieces):
                    s.sendall(data[i:i + pieces])
            elif data:
                s.sendall(data)
            first = False
            if done:
                return link.version()
            part = s.recv(65536)
            if not part:
                raise ConnectionResetError("closed")
            into.write(part)
"""
SYNC = """
import ssl
def handshake():
    with socket.create_connection(("web.test", 443), 5) as s:
        ssl._create_unverified_context().wrap_socket(s, server_hostname="other.test")
attempt(handshake)
"""
HELLOS = {
    "same_name": ("tls('web.test')", True),
    "upper_case": ("tls('WEB.test')", True),
    "in_pieces": ("tls('web.test', pieces=7)", True),
    "in_single_bytes": ("tls('web.test', pieces=1)", True),
    "in_records": ("tls('web.test', records=50)", True),
    "other_name": ("tls('other.test')", False),
    "other_name_in_pieces": ("tls('other.test', pieces=7)", False),
    "other_name_in_records": ("tls('other.test', records=50)", False),
    "no_name": ("tls(None)", False),
    "name_below": ("tls('a.web.test')", False),
}


@pytest.mark.parametrize("hello", HELLOS)
def test_server_name_of_tls_is_the_name_that_was_asked_for(lab, boxes, hello):
    call, good = HELLOS[hello]
    lab.clear()
    ran = boxes.run(TLS + f"attempt(lambda: {call})")
    assert ("value" in ran.attempt) == good, ran
    if good:
        assert len(lab.show("greetings")) == 1
    else:
        assert lab.show("greetings") == [], "the far side saw a greeting"
        assert ran.attempt["seconds"] < 5
        (found,) = [e for e in ran.events if e["action"] == "tls"]
        assert found["host"] == "web.test" and found["port"] == 443 and found["hint"], found
        if "other" in hello:
            assert "other.test" in json.dumps(found)
            assert "sni_mismatch" in boxes.run(SYNC).attempt["error"]


def test_tls_to_an_allowed_address_needs_no_name(boxes):
    ran = boxes.run(
        TLS
        + "attempt(lambda: tls(None, '44.128.5.9'))\nattempt(lambda: tls('x.test', '44.128.5.9'))"
    )
    assert ["value" in one for one in ran.attempts] == [True, True], ran
