// SPDX-License-Identifier: Apache-2.0
//
// idmap: the id maps of a new user namespace, written by its parent.

#ifndef CONSTRICTOR_BOX_IDMAP_H
#define CONSTRICTOR_BOX_IDMAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct idmap {
    uint64_t uid_first, gid_first; // host ids of id 0
    uint64_t count;                // 1: the caller's own ids, and nothing else
    bool exact;  // id 0 is uid_first and gid_first, and there is no other: a keeper with rights
    bool helped; // by newuidmap and newgidmap: id 0 is the caller's own id, id 1 is uid_first + 1
};

// Are the helpers there, and root's?  NULL, or the name of one that is not.
const char *idmap_missing_helper(void);

int idmap_write(const struct idmap *map, pid_t pid, struct err *e);

#endif
