# SPDX-License-Identifier: Apache-2.0
"""Runs that can be repeated: `seed` of a run, `--hash-seed` and `--clock` of a start."""

import json
import pathlib
import random

import pytest
from stdio_client import Client, run_code

DRAW = "import random\nprint([random.randrange(10**9) for _ in range(3)])"
HASH = "print(hash('text'), hash(b'text'), list({'a', 'b', 'c', 'd', 'e'}))"


def test_a_seed_gives_the_same_numbers_in_every_run(cli):
    told = random.Random(7)
    assert cli.plain(DRAW, "--seed", "7").out == f"{[told.randrange(10**9) for _ in range(3)]}\n"
    assert cli.plain(DRAW, "--seed", "7").out == cli.plain(DRAW, "--seed", "7").out
    assert cli.plain(DRAW, "--seed", "7").out != cli.plain(DRAW, "--seed", "8").out
    assert cli.plain(DRAW).out != cli.plain(DRAW).out
    assert cli.plain(DRAW, "--seed=0").out == cli.plain(DRAW, "--seed", "0").out


def test_a_bad_seed_is_refused(cli):
    for value in ("-1", "4294967296", "x", "1.5", ""):
        result = cli.plain("print('ran')", f"--seed={value}")
        assert result.status == 64 and "--seed" in result.err and "ran" not in result.out, result
        result = cli.plain("print('ran')", f"--hash-seed={value}")
        assert result.status == 64 and "hash-seed" in result.err and "ran" not in result.out, result


def test_a_notebook_is_seeded_once(cli):
    cells = [{"cell_type": "code", "source": "import random; random.random()"}] * 2
    (cli.folder / "a.ipynb").write_text(json.dumps({"nbformat": 4, "cells": cells}))
    first = cli.call("run", "--seed", "1", "a.ipynb").out
    assert first == cli.call("run", "--seed", "1", "a.ipynb").out
    assert len(set(first.split())) == 2, first


def test_clients_give_a_seed(cli):
    client = Client(cli.start("stdio", stdin=-1))
    client.start_legacy()

    def draw(id, **arguments):
        return client.ask(run_code(id, DRAW, **arguments))["result"]["structuredContent"]["stdout"]

    assert draw(1, seed=7) == draw(2, seed=7) != draw(3, seed=8)
    assert draw(4) != draw(5)
    # In a session each run with a seed begins anew, the others go on.
    first = draw(6, session="s", seed=7)
    assert first == draw(1, seed=7) and draw(7, session="s") != first and draw(8, session="s", seed=7) == first
    for bad in (-1, 1 << 32, 1.5, "x", []):
        answer = client.ask(run_code(9, "print('r' + 'an')", seed=bad))
        assert "seed" in json.dumps(answer) and "ran" not in json.dumps(answer), answer
    client.process.kill()


def test_numpy_is_seeded_also_when_it_is_imported_later(cli, program):
    python = pathlib.Path(program).parent / "venv-data/bin/python"
    if not python.exists():
        pytest.skip("there is no numpy: tools/setup data")
    code = "import numpy as np\nprint(np.random.rand(3).tolist(), np.random.RandomState(1).rand())"
    flags = ("--python", python, "--seed", "5")
    lazy = cli.plain(code, *flags).out
    assert lazy and lazy == cli.plain(code, *flags).out == cli.plain(code, *flags, "--preload", "numpy").out
    assert lazy != cli.plain(code, "--python", python, "--seed", "6").out
    plain = cli.plain(code, "--python", python)
    assert plain.status == 0 and plain.out != lazy


def test_a_hash_seed_holds_for_every_box_and_its_children(cli):
    child = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', " + repr(HASH) + "])"
    one = cli.plain(HASH, "--hash-seed", "1").out
    assert one == cli.plain(HASH, "--hash-seed", "1").out == cli.plain(child, "--hash-seed", "1").out
    assert one != cli.plain(HASH, "--hash-seed", "2").out
    assert cli.plain(HASH).out != cli.plain(HASH).out
    zero = cli.plain("import os; print(os.environ['PYTHONHASHSEED'])", env={"CONSTRICTOR_HASH_SEED": "0"})
    assert zero.out == "0\n", zero
    assert cli.plain("import os; print('PYTHONHASHSEED' in os.environ)").out == "False\n"


CLOCK = """
import datetime, sqlite3, subprocess, sys, threading, time, uuid
print(time.time(), time.time_ns(), datetime.datetime.now(), datetime.date.today(), time.ctime())
print(sqlite3.connect(':memory:').execute("select datetime('now')").fetchone()[0])
print(subprocess.run([sys.executable, '-c', 'import time; print(time.time())'], capture_output=True, text=True).stdout)
print(subprocess.run(['date', '+%s'], capture_output=True, text=True).stdout)
"""
TIMERS = """
import queue, threading, time
begun = time.monotonic()
time.sleep(0.1)
lock = threading.Lock()
lock.acquire()
print(lock.acquire(timeout=0.1), threading.Event().wait(0.1))
try: queue.Queue().get(timeout=0.1)
except queue.Empty: print('empty')
print(0.4 <= time.monotonic() - begun)
"""


def test_a_fixed_clock_stands_in_code_and_in_programs_that_it_starts(cli):
    told = "1767323045.0 1767323045000000000 2026-01-02 03:04:05 2026-01-02 Fri Jan  2 03:04:05 2026\n2026-01-02 03:04:05\n"
    for value in ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05", "1767323045"):
        result = cli.plain(CLOCK, "--clock", value)
        assert result.out == told + "1767323045.0\n\n1767323045\n\n", result
    assert cli.plain("import datetime\nprint(datetime.datetime.now())", env={"CONSTRICTOR_CLOCK": "2026-01-02"}).out == (
        "2026-01-02 00:00:00\n")  # fmt: skip
    running = cli.plain("import time\nbegun = time.time()\ntime.sleep(0.01)\nprint(time.time() > begun > 1.78e9)")
    assert running.out == "True\n", running


def test_waits_and_time_limits_go_on_while_the_clock_stands(cli):
    for value in ("1970-01-01", "2099-01-01"):
        assert cli.plain(TIMERS, "--clock", value).out == "False False\nempty\nTrue\n"
    assert cli.plain("while True: pass", "--clock", "2099-01-01", "--wall", "300ms").status == 124


def test_a_bad_clock_is_refused(cli):
    for value in ("2026-02-30", "noon", "", "-1", "2026-01-02T25:00", "2026-01-02 junk", "99999999999"):
        result = cli.plain("print('ran')", f"--clock={value}")
        assert result.status == 64 and "clock" in result.err and "ran" not in result.out, result
