// SPDX-License-Identifier: Apache-2.0
//
// exec_tiers: applies the tiers of a run's policy to its box, where the kernel enforces them:
// without "filesystem" scratch is read-only, without "network" there is none.  Called by exec.c.

#ifndef CONSTRICTOR_EXEC_EXEC_TIERS_H
#define CONSTRICTOR_EXEC_EXEC_TIERS_H

#include <jansson.h>

#include "exec/exec.h"

// Narrows the limits and the network of the request, before its session is found or opened.  0, or
// a negative code and x->error: it asks for hosts, and its policy has no network.
int exec_apply_tiers(struct exec *x, const json_t *policy);

// Does the session's scratch, fixed when it was opened, fit the policy?  0, or a negative code and
// x->error.
int exec_check_tiers(struct exec *x, const struct session *s);

// 0, or a negative code and x->error: the session is in another kind of box than the request wants,
// or in one that cannot do this.
int exec_check_sandbox(struct exec *x, const struct session *s);

// Adds a hint to x->result, if it has none, when the code failed to write a file.
void exec_hint_at_files(struct exec *x);

#endif
