# SPDX-License-Identifier: Apache-2.0
"""`constrictor doctor`: what it says here, and what it says when a layer is taken away.

A layer is taken away in earnest, but only for the command under test: namespaces through the
limits of a nested user namespace, system calls through a filter as Docker's, capabilities through
the bounding set, a masked /proc in a mount namespace of its own.
"""

import ctypes
import errno
import json
import os
import platform
import re
import struct
import subprocess

import pytest
from rest_client import serve

LAYERS = "user pid mount ipc uts net root cap new_privs seccomp fd".split()


def flat(name):
    return re.sub(r"[^a-z]+", "_", name.lower())


# --- as it is -------------------------------------------------------------------------------------


def test_doctor(cli):
    result = cli.call("doctor")
    assert result.status == 0, result
    text = flat(result.out)
    for layer in LAYERS:
        assert layer in text, f"'{layer}' is not in:\n{result.out}"
    assert len(result.out.splitlines()) >= 10


def test_doctor_json(cli):
    result = cli.call("doctor", "--json")
    assert result.status == 0, result
    text = flat(json.dumps(result.json))
    for layer in LAYERS:
        assert layer in text, result


def test_self_test(cli):
    result = cli.call("doctor", "--self-test", guard=600)
    assert result.status == 0, result
    held, total = map(int, re.search(r"(\d+)\s*(?:/|of)\s*(\d+)", result.out).groups())
    assert held == total > 20, result


def test_self_test_json(cli):
    result = cli.call("doctor", "--self-test", "--json", guard=600)
    assert result.status == 0, result
    assert isinstance(result.json, dict)


def test_doctor_agrees_with_a_run(cli):
    """What a result says about its isolation is what the doctor says."""
    layers = cli.run("1").isolation
    text = cli.call("doctor").out
    assert [name for name in layers if flat(name) not in flat(text)] == []


# --- with something taken away --------------------------------------------------------------------


def refused(cli, prefix=(), preexec_fn=None, words=()):
    """Both commands say no: the doctor with 1, a run with 69, and both name the layer and a fix."""
    options = dict(prefix=prefix, preexec_fn=preexec_fn)
    doctor = cli.call("doctor", **options)
    assert doctor.status == 1, doctor
    run = cli.call("run", "-c", "print('ran')", **options)
    assert (run.status, run.out) == (69, ""), run
    assert "hint:" in run.err
    for word in words:
        assert word in flat(doctor.out + doctor.err), f"'{word}' is not in:\n{doctor!r}"
        assert word in flat(run.err), f"'{word}' is not in:\n{run.err}"
    return doctor, run


def degraded_name(cli, word):
    """The name of a layer as results spell it."""
    names = [name for name in cli.run("1").isolation if word in flat(name)]
    assert names, f"no layer like '{word}'"
    return names[0]


# Inside the namespace where the preparations were made, an ordinary user again.
AS_USER = 'exec unshare --user --map-user=1234 --map-group=1234 -- "$@"'


def without_namespaces(kind):
    """A command prefix: a nested user namespace with no namespace of this kind left to be had."""
    used = 1 if kind == "user" else 0  # AS_USER makes one
    script = f"echo {used} > /proc/sys/user/max_{kind}_namespaces && {AS_USER}"
    return ("unshare", "--user", "--map-root-user", "sh", "-c", script, "sh")


def can_nest():
    """Whether this user can make the nested user namespace that the tests below stand in."""
    done = subprocess.run([*without_namespaces("uts"), "true"], capture_output=True)
    return done.returncode == 0


KINDS = {"user": "user", "pid": "pid", "mnt": "m", "ipc": "ipc", "uts": "uts", "net": "net"}

