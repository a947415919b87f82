# SPDX-License-Identifier: Apache-2.0
"""The server of Jupyter kernels behind a streaming REST interface, replaced: a test for each of its rows.

Commands are those of its document, with another port, and run by the real curl. Two servers serve most tests:
`api`, as a user of that server would start it, with the data stack; and `strict`, which has a key and small
limits, all from a .env file.
"""

import base64
import contextlib
import http.server
import json
import os
import pathlib
import re
import struct
import subprocess
import threading
import time

import anyio
import net_servers
import pytest
from conftest import open_cli, wait_until
from mcp import Client
from mcp_client import Http
from rest_client import Answer, Rest, serve

TOP = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("CONSTRICTOR_DATA", TOP / "build/venv-data")) / "bin/python"
CLIENTS = pathlib.Path(os.environ.get("CONSTRICTOR_NET", TOP / "build/venv-net")) / "bin/python"
BASE = "/ai/sandbox/v1/api"
KEY = "your-api-key"
DOTENV = f"""# as another server's example file has it
PORT=0
DEBUG=true
API_KEY={KEY}
MAX_KERNELS=2
KERNEL_TIMEOUT=2
KERNEL_CLEANUP_INTERVAL=1
MAX_EXECUTION_TIME=1
MAX_MEMORY_MB=64
SESSION_POOL_SIZE=1
LOG_LEVEL=INFO
"""
TABLE = """# the document's table
HOST=0.0.0.0
PORT=16010
DEBUG=false
API_KEY=None
MAX_KERNELS=10
KERNEL_TIMEOUT=300
MAX_EXECUTION_TIME=30
MAX_MEMORY_MB=512
"""
ALL_PATHS = (
    ("POST", BASE + "/execute"),
    ("POST", BASE + "/execute_sync"),
    ("GET", BASE + "/sessions"),
    ("POST", BASE + "/sessions"),
    ("GET", BASE + "/sessions/x"),
    ("DELETE", BASE + "/sessions/x"),
    ("POST", BASE + "/sessions/x/interrupt"),
    ("POST", "/ai/sandbox/v1/mcp"),
    ("POST", "/ai/sandbox/v1/mcp/"),
    ("POST", "/mcp"),
    ("POST", "/api/v1/execute"),
    ("GET", "/api/v1/sessions"),
    ("GET", "/metrics"),
)


class Kernels(Rest):
    """The same client, for any path."""

    host = "127.0.0.1"

    def ask(self, method, path, body=None, headers=None):
        headers = self.headers(headers)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        with contextlib.closing(self.connect()) as connection:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return Answer(response, response.read())

    def good(self, method, path, body=None, **headers):
        answer = self.ask(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        assert answer.status == 200, answer
        return answer

    def execute(self, code, base=BASE, **fields):
        return self.good("POST", base + "/execute", {"code": code, **fields}).lines

    def sync(self, code, **fields):
        answer = self.good("POST", BASE + "/execute_sync", {"code": code, **fields}).json
        assert (answer["resultCode"], answer["resultMsg"]) == (0, "success")
        assert set(answer["data"]) == {"texts", "images", "errors"}
        return answer["data"]

    def metric(self, name):
        """The value of one line of /metrics."""
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.good("GET", "/metrics").data.decode(), re.M)
        assert found, name
        return float(found[1])


def curl(client, command):
    """A command of the document, sent to this server; its output."""
    command = command.replace("http://localhost:16010", f"http://localhost:{client.port}")
    done = subprocess.run(["sh", "-c", command.replace("curl ", "curl -sS ", 1)], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def start(cli, *flags, key=None, **options):
    client = serve(cli, "--tools", "kernels", *flags, **options)
    return Kernels(client.port, key), client.process


class Files(http.server.BaseHTTPRequestHandler):
    """What sessions fetch."""

    def do_GET(self):
        self.send_response(200 if "missing" not in self.path else 404)
        if "named" in self.path:
            self.send_header("Content-Disposition", 'attachment; filename="../../etc/named.txt"')
        self.end_headers()
        self.wfile.write(b"region,total\nnorth,5\n")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def web():
    """Two servers of files on the loopback: http, and https with an untrusted certificate."""
    servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files) for _ in range(2)]
    context = net_servers.Certificates().context("127.0.0.1")
    servers[1].socket = context.wrap_socket(servers[1].socket, server_side=True)
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield [server.server_address[1] for server in servers]
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def api(program, web):
    with open_cli(program) as cli:
        hosts = ",".join(f"127.0.0.1:{port}" for port in web)
        env = {"SESSION_POOL_SIZE": "2", "LOG_DIR": str(cli.folder / "logs")}
        client, process = start(
            cli, "--python", DATA, "--allow-host", hosts, "--log-level", "info", env=env
        )
        client.process, client.logs = process, cli.folder / "logs" / "constrictor.log"
        yield client


@contextlib.contextmanager
def serving(cli, *flags, key=None, **options):
    """A server that has nothing but these flags and its .env; its log is stderr."""
    with (cli.folder / "stderr").open("w+b") as stderr:
        process = cli.start("serve", "--tools", "kernels", *flags, stderr=stderr, **options)
        line = ""
        while "MCP" not in line:
            line = process.stdout.readline().decode()
            assert line, (cli.folder / "stderr").read_text()
        client = Kernels(int(re.search(r":(\d+)/mcp$", line.strip()).group(1)), key)
        client.process, client.logs, client.shown = process, cli.folder / "stderr", line
        yield client
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def strict(program):
    """Without a network; all that it knows is in its .env file."""
    with open_cli(program) as cli:
        (cli.folder / ".env").write_text(DOTENV)
        with serving(cli, key=KEY) as client:
            yield client


