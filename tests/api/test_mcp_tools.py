# SPDX-License-Identifier: Apache-2.0
"""The tools that run code, over stdio and in both eras: every argument, every verdict that comes
quickly, shortened output, cancellation, background runs, consent, progress, resources.

Each connection ends with the schema oracle, and each structured result is held against the schema
that its tool declares.
"""

import json
import re
import time

import jsonschema
import pytest
from conftest import VERDICTS, open_cli, wait_until
from mcp_client import (
    LEGACY,
    MODERN,
    TASKS,
    VERSIONS,
    Http,
    Server,
    alive,
    check_received,
    check_schema,
    connect,
    marked,
    text,
    several,
)

BOTH = (LEGACY[-1], MODERN)
SMALL = ("--processes", "16", "--scratch", "4M", "--output", "256K", "--text-budget", "2000")
ID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
CAN = {"elicitation": {}}


@pytest.fixture(scope="module", params=BOTH)
def c(request, program):
    """One server for many tests: runs do not see each other."""
    with open_cli(program) as cli:
        with connect(cli, version=request.param) as connection:
            yield connection
            check_received(connection)


@pytest.fixture(scope="module")
def small(program):
    with open_cli(program) as cli:
        with connect(cli, *SMALL) as connection:
            yield connection
            check_received(connection)


@pytest.fixture
def fresh(cli):
    with several(cli) as make:
        yield make


def run(c, code, **arguments):
    """The structured result, after everything that is true of each of them."""
    answer = c.python(code, **arguments)
    return checked(c, answer)


def checked(c, answer, tool="execute_python"):
    found = answer["structuredContent"]
    jsonschema.validate(found, c.tools[tool]["outputSchema"])
    assert answer.get("isError", False) == (found.get("verdict", "ok") != "ok")
    for link in [b for b in answer["content"] if b["type"] == "resource_link"]:
        assert link["uri"] in text(answer)
    if "verdict" in found:
        assert found["verdict"] in ("ok", "error") or found["verdict"] in text(answer)
    return found


def tool_error(answer):
    """A refusal that a model can act on: its text and its code."""
    assert answer["isError"] and "structuredContent" not in answer, answer
    said = text(answer)
    return said, re.search(r"^code: (\w+)$", said, re.M)[1]


# ---- lists ---------------------------------------------------------------------------------------


def test_the_list_is_the_same_each_time(c):
    first, second = (c.result("tools/list") for _ in range(2))
    assert json.dumps(first) == json.dumps(second)
    assert [t["name"] for t in first["tools"]] == [
        "execute_python",
        "check_run",
        "validate_code",
        "open_session",
        "list_sessions",
        "interrupt_session",
        "close_session",
        "checkpoint_session",
        "undo_session",
        "fork_session",
        "install_package",
        "create_python_env",
        "uninstall_package",
        "reset_sandbox",
        "check_package_status",
        "list_installed_packages",
        "list_files",
        "read_file",
        "write_file",
        "delete_file",
        "get_sandbox_info",
    ]
    for tool in first["tools"]:
        assert tool["title"] and len(tool["description"]) > 50
        assert "icons" not in tool  # a client may show each of them to the model
        reaches = ("install_package", "create_python_env")  # the index of packages
        assert tool["annotations"]["openWorldHint"] is (tool["name"] in reaches)
        destroys = ("close_session", "undo_session", "uninstall_package", "reset_sandbox", "write_file",
                    "delete_file")
        assert tool["annotations"]["destructiveHint"] is (tool["name"] in destroys)
        for schema in [tool["inputSchema"], *([tool["outputSchema"]] if "outputSchema" in tool else [])]:
            assert schema["type"] == "object" and "$ref" not in json.dumps(schema)
            assert not {"oneOf", "anyOf", "allOf", "if", "not"} & set(schema)
            check_schema(schema)
    verdicts = first["tools"][0]["outputSchema"]["properties"]["verdict"]["enum"]
    assert set(verdicts) == VERDICTS and len(verdicts) == len(VERDICTS)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_revision_has_the_fields_that_it_knows(fresh, version):
    tool = fresh(version=version).tools["execute_python"]
    assert ("annotations" in tool) == (version >= "2025-03-26")
    assert ("title" in tool) == ("outputSchema" in tool) == (version >= "2025-06-18")


