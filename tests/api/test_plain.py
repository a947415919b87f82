# SPDX-License-Identifier: Apache-2.0
"""Runs that are done in C (src/python/ext/plain.c) answer as those that runner.py does.

A comment with the word `await` is all it takes to be done in Python, so each text runs both ways.
"""


import pathlib
import re
import subprocess
import tempfile

import pytest
from conftest import FOLDER, open_cli
from rest_client import serve

TEXTS = {
    "integer": "1 + 1",
    "negative": "-(2 ** 63)",
    "beyond 64 bits": "2 ** 63",
    "blanks around": "  \n 7 \n\n",
    "float": "1e300 * 3",
    "not a number": "float('nan')",
    "infinite": "-1e999",
    "boolean": "3 > 2",
    "nothing": "None",
    "empty": "",
    "only a comment": "# nothing",
    "text": "'it\\'s \"so\"\\n\\t\\\\'",
    "text with NUL": "'a\\0b'",
    "text of others": "'gr\u00fc\u00df \U0001f600'",
    "half a character": "'\\ud800'",
    "long text": "'x' * 100_000",
    "text at the bound": "'\\x01' * 16_384",
    "subclass": "type('I', (int,), {})(3)",
    "subclass of str": "type('S', (str,), {})('x')",
    "list": "[1, {'a': None}]",
    "set": "{1}",
    "repr fails": "type('R', (), {'__repr__': lambda self: 1 / 0})()",
    "repr leaves": "type('R', (), {'__repr__': lambda self: exit(4)})()",
    "print": "print('a'); print('b')",
    "half a line": "print('a', end='')",
    "stderr": "__import__('sys').stderr.write('e') and None",
    "hidden value": "3;",
    "statements": "x = 3\ny = x * 2\ny",
    "definition": "def f(a):\n    return a\nf(2)",
    "no value at the end": "x = 3",
    "import": "import json\njson.dumps([1])",
    "new import": "import colorsys\ncolorsys.rgb_to_hsv(0, 0, 0)[0]",
    "lambda": "(lambda n: n * 2)(4)",
    "comprehension": "sum(i for i in range(10))",
    "future": "from __future__ import annotations\n1",
    "error": "1 / 0",
    "error below": "def f():\n    return {}['k']\nprint(1)\nf()",
    "error with cause": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('v') from e",
    "syntax": "1 +",
    "syntax later": "x = 1\nx y",
    "indented": "  x = 1\n  x",
    "deep": "(" * 150 + ")" * 150,
    "not UTF-8 in text": "b'\\xff'.decode()",
    "magic": "%matplotlib inline\n4",
    "no magic": "!ls",
    "exit": "exit()",
    "exit with number": "import sys; sys.exit(3)",
    "exit with text": "raise SystemExit('bye')",
    "interrupt": "raise KeyboardInterrupt",
    "assert": "assert 1 == 2, 'no'",
    "recursion": "def f(): return f()\nf()",
    "input": "input('? ')",
    "trace": "import sys\nsys.settrace(lambda *a: None)\nsys.setrecursionlimit(60)\n5",
    "atexit": "__import__('atexit').register(print, 'end')",
    "atexit twice": "a = __import__('atexit'); a._clear(); a.register(lambda: print('end')) and None",
    "atexit error": "__import__('atexit').register(lambda: 1 / 0) and None",
    "thread": "__import__('threading').Timer(0.05, print, ['late']).start()",
    "logging": "import logging; logging.basicConfig(); logging.warning('w')",
    "buffered log": "import logging.handlers as h; "
                    "l = h.MemoryHandler(9, target=h.logging.StreamHandler()); "
                    "l.emit(h.logging.makeLogRecord({'msg': 'kept'}))",
    "finaliser": "type('T', (), {'__del__': lambda self: print('gone')})() and None",
    "finaliser in a cycle": "[x.append(x) for x in [[type('T', (), {'__del__': lambda s: print('gone')})()]]] and None",
    "file that is not closed": "[f.write('x') for f in [open('f.txt', 'w')]] and None",
    "named object": "class T:\n    def __del__(self): print('gone')\nt = T()",
    "named file": "f = open('out.txt', 'w')\nf.write('abc')",
    "file of a main function": "def main():\n    global f\n    f = open('out.txt', 'w')\n    f.write('abc')\n"
                               "if __name__ == '__ma' 'in__':\n    main()",
    "little recursion": "import sys, threading\nthreading.Timer(0.05, print, ['late']).start()\n"
                        "sys.setrecursionlimit(30)\n1",
    "builtins gone": "del __builtins__\nlen([1])",
    "own stdout": "import sys, io; sys.stdout = io.StringIO(); print('x')",
    "closed stdout": "__import__('sys').stdout.close()",
    "no stdout": "del __import__('sys').stdout",
    "no main": "__import__('sys').modules.pop('__ma' + 'in__') and None",
    "other doc": "globals().update(__doc__='d')",
    "broken builtins": "import builtins; builtins.repr = builtins.len = builtins.isinstance = None\n9",
    "patched modules": "import gc, sys; gc.collect = sys.getrefcount = None\n9",
    "fork": "import os; p = os.fork()\nif not p: print('child')\nelse: os.wait()",
    "fork of an expression": "(lambda p: __import__('os').wait() and 1 if p else 2)(__import__('os').fork()) and None",
    "display": "display({'a': 1})",
    "name and arguments": "print(__name__, __import__('sys').argv, __builtins__.__name__, __doc__)",
    "own text": "import inspect\ndef f():\n    return 1\ninspect.getsource(f)",
    "names": "sorted(globals())",
    "file": "open('made.txt', 'w').write('abc')",
}
# Here the runner itself gets into the way of what is asked for, and C does not.
ODD = {
    "tracer that raises": "import sys\ndef tracer(frame, event, arg):\n    return undefined_name\n"
                          "sys.settrace(tracer)\nx = 1",
    "profiler": "import sys, threading\nthreading.Timer(0.05, print, ['late']).start()\n"
                "sys.setprofile(lambda *a: print(a[1]) if a[1] == 'call' else None)\n1",
    "steps that change": "import gc, sys\n"
                         "found = [r for r in gc.get_referrers(sys._getframe().f_code) if type(r) is list]\n"
                         "for r in found: r.clear()\nprint(1)",
}
DIFFERS = "execution_id", "usage", "files"


