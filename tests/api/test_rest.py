# SPDX-License-Identifier: Apache-2.0
"""The REST API against a real server: execute, streams, sessions, files, artifacts, bad input, keys."""

import contextlib
import json
import os
import pathlib
import socket
import threading
import time

import pytest
from conftest import open_cli, wait_until
from rest_client import Rest, serve

KEYS = {"CONSTRICTOR_API_KEY": "ann:key-of-ann-1,bob:key-of-bob-1,metrics:key-of-metrics-1"}


@pytest.fixture(scope="module")
def api(program):
    with open_cli(program) as cli:
        yield serve(cli)


@pytest.fixture(scope="module")
def guarded(program):
    """A server with two keys, and one for numbers: (ann, bob, keyless)."""
    with open_cli(program) as cli:
        keyless = serve(cli, env=KEYS)
        yield Rest(keyless.port, "key-of-ann-1"), Rest(keyless.port, "key-of-bob-1"), keyless


def texts(messages, stream="stdout"):
    return "".join(m["text"] for m in messages if m.get("stream") == stream)


# ---- execute -------------------------------------------------------------------------------------


def test_an_execution_as_lines(api):
    messages = api.stream("import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7")
    assert texts(messages) == "out\n" and texts(messages, "stderr") == "err\n"
    assert texts(messages, "result") == "42"
    last = messages[-1]
    assert last["verdict"] == "ok" and last["success"] is True
    whole = last["execution"]
    assert whole["stdout"] == "out\n" and whole["result_json"] == 42
    assert whole["execution_id"] == last["execution_id"]
    assert not any("error" in m for m in messages)


def test_an_execution_as_one_object(api):
    r = api.run("print('out')\n[1, 2]")
    assert r["verdict"] == "ok" and r["stdout"] == "out\n" and r["result_json"] == [1, 2]
    assert r["usage"]["wall_ms"] > 0 and r["environment"]["version"] and "isolation" in r


def test_the_type_of_a_stream(api):
    answer = api.post("/execute", {"code": "1"})
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    answer = api.post("/execute", {"code": "1", "stream": False})
    assert answer.headers["Content-Type"] == "application/json"


def test_an_exception(api):
    messages = api.stream("x = 1\nundefined_var\n")
    (error,) = [m for m in messages if "error" in m]
    assert error["error"] == "NameError: name 'undefined_var' is not defined"
    assert error["traceback"][0] == "Traceback (most recent call last):"
    assert error["traceback"][-1].startswith("NameError") and error["line"] == 2
    assert messages[-1]["verdict"] == "error" and messages[-1]["success"] is False
    assert messages[-1]["execution"]["error"]["type"] == "NameError"


@pytest.mark.parametrize(
    "code, fields, verdict, words",
    [
        ("while True: pass", {"timeout": 0.3}, "timeout_wall", "300ms"),
        ("x = bytearray(10**9)", {"memory_mb": 64}, "out_of_memory", "64M"),
        ("import sys; sys.exit(3)", {}, "error", "exit status 3"),
        ("while True: pass", {"cpu_seconds": 0.2}, "timeout_cpu", "200ms"),
    ],
)
def test_failures_have_words(api, code, fields, verdict, words):
    messages = api.stream(code, **fields)
    (error,) = [m for m in messages if "error" in m]
    assert words in error["error"]
    # Where a limit of the process stands in for a cgroup, the code sees it as an exception; so it does when its time
    # is up.
    ends = ("MemoryError", "KeyboardInterrupt") if verdict == "timeout_wall" else ("MemoryError",)
    assert error["traceback"] == [] or error["traceback"][-1].startswith(ends)
    assert messages[-1]["verdict"] == verdict


def test_variables_files_and_arguments_come_along(api):
    r = api.run(
        "import sys\n(a, b, open('in/t.txt').read(), open('b.bin', 'rb').read().hex(), sys.argv[1:])",
        variables={"a": [1, None], "b": {"k": 2.5}},
        files=[
            {"path": "in/t.txt", "text": "grüße"},
            {"path": "/mnt/data/b.bin", "content": "AP8=", "encoding": "base64", "text": None},
        ],
        args=["x", "y z"],
    )
    assert r["result"] == "([1, None], {'k': 2.5}, 'grüße', '00ff', ['x', 'y z'])", r
    # Names beyond ASCII, also as a Mac writes them: the compiler sees both as one.
    r = api.run("(größe, é)", variables={"größe": 1, "e\u0301": 2, "a€": 3})
    assert r["result"] == "(1, 2)" and "'a€' is not a Python name" in r["stderr"], r


