// SPDX-License-Identifier: Apache-2.0
//
// exec_packages: the packages of one request to execute code: the environment it runs in, and what
// has to be installed first.  Called by exec.c.

#ifndef CONSTRICTOR_EXEC_EXEC_PACKAGES_H
#define CONSTRICTOR_EXEC_EXEC_PACKAGES_H

#include <jansson.h>

#include "env/warm_boxes.h"
#include "exec/exec.h"

// Installs the packages that the request names, as an argument or in the code (PEP 723).  1: it
// waits for them, and exec_begin() or the end follows; 0: nothing to wait for; negative: x->error.
int exec_wait_for_packages(struct exec *x);
// True: it was waiting, and x->error says that it was cancelled.
bool exec_cancel_packages(struct exec *x);
void exec_free_packages(struct exec *x);

// Does a line of the code begin PEP 723 metadata?
bool exec_has_metadata(const char *code, size_t length);

// The folders in which the code's interpreter looks for packages, new; NULL: only its own.  0, or
// negative and x->error.
int exec_find_path(struct exec *x, struct session *s, json_t **ret);

// The environment of a request, and what to ask of its warm boxes.
struct exec_environment {
    char name[SESSION_ENVIRONMENT_MAX + 1];
    struct warm_box_ask ask;
};
// NULL: the run cannot have a warm box.
const struct warm_box_ask *exec_warm_box_ask(const struct exec *x, const struct session *s,
                                             const json_t *path, const json_t *policy,
                                             struct exec_environment *ret);

// Ends the request without a run, with x->error; on_done comes later.  False: memory is out.
bool exec_end_soon(struct exec *x);

bool exec_begin(struct exec *x); // in exec.c; false: x->error

#endif
