// SPDX-License-Identifier: Apache-2.0
//
// set_answer: what the answers of the sets restricted and checker have in common: one object, as a
// JSON text and as structured content, and pieces of it.

#ifndef CONSTRICTOR_COMPAT_SET_ANSWER_H
#define CONSTRICTOR_COMPAT_SET_ANSWER_H

#include <stdbool.h>

#include "base/err.h"
#include "mcp/protocol/mcp.h"

// Answers a tools/call: `told` is the text, as JSON with an indentation of two; the structured
// content is the same
// and `more`, what clients of that server do not know.  Takes both; `more` may be NULL.  With
// `failed` memory was out.
void set_answer(struct mcp_call *c, json_t *told, json_t *more, int failed, bool is_error);

// "Line 3: Import 'os' is not allowed" for each entry of a list of violations: array, new.
json_t *set_lines(json_t *violations);

// The fields of an object that are there, in another object.  0 or -1.
int set_copy(json_t *to, json_t *from, const char *const names[], size_t count);

// A line in the log for a run: what became of it, never what it said or was.
void set_log_run(const char *tool, json_t *object);

// What a run has beyond what the other servers tell, by name: new.
json_t *set_run_extras(json_t *object);

#endif
