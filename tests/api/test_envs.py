# SPDX-License-Identifier: Apache-2.0
"""Environments and packages from end to end: a server, an index on loopback with wheels that are made here, and
code that imports what was installed."""

import os
import pathlib
import signal
import sys
import threading

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import wheel_lab
from conftest import TOP, open_cli
from rest_client import serve

UV_PYTHON = TOP / "build/venv-net/bin/python"
PYTHON = UV_PYTHON if UV_PYTHON.exists() else sys.executable


@pytest.fixture(scope="module")
def lab():
    with wheel_lab.Lab() as lab:
        yield wheel_lab.fill(lab)


@pytest.fixture
def start(cli, lab):
    """Starts a server whose interpreter has uv, if tools/setup has put it there."""
    def start(*flags, index=True, python=PYTHON, **options):
        more = ("--index-url", lab.url) if index else ()
        return serve(cli, "--python", python, *more, *flags, **options)
    return start


@pytest.fixture
def server(start):
    return start()


@pytest.fixture(scope="module")
def shared(program, lab):
    """For tests that leave it as it was: lab-mixed-name is in base. The tests' own interpreter, which has pip only."""
    with open_cli(program) as cli:
        server = serve(cli, "--python", sys.executable, "--index-url", lab.url)
        installed(server, "lab-mixed-name")
        yield server


def install(server, packages, name="base", **fields):
    answer = server.post(f"/environments/{name}/packages", {"packages": packages, "wait": 60, **fields})
    return answer.json


def installed(server, packages, name="base", **fields):
    job = install(server, packages, name, **fields)
    assert job.get("state") == "ready", job
    return job


def lock_of(server, name="base"):
    one = server.get(f"/environments/{name}").json
    return {item["name"]: item["version"] for item in one["lock"]}


# ---- The straight way -----------------------------------------------------------------------------

def test_a_package_is_there_in_a_live_session(server):
    first = server.run("x = 41\ntry:\n    import lab_good\nexcept ImportError as e:\n    print(e)", session="s")
    assert "No module named 'lab_good'" in first["stdout"]
    job = installed(server, "lab-good")
    assert job["added"] == [{"name": "lab-good", "version": "2.0"}] and job["error"] is None
    second = server.run("import lab_good\nprint(x + 1, lab_good.VERSION, lab_good.__file__)", session="s")
    assert second["stdout"].startswith("42 2.0 /opt/wheels/"), second
    assert server.run("import lab_good; lab_good.VERSION")["result"] == "'2.0'"


def test_children_see_packages(server):
    installed(server, "lab-good")
    code = "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'import lab_good; print(lab_good.VERSION)'], capture_output=True, text=True))"
    assert "2.0" in server.run(code)["stdout"]


def test_children_look_for_modules_where_their_parent_does(server, lab):
    """A package that has names of the standard library does not replace it."""
    files = {f"{name}.py": b"raise RuntimeError('not the standard library')" for name in ("json", "os", "sitecustomize")}
    lab.add(wheel_lab.wheel("lab-shadow", "1.0", {**files, "lab_shadow.py": b"VERSION = 1\n"}))
    installed(server, "lab-shadow lab-good")
    look = "import json, os, sys, lab_shadow; print([p for p in sys.path if p not in ('', '/mnt/data') and 'constrictor' not in p])"
    code = f"import multiprocessing, subprocess, sys\ndef look():\n    {look}\nif True:\n    {look}\n" \
           f"print(subprocess.run([sys.executable, '-c', {look!r}], capture_output=True, text=True, check=True).stdout, end='')\n" \
           "for kind in 'fork', 'spawn':\n    pool = multiprocessing.get_context(kind).Pool(1)\n" \
           f"    pool.apply(exec, ({look!r},))\n    pool.close()\n    pool.join()"
    ran = server.run(code)
    said = ran["stdout"].splitlines()
    assert len(said) == 4 and ran["verdict"] == "ok", ran
    assert "/opt/wheels/" in said[0] and said[1:] == said[:1] * 3, said
    own = "import os; os.environ['PYTHONPATH'] = '/tmp/lib:' + os.environ['PYTHONPATH']; import subprocess, sys\n" \
          "subprocess.run([sys.executable, '-c', 'import sys, lab_good; print(sys.path[1])'], capture_output=True, text=True).stdout"
    assert server.run(own)["result"] == repr("/tmp/lib\n")


