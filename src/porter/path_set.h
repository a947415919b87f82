// SPDX-License-Identifier: Apache-2.0
//
// path_set: the paths of one bundle, to find conflicts: one path twice, two that differ only in
// case (one file on some disks), a file where a folder is.  Called by bundle.c.
//
// Keeps digests of paths only, so that memory is bounded by the number of files and folders.
// SECURITY: digests have a random key: else a bundle could choose paths with colliding digests.

#ifndef CONSTRICTOR_PORTER_PATH_SET_H
#define CONSTRICTOR_PORTER_PATH_SET_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { PATH_SET_KEY = 16, PATH_SET_PATH_MAX = 512 };

struct path_set {
    struct name *table;
    size_t size, used; // of the table, a power of two; used entries
    uint64_t folders, folders_max;
    char last[PATH_SET_PATH_MAX]; // the folder of the last file, which is already in the table
    size_t last_length;
    uint8_t key[PATH_SET_KEY];
};

int path_set_open(struct path_set *n, uint64_t folders_max, struct err *e);
void path_set_close(struct path_set *n);

// Adds a file and the folders above it.  -EBADMSG: a conflict; -EFBIG: too many folders.
int path_set_add(struct path_set *n, const char *path, size_t length, struct err *e);

#endif
