# SPDX-License-Identifier: Apache-2.0
"""doctor, and what it and run say when a layer is taken away.

Layers are really taken away: by a filter around the program that refuses system calls (helpers/hide.c,
as container engines do), and by namespaces in which a limit is 0, /proc is masked or the cgroup file
system is read-only (helpers/nest.py). In every case doctor names the layer, the cause and the fix and
exits with 1 if the layer is mandatory, and run fails closed: status 69, the layer named, nothing runs.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from conftest import LOAD

HELPERS = pathlib.Path(__file__).resolve().parent.parent / "helpers"
STATES = {"live", "partial", "degraded", "missing", "untested"}
MANDATORY = 13
CANARY = "print('it' + ' ran')"
PYTHON = ("--python", "/usr/bin/python3")
DOCKER = ("clone3=ENOSYS", "clone:NEWUSER=EPERM", "unshare=EPERM", "mount=EPERM", "setns=EPERM")


@pytest.fixture(scope="session")
def hide(program, tmp_path_factory):
    """The program hide: built by meson with -Dtests=true, else compiled here."""
    built = program.parent / "hide"
    if os.access(built, os.X_OK):
        return built
    target = tmp_path_factory.mktemp("helpers") / "hide"
    compiler = shutil.which("cc") or pytest.fail("no C compiler to build tests/helpers/hide.c with")
    command = [compiler, "-D_GNU_SOURCE", "-O1", "-o", target, HELPERS / "hide.c", "-lseccomp"]
    subprocess.run(command, check=True)
    return target


@pytest.fixture
def without(hide):
    """The prefix that takes system calls away from the program."""
    return lambda *rules: [hide, *rules, "--"]


def nest(*steps):
    return [sys.executable, HELPERS / "nest.py", *steps, "--"]


def doctor(cli, *flags, prefix=(), **options):
    r = cli.call("doctor", "--json", *PYTHON, *flags, prefix=prefix, **options)
    assert r.status in (0, 1), r
    assert set(r.json) >= {"ok", "layers", "interpreter", "kernel", "cgroup_driver", "landlock_abi", "error"}
    assert r.ok is (r.status == 0), r
    assert {layer["state"] for layer in r.layers} <= STATES
    assert sum(layer["mandatory"] for layer in r.layers) == MANDATORY
    for layer in r.layers:
        assert layer["text"], layer
        assert layer["state"] in ("live", "untested") or layer["fix"], layer
    return r


def layer_of(r, name):
    return next(layer for layer in r.layers if layer["name"] == name)


def fails_closed(cli, layer, prefix, *flags, fix=""):
    r = cli.call("run", *PYTHON, *flags, "-c", CANARY, prefix=prefix)
    assert r.status == 69, r
    assert "it ran" not in r.out + r.err, r
    assert f"layer '{layer}'" in r.err, r
    assert "hint: " in r.err and fix in r.err, r


# ---- everything is there ------------------------------------------------------------------------------


def test_all_mandatory_layers_are_live(cli):
    r = doctor(cli)
    assert r.status == 0, r
    assert r.error is None
    assert [layer["name"] for layer in r.layers if layer["mandatory"] and layer["state"] != "live"] == []
    assert r.cgroup_driver in ("v1", "v2", "watch")
    assert layer_of(r, "cgroup")["state"] == ("partial" if r.cgroup_driver == "watch" else "live")
    assert r.interpreter["path"] == os.path.realpath("/usr/bin/python3")
    assert re.fullmatch(r"3\.\d+\.\d+", r.interpreter["version"])
    assert r.interpreter["tree"][0] == "/usr"


def test_a_box_is_looked_into(cli):
    """The texts come from inside a box, not from the configuration."""
    r = doctor(cli)
    assert layer_of(r, "pid_ns")["text"] == "own, the code is pid 2"
    assert layer_of(r, "uts_ns")["text"] == "own, host name box"
    assert layer_of(r, "fds")["text"] == "open: 0 1 2"
    assert "subset=pid" in layer_of(r, "proc")["text"]


def test_the_table_for_people(cli):
    r = cli.call("doctor", *PYTHON, "--preload", "json,no_such_module")
    assert r.status == 0, r
    assert r.err == ""
    assert "\033" not in r.out, "colours outside a terminal"
    assert re.search(r"^\* user_ns +live ", r.out, re.M)
    assert re.search(r"^  preloaded +json$", r.out, re.M)
    assert re.search(r"^  not preloaded no_such_module: ModuleNotFoundError", r.out, re.M)
    assert re.search(r"wall 30s, cpu \w+, memory 512M", r.out)
    assert r.out.endswith(f"All {MANDATORY} mandatory layers are live.\n")


def test_small_limits_do_not_disturb_doctor(cli):
    flags = "--wall=10ms --cpu=10ms --processes=1 --scratch=64K --inodes=16 --files=16 --file-size=4K".split()
    r = doctor(cli, *flags)
    assert r.status == 0, r
    assert r.json["limits"]["wall_ms"] == 10 and r.json["limits"]["processes"] == 1


def test_the_self_test_holds(cli):
    r = doctor(cli, "--self-test")
    assert r.error is None, r.error
    assert [x for x in r.layers if x["mandatory"] and x["state"] != "live"] == []
    assert [p for p in r.self_test["probes"] if not p["held"]] == []
    assert r.status == 0, r
    assert r.self_test["held"] == r.self_test["total"] == len(r.self_test["probes"]) >= 25
    r = cli.call("doctor", *PYTHON, "--self-test")
    assert r.status == 0, r
    total = len(re.findall(r"^  \w+ +held ", r.out, re.M))
    assert f"\n{total} of {total} probes held\n" in r.out and "BROKEN" not in r.out


def test_the_self_test_notices_a_missing_wall(cli, without):
    """Without the filter most probes of system calls get through, and doctor must say so."""
    flags = (*PYTHON, "--self-test", "--allow-degraded=seccomp")
    r = doctor(cli, *flags, prefix=without("prctl:22=EINVAL"))
    assert r.status == 1, r
    assert layer_of(r, "seccomp")["state"] == "degraded", r
    broken = {p["name"] for p in r.self_test["probes"] if not p["held"]}
    assert {"clone3", "unshare_user", "personality", "x32_abi", "socket_families", "ptrace"} <= broken, r
    assert "host_files" not in broken and "write_tree" not in broken and "processes_seen" not in broken, r
    r = cli.call("doctor", *flags, prefix=without("prctl:22=EINVAL"))
    assert r.status == 1, r
    assert re.search(r"^  x32_abi +BROKEN ", r.out, re.M), r
    assert "12 of 13 mandatory layers are live; 1 allowed to be missing by --allow-degraded" in r.out, r


def test_one_broken_probe(cli, without):
    """An answer that no probe expects: here, a kernel that does not know setuid()."""
    r = doctor(cli, "--self-test", prefix=without("setuid=ENOSYS"))
    assert r.status == 1 and r.error is None, r
    assert [p["name"] for p in r.self_test["probes"] if not p["held"]] == ["become_root"], r
    assert r.self_test["held"] == r.self_test["total"] - 1


def test_dump_policy(cli):
    r = cli.call("doctor", "--dump-policy")
    assert r.status == 0 and r.err == "", r
    rows = {row["name"]: row["action"] for row in map(json.loads, r.out.splitlines())}
    assert rows["read"] == "allow" and rows["mount"] == "errno:EPERM" and rows["clone3"] == "errno:ENOSYS"


def test_an_interpreter_that_is_none(cli):
    r = cli.call("doctor", "--json", "--python", "/usr/bin/true")
    assert r.status == 1 and r.ok is False, r
    assert r.error["code"] == "interpreter_unusable" and r.interpreter is None
    assert {layer["state"] for layer in r.layers if layer["mandatory"]} == {"untested"}


def test_a_bad_value_is_a_usage_error(cli):
    r = cli.call("doctor", "--allow-degraded=nonsense")
    assert r.status == 64 and "not an isolation layer" in r.err, r


# ---- a filter around the program ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rules, layer, text, fix",
    [
        (DOCKER, "user_ns", "clone(CLONE_NEWUSER): Operation not permitted", "as the default of container engines does"),
        (["clone3=ENOSYS"], "user_ns", "clone3: Function not implemented", "hides clone3"),
        (["sethostname=EPERM"], "user_ns", "gives no rights", "seccomp.json"),
        (["mount=EPERM"], "mount_ns", "mount: Operation not permitted", "seccomp.json"),
        (["unshare=EPERM"], "net_ns", "Operation not permitted", "seccomp.json"),
        (["open_tree=EPERM"], "root", "open_tree: Operation not permitted", "seccomp.json"),
        (["move_mount=ENOSYS"], "root", "move_mount: Function not implemented", "seccomp.json"),
        (["mount_setattr=ENOSYS"], "root", "mount_setattr: Function not implemented", "seccomp.json"),
        (["pivot_root=EPERM"], "root", "pivot_root: Operation not permitted", "seccomp.json"),
        (["umount2=EPERM"], "root", "umount2: Operation not permitted", "seccomp.json"),
        (["close_range=ENOSYS"], "fds", "close_range: Function not implemented", "seccomp.json"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, (list, tuple)) else None,
)
def test_a_call_is_refused(cli, without, rules, layer, text, fix):
    r = doctor(cli, prefix=without(*rules))
    assert r.status == 1, r
    found = layer_of(r, layer)
    assert found["state"] == "missing" and text in found["text"], r
    assert fix in found["fix"], r
    assert fix in r.error["hint"], r
    assert [x["name"] for x in r.layers if x["state"] == "missing" and x["mandatory"]] == [layer], r
    assert not [x["name"] for x in r.layers if x["state"] == "live" and x["mandatory"]], r
    fails_closed(cli, layer, without(*rules))


@pytest.mark.parametrize("rule, layer", [("prctl:22=EINVAL", "seccomp"), ("prctl:38=EPERM", "no_new_privs")])
def test_a_process_cannot_confine_itself(cli, without, rule, layer):
    r = doctor(cli, prefix=without(rule))
    assert r.status == 1, r
    assert layer_of(r, layer)["state"] == "missing" and layer_of(r, layer)["fix"], r
    r = cli.call("run", *PYTHON, "-c", CANARY, prefix=without(rule))
    assert r.status in (69, 70) and "it ran" not in r.out + r.err, r


@pytest.mark.parametrize(
    "number, text, fix",
    [
        ("ENOSYS", "this kernel has no Landlock", "Linux 5.13"),
        ("EOPNOTSUPP", "switched off", "lsm="),
        ("EPERM", "a system call filter refuses Landlock", "seccomp profile"),
    ],
)
def test_without_landlock(cli, without, number, text, fix):
    """Not mandatory: boxes are made, with a network namespace each, and every result says so."""
    prefix = without(f"landlock_create_ruleset={number}")
    r = doctor(cli, prefix=prefix)
    assert r.status == 0, r
    found = layer_of(r, "landlock")
    assert found["state"] == "missing" and text in found["text"] and fix in found["fix"], r
    assert r.landlock_abi == 0
    r = cli.run("1", *PYTHON, prefix=prefix)
    assert r.verdict == "ok" and r.isolation["landlock"].startswith("missing: "), r


def test_the_table_is_whole_when_nothing_works(cli, without):
    r = cli.call("doctor", *PYTHON, prefix=without(*DOCKER))
    assert r.status == 1, r
    assert len(re.findall(r"^[* ] \w+ +(?:live|partial|missing|untested) ", r.out, re.M)) == 16, r
    assert re.search(r"^\* user_ns +missing +clone3: .*\n      fix: .*--security-opt seccomp=", r.out, re.M), r
    assert re.search(r"^No box can be made here: layer 'user_ns': ", r.out, re.M), r
    assert "see 'constrictor doctor'" not in r.out, r


# ---- surroundings that lack something ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, layer",
    [
        ("user", "user_ns"),
        ("pid", "pid_ns"),
        ("mnt", "mount_ns"),
        ("ipc", "ipc_ns"),
        ("uts", "uts_ns"),
        ("net", "net_ns"),
        ("cgroup", "cgroup_ns"),
    ],
)
def test_namespaces_are_switched_off(cli, name, layer):
    prefix = nest("user", f"limit={name}=0")
    r = doctor(cli, prefix=prefix)
    assert r.status == 1, r
    found = layer_of(r, layer)
    assert found["state"] == "missing", r
    assert f"{name} namespaces are switched off (user.max_{name}_namespaces = 0)" in found["text"], r
    assert found["fix"] == f"sysctl -w user.max_{name}_namespaces=10000", r
    if name != "cgroup":  # made inside the box: run learns only that it failed
        fails_closed(cli, layer, prefix, fix=found["fix"])
    else:
        fails_closed(cli, layer, prefix)


def test_a_namespace_limit_that_is_reached(cli):
    r = doctor(cli, prefix=nest("user", "limit=net=1"))
    if r.status:  # with Landlock scopes, boxes share the zygote's one
        assert "the limit of net namespaces is reached" in layer_of(r, "net_ns")["text"], r


def test_masked_proc(cli):
    prefix = nest("user", "mounts", "mask=/proc/cpuinfo", "mask=/proc/version")
    r = doctor(cli, prefix=prefix)
    assert r.status == 1, r
    found = layer_of(r, "proc")
    assert found["state"] == "missing", r
    assert "/proc is masked" in found["text"] and "'/proc/cpuinfo' and 1 more are covered" in found["text"], r
    for word in ("systempaths=unconfined", "unmask=ALL", "procMount: Unmasked", "--allow-degraded=proc"):
        assert word in found["fix"], r
    fails_closed(cli, "proc", prefix, fix="unmask=ALL")


def test_masked_proc_can_be_given_up(cli):
    prefix = nest("user", "mounts", "mask=/proc/cpuinfo")
    r = doctor(cli, "--allow-degraded=proc", prefix=prefix)
    assert r.status == 1 and r.error is None, r
    assert layer_of(r, "proc")["state"] == "degraded", r
    assert [x["name"] for x in r.layers if x["mandatory"] and x["state"] != "live"] == ["proc"], r
    r = cli.run("import os; os.listdir('/proc')", "--allow-degraded=proc", *PYTHON, prefix=prefix)
    assert r.verdict == "ok" and r.result == "[]", r
    assert r.isolation["proc"].startswith("degraded: "), r


def test_a_server_without_proc(cli):
    """A warm zygote learns from /proc what boxes will need; it does without."""
    prefix = nest("user", "mounts", "mask=/proc/cpuinfo")
    load = '{"runs": 20, "at_once": 8}'
    r = cli.call("--allow-degraded=proc", *PYTHON, load, program=LOAD, prefix=prefix)
    assert r.status == 0 and json.loads(r.out)["failed"] == 0, r


def test_ubuntu_takes_the_rights_of_user_namespaces(cli, without):
    """The sysctl is a file that we put there; the effect is that of Ubuntu's AppArmor profile."""
    prefix = [
        *nest("user", "mounts", "file=/proc/sys/kernel/apparmor_restrict_unprivileged_userns=1\n"),
        *without("sethostname=EPERM", "mount=EACCES"),
    ]
    r = doctor(cli, prefix=prefix)
    assert r.status == 1, r
    found = layer_of(r, "user_ns")
    assert found["state"] == "missing", r
    assert "kernel.apparmor_restrict_unprivileged_userns=1" in found["fix"] and "'userns,'" in found["fix"], r
    fails_closed(cli, "user_ns", prefix, fix="'userns,'")


