# SPDX-License-Identifier: Apache-2.0
"""Environments as one file: written by a server or the command line, read by another one without any network."""

import contextlib
import hashlib
import json
import pathlib
import shutil
import struct
import sys
import threading

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import wheel_lab
from conftest import open_cli, wait_until
from rest_client import Rest, serve

CODE = "import lab_good, lab_needs\nprint(lab_good.VERSION, lab_good.__file__.split('/')[2])"


@pytest.fixture(scope="module")
def index():
    with wheel_lab.Lab() as lab:
        wheel_lab.add_good(lab)
        lab.add(wheel_lab.wheel("lab-bulk", "1.0", {"lab_bulk.bin": bytes(range(256)) * 4096 * 40}, stored=True))
        lab.add(wheel_lab.wheel("lab-compiled", "1.0", tag="py3-none-linux_x86_64"))
        yield lab


@pytest.fixture(scope="module")
def source(program, index):
    """A server with an environment that has packages."""
    with open_cli(program) as cli:
        server = serve(cli, "--python", sys.executable, "--index-url", index.url)
        server.cli = cli
        assert server.post("/environments", {"name": "tools"}).status == 201
        job = server.post("/environments/tools/packages", {"packages": "lab-needs", "wait": 60}).json
        assert job["state"] == "ready", job
        yield server


@pytest.fixture(scope="module")
def target(program):
    """Another server, which has no index, no network and a state folder of its own."""
    with open_cli(program) as cli:
        server = serve(cli, "--python", sys.executable, "--offline")
        server.cli = cli
        yield server


@pytest.fixture(scope="module")
def archive(source):
    answer = source.get("/environments/tools/export")
    assert answer.status == 200, answer
    return answer


def bring(server, name, data, query="?wait=60", headers=None):
    return server.ask("POST", f"/environments/{name}/import{query}", data, headers)


def sealed(data):
    """With the digest that belongs to what comes before it."""
    return data + hashlib.sha256(data).digest()


def parts(data):
    """(manifest, wheels as bytes) of a file."""
    assert data[:6] == b"CENV1\n"
    length = struct.unpack_from("<I", data, 6)[0]
    return json.loads(data[10:10 + length]), data[10 + length:-32]


def joined(manifest, wheels):
    text = json.dumps(manifest).encode()
    return sealed(b"CENV1\n" + struct.pack("<I", len(text)) + text + wheels)


# ---- Over REST ------------------------------------------------------------------------------------

def test_one_file_goes_to_a_server_without_network(archive, target):
    assert archive.headers["Content-Type"] == "application/octet-stream"
    assert 'filename="tools.cenv"' in archive.headers["Content-Disposition"]
    job = bring(target, "tools", archive.data)
    assert job.status == 200 and job.json["state"] == "ready" and job.json["change"] == "import", job
    assert {item["name"] for item in job.json["added"]} == {"lab-good", "lab-needs"}
    ran = target.run(CODE, environment="tools")
    assert ran["stdout"] == "2.0 wheels\n", ran
    lock = target.get("/environments/tools").json
    assert lock["requirements"] == ["lab-needs"] and len(lock["lock"]) == 2
    again = bring(target, "tools", archive.data)
    assert again.status == 409 and again.error["code"] == "environment_exists", again


def test_steps_are_streamed(archive, target):
    answer = bring(target, "streamed", archive.data, "?stream=true")
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/x-ndjson"
    assert answer.lines[-1]["state"] == "ready" and len(answer.lines) >= 2, answer.lines


def test_what_it_says_comes_out_again(archive, target):
    bring(target, "round", archive.data)
    again = target.get("/environments/round/export")
    assert parts(again.data)[0]["lock"] == parts(archive.data)[0]["lock"]
    assert len(again.data) == len(archive.data)


