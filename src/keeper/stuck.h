// SPDX-License-Identifier: Apache-2.0
//
// stuck: does a process of the server wait in the kernel without moving?
//
// One that is busy, or that has no CPU for its turn on a busy machine, is not stuck: it is
// runnable, or its clock moves.

#ifndef CONSTRICTOR_KEEPER_STUCK_H
#define CONSTRICTOR_KEEPER_STUCK_H

#include <stdint.h>
#include <sys/types.h>

struct stuck {
    uint64_t cpu_ns;  // of the process, at the last look
    int64_t since_ms; // first look that saw it where it is
    char state;       // as in /proc/PID/stat
};

// How long it has not moved, as far as the looks so far tell; 0: it has.
int64_t stuck_ms(struct stuck *s, pid_t pid, int64_t now_ms);

#endif
