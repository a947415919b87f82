// SPDX-License-Identifier: Apache-2.0
//
// session: what a legacy client agreed on with `initialize`, and the calls that it has in flight.
// stdio has one for the process (also for modern calls, which only use its table of calls); HTTP
// has one for each Mcp-Session-Id or each /sse stream.
//
// An HTTP session ends by DELETE, after some time without a request (never while a call is in
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
    struct mcp_listener *listener; // what it wants to hear of (listen.c)
    struct mcp_outlet *outlet; // for what belongs to no call; NULL: nobody listens at the moment
    int64_t used_ms;
    struct mcp_client *older, *newer; // of the same server, by last use; HTTP only
    // The transport's own: called when the session ends for whatever reason.
    void *transport;
    void (*on_end)(struct mcp_client *client);
};

// A session in the table, with a fresh id and an idle limit.  NULL: memory is out.  At the cap the
// longest idle session without calls is ended; with none such: NULL.
struct mcp_client *mcp_client_new(struct mcp *m, const char *owner);
// One that is not in the table: stdio, /sse streams (which end with their connection).
struct mcp_client *mcp_client_new_private(struct mcp *m, const char *owner);
// Finds by id, only for the same owner; marks it used.
struct mcp_client *mcp_client_find(struct mcp *m, const char *id, const char *owner);
void mcp_client_touch(struct mcp_client *client);
// Ends those whose owner `knows` says no to: their key was taken away.
void mcp_clients_dismiss(struct mcp *m, bool (*knows)(const char *owner, void *argument),
                         void *argument);
// Cancels its calls, forgets its subscriptions, calls on_end, frees.
void mcp_client_end(struct mcp_client *client);

// Calls in flight; used by call.c.
int mcp_client_add_call(struct mcp_client *client,
                        struct mcp_call *c); // -1: such an id is in flight
void mcp_client_remove_call(struct mcp_client *client, struct mcp_call *c);
struct mcp_call *mcp_client_find_call(struct mcp_client *client, json_t *id);

// A notification to the session, for nobody's call.  Takes params.
void mcp_client_notify(struct mcp_client *client, const char *method, json_t *params);

#endif
