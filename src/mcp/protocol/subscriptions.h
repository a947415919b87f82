// SPDX-License-Identifier: Apache-2.0
//
// subscriptions: which clients hear of which changes, by subscriptions/listen (modern) and
// resources/subscribe (legacy).  The cost of an update depends on the subscriptions to it, not on
// the number of clients.

#ifndef CONSTRICTOR_MCP_PROTOCOL_SUBSCRIPTIONS_H
#define CONSTRICTOR_MCP_PROTOCOL_SUBSCRIPTIONS_H

#include "mcp/protocol/mcp.h"

enum mcp_list { MCP_LIST_TOOLS, MCP_LIST_PROMPTS, MCP_LIST_RESOURCES, MCP_LIST_MAX };

int mcp_subscriptions_open(struct mcp *m, struct err *e);
void mcp_subscriptions_close(struct mcp *m);

void mcp_handle_listen(struct mcp_call *c);               // subscriptions/listen
void mcp_handle_subscribe(struct mcp_call *c);            // resources/subscribe
void mcp_handle_unsubscribe(struct mcp_call *c);          // resources/unsubscribe
void mcp_subscriptions_forget(struct mcp_client *client); // the client ends

// Can this list change?  If not, no client is promised updates.
bool mcp_list_changes(const struct mcp *m, enum mcp_list list);
// Tell the subscribers of one owner, or of all with NULL.
void mcp_list_changed(struct mcp *m, enum mcp_list list, const char *owner);
void mcp_resource_updated(struct mcp *m, const char *uri, const char *owner);
// `task` is borrowed: what tasks/get would answer.
void mcp_task_updated(struct mcp *m, const char *owner, const char *task_id, json_t *task);
bool mcp_task_is_watched(struct mcp *m, const char *task_id);

// Ends every subscriptions/listen when the server shuts down; they do not end by themselves.
void mcp_subscriptions_end_all(struct mcp *m);

// A legacy client agreed on a version: it hears of changed lists from now on.
void mcp_subscriptions_join(struct mcp_client *client);

#endif