def texts(messages):
    return "".join(m["text"] for m in messages if "text" in m)


def errors(messages):
    return [m for m in messages if "error" in m]


# ---- REST ----------------------------------------------------------------------------------------


def test_K_01_execute_with_a_session_of_any_name(api):
    """POST /api/v1/execute takes code, session_id (opened on first use), timeout and variables, as curl sends them."""
    out = curl(api, """curl -X POST "http://localhost:16010/api/v1/execute" \\
      -H "Content-Type: application/json" \\
      -d '{"code": "x = 20\\nprint(\\"Hello, World!\\")", "session_id": "my session/ü 1"}'""")
    assert json.loads(out.splitlines()[0])["text"] == "Hello, World!\n"
    for base in (BASE, "/api/v1"):  # the session is the same on both
        messages = api.execute("print(x + y)", base, session_id="my session/ü 1", variables={"y": 22}, timeout=5)
        assert texts(messages) == "42\n"
        assert texts(api.execute("print(x)", base, session_id="my session/ü 1", timeout="5")) == "20\n"
    assert "NameError" in errors(api.execute("x"))[0]["error"]  # without a name: nothing of others


def test_K_01_b_bad_requests_are_explained(api):
    """A wrong type, an unknown field and a missing one are named, with what was expected."""
    for body, words in (
        ({}, "'code' is missing"),
        ({"code": 5}, "'code' is 5, but must be a string"),
        ({"code": "1", "sesion_id": "a"}, "unknown field 'sesion_id'"),
        ({"code": "1", "timeout": ""}, "'timeout' is the string '', but must be a number"),
        ({"code": "1", "timeout": "100000"}, "'timeout' is 100000, but may be at most 300"),
        ({"code": "1", "timeout": "long"}, "'timeout' is the string 'long', but must be a number"),
        ({"code": "1", "timeout": 100000}, "'timeout' is 100000, but may be at most 300"),
        ({"code": "1", "session_id": "a\0b"}, "NUL"),
        ({"code": "1", "session_id": "a" * 129}, "'session_id' has 129 characters"),
    ):
        answer = api.ask("POST", BASE + "/execute", body)
        assert answer.status == 400 and words in answer.json["detail"], answer


def test_K_02_lines_and_events_come_while_the_code_runs(api):
    """Output reaches the client as NDJSON while the code runs; with Accept: text/event-stream as events."""
    code = "import os, time\nprint('first', flush=True)\nwhile not os.path.exists('seen'): time.sleep(0.01)\nprint('second')"
    for number, (path, accept, kind) in enumerate((
        (BASE + "/execute", "*/*", "application/x-ndjson"),
        (BASE + "/execute", "text/event-stream", "text/event-stream"),
        ("/api/v1/execute", "text/event-stream", "text/event-stream"),
    )):
        with contextlib.closing(api.connect()) as link:
            headers, session = {"Content-Type": "application/json", "Accept": accept}, f"streams-{number}"
            link.request("POST", path, json.dumps({"code": code, "session_id": session}), headers)
            answer = link.getresponse()
            line = answer.readline()
            while b"first" not in line:
                assert line
                line = answer.readline()
            assert api.ask("PUT", f"/api/v1/sessions/{session}/files/seen", b"").status == 200  # now it goes on
            rest = answer.read()
            assert answer.getheader("Content-Type").startswith(kind) and b"second" in rest
            assert (b"data:" in rest) == (kind == "text/event-stream")


def test_K_03_text_messages(api):
    """stdout, stderr and the value of the last expression come as {"text"}; each says which of them it is."""
    messages = api.execute("import sys\nprint('Hello, World!')\nprint('e', file=sys.stderr)\n6 * 7")
    by_stream = {m["stream"]: m["text"] for m in messages if "text" in m}
    assert by_stream == {"stdout": "Hello, World!\n", "stderr": "e\n", "result": "42"}
    shown = "class Shown:\n    def __repr__(self): return 'shown'\n    def _repr_html_(self): return '<b>'\n"
    for last in ("display(Shown())", "Shown()"):  # once each
        assert texts(api.execute(shown + last)) == "shown" == "".join(api.sync(shown + last)["texts"])


def test_K_04_image_messages(api):
    """An image is {"image": base64, "format": "png"}, also as the value of the last expression."""
    png = base64.b64encode(
        base64.b64decode(
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
        )
    ).decode()
    shown = f"""import base64
class Dot:
    def _repr_png_(self):
        return base64.b64decode({png!r})
"""
    for last in ("display(Dot())", "Dot()"):
        images = [m for m in api.execute(shown + last) if "image" in m]
        assert [(m["image"], m["format"]) for m in images] == [(png, "png")], last


def test_K_05_error_messages(api):
    """An error is {"error": "NameError: ...", "traceback": [lines]}; a timeout says that it was one."""
    (message,) = errors(api.execute("undefined_var"))
    assert message["error"] == "NameError: name 'undefined_var' is not defined"
    assert message["traceback"][0] == "Traceback (most recent call last):"
    assert message["traceback"][-1] == message["error"]
    (message,) = errors(api.execute("while True: pass", timeout=0.3))
    assert "timeout" in message["error"] and "Unknown error" not in message["error"]


