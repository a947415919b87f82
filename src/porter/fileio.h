// SPDX-License-Identifier: Apache-2.0
//
// fileio: bytes of a file in order, each read or written once, with digests of what went by.  Used by
// bundle.c and archive.c in the porter.
//
// SECURITY: whoever gave us a file may change it while we read.  So no byte is read twice, and
// where the file ends is asked once: what was checked is what is used.

#ifndef CONSTRICTOR_PORTER_FILEIO_H
#define CONSTRICTOR_PORTER_FILEIO_H

#include <openssl/evp.h>
#include <stdint.h>

#include "base/err.h"

enum { FLOW_BUFFER = 256 * 1024, FLOW_DIGEST = 32, FLOW_DIGESTS = 2 };

// Asked again and again during long work, with the bytes that are done: 0, or an error that ends
// it.
struct flow_pause {
    int (*look)(void *argument, uint64_t done, uint64_t total, struct err *e);
    void *argument;
};

struct intake {
    int fd;           // borrowed
    uint64_t at, end; // of what was handed out; of the file
    uint8_t *buffer;
    size_t first, count;               // what is in the buffer and was not handed out
    EVP_MD_CTX *digests[FLOW_DIGESTS]; // borrowed; NULL: none
    const struct flow_pause *pause;    // NULL: nobody asks
};

// The file has to be an ordinary one: others may never end, or never begin.
int intake_open(struct intake *in, int fd, const struct flow_pause *pause, struct err *e);
void intake_close(struct intake *in);

static inline uint64_t intake_left(const struct intake *in)
{
    return in->end - in->at;
}

// Exactly `n` bytes, or -EBADMSG.
int intake_read(struct intake *in, void *ret, size_t n, struct err *e);
// Hands out at most `n` bytes, at least one, which stay until the next call.  n > 0.
int intake_take(struct intake *in, uint64_t n, const uint8_t **ret, size_t *ret_count,
                struct err *e);
// Nothing may follow the end, not even what was written since it was first seen.
int intake_at_end(struct intake *in, struct err *e);

struct outlet {
    int fd; // borrowed
    uint64_t written;
    uint8_t *buffer;
    size_t count;
    EVP_MD_CTX *digest; // borrowed; NULL: none
    const struct flow_pause *pause;
};

int outlet_open(struct outlet *out, int fd, const struct flow_pause *pause, struct err *e);
void outlet_close(struct outlet *out);
int outlet_write(struct outlet *out, const void *data, size_t n, struct err *e);
int outlet_flush(struct outlet *out, struct err *e);

// The same numbers on every machine.
static inline uint32_t flow_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline uint64_t flow_u64(const uint8_t *p)
{
    return (uint64_t)flow_u32(p) | (uint64_t)flow_u32(p + 4) << 32;
}
static inline void flow_put_u32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> 8 * i);
}
static inline void flow_put_u64(uint8_t *p, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(value >> 8 * i);
}

EVP_MD_CTX *flow_digest_new(struct err *e);
int flow_digest_end(EVP_MD_CTX *digest, uint8_t ret[FLOW_DIGEST], struct err *e);
void flow_digest_freep(EVP_MD_CTX **digest);

// -EBADMSG and a sentence, without the system's words for that number.
int flow_bad(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// What a write, a mkdir or a sync that failed means.
int flow_no_room(struct err *e, int errnum, const char *what);

#endif
