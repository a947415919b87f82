// SPDX-License-Identifier: Apache-2.0
//
// pending: acquires that came before a zygote was warm.

#ifndef CONSTRICTOR_KEEPER_PENDING_H
#define CONSTRICTOR_KEEPER_PENDING_H

#include <stdbool.h>

#include "keeper/stock.h"

enum { PENDING_MAX = 4096 }; // more are refused

struct pending {
    unsigned count;
    struct wire_acquire acquires[PENDING_MAX];
    uint16_t at[STOCK_TICKETS]; // by ticket: a hint where in `acquires`
};

// False and `e`: there are too many.
bool pending_add(struct pending *p, const struct wire_acquire *m, struct err *e);
// False: it is not pending.
bool pending_cancel(struct pending *p, uint64_t ticket);

#endif
