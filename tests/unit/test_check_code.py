# SPDX-License-Identifier: Apache-2.0
"""Tests of src/python/check/check.py and policy.py, outside any box: tables of sources and what is said about
them. Works with pytest and with plain `python3 tests/unit/test_check_code.py`, on every CPython from 3.9 on.
"""

import json
import os
import sys
import time
import unittest
import warnings

from python_side import SIDE

sys.dont_write_bytecode = True


def path_of(name):
    """The file of one of our modules."""
    return os.path.join(SIDE, name + ".py")


sys.path.insert(0, SIDE)
import check as checking
sys.path.remove(SIDE)
policies = sys.modules["policy"]
NEW = sys.version_info


def check(source, **policy):
    answer = checking.check(source, policy)
    json.dumps(answer)
    return answer


def rules_in(source, **policy):
    return [(item["rule"], item["line"]) for item in check(source, **policy)["recommendations"]]


class Syntax(unittest.TestCase):
    # source, line, offset (None: not compared), what the message has
    WRONG = [
        ("x = (1,\ny = 2\n", None, None, ""),
        ("def f(:\n    pass\n", 1, 7, "invalid syntax"),
        ("x = 1\n  y = 2\n", 2, None, "unexpected indent"),
        ("if x:\npass\n", 2, None, "expected an indented block"),
        ("print 'x'\n", 1, None, "print"),
        ("x = 'abc\n", 1, None, "string literal"),
        ("return 1\n", 1, None, "'return' outside function"),
        ("def f():\n    break\n", 2, None, "outside loop"),
        ("for x in y:\n    def f():\n        continue\n", 3, None, "not properly in loop"),
        ("class A:\n    yield 1\n", 2, None, "'yield' outside function"),
        ("def f():\n    x = 1\n    global x\n", 3, None, "before global"),
        ("nonlocal x\n", 1, None, "nonlocal"),
        ("def f(a, a): pass\n", 1, None, "duplicate argument"),
        ("f = lambda a, a: 1\n", 1, None, "duplicate argument"),
        ("f(a=1, a=2)\n", 1, None, "keyword argument repeated"),
        ("x = 1\nfrom __future__ import annotations\n", 2, None, "from __future__"),
        ("from __future__ import braces\n", 1, None, "not a chance"),
        ("def f():\n    from os import *\n", 2, None, "import *"),
        ("def f():\n    await g()\n", 2, None, "await"),
        ("def f():\n    async with g(): pass\n", 2, None, "async"),
        ("*a = [1]\n", 1, None, "starred"),
        ("x = *a\n", 1, None, "starred"),
        ("a, *b, *c = x\n", 1, None, "starred"),
        ("try:\n    pass\nexcept:\n    pass\nexcept ValueError:\n    pass\n", None, None, "except"),
        ("[x := 1 for x in y]\n", 1, None, "assignment expression"),
        ("async def f():\n    yield 1\n    return 2\n", 3, None, "return"),
        ("[(yield) for x in y]\n", 1, None, "yield"),
        ("def __debug__(): pass\n", 1, None, "__debug__"),
        ("\N{SNOWMAN} = 1\n", 1, None, "invalid"),
    ]

    def test_errors_have_line_offset_and_context(self):
        for source, line, offset, text in self.WRONG:
            with self.subTest(source):
                answer = check(source)
                error = answer["error"]
                self.assertFalse(answer["valid"])
                self.assertIsNotNone(error, source)
                self.assertTrue(1 <= error["line"] <= source.count("\n") + 1, error)
                if line is not None and NEW >= (3, 10):
                    self.assertEqual(error["line"], line, error)
                if offset is not None:
                    self.assertEqual(error["offset"], offset, error)
                if NEW >= (3, 10) or text in ("", "invalid syntax"):
                    self.assertIn(text, error["message"])
                self.assertIn(f"> {error['line']} | ", error["context"])
                self.assertIn({"line": error["line"],
                               "text": source.split("\n")[error["line"] - 1]}, error["lines"])
                self.assertIn("line_count", answer["analysis"])

    def test_caret_is_below_the_error(self):
        error = check("\tx = 1 +* 2\n".lstrip("\t"))["error"]
        self.assertEqual(error["caret"].index("^"), error["offset"] - 1)
        error = check("if 1:\n\tx = = 1\n")["error"]
        self.assertTrue(error["caret"].startswith("\t"), error)
        self.assertEqual(error["text"], "\tx = = 1")

    def test_context_of_a_long_line_is_a_piece_of_it(self):
        error = check("x = [" + "1, " * 100_000 + "= ]\n")["error"]
        self.assertLess(len(error["context"]), 3000)
        self.assertIn("=", error["text"][len(error["caret"]) - 1:])

    def test_what_compiles_is_valid(self):
        for source in ("", "\n", "# only\n", "x = 1", "await f()\n", "\ufeffx = 1\n", "x = 1\r\ny = 2\r",
                       "\fx = 1\n\f\ndef f():\n\f    pass\n", "if 1:\n\tx = 1\n", "x = 1;", "1;2;3;",
                       "# -*- coding: latin-1 -*-\nx = 1\n", "async def f():\n    return 1\n",
                       "class A:\n    for i in x:\n        break\n", "\N{GREEK SMALL LETTER PI} = 3.14\n"):
            with self.subTest(source):
                answer = check(source)
                self.assertEqual((answer["valid"], answer["error"]), (True, None))

    def test_commands_of_notebooks(self):
        answer = check("%matplotlib inline\nimport math\nmath.pi\n")
        self.assertTrue(answer["valid"])
        self.assertEqual([item["rule"] for item in answer["recommendations"]], ["magic"])
        answer = check("x = 1\n!pip install numpy\n%time y = f(x)\nfiles = !ls\nprint(y, files, zz)\nprint?")
        self.assertTrue(answer["valid"], answer["error"])
        self.assertEqual([(item["rule"], item["line"]) for item in answer["recommendations"]
                          if item["rule"] == "magic"], [("magic", line) for line in (2, 3, 4, 6)])
        self.assertEqual([item["name"] for item in answer["analysis"]["names"]["unbound"]], ["f", "zz"])

    def test_cells_of_notebooks(self):
        answer = check("%%time\nimport math\nfor i in [1]:\n    math.floor(nope)\n")
        self.assertTrue(answer["valid"])
        self.assertEqual([(item["name"], item["line"]) for item in answer["analysis"]["names"]["unbound"]],
                         [("nope", 4)])
        self.assertTrue(check("%%bash\nif [ x = y ]; then echo \"it's\"; fi\n")["valid"])
        self.assertEqual(check("%%time\nif x\n")["error"]["line"], 2)
        error = check("!ls\nx = = 1\n")["error"]
        self.assertEqual((error["line"], error["text"]), (2, "x = = 1"))

    def test_commands_of_notebooks_under_a_policy(self):
        guarded = {"mode": "guarded", "tiers": ["basic"]}
        answer = check("!ls", **guarded)
        self.assertEqual([(item["target"], item["line"]) for item in answer["violations"]], [("subprocess", 1)])
        self.assertTrue(check("%time 1 + 1\n%pip install x", **guarded)["valid"])
        self.assertFalse(check("%%bash\nls", **guarded)["valid"])
        self.assertFalse(check("%time import os", **guarded)["valid"])
        self.assertFalse(check("%%time\nimport os", **guarded)["valid"])

    def test_null_bytes(self):
        error = check(b"x = 1\ny = '\0'\n")["error"]
        self.assertEqual((error["line"], error["offset"]), (2, 6))
        self.assertIn("null bytes", error["message"])

    def test_bytes_that_are_no_text(self):
        for source in (b"x = '\xff'\n", b"\xff\xfe", "x = '\ud800'\n", b"# coding: nonsense\nx = 1\n"):
            with self.subTest(source):
                self.assertFalse(check(source)["valid"])

    def test_compiler_is_asked_often_enough(self):
        """The shortcut of check.py says the same as the compiler."""
        tails = ["x = 1\n", "\n".join(source for source, *_ in self.WRONG[:1])]
        wraps = ["{}", "def f():\n{}", "class A:\n{}", "for i in x:\n{}", "async def f():\n{}",
                 "while 1:\n  def f():\n{}", "try:\n{}\nfinally:\n  pass"]
        for source, *_ in self.WRONG:
            for wrap in wraps:
                inner = source.rstrip("\n")
                if wrap != "{}":
                    inner = "\n".join("    " + line for line in inner.split("\n"))
                text = wrap.format(inner) + "\n" + tails[0]
                with self.subTest(text), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        compile(text, "x", "exec", checking.FLAGS, True)
                        fine = True
                    except (SyntaxError, ValueError):
                        fine = False
                    self.assertEqual(check(text)["error"] is None, fine)

    def test_warnings_of_the_compiler(self):
        for source, text in (("x = 1\nx is 1\n", "is"), ("assert (x, 'no')\n", "assert"),
                             ("'abc'()\n", "callable"), ("[1, 2]['a']\n", "indices"),
                             ("'\\d'\n", "escape"), ("[x for x in y if x is 'a']\n", "is")):
            with self.subTest(source):
                found = [item["message"] for item in check(source)["recommendations"]
                         if item["rule"] == "warning"]
                self.assertEqual(len(found), 1, found)
                self.assertIn(text, found[0])


