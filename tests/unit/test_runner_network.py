# SPDX-License-Identifier: Apache-2.0
"""Tests of src/python/runner/network.py, outside any box, as test_runner.py does it: a broker made of a
UDP socket answers, servers listen on loopback, and connections elsewhere are led there.
"""

import socket
import threading
import unittest

from test_runner import Boxes

# What user code of a test begins with: the real module, with other places to go to.
BEGIN = '''
import asyncio, errno, socket, time
inside = socket.gethostbyname.__globals__
inside["BROKER"], inside["State"].on = ("127.0.0.1", {broker}), True
real_connect, real_lookup, gone = inside["plain_connect"], inside["plain_getaddrinfo"], []
def led_connect(sock, address):
    if type(address) is tuple and address[0].startswith(("192.0.2.", "198.18.", "2001:db8:")):
        gone.append(address)
        address = "127.0.0.1", {server}
    return real_connect(sock, address)
def led_lookup(host, port, *more):
    if host in ("good.test", b"good.test"):
        return real_lookup("198.18.0.5", port, *more)
    if isinstance(host, str) and host.endswith(".test"):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return real_lookup(host, port, *more)
inside["plain_connect"], inside["plain_getaddrinfo"] = led_connect, led_lookup
def caught(call, *args):
    try:
        call(*args)
    except Exception as exc:
        return [type(exc).__name__, exc.errno, str(exc)]
'''
# A box without network, as far as it can be had here; tests/api has the real one.
OFF = '''
inside["State"].on = False
def refuse(self, family, type, proto, fileno):
    raise OSError(97, "Address family not supported by protocol")
inside["plain_init"] = refuse
'''
NO = "no 13 cannot connect to %s: no rule allows it; ask the operator"


class Broker:
    """Answers by a table; what is not in it is fine, but no port is taken."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.questions, self.answers = [], {}
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            data, peer = self.socket.recvfrom(2048)
            question = data.decode()
            if question == "end":
                return self.socket.close()
            taken = question.startswith("taken ")
            if not taken:
                self.questions.append(question)
            answer = self.answers.get(question, "no 2 not taken" if taken else "ok")
            if answer is not None:
                self.socket.sendto(answer.encode(), peer)

    def close(self):
        self.socket.sendto(b"end", self.socket.getsockname())
        self.thread.join()


class Cases(Boxes):
    """The tests; below they become two classes, one per kind of zygote."""

    def setUp(self):
        super().setUp()
        self.broker = Broker()
        self.addCleanup(self.broker.close)
        self.server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.addCleanup(self.server.close)

    def value(self, code):
        port = self.server.getsockname()[1]
        self.out = self.fine(BEGIN.format(broker=self.broker.port, server=port) + code)
        self.assertNotIn("security_events", self.out.answers[-1])
        return self.out.result_json

    # ---- names

    def test_name_that_is_refused(self):
        text = "cannot resolve 'bad.test': no rule allows it"
        self.broker.answers["why bad.test"] = "no 13 " + text
        for call in ("socket.getaddrinfo, 'bad.test', 80", "socket.gethostbyname, 'bad.test'",
                     "socket.create_connection, ('bad.test', 80)",
                     "socket.socket().connect, ('bad.test', 80)",
                     "socket.socket().connect_ex, ('bad.test', 80)",
                     "socket.socket(type=socket.SOCK_DGRAM).sendto, b'', ('bad.test', 80)"):
            if "gethostbyname" in call:
                continue    # resolves by itself, see the next test
            kind, number, said = self.value(f"caught({call})")
            self.assertEqual((kind, number), ("gaierror", socket.EAI_NONAME), call)
            self.assertEqual(said, f"[Errno {socket.EAI_NONAME}] {text}", call)
        self.assertEqual(set(self.broker.questions), {"why bad.test"})

    def test_functions_that_resolve_by_themselves(self):
        self.broker.answers["why bad.test"] = "no 13 because"
        for name in "gethostbyname", "gethostbyname_ex":
            value = self.value(f'''
def failing(host): raise socket.{"herror" if "ex" in name else "gaierror"}(-2, "?")
inside["plain_{name}"] = failing
caught(socket.{name}, "bad.test")''')
            self.assertEqual(value, ["herror" if "ex" in name else "gaierror", -2,
                                     "[Errno -2] because"])

    def test_names_that_cannot_be_asked_about(self):
        for name in "'a b.test'", "'x' * 300 + '.test'", "'a\\n.test'", "'a\\0.test'":
            self.assertEqual(self.value(f"caught(socket.getaddrinfo, {name}, 80)")[0], "gaierror")
        self.assertEqual(self.broker.questions, [])

    def test_other_failures_stay_what_they_are(self):
        value = self.value("""[caught(socket.getaddrinfo, 'bad.test', 80, 0, 0, 0,
                                      socket.AI_NUMERICHOST)[1],
                               caught(socket.getaddrinfo, '127.0.0.1', 'no-service')[1]]""")
        self.assertEqual(value, [socket.EAI_NONAME, socket.EAI_SERVICE])
        self.assertEqual(self.broker.questions, [])

    def test_broker_that_has_nothing_to_say(self):
        for answer in "ok", "no", "no x y", "no 1", "no 99999999 text", "", "\0", "yes 13 text":
            self.broker.answers["why bad.test"] = answer
            self.assertEqual(self.value("caught(socket.getaddrinfo, 'bad.test', 80)")[2],
                             f"[Errno {socket.EAI_NONAME}] Name or service not known", answer)

    # ---- connections

    def test_connection_that_is_allowed(self):
        self.value("""
