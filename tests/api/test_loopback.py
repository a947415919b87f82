# SPDX-License-Identifier: Apache-2.0
"""Servers inside a box, on 127.0.0.1 and ::1 of its own (src/box/net.c, src/box/stem.c).

What models write about servers works; nothing outside of the box can be reached, and a box leaves nothing in the
network namespace that the next box of its slot gets.
"""

import contextlib
import sys
import time

import pytest
import rest_client
from conftest import open_cli

HINT = "code has no network here"  # the gate says what helps, for the interface that asked


@contextlib.contextmanager
def serving(program, *flags):
    with open_cli(program) as cli:
        yield rest_client.serve(cli, *flags)


@pytest.fixture(scope="module")
def rest(program):
    with serving(program, "--stock", "1") as rest:
        yield rest


SERVERS = {
    "http.server": """
import functools, http.server, threading, urllib.request
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
open("page.txt", "w").write("hello")
http.server.SimpleHTTPRequestHandler.log_message = lambda *_: None
for host in "127.0.0.1", "localhost": print(urllib.request.urlopen(f"http://{host}:{server.server_port}/page.txt").read().decode())
server.shutdown()
""",
    "asyncio": """
import asyncio
async def answer(reader, writer): writer.write(await reader.readline()); await writer.drain(); writer.close()
async def main():
    for host in "127.0.0.1", "::1":
        async with await asyncio.start_server(answer, host, 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
            writer.write(b"hello\\n"); print((await reader.read()).decode().strip()); writer.close()
asyncio.run(main())
""",
    "datagrams": """
import socket
for family, host in (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"):
    a, b = (socket.socket(family, socket.SOCK_DGRAM) for _ in range(2))
    a.bind((host, 0)); b.sendto(b"hello", a.getsockname()); print(a.recv(9).decode())
""",
    "manager": """
from multiprocessing.managers import BaseManager
class Manager(BaseManager): pass
Manager.register("words", list)
for _ in range(2):
    with Manager(address=("127.0.0.1", 0), authkey=b"key") as manager:
        words = manager.words(); words.append("hello"); print(words.pop())
""",
    "socketserver": """
import socket, socketserver, threading
class Echo(socketserver.StreamRequestHandler):
    def handle(self): self.wfile.write(self.rfile.readline())
class Six(socketserver.ThreadingTCPServer): address_family = socket.AF_INET6
for kind, host in (socketserver.ThreadingTCPServer, "127.0.0.1"), (Six, "::1"):
    kind.allow_reuse_address = True
    with kind((host, 8000), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with socket.create_connection((host, 8000)) as client:
            client.sendall(b"hello\\n"); print(client.makefile().readline().strip())
        server.shutdown()
""",
    "own name": """
import socket
with socket.create_server(("", 0)) as server:
    port = server.getsockname()[1]
    for name in "localhost", socket.gethostname(): socket.create_connection((name, port)).close(); print("hello")
""",
}


@pytest.mark.parametrize("name", SERVERS)
def test_servers_work(rest, name):
    ran = rest.run(SERVERS[name])
    assert (ran["verdict"], ran["stdout"], ran["stderr"]) == ("ok", "hello\nhello\n", ""), ran
    assert ran["security_events"] == [], ran


WEB = """
import threading, time, urllib.request, uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from werkzeug.serving import make_server
from werkzeug.wrappers import Response
app = Starlette(routes=[Route("/", lambda request: PlainTextResponse("hello"))])
server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=8011, log_level="error"))
thread = threading.Thread(target=server.run); thread.start()
while not server.started: time.sleep(0.01)
print(urllib.request.urlopen("http://127.0.0.1:8011/").read().decode())
server.should_exit = True; thread.join()
server = make_server("127.0.0.1", 0, Response("hello"))
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/").read().decode())
"""


def test_servers_of_frameworks_work(cli):
    """What stands under FastAPI and Flask; the interpreter of the tests has both."""
    ran = cli.call("run", "--python", sys.executable, "-c", WEB)
    assert (ran.status, ran.out) == (0, "hello\nhello\n"), ran


# -- nothing else can be reached

