// SPDX-License-Identifier: Apache-2.0
//
// stock: the boxes of a keeper, from the request to the last rmdir.
//
//   MAKING   the zygote or a stem was asked for it; it goes through the recipe
//   PARKED   every layer is up; warm; waits on its control socket
//   LIVE     the gate has it; a run goes on in it
//   IDLE     the gate has it for a session, between two runs
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
// Boxes are of several kinds, with or without network, with a writable or a read-only scratch,
// native or in a sandbox with one of several trees: their walls are fixed when they are made.  Each
// kind has parked boxes, requests and a target of its own; a kind that was never requested has
// none.

#ifndef CONSTRICTOR_KEEPER_STOCK_H
#define CONSTRICTOR_KEEPER_STOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"
#include "box/enter.h"
#include "keeper/caps.h"
#include "keeper/cgroup.h"
#include "keeper/send_queue.h"
#include "keeper/stems.h"
#include "wire/wire.h"

enum {
    STOCK_TICKETS = 8192, // rows in the table of requests; a correct gate never has two in one
    STOCK_REMOVALS_MAX = 256,
    STOCK_NO_SLOT = -1,
    STOCK_LOST_MAX = 3,   // boxes of a kind lost with their stems before the keeper reports it
    STOCK_FDS_SPARE = 64, // descriptors besides those of boxes: without them the server would end
};

enum box_state { BOX_MAKING, BOX_PARKED, BOX_LIVE, BOX_IDLE, BOX_DYING, BOX_STATE_MAX };

// Bits.  KIND_READONLY is also in the limits of such a box.
enum { IMAGES_MAX = 4 }; // trees that boxes of one keeper have: the host's, which is 0, and images
enum box_kind {
    KIND_PLAIN,
    KIND_NETWORK = 1,
    KIND_READONLY = 2,
    KIND_READONLY_NETWORK,
    KIND_GVISOR = 4,
    KIND_IMAGE = 8, // times the number of the image
    KIND_MAX = KIND_IMAGE * IMAGES_MAX
};

// What an ACQUIRE asks for besides the limits.
struct box_terms {
    uint64_t cpu_ms;
    bool keep;         // for a session: outlives the gate, is interrupted before it is killed
    uint32_t grace_ms; // from the one to the other
    bool wheel_files;  // it sees --find-links
};

struct box {
    uint64_t id; // generation * SLOTS + slot
    enum box_state state;
    enum box_kind kind;
    struct wire_limits limits;
    uint64_t ticket; // MAKING: the request it is made for, 0: for the stock
    struct box_terms terms;
    uint64_t cpu_user_us, cpu_system_us, process_hits; // of earlier runs, up to the last MEASURE
    int64_t warned_ms;    // when it was interrupted for its CPU time; 0: never
    uint64_t wait_cpu_ms; // may be used while it waits for its first run; 0: no such bound
    int control, scratch, pidfd;
    int log;      // KIND_GVISOR: what its program says until it is ready; -1: none
    int listener; // of its filter, see keeper/denied.h; -1: there is none
    struct denied *denied;
    int64_t denied_window;   // keeper/denied.c: the bound
    uint32_t denied_answers; // in it
    bool rests;              // in `resting`
    TAILQ_ENTRY(box) rest;
    int net[WIRE_NET_FDS]; // KIND_NETWORK, once it is made: for this broker and later ones
    bool has_net, told;    // told: the broker knows it
    bool released;         // by the gate
    bool has_stem;         // then the stem sees its end, not the zygote
    int64_t since_ms;      // MAKING: when the request went out
    struct cgroup cg;
    enum wire_end end;
    bool reaped, answered, wait_reaped;
    bool wants_look; // by the sampler
    bool cancelled;  // DYING: refuse `ticket` when it is gone
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

// The boxes and requests of one kind.
struct stock_kind {
    uint32_t target;        // how many to keep parked
    bool failing;           // they do not come up: make none ahead until the next request
    unsigned lost;          // in a row, with their stems, before they were ready
    struct box_list parked; // the list of BOX_PARKED
    uint32_t parked_count;
    uint32_t making;           // MAKING
    uint32_t making_for_stock; // MAKING without a ticket
    TAILQ_HEAD(, request) requests;
    uint32_t request_count;
};

struct stock {
    struct caps *caps;
    struct wire_limits standard;             // limits of the boxes that are made ahead
    uint32_t target;                         // of a kind that was requested
    struct gvisor *gvisor;                   // keeper/gvisor.h
    uint32_t making_for_stock;               // the sum of all kinds
    char images[IMAGES_MAX][WIRE_IMAGE_MAX]; // by number
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
    // By ticket: what waits for an answer, a box in the making or a request.
    struct {
        struct request *request;
        struct box *box;
    } by_ticket[STOCK_TICKETS];
    struct send_queue gate;
    struct send_queue broker; // without a socket: boxes have no network
    // Boxes that ended by themselves, of which the broker is told later: the gate may still ask it
    // for a report.
    struct {
        uint64_t box;
        int64_t due_ms;
    } removals[STOCK_REMOVALS_MAX];
    unsigned removal_first, removal_count;
    TAILQ_HEAD(, box) resting; // keeper/denied.c: boxes that made too many calls in this window
    int64_t denied_window;
    uint32_t denied_answers;
    uint32_t looks, look_slot;     // boxes that need one, and the slot that had the last
    TAILQ_HEAD(, box) busy_groups; // reaped, but a cgroup could not be removed yet
};

// Tags for epoll: which object an event is about.
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
    TAG_SAMPLER,
    TAG_SANDBOX,
    TAG_NOTIFY
};
static inline uint64_t stock_tag(enum stock_tag tag, uint64_t value)
{
    return (uint64_t)tag << 56 | value;
}

