// SPDX-License-Identifier: Apache-2.0
//
// inspect: see inspect.h.
//
// SECURITY: many hosts share one address (content networks), so an allowed name leads to a machine
// that also serves names that are not allowed.  The name inside must be the one that the rules
// allowed.

#include "broker/inspect.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "broker/conn.h"
#include "broker/explain.h"
#include "broker/netbox.h"
#include "broker/request.h"
#include "broker/tls_hello.h"

// For rules about addresses the address itself is the name.
static const char *host_of(const struct conn *c, char text[NET_ADDRESS_TEXT])
{
    if (c->host)
        return c->host;
    net_address_text(&c->wanted, text);
    return text;
}

static bool is_bounded(const struct conn *c)
{
    const struct net_rules *rules[NET_RULE_SETS_MAX];
    char text[NET_ADDRESS_TEXT];
    return net_bounds_http(rules, netbox_rule_sets(c->box, rules), host_of(c, text), c->port);
}

static int refuse(struct conn *c, const char *action, const char *reason, const char *why,
                  const char *hint)
{
    struct refusal f;
    explain_other(action, reason, c->host, &c->address, c->port, why, hint, &f);
    conn_refuse(c, &f);
    return -1;
}

void inspect_begin(struct conn *c)
{
    c->inspect = (struct inspect){.bounded = is_bounded(c)};
}

// ---- TLS ----------------------------------------------------------------------------------------

static ssize_t on_hello(struct conn *c, const uint8_t *data, size_t length)
{
    char name[NET_HOST_MAX + 1], why[NET_HOST_MAX + 100];
    enum tls_hello h = tls_hello_read(data, length, name);
    if (h == TLS_HELLO_MORE)
        return 0;
    if (h == TLS_HELLO_BAD)
        return refuse(c, "tls", "tls_malformed", "the first bytes are not a valid ClientHello",
                      NULL);
    if (c->host && !name[0])
        return refuse(c, "tls", "sni_missing", "the ClientHello names no host (SNI)",
                      "connect with the host's name as server_hostname");
    if (c->host && strcmp(name, c->host) != 0) {
        snprintf(why, sizeof why, "the ClientHello is for '%s' (SNI)", name);
        return refuse(
            c, "tls", "sni_mismatch", why,
            "the name in TLS must be the name that the code connected to: connect to the TLS name");
    }
    c->inspect.state = INSPECT_PASS;
    return (ssize_t)length;
}

// ---- HTTP ---------------------------------------------------------------------------------------

static int judge_request(struct conn *c, const struct request_head *h)
{
    const struct net_rules *rules[NET_RULE_SETS_MAX];
    struct net_decision v;
    struct refusal f;
    char text[NET_ADDRESS_TEXT], why[NET_HOST_MAX + 100];
    if (c->host && strcmp(h->host, c->host) != 0) {
        snprintf(why, sizeof why, "the request is for '%s' (Host)",
                 h->host[0] ? h->host : h->host_text);
        return refuse(c, "http", "host_mismatch", why,
                      "the Host of a request must be the name that the code connected to");
    }
    if (!c->inspect.bounded)
        return 0;
    if (!h->plain)
        return refuse(c, "http", "http_ambiguous", "servers may read this path in different ways",
                      "write the path without dots, double slashes and needless escapes");
    net_judge_http(rules, netbox_rule_sets(c->box, rules), host_of(c, text), c->port, h->method,
                   h->path, &v);
    if (v.reason == NET_ALLOWED)
        return 0;
    explain_verdict(c->box, "http", c->host, &c->address, c->port, &v, &f);
    size_t n = strlen(f.sentence);
    snprintf(f.sentence + n, sizeof f.sentence - n, " %s %.100s", h->method, h->path);
    conn_refuse(c, &f);
    return -1;
}

// After status 101 the rest is another protocol; after any other status it stays HTTP.
static int begin_upgrade(struct conn *c, const struct request_head *h)
{
    // SECURITY: while answers of earlier requests are due, bytes that come down could belong to any
    // of them.  And h2c carries requests that would not be judged, nor would host names there or in
    // TLS that begins later.
    if ((c->host || c->inspect.bounded) && !h->websocket)
        return refuse(c, "http", "http_upgrade", "HTTP may change to a WebSocket only",
                      "use HTTP/1.1 without upgrade, or TLS from the first byte on");
    if (c->inspect.bounded && c->inspect.requests > 1)
        return refuse(c, "http", "http_upgrade",
                      "a WebSocket must be the first request of its connection here",
                      "rules bound the requests to this host");
    c->inspect.state = INSPECT_UPGRADE;
    c->inspect.status_length = 0;
    return 0;
}

static int on_head(struct conn *c, const struct request_head *h)
{
    struct refusal f;
    const char *over = quota_take_request(&c->box->quota);
    if (over) {
        explain_quota(c->host, &c->address, c->port, over, &f);
        conn_refuse(c, &f);
        return -1;
    }
    c->inspect.requests++;
    c->box->report.requests++;
    if (judge_request(c, h) < 0)
        return -1;
    return h->upgrade ? begin_upgrade(c, h) : 0;
}

static ssize_t on_http(struct conn *c, const uint8_t *data, size_t length)
{
    static struct request_head head; // large
    size_t at = 0, used;
    const char *why;
    while (at < length && c->inspect.state == INSPECT_HTTP) {
        enum request_step s =
            request_next(&c->inspect.request, data + at, length - at, &head, &used, &why);
        if (s == REQUEST_MORE)
            break;
        if (s == REQUEST_BAD)
            return refuse(c, "http", "http_ambiguous", why,
                          "send requests as RFC 9112 defines them");
        if (s == REQUEST_HEAD && on_head(c, &head) < 0)
            return -1;
        at += used;
    }
    return (ssize_t)at;
}