with socket.create_connection(("good.test", 8443), 5) as s: pass
socket.socket().connect(("good.test", 1))
socket.socket().connect(("192.0.2.7", 443))
assert socket.socket().connect_ex(("192.0.2.7", 443)) == 0
""")
        self.assertEqual(self.broker.questions,
                         ["connect 198.18.0.5 8443 wait", "connect 198.18.0.5 1 wait",
                          "connect 192.0.2.7 443 wait", "connect 192.0.2.7 443 wait"])

    def test_connection_that_is_refused(self):
        for mode in "wait", "now":
            self.broker.answers[f"connect 192.0.2.7 443 {mode}"] = NO % "192.0.2.7:443"
            self.broker.answers[f"connect 192.0.2.7 444 {mode}"] = "no 111 the far side is closed"
            self.broker.answers[f"connect 2001:db8::1 443 {mode}"] = "no 113 no way there"
        for prepare in "", "s.setblocking(False)", "s.settimeout(3)":
            value = self.value(f"""
s = six = socket.socket(socket.AF_INET6)
{prepare}
s = socket.socket()
{prepare}
[caught(s.connect, ("192.0.2.7", 443)), s.connect_ex(("192.0.2.7", 443)),
 caught(s.connect, ("192.0.2.7", 444)),
 caught(six.connect, ("2001:DB8:0::1", 443, 0, 0)), len(gone)]""")
            self.assertEqual(value[0], ["PermissionError", 13, "[Errno 13] cannot connect to "
                                        "192.0.2.7:443: no rule allows it; ask the operator"])
            self.assertEqual(value[1], 13)
            self.assertEqual(value[2][:2], ["ConnectionRefusedError", 111])
            self.assertEqual(value[3], ["OSError", 113, "[Errno 113] no way there"])
            self.assertEqual(value[4], 0)

    def test_time_out_is_kept(self):
        self.broker.answers["connect 192.0.2.7 443 wait"] = None
        value = self.value("""
s = socket.socket(); s.settimeout(0.3); t = time.monotonic()
first = caught(s.connect, ("192.0.2.7", 443))
number = s.connect_ex(("192.0.2.7", 443))
first, number, 0.55 < time.monotonic() - t < 30, isinstance(socket.timeout(), OSError)""")
        self.assertIn(value[0][0], ("timeout", "TimeoutError"))
        self.assertTrue(value[0][2].startswith("timed out"), value)
        self.assertEqual(value[1:], [11, True, True])

    def test_no_broker(self):
        self.assertEqual(self.value("""
closed = socket.socket(type=socket.SOCK_DGRAM); closed.bind(("127.0.0.1", 0))
inside["BROKER"] = closed.getsockname(); closed.close()
inside["ask"].__defaults__ = (20,); t = time.monotonic()
s = socket.socket(); s.connect(("192.0.2.7", 443)); s.close()
caught(socket.getaddrinfo, "bad.test", 80)[1], time.monotonic() - t < 10"""),
                         [socket.EAI_NONAME, True])

    def test_mute_broker_is_not_waited_for_long(self):
        self.broker.answers["connect 192.0.2.7 443 now"] = None
        self.assertTrue(self.value("""
inside["ask"].__defaults__ = (0.2,)
t = time.monotonic(); s = socket.socket(); s.setblocking(False)
number = s.connect_ex(("192.0.2.7", 443))
number in (0, errno.EINPROGRESS) and 0.15 < time.monotonic() - t < 10"""))

    def test_second_connect_is_no_second_question(self):
        self.value("""
