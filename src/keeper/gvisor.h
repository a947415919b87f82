// SPDX-License-Identifier: Apache-2.0
//
// gvisor: the second backend (keeper/backend.h): each box is an interpreter in a gVisor sandbox of
// its own, made by runsc.  Runs in the keeper, which only starts runsc (box/sandbox.h) and waits
// for its end.

#ifndef CONSTRICTOR_KEEPER_GVISOR_H
#define CONSTRICTOR_KEEPER_GVISOR_H

#include <limits.h>
#include <stdbool.h>

#include "config/config.h"
#include "keeper/environments.h"
#include "keeper/interp.h"
#include "keeper/shares.h"
#include "keeper/stock.h"

enum {
    GVISOR_MEMORY = 96 << 20, // what gVisor itself takes of a box's control group, at most
    GVISOR_THREADS = 512,     // its own threads, and one more for each of the box
    GVISOR_STOCK_MAX = 2,     // boxes that are kept ready of each kind
    GVISOR_LOG_MAX = 2000,
};

// What it needs to know; filled by the keeper.
struct gvisor {
    const struct config *config;
    const struct interp *interp;
    const struct environments *(*environments)(void *argument);
    const struct shares *shares;
    void *argument;
    char runsc[PATH_MAX]; // "": not looked for yet
};

// The number of an image's tree (stock.h), which is new when it was not used before.
int gvisor_image(struct stock *s, const char *name, struct err *e);

// Finds runsc; 0, or an error that says how to get it.
int gvisor_find(struct gvisor *g, struct err *e);

// An event of the process that stands for the box: it has ended.
void gvisor_ended(struct stock *s, uint64_t id);

// Ends the box and waits for that, without a word to the gate.
void gvisor_end_now(struct stock *s, struct box *b);

#endif
