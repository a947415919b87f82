// SPDX-License-Identifier: Apache-2.0
//
// conn: what http.c (the server), conn.c (connections) and exchange.c (answers) share, and the
// files that they call.  No file outside of http/ includes it.

#ifndef CONSTRICTOR_HTTP_CONN_H
#define CONSTRICTOR_HTTP_CONN_H

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event_struct.h>
#include <event2/http.h>
#include <sys/queue.h>

#include "base/timer.h"
#include "http/door.h"
#include "http/head.h"
#include "http/http.h"
#include "http/peer.h"

// A connection is in one of these states:
//
//   IDLE     no byte of a request is here; it may be closed at any time
//   HEAD     a head is arriving
//   BODY     a head was read and let in by the door; its body is arriving
//   BUSY     libevent has the request, and a handler answers it
//   REFUSED  an answer is on its way after which the connection ends
//   SURPLUS  one more than allowed: it ends as soon as libevent has created it
//
// While a request arrives, libevent does not read it: the low watermark of the connection stops its
// reader until the request is complete and valid.  Therefore:
//   1. libevent's lenient reader never sees anything that head.c refused.
//   2. No body is stored for a client without a key.
//   3. A slow client occupies a buffer, never a half-read request.
enum conn_state { CONN_IDLE, CONN_HEAD, CONN_BODY, CONN_BUSY, CONN_REFUSED, CONN_SURPLUS };

struct exchange;
struct body_stream; // body_stream.h

enum { ROUTE_TABLES_MAX = 16, REQUEST_ID_SIZE = 129 };

TAILQ_HEAD(conns, conn);

struct http {
    struct event_base *base;
    const struct config *config;
    struct door *door;
    struct evhttp *evhttp;
    struct evhttp_bound_socket *bound;
    struct timer accept_again;
    const struct http_route *tables[ROUTE_TABLES_MAX];
    unsigned table_count;
    http_methods_of methods_of;     // NULL: the routes have the methods
    const char *events_of, *events; // see http_set_events(); NULL: none
    http_streams_body streams;      // NULL: all bodies are kept in memory
    void *streams_argument;
    unsigned connections, connections_max, exchanges;
    size_t buffered; // bytes in the buffers of all connections
    bool stopping;
    bool lent;            // the listening socket belongs to the service manager
    uint64_t *answers;    // by class: run/counters.h; NULL: not counted
    struct conn *current; // libevent is being given its request
    int peers[PEER_FDS];  // peer.h
    unsigned peer_count;
    bool own_peers; // http_close() closes them
    struct conns all;
    struct conns strangers; // connections that have not shown a valid key, the oldest first
    struct conns idle;      // connections that have, between two requests, the longest idle first
};

struct conn {
    struct http *server;
    struct evhttp_connection *ev; // NULL until libevent has made it
    struct bufferevent *bev;
    enum conn_state state;
    struct event wake, timer;
    int64_t timer_at_ms; // 0: not armed
    TAILQ_ENTRY(conn) all, line;
    struct conns *in; // `strangers` or `idle` of the server; NULL: it is never evicted
    int64_t accepted_ms;
    uid_t peer;  // the user at its other end, where the door asks for it; else PEER_UNKNOWN
    bool known;  // a request was let in that needs a key; without keys, one that would need one
    bool served; // it had a request
    // The request that arrives.
    struct head_scan scan;
    struct chunks chunks;
    bool chunked;
    bool skip_line;             // an empty line before the request was skipped
    size_t need;                // bytes of head and body
    size_t chunked_seen;        // bytes of them that were read
    struct exchange *x;         // from the end of its head to its answer
    struct evbuffer *ahead;     // early bytes of the next request
    struct body_stream *stream; // of a request whose handler takes its body in pieces; else NULL
    bool close_after;
    // Watching the client: since when, its last activity, how much it has sent or taken since.
    int64_t since_ms, last_ms;
    uint64_t amount;
    bool slow; // the output was above STREAM_LOW
    // Bytes in its buffers, as counted in the server's total; `doomed`: not counted any more.
    size_t buffered_in, buffered_out;
    bool doomed;
};

