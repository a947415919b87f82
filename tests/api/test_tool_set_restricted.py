# SPDX-License-Identifier: Apache-2.0
"""The rows R-01 to R-31 of the acceptance list: the tool set `restricted` has the names, parameters, bounds and
answers of the reference server python-sandbox-server, and keeps what that one promises.

`told` is what a client of that server reads, the JSON text; `more` is the structured content, the same and what
only ours has.
"""

import asyncio
import hashlib
import json
import re
import subprocess
import sys
import uuid

import anyio
import pytest
from conftest import PROGRAM, TOP, open_cli
from mcp import Client as SdkClient
from mcp.client.sse import sse_client
from mcp_client import Http, LEGACY, Server, Stdio, text

PYTHON = TOP / "build" / "venv" / "bin" / "python"  # has RestrictedPython
DATA = TOP / "build" / "venv-data" / "bin" / "python"  # and numpy
SET = ("--tools", "restricted", "--python", str(PYTHON))
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")

FIBONACCI = """
def fibonacci(n):
    if n <= 1:
        return n
    return fibonacci(n-1) + fibonacci(n-2)

result = [fibonacci(i) for i in range(10)]
print("Fibonacci sequence:", result)
"""
STATISTICS = """
import statistics
data = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
mean = statistics.mean(data)
median = statistics.median(data)
stdev = statistics.stdev(data)

result = {
    'mean': mean,
    'median': median,
    'std_dev': stdev
}
print(f"Statistics: {result}")
"""
BUBBLE_SORT = """
def bubble_sort(arr):
    n = len(arr)
    for i in range(n):
        for j in range(0, n-i-1):
            if arr[j] > arr[j+1]:
                arr[j], arr[j+1] = arr[j+1], arr[j]
    return arr

test_data = [64, 34, 25, 12, 22, 11, 90]
result = bubble_sort(test_data.copy())
print(f"Sorted: {result}")
"""
LEIBNIZ = """
import math

def calculate_pi_leibniz(terms):
    pi_approx = 0
    for i in range(terms):
        pi_approx += ((-1) ** i) / (2 * i + 1)
    return pi_approx * 4

result = calculate_pi_leibniz(1000)
print(f"Pi approximation: {result}")
print(f"Difference from math.pi: {abs(result - math.pi)}")
"""


class Client:
    """A connection whose tools answer with one JSON object."""

    def __init__(self, connection):
        self.connection = connection
        self.is_error, self.more = None, None

    def call(self, tool, **arguments):
        answer = self.connection.call(tool, **arguments)
        self.is_error, self.more = bool(answer.get("isError")), answer.get("structuredContent")
        told = json.loads(text(answer))
        # What the text says, the object says as well.
        assert {key: self.more[key] for key in told} == told
        return told

    def execute(self, code, **arguments):
        told = self.call("execute_code", code=code, **arguments)
        assert not self.is_error  # code that fails is an answer, not an error of the tool
        return told

    def refused(self, tool, **arguments):
        """The text of an answer that is an error."""
        answer = self.connection.call(tool, **arguments)
        assert answer["isError"], answer
        return text(answer)


DEFAULTS = """# Core settings
SANDBOX_TIMEOUT=30
SANDBOX_MAX_OUTPUT_SIZE=1MB
# Security capabilities
SANDBOX_ENABLE_NETWORK=false
SANDBOX_ENABLE_FILESYSTEM=false
SANDBOX_ENABLE_DATA_SCIENCE=false
SANDBOX_ALLOWED_IMPORTS=
# Container mode
SANDBOX_ENABLE_CONTAINER_MODE=false
SANDBOX_CONTAINER_IMAGE=python-sandbox:latest
SANDBOX_DEFAULT_MEMORY_LIMIT=128m
"""


@pytest.fixture(scope="module")
def shared(program):
    with open_cli(program) as cli:
        yield cli


def connect(cli, *flags, **env):
    connection = Stdio(cli, *SET, *flags, version=LEGACY[-1], env=env)
    connection.open()
    return Client(connection)


@pytest.fixture(scope="module")
def c(shared):
    client = connect(shared)
    with client.connection:
        yield client


@pytest.fixture(scope="module")
def wide(shared):
    """The same tools without the language layer: what is refused here, the kernel refuses."""
    client = connect(shared, "--policy", "open")
    with client.connection:
        yield client


# ---- execute_code --------------------------------------------------------------------------------


def test_R_01_the_tool_execute_code(c):
    """`execute_code` is there with exactly the documented parameters, of which only `code` is required."""
    tools = {tool["name"]: tool for tool in c.connection.result("tools/list")["tools"]}
    assert list(tools) == ["execute_code", "validate_code", "get_sandbox_info", "list_capabilities"]
    schema = tools["execute_code"]["inputSchema"]
    assert schema["required"] == ["code"]
    assert list(schema["properties"]) == [
        "code", "timeout", "capture_output", "allowed_imports", "use_container", "memory_limit"]
    assert all("type" in item for item in schema["properties"].values())
    assert c.execute("1 + 1")["result"] == 2
    assert "code" in c.refused("execute_code")
    assert "more" in c.refused("execute_code", code="1", more=1)
    assert "string" in c.refused("execute_code", code=1)


def test_R_02_timeout(c):
    """`timeout` is 30 by default, at most 300 (more is refused, with the bound), and it ends code, whose output stays."""
    schema = c.connection.result("tools/list")["tools"][0]["inputSchema"]["properties"]["timeout"]
    assert (schema["default"], schema["maximum"]) == (30, 300)
    told = c.execute("print('before')\nwhile True: pass", timeout=1)
    assert not told["success"] and told["stdout"] == "before\n" and told["error_category"] == "timeout"
    assert 1 <= told["execution_time"] < 25 and "1s" in told["error"]
    assert "at most 300" in c.refused("execute_code", code="1", timeout=301)
    assert "timeout" in c.refused("execute_code", code="1", timeout=0)
    assert c.execute("'at the bound'", timeout=300)["result"] == "at the bound"
    assert c.execute("'as models write it'", timeout="5")["result"] == "as models write it"
    assert "at most 300" in c.refused("execute_code", code="1", timeout="301")


