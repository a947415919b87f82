# SPDX-License-Identifier: Apache-2.0
"""The host loses no more to a box than the box's memory limit, whatever kernel objects its code makes.

table_charges.py has the rows. tests/run runs this file alone: what is measured is the whole machine's memory.
"""

import contextlib
import pathlib

import charges
import pytest
from table_charges import ROWS

HUGE_PAGES = pathlib.Path("/proc/sys/vm/nr_hugepages")


@pytest.fixture(scope="module")
def driver(shared_cli):
    """Which of the table's columns applies here."""
    layer = shared_cli.run("pass").isolation["cgroup"]
    return {"live: v1": "v1", "live: v2": "v2"}.get(layer, "watch")


@pytest.fixture(scope="module", autouse=True)
def huge_pages():
    """The host has some that a box could take, where this caller may say so."""
    before = HUGE_PAGES.read_text() if HUGE_PAGES.exists() else ""
    with contextlib.suppress(OSError):
        if int(before or 1) == 0:
            HUGE_PAGES.write_text("32")
    yield
    with contextlib.suppress(OSError):
        HUGE_PAGES.write_text(before)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_host_loses_no_more_than_the_limit(row, cli, driver):
    most, wrong = charges.judge(row, [str(cli.program)], driver, env=cli.environ())
    print(f"{row.name}: the host lost {most:.0f} MB of {row.bound_mb(driver)}")
    assert not wrong, wrong


def test_every_row_has_a_bound_for_each_driver():
    assert len({row.name for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert row.v1 and row.v2 and row.watch, row.name


SHARING = """
import mmap, os, time
shared = mmap.mmap(-1, 20 << 20)
shared.write(bytes(20 << 20))
for _ in range(8):
    if os.fork() == 0:
        for at in range(0, 20 << 20, 4096): shared[at]
        time.sleep(1)
        os._exit(0)
for _ in range(8): os.wait()
print("all")
"""


def test_shared_memory_without_a_name_counts_once(cli):
    """Nine processes have the same 20 MB in sight: that is neither 180 MB nor memory that was hidden."""
    result = cli.run(SHARING, "--memory", "128M")
    assert (result.verdict, result.stdout) == ("ok", "all\n"), result


ENLARGING = """
import socket
for end in socket.socketpair():
    for option in socket.SO_SNDBUF, socket.SO_RCVBUF:
        before = end.getsockopt(socket.SOL_SOCKET, option)
        end.setsockopt(socket.SOL_SOCKET, option, 1 << 30)
        assert end.getsockopt(socket.SOL_SOCKET, option) == before, option
    for option in 32, 33:
        try: end.setsockopt(socket.SOL_SOCKET, option, 1 << 30)
        except PermissionError: continue
        raise AssertionError(option)
print("all")
"""


def test_code_cannot_enlarge_the_buffers_of_sockets(cli):
    """A program that asks goes on, with the buffers that it has: see RULE_SETSOCKOPT."""
    result = cli.run(ENLARGING)
    assert (result.verdict, result.stdout) == ("ok", "all\n"), result
