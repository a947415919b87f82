# SPDX-License-Identifier: Apache-2.0
"""runner: runs user code inside a box and describes how it ended.

zygote.py imports this file before any user code exists and passes main() to _constrictor.serve(),
which calls it in the user process of every new box: uid 1000, no capabilities, seccomp on, fds 0-2.
User code shares the interpreter and may patch, delete or close anything that it can reach. So
  1. functions that the runner calls after user code are bound here, before any user code, to own names;
  2. what it imports late from the standard library only improves texts, and has a plain fallback;
  3. every text and list in a result has a bound.
None of this is a wall: code that forges a result only forges its own, and the keeper gives the verdict.
It keeps honest but odd code from losing its result.

The same rules hold in base.py (shared helpers), source.py (text to code), session.py (state between
runs), report.py (values and errors), variables.py (names), display.py (pictures).
"""

import builtins
import sys
from _io import BufferedRandom, BufferedWriter, TextIOWrapper
from _signal import SIG_IGN, SIGINT, default_int_handler, signal
from _thread import _count as count_threads
from atexit import _clear as clear_exitfuncs, _ncallbacks as count_exitfuncs
from atexit import _run_exitfuncs as run_exitfuncs, unregister
from gc import collect, enable as gc_enable, freeze, get_objects
from itertools import islice, starmap
from os import close, dup, dup2, environ, _exit, getpid, pipe, urandom
from sys import getprofile, getrecursionlimit, gettrace, modules
from sys import setprofile, setrecursionlimit, settrace

from _constrictor import receive, send
from base import __builtins__           # first: functions look builtins up there
from base import Box, HERE, ImportHook, KnownSources, LINE_MAX, MESSAGE_MAX, PAYLOAD_MAX
from base import clip, is_own_file, need, quote, remember, scan_json, to_json
from report import complain, describe_error, describe_value, message_of, type_name
from session import begin, evaluate, forget_history, keep
from source import compile_body, recoded, to_steps
from variables import bring, forget_variables, list_changes

PLAIN = "<code>"            # file name of a text that has none
USER_PID = 2                # of the user process, in the box; init is 1
RESULT = 1                  # the kind of frame for send()
RESERVE = 4 * 1024 * 1024   # address space that is never touched, freed when memory runs out
PRACTICE = 16               # how often a zygote rehearses runs
RECURSION_MIN = 1000        # what the runner needs, even after sys.setrecursionlimit(30)
LATE_MAX = 3                # how often the end of a run may be interrupted

EXERCISES = {
    "numpy": b"import numpy as np\nfloat((np.arange(9.0) ** 2).sum())",
    "pandas": b"import numpy as np, pandas as pd\n"
              b"frame = pd.DataFrame({'a': np.arange(4.0)})\n"
              b"float(frame['a'].sum())",
    "matplotlib.pyplot": b"import matplotlib.pyplot as plt\nplt.get_fignums()",
}
SINGLE_THREADED = "threading", "logging", "concurrent.futures.thread"
DONE_ONCE = "_at_fork_reinit", "cache_clear"    # hooks that a zygote calls once for all its boxes
OLDEST = 2                  # generation of the garbage collector
NAMED = "result", "output", "_"         # see Box.named

# True wherever code is run from: some tools have no such argument.
NO_STDIN = ("EOF when reading a line: this run has no stdin; pass it as 'stdin', or where there is no such "
            "field or argument, write the values into the code")
# The answer when describing a failure fails, made now while there is memory.
LAST_RESORT = (
    b'{"exit_code":1,"phase":"execution","error":{"type":"MemoryError","message":'
    b'"the code failed, and the interpreter was too damaged to report how",'
    b'"line":null,"column":null,"code_line":null,"traceback":[],"text":"MemoryError\\n"}}')
# The answer when the description itself is interrupted.
INTERRUPTED = {
    "exit_code": 130, "phase": "execution",
    "error": {"type": "KeyboardInterrupt", "message": "interrupted while the run was described",
              "line": None, "column": None, "code_line": None, "traceback": [],
              "text": "KeyboardInterrupt\n", "reported": False}}


# ---- Running ------------------------------------------------------------------------------------

