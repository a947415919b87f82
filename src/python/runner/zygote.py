# SPDX-License-Identifier: Apache-2.0
"""zygote: the warm interpreter that boxes are forked from.

In a sandbox of its own (box/alone.h) it is no zygote but the box itself: --alone=NUMBERS has its limits.

The keeper starts it inside the jail, as `python -s -B -X utf8 /opt/constrictor/start.py [--cold]
[MODULE...]`, with the environment variables for boxes. It never runs user code: the operator chooses
the modules. With --cold it serves one run and imports only what every run needs.
"""

import atexit
import gc
import os
import sys
from _frozen_importlib_external import PathFinder

# Fork hooks of modules are only collected here: the zygote forks with one thread and no lock held, and does
# not need them; they caused half of a box's page faults. runner.arrange() registers them later, for forks in
# a box.
hooks = []
register_at_fork = os.register_at_fork
os.register_at_fork = lambda **hook: hooks.append(hook)

exitfuncs = []
register_exit = atexit.register


def register(function, /, *args, **kwargs):
    exitfuncs.append(function)
    return register_exit(function, *args, **kwargs)


atexit.register = register

# Modules that user code or the runner's error path often needs, imported once for all boxes.
WARM = """
    ast asyncio base64 collections contextlib copy csv dataclasses datetime decimal enum
    functools glob hashlib inspect io itertools json linecache logging math operator os
    pathlib pickle pprint random re shutil signal statistics string subprocess tempfile
    textwrap threading time traceback types typing uuid warnings weakref
""".split()

# Our own modules; each after those that it imports.
OWN = "_constrictor base report source session variables runner display".split()
OF_SESSIONS = ["snapshot", "safety", "undo"]      # a cold zygote has no sessions, and saves half a millisecond

POOL_HEAD = 48              # bytes before the first object of a pool; a pool begins with a page
POOL_HOLES = 1 << 20        # bytes of one size after which filling holes is given up


def import_own(names):
    """Imports our modules without leaving their folder in sys.path or their names in sys.modules."""
    sys.path.insert(0, __file__.rpartition("/")[0])
    modules = {name: __import__(name) for name in names}
    del sys.path[0]
    for name in names:
        del sys.modules[name]
    modules["base"].Box.undo = modules.get("undo")
    return modules["_constrictor"], modules["runner"], modules["display"]


def warm_matplotlib():
    """Draws once, which finds the fonts and sets up the renderer."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure = pyplot.figure()
    figure.text(0.5, 0.5, "0")
    figure.canvas.draw()
    pyplot.close(figure)
    # Closes font files: a fork hook would close them again in every box.
    from matplotlib import font_manager
    getattr(font_manager._get_font, "cache_clear", int)()


def preload(name):
    """Imports a module by name; returns the error, or None."""
    try:
        __import__(name)
        if name in ("matplotlib", "matplotlib.pyplot"):
            warm_matplotlib()
    except BaseException as exc:        # also SystemExit: a preload must not end the zygote
        try:
            return f"{type(exc).__name__}: {exc}"
        except Exception:
            return type(exc).__name__
    return None


def has_transformer():
    """Does the interpreter have RestrictedPython? Otherwise the gate gives boxes the restricted package:
    see env/restricted_package.h. It is not imported here, because most boxes never need it."""
    try:
        folders = PathFinder.find_spec("RestrictedPython").submodule_search_locations
        return any([os.path.exists(f"{folder}/transformer.py") for folder in folders])
    except Exception:
        return False


def begin_pools():
    """Makes the next small object of every size begin a new page; returns the objects that keep it so.

    CPython allocates small objects from pools of one size. After many imports the current pools are full
    except for some holes: every box would copy a page for each hole that it fills, and one for the head
    of that pool. In a new pool both are on one page, and new objects lie next to each other. A box then
    copies 27 of 186 pages less.
    """
    fillers, room = [], [bytes(470) for _ in range(1200)]   # free pools for boxes, or each would map an arena
    for size in range(32, 513, 16):
        last = fresh = 0
        for _ in range(POOL_HOLES // size):
            fillers.append(0.5 * len(fillers) if size == 32 else bytes(size - 34))
            at = id(fillers[-1])
            if fresh and at == last + size:
                break
            last, fresh = at, at % 4096 == POOL_HEAD
    return fillers


def main():
    names = sys.argv[1:]
    # A sandbox imports no more than it needs: there each import takes five times as long, and is no other box's.
    alone = names[0][8:].split(",") if names and names[0].startswith("--alone=") else None
    cold = names[:1] == ["--cold"] or bool(alone)
    constrictor, runner, display = import_own(OWN if cold else OWN + OF_SESSIONS)
    failed = []
    if cold:
        del names[0]
    else:
        for name in WARM:
            preload(name)
    for name in names:
        error = preload(name)
        if error is not None:
            failed.append({"name": runner.clip(name, runner.LINE_MAX),
                           "error": runner.clip(error, runner.MESSAGE_MAX)})
    if names:
        constrictor.end_library_threads()       # a zygote must have one thread
    transformer = not cold and has_transformer()
    os.register_at_fork = runner.Box.register_at_fork = register_at_fork
    atexit.register, runner.Box.exitfuncs = register_exit, exitfuncs
    runner.Box.hooks = tuple(hooks)
    runner.Box.rich = display
    runner.Box.replacement = getattr(constrictor, "replacement", None)
    runner.Box.flush_all = getattr(constrictor, "flush_all", None)
    display.install()
    if not cold:
        display.prepare()
        runner.prepare()
    runner.arrange()
    if not cold:
        gc.collect()
        runner.Box.fillers = begin_pools()
    for stream in sys.stdout, sys.stderr:
        if stream is not None:
            stream.flush()              # or every box would print a preload's output
    missing = [entry["name"] for entry in failed]
    report = runner.to_json({
        "version": "%d.%d.%d" % sys.version_info[:3], "executable": sys.executable,
        "preloaded": [name for name in names if name not in missing], "failed": failed,
        "transformer": transformer,
    }).encode()
    least = runner.rehearse_least
    if not cold and hasattr(constrictor, "bind_plain") and runner.can_be_plain():
        constrictor.bind_plain(runner.plain_bindings())
        least = runner.Box.rehearse_plain = constrictor.rehearse_plain
    rehearsals = () if cold else (runner.rehearse, least)
    if not alone:
        constrictor.ready(report)
    # Then collections in boxes do not touch the shared objects and their pages.
    gc.freeze()
    runner.new_main()                   # after the freeze: its objects are to be collected
    if alone:
        constrictor.serve_alone(runner.main, tuple(map(int, alone)))
    # A zygote that makes one box and preloads nothing can let the box have its own namespaces.
    constrictor.serve(runner.main, rehearsals, *([True] if cold and not names else []))


if __name__ == "__main__":
    main()
