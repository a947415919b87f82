# SPDX-License-Identifier: Apache-2.0
"""Artifacts: files that outlive their boxes, under links that cannot be guessed, until they expire.

What a link gives is compared byte by byte with what the code wrote. Crashes are real: SIGKILL to the gate, to
the keeper, to both while files are being kept.
"""

import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import sqlite3
import subprocess
import threading
import time

import pytest

JSON = {"Content-Type": "application/json"}


class Server:
    def __init__(self, process):
        self.process = process
        line = ""
        while "MCP" not in line:
            line = process.stdout.readline().decode()
            assert line, process.stderr.read().decode()
        self.port = int(re.search(r":(\d+)/mcp$", line.split()[-1]).group(1))

    def ask(self, method, path, body=None, headers=None, guard=600):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=guard)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            answer.body = answer.read()
            return answer

    def get(self, url, **headers):
        return self.ask(
            "GET", link(url), headers={k.replace("_", "-"): v for k, v in headers.items()}
        )

    def run(self, code, headers=None, **options):
        body = json.dumps({"code": code, "stream": False, **options})
        answer = self.ask("POST", "/api/v1/execute", body, {**JSON, **(headers or {})})
        return json.loads(answer.body)

    def files(self, code, **options):
        """The files that a run left, by path."""
        result = self.run(code, **options)
        assert result.get("verdict") == "ok", result
        return {f["path"]: f for f in result["files"]}

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(600) == 0
        return self.process.stderr.read().decode()


def link(url):
    return "/" + url.split("/", 3)[3] if url.startswith("http") else url


def gate_of(server, tools):
    return next(filter(tools.is_gate, tools.children(server.process.pid)), None)


@pytest.fixture
def serve(cli):
    def start(*flags, **options):
        return Server(cli.start("serve", "--port", 0, *flags, **options))

    return start


WRITE = """
import pathlib
pathlib.Path("sub").mkdir()
pathlib.Path("table.csv").write_text("a,b\\n1,2\\n")
pathlib.Path("sub/page.html").write_text("<script>alert(1)</script>")
pathlib.Path("drawing.svg").write_text("<svg onload='alert(1)'/>")
pathlib.Path("p.png").write_bytes(bytes.fromhex("89504e470d0a1a0a") + bytes(range(256)))
pathlib.Path("empty").write_bytes(b"")
pathlib.Path("ü \\"x\\" 100%;?.txt").write_text("grüß")
"""
WRITTEN = {
    "table.csv": (b"a,b\n1,2\n", "text/csv", "attachment"),
    "sub/page.html": (b"<script>alert(1)</script>", "text/html", "attachment"),
    "drawing.svg": (b"<svg onload='alert(1)'/>", "image/svg+xml", "attachment"),
    "p.png": (bytes.fromhex("89504e470d0a1a0a") + bytes(range(256)), "image/png", "inline"),
    "empty": (b"", "application/octet-stream", "attachment"),
    'ü "x" 100%;?.txt': ("grüß".encode(), "text/plain", "inline"),
}


def test_links_give_what_was_written_and_nothing_that_runs(serve):
    server = serve()
    files = server.files(WRITE)
    assert set(files) == set(WRITTEN)
    for path, (data, mime_type, how) in WRITTEN.items():
        file = files[path]
        assert file["size"] == len(data)
        assert file["mime_type"] == mime_type
        assert re.fullmatch(r"http://[^/]+/files/[A-Za-z0-9_-]{32}/[^/]+", file["url"])
        answer = server.get(file["url"])
        assert answer.status == 200
        assert answer.body == data
        assert answer.headers.get_content_type() == mime_type
        assert answer.headers["Content-Disposition"].startswith(how + ";")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"].startswith("private")
        assert answer.headers["Cross-Origin-Resource-Policy"]
        head = server.ask("HEAD", link(file["url"]))
        assert (head.status, head.body) == (200, b"")
        assert head.headers["Content-Length"] == str(len(data))