s = socket.socket(); s.connect(("192.0.2.7", 443))
assert caught(s.connect, ("192.0.2.7", 443))[1] == errno.EISCONN
t = socket.socket(); t.setblocking(False)
assert t.connect_ex(("192.0.2.7", 443)) == errno.EINPROGRESS
assert t.connect_ex(("192.0.2.7", 443)) in (0, errno.EISCONN)""")
        self.assertEqual(self.broker.questions, ["connect 192.0.2.7 443 wait",
                                                 "connect 192.0.2.7 443 now"])

    def test_own_server_needs_no_broker(self):
        port = self.server.getsockname()[1]
        self.value(f"""
for host in "127.0.0.1", "localhost":
    socket.create_connection((host, {port})).close()
async def main():
    reader, writer = await asyncio.open_connection("127.0.0.1", {port})
    writer.close()
asyncio.run(main())
s = socket.socket(type=socket.SOCK_DGRAM); s.sendto(b"x", ("127.0.0.1", 9))
s.connect(("127.0.0.1", 9))
s.sendmsg([b"x"], [], 0, ("127.0.0.1", 9))
""")
        # "localhost" may be ::1 first, where nothing listens.
        self.assertEqual([q for q in self.broker.questions if "::1" not in q], [])

    def test_port_that_the_broker_took(self):
        """It would get the connection and reset it: so it is asked first."""
        port = self.server.getsockname()[1]
        self.broker.answers[f"taken {port}"] = "ok"
        for mode in "wait", "now":
            self.broker.answers[f"connect 127.0.0.1 {port} {mode}"] = NO % f"127.0.0.1:{port}"
        value = self.value(f"""
s, a = socket.socket(), ("127.0.0.1", {port})
values = [caught(s.connect, a), s.connect_ex(a), caught(asyncio.run, asyncio.open_connection(*a))]
s.setblocking(False)
[*values, caught(s.connect, a)]""")
        self.assertEqual(value[1], 13)
        for kind, number, text in (value[0], value[2], value[3]):
            self.assertEqual((kind, number), ("PermissionError", 13))
            self.assertIn("no rule allows it", text)
        self.assertEqual([q.split()[3] for q in self.broker.questions], ["wait"] * 3 + ["now"])

    def test_nobody_listens_on_loopback(self):
        free = socket.create_server(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        for mode in "wait", "now":
            self.broker.answers[f"connect 127.0.0.1 {port} {mode}"] = NO % f"127.0.0.1:{port}"
        for prepare in "", "s.setblocking(False)":
            kind, number, text = self.value(
                f's = socket.socket(); {prepare}\ncaught(s.connect, ("127.0.0.1", {port}))')
            self.assertEqual((kind, number), ("ConnectionRefusedError", 111))
            self.assertIn("nothing listens on 127.0.0.1 port", text)
            self.assertIn("no rule allows it", text)
        self.assertEqual(len(self.broker.questions), 2)

    def test_server_outside_on_loopback(self):
        """The broker binds the port when it is asked: the second try gets there."""
        for mode, prepare in ("wait", ""), ("now", "s.setblocking(False)"):
            free = socket.create_server(("127.0.0.1", 0))
            port = free.getsockname()[1]
            free.close()
            value = self.value(f"""
def answer(question, seconds=1):
    global server
    if question.startswith("taken"): return None
    server = socket.create_server(("127.0.0.1", {port}))
    return ()
inside["ask"] = answer
s = socket.socket(); {prepare}
number = s.connect_ex(("127.0.0.1", {port}))
server.settimeout(5)
server.accept()
number""")
            self.assertIn(value, (0, 115))

    # ---- what boxes do not have

    def test_udp(self):
        self.broker.answers["note udp 192.0.2.7 53"] = "no 1 boxes have no UDP; use TCP"
        value = self.value("""
s, a = socket.socket(type=socket.SOCK_DGRAM), ("192.0.2.7", 53)
[caught(s.sendto, b"x", a), caught(s.sendto, b"x", 0, a), caught(s.connect, a), s.connect_ex(a),
 caught(s.sendmsg, [b"x"], [], 0, a)]""")
        error = ["PermissionError", 1, "[Errno 1] boxes have no UDP; use TCP"]
        self.assertEqual(value, [error, error, error, 1, error])
        self.assertEqual(self.broker.questions, ["note udp 192.0.2.7 53"] * 5)

    def test_raw_sockets(self):
        for family, kind, proto in (2, 3, 1), (17, 3, 768), (16, 2, 0), (2, 2, 1):
            self.broker.answers[f"note raw {family} {kind} {proto}"] = "no 1 boxes have none"
            value = self.value(f"""
