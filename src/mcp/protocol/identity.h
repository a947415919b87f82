// SPDX-License-Identifier: Apache-2.0
//
// identity: what the server says about itself: name, version, icon.

#ifndef CONSTRICTOR_MCP_PROTOCOL_IDENTITY_H
#define CONSTRICTOR_MCP_PROTOCOL_IDENTITY_H

#include "mcp/protocol/mcp.h"

// Name, version and so on, with the fields that the revision knows.  Borrowed; made once.
json_t *mcp_server_info(enum mcp_version version);
// The same in short, for every modern result.
json_t *mcp_server_mark(void);

json_t *mcp_icons_json(void); // the array "icons", new: our drawing, 48 x 48

#endif
