// SPDX-License-Identifier: Apache-2.0
//
// spawn_message: turns a SPAWN message of the keeper into the plan of a box, for the process that
// makes it: the zygote (spawn.c) or the stem of a slot (stem.c).

#ifndef CONSTRICTOR_BOX_SPAWN_MESSAGE_H
#define CONSTRICTOR_BOX_SPAWN_MESSAGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "box/enter.h"
#include "wire/wire.h"

// In the zygote, once: what goes into every plan.  0 or a negative errno.
int spawn_message_prepare(void);

// What the zygote loads before the first box, see box/filter.h.
const struct sock_fprog *spawn_message_first_filter(void);

// Borrows the descriptors: control, stdout, stderr, those of the groups, and the socket of a new
// stem.  0 or -EPROTO.
int spawn_message_plan(const struct wire_spawn *m, const int *fds, size_t count,
                       struct box_plan *ret);

// Zeroed memory for bookkeeping, excluded from forks.  NULL with errno.
void *spawn_message_bookkeeping(size_t size);

void spawn_message_exited(uint64_t box, int status, const struct rusage *usage,
                          struct wire_exited *ret);

#endif
