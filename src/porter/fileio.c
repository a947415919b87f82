// SPDX-License-Identifier: Apache-2.0
//
// fileio: see fileio.h.

#include "porter/fileio.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

int fileio_bad(struct err *e, const char *fmt, ...)
{
    char text[ERR_MESSAGE_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    err_set(e, ERR_BAD_BUNDLE, 0, NULL, "%s", text);
    if (e)
        e->errnum = EBADMSG;
    return -EBADMSG;
}

int fileio_write_failed(struct err *e, int errnum, const char *what)
{
    if (errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG)
        return err_set(e, ERR_DISK_FULL, errnum,
                       "make room on the disk of the state folder, or remove environments", "%s",
                       what);
    return err_set(e, ERR_SYSTEM, errnum, NULL, "%s", what);
}

// ---- digests ------------------------------------------------------------------------------------

EVP_MD_CTX *fileio_digest_new(struct err *e)
{
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    if (digest && EVP_DigestInit_ex(digest, EVP_sha256(), NULL) == 1)
        return digest;
    EVP_MD_CTX_free(digest);
    err_set(e, ERR_SYSTEM, ENOMEM, NULL, "begin a SHA-256 digest");
    return NULL;
}

int fileio_digest_end(EVP_MD_CTX *digest, uint8_t ret[FILEIO_DIGEST], struct err *e)
{
    if (EVP_DigestFinal_ex(digest, ret, NULL) != 1)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "end a SHA-256 digest");
    return 0;
}

void fileio_digest_freep(EVP_MD_CTX **digest)
{
    EVP_MD_CTX_free(*digest);
}

// ---- in -----------------------------------------------------------------------------------------

int file_reader_open(struct file_reader *in, int fd, const struct fileio_watch *watch,
                     struct err *e)
{
    struct stat st;
    *in = (struct file_reader){.fd = fd, .watch = watch};
    if (fstat(fd, &st) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "look at a file to read");
    if (!S_ISREG(st.st_mode))
        return fileio_bad(e, "it is not a regular file");
    in->end = (uint64_t)st.st_size;
    in->buffer = malloc(FILEIO_BUFFER);
    return in->buffer ? 0 : err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read a file");
}

void file_reader_close(struct file_reader *in)
{
    free(in->buffer);
    in->buffer = NULL;
}

// Fills the empty buffer.
static int fill(struct file_reader *in, struct err *e)
{
    uint64_t left = file_reader_left(in);
    size_t want = left < FILEIO_BUFFER ? (size_t)left : FILEIO_BUFFER;
    ssize_t n;
    do
        n = pread(in->fd, in->buffer, want, (off_t)in->at);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "read a file");
    if (n == 0)
        return fileio_bad(e, "it is cut off at byte %llu", (unsigned long long)in->at);
    in->first = 0;
    in->count = (size_t)n;
    return 0;
}

int file_reader_take(struct file_reader *in, uint64_t n, const uint8_t **ret, size_t *ret_count,
                     struct err *e)
{
    int r = in->watch ? in->watch->look(in->watch->argument, in->at, in->end, e) : 0;
    if (r == 0 && !in->count)
        r = fill(in, e);
    if (r < 0)
        return r;
    size_t take = n < in->count ? (size_t)n : in->count;
    for (size_t i = 0; i < FILEIO_DIGESTS; i++)
        if (in->digests[i] && EVP_DigestUpdate(in->digests[i], in->buffer + in->first, take) != 1)
            return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "go on with a SHA-256 digest");
    *ret = in->buffer + in->first;
    *ret_count = take;
    in->first += take;
    in->count -= take;
    in->at += take;
    return 0;
}

int file_reader_read(struct file_reader *in, void *ret, size_t n, struct err *e)
{
    uint8_t *to = ret;
    while (n) {
        const uint8_t *from;
        size_t count;
        int r = file_reader_take(in, n, &from, &count, e);
        if (r < 0)
            return r;
        memcpy(to, from, count);
        to += count;
        n -= count;
    }
    return 0;
}

int file_reader_at_end(struct file_reader *in, struct err *e)
{
    uint8_t more;
    if (file_reader_left(in))
        return fileio_bad(e, "%llu bytes follow its end", (unsigned long long)file_reader_left(in));
    ssize_t n = pread(in->fd, &more, 1, (off_t)in->end);
    if (n < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "read a file");
    return n ? fileio_bad(e, "it grew while it was read") : 0;
}

// ---- out ----------------------------------------------------------------------------------------

int file_writer_open(struct file_writer *out, int fd, const struct fileio_watch *watch,
                     struct err *e)
{
    *out = (struct file_writer){.fd = fd, .watch = watch, .buffer = malloc(FILEIO_BUFFER)};
    return out->buffer ? 0 : err_set(e, ERR_SYSTEM, ENOMEM, NULL, "write a file");
}

void file_writer_close(struct file_writer *out)
{
    free(out->buffer);
    out->buffer = NULL;
}

int file_writer_flush(struct file_writer *out, struct err *e)
{
    int r = fd_write_all(out->fd, out->buffer, out->count);
    if (r < 0)
        return fileio_write_failed(e, -r, "write the file");
    out->count = 0;
    return out->watch ? out->watch->look(out->watch->argument, out->written, 0, e) : 0;
}

int file_writer_write(struct file_writer *out, const void *data, size_t n, struct err *e)
{
    const uint8_t *from = data;
    if (out->digest && EVP_DigestUpdate(out->digest, data, n) != 1)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "go on with a SHA-256 digest");
    while (n) {
        size_t room = FILEIO_BUFFER - out->count, take = n < room ? n : room;
        memcpy(out->buffer + out->count, from, take);
        out->count += take;
        out->written += take;
        from += take;
        n -= take;
        int r = out->count == FILEIO_BUFFER ? file_writer_flush(out, e) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}
