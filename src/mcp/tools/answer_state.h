// SPDX-License-Identifier: Apache-2.0
//
// answer_state: the part of an answer about what a run left behind: session, files, variables,
// checkpoints.  Called by answer.c.

#ifndef CONSTRICTOR_MCP_TOOLS_ANSWER_STATE_H
#define CONSTRICTOR_MCP_TOOLS_ANSWER_STATE_H

#include <stdio.h>

#include "mcp/tools/answer.h"

// The first line of the answer if state was lost.
void answer_state_head(FILE *f, json_t *object);
// Was the session opened by this run?
bool answer_state_is_new(json_t *object);
// "session 'analysis' #3" after `lead`, or nothing.
void answer_state_foot(FILE *f, json_t *object, const char *lead);

// Lines for files, variables and checkpoints, if any; at most a fifth of the budget.
void answer_state_body(FILE *f, const struct answer_options *options, json_t *object);
// A resource_link block for each file that the text names: an array, new.
json_t *answer_state_links(json_t *object);

#endif
