// SPDX-License-Identifier: Apache-2.0
//
// sockets: how much memory the kernel may hold for the sockets of a box, where no cgroup is charged
// with it.

#ifndef CONSTRICTOR_KEEPER_SOCKETS_H
#define CONSTRICTOR_KEEPER_SOCKETS_H

#include "wire/wire.h"

// Reads how large buffers get on this host.
void sockets_open(void);

// Fills in what SAMPLE_SOCKETS asks for: an upper bound, which is closer where it is above half of
// the limit.
void sockets_look(const struct wire_sample *ask, struct wire_sampled *ret);

#endif
