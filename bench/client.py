# SPDX-License-Identifier: Apache-2.0
"""Servers under test and their clients: MCP over stdio and HTTP, REST.

The clients write prepared bytes and look only at the ends of answers, so that little of a figure is their own time.
"""

import contextlib
import ctypes
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

SILENCE_S = 15  # a server that is silent for so long is broken
START_S = 15
ROOM = bytearray(1 << 20)  # for what comes
ID_FIRST = 10**9  # ids always have ten digits, so that all requests have the same length
VERSION = "2025-11-25"
HELLO = {
    "protocolVersion": VERSION,
    "capabilities": {},
    "clientInfo": {"name": "constrictor-bench", "version": "1"},
}
now = time.perf_counter


class Failed(Exception):
    """A figure cannot be measured; the text says why."""


def percentile(samples, percent):
    ordered = sorted(samples)
    return ordered[min(int(len(ordered) * percent / 100), len(ordered) - 1)]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def dial(port):
    s = socket.create_connection(("127.0.0.1", port), timeout=SILENCE_S)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.settimeout(None)
    # The kernel's timeout costs nothing for a call; that of Python is a poll() before each.
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        s.setsockopt(socket.SOL_SOCKET, option, SILENCE_S.to_bytes(8, "little") + bytes(8))
    return s


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


@contextlib.contextmanager
def child(function, *arguments):
    """Runs a function in a process of its own until the block ends."""
    pid = os.fork()
    if pid == 0:
        die_with_parent()
        try:
            function(*arguments)
        finally:
            os._exit(1)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


class Server:
    """A program that serves on its stdin and stdout, or on a port."""

    def __init__(self, argv, port=0, env=None):
        self.port, self.sock = port, None
        self.errors = tempfile.TemporaryFile()
        # A plain environment: no key or setting of the caller changes the server, nor does a .env file.
        kept = {k: os.environ[k] for k in ("PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME") if k in os.environ}
        theirs = None
        if not port:
            self.sock, theirs = socket.socketpair()
        io = theirs or subprocess.DEVNULL
        self.process = subprocess.Popen(
            argv, stdin=io, stdout=io, stderr=self.errors, cwd="/", env={**kept, **(env or {})},
            preexec_fn=die_with_parent,
        )
        self.pid = self.process.pid
        if theirs:
            theirs.close()
            timeout = SILENCE_S.to_bytes(8, "little") + bytes(8)
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)
        end = now() + START_S
        while port and not self.listens():
            if self.process.poll() is not None or now() > end:
                why = self.last_words()
                self.close()
                raise Failed(f"start '{argv[0]}'{why}")
            time.sleep(0.01)

    def listens(self):
        with contextlib.suppress(OSError), dial(self.port):
            return True
        return False

    def last_words(self):
        self.errors.seek(0)
        line = self.errors.read(256).decode("utf-8", "replace").partition("\n")[0]
        return f": {line}" if line else ""

    def close(self):
        if self.sock:
            self.sock.close()
        self.errors.close()
        self.process.terminate()
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.close()


class Ours(Server):
    """constrictor, with a state folder of its own: only one server at a time has one."""

    def __init__(self, bench, *options, port=0, stock=16):
        self.state = tempfile.mkdtemp(prefix="constrictor-bench.", dir="/var/tmp")
        argv = [bench.program, "serve" if port else "stdio", "--python", bench.python, "--stock", stock]
        argv += ["--tools", "full", "--state", self.state, *(["--port", port] if port else []), *bench.options, *options]
        try:
            super().__init__([str(a) for a in argv], port)
        except BaseException:
            shutil.rmtree(self.state, ignore_errors=True)
            raise

    def close(self):
        super().close()
        shutil.rmtree(self.state, ignore_errors=True)