class Hostile(unittest.TestCase):
    """Whatever comes: an answer, within bounds of time and size."""

    def bounded(self, source, seconds=20):
        begin = time.process_time()         # of the processor: the machine may be busy with other things
        answer = check(source)
        self.assertLess(time.process_time() - begin, seconds)
        self.assertLess(len(json.dumps(answer)), 500_000)
        return answer

    def assertWhole(self, answer):
        """Everything was looked at, or the answer says how far it came: where the machine is busy with other
        things the time for it can be over before. True: everything."""
        analysis = answer["analysis"]
        if not analysis["complete"]:
            self.assertRegex(analysis["incomplete"], r"^the analysis ran out of time at line \d{4,}$")
        return analysis["complete"]

    def test_100000_lines(self):
        answer = self.bounded("".join(f"x{n} = {n} + len('a')\n" for n in range(100_000)))
        self.assertTrue(answer["valid"])
        self.assertWhole(answer)
        self.assertEqual(answer["analysis"]["line_count"], 100_000)

    def test_many_lines_with_blocks_and_strings(self):
        """Some parts end within a statement."""
        part = ('def f{0}(a):\n    """doc\nif False:\n    """\n    if a:\n        return [\n1,\n2]\n'
                'else_{0} = 1\nif else_{0}:\n    pass\nelse:\n    y = """\nx = (\n"""\n')
        answer = self.bounded("".join(part.format(n) for n in range(2000)))
        if self.assertWhole(answer):
            self.assertEqual(answer["analysis"]["complexity"]["total"], 2000 * 3)
            self.assertEqual(answer["analysis"]["omitted"]["functions"], 1800)
        self.assertEqual(answer["analysis"]["names"]["unbound"], [])

    def test_error_in_the_last_of_100000_lines(self):
        answer = self.bounded("x = 1\n" * 100_000 + "x = = 1\n")
        self.assertEqual(answer["error"]["line"], 100_001)

    def test_names_across_parts_of_a_long_source(self):
        answer = self.bounded("print(a)\n" + "x = 1\n" * 30_000 + "a = 1\nprint(b)\n")
        self.assertEqual([(item["name"], item["line"], item["kind"])
                          for item in answer["analysis"]["names"]["unbound"]],
                         [("a", 1, "unassigned"), ("b", 30_003, "undefined")])

    def test_deep_nesting(self):
        for source in ("(" * 5000 + ")" * 5000, "[" * 150 + "]" * 150, "-" * 50_000 + "1",
                       "not " * 20_000 + "1", "x" + ".a" * 50_000, "x" + "[0]" * 20_000,
                       "1" + "+1" * 50_000, "x = " + "lambda: " * 3000 + "1", "f" + "()" * 20_000,
                       "{" * 3000, "x = 1 if 1 else " * 3000 + "1", "f'" + "{" * 500 + "'",
                       "if x:\n  pass\n" + "elif x:\n  pass\n" * 5000, "await " * 5000 + "x",
                       "".join(" " * n + "if x:\n" for n in range(99)) + " " * 99 + "pass\n",
                       "".join(" " * n + "if x:\n" for n in range(150)) + " " * 150 + "pass\n",
                       "".join(" " * n + "while x:\n" for n in range(40)) + " " * 40 + "pass\n",
                       "x = [" + "1,\n" * 60_000 + "]\n", "[" + "[x for x in " * 80 + "y" + "]" * 81,
                       "x = (" + "1 +\n" * 5000 + "1)\n"):
            with self.subTest(source[:20]):
                answer = self.bounded(source)
                try:
                    compile(source, "x", "exec", checking.FLAGS, True)
                    fine = True
                except (SyntaxError, RecursionError, MemoryError):
                    fine = False
                # Near the limit of the interpreter's stack the two may differ by a few levels.
                self.assertEqual(answer["error"] is None, fine, answer["error"])

    def test_odd_tokens(self):
        for source in ("x = " + "9" * 100_000, "x = 0x" + "f" * 100_000, "x" * 200_000 + " = 1",
                       "x = '" + "a" * 2_000_000 + "'", "#" * 2_000_000, "\n" * 200_000,
                       "x = 1e999999", "\t" * 1000 + "x", "\f" * 1000 + "x = 1", ";" * 1000,
                       "x = 1" + ";x = 1" * 50_000, "def f(" + ",".join(f"a{n}" for n in range(5000)) +
                       "): pass", "f(" + ",".join(f"a{n}=1" for n in range(5000)) + ")",
                       "import " + ",".join(f"a{n}" for n in range(5000)),
                       "from x import " + ",".join(f"a{n}" for n in range(5000)),
                       "global " + ",".join(f"a{n}" for n in range(5000)),
                       "".join(f"def f{n}(a=[]): return zz{n}\n" for n in range(3000)),
                       "".join(f"import os{n}\n" for n in range(3000))):
            with self.subTest(source[:20]):
                self.bounded(source)

    def test_random_bytes(self):
        import random
        generator = random.Random(7)
        alphabet = [b"def ", b"class ", b"lambda ", b"(", b")", b"[", b"]", b"{", b"}", b":", b"\n", b"    ",
                    b"x", b"y", b" = ", b"*", b"**", b"'", b'"""', b"f'", b"\\", b"#", b"if ", b"else",
                    b"for ", b" in ", b"import ", b"from ", b"yield ", b"await ", b"async ", b"with ",
                    b"as ", b"del ", b"global ", b"1", b"0x", b".", b",", b":=", b"match ", b"case ",
                    b"try:", b"except", b"\t", b"\f", b"\0", b"\xff", "é".encode(), b"%", b"!", b"?", b"@"]
        for _ in range(3000):
            source = b"".join(generator.choices(alphabet, k=generator.randrange(1, 30)))
            answer = checking.check(source)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    compile(source, "x", "exec", checking.FLAGS, True)
                    fine = True
                except (SyntaxError, ValueError):
                    fine = False
            if answer["recommendations"] and answer["recommendations"][0]["rule"] == "magic":
                continue
            self.assertEqual(answer["error"] is None, fine, source)

    def test_nothing_is_executed(self):
        self.assertTrue(check("import sys\nsys.was_executed = True\n1/0\n")["valid"])
        self.assertFalse(hasattr(sys, "was_executed"))


