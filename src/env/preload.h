// SPDX-License-Identifier: Apache-2.0
//
// preload: which modules the parked boxes of an environment import ahead: those that were declared
// for it, and those that runs in it were seen to import.  Pure; used by nursery.c in the gate.
//
// SECURITY: names that a run reports are the work of hostile code.  They are checked, bounded, and
// used for nothing but an import in a box of the same owner and the same environment, where that
// code may import what it likes.

#ifndef CONSTRICTOR_ENV_PRELOAD_H
#define CONSTRICTOR_ENV_PRELOAD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum {
    PRELOAD_MAX = 32,        // names of one environment, of each kind
    PRELOAD_NAME_MAX = 128,  // characters
    PRELOAD_REPORT_MAX = 16, // names that one run may report
};

struct preload {
    json_t *declared; // array of names, or NULL
    json_t *broken;   // array of names that did not import, or NULL: not tried again
    struct {
        char name[PRELOAD_NAME_MAX + 1];
        unsigned count;
    } learned[PRELOAD_MAX];
    unsigned learned_count;
    unsigned runs; // that imported anything, as the counts are: the older, the less
};

void preload_clear(struct preload *p);

// "numpy", "matplotlib.pyplot": identifiers and dots.
bool preload_is_name(const char *text, size_t length);
// One text with several names, or a list of them: a new array without doubles; NULL and `e`, which
// names the entry.
json_t *preload_check(const json_t *text_or_list, struct err *e);

// A run reports what it imported.  What is no list of names is passed over.
void preload_learn(struct preload *p, const json_t *imports);
// It does not import: left out from now on.
void preload_give_up(struct preload *p, const char *name);
void preload_forgive(struct preload *p); // the environment has changed: all are tried again

// What to import, those that were declared first; new, maybe empty.  NULL: memory is out.
json_t *preload_names(const struct preload *p);
json_t *preload_learned(const struct preload *p); // of these, the learned ones; new

// As it is kept: {"declared": [...], "runs": n, "counts": {name: n}}.  New; NULL: memory is out.
json_t *preload_json(const struct preload *p);
void preload_read(struct preload *p, const json_t *said); // whatever in it is sound

#endif
