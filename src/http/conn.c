// SPDX-License-Identifier: Apache-2.0
//
// conn: the life of a connection; see conn.h for its states.  Called by libevent's HTTP server and
// loop; runs in the gate.
//
// libevent owns the connection, the header lists and the framing of answers.  The strict reader
// (head.h) comes before libevent's: a callback on the input buffer of each connection sees every
// byte first.
//
// At the limit of connections an old one is closed for the new one (evict.c).  Connections that
// have not shown a valid key go first: half-sent heads cannot shut out clients with a key.  Then
// the connection that has been idle for longest: no client waits for an answer there, and HTTP lets
// either side close it.  A connection with a valid key and a request in progress is never closed;
// when all are such, the new one gets 503 and ends.  Not to accept would be worse: clients,
// monitors too, would hang in the kernel's queue without an answer.

#include "http/conn.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "http/body_stream.h"
#include "http/problem.h"
#include "http/request_log.h"

enum {
    KEEP_ALIVE_MS = 75 * 1000, // an idle connection between two requests
    RATE_BYTES_PER_S = 8192,   // a slower client is taken for an attack
    AHEAD_MAX = 64 * 1024,     // bytes of pipelined requests; more ends the connection
};

// ---- time ---------------------------------------------------------------------------------------

// The timer is lazy: it is only set again to fire earlier; when it fires too early, it is set anew.
void conn_arm(struct conn *c, int64_t at_ms, int64_t now_ms)
{
    int64_t wait_ms = at_ms > now_ms ? at_ms - now_ms : 1;
    struct timeval tv = {.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000};
    if (c->timer_at_ms && c->timer_at_ms <= at_ms)
        return;
    if (evtimer_add(&c->timer, &tv) == 0)
        c->timer_at_ms = at_ms;
}

static void watch(struct conn *c, int64_t now_ms)
{
    c->since_ms = c->last_ms = now_ms;
    c->amount = 0;
}

// When a watched client will be too slow: silent for the configured time, or, beyond that time,
// slower on average than RATE_BYTES_PER_S.
static int64_t deadline(const struct conn *c)
{
    int64_t request_ms = (int64_t)c->server->config->request_ms,
            silent_ms = c->last_ms + request_ms,
            slow_ms = c->since_ms + request_ms + (int64_t)(c->amount * 1000 / RATE_BYTES_PER_S);
    return silent_ms < slow_ms ? silent_ms : slow_ms;
}

// ---- memory -------------------------------------------------------------------------------------

static size_t buffered_by(const struct conn *c)
{
    return c->buffered_in + c->buffered_out + (c->stream ? c->stream->counted : 0);
}

static void doom(struct conn *c)
{
    c->server->buffered -= buffered_by(c);
    c->buffered_in = c->buffered_out = 0;
    if (c->stream)
        c->stream->counted = 0;
    c->doomed = true;
    event_active(&c->wake, EV_WRITE, 0); // not from within libevent's reading and writing
}

// SECURITY: each connection has its bound, but there may be many.  Above the total, the connection
// with the most buffered bytes is closed.
static void limit_buffered(struct http *h)
{
    while (h->buffered > BUFFERED_MAX) {
        struct conn *c, *most = NULL;
        TAILQ_FOREACH (c, &h->all, all)
            if (!c->doomed && (!most || buffered_by(c) > buffered_by(most)))
                most = c;
        if (!most || buffered_by(most) == 0)
            return;
        log_line(
            LOG_WARN,
            "closed a connection with %zu buffered bytes: all connections together have too many",
            buffered_by(most));
        doom(most);
    }
}

static void count_buffered(struct conn *c, size_t *buffered, size_t now)
{
    if (c->doomed)
        return;
    c->server->buffered += now - *buffered;
    *buffered = now;
    limit_buffered(c->server);
}

// ---- the end of a connection --------------------------------------------------------------------

// on_gone() follows and frees the connection.
void conn_kill(struct conn *c)
{
    evhttp_connection_free(c->ev);
}

