// SPDX-License-Identifier: Apache-2.0
//
// exec_meta: what the runner in a box gets besides the code: JSON, read by
// python/runner/runner.py.  Called by exec.c.

#ifndef CONSTRICTOR_EXEC_EXEC_META_H
#define CONSTRICTOR_EXEC_EXEC_META_H

#include <jansson.h>
#include <stdint.h>

#include "exec/exec.h"

struct exec_meta {
    json_t *policy;       // NULL: everything is open
    json_t *wheels;       // folders of wheels; NULL: none
    uint32_t fork_number; // EXEC_FORK
    json_t *transformer;  // of restricted_package_path(); NULL: none
};

// For a run in `s`, or in a fresh box (NULL).  New, freed with free(); NULL: memory is out.
char *exec_make_meta(const struct exec *x, const struct session *s, const struct exec_meta *m);

#endif
