# SPDX-License-Identifier: Apache-2.0
"""`constrictor repl`: a person types Python at a terminal, line by line, and the code runs in a box."""

import os
import pty
import re
import select
import signal
import subprocess
import termios
import time

from conftest import GUARD_S

UP, PASTE, PASTED = "\x1b[A", "\x1b[200~", "\x1b[201~"
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PICTURE = f"class P:\n    def _repr_png_(self): return '{PNG}'\n\nP()\n"


class Person:
    """At a terminal of their own, where Ctrl-C is a key."""

    def __init__(self, cli, *flags, **env):
        self.master, terminal = pty.openpty()
        self.before = termios.tcgetattr(terminal)
        self.process = cli.start(
            "repl", *flags, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
            preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # becomes the controlling one
            env={"TERM": "xterm", "XDG_STATE_HOME": str(cli.folder / "mine"), **env})
        self.terminal = terminal
        self.seen = ""
        self.wait(">>> ")

    def wait(self, text):
        """What came up to and with `text`."""
        end = time.monotonic() + GUARD_S
        while text not in self.seen:
            assert select.select([self.master], [], [], end - time.monotonic())[0], f"no {text!r} in {self.seen!r}"
            self.seen += os.read(self.master, 65536).decode(errors="replace")
        at = self.seen.index(text) + len(text)
        answer, self.seen = self.seen[:at], self.seen[at:]
        return answer.replace("\r\n", "\n")

    def type(self, text, wait=">>> "):
        os.write(self.master, text.encode())
        return re.sub(r"\x1b\[\?2004[hl]\r?", "", self.wait(wait))

    def leave(self, keys="\x04"):
        os.write(self.master, keys.encode())
        out = b""
        while self.process.poll() is None:  # what it prints has to be read
            if select.select([self.master], [], [], 0.1)[0]:
                out += os.read(self.master, 65536)
        after = termios.tcgetattr(self.terminal)
        os.close(self.terminal)
        os.close(self.master)
        assert after == self.before  # the shell gets its terminal back as it was
        return self.process.returncode, out.decode()


def test_a_person_types(cli):
    person = Person(cli, "--out", "results")
    assert person.type("6 * 7\n").split("\n")[-2:] == ["42", ">>> "]
    # a block, and an empty line
    assert "... " in person.type("def f(n):\n", "... ")
    person.type("    return n + 1\n", "... ")
    person.type("\n")
    assert "\n8\n" in person.type("f(7)\n")
    # Ctrl-C empties the line, also in the middle of a block
    person.type("if True:\n", "... ")
    assert "SyntaxError" not in person.type("    1 +\x03")
    # and stops code that runs; what it made stays
    person.type("import time; x = 5; print('runs'); time.sleep(1000)\n", "runs\r\n")
    stopped = person.type("\x03")
    assert "KeyboardInterrupt" in stopped and "constrictor:" not in stopped
    assert "\n5\n" in person.type("x\n")
    # the code asks
    person.type("name = input('Name? ')\n", "Name? ")
    person.type("Ada\n")
    assert "\n'Ada'\n" in person.type("name\n")
    # a step back
    person.type("x = 6\n")
    person.type(":undo\n")
    assert "\n5\n" in person.type("x\n")
    # a paste is one text, empty lines and all
    assert "\n3\n" in person.type(f"{PASTE}def g():\n    a = 1\n\n    return a + 2\ng(){PASTED}\n")
    # the line before, again
    assert "\n3\n" in person.type("g()\n")
    assert "\n3\n" in person.type(UP + "\n")
    # a picture is saved, and where is said
    assert person.type(f"{PASTE}{PICTURE}{PASTED}\n").count("saved results/image-1.png") == 1
    assert (cli.folder / "results" / "image-1.png").stat().st_size == 70
    assert ":undo" in person.type(":help\n") and "no such command" in person.type(":what\n")
    assert person.leave()[0] == 0
    history = cli.folder / "mine" / "constrictor" / "repl_history"
    assert "6 * 7" in history.read_text() and history.stat().st_mode & 0o777 == 0o600
    again = Person(cli)
    again.type("\x126 * 7\r", "42\r\n")  # searched backwards in the history of the first
    assert again.leave("sys.exit()\n")[0] == 0


