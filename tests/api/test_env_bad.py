# SPDX-License-Identifier: Apache-2.0
"""What an index, a wheel, a package or a caller can do wrong to an environment: each time a clear error with a code,
the requirement it is about and a hint, and the environment is as it was and works.

One server and one environment for the whole file, so that whatever goes wrong has the chance to spoil the next test.
The index is tests/wheel_lab.py's, on loopback; the resolver is uv where tools/setup has put it, else pip.
"""

import gzip
import os
import pathlib
import struct
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import wheel_lab
from conftest import TOP, open_cli, wait_until
from rest_client import serve

UV_PYTHON = TOP / "build/venv-net/bin/python"
PYTHON = UV_PYTHON if UV_PYTHON.exists() else sys.executable
LONG = os.environ.get("LONG") == "1"
JSON = "application/vnd.pypi.simple.v1+json"


@pytest.fixture(scope="module")
def lab():
    with wheel_lab.Lab() as lab:
        yield wheel_lab.fill(lab)


@pytest.fixture(scope="module")
def elsewhere():
    """Another host, which the box that installs may not reach."""
    with wheel_lab.Lab() as lab:
        yield wheel_lab.fill(lab)


@pytest.fixture(scope="module")
def server(program, lab):
    with open_cli(program) as cli:
        server = start(cli, lab)
        job = install(server, "lab-good==2.0")
        assert job["state"] == "ready", job
        server.run("import lab_good; kept = 41", session="live")
        yield server


def start(cli, lab, *flags, **options):
    return serve(cli, "--python", PYTHON, "--index-url", lab.url, "--stock", "2", *flags, **options)


def install(server, packages, name="base", **fields):
    return server.post(f"/environments/{name}/packages", {"packages": packages, "wait": 50, **fields}).json


def uninstall(server, *names):
    for name in names:
        server.ask("DELETE", f"/environments/base/packages?packages={name}")


def lock_of(server, name="base"):
    return {item["name"]: item["version"] for item in server.get(f"/environments/{name}").json["lock"]}


def refused(server, wanted, code, requirement=None, hint=True):
    """The error of an installation that fails, after what has to be true of each of them."""
    job = install(server, [wanted] if isinstance(wanted, str) else wanted)
    assert job.get("state") == "failed", job
    error = job["error"]
    codes = (code,) if isinstance(code, str) else code
    assert error["code"] in codes and error["message"], error
    assert error["hint"] or not hint, error
    named = requirement or (wanted if isinstance(wanted, str) else wanted[0])
    assert named in (error["requirement"] or ""), error
    assert "\x1b" not in str(error) and "Traceback" not in str(error), error
    check_whole(server)
    return error


def check_whole(server):
    assert lock_of(server) == {"lab-good": "2.0"}
    assert server.run("print(kept, lab_good.VERSION)", session="live")["stdout"] == "41 2.0\n"
    assert server.run("import lab_good; lab_good.VERSION")["result"] == "'2.0'"


# ---- What cannot be resolved ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "wanted, code, requirement, words",
    [
        ("lab-god", "package_not_found", "lab-god", "did you mean lab-good"),
        ("lab-good==9", "version_not_found", "lab-good==9", "2.0, 1.5, 1.0"),
        (["lab-needs", "lab-old"], "conflict", "lab-old", "lab-old and lab-good==2.0"),
        (["lab-needs", "lab-good<2"], "conflict", "lab-needs", "lab-good<2"),
        ("lab-orphan", "package_not_found", "lab-nowhere", "lab-nowhere"),
        ("lab-yanked", "yanked_only", "lab-yanked", "=="),
        ("lab-ancient", "no_wheel", "lab-ancient", "cp27"),
        ("lab-elsewhere", "no_wheel", "lab-elsewhere", "win_amd64"),
        ("lab-future", "no_wheel", "lab-future", ">=3.99"),
        ("lab-source", "no_wheel", "lab-source", "source"),
    ],
)
def test_no_answer(server, wanted, code, requirement, words):
    error = refused(server, wanted, code, requirement)
    assert words in error["message"] + error["hint"], error
    assert error["resolver_says"], error


def test_a_withdrawn_release_is_taken_only_by_its_number(server):
    job = install(server, "lab-yanked==1.0 lab-withdrawn")
    assert job["state"] == "ready" and {"name": "lab-withdrawn", "version": "1.0"} in job["added"], job
    assert "yanked" in job["warnings"][0] and "lab-yanked" in job["warnings"][0], job
    uninstall(server, "lab-yanked", "lab-withdrawn")
    check_whole(server)


