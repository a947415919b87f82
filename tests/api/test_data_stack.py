# SPDX-License-Identifier: Apache-2.0
"""One step gives what data analysis needs: `serve --environment data`, as `make serve DATA=1` starts it, and
`constrictor env create data`. The index on loopback has wheels of the right names that hold next to nothing."""

import contextlib
import json
import signal

import pytest
import wheel_lab
from conftest import TOP, open_cli, wait_until
from mcp_client import LEGACY, Server, Stdio, text
from rest_client import Rest

HOST = "/usr/bin/python3"
DATA = TOP / "build/venv-data/bin/python"
# What row R-16 and a person who plots expect.
EXPECTED = {"numpy", "pandas", "scipy", "matplotlib", "seaborn", "scikit-learn", "statsmodels", "plotly", "sympy", "pillow",
            "openpyxl"}


def wanted(cli):
    """All that `data` is made of; where there is no index, the error names it."""
    failed = cli.call("env", "create", "data", "--offline", "--json", "--state", cli.folder / "none", "--python", HOST)
    assert failed.status == 1, failed
    return failed.json["requirements"]


@pytest.fixture(scope="module")
def index(program):
    with wheel_lab.Lab() as lab, open_cli(program) as cli:
        for name in wanted(cli):
            files = {f"{name.replace('-', '_')}.py": b"VALUE = 5\n"}
            if name == "matplotlib":
                files = {"matplotlib/__init__.py": b"def use(name): pass\n", "matplotlib/pyplot.py": b"VALUE = 5\n"}
            lab.add(wheel_lab.wheel(name, "1.0", files))
        lab.add(wheel_lab.wheel("lab-good", "1.0"))
        yield lab


@contextlib.contextmanager
def serving(cli, *flags, env=None):
    server = Server(cli, "--stock", "1", "--python", HOST, "--state", cli.folder / "state", *flags, env=env)
    rest = Rest(server.port)
    rest.server = server
    try:
        yield rest
    finally:
        server.stop()


def data(cli, index, *flags):
    return serving(cli, "--environment", "data", "--index-url", index.url, *flags)


def base(rest):
    return rest.ask("GET", "/environments/base").json


def packages(rest):
    return {item["name"] for item in base(rest)["lock"]}


def filled(rest):
    assert wait_until(lambda: packages(rest) >= EXPECTED, pause=0.2), rest.server.stderr()


def run(rest, code, **fields):
    return rest.ask("POST", "/execute", {"code": code, "stream": False, **fields}).json


# ---- serve ---------------------------------------------------------------------------------------


def test_the_first_start_installs_and_the_second_finds_it_there(cli, index):
    with data(cli, index) as rest:
        assert run(rest, "1 + 1")["verdict"] == "ok", "code runs meanwhile"
        filled(rest)
        found = run(rest, "import pandas\npandas.VALUE")
        assert found["result"] == "5", found
        wait_until(lambda: "is ready after" in rest.server.stderr())
        said = rest.server.stderr()
        assert "being installed, once" in said and "is ready after" in said, said
    with data(cli, index) as rest:
        assert run(rest, "import numpy\nnumpy.VALUE")["result"] == "5"
        assert "installed" not in rest.server.stderr(), "nothing is done again"


def test_modules_are_imported_ahead(cli, index):
    with data(cli, index) as rest:
        filled(rest)
        shown = base(rest)
        assert shown["preload"] == ["numpy", "pandas", "matplotlib.pyplot"]
        assert wait_until(lambda: base(rest)["warm"]["boxes"] > 0, pause=0.2), rest.server.stderr()
        code = "import sys\nprint('pandas' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
        assert run(rest, code)["stdout"] == "True True\n"