AWAY = """
import asyncio, errno, socket, urllib.request
def attempt(what, *arguments):
    try: what(*arguments); print("reached")
    except OSError as exc: print(type(getattr(exc, "reason", exc)).__name__, "network is off" in str(exc))
attempt(socket.create_connection, ("192.0.2.7", 443))
attempt(socket.create_connection, ("2001:db8::7", 443))
attempt(socket.create_connection, ("far.test", 443))
attempt(urllib.request.urlopen, "http://192.0.2.8/")
attempt(socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto, b"x", ("192.0.2.9", 53))
attempt(lambda: asyncio.run(asyncio.open_connection("192.0.2.10", 443)))
attempt(lambda: asyncio.run(asyncio.open_connection("far.test", 443)))
s = socket.socket(); print(errno.errorcode[s.connect_ex(("192.0.2.11", 80))])
"""


def test_other_addresses_fail_with_a_reason(rest):
    ran = rest.run(AWAY)
    assert ran["stdout"].split("\n")[:-1] == [
        "OSError True", "OSError True", "gaierror True", "OSError True", "OSError True", "OSError True",
        "gaierror True", "ENETUNREACH"], ran
    events = {(e["action"], e["target"]): e for e in ran["security_events"]}
    assert set(events) == {
        ("connect", "192.0.2.7:443"), ("connect", "[2001:db8::7]:443"), ("resolve", "far.test:443"),
        ("connect", "192.0.2.8:80"), ("udp", "192.0.2.9:53"), ("connect", "192.0.2.10:443"),
        ("connect", "192.0.2.11:80")}, ran
    assert all(e["kind"] == "network" and e["hint"] == HINT and e["reason"] == "network_off" for e in events.values())
    assert ran["network"] == "off", ran


RAW = """
import ctypes, errno, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
def connect(family, kind, host, port):
    fd = libc.socket(family, kind, 0)
    packed = socket.inet_pton(family, host)
    address = (struct.pack("=HH", family, socket.htons(port)) +
               (packed + bytes(8) if family == socket.AF_INET else bytes(4) + packed + bytes(4)))
    return 0 if libc.connect(fd, address, len(address)) == 0 else errno.errorcode[ctypes.get_errno()]
for host in %r: print(host, connect(socket.AF_INET, 1, host, %d), connect(socket.AF_INET, 2, host, 53))
for host in "2001:db8::1", "fd00:ec2::254", "fe80::1": print(host, connect(socket.AF_INET6, 1, host, 80))
"""


def test_the_kernel_knows_no_way_out(rest):
    """Through libc, beside everything that Python explains: the server's own port, other hosts, multicast."""
    hosts = ["10.0.0.1", "169.254.169.254", "192.168.1.1", "8.8.8.8", "198.18.0.1", "224.0.0.1", "255.255.255.255"]
    ran = rest.run(RAW % (hosts, rest.port))
    for line in ran["stdout"].splitlines():
        # EACCES: an address for all hosts, which this socket may not use; EINVAL: one that needs a device.
        assert set(line.split()[1:]) <= {"ENETUNREACH", "EACCES", "EINVAL"}, ran
    assert len(ran["stdout"].splitlines()) == len(hosts) + 3, ran
    own = rest.run(f"import socket\nprint(socket.socket().connect_ex(('127.0.0.1', {rest.port})))")
    assert own["stdout"] == "111\n", own       # refused: it is another loopback


