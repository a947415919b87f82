// SPDX-License-Identifier: Apache-2.0
//
// files_internal: what files.c and removal.c share: system calls without libc, entries of folders,
// temporary names.

#ifndef CONSTRICTOR_BOX_FILES_INTERNAL_H
#define CONSTRICTOR_BOX_FILES_INTERNAL_H

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "base/sys.h"

#ifndef SYS_openat2
#define SYS_openat2 437
#endif

enum {
    DENTS_SIZE = 16 * 1024,
    FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC,
};

// As the kernel writes it; libc's has the same members, but promises nothing.
struct dent {
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

static inline void close_fd(long fd)
{
    if (fd >= 0)
        (void)sys_raw(SYS_close, fd, 0, 0, 0, 0, 0);
}

// gVisor has no openat2: one name at a time, and no link is followed.  `path` is made of plain
// names, as is_plain() says, or ".".
static inline long walk_beneath(long at, const char *path, uint64_t flags)
{
    char name[256];
    long folder = at;
    for (const char *end; folder >= 0 && (end = strchr(path, '/')); path = end + 1) {
        size_t length = (size_t)(end - path);
        long next = -ENAMETOOLONG;
        if (length < sizeof name) {
            memcpy(name, path, length);
            name[length] = '\0';
            next = sys_raw(SYS_openat, folder, (long)name,
                           O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0, 0, 0);
        }
        if (folder != at)
            close_fd(folder);
        folder = next;
    }
    if (folder < 0)
        return folder;
    long fd = sys_raw(SYS_openat, folder, (long)path, (long)(flags | O_NOFOLLOW), 0, 0, 0);
    if (folder != at)
        close_fd(folder);
    return fd;
}

static inline long open_beneath(long at, const char *path, uint64_t flags)
{
    struct open_how how = {.flags = flags,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                                      RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
    long fd = sys_raw(SYS_openat2, at, (long)path, (long)&how, sizeof how, 0, 0);
    return fd == -ENOSYS ? walk_beneath(at, path, flags) : fd;
}

static inline long look(long at, const char *name, int flags, struct statx *ret)
{
    return sys_raw(SYS_statx, at, (long)name, flags | AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS,
                   (long)ret, 0);
}

static inline long unlink_at(long at, const char *name, int flags)
{
    return sys_raw(SYS_unlinkat, at, (long)name, flags, 0, 0, 0);
}

// The next entry of a folder, or NULL.  `*at` and `*have` begin with 0; `buffer` has DENTS_SIZE
// bytes.
static inline struct dent *next_dent(long folder, char *buffer, size_t *at, size_t *have)
{
    enum { HEAD = offsetof(struct dent, name) };
    for (;;) {
        if (*at + HEAD >= *have) {
            long n = sys_raw(SYS_getdents64, folder, (long)buffer, DENTS_SIZE, 0, 0, 0);
            if (n <= HEAD)
                return NULL;
            *at = 0;
            *have = (size_t)n;
        }
        struct dent *d = (struct dent *)(void *)(buffer + *at);
        if (d->length <= HEAD || d->length > *have - *at)
            return NULL;
        *at += d->length;
        if (strcmp(d->name, ".") != 0 && strcmp(d->name, "..") != 0)
            return d;
    }
}

#define TEMPORARY_BEGIN ".constrictor-"
#define TEMPORARY_END ".part"
enum { BEGIN_LENGTH = sizeof TEMPORARY_BEGIN - 1, DIGITS = 8, TEMPORARY_SIZE = 32 };

static inline void make_temporary(uint32_t ticket, char ret[TEMPORARY_SIZE])
{
    memcpy(ret, TEMPORARY_BEGIN, BEGIN_LENGTH);
    for (int i = 0; i < DIGITS; i++)
        ret[BEGIN_LENGTH + i] = "0123456789abcdef"[ticket >> (28 - 4 * i) & 15];
    memcpy(ret + BEGIN_LENGTH + DIGITS, TEMPORARY_END, sizeof TEMPORARY_END);
}

#endif
