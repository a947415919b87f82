# SPDX-License-Identifier: Apache-2.0
"""runner: runs user code inside a box and describes how it ended.

zygote.py imports this file before any user code exists and hands main() to _constrictor.serve(),
which calls it in the user process of every new box: uid 1000, no capabilities, seccomp on, fds 0-2.
User code lives in the same interpreter and may patch, delete or close whatever it can reach. So
  1. what the runner calls after user code is bound here, before it, under names of its own;
  2. what it takes from the standard library late is for looks only and has a plain replacement;
  3. every text and list that goes into a result has a bound.
None of this is a wall: code that forges a result lies only about itself, and the verdict is the
keeper's. It is what keeps honest but odd code from losing its result.
"""

import builtins
import sys
from _io import BufferedRandom, BufferedWriter, StringIO, TextIOWrapper
from _json import encode_basestring as quote, make_scanner
from _signal import SIGINT, default_int_handler, signal
from _thread import _count as count_threads
from atexit import _run_exitfuncs as run_exitfuncs, register, unregister
from gc import collect, enable as gc_enable, get_objects
from itertools import islice, starmap
from os import close, dup, dup2, _exit, getpid, pipe, urandom
from sys import getprofile, getrecursionlimit, gettrace, modules
from sys import setprofile, setrecursionlimit, settrace

from _constrictor import receive, send

# Functions look builtins up here from now on: `builtins.len = None` stays user code's own problem.
__builtins__ = dict(vars(builtins))

SCRATCH = "/mnt/data"
USER_FOLDERS = (SCRATCH + "/", "/tmp/")
RESULT = 1                  # the kind of frame for send()
TEXT_MAX = 64 * 1024        # characters of a result's repr and of a traceback's text
MESSAGE_MAX = 8 * 1024      # characters of an exception's message
LINE_MAX = 500              # characters of a source line, a file name, a function name
FRAMES_MAX = 64             # entries of error.traceback: the outer half and the inner half
DEPTH_MAX = 1000            # frames in a traceback's text, the innermost ones, as CPython does it
JSON_DEPTH, JSON_ITEMS, JSON_SIZE = 32, 10_000, 256 * 1024     # what result_json may be
PAYLOAD_MAX = 2 * 1024 * 1024
RESERVE = 4 * 1024 * 1024   # address space, never touched, to give back when there is none left
PRACTICE = 16               # how often a zygote does what boxes will do
RECURSION_MIN = 1000        # what the runner wants after a sys.setrecursionlimit(30)

EXERCISES = {
    "numpy": b"import numpy as np\nfloat((np.arange(9.0) ** 2).sum())",
    "pandas": b"import numpy as np, pandas as pd\n"
              b"frame = pd.DataFrame({'a': np.arange(4.0)})\n"
              b"float(frame['a'].sum())",
    "matplotlib.pyplot": b"import matplotlib.pyplot as plt\nplt.get_fignums()",
}
SINGLE_THREADED = "threading", "logging", "concurrent.futures.thread"
DONE_ONCE = "_at_fork_reinit", "cache_clear"    # hooks that a zygote can call for all its boxes
ONLY_AST, TOP_LEVEL_AWAIT, COROUTINE = 0x400, 0x2000, 0x80
OLDEST = 2                  # generation of the garbage collector
FUTURES = 0x1FE0000         # the bits of `from __future__` in co_flags, unchanged since 3.9
HERE = (lambda: None).__code__.co_filename

NO_INPUT = ("input() is not available: code runs without a terminal; "
            "pass values in the code or as arguments")
# The answer when even describing a failure fails: made now, because then nothing can be made.
LAST_RESORT = (
    b'{"exit_code":1,"phase":"execution","error":{"type":"MemoryError","message":'
    b'"the code failed, and too little of the interpreter was left to say how",'
    b'"line":null,"column":null,"code_line":null,"traceback":[],"text":"MemoryError\\n"}}')


