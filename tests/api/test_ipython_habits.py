# SPDX-License-Identifier: Apache-2.0
"""What people and models type in notebooks, over REST and MCP: !ls, %time, %%bash, name?, get_ipython(), IPython.display,
in sessions and in runs that are pasted from a notebook.
"""

import pytest
import rest_client
from conftest import open_cli
from mcp_client import MODERN, connect, text


@pytest.fixture(scope="module")
def rest(program):
    with open_cli(program) as cli:
        yield rest_client.serve(cli, "--grace", "500ms")


@pytest.fixture(scope="module")
def mcp(program):
    with open_cli(program) as cli, connect(cli, version=MODERN) as connection:
        yield connection


def fine(rest, code, **fields):
    answer = rest.run(code, **fields)
    assert answer["verdict"] == "ok", answer
    return answer


@pytest.mark.parametrize("session", [None, "cells"])
def test_cells_of_a_notebook(rest, session):
    more = {"session": session} if session else {}
    answer = fine(rest, "%matplotlib inline\nfiles = !printf 'a\\nb\\n'\nn = len(files)\n!echo $n {n + 1} | tr 2 x\n"
                        "%time n * 2", **more)
    assert answer["stdout"].startswith("x 3\nCPU times: ") and "Wall time: " in answer["stdout"], answer
    assert answer["result"] == "4" and answer["stderr"] == ""
    answer = fine(rest, "%%bash\nfor i in 1 2; do echo \"it's $i\"; done", **more)
    assert answer["stdout"] == "it's 1\nit's 2\n"
    answer = fine(rest, "%%writefile helper.py\nVALUE = 5\n", **more)
    assert answer["stdout"] == "Writing helper.py\n"
    answer = rest.run("x = 1\n%%time\nx", **more)
    assert answer["error"]["type"] == "UsageError" and "first line" in answer["error"]["message"]
    answer = rest.run("def f():\n    return 1 / 0\n%time f()", **more)
    assert (answer["error"]["line"], answer["error"]["code_line"]) == (2, "    return 1 / 0"), answer
    assert "%time f()" in answer["error"]["text"] and "run_line_magic" not in answer["error"]["text"]


def test_a_session_keeps_what_commands_do(rest):
    for code, result in (("%mkdir d", None), ("%cd -q d", None), ("%pwd", "'/mnt/data/d'"), ("!exit 3", None),
                         ("_exit_code", "3"), ("%env GREETING=hello", None), ("!!echo $GREETING", "['hello']"),
                         ("%timeit -n 1 -r 1 sum([1])", None), ("%who_ls", "[]"), ("Out[3]", "'/mnt/data/d'"),
                         ("%precision 2", "'%.2f'"), ("2/3", "0.67")):
        assert fine(rest, code, session="kept")["result"] == result, code
    assert "Return the sum of" in fine(rest, "sum?", session="kept")["stdout"]
    assert "near names: %time" in rest.run("%timee 1", session="kept")["error"]["message"]


def test_files_that_a_command_writes_are_artifacts(rest):
    answer = fine(rest, "%%writefile notes.txt\nhello\n", session="files")
    assert [file["path"] for file in answer["files"]] == ["notes.txt"], answer


@pytest.mark.parametrize("line", ["!pip install six", "%pip install -q six; ls", "!python3 -m pip install six && ls",
                                  "%conda install six"])
def test_an_install_says_what_installs_packages(rest, line):
    answer = rest.run(f"x = 1\n{line}", session="pip")
    assert answer["error"]["type"] == "UsageError" and answer["error"]["line"] == 2, answer
    said = answer["error"]["message"]
    assert said.startswith("pip cannot install six in a box: use the tool install_package (MCP), "), said
    assert fine(rest, "%pip list", session="pip")["stdout"].startswith("Package"), "other uses of pip go on"


def test_output_comes_while_a_command_runs(rest):
    lines = rest.stream("!echo first; sleep 1; echo second")
    texts = [str(line) for line in lines]
    first = next(i for i, text in enumerate(texts) if "first" in text)
    second = next(i for i, text in enumerate(texts) if "second" in text)
    assert first < second, lines


@pytest.mark.parametrize("code", ["%%bash\nwhile :; do sleep 0.1; done", "!trap '' INT; while :; do sleep 0.1; done"])
def test_a_command_that_never_ends_keeps_the_session(rest, code):
    name = "endless" + str(len(code))
    fine(rest, "x = 7", session=name)
    answer = rest.run(code, session=name, timeout=1)
    assert answer["verdict"] == "timeout_wall", answer
    assert fine(rest, "x", session=name)["result"] == "7"
    left = fine(rest, "!ps -e -o args | grep -c '[s]leep 0.1'", session=name)
    assert left["stdout"] == "0\n", left


def test_too_much_output_of_a_command(rest):
    answer = rest.run("!head -c 30000000 /dev/zero | tr '\\0' x", session="much")
    assert answer["verdict"] == "output_limit", answer["verdict"]
    assert rest.run("x = 1", session="much")["verdict"] == "ok"


