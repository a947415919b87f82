# SPDX-License-Identifier: Apache-2.0
"""The posture of a live box, seen from the host and from inside, against one expected struct.

A run starts threads and children and sleeps; meanwhile the test reads /proc of every process of
the box: credentials, capabilities, namespaces, mounts, descriptors, limits, for each thread. Root
can see all of it. An ordinary user sees what the kernel shows to the owner of a user namespace;
what it hides is checked from inside.
"""

import json
import os
import pathlib
import re

import pytest

CODE = """
import ctypes, os, subprocess, threading, time
libc = ctypes.CDLL(None)
for i in range(%d):
    subprocess.run(['/bin/true'], check=True)
    t = threading.Thread(target=abs, args=(1,)); t.start(); t.join()
    with open('/tmp/%%d' %% i, 'wb') as f: f.write(bytes(1 << 16))
libc.prctl(15, b'posture')
for i in range(3):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
subprocess.Popen(['/bin/sleep', '60'])
if os.fork() == 0:
    time.sleep(60); os._exit(0)
print('ready', flush=True)
time.sleep(60)
"""

ZERO = "0000000000000000"
# Of every thread of every process in a box. Uid, Gid and Groups depend on the caller.
STATUS = {
    "CapInh": ZERO,
    "CapPrm": ZERO,
    "CapEff": ZERO,
    "CapBnd": ZERO,
    "CapAmb": ZERO,
    "NoNewPrivs": "1",
    "Seccomp": "2",
}
NAMESPACES = ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup")
LIMITS = {
    "Max core file size": ("0", "1"),
    "Max locked memory": ("0",),
    "Max msgqueue size": ("0",),
    "Max open files": ("256",),
    "Max file size": (str(256 << 20),),
}
# One tmpfs: mounted as /mnt, with /mnt/data in it, or as /mnt/data alone.
WRITABLE = {"/tmp", "/dev/shm", "/mnt", "/mnt/data"}
DEVICES = {"/dev/" + name for name in "null zero full random urandom".split()}
NEVER_MOUNTED = set(
    "sysfs cgroup cgroup2 debugfs tracefs securityfs bpf devpts devtmpfs configfs pstore efivarfs"
    " mqueue binfmt_misc fusectl hugetlbfs nsfs autofs".split()
)
UID_BASE = 1900000000


def fields(path):
    text = pathlib.Path(path).read_text()
    return {key: value.strip() for key, value in re.findall(r"^(\S+):(.*)$", text, re.MULTILINE)}


class Mount:
    """One line of mountinfo."""

    def __init__(self, line):
        left, _, right = line.partition(" - ")
        words = left.split()
        self.point = words[4]
        self.flags = set(words[5].split(","))
        self.propagation = words[6:]
        self.type, _, super_flags = right.split(" ", 2)
        self.super_flags = set(super_flags.split(","))
        self.line = line

    @property
    def read_only(self):
        return "ro" in self.flags or "ro" in self.super_flags


@pytest.fixture(scope="module", params=[0, 30], ids=["fresh", "after_load"])
def box(request, shared_cli, tools):
    """The processes of a live box: its init, the code, and the code's children."""
    process = shared_cli.ready(CODE % request.param, "--wall", "60s")
    below = tools.descendants(process.pid)
    code = [pid for pid in below if fields(f"/proc/{pid}/status")["Name"] == "posture"]
    # the code, and the child it forked
    depth = {pid: len(fields(f"/proc/{pid}/status")["NSpid"].split()) for pid in below}
    code = [pid for pid in code if fields(f"/proc/{pid}/status")["NSpid"].split()[-1] == "2"]
    assert len(code) == 1, f"the code is not pid 2 of its box:\n{tools.describe(below)}"

    class Box:
        pass

    Box.code = code[0]
    Box.init = int(fields(f"/proc/{Box.code}/status")["PPid"])
    Box.all = [Box.init, *tools.descendants(Box.init)]
    Box.top = process.pid
    Box.below = below
    Box.depth = depth
    yield Box
    tools.kill_tree(process.pid)
    process.communicate()