void inspect_down(struct conn *c, const uint8_t *data, size_t length)
{
    struct inspect *i = &c->inspect;
    if (i->state != INSPECT_UPGRADE)
        return;
    for (size_t k = 0; k < length && i->status_length < INSPECT_STATUS; k++)
        i->status[i->status_length++] = (char)data[k];
    if (i->status_length < INSPECT_STATUS)
        return;
    bool changed = memcmp(i->status, "HTTP/1.", 7) == 0 && memcmp(i->status + 8, " 101", 4) == 0;
    i->state = changed ? INSPECT_PASS : INSPECT_HTTP;
    i->again = true;
}

// ---- the first bytes ----------------------------------------------------------------------------

static ssize_t on_first(struct conn *c, const uint8_t *data, size_t length)
{
    static const char h2_begin[] = "PRI * HTTP/2.0";
    if (tls_hello_begins(data, length)) {
        if (length < 2)
            return 0;
        if (c->login)
            return refuse(c, "tls", "index_login",
                          "this index has a login, which is added outside of the box, and TLS is "
                          "made there",
                          "ask it in plain HTTP");
        if (c->inspect.bounded)
            return refuse(c, "tls", "http_bounded",
                          "rules bound the requests to this host, and "
                          "the broker cannot read them inside TLS",
                          "use plain HTTP on a port that allows it");
        c->inspect.state = INSPECT_HELLO;
        return 0;
    }
    if (c->inspect.bounded) {
        c->inspect.state = INSPECT_HTTP;
        return 0;
    }
    // Servers skip empty lines before a request: they go on, and the first bytes are those after
    // them.
    size_t skip = 0;
    while (skip < length && (data[skip] == '\r' || data[skip] == '\n'))
        skip++;
    if (skip == length)
        return (ssize_t)skip;
    enum request_look look = request_look(data + skip, length - skip);
    if (look == REQUEST_LOOK_YES)
        c->inspect.state = INSPECT_HTTP;
    // SECURITY: an unknown method may come in pieces, and HTTP/2 names hosts where this cannot see
    // them.  On connections to addresses the host does not matter.
    bool h2 = length - skip >= sizeof h2_begin - 1 &&
              memcmp(data + skip, h2_begin, sizeof h2_begin - 1) == 0;
    if (!c->host && (look == REQUEST_LOOK_NO || h2))
        c->inspect.state = INSPECT_PASS;
    else if (look == REQUEST_LOOK_NO)
        c->inspect.state = INSPECT_LINE;
    return (ssize_t)skip;
}

static ssize_t on_line(struct conn *c, const uint8_t *data, size_t length)
{
    bool ends, http = request_line_names_http(&c->inspect.line, data, length, &ends);
    if (ends && http)
        return refuse(c, "http", "http_ambiguous",
                      "this request has an unknown method or does not come in one piece",
                      "send requests as RFC 9112 defines them");
    if (ends)
        c->inspect.state = INSPECT_PASS;
    return (ssize_t)length;
}

ssize_t inspect_up(struct conn *c, const uint8_t *data, size_t length)
{
    static ssize_t (*const steps[])(struct conn *, const uint8_t *,
                                    size_t) = {[INSPECT_FIRST] = on_first,
                                               [INSPECT_LINE] = on_line,
                                               [INSPECT_HELLO] = on_hello,
                                               [INSPECT_HTTP] = on_http};
    struct inspect *i = &c->inspect;
    size_t at = 0;
    for (;;) {
        if (i->state == INSPECT_PASS)
            at = length;
        if (i->state == INSPECT_PASS || i->state == INSPECT_UPGRADE)
            break;
        enum inspect_state before = i->state;
        ssize_t n = steps[i->state](c, data + at, length - at);
        if (n < 0)
            return -1;
        at += (size_t)n;
        if (i->state == before)
            break;
    }
    bool waits = at < length && i->state != INSPECT_UPGRADE;
    i->waiting_ms = !waits ? 0 : i->waiting_ms ? i->waiting_ms : clock_ms();
    return (ssize_t)at;
}

int inspect_end(struct conn *c)
{
    struct flow *f = &c->flows[WAY_UP];
    if (f->end == f->cleared)
        return 0;
    if (c->inspect.state == INSPECT_FIRST && !c->inspect.bounded && c->inspect.waiting_ms) {
        f->cleared = f->end; // too short for any protocol
        c->inspect.state = INSPECT_PASS;
        c->inspect.waiting_ms = 0;
        return 0;
    }
    return refuse(c, c->inspect.state == INSPECT_HELLO ? "tls" : "http", "incomplete",
                  "the box ended the connection within a ClientHello or a request", NULL);
}

void inspect_late(struct conn *c)
{
    (void)refuse(c, c->inspect.state == INSPECT_HELLO ? "tls" : "http", "incomplete",
                 "a ClientHello or a request was not complete within 10 seconds", NULL);
}

void inspect_rules_changed(struct conn *c)
{
    bool bounded = is_bounded(c);
    if (bounded && !c->inspect.bounded && c->inspect.state != INSPECT_FIRST &&
        c->inspect.state != INSPECT_HTTP)
        (void)refuse(
            c, "http", "http_bounded",
            "rules now bound the requests to this host, and the broker cannot read this connection",
            NULL);
    c->inspect.bounded = bounded;
}