@pytest.mark.parametrize("version", VERSIONS)
def test_each_revision_gets_the_answer_that_it_knows(fresh, version):
    c = fresh("--text-budget", "1000", version=version)
    answer = c.python("print('x' * 5000)\n6 * 7")
    assert ("structuredContent" in answer) == (version >= "2025-06-18")
    kinds = {block["type"] for block in answer["content"]}
    assert ("resource_link" in kinds) == (version >= "2025-06-18")
    assert "result: 42" in text(answer) and "run://" in text(answer)  # complete without the rest


# ---- calls that are not served -------------------------------------------------------------------


@pytest.mark.parametrize(
    "params, said",
    [
        ({}, "name"),
        ({"name": 5}, "name"),
        ({"name": "execute_pyton"}, "did you mean 'execute_python'"),
        ({"name": "nothing\x1b[31m" + "x" * 5000}, "unknown tool"),
        ({"name": "execute_python", "arguments": []}, "arguments"),
    ],
)
def test_bad_calls_are_protocol_errors(c, params, said):
    error = c.error("tools/call", params)
    assert error["code"] == -32602 and said in error["message"]
    assert "\x1b" not in error["message"] and len(error["message"]) < 1000


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({}, "argument 'code' is missing"),
        ({"code": 5}, "argument 'code' is 5, but must be a string"),
        ({"code": None}, "argument 'code' is null"),
        ({"code": "1", "timeout": -1}, "argument 'timeout' is -1, but must be at least 0.1"),
        ({"code": "1", "timeout": 1e9}, "must be at most 300"),
        ({"code": "1", "timeout": "5s"}, "argument 'timeout' is \"5s\", but must be a number"),
        ({"code": "1", "timeout": "1e999"}, "argument 'timeout' is \"1e999\", but must be a number"),
        ({"code": "1", "timeout": "NaN"}, "argument 'timeout' is \"NaN\", but must be a number"),
        ({"code": "1", "timeout": "-1"}, "argument 'timeout' is -1, but must be at least 0.1"),
        ({"code": "1", "memory_mb": "64.5"}, "argument 'memory_mb' is \"64.5\", but must be an integer"),
        ({"code": "1", "memory_mb": 1.5}, "argument 'memory_mb' is 1.5, but must be an integer"),
        ({"code": "1", "memory_mb": 8}, "must be at least 16"),
        ({"code": "1", "memory_mb": 10**9}, "must be at most 2048"),
        ({"code": "1", "cpu_seconds": 0}, "must be at least 0.1"),
        ({"code": "1", "args": "x"}, "argument 'args' is \"x\", but must be an array"),
        ({"code": "1", "args": ["a", 1]}, "argument 'args[1]' is 1, but must be a string"),
        ({"code": "1", "args": ["a"] * 257}, "argument 'args' has 257 items"),
        ({"code": "1", "background": 1}, "argument 'background' is 1, but must be a boolean"),
        ({"code": "1", "time_out": 1}, "no argument 'time_out', did you mean 'timeout'?"),
        ({"code": "1", "stdinput": ""}, "no argument 'stdinput'"),
    ],
)
def test_bad_arguments_are_tool_errors(c, arguments, said):
    message, code = tool_error(c.call("execute_python", **arguments))
    assert said in message and code == "bad_value" and "hint: " in message


def test_a_text_that_holds_the_value_is_taken_for_it(c):
    """Models write numbers, booleans, lists and objects as texts; a text argument stays the text that it is."""
    said = text(c.call("execute_python", code="import sys\nprint(sys.argv[1:], v)", timeout="5", memory_mb="64",
                       args='["a", "b"]', variables='{"v": 7}', background="false"))
    assert "['a', 'b'] 7" in said
    assert "'12'" in text(c.call("execute_python", code="import sys\nrepr(sys.argv[1])", args=["12"]))
    message, _ = tool_error(c.call("execute_python", code="1", args="[" * 5000))
    assert "must be an array" in message
    message, _ = tool_error(c.call("execute_python", code="1", args="[" + "1," * 200000 + "1]"))
    assert "must be an array" in message


def test_null_is_an_argument_that_is_left_out(c):
    """Clients that fill in every field of a form write it; REST takes it as well."""
    nulls = dict.fromkeys(("session", "timeout", "network", "packages", "files", "variables"))
    assert "42" in text(c.call("execute_python", code="6*7", **nulls))
    assert c.call("execute_python", code=None)["isError"]


