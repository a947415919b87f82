# SPDX-License-Identifier: Apache-2.0
"""What the operator can say about packages, each option by what it does: two servers, one with indexes, one without."""

import contextlib
import io
import json
import os
import pathlib
import re
import sys
import tarfile
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import wheel_lab
from conftest import open_cli
from rest_client import serve

# What a build tries; what came of it is in the wheel that it makes.
HOSTILE = '''
import json, os, socket
found = {}
def attempt(name, call):
    try:
        found[name] = repr(call())[:100]
    except BaseException as exc:
        found[name] = "refused: " + type(exc).__name__
attempt("secret", lambda: open("/etc/shadow").read())
attempt("wheels", lambda: os.listdir("/opt/wheels"))
attempt("write", lambda: open("/opt/constrictor/installer.py", "a"))
attempt("address", lambda: socket.create_connection(("192.0.2.1", 443), 2))
attempt("name", lambda: socket.create_connection(("elsewhere.example.org", 443), 2))
attempt("uid", lambda: os.setuid(0))
attempt("mount", lambda: 1 // (1 + __import__("ctypes").CDLL(None).mount(b"none", b"/mnt", b"tmpfs", 0, None)))
EXTRA = "FOUND = " + repr(found)
'''
NEEDY = '''
import lab_good
EXTRA = "BUILT_WITH = " + repr(lab_good.VERSION)
'''


def source(name, before, requires):
    """A source archive whose backend does something first."""
    made = wheel_lab.source(name, "1.0")
    raw, plain = io.BytesIO(), {}
    with tarfile.open(fileobj=io.BytesIO(made.data)) as archive:
        for item in archive:
            plain[item.name] = archive.extractfile(item).read().decode()
    folder = f"{name.replace('-', '_')}-1.0"
    backend = plain[f"{folder}/backend.py"].replace("VERSION = '1.0'\\n\"", "VERSION = '1.0'\\n\" + EXTRA + \"\\n\"")
    plain[f"{folder}/backend.py"] = before + backend
    plain[f"{folder}/pyproject.toml"] = plain[f"{folder}/pyproject.toml"].replace("requires = []", f"requires = {json.dumps(requires)}")
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for path, text in plain.items():
            info = tarfile.TarInfo(path)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return wheel_lab.Made(name, "1.0", made.filename, raw.getvalue())


@pytest.fixture(scope="module")
def index():
    with wheel_lab.Lab() as lab:
        wheel_lab.fill(lab)
        lab.add(source("lab-hostile-build", HOSTILE, []))
        lab.add(source("lab-needy-build", NEEDY, ["lab-good"]))
        yield lab


@pytest.fixture(scope="module")
def second():
    with wheel_lab.Lab() as lab:
        lab.add(wheel_lab.wheel("lab-second", "1.0", requires=["lab-good"]))
        yield lab


@pytest.fixture(scope="module")
def online(program, index, second):
    with open_cli(program) as cli:
        server = serve(cli, "--python", sys.executable, "--index-url", index.url, "--extra-index-url", second.url,
                       "--deny-package", "lab-spy,lab-m*", "--package-min-age", "7", "--constraint", "lab-good<2",
                       "--source-builds", "--allow-url", "files.example.org,*.below.example.org")
        server.cli = cli
        yield server


@pytest.fixture(scope="module")
def offline(program, index):
    with open_cli(program) as cli:
        wheels = cli.folder / "wheels"
        wheels.mkdir()
        cli.folder.chmod(0o755)
        for name in "lab_good-2.0", "lab_good-1.0", "lab_needs-1.0", "lab_large-1.0", "lab_extra-1.0":
            (wheels / f"{name}-py3-none-any.whl").write_bytes(index.files[f"{name}-py3-none-any.whl"].data)
        bulk = wheel_lab.wheel("lab-bulk", "1.0", {"lab_bulk.bin": os.urandom(3 << 20)}, stored=True)
        (wheels / bulk.filename).write_bytes(bulk.data)
        server = serve(cli, "--python", sys.executable, "--offline", "--find-links", wheels, "--env-quota", "5M",
                       "--allow-package", "lab-good,lab-needs,lab-large,lab-bulk", "--timeout-max", "1s", "--wall", "1s",
                       "--cpu", "1s")
        server.cli, server.asked = cli, index.requests
        yield server


