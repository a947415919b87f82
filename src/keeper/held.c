// SPDX-License-Identifier: Apache-2.0
//
// held: see held.h.  Runs in the keeper.

#include "keeper/held.h"

bool held_add(struct held *h, const struct wire_acquire *m, struct err *e)
{
    if (h->count == HELD_MAX) {
        err_set(e, ERR_BUSY, 0, "send fewer runs at once", "%u runs wait for a box already",
                h->count);
        return false;
    }
    h->at[m->ticket % STOCK_TICKETS] = (uint16_t)h->count;
    h->acquires[h->count++] = *m;
    return true;
}

// SECURITY: a gate that was taken over may give two orders one place in the hint; then it cannot
// cancel one of its own.
bool held_cancel(struct held *h, uint64_t ticket)
{
    unsigned i = h->at[ticket % STOCK_TICKETS];
    if (i >= h->count || h->acquires[i].ticket != ticket)
        return false;
    h->acquires[i] = h->acquires[--h->count];
    h->at[h->acquires[i].ticket % STOCK_TICKETS] = (uint16_t)i;
    return true;
}
