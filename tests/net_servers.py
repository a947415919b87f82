# SPDX-License-Identifier: Apache-2.0
"""The far side of the network laboratory: every address of the world, played by one process.

Started by tests/net_lab.py in a network namespace of its own in which each address is local, so whatever
leaves the near side arrives here and is answered: a test that expects "refused" fails when it is not.
Servers: HTTP/1.1 with keep-alive and WebSocket (80, 8080), the same with TLS (443), SMTP (25, 465 with
TLS), and ports that misbehave (see ODD). The resolver (53, UDP and TCP) answers from a zone that tests
may change, well or badly. All that was seen is kept for them.
"""

import asyncio
import base64
import collections
import contextlib
import datetime
import fnmatch
import hashlib
import ipaddress
import itertools
import json
import socket
import ssl
import struct
import tempfile
import urllib.parse

import wheel_lab

WEB, OTHER, INDEX, MAIL, WILD = (f"44.128.0.{n}" for n in (10, 11, 12, 13, 14))
WEB6 = "2d00:5::10"
PRIVATE, METADATA = "10.11.12.13", "169.254.169.254"
CHUNK = bytes(range(256)) * 256
LOGIN = base64.b64encode(b"reader:s3cret-of-the-tests").decode()  # what login.test wants

# The resolver's answers; a test may add some. Names that are not here do not exist.
ZONE = {
    "web.test": {"a": [WEB]},
    "other.test": {"a": [OTHER]},
    "index.test": {"a": [INDEX]},
    "login.test": {"a": [INDEX]},
    "pages.test": {"a": [INDEX]},
    "files.test": {"a": [OTHER]},
    "mail.test": {"a": [MAIL]},
    "wild.test": {"a": [WILD]},
    "*.wild.test": {"a": [WILD]},
    "xn--bcher-kva.test": {"a": [WEB]},
    "six.test": {"aaaa": [WEB6]},
    "both.test": {"a": [WEB], "aaaa": [WEB6]},
    "private.test": {"a": [PRIVATE]},
    "metadata.test": {"a": [METADATA]},
    "loopback.test": {"a": ["127.0.0.1"]},
    "loopback6.test": {"aaaa": ["::1"]},
    "mapped.test": {"aaaa": ["::ffff:10.11.12.13"]},
    "nat64.test": {"aaaa": ["64:ff9b::a9fe:a9fe"]},
    "sixtofour.test": {"aaaa": ["2002:a0b:c0d::1"]},
    "unique.test": {"aaaa": ["fd00::1"]},
    "linklocal.test": {"aaaa": ["fe80::1"]},
    "multicast.test": {"a": ["224.0.0.1"]},
    "nowhere.test": {"a": ["0.0.0.0"]},
    "shared.test": {"a": ["100.64.0.1"]},
    "mixed.test": {"a": [PRIVATE, WEB]},
    "many.test": {"a": [f"44.128.{n // 250 + 10}.{n % 250 + 1}" for n in range(1000)]},
    "manyprivate.test": {"a": [f"10.0.{n // 250}.{n % 250 + 1}" for n in range(1000)]},
    "rebind.test": {"turns": [[WEB], ["127.0.0.1"], [METADATA], [PRIVATE]], "ttl": 0},
    "chain.test": {"cname": ["chain1.test", "chain2.test"], "a": [WEB]},
    "chainprivate.test": {"cname": ["private.test"], "a": [PRIVATE]},
    "circle.test": {"cname": ["circle.test"]},
    "servfail.test": {"rcode": 2},
    "refused.test": {"rcode": 5},
    "silent.test": {"silent": True},
    "slow.test": {"a": [WEB], "delay": 0.4},
    "liar.test": {"a": [WEB], "owner": "other.test"},
    "garbage.test": {"garbage": True},
    "empty.test": {"a": []},
    "drop.test": {"a": ["44.128.9.9"]},  # packets to it are dropped
}


def plain(address):
    return address.removeprefix("::ffff:")


