// SPDX-License-Identifier: Apache-2.0
//
// report: see report.h.

#include "broker/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { SAID_MAX = BROKER_EVENTS_MAX / 4 }; // events of layer "box"

struct report_event {
    const char *action, *reason;
    char host[NET_HOST_MAX + 1];
    char address[NET_ADDRESS_TEXT];
    uint16_t port;
    bool from_box;
    uint64_t count;
    char rule[NET_RULE_TEXT];
    char hint[REPORT_HINT_MAX];
};

void report_target(const char *host, const struct net_address *address, uint16_t port, char *buf,
                   size_t cap)
{
    char text[NET_ADDRESS_TEXT] = "";
    if (!host && address)
        net_address_text(address, text);
    const char *what = host ? host : text;
    bool colons = strchr(what, ':') != NULL;
    if (port && *what)
        snprintf(buf, cap, colons ? "[%s]:%u" : "%s:%u", what, port);
    else if (port)
        snprintf(buf, cap, "port %u", port);
    else
        snprintf(buf, cap, "%s", what);
}

static bool is_same(const struct report_event *e, const struct refusal *f, const char *address)
{
    return e->port == f->port && e->from_box == f->from_box && strcmp(e->action, f->action) == 0 &&
           strcmp(e->reason, f->reason) == 0 && strcmp(e->host, f->host ? f->host : "") == 0 &&
           strcmp(e->address, address) == 0;
}

void report_refusal(struct report *r, const struct refusal *f)
{
    char address[NET_ADDRESS_TEXT] = "";
    if (f->address)
        net_address_text(f->address, address);
    for (size_t i = 0; i < r->event_count; i++)
        if (is_same(r->events[i], f, address)) {
            r->events[i]->count += !f->again;
            return;
        }
    // SECURITY: events that code reports must not push out those that the broker saw.
    size_t said = 0;
    for (size_t i = 0; i < r->event_count; i++)
        said += r->events[i]->from_box;
    bool room = r->event_count < BROKER_EVENTS_MAX && (!f->from_box || said < SAID_MAX);
    struct report_event *e = room ? calloc(1, sizeof *e) : NULL;
    if (!e) {
        r->events_left_out += !f->again;
        return;
    }
    e->action = f->action;
    e->reason = f->reason;
    e->port = f->port;
    e->from_box = f->from_box;
    e->count = 1;
    snprintf(e->host, sizeof e->host, "%s", f->host ? f->host : "");
    snprintf(e->address, sizeof e->address, "%s", address);
    snprintf(e->rule, sizeof e->rule, "%s", f->rule);
    snprintf(e->hint, sizeof e->hint, "%s%s%s", f->sentence, f->hint[0] ? "; " : "", f->hint);
    // The cut may have split a character.
    text_sanitize(e->hint);
    text_sanitize(e->rule);
    r->events[r->event_count++] = e;
}

static struct report_host *host_of(struct report *r, const char *host, uint16_t port)
{
    for (size_t i = 0; i < r->host_count; i++)
        if (r->hosts[i].port == port && strcmp(r->hosts[i].host, host) == 0)
            return &r->hosts[i];
    if (!r->hosts)
        r->hosts = calloc(BROKER_HOSTS_MAX, sizeof *r->hosts);
    if (!r->hosts || r->host_count == BROKER_HOSTS_MAX)
        return NULL;
    struct report_host *h = &r->hosts[r->host_count++];
    *h = (struct report_host){.port = port};
    snprintf(h->host, sizeof h->host, "%s", host);
    return h;
}

void report_traffic(struct report *r, const char *host, uint16_t port, unsigned connections,
                    uint64_t up, uint64_t down)
{
    if (!connections && !up && !down)
        return;
    r->connections += connections;
    r->bytes_up += up;
    r->bytes_down += down;
    struct report_host *h = host_of(r, host, port);
    if (!h) {
        r->hosts_left_out += connections; // the totals include it
        return;
    }
    h->connections += connections;
    h->bytes_up += up;
    h->bytes_down += down;
}

static json_t *number(uint64_t n)
{
    return json_integer((json_int_t)(n > INT64_MAX ? INT64_MAX : n));
}

static json_t *event_json(const struct report_event *e)
{
    char target[NET_HOST_MAX + 16];
    struct net_address a;
    bool parsed = e->address[0] && net_address_parse(e->address, &a) == 0;
    report_target(e->host[0] ? e->host : NULL, parsed ? &a : NULL, e->port, target, sizeof target);
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "kind", "network", "action", e->action,
                  "target", target, "reason", e->reason, "layer", e->from_box ? "box" : "broker",
                  "hint", e->hint, "count", number(e->count));
    if (o && e->host[0])
        (void)json_object_set_new(o, "host", json_string(e->host));
    if (o && e->address[0])
        (void)json_object_set_new(o, "address", json_string(e->address));
    if (o && e->port)
        (void)json_object_set_new(o, "port", json_integer(e->port));
    if (o && e->rule[0])
        (void)json_object_set_new(o, "rule", json_string(e->rule));
    return o;
}

json_t *report_take(struct report *r, uint64_t box)
{
    json_t *hosts = json_array(), *events = json_array();
    for (size_t i = 0; i < r->host_count; i++) {
        const struct report_host *h = &r->hosts[i];
        (void)json_array_append_new(
            hosts, json_pack("{s:s, s:i, s:o, s:o, s:o}", "host", h->host, "port", (int)h->port,
                             "connections", number(h->connections), "bytes_up", number(h->bytes_up),
                             "bytes_down", number(h->bytes_down)));
    }
    for (size_t i = 0; i < r->event_count; i++)
        (void)json_array_append_new(events, event_json(r->events[i]));
    json_t *o = json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "op", "report", "box", number(box),
        "connections", number(r->connections), "requests", number(r->requests), "bytes_up",
        number(r->bytes_up), "bytes_down", number(r->bytes_down), "hosts", hosts, "hosts_left_out",
        number(r->hosts_left_out), "events", events, "events_left_out", number(r->events_left_out));
    if (!o)
        return NULL;
    report_done(r);
    return o;
}

void report_done(struct report *r)
{
    for (size_t i = 0; i < r->event_count; i++)
        free(r->events[i]);
    free(r->hosts);
    *r = (struct report){0};
}
