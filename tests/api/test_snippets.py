# SPDX-License-Identifier: Apache-2.0
"""Typical code of models gives the same in a box as with the interpreter of a virtual environment, and no other text.

The snippets are in snippets.txt. A box is one of a server with that interpreter and its usual limits, which has imported
what such servers preload. The last test prints how long each took, and holds the median against the interpreter's own.
"""

import os
import pathlib
import re
import statistics
import subprocess
import time

import pytest
import rest_client
from conftest import TOP, open_cli

PYTHON = pathlib.Path(os.environ.get("CONSTRICTOR_SNIPPETS", TOP / "build/venv-snippets")) / "bin/python"
PARTS = re.split(r"^#### (.+)\n", (pathlib.Path(__file__).parent / "snippets.txt").read_text(), flags=re.MULTILINE)[1:]
SNIPPETS = dict(zip(PARTS[::2], PARTS[1::2]))
times = {}


@pytest.fixture(scope="module")
def server(program):
    with open_cli(program) as cli:
        yield rest_client.serve(cli, "--python", PYTHON, "--preload", "numpy,pandas,matplotlib.pyplot")


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """Runs code with the interpreter itself, as a file in a folder of its own."""
    home = tmp_path_factory.mktemp("home")
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "TZ": "UTC", "MPLBACKEND": "Agg"}
    subprocess.run([PYTHON, "-c", "import matplotlib.pyplot"], env=env, check=True)  # it makes a cache of fonts

    def run(code):
        folder = tmp_path_factory.mktemp("run")
        (folder / "snippet.py").write_text(code)
        begin = time.monotonic()
        done = subprocess.run([PYTHON, "snippet.py"], cwd=folder, env=env, capture_output=True, text=True)
        return done, time.monotonic() - begin

    return run


def test_there_are_sixty():
    assert len(SNIPPETS) >= 60


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_snippet(server, outside, name):
    code = SNIPPETS[name]
    expected, seconds = outside(code)
    assert (expected.returncode, expected.stderr) == (0, ""), expected
    begin = time.monotonic()
    result = server.run(code, timeout=300)
    times[name] = (time.monotonic() - begin, seconds)
    assert (result["verdict"], result["stdout"], result["stderr"]) == ("ok", expected.stdout, ""), result


def test_the_median_is_not_slower():
    """Runs last in this file; with a choice of tests it judges what ran."""
    if not times:
        pytest.fail("no snippet ran before this test")
    ratios = {name: box / venv for name, (box, venv) in times.items()}
    for name, ratio in sorted(ratios.items(), key=lambda item: item[1]):
        print(f"{ratio:6.2f}  box {times[name][0]:6.3f} s, venv {times[name][1]:6.3f} s  {name}")
    median = statistics.median(ratios.values())
    print(f"{median:6.2f}  median of {len(ratios)}")
    assert median <= 1