def refuse(*args): raise PermissionError(1, "Operation not permitted")
inside["plain_init"] = refuse
caught(socket.socket, {family}, {kind} | socket.SOCK_CLOEXEC, {proto})""")
            self.assertEqual(value, ["PermissionError", 1, "[Errno 1] boxes have none"])

    def test_wrong_arguments_are_as_ever(self):
        value = self.value("""
def kind(call, *args):
    try: call(*args)
    except Exception as exc: return type(exc).__name__
s, d = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
[kind(s.connect, "x"), kind(s.connect, ("127.0.0.1",)), kind(s.connect, ("127.0.0.1", 70000)),
 kind(s.connect, ("127.0.0.1", "80")), kind(s.connect, None), kind(d.sendto), kind(d.sendto, b"x"),
 kind(d.sendmsg), kind(d.sendto, b"x", 0, None), kind(s.connect), kind(socket.gethostbyname, 3),
 kind(socket.getaddrinfo, 3, 4), kind(socket.socket, "x"), kind(socket.socket, 2, 1, 0, 999)]""")
        self.assertEqual(value, ["TypeError", "TypeError", "OverflowError"] + ["TypeError"] * 6 +
                         ["TypeError"] * 4 + ["OSError"])

    # ---- asyncio

    def test_asyncio(self):
        self.broker.answers["connect 192.0.2.7 443 wait"] = NO % "192.0.2.7:443"
        self.broker.answers["connect 192.0.2.8 443 wait"] = "no 111 the far side is closed"
        self.broker.answers["why bad.test"] = "no 13 no rule allows it"
        value = self.value("""
async def go(host):
    try:
        reader, writer = await asyncio.open_connection(host, 443)
        writer.close()
    except OSError as exc:
        return [type(exc).__name__, exc.errno, str(exc)]
async def main():
    return await asyncio.gather(*map(go, ("192.0.2.7", "192.0.2.8", "bad.test", "good.test")))
asyncio.run(main())""")
        self.assertEqual(value[0][:2], ["PermissionError", 13])
        self.assertIn("no rule allows it; ask the operator", value[0][2])
        self.assertEqual(value[1], ["ConnectionRefusedError", 111,
                                    "[Errno 111] the far side is closed"])
        self.assertEqual((value[2][0], value[3]), ("gaierror", None))
        self.assertIn("no rule allows it", value[2][2])
        self.assertEqual(sorted(self.broker.questions),
                         ["connect 192.0.2.7 443 wait", "connect 192.0.2.8 443 wait",
                          "connect 198.18.0.5 443 wait", "why bad.test"])

    def test_asyncio_waits_without_standing_still(self):
        self.broker.answers["connect 192.0.2.7 443 wait"] = None
        self.assertEqual(self.value("""
async def main():
    ticks = 0
    task = asyncio.ensure_future(asyncio.open_connection("192.0.2.7", 443))
    for _ in range(5):
        await asyncio.sleep(0.02)
        ticks += 1
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return ticks, len(inside["State"].asked)
asyncio.run(main())"""), [5, 0])

    def test_asyncio_goes_on_without_an_answer(self):
        self.broker.answers["connect 192.0.2.7 443 wait"] = None
        self.assertTrue(self.value("""
inside["DIAL_S"] = 0.2
async def main():
    started = time.monotonic()
    reader, writer = await asyncio.open_connection("192.0.2.7", 443)
    writer.close()
    return 0.15 < time.monotonic() - started < 10
asyncio.run(main())"""))
        self.assertEqual(self.broker.questions, ["connect 192.0.2.7 443 wait"])

    # ---- nothing else changes

    def test_looks(self):
        self.assertTrue(self.value("""
import inspect, pickle, copy
class Sub(socket.socket):
    def connect(self, address): return super().connect(address)
s = Sub(); s.connect(("192.0.2.7", 443))
assert isinstance(s, socket.socket) and isinstance(s, socket.SocketType)
assert socket.socket.connect.__name__ == "connect" and "address" in socket.socket.connect.__doc__
signature = str(inspect.signature(socket.socket))
assert signature.startswith("(family=-1, type=-1, proto=-1, fileno=None")
signature = inspect.signature(socket.getaddrinfo)
assert list(signature.parameters) == "host port family type proto flags".split()
assert pickle.loads(pickle.dumps(socket.getaddrinfo)) is socket.getaddrinfo
assert caught.__globals__ is globals()
for what in pickle.dumps, copy.copy:
    try: what(s)
    except TypeError as exc: assert "cannot" in str(exc)
    else: assert 0
