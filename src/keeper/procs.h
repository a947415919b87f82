// SPDX-License-Identifier: Apache-2.0
//
// procs: what the processes of a box hold and use, summed over /proc.
//
// SECURITY: nearly every file below /proc/PID makes the reader wait for a lock that the box can
// hold, so only the sampler calls this, never the keeper:
//   smaps_rollup, maps   wait for mmap_lock of the process
//   kcmp                 waits for exec_update_lock of both processes
//   status, stat         take a reference to the memory of the process; if that is the last one,
//                        the reader unmaps it all, and waits for i_mmap_rwsem of every file in it

#ifndef CONSTRICTOR_KEEPER_PROCS_H
#define CONSTRICTOR_KEEPER_PROCS_H

#include "wire/wire.h"

// Fills in what SAMPLE_PROCESSES asks for.
void procs_look(const struct wire_sample *ask, struct wire_sampled *ret);

#endif
