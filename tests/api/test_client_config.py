# SPDX-License-Identifier: Apache-2.0
"""`constrictor client-config`: the snippet on stdout is JSON for the client, the rest is on stderr."""

import json
import shlex

try:
    import tomllib
except ImportError:  # before Python 3.11
    import tomli as tomllib

import pytest
import yaml

URL = "http://127.0.0.1:8000/mcp"
STDIO = {
    "claude": ("mcpServers", None),
    "vscode": ("servers", "stdio"),
    "cursor": ("mcpServers", None),
    "gemini": ("mcpServers", None),
    "lmstudio": ("mcpServers", None),
    "windsurf": ("mcpServers", None),
    "zed": ("context_servers", None),
    "opencode": ("mcp", "local"),
}
TEXTS = "codex", "goose", "claude-code"
HTTP = {
    "claude": {"type": "http", "url": URL},
    "vscode": {"type": "http", "url": URL},
    "cursor": {"url": URL},
    "gemini": {"httpUrl": URL},
    "lmstudio": {"url": URL},
    "windsurf": {"serverUrl": URL},
    "zed": {"url": URL},
    "opencode": {"type": "remote", "url": URL},
}
FILES = {
    "claude": "claude_desktop_config.json",
    "vscode": ".vscode/mcp.json",
    "cursor": ".cursor/mcp.json",
    "gemini": ".gemini/settings.json",
    "lmstudio": ".lmstudio/mcp.json",
    "windsurf": "windsurf/mcp_config.json",
    "zed": "zed/settings.json",
    "opencode": "opencode.json",
}


@pytest.mark.parametrize("name", STDIO)
def test_a_client_that_starts_the_server(cli, name):
    r = cli.call("client-config", name)
    key, kind = STDIO[name]
    want = {"command": str(cli.program), "args": ["stdio"]}
    if name == "opencode":
        want = {"command": [str(cli.program), "stdio"]}
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
    assert r.status == 0 and [line.split()[0] for line in r.out.splitlines()] == [*STDIO, *TEXTS]


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


def test_clients_whose_settings_are_no_json(cli):
    program = str(cli.program)
    r = cli.call("client-config", "--tools", "full", "codex")
    found = tomllib.loads(r.out)["mcp_servers"]["constrictor"]
    assert r.status == 0 and found == {"command": program, "args": ["stdio", "--tools", "full"]} and "config.toml" in r.err
    r = cli.call("client-config", "goose")
    found = yaml.safe_load(r.out)["extensions"]["constrictor"]
    assert (found["cmd"], found["args"], found["type"], found["enabled"]) == (program, ["stdio"], "stdio", True)
    assert shlex.split(cli.call("client-config", "claude-code").out) == ["claude", "mcp", "add", "constrictor", "--", program, "stdio"]
    env = {"CONSTRICTOR_API_KEY": "hunter2-hunter2"}
    for name in TEXTS:
        r = cli.call("client-config", name, "--url", URL, env=env)
        assert r.status == 0 and URL in r.out and "CONSTRICTOR_API_KEY" in r.out and "hunter2" not in r.out + r.err
        evil = cli.call("client-config", name, "--url", "http://x/'; rm -rf \"$HOME\" #")
        assert evil.status == 64 and "rm -rf" not in evil.out


# ---- options behind "--" -------------------------------------------------------------------------

PASSED = ["--memory", "1G", "--python", "/opt/it's \"my\" \\ $HOME/python"]


def test_options_behind_two_dashes_are_arguments_of_stdio(cli):
    start = [str(cli.program), "stdio", *PASSED]
    for name, (key, _) in STDIO.items():
        r = cli.call("client-config", name, "--", *PASSED)
        server = json.loads(r.raw)[key]["constrictor"]
        assert r.status == 0 and (server["command"] if name == "opencode" else [server["command"], *server["args"]]) == start
    found = tomllib.loads(cli.call("client-config", "codex", "--", *PASSED).out)["mcp_servers"]["constrictor"]
    assert [found["command"], *found["args"]] == start
    found = yaml.safe_load(cli.call("client-config", "goose", "--", *PASSED).out)["extensions"]["constrictor"]
    assert [found["cmd"], *found["args"]] == start
    assert shlex.split(cli.call("client-config", "claude-code", "--", *PASSED).out)[5:] == start
    both = cli.call("client-config", "--tools", "full", "cursor", "--", "--memory", "1G")
    assert json.loads(both.raw)["mcpServers"]["constrictor"]["args"] == ["stdio", "--tools", "full", "--memory", "1G"]
    env = {"CONSTRICTOR_TOOLS": "executor"}
    one = cli.call("client-config", "cursor", "--", "--tools", "full", env=env)
    assert json.loads(one.raw)["mcpServers"]["constrictor"]["args"] == ["stdio", "--tools", "full"]
    assert cli.call("client-config", "cursor", "--").status == 0


@pytest.mark.parametrize("passed, why", [
    (["--memroy", "1G"], "did you mean --memory"),
    (["--memory", "much"], "--memory"),
    (["--memory"], "needs a value"),
    (["--port", "8000"], "option of other commands"),
    (["--tools", "nothing"], "tools"),
    (["file.py"], "takes no argument"),
    (["--help"], "help"),
])
def test_a_wrong_option_behind_two_dashes_is_refused(cli, passed, why):
    r = cli.call("client-config", "cursor", "--", *passed)
    assert r.status == 64 and r.raw == b"" and why in r.err


def test_what_two_dashes_cannot_go_with(cli):
    r = cli.call("client-config", "cursor", "--url", URL, "--", "--memory", "1G")
    assert r.status == 64 and r.raw == b"" and "constrictor serve" in r.err
    r = cli.call("client-config", "--tools", "full", "cursor", "--", "--tools", "executor")
    assert r.status == 64 and "given twice" in r.err
    r = cli.call("client-config", "--", "cursor")
    assert r.status == 64 and "needs the name of a client" in r.err
    r = cli.call("client-config", "cursor", "vscode", "--", "--memory", "1G")
    assert r.status == 64 and "second argument" in r.err
