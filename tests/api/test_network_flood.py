# SPDX-License-Identifier: Apache-2.0
"""Floods: nothing that was not allowed crosses the cable, limits are met, and others are served.

What crosses it is captured on the far side (dumpcap, read by tshark). Each capture also holds what was
allowed, or a packet that the test itself sent, so that an empty one does not pass for a good one.
"""

import concurrent.futures
import threading
import time

import pytest
from conftest import open_cli
from net_lab import DNS, Boxes

# As much of everything as a box can do in a moment, below and above the explanations of Python.
FLOOD = """
import _socket, ctypes, itertools, random, struct, threading
libc = ctypes.CDLL(None, use_errno=True)
counts = {"names": 0, "udp": 0, "raw": 0, "tcp": 0}
stop = time.monotonic() + 2
TARGETS = ["44.128.0.11", "44.128.0.53", "169.254.169.254", "10.11.12.13", "127.0.0.1", "44.128.255.1",
           "255.255.255.255", "224.0.0.251", "198.18.0.7"]
KINDS = [(2, 3, 1), (2, 3, 6), (2, 3, 17), (2, 3, 255), (2, 2, 1), (10, 3, 58), (17, 3, 0x300), (17, 2, 0x300),
         (16, 3, 0)]  # family, type, protocol: raw IP, ICMP, packets, netlink
def query(name):
    labels = b"".join(bytes([len(l)]) + l.encode() for l in name.split("."))
    return struct.pack("!6H", random.getrandbits(16), 0x100, 1, 0, 0, 0) + labels + b"\\0\\0\\x10\\0\\1"
def names():
    while time.monotonic() < stop:
        secret = "%030x.tunnel.test" % random.getrandbits(120)
        try: _socket.getaddrinfo(secret, 80)
        except OSError: pass
        counts["names"] += 1
def udp():
    sockets = []
    for family in (_socket.AF_INET, _socket.AF_INET6):
        try: sockets.append(_socket.socket(family, _socket.SOCK_DGRAM))
        except OSError: pass
    while time.monotonic() < stop:
        counts["udp"] += 1
        for s in sockets:
            for target in TARGETS:
                if s.family == _socket.AF_INET6: target = "::ffff:" + target
                secret = query("%030x.tunnel.test" % random.getrandbits(120))
                for port, data in (53, secret), (123, b"x" * 400), (9, b"y"):
                    try: _socket.socket.sendto(s, data, _socket.MSG_DONTWAIT, (target, port))
                    except OSError: pass
        if not sockets: time.sleep(0.01)
def raw():
    while time.monotonic() < stop:
        counts["raw"] += 1
        for family, kind, proto in KINDS:
            fd = libc.socket(family, kind, proto)
            if fd >= 0:
                print("made a socket", family, kind, proto)
                address = struct.pack("=HH4s8x", 2, 0, bytes([44, 128, 0, 11]))
                libc.sendto(fd, bytes(60), 60, 0, address, 16)
                libc.close(fd)
        time.sleep(0.001)
def tcp():
    ports = itertools.cycle((80, 443, 53, 22, 8080))
    while time.monotonic() < stop:
        counts["tcp"] += 1
        for target in TARGETS[:6]:
            try:
                s = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
                s.settimeout(0.2)
                _socket.socket.connect(s, (target, next(ports)))
                s.send(b"GET / HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n")
                s.close()
            except OSError: pass
        time.sleep(0.001)
threads = [threading.Thread(target=f) for f in (names, udp, raw, tcp)]
for t in threads: t.start()
for t in threads: t.join()
print(json.dumps(counts))
"""


@pytest.mark.parametrize("network", ["off", "allowlist"])
def test_flood_of_names_and_raw_sockets_sends_no_packet_that_was_not_allowed(lab, cli, network):
    flags = ("--allow-host", "web.test:80") if network == "allowlist" else ()
    ask = "\nattempt(lambda: connect('web.test', 80))"
    lab.clear()
    with lab.capture() as capture:
        ran = lab.run(cli, ask + FLOOD + ask, *flags, "--files", 1024)
    assert ran.verdict == "ok", ran
    assert "made a socket" not in ran.stdout
    assert ('"names": 0' in ran.stdout) is False, ran.stdout
    packets = capture.packets  # the far side's answers, too
    if network == "off":
        assert packets == [], packets[:20]
        assert all("network is off" in one["error"] for one in ran.attempts), ran
        return
    allowed = [
        p
        for p in packets
        if "44.128.0.10" in (p.source, p.target)
        and p.protocol in ("TCP", "HTTP", "HTTP/JSON", "JSON")
    ]
    looked_up = [p for p in packets if DNS in (p.source, p.target) and p.name == "web.test"]
    rest = [p for p in packets if p not in allowed and p not in looked_up]
    assert rest == [], rest[:20]
    assert all(p.port == 80 for p in allowed if p.target == "44.128.0.10")
    assert lab.asked() <= {"web.test"}
    assert "value" in ran.attempts[0] and allowed and looked_up, ran
    assert ran.events, ran