def test_K_06_plt_show_gives_an_image(api):
    """The document's example: text, then the figure of plt.show() as a PNG, with nothing to configure."""
    # Its quotes end the shell's own; they are written here as they were meant.
    out = curl(api, r"""curl -X POST "http://localhost:16010/api/v1/execute" \
      -H "Content-Type: application/json" \
      -d '{
        "code": "print('"'"'Hello, World!'"'"')\nimport matplotlib.pyplot as plt\nplt.plot([1,2,3], [1,4,9])\nplt.show()",
        "session_id": "my-session"
      }'""")
    messages = [json.loads(line) for line in out.splitlines() if line]
    assert messages[0]["text"] == "Hello, World!\n"
    (image,) = [m for m in messages if "image" in m]
    data = base64.b64decode(image["image"])
    width, height = struct.unpack(">II", data[16:24])
    assert data.startswith(b"\x89PNG") and image["format"] == "png" and width >= 300 and height >= 200
    assert not errors(messages)


def test_K_06_b_the_client_of_the_example_with_requests(api):
    """A Python client with requests reads the stream line by line: text, image and error."""
    script = f"""
import json, requests
seen = []
for code in ("print('Plot generated!')", "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()", "undefined"):
    payload = {{"code": code, "session_id": "example-session", "timeout": 30}}
    with requests.post("http://127.0.0.1:{api.port}/api/v1/execute", json=payload, stream=True) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            if line.strip():
                message = json.loads(line)
                seen += [key for key in ("text", "image", "error") if key in message]
sessions = requests.get("http://127.0.0.1:{api.port}/api/v1/sessions").json()
print(seen, sessions["sessions"]["example-session"]["execution_count"])
"""
    done = subprocess.run([CLIENTS, "-c", script], capture_output=True, text=True, timeout=600)
    assert done.stdout.split("] ") == ["['text', 'image', 'error'", "3\n"], done


def test_K_07_sessions_as_they_are_listed(api):
    """GET sessions is {sessions: {id: {created_at, last_activity, is_busy, execution_count}}, total}."""
    api.execute("1", session_id="listed")
    api.execute("2", session_id="listed")
    whole = json.loads(curl(api, """curl "http://localhost:16010/api/v1/sessions\""""))
    keys = {"created_at", "last_activity", "is_busy", "execution_count"}
    assert whole["total"] == len(whole["sessions"]) and keys <= set(whole["sessions"]["listed"])
    theirs = api.good("GET", BASE + "/sessions").json
    assert set(theirs) == {"sessions", "total"} and theirs["total"] == len(theirs["sessions"]) == whole["total"]
    info = theirs["sessions"]["listed"]
    assert set(info) == keys and info["execution_count"] == 2 and info["is_busy"] is False
    assert time.time() - 600 < info["created_at"] <= info["last_activity"] <= time.time() + 1
    with contextlib.closing(api.connect()) as link:  # while something runs in it
        body = json.dumps({"code": "import time\nprint(1, flush=True)\ntime.sleep(30)", "session_id": "listed"})
        link.request("POST", BASE + "/execute", body, {"Content-Type": "application/json"})
        link.getresponse().readline()
        assert api.good("GET", BASE + "/sessions").json["sessions"]["listed"]["is_busy"] is True
    assert wait_until(lambda: not api.good("GET", BASE + "/sessions").json["sessions"]["listed"]["is_busy"])


def test_K_08_health(api):
    """GET /api/v1/health and /health say status, version, name, endpoints, sessions and uptime."""
    answers = [json.loads(curl(api, """curl "http://localhost:16010/api/v1/health\""""))]
    answers += [api.good("GET", path).json for path in ("/health", BASE + "/health")]
    for health in answers:
        assert health["status"] == "ok" and health["version"] and health["name"] == "constrictor"
        assert {"docs", "mcp_endpoint", "api_endpoint", "active_sessions", "uptime"} <= set(health)
        assert health["active_sessions"] == api.good("GET", BASE + "/sessions").json["total"]


# ---- sessions and limits -------------------------------------------------------------------------


def test_K_09_sessions_persist_and_are_cleaned_up(strict):
    """Variables, imports and files stay between runs, and an unused session ends by itself."""
    strict.execute("import math\nn = 1\nopen('kept.txt', 'w').write('k')", session_id="p")
    for turn in (2, 3):
        assert strict.sync("n += 1\nprint(n, math.pi > 3, open('kept.txt').read())", session_id="p")["texts"] == [
            f"{turn} True k\n"
        ]
    assert wait_until(lambda: "p" not in strict.good("GET", BASE + "/sessions").json["sessions"])
    assert strict.sync("'n' in globals()", session_id="p")["texts"] == ["False"]


