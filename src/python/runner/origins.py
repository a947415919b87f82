# SPDX-License-Identifier: Apache-2.0
"""origins: where code came from, for libraries that ask.

A text that was sent to a box is in no file, but its __file__ has a name (base.FILE). The functions here are what
inspect, multiprocessing and numba then need. display.adopt() calls them when code has imported the library; they
run in the user process of a box, among user code, and change how well a library works, nothing else.
"""

import sys
from posix import lstat, unlink

from base import __builtins__           # first: functions look builtins up there
from base import Box, need


# ---- The file of a run --------------------------------------------------------------------------

def mark_of(path):
    stat = lstat(path)
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def write(path, text):
    """Writes the text of a run where its __file__ says that it is. False if that name is taken, or without space."""
    try:
        with open(path, "xb") as file:
            file.write(text)
        Box.written = path, mark_of(path)
        return True
    except OSError:
        return False


def take_back():
    """Removes the file after the run: it is not one that the code made, unless the code wrote to it."""
    (path, mark), Box.written = Box.written, ()
    try:
        if mark_of(path) == mark:
            unlink(path)
    except OSError:
        pass


def adopt_spawn(module):
    """Processes that spawn and forkserver start import __main__ again: only if its text is in the file."""
    own = module.get_preparation_data

    def get_preparation_data(*args, **kwargs):
        data = own(*args, **kwargs)
        if data.get("init_main_from_path") == Box.file and not Box.written:
            del data["init_main_from_path"]
        return data

    module.get_preparation_data = get_preparation_data


# ---- The source of a class ----------------------------------------------------------------------

def text_of(filename):
    source = Box.sources[filename]
    return source.decode("utf-8", "replace") if type(source) is bytes else "".join(source)


def file_of_class(kind):
    """The run that made a class, by its methods, else the last one with a class of that name."""
    names = []
    for value in vars(kind).values():
        value = getattr(value, "fget", None) or getattr(value, "__func__", value)
        names.append(getattr(getattr(value, "__code__", None), "co_filename", None))
    look = need("re", "compile")(rf"(?m)^\s*class\s+{need('re', 'escape')(kind.__name__)}\b").search
    for name in [name for name in names if name in Box.sources] + [*Box.sources][::-1]:
        if look(text_of(name)):
            return name
    return None


def adopt_inspect(module):
    own = module.getfile

    def getfile(object):
        """Work out which source or compiled file an object was defined in."""
        found = None
        if isinstance(object, type) and object.__module__ == "__main__":
            found = file_of_class(object)
        elif object is Box.main and Box.sources and not Box.written and object.__file__ == Box.file:
            found = [*Box.sources][-1]
        return found or own(object)

    module.getfile = getfile


# ---- numba --------------------------------------------------------------------------------------

def adopt_numba(module):
    """Lets njit(cache=True) keep what it compiled: for code without a file it has a way only in IPython."""
    notebook = getattr(module, "IPythonCacheLocator", None) or module._IPythonCacheLocator

    class CodeCacheLocator(notebook):
        def get_cache_path(self):
            return need("os", "environ").get("XDG_CACHE_HOME", "/tmp/.cache") + "/numba"

        @classmethod
        def from_function(cls, py_func, py_file):
            if py_file not in Box.sources:
                return None
            try:
                self = cls(py_func, py_file)
                self.ensure_cache_path()
            except OSError:
                return None
            return self

    for kind in vars(module).values():
        if isinstance(kind, type) and notebook in vars(kind).get("_locator_classes", ()):
            kind._locator_classes.insert(0, CodeCacheLocator)


ADOPT = {"inspect": adopt_inspect, "numba.core.caching": adopt_numba, "multiprocessing.spawn": adopt_spawn,
         "joblib.externals.loky.backend.spawn": adopt_spawn, "loky.backend.spawn": adopt_spawn}
