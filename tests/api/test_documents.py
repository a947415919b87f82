# SPDX-License-Identifier: Apache-2.0
"""Every command of README.md and docs/*.md runs as it is written, in a clean folder.

The fenced `sh` blocks of a document are typed into one shell, in their order. Each command must end with 0, or with the
status that a comment on its line names: `# exit 137`. Words before that in a comment are free. A block behind
`<!-- not run: REASON -->` is left out. What a reader has and a test has not is put in its place:

    build/constrictor, constrictor   the program, with a state folder of this document alone
    make serve, constrictor serve    a server in the background, on a free port; it ends when the next one starts
    make                             the tree is built already
    127.0.0.1:8000, localhost:8000   the address of that server
    the package index                a folder of small wheels
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import wheel_lab
from conftest import TOP, kill_tree, open_cli, reap, wait_until

SKIP = {"docs/transcripts.md"}  # test_transcripts.py types these
DOCUMENTS = ["README.md", *sorted(path.relative_to(TOP).as_posix() for path in (TOP / "docs").glob("*.md"))]
MARKER = r"<!-- not run: (.+?) -->\n"
PACKAGES = {"six": "1.16.0", "pandas": "3.0.0", "matplotlib": "3.10.0"}

# In front of PATH. $DOCUMENT is the folder of the test, $PROGRAM the program.
CONSTRICTOR = r"""#!/bin/bash
port=$(cat "$DOCUMENT/port" 2>/dev/null || echo 8000)
words=()
for word in "$@"; do
    words+=("${word//127.0.0.1:8000/127.0.0.1:$port}")
done
[ "${words[0]}" = serve ] || exec "$PROGRAM" "${words[@]}"
if [ -e "$DOCUMENT/server" ]; then
    old=$(tail -1 "$DOCUMENT/server")
    kill "$old"
    # Its parent, the test, reaps it later.
    while grep -qs "^State:[[:space:]]*[^Z[:space:]]" "/proc/$old/status"; do sleep 0.02; done
fi
rm -f "$DOCUMENT/ready"
mkfifo "$DOCUMENT/ready"
"$PROGRAM" "${words[@]}" --port 0 >"$DOCUMENT/ready" 2>>"$DOCUMENT/log" &
echo $! >>"$DOCUMENT/server"
while read -r line; do
    case $line in *:*[0-9]/mcp) line=${line##*:}; echo "${line%/mcp}" >"$DOCUMENT/port"; exit 0 ;; esac
done <"$DOCUMENT/ready"
cat "$DOCUMENT/log" >&2
exit 1
"""
MAKE = """#!/bin/sh
case "$*" in serve) exec constrictor serve ;; '') exit 0 ;; *) echo "the test cannot run 'make $*'" >&2; exit 1 ;; esac
"""
CURL = r"""#!/bin/bash
port=$(cat "$DOCUMENT/port")
words=()
for word in "$@"; do
    words+=("${word/@(127.0.0.1|localhost):8000/127.0.0.1:$port}")
done
case " $* " in *" -w "*) fail= ;; *) fail=--fail-with-body ;; esac # -w: the document shows the status itself
exec /usr/bin/curl -sS $fail "${words[@]}"
""".replace("#!/bin/bash\n", "#!/bin/bash\nshopt -s extglob\n")


def blocks(name):
    """(line, reason to leave it out or None, text) of each sh block."""
    text = (TOP / name).read_text()
    for match in re.finditer(rf"(?:{MARKER})?^```sh\n(.*?)^```$", text, re.M | re.S):
        yield text.count("\n", 0, match.start(2)) + 1, match[1], match[2]


def commands(name):
    """(line, status, text) of each command; one goes on until the shell takes it as whole."""
    for first, reason, block in blocks(name):
        text = ""
        for number, line in enumerate(block.splitlines(keepends=True), first):
            start = start if text else number
            text += line
            if text.endswith("\\\n") or not text.strip():
                continue
            asked = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True, check=False)
            if reason or asked.returncode or asked.stderr:
                continue
            said = re.search(r" # exit (\d+)\b", line) or re.search(r"#.*\bexit (\d+)\b", line)
            yield start, int(said[1]) if said else 0, text
            text = ""
        assert reason or not text.strip(), f"{name}:{first}: the shell does not take this block: {text}"


def make_folder(cli):
    """A folder that looks like the top of a built tree."""
    folder = cli.folder / "top"
    (folder / "bin").mkdir(parents=True)
    (folder / "build").mkdir()
    (folder / "wheels").mkdir()
    for name, text in ("constrictor", CONSTRICTOR), ("make", MAKE), ("curl", CURL):
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    (folder / "build/constrictor").symlink_to("../bin/constrictor")
    for name in "examples", "tools":
        (folder / name).symlink_to(TOP / name)
    for name, version in PACKAGES.items():
        made = wheel_lab.wheel(name, version, {f"{name}.py": f"__version__ = {version!r}\n".encode()})
        (folder / "wheels" / made.filename).write_bytes(made.data)
    return folder


def type_them(cli, name):
    """Types the commands of a document; the first one that ends otherwise than it should ends all."""
    folder = make_folder(cli)
    script = "set -o pipefail\n"
    for line, status, text in commands(name):
        script += f"{text}\ns=$?; [ $s = {status} ] || {{ echo '{name}:{line}: ended with' $s, not {status} >&2; exit 1; }}\n"
    env = cli.environ({"HOME": str(folder), "DOCUMENT": str(folder), "PROGRAM": str(cli.program),
                       "PATH": f"{folder}/bin:{os.environ['PATH']}", "CONSTRICTOR_OFFLINE": "true",
                       "CONSTRICTOR_FIND_LINKS": str(folder / "wheels"), "CONSTRICTOR_STATE": str(folder / "state")})  # fmt: skip
    with open(folder / "printed", "w+b") as printed:
        shell = subprocess.Popen(["bash", "-c", script], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=printed,
                                 stderr=subprocess.STDOUT)  # fmt: skip
        cli.started.append(shell)
        try:
            status = shell.wait(timeout=600)
        finally:
            if (folder / "server").exists():
                stop(*map(int, (folder / "server").read_text().split()))
        printed.seek(0)
        return status, printed.read().decode(errors="replace")


def stop(*pids):
    """Ends the last server and collects all: their parents are gone, so they are children of this process."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pids[-1], signal.SIGTERM)
    if not wait_until(lambda: not reap(pids), guard=60):
        kill_tree(pids[-1])


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name not in SKIP and any(commands(name))])
def test_the_commands_of(program, name):
    with open_cli(program) as cli:
        status, printed = type_them(cli, name)
        assert status == 0, printed[-6000:]


def test_most_blocks_are_run():
    """A block is left out for a reason that is told, and few are."""
    reasons = [reason for name in DOCUMENTS if name not in SKIP for _, reason, _ in blocks(name)]
    left_out = [reason for reason in reasons if reason is not None]
    assert all(len(reason) > 10 for reason in left_out)
    assert len(left_out) * 4 < len(reasons), left_out
