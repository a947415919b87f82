# SPDX-License-Identifier: Apache-2.0
"""tests/run leaves nothing behind, however it ends: a few tests are started by a second one."""

import os
import pathlib
import signal
import subprocess

import pytest
from conftest import ROOT, TOP
from test_leaks import find_cgroups

# A test that never ends, with a server and a box, and one that passes.
TESTS = """
import subprocess
import time
import rest_client

def test_short():
    pass

def test_endless(cli, tmp_path):
    server = rest_client.serve(cli)
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    with server.streaming("import os, time; os.fork(); print('begun', flush=True); time.sleep(1000)", timeout=300) as r:
        while b"begun" not in r.readline():
            pass
        (tmp_path.parent.parent / "begun").write_text("")
        time.sleep(1000)
"""


class Run:
    """tests/run with a group of its own, in a folder of its own for its results."""

    def __init__(self, cli, tests, *steps, named=""):
        self.file = TOP / "tests" / "api" / f"test_run_{os.getpid()}_{len(cli.started)}.py"
        self.file.write_text(tests)
        groups = cli.folder / "groups"
        groups.write_text(f"api/{self.file.name} rest\n")
        env = {**os.environ, "TEST_GROUPS": str(groups), "TEST_RESULTS": str(cli.folder / "results"),
               "PYTEST_ARGS": f"-x {named}"}
        self.log = cli.folder / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([TOP / "tests" / "run", *steps], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT, env=env, start_new_session=True)
        cli.started.append(self.process)

    @property
    def text(self):
        return self.log.read_text(errors="replace")

    def folders(self):
        mine = f"constrictor-{self.process.pid}-"
        return [path for top in ("/tmp", "/var/tmp") for path in pathlib.Path(top).iterdir()
                if path.name.startswith(mine)]


@pytest.fixture
def begin(cli):
    runs = []

    def start(*arguments, **options):
        runs.append(Run(cli, *arguments, **options))
        return runs[-1]

    yield start
    for run in runs:
        run.file.unlink()


def has_begun(run):
    return [path for folder in run.folders() for path in folder.glob("begun")] or run.process.poll() is not None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("step", ["api", *(["user"] if ROOT else [])])
def test_nothing_is_left_when_it_is_stopped(begin, tools, step, number):
    run = begin(TESTS, step)
    assert tools.wait_until(lambda: has_begun(run))
    assert run.process.poll() is None, run.text
    pids = [run.process.pid, *tools.descendants(run.process.pid)]
    text = tools.describe(pids)
    assert "constrictor" in text and "sleep" in text, text
    os.kill(run.process.pid, number)
    assert run.process.wait(600) == 128 + number, run.text
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")], run.text
    assert not run.folders(), run.folders()
    assert not find_cgroups(tuple(f"constrictor.{pid}." for pid in pids))
    assert str(run.process.pid) not in pathlib.Path("/proc/self/mountinfo").read_text()
    last = run.text.splitlines()[-1]
    assert last.endswith(" skipped") and " passed, " in last, run.text


def test_it_says_what_it_will_do_and_how_it_ended(begin):
    run = begin("def test_good():\n    pass\n\ndef test_bad():\n    assert 0\n", "api")
    assert run.process.wait(600) == 1, run.text
    lines = run.text.splitlines()
    assert lines[0].startswith("tests/run: api; about ") and "minutes" in lines[0], lines[0]
    assert lines[-1] == "1 passed, 1 failed, 0 skipped", run.text
    assert not run.folders()


def test_a_test_that_passes_alone_is_named_as_unsteady(begin, cli):
    text = f"""
import os, pathlib
def test_second_time():
    mark = pathlib.Path("{cli.folder}/mark")
    was, _ = mark.exists(), mark.write_text("")
    assert was
"""
    run = begin(text, "api")
    assert run.process.wait(600) == 0, run.text
    assert "unsteady" in run.text and run.text.splitlines()[-1] == "1 passed, 0 failed, 0 skipped", run.text


def test_files_that_are_named_run_and_no_others(begin):
    run = begin("def test_of_a_file_that_is_not_named():\n    raise SystemExit", "api",
                named="tests/api/test_tests_run.py::test_a_sum_is_made")
    assert run.process.wait(600) == 0, run.text
    assert run.text.splitlines()[-1].startswith("1 passed, 0 failed, 0 skipped"), run.text


def test_a_sum_is_made():
    """What the test above names."""
    assert sum([1, 2]) == 3
