# SPDX-License-Identifier: Apache-2.0
"""The tier "network": with it code reaches the hosts that the operator allows, without it none, whatever
the imports say. The far side of the laboratory sees what leaves."""

import pytest
from conftest import open_cli
from net_lab import Boxes

HOST = "--allow-host", "web.test:80"
# Imports are not what is tested here: the override lets code have all that it wants for its tricks.
MODULES = "--allowed-imports", "json,os,socket,sys,time,ctypes,urllib"
TRICK = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def raw():
    fd = libc.socket(2, 1, 0)
    if fd < 0: raise OSError(ctypes.get_errno(), "socket")
    address = bytes([2, 0, 0, 80, 44, 128, 0, 10]) + bytes(8)
    if libc.connect(fd, address, 16) < 0: raise OSError(ctypes.get_errno(), "connect")
    return "connected"
attempt(raw)
attempt(lambda: connect("web.test", 80))
attempt(lambda: socket.getaddrinfo("web.test", 80))
"""


@pytest.fixture(params=["tiers", "switch", "hosts"])
def on(request, program, lab):
    """The three ways to have the tier: named, switched on, or because hosts are allowed and no tiers named."""
    flags = {"tiers": ("--tiers", "basic,network"), "switch": ("--tiers", "basic", "--network", "on"), "hosts": ()}
    with open_cli(program) as cli:
        with Boxes(lab, cli, *HOST, *MODULES, "--policy", "guarded", *flags[request.param], "--stock", "1") as boxes:
            yield boxes


@pytest.fixture(scope="module")
def without(program, lab):
    with open_cli(program) as cli:
        with Boxes(lab, cli, *HOST, *MODULES, "--policy", "guarded", "--tiers", "basic", "--stock", "1") as boxes:
            yield boxes


@pytest.fixture(scope="module")
def mixed(program, lab):
    """Open, with tiers for the calls that ask for a policy."""
    with open_cli(program) as cli:
        with Boxes(lab, cli, *HOST, *MODULES, "--policy", "open", "--tiers", "basic", "--stock", "1") as boxes:
            yield boxes


def nothing_left(lab, ran):
    assert ran.verdict == "ok" and len(ran.attempts) == 3, ran
    assert all("error" in one for one in ran.attempts), ran
    assert list(lab.seen()) == [] and lab.hits() == [], ran
    assert ran.fields["network"] == "off", ran


def test_with_the_tier_allowed_hosts_are_reached(lab, on):
    ran = on.run('attempt(lambda: connect("web.test", 80))')
    assert "HTTP/1.1 200" in ran.attempt.get("value", ""), ran
    assert ran.fields["network"] != "off" and "network" in ran.security_observed, ran
    ran = on.run('attempt(lambda: connect("other.test", 80))')
    assert "error" in ran.attempt, ran


def test_without_the_tier_no_packet_leaves(lab, without):
    lab.clear()
    ran = without.run(TRICK)
    nothing_left(lab, ran)
    assert "network" not in ran.security_observed
    calls = [e["target"] for e in ran.security_events if e["layer"] == "seccomp"]
    assert "socket AF_INET" in calls, ran
    nothing_left(lab, without.run(TRICK, session="kept"))


def test_a_call_that_asks_for_a_policy_loses_what_its_tiers_lack(lab, mixed):
    assert "HTTP/1.1 200" in mixed.run('attempt(lambda: connect("web.test", 80))').attempt.get("value", "")
    lab.clear()
    nothing_left(lab, mixed.run(TRICK, policy="guarded"))
    nothing_left(lab, mixed.run(TRICK, policy="guarded", session="shut"))
    answer = mixed.python("1", policy="guarded", network={"allow": ["web.test:80"]})
    assert "no network" in str(answer), answer
    # The session that it opened stays without, and one that was open is shut for such a run.
    nothing_left(lab, mixed.run(TRICK, session="shut"))
