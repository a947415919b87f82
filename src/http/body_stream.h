// SPDX-License-Identifier: Apache-2.0
//
// body_stream: bodies that are too large for memory.  libevent gets the head of such a request at
// once, without a body; the handler takes the bytes as they arrive.

#ifndef CONSTRICTOR_HTTP_BODY_STREAM_H
#define CONSTRICTOR_HTTP_BODY_STREAM_H

#include "http/conn.h"

struct body_stream {
    struct evbuffer *bytes; // arrived, and not yet taken by the handler
    size_t counted;         // of them, in the server's total
    uint64_t left;          // without chunks: bytes that are still to arrive
    struct chunks chunks;
    struct head_fault fault; // status != 0: the body is malformed
    bool chunked, complete;
    bool paused; // the connection is not read: the handler has enough
    bool waits;  // the client waits for "100 Continue"
    bool news;   // the handler has not been called since bytes arrived
};

// The request's head of `n` bytes is first in the input.  Makes c->stream and leaves in the input
// what libevent is to see.  -1: memory is out.
int body_stream_begin(struct conn *c, const struct head *head, size_t n, uint64_t most);
// Takes what arrived from the input, up to the end of the body.
void body_stream_take(struct conn *c);
// Is the client expected to send now?
bool body_stream_waits(const struct conn *c);
bool body_stream_is_cut(const struct conn *c); // the body has not arrived completely
void body_stream_free(struct conn *c);

#endif
