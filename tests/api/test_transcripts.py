# SPDX-License-Identifier: Apache-2.0
"""docs/transcripts.md: the examples of the reference servers' documents, typed with curl, and what came back.

Each section is typed into one shell against a server of its own; "…" in an answer stands for anything.
`python tests/api/test_transcripts.py PROGRAM` types them again and writes the answers into the document.
"""

import contextlib
import os
import pathlib
import re
import subprocess
import sys

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
FILE = TOP / "docs/transcripts.md"
DATA = pathlib.Path(os.environ.get("CONSTRICTOR_DATA", TOP / "build/venv-data")) / "bin/python"
MARK = "\x1e"
# What differs from run to run.
FREE = (
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "…"),
    (r'("(?:created_at|last_activity|version|token|execution_time|duration|uptime|active_\w+|session)": ?)[^,}\n]+',
     r"\1…"),
    (r'"execution":\{.*\}\}', '"execution":{…}}'),
    (r'("image":")[^"]+"', r'\1…"'),
    (r'("traceback":\[)[^\n]*?(\],"verdict")', r"\1…\2"),
    (r'"width":.*(?=\})', "…"),
    (r'"checkpoint":.*(?=\}\},"total")', "…"),
    (r'("(?:last_used_at|expires_in_seconds)":)[^,]+', r"\1…"),
    (r"\b(?:ctr|ses)[-_][\w-]{8,}", "…"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:…"),
)  # fmt: skip


def sections():
    """Of the document: (flags of the server, the shell's functions, [(command, answer)])."""
    functions = re.search(r"```sh\n(.*?)```", FILE.read_text(), re.S)[1]
    for text in FILE.read_text().split("\n## ")[1:]:
        flags = re.search(r"`constrictor serve ([^`]*)`", text)[1].split()
        blocks = re.findall(r"```console\n(.*?)```", text, re.S)
        yield flags, functions, [split(block) for block in blocks]


def split(block):
    """The command, which goes on behind a backslash and within quotes, and the answer."""
    at = block.index("\n") + 1
    while block[:at].count("'") % 2 or block[:at].endswith("\\\n"):
        at = block.index("\n", at) + 1
    return block[:at].removeprefix("$ "), block[at:]


def type_them(port, functions, typed):
    """What each of the commands printed."""
    script = functions + "".join(f"{command}printf '{MARK}'\n" for command, _ in typed)
    script = re.sub(r"localhost:\d+", f"localhost:{port}", script).replace("curl ", "curl -sS ")
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and not done.stderr, done
    return done.stdout.split(MARK)[:-1]


@contextlib.contextmanager
def served(program, flags):
    from conftest import open_cli
    from rest_client import serve

    key = {"API_KEY": flags.pop()[8:]} if flags[-1].startswith("API_KEY=") else {}
    with open_cli(program) as cli:
        yield serve(cli, "--offline", "--python", str(DATA), *flags, env=key).port


@pytest.mark.skipif(not DATA.exists(), reason="needs the data stack: make setup")
@pytest.mark.parametrize("section", range(len(list(sections()))))
def test_what_is_typed_is_answered_so(program, section):
    flags, functions, typed = list(sections())[section]
    assert typed
    with served(program, flags) as port:
        for (command, wanted), got in zip(typed, type_them(port, functions, typed), strict=True):
            pattern = ".*?".join(re.escape(part) for part in wanted.strip().split("…"))
            assert re.fullmatch(pattern, got.strip(), re.S), (command, wanted, got)


def test_every_curl_of_the_documents_is_there():
    """The commands of the one document that has any, but for the port; and each of the five is a section."""
    text = FILE.read_text()
    for path in "/api/v1/execute", "/api/v1/sessions", "/api/v1/health":
        assert f"http://localhost:16010{path}" in text
    assert [flags[1] for flags, _, _ in sections()] == [
        "kernels", "kernels", "executor", "restricted", "checker", "containers"]  # fmt: skip


def write(program):
    text = FILE.read_text()
    for flags, functions, typed in list(sections()):
        with served(program, flags) as port:
            for (command, old), got in zip(typed, type_them(port, functions, typed), strict=True):
                for pattern, free in FREE:
                    got = re.sub(pattern, free, got)
                block = f"```console\n$ {command}"
                at = text.index(block + old)
                text = text[:at] + block + got.strip() + "\n" + text[at + len(block + old) :]
    FILE.write_text(text)


if __name__ == "__main__":
    sys.path[:0] = [str(TOP / "tests")]
    write(sys.argv[1])
