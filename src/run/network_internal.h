// SPDX-License-Identifier: Apache-2.0
//
// network_internal: what network.c and network_run.c share.  No other file includes it.

#ifndef CONSTRICTOR_RUN_NETWORK_INTERNAL_H
#define CONSTRICTOR_RUN_NETWORK_INTERNAL_H

#include <event2/event.h>
#include <sys/queue.h>

#include "run/gate.h"
#include "run/network.h"
#include "wire/broker.h"

struct message; // network_run.c

// A box that was granted something.
struct slot {
    uint64_t box; // 0: free
    char *grant;  // as it was sent
    struct network_run *waiting;
    unsigned late; // reports to drop: their run has stopped waiting
    bool gone;
};

struct network {
    struct gate *gate;
    const struct config *config;
    struct net_policy *policy;
    unsigned generation;
    int sock; // -1: no broker
    struct event *readable, *writable;
    TAILQ_HEAD(, message) queue;
    size_t queue_count, queue_bytes;
    TAILQ_HEAD(, network_run) waiting;
    struct slot slots[LINK_BOX_SLOTS];
    char buffer[BROKER_DATAGRAM];
};

void network_unlink(struct network *n); // forgets the broker, wakes the runs that wait

#endif
