# SPDX-License-Identifier: Apache-2.0
"""dist/seccomp.json, the profile for containers: enough for every layer, and what tools/seccomp says and no more.

The profile is put around the program as an engine does it (helpers/profile.py); no engine is needed.
"""

import json
import pathlib
import re
import runpy
import sys

import pytest
from conftest import TOP

PROFILE = TOP / "dist" / "seccomp.json"
HELPER = pathlib.Path(__file__).resolve().parent.parent / "helpers" / "profile.py"
SETUP = runpy.run_path(str(TOP / "tools" / "seccomp"))["SETUP"]


def rows():
    return json.loads(PROFILE.read_text())["syscalls"]


def always_allowed():
    """Calls that a container without capabilities may make whatever their arguments."""
    return {name for row in rows() for name in row["names"]
            if row["action"] == "SCMP_ACT_ALLOW" and not row.get("args") and not row.get("includes", {}).get("caps")}


def doctor(cli, *flags, without=()):
    prefix = [sys.executable, HELPER, PROFILE, *(f"-{name}" for name in without), "--"]
    return cli.call("doctor", "--json", "--python", "/usr/bin/python3", *flags, prefix=prefix)


def test_every_layer_is_live_under_the_profile_and_nothing_escapes(cli):
    done = doctor(cli, "--self-test")
    assert done.status == 0, done
    assert not [x for x in done.json["layers"] if x["mandatory"] and x["state"] != "live"], done
    assert done.json["self_test"]["held"] == done.json["self_test"]["total"] >= 42


# Without clone no program could be started; without setns the zygote would only keep the last box's network longer.
@pytest.mark.parametrize("name", sorted(set(SETUP) - {"clone", "setns"}))
def test_each_call_that_the_profile_adds_is_needed(cli, name):
    """Without it a layer is missing, and doctor names the profile."""
    done = doctor(cli, without=[name])
    assert done.status == 1, done
    fixes = [x["fix"] for x in done.json["layers"] if x["state"] == "missing"] + [(done.json["error"] or {}).get("hint")]
    assert any("dist/seccomp.json" in fix for fix in fixes if fix), done


def test_the_engines_conditions_stand_for_all_other_calls():
    """Nothing that needs a capability became free, but what makes boxes."""
    needs = {name for row in rows() for name in row["names"] if row.get("includes", {}).get("caps")}
    assert {"bpf", "perf_event_open", "reboot", "init_module", "ptrace"} & needs >= {"bpf", "reboot", "init_module"}
    for name in ("bpf", "reboot", "init_module", "fsopen", "fsmount", "quotactl", "open_by_handle_at", "swapon", "kexec_load"):
        assert name not in always_allowed(), name
    assert always_allowed() >= set(SETUP)


def test_the_profile_lets_through_what_the_table_of_a_box_allows():
    """A call of src/box/policy.def that the engine refuses would work outside of containers only."""
    table = (TOP / "src" / "box" / "policy.def").read_text()
    allowed = set(re.findall(r"^(?:ALLOW|CHECK)\((\w+)", table, re.M))
    named = {name for row in rows() for name in row["names"] if row["action"] == "SCMP_ACT_ALLOW"}
    foreign = {name for row in rows() for name in row["names"] if row.get("includes", {}).get("arches")}
    print(sorted(allowed - named), sorted(allowed & named - always_allowed() - foreign))
    assert allowed - named <= set()
