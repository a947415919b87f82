# SPDX-License-Identifier: Apache-2.0
"""base: what the modules of the runner share: the state of the box, sources, text and JSON.

Imported in the zygote before any user code exists; the rules at the top of runner.py hold here too.
"""

import builtins
import sys
from _io import StringIO
from _json import encode_basestring as quote, make_scanner
from sys import modules

# Functions look builtins up here from now on: `builtins.len = None` stays user code's own problem.
__builtins__ = dict(vars(builtins))

TEXT_MAX = 64 * 1024        # characters of a result's repr and of a traceback's text
MESSAGE_MAX = 8 * 1024      # characters of an exception's message
LINE_MAX = 500              # characters of a source line, a file name, a function name
JSON_DEPTH, JSON_ITEMS, JSON_SIZE = 32, 10_000, 256 * 1024     # what result_json may be
SOURCES_MAX = 1000          # runs of a session whose source is known
SOURCES_SPARE = 50          # so many more, until the oldest go together
PAYLOAD_MAX = 2 * 1024 * 1024
HERE = (lambda: None).__code__.co_filename.rpartition("/")[0] + "/"     # the folder of our files


class Box:
    """What this process knows about itself; there is one box per process."""
    scratch = "/mnt/data"   # the working directory
    folders = "/mnt/", "/tmp/", "/dev/shm/"     # where user code's own files are, also by their real names
    installed = ()          # of these, folders of the interpreter: it may be there too
    pid = 0                 # a child that user code forks is not the box and must not answer
    main = None             # the module that user code runs in, sys.modules["__main__"]
    modules = 0             # how many there were before user code
    preloaded = ()          # names of packages outside the standard library that the zygote has imported
    wheels = []             # folders of packages that were put into sys.path
    path = ()               # sys.path without the folder of user code
    transformer = ()        # the server's own layer with RestrictedPython, where the interpreter has none
    streams = ()            # stdout and stderr as user code found them
    excepthook = None       # the same for sys.excepthook
    hooks = ()              # os.register_at_fork() calls of modules that the zygote imported
    register_at_fork = None # the real one
    exitfuncs = ()          # what modules that the zygote imported gave to atexit
    thread_exits = None     # threading's own list of functions for the end
    thread_exits_before = 0
    log_handlers = ()       # logging's own list of handlers
    log_handlers_before = 0
    end_logging = None      # logging.shutdown
    seed_numpy = None       # numpy.random.seed
    renewals = ()           # what has to be called in every box: seeds
    names = 0               # how many __main__ has before user code
    linecache = None        # KnownSources, which linecache asks by itself
    rich = None             # the module display, once the zygote has it
    replacement = None      # for the module network: of _constrictor
    rehearse_plain = None   # of _constrictor: a run that is done in C, for practice
    flush_all = None        # of _constrictor: the C library's streams
    events = ()             # what that has to say about this run
    shown = False           # it has something for the answer
    pyplot = False          # it has met pyplot
    reserve = None
    kept = ()               # holes in the zygote's memory, filled
    session = True          # another run may follow
    runs = 0
    futures = 0             # `from __future__` in earlier runs of a session
    loop = None             # the event loop of a session
    undo = None             # the module undo
    has_copies = False      # of this process: undo.py sees every run
    inputs = None           # In of a session: source by number, "" for one that is forgotten
    outputs = None          # Out: value by number
    on_interrupt = None     # what SIGINT does while code runs; None: it does so now
    codes = ()              # the code objects of the last run
    readonly = False        # readonly.py has looked whether files can be written
    compiler = None         # what makes them under a policy, in place of source.to_steps
    afterwards = None       # what is to be done when the answer to a run is out
    named = ()              # names of variables that are the result where the last line has none
    text = b""              # of the run, for processes that multiprocessing spawns
    sources = {}            # file name -> bytes, or a list of lines once somebody needed them


Box = Box()                 # an instance: setting an attribute of a class empties type caches


# ---- The standard library, late -----------------------------------------------------------------

bound = {}


def find_installed():
    found = {f"{prefix}/" for prefix in (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)}
    found |= {"/mnt" + prefix for prefix in found if prefix.startswith("/tmp/")}
    return tuple(prefix for prefix in found if prefix.startswith(Box.folders))


Box.installed = find_installed()


def is_own_file(filename):
    """Of user code, and not the interpreter's. Code that moves the interpreter away and puts its own files there is
    taken at its word: what depends on this is advice."""
    return filename.startswith(Box.folders) and not filename.startswith(Box.installed)


def need(module, attribute):
    """The attribute as it was when first asked for: in a warm zygote, before any user code."""
    key = module, attribute
    if key not in bound:
        # After a cold start user code came first, and may have left a file of the same name.
        path, sys.path = getattr(sys, "path", None), list(Box.path or sys.path)
        try:
            bound[key] = getattr(__import__(module), attribute)
        finally:
            sys.path = path
    return bound[key]