def regain():
    """Resets tracing, profiling and a low recursion limit that user code may have set."""
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
        code = int.__add__(code, 0)     # an exact int
        return code & 0xFF if -2**63 <= code < 2**63 else 0xFF
    try:
        sys.stderr.write(f"{code}\n")
    except Exception:
        pass
    return 1


def reopen_stdin():
    """Opens stdin again: exit() closes it."""
    try:
        if sys.stdin is not None and sys.stdin.closed:
            open_stream(0, "stdin")
    except Exception:
        pass


def named_value(namespace):
    """The value of a result variable, for callers that expect one."""
    for name in Box.named:
        value = namespace.get(name)
        if value is not None and not isinstance(value, type(sys)):
            return value
    return None


def perform(source, filename, namespace, session=False):
    """Runs a source to its last line or first error; the answer without the end of the script."""
    answer, Box.codes = {"exit_code": 0, "phase": "syntax_check"}, ()
    try:
        if Box.on_interrupt is not None:
            heed_interrupts()
        steps = Box.codes = (Box.compiler or to_steps)(source, filename)
        answer["phase"] = "execution"
        try:
            value = evaluate(steps, namespace, session)
        finally:
            regain()
        if value is None and Box.named:
            value = named_value(namespace)
        if value is not None:
            describe_value(value, answer)
            if session:
                keep(namespace, value, Box.runs)
    except BaseException as exc:
        # No variable of this frame may hold the traceback: a cycle would keep the user's files open.
        explain(exc, answer, filename, session)
    return answer


def explain(exc, answer, filename, session):
    """Adds the exception that ended a run to the answer."""
    if isinstance(exc, SystemExit):
        answer["exit_code"] = exit_code_of(exc)
        if session:
            reopen_stdin()
        return
    Box.reserve = None
    answer["exit_code"] = 130 if isinstance(exc, KeyboardInterrupt) else 1
    answer["error"] = describe_error(exc, filename, answer["phase"])


def describe(codes, phase, value, exc):
    """For plain.c: the answer to a run with a value or an exception that plain.c cannot describe; None if
    that failed."""
    answer, Box.codes = {"exit_code": 0, "phase": phase}, codes or ()
    try:
        try:
            if exc is not None:
                explain(exc, answer, PLAIN, False)
            elif value is not None:
                describe_value(value, answer)
        except BaseException as failure:
            if exc is not None:
                raise
            explain(failure, answer, PLAIN, False)
    except KeyboardInterrupt:
        answer = dict(INTERRUPTED)      # while the run was described
    except BaseException:
        answer = None
    return answer


# ---- The end of a script ------------------------------------------------------------------------

def collect_new():
    """A whole collection as long as no object is in the oldest generation: the zygote's are frozen.
    It leaves the free lists alone, which lie on pages that the box would have to copy."""
    collect(OLDEST if get_objects(OLDEST) else OLDEST - 1)


def drop_namespace():
    """Releases the objects of user code, so that open files are flushed and finalisers run, as when
    python3 ends. The interpreter itself is not shut down: the process just ends."""
    Box.main = None
    if count_threads():
        # Daemon threads still use their names: only flush files.
        for kinds in (TextIOWrapper,), (BufferedWriter, BufferedRandom):
            for stream in [thing for thing in get_objects() if type(thing) in kinds]:
                try:
                    stream.flush()
                except Exception:
                    pass    # closed, or detached
        return
    # Collect first, as python3 does: otherwise the buffer of a file in a cycle could be closed before the
    # text that has to go through it.
    collect_new()
    main = modules.pop("__main__", None)
    if type(main) is type(sys) and len(main.__dict__) == Box.names and len(modules) < Box.modules:
        return              # nothing was named or imported: nothing to release
    main = None
    # Only modules newer than the box: reading all of them would copy a page for each. Only exact modules:
    # asking a lazy one for its file would load it.
    for name in list(islice(reversed(modules), max(0, len(modules) - Box.modules + 1))):
        module = modules[name]
        file = module.__dict__.get("__file__") if type(module) is type(sys) else None
        if type(file) is str and is_own_file(file):
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
    """Does what python3 does after the last line: waits for threads, runs atexit functions, flushes."""
    try:
        # With no thread left and nothing registered there is nothing to wait for.
        if "threading" in modules and (count_threads() or Box.thread_exits is None or
                                       len(Box.thread_exits) > Box.thread_exits_before):
            modules["threading"]._shutdown()
    except BaseException as exc:
        complain(modules["threading"], exc)
    for finish in run_exitfuncs, end_logging, drop_namespace:
        try:
            finish()
        except BaseException:
            pass            # atexit has printed it, but CPython 3.9 raises it again
    return flush_streams()


