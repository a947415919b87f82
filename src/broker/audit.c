// SPDX-License-Identifier: Apache-2.0
//
// audit: see audit.h.

#include "broker/audit.h"

#include <jansson.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

static json_t *begin(const struct netbox *b, const char *action, const char *host,
                     const struct net_address *address, uint16_t port)
{
    struct timespec now;
    char when[TEXT_TIME_MAX], text[NET_ADDRESS_TEXT] = "";
    clock_gettime(CLOCK_REALTIME, &now);
    text_format_time((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000, when);
    if (address)
        net_address_text(address, text);
    json_t *o = json_pack("{s:s, s:I, s:s, s:s, s:s}", "time", when, "box", (json_int_t)b->id,
                          "run", b->run, "key", b->key, "action", action);
    if (host)
        (void)json_object_set_new(o, "host", json_string(host));
    if (text[0])
        (void)json_object_set_new(o, "address", json_string(text));
    if (port)
        (void)json_object_set_new(o, "port", json_integer(port));
    return o;
}

// One write, so that lines of several writers do not mix.
static void put(const struct broker *b, json_t *o)
{
    char line[AUDIT_LINE_MAX];
    size_t n = o ? json_dumpb(o, line, sizeof line - 1, JSON_COMPACT) : 0;
    if (n >= sizeof line) { // a key full of characters that JSON escapes
        (void)json_object_del(o, "rule");
        (void)json_object_del(o, "key");
        n = json_dumpb(o, line, sizeof line - 1, JSON_COMPACT);
    }
    if (n && n < sizeof line) {
        if (b->audit_file < 0) {
            log_line(LOG_INFO, "%.*s", (int)n, line);
        } else {
            line[n] = '\n';
            if (write(b->audit_file, line, n + 1) < 0)
                log_line(LOG_ERROR, "audit file: %m");
        }
    }
    json_decref(o);
}

// May this one be written?  The first of a second tells how many were not.
static bool has_room(struct netbox *b, uint64_t *ret_left_out)
{
    int64_t now_ms = clock_ms();
    *ret_left_out = 0;
    if (now_ms - b->audit.second_ms >= 1000) {
        *ret_left_out = b->audit.left_out;
        b->audit.second_ms = now_ms;
        b->audit.lines = 0;
        b->audit.left_out = 0;
    }
    if (b->audit.lines == AUDIT_REFUSALS) {
        b->audit.left_out++;
        return false;
    }
    b->audit.lines++;
    return true;
}

void audit_refusal(struct netbox *b, const struct refusal *f)
{
    uint64_t left_out;
    if (!has_room(b, &left_out))
        return;
    json_t *o = begin(b, f->action, f->host, f->address, f->port);
    (void)json_object_set_new(o, "verdict", json_string("refused"));
    (void)json_object_set_new(o, "reason", json_string(f->reason));
    if (f->rule[0])
        (void)json_object_set_new(o, "rule", json_string(f->rule));
    if (left_out)
        (void)json_object_set_new(o, "left_out", json_integer((json_int_t)left_out));
    put(b->broker, o);
}

void audit_connection(const struct conn *c, const char *decision, const char *reason)
{
    bool dialled = c->state == CONN_OPEN || c->state == CONN_DIALLED;
    const struct net_address *address = dialled ? &c->address : c->host ? NULL : &c->wanted;
    json_t *o = begin(c->box, "connect", c->host, address, c->port);
    (void)json_object_set_new(o, "verdict", json_string(decision));
    if (reason)
        (void)json_object_set_new(o, "reason", json_string(reason));
    if (c->rule[0])
        (void)json_object_set_new(o, "rule", json_string(c->rule));
    (void)json_object_set_new(o, "bytes_up", json_integer((json_int_t)c->bytes[WAY_UP]));
    (void)json_object_set_new(o, "bytes_down", json_integer((json_int_t)c->bytes[WAY_DOWN]));
    (void)json_object_set_new(o, "duration_ms",
                              json_integer((json_int_t)(clock_ms() - c->began_ms)));
    put(c->box->broker, o);
}
