# SPDX-License-Identifier: Apache-2.0
"""What the server costs a model: tokens (o200k) of the list of tools and of answers, counted as bench/tokens.py does."""

import base64
import importlib.util
import json

import pytest
from conftest import TOP, open_cli
from mcp_client import LEGACY, MODERN, Stdio, check_schema, connect, text

# By its path: beside it is a module 'mcp', which would hide the SDK's.
SPEC = importlib.util.spec_from_file_location("tokens", TOP / "bench/tokens.py")
tokens = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tokens)

TOOLS = ["execute_python", "check_run", "install_package", "list_files", "read_file", "write_file"]
ONLY_FULL = ("get_sandbox_info", "open_session", "undo_session", "delete_file", "create_python_env", "validate_code",
             "reset_sandbox", "list_installed_packages", "fork_session", "check_package_status", "uninstall_package")


@pytest.fixture(scope="module")
def cli(program):
    with open_cli(program) as cli:
        yield cli


@pytest.fixture(scope="module")
def c(cli):
    with connect(cli, "--tools", "default", "--stock", "2") as c:
        yield c


def counts(*texts):
    return tokens.count(list(texts))


# ---- the list ------------------------------------------------------------------------------------


def test_the_default_list_has_six_tools_in_few_tokens(c):
    listed = c.result("tools/list")["tools"]
    assert [tool["name"] for tool in listed] == TOOLS
    shown, whole = counts("\n".join(tokens.listed(listed)), json.dumps(listed))
    assert shown < 400, f"name, description and inputSchema are {shown}; docs/performance.md says what others need"
    assert whole <= 1000, f"a client that forwards all of it pays {whole}"
    for tool in listed:
        assert "icons" not in tool and "outputSchema" not in tool
        check_schema(tool["inputSchema"])


def test_the_bounds_in_the_default_list_are_those_of_the_server(cli):
    with connect(cli, "--tools", "default", "--stock", "0", "--wall", "7s", "--timeout-max", "40s") as c:
        timeout = c.tools["execute_python"]["inputSchema"]["properties"]["timeout"]
        assert (timeout["default"], timeout["maximum"]) == (7, 40)


def test_full_has_all_tools_and_no_schema_twice(cli):
    with Stdio(cli, "--tools", "full", "--stock", "0") as c:
        c.open()
        listed = c.result("tools/list")["tools"]
    names = [tool["name"] for tool in listed]
    assert set(TOOLS) < set(names) and set(ONLY_FULL) < set(names)
    outputs = [json.dumps(tool["outputSchema"]) for tool in listed if "outputSchema" in tool]
    assert len(outputs) == len(set(outputs))


def test_default_and_full_together_are_full(cli):
    lists = []
    for sets in ("full", "default,full", "full,default"):
        with Stdio(cli, "--tools", sets, "--stock", "0") as c:
            c.open()
            lists.append(c.result("tools/list")["tools"])
    assert lists[0] == lists[1] == lists[2]


@pytest.mark.parametrize("sets", ["default", "default,executor", "kernels", "full"])
@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
def test_every_text_for_models_names_only_tools_that_are_there(cli, sets, version):
    with Stdio(cli, "--tools", sets, "--stock", "0", version=version) as c:
        said = [c.open()["instructions"]]
        listed = c.result("tools/list")["tools"]
        if sets != "kernels":  # that set borrows tools of the full set with their descriptions
            said += [json.dumps(tool) for tool in listed]
        for resource in c.result("resources/list")["resources"]:
            if resource["name"] == "guide":
                said += [json.dumps(resource), c.result("resources/read", {"uri": resource["uri"]})["contents"][0]["text"]]
        for prompt in c.result("prompts/list")["prompts"]:
            filled = {a["name"]: "quick" if a["name"] == "depth" else "clean" if a["name"] == "code_style" else "x = 1"
                      for a in prompt["arguments"]}
            said.append(json.dumps(c.result("prompts/get", {"name": prompt["name"], "arguments": filled})))
    missing = {*TOOLS, *ONLY_FULL} - {tool["name"] for tool in listed}
    for words in said:
        assert not [name for name in missing if name in words.replace("execute_python_code", "")], words[:2000]


def test_an_argument_that_is_not_listed_is_taken(c):
    answer = c.python("import sys; (x, sys.argv[1:])", variables={"x": 3}, args=["a"], seed=1, memory_mb=128)
    assert "(3, ['a'])" in text(answer), answer
    assert "'nothing'" in text(c.python("1", nothing=1)), "a wrong one is named"


