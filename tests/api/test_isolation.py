# SPDX-License-Identifier: Apache-2.0
"""--isolation gvisor where gVisor is not there, or does not work: an error with the cause, and nothing runs.
What works with it is in tests/sandbox (`make test-sandbox`)."""

import os

import pytest

GVISOR = "--isolation", "gvisor"


def fake(cli, text):
    """A program in the place of gVisor's."""
    path = cli.folder / "runsc"
    path.write_text(text)
    path.chmod(0o755)
    os.chmod(cli.folder, 0o755)
    return path


def refused(cli, *flags, **options):
    r = cli.call("run", *GVISOR, *flags, "-c", "print('it' + ' ran')", **options)
    assert r.status == 69 and "it ran" not in r.out + r.err, r
    assert "isolation 'gvisor'" in r.err and "hint: " in r.err, r
    return r


@pytest.mark.parametrize("name", ["runsc-of-nobody", "/nowhere/runsc", "/usr", "/etc/passwd"])
def test_without_its_program_nothing_runs(cli, name):
    r = refused(cli, "--runsc", name)
    assert f"'{name}'" in r.err and "make build-sandbox" in r.err, r


def test_a_server_without_its_program_does_not_start(cli):
    r = cli.call("serve", *GVISOR, "--runsc", "/nowhere/runsc", "--port", "0")
    assert r.status == 69 and "/nowhere/runsc" in r.err and "make build-sandbox" in r.err, r


@pytest.mark.parametrize("word", ["docker", "kvm", "", "gvisor,native"])
def test_another_isolation_is_a_bad_value(cli, word):
    r = cli.call("run", "--isolation", word, "-c", "print('it' + ' ran')")
    assert r.status == 64 and "native, gvisor" in r.err.replace(" or ", ", ") and "it ran" not in r.out, r


def test_a_program_that_crashes_is_named_with_its_last_words(cli):
    r = refused(cli, "--runsc", fake(cli, "\x7fELF is what it is not\n"))
    assert "start" in r.err or "ended before it was ready" in r.err, r


def test_a_program_of_another_architecture_is_refused(cli):
    header = bytearray(open("/bin/true", "rb").read())
    header[18] = 0xF3       # RISC-V
    path = fake(cli, "")
    path.write_bytes(header)
    r = refused(cli, "--runsc", path)
    assert "Exec format error" in r.err, r


@pytest.mark.root
def test_root_starts_no_program_of_another_user(cli):
    path = fake(cli, "#!/bin/sh\n")
    os.chown(path, 65534, 65534)
    r = refused(cli, "--runsc", path)
    assert f"'{path}' can be changed by a user who is not root" in r.err, r


def test_the_command_line_says_native_by_default(cli):
    r = cli.run("1", "--isolation", "native")
    assert r.verdict == "ok" and "gvisor" not in r.isolation, r


def test_dotenv_may_ask_for_the_stronger_wall_only(cli):
    (cli.folder / ".env").write_text("CONSTRICTOR_ISOLATION=gvisor\n")
    r = cli.call("run", "--runsc", "/nowhere/runsc", "-c", "print('it' + ' ran')")
    assert r.status == 69 and "isolation 'gvisor'" in r.err, r
