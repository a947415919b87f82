# SPDX-License-Identifier: Apache-2.0
"""Sessions over MCP: what is kept between runs, which clients may use them, how they end, what is said then.

Over stdio in both eras; where several clients and keys are needed, over HTTP. Each structured result
is held against the schema that its tool declares, and each connection ends with the schema oracle.
"""

import base64
import os
import re
import threading

import jsonschema
import pytest
from conftest import open_cli, wait_until
from mcp_client import (
    LEGACY,
    MODERN,
    Http,
    Server,
    alive,
    check_received,
    connect,
    marked,
    refused,
    several,
    text,
    use,
    tools_of,
)

BOTH = (LEGACY[-1], MODERN)
HANDLE = re.compile(r"^ses_[A-Za-z0-9_-]{23}$")
FAST = ("--grace", "500ms")
STUBBORN = """
import time
while True:
    try:
        time.sleep(0.05)
    except KeyboardInterrupt:
        pass
"""


@pytest.fixture(scope="module", params=BOTH)
def c(request, program):
    with open_cli(program) as cli:
        with connect(cli, *FAST, version=request.param) as connection:
            yield connection
            check_received(connection)


@pytest.fixture
def fresh(cli):
    with several(cli) as make:
        yield make


def run(c, code, **arguments):
    """The structured result of a run, whatever its verdict."""
    answer = c.python(code, **arguments)
    assert "structuredContent" in answer, text(answer)
    found = answer["structuredContent"]
    jsonschema.Draft202012Validator(c.tools["execute_python"]["outputSchema"]).validate(found)
    return {**found, "said": text(answer)}


# ---- state that stays ----------------------------------------------------------------------------


def test_variables_stay_and_the_answer_tells_of_them(c):
    first = run(c, "x = 41\nclass Thing: pass\nimport math", session="state")
    assert first["session_state"] == "new" and HANDLE.match(first["session"])
    assert first["session_name"] == "state" and first["execution_count"] == 1
    assert "session 'state' (new) #1" in first["said"]
    names = {v["name"]: v for v in first["variables"]}
    assert names["x"]["change"] == "added" and names["x"]["type"] == "int"
    assert "x int added" in first["said"]
    second = run(c, "x += 1\ny = [1, 2, 3]\nx", session="state")
    assert second["result"] == "42" and second["session_state"] == "open"
    assert second["session"] == first["session"] and second["execution_count"] == 2
    names = {v["name"]: v for v in second["variables"]}
    assert names["x"]["change"] == "changed"
    assert names["y"]["change"] == "added" and names["y"]["length"] == 3
    third = run(c, "del y\nmath.pi", session=first["session"])
    assert [v["change"] for v in third["variables"] if v["name"] == "y"] == ["removed"]
    assert "y removed" in third["said"]


def test_without_a_session_nothing_stays(c):
    run(c, "kept = 1")
    assert run(c, "kept")["error"]["type"] == "NameError"
    assert "variables:" not in run(c, "kept = 1")["said"]


def test_open_session_brings_everything_along(c):
    opened = use(
        c,
        "open_session",
        name="luggage",
        idle_timeout=120,
        timeout=7,
        memory_mb=128,
        cpu_seconds=9,
        files=[
            {"path": "in/a.csv", "text": "a\n1\n"},
            {"path": "/mnt/data/b.bin", "base64": base64.b64encode(b"\0\1\xff").decode()},
        ],
        variables={"rows": [1, 2], "label": "é"},
    )
    assert HANDLE.match(opened["session"]) and opened["name"] == "luggage"
    assert opened["limits"]["timeout"] == 7 and opened["limits"]["cpu_seconds"] == 9
    assert opened["limits"]["memory_bytes"] == 128 << 20
    assert opened["limits"]["idle_timeout"] == 120
    cores = len(os.sched_getaffinity(0))
    assert use(c, "open_session", name="busy", timeout=40)["limits"]["cpu_seconds"] == 40 * cores
    use(c, "close_session", session="busy")
    found = run(
        c,
        "print(open('in/a.csv').read().split(), open('b.bin', 'rb').read(), rows, label)",
        session=opened["session"],
    )
    assert found["stdout"] == "['a', '1'] b'\\x00\\x01\\xff' [1, 2] é\n"
    assert found["files"] == [], "what was brought along is not the code's work"
    hog = run(c, "b = bytearray(400 << 20)", session="luggage")     # refused as a whole
    assert hog["verdict"] == "out_of_memory" and hog["session_state"] == "open"
    hog = run(c, "b = [b'x' * (8 << 20) for _ in range(50)]", session="luggage")
    assert hog["verdict"] == "out_of_memory" and hog["session_state"] == "lost"


