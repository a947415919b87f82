// SPDX-License-Identifier: Apache-2.0
//
// sse: the transport of 2024, HTTP with server-sent events: GET /sse opens a stream,
// POST /messages sends messages, answers come on the stream.  Only with --legacy-sse.
//
// A client lives exactly as long as its stream; nothing can be resumed, so its calls end with it.

#ifndef CONSTRICTOR_MCP_TRANSPORT_SSE_H
#define CONSTRICTOR_MCP_TRANSPORT_SSE_H

#include "http/http.h"
#include "mcp/protocol/mcp.h"

// Adds the routes.  Call it after mcp_http_open().
int mcp_sse_open(struct mcp *m, struct http *h, struct err *e);
// Ends every client.  Call it before mcp_http_close().
void mcp_sse_close(void);

#endif
