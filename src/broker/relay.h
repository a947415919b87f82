// SPDX-License-Identifier: Apache-2.0
//
// relay: carries bytes both ways between a box and the far side.  Edge-triggered: it remembers what
// can be read or written, and busy boxes take turns, so that one with many busy connections does
// not slow one with a single.

#ifndef CONSTRICTOR_BROKER_RELAY_H
#define CONSTRICTOR_BROKER_RELAY_H

#include "broker/state.h"

enum {
    RELAY_TURN = 1024 * 1024, // bytes of one box, or of one connection
    RELAY_TURN_STEPS = 16,    // connections of one box
};

void relay_open(struct conn *c); // both sides are there
void relay_pump(struct conn *c); // carries what it may; `c` may be closed then
void relay_wake(struct conn *c); // bytes may have arrived
void relay_drop(struct conn *c); // frees its buffers

// One turn for every box that has something to carry.  True: there is more.
bool relay_turn(struct broker *b);

#endif
