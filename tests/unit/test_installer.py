# SPDX-License-Identifier: Apache-2.0
"""Tests of src/python/install/installer.py and what it is made of, outside any box, against an index on loopback
(tests/wheel_lab.py). With every resolver that there is: uv beside the interpreter, on PATH or named by
CONSTRICTOR_UV, and pip. Works with pytest and with plain `python3 tests/unit/test_installer.py`.
"""

import contextlib
import errno
import importlib.metadata
import io
import json
import marshal
import os
import random
import re
import shutil
import sys
import tempfile
import time
import unittest
import unittest.mock

from python_side import ROOT, SIDE
from test_runner import Boxes

sys.dont_write_bytecode = True
sys.path[:0] = [SIDE, os.path.join(ROOT, "tests")]
import bundle               # noqa: E402
import diagnosis            # noqa: E402,F401   (these are imported late by the others)
import download             # noqa: E402,F401
import failure              # noqa: E402
import file_hosts           # noqa: E402,F401
import index                # noqa: E402,F401
import installer            # noqa: E402
import pyc                  # noqa: E402
import pylock               # noqa: E402
import requirement          # noqa: E402
import resolver             # noqa: E402
import tags                 # noqa: E402
import version              # noqa: E402
import wheel as wheels      # noqa: E402
import wheel_lab as lab_of  # noqa: E402
import workers              # noqa: E402
del sys.path[:2]

UV = os.environ.get("CONSTRICTOR_UV")
if UV:
    resolver.find_uv = lambda: UV
TOOLS = (["uv"] if resolver.find_uv() else []) + (["pip"] if resolver.find_pip() else [])
FIRST = TOOLS[0]
LONG = os.environ.get("LONG")
if not LONG:                # pip works in tests/api/test_envs.py; LONG=1: with each of them here
    TOOLS = TOOLS[:1]
OF_RESOLVERS = 16           # rows of FAILURES that depend on the resolver
LIMITS = {"bytes": 50 << 20, "files": 1000, "packages": 20}


class Requirements(unittest.TestCase):
    GOOD = [
        ("numpy", "numpy"), (" numpy ", "numpy"), ("numpy>=1.26", "numpy>=1.26"),
        ("requests >= 2.28.0 , < 3", "requests>=2.28.0,<3"), ("pandas[excel, html]>=2", "pandas[excel,html]>=2"),
        ("x(==1.0)", "x==1.0"), ("x==1.*", "x==1.*"), ("x~=1.4.2", "x~=1.4.2"), ("x===1.0", "x===1.0"),
        ("Zope.Interface!=5", "Zope.Interface!=5"), ("x==1!2.0+local.1", "x==1!2.0+local.1"),
        ("x; python_version<'3.12'", "x ; python_version < '3.12'"),
        ('x>1 ; (sys_platform == "linux" or extra=="a") and "3" in python_version',
         "x>1 ; (sys_platform == 'linux' or extra == 'a') and '3' in python_version"),
        ("x ; os_name not in 'nt'", "x ; os_name not in 'nt'"),
    ]
    # text, what the reason says
    BAD = [
        ("", "empty"), ("   ", "empty"), ("--index-url=http://x", "option"), ("-e .", "option"), ("-r x.txt", "option"),
        ("--target=/x numpy", "option"), ("numpy --index-url http://x", "options"), ("numpy -e .", "options"),
        ("numpy;rm -rf /", "marker"), ("numpy; rm", "marker"), ("numpy ;", "marker"), ("numpy\nflask", "line break"),
        ("numpy\r", "line break"), ("numpy\0", "NUL"), ("numpy\\", "backslash"), ("numpy$(id)", "'$'"), ("numpy`id`", "'`'"),
        ("numpy|sh", "'|'"), ("numpy&&id", "'&'"), ("./numpy", "path"), ("/etc/passwd", "path"), ("../x", "path"),
        ("~/x", "path"), ("x/y", "path"), ("c:/x", "path"), ("git+https://example.org/x", "address"),
        ("https://example.org/x.whl", "address"), ("file:///etc/passwd", "address"), ("file:x", "address"),
        ("x @ https://example.org/x-1-py3-none-any.whl", "not allowed"), ("numpy=1", "'=='"), ("numpy>>1", "version"),
        ("numpy>=", "version"), ("numpy>=abc", "version"), ("numpy~=1", "version"), ("numpy>=1.*", "version"),
        ("numpy,", "left over"), ("numpy pandas", "left over"), ("numpy[a", "extras"), ("numpy[-x]", "extra"),
        ("numpy(>=1", "missing"), ("n\u00fampy", "ASCII"), ("numpy\u202e", "ASCII"), ("\x1b[31mnumpy", "ASCII"),
        ("_x", "begin"), ("x" * 401, "long"), ("x; " + "(" * 11 + "os_name=='a'" + ")" * 11, "deeply"),
        ("x; 'a' == 'b'", "variable"), ("x; os_name == sys_platform", "variable"), ("x; os_name", "compares"),
        ("x; os.system('id')", "marker"), ("numpy>=1 --hash=sha256:00", "options"), ("numpy>1,", "another version"),
        (5, "string"), (None, "string"), (["numpy"], "string"), ("{numpy}", "begin"), ("numpy # x", "left over"),
    ]

    def test_good(self):
        for text, wanted in self.GOOD:
            self.assertEqual(str(requirement.parse(text)), wanted)
            self.assertEqual(str(requirement.parse(wanted)), wanted)

    def test_bad(self):
        for text, reason in self.BAD:
            with self.subTest(text=text), self.assertRaises(failure.Failure) as caught:
                requirement.parse(text)
            self.assertEqual(caught.exception.code, "bad_requirement")
            self.assertIn(reason, caught.exception.message, text)
            shown = json.dumps(caught.exception.to_answer())
            self.assertNotIn("\\u001b", shown)
            self.assertLess(len(shown), 2000)

    def test_urls(self):
        good = "x @ https://example.org/a/x-1-py3-none-any.whl"
        self.assertEqual(str(requirement.parse(good, True)), good)
        for bad in ("x @ http://example.org/x.whl", "x @ file:///x.whl", "x @ https://example.org/x.tar.gz",
                    "x @ https://user:word@example.org/x.whl", "x @ git+https://example.org/x.whl", "x @ x.whl"):
            with self.assertRaises(failure.Failure, msg=bad):
                requirement.parse(bad, True)

    def test_count_is_bounded(self):
        self.assertEqual(len(requirement.parse_all(["x"] * 100)), 100)
        for bad in ["x"] * 101, "x":
            with self.assertRaises(failure.Failure):
                requirement.parse_all(bad)

    def test_no_quadratic_time(self):
        begin = time.process_time()
        for text in ("x" * 20_000, "x " * 10_000, "a" + "-" * 19_000, "x;" + "(" * 19_000, "x[" + "a," * 9_000,
                     "x>=" + "1." * 9_000, "x==" + "1" * 19_000):
            with contextlib.suppress(failure.Failure):
                requirement.Reader(text, False).one()
        self.assertLess(time.process_time() - begin, 2)


