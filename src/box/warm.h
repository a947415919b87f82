// SPDX-License-Identifier: Apache-2.0
//
// warm: the pages that a run writes to, learned once per zygote.
//
// A box begins as a copy of the zygote whose pages are shared until they are written to, and each
// first write is a page fault.  A plain run makes about 100 of them, a quarter of all that a fresh box
// costs.  So the zygote lets one throw-away child rehearse a run, asks the kernel which pages that
// made its own, and every box copies just these in one go, before it is needed and without a fault
// for each.

#ifndef CONSTRICTOR_BOX_WARM_H
#define CONSTRICTOR_BOX_WARM_H

#include <stdbool.h>

// In the rehearsing child: writes what is now its own to `fd`.  0 or a negative errno.
int warm_report(int fd);

// In the zygote: takes the report over, for boxes that nobody waits for yet or for those in a hurry:
// these copy only what every run writes to.  0 or a negative errno; without one nothing is copied ahead.
int warm_take(int fd, bool hurry);

// In the zygote, after the last report: maps what every run reads, so that a fork brings it along, which costs a
// fifteenth of a fault.
void warm_map(void);

// In a new box, as soon as it is in its cgroup.  Best effort: what is not copied now faults later.
void warm_touch(bool hurry);

#endif
