# SPDX-License-Identifier: Apache-2.0
"""snapshot: takes and restores snapshots of a session's files, for undo.py, in a box between runs.

Copies are in a hidden folder beside the scratch folder, on the same file system and mount, so that
links and renames work:

    .undo/s7/          a snapshot: one file for each different file, under a name of its own
    .undo/f2/          the files of fork 2 while another fork has the scratch folder

A file is unchanged if its inode, size and both times are the same. The kernel's clock advances in
steps, so the content of a recently changed file is compared instead. A snapshot links to the copies of
the one before for unchanged files, so it costs only what changed. Live files are never linked to
copies: code that writes into a file would change its past.

SECURITY: links are not followed. The folder belongs to user code, so every obstacle (permissions, no
space, too many files, a path too long) ends in OSError or Unavailable, never in a wrong state that
passes for the right one.
"""

import posix
from errno import ENXIO
from posix import chmod, close, ftruncate, link, listdir, lseek, lstat, mkdir, mkfifo
from posix import open as open_fd, pread, pwrite, readlink, rename, rmdir, scandir, statvfs
from posix import symlink, unlink, utime
from time import time_ns

from base import __builtins__           # first: functions look builtins up there
from base import Box

ENTRIES_MAX = 10_000        # files and folders of a session that can be undone
DEPTH_MAX = 64              # folders within folders
COPY_MAX = 256 * 1024 * 1024    # bytes that one snapshot copies
CHUNK = 1024 * 1024
STEP_NS = 25_000_000        # the clock of the file system is at most this late: 100 Hz and a margin
BLOCK = 512                 # unit of st_blocks
READ_ONLY = 1               # of statvfs
FORMAT, REGULAR, FOLDER, LINK, PIPE = 0o170000, 0o100000, 0o040000, 0o120000, 0o010000
PERMISSIONS = 0o7777
READ = posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_CLOEXEC | posix.O_NONBLOCK
WRITE = posix.O_WRONLY | posix.O_NOFOLLOW | posix.O_CLOEXEC | posix.O_NONBLOCK
NEW = WRITE | posix.O_CREAT | posix.O_EXCL
SEEK_DATA, SEEK_HOLE = 3, 4
AT_ONCE = getattr(posix, "copy_file_range", None)


class Unavailable(Exception):
    """A checkpoint cannot be made; the text says why."""


class Entry:
    """One file, folder, link or pipe."""
    __slots__ = "kind", "mode", "signature", "mtime", "copy", "settled"

    def __init__(self, stat, copy, now):
        self.kind, self.mode = stat.st_mode & FORMAT, stat.st_mode & PERMISSIONS
        self.signature = signature(stat)
        self.mtime = stat.st_mtime_ns
        self.copy = copy                # name of the copy, or target of the link
        self.settled = stat.st_ctime_ns < now - STEP_NS     # a later change has another time


class Files:
    """A snapshot: entries by path (bytes, relative), and the number of its folder, or 0."""
    def __init__(self, number, entries):
        self.number, self.entries = number, entries


def signature(stat):
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


# ---- Paths ---------------------------------------------------------------------------------------

def root():
    return Box.scratch.encode()


def store(name=b""):
    return root().rpartition(b"/")[0] + b"/.undo/" + name


def folder_of(number):
    return store(b"s%d/" % number)


def make_folder(path):
    for folder in store(), path:
        try:
            mkdir(folder, 0o700)
        except FileExistsError:
            pass


# ---- Listing -------------------------------------------------------------------------------------

