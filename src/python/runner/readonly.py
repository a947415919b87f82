# SPDX-License-Identifier: Apache-2.0
"""readonly: what libraries need to know of a box in which no file can be written.

In the user process of such a box (box/mounts.h), called by policed.py before a run. matplotlib refuses to
be imported where it finds no folder for its caches; here it gets the name of one that is not there, and
goes on without: its list of fonts is made anew in each box, which takes a second, unless --preload has it.
"""

import sys
from posix import statvfs

from base import __builtins__           # first: functions look builtins up there
from base import Box, ImportHook

READ_ONLY = 1               # of statvfs
NOWHERE = "/tmp/.matplotlib"


def is_frozen():
    return statvfs(Box.scratch).f_flag & READ_ONLY


class Finder(ImportHook):
    """Runs the module with `around` in place of its loader's own call."""
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
    os.environ["PATH"] = NOWHERE        # fc-list would complain of the same, and its fonts are found without
    log.setLevel(logging.ERROR)         # it would tell of the folder, and of the list that is not saved
    try:
        execute(module)
        module.get_configdir()
        module.get_cachedir()
        atexit.unregister(shutil.rmtree)
        try:
            __import__("matplotlib.font_manager")
        except ImportError:
            pass                        # it is said when somebody needs it
    finally:
        tempfile.mkdtemp, os.environ["PATH"] = plain, path
        log.setLevel(level)


def prepare():
    """Once in a box."""
    if not Box.readonly and "matplotlib" not in sys.modules and is_frozen():
        sys.meta_path.insert(0, Finder("matplotlib", lambda module: None))
    Box.readonly = True
