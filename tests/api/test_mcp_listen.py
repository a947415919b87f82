# SPDX-License-Identifier: Apache-2.0
"""News of changes: resources/subscribe and list_changed of the old era, subscriptions/listen of the
new one, on each transport."""

import time

import pytest
from conftest import CONFORMANCE, open_cli, wait_until
from mcp_client import LEGACY, META, MODERN, Http, Server, Sse, Stdio, check_received

WATCHED = "test://watched-resource"
UPDATED = "notifications/resources/updated"
TOOLS = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"
ACK = "notifications/subscriptions/acknowledged"


@pytest.fixture(scope="module")
def server(program):
    with open_cli(program) as cli:
        yield Server(cli, "--legacy-sse", program=CONFORMANCE)


@pytest.fixture(params=["http", "stdio"])
def modern(request, cli, server):
    if request.param == "http":
        c = Http(server, MODERN)
    else:
        c = Stdio(cli, program=CONFORMANCE, version=MODERN)
    with c:
        yield c
        check_received(c)


@pytest.fixture(params=["http", "stdio", "sse"])
def legacy(request, cli, server):
    if request.param == "stdio":
        c = Stdio(cli, program=CONFORMANCE)
    else:
        c = Http(server) if request.param == "http" else Sse(server)
    with c:
        c.open()
        if request.param == "http":
            c.listen()
        yield c
        check_received(c)


def listen(c, **filter):
    """Begins to listen; the id and what was agreed on."""
    id = c.begin("subscriptions/listen", {"notifications": filter})

    def mine():
        tagged = [n for n in c.notes(ACK) if n["_meta"][META + "subscriptionId"] == id]
        return tagged[0] if tagged else None

    ack = wait_until(mine)
    assert ack, c.received
    return id, ack["notifications"]


def hang_up(c, id):
    if isinstance(c, Http):
        c.hang_up(id)
    else:
        c.cancel(id)


def settled(c):
    """Whatever was on its way has arrived."""
    time.sleep(0.2)


def test_only_what_was_asked_for(modern):
    id, agreed = listen(modern, toolsListChanged=True)
    assert agreed == {"toolsListChanged": True}
    modern.call("test_trigger_prompt_change")
    modern.call("test_trigger_resource_update")
    modern.call("test_trigger_tool_change")
    assert modern.until_note(TOOLS) == [{"_meta": {META + "subscriptionId": id}}]
    settled(modern)
    assert not modern.notes(PROMPTS) and not modern.notes(UPDATED)
    hang_up(modern, id)


def test_a_resource(modern):
    id, agreed = listen(modern, resourceSubscriptions=[WATCHED, "test://nothing"])
    assert agreed == {"resourceSubscriptions": [WATCHED]}
    modern.call("test_trigger_resource_update")
    assert modern.until_note(UPDATED) == [{"uri": WATCHED, "_meta": {META + "subscriptionId": id}}]
    hang_up(modern, id)


def test_two_streams(modern):
    first, _ = listen(modern, toolsListChanged=True)
    second, _ = listen(modern, toolsListChanged=True, promptsListChanged=True)
    modern.call("test_trigger_tool_change")
    assert wait_until(lambda: len(modern.notes(TOOLS)) == 2)
    tags = {n["_meta"][META + "subscriptionId"] for n in modern.notes(TOOLS)}
    assert tags == {first, second}
    hang_up(modern, first)
    settled(modern)
    modern.call("test_trigger_tool_change")
    assert wait_until(lambda: len(modern.notes(TOOLS)) == 3)
    settled(modern)
    assert modern.notes(TOOLS)[-1]["_meta"][META + "subscriptionId"] == second
    assert first not in modern.answers, "a cancelled request was answered"
    hang_up(modern, second)


@pytest.mark.parametrize(
    "filter",
    [
        None,
        [],
        {"toolsListChanged": "yes"},
        {"resourceSubscriptions": WATCHED},
        {"resourceSubscriptions": [5]},
        {"resourceSubscriptions": [""]},
        {"resourceSubscriptions": ["x" * 5000]},
        {"resourceSubscriptions": ["x"] * 1025},
    ],
)
def test_filters_that_are_none(server, filter):
    with Http(server, MODERN) as c:
        assert c.error("subscriptions/listen", {"notifications": filter})["code"] == -32602