NUMBERS = iter(range(10_000))


def install(server, packages, name=None, **fields):
    """Into a new environment; its name and what came of it."""
    name = name or f"env-{next(NUMBERS)}"
    made = server.post("/environments", {"name": name})
    assert made.status in (201, 409), made
    return name, server.post(f"/environments/{name}/packages", {"packages": packages, "wait": 60, **fields})


def lock_of(server, name):
    return {item["name"]: item["version"] for item in server.get(f"/environments/{name}").json["lock"]}


def error_of(answer):
    assert answer.status >= 400, answer
    return answer.json["error"]


# ---- With indexes -----------------------------------------------------------------------------------

def test_more_indexes(online):
    name, answer = install(online, "lab-second")
    assert answer.json["state"] == "ready", answer
    assert lock_of(online, name) == {"lab-second": "1.0", "lab-good": "1.5"}      # one from each


def test_constraints_of_the_server_and_of_a_call(online):
    name, answer = install(online, "lab-good")
    assert answer.json["state"] == "ready" and lock_of(online, name) == {"lab-good": "1.5"}
    name, answer = install(online, "lab-good", constraints=["lab-good<1.5"])
    assert lock_of(online, name) == {"lab-good": "1.0"}, answer
    assert error_of(install(online, "lab-good>=2")[1])["code"] == "conflict"
    assert error_of(install(online, "lab-good", constraints=["--pre"])[1])["code"] == "bad_requirement"


def test_a_constraint_that_is_none_is_told_at_the_start(program):
    with open_cli(program) as cli:
        listed = cli.call("env", "list", "--python", sys.executable, "--constraint", "-r x")
        assert listed.status != 0 and "--constraint" in listed.err, listed
        for folder in "/nonexistent", "/etc/passwd":
            listed = cli.call("env", "list", "--python", sys.executable, "--find-links", folder)
            assert listed.status == 64 and f"find-links '{folder}' from the option" in listed.err, listed


def test_denied_packages(online):
    error = error_of(install(online, "lab-spy")[1])
    assert error["code"] == "denied_package" and "lab-spy" in error["message"], error
    assert error_of(install(online, "lab-many")[1])["code"] == "denied_package"
    assert error_of(install(online, "Lab.Mixed_Name")[1])["code"] == "denied_package"


def test_the_least_age_of_a_release(online):
    name, answer = install(online, "lab-young")
    assert answer.json["state"] == "ready" and lock_of(online, name) == {"lab-young": "1.0"}, answer
    error = error_of(install(online, "lab-newborn")[1])
    assert error["code"] in ("too_young", "version_not_found"), error


def test_packages_by_address(online):
    """Hosts that are not allowed, other schemes, users, ports, files that are no wheels: each with its reason."""
    sha = "a" * 64
    for text, word in {
            "x @ https://other.example.org/x-1-py3-none-any.whl": "not among those",
            "x @ https://files.example.org.evil.test/x-1-py3-none-any.whl": "not among those",
            "x @ https://below.example.org/x-1-py3-none-any.whl": "not among those",
            "x @ http://files.example.org/x-1-py3-none-any.whl": "https://",
            "x @ https://u:p@files.example.org/x-1-py3-none-any.whl": "host",
            "x @ https://files.example.org:8443/x-1-py3-none-any.whl": "host",
            "x @ https://files.example.org/x-1.tar.gz": "wheel",
            "x @ https://files.example.org/../x-1-py3-none-any.whl": "wheel",
            "x @ https://files.example.org/x-1-py3-none-any.whl#sha256=abc": "sha256",
            "x @ https://files.example.org/x-1-py3-none-any.whl#egg=y": "sha256",
            "x @ file:///etc/passwd": "https://", "https://files.example.org/x-1-py3-none-any.whl": "address",
            "git+https://files.example.org/x": "address"}.items():
        error = error_of(install(online, [text])[1])
        assert error["code"] == "bad_requirement" and word in error["message"], (text, error)
    # Allowed ones get as far as their host, which is not there; the environment is as it was.
    for text in f"x @ https://files.example.org/x-1-py3-none-any.whl#sha256={sha}", "x @ https://a.below.example.org/p/x-1-py3-none-any.whl":
        name, answer = install(online, [text])
        assert answer.status == 409 and answer.json["state"] == "failed", answer
        assert answer.json["error"]["code"] not in ("internal", "bad_requirement"), answer.json["error"]
        assert lock_of(online, name) == {}


