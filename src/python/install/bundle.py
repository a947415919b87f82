# SPDX-License-Identifier: Apache-2.0
"""bundle: writes the file in which an unpacked wheel leaves the installing box; the porter reads it.

    "CBUN1\\n", entries, u32le 0, u32le number of entries, u64le total bytes
    entry: u32le length of path, u32le flags (1: executable), u64le size, path, `size` bytes
Several processes write parts, which are entries only; finish() puts them together.
"""

import errno
import os
import shutil
import struct

HEAD = b"CBUN1\n"
ENTRY = struct.Struct("<IIQ")
EXECUTABLE = 1
PATH_MAX, PART_MAX, DEPTH_MAX = 400, 255, 32         # as in src/porter/bundle.h
PIECE = 1 << 20


def flaw_of(path):
    """What is wrong with a path, or None."""
    try:
        raw = path.encode()
    except UnicodeEncodeError:
        return "it is not text"
    parts = path.split("/")
    if not path or "" in parts:
        return "it is absolute or has an empty part"
    if "." in parts or ".." in parts:
        return "it leads out of its folder"
    if "\\" in path or path[1:2] == ":" and path[0].isalpha():
        return "it is a path of another system"
    if any(sign < " " or "\x7f" <= sign <= "\x9f" for sign in path):
        return "it contains control characters"
    if len(raw) > PATH_MAX:
        return f"it is longer than {PATH_MAX} bytes"
    if any(len(part) > PART_MAX for part in raw.split(b"/")):
        return f"a part of it is longer than {PART_MAX} bytes"
    if len(parts) > DEPTH_MAX:
        return f"it is deeper than {DEPTH_MAX} folders"
    return None


class Part:
    """Entries in a file of their own."""

    def __init__(self, path):
        self.path, self.entries, self.bytes = path, 0, 0
        self.file = open(path, "xb")

    def begin(self, path, size, executable=False):
        """The caller then passes `size` bytes to write()."""
        raw = path.encode()
        self.file.write(ENTRY.pack(len(raw), EXECUTABLE if executable else 0, size) + raw)
        self.entries += 1
        self.bytes += size

    def write(self, data):
        self.file.write(data)

    def add(self, path, data, executable=False):
        self.begin(path, len(data), executable)
        self.file.write(data)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.file.close()


def append(target, path):
    """Appends a part, with sendfile() where possible, and removes it."""
    with open(path, "rb") as source:
        left = os.fstat(source.fileno()).st_size
        while left:
            try:
                done = os.sendfile(target.fileno(), source.fileno(), None, left)
            except OSError as exc:
                if exc.errno not in (errno.EINVAL, errno.ENOSYS):
                    raise
                shutil.copyfileobj(source, target, PIECE)
                break
            if not done:
                raise EOFError(path)
            left -= done
    os.unlink(path)


def finish(path, parts, temporary):
    """parts: [(path, entries, bytes)]; temporary: a path in the same file system."""
    with open(temporary, "xb") as target:
        target.write(HEAD)
        target.flush()                  # sendfile() bypasses the buffer
        for part, _, _ in parts:
            append(target, part)
            target.flush()
        target.seek(0, os.SEEK_END)
        target.write(ENTRY.pack(0, sum(part[1] for part in parts), sum(part[2] for part in parts)))
    os.rename(temporary, path)
