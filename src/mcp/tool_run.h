// SPDX-License-Identifier: Apache-2.0
//
// tool_run: the tools that run code: execute_python, check_run and get_sandbox_info.

#ifndef CONSTRICTOR_MCP_TOOL_RUN_H
#define CONSTRICTOR_MCP_TOOL_RUN_H

#include "mcp/job.h"
#include "mcp/tools.h"

extern const struct mcp_tool run_tools[]; // ends with a row without a name

// What get_sandbox_info tells: an object, new.  NULL: memory is out.
json_t *tool_run_info(struct mcp *m);

#endif
