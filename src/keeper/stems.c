// SPDX-License-Identifier: Apache-2.0
//
// stems: see stems.h.  Runs in the keeper.

#include "keeper/stems.h"

#include <stddef.h>

#include "keeper/poller.h"

void stems_init(struct stems *s)
{
    TAILQ_INIT(&s->resting);
}

static void leave_rest(struct stems *s, struct stem *stem)
{
    if (!stem->rests)
        return;
    stem->rests = false;
    TAILQ_REMOVE(&s->resting, stem, list);
    s->resting_count--;
}

int stems_wake(struct stems *s, int slot)
{
    struct stem *stem = &s->by_slot[slot];
    leave_rest(s, stem);
    return stem->sock ? stem->sock : -1;
}

void stems_add(struct stems *s, int slot, int sock)
{
    stems_end(s, slot);
    s->by_slot[slot].sock = sock;
}

void stems_end(struct stems *s, int slot)
{
    struct stem *stem = &s->by_slot[slot];
    leave_rest(s, stem);
    if (stem->sock)
        poller_close(&stem->sock); // it sees that, and ends
    stem->sock = 0;
}

void stems_rest(struct stems *s, int slot)
{
    struct stem *stem = &s->by_slot[slot];
    if (!stem->sock || stem->rests)
        return;
    stem->rests = true;
    TAILQ_INSERT_TAIL(&s->resting, stem, list);
    if (++s->resting_count > STEMS_RESTING_MAX)
        stems_end(s, (int)(TAILQ_FIRST(&s->resting) - s->by_slot));
}

void stems_end_all(struct stems *s)
{
    for (int slot = 0; slot < SLOTS; slot++)
        stems_end(s, slot);
}