def test_bad_source(c):
    message, code = tool_error(c.python("x = 1\ny = '\0'"))
    assert code == "source_has_nul_byte" and "line 2" in message


def test_too_much_source(fresh):
    message, code = tool_error(fresh("--source", "1K").python("#" * 2000))
    assert code == "source_too_large" and "1024" in message


# ---- arguments -----------------------------------------------------------------------------------


def test_output_and_value(c):
    answer = c.python("import sys\nprint('out')\nprint('err', file=sys.stderr)\n{'a': [1, None]}")
    found = checked(c, answer)
    assert found["verdict"] == "ok" and found["success"] and found["exit_code"] == 0
    assert (found["stdout"], found["stderr"]) == ("out\n", "err\n")
    assert found["result"] == "{'a': [1, None]}" and found["result_json"] == {"a": [1, None]}
    assert found["state"] == "finished" and ID.match(found["execution_id"])
    said = text(answer)
    assert "stdout:\nout\nstderr:\nerr\nresult: {'a': [1, None]}" in said


def test_no_output(c):
    assert text(c.python("x = 1")) == "no output"
    assert text(c.python("")) == "no output"


def test_args(c):
    args = ["a b", "", "-x", "ä€😀", "x" * 3000]
    assert run(c, "import sys\nsys.argv", args=args)["result_json"] == ["<code>", *args]
    assert run(c, "import sys\nsys.argv")["result_json"] == ["<code>"]


def test_memory(c):
    code = "x = bytearray(100 << 20)\nlen(x)"
    assert run(c, code, memory_mb=64)["verdict"] == "out_of_memory"
    found = run(c, code, memory_mb=400)
    assert found["verdict"] == "ok" and found["result_json"] == 100 << 20
    assert run(c, "1", memory_mb=64.0)["verdict"] == "ok"


def test_timeout_keeps_what_was_printed(c):
    answer = c.python("import time\nprint('before', flush=True)\ntime.sleep(60)", timeout=0.5)
    found = checked(c, answer)
    assert found["verdict"] == "timeout_wall" and found["stdout"] == "before\n"
    assert found["limit"] == {"name": "wall", "value": 500, "unit": "ms"}
    assert text(answer).startswith("timeout_wall in line 3: time.sleep(60)\nhint: ") and "before" in text(answer)


def test_cpu_seconds(c):
    found = run(c, "while True: pass", cpu_seconds=0.3, timeout=100)
    assert found["verdict"] == "timeout_cpu" and found["limit"]["value"] == 300


def test_runs_do_not_see_each_other(c):
    run(c, "import builtins\nbuiltins.left = 1\nopen('/mnt/data/left', 'w').write('x')")
    found = run(c, "import builtins, os\n[hasattr(builtins, 'left'), os.listdir('/mnt/data')]")
    assert found["result_json"] == [False, []]


# ---- errors and verdicts -------------------------------------------------------------------------


def test_the_first_words_of_a_message_are_its_headline(c):
    answer = c.call("execute_python", code="raise ValueError('\\n\\n  not a number\\nmore')")
    assert "\nValueError: not a number\u2026\n" in text(answer), text(answer)


def test_an_error_names_its_line_first(c):
    answer = c.python("print('so far')\ndef f(x):\n    return 1 / x\nf(0)")
    found = checked(c, answer)
    assert found["error"]["type"] == "ZeroDivisionError" and found["error"]["line"] == 3
    assert found["stdout"] == "so far\n"
    said = text(answer)
    assert said.startswith("line 3: return 1 / x\nZeroDivisionError: division by zero\n")
    assert said.index("called from line 4: f(0)") < said.index("stdout:\nso far")


def test_bad_syntax_is_a_result(c):
    answer = c.python("x = 1\nif x\n    pass")
    found = checked(c, answer)
    assert found["phase"] == "syntax_check" and found["error"]["type"] == "SyntaxError"
    assert text(answer).startswith("line 2: if x\nSyntaxError: ")


def test_exit_codes(c):
    found = run(c, "import sys\nsys.exit(7)")
    assert (found["verdict"], found["exit_code"]) == ("error", 7)
    found = run(c, "import os\nos._exit(3)")
    assert (found["verdict"], found["exit_code"]) == ("error", 3)
    assert run(c, "import sys\nsys.exit(0)")["verdict"] == "ok"


