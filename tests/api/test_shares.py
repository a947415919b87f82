# SPDX-License-Identifier: Apache-2.0
"""`--share DIR`: code reads a folder of the user without a copy. `stdio --out DIR`: files land on the user's disk.

The share is read-only, no link in it leads out of the box, and folders with secrets are refused. What `--out` writes
never leaves the folder and never replaces a file.
"""

import contextlib
import json
import os
import signal
import socket
import threading

import pytest
from mcp_client import LEGACY, MODERN, several, text
from stdio_client import Client, modern, run_code, request


@pytest.fixture
def data(cli):
    """A folder of the user with a table."""
    cli.folder.chmod(0o755)
    folder = cli.folder / "data"
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "sales.csv").write_text("a,b\n1,2\n")
    return folder


@pytest.fixture
def serve(cli):
    def start(*flags):
        client = Client(cli.start("stdio", *flags, stdin=-1))
        client.start_legacy()
        return client

    return start


def told(answer):
    result = answer["result"]
    return result["structuredContent"], result["content"][0]["text"]


def refused(result, *words, status=64):
    assert result.status == status and "ran" not in result.out and "hint:" in result.err, result
    for word in words:
        assert word in result.err, result


ATTEMPTS = """
import ctypes, mmap, os, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    if getattr(libc, name)(*args) < 0:
        raise OSError(ctypes.get_errno(), name)
def run():
    subprocess.run(["/share/data/tool"], check=True)
p = "/share/data/"
for name, attempt in {
    "create": lambda: open(p + "new", "w"),
    "write": lambda: os.open(p + "sales.csv", os.O_WRONLY),
    "truncate": lambda: os.truncate(p + "sales.csv", 0),
    "delete": lambda: os.unlink(p + "sales.csv"),
    "rename": lambda: os.rename(p + "sales.csv", p + "x"),
    "folder": lambda: os.mkdir(p + "d"),
    "mode": lambda: os.chmod(p + "sales.csv", 0o777),
    "times": lambda: os.utime(p + "sales.csv"),
    "link in": lambda: os.link("/mnt/data/mine", p + "mine"),
    "link out": lambda: os.link(p + "sales.csv", "/mnt/data/theirs"),
    "attribute": lambda: os.setxattr(p + "sales.csv", "user.x", b"1"),
    "unmount": lambda: call("umount2", b"/share/data", 2),
    "remount": lambda: call("mount", b"none", b"/share/data", None, 32, None),
    "above": lambda: os.mkdir("/share/x"),
    "parent": lambda: open(p + "../../../data/sales.csv/../sales.csv"),
    "pipe": lambda: os.open(p + "pipe", os.O_WRONLY | os.O_NONBLOCK),
    "program": run,
}.items():
    try:
        attempt()
        print("DONE", name)
    except OSError:
        pass
print(len(os.listdir(p)))
"""


# ---- --share -------------------------------------------------------------------------------------


def test_code_reads_a_shared_folder(cli, data):
    (data / "sub").mkdir()
    (data / "sub/ü.txt").write_text("deep")
    code = "print(open('/share/data/sales.csv').read(), open('/share/data/sub/ü.txt').read())"
    assert cli.plain(code, "--share", "data").out == "a,b\n1,2\n deep\n"
    assert cli.plain(code, "--share", data).out == "a,b\n1,2\n deep\n"
    assert cli.plain("import os; print(os.path.exists('/share'))").out == "False\n"


def test_several_are_told_apart_by_their_names(cli, data):
    (cli.folder / "more").mkdir()
    (cli.folder / "other").mkdir()
    (cli.folder / "other/data").mkdir()
    code = "import os; print(sorted(os.listdir('/share')))"
    assert cli.plain(code, "--share", "data", "--share", "more").out == "['data', 'more']\n"
    refused(cli.plain("print('ran')", "--share", "data", "--share", "other/data"), "same name")


REACH = """
import asyncio, multiprocessing, os, socket
from socket import AF_UNIX, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_STREAM
os.chdir("/share/data")
print(len(os.listdir()), "names")
for type in SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM:
    for make in lambda: [socket.socket(AF_UNIX, type)], lambda: socket.socketpair(AF_UNIX, type):
        for name in os.listdir():
            for use in lambda s: s.connect(name), lambda s: s.sendto(b"x", name):
                try:
                    ends = make()
                    ends[1:] and ends[1].close()
                    use(ends[0])
                    # A packet to a socket of packets goes to its other end, whatever the address is.
                    print("REACHED", name, type)
                except OSError:
                    pass
a, b = socket.socketpair()
a.send(b"pipe")
print(b.recv(9).decode())
with multiprocessing.Pool(1) as pool:
    print("child", pool.apply(abs, (-1,)))
async def main():
    print("loop")
asyncio.run(main())
"""


