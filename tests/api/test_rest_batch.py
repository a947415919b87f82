# SPDX-License-Identifier: Apache-2.0
"""POST /batch: many pieces of code, each in a fresh box."""

import contextlib
import json
import pathlib
import threading
import time

import pytest
from conftest import open_cli, wait_until
from rest_client import Rest, serve

KEYS = {"CONSTRICTOR_API_KEY": "ann:key-of-ann-1,bob:key-of-bob-1"}


@pytest.fixture(scope="module")
def api(program):
    with open_cli(program) as cli:
        yield serve(cli)


def batch(api, *items, **fields):
    """The results, and the last line."""
    answer = api.post("/batch", {"items": [{"code": i} if isinstance(i, str) else i for i in items], **fields})
    assert answer.status == 200, answer
    *results, last = answer.lines
    assert last["done"] is True and last["total"] == len(items) == len(results)
    return results, last


def refused(api, *items, status=400, **fields):
    answer = api.post("/batch", {"items": list(items), **fields})
    assert answer.status == status, answer
    assert answer.headers["Content-Type"] == "application/problem+json"
    return answer.json


def runs(api):
    return api.get("/health").json["active_runs"]


# ---- results -------------------------------------------------------------------------------------


def test_each_item_has_a_fresh_box(api):
    code = "import os\nseen = os.path.exists('x'), 'left' in globals()\nleft = 1\nopen('x', 'w').close()\nseen"
    results, last = batch(api, *[{"id": f"i{i}", "code": code} for i in range(20)])
    assert {r["execution"]["result"] for r in results} == {"(False, False)"}
    assert [r["id"] for r in results] == [f"i{i}" for i in range(20)]
    assert len({r["execution_id"] for r in results}) == 20
    assert last["succeeded"] == 20 and last["verdicts"] == {"ok": 20} and last["wall_ms"] > 0


def test_the_order_of_the_request_or_of_the_end(api):
    items = ["import time; time.sleep(0.3); 'slow'", "'b'", "'c'"]
    for order, expected in ({}, [0, 1, 2]), ({"order": "input"}, [0, 1, 2]):
        results, _ = batch(api, *items, **order)
        assert [r["index"] for r in results] == expected
        assert [r["execution"]["result"] for r in results] == ["'slow'", "'b'", "'c'"]
    items[0] = items[0].replace("0.3", "3")
    results, _ = batch(api, *items, order="finish")
    assert results[-1]["index"] == 0 and sorted(r["index"] for r in results) == [0, 1, 2]
    assert all(r["id"] is None for r in results)


def test_an_item_that_fails_is_its_own_affair(api):
    results, last = batch(api, "1", "1 / 0", {"code": "while True: pass", "timeout": 0.5}, "def", "2")
    verdicts = [r["verdict"] for r in results]
    assert verdicts[2] in ("timeout_cpu", "timeout_wall")  # wall time on a machine that is very busy
    assert verdicts[:2] + verdicts[3:] == ["ok", "error", "error", "ok"]
    assert results[3]["execution"]["phase"] == "syntax_check"
    assert last["succeeded"] == 2 and last["failed"] == 3
    assert last["verdicts"] == {"ok": 2, "error": 2, verdicts[2]: 1}


def test_common_fields_and_those_of_an_item(api):
    results, _ = batch(
        api,
        "import sys; a, sys.argv[1:], open('f').read()",
        {"code": "a, 'f'", "variables": {"a": 2}, "files": []},
        variables={"a": 1}, args=["x"], files=[{"path": "f", "text": "file"}], timeout=5)  # fmt: skip
    assert [r["execution"]["result"] for r in results] == ["(1, ['x'], 'file')", "(2, 'f')"]


def test_files_that_items_leave_are_artifacts(api):
    results, _ = batch(api, "open('a.txt', 'w').write('A')", "open('a.txt', 'w').write('B')")
    assert [api.fetch(r["execution"]["files"][0]["url"]).data for r in results] == [b"A", b"B"]


def test_as_one_object(api):
    answer = api.post("/batch", {"items": [{"id": "x", "code": "1"}, {"code": "2"}], "stream": False})
    assert answer.headers["Content-Type"] == "application/json"
    assert [r["execution"]["result"] for r in answer.json["results"]] == ["1", "2"]
    assert answer.json["done"] is True and answer.json["succeeded"] == 2


