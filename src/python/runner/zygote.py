# SPDX-License-Identifier: Apache-2.0
"""zygote: the warm interpreter that boxes are forked from.

The keeper starts it inside the jail, as `python -I -B -X utf8 /opt/constrictor/start.py [--cold]
[MODULE...]`, with the environment that boxes shall see. It never runs user code: the modules named
are the operator's choice. With --cold it serves one run and imports only what every run needs.
"""

import atexit
import gc
import os
import sys
from _frozen_importlib_external import PathFinder

# What modules want done around a fork is not done by the zygote's own way of forking, which has one
# thread and no lock held: half of a box's page faults came from there. runner.arrange() registers
# them in the end, so that a fork in a box is as usual.
hooks = []
register_at_fork = os.register_at_fork
os.register_at_fork = lambda **hook: hooks.append(hook)

exitfuncs = []
register_exit = atexit.register


def register(function, /, *args, **kwargs):
    exitfuncs.append(function)
    return register_exit(function, *args, **kwargs)


atexit.register = register

# What user code or the runner's error path commonly wants, imported once for all boxes.
WARM = """
    ast asyncio base64 collections contextlib copy csv dataclasses datetime decimal enum
    functools glob hashlib inspect io itertools json linecache logging math operator os
    pathlib pickle pprint random re shutil signal statistics string subprocess tempfile
    textwrap threading time traceback types typing uuid warnings weakref
""".split()

# What is beside this file; each after those that it imports.
OWN = "_constrictor base report source session variables runner display".split()
OF_SESSIONS = ["snapshot", "safety", "undo"]      # of which a cold zygote has none: half a millisecond

POOL_HEAD = 48              # bytes before the first object of a pool; a pool begins with a page
POOL_HOLES = 1 << 20        # bytes of one size after which there will be no end of holes


def import_own(names):
    """Our modules, without leaving their folder or names in the way of user code's own."""
    sys.path.insert(0, __file__.rpartition("/")[0])
    modules = {name: __import__(name) for name in names}
    del sys.path[0]
    for name in names:
        del sys.modules[name]
    modules["base"].Box.undo = modules.get("undo")
    return modules["_constrictor"], modules["runner"], modules["display"]


def warm_matplotlib():
    """Fonts are looked up and the renderer set up on the first drawing: that is done here."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure = pyplot.figure()
    figure.text(0.5, 0.5, "0")
    figure.canvas.draw()
    pyplot.close(figure)
    # Open font files: their hook after a fork would close them a second time in every box.
    from matplotlib import font_manager
    getattr(font_manager._get_font, "cache_clear", int)()


def preload(name):
    """Imports a module by name; returns what went wrong, or None."""
    try:
        __import__(name)
        if name in ("matplotlib", "matplotlib.pyplot"):
            warm_matplotlib()
    except BaseException as exc:        # SystemExit too: a preload must not end the zygote
        try:
            return f"{type(exc).__name__}: {exc}"
        except Exception:
            return type(exc).__name__
    return None


def has_transformer():
    """Does the interpreter have RestrictedPython? Else the gate gives boxes a layer with it: see
    env/restricted_package.h. Looked for only: most boxes never need it."""
    try:
        places = PathFinder.find_spec("RestrictedPython").submodule_search_locations
        return any([os.path.exists(f"{place}/transformer.py") for place in places])
    except Exception:
        return False


def begin_pools():
    """Lets every size of small object begin a page of its own; returns what must stay to keep it so.

    CPython allocates small objects from pools of one size, and after a lot of imports each size goes
    on in old pools that are full but for some holes: every box would copy a page for each hole that
    it fills, and one more for the head of that pool. In a new pool both are the same page, and what
    a box allocates next to each other lies next to each other. 27 of 186 copied pages less.
    """
    kept, room = [], [bytes(470) for _ in range(1200)]      # pools to take, or each box maps an arena
    for size in range(32, 513, 16):
        last = fresh = 0
        for _ in range(POOL_HOLES // size):
            kept.append(0.5 * len(kept) if size == 32 else bytes(size - 34))
            at = id(kept[-1])
            if fresh and at == last + size:
                break
            last, fresh = at, at % 4096 == POOL_HEAD
    return kept


def main():
    names = sys.argv[1:]
    cold = names[:1] == ["--cold"]
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
        runner.Box.kept = begin_pools()
    for stream in sys.stdout, sys.stderr:
        if stream is not None:
            stream.flush()              # or every box would print what a preload had printed
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
    constrictor.ready(report)
    # Collections in boxes then leave the shared objects, and so the shared pages, alone.
    gc.freeze()
    runner.new_main()                   # after it: what user code makes in there is to be collected
    # Who makes one box, and has imported nothing that may have started helpers, can let it have its own namespaces.
    constrictor.serve(runner.main, rehearsals, *([True] if cold and not names else []))


if __name__ == "__main__":
    main()
