# SPDX-License-Identifier: Apache-2.0
"""machine: what code reads about the machine, as it is for the box.

The /proc of a box shows its processes and nothing else. The texts of FILES, which it lacks, are made here from the
limits of the box and from its own processes. display.look_for_proc() calls adopt_files() when the text of a run
names /proc, and display.adopt() a function of ADOPT when code has imported the library; other runs open their files
as always. All runs in the user process of a box, among user code, and tells code about itself only.
"""

import builtins
import io
import os
import sys
from io import BufferedReader, BytesIO, TextIOWrapper
from time import CLOCK_BOOTTIME, clock_gettime, time

from base import __builtins__           # first: functions look builtins up there
from base import in_c

try:
    import _constrictor as native
except ImportError:
    native = None

PAGE, TICKS = os.sysconf("SC_PAGESIZE"), os.sysconf("SC_CLK_TCK")
FIRST = 22 - 3              # starttime in stat, behind the name of the program
LIKE = "/proc/self/status"  # what stat() says of a file in /proc


# ---- The texts ----------------------------------------------------------------------------------

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
    """(limit, used), in bytes. Used: private memory of the processes, and files of scratch."""
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


def running(found):
    return sum(fields[0] == b"R" for _, fields in found)


def stat():
    times, count, found = busy(), cores(), processes()
    rows = [("cpu ", times)] + [(f"cpu{i}", [one // count for one in times]) for i in range(count)]
    lines = [f"{name} {user} 0 {system} {idle} 0 0 0 0 0 0" for name, (user, system, idle) in rows]
    # The clock that starting times of processes count from; code can read it anyway.
    began = int(time() - clock_gettime(CLOCK_BOOTTIME))
    lines += ["intr 0", "ctxt 0", f"btime {began}", f"processes {len(found)}",
              f"procs_running {running(found)}", "procs_blocked 0", "softirq 0"]
    return "\n".join(lines) + "\n"


def cpuinfo():
    count = cores()
    return "".join(f"processor\t: {i}\nmodel name\t: box\nphysical id\t: 0\nsiblings\t: {count}\n"
                   f"core id\t\t: {i}\ncpu cores\t: {count}\n\n" for i in range(count))


def uptime():
    """By the clock that starting times of processes count from; the second number is of the box's cores."""
    return f"{clock_gettime(CLOCK_BOOTTIME):.2f} {busy()[2] / TICKS:.2f}\n"


def getloadavg():
    """How many processes of the box run now: averages are kept for the whole machine only."""
    return (float(running(processes())),) * 3


def loadavg():
    found = processes()
    now = running(found)
    return f"{now:.2f} {now:.2f} {now:.2f} {now}/{len(found)} {max((int(pid) for pid, _ in found), default=0)}\n"


FILES = {"/proc/meminfo": meminfo, "/proc/stat": stat, "/proc/cpuinfo": cpuinfo, "/proc/loadavg": loadavg,
         "/proc/uptime": uptime, "/proc/vmstat": lambda: "pswpin 0\npswpout 0\n"}


def maker_of(path, *_, **__):
    """The function that makes the text of a path; None for other files."""
    try:
        return FILES.get(os.fsdecode(path))
    except TypeError:
        return None         # a descriptor


# ---- Opening ------------------------------------------------------------------------------------
# Each function calls the one that it replaces first, with any arguments.

plain_open, plain_os_open, plain_stat, plain_access = io.open, os.open, os.stat, os.access


class Text(BytesIO):
    mode = "rb"


def reader_of(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *_, **__):
    """What open() returns; None for other files, and for a mode that does not only read."""
    make = maker_of(file)
    if make is None or not set("rbt").issuperset(mode):
        return None
    raw = Text(make().encode())
    raw.name = file
    reader = BufferedReader(raw)
    if "b" not in mode:
        reader = TextIOWrapper(reader, encoding, errors, newline)
        reader.mode = mode
    return reader


def open_file(*args, **kwargs):
    try:
        return plain_open(*args, **kwargs)
    except FileNotFoundError:
        reader = reader_of(*args, **kwargs)
        if reader is None:
            raise
        return reader


def pipe_of(path, flags, *_, **__):
    """The same for os.open(). A pipe, because not every box may have a file without a name."""
    make = maker_of(path)
    if make is None or flags & os.O_ACCMODE != os.O_RDONLY:
        return None
    text, (end, other) = make().encode(), os.pipe()
    try:
        os.set_blocking(other, False)
        if os.write(other, text) == len(text):
            return end
    except BlockingIOError:
        pass
    finally:
        os.close(other)
    os.close(end)           # the text is longer than a pipe may be
    return None


def open_descriptor(*args, **kwargs):
    try:
        return plain_os_open(*args, **kwargs)
    except FileNotFoundError:
        end = pipe_of(*args, **kwargs)
        if end is None:
            raise
        return end


def stat_file(*args, **kwargs):
    try:
        return plain_stat(*args, **kwargs)
    except FileNotFoundError:
        if maker_of(*args, **kwargs) is None:
            raise
        return plain_stat(LIKE)


def may_read(path, mode, *_, **__):
    return maker_of(path) is not None and not mode & (os.W_OK | os.X_OK)


def access_file(*args, **kwargs):
    return plain_access(*args, **kwargs) or may_read(*args, **kwargs)


# ---- Installing ---------------------------------------------------------------------------------

class State:
    adopted = False


def replace(owners, name, function):
    """Puts the function in the place of the owners' own, also where os lists what that can do."""
    plain = getattr(owners[0], name)
    new = in_c(owners[0], name, function, plain)
    for can in os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids:
        if plain in can:
            can.add(new)
    for owner in owners:
        if vars(owner).get(name) is plain:
            setattr(owner, name, new)


def adopt_files():
    if State.adopted:
        return
    State.adopted = True
    # Before CPython 3.11 pathlib keeps functions of its own, if it has been imported.
    accessor = getattr(sys.modules.get("pathlib"), "_NormalAccessor", None)
    paths = [accessor] if accessor is not None else []
    replace([io, builtins, *paths], "open", open_file)
    replace([os], "open", open_descriptor)
    replace([os, *paths], "stat", stat_file)
    replace([os], "access", access_file)


def adopt_psutil(module):
    sys.modules["psutil._common"].open = open_file      # open_binary() and open_text() are there
    if hasattr(module, "set_scputimes_ntuple"):         # before psutil 7
        module.set_scputimes_ntuple("/proc")
    else:
        module.ntp.scputimes = module.scputimes = module._scputimes_ntuple("/proc")


def adopt_loky(module):
    module.physical_cores_cache = cores()       # else it starts lscpu, which finds none, and warns


ADOPT = {"psutil._pslinux": adopt_psutil, "joblib.externals.loky.backend.context": adopt_loky,
         "loky.backend.context": adopt_loky}