def test_R_03_capture_output(c):
    """With `capture_output` false nothing of what the code printed is in the answer."""
    code = "print('out')\nresult = 3"
    assert c.execute(code)["stdout"] == "out\n"
    told = c.execute(code, capture_output=False)
    assert (told["stdout"], told["stderr"], told["result"]) == ("", "", 3)
    for text, printed in (("false", ""), ("False", ""), ("true", "out\n")):
        assert c.execute(code, capture_output=text)["stdout"] == printed
    assert "boolean" in c.refused("execute_code", code="1", capture_output="maybe")


def test_R_04_allowed_imports(c):
    """`allowed_imports` narrows what may be imported, never widens it, and names that are none are refused."""
    code = "import math\ndata = [1, 2, 3, 4, 5]\nresult = sum(data) / len(data)\nprint(f'Average: {result}')"
    told = c.execute(code, allowed_imports=["math"], timeout=15)
    assert told["success"] and told["result"] == 3.0 and told["stdout"] == "Average: 3.0\n"
    assert c.execute(code, allowed_imports='["math"]', timeout="15") | {"execution_id": 0, "execution_time": 0} == \
        told | {"execution_id": 0, "execution_time": 0}
    told = c.execute("import json", allowed_imports=["math"])
    assert told["validation_errors"] == ["Line 1: Import 'json' is not allowed"]
    assert "add it to allowed_imports" in told["security_events"][0]["hint"]
    told = c.execute("import os", allowed_imports=["os"])
    assert not told["success"] and "operator" in told["security_events"][0]["hint"]
    assert "allowed_imports" in c.refused("execute_code", code="1", allowed_imports=["a b"])
    assert "array" in c.refused("execute_code", code="1", allowed_imports="math")


def test_R_05_use_container(c):
    """`use_container` fails clearly and runs nothing, as there is no container backend; false is as without it."""
    told = c.call("execute_code", code="print('ran')", use_container=True, memory_limit="256m", timeout=30)
    assert c.is_error and told["success"] is False and told["stdout"] == ""
    assert told["code"] == "container_unavailable" and "nothing was run" in told["error"] and told["hint"]
    assert c.execute("print('ran')", use_container=False)["stdout"] == "ran\n"


def test_R_06_memory_limit(c):
    """`memory_limit` in the notation of containers is the memory of the run, and is kept."""
    code = "data = bytearray(150 * 1024 * 1024)\nresult = len(data)"
    told = c.execute(code, memory_limit="64m")
    assert not told["success"] and told["error_category"] == "resource"
    assert c.more["limit"] == {"name": "memory", "value": 64 << 20, "unit": "bytes"}
    for right in "256m", "256mb", "256 MB", "256MiB", "268435456", "268435456b":
        assert c.execute(code, memory_limit=right)["result"] == 150 << 20, right
    for wrong in "lots", "", "1k", "999g", "-1m", "1\u0000m", "256mib2", "256 ", "mb", "256 mm":
        assert "memory_limit" in c.refused("execute_code", code="1", memory_limit=wrong), wrong


def test_R_07_the_response(c):
    """The documented example gives the documented response; failures add error, traceback and what was refused."""
    told = c.execute("result = 2 + 2\nprint(f'The answer is: {result}')", timeout=10, capture_output=True)
    assert list(told) == ["success", "execution_id", "result", "stdout", "stderr", "execution_time", "variables"]
    assert UUID.match(told.pop("execution_id")) and 0 < told.pop("execution_time") < 10
    assert told == {"success": True, "result": 4, "stdout": "The answer is: 4\n", "stderr": "",
                    "variables": ["result"]}
    told = c.execute("def f():\n    return 1 / 0\nf()")
    assert told["success"] is False and told["error"] == "ZeroDivisionError: division by zero"
    assert told["traceback"].startswith("Traceback") and "line 2, in f" in told["traceback"]
    assert "security_event" not in told
    told = c.execute("import os\nimport subprocess")
    assert told["validation_errors"] == [
        "Line 1: Import 'os' is not allowed", "Line 2: Import 'subprocess' is not allowed"]
    assert told["security_event"] == "blocked_import"


def test_R_07_what_was_blocked_is_told(c):
    """Each blocked operation is an event with kind, target, line, layer and hint, also of code that went on."""
    told = c.execute("for name in ('os', 'sys'):\n    try:\n        __import__(name)\n"
                     "    except ImportError:\n        pass\nprint('on')")
    if told["success"]:  # the name is known only when it runs
        assert told["security_event"] == "blocked_import"
    for event in told["security_events"]:
        assert {"kind", "target", "line", "layer", "hint"} <= set(event) and event["hint"]
    told = c.execute("x = 1\nprint(getattr(x, '__cl' + 'ass__'))")
    event, = told["security_events"]
    assert (event["kind"], event["target"], event["line"], event["layer"]) == ("attribute", "__class__", 2, "restricted")


@pytest.mark.parametrize("code, result", [
    ("result = 1\n2 + 3", 5),
    ("result = 4\nprint('x')", 4),
    ("output = {'a': [1, None]}", {"a": [1, None]}),
    ("_ = 'under'", "under"),
    ("output = 1\nresult = 2", 2),
    ("x = 1", None),
    ("from decimal import Decimal\nresult = Decimal('1.50')", "1.50"),
    ("result = {1, 2} - {2}", "{1}"),
    ("result = 0.1", 0.1),
])
def test_R_08_result(c, code, result):
    """`result` is the last expression, else the variable result, output or _; what is not JSON is its str()."""
    assert c.execute(code)["result"] == result


