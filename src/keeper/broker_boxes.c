// SPDX-License-Identifier: Apache-2.0
//
// broker_boxes: tells the broker of boxes with network: part of stock.h.  Runs in the keeper.

#include "base/cleanup.h"
#include "base/clock.h"
#include "keeper/stock.h"

enum { REMOVAL_DELAY_MS = 2000 };

// The broker serves boxes that are in use: a parked box, or one in the making, sends nothing.
void stock_broker_add(struct stock *s, struct box *b)
{
    union wire_message m;
    if (!b->has_net)
        return;
    m.net_box = (struct wire_net_box){.h = {.type = WIRE_NET_BOX}, .box = b->id};
    b->told = true;
    (void)send_queue_add_for_box(&s->broker, WIRE_NET_BOX, &m);
}

static void say_gone(struct stock *s, uint64_t box)
{
    union wire_message m;
    m.net_box = (struct wire_net_box){.box = box};
    (void)send_queue_add(&s->broker, WIRE_NET_GONE, &m, NULL, 0);
}

void stock_broker_remove_due(struct stock *s, int64_t now_ms)
{
    for (; s->removal_count; s->removal_count--) {
        unsigned i = s->removal_first;
        if (s->removals[i].due_ms > now_ms && s->removal_count < STOCK_REMOVALS_MAX)
            return;
        say_gone(s, s->removals[i].box);
        s->removal_first = (i + 1) % STOCK_REMOVALS_MAX;
    }
}

// The gate asks the broker for a report before it releases a box, but after the end of a box that
// ended by itself: so the broker learns of that end later.
void stock_broker_remove(struct stock *s, const struct box *b)
{
    if (!b->told)
        return;
    if (b->released || s->gate.sock < 0) {
        say_gone(s, b->id);
        return;
    }
    stock_broker_remove_due(s, clock_ms()); // there is room
    unsigned i = (s->removal_first + s->removal_count++) % STOCK_REMOVALS_MAX;
    s->removals[i].box = b->id;
    s->removals[i].due_ms = clock_ms() + REMOVAL_DELAY_MS;
}

void stock_broker_add_all(struct stock *s)
{
    static const enum box_state states[] = {BOX_LIVE, BOX_IDLE};
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        for (struct box *b = TAILQ_FIRST(&s->lists[states[i]]); b; b = TAILQ_NEXT(b, list))
            stock_broker_add(s, b);
}
