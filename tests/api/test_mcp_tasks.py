# SPDX-License-Identifier: Apache-2.0
"""The tasks extension as a client sees it: real runs as tasks, over HTTP and stdio.

What the official suite asserts is left to it (tools/conformance); here is what it does not look at:
results that survive the client, owners, cancellation that reaches the box, notifications.
"""

import pytest
from conftest import CONFORMANCE, open_cli, wait_until
from mcp_client import MODERN, TASKS, Http, Server, Stdio, alive, check_received, marked, text

CAN = {"elicitation": {}, "extensions": {TASKS: {}}}
KEYS = {"CONSTRICTOR_API_KEY": "alice:key-of-alice-0123456789,bob:key-of-bob-0123456789"}
ENDED = ("completed", "failed", "cancelled")


@pytest.fixture(scope="module")
def server(program):
    with open_cli(program) as cli:
        yield Server(cli, program=CONFORMANCE)


@pytest.fixture(scope="module")
def guarded(program):
    with open_cli(program) as cli:
        yield Server(cli, program=CONFORMANCE, env=KEYS)


@pytest.fixture(params=["http", "stdio"])
def client(request, cli, server):
    if request.param == "http":
        c = Http(server, MODERN, CAN)
    else:
        c = Stdio(cli, program=CONFORMANCE, version=MODERN, capabilities=CAN)
    with c:
        yield c
        check_received(c)


def settle(c, id):
    def ended():
        task = c.result("tasks/get", {"taskId": id})
        return task if task["status"] in ENDED else None

    return wait_until(ended, pause=0.05)


def test_a_task_ends_and_stays(client):
    made = client.call("slow_compute", seconds=0.3, label="x")
    assert made["resultType"] == "task" and made["status"] == "working"
    assert "content" not in made
    for _ in range(2):
        task = settle(client, made["taskId"])
        assert task["status"] == "completed" and "Computed" in text(task["result"])
        assert task["createdAt"] == made["createdAt"]


def test_ids_do_not_repeat(client):
    ids = {client.call("slow_compute", seconds=0)["taskId"] for _ in range(20)}
    assert len(ids) == 20
    assert all(len(id) >= 22 for id in ids)


def test_long_runs_are_tasks(client):
    made = client.python("import time\nprint('begun', flush=True)\ntime.sleep(2)\n6*7", timeout=120)
    if made["resultType"] != "task":
        made = client.python("import time\ntime.sleep(1)\n6*7", background=True)
        assert made["resultType"] == "complete", made  # this server has another way for long runs
        return
    task = settle(client, made["taskId"])
    assert task["status"] == "completed" and "42" in text(task["result"]), task


def test_a_result_survives_its_client(server):
    with Http(server, MODERN, CAN) as first:
        id = first.call("slow_compute", seconds=0.5)["taskId"]
    with Http(server, MODERN, CAN) as second:
        assert settle(second, id)["status"] == "completed"


def test_cancel_ends_the_processes(server):
    with Http(server, MODERN, CAN) as c:
        made = c.python(marked("task-victim"), timeout=120)
        if made["resultType"] != "task":
            pytest.fail("a run with a long time limit was not made a task")
        assert wait_until(lambda: alive("task-victim"))
        c.result("tasks/cancel", {"taskId": made["taskId"]})
        assert wait_until(lambda: not alive("task-victim")), "the code goes on"
        assert c.result("tasks/get", {"taskId": made["taskId"]})["status"] == "cancelled"


def test_questions(client):
    id = client.call("multi_input")["taskId"]
    task = client.result("tasks/get", {"taskId": id})
    assert task["status"] == "input_required" and len(task["inputRequests"]) == 2
    yes = {"action": "accept", "content": {"name": "x"}}
    first, second = task["inputRequests"]
    client.result("tasks/update", {"taskId": id, "inputResponses": {first: yes, "other": yes}})
    assert list(client.result("tasks/get", {"taskId": id})["inputRequests"]) == [second]
    bad = client.error("tasks/update", {"taskId": id, "inputResponses": {second: "yes"}})
    assert bad["code"] == -32602 and second in bad["message"]
    client.result("tasks/update", {"taskId": id, "inputResponses": {second: yes}})
    assert settle(client, id)["status"] == "completed"