def test_files_that_are_none(archive, target):
    """Wrong, cut off, changed, empty: an error with a code, and there is no environment afterwards."""
    data = archive.data
    bad = {"empty": b"", "text": b"hello " * 100, "zip": b"PK\3\4" + bytes(100), "cut": data[:len(data) // 2],
           "short": data[:-1], "long": data + b"x", "bit": data[:300] + bytes([data[300] ^ 1]) + data[301:],
           "head": data[:6], "huge-manifest": sealed(b"CENV1\n" + struct.pack("<I", 0xFFFFFFFF))}
    for name, what in bad.items():
        answer = bring(target, f"bad-{name}", what)
        assert answer.status in (400, 409), (name, answer)
        error = answer.json["error"]
        assert error["code"] in ("bad_environment_file", "bad_value"), (name, error)
        assert error["message"] and error["hint"], (name, error)
        assert target.get(f"/environments/bad-{name}").status == 404, name
    names = [item["name"] for item in target.get("/environments").json["environments"]]
    assert not [name for name in names if name.startswith("bad-")]


def hostile_paths(wheels, path):
    """The first file of the first bundle gets another path."""
    at = wheels.index(b"CBUN1\n") + 6
    length, flags, size = struct.unpack_from("<IIQ", wheels, at)
    raw = path.encode()
    return wheels[:at] + struct.pack("<IIQ", len(raw), flags, size) + raw + wheels[at + 16 + length:]


def test_files_that_mean_harm(archive, target):
    manifest, wheels = parts(archive.data)
    lock = manifest["lock"]
    lies = {
        "traversal": (manifest, hostile_paths(wheels, "../../escaped.py")),
        "absolute": (manifest, hostile_paths(wheels, "/etc/escaped")),
        "no-wheel": (manifest, b""),
        "no-lock": ({key: value for key, value in manifest.items() if key != "lock"}, wheels),
        "bad-name": ({**manifest, "lock": [{**lock[0], "name": "../x"}, *lock[1:]]}, wheels),
        "option": ({**manifest, "requirements": ["--index-url=http://192.0.2.1/"]}, wheels),
        "many": ({**manifest, "lock": lock * 400}, wheels),
        "format": ({**manifest, "format": 99}, wheels),
        "deep": ({**manifest, "lock": json.loads("[" * 200 + "]" * 200)}, wheels),
    }
    for name, (head, body) in lies.items():
        answer = bring(target, f"lie-{name}", joined(head, body))
        assert answer.status in (400, 409), (name, answer)
        assert target.get(f"/environments/lie-{name}").status == 404, name
    assert target.run("1 + 1")["result"] == "2"


def test_another_python_or_machine(archive, target):
    manifest, wheels = parts(archive.data)
    answer = bring(target, "old", joined({**manifest, "python": "3.6.1"}, wheels))
    assert answer.status == 409 and "for Python 3.6.1, and this is Python 3." in answer.error["message"], answer
    # Packages of nothing but Python go everywhere; compiled ones do not.
    assert bring(target, "pure", joined({**manifest, "platform": "linux-sparc"}, wheels)).json["state"] == "ready"
    lock = [{**item, "filename": item["filename"].replace("-any.whl", "-linux_sparc.whl")} for item in manifest["lock"]]
    answer = bring(target, "other", joined({**manifest, "platform": "linux-sparc", "lock": lock}, wheels))
    assert answer.status == 409 and "linux-sparc" in answer.error["message"], answer
    assert target.get("/environments/other").status == 404


def test_what_can_be_asked(source, target, archive):
    assert source.get("/environments/nowhere/export").status == 404
    empty = target.get("/environments/base/export")
    assert empty.status == 409 and "nothing is installed" in empty.error["message"], empty
    head = source.ask("HEAD", "/environments/tools/export")
    assert head.status == 200 and int(head.headers["Content-Length"]) == len(archive.data)
    assert bring(target, "a%2Fb", archive.data).status in (400, 404)
    assert bring(target, "x" * 80, archive.data).status == 400
    assert bring(target, "waits", archive.data, "?wait=soon").status == 400
    with contextlib.closing(target.connect()) as connection:    # the same connection serves on
        for name in "first", "next":
            connection.request("POST", f"/api/v1/environments/kept-{name}/import?wait=60", archive.data)
            response = connection.getresponse()
            assert response.status == 200 and json.loads(response.read())["state"] == "ready"
        connection.request("GET", "/api/v1/environments/kept-next")
        response = connection.getresponse()
        assert response.status == 200 and len(json.loads(response.read())["lock"]) == 2
        for name, pieces, status in (("chunky", [archive.data[:9000], archive.data[9000:]], 200), ("junk", [b"abc", b"def"], 409)):
            connection.request("POST", f"/api/v1/environments/{name}/import?wait=60", iter(pieces), encode_chunked=True,
                               headers={"Transfer-Encoding": "chunked"})
            response = connection.getresponse()
            assert response.status == status, response.read()
            response.read()


def resident(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def gate_of(server):
    """The process that answers: the child of the keeper with its listening socket."""
    keeper = server.process.pid
    children = pathlib.Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
    return next(int(pid) for pid in children if pathlib.Path(f"/proc/{pid}/comm").read_text() == "constrictor\n")


def test_memory_stays_flat(source, target, index):
    """40 MiB go out and in, and the process in between has grown by less than a fifth of that."""
    with_bulk(source)
    before = resident(gate_of(source)), resident(gate_of(target))
    data = source.get("/environments/bulk/export").data
    assert len(data) > 40 << 20
    assert bring(target, "bulk", data).json["state"] == "ready"
    grown = resident(gate_of(source)) - before[0], resident(gate_of(target)) - before[1]
    assert max(grown) < 8 << 10, grown
    ran = target.run(
        "import sys, os\nprint(sum(os.path.getsize(p + '/lab_bulk.bin') for p in sys.path if os.path.exists(p + '/lab_bulk.bin')))",
        environment="bulk")
    assert ran["stdout"] == f"{40 << 20}\n", ran


def with_bulk(source):
    """An environment that is more than sockets hold."""
    if source.get("/environments/bulk").status != 200:
        assert source.post("/environments", {"name": "bulk", "packages": "lab-bulk", "wait": 60}).json["state"] == "ready"


def test_files_that_nobody_takes_have_places_too(source):
    """SECURITY: each is on the disk until its client has it; few are, and a client that leaves gives its share back."""
    with_bulk(source)

    def begin(name="bulk"):
        connection = stack.enter_context(contextlib.closing(source.connect()))
        connection.request("GET", f"/api/v1/environments/{name}/export", headers=source.headers())
        return connection, connection.getresponse().status

    with contextlib.ExitStack() as stack:
        held = [begin() for _ in range(2)]
        assert [status for _, status in held] == [200] * 2
        assert begin()[1] == 503
        held[0][0].sock.close()
        held[0][0].close()
        assert wait_until(lambda: begin("tools")[1] == 200)


def test_several_at_one_time(archive, target):
    found = []

    def one(number):
        found.append(bring(target, f"at-once-{number}", archive.data).status)
    threads = [threading.Thread(target=one, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) <= {200, 503} and 200 in found, found


# ---- On the command line ----------------------------------------------------------------------------

def test_the_command_line_asks_the_server(source, target, archive):
    wrote = source.cli.call("env", "export", "tools", "tools.cenv")
    assert wrote.status == 0 and "wrote environment 'tools' to tools.cenv" in wrote.out, wrote
    assert (source.cli.folder / "tools.cenv").read_bytes() == archive.data
    assert not (source.cli.folder / "tools.cenv.part").exists()
    shutil.copy(source.cli.folder / "tools.cenv", target.cli.folder / "by-name.cenv")
    done = target.cli.call("env", "import", "by-name.cenv")
    assert done.status == 0, done
    assert target.run(CODE, environment="by-name")["stdout"] == "2.0 wheels\n"
    piped = source.cli.call("env", "export", "tools", "-")
    assert piped.status == 0 and piped.raw == archive.data
    assert target.cli.call("env", "import", "-", "from-pipe", input=archive.data).status == 0
    assert target.cli.call("env", "import", "-", input=archive.data).status != 0      # no name
    missing = source.cli.call("env", "export", "nowhere", "x.cenv")
    assert missing.status != 0 and "there is no environment" in missing.err, missing
    assert not list(source.cli.folder.glob("x.cenv*"))
    bad = target.cli.call("env", "import", "-", "broken", input=archive.data[:-100])
    assert bad.status != 0 and target.get("/environments/broken").status == 404, bad


def test_a_copy_of_the_state_folder_without_a_server(program, archive):
    """The command line alone: import in an empty folder, export again, and code that runs, all offline."""
    with open_cli(program) as cli:
        (cli.folder / "kit.cenv").write_bytes(archive.data)
        flags = "--offline", "--python", sys.executable
        done = cli.call("env", "import", *flags, "kit.cenv")
        assert done.status == 0, done
        listed = cli.call("env", "list", *flags, "--json").json
        assert {item["name"]: item["packages"] for item in listed["environments"]} == {"base": 0, "kit": 2}
        wrote = cli.call("env", "export", *flags, "kit", "again.cenv")
        assert wrote.status == 0, wrote
        assert parts((cli.folder / "again.cenv").read_bytes())[0] == parts(archive.data)[0]
        assert cli.call("env", "import", *flags, "kit.cenv").status != 0             # it is there
        server = serve(cli, *flags)
        assert server.run(CODE, environment="kit")["stdout"] == "2.0 wheels\n"


@pytest.fixture(scope="module")
def three(program):
    """Three callers of one server."""
    names = "ann", "bob", "cat"
    with open_cli(program) as cli:
        server = serve(cli, "--python", sys.executable, "--offline",
                       env={"CONSTRICTOR_API_KEY": ",".join(f"{name}:key-of-{name}-1" for name in names)})
        yield [Rest(server.port, f"key-of-{name}-1") for name in names]


def test_two_callers_cannot_keep_the_others_from_taking_files(three, source, archive):
    """SECURITY: a key that has some transfers gets another only while more than that are free."""
    with_bulk(source)
    data = source.get("/environments/bulk/export").data
    for who in three:
        assert bring(who, "large", archive.data if who is three[2] else data).json["state"] == "ready"
    with contextlib.ExitStack() as stack:
        def begin(who):
            connection = stack.enter_context(contextlib.closing(who.connect()))
            connection.request("GET", "/api/v1/environments/large/export", headers=who.headers())
            return connection.getresponse().status

        assert [begin(three[0]) for _ in range(4)] == [200, 200, 503, 503]
        assert [begin(three[1]) for _ in range(4)] == [200, 503, 503, 503]
        assert three[2].get("/environments/large/export").status == 200


def test_two_callers_cannot_keep_the_others_from_sending_files(three):
    """SECURITY: few files arrive at one time; clients that send slowly must not take all of these transfers."""
    with contextlib.ExitStack() as stack:
        for who in three[:2]:
            slow = [stack.enter_context(contextlib.closing(who.connect())) for _ in range(4)]
            for number, connection in enumerate(slow):
                connection.putrequest("POST", f"/api/v1/environments/slow-{number}/import")
                for name, value in who.headers({"Content-Length": "100000"}).items():
                    connection.putheader(name, value)
                connection.endheaders(b"begun")
            assert slow[-1].getresponse().status == 503
        answer = three[2].ask("POST", "/environments/quick/import", b"no such file")
        assert answer.json["error"]["code"] == "bad_environment_file", answer  # it was looked at
