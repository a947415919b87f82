# SPDX-License-Identifier: Apache-2.0
"""undo: checkpoints of a session, going back to them, and forks of a session.

Called by runner.handle() in the user process of a box, before the code of a run, if that run or an
earlier one uses any of this. A checkpoint is a sleeping copy of this process (box/checkpoint.h) and a
snapshot of its files (snapshot.py). A copy that is woken continues inside sleep_copy() or give_way() of an old run, restores
files, descriptors and random numbers, and answers the run that is waiting.

  Here          the state of this process; an undo restores it
  the board     which copies exist; shared by all processes of the box, and never undone
  a fork        one line of history, with its own variables and files; 0 is the first

Steps of an undo are counted in runs: a checkpoint knows how many came before it. Going back to a
checkpoint without a name uses it up; one with a name stays. Younger checkpoints are dropped.

A crash (os._exit, a signal, an error in an extension) wakes the youngest checkpoint of the same fork:
the run is an error and the session is as it was before the run. Without a checkpoint the fork is lost;
another fork of the box goes on and reports it.
"""

import _constrictor as native
import _signal
import marshal
import posix
from _random import Random
from _signal import SIG_BLOCK, SIG_SETMASK, SIGINT, pthread_sigmask
from posix import chdir, close, dup2, getcwd, getpid, lseek, lstat, open as open_fd, sysconf
from resource import RUSAGE_SELF, getrusage
from sys import modules
from time import time_ns

from base import __builtins__           # first: functions look builtins up there
from base import Box, LINE_MAX, PAYLOAD_MAX, clip, to_json
from safety import descriptors, open_files, read_proc
import snapshot
from snapshot import Files, Unavailable

KEPT = 8                    # checkpoints of a fork, unless the gate sets another number
KEPT_MAX = 64
NAME_MAX = 128              # characters
CODE_MAX = 200              # of the source in the tree of checkpoints
FORKS_MAX = 64
CHECKPOINT, TIP = 1, 2      # enum checkpoint_kind; a TIP is the present of a sleeping fork
UNDONE, SWITCHED, CRASHED, DROPPED = 1, 2, 3, 4     # enum checkpoint_why
NO_ANSWER = False           # another process answers
PAGE = sysconf("SC_PAGE_SIZE")
OPEN_AGAIN = 3 | posix.O_APPEND | posix.O_NONBLOCK      # flags that are kept when a file is opened again
HOW_TO = ("open the session with checkpoint=true, or make a checkpoint before a run that you may "
          "want to undo")


class CheckpointError(Exception):
    """The request cannot be done; the text says why, and what can be done."""


class Here:
    """The state of this process."""
    fork = 0
    files = Files(0, {})    # the last snapshot, to which a new one is compared
    notice = None           # about checkpoints, for the answer of this run
    dropped = 0             # checkpoints dropped in this run to make room
    common = None           # bytes of memory shared with the zygote, most likely for good
    faults = 0              # page faults of this process at the last settle_cost()
    huge = False            # this process has huge pages
    ending = []             # numbers of copies that collect() ends


Here = Here()


# ---- The board -----------------------------------------------------------------------------------

def load():
    """Reads the board. points: checkpoints, oldest first; tips: sleeping forks; bases: snapshot of each fork."""
    data = native.board()
    board = marshal.loads(data) if data else {"serial": 0, "points": [], "tips": {}, "bases": {}}
    gone = [point for point in board["points"] if not native.alive(point["number"])]
    for point in gone:      # killed by user code, or for memory
        board["points"].remove(point)
    return board


def save(board):
    native.board(marshal.dumps(board))


def next_serial(board):
    """A new number, saved before its use so that none is given out twice."""
    board["serial"] += 1
    save(board)
    return board["serial"]


def own_points(board, fork=None):
    fork = Here.fork if fork is None else fork
    return [point for point in board["points"] if point["fork"] == fork]


def drop_point(board, point):
    """Drops a checkpoint; collect() ends its process later, because making a copy takes twice the time while the
    kernel frees a process that shares memory."""
    board["points"].remove(point)
    Here.ending.append(point["number"])


