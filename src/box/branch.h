// SPDX-License-Identifier: Apache-2.0
//
// branch: copies of the user process that sleep until they are needed: checkpoints of a session, to
// which `undo` goes back, and the branches that `fork_session` makes.  Called by
// src/python/ext/_constrictor.c in the user process (what to keep and when is
// src/python/runner/undo.py's business) and by box/init.c in pid 1.
//
// A session that never asks for any of this has none of it.  The first time, the user process moves
// out of the memory that it shares with init, into a copy of itself, because init would else keep
// that memory, with all that an undone run had left in it, until the end of the box.  From then on
//
//   init      pid 1, as before, but with an area of shared memory in place of its private mailbox
//   active    the one process that runs code and talks to init
//   parked    any number of others, asleep on a futex in the area, all signals blocked
//
// Who forks whom: to keep a state the active process makes a copy, and *the copy* is what goes to
// sleep; the active one goes on.  So a run that is never undone sees nothing of it: its pid, its
// children, its locks and timers are its own all the time.  The copy is made with CLONE_PARENT: a
// child of init, so that os.wait() in user code neither finds it nor waits for it.
//
// Invariants:
//   (1) `active` is one pid.  Whoever gives way sets it to the pid that it wakes, before it wakes
//       it, so that init never takes the end of the one that left for a crash.
//   (2) a slot belongs to one parked process; only the active process fills slots, only init
//       empties them on a death, and a process that wakes for good empties its own.
//   (3) when the active process dies, init wakes the latest checkpoint of the same branch; without
//       one, any other branch; without one, the box ends as it does without branches.
//   (4) a process that was woken and died before it said branch_settled() takes its checkpoint with
//       it, so that (3) cannot go on for ever.
//   (5) a run stays in the area until it is answered, so that whoever is woken can see that
//       somebody waits.
//   (6) only copies that are made here inherit the area: a child that user code forks has none (as
//       before, when it had its own copy of the mailbox) and cannot answer for its parent.

#ifndef CONSTRICTOR_BOX_BRANCH_H
#define CONSTRICTOR_BOX_BRANCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BRANCH_SLOTS = 96,          // parked at one time; the limit of processes is usually met before
    BRANCH_BOARD_MAX = 64 << 10 // bytes of notes
};

enum branch_kind { BRANCH_FREE, BRANCH_CHECKPOINT, BRANCH_TIP };
enum branch_why { BRANCH_UNDO = 1, BRANCH_SWITCH, BRANCH_CRASH, BRANCH_DROPPED };

// What a process learns when it is woken.
struct branch_wake {
    enum branch_why why;
    int status;      // BRANCH_CRASH: wait status of the one that died
    uint32_t branch; // that was active before
    bool asked;      // a run waits for its answer
    bool consumed;   // it is not parked any more, also not as a copy
};

// Before user code: what the box may use.  Undo must not be what ends it.
void branch_set_limits(uint64_t memory_bytes, uint32_t processes);
uint64_t branch_memory_limit(void);
uint32_t branch_process_limit(void);

// ---- user process; negative errno on failure ----------------------------------------------------

// Moves into a process of its own.  1: this is the copy, which goes on; the caller is gone.  0:
// done long ago.
int branch_begin(void);

// Makes a copy and lets it sleep.  Returns its slot; in the copy, once it has been woken,
// BRANCH_WOKEN with `ret`.  `keep`: when woken it makes another copy of itself, which goes on, and
// sleeps again.
enum { BRANCH_WOKEN = BRANCH_SLOTS };
int branch_park(uint32_t branch, uint32_t serial, enum branch_kind kind, bool keep,
                struct branch_wake *ret);

// A slot for the calling process itself, to sleep in when it gives way.
int branch_reserve(uint32_t branch, uint32_t serial);
// Wakes the one in `slot`, then ends (`own` negative) or sleeps in its own slot and returns when it
// is woken.
// -ESRCH: nobody is there.
int branch_give_way(int slot, enum branch_why why, int own, struct branch_wake *ret);

// Ends who sleeps there.
void branch_drop(int slot);
bool branch_alive(int slot);
void branch_settled(void);

// Notes that belong to no state and are not undone.  `ret` is valid until the next change.
size_t branch_board(const char **ret);
int branch_board_set(const void *data, size_t length);

// ---- init ---------------------------------------------------------------------------------------

long branch_active(void); // 0: not begun
// A child of init is gone.  False: it was the last one that could run code.
bool branch_reaped(long pid, int status);

#endif
