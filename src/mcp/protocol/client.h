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

struct mcp_session {
    struct mcp *mcp;
    char id[MCP_SESSION_ID_LENGTH + 1]; // "" on stdio
    char owner[MCP_OWNER_MAX + 1];
    bool agreed; // initialize was answered
    enum mcp_version version;
    json_t *capabilities; // of the client; NULL before initialize
    int log_level;        // enum mcp_level
    void *calls;          // tsearch tree by key
    unsigned call_count;
    void *asks; // tsearch tree: questions to the client by number
    uint64_t next_ask;
    struct mcp_listener *listener; // what it wants to hear of (listen.c)
    struct mcp_outlet *outlet; // for what belongs to no call; NULL: nobody listens at the moment
    int64_t used_ms;
    struct mcp_session *older, *newer; // of the same server, by last use; HTTP only
    // The transport's own: called when the session ends for whatever reason.
    void *transport;
    void (*on_end)(struct mcp_session *s);
};

// A session in the table, with a fresh id and an idle limit.  NULL: memory is out.  At the cap the
// longest idle session without calls is ended; with none such: NULL.
struct mcp_session *mcp_session_new(struct mcp *m, const char *owner);
// One that is not in the table: stdio, /sse streams (which end with their connection).
struct mcp_session *mcp_session_new_private(struct mcp *m, const char *owner);
// Finds by id, only for the same owner; marks it used.
struct mcp_session *mcp_session_find(struct mcp *m, const char *id, const char *owner);
void mcp_session_touch(struct mcp_session *s);
// Ends those whose owner `knows` says no to: their key was taken away.
void mcp_sessions_dismiss(struct mcp *m, bool (*knows)(const char *owner, void *argument),
                          void *argument);
// Cancels its calls, forgets its subscriptions, calls on_end, frees.
void mcp_session_end(struct mcp_session *s);

// Calls in flight; used by call.c.
int mcp_session_add_call(struct mcp_session *s, struct mcp_call *c); // -1: such an id is in flight
void mcp_session_remove_call(struct mcp_session *s, struct mcp_call *c);
struct mcp_call *mcp_session_find_call(struct mcp_session *s, json_t *id);

// A notification to the session, for nobody's call.  Takes params.
void mcp_session_notify(struct mcp_session *s, const char *method, json_t *params);

#endif
