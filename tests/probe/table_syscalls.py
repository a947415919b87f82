# SPDX-License-Identifier: Apache-2.0
"""Probe table, part one: system calls that the policy denies, and those it must let through.

Data only; harness.py runs it. A denied call is made in such a way that it would work outside, or
with an invalid pointer or descriptor so that the kernel would complain about that instead: either
way the answer shows whether the call got past the filter, and nothing on the host changes.
"""

from harness import DIFFERENT, Probe

DENIED = ("EPERM", "ENOSYS")


def namespaces():
    for kind in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"):
        users = "any" if kind == "user" else "root"
        flag = f"NEW[{kind!r}]"
        yield Probe(1, f"unshare_{kind}", f"return sc('unshare', {flag})", "EPERM", "ok", users)
        yield Probe(
            1,
            f"unshare_{kind}_high_half",
            f"return sc('unshare', {flag} | HIGH)",
            "EPERM",
            "EINVAL",
        )
        if kind not in ("user", "cgroup"):
            yield Probe(
                1,
                f"unshare_user_and_{kind}",
                f"return sc('unshare', NEW['user'] | {flag})",
                "EPERM",
                "ok",
            )
        if kind == "time":  # for clone these bits are the signal; the flag exists in clone3 only
            continue
        clone = f"return sc_fork('clone', {flag} | signal.SIGCHLD, 0, 0, 0, 0)"
        yield Probe(2, f"clone_{kind}", clone, "EPERM", "ok", users)
        yield Probe(
            2,
            f"clone_{kind}_high_half",
            f"return sc_fork('clone', {flag} | signal.SIGCHLD | HIGH, 0, 0, 0, 0)",
            "EPERM",
            "ok",
            users,
        )
    yield Probe(1, "setns_bad_fd", "return sc('setns', BAD, 0)", "EPERM", "EBADF")
    yield Probe(
        1,
        "setns_own",
        "fd = os.open('/proc/self/ns/uts', os.O_RDONLY)\nreturn sc('setns', fd, NEW['uts'])",
        ("EPERM", "EACCES"),
        "ok",
        "root",
    )
    yield Probe(
        1,
        "nested_userns_with_map",
        "if sc('unshare', NEW['user']) != 'ok': return 'EPERM'\n"
        "with open('/proc/self/uid_map', 'w') as f: f.write('0 %d 1' % PARAMS['host_uid'])\n"
        "return os.getuid()",
        "EPERM",
        0,
    )
    yield Probe(3, "clone3", "return sc('clone3', 1, 88)", "ENOSYS", "EFAULT")
    yield Probe(3, "clone3_size_0", "return sc('clone3', 1, 0)", "ENOSYS", "EINVAL")
    yield Probe(
        3,
        "clone3_real",
        "args = buffer(88, struct.pack('<QQQQQ', NEW['user'], 0, 0, 0, signal.SIGCHLD))\n"
        "return sc_fork('clone3', address(args), 88)",
        "ENOSYS",
        "ok",
    )


