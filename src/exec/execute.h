// SPDX-License-Identifier: Apache-2.0
//
// execute: what a caller may say of an execute call, as one table for every interface, and how that
// gets into a request (exec/exec.h).  From the table come the checks of REST bodies, the OpenAPI
// document, the table in docs/rest.md, the input schema of tool execute_python, and the reading of
// all of them.  To add a field, add a row, a member of struct exec_request that INTO() names, and
// its use; then write docs/rest.md anew (CONTRIBUTING.md).  Runs in the gate.

#ifndef CONSTRICTOR_EXEC_EXECUTE_H
#define CONSTRICTOR_EXEC_EXECUTE_H

#include "exec/exec.h"
#include "exec/fields.h"

// Surfaces: who has a row.
enum execute_surface {
    EXECUTE_RUN = 1 << 0,     // POST /execute
    EXECUTE_ITEM = 1 << 1,    // an item of POST /batch
    EXECUTE_BATCH = 1 << 2,   // the same, and the batch, for items that do not say it themselves
    EXECUTE_SESSION = 1 << 3, // POST /sessions
    EXECUTE_CHECK = 1 << 4,   // POST /validate
    EXECUTE_TOOL = 1 << 5,    // tool execute_python
    EXECUTE_BACK = 1 << 6,    // POST /executions
};

extern const struct field execute_rows[];
#define EXECUTE_FIELDS(surface) ((struct fields){execute_rows, (surface)})

// Fills in a request from a checked object: texts, code and allowed_imports are borrowed from it.
// Sets the limits of a fresh box; wall_ms and cpu_ms are 0 where the object says nothing.  0, or a
// negative code and `e`, which names the field; the caller clears the request in any case.
int execute_read(struct gate *g, const char *owner, json_t *call, unsigned surface,
                 struct exec_request *ret, struct err *e);

#endif
