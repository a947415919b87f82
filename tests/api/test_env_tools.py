# SPDX-License-Identifier: Apache-2.0
"""Environments and packages as callers see them: the tools of MCP, the routes of REST, `constrictor env`.

Everything comes from a small index on loopback (tests/wheel_lab.py). What installing itself has to withstand is
tested in other files; here it is what is said about it, and which caller may do what.
"""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import threading

import jsonschema
import pytest
import wheel_lab
from conftest import open_cli, wait_until
from mcp_client import LEGACY, MODERN, TASKS, Server, Stdio, text, tools_of
from rest_client import Rest

TOOLS = (
    "install_package",
    "check_package_status",
    "list_installed_packages",
    "create_python_env",
    "reset_sandbox",
)
OVER = ("ready", "failed", "cancelled")


@pytest.fixture(scope="module")
def index():
    with wheel_lab.Lab() as lab:
        yield wheel_lab.fill(lab)


def connect(cli, *flags, version=LEGACY[-1], **options):
    c = Stdio(cli, "--stock", "2", *flags, version=version, **options)
    c.open()
    c.tools = tools_of(c)
    return c


@pytest.fixture(scope="module")
def c(program, index):
    with open_cli(program) as cli:
        with connect(cli, "--index-url", index.url, "--state", cli.folder / "state") as connection:
            yield connection


@pytest.fixture
def web(program, index):
    """A server and a client of its REST API."""
    with open_cli(program) as cli:
        server = Server(cli, "--index-url", index.url, "--state", cli.folder / "state", "--stock", "2")
        rest = Rest(server.port)
        rest.cli, rest.state, rest.server = cli, cli.folder / "state", server
        yield rest
        server.stop()


def call(c, tool, /, fails=False, **arguments):
    """The structured answer, after what is true of each of them."""
    answer = c.call(tool, **arguments)
    assert bool(answer.get("isError")) is fails, answer
    found = answer["structuredContent"]
    jsonschema.validate(found, c.tools[tool]["outputSchema"])
    if found.get("state") in OVER:
        for item in found["added"]:
            assert f"{item['name']} {item['version']}" in text(answer)
    if found.get("error"):
        assert found["error"]["message"] in text(answer) and found["error"]["code"] in text(answer)
    return found


def refused(c, tool, /, **arguments):
    answer = c.call(tool, **arguments)
    assert answer["isError"] and "structuredContent" not in answer, answer
    return text(answer), re.search(r"^code: (\w+)$", text(answer), re.M)[1]


def out(c, code, **arguments):
    answer = c.python(code, **arguments)
    assert not answer.get("isError"), text(answer)
    return answer["structuredContent"]["stdout"].strip()


VERSION = "import lab_good; print(lab_good.VERSION)"


# ---- MCP -----------------------------------------------------------------------------------------


def test_the_tools_are_described(c):
    for name in TOOLS:
        tool = c.tools[name]
        assert tool["title"] and len(tool["description"]) > 50
    assert [n for n in TOOLS if c.tools[n]["annotations"]["openWorldHint"]] == [
        "install_package",
        "create_python_env",
    ]
    assert c.tools["reset_sandbox"]["annotations"]["destructiveHint"]
    assert c.tools["check_package_status"]["annotations"]["readOnlyHint"]


def test_E_02_one_string_with_several_packages_and_versions(c):
    call(c, "create_python_env", name="e02")
    found = call(c, "install_package", package_names="lab-good<2 lab-extra lab-data==1.0", environment="e02")
    assert found["state"] == "ready" and found["environment"] == "e02"
    assert {p["name"]: p["version"] for p in found["added"]} == {
        "lab-good": "1.5",
        "lab-extra": "1.0",
        "lab-data": "1.0",
    }
    assert out(c, VERSION, environment="e02") == "1.5"


def test_a_list_works_as_well_and_twice_is_nothing(c):
    call(c, "create_python_env", name="lists")
    assert call(c, "install_package", packages=["lab-good>=1", "lab-needs"], environment="lists")["added"]
    again = call(c, "install_package", packages=["lab-good"], environment="lists")
    assert again["state"] == "ready" and again["added"] == again["removed"] == []


