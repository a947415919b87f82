# SPDX-License-Identifier: Apache-2.0
"""What `constrictor run` does with ordinary code: values, errors, exit status, libraries.

Black box: code goes in by stdin, -c or a file, and the result object comes out. Streams and
libraries are the subjects of test_streams.py and test_libraries.py.
"""

import os
import re
import signal
import textwrap
import uuid

import pytest

FIELDS = {
    "execution_id",
    "verdict",
    "success",
    "exit_code",
    "signal",
    "phase",
    "stdout",
    "stderr",
    "result",
    "error",
    "usage",
    "isolation",
    "truncated",
    "limit",
    "environment",
    "hint",
}
USAGE = {
    "wall_ms",
    "queue_ms",
    "start_ms",
    "cpu_user_ms",
    "cpu_system_ms",
    "peak_memory_bytes",
    "processes",
    "output_bytes",
}


# --- the result object ----------------------------------------------------------------------------


def test_result_object(cli):
    result = cli.run("print('out')\nimport sys\nprint('err', file=sys.stderr)\n6 * 7")
    assert FIELDS <= set(result.json), FIELDS - set(result.json)
    assert result.status == 0
    assert (result.verdict, result.success, result.exit_code) == ("ok", True, 0)
    assert (result.signal, result.phase, result.error, result.limit) == (
        None,
        "execution",
        None,
        None,
    )
    assert (result.stdout, result.stderr) == ("out\n", "err\n")
    assert (result.result, result.result_json) == ("42", 42)
    assert result.truncated == {}
    assert uuid.UUID(result.execution_id).version == 4


def test_usage(cli):
    result = cli.run("x = bytearray(30 << 20)\nfor i in range(10**6): pass\nprint('123')")
    assert USAGE <= set(result.usage), result
    assert all(
        isinstance(result.usage[key], (int, float)) and result.usage[key] >= 0 for key in USAGE
    )
    assert result.usage["output_bytes"] == 4
    assert result.usage["wall_ms"] > 0
    assert result.usage["cpu_user_ms"] + result.usage["cpu_system_ms"] > 0
    assert result.usage["peak_memory_bytes"] >= 30 << 20
    assert result.usage["processes"] >= 1


def test_isolation_is_reported(cli):
    layers = cli.run("1").isolation
    for layer in ("user", "pid", "net", "seccomp"):
        assert any(layer in name for name in layers), layers
    assert all(isinstance(state, str) and state for state in layers.values())


def test_environment_is_reported(cli):
    result = cli.run("import sys\nprint('%d.%d.%d' % sys.version_info[:3], sys.executable)")
    version, executable = result.stdout.split()
    assert result.environment["version"] == version
    assert result.environment["python"]
    assert result.environment["preload_failed"] == []


def test_ids_differ(cli):
    assert cli.run("1").execution_id != cli.run("1").execution_id


# --- the value of the last expression -------------------------------------------------------------

VALUES = {
    "[1, 2.5, 'x', None, True]": [1, 2.5, "x", None, True],
    "{'a': {'b': [1]}}": {"a": {"b": [1]}},
    "'text'": "text",
    "'\\u00e9\\u4e2d\\U0001f600'": "é中😀",
    "0": 0,
    "1.5": 1.5,
    "False": False,
    "10**15": 10**15,
    "x = 3\nx": 3,
    "def f():\n    return 8\nf()": 8,
    "(1, 2)[0]": 1,
    "if True:\n    pass\n7": 7,
}


def test_a_semicolon_hides_the_value_as_in_notebooks(cli):
    result = cli.run("6 * 7;")
    assert result.result is None and result.verdict == "ok"


@pytest.mark.parametrize("code", VALUES)
def test_value_is_json(cli, code):
    result = cli.run(code)
    assert result.result_json == VALUES[code]
    assert isinstance(result.result, str)


