// SPDX-License-Identifier: Apache-2.0
//
// checkpoint: copies of the user process that sleep until they are needed: checkpoints of a
// session, to which `undo` goes back, and the forks that `fork_session` makes.  Called by the
// extension in the user process (src/python/runner/undo.py decides what to keep and when) and by
// box/init.c in pid 1.
//
// A session that uses none of this pays nothing.  At the first use the user process moves out of
// the memory that it shares with init, into a copy of itself: else init would keep that memory,
// with all that an undone run left in it, until the end of the box.  From then on
//
//   init      pid 1, as before, but with an area of shared memory in place of its private mailbox
//   active    the one process that runs code and talks to init
//   sleepers  any number of others, asleep on a futex in the area, all signals blocked
//
// To keep a state the active process makes a copy, and *the copy* goes to sleep; the active process
// goes on.  So a run that is never undone keeps its pid, its children, its locks and its timers.
// The copy is made with CLONE_PARENT, as a child of init, so that os.wait() in user code neither
// finds it nor waits for it.
//
// Invariants:
//   (1) `active` is one pid.  A process that gives way sets it to the pid that it wakes, before it
//       wakes it, so that init does not take its end for a crash.
//   (2) each sleeper has a number.  Only the active process gives numbers; only init frees those
//       of dead processes, and a process that wakes for good frees its own.
//   (3) when the active process dies, init wakes the latest checkpoint of the same fork; without
//       one, the tip of any other fork; without one, the box ends as it does without forks.
//   (4) a process that was woken and dies before checkpoint_settled() takes its checkpoint with it,
//       so that (3) ends.
//   (5) a run stays in the area until it is answered, so that the process that is woken sees that
//       its caller waits.
//   (6) only copies that are made here inherit the area: a child that user code forks has none and
//       cannot answer for its parent.

#ifndef CONSTRICTOR_BOX_CHECKPOINT_H
#define CONSTRICTOR_BOX_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CHECKPOINT_SLEEPERS = 96, // sleepers at one time; usually the limit of processes comes first
    CHECKPOINT_BOARD_MAX = 64 << 10 // bytes of notes
};

enum checkpoint_kind { CHECKPOINT_FREE, CHECKPOINT_STATE, CHECKPOINT_TIP };
enum checkpoint_why {
    CHECKPOINT_UNDO = 1,
    CHECKPOINT_SWITCH,
    CHECKPOINT_CRASH,
    CHECKPOINT_DROPPED
};

// What a process learns when it is woken.
struct checkpoint_wake {
    enum checkpoint_why why;
    int status;           // CHECKPOINT_CRASH: wait status of the one that died
    uint32_t fork_number; // that was active before
    bool asked;           // a run waits for its answer
    bool consumed;        // it does not sleep any more, also not as a copy
};

// Before user code: the limits of the box, which copies for undo must not exceed.
void checkpoint_set_limits(uint64_t memory_bytes, uint32_t processes);
uint64_t checkpoint_memory_limit(void);
uint32_t checkpoint_process_limit(void);

// ---- user process; negative errno on failure ----------------------------------------------------

// Moves into a process of its own.  1: this is the copy, which goes on; the caller is gone.  0: it
// moved earlier.
int checkpoint_begin(void);

// Makes a copy and lets it sleep.  Returns its number; in the copy, once it has been woken,
// CHECKPOINT_WOKEN with `ret`.  `keep`: when woken it makes another copy of itself, which goes on,
// and sleeps again.
enum { CHECKPOINT_WOKEN = CHECKPOINT_SLEEPERS };
int checkpoint_park(uint32_t fork_number, uint32_t serial, enum checkpoint_kind kind, bool keep,
                    struct checkpoint_wake *ret);

// A number for the calling process itself, which will sleep when it gives way.
int checkpoint_reserve(uint32_t fork_number, uint32_t serial);
// Wakes the sleeper `number`, then ends (`own` negative) or sleeps as `own` and returns when it is
// woken.  -ESRCH: there is no such sleeper.
int checkpoint_give_way(int number, enum checkpoint_why why, int own, struct checkpoint_wake *ret);

// Ends the process that sleeps there.
void checkpoint_drop(int number);
bool checkpoint_alive(int number);
void checkpoint_settled(void);

// Notes that belong to no state and are not undone.  `ret` is valid until the next change.
size_t checkpoint_board(const char **ret);
int checkpoint_board_set(const void *data, size_t length);

// ---- init ---------------------------------------------------------------------------------------

long checkpoint_active(void); // 0: not begun
// A child of init is gone.  False: it was the last one that could run code.
bool checkpoint_reaped(long pid, int status);

#endif
