# SPDX-License-Identifier: Apache-2.0
"""An environment is exported here and imported where there is no network at all: in a copy of the state folder, and in
a folder that has never seen a package. Everything in it can be imported there, and no index was asked.

The second server has a network namespace of its own, in which there is nothing but a loopback; its clients, the command
line and one of REST, go there with nsenter. For root, who can make such a machine. What can be wrong with such a file is
in test_env_move.py and in the unit tests of the porter.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import wheel_lab
from conftest import TOP
from rest_client import serve

UV_PYTHON = TOP / "build/venv-net/bin/python"
PYTHON = UV_PYTHON if UV_PYTHON.exists() else sys.executable
ASK = """
import json, sys, urllib.error, urllib.request
for line in sys.stdin:
    path, body = json.loads(line)
    request = urllib.request.Request(f"http://127.0.0.1:{sys.argv[1]}/api/v1{path}", json.dumps(body).encode() if body
                                     is not None else None, {"Content-Type": "application/json"})
    try:
        answer = urllib.request.urlopen(request, timeout=60).read()
    except urllib.error.HTTPError as exc:
        answer = exc.read()
    print(json.dumps(json.loads(answer)), flush=True)
"""


def ask(server, *questions):
    """[path, body or None] each, asked from inside of the server's own network."""
    command = ["nsenter", "--net", "-t", str(server.process.pid), sys.executable, "-c", ASK, str(server.port)]
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


CHECK = """
import socket, lab_good, lab_needs, lab_data
try:
    socket.create_connection(("192.0.2.1", 80), 1)
except OSError:
    print(lab_good.VERSION, lab_data.x, lab_good.__file__.startswith("/opt/wheels/"))
"""


def stop(server):
    server.process.terminate()
    assert server.process.wait(30) == 0


def check(server, name):
    run, one, job = ask(
        server,
        ["/execute", {"code": CHECK, "environment": name, "stream": False}],
        [f"/environments/{name}", None],
        [f"/environments/{name}/packages", {"packages": "lab-mixed-name", "wait": 30}],
    )
    assert run["stdout"] == "2.0 1 True\n", run
    assert {item["name"]: item["version"] for item in one["lock"]} == {"lab-good": "2.0", "lab-needs": "1.0", "lab-data": "1.0"}
    assert job["state"] == "failed" and job["error"]["code"] == "index_unreachable" and job["error"]["hint"], job


@pytest.mark.root
def test_export_here_and_import_without_a_network(cli):
    flags = ("--python", PYTHON, "--stock", "2")
    with wheel_lab.Lab() as lab:
        wheel_lab.fill(lab)
        server = serve(cli, *flags, "--index-url", lab.url)
        server.post("/environments", {"name": "work"})
        job = server.post("/environments/work/packages", {"packages": "lab-needs lab-data", "wait": 60}).json
        assert job["state"] == "ready", job
        kept = cli.folder / "work.env"
        done = cli.call("env", "export", "work", kept, "--state", cli.folder / "state")
        assert done.status == 0 and kept.stat().st_size > 1000, done
        stop(server)
        asked = len(lab.requests)

        here = cli.folder / "state"
        copy = cli.folder / "copy"
        shutil.copytree(here, copy, symlinks=True, copy_function=shutil.copy2)
        for path in (here, *here.rglob("*")):           # owners as they were
            stat = path.lstat()
            os.chown(copy / path.relative_to(here), stat.st_uid, stat.st_gid, follow_symlinks=False)
        shutil.rmtree(here)
        for folder, name in (copy, "again"), (cli.folder / "never-used", "work"):
            folder.exists() or folder.mkdir()
            folder.rename(here)
            alone = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
            server = serve(cli, *flags, "--offline", prefix=alone)
            prefix = ("nsenter", "--net", "-t", str(server.process.pid))
            done = cli.call("env", "import", kept, name, "--state", here, prefix=prefix)
            assert done.status == 0, done
            check(server, name)
            stop(server)
            server = serve(cli, *flags, "--offline", prefix=alone)      # and it stays
            check(server, name)
            stop(server)
            here.rename(cli.folder / f"done-{name}")
        assert len(lab.requests) == asked