@pytest.mark.parametrize(
    "code", ["object()", "{1, 2}", "lambda: 0", "print", "b'x'", "1j", "float('nan')"]
)
def test_value_that_is_not_json(cli, code):
    result = cli.run(code)
    assert isinstance(result.result, str) and result.result
    assert "result_json" not in result.json


@pytest.mark.parametrize(
    "code", ["", "# nothing", "x = 1", "None", "pass", "import os", "\n\n", "print()"]
)
def test_no_value(cli, code):
    result = cli.run(code)
    assert (result.verdict, result.result) == ("ok", None)


def test_value_is_not_printed(cli):
    assert cli.run("1 + 1").stdout == ""


def test_value_with_a_bad_repr(cli):
    code = "class A:\n    def __repr__(self): raise ValueError('no')\nA()"
    result = cli.run(code)
    assert result.verdict in ("ok", "error")
    assert result.status in (0, 1)


def test_value_that_prints_while_shown(cli):
    code = "class A:\n    def __repr__(self): print('shown'); return 'A!'\nA()"
    result = cli.run(code)
    assert (result.result, result.stdout) == ("A!", "shown\n")


def test_large_value_is_bounded(cli):
    result = cli.run("'x' * (20 << 20)")
    assert result.verdict in ("ok", "output_limit")
    assert len(result.raw) < 16 << 20


def test_value_full_of_commas(cli):
    """They stand in a string, and so are not values that a result may have only so many of."""
    result = cli.run("',' * 250_000")
    assert (result.verdict, len(result.result_json)) == ("ok", 250_000)


def test_recursive_value(cli):
    result = cli.run("a = []\na.append(a)\na")
    assert result.verdict == "ok"
    assert "result_json" not in result.json


# --- errors ---------------------------------------------------------------------------------------


def test_exception(cli):
    code = "def inner(n):\n    return 1 / n\n\ndef outer():\n    return inner(0)\n\nouter()\n"
    result = cli.run(code)
    assert (result.verdict, result.exit_code, result.status) == ("error", 1, 1)
    error = result.error
    assert (error["type"], error["message"]) == ("ZeroDivisionError", "division by zero")
    assert (error["line"], error["code_line"].strip()) == (2, "return 1 / n")
    frames = [(frame["line"], frame["function"]) for frame in error["traceback"]]
    assert frames == [(7, "<module>"), (5, "outer"), (2, "inner")]
    assert {"file", "line", "column", "function", "code_line"} <= set(error["traceback"][0])
    assert "ZeroDivisionError: division by zero" in error["text"]
    for word in ("runner.py", "zygote", "_constrictor", "/opt/constrictor"):
        assert word not in error["text"], f"a frame of the runner shows: {error['text']}"
    assert result.stderr == ""


def test_traceback_goes_to_stderr_without_json(cli):
    result = cli.plain("print('before')\n1 / 0")
    assert (result.status, result.out) == (1, "before\n")
    assert "ZeroDivisionError: division by zero" in result.err
    assert "line 2" in result.err
    assert "runner.py" not in result.err


def test_error_in_a_library_names_the_user_line(cli):
    result = cli.run("import json\n\njson.loads('{')")
    assert result.error["type"].endswith("JSONDecodeError")
    assert result.error["traceback"][0]["line"] == 3


def test_syntax_error(cli):
    result = cli.run("x = 1\nif x\n    pass\n")
    assert (result.verdict, result.phase, result.exit_code) == ("error", "syntax_check", 1)
    assert (result.error["type"], result.error["line"]) == ("SyntaxError", 2)
    assert result.error["code_line"].strip() == "if x"
    assert result.stdout == ""


@pytest.mark.parametrize(
    "code, kind",
    [
        ("  x = 1", "IndentationError"),
        ("if 1:\n\tx\n        y", "TabError"),
        ("return 1", "SyntaxError"),
        ("x = '", "SyntaxError"),
        ("(" * 5000, "SyntaxError"),
        ("print 'x'", "SyntaxError"),
    ],
)
def test_syntax_check(cli, code, kind):
    result = cli.run(code)
    assert result.phase == "syntax_check"
    assert result.error["type"] in (kind, "MemoryError", "RecursionError")
    assert result.exit_code == 1


