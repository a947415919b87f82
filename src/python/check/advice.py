# SPDX-License-Identifier: Apache-2.0
"""advice: what a check says about single statements: calls, imports, handlers, loops.

Functions that take the Walk of walk.py and a node, and report a violation of the policy or give
advice. Used in the user process of a box; the source is not executed.
"""

import _ast

from base import __builtins__           # first: functions look builtins up there
from base import Box, clip
from policy import covers

NAME_MAX = 100              # characters of a name in an answer
Name, Constant, Attribute, Call = _ast.Name, _ast.Constant, _ast.Attribute, _ast.Call
# Values that cannot be called: the compiler warns about such a call.
LITERALS = frozenset((Constant, _ast.Tuple, _ast.List, _ast.Dict, _ast.Set, _ast.ListComp,
                      _ast.SetComp, _ast.DictComp, _ast.GeneratorExp, _ast.JoinedStr,
                      _ast.FormattedValue, _ast.Lambda))
MUTABLE = frozenset((_ast.List, _ast.Dict, _ast.Set, _ast.ListComp, _ast.SetComp, _ast.DictComp))
MAKERS = frozenset(("list", "dict", "set", "bytearray", "defaultdict", "deque", "Counter"))
# Functions and methods whose calls are checked.
NOTABLE = frozenset(("eval", "exec", "input", "open", "__import__", "import_module", "exit", "quit",
                     "_exit", "write_text", "write_bytes", "system", "popen"))
ENDS = frozenset(("exit", "quit", "_exit"))
# Modules that need a network.
NETWORK = frozenset("""socket ssl requests httpx urllib3 aiohttp websocket websockets smtplib ftplib
    imaplib poplib telnetlib nntplib xmlrpc paramiko grpc pymongo psycopg2 redis urllib.request
    http.client http.server""".split())
WRITES = frozenset("wax+")


# ---- Imports ------------------------------------------------------------------------------------

def judge_import(walk, node, module, names):
    policy = walk.policy
    if policy.judges:
        for target in policy.refused(module, names):
            refuse_import(walk, node, target)
    if not policy.network and (module in NETWORK or covers(NETWORK, module) or any(
            [f"{module}.{name}" in NETWORK for name in names])):
        walk.advise("network-off", node, f"'{clip(module, NAME_MAX)}' needs a network, which "
                    "this code does not have: its connections will fail")


def refuse_import(walk, node, target):
    target = clip(target, NAME_MAX)
    if walk.soft_imports:
        # The code handles the error and can go on without the module, so it is not refused.
        walk.advise("import-denied", node, f"Import '{target}' is not allowed and will raise an "
                    f"ImportError, which the code handles; {walk.policy.hint(target)}")
    else:
        walk.violate("import", target, node, f"Import '{target}' is not allowed",
                     walk.policy.hint(target))


def first_text(node):
    """The first argument, if it is a constant string; else None."""
    first = node.args[0] if node.args else None
    return first.value if type(first) is Constant and type(first.value) is str else None


# ---- Calls --------------------------------------------------------------------------------------

def judge_call(walk, node, name):
    plain, policy = type(node.func) is Name, walk.policy
    if plain and name in policy.denied_calls:
        walk.violate("call", name, node, f"Function '{name}' is not allowed",
                     "the policy denies it by name: do without it")
    if name in ("__import__", "import_module"):
        target = first_text(node)
        if target and not target.startswith("."):
            judge_import(walk, node, target, ())
    elif name in ENDS:
        walk.leave()
    elif plain and name in ("eval", "exec"):
        walk.advise("eval", node, f"{name}() runs code that this check cannot see; "
                    "to read plain values use ast.literal_eval()")
    elif plain and name == "input":
        walk.advise("input", node, "input() reads stdin: pass what it should read with the run, or it "
                    "raises EOFError")
    elif plain and name == "open":
        judge_path(walk, node, first_text(node), mode_of(node))
    elif name in ("write_text", "write_bytes") and not plain:
        made = node.func.value
        if type(made) is Call:
            judge_path(walk, node, first_text(made), "w")


def mode_of(node):
    mode = node.args[1] if len(node.args) > 1 else None
    for item in node.keywords:
        if item.arg == "mode":
            mode = item.value
    return mode.value if type(mode) is Constant and type(mode.value) is str else "r"


def judge_path(walk, node, path, mode):
    """Only absolute, constant paths: other paths are below the scratch folder, or unknown."""
    if path and path.startswith("/") and not WRITES.isdisjoint(mode) and \
            not path.startswith((*Box.folders, "/dev/")):
        walk.advise("write-outside", node, f"'{clip(path, NAME_MAX)}' cannot be written: write "
                    f"below {Box.scratch}, the working directory, or /tmp")


# ---- Definitions, handlers, loops ---------------------------------------------------------------

def judge_default(walk, node, value):
    kind = type(value)
    if kind in MUTABLE or (kind is Call and type(value.func) is Name and value.func.id in MAKERS):
        walk.advise("mutable-default", value, f"a default value of {clip(node.name, NAME_MAX)}() is "
                    "created once and shared by all calls: use None and create it in the function")


def judge_handlers(walk, node):
    last = node.handlers[-1]
    for handler in node.handlers:
        if handler.type is None:
            walk.doubt |= handler is not last
            if type(handler.body[-1]) is not _ast.Raise:
                walk.advise("bare-except", handler, "a bare except also catches KeyboardInterrupt "
                            "and SystemExit: write 'except Exception'")


def judge_loop(walk, node):
    walk.advise("endless-loop", node, "this loop has no break, return or raise: only an error or "
                "the time limit ends it")
