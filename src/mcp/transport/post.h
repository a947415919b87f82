// SPDX-License-Identifier: Apache-2.0
//
// post: how answers leave over Streamable HTTP: the exchanges that wait for the answers of calls,
// and the streams of legacy sessions.  Used by mcp/transport/http.c, which has checked the request;
// /sse borrows the streams.

#ifndef CONSTRICTOR_MCP_TRANSPORT_POST_H
#define CONSTRICTOR_MCP_TRANSPORT_POST_H

#include "http/http.h"
#include "mcp/protocol/mcp.h"
#include "mcp/transport/stream.h"

int posts_open(struct mcp *m); // 0, or -1: memory is out
// Ends the streams that wait for news only: subscriptions are told so.
void posts_stop(void);
// Cancels what clients wait for.  The legacy sessions have ended before.
void posts_close(void);
struct streams *posts_streams(void);

// The HTTP status that a client gets whose request is cancelled; 202 unless set otherwise.
void posts_set_dropped(int status);

typedef int check_params_fn(void *argument, json_t *schema, json_t *arguments,
                            struct rpc_refusal *no);

// Serves a request; takes the message.  `session` is NULL for a modern one.  An `initialize` that
// fails ends its session.
void post_request(struct http_exchange *x, struct mcp_client *client, enum mcp_version version,
                  struct rpc_message *m, check_params_fn *check_params);
// Serves the elements of a batch; takes the message.
void post_batch(struct http_exchange *x, struct mcp_client *client, enum mcp_version version,
                struct rpc_message *m);

// A stream for what the server says by itself (GET).
void post_listen(struct http_exchange *x, struct mcp_client *client, enum mcp_version version);
// Goes on behind an event of this session.  False: there is no such event, nothing was answered.
bool post_resume(struct http_exchange *x, struct mcp_client *client, const char *event_id);

// Answers with a refusal, and clears it.
void post_refuse(struct http_exchange *x, struct rpc_refusal *no);

#endif
