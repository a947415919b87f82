// SPDX-License-Identifier: Apache-2.0
//
// selftest: what doctor has run inside a box: a look at each layer, and with --self-test the escape
// probes.  The table is probes.def; it ships in the program.

#ifndef CONSTRICTOR_CLI_SELFTEST_H
#define CONSTRICTOR_CLI_SELFTEST_H

#include <jansson.h>
#include <stdbool.h>

#include "config/config.h"
#include "keeper/caps.h"
#include "keeper/interp.h"

// The Python source of it, the same for every call.
extern const char selftest_code[];

// sys.argv for that source, with the table in it: new.  To be called with the host's namespaces
// still around.  NULL when memory is out.
json_t *selftest_argv(const struct config *config, const struct interp *interp, bool with_probes);

// What the box answered about a layer: 1 it holds, 0 it does not, -1 it could not be seen (or is
// not in the table).  `ret_text` says how; it belongs to `answer`.
int selftest_look(json_t *answer, enum layer layer, const char **ret_text);

// {"held": n, "total": n, "probes": [{"name", "what", "held", "outcome"}...]} from the box's
// answer.
json_t *selftest_judge(json_t *answer);

#endif