def test_tasks_need_the_extension(server):
    with Http(server, MODERN) as c:
        error = c.error("subscriptions/listen", {"notifications": {"taskIds": ["x"]}})
        assert error["code"] == -32021
        assert list(error["data"]["requiredCapabilities"]) == ["extensions"]


def test_the_server_says_good_bye(cli):
    server = Server(cli)
    with Http(server, MODERN) as c:
        id, _ = listen(c, toolsListChanged=True)
        assert server.stop() < 8
        result = c.wait(id, 5)["result"]
        assert result["resultType"] == "complete"
        assert result["_meta"][META + "subscriptionId"] == id
        check_received(c)
    assert server.process.returncode == 0, server.stderr()


def test_the_server_says_good_bye_on_a_pipe(cli):
    with Stdio(cli, program=CONFORMANCE, version=MODERN) as c:
        id, _ = listen(c, toolsListChanged=True)
        c.process.terminate()
        assert c.wait(id, 5)["result"]["_meta"][META + "subscriptionId"] == id
        assert [n["requestId"] for n in c.notes("notifications/cancelled")] == [id]
        check_received(c)


def test_a_listener_does_not_hold_up_the_end(cli):
    with Stdio(cli, program=CONFORMANCE, version=MODERN) as c:
        listen(c, toolsListChanged=True)
        assert c.close() < 2


def test_many_listeners_come_and_go(server):
    with Http(server, MODERN) as c:
        for _ in range(20):
            ids = [
                c.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
                for _ in range(5)
            ]
            for id in ids:
                c.hang_up(id)
        assert c.call("test_trigger_tool_change")


# -- the old era


def test_lists_of_the_old_era(legacy):
    legacy.call("test_trigger_tool_change")
    legacy.until_note(TOOLS)
    legacy.call("test_trigger_prompt_change")
    legacy.until_note(PROMPTS)


def test_subscribe(legacy):
    legacy.call("test_trigger_resource_update")
    settled(legacy)
    assert not legacy.notes(UPDATED)
    for _ in range(2):  # once is enough
        assert legacy.result("resources/subscribe", {"uri": WATCHED}) == {}
    legacy.call("test_trigger_resource_update")
    assert legacy.until_note(UPDATED) == [{"uri": WATCHED}]
    assert legacy.result("resources/unsubscribe", {"uri": WATCHED}) == {}
    assert legacy.result("resources/unsubscribe", {"uri": WATCHED}) == {}
    legacy.call("test_trigger_resource_update")
    settled(legacy)
    assert len(legacy.notes(UPDATED)) == 1


@pytest.mark.parametrize("params", [None, {}, {"uri": 5}, {"uri": ""}, {"uri": "x" * 100000}])
def test_what_is_no_uri(server, params):
    with Http(server) as c:
        c.open()
        assert c.error("resources/subscribe", params)["code"] == -32602


def test_unknown_resource(legacy):
    error = legacy.error("resources/subscribe", {"uri": "test://nothing"})
    assert error["code"] == -32002 and error["data"]["uri"] == "test://nothing"


def test_too_many_subscriptions(cli):
    with Stdio(cli, program=CONFORMANCE) as c:
        c.open()
        ids = [
            c.begin("resources/subscribe", {"uri": f"test://template/{i}/data"})
            for i in range(1025)
        ]
        answers = [c.wait(id) for id in ids]
        assert all("result" in a for a in answers[:1024])
        assert "1024" in answers[1024]["error"]["message"]


def test_modern_methods_are_modern(server):
    with Http(server) as c:
        c.open()
        assert c.error("subscriptions/listen", {"notifications": {}})["code"] == -32601
    with Http(server, MODERN) as c:
        for method in ("resources/subscribe", "resources/unsubscribe"):
            assert c.error(method, {"uri": WATCHED})["code"] == -32601


def test_both_eras_on_one_pipe(cli):
    with Stdio(cli, program=CONFORMANCE, version=LEGACY[-1]) as c:
        c.open()
        meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
        id = c.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, meta)
        c.until_note(ACK)
        c.call("test_trigger_tool_change")
        assert wait_until(lambda: len(c.notes(TOOLS)) == 2)
        tags = [n.get("_meta", {}).get(META + "subscriptionId") for n in c.notes(TOOLS)]
        assert sorted(tags, key=str) == sorted([None, id], key=str)
