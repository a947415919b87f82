# SPDX-License-Identifier: Apache-2.0
"""The environment `base` on a new machine: the standard library, and nothing that the host has installed for itself."""

import ast
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import wheel_lab
from conftest import open_cli
from mcp_client import LEGACY, Stdio, text

HOST = "/usr/bin/python3"       # has packages: the build needs meson
LIST = "import importlib.metadata as m, json; print(json.dumps(sorted({d.metadata['Name'] for d in m.distributions()})))"
FOLDERS = """
import os, site, sys
seen = {}
for folder in site.getsitepackages([sys.base_prefix, sys.base_exec_prefix]):
    seen[folder] = os.listdir(folder) if os.path.isdir(folder) else []
print(seen)
"""


@pytest.fixture(scope="module")
def installed():
    """What the host's interpreter has."""
    done = subprocess.run([HOST, "-I", "-c", LIST], capture_output=True, check=True)
    names = json.loads(done.stdout)
    assert names, f"{HOST} has no packages: this machine cannot show that they are hidden"
    return names


@pytest.fixture(scope="module")
def index():
    with wheel_lab.Lab() as lab:
        yield wheel_lab.fill(lab)


def names(cli, *flags, code=LIST):
    result = cli.run(code, *flags)
    assert result.verdict == "ok", result
    return json.loads(result.stdout)


def make_venv(cli, *flags):
    folder = cli.folder / "venv"
    subprocess.run([HOST, "-m", "venv", "--without-pip", *flags, folder], check=True)
    [site] = folder.glob("lib/python3*/site-packages")
    own = site / "own_thing-1.0.dist-info"
    own.mkdir()
    (own / "METADATA").write_text("Metadata-Version: 2.1\nName: own-thing\nVersion: 1.0\n")
    return folder / "bin" / "python3"


# ---- without packages ----------------------------------------------------------------------------


def test_code_sees_no_package_of_the_host(cli, installed):
    assert names(cli, "--python", HOST) == []
    assert names(cli) == []     # python3 of PATH


def test_the_files_of_the_hosts_packages_are_not_in_a_box(cli, installed):
    found = cli.run(FOLDERS, "--python", HOST)
    assert found.verdict == "ok" and "packages" in found.stdout, found
    assert not any(ast.literal_eval(found.stdout).values()), found


def make_interpreter(cli, link):
    """A Python in a folder of its own, with Debian's library; its packages are in a folder or behind a link to one."""
    top, real = cli.folder / "python", os.path.realpath(HOST)
    library = top / "lib" / os.path.basename(real)
    library.mkdir(parents=True)
    (top / "bin").mkdir()
    shutil.copy(real, top / "bin" / "python3")
    for entry in pathlib.Path("/usr/lib", library.name).iterdir():
        (library / entry.name).symlink_to(entry)
    packages = top / "packages"
    packages.mkdir()
    (packages / "hosts_own.py").write_text("VALUE = 5\n")
    for folder in (top / "lib/python3/dist-packages", library / "site-packages"):
        folder.parent.mkdir(exist_ok=True)
        folder.symlink_to(packages) if link else shutil.copytree(packages, folder)
    return top / "bin" / "python3"


@pytest.mark.parametrize("link", [False, True], ids=["folder", "link"])
def test_an_interpreter_in_a_folder_of_its_own(cli, link):
    python = make_interpreter(cli, link)
    code = "import sys\nprint(sys.prefix)\nimport hosts_own"
    hidden = cli.run(code, "--python", python)
    assert hidden.stdout == f"{python.parent.parent}\n" and hidden.json["error"]["type"] == "ModuleNotFoundError", hidden
    assert cli.run(code, "--python", python, "--host-packages").verdict == "ok"


def test_interpreters_that_code_starts_see_none_either(cli, installed):
    code = f"import subprocess, sys\nprint(subprocess.check_output([sys.executable, '-c', {LIST!r}], text=True))"
    assert names(cli, "--python", HOST, code=code) == []
    assert names(cli, "--python", HOST, code=code.replace("sys.executable", "'python3'")) == []


