# SPDX-License-Identifier: Apache-2.0
"""session: what stays from one run of a session to the next, beside the variables themselves.

Called by runner.py in the user process of a box. Names and numbers are IPython's, because people and
models know them: In and Out, _, __ and ___, _3 and _i3. The event loop stays as well: a task that one
run began goes on in the next.
"""

import builtins

from base import __builtins__           # first: functions look builtins up there
from base import Box, need
from source import COROUTINE

# Without an end to it a session would keep every table that it ever showed. IPython keeps 1,000
# values; a session of ours often has less memory than a notebook has.
OUT_MAX = 100               # values in Out; the oldest goes first
NAMES_MAX = 20              # names like _i3; In has them all
IN_MAX = 1000               # sources in In
IN_ROOM = 16 * 1024 * 1024  # the same in bytes
BUILTINS = vars(builtins)   # as they are, not as they were
# A run that begins tasks without waiting for them needs the loop running, one that brings its own
# loop needs it not to run. Notebooks have one always running, and asyncio.run() fails there.
WANTS_LOOP = frozenset(("create_task", "ensure_future", "get_running_loop"))
HAS_LOOP = frozenset(("run", "run_until_complete", "run_forever", "Runner"))


class History:
    """What IPython's names are made from. Box has In and Out themselves."""
    def __init__(self):
        self.oldest = 1                 # number of the oldest input that is kept
        self.room = IN_ROOM
        self.recent = "", "", ""        # _i, _ii, _iii for the next run
        self.values = "", "", ""        # _, __, ___ as we set them


History = History()


# ---- In and Out ---------------------------------------------------------------------------------

def open_history(namespace):
    Box.inputs, Box.outputs = [""], {}
    namespace.update({"In": Box.inputs, "_ih": Box.inputs, "Out": Box.outputs,
                      "_oh": Box.outputs, "_": "", "__": "", "___": ""})


def forget_history():
    Box.inputs = Box.outputs = None
    History.__init__()


def forget_input():
    number, inputs = History.oldest, Box.inputs
    History.oldest = number + 1
    if number < len(inputs) and type(inputs[number]) is str:
        History.room += len(inputs[number])
        inputs[number] = ""


def begin(namespace, source, number):
    """Writes down a run that begins."""
    if Box.inputs is None:
        open_history(namespace)
    text = source.decode("utf-8", "replace").rstrip("\n") if len(source) <= IN_ROOM else ""
    inputs = Box.inputs
    if len(inputs) != number:           # user code lengthened or shortened it
        del inputs[number:]
        inputs.extend([""] * (number - len(inputs)))
    inputs.append(text)
    History.room -= len(text)
    while number - History.oldest >= IN_MAX or History.room < 0:
        forget_input()
    one, two, three = History.recent
    namespace["_i"], namespace["_ii"], namespace["_iii"] = one, two, three
    History.recent = text, one, two
    namespace[f"_i{number}"] = text
    if number > NAMES_MAX:
        namespace.pop(f"_i{number - NAMES_MAX}", None)


def keep(namespace, value, number):
    """Writes down the value of a run."""
    outputs, before = Box.outputs, History.values
    if value is outputs:
        return
    while len(outputs) >= OUT_MAX:
        oldest = next(iter(outputs))
        del outputs[oldest]
        namespace.pop(f"_{oldest}", None)
    outputs[number] = value
    namespace[f"_{number}"] = value
    one, two, three = before
    History.values = value, one, two
    if (namespace.get("_", one) is not one or namespace.get("__", two) is not two or
            namespace.get("___", three) is not three):
        return              # user code has names of its own there
    if "_" in BUILTINS:     # so has gettext: ours would hide it
        for name in "_", "__", "___":
            namespace.pop(name, None)
    else:
        namespace["_"], namespace["__"], namespace["___"] = value, one, two


# ---- Running ------------------------------------------------------------------------------------

async def drive(steps, namespace):
    value = None
    for code in steps:      # all of them: a step without an await may still need the running loop
        value = eval(code, namespace)
        if code.co_flags & COROUTINE:
            value = await value
    return value


async def watch(coroutine, traces):
    """Notes where the code was when it was told to stop; before CPython 3.11 nobody else does."""
    try:
        return await coroutine
    except need("asyncio", "CancelledError") as exc:
        traces.append(exc.__traceback__)
        raise


def run_in_loop(coroutine):
    if Box.loop is None or Box.loop.is_closed():
        Box.loop = need("asyncio", "new_event_loop")()
    loop, traces = Box.loop, []
    task = loop.create_task(watch(coroutine, traces))
    try:
        return loop.run_until_complete(task)
    except KeyboardInterrupt as interrupt:
        if task.done():
            raise
        # It came while the code waited, which it must not go on to do in the next run. Where it
        # waited can be seen when the wait is broken off.
        task.cancel()
        try:
            return loop.run_until_complete(task)
        except need("asyncio", "CancelledError"):
            interrupt.__traceback__ = traces.pop() if traces else None
        raise interrupt


async def nothing():
    await need("asyncio", "sleep")(0)


def advance():
    """Lets tasks of earlier runs make a step, which in a notebook they do between the runs."""
    if not Box.loop.is_closed() and need("asyncio", "all_tasks")(Box.loop):
        run_in_loop(nothing())


def wants_loop(steps):
    if all([WANTS_LOOP.isdisjoint(code.co_names) for code in steps]):
        return False
    return all([HAS_LOOP.isdisjoint(code.co_names) for code in steps])


def evaluate(steps, namespace, session):
    """The value of the last step, or None when that is not wanted."""
    quiet = steps[-1] is None and steps.pop() is None
    if session and Box.loop is not None:
        advance()
    if any([code.co_flags & COROUTINE for code in steps]):
        run = run_in_loop if session else need("asyncio", "run")
        value = run(drive(steps, namespace))
    elif session and wants_loop(steps):
        value = run_in_loop(drive(steps, namespace))
    else:
        for code in steps:
            value = eval(code, namespace)
    if session and Box.loop is not None:
        advance()
    return None if quiet else value
