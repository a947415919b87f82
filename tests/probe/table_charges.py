# SPDX-License-Identifier: Apache-2.0
"""Every kind of kernel object that code in a box can make, and what bounds it: one row each.

A row has a program that makes as many as it can in a box with a small memory limit, far more than the limit allows.
charges.measure() runs it and reads what the host loses meanwhile, and whether the host has it back at the end. The row
says what holds the loss down under cgroup v1, under cgroup v2 and under `watch`, the driver of an ordinary user without
cgroups; test_charges.py walks the rows, and tests/vm/checks.py some of them in a guest with cgroup v2.

    python3 tests/probe/table_charges.py    prints the table as SECURITY.md has it
"""

from charges import DRIVERS, FILES, LIMIT_MB, MARGIN_MB, Row

# A broker that allows a host makes a network namespace with loopback; nothing is sent to the host.
NETWORK = ("--network", "on", "--allow-host", "host.invalid")

# Locks are slow to make: far more than are allowed, and far less than the memory limit.
LOCKS_MB = 16
CHARGED = "charged"
COUNTED = "counted"
REFUSED = "refused"
DESCRIPTORS = "descriptors × processes"
PAGES = "pages slab"


def unix_buffers(kind, size):
    return f"""
def make(n):
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_{kind})
    for end in pair:
        fill(enlarge(end).fileno(), bytes({size}))
    return pair
fleet(lambda i: grow(make), 12)
"""


def each_process(make, fleet=24):
    return f"""
def make(n):
{make}
fleet(lambda i: grow(make), {fleet})
"""


