# SPDX-License-Identifier: Apache-2.0
"""The same snippets in a real ipykernel and in a session: same text, same error and line, and at least
the same MIME types. One kernel runs them all (tests/helpers/kernel.py); a server runs them in sessions
over REST, one each.

What is made equal before it is compared, because it is meant to differ:
  - an error's type is its class's name (ipykernel says JSONDecodeError, we json.decoder.JSONDecodeError),
  - warnings name the file of the cell, which is /tmp/ipykernel_... there and <code N> here,
  - sys.exit() is an error named SystemExit there, with advice on stderr; here it is an exit code,
  - a result where a snippet is marked PRETTY: IPython breaks long values into lines and writes a class
    as its name, while our result is the value's repr(). Blanks and <class '...'> are taken out of both.
Left out, because IPython's printer has its own idea of them: functions (<function __main__.f()>).
Tracebacks are compared by type and line, not by their text: ipykernel's has colours and frames of its own.
"""

import json
import os
import re
import subprocess

import pytest
from conftest import TOP, open_cli
from rest_client import serve

KERNEL = TOP / "build" / "venv-ipykernel" / "bin" / "python"
DATA = TOP / "build" / "venv-data"
PRETTY = object()
RICH = """class Rich:
    def _repr_html_(self): return "<b>x</b>"
    def _repr_markdown_(self): return "**x**"
    def _repr_latex_(self): return "$x$"
    def __repr__(self): return "Rich()"
"""
PNG = ("import base64\nclass Dot:\n    def _repr_png_(self):\n        return base64.b64decode("
       "'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg==')\n"
       "    def __repr__(self): return 'Dot()'\n")
SVG = "<svg xmlns='http://www.w3.org/2000/svg' width='1' height='1'/>"

