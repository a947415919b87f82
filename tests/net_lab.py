# SPDX-License-Identifier: Apache-2.0
"""A network laboratory: two network namespaces joined by a cable, and nothing else.

The program under test runs on the near side, which has a loopback of its own and one cable. At its other
end is the far side, where every address is local (tests/net_servers.py): whatever leaves the near side
is answered there, and can be captured. Nothing leads from here to the machine's own network.

The namespaces belong to two processes, not to names below /run: they are gone when these are, and
these go when pytest does. An ordinary user gets the same within a user namespace; the program is then
started in one more, in which it is an ordinary user again, without rights over the near side's network.
"""

import collections
import contextlib
import ctypes
import json
import os
import pathlib
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import mcp_client
import net_servers
import rest_client

TOP = pathlib.Path(__file__).resolve().parent.parent
# The interpreter of the boxes, with common client libraries: tests/requirements-net.txt.
PYTHON = pathlib.Path(os.environ.get("CONSTRICTOR_NET", TOP / "build/venv-net")) / "bin/python"
NEST = TOP / "tests" / "helpers" / "nest.py"
# Addresses that rules take for public. 44.128.0.0/16 is kept for tests by its owner and announced
# nowhere; 2d00::/8 is not assigned yet.
NEAR, NEAR6, DNS = "44.128.255.1", "2d00:ff::1", "44.128.0.53"
LOCAL_PORT = 8099  # a server of the near side, on each of its addresses, TCP and UDP
ABSTRACT = "constrictor-net-lab"  # a socket of the near side without a path
MARKER = b"end of the capture"
NEAR_LINES = f"""link set lo up
link add near type veth peer name far netns %d
link set near up
addr add {NEAR}/24 dev near
addr add {NEAR6}/64 dev near nodad
route add default via 44.128.255.2
route add ::/0 via 2d00:ff::2
"""
FAR_LINES = """link set lo up
link set far up
addr add 44.128.255.2/24 dev far
addr add 2d00:ff::2/64 dev far nodad
route add local 0.0.0.0/0 dev lo table main
route add local ::/0 dev lo table main
route add blackhole 44.128.9.0/24
"""
NEWUSER, NEWNET, PDEATHSIG = 0x10000000, 0x40000000, 1
LIBC = ctypes.CDLL(None, use_errno=True)
ROOT = os.geteuid() == 0
WAIT_S = 600


# -- the processes of the laboratory


def unshare(flags):
    if LIBC.unshare(flags) != 0:
        sys.exit(f"net_lab: unshare: {os.strerror(ctypes.get_errno())}")


def enter_near():
    """A network namespace; for an ordinary user also a user namespace, with that user as root."""
    uid, gid = os.geteuid(), os.getegid()
    unshare(NEWNET | (0 if ROOT else NEWUSER))
    if not ROOT:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"0 {uid} 1"),
            ("gid_map", f"0 {gid} 1"),
        ):
            pathlib.Path("/proc/self", name).write_text(text)


