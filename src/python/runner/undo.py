# SPDX-License-Identifier: Apache-2.0
"""undo: checkpoints of a session, going back to them, and forks of a session.

Called by runner.handle() in the user process of a box, before the code of a run, when that run or
an earlier one asked for any of this; a session that never asks never comes here. A checkpoint is a
copy of this process that sleeps (box/checkpoint.h) and a snapshot of its files (snapshot.py). Whoever
is woken finds itself inside park() or give_way() of an old run, makes files, descriptors and
random numbers what they were, and answers the run that waits now.

  Here          what this process knows; goes back with the process
  the board     what must not go back: which copies there are; shared by all processes of the box

Steps of undo are counted in runs: a checkpoint knows how many came before it. One without a name
is used up by going back to it; one with a name stays and can be gone back to again. Younger ones
go.

A crash (os._exit, a signal, a mistake of an extension) wakes the youngest checkpoint of the same
fork: the run is an error and the session is as it was before it. Without a checkpoint the fork
is lost; the other forks of the box go on, and one of them says so.
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

from base import __builtins__           # first: functions look builtins up there
from base import Box, LINE_MAX, PAYLOAD_MAX, clip, to_json
from safety import descriptors, open_files, read_proc
import snapshot
from snapshot import Files, Unavailable

KEPT = 8                    # checkpoints of a fork, unless the gate says otherwise
KEPT_MAX = 64
NAME_MAX = 128              # characters
FORKS_MAX = 64
CHECKPOINT, TIP = 1, 2      # enum checkpoint_kind
UNDONE, SWITCHED, CRASHED, DROPPED = 1, 2, 3, 4     # enum checkpoint_why
NO_ANSWER = False           # another process will answer
PAGE = sysconf("SC_PAGE_SIZE")
OPEN_AGAIN = 3 | posix.O_APPEND | posix.O_NONBLOCK      # the flags that a file is opened again with
HOW_TO = ("open the session with checkpoint=true, or make a checkpoint before the run that is to "
          "be undone")


class CheckpointError(Exception):
    """What was asked for cannot be done; the text says why and what can."""


class Here:
    """What this process knows of itself."""
    fork = 0
    files = Files(0, {})    # the last snapshot: what a new one is compared with
    notice = None           # for the answer of this run
    dropped = 0             # checkpoints that made room in this run
    common = None           # bytes of memory that are the zygote's, and most likely stay so
    faults = 0              # of this process, when the costs were settled the last time
    huge = False            # it has huge pages
    ending = []             # slots of copies that are not needed any more


Here = Here()


# ---- The board -----------------------------------------------------------------------------------

def load():
    """points: checkpoints, oldest first; tips: forks that sleep; bases: snapshot by fork."""
    data = native.board()
    board = marshal.loads(data) if data else {"serial": 0, "points": [], "tips": {}, "bases": {}}
    gone = [point for point in board["points"] if not native.alive(point["slot"])]
    for point in gone:      # killed by user code, or for memory
        board["points"].remove(point)
    return board


def save(board):
    native.board(marshal.dumps(board))


def next_serial(board):
    """Before it is used: whatever happens then, no number is given twice."""
    board["serial"] += 1
    save(board)
    return board["serial"]


def own_points(board, fork=None):
    fork = Here.fork if fork is None else fork
    return [point for point in board["points"] if point["fork"] == fork]


def drop_point(board, point):
    """Its process ends with the next collect(): while the kernel takes it apart, making a copy of
    what it shares takes twice the time."""
    board["points"].remove(point)
    Here.ending.append(point["slot"])


def collect(board):
    """Ends copies and removes snapshots that nobody can go back to."""
    while Here.ending:
        native.drop(Here.ending.pop())
    board["bases"][Here.fork] = Here.files.number
    save(board)
    used = {point["files"] for point in board["points"]}
    snapshot.collect(used.union(board["bases"].values()))


# ---- Room ----------------------------------------------------------------------------------------

def sizes():
    """Bytes of memory that a copy may come to have for itself, and the most this process had."""
    if Here.common is None: # once, before the first copy: what is shared now is the zygote's
        Here.common, _ = shared_size()
    words = read_proc("statm").split()
    file = int(words[2]) * PAGE
    now = max(0, int(words[1]) * PAGE - file - Here.common)
    return now, max(now, getrusage(RUSAGE_SELF).ru_maxrss * 1024 - file - Here.common)


def shared_size():
    """How much of this process's memory is shared with others, and how much is in huge pages.
    Takes a millisecond or two where there is much of it."""
    fields = dict([line.split(":", 1) for line in read_proc("smaps_rollup").splitlines()[1:]])
    size = [int(fields[key].split()[0]) * 1024
            for key in ("Anonymous", "Private_Dirty", "AnonHugePages")]
    return size[0] - size[1], size[2]


def settle_cost(point, size, look):
    """What the youngest checkpoint has for itself by now, because this process wrote to it or let
    go of it. Every page that was written to or came new was a fault, so they need not be looked
    for; unless there are huge pages, of which 512 come with one fault: then it is a guess, and
    where there may be no room for one too many they are looked at."""
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
    """Whether another copy fits whatever the others have for themselves: `ever` is the most that
    the whole box had of memory, as the server counts it (0: it cannot), they included."""
    fits = ever > 0 and memory > 0 and \
        max(ever, size) <= min(memory // 2, memory - snapshot.space_used()[0] - peak)
    if fits:
        board["ever"] = max(ever - size, 0)
    return fits


def spread_guesses(board):
    """Room is short now: what the box had when it was not, and nobody was known to have, those
    have whose cost was a guess. Too much rather than too little: they are the first to go."""
    copies = [*board["points"], *board["tips"].values()]
    guesses = [copy for copy in copies if copy.get("guess")]
    missing = board.pop("ever", 0) - sum([copy["cost"] for copy in copies])
    for copy in guesses:
        copy["cost"] = min(copy["size"], copy["cost"] + max(0, missing) // len(guesses))
        copy["guess"] = False


def oldest(points):
    """The next to make room: without a name before those with one."""
    unnamed = [point for point in points if point["name"] is None]
    return (unnamed or points or [None])[0]


def room_left(board, size, peak, memory):
    """Bytes that another copy would leave, should everything be written to that it shares with
    this process. Copies may have half of the box's memory, and must leave what this process ever
    had. The cost of a checkpoint is what it does not share with the next one."""
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
        drop_oldest(f"half of the {processes} processes of the box are copies already")
    while room_left(board, size, peak, memory) < 0:
        drop_oldest(f"the session has {size >> 20} MiB in memory, and a copy of it would not fit "
                    f"into the {memory >> 20} MiB of its box")
    return size, room_left(board, size, peak, memory)


# ---- Going to sleep ------------------------------------------------------------------------------

class Parked:
    """What a process that goes to sleep has to find again."""
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
        if self.generator is not None:  # which its hook sows anew in every child
            self.numbers = Random.getstate(generator), getattr(generator, "gauss_next", None)


def begin():
    try:
        native.begin()
    except OSError as exc:
        raise Unavailable(f"the interpreter could not be copied: {exc.strerror}") from None
    finally:
        Box.pid = getpid()
    Box.has_copies = True


def park(board, parked, keep, extra):
    """Makes the copy. Here: the copy's place on the board; in the copy, later: its answer."""
    try:
        slot = native.park(parked.fork, parked.serial, parked.kind, keep)
    except OSError as exc:
        raise Unavailable(f"the interpreter could not be copied: {exc.strerror}") from None
    if type(slot) is tuple:
        return wake_up(slot, parked)
    return {"slot": slot, "fork": parked.fork, "serial": parked.serial, **extra}


