# SPDX-License-Identifier: Apache-2.0
"""The limits themselves: what they count, where exactly they bite, and how they are set.

What happens to code that runs into one is the subject of test_verdicts.py.
"""

import os
import textwrap

import pytest
import rest_client

# Only to end what hangs: a box that is to be killed for another reason is never killed for this one.
WALL = ("--wall", "100s", "--cpu", "100s")


# --- just below is fine ---------------------------------------------------------------------------


def test_sleep_is_not_cpu(cli):
    result = cli.run("import time\ntime.sleep(1.2)\n1", "--cpu", "500ms", "--wall", "100s")
    assert result.verdict == "ok"
    assert result.usage["wall_ms"] >= 1200


def test_cpu_is_counted(cli):
    code = "import time\nwhile time.process_time() < 0.3: pass"
    result = cli.run(code, *WALL)
    assert 250 <= result.usage["cpu_user_ms"] + result.usage["cpu_system_ms"] < 5000


def test_cpu_of_children_is_counted(cli):
    code = (
        "import os, time\nfor i in range(2):\n    if os.fork() == 0:\n"
        "        while time.process_time() < 0.3: pass\n        os._exit(0)\nos.wait(); os.wait()"
    )
    result = cli.run(code, *WALL)
    assert result.usage["cpu_user_ms"] + result.usage["cpu_system_ms"] >= 500


BUSY = """import os, time
for _ in range(2 * os.cpu_count()):
    if os.fork() == 0:
        while True: pass
print("busy", flush=True)
time.sleep(1000)"""


def test_the_wall_time_decides_when_all_cores_are_busy(cli):
    """By default the CPU limit follows the wall time and the cores, so processes side by side do not shorten a run."""
    result = cli.run(BUSY, "--wall", "3s")
    assert result.verdict == "timeout_wall" and result.stdout == "busy\n", result
    assert cli.run(BUSY, "--wall", "100s", "--cpu", "500ms").verdict == "timeout_cpu"


@pytest.mark.parametrize("option, code", [("--wall=300ms", "import time; time.sleep(30)"), ("--cpu=100ms", "while True: pass"),
                                          ("--memory=64M", "bytearray(10**9)"), ("--output=64K", "print('x' * 10**6)")])
def test_the_command_line_names_the_option_of_the_limit(cli, option, code):
    said = cli.call("run", option, "-c", code).err
    assert said.endswith(f" ({option.partition('=')[0]})\n"), said


TOO_LARGE = {
    "bytearray": "bytearray(10**12)",
    "text": "'x' * (LIMIT + (1 << 20))",
    "list": "[None] * (LIMIT // 8 + 1000)",
    "growth": "def grow():\n    x = [None] * (LIMIT // 16)\n    x *= 3\ngrow()",
    "join": "b''.join([bytes(LIMIT // 4)] * 5)",
    "thread": ("import threading\nfound = []\ndef work():\n    try: 'x' * (LIMIT + (1 << 20))\n"
               "    except MemoryError as e: found.append(e)\n"
               "t = threading.Thread(target=work)\nt.start()\nt.join()\nraise found[0]"),
    "child": ("import os\nif (pid := os.fork()) == 0:\n    try: 'x' * (LIMIT + (1 << 20))\n"
              "    except MemoryError: os._exit(7)\n"
              "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7\nraise MemoryError"),
}


@pytest.mark.parametrize("name", sorted(TOO_LARGE))
def test_an_allocation_that_cannot_succeed_is_a_memory_error(cli, name):
    code = "LIMIT = 128 << 20\n" + TOO_LARGE[name]
    client = rest_client.serve(cli, "--memory", "128M")
    assert client.run("kept = 7", session="s")["verdict"] == "ok"
    result = client.run(code, session="s")
    assert result["error"]["type"] == "MemoryError" and result["verdict"] == "out_of_memory", result
    again = client.run("print(kept, len('x' * (64 << 20)))", session="s")
    assert (again["verdict"], again["stdout"]) == ("ok", f"7 {64 << 20}\n"), again


def test_memory_below_the_limit(cli):
    result = cli.run("x = bytearray(b'x' * (30 << 20))\nlen(x)", "--memory", "96M")
    assert result.verdict == "ok"
    assert 30 << 20 <= result.usage["peak_memory_bytes"] <= 96 << 20


def test_memory_that_is_given_back(cli):
    """The limit is on what is held at a time, not on what was ever asked for."""
    code = "for i in range(40):\n    x = bytearray(b'x' * (16 << 20)); del x\n'done'"
    assert cli.run(code, "--memory", "96M", *WALL).verdict == "ok"


