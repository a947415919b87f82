// SPDX-License-Identifier: Apache-2.0
//
// mcp/transport/http: Streamable HTTP, both eras on one path.  Reads a request, decides its era,
// checks its headers in the order that the protocol demands, finds the client, and sends what the
// call says as one JSON body or a stream of events.

#ifndef CONSTRICTOR_MCP_TRANSPORT_HTTP_H
#define CONSTRICTOR_MCP_TRANSPORT_HTTP_H

#include "http/http.h"
#include "mcp/protocol/mcp.h"

// Adds the routes of /mcp.  Once in a process.
void mcp_http_open(struct mcp *m, struct http *h);

// Shutdown begins: ends streams that only wait for updates, subscriptions with their last result.
// Calls go on.
void mcp_http_stop(void);
// Ends every client and every call.  Call it before mcp_close() and http_close().
void mcp_http_close(void);

// The handler, for other routes.  `argument` is not used.
void mcp_http_handle(struct http_exchange *x, void *argument);

// Ends the connection of a legacy call, which goes on; the client resumes with GET (SEP-1699). Does
// nothing if the client could not resume.
void mcp_http_close_stream(struct mcp_call *c);

// Is the body JSON?  False: it was answered.
bool mcp_http_is_json(struct http_exchange *x);

#endif