def test_what_is_there_is_not_given_up(cli):
    r = doctor(cli, "--allow-degraded=seccomp,proc,landlock")
    assert r.status == 0, r


@pytest.mark.user
def test_an_ordinary_user_has_no_cgroup_or_is_delegated_one(cli):
    r = doctor(cli)
    found = layer_of(r, "cgroup")
    assert found["state"] in ("live", "partial"), r
    assert found["state"] == "live" or "root" in found["fix"] or "Delegate=yes" in found["fix"], r
    uid = layer_of(r, "uid")
    assert uid["state"] == "partial" or "/etc/subuid" in uid["text"], r


@pytest.mark.root
def test_read_only_cgroups(cli):
    prefix = nest("mounts", "read-only=/sys/fs/cgroup")
    r = doctor(cli, prefix=prefix)
    assert r.status == 0, r
    found = layer_of(r, "cgroup")
    assert found["state"] == "partial" and r.cgroup_driver == "watch", r
    assert "Read-only file system" in found["text"] and "writable-cgroups=true" in found["fix"], r
    r = cli.run("1", *PYTHON, prefix=prefix)
    assert r.verdict == "ok" and r.isolation["cgroup"].startswith("partial: "), r


@pytest.mark.root
def test_no_cgroups_at_all(cli):
    r = doctor(cli, prefix=nest("mounts", "hide=/sys/fs/cgroup"))
    assert r.status == 0, r
    found = layer_of(r, "cgroup")
    assert found["state"] == "partial" and "not mounted" in found["text"], r
    assert "mount the cgroup file system" in found["fix"], r


@pytest.mark.root
def test_root_without_the_right_to_change_uid(cli):
    prefix = ["setpriv", "--bounding-set=-setuid", "--inh-caps=-setuid", "--"]
    r = doctor(cli, prefix=prefix)
    assert r.status == 1, r
    found = layer_of(r, "uid")
    assert found["state"] == "missing" and "CAP_SETUID" in found["fix"], r
    fails_closed(cli, "uid", prefix, fix="CAP_SETUID")