class Versions(unittest.TestCase):
    ORDER = """1.0.dev1 1.0a1.dev1 1.0a1 1.0a2 1.0b1 1.0rc1 1.0 1.0+abc 1.0+abc.2 1.0+5 1.0.post1.dev1 1.0.post1 1.1.dev1
        1.1 1.2.3 1.10 2.0 1!0.5""".split()
    FITS = [("==1.0", "1.0.0", 1), ("==1.0", "1.0+x", 1), ("==1.0+y", "1.0+x", 0), ("==1.*", "1.9", 1), ("==1.*", "2.0", 0),
            ("!=1.*", "2.0", 1), ("~=1.4.2", "1.4.9", 1), ("~=1.4.2", "1.5", 0), ("~=1.4", "1.9", 1), ("<2", "2.0rc1", 0),
            ("<2rc2", "2.0rc1", 1), (">1", "1.0.post1", 0), (">1.0.post1", "1.0.post2", 1), (">=1,<2,!=1.5", "1.5", 0),
            (">=1,<2", "1.5", 1), ("===1.0", "1.0", 1), ("===1.0", "1.0.0", 0), (">=3", "3.0rc1", 0)]

    def test_order(self):
        shuffled = [version.Version(text) for text in self.ORDER]
        random.Random(1).shuffle(shuffled)
        self.assertEqual([item.text for item in sorted(shuffled)], self.ORDER)

    def test_fits(self):
        for clauses, text, wanted in self.FITS:
            self.assertEqual(version.fits(version.read_clauses(clauses), version.Version(text)), bool(wanted), (clauses, text))

    def test_none(self):
        for text in ("", "x", "1.", "1..2", "1.0-", "-1", "1 2", "1.0\n2", "1" * 5000):
            with self.assertRaises(ValueError, msg=text):
                version.Version(text)


class Tags(unittest.TestCase):
    def test_as_pip_has_them(self):
        try:
            from pip._vendor.packaging.tags import sys_tags
        except ImportError:
            return                      # nothing to compare with
        theirs = [(tag.interpreter, tag.abi, tag.platform) for tag in sys_tags()]
        mine = list(tags.tags())
        self.assertEqual([tag for tag in mine if tag in set(theirs)], [tag for tag in theirs if tag in set(mine)])
        missing = set(theirs) - set(mine)
        self.assertFalse({tag for tag in missing if "x86_64" in tag[2] or tag[2] == "any"}, sorted(missing)[:10])
        self.assertLessEqual(set(mine) - set(theirs), {(f"cp3{sys.version_info[1]}", "none", "any")})     # pip < 24


LOCK = '''# a comment
lock-version = "1.0"
created-by = "uv"
requires-python = ">=3.11"

[[packages]]
name = "a"   # here too
version = "1.0\\u00e9\\"q"
sdist = { url = "https://example.org/a.tar.gz", upload-time = 2026-10-27T16:30:26Z, size = 12, hashes = { sha256 = "ab" } }
wheels = [
    { url = "https://example.org/a.whl", hashes = { sha256 = "00" } },
    { path = 'b.whl', hashes = {} },
]
editable = false

[[packages]]
name = "b"

[packages.archive]
url = "x"
hashes = { sha256 = "cd" }

[tool.uv]
x = []
'''