OPTIONS = """
import errno, socket
def answer(kind, level, name, value=1):
    s = socket.socket(socket.AF_INET6 if level == 41 else socket.AF_INET, kind)
    try: s.setsockopt(level, name, value); return "ok"
    except OSError as exc: return errno.errorcode[exc.errno]
def read(level, name, kind=socket.SOCK_STREAM):
    try: socket.socket(socket.AF_INET6 if level == 41 else socket.AF_INET, kind).getsockopt(level, name, 64); return "ok"
    except OSError as exc: return errno.errorcode[exc.errno]
T = socket.SOCK_STREAM
usual = [(1, 2), (1, 9), (1, 15), (1, 7), (1, 8), (6, 1), (6, 4), (6, 5), (6, 6), (6, 18), (0, 1), (41, 26)]
print({answer(T, *one) for one in usual}, answer(T, 1, 13, bytes(8)))
# Programs on sockets, pinned pages, devices, TCP in the kernel's TLS, repair, congestion, MD5, fast open; groups,
# options in packets, IPsec, tables of netfilter; encapsulation.
refused = [(1, 26), (1, 50), (1, 51), (1, 52), (1, 60), (1, 25), (1, 46), (1, 73), (6, 31), (6, 19), (6, 13), (6, 14),
           (6, 23), (6, 30), (0, 4), (0, 16), (0, 35), (0, 64), (41, 20), (41, 34), (41, 35), (41, 64), (17, 100),
           (255, 1), (270, 1), (263, 1), (282, 1)]
print(sorted({answer(T, *one) for one in refused}))
print({read(*one) for one in [(1, 3), (1, 4), (1, 30), (1, 38), (1, 39), (6, 1), (6, 11), (0, 1), (41, 26)]})
print({read(*one) for one in [(1, 26), (1, 57), (1, 71), (1, 56), (1, 77), (6, 35), (6, 31), (0, 64), (0, 65), (0, 80),
                              (41, 64), (41, 80), (17, 1), (255, 1)]})
for flags in socket.MSG_OOB, 0x20000000:
    try: socket.socket().sendto(b"x", flags, ("127.0.0.1", 9)); print("sent")
    except OSError as exc: print(errno.errorcode[exc.errno])
"""


def test_options_of_sockets_are_a_short_list(rest):
    ran = rest.run(OPTIONS)
    assert ran["stdout"].splitlines() == [
        "{'ok'} ok", "['ENOPROTOOPT', 'EPERM']", "{'ok'}", "{'ENOPROTOOPT'}", "ENOTSUP", "ENOTSUP"], ran


# -- the next box of the slot

NAMESPACE = "import os; print(os.readlink('/proc/self/ns/net'))"
# At most one socket: the kernel frees the one that brought up the device a moment later.
LOOK = """
import os, socket
print(os.readlink("/proc/self/ns/net"))
lo = open("/proc/self/net/dev").read().splitlines()[2].split()
print(sum(map(int, lo[1:])), int(open("/proc/self/net/sockstat").readline().split()[2]) <= 1, len(open("/proc/self/net/tcp").readlines()))
readable = []
for folder, _, names in os.walk("/proc/self/net"):
    for name in names:
        try: open(f"{folder}/{name}").close(); readable.append(name)
        except PermissionError: pass
print(sorted(readable))
taken = []
for port in 8000, 5000, 50007:
    for family, host in (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"):
        for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
            s = socket.socket(family, kind)
            if kind == socket.SOCK_STREAM and s.connect_ex((host, port)) != 111: taken.append((port, host, "connect"))
            s = socket.socket(family, kind)
            try: s.bind((host, port))
            except OSError as exc: taken.append((port, host, kind, exc.errno))
try: socket.socket(socket.AF_UNIX).bind("\\0name")
except OSError as exc: taken.append(exc.errno)
print(taken)
"""
CLEAN = f"0 True 1\n{['dev', 'sockstat', 'sockstat6', 'tcp', 'tcp6']}\n[]\n"