def test_packages_by_address_where_nobody_allowed_any(offline):
    error = error_of(install(offline, ["x @ https://files.example.org/x-1-py3-none-any.whl"])[1])
    assert error["code"] == "bad_requirement" and "--allow-url" in error["hint"], error


def test_source_builds(online):
    refused = error_of(install(online, "lab-source")[1])
    assert refused["code"] == "no_wheel", refused
    name, answer = install(online, "lab-source", source_builds=True)
    assert answer.json["state"] == "ready", answer
    assert online.run("import lab_source; lab_source.VERSION", environment=name)["result"] == "'1.0'"


def test_a_build_gets_what_it_requires(online):
    name, answer = install(online, "lab-needy-build", source_builds=True)
    assert answer.json["state"] == "ready", answer
    ran = online.run("import lab_needy_build; print(lab_needy_build.BUILT_WITH)", environment=name)
    assert ran["stdout"] in ("1.5\n", "2.0\n"), ran
    assert lock_of(online, name) == {"lab-needy-build": "1.0"}       # and the environment does not


def test_a_build_meets_the_wall(online):
    name, answer = install(online, "lab-hostile-build", source_builds=True)
    assert answer.json["state"] == "ready", answer
    ran = online.run("import json, lab_hostile_build; print(json.dumps(lab_hostile_build.FOUND))", environment=name)
    found = json.loads(ran["stdout"])
    assert len(found) == 7 and all(value.startswith("refused") for value in found.values()), found


def test_no_source_builds_where_they_are_off(offline):
    error = error_of(install(offline, "lab-good", source_builds=True)[1])
    assert "--source-builds" in error["message"], error


def test_credentials_never_enter_a_box(program):
    with open_cli(program) as cli:
        for flag in "--index-url", "--extra-index-url":
            began = cli.call("serve", "--port", "0", flag, "https://me:hunter2@index.example.org/simple")
            assert began.status != 0 and "credentials" in began.err and "hunter2" not in began.err, began


def test_an_index_behind_a_proxy(program, index):
    """Names are for the proxy to look up; its password is the broker's alone."""
    proxy = wheel_lab.Proxy(index.server.server_address)
    host = "index.internal.example.org"
    with contextlib.closing(proxy.listener), open_cli(program) as cli:
        flags = "--python", sys.executable, "--index-url", f"http://{host}:{index.server.server_address[1]}/simple"
        for entry in index.projects["lab-good"]:
            entry["json"] = {**entry["json"], "url": f"/files/{entry['made'].filename}"}
        server = serve(cli, *flags, env={"CONSTRICTOR_INDEX_PROXY": f"http://me:s3cret@127.0.0.1:{proxy.port}"})
        _, answer = install(server, "lab-good<2")
        assert answer.json["state"] == "ready", answer
        assert proxy.asked and all(line.startswith(f"CONNECT {host}:") for line in proxy.asked), proxy.asked[:3]
        assert "s3cret" not in json.dumps(answer.json)
        wrong = cli.call("serve", "--port", "0", "--state", cli.folder / "other", *flags,
                         env={"CONSTRICTOR_INDEX_PROXY": "socks://me:s3cret@x"})
        assert wrong.status != 0 and "--index-proxy" in wrong.err and "s3cret" not in wrong.err, wrong


# ---- Locks --------------------------------------------------------------------------------------------