class Pips(unittest.TestCase):
    def test_pip_of_the_host(self):
        """Where the host's packages are hidden and no wheel of pip is there, its pip is in a folder of its own."""
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(resolver, "HOSTS", folder), \
             unittest.mock.patch("importlib.metadata.version", side_effect=importlib.metadata.PackageNotFoundError), \
             unittest.mock.patch.object(resolver.glob, "glob", return_value=[]):
            self.assertIsNone(resolver.find_pip())
            os.mkdir(f"{folder}/pip")
            for text, found in (("", None), ("__version__ = 5", None), ('__version__ = "21.3"', None),
                                ('# pip\n__version__ = "23.0.1"\n', "pip 23.0.1")):
                with open(f"{folder}/pip/__init__.py", "w", encoding="utf-8") as file:
                    file.write(text)
                self.assertEqual(getattr(resolver.find_pip(), "version", None), found, text)


class Locks(unittest.TestCase):
    def test_reader(self):
        mine = pylock.Reader(LOCK).document()
        self.assertEqual(mine["packages"][0]["version"], '1.0\u00e9"q')
        self.assertEqual(mine["packages"][0]["wheels"][1], {"path": "b.whl", "hashes": {}})
        self.assertEqual(mine["packages"][1]["archive"]["hashes"], {"sha256": "cd"})
        theirs = pylock.loads(LOCK)
        time_of = theirs["packages"][0]["sdist"]
        self.assertTrue(pylock.as_text(time_of["upload-time"]).startswith("2026-10-27T16:30:26"))
        time_of["upload-time"] = mine["packages"][0]["sdist"]["upload-time"]
        self.assertEqual(mine, theirs)

    def test_broken(self):
        for text in ("x", "x =", "[x", "[[x]", "x = [1", 'x = "a', "x = {a = 1", "x = [[[[[[[[[[[[1]]]]]]]]]]]]", "= 1",
                     'x = """a"""', "x = 1 2"):
            with self.assertRaises(ValueError, msg=text):
                pylock.Reader(text).document()


class Words(unittest.TestCase):
    def test_clean(self):
        self.assertEqual(failure.clean("\x1b[31mred\x1b[0m \x1b]0;title\x07x\x00\u202e"), "red x??")
        self.assertEqual(failure.clean("see https://me:secret@example.org/x"), "see https://example.org/x")
        self.assertLessEqual(len(failure.clean("x" * 10_000)), failure.MESSAGE_MAX)
        self.assertLessEqual(failure.last_words("line\n" * 1000).count("\n"), failure.WORDS_LINES)


# ---- Wheels -------------------------------------------------------------------------------------

