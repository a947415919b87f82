# SPDX-License-Identifier: Apache-2.0
"""What the kernel charges to no box is counted by the keeper: file locks, and buffers of sockets.

What the host loses is read from /proc while the box takes as much as it can. Others work on the machine as well, so the
bounds are wide: the point is that the loss stays below the memory limit of the box, and does not grow with time.
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import rest_client

MIB = 1 << 20
WALL = ("--wall", "40s", "--cpu", "80s")


def slabs():
    """Bytes of the kernel's own memory that it cannot give back."""
    with open("/proc/meminfo", encoding="ascii") as file:
        return int(re.search(r"SUnreclaim:\s+(\d+)", file.read()).group(1)) << 10


def tcp():
    """Bytes that all TCP sockets of the host hold."""
    with open("/proc/net/sockstat", encoding="ascii") as file:
        return int(re.search(r"TCP:.* mem (\d+)", file.read()).group(1)) * 4096


@contextlib.contextmanager
def loss(measure):
    """How much more there was at the worst moment than at the beginning."""
    start, worst, stop = measure(), [0], threading.Event()

    def watch():
        while not stop.wait(0.01):
            worst[0] = max(worst[0], measure() - start)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield worst
    finally:
        stop.set()
        thread.join()


LOCKS = """
import fcntl, os, struct, time
def take(folder):
    os.mkdir(folder)
    files = [os.open(f"{folder}/{i}", os.O_RDWR | os.O_CREAT) for i in range(FILES)]
    for n in range(200_000):
        lock = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 2 * n, 1, 0)
        for file in files:
            fcntl.fcntl(file, fcntl.F_SETLK, lock)
for i in range(PROCESSES):
    if not os.fork():
        try: take(str(i))
        finally: time.sleep(60)
time.sleep(30)
"""


def take_locks(processes, files):
    return LOCKS.replace("PROCESSES", str(processes)).replace("FILES", str(files))


def assert_locks_were_counted(result, lost):
    assert result.verdict == "out_of_memory" and result.status == 137, result
    assert "file locks" in result.hint, result
    assert lost[0] < 64 * MIB, f"the host lost {lost[0] >> 20} MiB under a limit of 64 MiB"


def test_file_locks_of_many_processes_are_counted(cli):
    with loss(slabs) as lost:
        result = cli.run(take_locks(24, 100), "--memory", "64M", *WALL)
    assert_locks_were_counted(result, lost)


def test_file_locks_of_one_process_are_counted(cli):
    with loss(slabs) as lost:
        result = cli.run(take_locks(1, 200), "--memory", "64M", *WALL)
    assert_locks_were_counted(result, lost)


HEIRS = """
import ctypes, os, signal
CLONE_FILES, CLONE = 0x400, 56
libc = ctypes.CDLL(None, use_errno=True)
pid = libc.syscall(CLONE, CLONE_FILES | signal.SIGCHLD, 0, 0, 0, 0)
if pid == 0:
    os._exit(0)
print(pid, ctypes.get_errno())
"""


def test_no_process_leaves_its_locks_to_others(cli):
    """The locks of a child that shares the table of descriptors outlive the child, and /proc/locks names the dead."""
    assert cli.run(HEIRS).stdout == "-1 22\n"


def test_locks_of_other_programs_hide_no_box(cli, tools):
    """A container of another program, which is read first, has more locks than a box may have."""
    holder = take_locks(1, 100).replace("range(200_000)", "range(60)")
    command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", sys.executable, "-c", holder]
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(command, cwd=folder) as other:
        try:
            assert tools.wait_until(lambda: pathlib.Path("/proc/locks").read_text().count("\n") > 5000)
            with loss(slabs) as lost:
                result = cli.run(take_locks(4, 100), "--memory", "64M", *WALL)
        finally:
            for pid in [*tools.descendants(other.pid), other.pid]:
                os.kill(pid, signal.SIGKILL)
    assert_locks_were_counted(result, lost)


def test_file_locks_of_a_session_that_idles_are_counted(cli):
    code = take_locks(1, 200).replace("time.sleep(30)", "").replace("try: take", "try: time.sleep(2); take")
    client = rest_client.serve(cli, "--memory", "64M", "--cpu", "60s")
    session = client.post("/sessions", {}).json["session_id"]
    with loss(slabs) as lost:
        assert client.run(code, session_id=session)["verdict"] == "ok"
        # Until it is gone: its locks, some hundred thousand of them otherwise, are gone with it.
        deadline = time.monotonic() + 30
        while client.get(f"/sessions/{session}").status == 200 and time.monotonic() < deadline:
            time.sleep(0.2)
    assert client.get(f"/sessions/{session}").status != 200, "the session still takes locks"
    assert lost[0] < 64 * MIB, f"the host lost {lost[0] >> 20} MiB under a limit of 64 MiB"


SQLITE = """
import sqlite3
db = sqlite3.connect("a.db", isolation_level=None)
db.execute("PRAGMA synchronous = OFF")
db.execute("CREATE TABLE t (n INTEGER PRIMARY KEY)")
for n in range(10_000):
    db.execute("INSERT INTO t VALUES (?)", (n,))
print(db.execute("SELECT count(*) FROM t").fetchone()[0])
"""


def test_ten_thousand_transactions_are_no_flood_of_locks(cli):
    result = cli.run(SQLITE, "--memory", "64M", *WALL)
    assert result.verdict == "ok" and result.stdout == "10000\n", result


# Every socket pair is filled in both directions and never read.
TCP = """
import os, socket, time
def fill():
    server = socket.create_server(("127.0.0.1", 0), backlog=64)
    kept = []
    while True:
        a = socket.socket()
        a.connect(server.getsockname())
        b, _ = server.accept()
        kept += [a, b]
        for s in (a, b):
            s.setblocking(False)
            try:
                while True: s.send(bytes(65536))
            except BlockingIOError: pass
for i in range(8):
    if not os.fork():
        try: fill()
        finally: time.sleep(60)
time.sleep(6)
"""


def test_buffers_of_tcp_inside_a_box_are_counted(cli):
    with loss(tcp) as lost:
        result = cli.run(TCP, "--allow-host", "127.0.0.1", "--memory", "256M", *WALL)
    # Buffers are small and senders wait, so that they may run out of sockets before the box is ended.
    assert result.verdict in ("out_of_memory", "ok"), result
    assert lost[0] < 256 * MIB, f"the host lost {lost[0] >> 20} MiB under a limit of 256 MiB"


SERVE = """
import asyncio
async def answer(reader, writer):
    while (line := await reader.readline()):
        writer.write(line * 1000)
        await writer.drain()
    writer.close()
async def ask(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    total = 0
    for i in range(20):
        writer.write(b"x" * 99 + b"\\n")
        for n in range(1000): total += len(await reader.readline())
    writer.close()
    return total
async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    print(sum(await asyncio.gather(*(ask(port) for i in range(60)))))
asyncio.run(main())
"""


def test_a_server_and_its_clients_in_a_box_are_not_disturbed(cli):
    result = cli.run(SERVE, "--allow-host", "127.0.0.1", "--memory", "256M", *WALL)
    assert result.verdict == "ok" and result.stdout == f"{60 * 20 * 1000 * 100}\n", result