// For a client that does not read: after a close the kernel would go on offering it the rest.
static void conn_reset(struct conn *c)
{
    struct linger now = {.l_onoff = 1};
    (void)setsockopt(bufferevent_getfd(c->bev), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    conn_kill(c);
}

static void on_input(struct evbuffer *b, const struct evbuffer_cb_info *info, void *argument);
static void on_output(struct evbuffer *b, const struct evbuffer_cb_info *info, void *argument);

static void conn_free(struct conn *c)
{
    struct http *h = c->server;
    evict_line(c, NULL);
    if (h->current == c)
        h->current = NULL;
    if (c->state == CONN_BUSY)
        h->exchanges--;
    body_stream_free(c);
    h->buffered -= buffered_by(c);
    TAILQ_REMOVE(&h->all, c, all);
    h->connections--;
    (void)event_del(&c->wake);
    (void)event_del(&c->timer);
    (void)evbuffer_remove_cb(bufferevent_get_input(c->bev), on_input, c);
    (void)evbuffer_remove_cb(bufferevent_get_output(c->bev), on_output, c);
    (void)bufferevent_decref(c->bev);
    if (c->ahead)
        evbuffer_free(c->ahead);
    free(c);
}

// libevent is about to free the connection.
static void on_gone(struct evhttp_connection *ev, void *argument)
{
    struct conn *c = argument;
    struct exchange *p = TAKE_PTR(c->x);
    (void)ev;
    if (p && p->x.ev) {
        p->gone = true;
        if (p->x.on_close)
            p->x.on_close(&p->x);
        // libevent has detached an unanswered request from its connection: it must be freed here.
        if (!evhttp_request_get_connection(p->x.ev))
            evhttp_request_free(p->x.ev);
    }
    exchange_free(p);
    conn_free(c);
}

// ---- a request that arrives ---------------------------------------------------------------------

// The request is complete and valid: libevent may read it, and does so when the callback that
// brought the last bytes has returned.
void conn_release(struct conn *c)
{
    c->server->current = c;
    bufferevent_setwatermark(c->bev, EV_READ, 0, 0);
}

// Reads the new bytes of a chunked body.
static void read_chunks(struct conn *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);
    struct evbuffer_ptr from;
    struct evbuffer_iovec pieces[8];
    struct head_fault fault;
    while (evbuffer_get_length(in) > c->chunked_seen) {
        if (evbuffer_ptr_set(in, &from, c->chunked_seen, EVBUFFER_PTR_SET) < 0)
            return;
        int count = evbuffer_peek(in, -1, &from, pieces, ARRAY_LEN(pieces));
        if (count > (int)ARRAY_LEN(pieces))
            count = ARRAY_LEN(pieces);
        for (int i = 0; i < count; i++) {
            size_t used = 0;
            int r = chunks_feed(&c->chunks, pieces[i].iov_base, pieces[i].iov_len, &used, &fault);
            if (r < 0) {
                conn_refuse_fault(c, &fault);
                return;
            }
            if (r == 1) {
                c->need = c->chunked_seen + used;
                conn_release(c);
                return;
            }
            c->chunked_seen += pieces[i].iov_len;
        }
    }
}

static void read_body(struct conn *c)
{
    if (c->chunked)
        read_chunks(c);
    else if (evbuffer_get_length(bufferevent_get_input(c->bev)) >= c->need)
        conn_release(c);
    if (c->state == CONN_BODY && c->server->current != c)
        conn_arm(c, deadline(c), c->last_ms);
}