def test_a_run_brings_files_and_variables_along(c):
    for where in ({}, {"session": "along"}):
        found = run(
            c,
            "print(open('d/x.txt').read(), n + 1)",
            files=[{"path": "d/x.txt", "text": "hello"}],
            variables={"n": 1},
            **where,
        )
        assert found["stdout"] == "hello 2\n", found["said"]


def test_memory_of_an_open_session_cannot_be_changed(c):
    assert run(c, "1", session="big", memory_mb=200)["success"]
    said, code = refused(c, "execute_python", code="1", session="big", memory_mb=300)
    assert code == "bad_value" and "'memory_mb'" in said and "200 MiB" in said
    assert run(c, "2", session="big", memory_mb=200)["success"]


def test_an_error_keeps_the_variables(c):
    found = run(c, "kept = 5\n1/0", session="err")
    assert found["verdict"] == "error" and found["error"]["line"] == 2
    assert found["session_state"] == "new"
    assert run(c, "kept", session="err")["result"] == "5"


# ---- time ----------------------------------------------------------------------------------------


def test_a_timeout_keeps_the_variables(c):
    run(c, "kept = 5", session="slow")
    found = run(c, "kept = 6\nwhile True: pass", session="slow", timeout=1)
    assert found["verdict"] == "timeout_wall" and found["session_state"] == "open"
    assert run(c, "kept", session="slow")["result"] == "6"


def test_code_that_does_not_stop_is_ended_and_the_loss_is_told_first(c):
    first = run(c, "kept = 5", session="stubborn")
    found = run(c, STUBBORN, session="stubborn", timeout=0.3)
    assert found["verdict"] == "timeout_wall" and found["session_state"] == "lost"
    assert found["said"].startswith("state lost: session 'stubborn'")
    said, code = refused(c, "execute_python", code="kept", session=first["session"])
    assert code == "session_ended" and "did not stop" in said
    again = run(c, "kept", session="stubborn")  # a name is opened anew, and says so
    assert again["session_state"] == "new" and again["error"]["type"] == "NameError"
    assert "new session" in again["hint"] and again["session"] != first["session"]


def test_interrupt_keeps_the_variables(c):
    run(c, "kept = 1", session="loop")
    mark = f"loop{c.version}"
    arguments = {"code": "kept = 2\n" + marked(mark, "while True: pass"), "session": "loop"}
    id = c.begin("tools/call", {"name": "execute_python", "arguments": arguments})
    assert wait_until(lambda: alive(mark))
    [listed] = [s for s in use(c, "list_sessions")["sessions"] if s["name"] == "loop"]
    assert listed["state"] == "busy"
    assert use(c, "interrupt_session", session="loop")["interrupted"]
    found = c.wait(id)["result"]["structuredContent"]
    assert found["error"]["type"] == "KeyboardInterrupt" and found["session_state"] == "open"
    assert run(c, "kept", session="loop")["result"] == "2"
    assert use(c, "interrupt_session", session="loop") == {
        "session": found["session"],
        "interrupted": False,
    }