// *s is zero.  `first` is the kind that is made before the first request.
void stock_init(struct stock *s, struct caps *caps, const struct wire_limits *standard,
                uint32_t target, enum box_kind first);
void stock_set_epoll(struct stock *s, int epoll);
// Makes no more boxes ahead.
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

// Messages from the zygote, and a box's first message.
// Takes the descriptors: the pidfd and, with network, the sockets.
void stock_spawned(struct stock *s, const struct wire_spawned *m, int *fds, size_t count);
void stock_exited(struct stock *s, const struct wire_exited *m);
void stock_box_speaks(struct stock *s, uint64_t id);
// One message of the stem of this slot, or of the zygote.  1: there was one, 0: there is none, -1:
// the zygote is gone.
int stock_hear(struct stock *s, int slot);
// An event of a box whose stem was lost: it ended, or sent something.
void stock_orphan_speaks(struct stock *s, uint64_t id);

// Makes boxes until the target is met.
void stock_refill(struct stock *s);
bool stock_wants_boxes(const struct stock *s);
uint32_t stock_target(const struct stock *s, enum box_kind kind); // of a kind that was requested

// Tells a new broker of all boxes that it serves.
void stock_broker_add_all(struct stock *s);

// What is fixed when a box is made, as enum box_flags.
static inline uint32_t stock_walls(const struct stock *s, const struct box *b)
{
    return s->caps->box_flags | (b->kind & KIND_NETWORK ? BOX_NETWORK : 0) |
           (b->kind & KIND_READONLY ? BOX_READONLY : 0);
}

static inline bool stock_is_handed_out(const struct box *b)
{
    return b->state == BOX_LIVE || b->state == BOX_IDLE;
}

// Between stock.c, make_box.c, lost_boxes.c, broker_boxes.c and tick.c.
int stock_make(struct stock *s, enum box_kind kind, const struct wire_limits *limits,
               uint64_t ticket, const struct box_terms *terms, struct err *e);
void stock_enlist(struct stock *s, struct box *b, enum box_state state); // for a box in no list yet
void stock_forget(struct stock *s, struct box *b);
struct box *stock_find(struct stock *s, uint64_t id);     // NULL: it is gone
struct box *stock_find_init(struct stock *s, pid_t init); // among those that are handed out
void stock_unkeep(struct box *b); // it ends with this gate, and is not interrupted first
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

// Checks the limits of live boxes; in how many milliseconds to check again, 0: never.
void stock_tick(struct stock *s);
int stock_tick_ms(const struct stock *s);

// Questions to the sampler and its answers (keeper/sampler.h): queues a box that the kernel does
// not count; the next in turn; takes the answer.
void stock_want_look(struct stock *s, struct box *b);
uint32_t stock_looks_for(const struct stock *s, const struct box *b); // enum wire_sample_what
struct box *stock_next_look(struct stock *s);                         // NULL: none is queued
void stock_sampled(struct stock *s, const struct wire_sampled *m);

// The gate is gone: ends its requests and boxes, except those that are kept.
void stock_gate_lost(struct stock *s);
// Tells the next gate of the boxes that were kept.
void stock_adopt(struct stock *s);

// The zygote is gone and its boxes with it.
void stock_zygote_lost(struct stock *s);

// Ends and forgets everything; the zygote must be stopped already.
void stock_done(struct stock *s);

#endif
