# SPDX-License-Identifier: Apache-2.0
"""Tests of what check.py says about names that are read before they are bound: tables, and generated
programs that are executed to see which is right. It shall never cry wolf.
"""

import builtins
import os
import random
import sys
import unittest

from test_check_code import checking


def names_in(source, **policy):
    """{name: (line, kind)}; None where names cannot be followed."""
    answer = checking.check(source, policy)
    assert answer["error"] is None, (source, answer["error"])
    names = answer["analysis"]["names"]
    if not names["followed"]:
        return None
    return {item["name"]: (item["line"], item["kind"]) for item in names["unbound"]}


U, D, X = "unassigned", "deleted", "undefined"
REPORTED = [
    ("print(x)\nx = 1", {"x": (1, U)}),
    ("print(x)", {"x": (1, X)}),
    ("x += 1", {"x": (1, U)}),
    ("x = x + 1", {"x": (1, U)}),
    ("def f():\n    print(y)\n    y = 2", {"y": (2, U)}),
    ("def f():\n    max = max(1, 2)", {"max": (2, U)}),
    ("y = 1\ndef f():\n    y += 1", {"y": (3, U)}),
    ("def f():\n    return zz", {"zz": (2, X)}),
    ("f()\ndef f(): pass", {"f": (1, U)}),
    ("class A(B): pass\nclass B: pass", {"B": (1, U)}),
    ("class A:\n    x = y\ny = 1", {"y": (2, U)}),
    ("@deco\ndef f(): pass\ndef deco(g): return g", {"deco": (1, U)}),
    ("def f(a=b): pass\nb = 1", {"b": (1, U)}),
    ("x = [y for z in y2]\n", {"y": (1, X), "y2": (1, X)}),
    ("x = [i for i in i2]\ni2 = 1", {"i2": (1, U)}),
    ("[a for a in range(3)]\na", {"a": (2, X)}),
    ("x = 1\ndel x\nx", {"x": (3, D)}),
    ("try:\n    f = 1\nexcept ValueError as e:\n    pass\nprint(e)", {"e": (5, D)}),
    ("import os.path as p\nos", {"os": (2, X)}),
    ("for i in x:\n    pass", {"x": (1, X)}),
    ("with o as f:\n    pass", {"o": (1, X)}),
    ("f'{x} {y!r:{z}}'", {"x": (1, X), "y": (1, X), "z": (1, X)}),
    ("x = lambda: q\n", {"q": (1, X)}),
    ("def f():\n    def g():\n        return h\n    return g", {"h": (3, X)}),
    ("class A:\n    x = 1\n    def m(self):\n        return x", {"x": (4, X)}),
    ("import math\nprint(maths.pi)", {"maths": (2, X)}),
    ("print(undefined_1, undefined_2)", {"undefined_1": (1, X), "undefined_2": (1, X)}),
    ("def f():\n    try:\n        g()\n    except ValueError:\n        pass\n    print(late)\n    late = 1",
     {"g": (3, X), "late": (6, U)}),
]
FINE = """
x = 1; print(x)
---
for i in range(3): pass
print(i)
---
import os, a.b, c.d as e
print(os, a, e)
---
from x import y as z
print(z)
---
def f(): return later
later = 1
---
def f(): return g()
def g(): return f()
---
class A:
    x = 1
    y = x + 1
    def m(self): return A, __class__
---
def f(a, b=1, *c, d, e=2, **g): return a, b, c, d, e, g
---
f = lambda a, *b, **c: (a, b, c)
---
x = [i * j for i in range(3) for j in range(i) if i and j]
y = {k: v for k, v in {}.items()}
z = {a for a, in []}
w = (b for b in [])
---
if (n := len('a')) > 0: print(n)
---
print([m := 1, m])
---
print([last := i for i in range(3)], last)
---
with open('x') as f, open('y') as (g, h): print(f, g, h)
---
try: pass
except ValueError as e: print(e)
---
e = 1
try: pass
except ValueError as e: print(e)
print(e)
---
try: unicode
except NameError: unicode = str
print(unicode)
---
def f():
    global counter
    counter = 1
f()
print(counter)
---
def f():
    x = 1
    def g():
        nonlocal x
        x += 1
        return x
    return g
---
def f():
    def g():
        nonlocal v
        v = 1
    g()
    print(v)
    v = 2
---
first = True
for i in range(3):
    if not first: print(previous)
    previous = i
    first = False
---
while True:
    try: print(found)
    except Exception: pass
    found = 1
    break
---
def f():
    for i in range(3):
        if i: print(seen)
        seen = i
---
if x1 := 1: pass
else: pass
print(x1)
---
if False: x2 = 1
else: x2 = 2
print(x2)
---
from math import *
print(pi)
---
exec('q = 1')
print(q)
---
globals()['q'] = 1
print(q)
---
import builtins
builtins.q = 1
print(q)
---
print(__name__, __doc__, __file__, __builtins__, __debug__, __annotations__)
---
class A:
    print(__module__, __qualname__)
---
print(list); list = 3
---
a, (b, *c), [d] = 1, (2, 3), [4]
print(a, b, c, d)
---
x = y = z = 1
print(x, y, z)
---
x: int = 1
def f(a: 'Later', b: Later2 = None) -> Later2: pass
class Later2: pass
---
from __future__ import annotations
def f(a: NoSuch) -> NoSuch2: pass
---
def f():
    x: NoSuch = 1
---
async def f():
    async with g() as h:
        async for i in h:
            await i
            yield [j async for j in i]
def g(): pass
---
import contextlib
with contextlib.suppress(NameError): print(maybe)
---
del_me = 1
if del_me: del del_me
print(del_me)
---
x = 1
del x
x = 2
print(x)
---
for i in range(3):
    if i: del t
    t = i
---
def outer():
    def inner(): return shared
    shared = 1
    return inner
---
def f(n): return 1 if n < 2 else n * f(n - 1)
---
class Node:
    def __init__(self, child: 'Node' = None): self.child = child or Node.default
    default = None
---
@property
def f(): pass
@f.setter
def f(): pass
---
lst = sorted([3, 1], key=lambda v: -v)
print(*lst, **{}, sep='')
---
import sys
def main(argv=sys.argv): return argv
if __name__ == '__main__': main()
---
total = 0
for i in range(3): total += i
print(total)
---
d = {}
d['a'] = d.get('a', 0) + 1
d['a'] += 1
print(f"{d['a']:>{len(d)}}")
---
try:
    import numpy as np
except ImportError:
    np = None
print(np)
---
while False: print(never)
else: never = 1
---
if 0: print(never)
never = 1
---
def gen():
    received = yield
    while received: received = yield received
---
class A:
    items = [1]
    doubled = [i * 2 for i in items]
    for n in items: last = n
    print(last)
---
x = 1
class A: x = x
---
def decorator(f): return f
class A:
    @decorator
    def m(self): return self.m
    @staticmethod
    def s(): return A.m
""".strip("\n").split("\n---\n")
MATCH = """
match [1, {'a': 2}]:
    case [x, {'a': y, **rest}]: print(x, y, rest)
    case [*many] | (*many,): print(many)
    case str(z) as whole if z: print(z, whole)
    case other: print(other)
"""
GENERIC = "def f[T](x: T) -> T: return x\nclass A[U: int]:\n    def m(self, u: U): return u\ntype X = list[Y]\nY = int\n"


