# SPDX-License-Identifier: Apache-2.0
"""What goes in and out of `constrictor run`: output, sources, and being told to stop.

Black box: output streams through while the code runs, is passed on byte for byte, and survives
every way in which a run can end.
"""

import json
import signal
import subprocess
import time

import pytest
from mcp_client import alive, marked

# --- streams --------------------------------------------------------------------------------------


def test_output_streams_through(cli):
    """The first line is there while the code still runs."""
    process = cli.ready("import time\nprint('first')\ntime.sleep(60)", mark=b"first\n")
    assert process.poll() is None


def test_streams_are_apart_and_in_order(cli):
    code = "import sys\nfor i in range(100): print(i); print(-i, file=sys.stderr)"
    result = cli.plain(code)
    assert result.out.split() == [str(i) for i in range(100)]
    assert result.err.split() == [str(-i) for i in range(100)]


def test_output_of_children(cli):
    code = (
        "import os, subprocess\nprint('a', flush=True)\nsubprocess.run(['/bin/echo',"
        " 'b'])\nos.system('echo c >&2')"
    )
    result = cli.run(code)
    assert (result.stdout, result.stderr) == ("a\nb\n", "c\n")


@pytest.mark.parametrize(
    "data",
    [b"\xff\xfe", b"\x00\x01", b"\xed\xa0\x80", b"\xc3", b"no newline", bytes(range(256)) * 40],
)
def test_bytes_that_are_not_text(cli, data):
    """The object stays valid JSON; the plain stream is passed on as it is."""
    code = f"import os\nos.write(1, {data!r})"
    result = cli.run(code)
    assert result.verdict == "ok"
    assert isinstance(result.stdout, str)
    assert result.usage["output_bytes"] == len(data)
    assert cli.plain(code).raw == data


def test_lone_surrogates(cli):
    result = cli.run("print('a\\ud800b')")
    assert result.verdict in ("ok", "error")
    assert isinstance(result.stdout, str)


def test_one_byte_writes(cli):
    result = cli.run("import os\nfor i in range(20000): os.write(1, b'x')")
    assert result.stdout == "x" * 20000


def test_closed_streams(cli):
    result = cli.run("import os\nprint('x', flush=True)\nos.close(1)\nos.close(2)\n5")
    assert result.stdout == "x\n"
    assert result.verdict in ("ok", "error")


def test_replaced_streams(cli):
    code = (
        "import io, sys, contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as s:"
        " print('kept')\nsys.stdout = io.StringIO()\nprint('lost')\ns.getvalue()"
    )
    result = cli.run(code)
    assert (result.stdout, result.result) == ("", "'kept\\n'")


def test_unflushed_output_of_an_early_exit(cli):
    """print() without a flush is there even if the interpreter has no chance to finish."""
    assert cli.run("import os\nprint('here')\nos._exit(0)").stdout == "here\n"


def test_reader_goes_away(cli):
    """As in `constrictor run ... | head -1`: the run ends, and nothing hangs."""
    process = cli.start("run", "-c", "while True: print('x' * 100)")
    process.stdout.read(10)
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert b"Traceback" not in err


def test_slow_reader(cli):
    """Output that the client does not read for a while waits; none of it is lost."""
    process = cli.start("run", "-c", "for i in range(20000): print('%09d' % i)")
    time.sleep(0.5)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.split() == [b"%09d" % i for i in range(20000)]


def test_full_disk_of_the_caller(cli):
    with open("/dev/full", "w") as full:
        process = cli.start("run", "-c", "print('x')", stdout=full)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 70
    assert b"No space left on device" in err


# --- where the code comes from --------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        b"print(7)",
        b"print(7)\r\n",
        b"\xef\xbb\xbfprint(7)",
        b"# -*- coding: utf-8 -*-\nprint(7)\n",
        b"#!/usr/bin/env python3\nprint(7)",
        b"from __future__ import annotations\nprint(7)",
        b"'''docstring'''\nprint(7)",
        "print(len('é中') + 5)".encode(),
        b"print(7)" + b"\n" * 100000,
    ],
)
def test_sources(cli, source):
    assert cli.run(source).stdout == "7\n"
    (cli.folder / "x.py").write_bytes(source)
    assert cli.call("run", "x.py").out == "7\n"


def test_source_from_a_pipe_that_is_slow(cli):
    process = cli.start("run", "-", stdin=subprocess.PIPE)
    process.stdin.write(b"print(")
    process.stdin.flush()
    time.sleep(0.3)
    out, _ = process.communicate(b"7)\n", timeout=60)
    assert out == b"7\n"


def test_large_source(cli):
    source = "x = '" + "y" * (6 << 20) + "'\nprint(len(x))"
    assert cli.run(source).stdout == f"{6 << 20}\n"


def test_the_script_is_not_executed_outside(cli):
    """-c with a path of the host: the code sees the box, not the caller's folder."""
    (cli.folder / "neighbour.py").write_text("x = 1")
    result = cli.run("import os, sys\nprint(os.path.exists('neighbour.py'))")
    assert result.stdout == "False\n"


# --- being told to stop ---------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_cancelled(cli, number):
    process = cli.ready("import time\nprint('ready')\nwhile True: time.sleep(1)")
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 130


def test_cancelled_with_json(cli, tools):
    process = cli.start("run", "--json", "-c", marked("json", "print('on', flush=True)\ntime.sleep(60)"))
    assert tools.wait_until(lambda: alive("json"))
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    result = json.loads(out)
    assert (result["verdict"], result["success"]) == ("cancelled", False)
