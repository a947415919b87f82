# SPDX-License-Identifier: Apache-2.0
"""The P rows of the acceptance list: `--tools containers` in place of a server with a container for each environment.

One server for the file, spoken to over SSE as that server's clients do; the index is tests/wheel_lab.py's, on loopback.
"""

import base64
import json
import re
import sys
import time
import urllib.error
import urllib.request

import anyio
import pytest
import wheel_lab
from conftest import TOP, open_cli, wait_until
from mcp import Client
from mcp.client.sse import sse_client
from mcp_client import Server, Sse, Stdio, alive, name_of, text

UV_PYTHON = TOP / "build/venv-net/bin/python"  # uv is quicker than pip, and as good for what is shown here
PYTHON = UV_PYTHON if UV_PYTHON.exists() else sys.executable
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module")
def lab():
    with wheel_lab.Lab() as lab:
        yield wheel_lab.fill(lab)


@pytest.fixture(scope="module")
def cli(program):
    with open_cli(program) as cli:
        yield cli


@pytest.fixture(scope="module")
def server(cli, lab):
    server = Server(cli, "--tools", "containers", "--index-url", lab.url, "--stock", "2", "--python", PYTHON)
    yield server
    server.stop()


class Caller:
    def __init__(self, connection):
        self.connection = connection
        connection.open()

    def __call__(self, tool, /, fails=False, **arguments):
        """The object of an answer, which is its text."""
        answer = self.connection.call(tool, **arguments)
        assert bool(answer.get("isError")) is fails, answer
        return json.loads(text(answer))

    def create(self):
        return self("create_python_env")["container_id"]

    def run(self, container, code):
        return self("execute_python_code", container_id=container, code=code)


@pytest.fixture(scope="module")
def call(server):
    with Sse(server) as connection:
        yield Caller(connection)


@pytest.fixture(scope="module")
def box(call):
    """A container that several tests share."""
    return call.create()


def until_over(call, container, package):
    """The status of a package once it is not being installed any more, and all that were seen on the way."""
    seen = []

    def over():
        seen.append(call("check_package_status", container_id=container, package_name=package))
        return seen[-1]["status"] != "installing"

    wait_until(over)
    return seen[-1], seen


def test_P_01_create_python_env_returns_a_container_id(call):
    """create_python_env() without parameters returns a container_id that cannot be guessed; containers share nothing."""
    first, second = call.create(), call.create()
    assert re.fullmatch(r"ctr-[0-9a-f]{32}", first) and first != second
    tools = {tool["name"]: tool for tool in call.connection.result("tools/list")["tools"]}
    assert tools["create_python_env"]["inputSchema"]["properties"] == {}
    assert tools["execute_python_code"]["inputSchema"]["required"] == ["container_id", "code"]
    assert set(tools["execute_python_code"]["inputSchema"]["properties"]) == {"container_id", "code"}
    assert tools["install_package_in_env"]["inputSchema"]["required"] == ["container_id", "package_name"]
    assert tools["check_package_status"]["inputSchema"]["required"] == ["container_id", "package_name"]
    call.run(first, "open('secret.txt', 'w').write('x')")
    assert call.run(second, "import os; print(os.listdir())")["stdout"] == "[]\n"
    call("install_package_in_env", container_id=first, package_name="lab-good")
    until_over(call, first, "lab-good")
    assert call.run(first, "import lab_good; print(lab_good.VERSION)")["stdout"] == "2.0\n"
    assert "ModuleNotFoundError" in call.run(second, "import lab_good")["stderr"]
    wrong = call("execute_python_code", fails=True, container_id="ctr-" + "0" * 32, code="1")
    assert "was not found" in wrong["error"]