def test_E_08_E_04_packages_persist_until_reset(c):
    try:
        found = call(c, "install_package", packages="lab-good")
        assert found["environment"] == "base"
        assert out(c, VERSION) == out(c, VERSION) == "2.0"
    finally:
        removed = call(c, "reset_sandbox")["removed"]
    assert removed == [{"name": "lab-good", "version": "2.0"}]
    assert c.python(VERSION)["structuredContent"]["error"]["type"] == "ModuleNotFoundError"
    assert call(c, "reset_sandbox")["removed"] == []


def test_a_live_session_can_import_it_at_once(c):
    call(c, "create_python_env", name="live")
    opened = c.call("open_session", name="analyst", environment="live")["structuredContent"]
    assert opened["environment"] == "live"
    c.python("kept = 41", session="analyst")
    assert c.python(VERSION, session="analyst")["isError"]
    call(c, "install_package", packages="lab-good", environment="live")
    assert out(c, VERSION + "\nprint(kept + 1)", session="analyst") == "2.0\n42"
    c.call("close_session", session="analyst")


def test_a_session_of_base_sees_what_is_installed_later(c):
    c.python("kept = 1", session="based")
    try:
        call(c, "install_package", packages="lab-mixed-name")
        assert out(c, "import lab_mixed_name; print(kept)", session="based") == "1"
    finally:
        call(c, "reset_sandbox")
        c.call("close_session", session="based")


def test_packages_of_a_run_make_an_environment_that_is_found_again(c, index):
    assert out(c, VERSION, packages="lab-good<2") == "1.5"
    asked, made = len(index.requests), call(c, "list_installed_packages")["environments"]
    assert out(c, VERSION, packages=["lab-good <2"]) == "1.5"
    assert len(index.requests) == asked and call(c, "list_installed_packages")["environments"] == made
    assert c.python(VERSION)["isError"]  # no other client has it


def test_open_session_takes_packages(c):
    answer = c.call("open_session", name="packed", packages="lab-old")
    assert not answer.get("isError"), answer
    jsonschema.validate(answer["structuredContent"], c.tools["open_session"]["outputSchema"])
    assert out(c, "import lab_old; " + VERSION, session="packed") == "1.5"
    c.call("close_session", session="packed")


def test_E_03_list_installed_packages(c):
    call(c, "create_python_env", name="e03", packages="lab-needs")
    found = call(c, "list_installed_packages", environment="e03")
    rows = {p["name"]: p for p in found["packages"]}
    assert rows["lab-needs"] == {"name": "lab-needs", "version": "1.0", "base": False}
    assert rows["lab-good"]["version"] == "2.0"
    assert found["count"] == len(found["packages"]) and {"base", "e03"} <= set(found["environments"])
    assert sorted(rows, key=str.lower) == [p["name"] for p in found["packages"]]
    base = call(c, "list_installed_packages")
    assert base["environment"] == "base" and "lab-good" not in {p["name"] for p in base["packages"]}
    said = text(c.call("list_installed_packages", environment="e03"))
    assert re.search(r"^  lab-needs +1\.0$", said, re.M) and "environments: base" in said


def test_P_01_create_without_anything_makes_a_name(c):
    made = call(c, "create_python_env")
    assert made["state"] == "ready" and re.fullmatch(r"env-[0-9a-f]{8}", made["environment"])
    assert out(c, "print(1)", environment=made["environment"]) == "1"


def test_P_03_asynchronous_and_P_04_its_status(c, index):
    call(c, "create_python_env", name="later")
    with wheel_lab.held(index, "/simple/lab-good"):
        found = call(c, "install_package", packages="lab-good>=1.0", environment="later", wait=0)
        assert found["state"] in ("queued", "resolving")
        named = call(c, "check_package_status", package_name="Lab_Good", environment="later")
        assert named["job"] == found["job"] and named["state"] not in OVER
    done = call(c, "check_package_status", job=found["job"], wait=30)
    assert done["state"] == "ready" and done["progress"] == 1 and done["elapsed_seconds"] > 0
    assert done["log"]
    named = call(c, "check_package_status", package="lab-good>=1", environment="later")
    assert named["state"] == "ready" and named["installed_version"] == "2.0"
    assert call(c, "check_package_status", package="lab-old", environment="later")["state"] == "not_found"


