// SPDX-License-Identifier: Apache-2.0
//
// path_set: the paths of one bundle, to find those that do not go together: one twice, two that
// differ only in case (one file on a disk that does not tell), a file where a folder is.  Called by
// bundle.c.
//
// Of a path only digests are kept, so that the memory is bounded by the number of files and
// folders.
// SECURITY: with a key that nobody knows: else somebody could choose paths that meet in one place,
// or one digest.

#ifndef CONSTRICTOR_PORTER_PATH_SET_H
#define CONSTRICTOR_PORTER_PATH_SET_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { PATH_SET_KEY = 16, PATH_SET_PATH_MAX = 512 };

struct path_set {
    struct name *table;
    size_t size, used; // places, a power of two; taken ones
    uint64_t folders, folders_max;
    char last[PATH_SET_PATH_MAX]; // the folder of the file before, which is known
    size_t last_length;
    uint8_t key[PATH_SET_KEY];
};

int path_set_open(struct path_set *n, uint64_t folders_max, struct err *e);
void path_set_close(struct path_set *n);

// A file, and the folders above it.  -EBADMSG: not beside what is there; -EFBIG: too many folders.
int path_set_add(struct path_set *n, const char *path, size_t length, struct err *e);

#endif
