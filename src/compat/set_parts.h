// SPDX-License-Identifier: Apache-2.0
//
// set_kit: what the tool sets of other servers (sets.h) share: the result of a run in the parts
// that those servers answered with.  See also set_answer.h.

#ifndef CONSTRICTOR_COMPAT_SET_PARTS_H
#define CONSTRICTOR_COMPAT_SET_PARTS_H

#include "mcp/tools/tools.h"

// Shortens what is too long in the object of a run, which then says so, and keeps all of it to be
// read by its address. Gives the blocks beside the text: pictures and links.  New; NULL: memory is
// out.
json_t *set_blocks(struct mcp_call *c, json_t *object);

// What a program of its own would have written to stderr: what the code did, and behind it the
// traceback.  New text.
json_t *set_stderr(json_t *object);

// Answers with a text as it is.  Takes all: `text` (a JSON text), `blocks` and `structured` (may be
// NULL).  For an object as JSON there is set_answer().
void set_say(struct mcp_call *c, json_t *text, json_t *blocks, json_t *structured, bool is_error);

#endif