def test_P_02_execute_python_code_returns_output_errors_and_files(call, box):
    """execute_python_code(container_id, code): stdout, stderr, exit_code, files and links; a new interpreter each call."""
    answer = call.run(box, "import sys\nprint('out')\nprint('err', file=sys.stderr)\nopen('a.txt', 'w').write('1')\nx = 1")
    assert list(answer) == ["stdout", "stderr", "exit_code", "files", "file_links"]
    assert (answer["stdout"], answer["stderr"], answer["exit_code"]) == ("out\n", "err\n", 0)
    assert answer["files"] == ["a.txt"] and [set(link) for link in answer["file_links"]] == [{"name", "url"}]
    answer = call.run(box, "print(open('a.txt').read())\nx")
    assert answer["stdout"] == "1\n" and answer["exit_code"] == 1 and answer["files"] == []
    assert answer["stderr"].endswith("NameError: name 'x' is not defined\n") and 'line 2' in answer["stderr"]
    # What broke that server: a line that ended its here-document.
    assert call.run(box, 'text = """\nEOL\nEOF\n"""\nprint(len(text))')["stdout"] == "9\n"
    assert call.run(box, "import sys; sys.exit(7)")["exit_code"] == 7
    assert call.run(box, "import os; os._exit(5)")["exit_code"] == 5
    died = call.run(box, "import os; print('so far', flush=True); os.kill(os.getpid(), 11)")
    assert died["exit_code"] == 139 and died["stdout"] == "so far\n" and "signal 11" in died["stderr"]
    for broken in "import os; os.closerange(3, 200)", "import sys; sys.modules.clear()", "import builtins; del builtins.len":
        call.run(box, broken)
    numbers = {call.run(box, "import random; print(random.random())")["stdout"] for _ in range(3)}
    assert len(numbers) == 3, "each interpreter has random numbers of its own"
    assert call.run(box, "import multiprocessing as m\nprint(m.get_context('fork').Pool(2).map(abs, [-1, -2]))")["stdout"] == "[1, 2]\n"


def test_P_03_install_package_in_env_returns_while_it_installs(call, lab):
    """install_package_in_env(container_id, package_name) returns immediately, and the install goes on by itself."""
    container = call.create()
    with wheel_lab.held(lab, "/simple/lab-needs/"):     # the index is silent for as long as that
        answer = call("install_package_in_env", container_id=container, package_name="lab-needs")
        assert answer["status"] == "installing" and answer["elapsed_seconds"] < 4, answer
        assert answer["success"] is None and answer["complete"] is False and "lab-needs" in answer["message"]
        assert call("check_package_status", container_id=container, package_name="lab-needs")["status"] == "installing"
    last, seen = until_over(call, container, "lab-needs")
    assert last["status"] == "success" and last["success"] is True
    assert call.run(container, "import lab_good; print(lab_good.VERSION)")["stdout"] == "2.0\n"
    quick = call("install_package_in_env", container_id=container, package_name="lab-data")
    assert quick["status"] in ("success", "installing")


def test_P_04_check_package_status_tells_every_state(call, box):
    """check_package_status: success, failed, not_found and error, with complete, success, elapsed_seconds and stderr."""
    call("install_package_in_env", container_id=box, package_name="lab-good==1.5")
    good, _ = until_over(call, box, "lab-good")
    assert good["status"] == "success" and good["complete"] is good["success"] is True and good["version"] == "1.5"
    assert good["elapsed_seconds"] >= 0
    own = call("check_package_status", container_id=box, package_name="pip")
    assert own["status"] == "success", "the interpreter's own are there too"
    nothing = call("check_package_status", container_id=box, package_name="lab-nowhere")
    assert (nothing["status"], nothing["complete"], nothing["success"]) == ("not_found", True, False)
    begun = call.connection.call("install_package_in_env", container_id=box, package_name="lab-orphan")
    bad, _ = until_over(call, box, "lab-orphan")
    assert begun.get("isError") or json.loads(text(begun))["status"] == "installing"
    assert (bad["status"], bad["complete"], bad["success"]) == ("failed", True, False)
    assert "lab-nowhere" in bad["stderr"] and bad["elapsed_seconds"] >= 0
    error = call("check_package_status", fails=True, container_id="elsewhere", package_name="numpy")
    assert (error["status"], error["success"]) == ("error", False) and "was not found" in error["error"]
    for hostile in "--index-url http://evil.example.org x", "a; rm -rf /", "x\x00y":
        answer = call.connection.call("install_package_in_env", container_id=box, package_name=hostile)
        assert answer["isError"] and "package_name" in text(answer)


