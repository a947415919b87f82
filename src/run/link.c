// SPDX-License-Identifier: Apache-2.0
//
// link: see link.h.  Both tables are indexed by the low part of a number and checked against the
// whole of it, so that an answer for a run that is gone is dropped.

#include "run/link.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "run/live.h"

static void lost(struct link *l)
{
    if (l->lost)
        return;
    l->lost = true;
    (void)event_del(l->event);
    if (l->on_lost)
        l->on_lost(l->lost_argument);
    else
        event_base_loopbreak(l->base);
}

static void settle(struct link *l)
{
    l->unwanted--;
    if (l->on_settled)
        l->on_settled(l->settled_argument);
}

void link_give_back(struct link *l, uint64_t box)
{
    size_t i = box % LINK_BOX_SLOTS;
    if (!l->by_box[i].unwanted)
        l->unwanted++; // it counts until it is gone
    l->by_box[i].box = box;
    l->by_box[i].live = NULL;
    l->by_box[i].unwanted = true;
    (void)link_release(l, box, END_CANCELLED, true);
}

void link_hold(struct link *l, struct live_box *b)
{
    size_t i = b->id % LINK_BOX_SLOTS;
    l->by_box[i].box = b->id;
    l->by_box[i].live = b;
    b->told = l->by_box[i].told;
}

void link_let_go(struct link *l, uint64_t box)
{
    size_t i = box % LINK_BOX_SLOTS;
    if (box && l->by_box[i].box == box)
        l->by_box[i].live = NULL;
}

// Takes the ticket out of the table.  NULL: no request waits for it, or it is unknown.
static struct link_request *take_ticket(struct link *l, uint64_t ticket, bool *ret_unwanted)
{
    size_t i = ticket % LINK_RUNS_MAX;
    *ret_unwanted = false;
    if (!ticket || l->by_ticket[i].ticket != ticket)
        return NULL;
    struct link_request *o = l->by_ticket[i].request;
    *ret_unwanted = !o;
    l->by_ticket[i].ticket = 0;
    l->by_ticket[i].request = NULL;
    l->free[l->free_count++] = (uint16_t)i;
    return o;
}

static void on_box(struct link *l, const struct wire_box *m, const int *fds, size_t count)
{
    bool whole = m->box && count == 1 + (size_t)m->meter_fds, unwanted;
    l->by_box[m->box % LINK_BOX_SLOTS].told = m->told;
    struct link_request *o = take_ticket(l, m->ticket, &unwanted);
    if (o) {
        o->ticket = 0;
        o->on_box(o, m, whole ? fds : NULL);
        if (whole)
            return;
    }
    for (size_t k = 0; k < count; k++)
        (void)close(fds[k]);
    if (m->box)
        link_give_back(l, m->box); // cancelled while the keeper made it
    if (unwanted)
        settle(l); // from here on its box counts, if there is one
}

static struct live_box *find_live(const struct link *l, uint64_t box)
{
    size_t i = box % LINK_BOX_SLOTS;
    return box && l->by_box[i].box == box ? l->by_box[i].live : NULL;
}

static void on_ended(struct link *l, const struct wire_ended *m)
{
    size_t i = m->box % LINK_BOX_SLOTS;
    struct live_box *b = find_live(l, m->box);
    bool unwanted = l->by_box[i].box == m->box && l->by_box[i].unwanted;
    if (l->by_box[i].box == m->box) {
        l->by_box[i].live = NULL;
        l->by_box[i].unwanted = false;
    }
    if (b) {
        b->has_ended = true;
        if (b->user && b->user->on_ended)
            b->user->on_ended(b, m);
    }
    if (unwanted)
        settle(l);
}

static void on_measured(struct link *l, const struct wire_measured *m)
{
    struct live_box *b = find_live(l, m->box);
    if (b && b->late)
        b->late = false;
    else if (b && b->user && b->user->on_measured)
        b->user->on_measured(b, m);
}

static void on_denied(struct link *l, const struct wire_denied *m)
{
    struct live_box *b = find_live(l, m->box);
    if (b && !b->late)
        denials_note(&b->denials, m);
}

static void on_adopt(struct link *l, const struct wire_adopt *m, const int *fds, size_t count)
{
    bool whole = m->box && count == 1;
    l->by_box[m->box % LINK_BOX_SLOTS].told = m->told;
    if (l->on_adopt && (whole || !m->box)) {
        l->on_adopt(m, whole ? fds : NULL, l->adopt_argument);
        if (whole)
            return;
    }
    for (size_t k = 0; k < count; k++)
        (void)close(fds[k]);
    if (m->box)
        link_give_back(l, m->box);
}

