# SPDX-License-Identifier: Apache-2.0
"""The files of /proc about the machine, read by plain Python, show the box: docs/isolation.md, src/python/runner/machine.py."""

import json
import os

import pytest
from conftest import open_cli
from rest_client import serve

CORES = len(os.sched_getaffinity(0))

# What people write to read each of them.
READ = """
import io, json, os, pathlib, re, time
with open("/proc/meminfo") as file:
    memory = {line.split(":")[0]: int(line.split()[1]) for line in file}
text = pathlib.Path("/proc/cpuinfo").read_text()
models = [line.split(":")[1].strip() for line in text.splitlines() if line.startswith("model name")]
first = [line for line in io.open("/proc/stat") if line.startswith("cpu")]
end = time.process_time() + 0.2
while time.process_time() < end: pass
last = [line for line in io.open("/proc/stat") if line.startswith("cpu")]
up, idle = map(float, open("/proc/uptime").readline().split())
print(json.dumps({
    "memory": memory, "models": models, "numbers": re.findall(r"^processor\\s*: (\\d+)$", text, re.M),
    "busy": [sum(map(int, line.split()[1:3])) for line in (first[0], last[0])], "names": [line.split()[0] for line in last],
    "load": re.fullmatch(r"(\\d+\\.\\d\\d ){3}\\d+/\\d+ \\d+\\n", open("/proc/loadavg").read()) is not None,
    "average": list(os.getloadavg()), "up": up > 0 and idle >= 0, "cores": os.cpu_count(), "affinity": len(os.sched_getaffinity(0)),
}))
"""

WAYS = """
import io, os, pathlib, pickle, shutil
path = "/proc/meminfo"
with open(path, "rb") as file:
    assert file.name == path and file.mode == "rb" and file.readline().startswith(b"MemTotal:")
    file.seek(0)
    whole = file.read()
with open(pathlib.Path(path), encoding="ascii") as file:
    assert file.mode == "r" and not file.writable() and next(file).endswith(" kB\\n")
assert open(os.fsencode(path)).readline() == io.open(path).readline() == pathlib.Path(path).open().readline()
assert pathlib.Path(path).read_bytes()[:9] == b"MemTotal:"
assert os.path.exists(path) and os.path.isfile(path) and pathlib.Path(path).exists() and os.path.getsize(path) == 0
assert os.access(path, os.R_OK) and not os.access(path, os.W_OK) and not os.path.isdir(path)
fd = os.open(path, os.O_RDONLY)
assert os.read(fd, 9) == b"MemTotal:" and not os.get_inheritable(fd)
with os.fdopen(fd) as file:
    assert "MemAvailable" in file.read()
shutil.copyfile(path, "copy")
assert os.stat("copy").st_size == len(whole)
# All else is as it was.
assert pickle.loads(pickle.dumps(open)) is open and os.stat in os.supports_follow_symlinks and os.open in os.supports_dir_fd
assert repr(open) == "<built-in function open>" and open.__text_signature__
def fails(call):
    try: call()
    except Exception as exc: return f"{type(exc).__name__} {exc}"
missing = "FileNotFoundError [Errno 2] No such file or directory: "
assert fails(lambda: open("/proc/none")) == fails(lambda: os.stat("/proc/none")) == missing + "'/proc/none'"
assert fails(lambda: open("/proc/stat", "w")) and fails(lambda: open("/proc/stat", "r+")) and fails(lambda: os.open("/proc/stat", os.O_RDWR))
assert fails(lambda: open("/proc/stat", "q")) == "ValueError invalid mode: 'q'" and "argument" in fails(lambda: open())
assert fails(lambda: open("/proc/stat", encoding="none")) and fails(lambda: os.open("/proc/stat")) and fails(lambda: open(99))
open("new.txt", "w").write("kept"); assert open("new.txt").read() == "kept"
"""


def check(seen, limit_mb):
    assert seen["memory"]["MemTotal"] == limit_mb << 10 and seen["memory"]["SwapTotal"] == 0, seen
    assert 0 < seen["memory"]["MemAvailable"] <= seen["memory"]["MemTotal"], seen
    assert seen["models"] == ["box"] * CORES and seen["numbers"] == [str(i) for i in range(CORES)], seen
    assert seen["names"] == ["cpu", *(f"cpu{i}" for i in range(CORES))], seen
    assert seen["busy"][1] > seen["busy"][0], seen
    assert seen["load"] and seen["average"] == [1.0] * 3 and seen["up"], seen
    assert seen["cores"] == seen["affinity"] == CORES, seen


def test_the_files_show_the_box(cli):
    ran = cli.run(READ, "--memory", "300M")
    assert ran.verdict == "ok", ran
    check(json.loads(ran.stdout), 300)


def test_each_way_to_open_them(cli):
    ran = cli.run(WAYS)
    assert ran.verdict == "ok", ran


def test_an_error_shows_the_user_s_line_only(cli):
    ran = cli.plain("open('/proc/none')")
    assert ran.status == 1 and ran.err.count("File ") == 1, ran


@pytest.fixture(scope="module")
def api(program):
    with open_cli(program) as cli:
        yield serve(cli, "--memory", "300M")


def test_a_warm_box_as_well(api):
    ran = api.run(READ)
    assert ran["verdict"] == "ok", ran
    check(json.loads(ran["stdout"]), 300)


# The text of a run has to name /proc, so that all others open their files as always.
HIDDEN = 'path = "/pr" + "oc/meminfo"\n'


def test_a_run_that_does_not_name_them_has_none(api):
    assert api.run(HIDDEN + "open(path)")["error"]["type"] == "FileNotFoundError"


@pytest.mark.parametrize("name", ["open(os.path.join('/proc', 'meminfo'))", 'open(pathlib.Path("/proc") / "meminfo")'])
def test_joined_paths(api, name):
    assert api.run(f"import os, pathlib\n{name}.readline()")["result"].startswith("'MemTotal:"), name


def test_later_runs_and_modules_of_a_session(api):
    api.post("/sessions", {"name": "proc"})
    before = api.run(HIDDEN + "open(path)", session="proc")
    assert before["error"]["type"] == "FileNotFoundError", before
    api.run("open('helper.py', 'w').write('''import pathlib\ndef total(path): return pathlib.Path(path).read_text()[:9]''')",
            session="proc")
    assert api.run("'/proc/'", session="proc")["verdict"] == "ok"
    assert api.run("import helper\nopen(path).read()[:9], helper.total(path)", session="proc")["result_json"] == ["MemTotal:"] * 2
    api.ask("DELETE", "/sessions/proc")


def test_a_program_that_code_starts_has_none(api):
    ran = api.run("import subprocess\nsubprocess.run(['cat', '/proc/meminfo'], capture_output=True).returncode")
    assert ran["result_json"] == 1, ran
