// SPDX-License-Identifier: Apache-2.0
//
// share: divides a resource among owners, such as bytes of the disk that no quota counts.  An
// owner gets more only while the free part stays at least as large as the owner's part.  So one
// owner has at most half, two have at most a third each, and something is left for the next.

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
