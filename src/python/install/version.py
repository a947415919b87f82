# SPDX-License-Identifier: Apache-2.0
"""version: reads, compares and matches versions and specifiers (PEP 440).

In the user process of an installing box, for reading requirements and for explaining why no version fits; the
resolver decides which version is used. exec/exec_packages.c uses it for the metadata of scripts.
"""

import re

PATTERN = re.compile(
    r"v?(?:(?P<epoch>\d{1,9})!)?(?P<release>\d{1,18}(?:\.\d{1,18}){0,20})"
    r"(?:[-_.]?(?P<pre>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pre_n>\d{0,18}))?"
    r"(?:-(?P<post_only>\d{1,18})|[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_n>\d{0,18}))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_n>\d{0,18}))?"
    r"(?:\+(?P<local>[a-z0-9]{1,50}(?:[-_.][a-z0-9]{1,50}){0,20}))?", re.ASCII | re.IGNORECASE)
PRE = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}
OPERATORS = "===", "~=", "==", "!=", "<=", ">=", "<", ">"
LAST, FIRST = (1,), (-1,)   # for parts that are missing


class Version:
    """Raises ValueError if the text is not a version."""

    def __init__(self, text):
        found = PATTERN.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"{text!r} is not a version")
        self.text = text.strip()
        self.epoch = int(found["epoch"] or 0)
        self.release = tuple(map(int, found["release"].split(".")))
        pre, dev = found["pre"], found["dev"]
        pre = pre and (PRE.get(pre.lower(), pre.lower()), int(found["pre_n"] or 0))
        post = found["post_only"] or (found["post_n"] or 0 if found["post"] else None)
        self.post = None if post is None else int(post)
        self.is_pre = bool(pre or dev)
        self.dev = int(found["dev_n"] or 0) if dev else None
        self.local = tuple((1, int(part), "") if part.isdigit() else (0, 0, part.lower())
                           for part in re.split("[-_.]", found["local"])) if found["local"] else ()
        if pre:
            pre_key = (0, *pre)
        else:                           # 1.0.dev1 comes before 1.0a1, 1.0 after 1.0rc1
            pre_key = FIRST if dev and self.post is None else LAST
        release = self.release
        while len(release) > 1 and release[-1] == 0:
            release = release[:-1]
        self.public = (self.epoch, release, pre_key, FIRST if self.post is None else (0, self.post),
                       LAST if self.dev is None else (0, self.dev))
        self.key = (self.public, self.local)

    def __eq__(self, other):
        return self.key == other.key

    def __lt__(self, other):
        return self.key < other.key

    def __hash__(self):
        return hash(self.key)

    def begins_with(self, epoch, release):
        padded = self.release + (0,) * (len(release) - len(self.release))
        return self.epoch == epoch and padded[:len(release)] == release


def admits(operator, wanted, version):
    """Does a Version satisfy one clause, such as `>=` `1.2`?"""
    if operator == "===":
        return wanted.lower() == version.text.lower()
    if wanted.endswith(".*"):
        prefix = Version(wanted[:-2])
        return version.begins_with(prefix.epoch, prefix.release) == (operator == "==")
    limit = Version(wanted)
    mine = version.key if limit.local else (version.public, ())
    if operator == "~=":
        return mine >= limit.key and version.begins_with(limit.epoch, limit.release[:-1])
    if operator == "<" and not limit.is_pre and version.is_pre:
        return version.public < limit.public and not version.begins_with(limit.epoch, limit.release)
    if operator == ">" and limit.post is None and version.post is not None:
        return version.public > limit.public and not version.begins_with(limit.epoch, limit.release)
    return {"==": mine == limit.key, "!=": mine != limit.key, "<=": mine <= limit.key,
            ">=": mine >= limit.key, "<": mine < limit.key, ">": mine > limit.key}[operator]


def fits(clauses, version):
    """clauses: [(operator, version text)]. Pre-releases count like any other version."""
    return all(admits(operator, wanted, version) for operator, wanted in clauses)


def check_clause(operator, wanted):
    """Raises ValueError unless the two form a specifier."""
    Version(wanted[:-2] if wanted.endswith(".*") and operator in ("==", "!=") else wanted)
    if operator == "~=" and "." not in wanted:
        raise ValueError(f"'~=' needs a version of two parts or more, not {wanted!r}")


def read_clauses(text):
    """'>=3.9,!=3.9.1' as clauses, for fits(); raises ValueError."""
    clauses = []
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        operator = next((sign for sign in OPERATORS if piece.startswith(sign)), "")
        clauses.append((operator, piece[len(operator):].strip()))
        check_clause(*clauses[-1])
        if not operator:
            raise ValueError(f"{piece!r} begins with no operator")
    return clauses
