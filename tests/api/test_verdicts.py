# SPDX-License-Identifier: Apache-2.0
"""Every bomb ends with its own verdict, brings its partial output, and harms no later run.

Black box, as root and as an ordinary user. The limits given here are small so that they are
reached quickly. The time guards are generous: they only tell an answer from a hang.
"""

import os
import signal
import sys

import pytest

# Only to end what hangs: a box that is to be killed for another reason is never killed for this one.
WALL = ("--wall", "100s", "--cpu", "100s")
BEFORE = "print('before')\n"
SPIN_IN_C = (
    # Locks a spin lock twice, without letting go of the interpreter's lock: no Python runs again.
    "import ctypes\nlock = ctypes.c_int(0)\npy = ctypes.PyDLL(None)\n"
    "py.pthread_spin_init(ctypes.byref(lock), 0)\n"
    "py.pthread_spin_lock(ctypes.byref(lock))\npy.pthread_spin_lock(ctypes.byref(lock))\n"
)


@pytest.fixture
def bomb(cli):
    """Runs a bomb: the answer has the output up to the bang, and the next run is a normal one."""

    def run(code, *flags, **options):
        result = cli.run(BEFORE + code, *flags, **options)
        assert result.stdout.startswith("before\n"), result
        assert not result.success
        after = cli.run("print('after')\n6 * 7")
        assert (after.verdict, after.stdout, after.result) == ("ok", "after\n", "42"), after
        return result

    return run


def assert_limit(result, verdict, status, word):
    assert result.verdict == verdict, result
    assert result.status == status, result
    assert result.limit and word in result.limit["name"], result
    assert set(result.limit) >= {"name", "value", "unit"}
    assert result.hint


# --- time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "import time\ntime.sleep(1000)",
        "import os\nos.read(os.pipe()[0], 1)",
        (
            "import threading\nthreading.Lock().acquire()\nl = threading.Lock(); l.acquire();"
            " l.acquire()"
        ),
        "import os, time\nif os.fork() == 0: time.sleep(1000)\nos.wait()",
        (
            "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\nwhile True:"
            " signal.pause()"
        ),
        (
            "while True:\n    try:\n        import time; time.sleep(1000)\n    except"
            " BaseException: pass"
        ),
    ],
    ids=["sleep", "pipe", "deadlock", "child", "signals_blocked", "exceptions_caught"],
)
def test_wall(bomb, code):
    result = bomb(code, "--wall", "1s")
    assert_limit(result, "timeout_wall", 124, "wall")
    assert result.usage["wall_ms"] >= 900
    assert (result.limit["value"], result.limit["unit"]) in ((1, "s"), (1000, "ms"), (1.0, "s"))


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        SPIN_IN_C,
        "sum(range(10**12))",
        "import re\nre.match('(a+)+$', 'a' * 60 + 'b')",
        (
            "import threading\nfor i in range(3): threading.Thread(target=lambda: [0 for _ in"
            " iter(int, 1)]).start()"
        ),
    ],
    ids=["python", "c", "builtin", "regex", "threads"],
)
def test_cpu(bomb, code):
    result = bomb(code, "--cpu", "500ms", "--wall", "100s")
    assert_limit(result, "timeout_cpu", 124, "cpu")
    assert result.usage["cpu_user_ms"] + result.usage["cpu_system_ms"] >= 400


def test_cpu_of_children(bomb):
    """Neither a child nor a grandchild that no process waits for escapes the account."""
    code = (
        "import os, time\n"
        "for i in range(2):\n"
        "    if os.fork() == 0:\n"
        "        if os.fork() == 0:\n"
        "            while True: pass\n"
        "        os._exit(0)\n"
        "time.sleep(1000)"
    )
    result = bomb(code, "--cpu", "1s", "--wall", "100s")
    assert_limit(result, "timeout_cpu", 124, "cpu")


def test_cpu_of_many_short_children(bomb):
    code = (
        "import os, time\nwhile True:\n    if os.fork() == 0:\n        for i in range(10**6):"
        " pass\n        os._exit(0)\n    os.wait()"
    )
    result = bomb(code, "--cpu", "1s", "--wall", "100s")
    assert_limit(result, "timeout_cpu", 124, "cpu")


def test_spin_in_c_against_the_wall(bomb):
    assert_limit(bomb(SPIN_IN_C, "--wall", "1s"), "timeout_wall", 124, "wall")


