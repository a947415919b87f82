# SPDX-License-Identifier: Apache-2.0
"""wheels: folders of packages in the interpreter of a box: where imports look, and what they found.

Called by runner.py when a run's meta has "path", and after a run to tell what it imported. In the user process
of a box; a warm zygote has this file read already.

An environment is a list of folders, one for each package, up to 512. Left to itself the import system makes a
finder for each, and for every name asks all of them, with a stat() each. Wheels never change, so a finder that has read
its folder once can say no at once.
"""

import sys
from _frozen_importlib_external import FileFinder, _get_supported_file_loaders
from os import listdir
from sys import modules

from base import __builtins__           # first: functions look builtins up there
from base import Box, need

ROOT = "/opt/wheels/"
CHILDREN = "/opt/constrictor/children"
LOADERS = _get_supported_file_loaders()
NAMES_MAX = 64              # names of a run's code that are looked at
REPORT_MAX = 16             # modules that are told
NAME_MAX = 128              # characters of one
FOREIGN = "-packages/"      # folders of the interpreter's own packages


class WheelFinder(FileFinder):
    """Knows what is at the top of its folder. A FileFinder for all who ask what it is: pkgutil, setuptools."""

    def __init__(self, folder, entries):
        FileFinder.__init__(self, folder, *LOADERS)
        self.tops = {entry.partition(".")[0] for entry in entries}

    def find_spec(self, fullname, target=None):
        if fullname.rpartition(".")[2] not in self.tops:
            return None
        return FileFinder.find_spec(self, fullname, target)


def displace(names):
    """A wheel may have another version of what the zygote has imported already. Then that has to go; but what is
    not Python cannot be loaded twice into one process."""
    for name in Box.preloaded & {entry.partition(".")[0] for entry in names}:
        old = getattr(modules.get(name), "__version__", None)
        new = next((entry[:-10].partition("-")[2] for entry in names if entry.endswith(".dist-info")), None)
        parts = [part for part in modules if part == name or part.startswith(name + ".")]
        if not parts or old == new:
            continue
        if any(str(getattr(modules[part], "__file__", None)).endswith(".so") for part in parts):
            sys.stderr.write(f"constrictor: {name} {old} was loaded before this environment's {new}, which is "
                             f"not used: the server has it in --preload\n")
            continue
        for part in parts:
            del modules[part]


def add(folder):
    try:
        entries = listdir(folder)
    except OSError:
        sys.path_importer_cache.pop(folder, None)
        return                          # it is gone: as a folder in sys.path that is not there
    sys.path_importer_cache[folder] = WheelFinder(folder, entries)
    if Box.preloaded:
        displace(entries)


def place_of_packages():
    for place, folder in enumerate(sys.path):
        if type(folder) is str and folder.endswith(("/site-packages", "/dist-packages")):
            return place
    return len(sys.path)


def look_in(path):
    """Folders of packages: behind the standard library, before what the interpreter has of its own."""
    old = Box.wheels
    if path == old:
        return
    Box.wheels = path
    known = set(old)
    if old:
        sys.path[:] = [folder for folder in sys.path if type(folder) is not str or folder not in known]
    at = place_of_packages()
    sys.path[at:at] = path
    for folder in path:
        if folder not in known:
            add(folder)
    tell_children(path)


def tell_children(path):
    """Interpreters that the code starts have the same packages, at the same place: see children/sitecustomize.py."""
    environ = need("os", "environ")
    folders = [folder for folder in environ.get("PYTHONPATH", "").split(":") if folder not in ("", CHILDREN)]
    for name, value in ("PYTHONPATH", [CHILDREN] * bool(path) + folders), ("CONSTRICTOR_WHEELS", path):
        if value:
            environ[name] = ":".join(value)
        else:
            environ.pop(name, None)


# ---- What a run imported ------------------------------------------------------------------------

def is_package(name):
    """Is it a module that came from a folder of packages, and not one that the zygote has anyway?"""
    module = modules.get(name)
    file = module.__dict__.get("__file__") if type(module) is type(sys) else None
    if type(file) is not str or len(name) > NAME_MAX or not name.isascii():
        return False
    return file.startswith(ROOT) or FOREIGN in file and name.partition(".")[0] not in Box.preloaded


def imported():
    """Modules that the code of the last run names at its top level: boxes of this environment may import them
    ahead. `from a import b` has two names in its code, of which a.b may be a module."""
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
