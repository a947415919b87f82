# SPDX-License-Identifier: Apache-2.0
"""What the server costs a model: tokens (o200k) of the list of tools and of answers, counted as bench/tokens.py does."""

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
    assert shown <= 500, f"the issue allows 1,800; name, description and inputSchema are {shown}"
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
