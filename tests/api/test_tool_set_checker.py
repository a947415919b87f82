# SPDX-License-Identifier: Apache-2.0
"""The rows C-01 to C-15 of the acceptance list: the tool set `checker` has the names, parameters, defaults and
answers of the reference server python-code-sandbox, and keeps what that one promises.

`told` is what a client of that server reads, the JSON text; `more` is the structured content, the same and what
only ours has.
"""

import asyncio
import json
import os
import re

import pytest
from conftest import PROGRAM, TOP, open_cli
from mcp_client import Http, LEGACY, Server, Stdio, text

SET = ("--tools", "checker")
CALLS = "open __import__ eval exec compile getattr setattr globals locals input help dir vars breakpoint memoryview"
MODULES = ("os sys subprocess shutil socket requests urllib pathlib inspect types ctypes pickle marshal builtins "
           "platform resource signal")
# As the document has it, to the byte.
EXAMPLE = """{
  "stdout": "Hello, world!\\n",
  "stderr": "ZeroDivisionError: division by zero\\n",
  "exit_code": 1,
  "phase": "execution"
}"""


class Client:
    def __init__(self, connection):
        self.connection = connection
        self.text = self.more = None

    def call(self, tool, **arguments):
        answer = self.connection.call(tool, **arguments)
        assert not answer.get("isError"), answer
        self.text, self.more = text(answer), answer["structuredContent"]
        told = json.loads(self.text)
        assert {key: self.more[key] for key in told} == told
        return told

    def test(self, code, **arguments):
        told = self.call("test_code", code=code, **arguments)
        assert list(told)[:4] == ["stdout", "stderr", "exit_code", "phase"]
        return told

    def refused(self, tool, **arguments):
        answer = self.connection.call(tool, **arguments)
        assert answer["isError"], answer
        return text(answer)


@pytest.fixture(scope="module")
def shared(program):
    with open_cli(program) as cli:
        yield cli


@pytest.fixture(scope="module")
def c(shared):
    with Stdio(shared, *SET, version=LEGACY[-1]) as connection:
        connection.open()
        yield Client(connection)


# ---- check_syntax --------------------------------------------------------------------------------


def test_C_01_check_syntax(c):
    """`check_syntax` says valid, or where the error is, with its surroundings; nothing is executed."""
    told = c.call("check_syntax", code="import os\nos.kill(1, 9)\n1 / 0\n")
    assert told == {"valid": True} and c.text == '{\n  "valid": true\n}'
    told = c.call("check_syntax", code="x = 1\ndef f(:\n    pass\n")
    assert list(told) == ["valid", "error", "line", "offset", "context"]
    assert (told["valid"], told["error"], told["line"]) == (False, "invalid syntax", 2)
    assert told["offset"] == 7 and "def f(:" in told["context"] and "^" in told["context"]
    assert c.more["type"] == "SyntaxError"


@pytest.mark.parametrize("code, line", [
    ("if x:\nprint(1)", 2), ("x = 'abc", 1), ("\x00", 1), ("return 1", 1), ("x = (1,\n", 1), ("def f():\n\tx\n        y", 3),
])
def test_C_01_what_is_no_python(c, code, line):
    """Whatever Python refuses has its line."""
    told = c.call("check_syntax", code=code)
    assert (told["valid"], told["line"]) == (False, line), told


def test_C_01_any_text_is_answered(c):
    """Deep nesting, much text and no text at all are answered."""
    assert c.call("check_syntax", code="")["valid"]
    assert not c.call("check_syntax", code="(" * 20_000)["valid"]
    assert c.call("check_syntax", code="x = 1\n" * 20_000)["valid"]
    assert "code" in c.refused("check_syntax")
    assert "string" in c.refused("check_syntax", code=None)


# ---- test_code -----------------------------------------------------------------------------------