if can_nest():

    @pytest.mark.parametrize("kind", sorted(KINDS))
    def test_without_a_namespace(cli, kind):
        refused(cli, prefix=without_namespaces(kind), words=[KINDS[kind]])

    @pytest.mark.parametrize("kind", ["net", "ipc", "uts"])
    def test_without_a_namespace_on_request(cli, kind):
        """Either it cannot be given up, and that is said, or the result shows that it was."""
        layer = degraded_name(cli, kind)
        prefix = without_namespaces(kind)
        result = cli.run("6 * 7", "--allow-degraded", layer, prefix=prefix)
        if result.status == 0:
            assert result.result == "42"
            assert result.isolation[layer].startswith("degraded")
        else:
            assert result.status == 64
            assert layer in result.json["error"]["message"] and result.json["error"]["hint"]

    MASK = "mount -t tmpfs none /proc/tty && "
    MASKED = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MASK + AS_USER, "sh")

    def test_masked_proc(cli):
        """As in a container: a part of /proc is covered, so the kernel gives no fresh one."""
        refused(cli, prefix=MASKED, words=["proc"])

    def test_masked_proc_on_request(cli):
        """--allow-degraded is the only way round, and the result says so."""
        result = cli.run("6 * 7", "--allow-degraded", "proc", prefix=MASKED)
        assert (result.verdict, result.result) == ("ok", "42"), result
        assert result.isolation["proc"].startswith("degraded")
        result = cli.call("run", "--allow-degraded", "seccomp", "-c", "1", prefix=MASKED)
        assert result.status == 69, "another layer's name must not help"

    def test_root_of_a_nested_namespace(cli):
        """uid 0 without rights outside: works like an ordinary user, or says what is missing."""
        result = cli.call(
            "run", "-c", "print('ran')", prefix=("unshare", "--user", "--map-root-user")
        )
        assert (result.status, result.out) in ((0, "ran\n"), (69, "")), result


def load(code, k):
    return struct.pack("<HBBI", code, 0, 0, k)


def jump_equal(value, yes, no):
    return struct.pack("<HBBI", 0x15, yes, no, value)


def filter_calls(rules):
    """A preexec function: {number: errno} answered by a filter, everything else as always.

    A rule may be (errno, mask): then only if the first argument has one of these bits.
    """
    program = b""
    for number, rule in rules.items():
        error, mask = rule if isinstance(rule, tuple) else (rule, None)
        program += load(0x20, 0)  # the number
        if mask is None:
            program += jump_equal(number, 0, 1)
        else:
            program += jump_equal(number, 0, 3)
            program += load(0x20, 16)  # the low half of the first argument
            program += struct.pack("<HBBI", 0x45, 0, 1, mask)  # any of these bits
        program += load(0x06, 0x00050000 | error)
    program += load(0x06, 0x7FFF0000)
    return install_program(program)


def install_program(program):
    text = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(text))
    header = ctypes.create_string_buffer(header, len(header))
    libc = ctypes.CDLL(None, use_errno=True)
    keep = (text, header)

    def install():
        libc.prctl(38, 1, 0, 0, 0)
        if libc.prctl(22, 2, keep[1], 0, 0) != 0:
            os._exit(99)

    return install


NEW_NAMESPACES = 0x7E020080
CALLS = {
    "clone": 56,
    "unshare": 272,
    "setns": 308,
    "mount": 165,
    "clone3": 435,
    "seccomp": 317,
    "openat2": 437,
}
CALLS.update(
    {"pivot_root": 155, "landlock": 444, "open_tree": 428, "move_mount": 429, "fsopen": 430}
)
CALLS.update(
    {"mount_setattr": 442, "close_range": 436, "pidfd_open": 434, "memfd_create": 319, "prctl": 157}
)