def test_nothing_is_written_and_nothing_runs(cli, data):
    (data / "tool").write_text("#!/bin/sh\ntrue\n")
    (data / "tool").chmod(0o755)
    os.mkfifo(data / "pipe")
    (data / "pipe").chmod(0o666)
    (data / "sales.csv").chmod(0o666)
    data.chmod(0o777)
    reader = os.open(data / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    result = cli.plain("open('/mnt/data/mine', 'w').close()\n" + ATTEMPTS, "--share", "data")
    os.close(reader)
    assert (result.out, result.status) == ("3\n", 0), result
    assert (data / "sales.csv").read_text() == "a,b\n1,2\n" and sorted(os.listdir(data)) == ["pipe", "sales.csv", "tool"]


def test_programs_outside_are_not_reached(cli, data):
    """A socket in the folder belongs to a program of the user; a read-only folder does not stop a connection."""
    with contextlib.ExitStack() as stack:
        for name, type in (("stream", socket.SOCK_STREAM), ("packet", socket.SOCK_SEQPACKET), ("datagram", socket.SOCK_DGRAM)):
            s = stack.enter_context(socket.socket(socket.AF_UNIX, type))
            s.bind(str(data / name))
            (data / name).chmod(0o777)
            if type != socket.SOCK_DGRAM:
                s.listen()
        result = cli.plain(REACH, "--share", "data")
    assert result.out.split("\n") == ["4 names", "pipe", "child 1", "loop", ""], result


def test_no_link_leads_out(cli, data):
    (cli.folder / "secret").write_text("secret")
    for name, target in (("in", "sales.csv"), ("up", "../secret"), ("absolute", cli.folder / "secret"),
                         ("passwd", "/etc/passwd"), ("root", "/proc/1/root"), ("up2", "../../secret")):  # fmt: skip
        (data / name).symlink_to(target)
    code = (
        "import os\n"
        "print(open('/share/data/in').read())\n"
        "for name in ('up', 'up2', 'absolute'):\n"
        "    try: print('READ', open('/share/data/' + name).read())\n"
        "    except OSError as e: print(type(e).__name__)\n"
        "print(open('/share/data/passwd').read() == open('/etc/passwd').read())\n"
    )
    result = cli.plain(code, "--share", "data")
    assert result.out.split() == ["a,b", "1,2", *["FileNotFoundError"] * 3, "True"], result


def test_a_link_to_the_folder_shares_the_folder(cli, data):
    (cli.folder / "link").symlink_to("data")
    assert cli.plain("import os; print(os.listdir('/share'))", "--share", "link").out == "['data']\n"


def test_a_file_that_only_its_owner_may_read(cli, data):
    """Boxes have user ids of their own, where the machine allows that."""
    (data / "private").write_text("x")
    (data / "private").chmod(0o600)
    told = cli.run("print(open('/share/data/private').read())", "--share", "data")
    if told.isolation["uid"].startswith("live"):
        assert told.error["type"] == "PermissionError", told
    data.chmod(0o700)
    assert "chmod o+rx" in cli.plain("1", "--share", "data").err


def test_a_share_that_changes_while_it_is_read(cli, data):
    big = data / "big"
    big.write_bytes(b"x" * 5_000_000)
    stop = threading.Event()

    def change():
        while not stop.is_set():
            os.truncate(big, 0)
            big.write_bytes(b"y" * 5_000_000)
            (data / "fresh").write_text("1")
            (data / "fresh").unlink()

    thread = threading.Thread(target=change)
    thread.start()
    code = (
        "import mmap, os, time\n"
        "end = time.monotonic() + 1.5\n"
        "while time.monotonic() < end:\n"
        "    data = open('/share/data/big', 'rb').read()\n"
        "    assert set(data) <= set(b'xy\\0'), set(data)\n"
        "    for name in os.listdir('/share/data'):\n"
        "        os.path.exists('/share/data/' + name)\n"
        "print('read')\n"
    )
    try:
        result = cli.plain(code, "--share", "data")
    finally:
        stop.set()
        thread.join()
    assert (result.out, result.status) == ("read\n", 0), result


def test_folders_with_secrets_are_refused(cli, data):
    home = cli.folder / "home"
    for name in ("home/.ssh", "home/work", "state"):
        (cli.folder / name).mkdir(parents=True)
    (cli.folder / "sneaky").symlink_to(home / ".ssh")
    env = {"HOME": str(home)}
    for path, word in (("/", "everything"), ("/proc/self", "system"), ("/run", "system"), ("/dev/shm", "system"),
                       (home, "home folder"), (home / ".ssh", "hidden"), ("sneaky", "hidden"), (cli.folder, "cannot"),
                       (cli.folder / "state", "state folder"), ("data/sales.csv", "Not a directory"),
                       ("missing", "No such file")):  # fmt: skip
        refused(cli.plain("print('ran')", "--share", path, env=env), "--share", word)
    assert cli.plain("print('ran')", "--share", home / "work", env=env).out == "ran\n"
    refused(cli.plain("print('ran')", *sum([["--share", "data"]] * 9, [])), "--share")


def test_the_processes_of_the_machine_are_not_shared(cli, data):
    """A folder for chroot() often has /proc mounted in it."""
    (data / "proc").mkdir()
    mounted = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork",
               "sh", "-c", 'mount -t proc proc data/proc && exec "$@"', "sh"]  # fmt: skip
    for share in ("data", "data/proc", "data/proc/sys"):
        refused(cli.plain("print('ran')", "--share", share, prefix=mounted), "kernel")


