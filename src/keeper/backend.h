// SPDX-License-Identifier: Apache-2.0
//
// backend: what makes boxes.  The stock does everything else, for all backends alike: requests,
// pools, limits, ends.  docs/gvisor.md has the contract that a new backend must keep.
//
//   native   forked from the zygote, behind walls of this kernel (make_box.c)
//   gvisor   an interpreter in a sandbox of its own, whose kernel is gVisor's (gvisor.c)
//
// The contract:
//   (1) begin() starts the work and does not wait.  It knows a socket, `far`, that becomes the
//   box's
//       control socket, and the descriptors of its control group.
//   (2) the box sends FRAME_READY or FRAME_FAILED on its control socket (wire/frame.h), once,
//   before
//       any user code.  From there on the gate speaks with it alone.
//   (3) b->pidfd is its init, or a process that stands for it: SIGKILL ends all of the box.  All of
//       its processes are in the box's control group.
//   (4) when it has ended, and no process of it is left, stock_exited() hears of it.

#ifndef CONSTRICTOR_KEEPER_BACKEND_H
#define CONSTRICTOR_KEEPER_BACKEND_H

#include <stdbool.h>

#include "base/err.h"
#include "keeper/stock.h"

struct backend {
    const char *name;
    bool network;   // its boxes may have network
    bool of_zygote; // its boxes end with the zygote
    bool has_stems; // a stem reports their ends
    // `fds`: the far end of the control socket, then `groups` descriptors of its control group,
    // with room for one more; borrowed.
    int (*begin)(struct stock *s, struct box *b, int slot, int *fds, unsigned groups,
                 struct err *e);
    // More than a run may use: what the backend itself takes of memory and processes.
    struct wire_limits (*room)(const struct wire_limits *limits);
    // KeyboardInterrupt for the code of a box that is handed out.
    void (*interrupt)(const struct box *b);
    // Fails while its boxes cannot be made here.  NULL: they can.
    int (*check)(struct stock *s, struct err *e);
};

extern const struct backend native_backend, gvisor_backend;

const struct backend *backend_of(enum box_kind kind);

// The kind of box that a request needs.  SECURITY: what a backend cannot do is refused, never done
// by another one.
int backend_choose(struct stock *s, const struct wire_acquire *m, enum box_kind *ret,
                   struct err *e);

#endif