def test_K_10_one_rule_of_keys_for_everything(strict):
    """With API_KEY every path wants it, MCP and metrics too: 401 "API key required", 401 "Invalid API key"."""
    keyless, wrong = Kernels(strict.port), Kernels(strict.port, "not-the-key")
    for method, path in ALL_PATHS:
        body = {"code": "1"} if method == "POST" else None
        for client, words in ((keyless, "API key required"), (wrong, "Invalid API key")):
            answer = client.ask(method, path, body)
            assert answer.status == 401 and words in answer.data.decode(), (path, answer)
            assert answer.json.get("detail", words) == words
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert keyless.ask("GET", "/health").status == 200  # as there: a monitor needs no key
    out = curl(strict, """curl -X POST "http://localhost:16010/api/v1/execute" \\
      -H "Content-Type: application/json" \\
      -H "Authorization: Bearer your-api-key" \\
      -d '{"code": "print('"'"'Hello, World!'"'"')"}'""")
    assert json.loads(out.splitlines()[0])["text"] == "Hello, World!\n"


def test_K_11_host_port_debug_key_and_more(cli, strict):
    """HOST, PORT, DEBUG, API_KEY, ALLOWED_HOSTS, LOG_DIR each work, or are refused with the reason at the start."""
    shown = cli.call("config", "--tools", "kernels", env={"HOST": "::1", "DEBUG": "true", "LOG_DIR": "/x/logs"}).out
    for line in ("host = ::1 ", "port = 16010 ", "debug = true ", "sessions = 10 ", "wall = 30s ", "memory = 512M ",
                 "session-ttl = 5m ", "stock = 3 ", "log-dir = /x/logs "):
        assert line in shown, line
    assert "host = 127.0.0.1 " in cli.call("config", "--tools", "kernels").out  # safer than there
    for env, words in (
        ({"HOST": "0.0.0.0"}, "can be reached from other machines, and no key is set"),
        ({"ALLOWED_HOSTS": "*"}, "any web page could use this server"),
        ({"PORT": "99999"}, "PORT"),
        ({"API_KEY": "short"}, "api-key"),
        ({"LOG_DIR": "/proc/nothing"}, "log-dir"),
        ({"MAX_KERNELS": "0"}, "MAX_KERNELS"),
        ({"MAX_MEMORY_MB": "-5"}, "MAX_MEMORY_MB"),
        ({"KERNEL_TIMEOUT": "soon"}, "KERNEL_TIMEOUT"),
        ({"KERNEL_CLEANUP_INTERVAL": "1e3"}, "KERNEL_CLEANUP_INTERVAL"),
        ({"SESSION_POOL_SIZE": "-1"}, "SESSION_POOL_SIZE"),
        ({"ENABLE_NETWORK_ACCESS": "perhaps"}, "ENABLE_NETWORK_ACCESS"),
    ):
        ended = cli.call("serve", "--tools", "kernels", env={"PORT": "0", **env})
        assert ended.status != 0 and words in ended.err, (env, ended)
    assert texts(strict.execute("print(1)")) == "1\n"
    assert re.search("gate: info: run .*: ok, [0-9]+ bytes of code", strict.logs.read_text())  # DEBUG=true of its .env
    answer = strict.ask("GET", "/health", headers={"Host": "evil.example.org"})
    assert answer.status in (403, 421), answer


def test_K_12_the_oldest_idle_session_makes_room(strict):
    """With MAX_KERNELS=2 a third session ends the one that was idle for longest, and not one that works."""
    for name in ("one", "two"):
        strict.execute("v = 1", session_id=name)
    strict.execute("v", session_id="one")  # now 'two' is the oldest
    strict.execute("v = 3", session_id="three")
    assert set(strict.good("GET", BASE + "/sessions").json["sessions"]) == {"one", "three"}
    assert strict.sync("v", session_id="one")["texts"] == ["1"]
    # Its owner is told what became of it, however it is asked for.
    for method, path in ("GET", "two"), ("DELETE", "two"), ("POST", "two/interrupt"):
        answer = strict.ask(method, f"{BASE}/sessions/{path}")
        assert answer.status == 404 and answer.json["code"] == "session_ended", answer
        assert re.match("Session not found: the session 'two' was ended to make room", answer.json["detail"])
    told = strict.good("POST", BASE + "/execute_sync", {"code": "v", "session_id": "two"}).json
    assert told["data"]["errors"][0]["error"].startswith("NameError") and "to make room" in told["hint"]


def test_K_13_idle_sessions_end(strict):
    """KERNEL_TIMEOUT=2: a session ends when it was idle so long, and not before; the sweep takes them together."""
    begin = time.monotonic()
    strict.execute("1", session_id="idle")
    while time.monotonic() - begin < 1.5:
        assert "idle" in strict.good("GET", BASE + "/sessions").json["sessions"]
        time.sleep(0.2)
    assert wait_until(lambda: "idle" not in strict.good("GET", BASE + "/sessions").json["sessions"])
    assert 2 <= time.monotonic() - begin
    answer = strict.ask("GET", "/api/v1/sessions/idle")
    assert answer.status == 409 and answer.error["reason"] == "expired"


def test_K_14_execution_time_is_kept(strict):
    """MAX_EXECUTION_TIME=1 ends code that ignores SIGINT too, also beside other runs, and no request may ask for more."""
    stubborn = """import os, signal
for _ in range(os.cpu_count()):
    if os.fork() == 0:
        while True: pass
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True:
    try:
        while True: pass
    except BaseException:
        pass"""
    for fields in ({}, {"session_id": "stubborn"}):
        (message,) = errors(strict.execute(stubborn, **fields))
        assert "timeout" in message["error"], message
    assert "stubborn" not in strict.good("GET", BASE + "/sessions").json["sessions"]
    answer = strict.ask("POST", BASE + "/execute", {"code": "1", "timeout": 30})
    assert answer.status == 400 and "at most 1" in answer.json["detail"]