def test_ranges_and_conditions(serve):
    server = serve()
    url = server.files("open('x.dat', 'wb').write(bytes(range(256)) * 4096)")["x.dat"]["url"]
    data = bytes(range(256)) * 4096
    for asked, part in (("0-0", data[:1]), ("5-", data[5:]), ("-7", data[-7:]), ("100-199", data[100:200])):
        answer = server.get(url, Range=f"bytes={asked}")
        assert (answer.status, answer.body) == (206, part), asked
        assert answer.headers["Content-Range"].endswith(f"/{len(data)}")
    answer = server.get(url, Range=f"bytes={len(data)}-")
    assert answer.status == 416
    assert answer.headers["Content-Range"] == f"bytes */{len(data)}"
    assert server.get(url, Range="bytes=0-1,5-6").body == data
    tag = server.get(url).headers["ETag"]
    assert server.get(url, If_None_Match=tag).status == 304
    assert server.get(url, If_None_Match='"other"').status == 200


def test_a_wrong_link_tells_nothing(serve):
    server = serve()
    url = link(server.files("open('x.txt', 'w').write('x')")["x.txt"]["url"])
    token = url.split("/")[2]
    changed = ("B" if token[0] == "A" else "A") + token[1:]
    answers = {
        (a.status, a.body)
        for a in map(
            server.get,
            [
                f"/files/{token}/y.txt",
                f"/files/{token}/X.txt",
                f"/files/{changed}/x.txt",
                f"/files/{token}",
                f"/files/{token}/",
                f"/files/{token}/x.txt/",
                f"/files/{token[:-1]}/x.txt",
                f"/files/{token}x/x.txt",
                "/files/' OR 1=1 --/x.txt".replace(" ", "%20"),
                "/files//",
            ],
        )
    }
    assert len(answers) == 1, answers  # one answer for all of them
    assert answers.pop()[0] == 404
    assert server.ask("DELETE", url).status == 405
    assert server.ask("POST", url, b"").status == 405
    assert server.ask("GET", url, headers={"Host": "evil.example"}).status == 403
    assert server.ask("GET", url, headers={"Origin": "http://evil.example"}).status == 403
    assert server.get(url).body == b"x"


def test_a_link_needs_no_key_and_gives_no_more_than_its_file(serve):
    server = serve(env={"CONSTRICTOR_API_KEY": "k" * 32})
    key = {"Authorization": "Bearer " + "k" * 32}
    result = server.run("open('x.txt', 'w').write('x')", headers=key)
    assert server.get(result["files"][0]["url"]).body == b"x"
    assert server.ask("POST", "/api/v1/execute", "{}", JSON).status == 401


def test_artifacts_expire_and_say_so(serve, tools, cli):
    server = serve("--artifact-ttl", "1s")
    url = server.files("open('x.txt', 'w').write('x')")["x.txt"]["url"]
    assert server.get(url).status == 200
    assert tools.wait_until(lambda: server.get(url).status == 410)
    answer = server.get(url)
    assert answer.status == 410
    assert "expired" in json.loads(answer.body)["error"]["message"]
    assert server.get(url + "x").status == 404
    folder = cli.folder / "state" / "1"
    assert tools.wait_until(lambda: not list(folder.glob("a-*")))  # the bytes are gone as well


def test_the_oldest_make_room_within_the_quota(serve):
    server = serve("--artifact-quota", "1M")
    urls = [
        server.files(f"open('f{i}', 'wb').write(bytes(400_000))")[f"f{i}"]["url"] for i in range(4)
    ]
    assert [server.get(u).status for u in urls] == [410, 410, 200, 200]
    assert "room" in json.loads(server.get(urls[0]).body)["error"]["message"]


def test_one_that_never_fits_is_listed_without_a_link(serve):
    server = serve("--artifact-quota", "1M")
    files = server.files("open('big', 'wb').write(bytes(2 << 20)); open('small', 'w').write('x')")
    assert files["big"]["size"] == 2 << 20
    assert not files["big"].get("url")
    assert server.get(files["small"]["url"]).body == b"x"


