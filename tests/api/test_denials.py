# SPDX-License-Identifier: Apache-2.0
"""What the kernel denies is in the result, and stays denied when the keeper or the gate is gone.

The listener of a box's filter is the keeper's (src/keeper/denied.h). Its calls are answered with the errno of
the policy, while a gate is there or not; what ordinary programs do is never told of. Also here: without the
tier "filesystem" no code writes to scratch.
"""

import contextlib
import json
import os
import signal
import time

import pytest
import rest_client
from conftest import is_gate, open_cli, wait_until

EPERM, EROFS = 1, 30
CALL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(one) for one in arguments])
    return 0 if result >= 0 else ctypes.get_errno()
"""
MOUNT, UMOUNT, PTRACE, UNSHARE, BPF, IO_URING, SOCKET, SECCOMP = 165, 166, 101, 272, 321, 425, 41, 317

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86-64")


@contextlib.contextmanager
def serving(program, *flags):
    with open_cli(program) as cli:
        yield rest_client.serve(cli, "--stock", "2", *flags)


@pytest.fixture(scope="module")
def rest(program):
    with serving(program, "--processes", "100") as rest:
        yield rest


def told(result):
    return {e["target"]: e["count"] for e in result["security_events"] if e["layer"] == "seccomp"}


# -- what is told


def test_a_denied_call_is_an_event_that_names_it(rest):
    ran = rest.run(CALL + f"""
print([call({MOUNT}, 0, 0, 0, 0, 0) for _ in range(3)], call({UNSHARE}, 0x10020000), call({PTRACE}, 16, 1, 0, 0),
      call({BPF}, 5, 0, 0), call({IO_URING}, 1, 0), call({SOCKET}, 2, 3, 0), call({SOCKET}, 1, 3, 0))
""")
    # As the policy says, and as it was before any client was told.
    assert ran["stdout"] == "[1, 1, 1] 1 1 1 38 94 94\n", ran
    assert told(ran) == {
        "mount": 3,
        "unshare CLONE_NEWUSER|CLONE_NEWNS": 1,
        "ptrace PTRACE_ATTACH": 1,
        "bpf 5": 1,
        "io_uring_setup": 1,
        "socket AF_INET SOCK_RAW": 1,
        "socket AF_UNIX SOCK_RAW": 1,
    }, ran
    event = ran["security_events"][0]
    assert event["kind"] == "syscall" and event["hint"], event
    assert "syscalls" in ran["security_observed"]


ORDINARY = """
import asyncio, concurrent.futures, multiprocessing, os, shutil, sqlite3, subprocess, tempfile, threading, time
def square(x): return x * x
with multiprocessing.get_context("fork").Pool(2) as pool: print(pool.map(square, range(3)))
threads = [threading.Thread(target=time.sleep, args=(0,)) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(subprocess.run(["sh", "-c", "ls / | head -1; id -u; cat /proc/self/status | wc -l"], capture_output=True).returncode)
async def main():
    process = await asyncio.create_subprocess_exec("true"); await process.wait()
    return await asyncio.to_thread(square, 4)
print(asyncio.run(main()))
with tempfile.TemporaryDirectory() as folder:
    open(folder + "/a", "w").write("x"); shutil.copytree(folder, folder + "2"); shutil.copy2(folder + "/a", folder + "/b")
sqlite3.connect("/mnt/data/a.db").execute("create table t (x)")
with concurrent.futures.ProcessPoolExecutor(2) as pool: print(sum(pool.map(square, range(5))))
import random, socket, uuid
import ctypes; ctypes.CDLL(None).socket(16, 3, 0)      # netlink, as the program ip does for uuid.getnode()
uuid.uuid1(); uuid.getnode(); socket.has_dualstack_ipv6(); socket.getfqdn(); random.SystemRandom().random()
os.nice(1); os.sched_getaffinity(0); os.fork() or os._exit(0); os.wait()
"""


def test_what_ordinary_programs_do_is_not_told_of(rest):
    ran = rest.run(ORDINARY)
    assert ran["verdict"] == "ok", ran
    assert ran["security_events"] == [], ran
    assert ran["security_observed"] == ["syscalls"]


def test_there_are_at_most_32_and_the_rest_is_counted(rest):
    ran = rest.run(CALL + f"for family in range(3, 46): call({SOCKET}, family, 1, 0)")
    assert len(ran["security_events"]) == 32, ran
    assert ran["security_events_omitted"] == 41 - 32, "all but IPv6 and netlink, which libraries ask for"
    ran = rest.run(CALL + f"for family in range(1 << 20, (1 << 20) + 99): call({SOCKET}, family, 1, 0)")
    assert told(ran) == {"socket 63": 99}, "any number is one kind"


def test_a_run_of_a_session_has_its_own(rest):
    assert told(rest.run(CALL + f"call({MOUNT})", session="own")) == {"mount": 1}
    assert told(rest.run("1", session="own")) == {}
    ran = rest.run(f"for i in range(1000): call({UMOUNT}, 0, 0)", session="own")
    assert told(ran) == {"umount2": 1000}, "exact, also in a run of a millisecond"
    # Threads go on between runs: that is the next one's to tell.
    rest.run(f"import threading; threading.Timer(0.05, call, [{PTRACE}, 0, 0, 0, 0]).start()", session="own")
    assert wait_until(lambda: told(rest.run("1", session="own")), pause=0.2) == {"ptrace PTRACE_TRACEME": 1}


def test_copies_of_a_session_are_told_of_too(rest):
    rest.post("/sessions", {"name": "copies", "checkpoint": True})
    assert told(rest.run(CALL + f"call({MOUNT})", session="copies")) == {"mount": 1}
    rest.run("x = 1", session="copies")
    rest.post("/sessions/copies/undo", {})
    assert told(rest.run(f"print(call({MOUNT}))", session="copies")) == {"mount": 1}


def test_no_second_listener(rest):
    """One that user code had would be asked about its own children, and could stand in for ours."""
    ran = rest.run(CALL + f"print(call({SECCOMP}, 1, 8, 0), call({SECCOMP}, 3, 0, 0))")
    assert ran["stdout"] == "1 1\n", ran


# -- what is killed, and when


def test_signals_and_deaths_in_the_middle_of_a_call(rest):
    """A caller that is killed while it waits blocks no other caller, and its answer reaches none."""
    ran = rest.run(CALL + f"""
import os, random, signal, time
seen = set()
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
end = time.time() + 1
while time.time() < end: seen.add(call({MOUNT}, 0, 0, 0, 0, 0))
signal.setitimer(signal.ITIMER_REAL, 0)
for _ in range(30):
    pids = []
    for _ in range(4):
        pid = os.fork()
        if not pid:
            while True: call({MOUNT}, 0, 0, 0, 0, 0)
        pids.append(pid)
    time.sleep(random.random() / 500)
    for pid in pids: os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)