def test_shape(box, tools):
    """init, code, sleep, and the forked child; all in the innermost pid namespace."""
    assert len(box.all) == 4, tools.describe(box.below)
    assert fields(f"/proc/{box.init}/status")["NSpid"].split()[-1] == "1"
    assert {box.depth[pid] for pid in box.all} == {box.depth[box.init]}
    assert box.depth[box.init] >= 2


def threads(box):
    for pid in box.all:
        for task in os.listdir(f"/proc/{pid}/task"):
            yield pid, task, fields(f"/proc/{pid}/task/{task}/status")


def test_credentials_of_every_thread(box):
    differences = []
    count = 0
    for pid, task, status in threads(box):
        count += 1
        seen = {key: status.get(key) for key in STATUS}
        if seen != STATUS:
            differences.append((status["Name"], pid, task, seen))
    assert differences == []
    assert count >= 7  # init, code and its three threads, two children


def test_ids_of_every_thread(box):
    ids = {(status["Uid"], status["Gid"], status["Groups"]) for _, _, status in threads(box)}
    assert len(ids) == 1, ids
    uid, gid, groups = ids.pop()
    uids, gids = set(map(int, uid.split())), set(map(int, gid.split()))
    assert len(uids) == len(gids) == 1
    if os.geteuid() == 0:
        assert UID_BASE <= min(uids) < UID_BASE + (1 << 24)
        assert UID_BASE <= min(gids) < UID_BASE + (1 << 24)
        assert groups == ""
    else:
        assert uids == {os.getuid()}
        assert gids == {os.getgid()}
        # an ordinary user cannot give up the groups it has
        assert set(map(int, groups.split())) <= set(os.getgroups()) | {os.getgid(), 65534}


def namespaces_of(pid):
    return {kind: os.readlink(f"/proc/{pid}/ns/{kind}") for kind in NAMESPACES}


def readable(function, *args):
    """None where the kernel hides it from an ordinary user; root has to see it."""
    try:
        return function(*args)
    except PermissionError:
        if os.geteuid() == 0:
            raise
        return None


def test_namespaces(box):
    host = namespaces_of("self")
    inside = {pid: readable(namespaces_of, pid) for pid in box.all}
    for seen in filter(None, inside.values()):
        assert {kind for kind in NAMESPACES if seen[kind] == host[kind]} == set()
        assert seen == inside[box.init]


def test_mounts(box):
    mounts = [
        Mount(line) for line in pathlib.Path(f"/proc/{box.code}/mountinfo").read_text().splitlines()
    ]
    by_point = {mount.point: mount for mount in mounts}
    assert by_point["/"].read_only
    for mount in mounts:
        assert not mount.propagation, f"propagates: {mount.line}"
        if mount.point in DEVICES:
            assert "nosuid" in mount.flags, mount.line
        else:
            assert mount.type not in NEVER_MOUNTED, mount.line
            assert mount.read_only or {"nosuid", "nodev"} <= mount.flags, mount.line
            assert "nosuid" in mount.flags, mount.line
    writable = {mount.point for mount in mounts if not mount.read_only} - DEVICES - {"/proc"}
    assert writable <= WRITABLE, writable
    for point in writable:
        assert by_point[point].type == "tmpfs"
        assert {"nosuid", "nodev"} <= by_point[point].flags
    assert {"nosuid", "nodev", "noexec"} <= by_point["/proc"].flags
    assert by_point["/proc"].type == "proc"


def links(pid):
    folder = f"/proc/{pid}/fd"
    return {int(fd): os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)}


def test_descriptors(box):
    for pid in box.all:
        open_fds = readable(links, pid)
        if open_fds is None:
            continue
        if pid == box.init:
            # The control socket and what init needs to wait; never a folder or a file of the host.
            kinds = {link.split(":")[0] for link in open_fds.values()}
            assert kinds <= {"socket", "pipe", "anon_inode", "/dev/null"}, open_fds
            assert len(open_fds) <= 8, open_fds
        else:
            assert sorted(open_fds) == [0, 1, 2], open_fds
            assert open_fds[0] == "/dev/null"
            assert open_fds[1].startswith("pipe:") and open_fds[2].startswith("pipe:")