def test_a_wait_that_is_too_short_says_how_far_it_is(c, index):
    call(c, "create_python_env", name="waits")
    with wheel_lab.held(index, "/simple/lab-data"):
        answer = c.call("install_package", packages="lab-data", environment="waits", wait=0.2)
        found = answer["structuredContent"]
        assert found["state"] not in OVER and "check_package_status" in text(answer)
    assert call(c, "check_package_status", job=found["job"], wait=30)["state"] == "ready"


def test_progress_comes_while_it_is_installed(c):
    call(c, "create_python_env", name="progress")
    c.result(
        "tools/call",
        {"name": "install_package", "arguments": {"packages": "lab-many", "environment": "progress"}},
        {"progressToken": "p1"},
    )
    heard = [n for n in c.notes("notifications/progress") if n["progressToken"] == "p1"]
    assert heard and heard == sorted(heard, key=lambda n: n["progress"])
    assert all(n["total"] == 1 and n["message"] for n in heard)


def test_a_call_that_is_cancelled_takes_its_job_back(c, index):
    call(c, "create_python_env", name="cancelled")
    before = len(index.requests)
    with wheel_lab.held(index, "/simple/lab-large"):
        id = c.begin(
            "tools/call",
            {"name": "install_package", "arguments": {"packages": "lab-large", "environment": "cancelled"}},
        )
        assert wait_until(lambda: any("lab-large" in path for path in index.requests[before:]))
        c.cancel(id)
        found = call(c, "check_package_status", package="lab-large", environment="cancelled", wait=20, fails=True)
        assert found["state"] == "cancelled"
    names = call(c, "list_installed_packages", environment="cancelled")["packages"]
    assert all(p["base"] for p in names)


def test_a_failure_changes_nothing_and_says_why(c):
    call(c, "create_python_env", name="fails", packages="lab-good")
    found = call(c, "install_package", packages="lab-data no-such-package-here", environment="fails", fails=True)
    assert found["state"] == "failed" and found["added"] == []
    assert found["error"]["code"] == "package_not_found"
    assert found["error"]["requirement"] == "no-such-package-here" and found["error"]["hint"]
    conflict = call(c, "install_package", packages="lab-old lab-needs", environment="fails", fails=True)
    assert conflict["error"]["code"] == "conflict" and conflict["error"]["resolver_says"]
    mine = [p["name"] for p in call(c, "list_installed_packages", environment="fails")["packages"] if not p["base"]]
    assert mine == ["lab-good"]


@pytest.mark.parametrize(
    "packages",
    [
        "lab-good --index-url http://example.org/simple",
        "-e .",
        "--target=/tmp",
        ["lab-good", "-r requirements.txt"],
        "lab-good\n--pre",
        "lab-good; os.system('x')",
        "$(id)",
        "../../x",
        "http://example.org/x.whl",
        "lab-good @ file:///etc/passwd",
        "lab-good\0",
        " ",
    ],
)
def test_options_and_worse_in_a_requirement_are_refused(c, packages):
    for tool, more in (
        ("install_package", {}),
        ("create_python_env", {"name": "never"}),
        ("execute_python", {"code": "1"}),
        ("open_session", {}),
    ):
        said, code = refused(c, tool, packages=packages, **more)
        assert code in ("bad_requirement", "bad_value"), said
    assert "never" not in call(c, "list_installed_packages")["environments"]


@pytest.mark.parametrize("name", ["../x", "a/b", "x y", "$(id)", "é", ".", "a\0b", "x" * 65, ""])
def test_a_name_with_shell_characters_is_refused(c, name):
    assert refused(c, "create_python_env", name=name)[1] in ("bad_value", "env_not_found")
    assert refused(c, "execute_python", code="1", environment=name)[1] in ("bad_value", "env_not_found")


