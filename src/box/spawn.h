// SPDX-License-Identifier: Apache-2.0
//
// spawn: the zygote's loop.  It takes SPAWN messages from the keeper, clones boxes and reports
// their ends; it runs C between the clone and the box's user process and never user code.
//
// The zygote is root in a user namespace of its own that owns no more than its jail: outside of it,
// it is an ordinary uid without capabilities.

#ifndef CONSTRICTOR_BOX_SPAWN_H
#define CONSTRICTOR_BOX_SPAWN_H

#include <stdbool.h>

// Descriptors that the keeper leaves open across the exec of the interpreter.
enum {
    ZYGOTE_SOCKET_FD = 3, // SOCK_SEQPACKET to the keeper
    ZYGOTE_FILTER_FD = 4, // the system call filter, as bytes
    ZYGOTE_PROC_FD = 5,   // a procfs in which boxes are visible
};

struct spawn_hooks { // what the interpreter wants around a fork
    void (*before)(void);
    void (*after_in_zygote)(void);
};

// Returns 1 in the user process of a new box, 0 in the zygote when the keeper is gone, or a
// negative errno when the zygote cannot work.  `single`: one box is all that there will be.
int spawn_serve(const struct spawn_hooks *hooks, bool single);

// Sends ZYGOTE_READY with a report of at most WIRE_REPORT_MAX bytes.  0 or a negative errno.
int spawn_ready(const char *report, unsigned length);

#endif
