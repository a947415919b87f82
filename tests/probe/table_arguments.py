# SPDX-License-Identifier: Apache-2.0
"""Probe table, part two: calls that the policy allows for some arguments only.

Data only; harness.py runs it. Kernel and filter must look at the same 32 bits of an int argument,
so the same requests are made with garbage in the other half.
"""

from harness import Probe


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
            93, f"lease{suffix}", head + f"return sc('fcntl', fd, 1024{mask}, 0)", "EPERM", "ok"
        )
        yield Probe(
            93,
            f"dnotify{suffix}",
            f"fd = os.open('.', os.O_RDONLY)\nreturn sc('fcntl', fd, 1026{mask}, 1)",
            "EPERM",
            "ok",
        )
    yield Probe(
        93,
        "locks_on_scratch_work",
        "import fcntl\nwith open('locked', 'w') as f:\n"
        "    fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "    fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\nreturn 'ok'",
        "ok",
        "ok",
    )


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


PROBES = (*prctl(), *ioctl(), *fcntl(), *execution())