# ---- An index that misbehaves ----------------------------------------------------------------------


def forever(kind, begin=b"", length=None):
    def send(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", kind)
        if length:
            handler.send_header("Content-Length", str(length))
        handler.end_headers()
        handler.close_connection = True
        handler.wfile.write(begin)
        while True:
            handler.wfile.write(b" " * 65536)

    return send


def with_length(change, more=b""):
    """A file with another length than the header says."""

    def send(handler):
        data = handler.server.lab.files[handler.path.rpartition("/")[2]].data
        handler.send_response(200)
        handler.send_header("Content-Type", "application/octet-stream")
        handler.send_header("Content-Length", str(len(data) + change))
        handler.end_headers()
        handler.wfile.write(data + more)
        handler.close_connection = True

    return send


def swollen(handler):
    """A page of 256 MiB in 256 KiB."""
    handler.answer(gzip.compress(b" " * (256 << 20), 1), JSON, headers=[("Content-Encoding", "gzip")])


def page(data, kind=JSON):
    return lambda handler: handler.answer(data, kind)


UNREACHABLE, BAD, LARGE = "index_unreachable", "index_bad_answer", "too_large"
PAGES = {
    "is-down": (wheel_lab.error(503), UNREACHABLE),
    "forbids": (wheel_lab.error(403), BAD),
    "answers-html": (wheel_lab.web_page, BAD),
    "hangs-up": (wheel_lab.hang_up, UNREACHABLE),
    "goes-in-circles": (wheel_lab.redirect("/simple/lab-goes-in-circles/"), BAD),
    "leads-to-a-file": (wheel_lab.redirect("file:///etc/passwd"), BAD),
    "is-no-json": (page(b'{"files": ['), BAD),
    "is-other-json": (page(b'{"meta": {"api-version": "1.0"}, "name": "x", "files": [{"filename": 5}]}'), BAD),
    "is-deep-json": (page(b"[" * 100_000), BAD),
    "has-no-kind": (page(b"hello", "image/png"), BAD),
}
FILES = {
    "file-is-html": (wheel_lab.web_page, BAD),
    "file-fails": (wheel_lab.error(500), UNREACHABLE),
    "file-is-gone": (wheel_lab.error(404), BAD),
    "file-hangs-up": (wheel_lab.hang_up, UNREACHABLE),
    "file-never-ends": (forever("application/octet-stream"), BAD),
    "file-is-a-terabyte": (forever("application/octet-stream", length=1 << 40), BAD),
    "file-is-short": (with_length(+100), (BAD, UNREACHABLE)),
    "file-is-cut": (with_length(-100), (BAD, "hash_mismatch")),
    "file-is-another": (page(b"PK" + b"x" * 50, "application/octet-stream"), "hash_mismatch"),
}


@pytest.fixture
def mood(lab):
    """lab-NAME is a package whose page, or file, is like that."""
    lab.moods.clear()

    def mood(name, misbehave, of="page"):
        lab.add(wheel_lab.wheel(f"lab-{name}", "1.0"))
        path = f"^/simple/lab-{name}/" if of == "page" else f"^/files/lab_{name.replace('-', '_')}-1.0.*{of}$"
        lab.moods[path] = misbehave
        return f"lab-{name}"

    yield mood
    lab.moods.clear()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_index(server, mood, name):
    misbehave, code = PAGES[name]
    error = refused(server, mood(name, misbehave), code)
    assert error["resolver_says"], error


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_the_index(server, mood, name):
    misbehave, code = FILES[name]
    refused(server, mood(name, misbehave, "whl"), code)


def test_metadata_that_was_changed(server, mood):
    name = mood("other-metadata", page(b"Metadata-Version: 2.1\nName: x\nVersion: 9\n"), "metadata")
    refused(server, name, ("hash_mismatch", "bad_wheel"))


def test_an_index_that_leads_elsewhere(server, lab, elsewhere, mood):
    """The broker lets the box that installs reach the index and nothing else, whatever names the host."""
    hosts = []
    for name, of, target in (
        ("leads-away", "page", f"{elsewhere.url}/lab-good/"),
        ("file-leads-away", "whl", f"{elsewhere.host}/files/lab_good-2.0-py3-none-any.whl"),
        ("leads-to-metadata-service", "page", "http://169.254.169.254/latest/"),
    ):
        error = refused(server, mood(name, wheel_lab.redirect(target), of), UNREACHABLE)
        hosts.append("--index-host" in error["hint"])
    made = wheel_lab.wheel("lab-listed-away", "1.0")
    lab.add(made, url=f"{elsewhere.host}/files/{made.filename}")
    error = refused(server, "lab-listed-away", UNREACHABLE)
    hosts.append("--index-host" in error["hint"])
    assert hosts == [True] * 4, hosts
    assert elsewhere.requests == []


END_S = 100


def test_an_index_that_has_no_end(program, lab, mood):
    """Slow, silent, or endless: the time and the memory for installing have an end."""
    endless = [
        ("is-silent", wheel_lab.silent(END_S), "timeout"),
        ("drips", wheel_lab.drip(END_S), "timeout"),
        ("never-ends", forever(JSON, b'{"files": ['), (LARGE, "timeout")),
        ("never-ends-html", forever("text/html", b"<html>"), (LARGE, "timeout")),
        ("swells", swollen, (LARGE, BAD, "timeout")),
    ]
    with open_cli(program) as cli:
        small = start(cli, lab, "--install-timeout", "4s", "--install-memory", "256M")
        # Four seconds may be too few on a busy machine for what is done in one.
        assert wait_until(lambda: install(small, "lab-good==2.0")["state"] == "ready")
        small.run("import lab_good; kept = 41", session="live")
        for name, misbehave, code in endless if LONG else endless[:4]:
            begin = time.monotonic()
            refused(small, mood(name, misbehave), code)
            assert time.monotonic() - begin < END_S, "it was the index that ended it"


def test_an_index_that_is_not_there(program):
    with open_cli(program) as cli, wheel_lab.Lab() as gone:
        server = start(cli, gone)
        gone.server.shutdown()
        gone.server.server_close()
        job = install(server, "lab-good")
        assert job["state"] == "failed" and job["error"]["code"] == UNREACHABLE, job
        assert "lab-good" in job["error"]["requirement"] and gone.host[7:] in job["error"]["message"], job
        assert server.run("1 + 1")["result"] == "2"


# ---- Wheels that lie --------------------------------------------------------------------------------


def of_100_gigabytes(data):
    """The entry's size in both headers is that of the field behind it, as in zips of more than 4 GiB."""
    size = struct.pack("<HHQ", 1, 8, 100 << 30)
    data = wheel_lab.patch_entry("lab/zeros", {24: b"\xff" * 4, 30: b"\x0c\0"}, {22: b"\xff" * 4, 28: b"\x0c\0"})(data)
    at = data.find(b"PK\1\2")
    while data[at + 46:at + 55] != b"lab/zeros":
        at = data.find(b"PK\1\2", at + 4)
    data = data[:at + 55] + size + data[at + 55:]
    end = data.rfind(b"PK\5\6")
    length = struct.unpack("<L", data[end + 12:end + 16])[0] + len(size)
    data = data[:end + 12] + struct.pack("<L", length) + data[end + 16:]
    return move_local(data, b"lab/zeros", size)


def move_local(data, name, more):
    """Puts bytes behind the name in the first entry's own header, and moves whatever follows."""
    at = data.find(name) + len(name)
    data = bytearray(data[:at] + more + data[at:])
    end = data.rfind(b"PK\5\6")
    begin = struct.unpack("<L", data[end + 16:end + 20])[0] + len(more)
    data[end + 16:end + 20] = struct.pack("<L", begin)
    while data[begin:begin + 4] == b"PK\1\2":
        place = struct.unpack("<L", data[begin + 42:begin + 46])[0]
        data[begin + 42:begin + 46] = struct.pack("<L", place + len(more) if place else 0)
        begin += 46 + sum(struct.unpack("<3H", data[begin + 28:begin + 34]))
    return bytes(data)


def many_entries(count):
    """The record at the end speaks of so many entries, and of a directory as large."""

    def change(data):
        end = data.rfind(b"PK\5\6")
        size, at = struct.unpack("<2L", data[end + 12:end + 20])
        whole = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, count * 50, at)
        place = struct.pack("<4sLQL", b"PK\6\7", 0, end, 1)
        last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
        return data[:end] + whole + place + last

    return change