def test_the_capture_sees_what_is_allowed(lab, cli):
    """So that the test above can fail."""
    with lab.capture() as capture:
        ran = lab.run(cli, "attempt(lambda: connect('web.test', 80))", "--allow-host", "web.test")
    assert "value" in ran.attempt, ran
    sent = capture.sent
    assert any(p.name == "web.test" and p.target == DNS for p in sent), sent
    assert any(p.target == "44.128.0.10" and p.port == 80 for p in sent), sent


CONNECTIONS = """
import _socket
good = bad = 0
began = time.monotonic()
address = socket.gethostbyname("web.test")
for n in range(20000):
    s = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    s.settimeout(20)
    try:
        _socket.socket.connect(s, (address, 7))
        s.send(b"x")
        good += s.recv(1) == b"x"
    except OSError:
        bad += 1
    s.close()
    if n % 500 == 0 and time.monotonic() - began > 20: break
print("made", good, bad)
"""


@pytest.fixture(scope="module")
def boxes(program, lab):
    with open_cli(program) as cli:
        with Boxes(
            lab,
            cli,
            "--allow-host",
            "web.test:7,web.test:80,web.test:7003",
            "--net-rate",
            "100000",
            "--stock",
            "2",
        ) as boxes:
            yield boxes


def test_twenty_thousand_connections_meet_the_limit_while_another_box_is_served(lab, boxes):
    lab.clear()
    flood = {}
    thread = threading.Thread(target=lambda: flood.update(ran=boxes.run(CONNECTIONS, timeout=60)))
    thread.start()
    served = 0
    while thread.is_alive():
        ran = boxes.run("attempt(lambda: connect('web.test', 80))")
        assert "value" in ran.attempt, ran
        served += thread.is_alive()
        time.sleep(0.05)
    thread.join()
    assert served, "the other box was served only when the flood was over"
    ran = flood["ran"]
    assert ran.verdict == "ok", ran
    assert ran.network["connections"] <= 1000, ran
    made = [n for n in lab.seen() if n[1] == 7]
    assert 900 <= len(made) <= 1000, len(made)
    assert any(e["action"] == "quota" for e in ran.events), ran


def test_many_connections_at_once_meet_the_limit(lab, boxes):
    code = """
kept = []
def one():
    s = socket.create_connection(("web.test", 7), 20)
    s.sendall(b"x"); s.recv(1) or 1 / 0
    kept.append(s)
for n in range(100): attempt(one)
"""
    ran = boxes.run(code)
    good = [one for one in ran.attempts if "value" in one]
    assert len(good) == 64, ran  # --net-sockets
    assert any(e["action"] == "quota" for e in ran.events), ran


def test_endless_download_meets_its_quota(lab, cli):
    code = """
import urllib.request
def read():
    total = 0
    with urllib.request.urlopen("http://web.test/forever") as answer:
        while part := answer.read(1 << 20):
            total += len(part)
            if total > 400 << 20: return total
    raise EOFError(f"ended after {total}")
attempt(read)"""
    ran = lab.run(cli, code, "--allow-host", "web.test", "--net-down", "50M")
    assert "error" in ran.attempt, ran
    assert 40 << 20 <= ran.network["bytes_down"] <= 51 << 20, ran
    (found,) = [e for e in ran.events if e["action"] == "quota"]
    assert found["host"] == "web.test" and found["reason"] == "bytes_down", found
    assert "--net-down" in found["hint"], found


def test_endless_upload_meets_its_quota(lab, cli):
    code = """
def send():
    with socket.create_connection(("web.test", 7002)) as s:
        for n in range(10000): s.sendall(bytes(65536))
attempt(send)"""
    ran = lab.run(cli, code, "--allow-host", "web.test", "--net-up", "20M")
    assert "error" in ran.attempt, ran
    assert 15 << 20 <= ran.network["bytes_up"] <= 21 << 20, ran
    assert any(e["action"] == "quota" for e in ran.events), ran


def test_a_reader_that_does_not_read_holds_up_nobody(lab, boxes):
    """The broker's memory is bounded: what a box does not take is not fetched."""
    code = """
s = socket.create_connection(("web.test", 7003))
time.sleep(3)
print("held")"""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        held, served = pool.submit(boxes.run, code), 0
        while not held.done():
            ran = boxes.run("attempt(lambda: connect('web.test', 80))")
            assert "value" in ran.attempt, ran
            served += not held.done()
            time.sleep(0.3)
        assert served, "the other box was served only when this one was gone"
        assert "held" in held.result().stdout
    assert held.result().network["bytes_down"] < 64 << 20, held.result()
