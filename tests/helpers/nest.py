# SPDX-License-Identifier: Apache-2.0
"""nest: runs a command in namespaces where something is missing, without changing the machine.

    nest.py [STEP...] -- COMMAND...

Steps, in order: user (a user namespace in which the caller is uid 1000, without rights after the
exec), mounts (a private mount namespace), limit=NAME=N (user.max_NAME_namespaces of that user
namespace), mask=PATH (an empty file over PATH), file=PATH=TEXT (a new file, in an empty folder over
its folder), read-only=PATH (that mount and those below it), hide=PATH (nothing is mounted there).
"""

import ctypes
import os
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
NEWUSER, NEWNS = 0x10000000, 0x00020000
RDONLY, REMOUNT, BIND, REC, PRIVATE = 1, 32, 4096, 16384, 1 << 18


def check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        sys.exit(f"nest: {what}: {os.strerror(number)}")


def mount(source, target, kind, flags):
    text = [None if s is None else s.encode() for s in (source, target, kind)]
    check(LIBC.mount(*text, ctypes.c_ulong(flags), None), f"mount {target}")


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def step_user():
    uid, gid = os.geteuid(), os.getegid()
    check(LIBC.unshare(NEWUSER), "unshare")
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"1000 {uid} 1")
    write("/proc/self/gid_map", f"1000 {gid} 1")


def step_mounts():
    check(LIBC.unshare(NEWNS), "unshare")
    mount(None, "/", None, REC | PRIVATE)


def step_limit(name, value):
    write(f"/proc/sys/user/max_{name}_namespaces", value)


def step_mask(path):
    mount("/dev/null", path, None, BIND)


def step_file(path, text):
    mount("nest", os.path.dirname(path), "tmpfs", 0)
    write(path, text)


def mounts_below(top):
    with open("/proc/self/mountinfo") as file:
        points = [line.split()[4] for line in file]
    return [p for p in points if (p + "/").startswith(top + "/")]


def step_read_only(path):
    for point in mounts_below(path):
        mount(None, point, None, REMOUNT | BIND | RDONLY)


def step_hide(path):
    for _ in mounts_below(path):
        if mounts_below(path):
            check(LIBC.umount2(path.encode(), 2), f"unmount {path}")


def main():
    split = sys.argv.index("--")
    for step in sys.argv[1:split]:
        name, *values = step.split("=", 2)
        globals()["step_" + name.replace("-", "_")](*values)
    os.execvp(sys.argv[split + 1], sys.argv[split + 1 :])


main()