def test_limits(box):
    text = pathlib.Path(f"/proc/{box.code}/limits").read_text()
    for name, allowed in LIMITS.items():
        soft, hard = re.search(rf"^{name}\s+(\S+)\s+(\S+)", text, re.MULTILINE).groups()
        assert soft in allowed and hard in allowed, (name, soft, hard)


def test_root_and_folder(box):
    root = readable(os.stat, f"/proc/{box.code}/root/")
    if root is not None:
        here = os.stat("/")
        assert (root.st_dev, root.st_ino) != (here.st_dev, here.st_ino)
        assert os.readlink(f"/proc/{box.code}/cwd") == "/mnt/data"


@pytest.mark.root
def test_groups_of_control(box):
    """Every process of the box is in groups of its own, and in the same ones."""

    def groups(pid):
        lines = pathlib.Path(f"/proc/{pid}/cgroup").read_text().split()
        return {line.split(":")[1]: line.split(":", 2)[2] for line in lines}

    mine = groups("self")
    inside = [groups(pid) for pid in box.all]
    assert all(one == inside[0] for one in inside)
    if inside[0].get("") == mine.get("") or "memory" in mine:
        for controller in ("memory", "pids"):
            assert inside[0][controller] != mine[controller]


@pytest.mark.root
def test_gate_has_no_privileges(box):
    """Between the keeper and the client: a process without capabilities."""
    gates = []
    for pid in box.below:
        status = fields(f"/proc/{pid}/status")
        sampler = status["Name"] == "constrictor-see"
        if status["PPid"] == str(box.top) and box.depth[pid] == 1 and not sampler:
            gates.append(status)
    assert len(gates) == 1, gates
    assert gates[0]["CapPrm"] == gates[0]["CapEff"] == gates[0]["CapAmb"] == ZERO
    assert gates[0]["NoNewPrivs"] == "1"


@pytest.mark.root
def test_zygote_is_jailed(box):
    """A stale zygote is worth nothing: own namespaces, no uid of the host."""
    host = namespaces_of("self")
    zygotes = {pid for pid in box.below if 1 < box.depth[pid] < box.depth[box.init]}
    assert zygotes
    for pid in zygotes:
        seen = namespaces_of(pid)
        shared = {kind for kind in NAMESPACES if seen[kind] == host[kind]}
        assert shared <= {"cgroup"}, shared
        status = fields(f"/proc/{pid}/status")
        assert "0" not in status["Uid"].split()
        assert status["NoNewPrivs"] == "1"
        assert not [
            link
            for link in links(pid).values()
            if link.startswith("/") and link not in ("/dev/null", "/proc")
        ]


INSIDE = """
import json, os, threading, time
def is_open(fd):
    try: return bool(os.fstat(fd))
    except OSError: return False
threads = [threading.Thread(target=time.sleep, args=(2,)) for i in range(3)]
[t.start() for t in threads]
seen = []
for task in os.listdir('/proc/self/task'):
    with open('/proc/self/task/%%s/status' %% task) as f:
        seen.append(dict(line.rstrip('\\n').split(':\\t', 1) for line in f if ':\\t' in line))
print(json.dumps({
    'threads': seen,
    'ns': {k: os.stat('/proc/self/ns/' + k).st_ino for k in %r},
    'mounts': open('/proc/self/mountinfo').read().splitlines(),
    'fds': [fd for fd in range(4096) if is_open(fd)],
}), flush=True)
os._exit(0)
""" % (NAMESPACES,)


def test_from_inside(cli):
    """What an ordinary user's kernel hides from the outside, every box can say about itself."""
    result = cli.run(INSIDE)
    assert result.verdict == "ok", result
    seen = json.loads(result.stdout)
    assert len(seen["threads"]) == 4
    for status in seen["threads"]:
        assert {key: status[key] for key in STATUS} == STATUS
        assert status["Uid"].split() == ["1000"] * 4
        assert status["Gid"].split() == ["1000"] * 4
    for kind in NAMESPACES:
        assert seen["ns"][kind] != os.stat(f"/proc/self/ns/{kind}").st_ino, kind
    for mount in map(Mount, seen["mounts"]):
        assert (
            mount.read_only or {"nosuid", "nodev"} <= mount.flags or mount.point in DEVICES
        ), mount.line
    assert seen["fds"] == [0, 1, 2]
