// SPDX-License-Identifier: Apache-2.0
//
// exec_network: the network of one request to execute code: the rules it gets, and a hint when the
// code failed for want of network.  Called by exec.c.

#ifndef CONSTRICTOR_EXEC_EXEC_NETWORK_H
#define CONSTRICTOR_EXEC_EXEC_NETWORK_H

#include <jansson.h>

#include "exec/exec.h"

// Sets x->network from the rules of the key, the session and the call; NULL: the code may reach
// nothing, and its box has no network.  0, or a negative code and x->error.
int exec_use_network(struct exec *x, const struct session *s, json_t *call);

// Adds a hint to x->result, if it has none, when the code failed to reach a host.
void exec_hint_at_network(struct exec *x, const struct session *s);

#endif
