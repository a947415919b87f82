# SPDX-License-Identifier: Apache-2.0
"""Probe table, part four: /proc, /sys, /dev, the read-only tree, scratch and descriptors.

Data only; harness.py runs it. Probes that walk a tree take it from PARAMS: the whole tree of the box
inside, a temporary folder outside, so that nothing on the host is touched.
"""

from harness import DIFFERENT, Probe

HIDDEN = ("ENOENT", "EACCES", "EPERM", "ESRCH")
READ_ONLY = ("EROFS", "EACCES", "EPERM")
GONE_OR_READ_ONLY = ("ENOENT", *READ_ONLY)

PROC_ENTRIES = (
    "acpi buddyinfo bus cgroups cmdline config.gz consoles crypto devices diskstats dma driver "
    "execdomains filesystems fs interrupts iomem ioports irq kallsyms kcore key-users keys kmsg "
    "kpagecgroup kpagecount kpageflags latency_stats locks misc modules mtrr pagetypeinfo partitions "
    "pressure sched_debug schedstat scsi slabinfo softirqs swaps sys sysrq-trigger sysvipc timer_list "
    "tty version version_signature vmallocinfo vmstat zoneinfo"
).split()

SYS_PATHS = (
    "/sys /sys/fs/cgroup /sys/kernel/security /sys/kernel/debug /sys/firmware /sys/class/thermal "
    "/sys/class/powercap /sys/devices /sys/module /sys/block /sys/class/net"
).split()

HOST_PATHS = "/root /home /var /boot /srv /run /media /lost+found /etc/shadow /etc/ssh /etc/machine-id".split()

# The parent of the code: the box's init inside, the harness outside.
INIT = "init = '/proc/%d/' % (1 if PARAMS['side'] == 'inside' else os.getppid())\n"


def name_of(path):
    return path.strip("/").replace("/", "_").replace(".", "_").replace("-", "_").replace("+", "_")


def proc():
    for entry in ("environ", "root", "cwd", "exe", "fd", "fdinfo", "maps", "mem", "auxv", "io", "ns", "map_files"):
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
        yield Probe(40, "proc_" + name_of(entry), f"os.lstat('/proc/{entry}'); return 'there'", HIDDEN, "there")
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
            f"data = open('/proc/self/{entry}', 'rb').read(64)\nreturn 'ok' if data.strip(b'\\0') else 'empty'",
            (*HIDDEN, "empty", "ok", "EINVAL"),
            why="about the process itself; recorded to see a change",
            recorded=True,
        )


def sys_and_dev():
    for path in SYS_PATHS:
        yield Probe(42, name_of(path), f"os.lstat({path!r}); return 'there'", ("ENOENT", "EACCES"), "there")
    yield Probe(
        43,
        "dev_entries",
        "return sorted(os.listdir('/dev'))",
        lambda names: set(names)
        <= set("null zero full random urandom fd stdin stdout stderr shm".split())
        and {"null", "zero", "urandom", "shm"} <= set(names),
        lambda names: "kmsg" in names or "ptmx" in names,
    )
    for path in ("/dev/tty", "/dev/ptmx", "/dev/console", "/dev/mem", "/dev/kmsg", "/dev/fuse", "/dev/kvm", "/dev/net/tun"):
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
            f"os.mknod('node-{name}', stat.{kind} | 0o600, {number}); os.unlink('node-{name}'); return 'ok'",
            ("EPERM", "EACCES"),
            "ok",
            "root",
        )
    yield Probe(43, "mkfifo_works", "os.mkfifo('fifo'); return stat.S_ISFIFO(os.stat('fifo').st_mode)", True, True)
    yield Probe(43, "dev_null_works", "return open('/dev/null', 'wb', 0).write(b'x')", 1, 1)
    yield Probe(43, "dev_zero_works", "return open('/dev/zero', 'rb').read(3) == bytes(3)", True, True)
    yield Probe(43, "dev_full_works", "open('/dev/full', 'wb', 0).write(b'x')", "ENOSPC", "ENOSPC")
    yield Probe(43, "no_terminal", "return [os.isatty(fd) for fd in (0, 1, 2)]", [False] * 3, why="depends on the caller")
    yield Probe(43, "own_session", "return PARAMS['start']['sid'] != 0", True, why="always so outside")


