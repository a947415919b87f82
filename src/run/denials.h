// SPDX-License-Identifier: Apache-2.0
//
// refusals: system calls that code in a box tried and was denied, as the keeper tells of them
// (WIRE_DENIED), added up for one run.  A box that is held has them (live.h); a run takes them with
// it when it is done.

#ifndef CONSTRICTOR_RUN_DENIALS_H
#define CONSTRICTOR_RUN_DENIALS_H

#include <jansson.h>
#include <stdint.h>

#include "wire/wire.h"

enum { DENIALS_MAX = 32 }; // different ones of a run

struct denials {
    unsigned count;
    uint64_t omitted; // calls for which there was no row
    struct {
        int32_t nr;
        uint32_t detail;
        uint64_t count;
    } rows[DENIALS_MAX];
};

// Adds it; `*all` is made with the first.  Without memory it is lost: it was denied all the same.
void denials_note(struct denials **all, const struct wire_denied *m);

// As events of the layer "seccomp", for events.c: new, or NULL.
json_t *denials_events(const struct denials *all);

#endif
