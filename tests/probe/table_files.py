# SPDX-License-Identifier: Apache-2.0
"""Probe table, part five: the read-only tree, scratch, descriptors and known residuals.

Data only; harness.py runs it. Probes that walk a tree take it from PARAMS: the whole tree of the
box inside, a temporary folder outside, so that nothing on the host is touched.
"""

from harness import DIFFERENT, Probe
from table_proc import name_of

READ_ONLY = ("EROFS", "EACCES", "EPERM")

HOST_PATHS = (
    "/root /home /var /boot /srv /run /media /lost+found /etc/shadow /etc/ssh /etc/machine-id"
    .split()
)


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
        "return [p for p, i in walk(PARAMS['tree']) if stat.S_ISREG(i.st_mode) and i.st_mode &"
        " 0o6000 and not os.statvfs(p).f_flag & os.ST_NOSUID]",
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
        "found = []\nfor p, i in walk(PARAMS['tree'], ('/proc',)):\n    if not"
        " stat.S_ISDIR(i.st_mode): continue\n    name = p.rstrip('/') + '/probe-entry'\n    for act"
        " in (lambda: os.close(os.open(name, os.O_CREAT | os.O_EXCL, 0o600)), lambda:"
        " os.mkdir(name),\n                lambda: os.symlink('x', name)):\n        try: act()\n   "
        "     except OSError: continue\n        found.append(p)\n        try: os.unlink(name)\n    "
        "    except OSError: os.rmdir(name)\nif PARAMS['side'] == 'outside': return"
        " len(found)\nreturn sorted({p for p in found if os.stat(p).st_dev !="
        " os.stat(PARAMS['home']).st_dev})",
        [],
        lambda count: count >= 3,
    )
    yield Probe(
        48,
        "ro_files",
        "found = []\nif PARAMS['side'] == 'outside': open('mine', 'w').close()\nfor p, i in"
        " walk(PARAMS['tree'], ('/proc', '/dev')):\n    if PARAMS['side'] == 'inside' and i.st_dev"
        " == os.stat(PARAMS['home']).st_dev: continue\n    if not stat.S_ISREG(i.st_mode):"
        " continue\n    if PARAMS['side'] == 'inside' and i.st_ino % 8: continue\n    for act in"
        " (lambda: os.close(os.open(p, os.O_WRONLY)), lambda: os.chmod(p, i.st_mode & 0o7777),\n   "
        "             lambda: os.utime(p, ns=(i.st_atime_ns, i.st_mtime_ns))):\n        try:"
        " act()\n        except OSError: continue\n        found.append(p); break\nreturn"
        " len(found)",
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
        "import mmap\npath = os.__file__\nif PARAMS['side'] == 'outside': path = 'u'; open(path,"
        " 'w').write('xx')\nfd = os.open(path, os.O_RDWR); mmap.mmap(fd, 1); return 'ok'",
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
            # An interpreter may live below: then there is the way to it and nothing else.
            f"if not os.path.isdir({path!r}): return readable({path!r})\nreturn [n for n in"
            f" os.listdir({path!r}) if not sys.base_prefix.startswith({path!r} + '/' + n)]",
            ("ENOENT", "EACCES", "empty", []),
            why="what is there depends on the host",
        )
    yield Probe(
        42, "host_file", "return readable(PARAMS['secret_path'])", ("ENOENT", "EACCES"), "ok"
    )
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
        "return os.stat('/').st_ino == os.stat('/..').st_ino and os.stat('/').st_dev =="
        " os.stat('/..').st_dev",
        True,
        True,
    )
    yield Probe(
        42,
        "top_level",
        "return [n for n in os.listdir('/') if not sys.base_prefix.startswith('/' + n + '/')]",
        lambda names: not {"root", "home", "var", "sys", "boot", "srv", "media", "work"}
        & set(names),
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
    yield Probe(
        42,
        "place",
        "return [PARAMS['start']['cwd'], os.environ.get('HOME')]",
        ["/mnt/data"] * 2,
        DIFFERENT,
    )
    yield Probe(
        95,
        "cgroupfs",
        "return [p for p, i in walk(PARAMS['tree']) if os.path.basename(p) in ('cgroup.procs',"
        " 'release_agent', 'notify_on_release', 'cgroup.kill')]",
        [],
        why="the mount calls are rows 6 and 7",
    )


def descriptors():
    yield Probe(
        65,
        "fds_at_start",
        "return sorted(PARAMS['start']['fds'])",
        ["0", "1", "2"],
        why="depends on the caller",
    )
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
    yield Probe(
        66, "stdin_is_empty", "return os.read(0, 1) == b''", True, why="depends on the caller"
    )
    yield Probe(
        66,
        "output_cannot_be_read_back",
        "return open_only('/proc/self/fd/1', os.O_RDONLY)",
        ("ok", *READ_ONLY, "ENXIO"),
        why="a pipe reopens for reading: code may eat its own output, not another's",
        recorded=True,
    )
    yield Probe(
        66,
        "signals_at_start",
        "s = PARAMS['start']['status']\n"
        "return [int(s['SigBlk'], 16), int(s['SigIgn'], 16) & ~((1 << 12) | (1 << 24))]",
        [0, 0],
        None,
        why="outside it depends on the user that started the tests, and a box must not inherit that",
    )


def residuals():
    for name, do, inside, why in (
        (
            "lock_on_a_tree_file",
            (
                "import fcntl\nfd = os.open(os.__file__, os.O_RDONLY)\n"
                "fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB); return 'ok'"
            ),
            ("ok", "EPERM", "EACCES", "EBADF"),
            "two boxes see each other's locks on a shared inode: a slow channel",
        ),
        (
            "watch_on_a_tree_file",
            (
                "fd, _ = raw('inotify_init1', 0)\n"
                "return sc('inotify_add_watch', fd, at(4096, os.__file__.encode()), 0x20)"
            ),
            ("EPERM", "EACCES", "ENOSYS", "EBADF"),
            "two boxes would see each other, and the host, open a shared file",
        ),
    ):
        yield Probe(93, name, do, inside, "ok", why=why, recorded=True)
    yield Probe(
        94,
        "mincore_on_a_tree_file",
        "import mmap\nfd = os.open(os.__file__, os.O_RDONLY)\nm = mmap.mmap(fd, 4096,"
        " mmap.MAP_SHARED, mmap.PROT_READ)\na = LIBC.mmap(None, 4096, 1, 1, fd, 0)\nreturn"
        " sc('mincore', a, 4096, at(16))",
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
    *tree(),
    *paths(),
    *descriptors(),
    *residuals(),
)
