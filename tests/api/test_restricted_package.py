# SPDX-License-Identifier: Apache-2.0
"""The policy `restricted` on a machine whose interpreter has no RestrictedPython: the server installs it once, for
itself, and everything works; where it cannot, nothing runs and the answer says what to do. What a caller installs
under that name is never what his code is transformed with.

RestrictedPython is the real one: its wheel is made of what these tests run with, and served on loopback.
"""

import concurrent.futures
import importlib.metadata
import json
import pathlib
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import wheel_lab
from conftest import open_cli, wait_until
from mcp_client import Http, Server, Stdio, text
from rest_client import Rest, serve

PYTHON = "/usr/bin/python3"
FLAGS = ("--python", PYTHON, "--stock", "2")
HOSTILE = b"""
print("TAKEN")
IOPERATOR_TO_STR = {}
def copy_locations(new, old):
    pass
class RestrictingNodeTransformer:
    def visit(self, node):
        return node
    visit_Name = node_contents_visit = visit
"""
FINDER = """
import sys, importlib.util, importlib.machinery
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("RestrictedPython"):
            print("TAKEN")
            return importlib.machinery.PathFinder.find_spec(name, path or [p for p in sys.path if "/opt/wheels" in p])
sys.meta_path.insert(0, Finder())
"""
ESCAPE = "print(().__class__)"
PAGE = "/simple/restrictedpython/"


def wheel():
    try:
        dist = importlib.metadata.distribution("RestrictedPython")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("these tests' own interpreter has no RestrictedPython; run tools/setup test")
    files = {str(path): path.locate().read_bytes() for path in dist.files
             if path.suffix == ".py" and path.parts[0] == "RestrictedPython" and "tests" not in path.parts}
    return wheel_lab.wheel("RestrictedPython", dist.version, files)


@pytest.fixture(scope="module")
def lab():
    if not subprocess.run([PYTHON, "-c", "import RestrictedPython"], capture_output=True).returncode:
        pytest.skip(f"{PYTHON} has RestrictedPython of its own")
    with wheel_lab.Lab() as index:
        index.add(wheel())
        index.add(wheel_lab.wheel("lab-evil", "1.0", {
            "RestrictedPython/__init__.py": b"print('TAKEN')\n", "RestrictedPython/transformer.py": HOSTILE}))
        yield index


def installations(lab):
    """How often the index was asked which versions there are."""
    return lab.requests.count(PAGE)


def stop(process):
    process.terminate()
    assert process.wait(600) == 0


@pytest.fixture(scope="module")
def opened(program, lab):
    """A server that leaves everything open; calls ask for the policy."""
    with open_cli(program) as cli:
        server = serve(cli, *FLAGS, "--index-url", lab.url, "--enable-filesystem")
        assert server.get("/environments").status == 200
        yield server


def test_the_tool_set_works_out_of_the_box_and_again_offline(program, lab):
    """Nothing but `--tools restricted`: the installation begins by itself, and is found again without an index."""
    with open_cli(program) as cli:
        flags = ("--tools", "restricted", *FLAGS, "--state", cli.folder / "state")
        before = installations(lab)
        server = Server(cli, *flags, "--index-url", lab.url)
        wait_until(lambda: installations(lab) > before)       # before any call asked
        with Http(server) as c:
            c.open()
            look_at_tools(c)
        listed = Rest(server.port).get("/environments").json
        assert [item["name"] for item in listed["environments"]] == ["base"]
        asked = len(lab.requests)
        stop(server.process)
        with Stdio(cli, *flags, "--offline") as c:
            c.open()
            look_at_tools(c)
        assert len(lab.requests) == asked and installations(lab) == before + 1


def look_at_tools(c):
    answer = c.call("execute_code", code="import math\nresult = [math.floor(x) for x in (1.5, 2.5)]\nprint(sum(result))")
    found = json.loads(text(answer))
    assert found["success"] and found["stdout"] == "3\n" and found["result"] == [1, 2], found
    found = json.loads(text(c.call("execute_code", code=ESCAPE)))
    assert not found["success"] and "__class__" in json.dumps(found), found
    for name in "RestrictedPython", "os":
        found = json.loads(text(c.call("execute_code", code=f"import {name}")))
        assert not found["success"], found
    assert json.loads(text(c.call("validate_code", code="x = 1")))["validation"]["valid"]
    found = json.loads(text(c.call("validate_code", code=ESCAPE)))
    assert not found["validation"]["valid"] and "__class__" in json.dumps(found), found
    assert c.call("get_sandbox_info")["structuredContent"]["restricted_python"] is True


def test_many_who_wait_have_one_installation(opened, lab):
    """Runs, a session and a check that come while it is not there yet; all of them are answered."""
    def slow(handler):
        del lab.moods[PAGE]
        time.sleep(0.5)
        lab.requests.remove(PAGE)       # it comes again
        handler.do_GET()

    before = installations(lab)
    lab.moods[PAGE] = slow
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        runs = [pool.submit(opened.run, f"{i} + 1", policy="restricted") for i in range(2)]
        session = pool.submit(opened.run, "x = 20", policy="restricted", session="one")
        check = pool.submit(opened.post, "/validate", {"code": ESCAPE, "policy": "restricted"})
        assert opened.run("1 + 1")["result"] == "2"          # who needs it not does not wait
        assert [run.result()["result"] for run in runs] == ["1", "2"]
        assert session.result()["verdict"] == "ok"
        found = check.result().json
        assert not found["valid"] and found["violations"][0]["target"] == "__class__", found
    assert installations(lab) == before + 1 and not lab.moods, lab.requests
    assert opened.run("x + 1", policy="restricted", session="one")["result"] == "21"
    found = opened.run(ESCAPE, policy="restricted", session="one")
    assert found["verdict"] == "denied" and found["stdout"] == "", found


