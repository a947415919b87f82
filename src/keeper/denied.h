// SPDX-License-Identifier: Apache-2.0
//
// denied: the keeper's end of a box's listener.  System calls that policy.def marks with TELL come
// here, and get their errno from here and not from the filter; the gate learns what was tried.
// Called by stock.c, tick.c and keeper.c.
//
// Why the keeper and not the gate: the process that answers could also answer "continue".  The gate
// parses hostile input; a compromised gate would hold a key to the filter of every box.  The keeper
// reads a struct of numbers that the kernel wrote, and answers with an errno of a constant table.
// And it needs no gate: calls are denied at the same speed while one is restarted.
//
// SECURITY, step by step, with what each stops:
//   (1) the listener leaves the box with READY, before any user code, and both of its processes
//       close it: code in the box cannot answer for itself, and finds no extra descriptor.
//   (2) only denied calls come here.  The answer is filter_errno(), which is never success, and the
//       flags of an answer are always 0: no CONTINUE, by which a call would go on with whatever its
//       memory holds by then, and no ADDFD.
//   (3) arguments are numbers.  The keeper follows no pointer of a box, does not read its memory
//       and does not use its pid: there is nothing to race with.  A reused pid is harmless, because
//       an answer goes to the id of the call, which the kernel never reuses.
//   (4) the keeper receives a call only when the kernel reports one, and one at a time: so
//       receiving does not block, also when the caller was killed meanwhile (ENOENT), and neither
//       does answering.
//   (5) the work that a box can cause is bounded, in time (DENIED_PER_BOX, DENIED_PER_WINDOW) and
//       memory (DENIED_ROWS): only code that makes such calls in a loop waits for the keeper.
//   (6) without the keeper, or with the listener closed, the kernel answers ENOSYS.

#ifndef CONSTRICTOR_KEEPER_DENIED_H
#define CONSTRICTOR_KEEPER_DENIED_H

#include <stdint.h>

enum {
    DENIED_ROWS = 32,        // different calls in one report
    DENIED_WINDOW_MS = 20,   // in which ...
    DENIED_PER_BOX = 512,    // ... so many calls of a box are answered, ...
    DENIED_PER_WINDOW = 1024 // ... and so many of all boxes: a quarter of a core
};

struct stock;
struct box;

// The rows of one box, made with its first denial.
struct denied {
    uint32_t count;
    uint64_t omitted; // calls for which there was no row
    struct {
        int32_t nr;
        uint32_t detail; // see box/denial.h
        uint64_t unsent;
    } rows[DENIED_ROWS];
};

// The box is handed out: its calls are answered from now on.
void denied_watch(struct stock *s, struct box *b);
// A call arrived, or the last process of the box is gone; `events` are epoll's.
void denied_hear(struct stock *s, uint64_t box, uint32_t events);
// Sends what the gate was not told yet, before the message that ends a run.
void denied_report(struct stock *s, struct box *b);
// At each tick: boxes that had to wait go on.
void denied_resume(struct stock *s);
// The box is gone.
void denied_forget(struct stock *s, struct box *b);

#endif
