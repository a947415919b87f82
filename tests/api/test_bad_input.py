# SPDX-License-Identifier: Apache-2.0
"""Bad input: a clear message with a code and a hint, the documented exit status, nothing left
behind.

The fixture `cli` checks after each test that no process is left; test_leaks.py looks at the rest.
"""

import json
import os
import re

import pytest

SHAPE = re.compile(
    r"\Aconstrictor: error: (?P<message>.+) \[(?P<code>[a-z0-9_]+)\]\n(?:  +hint: (?P<hint>.+)\n)?",
    re.S,
)


@pytest.fixture
def refuse(cli):
    """A command that must be refused, in both forms; returns the message and the hint."""

    def run(status, *args, code=None, words=(), **options):
        plain = cli.call(*args, **options)
        assert plain.status == status, plain
        assert plain.out == "", plain
        found = SHAPE.match(plain.err)
        assert found, f"not 'constrictor: error: MESSAGE [CODE]': {plain.err!r}"
        assert found["hint"], f"no hint: {plain.err!r}"
        assert "\x1b" not in plain.err
        if code:
            assert found["code"] == code, plain
        for word in words:
            assert word in plain.err, f"'{word}' is not named: {plain.err!r}"
        if args and args[0] == "run":
            again = cli.call("run", "--json", *args[1:], **options)
            assert again.status == status
            error = again.json["error"]
            assert error["code"] == found["code"]
            assert error["message"] and error["hint"]
        return found["message"], found["hint"]

    return run


# --- sources --------------------------------------------------------------------------------------


def test_missing_file(refuse):
    refuse(66, "run", "nothing.py", code="source_unreadable", words=["nothing.py"])


def test_directory(refuse):
    refuse(66, "run", "/tmp", code="source_unreadable", words=["/tmp"])


def test_file_below_a_file(refuse):
    refuse(66, "run", "/dev/null/x.py", code="source_unreadable")


@pytest.mark.user
def test_unreadable_file(cli, refuse):
    file = cli.folder / "secret.py"
    file.write_text("1")
    file.chmod(0)
    refuse(66, "run", file, code="source_unreadable", words=["secret.py"])


def test_name_too_long(refuse):
    refuse(66, "run", "x" * 5000, code="source_unreadable")


def test_strange_names(refuse):
    refuse(66, "run", "a\nb\x1b[31m'\\.py", code="source_unreadable")


@pytest.mark.parametrize("name", ["nul", "utf8", "latin1", "utf16", "large"])
@pytest.mark.parametrize("way", ["file", "stdin"])
def test_unusable_source(cli, refuse, name, way):
    source, code = {
        "nul": (b"print(1)\0print(2)", "source_has_nul_byte"),
        "utf8": (b"print('\xff\xfe')", "source_not_utf8"),
        "latin1": ("print('é')".encode("latin-1"), "source_not_utf8"),
        "utf16": ("print(1)".encode("utf-16"), None),
        "large": (b"#" * (10 << 20), "source_too_large"),
    }[name]
    if way == "file":
        (cli.folder / "x.py").write_bytes(source)
        refuse(65, "run", "x.py", code=code)
    else:
        refuse(65, "run", "-", code=code, input=source)


def test_source_limit_is_configurable(cli, refuse):
    refuse(65, "run", "--source", "10", "-c", "print(12345)", code="source_too_large", words=["10"])
    assert cli.run("print(1)", "--source", "8").stdout == "1\n"


def test_endless_source(refuse):
    refuse(65, "run", "/dev/zero")


def test_bad_utf8_as_argument(refuse):
    refuse(65, "run", "-c", os.fsdecode(b"print('\xff')"), code="source_not_utf8")


def test_empty_sources_are_fine(cli):
    assert cli.run(b"").verdict == "ok"
    assert cli.call("run", "/dev/null").status == 0


# --- values ---------------------------------------------------------------------------------------

NUMBERS = "wall cpu memory processes scratch inodes files file-size output source".split()
BAD = [
    "0",
    "-1",
    "1e30",
    "lots",
    "",
    "nan",
    "inf",
    "1x",
    " ",
    "0x10",
    "1 2",
    "9" * 40,
    "1;2",
    "٣",
    "--",
    "+",
]


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("key", NUMBERS)
def test_bad_values(cli, key, value):
    result = cli.call("run", f"--{key}", value, "-c", "print('ran')")
    assert result.status == 64, result
    assert "ran" not in result.out
    found = SHAPE.match(result.err)
    assert found and found["code"] == "bad_value", result
    assert key in found["message"]
    assert f"'{value}'" in found["message"] or value.strip() and value in found["message"], result
    assert found["hint"] and re.search(
        r"\d", found["message"] + found["hint"]
    ), "the bounds are not named"


@pytest.mark.parametrize("value", ["-1", "lots", "", "1e30", "5000", "nan"])
def test_bad_stock(refuse, value):
    refuse(64, "run", "--stock", value, "-c", "1", code="bad_value", words=["stock"])


@pytest.mark.parametrize(
    "key, low, high",
    [
        ("wall", "9ms", "25h"),
        ("cpu", "1ms", "86401"),
        ("memory", "15M", "2T"),
        ("processes", "0", "32769"),
        ("scratch", "63K", "1025G"),
        ("inodes", "15", "100000001"),
        ("files", "15", "1048577"),
        ("file-size", "4095", "1.1T"),
        ("output", "1023", "1025M"),
        ("source", "0", "65M"),
        ("stock", "-1", "4097"),
    ],
)
def test_bounds(refuse, key, low, high):
    for value in (low, high):
        refuse(64, "run", f"--{key}", value, "-c", "1", code="bad_value", words=[key, value])


