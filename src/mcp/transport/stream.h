// SPDX-License-Identifier: Apache-2.0
//
// stream: a series of server-sent events to a client, which can be sent again.  Used by http.c and
// sse.c; knows exchanges (http/http.h) and messages, not calls.
//
// A stream of a modern call or of /sse lives as long as its connection.  One of a legacy client is
// on the client's shelf: each event has an id and is stored for a while, so that a client that lost
// the connection can resume (Last-Event-ID).
//
//   1. A stream has at most one exchange; an exchange belongs to at most one stream.
//   2. Stored events are bounded for each stream, each client and the server.
//   3. A stream is detached when it has no exchange and is finished or belongs to no call.  Only
//      detached streams are removed, the longest detached one first.
//   4. stream_send() does not call the owner's callbacks.

#ifndef CONSTRICTOR_MCP_TRANSPORT_STREAM_H
#define CONSTRICTOR_MCP_TRANSPORT_STREAM_H

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/timer.h"

struct http_exchange;
struct stream;

enum {
    STREAM_EVENTS_MAX = 256,             // stored for one stream; the newest always is
    STREAM_BYTES_MAX = 1024 * 1024,      // the same
    STREAM_SHELF_MAX = 16,               // streams of one client besides connected ones
    STREAM_TOTAL_MAX = 64 * 1024 * 1024, // bytes stored for all clients together
    STREAM_DETACHED_MS = 5 * 60 * 1000,  // time for a client to resume
    STREAM_ALIVE_S = 15,                 // proxies cut idle connections, some after 30 s
    STREAM_RETRY_MS = 1000,              // when a client should reconnect
    STREAM_SLOW = 1024 * 1024,           // backlog above which notifications are dropped
    STREAM_STUCK = 8 * 1024 * 1024,      // backlog above which the client is cut off
    STREAM_ID_MAX = 32,
};

// All streams of the server.
struct streams {
    struct event_base *base;
    size_t bytes;                   // stored, in all
    struct stream *oldest, *newest; // detached ones
    struct timer timer;             // for the oldest
};

// Streams of one client, newest first.
struct stream_shelf {
    struct stream *first;
    unsigned count;
};

struct stream {
    struct streams *all;
    struct stream_shelf *shelf; // NULL: events are not stored
    struct http_exchange *x;    // NULL: not connected
    bool own;                   // of the client, not of a call (GET)
    bool finished;              // no more messages
    void *owner;
    // The client is gone; the callback may free the stream.
    void (*on_gone)(struct stream *s);
    // Every STREAM_ALIVE_S while a client is connected.
    void (*on_alive)(struct stream *s);
    // Private to stream.c.
    struct stream *next, *previous; // on the shelf
    struct stream *older, *newer;   // among the detached
    bool primed, detached, cut;
    int64_t detached_ms;
    struct timer alive;
    uint64_t number; // unguessable
    uint32_t sequence;
    struct stream_event *first, *last;
    unsigned events;
    size_t bytes;
};

void streams_open(struct streams *all, struct event_base *base);
void streams_close(struct streams *all); // after all streams

// `shelf` NULL: events are not stored.  `primed`: the client gets an id and a retry time before the
// first message (2025-11-25).  NULL: memory is out.
struct stream *stream_new(struct streams *all, struct stream_shelf *shelf, bool primed);
void stream_free(struct stream *s); // ends its exchange

// Begins the answer of the exchange.
void stream_connect(struct stream *s, struct http_exchange *x);
// Sends a message, which is borrowed, and stores it.  A notification may be dropped.
void stream_send(struct stream *s, json_t *message);
// Sends an event of one line, not stored.
void stream_send_text(struct stream *s, const char *event, const char *text);
// Ends the connection, not the stream.
void stream_hang_up(struct stream *s);
// After the last message: ends the connection.  A stream on a shelf is detached; another one stays
// the caller's.
void stream_finish(struct stream *s);

// The stream of event `id`, and its sequence.  NULL: not an id of this shelf.
struct stream *stream_find(struct stream_shelf *shelf, const char *id, uint32_t *ret_sequence);
// Connects, and sends again the events after `sequence`.
void stream_resume(struct stream *s, struct http_exchange *x, uint32_t sequence);

void stream_shelf_clear(struct stream_shelf *shelf);

#endif