// Sends "100 Continue" to a client that waits for it.  No other output is pending.
void conn_send_continue(struct conn *c)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (send(bufferevent_getfd(c->bev), text, sizeof text - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log_line(LOG_DEBUG,
                 "100 Continue could not be sent"); // clients send the body after a while anyway
}

// The door let a request in.  A request that needs no key proves nothing about its client.
static void admit(struct conn *c, const struct exchange *p)
{
    if (!p->options && !p->route->open)
        evict_admit(c);
}

// The handler gets the request now, and its body in pieces.
static void stream_body(struct conn *c, const struct head *head, size_t n, uint64_t most)
{
    c->state = CONN_BODY;
    c->x->x.body_length = head->chunked ? UINT64_MAX : head->length;
    if (body_stream_begin(c, head, n, most) < 0)
        conn_turn_down(c, 503, "busy", "the server is out of memory");
    else
        conn_release(c);
}

// Handles a well-formed head of `n` bytes.
static void take_head(struct conn *c, const struct head *head, size_t n)
{
    struct http *h = c->server;
    struct door_refusal r = {0};
    size_t have = evbuffer_get_length(bufferevent_get_input(c->bev));
    struct exchange *p = exchange_new(c);
    if (!p) {
        conn_turn_down(c, 503, "busy", "the server is out of memory");
        return;
    }
    c->x = p;
    c->close_after = head->close;
    c->chunked = head->chunked;
    c->chunks = (struct chunks){.max = h->config->body_bytes};
    c->chunked_seen = n;
    struct slice type = head->field[HEAD_CONTENT_TYPE];
    const char *blank = type.p ? memchr(type.p, ';', type.n) : NULL;
    type.n = blank ? (size_t)(blank - type.p) : type.n;
    p->x.sends_lines = type.p && slice_is_nc(type, "application/x-ndjson");
    uint64_t most = 0;
    bool here = !head->chunked && head->length <= have - n; // the body too, if there is one
    if (http_judge(h, p, head, &r) < 0) {
        // libevent would itself answer methods that it does not know.
        bool strange = !p->options && !p->x.method;
        if (!here || strange || !(p->refusal = malloc(sizeof r))) {
            c->x = NULL;
            conn_answer_refusal(c, &r, p);
            exchange_free(p);
            return;
        }
        *p->refusal = r;
    } else if (admit(c, p), h->streams && h->streams(&p->x, h->streams_argument, &most)) {
        stream_body(c, head, n, most);
        return;
    } else if (!head->chunked && head->length > h->config->body_bytes) {
        conn_refuse_large(c);
        return;
    } else if (!here && head->length > SMALL_BODY && h->buffered + head->length > BUFFERED_MAX) {
        conn_turn_down(c, 503, "busy", "too many large requests are arriving; try again later");
        return;
    }
    c->need = n + (size_t)head->length;
    c->state = CONN_BODY;
    if (head->wait && !here && have == n)
        conn_send_continue(c);
    read_body(c);
}

static void read_head(struct conn *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);
    struct head_fault fault;
    struct head head;
    size_t n = evbuffer_get_length(in);
    if (n > HEAD_MAX)
        n = HEAD_MAX;
    const char *data = (const char *)evbuffer_pullup(in, (ev_ssize_t)n);
    // One empty line may come before a request (RFC 9112).
    if (data && c->scan.seen == 0 && !c->skip_line && n >= 2 && memcmp(data, "\r\n", 2) == 0) {
        c->skip_line = true;
        (void)evbuffer_drain(in, 2);
        data += 2;
        n -= 2;
    }
    if (!data) {
        conn_turn_down(c, 503, "busy", "the server is out of memory");
        return;
    }
    ssize_t end = n ? head_find_end(&c->scan, data, n, &fault) : 0;
    if (end < 0 || (end > 0 && head_parse(data, (size_t)end, &head, &fault) < 0))
        conn_refuse_fault(c, &fault);
    else if (end > 0)
        take_head(c, &head, (size_t)end);
    else
        conn_arm(c, deadline(c), c->last_ms);
}

// Puts pipelined bytes before the bytes that arrive now.
static bool take_ahead(struct conn *c)
{
    struct evbuffer *ahead = TAKE_PTR(c->ahead);
    if (!ahead)
        return false;
    (void)evbuffer_prepend_buffer(bufferevent_get_input(c->bev), ahead); // calls on_input()
    evbuffer_free(ahead);
    return true;
}