def test_signals(c):
    answer = c.python("import os\nos.kill(os.getpid(), 11)")
    assert checked(c, answer)["signal"] == 11 and text(answer).startswith("error: signal 11\n")


def test_verdicts_of_limits(small):
    code = "import os, time\nfor i in range(40):\n    if os.fork() == 0:\n        time.sleep(60)"
    found = run(small, code)
    assert found["verdict"] == "too_many_processes", found
    found = run(small, "open('/mnt/data/x', 'wb').write(b'x' * (6 << 20))")
    assert found["verdict"] == "disk_full", found
    found = run(small, "while True: print('y' * 1000)")
    assert found["verdict"] == "output_limit"
    assert found["truncated"]["stdout"]["total"] >= 256 << 10 > found["truncated"]["stdout"]["kept"]


# ---- shortened output ----------------------------------------------------------------------------


def test_long_output_keeps_its_ends(small):
    answer = small.python("for i in range(5000): print('line', i)\n'done'")
    found, said = checked(small, answer), text(answer)
    assert 1500 < len(said) <= 2000
    assert said.startswith("stdout:\nline 0\nline 1\n")
    assert "line 4999\nresult: 'done'" in said
    left = int(re.search(r"^\[… (\d+) characters left out; full text: (\S+)\]$", said, re.M)[1])
    uri = found["truncated"]["stdout"]["full_output_uri"]
    assert f"full text: {uri}]" in said and uri in found["stdout"]
    whole = small.result("resources/read", {"uri": uri})["contents"][0]["text"]
    assert whole == "".join(f"line {i}\n" for i in range(5000))
    cut = found["truncated"]["stdout"]
    assert cut["total"] == len(whole) == cut["kept"] + left
    [link] = [b for b in answer["content"] if b["type"] == "resource_link"]
    assert link["uri"] == uri and link["size"] == len(whole)


def test_everything_long_at_once(small):
    answer = small.python(
        "import sys\nprint('ä' * 20000)\nprint('€' * 20000, file=sys.stderr)\n"
        "raise ValueError('😀' * 5000)"
    )
    found, said = checked(small, answer), text(answer)
    assert len(said) <= 2000
    assert set(found["truncated"]) >= {"stdout", "stderr", "error"}
    for part, one in ("stdout", "ä"), ("stderr", "€"), ("error", "😀"):
        uri = found["truncated"][part]["full_output_uri"]
        assert (
            small.result("resources/read", {"uri": uri})["contents"][0]["text"].count(one) >= 4000
        )
    assert len(json.dumps(found, ensure_ascii=False)) < 8000


def test_a_long_value(small):
    found = run(small, "'v' * 50000")
    assert found["truncated"]["result"]["total"] == 50002 and "result_json" not in found
    assert found["truncated"]["result_json"]["kept"] == 0


def test_no_links(fresh):
    c = fresh("--no-links", "--text-budget", "1000")
    answer = c.python("print('x' * 5000)")
    assert [b["type"] for b in answer["content"]] == ["text"] and "run://" in text(answer)


def test_bytes_that_are_no_text(c):
    answer = c.python("import sys\nsys.stdout.buffer.write(b'a\\0b\\x1b[31m\\xff\\x7f')")
    assert "a␀b␛[31m\ufffd␡" in text(answer)
    assert checked(c, answer)["stdout"] == "a␀b\x1b[31m\ufffd\x7f"


# ---- cancellation --------------------------------------------------------------------------------


HIDDEN = "\u202e\u2066\u200b\ufeff\U000e0041"


def test_what_cannot_be_seen_is_written_out_in_text_and_stays_in_the_object(c):
    """A model and the person beside it read the same; a program gets the characters themselves."""
    code = f"print({ascii('a' + HIDDEN + 'b')})\nopen({ascii('x' + HIDDEN)}, 'w').close()\n{ascii('v' + HIDDEN)}"
    answer = c.python(code)
    shown = json.dumps(answer["content"], ensure_ascii=False)
    assert not any(sign in shown for sign in HIDDEN), ascii(shown)
    assert "a\\u202e\\u2066\\u200b\\ufeff\\udb40\\udc41b" in text(answer), text(answer)
    assert answer["structuredContent"]["stdout"] == f"a{HIDDEN}b\n"
    needed = "\u05e9\u200f! \u061c \u0645\u06cc\u200c\u062e"     # Hebrew, Arabic, Persian
    assert needed in text(c.python(f"print({ascii(needed)})"))