def collect(board):
    """Ends dropped copies and removes unused snapshots."""
    while Here.ending:
        native.drop(Here.ending.pop())
    board["bases"][Here.fork] = Here.files.number
    save(board)
    used = {point["files"] for point in board["points"]}
    snapshot.collect(used.union(board["bases"].values()), {point["serial"] for point in board["points"]})


# ---- Room ----------------------------------------------------------------------------------------

def sizes():
    """(bytes that a copy may need for itself, the most that this process ever had)."""
    if Here.common is None: # once, before the first copy: all shared memory is the zygote's
        Here.common, _ = shared_size()
    words = read_proc("statm").split()
    file = int(words[2]) * PAGE
    now = max(0, int(words[1]) * PAGE - file - Here.common)
    return now, max(now, getrusage(RUSAGE_SELF).ru_maxrss * 1024 - file - Here.common)


def shared_size():
    """(bytes of this process shared with others, bytes in huge pages). Takes 1-2 ms for much memory."""
    fields = dict([line.split(":", 1) for line in read_proc("smaps_rollup").splitlines()[1:]])
    size = [int(fields[key].split()[0]) * 1024
            for key in ("Anonymous", "Private_Dirty", "AnonHugePages")]
    return size[0] - size[1], size[2]


def settle_cost(point, size, look):
    """Updates the memory that only the youngest checkpoint has, because this process wrote to the page or
    freed it. Page faults count the pages that were written or are new, except for huge pages, where one
    fault maps 512 pages: then the cost is a guess, and `look` measures it."""
    faults = getrusage(RUSAGE_SELF).ru_minflt
    written, Here.faults = (faults - Here.faults) * PAGE, faults
    if size - point["now"] > written:
        Here.huge = True
    point["guess"] = Here.huge and not look
    if Here.huge and look:
        shared, huge = shared_size()
        cost = max(0, point["size"] + Here.common - shared)
        Here.huge = huge > 0
    else:
        cost = point["cost"] + written + max(0, point["now"] - size)
    point["cost"], point["now"] = min(cost, point["size"]), size


