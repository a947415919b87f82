# SPDX-License-Identifier: Apache-2.0
"""The clients that people use, against the server: each over each transport, in each era it knows.

The scripts of tests/clients do everything that a client does and print a JSON line for each step;
a failing test names the steps. All of them are started at once, a few at a time, by the first test.
"""

import concurrent.futures
import json
import os
import subprocess
import sys

import pytest
from conftest import open_cli
from mcp_client import CLIENTS, MODERN, NODE_ENVIRON, NPM, Server, node, oracle

WORKERS = 3
GUARD_S = 190
LOAD_REQUESTS = 60
MODES = ("legacy", "auto", "pin")

SCRIPTS = {
    "ts1": [("stdio", "legacy"), ("http", "legacy"), ("sse", "legacy")],
    "ts2": [(way, mode) for way in ("stdio", "http") for mode in MODES] + [("sse", "legacy")],
    "python": [(way, mode) for way in ("stdio", "http") for mode in MODES] + [("sse", "legacy")],
    "tasks": [("stdio", "pin"), ("http", "pin")],
}
RUNS = [(name, *how) for name, ways in SCRIPTS.items() for how in ways]

# Steps that must have been made, so that a script which stops early is not taken for a good one.
STEPS = {
    "tasks": {"connect", "task: result", "task: error", "task: cancel", "close"},
    "python": {"connect", "tools/list", "call: a value", "progress", "cancel", "subscribe"},
}
WALK = {
    "connect",
    "tools/list",
    "call: a value",
    "call: a bad argument",
    "resources/read",
    "prompts/get",
}
WALK |= {"completion/complete", "progress", "cancel", "call: four at once", "close"}


class Inspector:
    """One call of the Inspector's command line; what it must print and how it must end."""

    def __init__(self, *args, says="", status=0, ways=("stdio", "http", "sse")):
        self.args, self.says, self.status, self.ways = args, says, status, ways

    @property
    def name(self):
        return " ".join(self.args[:1] + self.args[1:3] if len(self.args) > 1 else self.args)


def run_tool(code, **options):
    args = ["tools/call", "--tool-name", "execute_python"]
    return Inspector(*args, "--tool-args-json", json.dumps({"code": code}), **options)


BRIEF = ("stdio", "http")
FIX = ("--prompt-args", "code=zig = 1")
INSPECTIONS = [
    Inspector("tools/list", "--strict", says="execute_python"),
    run_tool("print('printed')\n6 * 7", says="42"),
    run_tool("1 / 0", says="ZeroDivisionError", status=None),
    Inspector(
        "tools/call", "--tool-name", "no_such_tool", says="no_such_tool", status=5, ways=BRIEF
    ),
    Inspector("resources/list", says="uri", ways=BRIEF),
    Inspector("resources/templates/list", says="uriTemplate", ways=BRIEF),
    Inspector(
        "resources/read", "--uri", "run://none/stdout", says="run://none", status=None, ways=BRIEF
    ),
    Inspector("resources/read", "--uri", "constrictor://guide", says="execute_python", ways=BRIEF),
    Inspector("prompts/list", says="name", ways=BRIEF),
    Inspector("prompts/get", "--prompt-name", "fix_code", *FIX, says="zig = 1", ways=BRIEF),
]
LEGACY_INSPECTIONS = [
    Inspector("initialize", says="constrictor"),
    Inspector("logging/setLevel", "--log-level", "debug", ways=BRIEF),
]
LOAD = [
    "tools/call",
    "--tool-name",
    "execute_python",
    "--tool-args-json",
    '{"code": "1"}',
    "--load",
]
LOAD += ["--load-requests", str(LOAD_REQUESTS), "--load-concurrency", "6"]


def inspections():
    for era in ("legacy", "modern"):
        for one in INSPECTIONS + (LEGACY_INSPECTIONS if era == "legacy" else []):
            for way in one.ways:
                if (way, era) != ("sse", "modern"):
                    yield era, way, one
    for way in ("stdio", "http"):
        yield "legacy", way, Inspector(*LOAD)
    yield "modern", "http", Inspector(*LOAD)


INSPECTOR = list(inspections())


