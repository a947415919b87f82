// SPDX-License-Identifier: Apache-2.0
//
// client: what a legacy client agreed on with `initialize`, and its calls in flight.  stdio has one
// for the process (also for modern calls, which use only its table of calls); HTTP has one for each
// Mcp-Session-Id and each /sse stream.
//
// An HTTP client ends by DELETE, after some time without a request (never while a call is in
// flight), or as the longest idle one when there are too many.

#ifndef CONSTRICTOR_MCP_PROTOCOL_CLIENT_H
#define CONSTRICTOR_MCP_PROTOCOL_CLIENT_H

#include "mcp/protocol/mcp.h"

enum { MCP_SESSION_ID_LENGTH = 43 }; // 258 bits

struct mcp_client {
    struct mcp *mcp;
    char id[MCP_SESSION_ID_LENGTH + 1]; // "" on stdio
    char owner[MCP_OWNER_MAX + 1];
    bool agreed; // initialize was answered
    enum mcp_version version;
    json_t *capabilities; // of the client; NULL before initialize
    int log_level;        // enum mcp_level
    void *calls;          // tsearch tree by key
    unsigned call_count;
    void *questions; // tsearch tree: open questions to the client by number
    uint64_t next_question;
    struct mcp_listener *listener; // subscriptions.c
    struct mcp_outlet *outlet; // for what belongs to no call; NULL: the client does not listen now
    int64_t used_ms;
    struct mcp_client *older, *newer; // by last use; HTTP only
    // Of the transport; on_end is called at every end.
    void *transport;
    void (*on_end)(struct mcp_client *client);
};

// A client in the table, with a fresh id and an idle limit.  At the cap the longest idle client
// without calls is ended.  NULL: there is none such, or no memory.
struct mcp_client *mcp_client_new(struct mcp *m, const char *owner);
// A client outside of the table: stdio, and /sse streams, which end with their connection.
struct mcp_client *mcp_client_new_private(struct mcp *m, const char *owner);
// Finds by id, only for the same owner; marks it used.
struct mcp_client *mcp_client_find(struct mcp *m, const char *id, const char *owner);
void mcp_client_touch(struct mcp_client *client);
// Ends the clients of every owner for which `knows` returns false: its key was removed.
void mcp_clients_dismiss(struct mcp *m, bool (*knows)(const char *owner, void *argument),
                         void *argument);
// Cancels its calls, forgets its subscriptions, calls on_end, frees.
void mcp_client_end(struct mcp_client *client);

// Calls in flight; used by call.c.
int mcp_client_add_call(struct mcp_client *client,
                        struct mcp_call *c); // -1: such an id is in flight
void mcp_client_remove_call(struct mcp_client *client, struct mcp_call *c);
struct mcp_call *mcp_client_find_call(struct mcp_client *client, json_t *id);

// A notification that belongs to no call.  Takes params.
void mcp_client_notify(struct mcp_client *client, const char *method, json_t *params);

#endif