@pytest.fixture(scope="module")
def api(program):
    with open_cli(program) as cli:
        yield serve(cli)


def shape(answer):
    if answer["error"]:                         # the runner's own frames are a part of the depth
        answer["error"]["text"] = re.sub(r"repeated \d+ more", "repeated", answer["error"]["text"])
    kept = {key: value for key, value in answer.items() if key not in DIFFERS}
    return kept, [(file["path"], file["size"]) for file in answer["files"]]


@pytest.mark.parametrize("name", TEXTS)
def test_the_same_answer_both_ways(api, name):
    text = TEXTS[name]
    in_c = shape(api.run(text))
    in_python = shape(api.run(f"{text}\n# await"))
    assert in_c == in_python


@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_ends_well(api, name):
    answer = api.run(ODD[name])
    assert answer["verdict"] == "ok" and answer["error"] is None, answer
    assert "late" in answer["stdout"] or name != "profiler", answer


def test_whose_run_it_is(api):
    """The texts above were really run by both."""
    code = "import sys\nsys._getframe().f_back.f_code.co_name"
    assert api.run(code)["result_json"] == "main"
    assert api.run(code + "  # await")["result_json"] == "evaluate"


def test_a_main_function_s_file_is_whole(api):
    """With the word itself it is the runner's."""
    text = TEXTS["file of a main function"].replace("'__ma' 'in__'", "'__main__'")
    assert [(file["path"], file["size"]) for file in api.run(text)["files"]] == [("out.txt", 3)]


def test_so_is_that_of_a_run_with_arguments(api):
    answer = api.run(TEXTS["named file"], args=["a"])
    assert [(file["path"], file["size"]) for file in answer["files"]] == [("out.txt", 3)], answer


def test_a_long_text_is_not_copied(api):
    peak = [api.run("'\\xe9' * 150_000_000" + more)["usage"]["peak_memory_bytes"] for more in ("", "  # await")]
    assert peak[0] < peak[1] * 1.2, peak


def test_options_are_for_the_runner(api):
    answer = api.run("import sys\nx, sys.argv", variables={"x": 5})
    assert answer["result_json"] == [5, ["<code>"]], answer


@pytest.fixture(scope="module")
def early(program):
    """A server whose interpreter imports random before the zygote can see what that wants done after a fork."""
    with tempfile.TemporaryDirectory(prefix="constrictor-venv-", dir=FOLDER) as folder, open_cli(program) as cli:
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", folder], check=True, capture_output=True)
        packages, = pathlib.Path(folder).glob("lib/python*/site-packages")
        (packages / "early.pth").write_text("import random\n")
        pathlib.Path(folder).chmod(0o755)
        yield serve(cli, "--python", f"{folder}/bin/python")


def test_random_numbers_differ_whoever_imported_them(early):
    assert len({early.run("__import__('random').random()")["result"] for _ in range(8)}) == 8


def test_random_numbers_differ(api):
    drawn = [api.run(code)["result"] for _ in range(8) for code in
             ("__import__('random').random()", "str(__import__('uuid').uuid4())")]
    assert len(set(drawn)) == 16, drawn


def test_want_of_memory_is_described(api):
    assert api.run("bytearray(1 << 50)")["error"]["type"] == "MemoryError"