class Analysis(unittest.TestCase):
    def test_lines(self):
        source = ('# one\n\nx = 1  # no comment line\n"""\n# not one\n\n"""\ns = \'a\\\n# b\'\n'
                  "   # two\n\t\n")
        found = check(source)["analysis"]
        self.assertEqual((found["line_count"], found["blank_lines"], found["comment_lines"],
                          found["code_lines"]), (11, 2, 2, 7))
        self.assertEqual(found["character_count"], len(source))
        for source, count in (("", 0), ("x", 1), ("x\n", 1), ("x\n\n", 2), ("\n", 1)):
            self.assertEqual(check(source)["analysis"]["line_count"], count, source)

    def test_reference_example(self):
        answer = check("import os\nos.system('rm -rf /')", mode="guarded")
        self.assertFalse(answer["valid"])
        self.assertEqual([f"Line {item['line']}: {item['reason']}" for item in answer["violations"]],
                         ["Line 1: Import 'os' is not allowed"])
        found = answer["analysis"]
        self.assertEqual((found["line_count"], found["character_count"],
                          found["estimated_complexity"]), (2, 31, "low"))

    def test_functions_classes_imports(self):
        found = check("""
import os.path as p, sys
from a.b import c as d, e
from . import f
class A:
    def m(self, x, *y, z=1, **k):
        def inner(): pass
        class B:
            async def n(self): pass
def g(): pass
""")["analysis"]
        self.assertEqual([(item["name"], item["line"], item["arguments"], item["async"])
                          for item in sorted(found["functions"], key=lambda item: item["line"])],
                         [("A.m", 6, 5, False), ("A.m.<locals>.inner", 7, 0, False),
                          ("A.m.<locals>.B.n", 9, 1, True), ("g", 10, 0, False)])
        self.assertEqual([(item["name"], item["methods"]) for item in found["classes"]],
                         [("A", 1), ("A.m.<locals>.B", 1)])
        self.assertEqual([(item["module"], item["names"], item["level"]) for item in found["imports"]],
                         [("os.path", [], 0), ("sys", [], 0), ("a.b", ["c", "e"], 0), ("", ["f"], 1)])

    COMPLEXITY = [
        ("x = 1", 1), ("if a: pass", 1), ("def f(): pass", 1),
        ("def f():\n if a: pass\n elif b: pass\n else: pass", 3),
        ("def f():\n for x in y:\n  while z: pass", 3),
        ("def f():\n try: pass\n except A: pass\n except B: pass\n finally: pass", 3),
        ("def f(): return a and b and c or d", 4), ("def f(): return a if b else c", 2),
        ("def f(): return [x for x in y if x if z]", 4), ("def f(): return lambda: a or b", 2),
        ("def f():\n def g():\n  if a: pass\n return g", 3), ("if a or b: pass\nfor x in y: pass", 3),
    ]

    def test_complexity(self):
        for source, total in self.COMPLEXITY:
            with self.subTest(source):
                self.assertEqual(check(source)["analysis"]["complexity"]["total"], total)
        big = "def f(x):\n" + "".join(f"    if x == {n}: return {n}\n" for n in range(15))
        self.assertEqual(check(big)["analysis"]["estimated_complexity"], "medium")
        self.assertEqual(check(big + big[10:] + big[10:])["analysis"]["estimated_complexity"], "high")

    ADVICE = [
        ("try:\n    x\nexcept:\n    pass\n", ("bare-except", 3)),
        ("def f(a=[]): pass\n", ("mutable-default", 1)),
        ("def f(*, a=dict()): pass\n", ("mutable-default", 1)),
        ("eval('1')\n", ("eval", 1)), ("x = 1\nexec(y)\n", ("eval", 2)),
        ("name = input('?')\n", ("input", 1)), ("while True:\n    x = 1\n", ("endless-loop", 1)),
        ("while 1:\n    for a in b:\n        break\n", ("endless-loop", 1)),
        ("import requests\n", ("network-off", 1)), ("from urllib import request\n", ("network-off", 1)),
        ("import urllib.request\n", ("network-off", 1)), ("import socket\n", ("network-off", 1)),
        ("open('/etc/x', 'w')\n", ("write-outside", 1)),
        ("open('/root/x', mode='a')\n", ("write-outside", 1)),
        ("from pathlib import Path\nPath('/x').write_text('')\n", ("write-outside", 2)),
        ("import no_such_module_here\n", ("not-installed", 1)),
        ("[f(eval(x)) for x in y]\n", ("eval", 1)),
    ]
    QUIET = [
        "try:\n    x\nexcept:\n    raise\n", "try:\n    x\nexcept Exception:\n    pass\n",
        "def f(a=None, b=(), c=1): pass\n", "while True:\n    break\n", "while x:\n    pass\n",
        "def f():\n    while True:\n        return\n", "while True:\n    raise x\n",
        "def f():\n    while True:\n        yield\n", "import sys\nwhile True:\n    sys.exit()\n",
        "open('/etc/x')\n", "open('x', 'w')\n", "open('/mnt/data/x', 'w')\n", "open('/tmp/x', 'w')\n",
        "import math, json\n", "from urllib.parse import quote\n", "x.input()\n", "model.eval()\n",
    ]

    def test_advice(self):
        for source, expected in self.ADVICE:
            with self.subTest(source):
                self.assertIn(expected, rules_in(source))
        for source in self.QUIET:
            with self.subTest(source):
                self.assertEqual(rules_in(source), [])
        self.assertEqual(rules_in("import socket\n", network=True), [])

    def test_advice_is_bounded(self):
        found = check("eval('1')\n" * 1000)["recommendations"]
        self.assertEqual(len(found), 10)

    def test_columns_count_characters(self):
        found = check("é = 'é'; eval(é)\n")["recommendations"]
        self.assertEqual(found[0]["column"], 10)