def die_with_parent():
    LIBC.prctl(PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def ip(lines):
    path = {"PATH": "/usr/sbin:/sbin:/usr/bin:/bin"}
    subprocess.run(["ip", "-batch", "-"], input=lines, text=True, check=True, env=path)


def run_far(control, ready, plugged):
    import asyncio

    die_with_parent()
    unshare(NEWNET)
    os.write(ready, b"x")
    os.read(plugged, 1)
    ip(FAR_LINES)
    asyncio.run(net_servers.serve(control))


def run_near(control, far_control, folder):
    """The near side: its own servers, which no box may reach, and connections for the tests."""
    die_with_parent()
    enter_near()
    ready, cable = os.pipe(), os.pipe()
    far = os.fork()
    if far == 0:
        control.close()
        run_far(far_control, ready[1], cable[0])
        os._exit(0)
    far_control.close()
    os.read(ready[0], 1)
    ip(NEAR_LINES % far)
    os.write(cable[1], b"x")
    near = NearSide(folder)
    control.sendall(json.dumps({"near": os.getpid(), "far": far}).encode() + b"\n")
    near.serve(control)


class NearSide:
    def __init__(self, folder):
        self.hits = []
        self.selector = selectors.DefaultSelector()
        for family, kind, address in (
            (socket.AF_INET6, socket.SOCK_STREAM, ("::", LOCAL_PORT)),
            (socket.AF_INET6, socket.SOCK_DGRAM, ("::", LOCAL_PORT)),
            (socket.AF_UNIX, socket.SOCK_STREAM, "\0" + ABSTRACT),
            (socket.AF_UNIX, socket.SOCK_STREAM, os.path.join(folder, "socket")),
        ):
            s = socket.socket(family, kind)
            if family == socket.AF_INET6:
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            s.bind(address)
            if kind == socket.SOCK_STREAM:
                s.listen()
            if family == socket.AF_UNIX and address[0] != "\0":
                os.chmod(address, 0o777)
            self.selector.register(s, selectors.EVENT_READ, self.hit)

    def hit(self, s):
        self.hits.append(str(s.getsockname()))
        if s.type == socket.SOCK_DGRAM:
            _, sender = s.recvfrom(4096)
            s.sendto(b"near", sender)
        else:
            with contextlib.suppress(OSError), s.accept()[0] as connection:
                connection.sendall(b"near")

    def serve(self, control):
        self.selector.register(control, selectors.EVENT_READ, None)
        while True:
            for key, _ in self.selector.select():
                if key.data:
                    key.data(key.fileobj)
                elif not self.command(control):
                    return

    def command(self, control):
        text = control.recv(4096)
        if not text:
            return False
        message = json.loads(text)
        if "connect" in message:
            try:
                with socket.create_connection(tuple(message["connect"]), WAIT_S) as s:
                    s.settimeout(None)
                    socket.send_fds(control, [b"{}\n"], [s.fileno()])
            except OSError as error:
                control.sendall(json.dumps({"error": str(error)}).encode() + b"\n")
        elif "mark" in message:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.sendto(MARKER, (DNS, 9))
            control.sendall(b"{}\n")
        else:
            control.sendall(json.dumps({"hits": self.hits}).encode() + b"\n")
            self.hits = []
        return True


# -- for the tests

Packet = collections.namedtuple("Packet", "source target protocol port name text")
FIELDS = (
    "ip.src ipv6.src ip.dst ipv6.dst _ws.col.Protocol tcp.dstport udp.dstport dns.qry.name"
    " _ws.col.Info icmpv6.type udp.payload".split()
)


class Capture:
    """Packets that crossed the cable, as dumpcap saw them on the far side and tshark reads them."""

    def __init__(self, lab):
        self.lab = lab
        self.file = lab.folder / f"{time.monotonic_ns()}.pcapng"
        command = [*lab.enter(lab.far, "far"), "dumpcap", "-q", "-i", "far", "-w", self.file]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, preexec_fn=die_with_parent
        )
        line, said = b"x", b""
        while line and not line.startswith(b"File:"):
            line = self.process.stderr.readline()
            said += line
        assert line, f"dumpcap: {said!r}"

    def stop(self):
        self.lab.ask_near({"mark": True})
        time.sleep(0.5)  # the kernel hands packets to dumpcap with a delay
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=WAIT_S)

    @property
    def packets(self):
        """All packets but ARP and NDP, which code in a box does not cause."""
        command = ["tshark", "-n", "-r", str(self.file), "-T", "fields", "-E", "separator=/t"]
        for field in FIELDS:
            command += ["-e", field]
        env = {**os.environ, "HOME": str(self.lab.folder)}  # no settings of the caller
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, env=env)
        found, marked = [], False
        for line in done.stdout.splitlines():
            v4, v6, to4, to6, protocol, tcp, udp, name, text, icmp6, payload = line.split("\t")
            if payload == MARKER.hex():
                marked = True
            elif protocol != "ARP" and icmp6 not in ("133", "134", "135", "136", "143"):
                found.append(
                    Packet(v4 or v6, to4 or to6, protocol, int(tcp or udp or 0), name, text)
                )
        assert marked, f"the capture is not complete: {done.stderr} {done.stdout[-2000:]}"
        return found

    @property
    def sent(self):
        """The packets that came from the near side."""
        return [p for p in self.packets if p.source in (NEAR, NEAR6) or not p.source]