def test_a_cancelled_call_interrupts_and_keeps_the_variables(c):
    run(c, "kept = 1", session="cancelled")
    mark = f"cancelled{c.version}"
    arguments = {"code": "kept = 2\n" + marked(mark, "while True: pass"), "session": "cancelled"}
    id = c.begin("tools/call", {"name": "execute_python", "arguments": arguments})
    assert wait_until(lambda: alive(mark))
    c.cancel(id)
    assert run(c, "kept", session="cancelled")["result"] == "2"
    assert id not in c.answers


def test_runs_wait_for_their_turn_in_order(c):
    run(c, "seen = []", session="queue")
    ids = []
    for i in range(6):
        arguments = {"code": f"import time\ntime.sleep(0.05)\nseen.append({i})\nseen"}
        arguments["session"] = "queue"
        ids.append(c.begin("tools/call", {"name": "execute_python", "arguments": arguments}))
    answers = [c.wait(id)["result"]["structuredContent"] for id in ids]
    assert answers[-1]["result_json"] == [0, 1, 2, 3, 4, 5]
    counts = [a["execution_count"] for a in answers]
    assert counts == sorted(counts) and len(set(counts)) == 6


def test_a_full_queue_says_so(fresh):
    c = fresh("--session-queue", "1", *FAST)
    run(c, "1", session="full")
    # Messages on one pipe are read in their order: the third is the one too many.
    arguments = {"code": "import time\ntime.sleep(1)", "session": "full"}
    ids = [c.begin("tools/call", {"name": "execute_python", "arguments": arguments})]
    ids.append(c.begin("tools/call", {"name": "execute_python", "arguments": arguments}))
    said, code = refused(c, "execute_python", code="1", session="full")
    assert code == "session_busy" and "interrupt" in said
    for id in ids:
        assert c.wait(id)["result"]["structuredContent"]["verdict"] == "ok"


def test_a_background_run_in_a_session(c):
    answer = c.python("import time\ntime.sleep(0.5)\nz = 7", session="back", background=True)
    id = answer["structuredContent"]["execution_id"]
    found = c.call("check_run", execution_id=id, wait=10)["structuredContent"]
    assert found["state"] == "finished" and found["session_name"] == "back"
    assert run(c, "z", session="back")["result"] == "7"


# ---- lists and ends ------------------------------------------------------------------------------


def test_list_and_close(c):
    opened = use(c, "open_session", name="closing")
    listed = {s["session"]: s for s in use(c, "list_sessions")["sessions"]}
    assert listed[opened["session"]]["name"] == "closing"
    assert listed[opened["session"]]["state"] == "idle"
    assert 0 < listed[opened["session"]]["expires_in_seconds"] <= 300
    assert use(c, "close_session", session="closing")["session"] == opened["session"]
    found = use(c, "list_sessions")
    assert opened["session"] not in [s["session"] for s in found["sessions"]]
    [note] = [e for e in found["ended"] if e["session"] == opened["session"]]
    assert note["end"] == "closed" and note["name"] == "closing"
    for tool in ("close_session", "interrupt_session", "undo_session", "fork_session"):
        said, code = refused(c, tool, session=opened["session"])
        assert code == "session_ended" and "was closed" in said


def test_closing_ends_what_runs_in_it(c):
    run(c, "1", session="ending")
    mark = f"ending{c.version}"
    arguments = {"code": marked(mark, "while True: pass"), "session": "ending"}
    id = c.begin("tools/call", {"name": "execute_python", "arguments": arguments})
    assert wait_until(lambda: alive(mark))
    use(c, "close_session", session="ending")
    answer = c.wait(id)["result"]
    assert answer["isError"] and "ending" not in [
        s["name"] for s in use(c, "list_sessions")["sessions"]
    ]


