# SPDX-License-Identifier: Apache-2.0
"""Sessions, their files and forks over REST, at bad moments: a client that leaves, a file that is too large, a fork
or a kill in the middle.

Errors of memory show themselves in a build with sanitizers (CONSTRICTOR=...); elsewhere these tests show that the
server still answers.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import threading
import time

import rest_client

LARGE = "y" * (2 << 20)  # above --file-size of these tests


def server(cli, *flags, **options):
    return rest_client.serve(cli, "--file-size", "1M", "--stock", "2", *flags, **options)


def paths(answer):
    return sorted(file["path"] for file in answer["files"])


def files_of(rest, session):
    return paths(rest.get(f"/sessions/{session}/files").json)


def is_well(rest):
    assert rest.process.poll() is None
    health = rest.get("/sessions")
    assert health.status == 200, health
    return health.json


# ---- lifetimes -----------------------------------------------------------------------------------


def test_a_client_that_leaves_while_its_session_is_opened(cli, tools):
    """The zygote and its stems stand still meanwhile, so that no box can be there before the client has left."""
    rest = server(cli)
    assert rest.run("1")["success"]
    zygote = tools.zygote(rest.process)
    makers = [zygote, *tools.children(zygote)]
    for pid in makers:
        os.kill(pid, signal.SIGSTOP)
    try:
        for size in range(300, 308):  # limits of its own: no box is ready for it
            with contextlib.closing(rest.connect()) as link:
                headers = {"Content-Type": "application/json"}
                link.request("POST", "/api/v1/sessions", json.dumps({"memory_mb": size}), headers)
                assert is_well(rest)  # the request came before this one
        assert is_well(rest)
    finally:
        for pid in makers:
            os.kill(pid, signal.SIGCONT)
    assert rest.run("1", memory_mb=310)["success"]  # behind all of them
    assert tools.wait_until(lambda: is_well(rest)["total"] == 0), is_well(rest)


def test_a_file_that_is_too_large_for_a_live_session(cli):
    rest = server(cli)
    assert rest.post("/sessions", {"name": "a"}).status == 201
    assert rest.run("x = 7", session="a")["success"]
    body = {"code": "x", "session": "a", "stream": False, "files": [{"path": "f", "text": LARGE}]}
    answer = rest.post("/execute", body)
    assert answer.status == 413 and answer.error["code"] == "file_too_large", answer
    again = rest.run("x", session="a")
    assert again["result"] == "7" and again["execution_count"] == 2
    assert is_well(rest)["sessions"]["a"]["execution_count"] == 2


def test_a_file_that_is_too_large_for_a_new_session(cli):
    rest = server(cli)
    answer = rest.post("/sessions", {"name": "b", "files": [{"path": "f", "text": LARGE}]})
    assert answer.status == 413 and answer.error["code"] == "file_too_large", answer
    assert is_well(rest)["total"] == 0


# ---- forks ---------------------------------------------------------------------------------------


def fork(rest, source="A", name="B"):
    answer = rest.post(f"/sessions/{source}/fork", {"name": name})
    assert answer.status == 201, answer
    return answer.json


def test_files_that_a_run_brings_are_those_of_its_own_session(cli):
    rest = server(cli)
    rest.post("/sessions", {"name": "A"})
    assert paths(rest.run("open('a', 'w').write('A')", session="A")) == ["a"]
    fork(rest)
    # Only what the run itself made is announced.
    assert paths(rest.run("open('b', 'w').write('B')", session="B")) == ["b"]
    brought = [{"path": "in", "text": "for A"}]
    look = "import os; sorted(os.listdir('.'))"
    seen = rest.run(look, session="A", files=brought)
    assert seen["result"] == "['a', 'in']" and paths(seen) == []
    seen = rest.run(look, session="B")
    assert seen["result"] == "['a', 'b']" and paths(seen) == []


def test_a_file_is_written_to_its_own_session_while_a_fork_runs(cli):
    rest = server(cli)
    rest.post("/sessions", {"name": "A"})
    rest.run("1", session="A")
    fork(rest)
    rest.run("1", session="B")
    code = "import time; time.sleep(0.4)"
    first = threading.Thread(target=rest.run, args=(code,), kwargs={"session": "B"})
    second = threading.Thread(target=rest.run, args=(code,), kwargs={"session": "B"})
    write = threading.Thread(target=rest.put, args=("A", "mine", b"x" * 1000))
    for thread in (first, write, second):  # the second run waits behind the one who writes
        thread.start()
        time.sleep(0.1)
    for thread in (first, write, second):
        thread.join()
    assert files_of(rest, "A") == ["mine"]
    assert files_of(rest, "B") == []


def test_a_fork_takes_no_name_that_is_taken_or_none(cli):
    rest = server(cli)
    for name in ("A", "C"):
        rest.post("/sessions", {"name": name})
    rest.run("x = 1", session="A")
    for name, status in (("A", 409), ("C", 409), ("ses_mine", 400), ("a\nb", 400)):
        answer = rest.post("/sessions/A/fork", {"name": name})
        assert answer.status == status, (name, answer)
    fork(rest, name="B")
    assert sorted(is_well(rest)["sessions"]) == ["A", "B", "C"]


def test_forks_count_as_sessions(cli):
    rest = server(cli, "--sessions", "3")
    rest.post("/sessions", {"name": "old"})
    rest.post("/sessions", {"name": "A"})
    rest.run("x = 1", session="A")
    fork(rest, name="B")
    fork(rest, name="C")  # the longest idle one that is none of its own family makes room
    assert sorted(is_well(rest)["sessions"]) == ["A", "B", "C"]
    answer = rest.post("/sessions/A/fork", {"name": "D"})
    assert answer.status == 503 and answer.error["code"] == "busy", answer
    assert rest.run("x", session="A")["result"] == "1"
    assert rest.run("x", session="C")["result"] == "1"


# ---- bounds --------------------------------------------------------------------------------------


def test_sessions_survive_the_limit_of_open_files(cli, tools):
    few = ("sh", "-c", 'ulimit -n 800; exec "$@"', "sh")
    rest = server(cli, "--sessions", "400", prefix=few)
    count = 0
    while (answer := rest.post("/sessions", {"name": f"s{count}"})).status == 201:
        rest.run(f"x = {count}", session=f"s{count}")
        count += 1
        assert count < 400
    assert answer.status == 503 and answer.error["code"] == "busy", answer
    assert count > 20
    for i in range(count):
        assert rest.run("x", session=f"s{i}")["result"] == str(i)
    for i in range(4):
        assert rest.ask("DELETE", f"/sessions/s{i}").status == 200
    ask = {"code": "1", "stream": False}
    assert tools.wait_until(lambda: rest.post("/execute", ask).status == 200)  # when they are gone
    assert rest.run("1")["result"] == "1"


# ---- the truth -----------------------------------------------------------------------------------


def boxes(rest, tools):
    """Pids in boxes, as far as they can be told from here: three levels of pid namespaces."""
    found = []
    for pid in tools.descendants(rest.process.pid):
        with contextlib.suppress(OSError):
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            if len(re.search(r"^NSpid:(.*)$", status, re.MULTILINE)[1].split()) >= 3:
                found.append(pid)
    return found


def test_files_of_a_box_that_is_killed_while_they_are_kept(cli, tools):
    rest = rest_client.serve(cli, "--file-size", "200M", "--stock", "1")
    code = "with open('big', 'wb') as f: f.write(b'x' * (180 << 20))\n7"
    answers = []
    call = threading.Thread(target=lambda: answers.append(rest.run(code, session="a")))
    call.start()
    state = cli.folder / "state"
    assert tools.wait_until(lambda: list(state.glob("*/tmp-*")) or not call.is_alive())
    for pid in boxes(rest, tools):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    call.join(60)
    (answer,) = answers
    if not paths(answer):
        assert answer["files_omitted"] == 1 and "the box is gone" in answer["files_error"], answer
