# SPDX-License-Identifier: Apache-2.0
"""requirement: reads one requirement, strictly as PEP 508 defines it: the only such parser in a box.

In the user process of an installing box, before any resolver sees the text. SECURITY: pip and uv read
options, paths, other files and environment variables out of requirement files. So a requirement is taken
apart here and written anew from its parts: a name, extras, versions, a marker, and a URL only where URLs are
allowed. Everything else is refused with the reason.

The package `packaging` would not do: with uv an interpreter needs no pip, and so may have no copy of it, and
copies in older pips accept versions and specifiers that are not in the standards.
"""

import re

from failure import Failure, clean
from version import OPERATORS, check_clause

LENGTH_MAX = 400            # characters of one requirement
COUNT_MAX = 100             # requirements of one request
CLAUSES_MAX = 20
EXTRAS_MAX = 20
DEPTH_MAX = 10              # parentheses in a marker
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
WANTED = re.compile(r"[A-Za-z0-9.*+!_-]+", re.ASCII)
URL = re.compile(r"https://[A-Za-z0-9.-]+(?::\d{1,5})?/[A-Za-z0-9._~/%+=&#-]*", re.ASCII)
STRING = re.compile(r"'([^'\"\\]*)'|\"([^'\"\\]*)\"")
WORD = re.compile(r"[a-z_]+", re.ASCII)
VARIABLES = frozenset("""python_version python_full_version os_name sys_platform platform_release
    platform_system platform_version platform_machine platform_python_implementation
    implementation_name implementation_version extra""".split())
SCHEMES = re.compile(r"(?:git|hg|svn|bzr)\+|[a-z]{2,10}://|file:", re.IGNORECASE)


def normal(name):
    """The spelling of a name that indexes use."""
    return re.sub("[-_.]+", "-", name).lower()


class Requirement:
    def __init__(self, name, extras, clauses, url, marker):
        self.name, self.key = name, normal(name)
        self.extras, self.clauses, self.url, self.marker = extras, clauses, url, marker

    def __str__(self):
        """For a requirements file: written from the parts, so that it contains nothing else."""
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        wanted = f" @ {self.url}" if self.url else ",".join(map("".join, self.clauses))
        return f"{self.name}{extras}{wanted}" + (f" ; {self.marker}" if self.marker else "")