def test_idle_sessions_expire_but_not_while_they_work(fresh):
    c = fresh(*FAST)
    opened = use(c, "open_session", name="brief", idle_timeout=2)
    assert run(c, "import time\ntime.sleep(2.5)\n1", session="brief")["result"] == "1"
    assert run(c, "2", session="brief")["result"] == "2"
    assert wait_until(lambda: use(c, "list_sessions")["sessions"] == [])
    said, code = refused(c, "execute_python", code="1", session=opened["session"])
    assert code == "session_ended" and "was not used for too long" in said


def test_the_longest_idle_session_makes_room(fresh):
    c = fresh("--sessions", "2")
    first = run(c, "1", session="a")["session"]
    run(c, "1", session="b")
    run(c, "1", session="c")
    names = [s["name"] for s in use(c, "list_sessions")["sessions"]]
    assert names == ["b", "c"]
    said, code = refused(c, "list_files", session=first)
    assert code == "session_ended" and "make room" in said


# More than one process, so that no limit of a single one can stand in for that of the box.
GREEDY = """
import os, time
for i in range(4):
    if os.fork() == 0:
        x = bytearray(200 << 20)
        for at in range(0, len(x), 4096): x[at] = 1
        time.sleep(20)
        os._exit(0)
time.sleep(20)
"""


@pytest.mark.parametrize(
    "code, verdict, end",
    [
        ("import os; os._exit(3)", "error", "crashed"),
        ("import os; os.kill(os.getpid(), 9)", "error", "crashed"),
        (GREEDY, "out_of_memory", "out_of_memory"),
    ],
)
def test_how_a_session_can_end(c, code, verdict, end):
    opened = use(c, "open_session")
    found = run(c, code, session=opened["session"])
    assert found["verdict"] == verdict and found["session_state"] == "lost"
    assert found["said"].startswith("state lost")
    [note] = [e for e in use(c, "list_sessions")["ended"] if e["session"] == opened["session"]]
    assert note["end"] == end
    assert refused(c, "execute_python", code="1", session=opened["session"])[1] == "session_ended"


def test_too_much_output_keeps_the_variables(c):
    found = run(c, "kept = 3\nprint('x' * 3000000)", session="chatty")
    assert found["verdict"] == "output_limit" and found["session_state"] == "new"
    assert run(c, "kept", session="chatty")["result"] == "3"


# ---- back in time --------------------------------------------------------------------------------


def content(c, session, path):
    return use(c, "read_file", session=session, path=path)["text"]


def test_undo_takes_back_variables_and_files(c):
    use(c, "open_session", name="undo", checkpoint=True)
    for i in range(4):
        found = run(c, f"n = {i}\nopen('n.txt', 'w').write(str(n))", session="undo")
        assert found["checkpoint"]["state"] == "made", found["said"]
    back = use(c, "undo_session", session="undo")
    assert back["checkpoint"]["state"] == "restored"
    assert run(c, "n", session="undo")["result"] == "2"
    assert content(c, "undo", "n.txt") == "2"
    answer = c.call("undo_session", session="undo", steps=3)  # the look at n is a run, too
    assert "checkpoint restored" in text(answer), text(answer)
    assert content(c, "undo", "n.txt") == "0"
    assert run(c, "n", session="undo")["result"] == "0"
    answer = c.call("undo_session", session="undo", steps=50)
    assert answer["isError"] and "CheckpointError" in text(answer)
    assert run(c, "n", session="undo")["result"] == "0"


def test_a_named_checkpoint(c):
    run(c, "n = 1\nopen('n.txt', 'w').write('one')", session="named")
    made = use(c, "checkpoint_session", session="named", name="first")
    assert made["checkpoint"]["state"] == "made" and made["checkpoint"]["name"] == "first"
    run(c, "n = 2\nopen('n.txt', 'w').write('two')", session="named")
    back = use(c, "undo_session", session="named", checkpoint="first")
    assert back["checkpoint"]["state"] == "restored"
    assert run(c, "n", session="named")["result"] == "1" and content(c, "named", "n.txt") == "one"
    answer = c.call("undo_session", session="named", checkpoint="never made")
    assert answer["isError"] and "never made" in text(answer)


