// SPDX-License-Identifier: Apache-2.0
//
// stem: the process between the zygote and the boxes of one slot.
//
// It has what the boxes of a slot share one after the other and what takes long to make: user,
// network, ipc and uts namespace, id map, ids, empty bounding set, no_new_privs (box_settle() in
// enter.c). A box is its child, and makes for itself everything in which code could leave
// something: pid, mount and cgroup namespace, scratch, /proc, its limits, Landlock, the last half
// of the filter.
//
// SECURITY: a stem is as trusted as the zygote and has less: C only, no Python, CAP_SYS_ADMIN of a
// user namespace that owns nothing.  Its boxes have its uid and cannot reach it: it is in no pid
// namespace of theirs, is the leader of no process group that they are in (setsid), cannot be
// traced (not dumpable), and no descriptor of it outlives the recipe.
//
// Some boxes have no stem: one with network; one without the filter, which could leave System V
// objects or keys in the slot's namespaces; the only box of a zygote.  Such a box calls
// box_settle() and box_enter() one after the other.

#ifndef CONSTRICTOR_BOX_STEM_H
#define CONSTRICTOR_BOX_STEM_H

#include <stdbool.h>
#include <stdint.h>

#include "box/enter.h"

// SECURITY: the process that makes a box checks this too, not only the keeper, which asks for it.
static inline bool stem_may_make(uint32_t box_flags)
{
    return !(box_flags & (BOX_NETWORK | BOX_WITHOUT_SECCOMP));
}

// The life of a stem, from its clone on: settles, makes the box of the first plan, then those that
// SPAWN messages on `sock` ask for, one at a time, and reports them there as the zygote would.
// Returns 1 in the user process of a box; the stem itself ends when the keeper closes the socket.
int stem_serve(const struct box_plan *first, int sock);

#endif
