# SPDX-License-Identifier: Apache-2.0
"""A file of any size up to that of scratch goes into a session by PUT. Clients that stop, leave or lie harm nothing."""

import contextlib
import http.client
import os
import socket
import threading
import time

import pytest
import rest_client

MIB = 1 << 20
HASH = "import hashlib, os\n(os.path.getsize('{0}'), hashlib.file_digest(open('{0}', 'rb'), 'sha256').hexdigest())"


@pytest.fixture(scope="module")
def api(shared_cli):
    return rest_client.serve(shared_cli)


def paths(api, session):
    return [f["path"] for f in api.get(f"/sessions/{session}/files").json["files"]]


def begin(api, path, length=None, *more):
    """A connection that has sent the head of a PUT."""
    raw = socket.create_connection(("127.0.0.1", api.port), timeout=60)
    frame = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    lines = [f"PUT /api/v1{path} HTTP/1.1", f"Host: 127.0.0.1:{api.port}", frame, *more]
    raw.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    return raw


def answer_of(raw):
    response = http.client.HTTPResponse(raw)
    response.begin()
    return rest_client.Answer(response, response.read())


def gate_memory(api, tools):
    gate = next(pid for pid in tools.descendants(api.process.pid) if tools.is_gate(pid))
    with open(f"/proc/{gate}/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return int(fields["RssAnon"].split()[0]) << 10


@pytest.mark.parametrize("chunked", [False, True])
def test_200_mib_arrive_as_sent(api, tools, chunked):
    import hashlib

    data = os.urandom(MIB) * 200
    before = gate_memory(api, tools)
    high = [before]
    stop = threading.Event()

    def watch():
        while not stop.wait(0.02):
            high.append(gate_memory(api, tools))

    watcher = threading.Thread(target=watch)
    watcher.start()
    body = (data[i : i + MIB] for i in range(0, len(data), MIB)) if chunked else data
    with contextlib.closing(api.connect()) as connection:
        connection.request("PUT", "/api/v1" + api.file("big", "in/big.bin"), body, api.headers(), encode_chunked=chunked)
        response = connection.getresponse()
        answer = rest_client.Answer(response, response.read())
    stop.set()
    watcher.join()
    assert answer.status == 200 and answer.json["size"] == len(data), answer
    seen = api.run(HASH.format("in/big.bin"), session_id="big", timeout=120)
    assert seen["result"] == repr((len(data), hashlib.sha256(data).hexdigest()))
    assert max(high) - before < 24 * MIB
    assert api.ask("DELETE", api.file("big", "in/big.bin")).status == 200


def test_an_upload_of_nothing_is_an_empty_file(api):
    assert api.put("small", "none", b"").json["size"] == 0
    with begin(api, api.file("small", "none2")) as raw:
        raw.sendall(b"0\r\n\r\n")
        assert answer_of(raw).json["size"] == 0
    assert api.run("open('none').read() + open('none2').read()", session_id="small")["result"] == "''"


def test_a_file_above_the_limit_is_refused_before_it_is_sent(api):
    with begin(api, api.file("limits", "huge"), 300 * MIB, "Expect: 100-continue") as raw:
        answer = answer_of(raw)
    assert answer.status == 413 and answer.error["code"] == "file_too_large"
    assert "268435456" in answer.error["message"] and "--file-size" in answer.error["hint"]
    assert paths(api, "limits") == []


def test_a_file_above_what_is_left_names_the_sizes_and_leaves_nothing(api):
    assert api.put("full", "half", bytes(150 * MIB)).status == 200
    answer = api.put("full", "more", bytes(140 * MIB))
    assert answer.status == 507 and answer.error["code"] == "disk_full", answer
    assert "140M" in answer.error["message"] and "105M of the 256M" in answer.error["message"], answer.error
    assert "delete" in answer.error["hint"] and "--scratch" in answer.error["hint"]
    assert paths(api, "full") == ["half"]
    room = "import os, shutil\n(sorted(os.listdir('.')), shutil.disk_usage('.').free > 100 << 20)"
    assert api.run(room, session_id="full")["result"] == "(['half'], True)"
    api.ask("DELETE", "/sessions/full")


def test_a_file_above_the_memory_of_the_session_does_not_end_it(api):
    assert api.post("/sessions", {"name": "little", "memory_mb": 64}).status == 201
    assert api.run("v = 7", session_id="little")["result"] is None
    answer = api.put("little", "x", bytes(80 * MIB))
    assert answer.status == 413 and answer.error["code"] == "file_too_large" and "memory" in answer.error["hint"]
    assert api.run("v", session_id="little")["result"] == "7"


def test_a_chunked_file_above_the_limit_leaves_nothing(api):
    with begin(api, api.file("limits", "huge")) as raw:
        with contextlib.suppress(OSError):
            for _ in range(400):
                raw.sendall(b"100000\r\n" + bytes(MIB) + b"\r\n")
        answer = answer_of(raw)
    assert answer.status == 413 and answer.error["code"] == "file_too_large"
    assert paths(api, "limits") == []
    assert api.run("import os; os.listdir('.')", session_id="limits")["result"] == "[]"


@pytest.mark.parametrize("length", [None, 50 * MIB])
def test_a_client_that_leaves_leaves_no_file(api, length):
    raw = begin(api, api.file("left", "part"), length)
    raw.sendall(b"200000\r\n" + bytes(2 * MIB) if length is None else bytes(2 * MIB))
    look = "import os; os.listdir('.')"
    deadline = time.monotonic() + 30
    while api.run(look, session_id="left")["result"] == "[]" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert paths(api, "left") == []  # not under its name, and its other name is not shown
    raw.close()
    while api.run(look, session_id="left")["result"] != "[]" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert api.run(look, session_id="left")["result"] == "[]"


def test_two_uploads_of_one_name_leave_one_of_them_whole(api):
    bodies = [bytes([n]) * (30 * MIB) for n in (1, 2)]
    answers = [None, None]

    def put(n):
        answers[n] = api.put("two", "same", bodies[n])

    threads = [threading.Thread(target=put, args=(n,)) for n in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [a.status for a in answers] == [200, 200]
    seen = api.run("b = open('same', 'rb').read(); (len(b), len(set(b)))", session_id="two")
    assert seen["result"] == repr((30 * MIB, 1))
    assert api.run("import os; os.listdir('.')", session_id="two")["result"] == "['same']"


def test_a_slow_client_delays_no_other(api):
    with begin(api, api.file("slow", "slow"), 100) as raw:
        begun = time.monotonic()
        for n in range(20):
            raw.sendall(b"x")
            assert api.put("slow", f"fast{n}", b"y" * MIB).status == 200
            assert api.run(f"open('fast{n}').read(1)", session_id="slow")["result"] == "'y'"
        assert time.monotonic() - begun < 30
        raw.sendall(b"x" * 80)
        assert answer_of(raw).json["size"] == 100


def test_a_client_that_stops_in_the_middle_gets_an_error_after_the_request_timeout(shared_cli):
    server = rest_client.serve(shared_cli, "--request-timeout", "1")
    with begin(server, server.file("stops", "x"), 1000) as raw:
        raw.sendall(b"abc")
        answer = answer_of(raw)
    assert answer.status == 408 and answer.error["code"] == "request_timeout"
    assert paths(server, "stops") == []


def test_a_box_that_dies_in_the_middle_is_an_error_at_once(api):
    with begin(api, api.file("dies", "x"), 20 * MIB) as raw:
        raw.sendall(bytes(MIB))
        assert api.run("import os; os._exit(3)", session_id="dies")["session_state"] == "lost"
        with contextlib.suppress(OSError):
            raw.sendall(bytes(19 * MIB))
        answer = answer_of(raw)
    assert answer.status == 409 and answer.error["code"] == "session_ended", answer


def test_malformed_chunks_are_an_error_and_leave_nothing(api):
    for bad in (b"zz\r\n", b"5;ext=1\r\nhello", b"5\r\nhelloX", b"ffffffffff\r\n", b"-1\r\n"):
        with begin(api, api.file("chunks", "x")) as raw:
            raw.sendall(b"3\r\nabc\r\n" + bad)
            assert answer_of(raw).status in (400, 413), bad
    assert paths(api, "chunks") == []


def test_the_connection_goes_on_after_an_upload(api):
    with contextlib.closing(api.connect()) as connection:
        for n in range(5):
            connection.request("PUT", "/api/v1" + api.file("goes", "on"), bytes(n * 3 * MIB))
            assert connection.getresponse().read()
            connection.request("GET", "/api/v1/sessions/goes/files")
            assert b'"on"' in connection.getresponse().read()
    # Requests that are sent ahead of the answer.
    with begin(api, api.file("goes", "ahead"), 5) as raw:
        raw.sendall(f"hello" f"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1:{api.port}\r\n\r\n".encode())
        text = b""
        while b"mcp_endpoint" not in text:
            text += raw.recv(65536) or pytest.fail(f"the connection ended: {text}")
        assert b'"size":5' in text and text.count(b"HTTP/1.1 200 OK") == 2


def test_requests_behind_a_refused_upload_are_not_carried_out(api):
    """The body of a refused request is no request."""
    head = f"GET /api/v1/sessions HTTP/1.1\r\nHost: 127.0.0.1:{api.port}\r\n\r\n".encode()
    with begin(api, "/sessions/ses_0123456789abcdefghijklm/files/a", 1000) as raw:
        raw.sendall(head * 3)
        assert answer_of(raw).status == 404
        assert raw.recv(1000) == b""


@pytest.mark.parametrize("name", ["%2e%2e/x", "..%2Fx", "a%00b", "%2Fetc%2Fpasswd", "a%0Ab", "%ff", "a/" * 40 + "b", "a" * 300])
def test_hostile_names_are_refused(api, name):
    with begin(api, f"/sessions/names/files/{name}", 3) as raw:
        raw.sendall(b"abc")
        assert answer_of(raw).status in (400, 404)  # 404: no path at all


def test_what_code_made_in_the_place_of_a_file_is_not_written_through(api):
    made = (
        "import os, socket\nos.mkdir('folder'); os.mkfifo('fifo'); os.symlink('/tmp/x', 'link')\n"
        "open('whole', 'w').write('old'); os.link('whole', 'hard')\n"
        "os.symlink('/tmp', 'way')\n"
        "s = socket.socket(socket.AF_UNIX); s.bind('sock')"
    )
    assert api.run(made, session_id="kinds")["verdict"] == "ok"
    for name in ("fifo", "link", "sock", "hard"):  # each is replaced, not opened
        assert api.put("kinds", name, b"new").status == 200, name
    assert api.put("kinds", "folder", b"new").status == 409
    assert api.put("kinds", "way/x", b"new").status in (400, 409)
    seen = api.run("(open('whole').read(), open('link').read(), os.path.islink('link'))", session_id="kinds")
    assert seen["result"] == "('old', 'new', False)"


def test_many_uploads_at_once_need_little_memory(api, tools):
    before = gate_memory(api, tools)
    raws = [begin(api, api.file(f"many{n % 4}", f"f{n}"), 3 * MIB) for n in range(40)]
    for raw in raws:
        raw.sendall(bytes(MIB))
    assert api.run("1 + 1")["result"] == "2"
    for raw in raws:
        raw.sendall(bytes(2 * MIB))
    for raw in raws:
        assert answer_of(raw).json["size"] == 3 * MIB
        raw.close()
    assert gate_memory(api, tools) - before < 60 * MIB
