# SPDX-License-Identifier: Apache-2.0
"""Every CPython from 3.9 on that this user can see, virtual environments, and preloads.

Only what is installed is collected: Debian's interpreter, those of pyenv, those that uv manages.
Too old ones and files that are no Python are refused with exit status 69.
"""

import ast
import errno
import functools
import glob
import json
import os
import shutil
import subprocess
import tempfile
import textwrap

import pytest
from conftest import FOLDER
from rest_client import serve

ASK = (
    "import sys, json; print(json.dumps([sys.version_info[0], sys.version_info[1], sys.executable,"
    " sys.prefix]))"
)
SMOKE = """
import sys, os, json, ctypes, threading, subprocess, asyncio, multiprocessing
import tempfile, zlib, hashlib, decimal
assert sys.version_info[:2] == (%d, %d), sys.version
with multiprocessing.get_context('fork').Pool(2) as pool:
    assert pool.map(abs, [-1, -2]) == [1, 2]
t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()
assert subprocess.check_output([sys.executable, '-c', 'print(7)']) == b'7\\n'
async def f():
    await asyncio.sleep(0.01)
    return 5
assert asyncio.run(f()) == 5
for name in ('sqlite3', 'ssl', 'lzma', 'bz2'):
    try: __import__(name)
    except ImportError as error: assert name in str(error) or '_' + name in str(error), error
print('smoke')
[sys.version_info[0], sys.version_info[1]]
"""


@functools.lru_cache(maxsize=None)
def version(path):
    try:
        done = subprocess.run([path, "-c", ASK], capture_output=True, timeout=600, cwd="/")
        major, minor, *_ = json.loads(done.stdout)
        return major, minor
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


@functools.lru_cache(maxsize=None)
def interpreters():
    home = os.path.expanduser("~")
    paths = ["/usr/bin/python3", "/usr/local/bin/python3"]
    for pattern in (
        "/.pyenv/versions/*/bin/python3",
        "/.pyenv/versions/*/bin/python2",
        "/.local/share/uv/python/*/bin/python3",
    ):
        paths += sorted(glob.glob(home + pattern))
    return [path for path in paths if os.access(path, os.X_OK) and version(path)]


def label(path):
    return path.replace(os.path.expanduser("~"), "~")


NEW = [path for path in interpreters() if version(path) >= (3, 9)]
OLD = [path for path in interpreters() if version(path) < (3, 9)]


@pytest.mark.parametrize("path", NEW, ids=label)
def test_interpreter(cli, path):
    result = cli.run(SMOKE % version(path), "--python", path)
    assert (result.verdict, result.stdout) == ("ok", "thread\nsmoke\n"), result
    assert result.result_json == list(version(path))
    assert result.environment["version"].startswith("%d.%d." % version(path))


@pytest.mark.parametrize("path", NEW, ids=label)
def test_interpreter_reports_errors(cli, path):
    """The runner works alike in every version: values, errors, syntax, await."""
    flags = ("--python", path)
    error = cli.run("def f():\n    return [][1]\nf()", *flags).error
    assert (error["type"], error["line"], len(error["traceback"])) == ("IndexError", 2, 2)
    assert cli.run("x = (", *flags).phase == "syntax_check"
    assert cli.run("import asyncio\nawait asyncio.sleep(0, 'v')", *flags).result == "'v'"
    assert cli.run("raise SystemExit(3)", *flags).exit_code == 3


@pytest.mark.parametrize("path", NEW, ids=label)
def test_interpreter_has_the_wall(cli, path):
    code = (
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n[libc.unshare(0x10000000),"
        " ctypes.get_errno(), os.getuid(), os.path.exists('/var'), os.path.exists('/sys')]"
    )
    assert cli.run(code, "--python", path).result_json == [-1, 1, 1000, False, False]
    status = cli.run(
        "dict(l.split(':\\t') for l in open('/proc/self/status') if ':\\t' in"
        " l)['Seccomp'].strip()",
        "--python",
        path,
    )
    assert status.result == "'2'"


if OLD:

    @pytest.mark.parametrize("path", OLD, ids=label)
    def test_too_old(cli, path):
        result = cli.call("run", "--python", path, "-c", "print('ran')")
        assert (result.status, result.out) == (69, "")
        assert "[interpreter_too_old]" in result.err or "[interpreter_unusable]" in result.err
        assert "3.9" in result.err
        assert "hint:" in result.err


# --- what is no interpreter -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["true", "sh", "text", "empty", "garbage", "lies", "silent", "crash", "not_executable"]
)
def test_not_python(cli, name):
    file = cli.folder / name
    scripts = {
        "text": "just text\n",
        "empty": "",
        "garbage": "#!/bin/sh\nhead -c 100000 /dev/urandom\n",
        "lies": '#!/bin/sh\necho \'{"version": "3.99.0"}\'\n',
        "silent": "#!/bin/sh\nexit 0\n",
        "crash": "#!/bin/sh\nkill -SEGV $$\n",
        "not_executable": "#!/bin/sh\n",
    }
    if name in scripts:
        file.write_text(scripts[name])
        file.chmod(0o644 if name == "not_executable" else 0o755)
        path = file
    else:
        path = f"/bin/{name}"
    result = cli.call("run", "--python", path, "-c", "print('ran')")
    assert (result.status, result.out) == (69, ""), result
    assert "[interpreter_" in result.err and "hint:" in result.err
    assert name in result.err, "the message does not name the interpreter"


