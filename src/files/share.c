// SPDX-License-Identifier: Apache-2.0
//
// share: see share.h.  Runs in the gate.

#include "files/share.h"

#include <string.h>

bool share_take(struct share *s, struct share_part *p, const char *owner, uint64_t amount,
                uint64_t max)
{
    const struct share_part *other;
    uint64_t used = 0; // the owner's own use counts twice
    TAILQ_FOREACH (other, s, list)
        used += strcmp(other->owner, owner) == 0 ? 2 * other->amount : other->amount;
    if (used > max || amount > max - used)
        return false;
    *p = (struct share_part){.of = s, .owner = owner, .amount = amount};
    TAILQ_INSERT_TAIL(s, p, list);
    return true;
}

void share_give(struct share_part *p)
{
    if (p->of)
        TAILQ_REMOVE(p->of, p, list);
    p->of = NULL;
}
