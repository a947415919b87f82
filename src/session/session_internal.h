// SPDX-License-Identifier: Apache-2.0
//
// session_internal: what session.c, shared_box.c and adopt.c share: the table of sessions, and the
// box that a session and its forks live in.
//
// Invariants:
//   (1) a session is in both hash tables (by name only if it has one) until it ends; from then on
//       there is an ended_session, and the object stays as long as its session box.
//   (2) the box of a session box is lent to its `running`, or drained, or idle.
//   (3) a session is in the idle lists exactly when it is open and has no run, running or waiting.

#ifndef CONSTRICTOR_SESSION_SESSION_INTERNAL_H
#define CONSTRICTOR_SESSION_SESSION_INTERNAL_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "run/gate.h"
#include "run/run.h"
#include "session/ended.h"
#include "session/session.h"
#include "wire/ledger.h"

enum { SESSION_BUCKETS = 1024, OWNER_BUCKETS = 64 };

TAILQ_HEAD(session_list, session);

// An owner that has sessions: its counts, and those that are idle.
struct session_owner {
    char owner[65];
    unsigned count;
    struct session_list idle; // longest idle first
    struct session_owner *next;
};

// A box and the sessions in it: the one that was opened, and its forks.
struct shared_box {
    struct sessions *all;
    struct live_box *box; // NULL: the keeper has not sent it yet
    struct link_request box_request;
    struct run *running; // whose code is in the box
    struct run_list queue;
    struct session_list forks; // the session that was opened, and its forks
    uint32_t next_fork;
    uint32_t active;                   // the fork that ran last, or runs; UINT32_MAX: not known
    bool away;                         // the box has not answered yet that it is in that fork
    bool draining, ending;             // draining: code whose caller is gone runs in the box
    struct timer timer;                // draining: the end of its grace
    struct session_restore *restoring; // saved.c: its files are written; no run begins; or NULL
    struct scratch_op *asked;          // draining: asks the box whether code runs
};

struct sessions {
    bool stopping; // the server ends: sessions that it closes may be opened again
    struct gate *gate;
    const struct config *config;
    struct session *by_id[SESSION_BUCKETS], *by_name[SESSION_BUCKETS];
    struct session_owner *owners[OWNER_BUCKETS];
    struct session_list open, idle; // oldest first; longest idle first
    unsigned count;
    struct ended_sessions *ended_sessions;
    struct ledger *ledger; // NULL: the keeper does not restart this gate
    uint16_t free_entries[LEDGER_ENTRIES];
    unsigned free_entry_count;
    // While the gate takes over the boxes of the previous gate.
    struct ledger_entry *entries[LEDGER_ENTRIES]; // by box
    unsigned entry_count;
    bool adopted;
};

// session.c
int64_t session_now_ms(void);                     // since 1970
uint64_t session_cpu_ms(const struct session *s); // of a run that asks for no CPU limit of its own
struct session *session_new(struct sessions *all, const char *owner,
                            const struct session_plan *plan);
void session_free(struct session *s);
void session_link_name(struct session *s); // in the table of names, if it has one
void session_unlink_name(struct session *s);
void session_settle(struct shared_box *h, struct session *s); // into the box and the tables
void session_retire(struct session *s, enum session_end why); // out of the tables
void session_explain(const struct session *s, struct err *e); // sets `e`: why it ended
void session_become_idle(struct session *s);
void session_leave_idle(struct session *s);
struct session *session_lookup(struct sessions *all, const char *owner, const char *text);

// shared_box.c
extern const struct session_ops session_ops; // what runs call in sessions
struct shared_box *shared_box_new(struct sessions *all);
void shared_box_free(struct shared_box *h);  // after its box ended or was given back
void shared_box_rest(struct shared_box *h);  // the box is idle from now on
void shared_box_drain(struct shared_box *h); // interrupts code whose caller is gone
void shared_box_next(struct shared_box *h);  // starts the next run, if the box is free
void shared_box_forget_fork(struct shared_box *h, uint32_t fork_number); // in the box
// Refuses the runs that wait; `only`: those of one session, NULL: all.
void shared_box_refuse(struct shared_box *h, const struct session *only, const struct err *e);

// saved.c
// The plan's name is a handle or a name: which session it opens again, if any; then the plan's id
// is set.  -1 and `e`: the handle has no saved files, and is not known.
int session_find_saved(struct gate *g, const char *owner, struct session_plan *plan, struct err *e);
bool session_has_saved(struct gate *g, const char *owner, const char *id);
// Writes the stored files into the box; `h->restoring` meanwhile.  Then calls `then`, unless the
// box ends before or it is cancelled.
void session_restore(struct shared_box *h, struct session *s,
                     void (*then)(struct shared_box *h, struct session *s));
void session_restore_cancel(struct shared_box *h);

// adopt.c
void ledger_open_entry(struct session *s);
void ledger_write(struct session *s);
void ledger_free(struct session *s);
void ledger_touch(const struct session *s, bool busy);
void ledger_read(struct sessions *all); // at the start
void shared_box_adopt(const struct wire_adopt *m, const int *fds, void *argument);

#endif