def two_ends(data):
    return data[:-22] + data[-22:-6] + b"PK\5\6" + data[-2:]


LIARS = {
    "lab-100g": ({"files": {"lab/zeros": bytes(1 << 20)}, "change": of_100_gigabytes}, "hostile_wheel", "107374182400"),
    "lab-10-million": ({"change": many_entries(10_000_000)}, "hostile_wheel", "directory"),
    "lab-two-ends": ({"change": two_ends}, "bad_wheel", "zip"),
    "lab-not-me": ({"metadata": wheel_lab.metadata_of("lab-not-me", "2.0")}, ("bad_wheel",), "2.0"),
    "lab-other-info": (
        {"change": wheel_lab.rename(b"lab_other_info-1.0.dist-info", b"lab_other_nfo-1.00.dist-info"[:28])},
        "bad_wheel",
        "dist-info",
    ),
    "lab-two-infos": ({"files": {"lab.py": b"", "lab_good-2.0.dist-info/METADATA": b"Name: lab-good"}}, "bad_wheel", "2"),
    "lab-record-more": ({"files": {"lab.py": b"x"}, "unrecorded": ["lab.py"]}, "bad_wheel", "RECORD"),
    "lab-weak-record": ({"files": {"lab.py": b"x"}, "record": {"lab.py": "md5=nUQzIFXKa3qTT2gnVyPLrQ"}}, "bad_wheel", "RECORD"),
}
ALL = [*wheel_lab.HOSTILE, *wheel_lab.BROKEN]
SOME = """lab-absolute lab-traversal lab-backslash lab-control lab-symlink lab-device lab-setuid lab-case lab-case-folder
    lab-file-and-folder lab-bomb lab-bomb-100g lab-liar lab-overlap lab-record lab-unrecorded lab-cut-off""".split()


