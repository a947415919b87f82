// SPDX-License-Identifier: Apache-2.0
//
// shape: the result of a run in the form that a model can use: one text under a budget of
// characters, which says the most important first and what was left out, its pictures, and links to
// the rest. Touches nothing but its arguments.

#ifndef CONSTRICTOR_MCP_TOOLS_SHAPE_H
#define CONSTRICTOR_MCP_TOOLS_SHAPE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "mcp/tools/outputs.h"

struct shape {
    size_t budget; // characters of the text
    bool links;    // resource_link blocks may be given
    // Keeps the full text of a part, or a picture as base64.  True: it can be read at `ret_uri`.
    bool (*keep)(void *argument, enum output_part part, const char *mime_type, const char *text,
                 size_t length, char ret_uri[OUTPUT_URI_MAX]);
    void *argument;
};

// Makes the content blocks (an array, new) of a run's object: of result_json() or, with "state":
// "running", of a run that goes on.  What is too long is shortened in the object as well, which
// then says so in "truncated", and pictures are described there instead of repeated.  NULL: memory
// is out.
json_t *shape_result(const struct shape *s, json_t *object);

// A copy in which control characters that break clients have become visible ones: NUL, or with
// `all`
// every one but tab, line feed and carriage return.  As many characters as before.  The caller
// frees; NULL: memory is out.
char *shape_clean(const char *text, size_t length, bool all, size_t *ret_length);

// The first `max` characters; where there are more, followed by how many those are.  New.
json_t *shape_clip(const char *text, size_t length, size_t max);

#endif