def test_odd_names(cli):
    for name in ("a\nb", "\x1b[31m", "n" * 101):
        (cli.folder / name).mkdir()
        result = cli.plain("print('ran')", "--share", name)
        refused(result, "name")
        assert "\x1b" not in result.err
    (cli.folder / "with space ü").mkdir()
    assert cli.plain("import os; print(os.listdir('/share'))", "--share", "with space ü").out == "['with space ü']\n"


def test_a_folder_that_was_exchanged_after_the_start(cli, data, tools):
    """The zygote of a server is started anew: the name of the share leads to another folder now."""
    client = Client(cli.start("stdio", "--share", "data", stdin=-1))
    client.start_legacy()
    code = "print(open('/share/data/sales.csv').read())"
    assert "1,2" in told(client.ask(run_code(2, code)))[0]["stdout"]
    data.rename(cli.folder / "moved")
    (cli.folder / "data").mkdir()
    (cli.folder / "data/sales.csv").write_text("secret")
    assert "1,2" in told(client.ask(run_code(3, code)))[0]["stdout"]
    os.kill(tools.zygote(client.process), signal.SIGKILL)
    for id in range(4, 8):
        assert "secret" not in json.dumps(client.ask(run_code(id, code)))
    client.process.kill()


# ---- stdio ---------------------------------------------------------------------------------------


def test_a_client_learns_of_the_folders(serve, data):
    client = serve("--share", "data")
    tools = {tool["name"]: tool for tool in client.ask(request(2, "tools/list"))["result"]["tools"]}
    assert "read-only: /share/data;" in tools["execute_python"]["description"]
    info, text = told(client.ask(request(3, "tools/call", {"name": "get_sandbox_info", "arguments": {}})))
    assert info["shared_folders"] == ["/share/data"] and "/share/data" in text
    answer, _ = told(client.ask(run_code(4, "open('/share/data/sales.csv').read()", session="s")))
    assert answer["result"] == "'a,b\\n1,2\\n'"
    assert client.ask(modern(5, "tools/list"))["result"]["tools"][0]


def test_files_land_in_the_folder_and_the_answer_names_them(cli, serve):
    client = serve("--out", "results")
    code = "import os\nos.makedirs('d', exist_ok=True)\nopen('plot.png', 'w').write('one')\nopen('d/t.txt', 'w').write('t')"
    answer, text = told(client.ask(run_code(2, code)))
    out = cli.folder.resolve() / "results"
    assert {file["path"]: file["saved"] for file in answer["files"]} == {"plot.png": f"{out}/plot.png", "d/t.txt": f"{out}/d/t.txt"}
    assert f"saved on the user's disk as {out}/plot.png" in text
    assert (out / "plot.png").read_text() == "one" and (out / "d/t.txt").read_text() == "t"
    answer, _ = told(client.ask(run_code(3, "open('plot.png', 'w').write('two')")))
    assert [file["saved"] for file in answer["files"]] == [f"{out}/plot-1.png"]
    assert (out / "plot.png").read_text() == "one" and (out / "plot-1.png").read_text() == "two"
    assert client.end()[0] == 0


def test_runs_at_the_same_time_do_not_mix_their_files(cli, serve):
    client = serve("--out", "results")
    for id in range(2, 8):
        code = f"open('same.bin', 'wb').write(bytes([{id}]) * 3_000_000)\nopen('own-{id}', 'w').write('{id}' * 100000)"
        client.send(run_code(id, code))
    answers = []
    while len(answers) < 6:
        answers += [message for message in [client.receive()] if "id" in message and "method" not in message]
    out = cli.folder / "results"
    assert all("saved" in json.dumps(answer) for answer in answers)
    whole = {(out / name).read_bytes() for name in os.listdir(out) if name.startswith("same")}
    assert whole == {bytes([id]) * 3_000_000 for id in range(2, 8)}
    assert all((out / f"own-{id}").read_text() == str(id) * 100000 for id in range(2, 8))


