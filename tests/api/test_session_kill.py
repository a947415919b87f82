# SPDX-License-Identifier: Apache-2.0
"""kill -9 of gate, box, zygote and keeper at random moments, under load.

Each client works in a session of its own and keeps a model of it. A call is answered, or its connection
breaks, or it is told that the session is gone; never is an answer wrong. What was announced as an artifact
can be fetched at the end, byte by byte, also from a server that was started anew. SECONDS_OF_KILLING makes
it longer than the few seconds of the suite.
"""

import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import signal
import threading
import time

import pytest

SECONDS = float(os.environ.get("SECONDS_OF_KILLING", "12"))
CLIENTS = 4
NEWEST = 1500   # artifacts of a client that are looked for: older ones may have had to make room
# What a caller may be told instead of an answer.
TOLD = {"session_ended", "session_not_found", "zygote_failed", "busy", "box_setup_failed", "session_busy"}


class Lost(Exception):
    """The connection broke, as it does when the gate is killed."""


class Server:
    def __init__(self, process):
        self.process = process
        line = ""
        while "MCP" not in line:
            line = process.stdout.readline().decode()
            assert line, process.stderr.read().decode()
        self.port = int(re.search(r":(\d+)/mcp$", line.strip()).group(1))

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            try:
                data = None if body is None else json.dumps(body)
                connection.request(method, path, data, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                return answer.status, answer.read()
            except (http.client.HTTPException, OSError) as error:
                raise Lost from error

    def execute(self, code, session):
        status, text = self.ask("POST", "/api/v1/execute",
                                {"code": code, "session": session, "stream": False, "timeout": 20})
        return status, json.loads(text)


def brief(answer):
    """Without what is long and says nothing."""
    return json.dumps({key: value for key, value in answer.items()
                       if key not in ("all", "isolation", "environment", "result", "stdout", "stderr")})[:1500]


class Client(threading.Thread):
    def __init__(self, server, number, stop):
        super().__init__(daemon=True)
        self.server, self.name, self.stop = server, f"client-{number}", stop
        self.random = random.Random(number)
        self.counts = {"ok": 0, "lost": 0, "told": 0, "new": 0}
        self.artifacts = {}     # url -> content
        self.problems = []

    def run(self):
        values, sure = [], True     # the model; not sure: the last call may or may not have been done
        step = 0
        while not self.stop.is_set():
            step += 1
            content = f"{self.name} {step} " * self.random.randrange(1, 2000)
            code = (f"if 'values' not in globals(): values = []\nvalues.append({step})\n"
                    f"with open('f-{step % 5}.txt', 'w') as f: f.write({content!r})\nvalues")
            try:
                status, answer = self.server.execute(code, self.name)
            except Lost:
                self.counts["lost"] += 1
                sure = False
                continue
            problem = self.judge(status, answer, values, sure, step, content)
            if problem:
                self.problems.append(f"{self.name} step {step}: {problem}: {brief(answer)}")
                return
            if status == 200 and answer["verdict"] == "ok":
                values, sure = answer["all"], True
            else:
                sure = False        # what a box did before it was killed is not known

    def judge(self, status, answer, values, sure, step, content):
        if status != 200:
            self.counts["told"] += 1
            return None if answer["error"]["code"] in TOLD else "an error that says nothing"
        if answer["verdict"] != "ok":
            self.counts["told"] += 1
            ended = answer["session_state"] == "lost" and answer["verdict"] in ("lost", "error", "cancelled")
            # A run whose caller was cut off is interrupted; a later one may see nothing of that.
            return None if ended else "neither an answer nor an end"
        got = answer["result_json"]
        answer["all"], answer["result_json"] = got, got[-5:]
        if answer["session_state"] == "new":
            self.counts["new"] += 1
            if got != [step]:
                return "a new session with old variables"
        elif sure and got != [*values, step]:
            return f"a wrong answer, expected {[*values, step][-5:]}"
        elif not sure and (got[-1] != step or got != sorted(set(got))):
            return "a wrong answer after a break"
        self.counts["ok"] += 1
        for file in answer["files"]:
            if file["path"] == f"f-{step % 5}.txt":
                self.artifacts[file["url"]] = content
                if len(self.artifacts) > NEWEST:
                    del self.artifacts[next(iter(self.artifacts))]
        announced = [file["path"] for file in answer["files"]]
        if f"f-{step % 5}.txt" not in announced and "files_error" not in answer:
            return "the file that was written is not announced, and no answer says why"
        return None


def status_of(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return dict(re.findall(r"^(\S+):\s*(.*)$", text, re.MULTILINE))


def family(server, tools):
    """Pids by their part; those that are just being made or gone are left out."""
    parts = {"gate": [], "zygote": [], "box": []}
    for pid in tools.descendants(server.process.pid):
        with contextlib.suppress(OSError, KeyError):
            depth = len(status_of(pid)["NSpid"].split())
            parts[("gate", "zygote", "box")[min(depth, 3) - 1]].append(pid)
    return parts


def start(cli, state, port=0):
    return Server(cli.start("serve", "--port", port, "--state", state, "--sessions", "16", "--grace", "500ms"))


def kill_keeper(cli, tools, server, state):
    """All of its processes go with it; the next server takes its place."""
    pids = tools.descendants(server.process.pid)
    server.process.kill()
    server.process.wait(600)
    assert tools.wait_until(lambda: not [pid for pid in pids if is_alive(pid)]), \
        tools.describe([pid for pid in pids if is_alive(pid)])
    server.process = start(cli, state, server.port).process


def test_killing_under_load(cli, tools):
    state = cli.folder / "state"
    server, stop = start(cli, state), threading.Event()
    clients = [Client(server, n, stop) for n in range(CLIENTS)]
    chance, kills = random.Random(7), {"gate": 0, "zygote": 0, "box": 0, "keeper": 0}
    parts = ["gate"] * 6 + ["zygote"] * 3 + ["box"] * 6 + ["keeper"]
    try:
        for client in clients:
            client.start()
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and all(c.is_alive() for c in clients):
            time.sleep(chance.uniform(0.05, 0.6))
            part = chance.choice(parts)
            if part == "keeper":
                kill_keeper(cli, tools, server, state)
                kills[part] += 1
                continue
            pids = family(server, tools)[part]
            if pids:
                with contextlib.suppress(OSError):
                    os.kill(chance.choice(pids), signal.SIGKILL)
                    kills[part] += 1
            assert server.process.poll() is None, server.process.stderr.read().decode()[-2000:]
    finally:
        stop.set()
        for client in clients:
            client.join(60)
    problems = [problem for client in clients for problem in client.problems]
    assert not problems, "\n".join(problems)
    total = {key: sum(c.counts[key] for c in clients) for key in clients[0].counts}
    print(f"kills {kills}, calls {total}")
    assert total["ok"] > 10 and total["lost"] > 0, total

    # What was announced is there: now, and after the keeper was killed and another server took over.
    artifacts = {url: content for client in clients for url, content in client.artifacts.items()}
    check(server, artifacts)
    kill_keeper(cli, tools, server, state)
    check(server, artifacts)
    status, answer = server.execute("1 + 1", "fresh")
    assert (status, answer["result_json"]) == (200, 2)


def is_alive(pid):
    try:
        return status_of(pid)["State"][0] not in "ZX"
    except (OSError, KeyError):
        return False


def check(server, artifacts):
    for url, content in artifacts.items():
        path = re.sub(r"^http://[^/]+", "", url)
        status, data = server.ask("GET", path)
        assert (status, data.decode()) == (200, content), (url, data[:200])


@pytest.mark.parametrize("part", ["zygote", "box"])
def test_who_loses_a_session_is_told(cli, tools, part):
    server = start(cli, cli.folder / "state")
    status, answer = server.execute("x = 1", "mine")
    assert status == 200
    handle = answer["session"]
    for pid in family(server, tools)[part]:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    assert tools.wait_until(lambda: server.ask("GET", f"/api/v1/sessions/{handle}")[0] == 409)
    status, answer = server.execute("x", handle)
    assert status == 409 and answer["error"]["code"] == "session_ended", answer
    deadline = time.monotonic() + 20
    while True:                 # a new zygote may need a moment, and a box that was ready may be dead as well
        status, answer = server.execute("'x' in globals()", "mine")
        if status == 200 and answer["verdict"] != "lost" or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert (status, answer["result_json"], answer["session_state"]) == (200, False, "new")
    assert "new session" in answer["hint"]
