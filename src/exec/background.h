// SPDX-License-Identifier: Apache-2.0
//
// background: the runs of a gate that no call waits for, from any interface: how many there may be,
// and how long their results are kept.  A run that an interface begins embeds a struct background;
// what it is besides is its own.  Runs in the gate.

#ifndef CONSTRICTOR_EXEC_BACKGROUND_H
#define CONSTRICTOR_EXEC_BACKGROUND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/id.h"
#include "exec/exec.h"

enum { BACKGROUND_MAX = 64 }; // runs and results of all callers

struct background {
    struct gate *gate;
    char owner[65], id[ID_SIZE];
    bool done;
    int64_t end_ms; // when a result is forgotten
    // Frees it: its time is over, or its place is needed.  It also tells whose it is.
    void (*drop)(struct background *b);
    TAILQ_ENTRY(background) entry;
};

// At one time: they leave a quarter of all runs to the foreground.
unsigned background_most(const struct gate *g);
unsigned background_going_on(const struct gate *g, const char *owner); // NULL: of all

// Makes room for one more run of this owner; a result may be dropped for it, but never one of an
// owner that has fewer.  0, or ERR_BUSY and `e`.
int background_admit(struct gate *g, const char *owner, struct err *e);
int background_add(struct background *b);  // its gate, owner, id and drop are set; -1: no memory
void background_end(struct background *b); // it is done: its result is kept for an hour
void background_remove(struct background *b);

// NULL: there is none that this owner may see.
struct background *background_find(struct gate *g, const char *owner, const char *id,
                                   void (*drop)(struct background *b));
// The one after `b`, oldest first; NULL begins.
struct background *background_next(struct gate *g, const char *owner, struct background *b,
                                   void (*drop)(struct background *b));

struct background *background_any(struct gate *g, void (*drop)(struct background *b)); // of all

#endif
