// SPDX-License-Identifier: Apache-2.0
//
// refuse: answers that end their connection: to a request that libevent has not seen, or whose body
// still arrives.  Called by conn.c and body_stream.c; runs in the gate.

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "http/conn.h"
#include "http/problem.h"

static void on_refused_event(struct bufferevent *bev, short what, void *argument)
{
    (void)bev;
    (void)what;
    conn_kill(argument);
}

// SECURITY: closing at once would make the kernel reset the connection while the client sends, and
// the client would never see the answer.
static void on_refusal_sent(struct bufferevent *bev, void *argument)
{
    (void)argument;
    (void)shutdown(bufferevent_getfd(bev), SHUT_WR);
}

// The beginning of the path of an invalid head; "": there is none.
static void peek_path(struct conn *c, char *buf, size_t cap)
{
    char line[48] = "";
    ssize_t n = evbuffer_copyout(bufferevent_get_input(c->bev), line, sizeof line - 1);
    const char *slash = n > 0 ? memchr(line, '/', (size_t)n) : NULL;
    snprintf(buf, cap, "%.*s", slash ? (int)strcspn(slash, " ?#\r\n") : 0, slash ? slash : "");
    if (!problem_is_for(buf))
        buf[0] = '\0';
    else
        buf[4] = '\0'; // the rest may be cut off
}

// Answers a request that libevent has not seen; the connection ends afterwards.
void conn_answer_refusal(struct conn *c, const struct door_refusal *r, const struct exchange *p)
{
    struct evbuffer *out = bufferevent_get_output(c->bev);
    char allow[64] = "", path[32];
    const char *type;
    if (!p)
        peek_path(c, path, sizeof path);
    _cleanup_free_ char *text =
        http_error_text(r->status, r->code, r->message, r->hint, p ? p->x.path : path, &type);
    int64_t now_ms = clock_ms();
    evict_leave(c);
    c->state = CONN_REFUSED;
    bufferevent_setcb(c->bev, NULL, on_refusal_sent, on_refused_event, c);
    bufferevent_setwatermark(c->bev, EV_READ, 0, 0);
    (void)evbuffer_drain(bufferevent_get_input(c->bev), SIZE_MAX);
    (void)evbuffer_add_printf(out,
                              "HTTP/1.1 %d %s\r\nConnection: close\r\n"
                              "Content-Type: %s\r\nContent-Length: %zu\r\n",
                              r->status, http_reason(r->status), type, text ? strlen(text) : 0);
    if (p && p->allow) {
        http_format_allow(p->allow, allow, sizeof allow);
        (void)evbuffer_add_printf(out, "Allow: %s\r\n", allow);
    }
    if (p && p->origin[0])
        (void)evbuffer_add_printf(out,
                                  "Access-Control-Allow-Origin: %s\r\nVary: Origin\r\n"
                                  "Access-Control-Expose-Headers: WWW-Authenticate\r\n",
                                  p->origin);
    if (r->challenge[0])
        (void)evbuffer_add_printf(out, "WWW-Authenticate: %s\r\n", r->challenge);
    (void)evbuffer_add_printf(out, "\r\n%s", text && !(p && p->x.method == HTTP_HEAD) ? text : "");
    (void)bufferevent_enable(c->bev, EV_READ | EV_WRITE);
    c->since_ms = now_ms;
    conn_arm(c, now_ms + LINGER_MS, now_ms);
}

// Refuses the request that is arriving.
void conn_turn_down(struct conn *c, int status, const char *code, const char *message)
{
    struct door_refusal r;
    struct exchange *p = TAKE_PTR(c->x);
    http_set_refusal(&r, status, code, message, "");
    conn_answer_refusal(c, &r, p);
    exchange_free(p);
}

void conn_refuse_large(struct conn *c)
{
    char limit[32], message[128];
    text_format_size(c->server->config->body_bytes, limit, sizeof limit);
    snprintf(message, sizeof message,
             "the body is larger than this server reads: at most %s (its option --body)", limit);
    conn_turn_down(c, 413, "body_too_large", message);
}

void conn_refuse_fault(struct conn *c, const struct head_fault *f)
{
    if (f->status == 413)
        conn_refuse_large(c);
    else
        conn_turn_down(c, f->status, f->code, f->message);
}

// The answer was sent before the body had come.  libevent keeps the connection, and does not read
// it: see on_refusal_sent().
void conn_linger(struct conn *c, struct evhttp_request *ev)
{
    (void)evhttp_remove_header(evhttp_request_get_input_headers(ev), "Connection");
    (void)evhttp_remove_header(evhttp_request_get_output_headers(ev), "Connection");
    c->state = CONN_REFUSED;
    bufferevent_setwatermark(c->bev, EV_READ, SIZE_MAX, 0);
    (void)evbuffer_drain(bufferevent_get_input(c->bev), SIZE_MAX);
    (void)shutdown(bufferevent_getfd(c->bev), SHUT_WR);
    c->since_ms = clock_ms();
    conn_arm(c, c->since_ms + LINGER_MS, c->since_ms);
}
