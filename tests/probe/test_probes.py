# SPDX-License-Identifier: Apache-2.0
"""Runs the probe table: each probe inside a box and, where that can be, outside as well.

One box runs all the snippets, one ordinary interpreter does the same, and each probe is a test
case that looks at its own outcome. The outside half proves that the probe measures something:
what is denied inside works outside, or at least fails for another reason.
"""

import ast
import functools
import platform

import harness
import probes
import pytest

if platform.machine() != "x86_64":
    pytest.skip("the probe table knows the numbers of x86-64 only", allow_module_level=True)


@functools.lru_cache(maxsize=None)
def outside_outcomes():
    return harness.run_outside(probes.PROBES)


@functools.lru_cache(maxsize=None)
def left_out():
    reasons = {}
    for probe in probes.PROBES:
        reason = harness.outside_applies(probe, outside_outcomes())
        if reason:
            reasons[probe.name] = reason
    return reasons


def pytest_generate_tests(metafunc):
    if "inside_probe" in metafunc.fixturenames:
        metafunc.parametrize("inside_probe", probes.PROBES, ids=lambda probe: probe.name)
    if "outside_probe" in metafunc.fixturenames:
        some = [probe for probe in probes.PROBES if probe.name not in left_out()]
        metafunc.parametrize("outside_probe", some, ids=lambda probe: probe.name)


@pytest.fixture(scope="session")
def inside_outcomes(shared_cli):
    return harness.run_inside(shared_cli, probes.PROBES, *harness.CLOSED)


def test_inside(inside_probe, inside_outcomes, record_property):
    outcome = inside_outcomes[inside_probe.name]
    if inside_probe.recorded:
        assert inside_probe.why, "a residual needs its reason"
        record_property("residual", f"{outcome}: {inside_probe.why}")
    assert not harness.broken(outcome), f"the probe failed: {outcome}\n{inside_probe.do}"
    assert harness.holds(
        outcome, inside_probe.inside
    ), f"inside: {outcome!r}, expected {inside_probe.inside!r}\n{inside_probe.do}"


@pytest.fixture(scope="session")
def network_outcomes(shared_cli):
    return harness.run_inside(shared_cli, probes.PROBES, *harness.NETWORK)


@pytest.fixture(scope="session")
def loopback_outcomes(shared_cli):
    return harness.run_inside(shared_cli, probes.PROBES)


def test_inside_with_loopback(inside_probe, loopback_outcomes):
    """The same walls around the box that there is by default, but for sockets of its own."""
    outcome = loopback_outcomes[inside_probe.name]
    assert not harness.broken(outcome), f"the probe failed: {outcome}\n{inside_probe.do}"
    expected = inside_probe.inside_with_network
    assert harness.holds(
        outcome, expected
    ), f"with loopback: {outcome!r}, expected {expected!r}\n{inside_probe.do}"


def test_inside_with_network(inside_probe, network_outcomes):
    """The same walls around a box that has network, but for those that the network needs."""
    outcome = network_outcomes[inside_probe.name]
    assert not harness.broken(outcome), f"the probe failed: {outcome}\n{inside_probe.do}"
    expected = inside_probe.inside_with_network
    assert harness.holds(
        outcome, expected
    ), f"with network: {outcome!r}, expected {expected!r}\n{inside_probe.do}"


def test_outside(outside_probe):
    outcome = outside_outcomes()[outside_probe.name]
    assert harness.outside_holds(
        outside_probe, outcome
    ), f"outside: {outcome!r}, expected {outside_probe.outside!r}\n{outside_probe.do}"


def test_names_are_unique():
    names = [probe.name for probe in probes.PROBES]
    assert len(names) == len(set(names))


def test_a_probe_without_an_outside_half_says_why():
    assert [p.name for p in probes.PROBES if p.outside is None and not p.why] == []


def test_an_outside_half_tells_something():
    """What is expected outside differs from what is expected inside, unless it must simply work."""
    same = []
    for probe in probes.PROBES:
        plain = not (callable(probe.inside) or callable(probe.outside) or probe.recorded)
        if plain and probe.outside is not None and probe.outside is not harness.DIFFERENT:
            inside = probe.inside if isinstance(probe.inside, tuple) else (probe.inside,)
            outside = probe.outside if isinstance(probe.outside, tuple) else (probe.outside,)
            if any(one in inside for one in outside) and inside != outside:
                same.append(probe.name)
    assert same == []


def test_most_outside_halves_apply(record_property):
    """Loses its meaning if a mistake in the harness lets too many halves drop out."""
    could = [p for p in probes.PROBES if p.outside is not None and harness.USERS[p.users]()]
    absent = [p.name for p in could if p.name in left_out()]
    record_property("left_out", str(left_out()))
    assert len(absent) < len(could) / 4, absent


@pytest.mark.parametrize("row", sorted(probes.ROWS))
def test_row_is_covered(row, tools):
    if row in probes.ELSEWHERE:
        file, name = probes.ELSEWHERE[row]
        tree = ast.parse((tools.top / "tests" / file).read_text())
        assert name in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    else:
        assert [probe for probe in probes.PROBES if probe.row == row]
