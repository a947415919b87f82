# SPDX-License-Identifier: Apache-2.0
"""Code that lies about itself: the verdict stands, and what was printed stays text.

Output travels on two pipes and the result on a channel that the box's init holds. Code may print
whatever looks like a frame, may call the extension that the runner uses, and may die at any
point: how the run ended is what the kernel says, not what the box says.
"""

import json

import pytest

FORGED = json.dumps(
    {
        "execution_id": "00000000-0000-4000-8000-000000000000",
        "verdict": "ok",
        "success": True,
        "exit_code": 0,
        "stdout": "forged",
        "usage": {"wall_ms": 0},
    }
)
RESULT = json.dumps({"exit_code": 0, "phase": "execution", "result": "forged"})
# The extension is not on the code's path, but it is a file that the code can read.
LOAD = "import sys\nsys.path.insert(0, '/opt/constrictor')\nimport _constrictor\n"
SEND = LOAD + "send = _constrictor.send\n"

FRAMES = {
    "result_object": FORGED,
    "result_message": RESULT,
    "json_rpc": '{"jsonrpc": "2.0", "id": 1, "result": {}}',
    "content_length": "Content-Length: 2\r\n\r\n{}",
    "end_marker": "\x00\x00\x00\x00END\x00",
    "ndjson": '{"text": "x"}\n{"verdict": "ok"}\n',
    "sse": "event: end\ndata: {}\n\n",
    "http": "HTTP/1.1 200 OK\r\n\r\n",
    "binary": "".join(map(chr, range(128))),
    "outcomes": "<outcomes>{}</outcomes>",
}


@pytest.mark.parametrize("stream", [1, 2])
def test_frames_on_stdout_are_text(cli, stream):
    """All frames in one run: what comes back is what was written, byte for byte."""
    text = "".join(FRAMES.values())
    result = cli.run(f"import os\nos.write({stream}, {text.encode()!r})\nraise SystemExit(3)")
    assert (result.stdout, result.stderr)[stream - 1] == text
    assert (result.verdict, result.exit_code) == ("error", 3)
    assert result.execution_id != json.loads(FORGED)["execution_id"]


@pytest.mark.parametrize("name", sorted(FRAMES))
def test_plain_run_passes_bytes_through(cli, name):
    frame = FRAMES[name]
    result = cli.plain(f"import os\nos.write(1, {frame.encode()!r})\nraise SystemExit(4)")
    assert result.raw == frame.encode()
    assert result.status == 4


def assert_shape(result):
    """Whatever the box said, the object is of the documented shape."""
    error = result.error
    assert isinstance(result.stdout, str) and isinstance(result.stderr, str)
    assert result.exit_code is None or type(result.exit_code) is int
    assert result.result is None or isinstance(result.result, str)
    assert result.phase in ("execution", "syntax_check", "start")
    assert result.success == (result.verdict == "ok")
    if error is not None:
        assert isinstance(error["type"], str) and isinstance(error["message"], str), error
        assert isinstance(error["traceback"], list), error
        assert all(isinstance(frame, dict) for frame in error["traceback"]), error


# A message that says "done, exit status 0" is as good as leaving with status 0, but then it is the
# end: nothing of the code may run on behind a run that was reported as finished.
ENDINGS = {
    "exit": "import os\nos._exit(3)",
    "signal": "import os\nos.kill(os.getpid(), 9)",
    "timeout": "while True: time.sleep(1)",
    "memory": "x = []\nwhile True: x.append(bytearray(1 << 20))",
    "exception": "1 / 0",
    "late_output": "time.sleep(1); print('later', flush=True)",
    "child": (
        "import os\nif os.fork() == 0:\n    os.setsid(); time.sleep(1); print('later',"
        " flush=True)\nos._exit(3)"
    ),
}


@pytest.mark.parametrize("ending", sorted(ENDINGS))
def test_forged_result(cli, ending):
    code = SEND + f"import time\nsend(1, {RESULT.encode()!r})\n" + ENDINGS[ending]
    result = cli.run(code, "--wall", "3s", "--memory", "64M")
    assert_shape(result)
    assert "later" not in result.stdout
    if result.verdict == "ok":
        assert (result.exit_code, result.result) == (0, "forged")
        assert result.usage["wall_ms"] < 3000


@pytest.mark.parametrize(
    "payload",
    [
        "b''",
        "b'not json'",
        "b'\\xff\\xfe'",
        "b'[]'",
        "b'null'",
        "b'{'",
        'b\'{"exit_code": "many"}\'',
        "b'{\"exit_code\": 1e999}'",
        "b'{\"exit_code\": 99999999999999999999}'",
        'b\'{"exit_code": 0, "error": 7, "result": {}}\'',
        'b\'{"exit_code": 0, "error": {"type": [], "traceback": 3}}\'',
        "b'[' * 100000",
        "b'{\"exit_code\": 0, \"result\": \"' + b'x' * (3 << 20) + b'\"}'",
        "b'x' * (5 << 20)",
    ],
)
def test_garbage_on_the_result_channel(cli, payload):
    """The gate takes no harm and says nothing but the truth."""
    code = (
        SEND
        + f"import os\ntry: send(1, {payload})\nexcept Exception: pass\nprint('sent',"
        " flush=True)\nos._exit(5)"
    )
    result = cli.run(code)
    assert_shape(result)
    assert result.verdict in ("ok", "error", "lost", "denied"), result
    assert result.stdout in ("", "sent\n")
    assert cli.run("6 * 7").result == "42"


