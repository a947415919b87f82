# SPDX-License-Identifier: Apache-2.0
"""Indexes that want a user and a password: packages come from there, and no box, log or answer has the password."""

import ast
import base64
import contextlib
import io
import json
import os
import pathlib
import sys
import tarfile
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import wheel_lab
from conftest import FOLDER, descendants, open_cli
from net_servers import Certificates
from rest_client import serve

USER, PASSWORD = "reader", "s3cret-of-the-tests"
TOKEN = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


class Handler(wheel_lab.Handler):
    def do_GET(self):
        self.server.lab.heads.append((self.path, dict(self.headers)))
        if not self.server.lab.open and self.headers.get("Authorization") != f"Basic {TOKEN}":
            return self.answer(b"who are you?", "text/plain", 401, [("WWW-Authenticate", 'Basic realm="lab"')])
        super().do_GET()


class SafeLab(wheel_lab.Lab):
    """An index behind TLS, which wants a login unless it is open; its links are relative."""

    def __init__(self, certificates, open=False):
        super().__init__()
        self.heads, self.open = [], open
        self.port = self.server.server_address[1]
        self.server.RequestHandlerClass = Handler
        self.server.socket = certificates.context("127.0.0.1").wrap_socket(
            self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.place = f"127.0.0.1:{self.port}"
        self.host = ""

    def with_login(self, password=PASSWORD):
        return f"https://{USER}:{password}@{self.place}/simple"


@pytest.fixture(scope="module")
def authority():
    return Certificates()


@pytest.fixture(scope="module")
def index(authority):
    """Links are relative, but for one that has the host's own https address."""
    with SafeLab(authority) as lab:
        lab.add(wheel_lab.wheel("lab-private", "1.0", requires=["lab-other"]))
        other = wheel_lab.wheel("lab-other", "2.0")
        lab.add(other, url=f"https://{lab.place}/files/{other.filename}")
        lab.add(spy(lab.place))
        yield lab


@pytest.fixture(scope="module")
def elsewhere():
    with wheel_lab.Lab() as lab:
        lab.heads, lab.open = [], True
        lab.server.RequestHandlerClass = Handler
        lab.add(wheel_lab.wheel("lab-moved", "1.0"))
        yield lab


@pytest.fixture(scope="module")
def trusted(authority):
    with tempfile.NamedTemporaryFile(dir=FOLDER, prefix="constrictor-test-ca-") as file:
        file.write(authority.pem(authority.authority))
        file.flush()
        os.chmod(file.name, 0o644)
        yield file.name


def place_of(lab):
    return "127.0.0.1:%d" % lab.server.server_address[1]


@contextlib.contextmanager
def start(program, *flags, **environment):
    with open_cli(program) as cli, tempfile.TemporaryFile() as log:
        running = serve(cli, "--python", sys.executable, "--log-level", "debug", *flags, env=environment, stderr=log)
        running.cli, running.log = cli, log
        yield running
        assert_unseen(log_of(running))
        assert b"Sanitizer" not in log_of(running), log_of(running)[-3000:]


@pytest.fixture(scope="module")
def server(program, index, elsewhere, trusted):
    with start(program, "--index-host", place_of(elsewhere), "--allow-host", index.place,
               CONSTRICTOR_INDEX_URL=index.with_login(), SSL_CERT_FILE=trusted) as running:
        yield running


def log_of(server):
    return os.pread(server.log.fileno(), 1 << 24, 0)


def assert_unseen(data):
    for secret in PASSWORD, TOKEN:
        assert secret.encode() not in data, data[max(0, data.find(secret.encode()) - 200):][:400]


def install(server, name, packages, **fields):
    assert server.post("/environments", {"name": name}).status == 201
    answer = server.post(f"/environments/{name}/packages", {"packages": packages, "wait": 60, **fields})
    assert_unseen(answer.data)
    return answer


def run(server, code, **fields):
    return server.post("/execute", {"code": code, "stream": False, **fields}).json


# What a build in the box that installs finds: everything that it can read, and what it gets when it asks by itself.
SPY = '''
import http.client, os, socket, ssl
found, halves = {}, %(halves)r
secrets = [(a + b).encode() for a, b in halves]
def attempt(name, call):
    try:
        found[name] = repr(call())[:200]
    except BaseException as exc:
        found[name] = "refused: " + type(exc).__name__
def ask(method, path, headers={}, body=None):
    link = http.client.HTTPConnection(%(place)r, timeout=5)
    link.request(method, path, headers=headers, body=body)
    return link.getresponse().status
def has(data):
    return any(secret in data for secret in secrets)
def files():
    seen = 0
    for top in ("/proc", os.getcwd(), "/tmp", "/run", "/home", "/etc", "/opt"):
        for folder, folders, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path) and seen < 2000 and not name.endswith((".whl", ".so", ".py", ".pyc")):
                    try:
                        with open(path, "rb", buffering=0) as file:
                            seen += 1
                            if has(file.read(1 << 20)):
                                return path
                    except OSError:
                        pass
    return seen > 100
def memory():
    """Of the other processes here, the installer's first of all."""
    looked = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) == os.getpid():
            continue
        try:
            with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
                for line in maps:
                    low, high = (int(part, 16) for part in line.split()[0].split("-"))
                    if " rw" in line[:60] and high - low < 1 << 26:
                        memory.seek(low)
                        looked += 1
                        if has(memory.read(high - low)):
                            return "FOUND " + line
        except (OSError, OverflowError, ValueError):
            pass
    return "nothing in %%d" %% looked
def safe():
    context = ssl._create_unverified_context()
    return context.wrap_socket(socket.create_connection(%(address)r, 5)).version()
def two_requests():
    link = socket.create_connection(%(address)r, 5)
    link.sendall(b"GET /simple/ HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 5\\r\\n\\r\\nhello")
    return link.recv(100)
attempt("environ", lambda: has(repr(dict(os.environ)).encode()))
attempt("files", files)
attempt("memory", memory)
attempt("get", lambda: ask("GET", "/simple/"))
attempt("own login", lambda: ask("GET", "/simple/", {"Authorization": "Basic bm9ib2R5OngK", "Cookie": "a=b", "X-Spy": "1"}))
for method in ("TRACE", "POST", "PUT", "DELETE", "OPTIONS"):
    attempt(method, lambda: ask(method, "/simple/"))
attempt("tls", safe)
attempt("body", two_requests)
EXTRA = "FOUND = " + repr(found)
'''


def spy(place):
    made = wheel_lab.source("lab-spy-build", "1.0")
    halves = [(secret[:5], secret[5:]) for secret in (PASSWORD, TOKEN)]
    before = SPY % {"place": place, "address": ("127.0.0.1", int(place.rpartition(":")[2])), "halves": halves}
    raw = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(made.data)) as old, tarfile.open(fileobj=raw, mode="w:gz") as new:
        for item in old:
            data = old.extractfile(item).read()
            if item.name.endswith("backend.py"):
                data = f"SPY = {before!r}\n".encode() + data.replace(
                    b"metadata=None):\n", b"metadata=None):\n    exec(SPY, globals())\n").replace(b"VERSION = '1.0'\\n\"", b"VERSION = '1.0'\\n\" + EXTRA + \"\\n\"")
            item.size = len(data)
            new.addfile(item, io.BytesIO(data))
    return wheel_lab.Made("lab-spy-build", "1.0", made.filename, raw.getvalue())


