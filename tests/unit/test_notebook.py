# SPDX-License-Identifier: Apache-2.0
"""Tests of src/python/runner/notebook.py, shell.py, magics.py, timing.py and lookup.py, outside any box, as
test_runner.py does it: lines of IPython in the code of runs and sessions.
"""

import json
import re
import unittest

from test_runner import Boxes


class Cases(Boxes):
    """The tests; below they become two classes, one per kind of zygote."""

    def results(self, *codes):
        return [answer.get("result") for answer in self.session(*codes).answers]

    def wrong(self, code, type="UsageError", **meta):
        out = self.go(code, **meta)
        self.assertIsNotNone(out.error, code)
        self.assertEqual(out.error["type"], type, out.error)
        return out.error

    # ---- what is a command

    def test_valid_python_is_never_touched(self):
        code = ("text = '''\n%time 1\n!ls\nx?\n'''\nconfig = 3\nx = (7\n     %config)\ny = 17 \\\n  %config\n"
                "z = [1,\n!r] if 0 else f'{x!r}'" .replace("\n!r]", "\n2]") + "\n(x, y, text, z)")
        out = self.fine(code)
        self.assertEqual(out.result_json[:3], [1, 2, "\n%time 1\n!ls\nx?\n"])

    def test_strings_and_brackets_beside_commands(self):
        code = ('!true\ntext = """\n%time 1\n!ls " \' (\n"""\nx = (7\n     %4)  # (\ny = "a\\\n%time 1"\n'
                "z = f'{x!r}' 'it\\'s ('\n%who_ls\n")
        out = self.fine(code)
        self.assertEqual(out.result, "['text', 'x', 'y', 'z']")
        out = self.fine(code + "x, y, text")
        self.assertEqual(out.result_json, [3, "a%time 1", '\n%time 1\n!ls " \' (\n'])

    def test_other_errors_are_those_of_python(self):
        for code in ("x = (1 %\n", "a = 5 !\n", "def f(:\n  '%d' % 3", "x = 'a\n%d' % 3", "what is 2%3?",
                     "x = = 1 % 2", "a != != b", "if x: !ls"):
            out = self.go(code)
            self.assertEqual((out.phase, out.error["type"]), ("syntax_check", "SyntaxError"), code)
            self.assertNotIn("command", out.error["message"])

    def test_errors_beside_commands_keep_their_lines(self):
        error = self.go("%matplotlib inline\nif x\n").error
        self.assertEqual((error["type"], error["line"], error["code_line"]), ("SyntaxError", 2, "if x"))
        error = self.go("!ls \\\n   -l\n\n1/0").error
        self.assertEqual((error["type"], error["line"], error["code_line"]), ("ZeroDivisionError", 4, "1/0"))
        error = self.go("x = 1\n  %time x").error
        self.assertEqual((error["type"], error["line"], error["code_line"]),
                         ("IndentationError", 2, "  %time x"))
        self.assertNotIn("get_ipython", error["text"])

    def test_tracebacks_show_the_users_lines(self):
        error = self.wrong("x = 1\nif x:\n    %time 1/0\n", "ZeroDivisionError")
        self.assertEqual((error["line"], error["code_line"]), (3, "    %time 1/0"))
        self.assertNotIn("get_ipython()", error["text"])
        self.assertNotIn("shell.py", error["text"])
        error = self.wrong("%%time\nx = 1\n\n1/0\n", "ZeroDivisionError")
        self.assertEqual((error["line"], error["code_line"]), (4, "1/0"))
        error = self.session("%%time\ndef f():\n    return 1/0\n", "f()").error
        self.assertEqual((error["line"], error["code_line"]), (3, "    return 1/0"))
        error = self.wrong("x = 2\n%nonsense 5\n")
        self.assertEqual((error["line"], error["code_line"]), (2, "%nonsense 5"))

    def test_commands_in_functions_and_blocks(self):
        code = """
            def f(name):
                files = !echo {name} $name
                if files:
                    %time twice = len(name) * 2
                    !echo loud $name
                return files, name
            f('abc')
        """
        out = self.fine(code)
        self.assertEqual(out.result, "(['abc abc'], 'abc')")
        self.assertIn("loud abc\n", out.stdout)

    def test_line_ends_and_byte_order_mark(self):
        self.assertEqual(self.go(b"%matplotlib inline\r\nx = 2\r\nx").result, "2")
        self.assertEqual(self.go(b"\xef\xbb\xbf%pwd\n").error, None)
        self.assertEqual(self.go("# é\n%matplotlib inline # ü\n'é'").result, "'é'")
        out = self.fine(b"%%writefile a.txt\r\na\r\nb\r\n")
        self.assertEqual(out.files["a.txt"], b"a\nb\n")

    def test_code_that_is_indented_as_a_whole(self):
        out = self.box((b'{"mode":"session"}', b"    %time x = 1\n    !true\n    x"))
        self.assertEqual(out.result, "1")

    def test_many_commands_and_long_lines(self):
        out = self.go("%matplotlib inline\n" * 5000 + "7")
        self.assertEqual(out.result, "7")
        out = self.go("%matplotlib inline\n" * 20000)
        self.assertEqual(out.error["type"], "SyntaxError")
        error = self.wrong("!echo " + "x" * 10_000_000)
        self.assertIn("characters", error["message"])
        self.assertLess(len(json.dumps(error)), 100_000)
        for code in "x" * 5_000_000 + "?", "%" + "x" * 5_000_000, "x = !" + "(" * 5_000_000:
            self.assertIsNotNone(self.go(code).error)

    def test_signs_alone(self):
        for code, word in ("!", "missing"), ("x = !", "missing"), ("%", "missing"), ("%%", "missing"):
            self.assertIn(word, self.wrong(code)["message"], code)
        for code in "?", "??":
            self.assertIn("describes", self.fine(code).stdout)
        self.assertIn("null", self.go(b"!echo \0").error["message"])

    def test_unknown_commands_name_near_ones(self):
        self.assertIn("%timeit", self.wrong("%timit f()")["message"])
        self.assertIn("%lsmagic", self.wrong("%qqqqqqqq")["message"])
        self.assertIn("%%bash", self.wrong("%%bsh\necho")["message"])
        message = self.wrong("%bash ls")["message"]
        self.assertIn("there is %%bash", message)
        message = self.wrong("x = 1\n%%time\nx")["message"]
        self.assertIn("first line", message)

    def test_comments_before_a_cell_command(self):
        out = self.fine("\n# measured\n%%time\nx = 4\nx")
        self.assertEqual(out.result, "4")

    def test_trailing_semicolon_hides_the_value(self):
        self.assertEqual(self.results("%time 3;", "%time 3", "%%time\n3;", "!true;"), [None, "3", None, None])

    def test_values_are_in_out(self):
        self.assertEqual(self.results("%time 3", "_ + 1", "files = !echo a; echo b", "files, Out[1], In[1]"),
                         ["3", "4", None, "(['a', 'b'], 3, '%time 3')"])

    # ---- the system's shell

    def test_commands_of_the_shell(self):
        out = self.session("!echo one && echo two >&2; exit 3", "_exit_code", "!kill -9 $$", "_exit_code",
                           "!true", "_exit_code")
        self.assertEqual((out.stdout, out.stderr), ("one\n", "two\n"))
        self.assertEqual([answer.get("result") for answer in out.answers],
                         [None, "3", None, "-9", None, "0"])

    def test_signs_of_the_shell(self):
        self.assertEqual(self.fine("!echo 'a b' | tr a-z A-Z; echo \"$((2 + 3))\"; echo ${HOME:+x}").stdout,
                         "A B\n5\nx\n")
        self.assertEqual(self.fine("!printf 'a 1\\nb 2\\n' | awk '{print $2}'").stdout, "1\n2\n")

    def test_values_in_commands(self):
        out = self.fine("x = {'k': 'v'}\nn = 1.5\n!echo {x['k']} $n {n:.2f} '$n' $$ {{n}}")
        words = out.stdout.split()
        self.assertEqual(words[:4], ["v", "1.5", "1.50", "$n"])
        self.assertEqual(words[-1], "{n}")

    def test_output_as_a_list(self):
        out = self.fine("files = !printf 'b 2\\na 10\\n'\n[files.n, files.s, list(files.fields(0)), "
                        "list(files.grep('a')), list(files.sort(1, nums=True)), files.l]")
        self.assertEqual(out.result_json, ["b 2\na 10", "b 2 a 10", ["b", "a"], ["a 10"], ["b 2", "a 10"],
                                           ["b 2", "a 10"]])
        self.assertEqual(self.fine("x = !echo a\nx").result, "['a']")
        self.assertEqual(self.fine("!!echo a").result, "['a']")

    def test_printing_and_commands_keep_their_order(self):
        self.assertEqual(self.fine("print(1)\n!echo 2\nprint(3)").stdout, "1\n2\n3\n")

    def test_redirected_output(self):
        out = self.fine("import io, contextlib\nf = io.StringIO()\nwith contextlib.redirect_stdout(f):\n"
                        "    !echo é\nf.getvalue()")
        self.assertEqual((out.result_json, out.stdout), ("é\n", ""))

    def test_a_background_process_does_not_hold_the_run(self):
        self.assertEqual(self.fine("x = !(sleep 50 &) ; echo a\nx").result, "['a']")

    def test_too_much_output_for_a_list(self):
        error = self.wrong("x = !head -c 100000000 /dev/zero", "ValueError")
        self.assertIn("to a file", error["message"])

    # ---- %%bash and others

    def test_scripts(self):
        out = self.fine("%%bash\nx='it'\"'\"'s'\necho \"$x\"\nfor i in 1 2; do echo {$i}; done\n")
        self.assertEqual(out.stdout, "it's\n{1}\n{2}\n")
        self.assertEqual(self.fine("%%sh\necho a").stdout, "a\n")
        self.assertEqual(self.fine("%%script bash -e\necho \"'''\"").stdout, "'''\n")
        error = self.wrong("%%bash\nexit 4", "subprocess.CalledProcessError")
        self.assertIn("4", error["message"])
        self.fine("%%bash --no-raise-error\nexit 4")
        out = self.session("%%bash --out said --err wrong\necho a\necho b >&2", "said, wrong")
        self.assertEqual((out.result_json, out.stdout), (["a\n", "b\n"], ""))

    def test_big_scripts_and_big_output(self):
        body = "# " + "x" * 300_000 + "\nhead -c 200000 /dev/zero | tr '\\0' a"
        out = self.session("%%bash --out said\n" + body, "len(said)")
        self.assertEqual(out.result, "200000")

    # ---- measuring

    def test_time(self):
        out = self.session("%time x = sum(range(10))", "x", "%time x + 1", "%%time\ny = 5\ny * 2")
        self.assertEqual([answer.get("result") for answer in out.answers], [None, "45", "46", "10"])
        self.assertEqual(len(re.findall(r"^CPU times: user .*, sys: .*, total: .*\nWall time: [\d.e+]+ .s?s?$",
                                        out.stdout, re.M)), 3, out.stdout)

    def test_time_of_commands_and_awaits(self):
        out = self.fine("%time !echo a")
        self.assertRegex(out.stdout, r"^a\nCPU times")
        out = self.session("%%time\nimport asyncio\nawait asyncio.sleep(0, 3)", "%%time\n%time 4")
        self.assertEqual([answer.get("result") for answer in out.answers], ["3", "4"])

    def test_timeit(self):
        out = self.session("%timeit -n 5 -r 2 x = 1", "r = %timeit -o -q -n 3 -r 2 sum(range(10))",
                           "r.loops, r.repeat, len(r.all_runs), r.best > 0, r.average > 0, str(r)[:0]",
                           "%%timeit -n 1 -r 3 data = [1, 2]\ns = 0\nfor i in data:\n    s += i",
                           "'s' in globals()")
        self.assertRegex(out.stdout, r"per loop \(mean ± std. dev. of 2 runs, 5 loops each\)")
        self.assertRegex(out.stdout, r"of 3 runs, 1 loop each\)")
        self.assertEqual(out.answers[2]["result_json"], [3, 2, 2, True, True, ""])
        self.assertEqual(out.result, "False")
        self.assertIn("usage", self.wrong("%timeit")["message"])
        self.assertIn("-n", self.wrong("%timeit -n x 1")["message"])
        error = self.wrong("%timeit -n1 -r1 1/0", "ZeroDivisionError")
        self.assertEqual(error["code_line"], "%timeit -n1 -r1 1/0")

    def test_timeit_finds_the_number_of_loops(self):
        self.assertRegex(self.fine("%timeit -r 1 sum(range(1000))").stdout, r"of 1 run, 1(0|,000)+ loops each")

    def test_names_of_a_function_in_measured_code(self):
        out = self.fine("def f(a):\n    %timeit -n 2 -r 1 a + 1\n    x = %time a * 2\n    return x\nf(4)")
        self.assertEqual(out.result, "8")

    # ---- files

    def test_writefile(self):
        out = self.session("%%writefile a.py\nx = '''it'''\nprint(x)\n", "%%writefile -a a.py\ny = 2",
                           "%run a.py", "x, y", "%%writefile a.py\n", "%cat a.py")
        self.assertEqual(out.answers[3]["result_json"], ["it", 2])
        self.assertEqual(out.stdout, "Writing a.py\nAppending to a.py\nit\nOverwriting a.py\n")
        error = self.wrong("%%writefile /proc/none/x\nb", "FileNotFoundError")
        self.assertEqual(error["line"], 1)
        self.assertIn("usage", self.wrong("%%writefile\nb")["message"])

    def test_run_a_file(self):
        with open(self.scratch + "/s.py", "w") as file:
            file.write("import sys\nargs = sys.argv\nif __name__ == '__main__':\n    main = __file__\n"
                       "def f():\n    return 1 / 0\nsys.exit(0)\n")
        out = self.session("%run s.py a 'b c'", "args, main[-5:]", "f()", "import sys; len(sys.argv), __name__",
                           "%run none.py", "%run", "%run -m this_is_no_module")
        self.assertEqual(out.answers[1]["result_json"], [["s.py", "a", "b c"], "/s.py"])
        error = out.answers[2]["error"]
        self.assertEqual((error["line"], error["code_line"]), (6, "    return 1 / 0"))
        self.assertEqual(out.answers[3]["result_json"], [1, "__main__"])
        self.assertEqual([answer["error"]["type"] for answer in out.answers[4:]],
                         ["FileNotFoundError", "UsageError", "UsageError"])

    def test_run_a_notebook(self):
        cells = [{"cell_type": "markdown", "source": ["# x"]},
                 {"cell_type": "code", "source": ["a = 1\n", "!echo hi"]}, {"cell_type": "code", "source": "b = a"}]
        with open(self.scratch + "/n.ipynb", "w") as file:
            json.dump({"cells": cells}, file)
        out = self.session("%run n.ipynb", "a, b")
        self.assertEqual((out.stdout, out.result_json), ("hi\n", [1, 1]))

    def test_folders_and_variables_of_the_environment(self):
        out = self.session("%mkdir d", "%cd d", "%pwd", "%cd -", "%env A_B=c d", "%env A_B",
                           "import os\nos.environ['A_B']", "!echo $A_B", "%env NO_SUCH", "%cd no_such", "%cd /",
                           "%ls -d d")
        results = [answer.get("result") for answer in out.answers]
        self.assertTrue(results[2].endswith("/d'"))
        self.assertEqual(results[5:7], ["'c d'", "'c d'"])
        self.assertIn("c d\n", out.stdout)
        self.assertEqual([out.answers[i]["error"]["type"] for i in (8, 9)],
                         ["UsageError", "FileNotFoundError"])
        self.assertNotIn("error", out.answers[10])

    # ---- output

    def test_capture(self):
        out = self.session("%%capture cap\nprint('a')\nimport sys\nprint('b', file=sys.stderr)\n!echo c\n7",
                           "cap.stdout, cap.stderr", "cap.show()", "%%capture\nprint(1)\n1/0")
        self.assertEqual(out.answers[1]["result_json"], ["a\nc\n7\n", "b\n"])
        self.assertEqual((out.stdout, out.stderr), ("a\nc\n7\n", "b\n"))
        self.assertEqual((out.error["type"], out.error["line"]), ("ZeroDivisionError", 3))
        out = self.session("%%capture cap\ndisplay({'text/html': '<b>'}, raw=True)", "cap.outputs[0].data",
                           "cap()")
        self.assertEqual(out.answers[1]["result_json"], {"text/html": "<b>"})
        self.assertNotIn("display", out.answers[0])
        self.assertEqual(out.answers[2]["display"], [{"text/html": "<b>"}])

    def test_text_of_other_kinds(self):
        for name, mime in (("html", "text/html"), ("markdown", "text/markdown"), ("latex", "text/latex"),
                           ("svg", "image/svg+xml"), ("javascript", "application/javascript")):
            shown = self.fine(f"%%{name}\n<a>'''\n").answers[0]["display"]
            self.assertEqual([list(item) for item in shown], [[mime]], name)
            self.assertEqual(shown[0][mime].strip(), "<a>'''")

    # ---- names

    def test_who(self):
        out = self.session("a, _b = 1, 2\nfrom math import pi\ndef f(): pass\ntext = 'x' * 500", "%who", "%who_ls",
                           "%who int", "%whos", "%reset", "%reset -f", "%who", "a")
        self.assertEqual(out.answers[2]["result"], "['a', 'f', 'pi', 'text']")
        self.assertEqual(out.answers[5]["error"]["type"], "UsageError")
        self.assertIn("%reset -f", out.answers[5]["error"]["message"])
        self.assertIn("Variable", out.stdout)
        self.assertRegex(out.stdout, r"(?m)^pi +float +3.14")
        self.assertIn("Interactive namespace is empty.", out.stdout)
        self.assertEqual(out.error["type"], "NameError")

    def test_history(self):
        out = self.session("1 + 1", "x = '''\n'''", "%history", "%history -n 1-1", "%hist -o 1")
        self.assertEqual(out.stdout.count("1 + 1"), 3)
        self.assertIn("1: 1 + 1\n", out.stdout)

    def test_describe_a_name(self):
        code = "def f(a, b=2):\n    'Adds: both.'\n    return a + b\nx = [1, 2]\n"
        for ask in "f?", "?f", "%pinfo f":
            out = self.fine(code + ask)
            self.assertIn("f(a, b=2)", out.stdout)
            self.assertIn("Adds: both.", out.stdout)
            self.assertNotIn("return a + b", out.stdout)
        self.assertIn("return a + b", self.fine(code + "f??").stdout)
        self.assertIn("Length:      2", self.fine(code + "x?").stdout)
        self.assertIn("print(", self.fine("print?").stdout)
        self.assertIn("os.path.join", self.fine("import os\nos.path.jo*?").stdout)
        self.assertIn("often", self.fine("%timeit?").stdout)
        self.assertIn("not found", self.wrong("nothing_here?")["message"])

    def test_lists_of_commands(self):
        out = self.fine("%lsmagic")
        for name in "%timeit", "%%bash", "%pip", "%%writefile":
            self.assertIn(name, out.stdout.split())
        self.assertIn("%pwd: ", self.fine("%magic").stdout)

    def test_accepted_commands(self):
        out = self.fine("%matplotlib inline\n%config InlineBackend.figure_format = 'retina'\n5")
        self.assertEqual((out.result, out.stderr), ("5", ""))
        for code in "%load_ext autoreload", "%autoreload 2", "%pdb on", "%load_ext no_such_extension":
            self.assertRegex(self.fine(code).stderr, "^note: .*(no effect|left out)", code)

    def test_precision(self):
        self.assertEqual(self.results("%precision 3", "1/3", "%precision %.1e", "1234.5", "%precision", "0.5"),
                         ["'%.3f'", "0.333", "'%.1e'", "1.2e+03", "'%r'", "0.5"])

    # ---- get_ipython()

    def test_get_ipython(self):
        out = self.session(
            "ip = get_ipython()\nip.user_ns['made'] = 1\nip.run_line_magic('time', 'y = 2')\nmade, y",
            "[*ip.getoutput('echo a')], ip.system('echo b'), ip.execution_count",
            "ip.run_cell_magic('writefile', 'q.txt', 'text')\nopen('q.txt').read()",
            "r = ip.run_cell('z = 5\\nz')\nr.success, r.result",
            "r = ip.run_cell('1/0')\nr.success, type(r.error_in_exec).__name__",
            "ip.push({'p': 9})\nip.ev('p + 1'), ip.var_expand('{p}'), p",
            "get_ipython().magic('pwd')[:1], get_ipython() is ip")
        self.assertEqual([json.dumps(answer.get("result_json")) for answer in out.answers],
                         ["[1, 2]", '[["a"], null, 2]', '"text"', "[true, 5]", '[false, "ZeroDivisionError"]', '[10, "9", 9]', '["/", true]'])
        self.assertIn("ZeroDivisionError", out.stderr)

    def test_own_commands(self):
        out = self.session("def shout(line):\n    return line.upper()\nx = 'v'\n"
                           "get_ipython().register_magic_function(shout)", "%shout abc {x}",
                           "def low(line, cell):\n    return line + cell.lower()\n"
                           "get_ipython().register_magic_function(low, 'cell', 'down')", "%%down a\nBC\n")
        self.assertEqual([answer.get("result") for answer in out.answers], [None, "'ABC V'", None, "'abc\\n'"])

    # ---- IPython without IPython

    def test_display_objects(self):
        out = self.fine("""
            from IPython.display import (display, HTML, Markdown, Image, SVG, JSON, Latex, Math, Audio, Video, Code,
                                         clear_output, update_display, Javascript, IFrame, Pretty, FileLink)
            display(HTML("<b>one</b>"), display_id="a")
            update_display(HTML("<b>two</b>"), display_id="a")
            display(Markdown("# t"), Latex("$x$"), JSON('{"k": [1]}'), SVG("<svg></svg>"), Math("x"), Code("x = 1"),
                    IFrame("x.html", 10, 20), Pretty("plain"), Audio([0, 1, 0, -1], rate=8000),
                    Image(url="https://example.org/a.png", width=5))
        """)
        shown = out.answers[0]["display"]
        self.assertEqual([next(iter(item)) for item in shown],
                         ["text/html", "text/markdown", "text/latex", "application/json", "image/svg+xml", "text/latex",
                          "text/html", "text/html", "text/plain", "audio/wav", "text/html"], shown)
        self.assertEqual(shown[0]["text/html"], "<b>two</b>")
        self.assertTrue(shown[9]["audio/wav"].startswith("UklGR"))
        self.assertEqual(out.stderr, "")
        self.wrong("from IPython.display import Image\nImage('none.png')", "FileNotFoundError")
        self.wrong("from IPython.display import NoSuchThing", "ImportError")
        self.wrong("import IPython.no_such", "ModuleNotFoundError")

    def test_modules(self):
        out = self.fine("""
            import IPython, IPython.core.getipython
            from IPython import get_ipython as g
            from IPython.utils.capture import capture_output
            from IPython.core.interactiveshell import InteractiveShell
            with capture_output() as cap:
                print("x")
            InteractiveShell.ast_node_interactivity = "all"
            [IPython.get_ipython() is get_ipython() is g() is IPython.core.getipython.get_ipython(), cap.stdout,
             IPython.version_info[0] >= 8, isinstance(g(), InteractiveShell), "IPKernelApp" in g().config]
        """)
        self.assertEqual(out.result_json, [True, "x\n", True, True, False])

    def test_decorators_of_commands(self):
        code = ("from IPython.core.magic import (register_line_magic, register_cell_magic, Magics, magics_class,\n"
                "    line_magic, cell_magic, line_cell_magic, needs_local_scope)\n"
                "@register_line_magic\ndef hi(line):\n    return 'hi ' + line\n"
                "@register_cell_magic('up')\ndef upper(line, cell):\n    return cell.upper()\n"
                "@magics_class\nclass Mine(Magics):\n    @line_magic\n    def count(self, line):\n"
                "        return len(line) + self.shell.user_ns['n']\n    @line_cell_magic('both')\n"
                "    def other(self, line, cell=None):\n        return cell or line\n"
                "n = 100\nget_ipython().register_magics(Mine)")
        out = self.session(code, "%hi you", "%%up\nab", "%count abc", "%both x", "%%both\ny")
        self.assertEqual([answer.get("result_json") for answer in out.answers],
                         [None, "hi you", "AB\n", 103, "x", "y\n"], out.answers)

    def test_functions_that_show_values_of_a_class(self):
        out = self.session(
            "class T:\n    def __repr__(self): return 'plain'\n"
            "f = get_ipython().display_formatter.formatters\n"
            "f['text/html'].for_type(T, lambda value: '<b>')\n"
            "f['text/plain'].for_type(T, lambda value, p, cycle: p.text('pretty'))", "T()")
        self.assertEqual((out.result, out.answers[1]["display"]), ("pretty", [{"text/html": "<b>"}]))

    # ---- packages

    def test_installing(self):
        for code in ("%pip install no-such", "!pip install no-such", "!python -m pip install no-such",
                     "pip install no-such", "!pip3 install -q no-such"):
            error = self.wrong(code)
            self.assertIn("install_package", error["message"], code)
            self.assertEqual((error["line"], error["code_line"]), (1, code))


class WarmNotebookTest(Cases, unittest.TestCase):
    pass


class ColdNotebookTest(Cases, unittest.TestCase):
    arguments = ("--cold",)


if __name__ == "__main__":
    unittest.main()
