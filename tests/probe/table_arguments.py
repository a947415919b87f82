# SPDX-License-Identifier: Apache-2.0
"""Probe table, part two: calls that the policy allows for some arguments only.

Data only; harness.py runs it. Kernel and filter must look at the same 32 bits of an int argument,
so the same requests are made with garbage in the other half.
"""

import os

from harness import DIFFERENT, Probe


def prctl():
    # name, arguments, outside, users
    rest = (
        ("set_seccomp_strict", "22, 1, 0", None, "any"),
        ("set_seccomp_filter", "22, 2, BAD", ("EFAULT", "EACCES"), "any"),
        ("set_ptracer", "0x59616d61, BAD", ("ok", "EINVAL"), "any"),
        ("ambient_raise", "47, 2, 0, 0, 0", None, "any"),
        ("ambient_clear", "47, 4, 0, 0, 0", "ok", "any"),
        ("set_mm_map_size", "35, 15, at(8), 0, 0", "ok", "any"),
        ("set_dumpable", "4, 1, 0, 0, 0", "ok", "any"),
        ("set_dumpable_high_half", "4 | HIGH, 1, 0, 0, 0", "ok", "any"),
        ("set_keepcaps", "8, 1, 0, 0, 0", "ok", "any"),
        ("set_securebits", "28, 0, 0, 0, 0", "ok", "root"),
        ("capbset_drop", "24, 5, 0, 0, 0", "ok", "root"),
        ("set_tsc", "26, 2, 0, 0, 0", "ok", "any"),
        ("set_timerslack", "29, 1, 0, 0, 0", "ok", "any"),
        ("set_child_subreaper", "36, 1, 0, 0, 0", "ok", "any"),
        ("set_speculation", "53, 0, 2, 0, 0", ("ok", "EPERM", "ENXIO", "ERANGE", "ENODEV"), "any"),
        ("set_vma", "0x53564d41, 0, 0, 0, BAD", ("ok", "EINVAL", "ENOMEM", "EFAULT"), "any"),
        ("set_memory_merge", "67, 1, 0, 0, 0", ("ok", "EINVAL"), "any"),
        ("set_user_dispatch", "59, 0, 0, 0, 0", "ok", "any"),
        ("task_perf_disable", "31, 0, 0, 0, 0", "ok", "any"),
        ("unknown", "999, 0, 0, 0, 0", "EINVAL", "any"),
    )
    for name, args, outside, users in rest:
        why = "" if outside else "strict mode kills, and raising needs inheritable capabilities"
        # EPERM is what we say inside, so an outside answer that may be EPERM proves nothing.
        if outside and "EPERM" in outside:
            outside, why = None, "the kernel's own answer may be EPERM"
        yield Probe(
            21, f"prctl_{name}", f"return sc('prctl', {args})", "EPERM", outside, users, why
        )
    for name, args in (
        ("set_name", "15, at(16, b'probe')"),
        ("get_name", "16, at(16)"),
        ("set_pdeathsig", "1, 0"),
        ("get_dumpable", "3"),
        ("capbset_read", "23, 0"),
        ("get_seccomp", "21"),
        ("get_no_new_privs", "39, 0, 0, 0, 0"),
        ("set_thp_disable", "41, 1, 0, 0, 0"),
        ("set_no_new_privs", "38, 1, 0, 0, 0"),
    ):
        yield Probe(21, f"prctl_{name}_works", f"return sc('prctl', {args})", "ok", "ok")