def end_logging():
    """Calls logging.shutdown(), only if there is a new handler: without one it would write to 50 pages for
    nothing."""
    if len(Box.log_handlers) > Box.log_handlers_before:
        Box.end_logging()


def write_script(filename, source):
    """Writes a script to a file, for __file__ and for multiprocessing's spawn."""
    path = f"{Box.scratch}/{filename.rpartition('/')[2]}"
    if Box.rich.own("origins").write(path, source):
        Box.main.__file__ = path
    Box.written = Box.written and (path, None)      # take_back() leaves it


def ignore_interrupts():
    """Called between the runs of a session, when only the runner could be interrupted."""
    Box.on_interrupt = signal(SIGINT, SIG_IGN) or default_int_handler


def heed_interrupts():
    on_interrupt, Box.on_interrupt = Box.on_interrupt, None
    signal(SIGINT, on_interrupt)


def finish(session, forked):
    """Ends a run, or the script outside of a session. Returns False if output was lost."""
    if Box.pyplot and not forked:
        Box.rich.end_of_run()
    return flush_streams() if session and not forked else end_of_script()


def conclude(session, forked):
    """Does finish() despite exceptions of signal handlers, which come too late for the run."""
    for _ in range(LATE_MAX):
        try:
            flushed = finish(session, forked)
            if session:
                ignore_interrupts()
            return flushed
        except BaseException:
            pass
    return True


def state_of(session):
    """A piece of JSON: how the run changed the variables."""
    try:
        text = list_changes(Box.main.__dict__, Box.codes, session)
    except Exception:
        text = ""           # no memory, or a thread changes them at the same time
    return f',"execution_count":{Box.runs}{text}' if session else text


def tell_imports(answer):
    """Reports modules that warm boxes of this environment may import ahead."""
    try:
        names = Box.rich.own("wheels").imported()
        if names:
            answer["state"] = f'{answer.get("state", "")},"imports":{to_json(names)}'
    except Exception:
        pass                # no memory, or replaced code objects


def encode(answer):
    value, state = answer.pop("result_json", None), answer.pop("state", "")     # JSON text already
    if "error" in answer:
        text = to_json(answer, PAYLOAD_MAX)[:-1]
    else:                   # most answers; the text of a result is clipped, so this cannot fail
        text = f'{{"exit_code":{answer["exit_code"]},"phase":"{answer["phase"]}"'
        if "result" in answer:
            text += f',"result":{quote(answer["result"])}'
    if value is not None:
        text += f',"result_json":{value}'
    if Box.events:
        events, Box.events = Box.events, ()
        text += f',"security_events":{to_json(events)}'
    text += state + "}"
    # Flags are in Box: every run writes to its page anyway.
    return Box.rich.extend(text.encode()) if Box.shown else text.encode()


def name_of_run(meta, session):
    """The file name for tracebacks, different for each run of a session."""
    filename = meta.get("filename") or PLAIN
    return f"{filename[:-1]} {Box.runs}>" if session and filename[0] == "<" else filename


def renew():
    """Seeds the random numbers of this box."""
    for call in Box.renewals:
        call()
    if Box.seed_numpy is None and "numpy.random" in modules:
        Box.seed_numpy = modules["numpy.random"].seed
        seed_numpy()
        Box.seed_numpy = None


def warm(meta):
    """Imports modules ahead of a run, which must only see them in sys.modules. Reports the first one that fails:
    the box then ends, so a half import does no harm."""
    failed = None
    Box.rich.own("wheels").look_in(meta["path"])
    sys.argv = ["<code>"]
    for name in meta["warm"]:
        try:
            __import__(name)
        except BaseException as exc:
            failed = {"name": clip(name, LINE_MAX), "error": message_of_import(exc)}
            break
        finally:
            regain()
    if getpid() != Box.pid:
        _exit(1)
    if failed is None:
        new_main()
        renew()
        collect()           # or the collection at the end of a run would visit all imported objects
        freeze()
    flush_streams()
    if Box.flush_all is not None:
        Box.flush_all()     # output of C code of a package
    return to_json({"warm": failed is None, "failed": failed}).encode()


