# SPDX-License-Identifier: Apache-2.0
"""line_editor: reads what a person types into `constrictor repl`, and sends it to the gate cell by cell.

A process of its own (src/cli/editor.c) with the rights of the caller: the gate that runs the code may open neither
the terminal's line settings nor the history file. Its descriptor 3 leads to the gate, which sends one byte when it
wants a cell and gets a kind, a length and a text.

SECURITY: what is typed or pasted here may be hostile code, so this process looks at its brackets, quotes and
indentation only. It never compiles it: that happens in the box.
"""

import os
import re
import signal
import socket
import struct
import sys

RUN, UNDO, END = 1, 2, 3  # as in src/cli/editor.h
HISTORY_LINES = 2000
UNDO_MAX = 1000

HELP = """\
Type Python. A block that is indented runs after an empty line, and the value of a last expression is printed.
  Ctrl-C          stops the code that runs, or empties the line
  :undo [N]       goes back to before the last N runs, files included; %undo is the same
  :help           shows this
  Ctrl-D, exit    ends, and with it the box, its variables and its files
The lines of IPython work: !cmd, %time, %timeit, %%bash, name?, %who; %lsmagic lists them.
Start with --out DIR to save pictures and files, with --env NAME for the packages of an environment.
"""

# A line of Python in pieces that matter to where a cell ends.
PIECES = re.compile(
    r"""(?sx) (?P<comment> \#.* ) | (?P<quote> \"{3} | '{3} )
    | (?P<text> \"(?:\\.|[^\"\\])*\" | '(?:\\.|[^'\\])*' )
    | (?P<open> [(\[{] ) | (?P<close> [)\]}] ) | (?P<joined> \\\Z ) | (?P<space> \s+ ) | (?P<other> \w+ | . )"""
)
INSIDE = {quote: re.compile(rf"(?s)(?:\\.|(?!{quote}).)*{quote}") for quote in ('"""', "'''")}
BLOCK = re.compile(r"(async\s+)?(if|for|while|try|with|def|class|else|elif|except|finally)\b")
CONTINUES = re.compile(r"(else|elif|except|finally|case)\b|[)\]}]")
LEAVE = re.compile(r"(exit|quit)(\s*\(\s*\))?|sys\.exit\s*\(\s*\)|:q(uit)?|:exit")
COMMAND = re.compile(r"(?::|%(?=undo\b))(\w+)\s*(\S*)$")


class Cell:
    """Lines up to where a cell ends. It is a guess from outside, which the box corrects with a SyntaxError."""

    def __init__(self):
        self.lines = []
        self.depth, self.quote, self.is_joined = 0, "", False
        self.is_block = self.has_body = False
        self.last = ""  # piece of the last statement

    def add(self, text):
        for line in text.split("\n"):
            self.lines.append(line)
            self.scan(line)

    def scan(self, line):
        if not (self.is_open() or not line.strip() or line.lstrip().startswith("#")):
            is_indented = line[0] in " \t"
            self.is_block = is_indented or line[0] == "@" or bool(BLOCK.match(line))
            self.has_body = is_indented
        self.is_joined = False
        if self.is_cell_magic() or (len(self.lines) == 1 and line.lstrip()[:1] in ("!", "%")):
            return  # not Python
        at = 0
        while at < len(line):
            piece = INSIDE[self.quote].match(line, at) if self.quote else PIECES.match(line, at)
            if not piece:
                return  # a text goes on in the next line
            at = piece.end()
            self.take(piece)
        self.has_body |= self.is_block and self.last != ":" and line[:1] != "@"

    def take(self, piece):
        kind = "text" if self.quote else piece.lastgroup
        self.quote = piece[0] if kind == "quote" else ""
        self.depth = max(0, self.depth + (kind == "open") - (kind == "close"))
        self.is_joined = kind == "joined"
        if kind not in ("comment", "space"):
            self.last = piece[0]

    def is_open(self):
        """Whether the last line is the beginning of a line only."""
        return bool(self.quote or self.depth or self.is_joined)

    def awaits_block(self):
        """Whether an empty line has to follow."""
        return self.is_block or self.is_cell_magic() or (self.last == ":" and not self.is_open())

    def is_cell_magic(self):
        return self.lines[0].startswith("%%")

    def text(self):
        return "\n".join(self.lines)