ROWS = [
    # --- locks ---
    Row(
        "POSIX record locks",
        "slab",
        """
def work(i):
    held = [scratch(f"{i}.{k}") for k in range(200)]
    return grow(lambda n: fcntl.fcntl(held[n % 200], fcntl.F_SETLK,
                                      struct.pack("hhqqi4x", 1, 0, 2**40 - 2 * n, 1, 0)) and None)
fleet(work, 3)
""",
        COUNTED,
        COUNTED,
        COUNTED,
        most_mb=dict.fromkeys(DRIVERS, LOCKS_MB - MARGIN_MB),
    ),
    Row(
        "OFD record locks",
        "slab",
        """
def work(i):
    held = [scratch(f"{i}.{k}") for k in range(200)]
    return grow(lambda n: fcntl.fcntl(held[n % 200], 37,
                                      struct.pack("hhqqi4x", 1, 0, 2**40 - 2 * n, 1, 0)) and None)
fleet(work, 3)
""",
        REFUSED,
        REFUSED,
        REFUSED,
        most_mb=dict.fromkeys(DRIVERS, LOCKS_MB - MARGIN_MB),
    ),
    Row(
        "flock locks",
        "slab",
        each_process("    fd = scratch('x'); fcntl.flock(fd, fcntl.LOCK_SH); return fd"),
        "counted; one for each descriptor",
        "counted; one for each descriptor",
        "counted; one for each descriptor",
    ),
    # --- sockets ---
    *(
        Row(f"AF_UNIX {kind.lower()}, {text}", PAGES, unix_buffers(kind, size), CHARGED, CHARGED, COUNTED)
        for kind in ("STREAM", "DGRAM", "SEQPACKET")
        for size, text in ((1, "messages of 1 byte"), (65536, "of 64 KiB"))
    ),
    Row(
        "AF_UNIX connections not accepted",
        "slab",
        """
def work(i):
    def make(n):
        name = f"\\0{i}.{n}"
        server = socket.socket(socket.AF_UNIX)
        server.bind(name)
        server.listen(1 << 20)
        try:
            while time.monotonic() < END:
                with socket.socket(socket.AF_UNIX) as client:
                    client.setblocking(False)
                    client.connect(name)
        except BlockingIOError:
            pass
        return server
    return grow(make)
fleet(work, 2)
""",
        "charged, but for a message of 830 bytes that the kernel makes for each: at most as much again",
        "as v1",
        COUNTED,
        most_mb={"v1": 2 * LIMIT_MB, "v2": 2 * LIMIT_MB},
    ),
    Row(
        "descriptors in flight",
        "slab",
        each_process(
            "    a, b = socket.socketpair(); a.setblocking(False)\n"
            "    socket.send_fds(a, [b'x'], [a.fileno(), b.fileno()] * 100)"
        ),
        "as many as one process may open, for each user: a box",
        "as v1",
        "as many as one process may open, for all boxes of the user",
    ),
    Row(
        "TCP buffers",
        "tcp slab",
        """
def work(i):
    server = socket.create_server(("127.0.0.1", 0), backlog=1000)
    def make(n):
        a = socket.create_connection(server.getsockname())
        b = server.accept()[0]
        for end in a, b:
            fill(enlarge(end).fileno(), bytes(65536))
        return a, b
    return grow(make)
fleet(work, 12)
""",
        COUNTED,
        CHARGED,
        COUNTED,
        NETWORK,
    ),
    Row(
        "UDP buffers",
        "slab",
        each_process(
            "    a = enlarge(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)); a.bind(('127.0.0.1', 0))\n"
            "    a.connect(a.getsockname())\n"
            "    for k in range(8000): a.send(b'x')\n"
            "    return a",
            12,
        ),
        COUNTED,
        CHARGED,
        COUNTED,
        NETWORK,
    ),
    Row(
        "TCP connections not accepted",
        "slab",
        """
def work(i):
    def make(n):
        server = socket.create_server((f"127.0.{i}.{n % 250 + 1}", 0), backlog=1 << 20)
        for k in range(4000):
            if time.monotonic() > END: break
            with socket.socket() as client:
                client.setblocking(False)
                client.connect_ex(server.getsockname())
        return server
    return grow(make)
fleet(work, 3)
""",
        COUNTED,
        "counted: the kernel makes them in an interrupt, and charges them when they are accepted",
        COUNTED,
        NETWORK,
    ),
    Row(
        "TCP connections not accepted, with data",
        "tcp slab",
        """
def work(i):
    def make(n):
        server = socket.create_server((f"127.0.{i}.{n % 250 + 1}", 0), backlog=1 << 20)
        for k in range(1000):
            if time.monotonic() > END: break
            with socket.socket() as client:
                client.setblocking(False)
                client.connect_ex(server.getsockname())
                try: fill(client.fileno(), bytes(65536))
                except OSError: pass
        return server
    return grow(make)
fleet(work, 3)
""",
        COUNTED,
        "counted, as those without",
        COUNTED,
        NETWORK,
    ),
    Row(
        "TCP connections in TIME_WAIT",
        "slab",
        """
def work(i):
    server = socket.create_server(("0.0.0.0", 0), backlog=1000)
    port = server.getsockname()[1]
    def make(n):
        with socket.create_connection((f"127.{i}.{n // 20000 + 1}.9", port)): server.accept()[0].close()
    return grow(make, 4000)
fleet(work, 2)
""",
        "tcp_max_tw_buckets of the namespace, some 300 bytes each",
        "as v1",
        "as v1",
        NETWORK,
    ),
    Row(
        "bound ports",
        "slab",
        "fleet(lambda i: grow(lambda n: socket.create_server((f'127.0.{i}.{n % 250 + 1}', 0))))",
        f"{DESCRIPTORS}, some 250 bytes each",
        "as v1",
        "as v1",
        NETWORK,
    ),
    # --- descriptors ---
    Row(
        "pipes",
        PAGES,
        each_process("    r, w = os.pipe(); os.set_blocking(w, False); fill(w, bytes(65536))"),
        CHARGED,
        CHARGED,
        "counted by descriptor; the rest is the user's pipe-user-pages-soft, 64 MB",
        most_mb={"watch": 2 * LIMIT_MB},
    ),
    Row(
        "pipes that F_SETPIPE_SZ has enlarged",
        PAGES,
        each_process(
            "    r, w = os.pipe(); os.set_blocking(w, False)\n"
            "    try: fcntl.fcntl(w, 1031, 1 << 20)\n"
            "    except OSError: pass\n"
            "    fill(w, bytes(65536))"
        ),
        CHARGED,
        CHARGED,
        "as pipes",
        most_mb={"watch": 2 * LIMIT_MB},
    ),
    Row(
        "FIFOs",
        PAGES,
        "fleet(lambda i: grow(lambda n: (os.mkfifo(f'/tmp/{i}.{n}'), "
        "fill(scratch(f'{i}.{n}', os.O_RDWR | os.O_NONBLOCK), bytes(65536)))))",
        CHARGED,
        CHARGED,
        "as pipes",
        most_mb={"watch": 2 * LIMIT_MB},
    ),
    Row(
        "epoll watches",
        "slab",
        """
targets = [os.eventfd(0) for _ in range(120)]
def make(n):
    watcher = select.epoll()
    for target in targets: watcher.register(target, 1)
    return watcher
fleet(lambda i: grow(make), 30)
""",
        CHARGED,
        CHARGED,
        "max_user_watches of the user; descriptors squared × processes, some 200 bytes each",
        most_mb={"watch": 30 * 130 * 120 * 250 >> 20},
    ),
    Row(
        "eventfds, timerfds, signalfds, epolls",
        "slab",
        """
mask = (ctypes.c_ulong * 16)(1 << 30)
kinds = (lambda: os.eventfd(0), lambda: ok(libc.timerfd_create(1, 0)),
         lambda: ok(libc.signalfd(-1, mask, 0)), select.epoll)
fleet(lambda i: grow(lambda n: kinds[n % 4]()), 30)
""",
        f"charged, but for some 300 bytes each: {DESCRIPTORS}",
        "as v1",
        "counted by descriptor",
    ),
    Row(
        "pidfds of processes that ended",
        "slab",
        each_process(
            "    pid = os.fork()\n"
            "    if pid == 0: os._exit(0)\n"
            "    fd = os.pidfd_open(pid); os.waitpid(pid, 0); return fd",
            4,
        ),
        CHARGED,
        CHARGED,
        "counted by descriptor",
    ),
    Row(
        "descriptors that send signals (O_ASYNC)",
        "slab",
        each_process(
            "    a, b = socket.socketpair()\n"
            "    for end in a, b: fcntl.fcntl(end, fcntl.F_SETFL, 0o20000)\n"
            "    return a, b"
        ),
        CHARGED,
        CHARGED,
        "counted by descriptor",
    ),
    Row(
        "buffers of files of /proc",
        "slab",
        """
# A path of newlines, which /proc/self/maps writes with four characters each, makes them large.
os.chdir("/tmp")
for _ in range(15):
    os.mkdir("\\n" * 250)
    os.chdir("\\n" * 250)
mapped = os.open("x", os.O_RDWR | os.O_CREAT)
os.ftruncate(mapped, 4096)
kept = mmap.mmap(mapped, 4096)
def make(n):
    fd = os.open("/proc/self/maps", os.O_RDONLY)
    while os.read(fd, 1 << 20): pass
    return fd
fleet(lambda i: grow(make), 30)
""",
        CHARGED,
        CHARGED,
        f"{DESCRIPTORS}, 8 KB of at most 32 KB counted",
        most_mb={"watch": 31 * FILES * 32 >> 10},
    ),
    Row(
        "tables of poll()",
        PAGES,
        """
descriptors = [os.eventfd(0) for _ in range(200)]
def wait():
    poll = select.poll()
    for fd in descriptors: poll.register(fd, 1)
    poll.poll(100000)
_thread.stack_size(65536)
grow(lambda n: _thread.start_new_thread(wait, ()), 55)
""",
        f"{DESCRIPTORS}, 64 bytes each",
        "as v1",
        "as v1",
    ),
    # --- signals and time ---
    Row(
        "POSIX timers",
        "slab",
        each_process("    ok(libc.timer_create(1, (ctypes.c_int * 16)(0, 0, 34, 0), (ctypes.c_void_p * 1)()))"),
        "charged; RLIMIT_SIGPENDING, 1024 for a box",
        "as v1",
        "RLIMIT_SIGPENDING, 1024 for a box",
    ),
    Row(
        "queued signals",
        "slab",
        """
def work(i):
    signal.pthread_sigmask(signal.SIG_BLOCK, range(34, 60))
    return grow(lambda n: ok(libc.sigqueue(os.getpid(), 34 + n % 20, ctypes.c_void_p(0))))
fleet(work)
""",
        "charged; RLIMIT_SIGPENDING, 1024 for a box",
        "as v1",
        "RLIMIT_SIGPENDING, 1024 for a box",
    ),
    # --- memory ---
    Row(
        "memfds, written and not mapped",
        "shmem",
        each_process("    fd = os.memfd_create('x')\n    for k in range(100): os.write(fd, bytes(1 << 20))", 3),
        CHARGED,
        CHARGED,
        REFUSED,
    ),
    Row(
        "memfds, mapped and closed",
        "slab",
        each_process(
            "    fd = os.memfd_create('x' * 200); ok(libc.mmap(None, 4096, 3, 1, fd, 0)); os.close(fd)"
        ),
        CHARGED,
        CHARGED,
        REFUSED,
    ),
    Row(
        "shared memory without a name, dropped from the page tables",
        "shmem",
        """
def make(n):
    size = 8 << 20
    at = ok(libc.mmap(None, size, 3, 0x21, -1, 0))
    for place in range(at, at + size, 1 << 19):
        ctypes.memset(place, 1, 1 << 19)
        libc.madvise(place, 1 << 19, 4)
fleet(lambda i: grow(make), 8)
""",
        CHARGED,
        CHARGED,
        "counted: what the host's shared memory grows by while the box runs",
    ),
    Row(
        "shared memory without a name, never touched",
        "slab",
        each_process("    ok(libc.mmap(None, 4096, 3, 0x21, -1, 0))"),
        CHARGED,
        CHARGED,
        COUNTED,
    ),
    Row(
        "mappings",
        "slab",
        """
def work(i):
    at = ok(libc.mmap(None, 1 << 28, 0, 0x4022, -1, 0))
    return grow(lambda n: ok(libc.mprotect(at + 8192 * n, 4096, 1)))
fleet(work)
""",
        CHARGED,
        CHARGED,
        "counted; they are made as fast as the sampler reads them: up to three times the limit on a busy machine",
        most_mb={"watch": 3 * LIMIT_MB},
    ),
    Row(
        "page tables",
        "tables",
        """
def work(i):
    size = 1 << 38
    while libc.mmap(None, size, 0, 0x4022, -1, 0) == 2**64 - 1: size >>= 1
    at = ok(libc.mmap(None, size >> 1, 1, 0x4022, -1, 0))
    libc.madvise(at, size >> 1, 15)
    return grow(lambda n: ctypes.string_at(at + (n << 21), 1) and None, size >> 22)
fleet(work)
""",
        CHARGED,
        CHARGED,
        "counted; RLIMIT_AS",
    ),
    Row(
        "huge pages",
        "huge",
        """
kinds = (lambda: ok(libc.mmap(None, 2 << 20, 3, 0x40022, -1, 0)),
         lambda: ok(libc.mmap(None, 2 << 20, 3, 1, os.memfd_create("x", 4), 0)))
for kind in kinds: grow(lambda n: ctypes.memset(kind(), 1, 1) and None)
""",
        REFUSED,
        REFUSED,
        REFUSED,
        most_mb=dict.fromkeys(DRIVERS, -MARGIN_MB),
    ),
    # --- processes ---
    Row(
        "processes and threads",
        "slab stacks tables",
        """
_thread.stack_size(32768)
fleet(lambda i: time.sleep(0) if i else grow(lambda n: _thread.start_new_thread(time.sleep, (100,)), 20), 40)
""",
        "charged; pids.max",
        "charged; pids.max",
        "counted; RLIMIT_NPROC",
    ),
    Row(
        "sessions (a scheduler group each)",
        "slab percpu",
        "fleet(lambda i: os.setsid() if i else None, 60)",
        "processes, some 2 KB each for each processor",
        "as v1",
        "as v1",
    ),
    Row(
        "arguments and environments of programs",
        "anon",
        """
def work(i):
    if i:
        os.write(done_write, b"x")
        os.execve("/usr/bin/sleep", ["sleep", "100"], {str(k): "x" * 130000 for k in range(15)})
fleet(work, 60)
""",
        CHARGED,
        CHARGED,
        COUNTED,
    ),
    # --- files ---
    Row(
        "files in scratch",
        "shmem",
        "grow(lambda n: [os.write(scratch(str(n % 200)), bytes(1 << 20)) for n in range(n, n + 10)])",
        CHARGED,
        CHARGED,
        COUNTED,
    ),
    Row(
        "files in scratch with holes",
        "shmem slab",
        "grow(lambda n: [os.pwrite(scratch(str(n)), b'x', k << 20) for k in range(64)])",
        CHARGED,
        CHARGED,
        "counted, but for an index of some 600 bytes for each page",
    ),
    Row(
        "names in scratch: files, folders, links",
        "slab rslab shmem",
        """
kinds = (lambda name: os.mknod(name), os.mkdir, lambda name: os.link("/tmp/x", name),
         lambda name: os.symlink("x" * 120, name), lambda name: os.symlink("x" * 4000, name))
os.mknod("/tmp/x")
grow(lambda n: kinds[n % 5](f"/tmp/{n}{LONG}"))
""",
        "charged; --inodes",
        "charged; --inodes",
        "counted; --inodes",
    ),
    Row(
        "names that scratch does not have",
        "slab rslab",
        "fleet(lambda i: grow(lambda n: os.path.exists(f'/tmp/{i}.{n}{LONG}') and None, 60000), 3)",
        "not kept: a tmpfs forgets them",
        "as v1",
        "as v1",
    ),
    Row(
        "names that the read-only tree does not have",
        "slab rslab",
        "fleet(lambda i: grow(lambda n: os.path.exists(f'/usr/lib/{i}.{n}{LONG}') and None, 60000), 3)",
        "charged; what stays after the box, the host takes back when it needs memory",
        "as v1",
        "the host takes them back when it needs memory; a box cannot hold them",
        watch_figures="slab",
    ),
    # --- what is not there ---
    Row(
        "System V and POSIX message objects, keys, inotify, aio, io_uring, attributes, ACLs",
        "slab",
        """
calls = {
    "shmget": (0, 4096, 0o1600), "semget": (0, 8, 0o1600), "msgget": (0, 0o1600), "inotify_init1": (0,),
    "mq_open": (b"/x", 0o102, 0o600, None), "fanotify_init": (0, 0),
    "setxattr": (b"/tmp", b"user.x", b"x", 1, 0), "add_key": (b"user", b"x", b"x", 1, -2),
    425: (8, (ctypes.c_char * 200)()), 434: (os.getpid(), 1 << 20), 447: (0,), 444: (None, 0, 1),
}
for name, arguments in calls.items():
    if isinstance(name, str) and not hasattr(libc, name):
        continue
    call = getattr(libc, name) if isinstance(name, str) else lambda *a: libc.syscall(name, *a)
    assert call(*arguments) == -1, name
""",
        REFUSED,
        REFUSED,
        REFUSED,
    ),
]


def print_markdown():
    print("| object | cgroup v1 | cgroup v2 | `watch` |\n|---|---|---|---|")
    for row in ROWS:
        print(f"| {row.name} | {row.v1} | {row.v2} | {row.watch} |")


if __name__ == "__main__":
    print_markdown()