def test_artifacts_survive_the_gate_the_keeper_and_a_restart(serve, tools):
    server = serve()
    url = link(server.files("open('x.txt', 'w').write('still here')")["x.txt"]["url"])
    gate = gate_of(server, tools)
    os.kill(gate, signal.SIGKILL)
    assert tools.wait_until(lambda: gate_of(server, tools) not in (None, gate))
    assert server.get(url).body == b"still here"
    server.process.kill()
    server.process.wait()
    server = serve()
    assert server.get(url).body == b"still here"
    server.stop()
    assert serve().get(url).body == b"still here"


def test_kill_at_random_moments_loses_nothing_that_was_announced(serve, tools, cli):
    """Many clients leave files while the gate, or the whole server, is killed again and again."""
    announced = {}
    lock = threading.Lock()
    over = threading.Event()
    current = {}

    def client(number):
        for i in range(10_000):
            if over.is_set():
                return
            text = f"{number}-{i}-" + "x" * (i % 7) * 50_000
            code = f"open('f.txt', 'w').write({text!r})"
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError):
                result = current["server"].run(code)
                for file in result.get("files") or []:
                    if file.get("url"):
                        with lock:
                            announced[link(file["url"])] = hashlib.sha256(text.encode()).digest()

    current["server"] = serve()
    threads = [threading.Thread(target=client, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    try:
        for i in range(8):
            time.sleep(0.5 + 0.13 * i % 0.4)
            while len(announced) < 3 * i and any(thread.is_alive() for thread in threads):
                time.sleep(0.1)  # a slow machine
            server = current["server"]
            gate = gate_of(server, tools)
            if i % 2 and gate:
                os.kill(gate, signal.SIGKILL)
                continue
            server.process.kill()
            server.process.wait()
            current["server"] = serve()
    finally:
        time.sleep(0.5)
        over.set()
        for thread in threads:
            thread.join(60)
    server = current["server"]
    assert len(announced) > 20
    for url, digest in announced.items():
        answer = server.get(url)
        assert answer.status == 200, (url, answer.body)
        assert hashlib.sha256(answer.body).digest() == digest
    server.stop()
    # The catalogue and the files say the same.
    rows = set()
    for folder in (cli.folder / "state").glob("[0-9]*[0-9]"):
        with contextlib.closing(sqlite3.connect(folder / "catalogue.db")) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            rows |= {(folder.name, "a-" + key) for (key,) in db.execute("SELECT key FROM artifact")}
    on_disk = {(p.parent.name, p.name) for p in (cli.folder / "state").glob("*/a-*")}
    assert rows <= on_disk


def test_servers_at_the_same_time_have_folders_of_their_own(serve, cli):
    servers = [serve() for _ in range(4)]
    urls = [link(s.files(f"open('x', 'w').write('{i}')")["x"]["url"]) for i, s in enumerate(servers)]
    for i, server in enumerate(servers):
        assert server.get(urls[i]).body == str(i).encode()
        assert server.get(urls[i - 1]).status == 404
    folders = {p.name for p in (cli.folder / "state").iterdir() if p.is_dir()}
    assert folders == {"1", "2", "3", "4", "environments"}  # the last is the first server's


def test_the_secret_is_in_no_file_name_and_nobody_else_may_look(serve, cli, tools):
    server = serve()
    token = link(server.files("open('x', 'w').write('x')")["x"]["url"]).split("/")[2]
    state = cli.folder / "state"
    for path in [state, *state.rglob("*")]:
        assert token not in path.name
        seen = path.lstat()
        others = 0o006 if path.name in ("environments", "wheels") else 0o007    # boxes go through, and cannot list
        assert seen.st_mode & others == 0, path
        # The environments' folder is shared with later servers: theirs by a group that is no box's and no user's.
        own = state / "environments" in [path, *path.parents] and seen.st_gid == seen.st_uid != 0
        assert own or seen.st_mode & 0o070 == 0, path
    if tools.root:  # the gate has its own folder, and that alone
        uid = pathlib.Path(f"/proc/{gate_of(server, tools)}").stat().st_uid
        assert uid != 0
        assert (state / "1").stat().st_uid == uid
        assert state.stat().st_uid == 0
        assert (state / "1.lock").stat().st_uid == 0


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda p: p.symlink_to("/tmp"), "symbolic link"),
        (lambda p: p.write_text(""), "Not a directory"),
        (lambda p: (p.mkdir(), p.chmod(0o777)), "written by others"),
    ],
    ids=["link", "file", "open to all"],
)
def test_without_a_state_folder_code_runs_and_files_have_no_links(serve, cli, make, reason):
    make(cli.folder / "other")
    server = serve("--state", cli.folder / "other")
    files = server.files("open('x', 'w').write('x')")
    assert files["x"]["size"] == 1
    assert not files["x"].get("url")
    assert server.get("/files/" + "A" * 32 + "/x").status == 404
    log = server.stop()
    assert len([line for line in log.splitlines() if reason in line]) == 1, log
    assert "--state" in log or "chmod" in log  # what to do about it