print(sorted(seen - {{4}}))
""", timeout=40)
    assert ran["stdout"] == "[1]\n", ran     # 4: the signal came before the keeper looked; never success
    assert told(ran)["mount"] > 10
    assert told(rest.run(CALL + f"call({MOUNT})")) == {"mount": 1}


def test_a_box_that_is_killed_while_it_asks(rest):
    time_s = 0.3
    for _ in range(5):
        while not told(ran := asking(rest, time_s)):     # too short on this machine for a single call
            time_s *= 2
            assert time_s < 30, ran
        assert told(ran)["mount"] > 0
    assert rest.run("1")["verdict"] == "ok"


def asking(rest, time_s):
    ran = rest.run(CALL + f"""
import threading
def loop():
    while True: call({MOUNT}, 0, 0, 0, 0, 0)
for _ in range(8): threading.Thread(target=loop).start()
""", timeout=time_s)
    assert ran["verdict"] == "timeout_wall", ran
    return ran


def cpu_s(pid):
    fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def parent_of(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])


def gate_of(rest):
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(OSError):
            if is_gate(pid) and parent_of(pid) == rest.process.pid:
                return pid
    raise AssertionError("no gate")


def test_a_loop_of_denied_calls_delays_itself_only(rest):
    """Neighbours are served while it goes on: it does not end before they are."""
    keeper = rest.process.pid
    before, began = cpu_s(keeper), time.monotonic()
    with rest.streaming(CALL + f"""
import os, threading, time
on = True
def count():
    while on: call({MOUNT}, 0, 0, 0, 0, 0)
threads = [threading.Thread(target=count) for i in range(64)]
[t.start() for t in threads]; print("on", flush=True)
while not os.path.exists("enough"): time.sleep(0.05)
on = False
[t.join() for t in threads]
""", session="loop", timeout=100) as response:
        response.readline()
        for _ in range(20):
            assert rest.run("1")["verdict"] == "ok"
        share = (cpu_s(keeper) - before) / (time.monotonic() - began)
        assert rest.put("loop", "enough", b"").status == 200
        last = json.loads(response.read().splitlines()[-1])["execution"]
    assert last["verdict"] == "ok" and told(last)["mount"] > 64, last
    assert share < 0.5, f"the keeper used {share:.0%} of a core"


def test_while_the_gate_is_dead_calls_are_denied_as_ever(program):
    """No call hangs or gets through, and the next gate reports later denials."""
    with serving(program) as rest:
        rest.run(CALL + f"""
import threading, time
slowest, answers = 0.0, set()
def loop():
    global slowest
    while True:
        began = time.monotonic()
        answers.add(call({MOUNT}, 0, 0, 0, 0, 0))
        slowest = max(slowest, time.monotonic() - began)
        time.sleep(0.001)
