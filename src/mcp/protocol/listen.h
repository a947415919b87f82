// SPDX-License-Identifier: Apache-2.0
//
// listen: who wants to know of changes: subscriptions/listen (modern) and resources/subscribe
// (legacy). An update costs as much as it has readers, not as there are sessions.

#ifndef CONSTRICTOR_MCP_PROTOCOL_LISTEN_H
#define CONSTRICTOR_MCP_PROTOCOL_LISTEN_H

#include "mcp/protocol/mcp.h"

enum mcp_list { MCP_LIST_TOOLS, MCP_LIST_PROMPTS, MCP_LIST_RESOURCES, MCP_LIST_MAX };

int mcp_listen_open(struct mcp *m, struct err *e);
void mcp_listen_close(struct mcp *m);

void mcp_handle_listen(struct mcp_call *c);        // subscriptions/listen
void mcp_handle_subscribe(struct mcp_call *c);     // resources/subscribe
void mcp_handle_unsubscribe(struct mcp_call *c);   // resources/unsubscribe
void mcp_listen_forget(struct mcp_client *client); // the session ends

// Does this list ever change?  If not, no client is promised news of it.
bool mcp_list_changes(const struct mcp *m, enum mcp_list list);
// For the readers of one owner, NULL: for all.
void mcp_list_changed(struct mcp *m, enum mcp_list list, const char *owner);
void mcp_resource_updated(struct mcp *m, const char *uri, const char *owner);
// `task` is borrowed: what tasks/get would answer.
void mcp_task_updated(struct mcp *m, const char *owner, const char *task_id, json_t *task);
bool mcp_task_has_readers(struct mcp *m, const char *task_id);

// Ends every subscriptions/listen as a server that shuts down does; they would not end by
// themselves.
void mcp_listen_end_all(struct mcp *m);

// A legacy session agreed on a version: it hears of changed lists from now on.
void mcp_listen_join(struct mcp_client *client);

#endif
