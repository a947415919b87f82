// SPDX-License-Identifier: Apache-2.0
//
// network: what every command that makes boxes does about their network: checks the rules, starts
// the broker.  Called in the first process, before the first fork.

#ifndef CONSTRICTOR_CLI_NETWORK_H
#define CONSTRICTOR_CLI_NETWORK_H

#include "base/err.h"
#include "config/config.h"
#include "keeper/keeper.h"

// Reads rules, file, resolvers and the folder of wheels as others will, so that a mistake ends the
// start; warns on stderr, unless `quiet`, when nothing can be reached.  0, or a negative code and
// `e`, which names option, entry and fix.
int network_check_config(const struct config *c, bool quiet, struct err *e);

// Adds broker and file to a plan whose configuration gives anybody network.
void network_add_to_plan(struct keeper_plan *plan);

#endif
