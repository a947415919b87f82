# SPDX-License-Identifier: Apache-2.0
"""What the kernel counts per user: a box that takes all of it stops neither the server nor other boxes.

Boxes of an ordinary user may have that user's uid, and so has the server."""

import contextlib
import os
import resource
import subprocess

import pytest

from rest_client import serve


def shared(cli, *flags):
    """A server whose boxes have its own uid.  Where the user has subordinate ids, an interpreter that others may not read
    keeps the boxes from having them."""
    if os.geteuid() == 0:
        return serve(cli, "--stock", "1", *flags)
    folder = cli.folder / "private"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", folder], check=True)
    folder.chmod(0o700)
    api = serve(cli, "--stock", "1", "--python", folder / "bin" / "python", *flags)
    assert "caller's uid" in api.run("1")["isolation"]["uid"]
    return api


def session(api, name, code, **fields):
    """A session keeps what its code took."""
    result = api.run(code, session=name, **fields)
    assert result["verdict"] == "ok", result
    return result


def works(api):
    with contextlib.suppress(OSError):
        return api.run("6 * 7").get("result") == "42"
    return False


IN_FLIGHT = """
import array, socket
held = []
def pair():
    held.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
    return held[-1]
sent = 0
source = socket.socket(socket.AF_UNIX)
try:
    while sent < 2000:
        a, b = pair()
        a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [source.fileno()] * 250))])
        sent += 250
except OSError as error:
    pass
sent
"""


def test_descriptors_in_flight_do_not_stop_other_boxes(cli):
    """They are counted per user, and the sender's limit of open files is the bound."""
    api = shared(cli)
    held = session(api, "flight", IN_FLIGHT)
    assert int(held["result"]) >= 500, held
    assert all(works(api) for _ in range(20))
    assert session(api, "second", "6 * 7")["result"] == "42"
    assert api.run("len(held)", session="flight")["verdict"] == "ok"


# Every process of the box: as many epoll instances as files, in about equal parts.
WATCHES = """
import os, select, time
def take():
    pipes = [os.pipe() for _ in range(56)]
    total = 0
    try:
        while True:
            one = select.epoll()
            kept.append(one)
            for pipe in pipes:
                for fd in pipe:
                    one.register(fd, 0)
                    total += 1
    except OSError as error:
        return total, error.errno
kept, sums, last = [], 0, 0
for _ in range(60):
    r, w = os.pipe()
    if os.fork() == 0:
        os.write(w, ("%d %d" % take()).encode())
        time.sleep(3600)
    os.close(w)
    total, last = map(int, os.read(r, 64).split())
    os.close(r)
    sums += total
    if last == 28:
        break
(sums, last)
"""


@pytest.mark.user
def test_epoll_watches_do_not_stop_the_server(cli):
    """fs.epoll.max_user_watches is per user: boxes take all of them while others work on."""
    with open("/proc/sys/fs/epoll/max_user_watches", encoding="ascii") as file:
        limit = int(file.read())
    api = shared(cli, "--memory", "1g")
    taken, errnum = 0, 0
    for i in range(12):
        held = session(api, f"watches{i}", WATCHES)
        total, errnum = eval(held["result"])
        taken += total
        if errnum == 28:
            break
    print(f"{taken} of {limit} watches")
    assert errnum == 28, f"{taken} of {limit}"
    assert all(works(api) for _ in range(20))
    assert session(api, "another", "6 * 7")["result"] == "42"
    assert api.run("1 + 1", session="another")["result"] == "2"


@pytest.mark.root
def test_gate_and_porter_have_uids_of_their_own(cli, tools):
    """A gate that was taken over can neither signal nor trace the porter."""
    api = serve(cli)
    uids = {}
    for pid in [api.process.pid, *tools.children(api.process.pid)]:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as comm, open(f"/proc/{pid}/status", encoding="utf-8") as file:
            name = "gate" if tools.is_gate(pid) and pid != api.process.pid else comm.read().strip()
            words = next(line for line in file if line.startswith("Uid:")).split()[1:]
        uids[name] = set(words)
    assert len(uids["gate"]) == len(uids["constrictor-env"]) == 1
    assert not uids["gate"] & uids["constrictor-env"]
    with open(cli.folder / "state" / "environments.lock", encoding="utf-8") as lock:
        assert lock.readline().strip() == str(api.process.pid)
    owner = {name: {str(os.stat(cli.folder / "state" / "environments" / name).st_uid)} for name in ("wheels", "rows")}
    assert owner == {"wheels": uids["constrictor-env"], "rows": uids["gate"]}


@pytest.mark.parametrize("limit", [48, 64, 96, 128])
@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("run", "-c", "print(6 * 7)")])
def test_too_few_open_files_are_said_at_the_start(cli, command, limit):
    """Not by a server that says that it is ready and can make no box."""
    result = cli.call(*command, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
    assert result.status == 70, result
    assert f"{limit} open files are too few" in result.err and "ulimit -n" in result.err, result
    assert "ready" not in result.out


def test_as_many_open_files_as_it_asks_for_are_enough(cli):
    few = cli.call("serve", "--port", "0", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
    need = int(few.err.partition("ulimit -n ")[2].partition("'")[0])
    api = serve(cli, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (need, need)))
    assert all(works(api) for _ in range(5))
    assert session(api, "one", "6 * 7")["result"] == "42"


# Soft limit of pipe pages: 64 MiB of pipes, after which every new pipe of the user has two pages.
PIPES = """
import fcntl, os
held, pages = [], 0
try:
    for _ in range(110):
        held.append(os.pipe())
        pages += fcntl.fcntl(held[-1][1], 1031, 1 << 20) >> 12
except OSError:
    pass
pages
"""

# Signals that wait, and message queues, locked memory: by limits of the box.
SIGNALS = """
import ctypes, os, signal
libc = ctypes.CDLL(None)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
count = 0
while libc.sigqueue(os.getpid(), signal.SIGRTMIN, ctypes.c_void_p(0)) == 0 and count < 100000:
    count += 1
count
"""

PROCESSES = """
import os, time
count = 0
try:
    while os.fork():
        count += 1
    else:
        time.sleep(3600)
except OSError:
    pass
count
"""


@pytest.mark.parametrize("code, least, boxes", [(PIPES, 1024, 3), (SIGNALS, 500, 3), (PROCESSES, 40, 3)])
def test_other_counters_do_not_stop_the_server(cli, code, least, boxes):
    api = shared(cli)
    for i in range(boxes):
        held = session(api, f"holds{i}", code)
        assert i or int(held["result"]) >= least, held
    assert all(works(api) for _ in range(10))
    assert len(api.run("print('x' * 200000)")["stdout"]) == 200001
    assert session(api, "another", "6 * 7")["result"] == "42"
