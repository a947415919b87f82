# SPDX-License-Identifier: Apache-2.0
"""profile.py FILE [-NAME...] -- COMMAND...: run COMMAND under a seccomp profile, as container engines do it for a
container without capabilities. -NAME takes the rule of a system call out of the profile before that.
"""

import ctypes
import json
import os
import platform
import sys

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
ACTIONS = {"SCMP_ACT_ALLOW": 0x7FFF0000, "SCMP_ACT_ERRNO": 0x00050000}
COMPARE = {"SCMP_CMP_NE": 1, "SCMP_CMP_LT": 2, "SCMP_CMP_LE": 3, "SCMP_CMP_EQ": 4, "SCMP_CMP_GE": 5, "SCMP_CMP_GT": 6,
           "SCMP_CMP_MASKED_EQ": 7}
SUB_ARCHES = {"amd64": (0x40000003, 0x4000003E), "arm64": (0x40000028,)}  # x86 and x32; arm


class Argument(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def applies(row):
    wanted, refused = row.get("includes", {}), row.get("excludes", {})
    return (not wanted.get("caps") and ARCH in wanted.get("arches", [ARCH])  # any kernel of today has minKernel
            and ARCH not in refused.get("arches", []))


def action_of(name, errnum):
    return ACTIONS[name] | (errnum if name == "SCMP_ACT_ERRNO" else 0)


def load(profile, without):
    lib = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    lib.seccomp_init.restype = ctypes.c_void_p
    filter_ = ctypes.c_void_p(lib.seccomp_init(action_of(profile["defaultAction"], profile["defaultErrnoRet"])))
    for token in SUB_ARCHES[ARCH]:
        assert lib.seccomp_arch_add(filter_, token) == 0
    for row in filter(applies, profile["syscalls"]):
        action = action_of(row["action"], row.get("errnoRet", profile["defaultErrnoRet"]))
        words = [Argument(a["index"], COMPARE[a["op"]], a["value"], a.get("valueTwo", 0)) for a in row.get("args", [])]
        if words and words[0].op == COMPARE["SCMP_CMP_MASKED_EQ"]:
            words[0].b = 0  # (argument & value) == valueTwo
        for name in set(row["names"]) - set(without):
            number = lib.seccomp_syscall_resolve_name(name.encode())
            if number != -1:  # __NR_SCMP_ERROR: younger than this libseccomp; engines leave it out as well
                table = (Argument * len(words))(*words)
                failed = lib.seccomp_rule_add_array(filter_, action, number, len(words), table)
                assert failed == 0, (name, failed)
    assert lib.seccomp_load(filter_) == 0


def main():
    end = sys.argv.index("--")
    with open(sys.argv[1], encoding="utf-8") as file:
        load(json.load(file), [word[1:] for word in sys.argv[2:end]])
    os.execvp(sys.argv[end + 1], sys.argv[end + 1:])


main()
