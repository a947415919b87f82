// SPDX-License-Identifier: Apache-2.0
//
// file: see file.h.

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

ssize_t file_read_at(int dirfd, const char *path, char *buf, size_t cap)
{
    _cleanup_close_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t n = 0;
    while (n < cap) {
        ssize_t k = read(fd, buf + n, cap - n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return -errno;
        if (k == 0)
            break;
        n += (size_t)k;
    }
    if (n == cap)
        return -EFBIG;
    buf[n] = '\0';
    return (ssize_t)n;
}

int file_write_at(int dirfd, const char *path, const char *text)
{
    _cleanup_close_ int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t len = strlen(text);
    ssize_t n;
    do
        n = write(fd, text, len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (size_t)n == len ? 0 : -EIO;
}

int file_write_u64_at(int dirfd, const char *path, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return file_write_at(dirfd, path, text);
}

static int parse_u64(const char *text, uint64_t *ret)
{
    if (strncmp(text, "max", 3) == 0) {
        *ret = UINT64_MAX;
        return 0;
    }
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno || end == text)
        return -EINVAL;
    *ret = v;
    return 0;
}

int file_read_u64_at(int dirfd, const char *path, uint64_t *ret)
{
    char buf[64];
    ssize_t n = file_read_at(dirfd, path, buf, sizeof buf);
    return n < 0 ? (int)n : parse_u64(buf, ret);
}

int file_read_u64(int fd, uint64_t *ret)
{
    char buf[64];
    ssize_t n = pread(fd, buf, sizeof buf - 1, 0);
    if (n < 0)
        return -errno;
    buf[n] = '\0';
    return parse_u64(buf, ret);
}

static int find_key(const char *buf, const char *key, uint64_t *ret)
{
    size_t klen = strlen(key);
    for (const char *line = buf; *line;) {
        if (strncmp(line, key, klen) == 0 && (line[klen] == ' ' || line[klen] == ':'))
            return parse_u64(line + klen + 1 + strspn(line + klen + 1, " \t"), ret);
        const char *next = strchr(line, '\n');
        if (!next)
            break;
        line = next + 1;
    }
    return -ENOENT;
}

int file_read_key_at(int dirfd, const char *path, const char *key, uint64_t *ret)
{
    char buf[4096];
    ssize_t n = file_read_at(dirfd, path, buf, sizeof buf);
    return n < 0 ? (int)n : find_key(buf, key, ret);
}

int file_read_key(int fd, const char *key, uint64_t *ret)
{
    char buf[4096];
    ssize_t n = pread(fd, buf, sizeof buf - 1, 0);
    if (n < 0)
        return -errno;
    buf[n] = '\0';
    return find_key(buf, key, ret);
}
