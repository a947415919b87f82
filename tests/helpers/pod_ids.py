# SPDX-License-Identifier: Apache-2.0
"""pod_ids.py COMMAND...: run COMMAND as root of a user namespace with 65536 ids, as a pod with hostUsers: false is. Needs root."""

import ctypes
import os
import sys

CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x00020000

ready, ready_in = os.pipe()
go, go_in = os.pipe()
pid = os.fork()
if pid == 0:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0:
        sys.exit(f"unshare: {os.strerror(ctypes.get_errno())}")
    os.write(ready_in, b".")
    os.read(go, 1)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    if libc.mount(b"run", b"/run", b"tmpfs", 0, None) != 0:  # a container has its own
        sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[1], sys.argv[1:])
os.read(ready, 1)
for name in ("gid_map", "uid_map"):
    with open(f"/proc/{pid}/{name}", "w") as file:
        file.write("0 0 1\n1 3000000001 65535")  # the files of this machine stay root's, as those of an image are
os.write(go_in, b".")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xFF)