@pytest.mark.parametrize(
    "path", ["/nonexistent/python3", "no-such-python", "/", "/dev/null", "", "\n"]
)
def test_missing_interpreter(cli, path):
    result = cli.call("run", "--python", path, "-c", "print('ran')")
    assert result.status in (64, 69), result
    assert result.out == ""
    assert "hint:" in result.err


@pytest.fixture(scope="module", autouse=True)
def slow_interpreter(shared_cli):
    """Started with the first test of this file, looked at in the last one: it takes its time."""
    file = shared_cli.folder / "slow"
    file.write_text("#!/bin/sh\nexec sleep 1000\n")
    file.chmod(0o755)
    return shared_cli.start("run", "--python", file, "-c", "print('ran')")


def test_interpreter_by_name(cli):
    """A bare name is looked up in PATH, as a shell does."""
    result = cli.run("import sys; sys.version_info[0]", "--python", "python3")
    assert result.result == "3"


def test_relative_interpreter(cli):
    os.symlink(NEW[0], cli.folder / "mypython")
    assert cli.run("6 * 7", "--python", "./mypython").result == "42"


# --- virtual environments -------------------------------------------------------------------------

MODULES = {
    "shared": "import mmap, tempfile\npage = mmap.mmap(-1, 5000)\nfile = tempfile.TemporaryFile()\nfile.truncate(9)\n"
    "part = mmap.mmap(file.fileno(), 9)\npage[0] = page[4999] = part[8] = 3\n"
    "calm = mmap.mmap(file.fileno(), 9, access=mmap.ACCESS_READ)\n",
    "present": "x = 'from the environment'\n",
    "raises": "raise RuntimeError('on import')\n",
    "exits": "import sys\nsys.exit(3)\n",
    "leaves": "import os\nos._exit(3)\n",
    "crashes": "import ctypes\nctypes.string_at(8)\n",
    "aborts": "import os\nos.abort()\n",
    "forks": "import os\nif os.fork() == 0: os._exit(0)\nos.wait()\n",
    "prints": "print('printed at import')\nimport sys; print('to stderr', file=sys.stderr)\n",
    "threads": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,),"
        " daemon=True).start()\n"
    ),
    "closes": "import os\nos.closerange(0, 200)\n",
}


@pytest.fixture(scope="module", params=NEW[:1] + NEW[-1:] if len(NEW) > 1 else NEW, ids=label)
def venv(request):
    # Not below /tmp, which every box has for itself.
    with tempfile.TemporaryDirectory(prefix="constrictor-venv-", dir=FOLDER) as folder:
        os.chmod(folder, 0o755)
        yield make_venv(request.param, folder)


def make_venv(python, folder):
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True, capture_output=True)
    (site,) = glob.glob(f"{folder}/lib/python3*/site-packages")
    for name, text in MODULES.items():
        with open(f"{site}/preload_{name}.py", "w") as file:
            file.write(text)
    return f"{folder}/bin/python"


def test_venv(cli, venv):
    code = "import preload_present, sys\n[preload_present.x, sys.prefix != sys.base_prefix]"
    assert cli.run(code, "--python", venv).result_json == ["from the environment", True]


def test_venv_is_read_only(cli, venv):
    code = "import preload_present as m\nopen(m.__file__, 'a')"
    assert cli.run(code, "--python", venv).error["type"] in ("OSError", "PermissionError")


def test_preload(cli, venv):
    code = "import sys\n'preload_present' in sys.modules and 'json' in sys.modules"
    result = cli.run(code, "--python", venv, "--preload", "preload_present,json")
    assert result.result == "True"
    assert {"preload_present", "json"} <= set(result.environment["preloaded"])
    assert (
        cli.run("import sys\n'preload_present' in sys.modules", "--python", venv).result == "False"
    )


