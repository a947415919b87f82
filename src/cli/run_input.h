// SPDX-License-Identifier: Apache-2.0
//
// run_input: what `run` gives the code besides its arguments: environment variables.  Called in the
// first process, with the rights of the user, before anything else starts.

#ifndef CONSTRICTOR_CLI_RUN_INPUT_H
#define CONSTRICTOR_CLI_RUN_INPUT_H

#include <jansson.h>

#include "base/err.h"
#include "config/config.h"

// The variables of --env-var, new and checked; NULL in `ret` without one.
int run_env_vars(const struct config *c, json_t **ret, struct err *e);

#endif
