# SPDX-License-Identifier: Apache-2.0
"""marks: what the variables and files of a session were, as short texts that can be compared.

Called by undo.py when it makes a checkpoint (note), and by look.py (deep, files). A mark is made without code of
the session and in microseconds, so that every run can have a checkpoint. It tells less than deep(), which only
the copy of a look may call: a change inside an object that keeps its place, length and shape is not seen.

The marks of a checkpoint are in the file .undo/v7, where 7 is its serial. The folder belongs to user code: what is
read there is believed as little as anything that a box says.
"""

import posix
from itertools import islice
from zlib import crc32

from _constrictor import public
from base import __builtins__           # first: functions look builtins up there
from base import Box, clip, need, quote, scan_json, to_json
from variables import DATA, GROWING, NAME_MAX, PLAIN, TEXTS, is_variable, module_of, shape_of, type_of
import snapshot

NAMES_MAX = 1000            # variables and files that are compared
SAMPLE = 64                 # items of a container, or kilobytes of an array, that a mark reads
FILE_MAX = 1 << 20          # size of the file of marks
STATIC = 1 << 9             # a class without this flag was not made by a class statement
FULL_MAX = 8 << 20          # bytes of a value, or of a file, that deep() and files() read
FUNCTION = type(lambda: 0)


# ---- Values --------------------------------------------------------------------------------------

def shallow(value):
    """A number for a value that is cheap to hash, else its address."""
    kind = type(value)
    if type(kind) is type and (kind in PLAIN or kind in TEXTS and len(value) <= 1 << 16):
        return hash(value)
    return id(value)


def items_of(value, kind):
    if kind is dict:
        return [(shallow(key), shallow(item)) for key, item in islice(value.items(), SAMPLE)]
    return [shallow(item) for item in islice(value, SAMPLE)]


def bytes_of(value, kind):
    """A checksum of a part of an array, or None."""
    module = module_of(kind)
    if type(module) is not str or module.partition(".")[0] not in DATA or kind.__flags__ & STATIC:
        return None
    try:
        data = memoryview(value).cast("B")
        return crc32(data[:SAMPLE << 10]), crc32(data[-(SAMPLE << 10):])
    except Exception:
        return None         # not contiguous, or no buffer


def mark(value):
    kind = type(value)
    if type(kind) is type and (kind in PLAIN or kind in TEXTS):
        said = hash(value) if kind not in TEXTS or len(value) <= 1 << 16 else (len(value), id(value))
    elif type(kind) is type and (kind in GROWING or kind is tuple or kind is frozenset):
        said = len(value), items_of(value, kind)
    else:
        said = id(value), shape_of(value, kind), bytes_of(value, kind)
    return f"{type_of(kind)} {hash(str(said)):x}"


def code_of(function):
    code = function.__code__
    inner = [item for item in code.co_consts if type(item) is not type(code)]
    return code.co_code, code.co_names, repr(inner), repr(function.__defaults__)


class Digest:
    """A file that only keeps a checksum, up to a size."""
    def __init__(self):
        self.sum, self.size = need("hashlib", "blake2b")(digest_size=12), 0

    def write(self, data):
        self.size += len(data)
        if self.size > FULL_MAX:
            raise ValueError("too large")
        self.sum.update(data)
        return len(data)


def pickled(value, fast):
    digest = Digest()
    pickler = need("pickle", "Pickler")(digest, 5)
    pickler.fast = fast     # equal values then have the same text, but cycles never end
    pickler.dump(value)
    return digest.sum.hexdigest()


def deep(value):
    """A text for the whole content. Calls code of the session."""
    kind = type(value)
    if kind is FUNCTION:
        return f"function {crc32(repr(code_of(value)).encode()):x}"
    if isinstance(value, type):
        parts = [(name, code_of(item)) if type(item) is FUNCTION else name for name, item in vars(value).items()]
        return f"type {crc32(repr(parts).encode()):x}"
    if type(kind) is type and kind in (set, frozenset):
        return f"{kind.__name__} {len(value)} {sum([crc32(repr(item).encode()) for item in value]):x}"
    for fast in True, False:
        try:
            return f"{type_of(kind)} {pickled(value, fast)}"
        except Exception:
            pass            # a cycle; or it cannot be pickled
    return mark(value)


def listed():
    namespace = Box.main.__dict__
    names = [name for name in public(namespace, (Box.inputs, Box.outputs)) if type(name) is str]
    return [(name, namespace[name]) for name in names if is_variable(name, namespace[name])]


# ---- Files ---------------------------------------------------------------------------------------

def shown(path):
    return clip(path.decode("utf-8", "backslashreplace"), 4 * NAME_MAX)


def file_marks(entries):
    """Of the entries of a snapshot, or of what snapshot.walk() finds."""
    found = {}
    for path, entry in islice(entries.items(), 2 * NAMES_MAX):
        stat = getattr(entry, "st_size", None)
        kind = entry.kind if stat is None else entry.st_mode & snapshot.FORMAT
        size = entry.signature[1] if stat is None else stat
        mtime = entry.mtime if stat is None else entry.st_mtime_ns
        if kind == snapshot.REGULAR and len(found) < NAMES_MAX:
            found[shown(path)] = f"{size} {mtime}"
    return found


def content_of(path, size):
    digest = need("hashlib", "blake2b")(digest_size=12)
    fd = posix.open(path, posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK)
    try:
        for start in (0, max(0, size - FULL_MAX // 2)):
            left = min(size, FULL_MAX // 2)
            while left > 0:
                data = posix.pread(fd, min(left, 1 << 20), start)
                if not data:
                    break
                digest.update(data)
                start, left = start + len(data), left - len(data)
    finally:
        posix.close(fd)
    return f"{size} {digest.hexdigest()}"


def files():
    """{path: text for the content} of the scratch folder."""
    found = {}
    for path, stat in snapshot.walk(snapshot.root()).items():
        if stat.st_mode & snapshot.FORMAT == snapshot.REGULAR and len(found) < NAMES_MAX:
            try:
                found[shown(path)] = content_of(snapshot.root() + b"/" + path, stat.st_size)
            except OSError:
                found[shown(path)] = f"{stat.st_size} {stat.st_mtime_ns}"
    return found


# ---- Of a checkpoint -----------------------------------------------------------------------------

def path_of(serial):
    return snapshot.store(b"v%d" % serial)


def now(entries):
    return {"variables": {clip(name, NAME_MAX): mark(value) for name, value in listed()[:NAMES_MAX]},
            "files": file_marks(entries)}


def note(serial, entries):
    """Keeps the marks of a new checkpoint. Without them it cannot be compared, and works all the same."""
    try:
        data = to_json(now(entries), FILE_MAX).encode()
        snapshot.make_folder(snapshot.store())
        fd = posix.open(path_of(serial), snapshot.NEW, 0o600)
        try:
            posix.write(fd, data)
        finally:
            posix.close(fd)
    except Exception:
        pass                # no room, or scratch is read-only


def read(serial):
    """The marks of a checkpoint, or None."""
    try:
        fd = posix.open(path_of(serial), snapshot.READ)
        try:
            data = posix.read(fd, FILE_MAX)
        finally:
            posix.close(fd)
        said = scan_json(data.decode(), 0)[0]
        return said if type(said) is dict else None
    except Exception:
        return None
