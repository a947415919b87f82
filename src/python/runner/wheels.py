# SPDX-License-Identifier: Apache-2.0
"""wheels: puts the wheels of an environment into sys.path, and finds which of their modules a run imported.

Called by runner.py when a run's meta has "path", and after a run. In the user process of a box; a warm zygote
has imported it already.

An environment is a list of folders, one for each unpacked wheel, up to 512. The import system would make a finder
for each and call stat() in all of them for every name. Wheels never change, so our finder reads its folder once.
"""

import sys
from _frozen_importlib_external import FileFinder, _get_supported_file_loaders
from os import listdir
from sys import modules

from base import __builtins__           # first: functions look builtins up there
from base import Box, need

ROOT = "/opt/wheels/"
LOADERS = _get_supported_file_loaders()
NAMES_MAX = 64              # names in a run's code that are checked
REPORT_MAX = 16             # modules that are reported
NAME_MAX = 128              # characters of a name
FOREIGN = "-packages/"      # folders of the interpreter's own packages


class WheelFinder(FileFinder):
    """Knows the names at the top of its folder. A FileFinder, because pkgutil and setuptools test for that."""

    def __init__(self, folder, entries):
        FileFinder.__init__(self, folder, *LOADERS)
        self.tops = {entry.partition(".")[0] for entry in entries}

    def find_spec(self, fullname, target=None):
        if fullname.rpartition(".")[2] not in self.tops:
            return None
        return FileFinder.find_spec(self, fullname, target)


def displace(names):
    """Removes modules that the zygote has imported from another version. Modules with C code must stay: they cannot
    be loaded twice into one process."""
    for name in Box.preloaded & {entry.partition(".")[0] for entry in names}:
        old = getattr(modules.get(name), "__version__", None)
        new = next((entry[:-10].partition("-")[2] for entry in names if entry.endswith(".dist-info")), None)
        parts = [part for part in modules if part == name or part.startswith(name + ".")]
        if not parts or old == new:
            continue
        if any(str(getattr(modules[part], "__file__", None)).endswith(".so") for part in parts):
            sys.stderr.write(f"constrictor: {name} {old}, which the server preloads (--preload), is used instead of "
                             f"{new} of this environment\n")
            continue
        for part in parts:
            del modules[part]


def add(folder):
    try:
        entries = listdir(folder)
    except OSError:
        sys.path_importer_cache.pop(folder, None)
        return                          # it is gone: a missing folder in sys.path is ignored
    sys.path_importer_cache[folder] = WheelFinder(folder, entries)
    if Box.preloaded:
        displace(entries)


def index_of_packages():
    for index, folder in enumerate(sys.path):
        if type(folder) is str and folder.endswith(("/site-packages", "/dist-packages")):
            return index
    return len(sys.path)


def look_in(path):
    """Puts the folders into sys.path behind the standard library, before the interpreter's own packages."""
    old = Box.wheels
    if path == old:
        return
    Box.wheels = path
    known = set(old)
    if old:
        sys.path[:] = [folder for folder in sys.path if type(folder) is not str or folder not in known]
    at = index_of_packages()
    sys.path[at:at] = path
    for folder in path:
        if folder not in known:
            add(folder)
    tell_children(path)


def tell_children(path):
    """Gives interpreters that the code starts the same packages: see children/sitecustomize.py."""
    environ = need("os", "environ")
    if path:
        environ["CONSTRICTOR_WHEELS"] = ":".join(path)
    else:
        environ.pop("CONSTRICTOR_WHEELS", None)


# ---- What a run imported ------------------------------------------------------------------------

def is_package(name):
    """Is it a module from a package that the zygote has not imported?"""
    module = modules.get(name)
    file = module.__dict__.get("__file__") if type(module) is type(sys) else None
    if type(file) is not str or len(name) > NAME_MAX or not name.isascii():
        return False
    return file.startswith(ROOT) or FOREIGN in file and name.partition(".")[0] not in Box.preloaded


def imported():
    """Modules that the code of the last run names at its top level, for warm boxes of this environment. With
    `from a import b` a.b may be a module."""
    names = []
    for code in Box.codes:
        names.extend(code.co_names[:NAMES_MAX - len(names)])
    found = [name for name in names if name in modules and is_package(name)][:REPORT_MAX]
    for package in found[:REPORT_MAX // 2]:
        for name in names:
            part = f"{package}.{name}"
            if part in modules and part not in found and is_package(part):
                found.append(part)
    return found[:REPORT_MAX]