# ---- It works, and only as it should ------------------------------------------------------------------

def test_a_package_of_a_private_index(server, index):
    answer = install(server, "private", "lab-private")
    assert answer.json["state"] == "ready", answer
    assert "2.0" in json.dumps(run(server, "import lab_private, lab_other; print(lab_other.VERSION)", environment="private"))
    assert index.heads and all(head["Authorization"] == f"Basic {TOKEN}" and head["Host"] == index.place
                               for _, head in index.heads), index.heads[:2]


def test_the_password_is_nowhere_to_be_found(server, index):
    for path in "/environments", "/environments/private", "/environments/private?format=requirements", "/version", "/metrics":
        assert_unseen(server.get(path).data)
    export = server.get("/environments/private/export")
    assert_unseen(export.data)
    state = server.cli.folder / "state"
    for path in filter(pathlib.Path.is_file, state.rglob("*")):
        assert_unseen(path.read_bytes())
    for pid in [server.process.pid, *descendants(server.process.pid)]:
        for name in "environ", "cmdline":
            with contextlib.suppress(OSError):
                assert_unseen(pathlib.Path(f"/proc/{pid}/{name}").read_bytes())
    shown = server.cli.call("config", env={"CONSTRICTOR_INDEX_URL": index.with_login()})
    assert index.place in shown.out
    assert_unseen((shown.out + shown.err).encode())


def test_code_in_other_boxes_gets_no_login(server, index):
    """It may reach the same host and port, and speaks with it itself."""
    before = len(index.heads)
    code = f"""
import http.client, ssl
link = http.client.HTTPSConnection({index.place!r}, timeout=5, context=ssl._create_unverified_context())
link.request("GET", "/simple/"); print("safe", link.getresponse().status)
try:
    link = http.client.HTTPConnection({index.place!r}, timeout=5)
    link.request("GET", "/simple/"); print("plain", link.getresponse().status)
except Exception as exc:
    print("plain", type(exc).__name__)
"""
    answer = run(server, code)
    assert "safe 401" in answer["stdout"] and "plain 200" not in answer["stdout"], answer
    assert [head.get("Authorization") for _, head in index.heads[before:]] == [None], index.heads[before:]


def test_another_host_gets_no_login(server, index, elsewhere):
    """Neither by a redirection nor by a link."""
    made = elsewhere.files["lab_moved-1.0-py3-none-any.whl"]
    index.add(made)
    index.moods["lab_moved"] = lambda handler: wheel_lab.redirect(elsewhere.host + handler.path)(handler)
    linked = wheel_lab.wheel("lab-linked", "1.0", requires=["lab-moved"])
    elsewhere.add(linked)
    index.add(linked, url=f"{elsewhere.host}/files/{linked.filename}")
    error = install(server, "moved", "lab-linked").json["error"]
    assert error["code"] == "index_bad_answer", error        # from https to http
    assert {path.partition("-")[0] for path, _ in elsewhere.heads} == {"/files/lab_moved", "/files/lab_linked"}, elsewhere.heads
    assert not any("Authorization" in head for _, head in elsewhere.heads), elsewhere.heads


