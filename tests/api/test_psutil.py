# SPDX-License-Identifier: Apache-2.0
"""psutil in a box shows the box: its limit of memory, its cores, its processes (src/python/runner/machine.py)."""

import json
import os
import pathlib

import pytest

PYTHON = pathlib.Path(__file__).parents[2] / "build/venv-ipykernel/bin/python"

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="needs the venv of ipykernel, which has psutil")

CODE = """
import json, os, time, psutil, warnings
warnings.simplefilter("error")
memory, swap = psutil.virtual_memory(), psutil.swap_memory()
block = bytearray(b"x" * (100 << 20))
larger = psutil.virtual_memory()
end = time.process_time() + 0.2
psutil.cpu_percent()
while time.process_time() < end: pass
print(json.dumps({
    "total": memory.total, "swap": swap.total, "grown": larger.used - memory.used,
    "fits": 0 < memory.available <= memory.total and 0 <= memory.percent <= 100,
    "cores": psutil.cpu_count(), "affinity": len(psutil.Process().cpu_affinity()), "physical": psutil.cpu_count(logical=False),
    "busy": psutil.cpu_percent(), "each": len(psutil.cpu_percent(percpu=True)), "stats": len(psutil.cpu_stats()),
    "booted": psutil.boot_time() < time.time(), "began": 0 <= time.time() - psutil.Process().create_time() < 60,
    "load": len(psutil.getloadavg()), "pids": os.getpid() in psutil.pids(),
    "own": psutil.Process().memory_info().rss > 0 and psutil.Process().name() != "",
}))
"""


def test_psutil_shows_the_box(cli):
    ran = cli.run(CODE, "--python", str(PYTHON), "--memory", "300M")
    assert ran.verdict == "ok", ran
    seen = json.loads(ran.stdout)
    cores = len(os.sched_getaffinity(0))
    assert seen["total"] == 300 << 20 and seen["swap"] == 0, seen      # and not what the host has
    assert 90 << 20 < seen["grown"] < 120 << 20 and seen["fits"], seen
    assert seen["cores"] == seen["affinity"] == seen["each"] == seen["physical"] == cores, seen
    assert seen["busy"] > 0 and seen["stats"] == 4 and seen["load"] == 3, seen
    assert seen["booted"] and seen["began"] and seen["pids"] and seen["own"], seen


def test_counting_cores(cli):
    ran = cli.run("import multiprocessing, os\nprint(os.cpu_count() == multiprocessing.cpu_count() > 0)", "--python", str(PYTHON))
    assert ran.stdout == "True\n", ran