def test_a_checkpoint_that_cannot_be_made_says_why(c):
    start = "threading.Thread(target=time.sleep, args=(5,), daemon=True).start()"
    run(c, "import threading, time\n" + start, session="threads")
    answer = c.call("checkpoint_session", session="threads", name="x")
    assert "checkpoint unavailable" in text(answer) and "thread" in text(answer), text(answer)


def test_a_fork_is_independent(c):
    run(c, "n = [1]\nopen('f.txt', 'w').write('both')", session="trunk")
    made = use(c, "fork_session", session="trunk", name="branch")
    assert HANDLE.match(made["fork"])
    run(c, "n.append(2)\nopen('f.txt', 'w').write('branch')", session="branch")
    assert run(c, "n", session="trunk")["result"] == "[1]"
    assert run(c, "n", session=made["fork"])["result"] == "[1, 2]"
    # files, whichever of the two ran last
    for _ in range(2):
        assert content(c, "trunk", "f.txt") == "both"
        assert content(c, "branch", "f.txt") == "branch"
    use(c, "write_file", session="trunk", path="g.txt", text="trunk only")
    paths = [f["path"] for f in use(c, "list_files", session="branch")["files"]]
    assert paths == ["f.txt"]
    use(c, "close_session", session="trunk")
    assert run(c, "n", session="branch")["result"] == "[1, 2]"
    [listed] = [s for s in use(c, "list_sessions")["sessions"] if s["name"] == "branch"]
    assert listed["forked_from"] == made["session"]


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tool, arguments, code, words",
    [
        ("open_session", {"name": "ses_own"}, "bad_value", "'name'"),
        ("open_session", {"name": "a\nb"}, "bad_value", "'name'"),
        ("open_session", {"name": "é" * 129}, "bad_value", "'name'"),
        ("open_session", {"name": ""}, "bad_value", "name"),
        ("open_session", {"memory_mb": 1}, "bad_value", "memory_mb"),
        ("open_session", {"idle_timeout": 1e9}, "bad_value", "idle_timeout"),
        ("open_session", {"files": [{"path": "../x", "text": ""}]}, "bad_file_path", "files[0]"),
        ("open_session", {"files": [{"path": "x"}]}, "bad_value", "files[0]"),
        ("open_session", {"files": [{"path": "x", "base64": "?"}]}, "bad_value", "files[0]"),
        ("open_session", {"variables": {"a b": 1}}, "bad_value", "'a b'"),
        ("open_session", {"variables": {"class": 1}}, "bad_value", "'class'"),
        ("execute_python", {"code": "1", "session": "a\0b"}, "bad_value", "'session'"),
        ("execute_python", {"code": "1", "session": "a\x1bb"}, "bad_value", "control"),
        ("execute_python", {"code": "1", "session": "ses_" + "x" * 23}, "session_not_found", ""),
        ("interrupt_session", {"session": "no such"}, "session_not_found", "'session'"),
        ("close_session", {"session": "no such"}, "session_not_found", "'session'"),
        ("undo_session", {"session": "no such"}, "session_not_found", "'session'"),
        ("undo_session", {"session": "x", "steps": 0}, "bad_value", "steps"),
        ("undo_session", {"session": "x", "steps": 1, "checkpoint": "a"}, "bad_value", "'steps'"),
        ("checkpoint_session", {"session": "no such"}, "session_not_found", "'session'"),
        ("fork_session", {"session": "no such"}, "session_not_found", "'session'"),
        ("fork_session", {"session": "x", "name": "ses_x"}, "bad_value", "'name'"),
    ],
)
def test_mistakes(c, tool, arguments, code, words):
    said, found = refused(c, tool, **arguments)
    assert found == code and words in said, said