def test_characters_that_cannot_be_seen_do_not_outgrow_the_budget(small):
    answer = small.python("print('\\u202e' * 30000)\n'\\u202e' * 3000")
    assert len(text(answer)) <= 2000 and "left out" in text(answer)


@pytest.mark.parametrize("version", BOTH)
def test_cancel_kills_the_whole_tree(fresh, version):
    c = fresh(version=version)
    mark = f"tree{version[-2:]}"
    code = marked(
        mark,
        "import os\nfor _ in range(3): os.fork()\nprint('up', flush=True)\n"
        "os.setsid() if os.getpid() != 1 else 0\ntime.sleep(60)",
    )
    id = c.begin("tools/call", {"name": "execute_python", "arguments": {"code": code}})
    assert wait_until(lambda: alive(mark) == 8)
    c.cancel(id)
    assert wait_until(lambda: alive(mark) == 0)
    assert run(c, "1 + 1")["result"] == "2"
    time.sleep(0.3)
    assert id not in c.answers  # nothing more was said


def test_cancel_before_there_is_a_box(fresh):
    c = fresh()
    ids = [
        c.begin("tools/call", {"name": "execute_python", "arguments": {"code": marked("early")}})
        for _ in range(20)
    ]
    for id in ids:
        c.cancel(id)
    assert wait_until(lambda: alive("early") == 0)
    assert run(c, "1 + 1")["result"] == "2"
    assert not set(ids) & set(c.answers)


# ---- progress ------------------------------------------------------------------------------------


def test_progress(c):
    """Once a second, for those who asked: one with each kind of token, and one without, at the same time."""
    before = len(c.notes("notifications/progress"))
    code = "import time\nprint('step 0')\nprint('step 1', flush=True)\ntime.sleep(2.5)"
    params = {"name": "execute_python", "arguments": {"code": code, "timeout": 20}}
    ids = [c.begin("tools/call", params, meta) for meta in ({"progressToken": "p1"}, {"progressToken": 7}, None)]
    for id in ids:
        assert c.wait(id)["result"]["structuredContent"]["verdict"] == "ok"
    heard = c.notes("notifications/progress")[before:]
    assert {n["progressToken"] for n in heard} == {"p1", 7}, heard
    for token in ("p1", 7):
        notes = [n for n in heard if n["progressToken"] == token]
        values = [n["progress"] for n in notes]
        assert len(notes) >= 2 and values[0] > 0.9 and notes[0]["total"] >= 20, notes
        assert all(later - earlier > 0.9 for earlier, later in zip(values, values[1:])), values
        assert re.match(r"^running \d+ s, 2 lines of output: step 1$", notes[0]["message"]), notes


# ---- background ----------------------------------------------------------------------------------


# Runs until it is told that this was long enough: in a session, which a file can be written to.
UNTIL_GO = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)\n"


def go(c, session):
    # A session that is being opened says that it is not ready yet.
    assert wait_until(lambda: not c.call("write_file", session=session, path="go", text="").get("isError"))


def test_background(c):
    begun = c.python("print('step 0', flush=True)\n" + UNTIL_GO + "print('step 1')\n'end'", session="bg", background=True)
    found = checked(c, begun)
    assert found["state"] == "running" and "check_run" in text(begun)
    id = found["execution_id"]
    c.call("check_run", execution_id=id, wait=0.7)
    first = wait_until(lambda: (a := c.call("check_run", execution_id=id)) and "step 0" in text(a) and a)
    found = checked(c, first, "check_run")
    assert (
        found["state"] == "running" and "step 0\n" in found["stdout"] and found["elapsed_ms"] > 500
    )
    assert "still running" in text(first) and "step 0" in text(first)
    # what there is so far can be read, too
    uri = f"run://{id}/stdout"
    assert "step 0" in c.result("resources/read", {"uri": uri})["contents"][0]["text"]
    go(c, "bg")
    start = time.monotonic()
    for _ in range(2):  # again and again
        found = checked(c, c.call("check_run", execution_id=id, wait=20), "check_run")
        assert found["state"] == "finished" and found["verdict"] == "ok"
        assert found["result"] == "'end'" and found["stdout"].count("step") == 2
        assert found["execution_id"] == id
    assert time.monotonic() - start < 20, "it waited although it was over"
    assert c.result("resources/read", {"uri": uri})["contents"][0]["text"] == found["stdout"]
    assert (
        c.result("resources/read", {"uri": f"run://{id}/result"})["contents"][0]["text"] == "'end'"
    )


