// SPDX-License-Identifier: Apache-2.0
//
// folder: see folder.h.

#include "porter/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

// NULL with errno.
static DIR *open_folder(int parent, const char *name)
{
    _cleanup_close_ int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (d)
        (void)TAKE_FD(fd);
    return d;
}

// ---- removing -----------------------------------------------------------------------------------

static int remove_at(int parent, const char *name, unsigned depth);

static int remove_inside(DIR *names, unsigned depth)
{
    int r = 0;
    for (const struct dirent *d; (d = readdir(names));) {
        int one = is_dots(d->d_name) ? 0 : remove_at(dirfd(names), d->d_name, depth + 1);
        if (one < 0)
            r = one;
    }
    return r;
}

static int remove_at(int parent, const char *name, unsigned depth)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM) // POSIX has the second for a folder
        return -errno;
    if (depth > FOLDER_DEPTH_MAX)
        return -ELOOP;
    // Some file systems skip names while others are removed: try again.
    for (int i = 0; i < 3; i++) {
        DIR *names = open_folder(parent, name);
        if (!names)
            return -errno;
        int r = remove_inside(names, depth);
        (void)closedir(names);
        if (r < 0)
            return r;
        if (unlinkat(parent, name, AT_REMOVEDIR) == 0)
            return 0;
        if (errno != ENOTEMPTY && errno != EEXIST)
            return -errno;
    }
    return -ENOTEMPTY;
}

int folder_remove(int parent, const char *name)
{
    return remove_at(parent, name, 0);
}

// ---- walking ------------------------------------------------------------------------------------

struct listing {
    char **names;
    size_t count, room;
};

static void listing_free(struct listing *l)
{
    while (l->count)
        free(l->names[--l->count]);
    free(l->names);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool listing_add(struct listing *l, const char *name)
{
    if (l->count == l->room) {
        size_t room = l->room ? l->room * 2 : 64;
        char **names = realloc(l->names, room * sizeof *names);
        if (!names)
            return false;
        l->names = names;
        l->room = room;
    }
    size_t length = strlen(name) + 1;
    char *copy = malloc(length);
    if (!copy)
        return false;
    memcpy(copy, name, length);
    l->names[l->count++] = copy;
    return true;
}

static int listing_read(struct listing *l, int folder, struct err *e)
{
    DIR *d = open_folder(folder, ".");
    int r = d ? 0 : err_set(e, ERR_SYSTEM, errno, NULL, "read a folder of a wheel");
    errno = 0;
    for (const struct dirent *entry; r == 0 && (entry = readdir(d)); errno = 0)
        if (!is_dots(entry->d_name) && !listing_add(l, entry->d_name))
            r = err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read a folder of a wheel");
    if (r == 0 && errno)
        r = err_set(e, ERR_SYSTEM, errno, NULL, "read a folder of a wheel");
    if (d)
        (void)closedir(d);
    if (r == 0 && l->count)
        qsort(l->names, l->count, sizeof *l->names, compare);
    return r;
}

static int walk(int folder, struct bundle_entry *entry, unsigned depth,
                const struct folder_visit *visit, struct err *e);

// SECURITY: O_NONBLOCK, so that a pipe cannot hold us; O_NOFOLLOW, so that a link is an error.
static int visit_one(int folder, const char *name, struct bundle_entry *entry, unsigned depth,
                     const struct folder_visit *visit, struct err *e)
{
    struct stat st;
    size_t had = entry->length, length = strlen(name);
    if (had + 1 + length > BUNDLE_PATH_MAX || depth >= BUNDLE_DEPTH_MAX)
        return err_set(e, ERR_INTERNAL, 0, NULL, "a wheel has a path that is too long");
    _cleanup_close_ int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "open '%s' of a wheel", name);
    if (had)
        entry->path[entry->length++] = '/';
    memcpy(entry->path + entry->length, name, length + 1);
    entry->length += length;
    entry->size = (uint64_t)st.st_size;
    entry->executable = st.st_mode & S_IXUSR;
    int r = S_ISDIR(st.st_mode) ? walk(fd, entry, depth + 1, visit, e)
            : S_ISREG(st.st_mode)
                ? visit->file(visit->argument, fd, entry, e)
                : err_set(e, ERR_INTERNAL, 0, NULL, "'%s' in a wheel is not a file", entry->path);
    entry->length = had;
    entry->path[had] = '\0';
    return r;
}

static int walk(int folder, struct bundle_entry *entry, unsigned depth,
                const struct folder_visit *visit, struct err *e)
{
    struct listing l = {0};
    int r = listing_read(&l, folder, e);
    for (size_t i = 0; r == 0 && i < l.count; i++)
        r = visit_one(folder, l.names[i], entry, depth, visit, e);
    listing_free(&l);
    return r;
}

int folder_walk(int folder, const struct folder_visit *visit, struct err *e)
{
    struct bundle_entry entry = {0};
    return walk(folder, &entry, 0, visit, e);
}
