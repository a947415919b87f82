// SPDX-License-Identifier: Apache-2.0
//
// exec_tiers: what the tiers of a run's policy mean for its box, where the kernel holds them:
// without
// "filesystem" scratch is read-only, without "network" there is none.  Called by exec.c.

#ifndef CONSTRICTOR_EXEC_EXEC_TIERS_H
#define CONSTRICTOR_EXEC_EXEC_TIERS_H

#include <jansson.h>

#include "exec/exec.h"

// Before a session is looked for: narrows the limits and the network of the request.  0, or a
// negative code and x->error: it asks for hosts that its policy does not let it have.
int exec_apply_tiers(struct exec *x, const json_t *policy);

// A session has its scratch from the beginning.  0, or a negative code and x->error.
int exec_check_tiers(struct exec *x, const struct session *s);

// A hint for code that failed because it wrote, in x->result, if that has none yet.
void exec_hint_at_files(struct exec *x);

#endif