def test_code_gains_nothing_by_it(opened):
    """It is in no path, in no list, and cannot be imported, even where the call allows the name."""
    look = "import sys, os\nprint([p for p in sys.path + [os.environ.get('PYTHONPATH', '')] if '/opt/wheels' in p])"
    assert opened.run(look)["stdout"] == "[]\n"
    found = opened.run("import RestrictedPython", policy="restricted", allowed_imports=["RestrictedPython"])
    assert found["verdict"] == "error" and found["error"]["type"] == "ModuleNotFoundError", found
    found = opened.run("import RestrictedPython", policy="restricted")
    assert found["verdict"] == "denied", found
    listed = opened.get("/environments").json["environments"]
    assert "set-" not in json.dumps(listed) and "olicy" not in json.dumps(listed), listed


def test_a_package_of_the_callers_is_never_the_transformer(opened):
    """One that brings a module RestrictedPython along, which lets everything through."""
    opened.post("/environments", {"name": "evil"})
    job = opened.post("/environments/evil/packages", {"packages": "lab-evil", "wait": 60}).json
    assert job["state"] == "ready", job
    assert opened.run("import RestrictedPython", environment="evil")["stdout"] == "TAKEN\n"
    for more in {}, {"session": "fresh"}:
        found = opened.run(ESCAPE, policy="restricted", environment="evil", **more)
        assert found["verdict"] == "denied" and found["stdout"] == "", found
    # A session in which code has imported its own before; a file of that name; an entry in sys.modules; a finder.
    for number, code in enumerate((
            "import RestrictedPython.transformer",
            "open('RestrictedPython.py', 'w').write('print(\"TAKEN\")')",
            "import sys, types\nsys.modules['RestrictedPython'] = sys.modules['RestrictedPython.transformer'] = "
            "types.ModuleType('RestrictedPython')", FINDER)):
        name = f"mixed-{number}"
        found = opened.run(code, session=name, environment="evil")
        assert found["verdict"] == "ok", found
        for _ in range(2):
            found = opened.run(ESCAPE, policy="restricted", session=name)
            assert found["verdict"] == "denied" and "TAKEN" not in found["stdout"], found
        assert opened.run("[i for i in range(3)]", policy="restricted", session=name)["result"] == "[0, 1, 2]"
    assert opened.run("import sys\nprint(sys.modules['RestrictedPython'].__file__.startswith('/opt/wheels/'))",
                      session="mixed-0")["stdout"] == "True\n"        # theirs is theirs


def test_without_an_index_nothing_runs_and_it_is_said_why(program, lab):
    """A stable code, the interpreter, and what to do; for runs, sessions and checks; and the server lives."""
    with open_cli(program) as cli:
        server = serve(cli, *FLAGS, "--offline", "--policy", "restricted")
        calls = (("/execute", {"code": "print('ran')", "stream": False}),
                 ("/execute", {"code": "print('ran')", "stream": False, "session": "a"}),
                 ("/validate", {"code": "x = 1"}))
        for path, body in calls:
            answer = server.post(path, body)
            found = answer.error
            assert answer.status == 409 and found["code"] == "restricted_missing", answer
            assert PYTHON in found["message"] and "offline" in found["message"], found
            assert "pip install RestrictedPython" in found["hint"] and "--index-url" in found["hint"], found
            assert "ran" not in answer.data.decode().split()
        assert server.get("/sessions").json["sessions"] in ([], {})
        stop(server.process)


def test_what_the_operator_denies_is_not_installed(program, lab):
    with open_cli(program) as cli:
        before = installations(lab)
        flags = (*FLAGS, "--index-url", lab.url, "--deny-package", "restrictedpython", "--tools", "restricted")
        with Stdio(cli, *flags, "--state", cli.folder / "state") as c:
            c.open()
            answer = c.call("execute_code", code="print(1)")
            assert answer["isError"] and "pip install RestrictedPython" in text(answer), answer
            assert c.call("get_sandbox_info")["structuredContent"]["restricted_python"] is False
        assert installations(lab) == before


@pytest.mark.parametrize("command", ["run", "check"])
def test_the_command_has_it_too(program, lab, command):
    """`run` and `check` install it for themselves, once."""
    with open_cli(program) as cli:
        flags = ("--python", PYTHON, "--state", cli.folder / "state", "--index-url", lab.url)
        ends = [cli.call(command, "--policy", "restricted", *flags, "-c", code)
                for code in ("x = [i for i in range(3)]\nx += [7]\nprint(x)", ESCAPE)]
        assert [end.status for end in ends] == ([0, 126] if command == "run" else [0, 1]), ends
        assert command == "check" or "[0, 1, 2, 7]" in ends[0].out, ends
        assert "__class__" in ends[1].out + ends[1].err
        again = cli.call(command, "--policy", "restricted", *flags, "--offline", "-c", "print(1)")
        assert again.status == 0, again
