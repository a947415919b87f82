// SPDX-License-Identifier: Apache-2.0
//
// answer_internal: what answer.c takes from answer_trace.c: an error and printed text in fewer
// words.  A model needs no frames of libraries, overwritten lines of progress or repeated warnings.
// Pure functions of their arguments, which are the work of user code: hostile.

#ifndef CONSTRICTOR_MCP_TOOLS_ANSWER_INTERNAL_H
#define CONSTRICTOR_MCP_TOOLS_ANSWER_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

// After the headline of an error: further lines of its message, its notes, who called the line that
// failed, where in a library it was raised, and earlier exceptions.  Lines of at most `max`
// characters.
void answer_trace(FILE *f, json_t *error, size_t max);

// A text without lines that were overwritten after a carriage return and, with `repeats`, with
// repeated lines counted; new.  NULL: it is the same, or memory is out.
json_t *answer_fold(json_t *text, bool repeats);

struct answer_options;

// The last line: what is unusual or, with details, verdict, exit code, usage and id.
void answer_foot(FILE *f, const struct answer_options *options, json_t *object, bool brief);
// Was the code interrupted because its time was up?
bool answer_timed_out(json_t *object);

#endif