def test_P_05_files_become_links(call, box, server):
    """Files that code saves come back as links under /static, with the name, part of the container's id and the time."""
    code = f"import base64\nopen('plot.png', 'wb').write(base64.b64decode('{PNG}'))\nopen('data.csv', 'w').write('a,b\\n1,2\\n')"
    answer = call.run(box, code)
    links = {link["name"]: link["url"] for link in answer["file_links"]}
    assert sorted(links) == ["data.csv", "plot.png"] == sorted(answer["files"])
    part = box.removeprefix("ctr-")[:8]
    for name, kind in ("plot.png", "image/png"), ("data.csv", "text/csv"):
        stem, end = name.split(".")
        shape = rf"{server.url}/static/[\w-]{{32}}/{stem}_{part}_\d{{8}}_\d{{6}}\.{end}"
        assert re.fullmatch(shape, links[name]), links[name]
        with urllib.request.urlopen(links[name], timeout=60) as answer:
            body = answer.read()
            assert answer.headers["Content-Type"].startswith(kind)
        assert body == (base64.b64decode(PNG) if end == "png" else b"a,b\n1,2\n")
    token = links["data.csv"].split("/")[-2]
    for wrong in (
        links["data.csv"].replace(token, token[::-1]),
        links["data.csv"].replace("data_", "date_"),
        f"{server.url}/static/{token}/data.csv",
        f"{server.url}/static/data_{part}_20260101_120000.csv",
    ):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(wrong, timeout=60)
        assert caught.value.code == 404
    # The next file has a link of its own; the first still gives what was there.
    again = call.run(box, "open('data.csv', 'w').write('new')")["file_links"][0]["url"]
    assert urllib.request.urlopen(again, timeout=60).read() == b"new"
    assert urllib.request.urlopen(links["data.csv"], timeout=60).read() == b"a,b\n1,2\n"


def test_P_06_a_container_is_isolated(call, box, cli):
    """A container has no capabilities, no new privileges, no network, bounded memory and processes; Docker is not needed."""
    code = """
import errno, os, socket
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
print(status["CapEff"].strip(), status["CapBnd"].strip(), status["NoNewPrivs"].strip(), os.getuid() != 0)
try:
    socket.create_connection(("192.0.2.1", 80), 1)
except OSError as exc:
    print("no network" if exc.errno in (errno.ENETUNREACH, errno.EAFNOSUPPORT) else exc)
"""
    assert call.run(box, code)["stdout"] == "0000000000000000 0000000000000000 1 True\nno network\n"
    # In one of its own: it may be told no (MemoryError), or be ended with its container.
    greedy = call.run(call.create(), "x = bytearray(3 << 30)\nprint('got it')")
    assert greedy["stdout"] == "" and greedy["exit_code"] != 0
    shown = cli.start("config", "--tools", "containers").communicate(timeout=60)[0].decode()
    assert re.search(r"^memory = 1G +# the default of the tool set 'containers'$", shown, re.M)
    forks = "import os, time\nfor n in range(500):\n    if os.fork() == 0:\n        time.sleep(60)\nprint('all')"
    many = call.run(call.create(), forks)
    assert "all" not in many["stdout"] and many["exit_code"] != 0, many


def test_P_06_b_a_run_that_does_not_end_is_ended_and_the_container_stays(cli, server):
    """Code that never ends, or ignores interrupts, is ended with all its processes; the container and its files stay."""
    with Stdio(cli, "--tools", "containers", "--wall", "1s", "--stock", "1") as connection:
        call = Caller(connection)
        container = call.create()
        call.run(container, "open('kept.txt', 'w').write('kept')")
        answer = call.run(container, "print('begun', flush=True)\nwhile True:\n    pass")
        assert answer["stdout"] == "begun\n" and answer["error"].startswith("timeout_wall")
        stubborn = (
            "import ctypes, os, signal, time\nctypes.CDLL(None).prctl(15, b'" + name_of("rows-p06") + "')\n"
            "signal.signal(signal.SIGINT, signal.SIG_IGN)\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(100)"
        )
        answer = call.run(container, stubborn)
        assert answer["error"].startswith("timeout_wall"), answer
        wait_until(lambda: alive("rows-p06") == 0)
        assert alive("rows-p06") == 0
        assert [one["sandbox_id"] for one in call("list_sandboxes")["sandboxes"]] == [container]
        # Without HTTP a file's link is the address of a resource.
        answer = call.run(container, "print(open('kept.txt').read())\nopen('new.txt', 'w').write('1')")
        assert answer["stdout"] == "kept\n" and answer["file_links"][0]["url"].startswith("sandbox://"), answer


