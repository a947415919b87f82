# SPDX-License-Identifier: Apache-2.0
"""The checks that run inside the guest of tests/vm/run, one phase per process.

tests/vm/guest starts this file in the cgroup and as the user that the phase is about:
base (root; the guest itself is what the other phases need), root, charges (root; rows of
tests/probe/table_charges.py), delegated (a user with a shell below a systemd --user that has enabled the
controllers), bare (the same without one: nothing is enabled yet), service (a unit with User= and
Delegate=yes) and undelegated (a user who owns no cgroup).  It prints one "ok" or "not ok" line per
check and exits with 1 if one failed.

System calls are 20 to 40 times slower in here than on a real machine, so limits on time are
generous and every phase makes as few runs as it can.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import charges
import table_charges

CONSTRICTOR = "/vm/build/constrictor"
CGROUP_ROOT = pathlib.Path("/sys/fs/cgroup")
SERVICE = CGROUP_ROOT / "system.slice/delegated.service"
MIB = 1 << 20

MEMORY_BOMB = "x = []\nwhile True: x.append(bytearray(1 << 20))"
FORK_BOMB = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
SHM_FILL = """
with open("/dev/shm/fill", "wb", buffering=0) as f:
    while True:
        f.write(b"x" * (1 << 20))
"""
POOL_BOMB = """
import multiprocessing
def bomb(i):
    x = []
    while True:
        x.append(bytearray(1 << 20))
with multiprocessing.Pool(2) as pool:
    pool.map(bomb, range(2))
"""
# What a child process takes must be in the usage too, and only a cgroup sees it all.
USAGE = """
import os, time
if os.fork() == 0:
    x = bytearray(b"x" * (40 << 20))
    while time.process_time() < 0.5:
        pass
    os._exit(0)
