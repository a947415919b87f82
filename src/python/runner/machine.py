# SPDX-License-Identifier: Apache-2.0
"""machine: what psutil reads about the machine, as it is for the box.

The /proc of a box shows its processes and nothing else: no meminfo, stat, cpuinfo, vmstat, loadavg. Here their
texts are made from the limits of the box and from its own processes. display.adopt() calls a function of ADOPT
when code has imported the library; all runs in the user process of a box, among user code, and tells code about
itself only.
"""

import os
from io import BytesIO, StringIO
from time import CLOCK_BOOTTIME, clock_gettime, time

from base import __builtins__           # first: functions look builtins up there

try:
    import _constrictor as native
except ImportError:
    native = None

PAGE, TICKS = os.sysconf("SC_PAGESIZE"), os.sysconf("SC_CLK_TCK")
FIRST = 22 - 3              # starttime in stat, behind the name of the program


def processes():
    """The fields of /proc/PID/stat behind the name, of each process of the box."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                found.append((pid, file.read().rpartition(b")")[2].split()))
        except OSError:
            pass            # it has just ended
    return found


def memory():
    """(limit, used), in bytes: memory of the processes that is no file, and files of scratch."""
    used = 0
    for pid, _ in processes():
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                _, resident, shared = file.read().split()[:3]
            used += (int(resident) - int(shared)) * PAGE
        except OSError:
            pass
    scratch = os.statvfs("/mnt")
    used += (scratch.f_blocks - scratch.f_bfree) * scratch.f_frsize
    limit = native.limits()[0] if native is not None else 0
    limit = limit or os.sysconf("SC_PHYS_PAGES") * PAGE
    return limit, min(used, limit)


def meminfo():
    limit, used = memory()
    free = (limit - used) // 1024
    rows = {"MemTotal": limit // 1024, "MemFree": free, "MemAvailable": free}
    rows.update(dict.fromkeys(("Buffers", "Cached", "Active", "Inactive", "SwapTotal", "SwapFree", "Shmem",
                               "Slab", "SReclaimable"), 0))
    return "".join(f"{name + ':':<16}{size:8} kB\n" for name, size in rows.items())


def cores():
    return len(os.sched_getaffinity(0)) or 1


def busy():
    """Ticks: (in programs, in the kernel, idle) of all cores since the oldest process began."""
    found = [fields for _, fields in processes()]
    user = sum(int(fields[11]) + int(fields[13]) for fields in found)
    system = sum(int(fields[12]) + int(fields[14]) for fields in found)
    began = min((int(fields[FIRST]) for fields in found), default=0)
    lived = max(int(clock_gettime(CLOCK_BOOTTIME) * TICKS) - began, 0)
    return user, system, max(lived * cores() - user - system, 0)


def running():
    return sum(fields[0] == b"R" for _, fields in processes())


def stat():
    times, count = busy(), cores()
    rows = [("cpu ", times)] + [(f"cpu{i}", [one // count for one in times]) for i in range(count)]
    lines = [f"{name} {user} 0 {system} {idle} 0 0 0 0 0 0" for name, (user, system, idle) in rows]
    # The clock that starting times of processes count from; code can read it anyway.
    began = int(time() - clock_gettime(CLOCK_BOOTTIME))
    lines += ["intr 0", "ctxt 0", f"btime {began}", f"processes {len(processes())}",
              f"procs_running {running()}", "procs_blocked 0", "softirq 0"]
    return "\n".join(lines) + "\n"


def cpuinfo():
    count = cores()
    return "".join(f"processor\t: {i}\nmodel name\t: box\nphysical id\t: 0\ncore id\t\t: {i}\ncpu cores\t: {count}\n\n"
                   for i in range(count))


def getloadavg():
    """How many processes of the box run now: averages are kept for the whole machine only."""
    return (float(running()),) * 3


FILES = {"/proc/meminfo": meminfo, "/proc/stat": stat, "/proc/cpuinfo": cpuinfo,
         "/proc/vmstat": lambda: "pswpin 0\npswpout 0\n"}


def opener(plain, kind):
    def open_file(name, *args, **kwargs):
        try:
            return plain(name, *args, **kwargs)
        except FileNotFoundError:
            if name not in FILES:
                raise
            text = FILES[name]()
            return BytesIO(text.encode()) if kind is bytes else StringIO(text)
    return open_file


def adopt_psutil(module):
    module.open_binary = opener(module.open_binary, bytes)
    module.open_text = opener(module.open_text, str)
    try:
        os.getloadavg()
    except OSError:
        os.getloadavg = getloadavg      # which psutil hands on
    if hasattr(module, "set_scputimes_ntuple"):         # before psutil 7
        module.set_scputimes_ntuple("/proc")
    else:
        module.ntp.scputimes = module.scputimes = module._scputimes_ntuple("/proc")


ADOPT = {"psutil._pslinux": adopt_psutil}
