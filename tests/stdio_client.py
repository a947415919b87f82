# SPDX-License-Identifier: Apache-2.0
"""A client of `constrictor stdio` that writes and reads lines: for tests of what is on the wire."""

import json
import queue
import subprocess
import threading
import time

MODERN = "2026-07-28"
WAIT_S = 600  # how long a hang may last before it is called one
META = "io.modelcontextprotocol/"


def request(id, method, params=None):
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    if params is not None:
        message["params"] = params
    return message


def initialize(id=1, version="2025-11-25"):
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
    return request(id, "initialize", params)


def modern(id, method, params=None, version=MODERN):
    meta = {META + "protocolVersion": version, META + "clientCapabilities": {}}
    return request(id, method, {**(params or {}), "_meta": meta})


def run_code(id, code, make=request, **arguments):
    return make(id, "tools/call", {"name": "execute_python", "arguments": {"code": code, **arguments}})


def cancelled(id):
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


class Client:
    """Talks to one server; every line it sends must be one JSON-RPC message or a batch of them."""

    def __init__(self, process):
        self.process = process
        self.lines = queue.Queue()
        self.all = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, *messages):
        self.write(b"".join(json.dumps(m).encode() + b"\n" for m in messages))

    def receive(self, guard=WAIT_S):
        line = self.lines.get(timeout=guard)
        assert line is not None, "the server ended"
        assert line.endswith(b"\n") and line.count(b"\n") == 1
        message = json.loads(line)
        for one in message if isinstance(message, list) else [message]:
            assert one["jsonrpc"] == "2.0", line
            assert "method" in one or ("id" in one and ("result" in one) != ("error" in one)), line
        self.all.append(message)
        return message

    def answer(self, id, guard=WAIT_S):
        """The answer to `id`; notifications and other answers are kept in `all`."""
        deadline = time.monotonic() + guard
        while time.monotonic() < deadline:
            message = self.receive(guard)
            if isinstance(message, dict) and message.get("id") == id and "method" not in message:
                return message
        raise AssertionError(f"no answer to {id!r}")

    def ask(self, message, guard=WAIT_S):
        self.send(message)
        return self.answer(message["id"], guard)

    def start_legacy(self, version="2025-11-25"):
        answer = self.ask(initialize(0, version))
        assert answer["result"]["protocolVersion"] == version
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def rest(self, guard=WAIT_S):
        """What comes until the end of stdout."""
        found = []
        while (line := self.lines.get(timeout=guard)) is not None:
            found.append(json.loads(line))
        return found

    def end(self, guard=WAIT_S):
        """Closes stdin; returns the exit status and the seconds until everything was gone."""
        began = time.monotonic()
        self.process.stdin.close()
        status = self.process.wait(timeout=guard)
        return status, time.monotonic() - began


def started(cli, *flags):
    """A client of a new server that has already run code."""
    client = Client(cli.start("stdio", *flags, stdin=subprocess.PIPE))
    client.start_legacy()
    answer = client.ask(run_code("first", "1"))["result"]
    assert not answer.get("isError"), answer
    return client