KEEP = "import signal; signal.signal(2, signal.SIG_IGN); print('on')\nwhile True: pass\n"


def test_a_box_that_ends_is_said_and_the_next_line_has_a_new_one(cli):
    person = Person(cli)
    person.type(f"{PASTE}{KEEP}{PASTED}\n", "on\r\n")
    person.type("\x03", "^C")
    assert "the box has ended" in person.type("\x03", "starts a new one")
    person.type("1 + 1\n", "\r2\r\n")
    status, out = person.leave("import sys; sys.exit(7)\n")
    assert status == 7, out


def test_a_signal_ends_it_and_the_terminal_is_as_before(cli):
    person = Person(cli)
    person.process.send_signal(signal.SIGTERM)
    assert person.leave("")[0] == 128 + signal.SIGTERM


LINES = """x = 6
x * 7
def f():
    a = 1

    return a
f()
if x: print('yes')
else: print('no')
%%bash
echo from $0
echo twice

for i in range(2):
    print(i)
'''a text
of two lines'''
!echo shell
"""


def test_lines_of_a_pipe_run_as_cells(cli):
    done = cli.call("repl", input=LINES.encode())
    assert done.out == "42\n1\nyes\nfrom bash\ntwice\n0\n1\n'a text\\nof two lines'\nshell\n", done
    assert (done.status, done.err) == (0, "")


WRONG = b"""1/0
2
:undo 3
:undo 2
:undo
:undo 99
input()
x = '\xff'
:undo 2000
:what
x = 1
import os; os._exit(3)
x
for i in range(2):
print(i)
"""


def test_what_goes_wrong_is_said_and_the_next_line_runs(cli):
    done = cli.call("repl", input=WRONG + b"(\n")
    assert (done.status, done.out.splitlines()[-1]) == (1, "1"), done
    at = 0
    for word in ("ZeroDivisionError", "can be undone: 2", "can be undone: 0", "can be undone: 0", "EOFError", "stdin had the code", "is not UTF-8",
                 "as it was before run", "IndentationError", "SyntaxError"):  # fmt: skip
        at = done.err.index(word, at) + len(word)
    assert "from 1 to 1000" in done.out and "no such command" in done.out, done


def test_it_ends_with_the_status_of_the_last_run(cli):
    assert cli.call("repl", input=b"1/0\n2\n").status == 0
    done = cli.call("repl", input=b"2\n1/0\nexit()\n3\n")
    assert (done.status, done.out) == (1, "2\n"), done


def test_files_variables_and_options_of_run_work(cli):
    (cli.folder / "helper.py").write_text("answer = 42\n")
    done = cli.call("repl", "--with", ".", "--env-var", "A=b", "--seed", "7", "--wall", "1s",
                    input=b"import helper, os; helper.answer\nos.environ['A']\nwhile True: pass\n\nhelper.answer\n")
    assert done.out == "42\n'b'\n42\n" and "timeout_wall" in done.err, done
    left = cli.call("repl", input=b"open('a.txt', 'w').write('x')\n")
    assert left.out == "1\n" and "the code left 1 file; save it with --out DIR" in left.err, left
    for bad, word in ((["x"], "takes no argument"), (["--json"], "--json"), (["--env", "nowhere"], "nowhere")):
        done = cli.call("repl", *bad)
        assert done.status not in (0, 1) and word in done.err, done


def test_an_endless_paste_of_an_open_bracket_takes_linear_time(cli):
    size = 60000
    done = cli.call("repl", input=b"len([\n" + b"1,\n" * size + b"])\n")
    assert done.out == f"{size}\n", done


def test_a_reader_that_leaves_ends_it(cli):
    process = cli.start("repl", stdin=subprocess.PIPE)
    process.stdout.close()
    process.stdin.write(b"print(1)\n" * 1000)
    process.stdin.close()
    assert process.wait(GUARD_S) >= 0
