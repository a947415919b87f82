# SPDX-License-Identifier: Apache-2.0
"""Files of a session outlive its interpreter, and a session that ended is opened again with them."""

import contextlib
import os
import signal
import threading
import time

import mcp_client
import pytest
import rest_client

MIB = 1 << 20
WRITE = "open('made.txt', 'w').write('made')\nimport os; os.makedirs('d', exist_ok=True); open('d/x', 'wb').write(bytes(range(256)))\nv = 1"
READ = "(open('made.txt').read(), len(open('d/x', 'rb').read()), 'v' in globals())"
BACK = "('made', 256, False)"


@pytest.fixture(scope="module")
def api(shared_cli):
    return rest_client.serve(shared_cli)


def crash(api, session, code="import os; os._exit(1)", **fields):
    seen = api.run(code, session_id=session, **fields)
    assert seen["session_state"] == "lost", seen
    return seen["session"]


ENDS = {
    "crash": lambda api, s: crash(api, s),
    "killed": lambda api, s: crash(api, s, "import os; os.kill(os.getpid(), 9)"),
    "segfault": lambda api, s: crash(api, s, "import ctypes; ctypes.string_at(0)"),
    "timeout": lambda api, s: crash(
        api, s, "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True:\n  try: time.sleep(9)\n  except BaseException: pass",
        timeout=1),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_name_is_opened_again_with_its_files(api, end):
    assert api.run(WRITE, session_id=end)["verdict"] == "ok"
    assert api.put(end, "up.bin", b"u" * (3 * MIB)).json["url"]  # it is kept from now on
    assert api.run("1", session_id=end, files=[{"path": "given.txt", "text": "g"}])["verdict"] == "ok"
    ENDS[end](api, end)
    seen = api.run(READ, session_id=end)
    assert seen["result"] == BACK and seen["session_state"] == "new"
    assert "4 of its files are back" in seen["hint"] and "variables" in seen["hint"], seen["hint"]
    more = api.run("(len(open('up.bin', 'rb').read()), open('given.txt').read())", session_id=end)
    assert more["result"] == f"({3 * MIB}, 'g')" and more["files"] == []
    assert "hint" not in more or not more["hint"]


def test_a_handle_is_opened_again_and_says_how(api):
    handle = api.post("/sessions", {}).json["session"]
    api.run(WRITE, session=handle)
    crash(api, handle)
    failed = api.post("/execute", {"code": "v", "session": handle, "stream": False})
    assert failed.status == 409 and failed.error["code"] == "session_ended"
    assert "POST /api/v1/sessions" in failed.error["hint"]
    listed = api.get(f"/sessions/{handle}/files").json
    assert [f["path"] for f in listed["files"]] == ["d/x", "made.txt"] and not listed["live"]
    assert api.read(handle, "made.txt").data == b"made"
    again = api.post("/sessions", {"name": handle})
    assert again.status == 201 and again.json["session"] == handle and again.json["restored_files"] == 2, again
    assert api.run(READ, session=handle)["result"] == BACK
    assert api.post("/sessions", {"name": handle}).status == 409  # it is open
    api.ask("DELETE", f"/sessions/{handle}")
    assert api.post("/sessions", {"name": handle}).json["restored_files"] == 2  # also after it was closed


def test_a_closed_name_begins_anew(api):
    api.run(WRITE, session_id="closed")
    api.ask("DELETE", "/sessions/closed")
    assert api.run("import os; os.listdir('.')", session_id="closed")["result"] == "[]"


def test_what_was_removed_does_not_come_back(api):
    api.run("for n in 'abcd': open(n, 'w').write(n)\nimport os; os.mkdir('f'); open('f/1', 'w').write('1'); open('f/2', 'w').write('2')", session_id="gone")
    api.put("gone", "up", b"u")
    api.run("import os, shutil; os.remove('a'); shutil.rmtree('f'); os.rename('b', 'B'); open('c', 'w').write('CC')", session_id="gone")
    assert api.ask("DELETE", api.file("gone", "up")).status == 200
    crash(api, "gone")
    assert api.run("import os; sorted(os.listdir('.')), open('c').read()", session_id="gone")["result"] == "(['B', 'c', 'd'], 'CC')"
    assert api.ask("DELETE", api.file("gone", "d")).status == 200
    crash(api, "gone")
    assert api.run("import os; sorted(os.listdir('.'))", session_id="gone")["result"] == "['B', 'c']"


def test_two_at_once_open_one_box(api):
    handle = api.post("/sessions", {}).json["session"]
    api.run("open('big', 'wb').write(bytes(20 << 20))", session=handle)
    crash(api, handle)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(api.post("/sessions", {"name": handle}))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(a.status for a in answers) == [201, 409, 409, 409], answers
    assert api.run("import os; os.path.getsize('big')", session=handle)["result"] == str(20 * MIB)


def test_runs_that_come_while_files_return_wait(api):
    api.run("open('big', 'wb').write(bytes(100 << 20))", session_id="wait")
    crash(api, "wait")
    results = []
    code = "import os; os.path.getsize('big')"
    threads = [threading.Thread(target=lambda: results.append(api.run(code, session_id="wait")["result"])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [str(100 * MIB)] * 4


def test_odd_things_that_code_leaves(api):
    made = (
        "import os, socket\nos.mkfifo('fifo'); os.symlink('/etc/passwd', 'link'); os.symlink('/etc', 'way')\n"
        "open('plain', 'w').write('p'); os.link('plain', 'hard'); open('sparse', 'wb').truncate(200 << 20)\n"
        "s = socket.socket(socket.AF_UNIX); s.bind('sock'); open('\\n', 'w').write('x'); open(b'\\xff', 'w').write('x')"
    )
    assert api.run(made, session_id="odd")["files_odd"] >= 5
    crash(api, "odd")
    seen = api.run("import os; sorted(os.listdir('.')), open('hard').read(), os.path.getsize('sparse')", session_id="odd")
    assert seen["result"] == f"(['hard', 'plain', 'sparse'], 'p', {200 * MIB})", seen
    assert api.run("open('huge', 'wb').truncate(1 << 40)", session_id="odd")["verdict"] == "disk_full"


def test_files_beyond_the_bound_are_reported(api):
    seen = api.run("for n in range(5000): open(f'{n}.txt', 'w').write('x')", session_id="lots")
    assert seen["files_omitted"] == 4900
    crash(api, "lots")
    seen = api.run("import os; len(os.listdir('.'))", session_id="lots")
    assert seen["result"] == "100" and "100 of its files are back" in seen["hint"]


def test_a_version_that_was_not_kept_is_not_replaced_by_an_older_one(shared_cli):
    server = rest_client.serve(shared_cli, "--artifact-quota", "1M")
    server.run("open('f', 'w').write('old')", session_id="q")
    seen = server.run("open('f', 'wb').write(bytes(2 << 20))", session_id="q")
    assert seen["files"][0]["error"]["code"] == "quota_exceeded"
    answer = server.put("q", "g", bytes(2 * MIB))
    assert answer.status == 200 and answer.json["url"] is None and answer.json["error"]["code"] == "quota_exceeded"
    crash(server, "q")
    assert server.run("import os; os.listdir('.')", session_id="q")["result"] == "[]"


def test_an_idle_end_and_the_artifact_time(shared_cli):
    server = rest_client.serve(shared_cli, "--artifact-ttl", "6s")
    server.post("/sessions", {"name": "idle", "idle_timeout": 1})
    server.run(WRITE, session_id="idle")
    time.sleep(3)
    assert server.get("/sessions/idle").status == 409
    assert server.run(READ, session_id="idle")["result"] == BACK
    # A session that lives keeps its files for longer than that.
    begun = time.monotonic()
    while time.monotonic() - begun < 9:
        server.run("1", session_id="idle")
        time.sleep(0.5)
    crash(server, "idle")
    assert server.run(READ, session_id="idle")["result"] == BACK
    crash(server, "idle")
    time.sleep(9)
    assert server.run("import os; os.listdir('.')", session_id="idle")["result"] == "[]"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_another_start_of_the_server(shared_cli, how):
    first = rest_client.serve(shared_cli)
    handle = first.run(WRITE, session_id="lasting")["session"]
    first.put("lasting", "up", b"up")
    first.process.send_signal(how)
    first.process.wait()
    second = rest_client.serve(shared_cli)
    listed = second.get(f"/sessions/{handle}/files").json
    assert second.get("/sessions/lasting/files").json == listed
    assert second.read("lasting", "made.txt").data == b"made"
    assert [f["path"] for f in listed["files"]] == ["d/x", "made.txt", "up"]
    failed = second.post("/execute", {"code": "1", "session": handle, "stream": False})
    assert failed.status == 409 and failed.error["code"] == "session_ended", failed
    seen = second.run(READ, session_id="lasting")
    assert seen["result"] == BACK and seen["session"] == handle and "3 of its files are back" in seen["hint"], seen


def test_a_gate_that_dies_while_files_return(shared_cli, tools):
    server = rest_client.serve(shared_cli)
    server.run("open('big', 'wb').write(bytes(200 << 20))", session_id="g", timeout=60)
    crash(server, "g")

    def ask():
        with contextlib.suppress(OSError, AssertionError):
            server.run("1", session_id="g")

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.08)
    gate = next(pid for pid in tools.descendants(server.process.pid) if tools.is_gate(pid))
    os.kill(gate, signal.SIGKILL)
    thread.join()

    def works():
        with contextlib.suppress(OSError):
            return server.run("import os; os.path.getsize('big')", session_id="g")["result"] == str(200 * MIB)

    assert tools.wait_until(works)


def test_other_keys_cannot_open_it(shared_cli, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("a:" + "a" * 32 + "\nb:" + "b" * 32 + "\n")
    keys.chmod(0o600)
    a = rest_client.serve(shared_cli, "--api-key-file", keys, key="a" * 32)
    b = rest_client.Rest(a.port, "b" * 32)
    handle = a.run(WRITE, session_id="mine")["session"]
    crash(a, "mine")
    assert b.post("/sessions", {"name": handle}).status == 404
    assert b.get(f"/sessions/{handle}/files").status == 404
    assert b.run("import os; os.listdir('.')", session_id="mine")["result"] == "[]"
    assert a.run(READ, session_id="mine")["result"] == BACK


@pytest.mark.parametrize("name", ["ses_", "ses_x", "ses_0123456789abcdefghijklm", "ses_" + "a" * 100, "ses_'; DROP TABLE artifact"])
def test_handles_that_never_existed(api, name):
    assert api.post("/sessions", {"name": name}).status in (400, 404)


def test_mcp_opens_it_again(cli):
    with mcp_client.Stdio(cli) as client:
        client.open()
        handle = client.python(WRITE, session="m")["structuredContent"]["session"]
        client.python("import os; os._exit(1)", session="m")
        seen = client.python(READ, session="m")
        assert BACK in str(seen) and "2 of its files are back" in str(seen["content"])
        client.python("import os; os._exit(1)", session="m")
        failed = client.python("v", session=handle)
        assert failed["isError"] and "open_session" in str(failed)
        again = client.call("open_session", name=handle)["structuredContent"]
        assert again["session"] == handle and again["name"] == "m" and again["restored_files"] == 2
        assert BACK in str(client.python(READ, session=handle))
