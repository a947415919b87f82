// SPDX-License-Identifier: Apache-2.0
//
// run_packages: environments of packages for a command that has code run or checked once (`run`,
// `check`): those that are named with --env or --package, those of the code's own metadata (PEP
// 723), and RestrictedPython for the policy of that name.  A command that needs none of them starts
// without, which is faster.

#ifndef CONSTRICTOR_CLI_RUN_PACKAGES_H
#define CONSTRICTOR_CLI_RUN_PACKAGES_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"
#include "config/config.h"
#include "keeper/keeper.h"
#include "run/gate.h"

enum run_packages {
    RUN_PACKAGES_NONE,
    RUN_PACKAGES_MAYBE, // for the policy: the interpreter may have what it needs
    RUN_PACKAGES_MUST,
};

enum run_packages run_packages_needed(const struct config *c, const char *code, size_t length);

// Before the keeper is started: a state folder, who writes to it, and an interpreter that looks
// what it has.
void run_packages_add_to_plan(enum run_packages need, struct keeper_plan *plan);

// In the gate, after gate_enter().
int run_packages_open(enum run_packages need, struct gate *g, struct err *e);

// Those of --package, checked; new.
int run_packages_list(const struct config *c, json_t **ret, struct err *e);

#endif