def test_K_15_memory_is_kept(strict):
    """MAX_MEMORY_MB=64 is enforced by the kernel: a run that wants more ends with its own reason."""
    (message,) = errors(strict.execute("x = b'x' * (200 << 20)\nprint(len(x))"))
    assert "memory" in message["error"].lower(), message
    assert texts(strict.execute("x = b'x' * (16 << 20)\nprint(len(x))")) == f"{16 << 20}\n"


def test_K_16_dotenv(cli, strict):
    """The document's table as a .env starts, on 127.0.0.1; a .env file sets all of it but what would weaken the server."""
    assert wait_until(lambda: strict.metric("constrictor_up") == 1)  # it runs by its .env alone
    (cli.folder / ".env").write_text(DOTENV)
    shown = cli.call("config", "--tools", "kernels").out
    for line in ("sessions = 2 ", "session-ttl = 2s ", "session-sweep = 1s ", "wall = 1s ", "timeout-max = 1s ",
                 "memory = 64M ", "stock = 1 ", "api-key = (set) "):
        assert line in shown, line
    assert KEY not in shown
    (cli.folder / ".env").write_text(TABLE)
    shown = cli.call("config", "--tools", "kernels").out
    for line in ("host = 127.0.0.1 ", "port = 16010 ", "sessions = 10 ", "session-ttl = 5m ", "wall = 30s ", "memory = 512M "):
        assert line in shown, line
    for text, said in ((TABLE, "HOST=0.0.0.0 is not used"), (TABLE.replace("0.0.0.0", "127.0.0.1"), "")):
        (cli.folder / ".env").write_text(text.replace("16010", "0"))
        with serving(cli) as server:
            assert server.ask("GET", "/health").status == 200 and "http://127.0.0.1:" in server.shown
            warned = server.logs.read_text()
            assert ("cannot open the server to others" in warned) == bool(said) and said in warned
    for line in "CONSTRICTOR_STATE=/tmp/x", "ENABLE_NETWORK_ACCESS=true":
        (cli.folder / ".env").write_text(line + "\n")
        ended = cli.call("serve", "--tools", "kernels")
        assert ended.status == 64 and "cannot be set there" in ended.err and "environment variable" in ended.err


def test_K_11_b_variables_of_other_programs(cli):
    """DEBUG=app:* and Kubernetes' CONSTRICTOR_PORT=tcp://... stop no command; booleans are read in any case."""
    (cli.folder / ".env").unlink(missing_ok=True)
    foreign = {"DEBUG": "app:*", "CONSTRICTOR_PORT": "tcp://10.96.0.11:8000", "PORT": "tcp://10.96.0.11:80"}
    unused = {"KERNEL_TIMEOUT": "soon", "HOST": "", "ALLOWED_HOSTS": "", "MAX_KERNELS": "many"}
    done = cli.call("run", "-c", "print(6 * 7)", env={**foreign, **unused})
    assert (done.status, done.out, done.err) == (0, "42\n", "")
    shown = cli.call("config", env=foreign)
    assert "port = 8000 " in shown.out and "debug = false " in shown.out
    for name in "DEBUG", "CONSTRICTOR_PORT", "PORT":
        assert re.search(f"warn: .*{name}.*another program's and is ignored", shown.err), shown.err
    for word, value in {"True": "true", "FALSE": "false", "Yes": "true", "1": "true", "oFF": "false"}.items():
        assert f"debug = {value} " in cli.call("config", env={"DEBUG": word}).out, word
    with serving(cli, "--port", "0", env=foreign) as server:
        assert server.ask("GET", "/health").status == 200
        assert "ignored" in server.logs.read_text()
    assert cli.call("serve", env={"CONSTRICTOR_PORT": "many"}).status == 64  # no other program writes that


def test_K_17_a_pool_that_is_always_fresh(api):
    """SESSION_POOL_SIZE boxes wait ready-made; a box holds nothing of earlier sessions."""
    assert wait_until(lambda: api.metric('constrictor_boxes{state="parked"}') == 2)
    for turn in range(4):
        found = api.sync(
            "import os, sys\n"
            "print(sorted(n for n in globals() if n.startswith('secret')), os.listdir('.'), 'mark' in os.environ,\n"
            "      hasattr(sys, 'mark'))\n"
            "secret_of_session = 1\nopen('left.txt', 'w').write('x')\nos.environ['mark'] = '1'\nsys.mark = 1",
            session_id=f"pooled-{turn}",
        )
        assert found["texts"] == ["[] [] False False\n"]
        api.good("DELETE", f"{BASE}/sessions/pooled-{turn}")
    begin = time.monotonic()
    for _ in range(10):
        api.sync("1 + 1")
    assert time.monotonic() - begin < 30  # kernels that start take longer, even where nothing else is done


