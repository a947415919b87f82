// SPDX-License-Identifier: Apache-2.0
//
// gate_socket: see gate_socket.h.
//
// SECURITY: the gate parses foreign input and may be hostile.  Here it can only grant less than the
// operator's rules, which the broker reads from the configuration itself.

#include "broker/gate_socket.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/log.h"
#include "broker/netbox.h"

enum { DATAGRAMS = 256 }; // in one turn

struct pending {
    TAILQ_ENTRY(pending) link;
    char *text;
    size_t length;
};

struct gate_socket {
    int fd;
    struct event *event, *room;
    TAILQ_HEAD(, pending) pending;
    size_t pending_count;
    char buffer[BROKER_DATAGRAM];
};

// ---- out ----------------------------------------------------------------------------------------

static bool put(struct gate_socket *t, const char *text, size_t length)
{
    if (send(t->fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
        return true;
    return errno != EAGAIN && errno != EINTR; // other errors do not go away: drop it
}

static void drop_first(struct gate_socket *t)
{
    struct pending *p = TAILQ_FIRST(&t->pending);
    TAILQ_REMOVE(&t->pending, p, link);
    t->pending_count--;
    free(p->text);
    free(p);
}

static void on_room(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what;
    struct gate_socket *t = argument;
    struct pending *p;
    while ((p = TAILQ_FIRST(&t->pending)) && put(t, p->text, p->length))
        drop_first(t);
    if (!p)
        (void)event_del(t->room);
}

static void defer(struct gate_socket *t, char *text, size_t length)
{
    struct pending *p =
        t->pending_count < GATE_SOCKET_PENDING_MAX && t->room ? calloc(1, sizeof *p) : NULL;
    if (!p) {
        log_line(LOG_ERROR, "the gate does not read: a report is lost");
        free(text);
        return;
    }
    p->text = text;
    p->length = length;
    TAILQ_INSERT_TAIL(&t->pending, p, link);
    t->pending_count++;
    (void)event_add(t->room, NULL);
}

static void send_json(struct gate_socket *t, json_t *o)
{
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    // Only the events can be long.
    if (text && strlen(text) > BROKER_DATAGRAM) {
        size_t lost = json_array_size(json_object_get(o, "events"));
        (void)json_object_set_new(o, "events", json_array());
        (void)json_object_set_new(o, "events_left_out", json_integer((json_int_t)lost));
        free(text);
        text = json_dumps(o, JSON_COMPACT);
    }
    json_decref(o);
    size_t length = text ? strlen(text) : 0;
    if (!length || length > BROKER_DATAGRAM || t->fd < 0 ||
        (!t->pending_count && put(t, text, length)))
        free(text);
    else
        defer(t, text, length);
}

// ---- in -----------------------------------------------------------------------------------------

static void parse_sets(json_t *list, struct net_rules *ret, size_t *ret_count, struct err *e)
{
    size_t count = json_array_size(list);
    *ret_count = 0;
    if (!json_is_array(list) || count >= NET_RULE_SETS_MAX) {
        err_set(e, ERR_PROTOCOL, 0, NULL, "%zu rule sets", count);
        *ret_count = SIZE_MAX;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (net_rules_from_json(json_array_get(list, i), &ret[i], e) < 0) {
            while (i--)
                net_rules_done(&ret[i]);
            *ret_count = SIZE_MAX;
            return;
        }
        *ret_count = i + 1;
    }
}

// SECURITY: a malformed grant revokes the one before it.
static void on_grant(struct netbox *b, json_t *o)
{
    struct net_rules rules[NET_RULE_SETS_MAX] = {0};
    struct err e = {.message = "key or run is missing or too long"};
    const char *key = json_string_value(json_object_get(o, "key"));
    const char *run = json_string_value(json_object_get(o, "run"));
    size_t count = SIZE_MAX;
    if (key && strlen(key) < sizeof b->key && run && strlen(run) < sizeof b->run)
        parse_sets(json_object_get(o, "rule_sets"), rules, &count, &e);
    if (count != SIZE_MAX && strcmp(key, NET_INSTALLER) == 0 &&
        net_policy_learn(b->broker->policy, &rules[0], &e) < 0) {
        for (size_t i = 0; i < count; i++)
            net_rules_done(&rules[i]);
        count = SIZE_MAX;
    }
    if (count == SIZE_MAX || netbox_grant(b, key, run, rules, count) < 0) {
        for (size_t i = 0; count != SIZE_MAX && i < count; i++)
            net_rules_done(&rules[i]);
        log_line(LOG_ERROR, "box %llu: invalid grant: %s", (unsigned long long)b->id, e.message);
        netbox_revoke(b);
    }
}

static void on_settle(struct gate_socket *t, struct netbox *b)
{
    netbox_catch_up(b);
    send_json(t, report_take(&b->report, b->id));
}

static void on_message(struct broker *b, const char *text, size_t length)
{
    struct gate_socket *t = b->gate_socket;
    json_t *o = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    const char *op = json_string_value(json_object_get(o, "op"));
    json_t *number = json_object_get(o, "box");
    if (!op || !json_is_integer(number) || json_integer_value(number) <= 0) {
        log_line(LOG_ERROR, "malformed message from the gate");
        json_decref(o);
        return;
    }
    uint64_t id = (uint64_t)json_integer_value(number);
    struct netbox *x = netbox_find(b, id);
    if (!x) { // the keeper announces a box first, but that message may not be read yet
        broker_hear_keeper(b);
        x = netbox_find(b, id);
    }
    if (strcmp(op, "grant") == 0 && x)
        on_grant(x, o);
    else if (strcmp(op, "settle") == 0 && x)
        on_settle(t, x);
    else if (strcmp(op, "settle") == 0)
        send_json(
            t, json_pack("{s:s, s:I, s:b}", "op", "report", "box", (json_int_t)id, "unknown", 1));
    json_decref(o);
}

void gate_socket_read(struct broker *b)
{
    struct gate_socket *t = b->gate_socket;
    for (int i = 0; i < DATAGRAMS && t->fd >= 0; i++) {
        ssize_t n = recv(t->fd, t->buffer, sizeof t->buffer, MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            gate_socket_link(b, -1); // that gate is gone; the keeper sends a new one
            return;
        }
        if ((size_t)n <= sizeof t->buffer)
            on_message(b, t->buffer, (size_t)n);
    }
}

// ---- life ---------------------------------------------------------------------------------------

static void on_gate(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what;
    broker_drain(argument); // the keeper first: the box of a grant may be new
}

void gate_socket_link(struct broker *b, int fd)
{
    struct gate_socket *t = b->gate_socket;
    struct event **events[] = {&t->event, &t->room};
    for (size_t i = 0; i < ARRAY_LEN(events); i++) {
        if (*events[i])
            event_free(*events[i]);
        *events[i] = NULL;
    }
    while (t->pending_count)
        drop_first(t); // they answer the gate before this one
    fd_close(&t->fd);
    if (fd < 0)
        return;
    t->fd = fd;
    (void)fd_set_nonblock(fd, true);
    t->event = event_new(b->base, fd, EV_READ | EV_PERSIST, on_gate, b);
    t->room = event_new(b->base, fd, EV_WRITE | EV_PERSIST, on_room, t);
    if (!t->event || !t->room || event_add(t->event, NULL) < 0)
        log_line(LOG_ERROR, "out of memory: messages of the gate are not read");
}

int gate_socket_open(struct broker *b, struct err *e)
{
    b->gate_socket = calloc(1, sizeof *b->gate_socket);
    if (!b->gate_socket)
        return err_set(e, ERR_SYSTEM, 0, NULL, "out of memory");
    b->gate_socket->fd = -1;
    TAILQ_INIT(&b->gate_socket->pending);
    return 0;
}

void gate_socket_close(struct broker *b)
{
    if (!b->gate_socket)
        return;
    gate_socket_link(b, -1);
    free(b->gate_socket);
    b->gate_socket = NULL;
}
