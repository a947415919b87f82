# SPDX-License-Identifier: Apache-2.0
"""Ordinary Python clients reach an allowed host with no change to their code, as do pip and uv.

Each piece of code below is what a person would write; its last line is what it must say. The servers are
those of tests/net_servers.py, in namespaces that tests/net_lab.py makes.
"""

import hashlib

import pytest
from conftest import open_cli
from net_lab import Boxes

RULES = "web.test,web.test:8080,*.wild.test,mail.test:25,mail.test:465,index.test:443,six.test,bücher.test"
# The certificate authority of the tests, where clients look for one.
TRUST = """
open("/mnt/data/ca.pem", "w").write(%r)
for name in "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT":
    os.environ[name] = "/mnt/data/ca.pem"
"""

CLIENTS = {
    "requests": """
import requests
answer = requests.get("http://web.test/a?b=c", timeout=20)
answer.raise_for_status()
answer.json()["host"]""",
    "requests_tls": """
import requests
with requests.Session() as session:
    hosts = {session.get(f"https://web.test/{n}").json()["host"] for n in range(3)}
    hosts.add(session.post("https://web.test/echo", data=b"web.test").text)
hosts.pop() if len(hosts) == 1 else hosts""",
    "requests_redirect": """
import requests
answer = requests.get("http://web.test/redirect?to=https://web.test/there")
answer.json()["host"] if answer.history and answer.url == "https://web.test/there" else answer.url""",
    "httpx": """
import httpx
httpx.get("http://web.test/").json()["host"]""",
    "httpx_tls": """
import httpx
with httpx.Client() as client:
    host = client.get("https://web.test/").json()["host"]
host""",
    "httpx_async": """
import asyncio, httpx
async def work():
    async with httpx.AsyncClient() as client:
        answers = await asyncio.gather(*(client.get(f"https://web.test/{n}") for n in range(5)))
        return {a.json()["host"] for a in answers}.pop()
asyncio.run(work())""",
    "urllib": """
import urllib.request
json.load(urllib.request.urlopen("http://web.test/"))["host"]""",
    "urllib_tls": """
import urllib.request
json.load(urllib.request.urlopen("https://web.test/"))["host"]""",
    "http_client": """
import http.client
link = http.client.HTTPConnection("web.test")
for n in range(3):
    link.request("POST", "/echo", b"web." + b"test")
    body = link.getresponse().read()
body.decode()""",
    "aiohttp": """
import aiohttp, asyncio
async def work():
    async with aiohttp.ClientSession() as session:
        async with session.get("http://web.test/") as answer:
            return (await answer.json())["host"]
asyncio.run(work())""",
    "aiohttp_tls": """
import aiohttp, asyncio
async def work():
    async with aiohttp.ClientSession() as session:
        async with session.get("https://web.test/") as answer:
            return (await answer.json())["host"]
asyncio.run(work())""",
    "websockets": """
import asyncio, websockets
async def work():
    async with websockets.connect("ws://web.test/ws") as link:
        await link.send("web.test")
        return await link.recv()
asyncio.run(work())""",
    "websockets_tls": """
from websockets.sync.client import connect as ws_connect
with ws_connect("wss://web.test/ws") as link:
    for n in range(5):
        link.send("web.test")
        said = link.recv()
said""",
    "create_connection": """
with socket.create_connection(("web.test", 7), 20) as s:
    s.sendall(b"web.test")
    said = s.recv(100)
said.decode()""",
    "connect_ex": """
s = socket.socket()
code = s.connect_ex(("web.test", 7))
s.sendall(b"web.test")
said = s.recv(100)
s.close()
said.decode() if code == 0 else code""",
    "getaddrinfo_then_connect": """
(found, *_) = socket.getaddrinfo("web.test", 7, type=socket.SOCK_STREAM)
s = socket.socket(*found[:3])
s.connect(found[4])
s.sendall(b"web.test")
s.recv(100).decode()""",
    "without_blocking": """
import select
s = socket.socket()
s.setblocking(False)
try:
    s.connect((socket.gethostbyname("web.test"), 7))
except BlockingIOError:
    pass
select.select([], [s], [], 20)
code = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
s.setblocking(True)
s.sendall(b"web.test")
s.recv(100).decode() if code == 0 else code""",
    "asyncio": """
import asyncio
async def work():
    reader, writer = await asyncio.open_connection("web.test", 7)
    writer.write(b"web.test"); await writer.drain()
    data = await reader.readexactly(8)
    writer.close(); await writer.wait_closed()
    return data.decode()
asyncio.run(work())""",
    "asyncio_tls": """
import asyncio, ssl
async def work():
    reader, writer = await asyncio.open_connection("web.test", 443, ssl=ssl.create_default_context())
    writer.write(b"POST /echo HTTP/1.1\\r\\nHost: web.test\\r\\nContent-Length: 8\\r\\n\\r\\nweb.test")
    await reader.readuntil(b"\\r\\n\\r\\n")
    data = await reader.readexactly(8)
    writer.close()
    return data.decode()
asyncio.run(work())""",
    "ssl": """
import ssl
context = ssl.create_default_context()
with context.wrap_socket(socket.create_connection(("web.test", 443)), server_hostname="web.test") as s:
    subject = dict(s.getpeercert()["subject"][0])["commonName"]
subject""",
    "smtplib": """
import smtplib
with smtplib.SMTP("mail.test") as server:
    refused = server.sendmail("a@web.test", ["b@mail.test"], "Subject: hello\\n\\nplain")
"web.test" if not refused else refused""",
    "smtplib_tls": """
import smtplib, ssl
with smtplib.SMTP_SSL("mail.test", 465, context=ssl.create_default_context()) as server:
    refused = server.sendmail("a@web.test", ["b@mail.test"], "Subject: hello\\n\\nsecret")
"web.test" if not refused else refused""",
    "threads": """
import concurrent.futures, urllib.request
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    said = set(pool.map(lambda n: json.load(urllib.request.urlopen("http://web.test/"))["host"], range(16)))
said.pop() if len(said) == 1 else said""",
    "child_process": """
import subprocess
code = "import json, urllib.request as u; print(json.load(u.urlopen('http://web.test/'))['host'])"
subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()""",
    "child_process_and_a_port_that_a_rule_names": """
import subprocess
code = "import json, urllib.request as u; print(json.load(u.urlopen('http://web.test:8080/'))['host'][:8])"
subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()""",
    "fork": """
reading, writing = os.pipe()
if os.fork() == 0:
    with socket.create_connection(("web.test", 7)) as s:
        s.sendall(b"web.test"); os.write(writing, s.recv(100))
    os._exit(0)
os.read(reading, 100).decode()""",
    "upper_case": """
import urllib.request
json.load(urllib.request.urlopen("http://WEB.Test/"))["headers"]["host"].lower()""",
    "trailing_dot": """
with socket.create_connection(("web.test.", 7)) as s:
    s.sendall(b"web.test"); said = s.recv(100)
said.decode()""",
    "international_name": """
with socket.create_connection(("bücher.test", 7)) as s:
    s.sendall(b"web.test"); said = s.recv(100)
said.decode()""",
    "name_below_a_wildcard": """
import urllib.request
answer = json.load(urllib.request.urlopen("http://deep.down.wild.test/"))
"web.test" if answer["host"] == "deep.down.wild.test" else answer""",
    "host_with_ipv6_only": """
import urllib.request
answer = json.load(urllib.request.urlopen("http://six.test/"))
"web.test" if answer["address"] == "2d00:5::10" else answer""",
    "server_of_its_own": """
import http.server, threading, urllib.request
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
status = urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/").status
server.shutdown()
"web.test" if status == 200 else status""",
    "asyncio_server_of_its_own": """
import asyncio
async def work():
    async def echo(reader, writer):
        writer.write(await reader.readexactly(8)); await writer.drain(); writer.close()
    server = await asyncio.start_server(echo, "localhost", 0)
    reader, writer = await asyncio.open_connection("localhost", server.sockets[0].getsockname()[1])
    writer.write(b"web.test")
    return (await reader.readexactly(8)).decode()
asyncio.run(work())""",
}


