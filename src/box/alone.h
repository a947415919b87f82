// SPDX-License-Identifier: Apache-2.0
//
// alone: how an interpreter becomes a box in a sandbox of its own, with a kernel that no other box
// shares: gVisor's.  It is not forked from a zygote; it starts, imports, and waits for its run.
//
// Runs as root of the sandbox, in the interpreter, before any user code.  The walls to the host are
// the sandbox's; what is done here bounds the box inside it: one place to write, no capability, the
// limits.

#ifndef CONSTRICTOR_BOX_ALONE_H
#define CONSTRICTOR_BOX_ALONE_H

#include "wire/wire.h"

// Needs the control socket at BOX_CONTROL_FD.  Returns 0 in the user process, or -1 with errno and
// `ret_step`, what failed.
int alone_enter(const struct wire_limits *limits, const char **ret_step);

#endif
