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
    "venv_free_path": ("import sys\nprint('/opt/constrictor' in sys.path[:1])", "False\n"),
}


@pytest.mark.parametrize("name", sorted(LIBRARIES))
def test_library(cli, name):
    code, expected = LIBRARIES[name]
    result = cli.run(code)
    assert (result.verdict, result.stdout) == ("ok", expected), result