threading.Thread(target=loop, daemon=True).start()
""", session="kept")
        for _ in range(3):
            gate = gate_of(rest)
            os.kill(gate, signal.SIGKILL)
            wait_until(lambda gate=gate: not os.path.exists(f"/proc/{gate}"))
            wait_until(lambda: is_up(rest))
        ran = rest.run("print(answers, slowest < 25)", session="kept")
        assert ran["stdout"] == "{1} True\n", ran
        assert "syscalls" in ran["security_observed"], "the next gate knows that it is told"
        assert wait_until(lambda: told(rest.run("1", session="kept")).get("mount", 0) > 1, pause=0.1)


def is_up(rest):
    with contextlib.suppress(OSError, AssertionError):
        return rest.get("/sessions").status == 200
    return False


# -- without the tier "filesystem"

PLACES = "/mnt/data/x", "/tmp/x", "/dev/shm/x", "/mnt/x", "/mnt/tmp/x"
# Through Python, through libc, through init, whose memory code shares, and by what mounts there are.
TRICKS = CALL + f"""
import os, errno
found = {{}}
for path in {PLACES!r}:
    try: os.close(os.open(path, os.O_CREAT | os.O_WRONLY)); found[path] = 0
    except OSError as exc: found[path] = exc.errno
print(sorted(set(found.values())))
print([call(number, *arguments) for number, arguments in
       (({MOUNT}, (0, 0, 0, 32 | 4096, 0)), ({UMOUNT}, (0, 2)), (442, (-100, 0, 0, 0, 0)), (161, (0,)), (428, (-100, 0, 1)))])
print(sorted(map(int, os.listdir("/proc/self/fd")))[:4], [os.readlink("/proc/self/cwd"), os.readlink("/proc/self/root")])
for fd in range(3, 64):
    try: os.open("y", os.O_CREAT | os.O_WRONLY, dir_fd=fd); print("through", fd)
    except OSError as exc: assert exc.errno == errno.EBADF, exc
print(open("brought.txt").read())
"""
EXPECTED = f"[{EROFS}]\n[1, 1, 1, 1, 1]\n[0, 1, 2, 3] ['/mnt/data', '/']\nhello\n"
IMPORTS = "os,ctypes,errno,multiprocessing,threading,time"
BROUGHT = [{"path": "brought.txt", "content": "hello"}]


@pytest.fixture(scope="module")
def frozen(program):
    with serving(program, "--policy", "guarded", "--allowed-imports", IMPORTS) as rest:
        yield rest


def test_without_the_tier_nobody_writes(frozen):
    ran = frozen.run(TRICKS, files=BROUGHT)
    assert ran["stdout"] == EXPECTED, ran
    assert ran["files"] == [], ran


def test_a_session_cannot_write_either_and_says_so(frozen):
    assert frozen.run(TRICKS, files=BROUGHT, session="s")["stdout"] == EXPECTED
    ran = frozen.run("open('/tmp/a', 'w')", session="s")
    assert ran["error"]["errno"] == EROFS and "--enable-filesystem" in ran["hint"], ran
    [event] = [e for e in ran["security_events"] if e["kind"] == "filesystem"]
    assert event["target"] == "/tmp/a" and event["layer"] == "python" and event["line"] == 1, event
    assert "--enable-filesystem" in event["hint"]
    # What comes after code has run comes too late, and is refused in words.
    late = frozen.post("/execute", {"code": "1", "stream": False, "session": "s",
                                    "files": [{"path": "late.txt", "content": "x"}]})
    assert b"--enable-filesystem" in late.data, late
    assert frozen.run("print(open('brought.txt').read())", session="s")["stdout"] == "hello\n"


def test_init_cannot_write_for_the_code(frozen):
    """Code shares its memory with init, so what init could do code could have done: it can do nothing."""
    ran = frozen.run("import os\nprint(os.path.exists('/proc/1/fd'))\n", session="init")
    assert ran["verdict"] == "ok", ran
    answer = frozen.ask("PUT", "/sessions/init/files/x.txt", b"x")
    assert answer.status >= 400, answer


def test_ordinary_code_runs_without_a_place_to_write(frozen):
    ran = frozen.run("""
import multiprocessing, threading
t = threading.Thread(target=print, args=("thread",)); t.start(); t.join()
try: multiprocessing.Lock()
except OSError as exc: print(type(exc).__name__, exc.errno)
""")
    assert ran["verdict"] == "ok", ran
    assert ran["stdout"].startswith("thread\n"), ran


def test_a_call_can_ask_for_it(rest):
    """On a server that leaves everything open, also from boxes that are parked."""
    for _ in range(3):
        ran = rest.run("open('x', 'w')", policy="guarded")
        assert ran["error"]["errno"] == EROFS, ran
        assert ran["security_observed"] == ["syscalls", "imports"], ran
        assert rest.run("open('x', 'w').close()")["verdict"] == "ok"
    rest.run("open('x', 'w').close()", session="open")
    answer = rest.post("/execute", {"code": "1", "stream": False, "policy": "guarded", "session": "open"})
    assert answer.status == 409 and b"write files" in answer.data, answer
    assert rest.run("open('x', 'w')", policy="guarded", session="shut")["error"]["errno"] == EROFS
    # And it stays so, whatever the next run asks for.
    assert rest.run("open('x', 'w')", session="shut")["error"]["errno"] == EROFS


def test_with_the_tier_it_is_as_ever(program):
    with serving(program, "--policy", "guarded", "--enable-filesystem") as rest:
        ran = rest.run("open('x', 'w').write('1')")
        assert ran["verdict"] == "ok" and [f["path"] for f in ran["files"]] == ["x"], ran
