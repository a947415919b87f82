// SPDX-License-Identifier: Apache-2.0
//
// tick: the keeper checks what its boxes use, periodically and on request: part of stock.h.

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/sys.h"
#include "keeper/backend.h"
#include "keeper/denied.h"
#include "keeper/stock.h"

enum {
    PROCESS_HITS_KILL = 256, // refused forks that make it a fork bomb
    TICK_MS = 20,            // how often limits are checked
    TICK_WATCH_MS = 5,       // without cgroups: how often memory is summed
    TICK_MS_MAX = 250,
    TICK_IDLE_MS =
        250,           // when all boxes are idle: locks that a thread of one takes are seen in time
    IDLE_MS = 1000,    // how often idle boxes are looked at ...
    IDLE_LOOKS = 64,   // ... and how many of them each time
    SOCKETS_SHARE = 2, // half of a box's memory may be sockets, beside the rest
    SOCKETS_LATE_MS = 100, // for a box by itself
    MAKING_DEADLINE_MS = 30000,
};

// Code in a session gets a chance to stop and keep its state; an idle session has nothing to stop.
static void cpu_is_over(struct stock *s, struct box *b)
{
    int64_t now_ms = clock_ms();
    if (!b->terms.keep || b->state == BOX_IDLE ||
        (b->warned_ms && now_ms - b->warned_ms >= b->terms.grace_ms)) {
        stock_end(s, b, END_CPU);
    } else if (!b->warned_ms) {
        b->warned_ms = now_ms;
        backend_of(b->kind)->interrupt(b);
    }
}

static uint64_t cpu_limit_ms(const struct box *b)
{
    return b->wait_cpu_ms ? b->wait_cpu_ms : b->terms.cpu_ms;
}

// v1 charges TCP and UDP apart from the memory limit, and its own limit for them is soft.
static bool has_too_many_sockets(const struct stock *s, const struct box *b)
{
    const struct cgroup_driver *driver = b->cg.root->driver;
    return driver->socket_bytes && box_has_inet(stock_walls(s, b)) &&
           driver->socket_bytes(&b->cg) > b->limits.memory_bytes / SOCKETS_SHARE;
}

static void check_limits(struct stock *s, struct box *b)
{
    struct wire_usage u;
    cgroup_usage(&b->cg, &u);
    uint64_t cpu_us = u.cpu_user_us == UINT64_MAX ? 0 : u.cpu_user_us + u.cpu_system_us;
    uint64_t before_us = b->cpu_user_us + b->cpu_system_us;
    if (u.memory_hits || has_too_many_sockets(s, b))
        stock_end(s, b, END_MEMORY);
    else if (u.process_hits >= b->process_hits + PROCESS_HITS_KILL)
        stock_end(s, b, END_PROCESSES);
    // SECURITY: a package that was imported ahead could burn a core while its box waits.  Without a
    // cgroup the time of a child that is not waited for is lost, so such a box may have no child.
    else if (b->wait_cpu_ms && b->cg.strays)
        stock_end(s, b, END_PROCESSES);
    else if (cpu_us > before_us && cpu_us - before_us > cpu_limit_ms(b) * 1000)
        cpu_is_over(s, b);
}

// ---- what the sampler sees ----------------------------------------------------------------------

uint32_t stock_looks_for(const struct stock *s, const struct box *b)
{
    uint32_t look = b->cg.root->look;
    // A keeper of one run has to start the sampler, which is 6 % of the CPU time of a short run.
    // SECURITY: so its box can fill connections for that long before they are counted, by some
    // 30 MB.  On cgroup v1 and v2 this is about those that it does not accept.
    bool late = s->stemless && clock_ms() - b->since_ms < SOCKETS_LATE_MS;
    return box_has_inet(stock_walls(s, b)) && !late ? look : look & ~(uint32_t)SAMPLE_SOCKETS;
}

void stock_want_look(struct stock *s, struct box *b)
{
    if (!stock_looks_for(s, b) || b->wants_look)
        return;
    b->wants_look = true;
    s->looks++;
}

struct box *stock_next_look(struct stock *s)
{
    for (int i = 0; s->looks && i < SLOTS; i++) {
        s->look_slot = (s->look_slot + 1) % SLOTS;
        struct box *b = s->by_slot[s->look_slot];
        if (!b || !b->wants_look)
            continue;
        b->wants_look = false;
        s->looks--;
        return b;
    }
    return NULL;
}

void stock_sampled(struct stock *s, const struct wire_sampled *m)
{
    struct box *b = stock_find(s, m->box);
    if (!b)
        return;
    if (b->cg.root->driver->sampled)
        b->cg.root->driver->sampled(&b->cg, m);
    if (!stock_is_handed_out(b))
        return;
    if (m->socket_bytes > b->limits.memory_bytes / SOCKETS_SHARE)
        stock_end(s, b, END_MEMORY);
    else
        check_limits(s, b);
}

