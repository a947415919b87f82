# SPDX-License-Identifier: Apache-2.0
"""Threads of code and of libraries: how many there may be, how many libraries start, and what copies of a session do."""

import os
import pathlib

import pytest
import rest_client
from conftest import TOP

DATA = pathlib.Path(os.environ.get("CONSTRICTOR_DATA", TOP / "build/venv-data")) / "bin/python"
CORES = len(os.sched_getaffinity(0))
MULTIPLY = """import os
import numpy
before = len(os.listdir("/proc/self/task"))
a = numpy.ones((600, 600))
total = float((a @ a).sum())
print(total, len(os.listdir("/proc/self/task")))"""


def test_a_hundred_threads(cli):
    code = """import threading
from concurrent.futures import ThreadPoolExecutor
all_run = threading.Barrier(100)
with ThreadPoolExecutor(100) as pool:
    print(sum(pool.map(lambda i: all_run.wait(60) * 0 + i, range(100))))"""
    result = cli.run(code)
    assert (result.verdict, result.stdout, result.stderr) == ("ok", "4950\n", ""), result


def test_the_cores_are_those_of_the_server(cli):
    code = """import os, multiprocessing
names = [n for n in os.environ if n.endswith("_NUM_THREADS")]
process = getattr(os, "process_cpu_count", os.cpu_count)()
print({os.cpu_count(), len(os.sched_getaffinity(0)), process, multiprocessing.cpu_count()}, len(names),
      {os.environ[n] for n in names})"""
    assert cli.run(code).stdout == f"{{{CORES}}} 4 {{'{min(CORES, 64)}'}}\n"
    assert cli.run(code, "--processes", "4").stdout == f"{{{CORES}}} 4 {{'1'}}\n"


@pytest.mark.parametrize("flags", [(), ("--preload", "numpy")], ids=["imported", "preloaded"])
def test_blas_uses_the_cores(cli, flags):
    result = cli.run(MULTIPLY, "--python", DATA, *flags)
    assert (result.verdict, result.stderr) == ("ok", ""), result
    assert result.stdout == f"{600.0 ** 3} {min(CORES, 64)}\n"


@pytest.mark.parametrize("flags", [(), ("--preload", "numpy")], ids=["imported", "preloaded"])
def test_a_session_with_blas_is_copied(cli, flags):
    """Threads of a library that can end and come back do not stop checkpoints."""
    client = rest_client.serve(cli, "--python", DATA, *flags)
    assert client.post("/sessions", {"name": "s", "checkpoint": True}).status == 201
    assert client.run(MULTIPLY, session="s")["verdict"] == "ok"
    second = client.run("a += 1\n" + MULTIPLY.replace("ones", "zeros"), session="s")
    assert second["checkpoint"]["state"] == "made", second
    assert client.post("/sessions/s/undo", {}).status == 200
    again = client.run("print(float((a @ a).sum()))", session="s")
    assert (again["stdout"], again["checkpoint"]["state"]) == (f"{600.0 ** 3}\n", "made"), again
