// SPDX-License-Identifier: Apache-2.0
//
// exec_packages: the packages of one request to execute code: which environment it runs in, and
// what has to be installed before.  Called by exec.c.

#ifndef CONSTRICTOR_EXEC_EXEC_PACKAGES_H
#define CONSTRICTOR_EXEC_EXEC_PACKAGES_H

#include <jansson.h>

#include "env/warm_boxes.h"
#include "exec/exec.h"

// Does it name packages, as an argument or in the code (PEP 723)?  1: they are made ready, and
// exec_begin() or the end follows; 0: there is nothing to wait for; negative: x->error.
int exec_wait_for_packages(struct exec *x);
// True: it did wait, and x->error says that it was cancelled.
bool exec_cancel_packages(struct exec *x);
void exec_free_packages(struct exec *x);

// Is there a line that begins such metadata?
bool exec_has_metadata(const char *code, size_t length);

// The folders that the code's interpreter looks for packages in; NULL: only its own.  New.  0, or
// negative and x->error.
int exec_find_path(struct exec *x, struct session *s, json_t **ret);

// Whose folders these are; and a box with its modules that the run may have: NULL: one like any
// other.
struct exec_environment {
    char name[SESSION_ENVIRONMENT_MAX + 1];
    struct warm_box_ask ask;
};
const struct warm_box_ask *exec_warm_box_ask(const struct exec *x, const struct session *s,
                                             const json_t *path, const json_t *policy,
                                             struct exec_environment *ret);

// Without a run, for x->error; on_done comes later.  False: memory is out.
bool exec_end_soon(struct exec *x);

bool exec_begin(struct exec *x); // in exec.c; false: x->error

#endif