def test_a_lock_goes_round(online):
    name, answer = install(online, "lab-second")
    text = online.get(f"/environments/{name}?format=requirements")
    assert text.status == 200 and text.headers["Content-Type"].startswith("text/plain"), text
    lock = text.data.decode()
    assert re.search(r"^lab-good==1\.5 \\\n    --hash=sha256:[0-9a-f]{64}$", lock, re.MULTILINE), lock
    again = online.post("/environments", {"name": f"{name}-again", "lock": lock, "wait": 60})
    assert again.status == 201 and again.json["state"] == "ready", again
    assert lock_of(online, f"{name}-again") == lock_of(online, name)
    assert online.get(f"/environments/{name}?format=yaml").status == 400


def test_locks_install_exactly_that(online, index):
    good = index.files["lab_good-1.0-py3-none-any.whl"].sha256
    toml = ('lock-version = "1.0"\ncreated-by = "somebody"\n[[packages]]\nname = "lab-good"\nversion = "1.0"\n'
            f'wheels = [{{url = "https://elsewhere.example.org/lab_good-1.0-py3-none-any.whl", hashes = {{sha256 = "{good}"}}}}]\n')
    answer = online.post("/environments", {"name": "toml", "lock": toml, "wait": 60})
    assert answer.json["state"] == "ready", answer
    assert lock_of(online, "toml") == {"lab-good": "1.0"}
    wrong = online.post("/environments", {"name": "wrong", "lock": f"lab-good==1.0 --hash=sha256:{'0' * 64}", "wait": 60})
    assert wrong.status == 409 and wrong.json["error"]["code"] == "hash_mismatch", wrong
    for text, word in {"lab-good==1.0": "line 1", "\n\nlab-good>=1 --hash=sha256:" + good: "line 3",
                       "-r other.txt": "option", "--index-url https://x.example.org": "option", "# nothing": "no package",
                       "lock-version = [": "TOML"}.items():
        bad = online.post("/environments", {"name": f"bad-{next(NUMBERS)}", "lock": text, "wait": 60})
        assert bad.status == 409 and bad.json["error"]["code"] == "bad_requirement", (text, bad)
        assert word in bad.json["error"]["message"], (text, bad.json["error"])
    both = online.post("/environments", {"name": "both", "lock": toml, "packages": "lab-good"})
    assert both.status == 400, both


# ---- PEP 723 ------------------------------------------------------------------------------------------

def metadata(*lines):
    return "\n".join(["# /// script", *[f"# {line}".rstrip() for line in lines], "# ///", "print('ran')"])


def test_requires_python(online):
    assert online.run(metadata('requires-python = ">=3.9"'))["stdout"] == "ran\n"
    answer = online.post("/execute", {"code": metadata('requires-python = ">=3.99"', "dependencies = []"), "stream": False})
    error = error_of(answer)
    assert "requires Python >=3.99, and this is Python 3." in error["message"], error


def test_metadata_that_is_broken_says_where(online):
    def ask(code):
        return error_of(online.post("/execute", {"code": code, "stream": False}))
    error = ask("import os\n\n" + metadata("dependencies = [", '  "lab-good",', "requires-python = 3"))
    assert error["code"] == "bad_requirement" and re.search(r"line [4-7]", error["message"]), error
    assert "line 2" in ask("# /// script\nprint(1)")["message"]
    assert "has no end" in ask("# /// script\n# dependencies = []\n")["message"]
    assert "requires-python" in ask(metadata('requires-python = "new"'))["message"]
    assert "list of texts" in ask(metadata("dependencies = 3"))["message"]


def test_a_session_outlives_its_environment(online):
    name, _ = install(online, "lab-good")
    before = online.run("import lab_good; x = 41; lab_good.VERSION", session="outlives", environment=name)["result"]
    assert online.ask("DELETE", f"/environments/{name}").status == 200
    ran = online.run("import importlib; importlib.reload(lab_good).VERSION, x + 1", session="outlives")
    assert ran["result"] == f"({before}, 42)", ran
    assert online.post("/execute", {"code": "1", "environment": name}).json["error"]["code"] == "env_not_found"
    assert online.ask("DELETE", "/sessions/outlives").status == 200


# ---- Without ------------------------------------------------------------------------------------------

def test_offline_with_a_wheelhouse(offline):
    asked = len(offline.asked)
    name, answer = install(offline, "lab-needs")
    assert answer.json["state"] == "ready", answer
    assert lock_of(offline, name) == {"lab-needs": "1.0", "lab-good": "2.0"}
    missing = error_of(install(offline, "lab-good==9")[1])
    assert missing["code"] in ("version_not_found", "package_not_found"), missing
    assert len(offline.asked) == asked