class Terminal:
    """A person: prompts, line editing, history."""

    def __init__(self):
        self.history, self.known = None, 0
        try:
            import readline
        except ImportError:
            readline = None  # the terminal's own editing remains
        self.readline = readline
        if readline:
            readline.parse_and_bind("set enable-bracketed-paste on")  # a paste is one text
            readline.parse_and_bind('"\\t": "    "')
            self.open_history()

    def open_history(self):
        home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
        folder = os.path.join(home, "constrictor")
        try:
            if not os.path.isabs(folder):
                return
            os.makedirs(folder, 0o700, exist_ok=True)
            self.history = os.path.join(folder, "repl_history")
            os.close(os.open(self.history, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            self.readline.read_history_file(self.history)
        except OSError:
            self.history = None  # a session without history is better than none
        self.known = self.readline.get_current_history_length()
        self.readline.set_history_length(HISTORY_LINES)

    def save_history(self):
        new = self.readline.get_current_history_length() - self.known if self.history else 0
        try:
            if new > 0 and hasattr(self.readline, "append_history_file"):
                self.readline.append_history_file(new, self.history)
            elif new > 0:
                self.readline.write_history_file(self.history)
        except OSError:
            pass

    def line(self, prompt):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return input(prompt)
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    def cell(self):
        """The next cell; None at the end."""
        cell = Cell()
        while True:
            try:
                line = self.line("... " if cell.lines else ">>> ")
            except KeyboardInterrupt:
                cell = Cell()
                print()
                continue
            except EOFError:
                print()
                return None
            cell.add(line)
            ends = not line.strip() or line.endswith("\n")  # or a paste of whole lines
            if not cell.is_open() and (ends or not cell.awaits_block()):
                return cell.text()


class Lines:
    """A file or a pipe: no prompts. A block ends where its indentation ends, so that functions may have empty lines."""

    def __init__(self):
        self.ahead = None

    def cell(self):
        cell = Cell()
        while True:
            line, self.ahead = sys.stdin.readline() if self.ahead is None else self.ahead, None
            if not line:
                return cell.text() if cell.lines else None
            is_inside = not line.strip() or line[0] in " \t#" or CONTINUES.match(line)
            if cell.lines and not cell.is_open() and cell.has_body and not is_inside and not cell.is_cell_magic():
                self.ahead = line
                return cell.text()
            cell.add(line[:-1] if line.endswith("\n") else line)
            if not cell.is_open() and (not cell.awaits_block() or (cell.is_cell_magic() and not line.strip())):
                return cell.text()

    def save_history(self):
        pass


def send(gate, kind, text=""):
    data = text.encode("utf-8", "surrogateescape")
    gate.sendall(struct.pack("=II", kind, len(data)) + data)


def do_command(gate, word, value):
    """A line that is for us. True: it was sent to the gate."""
    if word == "undo" and (not value or (value.isdecimal() and 0 < int(value) <= UNDO_MAX)):
        send(gate, UNDO, value or "1")
        return True
    if word == "undo":
        print(f":undo takes the number of runs, from 1 to {UNDO_MAX}")
    elif word == "help":
        print(HELP, end="", flush=True)
    else:
        print("there is no such command; :help shows those that there are")
    return False


def serve(gate, source):
    while gate.recv(1):
        sent = False
        while not sent:
            text = source.cell()
            if text is None or LEAVE.fullmatch(text.strip()):
                return
            command = COMMAND.match(text.strip())
            if command:
                sent = do_command(gate, *command.groups())
            elif text.strip():
                send(gate, RUN, text)
                sent = True


def main():
    os.umask(0o077)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout.reconfigure(line_buffering=True)
    sys.stdin.reconfigure(errors="surrogateescape")
    gate = socket.socket(fileno=3)
    source = Terminal() if os.isatty(0) and os.isatty(1) else Lines()
    try:
        serve(gate, source)
        send(gate, END)
    except OSError:
        pass  # the gate is gone
    finally:
        source.save_history()


if __name__ == "__main__":
    main()
