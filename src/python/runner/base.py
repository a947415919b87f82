# SPDX-License-Identifier: Apache-2.0
"""base: shared by the modules of the runner: the state of the box, sources, text and JSON.

Imported in the zygote before any user code exists; the rules at the top of runner.py hold here too.
"""

import builtins
import sys
from _io import StringIO
from _json import encode_basestring as quote, make_scanner
from sys import modules

# Functions of this module look builtins up here: `builtins.len = None` then only affects user code.
__builtins__ = dict(vars(builtins))

TEXT_MAX = 64 * 1024        # characters of a result's repr and of a traceback's text
MESSAGE_MAX = 8 * 1024      # characters of an exception's message
LINE_MAX = 500              # characters of a source line, a file name, a function name
JSON_DEPTH, JSON_ITEMS, JSON_SIZE = 32, 10_000, 256 * 1024     # what result_json may be
SOURCES_MAX = 1000          # runs of a session whose source is remembered
SOURCES_SPARE = 50          # more than that are removed together
PAYLOAD_MAX = 2 * 1024 * 1024
HERE = (lambda: None).__code__.co_filename.rpartition("/")[0] + "/"     # the folder of our files


class Box:
    """The state of this process; there is one box per process."""
    scratch = "/mnt/data"   # the working directory
    folders = "/mnt/", "/tmp/", "/dev/shm/"     # where files of user code are, also by their real paths
    installed = ()          # folders of the interpreter within these
    pid = 0                 # a child that user code forks has another one and must not answer
    main = None             # the module of user code, sys.modules["__main__"]
    modules = 0             # number of modules before user code
    preloaded = ()          # names of packages outside the standard library that the zygote has imported
    wheels = []             # folders that wheels.py put into sys.path
    path = ()               # sys.path without the folder of user code
    transformer = ()        # the server's restricted package, where the interpreter has no RestrictedPython
    stdin = None            # as long as the run has none
    no_stdin = None         # what input() says then, where it is not NO_STDIN
    input = None            # the builtin
    prompt = ""             # of the input() that waits for a person
    streams = ()            # stdout and stderr as user code found them
    excepthook = None       # the same for sys.excepthook
    hooks = ()              # os.register_at_fork() calls of modules that the zygote imported
    register_at_fork = None # the real one
    exitfuncs = ()          # atexit functions of modules that the zygote imported
    thread_exits = None     # threading's own list of exit functions
    thread_exits_before = 0
    log_handlers = ()       # logging's own list of handlers
    log_handlers_before = 0
    end_logging = None      # logging.shutdown
    seed_numpy = None       # numpy.random.seed
    renewals = ()           # functions to call in every box: seeds
    names = 0               # number of names in __main__ before user code
    linecache = None        # KnownSources, the cache of linecache
    rich = None             # the module display
    formats = None          # bundles by functions that code has registered: formats.py
    pretty = None           # the same for the text of a result
    replacement = None      # of _constrictor: see in_c()
    rehearse_plain = None   # of _constrictor: rehearses a run in C
    flush_all = None        # of _constrictor: flushes the streams of the C library
    events = ()             # security events of this run
    shown = False           # the module display has something for the answer
    pyplot = False          # pyplot was imported
    reserve = None
    fillers = ()            # objects that fill holes in the zygote's memory
    session = True          # another run may follow
    runs = 0
    futures = 0             # `from __future__` in earlier runs of a session
    loop = None             # the event loop of a session
    undo = None             # the module undo
    has_copies = False      # of this process: undo.py sees every run
    inputs = None           # In of a session: source by number, "" for one that is forgotten
    outputs = None          # Out: value by number
    on_interrupt = None     # handler of SIGINT while code runs; None: it is set now
    codes = ()              # the code objects of the last run
    readonly = False        # readonly.py is done
    compiler = None         # makes them under a policy, instead of source.to_steps
    afterwards = None       # to call when the answer to a run has been sent
    named = ()              # variables that give the result if the last line has none
    file = "/mnt/data/__main__.py"  # of a text that came without a name: its __file__
    written = ()            # path and mark of the file that the text of this run was written to
    sources = {}            # file name -> bytes, or a list of lines after the first use


Box = Box()                 # an instance: setting an attribute of a class empties type caches


# ---- The standard library, late -----------------------------------------------------------------

bound = {}


def find_installed():
    found = {f"{prefix}/" for prefix in (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)}
    found |= {"/mnt" + prefix for prefix in found if prefix.startswith("/tmp/")}
    return tuple(prefix for prefix in found if prefix.startswith(Box.folders))