# ---- validate_code, get_sandbox_info -------------------------------------------------------------


def test_R_09_validate_code(c):
    """The documented example gives the documented answer (31 characters: the document counted another text)."""
    told = c.call("validate_code", code="import os\nos.system('rm -rf /')")
    assert told == {
        "validation": {
            "valid": False,
            "errors": ["Line 1: Import 'os' is not allowed"],
            "message": "Code contains restricted operations",
        },
        "analysis": {"line_count": 2, "character_count": 31, "estimated_complexity": "low"},
        "recommendations": ["Some operations may be restricted in sandbox environment"],
    }
    # The text whose characters the document has.
    told = c.call("validate_code", code="import os\nos.system('ls')")
    assert told["analysis"] == {"line_count": 2, "character_count": 25, "estimated_complexity": "low"}


def test_R_09_validate_code_runs_nothing(c):
    """Valid code is said to be valid and not executed; a syntax error has its line; what would be refused is told."""
    told = c.call("validate_code", code="import math\nwhile True:\n    print(math.pi)\n")
    assert told["validation"]["valid"] and told["validation"]["errors"] == []
    assert any("no break" in advice for advice in told["recommendations"])
    told = c.call("validate_code", code="x = 1\nx = = 2\n")
    assert not told["validation"]["valid"] and told["validation"]["errors"][0].startswith("Line 2: SyntaxError")
    assert "syntax" in told["validation"]["message"]
    told = c.call("validate_code", code="print(1)\n().__class__.__bases__\n")
    assert [error[:7] for error in told["validation"]["errors"]] == ["Line 2:"] * 2
    told = c.call("validate_code", code="x = 1\r\nprint(open('/etc/passwd').read())")
    assert told["validation"] == {"valid": False, "errors": ["Line 2: 'open' is not available in restricted mode"],
                                  "message": "Code contains restricted operations"}
    assert told["analysis"]["character_count"] == 40
    told = c.call("validate_code", code="from math import *")
    assert c.more["violations"][0]["hint"].startswith("import by name")
    for code in "def open(x): return x\nopen(1)", "try:\n    open('x')\nexcept Exception:\n    pass", "'{:>4}'.format(1)":
        assert c.call("validate_code", code=code)["validation"]["valid"] and c.execute(code)["success"], code
    for code in "\x00", "(" * 5000, "":
        c.call("validate_code", code=code)


def test_R_10_get_sandbox_info(c):
    """`get_sandbox_info`, and by its older name `list_capabilities`, have the documented members and the truth."""
    told = c.call("get_sandbox_info")
    assert list(told) == ["success", "security_profiles", "resource_limits", "container_mode"]
    assert told["success"] is True
    profiles = told["security_profiles"]
    assert {name: item["enabled"] for name, item in profiles.items()} == {
        "basic": True, "data_science": False, "network": False, "filesystem": False}
    for name, modules in {"basic": "math random datetime json base64", "data_science": "numpy pandas scipy matplotlib",
                          "network": "httpx requests urllib.request", "filesystem": "pathlib tempfile shutil"}.items():
        assert set(modules.split()) <= set(profiles[name]["modules"])
    assert told["resource_limits"] == {"timeout": 30, "max_output_size": 1048576, "memory_limit": "128m"}
    assert told["container_mode"] == {"available": False, "enabled": False}
    assert c.more["restricted_python"] is True and c.more["policy"] == "restricted"
    assert c.call("list_capabilities") == told


# ---- the environment -----------------------------------------------------------------------------


def test_R_11_timeout_and_output_size_of_the_environment(shared):
    """SANDBOX_TIMEOUT and SANDBOX_MAX_OUTPUT_SIZE are kept; output that is too long is its head and a mark."""
    client = connect(shared, SANDBOX_TIMEOUT="1", SANDBOX_MAX_OUTPUT_SIZE="2000")
    with client.connection:
        limits = client.call("get_sandbox_info")["resource_limits"]
        assert (limits["timeout"], limits["max_output_size"]) == (1, 2000)
        assert client.execute("while True: pass")["error_category"] == "timeout"
        told = client.execute("for i in range(1000):\n    print('x' * 9)\nresult = 'went on'")
        assert told["success"] and told["result"] == "went on"
        assert told["stdout"] == ("x" * 9 + "\n") * 200 + "\n[Output truncated]"
        assert client.more["truncated"]["stdout"] == {"kept": 2000, "total": 10000}
        told = client.execute("while True: print('y' * 1000)")  # but not for ever
        assert not told["success"] and told["stdout"].endswith("[Output truncated]")


@pytest.mark.parametrize("variable, profile, module, refused", [
    ("SANDBOX_ENABLE_NETWORK", "network", "smtplib", "pathlib"),
    ("SANDBOX_ENABLE_FILESYSTEM", "filesystem", "pathlib", "smtplib"),
    ("SANDBOX_ENABLE_DATA_SCIENCE", "data_science", "numpy", "pathlib"),
])
def test_R_12_profiles_of_the_environment(shared, variable, profile, module, refused):
    """Each SANDBOX_ENABLE_ variable adds its profile and no other."""
    client = connect(shared, **{variable: "true"})
    with client.connection:
        profiles = client.call("get_sandbox_info")["security_profiles"]
        assert [name for name, item in profiles.items() if item["enabled"]] == ["basic", profile]
        assert client.call("validate_code", code=f"import {module}, math")["validation"]["valid"]
        told = client.call("validate_code", code=f"import {refused}")
        assert told["validation"]["errors"] == [f"Line 1: Import '{refused}' is not allowed"]


