# SPDX-License-Identifier: Apache-2.0
"""readonly: makes libraries work in a box in which no file can be written.

policed.py calls it before a run, in the user process of such a box (box/mounts.h). matplotlib cannot be imported
without a folder for its caches; here it gets the name of a missing folder and goes on without: it lists the fonts
again in each box, which takes a second, unless it is in --preload.
"""

import sys
from posix import statvfs

from base import __builtins__           # first: functions look builtins up there
from base import Box, ImportHook, need

READ_ONLY = 1               # of statvfs
NOWHERE = "/tmp/.matplotlib"


def is_frozen():
    return statvfs(Box.scratch).f_flag & READ_ONLY


class Finder(ImportHook):
    """Loads the module with load_matplotlib()."""
    def find_spec(self, name, path=None, target=None):
        spec = super().find_spec(name, path, target)
        if spec is not None:
            execute = spec.loader.exec_module
            spec.loader.exec_module = lambda module: load_matplotlib(module, execute)
        return spec


def load_matplotlib(module, execute):
    import atexit
    import logging
    import os
    import shutil
    import tempfile
    log, plain, path = logging.getLogger("matplotlib"), tempfile.mkdtemp, os.environ.get("PATH", "")
    level = log.level
    tempfile.mkdtemp = lambda *_, **__: NOWHERE
    os.environ["PATH"] = NOWHERE        # fc-list would fail in the same way; the fonts are found without it
    log.setLevel(logging.ERROR)         # it would warn of the folder, and of the list that it cannot save
    try:
        execute(module)
        module.get_configdir()
        module.get_cachedir()
        atexit.unregister(shutil.rmtree)
        try:
            __import__("matplotlib.font_manager")
        except ImportError:
            pass                        # its first use reports it
    finally:
        tempfile.mkdtemp, os.environ["PATH"] = plain, path
        log.setLevel(level)


def prepare():
    """Takes effect once in a box."""
    if not Box.readonly and is_frozen():
        # joblib, which scikit-learn imports, would warn on stderr that it cannot make a semaphore.
        need("os", "environ").setdefault("JOBLIB_MULTIPROCESSING", "0")
        if "matplotlib" not in sys.modules:
            sys.meta_path.insert(0, Finder("matplotlib", lambda module: None))
    Box.readonly = True
