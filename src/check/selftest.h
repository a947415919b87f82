// SPDX-License-Identifier: Apache-2.0
//
// selftest: the code that doctor runs inside a box: a check of each layer, and with --self-test the
// escape probes.  The table is probes.def, compiled into the program.

#ifndef CONSTRICTOR_CHECK_SELFTEST_H
#define CONSTRICTOR_CHECK_SELFTEST_H

#include <jansson.h>
#include <stdbool.h>

#include "config/config.h"
#include "keeper/caps.h"
#include "keeper/interp.h"

// Its Python source, the same for every call.
extern const char selftest_code[];

// sys.argv for that source, which holds the table; new.  Call it before the process leaves the
// host's namespaces.  NULL when memory is out.
json_t *selftest_argv(const struct config *config, const struct interp *interp, bool with_probes);

// The box's answer about a layer: 1: it holds, 0: it does not, -1: unknown, or not in the table.
// `ret_text` gives details; it belongs to `answer`.
int selftest_look(json_t *answer, enum layer layer, const char **ret_text);

// {"held": n, "total": n, "probes": [{"name", "what", "held", "outcome"}...]} from the box's
// answer.
json_t *selftest_judge(json_t *answer);

#endif
