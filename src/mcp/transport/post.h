// SPDX-License-Identifier: Apache-2.0
//
// post: answers over Streamable HTTP: the exchanges that wait for the answers of calls, and the
// streams of legacy clients.  Used by mcp/transport/http.c, which checked the request; sse.c shares
// the streams.

#ifndef CONSTRICTOR_MCP_TRANSPORT_POST_H
#define CONSTRICTOR_MCP_TRANSPORT_POST_H

#include "http/http.h"
#include "mcp/protocol/mcp.h"
#include "mcp/transport/stream.h"

void posts_open(struct mcp *m);
// Ends the streams that only wait for updates, subscriptions with their last result.
void posts_stop(void);
// Cancels the calls that clients wait for.  The legacy clients have ended before.
void posts_close(void);
struct streams *posts_streams(void);

// The HTTP status for a cancelled request; 202 by default.
void posts_set_dropped(int status);

typedef int check_params_fn(void *argument, json_t *schema, json_t *arguments,
                            struct rpc_refusal *no);

// Serves a request; takes the message.  `client` is NULL for a modern one.  A failed `initialize`
// ends its client.
void post_request(struct http_exchange *x, struct mcp_client *client, enum mcp_version version,
                  struct rpc_message *m, check_params_fn *check_params);
// Serves the elements of a batch; takes the message.
void post_batch(struct http_exchange *x, struct mcp_client *client, enum mcp_version version,
                struct rpc_message *m);

// A stream for messages that belong to no call (GET).
void post_listen(struct http_exchange *x, struct mcp_client *client, enum mcp_version version);
// Continues after an event of this client.  False: no such event; nothing was answered.
bool post_resume(struct http_exchange *x, struct mcp_client *client, const char *event_id);

// Answers with a refusal, and clears it.
void post_refuse(struct http_exchange *x, struct rpc_refusal *no);

#endif
