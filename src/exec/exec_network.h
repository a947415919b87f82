// SPDX-License-Identifier: Apache-2.0
//
// exec_network: the network of one request to execute code: what it gets, and what to say when the
// code failed because of it.  Called by exec.c.

#ifndef CONSTRICTOR_EXEC_EXEC_NETWORK_H
#define CONSTRICTOR_EXEC_EXEC_NETWORK_H

#include <jansson.h>

#include "exec/exec.h"

// What the code may reach, by its key, its session and the layer of the call.  x->network stays
// NULL when that is nothing, and its box is an ordinary one.  0, or a negative code and x->error.
int exec_use_network(struct exec *x, const struct session *s, json_t *call);

// A hint for code that failed because of what it may not reach, in x->result, if that has none yet.
void exec_hint_at_network(struct exec *x, const struct session *s);

#endif