def ioctl():
    """On a descriptor that is not open: EBADF means that the request got past the filter."""
    denied = {
        "tiocsti": 0x5412,
        "tioclinux": 0x541C,
        "tiocsctty": 0x540E,
        "tiocnotty": 0x5422,
        "tioccons": 0x541D,
        "tiocgptpeer": 0x5441,
        "fs_setflags": 0x40086602,
        "ficlone": 0x40049409,
        "fiemap": 0xC020660B,
        "fifreeze": 0xC0045877,
        "enable_verity": 0x40806685,
        "ns_get_parent": 0xB702,
        "ns_get_userns": 0xB701,
        "siocgifconf": 0x8912,
        "siocsifflags": 0x8914,
        "tunsetiff": 0x400454CA,
        "kvm_create_vm": 0xAE01,
        "loop_ctl_get_free": 0x4C82,
        "uffdio_api": 0xC018AA3F,
        "blkroset": 0x125D,
        "fioasync": 0x5452,
    }
    for name, request in denied.items():
        for suffix, mask in (("", 0), ("_high_half", 1 << 32), ("_sign_bits", 0xFFFFFFFF << 32)):
            yield Probe(
                21,
                f"ioctl_{name}{suffix}",
                f"return sc('ioctl', BAD, {request | mask:#x}, BAD)",
                ("ENOTTY", "EPERM"),
                "EBADF",
            )
    for name, request in (
        ("tcgets", 0x5401),
        ("tiocgwinsz", 0x5413),
        ("fionread", 0x541B),
        ("fionbio", 0x5421),
        ("fioclex", 0x5451),
        ("fionclex", 0x5450),
    ):
        yield Probe(
            21,
            f"ioctl_{name}_passes",
            f"return sc('ioctl', BAD, {request:#x}, BAD)",
            "EBADF",
            "EBADF",
        )
    yield Probe(
        21,
        "tiocsti_on_a_terminal",
        "import pty\n"
        "try: far, near = pty.openpty()\n"
        "except OSError: near = 1\n"
        "sc('ioctl', near, 0x540E, 0)\n"
        "return sc('ioctl', near, 0x5412, at(1, b'x'))",
        ("ENOTTY", "EPERM"),
        ("ok", "EIO"),
    )


def fcntl():
    head = "fd = os.open('leased', os.O_RDONLY | os.O_CREAT, 0o600)\n"
    for suffix, mask in (("", ""), ("_high_half", " | HIGH")):
        yield Probe(
            93, f"lease{suffix}", head + f"return sc('fcntl', fd, 1024{mask}, 0)", "EINVAL", "ok"
        )
        yield Probe(
            93,
            f"dnotify{suffix}",
            f"fd = os.open('.', os.O_RDONLY)\nreturn sc('fcntl', fd, 1026{mask}, 1)",
            "EINVAL",
            "ok",
        )
    # F_WRLCK on the first byte. Record locks are not charged to a box, and these have no owner.
    head = (
        "fd = os.open('locked', os.O_RDWR | os.O_CREAT)\n"
        "lock = at(32, struct.pack('hhqqi4x', 1, 0, 0, 1, 0))\n"
    )
    for name, command in (("getlk", 36), ("setlk", 37), ("setlkw", 38)):
        for suffix, mask in (("", ""), ("_high_half", " | HIGH")):
            do = head + f"return sc('fcntl', fd, {command}{mask}, lock)"
            yield Probe(93, f"fcntl_ofd_{name}{suffix}", do, "EINVAL", "ok")
    # On a descriptor that is not open: EBADF means that the command got past the filter.
    for name, command in (
        ("setown", 8),
        ("setsig", 10),
        ("setown_ex", 15),
        ("getlease", 1025),
        ("dupfd_query", 1027),
        ("get_rw_hint", 1035),
        ("set_rw_hint", 1036),
        ("set_file_rw_hint", 1038),
        ("unknown", 2000),
    ):
        do = f"return sc('fcntl', BAD, {command}, BAD)"
        yield Probe(93, f"fcntl_{name}", do, "EINVAL", "EBADF")
    for command in (0, 1, 2, 3, 4, 5, 6, 7, 1030, 1031, 1032, 1033, 1034):
        do = f"return sc('fcntl', BAD, {command}, BAD)"
        yield Probe(21, f"fcntl_{command}_passes", do, "EBADF", "EBADF")
    yield Probe(
        93,
        "locks_on_scratch_work",
        "import fcntl\nwith open('locked', 'w') as f:\n"
        "    fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "    fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\nreturn 'ok'",
        "ok",
        "ok",
    )


