// SPDX-License-Identifier: Apache-2.0
//
// denials: system calls that code in a box tried and was denied, as the keeper reports them
// (WIRE_DENIED), added up for one run.  They are collected with the box (live.h); a run takes them
// when it is done.

#ifndef CONSTRICTOR_RUN_DENIALS_H
#define CONSTRICTOR_RUN_DENIALS_H

#include <jansson.h>
#include <stdint.h>

#include "wire/wire.h"

enum { DENIALS_MAX = 32 }; // different calls of a run

struct denials {
    unsigned count;
    uint64_t omitted; // calls that found no free row
    struct {
        int32_t nr;
        uint32_t detail;
        uint64_t count;
    } rows[DENIALS_MAX];
};

// Adds one; the first allocates `*all`.  When memory is out the note is lost: the call was denied
// all the same.
void denials_note(struct denials **all, const struct wire_denied *m);

// As events of the layer "seccomp", for events.c: new, or NULL.
json_t *denials_events(const struct denials *all);

#endif
