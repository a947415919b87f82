# SPDX-License-Identifier: Apache-2.0
"""Code in a box that holds the locks of its own files stalls its own box, and no other client of the server.

A process that reads or writes a file may have to wait for a lock of it, and code that is starved in the middle of a
write holds that lock for as long as it likes. So the gate, which serves every client, never has such a file open: the
box's own init reads and writes it, and sends and receives the bytes in frames.
"""

import contextlib
import http.client
import os
import signal
import threading
import time

import pytest
import rest_client

MIB = 1 << 20

# Spinners starve a process of the lowest priority while it makes a hole in a file. Others write to what a client uploads,
# from buffers that lie in that hole: they wait for it, and have the lock of what they write to. Where that is forbidden,
# there are writes that are long, starved, or from memory whose lock a thread has.
ATTACK = """
import ctypes, mmap, os, threading, time
os.chdir('/mnt/data')
libc = ctypes.CDLL(None, use_errno=True)
end = time.time() + SECONDS
SIZE = 48 << 20

def lower():
    for call in (lambda: os.nice(19), lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})):
        try:
            call()
        except (OSError, AttributeError):
            pass

def pin():
    try:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    except (OSError, AttributeError):
        pass

def spin():
    pin()
    while time.time() < end:
        pass

def punch():
    lower()
    file = os.open('hole', os.O_RDWR)
    while time.time() < end:
        libc.fallocate(file, 3, ctypes.c_long(0), ctypes.c_long(SIZE))
        os.pwrite(file, bytes(SIZE), 0)

def remap():
    while time.time() < end:
        area = mmap.mmap(-1, 16 << 20)
        for i in range(0, 16 << 20, 4096):
            area[i] = 1
        area.close()

def targets():
    return [name for name in os.listdir('.') if name.startswith('.constrictor') or name == 'big']

def write(data):
    while time.time() < end:
        for name in targets():
            try:
                file = os.open(name, os.O_RDWR)
            except OSError:
                continue
            try:
                os.pwrite(file, data, 0)
            except OSError:
                pass
            os.close(file)

def write_from_hole():
    file = os.open('hole', os.O_RDWR)
    write(mmap.mmap(file, SIZE))

def write_long():
    lower()
    threading.Thread(target=remap, daemon=True).start()
    write(bytes(SIZE))

with open('hole', 'wb') as file:
    file.write(bytes(SIZE))
children = []
for job in [spin] * 24 + [punch] + [write_from_hole] * 3 + [write_long] * 2:
    try:
        pid = os.fork()
    except OSError:
        break
    if pid == 0:
        try:
            job()
        finally:
            os._exit(0)
    children.append(pid)
print(len(children), 'processes')
for pid in children:
    os.waitpid(pid, 0)
"""


class Late:
    """How late the machine itself wakes this process: others work on it as well."""

    def __init__(self):
        self.worst, self.over = 0.0, threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.over.is_set():
            before = time.monotonic()
            time.sleep(0.01)
            self.worst = max(self.worst, time.monotonic() - before - 0.01)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


@pytest.fixture
def rest(cli):
    return rest_client.serve(cli, "--body", "20M")


def try_ask(rest, method, path, body=None):
    """An answer, or None: the connection was ended."""
    try:
        return rest.ask(method, path, body)
    except (OSError, http.client.HTTPException):
        return None


@contextlib.contextmanager
def repeating(*calls):
    """Each is called again and again, all at the same time; what they return or raise is in the lists."""
    over, results = threading.Event(), [[] for _ in calls]

    def work(call, result):
        while not over.is_set():
            try:
                result.append(call())
            except BaseException as error:
                result.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(calls, results)]
    for thread in threads:
        thread.start()
    try:
        yield results
    finally:
        over.set()
        for thread in threads:
            thread.join()


def begin_download(rest, session, path):
    """The connection and the response, of which nothing but the head was read."""
    connection = rest.connect()
    connection.request("GET", "/api/v1" + rest.file(session, path))
    return connection, connection.getresponse()


