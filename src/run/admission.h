// SPDX-License-Identifier: Apache-2.0
//
// admission: which key may run how much at one time.  A run is admitted from its start to its end,
// also while it waits for a box or for its turn in a session; at most --runs are admitted.
//
// SECURITY: a key must not shut out others.  One rule for every way to run code, over MCP and REST
// alike:
//   1. While more than a quarter of --runs is free, every key may start a run.
//   2. The last quarter is divided among the other keys: a key with fewer runs than that share may
//      start one.
// So each key always finds its share, whatever the others run: the key that filled the rest gets
// none of the last quarter.  With more keys than runs in the quarter (or tokens, whose owners are
// not known ahead) the share is 1.  A server with one key, or with none, has one owner, which may
// use all of --runs.

#ifndef CONSTRICTOR_RUN_ADMISSION_H
#define CONSTRICTOR_RUN_ADMISSION_H

#include "base/err.h"

struct gate;
struct admitted; // an owner with runs

// Admits a run.  0, or ERR_BUSY and `e`.  `owner` may be "": the gate itself, which has no share.
int admission_take(struct gate *g, const char *owner, struct admitted **ret, struct err *e);
void admission_return(struct gate *g, struct admitted **p); // may be NULL

// Would a run be admitted?
int admission_check(const struct gate *g, const char *owner, struct err *e);

// The most runs that one owner can have; 0: no bound.
unsigned admission_most(const struct gate *g);

#endif