def test_R_12_the_documented_defaults_as_a_dotenv(shared):
    """`cp .env.example .env` with the documented defaults starts and changes nothing; only what would open the wall is refused."""
    dotenv = shared.folder / ".env"
    try:
        dotenv.write_text(DEFAULTS)
        client = connect(shared)
        with client.connection:
            told = client.call("get_sandbox_info")
            assert told["resource_limits"] == {"timeout": 30, "max_output_size": 1048576, "memory_limit": "128m"}
            assert [name for name, item in told["security_profiles"].items() if item["enabled"]] == ["basic"]
        for text in DEFAULTS.replace("=false", "=False"), "SANDBOX_ENABLE_DATA_SCIENCE=True\n", "SANDBOX_TIMEOUT=10\n":
            dotenv.write_text(text)
            client = connect(shared)
            with client.connection:
                profiles = client.call("get_sandbox_info")["security_profiles"]
                assert profiles["data_science"]["enabled"] == ("SCIENCE=True" in text) and not profiles["network"]["enabled"]
        for text in "SANDBOX_ENABLE_NETWORK=true\n", "SANDBOX_CONTAINER_IMAGE=other:latest\n":
            dotenv.write_text(text)
            done = shared.call("stdio", *SET)
            assert done.status == 64 and f"{text.split('=')[0]} cannot be set there" in done.err
            assert f"environment variable {text.split('=')[0]}" in done.err
    finally:
        dotenv.unlink()


def test_R_13_allowed_imports_of_the_environment(shared):
    """SANDBOX_ALLOWED_IMPORTS, its entries trimmed, takes the place of all profiles."""
    client = connect(shared, SANDBOX_ALLOWED_IMPORTS=" json , collections.abc", SANDBOX_ENABLE_FILESYSTEM="true")
    with client.connection:
        assert client.execute("import json\nfrom collections.abc import Mapping\nresult = json.dumps([1])")["success"]
        for module in "math", "pathlib", "collections":
            assert not client.execute(f"import {module}")["success"], module
        profiles = client.call("get_sandbox_info")["security_profiles"]
        assert not any(item["enabled"] for item in profiles.values())
        assert client.more["allowed_imports"] == ["json", "collections.abc"]


def test_R_13_entries_that_are_no_modules_are_refused(shared):
    """A SANDBOX_ALLOWED_IMPORTS that names no module is an error at the start."""
    done = shared.call("stdio", *SET, env={"SANDBOX_ALLOWED_IMPORTS": "no module"})
    assert done.status == 64 and "no module" in done.err and "hint" in done.err


def test_R_14_container_variables(shared):
    """Container mode that is off changes nothing; switched on it is refused at the start; the memory limit is kept."""
    client = connect(shared, SANDBOX_ENABLE_CONTAINER_MODE="false", SANDBOX_CONTAINER_IMAGE="python-sandbox:latest",
                     SANDBOX_DEFAULT_MEMORY_LIMIT="48m")
    with client.connection:
        told = client.call("get_sandbox_info")
        assert told["resource_limits"]["memory_limit"] == "48m"
        assert client.more["container_image"] == "python-sandbox:latest"
        assert client.execute("x = bytearray(100 * 1024 * 1024)")["error_category"] == "resource"
    done = shared.call("stdio", *SET, env={"SANDBOX_ENABLE_CONTAINER_MODE": "true"})
    assert done.status == 64 and "SANDBOX_ENABLE_CONTAINER_MODE" in done.err and "hint" in done.err
    done = shared.call("stdio", *SET, env={"SANDBOX_DEFAULT_MEMORY_LIMIT": "many"})
    assert done.status == 64 and "many" in done.err


# ---- profiles ------------------------------------------------------------------------------------

BASIC = """math random statistics decimal fractions collections itertools functools heapq bisect string textwrap re
    difflib unicodedata base64 binascii hashlib hmac secrets json csv html.parser xml.etree urllib.parse datetime uuid
    calendar dataclasses enum typing time operator copy cmath html xml.etree.ElementTree configparser abc contextlib
    types""".split()


def test_R_15_basic_profile(c):
    """Every module of the basic profile, documented or shipped, is imported and used in one run."""
    code = "".join(f"import {name}\n" for name in BASIC) + """
result = [math.sqrt(4), statistics.mean([1, 3]), str(decimal.Decimal('0.1')), collections.Counter('aab')['a'],
    list(itertools.accumulate([1, 2])), heapq.nsmallest(1, [3, 1]), re.sub('a', 'b', 'aa'), base64.b64encode(b'x').decode(),
    hashlib.sha256(b'').hexdigest()[:4], json.dumps({'a': 1}), urllib.parse.quote('a b'), datetime.date(2024, 1, 2).isoformat(),
    xml.etree.ElementTree.fromstring('<a b="1"/>').get('b'), html.escape('<'), copy.deepcopy([1]), operator.add(1, 2)]
"""
    told = c.execute(code)
    assert told["success"], told
    assert told["result"] == [2.0, 2, "0.1", 2, [1, 3], [1], "bb", "eA==", "e3b0", '{"a": 1}', "a%20b", "2024-01-02",
                              "1", "&lt;", [1], 3]
    assert len(c.call("get_sandbox_info")["security_profiles"]["basic"]["modules"]) >= 40


def test_R_16_data_science_profile(c):
    """The data science profile has the documented modules, which are refused until it is switched on."""
    modules = "numpy pandas scipy matplotlib seaborn sklearn statsmodels plotly sympy".split()
    listed = c.call("get_sandbox_info")["security_profiles"]["data_science"]["modules"]
    assert listed[:len(modules)] == modules
    told = c.execute("import numpy")
    assert "data_science" in told["security_events"][0]["hint"] and not told["success"]