def test_K_18_execute_sync_and_single_sessions(api):
    """execute_sync gives {resultCode, resultMsg, data}; sessions/{id} is shown, interrupted and ended."""
    data = api.sync("print('a')\n1/0", session_id="single")
    assert data["texts"] == ["a\n"] and data["images"] == []
    assert data["errors"][0]["error"] == "ZeroDivisionError: division by zero" and data["errors"][0]["traceback"]
    shown = api.good("GET", BASE + "/sessions/single").json
    assert shown["session_id"] == "single" and shown["working_directory"] == "/mnt/data"
    assert shown["files"] == [] and shown["total_files"] == 0 and shown["execution_count"] == 1
    with contextlib.closing(api.connect()) as link:
        body = json.dumps({"code": "v = 7\nimport time\nprint(1, flush=True)\ntime.sleep(30)", "session_id": "single"})
        link.request("POST", BASE + "/execute", body, {"Content-Type": "application/json"})
        answer = link.getresponse()
        answer.readline()
        said = api.good("POST", BASE + "/sessions/single/interrupt").json
        assert said == {"message": "Session single interrupted"} and b"KeyboardInterrupt" in answer.read()
    assert api.sync("v", session_id="single")["texts"] == ["7"]
    assert api.good("DELETE", BASE + "/sessions/single").json == {"message": "Session single terminated"}
    for method, end in (("GET", ""), ("DELETE", ""), ("POST", "/interrupt")):
        answer = api.ask(method, BASE + "/sessions/single" + end)
        assert answer.status == 404 and answer.json["detail"] == "Session not found"


def test_K_18_b_sessions_with_files_by_url(api, web):
    """POST sessions fetches file_urls and files from within the box, by the broker's rules; certificates are checked."""
    plain, tls = web
    body = {
        "session_id": "files",
        "file_urls": [f"http://127.0.0.1:{plain}/sales.csv", f"http://127.0.0.1:{plain}/named",
                      f"http://127.0.0.1:{plain}/missing", "http://elsewhere.test/x", "file:///etc/passwd",
                      f"https://127.0.0.1:{tls}/sales.csv"],
        "files": [{"url": f"http://127.0.0.1:{plain}/sales.csv", "id": "q3"}],
        "timeout": 10,
    }
    answer = api.good("POST", BASE + "/sessions", body).json
    assert answer["resultCode"] == 0 and answer["data"]["session_id"] == "files"
    assert answer["data"]["working_directory"] == "/mnt/data"
    assert answer["data"]["downloaded_files"] == ["sales.csv", "named.txt", "sales-2.csv"]
    for error, words in zip(
        answer["data"]["errors"], ("404", "no rule allows this host", "only http and https", "CERTIFICATE_VERIFY"),
        strict=True,
    ):
        assert words in error, error
    shown = api.good("GET", BASE + "/sessions/files").json
    assert {(f["id"], f["filename"], f["size"]) for f in shown["files"]} == {
        ("sales.csv", "sales.csv", 21), ("named.txt", "named.txt", 21), ("q3", "sales-2.csv", 21)
    }
    assert api.sync("print(open('sales.csv').read())", session_id="files")["texts"] == ["region,total\nnorth,5\n\n"]
    made = api.good("POST", BASE + "/sessions", {}).json["data"]  # its name is made up, and can be used
    assert api.sync("1 + 1", session_id=made["session_id"])["texts"] == ["2"]


def test_K_18_c_no_network_no_download(strict):
    """A server without network refuses to fetch, says so, and opens and runs nothing."""
    before = strict.metric('constrictor_runs_total{verdict="ok"}'), strict.metric("constrictor_sessions")
    body = {"session_id": "never", "file_urls": ["http://127.0.0.1:9/x"]}
    answer = strict.ask("POST", BASE + "/sessions", body)
    assert answer.status == 403 and "no network" in answer.json["detail"] and "nothing was run" in answer.json["detail"]
    assert "--allow-host files.example.org:443, or '*' for all public ones" in answer.json["hint"]
    assert before[0] == strict.metric('constrictor_runs_total{verdict="ok"}')
    assert "never" not in strict.good("GET", BASE + "/sessions").json["sessions"]


# ---- MCP -----------------------------------------------------------------------------------------


class Server:
    """What mcp_client.Http wants to know of one."""

    def __init__(self, client):
        self.host, self.port, self.process = "127.0.0.1", client.port, client.process

    def fetch(self, method, path, headers=None):
        return Kernels(self.port).ask(method, path, None, headers)


@pytest.fixture
def mcp(api):
    with Http(Server(api)) as connection:
        connection.open()
        yield connection


def told(result):
    """The object of an answer, which its text has too."""
    whole = json.loads(result["content"][0]["text"])
    assert whole == result["structuredContent"]
    return whole