def test_a_background_run_that_fails(c):
    id = run(c, "1 / 0", background=True)["execution_id"]
    answer = c.call("check_run", execution_id=id, wait=10)
    assert answer["isError"] and checked(c, answer, "check_run")["verdict"] == "error"
    assert text(answer).startswith("line 1: 1 / 0\nZeroDivisionError")


def test_several_wait_for_one_run(c):
    id = run(c, UNTIL_GO, session="several", background=True)["execution_id"]
    params = {"name": "check_run", "arguments": {"execution_id": id, "wait": 20}}
    calls = [c.begin("tools/call", params) for _ in range(20)]
    go(c, "several")
    states = {c.wait(call)["result"]["structuredContent"]["state"] for call in calls}
    assert "finished" in states


def test_a_wait_can_be_cancelled_and_the_run_goes_on(c):
    id = run(c, UNTIL_GO + "'end'", session="waits", background=True)["execution_id"]
    call = c.begin(
        "tools/call", {"name": "check_run", "arguments": {"execution_id": id, "wait": 20}}
    )
    c.cancel(call)
    go(c, "waits")
    answer = c.call("check_run", execution_id=id, wait=20)
    assert answer["structuredContent"]["result"] == "'end'" and call not in c.answers


@pytest.mark.parametrize("id", ["", "x", "00000000-0000-4000-8000-000000000000"])
def test_unknown_runs(c, id):
    message, code = tool_error(c.call("check_run", execution_id=id))
    assert code == "unknown_run" and "background" in message


def test_background_runs_are_bounded_and_end_with_the_server(fresh):
    c = fresh("--memory", "64M", "--runs", "8")
    code = "import time\ntime.sleep(60)"
    for _ in range(6):
        assert run(c, code, background=True)["state"] == "running"
    message, name = tool_error(c.python(code, background=True))
    assert name == "busy" and "6 of your runs" in message
    assert run(c, "1 + 1")["result"] == "2"  # there is room for those who wait


def test_too_many_runs_at_once(fresh):
    c = fresh("--runs", "1")
    params = {"name": "execute_python", "arguments": {"code": "import time\ntime.sleep(60)"}}
    id = c.begin("tools/call", params)
    for background in False, True:
        message, name = tool_error(c.python("1", background=background))
        assert name == "busy" and "hint: " in message
    c.cancel(id)
    answer = wait_until(lambda: (a := c.python("1 + 1")) and not a.get("isError") and a)
    assert answer["structuredContent"]["result"] == "2"


@pytest.mark.parametrize("c", BOTH[-1:], indirect=True)  # once is enough for 74 runs
def test_finished_background_runs_make_room(c):
    first, *others = [run(c, f"{i}", background=True)["execution_id"] for i in range(10)]
    for id in (first, *others):
        answer = c.call("check_run", execution_id=id, wait=10)
        assert answer["structuredContent"]["state"] == "finished"
    for i in range(64):
        last = run(c, "1", background=True)["execution_id"]
        c.call("check_run", execution_id=last, wait=10)
    assert tool_error(c.call("check_run", execution_id=first))[1] == "unknown_run"


# ---- long runs as tasks --------------------------------------------------------------------------


def test_a_long_run_becomes_a_task(fresh):
    c = fresh(version=MODERN, capabilities={"extensions": {TASKS: {}}})
    made = c.python("1 + 1", timeout=60)
    assert made["resultType"] == "task"
    task = wait_until(
        lambda: (t := c.result("tasks/get", {"taskId": made["taskId"]}))["status"] != "working"
        and t
    )
    assert task["status"] == "completed" and checked(c, task["result"])["result"] == "2"
    assert c.python("1 + 1", timeout=50)["resultType"] == "complete"
    assert c.python("1 + 1", timeout=60, background=True)["resultType"] == "complete"


def test_a_long_run_without_tasks_still_runs(c):
    assert run(c, "1 + 1", timeout=200)["result"] == "2"


# ---- consent -------------------------------------------------------------------------------------


def approve(action, content=None):
    return lambda params: {
        "action": action,
        **({"content": content} if content is not None else {}),
    }


YES = ("accept", {"approve": True})


