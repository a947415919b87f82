# SPDX-License-Identifier: Apache-2.0
"""A small client of the MCP server that hides nothing: every message is seen, and may be wrong.

`Stdio`, `Http` and `Sse` are connections with the same methods. A request may be waited for
(`request`), or be begun and waited for later (`begin`, `wait`). Whatever arrives is kept in
`received`, with the method that it answers, for the schema oracle at the end of this file.

`Server` is `constrictor serve` on a free port. The fixtures of a test start both through `cli`
(tests/conftest.py), which insists that nothing survives.
"""

import collections
import contextlib
import functools
import http.client
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.parse
import weakref

import jsonschema

TOP = pathlib.Path(__file__).resolve().parent.parent
NPM = TOP / "build" / "npm"
CLIENTS = TOP / "tests" / "clients"
MODERN = "2026-07-28"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
VERSIONS = (*LEGACY, MODERN)
META = "io.modelcontextprotocol/"
TASKS = META + "tasks"
WAIT_S = 600  # how long a hang may last before it is called one

# What arrived: the message, and the method of the request that it answers (None: it is no answer).
Received = collections.namedtuple("Received", "message method")


# Every connection that a test makes; tests/conftest.py checks all messages that they receive.
connections = weakref.WeakSet()


class Connection:
    """What the transports share. Modern requests carry their version, others need `initialize`."""

    name = "?"

    def __init__(self, version=LEGACY[-1], capabilities=None):
        self.version = version
        self.modern = version == MODERN
        self.capabilities = capabilities or {}
        self.received = []
        self.judged = 0  # how many of them were checked
        connections.add(self)
        self.answers = {}  # by id
        self.status = {}  # HTTP status by id
        self.methods = {}  # of our requests, by id
        self.on_request = {}  # method of the server's request -> function of its params
        self.ended = None  # why nothing comes any more
        self.tools = {}  # output schemas by the name of the tool
        self._ids = itertools.count(1)
        self._news = threading.Condition()

    # -- sending

    def params(self, params=None, meta=None):
        """Parameters, with the _meta that modern requests need."""
        whole = dict(meta or {})
        if self.modern:
            whole.setdefault(META + "protocolVersion", self.version)
            whole.setdefault(META + "clientCapabilities", self.capabilities)
            whole.setdefault(META + "clientInfo", {"name": "tests", "version": "1"})
        if not whole:
            return params
        return {**(params or {}), "_meta": {**whole, **(params or {}).get("_meta", {})}}

    def begin(self, method, params=None, meta=None, id=None):
        id = next(self._ids) if id is None else id
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        params = self.params(params, meta)
        if params is not None:
            message["params"] = params
        with self._news:
            self.methods[id] = method
            self.answers.pop(id, None)
        self.send(message)
        return id

    def wait(self, id, guard=WAIT_S):
        """The answer to a request: the whole message."""
        return self.until(
            lambda: self.answers.get(id), guard, f"no answer to {self.methods.get(id)}"
        )

    def request(self, method, params=None, meta=None, guard=WAIT_S):
        return self.wait(self.begin(method, params, meta), guard)

    def result(self, method, params=None, meta=None, guard=WAIT_S):
        answer = self.request(method, params, meta, guard)
        assert "result" in answer, f"{method} failed: {answer}"
        return answer["result"]

    def error(self, method, params=None, meta=None, guard=WAIT_S):
        answer = self.request(method, params, meta, guard)
        assert "error" in answer, f"{method} did not fail: {answer}"
        return answer["error"]

    def call(self, name, /, guard=WAIT_S, meta=None, **arguments):
        return self.result("tools/call", {"name": name, "arguments": arguments}, meta, guard)

    def python(self, code, **arguments):
        return self.call("execute_python", code=code, **arguments)

    def notify(self, method, params=None):
        message = {"jsonrpc": "2.0", "method": method}
        params = self.params(params) if self.modern else params
        if params is not None:
            message["params"] = params
        self.send(message)

    def cancel(self, id, reason="enough"):
        self.notify("notifications/cancelled", {"requestId": id, "reason": reason})

    def open(self):
        """The handshake of a legacy version, or the discovery of the modern one: its result."""
        if self.modern:
            return self.result("server/discover")
        client = {"name": "tests", "version": "1"}
        params = {
            "protocolVersion": self.version,
            "capabilities": self.capabilities,
            "clientInfo": client,
        }
        result = self.result("initialize", params)
        self.notify("notifications/initialized")
        return result

    # -- receiving

    def notes(self, method):
        """The notifications so far of one method: their params."""
        with self._news:
            heard = list(self.received)
        return [r.message.get("params", {}) for r in heard if r.message.get("method") == method]

    def until(self, question, guard, what):
        deadline = time.monotonic() + guard
        with self._news:
            while True:
                answer = question()
                if answer:
                    return answer
                left = deadline - time.monotonic()
                if self.ended is not None:
                    raise AssertionError(f"{what}: the connection ended: {self.ended}")
                if left <= 0:
                    raise AssertionError(f"{what} after {guard} s; heard {self.received[-3:]}")
                self._news.wait(left)

    def until_note(self, method, guard=WAIT_S):
        self.until(lambda: self.notes_locked(method), guard, f"no {method}")
        return self.notes(method)

    def notes_locked(self, method):
        return any(r.message.get("method") == method for r in self.received)

    def hear(self, message, status=None):
        """Takes one message; the threads that read call this."""
        for one in message if isinstance(message, list) else [message]:
            id = one.get("id")
            is_answer = "method" not in one
            with self._news:
                self.received.append(Received(one, self.methods.get(id) if is_answer else None))
                if is_answer:
                    self.answers[id] = one
                    if status:
                        self.status[id] = status
                self._news.notify_all()
            if not is_answer and id is not None:
                self.answer(one)

    def answer(self, request):
        """Answers a request of the server."""
        reply = {"jsonrpc": "2.0", "id": request["id"]}
        work = self.on_request.get(request["method"])
        if work:
            reply["result"] = work(request.get("params", {}))
        else:
            reply["error"] = {"code": -32601, "message": "not here"}
        self.send(reply)

    def end(self, why):
        with self._news:
            self.ended = self.ended or why
            self._news.notify_all()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Stdio(Connection):
    """`constrictor stdio` as a client starts it."""

    name = "stdio"

    def __init__(self, cli, *flags, version=LEGACY[-1], capabilities=None, env=None, **popen):
        super().__init__(version, capabilities)
        self.log = tempfile.TemporaryFile(dir=cli.folder)
        self.process = cli.start(
            "stdio", *flags, stdin=subprocess.PIPE, stderr=self.log, env=env, **popen
        )
        self.lines = []  # as they came
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        with contextlib.suppress(ValueError, OSError):
            for line in self.process.stdout:
                self.lines.append(line)
                try:
                    message = json.loads(line)
                except ValueError:
                    self.end(f"not JSON on stdout: {line[:300]!r}")
                    return
                self.hear(message)
        self.end("end of stdout")

    def raw(self, data):
        with self._lock:
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def send(self, message):
        self.raw(json.dumps(message).encode() + b"\n")

    def stderr(self):
        self.log.seek(0)
        return self.log.read().decode("utf-8", "backslashreplace")

    def close(self, guard=WAIT_S):
        """Closes the input; returns the seconds until the server ended."""
        start = time.monotonic()
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(guard)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"no end {guard} s after the end of stdin") from None
        self._thread.join(guard)
        return time.monotonic() - start