# group, row, inside, {call: whose outside half}; each call gets six invalid arguments.
BAD_ARGUMENTS = (
    (
        "mount_old",
        6,
        "EPERM",
        {"mount": "any", "umount2": "any", "pivot_root": "root", "chroot": "any"},
    ),
    (
        "mount_new",
        7,
        DENIED,
        {
            "fsopen": "root",
            "fsconfig": "any",
            "fsmount": "root",
            "fspick": "root",
            "open_tree": "any",
            "move_mount": "root",
            "mount_setattr": "any",
            "open_tree_attr": "any",
            "statmount": "any",
            "listmount": "any",
        },
    ),
    ("ptrace", 8, "EPERM", {"ptrace": "any"}),
    ("process_vm", 9, DENIED, {"process_vm_readv": "any", "process_vm_writev": "any"}),
    (
        "other_processes",
        9,
        DENIED,
        {"process_madvise": "any", "process_mrelease": "any", "kcmp": "any", "pidfd_getfd": "any"},
    ),
    (
        "kernel_toys",
        11,
        DENIED,
        {"bpf": "root", "perf_event_open": "any", "userfaultfd": "any", "lookup_dcookie": "root"},
    ),
    (
        "io_uring",
        12,
        "ENOSYS",
        {
            "io_uring_setup": "any",
            "io_uring_enter": "any",
            "io_uring_register": "any",
            "io_setup": "any",
            "io_destroy": "any",
            "io_getevents": "any",
            "io_submit": "any",
            "io_cancel": "any",
            "io_pgetevents": "any",
        },
    ),
    ("keyring", 13, "ENOSYS", {"add_key": "any", "request_key": "any", "keyctl": "any"}),
    (
        "admin",
        14,
        DENIED,
        {
            "kexec_load": "root",
            "kexec_file_load": "root",
            "reboot": "root",
            "init_module": "root",
            "finit_module": "root",
            "delete_module": "root",
            "swapon": "root",
            "swapoff": "root",
            "acct": "root",
            "quotactl": "any",
            "quotactl_fd": "any",
            "syslog": "root",
            "settimeofday": "any",
            "clock_settime": "any",
            "adjtimex": "any",
            "clock_adjtime": "any",
            "sethostname": "root",
            "setdomainname": "root",
            "nfsservctl": "root",
            "vhangup": None,
            "uselib": "any",
        },
    ),
    ("handles", 14, "EPERM", {"name_to_handle_at": "any", "open_by_handle_at": "root"}),
    ("fanotify", 14, DENIED, {"fanotify_init": "root", "fanotify_mark": "any"}),
    ("x86_legacy", 17, DENIED, {"iopl": "any", "ioperm": "any"}),
    ("seccomp", 21, "EPERM", {"seccomp": "any"}),
    ("splice", 23, "EPERM", {"splice": "any", "tee": "any", "vmsplice": "any"}),
    (
        "memory_policy",
        82,
        DENIED,
        {
            "mlock": "any",
            "mlock2": "any",
            "mlockall": "any",
            "mbind": "any",
            "set_mempolicy": "any",
            "set_mempolicy_home_node": "any",
            "migrate_pages": "any",
            "move_pages": "any",
            "remap_file_pages": "any",
            "memfd_secret": "any",
        },
    ),
    (
        "scheduling",
        82,
        DENIED,
        {
            "sched_setscheduler": "any",
            "sched_setattr": "any",
            "ioprio_set": "any",
            "sched_setparam": "any",
        },
    ),
    ("cache_state", 94, DENIED, {"cachestat": "any"}),
)


def bad_arguments():
    for group, row, inside, calls in BAD_ARGUMENTS:
        for call, users in calls.items():
            half = (
                dict(outside=DIFFERENT, users=users) if users else dict(why="would act on the host")
            )
            yield Probe(row, f"{group}_{call}", f"return six({call!r})", inside, **half)


# An ipc namespace is a slot's and outlives its box, so nothing may be left in it: every call that there is about
# System V objects and POSIX queues, with arguments that make nothing outside.
IPC = {
    "shmget": "0, 0, 0",
    "shmat": "-1, 0, 0",
    "shmdt": "1",
    "shmctl": "-1, 0, 0",
    "semget": "0, 0, 0",
    "semop": "-1, 0, 0",
    "semtimedop": "-1, 0, 0, 0",
    "semctl": "-1, 0, 0, 0",
    "msgget": "0x7e57ab1e, 0",
    "msgsnd": "-1, 0, 0, 0",
    "msgrcv": "-1, 0, 0, 0, 0",
    "msgctl": "-1, 0, 0",
    "mq_open": "0, 0, 0, 0",
    "mq_unlink": "0",
    "mq_timedsend": "-1, 0, 0, 0, 0",
    "mq_timedreceive": "-1, 0, 0, 0, 0",
    "mq_notify": "-1, 0",
    "mq_getsetattr": "-1, 0, 0",
}


def ipc():
    for call, arguments in IPC.items():
        do = f"return sc({call!r}, {arguments})"
        yield Probe(13, f"ipc_{call}", do, "ENOSYS", DIFFERENT)


