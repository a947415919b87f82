# SPDX-License-Identifier: Apache-2.0
"""look: what a page shows of a session: its variables, completions, signatures. It changes nothing.

Called by runner.handle() in the user process of a box, when a run's meta has "look". That process forks a
copy, which looks and answers through a pipe, and ends it when it takes too long. So nothing that a repr or a
property does stays: not in the variables, not in the history. The copy also cannot write files, start
processes or threads, or use much memory.

  variables  names, types and shapes first, without calling any code of the session. Then sizes and
             previews, which call repr; each has REPR_S.
  complete   names after the cursor. It does not call properties, __getattr__ and __dir__ that code of the
             session has defined; it calls those of libraries, as for the columns of a table.
  inspect    signature and docstring of the name at the cursor, found in the same way.
  tree       checkpoints and forks.
  digest     what tells whether variables and files of two sessions differ: marks.py.
"""

import builtins
import gc
import keyword
import posix
import re
import resource
import sys
from _signal import SIG_IGN, SIGALRM, SIGINT, SIGKILL, SIGPROF, SIGTERM, SIGVTALRM
from _signal import ITIMER_REAL, setitimer, signal
from itertools import islice
from select import POLLIN, poll
from time import monotonic

from _constrictor import public
from base import __builtins__           # first: functions look builtins up there
from base import Box, clip, is_own_file, need, to_json
from variables import DATA, GROWING, NAME_MAX, PLAIN, SIZED, is_variable, module_of, shape_of, type_of