@pytest.mark.user
def test_no_home_is_no_reason_not_to_start(cli):
    env = cli.environ()
    for name in ("HOME", "XDG_STATE_HOME", "CONSTRICTOR_STATE"):
        env.pop(name, None)
    process = subprocess.Popen(
        [str(cli.program), "serve", "--port", "0"], env=env, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=cli.folder,
    )  # fmt: skip
    cli.started.append(process)
    server = Server(process)
    assert not server.files("open('x', 'w').write('x')")["x"].get("url")
    assert "HOME" in server.stop()


def test_a_damaged_catalogue_is_put_aside(serve, cli):
    server = serve()
    url = link(server.files("open('x', 'w').write('x')")["x"]["url"])
    server.stop()
    (cli.folder / "state" / "1" / "catalogue.db").write_bytes(b"nonsense" * 1000)
    server = serve()
    assert server.get(url).status == 404
    new = server.files("open('x', 'w').write('y')")["x"]["url"]
    assert server.get(new).body == b"y"
    assert (cli.folder / "state" / "1" / "catalogue.damaged").exists()
    assert "damaged" in server.stop()


def test_a_large_download_is_whole_fast_and_holds_no_memory(serve, tools):
    server = serve("--scratch", "256M", "--memory", "1G")
    code = "f = open('x.dat', 'wb')\nfor i in range(80):\n    f.write(bytes([i]) * (1 << 20))\nf.close()"
    ran = server.run(code)
    url = link(ran["files"][0]["url"])
    gate = gate_of(server, tools)

    def memory():
        text = pathlib.Path(f"/proc/{gate}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1))

    before = memory()
    body = server.get(url).body
    assert body == b"".join(bytes([i]) * (1 << 20) for i in range(80))
    # Readers that have stopped reading cost a window each, not the file.
    stuck = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    for s in stuck:
        s.sendall(f"GET {url} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    time.sleep(0.5)
    assert server.ask("GET", "/api/v1/health").status == 200
    assert memory() - before < 40_000
    # SECURITY: nor do they keep it on the disk when it was removed, where no quota counts it.
    path = f"/api/v1/artifacts?session={ran['execution_id']}"
    assert server.ask("DELETE", path).status == 200
    got = 0
    with contextlib.suppress(ConnectionError):
        while piece := stuck[0].recv(1 << 20):
            got += len(piece)
    assert got < 80 << 20
    for s in stuck:
        s.close()


# Not zeroes: holes take no room on the disk.
LARGE = "import os; open('big.bin', 'wb').write(os.urandom(%d)); open('small.txt', 'w').write('x')"


def check_lost(server, code, size):
    """The file that was not kept says why, in the object and in the text for a model."""
    files = server.files(LARGE % size)
    lost, kept = files["big.bin"], files["small.txt"]
    assert lost["url"] is None and lost["error"]["code"] == code, lost["error"]
    assert "big.bin" in lost["error"]["message"] and lost["error"]["hint"], lost
    assert kept["url"] and "error" not in kept, kept


def test_a_file_above_the_quota_says_why_it_has_no_link(serve):
    check_lost(serve("--artifact-quota", "1M"), "quota_exceeded", 2 << 20)


@pytest.mark.root
def test_a_file_that_is_lost_to_a_full_disk_says_so(serve, cli):
    folder = cli.folder / "small-disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "none", folder], check=True)
    try:
        check_lost(serve("--state", folder), "disk_full", 12 << 20)
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