class Certificates:
    """The tests' certificate authority; it makes a certificate for each name that a client asks for."""

    def __init__(self):
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec

        self.x509, self.ec = x509, ec
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name(
            [x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests of constrictor")]
        )
        self.authority = self.make(self.name, self.key, ca=True)
        self.contexts = {}

    def make(self, subject, key, ca=False, names=()):
        from cryptography.hazmat.primitives import hashes

        x509, now = self.x509, datetime.datetime.now(datetime.timezone.utc)
        day = datetime.timedelta(days=1)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + 30 * day)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
        )
        if ca:
            usage = dict.fromkeys(
                "digital_signature content_commitment key_encipherment data_encipherment"
                " key_agreement encipher_only decipher_only".split(),
                False,
            )
            usage = x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage)
            builder = builder.add_extension(usage, critical=True)
        else:
            alternatives = x509.SubjectAlternativeName([self.alternative(name) for name in names])
            builder = builder.add_extension(alternatives, critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def alternative(self, name):
        try:
            return self.x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            return self.x509.DNSName(name)

    def pem(self, certificate):
        from cryptography.hazmat.primitives.serialization import Encoding

        return certificate.public_bytes(Encoding.PEM)

    def context(self, name):
        if name not in self.contexts:
            from cryptography.hazmat.primitives import serialization as s

            key = self.ec.generate_private_key(self.ec.SECP256R1())
            subject = self.x509.Name([self.x509.NameAttribute(self.x509.NameOID.COMMON_NAME, name)])
            certificate = self.pem(self.make(subject, key, names=[name]))
            secret = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            with tempfile.NamedTemporaryFile() as file:
                file.write(certificate + secret)
                file.flush()
                context.load_cert_chain(file.name)
            self.contexts[name] = context
        return self.contexts[name]


class Far:
    def __init__(self):
        self.certificates = Certificates()
        self.zone = dict(ZONE)
        self.queries = []  # [name, type, "udp" or "tcp"]
        self.seen = []  # [address, port] of each TCP connection that arrived
        self.requests = []
        self.greetings = []  # server names of TLS
        self.mails = []
        self.live = collections.Counter()  # open connections by port
        self.turns = collections.defaultdict(itertools.count)
        self.wheel = wheel_lab.wheel("tinywheel", "1.0", {"tinywheel.py": b"ANSWER = 42\n"}).data

    async def start(self):
        odd = {
            7: self.echo,
            7001: self.reset,
            7002: self.mute,
            7003: self.endless,
            7004: self.hang_up,
        }
        plain_ports = {80: self.http, 8080: self.http, 25: self.smtp, **odd}
        default = self.certificates.context("web.test")
        default.sni_callback = self.choose
        for port, handler in plain_ports.items():
            await self.listen(port, handler)
        for port, handler in {443: self.http, 8443: self.http, 465: self.smtp}.items():
            await self.listen(port, handler, default)
        loop = asyncio.get_running_loop()
        self.udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        self.udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # The answer must come from the address that was asked.
        self.udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        self.udp.bind(("::", 53))
        self.udp.setblocking(False)
        loop.add_reader(self.udp, self.datagram)
        await self.listen(53, self.dns_stream)

    async def listen(self, port, handler, context=None):
        async def serve(reader, writer):
            address = plain(writer.get_extra_info("sockname")[0])
            self.seen.append([address, port])
            self.live[port] += 1
            try:
                await handler(reader, writer)
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
                pass
            finally:
                self.live[port] -= 1
                with contextlib.suppress(OSError):
                    writer.close()

        s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        s.bind(("::", port))
        await asyncio.start_server(serve, sock=s, backlog=4096, ssl=context)

    def choose(self, connection, name, _):
        self.greetings.append(name)
        if name and connection.context is not self.certificates.context(name):
            connection.context = self.certificates.context(name)

    # -- ports that misbehave

    async def echo(self, reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()

    async def reset(self, reader, writer):
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def hang_up(self, reader, writer):
        """Reads one line, then resets."""
        await reader.readline()
        await self.reset(reader, writer)

    async def mute(self, reader, writer):
        while await reader.read(65536):
            pass

    async def endless(self, reader, writer):
        while True:
            writer.write(CHUNK)
            await writer.drain()

    # -- HTTP

    async def http(self, reader, writer):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            method, target, _ = first.split(" ")
            headers = {k.lower(): v.strip() for k, _, v in (l.partition(":") for l in lines if l)}
            address, port = writer.get_extra_info("sockname")[:2]
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            if headers.get("transfer-encoding"):
                body = await self.chunks(reader)
            record = {"method": method, "target": target, "host": headers.get("host"), "port": port}
            record["address"] = plain(address)
            record["login"] = headers.get("authorization")
            self.requests.append({**record, "body": len(body)})
            if "websocket" in headers.get("upgrade", ""):
                return await self.websocket(reader, writer, headers)
            if not await self.answer(writer, method, target, headers, body, record):
                return
            if headers.get("connection", "").lower() == "close":
                return

    async def chunks(self, reader):
        body = b""
        while size := int((await reader.readline()).split(b";")[0], 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
        return body

    async def answer(self, writer, method, target, headers, body, record):
        path, _, query = target.partition("?")
        query = dict(urllib.parse.parse_qsl(query))
        _, first, *rest = path.split("/") + [""]
        status, kind, more = "200 OK", "text/plain", ""
        if first == "echo":
            data = body
        elif first == "bytes":
            return await self.download(writer, int(rest[0]), float(query.get("pause", 0)))
        elif first == "redirect":
            status, data, more = "302 Found", b"", f"Location: {query['to']}\r\n"
        elif first == "forever":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n")
            await self.endless(None, writer)
        elif first == "hang":
            await asyncio.sleep(3600)
        elif first == "reset":
            await self.reset(None, writer)
            return False
        elif record["host"] == "login.test" and record["login"] != f"Basic {LOGIN}":
            status, data, more = "401 Unauthorized", b"", 'WWW-Authenticate: Basic realm="x"\r\n'
        elif first == "simple" and rest[0]:
            kind, place = "text/html", "https://files.test" if record["host"] == "pages.test" else ""
            data = f'<a href="{place}/files/{rest[0]}-1.0-py3-none-any.whl">{rest[0]}-1.0-py3-none-any.whl</a>'
            data = data.encode()
            if rest[0] != "tinywheel":
                status, data = "404 Not Found", b""
        elif first == "files":
            kind, data = "application/octet-stream", self.wheel
        else:
            kind, data = "application/json", json.dumps({**record, "headers": headers}).encode()
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n{more}\r\n"
        writer.write(head.encode() + (b"" if method == "HEAD" else data))
        await writer.drain()
        return True

    async def download(self, writer, size, pause):
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
        while size > 0:
            writer.write(CHUNK[:size])
            size -= len(CHUNK)
            await writer.drain()
            if pause:
                await asyncio.sleep(pause)
        return True

    async def websocket(self, reader, writer, headers):
        """Echoes the messages of a client that keeps to RFC 6455."""
        magic = headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(magic.encode()).digest()).decode()
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode()
        )
        while True:
            first, second = await reader.readexactly(2)
            size = second & 127
            if size >= 126:
                size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8), "big")
            mask = await reader.readexactly(4)
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(await reader.readexactly(size)))
            length = bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2, "big")
            writer.write(bytes([first]) + length + data)
            await writer.drain()
            if first & 15 == 8:
                return

    # -- SMTP

    async def smtp(self, reader, writer):
        mail = {"from": "", "to": [], "text": ""}
        writer.write(b"220 mail.test ready\r\n")
        while line := (await reader.readline()).decode().strip():
            word = line.split(" ")[0].upper()
            reply = "250 fine"
            if word == "EHLO":
                reply = "250-mail.test\r\n250 8BITMIME"
            elif word == "MAIL":
                mail["from"] = line.partition("<")[2].partition(">")[0]
            elif word == "RCPT":
                mail["to"].append(line.partition("<")[2].partition(">")[0])
            elif word == "DATA":
                writer.write(b"354 go on\r\n")
                mail["text"] = (await reader.readuntil(b"\r\n.\r\n")).decode()
                self.mails.append(mail)
            elif word == "QUIT":
                reply = "221 bye"
            writer.write(reply.encode() + b"\r\n")
            await writer.drain()
            if word == "QUIT":
                return

    # -- the resolver

    def datagram(self):
        with contextlib.suppress(OSError):
            while True:
                query, ancillary, _, address = self.udp.recvmsg(4096, 256)
                asyncio.get_running_loop().create_task(self.resolve_udp(query, ancillary, address))

    async def resolve_udp(self, query, ancillary, address):
        answer = await self.resolve(query, "udp")
        if answer is None:
            return
        if len(answer) > 512:  # truncated, so that the client asks again over TCP
            answer = (
                answer[:2]
                + struct.pack("!H", 0x8380)
                + answer[4:6]
                + bytes(6)
                + self.question(query)
            )
        with contextlib.suppress(OSError):
            self.udp.sendmsg([answer], ancillary, 0, address)

    async def dns_stream(self, reader, writer):
        while True:
            size = int.from_bytes(await reader.readexactly(2), "big")
            answer = await self.resolve(await reader.readexactly(size), "tcp")
            if answer is not None:
                writer.write(struct.pack("!H", len(answer)) + answer)
                await writer.drain()

    def question(self, query):
        at = 12
        while query[at]:
            at += query[at] + 1
        return query[12 : at + 5]

    def find(self, name):
        if name in self.zone:
            return self.zone[name]
        for pattern, entry in self.zone.items():
            if pattern.startswith("*.") and fnmatch.fnmatchcase(name, pattern):
                return entry
        return {"rcode": 3}

    async def resolve(self, query, way):
        question = self.question(query)
        labels, at = [], 0
        while question[at]:
            labels.append(question[at + 1 : at + 1 + question[at]])
            at += question[at] + 1
        name = b".".join(labels).decode("latin-1").lower()
        (kind,) = struct.unpack("!H", question[-4:-2])
        self.queries.append([name, {1: "A", 28: "AAAA"}.get(kind, str(kind)), way])
        entry = self.find(name)
        if entry.get("delay"):
            await asyncio.sleep(entry["delay"])
        if entry.get("silent"):
            return None
        if entry.get("garbage"):
            return query[:2] + bytes(range(7, 90))
        return self.reply(query, question, name, kind, entry)

    def reply(self, query, question, name, kind, entry):
        records, ttl = [], entry.get("ttl", 30)
        owner = entry.get("owner", name)
        for target in entry.get("cname", []):
            records.append(record(owner, 5, ttl, encode(target)))
            owner = target
        addresses = {1: entry.get("a", []), 28: entry.get("aaaa", [])}.get(kind, [])
        if "turns" in entry and kind == 1:
            turn = next(self.turns[name])
            addresses = entry["turns"][turn % len(entry["turns"])]
        for address in addresses:
            records.append(record(owner, kind, ttl, ipaddress.ip_address(address).packed))
        flags = 0x8180 | entry.get("rcode", 0)
        head = query[:2] + struct.pack("!HHHHH", flags, 1, len(records), 0, 0)
        return head + question + b"".join(records)

    # -- requests of the tests to this process

    def command(self, message):
        word = message.pop("do")
        if word == "zone":
            self.zone.update(message["zone"])
            for name in message["zone"]:
                self.turns.pop(name, None)
            return {}
        if word == "clear":
            for log in (self.seen, self.queries, self.requests, self.greetings, self.mails):
                log.clear()
            return {}
        assert word == "show"
        return {
            "seen": self.seen,
            "queries": self.queries,
            "requests": self.requests,
            "greetings": self.greetings,
            "mails": self.mails,
            "live": self.live,
        }


def encode(name):
    return b"".join(bytes([len(l)]) + l.encode() for l in name.split(".")) + b"\0"


def record(owner, kind, ttl, data):
    return encode(owner) + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data


async def serve(control):
    """Serves until the other end of `control` (a stream socket, JSON lines) is closed."""
    far = Far()
    await far.start()
    reader, writer = await asyncio.open_connection(sock=control, limit=1 << 24)
    ready = {"ca": far.certificates.pem(far.certificates.authority).decode()}
    writer.write(json.dumps(ready).encode() + b"\n")
    while line := await reader.readline():
        writer.write(json.dumps(far.command(json.loads(line))).encode() + b"\n")
        await writer.drain()
