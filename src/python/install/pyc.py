# SPDX-License-Identifier: Apache-2.0
"""pyc: compiles the sources of a package, because installed wheels are read-only.

In a child of an installing box: hostile source can crash the compiler. The files are marked unchecked: an
interpreter that imports them need not look at the sources, which never change.
"""

import importlib.util
import marshal
import sys
import time
import warnings

from bundle import flaw_of

SOURCE_MAX = 4 << 20        # bytes; larger sources are tables and take minutes
SKIPPED = {"tests", "test", "testing_data"}     # half of the code of many packages, seldom imported
UNCHECKED = (1).to_bytes(4, "little")


class Compiler:
    def __init__(self, seconds):
        self.end = time.monotonic() + seconds
        self.tag = sys.implementation.cache_tag
        warnings.simplefilter("ignore")

    def __call__(self, path, source):
        """(path, bytes) of the compiled module, or None."""
        folder, _, base = path.rpartition("/")
        target = f"{folder}/__pycache__/{base[:-3]}.{self.tag}.pyc".lstrip("/")
        if not is_wanted(path, len(source)) or flaw_of(target) or time.monotonic() > self.end:
            return None
        try:
            code = compile(source, path, "exec", dont_inherit=True, optimize=0)
            data = marshal.dumps(code)
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError, UnicodeError):
            return None                 # for another Python, or a template: not a failure
        return target, b"".join((importlib.util.MAGIC_NUMBER, UNCHECKED, importlib.util.source_hash(source),
                                 data))


def is_wanted(path, size):
    parts = path.split("/")
    return (path.endswith(".py") and size <= SOURCE_MAX and parts[0] not in ("bin", ".data-files")
            and SKIPPED.isdisjoint(parts[1:-1]))