def test_what_does_not_fit_is_refused(c):
    assert refused(c, "install_package")[1] == "bad_value"
    assert refused(c, "install_package", packages="a", package_names="b")[1] == "bad_value"
    assert refused(c, "check_package_status")[1] == "bad_value"
    assert refused(c, "check_package_status", job="job_x", package="y")[1] == "bad_value"
    assert refused(c, "check_package_status", job="job_0000")[1] == "job_not_found"
    assert refused(c, "install_package", packages="lab-good", environment="nowhere")[1] == "env_not_found"
    assert refused(c, "list_installed_packages", environment="nowhere")[1] == "env_not_found"
    assert refused(c, "reset_sandbox", environment="nowhere")[1] == "env_not_found"
    assert refused(c, "execute_python", code="1", environment="nowhere")[1] == "env_not_found"
    assert refused(c, "open_session", environment="nowhere")[1] == "env_not_found"
    assert refused(c, "execute_python", code="1", environment="base", packages="x")[1] == "bad_value"
    assert refused(c, "create_python_env", name="old", python="2.7")[1] == "conflict"
    assert refused(c, "create_python_env", name="base")[1] == "environment_exists"
    assert refused(c, "install_package", packages="lab-source", source_builds=True)[1] == "bad_value"


def test_reset_closes_sessions_when_asked(c):
    c.python("x = 1", session="gone soon")
    call(c, "reset_sandbox")
    assert out(c, "print(x)", session="gone soon") == "1"
    assert "closed sessions: 1" in text(c.call("reset_sandbox", sessions=True))
    assert c.result("tools/call", {"name": "list_sessions"})["structuredContent"]["sessions"] == []


def test_a_task_for_a_client_that_has_them(program, index):
    extensions = {"extensions": {TASKS: {}}}
    with open_cli(program) as cli:
        flags = ("--index-url", index.url, "--state", cli.folder / "state")
        with connect(cli, *flags, version=MODERN, capabilities=extensions) as c:
            answer = c.result("tools/call", {"name": "install_package", "arguments": {"packages": "lab-good"}})
            assert answer["resultType"] == "task", answer
            id = answer["taskId"]
            task = wait_until(lambda: (t := c.result("tasks/get", {"taskId": id}))["status"] != "working" and t)
            assert task["status"] == "completed", task
            assert task["result"]["structuredContent"]["added"] == [{"name": "lab-good", "version": "2.0"}]
            # A call that says how long it waits gets the answer itself.
            found = c.call("install_package", packages="lab-good", wait=30)
            assert found["structuredContent"]["state"] == "ready"


def test_environments_survive_a_restart(program, index):
    with open_cli(program) as cli:
        flags = ("--index-url", index.url, "--state", cli.folder / "state")
        with connect(cli, *flags) as c:
            job = call(c, "create_python_env", name="lasting", packages="lab-good")["job"]
        with connect(cli, *flags, "--offline") as c:
            assert out(c, VERSION, environment="lasting") == "2.0"
            assert call(c, "check_package_status", job=job)["state"] == "ready"


def test_without_a_state_folder_the_tools_say_so(program, index):
    with open_cli(program) as cli:
        (cli.folder / "file").write_text("")
        with connect(cli, "--index-url", index.url, "--state", cli.folder / "file") as c:
            assert set(TOOLS) <= set(c.tools)
            for tool, arguments in (
                ("install_package", {"packages": "lab-good"}),
                ("create_python_env", {}),
                ("reset_sandbox", {}),
                ("check_package_status", {"job": "job_1"}),
                ("execute_python", {"code": "1", "packages": "lab-good"}),
                ("execute_python", {"code": "1", "environment": "x"}),
            ):
                assert refused(c, tool, **arguments)[1] == "state_unusable"
            assert out(c, "print(1)") == "1"
            assert call(c, "list_installed_packages")["environments"] == ["base"]


# ---- REST ----------------------------------------------------------------------------------------