@pytest.mark.parametrize("kind", [0, 2, 3, 99, 255, 65536, -1, 2**31 - 1])
def test_unknown_message_kinds(cli, kind):
    code = SEND + f"import os\ntry: send({kind}, b'{{}}')\nexcept Exception: pass\nos._exit(6)"
    result = cli.run(code)
    assert result.verdict in ("error", "lost", "denied"), result
    if result.verdict == "error":
        assert result.exit_code == 6


def test_a_flood_of_messages(cli):
    code = SEND + f"for i in range(20000): send(1, {RESULT.encode()!r})\nimport os\nos._exit(7)"
    result = cli.run(code, "--wall", "60s")
    assert_shape(result)
    assert result.usage["wall_ms"] < 60000


def test_asking_for_another_run(cli):
    """A second receive() in the same box gets nothing that was meant for another box."""
    code = LOAD + "print(_constrictor.receive())"
    result = cli.run(code, "--wall", "2s")
    assert result.verdict in ("ok", "error", "timeout_wall", "lost", "denied")
    assert "(b" not in result.stdout


def test_the_zygote_calls_are_not_for_code(cli):
    code = (
        LOAD
        + "for call in (lambda: _constrictor.ready(b'{}'), lambda: _constrictor.serve(print)):\n"
        "    try: call()\n"
        "    except BaseException as error: print(type(error).__name__)\n"
    )
    result = cli.run(code, "--wall", "5s")
    assert result.verdict in ("ok", "error", "denied", "lost"), result


def test_forged_causes(cli):
    """Saying the words of a limit is not reaching it."""
    full = cli.run("import errno, os\nraise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))")
    assert (full.verdict, full.error["type"]) == ("error", "OSError")
    memory = cli.run("raise MemoryError")
    # This is how an allocation that was refused shows, so it has to be believed. It is about the code alone.
    assert (memory.verdict, memory.error["type"]) == ("out_of_memory", "MemoryError")
    busy = cli.run(
        "import errno\nraise BlockingIOError(errno.EAGAIN, 'Resource temporarily unavailable')"
    )
    assert busy.verdict == "error" or not busy.counted, busy
    for status in (121, 122, 123, 124, 125, 126, 130, 137):
        result = cli.run(f"raise SystemExit({status})")
        assert (result.verdict, result.exit_code, result.signal) == ("error", status, None)


def test_runner_is_patched(cli):
    """Code may break the runner around itself: the answer is still an answer."""
    code = (
        "import sys, builtins, json, os\n"
        "json.dumps = lambda *a, **k: '{}'\n"
        "builtins.repr = builtins.str = None\n"
        "sys.stdout = sys.stderr = None\n"
        "sys.modules.clear()\n"
        "os.write(1, b'here')\n"
        "1 / 0\n"
    )
    result = cli.run(code)
    assert result.stdout.startswith("here")
    assert not result.success


def test_overwritten_exit_functions(cli):
    code = "import os, sys\nos._exit = sys.exit = lambda *a: None\nraise SystemExit(9)"
    assert cli.run(code).exit_code == 9


@pytest.mark.parametrize("limit", ["RLIMIT_CPU", "RLIMIT_NOFILE", "RLIMIT_AS", "RLIMIT_STACK"])
def test_starving_the_init(cli, limit):
    """The box's init has the same uid as the code, which may therefore take its limits away."""
    code = (
        "import resource, time\n"
        f"try: resource.prlimit(1, resource.{limit}, (0, 0))\n"
        "except (OSError, ValueError) as error: print(type(error).__name__)\n"
        "print('on', flush=True)\n"
        "import os\nos.fork()\n"
        "2 + 2\n"
    )
    result = cli.run(code, "--wall", "10s")
    assert result.verdict in ("ok", "error", "lost", "denied"), result
    assert cli.run("40 + 2").result == "42"


def test_signals_at_the_init(cli):
    """From inside its namespace nothing can stop or end the init, so the run ends as usual.

    SIGINT is left out: the init passes it on, which is how a run is interrupted.
    """
    code = (
        "import os, signal\n"
        "for number in [1, *range(3, 65)]:\n"
        "    try: os.kill(1, number)\n"
        "    except OSError: pass\n"
        "print('on', flush=True)\n"
        "6 * 7\n"
    )
    result = cli.run(code, "--wall", "10s")
    assert (result.verdict, result.stdout, result.result) == ("ok", "on\n", "42")


@pytest.mark.parametrize("bits", ["0x40000000 | 39", "0x40000000"])
def test_foreign_abi_is_denied(cli, bits):
    """The one thing that kills: the verdict says that it was the wall."""
    code = f"import ctypes\nprint('before')\nctypes.CDLL(None).syscall({bits})\nprint('after')"
    result = cli.run(code)
    assert result.verdict == "denied", result
    assert result.status == 126
    assert result.stdout == "before\n"


def test_own_sigsys_is_not_the_wall(cli):
    """A process may send itself SIGSYS; that is an error of its own, or at least not a success."""
    result = cli.run("import os, signal\nos.kill(os.getpid(), signal.SIGSYS)")
    assert result.verdict in ("error", "denied")
    assert not result.success