def test_signal_handler_that_refuses(bomb):
    code = (
        "import signal, time\n"
        "for n in range(1, 65):\n"
        "    try: signal.signal(n, lambda *a: print('no', flush=True))\n"
        "    except (OSError, ValueError): pass\n"
        "while True: time.sleep(0.1)"
    )
    assert_limit(bomb(code, "--wall", "1s"), "timeout_wall", 124, "wall")


def test_stopping_everything(bomb):
    code = (
        "import os, signal\ntry: os.kill(-1, signal.SIGSTOP)\nexcept OSError:"
        " pass\nos.kill(os.getpid(), signal.SIGSTOP)"
    )
    assert_limit(bomb(code, "--wall", "1s"), "timeout_wall", 124, "wall")


def test_stopping_a_crowd(bomb):
    code = (
        "import os, signal, time\n"
        "for i in range(10):\n"
        "    if os.fork() == 0:\n"
        "        while True: time.sleep(1)\n"
        "os.kill(-1, signal.SIGSTOP)\nos.kill(0, signal.SIGSTOP)"
    )
    assert_limit(bomb(code, "--wall", "1s"), "timeout_wall", 124, "wall")


# --- memory ---------------------------------------------------------------------------------------

MEMORY_BOMBS = {
    "heap": "x = []\nwhile True: x.append(bytearray(b'x' * (1 << 20)))",
    "many_small": "x = []\nwhile True: x.append(object())",
    "shm": "f = open('/dev/shm/x', 'wb')\nwhile True: f.write(b'x' * (1 << 20))",
    "tmp": "f = open('/tmp/x', 'wb')\nwhile True: f.write(b'x' * (1 << 20))",
    "memfd": "import os\nfd = os.memfd_create('x')\nwhile True: os.write(fd, b'x' * (1 << 20))",
    "memfds_sent_away": (
        "import os, socket, array\na, b = socket.socketpair()\n"
        "while True:\n"
        "    fd = os.memfd_create('x'); os.write(fd, b'x' * (1 << 20))\n"
        "    a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [fd]))])\n"
        "    os.close(fd)\n"
    ),
    "shared_anonymous": (
        "import mmap\nk = []\nwhile True:\n    m = mmap.mmap(-1, 1 << 20); m.write(b'x' * (1 <<"
        " 20)); k.append(m)"
    ),
    "sysv": (
        "import ctypes\nlibc = ctypes.CDLL(None); libc.shmat.restype = ctypes.c_void_p\n"
        "while True:\n    i = libc.shmget(0, 1 << 20, 0o1600); p = libc.shmat(i, None, 0)\n"
        "    assert i >= 0; ctypes.memset(p, 1, 1 << 20); libc.shmdt(ctypes.c_void_p(p))"
    ),
    # 1 TiB of zero pages: no memory of its own, but 2 GiB of page tables.
    "page_tables": (
        "import mmap\nm = mmap.mmap(-1, 1 << 40, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000,"
        " mmap.PROT_READ)\nfor i in range(0, 1 << 40, 1 << 21): m[i]\nprint('all mapped')"
    ),
    "children": (
        "import os, time\nfor i in range(4):\n    if os.fork() == 0:\n        x = bytearray(b'x' *"
        " (24 << 20)); time.sleep(1000)\ntime.sleep(1000)"
    ),
    "pipes": (
        "import os, fcntl\nk = []\nwhile True:\n    r, w = os.pipe(); k.append((r, w))\n    try:"
        " fcntl.fcntl(w, 1031, 1 << 20)\n    except OSError: pass\n    os.set_blocking(w, False)\n "
        "   try:\n        while os.write(w, b'x' * 65536): pass\n    except BlockingIOError: pass"
    ),
    "sockets": (
        "import socket\nk = []\nwhile True:\n    a, b = socket.socketpair(); a.setblocking(False);"
        " k.append((a, b))\n    try:\n        while True: a.send(b'x' * 65536)\n    except"
        " BlockingIOError: pass"
    ),
}
# Memory that belongs to no process. Without a cgroup the kernel does not count it; there the code must
# run into another limit, as an error of its own. System V segments may be refused in any case.
SHARED = (
    "pipes",
    "sockets",
    "memfd",
    "memfds_sent_away",
    "shared_anonymous",
    "sysv",
    "page_tables",
)


