# SPDX-License-Identifier: Apache-2.0
"""Environment variables for code: field `env` of every interface, and `run --env-var NAME=VALUE`.

Code sees them in os.environ, and so do the programs that it starts. They hold for one run, or for a session when
it was opened with them. Their values are secrets as often as not: nothing but the code may ever show them.
"""

import json
import tempfile

import pytest
import rest_client
from mcp_client import several, text

SECRET = "tulip-4711-secret"
CHILD = (
    "import os, subprocess, sys\n"
    "print(subprocess.run(['sh', '-c', 'echo \"$TOKEN\"'], capture_output=True, text=True).stdout, end='')\n"
)


def look(name):
    return f"import os; print(os.environ.get({name!r}))"


@pytest.fixture(scope="module")
def api(shared_cli):
    log = tempfile.TemporaryFile(dir=shared_cli.folder)
    rest = rest_client.serve(shared_cli, "--stock", "2", "--log-level", "debug", stderr=log)
    rest.log = log
    return rest


# ---- the command line ----------------------------------------------------------------------------


def test_a_run_gets_variables_and_its_programs_too(cli):
    assert cli.plain(look("TOKEN"), "--env-var", "TOKEN=abc").out == "abc\n"
    assert cli.plain(CHILD, "--env-var", "TOKEN=abc").out == "abc\n"
    several = cli.plain("import os; print(os.environ['A'], os.environ['B'])", "--env-var", "A=1", "--env-var", "B=x=y,z")
    assert several.out == "1 x=y,z\n"
    assert cli.plain("import os; print(repr(os.environ['E']))", "--env-var", "E=").out == "''\n"


def test_a_name_alone_takes_the_callers_value(cli):
    """So that a secret is in no command line, which every user of the machine can read."""
    result = cli.plain(look("MY_TOKEN"), "--env-var", "MY_TOKEN", env={"MY_TOKEN": SECRET})
    assert result.out == SECRET + "\n"
    missing = cli.call("run", "--env-var", "NOT_SET_HERE", "-c", "1")
    assert missing.status == 64 and "NOT_SET_HERE" in missing.err, missing


def test_the_callers_environment_stays_outside(cli):
    assert cli.plain(look("MY_TOKEN"), env={"MY_TOKEN": SECRET}).out == "None\n"


@pytest.mark.parametrize("value", ["=x", "A B=1", "1A=2", "A\nB=1", "CONSTRICTOR_WHEELS=/x"])
def test_bad_names_are_refused_before_the_run(cli, value):
    result = cli.call("run", "--env-var", value, "-c", "print('ran')")
    assert result.status == 64 and "ran" not in result.out, result
    assert "env" in result.err


def test_a_refusal_never_shows_the_value(cli):
    for value in (f"A B={SECRET}", f"CONSTRICTOR_X={SECRET}", f"PYTHONHASHSEED={SECRET}"):
        result = cli.call("run", "--json", "--log-level", "debug", "--env-var", value, "-c", "1")
        assert result.status == 64, result
        assert SECRET not in result.out + result.err


def test_the_result_and_the_log_never_show_the_value(cli):
    result = cli.call("run", "--json", "--log-level", "debug", "--env-var", f"TOKEN={SECRET}", "-c", "1 / 0")
    assert result.status == 1
    assert SECRET not in result.out + result.err


def test_a_script_under_a_policy_gets_them(cli):
    result = cli.plain("import os; print(os.environ['A'])", "--policy", "guarded", "--allowed-imports", "os",
                       "--env-var", "A=1")  # fmt: skip
    assert result.out == "1\n", result


# ---- what the interpreter reads itself -----------------------------------------------------------


def test_the_time_zone_takes_effect(cli):
    result = cli.plain("import time; print(time.tzname[0], time.localtime(0).tm_hour)", "--env-var", "TZ=XYZ-3")
    assert result.out == "XYZ 3\n"


def test_path_and_home_are_the_users_own_business(cli):
    result = cli.plain("import os.path; print(os.path.expanduser('~'), os.environ['PATH'])",
                       "--env-var", "HOME=/tmp/me", "--env-var", "PATH=/opt/mine")  # fmt: skip
    assert result.out == "/tmp/me /opt/mine\n"


def test_pythonpath_is_on_sys_path_and_reaches_programs(api):
    files = [{"path": "lib/helper_of_mine.py", "text": "answer = 42"}]
    code = (
        "import helper_of_mine, subprocess, sys\n"
        "print(helper_of_mine.answer)\n"
        "child = subprocess.run([sys.executable, '-c', 'import helper_of_mine; print(helper_of_mine.answer)'],\n"
        "                       capture_output=True, text=True)\n"
        "print(child.stdout + child.stderr, end='')\n"
    )
    answer = api.run(code, files=files, env={"PYTHONPATH": "/mnt/data/lib"})
    assert answer["stdout"] == "42\n42\n", answer


def test_what_an_interpreter_reads_at_its_start_is_refused_by_name(api):
    answer = api.post("/execute", {"code": "1", "env": {"PYTHONHASHSEED": "0"}})
    assert answer.status == 400 and "PYTHONHASHSEED" in answer.json["detail"], answer


# ---- REST ----------------------------------------------------------------------------------------


def test_a_call_gets_them_and_the_next_does_not(api):
    assert api.run(look("TOKEN"), env={"TOKEN": SECRET})["stdout"] == SECRET + "\n"
    assert api.run(CHILD, env={"TOKEN": SECRET})["stdout"] == SECRET + "\n"
    assert api.run(look("TOKEN"))["stdout"] == "None\n"