def test_P_07_what_nobody_uses_is_cleaned_up(cli, lab):
    """Containers, their packages and the links to their files go by themselves when they are not used; after 1 h by default."""
    shown = cli.start("config", "--tools", "containers").communicate(timeout=60)[0].decode()
    for key in "session-ttl", "artifact-ttl":
        assert re.search(rf"^{key} = 1h\b", shown, re.M), shown
    flags = "--session-ttl", "1s", "--artifact-ttl", "1s", "--stock", "1", "--state", cli.folder / "short"
    server = Server(cli, "--tools", "containers,full", "--index-url", lab.url, *flags)
    with Sse(server) as connection:
        call = Caller(connection)
        container = json.loads(text(connection.call("create_sandbox")))["sandbox_id"]
        url = call.run(container, "open('a.csv', 'w').write('1')")["file_links"][0]["url"]
        assert urllib.request.urlopen(url, timeout=60).read() == b"1"
        listed = lambda: call("list_sandboxes")["sandboxes"]
        assert [one["sandbox_id"] for one in listed()] == [container]
        wait_until(lambda: not listed())
        assert listed() == []
        gone = call("execute_python_code", fails=True, container_id=container, code="1")
        assert "was not used for too long" in gone["error"]
        assert container not in text(connection.call("list_installed_packages"))
        wait_until(lambda: status_of(url) != 200)
        assert status_of(url) == 410
    server.stop()


def status_of(url):
    try:
        return urllib.request.urlopen(url, timeout=60).status
    except urllib.error.HTTPError as error:
        return error.code


def test_P_08_the_transport_is_sse(server):
    """The official client speaks to /sse; messages go to /messages, with or without a slash at its end."""

    async def main():
        async with Client(sse_client(server.url + "/sse"), mode="legacy") as client:
            made = await client.call_tool("create_python_env", {})
            container = made.structured_content["container_id"]
            arguments = {"container_id": container, "code": "print('Hello')"}
            return (await client.call_tool("execute_python_code", arguments)).structured_content["stdout"]

    assert anyio.run(main) == "Hello\n"
    with Sse(server) as connection:
        assert connection.path.startswith("/messages?")
        connection.path = connection.path.replace("/messages?", "/messages/?")
        Caller(connection).create()


def test_P_09_the_prompt_tells_the_workflow(call):
    """The prompt python_container tells models the workflow: create, install, check, run; savefig, to_csv, to_excel."""
    names = [prompt["name"] for prompt in call.connection.result("prompts/list")["prompts"]]
    assert "python_container" in names
    got = call.connection.result("prompts/get", {"name": "python_container", "arguments": {"task": "plot sales"}})
    said = got["messages"][0]["content"]["text"]
    steps = ["create_python_env", "install_package_in_env", "check_package_status", "execute_python_code"]
    places = [said.index(f"`{step}`") for step in steps]
    assert places == sorted(places)
    for word in "container_id", "package_name", "plt.savefig()", "plt.show()", "df.to_csv()", "df.to_excel()", "plot sales":
        assert word in said, word


def test_P_10_nothing_has_to_be_built_before_the_first_run(call, box):
    """No image, no container engine, no virtual environment: the interpreter that is there runs, of whichever version."""
    code = "import os, sys\nprint(sys.version_info >= (3, 9), os.path.exists('/var/run/docker.sock'), os.path.exists('/.dockerenv'))"
    assert call.run(box, code)["stdout"] == "True False False\n"


