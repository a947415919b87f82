# SPDX-License-Identifier: Apache-2.0
"""`constrictor client-config`: the snippet on stdout is JSON for the client, the rest is on stderr."""

import json

import pytest

URL = "http://127.0.0.1:8000/mcp"
STDIO = {
    "claude": ("mcpServers", None),
    "vscode": ("servers", "stdio"),
    "cursor": ("mcpServers", None),
    "gemini": ("mcpServers", None),
    "lmstudio": ("mcpServers", None),
}
HTTP = {
    "claude": {"type": "http", "url": URL},
    "vscode": {"type": "http", "url": URL},
    "cursor": {"url": URL},
    "gemini": {"httpUrl": URL},
    "lmstudio": {"url": URL},
}
FILES = {
    "claude": "claude_desktop_config.json",
    "vscode": ".vscode/mcp.json",
    "cursor": ".cursor/mcp.json",
    "gemini": ".gemini/settings.json",
    "lmstudio": ".lmstudio/mcp.json",
}


@pytest.mark.parametrize("name", STDIO)
def test_a_client_that_starts_the_server(cli, name):
    r = cli.call("client-config", name)
    key, kind = STDIO[name]
    want = {"command": str(cli.program), "args": ["stdio"]}
    if kind:
        want["type"] = kind
    assert r.status == 0 and json.loads(r.raw) == {key: {"constrictor": want}}
    assert FILES[name] in r.err


def test_tool_sets_are_passed_on(cli):
    r = cli.call("client-config", "--tools", "executor,kernels", "cursor")
    server = json.loads(r.raw)["mcpServers"]["constrictor"]
    assert server["args"] == ["stdio", "--tools", "executor,kernels"]
    assert cli.call("client-config", "--tools", "nothing", "cursor").status == 64
    r = cli.call("client-config", "--tools", "executor", "--url", URL, "cursor")
    assert r.status == 64 and "constrictor serve --tools" in r.err


@pytest.mark.parametrize("name", HTTP)
@pytest.mark.parametrize("behind", [False, True])
def test_a_client_of_a_running_server(cli, name, behind):
    r = cli.call("client-config", *([name, "--url", URL] if behind else ["--url", URL, name]))
    assert r.status == 0 and json.loads(r.raw) == {STDIO[name][0]: {"constrictor": HTTP[name]}}


def test_a_key_is_never_in_a_snippet(cli):
    env = {"CONSTRICTOR_API_KEY": "hunter2-hunter2"}
    r = cli.call("client-config", "all", "--url", URL, env=env)
    assert r.status == 0 and "hunter2" not in r.out + r.err
    for name, snippet in json.loads(r.raw).items():
        server = snippet[STDIO[name][0]]["constrictor"]
        assert server["headers"]["Authorization"].startswith("Bearer ")


def test_all_and_list(cli):
    r = cli.call("client-config", "all")
    assert r.status == 0 and set(json.loads(r.raw)) == set(STDIO)
    r = cli.call("client-config", "list")
    assert r.status == 0 and [line.split()[0] for line in r.out.splitlines()] == list(STDIO)


def test_unknown_names_are_told_the_known_ones(cli):
    for args, near in ((["cursr"], "cursor"), (["emacs"], None), ([], None)):
        r = cli.call("client-config", *args)
        assert r.status == 64 and r.raw == b"" and "[usage]" in r.err
        assert all(name in r.err for name in STDIO)
        if near:
            assert f"did you mean '{near}'" in r.err


def test_bad_addresses_and_arguments(cli):
    for url in ("127.0.0.1:8000", "ftp://x/", "javascript:alert(1)", ""):
        r = cli.call("client-config", "cursor", "--url", url)
        assert r.status == 64 and "[bad_value]" in r.err and r.raw == b""
    r = cli.call("client-config", "cursor", "vscode")
    assert r.status == 64 and "second argument" in r.err
    r = cli.call("client-config", "cursor", "--nonsense")
    assert r.status == 64 and "--nonsense" in r.err
