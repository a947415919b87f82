// SPDX-License-Identifier: Apache-2.0
//
// netbox: what the broker is told of boxes with network: part of stock.h.  Runs in the keeper.

#include "base/cleanup.h"
#include "base/clock.h"
#include "keeper/stock.h"

enum { FAREWELL_MS = 2000 };

// The broker serves boxes that somebody uses: one that is parked or in the making says nothing.
void stock_introduce(struct stock *s, struct box *b)
{
    union wire_message m;
    if (!b->has_net)
        return;
    m.net_box = (struct wire_net_box){.h = {.type = WIRE_NET_BOX}, .box = b->id};
    b->told = true;
    (void)mail_send_of_box(&s->broker, WIRE_NET_BOX, &m);
}

static void say_gone(struct stock *s, uint64_t box)
{
    union wire_message m;
    m.net_box = (struct wire_net_box){.box = box};
    (void)mail_send(&s->broker, WIRE_NET_GONE, &m, NULL, 0);
}

void stock_bid_farewells(struct stock *s, int64_t now_ms)
{
    for (; s->farewell_count; s->farewell_count--) {
        unsigned i = s->farewell_first;
        if (s->farewells[i].due_ms > now_ms && s->farewell_count < STOCK_FAREWELLS)
            return;
        say_gone(s, s->farewells[i].box);
        s->farewell_first = (i + 1) % STOCK_FAREWELLS;
    }
}

// Before it releases a box the gate asks the broker what it did; of one that ended by itself
// afterwards.
void stock_bid_farewell(struct stock *s, const struct box *b)
{
    if (!b->told)
        return;
    if (b->released || s->gate.sock < 0) {
        say_gone(s, b->id);
        return;
    }
    stock_bid_farewells(s, clock_ms()); // there is room
    unsigned i = (s->farewell_first + s->farewell_count++) % STOCK_FAREWELLS;
    s->farewells[i].box = b->id;
    s->farewells[i].due_ms = clock_ms() + FAREWELL_MS;
}

void stock_tell_broker(struct stock *s)
{
    static const enum box_state states[] = {BOX_LIVE, BOX_IDLE};
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        for (struct box *b = TAILQ_FIRST(&s->lists[states[i]]); b; b = TAILQ_NEXT(b, list))
            stock_introduce(s, b);
}