def tree():
    yield Probe(
        29,
        "path_sockets",
        "return [p for p, i in walk(PARAMS['tree']) if stat.S_ISSOCK(i.st_mode)]",
        lambda paths: not [p for p in paths if not p.startswith(("/mnt/data/", "/tmp/"))],
        why="a host may have none",
    )
    yield Probe(
        44,
        "remount",
        "answers = set()\n"
        "for line in open('/proc/self/mountinfo'):\n"
        "    place = at(4096, line.split()[4].encode())\n"
        "    for flags in (0x20, 0x1020): answers.add(sc('mount', 0, place, 0, flags, 0))\n"
        "return sorted(answers)",
        ["EPERM"],
        why="would remount the host",
    )
    yield Probe(
        45,
        "setuid_files_are_harmless",
        "return [p for p, i in walk(PARAMS['tree']) if stat.S_ISREG(i.st_mode) and i.st_mode & 0o6000"
        " and not os.statvfs(p).f_flag & os.ST_NOSUID]",
        [],
        why="a property of the mounts; the posture test sees the flags from the host",
    )
    yield Probe(
        45,
        "setuid_bit_on_own_file",
        "import shutil\nshutil.copy('/usr/bin/id', 'id'); os.chmod('id', 0o6755)\n"
        "return bool(os.statvfs('id').f_flag & os.ST_NOSUID)",
        True,
        why="a property of the mounts",
    )
    yield Probe(
        46,
        "filecaps",
        "found = []\n"
        "for p, i in walk(PARAMS['tree']):\n"
        "    if stat.S_ISREG(i.st_mode) and i.st_mode & 0o111:\n"
        "        try: os.getxattr(p, 'security.capability')\n"
        "        except OSError: continue\n"
        "        if not os.statvfs(p).f_flag & os.ST_NOSUID: found.append(p)\n"
        "return found",
        [],
        why="a host may have none",
    )
    yield Probe(
        48,
        "ro_tree",
        "found = []\n"
        "for p, i in walk(PARAMS['tree'], ('/proc',)):\n"
        "    if not stat.S_ISDIR(i.st_mode): continue\n"
        "    name = p.rstrip('/') + '/probe-entry'\n"
        "    for act in (lambda: os.close(os.open(name, os.O_CREAT | os.O_EXCL, 0o600)), lambda: os.mkdir(name),\n"
        "                lambda: os.symlink('x', name)):\n"
        "        try: act()\n"
        "        except OSError: continue\n"
        "        found.append(p)\n"
        "        try: os.unlink(name)\n"
        "        except OSError: os.rmdir(name)\n"
        "return sorted({p for p in found if not any((p + '/').startswith(s + '/') for s in PARAMS['scratch'])})"
        " if PARAMS['side'] == 'inside' else len(found)",
        [],
        lambda count: count >= 3,
    )
    yield Probe(
        48,
        "ro_files",
        "found = []\n"
        "if PARAMS['side'] == 'outside': open('mine', 'w').close()\n"
        "for p, i in walk(PARAMS['tree'], ('/proc', '/dev')):\n"
        "    if any((p + '/').startswith(s + '/') for s in PARAMS['scratch']) and PARAMS['side'] == 'inside': continue\n"
        "    if not stat.S_ISREG(i.st_mode): continue\n"
        "    if PARAMS['side'] == 'inside' and i.st_ino % 8: continue\n"
        "    for act in (lambda: os.close(os.open(p, os.O_WRONLY)), lambda: os.chmod(p, i.st_mode & 0o7777),\n"
        "                lambda: os.utime(p, ns=(i.st_atime_ns, i.st_mtime_ns))):\n"
        "        try: act()\n"
        "        except OSError: continue\n"
        "        found.append(p); break\n"
        "return len(found)",
        0,
        lambda count: count >= 1,
    )
    yield Probe(
        48,
        "unlink_tree_file",
        "path = os.__file__\nif PARAMS['side'] == 'outside': path = 'u'; open(path, 'w').close()\n"
        "os.unlink(path); return 'ok'",
        READ_ONLY,
        "ok",
    )
    yield Probe(
        48,
        "rename_tree_file",
        "path = os.__file__\nif PARAMS['side'] == 'outside': path = 'u'; open(path, 'w').close()\n"
        "os.rename(path, path + '.old'); return 'ok'",
        READ_ONLY,
        "ok",
    )
    yield Probe(
        48,
        "reopen_for_writing",
        "path = os.__file__\nif PARAMS['side'] == 'outside': path = 'u'; open(path, 'w').close()\n"
        "fd = os.open(path, os.O_RDONLY)\nreturn open_only('/proc/self/fd/%d' % fd)",
        READ_ONLY,
        "ok",
    )
    yield Probe(
        48,
        "own_interpreter_for_writing",
        "return open_only('/proc/self/exe')",
        READ_ONLY,
        ("ETXTBSY", "ok"),
        "root",
    )
    yield Probe(
        48,
        "shared_mapping_of_tree_file",
        "import mmap\npath = os.__file__\nif PARAMS['side'] == 'outside': path = 'u'; open(path, 'w').write('xx')\n"
        "fd = os.open(path, os.O_RDWR); mmap.mmap(fd, 1); return 'ok'",
        READ_ONLY,
        "ok",
    )
    yield Probe(
        48,
        "hardlink_tree_file",
        "path = os.__file__\nif PARAMS['side'] == 'outside': path = 'u'; open(path, 'w').close()\n"
        "os.link(path, 'linked'); return 'ok'",
        ("EXDEV", *READ_ONLY),
        "ok",
    )
    yield Probe(
        48,
        "own_memory_on_read_only_pages",
        "code = machine_code(b'\\xc3'); LIBC.mprotect(ctypes.c_void_p(code), 4096, 5)\n"
        "fd = os.open('/proc/self/mem', os.O_RDWR); os.pwrite(fd, b'\\x90', code); return 'ok'",
        ("ok", *READ_ONLY, "EIO"),
        ("ok", "EIO"),
        why="a process may write its own private pages; it changes no file",
        recorded=True,
    )