HIDDEN = """
import os, threading, ctypes, time
def child():
    def hold():
        time.sleep(0.3)
        kept = bytearray(b"x" * (60 << 20))
        time.sleep(60)
    threading.Thread(target=hold, daemon=True).start()
    ctypes.CDLL(None).syscall(60, 0)        # exit, of this thread alone: the process looks like a zombie
for _ in range(6):
    if os.fork() == 0:
        child()
time.sleep(60)
"""
LEFT_WITH_INIT = """
import os, sys
kept = bytearray(b"x" * (100 << 20))        # the init has it too, and keeps it when this process calls exec
os.execv(sys.executable, [sys.executable, "-c", "import time; x = bytearray(b'x' * (100 << 20)); time.sleep(60)"])
"""


@pytest.mark.parametrize("code", [HIDDEN, LEFT_WITH_INIT], ids=["first_thread_left", "exec"])
def test_memory_that_is_out_of_sight(cli, code):
    if not os.uname().machine == "x86_64":
        pytest.skip("the number of exit is another one here")
    assert cli.run(code, "--memory", "128M", *WALL).verdict == "out_of_memory"


def test_time_of_children_that_nobody_waits_for(cli):
    code = """
        import os, time, signal
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            if os.fork() == 0:
                end = time.process_time() + 0.4
                while time.process_time() < end:
                    pass
                os._exit(0)
            time.sleep(0.5)
    """
    assert cli.run(textwrap.dedent(code), "--cpu", "1500ms", "--wall", "100s").verdict == "timeout_cpu"


def test_peak_memory_stays_below_the_limit(cli):
    """Grows slowly: nothing goes to swap, so the peak is what the box had in memory."""
    code = (
        "import time\nx = []\nwhile True:\n    x.append(bytearray(b'x' * (4 << 20)));"
        " time.sleep(0.01)"
    )
    result = cli.run(code, "--memory", "64M", *WALL)
    assert result.verdict == "out_of_memory"
    assert result.usage["peak_memory_bytes"] <= (64 << 20) * (1.05 if result.counted else 2)


def test_address_space_is_not_memory(cli):
    """Reserving is not using: libraries map far more than they touch."""
    code = (
        "import mmap\nm = mmap.mmap(-1, 8 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS |"
        " 0x4000)\nm[5] = 1\nlen(m)"
    )
    result = cli.run(code, "--memory", "64M")
    # without a cgroup the address space is what can be limited
    assert result.result == str(8 << 30) or (not result.counted and result.verdict == "out_of_memory")


def test_scratch_counts_all_three_places(cli):
    """One file system behind /mnt/data, /tmp and /dev/shm: the limit is on the sum."""
    code = (
        "import errno\nn = 0\n"
        "for folder in ('/mnt/data', '/tmp', '/dev/shm'):\n"
        "    try:\n        with open(folder + '/x', 'wb', 0) as f:\n"
        "            for i in range(60): n += f.write(b'x' * 65536)\n"
        "    except OSError as e: assert e.errno == errno.ENOSPC\n"
        "n"
    )
    result = cli.run(code, "--scratch", "8M", *WALL)
    assert result.verdict == "ok"
    assert (8 << 20) * 0.8 <= result.result_json <= (8 << 20) * 1.05


def test_inodes_are_counted(cli):
    code = (
        "n = 0\ntry:\n    while True: open('/tmp/f%d' % n, 'w').close(); n += 1\nexcept OSError:"
        " pass\nn"
    )
    result = cli.run(code, "--inodes", "300", *WALL)
    assert result.verdict == "ok"
    assert 250 <= result.result_json <= 300


def test_files_are_counted(cli):
    code = (
        "import os, errno\nk = []\ntry:\n    while True: k.append(os.open('/dev/null',"
        " os.O_RDONLY))\nexcept OSError as e: assert e.errno == errno.EMFILE\nn = len(k)\nfor fd in"
        " k: os.close(fd)\nn"
    )
    assert cli.run(code, "--files", "64").result_json == 61
    assert cli.run(code).result_json == 253


def test_too_many_files_is_an_error_of_the_code(cli):
    result = cli.run(
        "import os\nprint('before')\nwhile True: os.open('/dev/null', 0)", "--files", "64"
    )
    assert (result.verdict, result.error["type"], result.stdout) == ("error", "OSError", "before\n")


def test_file_size(cli):
    code = (
        "import errno\nn = 0\ntry:\n    with open('x', 'wb', 0) as f:\n        while True: n +="
        " f.write(b'x' * 65536)\nexcept OSError as e: assert e.errno == errno.EFBIG\nn"
    )
    assert cli.run(code, "--file-size", "1M", *WALL).result_json == 1 << 20


