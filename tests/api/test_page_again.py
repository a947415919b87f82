# SPDX-License-Identifier: Apache-2.0
"""What a page finds when it comes back: in a second tab, after its session ended, after the server was started again.
Errors have a code and a reason that it can act on."""

import signal

import rest_client


def test_a_second_tab_sees_what_was_run_in_the_first(cli):
    rest = rest_client.serve(cli, "--stock", "2")
    assert rest.get("/sessions/tabs/history").error["code"] == "nothing_to_report"
    rest.run("x = 1\nprint('one')", session="tabs")
    rest.run("x / 0", session="tabs")
    found = rest.get("/sessions/tabs/history").json
    assert [(run["number"], run["code"], run["verdict"]) for run in found["runs"]] == [
        (1, "x = 1\nprint('one')", "ok"),
        (2, "x / 0", "error"),
    ]
    assert found["runs"][0]["stdout"] == "one\n" and "ZeroDivisionError" in found["runs"][1]["error"]
    # Both tabs run at once: one waits for the other, and neither is lost.
    with rest.streaming("input_ = 1\nprint('in', flush=True)\nimport time\ntime.sleep(600)", session="tabs") as first:
        assert b"in" in first.readline()
        with rest.streaming("print('second', x)", session="tabs") as second:
            assert rest.get("/sessions/tabs").json["is_busy"]
            rest.post("/sessions/tabs/interrupt")
            assert b"second 1" in second.read()
        assert b"cancelled" in first.read()
    assert [run["number"] for run in rest.get("/sessions/tabs/history").json["runs"]] == [1, 2, 3, 4]
    # One tab closes the session: the other is told why, and the history is still there.
    rest.ask("DELETE", "/sessions/tabs")
    for answer in (rest.get("/sessions/tabs"), rest.get("/sessions/tabs/variables"), rest.get("/sessions/tabs/tree"),
                   rest.post("/sessions/tabs/interrupt")):
        assert answer.status == 409 and answer.error["reason"] == "closed" and answer.error["ended_at"], answer.data
    assert len(rest.get("/sessions/tabs/history").json["runs"]) == 4


def test_a_session_before_the_server_was_started_again(cli):
    rest = rest_client.serve(cli, "--stock", "2")
    handle = rest.run("open('kept.txt', 'w').write('k')", session="before")["session"]
    nameless = rest.post("/sessions", {}).json["session"]
    rest.process.send_signal(signal.SIGTERM)
    rest.process.wait()
    again = rest_client.serve(cli, "--stock", "2")
    for path in ("", "/variables", "/tree"):
        lost = again.get(f"/sessions/{handle}{path}")
        assert lost.status == 409 and lost.error["code"] == "session_ended" and lost.error["reason"] == "lost", lost.data
        assert "open_session" in lost.error["hint"]
    assert again.get(f"/sessions/{nameless}").error["code"] == "session_not_found"
    assert again.get(f"/sessions/{handle}/history").error["code"] == "nothing_to_report"
    opened = again.post("/sessions", {"name": handle})
    assert opened.status == 201 and opened.json["restored_files"] == 1
    assert again.run("open('kept.txt').read()", session=handle)["result"] == "'k'"