# ---- answers -------------------------------------------------------------------------------------


def said(c, code, **arguments):
    """What the model reads, and the object that some clients add."""
    answer = c.python(code, **arguments)
    return text(answer), answer["structuredContent"]


@pytest.mark.parametrize("code, value", [("6 * 30", "180"), ("'a' * 50", repr("a" * 50)), ("[1, 2, {'x': None}]", "[1, 2, {'x': None}]"),
                                         ("0.1 + 0.2", "0.30000000000000004"), ("1e22", "1e+22"), ("print('hi')", "hi")])
def test_a_plain_value_costs_at_most_25_tokens_more(c, code, value):
    words, object = said(c, code)
    assert value in words
    shown, alone, whole = counts(words, value, words + json.dumps(object))
    assert shown <= alone + 25 and whole <= 2 * alone + 50, (words, object)
    assert not {"usage", "isolation", "environment", "execution_id"} & object.keys()


def test_usage_ids_and_isolation_come_when_asked_for(c):
    words, object = said(c, "6 * 30", details=True)
    assert object["usage"]["wall_ms"] > 0 and object["isolation"]["seccomp"] and object["execution_id"] in words
    assert "peak memory" in words and "exit code 0" in words


def test_what_is_unusual_is_said(c):
    assert "exit code 7" in said(c, "import sys\nsys.exit(7)")[0]
    assert "peak memory" in said(c, "x = bytearray(110 << 20)\n1", memory_mb=128)[0]
    assert "(new)" in said(c, "x = 5", session="unusual")[0]
    words, _ = said(c, "x", session="unusual")
    assert "session" not in words and "result: 5" in words
    assert "signal 11" in said(c, "import os\nos.kill(os.getpid(), 11)")[0]


LIBRARY = "import json\ndef read(text):\n    return json.loads(text)\nread('{')"


def test_an_error_says_the_users_line_first_and_collapses_the_library(c):
    words, object = said(c, LIBRARY)
    assert words.startswith("line 3: return json.loads(text)\njson.decoder.JSONDecodeError: ")
    assert "called from line 4: read('{')" in words and "raised in json/decoder.py line " in words
    assert "_default_decoder" not in words and "Traceback" not in words
    assert counts(words)[0] <= 80, words
    assert object["error"]["line"] == 3 and "traceback" not in object["error"]
    assert "_default_decoder" in said(c, LIBRARY, details=True)[0]


def test_earlier_exceptions_notes_and_long_messages_are_said_once(c):
    words, _ = said(c, "try:\n    {}['key']\nexcept KeyError as error:\n    raise ValueError('no config') from error")
    assert "ValueError: no config" in words and "caused by KeyError: 'key'" in words
    words, _ = said(c, "try:\n    1 / 0\nexcept ZeroDivisionError:\n    nothing")
    assert "while handling ZeroDivisionError: division by zero" in words
    words, _ = said(c, "words = ['first', 'second', 'third']; raise ValueError(chr(10).join(words))")
    assert words.count("second") == 2 and "\nsecond\nthird" in words
    words, _ = said(c, "def f(n):\n    return f(n + 1)\nf(0)")
    assert "RecursionError" in words and "more calls" in words and counts(words)[0] < 120, words
    code = "try:\n    raise ValueError(0)\nexcept ValueError:\n" + "".join(
        f"{'    ' * (i + 1)}try:\n{'    ' * (i + 2)}raise ValueError({i + 1})\n{'    ' * (i + 1)}except ValueError:\n" for i in range(8))
    words, _ = said(c, code + "    " * 9 + "raise OSError('last')")
    assert words.count("while handling") == 3 and "OSError: last" in words, words


def test_a_refused_connection_costs_at_most_120_tokens(c):
    for code in ("import urllib.request\nurllib.request.urlopen('http://example.org/data.csv')",
                 "import socket\nsocket.create_connection(('192.0.2.1', 80))"):
        words, object = said(c, code)
        assert "network is off" in words and "write_file" in words and "--allow-host" in words, words
        assert counts(words)[0] <= 120 and counts(json.dumps(object))[0] <= 120, words


def test_progress_lines_are_folded(c):
    words, _ = said(c, "for i in range(101): print(f'\\r{i}% of it', end='')\nprint('\\rdone      ')\nprint('next')")
    assert "50%" not in words and "100%" not in words and "done" in words and "next" in words
    words, _ = said(c, "import sys\nfor i in range(101): print(f'\\r{i}% of it', end='', file=sys.stderr)")
    assert "99%" not in words and "100% of it" in words


