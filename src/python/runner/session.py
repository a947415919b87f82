# SPDX-License-Identifier: Apache-2.0
"""session: state that stays from one run of a session to the next, besides the variables.

Called by runner.py in the user process of a box. Names and numbers are those of IPython, which people
and models know: In and Out, _, __ and ___, _3 and _i3. The event loop also stays: a task of one run goes
on in the next.
"""

import builtins

from base import __builtins__           # first: functions look builtins up there
from base import Box, need
from source import COROUTINE

# Bounds, or a session would keep every table that it ever showed. IPython keeps 1,000 values; a session
# often has less memory than a notebook.
OUT_MAX = 100               # values in Out; the oldest goes first
NAMES_MAX = 20              # names like _i3; In has all sources
IN_MAX = 1000               # sources in In
IN_ROOM = 16 * 1024 * 1024  # the same in bytes
BUILTINS = vars(builtins)   # the current ones, not the copy in base
# A run that starts tasks without waiting needs a running loop; one that uses its own loop must have none
# running. Notebooks always have one running, and asyncio.run() fails there.
WANTS_LOOP = frozenset(("create_task", "ensure_future", "get_running_loop"))
HAS_LOOP = frozenset(("run", "run_until_complete", "run_forever", "Runner"))


class History:
    """The data behind IPython's names. Box has In and Out."""
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
    """Records the source of a new run."""
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
    """Records the value of a run."""
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
        return              # user code has set these names
    if "_" in BUILTINS:     # gettext has set it, and ours would hide it
        for name in "_", "__", "___":
            namespace.pop(name, None)
    else:
        namespace["_"], namespace["__"], namespace["___"] = value, one, two


# ---- Running ------------------------------------------------------------------------------------

async def drive(steps, namespace):
    value = None
    for code in steps:      # also steps without await: they may need the running loop
        value = eval(code, namespace)
        if code.co_flags & COROUTINE:
            value = await value
    return value


async def watch(coroutine, traces):
    """Records where the code was cancelled, which CPython before 3.11 does not."""
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
        # The code was waiting and must not go on in the next run. Cancelling it also shows where it
        # waited.
        task.cancel()
        try:
            return loop.run_until_complete(task)
        except need("asyncio", "CancelledError"):
            interrupt.__traceback__ = traces.pop() if traces else None
        raise interrupt


async def nothing():
    await need("asyncio", "sleep")(0)


def advance():
    """Lets tasks of earlier runs advance, as in a notebook between runs."""
    if not Box.loop.is_closed() and need("asyncio", "all_tasks")(Box.loop):
        run_in_loop(nothing())


def wants_loop(steps):
    if all([WANTS_LOOP.isdisjoint(code.co_names) for code in steps]):
        return False
    return all([HAS_LOOP.isdisjoint(code.co_names) for code in steps])


def evaluate(steps, namespace, session):
    """The value of the last step, or None if it is not wanted."""
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
