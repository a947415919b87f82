// SPDX-License-Identifier: Apache-2.0
//
// stems: the keeper's sockets to the stems of its slots (box/stem.h).
//
// A stem is made with the first box of its slot and outlives it.  Of the stems without a box a few
// stay, those that had one last: slots are reused in the same order, so they are needed next.

#ifndef CONSTRICTOR_KEEPER_STEMS_H
#define CONSTRICTOR_KEEPER_STEMS_H

#include <stdbool.h>
#include <sys/queue.h>

#include "keeper/slots.h"

enum { STEMS_RESTING_MAX = 64 };

struct stem {
    int sock; // 0: there is none
    bool rests;
    TAILQ_ENTRY(stem) list;
};

struct stems {
    struct stem by_slot[SLOTS];
    TAILQ_HEAD(stem_list, stem) resting; // the one that had a box last is the last
    unsigned resting_count;
};

void stems_init(struct stems *s); // by_slot is zero already

// The socket of a slot's stem, which has a box from now on; -1: it has none.
int stems_wake(struct stems *s, int slot);
// Takes the socket of a new one.
void stems_add(struct stems *s, int slot, int sock);
// Its box is gone.
void stems_rest(struct stems *s, int slot);
// Ends it; fine when there is none.
void stems_end(struct stems *s, int slot);
void stems_end_all(struct stems *s);

#endif
