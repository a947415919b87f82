# SPDX-License-Identifier: Apache-2.0
"""What the network of a box costs: beside boxes without, and beside the same code that dials by itself."""

import contextlib
import json
import select
import socket

from boxes import FRESH_STOCK
from client import Calls, Client, Failed, Ours, child, percentile
from cold import script

LARGE_BYTES = 256 << 20
# The client, in a box and in a plain interpreter.  Arguments: port, requests, new connections, downloads.
CLIENT = """
import json, socket, statistics, sys, time
port, requests, connections, downloads = (int(a) for a in sys.argv[1:5])
def dial():
    s = socket.create_connection(('127.0.0.1', port))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s
def ask(s, path):
    s.sendall(b'GET /' + path + b' HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\n\\r\\n' % port)
def small(s):
    ask(s, b'small')
    data = b''
    while not data.endswith(b'ok'):
        part = s.recv(4096)
        assert part
        data += part
def timed(f, count):
    times = []
    for i in range(count):
        begin = time.perf_counter()
        f()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6
def once():
    with dial() as s:
        small(s)
def large():
    with dial() as s:
        room, got, head = bytearray(1 << 20), 0, None
        begin = time.perf_counter()
        ask(s, b'large')
        while head is None or got < head:
            n = s.recv_into(room)
            assert n
            if head is None:
                text = bytes(room[:n])
                size = int(text.split(b'Content-Length: ')[1].split(b'\\r\\n')[0])
                head = size + text.index(b'\\r\\n\\r\\n') + 4
            got += n
        return got / (time.perf_counter() - begin) / 1e6
with dial() as kept:
    timed(lambda: small(kept), 50)
    request_us = timed(lambda: small(kept), requests)
timed(once, 5)
connect_us = timed(once, connections)
large()
down = statistics.median(large() for i in range(downloads))
print(json.dumps({'request_us': request_us, 'connect_us': connect_us, 'down': down}))
"""


def serve(listener):
    """The far side, in a process of its own.  One read is one request: the clients are ours."""
    poll, chunk, clients = select.epoll(), bytes(256 << 10), {}
    poll.register(listener, select.EPOLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == listener.fileno():
                s = listener.accept()[0]
                clients[s.fileno()] = s
                poll.register(s, select.EPOLLIN)
                continue
            s = clients[fd]
            with contextlib.suppress(OSError):
                request = s.recv(4096)
                if b"/large" in request:
                    s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LARGE_BYTES)
                    for _ in range(LARGE_BYTES // len(chunk)):
                        s.sendall(chunk)
                elif request:
                    s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                if request:
                    continue
            clients.pop(fd).close()


def start(b, port, network):
    flags = ["--network", "auto" if network else "off", "--allow-host", f"127.0.0.1:{port}"]
    flags += ["--net-rate", 100000, "--net-connections", 100000, "--net-requests", 1000000]
    return Ours(b, *flags, stock=FRESH_STOCK)


def measure_start(b, port):
    """One at a time, and the stock is full again before the next: as fresh boxes are measured.  In turns, so that both
    meet the same machine."""
    run = {"name": "execute_python", "arguments": {"code": "1+1"}}
    with start(b, port, False) as plain, start(b, port, True) as networked:
        sides = [([Client(server)], Calls("tools/call", run, pause_us=20000)) for server in (plain, networked)]
        for clients, calls in sides:
            calls.requests = 20  # these make the server warm
            calls.run(clients).latency.clear()
            calls.requests = 25
        for _ in range(b.few(4, 16)):
            for clients, calls in sides:
                calls.run(clients)
        without, with_network = (percentile(calls.latency, 50) for _, calls in sides)
    b.set("network_start", with_network, without, f"a box without, {without:.0f} us")


def measure_routes(b, port):
    arguments = [port, b.few(500, 3000), b.few(100, 400), b.few(1, 3)]
    direct = script(b.python, CLIENT, *arguments)
    if not direct:
        raise Failed("the client did not reach the server by itself")
    with start(b, port, True) as server, Client(server) as client:
        _, result = client.tool("execute_python", code=CLIENT, args=[str(a) for a in arguments], timeout=50)
    try:
        through = json.loads(result["stdout"])
    except ValueError:
        why = (result.get("error") or {}).get("message", "no answer")
        raise Failed(f"the client in the box failed: {why}") from None
    request, share = direct["request_us"], direct["down"] * 0.7
    note = f"the limit, 300 us; direct {request:.0f} us"
    b.set("network_request", max(through["request_us"] - request, 1), 300, note)
    b.set("network_connect", through["connect_us"], None, f"direct {direct['connect_us']:.0f} us")
    note = f"500 MB/s or 70 % of direct, {direct['down']:.0f} MB/s"
    b.set("network_down", through["down"], min(share, 500), note, more=True)


def measure(b):
    b.progress("the network, beside the same code without a broker")
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener, child(serve, listener):
        port = listener.getsockname()[1]
        b.attempt(measure_start, b, port)
        b.attempt(measure_routes, b, port)
