// SPDX-License-Identifier: Apache-2.0
//
// notebook: `constrictor run FILE.ipynb`: the code cells of a Jupyter notebook, one after the other
// in one session, up to the first error.  Old outputs, text cells and metadata are ignored.
//
// SECURITY: a notebook may come from a stranger, so the first process only opens it: the gate,
// which has no rights, reads it from the descriptor.

#ifndef CONSTRICTOR_CLI_NOTEBOOK_H
#define CONSTRICTOR_CLI_NOTEBOOK_H

#include <stdbool.h>

#include "base/err.h"
#include "cli/run_show.h"
#include "cli/single_run.h"
#include "config/config.h"

enum { NOTEBOOK_BYTES_MAX = 256 * 1024 * 1024 }; // with its old outputs

bool notebook_is(const struct config *c, const char *operand); // does `run` take it as one?
// In the first process.  A descriptor, or a negative code and `e`.
int notebook_open(const char *path, struct err *e);
// In the gate: opens `o`, reads the notebook from the last descriptor of the plan, runs its cells
// and prints what they show.  Returns the exit status.
int notebook_run(const char *name, struct single_run *o, struct run_show *w, int sock,
                 const struct keeper_facts *facts);

#endif
