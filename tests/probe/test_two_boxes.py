# SPDX-License-Identifier: Apache-2.0
"""Two boxes at the same time must not find each other.

A holder makes one of everything that processes can meet at and waits; a seeker then looks for
each. Inside, holder and seeker are two boxes; outside, two ordinary interpreters, which proves
that the seeker would find what there is. Both are plain user code.
"""

import ast
import concurrent.futures
import functools
import json
import os
import secrets
import signal
import subprocess
import sys

import pytest
from rest_client import serve

HOLDER = """
import ctypes, fcntl, os, signal, socket, sys, threading, time
name = %r
libc = ctypes.CDLL(None, use_errno=True)
key = int(name, 16) & 0x7fffffff
made = []

def attempt(label, function):
    try:
        function()
        made.append(label)
    except Exception as error:
        print(label, type(error).__name__, error, file=sys.stderr)

def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), 'libc')
    return result

def abstract():
    global listener
    listener = socket.socket(socket.AF_UNIX); listener.bind('\\0' + name); listener.listen()

def datagram():
    global receiver
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); receiver.bind('\\0' + name + 'd')

def file_in(folder):
    def make():
        with open(os.path.join(folder, name), 'w') as f: f.write(name)
    return make

def fifo():
    os.mkfifo('/tmp/' + name + '.fifo')

def udp():
    global packets
    packets = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    packets.bind(('127.0.0.1', 20000 + key %% 20000))

def lock():
    global locked
    locked = os.open(os.__file__, os.O_RDONLY); fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)

def futex():
    libc.mmap.restype = ctypes.c_void_p
    page = libc.mmap(None, 4096, 1, 1, os.open(os.__file__, os.O_RDONLY), 0)
    word = ctypes.c_uint.from_address(page).value
    wait = lambda: libc.syscall(202, ctypes.c_void_p(page), 0, word, None, None, 0)
    threading.Thread(target=wait, daemon=True).start()

attempt('abstract', abstract)
attempt('datagram', datagram)
attempt('futex', futex)
attempt('tmp', file_in('/tmp'))
attempt('shm', file_in('/dev/shm'))
attempt('fifo', fifo)
attempt('udp', udp)
attempt('lock', lock)
attempt('sysv_shm', lambda: check(libc.shmget(key, 4096, 0o1666)))
attempt('sysv_sem', lambda: check(libc.semget(key, 1, 0o1666)))
attempt('sysv_msg', lambda: check(libc.msgget(key, 0o1666)))
attempt('posix_mq', lambda: check(libc.mq_open(b'/' + name.encode(), 0o102, 0o666, None)))

def clean(*_):
    for path in ('/tmp/' + name, '/dev/shm/' + name, '/tmp/' + name + '.fifo'):
        if os.path.exists(path): os.unlink(path)
    libc.mq_unlink(b'/' + name.encode())
    libc.shmctl(libc.shmget(key, 0, 0), 0, None)
    libc.semctl(libc.semget(key, 0, 0), 0, 0)
    libc.msgctl(libc.msgget(key, 0), 0, None)
    os._exit(0)

signal.signal(signal.SIGTERM, clean)
print('made', os.getpid(), *made, flush=True)
print('ready', flush=True)
time.sleep(60)
"""

SEEKER = """
import ctypes, fcntl, json, os, socket, time
name, pid = %r, %r
libc = ctypes.CDLL(None, use_errno=True)
key = int(name, 16) & 0x7fffffff
found = {}

def look(label, function):
    try:
        found[label] = bool(function())
    except OSError as error:
        found[label] = False

def connect(kind, where):
    s = socket.socket(socket.AF_UNIX, kind); s.connect(where); return True

def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(('127.0.0.1', 20000 + key %% 20000))
    s.send(b'x'); s.send(b'x'); return True

def locked():
    fd = os.open(os.__file__, os.O_RDONLY)
    try: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError: return True

def futex():
    libc.mmap.restype = ctypes.c_void_p
    page = libc.mmap(None, 4096, 1, 1, os.open(os.__file__, os.O_RDONLY), 0)
    for attempt in range(100):
        if libc.syscall(202, ctypes.c_void_p(page), 1, 1, None, None, 0) > 0: return True
        time.sleep(0.01)

def taken():
    s = socket.socket(socket.AF_UNIX)
    try: s.bind('\\0' + name)
    except OSError as error: return error.errno == 98

look('abstract', lambda: connect(socket.SOCK_STREAM, '\\0' + name))
look('abstract_name_taken', taken)
look('abstract_listed', lambda: name in open('/proc/self/net/unix').read())
look('datagram', lambda: connect(socket.SOCK_DGRAM, '\\0' + name + 'd'))
look('tmp', lambda: os.path.exists('/tmp/' + name))
look('shm', lambda: os.path.exists('/dev/shm/' + name))
look('fifo', lambda: os.path.exists('/tmp/' + name + '.fifo'))
look('udp', udp)
look('lock', locked)
look('futex', futex)
look('sysv_shm', lambda: libc.shmget(key, 0, 0) >= 0)
look('sysv_sem', lambda: libc.semget(key, 0, 0) >= 0)
look('sysv_msg', lambda: libc.msgget(key, 0) >= 0)
look('posix_mq', lambda: libc.mq_open(b'/' + name.encode(), 0) >= 0)
look('signal', lambda: pid != os.getpid() and os.kill(pid, 0) is None)
def cmdline(pid):
    try:
        return open('/proc/%%s/cmdline' %% pid, 'rb').read()
    except OSError:             # it has just ended
        return b''
look('other_python', lambda: any(
    b'ready' in cmdline(p) for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()))
print(json.dumps(found))
"""

