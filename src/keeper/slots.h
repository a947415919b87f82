// SPDX-License-Identifier: Apache-2.0
//
// slots: numbers for boxes, and one host uid for each: as root, or from the ids that the system
// gives an ordinary user (keeper/subids.h).
//
// Kernel limits that are counted per uid (pipe pages, pending signals, inotify watches) are shared
// by all boxes with the same uid, so a separate uid is a boundary.  Several keepers on one machine
// take different ranges: each locks the bytes of its uids in one file, so that any overlap is seen.

#ifndef CONSTRICTOR_KEEPER_SLOTS_H
#define CONSTRICTOR_KEEPER_SLOTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

// Slot 0 is the zygote, the last four are the sampler, the porter, the broker and the gate; the
// rest are boxes.
enum {
    SLOTS = 4096,
    SLOT_GATE = SLOTS - 1,
    SLOT_BROKER = SLOTS - 2,
    SLOT_PORTER = SLOTS - 3,
    SLOT_SAMPLER = SLOTS - 4,
    SLOT_BOXES = SLOTS - 5
};

struct slots {
    uint64_t uid_first, gid_first; // host ids of slot 0; with `delegated` slot 0 is the caller
    uint32_t uid_count;            // SLOTS, or 1: every slot is the caller
    bool delegated;                // the ids are those of /etc/subuid and /etc/subgid
    int lock_fd;
    uint32_t free_count;
    uint16_t free[SLOTS];
};

// Takes a range of uids when the caller may hand them out; otherwise every slot is the caller's
// uid.
int slots_open(struct slots *s, uint32_t uid_base, struct err *e);
void slots_close(struct slots *s);

// An ordinary user: takes subordinate ids, if there are any.  False: `why` and `fix` say what is
// missing.
bool slots_delegate(struct slots *s, char *why, char *fix, size_t cap);
// Gives them back: every slot is the caller again.
void slots_forgo(struct slots *s);

bool slots_have_uids(const struct slots *s); // each box has a host uid of its own
// As root: the server's processes have uids of their own as well, and files can be given to any
// slot.
bool slots_may_give(const struct slots *s);
int slots_take(struct slots *s); // -1: none is left
void slots_give(struct slots *s, int slot);

#endif