def test_as_events(api):
    answer = api.ask("POST", "/batch", {"items": [{"code": "1"}, {"code": "2"}]}, {"Accept": "text/event-stream"})
    assert answer.headers["Content-Type"] == "text/event-stream"
    blocks = [b.split("\n") for b in answer.data.decode().split("\n\n") if b]
    assert [b[0] for b in blocks] == ["event: item", "event: item", "event: done"]
    assert [b[1] for b in blocks] == ["id: 1", "id: 2", "id: 3"]
    assert json.loads(blocks[0][2].removeprefix("data: "))["execution"]["result"] == "1"


def test_results_come_while_others_run(api):
    body = {"items": [{"code": "'first'"}, {"code": "import time; time.sleep(50)"}], "timeout": 60}
    with contextlib.closing(api.connect()) as connection:
        begin = time.monotonic()
        connection.request("POST", "/api/v1/batch", json.dumps(body), {"Content-Type": "application/json"})
        line = json.loads(connection.getresponse().readline())
        assert line["execution"]["result"] == "'first'" and time.monotonic() - begin < 45
    assert wait_until(lambda: runs(api) == 0)


# ---- bounds --------------------------------------------------------------------------------------


def test_at_most_so_many_at_once(api):
    code = "import time; time.sleep(0.3)"
    begin = time.monotonic()
    batch(api, *[code] * 4, concurrency=1)
    assert time.monotonic() - begin > 1.1


def test_a_batch_leaves_runs_to_others_and_waits_for_them(program):
    """With room for two runs, one belongs to others; what the server is full of is no fault of an item."""
    with open_cli(program) as cli:
        api = serve(cli, "--runs", "2", env=KEYS)
        ann, bob = Rest(api.port, "key-of-ann-1"), Rest(api.port, "key-of-bob-1")
        found = []
        thread = threading.Thread(target=lambda: found.append(batch(ann, *["import time; time.sleep(0.2)"] * 8)))
        thread.start()
        time.sleep(0.3)
        with bob.streaming("import time; print(1, flush=True); time.sleep(0.5)") as response:
            assert response.status == 200 and b"stdout" in response.readline()
            time.sleep(0.1)
        thread.join(60)
        ((_, last),) = found
        assert last["verdicts"] == {"ok": 8}


