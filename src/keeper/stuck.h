// SPDX-License-Identifier: Apache-2.0
//
// stuck: does a process of the server wait in the kernel without moving?
//
// A busy process, or one without a CPU on a busy machine, is not stuck: it is runnable, or its
// clock moves.

#ifndef CONSTRICTOR_KEEPER_STUCK_H
#define CONSTRICTOR_KEEPER_STUCK_H

#include <stdint.h>
#include <sys/types.h>

struct stuck {
    uint64_t cpu_ns;  // of the process, at the last look
    int64_t since_ms; // first look that saw it where it is
    char state;       // as in /proc/PID/stat
};

// How long the process has not moved, by the looks so far; 0: it has moved.
int64_t stuck_ms(struct stuck *s, pid_t pid, int64_t now_ms);

#endif
