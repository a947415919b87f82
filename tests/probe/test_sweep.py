# SPDX-License-Identifier: Apache-2.0
"""The policy's proof: what it says, what a box answers, and what we agreed on, compared.

`constrictor doctor --dump-policy` prints the table that the filter is made from, one JSON object
per line; with --loopback off it prints that of a box without TCP and UDP. The committed copies
policy.<machine>.txt and policy.<machine>.closed.txt make every change of the policy a visible
diff; update-golden writes them anew.
"""

import json
import pathlib
import platform

import harness
import pytest
import sweep
import table_syscalls
import x86_64

HERE = pathlib.Path(__file__).parent
# kind: the flags that make such a box
KINDS = {"": (), ".closed": harness.CLOSED}

if platform.machine() != "x86_64":
    pytest.skip("the sweep knows the numbers of x86-64 only", allow_module_level=True)


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.strip(".") or "plain")
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def dump(shared_cli, kind):
    result = shared_cli.call("doctor", "--dump-policy", *KINDS[kind])
    assert result.status == 0, result
    return result.out


@pytest.fixture(scope="module")
def policy(dump):
    table = {}
    for line in dump.splitlines():
        row = json.loads(line)
        assert row["nr"] not in table, f"two rules for number {row['nr']}"
        table[row["nr"]] = row
    return table


def test_dump_is_well_formed(policy):
    assert len(policy) > 200
    for number, row in policy.items():
        action = row["action"]
        assert set(row) - {"checks", "told"} == {"nr", "name", "action"}, row
        assert row.get("told", True) is True and ("told" not in row or action.startswith("errno:"))
        assert ("checks" in row) == (action == "args"), row
        assert all(isinstance(check, str) and check for check in row.get("checks", [])), row
        assert action in ("allow", "args", "ignore", "errno:EPERM", "errno:ENOSYS"), row
        if number in x86_64.NAME:
            assert row["name"] == x86_64.NAME[number]


def test_golden_file_is_current(dump, kind):
    golden = HERE / f"policy.{platform.machine()}{kind}.txt"
    assert golden.exists(), f"no '{golden.name}': run tests/probe/update-golden"
    assert (
        dump == golden.read_text()
    ), "the policy changed: run tests/probe/update-golden and look at the diff"


def test_loopback_differs_in_sockets_only(shared_cli):
    def rows(kind):
        text = shared_cli.call("doctor", "--dump-policy", *KINDS[kind]).out
        return {row["name"]: row for row in map(json.loads, text.splitlines())}

    plain, network = rows(".closed"), rows("")
    assert [name for name in plain if plain[name] != network[name]] == ["socket"]
    assert plain["socket"]["checks"][3] == "arg0 in 0x1 else EAFNOSUPPORT, told"
    assert network["socket"]["checks"][:2] == [
        "arg0 not in 0x10 else EAFNOSUPPORT",
        "arg0 in 0x1,0x2,0xa else EAFNOSUPPORT, told",
    ]


def test_sweep(policy, shared_cli, kind):
    outcomes = harness.run_inside(
        shared_cli, [sweep.probe_of(number) for number in sweep.called()], *KINDS[kind]
    )
    complaints = []
    for number in sweep.called():
        name = sweep.name_of(number)
        action = policy.get(number, {"action": "errno:ENOSYS"})["action"]

        def native(number=number):
            probe = sweep.probe_of(number)
            return harness.run_outside([probe])[probe.name]

        complaints.append(sweep.judge(name, action, outcomes[name], native))
    assert [text for text in complaints if text] == []


@pytest.mark.parametrize("name", sorted(sweep.NEEDED))
def test_python_needs(name, policy):
    row = policy.get(x86_64.NR[name])
    assert row, f"'{name}' is not in the policy"
    assert row["action"] in ("allow", "args", "ignore")


@pytest.mark.parametrize(
    "name", sorted({call for *_, calls in table_syscalls.BAD_ARGUMENTS for call in calls})
)
def test_never_allowed(name, policy):
    action = policy.get(x86_64.NR[name], {"action": "errno:ENOSYS"})["action"]
    assert action.startswith("errno:"), action


@pytest.mark.parametrize(
    "name",
    "clone prctl ioctl socket socketpair personality fcntl execveat mmap madvise fallocate fadvise64"
    " memfd_create msync setpriority setsockopt".split(),
)
def test_arguments_decide(name, policy):
    assert policy[x86_64.NR[name]]["action"] == "args"


@pytest.mark.parametrize("name", "fcntl ioctl prctl fallocate madvise".split())
def test_what_is_allowed_is_listed(name, policy):
    """A value that a later kernel adds is refused: the policy lists what passes, not what does not."""
    assert policy[x86_64.NR[name]]["checks"][0].split()[1] == "in"


def test_only_these_are_ignored(policy):
    ignored = {row["name"] for row in policy.values() if row["action"] == "ignore"}
    assert ignored == {"fsync", "fdatasync", "sync_file_range", "sched_setaffinity"}
    partly = {row["name"] for row in policy.values() if "ignored" in str(row.get("checks"))}
    assert partly == {"setpriority", "msync", "fadvise64", "setsockopt"}


def test_nothing_unknown_is_allowed(policy):
    """A number that we have no name for has no business in the policy."""
    strangers = [row for number, row in policy.items() if number not in x86_64.NAME]
    assert [row for row in strangers if not row["action"].startswith("errno:")] == []