def test_two_batches_share_the_server(api):
    """Neither waits for the end of the other: results of both come in turns."""
    body = json.dumps({"items": [{"code": "import time; time.sleep(0.05)"}] * 40, "order": "finish"})
    links, order = {name: api.connect() for name in "ab"}, []
    for link in links.values():     # both are there before any read
        link.request("POST", "/api/v1/batch", body, {"Content-Type": "application/json"})

    def read(name):
        with contextlib.closing(links[name]) as link:
            for _ in link.getresponse():
                order.append(name)

    threads = [threading.Thread(target=read, args=[name]) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert order.count("a") == order.count("b") == 41
    assert order.index("a") < 41 and order.index("b") < 41, "".join(order)


def test_memory_does_not_grow_with_the_results(program, tools):
    """80 times 900 kB through a client that reads slowly: what waits is bounded."""
    with open_cli(program) as cli:
        api = serve(cli)
        gate = next(p for p in tools.descendants(api.process.pid) if tools.is_gate(p))

        def rss():
            text = pathlib.Path(f"/proc/{gate}/status").read_text()
            return int(text.split("VmRSS:")[1].split()[0]) // 1024

        batch(api, *["print('x' * 900000)"] * 10)
        before, most = rss(), 0
        body = {"items": [{"code": "print('x' * 900000)"}] * 80, "order": "finish"}
        with contextlib.closing(api.connect()) as connection:
            connection.request("POST", "/api/v1/batch", json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            count = 0
            while line := response.readline():
                count += 1
                if count % 8 == 0:
                    time.sleep(0.02)
                    most = max(most, rss())
        assert count == 81
        # MiB; all results are 72. What a sanitizer keeps of what was freed is not the server's.
        assert most - before < (400 if b"__asan_init" in program.read_bytes() else 60), (before, most)


def test_what_all_batches_hold_is_bounded(program):
    """Results of 6 MB as JSON that wait for a first item which sleeps: 160 MB if only each batch had a bound."""
    items = [{"code": "import time; time.sleep(60)"}] + [{"code": r"print('\x01' * 1000000)"}] * 8
    body = json.dumps({"items": items, "concurrency": 2, "timeout": 90})
    with open_cli(program) as cli, contextlib.ExitStack() as stack:
        api = serve(cli, "--runs", 24)

        def printed():
            with contextlib.closing(api.connect()) as connection:
                connection.request("GET", "/metrics")
                text = connection.getresponse().read().decode()
            return float(text.split("\nconstrictor_output_bytes_total ")[1].split()[0])

        connections = [stack.enter_context(contextlib.closing(api.connect())) for _ in range(9)]
        for connection in connections:
            connection.request("POST", "/api/v1/batch", body, {"Content-Type": "application/json"})
        assert wait_until(lambda: printed() > 9e6)
        assert wait_until(lambda: runs(api) == 9)  # those that sleep: nothing new begins
        assert printed() < 22e6
        for connection in connections:
            connection.close()
        assert wait_until(lambda: runs(api) == 0)
        assert batch(api, "1", "2")[1]["succeeded"] == 2  # and what was held counts no more


# ---- a client that leaves ------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
def test_leaving_cancels_the_rest(api, stream):
    body = {"items": [{"code": "1"}] + [{"code": "import time; time.sleep(50)"}] * 100,
            "timeout": 60, "stream": stream}  # fmt: skip
    with contextlib.closing(api.connect()) as connection:
        connection.request("POST", "/api/v1/batch", json.dumps(body), {"Content-Type": "application/json"})
        connection.getresponse().readline()
        assert wait_until(lambda: runs(api) > 1)
    assert wait_until(lambda: runs(api) == 0)
    assert batch(api, "1")[1]["succeeded"] == 1


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("item, words", [
    ({}, "field 'items[1].code' is missing"),
    ({"code": 5}, "field 'items[1].code' is 5, but must be a string"),
    ({"code": "1", "cod": "2"}, "unknown field 'items[1].cod'"),
    ({"code": "1", "session": "s"}, "unknown field 'items[1].session'"),
    ({"code": "1", "timeout": 1e6}, "field 'items[1].timeout' is 1000000, but may be at most 300"),
    ({"code": "1\0"}, "items[1]"),
    ({"code": "1", "id": "a"}, "an earlier item has the same id"),
    ({"code": "1", "files": [{"path": "../x", "text": ""}]}, "items[1]"),
    ({"code": "1", "variables": {"a b": 1}}, "items[1]"),
    ({"code": "1", "packages": ["--index-url=x"]}, "items[1]"),
    ({"code": "1", "environment": "e", "packages": ["x"]}, "items[1]"),
])  # fmt: skip
def test_a_bad_item_refuses_all_before_anything_runs(api, item, words):
    begun = api.get("/artifacts").json["total_bytes"]
    status = 409 if "same id" in words else 400
    problem = refused(api, {"id": "a", "code": "open('ran', 'w').write('x')"}, item, status=status)
    assert words in problem["detail"], problem
    assert api.get("/artifacts").json["total_bytes"] == begun


def test_an_environment_that_is_not_there(api):
    assert "items[0]" in refused(api, {"code": "1", "environment": "nobody"}, status=404)["detail"]


@pytest.mark.parametrize("body, words", [
    ({}, "'items' is missing"),
    ({"items": []}, "at least 1"),
    ({"items": "1"}, "an array of objects"),
    ({"items": [1]}, "an array of objects"),
    ({"items": [{"code": "1"}], "order": "x"}, "input|finish"),
    ({"items": [{"code": "1"}], "concurrency": 0}, "at least 1"),
    ({"items": [{"code": ""}] * 10001}, "at most 10000"),
])  # fmt: skip
def test_bodies(api, body, words):
    answer = api.post("/batch", body)
    assert answer.status == 400 and words in answer.json["detail"], answer