def test_hostile_names_stay_in_the_folder(cli, serve):
    out = cli.folder / "results"
    out.mkdir()
    outside = cli.folder / "outside"
    outside.mkdir()
    (out / "sub").symlink_to(outside)
    (out / "taken.txt").symlink_to(outside / "taken.txt")
    client = serve("--out", "results")
    code = (
        "import os\n"
        "os.mkdir('sub')\n"
        "for name in ('sub/x', 'taken.txt', '.bashrc', 'a\\x1b[31mb', 'ok'):\n"
        "    open(name, 'w').write('hostile')\n"
        "os.symlink('/etc/passwd', 'link')\n"
    )
    answer, _ = told(client.ask(run_code(2, code)))
    files = {file["path"]: file for file in answer["files"]}
    assert "save_error" in files["sub/x"] and "saved" not in files["sub/x"]
    assert files["taken.txt"]["saved"].endswith("/taken-1.txt") and files[".bashrc"]["saved"].endswith("/_bashrc")
    assert os.listdir(outside) == [] and not (out / ".bashrc").exists() and not (out / "link").exists()
    assert (out / "taken.txt").is_symlink() and all(c >= " " for name in os.listdir(out) for c in name)


def test_files_that_cannot_be_saved_are_reported(cli, serve):
    client = serve("--out", "results", "--artifact-quota", "1M")
    answer, text = told(client.ask(run_code(2, "open('a', 'wb').write(bytes(700_000))")))
    assert answer["files"][0]["saved"].endswith("/results/a")
    answer, text = told(client.ask(run_code(3, "open('b', 'wb').write(bytes(700_000))")))
    assert "--artifact-quota" in answer["files"][0]["save_error"] and "could not be saved" in text
    assert os.listdir(cli.folder / "results") == ["a"]


def test_the_folder_of_out_must_be_usable(cli):
    (cli.folder / "file").write_text("")
    for path in ("file", "missing/deeper"):
        result = cli.call("stdio", "--out", path)
        assert result.status == 73 and "[out_folder_unusable]" in result.err, result


def test_files_do_not_land_among_those_of_the_system(cli):
    home = cli.folder / "home"
    for name in ("home/.config", "home/results", "state"):
        (cli.folder / name).mkdir(parents=True)
    for path in ("/", "/dev/shm", home, home / ".config", cli.folder / "state", cli.folder / "state/new"):
        result = cli.call("stdio", "--out", path, env={"HOME": str(home)})
        assert result.status == 73 and "[out_folder_unusable]" in result.err, (path, result)
    assert cli.call("stdio", "--out", home / "results", env={"HOME": str(home)}).status == 0


def test_nothing_is_left_after_the_end(cli, serve, tools):
    client = serve("--out", "results")
    below = tools.descendants(client.process.pid)
    client.process.kill()
    client.process.wait()

    def lives(pid):
        try:
            return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    assert tools.wait_until(lambda: not any(map(lives, below)))


# ---- roots: the client's own folders -----------------------------------------------------------


def info(c):
    """Modern: the call again, with the answers to what the server asked."""
    params = {"name": "get_sandbox_info", "arguments": {}}
    result = c.result("tools/call", params)
    if result.get("resultType") == "input_required":
        params["inputResponses"] = {key: c.on_request[question["method"]](None)
                                    for key, question in result["inputRequests"].items()}  # fmt: skip
        result = c.result("tools/call", params)
    return result


@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
def test_folders_of_the_client_are_offered_and_never_opened_by_themselves(cli, data, version):
    roots = [{"uri": f"file://{data}/", "name": "sales"}, {"uri": "file:///home/ann/my%20notes"},
             {"uri": "file://%00"}, {"uri": "https://example.org/"}, {"uri": 1}, {}, 7,
             *[{"uri": f"file:///{i}"} for i in range(50)]]  # fmt: skip
    with several(cli) as make:
        c = make("--share", data, version=version, capabilities={"roots": {}})
        c.on_request = {"roots/list": lambda params: {"roots": roots}}
        answer = info(c)
        folders = answer["structuredContent"]["client_folders"]
        assert folders[0] == {"path": str(data), "shared_as": "/share/data"}
        assert folders[1] == {"path": "/home/ann/my notes", "shared_as": None} and len(folders) == 16
        assert '"--share", "/home/ann/my notes"' in text(answer) and "consent" in text(answer)
        c.on_request = {"roots/list": lambda params: {"roots": "nonsense"}}
        assert info(c)["structuredContent"]["client_folders"] == []
        c = make(version=version)
        assert "client_folders" not in info(c)["structuredContent"]


def test_a_client_that_does_not_tell_its_folders_gets_the_rest(cli):
    with several(cli) as make:
        c = make(capabilities={"roots": {}})
        c.on_request = {}  # answers with an error
        assert info(c)["structuredContent"]["client_folders"] == []