// The client sent bytes.
static void on_input(struct evbuffer *b, const struct evbuffer_cb_info *info, void *argument)
{
    struct conn *c = argument;
    count_buffered(c, &c->buffered_in, evbuffer_get_length(b));
    if (info->n_added == 0 || take_ahead(c))
        return;
    switch (c->state) {
    case CONN_IDLE:
        evict_leave(c);
        c->state = CONN_HEAD;
        c->scan = (struct head_scan){0};
        watch(c, clock_ms());
        c->amount = info->n_added;
        read_head(c);
        break;
    case CONN_HEAD:
    case CONN_BODY:
        c->last_ms = clock_ms();
        c->amount += info->n_added;
        if (c->state == CONN_HEAD)
            read_head(c);
        else if (c->server->current != c)
            read_body(c);
        break;
    case CONN_BUSY:
        if (body_stream_is_cut(c)) {
            c->last_ms = clock_ms();
            c->amount += info->n_added;
            body_stream_take(c);
            break;
        }
        // Not reading would bound it too, but then the gate would not notice that the client left.
        if (evbuffer_get_length(b) > AHEAD_MAX)
            event_active(&c->wake, EV_WRITE, 0);
        break;
    case CONN_REFUSED:
    case CONN_SURPLUS: (void)evbuffer_drain(b, SIZE_MAX); break;
    }
}

// ---- answers on their way -----------------------------------------------------------------------

// Output was added, or the client took some.
static void on_output(struct evbuffer *b, const struct evbuffer_cb_info *info, void *argument)
{
    struct conn *c = argument;
    count_buffered(c, &c->buffered_out, evbuffer_get_length(b));
    if (c->state != CONN_BUSY)
        return;
    int64_t now_ms = clock_ms();
    size_t length = evbuffer_get_length(b);
    if (info->n_added && info->orig_size == 0) {
        watch(c, now_ms);
        conn_arm(c, deadline(c), now_ms);
    }
    if (info->n_deleted) {
        c->last_ms = now_ms;
        c->amount += info->n_deleted;
    }
    if (length > STREAM_LOW) {
        c->slow = true;
    } else if (c->slow) {
        c->slow = false;
        event_active(&c->wake, EV_READ, 0); // not from within libevent's writing
    }
}

static void become_idle(struct conn *c)
{
    struct http *h = c->server;
    c->state = CONN_IDLE;
    c->skip_line = false;
    c->since_ms = clock_ms();
    if (c->known)
        evict_line(c, &h->idle);
    bufferevent_setwatermark(c->bev, EV_READ, SIZE_MAX, 0);
}

// The answer was sent; libevent goes on to the next request, or ends the connection if the headers
// of the answer say so.
static void on_complete(struct evhttp_request *ev, void *argument)
{
    struct conn *c = argument;
    struct http *h = c->server;
    struct evbuffer *in = bufferevent_get_input(c->bev);
    h->exchanges--;
    bool cut = body_stream_is_cut(c);
    body_stream_free(c);
    if (cut) {
        conn_linger(c, ev);
        return;
    }
    become_idle(c);
    conn_arm(c, c->since_ms + KEEP_ALIVE_MS, c->since_ms);
    size_t early = evbuffer_get_length(in);
    if (early && (c->ahead = evbuffer_new())) {
        (void)evbuffer_remove_buffer(in, c->ahead, early);
        event_active(&c->wake, EV_READ, 0);
        evict_leave(c);
    }
    if (h->stopping || c->close_after || (early && !c->ahead))
        (void)evhttp_add_header(evhttp_request_get_output_headers(ev), "Connection", "close");
}

