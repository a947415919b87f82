// SPDX-License-Identifier: Apache-2.0
//
// dispatch: takes a message from a transport, finds the row of its method and makes the call.
// Called by the transports in the gate.  See mcp.h.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/protocol/client.h"
#include "mcp/protocol/mcp.h"

const struct mcp_method *mcp_method_find(const struct mcp *m, const char *name, bool modern)
{
    for (const struct mcp_method *row = m->methods; row->name; row++)
        if (strcmp(row->name, name) == 0)
            return (modern ? row->modern : row->legacy) ? row : NULL;
    return NULL;
}

// ---- requests -----------------------------------------------------------------------------------

static void refuse(const struct mcp_from *from, json_t *id, int code, const char *message)
{
    json_auto_t *error = rpc_error_json(id, code, message, NULL);
    if (error)
        from->outlet->send(from->outlet, error, true);
    else
        from->outlet->drop(from->outlet);
}

// Reads params._meta and inputResponses.
static void read_meta(struct mcp_call *c)
{
    json_t *token = json_object_get(c->request.meta, "progressToken");
    // SECURITY: every notification repeats it, so its length is bounded like that of an id.
    if (json_is_integer(token) ||
        (json_is_string(token) && json_string_length(token) <= RPC_ID_MAX))
        c->progress_token = token;
    if (!c->modern) {
        c->log_level = c->client ? c->client->log_level : MCP_LEVEL_MAX;
        return;
    }
    const char *wanted = json_string_value(json_object_get(c->request.meta, MCP_META_LOG_LEVEL));
    int level = mcp_level_find(wanted);
    c->log_level = level < 0 ? MCP_LEVEL_MAX : level;
    json_t *answers = json_object_get(c->request.params, "inputResponses");
    if (json_is_object(answers))
        c->answers = answers;
}

static struct mcp_call *make_call(struct mcp *m, const struct mcp_from *from,
                                  struct rpc_message *message)
{
    static json_t *nothing; // capabilities of a client that declared none
    struct mcp_call *c = calloc(1, sizeof *c);
    if (!nothing)
        nothing = json_object();
    if (!c || !nothing) {
        free(c);
        return NULL;
    }
    *c = (struct mcp_call){.mcp = m,
                           .client = from->client,
                           .outlet = from->outlet,
                           .version = from->version,
                           .modern = message->modern,
                           .request = *message,
                           .from = from};
    *message = (struct rpc_message){0};
    snprintf(c->owner, sizeof c->owner, "%s", from->owner ? from->owner : "");
    c->capabilities = c->modern      ? json_object_get(c->request.meta, MCP_META_CAPABILITIES)
                      : from->client ? from->client->capabilities
                                     : NULL;
    if (!c->capabilities)
        c->capabilities = nothing;
    read_meta(c);
    m->calls++;
    return c;
}

// Before `initialize` was answered only it and ping are served.
static bool is_early(const struct mcp_from *from, const struct rpc_message *message)
{
    return !message->modern && !(from->client && from->client->agreed) &&
           strcmp(message->method, "initialize") != 0 && strcmp(message->method, "ping") != 0;
}

static struct mcp_call *receive_request(struct mcp *m, const struct mcp_from *from,
                                        struct rpc_message *message)
{
    const struct mcp_method *method = mcp_method_find(m, message->method, message->modern);
    const char *no = NULL;
    char text[RPC_METHOD_MAX + 64];
    int code = MCP_INVALID_REQUEST;
    if (!method) {
        snprintf(text, sizeof text, "there is no method '%s'", message->method);
        no = text;
        code = MCP_METHOD_NOT_FOUND;
    } else if (is_early(from, message)) {
        no = "the first request of a session must be 'initialize'";
    } else if (m->calls - m->lasting >= MCP_CALLS_MAX) {
        no = "too many requests are in flight; wait for answers before sending more";
        code = MCP_INTERNAL_ERROR;
    } else if (from->client && from->client->call_count >= MCP_CLIENT_CALLS_MAX) {
        no = "too many requests of this session are in flight; wait for answers first";
        code = MCP_INTERNAL_ERROR;
    }
    struct mcp_call *c = no ? NULL : make_call(m, from, message);
    if (!c) {
        refuse(from, message->id, code, no ? no : "the server is out of memory");
        rpc_message_clear(message);
        return NULL;
    }
    c->method = method;
    if (c->client && mcp_client_add_call(c->client, c) < 0) {
        mcp_fail(c, MCP_INVALID_REQUEST, NULL, "a request with this id is in flight already");
        return NULL;
    }
    const char *state = json_string_value(json_object_get(c->request.params, "requestState"));
    if (c->modern && state && mcp_state_open(c, state) < 0) {
        mcp_fail(c, MCP_INVALID_PARAMS, NULL,
                 "'requestState' is of another request or too old; send the request "
                 "again without it");
        return NULL;
    }
    bool ended = false;
    c->ended = &ended;
    method->handle(c);
    if (ended)
        return NULL;
    c->ended = NULL;
    c->from = NULL;
    return c;
}

// ---- notifications ------------------------------------------------------------------------------

static void receive_notification(const struct mcp_from *from, const struct rpc_message *message)
{
    struct mcp_client *client = from->client;
    if (!client || strcmp(message->method, "notifications/cancelled") != 0)
        return; // the others need no action
    struct mcp_call *c =
        mcp_client_find_call(client, json_object_get(message->params, "requestId"));
    if (c && strcmp(c->method->name, "initialize") != 0)
        mcp_cancel(c);
}

struct mcp_call *mcp_receive(struct mcp *m, const struct mcp_from *from,
                             struct rpc_message *message)
{
    struct mcp_call *c = NULL;
    if (from->client)
        mcp_client_touch(from->client);
    switch (message->kind) {
    case RPC_REQUEST: return receive_request(m, from, message);
    case RPC_NOTIFICATION: receive_notification(from, message); break;
    case RPC_RESPONSE:
        if (from->client)
            mcp_client_answered(from->client, message);
        break;
    case RPC_BATCH: break; // the transports take them apart
    }
    rpc_message_clear(message);
    return c;
}
