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
//   (3) a slot is given back only after the box's init was reaped, or has ended after its stem did:
//       then no process of it exists.
//   (4) a box with network is known to the broker from the moment when it is handed out until it is
//       gone.
//
// Boxes are of four kinds, with and without network, with a scratch for writing or for reading
// only: how they are shut in is settled when they are made.  Each kind has parked boxes, orders and
// a target of its own; a kind that nobody asked for has none.

#ifndef CONSTRICTOR_KEEPER_STOCK_H
#define CONSTRICTOR_KEEPER_STOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"
#include "keeper/caps.h"
#include "keeper/cgroup.h"
#include "keeper/send_queue.h"
#include "keeper/stems.h"
#include "wire/wire.h"

enum {
    STOCK_TICKETS = 8192, // places in the table of orders; a gate that behaves has no two in one
    STOCK_REMOVALS_MAX = 256,
    STOCK_NO_SLOT = -1,
    STOCK_LOST_MAX = 3,   // boxes of a kind that are lost with their stems before somebody is told
    STOCK_FDS_SPARE = 64, // descriptors besides those of boxes: without them all would end
};

enum box_state { BOX_MAKING, BOX_PARKED, BOX_LIVE, BOX_IDLE, BOX_DYING, BOX_STATE_MAX };

// Bits.  KIND_READONLY is also in the limits of such a box.
enum box_kind { KIND_PLAIN, KIND_NETWORK = 1, KIND_READONLY = 2, KIND_READONLY_NETWORK, KIND_MAX };

// What an ACQUIRE says besides the limits.
struct box_terms {
    uint64_t cpu_ms;
    bool keep;         // for a session: outlives the gate, is interrupted before it is ended
    uint32_t grace_ms; // from the one to the other
    bool wheel_files;       // it sees --find-links
};

struct box {
    uint64_t id; // generation * SLOTS + slot
    enum box_state state;
    enum box_kind kind;
    struct wire_limits limits;
    uint64_t ticket; // MAKING: the order it is made for, 0: for the stock
    struct box_terms terms;
    uint64_t cpu_user_us, cpu_system_us, process_hits; // up to the last MEASURE: of earlier runs
    int64_t warned_ms; // when it was interrupted for its CPU time; 0: it was not
    uint64_t
        wait_cpu_ms; // it waits for its first run, and may use no more until then; 0: it does not
    int control, scratch, pidfd;
    int listener; // of its filter, see keeper/denied.h; -1: there is none
    struct denied *denied;
    int64_t denied_window;   // keeper/denied.c: the bound
    uint32_t denied_answers; // in it
    bool rests;              // in `resting`
    TAILQ_ENTRY(box) rest;
    int net[WIRE_NET_FDS]; // KIND_NETWORK, once it is made: for this broker and for the next
    bool has_net, told;    // told: the broker knows it
    bool released;         // the gate wanted its end
    bool has_stem;         // which sees its end, and not the zygote
    int64_t since_ms;      // MAKING: when the order went out
    struct cgroup cg;
    enum wire_end end;
    bool reaped, answered, wait_reaped;
    bool wants_look; // by the sampler
    bool cancelled;  // DYING: `ticket` is refused when it is gone
    int status;
    TAILQ_ENTRY(box) list;
};

TAILQ_HEAD(box_list, box);

// An acquire that waits for a box with the usual limits.
struct request {
    uint64_t ticket;
    enum box_kind kind;
    struct box_terms terms;
    TAILQ_ENTRY(request) list;
};

// What is there, and waited for, of one kind.
struct stock_kind {
    uint32_t target;        // how many to keep parked
    bool failing;           // they do not come up: make none ahead until somebody asks again
    unsigned lost;          // one after the other, with their stems, before they were ready
    struct box_list parked; // the list of BOX_PARKED
    uint32_t parked_count;
    uint32_t making;           // MAKING
    uint32_t making_for_stock; // MAKING without a ticket
    TAILQ_HEAD(, request) requests;
    uint32_t request_count;
};

struct stock {
    struct caps *caps;
    struct wire_limits standard; // limits of the boxes that are made ahead
    uint32_t target;             // of a kind that somebody asked for
    int zygote_sock, epoll;
    struct stems stems;
    bool stemless; // no box has a stem: there will be one or two, and a stem takes longer to make
                   // than it saves
    uint64_t generation;
    struct box *by_slot[SLOTS];
    struct box_list lists[BOX_STATE_MAX]; // but for BOX_PARKED
    struct stock_kind kinds[KIND_MAX];
    int64_t idle_look_ms; // when idle boxes are looked at again
    uint32_t counts[BOX_STATE_MAX];
    // By ticket: what waits for an answer, a box in the making or an order.
    struct {
        struct request *request;
        struct box *box;
    } by_ticket[STOCK_TICKETS];
    struct send_queue gate;
    struct send_queue broker; // nobody: boxes have no network
    // Boxes that ended by themselves: the gate may still ask the broker what they did.
    struct {
        uint64_t box;
        int64_t due_ms;
    } removals[STOCK_REMOVALS_MAX];
    unsigned removal_first, removal_count;
    TAILQ_HEAD(, box) resting; // keeper/denied.c: boxes that made too many calls in this window
    int64_t denied_window;
    uint32_t denied_answers;
    uint32_t looks, look_slot;     // boxes that want one, and the slot that had the last
    TAILQ_HEAD(, box) busy_groups; // reaped, but a cgroup could not be removed yet
};