def test_what_a_key_installs_comes_on_top_and_a_reset_takes_it_away(cli, index):
    with data(cli, index) as rest:
        filled(rest)
        begun = packages(rest)
        done = rest.ask("POST", "/environments/base/packages", {"packages": ["lab-good"], "stream": False})
        assert done.json["state"] == "ready" and [item["name"] for item in done.json["added"]] == ["lab-good"], done
        assert packages(rest) == begun | {"lab-good"}
        assert run(rest, "import lab_good, pandas")["verdict"] == "ok"
        done = rest.ask("DELETE", "/environments/base/packages?packages=pandas")
        assert done.json["state"] == "ready", done
        assert "pandas" not in packages(rest)
        done = rest.ask("DELETE", "/environments/base/packages?all=true")
        assert done.json["state"] == "ready" and [p["name"] for p in done.json["removed"]] == ["lab-good"], done
        assert packages(rest) == begun
        assert run(rest, "import pandas")["verdict"] == "ok"


def test_every_key_begins_with_it_and_changes_only_its_own(cli, index):
    keys = cli.folder / "keys"
    keys.write_text("alice:" + "a" * 40 + "\nbob:" + "b" * 40 + "\n")
    keys.chmod(0o600)
    with data(cli, index, "--api-key-file", keys) as rest:
        alice, bob = Rest(rest.port, "a" * 40), Rest(rest.port, "b" * 40)
        alice.server = rest.server
        filled(alice)
        alice.ask("DELETE", "/environments/base/packages?packages=pandas")
        assert "pandas" not in packages(alice) and "pandas" in packages(bob)
        assert run(alice, "import pandas")["verdict"] == "error"
        assert run(bob, "import pandas")["verdict"] == "ok"
        assert alice.ask("GET", "/environments/data").status == 404, "the operator's own is not theirs"


def test_killed_in_the_middle_and_started_again(cli, index):
    for sign in (signal.SIGKILL, signal.SIGINT):
        server = Server(cli, "--environment", "data", "--index-url", index.url, "--stock", "1", "--python", HOST,
                        "--state", cli.folder / "state")
        assert wait_until(lambda server=server: "being installed" in server.stderr())
        server.process.send_signal(sign)
        server.process.wait()
    with data(cli, index) as rest:
        filled(rest)


def test_two_servers_that_start_at_once_install_it_together(cli, index):
    with data(cli, index) as one, data(cli, index) as two:
        for rest in (one, two):
            filled(rest)
            assert run(rest, "import pandas\npandas.VALUE")["result"] == "5"
            assert wait_until(lambda rest=rest: "is ready after" in rest.server.stderr()), rest.server.stderr()


def test_the_environment_is_deleted_while_it_is_the_default(cli, index):
    with data(cli, index) as rest:
        filled(rest)
        assert rest.ask("DELETE", "/environments/data").status in (200, 204)
        assert packages(rest) == set() and run(rest, "1 + 1")["result"] == "2"
    with data(cli, index) as rest:
        filled(rest)


def test_without_an_index_the_error_names_what_to_do(cli):
    with serving(cli, "--environment", "data", "--index-url", "http://127.0.0.1:9/simple") as rest:
        assert wait_until(lambda: "could not be filled" in rest.server.stderr()), rest.server.stderr()
        said = rest.server.stderr()
        assert "[index_unreachable]" in said and "hint: " in said and "start the server again" in said, said
        assert run(rest, "1 + 1")["result"] == "2", "code runs without the packages"


def test_another_environment_as_the_default(cli, index):
    flags = "--index-url", index.url, "--python", HOST
    done = cli.call("env", "create", "lab", "lab-good", *flags)
    assert done.status == 0, done
    with serving(cli, "--environment", "lab", "--index-url", index.url) as rest:
        assert packages(rest) == {"lab-good"}
        assert run(rest, "import lab_good")["verdict"] == "ok"


@pytest.mark.parametrize("name, says", [("nothing", "no environment 'nothing'"), ("../x", "--environment")])
def test_a_default_that_does_not_exist_is_reported(cli, name, says):
    with serving(cli, "--environment", name) as rest:
        assert says in rest.server.stderr()
        assert run(rest, "1 + 1")["result"] == "2"


# ---- env create data -----------------------------------------------------------------------------