def paths():
    for path in HOST_PATHS:
        yield Probe(
            42,
            "absent_" + name_of(path),
            f"return readable({path!r})",
            ("ENOENT", "EACCES", "empty"),
            why="what is there depends on the host",
        )
    yield Probe(42, "host_file", "return readable(PARAMS['secret_path'])", ("ENOENT", "EACCES"), "ok")
    for name, path in (
        ("through_proc_root", "'/proc/self/root' + PARAMS['secret_path']"),
        ("through_dots", "'/' + '../' * 40 + PARAMS['secret_path']"),
        ("through_cwd", "'/proc/self/cwd/' + '../' * 40 + PARAMS['secret_path']"),
    ):
        yield Probe(42, f"host_file_{name}", f"return readable({path})", ("ENOENT", "EACCES"), "ok")
    yield Probe(
        42,
        "host_file_by_symlink",
        "os.symlink(PARAMS['secret_path'], 'way')\nreturn open('way').read()",
        ("ENOENT", "EACCES", "ELOOP"),
        "a file of the host\n",
    )
    yield Probe(
        42,
        "root_has_no_parent",
        "return os.stat('/').st_ino == os.stat('/..').st_ino and os.stat('/').st_dev == os.stat('/..').st_dev",
        True,
        True,
    )
    yield Probe(
        42,
        "top_level",
        "return sorted(os.listdir('/'))",
        lambda names: not {"root", "home", "var", "sys", "boot", "srv", "media", "work"} & set(names),
        lambda names: "sys" in names,
    )
    yield Probe(
        42,
        "host_name",
        "return os.uname().nodename",
        "box",
        DIFFERENT,
    )
    yield Probe(
        42,
        "accounts",
        "import pwd\nreturn sorted(p.pw_name for p in pwd.getpwall())",
        lambda names: "user" in names and len(names) <= 4,
        lambda names: len(names) > 4,
    )
    yield Probe(42, "place", "return [PARAMS['start']['cwd'], os.environ.get('HOME')]", ["/mnt/data"] * 2, DIFFERENT)
    yield Probe(
        95,
        "cgroupfs",
        "return [p for p, i in walk(PARAMS['tree'])"
        " if os.path.basename(p) in ('cgroup.procs', 'release_agent', 'notify_on_release', 'cgroup.kill')]",
        [],
        why="the mount calls are rows 6 and 7",
    )


