# SPDX-License-Identifier: Apache-2.0
"""Programs that code starts: python, python3 and pip are the box's own, and its workers start as they do elsewhere.

Black box, with the interpreter that `constrictor run` takes by default and with a virtual environment.
"""

import os
import subprocess
import sys
import tempfile

import pytest

FOLDER = "/var/tmp" if os.getuid() else None
SAY = "import sys; print(sys.prefix, sys.version_info[:3])"


@pytest.fixture(scope="module")
def bare_venv():
    """A virtual environment without pip."""
    with tempfile.TemporaryDirectory(prefix="constrictor-venv-", dir=FOLDER) as folder:
        os.chmod(folder, 0o755)
        subprocess.run([sys._base_executable, "-m", "venv", "--without-pip", folder], check=True)
        yield f"{folder}/bin/python"


def printed(cli, code, *flags):
    """What code prints; nothing may be on stderr."""
    ran = cli.run(code, *flags)
    assert (ran.verdict, ran.stderr) == ("ok", ""), ran
    return ran.stdout


@pytest.mark.parametrize("start", [
    f"subprocess.run(['python', '-c', {SAY!r}])",
    f"subprocess.run(['python3', '-c', {SAY!r}])",
    f"subprocess.run([sys.executable, '-c', {SAY!r}])",
    f"open('s.py', 'w').write({SAY!r}); os.system('python s.py')",
    f"open('s.py', 'w').write({SAY!r}); os.system('python3 -m s')",
    f"open('s', 'w').write('#!/usr/bin/env python3\\n' + {SAY!r}); os.chmod('s', 0o755); subprocess.run('./s')",
])
@pytest.mark.parametrize("kind", ["default", "venv"])
def test_python_is_the_interpreter_of_the_box(cli, bare_venv, start, kind):
    flags = ["--python", bare_venv] if kind == "venv" else []
    said = printed(cli, f"import os, subprocess, sys\n{SAY}\nsys.stdout.flush()\n{start}", *flags).splitlines()
    assert len(said) == 2 and said[0] == said[1], said


def test_children_are_not_isolated(cli):
    code = "import subprocess, sys\n" \
           "flags = subprocess._args_from_interpreter_flags()\n" \
           "print(sys.flags.isolated, sys.flags.ignore_environment, '-I' in flags, '-E' in flags)"
    assert printed(cli, code) == "0 0 False False\n"


def test_code_starts_in_a_clean_path(cli):
    assert printed(cli, "import sys; print([p for p in sys.path if 'constrictor' in p], sys.path[0])") == "[] /mnt/data\n"


WORKERS = {
    "spawn": "import multiprocessing as m\nif __name__ == '__main__':\n"
             "    with m.get_context('spawn').Pool(2) as p: print(p.map(f, [1, 2]))",
    "forkserver": "import multiprocessing as m\nif __name__ == '__main__':\n"
                  "    with m.get_context('forkserver').Pool(2) as p: print(p.map(f, [1, 2]))",
    "executor": "from concurrent.futures import ProcessPoolExecutor\nif __name__ == '__main__':\n"
                "    with ProcessPoolExecutor(2) as p: print(list(p.map(f, [1, 2])))",
    "spawned executor": "import multiprocessing as m\nfrom concurrent.futures import ProcessPoolExecutor\n"
                        "if __name__ == '__main__':\n"
                        "    with ProcessPoolExecutor(2, m.get_context('spawn')) as p: print(list(p.map(f, [1, 2])))",
    "shared memory": "from multiprocessing import shared_memory\n"
                     "s = shared_memory.SharedMemory(create=True, size=8); s.buf[0] = 3\nprint([s.buf[0] - 2, 4])\n"
                     "s.close(); s.unlink()",
}


@pytest.mark.parametrize("name", WORKERS)
def test_workers_leave_no_stray_text(cli, name):
    assert printed(cli, f"def f(x): return x * x\n{WORKERS[name]}") == "[1, 4]\n"


# ---- pip ----------------------------------------------------------------------------------------

INSTALLS = {
    "pip": "subprocess.run(['pip', 'install', 'requests'], capture_output=True, text=True)",
    "pip3": "subprocess.run('pip3 install -q requests', shell=True, capture_output=True, text=True)",
    "module": "subprocess.run([sys.executable, '-m', 'pip', 'install', 'requests'], capture_output=True, text=True)",
    "upgrade": "subprocess.run(['python', '-m', 'pip', 'install', '-U', 'requests'], capture_output=True, text=True)",
}


@pytest.mark.parametrize("name", INSTALLS)
@pytest.mark.parametrize("kind", ["default", "venv"])
def test_pip_install_says_what_to_do_instead(cli, bare_venv, name, kind):
    flags = ["--python", bare_venv] if kind == "venv" else []
    done = f"import subprocess, sys\nr = {INSTALLS[name]}\nprint(r.returncode, r.stdout.strip(), r.stderr, end='')"
    said = printed(cli, done, *flags)
    assert said.startswith("1  ERROR: ") and said.count("\n") == 1, said
    for word in "requests", "install_package", "packages", "--package":
        assert word in said, said


def test_pip_called_as_a_function_says_the_same(cli):
    ran = cli.run("import pip\nprint(pip.main(['install', 'requests']), pip.main(['list', '--format=json']))", "--python", sys.executable)
    assert ran.stdout.startswith("[{") and ran.stdout.endswith("1 0\n") and "install_package" in ran.stderr, ran


@pytest.mark.parametrize("kind", ["default", "venv"])
def test_pip_lists_what_is_there(cli, bare_venv, kind):
    """In an interpreter with pip and in one without."""
    flags = ["--python", bare_venv] if kind == "venv" else ["--python", sys.executable]
    code = "import os, subprocess\n" \
           "os.makedirs('lib/lab_here-1.5.dist-info'); open('lib/lab_here-1.5.dist-info/METADATA', 'w')" \
           ".write('Metadata-Version: 2.1\\nName: lab-here\\nVersion: 1.5\\nSummary: a test\\n')\n" \
           "os.environ['PYTHONPATH'] += ':/mnt/data/lib'\n" \
           "for words in 'list', 'freeze', 'show lab_here', '--version', 'show no-such-package':\n" \
           "    r = subprocess.run(['pip', *words.split()], capture_output=True, text=True)\n" \
           "    print('>', words, r.returncode, r.stdout)"
    text = cli.run(code, *flags).stdout.replace("lab_here", "lab-here")
    for part in "lab-here==1.5", "> list 0 Package", "Version: 1.5", "Summary: a test", "> --version 0 pip ", "package 1":
        assert part in text, text


# ---- Users --------------------------------------------------------------------------------------


def test_users_have_names(cli):
    code = "import getpass, grp, os, pwd\n" \
           "print(pwd.getpwuid(0).pw_name, grp.getgrgid(0).gr_name, getpass.getuser(), os.path.expanduser('~'),\n" \
           "      pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name, pwd.getpwnam('nobody').pw_uid)"
    assert printed(cli, code) == "root root user /mnt/data user user 65534\n"