LOOK_S = 2.5                # until the copy is ended
WORK_S = 1.5                # what it may use for previews, and for one completion
REPR_S = 0.2                # for one value
ROOM = 64 << 20             # address space that it may add
LENGTH = 8                  # bytes of the length before an answer
ANSWER_MAX = 1 << 20
CHUNK = 1 << 16
POLL_MS = 50
LISTED_MAX = 500            # variables and matches
PREVIEW_MAX = 200           # characters
WINDOW = 1 << 16            # characters before the cursor that are read
DOC_MAX = 8 << 10
SIGNATURE_MAX = 2 << 10
PATH = re.compile(r"([^\W\d]\w*(?:\s*\.\s*[^\W\d]\w*)*)(\s*\.\s*)?$")
KEY = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*)\[\s*(['\"])([^'\"\\\n]*)$")
IMPORT = re.compile(r"(?:^|[;:\n])\s*(?:import|from)\s+(?:[\w.]+\s*,\s*)*([\w.]*)$")
FROM = re.compile(r"(?:^|[;:\n])\s*from\s+([\w.]+)\s+import\s+\(?\s*(?:\w+\s*,\s*)*(\w*)$")
FUNCTION = type(lambda: 0)
HARMLESS = frozenset((FUNCTION, type(len), type(str.join), type(str.__len__), classmethod, staticmethod,
                      type(dict.__dict__["fromkeys"]), type(FUNCTION.__dict__["__code__"]),
                      type(FUNCTION.__dict__["__globals__"])))
MODULE = type(sys)
MISSING = object()


class TooLong(BaseException):
    """A value took longer than it may."""


class Refused(Exception):
    """The name cannot be looked up without running code of the session."""


# ---- The copy ------------------------------------------------------------------------------------

def on_alarm(number, frame):
    raise TooLong


def confine():
    """Takes from the copy what it does not need."""
    gc.disable()            # a collection would visit, and so copy, all pages
    for number in (SIGINT, SIGTERM, SIGPROF, SIGVTALRM):
        signal(number, SIG_IGN)
    signal(SIGALRM, on_alarm)
    setitimer(ITIMER_REAL, 0)
    empty = posix.open("/dev/null", posix.O_RDWR)
    for fd in range(3):
        posix.dup2(empty, fd)
    fd = posix.open("/proc/self/statm", posix.O_RDONLY)
    room = int(posix.read(fd, 64).split()[0]) * resource.getpagesize() + ROOM
    posix.close(fd)
    for kind, most in ((resource.RLIMIT_AS, room), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NPROC, 0),
                       (resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, int(LOOK_S) + 1)):
        hard = resource.getrlimit(kind)[1]
        if hard == resource.RLIM_INFINITY or hard > most:
            resource.setrlimit(kind, (most, most))


def answer(fd, look):
    """Sends an answer; the last one counts."""
    data = to_json(look, ANSWER_MAX).encode()
    view = memoryview(len(data).to_bytes(LENGTH, "little") + data)
    while view:
        view = view[posix.write(fd, view):]


def be_copy(ends, look, code):
    """Runs in the copy; never returns."""
    try:
        posix.close(ends[0])
        Box.pid = posix.getpid()
        confine()
        sys.settrace(None)
        sys.setprofile(None)
        sys.setrecursionlimit(1000)
        LOOKS[look["what"]](ends[1], look, code)
    except BaseException as exc:
        try:
            answer(ends[1], {"error": f"the look failed: {type(exc).__name__}"})
        except BaseException:
            pass
    finally:
        posix._exit(0)


def in_time(seconds, call, *arguments):
    """The value of call(), or MISSING if it fails or takes too long."""
    try:
        try:
            setitimer(ITIMER_REAL, max(seconds, 0.001), 0.05)    # again: code may catch the first
            return call(*arguments)
        finally:
            setitimer(ITIMER_REAL, 0)
    except BaseException:   # also MemoryError, SystemExit
        return MISSING


# ---- The process of the session ------------------------------------------------------------------

def newest(data):
    """The last whole answer among the bytes, as JSON text, and whether there was one."""
    found, at = None, 0
    while len(data) - at >= LENGTH:
        length = int.from_bytes(data[at:at + LENGTH], "little")
        if len(data) - at - LENGTH < length:
            break
        found = bytes(data[at + LENGTH:at + LENGTH + length])
        at += LENGTH + length
    return found


def read_until(fd, deadline):
    """What the copy sends; False if it was still there at the deadline."""
    data, waiting = bytearray(), poll()
    waiting.register(fd, POLLIN)
    while len(data) <= 4 * ANSWER_MAX:
        left = deadline - monotonic()
        if left <= 0:
            return data, False
        if waiting.poll(min(POLL_MS, left * 1000 + 1)):
            piece = posix.read(fd, CHUNK)
            if not piece:
                return data, True
            data += piece
    return data, False


def end(pid):
    try:
        posix.kill(pid, SIGKILL)
    except OSError:
        pass
    while True:
        try:
            posix.waitpid(pid, 0)
            return
        except InterruptedError:
            pass
        except ChildProcessError:       # code of the session ignores SIGCHLD
            return


def payload(meta, code, heed, ignore):
    """Does one look; returns the payload. heed() and ignore() set the handling of SIGINT."""
    ends, pid, text, done = posix.pipe2(posix.O_CLOEXEC), 0, None, True
    try:
        try:
            look = {**meta["look"], "board": Box.undo.load()}      # a copy does not have its memory
            if Box.on_interrupt is not None:
                heed()
            pid = posix.fork()
            if pid == 0:
                be_copy(ends, look, code)
            posix.close(ends[1])
            ends = ends[:1]
            data, done = read_until(ends[0], monotonic() + LOOK_S)
            text = newest(data)
        except KeyboardInterrupt:
            done = False
        except OSError as exc:
            text = to_json({"error": f"the session could not be copied: {exc.strerror}"}).encode()
    finally:
        ignore()
        if pid:
            end(pid)
        for fd in ends:
            posix.close(fd)
    if text is None:
        text = to_json({"error": "the look ended without an answer" if done else "it took too long"}).encode()
    return b'{"exit_code":0,"phase":"execution","look_whole":%b,"look":%b}' % (
        b"true" if done else b"false", text)


# ---- Variables -----------------------------------------------------------------------------------

def counted(value, kind):
    """The length of a builtin container or text."""
    return [len(value)] if type(kind) is type and (kind in SIZED or kind in GROWING) else None


def size_in_memory(value, kind):
    """Bytes, without the objects that it refers to."""
    size = getattr(value, "nbytes", None) if shape_of(value, kind) is not None else None
    if size is None:
        size = sys.getsizeof(value)
    return int.__index__(size)


def brief(value, kind):
    """A short text of any value."""
    if kind is str or kind is bytes or kind is bytearray:
        return repr(value[:PREVIEW_MAX]) + "…" * (len(value) > PREVIEW_MAX)
    if kind is int and value.bit_length() > 4000:
        return f"an integer of {value.bit_length()} bits"
    if type(kind) is type and (kind in PLAIN or kind is range):
        return repr(value)
    short = need("reprlib", "Repr")()
    short.maxlevel, short.maxdict, short.maxlist, short.maxtuple, short.maxset = 3, 10, 10, 10, 10
    short.maxstring = short.maxother = short.maxlong = PREVIEW_MAX if kind not in SIZED else 60
    if type(kind) is type and (kind in SIZED or kind in GROWING):
        return short.repr(value)
    return repr(value)


def preview_of(value, kind):
    text = brief(value, kind)
    if not isinstance(text, str):
        return None
    return clip(text if len(text) <= PREVIEW_MAX else text[:PREVIEW_MAX] + "…", PREVIEW_MAX + 1)


def fill_in(entry, value, kind):
    if entry["shape"] is None:
        shape = shape_of(value, kind)
        entry["shape"] = shape and [*shape]
    size = size_in_memory(value, kind)
    entry["size"] = size if 0 <= size < 2**53 else None


def listed():
    """[(name, value)] of the variables, and how many more there are."""
    namespace = Box.main.__dict__
    found = [(name, namespace[name]) for name in public(namespace, (Box.inputs, Box.outputs))
             if type(name) is str and is_variable(name, namespace[name])]
    return found[:LISTED_MAX], max(0, len(found) - LISTED_MAX)


def variables(fd, look, code):
    values, omitted = listed()
    entries = [{"name": clip(name, NAME_MAX), "type": type_of(type(value)),
                "shape": counted(value, type(value)), "size": None, "preview": None}
               for name, value in values]
    said = {"variables": entries, "omitted": omitted, "complete": False}
    answer(fd, said)
    until = monotonic() + WORK_S
    said["complete"] = True
    for entry, (_, value) in zip(entries, values):
        kind = type(value)
        for act in fill_in, None:
            left = until - monotonic()
            if left <= 0:
                said["complete"] = False
                break
            if act is None:
                text = in_time(min(REPR_S, left), preview_of, value, kind)
                entry["preview"] = text if type(text) is str else None
            else:
                in_time(min(REPR_S, left), act, entry, value, kind)
    answer(fd, said)


# ---- Names ---------------------------------------------------------------------------------------

def is_of_session(function):
    """Did code of the session define it?"""
    code = getattr(function, "__code__", None) if type(function) is FUNCTION else None
    if code is None:
        return False
    filename = code.co_filename
    return filename in Box.sources or filename.startswith("<") or is_own_file(filename)


def static(value, name):
    """The attribute as it is stored, and whether it is in the value's own dictionary."""
    kind = type(value)
    mro = type.__dict__["__mro__"].__get__
    if issubclass(kind, type):
        for owner in mro(value):
            stored_names = type.__dict__["__dict__"].__get__(owner)
            if name in stored_names:
                return stored_names[name], False
    elif issubclass(kind, MODULE):
        stored_names = MODULE.__dict__["__dict__"].__get__(value)
        if name in stored_names:
            return stored_names[name], True
    else:
        stored_names = own_dictionary(value)
        if stored_names is not None and name in stored_names:
            return stored_names[name], True
    for owner in mro(kind):
        stored_names = type.__dict__["__dict__"].__get__(owner)
        if name in stored_names:
            return stored_names[name], False
    return MISSING, False


def own_dictionary(value):
    """The __dict__ of an instance, without its properties."""
    for owner in type.__dict__["__mro__"].__get__(type(value)):
        stored_names = type.__dict__["__dict__"].__get__(owner).get("__dict__")
        if stored_names is not None:
            if type(stored_names).__name__ != "getset_descriptor":
                return None
            try:
                found = stored_names.__get__(value)
            except Exception:
                return None
            return found if type(found) is dict else None
    return None


def hook_of(value, name):
    """The method of a class that Python calls by itself, such as __getattr__."""
    for owner in type.__dict__["__mro__"].__get__(type(value)):
        stored_names = type.__dict__["__dict__"].__get__(owner)
        if name in stored_names:
            return stored_names[name]
    return None


def getters(stored):
    """The functions that reading such an attribute calls."""
    if type(stored) is property:
        return [stored.fget]
    return [hook_of(stored, "__get__"), getattr(stored, "func", None) if type(stored).__name__ ==
            "cached_property" else None]


def attribute(value, name):
    """value.name, if that runs no code of the session."""
    for hook in ("__getattribute__",) * (not isinstance(value, (type, MODULE))):
        if is_of_session(hook_of(value, hook)):
            raise Refused
    stored, own = static(value, name)
    if own:
        return stored
    if stored is MISSING:
        if is_of_session(hook_of(value, "__getattr__")) or isinstance(value, MODULE):
            raise Refused   # also a module's __getattr__, which imports
    elif type(stored) not in HARMLESS and any([is_of_session(get) for get in getters(stored)]):
        raise Refused
    return getattr(value, name)


def first_name(name):
    namespace = Box.main.__dict__
    if name in namespace:
        return namespace[name]
    stored_names = vars(builtins)
    if name in stored_names:
        return stored_names[name]
    raise Refused


def find(path):
    names = [part.strip() for part in path.split(".")]
    value = first_name(names[0])
    for name in names[1:]:
        value = attribute(value, name)
    return value


def names_of(value):
    """The names of a value's attributes."""
    if not is_of_session(hook_of(value, "__dir__")):
        if not (isinstance(value, MODULE) and "__dir__" in vars(value)):
            return [name for name in dir(value) if type(name) is str]
    found = set(own_dictionary(value) or ()) if not isinstance(value, MODULE) else set(vars(value))
    for owner in type.__dict__["__mro__"].__get__(type(value)):
        found.update(type.__dict__["__dict__"].__get__(owner))
    return sorted([name for name in found if type(name) is str])


def word_for(value):
    if isinstance(value, type):
        return "class"
    if isinstance(value, MODULE):
        return "module"
    if type(value) is property:
        return "property"
    return "function" if callable_kind(value) else "instance"


def callable_kind(value):
    return type(value) in HARMLESS or hook_of(value, "__call__") is not None


# ---- Completion ----------------------------------------------------------------------------------

def text_before(look, code):
    text = code.decode("utf-8", "replace")
    cursor = look.get("cursor")
    cursor = len(text) if type(cursor) is not int else max(0, min(cursor, len(text)))
    return text, cursor


def is_wanted(name, prefix):
    return name.startswith(prefix) and (name[:1] != "_" or prefix[:1] == "_")


def keys_of(value):
    """Keys that code writes as text: of a dictionary, or the columns of a table."""
    if type(value) is dict:
        return [key for key in islice(value, 10 * LISTED_MAX) if type(key) is str]
    module = module_of(type(value))
    if type(module) is str and module.partition(".")[0] in DATA:
        columns = getattr(value, "columns", ())
        return [key for key in islice(iter(columns), 10 * LISTED_MAX) if type(key) is str]
    return []


def found_keys(before):
    match = KEY.search(before)
    if match is None:
        return None
    path, _, prefix = match.groups()
    return [(key, "key") for key in keys_of(find(path)) if key.startswith(prefix)
            and key.isprintable() and not set(key) & set("'\"\\")], len(prefix)


def found_modules(before):
    match = FROM.search(before)
    if match is not None:
        module, prefix = sys.modules.get(match.group(1)), match.group(2)
        names = names_of(module) if type(module) is MODULE else ()
        return [(name, word_for(vars(module).get(name))) for name in names if is_wanted(name, prefix)], len(prefix)
    match = IMPORT.search(before)
    if match is None:
        return None
    whole = match.group(1)
    parent, _, prefix = whole.rpartition(".")
    names = {*sys.modules, *getattr(sys, "stdlib_module_names", ())}
    start = parent + "." if parent else ""
    names = {name[len(start):].partition(".")[0] for name in names
             if type(name) is str and name.startswith(start)}
    return [(name, "module") for name in sorted(names) if name and is_wanted(name, prefix)], len(prefix)


def found_names(before):
    match = PATH.search(before)
    if match is None:
        return [], 0
    path, dot = match.groups()
    if dot or "." in path:
        head, _, prefix = (path, "", "") if dot else path.rpartition(".")
        head, prefix = head.strip(), prefix.strip()
        value = find(head)
        return [(name, word_for(static(value, name)[0])) for name in names_of(value)
                if is_wanted(name, prefix)], len(prefix)
    before_it = before[:len(before) - len(path)]
    if before_it[-1:].isdigit() or before_it.rstrip()[-1:] == ".":
        return [], 0        # 1.5e, f().name
    found = {name: "keyword" for name in keyword.kwlist}
    for namespace in vars(builtins), Box.main.__dict__:
        found.update([(name, word_for(value)) for name, value in list(namespace.items()) if type(name) is str])
    return [(name, found[name]) for name in sorted(found) if is_wanted(name, path)], len(path)


def complete_at(before):
    for source in found_keys, found_modules, found_names:
        try:
            found = source(before)
        except Exception:   # no such name, or one that cannot be looked up
            return [], 0
        if found is not None:
            return found
    return [], 0


def complete(fd, look, code):
    text, cursor = text_before(look, code)
    done = in_time(WORK_S, complete_at, text[max(0, cursor - WINDOW):cursor])
    found, length = done if done is not MISSING else ([], 0)
    start = cursor - length
    matches = [{"text": clip(name, NAME_MAX), "type": word, "start": start, "end": cursor}
               for name, word in found[:LISTED_MAX] if len(name) <= NAME_MAX]
    answer(fd, {"matches": matches, "omitted": len(found) - len(matches), "cursor_start": start,
                "cursor_end": cursor, "complete": done is not MISSING})


# ---- Inspection ----------------------------------------------------------------------------------

def call_around(before):
    """The name of the function in whose parentheses the cursor is, or None."""
    depth = 0
    for at in range(len(before) - 1, -1, -1):
        letter = before[at]
        if letter in ")]}":
            depth += 1
        elif letter in "([{":
            if depth == 0:
                match = PATH.search(before[:at].rstrip()) if letter == "(" else None
                if match is not None and match.group(2) is None and \
                        not keyword.iskeyword(match.group(1)):
                    return match.group(1)
                continue    # an inner list: go on outwards
            depth -= 1
    return None


def paths_at(text, cursor):
    """The names that the cursor may mean, the nearest first."""
    before = text[max(0, cursor - WINDOW):cursor]
    after = re.match(r"\w*", text[cursor:cursor + NAME_MAX]).group()
    match = PATH.search(before + after)
    if match is not None and match.group(2) is None and not keyword.iskeyword(match.group(1)):
        yield match.group(1)
    elif match is not None:
        yield match.group(1)
    around = call_around(before)
    if around is not None:
        yield around


def described(path):
    value = find(path)
    said = {"found": True, "name": clip("".join(path.split()), NAME_MAX), "type": type_of(type(value)),
            "signature": None, "docstring": None}
    name = said["name"].rpartition(".")[2]
    if callable_kind(value) or isinstance(value, type):
        text = in_time(WORK_S / 2, lambda: str(need("inspect", "signature")(value)))
        if type(text) is str:
            said["signature"] = clip(name + text, SIGNATURE_MAX)
    text = in_time(WORK_S / 2, need("inspect", "getdoc"), value)
    if isinstance(text, str):
        said["docstring"] = clip(text, DOC_MAX)
    return said


def inspect(fd, look, code):
    nothing = {"found": False, "name": None, "type": None, "signature": None, "docstring": None}
    for path in paths_at(*text_before(look, code)):
        try:
            answer(fd, described(path))
            return
        except Exception:
            pass            # no such name, or one that cannot be looked up
    answer(fd, nothing)


# ---- The tree, and what differs ------------------------------------------------------------------

def tree(fd, look, code):
    board = look["board"]
    answer(fd, {
        "points": [{key: point[key] for key in ("fork", "serial", "name", "runs", "at", "code")}
                   for point in board["points"]],
        "origins": [{"fork": fork, "from": origin[0], "serial": origin[1], "runs": origin[2]}
                    for fork, origin in board.get("origins", {}).items()]})


def digest(fd, look, code):
    """Texts for variables and files that differ when these differ; also those of a checkpoint."""
    marks, serial = Box.rich.own("marks"), look.get("serial")
    if serial is not None:
        before = marks.read(serial)
        if before is None:
            raise Refused
        files = marks.snapshot.walk(marks.snapshot.root())
        answer(fd, {"now": marks.now(files), "before": before, "complete": True})
        return
    found, until, complete = {}, monotonic() + WORK_S, True
    values = marks.listed()
    for name, value in values[:marks.NAMES_MAX]:
        text = in_time(min(REPR_S, max(until - monotonic(), 0.001)), marks.deep, value)
        complete &= text is not MISSING
        found[clip(name, NAME_MAX)] = text if text is not MISSING else marks.mark(value)
    complete &= len(values) <= marks.NAMES_MAX
    now = {"variables": found, "files": {}}
    answer(fd, {"now": now, "complete": False})
    now["files"] = marks.files()
    answer(fd, {"now": now, "complete": complete})


LOOKS = {"tree": tree, "digest": digest, "variables": variables, "complete": complete, "inspect": inspect}