class Policies(unittest.TestCase):
    def refused(self, source, **policy):
        return [item["target"] for item in check(source, **policy)["violations"]]

    TABLE = [
        # source, policy, targets that are refused
        ("import os", {}, []),
        ("import os", {"mode": "guarded"}, ["os"]),
        ("import os, math, sys", {"mode": "guarded"}, ["os", "sys"]),
        ("from os import path", {"mode": "guarded"}, ["os"]),
        ("from os import path, system", {"mode": "guarded", "tiers": ["filesystem"]}, ["os.system"]),
        ("from os import path", {"mode": "guarded", "tiers": ["filesystem"]}, []),
        ("import os.path", {"mode": "guarded", "tiers": ["filesystem"]}, []),
        ("import os", {"mode": "guarded", "tiers": ["filesystem"]}, ["os"]),
        ("import xml.etree.ElementTree as ET", {"mode": "guarded"}, []),
        ("from xml import etree, sax", {"mode": "guarded"}, ["xml.sax"]),
        ("import xml.sax", {"mode": "guarded"}, ["xml.sax"]),
        ("from urllib.parse import quote", {"mode": "guarded"}, []),
        ("import urllib.request", {"mode": "guarded"}, ["urllib.request"]),
        ("import urllib.request", {"mode": "guarded", "tiers": ["basic", "network"]}, []),
        ("import numpy.linalg", {"mode": "guarded", "tiers": ["data_science"]}, []),
        ("import math", {"mode": "guarded", "tiers": ["data_science"]}, ["math"]),
        ("import math", {"mode": "guarded", "tiers": []}, ["math"]),
        ("import os", {"mode": "guarded", "allowed_imports": ["os"]}, []),
        ("import math", {"mode": "guarded", "allowed_imports": ["os"]}, ["math"]),
        ("import os", {"mode": "guarded", "tiers": ["basic"], "allowed_imports": ["os"]}, ["os"]),
        ("import math, json", {"mode": "guarded", "tiers": ["basic"], "allowed_imports": ["math"]},
         ["json"]),
        ("import urllib.parse", {"mode": "guarded", "tiers": ["basic"], "allowed_imports": ["urllib"]},
         []),
        ("import os", {"mode": "guarded", "tiers": ["basic"], "override": ["os"]}, []),
        ("import math", {"mode": "guarded", "tiers": ["basic"], "override": ["os"]}, ["math"]),
        ("import os", {"mode": "open", "denied_imports": ["os"]}, ["os"]),
        ("import os.path", {"mode": "open", "denied_imports": ["os"]}, ["os.path"]),
        ("__import__('os')", {"mode": "guarded"}, ["os"]),
        ("import importlib\nimportlib.import_module('os')",
         {"mode": "guarded", "allowed_imports": ["importlib"]}, ["os"]),
        ("def f():\n    if x:\n        import socket", {"mode": "guarded"}, ["socket"]),
        ("try:\n    import os\nexcept ImportError:\n    os = None", {"mode": "guarded"}, []),
        ("try:\n    import os\nexcept ValueError:\n    os = None", {"mode": "guarded"}, ["os"]),
        ("from . import os", {"mode": "guarded"}, []),
        ("[__import__('os') for x in y]", {"mode": "guarded"}, ["os"]),
        ("f = lambda: __import__('os')", {"mode": "guarded"}, ["os"]),
        ("open('x')", {"denied_calls": ["open", "eval"]}, ["open"]),
        ("x.open('x')", {"denied_calls": ["open", "eval"]}, []),
    ]

    def test_table(self):
        for source, policy, targets in self.TABLE:
            with self.subTest(source, **policy):
                self.assertEqual(self.refused(source, **policy), targets)

    def test_second_reference_server(self):
        scan, table = {"scan": "checker"}, policies.SCANS["checker"]
        for name in table["calls"]:
            self.assertEqual(self.refused(f"{name}('x')", **scan), [name])
        for name in table["modules"]:
            self.assertEqual(self.refused(f"import {name}", **scan), [name])
        self.assertEqual(self.refused("import math\nprint(math.pi)", **scan), [])

    def test_tiers_have_the_documented_modules(self):
        documented = {
            "basic": "math random statistics decimal fractions collections itertools functools heapq "
                     "bisect string textwrap re difflib unicodedata base64 binascii hashlib hmac "
                     "secrets json csv html.parser xml.etree urllib.parse datetime uuid calendar "
                     "dataclasses enum typing time operator copy cmath html xml.etree.ElementTree "
                     "configparser abc contextlib types",
            "data_science": "numpy pandas scipy matplotlib seaborn sklearn statsmodels plotly sympy",
            "network": "httpx requests urllib.request aiohttp websocket email smtplib ftplib",
            "filesystem": "pathlib os.path tempfile shutil glob zipfile tarfile",
        }
        self.assertEqual(set(documented), set(policies.TIERS))
        for tier, names in documented.items():
            for name in names.split():
                self.assertIn(tier, policies.tiers_of(name))
                self.assertEqual(self.refused(f"import {name}", mode="guarded", tiers=[tier]), [])
        self.assertGreaterEqual(len(policies.tier_modules("basic")), 40)
        for name in "os sys subprocess ctypes socket importlib builtins pickle inspect gc".split():
            self.assertNotIn("basic", policies.tiers_of(name))

    def test_hints_name_the_way_out(self):
        def hint(name, **policy):
            return check(f"import {name}", **policy)["violations"][0]["hint"]
        self.assertIn("'network'", hint("requests", mode="guarded"))
        self.assertIn("'filesystem'", hint("shutil", mode="guarded"))
        self.assertIn("no tier", hint("ctypes", mode="guarded"))
        self.assertIn("add it to allowed_imports", hint("json", mode="guarded", allowed_imports=["math"]))
        self.assertIn("'network'", hint("requests", mode="guarded", tiers=["basic"],
                                        allowed_imports=["requests"]))
        self.assertIn("SANDBOX_ALLOWED_IMPORTS", hint("os", mode="guarded", override=["math"]))

    def test_says_that_it_is_advice(self):
        self.assertIn("advice", check("x = 1", mode="guarded")["policy"]["advice"])

    def test_bad_policies(self):
        for policy in ({"mode": "no"}, {"tiers": "basic"}, {"tiers": ["nonsense"]}, {"what": 1},
                       {"allowed_imports": [1]}, {"allowed_imports": ["a b"]}, {"allowed_imports": [""]},
                       {"tiers": ["basic"] * 2000}, {"mode": None}, {"denied_calls": {}}):
            with self.subTest(policy):
                with self.assertRaises(policies.BadPolicy) as caught:
                    policies.Policy(policy)
                self.assertIn("policy.", str(caught.exception))
        with self.assertRaises(policies.BadPolicy):
            policies.Policy([])

    def test_spaces_and_stars_in_lists(self):
        self.assertEqual(self.refused("import os.path", mode="guarded",
                                      allowed_imports=[" os.path ", "math.*"]), [])


if __name__ == "__main__":
    unittest.main()
