# SPDX-License-Identifier: Apache-2.0
"""Where /etc/subuid allows it, each box of an ordinary user has a host uid of its own, as root's have (keeper/subids.h).

These tests need the package uidmap and an entry for the user that runs them, which tests/run makes."""

import os
import pathlib
import pwd
import subprocess

import pytest
from rest_client import serve

pytestmark = pytest.mark.user
COUNT = 4096


def ranges(file):
    """The uids, or gids, that this user may hand out."""
    names = {pwd.getpwuid(os.getuid()).pw_name, str(os.getuid())}
    lines = [line.split(":") for line in pathlib.Path(file).read_text().split()]
    return [range(int(first), int(first) + int(count)) for name, first, count in lines if name in names]


@pytest.fixture
def ids():
    if not os.access("/usr/bin/newuidmap", os.X_OK):
        pytest.skip("newuidmap is missing: install the package uidmap")
    if not all(any(len(r) >= COUNT for r in ranges(file)) for file in ("/etc/subuid", "/etc/subgid")):
        pytest.skip("this user has no ids in /etc/subuid or /etc/subgid: usermod --add-subuids")
    return max(ranges("/etc/subuid"), key=len), max(ranges("/etc/subgid"), key=len)


def boxes(api, tools):
    """The processes of boxes, each with its uids, gids and groups on the host."""
    found = []
    zygote = next(filter(tools.children, tools.children(api.process.pid)))
    for pid in tools.descendants(zygote):
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
        lines = dict(line.split(":", 1) for line in text.splitlines())
        found.append(tuple(list(map(int, lines[key].split())) for key in ("Uid", "Gid", "Groups")))
    return found


def test_each_box_has_ids_of_its_own_and_no_groups(cli, tools, ids):
    api = serve(cli, "--stock", "1")
    for name in "abc":
        result = api.run("import os\n(os.getuid(), os.getgid(), os.getgroups())", session=name)
        assert result["result"] == "(1000, 1000, [])"
        assert result["isolation"]["uid"].startswith("live")
    seen = boxes(api, tools)
    for uids, gids, groups in seen:
        assert len(set(uids)) == len(set(gids)) == 1 and not groups
        assert uids[0] in ids[0] and gids[0] in ids[1]
        assert uids[0] - ids[0][0] == gids[0] - ids[1][0]
    assert len({uids[0] for uids, _, _ in seen}) >= 3


def test_two_servers_of_one_user_share_no_uid(cli, tools, ids):
    if len(ids[0]) < 2 * COUNT:
        pytest.skip("too few ids for two servers")
    servers = [serve(cli, "--stock", "1") for _ in range(2)]
    for api in servers:
        api.run("1", session="one")
    one, other = ({uids[0] for uids, _, _ in boxes(api, tools)} for api in servers)
    assert one and other and not one & other


def test_a_box_ends_with_its_run_and_its_limits_hold(cli, tools, ids):
    """The keeper has another uid than the box: it must still see, count and kill it."""
    api = serve(cli, "--stock", "1")
    grow = "a = []\nwhile True: a.append(bytearray(1 << 20))"
    assert api.run(grow, memory_mb=64)["verdict"] == "out_of_memory"
    assert api.run("while True: pass", cpu_seconds=1)["verdict"] == "timeout_cpu"
    assert api.run("import time; time.sleep(60)", timeout=1)["verdict"] == "timeout_wall"
    fork = "import os, time\nif os.fork() == 0: time.sleep(600)\n'done'"
    assert api.run(fork)["result"] == "'done'"
    assert api.run("print(open('/dev/stdout', 'w').write('x'))")["verdict"] == "ok"

    def rest():
        return len({uids[0] for uids, _, _ in boxes(api, tools)}) <= 6

    assert tools.wait_until(rest)


def test_an_interpreter_that_others_may_not_read_works(cli, tools, ids):
    """Boxes have the caller's uid then, and doctor says why."""
    folder = cli.folder / "private"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", folder], check=True)
    secret = next(folder.rglob("site-packages")) / "own.py"
    secret.write_text("value = 42\n")
    secret.chmod(0o600)
    api = serve(cli, "--stock", "1", "--python", folder / "bin" / "python")
    result = api.run("from own import value\nvalue")
    assert result["result"] == "42", result
    assert "caller's uid" in result["isolation"]["uid"] and "own.py" in result["isolation"]["uid"]
    assert {uids[0] for uids, _, _ in boxes(api, tools)} == {os.getuid()}
    doctor = cli.call("doctor", "--python", folder / "bin" / "python")
    assert "own.py" in doctor.out and "chmod -R o+rX" in doctor.out, doctor


def test_doctor_names_the_ids(cli, ids):
    assert "of /etc/subuid" in cli.call("doctor").out


def test_without_new_privileges_boxes_have_the_callers_uid(cli, ids):
    """newuidmap is a setuid program; under NoNewPrivileges it gains nothing."""
    api = serve(cli, "--stock", "1", prefix=("setpriv", "--no-new-privs"))
    result = api.run("6 * 7")
    assert result["result"] == "42" and "newuidmap" in result["isolation"]["uid"], result