SNIPPETS = {
    # values
    "expression": ["1 + 1"],
    "last expression": ["x = 20\ny = 22\nx + y"],
    "no value": ["None", "x = 5", "pass", "# only a comment"],
    "numbers": ["7 / 2", "10 ** 30", "1e-9", "0.1 + 0.2", "3 + 4j", "True", "-0.0"],
    "strings": ["'a'", '"it\'s"', "'\\n\\t\\\\'", "b'\\x00\\xff'", "'''two\nlines'''"],
    "containers": ["[1, 2]", "{'a': 1}", "(1,)", "()", "{}", "set()", "{1}", "[[1], [2]]"],
    "types": [PRETTY, "int", "type(None)", "Exception", "...", "[int, str]", "class A: pass\nA"],
    "semicolons": ["7;", "x = 8; x", "x; # no", "_"],
    "expression over lines": ["[1,\n 2,\n 3]", "(4 +\n 5)"],
    "value after a block": ["for i in range(3):\n    i\ni", "if True:\n    5"],
    "long list": [PRETTY, "list(range(100))", "{i: str(i) * 5 for i in range(30)}"],
    "ranges and slices": ["range(5)", "slice(1, 2)", "[*range(4)][1:3]", "list(enumerate('ab'))"],
    # history
    "last values": ["1", "2", "3", "_, __, ___", "_1 + _2"],
    "out": ["10", "20", "Out[1] + Out[2]", "sorted(Out)", "Out[1] is _1"],
    "in": ["x = 1", "In[1]", "_i", "_ii", "len(In)", "_i1"],
    "underscore of the user": ["5", "_ = 'mine'", "6", "_", "_3"],
    "value of an error is none": ["5", "1/0", "_"],
    "loop variable underscore": ["5", "for _ in range(3): pass", "_"],
    # output
    "print": ["print('a')\nprint('b', end='')", "print(1, 2, sep='-')"],
    "stderr": ["import sys\nprint('out'); print('err', file=sys.stderr)\nsys.stderr.write('more\\n');"],
    "unicode": ["print('é 日本 \U0001f600')\n'日本'", "π = 3\nπ"],
    "big output": ["for i in range(2000): print(i, 'x' * 20)"],
    "write returns a number": ["import sys\nsys.stdout.write('abc')"],
    "replaced stdout": ["import sys, io\nold = sys.stdout\nsys.stdout = io.StringIO()\nprint('hidden')",
                        "text = sys.stdout.getvalue()\nsys.stdout = old\ntext"],
    "redirect": ["import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as f:\n"
                 "    print('caught')\nf.getvalue()"],
    "warnings": ["import warnings\nwarnings.warn('careful')", "warnings.warn('old', DeprecationWarning)"],
    "pprint": ["import pprint\npprint.pprint({'b': [1, 2], 'a': None})"],
    # errors
    "zero division": ["x = 1\n\nx / 0"],
    "nested functions": ["def f(x):\n    return g(x)\n\ndef g(x):\n    return 1 / x", "f(1)", "\nf(0)"],
    "error across cells": ["def f():\n    a = 1\n    raise ValueError('in f')", "\n\n\nf()"],
    "error in a library": ["import json\n\njson.loads('{')"],
    "name error": ["x = 1\nprint(y)"],
    "import error": ["import math\nimport no_such_module_anywhere"],
    "attribute error": ["class A:\n    pass\na = A()\na.b"],
    "cause": ["try:\n    {}['k']\nexcept KeyError as e:\n    raise ValueError('v') from e"],
    "context": ["try:\n    1/0\nexcept ZeroDivisionError:\n    nope"],
    "own exception": ["class Mine(Exception):\n    pass\nraise Mine('text')"],
    "assertion": ["x = 3\nassert x == 4, 'x is not four'"],
    "recursion": ["def f(n):\n    return f(n + 1)\nf(0)"],
    "output before an error": ["print('before')\n1/0\nprint('after')", "print('next')"],
    "exit": ["import sys\nx = 1\nsys.exit(3)", "x", "raise SystemExit"],
    "keyboard interrupt": ["x = 1\nraise KeyboardInterrupt", "x"],
    # On one line: since CPython 3.12 IPython names the line on which the statement begins, and we that of the error.
    "error in a comprehension": ["a = [1, 0]\nb = [1 / i for i in a]"],
    "error in a decorator": ["def d(f):\n    raise TypeError('d')\n@d\ndef g(): pass"],
    "error in a generator": ["def g():\n    yield 1\n    1/0\nlist(g())"],
    "error behind await": ["import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    1/0", "await f()"],
    "notes": ["e = ValueError('v')\nif hasattr(e, 'add_note'): e.add_note('n')\nraise e"],
    # syntax
    "syntax error": ["x = 1\nif x\n    pass", "x"],
    "indentation error": ["def f():\nreturn 1"],
    "unclosed bracket": ["x = (1,\ny = 2"],
    "return outside": ["x = 1\nreturn x"],
    "invalid assignment": ["x = 1\n1 = x"],
    "unterminated string": ["x = 1\ny = 'abc"],
    # the language
    "comprehension scopes": ["i = 'outer'\n[i for i in range(3)]", "i", "{k: v for k, v in zip('ab', [1, 2])}"],
    "classes": ["class P:\n    def __init__(self, x): self.x = x\n    def __repr__(self): return f'P({self.x})'",
                "P(3)", "P(3).x", "P.__name__, P.__module__"],
    "dataclass": ["import dataclasses\n@dataclasses.dataclass\nclass D:\n    a: int\n    b: str = 'x'", "D(1)"],
    "decorators": ["import functools\ndef twice(f):\n    @functools.wraps(f)\n    def g(*a): return 2 * f(*a)\n"
                   "    return g\n@twice\ndef h(x): return x + 1", "h(4), h.__name__"],
    "generators": ["def g():\n    x = yield 1\n    print('got', x)\n    yield 2\ni = g()", "next(i)", "i.send('v')"],
    "top-level await": ["import asyncio\nawait asyncio.sleep(0, 'slept')"],
    "async for": ["async def g():\n    for i in range(3): yield i\n[i async for i in g()]",
                  "async for i in g(): print(i)"],
    "tasks across cells": ["import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 'done'\n"
                           "t = asyncio.create_task(f())", "await t"],
    "f-strings": ["x = 3.14159\nf'{x:.2f} {x!r} {x=}'"],
    "walrus": ["(n := 10) + n", "n"],
    "match": ["def f(v):\n    match v:\n        case [a, b]: return a + b\n        case {'k': k}: return k\n"
              "        case _: return None\nf([1, 2]), f({'k': 5}), f(3)"],
    "global state": ["count = 0\ndef bump():\n    global count\n    count += 1", "bump(); bump()", "count"],
    "del": ["x = 1", "del x", "x"],
    "context manager": ["import contextlib\n@contextlib.contextmanager\ndef c():\n    print('in')\n    yield 5\n"
                        "    print('out')\nwith c() as v:\n    print(v)"],
    "annotations": [PRETTY, "x: int = 5", "x", "__annotations__"],
    "future import stays": ["from __future__ import annotations", "def f(a: nope): pass\nf.__annotations__"],
    "closures": ["fs = [lambda i=i: i for i in range(3)]\n[f() for f in fs]"],
    "star expressions": ["a, *b = range(4)\nb", "[*b, *'xy']", "{**{'a': 1}, 'b': 2}"],
    "name and main": ["__name__", "import sys\nsys.modules['__main__'].__dict__ is globals()"],
    "inspect": ["import inspect\ndef f(x):\n    return x + 1", "print(inspect.getsource(f))"],
    "pickle": ["import pickle\nclass A: x = 4", "pickle.loads(pickle.dumps(A())).x"],
    "threads": ["import threading\nr = []\nt = threading.Thread(target=r.append, args=(1,)); t.start(); t.join()\nr"],
    "dates": ["import datetime\ndatetime.date(2024, 2, 29)", "datetime.timedelta(hours=3)"],
    "decimal and fraction": ["from decimal import Decimal\nDecimal('1.10') + 1", "from fractions import Fraction\n"
                             "Fraction(1, 3) + Fraction(1, 6)"],
    # display
    "repr methods": [RICH + "Rich()", "display(Rich())"],
    "repr png": [PNG + "Dot()", "display(Dot())"],
    "repr svg": [f"class S:\n    def _repr_svg_(self): return \"{SVG}\"\n    def __repr__(self): return 'S()'\nS()"],
    "mime bundle": ["class B:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n"
                    "        return {'text/html': '<i>b</i>', 'application/json': {'a': 1}, 'text/plain': 'plain'}\n"
                    "display(B())"],
    "display of plain values": ["display(1, 'two', [3])"],
    "repr that raises in html": ["class H:\n    def _repr_html_(self): return None\n"
                                 "    def __repr__(self): return 'H()'\nH()"],
    # the data stack
    "numpy": ["import numpy as np\nnp.arange(6).reshape(2, 3)", "np.float64(2.5)", "np.zeros(3).dtype"],
    "data frame": ["import pandas as pd\nframe = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})\nframe",
                   "frame['a'].sum()", "frame.describe()", "display(frame)"],
    "series": ["import pandas as pd\npd.Series([1.5, 2.5], name='s')", "pd.Series([1]).index"],
    "frame error": ["import pandas as pd\nframe = pd.DataFrame({'a': [1]})\nframe['nope']"],
    "figure": ["import matplotlib.pyplot as plt\nplt.plot([1, 2]);\nplt.title('t');", "plt.plot([3])\nplt.show()"],
    "figure as a value": ["import matplotlib.pyplot as plt\nf, a = plt.subplots(); a.plot([1, 2])\nplt.close(f)\nf"],
}