def list_folder(path, mode):
    """Entries of a folder with their stat, even if its mode denies that to its owner."""
    try:
        with scandir(path) as entries:
            return [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    except PermissionError:
        if mode & 0o500 == 0o500:
            raise
    chmod(path, mode | 0o700)
    try:
        return list_folder(path, 0o700)
    finally:
        chmod(path, mode)


def walk(top, limit=ENTRIES_MAX):
    """{path: stat} of everything below, folders before their content."""
    found, folders = {}, [(b"", 0o700, 0)]
    while folders:
        folder, mode, depth = folders.pop()
        for name, stat in list_folder(top + b"/" + folder, mode):
            path = folder + name
            found[path] = stat
            if len(found) > limit:
                raise Unavailable(f"there are more than {limit} files in {Box.scratch}")
            if stat.st_mode & FORMAT == FOLDER:
                if depth == DEPTH_MAX:
                    raise Unavailable(f"folders are more than {DEPTH_MAX} deep in {Box.scratch}")
                folders.append((path + b"/", stat.st_mode & PERMISSIONS, depth + 1))
    return found


# ---- Copying -------------------------------------------------------------------------------------

def copy_range(source, target, start, end):
    while start < end:
        count = 0
        if AT_ONCE is not None:
            try:
                count = AT_ONCE(source, target, end - start, start, start)
            except OSError:
                pass                    # not supported here; a real error comes again below
        if not count:
            data = pread(source, min(CHUNK, end - start), start)
            if not data:
                return                  # the file was truncated
            count = pwrite(target, data, start)
        start += count


def copy_data(source, target, size):
    """Copies data but not holes: a sparse file may be a petabyte long with one page of data."""
    at = 0
    ftruncate(target, 0)
    while at < size:
        try:
            start = lseek(source, at, SEEK_DATA)
        except OSError as exc:
            if exc.errno != ENXIO:
                raise
            break
        at = min(lseek(source, start, SEEK_HOLE), size)
        copy_range(source, target, start, at)
    ftruncate(target, size)


def open_despite(path, flags, mode):
    """Opens a file even if its mode denies it."""
    try:
        return open_fd(path, flags)
    except PermissionError:
        chmod(path, 0o600)
    try:
        return open_fd(path, flags)
    finally:
        chmod(path, mode)


def copy_file(path, mode, size, target, flags):
    source = open_despite(path, READ, mode)
    try:
        fd = open_despite(target, flags, mode) if flags == WRITE else open_fd(target, flags, 0o600)
        try:
            copy_data(source, fd, size)
        finally:
            close(fd)
    finally:
        close(source)


def same_data(path, mode, copy):
    """Do two files of the same size have the same content?"""
    fds = []
    try:
        fds.append(open_despite(path, READ, mode))
        fds.append(open_fd(copy, READ))
        at = 0
        while True:
            one, other = pread(fds[0], CHUNK, at), pread(fds[1], CHUNK, at)
            if one != other or not one:
                return one == other
            at += len(one)
    except OSError:
        return False
    finally:
        for fd in fds:
            close(fd)


# ---- Taking --------------------------------------------------------------------------------------

def unchanged(path, stat, was, before):
    if was is None or was.kind != stat.st_mode & FORMAT or was.signature != signature(stat):
        return False
    if was.settled or was.kind != REGULAR:
        return True
    return same_data(root() + b"/" + path, was.mode, folder_of(before.number) + was.copy)


def compare(stats, before, number):
    """Entries of a new snapshot, and what has to be copied: {name of the copy: (path, stat)}."""
    entries, copies, by_inode, now = {}, {}, {}, time_ns()
    for path, stat in stats.items():
        kind, was, copy = stat.st_mode & FORMAT, before.entries.get(path), None
        if kind == REGULAR and unchanged(path, stat, was, before):
            copy = was.copy
        elif kind == REGULAR:
            copy = by_inode.get(stat.st_ino) or b"%d.%d" % (number, len(copies))
            by_inode[stat.st_ino] = copy
            copies.setdefault(copy, (path, stat))
        elif kind == LINK:
            copy = readlink(root() + b"/" + path)
        elif kind not in (FOLDER, PIPE):
            continue                    # a socket cannot be restored
        entries[path] = Entry(stat, copy, now)
    return entries, copies


def same_entries(entries, before):
    """Compares with a snapshot; entries that are the same become settled in `before`."""
    others = before.entries
    if entries.keys() != others.keys():
        return False
    for path, entry in entries.items():
        other = others[path]
        if (entry.kind, entry.mode, entry.mtime, entry.copy) != \
                (other.kind, other.mode, other.mtime, other.copy):
            return False
        if entry.kind == REGULAR and entry.signature != other.signature:
            return False
        other.settled = other.settled or entry.settled
    return True


def space_used():
    """(used, free) bytes of the file system, which is memory of the box."""
    stat = statvfs(root())
    return (stat.f_blocks - stat.f_bfree) * stat.f_frsize, stat.f_bavail * stat.f_frsize


def is_frozen():
    """Is the scratch folder read-only (box/mounts.h)? Then files never change and there is nothing to do."""
    return statvfs(root()).f_flag & READ_ONLY


def take(number, before, room):
    """Takes a snapshot. `before`: the last one, returned if it still fits; `room`: bytes that may be copied."""
    if is_frozen():
        return before
    if before.number and not has_copies(before.number):
        before = Files(0, {})           # user code removed the copies
    entries, copies = compare(walk(root()), before, number)
    if not copies and same_entries(entries, before):
        return before
    size = sum([stat.st_blocks * BLOCK for _, stat in copies.values()])
    room = max(0, min(room, COPY_MAX, space_used()[1]))
    if size > room:
        raise Unavailable(f"files too large: {size >> 20} MiB in {Box.scratch} changed, and there "
                          f"is room for copies of {room >> 20} MiB")
    names = {entry.copy for entry in entries.values() if entry.kind == REGULAR}
    if not names:
        return Files(0, entries)
    make_folder(folder_of(number))
    try:
        for name in names:
            if name in copies:
                path, stat = copies[name]
                copy_file(root() + b"/" + path, stat.st_mode & PERMISSIONS, stat.st_size,
                          folder_of(number) + name, NEW)
            else:
                share(folder_of(before.number) + name, folder_of(number) + name)
    except OSError as exc:
        discard(number)
        raise Unavailable(f"its files could not be copied: {exc.strerror}") from None
    return Files(number, entries)


def has_copies(number):
    try:
        return bool(lstat(folder_of(number)))
    except OSError:
        return False


def share(source, target):
    try:
        link(source, target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:                     # Landlock before Linux 5.19 denies links between folders
        copy_file(source, 0o600, lstat(source).st_size, target, NEW)


def discard(number):
    """Removes the copies of a snapshot."""
    try:
        for name in listdir(folder_of(number)):
            unlink(folder_of(number) + name)
        rmdir(folder_of(number))
    except OSError:
        pass                            # user code changed it


def collect(numbers, serials=()):
    """Removes all other snapshots, and the marks of other checkpoints (marks.py)."""
    try:
        names = listdir(store())
    except OSError:
        return
    for name in names:
        if name[:1] == b"s" and name[1:].isdigit() and int(name[1:]) not in numbers:
            discard(int(name[1:]))
        elif name[:1] == b"v" and name[1:].isdigit() and int(name[1:]) not in serials:
            try:
                unlink(store(name))
            except OSError:
                pass                    # user code changed it


# ---- Restoring -----------------------------------------------------------------------------------

def remove(top, stats):
    """Removes what walk() found, content before folders."""
    for path in reversed(stats):
        whole, folder = top + b"/" + path, path.rpartition(b"/")[0]
        action = rmdir if stats[path].st_mode & FORMAT == FOLDER else unlink
        try:
            action(whole)
        except PermissionError:         # the folder is not writable
            chmod(top + b"/" + folder if folder else top, 0o700)
            action(whole)
        except FileNotFoundError:
            pass


def wipe(top):
    """Empties a folder of any size."""
    remove(top, walk(top, limit=1 << 62))


def put_data(path, entry, number, here):
    """Gives the file at `path` the content of the entry; `here`: its stat, or None if it is missing."""
    whole, copy = root() + b"/" + path, folder_of(number) + entry.copy
    size = entry.signature[1]
    if here is None:
        copy_file(copy, 0o600, size, whole, NEW)
        return
    # In place, so that open descriptors see it.
    if here.st_size != size or not same_data(whole, here.st_mode & PERMISSIONS, copy):
        copy_file(copy, 0o600, size, whole, WRITE)


def put(path, entry, number, here, by_inode):
    """Restores one entry; its path is free or has a file of the same kind."""
    whole = root() + b"/" + path
    if entry.kind == FOLDER:
        if here is None:
            mkdir(whole, 0o700)
    elif entry.kind == LINK:
        if here is None or readlink(whole) != entry.copy:
            if here is not None:
                unlink(whole)
            symlink(entry.copy, whole)
    elif entry.kind == PIPE:
        if here is None:
            mkfifo(whole, 0o600)
    elif here is None and entry.signature[0] in by_inode:
        link(by_inode[entry.signature[0]], whole, follow_symlinks=False)
    else:
        put_data(path, entry, number, here)
    by_inode.setdefault(entry.signature[0], whole)


def finish(path, entry, now):
    """Sets mode and time, after the content. Returns the new entry."""
    whole = root() + b"/" + path
    stat = lstat(whole)
    if entry.kind != LINK and stat.st_mode & PERMISSIONS != entry.mode:
        chmod(whole, entry.mode)
    if stat.st_mtime_ns != entry.mtime:
        utime(whole, ns=(entry.mtime, entry.mtime), follow_symlinks=False)
    return Entry(lstat(whole), entry.copy, now)


def restore(files):
    """Restores the scratch folder; touches only what differs. Returns the snapshot with the current times."""
    if is_frozen():
        return files
    top, entries, by_inode = root(), files.entries, {}
    stats = walk(top, limit=1 << 62)
    # Remove files that were replaced or that got a second name.
    wrong = {path: stat for path, stat in stats.items()
             if path not in entries or entries[path].kind != stat.st_mode & FORMAT
             or entries[path].kind == REGULAR and entries[path].signature[0] != stat.st_ino}
    remove(top, wrong)
    for path, entry in entries.items():
        here = None if path in wrong else stats.get(path)
        if here is not None and entry.kind == FOLDER and here.st_mode & 0o700 != 0o700:
            chmod(top + b"/" + path, 0o700)
        if here is not None and entry.settled and entry.signature == signature(here):
            by_inode.setdefault(entry.signature[0], top + b"/" + path)
        else:
            put(path, entry, files.number, here, by_inode)
    now, fresh = time_ns(), []
    for path in reversed(entries):      # a folder after its content
        fresh.append((path, finish(path, entries[path], now)))
    return Files(files.number, dict(reversed(fresh)))


# ---- Forks ---------------------------------------------------------------------------------------

def swap_out(fork, files):
    """Moves the files of the scratch folder away. Returns the names that are unchanged since the snapshot."""
    if is_frozen():
        return set()
    away, clean = store(b"f%d/" % fork), set()
    make_folder(away)
    for name in listdir(root()):
        entry = files.entries.get(name)
        if entry and entry.settled and entry.signature == signature(lstat(root() + b"/" + name)):
            clean.add(name)
        rename(root() + b"/" + name, away + name)
    return clean


def swap_in(fork, files, clean):
    """Moves them back. Returns the snapshot with the times that a rename sets."""
    if is_frozen():
        return files
    away, entries, now = store(b"f%d/" % fork), dict(files.entries), time_ns()
    for name in listdir(away):
        whole = root() + b"/" + name
        rename(away + name, whole)
        if name in clean:
            entries[name] = Entry(lstat(whole), entries[name].copy, now)
    rmdir(away)
    return Files(files.number, entries)


def forget_fork(fork):
    away = store(b"f%d" % fork)
    try:
        wipe(away)
        rmdir(away)
    except OSError:
        pass
