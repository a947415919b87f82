// SPDX-License-Identifier: Apache-2.0
//
// relay: see relay.h.
//
// A chunk is read into the broker's one buffer and written from there.  Bytes that the other side
// has no room for go into a buffer of the connection's own, and reading stops until that is empty.
// From then on this direction reads into its own buffer, which saves copies, until it is idle.

#include "broker/relay.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "broker/conn.h"
#include "broker/explain.h"
#include "broker/inspect.h"

enum {
    // SECURITY: what a box can pin in the kernel.  The window bounds what the far side may send
    // ahead, and the mark bounds what waits for a reader that does not read; both leave the kernel
    // its own tuning.
    WINDOW = 1024 * 1024,
    // A box with more connections than these gets less for each further one: else a few boxes that
    // do not read would use up the TCP memory of the host.
    WINDOWS_FULL = 4,
    WINDOW_LEAST = 64 * 1024,
};

// ---- buffers ------------------------------------------------------------------------------------

static uint8_t *buffer_take(struct broker *b)
{
    return b->pool_count ? b->pool[--b->pool_count] : malloc(RELAY_BUFFER);
}

static void buffer_give(struct broker *b, uint8_t *buffer)
{
    if (buffer && b->pool_count < RELAY_POOL)
        b->pool[b->pool_count++] = buffer;
    else
        free(buffer);
}

static void flow_empty(struct broker *b, struct flow *f)
{
    buffer_give(b, f->buffer);
    f->buffer = NULL;
    f->start = f->cleared = f->end = 0;
}

void relay_drop(struct conn *c)
{
    for (enum way w = WAY_UP; w < WAYS; w++)
        flow_empty(c->box->broker, &c->flows[w]);
}

// ---- one direction ------------------------------------------------------------------------------

enum step { STEP_ON, STEP_WAIT, STEP_CLOSED };

static enum step fail(struct conn *c, int errnum)
{
    conn_finish(c, errnum);
    return STEP_CLOSED;
}

