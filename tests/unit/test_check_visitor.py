# SPDX-License-Identifier: Apache-2.0
"""Tests of src/python/check/visitor.py and walk.py: what a check finds in one source for each kind of statement and
expression, in real files, and in a source so long that it is parsed part by part.
"""

import os
import unittest

import test_check_code as code
from test_check_code import NEW, check, checking

OWN = "advice base check network resolver restricted runner statements tables undo variables walk".split()
LIBRARY = "asyncio.base_events ast contextlib dataclasses enum json.decoder pickle typing".split()

# Source, names that are read before anything binds them (None: they are not followed), complexity (0: the source is
# wrong), rules of the recommendations.
CASES = [
    (b"", "", 1, ""),
    (b"\n", "", 1, ""),
    (b"x", "x", 1, ""),
    (b"x\n  ", "x", 1, ""),
    (b"x = 1\r\ny = 2\r", "", 1, ""),
    (b"\xef\xbb\xbfx = 1\n", "", 1, ""),
    ("x = '\N{SNOWMAN}' + y\n".encode(), "y", 1, ""),
    (b"# a\n\x0c\n\x1c\n#b", None, 0, ""),
    (b"x = 'a\\\n# b'\n", "", 1, ""),
    (b"x = \"\"\"\n# a\n\n\"\"\" + '''\n#'''\n", "", 1, ""),
    (b"x = '\"\"\"'\n# y\n", "", 1, ""),
    (b"x = f'''\n{a}\n# b\n{b!r:>{w}}\n'''\n# c\n", "a b w", 1, ""),
    (b"f(*a, **b, c=1, d=[*e, *f], **{'g': h, **i})\n", "f a b e h i", 1, ""),
    (b"x[a:b:c, ::d] = e[f]\n", "x a b c d e f", 1, ""),
    (b"x = [a for b in c for a, *d.e in b if a if d for f[g] in d]\n", "c d f g", 5, ""),
    (b"x = {a: b for a in (lambda c, *d, e=f, **g: c)(h)}\n", "b f h", 1, ""),
    (b"lambda a, a: 1\n", None, 0, ""),
    (b"f(a=1, a=2)\n", None, 0, ""),
    (b"x = (yield)\n", None, 0, ""),
    (b"def f():\n    x = yield a\n    yield from b\n", "a b", 1, ""),
    (b"x = [y := 1, y]\n[z for a in b if (z := a)]\nprint(z)\n", "b", 2, ""),
    (b"x is 1\n[a for a in b if a is 1]\n", "x b", 2, "warning"),
    (b"[a for a in b if a == 1]\n", "b", 2, ""),
    (b"[1][a]\n'a'()\n(lambda: 1)()\n", "a", 1, "warning"),
    (b"while True:\n    x\nwhile 0:\n    y\nwhile 1:\n    break\n", "x", 3, "endless-loop"),
    (b"break\n", None, 0, ""),
    (b"def f():\n    while True:\n        if a: return\n    for b in c:\n        continue\n    else:\n        e\n",
     "a c e", 4, ""),
    (b"if 0:\n    a\nelif 1:\n    b\nelse:\n    c\n" + b"if a:\n  b\n" + b"elif a:\n  b\n" * 60, "b c a", 63, ""),
    (b"@a\n@b(c)\ndef f(d=[], *, e={}, g=list()): pass\n", "a b c", 1, "mutable-default"),
    (b"raise a from b\nassert (a, b)\nassert a, b\n", "a b", 1, "warning"),
    (b"del a, b.c, d[e]\na = 1\ndel a\na\n", "a b d e", 1, ""),
    (b"a = b = c, (d, *e) = f\n", "f", 1, ""),
    (b"async def f():\n    async with a as b: pass\n    async for c in d: await c\n    return [e async for e in f]\nawait f()\n",
     "a d", 3, ""),
    (b"try:\n    import a\nexcept ImportError as e:\n    b\nelse:\n    c\nfinally:\n    d\ne\n",
     "b c d e", 1, "not-installed"),
    (b"def f():\n    global a\n    a = 1\n    def g():\n        nonlocal b\na\n", None, 0, ""),
    (b"open('/etc/x', 'w')\neval(a)\ninput()\nos.system(b)\n[exec(c) for c in d]\n",
     None, 1, "write-outside eval input"),
    (b"x" * 150 + b" = 1\ndef " + b"f" * 150 + b"(): pass\n", "", 1, ""),
    (b"%matplotlib inline\nx = 1\n", "", 1, "magic"),
    (b"\n".join(b"def f%d(): return a%d" % (n, n) for n in range(250)), " ".join(f"a{n}" for n in range(100)), 250, ""),
    (b"x = (" + b"[" * 50 + b"]" * 50 + b")\n", "", 1, ""),
    (b"x = " + b"-" * 2000 + b"a\n", "a", 1, ""),
    (b"x" + b".a" * 2000 + b"\n", "x", 1, ""),
    (b"x = " + b"lambda: " * 100 + b"a\n", "a", 1, ""),
]
ANNOTATED = [   # before 3.14 annotations are evaluated where they stand
    (b"x += 1\ny.z += 1\na[b] -= c\nq: e\nf: g = h\ni.j: k = 1\n", "x y a b c e g h i k", 1, ""),
    (b"def f(a: b, /, c: d = e, *g: h, i: j = k, **l: m) -> n: pass\n", "b d e h j k m n", 1, ""),
    (b"class A(b, metaclass=c):\n    d = d\n    e: f = g\n    def h(self, i=d):\n        class J:\n"
    b"            def k(self): pass\n        return e\n",
     "b c d f g e", 2, ""),
]
NEWER = [       # the first version that knows them comes first
    ((3, 10), b"match a:\n    case {'b': c, **d}: e\n    case [f, *g] if h: pass\n    case I(j, k=l) as m: pass\n",
     "a e h I", 3, ""),
    ((3, 12), b"def f[T: a](x: T) -> T: return x\ntype X[U] = list[U, b]\n", "a b", 1, ""),
    ((3, 11), b"try:\n    a\nexcept* B as c:\n    d\n", "a B d", 1, ""),
    ((3, 14), b"x = t'{a!r:{b}}'\n", "a b", 1, ""),
]


