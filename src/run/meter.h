// SPDX-License-Identifier: Apache-2.0
//
// meter: what a box used, read by the gate itself from files of the box's cgroup that the keeper
// opened for it.  Asking the keeper costs a run in a session two process switches, more than a
// short run itself; the kernel's numbers are the same.  Near a limit the keeper still decides.

#ifndef CONSTRICTOR_RUN_METER_H
#define CONSTRICTOR_RUN_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "box/enter.h"
#include "wire/wire.h"

struct meter {
    enum box_cgroup_kind kind;
    unsigned count; // 0: there is none
    int fd[WIRE_METER_FDS];
    uint64_t cpu_user_us, cpu_system_us; // when the last run was over
    uint64_t unseen_us;                  // CPU time of runs that the keeper was not asked about
    uint64_t most_bytes;                 // peak memory of the box as of the last run; 0: unknown
};

// Takes the descriptors; what a run uses counts from now on.
void meter_open(struct meter *m, enum box_cgroup_kind kind, const int *fds, size_t count);
void meter_close(struct meter *m);

// What the last run and the one under way used; changes nothing.  False: there is no meter.
bool meter_peek(const struct meter *m, struct wire_usage *ret);
// What was used since the last time.  False: there is no meter, or the box is near a limit and only
// the keeper can say which.  CPU times in `ret` are right in the second case too.
bool meter_read(struct meter *m, const struct wire_limits *limits, struct wire_usage *ret);

#endif