def test_P_11_the_tools_of_the_successor_work(call, server):
    """create_sandbox, list_sandboxes, packages in a sandbox, execute_terminal_command, upload_file_to_sandbox."""
    made = call("create_sandbox", name="my lab")
    sandbox = made["sandbox_id"]
    assert made["name"] == "my-lab" and re.fullmatch(r"ctr-[0-9a-f]{32}-my-lab", sandbox)
    call("install_package_in_sandbox", sandbox_id=sandbox, package_name="lab-good")
    status = lambda: call("check_package_installation_status", sandbox_id=sandbox, package_name="lab-good")
    wait_until(lambda: status()["status"] == "success")
    [listed] = [one for one in call("list_sandboxes")["sandboxes"] if one["sandbox_id"] == sandbox]
    assert listed["packages"] == [{"name": "lab-good", "version": "2.0"}] and listed["name"] == "my-lab"
    answer = call("execute_terminal_command", sandbox_id=sandbox, command="echo $((6*7)); pwd; echo bad >&2; exit 4")
    assert (answer["stdout"], answer["stderr"], answer["exit_code"]) == ("42\n/mnt/data\n", "bad\n", 4)
    answer = call("execute_terminal_command", sandbox_id=sandbox, command="python -c 'import lab_good; print(lab_good.VERSION)'")
    assert (answer["stdout"], answer["exit_code"]) == ("2.0\n", 0)  # the box's own, with what was installed
    # The wall is the same, and so are packages and files.
    answer = call("execute_terminal_command", sandbox_id=sandbox, command=f"cat {__file__}; python3 -c 'import lab_good' ; echo > f")
    assert "No such file" in answer["stderr"] and answer["files"] == ["f"]
    assert call("execute_python_code", sandbox_id=sandbox, code="import lab_good, os; print(os.listdir())")["stdout"] == "['f']\n"


def test_P_11_b_upload_never_reads_the_server(call, box):
    """upload_file_to_sandbox takes contents; a path alone is refused, because it would be a file of the server."""
    refused = call("upload_file_to_sandbox", fails=True, sandbox_id=box, local_file_path="/etc/hostname", dest_path="/app/results")
    assert "never read" in refused["error"]
    for arguments, path in (
        ({"local_file_path": "/home/me/data.csv", "content": "1,2"}, "data.csv"),
        ({"local_file_path": "x.bin", "dest_path": "/app/results/sub/", "content_base64": "AAE="}, "sub/x.bin"),
        ({"local_file_path": "C/d.txt", "dest_path": "/mnt/data/sub", "content": ""}, "sub/d.txt"),
    ):
        answer = call("upload_file_to_sandbox", sandbox_id=box, **arguments)
        assert answer["success"] is True and answer["path"] == f"/mnt/data/{path}"
        code = f"print(open({path!r}, 'rb').read())"
        assert call.run(box, code)["exit_code"] == 0
    assert call.run(box, "print(open('sub/x.bin', 'rb').read())")["stdout"] == "b'\\x00\\x01'\n"
    for path in "../../etc/x", "/mnt/data/../../x":
        answer = call.connection.call("upload_file_to_sandbox", sandbox_id=box, local_file_path="a", dest_path=path, content="x")
        assert answer["isError"], answer


def test_P_11_c_a_key_has_three_sandboxes_at_a_time(cli):
    """Each key has at most 3 sandboxes at a time, also of several asked for at once; one that is closed makes room."""
    keys = {"CONSTRICTOR_API_KEY": "ann:key-of-ann-1,bob:key-of-bob-1"}
    server = Server(cli, "--tools", "containers", "--stock", "1", "--state", cli.folder / "three", env=keys)
    ann, bob = ({"Authorization": f"Bearer key-of-{who}-1"} for who in ("ann", "bob"))
    with Sse(server, headers=ann) as first, Sse(server, headers=bob) as second:
        call, other = Caller(first), Caller(second)
        ids = [first.begin("tools/call", {"name": "create_sandbox", "arguments": {}}) for _ in range(5)]
        answers = [first.wait(id)["result"] for id in ids]
        made = [json.loads(text(a))["sandbox_id"] for a in answers if not a.get("isError")]
        refused = [json.loads(text(a)) for a in answers if a.get("isError")]
        assert len(made) == 3 and len(refused) == 2
        assert all("3 sandboxes" in one["error"] and one["status"] == "error" for one in refused)
        assert {one["sandbox_id"] for one in call("list_sandboxes")["sandboxes"]} == set(made)
        other("create_sandbox")
        assert server.fetch("DELETE", f"/api/v1/sessions/{made[0]}", headers=ann)[0] == 200
        call("create_sandbox")
        assert "3 sandboxes" in call("create_sandbox", fails=True)["error"]
    server.stop()
