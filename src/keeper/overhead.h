// SPDX-License-Identifier: Apache-2.0
//
// overhead: what the kernel holds for the processes of a box beside their pages, where no cgroup is
// charged with it. Open files, mappings, threads and names in scratch are memory of the host that
// no figure of a process shows.
//
// SECURITY: /proc/PID/maps waits for mmap_lock of the process, so only the sampler calls this, see
// procs.h.

#ifndef CONSTRICTOR_KEEPER_OVERHEAD_H
#define CONSTRICTOR_KEEPER_OVERHEAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// A file, folder or link in scratch: inode, entry and a long name; 1,440 measured.
enum { OVERHEAD_NAME = 1536 };

// For open files and threads.  `status` is the text of /proc/PID/status.
uint64_t overhead_bytes(pid_t pid, const char *status);

// For mappings: at most this much, which costs nothing to find out, ...
uint64_t overhead_mappings_most(const char *status);
// ... and really.  Stops counting above `enough`.  Sets `ret_nameless` when there is shared memory
// without a name.
uint64_t overhead_mappings(pid_t pid, uint64_t enough, bool *ret_nameless);

#endif