def message_of_import(exc):
    try:
        return clip(f"{type_name(exc)}: {message_of(exc)}", LINE_MAX)
    except BaseException:
        return "its exception cannot be described"


def install(meta):
    """Installs packages instead of a run: see installer.py. No user code ever runs in such a box."""
    Box.session = False
    sys.path.insert(0, HERE)
    return __import__("installer").payload(meta)


def handle(meta, source):
    """Does one run from the gate; returns the payload to answer with."""
    meta = scan_json(meta.decode(), 0)[0] if meta else {}
    if "install" in meta:
        return install(meta)
    if "warm" in meta:
        return warm(meta)
    if "fresh" in meta and not Box.has_copies:
        return Box.rich.own("fresh").apart(meta, source, handle, renew, heed_interrupts, ignore_interrupts)
    if "policy" in meta:
        payload = Box.rich.own("policed").before(meta, source)
        if payload is not None:
            return payload          # a check, or code that was refused
    undoing = Box.has_copies or Box.undo and ("checkpoint" in meta or "op" in meta)
    if undoing:
        payload = Box.undo.before(meta)
        if payload is not None:
            return payload
    if "look" in meta:
        return Box.rich.own("look").payload(meta, source, heed_interrupts, ignore_interrupts)
    if "path" in meta:
        Box.rich.own("wheels").look_in(meta["path"])
    Box.named = NAMED if "named_result" in meta else ()
    session = Box.session = meta.get("mode") == "session"
    counts = not session or source.strip() != b""   # as in IPython an empty cell has no number
    Box.runs += counts
    filename = name_of_run(meta, session)
    sys.argv = list(meta.get("argv") or [filename])
    if not filename.startswith("<"):
        write_script(filename, source)
    source, code = recoded(source, filename) if b"coding" in source else (source, source)
    if filename[0] == "<" and (b"__main__" in source or b"__file__" in source):
        Box.rich.own("origins").write(Box.file, code)
    remember(filename, source)
    if session and counts:
        begin(Box.main.__dict__, source, Box.runs)
    if b"/proc" in source:
        Box.rich.look_for_proc(source)
    if "variables" in meta:
        bring(Box.main.__dict__, meta["variables"])
    if "seed" in meta:
        Box.rich.own("seeding").plant(meta["seed"])
    restore = Box.rich.own("env_vars").bring(meta) if "env" in meta else None
    restore_stdin, Box.no_stdin = None, meta.get("no_stdin")
    try:
        if "stdin" in meta:
            restore_stdin = Box.rich.own("stdin").bring(meta)
        answer = perform(code, filename, Box.main.__dict__, session)
    except OSError as exc:              # of stdin
        answer = {"exit_code": 1, "phase": "execution"}
        explain(exc, answer, filename, session)
    except KeyboardInterrupt:
        answer = dict(INTERRUPTED)      # while the run was described
    except BaseException:
        answer = None       # describing a failure failed
    payload = wind_up(answer, session, "policy" in meta)
    if restore_stdin is not None:
        restore_stdin()
    if restore is not None:
        restore()
    if Box.written:
        Box.rich.own("origins").take_back()
    return Box.undo.extend(payload) if undoing else payload


def wind_up(answer, session=False, policed=False):
    """Ends a run; returns the payload. answer is None if describing the run failed."""
    forked = getpid() != Box.pid
    if forked and answer and "error" in answer and not answer["error"]["reported"]:
        sys.stderr.write(answer["error"]["text"])
    if answer and not session and Box.main is not None and len(Box.main.__dict__) != Box.names:
        answer["state"] = state_of(session)         # before the end releases all names
    flushed = conclude(session, forked)
    if answer and session:
        answer["state"] = state_of(session)
    if answer and Box.wheels:
        tell_imports(answer)
    if answer and not flushed and not session:
        answer["exit_code"] = 120       # as CPython does
    if forked:
        _exit(answer["exit_code"] if answer else 1)
    if policed:
        Box.rich.own("policed").after(answer)
    return encode(answer) if answer else LAST_RESORT


# ---- A new box ----------------------------------------------------------------------------------

