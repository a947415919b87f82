# SPDX-License-Identifier: Apache-2.0
"""Batches that judge programs: tests with stdin and expected output, checkers, times, and items that come as lines."""

import contextlib
import http.client
import itertools
import json
import os
import pathlib
import socket
import threading
import time

import pytest
from conftest import open_cli
from rest_client import serve

DOUBLE = "print(int(input()) * 2)"


@pytest.fixture(scope="module")
def api(program):
    with open_cli(program) as cli:
        yield serve(cli, "--offline", env={"CONSTRICTOR_API_KEY": "ann:key-of-ann-1"}, key="key-of-ann-1")


def batch(api, *items, **fields):
    answer = api.post("/batch", {"items": list(items), "stream": False, **fields})
    assert answer.status == 200, answer
    return answer.json


def chunks(lines):
    """Some lines at a time, as bytes."""
    lines = iter(lines)
    while some := list(itertools.islice(lines, 1000)):
        yield "".join(line + "\n" for line in some).encode()


def send_lines(api, lines, query=""):
    """Sends them in chunks, and reads the answers at the same time; the messages of the answer."""
    sock = socket.create_connection(("127.0.0.1", api.port))
    head = (f"POST /api/v1/batch{query} HTTP/1.1\r\nHost: 127.0.0.1:{api.port}\r\nAuthorization: Bearer {api.key}\r\n"
            "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")  # fmt: skip

    def send():
        sock.sendall(head.encode())
        for some in chunks(lines):
            sock.sendall(b"%x\r\n%s\r\n" % (len(some), some))
        sock.sendall(b"0\r\n\r\n")

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    with contextlib.closing(sock):
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        assert answer.status == 200, answer.read()
        yield from (json.loads(line) for line in answer if line.strip())
        sender.join()


def passes(api, printed, expected, **fields):
    """Whether a program that prints this passes."""
    done = batch(api, {"code": f"print({printed!r}, end='')", "tests": [{"expected": expected, **fields}]})
    assert done["passed"] + done["failed"] == 1
    return done["passed"] == 1


def test_a_program_runs_once_for_each_test(api):
    done = batch(api, {"id": "double", "code": DOUBLE, "tests": [
        {"stdin": "2", "expected": "4"}, {"stdin": "3", "expected": "7"}, {"stdin": "x", "expected": "?"}]}, {"code": "1 / 0"})  # fmt: skip
    assert [(r["index"], r.get("test"), r["passed"], r["verdict"]) for r in done["results"]] == [
        (0, 0, True, "ok"), (0, 1, False, "ok"), (0, 2, False, "error"), (1, None, False, "error")]  # fmt: skip
    assert (done["total"], done["passed"], done["failed"], done["succeeded"]) == (4, 1, 3, 2)
    assert done["verdicts"] == {"ok": 2, "error": 2} and 0 < done["p50_ms"] <= done["p99_ms"]
    assert done["results"][0]["id"] == "double" and done["results"][1]["execution"]["stdout"] == "6\n"


@pytest.mark.parametrize("printed, expected, good", [
    ("4\n", "4", True), ("4", "4\n\n", True), ("4 ", "4", False), ("4\n5", "4 5", False), ("", "", True), ("é", "é", True), ("4", "", False),
])  # fmt: skip
def test_exact(api, printed, expected, good):
    assert passes(api, printed, expected) is good is passes(api, printed, expected, compare="exact")


@pytest.mark.parametrize("printed, expected, good", [
    ("1  2\n3", " 1 2 3\n", True), ("1 2", "12", False), ("1 2", "1 2 3", False), ("1.0", "1", False), ("", " \n", True),
])  # fmt: skip
def test_tokens(api, printed, expected, good):
    assert passes(api, printed, expected, compare="tokens") is good


@pytest.mark.parametrize("printed, expected, tolerance, good", [
    ("0.30000000000000004", "0.3", None, True), ("1.001 x", "1 x", 0.01, True), ("1.1", "1", 0.01, False), ("1e6", "1000001", 1e-5, True),
    ("nan", "1", 1, False), ("nan", "nan", 0, True), ("0x10", "16", 1, False), ("1e999", "1e999", 0, True), ("-1", "1", 0.5, False),
    ("1" * 100, "1" * 99 + "2", 1, False),
])  # fmt: skip
def test_float(api, printed, expected, tolerance, good):
    assert passes(api, printed, expected, compare="float", **({} if tolerance is None else {"tolerance": tolerance})) is good


@pytest.mark.parametrize("checker, good", [
    ("sorted(output.split()) == sorted(expected.split())", True), ("assert output.split() == expected.split()", False),
    ("output == 1", False), ("pass", True), ("1 / 0", False), ("stdin == 'in'", True), ("import os; assert not os.listdir('.')", True),
])  # fmt: skip
def test_a_checker_judges(api, checker, good):
    """In a box of its own: the program cannot reach it."""
    item = {"code": "open('left', 'w').close()\nprint('2 1')", "tests": [{"stdin": "in", "expected": "2 1", "checker": checker}]}
    if "sorted" in checker or "assert output" in checker:
        item["tests"][0] = {"checker": checker.replace("expected", "'1 2'")}
    done = batch(api, item)
    assert (done["passed"] == 1) is good, done
    assert done["results"][0]["checker"]["verdict"] == ("error" if "assert output" in checker or "1 / 0" in checker else "ok")


def test_modes_are_inherited(api):
    item = {"code": "print('1.0000001')", "tests": [{"expected": "1"}, {"expected": "1", "compare": "exact"}]}
    assert [r["passed"] for r in batch(api, item, compare="float")["results"]] == [True, False]
    assert [r["passed"] for r in batch(api, {**item, "compare": "tokens"}, compare="float")["results"]] == [False, False]