// libevent has read a request.
void conn_on_request(struct evhttp_request *ev, void *argument)
{
    struct http *h = argument;
    struct conn *c = TAKE_PTR(h->current);
    struct evhttp_connection *connection = evhttp_request_get_connection(ev);
    bufferevent_data_cb on_write;
    bufferevent_event_cb on_event;
    void *of;
    // SECURITY: refuse a connection that could not be watched (memory was out).
    if (!c || c->ev != connection || !c->x) {
        evhttp_send_error(ev, 503, NULL);
        return;
    }
    c->state = CONN_BUSY;
    c->served = true;
    c->slow = false;
    h->exchanges++;
    // SECURITY: libevent aborts the process if its reader is called now, so its read callback is
    // removed.  Reading goes on, up to AHEAD_MAX, to notice a client that leaves.
    bufferevent_getcb(c->bev, NULL, &on_write, &on_event, &of);
    bufferevent_setcb(c->bev, NULL, on_write, on_event, of);
    (void)bufferevent_enable(c->bev, EV_READ);
    evhttp_request_set_on_complete_cb(ev, on_complete, c);
    struct exchange *p = c->x;
    const char *query = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(ev));
    p->x.ev = ev;
    p->x.query = query ? query : "";
    request_log_begin(p);
    watch(c, clock_ms());
    if (body_stream_is_cut(c))
        conn_arm(c, deadline(c), c->since_ms);
    if (p->refusal)
        exchange_refuse(p);
    else if (p->options)
        exchange_options(p);
    else
        p->route->handle(&p->x, p->route->argument);
}

// ---- the life of a connection -------------------------------------------------------------------

// The rest of the body does not come: the handler stops, as for a client that is gone.
static void fail_body(struct conn *c, int status, const char *code, const char *message)
{
    struct http_exchange *x = &c->x->x;
    void (*on_close)(struct http_exchange *) = TAKE_PTR(x->on_close);
    x->on_body = NULL;
    x->on_drained = NULL;
    if (on_close)
        on_close(x);
    http_reply_error(x, status, code, NULL, "%s", message);
}

static void tell_handler(struct conn *c)
{
    const struct head_fault *f = &c->stream->fault;
    c->stream->news = false;
    if (f->status)
        fail_body(c, f->status, f->code, f->message);
    else
        c->x->x.on_body(&c->x->x);
}

static void on_timer(evutil_socket_t fd, short what, void *argument)
{
    struct conn *c = argument;
    int64_t now_ms = clock_ms(), at_ms = 0;
    (void)fd;
    (void)what;
    c->timer_at_ms = 0;
    switch (c->state) {
    case CONN_IDLE:
        at_ms = c->since_ms + (c->served ? KEEP_ALIVE_MS : (int64_t)c->server->config->request_ms);
        break;
    case CONN_HEAD:
    case CONN_BODY: at_ms = deadline(c); break;
    case CONN_BUSY:
        if (evbuffer_get_length(bufferevent_get_output(c->bev)) == 0 && !body_stream_waits(c))
            return; // the handler is at work
        at_ms = deadline(c);
        break;
    case CONN_REFUSED: at_ms = c->since_ms + LINGER_MS; break;
    case CONN_SURPLUS: return;
    }
    if (now_ms < at_ms)
        conn_arm(c, at_ms, now_ms);
    else if (c->state == CONN_HEAD || c->state == CONN_BODY)
        conn_turn_down(c, 408, "request_timeout", "the request did not arrive in time");
    else if (c->state == CONN_BUSY && c->x && body_stream_waits(c))
        fail_body(c, 408, "request_timeout", "the body of the request did not arrive in time");
    else if (c->state == CONN_BUSY)
        conn_reset(c);
    else
        conn_kill(c);
}

void conn_resume(struct conn *c)
{
    watch(c, clock_ms()); // the client could not send meanwhile
    conn_arm(c, deadline(c), c->since_ms);
    (void)bufferevent_enable(c->bev, EV_READ);
}