def read_input(prompt="", /):
    """input(). Without stdin it says how to give a run some."""
    if getattr(sys, "stdin", None) is not Box.stdin:
        Box.prompt = prompt = str(prompt)
        return Box.input(prompt)        # the run's own, or what the code has put in its place
    if prompt != "":
        sys.stdout.write(str(prompt))
        sys.stdout.flush()
    raise EOFError(Box.no_stdin or NO_STDIN)


read_input.__name__ = read_input.__qualname__ = "input"


def open_stream(fd, name):
    try:
        # Line buffered, for streaming. Output must never fail because of its encoding.
        stream = open(fd, "w" if fd else "r", 1, encoding="utf-8", closefd=False,
                      errors="backslashreplace" if fd else "surrogateescape")
        stream.buffer.raw.name = f"<{name}>"
    except OSError:
        stream = None
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)
    if name == "stdin":
        Box.stdin = stream


def open_streams():
    """Makes new standard streams: those from start-up describe the zygote's descriptors."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        open_stream(fd, name)
    Box.streams = sys.stdout, sys.stderr


def with_pipes(call):
    """Calls a function while descriptors 1 and 2 are pipes, as in a box: streams made now are right for boxes,
    which saves each of them 0.2 ms."""
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
    Box.main.__builtins__, Box.main.__file__ = builtins, Box.file
    Box.names = len(Box.main.__dict__)
    Box.modules = len(modules)


def renewal_of(after_in_child):
    """What a box has to call instead of a module's hook, or None."""
    owner = getattr(after_in_child, "__self__", None)
    if "random" in modules and owner is modules["random"]._inst:
        return None         # see arrange()
    # These renew locks and forget threads, but the zygote has one thread.
    if getattr(after_in_child, "__module__", None) in SINGLE_THREADED:
        return None
    if getattr(after_in_child, "__name__", None) in DONE_ONCE:
        return after_in_child()
    return after_in_child


def seed_numpy():
    """Seeds numpy, or every box would draw the same numbers. With 128 bits: seed() alone would cost a box many
    more pages."""
    Box.seed_numpy([int.from_bytes(urandom(4), "little") for _ in range(4)])


def arrange():
    """Prepares in the zygote what is the same in all boxes: doing it in each took a third of the pages that a
    box copies."""
    Box.path = tuple(sys.path)
    Box.preloaded = frozenset(
        name for name, module in modules.items() if "." not in name and type(module) is type(sys) and
        "-packages/" in str(module.__dict__.get("__file__")))
    Box.excepthook = sys.excepthook
    gc_enable()
    for hook in Box.hooks:
        Box.register_at_fork(**hook)    # for forks in a box: the zygote makes boxes without them
    renewals = [renewal_of(hook.get("after_in_child")) for hook in Box.hooks]
    if "random" in modules:             # a .pth file may have imported it before the zygote saw its hook
        owner = modules["random"]._inst
        owner.gauss_next = None
        renewals.append(super(type(owner), owner).seed)     # the C part of Random.seed()
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
        unregister(logging.shutdown)    # see end_of_script()
        if Box.exitfuncs == [logging.shutdown]:
            clear_exitfuncs()           # unregister() leaves an empty entry
    getpid()                            # binds the symbol here rather than in every box
    signal(SIGINT, default_int_handler) # as in python3, whatever a preload did
    Box.input, builtins.input = builtins.input, read_input
    environ["PYTHONPATH"] = HERE + "children"       # not before: the zygote does not obey it
    sys.path.insert(0, Box.scratch)     # the folder of the script, as in python3
    sys.argv = [PLAIN]
    Box.pid = USER_PID
    Box.reserve = bytes(RESERVE)        # calloc: touches no page


def settle():
    """Does in a new box what differs between boxes."""
    Box.pid = getpid()
    for renew in Box.renewals:
        renew()
    if not Box.streams:
        open_streams()
    sys.path[0] = Box.scratch


def exercises():
    """Code that uses the preloaded modules a little."""
    return [source for name, source in EXERCISES.items() if name in modules]


def practise(source, meta=b""):
    """Does a run as main() does, which touches a page or two more."""
    pending = []
    pending.extend(starmap(tuple, [((meta, source),)]))
    handle(*pending.pop())


def rehearse_least():
    """Does what every run does, in a child that is thrown away. It shows which pages a run writes to; a box
    copies these ahead, at 2 us each instead of 3 us during a run."""
    settle()
    practise(b"1 + 1")