def files_of_box(rest, session, tools):
    """The descriptors of the gate that are in the scratch of this session."""
    device = int(rest.run("import os; print(os.stat('/mnt/data').st_dev)", session=session)["stdout"])
    gate = next(filter(tools.is_gate, tools.children(rest.process.pid)))

    def look():
        found = []
        for name in os.listdir(f"/proc/{gate}/fd"):
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{gate}/fd/{name}").st_dev == device:
                    found.append(os.readlink(f"/proc/{gate}/fd/{name}"))
        return found

    return look


def test_the_gate_has_no_descriptor_of_a_file_in_a_box(rest, tools):
    if not tools.root:
        return    # /proc does not show an ordinary user what this gate has open
    rest.run("open('big', 'wb').write(b'x' * (64 << 20))", session="a")
    look = files_of_box(rest, "a", tools)
    connection, response = begin_download(rest, "a", "big")
    with contextlib.closing(connection):
        assert look() == []    # while a client takes its time
        assert len(response.read()) == 64 * MIB
    body = os.urandom(16 * MIB)
    with repeating(lambda: rest.put("a", "up", body), lambda: rest.read("a", "big").status) as (up, down):
        for _ in range(300):
            assert look() == []
            time.sleep(0.005)
    assert up and down and {answer.status for answer in up} == {200} and set(down) == {200}, (up, down)
    assert rest.read("a", "up").data == body


def test_code_that_holds_locks_of_its_files_stalls_nobody_else(rest):
    seconds = 8
    rest.run("open('big', 'wb').write(b'x' * (48 << 20))", session="a")
    rest.run("1", session="b")
    body = os.urandom(16 * MIB)
    waits = {"health": [], "run": []}

    def timed(name, call):
        before = time.monotonic()
        answer = call()
        waits[name].append(time.monotonic() - before)
        assert answer
        time.sleep(0.02)

    def attack():
        return try_ask(rest, "POST", "/execute", {"code": ATTACK.replace("SECONDS", str(seconds)), "session": "a",
                                                  "timeout": 30, "stream": False})

    with Late() as late, contextlib.ExitStack() as stack:
        attacker = threading.Thread(target=attack)
        attacker.start()
        stack.callback(attacker.join)
        results = stack.enter_context(repeating(
            lambda: try_ask(rest, "PUT", rest.file("a", "up"), body),
            lambda: try_ask(rest, "PUT", rest.file("a", "up2"), body),
            lambda: try_ask(rest, "GET", rest.file("a", "big")),
            lambda: timed("health", lambda: try_ask(rest, "GET", "/health")),
            lambda: timed("run", lambda: rest.run("1 + 1", session="b")["result"] == "2"),
        ))
        time.sleep(seconds)
    assert not any(isinstance(entry, BaseException) for result in results for entry in result), results
    # What is asked of the hostile session itself may wait, fail or succeed; the server is there for the others.
    limit = 1 + 4 * late.worst
    worst = {name: max(found) for name, found in waits.items()}
    assert max(worst.values()) < limit, (worst, limit, {name: len(found) for name, found in waits.items()})
    assert len(waits["health"]) > 5 and len(waits["run"]) > 5


@pytest.mark.parametrize("way", ["download", "upload"])
def test_a_box_that_is_killed_in_the_middle(rest, tools, way):
    rest.run("1", session="b")
    before = set(tools.descendants(rest.process.pid))
    rest.run("open('big', 'wb').write(b'x' * (100 << 20))", session="a")
    box = set(tools.descendants(rest.process.pid)) - before
    body = os.urandom(16 * MIB)
    call = {"download": lambda: try_ask(rest, "GET", rest.file("a", "big")),
            "upload": lambda: try_ask(rest, "PUT", rest.file("a", "up"), body)}[way]
    with repeating(call) as (answers,):
        tools.wait_until(lambda: answers)
        time.sleep(0.1)
        for pid in box:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        # An upload opens another session of that name then.
        assert tools.wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in box))
    statuses = [answer.status if answer else None for answer in answers]
    assert statuses[0] == 200 and set(statuses) <= {200, 404, 409, 503, None}, statuses
    for answer in answers:
        if way == "download" and answer and answer.status == 200:
            assert answer.data == b"x" * (100 << 20)    # whole, or none
    assert rest.run("1 + 1", session="b")["result"] == "2"
    assert rest.ask("GET", "/health").status == 200