def test_C_02_test_code(c):
    """`test_code` has the documented parameters with their defaults, and each of them is kept."""
    tools = {tool["name"]: tool for tool in c.connection.result("tools/list")["tools"]}
    assert list(tools) == ["check_syntax", "test_code"]
    schema = tools["test_code"]["inputSchema"]
    assert schema["required"] == ["code"]
    assert {name: (item["type"], item.get("default")) for name, item in schema["properties"].items()} == {
        "code": ("string", None), "timeout": ("number", 15.0), "cpu_limit_sec": ("number", 10.0),
        "memory_limit_mb": ("integer", 100)}
    assert c.test("print(1)", timeout=5.5, cpu_limit_sec=2.5, memory_limit_mb=64)["stdout"] == "1\n"
    assert c.test("print(1)", timeout="5.5", cpu_limit_sec="2", memory_limit_mb="64")["stdout"] == "1\n"
    for wrong in ({"timeout": 0}, {"timeout": 10 ** 6}, {"cpu_limit_sec": -1}, {"memory_limit_mb": 1},
                  {"memory_limit_mb": 10 ** 6}, {"memory_limit_mb": 50.5}, {"memory_limit_mb": "50.5"}, {"timeout": "5s"}, {"timeout": "[5]"}, {"extra": 1}):
        assert next(iter(wrong)) in c.refused("test_code", code="1", **wrong)


def test_C_03_phases_and_exit_codes(c):
    """The phase says where it ended; exit_code is the code's own, 124 when the time was up, and output is kept."""
    told = c.test("print('ok')")
    assert told == {"stdout": "ok\n", "stderr": "", "exit_code": 0, "phase": "execution"}
    told = c.test("print('never')\nx = (")
    assert (told["stdout"], told["exit_code"], told["phase"]) == ("", 1, "syntax_check")
    assert told["stderr"] == "SyntaxError: '(' was never closed\n" and told["line"] == 2
    told = c.test("print('never')\nimport os\nprint(eval('1'))")
    assert (told["stdout"], told["exit_code"], told["phase"]) == ("", 1, "security_check")
    assert told["violations"] == ["Line 2: Import 'os' is not allowed", "Line 3: Function 'eval' is not allowed"]
    told = c.test("print('before', flush=True)\nwhile True: pass", timeout=1)
    assert (told["stdout"], told["exit_code"], told["phase"]) == ("before\n", 124, "execution")
    assert told["stderr"].startswith("TimeoutError: ")
    assert c.test("raise SystemExit(3)")["exit_code"] == 3
    assert c.test("raise SystemExit('bye')")["stderr"] == "bye\n"


def test_C_04_the_example(c):
    """The documented example gives the documented answer, byte for byte; ours adds the line beside it."""
    c.test("print('Hello, world!')\nx = 1 / 0", timeout=10, memory_limit_mb=50)
    assert c.text == EXAMPLE
    assert (c.more["exception"]["line"], c.more["exception"]["code_line"]) == (2, "x = 1 / 0")


@pytest.mark.parametrize("name", CALLS.split())
def test_C_05_functions(c, name):
    """Each function of the list is refused by name before anything runs."""
    told = c.test(f"print('ran')\n{name}('x')")
    assert (told["phase"], told["stdout"]) == ("security_check", "")
    assert told["violations"] == [f"Line 2: Function '{name}' is not allowed"]


def test_C_05_functions_by_another_name(c):
    """Under another name they are there and say no, and that is an event."""
    told = c.test("f = open\nprint('begun')\nf('/etc/passwd')")
    assert (told["phase"], told["exit_code"], told["stdout"]) == ("execution", 1, "begun\n")
    assert told["stderr"].startswith("BlockedError: 'open' is not allowed")
    event, = c.more["security_events"]
    assert (event["kind"], event["target"], event["line"], event["layer"]) == ("call", "open", 3, "python")


@pytest.mark.parametrize("name", MODULES.split())
def test_C_06_modules(c, name):
    """Each module of the list is refused, as a whole and by its parts, before anything runs."""
    told = c.test(f"print('ran')\nimport {name}\n")
    assert (told["phase"], told["stdout"]) == ("security_check", "")
    assert told["violations"] == [f"Line 2: Import '{name}' is not allowed"]


def test_C_06_modules_in_other_words(c):
    """`from`, `as` and parts are the same import; a name that is made up later is refused when it comes."""
    told = c.test("from os import path\nimport urllib.request as u\nimport math, sys")
    assert told["violations"] == ["Line 1: Import 'os' is not allowed", "Line 2: Import 'urllib.request' is not allowed",
                                  "Line 3: Import 'sys' is not allowed"]
    told = c.test("f = __import__\nf('o' + 's')")
    assert told["phase"] == "execution" and told["stderr"].startswith("ImportError: import of 'os' is not allowed")