@pytest.fixture(scope="module")
def boxes(program, lab):
    with open_cli(program) as cli:
        with Boxes(lab, cli, "--allow-host", RULES, "--memory", "1G", "--stock", "1") as boxes:
            yield boxes


@pytest.mark.parametrize("client", CLIENTS)
def test_client_works_unchanged(boxes, lab, client):
    ran = boxes.run(TRUST % lab.ca + CLIENTS[client])
    assert (ran.verdict, ran.result) == ("ok", "'web.test'"), ran
    assert ran.events == []


def test_mail_arrives_whole(boxes, lab):
    lab.clear()
    assert boxes.run(CLIENTS["smtplib"]).verdict == "ok"
    (mail,) = lab.show("mails")
    assert mail["from"] == "a@web.test" and mail["to"] == ["b@mail.test"]
    assert "plain" in mail["text"]


INSTALLERS = {
    "pip": """[sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-cache-dir",
        "--index-url", "https://index.test/simple", "--target", "/mnt/data/site", "tinywheel"]""",
    "uv": """[sys.prefix + "/bin/uv", "pip", "install", "--no-cache", "--no-config", "--python", sys.executable,
        "--index-url", "https://index.test/simple", "--target", "/mnt/data/site", "tinywheel"]""",
}


@pytest.mark.parametrize("installer", INSTALLERS)
def test_installer_works_unchanged(boxes, lab, installer):
    lab.clear()
    code = f"""
import subprocess
done = subprocess.run({INSTALLERS[installer]}, capture_output=True, text=True)
print(done.stdout[-2000:], done.stderr[-2000:], done.returncode)
sys.path.insert(0, "/mnt/data/site")
import tinywheel
tinywheel.ANSWER"""
    ran = boxes.run(TRUST % lab.ca + code, timeout=50)
    assert (ran.verdict, ran.result) == ("ok", "42"), ran
    assert set(lab.seen()) == {("44.128.0.12", 443)}


