// SPDX-License-Identifier: Apache-2.0
//
// prompts: the table of prompts, prompts/list, prompts/get and the completion of their arguments.

#ifndef CONSTRICTOR_MCP_TOOLS_PROMPTS_H
#define CONSTRICTOR_MCP_TOOLS_PROMPTS_H

#include "mcp/protocol/mcp.h"

void mcp_handle_prompts_list(struct mcp_call *c);
void mcp_handle_prompts_get(struct mcp_call *c);
void mcp_handle_complete(struct mcp_call *c); // completion/complete: prompts and resource templates

#endif
