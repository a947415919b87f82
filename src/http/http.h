// SPDX-License-Identifier: Apache-2.0
//
// http: the HTTP server of the gate, on libevent's.  Knows connections, limits, the door (door.h)
// and a table of routes; knows nothing of MCP.  An exchange is one request and its answer, whole or
// streamed.
//
// Every request passes the door first: Host, Origin, key.  One rule for every path.

#ifndef CONSTRICTOR_HTTP_HTTP_H
#define CONSTRICTOR_HTTP_HTTP_H

#include <event2/event.h>
#include <event2/http.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "config/config.h"

struct http;
struct http_exchange;

enum http_method { HTTP_GET = 1, HTTP_POST = 2, HTTP_DELETE = 4, HTTP_PUT = 8, HTTP_HEAD = 16 };

struct http_route {
    const char *path; // exact, or a prefix when it ends with '*'
    unsigned methods; // set of enum http_method; another one is answered with 405 and Allow
    bool open;        // no key needed (health, protected-resource metadata, the page)
    void (*handle)(struct http_exchange *x, void *argument);
    void *argument;
};

struct http_exchange {
    struct http *server;
    struct evhttp_request *ev;
    enum http_method method;
    char path[1280];      // decoded, without query; a session and a path in its scratch fit in
    const char *query;    // as sent, "" when there is none
    char owner[65];       // name of the key, "" without keys
    bool streaming;       // http_stream_begin() was called
    bool sends_lines;     // the body is application/x-ndjson
    uint64_t body_length; // of a body that comes in pieces; UINT64_MAX: not known
    void *work;           // the handler's own
    // The client left before the answer was complete.  The exchange is freed after this returns.
    void (*on_close)(struct http_exchange *x);
    // More of a body that comes in pieces has arrived, or its end; may be NULL.
    void (*on_body)(struct http_exchange *x);
    // A stream with a slow reader can take more output; may be NULL.
    void (*on_drained)(struct http_exchange *x);
    // A file that is the answer is sent only as long as it has a name.  SECURITY: a removed file
    // uses the disk as long as it is open, and no quota counts it.
    bool while_named;
    // The exchange is over, however it went, and a file that was its answer is closed; may be NULL.
    void (*on_end)(void *argument);
    void *end_argument;
};

// Starts serving on a listening socket, which is taken.  `routes` ends with a row without a path.
struct http *http_open(struct event_base *base, const struct config *c, int listener,
                       const struct http_route *routes, struct err *e);
// What peer.h opened, borrowed: a server that needs it and has none opens it by itself.
void http_set_peers(struct http *h, const int *fds, unsigned count);
void http_add_routes(struct http *h, const struct http_route *routes); // borrowed for good
// Requests for `path` that accept text/event-stream go to the route of `events` instead; borrowed.
void http_set_events(struct http *h, const char *path, const char *events);
// For bodies that are too large for memory.  Called when a head was let in: true and how many bytes
// the body may have: the handler is called before the body has arrived, and takes it in pieces.
typedef bool (*http_streams_body)(const struct http_exchange *x, void *argument, uint64_t *ret_max);
void http_set_streams_body(struct http *h, http_streams_body streams, void *argument);
// For prefixes whose paths differ: the methods of a path, as it was sent, without query; 0: those
// of its route.
typedef unsigned (*http_methods_of)(const char *path, size_t length);
void http_set_methods(struct http *h, http_methods_of methods_of);
// The listening socket is the service manager's, and goes on listening when the server stops.
void http_lend(struct http *h);
// Stops listening: connections are refused from now on; open exchanges go on.  http_close() ends
// them.
void http_stop(struct http *h);
unsigned http_exchanges(const struct http *h); // open ones
void http_count_answers(struct http *h,
                        uint64_t *answers); // by class, see counters.h; borrowed for good