# ---- Where it comes from --------------------------------------------------------------------------------

def test_a_file_with_logins_and_a_hostile_build(program, index, trusted):
    """Code of a package, in the very box that installs, finds nothing and can make nothing come back."""
    with open_cli(program) as cli:
        path = cli.folder / "logins"
        path.write_text(f"# for the tests\nmachine other.example.org login me password else\n"
                        f"machine {index.place}\n  login {USER}\n  password {PASSWORD}\n")
        path.chmod(0o640)
        flags = "--index-url", f"https://{index.place}/simple", "--index-credentials", path
        wrong = cli.call("serve", "--port", "0", *flags)
        assert wrong.status == 64 and "chmod 600" in wrong.err, wrong
        assert_unseen(wrong.err.encode())
        path.chmod(0o600)
        with start(program, *flags, "--source-builds", SSL_CERT_FILE=trusted) as server:
            before = len(index.heads)
            answer = install(server, "spy", "lab-spy-build", source_builds=True)
            assert answer.json["state"] == "ready", answer
            found = run(server, "import lab_spy_build; print(lab_spy_build.FOUND)", environment="spy")
    found = ast.literal_eval(found["stdout"])
    assert found["memory"].startswith(("'nothing", "refused")), found
    assert found["environ"] == "False" and found["files"] == "True" and found["get"] == found["own login"] == "200", found
    for name in "TRACE", "POST", "PUT", "DELETE", "OPTIONS", "tls", "body":
        assert found[name].startswith(("refused", "b''")), (name, found)
    heads = [head for _, head in index.heads[before:]]
    assert all(head["Authorization"] == f"Basic {TOKEN}" and "Cookie" not in head and "X-Spy" not in head for head in heads)


def test_a_wrong_password(program, index, trusted):
    with start(program, CONSTRICTOR_INDEX_URL=index.with_login("wr0ng-password"), SSL_CERT_FILE=trusted) as server:
        answer = install(server, "wrong", "lab-private")
        error = answer.json["error"]
        assert error["code"] == "index_unauthorized" and index.place in error["message"], error
        assert b"wr0ng" not in answer.data + log_of(server)


def test_a_certificate_of_nobody(program, index):
    before = len(index.heads)
    with start(program, CONSTRICTOR_INDEX_URL=index.with_login()) as server:
        error = install(server, "nobody", "lab-private").json["error"]
        assert error["code"] == "index_unreachable" and "certificate" in error["message"], error
    assert len(index.heads) == before


class Named(SafeLab):
    """It has a name, and keeps the one that it is greeted with."""

    def __init__(self, certificates, name):
        wheel_lab.Lab.__init__(self)
        self.heads, self.open, self.greetings, self.host = [], False, [], ""
        self.port = self.server.server_address[1]
        self.place = f"{name}:{self.port}"
        self.server.RequestHandlerClass = Handler
        context = certificates.context(name)
        context.sni_callback = lambda connection, greeted, _: self.greetings.append(greeted)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)


def test_a_login_behind_a_proxy(program, authority, trusted):
    """Two passwords, the proxy's and the index's, and each is told to its own only; the gate looks no name up."""
    name = "index.internal.example.org"
    with Named(authority, name) as index:
        index.add(wheel_lab.wheel("lab-private", "1.0"))
        proxy = wheel_lab.Proxy(index.server.server_address)
        with contextlib.closing(proxy.listener), start(
                program, CONSTRICTOR_INDEX_URL=index.with_login(), SSL_CERT_FILE=trusted,
                CONSTRICTOR_INDEX_PROXY=f"http://me:s3cret@127.0.0.1:{proxy.port}") as server:
            answer = install(server, "proxied", "lab-private")
            assert answer.json["state"] == "ready", answer
    assert proxy.asked and all(head.startswith(f"CONNECT {index.place} ") for head in proxy.asked), proxy.asked[:2]
    assert not any(TOKEN in head for head in proxy.asked)
    assert index.heads and all(head["Authorization"] == f"Basic {TOKEN}" and "Proxy-Authorization" not in head
                               for _, head in index.heads), index.heads[:2]
    assert set(index.greetings) == {name}


@pytest.mark.parametrize("address, word", [("https://me:{}@x.example.org/simple", "command line"),
                                           ("http://me:{}@x.example.org/simple", "https://"),
                                           ("https://me:{}@/simple", "no host")])
def test_addresses_that_are_refused(cli, address, word):
    for option in "--index-url", "--extra-index-url":
        answer = cli.call("serve", "--port", "0", option, address.format(PASSWORD))
        assert answer.status == 64 and word in answer.err, answer
        assert_unseen((answer.out + answer.err).encode())