static void check(struct stock *s, struct box *b)
{
    check_limits(s, b);
    if (stock_is_handed_out(b))
        stock_want_look(s, b);
}

// Threads that go on between two runs are bounded too, but a thousand idle sessions must cost
// nothing: so check a few at a time, in turn.
static void check_idle(struct stock *s)
{
    for (unsigned n = s->counts[BOX_IDLE] < IDLE_LOOKS ? s->counts[BOX_IDLE] : IDLE_LOOKS; n; n--) {
        struct box *b = TAILQ_FIRST(&s->lists[BOX_IDLE]);
        stock_move(s, b, BOX_IDLE); // to the end
        check(s, b);
    }
}

// A box that is not ready after so long never will be.  The list is sorted by age.
static void check_making(struct stock *s)
{
    struct box *b = TAILQ_FIRST(&s->lists[BOX_MAKING]);
    struct err e;
    if (!b || clock_ms() - b->since_ms < MAKING_DEADLINE_MS)
        return;
    err_set(&e, ERR_BOX_SETUP, ETIMEDOUT, "the machine may be overloaded: run it again",
            "a box was not ready in %d s", MAKING_DEADLINE_MS / 1000);
    stock_fail(s, b, &e);
}

void stock_retry_groups(struct stock *s)
{
    for (struct box *b = TAILQ_FIRST(&s->busy_groups), *next; b; b = next) {
        next = TAILQ_NEXT(b, list);
        if (cgroup_destroy(&b->cg) == 0) {
            TAILQ_REMOVE(&s->busy_groups, b, list);
            free(b);
        }
    }
}

int stock_tick_ms(const struct stock *s)
{
    bool busy = !TAILQ_EMPTY(&s->lists[BOX_LIVE]) || !TAILQ_EMPTY(&s->busy_groups) ||
                !TAILQ_EMPTY(&s->lists[BOX_MAKING]);
    if (!busy)
        return !TAILQ_EMPTY(&s->resting)                               ? DENIED_WINDOW_MS
               : TAILQ_EMPTY(&s->lists[BOX_IDLE]) && !s->removal_count ? 0
                                                                       : TICK_IDLE_MS;
    // With many boxes a check costs more, so check less often.
    int ms = (s->caps->cgroups.driver == &watch_driver ? TICK_WATCH_MS : TICK_MS) +
             (int)s->counts[BOX_LIVE] / 4;
    return ms < TICK_MS_MAX ? ms : TICK_MS_MAX;
}

void stock_tick(struct stock *s)
{
    denied_resume(s);
    for (struct box *b = TAILQ_FIRST(&s->lists[BOX_LIVE]), *next; b; b = next) {
        next = TAILQ_NEXT(b, list);
        check(s, b);
    }
    if (clock_ms() >= s->idle_look_ms) {
        s->idle_look_ms = clock_ms() + IDLE_MS;
        check_idle(s);
    }
    check_making(s);
    stock_retry_groups(s);
    stock_broker_remove_due(s, clock_ms());
}

void stock_measure(struct stock *s, const struct wire_measure *m)
{
    struct box *b = stock_find(s, m->box);
    union wire_message reply;
    if (!b || !b->terms.keep || (b->state != BOX_LIVE && b->state != BOX_IDLE))
        return; // the box is gone, and its ENDED is on the way
    struct wire_usage all;
    if (m->how == MEASURE_TAKEN) {
        b->wait_cpu_ms = 0;
        return;
    }
    stock_look(b, &all);
    reply.measured =
        (struct wire_measured){.box = b->id, .end = b->warned_ms ? END_CPU : END_OWN, .usage = all};
    stock_subtract_earlier(b, &reply.measured.usage);
    bool waits_already = m->how == MEASURE_WAIT && b->wait_cpu_ms;
    b->wait_cpu_ms = m->how == MEASURE_WAIT ? m->cpu_ms : 0;
    if (all.cpu_user_us != UINT64_MAX && !waits_already) { // from here on usage is the next run's
        b->cpu_user_us = all.cpu_user_us;
        b->cpu_system_us = all.cpu_system_us;
        b->process_hits = all.process_hits;
    }
    if (m->cpu_ms && m->how != MEASURE_WAIT) { // a run begins
        b->terms.cpu_ms = m->cpu_ms;
        if (m->how == MEASURE_ONCE)
            stock_unkeep(b);
        if (b->state == BOX_IDLE)
            stock_move(s, b, BOX_LIVE);
        return;
    }
    b->warned_ms = 0;
    stock_move(s, b, BOX_IDLE);
    denied_report(s, b);
    stock_send(s, WIRE_MEASURED, &reply, NULL, 0);
}
