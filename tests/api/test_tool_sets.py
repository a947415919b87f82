# SPDX-License-Identifier: Apache-2.0
"""Several tool sets at once: every name is there once and takes what any of its sets takes; see src/mcp/tools/tool_variants.h."""

import json
import re
import sys

import pytest
import wheel_lab
from conftest import TOP, open_cli, wait_until
from mcp_client import LEGACY, Stdio, check_schema, text

UV_PYTHON = TOP / "build/venv-net/bin/python"
PYTHON = UV_PYTHON if UV_PYTHON.exists() else sys.executable
SETS = "full", "executor", "kernels", "restricted", "checker", "containers"


@pytest.fixture(scope="module")
def lab():
    with wheel_lab.Lab() as lab:
        yield wheel_lab.fill(lab)


@pytest.fixture(scope="module")
def cli(program):
    with open_cli(program) as cli:
        yield cli


def tools_of(cli, sets, *flags):
    with Stdio(cli, "--tools", sets, "--stock", "0", *flags) as connection:
        connection.open()
        return connection.result("tools/list")["tools"]


@pytest.fixture(scope="module")
def alone(cli):
    """The tools of each set, when it is the only one."""
    return {name: {tool["name"]: tool for tool in tools_of(cli, name)} for name in SETS}


@pytest.fixture(scope="module")
def c(cli, lab):
    with Stdio(cli, "--tools", "all", "--index-url", lab.url, "--stock", "2", "--python", PYTHON) as connection:
        connection.open()
        connection.listed = connection.result("tools/list")["tools"]
        yield connection


def test_all_has_every_name_once(c, alone):
    names = [tool["name"] for tool in c.listed]
    assert len(names) == len(set(names))
    assert set(names) == {name for tools in alone.values() for name in tools}
    shared = {name for name in names if sum(name in tools for tools in alone.values()) > 1}
    assert shared >= {"execute_python", "install_package", "get_sandbox_info", "check_package_status", "create_python_env"}


def test_a_listed_schema_takes_what_any_of_its_sets_takes(c, alone):
    for tool in c.listed:
        schema, parts = tool["inputSchema"], [tools[tool["name"]] for tools in alone.values() if tool["name"] in tools]
        check_schema(schema)
        names = {name for part in parts for name in part["inputSchema"]["properties"]}
        assert set(schema["properties"]) == names, tool["name"]
        assert all("type" in property for property in schema["properties"].values())
        required = [set(part["inputSchema"].get("required", [])) for part in parts]
        assert set(schema.get("required", [])) == set.intersection(*required)
        if len(parts) > 1:
            assert tool["description"].startswith(parts[0]["description"].removesuffix(" No network."))
            assert "As the tool of the set '" in tool["description"]
            assert "outputSchema" not in tool or all(part.get("outputSchema") == tool["outputSchema"] for part in parts)
        for part in parts:
            for name, property in part["inputSchema"]["properties"].items():
                for bound in property.keys() & {"minimum", "maximum"}:
                    widest = schema["properties"][name].get(bound)
                    better = widest is None or (widest >= property[bound] if bound == "maximum" else widest <= property[bound])
                    assert better, (tool["name"], name, bound)


def call(c, tool, /, fails=False, **arguments):
    answer = c.call(tool, **arguments)
    assert bool(answer.get("isError")) is fails, answer
    return answer


def test_execute_python_takes_the_arguments_of_both(c):
    answer = call(c, "execute_python", code="6 * 7")
    assert answer["structuredContent"]["result"] == "42" and "42" in text(answer), "the default set comes first"
    session = call(c, "execute_python", code="x = 1", session="both")
    assert session["structuredContent"]["session"]
    # Above the maximum of the default set, which would refuse it: there the other clamps.
    answer = call(c, "execute_python", code="print(1)", timeout=1000)
    assert answer["structuredContent"]["timeout"] == {"requested": 1000, "used": 300}
    refused = call(c, "execute_python", fails=True, code="1", session="both", timeout=1000)
    assert "'timeout' is 1000, but must be at most 300" in text(refused), "of the set that fits best"