static void on_readable(evutil_socket_t sock, short what, void *argument)
{
    struct link *l = argument;
    (void)what;
    for (int i = 0; i < 64 && !l->lost; i++) {
        union wire_message m;
        int fds[FD_PASS_MAX];
        size_t count = 0;
        int r = wire_recv(sock, &m, fds, 1 + WIRE_METER_FDS, &count);
        if (r == -EAGAIN)
            return;
        if (r <= 0) {
            lost(l);
            return;
        }
        if (m.h.type == WIRE_BOX) {
            on_box(l, &m.box, fds, count);
            continue;
        }
        if (m.h.type == WIRE_ADOPT) {
            on_adopt(l, &m.adopt, fds, count);
            continue;
        }
        if (l->on_news && (m.h.type == WIRE_INTERPRETER || m.h.type == WIRE_ZYGOTE_READY ||
                           m.h.type == WIRE_FAILED || m.h.type == WIRE_FILES ||
                           m.h.type == WIRE_NET_LINK || m.h.type == WIRE_PORTER_LINK))
            l->on_news(&m, fds, count, l->news_argument);
        for (size_t k = 0; k < count; k++)
            (void)close(fds[k]); // no other message hands descriptors over
        if (m.h.type == WIRE_ENDED)
            on_ended(l, &m.ended);
        else if (m.h.type == WIRE_MEASURED)
            on_measured(l, &m.measured);
        else if (m.h.type == WIRE_DENIED)
            on_denied(l, &m.denied);
        else if (m.h.type == WIRE_STATUS_REPLY && l->on_status)
            l->on_status(&m.status_reply, l->status_argument);
    }
}

void link_read(struct link *l)
{
    on_readable(l->sock, EV_READ, l);
}

int link_open(struct link *l, struct event_base *base, int sock, struct err *e)
{
    *l = (struct link){.base = base, .sock = sock};
    for (int i = LINK_RUNS_MAX - 1; i >= 0; i--)
        l->free[l->free_count++] = (uint16_t)i;
    (void)fd_set_nonblock(sock, true);
    l->event = event_new(base, sock, EV_READ | EV_PERSIST, on_readable, l);
    // Before the sockets of boxes: the keeper reports a denied call before the box goes on, and a
    // run must not be done without it.
    if (l->event)
        (void)event_priority_set(l->event, 0);
    if (!l->event || event_add(l->event, NULL) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "watch the keeper's socket");
    return 0;
}

void link_close(struct link *l)
{
    if (l->event)
        event_free(l->event);
    l->event = NULL;
    fd_close(&l->sock);
}

int link_acquire(struct link *l, struct link_request *o, struct wire_acquire *m, struct err *e)
{
    if (l->lost)
        return err_set(e, ERR_INTERNAL, 0, NULL, "the keeper is gone");
    if (!l->free_count)
        return err_set(e, ERR_BUSY, 0, "send fewer runs at once", "%d runs wait for a box already",
                       LINK_RUNS_MAX);
    size_t i = l->free[l->free_count - 1];
    m->ticket = ++l->generation * LINK_RUNS_MAX + i;
    union wire_message message; // not {...}, which would clear 16 KiB
    message.acquire = *m;
    int n = wire_send(l->sock, WIRE_ACQUIRE, &message, NULL, 0);
    if (n < 0)
        return err_set(e, n == -EAGAIN ? ERR_BUSY : ERR_INTERNAL, -n, NULL,
                       "ask the keeper for a box");
    l->free_count--;
    l->by_ticket[i].ticket = m->ticket;
    l->by_ticket[i].request = o;
    o->ticket = m->ticket;
    return 0;
}

// The keeper always reads, so a full socket lasts microseconds; these messages must not be lost.
static int send_surely(struct link *l, enum wire_type type, union wire_message *m)
{
    int r;
    while ((r = wire_send(l->sock, type, m, NULL, 0)) == -EAGAIN)
        (void)usleep(100);
    return r;
}

int link_release(struct link *l, uint64_t box, enum wire_end end, bool wait_reaped)
{
    union wire_message m;
    m.release = (struct wire_release){.box = box, .end = end, .wait_reaped = wait_reaped};
    return send_surely(l, WIRE_RELEASE, &m);
}

int link_interrupt(struct link *l, uint64_t box)
{
    union wire_message m = {.interrupt = {.box = box}};
    return send_surely(l, WIRE_INTERRUPT, &m);
}

int link_status(struct link *l)
{
    union wire_message m = {0};
    return send_surely(l, WIRE_STATUS, &m);
}

int link_measure(struct link *l, uint64_t box, uint64_t cpu_ms, enum wire_measure_how how)
{
    union wire_message m;
    m.measure = (struct wire_measure){.box = box, .cpu_ms = cpu_ms, .how = how};
    return send_surely(l, WIRE_MEASURE, &m);
}

void link_cancel(struct link *l, struct link_request *o)
{
    size_t i = o->ticket % LINK_RUNS_MAX;
    if (o->ticket && l->by_ticket[i].ticket == o->ticket && l->by_ticket[i].request) {
        union wire_message m = {.cancel = {.ticket = o->ticket}};
        l->by_ticket[i].request = NULL;
        l->unwanted++;
        if (!l->lost)
            (void)send_surely(l, WIRE_CANCEL, &m);
    }
    o->ticket = 0;
}
