// SPDX-License-Identifier: Apache-2.0
//
// dial: a TCP connection to the first of some addresses that answers (a small RFC 8305).  Called by
// conn.c with judged addresses; it dials no others.

#ifndef CONSTRICTOR_BROKER_DIAL_H
#define CONSTRICTOR_BROKER_DIAL_H

#include <event2/event.h>
#include <stddef.h>
#include <stdint.h>

#include "net/address.h"

enum {
    DIAL_MAX = 16,
    DIAL_MS = 10 * 1000,
    DIAL_EACH_MS = 4000, // when there are several
    DIAL_NEXT_MS = 250,  // then the next one is tried besides
    DIAL_AT_ONCE = 3,    // at the same time
};

struct dial;

// Calls back once, after it has returned: a connected socket, which the callee owns, and its
// address; or -1 and the errno of the last failure.  NULL: out of memory.
struct dial *dial_new(struct event_base *base, const struct net_address *addresses, size_t count,
                      uint16_t port,
                      void (*done)(int fd, int errnum, const struct net_address *a, void *argument),
                      void *argument);
void dial_free(struct dial *d); // gives up; fine with NULL

#endif