def test_memory_that_a_preload_shares_is_not_shared_by_boxes(cli, venv):
    """What one box writes there, another must not read; what the preload wrote is there."""
    code = """
        import preload_shared as m
        found = [m.page[0], m.page[4999], m.part[8]]
        m.page[0] = m.page[4999] = m.part[8] = 99
        import ctypes
        libc, bad = ctypes.CDLL(None), []
        for line in open('/proc/self/maps'):
            start, end = (int(number, 16) for number in line.split()[0].split('-'))
            if 's' in line.split()[1] and libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(end - start), 3) == 0:
                bad.append(line)
        found + [m.calm[8], bad]
    """
    api = serve(cli, "--python", venv, "--preload", "preload_shared")
    for _ in range(3):
        assert api.run(textwrap.dedent(code))["result_json"] == [3, 3, 3, 3, []]


def test_missing_preload_is_reported(cli, venv):
    result = cli.run("6 * 7", "--python", venv, "--preload", "preload_present,no_such_module")
    assert (result.verdict, result.result) == ("ok", "42")
    assert result.environment["preloaded"] == ["preload_present"]
    (failed,) = result.environment["preload_failed"]
    assert failed["name"] == "no_such_module"
    assert "no_such_module" in failed["error"]


def test_missing_preload_is_said_without_json(cli):
    result = cli.plain("print(6 * 7)", "--preload", "no_such_module")
    assert (result.status, result.out) == (0, "42\n")
    assert "no_such_module" in result.err


@pytest.mark.parametrize("name", ["raises", "exits"])
def test_preload_that_fails(cli, venv, name):
    result = cli.run("6 * 7", "--python", venv, "--preload", f"preload_{name}")
    assert (result.verdict, result.result) == ("ok", "42")
    assert [failed["name"] for failed in result.environment["preload_failed"]] == [
        f"preload_{name}"
    ]


@pytest.mark.parametrize("name", ["leaves", "crashes", "aborts", "closes"])
def test_preload_that_crashes(cli, venv, name):
    """Takes the zygote with it: reported and left out, or refused with a code and a hint."""
    result = cli.run("6 * 7", "--python", venv, "--preload", f"preload_{name}")
    if result.status == 0:
        assert [failed["name"] for failed in result.environment["preload_failed"]] == [
            f"preload_{name}"
        ]
    else:
        assert result.status == 69, result
        assert result.json["error"]["code"] and result.json["error"]["hint"]


@pytest.mark.parametrize("name", ["forks", "prints", "threads"])
def test_preload_that_does_odd_things(cli, venv, name):
    """Neither its output nor its threads show up in a run."""
    result = cli.run("6 * 7", "--python", venv, "--preload", f"preload_{name}")
    if result.status == 0:
        assert (result.result, result.stdout) == ("42", "")
        assert "to stderr" not in result.json["stderr"]
    else:
        assert result.status == 69


@pytest.mark.parametrize(
    "value", ["os;import evil", "../x", "a b", "x" * 10000, "1", "os.path", "é"]
)
def test_odd_preload_names(cli, value):
    result = cli.run("6 * 7", "--preload", value)
    if result.status == 0:
        assert result.result == "42"
    else:
        assert result.status in (64, 69)
        assert result.json["error"]["hint"]


def test_user_folder_does_not_shadow_the_library(cli):
    """A module in scratch is importable, but the zygote never looked there."""
    code = "open('json.py', 'w').write('x = 1')\nimport json\nhasattr(json, 'dumps')"
    assert cli.run(code, "--preload", "json").result == "True"


def uv_pythons():
    """Interpreters that uv manages, if uv is here: asked for, never downloaded."""
    if not shutil.which("uv"):
        return []
    done = subprocess.run(
        [
            "uv",
            "python",
            "list",
            "--only-installed",
            "--managed-python",
            "--output-format",
            "json",
            "--offline",
        ],
        capture_output=True,
    )
    try:
        return [
            entry["path"] for entry in json.loads(done.stdout) if version(entry["path"]) >= (3, 9)
        ]
    except (ValueError, KeyError, TypeError):
        return []


if uv_pythons():

    @pytest.mark.parametrize("path", uv_pythons(), ids=label)
    def test_uv(cli, path):
        result = cli.run(SMOKE % version(path), "--python", path)
        assert (result.verdict, result.stdout) == ("ok", "thread\nsmoke\n"), result


BELOW = """
import os, sys
import preload_below
open("/tmp/own", "w").close()
for folder in sys.prefix, os.path.dirname(preload_below.__file__):
    try:
        open(folder + "/x", "w")
    except OSError as e:
        print(e.errno)
try:
    os.open(sys.prefix + "/pipe", os.O_RDWR | os.O_NONBLOCK)    # which a file system that is read-only allows
except OSError as e:
    print(e.errno)
print(os.listdir("/tmp"))
print(sys.prefix)
preload_below.fail()
"""
MNT = os.access("/mnt", os.W_OK)    # root's, mostly


