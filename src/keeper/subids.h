// SPDX-License-Identifier: Apache-2.0
//
// subids: host ids that an ordinary user may hand out (/etc/subuid, /etc/subgid), so that each of
// its boxes has one of its own, as root's have.  The kernel lets only root's programs newuidmap and
// newgidmap write such a map.

#ifndef CONSTRICTOR_KEEPER_SUBIDS_H
#define CONSTRICTOR_KEEPER_SUBIDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"

struct subids {
    uint64_t uid_first, gid_first; // of the longest range of each
    uint64_t count;                // of the shorter of both
};

// The caller's ranges, if they have at least `least` ids and both programs exist and work, which is
// tried.  False: `why` is the reason and `fix` what to do.
bool subids_find(struct subids *ret, uint64_t least, char *why, char *fix, size_t cap);

// The longest range that `file` gives to this user, by name or by number; returns its length.
// Public for the tests.
uint64_t subids_read(FILE *file, const char *user, uid_t uid, uint64_t *ret_first);

// Is everything below `path` readable by other users, as a box with another uid has to read it?
// False: `ret` is what is not.
bool subids_may_read(const char *path, char *ret, size_t cap);

#endif
