# SPDX-License-Identifier: Apache-2.0
"""Attacks on the MCP server that would reach another key, another box, or the server itself."""

import signal

import pytest
from conftest import wait_until
from mcp_client import Http, Server, Stdio


def test_a_key_does_not_inherit_from_the_line_above_it(cli):
    keys = cli.folder / "keys"
    keys.write_text("first-key-0123456789\nsecond-key-0123456789\n")
    keys.chmod(0o600)
    server = Server(cli, "--api-key-file", keys)
    first = Http(server, headers={"X-API-Key": "first-key-0123456789"})
    first.open()
    result = first.python("for i in range(30000): print('secret', i)")
    uri = next(b["uri"] for b in result["content"] if b["type"] == "resource_link")
    keys.write_text("second-key-0123456789\n")
    server.process.send_signal(signal.SIGHUP)
    assert wait_until(lambda: server.fetch("POST", "/mcp", "{}", first.headers())[0] == 401)
    second = Http(server, headers={"X-API-Key": "second-key-0123456789"})
    second.open()
    assert second.error("resources/read", {"uri": uri})["code"] == -32002
    second.close()


def test_capabilities_are_not_a_store(cli):
    with Stdio(cli) as c:
        params = {
            "protocolVersion": c.version,
            "capabilities": {"experimental": {"x": {"junk": "x" * 20000}}},
            "clientInfo": {"name": "hostile", "version": "1"},
        }
        error = c.error("initialize", params)
        assert error["code"] == -32602 and "8192" in error["message"]


def test_a_progress_token_is_short_or_none(cli):
    with Stdio(cli) as c:
        c.open()
        token = {"progressToken": "t" * 20000}
        c.result(
            "tools/call",
            {"name": "execute_python", "arguments": {"code": "import time; time.sleep(1.5)"}},
            meta=token,
        )
        assert not c.notes("notifications/progress")


def test_a_session_cannot_take_all_calls(cli):
    """Questions without an answer are calls in flight, for ever if the client likes."""
    server = Server(cli, "--consent", "always")
    hostile = Http(server, capabilities={"elicitation": {}})
    hostile.open()
    ids = [
        hostile.begin("tools/call", {"name": "execute_python", "arguments": {"code": "1"}})
        for _ in range(300)
    ]
    assert any("error" in (hostile.wait(id) or {}) for id in ids[-20:])
    other = Http(server)
    other.open()
    assert other.result("ping") == {}
    other.close()


@pytest.mark.parametrize("target", ["//mcp", "//a:b/mcp", "//[::1"])
def test_a_target_with_an_authority_gets_our_answer(cli, target):
    server = Server(cli)
    status, _, body = server.fetch("GET", target)[:3]
    assert status == 400 and b"<html" not in (body if isinstance(body, bytes) else body.encode()).lower()


def test_a_tab_before_a_value_is_no_part_of_it(cli):
    server = Server(cli)
    body = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
    assert server.fetch("POST", "/mcp", body, {"Content-Type": "\tapplication/json"})[0] == 400
