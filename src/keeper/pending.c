// SPDX-License-Identifier: Apache-2.0
//
// pending: see pending.h.  Runs in the keeper.

#include "keeper/pending.h"

bool pending_add(struct pending *p, const struct wire_acquire *m, struct err *e)
{
    if (p->count == PENDING_MAX) {
        err_set(e, ERR_BUSY, 0, "send fewer runs at once", "%u runs wait for a box already",
                p->count);
        return false;
    }
    p->at[m->ticket % STOCK_TICKETS] = (uint16_t)p->count;
    p->acquires[p->count++] = *m;
    return true;
}

// SECURITY: a compromised gate may use two tickets with the same hint; then it cannot cancel one of
// its own requests.
bool pending_cancel(struct pending *p, uint64_t ticket)
{
    unsigned i = p->at[ticket % STOCK_TICKETS];
    if (i >= p->count || p->acquires[i].ticket != ticket)
        return false;
    p->acquires[i] = p->acquires[--p->count];
    p->at[p->acquires[i].ticket % STOCK_TICKETS] = (uint16_t)i;
    return true;
}