def test_R_17_network_profile(shared, c):
    """The network profile has the documented modules; without hosts that are allowed no packet leaves all the same."""
    modules = "httpx requests urllib.request aiohttp websocket email smtplib ftplib".split()
    assert c.call("get_sandbox_info")["security_profiles"]["network"]["modules"][:len(modules)] == modules
    client = connect(shared, SANDBOX_ENABLE_NETWORK="true")
    with client.connection:
        told = client.execute("import smtplib\nsmtplib.SMTP('192.0.2.1', 25, timeout=5)", timeout=20)
        assert not told["success"] and told["error"].split(":")[0] != "ImportError"


def test_R_17_one_line_lets_code_reach_hosts(shared):
    """SANDBOX_ENABLE_NETWORK=true alone reaches nothing, and the warning says the line to add: CONSTRICTOR_ALLOW_HOST='*'."""
    on = {"SANDBOX_ENABLE_NETWORK": "true"}
    warned = shared.call("run", "-c", "1", env=on).err
    (line,) = re.findall(r"CONSTRICTOR_ALLOW_HOST='(.*)'", warned)
    reach = "import smtplib\nsmtplib.SMTP('127.0.0.1', 25, timeout=5)"
    client = connect(shared, **on, CONSTRICTOR_ALLOW_HOST=line)
    with client.connection:
        told = client.execute(reach, timeout=20)
        assert not told["success"] and client.more["network"] != "off"
        assert "127.0.0.1" in json.dumps(client.more)  # a private address stays out


def test_R_18_filesystem_profile(shared, c):
    """The filesystem profile has the documented modules, and they can write to the working folder only."""
    modules = "pathlib os.path tempfile shutil glob zipfile tarfile".split()
    assert c.call("get_sandbox_info")["security_profiles"]["filesystem"]["modules"][:len(modules)] == modules
    client = connect(shared, SANDBOX_ENABLE_FILESYSTEM="true")
    with client.connection:
        told = client.execute("import pathlib, glob, os.path, tempfile, shutil\npathlib.Path('a.txt').write_text('hi')\n"
                              "result = [glob.glob('*.txt'), os.path.getsize('a.txt'), open('a.txt').read()]")
        assert told["result"] == [["a.txt"], 2, "hi"], told
        told = client.execute("import pathlib\npathlib.Path('/etc/a.txt').write_text('hi')")
        assert not told["success"] and "Error" in told["error"]


def test_R_19_legacy_safe_modules(c):
    """The fifteen modules of the older server can be imported."""
    names = "math random datetime json base64 hashlib uuid collections itertools functools re string decimal fractions statistics"
    assert c.execute(f"import {names.replace(' ', ', ')}\nresult = 1")["result"] == 1


# ---- the layers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("code, kind, target", [
    ("().__class__.__base__.__subclasses__()", "attribute", "__class__"),
    ("eval('1 + 1')", "builtin", "eval"),
    ("open('/etc/passwd')", "builtin", "open"),
    ("globals()", "builtin", "globals"),
    ("import sys", "import", "sys"),
    ("'{0.__class__}'.format(1)", "attribute", "str.format"),
])
def test_R_20_language_layer(c, code, kind, target):
    """RestrictedPython, safe builtins, import control and own names refuse what leads out, by kind and target."""
    told = c.execute(f"print('x')\n{code}")
    assert not told["success"]
    assert (kind, target) in [(event["kind"], event["target"]) for event in told["security_events"]]


def test_R_21_isolation_of_the_kernel(wide):
    """Without the language layer: read-only file system, no network, no root, own processes, limits."""
    told = wide.execute("""
import os, socket
result = {'uid': os.getuid(), 'processes': len([p for p in os.listdir('/proc') if p.isdigit()])}
def attempt(name, action):
    try:
        action()
        result[name] = 'done'
    except OSError as exc:
        result[name] = 'refused'
for folder in '/', '/etc', '/usr/bin', '/proc/sys/kernel', '/root':
    attempt(folder, lambda: open(folder + '/x', 'w'))
attempt('shadow', lambda: open('/etc/shadow').read())
attempt('connect', lambda: socket.create_connection(('192.0.2.1', 80), 2))
attempt('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt('setuid', lambda: os.setuid(0))
attempt('mount', lambda: os.chroot('/'))
result
""")
    found = told["result"]
    assert found.pop("uid") != 0 and found.pop("processes") < 10, told
    assert set(found.values()) == {"refused"}, found
    assert "isolation" in wide.more


def test_R_22_host_level_controls(wide):
    """Hard timeouts, output limits and the usage of each run, also of code that does not want to end."""
    told = wide.execute("import signal\nfor s in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):\n"
                        "    signal.signal(s, signal.SIG_IGN)\nwhile True: pass", timeout=1)
    assert told["error_category"] == "timeout" and told["execution_time"] < 25
    told = wide.execute("import os\npid = os.fork()\nif pid == 0:\n    os._exit(0)\nos.waitpid(pid, 0)\nx = bytearray(20 << 20)")
    assert told["success"]
    usage = wide.more["usage"]
    assert usage["wall_ms"] > 0 and usage["cpu_user_ms"] is not None and "peak_memory_bytes" in usage
    told = wide.execute("import os\nwhile True:\n    os.fork()", timeout=5)
    assert told["error_category"] in ("resource", "timeout", "runtime") and not told["success"]


