// SPDX-License-Identifier: Apache-2.0
//
// tool_check: checks of code (check/check.h) for tools: validate_code (tool_check.c), and those of
// other servers (set_restricted.c, set_checker.c).

#ifndef CONSTRICTOR_MCP_TOOLS_TOOL_CHECK_H
#define CONSTRICTOR_MCP_TOOLS_TOOL_CHECK_H

#include "check/check.h"
#include "mcp/protocol/mcp.h"

// Checks a text argument of the call against a policy of code_policy_make(), which is taken.
// on_done begins with tool_check_done().  On failure the call is answered.
void tool_check_start(struct mcp_call *c, json_t *code, json_t *policy, bool lint,
                      void (*on_done)(struct check *k));

// The call that waits for a check; NULL: it was answered with the error, and the check is freed.
struct mcp_call *tool_check_done(struct check *k);

#endif
