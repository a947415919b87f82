// SPDX-License-Identifier: Apache-2.0
//
// pulse: what the gate lets the keeper see of its life: see keeper/watchdog.h.  Shared memory that
// the keeper maps before it forks the gate; writing costs no system call.

#ifndef CONSTRICTOR_WIRE_PULSE_H
#define CONSTRICTOR_WIRE_PULSE_H

#include <stdatomic.h>
#include <stdint.h>

struct pulse {
    _Atomic uint64_t turns; // of the gate's loop
    _Atomic uint64_t box;   // which box it is working on; 0: none
};

// Before anything of a box is touched.  Returns the box that was there before, for pulse_leave().
static inline uint64_t pulse_enter(struct pulse *p, uint64_t box)
{
    return p ? atomic_exchange_explicit(&p->box, box, memory_order_relaxed) : 0;
}

static inline void pulse_leave(struct pulse *p, uint64_t before)
{
    if (p)
        atomic_store_explicit(&p->box, before, memory_order_relaxed);
}

#endif
