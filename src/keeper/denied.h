// SPDX-License-Identifier: Apache-2.0
//
// denied: the keeper's end of a box's listener: calls that policy.def wants told come here instead
// of getting
// their errno from the filter.  They get it from here, and the gate hears what was tried.  Called
// by stock.c, tick.c and keeper.c.
//
// Why here and not in the gate: whoever answers could also say "go on".  The gate reads what
// strangers send; taken over, it would be a key to the filter of every box.  What is read here is a
// struct of numbers that the kernel wrote, and the answer is one of the errnos of a constant table.
// And it needs no gate: while one has died and the next is not there, calls are denied as fast as
// ever.
//
// SECURITY, step by step, and what each is against:
//   (1) the listener leaves the box with READY, before there is any user code, and both of its
//       processes close it: code in the box cannot answer for itself, nor find a descriptor that it
//       should not have.
//   (2) only calls that are denied come here; what the answer could be is filter_errno(), which has
//       no way to success, and the flags of an answer are always 0: no CONTINUE, by which a call
//       goes on with whatever its memory has become meanwhile, and never an ADDFD.
//   (3) arguments are numbers.  No pointer of a box is followed, its memory is not looked at, its
//       pid is not used: there is nothing to race with.  A process that died and whose number
//       somebody else has now cannot be mixed up, because an answer goes to the id of the call,
//       which the kernel never uses again.
//   (4) a call is received only when the kernel said that there is one, and one at a time: then
//       receiving does not block, also when its process was killed in between (ENOENT), and neither
//       does answering.
//   (5) what a box can make us do has a bound, in time (DENIED_PER_BOX, DENIED_PER_WINDOW) and
//       memory (DENIED_ROWS): code that calls on and on waits for us, and nobody else does.
//   (6) if all this is gone, with the keeper or by closing the listener, the kernel answers ENOSYS.

#ifndef CONSTRICTOR_KEEPER_DENIED_H
#define CONSTRICTOR_KEEPER_DENIED_H

#include <stdint.h>

enum {
    DENIED_ROWS = 32,        // different ones that are told of between two reports
    DENIED_WINDOW_MS = 20,   // in which ...
    DENIED_PER_BOX = 512,    // ... so many calls of a box are answered, ...
    DENIED_PER_WINDOW = 1024 // ... and so many of all boxes: a quarter of a core
};

struct stock;
struct box;

// The rows of one box, made when there is the first.
struct denied {
    uint32_t count;
    uint64_t omitted; // calls for which there was no row
    struct {
        int32_t nr;
        uint32_t detail; // see box/denial.h
        uint64_t unsent;
    } rows[DENIED_ROWS];
};

// The box is handed out: from now on its calls are answered.
void denied_watch(struct stock *s, struct box *b);
// There is a call, or the last process of the box is gone; `events` are epoll's.
void denied_hear(struct stock *s, uint64_t box, uint32_t events);
// What the gate was not told yet; before the message that ends a run.
void denied_report(struct stock *s, struct box *b);
// Those that had to wait go on; by the tick.
void denied_resume(struct stock *s);
// The box is gone.
void denied_forget(struct stock *s, struct box *b);

#endif