TRACES = {
    # Connections that end while their box does, in every state, and those that were never accepted.
    "connections": """
import os, socket
server = socket.create_server(("127.0.0.1", 8000), backlog=50)
clients = [socket.create_connection(("127.0.0.1", 8000)) for _ in range(40)]
served = [server.accept()[0] for _ in range(20)]
for one in served[:5]: one.close()
for one in clients[5:9]: one.close()
for one in clients[10:12]: one.send(b"x" * 1000)
for one in served[12:14]: one.shutdown(1)
""",
    # Sockets that no process has any more, in the queue of a pair that is in its own queue.
    "sockets in flight": """
import array, os, socket
kept = [socket.create_server(("127.0.0.1", port)) for port in (8000, 5000)]
kept += [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
for one, port in zip(kept[2:], (8000, 50007)): one.bind(("127.0.0.1", port))
name = socket.socket(socket.AF_UNIX); name.bind("\\0name")
for _ in range(9):
    a, b = socket.socketpair()
    b.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [one.fileno() for one in (a, name, *kept)]))])
""",
    # Counters without a packet: no route, a bad pointer.
    "counters": """
import ctypes, socket
libc = ctypes.CDLL(None)
for family, address in (2, bytes([2, 0, 0, 9, 8, 8, 8, 8]) + bytes(8)), (10, bytes([10, 0, 0, 9, 0, 0, 0, 0, 32, 1]) + bytes(18)):
    for kind in 1, 2: [libc.connect(libc.socket(family, kind, 0), address, len(address)) for _ in range(20)]
fd = libc.socket(2, 2, 0); here = bytes([2, 0, 0, 9, 127, 0, 0, 1]) + bytes(8)
for _ in range(9): libc.sendto(fd, ctypes.c_void_p(1), 100, 0, here, 16)
""",
    "bound": """
import socket
kept = []
for port in 8000, 5000, 50007:
    for family, host in (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"):
        for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
            s = socket.socket(family, kind); s.bind((host, port)); kept.append(s)
            if kind == socket.SOCK_STREAM: s.listen()
""",
    "left behind": """
import os, socket, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        server = socket.create_server(("127.0.0.1", 8000))
        while True: server.accept()
    os._exit(0)
while True:
    try: socket.create_connection(("127.0.0.1", 8000)); break
    except ConnectionRefusedError: time.sleep(0.01)
""",
    "large datagrams": """
import socket
a, b = (socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) for _ in range(2))
a.bind(("::1", 5000))
for _ in range(9): b.sendto(bytes(65500), ("::1", 5000))
""",
}


@pytest.mark.parametrize("name", TRACES)
def test_a_box_leaves_nothing_to_the_next_one(rest, name):
    for _ in range(4):
        ran = rest.run(TRACES[name])
        assert ran["verdict"] == "ok", ran
        for _ in range(3):
            seen = rest.run(LOOK)
            assert seen["stdout"].partition("\n")[2] == CLEAN, seen


def test_a_namespace_that_had_packets_is_not_used_again(rest):
    count = "print(open('/proc/self/net/dev').read().split('lo:')[1].split()[1])\n"
    for _ in range(6):
        ran = rest.run(count + "import socket; s = socket.create_server(('127.0.0.1', 0)); "
                               "socket.create_connection(s.getsockname())\n" + count)
        before, after = map(int, ran["stdout"].split())
        assert before == 0 and after >= 3, ran


def test_other_runs_keep_the_namespace_of_their_slot(rest):
    """A run without a server costs what it cost: its slot makes no new namespace."""
    code = NAMESPACE + "\nimport socket; socket.create_server(('127.0.0.1', 8000)); socket.socketpair()"
    assert len({rest.run(code)["stdout"] for _ in range(64)}) <= 32  # a busy machine uses more slots


def test_a_box_cannot_show_the_counters_again(rest):
    ran = rest.run("""
import os
for name in "snmp", "snmp6", "netstat", "unix", "dev_snmp6":
    for call in (lambda: os.chmod("/proc/self/net/" + name, 0o777), lambda: os.listdir("/proc/self/net/dev_snmp6"),
                 lambda: os.open(f"/proc/thread-self/net/{name}", os.O_RDONLY), lambda: os.open(f"/proc/self/task/{os.getpid()}/net/{name}", 0)):
        try: call(); print("done", name)
        except PermissionError: pass
        except OSError as exc: assert exc.errno == 30, exc
""")
    assert (ran["verdict"], ran["stdout"]) == ("ok", ""), ran


# -- servers and the life of a box


def test_a_server_that_never_accepts_holds_up_nothing(rest):
    began = time.monotonic()
    ran = rest.run("""
import os, socket
server = socket.create_server(("127.0.0.1", 0), backlog=8)
for _ in range(3):
    if os.fork() == 0:
        while True:
            c = socket.create_connection(server.getsockname()); c.sendall(bytes(1 << 20))
clients = [socket.create_connection(server.getsockname()) for _ in range(3)]
print("on")
""")
    assert (ran["verdict"], ran["stdout"]) == ("ok", "on\n"), ran
    assert rest.run("1 + 1")["result"] == "2"
    assert time.monotonic() - began < 20


