# SPDX-License-Identifier: Apache-2.0
"""stdin for code: field `stdin` of REST, a batch and execute_python; the stdin of `constrictor run`.

input(), sys.stdin, descriptor 0 and the programs that code starts read it; at its end comes EOFError, as in python3.
"""

import base64
import os
import pty
import subprocess
import sys

import pytest
import rest_client
from exercises import EXERCISES
from mcp_client import several, text

SUM = "import sys; data = sys.stdin.buffer.read(); print(len(data), sum(data))"
LEFT = "import sys; print(repr(sys.stdin.read()), repr(__import__('os').read(0, 10)))"


@pytest.fixture(scope="module")
def api(shared_cli):
    return rest_client.serve(shared_cli, "--stock", "2")


@pytest.fixture(scope="module")
def python(shared_cli):
    """What the host's interpreter prints: the oracle."""

    def python(code, stdin):
        script = shared_cli.folder / "oracle.py"
        script.write_text(code)
        done = subprocess.run([sys.executable, script], input=stdin.encode(), capture_output=True,
                              env={"LANG": "C.UTF-8"}, timeout=600)  # fmt: skip
        return done.stdout.decode(), done.stderr.decode().strip().splitlines()[-1:], done.returncode

    return python


def last_line(answer):
    return answer["error"]["text"].strip().splitlines()[-1:] if answer.get("error") else []


# ---- a teacher's path ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXERCISES)
def test_an_exercise_does_what_python3_does(api, python, name):
    code, typed = EXERCISES[name]
    answer = api.run(code, stdin=typed)
    assert (answer["stdout"], last_line(answer), answer["exit_code"]) == python(code, typed)


# ---- what reads it -------------------------------------------------------------------------------


@pytest.mark.parametrize("code, out", [
    ("print(input(), input())", "one two\n"),
    ("import sys; print(sys.stdin.read().split())", "['one', 'two']\n"),
    ("import sys; print(sys.stdin.buffer.read())", "b'one\\ntwo\\n'\n"),
    ("import sys; print([line for line in sys.stdin])", "['one\\n', 'two\\n']\n"),
    ("import fileinput\nfor line in fileinput.input(): print(line, end='')", "one\ntwo\n"),
    ("import os; print(os.read(0, 100))", "b'one\\ntwo\\n'\n"),
    ("print(open(0).read(), end='')", "one\ntwo\n"),
    ("import subprocess; subprocess.run(['cat'])", "one\ntwo\n"),
    ("import subprocess; subprocess.run(['head', '-n1']); print(input)", None),
    ("import os; os.system('cat')", "one\ntwo\n"),
    ("import sys; print(sys.stdin.fileno(), sys.stdin.isatty(), sys.stdin.encoding, sys.stdin.name)",
     "0 False utf-8 <stdin>\n"),
    ("import sys; print(sys.stdin is sys.__stdin__, sys.stdin.seekable())", "True False\n"),
    ("import os\nif os.fork() == 0:\n    print(input(), flush=True); os._exit(0)\nos.wait()", "one\n"),
    ("import threading\nt = threading.Thread(target=lambda: print(input())); t.start(); t.join()", "one\n"),
    ("import asyncio, sys\n"
     "async def main():\n"
     "    reader = asyncio.StreamReader()\n"
     "    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)\n"
     "    print(await reader.read())\n"
     "asyncio.run(main())", "b'one\\ntwo\\n'\n"),
])  # fmt: skip
def test_everything_that_reads_stdin_reads_it(api, code, out):
    answer = api.run(code, stdin="one\ntwo\n")
    assert answer["verdict"] == "ok", answer
    assert out is None or answer["stdout"] == out, answer


def test_a_replaced_stdin_is_honoured(api):
    code = "import io, sys\nsys.stdin = io.StringIO('mine\\n')\nprint(input('> '))\ntry: input()\nexcept EOFError as e: print(e)"
    for fields in ({}, {"stdin": "other\n"}):
        answer = api.run(code, **fields)
        assert answer["stdout"] == "> mine\nEOF when reading a line\n", answer


def test_without_stdin_input_says_how_to_pass_some(api):
    answer = api.run("input('name? ')")
    assert answer["stdout"] == "name? ", answer
    assert answer["error"]["type"] == "EOFError" and "'stdin'" in answer["error"]["message"], answer
    assert api.run(LEFT)["stdout"] == "'' b''\n"


def test_an_empty_stdin_is_at_its_end(api):
    answer = api.run("input()", stdin="")
    assert answer["error"]["message"] == "EOF when reading a line", answer


def test_bytes_come_as_base64(api):
    data = bytes(range(256)) * 300
    answer = api.run(SUM, stdin_base64=base64.b64encode(data).decode())
    assert answer["stdout"] == f"{len(data)} {sum(data)}\n", answer
    assert api.run("import sys; print(ascii(sys.stdin.read()))", stdin_base64="gP8=")["stdout"] == "'\\udc80\\udcff'\n"