// The public part is first: a handler's pointer is a pointer to this.
struct exchange {
    struct http_exchange x;
    struct conn *conn;
    const struct http_route *route;
    struct door_refusal *refusal; // the handler is not called, this is answered; owned
    unsigned allow;               // 405, and OPTIONS: methods of the path
    bool options;                 // OPTIONS: answered here
    bool old;                     // HTTP/1.0
    bool gone;                    // on_close is being called: nothing can be sent any more
    char *allow_headers;          // of a preflight: Access-Control-Allow-Headers; owned
    char origin[DOOR_ORIGIN_MAX]; // of the page that asks, when it was allowed; or ""
    int file;                     // http_reply_file(): the file being sent; else -1
    uint64_t file_at, file_left;
    int64_t begin_us; // request_log.c: when it was complete; 0: not yet
    int status;       // of its answer; 0: there is none yet
    char request_id[REQUEST_ID_SIZE];
};

enum {
    STREAM_LOW = 16 * 1024,
    BUFFERED_MAX = 256 * 1024 * 1024, // bytes that all connections together may hold
    SMALL_BODY = 64 * 1024,           // a body up to this size is always accepted
    LINGER_MS = 3000,                 // a client that still sends can read the refusal
};

// In exchange.c.
struct exchange *exchange_new(struct conn *c);
void exchange_free(struct exchange *p); // not the request of libevent
void exchange_refuse(struct exchange *p);
void exchange_options(struct exchange *p);
const char *http_reason(int status);
// False: too long, not well encoded, or with a control character.
bool http_decode_path(const char *s, size_t n, char *buf, size_t cap);
// {"error": ...} as text, new; NULL when memory is out.  Below /api/ it is a problem
// (http/problem.h), and the type says so; `path` NULL: not known.
char *http_error_text(int status, const char *code, const char *message, const char *hint,
                      const char *path, const char **ret_type);

// In conn.c.
struct bufferevent *conn_on_accept(struct event_base *base, void *server); // libevent's bevcb
void conn_on_request(struct evhttp_request *ev, void *server);             // libevent's gencb
void conn_begin(struct conn *c); // what conn_on_accept() leaves for when libevent is done
void conn_kill(struct conn *c);
// The request is complete and valid: libevent may read it.
void conn_release(struct conn *c);
void conn_send_continue(struct conn *c); // to a client that waits for it
void conn_resume(struct conn *c);        // reads it again, after body_stream.c paused it
void conn_arm(struct conn *c, int64_t at_ms, int64_t now_ms); // on_timer() is called at that time

// In refuse.c: answers that end the connection.
// To a request that libevent has not seen.
void conn_answer_refusal(struct conn *c, const struct door_refusal *r, const struct exchange *p);
void conn_refuse_large(struct conn *c);
void conn_refuse_fault(struct conn *c, const struct head_fault *f);
// The answer was sent before the body had come.
void conn_linger(struct conn *c, struct evhttp_request *ev);
// To the request that arrives.
void conn_turn_down(struct conn *c, int status, const char *code, const char *message);

// In evict.c.
void evict_line(struct conn *c,
                struct conns *line);           // to its end; NULL: the connection is never evicted
void evict_leave(struct conn *c);              // it is not idle any more
void evict_admit(struct conn *c);              // it has shown a valid key
struct conn *evict_find(const struct http *h); // the connection to close, or NULL

// In http.c.
// The user at the other end of a socket, where the door asks for it; else PEER_UNKNOWN.
uid_t http_find_peer(struct http *h, int sock);
// Accepts no connection for `ms`; 0: until all pending input was read.
void http_pause(struct http *h, unsigned ms);
// Judges a request by its head.  0, or -1 and the refusal.
int http_judge(struct http *h, struct exchange *p, const struct head *head, struct door_refusal *r);
void http_set_refusal(struct door_refusal *r, int status, const char *code, const char *message,
                      const char *hint);

#endif