def test_file_size_uncaught(cli):
    code = "print('before')\nf = open('x', 'wb', 0)\nwhile True: f.write(b'x' * 65536)"
    result = cli.run(code, "--file-size", "1M", *WALL)
    assert result.verdict in ("error", "disk_full")
    assert (result.error["type"], result.stdout) == ("OSError", "before\n")


def test_sparse_file(cli):
    """A hole costs nothing; the size of a single file is still limited."""
    code = "import os\nf = open('x', 'wb')\nf.truncate(100 << 20)\nos.stat('x').st_blocks"
    assert cli.run(code, "--scratch", "1M").result == "0"
    result = cli.run("f = open('x', 'wb')\nf.truncate(1 << 40)")
    assert result.error["type"] == "OSError"


@pytest.mark.parametrize("what", ["processes", "threads"])
def test_processes_are_counted(cli, what):
    code = {
        "processes": (
            "import os, time\nn = 0\ntry:\n    while True:\n        if os.fork() == 0:"
            " time.sleep(1000)\n        n += 1\nexcept OSError: pass\nn"
        ),
        "threads": (
            "import threading, time\nn = 0\ntry:\n    while True:\n       "
            " threading.Thread(target=time.sleep, args=(1000,), daemon=True).start(); n +="
            " 1\nexcept RuntimeError: pass\nimport os\nprint(n, flush=True)\nos._exit(0)"
        ),
    }[what]
    result = cli.run(code, "--processes", "16", *WALL)
    assert result.verdict == "ok", result
    count = result.result_json if what == "processes" else int(result.stdout)
    # The code itself is one, and the box may keep a few for its own init.
    assert 16 - 4 <= count <= 16
    assert result.usage["processes"] <= 17


def test_processes_are_limited_at_a_time(cli):
    code = (
        "import os\nfor i in range(200):\n    if os.fork() == 0: os._exit(0)\n    os.wait()\n'done'"
    )
    assert cli.run(code, "--processes", "8", *WALL).result == "'done'"


@pytest.mark.parametrize("size, verdict", [(1023, "ok"), (1024, "ok"), (1025, "output_limit")])
def test_output_to_the_byte(cli, size, verdict):
    result = cli.run(f"import os\nos.write(1, b'x' * {size})", "--output", "1K")
    assert result.verdict == verdict
    assert result.stdout == "x" * min(size, 1024)
    assert bool(result.truncated) == (size > 1024)


def test_output_is_the_sum_of_both(cli):
    code = "import os\nos.write(1, b'x' * 700)\nos.write(2, b'y' * 700)"
    result = cli.run(code, "--output", "1K")
    assert result.verdict == "output_limit"
    assert len(result.stdout) + len(result.stderr) <= 1024


def test_denied_calls_leave_no_trace(cli):
    """100,000 denied calls cost the box its own time and the kernel's log nothing."""

    def log_lines():
        try:
            with open("/dev/kmsg", "rb", 0) as log:
                os.set_blocking(log.fileno(), False)
                lines = 0
                while log.read(8192):
                    lines += 1
                return lines
        except OSError:
            return None

    before = log_lines()
    code = (
        "import ctypes\nlibc = ctypes.CDLL(None)\nfor i in range(100000): libc.umount2(None,"
        " 0)\n'done'"
    )
    assert cli.run(code, *WALL).result == "'done'"
    after = log_lines()
    if before is not None and after is not None:
        assert after - before < 100


# --- they cannot be raised ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["CPU", "NOFILE", "FSIZE", "CORE", "MEMLOCK", "NPROC", "MSGQUEUE"])
def test_no_limit_can_be_raised(cli, name):
    code = (
        f"import resource\nsoft, hard = resource.getrlimit(resource.RLIMIT_{name})\ntry:"
        f" resource.setrlimit(resource.RLIMIT_{name}, (resource.RLIM_INFINITY,"
        " resource.RLIM_INFINITY))\nexcept (ValueError, OSError):"
        f" print('refused')\nprint(resource.getrlimit(resource.RLIMIT_{name}) == (soft, hard))"
    )
    out = cli.run(code).stdout.split()
    # what is unlimited is limited by other means
    assert out in (["refused", "True"], ["True"])
    if name in ("NOFILE", "FSIZE", "CORE", "MEMLOCK", "MSGQUEUE"):
        assert out == ["refused", "True"]


def test_limits_that_all_boxes_have(cli):
    """They are the zygote's, and inherited."""
    names = "CORE", "MEMLOCK", "MSGQUEUE", "NICE", "RTPRIO", "SIGPENDING", "STACK"
    numbers = 4, 8, 12, 13, 14, 11, 3       # of Linux: Python does not have all of these names
    code = f"import resource\n[resource.getrlimit(number) for number in {numbers}]"
    found = dict(zip(names, cli.run(code).result_json))
    assert all(soft == hard for soft, hard in found.values()), found
    exact = {name: found[name][0] for name in names[:5]}
    assert exact == {"CORE": 1, "MEMLOCK": 0, "MSGQUEUE": 0, "NICE": 0, "RTPRIO": 0}
    assert 0 < found["SIGPENDING"][0] <= 1024 and 0 < found["STACK"][0] <= 8 << 20