class Reader:
    """Goes through a text from left to right."""

    def __init__(self, text, allow_urls):
        self.text, self.at, self.allow_urls = text, 0, allow_urls

    def fail(self, reason, hint=None):
        raise Failure("bad_requirement", f"{clean(self.text, LENGTH_MAX)!r} is not a requirement: "
                      f"{reason}", clean(self.text, LENGTH_MAX), hint or
                      'write a name with or without versions, such as "numpy", "pandas[excel]>=2" or '
                      '"requests>=2.28,<3"')

    def spaces(self):
        while self.text[self.at:self.at + 1] == " ":
            self.at += 1

    def take(self, pattern):
        """Takes a match at this point and the spaces after it, or returns None."""
        found = pattern.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        self.spaces()
        return found

    def sign(self, *signs):
        for sign in signs:
            if self.text.startswith(sign, self.at):
                self.at += len(sign)
                self.spaces()
                return sign
        return None

    def rest(self):
        return clean(self.text[self.at:][:40], 40)

    # ---- The parts ------------------------------------------------------------------------------

    def name(self):
        rest = self.text[self.at:]
        if rest.startswith("-"):
            self.fail(f"{clean(rest.split(' ')[0], 40)!r} is an option, and options are not accepted",
                      "the server sets indexes, constraints and the like")
        if SCHEMES.match(rest):
            self.fail("it is an address", "write \"name @ https://...\" where the server allows "
                      "addresses; else ask for the package by its name")
        if rest[:1] in ("/", ".", "~"):
            self.fail("it is a path", "ask for packages by name; local wheels belong in the server's "
                      "wheelhouse folder")
        found = self.take(NAME)
        if found is None:
            self.fail(f"a name must begin with a letter or a digit, not with {rest[:1]!r}")
        if self.text[self.at:self.at + 1] in ("/", ":"):
            self.fail("it is a path or an address", "ask for packages by name")
        return found.group()

    def extras(self):
        names = []
        if not self.sign("["):
            return names
        while not self.sign("]"):
            if names and not self.sign(","):
                self.fail(f"extras are separated by commas and end with ']', not {self.rest()!r}")
            found = self.take(NAME)
            if found is None or len(names) == EXTRAS_MAX:
                self.fail(f"{self.rest()!r} is not the name of an extra")
            names.append(normal(found.group()))
        return names

    def clause(self):
        operator = self.sign(*OPERATORS)
        if operator is None:
            if self.text.startswith("=", self.at):
                self.fail("a version is compared with '==', not with '='")
            return None
        found = self.take(WANTED)
        wanted = found.group() if found else ""
        try:
            check_clause(operator, wanted)
        except ValueError:
            self.fail(f"{operator}{wanted or self.rest()} does not name a version")
        return operator, wanted

    def clauses(self):
        inside, found = self.sign("("), []
        while True:
            clause = self.clause()
            if clause is None:
                if found and not inside:
                    self.fail(f"a comma has to be followed by another version, not by {self.rest()!r}")
                break
            found.append(clause)
            if len(found) > CLAUSES_MAX:
                self.fail(f"more than {CLAUSES_MAX} versions")
            if not self.sign(","):
                break
        if inside and not self.sign(")"):
            self.fail(f"')' is missing at {self.rest()!r}")
        return found

    def url(self):
        if not self.allow_urls:
            self.fail("packages by address are not allowed on this server",
                      "ask for the package by its name and version")
        found = self.take(URL)
        path = found.group().partition("#")[0] if found else ""
        if not path.endswith(".whl") or "/../" in path:
            self.fail("an address has to be https://... and end with .whl")
        return found.group()

    # ---- Markers --------------------------------------------------------------------------------

    def operand(self):
        found = self.take(STRING)
        if found is not None:
            value = found.group(1) if found.group(1) is not None else found.group(2)
            return f"'{value}'", False
        found = self.take(WORD)
        if found is None or found.group() not in VARIABLES:
            what = found.group() if found else self.rest()
            self.fail(f"a marker such as python_version < '3.12' must follow ';', not {what!r}",
                      "write one package per requirement; shell commands are never run")
        return found.group(), True

    def comparison(self, depth):
        if self.sign("("):
            if depth == DEPTH_MAX:
                self.fail("the marker is nested too deeply")
            inner = self.marker(depth + 1)
            if not self.sign(")"):
                self.fail(f"')' is missing at {self.rest()!r}")
            return f"({inner})"
        left, left_varies = self.operand()
        operator = self.sign(*OPERATORS, "not in ", "in ")
        if operator is None:
            self.fail(f"{self.rest()!r} compares nothing: an operator is missing")
        right, right_varies = self.operand()
        if left_varies == right_varies:
            self.fail("a marker compares a variable with a string")
        return f"{left} {operator.strip()} {right}"

    def marker(self, depth=0):
        text = self.comparison(depth)
        while True:
            word = self.sign("and ", "or ")
            if word is None:
                return text
            text = f"{text} {word.strip()} {self.comparison(depth)}"

    # ---- The whole ------------------------------------------------------------------------------

    def one(self):
        name, extras = self.name(), self.extras()
        if self.sign("@"):
            url, clauses = self.url(), []
        else:
            url, clauses = None, self.clauses()
        marker = self.marker() if self.sign(";") else None
        return Requirement(name, extras, clauses, url, marker)


def look_over(text):
    """Refuses what no requirement can contain, with the reason."""
    if type(text) is not str:
        raise Failure("bad_requirement", "a requirement is a string", clean(repr(text), 100))
    reader = Reader(text, False)
    if len(text) > LENGTH_MAX:
        raise Failure("bad_requirement", f"a requirement of {len(text)} characters is too long: at most "
                      f"{LENGTH_MAX}", clean(text[:60], 60))
    for sign, what in (("\n", "a line break"), ("\r", "a line break"), ("\0", "a NUL character"),
                       ("\\", "a backslash"), ("$", "'$'"), ("`", "'`'"), ("|", "'|'"),
                       ("&", None if "@" in text else "'&'")):
        if what and sign in text:
            reader.fail(f"it contains {what}", "give several requirements as a list")
    if not text.isascii() or not text.isprintable():
        reader.fail("it contains characters other than printable ASCII",
                    "package names consist of A-Z a-z 0-9 . _ -")
    if not text.strip():
        reader.fail("it is empty")


def parse(text, allow_urls=False):
    """One requirement; raises Failure."""
    look_over(text)
    reader = Reader(text, allow_urls)
    reader.spaces()
    requirement = reader.one()
    if reader.at < len(text):
        reader.fail(f"{reader.rest()!r} is left over" + (
            ": options are not accepted" if text[reader.at] == "-" else ""))
    return requirement


def parse_all(texts, allow_urls=False):
    if type(texts) is not list:
        raise Failure("bad_requirement", "requirements are a list of strings")
    if len(texts) > COUNT_MAX:
        raise Failure("bad_requirement", f"{len(texts)} requirements are too many: at most {COUNT_MAX}")
    return [parse(text, allow_urls) for text in texts]
