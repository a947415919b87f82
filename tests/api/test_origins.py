# SPDX-License-Identifier: Apache-2.0
"""Code knows where it came from: __file__, inspect.getsource, pickle, doctest, and processes that import it again.

Black box, in fresh runs and in later runs of a session.
"""

import os

import pytest
import rest_client

SOURCES = """
import inspect
from dataclasses import dataclass

def double(x):
    return 2 * x

class Plain:
    kind = 1

@dataclass
class Point:
    x: int

class WithMethods(Plain):
    def method(self):
        return 3
"""
ASK = "import inspect\nprint(*[inspect.getsource(o) for o in (double, Plain, Point, WithMethods, WithMethods.method)], sep='|')"


def pieces(text):
    return [part.strip() for part in text.split("|")]


WANTED = ["def double(x):\n    return 2 * x", "class Plain:\n    kind = 1", "@dataclass\nclass Point:\n    x: int",
          "class WithMethods(Plain):\n    def method(self):\n        return 3", "def method(self):\n        return 3"]


def test_source_in_a_fresh_run(cli):
    ran = cli.run(SOURCES + ASK)
    assert (ran.verdict, ran.stderr) == ("ok", "") and pieces(ran.stdout) == WANTED, ran


@pytest.mark.parametrize("command", ["python3.9", "python3.13"])
def test_source_with_other_interpreters(cli, command):
    found = [python for python in (f"{folder}/{command}" for folder in os.environ["PATH"].split(":"))
             if os.path.exists(python) and cli.run("1", "--python", python).status == 0]
    if found:
        assert pieces(cli.run(SOURCES + ASK, "--python", found[0]).stdout) == WANTED


def test_source_in_later_runs_of_a_session(cli):
    rest = rest_client.serve(cli)
    for part in SOURCES.split("\n\n"):
        assert rest.run(part, session="s")["success"]
    assert rest.run("class Plain:\n    kind = 2", session="s")["success"]
    said = pieces(rest.run(ASK, session="s")["stdout"])
    assert said == [WANTED[0], "class Plain:\n    kind = 2", *WANTED[2:]]
    assert rest.run("__file__", session="s")["result"] == rest.run("__file__")["result"]


def test_file_is_in_the_working_folder_and_has_the_code(cli):
    """And it is not among the files that the code made."""
    code = "import os, pathlib\n" \
           "print(os.path.dirname(os.path.abspath(__file__)), pathlib.Path(__file__).parent == pathlib.Path.cwd())\n" \
           "print(open(__file__).read().count('pathlib'), os.listdir())\nopen('made.txt', 'w').close()"
    ran = cli.run(code)
    assert ran.stdout == "/mnt/data True\n4 ['__main__.py']\n", ran
    assert [file["path"] for file in ran.files] == ["made.txt"]
    rest = rest_client.serve(cli)
    assert [file["path"] for file in rest.run(code, session="s")["files"]] == ["made.txt"]
    assert rest.run("import os; os.listdir()", session="s")["result"] == "['made.txt']"


def test_a_file_of_that_name_is_left_alone(cli):
    rest = rest_client.serve(cli)
    rest.run("open('__main__.py', 'w').write('mine')", session="s")
    assert rest.run("print(__file__)\nopen('__main__.py').read()", session="s")["result"] == "'mine'"
    assert rest.run("open('__main__.py').read()", session="s")["result"] == "'mine'"


def test_functions_and_classes_of_main_are_pickled(cli):
    code = "import pickle, copy\n" + SOURCES + "print(pickle.loads(pickle.dumps(double))(2), pickle.loads(pickle.dumps(Point(4))))"
    assert cli.run(code).stdout == "4 Point(x=4)\n"


def test_doctest(cli):
    code = "def double(x):\n    '''\n    >>> double(2)\n    4\n    >>> double(3)\n    7\n    '''\n    return 2 * x\n" \
           "import doctest\ndoctest.testmod()"
    ran = cli.run(code)
    assert ran.result == "TestResults(failed=1, attempted=2)" and "Got:\n    6" in ran.stdout, ran


SPAWN = "import multiprocessing as m\ndef double(x): return 2 * x\n"
POOL = "with m.get_context('spawn').Pool(1) as p: print(p.map({}, [-1, 2]))"


def test_spawned_processes_import_guarded_code_again(cli):
    rest = rest_client.serve(cli)
    guarded = SPAWN + "if __name__ == '__main__':\n    " + POOL.format("double")
    for fields in {}, {"session": "s"}, {"session": "s"}:
        ran = rest.run(guarded, **fields)
        assert "[-2, 4]" in ran["stdout"].split("\n") and ran["stderr"] == "", ran


def test_spawned_processes_do_without_code_that_is_not_guarded(cli):
    rest = rest_client.serve(cli)
    for fields in {}, {"session": "s"}, {"session": "s"}:
        ran = rest.run(SPAWN + "print('once')\n" + POOL.format("abs"), **fields)
        assert (ran["stdout"], ran["stderr"]) == ("once\n[1, 2]\n", ""), ran


def test_numba_finds_a_place_for_its_cache(cli):
    """A stand-in for numba, which is a large package: its classes as far as they matter here."""
    numba = "import sys, types, os, hashlib, inspect\n" \
               "class IPythonCacheLocator:\n" \
               "    def __init__(self, function, file): self.text = inspect.getsource(function)\n" \
               "    def ensure_cache_path(self): os.makedirs(self.get_cache_path(), exist_ok=True)\n" \
               "class CacheImpl:\n    _locator_classes = [IPythonCacheLocator]\n"
    code = "import os\nos.makedirs('numba/core'); open('numba/__init__.py', 'w'); open('numba/core/__init__.py', 'w')\n" \
           f"open('numba/core/caching.py', 'w').write({numba!r})\n" \
           "from numba.core.caching import CacheImpl\ndef f(): pass\n" \
           "locator = CacheImpl._locator_classes[0].from_function(f, f.__code__.co_filename)\n" \
           "print(locator.get_cache_path(), locator.text)"
    ran = cli.run(code)
    assert ran.stdout == "/tmp/.cache/numba def f(): pass\n\n", ran