class Server:
    """`constrictor serve` on a free port of the loopback."""

    def __init__(self, cli, *flags, env=None, program=None):
        self.log = tempfile.TemporaryFile(dir=cli.folder)
        self.process = cli.start(
            "serve", "--port", "0", *flags, stderr=self.log, env=env, program=program
        )
        self.url = self.sse = None
        text = b""
        while not self.url or (b"Ctrl-C" not in text):
            line = self.process.stdout.readline()
            assert line, f"the server did not start: {text!r} {self.stderr()}"
            text += line
            found = re.match(rb"\s*MCP\s+(http://\S+)/mcp", line)
            if found:
                self.url = found[1].decode()
        address = urllib.parse.urlsplit(self.url)
        self.host, self.port = address.hostname, address.port

    def stderr(self):
        self.log.seek(0)
        return self.log.read().decode("utf-8", "backslashreplace")

    def fetch(self, method, path, body=None, headers=None, guard=WAIT_S):
        """One exchange: status, headers (lower case), body."""
        link = http.client.HTTPConnection(self.host, self.port, timeout=guard)
        try:
            link.request(method, path, body, headers or {})
            answer = link.getresponse()
            named = {key.lower(): value for key, value in answer.getheaders()}
            return answer.status, named, answer.read()
        finally:
            link.close()

    def stop(self, guard=WAIT_S):
        start = time.monotonic()
        self.process.terminate()
        self.process.wait(guard)
        return time.monotonic() - start


