# SPDX-License-Identifier: Apache-2.0
"""The header Idempotency-Key: a call that is sent again is not done again."""

import contextlib
import json
import threading
import time
import uuid

import pytest
from conftest import open_cli, wait_until
from rest_client import Rest, serve

KEYS = {"CONSTRICTOR_API_KEY": "ann:key-of-ann-1,bob:key-of-bob-1"}
COUNT = {"code": "n = globals().get('n', 0) + 1\nn", "session": "counter", "stream": False}


@pytest.fixture(scope="module")
def keyed(program):
    with open_cli(program) as cli:
        server = serve(cli, env=KEYS)
        yield Rest(server.port, "key-of-ann-1"), Rest(server.port, "key-of-bob-1")


@pytest.fixture
def api(keyed):
    return keyed[0]


@pytest.fixture
def key():
    return f'"{uuid.uuid4()}"'


def send(api, key, body, path="/execute", **headers):
    return api.ask("POST", path, body, {"Idempotency-Key": key, **headers})


def is_replay(answer):
    return answer.headers.get("Idempotency-Replayed") == "true"


def test_the_same_call_again_is_not_done_again(api, key):
    body = {**COUNT, "session": "again"}
    first, second = send(api, key, body), send(api, key, body)
    assert (is_replay(first), is_replay(second)) == (False, True)
    assert first.data == second.data and first.headers["Content-Type"] == second.headers["Content-Type"]
    assert api.run("n", session="again")["result"] == "1"
    third = send(api, key.strip('"'), body)  # without quotes it is the same key
    assert is_replay(third) and third.data == first.data


def test_a_stream_is_given_again_whole(api, key):
    for accept in "application/x-ndjson", "text/event-stream":
        body = {"code": "import uuid\nprint(uuid.uuid4())"}
        own = f'"{uuid.uuid4()}"'
        first, second = (send(api, own, body, Accept=accept) for _ in range(2))
        assert first.data == second.data and second.headers["Content-Type"] == accept
        assert is_replay(second)


def test_another_body_with_the_same_key(api, key):
    send(api, key, {"code": "1", "stream": False})
    for body in {"code": "2", "stream": False}, {"code": "1", "stream": True}:
        answer = send(api, key, body)
        assert answer.status == 409 and answer.json["code"] == "idempotency_key_reused"
    answer = send(api, key, {"name": "x"}, "/sessions")  # another path is another call, too
    assert answer.status == 409


def test_a_key_belongs_to_its_owner(keyed, key):
    ann, bob = keyed
    body = {"code": "import uuid; str(uuid.uuid4())", "stream": False}
    mine, theirs = send(ann, key, body), send(bob, key, body)
    assert not is_replay(theirs) and mine.json["result"] != theirs.json["result"]


def test_the_second_waits_for_the_first(api, key):
    body = {"code": "import time, uuid\ntime.sleep(0.7)\nstr(uuid.uuid4())", "stream": False}
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(send(api, key, body))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len({a.json["result"] for a in answers}) == 1
    assert sorted(is_replay(a) for a in answers) == [False, True, True, True, True]


@pytest.mark.parametrize("stream", [True, False])
def test_a_call_with_a_key_goes_on_without_its_client(api, key, stream):
    """Who lost the connection comes again with the key and gets the answer; it ran once."""
    name = f"goes-on-{stream}"
    body = {"code": "import time\nprint('begun', flush=True)\ntime.sleep(1)\nn = globals().get('n', 0) + 1\nn",
            "session": name, "stream": stream}  # fmt: skip
    with contextlib.closing(api.connect()) as connection:
        connection.request("POST", "/api/v1/execute", json.dumps(body),
                           api.headers({"Content-Type": "application/json", "Idempotency-Key": key}))
        if stream:
            connection.getresponse().readline()
        else:
            time.sleep(0.3)
    answer = send(api, key, body)
    assert answer.status == 200 and is_replay(answer), answer
    whole = answer.lines[-1]["execution"] if stream else answer.json
    assert whole["result"] == "1" and whole["stdout"] == "begun\n"
    assert api.run("n", session=name)["result"] == "1"


def test_one_that_waits_may_leave(api, key):
    body = {"code": "import time\ntime.sleep(0.8)\n7", "stream": False}
    found = []
    thread = threading.Thread(target=lambda: found.append(send(api, key, body)))
    thread.start()
    time.sleep(0.2)
    with contextlib.closing(api.connect()) as connection:
        connection.request("POST", "/api/v1/execute", json.dumps(body),
                           api.headers({"Content-Type": "application/json", "Idempotency-Key": key}))
        time.sleep(0.2)
    thread.join(30)
    assert found[0].json["result"] == "7"


def test_an_answer_that_is_too_large_is_not_kept_and_nothing_runs_twice(api, key):
    body = {"session": "large", "code": COUNT["code"] + "\nprint('x' * 700000)"}  # a stream says it twice
    first, second = send(api, key, body), send(api, key, body)
    assert first.status == 200 and len(first.data) > 1 << 20 and first.lines[-1]["verdict"] == "ok"
    assert second.status == 409 and second.json["code"] == "idempotency_answer_not_kept"
    assert api.run("n", session="large")["result"] == "1"


