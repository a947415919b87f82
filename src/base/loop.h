// SPDX-License-Identifier: Apache-2.0
//
// loop: the event loop of a process that serves boxes.

#ifndef CONSTRICTOR_BASE_LOOP_H
#define CONSTRICTOR_BASE_LOOP_H

#include <stdbool.h>
#include <stddef.h>

#include <event2/event.h>

// SECURITY: the kernel counts epoll watches per user.  A process that has the uid of boxes waits
// with poll(), or boxes could take every watch and it could serve no new connection.  NULL: out of
// memory.
static inline struct event_base *loop_new(bool shares_uid)
{
    struct event_config *c = event_config_new();
    struct event_base *base = NULL;
    if (c && (!shares_uid || event_config_avoid_method(c, "epoll") == 0))
        base = event_base_new_with_config(c);
    if (c)
        event_config_free(c);
    return base;
}

#endif
