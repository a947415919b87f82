// SPDX-License-Identifier: Apache-2.0
//
// watchdog: finds a gate that is stuck.
//
// The gate counts the turns of its loop in shared memory (wire/pulse.h), where it also writes which
// box it works on.  After a quarter of a second without a turn the keeper nudges the gate, which
// wakes it if it sleeps.  A gate that does not move for a second after that, and neither uses a CPU
// nor waits for one, is stuck in the kernel: the keeper logs this and ends the box that the gate
// names, which frees what the box holds.
//
// SECURITY: the gate is not trusted.  What it writes can only end a box that is handed out to it,
// which it can ask for anyway.

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