class Box:
    """What this process knows about itself; there is one box per process."""
    pid = 0                 # a child that user code forks is not the box and must not answer
    main = None             # the module that user code runs in, sys.modules["__main__"]
    modules = 0             # how many there were before user code
    path = ()               # sys.path without the folder of user code
    streams = ()            # stdout and stderr as user code found them
    excepthook = None       # the same for sys.excepthook
    hooks = ()              # os.register_at_fork() calls of modules that the zygote imported
    register_at_fork = None # the real one
    thread_exits = None     # threading's own list of functions for the end
    thread_exits_before = 0
    log_handlers = ()       # logging's own list of handlers
    log_handlers_before = 0
    end_logging = None      # logging.shutdown
    seed_numpy = None       # numpy.random.seed
    renewals = ()           # what has to be called in every box: seeds
    names = 0               # how many __main__ has before user code
    linecache = False       # linecache asks KnownSources by itself
    rich = None             # the module display, once the zygote has it
    shown = False           # it has something for the answer
    pyplot = False          # it has met pyplot
    reserve = None
    kept = ()               # holes in the zygote's memory, filled
    session = True          # another run may follow
    runs = 0
    futures = 0             # `from __future__` in earlier runs of a session
    loop = None             # the event loop of a session
    sources = {}            # file name -> bytes, or a list of lines once somebody needed them


Box = Box()                 # an instance: setting an attribute of a class empties type caches


# ---- The standard library, late -----------------------------------------------------------------

bound = {}


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


def remember(filename, source):
    """Lets tracebacks, inspect and pdb find a source that is in no file of that name."""
    Box.sources[filename] = source
    if Box.linecache:
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


def encode(answer):
    value = answer.pop("result_json", None)         # JSON text already
    if "error" in answer:
        text = to_json(answer, PAYLOAD_MAX)
    else:                   # most answers; a result's text is clipped, so nothing in it can fail
        text = f'{{"exit_code":{answer["exit_code"]},"phase":"{answer["phase"]}"}}'
        if "result" in answer:
            text = f'{text[:-1]},"result":{quote(answer["result"])}}}'
    if value is not None:
        text = f'{text[:-1]},"result_json":{value}}}'
    # Flags of Box, which lies on a page that every run writes to anyway, as the others do not.
    return Box.rich.extend(text.encode()) if Box.shown else text.encode()


# ---- Describing what happened -------------------------------------------------------------------

def describe_value(value, answer):
    try:
        text = repr(value)
    except Exception as exc:
        text = f"<repr failed: {type_name(exc)}: {message_of(exc)}>"
    answer["result"] = clip(text, TEXT_MAX)
    try:
        answer["result_json"] = to_json(value)
    except Exception:
        # Not JSON, or another thread is changing it. What is JSON looks like nothing else.
        if Box.rich is not None:
            Box.rich.show_value(value)


def type_name(exc):
    module, name = type(exc).__module__, type(exc).__qualname__
    return clip(name if module in ("builtins", "__main__") else f"{module}.{name}", LINE_MAX)


def message_of(exc):
    try:
        return clip(str(exc), MESSAGE_MAX)
    except Exception:
        return "<exception str() failed>"


def line_at(filename, number):
    """One source line with its indentation, so that columns count in it; None if unknown."""
    try:
        if filename in Box.sources:
            line = lines_of(filename)[number - 1]
        else:
            line = need("linecache", "getline")(filename, number)
        return line.rstrip("\r\n") or None
    except Exception:
        return None