def test_env_create_data_needs_no_list_and_can_be_repeated(cli, index):
    flags = "--index-url", index.url, "--python", HOST
    first = cli.call("env", "create", "data", *flags)
    assert first.status == 0 and "environment 'data' is ready" in first.out and "pandas 1.0" in first.out, first
    again = cli.call("env", "create", "data", *flags)
    assert again.status == 0 and "has all of it already" in again.out, again
    result = cli.run("import pandas", "--env", "data", "--python", HOST)
    assert result.verdict == "ok", result


def test_env_create_data_with_a_list_is_an_environment_as_any_other(cli, index):
    done = cli.call("env", "create", "data", "lab-good", "--index-url", index.url, "--python", HOST)
    assert done.status == 0 and "pandas" not in done.out, done


# ---- the sets of other servers -------------------------------------------------------------------


def test_K_06_kernels_have_matplotlib_in_one_step(cli, index):
    """The document's first curl imports matplotlib.pyplot; here its wheel is a small one."""
    with data(cli, index, "--tools", "kernels") as rest:
        filled(rest)
        code = "print('Hello, World!')\nimport matplotlib.pyplot as plt\nprint(plt.VALUE)"
        said = rest.ask("POST", "/execute", {"code": code, "session_id": "my-session"})
        texts = "".join(line.get("text", "") for line in said.lines)
        assert texts == "Hello, World!\n5\n", said


def test_K_06_a_model_can_install_in_the_set_of_kernels(cli, index):
    with Stdio(cli, "--tools", "kernels", "--stock", "1", "--python", HOST, "--index-url", index.url,
               version=LEGACY[-1]) as c:
        c.open()
        failed = c.call("execute_python_code", code="import lab_good", session_id="s")
        assert "No module named 'lab_good'" in text(failed)
        done = c.call("install_package", packages="lab-good")
        assert not done.get("isError"), text(done)
        said = c.call("execute_python_code", code="import lab_good; lab_good.VERSION", session_id="s")
        assert "1.0" in text(said), text(said)


def info(cli, env, *flags):
    with Stdio(cli, "--tools", "restricted", "--stock", "1", "--offline", *flags, version=LEGACY[-1], env=env) as c:
        c.open()
        return c.call("get_sandbox_info")["structuredContent"]["resource_limits"]["memory_limit"]


def test_R_16_switching_the_profile_on_installs_its_packages(cli, index):
    with serving(cli, "--tools", "restricted,default", "--policy", "guarded", "--index-url", index.url,
                 env={"SANDBOX_ENABLE_DATA_SCIENCE": "true"}) as rest:
        filled(rest)
        assert run(rest, "import pandas\npandas.VALUE")["result"] == "5"


def test_R_16_an_interpreter_with_packages_of_its_own_is_left_as_it_is(cli, index):
    with serving(cli, "--tools", "restricted", "--python", DATA, "--index-url", index.url,
                 env={"SANDBOX_ENABLE_DATA_SCIENCE": "true"}) as rest:
        assert packages(rest) == set() and "being installed" not in rest.server.stderr()


def test_R_16_the_profile_has_enough_memory(cli):
    on = {"SANDBOX_ENABLE_DATA_SCIENCE": "true"}
    assert info(cli, {}, "--python", DATA) == "128m"
    assert info(cli, on, "--python", DATA) == "512m"
    assert info(cli, {**on, "SANDBOX_DEFAULT_MEMORY_LIMIT": "96m"}, "--python", DATA) == "96m", "a value given wins"


def test_R_16_a_shown_figure_is_in_the_answer(cli):
    with Stdio(cli, "--tools", "restricted", "--stock", "1", "--offline", "--python", DATA, version=LEGACY[-1],
               env={"SANDBOX_ENABLE_DATA_SCIENCE": "true"}) as c:
        c.open()
        shown = c.call("execute_code", code="import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4])\nplt.show()")
        assert [block["type"] for block in shown["content"]] == ["text", "image"], text(shown)
        assert shown["content"][1]["mimeType"] == "image/png" and json.loads(text(shown))["success"]
        plain = c.call("execute_code", code="result = 5")
        assert [block["type"] for block in plain["content"]] == ["text"]