def test_rest_from_the_beginning_to_the_end(web):
    assert [e["name"] for e in web.get("/environments").json["environments"]] == ["base"]
    made = web.post("/environments", {"name": "lab"})
    assert made.status == 201 and made.json["name"] == "lab" and made.json["lock"] == []
    done = web.post("/environments/lab/packages", {"packages": "lab-needs"})
    assert done.status == 200 and done.json["state"] == "ready"
    one = web.get("/environments/lab").json
    assert one["requirements"] == ["lab-needs"] and {p["name"] for p in one["lock"]} == {"lab-good", "lab-needs"}
    assert "layer" not in json.dumps(one)
    found = web.get("/environments/lab/packages").json
    assert {"name": "lab-good", "version": "2.0", "base": False} in found["packages"]
    assert web.run(VERSION, environment="lab")["stdout"] == "2.0\n"
    assert web.post("/sessions", {"name": "s", "environment": "lab"}).json["environment"] == "lab"
    assert web.run(VERSION, session="s")["stdout"] == "2.0\n"
    job = web.get(f"/environments/lab/jobs/{done.json['job']}")
    assert job.status == 200 and job.json["added"] == done.json["added"]
    gone = web.ask("DELETE", "/environments/lab/packages?packages=lab-needs")
    assert gone.status == 200 and "lab-needs" in {p["name"] for p in gone.json["removed"]}
    assert web.ask("DELETE", "/environments/lab/packages?all=true").status == 200
    assert web.get("/environments/lab").json["lock"] == []
    assert web.ask("DELETE", "/environments/lab").json == {"environment": "lab", "deleted": True}
    assert web.get("/environments/lab").status == 404


def test_rest_create_with_packages_and_run_with_packages(web):
    made = web.post("/environments", {"name": "full", "packages": ["lab-good<2"]})
    assert made.status == 201 and made.json["added"] == [{"name": "lab-good", "version": "1.5"}]
    assert web.run(VERSION, packages="lab-good<2")["stdout"] == "1.5\n"


def test_rest_streams_the_steps(web):
    answer = web.post("/environments/base/packages", {"packages": "lab-many", "stream": True})
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("application/x-ndjson")
    *steps, last = answer.lines
    assert steps and all(s["job"] == last["job"] and s["message"] for s in steps)
    assert last["state"] == "ready" and last["added"] and last["progress"] == 1
    failed = web.post("/environments/base/packages", {"packages": "lab-nowhere", "stream": True})
    assert failed.status == 200 and failed.lines[-1]["error"]["code"] == "package_not_found"


def test_rest_says_what_is_wrong(web):
    web.post("/environments", {"name": "there"})
    for status, code, method, path, body in (
        (409, "package_not_found", "POST", "/environments/there/packages", {"packages": "lab-nowhere"}),
        (400, "bad_requirement", "POST", "/environments/there/packages", {"packages": "-e ."}),
        (400, "bad_requirement", "POST", "/environments", {"name": "x", "packages": ["--pre"]}),
        (400, "bad_value", "POST", "/environments/there/packages", {}),
        (400, "bad_value", "POST", "/environments/there/packages", {"packages": 5}),
        (400, "bad_value", "POST", "/environments/there/packages", {"packages": [5]}),
        (400, "bad_value", "POST", "/environments", {}),
        (400, "bad_value", "POST", "/environments", {"name": "a/b"}),
        (400, "bad_value", "POST", "/environments", {"name": "there\0"}),
        (400, "bad_value", "DELETE", "/environments/there/packages", None),
        (400, "bad_value", "DELETE", "/environments/there/packages?package=x", None),
        (400, "bad_value", "DELETE", "/environments/there/packages?packages=x&all=true", None),
        (400, "bad_value", "GET", "/environments/there/jobs/job_1?wait=x", None),
        (404, "job_not_found", "GET", "/environments/there/jobs/job_1", None),
        (404, "job_not_found", "POST", "/environments/there/jobs/job_1/cancel", None),
        (404, "env_not_found", "GET", "/environments/nowhere", None),
        (404, "env_not_found", "DELETE", "/environments/nowhere", None),
        (404, "env_not_found", "GET", "/environments/nowhere/packages", None),
        (404, "env_not_found", "POST", "/environments/nowhere/packages", {"packages": "x"}),
        (404, "env_not_found", "POST", "/execute", {"code": "1", "environment": "nowhere"}),
        (404, "env_not_found", "POST", "/sessions", {"environment": "nowhere"}),
        (400, "bad_value", "POST", "/execute", {"code": "1", "environment": "base", "packages": "x"}),
        (400, "bad_requirement", "POST", "/execute", {"code": "1", "packages": "x --pre"}),
    ):
        answer = web.ask(method, path, body)
        assert (answer.status, answer.error["code"]) == (status, code), (method, path, answer)
        assert answer.error["message"]
    for name in "there", "base":
        assert web.post("/environments", {"name": name}).error["code"] == "environment_exists"
    assert web.ask("PUT", "/environments/there").status == 405
    assert [e["name"] for e in web.get("/environments").json["environments"]] == ["base", "there"]


