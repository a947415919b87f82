// SPDX-License-Identifier: Apache-2.0
//
// shape_state: what a run has left behind, for a model: the session and whether it still has its
// state, files, variables, checkpoints.  Called by shape.c.

#ifndef CONSTRICTOR_MCP_TOOLS_SHAPE_STATE_H
#define CONSTRICTOR_MCP_TOOLS_SHAPE_STATE_H

#include <stdio.h>

#include "mcp/tools/shape.h"

// What has to be said before anything else: that state was lost.
void shape_state_head(FILE *f, json_t *object);
// ", session 'analysis' #3", or nothing.
void shape_state_foot(FILE *f, json_t *object);

// Lines for files, variables and checkpoints, at most a fifth of the budget; nothing when there is
// nothing to say.
void shape_state_body(FILE *f, const struct shape *s, json_t *object);
// A resource_link block for each file, as many as are named in the text: an array, new.
json_t *shape_state_links(json_t *object);

#endif
