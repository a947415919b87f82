# SPDX-License-Identifier: Apache-2.0
"""The C half of a check (visitor.c, lines.c), which boxes use, says what the Python half (visitor.py) says: about
our own sources, the standard library's, all tables of the other tests, and generated programs.
"""

import os
import unittest

import test_check_code as code
import test_check_names as names

OWN = "advice base check network resolver restricted runner statements tables undo variables walk".split()
LIBRARY = "asyncio.base_events ast contextlib dataclasses enum json.decoder pickle typing".split()
ODD = [
    b"", b"\n", b"x", b"x\n  ", b"x = 1\r\ny = 2\r", b"\xef\xbb\xbfx = 1\n", "x = '\N{SNOWMAN}' + y\n".encode(),
    b"# a\n\x0c\n\x1c\n#b", b"x = 'a\\\n# b'\n", b"x = \"\"\"\n# a\n\n\"\"\" + '''\n#'''\n", b"x = '\"\"\"'\n# y\n",
    b"x = f'''\n{a}\n# b\n{b!r:>{w}}\n'''\n# c\n", b"f(*a, **b, c=1, d=[*e, *f], **{'g': h, **i})\n",
    b"x[a:b:c, ::d] = e[f]\n", b"x = [a for b in c for a, *d.e in b if a if d for f[g] in d]\n",
    b"x = {a: b for a in (lambda c, *d, e=f, **g: c)(h)}\n", b"lambda a, a: 1\n", b"f(a=1, a=2)\n", b"x = (yield)\n",
    b"def f():\n    x = yield a\n    yield from b\n", b"x = [y := 1, y]\n[z for a in b if (z := a)]\nprint(z)\n",
    b"x is 1\n[a for a in b if a is 1]\n", b"[a for a in b if a == 1]\n", b"[1][a]\n'a'()\n(lambda: 1)()\n",
    b"while True:\n    x\nwhile 0:\n    y\nwhile 1:\n    break\n", b"break\n",
    b"def f():\n    while True:\n        if a: return\n    for b in c:\n        continue\n    else:\n        e\n",
    b"if 0:\n    a\nelif 1:\n    b\nelse:\n    c\n" + b"if a:\n  b\n" + b"elif a:\n  b\n" * 60,
    b"x += 1\ny.z += 1\na[b] -= c\nq: e\nf: g = h\ni.j: k = 1\n",
    b"def f(a: b, /, c: d = e, *g: h, i: j = k, **l: m) -> n: pass\n",
    b"@a\n@b(c)\ndef f(d=[], *, e={}, g=list()): pass\n", b"raise a from b\nassert (a, b)\nassert a, b\n",
    b"del a, b.c, d[e]\na = 1\ndel a\na\n", b"a = b = c, (d, *e) = f\n",
    b"class A(b, metaclass=c):\n    d = d\n    e: f = g\n    def h(self, i=d):\n        class J:\n"
    b"            def k(self): pass\n        return e\n",
    b"async def f():\n    async with a as b: pass\n    async for c in d: await c\n    return [e async for e in f]\nawait f()\n",
    b"try:\n    import a\nexcept ImportError as e:\n    b\nelse:\n    c\nfinally:\n    d\ne\n",
    b"def f():\n    global a\n    a = 1\n    def g():\n        nonlocal b\na\n",
    b"open('/etc/x', 'w')\neval(a)\ninput()\nos.system(b)\n[exec(c) for c in d]\n",
    b"x" * 150 + b" = 1\ndef " + b"f" * 150 + b"(): pass\n", b"%matplotlib inline\nx = 1\n",
    b"\n".join(b"def f%d(): return a%d" % (n, n) for n in range(250)), b"x = (" + b"[" * 50 + b"]" * 50 + b")\n",
    b"x = " + b"-" * 2000 + b"a\n", b"x" + b".a" * 2000 + b"\n", b"x = " + b"lambda: " * 100 + b"a\n",
    b"match a:\n    case {'b': c, **d}: e\n    case [f, *g] if h: pass\n    case I(j, k=l) as m: pass\n",
    b"def f[T: a](x: T) -> T: return x\ntype X[U] = list[U, b]\n", b"try:\n    a\nexcept* B as c:\n    d\n",
    b"x = t'{a!r:{b}}'\n",
]


def files():
    library = os.path.dirname(os.__file__)
    return [os.path.join(code.SIDE, name + ".py") for name in OWN] + [
        os.path.join(library, *name.split(".")) + ".py" for name in LIBRARY]


@unittest.skipIf(code.NATIVE is None, "there is no extension: build the program")
class Same(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plain = code.load(None)
        cls.native = code.load(code.NATIVE)
        assert cls.plain.Walk.__mro__[1].__module__ == "visitor"
        assert cls.native.Walk.__mro__[1].__module__ == "_constrictor"

    def compare(self, source, **policy):
        source = source.encode("utf-8", "surrogatepass") if type(source) is str else source
        said = [module.check(source, policy) for module in (self.plain, self.native)]
        self.assertEqual(*said)
        for module in self.plain, self.native:
            module.settle()

    def test_about_files(self):
        for path in files():
            with self.subTest(path), open(path, "rb") as file:
                self.compare(file.read(), mode="guarded", scan="checker")

    def test_about_odd_sources(self):
        for source in ODD:
            with self.subTest(source):
                self.compare(source)
                self.compare(source.replace(b"\n", b"\n\n    # c\n"))

    def test_about_tables(self):
        for source in (*[source for source, *_ in (*code.Syntax.WRONG, *names.REPORTED)], *names.FINE,
                       names.MATCH, names.GENERIC):
            with self.subTest(source):
                self.compare(source)

    def test_about_generated_programs(self):
        for seed in range(100):
            with self.subTest(seed):
                self.compare(names.Writer(seed).program())

    def test_about_a_long_source(self):
        part = "def f{0}(a):\n    if a:\n        return b{0}\n    for c in d{0}: c\nx{0} = [e for e in f{0}]\n"
        modules = self.plain, self.native
        before = [(module.BIG_LINES, module.PART) for module in modules]
        try:
            for module in modules:
                module.BIG_LINES, module.PART = 200, 50         # above that a tree is made part by part
            self.compare("".join(part.format(n) for n in range(500)))
        finally:
            for module, (lines, part) in zip(modules, before):
                module.BIG_LINES, module.PART = lines, part

    def test_nobody_sets_one_up_wrongly(self):
        for call in (lambda: code.NATIVE.Visitor().block([]), lambda: code.NATIVE.Visitor().feed(None),
                     lambda: code.NATIVE.Scope(1, 2), lambda: setattr(code.NATIVE.Visitor(), "scope", 1)):
            self.assertRaises((RuntimeError, TypeError), call)


if __name__ == "__main__":
    unittest.main()
