# SPDX-License-Identifier: Apache-2.0
"""lint: findings of ruff about a source, if the environment has ruff and the call asks for it.

Called by check.py in the user process of a box; ruff reads the source and does not execute it.
"""

import sys

from base import __builtins__           # first: functions look builtins up there
from base import LINE_MAX, clip, need

ENTRIES_MAX = 100
TIMEOUT_S = 5
ARGUMENTS = ("check --isolated --no-cache --quiet --output-format=json "
             "--stdin-filename code.py -").split()


def find_ruff():
    """Beside the interpreter, where environments have it, or on PATH; None if there is none."""
    which = need("shutil", "which")
    return which("ruff", path=sys.executable.rpartition("/")[0]) or which("ruff")


def lint(source):
    """A list of {code, line, column, message}, or an object with the reason why there is none."""
    program = find_ruff()
    if program is None:
        return {"available": False, "reason": "ruff is not installed in this environment: "
                                              "pip install ruff"}
    try:
        done = need("subprocess", "run")([program, *ARGUMENTS], input=source, capture_output=True,
                                         timeout=TIMEOUT_S)
        found = need("json", "loads")(done.stdout or b"[]")
        return [entry_of(item) for item in found[:ENTRIES_MAX]]
    except Exception as exc:
        return {"available": False, "reason": clip(f"ruff failed: {exc}", LINE_MAX)}


def entry_of(item):
    where = item.get("location") or {}
    return {"code": clip(str(item.get("code") or "syntax"), LINE_MAX), "line": where.get("row"),
            "column": where.get("column"), "message": clip(str(item.get("message")), LINE_MAX)}
