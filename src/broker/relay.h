// SPDX-License-Identifier: Apache-2.0
//
// relay: bytes both ways between a box and the far side.  Edge-triggered: what can be read or
// written is remembered, and boxes that have something to carry have their turns one after the
// other, so that one with many busy connections does not slow one with a single.

#ifndef CONSTRICTOR_BROKER_RELAY_H
#define CONSTRICTOR_BROKER_RELAY_H

#include "broker/state.h"

enum {
    RELAY_TURN = 1024 * 1024, // bytes of one box, or of one connection
    RELAY_TURN_STEPS = 16,    // connections of one box
};

void relay_open(struct conn *c); // both sides are there
void relay_pump(struct conn *c); // carries what it may; `c` may be closed then
void relay_wake(struct conn *c); // there may be something to carry
void relay_drop(struct conn *c); // gives back what it holds

// One turn for every box that has something to carry.  True: there is more.
bool relay_turn(struct broker *b);

#endif
