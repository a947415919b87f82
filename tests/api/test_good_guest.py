# SPDX-License-Identifier: Apache-2.0
"""A good guest: what the machine around the server feels of it."""

import os
import pathlib
import sys

import pytest
from conftest import children, descendants, open_cli


@pytest.fixture(scope="module")
def cli(program):
    with open_cli(program) as cli:
        yield cli


def score(pid):
    return int(pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text())


def test_the_kernel_ends_a_box_before_the_server_when_memory_runs_out(cli):
    """Whatever score the server was started with: the processes that run code have the highest."""
    run = cli.ready("print('ready', flush=True)\nimport time\ntime.sleep(600)", "--python", "/usr/bin/python3")
    own = score(os.getpid())
    keeper, scores = run.pid, {pid: score(pid) for pid in descendants(run.pid)}
    assert score(keeper) == own
    assert 1000 in scores.values(), scores
    assert own == 1000 or {scores[pid] for pid in children(keeper)} & {own}, scores  # the gate is no box
    run.terminate()
    run.wait(600)
    run.stdout.close()
    run.stderr.close()


def test_a_box_cannot_make_itself_less_likely_to_be_ended(cli):
    done = cli.run("try: open('/proc/self/oom_score_adj', 'w').write('-1000')\nexcept OSError as e: print('refused')",
                   "--python", "/usr/bin/python3")
    assert done.stdout == "refused\n", done


POD = [sys.executable, pathlib.Path(__file__).resolve().parent.parent / "helpers" / "pod_ids.py"]
QUICK = ("--python", "/usr/bin/python3")


@pytest.mark.root
def test_boxes_have_uids_of_their_own_in_a_pod_with_a_user_namespace(cli, tmp_path):
    """Such a pod has the ids 0 to 65535, so --uid-base names some of those."""
    cli.folder.chmod(0o755)
    state = {"CONSTRICTOR_STATE": "/run/state"}
    done = cli.run("print('it ran')", *QUICK, "--uid-base", 20000, prefix=POD, env=state)
    assert (done.verdict, done.stdout) == ("ok", "it ran\n"), done
    assert done.isolation["uid"].startswith("live"), done
    done = cli.call("run", *QUICK, "-c", "1", prefix=POD, env=state)
    assert done.status == 69 and "--uid-base" in done.err, done


@pytest.mark.root
def test_a_box_never_gets_the_uid_of_a_user_of_the_machine(cli):
    done = cli.call("run", *QUICK, "--uid-base", 20000, "-c", "print('it ran')")
    assert done.status != 0 and "it ran" not in done.out and "65536" in done.err, done