# Calls that would work outside, in full.
REAL = (
    Probe(
        6,
        "mount_tmpfs",
        "target = buffer(256, os.getcwd().encode())\n"
        "kind = buffer(8, b'tmpfs')\n"
        "if PARAMS['side'] == 'outside': sc('unshare', NEW['mnt'])\n"
        "return sc('mount', address(kind), address(target), address(kind), 0, 0)",
        "EPERM",
        "ok",
        "root",
    ),
    Probe(6, "chroot_here", "return sc('chroot', at(4, b'.'))", "EPERM", "ok", "root"),
    Probe(8, "ptrace_traceme", "return sc('ptrace', 0, 0, 0, 0)", "EPERM", "ok"),
    Probe(8, "ptrace_attach_child", "return sc('ptrace', 16, sleeper(), 0, 0)", "EPERM", "ok"),
    Probe(8, "ptrace_seize_child", "return sc('ptrace', 0x4206, sleeper(), 0, 0)", "EPERM", "ok"),
    Probe(
        8,
        "ptrace_attach_1",
        "return sc('ptrace', 16, 1, 0, 0)",
        "EPERM",
        why="would stop the host's init",
    ),
    Probe(
        9,
        "process_vm_readv_child",
        "there = buffer(8, b'secret'); here = buffer(8)\n"
        "pid = sleeper()\n"
        "local = struct.pack('QQ', address(here), 8); far = struct.pack('QQ', address(there), 8)\n"
        "local = buffer(16, local); far = buffer(16, far)\n"
        "return sc('process_vm_readv', pid, address(local), 1, address(far), 1, 0)",
        DENIED,
        "ok",
    ),
    Probe(
        9,
        "process_vm_readv_1",
        "here = buffer(8)\n"
        "local = buffer(16, struct.pack('QQ', address(here), 8))\n"
        "return sc('process_vm_readv', 1, address(local), 1, address(local), 1, 0)",
        DENIED,
        why="would read the host's init",
    ),
    Probe(
        9,
        "pidfd_getfd_child",
        "fd, _ = raw('pidfd_open', sleeper(), 0)\nreturn sc('pidfd_getfd', fd, 1, 0)",
        DENIED,
        "ok",
    ),
    Probe(9, "kcmp_self", "return sc('kcmp', os.getpid(), os.getpid(), 1, 0, 0)", DENIED, "ok"),
    Probe(11, "userfaultfd_user_mode", "return sc('userfaultfd', 1)", "EPERM", "ok"),
    Probe(
        12,
        "io_uring_real",
        "return sc('io_uring_setup', 1, at(120))",
        "ENOSYS",
        "ok",
    ),
    Probe(12, "libaio_real", "return sc('io_setup', 1, at(8))", "ENOSYS", "ok"),
    Probe(
        13,
        "add_key_real",
        "return sc('add_key', at(8, b'user'), at(8, b'probe'), at(4, b'x'), 1, -2)",
        "ENOSYS",
        "ok",
    ),
    Probe(13, "keyctl_session", "return sc('keyctl', 0, -3, 1)", "ENOSYS", "ok"),
    Probe(
        13, "keyctl_persistent", "return sc('keyctl', 22, -1, -2)", "ENOSYS", ("ok", "EOPNOTSUPP")
    ),
    Probe(16, "personality_implies_exec", "return sc('personality', 0x400000)", "EPERM", "ok"),
    Probe(16, "personality_no_randomize", "return sc('personality', 0x40000)", "EPERM", "ok"),
    Probe(16, "personality_linux32", "return sc('personality', 8)", "EPERM", "ok"),
    Probe(16, "personality_high_half", "return sc('personality', 0x400000 | HIGH)", "EPERM", "ok"),
    Probe(16, "personality_query", "return sc('personality', 0xffffffff)", "ok", "ok"),
    Probe(17, "modify_ldt", "return sc('modify_ldt', 0, at(64), 64)", DENIED, "ok"),
    Probe(17, "iopl_3", "return sc('iopl', 3)", DENIED, "ok", "root"),
    Probe(17, "ioperm_80", "return sc('ioperm', 0x80, 1, 1)", DENIED, "ok", "root"),
    Probe(
        19,
        "x32_getpid",
        "return sc(0x40000000 | 39)",
        "SIGSYS",
        DIFFERENT,
    ),
    Probe(19, "x32_bare", "return sc(0x40000000)", "SIGSYS", DIFFERENT),
    Probe(
        19,
        "int80_getpid",
        "code = machine_code(bytes.fromhex('b814000000' 'cd80' 'c3'))\n"
        "return 'ok' if ctypes.CFUNCTYPE(ctypes.c_int)(code)() == os.getpid() else 'wrong pid'",
        ("SIGSYS", "SIGSEGV"),
        "ok",
    ),
    Probe(
        19,
        "int80_socketcall",
        # socketcall(SYS_SOCKET, {AF_INET, SOCK_STREAM, 0}): the family is behind a pointer.
        "args = machine_code(struct.pack('<III', 2, 1, 0), low=True)\n"
        "code = bytes.fromhex('53' 'b866000000' 'bb01000000' 'b9') + struct.pack('<I', args)\n"
        "code = machine_code(code + bytes.fromhex('cd80' '5b' 'c3'))\n"
        "fd = ctypes.CFUNCTYPE(ctypes.c_int)(code)()\n"
        "return 'ok' if fd >= 0 else errname(-fd)",
        ("SIGSYS", "SIGSEGV"),
        "ok",
    ),
    Probe(
        19,
        "far_jump_32bit",
        # Leaves 64-bit mode by a far return and calls exit(7) the 32-bit way.
        "low = machine_code(bytes.fromhex('b801000000' 'bb07000000' 'cd80' 'f4'), low=True)\n"
        "code = bytes.fromhex('6a23' '68') + struct.pack('<I', low) + bytes.fromhex('48cb')\n"
        "ctypes.CFUNCTYPE(None)(machine_code(code))()",
        ("SIGSYS", "SIGSEGV"),
        "exit 7",
    ),
    Probe(22, "future_nr", "return sc(9999)", "ENOSYS", why="unknown outside too"),
    Probe(22, "future_nr_600", "return sc(600)", "ENOSYS", why="unknown outside too"),
    Probe(22, "negative_nr", "return sc(-1)", ("ENOSYS", "SIGSYS"), why="unknown outside too"),
    Probe(
        22,
        "number_high_half",
        # The kernel looks at the low half of the number only.
        "return sc(NR['unshare'] | (1 << 40), NEW['user'])",
        ("EPERM", "ENOSYS"),
        why="depends on the kernel's entry code",
    ),
    Probe(
        23,
        "splice_file_to_pipe",
        "r, w = os.pipe(); fd = os.open(sys.executable, os.O_RDONLY)\n"
        "return sc('splice', fd, 0, w, 0, 16, 0)",
        "EPERM",
        "ok",
    ),
    Probe(
        23,
        "vmsplice",
        "r, w = os.pipe(); data = buffer(16, b'x'); vec = buffer(16, struct.pack('QQ',"
        " address(data), 8))\nreturn sc('vmsplice', w, address(vec), 1, 0)",
        "EPERM",
        "ok",
    ),
    Probe(
        23,
        "tee",
        "a, b = os.pipe(); c, d = os.pipe(); os.write(b, b'x')\nreturn sc('tee', a, d, 1, 0)",
        "EPERM",
        "ok",
    ),
    Probe(
        82,
        "sched_fifo",
        "return sc('sched_setscheduler', 0, 1, at(4, struct.pack('i', 1)))",
        DENIED,
        "ok",
        "root",
    ),
    Probe(
        82,
        "sched_batch",
        "return sc('sched_setscheduler', 0, 3, at(4))",
        DENIED,
        "ok",
    ),
    Probe(
        82, "nice_minus_5", "return sc('setpriority', 0, 0, -5)", ("EPERM", "EACCES"), "ok", "root"
    ),
    Probe(
        82,
        "nice_high_half",
        "return sc('setpriority', 0, 0, 0xfffffffb | HIGH)",
        ("EPERM", "EACCES"),
        "ok",
        "root",
    ),
    Probe(82, "ioprio_rt", "return sc('ioprio_set', 1, 0, (1 << 13) | 4)", DENIED, "ok", "root"),
    Probe(82, "ioprio_be", "return sc('ioprio_set', 1, 0, (2 << 13) | 7)", DENIED, "ok"),
    Probe(
        82, "affinity_outside", "os.sched_setaffinity(0, {1000})\nreturn 'ok'", "ok", "EINVAL"
    ),
    Probe(82, "mlock_page", "return sc('mlock', at(4096), 1)", DENIED, "ok"),
)


PROBES = (*namespaces(), *bad_arguments(), *ipc(), *REAL)