def test_the_walls_hold_for_commands(rest):
    answer = rest.run("%%writefile ../../etc/x\ny")
    assert answer["error"]["errno"] in (2, 13, 30), answer["error"]     # no such folder, or not writable
    assert answer["error"]["line"] == 1
    answer = fine(rest, "%cd /\n!touch x 2>&1; id -u")
    assert "denied" in answer["stdout"] or "Read-only" in answer["stdout"], answer
    assert answer["stdout"].endswith("1000\n")


@pytest.mark.parametrize("code", ["!ls", "x = !ls", "%%bash\nls", "%ls", "get_ipython().system('ls')"])
def test_a_policy_refuses_the_shell_as_it_refuses_subprocess(rest, code):
    answer = rest.run(code, policy="guarded")
    assert answer["error"]["type"] in ("PolicyError", "ImportError"), answer
    assert "subprocess" in answer["error"]["message"] or "not allowed" in answer["error"]["message"]
    assert answer["stdout"] == ""
    events = answer.get("security_events") or answer.get("violations")
    assert events and events[0]["target"] == "subprocess", answer
    assert fine(rest, "%time 1 + 1", policy="guarded")["result"] == "2"


def test_the_check_knows_commands(rest):
    answer = rest.post("/validate", {"code": "!ls\n%time f = 1\nprint(f)"})
    assert answer.json["valid"], answer.json
    said = [item["message"] for item in answer.json["recommendations"] if item["rule"] == "magic"]
    assert len(said) == 2 and "command of IPython" in said[0]
    assert rest.post("/validate", {"code": "!ls\nx = = 1"}).json["error"]["line"] == 2


# ---- IPython without IPython ---------------------------------------------------------------------

DISPLAY = """
from IPython.display import (display, HTML, Markdown, Image, SVG, JSON, Latex, Math, Audio, clear_output,
                             update_display, Javascript, IFrame)
import IPython, IPython.core.getipython
h = display(HTML("<b>one</b>"), display_id="a")
update_display(HTML("<b>two</b>"), display_id="a")
display(Markdown("# t"), Latex("$x$"), JSON({"k": [1]}), SVG("<svg></svg>"))
assert IPython.get_ipython() is get_ipython() is IPython.core.getipython.get_ipython()
"""


def shown(answer):
    return [next(mime for mime in item if mime != "text/plain") for item in answer["display"]]


def test_display_objects(rest):
    answer = fine(rest, DISPLAY)
    assert shown(answer) == ["text/html", "text/markdown", "text/latex", "application/json", "image/svg+xml"], answer
    assert "two" in str(answer["display"][0]) and answer["stderr"] == ""
    picture = "import zlib, struct\ndef part(kind, data):\n    return struct.pack('>I', len(data)) + kind + data + " \
              "struct.pack('>I', zlib.crc32(kind + data))\npng = b'\\x89PNG\\r\\n\\x1a\\n' + part(b'IHDR', " \
              "struct.pack('>IIBBBBB', 2, 2, 8, 0, 0, 0, 0)) + part(b'IDAT', zlib.compress(b'\\0\\0\\0' * 2)) + " \
              "part(b'IEND', b'')\nopen('p.png', 'wb').write(png)\nfrom IPython.display import Image\n"
    assert shown(fine(rest, picture + "Image(data=png, width=20)")) == ["image/png"]
    assert shown(fine(rest, picture + "Image('p.png')")) == ["image/png"]


def test_own_commands_and_classes_of_commands(rest):
    code = ("from IPython.core.magic import register_line_magic, Magics, magics_class, line_magic\n"
            "@register_line_magic\ndef hi(line):\n    return 'hi ' + line\n"
            "@magics_class\nclass Mine(Magics):\n    @line_magic\n    def count(self, line):\n"
            "        return len(line) + self.shell.user_ns['n']\nn = 100\nget_ipython().register_magics(Mine)")
    fine(rest, code, session="own")
    assert fine(rest, "%hi you", session="own")["result"] == "'hi you'"
    assert fine(rest, "%count abc", session="own")["result"] == "103"


def test_widgets_and_what_is_missing(rest):
    assert rest.run("from IPython.display import NoSuchThing")["error"]["type"] == "ImportError"
    assert rest.run("import IPython.no_such")["error"]["type"] == "ModuleNotFoundError"


# ---- MCP -----------------------------------------------------------------------------------------


def test_over_mcp(mcp):
    answer = mcp.python("files = !echo a b\n%time x = 3\n!echo {x}", session="cells")
    found = answer["structuredContent"]
    assert found["verdict"] == "ok" and found["stdout"].endswith("\n3\n"), text(answer)
    assert mcp.python("%who_ls", session="cells")["structuredContent"]["result"] == "['files', 'x']"
    checked = mcp.call("validate_code", code="!ls\n%%time") if "validate_code" in mcp.tools else None
    assert checked is None or "structuredContent" in checked