def descriptors():
    yield Probe(65, "fds_at_start", "return sorted(PARAMS['start']['fds'])", ["0", "1", "2"], why="depends on the caller")
    yield Probe(
        65,
        "dup_above_2",
        "return [fd for fd in range(3, 1024) if sc('fcntl', fd, 1) != 'EBADF']",
        lambda fds: len(fds) <= 2,
        why="the harness's own pipe is open; fds_at_start is exact",
    )
    yield Probe(
        66,
        "fd_kinds",
        "return [PARAMS['start']['fds'][n] for n in '012']",
        ["device 1:3", "fifo", "fifo"],
        why="depends on the caller",
    )
    yield Probe(66, "stdin_is_empty", "return os.read(0, 1) == b''", True, why="depends on the caller")
    yield Probe(
        66,
        "output_cannot_be_read_back",
        "return open_only('/proc/self/fd/1', os.O_RDONLY)",
        ("ok", *READ_ONLY, "ENXIO"),
        why="a pipe reopens for reading: code may eat its own output, nobody else's",
        recorded=True,
    )
    yield Probe(
        66,
        "signals_at_start",
        "s = PARAMS['start']['status']\n"
        "return [int(s['SigBlk'], 16), int(s['SigIgn'], 16) & ~((1 << 12) | (1 << 24))]",
        [0, 0],
        [0, 0],
    )


def residuals():
    for name, do, inside, why in (
        (
            "lock_on_a_tree_file",
            "import fcntl\nfd = os.open(os.__file__, os.O_RDONLY)\n"
            "fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB); return 'ok'",
            ("ok", "EPERM", "EACCES", "EBADF"),
            "two boxes see each other's locks on a shared inode: a slow channel",
        ),
        (
            "watch_on_a_tree_file",
            "fd, _ = raw('inotify_init1', 0)\n"
            "return sc('inotify_add_watch', fd, at(4096, os.__file__.encode()), 0x20)",
            ("ok", "EPERM", "EACCES", "ENOSYS"),
            "two boxes see each other open a shared file: a slow channel",
        ),
    ):
        yield Probe(93, name, do, inside, "ok", why=why, recorded=True)
    yield Probe(
        94,
        "mincore_on_a_tree_file",
        "import mmap\nfd = os.open(os.__file__, os.O_RDONLY)\nm = mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ)\n"
        "a = LIBC.mmap(None, 4096, 1, 1, fd, 0)\nreturn sc('mincore', a, 4096, at(16))",
        ("ok", "EPERM", "ENOSYS"),
        "ok",
        why="the page cache of shared files can be timed in any case",
        recorded=True,
    )
    yield Probe(
        98,
        "clock_resolution",
        "return time.get_clock_info('perf_counter').resolution <= 1e-6",
        (True, False),
        True,
        why="timers of full resolution; hosts can turn off SMT and KSM",
        recorded=True,
    )


PROBES = (
    *proc(),
    *sys_and_dev(),
    *tree(),
    *paths(),
    *descriptors(),
    *residuals(),
)
