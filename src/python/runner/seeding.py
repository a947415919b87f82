# SPDX-License-Identifier: Apache-2.0
"""seeding: random numbers that are the same in each run.

Called by runner.handle() in the user process of a box, when a run's meta has "seed". Without it every box draws other
numbers. Only the two generators that modules share are seeded: what code makes itself (random.Random(),
numpy.random.default_rng()) and what the kernel gives (os.urandom, secrets, uuid4) stays as it is.
"""

import sys

from base import __builtins__           # first: functions look builtins up there
from base import ImportHook, need


def forget_hook():
    """Drops the hook of an earlier run, in which numpy was not imported."""
    for finder in list(sys.meta_path):
        if type(finder) is ImportHook and finder.name == "numpy.random":
            sys.meta_path.remove(finder)


def plant(seed):
    need("random", "seed")(seed)
    forget_hook()
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed(seed)
    else:                               # importing it takes time, and most code has no use for it
        sys.meta_path.insert(0, ImportHook("numpy.random", lambda module: module.seed(seed)))
