// SPDX-License-Identifier: Apache-2.0
//
// timer: a call that comes once, after some time, on the event loop.  It is part of its owner's
// struct, which is zeroed at first; the owner stops it before the struct goes.

#ifndef CONSTRICTOR_BASE_TIMER_H
#define CONSTRICTOR_BASE_TIMER_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer {
    struct event *event; // NULL: not set
    void (*call)(void *argument);
    void *argument;
};

static inline void timer_stop(struct timer *t)
{
    if (t->event)
        event_free(t->event);
    t->event = NULL;
}

static inline void timer_fire(evutil_socket_t fd, short what, void *timer)
{
    struct timer *t = timer;
    (void)fd;
    (void)what;
    timer_stop(t);
    t->call(t->argument); // may set the timer again, or free its owner
}

static inline bool timer_is_set(const struct timer *t)
{
    return t->event;
}

// Calls after `ms`, with 0 from the next turn of the loop on; a call that was awaited is dropped.
// False: memory is out, and no call comes.
static inline bool timer_set(struct timer *t, struct event_base *base, uint64_t ms,
                             void (*call)(void *argument), void *argument)
{
    struct timeval when = {.tv_sec = (time_t)(ms / 1000),
                           .tv_usec = (suseconds_t)(ms % 1000) * 1000};
    timer_stop(t);
    t->call = call;
    t->argument = argument;
    t->event = evtimer_new(base, timer_fire, t);
    if (t->event && event_add(t->event, &when) == 0)
        return true;
    timer_stop(t);
    return false;
}

#endif
