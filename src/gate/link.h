// SPDX-License-Identifier: Apache-2.0
//
// link: the gate's end of the socket to the keeper: asks for boxes, gives them back, and finds the
// run that an answer belongs to.

#ifndef CONSTRICTOR_GATE_LINK_H
#define CONSTRICTOR_GATE_LINK_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/wire.h"

struct run;

// What the link needs from a run; run.c implements it.
struct link_user {
    void (*on_box)(struct run *r, const struct wire_box *m, int control, int out, int err);
    void (*on_ended)(struct run *r, const struct wire_ended *m);
};

enum { LINK_RUNS_MAX = 8192, LINK_BOX_SLOTS = 4096 };

struct link {
    struct event_base *base;
    struct event *event;
    int sock;
    bool lost;
    uint64_t generation;
    uint32_t free_count;
    uint16_t free[LINK_RUNS_MAX];
    // A place is taken until the keeper has answered: `run` is NULL when nobody waits for it any more.
    struct {
        uint64_t ticket; // 0: free
        struct run *run;
    } by_ticket[LINK_RUNS_MAX];
    struct {
        uint64_t box;
        struct run *run;
        bool unwanted; // it came for nobody and is on its way out
    } by_box[LINK_BOX_SLOTS];
    unsigned unwanted; // orders and boxes that cost the keeper something, and nobody waits for
    void (*on_room)(void *argument); // there is one less of them
    void *room_argument;
    void (*on_status)(const struct wire_status_reply *m, void *argument);
    void *status_argument;
    // INTERPRETER, ZYGOTE_READY, FAILED and FILES; the descriptors are borrowed.
    void (*on_news)(const union wire_message *m, const int *fds, size_t count, void *argument);
    void *news_argument;
    void (*on_lost)(void *argument); // the keeper is gone
    void *lost_argument;
};

int link_open(struct link *l, struct event_base *base, int sock, struct err *e);
void link_close(struct link *l);

// Asks for a box; the answer comes as on_box.  `m` has the limits filled in.
int link_acquire(struct link *l, struct run *r, struct wire_acquire *m, struct err *e);
int link_release(struct link *l, uint64_t box, enum wire_end end, bool wait_reaped);
int link_interrupt(struct link *l, uint64_t box);
int link_status(struct link *l);

// Reads what is there now, outside of the event loop.
void link_read(struct link *l);

// Tells the link that the run is gone and wants no more calls.  What it has asked for is cancelled, and
// counts as unwanted until the keeper is rid of it.
void link_forget(struct link *l, uint64_t ticket, uint64_t box);

extern const struct link_user link_user; // in run.c

#endif