class Near(rest_client.Rest):
    """A client of a server on the near side's loopback."""

    lab = None

    def connect(self):
        connection = super().connect()
        connection._create_connection = lambda *_, **__: self.lab.connect(self.port)
        return connection

    def with_key(self, key):
        other = Near(self.port, key)
        other.lab, other.process = self.lab, self.process
        return other


# Put before the code of a box: a function that prints how an attempt ended.
PRELUDE = """
import json, os, socket, sys, time
told = []
def attempt(function):
    began = time.monotonic()
    try:
        said = {"value": repr(function())[:200]}
    except BaseException as error:
        texts, kinds, walk = [], [], error
        while walk is not None and len(texts) < 9:
            texts.append(str(walk)); kinds.append(type(walk).__name__)
            walk = walk.__cause__ or walk.__context__
        said = {"error": " | ".join(texts), "kinds": kinds, "errno": getattr(error, "errno", None)}
    said["seconds"] = time.monotonic() - began
    told.append(said)
    print("ATTEMPT", json.dumps(said), flush=True)
def connect(host, port, timeout=20):
    with socket.create_connection((host, port), timeout) as s:
        s.sendall(b"GET / HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % host.encode())
        return s.recv(100)
"""


class Ran:
    """A result object from any interface: fields as attributes, and what attempt() printed."""

    def __init__(self, fields):
        self.fields = fields

    def __getattr__(self, name):
        if name.startswith("_") or name not in self.fields:
            raise AttributeError(f"the result has no '{name}': {self}")
        return self.fields[name]

    @property
    def attempts(self):
        lines = [l for l in self.stdout.splitlines() if l.startswith("ATTEMPT ")]
        return [json.loads(line.removeprefix("ATTEMPT ")) for line in lines]

    @property
    def attempt(self):
        assert len(self.attempts) == 1, self
        return self.attempts[0]

    @property
    def events(self):
        assert "network_error" not in self.fields, self
        return [e for e in self.fields.get("security_events", []) if e["kind"] == "network"]

    @property
    def network(self):
        assert self.usage["network"], self
        return self.usage["network"]

    def __repr__(self):
        first = {
            k: self.fields.get(k)
            for k in ("verdict", "stdout", "stderr", "error", "security_events", "network")
        }
        return json.dumps({**first, **self.fields}, indent=1)[:8000]


class Boxes(mcp_client.Stdio):
    """An MCP server on the near side. run() executes code in a fresh box or a session."""

    def __init__(self, lab, cli, *flags, version=mcp_client.LEGACY[-1], **options):
        flags = (*lab.flags, "--text-budget", "20000", *flags)  # attempts are read from stdout
        super().__init__(cli, *flags, version=version, prefix=lab.prefix, **options)
        self.open()

    def run(self, code, **arguments):
        answer = self.python(PRELUDE + code, **arguments)
        assert "structuredContent" in answer, answer
        ran = Ran(answer["structuredContent"])
        ran.text = mcp_client.text(answer)
        return ran

    def use(self, tool, /, **arguments):
        answer = self.call(tool, **arguments)
        assert not answer.get("isError"), answer
        return answer["structuredContent"]