@pytest.mark.parametrize(
    "said, runs",
    [
        (YES, True),
        (("accept", {"approve": False}), False),
        (("accept", {}), False),
        (("decline",), False),
        (("cancel",), False),
    ],
)
@pytest.mark.parametrize("version", BOTH)
def test_consent(fresh, version, said, runs):
    c = fresh("--consent", "always", version=version, capabilities=CAN)
    code = "\n".join(f"x = {i}" for i in range(100)) + "\n'ran'"
    if version == MODERN:
        asked = c.python(code)
        assert asked["resultType"] == "input_required"
        [(key, question)] = asked["inputRequests"].items()
        params = {
            "name": "execute_python",
            "arguments": {"code": code},
            "inputResponses": {key: approve(*said)({})},
            "requestState": asked["requestState"],
        }
        answer = c.result("tools/call", params)
        # an answer without a question is dropped
        unasked = {k: v for k, v in params.items() if k != "requestState"}
        assert c.result("tools/call", unasked)["resultType"] == "input_required"
        # the answer belongs to this code and to no other
        params["arguments"] = {"code": "'other'"}
        assert c.error("tools/call", params)["code"] == -32602
        question = question["params"]
    else:
        asked = []
        c.on_request["elicitation/create"] = lambda p: asked.append(p) or approve(*said)(p)
        answer = c.python(code)
        [question] = asked
    assert "x = 0\nx = 1\n" in question["message"] and "more lines" in question["message"]
    assert question["requestedSchema"]["properties"]["approve"]["type"] == "boolean"
    if runs:
        assert checked(c, answer)["result"] == "'ran'"
    else:
        assert tool_error(answer)[1] == "consent_declined"


@pytest.mark.parametrize("can", [{}, {"elicitation": {"url": {}}}])
@pytest.mark.parametrize("version", BOTH)
def test_consent_without_a_way_to_ask(fresh, version, can):
    c = fresh("--consent", "always", version=version, capabilities=can)
    assert tool_error(c.python("1"))[1] == "consent_unavailable"


# ---- information and resources -------------------------------------------------------------------


def test_info(c):
    run(c, "1")  # the interpreter is known by now
    answer = c.call("get_sandbox_info")
    found, said = answer["structuredContent"], text(answer)
    jsonschema.validate(found, c.tools["get_sandbox_info"]["outputSchema"])
    assert found["state"] == "ready" and found["network"] is False
    assert found["python"]["version"] in said and found["python"]["python"] in said
    timeout = c.tools["execute_python"]["inputSchema"]["properties"]["timeout"]
    assert found["limits"]["wall_time"] == {
        "default": timeout["default"],
        "maximum": timeout["maximum"],
        "unit": "seconds",
        "argument": "timeout",
    }
    assert (timeout["default"], timeout["maximum"]) == (30, 300)
    for name in (*found["limits"], *found["isolation"], *found["tool_sets"], found["version"]):
        assert name in said
    assert tool_error(c.call("get_sandbox_info", x=1))[1] == "bad_value"


def test_info_names_preloads(fresh):
    c = fresh("--preload", "json,no_such_module")
    run(c, "1")
    answer = c.call("get_sandbox_info")
    python = answer["structuredContent"]["python"]
    jsonschema.validate(answer["structuredContent"], c.tools["get_sandbox_info"]["outputSchema"])
    assert python["preloaded"] == ["json"]
    assert python["preload_failed"][0]["name"] == "no_such_module"
    assert "preloaded modules: json\npreload failed: no_such_module" in text(answer)


def test_resources(c):
    listed = {r["uri"]: r for r in c.result("resources/list")["resources"]}
    found = {uri: r for uri, r in listed.items() if not uri.startswith("sandbox://")}
    assert list(found) == ["constrictor://guide", "constrictor://info"]
    for uri, resource in found.items():
        answer = c.result("resources/read", {"uri": uri})
        [content] = answer["contents"]
        assert content["uri"] == uri and content["mimeType"] == resource["mimeType"]
        assert resource.get("size", len(content["text"])) == len(content["text"].encode())
        assert resource["annotations"]["priority"] > 0
        if c.modern:
            assert answer["cacheScope"] == "public" and answer["ttlMs"] >= 5000
        else:
            assert "ttlMs" not in answer
    assert json.loads(content["text"])["limits"]
    templates = c.result("resources/templates/list")["resourceTemplates"]
    assert [t["uriTemplate"] for t in templates] == [
        "run://{execution_id}/{part}",
        "sandbox://{session}/{path}",
    ]


