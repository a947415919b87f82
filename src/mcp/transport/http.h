// SPDX-License-Identifier: Apache-2.0
//
// mcp/transport/http: Streamable HTTP, both eras on one path.  Reads a request, decides its era,
// checks its headers in the order that the protocol demands, finds the session, and turns what the
// call sends into one JSON body or a stream of events.

#ifndef CONSTRICTOR_MCP_TRANSPORT_HTTP_H
#define CONSTRICTOR_MCP_TRANSPORT_HTTP_H

#include "http/http.h"
#include "mcp/protocol/mcp.h"

// Adds the routes of /mcp.  There is one such server in a process.
int mcp_http_open(struct mcp *m, struct http *h, struct err *e);

// Shutdown begins: streams that wait for news only are ended, subscriptions with their last result.
// What runs goes on.
void mcp_http_stop(void);
// Ends every session and every call that a client waits for.  To be called before mcp_close() and
// http_close().
void mcp_http_close(void);

// The handler itself, for a route of another path.  `argument` is not used.
void mcp_http_handle(struct http_exchange *x, void *argument);

// Ends the connection of a legacy call that goes on; the client comes back with GET (SEP-1699).
// Does nothing where a client could not come back.
void mcp_http_close_stream(struct mcp_call *c);

// Is the body JSON?  If not, it was answered.
bool mcp_http_is_json(struct http_exchange *x);

#endif