def lines_of(filename):
    source = Box.sources[filename]
    if type(source) is bytes:
        # Not str.splitlines(): it also splits at form feeds and U+2028, where a line goes on.
        text = source.decode("utf-8", "replace").lstrip("\ufeff")
        # The last line ends as well, as in linecache: else traceback puts its marks in wrong places.
        text = text if text.endswith(("\n", "\r")) or not text else text + "\n"
        source = Box.sources[filename] = StringIO(text, newline=None).readlines()
    return source


def fill_linecache(linecache, filenames):
    for filename in filenames:
        lines = lines_of(filename)
        # Without a time stamp linecache does not look for such a file on disk.
        linecache.cache[filename] = len(lines), None, lines, filename


def know_sources(linecache):
    fill_linecache(linecache, Box.sources)


class KnownSources(dict):
    """linecache.cache of a warm zygote: looks for a run's source when somebody asks for it, which
    few runs do. Filling it for every run made a box copy 25 more pages."""
    def __contains__(self, filename):
        return dict.__contains__(self, filename) or filename in Box.sources

    def __missing__(self, filename):
        lines = lines_of(filename)
        return len(lines), None, lines, filename

    def get(self, filename, default=None):
        return self[filename] if filename in self else default


class ImportHook:
    """A finder that lets the others find one module and calls `then` with it when it is loaded."""
    def __init__(self, name, then):
        self.name, self.then = name, then

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                execute = spec.loader.exec_module
                spec.loader.exec_module = lambda module: (execute(module), self.then(module))
                return spec
        return None


def forget_sources():
    """The oldest ones, so that a session does not grow without end."""
    sources = Box.sources
    while len(sources) > SOURCES_MAX:
        filename = next(iter(sources))
        del sources[filename]
        try:
            modules["linecache"].cache.pop(filename, None)
        except Exception:
            pass            # not imported, or broken


def remember(filename, source):
    """Lets tracebacks, inspect and pdb find a source that is in no file of that name."""
    Box.sources[filename] = source
    if len(Box.sources) > SOURCES_MAX + SOURCES_SPARE:
        forget_sources()
    if Box.linecache is not None:
        if dict.__contains__(Box.linecache, filename):
            dict.pop(Box.linecache, filename)       # of an earlier run with that name
        return
    try:
        if "linecache" in modules:
            fill_linecache(modules["linecache"], [filename])
        elif Box.runs == 1:
            # For cold starts: few runs need linecache, and importing it costs milliseconds.
            sys.meta_path.insert(0, ImportHook("linecache", know_sources))
    except Exception:
        pass                # an earlier run of the session broke it


# ---- Text and JSON ------------------------------------------------------------------------------
# The json package costs a cold start milliseconds; the C half of it is enough here.

class Scanner:
    strict, object_hook, object_pairs_hook, memo = True, None, None, {}
    parse_float, parse_int, parse_constant = float, int, float


scan_json = make_scanner(Scanner())


def clip(text, limit, tail=0):
    """The text as an exact str within a bound, with nothing that JSON or UTF-8 cannot carry."""
    text = str.__str__(text)
    over = len(text) - limit
    if over > 0:
        end = text[len(text) - tail:]
        text = f"{text[:limit - tail]}… [{over} characters left out]{end}"
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode()
    return text.replace("\0", "\\x00")


def to_json(value, room=JSON_SIZE):
    """JSON text of a value that is exactly JSON and within bounds, ValueError for any other.

    Stricter than json.dumps, so that the text means the same to every reader: no subclasses, no
    NaN, integers of 64 bits, no NUL and no lone surrogate in a string.
    """
    if type(value) is int and -2**63 <= value < 2**63:
        return repr(value)  # without making the functions below
    limit, items = room, JSON_ITEMS

    def string(value):
        nonlocal room
        room -= len(value)
        if room < 0 or "\0" in value:
            raise ValueError("too long, or with a NUL")
        if not value.isascii():
            value.encode()              # raises UnicodeEncodeError, which is a ValueError
        return quote(value)

    def walk(value, depth):
        nonlocal items
        items -= 1
        if items < 0 or depth < 0:
            raise ValueError("too large")
        kind = type(value)
        if kind is str:
            return string(value)
        if value is None or kind is bool:
            return "null" if value is None else "true" if value else "false"
        if kind is int and -2**63 <= value < 2**63 or kind is float and value - value == 0:
            return repr(value)
        if kind is list or kind is tuple:
            return "[" + ",".join([walk(item, depth - 1) for item in value]) + "]"
        if kind is dict and all([type(key) is str for key in value]):
            return "{" + ",".join([string(key) + ":" + walk(item, depth - 1)
                                   for key, item in value.items()]) + "}"
        raise ValueError("not JSON")

    text = walk(value, JSON_DEPTH)
    if len(text) > limit:
        raise ValueError("too large")
    return text
