// SPDX-License-Identifier: Apache-2.0
//
// bundles: bundles made by hand, good and bad, and a shelf in a folder of its own.  Used by
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
    flow_put_u32(head, a);
    flow_put_u32(head + 4, b);
    flow_put_u64(head + 8, c);
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

// ---- a shelf ------------------------------------------------------------------------------------

static char shelf_folder[64];

static inline int remove_one(const char *name, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    return remove(name);
}

// On a disk, or where a sync costs nothing.
static inline void make_shelf_folder(bool disk)
{
    (void)umask(0022);
    snprintf(shelf_folder, sizeof shelf_folder, "%s/constrictor-porter-XXXXXX",
             disk || access("/dev/shm", W_OK) < 0 ? "/tmp" : "/dev/shm");
    assert_non_null(mkdtemp(shelf_folder));
}

static inline void remove_shelf_folder(void)
{
    char layers_path[96];
    snprintf(layers_path, sizeof layers_path, "%s/layers", shelf_folder);
    (void)chmod(layers_path, 0700);
    assert_int_equal(nftw(shelf_folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

// As the keeper does it.
static inline void open_shelf_folders(int *ret_folder, int *ret_layers)
{
    int folder = open(shelf_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder >= 0);
    assert_true(mkdirat(folder, "layers", 0700) == 0 || errno == EEXIST);
    assert_int_equal(fchmodat(folder, "layers", 0700, 0), 0);
    int below = openat(folder, "layers", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(below >= 0);
    assert_int_equal(fchmod(below, 0311), 0);
    *ret_folder = folder;
    *ret_layers = below;
}

static inline void open_test_shelf(struct shelf *s)
{
    struct err e = {0};
    int folder, below;
    open_shelf_folders(&folder, &below);
    if (shelf_open(s, folder, below, &e) < 0)
        fail_msg("%s", e.message);
}

// What is below layers/, without descending.
static inline unsigned count_below(const char *prefix)
{
    char layers_path[96];
    unsigned n = 0;
    snprintf(layers_path, sizeof layers_path, "%s/layers", shelf_folder);
    assert_int_equal(chmod(layers_path, 0711), 0);
    DIR *d = opendir(layers_path);
    assert_non_null(d);
    for (const struct dirent *one; (one = readdir(d));)
        n += one->d_name[0] != '.' && strncmp(one->d_name, prefix, strlen(prefix)) == 0;
    (void)closedir(d);
    assert_int_equal(chmod(layers_path, 0311), 0);
    return n;
}

static inline void read_in_shelf(const struct shelf *s, const char *id, const char *path, char *ret,
                                 size_t cap)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", id, path);
    _cleanup_close_ int fd = openat(s->layers, full, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t n = read(fd, ret, cap - 1);
    assert_true(n >= 0);
    ret[n] = '\0';
}

#endif
