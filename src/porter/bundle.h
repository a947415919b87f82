// SPDX-License-Identifier: Apache-2.0
//
// bundle: an unpacked wheel as one stream of bytes.  Written by installer.py in a box and by
// archive.c; read by the porter, which checks everything.
//
//   "CBUN1\n", entries, u32le 0, u32le number of entries, u64le total bytes
//   entry: u32le length of path, u32le flags (1: executable), u64le size, path, `size` bytes

#ifndef CONSTRICTOR_PORTER_BUNDLE_H
#define CONSTRICTOR_PORTER_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "porter/fileio.h"

enum {
    BUNDLE_PATH_MAX = 400, // bytes
    BUNDLE_NAME_MAX = 255, // of one part of it; what file systems take
    BUNDLE_DEPTH_MAX = 32, // parts
};

// The size or the limit of a bundle; there may be as many folders as files.
struct bundle_size {
    uint64_t bytes, files;
};

struct bundle_entry {
    char path[BUNDLE_PATH_MAX + 1];
    size_t length;
    bool executable;
    uint64_t size;
};

// Gets each file: begin, data until entry->size bytes have come, end.  Each returns 0 or ends the
// reading with its error.  The paths are checked, also against each other.
struct bundle_sink {
    int (*begin)(void *argument, const struct bundle_entry *entry, struct err *e);
    int (*data)(void *argument, const uint8_t *data, size_t n, struct err *e);
    int (*end)(void *argument, struct err *e);
    void *argument;
};

// Reads one bundle and nothing after it.  -EBADMSG: not a bundle, and why; -EFBIG: larger than the
// limit, found before the sink gets the excess.  Without a sink it is only checked.
int bundle_read(struct file_reader *in, const struct bundle_size *limit,
                const struct bundle_sink *sink, struct bundle_size *ret, struct err *e);

// NULL when the path is good, else what is wrong with it.
const char *bundle_flaw(const char *path, size_t length);

// The writing side: begin, for each file an entry and its bytes (file_writer_write), end.
int bundle_begin(struct file_writer *out, struct err *e);
int bundle_add(struct file_writer *out, const struct bundle_entry *entry, struct err *e);
int bundle_end(struct file_writer *out, const struct bundle_size *size, struct err *e);

#endif