def test_what_was_shown(api):
    png = (
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    code = f"""
import base64
class P:
    def _repr_png_(self): return base64.b64decode({png!r})
class S:
    def _repr_svg_(self): return "<svg xmlns='http://www.w3.org/2000/svg'/>"
class H:
    def _repr_html_(self): return "<b>x</b>"
display(P()); display(S()); display(H())
open('left.txt', 'w').write('behind')
None
"""
    messages = api.stream(code)
    images = [m for m in messages if "image" in m]
    assert [m["format"] for m in images] == ["png", "svg"]
    assert images[0]["image"] == png and images[0]["width"] == 1
    assert [m["display"]["text/html"] for m in messages if "text/html" in m.get("display", {})] == [
        "<b>x</b>"
    ]
    (file,) = [m["file"] for m in messages if "file" in m]
    assert file["path"] == "left.txt" and file["size"] == 6 and file["mime_type"] == "text/plain"
    assert api.fetch(file["url"]).data == b"behind"


# ---- streams -------------------------------------------------------------------------------------


def test_a_line_comes_before_the_run_ends(api):
    """The code goes on only when its line has been seen."""
    code = ("import os, time\nfor i in range(4):\n    print(i, flush=True)\n"
            "    while not os.path.exists(f'seen{i}'): time.sleep(0.01)")
    with api.streaming(code, session="lines") as response:
        for i in range(4):
            assert json.loads(response.readline())["text"] == f"{i}\n"
            assert api.put("lines", f"seen{i}", b"").status == 200
        assert json.loads(response.read().splitlines()[-1])["verdict"] == "ok"


def test_the_order_of_both_streams_and_no_half_characters(api):
    code = """
import array, fcntl, os, termios, time
def say(fd, text):
    os.write(fd, text)
    unread = array.array('i', [1])
    while unread[0]:        # two pipes have no order but the one in which they are emptied
        fcntl.ioctl(fd, termios.FIONREAD, unread)
        time.sleep(0.001)
for i in range(30):
    say(1, b'o%d ' % i); say(2, b'e%d ' % i)
for byte in '\U0001f40d€'.encode():
    os.write(1, bytes([byte])); time.sleep(0.01)
os.write(1, b'\\xff\\xe2\\x82')
"""
    messages = api.stream(code)
    want_out = "".join(f"o{i} " for i in range(30)) + "\U0001f40d€\ufffd\ufffd\ufffd"
    assert texts(messages) == want_out == messages[-1]["execution"]["stdout"]
    marks = [m["text"].split()[-1] for m in messages if m.get("stream") in ("stdout", "stderr")]
    where = {mark: i for i, mark in enumerate(marks)}
    both = [i for i in range(29) if f"o{i}" in where and f"e{i}" in where]
    assert len(both) > 10  # they came one by one
    assert all(where[f"o{i}"] < where[f"e{i}"] for i in both)
    assert "\ufffd" not in "".join(m["text"] for m in messages if "🐍" in m.get("text", ""))[:2]


def test_a_slow_reader_gets_everything(api):
    """More than every buffer on the way holds; the run is not kept waiting for it."""
    code = "for i in range(45000): print('%06d' % i + 'x' * 14)"
    with socket.socket() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        link.connect(("127.0.0.1", api.port))
        body = json.dumps({"code": code}).encode()
        link.sendall(
            b"POST /api/v1/execute HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body) + body
        )
        time.sleep(1.5)
        data = b""
        while part := link.recv(65536):
            data += part
    messages = [json.loads(line) for line in data.partition(b"\r\n\r\n")[2].splitlines() if line]
    want = "".join("%06d" % i + "x" * 14 + "\n" for i in range(45000))
    assert texts(messages) == want and messages[-1]["execution"]["stdout"] == want
    assert messages[-1]["verdict"] == "ok"


def test_too_much_output(api):
    messages = api.stream("while True: print('x' * 1000)")
    last = messages[-1]
    assert last["verdict"] == "output_limit"
    assert texts(messages) == last["execution"]["stdout"]
    assert len(texts(messages)) == 1 << 20 == last["execution"]["truncated"]["stdout"]["kept"]


def sleepers(api, tools):
    found = []
    for pid in tools.descendants(api.process.pid):
        with contextlib.suppress(OSError):
            if b"sleep\x001234" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


SLEEP = "import subprocess; print('go', flush=True); subprocess.run(['sleep', '1234'])"


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_ends_a_fresh_box(api, tools, stream):
    if stream:
        with api.streaming(SLEEP, timeout=60) as response:
            assert json.loads(response.readline())["text"] == "go\n"
            assert tools.wait_until(lambda: sleepers(api, tools))
    else:
        link = socket.create_connection(("127.0.0.1", api.port))
        body = json.dumps({"code": SLEEP, "stream": False, "timeout": 60}).encode()
        link.sendall(
            b"POST /api/v1/execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body) + body
        )
        assert tools.wait_until(lambda: sleepers(api, tools))
        link.close()
    assert tools.wait_until(lambda: not sleepers(api, tools)), "the box lives on"
    assert tools.wait_until(lambda: api.get("/health").json["active_runs"] == 0)


def test_a_client_that_leaves_interrupts_a_session_which_lives_on(api, tools):
    api.run("kept = 'yes'", session="leaver")
    code = "import time\nprint('go', flush=True)\ntry:\n    time.sleep(100)\nexcept KeyboardInterrupt:\n    seen = 1"
    with api.streaming(code, session="leaver") as response:
        assert json.loads(response.readline())["text"] == "go\n"
    r = api.run("(kept, seen)", session="leaver")
    assert r["result"] == "('yes', 1)", r


# ---- sessions ------------------------------------------------------------------------------------


def test_a_name_is_opened_on_first_use(api):
    first = api.run("n = 1", session_id="any string: ünï/ code?")
    assert first["session_state"] == "new" and first["session_name"] == "any string: ünï/ code?"
    second = api.run("n + 1", session="any string: ünï/ code?")
    assert second["result"] == "2" and second["session"] == first["session"]
    assert api.run("n + 2", session=first["session"])["result"] == "3"
    seen = api.get("/sessions/any%20string%3A%20%C3%BCn%C3%AF%2F%20code%3F")
    assert seen.json["session"] == first["session"] and seen.json["execution_count"] == 3


def test_the_life_of_a_session(api):
    answer = api.post(
        "/sessions",
        {
            "name": "life",
            "timeout": 7,
            "memory_mb": 200,
            "idle_timeout": 60,
            "files": [{"path": "a.txt", "text": "A"}],
            "variables": {"v": 5},
        },
    )
    assert answer.status == 201, answer
    session = answer.json
    assert session["session"].startswith("ses_") and session["name"] == "life"
    assert session["limits"]["timeout"] == 7 and session["limits"]["idle_timeout"] == 60
    assert session["limits"]["memory_bytes"] == 200 << 20
    assert api.run("(v, open('a.txt').read())", session="life")["result"] == "(5, 'A')"
    listed = api.get("/sessions").json
    assert listed["sessions"]["life"]["is_busy"] is False and listed["total"] >= 1
    answer = api.post("/sessions", {"name": "life"})
    assert answer.status == 409 and answer.error["code"] == "session_exists", answer
    closed = api.ask("DELETE", "/sessions/life")
    assert closed.status == 200 and closed.json == {"session": session["session"], "closed": True}
    for path in ("/sessions/life", f"/sessions/{session['session']}"):
        gone = api.get(path)
        assert gone.status == 409 and gone.error["code"] == "session_ended"
        assert gone.error["reason"] == "closed" and "closed" in gone.error["message"]
        assert gone.error["ended_at"][:2] == "20" and gone.error["hint"]
    answer = api.post("/execute", {"code": "1", "session": session["session"]})
    assert answer.status == 409 and answer.error["reason"] == "closed"


def test_a_session_without_anything(api):
    session = api.post("/sessions").json["session"]
    assert api.run("1 + 1", session=session)["result"] == "2"
    assert api.get(f"/sessions/{session}").json["name"] is None
    assert session in api.get("/sessions").json["sessions"]
    assert api.ask("DELETE", f"/sessions/{session}").status == 200


def test_interrupt(api, tools):
    api.run("w = 1", session="stop me")
    with api.streaming("w = 2\nprint('on', flush=True)\nwhile True: pass", session="stop me") as response:
        assert json.loads(response.readline())["text"] == "on\n"
        assert api.get("/sessions/stop%20me").json["is_busy"]
        answer = api.post("/sessions/stop%20me/interrupt")
        assert answer.status == 200 and answer.json["interrupted"] is True
        rest = [json.loads(line) for line in response.read().splitlines()]
    assert any("KeyboardInterrupt" in m.get("error", "") for m in rest)
    assert api.run("w", session="stop me")["result"] == "2"
    assert api.post("/sessions/stop%20me/interrupt").json["interrupted"] is False


def test_a_run_that_does_not_stop_takes_the_session_with_it(api):
    api.run("z = 1", session="stubborn")
    code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    messages = api.stream(code, session="stubborn", timeout=0.5)
    last = messages[-1]
    assert last["verdict"] == "timeout_wall" and last["execution"]["session_state"] == "lost"
    assert "lost" in last["execution"]["hint"]
    gone = api.get("/sessions/" + last["session"])
    assert gone.status == 409 and gone.error["reason"] == "timeout"
    r = api.run("'z' in globals()", session="stubborn")
    assert r["result"] == "False" and r["session_state"] == "new" and "earlier" in r["hint"]


def test_memory_of_a_session_is_fixed(api):
    api.run("1", session="fixed", memory_mb=100)
    assert api.run("1", session="fixed", memory_mb=100)["result"] == "1"
    answer = api.post("/execute", {"code": "1", "session": "fixed", "memory_mb": 101})
    assert answer.status == 409 and "100 MiB" in answer.error["message"]


def test_a_queue_has_an_end(program):
    with open_cli(program) as cli:
        api = serve(cli, "--session-queue", 1)
        api.run("1", session="q")
        code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"
        with api.streaming("print('on', flush=True)\n" + code, session="q") as first:
            assert json.loads(first.readline())["text"] == "on\n"
            with contextlib.closing(api.connect()) as second:
                body = json.dumps({"code": code, "session": "q", "stream": False})
                second.request("POST", "/api/v1/execute", body, {"Content-Type": "application/json"})
                # What was sent before is read before.
                answer = api.post("/execute", {"code": "1", "session": "q"})
                assert answer.status == 409 and answer.error["code"] == "session_busy", answer
                assert api.put("q", "go", b"").status == 200
                assert json.loads(second.getresponse().read())["verdict"] == "ok"


def test_undo_checkpoint_and_fork(api):
    assert api.post("/sessions", {"name": "u", "checkpoint": True}).status == 201
    api.run("x = 1; open('f.txt', 'w').write('one')", session="u")
    assert api.post("/sessions/u/checkpoint", {"name": "good"}).status == 200
    api.run("x = 2; open('f.txt', 'w').write('two')", session="u")
    api.run("x = 3", session="u")
    answer = api.post("/sessions/u/undo")
    assert answer.status == 200, answer
    assert api.run("(x, open('f.txt').read())", session="u")["result"] == "(2, 'two')"
    answer = api.post("/sessions/u/undo", {"checkpoint": "good"})
    assert answer.status == 200, answer
    assert api.run("(x, open('f.txt').read())", session="u")["result"] == "(1, 'one')"
    fork = api.post("/sessions/u/fork", {"name": "v"})
    assert fork.status == 201 and fork.json["fork"].startswith("ses_"), fork
    api.run("x = 10", session="v")
    assert api.run("x", session="u")["result"] == "1" and api.run("x", session="v")["result"] == "10"
    for name in ("u", "v"):
        api.run(f"open('own.txt', 'w').write('{name}')", session=name)
    for _ in range(3):  # each has files of its own, whichever ran last
        assert api.read("u", "own.txt").data == b"u" and api.read("v", "own.txt").data == b"v"
        assert api.put("v", "more.txt", b"more").status == 200
        assert [f["path"] for f in api.get("/sessions/u/files").json["files"]] == ["f.txt", "own.txt"]
    answer = api.post("/sessions/u/undo", {"checkpoint": "no such"})
    assert answer.status == 409 and answer.error["code"] == "checkpoint_unavailable", answer
    assert api.post("/sessions/u/undo", {"checkpoint": "good", "steps": 1}).status == 400
    assert api.post("/sessions/no such/undo".replace(" ", "%20")).status == 404


def test_the_oldest_idle_session_makes_room(program):
    with open_cli(program) as cli:
        api = serve(cli, "--sessions", 2)
        ids = [api.run("1", session=f"s{i}")["session"] for i in range(3)]
        gone = api.get(f"/sessions/{ids[0]}")
        assert gone.status == 409 and gone.error["reason"] == "evicted"
        assert api.get("/health").json["active_sessions"] == 2
        ended = api.get("/sessions").json["ended"]
        assert [e["session"] for e in ended] == [ids[0]]


# ---- files ---------------------------------------------------------------------------------------


def test_a_file_there_and_back(api):
    data = os.urandom(10 << 20)
    put = api.put("files", "deep/er/big.bin", data)
    assert put.status == 200 and put.json["size"] == len(data) and put.json["path"] == "deep/er/big.bin"
    code = "import hashlib; hashlib.sha256(open('deep/er/big.bin','rb').read()).hexdigest()"
    import hashlib

    assert api.run(code, session="files")["result"] == repr(hashlib.sha256(data).hexdigest())
    assert api.read("files", "deep/er/big.bin").data == data
    assert api.get("/sessions/files/files/deep%2Fer%2Fbig.bin").data == data
    head = api.ask("HEAD", "/sessions/files/files/deep/er/big.bin")
    assert head.status == 200 and head.data == b"" and head.headers["Content-Length"] == str(len(data))


def test_a_download_outlives_its_session(api):
    """The server sends a copy of its own: nothing of the box is kept for a client that reads slowly."""
    size = 64 << 20
    assert api.run(f"open('big.bin', 'wb').truncate({size})", session="slow")["success"]
    with contextlib.closing(api.connect()) as connection:
        connection.request("GET", "/api/v1" + api.file("slow", "big.bin"))
        response = connection.getresponse()
        assert response.status == 200 and response.headers["Content-Length"] == str(size)
        assert api.ask("DELETE", "/sessions/slow").status == 200
        assert response.read() == bytes(size)


@pytest.mark.parametrize(
    "asked, begin, end",
    [("bytes=0-0", 0, 1), ("bytes=5-9", 5, 10), ("bytes=995-", 995, 1000), ("bytes=-3", 997, 1000),
     ("bytes=990-5000", 990, 1000)],
)  # fmt: skip
def test_ranges(api, asked, begin, end):
    data = bytes(i % 251 for i in range(1000))
    assert api.put("ranges", "r.bin", data).status == 200
    answer = api.read("ranges", "r.bin", Range=asked)
    assert answer.status == 206 and answer.data == data[begin:end]
    assert answer.headers["Content-Range"] == f"bytes {begin}-{end - 1}/1000"


def test_a_range_that_is_not_there(api):
    api.put("ranges", "r.bin", b"x" * 1000)
    answer = api.read("ranges", "r.bin", Range="bytes=1000-")
    assert answer.status == 416 and answer.headers["Content-Range"] == "bytes */1000"


def test_a_file_that_did_not_change_is_not_sent_again(api):
    api.put("ranges", "same.txt", b"same")
    first = api.read("ranges", "same.txt")
    again = api.read("ranges", "same.txt", If_None_Match=first.headers["ETag"])
    assert again.status == 304 and again.data == b""
    api.put("ranges", "same.txt", b"else")
    assert api.read("ranges", "same.txt", If_None_Match=first.headers["ETag"]).data == b"else"


def test_files_are_listed_and_removed(api):
    for path in ("b.txt", "a/x.csv", "ümläut €.md"):
        assert api.put("list", path, path.encode()).status == 200
    api.run("import os; os.symlink('/etc/passwd', 'link'); os.mkfifo('pipe')", session="list")
    listed = api.get("/sessions/list/files").json
    assert {f["path"]: f["size"] for f in listed["files"]} == {
        "a/x.csv": 7, "b.txt": 5, "ümläut €.md": 15,
    }  # fmt: skip
    assert listed["live"] is True and listed["folders"] == ["a"] and listed["not_shown"] == 2
    types = {f["path"]: f["mime_type"] for f in listed["files"]}
    assert types["a/x.csv"] == "text/csv"
    assert api.read("list", "ümläut €.md").data == "ümläut €.md".encode()
    assert api.ask("DELETE", api.file("list", "a")).json["deleted"] == 1
    assert [f["path"] for f in api.get("/sessions/list/files").json["files"]] == ["b.txt", "ümläut €.md"]
    assert api.ask("DELETE", api.file("list", "a")).status == 404


@pytest.mark.parametrize("name", ["link", "pipe", "folder", "device/null", "sock"])
def test_what_is_no_file_is_not_read(api, name):
    api.run(
        "import os, socket\nfor f in (lambda: os.symlink('/etc/passwd', 'link'), lambda: os.mkfifo('pipe'),"
        " lambda: os.mkdir('folder'), lambda: os.symlink('/dev', 'device')):\n"
        "    try: f()\n    except FileExistsError: pass\n"
        "s = socket.socket(socket.AF_UNIX)\ntry: s.bind('sock')\nexcept OSError: pass",
        session="odd",
    )
    answer = api.read("odd", name)
    assert answer.status in (404, 409) and b"root:" not in answer.data, answer
    assert answer.error["message"]


def test_a_sparse_file_without_end_is_bounded(api):
    """Whatever its size claims to be, no read goes beyond it, and nothing hangs."""
    r = api.run("f = open('huge', 'wb'); f.truncate(1 << 27); f.close()", session="sparse")
    answer = api.read("sparse", "huge", Range="bytes=134217720-134217727")
    assert (r["verdict"], answer.status) == ("ok", 206) and answer.data == b"\0" * 8


def test_uploads_at_the_same_time_share_a_new_session(api):
    answers = []
    threads = [
        threading.Thread(target=lambda i=i: answers.append(api.put("together", f"{i}", b"%d" % i)))
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [a.status for a in answers] == [200] * 8, answers
    assert len(api.get("/sessions/together/files").json["files"]) == 8


def test_an_upload_while_code_runs(api):
    api.run("1", session="meanwhile")
    thread = threading.Thread(
        target=api.run,
        args=["import time, os\nwhile not os.path.exists('go'): time.sleep(0.01)"],
        kwargs={"session": "meanwhile"},
    )
    thread.start()
    assert wait_until(lambda: api.get("/sessions/meanwhile").json["is_busy"])
    assert api.put("meanwhile", "go", b"").status == 200
    thread.join(60)
    assert not thread.is_alive()


def test_an_upload_above_the_limit(program):
    with open_cli(program) as cli:
        api = serve(cli, "--body", "1M", "--file-size", "2M")
        assert api.put("s", "fits", b"x" * (2 << 20)).status == 200
        answer = api.put("s", "not", b"x" * ((2 << 20) + 1))
        assert answer.status == 413 and answer.error["code"] == "file_too_large"
        assert "2097152" in answer.error["message"]


def test_an_upload_that_does_not_fit_into_scratch(program):
    with open_cli(program) as cli:
        api = serve(cli, "--scratch", "1M")
        answer = api.put("s", "big", b"x" * (4 << 20))
        assert answer.status in (409, 413, 507), answer
        assert api.get("/sessions/s/files").json["files"] == []
        assert api.put("s", "small", b"x").status == 200


# ---- artifacts -----------------------------------------------------------------------------------


def test_artifacts_outlive_their_session(api):
    r = api.run("open('r/é.html', 'w').write('<script>1</script>') if not __import__('os').mkdir('r') else 0",
                session="artist")  # fmt: skip
    (file,) = r["files"]
    assert file["path"] == "r/é.html" and file["mime_type"] == "text/html"
    session = r["session"]
    api.ask("DELETE", "/sessions/artist")
    listed = api.get(f"/sessions/{session}/files").json
    assert listed["live"] is False and [f["path"] for f in listed["files"]] == ["r/é.html"]
    for answer in (api.read(session, "r/é.html"), api.fetch(file["url"])):
        assert answer.data == b"<script>1</script>" and "attachment" in answer.headers["Content-Disposition"]
        assert "sandbox" in answer.headers["Content-Security-Policy"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert api.read(session, "other").status == 409
    mine = [a for a in api.get("/artifacts").json["artifacts"] if a["session"] == session]
    assert len(mine) == 1 and mine[0]["execution_id"] == r["execution_id"]
    assert mine[0]["expires_at"] > mine[0]["created_at"]
    assert api.ask("DELETE", "/artifacts").status == 400
    assert api.ask("DELETE", f"/artifacts?session={session}&path=nothing").status == 404
    assert api.ask("DELETE", f"/artifacts?session={session}").json == {"deleted": 1}
    assert api.read(session, "r/é.html").status == 409
    assert api.fetch(file["url"]).status in (404, 410)


def test_artifacts_of_a_fresh_box_by_its_execution_id(api):
    r = api.run("open('out.csv', 'w').write('a,b')")
    assert api.read(r["execution_id"], "out.csv").data == b"a,b"
    (artifact,) = api.get(f"/artifacts?session={r['execution_id']}").json["artifacts"]
    assert artifact["url"] == r["files"][0]["url"]


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body, status, words",
    [
        (b"", 400, "not JSON"),
        (b"{", 400, "line 1"),
        (b"[]", 400, "not a JSON object"),
        (b'{"code": "1", "code": "2"}', 400, "duplicate"),
        (b'{"code": "\xff"}', 400, "not JSON"),
        (b"{}", 400, "'code' is missing"),
        (b'{"code": 1}', 400, "a string"),
        (b'{"code": "1\\u0000"}', 400, "NUL"),
        (b'{"code": "1", "cod": 1}', 400, "'cod'"),
        (b'{"code": "1", "timeout": 1e9}', 400, "at most 300"),
        (b'{"code": "1", "timeout": -5}', 400, "at least"),
        (b'{"code": "1", "timeout": NaN}', 400, "not JSON"),
        (b'{"code": "1", "memory_mb": 1}', 400, "at least 16"),
        (b'{"code": "1", "session": "a\\u0000b"}', 400, "NUL"),
        (b'{"code": "1", "session": "a\\nb"}', 400, "session"),
        (b'{"code": "1", "session": "' + b"x" * 200 + b'"}', 400, "128"),
        (b'{"code": "1", "session": "ses_000000000000000000000000000"}', 400, None),
        (b'{"code": "1", "session": "a", "session_id": "b"}', 400, "same"),
        (b'{"code": "1", "files": [{"path": "../x", "text": ""}]}', 400, "files[0]"),
        (b'{"code": "1", "files": [{"path": "/etc/passwd", "text": ""}]}', 400, "files[0]"),
        (b'{"code": "1", "files": [{"path": "a"}]}', 400, "files[0]"),
        (b'{"code": "1", "files": [{"path": "a", "base64": "!"}]}', 400, "base64"),
        (b'{"code": "1", "files": [{"path": "a", "text": "", "base64": ""}]}', 400, "same"),
        (b'{"code": "1", "variables": {"a b": 1}}', 400, "'a b'"),
        (b'{"code": "1", "variables": {"__name__": 1}}', 400, "__name__"),
        (b'{"code": "' + b"x" * (9 << 20) + b'"}', 413, "8388608"),
        (b"[" * 100000, 400, "nested deeper"),
    ],
)
def test_bodies(api, body, status, words):
    answer = api.ask("POST", "/execute", body, {"Content-Type": "application/json"})
    if words is None:  # an id that is none is a name, or unknown: never an error of the server
        assert answer.status in (200, 400, 404), answer
        return
    assert answer.status == status and words in answer.error["message"], answer
    assert set(answer.error) <= {"code", "message", "hint"} and answer.error["code"]
    assert len(answer.data) < 4096


@pytest.mark.parametrize("type", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""])
def test_other_types_of_bodies(api, type):
    """A web page may send these without asking: they must not run anything."""
    answer = api.ask("POST", "/execute", b'{"code": "1"}', {"Content-Type": type})
    assert answer.status == 415 and answer.error["code"] == "unsupported_media_type"
    ok = api.ask("POST", "/execute", b'{"code": "1"}', {"Content-Type": "Application/JSON; charset=utf-8"})
    assert ok.status == 200


@pytest.mark.parametrize(
    "method, path, status, code",
    [
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/execute", 405, "method_not_allowed"),
        ("POST", "/health", 405, "method_not_allowed"),
        ("PUT", "/sessions/s/files", 405, "method_not_allowed"),
        ("GET", "/sessions/unknown", 404, "session_not_found"),
        ("DELETE", "/sessions/unknown", 404, "session_not_found"),
        ("POST", "/sessions/unknown/interrupt", 404, "session_not_found"),
        ("GET", "/sessions/unknown/files", 404, "session_not_found"),
        ("GET", "/sessions/unknown/files/a", 404, "session_not_found"),
        ("DELETE", "/sessions/unknown/files/a", 404, "session_not_found"),
        ("GET", "/sessions/ses_0123456789abcdefghijklm", 404, "session_not_found"),
        ("PUT", "/sessions/ses_0123456789abcdefghijklm/files/a", 404, "session_not_found"),
        ("PUT", "/sessions/s/files/../../etc/passwd", 400, "bad_file_path"),
        ("PUT", "/sessions/s/files/%2e%2e/x", 400, "bad_file_path"),
        ("PUT", "/sessions/s/files/a/%2E%2E%2F%2E%2E%2Fx", 400, "bad_file_path"),
        ("PUT", "/sessions/s/files/%2Fetc%2Fpasswd", 400, "bad_file_path"),
        ("PUT", "/sessions/s/files/a%FFb", 400, "bad_file_path"),
        ("PUT", "/sessions/s/files/" + "a/" * 40 + "b", 400, "bad_file_path"),
        ("PUT", "/sessions/s/files/" + "a" * 300, 400, "bad_file_path"),
        ("GET", "/artifacts?session=", 400, "bad_value"),
    ],
)
def test_paths(api, method, path, status, code):
    answer = api.ask(method, path, b"x" if method == "PUT" else None)
    assert answer.status == status and answer.error["code"] == code, answer
    if status == 405:
        assert answer.headers["Allow"]


@pytest.mark.parametrize("path", ["/sessions/a%00b", "/sessions/s/files/a%0Ab", "/sessions/%", "/sessions/%zz"])
def test_paths_that_are_not_well_encoded(api, path):
    answer = api.ask("GET", path)
    assert answer.status == 404 and "not well encoded" in answer.json["detail"], answer


def test_a_file_is_not_a_folder(api):
    assert api.put("kinds", "file", b"x").status == 200
    assert api.put("kinds", "file/below", b"x").status in (400, 409)
    api.run("import os; os.mkdir('folder')", session="kinds")
    answer = api.put("kinds", "folder", b"x")
    assert answer.status == 409, answer
    assert api.read("kinds", "missing").status == 404
    assert api.read("kinds", "missing").error["code"] == "file_not_found"


def test_too_many_runs(program):
    with open_cli(program) as cli:
        api = serve(cli, "--runs", 1)
        with api.streaming("import time; print(1, flush=True); time.sleep(20)") as response:
            response.readline()
            answer = api.post("/execute", {"code": "1"})
            assert answer.status == 503 and answer.error["code"] == "busy"
            assert answer.headers["Retry-After"]


# ---- keys ----------------------------------------------------------------------------------------


def test_without_a_key(guarded):
    _, _, keyless = guarded
    assert keyless.get("/health").status == 200
    for method, path in [("POST", "/execute"), ("GET", "/sessions"), ("PUT", "/sessions/s/files/a"),
                         ("GET", "/openapi.json"), ("GET", "/artifacts"), ("GET", "/nothing")]:  # fmt: skip
        answer = keyless.ask(method, path, b"{}" if method != "GET" else None)
        assert answer.status == 401 and answer.headers["WWW-Authenticate"], path


def test_the_numbers_of_all_keys_are_for_the_key_metrics(guarded):
    """Where one key serves all clients they are its own: test_K_24 and test_K_10."""
    ann, bob, keyless = guarded

    def ask(who):
        with contextlib.closing(who.connect()) as connection:
            connection.request("GET", "/metrics", headers=who.headers())
            answer = connection.getresponse()
            return answer.status, answer.read()

    for who in ann, bob:
        status, text = ask(who)
        assert status == 403 and b"constrictor_" not in text
        assert json.loads(text)["error"]["code"] == "metrics_not_allowed" and b"'metrics'" in text
    assert ask(keyless)[0] == 401
    status, text = ask(Rest(keyless.port, "key-of-metrics-1"))
    assert status == 200 and b"constrictor_runs_total" in text


def test_a_session_of_another_key_is_unknown(guarded):
    ann, bob, _ = guarded
    session = ann.run("secret = 1; open('s.txt', 'w').write('s')", session="mine")["session"]
    unknown = session[:-4] + ("AAAA" if session[-4:] != "AAAA" else "BBBB")
    asked = [
        ("GET", "/sessions/{}", None),
        ("DELETE", "/sessions/{}", None),
        ("POST", "/sessions/{}/interrupt", None),
        ("POST", "/sessions/{}/undo", {}),
        ("POST", "/sessions/{}/fork", {}),
        ("GET", "/sessions/{}/files", None),
        ("GET", "/sessions/{}/files/s.txt", None),
        ("DELETE", "/sessions/{}/files/s.txt", None),
        ("PUT", "/sessions/{}/files/s.txt", b"x"),
    ]
    for method, path, body in asked:
        theirs = bob.ask(method, path.format(session), body)
        never = bob.ask(method, path.format(unknown), body)
        assert theirs.status == never.status == 404, (method, path)
        assert theirs.data.replace(session.encode(), b"") == never.data.replace(unknown.encode(), b"")
    theirs = bob.post("/execute", {"code": "secret", "session": session})
    assert theirs.status == 404 and theirs.error["code"] == "session_not_found"
    assert bob.run("'secret' in globals()", session="mine")["result"] == "False"
    assert session not in bob.get("/sessions").data.decode()
    assert all(a["session"] != session for a in bob.get("/artifacts").json["artifacts"])
    assert bob.ask("DELETE", f"/artifacts?session={session}").status == 404
    assert ann.run("secret", session=session)["result"] == "1"
    ann.ask("DELETE", f"/sessions/{session}")
    assert ann.get(f"/sessions/{session}").status == 409
    assert bob.get(f"/sessions/{session}").status == 404  # also when it has ended


# ---- health and the document ---------------------------------------------------------------------


def test_health(api):
    body = api.get("/health").json
    assert body["status"] == "ok" and body["api_endpoint"].endswith(f":{api.port}/api/v1")
    assert body["docs"] == body["api_endpoint"] + "/openapi.json" and body["uptime"] >= 0


def example(name, schema):
    if name in ("packages", "constraints"):
        return "--no-package"  # nothing is asked of any index
    if name == "environment":
        return "base"
    if name == "stdin_base64":
        return "YQ=="
    if "anyOf" in schema:
        return schema["anyOf"][0]["enum"][0]
    kind = schema["type"] if isinstance(schema["type"], str) else schema["type"][0]
    if "enum" in schema:
        return schema["enum"][0]
    if name == "code":
        return "None"
    if name == "items":
        return [{"code": "None"}]
    return {
        "string": "a",
        "boolean": False,
        "integer": schema.get("default", schema.get("minimum", 1)),
        "number": schema.get("default", schema.get("minimum", 1)),
        "object": {},
        "array": [],
    }[kind]


def test_every_route_of_the_document_answers_and_every_field_is_taken(api):
    document = api.get("/openapi.json?exact=true").json
    assert document["openapi"].startswith("3.1")
    operations = 0
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            operations += 1
            where = path.removeprefix("/api/v1").replace("{id}", "document").replace("{path}", "f.txt")
            where = where.replace("{name}", "made")
            if "{job}" in where or "{execution}" in where or where.endswith(("/export", "/import")):
                continue  # tests/api/test_env_tools.py, test_envs.py, test_rest_executions.py
            if where.startswith("/runs/"):
                continue  # of a run under way: tests/api/test_page_overview.py
            if where == "/environments/made/packages" and method == "delete":
                where += "?all=true"
            if "/environments" in where:
                api.post("/environments", {"name": "made"})
            schema = (
                operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            )
            raw = "application/octet-stream" in operation.get("requestBody", {}).get("content", {})
            if operation["operationId"] not in ("open_session", "list_sessions"):
                api.run("1", session="document")
            if method in ("get", "delete") and where.endswith("f.txt"):
                api.put("document", "f.txt", b"1")
            if "artifacts" in where and method == "delete":
                session = api.run("open('a', 'w').close()", session="document")["session"]
                where += f"?session={session}"
            if not schema:
                answer = api.ask(method.upper(), where, b"1" if raw else None)
                assert str(answer.status) in operation["responses"], (path, method, answer)
                assert answer.status < 400, (path, method, answer)
                continue
            required = {n: example(n, schema["properties"][n]) for n in schema.get("required", [])}
            for name, field in schema["properties"].items():
                body = {**required, name: example(name, field)}
                api.ask("DELETE", "/sessions/a")  # the example of a name
                answer = api.ask(method.upper(), where, body)
                known = answer.status < 400 or "unknown field" not in answer.error["message"]
                assert known and str(answer.status) in operation["responses"], (path, name, answer)
                if operation["operationId"] in ("execute", "open_session") and name != "packages":
                    assert answer.status < 400, (path, name, answer)
            answer = api.ask(method.upper(), where, {**required, "no_such_field": 1})
            assert answer.status == 400 and "no_such_field" in answer.error["message"]
    assert operations >= 17


def test_answers_have_what_the_document_says(api):
    import jsonschema

    document = api.get("/openapi.json").json

    def check(name, value):
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        jsonschema.Draft202012Validator(schema).validate(value)

    check("Execution", api.run("open('doc.txt', 'w').write('x'); 1", session="doc"))
    check("Execution", api.run("1/0"))
    for message in api.stream("print(1); 1/0"):
        check("Message", message)
    check("Session", api.get("/sessions/doc").json)
    check("Sessions", api.get("/sessions").json)
    check("Files", api.get("/sessions/doc/files").json)
    check("FileInfo", api.put("doc", "x", b"").json)
    check("Artifacts", api.get("/artifacts").json)
    check("Health", api.get("/health").json)
    check("Problem", api.get("/sessions/unknown").json)
