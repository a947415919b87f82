# SPDX-License-Identifier: Apache-2.0
"""Runs in gVisor sandboxes: `make test-sandbox` builds runsc and starts these tests."""

import os
import pathlib
import sys

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests"))
import rest_client  # noqa: E402

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


def test_the_whole_sandbox_ends_with_its_run(cli):
    r = cli.run("import subprocess\nfor i in range(3): subprocess.Popen(['sleep', '1000'])", *GVISOR)
    assert r.verdict == "ok", r        # the fixture looks for processes that are left


def in_session(rest, code, **fields):
    return rest.run(code, session="s", **fields)


def test_a_session_keeps_its_state_and_is_interrupted(cli):
    rest = rest_client.serve(cli, *GVISOR)
    assert in_session(rest, "x = 41")["verdict"] == "ok"
    assert in_session(rest, "x + 1")["result"] == "42"
    stopped = in_session(rest, "while True: pass", timeout=1)
    assert stopped["verdict"] == "timeout_wall" and "are kept" in stopped["hint"], stopped
    assert in_session(rest, "x")["result"] == "41"


@pytest.mark.parametrize("path, body", [("undo", {}), ("fork", {}), ("checkpoint", {"name": "a"})])
def test_what_gvisor_cannot_do_is_refused(cli, path, body):
    rest = rest_client.serve(cli, *GVISOR)
    assert in_session(rest, "x = 1")["verdict"] == "ok"
    refused = rest.post(f"/sessions/s/{path}", body)
    assert refused.status in (400, 409) and "gvisor" in refused.error["message"], refused
    assert in_session(rest, "x")["result"] == "1"


def test_a_native_server_runs_one_call_in_a_sandbox(cli):
    rest = rest_client.serve(cli, "--runsc", RUNSC)
    ask = {"code": "import os; os.uname().version", "stream": False}
    native = rest.post("/execute", ask).json
    sandbox = rest.post("/execute", ask | {"isolation": "gvisor"}).json
    assert "gvisor" not in native["isolation"] and sandbox["isolation"]["gvisor"].startswith("live")
    assert native["result"] != sandbox["result"]
    assert in_session(rest, "x = 1", isolation="gvisor")["isolation"]["gvisor"].startswith("live")


def test_a_caller_gets_no_weaker_wall(cli):
    rest = rest_client.serve(cli, *GVISOR)
    refused = rest.post("/execute", {"code": "1", "stream": False, "isolation": "native"})
    assert refused.status == 400 and "gvisor" in refused.error["message"], refused


NAMESPACES = """
import ctypes, os, threading
libc = ctypes.CDLL(None, use_errno=True)
def tried(result): return "made" if result >= 0 else os.strerror(ctypes.get_errno())
found = [tried(libc.unshare(flag)) for flag in (0x10000000, 0x10020000, 0x40000000)]
found.append(tried(libc.syscall(56, 0x10000000 | 17, None, None, None, 0)))
thread = threading.Thread(target=found.append, args=["a thread works"])
thread.start(); thread.join()
print(found)
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the number of clone() is that of x86-64")
def test_code_makes_no_namespace(cli):
    r = cli.run(NAMESPACES, *GVISOR)
    assert r.stdout == f"{['Operation not permitted'] * 4 + ['a thread works']}\n", r


def test_a_session_that_ends_itself_is_no_way_out(cli):
    """The next run by its name, without the field, has the same wall."""
    rest = rest_client.serve(cli, "--runsc", RUNSC)
    assert in_session(rest, "x = 1", isolation="gvisor")["verdict"] == "ok"
    in_session(rest, "import os; os.kill(os.getpid(), 9)")
    again = in_session(rest, "'x' in globals()")
    assert again["result"] == "False" and again["isolation"]["gvisor"].startswith("live"), again
    assert rest.ask("DELETE", "/sessions/s").status == 200
    assert "gvisor" not in in_session(rest, "1")["isolation"]