def prepare(board, meta):
    """All that can be in the way of a copy, and the snapshot of the files that belongs to it."""
    files = open_files()
    most, ever = meta.get("checkpoints_max"), meta.get("memory_ever")
    size, room = make_room(board, min(most, KEPT_MAX) if type(most) is int and most > 0 else KEPT,
                           ever if type(ever) is int else 0)
    begin()
    try:
        Here.files = snapshot.take(next_serial(board), Here.files, room)
    except OSError as exc:
        raise Unavailable(f"its files could not be looked at: {exc.strerror}") from None
    return files, size


def make_point(board, meta, name):
    """A checkpoint of this fork. None, or in the copy an answer."""
    files, size = prepare(board, meta)
    parked = Parked(CHECKPOINT, Here.fork, next_serial(board), name, files)
    point = park(board, parked, name is not None,
                 {"name": name, "runs": Box.runs, "files": Here.files.number,
                  "size": size, "now": size, "cost": 0})
    if type(point) is not dict:
        return point
    for other in own_points(board):
        if name is not None and other["name"] == name:
            drop_point(board, other)
    board["points"].append(point)
    collect(board)
    return None


# ---- Waking up -----------------------------------------------------------------------------------

def bring_back_place(parked):
    """Folder, open files, random numbers."""
    if parked.generator is not None:
        Random.setstate(parked.generator, parked.numbers[0])
        parked.generator.gauss_next = parked.numbers[1]
    for folder in parked.folder, Box.scratch:
        try:
            chdir(folder)
            break
        except OSError:
            pass
    for fd, path, inode, flags, offset in parked.open_files:
        try:
            if path.startswith(Box.scratch + "/") and lstat(path).st_ino != inode:
                again = open_fd(path, flags & OPEN_AGAIN | posix.O_NOFOLLOW | posix.O_CLOEXEC)
                dup2(again, fd, not flags & posix.O_CLOEXEC)
                close(again)
            lseek(fd, offset, 0)
        except OSError:
            pass            # it was removed before the checkpoint, or is not there to be read


