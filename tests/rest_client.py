# SPDX-License-Identifier: Apache-2.0
"""A small client of the REST API, for tests: one method for each thing, nothing hidden.

`serve` starts `constrictor serve` on a free port with a state folder of its own. `Rest` asks it, with
a key or without one.
"""

import contextlib
import http.client
import json
import re
import urllib.parse

WAIT_S = 600


class Answer:
    def __init__(self, response, data):
        self.status = response.status
        self.headers = response.headers
        self.data = data

    @property
    def json(self):
        return json.loads(self.data)

    @property
    def lines(self):
        """The messages of a stream."""
        return [json.loads(line) for line in self.data.splitlines() if line]

    @property
    def error(self):
        return self.json["error"]

    def __repr__(self):
        return f"{self.status} {dict(self.headers)} {self.data[:2000]!r}"


class Rest:
    def __init__(self, port, key=None):
        self.port = port
        self.key = key

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)

    def headers(self, more=None):
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return {**headers, **(more or {})}

    def ask(self, method, path, body=None, headers=None):
        """`body` is bytes, or anything else, which is sent as JSON."""
        headers = self.headers(headers)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        with contextlib.closing(self.connect()) as connection:
            connection.request(method, "/api/v1" + path, body, headers)
            response = connection.getresponse()
            return Answer(response, response.read())

    def get(self, path, **headers):
        return self.ask("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def post(self, path, body=None):
        return self.ask("POST", path, body)

    def run(self, code, **fields):
        """The whole object of one execution."""
        answer = self.post("/execute", {"code": code, "stream": False, **fields})
        assert answer.status == 200, answer
        return answer.json

    def stream(self, code, **fields):
        """The messages of one execution."""
        answer = self.post("/execute", {"code": code, **fields})
        assert answer.status == 200, answer
        return answer.lines

    @contextlib.contextmanager
    def streaming(self, code, **fields):
        """The response while the code runs: read its lines, or leave."""
        connection = self.connect()
        headers = self.headers({"Content-Type": "application/json"})
        with contextlib.closing(connection):
            connection.request("POST", "/api/v1/execute", json.dumps({"code": code, **fields}), headers)
            yield connection.getresponse()

    def file(self, session, path):
        return f"/sessions/{urllib.parse.quote(session, safe='')}/files/{urllib.parse.quote(path)}"

    def put(self, session, path, data):
        return self.ask("PUT", self.file(session, path), data)

    def read(self, session, path, **headers):
        return self.get(self.file(session, path), **headers)

    def fetch(self, url):
        """A link, without any key."""
        parts = urllib.parse.urlsplit(url)
        assert parts.port == self.port
        with contextlib.closing(self.connect()) as connection:
            connection.request("GET", parts.path)
            response = connection.getresponse()
            return Answer(response, response.read())


def serve(cli, *flags, key=None, **options):
    process = cli.start("serve", "--port", 0, "--state", cli.folder / "state", *flags, **options)
    line = ""
    while "MCP" not in line:
        line = process.stdout.readline().decode()
        assert line, process.stderr.read().decode()
    client = Rest(int(re.search(r":(\d+)/mcp$", line.strip()).group(1)), key)
    client.process = process
    return client