def is_complete(data):
    """Is this one whole answer of HTTP?  There is never more than one on its way."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return False
    head = data[: end + 2].lower()
    at = head.find(b"\r\ncontent-length: ")
    if at >= 0:
        return len(data) >= end + 4 + int(head[at + 18 : head.index(b"\r", at + 2)])
    return b"\r\ntransfer-encoding: chunked" not in head or data.endswith(b"\r\n0\r\n\r\n")


def is_good(data):
    return b'"result"' in data and b'"isError":true' not in data and b'"isError": true' not in data


class Client:
    """An MCP client, after its handshake."""

    next_id = ID_FIRST

    def __init__(self, server):
        self.server, self.session, self.data = server, b"", b""
        self.http = bool(server.port)
        self.sock = dial(server.port) if self.http else server.sock
        answer = self.exchange("initialize", HELLO)
        if not is_good(answer):
            raise Failed(f"a client could not shake hands{server.last_words()}")
        found = re.search(rb"(?i)mcp-session-id: *(\S+)", answer) if self.http else None
        if found:
            self.session = b"Mcp-Session-Id: %s\r\nMCP-Protocol-Version: %s\r\n" % (found[1], VERSION.encode())
        text = self.make("notifications/initialized", {}, notification=True)
        self.sock.sendall(text)
        if self.http:
            self.receive()

    def make(self, method, params, notification=False, anonymous=False):
        """The bytes of a request, with %d for its id."""
        o = {"jsonrpc": "2.0", **({} if notification else {"id": ID_FIRST}), "method": method, "params": params}
        body = json.dumps(o, separators=(",", ":")).encode()
        text = body + b"\n"
        if self.http:
            session = b"" if anonymous else self.session
            text = (
                b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
                b"Accept: application/json, text/event-stream\r\n%sContent-Length: %d\r\n\r\n"
                % (self.server.port, session, len(body))
            ) + body
        if notification:
            return text
        return text.replace(b"%", b"%%").replace(str(ID_FIRST).encode(), b"%d", 1)

    def take(self):
        """Reads once, and returns the whole answers that came; over stdio they have an id."""
        part = self.sock.recv(1 << 16)
        if not part:
            raise Failed(f"the server closed the connection{self.server.last_words()}")
        data = self.data + part if self.data else part
        if self.http:
            done = is_complete(data)
            self.data = b"" if done else data
            return [data] if done else ()
        *lines, self.data = data.split(b"\n")
        return [line for line in lines if b'"id"' in line]

    def receive(self):
        try:
            while True:
                answers = self.take()
                if answers:
                    return answers[0]
        except BlockingIOError:
            raise Failed("the server does not answer") from None

    def exchange(self, method, params):
        Client.next_id += 1
        self.sock.sendall(self.make(method, params) % Client.next_id)
        return self.receive()

    def tool(self, name, /, **arguments):
        """One call: its time in microseconds, and the result."""
        begin = now()
        answer = self.exchange("tools/call", {"name": name, "arguments": arguments})
        took = (now() - begin) * 1e6
        o = json.loads(answer[answer.index(b"{") :].partition(b"\r\n")[0])
        if not is_good(answer):
            raise Failed(f"{name}: {answer[:400].decode('utf-8', 'replace')}")
        return took, o["result"].get("structuredContent", {})

    def close(self):
        if self.http:
            self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.close()


class Calls:
    """The same request again and again: `latency` in microseconds, `done` answers in `took` seconds."""

    def __init__(self, method, params, in_flight=1, requests=0, seconds=60.0, pause_us=0, anonymous=False, look=None):
        self.method, self.params, self.in_flight = method, params, in_flight
        self.requests, self.seconds, self.pause_us = requests, seconds, pause_us
        self.anonymous, self.look = anonymous, look
        self.latency, self.done, self.took = [], 0, 0.0

    def run(self, clients):
        texts = {c: c.make(self.method, self.params, anonymous=self.anonymous) for c in clients}
        begin, before = now(), self.done
        try:
            run = self._many if len(clients) > 1 else self._alone if self.in_flight == 1 else self._stream
            run(clients, texts, begin)
        except OSError as why:
            raise Failed(f"{self.method} failed after {self.done - before} answers: {why}") from None
        self.took += now() - begin
        return self

    def _check(self, answer):
        if not is_good(answer):
            raise Failed(f"{self.method}: {answer[:400].decode('utf-8', 'replace')}")

    def _alone(self, clients, texts, begin):
        """One request at a time."""
        (client,) = clients
        text, end, left = texts[client], begin + self.seconds, self.requests or -1
        send, receive, latency = client.sock.sendall, client.receive, self.latency
        while left != 0 and now() < end:
            if self.pause_us:
                time.sleep(self.pause_us / 1e6)
            Client.next_id += 1
            request = text % Client.next_id
            sent = now()
            send(request)
            answer = receive()
            took = (now() - sent) * 1e6
            latency.append(took)
            self._check(answer)
            if str(Client.next_id).encode() not in answer:
                raise Failed(f"{self.method}: this is the answer of another request")
            if self.look:
                self.look(answer, took)
            self.done += 1
            left -= 1

    def _stream(self, clients, texts, begin):
        """As many requests again as were answered, over stdio."""
        (client,) = clients
        text, sock, end, done, results, waiting = texts[client], client.sock, begin + self.seconds, 0, 0, 0
        count = self.in_flight
        while True:
            if count and now() < end:
                first, Client.next_id = Client.next_id + 1, Client.next_id + count
                sock.sendall(b"".join([text % i for i in range(first, first + count)]))
                waiting += count
            if waiting == 0:
                break
            size = sock.recv_into(ROOM)
            count = ROOM.count(b"\n", 0, size)  # each is an answer: nothing was asked for that notifies
            results += ROOM.count(b'"result"', 0, size)
            done += count
            waiting -= count
            if size == 0 or results < done or ROOM.find(b'"isError":true', 0, size) >= 0:
                raise Failed(f"{self.method}: {bytes(ROOM[: min(size, 400)])!r}")
        self.done += done

    def _many(self, clients, texts, begin):
        """One request at a time on each connection."""
        sent, done = {}, 0

        def issue(client):
            Client.next_id += 1
            sent[client] = now()
            client.sock.sendall(texts[client] % Client.next_id)

        end, poll = begin + self.seconds, select.epoll()
        by_fd = {c.sock.fileno(): c for c in clients}
        for fd, client in by_fd.items():
            poll.register(fd, select.EPOLLIN)
            issue(client)
        open_calls = len(clients)
        while open_calls:
            ready = poll.poll(SILENCE_S)
            if not ready:
                raise Failed(f"{self.method}: the server does not answer")
            for fd, _ in ready:
                client = by_fd[fd]
                answers = client.take()
                if not answers:
                    continue
                self.latency.append((now() - sent[client]) * 1e6)
                self._check(answers[0])
                done += 1
                if now() < end:
                    issue(client)
                else:
                    open_calls -= 1
        self.done += done
        poll.close()


class Rest:
    """One connection to the REST API."""

    def __init__(self, port):
        self.port, self.sock, self.room = port, dial(port), bytearray(32 << 20)

    def call(self, method, path, body=b""):
        """The answer, head and all, valid until the next call."""
        if isinstance(body, dict):
            body = json.dumps(body).encode()
        kind = "Content-Type: application/json\r\n" if body[:1] == b"{" else ""
        head = f"{method} /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Length: {len(body)}\r\n"
        room, view, total, want = self.room, memoryview(self.room), 0, 0
        try:
            self.sock.sendall(f"{head}{kind}\r\n".encode())
            self.sock.sendall(body)
            while total < want if want else room[max(total - 7, 0) : total] != b"\r\n0\r\n\r\n":
                size = self.sock.recv_into(view[total:])
                if not size:
                    raise Failed(f"{method} {path}: the connection broke")
                if not total:  # the head comes in one piece
                    end = room.index(b"\r\n\r\n", 0, size)
                    found = re.search(rb"(?i)\r\ncontent-length: *(\d+)", bytes(view[:end]))
                    want = end + 4 + int(found[1]) if found else 0
                    if not room.startswith(b"HTTP/1.1 20"):
                        raise Failed(f"{method} {path}: {bytes(view[:200])!r}")
                total += size
        except OSError as why:
            raise Failed(f"{method} {path}: {why}") from None
        return view[:total]
