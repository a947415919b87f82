# SPDX-License-Identifier: Apache-2.0
"""A server without a key, on loopback: it serves the user that started it, and root. Other accounts of the machine
get 403, whatever they ask, unless the server was started with --allow-local-users.

Only root can be several users; as an ordinary user these tests show that the own user is served.
"""

import json
import os
import pwd
import re
import shutil
import subprocess
import sys

import pytest
from conftest import PROGRAM, open_cli, wait_until

ROOT = os.getuid() == 0
NOBODY = 65534
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
GUARDED = [
    ("GET", "/api/v1/sessions", None),
    ("POST", "/api/v1/execute", {"code": "1 + 1", "stream": False}),
    ("POST", "/api/v1/batch", {"items": [{"code": "1 + 1"}]}),
    ("GET", "/api/v1/nothing", None),
    ("GET", "/metrics", None),
    ("POST", "/mcp", INITIALIZE),
    ("GET", "/mcp", None),
    ("GET", "/sse", None),
    ("POST", "/messages?session_id=1", INITIALIZE),
]
ASK = """
import http.client, json, sys
host, port, asks = json.loads(sys.argv[1])
found = []
for method, path, body in asks:
    link = http.client.HTTPConnection(host, port, timeout=600)
    link.request(method, path, None if body is None else json.dumps(body),
                 {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"})
    answer = link.getresponse()
    stream = answer.status == 200 and "event-stream" in answer.headers["Content-Type"]
    found.append([answer.status, "" if stream else answer.read().decode()])
    link.close()
print(json.dumps(found))
"""
HIT_AND_RUN = """
import json, socket, sys
host, port, body = json.loads(sys.argv[1])
link = socket.create_connection((host, port))
body = json.dumps(body).encode()
link.sendall(b"POST /api/v1/sessions HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Type: application/json\\r\\n"
             b"Content-Length: %d\\r\\n\\r\\n%s" % (len(body), body))
link.close()
"""

only_root = pytest.mark.root    # who else could be several users?
HOSTS = ["127.0.0.1", "localhost"] + ["::1"] * os.path.exists("/proc/net/if_inet6")


def as_user(uid, script, argument):
    options = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
    done = subprocess.run([sys._base_executable if uid is None else "/usr/bin/python3", "-I", "-c", script,
                           json.dumps(argument)], cwd="/", capture_output=True, timeout=300, check=False, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask(server, uid, *asks):
    return json.loads(as_user(uid, ASK, [server.host, server.port, asks]))


def start(cli, *flags, user=None, host="127.0.0.1"):
    """`constrictor serve`, perhaps of another user."""
    state = cli.folder / "state"
    state.mkdir(exist_ok=True)
    options = {"env": {"CONSTRICTOR_HOST": host}}
    if user is not None:
        os.chown(state, user, user)
        for folder in (cli.folder, *cli.folder.parents):
            if folder.stat().st_uid == 0 and not folder.stat().st_mode & 1:
                folder.chmod(folder.stat().st_mode | 0o111)
        options |= {"user": user, "group": user, "extra_groups": [], "cwd": "/"}
    process = cli.start("serve", "--port", "0", "--state", state, "--legacy-sse", *flags,
                        stderr=subprocess.STDOUT, **options)
    text = ""
    while not (found := re.search(r"MCP\s+http://(\S+):(\d+)/mcp", text)):
        line = process.stdout.readline().decode()
        assert line, text
        text += line
    process.host, process.port = found[1].strip("[]"), int(found[2])
    return process


def check(server, uid, served):
    for (method, path, _), (status, text) in zip(GUARDED, ask(server, uid, *GUARDED), strict=True):
        if served:
            assert status != 403, (method, path, text)
            continue
        assert status == 403, (method, path, status, text)
        error = json.loads(text)["error"]
        assert error["code"] == "other_user" and "--allow-local-users" in error["hint"], error
        assert str(uid) in error["message"], error
    ((status, text),) = ask(server, uid, GUARDED[1])
    assert (status == 200 and json.loads(text)["result"] == "2") == served, text
    assert ask(server, uid, ("GET", "/health", None), ("GET", "/", None))[0][0] == 200


@pytest.fixture
def cli(program):
    with open_cli(program) as cli:
        yield cli


@pytest.mark.parametrize("host", HOSTS)
def test_the_user_that_started_it_is_served(cli, host):
    server = start(cli, host=host)
    check(server, None, True)
    if ROOT:
        check(server, NOBODY, False)


@only_root
def test_another_account_cannot_see_a_session(cli):
    server = start(cli)
    body = {"code": "secret = 'of root'", "stream": False, "session_id": "mine"}
    assert ask(server, None, ("POST", "/api/v1/execute", body))[0][0] == 200
    for path in ("/api/v1/sessions", "/api/v1/sessions/mine", "/api/v1/sessions/mine/variables"):
        ((status, text),) = ask(server, NOBODY, ("GET", path, None))
        assert status == 403 and "secret" not in text, text


@only_root
def test_a_request_of_a_client_that_has_gone_is_not_served(cli):
    """The kernel says uid 0 of a socket that is closed."""
    server = start(cli)
    for n in range(20):
        as_user(NOBODY, HIT_AND_RUN, [server.host, server.port, {"name": f"theirs-{n}"}])
    ((status, text),) = ask(server, None, ("GET", "/api/v1/sessions", None))
    assert status == 200 and "theirs" not in text, text


@only_root
def test_a_server_of_an_ordinary_user(cli):
    user = pwd.getpwnam("daemon").pw_uid
    # The tree may be below a folder that only root can enter.
    shutil.copytree(PROGRAM.parent / "python", cli.folder / "python")
    cli.program = shutil.copy2(PROGRAM, cli.folder)
    server = start(cli, user=user)
    wait_until(lambda: ask(server, user, ("GET", "/health", None))[0][0] == 200)
    for uid, served in ((user, True), (NOBODY, False), (0, True)):
        check(server, uid, served)


@only_root
def test_allow_local_users(cli):
    server = start(cli, "--allow-local-users")
    check(server, None, True)
    check(server, NOBODY, True)


@only_root
def test_with_a_key_every_user_may_come(cli):
    process = cli.start("serve", "--port", "0", env={"CONSTRICTOR_API_KEY": "ann:key-of-ann-1"})
    line = b""
    while b"MCP" not in line:
        line = process.stdout.readline()
    process.host, process.port = "127.0.0.1", int(re.search(rb":(\d+)/mcp", line)[1])
    ((status, text),) = ask(process, NOBODY, ("GET", "/api/v1/sessions", None))
    assert status == 401 and json.loads(text)["error"]["code"] == "key_required", text