@pytest.mark.parametrize("name, code, result, printed", [
    ("fibonacci", FIBONACCI, [0, 1, 1, 2, 3, 5, 8, 13, 21, 34],
     "Fibonacci sequence: [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]\n"),
    ("statistics", STATISTICS, {"mean": 5.5, "median": 5.5, "std_dev": 3.0276503540974917},
     "Statistics: {'mean': 5.5, 'median': 5.5, 'std_dev': 3.0276503540974917}\n"),
    ("bubble sort", BUBBLE_SORT, [11, 12, 22, 25, 34, 64, 90], "Sorted: [11, 12, 22, 25, 34, 64, 90]\n"),
    ("leibniz", LEIBNIZ, 3.140592653839794,
     "Pi approximation: 3.140592653839794\nDifference from math.pi: 0.000999999749998981\n"),
])
def test_R_23_examples_of_the_document(c, name, code, result, printed):
    """The document's own examples run as they are written, and print what they should."""
    told = c.execute(code)
    assert (told["success"], told["result"], told["stdout"]) == (True, result, printed), told


def test_R_23_numpy(shared):
    """The document's numpy examples run under `restricted` with the data science profile, without a container."""
    if subprocess.run([DATA, "-c", "import numpy, RestrictedPython"], capture_output=True, check=False).returncode:
        pytest.skip("build/venv-data lacks numpy or RestrictedPython; run tools/setup test")
    client = connect(shared, "--python", DATA, SANDBOX_ENABLE_DATA_SCIENCE="true")
    with client.connection:
        told = client.execute("import numpy as np\ndata = np.array([1, 2, 3, 4, 5])\nresult = np.mean(data)",
                              memory_limit="256m", timeout=30)
        assert told["success"] and told["result"] == 3.0, told
        told = client.execute("import numpy as np; data = np.random.rand(1000, 1000)", memory_limit="512m", timeout=60)
        assert told["success"] and told["variables"] == ["data"]
        told = client.execute("import numpy as np\na = np.arange(6).reshape(2, 3)\na[0, 1] += 5\na[:, 0] *= 2\n"
                              "b = a[a > 2]\nresult = [int(b.sum()), a.shape, a.T.tolist()]")
        assert told["result"] == [21, [2, 3], [[0, 6], [6, 4], [2, 5]]], told


PROGRAMS = """
class Account:
    interest = 0.1
    def __init__(self, owner, balance=0):
        self.owner, self._balance = owner, balance
        self.__log = []
    @property
    def balance(self): return self._balance
    def deposit(self, amount):
        self._balance += amount
        self.__log.append(amount)
        return self
    def __repr__(self): return f"{self.owner}: {self._balance:.2f}"
result = repr(Account('ann', 1).deposit(5))
--- "ann: 6.00"
data = {'a': [1, 2], 'b': {}}
data['a'][0] += 10
data['b']['c'] = data.pop('a')
(x, *rest), y = [1, 2, 3], 4
x, y = y, x
x <<= 1
result = [data, x, rest, y]
--- [{"b": {"c": [11, 2]}}, 8, [2, 3], 1]
result = [[i * j for j in range(3) if j] for i in range(2)] + [sorted({k: v for k, v in zip('ab', (1, 2))}), len({1, 1})]
--- [[0, 0], [1, 2], ["a", "b"], 1]
name, n = 'x', 3.14159
result = f"{name!r:>5}|{n:.2f}|{n=:.1f}|{{}}|{'nested ' + f'{1 + 1}'}"
--- "  'x'|3.14|n=3.1|{}|nested 2"
import contextlib
log = []
@contextlib.contextmanager
def managed(name):
    log.append('in ' + name)
    try:
        yield name
    finally:
        log.append('out')
try:
    with managed('a') as a, managed('b'):
        raise ValueError(a)
except (KeyError, ValueError) as exc:
    log.append(str(exc))
else:
    log.append('no')
finally:
    log.append('end')
result = log
--- ["in a", "in b", "out", "out", "a", "end"]
import functools
def twice(f):
    @functools.wraps(f)
    def inner(*args, **kwargs):
        return f(*args, **kwargs) * 2
    return inner
@twice
def add(a, b=1, *, c=0): return a + b + c
@functools.lru_cache(maxsize=None)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
result = [add(1), add(1, 2, c=3), add.__name__, fib(50), (lambda *a: max(a, key=lambda v: -v))(3, 1, 2)]
--- [4, 12, "add", 12586269025, 1]
def count(n):
    got = yield from (i for i in range(n))
    sent = yield 'last'
    yield sent
g = count(2)
result = [next(g), next(g), next(g), g.send('hi')]
--- [0, 1, "last", "hi"]
from dataclasses import dataclass, field
@dataclass(order=True)
class P:
    x: int
    tags: list = field(default_factory=list)
    @classmethod
    def origin(cls) -> 'P': return cls(0)
result = [repr(P(1)), P(1) < P(2), P.origin() == P(0)]
--- ["P(x=1, tags=[])", true, true]
def kind(v):
    match v:
        case {'type': 'point', 'at': [x, y]} if x == y: return f'diagonal {x}'
        case [first, *others]: return [first, others]
        case str() | None: return 'text'
        case int(n): return n + 1
        case _: return 'else'
result = [kind({'type': 'point', 'at': [2, 2]}), kind([1, 2]), kind(None), kind(4), kind(1.5)]
--- ["diagonal 2", [1, [2]], "text", 5, "else"]
if (n := len('abc')) > 2: result = [n, [y := n * 2, y]]
--- [3, [6, 6]]
import asyncio
async def work(n):
    await asyncio.sleep(0)
    return n * n
async def main(): return await asyncio.gather(*(work(i) for i in range(3)))
result = asyncio.run(main())
--- [0, 1, 4]
async def f(): return 7
result = await f()
--- 7
import enum, collections
class Color(enum.Enum):
    RED = 1
    BLUE = 2
Point = collections.namedtuple('Point', 'x y')
total = 0
def outer():
    n = 0
    def inner():
        nonlocal n
        global total
        n += 1; total += 1
        return n
    return inner() + inner()
result = [Color(2).name, [c.value for c in Color], Point(1, 2)._replace(x=5), outer(), total]
--- ["BLUE", [1, 2], [5, 2], 3, 2]
""".strip("\n").split("\n--- ")
PAIRS = [(code.partition("\n")[2] if n else code, PROGRAMS[n + 1].partition("\n")[0])
         for n, code in enumerate(PROGRAMS[:-1])]


