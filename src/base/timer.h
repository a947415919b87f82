// SPDX-License-Identifier: Apache-2.0
//
// timer: a call that comes once, after some time, on the event loop.  It is part of its owner's
// struct, which is zeroed at first and stays at its address while the timer is set; the owner stops
// it before the struct goes.

#ifndef CONSTRICTOR_BASE_TIMER_H
#define CONSTRICTOR_BASE_TIMER_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer {
    struct event event; // here and not on the heap: to set a timer anew takes no memory
    bool is_set;
    void (*call)(void *argument);
    void *argument;
};

static inline void timer_stop(struct timer *t)
{
    if (t->is_set)
        (void)event_del(&t->event);
    t->is_set = false;
}

static inline void timer_fire(evutil_socket_t fd, short what, void *timer)
{
    struct timer *t = timer;
    (void)fd;
    (void)what;
    t->is_set = false;
    t->call(t->argument); // may set the timer again, or free its owner
}

static inline bool timer_is_set(const struct timer *t)
{
    return t->is_set;
}

// Calls `call` after `ms`, 0: in the next turn of the loop.  It replaces what the timer was set to
// before.  False: memory is out, and no call comes; a timer that is set already never fails.
static inline bool timer_set(struct timer *t, struct event_base *base, uint64_t ms,
                             void (*call)(void *argument), void *argument)
{
    struct timeval when = {.tv_sec = (time_t)(ms / 1000),
                           .tv_usec = (suseconds_t)(ms % 1000) * 1000};
    timer_stop(t);
    t->call = call;
    t->argument = argument;
    t->is_set =
        evtimer_assign(&t->event, base, timer_fire, t) == 0 && event_add(&t->event, &when) == 0;
    return t->is_set;
}

#endif
