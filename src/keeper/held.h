// SPDX-License-Identifier: Apache-2.0
//
// held: acquires that came before there was a zygote to serve them.

#ifndef CONSTRICTOR_KEEPER_HELD_H
#define CONSTRICTOR_KEEPER_HELD_H

#include <stdbool.h>

#include "keeper/stock.h"

enum { HELD_MAX = 4096 }; // more are refused

struct held {
    unsigned count;
    struct wire_acquire acquires[HELD_MAX];
    uint16_t at[STOCK_TICKETS]; // by ticket: a hint where in `acquires`
};

// False, and `e` says so: there are too many.
bool held_add(struct held *h, const struct wire_acquire *m, struct err *e);
// False: it is not here.
bool held_cancel(struct held *h, uint64_t ticket);

#endif