def test_each_snippet_of_a_batch_has_its_own_or_the_batchs(api):
    items = [{"code": look("A")}, {"code": look("A"), "env": {"A": "mine"}}]
    answer = api.post("/batch", {"items": items, "env": {"A": "all"}, "stream": False}).json
    assert [item["execution"]["stdout"] for item in answer["results"]] == ["all\n", "mine\n"], answer


def test_a_session_keeps_those_it_was_opened_with(api):
    opened = api.post("/sessions", {"name": "env-kept", "env": {"TOKEN": SECRET, "MORE": "1"}})
    assert opened.status in (200, 201), opened
    assert SECRET not in json.dumps(opened.json)
    for _ in range(2):
        assert api.run(look("TOKEN"), session="env-kept")["stdout"] == SECRET + "\n"
    assert api.run(CHILD, session="env-kept")["stdout"] == SECRET + "\n"


def test_those_of_a_run_end_with_it_and_uncover_the_sessions(api):
    api.post("/sessions", {"name": "env-run", "env": {"TOKEN": "session"}})
    assert api.run(look("TOKEN"), session="env-run", env={"TOKEN": "run"})["stdout"] == "run\n"
    assert api.run(look("TOKEN"), session="env-run")["stdout"] == "session\n"
    assert api.run("1 / 0", session="env-run", env={"NEW": "1", "TZ": "XYZ-3"})["verdict"] == "error"
    after = api.run("import os, time; print(os.environ.get('NEW'), time.tzname[0])", session="env-run")
    assert after["stdout"] == "None UTC\n", after


def test_a_session_that_a_run_opens_keeps_none(api):
    assert api.run(look("TOKEN"), session="env-first", env={"TOKEN": "run"})["stdout"] == "run\n"
    assert api.run(look("TOKEN"), session="env-first")["stdout"] == "None\n"


def test_forks_and_undo_keep_the_sessions(api):
    api.post("/sessions", {"name": "env-fork", "env": {"TOKEN": "kept"}, "checkpoint": True})
    api.run("x = 1", session="env-fork")
    assert api.post("/sessions/env-fork/undo").status == 200
    assert api.run(look("TOKEN"), session="env-fork")["stdout"] == "kept\n"
    assert api.post("/sessions/env-fork/fork", {"name": "env-fork2"}).status in (200, 201)
    assert api.run(look("TOKEN"), session="env-fork2")["stdout"] == "kept\n"


@pytest.mark.parametrize("env, words", [
    ([], "env"), ("A=1", "env"), ({"A": 1}, "A"), ({"A": None}, "A"), ({"A": ["x"]}, "A"), ({"": "x"}, "env"),
    ({"A=B": "x"}, "A"), ({"A B": "x"}, "A B"), ({"1A": "x"}, "1A"), ({"É": "x"}, "env"), ({"A": "x\0y"}, "A"),
    ({"A" * 300: "x"}, "env"), ({f"A{n}": "x" for n in range(101)}, "101"), ({"A": "x" * 40000}, "A"),
    ({f"A{n}": "x" * 30000 for n in range(10)}, "bytes"), ({"CONSTRICTOR_WHEELS": "/x"}, "CONSTRICTOR_WHEELS"),
])  # fmt: skip
def test_bad_variables_are_refused_and_nothing_runs(api, env, words):
    for path, body in (("/execute", {"code": "1"}), ("/sessions", {}), ("/batch", {"items": [{"code": "1"}]})):
        answer = api.post(path, {**body, "env": env})
        assert answer.status == 400, answer
        assert words in answer.json["detail"] and answer.json["code"] == "bad_value", answer


def test_no_error_and_no_log_line_has_a_value(api):
    values = [SECRET, {"A B": SECRET}, {"A=" + SECRET: "1"}, {"A": [SECRET]}, {"A": SECRET + "\0"}, [SECRET]]
    for env in values:
        answer = api.post("/execute", {"code": "1", "env": env})
        assert answer.status == 400 and SECRET not in json.dumps(answer.json), answer
    api.run("raise SystemExit(3)", env={"TOKEN": SECRET})
    api.run("1 / 0", env={"TOKEN": SECRET}, session="env-log")
    for path in ("/sessions", "/sessions/env-log", "/health"):
        assert SECRET not in json.dumps(api.get(path).json)
    api.log.seek(0)
    assert SECRET.encode() not in api.log.read()


# ---- MCP -----------------------------------------------------------------------------------------


def test_tools_take_them(cli):
    with several(cli) as make:
        c = make()
        assert "env" in c.tools["execute_python"]["inputSchema"]["properties"]
        assert "env" in c.tools["open_session"]["inputSchema"]["properties"]
        assert SECRET in text(c.python(look("TOKEN"), env={"TOKEN": SECRET}))
        opened = c.call("open_session", name="lab", env={"TOKEN": "kept"})
        assert not opened.get("isError"), opened
        assert "kept" in text(c.python(look("TOKEN"), session="lab"))
        for tool, arguments in (("execute_python", {"code": "1"}), ("open_session", {})):
            for env in ({"A B": SECRET}, {"A": 1}, {"CONSTRICTOR_X": SECRET}, SECRET):
                said = c.call(tool, **arguments, env=env)
                assert SECRET not in json.dumps(said), said
        assert SECRET not in c.stderr()
