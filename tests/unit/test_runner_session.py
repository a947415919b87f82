# SPDX-License-Identifier: Apache-2.0
"""Tests of src/python/runner/session.py, source.py and variables.py, outside any box, as test_runner.py does
it: what stays between the runs of a session, prompts, and the names that runs change.
"""

import json
import sys
import time
import unittest

from test_runner import Boxes


def change(name, kind="added", type="int", **more):
    return dict(more, name=name, change=kind, type=type)


class Cases(Boxes):
    """The tests; below they become two classes, one per kind of zygote."""

    def results(self, *codes, **job):
        return [answer.get("result") for answer in self.session(*codes, **job).answers]

    def changes(self, *codes):
        """The variables of each report."""
        return [answer.get("variables", []) for answer in self.session(*codes).answers]

    def brief(self, *codes):
        return [[(item["name"], item["change"]) for item in items] for items in self.changes(*codes)]

    # ---- history

    def test_same_file_name_again(self):
        run = b'{"mode":"session","filename":"a.py"}'
        out = self.box((run, b"1/0"), (run, b"\nx = 1/0"),
                       (run, b"import inspect\ndef f(): return 5\ninspect.getsource(f)"))
        self.assertIn("    x = 1/0\n", out.answers[1]["error"]["text"])
        self.assertEqual(out.result_json, "def f(): return 5\n")

    def test_execution_count(self):
        out = self.session("1", "if", "1/0", "", "import sys; sys.exit(3)")
        self.assertEqual([a["execution_count"] for a in out.answers], [1, 2, 3, 3, 4])  # an empty one has none
        self.assertNotIn("execution_count", self.fine("1").answers[0])

    def test_cells_are_named_by_their_number(self):
        runs = [(json.dumps({"mode": "session", "filename": name}).encode(), b"1/0")
                for name in ("<code>", "<stdin>", "", "a.py")]
        out = self.box(*runs)
        self.assertEqual([a["error"]["traceback"][0]["file"] for a in out.answers],
                         ["<code 1>", "<stdin 2>", "<code 3>", "a.py"])

    def test_last_values(self):
        self.assertEqual(self.results("1", "2", "3", "[_, __, ___]", "_1 + _2 + _3", "None", "_"),
                         ["1", "2", "3", "[3, 2, 1]", "6", None, "6"])

    def test_last_values_before_there_are_any(self):
        self.assertEqual(self.results("[_, __, ___, _i, Out, In]")[0],
                         "['', '', '', '', {}, ['', '[_, __, ___, _i, Out, In]']]")

    def test_own_underscore_is_kept(self):
        self.assertEqual(self.results("1", "_ = 'mine'", "2", "_", "_1, _3"),
                         ["1", None, "2", "'mine'", "(1, 2)"])
        self.assertEqual(self.results("5", "for _ in range(3): pass", "6", "_"), ["5", None, "6", "2"])
        self.assertEqual(self.results("5", "del _", "6", "_"), ["5", None, "6", "6"])
        self.assertEqual(self.results("import gettext; gettext.install('x')", "5", "_('text')"),
                         [None, "5", "'text'"])

    def test_out(self):
        self.assertEqual(self.results("10", "x = 1", "30", "Out", "Out[1] + Out[3]", "_oh is Out",
                                      "sorted(Out)"),
                         ["10", None, "30", "{1: 10, 3: 30}", "40", "True", "[1, 3, 5, 6]"])

    def test_in(self):
        out = self.results("x = 1\n", "In[1]", "_ih is In", "_i, _ii, _iii", "_i1", "len(In)")
        self.assertEqual(out, [None, "'x = 1'", "True", "('_ih is In', 'In[1]', 'x = 1')", "'x = 1'",
                               "7"])

    def test_history_is_bounded(self):
        codes = ["object()"] * 130
        out = self.results(*codes, "len(Out), min(Out), '_30' in globals(), '_31' in globals()",
                           "'_i1' in globals(), '_i131' in globals(), In[1]")
        self.assertEqual(out[-2:], ["(100, 31, False, True)", "(False, True, 'object()')"])

    def test_long_session_with_a_broken_linecache(self):
        out = self.session("import linecache\nlinecache.cache = None", *["1"] * 1010, "In[1], In[-2], len(In)",
                           "[]['key']")
        self.assertEqual(out.answers[-2]["result"], "('', '1', 1013)")
        self.assertEqual((out.error["type"], out.error["line"]), ("TypeError", 1))

    def test_values_that_left_are_freed(self):
        out = self.session("class A:\n    def __del__(self): print('gone')", "A()",
                           *["1"] * 99, "print('here')", "2")
        self.assertEqual(out.stdout, "here\ngone\n")

    def test_large_sources_are_forgotten(self):
        big = "x = '" + "a" * (6 << 20) + "'"
        out = self.results(big, big, big, "[len(source) for source in In]")
        self.assertEqual(json.loads(out[-1])[0:2], [0, 0])
        self.assertGreater(json.loads(out[-1])[3], 6 << 20)

    def test_broken_history(self):
        for code in ("In.clear(); Out.clear()", "In.extend('abc' * 9)", "In = Out = None",
                     "del In, Out, _i, _ih, _oh", "In[:] = [None] * 99", "globals().clear()",
                     "Out.update(dict.fromkeys(range(1000)))"):
            out = self.session("5", code, "6", "7")
            self.assertEqual([a.get("result") for a in out.answers[2:]], ["6", "7"], code)

    def test_one_run_has_no_history(self):
        self.assertEqual(self.go("Out").error["type"], "NameError")
        self.assertEqual(self.go("_").error["type"], "NameError")

    def test_semicolon_hides_the_value(self):
        for code in ("7;", "x = 7; x;", "7 ;  ", "7; # why", "7;\n\n# end\n", "(7\n);", "f'{7}' ;",
                     "(7); # a;b", "7;\r\n"):
            self.assertEqual(self.results("5", code, "_"), ["5", None, "5"], code)
            self.assertNotIn("result", self.fine(code).answers[0], code)
        for code in ("7", "';'", "7 # ;", "x = 1;\n7", "(7,)[0] # a;", "'''\n;'''", "(7 # ;\n)"):
            self.assertIsNotNone(self.fine(code).result, code)

    # ---- the end of a run

    def test_exit_keeps_the_session(self):
        out = self.session("x = 1", "exit()", "quit(3)", "import sys; sys.exit('bye')", "x",
                           "sys.stdin.read()")
        self.assertEqual([a["exit_code"] for a in out.answers], [0, 0, 3, 1, 0, 0])
        self.assertEqual([a.get("error") for a in out.answers], [None] * 6)
        self.assertEqual((out.answers[4]["result"], out.result, out.stderr), ("1", "''", "bye\n"))

    def test_replaced_stdout_stays(self):
        out = self.session("import sys, io\nold, sys.stdout = sys.stdout, io.StringIO()",
                           "print('caught', end='')", "sys.stdout.getvalue()",
                           "sys.stdout = old\nprint('seen', end='')")
        self.assertEqual((out.answers[2]["result"], out.stdout), ("'caught'", "seen"))

    def test_replaced_stdout_is_flushed(self):
        out = self.session("import sys\nsys.stdout = open(1, 'w', 1000, closefd=False)",
                           "print('a')", "import os; os.write(1, b'b'); None")
        self.assertEqual(out.stdout, "a\nb")

    def test_threads_that_print_between_runs(self):
        out = self.session("""
            import threading, time
            def talk():
                while not stop:
                    print("x" * 50)
                    time.sleep(.001)
            stop = False
            thread = threading.Thread(target=talk); thread.start()""",
                           "41", "time.sleep(.05); 42", "stop = True; thread.join()", pause=20_000)
        self.assertEqual([a.get("result") for a in out.answers], [None, "41", "42", None])
        self.assertEqual(set(out.stdout.split()), {"x" * 50})

    # ---- interrupts

    ALARM = ("import os, signal, threading, time\ndef later(seconds):\n"
             "    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()\n")

    def test_interrupt_keeps_variables_and_names_the_line(self):
        out = self.session(self.ALARM, "x = 1\nlater(.1)\nwhile True:\n    x += 1", "x > 100")
        error = out.answers[1]["error"]
        self.assertEqual((out.answers[1]["exit_code"], error["type"]), (130, "KeyboardInterrupt"))
        self.assertIn(error["line"], (3, 4))
        self.assertEqual(out.result, "True")

    def test_interrupt_between_runs_is_harmless(self):
        out = self.session(self.ALARM, "later(.05)", "x = 3", "x",
                           "later(.02)\ntime.sleep(5)", "later(.05)", "x", pause=100_000)
        self.assertEqual([a["exit_code"] for a in out.answers], [0, 0, 0, 0, 130, 0, 0])
        self.assertEqual(out.result, "3")

    def test_interrupt_of_a_repr(self):
        out = self.session(self.ALARM, "class A:\n    def __repr__(self):\n"
                                       "        while True: pass\nlater(.1)\nA()", "5")
        self.assertEqual(out.answers[1]["error"]["type"], "KeyboardInterrupt")
        self.assertEqual(out.result, "5")

    def test_interrupt_while_an_error_is_described(self):
        out = self.session(self.ALARM, "class E(Exception):\n    def __str__(self):\n"
                                       "        while True: pass\nlater(.1)\nraise E", "5")
        self.assertEqual((out.answers[1]["error"]["type"], out.answers[1]["exit_code"]),
                         ("KeyboardInterrupt", 130))
        self.assertEqual(out.result, "5")

    def test_own_handler_stays(self):
        out = self.session("import os, signal\nsignal.signal(signal.SIGINT, lambda *a: print('mine'))",
                           "os.kill(os.getpid(), signal.SIGINT)\n1",
                           "signal.signal(signal.SIGINT, signal.SIG_IGN)",
                           "os.kill(os.getpid(), signal.SIGINT)\n2")
        self.assertEqual((out.stdout, out.result), ("mine\n", "2"))

    def test_many_interrupts(self):
        out = self.session(self.ALARM, """
            def rain():
                for _ in range(300):
                    os.kill(os.getpid(), signal.SIGINT)
                    time.sleep(.001)
            threading.Thread(target=rain).start()""", *["time.sleep(.02)"] * 10, "time.sleep(.5)", "5")
        self.assertIn(130, [a["exit_code"] for a in out.answers])
        for answer in out.answers[2:]:
            self.assertIn((answer.get("error") or {}).get("type"), (None, "KeyboardInterrupt"))
        self.assertEqual(out.result, "5")

    # ---- asyncio

    def test_tasks_go_on(self):
        out = self.session("""
            import asyncio
            seen = []
            async def work():
                for i in range(3):
                    seen.append(i)
                    await asyncio.sleep(.01)
                return "done"
            task = asyncio.create_task(work())""", "seen[:1]",
                           "while len(seen) < 3: await asyncio.sleep(.01)\nseen", "await task",
                           "asyncio.get_running_loop() is task.get_loop()")
        self.assertEqual([a.get("result") for a in out.answers],
                         [None, "[0]", "[0, 1, 2]", "'done'", "True"])

    def test_tasks_go_on_without_await(self):
        out = self.session("import asyncio, time\nasync def f():\n    await asyncio.sleep(.01)\n"
                           "    print('woken')\ntask = asyncio.ensure_future(f())",
                           "time.sleep(.05)", "print('last')", "task.done()")
        self.assertEqual((out.stdout, out.result), ("woken\nlast\n", "True"))

    def test_asyncio_run_works_too(self):
        out = self.session("import asyncio\nasync def f(): return 1\nasyncio.run(f())",
                           "await f()", "asyncio.run(f())",
                           "loop = asyncio.new_event_loop(); loop.run_until_complete(f())")
        self.assertEqual([a.get("result") for a in out.answers], ["1"] * 4)

    def test_interrupted_await(self):
        out = self.session(self.ALARM + "import asyncio\nasync def f():\n    try:\n"
                           "        await asyncio.sleep(9)\n    finally: print('cleaned')",
                           "later(.1)\n\nawait f()", "await asyncio.sleep(0, 'x')")
        error = out.answers[1]["error"]
        self.assertEqual((error["type"], out.answers[1]["exit_code"]), ("KeyboardInterrupt", 130))
        self.assertEqual([frame["line"] for frame in error["traceback"]][:2], [3, 7])
        self.assertEqual((out.stdout, out.result), ("cleaned\n", "'x'"))

    def test_closed_loop_is_replaced(self):
        out = self.session("import asyncio\nawait asyncio.sleep(0)\nloop = asyncio.get_running_loop()",
                           "loop.close()", "1", "await asyncio.sleep(0, 2)")
        self.assertEqual((out.answers[2]["result"], out.result), ("1", "2"))

    # ---- texts from elsewhere

    def test_code_that_is_indented_as_a_whole(self):
        """As notebooks take it; the harness dedents texts, but bytes not."""
        code = b"\n    x = 1\n    if x:\n        y = '''a\n    b'''\n\n    %matplotlib inline\n    y"
        out = self.box((b'{"mode":"session"}', code), (b'{"mode":"session"}', b"\t1/0"),
                       (b'{"mode":"session"}', b"  x = 1\n z"))
        self.assertEqual(out.answers[0]["result"], "'a\\nb'")
        error = out.answers[1]["error"]
        self.assertEqual((error["type"], error["line"], error["code_line"]), ("ZeroDivisionError", 1, "1/0"))
        self.assertEqual(out.answers[2]["error"]["type"], "IndentationError")
        self.assertEqual(self.go(b"    x = 1\n    x").error["type"], "IndentationError")      # as python3 -c

    def test_prompts(self):
        code = ">>> def f():\n...     return 4\n...\n>>> x = 5\n>>> f(), x"
        out = self.session(code, ">>>x", ">>> " * 1000 + "1", "x = 1\n>>> x", "... x")
        self.assertEqual(out.answers[0]["result"], "(4, 5)")
        self.assertEqual([answer["error"]["type"] for answer in out.answers[1:]], ["SyntaxError"] * 4)
        self.assertEqual(self.go(">>> 1").error["type"], "SyntaxError")

    # ---- variables that come with the code

    def test_given_variables(self):
        out = self.fine("[a, b['k'], é]", variables={"a": [1, None], "b": {"k": True}, "é": 2.5})
        self.assertEqual(out.result_json, [[1, None], True, 2.5])
        self.assertNotIn("variables", out.answers[0])       # nothing changed them

    def test_given_variables_that_the_code_changes(self):
        out = self.fine("a += 1; del b", variables={"a": 1, "b": 2, "c": 3})
        self.assertEqual([(v["name"], v["change"]) for v in out.answers[0]["variables"]],
                         [("a", "changed"), ("b", "removed")])

    def test_given_variables_of_wrong_names(self):
        out = self.fine("[__name__, sorted(n for n in globals() if n[0] != '_')]",
                        variables={"__name__": "x", "a b": 1, "1a": 1, "": 1, "__x": 1, "ok": 1})
        self.assertEqual(out.result_json, ["__main__", ["ok"]])

    def test_given_variables_in_a_session(self):
        run = json.dumps({"mode": "session", "variables": {"n": 5}}).encode()
        out = self.box((run, b"n * 2"), (b'{"mode":"session"}', b"n + 1"))
        self.assertEqual([a.get("result") for a in out.answers], ["10", "6"])
        self.assertEqual([a.get("variables") for a in out.answers], [None, None])

    # ---- variables that runs change

    def test_what_values_are(self):
        variables, = self.changes("""
            import collections, math as m
            a, b, c, d, e = None, True, 5, 2.5, "text"
            f, g, h = [1, 2], {"k": 1}, (1,)
            i, j, k = {1}, frozenset(), collections.deque([1])
            l, n, o = b"xy", range(9), "x" * 81
            class P: pass
            def q(): pass
            r, s = P(), len
            t = collections.Counter("aab")
            u, v, w = 10 ** 200, 1j, bytearray(3)""")
        self.assertEqual(variables, [
            change("a", type="NoneType", text="None"), change("b", type="bool", text="True"),
            change("c", text="5"), change("d", type="float", text="2.5"),
            change("e", type="str", length=4, text="'text'"),
            change("f", type="list", length=2), change("g", type="dict", length=1),
            change("h", type="tuple", length=1), change("i", type="set", length=1),
            change("j", type="frozenset", length=0), change("k", type="collections.deque", length=1),
            change("l", type="bytes", length=2), change("n", type="range", length=9),
            change("o", type="str", length=81), change("P", type="type"),
            change("q", type="function"), change("r", type="P"),
            change("s", type="builtin_function_or_method"), change("t", type="collections.Counter"),
            change("u"), change("v", type="complex"), change("w", type="bytearray", length=3)])

    def test_one_run_reports_names_too(self):
        out = self.fine("x = 1\n_y = 2\nimport os\ndel __doc__")
        self.assertEqual(out.answers[0]["variables"], [change("x", text="1")])
        out = self.go("x = 1\n1/0")
        self.assertEqual(out.answers[0]["variables"], [change("x", text="1")])
        self.assertNotIn("variables", self.go("if").answers[0])

    def test_added_changed_removed(self):
        self.assertEqual(self.brief("x = 1; y = 'a'", "x", "x = 2", "del y", "y = 'a'", "x = 2; y = 'a'"),
                         [[("x", "added"), ("y", "added")], [], [("x", "changed")], [("y", "removed")],
                          [("y", "added")], []])
        self.assertEqual(self.changes("z = [1]", "del z")[1], [change("z", "removed", "list")])

    def test_name_becomes_a_module_or_private(self):
        self.assertEqual(self.brief("np = 5", "import os as np", "np", "np = 5"),
                         [[("np", "added")], [("np", "removed")], [], [("np", "added")]])

    def test_history_is_not_listed(self):
        self.assertEqual(self.brief("1", "2", "3"), [[], [], []])
        self.assertEqual(self.brief("1", "Out = 5"), [[], [("Out", "added")]])

    def test_objects_at_the_same_address(self):
        for old, new in (("1.5", "2.5"), ("[1]", "[2]"), ("[[1]]", "[[2]]"), ("{1: 2}", "{3: 4}"),
                         ("object()", "object()"), ("{1}", "{2}"), ("(1, [2])", "(3, [4])"),
                         ("'a' * 5000", "'b' * 5000"), ("A()", "A()"), ("S()", "S()"),
                         ("[0] * 100", "[1] * 100"), ("lambda: 1", "lambda: 2"), ("10**50", "10**51"),
                         ("[len]", "[abs]")):
            out = self.brief("class A: pass\nclass S: __slots__ = ()", f"x = {old}",
                             f"del x\nx = {new}", "None", "x")
            self.assertEqual(out[1:], [[("x", "added")], [("x", "changed")], [], []], (old, new))
            out = self.brief("class A: pass\nclass S: __slots__ = ()",
                             f"x = {old}; del x; x = {new}")
            self.assertEqual(out[1], [("x", "added")])

    def test_address_is_reused(self):
        classes = "class A: pass\nclass S: __slots__ = ()\nfrom collections import deque"
        again = """
            before, others = id(x), []
            del x
            for _ in range(100_000):
                x = {}
                if id(x) == before:
                    break
                others.append(x)
            id(x) == before"""
        # The last two are kept alive, so no new value gets their address.
        reused = []
        for made in "A()", "S()", "[len]", "deque()", "[1.5]", "float(str(2.5))":
            out = self.session(classes, f"x = {made}", again.format(made))
            reused.append(out.result)
            self.assertIn(("x", "changed"),
                          [(v["name"], v["change"]) for v in out.answers[2]["variables"]], made)
        self.assertIn("True", reused[:4])
        self.assertEqual(reused[4:], ["False", "False"])

    def test_values_are_not_kept_alive(self):
        out = self.session("class A:\n    def __del__(self): print('gone')\na = A()\nb = [A()]\n"
                           "c = {'k': A()}; d = (A(),)",
                           "for name in 'abcd':\n    print(name); del globals()[name]\nprint('end')")
        self.assertEqual(out.stdout.split(), "a gone b gone c gone d gone end".split())

    def test_changes_in_place(self):
        self.assertEqual(self.brief(
            "import collections\na, b, c, d, e = [], {}, set(), collections.deque(), bytearray()\n"
            "f = [[1]] * 50", "a.append(1)", "b['x'] = 1", "c.add(1)", "d.append(1)", "e.append(1)",
            "f.pop(); None", "len(f)")[1:],
            [[("a", "changed")], [("b", "changed")], [("c", "changed")], [("d", "changed")],
             [("e", "changed")], [("f", "changed")], []])

    def test_reading_is_not_changing(self):
        code = ("rows = [[i] for i in range(50)]\ntable = {i: [i] for i in range(50)}\n"
                "text = 'x' * 5000\nclass S: __slots__ = ()\ns = S()\npair = ([1], [2])")
        self.assertEqual(self.brief(code, "print(rows, table, text, s, pair)",
                                    "for row in rows: row.append(1)", "def f(): rows = 1")[1:],
                         [[], [("row", "added")], [("f", "added")]])
        self.assertEqual(self.brief("x = [[1]]", "if", "x;", "x = [[1]]", "1 +")[1:],
                         [[], [], [("x", "changed")], []])

    def test_rebinding_in_functions(self):
        self.assertEqual(self.brief("x = [[1]]\ndef f():\n    global x\n    x = [[1], [2]]", "f()")[1],
                         [("x", "changed")])

    def test_many_names_in_one_code(self):
        # Beyond 256 names the number of a name takes a second instruction.
        names = "\n".join(f"n{i} = [[]]" for i in range(600))
        out = self.session(names, "del n599; n599 = [[]]\n" + names.replace("n599", "m"), "n599")
        self.assertEqual(len(out.answers[0]["variables"]), 50)
        self.assertEqual(out.answers[0]["variables_omitted"], 550)
        self.assertEqual(out.answers[1]["variables_omitted"], 551)
        self.assertNotIn("variables", out.answers[2])

    def test_hostile_values(self):
        out = self.session("""
            import sys
            def bad(*a, **k):
                print("CALLED", file=sys.__stderr__)
                raise RuntimeError
            class Meta(type):
                __hash__ = __eq__ = __getattribute__ = __instancecheck__ = __repr__ = bad
            namespace = {name: bad for name in (
                "__repr__", "__str__", "__len__", "__eq__", "__hash__", "__bool__", "__iter__",
                "__index__", "__getattribute__", "__getattr__", "__format__", "__getitem__")}
            class List(list): locals().update(namespace)
            class Dict(dict): locals().update(namespace)
            class Str(str): locals().update(namespace)
            class Int(int): locals().update(namespace)
            class Any: locals().update(namespace)
            class Liar(metaclass=Meta): locals().update(namespace)
            Fake = type("ndarray", (), {"__module__": 5, "shape": property(bad)})
            a, b, c, d, e, f, g = List(), Dict(), Str("x"), Int(3), Any(), Liar(), Fake()
            del bad""", "a, b = b, a", "None", "del a, f")
        self.assertNotIn("CALLED", out.stderr)
        kinds = {v["name"]: v["type"] for v in out.answers[0]["variables"]}
        self.assertEqual([kinds[name] for name in "abcdefg"],
                         ["List", "Dict", "Str", "Int", "Any", "Liar", "?.ndarray"])
        self.assertEqual([[v["name"] for v in a.get("variables", [])] for a in out.answers[1:]],
                         [["a", "b"], [], ["a", "f"]])

    def test_hostile_names(self):
        out = self.session("g = globals()\ng[5] = g[()] = 1\ng['a b'] = g[''] = 2\n"
                           "g['\\ud800\\0'] = 3\ng['n' * 5000] = 4\ndel g", "None")
        names = [v["name"] for v in out.answers[0]["variables"]]
        self.assertEqual(names[:3], ["a b", "", "\\ud800\\x00"])
        self.assertLess(len(names[3]), 200)
        self.assertNotIn("variables", out.answers[1])

    def test_shapes(self):
        if self.go("import numpy").exit_code:
            return          # this interpreter has none
        out = self.changes("import numpy as np\na = np.zeros((3, 4)); b = np.float64(2); c = a[0]",
                           "a[0] = 1", "a = np.zeros((3, 5))", "d = np.zeros(6)",
                           "d.resize(3, refcheck=False)")
        self.assertEqual(out[0], [change("a", type="numpy.ndarray", shape=[3, 4]),
                                  change("b", type="numpy.float64"),
                                  change("c", type="numpy.ndarray", shape=[4])])
        self.assertEqual(out[1:], [[], [change("a", "changed", "numpy.ndarray", shape=[3, 5])],
                                   [change("d", type="numpy.ndarray", shape=[6])],
                                   [change("d", "changed", "numpy.ndarray", shape=[3])]])

    def test_ten_thousand_names_are_cheap(self):
        out = self.session("for i in range(10_000): globals()[f'n{i}'] = [i] if i % 2 else {i}",
                           "import time\nbegun = time.process_time()", "time.process_time() - begun")
        # From the end of the first line to the next run: one look at all names lies between.  What the machine does
        # for others meanwhile does not count.
        self.assertLess(float(out.result), 0.1)


class WarmSessionTest(Cases, unittest.TestCase):
    pass


class ColdSessionTest(Cases, unittest.TestCase):
    arguments = ("--cold",)


if __name__ == "__main__":
    unittest.main()