def test_C_07_sanitised_environment(shared):
    """Other modules and classes work, unlike there, and the server's environment is not inherited."""
    with Stdio(shared, *SET, env={"SECRET_OF_THE_HOST": "hidden"}) as connection:
        connection.open()
        c = Client(connection)
        told = c.test("import math, json, collections\nclass A:\n    def f(self): return math.floor(2.5)\n"
                      "print(json.dumps(A().f()), collections.Counter('aa'))")
        assert (told["exit_code"], told["stdout"]) == (0, "2 Counter({'a': 2})\n")
        told = c.test("import collections\nprint(sorted(collections._sys.modules['os'].environ))")
        assert "SECRET" not in told["stdout"]


def test_C_08_limits(c):
    """Processor time and memory are bounded by the kernel."""
    told = c.test("while True: pass", cpu_limit_sec=0.5, timeout=60)
    assert told["exit_code"] == 124 and "processor time" in told["stderr"]
    assert c.more["verdict"] == "timeout_cpu"
    told = c.test("print('x')\ny = bytearray(300 * 1024 * 1024)")
    assert told["exit_code"] in (1, 137) and told["stderr"].startswith("MemoryError")
    assert c.test("y = bytearray(120 * 1024 * 1024)", memory_limit_mb=300)["exit_code"] == 0


def test_C_09_limits_are_there_or_the_answer_says_so(c):
    """In place of a platform that keeps time only: every answer tells the state of each layer."""
    assert c.test("1")["exit_code"] == 0
    assert c.more["isolation"] and all(isinstance(state, str) for state in c.more["isolation"].values())


WALK = """
found = [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close'][0].__init__.__globals__
os, modules = found['sys'].modules['os'], found['sys'].modules
"""


@pytest.mark.parametrize("code", [
    "import io\nio.open('x.txt', 'w').write('x')",
    "import codecs\ncodecs.open('x.txt', 'w')",
    "import tempfile\ntempfile.TemporaryFile()",
    "import tempfile\ntempfile.mkdtemp(dir='/dev/shm')",
    "import sqlite3\nsqlite3.connect('x.db').execute('create table t (a)')",
    "import logging\nlogging.FileHandler('x.log').emit(logging.makeLogRecord({}))",
    "import logging\nlogging.os.mkdir('x')",
    "import zipfile\nzipfile.ZipFile('x.zip', 'w')",
    WALK + "os.open('/tmp/x', os.O_CREAT | os.O_WRONLY)",
    WALK + "os.symlink('/etc', 'x')",
    WALK + "os.rename('/mnt/data', '/mnt/other')",
])
def test_C_10_no_file_is_written(c, code):
    """No file system access: past the scan, the kernel keeps every place read-only, for io.open, tempfile, sqlite3 and a walk."""
    told = c.test(code)
    assert told["phase"] == "execution" and told["exit_code"] == 1, told
    assert re.search("Read-only file system|readonly database|unable to open database|No usable temporary directory|"
                     "Permission denied|Operation not permitted|Device or resource busy", told["stderr"]), told


def test_C_10_no_file_is_found(c):
    """What can be read is the interpreter's own: the working folder is empty, and nothing of the machine is there."""
    told = c.test("import logging\nos = logging.os\nprint(os.listdir('.'), os.listdir('/home') if os.path.isdir('/home') else [])\n"
                  "print([p for p in ('/root/.ssh', '/etc/shadow', '/var/lib', '/srv', '/boot')\n"
                  "       if os.access(p, os.R_OK) and (not os.path.isdir(p) or os.listdir(p))])")
    assert (told["exit_code"], told["stdout"]) == (0, "[] []\n[]\n"), told


def test_C_10_no_internet_access(shared):
    """No internet access: not even where the operator allows hosts, and not through a walk over subclasses."""
    code = WALK + """
try:
    import _socket as socket
    socket.socket(2, 1).connect(('203.0.113.5', 80))
    print('done')
except (ImportError, OSError):
    print('refused')
"""
    with Stdio(shared, *SET, "--allow-host", "203.0.113.5:80") as connection:
        connection.open()
        client = Client(connection)
        told = client.test(code, timeout=10)
        assert (told["phase"], told["stdout"]) == ("execution", "refused\n"), told
        assert client.more["network"] == "off"


def test_C_11_the_layers(c):
    """Each of the six layers refuses something of its own: syntax, scan, guard, box, limits, captured output."""
    phases = [c.test(code, timeout=1 if "while" in code else 60)["phase"] for code in ("(", "import os", "f = open\nf('x')", "while 1: pass")]
    assert phases == ["syntax_check", "security_check", "execution", "execution"]
    told = c.test("import sysconfig\nprint('out')\nprint('err', file=sysconfig.sys.stderr)")
    assert (told["stdout"], told["stderr"], told["exit_code"]) == ("out\n", "err\n", 0)


