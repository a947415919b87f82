# SPDX-License-Identifier: Apache-2.0
"""Measures what a host loses to a box: see table_charges.py for the rows.

Nothing here needs more than the standard library: tests/vm/checks.py runs some rows in a guest without pytest.
"""

import dataclasses
import subprocess
import threading
import time

LIMIT_MB = 64
PROCESSES = 64
FILES = 256
# What a box costs by itself, what the kernel keeps in lists of each processor, and what others do meanwhile.
MARGIN_MB = 40
# Without a cgroup the box is looked at every 5 ms at best: what it makes between two looks on a busy machine.
SAMPLED_MB = 64
DRIVERS = ("v1", "v2", "watch")
OPTIONS = ("--memory", f"{LIMIT_MB}M", "--processes", str(PROCESSES), "--files", str(FILES))


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    figures: str  # the figures of the host whose growth is the loss, see read_figures()
    code: str
    v1: str
    v2: str
    watch: str
    options: tuple = ()
    most_mb: dict = dataclasses.field(default_factory=dict)  # by driver, where the bound is not the memory limit
    watch_figures: str = ""  # where they differ: what the host can take back is no loss there

    def figures_of(self, driver):
        return (self.watch_figures if driver == "watch" and self.watch_figures else self.figures).split()

    def bound_mb(self, driver):
        sampled = SAMPLED_MB if driver == "watch" else 0
        return self.most_mb.get(driver, LIMIT_MB + sampled) + MARGIN_MB


# What the programs begin with. grow() makes objects until it is refused or its time is over, fleet() does so in many
# processes, hold() waits until all of them are done and for a moment more, in which the host is looked at.
PRELUDE = """
import _thread, ctypes, errno, fcntl, gc, mmap, os, select, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mprotect.argtypes = libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
END = time.monotonic() + GROW_S
done_read, done_write = os.pipe()
children = 0

def ok(result):
    if result in (-1, 2**64 - 1):
        raise OSError(ctypes.get_errno(), "refused")
    return result

def grow(make, most=10**9):
    kept = []
    try:
        while len(kept) < most and time.monotonic() < END:
            kept.append(make(len(kept)))
    except (OSError, RuntimeError, MemoryError) as error:
        os.write(1, f"made {len(kept)}: {error!r}\\n".encode())
    else:
        os.write(1, f"made {len(kept)}\\n".encode())
    return kept

def fleet(work, most=24):
    global children
    gc.freeze()
    gc.disable()
    for number in range(1, most + 1):
        try:
            pid = os.fork()
        except OSError:
            break
        if pid == 0:
            kept = work(number)
            os.write(done_write, b"x")
            time.sleep(100)
        children += 1
    return work(0)

def hold():
    global children
    while children and select.select([done_read], [], [], GROW_S * 4)[0]:
        children -= len(os.read(done_read, 64))
    time.sleep(HOLD_S)
    os._exit(0)

def fill(descriptor, data):
    # Until it is full; a datagram socket may say so with ENOBUFS.
    try:
        while time.monotonic() < END:
            os.write(descriptor, data)
    except BlockingIOError:
        pass
    except OSError as error:
        if error.errno != errno.ENOBUFS:
            raise

def enlarge(sock):
    sock.setblocking(False)
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        try:
            sock.setsockopt(socket.SOL_SOCKET, option, 1 << 30)
        except OSError:
            pass
    return sock

def scratch(name, flags=os.O_RDWR | os.O_CREAT):
    return os.open(f"/tmp/{name}", flags)

LONG = "x" * 240
"""


def read_figures():
    """What the host has in use, in kB, by kind; `pages` is what the kernel took without saying for what."""
    with open("/proc/meminfo") as file:
        m = {name: int(rest.split()[0]) for name, rest in (line.split(":") for line in file)}
    known = ("MemFree", "Buffers", "Cached", "AnonPages", "Slab", "PageTables", "KernelStack", "Percpu", "Hugetlb")
    found = {
        "slab": m["SUnreclaim"],
        "rslab": m["SReclaimable"],
        "tables": m["PageTables"],
        "stacks": m["KernelStack"],
        "shmem": m["Shmem"],
        "anon": m["AnonPages"],
        "percpu": m.get("Percpu", 0),
        "pages": m["MemTotal"] - sum(m.get(name, 0) for name in known),
        "huge": (m["HugePages_Total"] - m["HugePages_Free"] + m["HugePages_Rsvd"]) * m["Hugepagesize"],
    }
    with open("/proc/net/sockstat") as file:
        for line in file:
            if line.startswith("TCP:"):
                found["tcp"] = int(line.split()[-1]) * 4
    return found


def measure(row, command, driver, grow_s=5.0, hold_s=0.3, guard_s=60, env=None):
    """One run of a row: what the host lost at most, what it still misses afterwards (both in MB), and the output."""
    source = f"GROW_S = {grow_s}\nHOLD_S = {hold_s}\n{PRELUDE}{row.code}\nhold()\n"
    names = row.figures_of(driver)

    def loss():
        now = read_figures()
        return sum(now[name] - before[name] for name in names) / 1024

    before = read_figures()
    run = subprocess.Popen(
        [*command, "run", *OPTIONS, "--wall", f"{guard_s}s", *row.options, "-c", source],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output = []
    reader = threading.Thread(target=lambda: output.append(run.stdout.read()))
    reader.start()
    most = 0
    while run.poll() is None:
        most = max(most, loss())
        time.sleep(0.02)
    reader.join()
    run.stdout.close()
    deadline = time.monotonic() + 10
    left = loss()
    while left > MARGIN_MB and time.monotonic() < deadline:
        time.sleep(0.1)
        left = min(left, loss())
    return most, left, run.returncode, output[0].decode("utf-8", "replace")


def judge(row, command, driver, tries=3, **how):
    """None, or what is wrong with a row. Others use memory too: what is wrong is wrong every time."""
    for _ in range(tries):
        most, left, status, output = measure(row, command, driver, **how)
        kept_names = driver != "watch" and "rslab" in row.figures_of(driver)
        if status not in (0, 121, 122, 137):
            wrong = f"the program ended with {status}"
        elif most > row.bound_mb(driver):
            wrong = f"the host lost {most:.0f} MB, and the bound is {row.bound_mb(driver)} MB"
        elif left > MARGIN_MB and not kept_names:
            wrong = f"the host has not got back {left:.0f} MB"
        else:
            return most, None
    return most, f"{row.name}, {driver}: {wrong}\n{output[-2000:]}"