def test_rest_a_job_that_takes_long_is_202_and_can_be_ended(web, index):
    with wheel_lab.held(index, "/simple/lab-large"):
        begun = web.post("/environments/base/packages", {"packages": "lab-large", "wait": 0.2})
        assert begun.status == 202 and begun.json["state"] not in OVER
        path = f"/environments/base/jobs/{begun.json['job']}"
        assert web.get(path + "?wait=0.1").json["state"] not in OVER
        assert web.get("/environments/other/jobs/" + begun.json["job"]).status == 404
        assert web.ask("DELETE", path).status == 405  # a job is a record, and stays
        assert web.post(path + "/cancel").status == 200
        assert web.get(path + "?wait=50").json["state"] == "cancelled"
        assert web.post(path + "/cancel").json["state"] == "cancelled"
    assert web.get("/environments/base").json["lock"] == []


def test_rest_a_client_that_leaves_does_not_end_its_job(web, index):
    with wheel_lab.held(index, "/simple/lab-data"):
        with contextlib.closing(web.connect()) as link:
            body = json.dumps({"packages": "lab-data", "stream": True})
            link.request("POST", "/api/v1/environments/base/packages", body, {"Content-Type": "application/json"})
            answer = link.getresponse()
            job = json.loads(answer.readline())["job"]
        assert web.get(f"/environments/base/jobs/{job}").json["state"] not in OVER
    assert web.get(f"/environments/base/jobs/{job}?wait=50").json["state"] == "ready"
    late = web.post(f"/environments/base/jobs/{job}/cancel")
    assert late.status == 409 and late.error["code"] == "job_over"


def test_rest_describes_it(web):
    document = web.get("/openapi.json").json
    for path, methods in {
        "/environments": {"get", "post"},
        "/environments/{name}": {"get", "delete"},
        "/environments/{name}/packages": {"get", "post", "delete"},
        "/environments/{name}/jobs/{job}": {"get"},
        "/environments/{name}/jobs/{job}/cancel": {"post"},
    }.items():
        row = document["paths"]["/api/v1" + path]
        assert set(row) == methods
        for operation in row.values():
            named = {p["name"] for p in operation.get("parameters", []) if p.get("in") == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))
    schemas = document["components"]["schemas"]
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", "components": document["components"]}
    job = web.post("/environments/base/packages", {"packages": "lab-good"}).json
    for name, value in (
        ("Job", job),
        ("Environment", web.get("/environments/base").json),
        ("Environments", web.get("/environments").json),
        ("Packages", web.get("/environments/base/packages").json),
    ):
        assert name in schemas
        jsonschema.validate(value, {**whole, "$ref": f"#/components/schemas/{name}"})


def test_keys_do_not_see_each_other(program, index):
    with open_cli(program) as cli:
        server = Server(
            cli,
            "--index-url",
            index.url,
            "--state",
            cli.folder / "state",
            env={"CONSTRICTOR_API_KEY": "ann:" + "a" * 32 + ",ben:" + "b" * 32},
        )
        ann, ben = Rest(server.port, "a" * 32), Rest(server.port, "b" * 32)
        assert ann.post("/environments", {"name": "hers", "packages": "lab-good"}).status == 201
        job = ann.post("/environments/base/packages", {"packages": "lab-good"}).json["job"]
        assert [e["name"] for e in ben.get("/environments").json["environments"]] == ["base"]
        assert ben.get("/environments/hers").status == 404
        assert ben.get(f"/environments/base/jobs/{job}").status == 404
        assert ben.run("import lab_good")["error"]["type"] == "ModuleNotFoundError"
        assert ann.run(VERSION)["stdout"] == "2.0\n"
        assert Rest(server.port).get("/environments").status == 401
        # The command line finds the server, and shows it the key of the environment.
        found = cli.call("env", "list", "--state", cli.folder / "state", "--json", env={"CONSTRICTOR_API_KEY": "a" * 32})
        assert [e["name"] for e in json.loads(found.out)["environments"]] == ["base", "hers"]
        bare = cli.call("env", "list", "--state", cli.folder / "state")
        assert bare.status != 0 and "CONSTRICTOR_API_KEY" in bare.err
        server.stop()


