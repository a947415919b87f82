// SPDX-License-Identifier: Apache-2.0
//
// network_run: see network.h: the link to the broker, and the network of one run.  Runs in the
// gate, on its event loop.
//
// Invariants:
//   (1) a grant is remembered until its box is gone: a new broker gets all of them again.
//   (2) at most one run waits for a report of a box.  Reports that come too late are counted
//       (`late`), so that a run never takes the report of another.
//   (3) a run waits for the broker at most NETWORK_WAIT_MS, and not at all once the broker is gone.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "run/events.h"
#include "run/network_internal.h"
#include "run/result.h"

enum {
    QUEUE_MAX = 4096, // messages that the broker has not taken yet
    QUEUE_BYTES_MAX = 16 * 1024 * 1024,
    READ_MAX = 64, // messages at a time
};

struct message {
    size_t length;
    TAILQ_ENTRY(message) list;
    char text[];
};

enum wait { WAIT_NOTHING, WAIT_LINK, WAIT_REPORT };

struct network_run {
    struct network *all;
    json_t *rule_sets, *shown;
    char key[65], id[ID_SIZE];
    uint64_t box; // 0: nothing is granted yet
    bool settled; // the report was asked for
    bool over;    // it came, or will not
    json_t *report, *usage;
    enum wait wait;
    void (*then)(void *argument);
    void *argument;
    struct timer timer;
    TAILQ_ENTRY(network_run) list; // all->waiting, when wait is not WAIT_NOTHING
};

// ---- waiting ------------------------------------------------------------------------------------

static void stop_waiting(struct network_run *u)
{
    if (u->wait != WAIT_NOTHING)
        TAILQ_REMOVE(&u->all->waiting, u, list);
    u->wait = WAIT_NOTHING;
    u->then = NULL;
    timer_stop(&u->timer);
}

// What the run waited for came, or will not come.
static void wake(struct network_run *u)
{
    void (*then)(void *) = u->then;
    void *argument = u->argument;
    stop_waiting(u);
    if (then)
        then(argument); // may free u
}

static struct slot *slot_of(struct network *n, uint64_t box)
{
    struct slot *s = &n->slots[box % LINK_BOX_SLOTS];
    return box && s->box == box ? s : NULL;
}

static void clear_slot(struct slot *s)
{
    free(s->grant);
    *s = (struct slot){0};
}

// There will be no report for this run.
static void give_up(struct network_run *u)
{
    struct slot *s = slot_of(u->all, u->box);
    u->over = true;
    if (s && s->waiting == u) {
        s->waiting = NULL;
        s->late++;
        if (s->gone)
            clear_slot(s);
    }
    if (u->wait == WAIT_REPORT)
        wake(u);
}

static void on_overdue(void *argument)
{
    struct network_run *u = argument;
    if (u->wait == WAIT_REPORT)
        give_up(u);
    else
        wake(u);
}

static bool wait_for(struct network_run *u, enum wait wait, void (*then)(void *), void *argument)
{
    stop_waiting(u);
    if (!timer_set(&u->timer, u->all->gate->base, NETWORK_WAIT_MS, on_overdue, u))
        return false;
    u->wait = wait;
    u->then = then;
    u->argument = argument;
    TAILQ_INSERT_TAIL(&u->all->waiting, u, list);
    return true;
}

// Wakes every run that waits for `wait`; each may free itself and others.
static void wake_all(struct network *n, enum wait wait)
{
    for (struct network_run *u = TAILQ_FIRST(&n->waiting); u;) {
        if (u->wait != wait) {
            u = TAILQ_NEXT(u, list);
            continue;
        }
        if (wait == WAIT_REPORT)
            give_up(u);
        else
            wake(u);
        u = TAILQ_FIRST(&n->waiting); // whatever was there may be gone
    }
}

// ---- the link -----------------------------------------------------------------------------------

static void clear_queue(struct network *n)
{
    struct message *m;
    while ((m = TAILQ_FIRST(&n->queue))) {
        TAILQ_REMOVE(&n->queue, m, list);
        free(m);
    }
    n->queue_count = n->queue_bytes = 0;
}