MEETINGS = (
    "abstract abstract_name_taken abstract_listed datagram tmp shm fifo udp sysv_shm sysv_sem"
    " sysv_msg posix_mq other_python"
).split()
RESIDUALS = {
    "lock": "record locks on a shared read-only inode are a slow channel (row 93)",
    "futex": "a shared futex is known by file and offset, and multiprocessing needs them; 100 kbit/s",
}


def pid_of(text):
    return int(text.split()[1])


def seek(text, name, pid):
    return SEEKER % (name, pid)


@functools.lru_cache(maxsize=None)
def outside():
    """What two ordinary interpreters find of each other."""
    name = secrets.token_hex(8)
    command = [sys.executable, "-c", HOLDER % name]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as holder:
        try:
            made = holder.stdout.readline()
            seeker = seek(made, name, holder.pid)
            done = subprocess.run(
                [sys.executable, "-c", seeker], capture_output=True, text=True, timeout=600
            )
        finally:
            holder.send_signal(signal.SIGTERM)
        return made.split()[2:], json.loads(done.stdout)


@pytest.fixture(scope="module")
def inside(program, request):
    """The same for two boxes; the code travels as an argument, so cmdline is worth a look, too."""
    cli = request.getfixturevalue("shared_cli")
    name = secrets.token_hex(8)
    holder = cli.ready(HOLDER % name, "--wall", "60s")
    made = holder.seen.decode().splitlines()[0]
    result = cli.call("run", "-c", seek(made, name, pid_of(made) + 1000))
    assert result.status == 0, result
    found = json.loads(result.out)
    holder.send_signal(signal.SIGTERM)
    holder.communicate(timeout=60)
    return made.split()[2:], found


def applies(meeting):
    """Outside it can be met at: this kernel has it and this user may make it."""
    base = "abstract" if meeting.startswith("abstract") else meeting
    made, _ = outside()
    return meeting in ("signal", "other_python") or base in made


def pytest_generate_tests(metafunc):
    if "meeting" in metafunc.fixturenames:
        names = [*MEETINGS, "signal"] if metafunc.function is test_outside_they_meet else MEETINGS
        metafunc.parametrize("meeting", [name for name in names if applies(name)])


def test_outside_they_meet(meeting):
    assert outside()[1][meeting]


def test_boxes_do_not_meet(meeting, inside):
    assert not inside[1][meeting]


@pytest.mark.parametrize("residual", sorted(RESIDUALS))
def test_residual_is_recorded(residual, inside, record_property):
    record_property("residual", f"{residual}: {inside[1][residual]}: {RESIDUALS[residual]}")
    assert residual in inside[1]


def test_the_holder_could_hold(inside):
    """Private ones of these are part of what Python code expects to work."""
    assert {"abstract", "tmp", "shm", "fifo"} <= set(inside[0])


QUEUE = """
import ctypes, os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
libc = ctypes.CDLL(None)
count = 0
while count < 5000 and libc.sigqueue(os.getpid(), int(signal.SIGRTMIN), None) == 0:
    count += 1
count
"""


def test_queued_signals_of_one_box_leave_room_for_others(cli):
    """The kernel adds them up over user namespaces, for the user that made these."""
    api = serve(cli)
    first = api.run(QUEUE, session_id="full")["result_json"]
    assert 0 < first <= 1024
    assert api.run(QUEUE)["result_json"] == first


def test_scratch_starts_empty_each_time(cli):
    code = "import os; print([n for f in ('/tmp', '/dev/shm', '/mnt/data') for n in os.listdir(f)])"
    fill = "for f in ('/tmp', '/dev/shm', '/mnt/data'): open(f + '/left', 'w').close()"
    assert cli.plain(fill).status == 0
    assert cli.plain(code).out == "[]\n"


NAMESPACES = """
import os, time
time.sleep(float(%r))
print({k: os.stat('/proc/self/ns/' + k).st_ino for k in 'user pid mnt net ipc uts cgroup'.split()})
"""


def namespaces(client, seconds):
    answer = client.run(NAMESPACES % seconds)
    assert answer["verdict"] == "ok", answer
    return ast.literal_eval(answer["stdout"])


def test_live_boxes_of_one_zygote_share_no_namespace(cli):
    """Those that slots keep are each slot's own, also when other boxes had them before."""
    client = serve(cli, "--stock", "2", "--runs", "6")
    for _ in range(2):
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            seen = list(pool.map(lambda _: namespaces(client, 1), range(6)))
        for kind in seen[0]:
            numbers = [one[kind] for one in seen] + [os.stat(f"/proc/self/ns/{kind}").st_ino]
            assert len(set(numbers)) == 7, (kind, numbers)


def test_a_slot_keeps_its_ipc_and_network_namespace(cli):
    """Not a wall, but what the probes of System V calls and message queues stand on: see box/spawn.c."""
    client = serve(cli, "--stock", "1", "--runs", "1")
    for kind in "ipc", "net":
        seen = []
        while len(set(seen)) == len(seen) < 100:    # a busy machine uses more slots before one comes again
            seen.append(namespaces(client, 0)[kind])
        assert len(set(seen)) < len(seen), (kind, seen)


@pytest.mark.root
def test_host_uids_differ(cli, tools):
    """One uid per box: limits that the kernel counts per uid are then not shared."""
    code = "import os, time; print('ready', flush=True); time.sleep(60)"
    uids = []
    for _ in range(2):
        process = cli.ready(code)
        found = set()
        for pid in tools.descendants(process.pid):
            with open(f"/proc/{pid}/status") as file:
                fields = dict(line.split(":", 1) for line in file)
            if len(fields["NSpid"].split()) > 2:
                found.add(int(fields["Uid"].split()[0]))
        uids.append(found)
    assert uids[0] and uids[1]
    assert not uids[0] & uids[1], uids
