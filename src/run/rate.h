// SPDX-License-Identifier: Apache-2.0
//
// rate: how many runs, N, a key may start per minute (--rate; off by default).  A key may start N
// at once, and then one more every 60/N seconds.  One rule for every way to run code.  Called by
// exec.c in the gate.

#ifndef CONSTRICTOR_RUN_RATE_H
#define CONSTRICTOR_RUN_RATE_H

#include <stdint.h>

#include "base/err.h"

struct rates; // NULL: no limit

struct rates *rates_new(unsigned per_minute); // NULL for 0, or when memory is out
// Counts a run of `owner`.  0, or ERR_RATE and `e`: nothing was counted.  `rates` may be NULL.
int rates_take(struct rates *rates, const char *owner, int64_t now_us, struct err *e);
// In how many seconds the owner may start a run; 0: now.
unsigned rates_wait_s(const struct rates *rates, const char *owner, int64_t now_us);

#endif
