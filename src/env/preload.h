// SPDX-License-Identifier: Apache-2.0
//
// preload: the modules that the warm boxes of an environment import: those declared for it, and
// those that its runs often import.  Pure; used by warm_boxes.c in the gate.
//
// SECURITY: hostile code controls the names that a run reports.  They are checked, bounded, and
// only imported in boxes of the same owner and environment, where that code could import them
// itself.

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
    json_t *broken;   // array of names that failed to import and are not tried again, or NULL
    struct {
        char name[PRELOAD_NAME_MAX + 1];
        unsigned count;
    } learned[PRELOAD_MAX];
    unsigned learned_count;
    unsigned runs; // that imported anything; halved with age, as the counts are
};

void preload_clear(struct preload *p);

// "numpy", "matplotlib.pyplot": identifiers and dots.
bool preload_is_name(const char *text, size_t length);
// One text with several names, or a list of them: a new array without duplicates; NULL and `e`,
// which names the entry.
json_t *preload_check(const json_t *text_or_list, struct err *e);

// Counts the imports that a run reports; ignores anything but names.
void preload_learn(struct preload *p, const json_t *imports);
// Leaves out a module that fails to import.
void preload_give_up(struct preload *p, const char *name);
void preload_forgive(struct preload *p); // the environment changed: all are tried again

// The modules to import, declared ones first; new, maybe empty.  NULL: memory is out.
json_t *preload_names(const struct preload *p);
json_t *preload_learned(const struct preload *p); // of these, the learned ones; new

// As stored: {"declared": [...], "runs": n, "counts": {name: n}}.  New; NULL: memory is out.
json_t *preload_json(const struct preload *p);
void preload_read(struct preload *p, const json_t *said); // takes only its valid parts

#endif
