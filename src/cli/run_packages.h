// SPDX-License-Identifier: Apache-2.0
//
// run_packages: packages for `run` and `check`: those of --env and --package, those of the code's
// own metadata (PEP 723), and the restricted package for the policy 'restricted'.  A command that
// needs none starts faster without them.

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
    RUN_PACKAGES_MAYBE, // for the policy: the interpreter may have the package
    RUN_PACKAGES_MUST,
};

enum run_packages run_packages_needed(const struct config *c, const char *code, size_t length);

// Before the keeper starts: adds the state folder, the porter that writes to it, and an interpreter
// that reports its packages.
void run_packages_add_to_plan(enum run_packages need, struct keeper_plan *plan);

// In the gate, after gate_enter().
int run_packages_open(enum run_packages need, struct gate *g, struct err *e);

// The packages of --package, checked; a new array.
int run_packages_list(const struct config *c, json_t **ret, struct err *e);

#endif
