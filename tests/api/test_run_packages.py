# SPDX-License-Identifier: Apache-2.0
"""`constrictor run` with packages: --env, --package, and a script that says what it needs (PEP 723)."""

import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import wheel_lab
from conftest import open_cli

SCRIPT = """\
# /// script
# dependencies = ["lab-good>=1.0"]
# ///
import lab_good
print(lab_good.__name__)
"""


@pytest.fixture(scope="module")
def run(program):
    with wheel_lab.Lab() as index, open_cli(program) as cli:
        wheel_lab.fill(index)
        flags = ("--state", cli.folder / "state", "--index-url", index.url)

        def run(*arguments, command="run"):
            return cli.call(command, *flags, *arguments)

        run.cli, run.index = cli, index
        yield run


def test_a_script_that_says_what_it_needs(run):
    path = run.cli.folder / "script.py"
    path.write_text(SCRIPT)
    first = run(path)
    assert first.status == 0 and first.out == "lab_good\n", first
    asked = len(run.index.requests)
    again = run("--offline", path)
    assert again.status == 0 and again.out == "lab_good\n" and len(run.index.requests) == asked, again


def test_packages_by_name(run):
    end = run("--package", "lab-good>=1,<9", "-c", "import lab_good\nprint(1)")
    assert end.status == 0 and end.out == "1\n", end
    bare = run("-c", "import lab_good")
    assert bare.status == 1 and "ModuleNotFoundError" in bare.err, bare


def test_an_environment(run):
    assert run("create", "mine", "lab-good", command="env").status == 0
    end = run("--env", "mine", "--json", "-c", "import lab_good\n7")
    assert end.status == 0 and json.loads(end.out)["result_json"] == 7, end


@pytest.mark.parametrize(
    "code, arguments",
    [
        ("env_not_found", ["--env", "nowhere"]),
        ("bad_requirement", ["--package", "--index-url=x"]),
        ("install_failed", ["--package", "lab-good>=77"]),
    ],
)
def test_what_cannot_be_had_is_said_and_nothing_runs(run, code, arguments):
    end = run(*arguments, "-c", "print('RAN')")
    assert end.status not in (0, 1) and f"[{code}]" in end.err and "RAN" not in end.out, end
