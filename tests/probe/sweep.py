# SPDX-License-Identifier: Apache-2.0
"""The sweep: every system call number from 0 to 600, with arguments that can do no harm.

All six arguments are all-ones: as a pointer that faults, as a descriptor it is not open, as a
number it is out of range. An allowed call therefore answers EFAULT, EBADF or EINVAL and does
nothing, and a denied one answers what the policy says. test_sweep.py runs it in a box and
compares the answers with the policy that the program prints.
"""

from harness import DIFFERENT, Probe
from x86_64 import NAME

LAST = 600

# Calls that never answer, or that would not leave a Python process in one piece.
NOT_CALLED = {
    "pause": "waits for a signal",
    "vfork": "the child would run on the parent's stack",
    "sync": "would write out the disks of the host",
}

# Arguments for calls to which all-ones means something else.
ARGUMENTS = {
    # an unknown operation is ENOSYS by the kernel's own rule
    "futex": "BAD, 1, 1, 0, 0, 0",
}

# What an allowed call answers where that is not an ordinary errno.
NATIVE = {
    "exit": "exit 255",
    "exit_group": "exit 255",
    "rt_sigreturn": "SIGSEGV",
    "setsid": "EPERM",  # the harness has made the child the leader of a session already
}

# The kernel lets these past every filter since 6.14: only its own trampolines may call them;
# the call refuses every other caller.
UNFILTERED = ("uretprobe", "uprobe")

# Allowed, but hidden where no cgroup counts the memory behind it.
HIDDEN_WITHOUT_CGROUP = ("memfd_create",)

# Measured: what CPython 3.9 to 3.13 with numpy, pandas, matplotlib, threads, subprocess,
# multiprocessing, asyncio, sqlite3 and zipfile calls. A policy without one of them breaks Python.
NEEDED = """
    access arch_prctl brk chdir clock_nanosleep clone close close_range dup dup2 epoll_create1
    epoll_ctl epoll_wait execve exit exit_group faccessat2 fadvise64 fchown fcntl fdatasync
    fstatfs ftruncate futex getcwd getdents64 getegid geteuid getgid getpeername getpgrp getpid
    getppid getrandom getsockname gettid getuid ioctl kill link lseek madvise memfd_create mkdir
    mmap mprotect munmap newfstatat open openat pidfd_open pipe2 poll pread64 prlimit64 pselect6
    pwrite64 read readlink recvfrom restart_syscall rseq rt_sigaction rt_sigprocmask
    rt_sigreturn sched_getaffinity sendfile sendto set_robust_list set_tid_address setitimer
    sigaltstack socketpair sysinfo uname unlink vfork wait4 write stat fstat lstat statx openat2
    rename renameat renameat2 unlinkat symlink symlinkat mkdirat rmdir chmod fchmod fchmodat
    utimensat truncate fallocate copy_file_range getxattr lgetxattr fgetxattr eventfd2
    timerfd_create timerfd_settime timerfd_gettime signalfd4
    epoll_pwait ppoll select preadv pwritev preadv2 pwritev2 mremap msync
    mincore membarrier sched_yield sched_getparam sched_getscheduler sched_get_priority_max
    sched_get_priority_min sched_setaffinity getpriority getrusage times waitid tgkill
    rt_sigpending rt_sigtimedwait rt_sigsuspend setpgid setsid getsid umask flock fsync pause
    recvmsg sendmsg bind connect listen accept4 getsockopt setsockopt shutdown socket
""".split()


def name_of(number):
    return NAME.get(number, f"nr_{number}")


def called():
    return [number for number in range(LAST + 1) if name_of(number) not in NOT_CALLED]


def probe_of(number):
    arguments = ARGUMENTS.get(name_of(number), "BAD, BAD, BAD, BAD, BAD, BAD")
    call = "sc_fork" if name_of(number) in ("fork", "clone") else "sc"
    return Probe(24, name_of(number), f"return {call}({number}, {arguments})", None, DIFFERENT)


def judge(name, action, outcome, native):
    """Empty if the outcome is what the action says, else the complaint.

    native: asks for the outcome of the same call outside; used where the kernel itself may lack it.
    """
    if outcome == "hang" or (isinstance(outcome, str) and outcome.startswith("raised")):
        return f"{name}: {outcome}"
    if name in UNFILTERED:
        return "" if outcome in ("ENOSYS", native()) else f"{name}: {outcome}"
    if action.startswith("errno:"):
        wanted = action.partition(":")[2]
        return "" if outcome == wanted else f"{name}: {outcome}, the policy says {wanted}"
    if action == "ignore":
        return "" if outcome == "ok" else f"{name}: {outcome}, the policy says it is ignored"
    if name in NATIVE and action == "allow":
        return "" if outcome == NATIVE[name] else f"{name}: {outcome}, expected {NATIVE[name]}"
    if outcome == "SIGSYS":
        return f"{name}: killed, the policy says {action}"
    if name in HIDDEN_WITHOUT_CGROUP and outcome == "ENOSYS":
        return ""
    if action == "allow" and outcome in ("EPERM", "ENOSYS") and native() != outcome:
        return f"{name}: {outcome}, the policy says it is allowed"
    return ""