@pytest.mark.parametrize(
    "code, kind",
    [
        ("undefined", "NameError"),
        ("import nothing_of_that_name", "ModuleNotFoundError"),
        ("class E(Exception):\n    def __str__(self): raise ValueError\nraise E", "E"),
        ("class E(BaseException): pass\nraise E('x')", "E"),
        ("def f(): f()\nf()", "RecursionError"),
        ("raise ValueError('\\ud800 \\x00 \\u4e2d')", "ValueError"),
        ("raise ValueError('x' * 10_000_000)", "ValueError"),
        ("assert 1 == 2, 'differs'", "AssertionError"),
        ("await 5", "TypeError"),
        ("exec('1/0')", "ZeroDivisionError"),
        ("eval('1 +')", "SyntaxError"),
    ],
)
def test_error_kinds(cli, code, kind):
    result = cli.run(code)
    assert (result.verdict, result.exit_code, result.phase) == ("error", 1, "execution")
    assert result.error["type"].split(".")[-1] == kind
    assert len(result.raw) < 8 << 20


def test_keyboard_interrupt(cli):
    """As in any Python: the status is that of a death by SIGINT."""
    result = cli.run("raise KeyboardInterrupt")
    assert (result.verdict, result.exit_code, result.status) == ("error", 130, 130)
    assert result.error["type"] == "KeyboardInterrupt"


def test_impossible_allocation(cli):
    """Refused by the allocator, not by the limit; either name tells the caller the truth."""
    result = cli.run("bytearray(1 << 60)")
    assert result.verdict in ("error", "out_of_memory")
    assert (result.error["type"], result.error["line"]) == ("MemoryError", 1)


def test_chained_exceptions(cli):
    code = "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e"
    error = cli.run(code).error
    assert error["type"] == "KeyError"
    assert "ZeroDivisionError" in error["text"] and "direct cause" in error["text"]


def test_input_answers_at_once(cli):
    result = cli.run("print('before')\ninput('name? ')\nprint('after')", "--wall", "20s")
    assert result.verdict == "error"
    assert result.error["type"] == "EOFError"
    assert re.search("stdin|input", result.error["message"])
    assert result.stdout.startswith("before\n")
    assert "after" not in result.stdout


def test_reading_stdin_gives_the_end(cli):
    assert cli.run("import sys\nsys.stdin.read()").result == "''"


# --- how it ends ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code, status",
    [
        ("import sys; sys.exit(0)", 0),
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit(3)", 3),
        ("raise SystemExit(255)", 255),
        ("exit(4)", 4),
        ("quit(5)", 5),
        ("import os; os._exit(6)", 6),
        ("import sys; sys.exit(256)", 0),
        ("import sys; sys.exit(-1)", 255),
        ("def f(): raise SystemExit(8)\nf()", 8),
    ],
)
def test_exit_status(cli, code, status):
    result = cli.run(code)
    assert (result.exit_code, result.status, result.signal) == (status, status, None)
    assert result.verdict == ("ok" if status == 0 else "error")


def test_exit_with_a_message(cli):
    result = cli.run("import sys; sys.exit('goodbye')")
    assert (result.exit_code, result.stderr) == (1, "goodbye\n")


@pytest.mark.parametrize(
    "name", ["SIGKILL", "SIGTERM", "SIGSEGV", "SIGABRT", "SIGUSR1", "SIGINT", "SIGALRM"]
)
def test_own_signal(cli, name):
    number = getattr(signal, name)
    code = (
        f"import os, signal\nsignal.signal({int(number)}, signal.SIG_DFL) if {int(number)} != 9"
        " else 0\n"
    )
    result = cli.run(
        code + f"print('before')\nos.kill(os.getpid(), {int(number)})\nwhile True: pass"
    )
    assert (result.verdict, result.signal, result.status) == ("error", number, 128 + number)
    assert result.stdout == "before\n"


