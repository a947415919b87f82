# SPDX-License-Identifier: Apache-2.0
"""Runs in gVisor sandboxes: `make test-sandbox` builds runsc and starts these tests."""

import os
import pathlib
import statistics
import time

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
RUNSC = os.environ.get("RUNSC", str(TOP / "build" / "runsc"))
GVISOR = "--isolation", "gvisor", "--runsc", RUNSC

if not os.access(RUNSC, os.X_OK):
    pytest.skip("there is no build/runsc: make build-sandbox", allow_module_level=True)


def test_code_runs_in_another_kernel(cli):
    r = cli.run("import os; print(os.uname().version); 6 * 7", *GVISOR)
    assert r.verdict == "ok" and r.result == "42", r
    assert r.out and r.stdout != os.uname().version + "\n"
    assert r.isolation["gvisor"].startswith("live"), r


def test_files_go_in_and_come_out(cli):
    (cli.folder / "out").mkdir()
    (cli.folder / "given.txt").write_text("taken")
    r = cli.run("import os; os.makedirs('a/b'); open('a/b/x.txt', 'w').write('left'); open('/tmp/t', 'w').write('1')\n"
                "print(open('given.txt').read())", *GVISOR, "--out", cli.folder / "out",
                "--in", cli.folder / "given.txt")
    assert r.verdict == "ok" and r.stdout == "taken\n", r
    assert (cli.folder / "out" / "a" / "b" / "x.txt").read_text() == "left"


@pytest.mark.parametrize("flags, code, verdict, limit", [
    (["--wall", "2s"], "while True: pass", "timeout_wall", "wall"),
    (["--cpu", "1s"], "while True: pass", "timeout_cpu", "cpu"),
    (["--memory", "128M"], "x = bytearray(900 << 20)", "out_of_memory", "memory"),
    (["--memory", "64M"], "x = [bytes([65]) * (1 << 20) for i in range(1000)]", "out_of_memory", "memory"),
    (["--output", "4K"], "while True: print('x' * 100)", "output_limit", "output"),
    (["--file-size", "1M"], "open('big', 'wb').write(bytes(2 << 20))", "disk_full", "file-size"),
    (["--scratch", "4M"], "open('big', 'wb').write(bytes(6 << 20))", "disk_full", "scratch"),
    (["--files", "32"], "x = [open('/dev/null') for i in range(40)]", "error", None),
    (["--processes", "8"], "import threading, time\n"
     "for i in range(20): threading.Thread(target=time.sleep, args=(100,), daemon=True).start()",
     "too_many_processes", "processes"),
])
def test_limits_end_it(cli, flags, code, verdict, limit):
    r = cli.run(code, *GVISOR, *flags)
    assert r.verdict == verdict, r
    assert limit is None or r.limit["name"] == limit, r


def test_code_writes_to_scratch_alone(cli):
    r = cli.run("""
import os
wrote = []
for top, folders, files in os.walk("/"):
    if top in ("/usr", "/proc") or top.count("/") > 2:
        folders[:] = []
    try:
        with open(f"{top}/.x", "w"):
            wrote.append(top)
    except OSError:
        pass
print(sorted(wrote), os.getuid(), os.getgroups())
""", *GVISOR)
    assert r.verdict == "ok", r
    assert r.stdout == "['/dev/shm', '/mnt', '/mnt/data', '/mnt/shm', '/mnt/tmp', '/tmp'] 1000 []\n", r


def test_a_read_only_scratch_is_one(cli):
    r = cli.run("open('x', 'w')", *GVISOR, "--policy", "guarded", "--tiers", "basic")
    assert r.verdict == "error" and "Read-only file system" in r.error["text"], r


def test_nothing_of_the_host_is_seen(cli):
    r = cli.run("import os; print(os.uname().nodename, sorted(os.listdir('/proc/self/fd')), os.path.exists('/home'),"
                " os.path.exists('/var'), [k for k in os.environ if 'CONSTRICTOR' in k])", *GVISOR)
    assert r.stdout == "box ['0', '1', '2', '3'] False False []\n", r


def test_there_is_no_network(cli):
    r = cli.run("import socket; socket.create_connection(('1.1.1.1', 80), 5)", *GVISOR)
    assert r.verdict == "error" and "OSError" in r.error["text"], r


def test_network_and_sandbox_exclude_each_other(cli):
    r = cli.call("run", *GVISOR, "--allow-host", "example.org", "-c", "1")
    assert r.status in (0, 64, 69), r
    assert r.status == 0 or "network" in r.err, r


def test_the_whole_sandbox_ends_with_its_run(cli):
    r = cli.run("import subprocess\nfor i in range(3): subprocess.Popen(['sleep', '1000'])", *GVISOR)
    assert r.verdict == "ok", r        # the fixture looks for processes that are left


def test_parked_sandboxes_answer_in_milliseconds_and_are_refilled(cli):
    """A figure, printed; nothing here depends on it."""
    r = cli.run("1 + 1", *GVISOR)
    print("start", r.usage["start_ms"], "run", r.usage["wall_ms"])