def test_K_19_tools_resource_and_prompt(mcp, web):
    """The four tools, session://{session_id} and code_execution_prompt, with its parameters and answers; and ours that
    install what those kernels have by themselves."""
    tools = {tool["name"]: tool["inputSchema"] for tool in mcp.result("tools/list")["tools"]}
    for name in ("install_package", "check_package_status", "list_installed_packages"):
        assert tools.pop(name)
    assert {name: (list(t["properties"]), t.get("required", [])) for name, t in tools.items()} == {
        "execute_python_code": (["code", "session_id", "timeout"], ["code"]),
        "list_active_sessions": ([], []),
        "terminate_session": (["session_id"], ["session_id"]),
        "create_session_with_files": (["session_id", "file_urls", "timeout"], []),
    }
    assert tools["create_session_with_files"]["properties"]["timeout"]["default"] == 30
    made = told(mcp.call("create_session_with_files", session_id="m", file_urls=[f"http://127.0.0.1:{web[0]}/a.csv"]))
    assert made["status"] == "success" and made["session_id"] == "m" and made["working_directory"] == "/mnt/data"
    assert made["downloaded_files"] == ["a.csv"] and made["errors"] == []
    ran = told(mcp.call("execute_python_code", code="v = 6\nprint(open('a.csv').read(), end='')", session_id="m"))
    assert ran["output"] == "region,total\nnorth,5\n" and ran["images"] == [] and ran["session_id"] == "m"
    assert told(mcp.call("execute_python_code", code="v * 7", session_id="m", timeout=10))["output"] == "42"
    listed = told(mcp.call("list_active_sessions"))
    assert listed["total"] == len(listed["sessions"]) and listed["sessions"]["m"]["status"] == "active"
    assert listed["sessions"]["m"]["execution_count"] == 3 and listed["sessions"]["m"]["last_activity"] > 1e9
    templates = mcp.result("resources/templates/list")["resourceTemplates"]
    assert "session://{session_id}" in [t["uriTemplate"] for t in templates]
    (content,) = mcp.result("resources/read", {"uri": "session://m"})["contents"]
    info = json.loads(content["text"])
    assert info["session_id"] == "m" and info["execution_count"] == 3 and info["status"] == "active"
    assert told(mcp.call("terminate_session", session_id="m")) == {
        "status": "success", "message": "Session m terminated"
    }
    assert told(mcp.call("terminate_session", session_id="m"))["status"] == "warning"
    assert "session://m" in mcp.error("resources/read", {"uri": "session://m"})["message"]
    for style, word in (("clean", "easy to read"), ("verbose", "detailed"), ("minimal", "as little code")):
        arguments = {"task_description": "sort a list", "code_style": style, "include_comments": "false"}
        answer = mcp.result("prompts/get", {"name": "code_execution_prompt", "arguments": arguments})
        text = answer["messages"][0]["content"]["text"]
        assert "sort a list" in text and word in text and "Leave comments out" in text
    bad = {"task_description": "x", "code_style": "baroque"}
    assert "must be 'clean', 'verbose' or 'minimal'" in mcp.error(
        "prompts/get", {"name": "code_execution_prompt", "arguments": bad})["message"]


