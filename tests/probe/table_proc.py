# SPDX-License-Identifier: Apache-2.0
"""Probe table, part four: /proc, /sys and /dev.

Data only; harness.py runs it. Files that steer the host are opened for writing, never written.
"""

from harness import DIFFERENT, Probe

HIDDEN = ("ENOENT", "EACCES", "EPERM", "ESRCH")
GONE_OR_READ_ONLY = ("ENOENT", "EROFS", "EACCES", "EPERM")

PROC_ENTRIES = (
    "acpi buddyinfo bus cgroups cmdline config.gz consoles crypto devices diskstats dma driver"
    " execdomains filesystems fs interrupts iomem ioports irq kallsyms kcore key-users keys kmsg"
    " kpagecgroup kpagecount kpageflags latency_stats locks misc modules mtrr pagetypeinfo"
    " partitions pressure sched_debug schedstat scsi slabinfo softirqs swaps sys sysrq-trigger"
    " sysvipc timer_list tty version version_signature vmallocinfo vmstat zoneinfo"
).split()

SYS_PATHS = (
    "/sys /sys/fs/cgroup /sys/kernel/security /sys/kernel/debug /sys/firmware /sys/class/thermal "
    "/sys/class/powercap /sys/devices /sys/module /sys/block /sys/class/net"
).split()

# The parent of the code: the box's init inside, the harness outside.
INIT = "init = '/proc/%d/' % (1 if PARAMS['side'] == 'inside' else os.getppid())\n"


def name_of(path):
    return path.strip("/").replace("/", "_").replace(".", "_").replace("-", "_").replace("+", "_")


def proc():
    for entry in (
        "environ",
        "root",
        "cwd",
        "exe",
        "fd",
        "fdinfo",
        "maps",
        "mem",
        "auxv",
        "io",
        "ns",
        "map_files",
    ):
        users = "root" if entry == "map_files" else "any"
        yield Probe(
            35,
            f"proc_init_{entry}",
            INIT + f"return readable(init + '{entry}')",
            (*HIDDEN, "empty"),
            DIFFERENT,
            users,
        )
    yield Probe(
        35,
        "proc_init_root_escape",
        INIT + "return sorted(os.listdir(init + 'root/'))[:5]",
        HIDDEN,
        lambda names: isinstance(names, list),
    )
    yield Probe(
        38,
        "proc_names",
        "return [n for n in sorted(os.listdir('/proc')) if not n.isdigit()]",
        lambda names: set(names) <= {"self", "thread-self", "mounts", "net"},
        lambda names: "meminfo" in names,
    )
    # Opened for writing only; nothing is written.
    for path, users in (
        ("/proc/sys/kernel/core_pattern", "root"),
        ("/proc/sys/kernel/modprobe", "root"),
        ("/proc/sys/kernel/hostname", "root"),
        ("/proc/sys/vm/overcommit_memory", "root"),
        ("/proc/sys/vm/drop_caches", "root"),
        ("/proc/sys/fs/binfmt_misc/register", "root"),
        ("/proc/sys/user/max_user_namespaces", "resource"),
        ("/proc/sysrq-trigger", "root"),
        ("/proc/irq/default_smp_affinity", "root"),
    ):
        do = f"return open_only({path!r})"
        yield Probe(39, "open_" + name_of(path), do, GONE_OR_READ_ONLY, "ok", users)
    for entry, data, outside, users in (
        ("oom_score_adj", "-1000", "ok", "resource"),
        ("oom_adj", "-17", "ok", "resource"),
        ("uid_map", "0 0 1", None, "any"),
        ("gid_map", "0 0 1", None, "any"),
        ("projid_map", "0 0 1", None, "any"),
        ("setgroups", "allow", None, "any"),
        ("attr/current", "unconfined", None, "any"),
        ("attr/exec", "exec unconfined", None, "any"),
        ("timerslack_ns", "1", None, "any"),
        ("coredump_filter", "0x7f", None, "any"),
        ("loginuid", "0", None, "any"),
        ("clear_refs", "1", None, "any"),
        ("autogroup", "-5", None, "any"),
    ):
        # Own settings that widen nothing may stay writable.
        harmless = ("ok",) if entry in ("timerslack_ns", "coredump_filter", "clear_refs") else ()
        yield Probe(
            39,
            "write_self_" + name_of(entry),
            f"fd = os.open('/proc/self/{entry}', os.O_WRONLY)\n"
            f"os.write(fd, {data.encode()!r}); return 'ok'",
            (*GONE_OR_READ_ONLY, "EINVAL", "ENXIO", *harmless),
            outside,
            users,
            "the kernel's own rules may refuse it outside too",
        )
    for entry in PROC_ENTRIES:
        yield Probe(
            40,
            "proc_" + name_of(entry),
            f"os.lstat('/proc/{entry}'); return 'there'",
            HIDDEN,
            "there",
        )
    for entry in ("cpuinfo", "meminfo", "stat", "loadavg", "uptime"):
        yield Probe(
            41,
            f"proc_known_{entry}",
            f"return readable('/proc/{entry}')",
            (*HIDDEN, "ok"),
            "ok",
            why="load of the host; hidden where procfs knows subset=pid, else a known residual",
            recorded=True,
        )
    yield Probe(
        41,
        "sysinfo",
        "return sc('sysinfo', at(128))",
        ("ok", "EPERM", "ENOSYS"),
        "ok",
        why="glibc and numpy ask it for memory and processors; it shows the host's totals",
        recorded=True,
    )
    yield Probe(
        35,
        "proc_self_cgroup",
        "return [l.strip() for l in open('/proc/self/cgroup') if not l.strip().endswith(':/')]",
        ([], *HIDDEN),
        why="a host process may be in the root group",
    )
    for entry in ("pagemap", "stack", "syscall", "wchan"):
        yield Probe(
            40,
            f"proc_self_{entry}",
            f"data = open('/proc/self/{entry}', 'rb').read(64)\nreturn 'ok' if data.strip(b'\\0')"
            " else 'empty'",
            (*HIDDEN, "empty", "ok", "EINVAL"),
            why="about the process itself; recorded to see a change",
            recorded=True,
        )