void http_close(struct http *h);
// Reads the door's files again, from descriptors, which are borrowed; -1: not there.  On failure
// the old keys stay in force.
int http_reload(struct http *h, int key_file, int oauth_keys, struct err *e);
// Is this owner still let in?  After a reload http.c has ended the connections of those that are
// not.
bool http_knows(const struct http *h, const char *owner);
bool http_shows_all(const struct http_exchange *x);   // see door.h
bool http_may_operate(const struct http_exchange *x); // the same
json_t *http_names(const struct http *h);             // of keys: see door.h
unsigned http_owners(const struct http *h);           // see door.h

// ---- for handlers ------------------------------------------------------------------------------

const char *http_header(const struct http_exchange *x, const char *name); // NULL: absent
// Does Accept allow this type ("application/json")?  An absent Accept allows all.
bool http_accepts(const struct http_exchange *x, const char *type);
// The body, contiguous; borrowed.
const char *http_body(struct http_exchange *x, size_t *ret_length);
// The body is not needed any more: frees it.
void http_body_done(struct http_exchange *x);
// For a body that comes in pieces: the handler is ready to read it.  Without this call, a client
// that waits for "100 Continue" sends nothing.
void http_body_begin(struct http_exchange *x);
// Up to `most` bytes that have arrived; 0: wait for on_body, unless the body has ended.
size_t http_body_read(struct http_exchange *x, void *to, size_t most);
bool http_body_ended(const struct http_exchange *x); // all of it was read
// The request has shown a secret that is as good as a key: its connection is not closed to make
// room for others.
void http_admit(const struct http_exchange *x);
// Value of a query parameter, decoded, into buf; false: absent or too long.
bool http_query(const struct http_exchange *x, const char *name, char *buf, size_t cap);

void http_add_header(struct http_exchange *x, const char *name, const char *value);
void http_format_allow(unsigned methods, char *buf, size_t cap); // the value of Allow

// Whole answers; the exchange is gone afterwards.
void http_reply(struct http_exchange *x, int status, const char *type, const void *data,
                size_t length);
void http_reply_json(struct http_exchange *x, int status, json_t *body); // borrowed
void http_reply_buffer(struct http_exchange *x, int status, const char *type,
                       struct evbuffer *body); // emptied
// `length` bytes of a file from `offset` on; takes the descriptor.  They are read as the client
// takes them, never mapped; if the file is shorter, the connection ends early and the client
// notices. A HEAD gets the headers.
void http_reply_file(struct http_exchange *x, int status, const char *type, int fd, uint64_t offset,
                     uint64_t length);
// The same with HTTP's conditions for files of `size` bytes: one Range (206, 416), If-None-Match
// (304), If-Range. `etag` is with its quotes, or NULL.
void http_serve_file(struct http_exchange *x, const char *type, int fd, uint64_t size,
                     const char *etag);
// The same with bytes in memory, which are copied.
void http_serve_bytes(struct http_exchange *x, const char *type, const char *data, uint64_t size,
                      const char *etag);
// Which part of a file these two would send: 200 or 206 and the part, 304 or 416.
int http_wanted(const struct http_exchange *x, uint64_t size, const char *etag,
                uint64_t *ret_offset, uint64_t *ret_length);
// What the header Range asks of `size` bytes: 206 and the part, 416, or 200 and the whole, also for
// several ranges and for an invalid header.
int http_range(const struct http_exchange *x, uint64_t size, uint64_t *ret_offset,
               uint64_t *ret_length);
// {"error": {"code", "message", "hint"}}
void http_reply_error(struct http_exchange *x, int status, const char *code, const char *hint,
                      const char *fmt, ...) __attribute__((format(printf, 5, 6)));

// Streamed answers.
void http_stream_begin(struct http_exchange *x, int status, const char *type);
void http_stream_write(struct http_exchange *x, const void *data, size_t length);
void http_stream_chunk(
    struct http_exchange *x,
    struct evbuffer *chunk); // emptied; NULL: memory was out, the stream is cut off
// Bytes that the client has not taken yet.
size_t http_stream_backlog(const struct http_exchange *x);
void http_stream_end(struct http_exchange *x); // the exchange is gone afterwards

#endif