def mmap():
    """Flags of mappings and of memory files. Huge pages of the host are not charged to a box."""
    for name, flags, outside in (
        ("hugetlb", "0x40022", DIFFERENT),
        ("hugetlb_high_half", "0x40022 | HIGH", DIFFERENT),
        ("hugetlb_1g", "0x40022 | 30 << 26", DIFFERENT),
        ("locked", "0x2022", DIFFERENT),
        ("growsdown", "0x122", "ok"),
    ):
        do = f"return sc('mmap', 0, 4096, 3, {flags}, BAD, 0)"
        yield Probe(83, f"mmap_{name}", do, "EINVAL", outside)
    yield Probe(
        83,
        "mmap_sync",
        "fd = os.open('mapped', os.O_RDWR | os.O_CREAT); os.truncate(fd, 4096)\n"
        "return sc('mmap', 0, 4096, 3, 0x80003, fd, 0)",
        "EINVAL",
        ("ok", "EOPNOTSUPP", "ENOTSUP"),
    )
    yield Probe(
        21,
        "mmap_flags_work",
        "return [sc('mmap', 0, 4096, 3, 0x22 | more, BAD, 0)"
        " for more in (0, 0x40, 0x800, 0x1000, 0x4000, 0x8000, 0x10000, 0x20000, 0x24000)]",
        ["ok"] * 9,
        ["ok"] * 9,
    )
    for name, flags in (("", "4"), ("_2m", "4 | 21 << 26"), ("_high_half", "4 | HIGH")):
        do = f"return sc('memfd_create', at(4, b'x'), {flags})"
        yield Probe(83, f"memfd_hugetlb{name}", do, ("EINVAL", "ENOSYS"), "ok")


def madvise():
    """Advice. A hole in shared memory is what other threads sleep on in the kernel."""
    memory = "a = LIBC.mmap(None, 16384, 3, %s, -1, 0)\n"
    for name, advice in (("remove", "9"), ("remove_high_half", "9 | HIGH")):
        do = memory % "0x21" + f"return sc('madvise', a, 4096, {advice})"
        yield Probe(90, f"madvise_{name}", do, "EINVAL", "ok")
    for name, advice in (("cold", 20), ("pageout", 21)):
        do = memory % "0x22" + f"return sc('madvise', a, 4096, {advice})"
        yield Probe(90, f"madvise_{name}", do, "EINVAL", "ok")
    for name, advice in (("mergeable", 12), ("collapse", 25), ("hwpoison", 100), ("unknown", 999)):
        do = memory % "0x22" + f"return sc('madvise', a, 4096, {advice})"
        why = "whether it works depends on the kernel's configuration and the user"
        yield Probe(90, f"madvise_{name}", do, "EINVAL", why=why)
    yield Probe(
        21,
        "madvise_works",
        memory % "0x22"
        + "return [sc('madvise', a, 4096, n) for n in (0, 1, 2, 4, 8, 10, 11, 16, 17, 18, 19)]",
        ["ok"] * 11,
        ["ok"] * 11,
    )


def fallocate():
    """Modes of fallocate: room can be reserved, and nothing of what is there can be changed."""
    head = "fd = os.open('holed', os.O_RDWR | os.O_CREAT); os.write(fd, bytes(65536))\n"
    for suffix, mode in (("", "3"), ("_high_half", "3 | HIGH")):
        do = head + f"return sc('fallocate', fd, {mode}, 0, 4096)"
        yield Probe(90, f"fallocate_punch_hole{suffix}", do, ("EOPNOTSUPP", "ENOTSUP"), "ok")
    for name, mode in (("collapse", 8), ("zero", 0x10), ("insert", 0x20), ("unshare", 0x40)):
        do = f"return sc('fallocate', BAD, {mode}, 0, 4096)"
        yield Probe(90, f"fallocate_{name}", do, ("EOPNOTSUPP", "ENOTSUP"), "EBADF")
    yield Probe(
        21,
        "fallocate_works",
        head + "os.posix_fallocate(fd, 0, 131072); size = os.fstat(fd).st_size\n"
        "return [size, sc('fallocate', fd, 1, 0, 262144), os.fstat(fd).st_size]",
        [131072, "ok", 131072],
        [131072, "ok", 131072],
    )


