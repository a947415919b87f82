# SPDX-License-Identifier: Apache-2.0
"""tools/lint names each kind of mistake: it is made on purpose, one at a time, in a copy of the tree."""

import re
import shutil
import subprocess

import pytest
from conftest import TOP

LONG = "// " + "x" * 100 + "\n"
# Rule, file, text that is added at its end, and what the finding says. The file may be new.
MISTAKES = [
    ("format", "src/base/err.c", "int  spaced(void);\n", "not formatted"),
    ("width", "src/base/err.c", LONG, "103 columns"),
    ("rooms", "src/base/err.c", '#include "run/run.h"\n', "a room to its right"),
    ("rooms", "src/base/err.c", '#include "base/absent.h"\n', "there is no header"),
    ("rooms", "src/python/ext/planted.c", '#include "run/run.h"\n', "the Python extension includes"),
    ("rooms", "src/rest/planted.c", '#include "run/network_internal.h"\n', "belongs to the room run"),
    ("rooms", "src/cellar/planted.c", '#include "base/err.h"\n', "'cellar' is no room"),
    ("forbidden", "src/base/err.c", "int x = atoi(text);\n", "'atoi' is not used"),
    ("length", "src/base/err.c", "//\n" * 800, "lines; look for its second noun"),
    ("shell", "tools/setup", "cd $unquoted\n", "SC2086"),
    ("spelling", "README.md", "This is t" "eh end.\n", "==> the"),
    ("python", "tests/conftest.py", "def broken(:\n", "invalid syntax"),
    ("licence", "src/base/planted.c", "int planted;\n", "no licence line"),
    ("blanks", "README.md", "blank \n", "blanks at the end"),
    ("links", "README.md", "[a](docs/absent.md)\n", "there is no such file"),
    ("links", "README.md", "[a](SECURITY.md#absent-heading)\n", "there is no such heading"),
    ("commands", "README.md", "```sh\nbuild/constrictor dance\n```\n", "there is no such command"),
    ("commands", "README.md", "```sh\nFOO=1 constrictor run --dance x | cat\n```\n", "there is no such option"),
    ("commands", "README.md", "Say `make dance` first.\n", "there is no such target"),
    ("paths", "README.md", "See `src/base/absent.c`.\n", "there is no 'src/base/absent.c'"),
    ("paths", "src/base/err.c", "// See box/absent.h.\n", "there is no 'src/box/absent.h'"),
    ("tests", "tests/unit/test_planted.c", "int planted;\n", "not built"),
    ("tests", "tests/api/test_planted.py", "x = 1\n", "in no group"),
    ("tests", "tests/groups", "api/test_absent.py rest\n", "delete the row"),
    ("retired", "src/base/err.c", "// the nursery\n", "retired word 'nursery'"),
    ("retired", "src/base/err.c", "int planted_kit;\n", "retired word 'kit' in 'planted_kit'"),
    ("retired", "src/base/epitaph_kit.c", "int x;\n", "in the file's name"),
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    top = tmp_path_factory.mktemp("lint")
    for name in ("src", "tools", "docs", "examples", "tests"):
        shutil.copytree(TOP / name, top / name, ignore=shutil.ignore_patterns("__pycache__", "corpus"))
    for path in TOP.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, top)
    return top


def lint(top, *arguments):
    return subprocess.run([top / "tools" / "lint", *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("rule", "name", "text", "said"), MISTAKES, ids=[f"{m[0]}-{m[3][:20]}" for m in MISTAKES])
def test_a_mistake_is_named(copy, rule, name, text, said):
    path = copy / name
    before = path.read_text() if path.exists() else None
    path.parent.mkdir(exist_ok=True)
    path.write_text((before or "") + text)
    try:
        done = lint(copy, rule)
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_text(before)
    if "was not checked" in done.stdout:
        return  # another release of clang-format
    found = [line for line in done.stdout.split("\n") if line.startswith(name)]
    assert any(re.match(rf"[\w/.-]+:\d+: {rule}: ", line) or rule == "shell" for line in found), done
    assert any(said in line for line in found), done
    assert done.returncode == 1


def test_a_cycle_of_three_modules_is_named(copy):
    files = {copy / "src" / "base" / f"planted{n}.h": f'#include "base/planted{(n + 1) % 3}.h"\n' for n in range(3)}
    for path, text in files.items():
        path.write_text(text)
    done = lint(copy, "cycles")
    for path in files:
        path.unlink()
    assert done.returncode == 1 and "(planted0 planted1 planted2)" in done.stdout, done


def test_every_rule_has_a_mistake():
    rules = {line.split()[0] for line in lint(TOP, "--list").stdout.splitlines()}
    assert rules == {mistake[0] for mistake in MISTAKES} | {"cycles"}


def test_another_release_of_clang_format_does_not_fail(copy, tmp_path, monkeypatch):
    program = tmp_path / "clang-format"
    program.write_text("#!/bin/sh\n[ \"$1\" = --version ] && echo clang-format version 99.0.0 && exit\nexit 1\n")
    program.chmod(0o755)
    (tmp_path / "git").symlink_to("/bin/false")
    done = subprocess.run([copy / "tools" / "lint", "format"], env={"PATH": str(tmp_path)}, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0 and "format was not checked" in done.stdout, done


def test_an_unknown_rule_is_an_error():
    done = lint(TOP, "dance")
    assert done.returncode == 64 and "there is no rule 'dance'" in done.stdout, done


def test_the_drawing_of_the_rooms_is_checked(copy):
    rooms = copy / "tools" / "rooms"
    page = copy / "ARCHITECTURE.md"
    before = page.read_text()
    text = re.sub(r"<!-- rooms: .*?<!-- /rooms -->", "", before, flags=re.S)
    page.write_text(text + "\n<!-- rooms: generated by tools/rooms -->\n<!-- /rooms -->\n")
    assert subprocess.run([rooms, "--check"], stdout=subprocess.DEVNULL, check=False).returncode == 1
    assert "the drawing of the rooms is out of date" in lint(copy, "rooms").stdout
    subprocess.run([rooms, "--write"], check=True)
    assert subprocess.run([rooms, "--check"], check=False).returncode == 0
    assert "base[base]" in page.read_text()
    page.write_text(before)

