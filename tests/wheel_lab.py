# SPDX-License-Identifier: Apache-2.0
"""wheel_lab: a small package index on loopback, with wheels good, broken and hostile that are made here.

    with Lab() as lab:          # lab.url is the address for --index-url
        fill(lab)               # everything below "The catalogue"
        lab.add(wheel("mine", "1.0", {"mine.py": b"x = 1"}))
Used by tests/unit/test_installer.py and by the tests of environments in tests/api. Only the standard
library, CPython 3.9 or newer; `python3 tests/wheel_lab.py [PORT]` serves the catalogue until it is stopped.
"""

import base64
import contextlib
import hashlib
import http.server
import io
import json
import re
import socket
import stat
import struct
import sys
import tarfile
import threading
import time
import zipfile

OLD = "2020-01-01T00:00:00Z"
REGULAR = (stat.S_IFREG | 0o644) << 16


def digest_of(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


class Made:
    """A file for the index."""

    def __init__(self, name, version, filename, data, metadata=None):
        self.name, self.version, self.filename, self.data, self.metadata = name, version, filename, data, metadata
        self.sha256 = hashlib.sha256(data).hexdigest()


def metadata_of(name, version, requires=(), requires_python=None, extras=()):
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", "Summary: made by wheel_lab"]
    lines += [f"Requires-Python: {requires_python}"] if requires_python else []
    lines += [f"Provides-Extra: {extra}" for extra in extras]
    return "\n".join([*lines, *[f"Requires-Dist: {item}" for item in requires], "", ""]).encode()


def wheel(name, version, files=None, requires=(), tag="py3-none-any", requires_python=None, extras=(),
          attributes=None, record=None, unrecorded=(), metadata=None, scripts=None, change=None, stored=False):
    """A wheel. attributes: {path: external attributes}; record: {path: what RECORD says instead};
    metadata: other METADATA; scripts: entry_points.txt; change(zip bytes) -> zip bytes at the end."""
    dist = f"{re.sub('[-_.]+', '_', name)}-{version}"
    said = metadata or metadata_of(name, version, requires, requires_python, extras)
    everything = dict(files if files is not None else {f"{re.sub('[-_.]+', '_', name)}.py": f"VERSION = {version!r}\n".encode()})
    everything[f"{dist}.dist-info/METADATA"] = said
    everything[f"{dist}.dist-info/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: lab\nRoot-Is-Purelib: true\nTag: {tag}\n".encode()
    if scripts:
        everything[f"{dist}.dist-info/entry_points.txt"] = scripts.encode()
    rows = [f'"{path}",{(record or {}).get(path) or digest_of(data)},{len(data)}' for path, data in everything.items()
            if path not in unrecorded]
    everything[f"{dist}.dist-info/RECORD"] = "\n".join([*rows, f"{dist}.dist-info/RECORD,,", ""]).encode()
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED) as archive:
        for path, data in everything.items():
            info = zipfile.ZipInfo(path)
            info.filename = path        # ZipInfo cuts at a NUL
            info.external_attr = (attributes or {}).get(path, REGULAR)
            info.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    data = raw.getvalue()
    return Made(name, version, f"{dist}-{tag}.whl", change(data) if change else data, said)


def source(name, version, mark=None):
    """A source archive with a build backend of its own, which writes `mark` when it runs."""
    dist = f"{re.sub('[-_.]+', '_', name)}-{version}"
    backend = f'''
import base64, hashlib, os, zipfile
if {mark!r}:
    open({mark!r}, "a").write("built\\n")
def build_wheel(folder, config=None, metadata=None):
    files = {{"{dist}.dist-info/METADATA": "Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n",
             "{dist}.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
             "{dist.rpartition('-')[0]}.py": "VERSION = {version!r}\\n"}}
    rows = ["%s,sha256=%s,%d" % (path, base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
            .decode().rstrip("="), len(text)) for path, text in files.items()]
    files["{dist}.dist-info/RECORD"] = "\\n".join(rows + ["{dist}.dist-info/RECORD,,"]) + "\\n"
    with zipfile.ZipFile(os.path.join(folder, "{dist}-py3-none-any.whl"), "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return "{dist}-py3-none-any.whl"
'''
    project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n' \
              f'[project]\nname = "{name}"\nversion = "{version}"\n'
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for path, text in (("PKG-INFO", metadata_of(name, version).decode()), ("pyproject.toml", project),
                           ("backend.py", backend)):
            info = tarfile.TarInfo(f"{dist}/{path}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return Made(name, version, f"{dist}.tar.gz", raw.getvalue())


def read_bundle(path):
    """{path: (bytes, executable)} of a bundle as the installer writes it; strict as the porter is."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:6] == b"CBUN1\n", data[:6]
    at, found, total = 6, {}, 0
    while True:
        length, flags, size = struct.unpack_from("<IIQ", data, at)
        at += 16
        if length == 0:
            assert (flags, size, at) == (len(found), total, len(data)), (flags, size, at)
            return found
        name = data[at:at + length].decode()
        assert len(data) >= at + length + size and flags in (0, 1) and length <= 400
        assert not {"", ".", ".."} & set(name.split("/")) and name not in found, name
        found[name] = data[at + length:at + length + size], flags == 1
        total += size
        at += length + size


# ---- The index ----------------------------------------------------------------------------------

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, data, kind, status=200, headers=()):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        lab = self.server.lab
        path = self.path.partition("?")[0]
        lab.requests.append(path)
        for pattern, misbehave in list(lab.moods.items()):
            if re.search(pattern, path):
                return misbehave(self)
        if path.startswith("/files/"):
            return self.file(lab, path[len("/files/"):])
        name = path[len("/simple/"):].strip("/") if path.startswith("/simple/") else None
        if name == "":
            return self.page({"meta": {"api-version": "1.1"}, "projects": [{"name": key} for key in lab.projects]},
                             [f'<a href="/simple/{key}/">{key}</a>' for key in lab.projects], "Simple index")
        if name not in lab.projects:
            return self.answer(b"no such project", "text/plain", 404)
        entries = lab.projects[name]
        self.page({"meta": {"api-version": "1.1"}, "name": name, "files": [entry["json"] for entry in entries],
                   "versions": sorted({entry["made"].version for entry in entries})},
                  [entry["html"] for entry in entries], f"Links for {name}")

    def page(self, json_form, links, title):
        if "json" in self.headers.get("Accept", "") and not self.server.lab.html_only:
            return self.answer(json.dumps(json_form).encode(), "application/vnd.pypi.simple.v1+json")
        text = f"<!DOCTYPE html><html><head><title>{title}</title></head><body>{'<br>'.join(links)}</body></html>"
        self.answer(text.encode(), "text/html; charset=utf-8")

    def file(self, lab, path):
        if path.endswith(".metadata") and path[:-9] in lab.files and lab.files[path[:-9]].metadata:
            return self.answer(lab.files[path[:-9]].metadata, "application/octet-stream")
        if path not in lab.files:
            return self.answer(b"no such file", "text/plain", 404)
        self.answer(lab.files[path].data, "application/octet-stream")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, address):
        pass                            # a client that went away


class Lab:
    """moods: {pattern of a path: function(handler)}, for an index that misbehaves."""

    def __init__(self, port=0, html_only=False, host="127.0.0.1"):
        self.projects, self.files, self.moods, self.requests = {}, {}, {}, []
        self.html_only = html_only
        self.server = Server((host, port), Handler)
        self.server.lab = self
        self.host = f"http://{host}:{self.server.server_address[1]}"
        self.url = f"{self.host}/simple"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.server.shutdown()
        self.server.server_close()

    def add(self, made, yanked=False, sha256=None, uploaded=OLD, requires_python=None, size=True, url=None):
        """Lists a file; sha256 in place of its own is a lie, "" is none at all."""
        key = re.sub("[-_.]+", "-", made.name).lower()
        self.files[made.filename] = made
        announced = made.sha256 if sha256 is None else sha256
        url = url or f"{self.host}/files/{made.filename}"
        entry = {"filename": made.filename, "url": url, "hashes": {"sha256": announced} if announced else {},
                 "yanked": yanked, "upload-time": uploaded}
        attributes = ' data-yanked="withdrawn"' if yanked else ""
        if size:
            entry["size"] = len(made.data)
        if made.metadata:
            entry["core-metadata"] = entry["data-dist-info-metadata"] = {"sha256": hashlib.sha256(made.metadata).hexdigest()}
            attributes += f' data-core-metadata="sha256={hashlib.sha256(made.metadata).hexdigest()}"'
        if requires_python:
            entry["requires-python"] = requires_python
            attributes += f' data-requires-python="{requires_python.replace("<", "&lt;").replace(">", "&gt;")}"'
        fragment = f"#sha256={announced}" if announced else ""
        self.projects.setdefault(key, []).append(
            {"made": made, "json": {field: value for field, value in entry.items() if value is not None},
             "html": f'<a href="{url}{fragment}"{attributes}>{made.filename}</a>'})
        return made


class Proxy:
    """Leads every CONNECT to one place, and remembers who asked for what."""

    def __init__(self, target):
        self.target, self.asked = target, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.lead, args=(connection,), daemon=True).start()

    def lead(self, connection):
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(1)
        self.asked.append(head.decode())
        if "bWU6czNjcmV0" not in self.asked[-1]:          # me:s3cret
            connection.sendall(b"HTTP/1.1 407 Who are you\r\n\r\n")
            return connection.close()
        far = socket.create_connection(self.target)
        connection.sendall(b"HTTP/1.1 200 Go\r\nVia: test\r\n\r\n")
        threading.Thread(target=self.carry, args=(far, connection), daemon=True).start()
        self.carry(connection, far)

    @staticmethod
    def carry(one, other):
        with contextlib.suppress(OSError):
            while True:
                data = one.recv(65536)
                if not data:
                    break
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)


# ---- Moods: what an index does when it does not do as it should -----------------------------------

def web_page(handler):
    handler.answer(b"<html><head><title>Log in</title></head><body>Who are you?</body></html>", "text/html")


def error(status):
    return lambda handler: handler.answer(b"sorry", "text/plain", status)


def hang_up(handler):
    handler.close_connection = True
    handler.connection.close()


def silent(seconds):
    def wait(handler):
        time.sleep(seconds)
        hang_up(handler)
    return wait


@contextlib.contextmanager
def held(lab, pattern):
    """A path that is not answered before the caller is done with what it does meanwhile; then as ever."""
    release = threading.Event()

    def late(handler):
        release.wait(240)
        lab.moods.pop(pattern, None)
        handler.do_GET()

    lab.moods[pattern] = late
    try:
        yield release
    finally:
        lab.moods.pop(pattern, None)
        release.set()


def drip(seconds):
    """A byte now and then: no single read ever times out."""
    def trickle(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", "application/octet-stream")
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            handler.wfile.write(b"x")
            time.sleep(0.2)
    return trickle


def redirect(target, status=302):
    return lambda handler: handler.answer(b"", "text/plain", status, [("Location", target)])


# ---- Lies in a zip --------------------------------------------------------------------------------

def patch_entry(name, central=None, local=None):
    """change() for wheel(): writes over fields, {offset: bytes}, of an entry's two headers."""
    def change(data):
        data, raw = bytearray(data), name.encode()
        at = 0
        while True:
            at = data.find(raw, at)
            if at < 0:
                return bytes(data)
            for magic, length, fields in ((b"PK\1\2", 46, central), (b"PK\3\4", 30, local)):
                if at >= length and data[at - length:at - length + 4] == magic:
                    for offset, value in (fields or {}).items():
                        data[at - length + offset:at - length + offset + len(value)] = value
            at += 1
    return change


def announce_size(name, size):
    """The headers say that the entry unpacks to so many bytes."""
    value = struct.pack("<L", size)
    return patch_entry(name, {24: value}, {22: value})


def overlap(first, second):
    """The second entry begins where the first one does."""
    def change(data):
        at = data.find(b"PK\1\2")
        offsets = {}
        while at >= 0:
            length = struct.unpack("<H", data[at + 28:at + 30])[0]
            offsets[data[at + 46:at + 46 + length].decode()] = data[at + 42:at + 46]
            at = data.find(b"PK\1\2", at + 46)
        return patch_entry(second, {42: offsets[first]})(data)
    return change


def rename(old, new):
    """In place, for names that zipfile would not write; both have the same length."""
    assert len(old) == len(new)
    return lambda data: data.replace(old, new)


# ---- The catalogue --------------------------------------------------------------------------------

SPY = b'''
import json, os, socket
FOUND = {}
def attempt(name, call):
    try:
        FOUND[name] = repr(call())[:200]
    except BaseException as exc:
        FOUND[name] = "refused: " + type(exc).__name__
attempt("wheels", lambda: os.listdir("/opt/wheels"))
attempt("write", lambda: open(__file__ + ".new", "w"))
attempt("connect", lambda: socket.create_connection(("192.0.2.1", 80), 1))
attempt("passwd", lambda: open("/etc/shadow").read())
attempt("kill", lambda: os.kill(1, 9))
'''
HOSTILE = {
    "lab-absolute": {"files": {"/etc/lab": b"x"}},
    "lab-traversal": {"files": {"../../etc/lab": b"x"}},
    "lab-inner-traversal": {"files": {"lab/../../x.py": b"x"}},
    "lab-backslash": {"files": {"lab\\..\\x.py": b"x"}},
    "lab-drive": {"files": {"c:/x.py": b"x"}},
    "lab-control": {"files": {"lab/\x1b[31m.py": b"x"}},
    "lab-nul": {"files": {"lab/aZb.py": b"x"}, "change": rename(b"lab/aZb.py", b"lab/a\0b.py")},
    "lab-long": {"files": {"lab/" + "x" * 500: b"x"}},
    "lab-deep": {"files": {"d/" * 40 + "x.py": b"x"}},
    "lab-symlink": {"files": {"lab/link": b"/etc/passwd"}, "attributes": {"lab/link": (stat.S_IFLNK | 0o777) << 16}},
    "lab-device": {"files": {"lab/disk": b""}, "attributes": {"lab/disk": (stat.S_IFBLK | 0o666) << 16}},
    "lab-fifo": {"files": {"lab/fifo": b""}, "attributes": {"lab/fifo": (stat.S_IFIFO | 0o666) << 16}},
    "lab-setuid": {"files": {"lab/su": b"x"}, "attributes": {"lab/su": (stat.S_IFREG | 0o4755) << 16}},
    "lab-setgid": {"files": {"lab/su": b"x"}, "attributes": {"lab/su": (stat.S_IFREG | 0o2755) << 16}},
    "lab-case": {"files": {"lab_case.py": b"x = 1", "LAB_case.py": b"x = 2"}},
    "lab-case-folder": {"files": {"lab_case/a.py": b"", "Lab_Case/b.py": b""}},
    "lab-file-and-folder": {"files": {"lab": b"", "lab/x.py": b""}},
    "lab-twice": {"files": {"lab_1.py": b"x = 1", "lab_2.py": b"x = 2"}, "change": rename(b"lab_2.py", b"lab_1.py")},
    "lab-twice-merged": {"files": {"lab_x.py": b"x = 1", "lab_twice_merged-1.0.data/purelib/lab_x.py": b"x = 2"}},
    "lab-encrypted": {"files": {"lab/x.py": b"x"}, "change": patch_entry("lab/x.py", {8: b"\1\0"}, {6: b"\1\0"})},
    "lab-bomb": {"files": {"lab/zeros": bytes(64 << 20)}},
    "lab-bomb-100g": {"files": {"lab/zeros": bytes(1 << 20)}, "change": announce_size("lab/zeros", 0xFFFFFFF0)},
    "lab-liar": {"files": {"lab/zeros": bytes(8 << 20)}, "change": announce_size("lab/zeros", 1000)},
    "lab-overlap": {"files": {"lab/one": b"1" * 1000, "lab/two": b"2" * 1000}, "change": overlap("lab/one", "lab/two")},
}
BROKEN = {
    "lab-record": {"files": {"lab.py": b"x"}, "record": {"lab.py": digest_of(b"y")}},
    "lab-unrecorded": {"files": {"lab.py": b"x"}, "unrecorded": ["lab.py"]},
    "lab-short": {"files": {"lab/x": b"x" * 100}, "change": announce_size("lab/x", 200)},
    "lab-not-a-zip": {"change": lambda data: b"PK this is not a zip " * 100},
    "lab-cut-off": {"change": lambda data: data[:len(data) // 2]},
    "lab-garbled": {"files": {"lab/x.py": bytes(range(256)) * 40},
                    "change": lambda data: data[:60] + bytes(byte ^ 0x55 for byte in data[60:90]) + data[90:]},
    "lab-unknown-data": {"files": {"lab_unknown_data-1.0.data/elsewhere/x": b"x"}},
    "lab-no-wheel-file": {"change": rename(b"lab_no_wheel_file-1.0.dist-info/WHEEL", b"lab_no_wheel_file-1.0.dist-info/WHELK")},
}


def add_good(lab):
    for version in "1.0", "1.5", "2.0", "3.0rc1":
        lab.add(wheel("lab-good", version, {
            "lab_good/__init__.py": f"VERSION = {version!r}\n".encode(), "lab_good/data.txt": b"data\n",
            "lab_good/tests/test_x.py": b"x = 1\n", "lab_good/py2.py": b"print 'old'\n"},
            scripts="[console_scripts]\nlab-good = lab_good:main\n"))
    lab.add(wheel("lab-needs", "1.0", requires=["lab-good>=2"]))
    lab.add(wheel("lab-old", "1.0", requires=["lab-good<2"]))
    lab.add(wheel("lab-extra", "1.0", requires=['lab-good ; extra == "more"'], extras=["more"]))
    lab.add(wheel("lab-orphan", "1.0", requires=["lab-nowhere"]))
    lab.add(wheel("Lab.Mixed_Name", "1.0", {"lab_mixed_name.py": b""}))
    lab.add(wheel("lab-yanked", "1.0"), yanked=True)
    lab.add(wheel("lab-withdrawn", "1.0"))
    lab.add(wheel("lab-withdrawn", "1.1"), yanked=True)
    lab.add(wheel("lab-ancient", "1.0", tag="cp27-cp27mu-manylinux1_x86_64"))
    lab.add(wheel("lab-elsewhere", "1.0", tag="cp311-cp311-win_amd64"))
    lab.add(wheel("lab-future", "1.0", requires_python=">=3.99"), requires_python=">=3.99")
    lab.add(source("lab-source", "1.0"))
    lab.add(source("sklearn", "0.0"))       # as on real indexes: a project without wheels that holds the import name
    lab.add(wheel("lab-young", "1.0"))
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    lab.add(wheel("lab-young", "2.0"), uploaded=now)
    lab.add(wheel("lab-newborn", "1.0"), uploaded=now)
    lab.add(wheel("lab-data", "1.0", {
        "lab_data-1.0.data/purelib/lab_data.py": b"x = 1\n", "lab_data-1.0.data/scripts/lab-data": b"#!python\nprint(1)\n",
        "lab_data-1.0.data/headers/lab.h": b"/* */\n", "lab_data-1.0.data/data/share/lab.txt": b"text\n"}))
    lab.add(wheel("lab-pth", "1.0", {"lab_pth.py": b"", "lab_pth.pth": b"import os; os.environ['LAB'] = 'executed'\n",
                                     "__pycache__/lab_pth.cpython-311.pyc": b"evil"}))
    lab.add(wheel("lab-spy", "1.0", {"lab_spy.py": SPY}))
    lab.add(wheel("lab-crash", "1.0", {"lab_crash.py": b"x = " + b"(" * 90 + b"1" + b")" * 90, "lab_deep.py": b"-" * 100_000 + b"1"}))
    lab.add(wheel("lab-many", "1.0", {f"lab_many/m{number}.py": b"" for number in range(300)}))
    lab.add(wheel("lab-many-bombs", "1.0", {f"lab/zeros{number}": bytes(12 << 20) for number in range(8)}))
    lab.add(wheel("lab-large", "1.0", {"lab_large.bin": bytes(range(256)) * 4096 * 3}, stored=True))


def fill(lab):
    add_good(lab)
    for name, how in {**HOSTILE, **BROKEN}.items():
        lab.add(wheel(name, "1.0", **how))
    other = metadata_of("lab-somebody", "9.9")
    made = wheel("lab-other", "1.0", metadata=other)
    made.metadata = metadata_of("lab-other", "1.0")         # the index tells another story
    lab.add(made)
    lab.add(wheel("lab-wrong-hash", "1.0"), sha256="0" * 64)
    lab.add(wheel("lab-no-hash", "1.0"), sha256="")
    lab.add(wheel("lab-gone", "1.0"))
    del lab.files["lab_gone-1.0-py3-none-any.whl"]
    return lab


if __name__ == "__main__":
    with Lab(int(sys.argv[1]) if len(sys.argv) > 1 else 0) as served:
        print(fill(served).url, flush=True)
        threading.Event().wait()
