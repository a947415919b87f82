# SPDX-License-Identifier: Apache-2.0
"""What of the standard library must work in a box: processes, threads, databases, files, signals.

Black box: each piece of code prints what the same code prints in an ordinary python3.
"""

import pytest

LIBRARIES = {
    "multiprocessing": (
        (
            "import multiprocessing as m\ndef f(x): return x * x\nif __name__ == '__main__':\n   "
            " with m.get_context('fork').Pool(3) as p: print(p.map(f, range(4)))"
        ),
        "[0, 1, 4, 9]\n",
    ),
    "process_pool": (
        (
            "from concurrent.futures import ProcessPoolExecutor\nimport multiprocessing as m\nwith"
            " ProcessPoolExecutor(2, m.get_context('fork')) as p: print(sum(p.map(abs, [-1, -2])))"
        ),
        "3\n",
    ),
    "thread_pool": (
        (
            "from concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(4) as p: print(sum(p.map(abs, [-1, -2])))"
        ),
        "3\n",
    ),
    "subprocess": (
        (
            "import subprocess, sys\nprint(subprocess.check_output([sys.executable, '-c', 'print(1"
            " + 1)'], text=True), end='')\nsubprocess.run('echo shell; exit 0', shell=True,"
            " check=True)"
        ),
        "2\nshell\n",
    ),
    "asyncio": (
        (
            "import asyncio\nasync def main():\n    p = await asyncio.create_subprocess_shell('echo"
            " hi', stdout=asyncio.subprocess.PIPE)\n    print((await p.communicate())[0].decode(),"
            " end='')\nasyncio.run(main())"
        ),
        "hi\n",
    ),
    "sqlite3": (
        (
            "import sqlite3\nc = sqlite3.connect('t.db')\nc.execute('create table"
            " t(x)')\nc.executemany('insert into t values (?)', [(1,),"
            " (2,)])\nc.commit()\nprint(c.execute('select sum(x) from t').fetchone())"
        ),
        "(3,)\n",
    ),
    "ctypes": ("import ctypes\nprint(ctypes.CDLL(None).abs(-5))", "5\n"),
    "tempfile": (
        (
            "import tempfile, os\nwith tempfile.TemporaryDirectory() as d: open(d + '/x',"
            " 'w').close(); print(os.listdir(d))"
        ),
        "['x']\n",
    ),
    "zipfile": (
        (
            "import zipfile\nz = zipfile.ZipFile('a.zip', 'w'); z.writestr('n', 'data');"
            " z.close()\nprint(zipfile.ZipFile('a.zip').read('n'))"
        ),
        "b'data'\n",
    ),
    "pickle_of_main": (
        "import pickle\nclass A: x = 3\nprint(pickle.loads(pickle.dumps(A())).x)",
        "3\n",
    ),
    "dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nprint(P(1))",
        "P(x=1)\n",
    ),
    "inspect": (
        "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f), end='')",
        "def f():\n    return 1\n",
    ),
    "signal": (
        (
            "import signal, time\nsignal.signal(signal.SIGALRM, lambda *a:"
            " print('tick'))\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\nsignal.pause()"
        ),
        "tick\n",
    ),
    "time_zone": (
        "import datetime\nprint(datetime.datetime.fromtimestamp(0, datetime.timezone.utc).year)",
        "1970\n",
    ),
    "locale": (
        "print('é中'.encode() == b'\\xc3\\xa9\\xe4\\xb8\\xad', open('/dev/null').encoding.lower())",
        "True utf-8\n",
    ),
    "import_own_module": ("open('mine.py', 'w').write('x = 9')\nimport mine\nprint(mine.x)", "9\n"),
    "multiprocessing_queue": (
        (
            "import multiprocessing as m\nc = m.get_context('fork')\nq, e = c.Queue(), c.Event()\n"
            "def f():\n    q.put('from a child'); e.set()\n"
            "p = c.Process(target=f); p.start(); print(q.get(), e.wait(30)); p.join()"
        ),
        "from a child True\n",
    ),
    "shared_memory": (
        (
            "from multiprocessing import shared_memory\n"
            "a = shared_memory.SharedMemory(create=True, size=1 << 20)\n"
            "b = shared_memory.SharedMemory(a.name); a.buf[:2] = b'hi'; print(bytes(b.buf[:2]))\n"
            "b.close(); a.close(); a.unlink()"
        ),
        "b'hi'\n",
    ),
    "mmap_flush": (
        (
            "import mmap\nopen('m', 'wb').write(bytes(8192))\nwith open('m', 'r+b') as f:\n"
            "    m = mmap.mmap(f.fileno(), 0); m[:2] = b'hi'; m.flush(); m.madvise(mmap.MADV_SEQUENTIAL)\n"
            "    m.close()\nprint(open('m', 'rb').read(2), len(mmap.mmap(-1, 4096)))"
        ),
        "b'hi' 4096\n",
    ),
    # Accepted and ignored: how a box is scheduled is set from outside.
    "nice": (
        "import os\nbefore = os.nice(0); print(os.nice(5) == before, os.nice(20) == before)",
        "True True\n",
    ),
    "affinity": (
        (
            "import os\nbefore = os.sched_getaffinity(0); os.sched_setaffinity(0, {min(before)})\n"
            "print(os.sched_getaffinity(0) == before)"
        ),
        "True\n",
    ),
    "posix_fallocate": (
        (
            "import os\nf = open('f', 'wb'); os.posix_fallocate(f.fileno(), 0, 100000)\n"
            "os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED); print(os.path.getsize('f'))"
        ),
        "100000\n",
    ),
    "fsync": (
        (
            "import os\nf = open('f', 'w'); f.write('x'); f.flush()\n"
            "print(os.fsync(f), os.fdatasync(f.fileno()), open('f').read())"
        ),
        "None None x\n",
    ),
    "copies": (
        (
            "import shutil, os\nopen('a', 'w').write('x' * 100000); shutil.copy('a', 'b')\n"
            "shutil.copy2(os.__file__, 'c'); shutil.move('b', 'd'); shutil.copytree('.', '/tmp/e')\n"
            "print(os.path.getsize('/tmp/e/d'))"
        ),
        "100000\n",
    ),
    "record_locks": (
        (
            "import fcntl, os\nf = open('l', 'w'); fcntl.lockf(f, fcntl.LOCK_EX)\n"
            "pid = os.fork()\nif pid == 0:\n"
            "    try: fcntl.lockf(open('l', 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB); os._exit(0)\n"
            "    except BlockingIOError: os._exit(7)\n"
            "print(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))"
        ),
        "7\n",
    ),
    "pipe_sizes": (
        (
            "import fcntl, os\nr, w = os.pipe()\nset_size, get_size = 1031, 1032\n"
            "fcntl.fcntl(w, set_size, 1 << 17); print(fcntl.fcntl(r, get_size))"
        ),
        "131072\n",
    ),
    "sqlite3_wal": (
        (
            "import sqlite3\nc = sqlite3.connect('w.db'); print(c.execute('pragma journal_mode=wal').fetchone())\n"
            "c.execute('pragma mmap_size=1048576'); c.execute('create table t(x)')\n"
            "c.executemany('insert into t values (?)', [(i,) for i in range(1000)]); c.commit()\n"
            "c.execute('delete from t where x > 9'); c.commit(); c.execute('vacuum')\n"
            "print(sqlite3.connect('w.db').execute('select sum(x) from t').fetchone())"
        ),
        "('wal',)\n(45,)\n",
    ),
    "venv_free_path": ("import sys\nprint('/opt/constrictor' in sys.path[:1])", "False\n"),
}


@pytest.mark.parametrize("name", sorted(LIBRARIES))
def test_library(cli, name):
    code, expected = LIBRARIES[name]
    result = cli.run(code)
    assert (result.verdict, result.stdout) == ("ok", expected), result


@pytest.mark.parametrize("code", ["import os; os.openpty()", "import pty; pty.openpty()", "import pty; pty.spawn(['ls'])"])
def test_code_that_wants_a_terminal_is_told_that_there_is_none(cli, code):
    assert "boxes have no terminals" in cli.plain(code).err
    assert "boxes have no terminals" not in cli.plain("empty = open('empty')").err