def test_packages_take_the_arguments_of_both(c):
    for arguments in {"package_names": "lab-good==1.0"}, {"packages": "lab-good==1.5", "upgrade": True}:
        assert call(c, "install_package", **arguments)["structuredContent"]["state"] == "ready"
    status = call(c, "check_package_status", package="lab-good")["structuredContent"]
    assert status["state"] == "ready" and status["installed_version"] == "1.5"
    call(c, "reset_sandbox")


def test_containers_work_beside_the_default_set(c):
    # Without arguments it is the default set's, and what it makes is a container as well.
    made = call(c, "create_python_env")
    container = made["structuredContent"]["container_id"]
    assert made["structuredContent"]["environment"] == container
    assert re.search(rf"^container_id: {container}$", text(made), re.M)
    begun = call(c, "install_package_in_env", container_id=container, package_name="lab-good")
    assert json.loads(text(begun))["status"] in ("installing", "success")

    def status():
        return json.loads(text(call(c, "check_package_status", container_id=container, package_name="lab-good")))

    assert wait_until(lambda: status()["status"] == "success") and status()["version"] == "2.0"
    code = "import lab_good; print(lab_good.VERSION); open('a.txt', 'w').write('1'); x = 1"
    answer = json.loads(text(call(c, "execute_python_code", container_id=container, code=code)))
    assert answer["stdout"] == "2.0\n" and answer["files"] == ["a.txt"]
    answer = json.loads(text(call(c, "execute_python_code", container_id=container, code="print(open('a.txt').read())\nx")))
    assert answer["stdout"] == "1\n" and "NameError" in answer["stderr"]
    default = call(c, "execute_python", code="import lab_good; lab_good.VERSION", environment=container)
    assert default["structuredContent"]["result"] == "'2.0'"


def test_execute_python_code_is_of_kernels_and_of_containers(c, alone):
    assert "execute_python_code" in alone["kernels"] and "execute_python_code" in alone["containers"]
    kept = [call(c, "execute_python_code", code=code, session_id="mine") for code in ("y = 20", "print(y + 1)")]
    assert "21" in text(kept[1])
    refused = call(c, "execute_python_code", fails=True, code="1", container="x")
    assert "no argument 'container'" in text(refused) and "container_id" in text(refused).split("possible:")[1]
    for arguments, words in (({"container_id": ""}, "'container_id' has 0 characters"), ({"container_id": 5}, "is 5, but must be a string"),
                             ({"container_id": "x", "session_id": "y"}, "not taken together"), ({"timeout": 0}, "at least 1")):
        refused = text(call(c, "execute_python_code", fails=True, code="1", **arguments))
        assert words in refused and ("together" in refused) is ("session_id" in arguments), refused


def test_sets_that_are_not_named_are_not_there(cli):
    names = [tool["name"] for tool in tools_of(cli, "executor,checker")]
    assert "execute_python" in names and "check_syntax" in names
    assert not {"open_session", "create_sandbox", "execute_python_code", "validate_code"} & set(names)
    with Stdio(cli, "--tools", "executor", "--stock", "0") as connection:
        connection.open()
        error = connection.error("tools/call", {"name": "open_session", "arguments": {}})
        assert "unknown tool" in error["message"]
        info = connection.call("get_sandbox_info")["structuredContent"]
        assert info["tool_sets"] == ["executor"]


def test_consent_is_asked_for_in_every_set(cli):
    """No set is a way around --consent always."""
    runs = {
        "executor": ("execute_python", {"code": "print(1)"}),
        "kernels": ("execute_python_code", {"code": "print(1)"}),
        "restricted": ("execute_code", {"code": "print(1)"}),
        "checker": ("test_code", {"code": "print(1)"}),
        "containers": ("execute_terminal_command", {"command": "echo 1"}),
    }
    with Stdio(cli, "--tools", "all", "--consent", "always", "--stock", "0", version=LEGACY[-1]) as connection:
        connection.open()
        made = json.loads(text(connection.call("create_sandbox")))
        runs["containers"][1]["sandbox_id"] = made["sandbox_id"]
        for tool, arguments in runs.values():
            answer = connection.call(tool, **arguments)
            assert answer.get("isError") and "consent" in text(answer), (tool, answer)