def test_no_file_of_a_package_is_run_when_a_child_starts(start, lab):
    """`site` imports sitecustomize and usercustomize, and runs lines of .pth files: not those of a package."""
    server = start(python=sys._base_executable)     # in a virtual environment there is no usercustomize
    files = {f"{name}.py": b"import sys; sys.stderr.write('it ran')" for name in ("sitecustomize", "usercustomize")}
    files["lab_start.pth"] = b"import sys; sys.stderr.write('it ran')\n"
    lab.add(wheel_lab.wheel("lab-start", "1.0", {**files, "lab_start.py": b"VERSION = 1\n"}))
    installed(server, "lab-start")
    code = "import subprocess, sys\n" \
           "print(subprocess.run([sys.executable, '-c', 'import lab_start; print(lab_start.VERSION)'], " \
           "capture_output=True, text=True))"
    ran = server.run(code)
    assert "stdout='1\\n'" in ran["stdout"] and "stderr=''" in ran["stdout"], ran


def test_each_environment_has_its_own_version(server):
    for name, wanted, version in ("old", "lab-good<2", "1.5"), ("new", "lab-good>=2", "2.0"):
        assert server.post("/environments", {"name": name}).status == 201
        installed(server, [wanted], name)
        assert server.run("import lab_good; lab_good.VERSION", environment=name)["result"] == f"'{version}'"
    bare = server.run("import lab_good")
    assert bare["error"]["type"] == "ModuleNotFoundError"
    names = [item["name"] for item in server.get("/environments").json["environments"]]
    assert names == ["base", "new", "old"]


def test_another_version_than_the_preloaded_one(start, lab):
    lab.add(wheel_lab.wheel("iniconfig", "99.0", {"iniconfig/__init__.py": b"__version__ = '99.0'\n"}))
    server = start("--preload", "iniconfig", python=sys.executable)
    code = "import iniconfig\nprint(iniconfig.__file__)"
    assert "/site-packages/" in server.run(code, session="s")["stdout"]
    installed(server, "iniconfig==99.0")
    assert "/opt/wheels/" in server.run(code)["stdout"]
    assert server.run("import iniconfig; iniconfig.__version__", session="new")["result"] == "'99.0'"


def test_a_wheelhouse_and_no_network(start, lab, cli):
    wheels = cli.folder / "wheels"
    wheels.mkdir()
    cli.folder.chmod(0o755)
    for name in "lab_good-2.0-py3-none-any.whl", "lab_needs-1.0-py3-none-any.whl":
        (wheels / name).write_bytes(lab.files[name].data)
    asked = len(lab.requests)
    server = start("--offline", "--find-links", wheels, index=False)
    installed(server, "lab-needs")
    assert server.run("import lab_good; lab_good.VERSION")["result"] == "'2.0'"
    job = install(server, "lab-data")
    assert job["state"] == "failed" and job["error"]["code"] == "package_not_found", job
    assert len(lab.requests) == asked


def test_packages_of_a_call_are_made_once(server, lab):
    code = "import lab_good; lab_good.VERSION"
    assert server.run(code, packages=["lab-good==1.0"])["result"] == "'1.0'"
    asked = len(lab.requests)
    assert server.run(code, packages=["lab-good==1.0"])["result"] == "'1.0'"
    assert len(lab.requests) == asked


def test_metadata_in_the_code(server):
    code = "# /// script\n# dependencies = [\n#   'lab-good<2',\n# ]\n# ///\nimport lab_good\nlab_good.VERSION"
    assert server.run(code)["result"] == "'1.5'"
    assert server.run("\ufeff" + code)["result"] == "'1.5'"          # as some editors save a file
    both = server.run(code + ", __import__('lab_mixed_name').__name__", packages="lab-mixed-name")
    assert both["result"] == "('1.5', 'lab_mixed_name')", both      # what a call asks for comes on top
    assert server.run("# /// script\n# dependencies = []\n# ///\n1 + 1")["result"] == "2"
    bad = server.post("/execute", {"code": "# /// script\n# dependencies = [\n# ///\n1", "stream": False})
    assert bad.status >= 400 and bad.error["code"] == "bad_requirement", bad


def test_requirements_add_up_and_go_again(server):
    installed(server, "lab-needs")
    installed(server, ["lab-mixed-name"])
    assert lock_of(server) == {"lab-good": "2.0", "lab-needs": "1.0", "lab-mixed-name": "1.0"}
    gone = server.ask("DELETE", "/environments/base/packages?packages=lab-needs").json
    assert gone["state"] == "ready" and {item["name"] for item in gone["removed"]} == {"lab-good", "lab-needs"}
    assert lock_of(server) == {"lab-mixed-name": "1.0"}
    assert server.ask("DELETE", "/environments/base/packages?all=true").json["state"] == "ready"
    assert lock_of(server) == {}


def test_known_wheels_are_not_fetched_again(start, lab, cli):
    """pip reads a wheel for itself when it resolves; it is brought here only once."""
    server = start("--index-age", "0s")
    def fetched(name):
        before = sum(path.endswith(".whl") for path in lab.requests)
        installed(server, "lab-good", name)
        return sum(path.endswith(".whl") for path in lab.requests) - before
    server.post("/environments", {"name": "second"})
    assert fetched("base") == fetched("second") + 1
    if os.geteuid() == 0:
        assert len(list((cli.folder / "state/environments/wheels").iterdir())) == 1


