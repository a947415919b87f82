// SPDX-License-Identifier: Apache-2.0
//
// warm: the pages that a run reads and writes to, learned once per zygote.
//
// A box begins as a copy of the zygote whose pages are shared until they are written to, and each
// first write is a page fault.  So the zygote lets a throw-away child rehearse a run, asks the kernel
// which pages that made its own, and every box copies just these, before it is needed and without a fault
// for each.  What a run only reads is mapped in the zygote, page by page, and a fork brings it along:
// left to itself the kernel maps sixteen pages where one is read, and all of them are copied by each fork
// and dropped by each exit.

#ifndef CONSTRICTOR_BOX_WARM_H
#define CONSTRICTOR_BOX_WARM_H

#include <stdbool.h>

// In the zygote, before the fork of a child that rehearses.  0 or a negative errno.
int warm_begin(void);

// In the child, before the rehearsal: from here on every page that is used shows.
void warm_watch(void);

// In the child, after it: notes what was used.  0 or a negative errno.
int warm_report(void);

// In the zygote, when the child has ended well: takes the report over, for boxes that nobody waits for yet or for
// those in a hurry: these copy only what every run writes to.
void warm_take(bool hurry);

// In the zygote, after the last report, and in any case before the first box: with `map` maps what every run reads.
// Only for a zygote without other threads, which may be writing to what is mapped anew.
void warm_end(bool map);

// In a new box, as soon as it is in its cgroup.  Best effort: what is not copied now faults later.
void warm_touch(bool hurry);

#endif
