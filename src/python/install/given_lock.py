# SPDX-License-Identifier: Apache-2.0
"""given_lock: reads a lock of the caller: a pylock.toml (PEP 751), or a requirements file with hashes.

In the user process of an installing box. Only names, versions and hashes are used: the server decides where files
come from, and compares them with the hashes. An entry without a version or a hash is refused, with its line.
"""

import re

from failure import Failure, clean
from pylock import loads
from requirement import COUNT_MAX, normal, parse

HASH = re.compile(r"--hash[= ]sha256:([0-9a-f]{64})", re.ASCII)
ANY_HASH = re.compile(r"--hash[= ]\S+")
HINT = "write each package as name==version --hash=sha256:..., or give a pylock.toml"


def bad(what, line=None):
    where = f"line {line} of the lock" if line else "the lock"
    raise Failure("bad_requirement", f"{where}: {clean(what, 300)}", hint=HINT)


def logical_lines(text):
    """(number of the first line, text) of lines joined by '\\', without comments."""
    begin, parts = None, []
    for number, line in enumerate(text.splitlines(), 1):
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        begin = begin or number
        parts.append(line[:-1].rstrip() if line.endswith("\\") else line)
        if line.endswith("\\"):
            continue
        joined = " ".join(filter(None, parts))
        if joined:
            yield begin, joined
        begin, parts = None, []
    if parts and any(parts):
        yield begin, " ".join(filter(None, parts))


def of_requirements(text):
    found = []
    for number, line in logical_lines(text):
        hashes = set(HASH.findall(line))
        plain = ANY_HASH.sub("", line).strip()
        if plain.startswith("-"):
            bad(f"{plain.split()[0]} is an option, and options are not accepted", number)
        try:
            wanted = parse(plain)
        except Failure as failure:
            bad(failure.message, number)
        if len(wanted.clauses) != 1 or wanted.clauses[0][0] != "==" or wanted.clauses[0][1].endswith(".*"):
            bad(f"{plain!r} does not name one version with '=='", number)
        if not hashes:
            bad(f"{plain!r} has no sha256 hash", number)
        found.append((wanted, hashes))
    return found


def of_toml(text):
    try:
        packages = loads(text).get("packages")
    except Exception as exc:
        bad(f"it is not TOML: {exc}")
    if type(packages) is not list or not all(type(item) is dict for item in packages):
        bad("it contains no list of packages")
    found = []
    for item in packages:
        name, version = item.get("name"), item.get("version")
        files = [*(item.get("wheels") or ()), item.get("sdist") or {}, item.get("archive") or {}]
        try:
            hashes = {file["hashes"]["sha256"].lower() for file in files if (file.get("hashes") or {}).get("sha256")}
            marker = f" ; {item['marker']}" if item.get("marker") else ""
            wanted = parse(f"{name}=={version}{marker}")
        except (AttributeError, TypeError, KeyError):
            bad(f"the package {name!r} is not described as in PEP 751")
        if not hashes:
            bad(f"the package {name!r} has no file with a sha256 hash")
        found.append((wanted, hashes))
    return found


def read(text):
    """(requirements, {key: hashes that its file may have})."""
    if type(text) is not str:
        bad("it is not a string")
    is_toml = re.search(r"^\s*(?:lock-version\s*=|\[\[?packages)", text, re.MULTILINE)
    found = of_toml(text) if is_toml else of_requirements(text)
    if not found:
        bad("it names no package")
    if len(found) > COUNT_MAX:
        bad(f"it names {len(found)} packages: at most {COUNT_MAX}")
    hashes = {}
    for wanted, allowed in found:
        hashes.setdefault(wanted.key, set()).update(allowed)
    return [wanted for wanted, _ in found], hashes


def check(found, hashes):
    """Raises Failure unless the resolver found exactly what the lock names."""
    for wanted in found:
        allowed = hashes.get(normal(wanted.key))
        if allowed is None:
            raise Failure("conflict", f"{wanted.key} is needed but not in the lock", wanted.key,
                          "create the lock again, with all dependencies")
        if wanted.sha256 not in allowed:
            raise Failure("hash_mismatch", f"no file of {wanted.key} {wanted.version} that fits this Python and "
                          "machine has a hash of the lock", f"{wanted.key}=={wanted.version}",
                          "the lock is for another Python or machine, or the index has other files")