def test_environments_outlive_the_server(start):
    first = start()
    installed(first, "lab-good")
    first.process.send_signal(signal.SIGTERM)
    first.process.wait(600)
    second = start()
    assert second.run("import lab_good; lab_good.VERSION")["result"] == "'2.0'"


def test_two_installs_into_one_environment_queue(server):
    answers = []
    threads = [threading.Thread(target=lambda name=name: answers.append(install(server, name)))
               for name in ("lab-good", "lab-mixed-name", "lab-data")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [job["state"] for job in answers] == ["ready"] * 3, answers
    assert set(lock_of(server)) == {"lab-good", "lab-mixed-name", "lab-data"}


# ---- What goes wrong ------------------------------------------------------------------------------

@pytest.mark.parametrize("wanted, code, requirement", [
    ("lab-nowhere", "package_not_found", "lab-nowhere"),
    ("lab-good==9", "version_not_found", "lab-good"),
    ("lab-needs lab-old", "conflict", None),
    ("lab-yanked", "yanked_only", "lab-yanked"),
    ("lab-ancient", "no_wheel", "lab-ancient"),
    ("lab-source", "no_wheel", "lab-source"),
    ("lab-wrong-hash", "hash_mismatch", "lab-wrong-hash"),
])
def test_what_cannot_be_installed_changes_nothing(shared, wanted, code, requirement):
    """With pip; with uv in test_env_bad.py."""
    server = shared
    job = install(server, wanted)
    assert job["state"] == "failed", job
    error = job["error"]
    assert code is None or error["code"] == code, error
    assert error["message"] and (requirement is None or requirement in (error["requirement"] or "")), error
    assert lock_of(server) == {"lab-mixed-name": "1.0"}
    assert server.run("import lab_mixed_name; 1")["result"] == "1"


@pytest.mark.parametrize("wanted", ["--index-url http://x.test/ lab-good", "-e .", "lab-good --target /", "lab-good; rm -rf /",
                                    "lab-good\nlab-needs", "git+https://x.test/y", "/etc/passwd", "lab-good @ https://x.test/y.whl",
                                    "$(id)", ""])
def test_what_is_smuggled_is_refused(shared, lab, wanted):
    asked = len(lab.requests)
    answer = shared.post("/environments/base/packages", {"packages": [wanted], "wait": 10})
    assert answer.status == 400 and answer.error["code"] == "bad_requirement" and answer.error["hint"], answer
    assert len(lab.requests) == asked


def test_an_index_that_is_down(start):
    server = start("--index-url", "http://127.0.0.1:9/simple", index=False)
    job = install(server, "lab-good")
    assert job["state"] == "failed" and job["error"]["code"] == "index_unreachable", job


def test_lists_of_the_operator(start):
    server = start("--deny-package", "lab-good")
    answer = server.post("/environments/base/packages", {"packages": "lab-good"})
    assert answer.error["code"] == "denied_package", answer
    job = install(server, "lab-needs")          # which needs it
    assert job["state"] == "failed" and job["error"]["code"] == "denied_package", job


def test_limits_of_an_installation(start):
    server = start("--install-bytes", "1M")
    job = install(server, "lab-large")
    assert job["state"] == "failed" and job["error"]["code"] == "too_large", job


def test_no_code_runs_and_nothing_else_is_reached(server):
    installed(server, "lab-pth lab-spy")
    found = server.run("import os, lab_spy, lab_pth\nprint(os.environ.get('LAB'))\nlab_spy.FOUND")
    assert found["stdout"] == "None\n"
    tried = found["result_json"]
    del tried["kill"]                           # to the box's own first process, which does not care
    assert len(tried) == 4 and all("refused" in value for value in tried.values()), tried


def test_names_of_environments(shared):
    server = shared
    for name in "a b", "../x", "x;y", "", "a" * 65, "set-1":
        answer = server.post("/environments", {"name": name})
        assert answer.status in (400, 409), (name, answer)
    missing = server.post("/execute", {"code": "1", "environment": "nope", "stream": False})
    assert missing.status == 404 and missing.error["code"] == "env_not_found" and "base" in missing.error["hint"], missing


def test_the_code_of_others_is_not_seen(start):
    server = start(env={"CONSTRICTOR_API_KEY": f"one:{'1' * 32},two:{'2' * 32}"}, key="1" * 32)
    installed(server, "lab-good")
    server.key = "2" * 32
    assert server.run("import lab_good")["error"]["type"] == "ModuleNotFoundError"
    assert lock_of(server) == {}
    assert server.run("import os\nos.listdir('/opt/wheels')")["error"]["type"] == "PermissionError"