// Tags for epoll: who is the event for.
enum stock_tag {
    TAG_GATE = 1,
    TAG_ZYGOTE,
    TAG_STEM,
    TAG_ORPHAN,
    TAG_LOG,
    TAG_TIMER,
    TAG_SIGNAL,
    TAG_BOX,
    TAG_PARENT,
    TAG_BROKER,
    TAG_PORTER,
    TAG_DENIED,
    TAG_SAMPLER
};
static inline uint64_t stock_tag(enum stock_tag tag, uint64_t value)
{
    return (uint64_t)tag << 56 | value;
}

// *s is zero.  `first` is the kind that is made before anybody asks.
void stock_init(struct stock *s, struct caps *caps, const struct wire_limits *standard,
                uint32_t target, enum box_kind first);
void stock_set_epoll(struct stock *s, int epoll);
// No more boxes ahead.
void stock_no_more(struct stock *s);

// To the gate, now or when it can take it; borrows the descriptors.
void stock_send(struct stock *s, enum wire_type type, union wire_message *m, const int *fds,
                size_t count);

// Messages from the gate.
void stock_acquire(struct stock *s, const struct wire_acquire *m);
void stock_cancel(struct stock *s, uint64_t ticket);
void stock_refuse(struct stock *s, uint64_t ticket, const struct err *e);
void stock_refuse_cancelled(struct stock *s, uint64_t ticket);
void stock_release(struct stock *s, const struct wire_release *m);
void stock_interrupt(struct stock *s, const struct wire_interrupt *m);
void stock_measure(struct stock *s, const struct wire_measure *m);

// Messages from the zygote, and a box's first words.
// Takes the descriptors: the pidfd and, with network, the sockets.
void stock_spawned(struct stock *s, const struct wire_spawned *m, int *fds, size_t count);
void stock_exited(struct stock *s, const struct wire_exited *m);
void stock_box_speaks(struct stock *s, uint64_t id);
// One message of the stem of this slot, or of the zygote.  1: there was one, 0: there is none, -1:
// the zygote is gone.
int stock_hear(struct stock *s, int slot);
// A box whose stem was lost has ended, or says something.
void stock_orphan_speaks(struct stock *s, uint64_t id);

// Makes boxes until the target is met.
void stock_refill(struct stock *s);
bool stock_wants_boxes(const struct stock *s);

// To a broker that is new: the boxes that it serves from here on.
void stock_broker_add_all(struct stock *s);

static inline bool stock_is_handed_out(const struct box *b)
{
    return b->state == BOX_LIVE || b->state == BOX_IDLE;
}

// Between stock.c, make_box.c, lost_boxes.c, broker_boxes.c and tick.c.
int stock_make(struct stock *s, enum box_kind kind, const struct wire_limits *limits,
               uint64_t ticket, const struct box_terms *terms, struct err *e);
void stock_enlist(struct stock *s, struct box *b, enum box_state state); // it is in no list yet
void stock_forget(struct stock *s, struct box *b);
struct box *stock_find(struct stock *s, uint64_t id);     // NULL: it is gone
struct box *stock_find_init(struct stock *s, pid_t init); // of those that are handed out
void stock_unkeep(struct box *b); // it ends with this gate, and without being asked first
void stock_look(struct box *b, struct wire_usage *ret);
void stock_subtract_earlier(const struct box *b, struct wire_usage *u);
void stock_move(struct stock *s, struct box *b, enum box_state state);
void stock_end(struct stock *s, struct box *b, enum wire_end end);    // kills it; ENDED follows
void stock_fail(struct stock *s, struct box *b, const struct err *e); // it did not come up
void stock_give_up(struct stock *s, struct box *b); // ends one that is not ready yet
void stock_answer(struct stock *s, struct box *b, const struct wire_usage *usage); // ENDED
void stock_refuse_requests(struct stock *s, enum box_kind kind, const struct err *e);
void stock_retry_groups(struct stock *s);
void stock_orphan(struct stock *s, struct box *b);     // its stem is gone
void stock_broker_add(struct stock *s, struct box *b); // to the broker, before the gate has it
void stock_broker_remove(struct stock *s, const struct box *b);
void stock_broker_remove_due(struct stock *s, int64_t now_ms); // those that are due

// Looks at the limits of live boxes; in how many milliseconds to look again, 0: not at all.
void stock_tick(struct stock *s);
int stock_tick_ms(const struct stock *s);

// What the sampler is asked and answers (keeper/sampler.h): a box that the kernel does not count
// waits for a look; the next in turn; what was seen.
void stock_want_look(struct stock *s, struct box *b);
uint32_t stock_looks_for(
    const struct box *b); // enum wire_sample_what; only a box with network has TCP and UDP
struct box *stock_next_look(struct stock *s); // NULL: none wants one
void stock_sampled(struct stock *s, const struct wire_sampled *m);

// The gate is gone: what it had asked for and what it had been given ends, but for what is kept.
void stock_gate_lost(struct stock *s);
// Tells the next one of the boxes that were kept.
void stock_adopt(struct stock *s);

// The zygote is gone and its boxes with it.
void stock_zygote_lost(struct stock *s);

// Ends and forgets everything; the zygote must be stopped already.
void stock_done(struct stock *s);

#endif
