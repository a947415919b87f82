// SPDX-License-Identifier: Apache-2.0
//
// stock: the boxes of a keeper, from the order to the last rmdir.
//
//   MAKING   the zygote was asked for it; it goes through the recipe
//   PARKED   every layer up, warm, waiting on its control socket
//   LIVE     handed to the gate; a run goes on in it
//   IDLE     handed to the gate and kept for a session, between two runs
//   DYING    killed, not yet reaped
//
// Invariants:
//   (1) a box is in exactly one of the five lists, and its slot is taken as long as it is.
//   (2) a LIVE or IDLE box leaves by exactly one ENDED message to the gate.
//   (3) a slot is given back only after the box's init was reaped: then no process of it exists.

#ifndef CONSTRICTOR_KEEPER_STOCK_H
#define CONSTRICTOR_KEEPER_STOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"
#include "keeper/caps.h"
#include "keeper/cgroup.h"
#include "wire/wire.h"

enum {
    STOCK_TICKETS = 8192
}; // places in the table of orders; a gate that behaves has no two in one

enum box_state { BOX_MAKING, BOX_PARKED, BOX_LIVE, BOX_IDLE, BOX_DYING, BOX_STATE_MAX };

// What an ACQUIRE says besides the limits.
struct box_terms {
    uint64_t cpu_ms;
    bool keep;         // for a session: outlives the gate, is interrupted before it is ended
    uint32_t grace_ms; // from the one to the other
};

struct box {
    uint64_t id; // generation * SLOTS + slot
    enum box_state state;
    struct wire_limits limits;
    uint64_t ticket; // MAKING: the order it is made for, 0: for the stock
    struct box_terms terms;
    uint64_t cpu_user_us, cpu_system_us, process_hits; // up to the last MEASURE: of earlier runs
    int64_t warned_ms; // when it was interrupted for its CPU time; 0: it was not
    int control, out, err, scratch, pidfd;
    int64_t since_ms; // MAKING: when the order went out
    struct cgroup cg;
    enum wire_end end;
    bool reaped, answered, wait_reaped;
    bool cancelled; // DYING: `ticket` is refused when it is gone
    int status;
    TAILQ_ENTRY(box) list;
};

TAILQ_HEAD(box_list, box);

// An acquire that waits for a box of the default kind.
struct order {
    uint64_t ticket;
    struct box_terms terms;
    TAILQ_ENTRY(order) list;
};

struct letter;

struct stock {
    struct caps *caps;
    struct wire_limits standard; // limits of the boxes that are made ahead
    uint32_t target;             // how many to keep parked
    int zygote_sock, gate_sock, epoll;
    uint64_t generation;
    struct box *by_slot[SLOTS];
    struct box_list lists[BOX_STATE_MAX];
    int64_t idle_look_ms;      // when idle boxes are looked at again
    bool failing;              // boxes do not come up: make none ahead until somebody asks again
    uint32_t making_for_stock; // MAKING without a ticket
    uint32_t counts[BOX_STATE_MAX];
    TAILQ_HEAD(, order) orders;
    uint32_t order_count;
    // By ticket: what waits for an answer, a box in the making or an order.
    struct {
        struct order *order;
        struct box *box;
    } by_ticket[STOCK_TICKETS];
    STAILQ_HEAD(, letter) letters; // to the gate, while its socket is full
    TAILQ_HEAD(, box) busy_groups; // reaped, but a cgroup could not be removed yet
};

// Tags for epoll: who is the event for.
enum stock_tag { TAG_GATE = 1, TAG_ZYGOTE, TAG_LOG, TAG_TIMER, TAG_SIGNAL, TAG_BOX, TAG_PARENT };
static inline uint64_t stock_tag(enum stock_tag tag, uint64_t value)
{
    return (uint64_t)tag << 56 | value;
}

void stock_init(struct stock *s, struct caps *caps, const struct wire_limits *standard,
                uint32_t target);

// To the gate, now or when it can take it; borrows the descriptors.
void stock_send(struct stock *s, enum wire_type type, union wire_message *m, const int *fds,
                size_t count);
void stock_flush(struct stock *s);

// Messages from the gate.
void stock_acquire(struct stock *s, const struct wire_acquire *m);
void stock_cancel(struct stock *s, uint64_t ticket);
void stock_refuse_cancelled(struct stock *s, uint64_t ticket);
void stock_release(struct stock *s, const struct wire_release *m);
void stock_interrupt(struct stock *s, const struct wire_interrupt *m);
void stock_measure(struct stock *s, const struct wire_measure *m);

// Messages from the zygote, and a box's first words.
void stock_spawned(struct stock *s, const struct wire_spawned *m, int pidfd);
void stock_exited(struct stock *s, const struct wire_exited *m);
void stock_box_speaks(struct stock *s, uint64_t id);

// Makes boxes until the target is met.
void stock_refill(struct stock *s);
bool stock_wants_boxes(const struct stock *s);

// Between stock.c and tick.c.
struct box *stock_find(struct stock *s, uint64_t id); // NULL: it is gone
void stock_look(struct box *b, struct wire_usage *ret);
void stock_subtract_earlier(const struct box *b, struct wire_usage *u);
void stock_move(struct stock *s, struct box *b, enum box_state state);
void stock_end(struct stock *s, struct box *b, enum wire_end end);    // kills it; ENDED follows
void stock_fail(struct stock *s, struct box *b, const struct err *e); // it did not come up
void stock_retry_groups(struct stock *s);

// Looks at the limits of live boxes; in how many milliseconds to look again, 0: not at all.
void stock_tick(struct stock *s);
int stock_tick_ms(const struct stock *s);

// The gate is gone: what it had asked for and what it had been given ends, but for what is kept.
void stock_gate_lost(struct stock *s);
// Tells the next one of the boxes that were kept.
void stock_adopt(struct stock *s);

// The zygote is gone and its boxes with it.
void stock_zygote_lost(struct stock *s);

// Ends and forgets everything; the zygote must be stopped already.
void stock_done(struct stock *s);

#endif
