// SPDX-License-Identifier: Apache-2.0
//
// fileio: reads or writes a file from start to end, each byte once, with digests.  Used
// by bundle.c and archive.c in the porter.
//
// SECURITY: the sender of a file may change it during the read.  So no byte is read twice, and the
// size is taken once: what was checked is what is used.

#ifndef CONSTRICTOR_PORTER_FILEIO_H
#define CONSTRICTOR_PORTER_FILEIO_H

#include <openssl/evp.h>
#include <stdint.h>

#include "base/err.h"

enum { FILEIO_BUFFER = 256 * 1024, FILEIO_DIGEST = 32, FILEIO_DIGESTS = 2 };

// Called regularly during long work, with the bytes done so far: 0, or an error that ends it.
struct fileio_watch {
    int (*look)(void *argument, uint64_t done, uint64_t total, struct err *e);
    void *argument;
};

struct file_reader {
    int fd;           // borrowed
    uint64_t at, end; // bytes handed out; size of the file
    uint8_t *buffer;
    size_t first, count;                 // bytes in the buffer not handed out yet
    EVP_MD_CTX *digests[FILEIO_DIGESTS]; // borrowed; NULL: none
    const struct fileio_watch *watch;    // NULL: no checks
};

// SECURITY: must be a regular file: reading others may block or never end.
int file_reader_open(struct file_reader *in, int fd, const struct fileio_watch *watch,
                     struct err *e);
void file_reader_close(struct file_reader *in);

static inline uint64_t file_reader_left(const struct file_reader *in)
{
    return in->end - in->at;
}

// Exactly `n` bytes, or -EBADMSG.
int file_reader_read(struct file_reader *in, void *ret, size_t n, struct err *e);
// Hands out 1 to `n` bytes, which stay valid until the next call.  n > 0.
int file_reader_take(struct file_reader *in, uint64_t n, const uint8_t **ret, size_t *ret_count,
                     struct err *e);
// Fails when bytes follow the end, even if they were written since the open.
int file_reader_at_end(struct file_reader *in, struct err *e);

struct file_writer {
    int fd; // borrowed
    uint64_t written;
    uint8_t *buffer;
    size_t count;
    EVP_MD_CTX *digest; // borrowed; NULL: none
    const struct fileio_watch *watch;
};

int file_writer_open(struct file_writer *out, int fd, const struct fileio_watch *watch,
                     struct err *e);
void file_writer_close(struct file_writer *out);
int file_writer_write(struct file_writer *out, const void *data, size_t n, struct err *e);
int file_writer_flush(struct file_writer *out, struct err *e);

// The same numbers on every machine.
static inline uint32_t fileio_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline uint64_t fileio_u64(const uint8_t *p)
{
    return (uint64_t)fileio_u32(p) | (uint64_t)fileio_u32(p + 4) << 32;
}
static inline void fileio_put_u32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> 8 * i);
}
static inline void fileio_put_u64(uint8_t *p, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(value >> 8 * i);
}

EVP_MD_CTX *fileio_digest_new(struct err *e);
int fileio_digest_end(EVP_MD_CTX *digest, uint8_t ret[FILEIO_DIGEST], struct err *e);
void fileio_digest_freep(EVP_MD_CTX **digest);

// -EBADMSG and a sentence, without the text of that errno.
int fileio_bad(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// The error for a failed write, mkdir or sync.
int fileio_write_failed(struct err *e, int errnum, const char *what);

#endif