@pytest.mark.parametrize("code, expected", PAIRS, ids=range(len(PAIRS)))
def test_R_23_ordinary_python(c, code, expected):
    """Classes, assignments of all kinds, comprehensions, f-strings, with, decorators, generators, match, async run."""
    if sys.version_info < (3, 10) and "match v" in code:
        return
    told = c.execute(code)
    assert told["success"], told
    assert told["result"] == json.loads(expected) and "security_events" not in told


# ---- around it -----------------------------------------------------------------------------------


def test_R_24_stdio_and_http_with_a_token(shared):
    """The set is served over stdio and HTTP; with SANDBOX_API_TOKEN no client gets in without it."""
    token = "t" * 40
    server = Server(shared, *SET, env={"SANDBOX_API_TOKEN": token})
    assert server.fetch("POST", "/mcp", b"{}", {"Content-Type": "application/json"})[0] == 401
    with Http(server, version=LEGACY[-1], headers={"Authorization": f"Bearer {token}"}) as connection:
        connection.open()
        assert Client(connection).execute("result = 40 + 2")["result"] == 42
    server.stop()
    done = shared.call("serve", *SET, "--host", "0.0.0.0", "--port", "0")
    assert done.status != 0 and "key" in done.err  # not without a key where others can reach it


def test_R_24_port_9000_and_the_make_targets(shared):
    """The document's port and commands: 9000, `make dev` for stdio and `make serve-http`, on this machine only."""
    shown = shared.call("config", *SET).out
    assert "port = 9000 " in shown and "host = 127.0.0.1 " in shown
    assert "port = 9001 " in shared.call("config", *SET, env={"CONSTRICTOR_PORT": "9001"}).out

    def made(target):
        done = subprocess.run(["make", "-n", "-C", TOP, target, "SERVE_ARGS=--stock 1"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert re.search("stdio --tools restricted --stock 1", made("dev"))
    assert re.search("serve SERVE_ARGS='--tools restricted --stock 1'", made("serve-http"))


def test_R_25_the_registration_of_the_document(shared):
    """The gateway opens the registered URL, without a path, as events: it finds the transport there; a browser, the page."""
    token = "t" * 40
    for env, headers in (({}, {}), ({"SANDBOX_API_TOKEN": token}, {"Authorization": f"Bearer {token}"})):
        server = Server(shared, *SET, env=env)

        async def talk():
            async with SdkClient(sse_client(server.url, headers=headers), mode="legacy") as session:
                tools = [tool.name for tool in (await session.list_tools()).tools]
                told = await session.call_tool("execute_code", {"code": "result = 40 + 2"})
                return tools, told

        tools, told = anyio.run(talk)
        assert "execute_code" in tools and json.loads(told.content[0].text)["result"] == 42
        accepted = {"Accept": "text/html, */*;q=0.8"}
        assert server.fetch("GET", "/", None, accepted)[0] == 200  # the page needs no key, and shows none
        assert (server.fetch("GET", "/", None, {"Accept": "text/event-stream; q=1"})[0] == 401) if env else True
        server.stop()


def test_R_25_what_a_gateway_registers(shared):
    """The URL that a gateway is told answers initialize with a name, and lists the tools."""
    server = Server(shared, *SET)
    with Http(server, version=LEGACY[-1]) as connection:
        opened = connection.open()
        assert opened["serverInfo"]["name"] and "tools" in opened["capabilities"]
        assert "execute_code" in [tool["name"] for tool in connection.result("tools/list")["tools"]]
    server.stop()


@pytest.mark.parametrize("code, category, word", [
    ("x = (", "syntax", "SyntaxError"),
    ("[][1]", "runtime", "IndexError"),
    ("while True: pass", "timeout", "1s"),
    ("x = bytearray(500 * 1024 * 1024)", "resource", ""),
    ("import ctypes", "security", "restricted operations"),
    ("open('/etc/passwd')", "security", "not available"),
    ("getattr(1, '__cl' + 'ass__')", "security", "not available"),
])
def test_R_26_errors_by_their_kind(c, code, category, word):
    """Syntax, runtime, timeout, resource and security failures are told apart, with a text."""
    # What is to be refused for its memory is never refused for its time.
    told = c.execute(code, timeout=1 if category == "timeout" else 60)
    assert (told["success"], told["error_category"]) == (False, category) and word in told["error"]


def test_R_27_monitoring(c):
    """Every execution has an id of its own, its usage, its security events and a category of failure."""
    first = c.execute("1")
    usage, events = c.more["usage"], c.more["security_events"]
    assert usage["wall_ms"] > 0 and usage["peak_memory_bytes"] is not None and events == []
    second = c.execute("import os")
    assert uuid.UUID(first["execution_id"]) != uuid.UUID(second["execution_id"])
    assert c.more["verdict"] == "denied" and second["security_events"][0]["count"] == 1


def test_R_28_hardening(shared):
    """What the document advises is built in: a bound of runs at one time, and an audit line for the network."""
    client = connect(shared, "--runs", "1", "--policy", "open")
    with client.connection as connection:
        id = connection.begin("tools/call", {"name": "execute_code", "arguments": {
            "code": "import time\ntime.sleep(2)"}})
        busy = client.refused("execute_code", code="1")
        assert "code: busy" in busy and "hint" in busy
        assert json.loads(text(connection.wait(id)["result"]))["success"]
    audit = shared.folder / "audit.jsonl"
    client = connect(shared, "--policy", "open", "--allow-host", "203.0.113.5:80", "--audit-file", audit)
    with client.connection:
        client.execute("import socket\ntry:\n    socket.create_connection(('203.0.113.9', 80), 2)\nexcept OSError: pass")
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert any("203.0.113.9" in json.dumps(line) for line in lines), lines


def test_R_28_every_execution_is_audited(shared):
    """--run-audit-file has a line for each attempt: when, key, run id, verdict, SHA-256 of the code; never the code."""
    audit, code = shared.folder / "runs.jsonl", "x = 'secret text'\nprint(x)"
    audit.write_text('{"before": 1}\n')
    client = connect(shared, "--run-audit-file", audit)
    with client.connection:
        client.execute(code)
        id = client.more["execution_id"]
        client.execute("import os  # secret text")
    before, ran, refused = (json.loads(line) for line in audit.read_text().splitlines())
    assert before == {"before": 1} and "secret" not in audit.read_text()
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT[0-9:.]+Z", ran["time"])
    assert (ran["run"], ran["verdict"], ran["code_bytes"]) == (id, "ok", len(code)) and "key" in ran
    assert ran["code_sha256"] == hashlib.sha256(code.encode()).hexdigest()
    assert refused["verdict"] == "denied" and ran["wall_ms"] > 0
    link = shared.folder / "link.jsonl"
    link.symlink_to(audit)
    for path in link, shared.folder, "/proc/nothing":
        done = shared.call("stdio", *SET, env={"CONSTRICTOR_RUN_AUDIT_FILE": str(path)})
        assert done.status == 64 and "run-audit-file" in done.err


def test_R_28_rate_limit(shared):
    """--rate 2 lets each key start two runs in a minute: the third is rate_limited, with the seconds to wait; 429 in REST."""
    server = Server(shared, *SET, "--rate", "2", env={"CONSTRICTOR_API_KEY": "ann:" + "a" * 32 + ",bob:" + "b" * 32})
    keys = [{"Authorization": "Bearer " + letter * 32, "Content-Type": "application/json"} for letter in "ab"]
    body = json.dumps({"code": "1", "stream": False, "policy": "restricted"}).encode()
    for key in keys:  # one key's runs are not the other's
        with Http(server, version=LEGACY[-1], headers=key) as connection:
            connection.open()
            client = Client(connection)
            assert client.execute("result = 1")["result"] == 1 and client.execute("result = 2")["result"] == 2
            said = client.refused("execute_code", code="result = 3")
            assert "code: rate_limited" in said and re.search(r"try again in (29|30) s", said), said
            assert client.call("validate_code", code="1")["validation"]["valid"]  # checks are not counted
        status, headers, data = server.fetch("POST", "/api/v1/execute", body, key)[:3]
        assert status == 429 and 0 < int(headers["retry-after"]) <= 30 and b"rate_limited" in data
    server.stop()


def test_R_29_limitations(c):
    """No state stays from one execution to the next, no file, no network, no other module."""
    assert c.execute("kept = 1")["success"]
    assert "NameError" in c.execute("kept")["error"]
    for code in "open('x', 'w')", "import socket", "import pathlib":
        assert not c.execute(code)["success"]


def test_R_30_bounds(c):
    """Code has at most 100,000 characters; a result has at most 100 items in a list and 1,000 characters in a text."""
    assert c.execute("x = 1\n" + "#" * 99_990)["success"]
    assert "100000" in c.refused("execute_code", code="#" * 100_001)
    assert "100000" in c.refused("validate_code", code="#" * 100_001)
    told = c.execute("result = list(range(1000))")
    assert told["result"] == list(range(100)) and told["result_truncated"] is True
    told = c.execute("result = {'a': 'ä' * 5000, 'b': [[1] * 200]}")
    assert told["result"] == {"a": "ä" * 1000, "b": [[1] * 100]} and told["result_truncated"]
    told = c.execute("class A:\n    def __str__(self): return 'z' * 5000\nresult = A()")
    assert told["result"] == "z" * 1000
    assert "result_truncated" not in c.execute("result = [1] * 100")
    assert c.execute("result = list(range(10 ** 6))")["result"] == list(range(100))


def test_R_31_batch_and_the_sdk(shared):
    """The document's programs with the Python SDK run with our command in place of theirs."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async def go():
        parameters = StdioServerParameters(command=str(PROGRAM), args=["stdio", *SET],
                                           env={"CONSTRICTOR_STATE": str(shared.folder / "sdk")})
        found = []
        async with stdio_client(parameters) as (read, write):
            async with ClientSession(read, write) as session:
                await session.initialize()
                result = await session.call_tool("execute_code", {"code": FIBONACCI})
                found.append(json.loads(result.content[0].text)["stdout"])
                valid = await session.call_tool("validate_code", {"code": "import os; os.system('ls')"})
                found.append(json.loads(valid.content[0].text)["validation"]["valid"])
                for code in "print('Hello, World!')", "result = sum(range(10))", "import math; print(math.pi)":
                    result = await session.call_tool("execute_code", {"code": code, "timeout": 5})
                    told = json.loads(result.content[0].text)
                    found.append((told["stdout"], told["result"]))
        return found

    assert asyncio.run(go()) == [
        "Fibonacci sequence: [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]\n", False,
        ("Hello, World!\n", None), ("", 45), ("3.141592653589793\n", None)]
