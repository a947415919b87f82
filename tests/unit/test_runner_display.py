# SPDX-License-Identifier: Apache-2.0
"""Tests of src/python/display/display.py, outside any box, as test_runner.py does it: values that show
themselves, and values that raise, lie or are too large. None of them needs a library.
"""

import base64
import struct
import unittest
import zlib

from test_runner import Boxes

# A picture without PIL: what the code in a box and the test here both can make.
MAKE_PNG = r'''
import struct, zlib
def png(width=4, height=3, more=b""):
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))
    rows = b"".join(b"\0" + bytes(width) for _ in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
            + more + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
class Picture:
    def __init__(self, *args): self.args = args
    def _repr_png_(self): return png(*self.args)
'''
exec(MAKE_PNG)


class Cases(Boxes):
    """The tests; below they become two classes, one per kind of zygote."""

    def shown(self, code, omitted=0):
        out = self.fine(MAKE_PNG + code)
        answer = out.answers[-1]
        self.omitted = answer.get("display_omitted", 0)
        if omitted is not None:
            self.assertEqual(self.omitted, omitted, out.stderr)
        elif self.omitted:      # what is left out is said, not only counted
            self.assertIn("is left out", out.stderr)
        self.assertLessEqual(len(out.payloads[-1]), 2 << 20)
        self.stderr = out.stderr
        return answer.get("display", [])

    # ---- what is shown

    def test_plain_values_are_not_rich(self):
        for code in "1", "'x'", "[Picture()]", "None", "object()", "Picture", "len":
            self.assertEqual(self.shown(code), [], code)

    def test_last_value(self):
        item, = self.shown("Picture()")
        self.assertEqual(base64.b64decode(item["image/png"], validate=True), png())  # noqa: F821
        self.assertEqual(set(item), {"image/png"})      # its repr is the result

    def test_display_in_order_with_text(self):
        items = self.shown("display(1, 'two', Picture())\ndisplay()\ndisplay([3])")
        self.assertEqual([item["text/plain"] for item in items[:2] + items[3:]],
                         ["1", "'two'", "[3]"])
        self.assertIn("Picture object", items[2]["text/plain"])
        self.assertIn("image/png", items[2])

    def test_every_method(self):
        items = self.shown("""
class A:
    def _repr_svg_(self): return "<svg/>"
    def _repr_html_(self): return "<b>é</b>", {"meta": 1}
    def _repr_markdown_(self): return "*m*"
    def _repr_latex_(self): return "$x$"
    def _repr_json_(self): return {"a": [1, None]}
    def _repr_jpeg_(self): return b"\\xff\\xd8\\xff\\xc0\\0\\x0b\\x08\\0\\x05\\0\\x06\\x01\\1\\1\\1"
A()""")
        self.assertEqual(items, [{
            "image/svg+xml": "<svg/>", "text/html": "<b>é</b>", "text/markdown": "*m*",
            "text/latex": "$x$", "application/json": '{"a":[1,null]}',
            "image/jpeg": base64.b64encode(b"\xff\xd8\xff\xc0\0\x0b\x08\0\x05\0\x06\x01\1\1\1")
            .decode()}])

    def test_bundle_and_methods(self):
        item, = self.shown("""
class A:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/html": "bundle", "application/vnd.x+json": {"v": 1}, "text/plain": "mine"}, {}
    def _repr_html_(self): return "method"
    def _repr_latex_(self): return "$l$"
display(A())""")
        self.assertEqual(item, {"text/html": "bundle", "application/vnd.x+json": '{"v":1}',
                                "text/plain": "mine", "text/latex": "$l$"})

    def test_one_method_that_fails_does_not_hide_the_others(self):
        item, = self.shown("class A(Picture):\n    def _repr_jpeg_(self): 1/0\nA()")
        self.assertEqual(set(item), {"image/png"})
        self.assertIn("A._repr_jpeg_() failed: ZeroDivisionError", self.stderr)

    def test_picture_as_base64(self):
        item, = self.shown("import base64\nclass A:\n    def _repr_png_(self):\n"
                           "        return base64.b64encode(png()).decode()\nA()")
        self.assertEqual(base64.b64decode(item["image/png"]), png())    # noqa: F821

    def test_raw(self):
        items = self.shown("display({'text/html': '<i>', 'image/png': png(), 'bad': 'x'}, raw=True)")
        self.assertEqual(set(items[0]), {"text/html", "image/png"})
        self.assertEqual(self.go("display(1, raw=True)").error["type"], "TypeError")

    def test_also_after_an_error(self):
        out = self.go("display(1)\n1/0")
        self.assertEqual(out.error["type"], "ZeroDivisionError")
        self.assertEqual(out.answers[0]["display"], [{"text/plain": "1"}])

    def test_from_exit_function_and_thread(self):
        items = self.shown("import atexit, threading\natexit.register(display, 2)\n"
                           "threading.Thread(target=display, args=[1]).start()")
        self.assertEqual([item["text/plain"] for item in items], ["1", "2"])

    def test_sessions_begin_anew(self):
        out = self.session("display(1)", "2", "display(3)")
        self.assertEqual([answer.get("display") for answer in out.answers],
                         [[{"text/plain": "1"}], None, [{"text/plain": "3"}]])

    def test_user_code_may_have_its_own(self):
        self.assertEqual(self.fine("display = 5\ndisplay").result, "5")
        out = self.go("import display")
        self.assertEqual(out.error["type"], "ModuleNotFoundError")      # ours is not in the way

    # ---- what is wrong

    def test_methods_that_raise(self):
        items = self.shown("""
class A:
    def _repr_png_(self): raise ValueError("no\\nway")
    def _repr_html_(self): raise NotImplementedError
    def _repr_latex_(self): raise RecursionError
    def _repr_mimebundle_(self): return {}      # wrong arguments
    def _repr_markdown_(self): return "fine"
A()""")
        self.assertEqual(items, [{"text/markdown": "fine"}])
        self.assertIn("display: A._repr_png_() failed: ValueError: no", self.stderr)
        self.assertIn("A._repr_mimebundle_() failed: TypeError", self.stderr)
        self.assertNotIn("_repr_html_", self.stderr)

    def test_wrong_types_are_ignored(self):
        for given in ("None", "7", "b'x'", "{}", "object()", "'x'", "[1]", "(1, 2, 3)", "b''",
                      "b'\\x89PNG'", "bytearray(5)", "memoryview(b'x')", "float('nan')"):
            items = self.shown("class A:\n    _repr_png_ = _repr_jpeg_ = lambda self: %s\nA()" % given,
                               omitted=0 if given == "None" else 1)
            self.assertEqual(items, [], given)
        for given in "7", "b'x'", "{}", "object()", "[1]", "(1, 2, 3)":
            items = self.shown("class A:\n    _repr_html_ = lambda self: %s\nA()" % given, omitted=1)
            self.assertEqual(items, [], given)

    def test_attributes_of_instances_do_not_count(self):
        self.assertEqual(self.shown("class A:\n    def __getattr__(self, name): return lambda: 'x'\n"
                                    "A()"), [])
        self.assertEqual(self.shown("class M(type):\n    def __getattr__(cls, name): 1/0\n"
                                    "class A(metaclass=M): pass\nA()"), [])

    def test_hostile_bundles(self):
        for given in ("7", "{1: 2}", "{'x': 'y'}", "{'TEXT/HTML': 'y'}", "{'text/ht ml': 'y'}",
                      "{'text/' + 'x' * 200: 'y'}", "{'a/b': b'y'}", "{'text/': ''}",
                      "{f'a/{i}': 'x' for i in range(1000)}", "[('a/b', 'c')]"):
            items = self.shown("class A:\n    def _repr_mimebundle_(self, **k): return %s\nA()" % given,
                               omitted=None)
            self.assertEqual(items, [], given)

    def test_json_with_cycles_and_nan(self):
        for given in "x", "[object()]", "[[]] * 100_000":
            items = self.shown("x = []\nx.append(x)\nclass A:\n    def _repr_json_(self): return %s\n"
                               "    def _repr_html_(self): return 'h'\nA()" % given, omitted=None)
            self.assertEqual(items, [{"text/html": "h"}], given)
        item, = self.shown("class A:\n    def _repr_json_(self): return [float('nan'), 1e999, 1]\nA()")
        self.assertEqual(item["application/json"], "[null,null,1]")

    def test_hostile_strings(self):
        items = self.shown("""
class S(str):
    def __len__(self): return 1
    def __getitem__(self, i): 1/0
    def __str__(self): 1/0
class A:
    def _repr_html_(self): return S("fine\\udc80\\0")
    def __repr__(self): return S("repr")
display(A())""")
        self.assertEqual(items, [{"text/html": "fine\\udc80\\x00", "text/plain": "repr"}])

    def test_repr_that_raises(self):
        items = self.shown("class A:\n    def __repr__(self): 1/0\ndisplay(A())")
        self.assertIn("repr failed: ZeroDivisionError", items[0]["text/plain"])

    def test_exit_within_a_method(self):
        out = self.go("class A:\n    def _repr_html_(self): raise SystemExit(3)\nA()")
        self.assertEqual(out.exit_code, 3)

    # ---- what is too large

    def test_gigabyte(self):
        items = self.shown("class A:\n    def _repr_html_(self): return 'x' * (1 << 28)\n"
                           "    def _repr_png_(self): return bytes(1 << 28)\nA()", omitted=1)
        self.assertEqual(items, [])

    def test_long_text_is_dropped_and_long_repr_is_cut(self):
        items = self.shown("class A:\n    def _repr_html_(self): return 'x' * 200_000\n"
                           "    def __repr__(self): return 'y' * 200_000\ndisplay(A())")
        self.assertEqual(set(items[0]), {"text/plain"})
        self.assertLess(len(items[0]["text/plain"]), 9000)

    def test_a_million_small_ones(self):
        items = self.shown("p = Picture()\nfor i in range(100_000): display(p)", omitted=99_980)
        self.assertEqual(len(items), 20)

    def test_all_together_are_bounded(self):
        items = self.shown("class A:\n    def _repr_html_(self): return chr(0x1F600) * 100_000\n"
                           "for i in range(10): display(A())", omitted=8)
        self.assertEqual(len(items), 2)

    def test_frame_is_bounded_whatever_else_is_in_it(self):
        out = self.fine("class A:\n    def _repr_html_(self): return 'x' * 120_000\n"
                        "for i in range(8): display(A())\n"
                        "[chr(0x1F600) * 60_000] * 4")
        answer = out.answers[-1]
        self.assertLessEqual(len(out.payloads[-1]), 2 << 20)
        self.assertIsNotNone(answer["result_json"])
        self.assertEqual(len(answer["display"]) + answer.get("display_omitted", 0), 8)

    def test_large_picture_without_a_library(self):
        items = self.shown("Picture(2000, 10)")
        data = base64.b64decode(items[0]["image/png"])
        self.assertIn(struct.unpack(">II", data[16:24])[0], (2000, 1600))   # PIL may be there
        self.assertEqual(zlib.crc32(data[12:29]), struct.unpack(">I", data[29:33])[0])

    def test_picture_above_every_bound(self):
        items = self.shown("import os\nclass A:\n    def _repr_png_(self):\n"
                           "        return png()[:33] + os.urandom(900_000)\nA()", omitted=1)
        self.assertEqual(items, [])


class WarmDisplayTest(Cases, unittest.TestCase):
    pass


class ColdDisplayTest(Cases, unittest.TestCase):
    arguments = "--cold",


if __name__ == "__main__":
    unittest.main()
