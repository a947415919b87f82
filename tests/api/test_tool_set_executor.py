# SPDX-License-Identifier: Apache-2.0
"""The E rows of the acceptance list: `--tools executor` in place of a server with one virtual environment.

Calls are made with the official SDK over SSE, as clients of that server make them, on one server for the file; the
index is tests/wheel_lab.py's, on loopback. Examples are those of the server's own document.
"""

import json
import re
import socket
import subprocess
import sys

import anyio
import pytest
import wheel_lab
from conftest import TOP, open_cli, wait_until
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters
from mcp_client import Server, alive, name_of

UV_PYTHON = TOP / "build/venv-net/bin/python"  # uv is quicker than pip, and as good for what is shown here
PYTHON = UV_PYTHON if UV_PYTHON.exists() else sys.executable
TOOLS = ["execute_python", "install_package", "list_installed_packages", "reset_sandbox", "get_sandbox_info"]


@pytest.fixture(scope="module")
def lab():
    with wheel_lab.Lab() as lab:
        wheel_lab.fill(lab)
        for name in "numpy", "pandas", "matplotlib", "seaborn", "requests":
            module = f"__version__ = '2.31.0'\nNAME = '{name}'\n".encode()
            lab.add(wheel_lab.wheel(name, "2.31.0", {f"{name}/__init__.py": module}))
        yield lab


@pytest.fixture(scope="module")
def cli(program):
    with open_cli(program) as cli:
        yield cli


@pytest.fixture(scope="module")
def server(cli, lab):
    server = Server(cli, "--tools", "executor", "--index-url", lab.url, "--stock", "2", "--python", PYTHON)
    yield server
    server.stop()