def test_much_arrives_whole_and_in_order(api):
    lines = "".join(f"{n}\n" for n in range(1_000_000))
    answer = api.run("import sys\nprint(all(int(line) == n for n, line in enumerate(sys.stdin)))\nprint(n)",
                     stdin=lines)  # fmt: skip
    assert answer["stdout"] == "True\n", answer


def test_code_need_not_read_it(api):
    for code in ("1", "import os; os.close(0)", "import os; os.dup2(os.open('/dev/zero', 0), 0); os.read(0, 9)",
                 "import os; os.read(0, 1)"):  # fmt: skip
        assert api.run(code, stdin="x" * 3_000_000)["verdict"] == "ok"


def test_a_slow_reader_gets_all(api):
    code = (
        "import os, time\nn = 0\nwhile part := os.read(0, 50_000):\n    n += len(part)\n    time.sleep(0.001)\nprint(n)"
    )
    assert api.run(code, stdin="x" * 2_000_000)["stdout"] == "2000000\n"


def test_a_run_under_a_policy_reads_it(api):
    """There scratch may be read-only, and the code cannot make a pipe of its own."""
    for _ in range(3):
        answer = api.run("print(input())", stdin="abc", policy="guarded")
        assert answer["stdout"] == "abc\n" and answer["files"] == [], answer


def test_it_leaves_no_file(api):
    answer = api.run("import os; print(os.listdir('/mnt/data'), os.listdir('/tmp'))", stdin="abc")
    assert answer["stdout"] == "[] []\n" and answer["files"] == [], answer


# ---- sessions ------------------------------------------------------------------------------------


def test_stdin_belongs_to_one_run(api):
    assert api.run("x = input()", session="in-one", stdin="one\ntwo\n")["verdict"] == "ok"
    assert api.run(LEFT, session="in-one")["stdout"] == "'' b''\n"
    assert "'stdin'" in api.run("input()", session="in-one")["error"]["message"]
    assert api.run("print(x, input())", session="in-one", stdin="three\n")["stdout"] == "one three\n"


def test_an_ended_run_leaves_nothing_of_it(api):
    for code in ("raise SystemExit(3)", "1 / 0", "import sys; sys.stdin.close()", "import os; os.close(0)", "exit()"):  # fmt: skip
        api.run(code, session="in-ended", stdin="rest\n" * 50_000)
        assert api.run(LEFT, session="in-ended")["stdout"] == "'' b''\n", code
        assert api.run("print(input())", session="in-ended", stdin="next\n")["stdout"] == "next\n", code


def test_a_run_that_is_interrupted_leaves_nothing_of_it(api):
    api.post("/sessions", {"name": "in-stop"})
    answer = api.run("while True: pass", session="in-stop", stdin="rest\n" * 50_000, timeout=0.5)
    assert answer["verdict"] == "timeout_wall" and answer["session_state"] != "ended", answer
    assert api.run(LEFT, session="in-stop")["stdout"] == "'' b''\n"


def test_forks_and_checkpoints_have_none_of_it(api):
    api.post("/sessions", {"name": "in-fork", "checkpoint": True})
    api.run("a = input()", session="in-fork", stdin="one\ntwo\n")
    api.run("b = input()", session="in-fork", stdin="three\nfour\n")
    assert api.post("/sessions/in-fork/fork", {"name": "in-fork2"}).status == 201
    assert api.post("/sessions/in-fork/undo").status == 200
    for name in ("in-fork", "in-fork2"):
        assert api.run(LEFT, session=name)["stdout"] == "'' b''\n"
        assert api.run("print(a, input())", session=name, stdin="five\n")["stdout"] == "one five\n"
    crashed = api.run("import os; input(); os._exit(7)", session="in-fork", stdin="six\nseven\n")
    assert "status 7" in crashed["error"]["message"], crashed
    assert api.run(LEFT, session="in-fork")["stdout"] == "'' b''\n"


# ---- batches, MCP --------------------------------------------------------------------------------


def test_each_snippet_of_a_batch_has_its_own_or_the_batchs(api):
    items = [{"code": "print(input())"}, {"code": "print(input())", "stdin": "mine\n"},
             {"code": SUM, "stdin_base64": "AAEC"}]  # fmt: skip
    answer = api.post("/batch", {"items": items, "stdin": "all\n", "stream": False}).json
    assert [item["execution"]["stdout"] for item in answer["results"]] == ["all\n", "mine\n", "3 3\n"], answer


def test_execute_python_has_it(cli):
    with several(cli) as make:
        c = make()
        done = c.python("print(input('name? '))", stdin="Ada\n")
        assert done["structuredContent"]["stdout"] == "name? Ada\n", done
        done = c.python(SUM, stdin_base64="AAEC")
        assert done["structuredContent"]["stdout"] == "3 3\n", done
        assert "'stdin'" in text(c.python("input()"))
        both = c.call("execute_python", code="1", stdin="a", stdin_base64="YQ==")
        assert both.get("isError") and "stdin" in text(both), both


# ---- the command line ----------------------------------------------------------------------------

READ = "import sys\nn = 0\nwhile part := sys.stdin.buffer.read(65536): n += len(part)\nprint(n)"


