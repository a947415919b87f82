// SPDX-License-Identifier: Apache-2.0
// set_answer: answers that the tool sets share: one object as JSON text and as structured content,
// or the result of a run in parts.

#ifndef CONSTRICTOR_COMPAT_SET_ANSWER_H
#define CONSTRICTOR_COMPAT_SET_ANSWER_H

#include <stdbool.h>

#include "base/err.h"
#include "mcp/protocol/mcp.h"

// Answers a tools/call.  The text is `told`, as JSON with an indentation of two; the structured
// content is `told` and `more`, which clients of that server do not know.  Takes both; `more` may
// be NULL.  `failed`: memory was out.
void set_answer(struct mcp_call *c, json_t *told, json_t *more, int failed, bool is_error);
// The same with more blocks behind the text: array, taken; may be NULL.
void set_answer_with(struct mcp_call *c, json_t *told, json_t *more, json_t *blocks, int failed,
                     bool is_error);

// The pictures among what a run displayed, as blocks: array, new; NULL: memory is out.
json_t *set_pictures(json_t *object);

// "Line 3: Import 'os' is not allowed" for each entry of a list of violations: array, new.
json_t *set_lines(json_t *violations);

// Copies those of the fields that an object has.  0 or -1.
int set_copy(json_t *to, json_t *from, const char *const names[], size_t count);

// Logs how a run ended; never its code or output.
void set_log_run(const char *tool, json_t *object);

// The fields of a run that the other servers do not send: new.
json_t *set_run_extras(json_t *object);

// Shortens long texts in the object of a run, notes that in the object, and keeps the whole texts
// as resources.  Returns the blocks besides the text: pictures and links.  New; NULL: memory is
// out.
json_t *set_blocks(struct mcp_call *c, json_t *object);

// stderr as a program of its own would have written it: the code's output, then the traceback.  New
// text.
json_t *set_stderr(json_t *object);

// Answers with a plain text; set_answer() is for an object.  Takes all: `text` (a JSON string),
// `blocks` and `structured` (both may be NULL).
void set_say(struct mcp_call *c, json_t *text, json_t *blocks, json_t *structured, bool is_error);

#endif
