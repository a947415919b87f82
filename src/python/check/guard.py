# SPDX-License-Identifier: Apache-2.0
"""guard: refuses imports that the policy of a run does not allow, while the code runs.

policed.py switches it on in the user process of a box, before user code. ADVICE, NOT A WALL: it
shares the interpreter with user code. It catches imports made by habit or by mistake, raises an
ImportError that says what to do instead, and records an event. The kernel's wall does not depend on it.

Only imports by user code itself are judged, by the frame that makes them; a permitted module may
import what it needs. Imports are seen in three functions:
  builtins.__import__       every statement, also for modules that are already loaded
  importlib.import_module   imports by function
  a finder, the first one   all other uses of importlib's machinery
C code imports on behalf of the frame that called it: datetime.strptime() needs _strptime. That is
allowed, except for sensitive modules, which pickle would import for any caller.

A builtin that a policy denies by name still exists, but calling it raises an error, in __main__ only.
"""

import builtins
import sys
from sys import _getframe as getframe, modules

from base import __builtins__           # first: functions look builtins up there
from base import Box, HERE, LINE_MAX, clip, is_own_file
from policy import SENSITIVE

EVENTS_MAX = 100            # different events
FRAMES_MAX = 50             # frames searched for the one that imports
MODULE = type(sys)
real_import = builtins.__import__


class BlockedError(RuntimeError):
    """Code did what its policy does not allow."""


BlockedError.__module__ = "builtins"


class Guard:
    policy = None           # of this run; None: every import is allowed
    events = {}             # (kind, target, line, layer) -> event
    passing = 0             # imports in progress that were judged
    installed = False
    narrow = {}             # name -> Narrow


Guard = Guard()


# ---- Events -------------------------------------------------------------------------------------

def note(kind, target, line, layer, hint):
    """Records a refusal; a repeated one is only counted."""
    key = kind, clip(target, LINE_MAX), line, layer
    event = Guard.events.get(key)
    if event is not None:
        event["count"] += 1
    elif len(Guard.events) < EVENTS_MAX:
        Guard.events[key] = {"kind": kind, "target": key[1], "line": line, "layer": layer,
                             "hint": hint, "count": 1}


def is_user_code(filename):
    return filename in Box.sources or is_own_file(filename)


def user_line(frame):
    """The line in user code that is running, or None."""
    for _ in range(FRAMES_MAX):
        if frame is None:
            return None
        if is_user_code(frame.f_code.co_filename):
            return frame.f_lineno
        frame = frame.f_back
    return None


# ---- The importing frame ------------------------------------------------------------------------

def importer(frame):
    """The frame of user code that imports; None if a library imports. Code in exec() belongs to the
    caller of exec()."""
    for _ in range(FRAMES_MAX):
        if frame is None:
            return None
        filename = frame.f_code.co_filename
        if is_user_code(filename):
            return frame
        if not (filename.startswith("<") and not filename.startswith("<frozen")):
            return None
        frame = frame.f_back
    return None


def refuse(target, frame):
    """Raises the ImportError."""
    policy = Guard.policy
    note("import", target, user_line(frame), "python", policy.hint(target))
    raise ImportError(policy.message(target), name=clip(target, LINE_MAX)) from None


def judge(module, names, frame):
    refused = Guard.policy.refused(module, names)
    if refused:
        refuse(refused[0], frame)


# ---- A package of which only parts are allowed --------------------------------------------------

class Narrow(MODULE):
    """Replaces a package that is not allowed but has allowed modules: `import os.path` binds os, which
    would otherwise be all of os."""

    def __getattr__(self, name):
        if name.startswith("__") or Guard.policy is None:
            real = modules.get(self.__name__)
            if real is not None and name != "__path__":
                return getattr(real, name)
            raise AttributeError(name)
        target = f"{self.__name__}.{name}"
        hint = Guard.policy.hint(target)
        note("import", target, user_line(getframe(1)), "python", hint)
        raise AttributeError(f"'{clip(target, LINE_MAX)}' is not allowed by the policy of this run "
                             f"({Guard.policy.describe()}); {hint}")