def test_K_19_b_only_when_the_set_is_on(cli):
    """Without --tools kernels none of its paths, tools, resources and prompts is there; with all they are."""
    for sets, there in (("default", False), ("all", True)):
        client = serve(cli, "--tools", sets)
        plain = Kernels(client.port)
        plain.process = client.process
        assert (plain.ask("GET", BASE + "/sessions").status == 200) is there
        assert (plain.ask("POST", "/ai/sandbox/v1/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}).status == 200) \
            is there
        with Http(Server(plain)) as connection:
            connection.open()
            names = {prompt["name"] for prompt in connection.result("prompts/list")["prompts"]}
            assert ("code_execution_prompt" in names) is there
            assert ("session://{session_id}" in str(connection.result("resources/templates/list"))) is there
            assert ("terminate_session" in str(connection.result("tools/list")["tools"])) is there


def test_K_20_mcp_execution_works_every_time(api):
    """At /ai/sandbox/v1/mcp the SDK's client runs code again and again, and a plain request needs no session."""

    async def walk():
        async with Client(f"http://127.0.0.1:{api.port}/ai/sandbox/v1/mcp") as client:
            said = []
            for turn in range(3):
                result = await client.call_tool(
                    "execute_python_code", {"code": f"n = {turn}\nprint('turn', n)", "session_id": "sdk"})
                said.append(json.loads(result.content[0].text)["output"])
            failed = await client.call_tool("execute_python_code", {"code": "undefined_var"})
            return said, json.loads(failed.content[0].text)

    said, failed = anyio.run(walk)
    assert said == ["turn 0\n", "turn 1\n", "turn 2\n"]
    assert failed["error"] == "NameError: name 'undefined_var' is not defined" and failed["traceback"]
    for path in ("/ai/sandbox/v1/mcp", "/ai/sandbox/v1/mcp/"):  # as that server does: stateless
        call = {"name": "execute_python_code", "arguments": {"code": "6 * 7", "session_id": None}}
        answer = api.good("POST", path, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
                          Accept="application/json, text/event-stream")
        assert "Mcp-Session-Id" not in answer.headers
        assert '\\"output\\":\\"42\\"' in answer.data.decode()


def test_K_21_network_isolation_by_the_kernel(cli, strict, api, web):
    """Without network no Python trick opens a socket; ENABLE_NETWORK_ACCESS=false takes it away whatever is allowed."""
    tricks = f"""import ctypes, socket, errno
libc = ctypes.CDLL(None, use_errno=True)
made = []
for family in (socket.AF_INET, socket.AF_INET6):
    fd = libc.socket(family, 1, 0)
    made.append(fd >= 0 and libc.connect(fd, b'\\x02\\x00' + ({web[0]}).to_bytes(2, 'big')
                                         + bytes([127, 0, 0, 1]) + bytes(8), 16) == 0)
try:
    socket.create_connection(("127.0.0.1", {web[0]}), 1)
    made.append(True)
except OSError:
    made.append(False)
print(made)"""
    assert strict.sync(tricks)["texts"] == ["[False, False, False]\n"]
    client, _ = start(cli, "--allow-host", f"127.0.0.1:{web[0]}", env={"ENABLE_NETWORK_ACCESS": "false"})
    assert client.sync(tricks)["texts"] == ["[False, False, False]\n"]
    reach = f"import urllib.request as u\nprint(u.urlopen('http://127.0.0.1:{web[0]}/a').status)"
    assert api.sync(reach)["texts"] == ["200\n"]  # where it is on, what is allowed can be reached


# ---- running it ----------------------------------------------------------------------------------


def test_K_24_metrics_and_request_ids(api):
    """GET /metrics is Prometheus text that counts what happens; X-Request-ID comes back and is in the log."""
    before = api.metric('constrictor_runs_total{verdict="error"}')
    answer = api.good("POST", BASE + "/execute", {"code": "1/0"}, X_Request_ID="trace-77/a")
    assert answer.headers["X-Request-ID"] == "trace-77/a"
    assert api.metric('constrictor_runs_total{verdict="error"}') == before + 1
    text = api.good("GET", "/metrics")
    assert text.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    for name in ("sessions", "runs_active", "queue_length", 'boxes{state="parked"}', "run_seconds_sum",
                 "run_seconds_count", 'run_seconds_bucket{le="+Inf"}', "queue_seconds_total", "uptime_seconds"):
        assert api.metric("constrictor_" + name) >= 0
    for line in text.data.decode().splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) constrictor_\w+ .+|constrictor_\w+(\{\w+="[^"]*"\})? [0-9.e+-]+', line)
    assert api.metric("constrictor_run_seconds_count") == api.metric('constrictor_run_seconds_bucket{le="+Inf"}')
    assert re.search(r"T[0-9:.]+Z constrictor gate: info: request trace-77/a: POST \S+/execute: 200 in [0-9.]+ ms",
                     api.logs.read_text())
    made = api.good("GET", "/health", X_Request_ID="bad id\twith blanks").headers["X-Request-ID"]
    assert re.fullmatch(r"[0-9a-f-]{36}", made)  # what could forge a line is replaced


def test_K_25_input_is_checked_and_logs_hold_no_code(api):
    """Bad input is refused with its reason, and no code, no output and no link is in the log at level info."""
    marker = "hidden_marker_" + "q" * 20
    api.execute(f"{marker} = 1\nprint('{marker}')\nopen('{marker}.txt', 'w').write('x')", session_id="quiet")
    files = api.sync(f"open('more.txt', 'w').write('{marker}')")
    assert files["errors"] == []
    whole = Rest(api.port).run("open('linked.txt', 'w').write('x')")
    url = whole["files"][0]["url"]
    assert Rest(api.port).fetch(url).status == 200
    secret = url.split("/files/")[1].split("/")[0]
    assert wait_until(lambda: "GET /files/" in api.logs.read_text())
    log = api.logs.read_text()
    assert marker not in log and secret not in log
    for body, status in ((b"{", 400), (b'{"code": "1", "code": "2"}', 400), (b"[]", 400), (b"\xff", 400)):
        answer = api.ask("POST", BASE + "/execute", body, {"Content-Type": "application/json"})
        assert answer.status == status and answer.json["detail"], answer
    assert api.ask("POST", BASE + "/execute", b"code=1", {"Content-Type": "text/plain"}).status == 415
    assert api.ask("PUT", BASE + "/execute", {"code": "1"}).status == 405
    assert api.ask("GET", BASE + "/nothing").status == 404


def test_K_25_b_each_run_is_logged(cli):
    """At level info each run is a line with time, id, verdict, duration, key and session, and no code; --debug tells more."""
    (cli.folder / ".env").unlink(missing_ok=True)
    sizes = []
    for level in ("--log-level", "info"), ("--debug",):
        env = {"API_KEY": f"ann:{KEY}"}
        with serving(cli, "--port", "0", *level, env=env, key=KEY) as server:
            answer = server.execute("hidden_marker = 1", session_id="logged")
            server.execute("1/0  # hidden_marker")
            log = server.logs.read_text()
        stamp = r"^20\d\d-\d\d-\d\dT[0-9:.]+Z constrictor gate: info: run [0-9a-f-]{36}: "
        assert re.search(stamp + r"ok, 17 bytes of code, [0-9.]+ ms, key ann, session \S+$", log, re.M), log
        assert re.search(stamp + r"error, \d+ bytes of code, [0-9.]+ ms, key ann$", log, re.M), log
        assert "hidden_marker" not in log and KEY not in log and answer
        assert all(line.startswith("20") for line in log.splitlines()), log
        sizes.append(len(log.splitlines()))
    assert sizes[1] > sizes[0]


def test_K_26_debug_mode_and_ways_to_work_on_it(cli):
    """One command starts it, --debug tells more, and make has targets to build, test, format, lint and measure."""
    client, process = start(cli, "--debug")
    assert client.sync("1")["texts"] == ["1"]
    process.terminate()
    assert "debug" in process.communicate(timeout=60)[1].decode()
    targets = subprocess.run(["make", "-s", "help"], cwd=TOP, capture_output=True, text=True, timeout=600).stdout
    for target in ("serve", "test", "bench", "format", "lint", "fuzz"):
        assert re.search(rf"\b{target}\b", targets), target