# ---- the command line ----------------------------------------------------------------------------


@pytest.fixture(params=["alone", "server"])
def env(request, program, index):
    """`constrictor env`, with a keeper of its own or by asking a server."""
    with open_cli(program) as cli:
        state, address = ("--state", cli.folder / "state"), ("--index-url", index.url)
        server = Server(cli, *state, *address, "--stock", "1") if request.param == "server" else None
        flags = state if server else (*state, *address)  # the server installs with its own settings

        def env(*arguments, **options):
            return cli.call("env", *arguments, *flags, **options)

        env.cli, env.flags = cli, flags
        yield env
        if server:
            server.stop()


def test_env_from_the_beginning_to_the_end(env):
    assert env("list").out.startswith("base  Python 3.")
    assert "created environment 'lab'" in env("create", "lab").out
    done = env("install", "lab", "lab-good<2", "lab-extra")
    assert done.status == 0 and "installed: lab-extra 1.0, lab-good 1.5" in done.out and not done.err
    shown = env("packages", "lab")
    assert re.search(r"^  lab-good +1\.5$", shown.out, re.M) and "the interpreter's own" in shown.out
    assert env("packages").out.startswith("environment 'base'")
    found = json.loads(env("describe", "lab", "--json").out)
    assert found["name"] == "lab" and len(found["lock"]) == 2
    job = found["jobs"][0]["job"]
    assert json.loads(env("status", "lab", job, "--json").out)["state"] == "ready"
    assert "lab-extra" in env("describe", "lab").out
    assert "removed: lab-extra 1.0" in env("uninstall", "lab", "lab-extra").out
    upgraded = env("install", "lab", "lab-good", "--upgrade")
    assert upgraded.status == 0, upgraded
    assert "removed: lab-good" in env("reset", "lab").out
    assert env("delete", "lab").out == "deleted environment 'lab'\n"
    assert [e["name"] for e in json.loads(env("list", "--json").out)["environments"]] == ["base"]


def test_env_create_with_packages_and_failures(env):
    made = env("create", "full", "lab-needs", "--json")
    assert made.status == 0 and {p["name"] for p in json.loads(made.out)["added"]} == {"lab-good", "lab-needs"}
    failed = env("install", "full", "lab-nowhere")
    assert failed.status == 1 and "package_not_found" in failed.err and "is as it was" in failed.err
    failed = env("install", "full", "lab-nowhere", "--json")
    assert failed.status == 1 and json.loads(failed.out)["error"]["code"] == "package_not_found"
    for status, code, arguments in (
        (64, "usage", ["lisst"]),
        (64, "usage", ["install", "full"]),
        (64, "usage", ["describe"]),
        (64, "usage", ["list", "much"]),
        (64, "bad_requirement", ["install", "full", "lab-good --pre"]),
        (64, "bad_value", ["create", "a/b"]),
        (69, "env_not_found", ["describe", "nowhere"]),
        (69, "env_not_found", ["install", "nowhere", "lab-good"]),
        (69, "job_not_found", ["status", "full", "job_1"]),
    ):
        answer = env(*arguments)
        assert answer.status == status and f"[{code}]" in answer.err, answer
        assert json.loads(env(*arguments, "--json").out)["error"]["code"] == code
    assert "did you mean 'list'" in env("lisst").err


def test_env_create_that_fails_says_that_the_environment_is_there(env):
    failed = env("create", "empty", "lab-nowhere")
    assert failed.status == 1 and "package_not_found" in failed.err, failed
    assert failed.err.startswith("created environment 'empty' without the packages: 'constrictor env install empty "
                                 "PACKAGES' tries again\n") or "\ncreated environment 'empty' without" in failed.err, failed
    assert env("install", "empty", "lab-good").status == 0


def test_env_names_options_that_the_server_does_not_take(web):
    """The server installs, so an option of the command does not."""
    done = web.cli.call("env", "install", "base", "lab-good", "--offline", "--state", web.state)
    assert done.status == 0, done
    assert "installs with its own settings; --offline of this command has no effect" in done.err, done
    assert "no effect" not in web.cli.call("env", "list", "--offline", "--state", web.state).err