def test_a_name_can_be_taken_once(c):
    use(c, "open_session", name="taken")
    said, code = refused(c, "open_session", name="taken")
    assert code == "bad_value" and "open already" in said
    said, code = refused(c, "fork_session", session="taken", name="taken")
    assert code == "bad_value" and "open already" in said


def test_files_that_do_not_fit_leave_no_session(fresh):
    c = fresh("--scratch", "1M")
    said, _ = refused(
        c, "open_session", name="small", files=[{"path": "x", "text": "x" * (3 << 20)}]
    )
    assert "'x'" in said
    assert use(c, "list_sessions")["sessions"] == []


def test_an_abandoned_open_leaves_no_session(c):
    before = len(use(c, "list_sessions")["sessions"])
    for i in range(5):
        params = {"name": "open_session", "arguments": {"name": f"gone {i}"}}
        c.cancel(c.begin("tools/call", params))
    # Whether it came too late is not known; the session is there then, and can be closed.
    for s in use(c, "list_sessions")["sessions"]:
        if (s["name"] or "").startswith("gone"):
            use(c, "close_session", session=s["session"])
    assert len(use(c, "list_sessions")["sessions"]) == before


# ---- keys ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(program):
    with open_cli(program) as cli:
        keys = {"CONSTRICTOR_API_KEY": "ann:annannann,bob:bobbobbob"}
        yield Server(cli, *FAST, env=keys)


def client(server, key, version=LEGACY[-1]):
    c = Http(server, version=version, headers={"Authorization": f"Bearer {key * 3}"})
    c.open()
    c.tools = tools_of(c)
    return c


@pytest.mark.parametrize("version", BOTH)
def test_sessions_belong_to_a_key(server, version):
    ann, bob = client(server, "ann", version), client(server, "bob", version)
    mine = run(ann, "secret = 1\nopen('f.txt', 'w').write('x')", session="shared name")
    theirs = run(bob, "secret", session="shared name")  # the same name is another session
    assert theirs["error"]["type"] == "NameError" and theirs["session"] != mine["session"]
    assert mine["session"] not in str(use(bob, "list_sessions"))
    never = "ses_" + "A" * 23
    calls = [
        ("execute_python", {"code": "1"}),
        ("interrupt_session", {}),
        ("close_session", {}),
        ("undo_session", {}),
        ("checkpoint_session", {}),
        ("fork_session", {}),
        ("list_files", {}),
        ("read_file", {"path": "f.txt"}),
        ("write_file", {"path": "f.txt", "text": "y"}),
        ("delete_file", {"path": "f.txt"}),
    ]
    for tool, arguments in calls:  # nothing tells another key's session from one that never was
        other = refused(bob, tool, session=mine["session"], **arguments)
        none = refused(bob, tool, session=never, **arguments)
        assert other[0].replace(mine["session"], never) == none[0] and other[1] == none[1]
    uri = f"sandbox://{mine['session']}/f.txt"
    error = bob.error("resources/read", {"uri": uri})
    missing = bob.error("resources/read", {"uri": f"sandbox://{never}/f.txt"})
    assert error["code"] == missing["code"]
    assert error["message"].replace(mine["session"], never) == missing["message"]
    assert uri not in [r["uri"] for r in bob.result("resources/list")["resources"]]
    assert run(ann, "secret", session=mine["session"])["result"] == "1"
    for c in (ann, bob):
        use(c, "close_session", session="shared name")


def test_two_clients_of_one_key_share_a_session(server):
    one, two = client(server, "ann"), client(server, "ann", MODERN)
    run(one, "n = 0", session="common")
    found = []

    def work(c):
        for _ in range(5):
            found.append(run(c, "n += 1\nn", session="common")["result_json"])

    threads = [threading.Thread(target=work, args=(c,)) for c in (one, two)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert sorted(found) == list(range(1, 11))
    use(two, "close_session", session="common")
