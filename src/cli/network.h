// SPDX-License-Identifier: Apache-2.0
//
// network: checks the network rules and adds the broker, for every command that makes boxes. Called
// in the first process, before the first fork.

#ifndef CONSTRICTOR_CLI_NETWORK_H
#define CONSTRICTOR_CLI_NETWORK_H

#include "base/err.h"
#include "config/config.h"
#include "keeper/keeper.h"

// Checks rules, file, resolvers and the folder of wheels, so that a mistake stops the start.  Warns
// on stderr, unless `quiet`, when code can reach nothing.  Returns 0, or a negative code and `e`,
// which names option, entry and fix.
int network_check_config(const struct config *c, bool quiet, struct err *e);

// Adds the broker and the file of rules, if code or installs may use the network.
void network_add_to_plan(struct keeper_plan *plan);

#endif