// Writes; *ret_n is how much went.
static enum step put(struct conn *c, enum way w, const uint8_t *data, size_t length, size_t *ret_n)
{
    struct end *to = &c->ends[w == WAY_UP ? SIDE_FAR : SIDE_BOX];
    *ret_n = 0;
    if (!length)
        return STEP_ON;
    ssize_t n = send(to->fd, data, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return fail(c, errno == EPIPE ? ECONNRESET : errno);
    *ret_n = n < 0 ? 0 : (size_t)n;
    if (*ret_n < length) {
        to->writable = false; // the next edge says when it is writable again
        return STEP_WAIT;
    }
    return STEP_ON;
}

// Writes the buffered bytes that may go on.
static enum step flush(struct conn *c, enum way w)
{
    struct flow *f = &c->flows[w];
    size_t n;
    if (f->start == f->cleared)
        return STEP_ON;
    if (!c->ends[w == WAY_UP ? SIDE_FAR : SIDE_BOX].writable)
        return STEP_WAIT;
    enum step s = put(c, w, f->buffer + f->start, f->cleared - f->start, &n);
    if (s == STEP_CLOSED)
        return s;
    f->start += n;
    if (f->start == f->end)
        f->start = f->cleared = f->end = 0; // the buffer stays for the next chunk
    return s;
}

// Keeps [used, length) of the shared buffer, of which [used, cleared) may go on.
static enum step hold(struct conn *c, struct flow *f, size_t used, size_t cleared, size_t length)
{
    struct broker *b = c->box->broker;
    f->buffer = buffer_take(b);
    if (!f->buffer)
        return fail(c, ENOMEM);
    memcpy(f->buffer, b->buffer + used, length - used);
    f->start = 0;
    f->cleared = cleared - used;
    f->end = length - used;
    return STEP_ON;
}

// How many of the bytes that were read may go on: all, except those of a box that are not judged
// yet.
static ssize_t clear(struct conn *c, enum way w, const uint8_t *data, size_t length)
{
    if (w == WAY_DOWN) {
        inspect_down(c, data, length);
        return (ssize_t)length;
    }
    return c->inspect.state == INSPECT_PASS ? (ssize_t)length : inspect_up(c, data, length);
}

static enum step count(struct conn *c, enum way w, size_t n)
{
    const char *over = quota_take_bytes(&c->box->quota, w == WAY_UP ? n : 0, w == WAY_DOWN ? n : 0);
    if (over) {
        struct refusal f;
        explain_quota(c->host, &c->address, c->port, over, &f);
        conn_refuse(c, &f);
        return STEP_CLOSED;
    }
    c->bytes[w] += n;
    return STEP_ON;
}

// Bytes were read after the buffered ones.
static enum step took(struct conn *c, enum way w, size_t n)
{
    struct flow *f = &c->flows[w];
    uint8_t *base = f->buffer ? f->buffer : c->box->broker->buffer;
    if (count(c, w, n) == STEP_CLOSED)
        return STEP_CLOSED;
    f->end += n;
    ssize_t more = clear(c, w, base + f->cleared, f->end - f->cleared);
    if (more < 0)
        return STEP_CLOSED;
    f->cleared += (size_t)more;
    if (f->buffer)
        return flush(c, w);
    size_t length = f->end, cleared = f->cleared, used = 0;
    f->cleared = f->end = 0;
    enum step s = put(c, w, base, cleared, &used);
    if (s != STEP_CLOSED && used < length && hold(c, f, used, cleared, length) == STEP_CLOSED)
        return STEP_CLOSED;
    return s;
}

// The far side has answered: deferred bytes may go on now.
static enum step look_again(struct conn *c)
{
    struct flow *f = &c->flows[WAY_UP];
    c->inspect.again = false;
    if (f->end == f->cleared)
        return STEP_ON;
    ssize_t more = clear(c, WAY_UP, f->buffer + f->cleared, f->end - f->cleared);
    if (more < 0)
        return STEP_CLOSED;
    f->cleared += (size_t)more;
    return STEP_ON;
}

static enum step get(struct conn *c, enum way w, size_t *budget)
{
    struct flow *f = &c->flows[w];
    struct end *from = &c->ends[w == WAY_UP ? SIDE_BOX : SIDE_FAR];
    if (f->ended || !from->readable || (w == WAY_UP && c->inspect.state == INSPECT_UPGRADE))
        return STEP_WAIT;
    if (f->buffer && f->start) { // only unjudged bytes are left: move them to the front
        memmove(f->buffer, f->buffer + f->start, f->end - f->start);
        f->end -= f->start;
        f->cleared -= f->start;
        f->start = 0;
    }
    uint8_t *base = f->buffer ? f->buffer : c->box->broker->buffer;
    size_t room = RELAY_BUFFER - f->end;
    ssize_t n = recv(from->fd, base + f->end, room, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        from->readable = false;
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? STEP_WAIT : fail(c, errno);
    if (n == 0) {
        f->ended = true;
        return w == WAY_UP && inspect_end(c) < 0 ? STEP_CLOSED : STEP_ON;
    }
    *budget -= (size_t)n < *budget ? (size_t)n : *budget;
    return took(c, w, (size_t)n);
}

// The end of one direction shuts down that direction only.
static enum step pass_end(struct conn *c, enum way w)
{
    struct flow *f = &c->flows[w];
    struct end *to = &c->ends[w == WAY_UP ? SIDE_FAR : SIDE_BOX];
    if (!f->ended || f->shut || f->start != f->end)
        return STEP_ON;
    f->shut = true;
    (void)shutdown(to->fd, SHUT_WR);
    if (c->flows[WAY_UP].shut && c->flows[WAY_DOWN].shut) {
        conn_finish(c, 0);
        return STEP_CLOSED;
    }
    return STEP_ON;
}

static enum step pump(struct conn *c, enum way w, size_t *budget)
{
    struct flow *f = &c->flows[w];
    if (w == WAY_UP && c->inspect.again && look_again(c) == STEP_CLOSED)
        return STEP_CLOSED;
    for (;;) {
        enum step s = flush(c, w);
        if (s == STEP_ON)
            s = pass_end(c, w);
        if (s == STEP_ON && *budget)
            s = get(c, w, budget);
        else if (s == STEP_ON)
            s = STEP_WAIT;
        if (s == STEP_ON)
            continue;
        if (s == STEP_WAIT && f->buffer && f->start == f->end)
            flow_empty(c->box->broker, f); // idle: another connection may need the buffer
        return s;
    }
}

// Could it go on at once?
static bool has_more(const struct conn *c)
{
    for (enum way w = WAY_UP; w < WAYS; w++) {
        const struct flow *f = &c->flows[w];
        const struct end *from = &c->ends[w == WAY_UP ? SIDE_BOX : SIDE_FAR];
        const struct end *to = &c->ends[w == WAY_UP ? SIDE_FAR : SIDE_BOX];
        bool full = f->start < f->cleared;
        bool stopped = w == WAY_UP && c->inspect.state == INSPECT_UPGRADE;
        if (full ? to->writable : from->readable && !f->ended && !stopped)
            return true;
    }
    return false;
}

static bool has_edges(const struct conn *c)
{
    return event_base_get_features(c->box->broker->base) & EV_FEATURE_ET;
}

// poll() has no edges (base/loop.h): wait for an end while it is known to be not readable or not
// writable.
static void arm(struct conn *c, enum side s)
{
    struct end *e = &c->ends[s];
    short want = (short)((e->readable ? 0 : EV_READ) | (e->writable ? 0 : EV_WRITE));
    if (!e->event || want == e->armed || has_edges(c))
        return;
    (void)event_del(e->event);
    (void)event_assign(e->event, c->box->broker->base, e->fd, (short)(want | EV_PERSIST),
                       event_get_callback(e->event), c);
    e->armed = want;
    if (want && event_add(e->event, NULL) < 0)
        conn_finish(c, ENOMEM);
}

static void arm_both(struct conn *c)
{
    for (enum side s = SIDE_BOX; s < SIDES && !c->is_closed; s++)
        arm(c, s);
}

static size_t pump_both(struct conn *c)
{
    size_t budget = RELAY_TURN;
    c->active_ms = clock_ms();
    // Down first: an answer may release bytes that wait to go up.
    if (pump(c, WAY_DOWN, &budget) != STEP_CLOSED && pump(c, WAY_UP, &budget) != STEP_CLOSED) {
        arm_both(c);
        if (has_more(c))
            relay_wake(c);
    }
    return RELAY_TURN - budget;
}

void relay_pump(struct conn *c)
{
    (void)pump_both(c);
}

// ---- turns --------------------------------------------------------------------------------------

void relay_wake(struct conn *c)
{
    struct netbox *b = c->box;
    if (c->is_closed)
        return;
    if (!c->is_ready)
        TAILQ_INSERT_TAIL(&b->ready_conns, c, ready);
    c->is_ready = true;
    if (!b->is_ready)
        TAILQ_INSERT_TAIL(&b->broker->ready, b, ready);
    b->is_ready = true;
}

static void box_turn(struct netbox *b)
{
    size_t carried = 0;
    struct conn *c;
    for (int i = 0; i < RELAY_TURN_STEPS && carried < RELAY_TURN; i++) {
        c = TAILQ_FIRST(&b->ready_conns);
        if (!c)
            return;
        TAILQ_REMOVE(&b->ready_conns, c, ready);
        c->is_ready = false;
        carried += pump_both(c);
    }
}

bool relay_turn(struct broker *b)
{
    struct netbox *x;
    size_t boxes = 0;
    TAILQ_FOREACH (x, &b->ready, ready) {
        boxes++;
    }
    while (boxes-- && (x = TAILQ_FIRST(&b->ready))) {
        TAILQ_REMOVE(&b->ready, x, ready);
        x->is_ready = false;
        box_turn(x);
        if (!TAILQ_EMPTY(&x->ready_conns) && !x->is_ready && !x->is_gone) {
            TAILQ_INSERT_TAIL(&b->ready, x, ready);
            x->is_ready = true;
        }
    }
    return !TAILQ_EMPTY(&b->ready);
}

// ---- begin --------------------------------------------------------------------------------------

static void on_end(struct conn *c, enum side s, short what)
{
    struct end *e = &c->ends[s];
    if (what & EV_READ)
        e->readable = true;
    if (what & EV_WRITE)
        e->writable = true;
    arm(c, s);
    relay_wake(c);
}

static void on_box(evutil_socket_t fd, short what, void *argument)
{
    (void)fd;
    on_end(argument, SIDE_BOX, what);
}

static void on_far(evutil_socket_t fd, short what, void *argument)
{
    (void)fd;
    on_end(argument, SIDE_FAR, what);
}

void relay_open(struct conn *c)
{
    static void (*const calls[SIDES])(evutil_socket_t, short, void *) = {on_box, on_far};
    uint64_t sockets = c->box->quota.use.sockets;
    uint64_t share = sockets > WINDOWS_FULL ? sockets : WINDOWS_FULL;
    int window = (int)(WINDOW * (uint64_t)WINDOWS_FULL / share), unsent;
    if (window < WINDOW_LEAST)
        window = WINDOW_LEAST;
    unsent = window;
    c->state = CONN_OPEN;
    c->active_ms = clock_ms();
    inspect_begin(c);
    for (enum side s = SIDE_BOX; s < SIDES; s++) {
        struct end *e = &c->ends[s];
        (void)setsockopt(e->fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &window, sizeof window);
        (void)setsockopt(e->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
        e->readable = e->writable = true; // to be tried
        e->event =
            event_new(c->box->broker->base, e->fd,
                      has_edges(c) ? EV_READ | EV_WRITE | EV_ET | EV_PERSIST : 0, calls[s], c);
        if (!e->event || (has_edges(c) && event_add(e->event, NULL) < 0)) {
            conn_finish(c, ENOMEM);
            return;
        }
    }
    relay_wake(c);
}