class Tables(unittest.TestCase):
    def test_reported(self):
        for source, expected in REPORTED:
            with self.subTest(source):
                self.assertEqual(names_in(source), expected)

    def test_fine(self):
        for source in FINE:
            with self.subTest(source):
                self.assertFalse(names_in(source))

    def test_newer_syntax(self):
        if sys.version_info >= (3, 10):
            self.assertEqual(names_in(MATCH), {})
        if sys.version_info >= (3, 12):
            self.assertEqual(names_in(GENERIC), {})

    def test_names_that_are_there_already(self):
        self.assertEqual(names_in("print(df)"), {"df": (1, X)})
        self.assertEqual(names_in("print(df)", names=["df"]), {})

    def test_dynamic_names_are_said_to_be(self):
        names = checking.check("from math import *\nprint(pi)")["analysis"]["names"]
        self.assertEqual((names["followed"], names["unbound"]), (False, []))
        self.assertIn("import *", names["reason"])

    def test_all_builtins_are_known(self):
        for name in dir(builtins):
            if name.isidentifier() and name not in ("None", "True", "False"):
                self.assertFalse(names_in(f"x = {name}\n"), name)


# ---- Generated programs -----------------------------------------------------------------------------

class Writer:
    """Writes random programs that always end."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines, self.functions, self.budget = [], 0, 40

    def name(self):
        return self.random.choice("abcde")

    def expression(self):
        pick = self.random.random()
        if pick < 0.35:
            return self.name()
        if pick < 0.55:
            return str(self.random.randrange(3))
        return self.random.choice([
            f"({self.name()}, {self.name()})[0]", f"[{self.name()} for {self.name()} in range(2)]",
            f"[{self.name()} for x in [0] for {self.name()} in [x]]",
            f"(lambda {self.name()}: {self.name()})(1)", f"({self.name()} := 1)",
            f"list({self.name()} for y in [1])", f"f'{{{self.name()}}}'",
            f"(1 if {self.name()} else {self.name()})", f"{{'k': {self.name()}}}",
            f"[({self.name()} := z) for z in range(2)]"])

    def block(self, indent, depth, in_function, in_loop):
        for _ in range(self.random.randrange(1, 5)):
            self.statement(indent, depth, in_function, in_loop)

    def statement(self, indent, depth, in_function, in_loop):
        self.budget -= 1
        put = lambda text: self.lines.append("    " * indent + text)
        kinds = ["assign", "assign", "assign", "use", "use", "aug", "del", "unpack", "import"]
        if depth < 3 and self.budget > 0:
            kinds += ["if", "for", "while", "try", "with", "def", "class", "def"]
        if in_loop:
            kinds += ["break", "continue"]
        if in_function:
            kinds += ["return"]
        kind = self.random.choice(kinds)
        inner = lambda loop=in_loop, function=in_function, deeper=1: self.block(
            indent + deeper, depth + 1, function, loop)
        if kind == "assign":
            put(f"{self.name()} = {self.expression()}")
        elif kind == "use":
            put(f"use({self.expression()})")
        elif kind == "aug":
            put(f"{self.name()} += 1")
        elif kind == "del":
            put(f"del {self.name()}")
        elif kind == "unpack":
            put(f"{self.name()}, *{self.name()} = 1, {self.expression()}")
        elif kind == "import":
            put(f"import math as {self.name()}")
        elif kind in ("break", "continue"):
            put(f"if use({self.random.randrange(2)}): {kind}")
        elif kind == "return":
            put(f"if use({self.random.randrange(2)}): return")
        elif kind == "if":
            put(f"if {self.expression()}:")
            inner()
            if self.random.random() < 0.5:
                put("else:")
                inner()
        elif kind == "for":
            put(f"for {self.name()} in range({self.random.randrange(3)}):")
            inner(True)
        elif kind == "while":
            put("for _ in range(2):")
            inner(True)
        elif kind == "try":
            put("try:")
            inner()
            put(f"except {self.random.choice(['ZeroDivisionError', 'Exception', 'NameError'])} as "
                f"{self.name()}:")
            inner()
            if self.random.random() < 0.3:
                put("finally:")
                inner(False)
        elif kind == "with":
            put(f"with manager() as {self.name()}:")
            inner()
        elif kind == "class":
            put(f"class {self.name()}:")
            inner(False, False)
        else:
            self.function(put, indent, depth)

    def function(self, put, indent, depth):
        self.functions += 1
        name = f"f{self.functions}"
        put(f"def {name}({self.name()}={self.expression()}):")
        before = len(self.lines)
        if self.random.random() < 0.2:
            self.lines.append("    " * (indent + 1) + f"global {self.name()}")
        self.block(indent + 1, depth + 1, True, False)
        assert len(self.lines) > before
        if self.random.random() < 0.8:
            put(f"{name}()")

    def program(self):
        for _ in range(6):
            self.statement(0, 0, False, False)
        return "\n".join(self.lines) + "\n"


class Manager:
    def __enter__(self):
        return 1

    def __exit__(self, *_):
        return False


def execute(source):
    """(names and lines of the NameErrors that happened, lines that were run to their end)."""
    failed, entered = set(), set()

    def trace(frame, event, arg):
        if frame.f_code.co_filename != "<generated>":
            return None
        if event == "line":
            entered.add(frame.f_lineno)
        elif event == "exception" and issubclass(arg[0], NameError):
            failed.add(frame.f_lineno)
        return trace

    space = {"__name__": "__main__", "use": lambda value: value, "manager": Manager}
    code = compile(source, "<generated>", "exec")
    sys.settrace(trace)
    try:
        exec(code, space)
    except Exception:
        pass
    finally:
        sys.settrace(None)
    return failed, entered


class Generated(unittest.TestCase):
    SEEDS = 3000 if os.environ.get("LONG") else 500

    @unittest.skipIf(sys.version_info < (3, 10), "traces lines that did not run")
    def test_reports_are_right(self):
        """Where a line with a report was run there was a NameError in it, each time that it ran first."""
        said = 0
        for seed in range(self.SEEDS):
            source = Writer(seed).program()
            try:
                compile(source, "<generated>", "exec")
            except SyntaxError:
                continue
            names = names_in(source, names=["use", "manager"]) or {}
            if not names:
                continue
            failed, entered = execute(source)
            for name, (line, kind) in names.items():
                if line in entered and line not in failed:
                    # The name may stand behind a condition within its line.
                    text = source.split("\n")[line - 1]
                    if any(word in text for word in (" if ", "lambda", " for ", "def ")):
                        continue
                if line in entered:
                    said += 1
                    self.assertIn(line, failed, f"seed {seed}: {name} {kind} in line {line}\n{source}")
        self.assertGreater(said, self.SEEDS // 20)

    def test_straight_programs_are_told_exactly(self):
        """Without branches and functions every NameError is foreseen."""
        for seed in range(self.SEEDS * 2 // 3):
            generator = random.Random(seed)
            lines = []
            for _ in range(8):
                one, two = generator.choice("abc"), generator.choice("abc")
                lines.append(generator.choice([f"{one} = 1", f"{one} = {two}", f"del {one}", f"use({one})",
                                               f"{one} += 1", f"({one} := {two})", f"use([{one} for {two} in [1]])"]))
            source = "\n".join(lines) + "\n"
            names = names_in(source, names=["use"])
            failed, _ = execute(source)
            if failed:
                self.assertIn(min(failed), [line for line, _ in names.values()], f"seed {seed}\n{source}")


if __name__ == "__main__":
    unittest.main()