def narrow(name):
    """The package with those of its allowed modules that are loaded."""
    if name not in Guard.narrow:
        Guard.narrow[name] = Narrow(name)
    package, prefix = Guard.narrow[name], name + "."
    for entry in Guard.policy.allowed:
        if not entry.startswith(prefix):
            continue
        below = entry[len(prefix):].partition(".")[0]
        full = prefix + below
        if full in modules:
            value = modules[full] if Guard.policy.allows(full) else narrow(full)
            package.__dict__[below] = value
    return package


# ---- The three functions ------------------------------------------------------------------------

def is_from_c(fromlist):
    """Only C code passes an empty list, for its own imports."""
    return type(fromlist) is list and not fromlist


def guarded_import(name, globals=None, locals=None, fromlist=(), level=0):
    policy = Guard.policy
    if policy is None or level != 0 or type(name) is not str:
        return real_import(name, globals, locals, fromlist, level)
    frame = importer(getframe(1))
    if frame is None:
        return real_import(name, globals, locals, fromlist, level)
    if is_from_c(fromlist):
        if name.partition(".")[0] in SENSITIVE and not policy.allows(name):
            refuse(name, frame)
        return pass_on(name, globals, locals, fromlist)
    names = [item for item in fromlist or () if type(item) is str and item != "*"]
    judge(name, names, frame)
    module = pass_on(name, globals, locals, fromlist)
    top = name if names else name.partition(".")[0]
    return module if policy.allows(top) else narrow(top)


def pass_on(name, globals, locals, fromlist):
    Guard.passing += 1
    try:
        return real_import(name, globals, locals, fromlist, 0)
    finally:
        Guard.passing -= 1


class Finder:
    """Finds nothing; refuses what user code may not import through importlib."""

    def find_spec(self, name, path=None, target=None):
        policy = Guard.policy
        if policy is None or Guard.passing:
            return None
        frame, by_machinery = getframe(1), False
        for _ in range(FRAMES_MAX):
            if frame is None:
                return None
            code = frame.f_code
            if is_user_code(code.co_filename):
                break
            machinery = "importlib" in code.co_filename
            if not machinery and not code.co_filename.startswith("<") and \
                    not code.co_filename.startswith(HERE):
                return None             # a library imports it
            by_machinery |= machinery and (code.co_name == "_gcd_import" or
                                           "_bootstrap" not in code.co_filename)
            frame = frame.f_back
        if by_machinery and not policy.allows(name) and not policy.below(name):
            refuse(name, frame)
        return None


def make_import_module(real):
    def import_module(name, package=None):
        """Import a module."""
        if Guard.policy is not None and type(name) is str and not name.startswith("."):
            frame = importer(getframe(1))
            if frame is not None:
                judge(name, (), frame)
        return real(name, package)
    return import_module


def install():
    """Takes effect once; without a policy it allows every import."""
    if Guard.installed:
        return
    Guard.installed = True
    guarded_import.__name__ = guarded_import.__qualname__ = "__import__"
    builtins.__import__ = guarded_import
    sys.meta_path.insert(0, Finder())
    importlib = real_import("importlib")
    importlib.import_module = make_import_module(importlib.import_module)


# ---- Builtins -----------------------------------------------------------------------------------

def refusing(name):
    def refused(*args, **kwargs):
        hint = "the policy denies it by name: do without it"
        note("call", name, user_line(getframe(1)), "python", hint)
        raise BlockedError(f"'{name}' is not allowed by the policy of this run: {hint}") from None
    refused.__name__ = refused.__qualname__ = name
    return refused


def deny_calls(namespace, names):
    """Not __import__, which guards itself: import statements use it."""
    made = dict(vars(builtins))
    made.update([(name, refusing(name)) for name in names if name in made and name != "__import__"])
    namespace["__builtins__"] = made


def begin(policy):
    Guard.policy, Guard.events, Guard.narrow, Guard.passing = policy, {}, {}, 0


def end():
    """Ends the run; returns its events."""
    events = list(Guard.events.values())
    Guard.policy, Guard.events = None, {}
    return events
