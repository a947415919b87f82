// SPDX-License-Identifier: Apache-2.0
//
// gate: the process that talks to clients.  It parses everything hostile, so it gives up every
// privilege first: no uid of anybody, no capabilities, no way to start a program.

#ifndef CONSTRICTOR_GATE_GATE_H
#define CONSTRICTOR_GATE_GATE_H

#include <event2/event.h>

#include "base/err.h"
#include "gate/link.h"
#include "keeper/keeper.h"

struct gate {
    struct event_base *base;
    const struct keeper_facts *facts;
    struct link link;
    unsigned running; // runs whose answer is awaited
    unsigned begun;   // runs that were ever begun
};

// Gives up what the keeper left, makes the event loop and the link to the keeper.  Takes `sock`.
int gate_enter(struct gate *g, int sock, const struct keeper_facts *facts, struct err *e);
void gate_leave(struct gate *g);

// Serves events until the loop is broken.
void gate_dispatch(struct gate *g);

#endif