def test_a_test_that_compares_nothing_is_refused(api):
    answer = api.post("/batch", {"items": [{"code": "1"}, {"code": "1", "tests": [{"stdin": "1"}]}]})
    assert answer.status == 400 and "items[1]" in answer.error["message"] and "tests[0]" in answer.error["message"], answer


def test_the_limit_is_processor_time(api):
    """A program that waits for others does not lose its time; one that computes for ever does."""
    done = batch(api, {"code": "import time; time.sleep(0.8); 1"}, {"code": "while True: pass"}, {"code": "import time; time.sleep(60)"},
                 {"code": "import time; time.sleep(60)", "timeout": 0.5, "cpu_seconds": 5}, timeout=0.5)  # fmt: skip
    assert [r["verdict"] for r in done["results"]] == ["ok", "timeout_cpu", "timeout_wall", "timeout_wall"]
    assert done["results"][3]["execution"]["limit"]["value"] == 500


def test_no_false_timeout_with_all_cores_busy(api):
    code = "import time\nwhile time.process_time() < 0.25: pass"
    done = batch(api, *[{"code": code}] * 24, timeout=1, concurrency=24)
    assert done["verdicts"] == {"ok": 24}


def test_as_many_as_there_are_cores(api):
    """Programs that are not short: no more at one time than there are cores."""
    code = "import time; time.sleep(0.3)"
    done = batch(api, *[{"code": code}] * (3 * os.cpu_count()))
    assert done["wall_ms"] > 3 * 300 * 0.95, done["wall_ms"]


def test_lines(api):
    told = list(send_lines(api, ['{"code": "1 + 1", "id": "a"}', "", "not json", '{"code": 5}', '[1]', '{"code": "2", "nonsense": 1}',
                                 '{"code": "print(int(input()) + n)", "variables": {"n": 1}, "tests": [{"stdin": "1", "expected": "2"}]}']))  # fmt: skip
    *results, last = told
    assert [r["index"] for r in results] == list(range(6))
    assert [r["passed"] for r in results] == [True, False, False, False, False, True]
    assert results[0]["execution"]["result"] == "2" and results[0]["id"] == "a"
    for result, word in zip(results[1:5], ("not JSON", "'code'", "object", "nonsense"), strict=True):
        assert result["verdict"] == "lost" and word in result["error"]["message"] and "execution" not in result, result
    assert (last["done"], last["total"], last["passed"], last["failed"]) == (True, 6, 2, 4)


def test_the_query_has_the_defaults_of_lines(api):
    query = "?timeout=1&order=finish&concurrency=2&memory_mb=64"
    *results, last = send_lines(api, ['{"code": "while True: pass"}', '{"code": "1"}', '{"code": "while True: pass", "timeout": 0.5}'], query)
    verdicts = {r["index"]: r["verdict"] for r in results}  # of processor time, or of wall time on a busy machine
    assert [verdicts[i].partition("_")[0] for i in range(3)] == ["timeout", "ok", "timeout"]
    answer = api.ask("POST", "/batch?timeout=x", b'{"code": "1"}', {"Content-Type": "application/x-ndjson"})
    assert answer.status == 400 and "timeout" in answer.error["message"]


def test_no_lines(api):
    assert [m["total"] for m in send_lines(api, [])] == [0]
    assert list(send_lines(api, ["x" * 5_000_000, '{"code": "1"}']))[1]["verdict"] == "ok"


def memory_of(process):
    """Of the server's own processes, in KiB."""
    total, todo = 0, [process.pid]
    while todo:
        pid = todo.pop()
        with contextlib.suppress(OSError):
            said = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
            if said["Name"].strip().startswith("constrictor"):
                total += int(said.get("RssAnon", "0 kB").split()[0])
            todo += map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return total


def test_a_hundred_thousand_lines_take_no_memory(api):
    """Most are no items, so that it is quick; each has its own answer, in order, and the others run."""
    def lines():
        for i in range(100_000):
            yield '{"code": "6 * 7"}' if i % 2000 == 0 else f"line {i} is not JSON " + "x" * 200

    list(send_lines(api, ['{"code": "1"}'] * 20))
    before = memory_of(api.process)
    highest = count = ran = 0
    for message in send_lines(api, lines()):
        if "done" in message:
            assert (message["total"], message["passed"], message["failed"]) == (100_000, 50, 99_950)
            break
        assert message["index"] == count
        ran += message["verdict"] == "ok"
        count += 1
        if count % 10_000 == 0:
            highest = max(highest, memory_of(api.process))
    assert (count, ran) == (100_000, 50)
    assert highest - before < 60_000, (before, highest)


def test_a_client_that_reads_nothing_is_bounded(api):
    """The server takes no more of the lines than it can answer; others go on."""
    sock = socket.create_connection(("127.0.0.1", api.port))
    sock.sendall(f"POST /api/v1/batch HTTP/1.1\r\nHost: 127.0.0.1:{api.port}\r\nAuthorization: Bearer {api.key}\r\n"
                 "Content-Type: application/x-ndjson\r\nContent-Length: 100000000\r\n\r\n".encode())  # fmt: skip
    sock.settimeout(3)
    before, sent = memory_of(api.process), 0
    with contextlib.suppress(TimeoutError):
        while sent < 90_000_000:
            sent += sock.send(b"no json\n" * 4096)
    assert sent < 60_000_000 and memory_of(api.process) - before < 60_000, sent
    assert api.run("1")["verdict"] == "ok"
    sock.close()
    deadline = time.monotonic() + 600
    while api.get("/health").json["active_runs"] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert api.run("1")["verdict"] == "ok"