def events(answer):
    """The events of an SSE stream: (name, id, data); a comment is (':', None, text)."""
    name, id, data = "message", None, []
    for line in iter(answer.readline, b""):
        line = line.decode().rstrip("\r\n")
        if line == "":
            if data or id is not None:
                yield name, id, "\n".join(data)
            name, id, data = "message", None, []
        elif line.startswith(":"):
            yield ":", None, line[1:].strip()
        else:
            key, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if key == "event":
                name = value
            elif key == "id":
                id = value
            elif key == "data":
                data.append(value)


class Http(Connection):
    """Streamable HTTP. Each request has a connection and a thread of its own."""

    name = "http"

    def __init__(self, server, version=LEGACY[-1], capabilities=None, headers=None, accept=None):
        super().__init__(version, capabilities)
        self.server = server
        self.session = None
        self.extra = headers or {}
        self.accept = accept or "application/json, text/event-stream"
        self.comments = []
        self.last_event = None
        self._links = {}  # by id of the request
        self._stream = None

    def headers(self, message=None):
        found = {"Content-Type": "application/json", "Accept": self.accept}
        if self.session:
            found["Mcp-Session-Id"] = self.session
        if self.modern:
            found["MCP-Protocol-Version"] = self.version
            if isinstance(message, dict) and "id" in message and "method" in message:
                params = message.get("params") or {}
                found["Mcp-Method"] = message["method"]
                named = {"resources/read": "uri"}.get(message["method"], "name")
                named = "taskId" if message["method"].startswith("tasks/") else named
                if named in params and message["method"] != "completion/complete":
                    found["Mcp-Name"] = str(params[named])
        elif self.session and self.version >= "2025-06-18":
            found["MCP-Protocol-Version"] = self.version
        return {**found, **self.extra}

    def send(self, message):
        if isinstance(message, dict) and "id" in message and "method" in message:
            threading.Thread(target=self._post, args=(message,), daemon=True).start()
        else:
            self._post(message)

    def _post(self, message):
        id = message.get("id") if isinstance(message, dict) else None
        link = http.client.HTTPConnection(self.server.host, self.server.port, timeout=WAIT_S)
        if id is not None:
            self._links[id] = link
        try:
            link.request("POST", "/mcp", json.dumps(message), self.headers(message))
            answer = link.getresponse()
            self.session = answer.getheader("Mcp-Session-Id") or self.session
            self._take(answer)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if self._links.get(id) is link:  # we did not hang up ourselves
                self.end(f"{type(error).__name__}: {error}")
        finally:
            self._links.pop(id, None)
            link.close()

    def _take(self, answer):
        kind = (answer.getheader("Content-Type") or "").partition(";")[0]
        if kind == "text/event-stream":
            for name, id, data in events(answer):
                self.last_event = id or self.last_event
                if name == ":":
                    self.comments.append(data)
                elif data:
                    self.hear(json.loads(data), answer.status)
        elif kind == "application/json":
            self.hear(json.loads(answer.read()), answer.status)
        else:
            answer.read()

    def hang_up(self, id):
        """The client goes away in the middle of a request."""
        link = self._links.pop(id, None)
        if link and link.sock:
            with contextlib.suppress(OSError):
                link.sock.shutdown(2)

    def listen(self, last_event=None):
        """The stream of a legacy session (GET)."""
        headers = {**self.headers(), "Accept": "text/event-stream"}
        if last_event:
            headers["Last-Event-ID"] = last_event
        link = http.client.HTTPConnection(self.server.host, self.server.port, timeout=WAIT_S)
        link.request("GET", "/mcp", headers=headers)
        answer = link.getresponse()
        if answer.status != 200:
            body = answer.read()
            link.close()
            raise AssertionError(f"GET /mcp: {answer.status} {body[:300]!r}")
        self._stream = link

        def read():
            with contextlib.suppress(
                OSError, http.client.HTTPException, ValueError, AttributeError
            ):
                self._take(answer)

        threading.Thread(target=read, daemon=True).start()

    def delete(self):
        return self.server.fetch("DELETE", "/mcp", headers=self.headers())

    def close(self):
        for id in list(self._links):
            self.hang_up(id)
        if self._stream and self._stream.sock:
            with contextlib.suppress(OSError):
                self._stream.sock.shutdown(2)
        if self.session and not self.modern and self.server.process.poll() is None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.delete()


