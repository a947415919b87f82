# SPDX-License-Identifier: Apache-2.0
"""Runs the probe table: once in a box, once in an ordinary python3, all snippets in one go each.

test_probes.py calls it, in the pytest process. The outside half runs when the tests are
collected, because it decides which outside halves apply: not every user may do everything, and
not every kernel has everything. An outside half that does not apply is not collected; `left_out`
says which and why.
"""

import dataclasses
import functools
import json
import os
import pathlib
import platform
import re
import resource
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import typing

import x86_64

HERE = pathlib.Path(__file__).resolve().parent
GUARD_S = 290
# Room for the batch itself: the limits are meant for the probes, not for the table.
FLAGS = (
    "--wall",
    "280s",
    "--cpu",
    "280s",
    "--memory",
    "1G",
    "--output",
    "16M",
    "--processes",
    "256",
)
# The outcomes of an outside half where this kernel lacks the feature.
ABSENT = ("ENOSYS", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "ENOENT", "ENODEV")


class Different:
    """Any outcome but those expected inside, and no failure of the probe itself."""

    def __repr__(self):
        return "anything else"


DIFFERENT = Different()
SAME = object()
# A box with network that may reach a name that does not exist.
NETWORK = ("--allow-host", "nobody.test")
# A box without TCP and UDP sockets.
CLOSED = ("--loopback", "off")


@dataclasses.dataclass(frozen=True)
class Probe:
    """One row, or one part of a row, of the probe table.

    inside, outside: the outcome, a tuple of outcomes, or a question (a function of the outcome).
    outside None: there is no outside half; `why` says why not.
    users: whose outside half it is: a key of USERS.
    recorded: not a boundary but a known residual; `why` is the reason we give for it.
    network: the outcome inside a box that has sockets for network or loopback, where it differs.
    """

    row: int
    name: str
    do: str
    inside: typing.Any
    outside: typing.Any = None
    users: str = "any"
    why: str = ""
    recorded: bool = False
    network: typing.Any = SAME

    @property
    def inside_with_network(self):
        return self.inside if self.network is SAME else self.network


def has_capability(number):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> number & 1)
    return False


USERS = {
    "any": lambda: True,
    "root": lambda: os.geteuid() == 0 and has_capability(21),  # CAP_SYS_ADMIN
    "user": lambda: os.geteuid() != 0,
    "core": lambda: resource.getrlimit(resource.RLIMIT_CORE)[1] != 0,
    "resource": lambda: has_capability(24),  # CAP_SYS_RESOURCE
}


@functools.lru_cache(maxsize=None)
def params():
    """What the snippets know about the host: things to look for and to reach."""
    folder = tempfile.TemporaryDirectory(prefix="constrictor-probe-")
    secret = pathlib.Path(folder.name, "secret")
    secret.write_text("a file of the host\n")
    listener = socket.create_server(("127.0.0.1", 0))

    def answer():
        while True:
            peer, _ = listener.accept()
            peer.close()

    threading.Thread(target=answer, daemon=True).start()
    unix = socket.socket(socket.AF_UNIX)
    abstract = "constrictor-probe-" + secrets.token_hex(8)
    unix.bind("\0" + abstract)
    unix.listen()
    return {
        "host_pid": os.getpid(),
        "host_uid": os.getuid(),
        "host_name": platform.node(),
        "host_ns": {
            name: os.stat(f"/proc/self/ns/{name}").st_ino for name in os.listdir("/proc/self/ns")
        },
        "secret_path": str(secret),
        "port": listener.getsockname()[1],
        "abstract": abstract,
        # The marker is a pattern, so that the text of a probe does not find itself.
        "canary_pattern": "canary-[0-9a-f]{32}",
        "_canary": "canary-" + secrets.token_hex(16),
        "_keep": (folder, listener, unix),
    }


def script(probes, **extra):
    told = {key: value for key, value in params().items() if not key.startswith("_")}
    job = {
        "nr": x86_64.NR,
        "params": {**told, **extra},
        "probes": [(probe.name, probe.do) for probe in probes],
    }
    text = (HERE / "inbox.py").read_text()
    return f"{text}\nmain(json.loads({json.dumps(job)!r}))\n"


def parse(text):
    found = re.search(r"<outcomes>(.*)</outcomes>", text, re.DOTALL)
    if not found:
        raise AssertionError(f"the probes did not report:\n{text[-3000:]}")
    return json.loads(found[1])


def run_outside(probes):
    """Runs all snippets in an ordinary interpreter, in a folder of their own, with the canary in reach."""
    probes = [probe for probe in probes if probe.outside is not None and USERS[probe.users]()]
    with tempfile.TemporaryDirectory(prefix="constrictor-outside-") as folder:
        done = subprocess.run(
            [sys.executable, "-I", "-", params()["_canary"]],
            input=script(probes, side="outside", tree=[folder], home=folder),
            cwd=folder,
            env={**os.environ, "CANARY": params()["_canary"], "HOME": folder, "TMPDIR": folder},
            capture_output=True,
            text=True,
            timeout=GUARD_S,
        )
        return parse(done.stdout + done.stderr)


def run_inside(cli, probes, *flags):
    """Runs them in one box; the canary is in the program's environment, arguments and files."""
    config = cli.folder / (params()["_canary"] + ".conf")
    config.write_text(f"# {params()['_canary']}\n")
    result = cli.run(
        script(probes, side="inside", tree=["/"], home="/mnt/data"),
        *FLAGS,
        *flags,
        "--config",
        config,
        env={"CANARY": params()["_canary"]},
        guard=GUARD_S,
    )
    if result.json.get("verdict") != "ok":
        raise AssertionError(f"the box with the probes did not end well:\n{result!r}")
    return parse(result.stdout)


def holds(outcome, expected):
    if callable(expected):
        return bool(expected(outcome))
    if isinstance(expected, tuple):
        return outcome in expected
    return outcome == expected


def broken(outcome):
    """Whether an outcome shows a broken probe rather than a wall."""
    return isinstance(outcome, str) and (outcome == "hang" or outcome.startswith("raised"))


def outside_holds(probe, outcome):
    if probe.outside is DIFFERENT:
        return not broken(outcome) and not holds(outcome, probe.inside)
    return holds(outcome, probe.outside)


def outside_applies(probe, outcomes):
    """Empty if the outside half applies here, else the reason why it does not."""
    if probe.outside is None:
        return probe.why or "has none"
    if not USERS[probe.users]():
        return f"applies to {probe.users} only"
    outcome = outcomes[probe.name]
    if not outside_holds(probe, outcome) and outcome in ABSENT:
        return f"this kernel has no such thing ({outcome})"
    return ""