class Lab:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        os.chmod(folder, 0o755)
        self.near_control, near = socket.socketpair()
        self.far_control, far = socket.socketpair()
        self.lock = threading.Lock()
        with near, far:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(near.fileno()), str(far.fileno()), folder],
                pass_fds=[near.fileno(), far.fileno()],
                preexec_fn=die_with_parent,
                stdin=subprocess.DEVNULL,
            )
        for control in (self.near_control, self.far_control):
            control.settimeout(WAIT_S)
        self.far_file = self.far_control.makefile("rwb")
        self.near_file = self.near_control.makefile("rb")
        hello = json.loads(self.near_file.readline() or "{}")
        assert hello, "the near side did not start"
        self.near, self.far = hello["near"], hello["far"]
        self.ca = json.loads(self.far_file.readline())["ca"]

    def close(self):
        for thing in (self.far_file, self.near_file, self.near_control, self.far_control):
            thing.close()
        self.process.kill()
        self.process.wait()

    # How the program is started.

    def enter(self, pid, side="near"):
        if ROOT:
            return ["nsenter", f"--net=/proc/{pid}/ns/net", "--"]
        join = ["nsenter", "-t", str(pid), "--user", "--net", "--preserve-credentials", "--"]
        return join if side == "far" else [*join, sys.executable, str(NEST), "user", "--"]

    @property
    def prefix(self):
        return self.enter(self.near)

    @property
    def flags(self):
        return ("--python", PYTHON, "--dns", DNS)

    def run(self, cli, code, *flags, **options):
        """`constrictor run`, on the near side."""
        done = cli.run(PRELUDE + code, *self.flags, *flags, prefix=self.prefix, **options)
        return Ran(done.json)

    def serve(self, cli, *flags, key=None, **options):
        client = rest_client.serve(cli, *self.flags, *flags, key=key, prefix=self.prefix, **options)
        near = Near(client.port, key)
        near.lab, near.process = self, client.process
        return near

    # The two sides.

    def ask_near(self, message):
        with self.lock:
            self.near_control.sendall(json.dumps(message).encode())
            return json.loads(self.near_file.readline())

    def connect(self, port, host="127.0.0.1"):
        """A connection within the near side, for a test that runs outside it."""
        with self.lock:
            self.near_control.sendall(json.dumps({"connect": [host, port]}).encode())
            text, fds, _, _ = socket.recv_fds(self.near_control, 4096, 1)
        if not fds:
            raise ConnectionRefusedError(json.loads(text)["error"])
        s = socket.socket(fileno=fds[0])
        s.settimeout(rest_client.WAIT_S)
        return s

    def hits(self):
        """Connections to the near side's own servers since the last call."""
        return self.ask_near({"hits": True})["hits"]

    def ask_far(self, **message):
        with self.lock:
            self.far_file.write(json.dumps(message).encode() + b"\n")
            self.far_file.flush()
            return json.loads(self.far_file.readline())

    def zone(self, zone):
        """Adds names and how the resolver answers for them: see net_servers.ZONE."""
        self.ask_far(do="zone", zone=zone)

    def clear(self):
        self.hits()
        self.ask_far(do="clear")

    def seen(self):
        """TCP connections that arrived at the far side, without those to its resolver."""
        return [tuple(end) for end in self.ask_far(do="show")["seen"] if end[1] != 53]

    def asked(self):
        """Names that the resolver was asked for."""
        return {name for name, _, _ in self.ask_far(do="show")["queries"]}

    def show(self, what):
        return self.ask_far(do="show")[what]

    @contextlib.contextmanager
    def capture(self):
        capture = Capture(self)
        try:
            yield capture
        finally:
            capture.stop()


@contextlib.contextmanager
def open_lab():
    folder = tempfile.mkdtemp(prefix="constrictor-lab-", dir=os.environ.get("TEST_FOLDER", "/var/tmp"))
    try:
        lab = Lab(folder)
        try:
            yield lab
        finally:
            lab.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    near, far = (socket.socket(fileno=int(fd)) for fd in sys.argv[1:3])
    run_near(near, far, sys.argv[3])


if __name__ == "__main__":
    main()
