// SPDX-License-Identifier: Apache-2.0
//
// bundles: bundles made by hand, good and bad, and a folder of wheels.  Used by
// test_porter_*.c.

#ifndef CONSTRICTOR_BUNDLES_H
#define CONSTRICTOR_BUNDLES_H

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "porter/bundle.h"
#include "porter/wheels.h"

#define WHEEL_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define WHEEL_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

enum { DRAFT_MAX = 64 * 1024 };

// ---- bytes --------------------------------------------------------------------------------------

struct draft {
    uint8_t data[DRAFT_MAX];
    size_t size;
    uint64_t files, bytes;
};

static inline void draft_put(struct draft *k, const void *data, size_t n)
{
    assert_true(k->size + n <= DRAFT_MAX);
    memcpy(k->data + k->size, data, n);
    k->size += n;
}

static inline void draft_head(struct draft *k, uint32_t a, uint32_t b, uint64_t c)
{
    uint8_t head[16];
    fileio_put_u32(head, a);
    fileio_put_u32(head + 4, b);
    fileio_put_u64(head + 8, c);
    draft_put(k, head, sizeof head);
}

static inline void draft_raw(struct draft *k, const void *path, size_t length, uint32_t flags,
                             const char *text)
{
    draft_head(k, (uint32_t)length, flags, strlen(text));
    draft_put(k, path, length);
    draft_put(k, text, strlen(text));
    k->files++;
    k->bytes += strlen(text);
}

static inline void draft_file(struct draft *k, const char *path, uint32_t flags, const char *text)
{
    draft_raw(k, path, strlen(path), flags, text);
}

static inline void draft_begin(struct draft *k)
{
    k->size = 0;
    k->files = k->bytes = 0;
    draft_put(k, "CBUN1\n", 6);
}

static inline void draft_end(struct draft *k)
{
    draft_head(k, 0, (uint32_t)k->files, k->bytes);
}

// A package as they are.
static inline void draft_good(struct draft *k)
{
    draft_begin(k);
    draft_file(k, "pkg/__init__.py", 0, "from pkg.deep.er import x\n");
    draft_file(k, "pkg/deep/er/__init__.py", 0, "x = 1\n");
    draft_file(k, "pkg/empty.py", 0, "");
    draft_file(k, "pkg/deep/tool", 1, "#!/bin/sh\n");
    draft_file(k, "pkg-1.0.dist-info/RECORD", 0, "pkg/__init__.py,,\n");
    draft_file(k, "\xc3\xbc.py", 0, "# u\n");
    draft_end(k);
}

static inline int draft_open(const void *data, size_t size)
{
    int fd = memfd_create("bundle", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, data, size), 0);
    return fd;
}

// ---- wheels -------------------------------------------------------------------------------------

static char wheels_parent[64];

static inline int remove_one(const char *name, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    return remove(name);
}

// On a disk, or where a sync costs nothing.
static inline void make_wheel_folders(bool disk)
{
    (void)umask(0022);
    snprintf(wheels_parent, sizeof wheels_parent, "%s/constrictor-porter-XXXXXX",
             disk || access("/dev/shm", W_OK) < 0 ? "/tmp" : "/dev/shm");
    assert_non_null(mkdtemp(wheels_parent));
}

static inline void remove_wheel_folders(void)
{
    char wheels_path[96];
    snprintf(wheels_path, sizeof wheels_path, "%s/wheels", wheels_parent);
    (void)chmod(wheels_path, 0700);
    assert_int_equal(nftw(wheels_parent, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

// As the keeper does it.
static inline void open_wheel_folders(int *ret_folder, int *ret_wheels)
{
    int folder = open(wheels_parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder >= 0);
    assert_true(mkdirat(folder, "wheels", 0700) == 0 || errno == EEXIST);
    assert_int_equal(fchmodat(folder, "wheels", 0700, 0), 0);
    int below = openat(folder, "wheels", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(below >= 0);
    assert_int_equal(fchmod(below, 0311), 0);
    *ret_folder = folder;
    *ret_wheels = below;
}

static inline void open_test_wheels(struct wheels *s)
{
    struct err e = {0};
    int folder, below;
    open_wheel_folders(&folder, &below);
    if (wheels_open(s, folder, below, 0, &e) < 0)
        fail_msg("%s", e.message);
}

// What is below wheels/, without descending.
static inline unsigned count_below(const char *prefix)
{
    char wheels_path[96];
    unsigned n = 0;
    snprintf(wheels_path, sizeof wheels_path, "%s/wheels", wheels_parent);
    assert_int_equal(chmod(wheels_path, 0711), 0);
    DIR *d = opendir(wheels_path);
    assert_non_null(d);
    for (const struct dirent *one; (one = readdir(d));)
        n += one->d_name[0] != '.' && strncmp(one->d_name, prefix, strlen(prefix)) == 0;
    (void)closedir(d);
    assert_int_equal(chmod(wheels_path, 0311), 0);
    return n;
}

static inline void read_in_wheel(const struct wheels *s, const char *id, const char *path,
                                 char *ret, size_t cap)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", id, path);
    _cleanup_close_ int fd = openat(s->folder, full, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t n = read(fd, ret, cap - 1);
    assert_true(n >= 0);
    ret[n] = '\0';
}

#endif