class Sse(Connection):
    """The transport of 2024: one stream down, a POST for each message up."""

    name = "sse"

    def __init__(self, server, version=LEGACY[0], capabilities=None, headers=None):
        super().__init__(version, capabilities)
        self.server = server
        self.extra = headers or {}
        self.path = None
        self.comments = []
        self.link = http.client.HTTPConnection(server.host, server.port, timeout=WAIT_S)
        self.link.request("GET", "/sse", headers={"Accept": "text/event-stream", **self.extra})
        self.stream = self.link.getresponse()
        assert self.stream.status == 200, (self.stream.status, self.stream.read()[:300])
        threading.Thread(target=self._read, daemon=True).start()
        self.until(lambda: self.path, WAIT_S, "no endpoint event")

    def _read(self):
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError, AttributeError):
            for name, _, data in events(self.stream):
                if name == "endpoint":
                    address = urllib.parse.urlsplit(data)
                    with self._news:
                        self.path = address.path + ("?" + address.query if address.query else "")
                        self._news.notify_all()
                elif name == ":":
                    self.comments.append(data)
                else:
                    self.hear(json.loads(data))
        self.end("end of the stream")

    def send(self, message):
        headers = {"Content-Type": "application/json", **self.extra}
        status, _, body = self.server.fetch("POST", self.path, json.dumps(message), headers)
        assert status == 202, f"POST {self.path}: {status} {body[:300]!r}"

    def close(self):
        with contextlib.suppress(OSError, AttributeError):
            self.link.sock.shutdown(2)


# -- programs of others


def node():
    """The path of node: the one that was installed with the clients, else the system's."""
    for machine in ("x64", "arm64"):
        found = NPM / "node_modules" / f"node-linux-{machine}" / "bin" / "node"
        if found.exists():
            return str(found)
    return shutil.which("node")


NODE_ENVIRON = {"MCP_NPM": str(NPM), "NODE_NO_WARNINGS": "1", "NO_COLOR": "1"}


_marks = itertools.count()


@functools.lru_cache(maxsize=None)
def name_of(mark):
    """The name of a marked process; it differs from that of the same test in another pytest."""
    return f"{next(_marks):x}-{os.getpid():x}-{mark}"[:15]


def alive(mark):
    """How many processes below this one have the name `mark`; see `marked`. None can leave: pytest is their reaper."""
    from conftest import descendants

    count, mark = 0, name_of(mark)
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            count += pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == mark
    return count


def marked(mark, code="while True:\n    time.sleep(0.05)\n"):
    """Code that gives its process a name that can be seen from outside, then runs `code`."""
    return f"import ctypes, time\nctypes.CDLL(None).prctl(15, b'{name_of(mark)}')\n{code}"


def text(result):
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


# -- the schema oracle


@functools.lru_cache(maxsize=None)
def validator_of(text):
    schema = json.loads(text)
    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    kind.check_schema(schema)
    return kind(schema)


def check_schema(schema):
    """Checks that a schema is valid; cached, since this takes longer than all other checks."""
    return validator_of(json.dumps(schema, sort_keys=True))


def conforms(value, schema):
    """As jsonschema.validate(), which would check the schema itself each time."""
    check_schema(schema).validate(value)


jsonschema.validate = conforms  # for all tests


@functools.lru_cache(maxsize=None)
def schemas():
    """The official schemas by revision, taken from the conformance suite's package."""
    wanted = json.loads((CLIENTS / "package.json").read_text())["dependencies"]
    version = wanted["@modelcontextprotocol/conformance"]
    cache = TOP / "build" / f"mcp-schemas-{version}.json"
    if not cache.exists():
        command = [node(), str(CLIENTS / "schemas.mjs")]
        made = subprocess.run(
            command, env={**os.environ, **NODE_ENVIRON}, stdout=subprocess.PIPE, check=True
        )
        part = cache.with_suffix(f".{os.getpid()}")
        part.write_bytes(made.stdout)
        part.replace(cache)
    found = json.loads(cache.read_bytes())
    assert set(found) == set(VERSIONS[1:]), f"the suite has other schemas: {sorted(found)}"
    return found


