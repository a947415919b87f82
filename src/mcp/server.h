// SPDX-License-Identifier: Apache-2.0
//
// server: opens and closes the MCP server, and has the table of its methods.

#ifndef CONSTRICTOR_MCP_SERVER_H
#define CONSTRICTOR_MCP_SERVER_H

#include "mcp/protocol/mcp.h"

int mcp_open(struct mcp *m, struct event_base *base, struct gate *gate, const struct config *c,
             struct err *e);
void mcp_close(struct mcp *m); // cancels every call, ends every session

#endif