def test_an_option_brings_the_hosts_packages_back(cli, installed):
    assert names(cli, "--python", HOST, "--host-packages") == installed


def test_a_dotenv_file_of_a_project_cannot_bring_them_back(cli, installed):
    (cli.folder / ".env").write_text("CONSTRICTOR_HOST_PACKAGES=true\n")
    result = cli.plain("1", "--python", HOST)
    assert result.status and "CONSTRICTOR_HOST_PACKAGES cannot be set there" in result.err, result


def test_a_virtual_environment_keeps_its_own(cli, installed):
    assert names(cli, "--python", make_venv(cli)) == ["own-thing"]


def test_a_virtual_environment_that_includes_the_systems_has_both(cli, installed):
    assert names(cli, "--python", make_venv(cli, "--system-site-packages")) == sorted([*installed, "own-thing"])


def test_an_active_virtual_environment_keeps_its_own(cli, installed):
    path = f"{make_venv(cli).parent}:{os.environ['PATH']}"
    result = cli.run(LIST, env={"PATH": path})
    assert json.loads(result.stdout) == ["own-thing"], result


def test_a_missing_module_of_the_host_is_reported_as_missing(cli, installed):
    """meson builds this program, so the host has it."""
    result = cli.plain("import mesonbuild", "--python", HOST)
    assert result.status == 1 and "No module named 'mesonbuild'" in result.err and "hint: " in result.err, result


# ---- with packages -------------------------------------------------------------------------------


@pytest.fixture
def executor(program, index):
    """The set of Executor on a new state folder, as in rows E-02, E-04 and E-15."""
    with open_cli(program) as cli:
        c = Stdio(cli, "--stock", "1", "--tools", "executor", "--python", HOST, "--index-url", index.url,
                  version=LEGACY[-1])
        c.open()
        yield c


def listed(c):
    answer = c.call("list_installed_packages")
    assert not answer.get("isError"), text(answer)
    return text(answer)


def test_E_04_a_fresh_list_and_a_reset_show_nothing_of_the_host(executor, installed):
    def nothing():
        said = listed(executor)
        assert not [name for name in (*installed, "lab-good") if f" {name} " in said.replace("\n", " ")], said

    nothing()
    assert "lab-good" in text(executor.call("install_package", package_names="lab-good"))
    assert "lab-good" in listed(executor)
    executor.call("reset_sandbox")
    nothing()


def test_E_15_packages_are_installed_without_the_hosts_pip_in_sight(executor, installed):
    answer = executor.call("install_package", package_names="lab-good")
    assert not answer.get("isError"), text(answer)
    answer = executor.call("execute_python", code="import lab_good\ntry:\n    import pip\nexcept ImportError:\n    print('none')")
    assert "none" in text(answer), text(answer)


def test_pip_install_in_code_names_what_to_use_at_once(cli, installed):
    for words in ("'pip', 'install', 'requests'", "sys.executable, '-m', 'pip', 'install', 'requests'"):
        result = cli.run(f"import subprocess, sys\nr = subprocess.run([{words}], capture_output=True, text=True)\n"
                         "print(r.returncode, r.stderr)", "--python", HOST)
        assert "install_package" in result.stdout and "requests" in result.stdout, result
        assert result.stdout.startswith("1 ") and result.stdout.count("\n") <= 2, "one line: no try to reach an index"


def test_env_packages_shows_what_was_installed_and_no_more(cli, index, installed):
    flags = "--python", HOST, "--index-url", index.url
    before = cli.call("env", "packages", "base", "--json", *flags)
    assert before.json["packages"] == [], before
    done = cli.call("env", "install", "base", "lab-good", *flags)
    assert done.status == 0, done
    after = cli.call("env", "packages", "base", "--json", *flags)
    assert [item["name"] for item in after.json["packages"]] == ["lab-good"], after