def test_C_12_logs(shared):
    """The log has a line for each run, without its code, in a file of the operator's folder in place of a shared one."""
    folder = shared.folder / "logs"
    server = Server(shared, *SET, "--log-dir", folder, "--log-level", "info")
    with Http(server, version=LEGACY[-1]) as connection:
        connection.open()
        client = Client(connection)
        client.test("print('secret text')\n1 / 0")
        id = client.more["execution_id"]
        client.test("import os")
    server.stop()
    file = folder / "constrictor.log"
    runs = [line for line in file.read_text().splitlines() if ": run " in line and "tool=" in line]
    assert len(runs) == 2 and f"run {id}: tool=test_code verdict=error phase=execution" in runs[0], runs
    assert "verdict=denied phase=security_check" in runs[1] and "security_events=1" in runs[1]
    assert "secret text" not in file.read_text()
    assert os.stat(file).st_mode & 0o077 == 0


def test_C_12_logs_with_stdio(shared):
    """LOG_DIR works with stdio, the document's transport: the folder is made, and each run has a line in the log there."""
    folder = shared.folder / "made"
    with Stdio(shared, *SET, "--log-level", "info", env={"LOG_DIR": str(folder)}, version=LEGACY[-1]) as connection:
        connection.open()
        Client(connection).test("print('secret text')")
    log = (folder / "constrictor.log").read_text()
    assert re.search(r"^20\S+Z constrictor gate: info: run \S+: ok, ", log, re.M) and "secret text" not in log
    done = shared.call("stdio", *SET, env={"LOG_DIR": "/proc/nothing"})
    assert done.status == 64 and "log-dir" in done.err


def test_C_13_clients(shared):
    """`client-config lmstudio` and `vscode` print snippets, and what LM Studio would start answers to the SDK."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    for name in "lmstudio", "vscode":
        done = shared.call("client-config", name)
        assert done.status == 0 and "stdio" in done.out

    async def go():
        parameters = StdioServerParameters(command=str(PROGRAM), args=["stdio", *SET],
                                           env={"CONSTRICTOR_STATE": str(shared.folder / "sdk")})
        async with stdio_client(parameters) as (read, write):
            async with ClientSession(read, write) as session:
                await session.initialize()
                # The documented request.
                result = await session.call_tool("test_code", {
                    "code": "print('Hello, world!')\nx = 1 / 0", "timeout": 10, "memory_limit_mb": 50})
                return result.content[0].text

    assert asyncio.run(go()) == EXAMPLE


@pytest.mark.parametrize("code, stdout, status, phase", [
    ("print(6 * 7)", "42\n", 0, "execution"),
    ("print('before')\n1 / 0", "before\n", 1, "execution"),
    ("import subprocess", "", 1, "security_check"),
    ("exec('1')", "", 1, "security_check"),
    ("while True: pass", "", 124, "execution"),
    ("x = ' ' * 10 ** 9", "", None, "execution"),
])
def test_C_14_six_checks(c, code, stdout, status, phase):
    """Six checks with one command, `make test-api PYTEST_ARGS='-k six_checks'`: output, error, import, call, time, memory."""
    told = c.test(code, timeout=1 if "while" in code else 60)
    assert (told["stdout"], told["phase"]) == (stdout, phase)
    assert told["exit_code"] == status if status is not None else told["exit_code"] in (1, 137)


def test_C_15_no_dependencies():
    """The program needs no Python package: it speaks MCP itself, and runs a plain interpreter, 3.9 or later, or says why not."""
    assert not (TOP / "pyproject.toml").exists() and not (TOP / "requirements.txt").exists()
    with open_cli(PROGRAM) as cli:
        done = cli.call("run", "--python", "/usr/bin/python3", "-c", "import sys\nprint(sys.version_info >= (3, 8))")
        assert done.out == "True\n"
        old = cli.folder / "python3.8"
        old.write_text("#!/bin/sh\necho Python 3.8.10\n")
        old.chmod(0o755)
        done = cli.call("run", "--python", old, "-c", "1")
        assert done.status == 69 and "Python 3.8.10, too old" in done.err and "3.9 or later" in done.err