def column_of(tb, line):
    """Counts from 1 in characters; None before CPython 3.11, which does not record columns."""
    if line is not None and sys.version_info >= (3, 11):
        for position in islice(tb.tb_frame.f_code.co_positions(), tb.tb_lasti // 2, None):
            if position[2] is not None:         # counts from 0 in bytes of UTF-8
                return len(line.encode()[:position[2]].decode("utf-8", "ignore")) + 1
            break
    return None


def user_frames(tb):
    """The frames that are in the user's own files, outermost first."""
    found, frames = [], []
    while tb is not None:
        filename = tb.tb_frame.f_code.co_filename
        if filename in Box.sources or filename.startswith(USER_FOLDERS):
            found.append(tb)
        tb = tb.tb_next
    if len(found) > FRAMES_MAX:
        del found[FRAMES_MAX // 2:-FRAMES_MAX // 2]
    for tb in found:
        code, number = tb.tb_frame.f_code, tb.tb_lineno
        line = line_at(code.co_filename, number)
        frames.append({"file": clip(code.co_filename, LINE_MAX), "line": number,
                       "column": column_of(tb, line), "function": clip(code.co_name, LINE_MAX),
                       "code_line": line and clip(line, LINE_MAX)})
    return frames


def traceback_text(exc, tb):
    """What python3 prints for the exception, without the frames of this file."""
    try:
        if "linecache" in modules:
            fill_linecache(modules["linecache"], Box.sources)
        shown = need("traceback", "TracebackException")(type(exc), exc, tb, limit=-DEPTH_MAX)
        todo = [shown]
        for item in todo:   # which grows meanwhile
            item.stack[:] = [frame for frame in item.stack if frame.filename != HERE]
            linked = item.__cause__, item.__context__, *(getattr(item, "exceptions", None) or ())
            todo += [other for other in linked if other is not None]
        text = "".join(shown.format() if tb is not None else shown.format_exception_only())
    except Exception:       # user code broke traceback, or there is no memory for it
        text = "".join([f'  File "{frame["file"]}", line {frame["line"]}, in {frame["function"]}\n'
                        f'    {(frame["code_line"] or "").strip()}\n' for frame in user_frames(tb)])
        text = f"Traceback (most recent call last):\n{text}{type_name(exc)}: {message_of(exc)}\n"
    return clip(text, TEXT_MAX, tail=TEXT_MAX // 2)     # the end names the exception


def describe_error(exc, filename, phase):
    tb = exc.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename != filename:
        tb = tb.tb_next     # the runner and, around a coroutine, asyncio
    frames = user_frames(tb)
    inner = frames[-1] if frames else {}
    error = {"type": type_name(exc), "message": message_of(exc)}
    if isinstance(exc, OSError) and type(exc.errno) is int:
        error["errno"] = exc.errno      # tells the gate which limit it met
    for key in "line", "column", "code_line":
        error[key] = inner.get(key)
    if phase == "syntax_check" and isinstance(exc, SyntaxError):
        line = exc.text or line_at(filename, exc.lineno)
        exc.text = line     # the compiler's own errors come without, and the text shall show it
        error.update(message=clip(exc.msg, MESSAGE_MAX), line=exc.lineno, column=exc.offset or None,
                     code_line=line and clip(line.rstrip("\r\n"), LINE_MAX))
    error.update(traceback=frames, text=traceback_text(exc, tb), reported=call_excepthook(exc, tb))
    return error


def call_excepthook(exc, tb):
    """True if user code has its own hook and that worked: then nobody else needs to print."""
    hook = getattr(sys, "excepthook", None)
    if hook is None or hook is Box.excepthook:
        return False
    try:
        hook(type(exc), exc, tb)
        return True
    except BaseException as failure:
        complain(hook, failure)
        return False


def complain(where, exc):
    """For errors that are not the run's: said on stderr, as CPython does, and then ignored."""
    try:
        text = traceback_text(exc, exc.__traceback__)
        sys.stderr.write(f"Exception ignored in: {where!r}\n{text}")
    except Exception:
        pass


# ---- Running ------------------------------------------------------------------------------------

def compile_steps(source, filename):
    """One or two code objects; the value of the last is the result."""
    flags = TOP_LEVEL_AWAIT | Box.futures
    if b"\n" not in source.strip():
        # A single expression needs no syntax tree, and loading those costs a cold start 1-2 ms.
        try:
            return [compile(source, filename, "eval", flags, True)]
        except (SyntaxError, RecursionError, MemoryError):
            pass
    try:
        tree = compile(source, filename, "exec", flags | ONLY_AST, True)
        body, steps = tree.body, []
        last = body.pop() if body and type(body[-1]) is need("_ast", "Expr") else None
        if body or last is None:
            steps.append(compile(tree, filename, "exec", flags, True))
            flags |= steps[0].co_flags & FUTURES
        if last is not None:
            tree = need("_ast", "Expression")(last.value)
            steps.append(compile(tree, filename, "eval", flags, True))
        Box.futures = flags & FUTURES
        return steps
    except (RecursionError, MemoryError):
        pass                # trees take more of both than the compiler itself does
    return [compile(source, filename, "exec", flags, True)]


async def drive(steps, namespace):
    value = None
    for code in steps:      # all of them: a step without an await may still need the running loop
        value = eval(code, namespace)
        if code.co_flags & COROUTINE:
            value = await value
    return value


def evaluate(steps, namespace, session):
    if any([code.co_flags & COROUTINE for code in steps]):
        if not session:
            return need("asyncio", "run")(drive(steps, namespace))
        Box.loop = Box.loop or need("asyncio", "new_event_loop")()
        return Box.loop.run_until_complete(drive(steps, namespace))
    for code in steps:
        value = eval(code, namespace)
    return value


def regain():
    """Takes back what user code may have set and the runner would have to run under."""
    if gettrace() is not None:
        settrace(None)
    if getprofile() is not None:
        setprofile(None)
    if getrecursionlimit() < RECURSION_MIN:
        setrecursionlimit(RECURSION_MIN)


def exit_code_of(exc):
    code = exc.code
    if code is None:
        return 0
    if isinstance(code, int):
        code = int.__add__(code, 0)     # exact, whatever class it is of
        return code & 0xFF if -2**63 <= code < 2**63 else 0xFF
    try:
        sys.stderr.write(f"{code}\n")
    except Exception:
        pass
    return 1


def perform(source, filename, namespace, session=False):
    """Runs a source to its last line or first error; the answer without the end of the script."""
    answer = {"exit_code": 0, "phase": "syntax_check"}
    try:
        steps = compile_steps(source, filename)
        answer["phase"] = "execution"
        try:
            value = evaluate(steps, namespace, session)
        finally:
            regain()
        if value is not None:
            describe_value(value, answer)
            if session:
                namespace["_"] = value
    except SystemExit as exc:
        answer["exit_code"] = exit_code_of(exc)
    except BaseException as exc:
        Box.reserve = None
        answer["exit_code"] = 130 if isinstance(exc, KeyboardInterrupt) else 1
        # No variable of this frame may hold the traceback: a cycle keeps the user's files open.
        answer["error"] = describe_error(exc, filename, answer["phase"])
    return answer


# ---- The end of a script ------------------------------------------------------------------------

def collect_new():
    """A whole collection as long as no object is in the oldest generation: the zygote's are frozen.
    It leaves the free lists alone, which lie on pages that the box would have to copy."""
    collect(OLDEST if get_objects(OLDEST) else OLDEST - 1)


def drop_namespace():
    """Lets go of what user code made, so that open files are written out and finalisers run, as
    when python3 ends. The interpreter itself is not taken down: the process just ends."""
    Box.main = None
    if count_threads():
        # Daemon threads still run and would see their names vanish: only save what they cannot.
        for kinds in (TextIOWrapper,), (BufferedWriter, BufferedRandom):
            for stream in [thing for thing in get_objects() if type(thing) in kinds]:
                try:
                    stream.flush()
                except Exception:
                    pass    # closed, or detached
        return
    # Collecting first, as python3 does, sorts a file object behind what holds it; else the buffer
    # of a file in a cycle would be closed under the text that still has to go through it.
    collect_new()
    main = modules.pop("__main__", None)
    if type(main) is type(sys) and len(main.__dict__) == Box.names and len(modules) < Box.modules:
        return              # nothing was named and nothing imported: nothing to let go of
    main = None
    # Only modules newer than the box: looking at all of them would copy a page for each. And exact
    # modules only: asking a lazy one for its file would load it.
    for name in list(islice(reversed(modules), max(0, len(modules) - Box.modules + 1))):
        module = modules[name]
        file = module.__dict__.get("__file__") if type(module) is type(sys) else None
        if type(file) is str and file.startswith(USER_FOLDERS):
            del modules[name]
    module = None
    collect_new()


def flush_streams():
    """False if output was lost."""
    kept, streams = True, (getattr(sys, "stdout", None), getattr(sys, "stderr", None))
    if streams != Box.streams:
        streams = {id(stream): stream for stream in (*streams, *Box.streams)}.values()
    for stream in streams:
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except BaseException as exc:
            kept = False
            complain(stream, exc)
    return kept


def end_of_script():
    """What python3 does after the last line: waits for threads, runs atexit functions, flushes."""
    try:
        # With no thread left and nothing registered there is nothing to wait for.
        if "threading" in modules and (count_threads() or Box.thread_exits is None or
                                       len(Box.thread_exits) > Box.thread_exits_before):
            modules["threading"]._shutdown()
    except BaseException as exc:
        complain(modules["threading"], exc)
    for finish in run_exitfuncs, drop_namespace:
        try:
            finish()
        except BaseException:
            pass            # atexit has printed it, but CPython 3.9 raises it once more
    return flush_streams()


def end_logging():
    """In place of logging.shutdown(), which wrote to 50 pages to flush no handler."""
    if len(Box.log_handlers) > Box.log_handlers_before:
        Box.end_logging()


def place_script(filename, source):
    """Puts a script where it believes to be, for __file__ and for multiprocessing's spawn."""
    path = f"{SCRATCH}/{filename.rpartition('/')[2]}"
    try:
        with open(path, "xb") as file:
            file.write(source)
        Box.main.__file__ = path
    except OSError:
        pass                # no room, or the name is taken: then it has no file


def handle(meta, source):
    """One run from the gate; returns the payload to answer with."""
    meta = scan_json(meta.decode(), 0)[0] if meta else {}
    session = Box.session = meta.get("mode") == "session"
    Box.runs += 1
    filename = meta.get("filename") or ("<code>" if Box.runs == 1 else f"<code {Box.runs}>")
    sys.argv = list(meta.get("argv") or [filename])
    remember(filename, source)
    if not filename.startswith("<"):
        place_script(filename, source)
    try:
        answer = perform(source, filename, Box.main.__dict__, session)
    except BaseException:
        answer = None       # describing a failure failed
    forked = getpid() != Box.pid
    if forked and answer and "error" in answer and not answer["error"]["reported"]:
        sys.stderr.write(answer["error"]["text"])
    if Box.pyplot and not forked:
        Box.rich.end_of_run()
    flushed = flush_streams() if session and not forked else end_of_script()
    if answer and not flushed and not session:
        answer["exit_code"] = 120       # CPython's own choice for this
    if forked:
        _exit(answer["exit_code"] if answer else 1)
    return encode(answer) if answer else LAST_RESORT


# ---- A new box ----------------------------------------------------------------------------------

def refuse_input(prompt="", /):
    if prompt:
        sys.stdout.write(str(prompt))
        sys.stdout.flush()
    raise EOFError(NO_INPUT)


refuse_input.__name__ = refuse_input.__qualname__ = "input"


def open_streams():
    """The ones made at start-up belong to the zygote's descriptors and remember what those were."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            # Line buffered: somebody is watching. Output must never fail for want of an encoding.
            stream = open(fd, "w" if fd else "r", 1, encoding="utf-8", closefd=False,
                          errors="backslashreplace" if fd else "surrogateescape")
            stream.buffer.raw.name = f"<{name}>"
        except OSError:
            stream = None
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    Box.streams = sys.stdout, sys.stderr


def with_pipes(call):
    """Calls while descriptors 1 and 2 are pipes, as they are in a box: streams that are made now
    remember the right things about them, and no box has to spend 0.2 ms on making its own."""
    ends, saved = pipe(), [dup(1), dup(2)]
    try:
        dup2(ends[1], 1)
        dup2(ends[1], 2)
        call()
    finally:
        for fd, old in zip((1, 2), saved):
            dup2(old, fd)
        for fd in *ends, *saved:
            close(fd)


def new_main():
    Box.main = modules["__main__"] = type(sys)("__main__")
    Box.main.__builtins__ = builtins
    Box.names = len(Box.main.__dict__)
    Box.modules = len(modules)


def renewal_of(after_in_child):
    """What a box has to call in place of a module's hook; None: nothing."""
    owner = getattr(after_in_child, "__self__", None)
    if "random" in modules and owner is modules["random"]._inst:
        owner.gauss_next = None
        return super(type(owner), owner).seed       # all that is left of Random.seed(), in C
    # These repair locks and forget threads, and there were no others.
    if getattr(after_in_child, "__module__", None) in SINGLE_THREADED:
        return None
    if getattr(after_in_child, "__name__", None) in DONE_ONCE:
        return after_in_child()
    return after_in_child


def seed_numpy():
    """Or every box would draw the same numbers. 128 bits: what seed() gathers by itself costs a box
    many more pages."""
    Box.seed_numpy([int.from_bytes(urandom(4), "little") for _ in range(4)])


def arrange():
    """The last act of a zygote: whatever is the same in all boxes. Done in each of them, this took
    a third of the pages that a box has to copy."""
    Box.path = tuple(sys.path)
    Box.excepthook = sys.excepthook
    gc_enable()
    for hook in Box.hooks:
        Box.register_at_fork(**hook)    # for forks in a box: the zygote makes boxes without them
    renewals = [renewal_of(hook.get("after_in_child")) for hook in Box.hooks]
    if "numpy.random" in modules:
        Box.seed_numpy = modules["numpy.random"].seed
        renewals.append(seed_numpy)
    Box.renewals = tuple(filter(None, renewals))
    if "threading" in modules:
        Box.thread_exits = getattr(modules["threading"], "_threading_atexits", None)
        Box.thread_exits_before = len(Box.thread_exits or ())
    if "logging" in modules:
        logging = modules["logging"]
        Box.log_handlers, Box.end_logging = logging._handlerList, logging.shutdown
        Box.log_handlers_before = len(Box.log_handlers)
        unregister(logging.shutdown)
        register(end_logging)
    getpid()                            # binds the symbol, which else every box would do
    signal(SIGINT, default_int_handler) # as python3 has it, whatever a preload did
    builtins.input = refuse_input
    sys.path.insert(0, SCRATCH)         # the folder of the script, as python3 has it
    Box.reserve = bytes(RESERVE)        # calloc: not a page of it is touched


def settle():
    """Makes the interpreter this box's own; whatever differs between boxes begins here."""
    Box.pid = getpid()
    for renew in Box.renewals:
        renew()
    if not Box.streams:
        open_streams()
    sys.path[0] = SCRATCH


def exercises():
    """A little of what code does with the modules that are preloaded."""
    return [source for name, source in EXERCISES.items() if name in modules]


def practise(source, meta=b""):
    """A run as main() takes it, which is a page or two of its own."""
    pending = []
    pending.extend(starmap(tuple, [((meta, source),)]))
    handle(*pending.pop())


def rehearse_least():
    """What every run does, in a child that is thrown away: the pages that it writes to are then
    known, and a box has its own copy of them before it is needed: 2 us each, in a run 3."""
    settle()
    practise(b"1 + 1")


def rehearse():
    """The same with what runs do often, for boxes that nobody waits for. That takes a first run
    from 0.5 to 0.1 ms."""
    settle()
    for source in b"1 + 1", b"import sys\nx = [1]\nx\n", *exercises():
        practise(source, b'{"filename": "<rehearsal>", "argv": [""], "mode": "session"}')
    practise(b"x = 1\nx\n")


def main():
    """The life of a box's user process. True: the last answer is out, and the box will be ended."""
    settle()
    pending = []
    while Box.session:
        try:
            # Within one call from C: what a signal handler raises meanwhile cannot lose the run.
            while not pending:
                pending.extend(starmap(receive, [()]))
        except BaseException:
            continue        # a signal that came too late for its run
        run, payload = pending.pop(), LAST_RESORT
        if run is None:
            return False
        try:
            payload = handle(*run)
        except BaseException:
            pass            # no memory for the payload, or a signal again
        if getpid() != Box.pid:
            _exit(1)
        send(RESULT, payload)
        if Box.reserve is None:         # the last run failed and may have needed it
            Box.reserve = bytes(RESERVE)
    return True


def prepare():
    """For a warm zygote: binds what need() would look for later, and fails once for practice."""
    Box.excepthook = sys.excepthook
    for attribute in "run", "new_event_loop":
        need("asyncio", attribute)
    need("linecache", "getline")
    for attribute in "a2b_base64", "b2a_base64":
        need("binascii", attribute)
    with_pipes(open_streams)
    linecache = modules["linecache"]
    linecache.cache, Box.linecache = KnownSources(linecache.cache), True
    # Often enough for CPython to have adapted its code, which it would else do in every box.
    plain = b"1 +", b"def f():\n    1 / 0\nf()\n", b"x = 1\nx", b"1 + 1"
    for source in (*plain, *exercises()) * PRACTICE:
        remember("<rehearsal>", source)
        encode(perform(source, "<rehearsal>", {"__name__": "__main__", "__builtins__": builtins}))
        flush_streams()
    Box.sources.clear()
