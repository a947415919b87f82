// SPDX-License-Identifier: Apache-2.0
//
// oom: did the kernel end a process because the machine, or the container around this server, had
// no memory left? A box that died by SIGKILL then says out_of_memory, also where it was far below
// its own limit.  Runs in the keeper.

#ifndef CONSTRICTOR_KEEPER_OOM_H
#define CONSTRICTOR_KEEPER_OOM_H

#include <stdbool.h>

// From the keeper's timer: keeps the count of the kernel up to date, once a second at most (it
// takes some 30 us).
void oom_look(void);
// For a box that ended by itself.  True: there was such an end within the last two seconds.
bool oom_was_recent(void);

#endif
