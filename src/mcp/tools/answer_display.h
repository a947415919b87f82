// SPDX-License-Identifier: Apache-2.0
//
// answer_display: what a run displayed, for a model: pictures as image blocks, sound as audio
// blocks, PDF as embedded resources, short text as text, the rest as links.  Called by answer.c.

#ifndef CONSTRICTOR_MCP_TOOLS_ANSWER_DISPLAY_H
#define CONSTRICTOR_MCP_TOOLS_ANSWER_DISPLAY_H

#include "mcp/tools/answer.h"

struct answer_display {
    char *text;            // lines for the text block
    json_t *media, *links; // content blocks; all three NULL when nothing was shown
};

// The value of the last expression as a short text, where that is better to read than its repr: a
// table, or a figure that says what it shows.  Borrowed; NULL: it is not.
json_t *answer_display_value(json_t *object);

// Puts a description in the place of the object's "display", without the contents, which are kept
// where they are not all in the answer.  0, or -1 when memory is out; clear `ret` in both cases.
int answer_display(const struct answer_options *options, json_t *object,
                   struct answer_display *ret);
void answer_display_clear(struct answer_display *d);

#endif