def test_env_has_help(env):
    shown = env.cli.call("env", "--help")
    assert shown.status == 0 and "env [options] install NAME PACKAGES..." in shown.out and "--index-url" in shown.out
    late = env.cli.call("env", "create", "never", "--help")       # which makes nothing
    assert late.out == shown.out and "env [options] import FILE [NAME]" in late.out
    assert "never" not in env.cli.call("env", "list").out
    bare = env.cli.call("env")
    assert bare.status == 64 and "env list" in bare.err


def test_env_shows_a_bar_on_a_terminal(env):
    master, slave = pty.openpty()
    seen = b""

    def read():
        nonlocal seen
        with contextlib.suppress(OSError):
            while data := os.read(master, 4096):
                seen += data

    reader = threading.Thread(target=read)
    reader.start()
    process = env.cli.start("env", "install", "base", "lab-many", *env.flags, stderr=slave, stdout=subprocess.PIPE)
    os.close(slave)
    out, _ = process.communicate(timeout=60)
    reader.join(60)
    os.close(master)
    assert process.returncode == 0 and b"installed: lab-many 1.0" in out
    assert b"[#" in seen and b"%" in seen and seen.endswith(b"\r\x1b[K")


def test_env_ctrl_c_takes_the_installation_back(program, index):
    with open_cli(program) as cli, wheel_lab.held(index, "/simple/lab-large"):
        flags = ("--state", cli.folder / "state", "--index-url", index.url)
        before = len(index.requests)  # the index is shared: only what comes from now on is this installation's
        process = cli.start("env", "install", "base", "lab-large", *flags)
        assert wait_until(lambda: any("lab-large" in path for path in index.requests[before:]))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode not in (0, -signal.SIGINT), (out, err)
        assert json.loads(cli.call("env", "describe", "base", "--json", *flags).out)["lock"] == []


def test_env_without_a_state_folder_says_so(program, index):
    with open_cli(program) as cli:
        (cli.folder / "file").write_text("")
        answer = cli.call("env", "list", "--state", cli.folder / "file")
        assert answer.status == 69 and "[state_unusable]" in answer.err, answer


def test_env_asks_the_server_that_is_named(web, program):
    with open_cli(program) as cli:
        url = f"http://127.0.0.1:{web.port}/mcp"
        assert cli.call("env", "create", "named", "--url", url).status == 0
        assert "named" in {e["name"] for e in web.get("/environments").json["environments"]}
        assert cli.call("env", "list", "--url", "https://example.org").status == 64
        web.server.stop()
        gone = cli.call("env", "list", "--url", url)
        assert gone.status == 69 and "does not answer" in gone.err


# ---- Removing, and locks ----------------------------------------------------------------------------


def test_uninstall_package(c):
    call(c, "create_python_env", name="shrinks", packages=["lab-needs", "lab-data"], wait=50)
    gone = call(c, "uninstall_package", packages="lab-needs", environment="shrinks", wait=50)
    assert gone["state"] == "ready" and {i["name"] for i in gone["removed"]} == {"lab-needs", "lab-good"}
    again = c.call("uninstall_package", packages=["lab-needs"], environment="shrinks", wait=50)
    assert again["isError"] and "is not in the environment" in text(again), again
    names = {i["name"] for i in call(c, "list_installed_packages", environment="shrinks")["packages"]}
    assert "lab-data" in names and "lab-needs" not in names


def test_a_lock_as_text_and_back(c):
    call(c, "create_python_env", name="locks", packages="lab-needs", wait=50)
    answer = c.call("list_installed_packages", environment="locks", lock=True)
    lock = text(answer)
    assert re.search(r"^lab-needs==1\.0 \\\n    --hash=sha256:[0-9a-f]{64}$", lock, re.MULTILINE), lock
    made = call(c, "create_python_env", name="locked-again", lock=lock, wait=50)
    assert {i["name"] for i in made["added"]} == {"lab-needs", "lab-good"}
    bad = c.call("create_python_env", name="no-lock", lock="lab-good==1.0", wait=50)
    assert bad["isError"] and "line 1" in text(bad), bad
    both = c.call("create_python_env", name="both", lock=lock, packages="lab-good")
    assert both["isError"], both
