# SPDX-License-Identifier: Apache-2.0
"""wheel: checks a foreign wheel file, then unpacks it into parts of a bundle.

In the user process of an installing box; no code of the package runs. SECURITY: zip files lie. Each name,
size, offset and attribute is checked before the first byte is unpacked, sizes are counted while unpacking,
and every file must have its hash in RECORD. Only the bundle is written: entries name no path of this box.
"""

import base64
import configparser
import csv
import email.parser
import errno
import hashlib
import io
import os
import re
import stat
import struct
import zipfile
import zlib

from bundle import Part, flaw_of
from failure import Failure, clean
from requirement import normal
from version import Version

FILENAME = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._]*)-(?P<version>[A-Za-z0-9.+!_]+)"
                      r"(?:-(?P<build>\d[A-Za-z0-9._]*))?"
                      r"-(?P<python>[A-Za-z0-9._]+)-(?P<abi>[A-Za-z0-9._]+)-(?P<platform>[A-Za-z0-9._]+)\.whl")
DIRECTORY_MAX = 32 << 20    # bytes of a zip's central directory
TEXT_MAX = 16 << 20         # bytes of METADATA, RECORD and the like
BOMB_BYTES, BOMB_RATIO = 16 << 20, 400      # a larger file with a higher ratio is a zip bomb
DROPPED_MAX = 100           # names in a list
PIECE = 1 << 20
LOCAL = struct.Struct("<4s5H3L2H")
SCRIPT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", re.ASCII)
ENTRY_POINT = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)\s*:\s*([A-Za-z_][A-Za-z0-9_.]*)\s*(?:\[[^\]]*\])?", re.ASCII)
SCRIPT = """#!/usr/bin/env python3
import sys
from {module} import {first}
if __name__ == "__main__":
    sys.argv[0] = sys.argv[0].rpartition("/")[2]
    sys.exit({attribute}())
"""
SHEBANG = b"#!/usr/bin/env python3"
UNRECORDED = "RECORD", "RECORD.jws", "RECORD.p7s"
DATA = {"purelib": "", "platlib": "", "scripts": "bin/", "headers": ".data-files/headers/",
        "data": ".data-files/data/"}


def encode(digest):
    """A digest as in RECORD."""
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


class Entry:
    """One file: its offset in the zip and its path in the bundle."""

    def __init__(self, info, path, executable):
        self.name, self.size, self.packed = info.filename, info.file_size, info.compress_size
        self.offset, self.method = info.header_offset, info.compress_type
        self.path, self.executable, self.digest = path, executable, None


