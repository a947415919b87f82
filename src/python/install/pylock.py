# SPDX-License-Identifier: Apache-2.0
"""pylock: reads a pylock.toml as uv writes it.

In the user process of an installing box. From CPython 3.11 on tomllib reads it; before that the reader below
knows as much of TOML as such a file needs: tables, arrays of tables, inline tables, arrays, strings, numbers,
booleans, times. Anything else is an error.
"""

import re

BYTES_MAX = 32 << 20
DEPTH_MAX = 8
KEY = re.compile(r'[A-Za-z0-9_-]+|"[^"\\\n]*"')
BASIC = re.compile(r'"((?:[^"\\\n]|\\["\\bfnrt]|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8})*)"')
LITERAL = re.compile(r"'([^'\n]*)'")
ESCAPED = re.compile(r'\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)')
ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
WORD = re.compile(r"[0-9A-Za-z:.+-]+")
BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
HEADER = re.compile(r"(\[\[?)([A-Za-z0-9_.-]+)(\]\]?)[ \t]*(?:#[^\n]*)?(?:\n|$)")


class Reader:
    def __init__(self, text):
        self.text, self.at = text, 0

    def fail(self, what):
        line = self.text.count("\n", 0, self.at) + 1
        raise ValueError(f"line {line} of the lock: {what}")

    def blank(self):
        self.at = BLANK.match(self.text, self.at).end()

    def take(self, pattern):
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def sign(self, sign):
        self.blank()
        if not self.text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        return True

    def key(self):
        self.blank()
        found = self.take(KEY)
        if found is None or not self.sign("="):
            self.fail("a key and '=' were expected")
        return found.group().strip('"')

    def value(self, depth=0):
        self.blank()
        if depth > DEPTH_MAX:
            self.fail("too deep")
        if self.sign("["):
            return self.items(depth, "]", lambda: self.value(depth + 1))
        if self.sign("{"):
            return dict(self.items(depth, "}", lambda: (self.key(), self.value(depth + 1))))
        found = self.take(BASIC)
        if found:
            return ESCAPED.sub(lambda item: ESCAPES.get(item[1]) or chr(int(item[1][1:], 16)), found[1])
        found = self.take(LITERAL)
        if found:
            return found[1]
        found = self.take(WORD)
        if found is None:
            self.fail("a value was expected")
        word = found.group()
        if word in ("true", "false"):
            return word == "true"
        return int(word) if word.isdigit() else word       # a time stays a string

    def items(self, depth, end, read):
        found = []
        while not self.sign(end):
            if found and not self.sign(","):
                self.fail(f"',' or {end!r} was expected")
            if self.sign(end):
                break
            found.append(read())
        return found

    def document(self):
        root = {}
        table = root
        while True:
            self.blank()
            if self.at == len(self.text):
                return root
            found = self.take(HEADER)
            if found is None:
                key = self.key()
                table[key] = self.value()
                continue
            if len(found[1]) != len(found[3]):
                self.fail("a broken header")
            *path, last = found[2].split(".")
            table = root
            for part in path:
                table = table.setdefault(part, {})
                table = table[-1] if type(table) is list else table
            if found[1] == "[[":
                rows = table.setdefault(last, [])
                rows.append({})
                table = rows[-1]
            else:
                table = table.setdefault(last, {})


def loads(text):
    """The whole file as a dict; raises ValueError."""
    if len(text) > BYTES_MAX:
        raise ValueError("the lock is too large")
    try:
        import tomllib
    except ImportError:
        try:
            return Reader(text).document()
        except (TypeError, AttributeError, IndexError):
            raise ValueError("the lock is not a pylock.toml") from None
    return tomllib.loads(text)


def as_text(value):
    """A time as a string: tomllib parses times, the reader above does not."""
    return value if value is None or type(value) is str else value.isoformat()
