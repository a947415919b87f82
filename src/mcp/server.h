// SPDX-License-Identifier: Apache-2.0
//
// server: what this server says about itself, and the table of methods.  See mcp.h for the rest.

#ifndef CONSTRICTOR_MCP_SERVER_H
#define CONSTRICTOR_MCP_SERVER_H

#include "mcp/protocol/mcp.h"

// Name, version and so on, with the fields that the revision knows.  Borrowed; made once.
json_t *mcp_server_info(enum mcp_version version);
// The same in short, for every modern result.
json_t *mcp_server_mark(void);

#endif