def directory_size(file):
    """The size of a zip's central directory, from the record at its end."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 65536 - 22 - 20))
    tail = file.read()
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) < at + 22:
        return None
    length = int.from_bytes(tail[at + 12:at + 16], "little")
    if length == 0xFFFFFFFF and at >= 20 and tail[at - 20:at - 16] == b"PK\6\7":
        file.seek(min(int.from_bytes(tail[at - 12:at - 4], "little"), size))
        record = file.read(56)
        length = int.from_bytes(record[40:48], "little")
    return length


class Wheel:
    """A checked wheel; raises Failure if something is wrong with it."""

    def __init__(self, path, filename, limits, requirement=None):
        self.file_path, self.filename, self.requirement = path, filename, requirement
        self.dropped, self.entries, self.texts = [], [], {}
        found = FILENAME.fullmatch(filename)
        if found is None:
            self.bad("its file name is not that of a wheel")
        self.key, self.version = normal(found["name"]), self.to_version(found["version"].replace("_", "+", 1)
                                                                        if "+" not in found["version"]
                                                                        else found["version"])
        try:
            with open(path, "rb") as file:
                length = directory_size(file)
                if length is None:
                    self.bad("it is not a zip file, or has several ends")
                if length > DIRECTORY_MAX:
                    self.hostile(f"its directory alone has {length} bytes")
                with zipfile.ZipFile(file) as archive:
                    infos = archive.infolist()
                self.look_over(infos, limits)
                self.read_texts(file)
        except (zipfile.BadZipFile, NotImplementedError, EOFError, struct.error, ValueError) as exc:
            self.bad(f"it cannot be read: {clean(exc, 200)}")
        except OSError as exc:
            if exc.errno != errno.EINVAL:
                raise
            self.bad("it contains a negative offset")
        self.read_record()
        self.check_paths()

    def bad(self, reason, name=None):
        where = f" ({clean(name, 200)!r})" if name is not None else ""
        raise Failure("bad_wheel", f"the wheel {clean(self.filename, 200)} is broken: {reason}{where}",
                      self.requirement, "ask for another version of the package, and tell its authors")

    def hostile(self, reason, name=None):
        where = f", its entry {clean(repr(name), 200)}" if name is not None else ""
        raise Failure("hostile_wheel", f"the wheel {clean(self.filename, 200)} is refused{where}: {reason}",
                      self.requirement, "build tools do not make such wheels: do not trust it")

    def to_version(self, text):
        try:
            return Version(text)
        except ValueError:
            self.bad("its name has no version")

    # ---- The directory of the zip ---------------------------------------------------------------

    def look_over(self, infos, limits):
        if len(infos) > limits["files"]:
            raise Failure("too_many_files", f"the wheel {clean(self.filename, 200)} has {len(infos)} files: "
                          f"at most {limits['files']} are allowed", self.requirement,
                          "ask the operator for a higher limit")
        total, spans, names = 0, [], set()
        for info in infos:
            self.check_info(info)
            if info.filename in names:
                self.hostile("the wheel contains it twice", info.filename)
            names.add(info.filename)
            spans.append((info.header_offset, info.header_offset + 30 + info.compress_size, info.filename))
            if info.is_dir():
                continue
            total += info.file_size
            if total > limits["bytes"]:
                raise Failure("too_large", f"the wheel {clean(self.filename, 200)} unpacks to more than "
                              f"{limits['bytes']} bytes", self.requirement, "ask the operator for a higher limit")
            self.entries.append(Entry(info, info.filename, (info.external_attr >> 16) & 0o111 != 0))
        spans.sort()
        for (_, end, _), (begin, _, name) in zip(spans, spans[1:]):
            if begin < end:
                self.hostile("it overlaps with another entry: a zip bomb", name)
        self.unpacked, self.names = total, names

    def check_info(self, info):
        # zipfile cuts names at a NUL.
        if info.filename != info.orig_filename:
            self.hostile("its name contains a NUL, or has two spellings", info.orig_filename)
        flaw = flaw_of(info.filename[:-1] if info.is_dir() else info.filename)
        if flaw:
            self.hostile(flaw, info.filename)
        if info.header_offset < 0:
            self.bad("its zip has no entry at the given offset", info.filename)
        mode = info.external_attr >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            self.hostile("it is a link or a device, not a file", info.filename)
        if info.is_dir():
            return
        if stat.S_ISDIR(mode):
            self.hostile("it is both a file and a folder", info.filename)
        if mode & (stat.S_ISUID | stat.S_ISGID):
            self.hostile("it is set-user-ID or set-group-ID", info.filename)
        if info.flag_bits & 0x41:
            self.hostile("it is encrypted", info.filename)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            self.bad("wheels do not use its compression method", info.filename)
        if info.file_size > BOMB_BYTES and info.file_size > BOMB_RATIO * max(1, info.compress_size):
            self.hostile(f"{info.compress_size} bytes that unpack to {info.file_size}: a zip bomb",
                         info.filename)

    # ---- Metadata -------------------------------------------------------------------------------

    def read_texts(self, file):
        folders = {name.partition("/")[0] for name in self.names if name.partition("/")[0].endswith(".dist-info")}
        if len(folders) != 1:
            self.bad(f"it has {len(folders)} .dist-info folders instead of one")
        self.info = folders.pop()
        name, _, version = self.info[:-len(".dist-info")].rpartition("-")
        if normal(name) != self.key or self.to_version(version).public != self.version.public:
            self.bad("its .dist-info folder belongs to another package", self.info)
        for entry in self.entries:
            folder, _, base = entry.name.rpartition("/")
            if folder == self.info and base in ("METADATA", "WHEEL", "RECORD", "entry_points.txt"):
                if entry.size > TEXT_MAX:
                    self.hostile(f"it has {entry.size} bytes", entry.name)
                self.texts[base] = b"".join(self.pieces(file, entry)).decode("utf-8", "replace")
        for base in "METADATA", "WHEEL", "RECORD":
            if base not in self.texts:
                self.bad("a file is missing", f"{self.info}/{base}")
        said = email.parser.Parser().parsestr(self.texts["WHEEL"])
        if not re.fullmatch(r"1\.\d{1,9}", (said.get("Wheel-Version") or "").strip()):
            self.bad("its Wheel-Version is not 1.x")
        said = email.parser.HeaderParser().parsestr(self.texts["METADATA"])
        name, version = (said.get("Name") or "").strip(), (said.get("Version") or "").strip()
        if normal(name) != self.key or self.to_version(version).public != self.version.public:
            self.bad(f"its METADATA is for {clean(name, 80)} {clean(version, 40)}")
        self.name, self.version_text = name, version
        self.requires_python = clean(said.get("Requires-Python") or "", 200) or None

    def read_record(self):
        recorded = {}
        try:
            for row in csv.reader(io.StringIO(self.texts["RECORD"])):
                if row:
                    recorded[row[0]] = row[1] if len(row) > 1 else ""
        except csv.Error as exc:
            self.bad(f"its RECORD cannot be read: {clean(exc, 100)}")
        for entry in self.entries:
            folder, _, base = entry.name.rpartition("/")
            if folder == self.info and base in UNRECORDED:
                continue
            algorithm, _, digest = recorded.get(entry.name, "").partition("=")
            if algorithm not in ("sha256", "sha384", "sha512"):
                self.bad("RECORD lacks the hash of a file", entry.name)
            entry.digest = algorithm, digest.rstrip("=")

    # ---- Paths ----------------------------------------------------------------------------------

    def path_of(self, entry):
        """The path in the unpacked wheel; None: dropped, "": left out."""
        first, _, rest = entry.name.partition("/")
        path = entry.name
        if first.endswith(".data") and rest:
            if first != self.info[:-len(".dist-info")] + ".data":
                self.bad("its .data folder is that of another package", entry.name)
            kind, _, rest = rest.partition("/")
            if kind not in DATA or not rest:
                self.bad("its .data folder has an unknown kind", entry.name)
            path = DATA[kind] + rest
            entry.executable |= kind == "scripts"
        # SECURITY: the interpreter would execute lines of a .pth file at every start.
        if path.endswith(".pth") and "/" not in path:
            return None
        if "__pycache__" in path.split("/"):
            return None                 # compiled here, from the source
        if path.startswith(f"{self.info}/") and \
                path.rpartition("/")[2] in (*UNRECORDED, "INSTALLER", "direct_url.json"):
            return ""                   # written again, or not needed
        return path

    def check_paths(self):
        """Gives every file its path; refuses two files with one path, or one below another."""
        entries, seen = [], {}
        for entry in self.entries:
            path = self.path_of(entry)
            if path is None and len(self.dropped) < DROPPED_MAX:
                self.dropped.append(clean(entry.name, 400))
            if not path:
                continue
            entry.path = path
            self.claim(seen, path)
            entries.append(entry)
        self.entries = entries
        self.scripts = self.console_scripts(seen)

    def claim(self, seen, path):
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            piece, kind = "/".join(parts[:depth]), depth < len(parts)
            known = seen.setdefault(piece.casefold(), (piece, kind))
            if known != (piece, kind):
                self.hostile(f"it collides with {clean(repr(known[0]), 200)}: the names differ only in case, "
                             "or one is a file and one a folder", path)
            if not kind:
                if f"{piece.casefold()}/" in seen:
                    self.hostile("the wheel contains it twice", path)
                seen[f"{piece.casefold()}/"] = None

    def console_scripts(self, seen):
        """[(path, text)] of the commands that the wheel declares."""
        reader = configparser.RawConfigParser(delimiters=("=",), strict=False, interpolation=None)
        reader.optionxform = str
        try:
            reader.read_string(self.texts.get("entry_points.txt", ""))
        except configparser.Error:
            return []
        found = []
        for section in "console_scripts", "gui_scripts":
            for name, value in reader.items(section) if reader.has_section(section) else ():
                point = ENTRY_POINT.fullmatch((value or "").strip())
                path = f"bin/{name}"
                if point is None or not SCRIPT_NAME.fullmatch(name) or flaw_of(path) or path.casefold() in seen:
                    if len(self.dropped) < DROPPED_MAX:
                        self.dropped.append(clean(f"entry point {name}", 200))
                    continue
                self.claim(seen, path)
                text = SCRIPT.format(module=point[1], first=point[2].partition(".")[0], attribute=point[2])
                found.append((path, text.encode()))
        return found

    def top_level(self):
        """The module names at the top level."""
        names = set()
        for entry in self.entries:
            first, _, rest = entry.path.partition("/")
            if rest and (first in ("bin", ".data-files") or first.endswith((".dist-info", ".libs"))):
                continue
            if entry.path.endswith((".py", ".so", ".pyc")):
                names.add(first.partition(".")[0])
        return sorted(name for name in names if name.isidentifier())[:DROPPED_MAX]

    # ---- Unpacking ------------------------------------------------------------------------------

    def pieces(self, file, entry):
        """Yields the bytes of an entry in pieces, exactly as many as announced."""
        file.seek(entry.offset)
        head = LOCAL.unpack(file.read(LOCAL.size))
        if head[0] != b"PK\3\4":
            self.bad("its zip has no entry at the given offset", entry.name)
        file.seek(head[9] + head[10], os.SEEK_CUR)
        inflater = zlib.decompressobj(-15) if entry.method == zipfile.ZIP_DEFLATED else None
        left, packed = entry.size, entry.packed
        while packed or inflater and inflater.unconsumed_tail:
            data = inflater.unconsumed_tail if inflater else b""
            if not data:
                data = file.read(min(packed, PIECE))
                packed -= len(data)
                if not data:
                    self.bad("it ends too early", entry.name)
            if inflater:
                try:
                    data = inflater.decompress(data, PIECE)
                except zlib.error:
                    self.bad("it cannot be unpacked", entry.name)
            left -= len(data)
            if left < 0:
                self.hostile("it is larger than announced: a zip bomb", entry.name)
            yield data
            if inflater and inflater.eof:
                break
        if left and inflater and not inflater.eof:      # what zlib still buffers
            data = inflater.flush(min(left, PIECE) + 1)
            left -= len(data)
            yield data
        if left:
            self.bad(f"it is {'smaller' if left > 0 else 'larger'} than announced", entry.name)

    def unpack(self, entries, path, compile_one, report):
        """Writes a part with these entries; returns (path, entries, bytes, RECORD lines)."""
        record = []
        with open(self.file_path, "rb") as file, Part(path) as part:
            for entry in entries:
                data = self.unpack_one(file, entry, part, record, report)
                compiled = compile_one(entry.path, data) if data and entry.path.endswith(".py") else None
                if compiled:
                    part.add(*compiled)
        return path, part.entries, part.bytes, record

    def unpack_one(self, file, entry, part, record, report):
        """Returns the content if it is small."""
        hasher, whole = hashlib.new(entry.digest[0]), []
        small = entry.size <= PIECE or entry.path.endswith(".py") and entry.size <= TEXT_MAX
        script = entry.path.startswith("bin/") and small        # may be changed below
        if not script:
            part.begin(entry.path, entry.size, entry.executable)
        for data in self.pieces(file, entry):
            hasher.update(data)
            if small:
                whole.append(data)
            if not script:
                part.write(data)
            report(len(data))
        if encode(hasher.digest()) != entry.digest[1]:
            self.bad("the hash of a file differs from RECORD", entry.name)
        data = b"".join(whole)
        if not script:
            record.append((entry.path, "=".join(entry.digest), str(entry.size)))
            return data
        if data.startswith(b"#!python"):
            data = SHEBANG + b"\n" + data.partition(b"\n")[2]
        part.add(entry.path, data, True)
        record.append((entry.path, f"sha256={encode(hashlib.sha256(data).digest())}", str(len(data))))
        return None

    def write_rest(self, path, record):
        """Writes the part with files that are not in the wheel: scripts, INSTALLER, RECORD."""
        record = list(record)
        with Part(path) as part:
            for name, data in (*self.scripts, (f"{self.info}/INSTALLER", b"constrictor\n")):
                part.add(name, data, name.startswith("bin/"))
                record.append((name, f"sha256={encode(hashlib.sha256(data).digest())}", str(len(data))))
            record.append((f"{self.info}/RECORD", "", ""))
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(sorted(record))
            part.add(f"{self.info}/RECORD", text.getvalue().encode())
        return path, part.entries, part.bytes