import ssl
assert issubclass(ssl.SSLSocket, socket.socket)
a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
b.sendmsg([b"y"]); assert a.recv(1) == b"y"
u = socket.socket(socket.AF_UNIX)
assert caught(u.connect, "/nowhere")[1] == 2 and u.connect_ex("/nowhere") == 2
True"""))

    def test_forks_and_threads(self):
        self.value("""
import os, threading
def go(): socket.create_connection(("192.0.2.7", 443)).close()
threads = [threading.Thread(target=go) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
pid = os.fork()
if not pid:
    go(); os._exit(7)
assert os.waitpid(pid, 0)[1] >> 8 == 7""")
        self.assertEqual(self.broker.questions, ["connect 192.0.2.7 443 wait"] * 9)

    def test_no_frame_of_ours_in_the_report(self):
        self.broker.answers["connect 192.0.2.7 443 wait"] = NO % "192.0.2.7:443"
        begin = BEGIN.format(broker=self.broker.port, server=self.server.getsockname()[1])
        for code in ('socket.create_connection(("192.0.2.7", 443))',
                     'asyncio.run(asyncio.open_connection("192.0.2.7", 443))'):
            error = self.go(begin + code).error
            self.assertEqual(error["type"], "PermissionError")
            self.assertEqual(error["errno"], 13)
            self.assertNotIn("network.py", error["text"])
            self.assertEqual(error["code_line"], code)

    def test_without_sockets_there_is_nothing(self):
        out = self.fine("import sys\n'network' in sys.modules or 'base' in sys.modules")
        self.assertIs(out.result_json, False)
        self.assertNotIn("security_events", out.answers[0])

    def test_a_socket_module_of_the_users_own(self):
        out = self.fine("""
            import sys
            open("socket.py", "w").write("x = 5")
            sys.modules.pop("socket", None)
            import socket
            socket.x""")
        self.assertEqual(out.result_json, 5)

    # ---- without network

    def events(self, code):
        begin = BEGIN.format(broker=self.broker.port, server=1)
        out = self.fine(begin + OFF + code)
        self.assertEqual(self.broker.questions, [])
        self.value_off = out.result_json
        return out.answers[0].get("security_events")

    def test_off_name(self):
        event, = self.events("""
[caught(socket.getaddrinfo, "far.test", p) for p in (443, "443")][0]""")
        kind, number, text = self.value_off
        self.assertEqual((kind, number), ("gaierror", socket.EAI_NONAME))
        self.assertEqual(text, f"[Errno {socket.EAI_NONAME}] cannot resolve 'far.test': network is off for this run")
        self.assertEqual(event, {"kind": "network", "action": "resolve", "target": "far.test:443",
                                 "host": "far.test", "port": 443, "layer": "box", "count": 2,
                                 "rule": "network: off", "reason": "network_off",
                                 "hint": event["hint"]})
        self.assertEqual(event["hint"], "code has no network here")

    def test_off_address(self):
        events = self.events("""
[caught(socket.create_connection, ("192.0.2.7", 443)), caught(socket.socket),
 caught(socket.socket, socket.AF_INET6), caught(socket.create_connection, ("2001:db8::1", 443))]""")
        self.assertEqual(self.value_off[0], ["OSError", 97, "[Errno 97] cannot connect to "
                         "192.0.2.7:443: network is off for this run"])
        self.assertEqual({value[1] for value in self.value_off}, {97})
        self.assertEqual([event["target"] for event in events],
                         ["192.0.2.7:443", "unknown", "[2001:db8::1]:443"])

    def test_off_raw(self):
        event, = self.events("caught(socket.socket, 16, 3, 0)")
        self.assertIn("boxes never have raw", self.value_off[2])
        self.assertEqual((event["action"], event["count"]), ("raw", 1))

    def test_off_many(self):
        events = self.events("""
for i in range(50): caught(socket.getaddrinfo, f"n{i}.test", 80)""")
        self.assertEqual(len(events), 16)

    def test_off_events_are_of_one_run(self):
        begin = BEGIN.format(broker=self.broker.port, server=1)
        out = self.session(begin + OFF + "\ncaught(socket.getaddrinfo, 'far.test', 80)\n", "1",
                           "caught(socket.getaddrinfo, 'far.test', 80)")
        counts = [len(answer.get("security_events", ())) for answer in out.answers]
        self.assertEqual(counts, [1, 0, 1])

    def test_off_own_name(self):
        self.assertIsNone(self.events("""
inside["gethostname"] = lambda: "me.test"
caught(socket.getaddrinfo, "me.test", None)"""))


class Warm(Cases, unittest.TestCase):
    pass


class Cold(Cases, unittest.TestCase):
    arguments = "--cold",


del Cases, Boxes

if __name__ == "__main__":
    unittest.main()