def files():
    library = os.path.dirname(os.__file__)
    return [code.path_of(name) for name in OWN] + [os.path.join(library, *name.split(".")) + ".py" for name in LIBRARY]


class Walk(unittest.TestCase):
    def compare(self, cases):
        for source, names, total, rules in cases:
            with self.subTest(source):
                found = check(source)
                self.assertEqual(found["error"] is not None, total == 0, found["error"])
                self.assertEqual(list(dict.fromkeys(item["rule"] for item in found["recommendations"])), rules.split())
                if total:
                    analysis = found["analysis"]
                    self.assertEqual(analysis["complexity"]["total"], total)
                    self.assertEqual(analysis["names"]["followed"], names is not None)
                    self.assertEqual([item["name"] for item in analysis["names"]["unbound"]], (names or "").split())

    def test_of_each_kind(self):
        self.compare(CASES)

    def test_of_comments_in_between(self):
        """More lines change nothing but the lines."""
        for source, names, total, rules in CASES:
            if b"'" not in source and b'"' not in source and b"\\" not in source:
                self.compare([(source.replace(b"\n", b"\n\n    # c\n"), names, total, rules)])

    @unittest.skipIf(NEW >= (3, 14), "annotations are not evaluated")
    def test_of_annotations(self):
        self.compare(ANNOTATED)

    def test_of_newer_kinds(self):
        for since, source, *expected in NEWER:
            self.compare([(source, *(expected if NEW >= since else (None, 0, "")))])

    def test_of_files(self):
        for path in files():
            with self.subTest(path), open(path, "rb") as file:
                source = file.read()
                found = check(source, mode="guarded", scan="checker")
                self.assertIsNone(found["error"])
                self.assertEqual(found["analysis"]["names"]["unbound"], [])
                self.assertEqual(found["analysis"]["line_count"], source.count(b"\n"))

    def test_of_parts(self):
        """A source that is parsed part by part has the same answer as in one piece."""
        part = "def f{0}(a):\n    if a:\n        return b{0}\n    for c in d{0}: c\nx{0} = [e for e in f{0}]\n"
        source = "".join(part.format(n) for n in range(500))
        whole, before = check(source), (checking.BIG_LINES, checking.PART)
        try:
            checking.BIG_LINES, checking.PART = 200, 50
            self.assertEqual(check(source), whole)
        finally:
            checking.BIG_LINES, checking.PART = before


if __name__ == "__main__":
    unittest.main()