@pytest.mark.parametrize("name", ALL if LONG else SOME)
def test_a_wheel_that_is_refused(server, name):
    refused(server, name, "hostile_wheel" if name in wheel_lab.HOSTILE else "bad_wheel")


@pytest.mark.parametrize("name", LIARS)
def test_a_wheel_that_lies(server, lab, name):
    how, code, words = LIARS[name]
    made = lab.add(wheel_lab.wheel(name, "1.0", **how))
    made.metadata = wheel_lab.metadata_of(name, "1.0") if name != "lab-not-me" else made.metadata
    lab.projects[name][0]["json"].pop("core-metadata")
    lab.projects[name][0]["json"].pop("data-dist-info-metadata")
    error = refused(server, name, code)
    assert words in error["message"] + (error["resolver_says"] or ""), error


def test_a_wheel_that_is_not_what_its_name_says(server, lab):
    """The index says lab-not-this 1.0; inside is lab-somebody 9.9, or another hash."""
    refused(server, "lab-other", "bad_wheel")
    refused(server, "lab-wrong-hash", "hash_mismatch")


def test_limits(program, lab):
    with open_cli(program) as cli:
        server = start(cli, lab, "--install-files", "200", "--install-bytes", "2M")
        assert install(server, "lab-good==2.0")["state"] == "ready"
        server.run("import lab_good; kept = 41", session="live")
        refused(server, "lab-many", "too_many_files")
        refused(server, "lab-large", "too_large")
        refused(server, "lab-many-bombs", "too_large")


@(lambda test: test if LONG else None)
def test_very_many_files(server, lab):
    lab.add(wheel_lab.wheel("lab-300k", "1.0", {f"m/{number}": b"" for number in range(300_000)}))
    refused(server, "lab-300k", ("too_many_files", "hostile_wheel"))


# ---- Packages that are installed, and then try ------------------------------------------------------


def test_pth_files_and_scripts(server):
    """A .pth file is dropped, no script runs by itself, and commands run only when called."""
    job = install(server, "lab-pth lab-data")
    assert job["state"] == "ready", job
    code = """
        import os, site, subprocess, sys, lab_pth, lab_good
        wheels = [path for path in sys.path if path.startswith("/opt/wheels/")]
        print(os.environ.get("LAB"), sorted(n for l in wheels for n in os.listdir(l) if n.endswith(".pth")))
        child = subprocess.run([sys.executable, "-c", "import os, lab_pth; print(os.environ.get('LAB'))"],
                               capture_output=True, text=True)
        print(child.stdout.strip(), child.stderr)
        modes = {oct(os.stat(os.path.join(f, n)).st_mode & 0o7022) for l in wheels
                 for f, _, names in os.walk(l) for n in names}
        print(modes)"""
    found = server.run("\n".join(line[8:] for line in code.splitlines()))
    assert found["stdout"] == "None []\nNone \n{'0o0'}\n", found
    uninstall(server, "lab-pth", "lab-data")
    check_whole(server)