def bring_back_files(board, parked, why, previous):
    if parked.kind == CHECKPOINT:
        Here.files = snapshot.restore(Here.files)
        return
    if why != SWITCHED:     # the fork that had the folder is no more
        snapshot.wipe(snapshot.root())
    if parked.fresh:
        parked.fresh = False
        Here.files = snapshot.restore(Here.files)
    else:
        Here.files = snapshot.swap_in(parked.fork, Here.files, parked.clean)


def forget_fork(board, fork):
    for point in own_points(board, fork):
        drop_point(board, point)
    board["bases"].pop(fork, None)
    tip = board["tips"].pop(fork, None)
    if tip is not None:
        native.drop(tip["slot"])


def take_place(board, parked, why, previous, consumed):
    """What the board has to say now that this process is the active one."""
    if parked.kind == TIP:
        board["tips"].pop(parked.fork, None)
        if why != SWITCHED:
            forget_fork(board, previous)
        return
    for point in own_points(board, parked.fork):
        if point["serial"] > parked.serial or consumed and point["serial"] == parked.serial:
            drop_point(board, point)


def wake_up(woken, parked):
    """Makes this process the active one of its fork. Returns what it has to answer."""
    why, status, previous, asked, consumed = woken
    Box.pid = getpid()
    Here.fork, Here.dropped, problem = parked.fork, 0, None
    Here.faults = getrusage(RUSAGE_SELF).ru_minflt
    Here.ending = []        # those of the one that this is a copy of
    board = load()
    take_place(board, parked, why, previous, consumed)
    try:
        bring_back_files(board, parked, why, previous)
    except (OSError, Unavailable) as exc:
        problem = exc.strerror if isinstance(exc, OSError) else str(exc)
    bring_back_place(parked)
    collect(board)
    native.settled()
    if why == SWITCHED or not asked:
        return NO_ANSWER    # the run that waits is for this fork: it is received again
    if why == CRASHED:
        return tell_crash(status, parked, problem)
    if problem:
        return failure(f"the variables were brought back, but not all files: {problem}")
    return success("restored" if why == UNDONE else None, parked.name)


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


def tell_crash(status, parked, problem):
    number = status & 0x7F
    code = 128 + number if number else status >> 8 & 0xFF
    cause = f"was ended by {signal_name(number)}" if number else f"ended itself with status {code}"
    if parked.kind == TIP:
        message = (f"the interpreter {cause} and had no checkpoint: its variables and files are "
                   "lost; open a new session")
        return failure(message, "InterpreterCrash", code or 1, notice("lost"))
    message = (f"the interpreter {cause}; the session is as it was before run {Box.runs + 1}")
    if problem:
        message = f"{message}, but for files: {problem}"
    return failure(message, "InterpreterCrash", code or 1, notice("restored", parked.name, "crash"))


def tidy(board):
    """After a checkpoint that did not come about: those that made room are gone all the same."""
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
        raise CheckpointError(f"the name of a checkpoint has 1 to {NAME_MAX} characters")
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
                          + (f"there are {names}" if names else "none has a name"))