// There is no room for this connection: sends 503 and closes, without waiting.
static void turn_away(struct conn *c)
{
    static const char body[] = "{\"error\":{\"code\":\"busy\",\"message\":\"too many connections\","
                               "\"hint\":\"try again, or start the server with --connections\"}}";
    char text[512], unread[4096];
    int fd = bufferevent_getfd(c->bev);
    int n = snprintf(text, sizeof text,
                     "HTTP/1.1 503 %s\r\nConnection: close\r\nRetry-After: 1\r\n"
                     "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                     http_reason(503), sizeof body - 1, body);
    (void)send(fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)recv(fd, unread, sizeof unread,
               MSG_DONTWAIT); // unread bytes would reset the connection
    conn_kill(c);
}

// libevent has created the connection since conn_on_accept().
void conn_begin(struct conn *c)
{
    void *of = NULL;
    bufferevent_getcb(c->bev, NULL, NULL, NULL, &of);
    if (!of) { // libevent failed, and freed everything
        conn_free(c);
        return;
    }
    c->ev = of;
    evhttp_connection_set_closecb(c->ev, on_gone, c);
    if (c->state == CONN_SURPLUS) {
        turn_away(c);
        return;
    }
    c->peer = http_find_peer(c->server, bufferevent_getfd(c->bev));
    become_idle(c);
    conn_arm(c, c->since_ms + (int64_t)c->server->config->request_ms, c->since_ms);
}

static void on_wake(evutil_socket_t fd, short what, void *argument)
{
    struct conn *c = argument;
    (void)fd;
    if (!c->ev) {
        conn_begin(c);
    } else if (c->doomed && (c->state == CONN_HEAD || c->state == CONN_BODY)) {
        conn_turn_down(c, 503, "busy", "too many large requests are arriving; try again later");
    } else if (what & EV_WRITE) { // too many bytes, or memory was out in a stream
        conn_reset(c);
    } else if (c->x && c->stream && c->stream->news && c->x->x.on_body) {
        tell_handler(c);
    } else if (c->ahead) {
        (void)take_ahead(c);
        bufferevent_trigger(c->bev, EV_READ, 0); // does nothing below the low watermark
    } else if (c->x && c->x->x.streaming && c->x->x.on_drained) {
        c->x->x.on_drained(&c->x->x);
    }
}

static void evict_one(struct http *h)
{
    struct conn *c = evict_find(h);
    if (!c || !c->ev)
        return;
    if (c->known || c->state == CONN_BUSY || c->state == CONN_REFUSED)
        conn_kill(c);
    else
        turn_away(c); // no other answer is pending
}

// Has the connection unread input?
static bool is_unread(const struct conn *c)
{
    char byte;
    return !c->ev ||
           recv(bufferevent_getfd(c->bev), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) > 0;
}

// SECURITY: many connections are accepted in one go.  The next one to be evicted may already have
// sent its key: it is read first.
static void keep_one_free(struct http *h)
{
    const struct conn *c = h->connections >= h->connections_max ? evict_find(h) : NULL;
    if (c && is_unread(c))
        http_pause(h, 0);
}

// libevent has accepted a connection and asks for its buffers.
struct bufferevent *conn_on_accept(struct event_base *base, void *argument)
{
    struct http *h = argument;
    struct bufferevent *bev = bufferevent_socket_new(base, -1, 0);
    struct conn *c = bev ? calloc(1, sizeof *c) : NULL;
    if (!c || !evbuffer_add_cb(bufferevent_get_input(bev), on_input, c) ||
        !evbuffer_add_cb(bufferevent_get_output(bev), on_output, c)) {
        free(c);
        if (bev)
            bufferevent_free(bev);
        return NULL; // libevent makes its own buffers; conn_on_request() refuses
    }
    if (h->connections >= h->connections_max)
        evict_one(h);
    c->server = h;
    c->bev = bev;
    c->state = h->connections >= h->connections_max ? CONN_SURPLUS : CONN_IDLE;
    bufferevent_incref(bev); // conn_begin() checks whether it is in use
    bufferevent_setwatermark(bev, EV_READ, SIZE_MAX, 0);
    (void)event_assign(&c->wake, base, -1, 0, on_wake, c);
    (void)evtimer_assign(&c->timer, base, on_timer, c);
    TAILQ_INSERT_TAIL(&h->all, c, all);
    h->connections++;
    c->accepted_ms = clock_ms();
    if (c->state == CONN_IDLE)
        evict_line(c, &h->strangers);
    event_active(&c->wake, EV_READ, 0);
    keep_one_free(h);
    return bev;
}
