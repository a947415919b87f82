// SPDX-License-Identifier: Apache-2.0
//
// check_words: the answer of a check as text, for people and models: every field of the object.
// Pure; used by mcp/tools/tool_check.c and cli/check.c.

#ifndef CONSTRICTOR_CHECK_CHECK_WORDS_H
#define CONSTRICTOR_CHECK_CHECK_WORDS_H

#include <jansson.h>
#include <stdbool.h>

// `name`: the source's name, shown before line numbers; NULL: "line 3" instead.  New, freed with
// free(); NULL: memory is out.  SECURITY: text of the source is in it, so control characters are
// replaced: they could steer a terminal.
char *check_words(json_t *answer, const char *name);

#endif
