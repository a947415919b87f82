// SPDX-License-Identifier: Apache-2.0
//
// stream: one row of server-sent events to a client, and what of it can be sent again.  Used by
// mcp/transport/http.c and mcp/transport/sse.c; knows exchanges (http/http.h) and messages, nothing
// of calls.
//
// A stream of a modern call or of /sse lives as long as its connection.  One of a legacy session
// stands on the session's shelf: each event has an id and is kept for a while, so that a client
// that lost the connection can go on where it was (Last-Event-ID).
//
//   1. A stream has at most one exchange; an exchange belongs to at most one stream.
//   2. What is kept is bounded for each stream, each session and the server.
//   3. A stream is parked when nobody is connected and nobody needs it: it is finished, or the
//      session's own.  Only parked ones are forgotten, the longest parked one first.
//   4. No callback of the owner comes from within stream_send().

#ifndef CONSTRICTOR_MCP_TRANSPORT_STREAM_H
#define CONSTRICTOR_MCP_TRANSPORT_STREAM_H

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_exchange;
struct stream;

enum {
    STREAM_EVENTS_MAX = 256,             // kept for one stream; the newest is always kept
    STREAM_BYTES_MAX = 1024 * 1024,      // the same
    STREAM_SHELF_MAX = 16,               // streams of one session, the connected ones apart
    STREAM_TOTAL_MAX = 64 * 1024 * 1024, // bytes kept for all sessions together
    STREAM_PARKED_MS = 5 * 60 * 1000,    // how long a client may take to come back
    STREAM_ALIVE_S = 15,                 // proxies cut idle connections, some after 30 s
    STREAM_RETRY_MS = 1000,              // when a client should come back
    STREAM_SLOW = 1024 * 1024,           // backlog above which notifications are dropped
    STREAM_STUCK = 8 * 1024 * 1024,      // backlog above which the client is cut off
    STREAM_ID_MAX = 32,
};

// All streams of the server.
struct streams {
    struct event_base *base;
    size_t bytes;                   // kept, all together
    struct stream *oldest, *newest; // parked ones
    struct event *timer;            // for the oldest
};

// Those of one session, newest first.
struct stream_shelf {
    struct stream *first;
    unsigned count;
};

struct stream {
    struct streams *all;
    struct stream_shelf *shelf; // NULL: nothing is kept
    struct http_exchange *x;    // NULL: nobody is connected
    bool own;                   // the session's own, of no call (GET)
    bool finished;              // no message comes any more
    void *owner;
    // The client is gone.  The stream may be freed in it.
    void (*on_gone)(struct stream *s);
    // Every STREAM_ALIVE_S while a client is connected.
    void (*on_alive)(struct stream *s);
    // stream.c's own.
    struct stream *next, *previous; // on the shelf
    struct stream *older, *newer;   // among the parked
    bool primed, parked, cut;
    int64_t parked_ms;
    struct event *alive;
    uint64_t number; // unguessable
    uint32_t sequence;
    struct stream_event *first, *last;
    unsigned events;
    size_t bytes;
};

int streams_open(struct streams *all, struct event_base *base); // 0 or -1
void streams_close(struct streams *all);                        // all streams are gone already

// `shelf` NULL: nothing is kept.  `primed`: the client gets an id before the first message, and
// learns when to come back (2025-11-25).  NULL: memory is out.
struct stream *stream_new(struct streams *all, struct stream_shelf *shelf, bool primed);
void stream_free(struct stream *s); // ends its exchange

// Begins the answer of the exchange.
void stream_connect(struct stream *s, struct http_exchange *x);
// Sends a message, which is borrowed, and keeps it.  A notification may be dropped.
void stream_send(struct stream *s, json_t *message);
// Any event, not kept: event name and one line of text.
void stream_send_text(struct stream *s, const char *event, const char *text);
// Ends the connection, not the stream.
void stream_hang_up(struct stream *s);
// No message comes any more: ends the connection; a kept stream is parked, another one stays the
// caller's.
void stream_finish(struct stream *s);

// The stream that event `id` is of, and its place.  NULL: not an id of this shelf.
struct stream *stream_find(struct stream_shelf *shelf, const char *id, uint32_t *ret_sequence);
// Connects, sends again what came behind `sequence`, and goes on.
void stream_resume(struct stream *s, struct http_exchange *x, uint32_t sequence);

void stream_shelf_clear(struct stream_shelf *shelf);

#endif