def test_a_script_reads_the_commands_stdin(cli):
    script = cli.folder / "script.py"
    script.write_text("print(input('? '))\nimport sys; print(sys.stdin.read())")
    assert cli.call("run", script, input=b"one\ntwo").out == "? one\ntwo\n"  # a pipe
    (cli.folder / "data").write_bytes(b"one\ntwo")
    with open(cli.folder / "data", "rb") as data:
        assert cli.call("run", script, stdin=data).out == "? one\ntwo\n"
    assert cli.call("run", "--json", "-c", "input()", input=b"x\n").json["result"] == "'x'"
    assert cli.call("run", "-m", "json.tool", input=b'{"a":1}').out == '{\n    "a": 1\n}\n'


@pytest.mark.parametrize("name", ["guess the number", "lines of stdin", "error after the end"])
def test_an_exercise_at_the_command_line(cli, python, name):
    code, typed = EXERCISES[name]
    script = cli.folder / "exercise.py"
    script.write_text(code)
    done = cli.call("run", script, input=typed.encode())
    out, last, status = python(code, typed)
    assert (done.out, done.err.strip().splitlines()[-1:], done.status) == (out, last, status)


def test_much_streams_through(cli):
    size = 64 << 20
    process = cli.start("run", "-c", READ, stdin=subprocess.PIPE)
    for _ in range(size >> 20):
        process.stdin.write(bytes(1 << 20))
    process.stdin.close()
    assert process.stdout.read() == b"%d\n" % size


@pytest.mark.parametrize("source", [["yes"], ["cat", "/dev/zero"], ["sleep", "1000"]])
def test_a_stdin_without_end_ends_with_the_code(cli, source):
    with subprocess.Popen(source, stdout=subprocess.PIPE) as endless:
        code = "import os, sys; print(1)" if source[0] == "sleep" else "import os; print(len(os.read(0, 1)))"
        done = cli.call("run", "-c", code, stdin=endless.stdout)
        endless.kill()
    assert done.status == 0 and done.out == "1\n", done


def test_a_device_that_cannot_be_waited_for(cli):
    with open("/dev/zero", "rb") as zero:
        done = cli.call("run", "-c", "import sys; print(len(sys.stdin.buffer.read(1_000_000)))", stdin=zero)
    assert done.out == "1000000\n", done


def test_a_stdin_that_stops_in_the_middle_meets_the_limit(cli):
    read, write = os.pipe()
    os.write(write, b"one\nhalf")
    done = cli.call("run", "--wall", "1s", "-c", "print(input())\ninput()", stdin=read)
    os.close(read)
    os.close(write)
    assert done.out == "one\n" and done.status == 124, done


def test_code_from_stdin_has_none(cli):
    for stdin in (b"print(input())", b""):
        done = cli.call("run", "-" if stdin else "/dev/stdin", input=stdin or b"print(input())")
        assert done.status == 1 and "EOFError" in done.err, done
    assert "constrictor run FILE < DATA" in cli.plain("input()").err
    assert "constrictor run FILE < DATA" in cli.call("run", "-c", "input()").err


def test_a_person_at_a_terminal(cli):
    """A line at a time, only when the code asks: what is typed ahead stays with the shell."""
    master, slave = pty.openpty()
    code = "name = input('Name? ')\nprint('Hello', name)\ntry: input('More? ')\nexcept EOFError: print('end')"
    process = cli.start("run", "-c", code, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    seen = b""

    def until(mark):
        nonlocal seen
        while mark not in seen:
            seen += os.read(master, 1000)

    until(b"Name? ")
    os.write(master, b"Ada\n")
    until(b"Hello Ada\r\n")
    until(b"More? ")
    os.write(master, b"\x04")
    until(b"end\r\n")
    assert process.wait() == 0
    os.write(master, b"ahead\n")
    assert cli.call("run", "-c", "print(1)", stdin=slave).out == "1\n"
    assert os.read(slave, 100) == b"ahead\n"
    os.close(master)
    os.close(slave)


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fields, words", [
    ({"stdin": 1}, "stdin"), ({"stdin": ["a"]}, "stdin"), ({"stdin": {}}, "stdin"), ({"stdin_base64": 1}, "stdin"),
    ({"stdin_base64": "nonsense!"}, "base64"), ({"stdin_base64": "AAE"}, "base64"), ({"stdin_base64": "AA E="}, "base64"),
    ({"stdin": "a", "stdin_base64": "YQ=="}, "give one of them"),
])  # fmt: skip
def test_bad_values_are_refused_and_nothing_runs(api, fields, words):
    for path, body in (("/execute", {"code": "1", **fields}), ("/batch", {"items": [{"code": "1", **fields}]})):
        answer = api.post(path, body)
        assert answer.status == 400, answer
        assert words in answer.json["detail"] and answer.json["code"] == "bad_value", answer


def test_more_than_a_body_may_have_is_refused(api):
    answer = api.post("/execute", {"code": "1", "stdin": "x" * (20 << 20)})
    assert answer.status == 413, answer
