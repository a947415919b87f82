// SPDX-License-Identifier: Apache-2.0
//
// shape_display: what a run has shown, for a model: pictures as image blocks, everything else as
// text when it is short, the rest as links.  Called by shape.c.

#ifndef CONSTRICTOR_MCP_TOOLS_SHAPE_DISPLAY_H
#define CONSTRICTOR_MCP_TOOLS_SHAPE_DISPLAY_H

#include "mcp/tools/shape.h"

struct shape_display {
    char *text;               // lines for the text block
    json_t *pictures, *links; // content blocks; all three NULL when nothing was shown
};

// The value of the last expression as a short text, where that is better to read than its repr: a
// table, or a figure that says what it shows.  Borrowed; NULL: it is not.
json_t *shape_display_value(json_t *object);

// Puts a description in the place of the object's "display", without the contents, which are kept
// where they are not all in the answer.  0, or -1 when memory is out; clear `ret` in both cases.
int shape_display(const struct shape *s, json_t *object, struct shape_display *ret);
void shape_display_clear(struct shape_display *d);

#endif