SPY = b'''
import ctypes, os, pathlib, socket
FOUND, HERE = {}, os.path.dirname(os.path.abspath(__file__))
LIBC = ctypes.CDLL(None, use_errno=True)
def attempt(name, call):
    try:
        FOUND[name] = repr(call())[:200]
    except BaseException as exc:
        FOUND[name] = "refused: " + type(exc).__name__
def kernel(name, *arguments):
    if getattr(LIBC, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)
    return 0
def guess():
    import itertools
    for number in itertools.islice(itertools.product("0123456789abcdef", repeat=3), 4096):
        if os.path.exists("/opt/wheels/" + "".join(number).ljust(32, "0")):
            return number
    raise LookupError
def others():
    """Paths of wheels in any process that can be seen."""
    mine = {path for path in __import__("sys").path}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in "environ", "maps", "cmdline":
            try:
                text = open(f"/proc/{pid}/{name}", "rb").read().decode("latin-1")
            except OSError:
                continue
            for part in text.replace("\\0", ":").replace("\\n", ":").replace(" ", ":").split(":"):
                if "/wheels/" in part and not any(path in part for path in mine if path):
                    return part
    raise LookupError
def store():
    for place in ("STATE", "/opt/wheels/..", "/var/lib/constrictor", "/root"):
        for path in pathlib.Path(place).rglob("*"):
            if path.name in ("rows", "secret", "environments.db", "store"):
                return path.read_bytes() if path.is_file() else os.listdir(path)
    raise LookupError
attempt("list", lambda: os.listdir("/opt/wheels"))
attempt("guess", guess)
attempt("others", others)
attempt("store", store)
attempt("state", lambda: os.listdir("STATE"))
attempt("up", lambda: os.open("/opt/wheels/../../..", os.O_RDONLY) and os.listdir("/opt/wheels/.."[:11]))
attempt("write", lambda: open(HERE + "/new.py", "w"))
attempt("append", lambda: open(__file__, "a"))
attempt("rename", lambda: os.rename(__file__, __file__ + ".old"))
attempt("unlink", lambda: os.unlink(__file__))
attempt("chmod", lambda: os.chmod(__file__, 0o777))
attempt("pyc", lambda: os.mkdir(HERE + "/__pycache__") or open(HERE + "/__pycache__/x.pyc", "w"))
attempt("remount", lambda: kernel("mount", None, b"/opt/wheels", None, 0x20, None))
attempt("unshare", lambda: kernel("unshare", 0x10000000))
attempt("ptrace", lambda: kernel("ptrace", 16, 1, 0, 0))
attempt("chroot", lambda: os.chroot("/"))
attempt("root", lambda: os.listdir("/proc/1/root/etc"))
attempt("device", lambda: open("/dev/mem", "rb"))
attempt("suid", lambda: os.setuid(0))
attempt("index", lambda: socket.create_connection(("INDEX_HOST", INDEX_PORT), 2))
attempt("internet", lambda: socket.create_connection(("192.0.2.1", 443), 2))
attempt("metadata", lambda: socket.create_connection(("169.254.169.254", 80), 2))
attempt("name", lambda: socket.getaddrinfo("example.org", 80))
'''


def test_a_package_that_tries_at_import(server, lab):
    """Whatever it does happens in the box that imported it; packages of other keys are out of its reach."""
    host, port = lab.host[7:].split(":")
    state = next(pathlib.Path(f"/proc/{server.process.pid}/cwd").resolve().glob("state"))
    spy = SPY.replace(b"STATE", str(state).encode()).replace(b"INDEX_HOST", host.encode()).replace(b"INDEX_PORT", port.encode())
    lab.add(wheel_lab.wheel("lab-bold", "1.0", {"lab_bold.py": spy}))
    server.post("/environments", {"name": "other"})
    assert install(server, "lab-mixed-name", "other")["state"] == "ready"
    assert install(server, "lab-bold")["state"] == "ready"
    asked = len(lab.requests)
    for fields in {}, {"session": "spied"}:
        found = server.run("import lab_bold\nlab_bold.FOUND", **fields)["result_json"]
        assert len(found) == 23 and all("refused" in value for value in found.values()), found
    assert len(lab.requests) == asked
    uninstall(server, "lab-bold")
    check_whole(server)
    assert server.run("import lab_mixed_name; 1", environment="other")["result"] == "1"