def test_crash_in_c(cli):
    result = cli.run("import ctypes\nprint('before')\nctypes.string_at(8)")
    assert (result.verdict, result.signal, result.stdout) == ("error", signal.SIGSEGV, "before\n")


def test_abort(cli):
    result = cli.run("import os\nos.abort()")
    assert (result.signal, result.status) == (signal.SIGABRT, 134)


def test_exit_functions_run(cli):
    code = "import atexit\natexit.register(print, 'bye')\nprint('hello')"
    assert cli.run(code).stdout == "hello\nbye\n"


def test_waits_for_threads(cli):
    code = (
        "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.2),"
        " print('late'))).start()"
    )
    assert cli.run(code).stdout == "late\n"


def test_does_not_wait_for_daemon_threads(cli):
    code = (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,),"
        " daemon=True).start()\n1"
    )
    assert cli.run(code, "--wall", "20s").verdict == "ok"


def test_error_in_a_thread(cli):
    code = "import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start(); t.join()\n'on'"
    result = cli.run(code)
    assert (result.verdict, result.result) == ("ok", "'on'")
    assert "ZeroDivisionError" in result.stderr


# --- the surroundings that code expects -----------------------------------------------------------


def test_main_module(cli):
    code = (
        "import sys, __main__\nassert __name__ == '__main__'\nx = 5\nassert __main__.x == 5\n"
        "assert sys.modules['__main__'].__dict__ is globals()\nassert __builtins__\n"
        "if __name__ == '__main__': print('main')"
    )
    assert cli.run(code).stdout == "main\n"


def test_namespace_is_clean(cli):
    names = cli.run("sorted(n for n in dir() if not n.startswith('__'))").result_json
    assert names == []


def test_argv_stdin(cli):
    assert cli.run("import sys; sys.argv", args=["a", "b c", "-x", "--wall"]).result_json == [
        "-",
        "a",
        "b c",
        "-x",
        "--wall",
    ]


def test_argv_command(cli):
    result = cli.call("run", "--json", "-c", "import sys; sys.argv", "a", "--json", "é")
    assert result.result_json == ["-c", "a", "--json", "é"]


def test_argv_file(cli):
    (cli.folder / "script.py").write_text("import sys\nprint(sys.argv)\nraise SystemExit(2)")
    result = cli.call("run", "script.py", "1", "two")
    assert (result.status, result.out) == (2, "['script.py', '1', 'two']\n")


def test_file_name_in_traceback(cli):
    (cli.folder / "script.py").write_text("x = 1\n1 / 0\n")
    error = cli.call("run", "--json", "script.py").error
    assert error["traceback"][0]["file"].endswith("script.py")
    assert error["code_line"] == "1 / 0"


def test_dash_dash_ends_options(cli):
    (cli.folder / "-c").write_text("print('file')")
    assert cli.call("run", "--", "-c").out in ("file\n",)


def test_place_and_account(cli):
    code = (
        "import os, pwd, getpass, socket\nprint(os.getcwd(), os.environ['HOME'], getpass.getuser(),"
        " os.getuid(), os.uname().nodename)"
    )
    assert cli.run(code).stdout == "/mnt/data /mnt/data user 1000 box\n"


@pytest.mark.root
def test_a_server_that_the_scheduler_prefers_does_not_pass_it_on(cli):
    """A box at a negative nice starves the machine; and os.nice() failed in one. A higher value is ignored."""
    result = cli.run("import os\n[os.nice(0), os.nice(1)]", prefix=["nice", "-n", "-5"])
    expected = max(os.nice(0) - 5, 0)  # the tests may run at a higher value themselves
    assert result.result_json == [expected, expected]