@pytest.mark.parametrize(
    "name", ["CONSTRICTOR_MEMORY", "MAX_MEMORY_MB", "SANDBOX_TIMEOUT", "CONSTRICTOR_FILE_SIZE"]
)
def test_bad_environment_names_the_variable(refuse, name):
    refuse(64, "run", "-c", "1", env={name: "lots"}, code="bad_value", words=[name, "lots"])


def test_bad_file_names_the_line(cli, refuse):
    config = cli.folder / "c.conf"
    config.write_text("# fine\nmemory = lots\n")
    refuse(64, "run", "--config", config, "-c", "1", words=["c.conf", "memory", "lots"])


@pytest.mark.parametrize(
    "text", ["nonsense = 1", "memory", "= 5", "memory = 64M = 2", "\0", "[section]", "\xff\xfe"]
)
def test_bad_config_files(cli, refuse, text):
    config = cli.folder / "c.conf"
    config.write_bytes(text.encode("latin-1"))
    refuse(64, "run", "--config", config, "-c", "1", words=["c.conf"])


def test_missing_config_file(cli):
    result = cli.call("run", "--config", "nothing.conf", "-c", "1")
    assert result.status in (64, 66)
    assert "nothing.conf" in result.err


def test_config_file_that_is_a_directory(cli):
    assert cli.call("run", "--config", "/tmp", "-c", "1").status in (64, 66)


def test_bad_degraded_layer(refuse):
    refuse(64, "run", "--allow-degraded", "no-such-layer", "-c", "1", words=["no-such-layer"])


def test_bad_log_level(refuse):
    refuse(64, "run", "--log-level", "loud", "-c", "1", code="bad_value", words=["loud", "debug"])


# --- usage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        ["run"],
        ["run", "-c"],
        ["run", "--no-such-option", "-c", "1"],
        ["run", "--wall"],
        ["run", "-z"],
        ["no-such-command"],
        ["--no-such-option"],
        ["doctor", "extra"],
        ["doctor", "--no-such-option"],
        ["bench", "--no-such-option"],
        ["help", "no-such-command"],
    ],
    ids=" ".join,
)
def test_usage(refuse, args):
    refuse(64, *args)


def test_no_command(cli):
    result = cli.call()
    assert result.status in (0, 64)
    assert "run" in result.out + result.err


def test_near_misses_are_named(refuse):
    message, hint = refuse(
        64, "run", "--memroy", "64M", "-c", "1", code="unknown_option", words=["--memroy"]
    )
    assert "--help" in hint or "memory" in hint


def test_json_error_is_one_object(cli):
    result = cli.call("run", "--json", "nothing.py")
    assert set(json.loads(result.out)) == {"error"}
    assert set(result.json["error"]) >= {"code", "message", "hint"}


def test_closed_standard_streams(cli):
    """Started with 0, 1 and 2 closed: descriptors of ours must not take their place."""

    def close_all():
        for fd in (0, 1, 2):
            os.close(fd)

    process = cli.start("run", "-c", "print('x')", preexec_fn=close_all)
    process.communicate(timeout=60)
    assert process.returncode is not None and process.returncode >= 0


def test_inherited_descriptors_do_not_reach_the_box(cli):
    """A folder of the host, open in the caller, is not open in the code."""
    fd = os.open("/", os.O_RDONLY)
    os.dup2(fd, 77, inheritable=True)
    code = (
        "import os\ndef f(n):\n    try: return bool(os.fstat(n))\n    except OSError: return"
        " False\n[n for n in range(256) if f(n)]"
    )
    try:
        result = cli.run(code, pass_fds=(77,))
    finally:
        os.close(77)
        os.close(fd)
    assert result.result == "[0, 1, 2]"


def test_hostile_environment(cli):
    """Variables that steer Python, the loader or malloc stay outside."""
    env = {
        "PYTHONPATH": "/nonexistent",
        "PYTHONHOME": "/nonexistent",
        "PYTHONSTARTUP": "/nonexistent",
        "PYTHONINSPECT": "1",
        "LD_PRELOAD": "",
        "LD_LIBRARY_PATH": "/nonexistent",
        "MALLOC_PERTURB_": "7",
        "HOME": "/nonexistent",
        "PATH": os.environ["PATH"],
    }
    result = cli.run(
        "import os\n[name for name in os.environ if name in ('PYTHONHOME', 'PYTHONINSPECT',"
        " 'LD_LIBRARY_PATH') or 'nonexistent' in os.environ[name]]",
        env=env,
    )
    assert (result.verdict, result.result) == ("ok", "[]")


@pytest.mark.parametrize("limit, value", [("RLIMIT_NOFILE", 64), ("RLIMIT_STACK", 1 << 20)])
def test_low_limits_of_the_caller(cli, limit, value):
    """A caller with small limits of its own gets an answer or a clear refusal."""
    import resource

    def lower():
        resource.setrlimit(getattr(resource, limit), (value, value))

    result = cli.call("run", "-c", "print('ran')", preexec_fn=lower)
    assert result.status in (0, 64, 69, 70), result
    assert (result.out == "ran\n") if result.status == 0 else SHAPE.match(result.err)


def test_deleted_working_folder(cli):
    folder = cli.folder / "gone"
    folder.mkdir()
    result = cli.call("run", "-c", "print('ran')", cwd=folder, preexec_fn=lambda: os.rmdir(folder))
    assert result.out == "ran\n"


def test_many_arguments(cli):
    result = cli.run("import sys\nlen(sys.argv)", args=["x" * 100] * 5000)
    assert result.result == "5001" or result.status == 64, result