def test_an_error_is_not_kept(api, key):
    """It says that nothing was done: the same key is good for another attempt, also for a better one."""
    for body in ({"code": 1}, {"code": "1", "session": "ses_unknown000000000000000"},
                 {"code": "1", "stream": False}):  # fmt: skip
        answer = send(api, key, body)
        assert not is_replay(answer)
    assert answer.status == 200


@pytest.mark.parametrize("path, body", [
    ("/sessions", {"checkpoint": False}),
    ("/batch", {"items": [{"code": "import uuid; str(uuid.uuid4())"}], "stream": False}),
    ("/batch", {"items": [{"code": "import uuid; str(uuid.uuid4())"}]}),
    ("/environments", {"name": "once"}),
])  # fmt: skip
def test_the_other_calls(api, key, path, body):
    first, second = send(api, key, body, path), send(api, key, body, path)
    assert first.status in (200, 201) and second.status == first.status, (first, second)
    assert first.data == second.data and is_replay(second)


def test_a_session_is_opened_once(api, key):
    before = api.get("/sessions").json["total"]
    handles = {send(api, key, {}, "/sessions").json["session"] for _ in range(3)}
    assert len(handles) == 1 and api.get("/sessions").json["total"] == before + 1
    assert api.ask("DELETE", f"/sessions/{handles.pop()}").status == 200


@pytest.mark.parametrize("value", ['""', '"', "a\tb", '"a', '"a"b"', "x" * 256, '"\\"', "é"])
def test_keys_that_are_none(api, value):
    answer = send(api, value.encode("utf-8"), {"code": "1"})
    assert answer.status == 400, answer
    assert answer.json["code"] in ("bad_idempotency_key", "bad_request", "bad_header"), answer


def test_a_key_that_comes_twice(api):
    with contextlib.closing(api.connect()) as connection:
        connection.putrequest("POST", "/api/v1/execute")
        for name, value in [*api.headers({"Content-Type": "application/json", "Content-Length": "12"}).items(),
                            ("Idempotency-Key", "a"), ("Idempotency-Key", "b")]:  # fmt: skip
            connection.putheader(name, value)
        connection.endheaders(b'{"code":"1"}')
        assert connection.getresponse().status == 400


def test_calls_that_have_no_key_are_done_each_time(api):
    assert api.run("n = 1", session="free")["execution_id"] != api.run("n = 1", session="free")["execution_id"]
    assert wait_until(lambda: api.get("/health").json["active_runs"] == 0)


# -- SECURITY: calls that go on without their client hold boxes and memory, and no connection bounds them


def leave(api, key, body, path):
    """Sends a call and hangs up when it goes on."""
    before = api.get("/health").json["active_runs"]
    with contextlib.closing(api.connect()) as connection:
        connection.request("POST", f"/api/v1{path}", json.dumps(body),
                           api.headers({"Content-Type": "application/json", "Idempotency-Key": key}))  # fmt: skip
        assert wait_until(lambda: api.get("/health").json["active_runs"] > before)


@pytest.mark.parametrize("path, body", [
    ("/execute", {"code": "import time; time.sleep(60)", "timeout": 90, "stream": False}),
    ("/batch", {"items": [{"code": "import time; time.sleep(60)", "timeout": 90}]}),
])  # fmt: skip
def test_only_so_many_calls_go_on_alone(program, path, body):
    with open_cli(program) as cli:
        api = Rest(serve(cli, env=KEYS).port, "key-of-ann-1")
        for i in range(16):
            leave(api, f"alone-{i}", body, path)
        leave(api, "one-too-many", body, path)
        assert wait_until(lambda: api.get("/health").json["active_runs"] == 16)
        other = Rest(api.port, "key-of-bob-1")
        leave(other, "alone-0", body, path)  # the bound is each caller's own
        time.sleep(0.3)
        assert api.get("/health").json["active_runs"] == 17


def test_one_caller_cannot_hold_all_the_memory_for_bodies(program):
    with open_cli(program) as cli:
        port = serve(cli, env=KEYS).port
        ann, bob = Rest(port, "key-of-ann-1"), Rest(port, "key-of-bob-1")
        # All of a body counts, also blanks, which cost the least to read.
        body = json.dumps({"items": [{"code": "import time; time.sleep(60)", "timeout": 90}]}) + " " * 16_600_000
        held = []
        for _ in range(17):  # 16 fill what a server holds
            held.append(ann.connect())
            held[-1].request("POST", "/api/v1/batch", body, ann.headers({"Content-Type": "application/json"}))
        time.sleep(0.5)
        assert bob.run(f"1 # {'b' * 4_000_000}")["verdict"] == "ok"
        for connection in held:
            connection.close()