def test_allowed_packages(offline):
    error = error_of(install(offline, "lab-extra")[1])
    assert error["code"] == "denied_package" and "--allow-package" in error["hint"], error


def test_an_order_that_is_refused_leaves_no_environment(offline):
    answer = offline.post("/environments", {"name": "half", "packages": "lab-extra", "preload": ["lab_extra"]})
    assert answer.json["error"]["code"] == "denied_package", answer
    assert offline.get("/environments/half").status == 404


def test_the_wheelhouse_is_for_the_installer_only(offline):
    look = "import os\nprint(os.listdir('/opt/wheel-files') if os.path.exists('/opt/wheel-files') else [])\n" \
           "try:\n    open('/opt/wheel-files/x', 'w')\nexcept OSError as e:\n    print(e.errno)"
    for where in ({}, {"session": "looks"}, {"memory_mb": 300}):
        said = offline.run(look, **where)["stdout"].splitlines()
        assert said[0] == "[]" and said[1] in ("30", "13", "2"), said
    assert offline.ask("DELETE", "/sessions/looks").status == 200


def processes(server):
    names = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            names.setdefault(int(stat[1]), []).append((folder / "comm").read_text().strip())
        except OSError:
            pass
    return names.get(server.process.pid, [])


def test_no_broker_where_nobody_needs_one(offline, program, index):
    assert "constrictor-net" not in processes(offline), processes(offline)
    with open_cli(program) as cli:
        server = serve(cli, "--python", sys.executable, "--index-url", index.url)
        assert server.run("1 + 1")["result"] == "2"
        assert "constrictor-net" not in processes(server)
        assert install(server, "lab-good")[1].json["state"] == "ready"
        assert "constrictor-net" in processes(server)
        refused = server.run("import socket\nsocket.create_connection(('127.0.0.1', %d), 2)" % index.server.server_address[1])
        assert refused["status"] != "ok" if "status" in refused else refused["verdict"] != "ok", refused


def wheels(server):
    folder = server.cli.folder / "state" / "environments" / "wheels"
    mode = folder.stat().st_mode & 0o777
    folder.chmod(0o711)                 # no user may list it, not even its owner
    try:
        return len(list(folder.iterdir()))
    finally:
        folder.chmod(mode)


def test_room_for_packages(offline):
    """3 of 5 MiB are taken; 3 more fit only when no environment has the first any more and it was not used lately."""
    first, answer = install(offline, "lab-large")
    assert answer.json["state"] == "ready", answer
    full = install(offline, "lab-bulk")[1]
    assert full.json["error"]["code"] == "quota_exceeded", full
    before = wheels(offline)
    assert offline.ask("DELETE", f"/environments/{first}").status == 200
    time.sleep(2.2)                     # twice --timeout-max: a run that was told of it is over
    second, answer = install(offline, "lab-bulk")
    assert answer.json["state"] == "ready", answer
    assert wheels(offline) <= before
    gone = install(offline, "lab-large")[1]
    assert gone.json["state"] == "failed", gone


# ---- Steps ----------------------------------------------------------------------------------------------

def test_steps_as_lines_and_as_events(online):
    name, _ = install(online, "lab-data")
    answer = online.ask("POST", f"/environments/{name}/packages", {"packages": "lab-pth", "stream": True})
    assert answer.headers["Content-Type"].startswith("application/x-ndjson")
    states = [line["state"] for line in answer.lines]
    assert states[-1] == "ready" and len(states) >= 3, states
    assert all(0 <= line["progress"] <= 1 for line in answer.lines)
    answer = online.ask("POST", f"/environments/{name}/packages", {"packages": "lab-crash", "stream": True},
                        {"Accept": "text/event-stream"})
    assert answer.headers["Content-Type"].startswith("text/event-stream"), answer
    events = re.findall(r"^event: (\w+)$", answer.data.decode(), re.MULTILINE)
    assert events[-1] == "done" and "progress" in events, events
