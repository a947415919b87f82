// SPDX-License-Identifier: Apache-2.0
//
// link: the gate's end of the socket to the keeper: asks for boxes, gives them back, and finds the
// run that an answer belongs to.

#ifndef CONSTRICTOR_RUN_LINK_H
#define CONSTRICTOR_RUN_LINK_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/wire.h"

struct live_box;

// A request for a box: part of a run or of a session that is being opened.
struct link_request {
    uint64_t ticket; // 0: not sent
    // The answer: the descriptors of the control socket and of the meter, all of them taken; NULL:
    // refused, see `m`.
    void (*on_box)(struct link_request *o, const struct wire_box *m, const int *fds);
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
    // A row is taken until the keeper has answered; `request` is NULL once it was cancelled.
    struct {
        uint64_t ticket; // 0: free
        struct link_request *request;
    } by_ticket[LINK_RUNS_MAX];
    struct {
        uint64_t box;
        struct live_box *live;
        bool unwanted; // no request wants it, and the keeper ends it
        bool told;     // the keeper reports denied calls, as BOX said
    } by_box[LINK_BOX_SLOTS];
    unsigned unwanted; // cancelled requests and unwanted boxes that still cost the keeper work
    void (*on_settled)(void *argument); // `unwanted` went down
    void *settled_argument;
    void (*on_status)(const struct wire_status_reply *m, void *argument);
    void *status_argument;
    // INTERPRETER, ZYGOTE_READY, FAILED, FILES, NET_LINK and PORTER_LINK; the descriptors are
    // borrowed.
    void (*on_news)(const union wire_message *m, const int *fds, size_t count, void *argument);
    void *news_argument;
    // A box of the gate before this one; box 0: that was the last.  The descriptors are taken.
    void (*on_adopt)(const struct wire_adopt *m, const int *fds, void *argument);
    void *adopt_argument;
    void (*on_lost)(void *argument); // the keeper is gone
    void *lost_argument;
};

int link_open(struct link *l, struct event_base *base, int sock, struct err *e);
void link_close(struct link *l);

// Asks for a box; the answer comes as on_box.  `m` has the limits filled in.
int link_acquire(struct link *l, struct link_request *o, struct wire_acquire *m, struct err *e);
// Cancels a request.  It counts as unwanted until the keeper has ended it.
void link_cancel(struct link *l, struct link_request *o);

// From now on messages about the box go to `b`; after link_let_go() they are dropped.
void link_hold(struct link *l, struct live_box *b);
void link_let_go(struct link *l, uint64_t box);
// Ends a box that no run or session can use.
void link_give_back(struct link *l, uint64_t box);

int link_release(struct link *l, uint64_t box, enum wire_end end, bool wait_reaped);
int link_interrupt(struct link *l, uint64_t box);
int link_measure(struct link *l, uint64_t box, uint64_t cpu_ms,
                 enum wire_measure_how how); // see wire.h
int link_status(struct link *l);

// Reads what is there now, outside of the event loop.
void link_read(struct link *l);

#endif