def test_outputs_are_private(c):
    id = run(c, "1", background=True)["execution_id"]
    c.call("check_run", execution_id=id, wait=10)
    answer = c.result("resources/read", {"uri": f"run://{id}/result"})
    if c.modern:
        assert (answer["cacheScope"], answer["ttlMs"]) == ("private", 0)
    # and they are found by completion
    ref = {"type": "ref/resource", "uri": "run://{execution_id}/{part}"}

    def complete(name, value):
        params = {"ref": ref, "argument": {"name": name, "value": value}}
        return c.result("completion/complete", params)["completion"]["values"]

    assert id in complete("execution_id", id[:4])
    assert complete("execution_id", "zz") == []
    assert complete("part", "std") == ["stdout", "stderr"]


@pytest.mark.parametrize(
    "uri",
    [
        "run://00000000-0000-4000-8000-000000000000/stdout",
        "run://x/stdout",
        "constrictor://nothing",
        "file:///etc/passwd",
        "",
        "x" * 5000,
    ],
)
def test_missing_resources(c, uri):
    error = c.error("resources/read", {"uri": uri})
    assert error["code"] == (-32602 if c.modern else -32002)
    assert error["data"]["uri"] == uri
    assert c.error("resources/read", {})["code"] == -32602


def test_updates_of_a_background_run(fresh):
    c = fresh()
    code = "import time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(1)"
    id = run(c, code, background=True)["execution_id"]
    uri = f"run://{id}/stdout"
    c.result("resources/subscribe", {"uri": uri})
    c.call("check_run", execution_id=id, wait=20)
    heard = [n["uri"] for n in c.notes("notifications/resources/updated")]
    assert heard.count(uri) >= 2 and set(heard) == {uri}


def test_many_at_once(c):
    ids = [
        c.begin("tools/call", {"name": "execute_python", "arguments": {"code": f"{i} * 2"}})
        for i in range(60)
    ]
    found = [c.wait(id)["result"]["structuredContent"]["result_json"] for id in ids]
    assert found == [i * 2 for i in range(60)]


# ---- owners --------------------------------------------------------------------------------------

KEYS = {"CONSTRICTOR_API_KEY": "alice:key-of-alice-0123456789,bob:key-of-bob-0123456789"}


def test_runs_belong_to_their_owner(cli):
    server = Server(cli, "--text-budget", "1000", env=KEYS)
    alice, bob = (
        Http(server, MODERN, headers={"Authorization": f"Bearer key-of-{name}-0123456789"})
        for name in ("alice", "bob")
    )
    with alice, bob:
        cut = alice.python("print('x' * 5000)")["structuredContent"]["truncated"]["stdout"]
        id = alice.python("'mine'", background=True)["structuredContent"]["execution_id"]
        assert "mine" in text(alice.call("check_run", execution_id=id, wait=10))
        assert tool_error(bob.call("check_run", execution_id=id))[1] == "unknown_run"
        for uri in cut["full_output_uri"], f"run://{id}/result":
            assert alice.result("resources/read", {"uri": uri})["contents"][0]["text"]
            assert bob.error("resources/read", {"uri": uri})["code"] == -32602
        params = {
            "ref": {"type": "ref/resource", "uri": "run://{execution_id}/{part}"},
            "argument": {"name": "execution_id", "value": ""},
        }
        assert id in alice.result("completion/complete", params)["completion"]["values"]
        assert bob.result("completion/complete", params)["completion"]["values"] == []
        check_received(alice)
        check_received(bob)


def test_a_client_that_goes_away_ends_its_run_and_not_its_background_run(cli):
    server = Server(cli)
    with Http(server, MODERN) as c:
        id = c.python(marked("stays", "time.sleep(60)"), background=True)["structuredContent"]
        params = {"name": "execute_python", "arguments": {"code": marked("goes")}}
        call = c.begin("tools/call", params)
        assert wait_until(lambda: alive("goes") == 1 and alive("stays") == 1)
        c.hang_up(call)
        assert wait_until(lambda: alive("goes") == 0)
        answer = c.call("check_run", execution_id=id["execution_id"])
        assert answer["structuredContent"]["state"] == "running"
    server.stop()
    assert wait_until(lambda: alive("stays") == 0)