def find_steps(points, steps):
    if type(steps) is not int or steps < 1:
        raise CheckpointError("steps is a number of runs, 1 or more")
    back = {}               # steps -> checkpoint; of two of one state, the one to be used up
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
        native.give_way(point["slot"], UNDONE, -1)      # the end of this process
    except OSError:
        raise CheckpointError("the checkpoint is gone: its process was ended") from None


def fork(board, meta):
    fork = meta.get("new_fork")
    if type(fork) is not int or not 0 <= fork < 1 << 32 or fork == Here.fork or \
            fork in board["tips"]:
        raise CheckpointError("new_fork is the number of a fork that does not exist yet")
    if len(board["tips"]) + 1 >= FORKS_MAX:
        raise CheckpointError(f"a session can have {FORKS_MAX} forks at one time: close one")
    try:
        files, size = prepare(board, {"checkpoints_max": KEPT_MAX})
        parked = Parked(TIP, fork, next_serial(board), open_files=files, fresh=True)
        tip = park(board, parked, False, {"cost": size})
    except Unavailable as exc:
        tidy(board)
        reason = f"checkpoint unavailable: {exc}"
        return failure(f"the session cannot be forked: {reason}",
                       told=notice("unavailable", reason=reason))
    if type(tip) is not dict:
        return tip
    board["tips"][fork] = tip
    board["bases"][fork] = Here.files.number
    collect(board)
    return success("made")


def switch(board, fork):
    """Lets another fork go on; returns when this one shall."""
    tip = board["tips"].get(fork)
    if tip is None or not native.alive(tip["slot"]):
        raise CheckpointError("the interpreter of this session is gone, with its variables and "
                              "files: open a new session")
    parked = Parked(TIP, Here.fork, next_serial(board), open_files=descriptors())
    slot = native.reserve(Here.fork, parked.serial)
    parked.clean = snapshot.swap_out(Here.fork, Here.files)
    board["tips"].pop(fork)
    board["tips"][Here.fork] = {"slot": slot, "fork": Here.fork, "serial": parked.serial,
                                  "cost": sizes()[0]}
    save(board)
    try:
        woken = native.give_way(tip["slot"], SWITCHED, slot)
    except OSError:
        native.drop(slot)
        board["tips"].pop(Here.fork)
        Here.files = snapshot.swap_in(Here.fork, Here.files, parked.clean)
        save(board)
        raise CheckpointError("the interpreter of this session was ended") from None
    return wake_up(woken, parked)


def drop(board, meta):
    fork = meta.get("fork", 0)
    if fork == Here.fork:
        others = [tip for tip in board["tips"].values() if native.alive(tip["slot"])]
        if not others:
            raise CheckpointError("this is the last fork of its box, which ends with its session")
        forget_fork(board, fork)
        collect(board)
        native.give_way(others[-1]["slot"], DROPPED, -1)
    if fork not in board["tips"]:
        raise CheckpointError("there is no such fork")
    forget_fork(board, fork)
    snapshot.forget_fork(fork)
    collect(board)
    return success(None)


def select(board, meta):
    return success(None)


OPERATIONS = {"run": run, "checkpoint": checkpoint, "undo": undo, "fork": fork, "select": select}


def operate(meta):
    board, op = load(), meta.get("op", "run")
    if op == "drop":        # which a fork must not be woken for
        return drop(board, meta)
    if op not in OPERATIONS:
        raise CheckpointError("op is one of run, checkpoint, undo, fork, select, drop")
    fork = meta.get("fork", 0)
    if fork != Here.fork:
        return switch(board, fork)
    return OPERATIONS[op](board, meta)


def before(meta):
    """Called before a run. None: the run goes on; else what is to be answered, or NO_ANSWER."""
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
    except KeyboardInterrupt:           # it came meanwhile
        return answer if answer is not None else failure("", "KeyboardInterrupt", 130)
    return answer


def extend(payload):
    """The answer of a run with what became of its checkpoint."""
    if Here.notice is None:
        return payload
    state, reason = Here.notice
    Here.notice = None
    text = to_json(notice(state, None, reason)).encode()
    if len(payload) + len(text) + 20 > PAYLOAD_MAX:
        return payload
    return b'%b,"checkpoint":%b}' % (payload[:-1], text)
