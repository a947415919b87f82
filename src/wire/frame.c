// SPDX-License-Identifier: Apache-2.0
//
// frame: see frame.h.  The reader runs in the gate and is fuzzed by tests/fuzz/fuzz_frame.c.

#include "wire/frame.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

static bool header_fits(const struct frame_header *h, size_t payload)
{
    return h->magic == FRAME_MAGIC && h->kind > 0 && h->kind < FRAME_KIND_MAX &&
           payload <= FRAME_CHUNK && h->offset <= h->total && payload <= h->total - h->offset;
}

static int feed(struct frame_reader *r, const void *datagram, size_t len)
{
    struct frame_header h;
    if (len < sizeof h)
        return -EBADMSG;
    memcpy(&h, datagram, sizeof h);
    size_t payload = len - sizeof h;
    if (!header_fits(&h, payload))
        return -EBADMSG;
    if (h.total > r->max)
        return -EMSGSIZE;
    // A datagram without progress inside a longer frame could keep the gate busy for ever.
    if (payload == 0 && h.total != 0)
        return -EBADMSG;
    if (r->resync && h.offset != 0)
        return 0;
    r->resync = false;
    if (h.offset == 0) {
        // A new frame begins; an unfinished one was cut off when its sender was killed.
        char *data = realloc(r->data, h.total ? h.total : 1);
        if (!data)
            return -ENOMEM;
        r->data = data;
        r->kind = h.kind;
        r->flags = h.flags;
        r->total = h.total;
        r->have = 0;
    } else if (!r->data || h.kind != r->kind || h.total != r->total || h.offset != r->have) {
        return -EBADMSG;
    }
    memcpy(r->data + r->have, (const char *)datagram + sizeof h, payload);
    r->have += (uint32_t)payload;
    return r->have == r->total;
}

int frame_reader_feed(struct frame_reader *r, const void *datagram, size_t len)
{
    int n = r->broken ? -EBADMSG : feed(r, datagram, len);
    r->broken = n < 0;
    return n;
}

void frame_reader_done(struct frame_reader *r)
{
    free(r->data);
    *r = (struct frame_reader){.max = r->max};
}

// Collects up to FRAME_CHUNK bytes starting at `offset` of the pieces into iov.
static size_t slice(const struct frame_piece *pieces, size_t count, size_t offset,
                    struct iovec *iov, int *iov_count)
{
    size_t room = FRAME_CHUNK, taken = 0;
    for (size_t i = 0; i < count && room; i++) {
        if (offset >= pieces[i].len) {
            offset -= pieces[i].len;
            continue;
        }
        size_t n = pieces[i].len - offset;
        if (n > room)
            n = room;
        iov[(*iov_count)++] =
            (struct iovec){.iov_base = (char *)pieces[i].data + offset, .iov_len = n};
        room -= n;
        taken += n;
        offset = 0;
    }
    return taken;
}

int frame_send_flags(int sock, enum frame_kind kind, unsigned flags,
                     const struct frame_piece *pieces, size_t count, size_t *offset)
{
    enum { PIECES_MAX = 4 };
    size_t total = 0;
    if (count > PIECES_MAX)
        return -EINVAL;
    for (size_t i = 0; i < count; i++)
        total += pieces[i].len;
    if (total > FRAME_RUN_MAX)
        return -EMSGSIZE;
    do {
        struct frame_header h = {.magic = FRAME_MAGIC,
                                 .kind = (uint16_t)kind,
                                 .flags = (uint16_t)flags,
                                 .total = (uint32_t)total,
                                 .offset = (uint32_t)*offset};
        struct iovec iov[1 + PIECES_MAX] = {{.iov_base = &h, .iov_len = sizeof h}};
        int n = 1;
        size_t taken = slice(pieces, count, *offset, iov, &n);
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)n};
        ssize_t sent;
        do
            sent = sendmsg(sock, &msg, MSG_NOSIGNAL);
        while (sent < 0 && errno == EINTR);
        if (sent < 0)
            return -errno;
        *offset += taken;
    } while (*offset < total);
    return 0;
}

int frame_send(int sock, enum frame_kind kind, const struct frame_piece *pieces, size_t count,
               size_t *offset)
{
    return frame_send_flags(sock, kind, 0, pieces, count, offset);
}
