# SPDX-License-Identifier: Apache-2.0
"""Runs that can be repeated: `seed` of a run, and `--hash-seed` of a start."""

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