def can_be_plain():
    return not (Box.thread_exits is None or Box.linecache is None or Box.end_logging is None)


def figures():
    """pyplot's own dictionary of open figures, where the zygote has imported it."""
    try:
        return modules["matplotlib._pylab_helpers"].Gcf.figs if Box.pyplot else None
    except Exception:
        return None


def plain_bindings():
    """What plain.c uses in a box, looked up before user code can replace it."""
    return {"box": Box.__dict__, "modules": modules, "sys": sys.__dict__,
            "sources": Box.sources, "streams": Box.streams, "renewals": Box.renewals,
            "gettrace": gettrace, "settrace": settrace, "getprofile": getprofile, "setprofile": setprofile,
            "figures": figures(), "thread_exits": Box.thread_exits, "count_threads": count_threads,
            "log_handlers": Box.log_handlers, "count_exitfuncs": count_exitfuncs,
            "run_exitfuncs": run_exitfuncs, "collect": collect, "get_objects": get_objects,
            "quote": quote, "to_steps": to_steps, "compile_body": compile_body,
            "describe": describe, "wind_up": wind_up, "last_resort": LAST_RESORT}


def rehearse():
    """Also does what runs do often, for boxes that are made ahead of demand: a first run then takes 0.1 ms
    instead of 0.5 ms."""
    if Box.rehearse_plain is not None:
        Box.rehearse_plain()
        new_main()
        Box.rehearse_plain(b"\n".join([b"import sys\nx = [1]\nprint(end='')", *exercises()]))
        new_main()
    settle()
    for source in b"1 + 1", b"import sys\nx = [1]\nx\n", *exercises():
        practise(source, b'{"filename": "<rehearsal>", "argv": [""], "mode": "session"}')
    practise(b"x = 1\nx\n")


def main(*pending):
    """The life of a box's user process. Returns True when the last answer is sent and the box will be ended.
    `pending` is the first run, if the caller has received it and called settle()."""
    if not pending:
        settle()
    pending = [*pending]
    while Box.session:
        try:
            # One call from C, so that an exception of a signal handler cannot lose the run.
            while not pending:
                pending.extend(starmap(receive, [()]))
        except BaseException:
            continue        # a signal came too late for its run
        run, payload = pending.pop(), LAST_RESORT
        if run is None:
            return False
        try:
            payload = handle(*run)
        except BaseException:
            pass            # no memory for the payload, or a signal again
        if getpid() != Box.pid:
            _exit(1)
        if payload:                     # else another process answers: see undo.py
            send(RESULT, payload)
        if Box.afterwards is not None:
            Box.afterwards()
        if Box.reserve is None:         # the last run failed and may have needed it
            Box.reserve = bytes(RESERVE)
    return True


def forget():
    """Removes what the rehearsals left behind."""
    Box.main = modules["__main__"] = None
    for filename in Box.sources:
        modules["linecache"].cache.pop(filename, None)
    Box.sources.clear()
    Box.runs, Box.session, Box.codes, Box.on_interrupt = 0, True, (), None
    forget_history()
    forget_variables()


def prepare():
    """For a warm zygote: binds what need() would look up later, and rehearses runs, one of them with an error."""
    Box.excepthook = sys.excepthook
    for attribute in "run", "new_event_loop", "sleep", "all_tasks", "CancelledError":
        need("asyncio", attribute)
    need("opcode", "opmap")
    need("linecache", "getline")
    for attribute in "a2b_base64", "b2a_base64":
        need("binascii", attribute)
    with_pipes(open_streams)
    linecache = modules["linecache"]
    linecache.cache = Box.linecache = KnownSources(linecache.cache)
    # Often enough for CPython to specialise its code, which every box would otherwise do.
    plain = b"1 +", b"def f():\n    1 / 0\nf()\n", b"x = 1\nx", b"1 + 1"
    main, argv = modules["__main__"], sys.argv
    new_main()
    Box.pid = getpid()
    for source in (*plain, *exercises()) * PRACTICE:
        remember("<rehearsal>", source)
        encode(perform(source, "<rehearsal>", {"__name__": "__main__", "__builtins__": builtins}))
        flush_streams()
        handle(b'{"mode": "session"}', source)
    forget()
    modules["__main__"], sys.argv = main, argv