if platform.machine() == "x86_64":

    def test_docker_like_filter(cli):
        """Docker's default: every namespace call EPERM, clone3 ENOSYS."""
        install = filter_calls(
            {
                CALLS["clone"]: (errno.EPERM, NEW_NAMESPACES & ~0x80),
                CALLS["unshare"]: errno.EPERM,
                CALLS["setns"]: errno.EPERM,
                CALLS["mount"]: errno.EPERM,
                CALLS["clone3"]: errno.ENOSYS,
            }
        )
        doctor, run = refused(cli, preexec_fn=install)
        assert re.search("docker|container|seccomp", (doctor.out + run.err).lower()), (doctor, run)

    def no_seccomp():
        """Neither seccomp() nor prctl(PR_SET_SECCOMP): there is no filter to be had."""
        return install_program(
            load(0x20, 0)
            + jump_equal(CALLS["seccomp"], 0, 1)
            + load(0x06, 0x00050000 | errno.ENOSYS)
            + jump_equal(CALLS["prctl"], 0, 3)
            + load(0x20, 16)
            + jump_equal(22, 0, 1)
            + load(0x06, 0x00050000 | errno.EINVAL)
            + load(0x06, 0x7FFF0000)
        )

    def test_without_seccomp(cli):
        install = no_seccomp()
        refused(cli, preexec_fn=install, words=["seccomp"])
        result = cli.run("6 * 7", "--allow-degraded", "seccomp", preexec_fn=install)
        assert (result.verdict, result.result) == ("ok", "42"), result
        assert result.isolation["seccomp"].startswith("degraded")

    def test_without_seccomp_nothing_is_left_for_the_next_box(cli):
        """Then code can make what outlives its processes: each box has an ipc namespace of its own."""
        client = serve(cli, "--allow-degraded", "seccomp", "--stock", "1", preexec_fn=no_seccomp())
        code = (
            "import ctypes\nlibc = ctypes.CDLL(None)\n"
            "print(libc.shmget(77, 4096, 0o3666) >= 0, libc.msgget(77, 0o3666) >= 0,"
            " libc.semget(77, 1, 0o3666) >= 0)"
        )
        for _ in range(6):
            made = client.run(code)["stdout"].split()
            assert made == ["True"] * 3  # 0o3000: it fails where one is there already

    def test_without_landlock(cli):
        """Best available, not mandatory: the run works, and says that it is not there."""
        install = filter_calls({CALLS["landlock"]: errno.ENOSYS})
        result = cli.run("6 * 7", preexec_fn=install)
        assert result.result == "42", result
        states = [state for name, state in result.isolation.items() if "landlock" in flat(name)]
        assert states and not states[0].startswith("live"), result.isolation
        assert cli.call("doctor", preexec_fn=install).status == 0

    @pytest.mark.parametrize(
        "name",
        [
            "clone3",
            "openat2",
            "open_tree",
            "move_mount",
            "fsopen",
            "mount_setattr",
            "close_range",
            "pidfd_open",
            "memfd_create",
        ],
    )
    def test_without_a_young_call(cli, name):
        """An older kernel or a narrow filter: works by a fallback, or says what is missing."""
        install = filter_calls({CALLS[name]: errno.ENOSYS})
        result = cli.call("run", "-c", "print('ran')", preexec_fn=install)
        if result.status != 0:
            assert result.status == 69, result
            assert name in result.err or "hint:" in result.err
        else:
            assert result.out == "ran\n"


CAPABILITIES = {
    "chown": 0,
    "dac_override": 1,
    "fowner": 3,
    "kill": 5,
    "setgid": 6,
    "setuid": 7,
    "setpcap": 8,
    "net_admin": 12,
    "sys_chroot": 18,
    "sys_ptrace": 19,
    "sys_admin": 21,
    "sys_resource": 24,
    "mknod": 27,
}


@pytest.mark.root
@pytest.mark.parametrize("name", sorted(CAPABILITIES))
def test_root_without_a_capability(cli, name):
    """Root may lack any one of them: the command works, or says what is missing."""
    libc = ctypes.CDLL(None)

    def drop():
        libc.prctl(24, CAPABILITIES[name], 0, 0, 0)

    result = cli.call("run", "-c", "print('ran')", preexec_fn=drop)
    if result.status != 0:
        assert result.status == 69, result
        assert "hint:" in result.err
    else:
        assert result.out == "ran\n"


@pytest.mark.root
def test_root_without_any_capability(cli):
    libc = ctypes.CDLL(None)

    def drop():
        for number in range(41):
            libc.prctl(24, number, 0, 0, 0)

    result = cli.call("run", "-c", "print('ran')", preexec_fn=drop)
    assert (result.status, result.out) in ((0, "ran\n"), (69, "")), result


def test_nothing_is_degraded_silently(cli):
    """Allowing a layer to be missing does not take it away where it is there."""
    result = cli.run("1", "--allow-degraded", "seccomp,proc")
    assert result.isolation["seccomp"].startswith("live")
    assert result.isolation["proc"].startswith("live")


def test_doctor_needs_no_terminal(cli):
    """No colour codes in a pipe."""
    assert "\x1b" not in cli.call("doctor").out
