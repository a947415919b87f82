// SPDX-License-Identifier: Apache-2.0
//
// share: a resource that many owners share, such as bytes on the disk that no quota counts.  An
// owner gets more only if at least as much as it would then have stays free: so one owner has at
// most half, and two leave some for a third.

#ifndef CONSTRICTOR_FILES_SHARE_H
#define CONSTRICTOR_FILES_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

TAILQ_HEAD(share, share_part);

struct share_part {
    struct share *of; // NULL: nothing was taken
    const char *owner;
    uint64_t amount;
    TAILQ_ENTRY(share_part) list;
};

// `max` is the whole resource; `owner` is borrowed until share_give().  False: too little is free.
bool share_take(struct share *s, struct share_part *p, const char *owner, uint64_t amount,
                uint64_t max);
void share_give(struct share_part *p); // fine when nothing was taken

#endif
