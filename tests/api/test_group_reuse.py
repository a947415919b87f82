# SPDX-License-Identifier: Apache-2.0
"""A box may get the control group of an earlier box: nothing that the earlier one did is counted to it."""

import pytest
from stdio_client import run_code, started


def structured(answer):
    return answer["result"]["structuredContent"]


FORKS = "import os\nfor i in range(200):\n    try: os.fork() or os._exit(0)\n    except OSError: pass"
EATS = "x = []\nwhile True: x.append(bytearray(1 << 20))"


@pytest.mark.parametrize(
    ("code", "flags"),
    [
        (FORKS, ["--processes", "1"]),
        (FORKS, ["--processes", "2"]),
        (EATS, ["--memory", "64M"]),
        ("open('/tmp/x', 'wb').write(bytes(30 << 20))", ["--memory", "128M"]),
        ("import os; os.write(1, bytes(60000)); os._exit(3)", []),
        ("x = 0\nfor i in range(2000000): x += i", ["--cpu", "5s"]),
    ],
    ids=["one process", "two processes", "memory", "scratch", "output", "cpu"],
)
def test_nothing_of_a_box_is_counted_to_the_next(cli, code, flags):
    """Boxes may get the groups of earlier ones, whatever those did."""
    client = started(cli, "--stock", "1", *flags)
    for id in range(8):
        client.ask(run_code(f"bad {id}", code))
        good = structured(client.ask(run_code(f"good {id}", "1")))
        assert good["verdict"] == "ok", good
        usage = good["usage"]
        assert usage["cpu_user_ms"] + usage["cpu_system_ms"] < 200, good
        if good["isolation"]["cgroup"].startswith("live"):  # else a short run can end before the first look at it
            assert usage["processes"] <= 1 and usage["peak_memory_bytes"] < 40 << 20, good
    assert client.end()[0] == 0


def test_forks_that_were_refused_to_one_box_do_not_end_the_next(cli):
    """Each stays below the number of refusals that ends a box; together they are above it."""
    client = started(cli, "--stock", "1", "--processes", "1")
    for id in range(8):
        result = structured(client.ask(run_code(f"{id}", FORKS + "\nimport time; time.sleep(.1)")))
        assert result["verdict"] == "ok", (id, result)
    assert client.end()[0] == 0