Box.installed = find_installed()


def is_own_file(filename):
    """Does the file belong to user code rather than the interpreter? Code could move the interpreter and fake this,
    but only advice depends on it."""
    return filename.startswith(Box.folders) and not filename.startswith(Box.installed)


def need(module, attribute):
    """The attribute as it was at the first call: in a warm zygote, before any user code."""
    key = module, attribute
    if key not in bound:
        # After a cold start user code runs before this, and may have a file of the same name.
        path, sys.path = getattr(sys, "path", None), list(Box.path or sys.path)
        try:
            bound[key] = getattr(__import__(module), attribute)
        finally:
            sys.path = path
    return bound[key]


def lines_of(filename):
    source = Box.sources[filename]
    if type(source) is bytes:
        # Not str.splitlines(), which also splits at form feeds and U+2028.
        text = source.decode("utf-8", "replace").lstrip("\ufeff")
        # The last line ends with a newline, as in linecache: else traceback misplaces its marks.
        text = text if text.endswith(("\n", "\r")) or not text else text + "\n"
        source = Box.sources[filename] = StringIO(text, newline=None).readlines()
    return source


def fill_linecache(linecache, filenames):
    for filename in filenames:
        lines = lines_of(filename)
        # Without a time stamp linecache does not look for the file on disk.
        linecache.cache[filename] = len(lines), None, lines, filename


def know_sources(linecache):
    fill_linecache(linecache, Box.sources)


class KnownSources(dict):
    """linecache.cache of a warm zygote: looks up a run's source on demand, because few runs need it. Filling
    it for every run made a box copy 25 more pages."""
    def __contains__(self, filename):
        return dict.__contains__(self, filename) or filename in Box.sources

    def __missing__(self, filename):
        lines = lines_of(filename)
        return len(lines), None, lines, filename

    def get(self, filename, default=None):
        return self[filename] if filename in self else default


class ImportHook:
    """A finder that calls then(module) after the other finders have loaded one module."""
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


def in_c(owner, name, function, old):
    """Makes our function look like a C function of a module or class."""
    doc = old.__doc__ or ""
    if Box.replacement is not None:
        signature = getattr(old, "__text_signature__", None)
        doc = f"{name}{signature}\n--\n\n{doc}" if signature else doc
        return Box.replacement(name, doc, function, owner)
    function.__name__, function.__doc__ = name, doc         # in tests without the extension
    return function


def forget_sources():
    """Forgets the oldest sources, to bound the memory of a session."""
    sources = Box.sources
    while len(sources) > SOURCES_MAX:
        filename = next(iter(sources))
        del sources[filename]
        try:
            modules["linecache"].cache.pop(filename, None)
        except Exception:
            pass            # not imported, or broken


def remember(filename, source):
    """Lets tracebacks, inspect and pdb find source code that is in no file."""
    Box.sources[filename] = source
    if len(Box.sources) > SOURCES_MAX + SOURCES_SPARE:
        forget_sources()
    if Box.linecache is not None:
        if dict.__contains__(Box.linecache, filename):
            dict.pop(Box.linecache, filename)       # from an earlier run with that name
        return
    try:
        if "linecache" in modules:
            fill_linecache(modules["linecache"], [filename])
        elif Box.runs == 1:
            # For cold starts: few runs need linecache, which takes milliseconds to import.
            sys.meta_path.insert(0, ImportHook("linecache", know_sources))
    except Exception:
        pass                # an earlier run of the session broke it


# ---- Text and JSON ------------------------------------------------------------------------------
# The json package would cost a cold start milliseconds; its C half is enough.

class Scanner:
    strict, object_hook, object_pairs_hook, memo = True, None, None, {}
    parse_float, parse_int, parse_constant = float, int, float


scan_json = make_scanner(Scanner())


def clip(text, limit, tail=0):
    """The text as a bounded exact str that JSON and UTF-8 can carry."""
    text = str.__str__(text)
    over = len(text) - limit
    if over > 0:
        end = text[len(text) - tail:]
        text = f"{text[:limit - tail]}… [{over} characters left out]{end}"
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode()
    return text.replace("\0", "\\x00")


def to_json(value, room=JSON_SIZE):
    """JSON text of a value; ValueError if it is not exactly JSON or exceeds a bound.

    Stricter than json.dumps, so that every reader understands the same: no subclasses, no NaN, integers
    of 64 bits, no NUL and no lone surrogate in a string.
    """
    if type(value) is int and -2**63 <= value < 2**63:
        return repr(value)  # skips the functions below
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