def mended(schema):
    """Mends a known mistake of two revisions: they require the bounds of a number to be integers."""
    number = schema.get("$defs", schema.get("definitions", {})).get("NumberSchema", {})
    for name in ("minimum", "maximum", "default"):
        if number.get("properties", {}).get(name, {}).get("type") == "integer":
            number["properties"][name]["type"] = "number"
    return schema


# Results that are `EmptyResult`, which the schemas do not tie to their requests.
EMPTY = {"ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}


class Oracle:
    """Says what is wrong with a message of the server, by the schema of its revision.

    2024-11-05 has no schema of its own in the suite; its messages must be valid in the next
    revision, which only added to it, and may not use what was added.
    """

    def __init__(self, version):
        self.version = version
        self.schema = mended(schemas()[max(version, VERSIONS[1])])
        self.key = "$defs" if "$defs" in self.schema else "definitions"
        self.definitions = self.schema[self.key]
        self.methods, self.errors, self.validators = {}, {}, {}
        for name, body in self.definitions.items():
            inside = body.get("properties", {})
            method = inside.get("method", {}).get("const")
            if method and not name.startswith(("Client", "Server")):
                self.methods[method] = name
            for part in inside.get("error", {}).get("allOf", []):
                code = part.get("properties", {}).get("code", {}).get("const")
                if code is not None:
                    self.errors[code] = name

    def check(self, definition, value):
        validator = self.validators.get(definition)
        if validator is None:
            whole = {**self.schema, "$ref": f"#/{self.key}/{definition}"}
            if self.key == "definitions":  # draft 7 ignores what stands beside $ref
                whole = {"allOf": [{"$ref": f"#/{self.key}/{definition}"}], self.key: self.definitions}
            validator = jsonschema.validators.validator_for(self.schema)(whole)
            self.validators[definition] = validator
        return [
            f"{definition}{''.join(f'.{p}' for p in e.absolute_path)}: {e.message[:300]}"
            for e in validator.iter_errors(value)
        ]

    def wrong(self, message, method=None):
        """What is wrong with a message; `method` is the one that it answers."""
        found = self.shape(message, method)
        if self.version == VERSIONS[0]:
            found += [f"{name} is later than {self.version}" for name in self.later(message)]
        return found

    def shape(self, message, method):
        if "method" in message:
            kind = "JSONRPCRequest" if "id" in message else "JSONRPCNotification"
            return self.check(self.methods.get(message["method"], kind), message)
        if "error" in message:
            first = next(
                n for n in ("JSONRPCErrorResponse", "JSONRPCError") if n in self.definitions
            )
            if message.get("id", 0) is None:  # JSON-RPC wants null where the id is not known
                assert message["error"]["code"] in (-32700, -32600, -32020), message
                message = {**message, "id": 0}
            return self.check(self.errors.get(message["error"]["code"], first), message)
        first = next(
            n for n in ("JSONRPCResultResponse", "JSONRPCResponse") if n in self.definitions
        )
        return self.check(first, message) + self.result(message["result"], method)

    def result(self, result, method):
        kind = result.get("resultType")
        if kind == "task" or (method or "").startswith("tasks/"):
            return self.task(result, method)
        if kind == "input_required":
            return self.check("InputRequiredResult", result)
        if method in EMPTY:
            return self.check("EmptyResult", result) + [k for k in result if k != "_meta"]
        name = self.methods.get(method, "Request")
        return self.check(name.removesuffix("Request") + "Result", result)

    # The extension has no JSON schema; these are its rules (SEP-2663).
    TASK = {
        "type": "object",
        "required": ["resultType", "taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"],
        "properties": {
            "taskId": {"type": "string", "minLength": 1},
            "status": {"enum": ["working", "input_required", "completed", "failed", "cancelled"]},
            "statusMessage": {"type": "string"},
            "createdAt": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"},
            "lastUpdatedAt": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"},
            "ttlMs": {"type": ["integer", "null"], "minimum": 0},
            "pollIntervalMs": {"type": "integer", "minimum": 0},
            "result": {"type": "object"},
            "error": {"type": "object", "required": ["code", "message"]},
            "task": False,
            "ttl": False,
            "requestState": False,
        },
    }

    def task(self, result, method):
        if method in ("tasks/update", "tasks/cancel"):
            left = {k: v for k, v in result.items() if k != "_meta"}
            return (
                [] if left == {"resultType": "complete"} else [f"no bare acknowledgement: {result}"]
            )
        found = [e.message for e in jsonschema.Draft202012Validator(self.TASK).iter_errors(result)]
        inner = {"completed": "result", "failed": "error", "input_required": "inputRequests"}
        need = inner.get(result.get("status")) if method == "tasks/get" else None
        if need and need not in result:
            found.append(f"a task that is {result['status']} without '{need}'")
        return found

    def later(self, message):
        """Names what a message has that 2024-11-05 does not."""
        content = message.get("result", {}).get("content", [])
        found = [b["type"] for b in content if b["type"] not in ("text", "image", "resource")]
        if "structuredContent" in message.get("result", {}):
            found.append("structuredContent")
        for tool in message.get("result", {}).get("tools", []):
            found += [f"tool.{k}" for k in tool if k not in ("name", "description", "inputSchema")]
        if message.get("method") == "notifications/progress" and "message" in message["params"]:
            found.append("progress.message")
        return found


@functools.lru_cache(maxsize=None)
def oracle(version):
    return Oracle(version)


def judge(connection, heard):
    """Says what is wrong with messages, each with the method that it answers."""
    return [
        f"{connection.name} {connection.version} {method}: {complaint}\n    {json.dumps(message)[:600]}"
        for message, method in heard
        for complaint in oracle(connection.version).wrong(message, method)
    ]


def check_received(connection):
    """Every message that a connection has received is valid; each is checked once."""
    heard = connection.received[connection.judged :]
    connection.judged += len(heard)
    wrong = judge(connection, heard)
    assert not wrong, f"{len(wrong)} violations:\n" + "\n".join(wrong[:20])


def check_all():
    """Checks the messages that all connections have received since the last call."""
    wrong = []
    for connection in list(connections):
        heard = connection.received[connection.judged :]
        connection.judged += len(heard)
        wrong += judge(connection, heard)
    assert not wrong, f"{len(wrong)} messages are not valid:\n" + "\n".join(wrong[:20])


@contextlib.contextmanager
def several(cli):
    """Yields connect() for this server's flags; its connections are closed and judged at the end."""
    made = []

    def make(*flags, **options):
        made.append(connect(cli, *flags, **options))
        return made[-1]

    yield make
    for connection in made:
        connection.close()
        check_received(connection)


def connect(cli, *flags, version=LEGACY[-1], **options):
    """A connection over stdio that is open; its `tools` are those of the server, by name."""
    c = Stdio(cli, *flags, version=version, **options)
    c.open()
    c.tools = tools_of(c)
    return c


# Tools that return the same object; only the first lists its schema.
SAME_RESULT = {
    "execute_python": {"check_run", "checkpoint_session", "undo_session", "fork_session"},
    "install_package": {"create_python_env", "uninstall_package", "reset_sandbox", "check_package_status"},
}


def tools_of(c):
    """The tools of a server by name, each with the schema of its result."""
    tools = {t["name"]: t for t in c.result("tools/list")["tools"]}
    for first, others in SAME_RESULT.items():
        for tool in others & tools.keys():
            assert "outputSchema" not in tools[tool], f"{tool} repeats the schema of {first}"
            if "outputSchema" in tools[first]:
                tools[tool]["outputSchema"] = tools[first]["outputSchema"]
    return tools


def use(c, tool, /, **arguments):
    """The structured result of a tool that works; it is valid by the schema that the tool declares."""
    answer = c.call(tool, **arguments)
    assert not answer.get("isError"), text(answer)
    found = answer["structuredContent"]
    jsonschema.Draft202012Validator(c.tools[tool]["outputSchema"]).validate(found)
    return found


def refused(c, tool, /, **arguments):
    """The text and the code of a tool error."""
    answer = c.call(tool, **arguments)
    assert answer.get("isError"), answer
    said = text(answer)
    return said, re.search(r"^code: (\w+)$", said, re.M)[1]
