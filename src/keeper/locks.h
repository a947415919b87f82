// SPDX-License-Identifier: Apache-2.0
//
// locks: how many file locks (fcntl, flock) a box has.  The kernel charges them to no box, about
// 200 bytes each.
//
// SECURITY: reading /proc/locks keeps every process of the host from taking and giving back file
// locks meanwhile, and waits for those that are about to.  So only the sampler calls this, and only
// when the memory of the kernel has grown.

#ifndef CONSTRICTOR_KEEPER_LOCKS_H
#define CONSTRICTOR_KEEPER_LOCKS_H

#include "wire/wire.h"

// Fills in what SAMPLE_LOCKS asks for.
void locks_look(const struct wire_sample *ask, struct wire_sampled *ret);

#endif
