// SPDX-License-Identifier: Apache-2.0
//
// places: who may run how much at one time.  A run has a place from its start to its end, also
// while it waits for a box or for its turn in a session; there are --runs of them.
//
// SECURITY: a key must not shut out others.  One rule for every way to run code, on MCP and REST
// alike:
//   1. While more than a quarter of the places is free, every key gets one.
//   2. The last quarter is divided among the other keys: a key that has fewer places than that
//   share gets one.
// So each key always finds its share, whatever the others hold: the key that filled the rest takes
// none of the last quarter.  With more keys than places in the quarter (or tokens, whose owners are
// not known ahead) the share is 1. A server with one key, or with none, has one owner, who may use
// every place.

#ifndef CONSTRICTOR_RUN_ADMISSION_H
#define CONSTRICTOR_RUN_ADMISSION_H

#include "base/err.h"

struct gate;
struct admitted; // an owner that has places

// Takes a place.  0, or ERR_BUSY and `e`.  `owner` may be "": the gate's own, which has no share.
int admission_take(struct gate *g, const char *owner, struct admitted **ret, struct err *e);
void admission_return(struct gate *g, struct admitted **p); // may be NULL

// Would it get one?
int admission_check(const struct gate *g, const char *owner, struct err *e);

// The most places that one owner can have; 0: there is no bound.
unsigned admission_most(const struct gate *g);

#endif
