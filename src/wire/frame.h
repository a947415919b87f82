// SPDX-License-Identifier: Apache-2.0
//
// frame: what travels between the gate and a box on the box's control socket (SOCK_SEQPACKET).
//
// A frame is a kind and up to FRAME_MAX bytes, cut into datagrams of at most FRAME_CHUNK bytes of
// payload, each with its own header.  A datagram is whole or absent, so a box that is killed in the
// middle of a frame cannot make the next datagram look like something else.
//
// SECURITY: everything that the gate receives here is hostile.  It says what the code wants to say
// about itself (value, error text, exit code) and nothing else: verdict, usage and limits come from
// the keeper.

#ifndef CONSTRICTOR_WIRE_FRAME_H
#define CONSTRICTOR_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_MAGIC = 0x43624f78,   // guards against a stray writer, not against an attacker
    FRAME_CHUNK = 60 * 1024,    // below the default socket buffer, so that one datagram always fits
    FRAME_RUN_MAX = 72 << 20,   // largest source (64 MiB) and its meta
    FRAME_RESULT_MAX = 2 << 20, // what the gate will hold of one result
};

enum frame_kind {
    FRAME_RUN = 1, // gate -> box: struct frame_run, meta, code
    FRAME_RESULT,  // box -> gate: JSON
    FRAME_EXIT,    // box -> gate: struct frame_exit, when the user process is gone
    FRAME_READY,   // box -> keeper: parked, every layer up; carries the scratch descriptor
    FRAME_FAILED,  // box -> keeper: struct frame_failed, a step of the recipe failed
    FRAME_KIND_MAX
};

// As in wire.h: no byte that nobody wrote.
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"

struct frame_header {
    uint32_t magic;
    uint16_t kind;
    uint16_t reserved;
    uint32_t total;  // payload bytes of the whole frame
    uint32_t offset; // of this datagram's payload within the frame
};

struct frame_run {
    uint32_t meta_length;
    uint32_t code_length;
};

struct frame_exit {
    int32_t status; // wait status of the user process
};

struct frame_failed {
    uint32_t step; // enum box_step
    int32_t errnum;
};

#pragma GCC diagnostic pop

// Puts a frame together from its datagrams.  Zero-initialise, frame_reader_done() when finished.
struct frame_reader {
    size_t max; // largest frame that is accepted
    char *data;
    uint32_t kind;
    uint32_t total;
    uint32_t have;
    bool broken; // there was an error
};

// Feeds one datagram.  Returns 1 when a frame is complete (kind, data, total are valid until the
// next call), 0 when more is needed, -EBADMSG for anything that no box sends, -EMSGSIZE for a frame
// above `max`, -ENOMEM.  After an error the reader takes nothing more.
int frame_reader_feed(struct frame_reader *r, const void *datagram, size_t len);
void frame_reader_done(struct frame_reader *r);

// Sends a frame made of `count` pieces, beginning at byte `*offset` of it (0 for a new frame) and
// moving `*offset` on.  0 when all is sent, -EAGAIN when a non-blocking socket is full (call again
// later with the same arguments), or another negative errno.
struct frame_piece {
    const void *data;
    size_t len;
};
int frame_send(int sock, enum frame_kind kind, const struct frame_piece *pieces, size_t count,
               size_t *offset);

#endif