def test_repeated_warnings_are_counted(c):
    words, _ = said(c, "import sys\nfor i in range(40):\n    print('x.py:1: UserWarning: careful\\n  warn(1)', file=sys.stderr)\n"
                       "print('end', file=sys.stderr)")
    assert words.count("UserWarning") == 1 and "[the last 2 lines 40 times]" in words and "end" in words, words
    assert said(c, "for i in range(40): print('same')")[0].count("same") == 40, "what code prints is data"


def test_structured_content_does_not_repeat_long_text(c):
    words, object = said(c, "for i in range(20000): print('line', i)\n'v' * 3000")
    assert "line 0\n" in words and "line 19999\n" in words
    assert len(json.dumps(object)) < 1500, object
    assert object["truncated"]["stdout"]["total"] > 200_000 and object["truncated"]["stdout"]["full_output_uri"] in words
    uri = object["truncated"]["stdout"]["full_output_uri"]
    whole = c.result("resources/read", {"uri": uri})["contents"][0]["text"]
    assert whole == "".join(f"line {i}\n" for i in range(20000))


def test_a_background_run_names_its_id_once(c):
    answer = c.python("import time\ntime.sleep(1)\n40 + 2", background=True)
    id = answer["structuredContent"]["execution_id"]
    assert text(answer).count(id) == 1 and counts(text(answer))[0] <= 60
    answer = c.call("check_run", execution_id=id, wait=50)
    assert text(answer) == "result: 42" and answer["structuredContent"] == {"verdict": "ok", "result": "42"}


def test_a_file_is_read_without_repeating_it(c):
    for path, data in (("a.bin", bytes(range(256)) * 9), ("a.txt", b"some words " * 200)):
        coded = base64.b64encode(data).decode()
        assert not c.call("write_file", session="files", path=path, base64=coded).get("isError")
        answer = c.call("read_file", session="files", path=path)
        whole = json.dumps(answer)
        assert whole.count(coded) + whole.count(data.decode("latin-1")) == 1, "base64 and text are there once"
        assert answer["structuredContent"]["size"] == len(data)


# ---- arguments -----------------------------------------------------------------------------------


def test_numbers_booleans_and_lists_may_be_texts(c):
    answer = c.python("import math, sys\nmath.sqrt(16), sys.argv[1:]", timeout="5", background="false", memory_mb="128",
                      args='["a"]', details="false", policy="guarded", allowed_imports='["math", "sys"]')
    assert "(4.0, ['a'])" in text(answer), answer
    assert "UNAVAILABLE" not in text(c.python("1", timeout="2.5", seed="7"))


@pytest.mark.parametrize("arguments", [{"timeout": "soon"}, {"timeout": "5 seconds"}, {"memory_mb": "lots"}, {"background": "maybe"},
                                       {"timeout": ""}, {"timeout": "[5]"}, {"args": "a b"}, {"timeout": "1e400"}, {"timeout": "NaN"}])
def test_a_text_that_is_no_number_is_named(c, arguments):
    answer = c.python("1", **arguments)
    [name] = arguments
    assert answer["isError"] and f"'{name}'" in text(answer) and "code: bad_value" in text(answer), answer


# ---- what a run that ran out of time says -----------------------------------------------------------


def test_a_timeout_names_the_line_that_was_running(c):
    words, object = said(c, "import time\ndef wait():\n    time.sleep(60)\nwait()", timeout=0.5)
    assert words.startswith("timeout_wall in line 3: time.sleep(60)\ncalled from line 4: wait()\nhint: "), words
    assert "KeyboardInterrupt" not in words and "at most 300" in words
    assert object["verdict"] == "timeout_wall" and object["error"]["line"] == 3


@pytest.mark.parametrize("handler", ["signal.SIG_IGN", "lambda *a: os._exit(0)", "lambda *a: time.sleep(60)", "lambda *a: sys.exit(0)"])
def test_code_that_hides_its_line_is_ended_all_the_same(c, handler):
    words, object = said(c, f"import os, signal, sys, time\nsignal.signal(2, {handler})\nprint('begun', flush=True)\ntime.sleep(60)", timeout=0.5)
    assert object["verdict"] == "timeout_wall" and "begun" in words, words
