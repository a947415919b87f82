# SPDX-License-Identifier: Apache-2.0
"""Texts made from the tables: --help, --help-all, the man page, the completions, what `make install` installs."""

import re
import shutil
import subprocess

import pytest

COMMANDS = "run check env serve stdio client-config doctor config bench help".split()
# Words for things that have other names now.
RETIRED = re.compile(r"nursery|nursling|epitaph|\bkit\b|spool|whoever|somebody|nobody|\bcrew\b", re.I)


def rows(tools):
    """The keys of config.def, and which of them are options."""
    text = (tools.top / "src" / "config" / "config.def").read_text()
    found = {}
    for row in re.split(r"(?m)^OPTION\(", text)[1:]:
        key = re.match(r'\w+, \w+, "([^"]+)"', row).group(1)
        found[key] = ".secret = true" not in row
    return found


def shown(text):
    """The options and variables that a help text lists, in order."""
    return re.findall(r"(?m)^  (?:-\w, )?(--[a-z-]+|CONSTRICTOR_\w+)", text)


def lines(cli, *args):
    result = cli.call(*args)
    assert (result.status, result.err) == (0, ""), result
    return result.out.splitlines()


def test_help_fits_a_screen(cli):
    text = lines(cli, "--help")
    assert len(text) <= 24 and max(map(len, text)) <= 80
    for command in COMMANDS:
        assert len([line for line in text if line.startswith(f"  {command} ")]) == 1, command
    assert lines(cli, "help") == text
    assert lines(cli, "-h") == text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_shows_few_options(cli, command):
    short, long = lines(cli, command, "--help"), lines(cli, command, "--help-all")
    assert lines(cli, "help", command) == short
    if command != "help":                                 # its own --help-all is that of the whole program
        assert lines(cli, "help", command, "--help-all") == long
    assert max(map(len, short + long)) <= 80
    few, all_ = shown("\n".join(short)), shown("\n".join(long))
    assert 2 <= len(few) <= 16 and few[-2:] == ["--help", "--help-all"]
    assert set(few) <= set(all_) and len(all_) == len(set(all_)), "an option stands in two groups"


def test_every_option_is_in_one_group(cli, tools):
    known = rows(tools)
    text = "\n".join(lines(cli, "--help-all"))
    wanted = [f"--{key}" if option else "CONSTRICTOR_" + key.upper().replace("-", "_")
              for key, option in known.items()]
    assert sorted(shown(text)) == sorted(wanted)
    assert len(re.findall(r"(?m)^[A-Z][\w ]+:$", text)) >= 8, "groups"


def test_help_is_not_stopped_by_a_bad_environment(cli):
    for args in (["help", "run"], ["run", "--help"], ["run", "--help-all"], ["--help-all"]):
        result = cli.call(*args, env={"CONSTRICTOR_MEMORY": "much"})
        assert result.status == 0, result


def test_retired_words_are_gone(cli):
    for args in (["--help"], ["--help-all"], ["config", "--print", "man"]):
        assert not RETIRED.search(cli.call(*args).out)
    for command in COMMANDS:
        assert not RETIRED.search(cli.call("help", command).out)


@pytest.mark.parametrize("args, hint", [
    (["help", "srve"], "did you mean 'serve'"),
    (["srve"], "did you mean 'serve'"),
    (["help", "no-such-command"], "client-config, doctor"),
    (["run", "--memry", "1G"], "did you mean --memory"),
    (["run", "--port", "1"], "other commands"),
    (["help", "run", "check"], "usage"),
])
def test_mistakes_name_what_was_meant(cli, args, hint):
    result = cli.call(*args)
    assert result.status == 64 and hint in result.err, result


# ---- the man page


def test_man_page_is_sound(cli, tools):
    page = cli.call("config", "--print", "man").out
    for key, option in rows(tools).items():
        assert not option or "\\-\\-" + key.replace("-", "\\-") in page, key
    if shutil.which("mandoc"):
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning"], input=page, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-ww", "-Tutf8"], input=page, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "") and "--memory" in re.sub(".\x08", "", done.stdout)
    for line in page.splitlines():
        assert not line.startswith("'") and (not line.startswith(".") or re.match(r"\.(\\\"|[A-Za-z]{1,2}\b)", line)), line


# ---- completions


@pytest.fixture(scope="module")
def complete(program, tmp_path_factory):
    """What bash offers for a command line; its last word is the one that is completed."""
    folder = tmp_path_factory.mktemp("completion")
    script = folder / "completion"
    script.write_text(subprocess.run([program, "config", "--print", "bash"], cwd=folder, capture_output=True, check=True,
                                     text=True).stdout)
    (folder / "data.py").write_text("")

    def offer(*words):
        code = ('source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _constrictor; printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", code, script, "constrictor", *words], cwd=folder, capture_output=True,
                              text=True)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout.split()

    return offer


@pytest.mark.parametrize("words, offered", [
    (["se"], ["serve"]),
    (["run", "--mem"], ["--memory"]),
    (["run", "--policy", "r"], ["restricted"]),
    (["run", "--policy", "=", "gu"], ["guarded"]),
    (["run", "--policy", "="], ["auto", "open", "guarded", "restricted"]),
    (["serve", "--tools", "default,ker"], ["default,kernels"]),
    (["env", "unin"], ["uninstall"]),
    (["client-config", "vs"], ["vscode"]),
    (["help", "doc"], ["doctor"]),
    (["run", "da"], ["data.py"]),
    (["run", "--network-file", "da"], ["data.py"]),
    (["run", "--wall", "d"], []),
])
def test_bash_completes(complete, words, offered):
    assert complete(*words) == offered


def test_bash_completes_every_command_and_option(complete, cli):
    assert set(COMMANDS) < set(complete(""))
    for command in COMMANDS[:-1]:
        listed = {word for word in shown(cli.call(command, "--help-all").out) if word.startswith("--")}
        assert set(complete(command, "--")) == listed


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_know_every_option(cli, tools, shell, tmp_path):
    text = cli.call("config", "--print", shell).out
    for key, option in rows(tools).items():
        assert not option or (f"--{key}" if shell == "zsh" else f"-l {key} ") in text, key
    if shutil.which(shell):
        script = tmp_path / "completion"
        script.write_text(text)
        assert subprocess.run([shell, "-n", script], capture_output=True).returncode == 0