class Matrix:
    """Everything at once, a few at a time."""

    def __init__(self, cli, server):
        self.cli = cli
        self.targets = {
            "stdio": [str(cli.program), "stdio", "--tools", "full"],
            "http": [server.url + "/mcp"],
            "sse": [server.url + "/sse"],
        }
        self.pool = concurrent.futures.ThreadPoolExecutor(WORKERS)
        self.scripts = {run: self.pool.submit(self.script, *run) for run in RUNS}
        self.inspector = [self.pool.submit(self.inspect, *one) for one in INSPECTOR]

    def command(self, name, way, mode):
        if name == "python":
            start = [sys.executable, str(CLIENTS / "python_sdk.py")]
        else:
            start = [node(), "--import", str(CLIENTS / "hook.mjs"), str(CLIENTS / f"{name}.mjs")]
        return [*start, way, mode, *self.targets[way]]

    def execute(self, command):
        env = {**self.cli.environ(), **NODE_ENVIRON, "HOME": str(self.cli.folder)}
        process = subprocess.Popen(
            command,
            env=env,
            cwd=self.cli.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.cli.started.append(process)
        try:
            out, err = process.communicate(timeout=GUARD_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            err += b"\nkilled: no end after %d s" % GUARD_S
        return process.returncode, out.decode(), err.decode(errors="backslashreplace")

    def script(self, name, way, mode):
        return self.execute(self.command(name, way, mode))

    def inspect(self, era, way, one):
        kind = {"stdio": [], "http": ["--transport", "http"], "sse": ["--transport", "sse"]}[way]
        launcher = NPM / "node_modules" / ".bin" / "mcp-inspector"
        command = [node(), os.path.realpath(launcher), "--cli", *self.targets[way], *kind]
        return self.execute([*command, "--protocol-era", era, "--method", *one.args])

    def close(self):
        self.pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def matrix(program):
    with open_cli(program) as cli:
        matrix = Matrix(cli, Server(cli, "--legacy-sse"))
        yield matrix
        matrix.close()


@pytest.mark.parametrize("run", RUNS, ids=["-".join(run) for run in RUNS])
def test_client(matrix, run):
    status, out, err = matrix.scripts[run].result(GUARD_S * 2)
    lines = [json.loads(line) for line in out.splitlines()]
    steps = [line for line in lines if "step" in line]
    failed = [
        f"{s['step']}: {s['error']['message']}" for s in steps if not s["ok"] and "error" in s
    ]
    assert not failed, (
        f"{'-'.join(run)}: {len(failed)} steps failed\n" + "\n".join(failed) + err[-2000:]
    )
    missing = STEPS.get(run[0], WALK) - {s["step"] for s in steps}
    assert (
        not missing and steps[-1]["step"] == "end"
    ), f"never came to {missing}\n{out}\n{err[-3000:]}"
    assert status == 0, err[-3000:]
    check_heard(run, [(line["heard"], line["method"]) for line in lines if "heard" in line])


def check_heard(run, heard):
    """What a client has heard is valid by the schema of the revision that it agreed on."""
    assert heard or run[0] == "python", "nothing was recorded"
    version = MODERN
    for message, method in heard:
        if method == "initialize":
            version = message["result"]["protocolVersion"]
        wrong = oracle(version).wrong(message, method)
        assert not wrong, f"{method}: {wrong}\n{json.dumps(message)[:2000]}"


@pytest.mark.parametrize(
    "number", range(len(INSPECTOR)), ids=[f"{e}-{w}-{i.name}" for e, w, i in INSPECTOR]
)
def test_inspector(matrix, number):
    one = INSPECTOR[number][2]
    status, out, err = matrix.inspector[number].result(GUARD_S * 2)
    assert (
        one.says in out + err
    ), f"'{one.says}' is nowhere\nstatus {status}\n{out[-3000:]}\n{err[-3000:]}"
    if one.status is not None:
        assert status == one.status, f"status {status}\n{out[-3000:]}\n{err[-3000:]}"
    if "--load" in one.args:
        found = json.loads(out)
        assert (found["ok"], found["errors"], found["toolErrors"]) == (LOAD_REQUESTS, 0, 0), out