@pytest.mark.parametrize("top", ["/tmp"] + ["/mnt"] * MNT)
def test_venv_below_what_a_box_covers(cli, top):
    """A box has a /tmp and a /mnt of its own; what it sees there of the interpreter is read-only and not its user's code."""
    with tempfile.TemporaryDirectory(prefix="constrictor-venv-", dir=top) as folder:
        os.chmod(folder, 0o755)
        python = make_venv(NEW[0], folder)
        result = cli.run("6 * 7", "--python", python)
        assert result.result == "42", result
        os.mkfifo(f"{folder}/pipe")
        os.chmod(f"{folder}/pipe", 0o666)
        (site,) = glob.glob(f"{folder}/lib/python3*/site-packages")
        with open(f"{site}/preload_below.py", "w") as file:
            file.write("def fail():\n    raise TypeError('below')\n")
        result = cli.run(BELOW, "--python", python)
        assert (result.verdict, result.error["type"]) == ("error", "TypeError"), result
        *errnos, listed, prefix = result.stdout.splitlines()
        assert set(errnos) <= {str(errno.EROFS), str(errno.EACCES)} and len(errnos) == 3 and prefix == folder, result
        assert set(ast.literal_eval(listed)) == {"own"} | {os.path.basename(folder) for _ in [top] if top == "/tmp"}, result
        assert [frame["file"] for frame in result.error["traceback"]] == ["<stdin>"], result
        # Under a policy scratch is mounted once more, for reading only; and what is installed is not the code's own.
        result = cli.run("import math\nmath.sqrt(49)", "--python", python, "--policy", "guarded")
        assert result.result == "7.0", result
        result = cli.run("__import__('preload_' + 'below')", "--python", python, "--policy", "guarded")
        assert not result.success and "preload_below" in result.error["message"], result


if os.getuid() == 0:
    NOBODY = 65534

    def evil_folder(folder):
        """Another user's: its library would be taken from a place of his."""
        os.symlink(os.path.dirname(os.path.realpath(NEW[0])), f"{folder}/bin")
        with open(f"{folder}/pyvenv.cfg", "w") as file:
            file.write(f"home = {folder}/bin\n")
        os.chown(folder, NOBODY, NOBODY)
        return f"{folder}/bin/{os.path.basename(os.path.realpath(NEW[0]))}"

    def evil_home(folder):
        python = make_venv(NEW[0], folder)
        os.mkdir(f"{folder}/theirs")
        os.chown(f"{folder}/theirs", NOBODY, NOBODY)
        with open(f"{folder}/pyvenv.cfg", "a") as file:
            file.write(f"home = {folder}/theirs\n")
        return python

    def evil_file(folder):
        python = make_venv(NEW[0], folder)
        os.chown(f"{folder}/pyvenv.cfg", NOBODY, NOBODY)
        return python

    def evil_pipe(folder):
        python = make_venv(NEW[0], folder)
        os.unlink(f"{folder}/pyvenv.cfg")
        os.mkfifo(f"{folder}/theirs")
        os.chown(f"{folder}/theirs", NOBODY, NOBODY)
        os.symlink("theirs", f"{folder}/pyvenv.cfg")
        return python

    def evil_parent(folder):
        os.mkdir(f"{folder}/in")
        python = make_venv(NEW[0], f"{folder}/in")
        os.chmod(folder, 0o777)
        return python

    def evil_link(folder):
        python = make_venv(NEW[0], folder)
        os.chown(python, NOBODY, NOBODY, follow_symlinks=False)
        return python

    @pytest.mark.parametrize("make", [evil_folder, evil_home, evil_file, evil_pipe, evil_parent, evil_link], ids=lambda f: f.__name__)
    def test_root_asks_nothing_of_what_another_user_can_change(cli, make):
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            os.chmod(folder, 0o755)
            result = cli.run("6 * 7", "--python", make(folder))
        assert result.status == 69 and "not root" in result.json["error"]["message"], result


if MNT:
    @pytest.mark.parametrize("name", ["data", "tmp", "shm"])
    def test_venv_among_the_folders_of_scratch(cli, name):
        made = not os.path.exists(f"/mnt/{name}")
        os.makedirs(f"/mnt/{name}", exist_ok=True)
        try:
            with tempfile.TemporaryDirectory(dir=f"/mnt/{name}") as folder:
                os.chmod(folder, 0o755)
                result = cli.run("6 * 7", "--python", make_venv(NEW[0], folder))
        finally:
            if made:
                os.rmdir(f"/mnt/{name}")
        assert result.status == 69 and f"/mnt/{name}" in result.json["error"]["hint"], result


def test_interpreter_that_never_answers(slow_interpreter):
    """The question to the interpreter has a time limit of its own."""
    out, err = slow_interpreter.communicate(timeout=100)
    assert (slow_interpreter.returncode, out) == (69, b"")
    assert b"slow" in err and b"hint:" in err