@pytest.mark.parametrize("name", sorted(MEMORY_BOMBS))
def test_memory_bomb(bomb, name):
    flags = ("--memory", "64M", "--scratch", "1G", "--file-size", "1G", "--files", "4096", *WALL)
    result = bomb(MEMORY_BOMBS[name], *flags)
    refused = name == "sysv" or (name in SHARED and not result.counted)
    if refused and result.verdict == "error":
        assert result.error["type"] in ("OSError", "AssertionError", "MemoryError"), result
        return
    assert_limit(result, "out_of_memory", 137, "memory")
    if refused and result.error:
        return  # mapping it was, before a page of it was there
    # The sampler looks now and then, a cgroup always; and a socket counts by the most that it may hold.
    room = 1.05 if result.counted else 3 if name == "sockets" else 2
    assert (64 << 20) * 0.5 <= result.usage["peak_memory_bytes"] <= (64 << 20) * room


def test_pool_worker_out_of_memory(bomb):
    """One worker takes too much: the whole box ends, and it is said once."""
    code = (
        "import multiprocessing as m\ndef work(n):\n    x = []\n    while n == 2:"
        " x.append(bytearray(b'x' * (1 << 20)))\n    return n\nwith m.get_context('fork').Pool(3)"
        " as p: print(p.map(work, range(4)))"
    )
    result = bomb(code, "--memory", "96M", *WALL)
    assert_limit(result, "out_of_memory", 137, "memory")


def test_one_map_beyond_the_limit(bomb):
    """An ordinary user's box meets a limit of address space, and mmap says so with an OSError."""
    code = "import mmap\nm = mmap.mmap(-1, 1 << 33)\nfor i in range(0, 1 << 30, 4096): m[i] = 1"
    assert_limit(bomb(code, "--memory", "64M", *WALL), "out_of_memory", 137, "memory")


def test_memory_caught_in_python(bomb):
    """Catching MemoryError does not help where the kernel ends the box."""
    code = (
        "x = []\nwhile True:\n    try: x.append(bytearray(b'x' * (1 << 20)))\n    except"
        " MemoryError: pass"
    )
    # Without a count it may go on until the time is up.
    wall = "100s" if os.geteuid() == 0 else "3s"
    result = bomb(code, "--memory", "64M", "--wall", wall, "--cpu", "100s")
    if result.counted:
        assert_limit(result, "out_of_memory", 137, "memory")
    else:
        assert result.verdict in ("out_of_memory", "timeout_wall")


# --- processes ------------------------------------------------------------------------------------


def test_fork_bomb(bomb):
    result = bomb("import os\nwhile True: os.fork()", "--processes", "32", *WALL)
    assert_limit(result, "too_many_processes", 121, "processes")


def test_fork_bomb_that_catches(bomb):
    """It never gives up, so time may be what ends it; that is not called a success."""
    code = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    result = bomb(code, "--processes", "32", "--wall", "3s", "--cpu", "3s")
    assert result.verdict in ("too_many_processes", "timeout_wall", "timeout_cpu"), result


def test_thread_bomb(bomb):
    code = (
        "import threading, time\nwhile True: threading.Thread(target=time.sleep,"
        " args=(1000,)).start()"
    )
    # the threads are waited for, so it is the wall that ends it
    result = bomb(code, "--processes", "32", "--wall", "2s")
    if result.counted:
        assert_limit(result, "too_many_processes", 121, "processes")
    else:
        assert result.verdict in ("too_many_processes", "timeout_wall")


def test_shell_fork_bomb(bomb):
    code = (
        "import subprocess\nsubprocess.run(['/bin/sh', '-c', 'b() { b | b & b; }; b'],"
        " check=True)\nraise SystemExit(1)"
    )
    result = bomb(code, "--processes", "32", "--wall", "5s", "--cpu", "5s")
    assert result.verdict in ("too_many_processes", "timeout_wall", "timeout_cpu", "error"), result


def test_subprocess_bomb(bomb):
    code = (
        "import subprocess\nk = []\nwhile True: k.append(subprocess.Popen(['/bin/sleep', '1000']))"
    )
    result = bomb(code, "--processes", "24", *WALL)
    assert_limit(result, "too_many_processes", 121, "processes")


# --- scratch --------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["/mnt/data", "/tmp", "/dev/shm"])
def test_disk_bomb(bomb, folder):
    code = f"f = open('{folder}/x', 'wb', 0)\nwhile True: f.write(b'x' * 65536)"
    result = bomb(code, "--scratch", "8M", *WALL)
    assert_limit(result, "disk_full", 122, "scratch")
    assert result.error["type"] == "OSError"


