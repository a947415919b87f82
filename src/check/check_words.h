// SPDX-License-Identifier: Apache-2.0
//
// check_words: the answer of a check as text, for people and models: all that the object says, a
// line each. Pure; used by mcp/tools/tool_check.c and cli/check.c.

#ifndef CONSTRICTOR_CHECK_CHECK_WORDS_H
#define CONSTRICTOR_CHECK_CHECK_WORDS_H

#include <jansson.h>
#include <stdbool.h>

// `name`: how the source is called, before line numbers; NULL: "line 3" instead.  The caller frees;
// NULL: memory is out.  SECURITY: the source's own text is in it, without what would steer a
// terminal.
char *check_words(json_t *answer, const char *name);

#endif