def test_a_package_that_breaks_at_import(server, lab):
    lab.add(wheel_lab.wheel("lab-exits", "1.0", {"lab_exits.py": b"import os; os._exit(3)"}))
    lab.add(wheel_lab.wheel("lab-stops", "1.0", {"lab_stops.py": b"while True: pass"}))
    assert install(server, "lab-exits lab-stops")["state"] == "ready"
    assert server.run("import lab_exits")["exit_code"] == 3
    assert server.run("import lab_stops", timeout=0.5)["verdict"] == "timeout_wall"
    uninstall(server, "lab-exits", "lab-stops")
    check_whole(server)


# ---- Callers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["list", "text"])
def test_what_is_smuggled_into_a_requirement(server, lab, form):
    asked = len(lab.requests)
    smuggled = """--index-url=http://x.test/ | lab-good --index-url http://x.test/ | lab-good --extra-index-url=http://x.test |
        -i http://x.test/ | -e . | -e/tmp/x | lab-good -e . | --target=/ | lab-good -t / | --prefix / | -r /etc/passwd |
        -c x.txt | --no-index | --pre | --find-links / | --trusted-host x | --config-settings a=b | --hash=sha256:00 |
        lab-good --global-option=x | lab-good; rm -rf / | lab-good;os.system('x') | lab-good; python_version > |
        lab-good; 'a' == 'b' | lab-good; os_name == sys_platform | lab-good; __import__('os') == '1' |
        lab-good; extra == 'x' or $(id) | $(id) | `id` | lab-good`id` | lab-good|sh | lab-good&&id | lab-good>out&1 |
        lab-good @ file:///etc/passwd | lab-good @ /etc/passwd | lab-good @ http://x.test/y.whl | lab-good@git+ssh://x.test |
        git+https://x.test/y | ./lab | ../lab | ~/lab | /etc | lab/good | lab\\good | c:\\x | lab-good # x | lab-good=1 |
        lab-good>=1.* | lab-good==1..2 | lab-good[ | lab-good[a;b] | "lab-good" | 'lab-good' | {lab-good} | *""".split("|")
    smuggled = [item.strip() for item in "|".join(smuggled).replace("lab-good|sh", "lab-good\x7csh").split(" |")]
    smuggled += ["lab-good\nlab-data", "lab-good\r", "lab-good\t--pre", "lab-good\0", "lab-good\x1b[31m", "l\u00e4b-good",
                 "lab-good\u202e", "lab\u2010good", "x" * 5000, "lab-good" + " " * 5000 + "--pre", "", " ", "-", "--", "=="]
    for wanted in smuggled:
        answer = server.post("/environments/base/packages", {"packages": [wanted] if form == "list" else wanted})
        assert answer.status in (400, 409), (wanted, answer)        # a box that installs knows more of markers
        assert answer.error["code"] in ("bad_requirement", "bad_value") and answer.error["hint"], (wanted, answer)
        assert "\x1b" not in answer.error["message"] and len(answer.error["message"]) < 1000
    assert len(lab.requests) == asked
    check_whole(server)


def test_names_with_other_characters(server):
    for name in "a b", "../x", "x;y", "$(id)", "`id`", "a|b", "a\nb", "-x", "--state", ".", "..", "a/b", "é", "a" * 65, "'", '"', "*":
        answer = server.post("/environments", {"name": name})
        assert answer.status == 400 and answer.error["code"] == "bad_value" and answer.error["hint"], (name, answer)
    assert {item["name"] for item in server.get("/environments").json["environments"]} <= {"base", "other"}


def test_what_is_no_list_of_requirements(server):
    for packages in 5, None, {}, {"a": 1}, [5], [None], [["lab-good"]], [{}], True, [], ["lab-good"] * 101, "lab-good " * 101:
        answer = server.post("/environments/base/packages", {"packages": packages})
        assert answer.status == 400, (packages, answer)
        assert answer.error["code"] in ("bad_requirement", "bad_value"), (packages, answer)
    check_whole(server)