def test_downloads_and_uploads_are_whole(boxes, lab):
    code = """
import hashlib, urllib.request
data = urllib.request.urlopen("http://web.test/bytes/30000000").read()
body = os.urandom(8 << 20)
back = urllib.request.urlopen("http://web.test/echo", data=body).read()
[hashlib.sha1(data).hexdigest(), len(data), back == body]"""
    ran = boxes.run(code)
    whole = (bytes(range(256)) * (30000000 // 256 + 1))[:30000000]
    assert ran.result_json == [hashlib.sha1(whole).hexdigest(), 30000000, True], ran
    usage = ran.network
    assert usage["bytes_down"] > 38_000_000 and usage["bytes_up"] > 8 << 20, usage


def test_a_half_closed_connection_goes_on(boxes):
    code = """
with socket.create_connection(("web.test", 7), 20) as s:
    s.sendall(b"x" * 100000)
    s.shutdown(socket.SHUT_WR)
    total = 0
    while part := s.recv(65536):
        total += len(part)
total"""
    assert boxes.run(code).result == "100000"


def test_what_was_used_is_accounted_by_host(boxes):
    code = """
import urllib.request
for n in range(3):
    urllib.request.urlopen("http://web.test/bytes/100000").read()
urllib.request.urlopen("http://a.wild.test/").read()"""
    usage = boxes.run(code).network
    assert usage["connections"] == 4 and usage["requests"] == 4, usage
    hosts = {(h["host"], h["port"]): h for h in usage["hosts"]}
    assert set(hosts) == {("web.test", 80), ("a.wild.test", 80)}
    web = hosts["web.test", 80]
    assert web["connections"] == 3 and web["bytes_down"] > 300000 and 0 < web["bytes_up"] < 3000
    assert usage["bytes_down"] == sum(h["bytes_down"] for h in usage["hosts"])


def test_session_with_network_can_be_undone_and_forked(boxes):
    get = "import urllib.request; n += 1; urllib.request.urlopen('http://web.test/').status"
    boxes.use("open_session", name="s", checkpoint=True)
    assert boxes.run("n = 0", session="s").verdict == "ok"
    for _ in range(2):
        assert boxes.run(get, session="s").result == "200"
    boxes.use("undo_session", session="s", steps=1)
    assert boxes.run("n", session="s").result == "1"
    assert boxes.run(get, session="s").result == "200"
    boxes.use("fork_session", session="s", name="t")
    for name in ("t", "s"):
        ran = boxes.run(get + "\nn", session=name)
        assert ran.result == "3", ran
        assert ran.network["connections"] == 1
        refused = boxes.run("attempt(lambda: connect('other.test', 80))", session=name)
        assert "other.test" in refused.attempt["error"]
        boxes.use("close_session", session=name)