def ignored():
    """Calls that return 0 and do nothing: on a descriptor that is not open, the kernel says EBADF."""
    for name in ("fsync", "fdatasync"):
        yield Probe(90, f"{name}_is_ignored", f"return sc('{name}', BAD)", "ok", "EBADF")
    do = "return sc('sync_file_range', BAD, 0, 0, 7)"
    yield Probe(90, "sync_file_range_is_ignored", do, "ok", "EBADF")
    do = "return [sc('msync', 4096, 4096, flags) for flags in (1, 2, 4, 4 | HIGH, 6)]"
    yield Probe(
        90, "msync_is_ignored", do, ["ENOMEM"] * 2 + ["ok"] * 3, lambda out: out[2] == "ENOMEM"
    )
    do = "return [sc('fadvise64', BAD, 0, 0, advice) for advice in (0, 1, 2, 3, 4, 5, 6)]"
    yield Probe(
        94, "fadvise", do, ["EBADF"] * 4 + ["ok", "EBADF", "EINVAL"], ["EBADF"] * 7
    )
    yield Probe(
        82,
        "nice_is_ignored",
        "before = os.getpriority(os.PRIO_PROCESS, 0)\n"
        "said = [sc('setpriority', 0, 0, 19), sc('setpriority', 0, 0, 40)]\n"
        "return [*said, os.getpriority(os.PRIO_PROCESS, 0) - before]",
        ["ok", "ok", 0],
        lambda out: out[2] == 19 - os.getpriority(os.PRIO_PROCESS, 0),  # the tests themselves may run with nice 19
    )
    yield Probe(
        82,
        "affinity_is_ignored",
        "before = os.sched_getaffinity(0)\nos.sched_setaffinity(0, {min(before)})\n"
        "return len(os.sched_getaffinity(0)) == len(before)",
        True,
        len(os.sched_getaffinity(0)) == 1,
    )
    do = "return sc('futex_waitv', BAD, 1, 0, 0, 0)"
    yield Probe(93, "futex_waitv", do, "ENOSYS", "EFAULT")


def execution():
    head = "fd = os.open('/usr/bin/true', os.O_RDONLY)\narg = buffer(8); env = at(8)\n"
    for suffix, flags in (("", "0x1000"), ("_high_half", "0x1000 | HIGH")):
        yield Probe(
            18,
            f"execveat_empty_path{suffix}",
            head + f"return sc('execveat', fd, at(1), address(arg), env, {flags})",
            ("EPERM", "ENOSYS", "EACCES"),
            "exit 0",
        )
    memfd = (
        "fd, number = raw('memfd_create', at(4, b'x'), %s)\n"
        "if fd < 0: return errname(number)\n"
        "with open('/usr/bin/true', 'rb') as f: os.write(fd, f.read())\n"
        "os.execv('/proc/self/fd/%%d' %% fd, ['true'])"
    )
    for name, flags in (("plain", "0"), ("exec_flag", "0x10")):
        yield Probe(
            18,
            f"memfd_exec_{name}",
            memfd % flags,
            ("EACCES", "EPERM", "ENOENT", "EINVAL", "ENOSYS"),
            "exit 0",
        )
    yield Probe(
        18,
        "memfd_works",
        "fd = os.memfd_create('x'); os.write(fd, b'data'); return os.pread(fd, 4, 0).decode()",
        ("data", "ENOSYS"),
        "data",
        why="where no cgroup counts its memory it is hidden",
        recorded=True,
    )


PROBES = (
    *prctl(),
    *ioctl(),
    *fcntl(),
    *mmap(),
    *madvise(),
    *fallocate(),
    *ignored(),
    *execution(),
)