def test_only_the_box_shows(cli):
    code = "import os; print(os.getuid(), os.listdir('/'), os.listdir('/proc'))"
    result = cli.call("run", "--python", "/usr/bin/python3", "-c", code)
    assert result.status == 0
    for word in ("'root'", "'home'", "'var'", "'sys'", "'meminfo'"):
        assert word not in result.out


def test_ports_and_protocols_have_names(cli):
    code = "import socket as s\n[s.getservbyname('https'), s.getservbyport(25), s.getprotobyname('tcp')]"
    assert cli.run(code).result_json == [443, "smtp", 6]


def test_scratch_is_writable(cli):
    code = (
        "import os\nfor f in ('/mnt/data', '/tmp', '/dev/shm', '.'):\n    open(f + '/x',"
        " 'w').write('y')\nos.path.abspath('x')"
    )
    assert cli.run(code).result == "'/mnt/data/x'"


def test_temporary_folders_are_links_into_scratch(cli):
    """Which users may make files there, and that others find nothing of it, is as in their own folders."""
    code = """
        import os, stat, tempfile
        places = "/tmp", "/dev/shm"
        modes = [stat.S_IMODE(os.stat(place).st_mode) for place in places]
        made = []
        for place in places:
            with tempfile.NamedTemporaryFile(dir=place) as f:
                made.append(os.path.realpath(f.name).rpartition("/")[0])
        try:
            os.unlink("/tmp")
        except OSError as exc:
            made.append(exc.strerror)
        [modes, made, tempfile.gettempdir(), [os.listdir(place) for place in places]]
    """
    modes, made, folder, left = cli.run(textwrap.dedent(code)).result_json
    assert modes == [0o1777, 0o1777] and folder == "/tmp" and left == [[], []]
    assert made[:2] == ["/mnt/tmp", "/mnt/shm"] and made[2] in ("Read-only file system", "Permission denied")


def test_randomness_differs_between_boxes(cli):
    """Boxes are forked from one zygote: what it knew must not be what they use."""
    code = (
        "import random, uuid, os, secrets, tempfile\n"
        "[random.random(), str(uuid.uuid4()), str(uuid.uuid1()), secrets.token_hex(8),"
        " os.urandom(8).hex(), tempfile.mktemp()]"
    )
    first, second = (cli.run(code).result_json for _ in range(2))
    assert len(first) == len(second) == 6
    assert [a for a, b in zip(first, second) if a == b] == []


def test_seeded_randomness_is_the_same(cli):
    code = "import random\nrandom.seed(7)\nrandom.random()"
    assert cli.run(code).result == cli.run(code).result


def test_top_level_await(cli):
    code = (
        "import asyncio\nasync def f(n):\n    await asyncio.sleep(0.01)\n    return n * 2\n"
        "results = await asyncio.gather(f(1), f(2))\nasync with asyncio.Lock():\n    pass\n"
        "await f(21)"
    )
    result = cli.run(code)
    assert (result.verdict, result.result) == ("ok", "42"), result


def test_error_after_await(cli):
    result = cli.run("import asyncio\nawait asyncio.sleep(0)\n1 / 0")
    assert (result.error["type"], result.error["line"]) == ("ZeroDivisionError", 3)


# --- the command itself ---------------------------------------------------------------------------


def test_version(cli):
    result = cli.call("--version")
    assert result.status == 0
    assert re.search(r"\d+\.\d+", result.out)


@pytest.mark.skipif(not os.path.exists("/etc/ssl/certs/ca-certificates.crt"), reason="this machine has no such file")
def test_whom_to_trust_is_known_without_network(cli):
    """Debian's requests and pip load it when they are imported, whether or not code connects."""
    code = ("import os, ssl\nssl.create_default_context(cafile='/etc/ssl/certs/ca-certificates.crt')\n"
            "print([n for _, d, f in os.walk('/etc/ssl') for n in d + f])")
    result = cli.call("run", "-c", code)
    assert (result.status, result.out) == (0, "['certs', 'ca-certificates.crt']\n"), result
