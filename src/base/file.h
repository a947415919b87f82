// SPDX-License-Identifier: Apache-2.0
//
// file: small files, read whole or written at once (proc, cgroup, caches).

#ifndef CONSTRICTOR_BASE_FILE_H
#define CONSTRICTOR_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Reads at most cap-1 bytes relative to `dirfd` and terminates with NUL.  Returns the length or a
// negative errno; -EFBIG when the file is longer.
ssize_t file_read_at(int dirfd, const char *path, char *buf, size_t cap);

// Writes `text` in one write().  Returns 0 or a negative errno.
int file_write_at(int dirfd, const char *path, const char *text);
int file_write_u64_at(int dirfd, const char *path, uint64_t value);

// A file that is one unsigned number ("max" reads as UINT64_MAX).
int file_read_u64_at(int dirfd, const char *path, uint64_t *ret);
// The same from its beginning through a descriptor that stays open.
int file_read_u64(int fd, uint64_t *ret);

// Finds "key value" in a file of such lines ("oom_kill 3").  -ENOENT when there is no such line.
int file_read_key_at(int dirfd, const char *path, const char *key, uint64_t *ret);
// The same from its beginning through a descriptor that stays open; of the first 4 KiB.
int file_read_key(int fd, const char *key, uint64_t *ret);

#endif