def sys_and_dev():
    for path in SYS_PATHS:
        yield Probe(
            42, name_of(path), f"os.lstat({path!r}); return 'there'", ("ENOENT", "EACCES"), "there"
        )
    yield Probe(
        43,
        "dev_entries",
        "return sorted(os.listdir('/dev'))",
        lambda names: set(names)
        <= set("null zero full random urandom fd stdin stdout stderr shm".split())
        and {"null", "zero", "urandom", "shm"} <= set(names),
        lambda names: "kmsg" in names or "ptmx" in names,
    )
    for path in (
        "/dev/tty",
        "/dev/ptmx",
        "/dev/console",
        "/dev/mem",
        "/dev/kmsg",
        "/dev/fuse",
        "/dev/kvm",
        "/dev/net/tun",
    ):
        outside = {"/dev/ptmx": "ok", "/dev/kmsg": "ok"}.get(path)
        users = "root" if path == "/dev/kmsg" else "any"
        yield Probe(
            43,
            "open_" + name_of(path),
            f"return open_only({path!r}, os.O_RDWR | os.O_NOCTTY)",
            ("ENOENT", "EACCES", "EPERM", "ENXIO"),
            outside,
            users,
            "not on every host",
        )
    for name, kind, number in (
        ("null", "S_IFCHR", "os.makedev(1, 3)"),
        ("mem", "S_IFCHR", "os.makedev(1, 1)"),
        ("disk", "S_IFBLK", "os.makedev(7, 0)"),
    ):
        yield Probe(
            43,
            f"mknod_{name}",
            f"os.mknod('node-{name}', stat.{kind} | 0o600, {number}); os.unlink('node-{name}');"
            " return 'ok'",
            ("EPERM", "EACCES"),
            "ok",
            "root",
        )
    yield Probe(
        43,
        "mkfifo_works",
        "os.mkfifo('fifo'); return stat.S_ISFIFO(os.stat('fifo').st_mode)",
        True,
        True,
    )
    yield Probe(43, "dev_null_works", "return open('/dev/null', 'wb', 0).write(b'x')", 1, 1)
    yield Probe(
        43, "dev_zero_works", "return open('/dev/zero', 'rb').read(3) == bytes(3)", True, True
    )
    yield Probe(43, "dev_full_works", "open('/dev/full', 'wb', 0).write(b'x')", "ENOSPC", "ENOSPC")
    yield Probe(
        43,
        "no_terminal",
        "return [os.isatty(fd) for fd in (0, 1, 2)]",
        [False] * 3,
        why="depends on the caller",
    )
    yield Probe(
        43, "own_session", "return PARAMS['start']['sid'] != 0", True, why="always so outside"
    )


PROBES = (*proc(), *sys_and_dev())
