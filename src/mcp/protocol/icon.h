// SPDX-License-Identifier: Apache-2.0
//
// icon: the picture that clients show beside the server and its tools; our own drawing, 48 x 48.

#ifndef CONSTRICTOR_MCP_PROTOCOL_ICON_H
#define CONSTRICTOR_MCP_PROTOCOL_ICON_H

#include <jansson.h>

json_t *mcp_icons_json(void); // the array "icons", new

#endif