os.wait()
"""


class Checks:
    """Starts the program for one phase, prints the result lines and counts them."""

    def __init__(self, phase):
        self.phase = phase
        self.before_exec = None
        self.environment = dict(os.environ)
        self.passed = 0
        self.failed = 0

    def check(self, name, good, detail=""):
        if good:
            self.passed += 1
        else:
            self.failed += 1
        print(f"{'ok' if good else 'not ok'} - {self.phase}: {name}", flush=True)
        if not good and detail != "":
            text = detail if isinstance(detail, str) else json.dumps(detail, indent=1)
            for line in text.splitlines():
                print(f"#   {line}", flush=True)
        return good

    def constrictor(self, *args, timeout=600):
        """Run the program; its JSON answer as a dict, with what a failed check wants to show."""
        started = time.monotonic()
        try:
            done = subprocess.run(
                [CONSTRICTOR, *args],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                preexec_fn=self.before_exec,
                env=self.environment,
            )
            status, out, err = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as e:
            status, out, err = None, str(e.stdout or ""), f"no answer within {timeout} s"
        try:
            answer = json.loads(out)
        except ValueError:
            answer = {"unreadable": out[-2000:]}
        answer["_status"] = status
        answer["_stderr"] = err[-2000:]
        answer["_took_ms"] = round((time.monotonic() - started) * 1000)
        return answer

    def run(self, code, *options):
        return self.constrictor("run", "--json", "--wall", "30s", *options, "-c", code)


def usage(answer, key):
    return answer.get("usage", {}).get(key) or 0


def cgroup_layer(doctor):
    """The cgroup entry of `doctor --json`."""
    for layer in doctor.get("layers", []):
        if layer.get("name") == "cgroup":
            return layer
    return {}


def cgroups():
    return {str(path) for path in CGROUP_ROOT.rglob("*") if path.is_dir()}


def processes():
    """Ids of all processes that are not kernel threads."""
    found = set()
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cmdline").read_bytes():
                found.add(int(entry.name))
        except OSError:
            pass
    return found


def settle(look, before):
    """What look() finds beyond before; it gets a moment to go away."""
    for _ in range(20):
        extra = look() - before
        if not extra:
            break
        time.sleep(0.1)
    return sorted(extra)


def as_user(user, command):
    done = subprocess.run(["su", user, "-c", command], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def phase_base(c):
    with open("/proc/self/mountinfo") as f:
        mounts = [line.split() for line in f]
    c.check(
        "cgroup v2 is mounted at /sys/fs/cgroup and no v1 hierarchy exists",
        any(m[4] == str(CGROUP_ROOT) and "cgroup2" in m for m in mounts)
        and not any("cgroup" in m for m in mounts),
    )
    controllers = (CGROUP_ROOT / "cgroup.controllers").read_text().split()
    c.check("memory, pids and cpu belong to v2", {"memory", "pids", "cpu"} <= set(controllers))
    masked = [m[4] for m in mounts if m[4].startswith("/proc/")]
    c.check("/proc is not masked", not masked, " ".join(masked))
    status, text = as_user("alice", "unshare -U -r -m -p -f sh -c 'mount -t proc p /proc && id -u'")
    c.check("a user can make namespaces and mount /proc", (status, text.strip()) == (0, "0"), text)
    leaf = "user.slice/user-1000.slice/user@1000.service/app.slice/terminal.scope"
    status, text = as_user("alice", f"cat {CGROUP_ROOT}/{leaf}/cgroup.controllers")
    c.check("alice's leaf has the controllers", {"memory", "pids"} <= set(text.split()), text)
    status, text = as_user("alice", f"mkdir {CGROUP_ROOT}/{leaf}/x && rmdir {CGROUP_ROOT}/{leaf}/x")
    c.check("alice can make groups in it", status == 0, text)
    leaf = "user.slice/user-1001.slice/session-1.scope"
    status, text = as_user("bob", f"mkdir {CGROUP_ROOT}/{leaf}/x")
    c.check("bob cannot make groups in his", status != 0, text)


def check_limits(c):
    """The verdicts that depend on the cgroup, or on its fallback."""
    r = c.run(MEMORY_BOMB, "--memory", "64M")
    c.check("a memory bomb ends as out_of_memory", r.get("verdict") == "out_of_memory", r)
    r = c.run(FORK_BOMB, "--processes", "16")
    c.check("a fork bomb ends as too_many_processes", r.get("verdict") == "too_many_processes", r)
    r = c.run("import sys; sys.exit(137)")
    c.check(
        "exit(137) is an exit code",
        r.get("verdict") == "error" and r.get("exit_code") == 137 and r.get("signal") is None,
        r,
    )


def check_cgroup_limits(c):
    """More verdicts, for the phases in which a cgroup is there."""
    r = c.run(SHM_FILL, "--memory", "64M", "--scratch", "256M")
    c.check(
        "filling /dev/shm ends as out_of_memory or disk_full",
        r.get("verdict") in ("out_of_memory", "disk_full"),
        r,
    )
    r = c.run("while True: pass", "--cpu", "1s")
    c.check("a busy loop ends as timeout_cpu", r.get("verdict") == "timeout_cpu", r)
    r = c.run(f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})")
    c.check(
        "a SIGKILL of its own is an error with signal 9",
        r.get("verdict") == "error" and r.get("signal") == signal.SIGKILL,
        r,
    )
    r = c.run(POOL_BOMB, "--memory", "64M")
    c.check("a pool worker out of memory ends the box", r.get("verdict") == "out_of_memory", r)


def check_usage(c):
    r = c.run("print(1)")
    c.check("print(1) is ok", r.get("verdict") == "ok" and r.get("stdout") == "1\n", r)
    c.check("its usage has memory", usage(r, "peak_memory_bytes") > 0, r.get("usage", {}))
    cpu = usage(r, "cpu_user_ms") + usage(r, "cpu_system_ms")
    c.check("its usage has CPU time", cpu > 0, r.get("usage", {}))
    print(f"# {c.phase}: print(1) took {r['_took_ms']} ms", flush=True)
    return r


def check_doctor(c):
    d = c.constrictor("doctor", "--json")
    layer = cgroup_layer(d)
    c.check("doctor finds every mandatory layer", d["_status"] == 0, d)
    c.check(
        "doctor says that the cgroup layer is live with v2",
        layer.get("state") == "live" and "v2" in json.dumps(layer),
        layer or d,
    )


def phase_cgroup(c):
    check_doctor(c)
    check_usage(c)
    r = c.run(USAGE)
    cpu = usage(r, "cpu_user_ms") + usage(r, "cpu_system_ms")
    c.check("usage counts the memory of children", usage(r, "peak_memory_bytes") >= 40 * MIB, r)
    c.check("usage counts the CPU time of children", cpu >= 450, r)
    check_limits(c)
    check_cgroup_limits(c)


# What the kernel charges in other ways than under v1, and one of each other kind: a row takes some seconds in here.
CHARGES = ("AF_UNIX stream, of 64 KiB", "TCP buffers", "TCP connections not accepted", "pipes", "mappings")


def phase_charges(c):
    """The host loses no more to a box than its memory limit, see tests/probe/table_charges.py."""
    for row in table_charges.ROWS:
        if row.name in CHARGES:
            most, wrong = charges.judge(row, [CONSTRICTOR], "v2", tries=2, grow_s=4)
            print(f"# {row.name}: the host lost {most:.0f} MB of {row.bound_mb('v2')}", flush=True)
            c.check(f"the host loses no more than the limit: {row.name}", not wrong, wrong or "")


def phase_bare(c):
    check_doctor(c)
    check_usage(c)
    r = c.run(MEMORY_BOMB, "--memory", "64M")
    c.check("a memory bomb ends as out_of_memory", r.get("verdict") == "out_of_memory", r)


def phase_service(c):
    """Only the program itself is in the group, so it has to be moved there at its start."""

    def become_service():
        (SERVICE / "cgroup.procs").write_text("0")
        os.setgroups([])
        os.setgid(1000)
        os.setuid(1000)

    c.before_exec = become_service
    c.environment = {"PATH": os.environ["PATH"], "HOME": "/tmp", "USER": "alice"}
    phase_bare(c)
    # The program cannot remove the group that it is in; systemd does that for a unit.
    groups = [path for path in SERVICE.rglob("*") if path.is_dir()]
    c.check("at most its own group is left in the unit", len(groups) <= 1, str(groups))
    for path in groups:
        path.rmdir()


def phase_undelegated(c):
    d = c.constrictor("doctor", "--json")
    layer = cgroup_layer(d)
    c.check("doctor does not claim a cgroup", layer and layer.get("state") != "live", layer or d)
    c.check("doctor finds every mandatory layer", d["_status"] == 0, d)
    r = check_usage(c)
    state = str(r.get("isolation", {}).get("cgroup"))
    c.check("the result says that there is no cgroup", state not in ("None", "live"), state)
    check_limits(c)


def main():
    phase = sys.argv[1]
    c = Checks(phase)
    before_groups, before_processes = cgroups(), processes()
    started = time.monotonic()
    {
        "base": phase_base,
        "root": phase_cgroup,
        "charges": phase_charges,
        "delegated": phase_cgroup,
        "bare": phase_bare,
        "service": phase_service,
        "undelegated": phase_undelegated,
    }[phase](c)
    left = settle(cgroups, before_groups)
    c.check("no cgroup is left behind", not left, "\n".join(left))
    left = settle(processes, before_processes)
    c.check("no process is left behind", not left, str(left))
    took = time.monotonic() - started
    print(f"# {phase}: {c.passed} passed, {c.failed} failed, in {took:.1f} s", flush=True)
    return 1 if c.failed else 0


if __name__ == "__main__":
    sys.exit(main())
