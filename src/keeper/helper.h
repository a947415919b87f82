// SPDX-License-Identifier: Apache-2.0
//
// helper: a process beside the gate that the keeper starts, watches, starts again, and links with
// the gate: the broker (keeper/broker.h), the porter (porter/porter.h); and the sampler
// (keeper/sampler.h), which knows no gate.

#ifndef CONSTRICTOR_KEEPER_HELPER_H
#define CONSTRICTOR_KEEPER_HELPER_H

#include <stdbool.h>
#include <sys/types.h>

#include "keeper/keeper.h"
#include "keeper/stock.h"

enum { HELPER_SHORT_LIVES_MAX = 100 }; // in a row, and it is given up

struct helper {
    // Settled at the beginning.
    const char *name;                                        // for the log
    const char *process;                                     // what ps shows; at most 15 bytes
    int (*main)(int sock, const struct keeper_facts *facts); // NULL: there is none
    struct stock *stock;                                     // for messages to the gate
    struct send_queue *queue;                                // to the helper
    enum wire_type link; // the message that brings the gate its end of their socket; the helper
                         // gets its own by NET_LINK
    int epoll;
    // Takes what it sends; NULL: a helper that sends anything is killed.
    void (*on_message)(struct helper *h, const union wire_message *m);
    void *argument; // of on_message
    // Its state.
    pid_t pid; // 0: there is none
    int sock;
    int64_t since_ms;
    unsigned short_lives;
    bool failed; // it failed too often, or is not wanted
    bool asleep; // not needed yet, so not started
};

// The queue has its tag already.
void helper_init(struct helper *h);

// It inherits `facts`.
int helper_start(struct helper *h, const struct keeper_facts *facts, struct err *e);

// Gate and helper get a new socket to each other; one of them is new.
void helper_link(struct helper *h);

// An event of its socket: there is room, or it is gone.
void helper_event(struct helper *h, uint32_t events);
// After each round of events: kills a helper that does not read its messages.
void helper_check(struct helper *h);

// A child has ended, perhaps this helper.
void helper_reap(struct helper *h);
// Should it be started?
bool helper_is_missing(const struct helper *h);

void helper_close(struct helper *h);

#endif
