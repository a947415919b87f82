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

// Somebody who asked for a box: part of a run or of a session that is opened.
struct link_request {
    uint64_t ticket; // 0: nothing is asked for
    // The answer: the descriptors of control, stdout, stderr, and those of the meter, all of them
    // taken; NULL: refused, see m.
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
    // A place is taken until the keeper has answered: `request` is NULL when nobody waits for it
    // any more.
    struct {
        uint64_t ticket; // 0: free
        struct link_request *request;
    } by_ticket[LINK_RUNS_MAX];
    struct {
        uint64_t box;
        struct live_box *live;
        bool unwanted; // it came for nobody and is on its way out
        bool told;     // as BOX said
    } by_box[LINK_BOX_SLOTS];
    unsigned unwanted; // requests and boxes that cost the keeper something, and nobody waits for
    void (*on_room)(void *argument); // there is one less of them
    void *room_argument;
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
// Nobody waits for it any more.  What was asked for is cancelled, and counts as unwanted until the
// keeper is rid of it.
void link_cancel(struct link *l, struct link_request *o);

// From now on news of the box go to this one; and to nobody any more.
void link_hold(struct link *l, struct live_box *b);
void link_let_go(struct link *l, uint64_t box);
// A box that nobody can use: ends it.
void link_give_back(struct link *l, uint64_t box);

int link_release(struct link *l, uint64_t box, enum wire_end end, bool wait_reaped);
int link_interrupt(struct link *l, uint64_t box);
int link_measure(struct link *l, uint64_t box, uint64_t cpu_ms); // see wire.h
// A box that was kept is one for a single run from here on.
int link_measure_once(struct link *l, uint64_t box, uint64_t cpu_ms);
// It waits for somebody, and must do nothing meanwhile; and it has somebody.
int link_measure_wait(struct link *l, uint64_t box, uint64_t cpu_ms);
int link_measure_taken(struct link *l, uint64_t box);
int link_status(struct link *l);

// Reads what is there now, outside of the event loop.
void link_read(struct link *l);

#endif
