// SPDX-License-Identifier: Apache-2.0
//
// answer: the result of a run as content for a model: one text within a budget of characters, the
// most important first, with a note where something was left out; pictures; and links to the rest.
// Pure functions of their arguments.

#ifndef CONSTRICTOR_MCP_TOOLS_ANSWER_H
#define CONSTRICTOR_MCP_TOOLS_ANSWER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mcp/tools/outputs.h"

struct answer_options {
    size_t budget; // characters of the text
    bool links;    // resource_link blocks may be given
    bool brief;    // say nothing twice, also not as an address
    bool details;  // usage, ids and the whole traceback, which else are only said when unusual
    uint64_t memory_bytes; // limit of the run, to tell what is unusual; 0: not known
    // Stores the full text of a part, or a picture as base64.  True: it can be read at `ret_uri`.
    bool (*keep)(void *argument, enum output_part part, const char *mime_type, const char *text,
                 size_t length, char ret_uri[OUTPUT_URI_MAX]);
    void *argument;
};

// Makes the content blocks (an array, new) from a run's object: of result_json() or, with "state":
// "running", of a run that goes on.  The object is changed: long texts are shortened and noted in
// "truncated", and pictures are described instead of repeated.  NULL: memory is out.
json_t *answer_make(const struct answer_options *options, json_t *object);

// The object for models that read it beside the content: without what the content says at length,
// and without usage, ids and isolation unless `details`.  New.
json_t *answer_brief_object(json_t *object, bool details);

// A copy in which control characters that break clients are replaced by visible ones: NUL, or with
// `all` every one but tab, line feed and carriage return.  The number of characters stays.  The
// caller frees; NULL: memory is out.
char *answer_clean(const char *text, size_t length, bool all, size_t *ret_length);

// The first `max` characters, then how many were left out, if any.  New.
json_t *answer_clip(const char *text, size_t length, size_t max);

#endif