# --- how they are set -----------------------------------------------------------------------------

SLEEP = "import time\ntime.sleep(30)"


@pytest.mark.parametrize("value", ["0.3", "300ms", "0.3s", "0.005m"])
def test_durations(cli, value):
    result = cli.run(SLEEP, "--wall", value)
    assert result.verdict == "timeout_wall"
    assert result.usage["wall_ms"] < 15000


@pytest.mark.parametrize("value", ["65536", "64K", "64KiB", "0.0625M"])
def test_sizes(cli, value):
    if value.startswith("0."):
        # A fraction is either understood or refused with the key and the value, never misread.
        result = cli.run("print('x' * 70000)", "--output", value)
        assert result.status in (64, 123)
        return
    result = cli.run("print('x' * 65535)", "--output", value)
    assert (result.verdict, len(result.stdout)) == ("ok", 65536)
    assert cli.run("print('x' * 65536)", "--output", value).verdict == "output_limit"


def test_equals_sign(cli):
    assert cli.run(SLEEP, "--wall=300ms").verdict == "timeout_wall"


@pytest.mark.parametrize(
    "name, value",
    [
        ("CONSTRICTOR_WALL", "300ms"),
        ("SANDBOX_TIMEOUT", "1"),
        ("MAX_EXECUTION_TIME", "1"),
    ],
)
def test_environment_sets_wall(cli, name, value):
    assert cli.run(SLEEP, env={name: value}).verdict == "timeout_wall"


@pytest.mark.parametrize(
    "name, value",
    [
        ("CONSTRICTOR_MEMORY", "64M"),
        ("MAX_MEMORY_MB", "64"),
        ("SANDBOX_DEFAULT_MEMORY_LIMIT", "64m"),
    ],
)
def test_environment_sets_memory(cli, name, value):
    result = cli.run("x = bytearray(b'x' * (100 << 20))", env={name: value})
    assert result.verdict == "out_of_memory"
    assert result.usage["peak_memory_bytes"] <= (64 << 20) * (1.05 if result.counted else 2)


@pytest.mark.parametrize("name", ["CONSTRICTOR_OUTPUT", "SANDBOX_MAX_OUTPUT_SIZE"])
def test_environment_sets_output(cli, name):
    result = cli.run("print('x' * 5000)", env={name: "2000"})
    assert (result.verdict, len(result.stdout)) == ("output_limit", 2000)


def test_file_sets_limits(cli):
    config = cli.folder / "c.conf"
    config.write_text("# a comment\n\nwall = 300ms\noutput=2K\n")
    assert cli.run(SLEEP, "--config", config).verdict == "timeout_wall"
    assert cli.run("print('x' * 5000)", "--config", config).verdict == "output_limit"


def test_flag_wins_over_environment_over_file(cli):
    config = cli.folder / "c.conf"
    config.write_text("output = 1K\n")
    code = "print('x' * 1500)"
    assert cli.run(code, "--config", config).verdict == "output_limit"
    assert cli.run(code, "--config", config, env={"CONSTRICTOR_OUTPUT": "2K"}).verdict == "ok"
    assert cli.run(code, "--output", "4K", env={"CONSTRICTOR_OUTPUT": "1K"}).verdict == "ok"
    assert (
        cli.run(code, "--output", "1K", env={"CONSTRICTOR_OUTPUT": "2K"}).verdict == "output_limit"
    )


def test_last_flag_wins(cli):
    assert cli.run("print('x' * 1500)", "--output", "1K", "--output", "4K").verdict == "ok"


@pytest.mark.parametrize("stock", ["0", "1", "16"])
def test_stock(cli, stock):
    assert cli.run("6 * 7", "--stock", stock).result == "42"


def test_defaults(cli):
    """The documented defaults, as the box sees them."""
    code = (
        "import os, resource\ns ="
        " os.statvfs('/mnt/data')\n[resource.getrlimit(resource.RLIMIT_NOFILE)[0],"
        " resource.getrlimit(resource.RLIMIT_FSIZE)[0], s.f_blocks * s.f_frsize, s.f_files]"
    )
    files, file_size, scratch, inodes = cli.run(code).result_json
    assert (files, file_size) == (256, 256 << 20)
    assert abs(scratch - (256 << 20)) <= 1 << 20
    assert abs(inodes - 16384) <= 64
