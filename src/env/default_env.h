// SPDX-License-Identifier: Apache-2.0
//
// default_env: the environment that every `base` begins with (--environment), and `data`, the one
// that is known by name: what data analysis needs.  Runs in the gate.
//
// Invariants:
//   (1) a `base` without a row has the packages of the default environment; the first change of it
//       makes a row of its own, and a reset removes the row.
//   (2) only the operator's environment of that name counts: no key can change another's `base`.

#ifndef CONSTRICTOR_ENV_DEFAULT_ENV_H
#define CONSTRICTOR_ENV_DEFAULT_ENV_H

#include <jansson.h>

struct gate;

json_t *data_env_packages(void); // new

// Of a server: reads the configuration, and fills `data` if it is wanted and empty.  Progress and
// errors are logged; runs do not wait for it.
void default_env_begin(struct gate *g);

#endif
