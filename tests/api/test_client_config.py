# SPDX-License-Identifier: Apache-2.0
"""`constrictor client-config`: the snippet on stdout is JSON for the client, the rest is on stderr."""

import json
import os
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
    (["--qqqqqqqqqqqq"], "'constrictor stdio --help-all'"),
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


# ---- --write -------------------------------------------------------------------------------------

PLACES = {
    "claude": ".config/Claude/claude_desktop_config.json",
    "vscode": ".config/Code/User/mcp.json",
    "cursor": ".cursor/mcp.json",
    "gemini": ".gemini/settings.json",
    "lmstudio": ".lmstudio/mcp.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "zed": ".config/zed/settings.json",
    "opencode": ".config/opencode/opencode.json",
}


@pytest.fixture
def home(tmp_path):
    folder = tmp_path.resolve() / "home"
    folder.mkdir()
    return folder


def write(cli, home, *args):
    return cli.call("client-config", "--write", *args, env={"HOME": str(home)})


def everything(home):
    return {str(path): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def test_write_makes_a_file_at_the_usual_place_of_each_client(cli, home):
    for name, place in PLACES.items():
        r = write(cli, home, name, "--", "--memory", "1G")
        path = home / place
        assert r.status == 0 and str(path) in r.out
        assert json.loads(path.read_text()) == json.loads(cli.call("client-config", name, "--", "--memory", "1G").raw)
        assert path.stat().st_mode & 0o7777 == 0o600
    r = write(cli, home, "codex")
    path = home / ".codex/config.toml"
    assert r.status == 0 and path.read_text() == cli.call("client-config", "codex").out
    assert not list(home.rglob("*.bak"))


ODD = '{\n    "z": 1.10, "a": 1e2,\n    "mcpServers": {\n        "other": {"command": "x", "args": ["}", "\\"{"]}\n    },\n    "last": "\\u00e4\\ud83d\\ude00", "big": 9007199254740993\n}\n'


@pytest.mark.parametrize("text, rest", [
    (ODD, None),
    ('{"mcpServers":{}}', None),
    ('{"mcpServers": {"constrictor": {"command": "old", "args": ["constrictor"]}, "b": {}}, "c": 1}', None),
    ('{\t}', None),
    ('{"a": {"mcpServers": {"constrictor": 1}}, "b": [[], {"mcpServers": 2}]}', None),
    (" \n", {}),
])
def test_write_keeps_everything_else(cli, home, text, rest):
    path = home / ".cursor/mcp.json"
    path.parent.mkdir()
    path.write_text(text)
    path.chmod(0o640)
    r = write(cli, home, "cursor")
    wanted = json.loads(text) if rest is None else rest
    wanted.setdefault("mcpServers", {})["constrictor"] = {"command": str(cli.program), "args": ["stdio"]}
    got = path.read_text()
    assert r.status == 0 and json.loads(got) == wanted and list(json.loads(got)) == list(wanted)
    assert path.stat().st_mode & 0o7777 == 0o640
    backup = path.with_name("mcp.json.bak")
    assert backup.read_text() == text and backup.name in r.out and backup.stat().st_mode & 0o7777 == 0o640
    if text == ODD:     # byte by byte, with the file's own indentation
        assert all(line in got for line in text.splitlines()[:2] + text.splitlines()[-2:])
        assert '\n        "constrictor": {\n            "command"' in got
    again = write(cli, home, "cursor")
    assert again.status == 0 and "already" in again.out and path.read_text() == got
    assert write(cli, home, "cursor", "--", "--memory", "1G").status == 0
    assert json.loads(path.read_text())["mcpServers"]["constrictor"]["args"] == ["stdio", "--memory", "1G"]
    assert backup.read_text() == text, "the backup is that of the first time"
    assert sorted(p.name for p in path.parent.iterdir()) == ["mcp.json", "mcp.json.bak"]


@pytest.mark.parametrize("text", ["{", "[]", '"text"', '{"mcpServers": []}', '{"a": 1, "a": 2}', '{"a": 1} x', '// a comment\n{}',
                                  '{"a": 1,}', '{"mcp\\u0053ervers": {}, "b": 1}', '{}\0', '{"a": "\xff"}'])
def test_write_changes_nothing_in_a_file_that_it_does_not_understand(cli, home, text):
    path = home / ".cursor/mcp.json"
    path.parent.mkdir()
    path.write_bytes(text.encode("latin-1"))
    before = everything(home)
    r = write(cli, home, "cursor")
    assert r.status == 64 and "bad_config_file" in r.err and str(path) in r.err and "nothing was changed" in r.err
    assert everything(home) == before


TOML = '''# mine
model = "gpt" # [mcp_servers.constrictor]
notes = """
[mcp_servers.constrictor]
"""
list = [ 1, # ]
  "]", {a = 'b', c.d = 1979-05-27 07:32:00}]
big = 0xFF_FF
[mcp_servers.other]
command = "x"
'''
OURS = '[mcp_servers.constrictor]\ncommand = "old"\n\n# about other things\n[projects."/home/me"]\ntrust = true\n'


@pytest.mark.parametrize("text", [TOML, TOML + OURS, TOML.rstrip("\n"), "", OURS + "[mcp_servers.constrictor.env]\nA = '1'\n"])
def test_write_merges_into_toml(cli, home, text):
    path = home / ".codex/config.toml"
    path.parent.mkdir()
    path.write_text(text)
    r = write(cli, home, "codex", "--", "--memory", "1G")
    wanted = tomllib.loads(text)
    extra = wanted.setdefault("mcp_servers", {}).get("constrictor", {})
    wanted["mcp_servers"]["constrictor"] = {"command": str(cli.program), "args": ["stdio", "--memory", "1G"]}
    if "env" in extra:
        wanted["mcp_servers"]["constrictor"]["env"] = extra["env"]
    got = path.read_text()
    assert r.status == 0 and tomllib.loads(got) == wanted, r.err
    assert all(line in got for line in text.splitlines() if line != 'command = "old"')
    assert "already" in write(cli, home, "codex", "--", "--memory", "1G").out and path.read_text() == got


@pytest.mark.parametrize("text, why", [
    ("this is no TOML\n", "line 1"),
    ("a = 1\n[broken\n", "line 2"),
    ("a = 1\nb = \n", "line 2"),
    ('a = "x\n', "line 1"),
    ("a = [1, 2\n", "line 1"),
    ("a = hello\n", "line 1"),
    ("a = 1abc\n", "line 1"),
    (".a = 1\n", "line 1"),
    ("mcp_servers = {}\n", "another form"),
    ('mcp_servers.constrictor.command = "x"\n', "another form"),
    ('[mcp_servers]\nconstrictor = {command = "x"}\n', "another form"),
    ("[[mcp_servers.constrictor]]\na = 1\n", "another form"),
    ("[mcp_servers.constrictor]\n[mcp_servers.constrictor]\n", "line 2"),
    ('["mcp\\u005fservers".constrictor]\n', "line 1"),
    ("a = " + "[" * 5000 + "]" * 5000 + "\n", "line 1"),
])
def test_write_refuses_toml_that_it_cannot_change(cli, home, text, why):
    path = home / ".codex/config.toml"
    path.parent.mkdir()
    path.write_text(text)
    r = write(cli, home, "codex")
    assert r.status == 64 and why in r.err and "nothing was changed" in r.err and everything(home) == {str(path): text.encode()}


def test_write_into_another_file_and_through_links(cli, home):
    project = home / "project"
    project.mkdir()
    r = cli.call("client-config", "claude", "--url", URL, "--file", str(project / ".mcp.json"))
    assert r.status == 0 and json.loads((project / ".mcp.json").read_text())["mcpServers"]["constrictor"]["url"] == URL
    real = project / "real.json"
    real.write_text("{}")
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").symlink_to(real)
    r = write(cli, home, "cursor")
    assert r.status == 0 and str(real) in r.out and (home / ".cursor/mcp.json").is_symlink() and "constrictor" in real.read_text()
    (project / "nothing.json").symlink_to("missing.json")
    (project / "folder").mkdir()
    os.mkfifo(project / "pipe")
    for bad in ("nothing.json", "folder", "folder/", "pipe"):
        before = everything(home)
        r = cli.call("client-config", "cursor", "--file", f"{project}/{bad}")
        assert r.status in (64, 66) and everything(home) == before
    open_folder = home / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    r = cli.call("client-config", "cursor", "--file", str(open_folder / "mcp.json"))
    assert r.status == 66 and "other users" in r.err and not list(open_folder.iterdir())


@pytest.mark.root
def test_write_follows_no_link_and_changes_no_file_of_another_user(cli, home):
    target = home / "target.json"
    target.write_text("{}")
    link = home / "link.json"
    link.symlink_to(target)
    os.lchown(link, 12345, 12345)
    theirs = home / "theirs.json"
    theirs.write_text("{}")
    os.chown(theirs, 12345, 12345)
    folder = home / "folder"
    folder.mkdir()
    os.chown(folder, 12345, 12345)
    before = everything(home)
    for path in (link, theirs, folder / "mcp.json"):
        r = cli.call("client-config", "cursor", "--file", str(path))
        assert r.status == 66 and "other user" in r.err.replace("another", "other") and everything(home) == before


def test_what_write_does_not_do(cli, home):
    r = write(cli, home, "claude-code", "--", "--memory", "1G")
    assert r.status == 0 and "run this line" in r.err and r.out.startswith("claude mcp add constrictor -- ")
    for args, why in ((["goose"], "YAML"), (["all"], "one client"), (["list"], "one client"), (["cursr"], "did you mean"),
                      (["claude", "--url", URL], "Connectors"), (["cursor", "--", "--memroy", "1"], "--memory")):
        r = write(cli, home, *args)
        assert r.status == 64 and why in r.err and r.raw == b""
    r = cli.call("client-config", f"--write={home}/x.json", "cursor")
    assert r.status == 64 and "--file" in r.err
    assert not list(home.iterdir())
