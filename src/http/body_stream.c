// SPDX-License-Identifier: Apache-2.0
//
// body_stream: see body_stream.h.  Called by conn.c and by handlers; runs in the gate.  SECURITY:
// at most BODY_AHEAD bytes and one read of a body are in memory: above that the connection is not
// read, and the client has to wait.

#include "http/body_stream.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum {
    BODY_AHEAD = 1 << 20,
    READ_AT_ONCE = 256 << 10,
    READ_AT_ONCE_DEFAULT = 16 << 10, // libevent's
};

// The head without the fields of its body, with its end.
static int add_plain_head(struct evbuffer *head, struct evbuffer *to)
{
    static const char *const fields[] = {"Content-Length:", "Transfer-Encoding:", "Expect:"};
    static const char end[] = "Content-Length: 0\r\n\r\n";
    size_t n;
    int failed = 0;
    for (char *line; !failed && (line = evbuffer_readln(head, &n, EVBUFFER_EOL_CRLF));) {
        bool drop = n == 0;
        for (size_t i = 0; i < ARRAY_LEN(fields); i++)
            drop |= strncasecmp(line, fields[i], strlen(fields[i])) == 0;
        if (!drop)
            failed = evbuffer_add(to, line, n) | evbuffer_add(to, "\r\n", 2);
        free(line);
    }
    return failed ? -1 : evbuffer_add(to, end, sizeof end - 1);
}

int body_stream_begin(struct conn *c, const struct head *head, size_t n, uint64_t most)
{
    struct evbuffer *in = bufferevent_get_input(c->bev), *whole = evbuffer_new(),
                    *plain = evbuffer_new();
    struct body_stream *s = calloc(1, sizeof *s);
    int r = -1;
    c->server->current = c; // on_input() must ignore these bytes
    if (s)
        s->bytes = evbuffer_new();
    if (whole && plain && s && s->bytes && evbuffer_remove_buffer(in, whole, n) == (int)n &&
        add_plain_head(whole, plain) == 0) {
        s->chunked = head->chunked;
        s->chunks = (struct chunks){.max = most};
        s->left = head->length;
        s->waits = head->wait;
        s->complete = !head->chunked && head->length == 0;
        c->stream = TAKE_PTR(s);
        body_stream_take(c);
        r = evbuffer_prepend_buffer(in, plain);
        (void)bufferevent_set_max_single_read(c->bev, READ_AT_ONCE);
    }
    if (r < 0)
        c->server->current = NULL;
    if (s && s->bytes)
        evbuffer_free(s->bytes);
    free(s);
    if (whole)
        evbuffer_free(whole);
    if (plain)
        evbuffer_free(plain);
    return r;
}

static void take_plain(struct body_stream *s, struct evbuffer *in)
{
    size_t n = evbuffer_get_length(in);
    if (n > s->left)
        n = (size_t)s->left;
    int moved = evbuffer_remove_buffer(in, s->bytes, n);
    s->left -= moved > 0 ? (uint64_t)moved : 0;
    s->complete = s->left == 0;
}

static void take_chunks(struct body_stream *s, struct evbuffer *in)
{
    int r = 0;
    for (size_t have; r == 0 && (have = evbuffer_get_length(in));) {
        uint64_t data = chunks_data(&s->chunks);
        size_t used, n = data < have ? (size_t)data : have;
        char byte = 0;
        if (n == 0 && evbuffer_remove(in, &byte, 1) == 1)
            n = 1;
        else if (evbuffer_remove_buffer(in, s->bytes, n) != (int)n)
            return;
        // Of data, it only counts the bytes.
        r = chunks_feed(&s->chunks, &byte, n, &used, &s->fault);
    }
    s->complete = r == 1;
}

static void count(struct conn *c)
{
    struct body_stream *s = c->stream;
    size_t now = evbuffer_get_length(s->bytes);
    if (!c->doomed)
        c->server->buffered += now - s->counted;
    s->counted = now;
}

void body_stream_take(struct conn *c)
{
    struct body_stream *s = c->stream;
    struct evbuffer *in = bufferevent_get_input(c->bev);
    if (s->complete || s->fault.status)
        return;
    if (s->chunked)
        take_chunks(s, in);
    else
        take_plain(s, in);
    count(c);
    s->waits &= evbuffer_get_length(s->bytes) == 0;
    s->news = true;
    event_active(&c->wake, EV_READ, 0); // calls the handler, not from within libevent's reading
    if (evbuffer_get_length(s->bytes) >= BODY_AHEAD && !s->complete) {
        s->paused = true;
        (void)bufferevent_disable(c->bev, EV_READ);
    }
}

bool body_stream_is_cut(const struct conn *c)
{
    return c->stream && !c->stream->complete;
}

bool body_stream_waits(const struct conn *c)
{
    return body_stream_is_cut(c) && !c->stream->paused && !c->stream->waits;
}

void body_stream_free(struct conn *c)
{
    struct body_stream *s = TAKE_PTR(c->stream);
    if (!s)
        return;
    if (!c->doomed)
        c->server->buffered -= s->counted;
    (void)bufferevent_set_max_single_read(c->bev, READ_AT_ONCE_DEFAULT);
    evbuffer_free(s->bytes);
    free(s);
}

// ---- for handlers -------------------------------------------------------------------------------

static struct conn *conn_of(const struct http_exchange *x)
{
    return ((const struct exchange *)x)->conn; // x is the first member
}

void http_body_begin(struct http_exchange *x)
{
    struct conn *c = conn_of(x);
    struct body_stream *s = c->stream;
    if (!s || s->complete)
        return;
    if (s->waits)
        conn_send_continue(c);
    s->waits = false;
    if (s->news)
        event_active(&c->wake, EV_READ, 0);
    if (!s->paused)
        conn_resume(c);
}

size_t http_body_read(struct http_exchange *x, void *to, size_t most)
{
    struct conn *c = conn_of(x);
    struct body_stream *s = c->stream;
    int n = s ? evbuffer_remove(s->bytes, to, most) : 0;
    if (!s)
        return 0;
    count(c);
    if (s->paused && evbuffer_get_length(s->bytes) < BODY_AHEAD / 2) {
        s->paused = false;
        conn_resume(c);
    }
    return n > 0 ? (size_t)n : 0;
}

bool http_body_ended(const struct http_exchange *x)
{
    const struct body_stream *s = conn_of(x)->stream;
    return !s || (s->complete && evbuffer_get_length(s->bytes) == 0);
}