class Folders(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="installer-", dir=os.environ.get("TEST_FOLDER", "/var/tmp"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def open_wheel(self, made, **limits):
        path = os.path.join(self.folder, made.filename)
        with open(path, "wb") as file:
            file.write(made.data)
        return wheels.Wheel(path, made.filename, {**LIMITS, **limits})

    def unpack(self, made, compiler=lambda path, source: None):
        opened = self.open_wheel(made)
        part = opened.unpack(opened.entries, os.path.join(self.folder, "part"), compiler, lambda count: None)
        rest = opened.write_rest(os.path.join(self.folder, "rest"), part[3])
        bundle.finish(os.path.join(self.folder, "bundle"), [part[:3], rest],
                      os.path.join(self.folder, "temporary"))
        return lab_of.read_bundle(os.path.join(self.folder, "bundle")), opened


class Wheels(Folders):
    def refuse(self, made, code, **limits):
        with self.assertRaises(failure.Failure) as caught:
            opened = self.open_wheel(made, **limits)
            opened.unpack(opened.entries, os.path.join(self.folder, "part"), lambda path, source: None, lambda count: None)
        self.assertEqual(caught.exception.code, code, caught.exception.message)
        self.assertLess(len(caught.exception.message), 1000)
        return caught.exception.message

    def test_hostile(self):
        for name, how in lab_of.HOSTILE.items():
            with self.subTest(name):
                self.refuse(lab_of.wheel(name, "1.0", **how), "hostile_wheel")
            shutil.rmtree(self.folder)
            os.mkdir(self.folder)

    def test_broken(self):
        for name, how in lab_of.BROKEN.items():
            with self.subTest(name):
                self.refuse(lab_of.wheel(name, "1.0", **how), "bad_wheel")
            shutil.rmtree(self.folder)
            os.mkdir(self.folder)

    def test_limits(self):
        made = lab_of.wheel("many", "1.0", {f"m{number}.py": b"x" * 1000 for number in range(100)})
        self.assertIn("100", self.refuse(made, "too_many_files", files=100))
        self.refuse(made, "too_large", bytes=50_000)
        self.open_wheel(made, bytes=150_000, files=103)

    def test_names(self):
        for filename in ("x.whl", "x-1.0.whl", "x-1.0-py3-none-any.zip", "../x-1.0-py3-none-any.whl", "x-a-py3-none-any.whl"):
            made = lab_of.wheel("x", "1.0")
            with self.assertRaises(failure.Failure) as caught:
                path = os.path.join(self.folder, "file")
                with open(path, "wb") as file:
                    file.write(made.data)
                wheels.Wheel(path, filename, LIMITS)
            self.assertEqual(caught.exception.code, "bad_wheel")

    def test_whole(self):
        files, opened = self.unpack(lab_of.wheel("lab-x", "1.0", {
            "lab_x/__init__.py": b"X = 1\n", "lab_x/empty.txt": b"", "lab_x/run.sh": b"#!/bin/sh\n", "lab_x.pth": b"import os\n",
            "lab_x/inner.pth": b"kept", "lab_x-1.0.data/scripts/tool": b"#!python -x\nprint(1)\n",
            "lab_x-1.0.data/scripts/shell": b"#!/bin/sh\n", "lab_x-1.0.data/platlib/lab_y.so": b"\x7fELF",
            "lab_x-1.0.data/headers/x.h": b"h", "lab_x-1.0.data/data/etc/x": b"d", "lab_x-1.0.data/purelib/evil.pth": b"import os",
            "lab_x/__pycache__/__init__.cpython-399.pyc": b"evil"},
            attributes={"lab_x/run.sh": 0o100755 << 16},
            scripts="[console_scripts]\ngood = lab_x:Main.run\n../evil = lab_x:x\nbad = lab_x;import os\nwith extra = a:b\n"))
        self.assertEqual(files["lab_x/__init__.py"], (b"X = 1\n", False))
        self.assertEqual(files["lab_x/run.sh"], (b"#!/bin/sh\n", True))
        self.assertEqual(files["bin/tool"], (b"#!/usr/bin/env python3\nprint(1)\n", True))
        self.assertEqual(files["bin/shell"], (b"#!/bin/sh\n", True))
        self.assertEqual(files["lab_y.so"][0], b"\x7fELF")
        self.assertEqual(files[".data-files/headers/x.h"][0], b"h")
        self.assertEqual(files[".data-files/data/etc/x"][0], b"d")
        self.assertEqual(files["lab_x/inner.pth"][0], b"kept")
        self.assertEqual(files["lab_x-1.0.dist-info/INSTALLER"][0], b"constrictor\n")
        self.assertIn(b"from lab_x import Main\n", files["bin/good"][0])
        self.assertIn(b"sys.exit(Main.run())", files["bin/good"][0])
        self.assertEqual(sorted(name for name in files if name.startswith("bin/")), ["bin/good", "bin/shell", "bin/tool"])
        self.assertEqual(sorted(opened.dropped), [
            "entry point ../evil", "entry point bad", "entry point with extra", "lab_x-1.0.data/purelib/evil.pth",
            "lab_x.pth", "lab_x/__pycache__/__init__.cpython-399.pyc"])
        self.assertFalse([name for name in files if name.endswith(".pth") and "/" not in name])
        self.assertEqual(opened.top_level(), ["lab_x", "lab_y"])
        recorded = {line.split(",")[0] for line in files["lab_x-1.0.dist-info/RECORD"][0].decode().splitlines()}
        self.assertEqual(recorded, set(files))

    def test_pyc(self):
        files, _ = self.unpack(lab_of.wheel("lab-x", "1.0", {
            "lab_x.py": b"X = 41 + 1\n", "lab/tests/x.py": b"x = 1", "lab/old.py": b"print 'x'", "lab/bad.py": b"\xff\xfe\x00"}),
            pyc.Compiler(60))
        compiled = [name for name in files if name.endswith(".pyc")]
        self.assertEqual(compiled, [f"__pycache__/lab_x.{sys.implementation.cache_tag}.pyc"])
        data = files[compiled[0]][0]
        self.assertEqual(data[4:8], b"\1\0\0\0")
        space = {}
        exec(marshal.loads(data[16:]), space)
        self.assertEqual(space["X"], 42)
        target = os.path.join(self.folder, "layer")
        for name, (content, _) in files.items():
            os.makedirs(os.path.dirname(os.path.join(target, name)), exist_ok=True)
            with open(os.path.join(target, name), "wb") as file:
                file.write(content)
        with open(os.path.join(target, "lab_x.py"), "w") as file:
            file.write("X = 'the source was read'\n")       # unchecked
        self.assertEqual(os.popen(f"cd {target} && {sys.executable} -c 'import lab_x; print(lab_x.X)'").read(), "42\n")

    def test_mutations(self):
        """Whatever is changed in a wheel: a Failure or a whole bundle, nothing else, and nothing outside."""
        made, chance = lab_of.wheel("lab-x", "1.0", {"lab_x.py": b"x = 1\n" * 50}), random.Random(7)
        for _ in range(400):
            data = bytearray(made.data)
            for _ in range(chance.randint(1, 4)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            changed = lab_of.Made("lab-x", "1.0", made.filename, bytes(data[:chance.randint(len(data) // 2, len(data) * 3)]))
            for name in os.listdir(self.folder):
                os.unlink(os.path.join(self.folder, name))
            try:
                self.unpack(changed)
            except failure.Failure as refused:
                self.assertIn(refused.code, ("bad_wheel", "hostile_wheel", "too_large", "too_many_files"))


class Bundles(unittest.TestCase):
    def test_paths(self):
        for path in ("a", "a/b.py", "\u00e9/x", "x" * 200 + "/" + "x" * 199, "x" * 255, "/".join("d" * 32)):
            self.assertIsNone(bundle.flaw_of(path), path)
        for path in ("", "/a", "a//b", "a/", ".", "../a", "a/..", "a/./b", "a\\b", "c:x", "a\nb", "a\x7f", "a\x85b", "x" * 256, "x" * 200 + "/" + "x" * 200,
                     "\u00e9" * 201, "/".join("d" * 33), "\udc80"):
            self.assertIsNotNone(bundle.flaw_of(path), path)


# ---- The whole, with a resolver -------------------------------------------------------------------

# With a resolver all that is here is shown in a box by tests/api/test_env*.py, which is where it counts.
class Installing(Folders if LONG else object):
    @classmethod
    def setUpClass(cls):
        cls.lab = lab_of.fill(lab_of.Lab())

    @classmethod
    def tearDownClass(cls):
        cls.lab.__exit__()

    def setUp(self):
        super().setUp()
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        self.lab.moods, self.lab.requests[:] = {}, []

    def install(self, *requirements, **more):
        request = {"requirements": list(requirements), "index_url": self.lab.url, "limits": LIMITS, "http_timeout": 5,
                   "resolver": FIRST, **more}
        with contextlib.redirect_stdout(io.StringIO()) as out:
            answer = installer.main(json.loads(json.dumps(request)))
        json.dumps(answer)
        self.lines = [json.loads(line) for line in out.getvalue().splitlines()]
        left = {name for name in os.listdir(self.folder) if name != "house"}
        wanted = {item["bundle"] for item in answer["packages"] if item["bundle"]} if answer["ok"] else set()
        self.assertEqual(left, wanted, "what is left in the working directory")
        for name in wanted:
            self.files = lab_of.read_bundle(name)
            os.unlink(name)
        return answer

    def fine(self, *requirements, **more):
        answer = self.install(*requirements, **more)
        self.assertTrue(answer["ok"], answer)
        return {item["name"]: item["version"] for item in answer["packages"]}, answer

    def refused(self, code, *requirements, **more):
        answer = self.install(*requirements, **more)
        self.assertEqual((answer["ok"], answer.get("code")), (False, code), answer)
        self.assertIn(code, failure.CODES)
        return answer

    def each(self):
        for tool in TOOLS:
            with self.subTest(tool):
                yield {"resolver": tool}

    def test_answer(self):
        for how in self.each():
            found, answer = self.fine("lab-needs", "Lab_Mixed.NAME", **how)
            self.assertEqual(found, {"lab-good": "2.0", "lab-needs": "1.0", "lab-mixed-name": "1.0"})
            self.assertEqual(answer["resolver"].split()[0], how["resolver"])
            self.assertEqual([line.split("==")[0] for line in answer["lock"].splitlines()], sorted(found))
            good = answer["packages"][0]
            made = self.lab.files["lab_good-2.0-py3-none-any.whl"]
            self.assertEqual((good["sha256"], good["size"], good["filename"]), (made.sha256, len(made.data), made.filename))
            self.assertEqual((good["top_level"], good["dropped"], good["built"]), (["lab_good"], [], False))
            states = [line["state"] for line in self.lines]
            self.assertEqual(sorted(set(states), key=installer.STATES.index), list(dict.fromkeys(states)))
            self.assertEqual((states[0], states[-1]), ("resolving", "bundling"))

    def test_versions(self):
        for how in self.each():
            self.assertEqual(self.fine("lab-good", **how)[0], {"lab-good": "2.0"})
            self.assertEqual(self.fine("lab-good==3.0rc1", **how)[0], {"lab-good": "3.0rc1"})
            self.assertEqual(self.fine("lab-extra[more]", "lab-old", **how)[0]["lab-good"], "1.5")
            self.assertEqual(self.fine("lab-good", constraints=["lab-good<2"], **how)[0], {"lab-good": "1.5"})
            self.assertEqual(self.fine("lab-withdrawn", **how)[0], {"lab-withdrawn": "1.0"})
            self.assertEqual(self.fine("lab-good; python_version<'3'", **how)[0], {})

    def test_current_is_kept(self):
        have = [{"name": "lab-good", "version": "1.0", "sha256": "0" * 64}, {"name": "odd\"name", "version": "1"}]
        for how in self.each():
            now = have if how["resolver"] == "uv" else have[:1]
            self.assertEqual(self.fine("lab-good", current=now, **how)[0], {"lab-good": "1.0"})
            self.assertEqual(self.fine("lab-good", current=now, upgrade=True, **how)[0], {"lab-good": "2.0"})
            self.assertEqual(self.fine("lab-good", "lab-needs", current=now, **how)[0]["lab-good"], "2.0")

    def test_known_is_not_fetched(self):
        made = self.lab.files["lab_good-2.0-py3-none-any.whl"]
        _, answer = self.fine("lab-needs", known=[made.sha256])
        self.assertEqual([item["bundle"] is None for item in answer["packages"]], [True, False])
        if FIRST == "uv":
            self.assertNotIn(f"/files/{made.filename}", self.lab.requests)

    def test_remove(self):
        self.assertEqual(self.fine("lab-good", "lab-young", remove=["LAB_good"])[0], {"lab-young": "2.0"})
        self.assertEqual(self.fine("lab-good", remove=["lab-good"])[0], {})
        found, answer = self.fine("lab-good", "lab-needs", remove=["lab-good"])
        self.assertIn("lab-good", found)
        self.assertIn("lab-good stays", answer["warnings"][0])
        self.refused("bad_requirement", "lab-good", remove=["--all"])

    # requirements, code, words of the answer
    FAILURES = [
        (["lab-god"], "package_not_found", ["lab-god", "did you mean lab-good"]),
        (["PIL"], "package_not_found", ["did you mean pillow"]),
        (["sklearn"], "no_wheel", ["did you mean scikit-learn"]),
        (["lab-orphan"], "package_not_found", ["lab-nowhere"]),
        (["lab-good==9"], "version_not_found", ["==9", "2.0, 1.5, 1.0"]),
        (["lab-needs", "lab-old"], "conflict", ["lab-needs and lab-old"]),
        (["lab-needs", "lab-good<2"], "conflict", ["lab-good<2", "lab-needs"]),
        (["lab-ancient"], "no_wheel", ["cp27"]), (["lab-elsewhere"], "no_wheel", ["win_amd64"]),
        (["lab-future"], "no_wheel", [">=3.99"]), (["lab-source"], "no_wheel", ["source"]),
        (["lab-yanked"], "yanked_only", ["withdrawn"]), (["lab-wrong-hash"], "hash_mismatch", ["lab-wrong-hash"]),
        (["lab-gone"], "index_bad_answer", []), (["lab-not-a-zip"], "bad_wheel", ["lab-not-a-zip"]),
        (["lab-other"], "bad_wheel", []), (["lab-record"], "bad_wheel", ["lab.py"]),
        (["lab-bomb"], "hostile_wheel", ["bomb"]), (["lab-liar"], "hostile_wheel", ["bomb"]),
        (["lab-many-bombs"], "too_large", []), (["lab-symlink"], "hostile_wheel", ["lab/link"]),
        (["lab-traversal"], "hostile_wheel", ["../../etc/lab"]), (["lab-good", "-e ."], "bad_requirement", ["option"]),
    ]

    def test_failures(self):
        for how in self.each():
            # What follows the resolution is the same for all.
            for requirements, code, words in self.FAILURES if how["resolver"] == FIRST else self.FAILURES[:OF_RESOLVERS]:
                with self.subTest(f"{how['resolver']} {requirements}"):
                    answer = self.refused(code, *requirements, **how)
                    for word in words:
                        self.assertIn(word, json.dumps(answer))
                    self.assertTrue(answer["message"] and answer["requirement"])

    def test_yanked_and_pinned(self):
        for how in self.each():
            found, answer = self.fine("lab-yanked==1.0", **how)
            self.assertEqual(found, {"lab-yanked": "1.0"})
            self.assertIn("yanked", answer["warnings"][0])

    def test_what_is_left_out_is_said(self):
        for how in self.each():
            found, answer = self.fine("lab-good[nothing]", "lab-extra ; python_version < '3'", **how)
            self.assertEqual(found, {"lab-good": "2.0"})
            self.assertTrue(any("lab-extra" in text and "marker" in text for text in answer["warnings"]), answer)
            self.assertTrue(any("lab-good" in text and "nothing" in text for text in answer["warnings"]), answer)

    def test_age(self):
        for how in self.each():
            self.assertEqual(self.fine("lab-young", min_age_days=7, **how)[0], {"lab-young": "1.0"})
            self.refused("too_young", "lab-newborn", min_age_days=7, **how)
            self.assertEqual(self.fine("lab-newborn", **how)[0], {"lab-newborn": "1.0"})

    def test_lists(self):
        self.refused("denied_package", "lab-good", deny=["LAB_go*"])
        self.assertEqual(self.lab.requests, [])             # before any request
        self.assertIn("lab-good", self.refused("denied_package", "lab-needs", deny=["lab-good"])["message"])
        self.refused("denied_package", "lab-needs", allow=["lab-needs"])
        self.fine("lab-needs", allow=["lab-*"])

    def test_limits(self):
        self.refused("too_many_packages", "lab-needs", limits={"packages": 1})
        self.refused("too_many_files", "lab-many", limits={"files": 100})
        self.refused("too_large", "lab-large", limits={"bytes": 1 << 20})

    def test_pth_is_dropped(self):
        _, answer = self.fine("lab-pth")
        self.assertIn("lab_pth.pth", answer["packages"][0]["dropped"])
        self.assertNotIn("lab_pth.pth", self.files)

    def test_bad_index(self):
        page, file = "/simple/lab-good", r"/files/.*whl$"
        for pattern, mood, codes in (
                (page, lab_of.web_page, ["index_bad_answer"]), (page, lab_of.error(503), ["index_unreachable"]),
                (page, lab_of.error(403), ["index_bad_answer"]), (page, lab_of.hang_up, ["index_unreachable"]),
                (page, lab_of.silent(3), ["index_unreachable"]), (file, lab_of.web_page, ["index_bad_answer", "hash_mismatch"]),
                (file, lab_of.error(500), ["index_unreachable"]), (file, lab_of.hang_up, ["index_unreachable"]),
                (file, lab_of.silent(3), ["index_unreachable"]), (file, lab_of.redirect("ftp://127.0.0.1/"), ["index_bad_answer"]),
                (file, lab_of.redirect("file:///etc/passwd"), ["index_bad_answer", "hash_mismatch"]),
                (file, lab_of.redirect("/files/lab_good-2.0-py3-none-any.whl"), ["index_bad_answer", "index_unreachable"])):
            with self.subTest(f"{pattern} {mood.__qualname__}"):
                self.lab.moods = {pattern: mood}
                answer = self.install("lab-good", http_timeout=1)
                self.assertFalse(answer["ok"])
                self.assertIn(answer["code"], codes, answer)

    def test_index_is_down(self):
        for how in self.each():
            answer = self.refused("index_unreachable", "lab-good", index_url="http://127.0.0.1:9/simple", http_timeout=2, **how)
            self.assertIn("127.0.0.1:9", answer["message"])

    def test_slow_index_ends(self):
        self.lab.moods = {"/simple/": lab_of.drip(100)}
        begin = time.monotonic()
        answer = self.install("lab-good", http_timeout=1, timeout=5)
        self.assertIn(answer["code"], ("timeout", "index_unreachable"))
        self.assertLess(time.monotonic() - begin, 90)

    def test_html_only(self):
        with lab_of.Lab(html_only=True) as lab:
            lab_of.add_good(lab)
            for how in self.each():
                self.assertEqual(self.fine("lab-needs", index_url=lab.url, **how)[0]["lab-good"], "2.0")
            self.refused("no_wheel", "lab-future", index_url=lab.url)
            self.refused("yanked_only", "lab-yanked", index_url=lab.url)

    def test_wheelhouse(self):
        os.mkdir("house")
        for name in ("lab_good-2.0-py3-none-any.whl", "lab_needs-1.0-py3-none-any.whl", "lab_old-1.0-py3-none-any.whl"):
            with open(f"house/{name}", "wb") as file:
                file.write(self.lab.files[name].data)
        house = os.path.join(self.folder, "house")
        for how in self.each():
            found, answer = self.fine("lab-needs", offline=True, find_links=house, **how)
            self.assertEqual(found, {"lab-good": "2.0", "lab-needs": "1.0"})
            self.assertEqual(answer["packages"][0]["sha256"], self.lab.files["lab_good-2.0-py3-none-any.whl"].sha256)
            self.assertEqual(len(os.listdir("house")), 3)
            self.refused("package_not_found", "lab-young", offline=True, find_links=house, **how)
            self.assertIn(self.install("lab-old", offline=True, find_links=house, **how)["code"], ("conflict", "version_not_found"))
            self.refused("index_unreachable", "lab-good", offline=True, **how)
        self.assertFalse([path for path in self.lab.requests if "lab-good" in path])

    def test_source(self):
        folder = tempfile.mkdtemp(prefix="installer-mark-", dir=os.environ.get("TEST_FOLDER", "/var/tmp"))
        self.addCleanup(shutil.rmtree, folder, True)
        mark = os.path.join(folder, "mark")
        with lab_of.Lab() as lab:
            lab.add(lab_of.source("lab-build", "1.0", mark))
            for how in self.each():
                self.refused("no_wheel", "lab-build", index_url=lab.url, **how)
                self.assertFalse(os.path.exists(mark), "code of a package ran")
                _, answer = self.fine("lab-build", index_url=lab.url, source_builds=True, **how)
                self.assertTrue(os.path.exists(mark))
                os.unlink(mark)
                package = answer["packages"][0]
                self.assertEqual((package["built"], package["filename"]), (True, "lab_build-1.0-py3-none-any.whl"))
                self.assertEqual(self.files["lab_build.py"][0], b"VERSION = '1.0'\n")
            kept = [{"name": "lab-build", "version": "1.0", "sha256": package["sha256"]}]
            _, again = self.fine("lab-build", index_url=lab.url, source_builds=True, current=kept, known=[package["sha256"]])
            self.assertEqual((again["packages"][0]["sha256"], again["packages"][0]["bundle"]), (package["sha256"], None))

    def test_best_wheel(self):
        place = tags.platforms()[0]
        here = f"cp3{sys.version_info[1]}"
        with lab_of.Lab() as lab:
            for tag in ("py3-none-any", f"cp36-abi3-{place}", f"{here}-{here}-{place}", "cp27-cp27mu-linux_x86_64"):
                lab.add(lab_of.wheel("lab-tags", "1.0", tag=tag))
            for how in self.each():
                _, answer = self.fine("lab-tags", index_url=lab.url, **how)
                self.assertEqual(answer["packages"][0]["filename"], f"lab_tags-1.0-{here}-{here}-{place}.whl")

    def test_compiler_that_crashes(self):
        with unittest.mock.patch.object(pyc.Compiler, "__call__", lambda *args: os.abort()):
            _, answer = self.fine("lab-good")
        self.assertIn("lab_good/__init__.py", self.files)
        self.assertFalse([name for name in self.files if name.endswith(".pyc")])

    def test_full_disk(self):
        def full(*args):
            raise OSError(errno.ENOSPC, "No space left on device")
        with unittest.mock.patch.object(bundle.Part, "write", full):
            self.refused("disk_full", "lab-good")
        with unittest.mock.patch.object(bundle, "append", full):
            self.refused("disk_full", "lab-good")
        with unittest.mock.patch.object(os, "mkdir", full):
            self.refused("disk_full", "lab-good")

    def test_no_installer(self):
        with unittest.mock.patch.object(resolver, "find_uv", lambda: None), \
             unittest.mock.patch.object(resolver, "find_pip", lambda: None):
            self.refused("no_installer", "lab-good", resolver=None)

    def test_environment_of_tools(self):
        """No variable and no configuration of the server's own reaches a tool."""
        with unittest.mock.patch.dict(os.environ, {"PIP_INDEX_URL": "http://127.0.0.1:9/", "UV_INDEX_URL": "http://127.0.0.1:9/",
                                                   "UV_DEFAULT_INDEX": "http://127.0.0.1:9/", "PIP_NO_INDEX": "1",
                                                   "HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}):
            for how in self.each():
                self.fine("lab-good", **how)

    def test_secret_in_url(self):
        answer = self.install("lab-god", index_url=self.lab.url.replace("://", "://me:hushhush@"))
        self.assertNotIn("hushhush", json.dumps(answer))

    def test_strange_requests(self):
        for request in (None, [], "x", {"requirements": 5}, {"requirements": [5]}, {"requirements": ["x"], "constraints": "-e ."},
                        {"requirements": ["x"], "limits": {"bytes": "x"}}, {"requirements": {"a": 1}}):
            with contextlib.redirect_stdout(io.StringIO()):
                answer = installer.main(request)
            self.assertFalse(answer["ok"], request)


class InRunner(Boxes, unittest.TestCase):
    """As the gate asks for it: the meta of a run."""

    def test_install(self):
        with lab_of.Lab() as lab:
            lab_of.add_good(lab)
            request = {"requirements": ["lab-needs"], "index_url": lab.url}
            out = self.go(b"", op="install", install=request)
            self.assertEqual(sorted(out.answers[0]), ["exit_code", "install", "phase"])
            answer = out.answers[0]["install"]
            self.assertTrue(answer["ok"], answer)
            for package in answer["packages"]:
                lab_of.read_bundle(os.path.join(self.scratch, package["bundle"]))
            self.assertEqual(json.loads(out.stdout.splitlines()[0])["state"], "resolving")
            out = self.go(b"", op="install", install={"requirements": ["-e ."]})
            self.assertEqual((out.answers[0]["exit_code"], out.answers[0]["install"]["code"]), (1, "bad_requirement"))


class Said(unittest.TestCase):
    def test_a_port_is_no_status(self):
        [pattern] = [pattern for code, pattern, *_ in diagnosis.WORDS if code == "index_bad_answer"]
        said = ("error: Failed to fetch: `http://127.0.0.1:{0}/files/lab_x-1.0-py3-none-any.whl.metadata`\n"
                "  cause: {1} for url (http://127.0.0.1:{0}/files/lab_x-1.0-py3-none-any.whl.metadata)\n")
        for port in 40412, 14041, 51404:
            self.assertIsNone(re.search(pattern, said.format(port, "error sending request")), port)
        self.assertTrue(re.search(pattern, said.format(8080, "HTTP error 404")))


class Crews(unittest.TestCase):
    def run_tasks(self, *tasks, seconds=100):
        pool = workers.Workers({"a": 2}, time.monotonic() + seconds, lambda kind, count: self.counted.append(count))
        self.counted = []
        for task in tasks:
            pool.add(task)
        pool.run()

    def test_tasks(self):
        found = []
        self.run_tasks(*[workers.Task("a", lambda number, report: [report(number), number * 2][1], (number,), found.append)
                         for number in range(10)])
        self.assertEqual(sorted(found), list(range(0, 20, 2)))
        self.assertEqual(sum(self.counted), 45)

    def test_ends(self):
        for work, code in ((lambda report: os._exit(3), "internal"), (lambda report: 1 / 0, "internal"),
                           (lambda report: os.kill(os.getpid(), 9), "internal")):
            with self.assertRaises(failure.Failure) as caught:
                self.run_tasks(workers.Task("a", work, (), None), workers.Task("a", lambda report: time.sleep(60), (), None))
            self.assertEqual(caught.exception.code, code)
        with self.assertRaises(failure.Failure) as caught:
            self.run_tasks(workers.Task("a", lambda report: time.sleep(60), (), None), seconds=0.3)
        self.assertEqual(caught.exception.code, "timeout")
        with self.assertRaises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)

    def test_alarm(self):
        died = []
        self.run_tasks(workers.Task("a", lambda report: time.sleep(30), (), None, lambda: died.append(1), 1))
        self.assertEqual(died, [1])


if __name__ == "__main__":
    unittest.main()
