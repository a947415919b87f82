// SPDX-License-Identifier: Apache-2.0
//
// watchdog: the keeper notices a gate that does not move.
//
// The gate counts the turns of its loop in shared memory (wire/pulse.h), where it also writes down
// which box it is working
// on.  A gate that has not moved for a quarter of a second is nudged, which wakes it if it sleeps.
// One that does not move for a second after that, and does not use a CPU or wait for one, is stuck
// in the kernel: it is logged, and the box that it names is ended, which frees what the box holds.
//
// SECURITY: the gate is not trusted.  What it writes can end a box that is handed out to it, which
// it can ask for anyway.

#ifndef CONSTRICTOR_KEEPER_WATCHDOG_H
#define CONSTRICTOR_KEEPER_WATCHDOG_H

#include "keeper/stock.h"
#include "keeper/stuck.h"
#include "wire/pulse.h"

enum { WATCHDOG_STUCK_MS = 1000 };

struct watchdog {
    struct pulse *pulse; // shared with the gate; NULL: there was no memory, and nothing is watched
    uint64_t turns;
    int64_t moved_ms, looked_ms, nudged_ms; // nudged_ms 0: it was not, since it moved
    struct stuck stuck;
    bool noticed;
};

void watchdog_open(struct watchdog *w);
// There is a new gate.
void watchdog_reset(struct watchdog *w);
// At each tick.
void watchdog_look(struct watchdog *w, struct stock *s, pid_t gate);

#endif