def said(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


def converse(transport, talk):
    """What `talk` makes of a client over a transport."""

    async def main():
        async with Client(transport, mode="legacy") as client:
            return await talk(client)

    return anyio.run(main)


@pytest.fixture(scope="module")
def call(server):
    """Calls a tool over SSE: its text and its structured content, after what is true of each."""

    def call(tool, /, fails=False, **arguments):
        async def talk(client):
            return await client.call_tool(tool, arguments, read_timeout_seconds=60)

        result = converse(sse_client(server.url + "/sse"), talk)
        assert result.is_error is fails, said(result)
        return said(result), result.structured_content

    return call


def tools_of(client_url):
    async def talk(client):
        return {tool.name: tool for tool in (await client.list_tools()).tools}

    return converse(sse_client(client_url), talk)


@pytest.fixture(scope="module")
def tools(server):
    return tools_of(server.url + "/sse")


# ---- tools ----


def test_E_01_execute_python_takes_code_and_a_timeout_that_is_clamped(call, tools):
    """execute_python(code, timeout=60): the document's examples; a timeout outside 1..300 is clamped and said so."""
    assert list(tools) == TOOLS
    schema = tools["execute_python"].input_schema
    assert schema["required"] == ["code"] and set(schema["properties"]) == {"code", "timeout"}
    assert schema["properties"]["timeout"]["type"] == "integer"
    assert schema["properties"]["timeout"]["default"] == 60
    assert call("execute_python", code="print('Hello, World!')")[0] == "Hello, World!\n"
    assert call("execute_python", code="import math; print(math.sqrt(16))")[0] == "4.0\n"
    assert call("execute_python", code="print(1)", timeout=300)[0] == "1\n"
    text, object = call("execute_python", code="print(1)", timeout=301)
    assert text == "1\n[NOTE]: timeout 301 is not between 1 and 300; 300 seconds were used\n"
    assert object["timeout"] == {"requested": 301, "used": 300}
    for timeout in 0, -5:
        text, object = call("execute_python", code="print(1)", timeout=timeout)
        assert object["timeout"] == {"requested": timeout, "used": 1} and f"timeout {timeout} is not" in text
    assert call("execute_python", code="print(1)", timeout="5")[0] == "1\n"  # models write numbers as texts
    assert call("execute_python", code="print(1)", timeout="301")[1]["timeout"] == {"requested": 301, "used": 300}
    text, _ = call("execute_python", fails=True, code="1", timeout="soon")
    assert "'timeout'" in text and "must be an integer" in text
    text, _ = call("execute_python", fails=True, code="1", time_out=5)
    assert "did you mean 'timeout'?" in text
    text, _ = call("execute_python", fails=True)
    assert "'code' is missing" in text


def test_E_02_install_package_takes_one_text_with_several(call):
    """install_package: one name, several in one text, with specifiers, under both parameter names; options are refused."""
    try:
        text, object = call("install_package", package_names="numpy")
        assert text == "Successfully installed numpy-2.31.0" and object["state"] == "ready"
        text, _ = call("install_package", package_names="pandas matplotlib seaborn")
        assert text.startswith("Successfully installed ")
        assert set(text.split()[2:]) == {f"{name}-2.31.0" for name in ("pandas", "matplotlib", "seaborn")}
        assert call("install_package", packages="requests>=2.28.0")[0] == "Successfully installed requests-2.31.0"
        assert call("install_package", package_names="numpy")[0] == "Requirement already satisfied: numpy"
        code = "import pandas, requests; print(pandas.NAME, requests.__version__)"
        assert call("execute_python", code=code)[0] == "pandas 2.31.0\n"
        text, object = call("install_package", fails=True, package_names="no-such-package-here")
        assert text.startswith("Error: Failed to install packages; nothing was changed.")
        assert "no-such-package-here" in text and object["error"]["code"] == "package_not_found"
        for hostile in "--index-url http://evil.example.org numpy", "-e .", "numpy; rm -rf /", "numpy\n--target /":
            text, _ = call("install_package", fails=True, package_names=hostile)
            assert "package_names" in text, text
        text, _ = call("install_package", fails=True)
        assert "missing" in text
    finally:
        call("reset_sandbox")


def test_E_03_list_installed_packages_has_the_columns_of_pip(call, tools):
    """list_installed_packages: no parameters; the two columns of `pip list`, with what was installed."""
    assert tools["list_installed_packages"].input_schema["properties"] == {}
    call("install_package", package_names="lab-good==1.5")
    try:
        text, object = call("list_installed_packages")
        lines = text.split("\n")
        title = re.fullmatch(r"Package( +)Version", lines[0])
        width = len("Package") + len(title[1]) - 1
        assert re.fullmatch(rf"-{{{width}}} -+", lines[1]), lines[:2]
        rows = dict(line.split() for line in lines[2:])
        assert rows["lab-good"] == "1.5" and len(rows) == object["count"]
        assert all(line[width] == " " and line[width + 1] != " " for line in lines[2:])
        assert list(rows) == sorted(rows, key=str.lower)
    finally:
        call("reset_sandbox")


def test_E_04_reset_sandbox_removes_all_installed_packages(call):
    """reset_sandbox: what was installed is gone, what the interpreter has stays."""
    call("install_package", package_names="lab-good lab-data")
    before = call("list_installed_packages")[1]["packages"]
    assert call("reset_sandbox")[0] == "Sandbox environment has been reset successfully."
    after = call("list_installed_packages")[1]["packages"]
    assert [p for p in before if p["name"] not in ("lab-good", "lab-data")] == after
    text, object = call("execute_python", code="import lab_good")
    assert "ModuleNotFoundError: No module named 'lab_good'" in text and object["exit_code"] == 1


def test_E_05_get_sandbox_info_tells_version_path_and_status(call):
    """get_sandbox_info: the version and path that code itself sees, and that it is initialized."""
    call("execute_python", code="1")
    text, object = call("get_sandbox_info")
    seen = call("execute_python", code="import sys; print(sys.version.split()[0], sys.executable)")[0].split()
    assert text.split("\n") == [f"Python version: {seen[0]}", f"Environment path: {seen[1]}", "Status: Initialized"]
    assert (object["python_version"], object["path"], object["status"]) == (*seen, "Initialized")


def test_E_06_the_answer_has_stdout_stderr_and_status(call):
    """Output: stdout, stderr behind [STDERR]:, how it ended, and a sentence when there was none."""
    code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(3)"
    text, object = call("execute_python", code=code)
    assert text == "out\n[STDERR]:\nerr\n[STATUS]: error, exit code 3\n"
    assert (object["stdout"], object["stderr"], object["exit_code"]) == ("out\n", "err\n", 3)
    assert object["success"] is False and object["verdict"] == "error"
    text, object = call("execute_python", code="x = 1")
    assert text == "Code executed successfully (no output)." and object["success"] is True
    text, object = call("execute_python", code="print('no end', end='')\n1 / 0")
    assert text.startswith("no end\n[STDERR]:\nTraceback (most recent call last):\n  File \"<code>\", line 2")
    assert text.endswith("ZeroDivisionError: division by zero\n[STATUS]: error, exit code 1\n")
    assert object["error"]["line"] == 2
    text, object = call("execute_python", code="print('x' * 100_000)")
    assert len(text) < 30_000 and object["truncated"]["stdout"]["total"] == 100_001


def test_E_07_a_timeout_keeps_the_output_and_ends_every_process(call):
    """A run that is too long is ended with all its processes, daemons too; what it printed until then is there."""
    code = (
        "import os, time, ctypes\nprint('before', flush=True)\n"
        "for _ in range(3):\n    if os.fork() == 0:\n        os.setsid()\n"
        "        ctypes.CDLL(None).prctl(15, b'" + name_of("rows-e07") + "')\n        time.sleep(100)\n"
        "time.sleep(0.3)\nprint('children run')\nwhile True:\n    pass\n"
    )
    text, object = call("execute_python", code=code, timeout=2)
    assert text.startswith("before\nchildren run\n[STATUS]: timeout_wall: execution timed out after 2 seconds")
    assert object["verdict"] == "timeout_wall" and object["stdout"] == "before\nchildren run\n"
    wait_until(lambda: alive("rows-e07") == 0)
    assert alive("rows-e07") == 0
    assert call("execute_python", code="print('next')")[0] == "next\n"
    # Two busy processes do not use up the time of one: the wall time decides.
    busy = "import os\nprint('two', flush=True)\nos.fork()\nwhile True: pass"
    text, object = call("execute_python", code=busy, timeout=2)
    assert text.startswith("two\n[STATUS]: timeout_wall") and object["verdict"] == "timeout_wall"


def test_E_08_packages_stay_until_reset_and_variables_do_not(cli, lab):
    """Packages outlive runs, connections and the server itself; variables are of one call."""
    flags = ["--tools", "executor", "--index-url", lab.url, "--stock", "1", "--state", cli.folder / "kept"]
    args = ["stdio", *map(str, flags), "--python", str(PYTHON)]
    parameters = StdioServerParameters(command=str(cli.program), args=args, env=cli.environ())

    async def first(client):
        await client.call_tool("install_package", {"package_names": "lab-good"})
        return said(await client.call_tool("execute_python", {"code": "kept = 1; import lab_good; print(lab_good.VERSION)"}))

    async def second(client):
        good = said(await client.call_tool("execute_python", {"code": "import lab_good; print(lab_good.VERSION)"}))
        gone = said(await client.call_tool("execute_python", {"code": "kept"}))
        await client.call_tool("reset_sandbox", {})
        return good, gone, said(await client.call_tool("execute_python", {"code": "import lab_good"}))

    assert converse(parameters, first) == "2.0\n"
    good, gone, reset = converse(parameters, second)
    assert good == "2.0\n" and "NameError" in gone and "ModuleNotFoundError" in reset


# ---- transports and configurations ----


async def hello(client):
    return said(await client.call_tool("execute_python", {"code": "print('Hello, World!')"}))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_E_09_stdio_and_sse_and_sse_with_a_port(cli, program):
    """Transports: stdio; `--sse`; `--sse --port N`, on loopback unless another address is asked for."""
    parameters = StdioServerParameters(
        command=str(program), args=["stdio", "--tools", "executor", "--stock", "1"], env=cli.environ()
    )
    assert converse(parameters, hello) == "Hello, World!\n"
    port = free_port()
    server = cli.start("serve", "--tools", "executor", "--sse", "--port", str(port), "--stock", "1")
    lines = [server.stdout.readline().decode() for _ in range(4)]
    try:
        assert f"  SSE   http://127.0.0.1:{port}/sse\n" in lines, lines
        assert converse(sse_client(f"http://127.0.0.1:{port}/sse"), hello) == "Hello, World!\n"
    finally:
        server.terminate()
        server.wait(10)
    # The flag is enough: the tools of the default set are served over SSE as well.
    shown = cli.start("config", "--tools", "executor")
    text = shown.communicate()[0].decode()
    assert re.search(r"^legacy-sse = true +# the default of the tool set 'executor'$", text, re.M)
    assert re.search(r"^wall = 1m +# the default of the tool set 'executor'$", text, re.M)
    assert re.search(r"^host = 127.0.0.1 +# the default$", text, re.M) and "port = 8000" in text


def test_E_10_the_endpoint_is_sse(server):
    """The endpoint /sse, at port 8000 unless another is given, speaks to the official client."""
    assert converse(sse_client(server.url + "/sse"), hello) == "Hello, World!\n"


GEMINI_URL = '{"mcpServers": {"python-executor": {"url": "http://localhost:8000/sse"}}}'
GEMINI_STDIO = """{"mcpServers": {"python-executor": {
    "command": "python", "args": ["-m", "python_code_executor.server"], "cwd": "D:\\\\projects\\\\python-code-executor"}}}"""


def test_E_11_client_configs_change_one_line(server, cli, program):
    """The document's two client configs work with the command, or nothing but the address's port, changed."""
    entry = json.loads(GEMINI_URL)["mcpServers"]["python-executor"]
    url = entry["url"].replace(":8000", f":{server.port}")
    assert converse(sse_client(url), hello) == "Hello, World!\n"
    entry = json.loads(GEMINI_STDIO)["mcpServers"]["python-executor"]
    entry.update(command=str(program), args=["stdio", "--tools", "executor", "--stock", "1"], cwd=str(cli.folder))
    parameters = StdioServerParameters(**entry, env=cli.environ())
    assert converse(parameters, hello) == "Hello, World!\n"


# ---- isolation ----


PROBE = """
import errno, json, os, socket
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
seen = {"caps": [value.strip() for key, value in status.items() if key.startswith("Cap")],
        "nnp": status["NoNewPrivs"].strip(), "uid": os.getuid(), "euid": os.geteuid()}
def attempt(name, call):
    try:
        call()
        seen[name] = "done"
    except OSError as exc:
        seen[name] = errno.errorcode[exc.errno]
attempt("write", lambda: open("/usr/x", "w"))
attempt("home", lambda: open(HOST))
attempt("connect", lambda: socket.create_connection(("192.0.2.1", 80), 1))
attempt("setuid", lambda: os.setuid(0))
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def probed(call):
    text, object = call("execute_python", code=f"HOST = {__file__!r}\n{PROBE}")
    return json.loads(text), object


def test_E_12_what_compose_hardens_holds_without_it(probed, call):
    """No capabilities, no new privileges, not root, a limit of memory, a read-only system: without Docker."""
    seen, object = probed
    assert set(seen["caps"]) == {"0000000000000000"} and seen["nnp"] == "1"
    assert seen["uid"] == seen["euid"] != 0 and seen["setuid"] != "done"
    assert seen["write"] == "EROFS"
    text, object = call("execute_python", code="x = bytearray(3 << 30)\nprint('got it')")
    assert "got it" not in text and object["verdict"] in ("out_of_memory", "error"), text


def test_E_14_every_line_of_the_comparison_holds(probed):
    """File system, capabilities, limits, non-root, no escalation, no network: all of them, without Docker."""
    seen, object = probed
    assert seen["home"] == "ENOENT", "the host's files are not there"
    assert seen["connect"] in ("ENETUNREACH", "EAFNOSUPPORT") and object["network"] == "off"
    for layer in "root", "capabilities", "no_new_privs", "seccomp", "net_ns", "user_ns":
        assert object["isolation"][layer].startswith("live"), object["isolation"]


def test_E_15_packages_are_of_this_sandbox_only(call, cli):
    """Packages go into an environment of their own below the state folder, never into an interpreter of the machine."""
    call("install_package", package_names="lab-good")
    try:
        where = call("execute_python", code="import lab_good; print(lab_good.__file__)")[0]
        assert where.startswith("/opt/wheels/")
        path = call("get_sandbox_info")[1]["path"]
        outside = subprocess.run([path, "-c", "import lab_good"], capture_output=True, text=True, timeout=600)
        assert "ModuleNotFoundError" in outside.stderr
        # A user other than root may not read them there.
        assert (cli.folder / "state" / "environments").is_dir()
    finally:
        call("reset_sandbox")


def test_E_16_a_port_that_is_taken_is_said_and_can_be_changed(server, cli):
    """Troubleshooting: a port in use is named with what to do; another port serves."""
    second = cli.start("serve", "--tools", "executor", "--port", str(server.port))
    error = second.communicate(timeout=60)[1].decode()
    assert second.returncode != 0 and str(server.port) in error and "--port" in error, error
    other = Server(cli, "--tools", "executor", "--stock", "0")
    try:
        assert other.port != server.port and converse(sse_client(other.url + "/sse"), hello) == "Hello, World!\n"
    finally:
        other.stop()


def test_E_17_developers_have_one_command_for_all_tests():
    """`make test` runs all tests, pytest among them; CONTRIBUTING.md says so."""
    shown = subprocess.run(["make", "-n", "-C", TOP, "test"], capture_output=True, text=True, timeout=600)
    assert shown.returncode == 0 and "tests/run" in shown.stdout, shown.stderr
    assert "make test" in (TOP / "CONTRIBUTING.md").read_text() and "pytest" in (TOP / "tests/run").read_text()