def test_a_server_of_a_session_goes_on_between_runs(rest):
    rest.run("""
import http.server, threading
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b"hello")
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8123), Hello)
threading.Thread(target=server.serve_forever, daemon=True).start()
""", session="web")
    ask = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8123/').read())"
    for _ in range(2):
        assert rest.run(ask, session="web")["stdout"] == "b'hello'\n"
    other = rest.run(ask)
    assert "refused" in other["error"]["message"], other       # another box
    rest.ask("DELETE", "/sessions/web")


def test_a_program_other_than_python_reaches_it_too(rest):
    ran = rest.run("""
import http.server, subprocess, threading
http.server.SimpleHTTPRequestHandler.log_message = lambda *_: None
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
open("a.txt", "w").write("hello")
script = 'exec 3<>/dev/tcp/127.0.0.1/%d; printf "GET /a.txt HTTP/1.0\\r\\n\\r\\n" >&3; tail -n 1 <&3' % server.server_port
print(subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout)
""")
    assert ran["stdout"] == "hello\n", ran


# -- memory

FLOOD = """
import socket
server = socket.create_server(("127.0.0.1", 0), backlog=4096)
kept = []
while True:
    c = socket.create_connection(server.getsockname()); s = server.accept()[0]
    for one in c, s:
        one.setblocking(False)
        try:
            while True: one.send(bytes(1 << 16))
        except BlockingIOError: pass
    kept.append((c, s))
"""


def test_what_sockets_hold_counts(program):
    """The kernel's memory for connections is bounded as the box's own is."""
    with serving(program, "--memory", "64M", "--files", "4096", "--stock", "1") as rest:
        ran = rest.run(FLOOD, timeout=20)
        assert ran["verdict"] == "out_of_memory", ran
        assert rest.run("1 + 1")["result"] == "2"


# What no cgroup is charged with: connections that nothing accepts.
WAITING = """
import socket
server = socket.create_server(("127.0.0.1", 0), backlog=4096)
kept = []
while True:
    kept.append(socket.create_connection(server.getsockname()))
    kept[-1].setblocking(False)
    try:
        while True: kept[-1].send(bytes(1 << 16))
    except BlockingIOError: pass
"""


@pytest.mark.parametrize("code", [FLOOD, WAITING], ids=["accepted", "waiting"])
def test_so_it_does_in_a_run_without_a_server(cli, code):
    ran = cli.run(code, "--memory", "64M", "--files", "4096")
    assert ran.verdict == "out_of_memory", ran


# -- without it


def test_the_operator_can_switch_it_off(program):
    with serving(program, "--loopback", "off", "--stock", "1") as rest:
        ran = rest.run("import socket; socket.create_server(('127.0.0.1', 0))")
        assert ran["error"]["type"] == "OSError" and "network is off" in ran["error"]["message"], ran
        assert {e["target"] for e in ran["security_events"]} == {"unknown", "socket AF_INET"}, ran
        ran = rest.run("open('/proc/self/net/dev').read().split()[-17:]")
        assert "lo:" in ran["result"], ran
        for name in "asyncio", "http.server":
            ran = rest.run(SERVERS[name])
            assert ran["error"]["type"] == "OSError" and "network is off" in ran["error"]["message"], ran


def test_a_box_that_cannot_write_has_no_servers(program):
    with serving(program, "--stock", "1", "--policy", "guarded", "--allowed-imports", "socket,ctypes") as rest:
        ran = rest.run("import ctypes; print(ctypes.CDLL(None).socket(2, 1, 0))")
        assert ran["stdout"] == "-1\n", ran


def test_a_command_without_a_server(cli):
    """`constrictor run` has one box, in the zygote's own namespace."""
    ran = cli.call("run", "-c", SERVERS["asyncio"])
    assert (ran.status, ran.out) == (0, "hello\nhello\n"), ran