def has_room(board, size, peak, memory, ever):
    """Does another copy fit in any case? `ever` is the most memory that the whole box had, as the server
    counts it, 0 if unknown."""
    fits = ever > 0 and memory > 0 and \
        max(ever, size) <= min(memory // 2, memory - snapshot.space_used()[0] - peak)
    if fits:
        board["ever"] = max(ever - size, 0)
    return fits


def spread_guesses(board):
    """Called when memory is short: spreads memory of the box that no copy accounts for over the copies whose
    cost is a guess. Rather too much than too little: these are dropped first."""
    copies = [*board["points"], *board["tips"].values()]
    guesses = [copy for copy in copies if copy.get("guess")]
    missing = board.pop("ever", 0) - sum([copy["cost"] for copy in copies])
    for copy in guesses:
        copy["cost"] = min(copy["size"], copy["cost"] + max(0, missing) // len(guesses))
        copy["guess"] = False


def oldest(points):
    """The next checkpoint to drop: unnamed ones first."""
    unnamed = [point for point in points if point["name"] is None]
    return (unnamed or points or [None])[0]


def room_left(board, size, peak, memory):
    """Bytes that another copy would leave free if all memory that it shares were written to. Copies may use
    half of the box's memory, and must leave the most that this process ever had. The cost of a checkpoint
    is what it does not share with the next one."""
    if not memory:
        return snapshot.COPY_MAX
    copies = size + sum([copy["cost"] for copy in (*board["points"], *board["tips"].values())])
    return min(memory // 2 - copies, memory - snapshot.space_used()[0] - peak - copies)


def make_room(board, most, ever):
    """Drops checkpoints until another copy fits. Returns its size and the room for files."""
    memory, processes = native.limits()
    own, (size, peak) = own_points(board), sizes()
    short = not has_room(board, size, peak, memory, ever)
    if own:
        settle_cost(own[-1], size, short)
    if short:
        spread_guesses(board)

    def too_many():
        return len(own) >= most or \
            len(board["points"]) + len(board["tips"]) >= max(1, processes // 2)

    def drop_oldest(otherwise):
        if not own:
            raise Unavailable(otherwise)
        point = oldest(own)
        own.remove(point)
        drop_point(board, point)
        Here.dropped += 1

    while too_many():
        drop_oldest(f"copies already use half of the {processes} processes of the box")
    while room_left(board, size, peak, memory) < 0:
        drop_oldest(f"the session uses {size >> 20} MiB of memory, and a copy does not fit "
                    f"into the {memory >> 20} MiB of its box")
    return size, room_left(board, size, peak, memory)


# ---- Going to sleep ------------------------------------------------------------------------------

class Sleeper:
    """What a sleeping process restores when it is woken."""
    def __init__(self, kind, fork, serial, name=None, open_files=(), fresh=False):
        self.kind, self.fork, self.serial, self.name = kind, fork, serial, name
        self.open_files, self.fresh = open_files, fresh
        self.clean = ()
        try:
            self.folder = getcwd()
        except OSError:
            self.folder = Box.scratch
        generator = getattr(modules.get("random"), "_inst", None)
        self.generator = generator if isinstance(generator, Random) else None
        if self.generator is not None:  # its fork hook seeds it again in every child
            self.numbers = Random.getstate(generator), getattr(generator, "gauss_next", None)


def begin():
    try:
        native.begin()
    except OSError as exc:
        raise Unavailable(f"the interpreter could not be copied: {exc.strerror}") from None
    finally:
        Box.pid = getpid()
    Box.has_copies = True


def sleep_copy(board, sleeper, keep, extra):
    """Makes the copy. Returns its entry for the board; in the copy, when it is woken, the answer."""
    try:
        number = native.sleep(sleeper.fork, sleeper.serial, sleeper.kind, keep)
    except OSError as exc:
        raise Unavailable(f"the interpreter could not be copied: {exc.strerror}") from None
    if type(number) is tuple:
        return wake_up(number, sleeper)
    return {"number": number, "fork": sleeper.fork, "serial": sleeper.serial, **extra}


def prepare(board, meta):
    """Checks whether a copy is possible, and takes the snapshot of the files for it."""
    files = open_files()
    most, ever = meta.get("checkpoints_max"), meta.get("memory_ever")
    size, room = make_room(board, min(most, KEPT_MAX) if type(most) is int and most > 0 else KEPT,
                           ever if type(ever) is int else 0)
    begin()
    try:
        Here.files = snapshot.take(next_serial(board), Here.files, room)
    except OSError as exc:
        raise Unavailable(f"its files could not be read: {exc.strerror}") from None
    return files, size


def now_ms():
    return time_ns() // 1_000_000


def last_code():
    """The beginning of the source that led here."""
    source = Box.inputs[-1] if type(Box.inputs) is list and Box.inputs else ""
    return clip(source[:CODE_MAX], CODE_MAX) if type(source) is str else ""


def make_point(board, meta, name):
    """Makes a checkpoint of this fork. Returns None; in the copy, when it is woken, the answer."""
    files, size = prepare(board, meta)
    sleeper = Sleeper(CHECKPOINT, Here.fork, next_serial(board), name, files)
    point = sleep_copy(board, sleeper, name is not None,
                 {"name": name, "runs": Box.runs, "files": Here.files.number,
                  "size": size, "now": size, "cost": 0, "at": now_ms(), "code": last_code()})
    if type(point) is not dict:
        return point
    Box.rich.own("marks").note(point["serial"], Here.files.entries)
    for other in own_points(board):
        if name is not None and other["name"] == name:
            drop_point(board, other)
    board["points"].append(point)
    collect(board)
    return None


# ---- Waking up -----------------------------------------------------------------------------------

def restore_state(sleeper):
    """Restores the working folder, open files and random numbers."""
    if sleeper.generator is not None:
        Random.setstate(sleeper.generator, sleeper.numbers[0])
        sleeper.generator.gauss_next = sleeper.numbers[1]
    for folder in sleeper.folder, Box.scratch:
        try:
            chdir(folder)
            break
        except OSError:
            pass
    for fd, path, inode, flags, offset in sleeper.open_files:
        try:
            if path.startswith(Box.scratch + "/") and lstat(path).st_ino != inode:
                again = open_fd(path, flags & OPEN_AGAIN | posix.O_NOFOLLOW | posix.O_CLOEXEC)
                dup2(again, fd, not flags & posix.O_CLOEXEC)
                close(again)
            lseek(fd, offset, 0)
        except OSError:
            pass            # it was removed before the checkpoint, or cannot be read


def restore_files(board, sleeper, why, previous):
    if sleeper.kind == CHECKPOINT:
        Here.files = snapshot.restore(Here.files)
        return
    if why != SWITCHED:     # the fork that had the folder is gone
        snapshot.wipe(snapshot.root())
    if sleeper.fresh:
        sleeper.fresh = False
        Here.files = snapshot.restore(Here.files)
    else:
        Here.files = snapshot.swap_in(sleeper.fork, Here.files, sleeper.clean)


def forget_fork(board, fork):
    for point in own_points(board, fork):
        drop_point(board, point)
    board["bases"].pop(fork, None)
    tip = board["tips"].pop(fork, None)
    if tip is not None:
        native.drop(tip["number"])


def update_board(board, sleeper, why, previous, consumed):
    """Updates the board when this process becomes the active one."""
    if sleeper.kind == TIP:
        board["tips"].pop(sleeper.fork, None)
        if why != SWITCHED:
            forget_fork(board, previous)
        return
    for point in own_points(board, sleeper.fork):
        if point["serial"] > sleeper.serial or consumed and point["serial"] == sleeper.serial:
            drop_point(board, point)


def wake_up(woken, sleeper):
    """Makes this process the active one. Returns its answer."""
    why, status, previous, asked, consumed = woken
    Box.pid = getpid()
    Here.fork, Here.dropped, problem = sleeper.fork, 0, None
    Here.faults = getrusage(RUSAGE_SELF).ru_minflt
    Here.ending = []        # the original's
    board = load()
    update_board(board, sleeper, why, previous, consumed)
    try:
        restore_files(board, sleeper, why, previous)
    except (OSError, Unavailable) as exc:
        problem = exc.strerror if isinstance(exc, OSError) else str(exc)
    restore_state(sleeper)
    collect(board)
    native.settled()
    if why == SWITCHED or not asked:
        return NO_ANSWER    # this fork receives the waiting run again
    if why == CRASHED:
        return tell_crash(status, sleeper, problem)
    if problem:
        return failure(f"the variables were restored, but not all files: {problem}")
    return success("restored" if why == UNDONE else None, sleeper.name)


# ---- Answers -------------------------------------------------------------------------------------

def notice(state, name=None, reason=None):
    try:
        points = own_points(load())
    except Exception:
        points = []
    steps = {Box.runs - point["runs"] for point in points if point["runs"] < Box.runs}
    told = {"state": state, "kept": len(points), "available": len(steps)}
    if name is not None:
        told["name"] = clip(name, NAME_MAX)
    if reason is not None:
        told["reason"] = clip(reason, LINE_MAX)
    if Here.dropped:
        told["dropped"] = Here.dropped
    return told


def encode(answer):
    return to_json(answer).encode()


def success(state, name=None):
    answer = {"exit_code": 0, "phase": "execution", "execution_count": Box.runs}
    if state is not None:
        answer["checkpoint"] = notice(state, name)
    return encode(answer)


def failure(message, kind="CheckpointError", exit_code=1, told=None):
    message = clip(message, 4 * LINE_MAX)
    answer = {"exit_code": exit_code, "phase": "execution", "execution_count": Box.runs,
              "error": {"type": kind, "message": message, "line": None, "column": None,
                        "code_line": None, "traceback": [], "text": f"{kind}: {message}\n",
                        "reported": False}}
    if told is not None:
        answer["checkpoint"] = told
    return encode(answer)


def signal_name(number):
    for name, value in vars(_signal).items():
        if name.startswith("SIG") and "_" not in name and value == number:
            return name
    return f"signal {number}"


def tell_crash(status, sleeper, problem):
    number = status & 0x7F
    code = 128 + number if number else status >> 8 & 0xFF
    cause = f"was ended by {signal_name(number)}" if number else f"exited with status {code}"
    if sleeper.kind == TIP:
        message = (f"the interpreter {cause} and had no checkpoint: its variables and files are "
                   "lost; open a new session")
        return failure(message, "InterpreterCrash", code or 1, notice("lost"))
    message = (f"the interpreter {cause}; the session is as it was before run {Box.runs + 1}")
    if problem:
        message = f"{message}, except for files: {problem}"
    return failure(message, "InterpreterCrash", code or 1, notice("restored", sleeper.name, "crash"))


def tidy(board):
    """Called when a checkpoint fails: ends the copies that were dropped for it."""
    if Here.ending:
        collect(board)


# ---- Operations ----------------------------------------------------------------------------------

def run(board, meta):
    if not meta.get("checkpoint"):
        return None
    try:
        Here.notice = "made", None
        return make_point(board, meta, None)
    except Unavailable as exc:
        tidy(board)
        Here.notice = "unavailable", f"checkpoint unavailable: {exc}"
        return None


def checkpoint(board, meta):
    name = meta.get("name")
    if name is not None and (type(name) is not str or not 0 < len(name) <= NAME_MAX):
        raise CheckpointError(f"the name of a checkpoint must have 1 to {NAME_MAX} characters")
    try:
        answer = make_point(board, meta, name)
    except Unavailable as exc:
        tidy(board)
        reason = f"checkpoint unavailable: {exc}"
        return failure(reason, told=notice("unavailable", name, reason))
    return success("made", name) if answer is None else answer


def find_named(points, name):
    for point in points:
        if point["name"] == name:
            return point
    names = ", ".join([repr(point["name"]) for point in points if point["name"] is not None])
    raise CheckpointError(f"no checkpoint is named {clip(repr(name), NAME_MAX)}: "
                          + (f"use one of {names}" if names else "none has a name"))


def find_steps(points, steps):
    if type(steps) is not int or steps < 1:
        raise CheckpointError("steps must be a number of runs, 1 or more")
    back = {}               # steps -> checkpoint; of two for one state, the unnamed one
    for point in points:
        distance = Box.runs - point["runs"]
        if distance > 0 and (point["name"] is None or distance not in back):
            back[distance] = point
    if steps in back:
        return back[steps]
    if not back:
        raise CheckpointError(f"no run of this session can be undone: {HOW_TO}")
    known = ", ".join([str(number) for number in sorted(back)])
    raise CheckpointError(f"there is no checkpoint {steps} runs back: steps can be {known}")


def undo(board, meta):
    points = own_points(board)
    if not points:
        raise CheckpointError(f"this session has no checkpoint: {HOW_TO}")
    name = meta.get("name")
    if name is not None:
        point = find_named(points, name)
    else:
        point = find_steps(points, meta.get("steps", 1))
    save(board)
    try:
        native.give_way(point["number"], UNDONE, -1)      # the end of this process
    except OSError:
        raise CheckpointError("the checkpoint is gone: its process has ended") from None


def fork(board, meta):
    fork = meta.get("new_fork")
    if type(fork) is not int or not 0 <= fork < 1 << 32 or fork == Here.fork or \
            fork in board["tips"]:
        raise CheckpointError("new_fork must be a new number")
    if len(board["tips"]) + 1 >= FORKS_MAX:
        raise CheckpointError(f"a session can have {FORKS_MAX} forks at one time: close one")
    try:
        files, size = prepare(board, {"checkpoints_max": KEPT_MAX})
        sleeper = Sleeper(TIP, fork, next_serial(board), open_files=files, fresh=True)
        tip = sleep_copy(board, sleeper, False, {"cost": size})
    except Unavailable as exc:
        tidy(board)
        reason = f"checkpoint unavailable: {exc}"
        return failure(f"the session cannot be forked: {reason}",
                       told=notice("unavailable", reason=reason))
    if type(tip) is not dict:
        return tip
    board["tips"][fork] = tip
    board["bases"][fork] = Here.files.number
    origins, points = board.setdefault("origins", {}), own_points(board)
    origins[fork] = Here.fork, points[-1]["serial"] if points else 0, Box.runs, now_ms()
    while len(origins) > 2 * FORKS_MAX:
        del origins[next(iter(origins))]
    collect(board)
    return success("made")


def switch(board, fork):
    """Wakes another fork; returns when this one is woken."""
    tip = board["tips"].get(fork)
    if tip is None or not native.alive(tip["number"]):
        raise CheckpointError("the interpreter of this session is gone, with its variables and "
                              "files: open a new session")
    sleeper = Sleeper(TIP, Here.fork, next_serial(board), open_files=descriptors())
    number = native.reserve(Here.fork, sleeper.serial)
    sleeper.clean = snapshot.swap_out(Here.fork, Here.files)
    board["tips"].pop(fork)
    board["tips"][Here.fork] = {"number": number, "fork": Here.fork, "serial": sleeper.serial,
                                  "cost": sizes()[0]}
    save(board)
    try:
        woken = native.give_way(tip["number"], SWITCHED, number)
    except OSError:
        native.drop(number)
        board["tips"].pop(Here.fork)
        Here.files = snapshot.swap_in(Here.fork, Here.files, sleeper.clean)
        save(board)
        raise CheckpointError("the interpreter of this session has ended") from None
    return wake_up(woken, sleeper)


def drop(board, meta):
    fork = meta.get("fork", 0)
    if fork == Here.fork:
        others = [tip for tip in board["tips"].values() if native.alive(tip["number"])]
        if not others:
            raise CheckpointError("this is the last fork of its box: close the session instead")
        forget_fork(board, fork)
        collect(board)
        native.give_way(others[-1]["number"], DROPPED, -1)
    if fork not in board["tips"]:
        raise CheckpointError("there is no such fork")
    forget_fork(board, fork)
    snapshot.forget_fork(fork)
    collect(board)
    return success(None)


def select(board, meta):
    return success(None)


def look(board, meta):
    """The right fork is awake: look.py does the rest."""


OPERATIONS = {"run": run, "checkpoint": checkpoint, "undo": undo, "fork": fork, "select": select, "look": look}


def operate(meta):
    board, op = load(), meta.get("op", "run")
    if op == "drop":        # without waking the fork
        return drop(board, meta)
    if op not in OPERATIONS:
        raise CheckpointError("op must be one of run, checkpoint, undo, fork, select, look, drop")
    fork = meta.get("fork", 0)
    if fork != Here.fork:
        return switch(board, fork)
    return OPERATIONS[op](board, meta)


def before(meta):
    """Called before a run. Returns None if the run goes on, else the answer or NO_ANSWER."""
    Here.notice, Here.dropped = None, 0
    answer, mask = None, pthread_sigmask(SIG_BLOCK, (SIGINT,))
    try:
        answer = operate(meta)
    except CheckpointError as exc:
        answer = failure(str(exc))
    except Exception as exc:
        answer = failure(f"{type(exc).__name__}: {clip(str(exc), LINE_MAX)}")
    try:
        pthread_sigmask(SIG_SETMASK, mask)
    except KeyboardInterrupt:           # while it was blocked
        return answer if answer is not None else failure("", "KeyboardInterrupt", 130)
    return answer


def extend(payload):
    """Adds the outcome of its checkpoint to the answer of a run."""
    if Here.notice is None:
        return payload
    state, reason = Here.notice
    Here.notice = None
    text = to_json(notice(state, None, reason)).encode()
    if len(payload) + len(text) + 20 > PAYLOAD_MAX:
        return payload
    return b'%b,"checkpoint":%b}' % (payload[:-1], text)