def test_disk_bomb_of_many_files(bomb):
    code = (
        "i = 0\nwhile True:\n    with open('f%d' % i, 'wb') as f: f.write(b'x' * 100000)\n    i"
        " += 1"
    )
    assert_limit(bomb(code, "--scratch", "8M", *WALL), "disk_full", 122, "scratch")


def test_inode_bomb(bomb):
    code = "i = 0\nwhile True:\n    open('f%d' % i, 'w').close(); i += 1"
    result = bomb(code, "--inodes", "500", *WALL)
    assert_limit(result, "disk_full", 122, "inodes")


def test_folder_bomb(bomb):
    code = "import os\nwhile True:\n    os.mkdir('d'); os.chdir('d')"
    assert bomb(code, "--inodes", "500", *WALL).verdict in ("disk_full", "error")


def test_full_disk_that_is_dealt_with(cli):
    """Reaching a limit and coping with it is no failure."""
    code = (
        "import os, errno\nn = 0\n"
        "try:\n    with open('x', 'wb', 0) as f:\n        while True: n += f.write(b'x' * 65536)\n"
        "except OSError as e: assert e.errno == errno.ENOSPC\n"
        "os.unlink('x')\nopen('y', 'w').write('fits')\nn"
    )
    result = cli.run(code, "--scratch", "8M", *WALL)
    assert result.verdict == "ok", result
    assert (8 << 20) * 0.8 <= result.result_json <= (8 << 20) * 1.05


# --- output ---------------------------------------------------------------------------------------

# Starts the program and reports the largest resident set of it and of all that it waited for.
MEASURE = """
import os, sys
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(pid, 0)
open(sys.argv[1], 'w').write(str(usage.ru_maxrss))
os._exit(os.waitstatus_to_exitcode(status) & 255)
"""

FLOODS = {
    "stdout": "import os\nb = b'x' * (1 << 20)\nfor i in range(10 << 10): os.write(1, b)",
    "stderr": "import os\nb = b'x' * (1 << 20)\nfor i in range(10 << 10): os.write(2, b)",
    "one_byte": "import os\nwhile True: os.write(1, b'x')",
    "lines": "while True: print('x')",
    "zeros": "import os\nwhile True: os.write(1, bytes(65536))",
    "not_text": "import os\nwhile True: os.write(1, b'\\xff' * 65536)",
    "both": "import os\nwhile True: os.write(1, b'a' * 999); os.write(2, b'b' * 999)",
    "children": "import os\nos.fork(); os.fork()\nwhile True: os.write(1, b'c' * 4096)",
}


@pytest.mark.parametrize("name", sorted(FLOODS))
def test_output_flood(cli, name):
    """10 GB of output: the box ends, the head comes back, and our own memory stays flat."""
    peak = cli.folder / "peak"
    limit = 64 << 10 if name == "one_byte" else 1 << 20
    result = cli.run(
        BEFORE + FLOODS[name],
        "--output",
        limit,
        *WALL,
        prefix=(sys.executable, "-I", "-c", MEASURE, peak),
    )
    assert_limit(result, "output_limit", 123, "output")
    assert result.stdout.startswith("before\n")
    stream = "stderr" if name == "stderr" else "stdout"
    kept = result.truncated[stream]
    assert 0 < kept["kept"] <= limit
    assert kept["total"] > kept["kept"] or name == "both"
    assert int(peak.read_text()) < 300 << 10, "our own memory grew with the output"
    assert cli.run("6 * 7").result == "42"


def test_flood_without_json(cli):
    result = cli.plain("while True: print('x' * 99)", "--output", "64K", *WALL)
    assert result.status == 123
    assert 0 < len(result.raw) <= 64 << 10
    assert "output" in result.err


# --- what code leaves behind ----------------------------------------------------------------------

DAEMON = """
import os, signal, sys, time
for n in range(1, 65):
    if n != signal.SIGCHLD: # else there would be nothing to wait for
        try: signal.signal(n, signal.SIG_IGN)
        except (OSError, ValueError): pass
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir('/')
        while True: time.sleep(0.1)
    os._exit(0)
os.wait()
print('left')
"""


def test_daemon_is_gone(cli, tools):
    """A daemon that ignores signals and holds the pipes does not keep the answer waiting."""
    result = cli.run(DAEMON + "6 * 7", "--wall", "100s")
    assert (result.verdict, result.stdout, result.result) == ("ok", "left\n", "42")
    assert result.usage["wall_ms"] < 90000
    assert tools.wait_until(lambda: not tools.descendants(cli.started[0].pid))