void network_unlink(struct network *n)
{
    if (n->readable)
        event_free(n->readable);
    if (n->writable)
        event_free(n->writable);
    n->readable = n->writable = NULL;
    fd_close(&n->sock);
    clear_queue(n);
    wake_all(n, WAIT_REPORT);
    for (size_t i = 0; i < LINK_BOX_SLOTS; i++) {
        struct network_run *u = n->slots[i].waiting;
        if (u)
            give_up(u); // settled, and not awaited yet
        n->slots[i].late = 0;
    }
}

// 1: sent, 0: later, -1: the broker is gone.
static int try_send(struct network *n, const char *text, size_t length)
{
    ssize_t r;
    do
        r = send(n->sock, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (r < 0 && errno == EINTR);
    if (r >= 0)
        return 1;
    return errno == EAGAIN || errno == ENOBUFS ? 0 : -1;
}

static void on_writable(evutil_socket_t fd, short what, void *argument)
{
    struct network *n = argument;
    struct message *m;
    (void)fd;
    (void)what;
    while ((m = TAILQ_FIRST(&n->queue))) {
        int r = try_send(n, m->text, m->length);
        if (r < 0)
            network_unlink(n);
        if (r <= 0)
            return;
        TAILQ_REMOVE(&n->queue, m, list);
        n->queue_count--;
        n->queue_bytes -= m->length;
        free(m);
    }
    (void)event_del(n->writable);
}

// SECURITY: a broker that reads nothing (taken over, or stopped) costs a bounded amount of memory
// here, and no time.
static void post(struct network *n, const char *text, size_t length)
{
    if (n->sock < 0)
        return;
    int r = TAILQ_EMPTY(&n->queue) ? try_send(n, text, length) : 0;
    if (r > 0)
        return;
    struct message *m =
        r == 0 && n->queue_count < QUEUE_MAX && n->queue_bytes + length <= QUEUE_BYTES_MAX
            ? malloc(sizeof *m + length)
            : NULL;
    if (!m) {
        log_line(LOG_ERROR, "the broker does not take messages any more");
        network_unlink(n);
        return;
    }
    m->length = length;
    memcpy(m->text, text, length);
    TAILQ_INSERT_TAIL(&n->queue, m, list);
    n->queue_count++;
    n->queue_bytes += length;
    (void)event_add(n->writable, NULL);
}

static void on_report(struct network *n, json_t *report)
{
    json_t *box = json_object_get(report, "box");
    struct slot *s = json_is_integer(box) ? slot_of(n, (uint64_t)json_integer_value(box)) : NULL;
    if (!s)
        return;
    if (s->late) {
        s->late--;
        return;
    }
    struct network_run *u = TAKE_PTR(s->waiting);
    if (s->gone)
        clear_slot(s);
    if (!u)
        return;
    u->over = true;
    if (!json_is_true(json_object_get(report, "unknown"))) {
        u->report = json_incref(report);
        u->usage = events_usage(report);
    }
    wake(u);
}

// SECURITY: the broker talks to the outside; its report is bounded by the datagram, and copied by
// name and type (events.c).
static void on_readable(evutil_socket_t fd, short what, void *argument)
{
    struct network *n = argument;
    (void)what;
    for (int i = 0; i < READ_MAX && n->sock == fd; i++) {
        ssize_t length = recv(fd, n->buffer, sizeof n->buffer, MSG_DONTWAIT | MSG_TRUNC);
        if (length < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (length <= 0) {
            network_unlink(n);
            return;
        }
        json_t *said = (size_t)length <= sizeof n->buffer
                           ? json_loadb(n->buffer, (size_t)length, 0, NULL)
                           : NULL;
        const char *op = json_string_value(json_object_get(said, "op"));
        if (op && strcmp(op, "report") == 0)
            on_report(n, said);
        json_decref(said);
    }
}

void network_link(struct gate *g, int sock)
{
    struct network *n = g->network;
    if (!n) {
        fd_close(&sock);
        return;
    }
    network_unlink(n);
    if (sock < 0)
        return;
    n->sock = sock;
    (void)fd_set_nonblock(sock, true);
    n->readable = event_new(n->gate->base, sock, EV_READ | EV_PERSIST, on_readable, n);
    n->writable = event_new(n->gate->base, sock, EV_WRITE | EV_PERSIST, on_writable, n);
    if (!n->readable || !n->writable || event_add(n->readable, NULL) < 0) {
        log_line(LOG_ERROR, "no memory for the link to the broker");
        network_unlink(n);
        return;
    }
    for (size_t i = 0; i < LINK_BOX_SLOTS && n->sock >= 0; i++)
        if (n->slots[i].grant && !n->slots[i].gone)
            post(n, n->slots[i].grant, strlen(n->slots[i].grant));
    wake_all(n, WAIT_LINK);
}

// ---- one run ------------------------------------------------------------------------------------

static json_t *set_json(json_t *set)
{
    return json_is_object(set) ? json_incref(set)
                               : json_pack("{s:[], s:[]}", "allow", "deny"); // nothing
}

struct network_run *network_run_new(struct gate *g, const char *key, const char *id,
                                    json_t *session, json_t *call)
{
    struct network_run *u = calloc(1, sizeof *u);
    if (!u)
        return NULL;
    json_t *inner = json_is_false(session) || !call ? session : call;
    *u = (struct network_run){
        .all = g->network, .rule_sets = json_array(), .shown = network_shown(g, key, inner)};
    snprintf(u->key, sizeof u->key, "%s", key);
    snprintf(u->id, sizeof u->id, "%s", id);
    int failed = !u->rule_sets || !u->shown;
    if (session)
        failed |= json_array_append_new(u->rule_sets, set_json(session));
    if (call)
        failed |= json_array_append_new(u->rule_sets, set_json(call));
    if (!failed)
        return u;
    network_run_free(u);
    return NULL;
}

void network_run_free(struct network_run *u)
{
    if (!u)
        return;
    stop_waiting(u);
    struct slot *s = u->all ? slot_of(u->all, u->box) : NULL;
    if (s && s->waiting == u)
        give_up(u);
    timer_stop(&u->timer);
    json_decref(u->rule_sets);
    json_decref(u->shown);
    json_decref(u->report);
    json_decref(u->usage);
    free(u);
}

// The slot of a box.  The box that had it before is gone.
static struct slot *take_slot(struct network *n, uint64_t box)
{
    struct slot *s = &n->slots[box % LINK_BOX_SLOTS];
    if (s->box == box)
        return s;
    if (s->waiting)
        give_up(s->waiting);
    clear_slot(s);
    s->box = box;
    return s;
}

bool network_enter(struct network_run *u, uint64_t box, void (*then)(void *argument),
                   void *argument)
{
    struct network *n = u->all;
    json_auto_t *o = json_pack("{s:s, s:I, s:s, s:s, s:O}", "op", "grant", "box", (json_int_t)box,
                               "key", u->key, "run", u->id, "rule_sets", u->rule_sets);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    if (!text || strlen(text) > BROKER_DATAGRAM) {
        free(text);
        return false; // without a grant nothing is allowed
    }
    struct slot *s = take_slot(n, box);
    u->box = box;
    free(s->grant);
    s->grant = text;
    if (n->sock >= 0) {
        post(n, text, strlen(text));
        return false;
    }
    return wait_for(u, WAIT_LINK, then, argument);
}

void network_settle(struct network_run *u)
{
    char text[80];
    struct slot *s = u && u->box ? slot_of(u->all, u->box) : NULL;
    if (!s || u->settled)
        return;
    u->settled = true;
    if (u->all->sock < 0) {
        u->over = true;
        return;
    }
    if (s->waiting)
        give_up(s->waiting);
    s->waiting = u;
    snprintf(text, sizeof text, "{\"op\":\"settle\",\"box\":%llu}", (unsigned long long)u->box);
    post(u->all, text, strlen(text));
}

bool network_await(struct network_run *u, void (*then)(void *argument), void *argument)
{
    if (!u)
        return false;
    stop_waiting(u);
    network_settle(u);
    return u->settled && !u->over && wait_for(u, WAIT_REPORT, then, argument);
}

json_t *network_run_shown(const struct network_run *u)
{
    return u->shown;
}

json_t *network_run_usage(const struct network_run *u)
{
    return u->usage;
}

json_t *network_run_events(const struct network_run *u)
{
    return json_object_get(u->report, "events");
}

uint64_t network_run_omitted(const struct network_run *u)
{
    json_int_t n = json_integer_value(json_object_get(u->report, "events_left_out"));
    return n > 0 ? (uint64_t)n : 0;
}

void network_forget(struct gate *g, uint64_t box)
{
    struct slot *s = g->network ? slot_of(g->network, box) : NULL;
    if (!s)
        return;
    if (s->waiting)
        s->gone = true;
    else
        clear_slot(s);
}