# ---- No room ---------------------------------------------------------------------------------------


@pytest.mark.root
def test_a_full_disk(program, lab):
    """The state folder has 16 MiB: what does not fit is refused, nothing of it stays, and there is room again."""
    with open_cli(program) as cli:
        (cli.folder / "state").mkdir()
        mount = f"mount -t tmpfs -o size=16m,mode=755 none {cli.folder}/state && exec \"$@\""
        server = start(cli, lab, prefix=("unshare", "--mount", "sh", "-c", mount, "sh"))
        assert install(server, "lab-good==2.0")["state"] == "ready"
        server.run("import lab_good; kept = 41", session="live")
        state = pathlib.Path(f"/proc/{server.process.pid}/root{cli.folder}/state")

        def used():
            room = os.statvfs(state)
            return (room.f_blocks - room.f_bfree) * room.f_frsize

        before = used()
        noise = os.urandom(9 << 20)
        for name in "lab-noise-1", "lab-noise-2":
            lab.add(wheel_lab.wheel(name, "1.0", {"noise.bin": noise + name.encode()}, stored=True))
        refused(server, ["lab-noise-1", "lab-noise-2"], "disk_full", "lab-noise")
        assert wait_until(lambda: used() < before + (10 << 20)), (before, used())
        assert wait_until(lambda: not list((state / "environments").glob("*/tmp*")))
        (state / "ballast").write_bytes(bytes(max(0, (14 << 20) - used())))
        refused(server, "lab-noise-2", "disk_full", "lab-noise-2")
        (state / "ballast").unlink()
        assert install(server, "lab-data")["state"] == "ready"


def test_a_full_quota(program, lab):
    with open_cli(program) as cli:
        server = start(cli, lab, "--env-quota", "2M")
        assert install(server, "lab-good==2.0")["state"] == "ready"
        server.run("import lab_good; kept = 41", session="live")
        refused(server, "lab-large", ("quota", "too_large", "quota_exceeded"))


# ---- Answers that are known --------------------------------------------------------------------------


def test_an_answer_is_known_for_a_while(program, lab):
    """The same packages again: no box and no request; another version is seen by an upgrade, or when it is time."""
    with open_cli(program) as cli:
        server = start(cli, lab, "--index-age", "3s")
        lab.add(wheel_lab.wheel("lab-grows", "1.0"))
        assert install(server, "lab-grows lab-good<2")["state"] == "ready"
        began, asked = time.monotonic(), len(lab.requests)
        for name, wanted in ("second", "lab-good<2 lab-grows"), ("third", ["lab-grows", "lab-good <2"]):
            server.post("/environments", {"name": name})
            job = install(server, wanted, name)
            assert job["state"] == "ready" and len(job["added"]) == 2, job
        lab.add(wheel_lab.wheel("lab-grows", "2.0"))
        server.post("/environments", {"name": "fourth"})
        known = install(server, "lab-grows lab-good<2", "fourth")
        if time.monotonic() - began < 3:
            assert len(lab.requests) == asked
            assert {"name": "lab-grows", "version": "1.0"} in known["added"], known
        assert server.run("import lab_grows, lab_good; lab_good.VERSION", environment="third")["result"] == "'1.5'"
        time.sleep(max(0, 3.2 - (time.monotonic() - began)))
        server.post("/environments", {"name": "fifth"})
        assert {"name": "lab-grows", "version": "2.0"} in install(server, "lab-grows lab-good<2", "fifth")["added"]
        assert len(lab.requests) > asked
        asked = len(lab.requests)
        upgraded = install(server, "lab-grows lab-good<2", "fourth", upgrade=True)
        assert {"name": "lab-grows", "version": "2.0"} in upgraded["added"] and len(lab.requests) > asked, upgraded


def test_an_answer_is_not_known_when_its_wheels_are_gone(program, lab):
    with open_cli(program) as cli:
        server = start(cli, lab)
        threads = [threading.Thread(target=install, args=(server, "lab-needs", name)) for name in ("base", "base")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert lock_of(server) == {"lab-good": "2.0", "lab-needs": "1.0"}
        server.ask("DELETE", "/environments/base/packages?all=true")
        assert lock_of(server) == {}
        assert install(server, "lab-needs")["state"] == "ready"
        assert server.run("import lab_good; lab_good.VERSION")["result"] == "'2.0'"