def test_many_daemons_are_gone(cli):
    code = (
        "import os, signal, time\nfor i in range(20):\n    if os.fork() == 0:\n       "
        " os.setsid()\n        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\n       "
        " time.sleep(1000)\nprint('left')"
    )
    result = cli.run(code, "--wall", "100s")
    assert (result.verdict, result.stdout) == ("ok", "left\n")


def test_daemon_that_forks_all_the_time(cli):
    code = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    while True:\n"
        "        try:\n            if os.fork(): os._exit(0)\n        except OSError: pass\n"
        "time.sleep(0.3)\nprint('left')"
    )
    result = cli.run(code, "--wall", "100s", "--cpu", "100s")
    assert (result.verdict, result.stdout) == ("ok", "left\n")


def test_timers_left_behind(cli):
    code = (
        "import signal, ctypes\nsignal.setitimer(signal.ITIMER_REAL, 1000)\nlibc ="
        " ctypes.CDLL(None)\nfds = [libc.timerfd_create(1, 0),"
        " libc.eventfd(0, 0)]\nsignal.alarm(1000)\nt = ctypes.c_void_p()\nlibc.timer_create(1,"
        " None, ctypes.byref(t))\nall(fd > 2 for fd in fds)"
    )
    assert cli.run(code, "--wall", "100s").result == "True"


def test_stopped_children_are_gone(cli):
    code = (
        "import os, signal\nfor i in range(5):\n    if os.fork() == 0: os.kill(os.getpid(),"
        " signal.SIGSTOP)\nprint('left')"
    )
    result = cli.run(code, "--wall", "100s")
    assert (result.verdict, result.stdout) == ("ok", "left\n")


def test_killing_everything(cli):
    """kill(-1) spares the caller and the init, so the code goes on; its children are dead."""
    code = (
        "import os, time\nchild = os.fork()\nif child == 0: time.sleep(1000)\n"
        "try: os.kill(-1, 9)\nexcept ProcessLookupError: pass\nprint(os.waitpid(child, 0)[1])"
    )
    result = cli.run(code)
    assert (result.verdict, result.stdout) == ("ok", "9\n")


def test_killing_the_own_group(bomb):
    result = bomb("import os\nos.killpg(0, 9)")
    assert (result.verdict, result.signal) == ("error", signal.SIGKILL)


def test_killed_by_a_child(bomb):
    result = bomb(
        "import os, time\nif os.fork() == 0:\n    os.kill(os.getppid(), 9)\ntime.sleep(1000)"
    )
    assert (result.verdict, result.signal) == ("error", signal.SIGKILL)


# --- four things that look alike ------------------------------------------------------------------


def test_four_different_answers(cli):
    """exit(137), an own SIGKILL, too much memory and too much time: no two can be mixed up."""
    own_exit = cli.run(BEFORE + "raise SystemExit(137)")
    own_kill = cli.run(BEFORE + "import os\nos.kill(os.getpid(), 9)")
    memory = cli.run(BEFORE + MEMORY_BOMBS["heap"], "--memory", "64M", *WALL)
    wall = cli.run(BEFORE + "import time\ntime.sleep(1000)", "--wall", "500ms")
    assert (own_exit.verdict, own_exit.exit_code, own_exit.signal, own_exit.status) == (
        "error",
        137,
        None,
        137,
    )
    assert (own_kill.verdict, own_kill.signal, own_kill.status) == ("error", 9, 137)
    assert own_kill.exit_code != 0
    assert (memory.verdict, memory.status) == ("out_of_memory", 137)
    assert (wall.verdict, wall.status) == ("timeout_wall", 124)
    for result in (own_exit, own_kill, memory, wall):
        assert result.stdout == "before\n"
    assert own_exit.limit is own_kill.limit is None


def test_limits_without_json(cli):
    """The plain form says what happened, on stderr."""
    result = cli.plain("print('before')\nimport time\ntime.sleep(1000)", "--wall", "500ms")
    assert (result.status, result.out) == (124, "before\n")
    assert "wall" in result.err
    result = cli.plain(MEMORY_BOMBS["heap"], "--memory", "64M", *WALL)
    assert result.status == 137
    assert "memory" in result.err


def test_no_core_file_is_written(cli):
    before = set(os.listdir(cli.folder))
    cli.run("import ctypes\nctypes.string_at(8)")
    assert set(os.listdir(cli.folder)) == before
