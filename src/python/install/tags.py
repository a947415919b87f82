# SPDX-License-Identifier: Apache-2.0
"""tags: which wheels this interpreter can load, and which of several is best (PEP 425 and 600).

In the user process of an installing box.
"""

import os
import platform
import sys
import sysconfig

OLD_NAMES = {(2, 17): "manylinux2014", (2, 12): "manylinux2010", (2, 5): "manylinux1"}
GLIBC_LEAST = {"x86_64": 5, "i686": 5}      # the first minor version of manylinux; 17 on other machines
MUSL_MINOR_MAX = 2


def glibc():
    """(2, 36), or None if the C library is not glibc."""
    try:
        name, _, version = os.confstr("CS_GNU_LIBC_VERSION").partition(" ")
        return tuple(map(int, version.split(".")[:2])) if name == "glibc" else None
    except (AttributeError, ValueError, OSError):
        return None


def platforms():
    """Platform tags, the best first."""
    machine = sysconfig.get_platform().partition("-")[2] or platform.machine()
    machine = machine.replace("-", "_").replace(".", "_")
    found, libc = [], glibc()
    if libc:
        for minor in range(libc[1], GLIBC_LEAST.get(machine, 17) - 1, -1):
            found.append(f"manylinux_{libc[0]}_{minor}_{machine}")
            if (libc[0], minor) in OLD_NAMES:
                found.append(f"{OLD_NAMES[libc[0], minor]}_{machine}")
    else:
        found += [f"musllinux_1_{minor}_{machine}" for minor in range(MUSL_MINOR_MAX, -1, -1)]
    return [*found, f"linux_{machine}"]


def tags():
    """{(python, abi, platform): rank}, the smaller the better."""
    minor = sys.version_info[1]
    here = f"cp3{minor}"
    free = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    pairs = [(here, f"{here}{free}")]
    pairs += [] if free else [(here, "abi3")]
    pairs += [(here, "none")]
    pairs += [] if free else [(f"cp3{older}", "abi3") for older in range(minor - 1, 1, -1)]
    pure = [f"py3{minor}", "py3", *[f"py3{older}" for older in range(minor - 1, -1, -1)]]
    machines = platforms()
    ordered = [(python, abi, machine) for python, abi in pairs for machine in machines]
    ordered += [(python, "none", machine) for python in pure for machine in machines]
    ordered += [(here, "none", "any"), *[(python, "none", "any") for python in pure]]
    return {tag: rank for rank, tag in enumerate(ordered)}


def rank(found, known):
    """The rank of a wheel's file name, a match of wheel.FILENAME; None if it does not fit."""
    ranks = [known[python, abi, machine] for python in found["python"].split(".")
             for abi in found["abi"].split(".") for machine in found["platform"].split(".")
             if (python, abi, machine) in known]
    return min(ranks) if ranks else None