@pytest.mark.parametrize("id", ["", "x", "x" * 32, "x" * 5000, "\u00e9" * 16, None, 5, {}, ["x"]])
@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel", "tasks/update"])
def test_what_is_no_id(server, method, id):
    with Http(server, MODERN, CAN) as c:
        c.extra = {"Mcp-Name": "x"} if not isinstance(id, str) or not id.isascii() else {}
        error = c.error(method, {"taskId": id, "inputResponses": {}})
        assert error["code"] in (-32602, -32020), error


def test_without_the_extension(server):
    with Http(server, MODERN, {}) as c:
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            error = c.error(method, {"taskId": "x", "inputResponses": {}})
            assert error["code"] == -32021
            assert error["data"]["requiredCapabilities"] == {"extensions": {TASKS: {}}}
        assert c.call("slow_compute", seconds=0)["resultType"] == "complete"
        assert c.error("tools/call", {"name": "failing_job"})["code"] == -32021


def test_old_clients_know_no_tasks(server):
    with Http(server, capabilities=CAN) as c:
        c.open()
        assert "taskId" not in c.call("slow_compute", seconds=0)
        assert c.error("tasks/get", {"taskId": "x"})["code"] == -32601


def test_others_tasks_do_not_exist(guarded):
    def key(name):
        return {"Authorization": f"Bearer key-of-{name}-0123456789"}

    with Http(guarded, MODERN, CAN, key("alice")) as alice, Http(
        guarded, MODERN, CAN, key("bob")
    ) as bob:
        id = alice.call("slow_compute", seconds=60)["taskId"]
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            params = {"taskId": id, "inputResponses": {}}
            assert bob.error(method, params)["code"] == -32602
        heard = bob.begin("subscriptions/listen", {"notifications": {"taskIds": [id]}})
        assert bob.until_note("notifications/subscriptions/acknowledged")[0]["notifications"] == {
            "taskIds": []
        }
        assert alice.result("tasks/get", {"taskId": id})["status"] == "working"
        alice.result("tasks/cancel", {"taskId": id})
        assert not bob.notes("notifications/tasks")
        bob.hang_up(heard)


def test_news_of_a_task(client):
    id = client.call("confirm_delete", filename="x")["taskId"]
    stream = client.begin("subscriptions/listen", {"notifications": {"taskIds": [id]}})
    client.until_note("notifications/subscriptions/acknowledged")
    key = next(iter(client.result("tasks/get", {"taskId": id})["inputRequests"]))
    yes = {"action": "accept", "content": {"confirm": True}}
    client.result("tasks/update", {"taskId": id, "inputResponses": {key: yes}})
    assert wait_until(lambda: len(client.notes("notifications/tasks")) >= 2)
    news = client.notes("notifications/tasks")
    assert [n["status"] for n in news] == ["working", "completed"]
    assert all(n["taskId"] == id for n in news)
    assert all(n["_meta"]["io.modelcontextprotocol/subscriptionId"] == stream for n in news)
    last = client.result("tasks/get", {"taskId": id})
    assert news[-1]["result"] == last["result"] and news[-1]["createdAt"] == last["createdAt"]


def test_too_many(server):
    with Http(server, MODERN, CAN) as c:
        made = []
        for _ in range(300):
            answer = c.request(
                "tools/call", {"name": "slow_compute", "arguments": {"seconds": 600}}
            )
            if "error" in answer:
                break
            made.append(answer["result"]["taskId"])
        assert len(made) <= 256
        assert "tasks/cancel" in answer["error"]["message"], answer
        for id in made:
            c.result("tasks/cancel", {"taskId": id})
        assert c.call("slow_compute", seconds=0)["resultType"] == "task"


def test_the_server_ends_with_tasks_in_it(cli):
    server = Server(cli, program=CONFORMANCE)
    with Http(server, MODERN, CAN) as c:
        c.call("slow_compute", seconds=600)
        c.call("multi_input")
    server.stop()
    assert server.process.returncode == 0, server.stderr()