def parts(snippet):
    return [cell for cell in snippet if cell is not PRETTY]


@pytest.fixture(scope="module")
def kernel():
    """What ipykernel says: name of the snippet -> its cells."""
    libraries = next(DATA.glob("lib/python3.*/site-packages"))
    env = {**os.environ, "PYTHONPATH": str(libraries), "PYTHONWARNINGS": "default",
           "JUPYTER_PLATFORM_DIRS": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    done = subprocess.run([KERNEL, TOP / "tests" / "helpers" / "kernel.py"], env=env, timeout=380, check=True,
                          input=json.dumps([parts(s) for s in SNIPPETS.values()]).encode(),
                          stdout=subprocess.PIPE)
    return dict(zip(SNIPPETS, json.loads(done.stdout)))


@pytest.fixture(scope="module")
def server(program):
    with open_cli(program) as cli:
        yield serve(cli, "--python", str(DATA / "bin" / "python"), "--preload", "numpy,pandas,matplotlib.pyplot")


def plain(text):
    """Warnings without the file that they name."""
    return re.sub(r"(?m)^\S.*?:(\d+): (?=\w*Warning: )", r"CELL:\1: ", text)


def squeezed(text):
    return text and re.sub(r"\s|<class '|'>", "", text)


def ours(result):
    error = result["error"]
    types = {kind for item in result["display"] for kind in item if "/" in kind}
    return {"stdout": result["stdout"], "stderr": plain(result["stderr"]), "result": result["result"],
            "error": error and (error["type"].rpartition(".")[2], error["line"]),
            "types": types | ({"text/plain"} if result["result"] is not None else set())}


def theirs(cell):
    error = cell["error"]
    return {"stdout": cell["stdout"], "stderr": plain(cell["stderr"]), "result": cell["result"],
            "error": error and (error["name"], error["line"]), "types": set(cell["types"])}


@pytest.mark.parametrize("name", SNIPPETS)
def test_same_as_ipykernel(kernel, server, name):
    session = re.sub(r"\W", "-", name)
    for number, (code, cell) in enumerate(zip(parts(SNIPPETS[name]), kernel[name]), 1):
        result = server.run(code, session_id=session)
        mine, other = ours(result), theirs(cell)
        if other["error"] and other["error"][0] == "SystemExit":
            assert (result["error"], result["exit_code"]) == (None, int(cell["error"]["value"] or 0))
            other.update(error=None, stderr=mine["stderr"])
        if PRETTY in SNIPPETS[name]:
            mine["result"], other["result"] = squeezed(mine["result"]), squeezed(other["result"])
        assert result["execution_count"] == cell["count"] == number
        assert mine["types"] >= other["types"], code
        del mine["types"], other["types"]
        assert mine == other, code
    server.ask("DELETE", f"/sessions/{session}")


def test_there_are_enough():
    assert len(SNIPPETS) >= 60
