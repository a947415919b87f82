// SPDX-License-Identifier: Apache-2.0
//
// dbfolder: see dbfolder.h.  SQLite lets a program replace the system calls of its "unix" VFS:
// those that take a path are replaced with ones that look in the folder.  A second VFS on top of it
// does not make paths absolute.

#include "files/dbfolder.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static int the_folder = -1, other_folder = -1;
static const char *other_prefix;
static mode_t other_mode;

void dbfolder_also(const char *prefix, int folder)
{
    struct stat st;
    other_prefix = prefix;
    other_folder = folder;
    other_mode = fstat(folder, &st) == 0 && st.st_mode & S_IWGRP ? 0660 : 0600;
}

static int folder_of(const char *name)
{
    return other_prefix && strncmp(name, other_prefix, strlen(other_prefix)) == 0 ? other_folder
                                                                                  : the_folder;
}

// SECURITY: accept only a name in the folder, never a path out of it.
static bool is_plain(const char *name)
{
    if (!strchr(name, '/'))
        return true;
    errno = EACCES;
    return false;
}

static int open_in(const char *name, int flags, int mode)
{
    (void)mode; // only gates may open the files, whatever SQLite asks
    int folder = folder_of(name);
    return is_plain(name) ? openat(folder, name, flags | O_NOFOLLOW | O_CLOEXEC,
                                   folder == other_folder ? other_mode : 0600)
                          : -1;
}

static int access_in(const char *name, int mode)
{
    return is_plain(name) ? faccessat(folder_of(name), name, mode, 0) : -1;
}

static int stat_in(const char *name, struct stat *ret)
{
    return is_plain(name) ? fstatat(folder_of(name), name, ret, AT_SYMLINK_NOFOLLOW) : -1;
}

static int unlink_in(const char *name)
{
    return is_plain(name) ? unlinkat(folder_of(name), name, 0) : -1;
}

static int full_name(sqlite3_vfs *vfs, const char *name, int cap, char *ret)
{
    (void)vfs;
    size_t n = strlen(name);
    if (cap <= 0 || n >= (size_t)cap)
        return SQLITE_CANTOPEN;
    memcpy(ret, name, n + 1);
    return SQLITE_OK;
}

// The "unix" VFS reads /dev/urandom, which the gate cannot open.
static int randomness(sqlite3_vfs *vfs, int length, char *ret)
{
    (void)vfs;
    ssize_t n = getrandom(ret, (size_t)length, 0);
    return n < 0 ? 0 : (int)n;
}

int dbfolder_use(int folder, struct err *e)
{
    static sqlite3_vfs vfs;
    static const struct {
        const char *name;
        sqlite3_syscall_ptr call;
    } calls[] = {
        {"open", (sqlite3_syscall_ptr)(void *)open_in},
        {"access", (sqlite3_syscall_ptr)(void *)access_in},
        {"stat", (sqlite3_syscall_ptr)(void *)stat_in},
        {"lstat", (sqlite3_syscall_ptr)(void *)stat_in},
        {"unlink", (sqlite3_syscall_ptr)(void *)unlink_in},
    };
    the_folder = folder;
    if (vfs.zName)
        return 0;
    sqlite3_vfs *unix_vfs = sqlite3_initialize() == SQLITE_OK ? sqlite3_vfs_find("unix") : NULL;
    if (!unix_vfs || unix_vfs->iVersion < 3)
        return err_set(e, ERR_STATE_FOLDER, 0, NULL,
                       "this SQLite (%s) has no system calls to replace", sqlite3_libversion());
    for (size_t i = 0; i < ARRAY_LEN(calls); i++)
        if (unix_vfs->xSetSystemCall(unix_vfs, calls[i].name, calls[i].call) != SQLITE_OK &&
            strcmp(calls[i].name, "lstat") != 0) // older ones have none
            return err_set(e, ERR_STATE_FOLDER, 0, NULL, "SQLite does not let its '%s' be replaced",
                           calls[i].name);
    vfs = *unix_vfs;
    vfs.pNext = NULL;
    vfs.zName = DBFOLDER_VFS;
    vfs.xFullPathname = full_name;
    vfs.xRandomness = randomness;
    if (sqlite3_vfs_register(&vfs, 1) == SQLITE_OK)
        return 0;
    vfs.zName = NULL;
    return err_set(e, ERR_STATE_FOLDER, 0, NULL, "SQLite refuses the VFS for its files");
}
