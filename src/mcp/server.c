// SPDX-License-Identifier: Apache-2.0
//
// server: see mcp.h.  Finds the row of a method, makes the call, and answers what concerns the
// connection itself: initialize, server/discover, ping, logging, cancellation.

#include "mcp/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "mcp/protocol/client.h"
#include "mcp/protocol/icon.h"
#include "mcp/protocol/listen.h"
#include "mcp/protocol/tasks.h"
#include "mcp/tools/kept.h"
#include "mcp/tools/prompts.h"
#include "mcp/tools/resources.h"
#include "mcp/tools/tools.h"

enum { CAPABILITIES_MAX = 8192 };

static const char instructions[] =
    "Runs Python code in an isolated box: no network unless hosts were allowed (get_sandbox_info "
    "tells), nothing of the host is visible, limits on time "
    "and memory. What a run of execute_python prints, shows and leaves in its working folder "
    "/mnt/data comes back, with the value of its last expression and its error. Without 'session' "
    "each run starts from a fresh interpreter; with session='any name' variables, imports and "
    "files "
    "stay from run to run, until the session has not been used for some minutes. write_file brings "
    "data in; files that a run makes come back as links. Code that needs more than 50 seconds: "
    "pass "
    "background=true and fetch the result with check_run. get_sandbox_info tells limits and "
    "installed "
    "libraries.";

// ---- who we are ---------------------------------------------------------------------------------

json_t *mcp_server_info(enum mcp_version version)
{
    static json_t *infos[MCP_VERSION_MAX]; // made once for each revision, kept for good
    if (infos[version])
        return infos[version];
    json_t *info = json_pack("{s:s, s:s}", "name", "constrictor", "version", CONSTRICTOR_VERSION);
    if (version >= MCP_2025_06_18)
        (void)json_object_set_new(info, "title", json_string("Constrictor"));
    if (version >= MCP_2025_11_25) {
        (void)json_object_set_new(info, "description",
                                  json_string("Runs Python behind a kernel wall"));
        (void)json_object_set_new(info, "icons", mcp_icons_json());
    }
    return infos[version] = info;
}

json_t *mcp_server_mark(void)
{
    static json_t *mark;
    if (!mark)
        mark = json_pack("{s:s, s:s}", "name", "constrictor", "version", CONSTRICTOR_VERSION);
    return mark;
}

static json_t *capabilities(const struct mcp_call *c)
{
    json_t *o = json_pack("{s:{s:b}, s:{s:b, s:b}, s:{s:b}, s:{}}", "tools", "listChanged",
                          mcp_list_changes(c->mcp, MCP_LIST_TOOLS), "resources", "subscribe", 1,
                          "listChanged", mcp_list_changes(c->mcp, MCP_LIST_RESOURCES), "prompts",
                          "listChanged", mcp_list_changes(c->mcp, MCP_LIST_PROMPTS), "logging");
    if (c->version >= MCP_2025_03_26)
        (void)json_object_set_new(o, "completions", json_object());
    if (c->modern)
        (void)json_object_set_new(o, "extensions", json_pack("{s:{}}", MCP_EXTENSION_TASKS));
    return o;
}

// ---- methods of the connection ------------------------------------------------------------------

static void handle_initialize(struct mcp_call *c)
{
    struct mcp_session *s = c->session;
    json_t *params = c->request.params, *wanted = json_object_get(params, "protocolVersion"),
           *can = json_object_get(params, "capabilities");
    if (!s || s->agreed) {
        mcp_fail(c, MCP_INVALID_REQUEST, NULL, "this session was initialized already");
        return;
    }
    if (!json_is_string(wanted) || !json_is_object(can) ||
        !json_is_object(json_object_get(params, "clientInfo"))) {
        mcp_fail(c, MCP_INVALID_PARAMS, NULL,
                 "initialize needs 'protocolVersion' (a text), 'capabilities' and 'clientInfo' "
                 "(objects)");
        return;
    }
    int version = mcp_version_find(json_string_value(wanted));
    s->version =
        version < 0 || version > MCP_NEWEST_LEGACY ? MCP_NEWEST_LEGACY : (enum mcp_version)version;
    // SECURITY: they are kept as long as the session, so what nobody looks at may not be in them.
    if (json_dumpb(can, NULL, 0, JSON_COMPACT) > CAPABILITIES_MAX) {
        mcp_fail(c, MCP_INVALID_PARAMS, NULL, "'capabilities' may have at most %d bytes",
                 CAPABILITIES_MAX);
        return;
    }
    s->capabilities = json_incref(can);
    s->agreed = true;
    mcp_listen_join(s);
    c->version = s->version;
    mcp_answer(c, json_pack("{s:s, s:o, s:O, s:s}", "protocolVersion", mcp_version_name(s->version),
                            "capabilities", capabilities(c), "serverInfo",
                            mcp_server_info(s->version), "instructions", instructions));
}

static void handle_discover(struct mcp_call *c)
{
    mcp_answer(c, json_pack("{s:[s], s:o, s:s, s:{s:O}}", "supportedVersions",
                            mcp_version_name(MCP_2026_07_28), "capabilities", capabilities(c),
                            "instructions", instructions, "_meta", MCP_META_SERVER,
                            mcp_server_info(MCP_2026_07_28)));
}

static void handle_ping(struct mcp_call *c)
{
    mcp_answer(c, json_object());
}

static void handle_set_level(struct mcp_call *c)
{
    int level = mcp_level_find(json_string_value(json_object_get(c->request.params, "level")));
    if (level < 0) {
        mcp_fail(c, MCP_INVALID_PARAMS, NULL,
                 "'level' must be one of debug, info, notice, warning, error, critical, alert, "
                 "emergency");
        return;
    }
    c->session->log_level = level;
    mcp_answer(c, json_object());
}

// ---- the table ----------------------------------------------------------------------------------

static const struct mcp_method methods[] = {
    // clang-format off
    {"initialize",                true,  false, NULL,     false, handle_initialize},
    {"ping",                      true,  false, NULL,     false, handle_ping},
    {"logging/setLevel",          true,  false, NULL,     false, handle_set_level},
    {"resources/subscribe",       true,  false, NULL,     false, mcp_handle_subscribe},
    {"resources/unsubscribe",     true,  false, NULL,     false, mcp_handle_unsubscribe},
    {"server/discover",           false, true,  NULL,     true,  handle_discover},
    {"subscriptions/listen",      false, true,  NULL,     false, mcp_handle_listen},
    {"tasks/get",                 false, true,  "taskId", false, mcp_handle_tasks_get},
    {"tasks/update",              false, true,  "taskId", false, mcp_handle_tasks_update},
    {"tasks/cancel",              false, true,  "taskId", false, mcp_handle_tasks_cancel},
    {"tools/list",                true,  true,  NULL,     true,  mcp_handle_tools_list},
    {"tools/call",                true,  true,  "name",   false, mcp_handle_tools_call},
    {"resources/list",            true,  true,  NULL,     true,  mcp_handle_resources_list},
    {"resources/templates/list",  true,  true,  NULL,     true,  mcp_handle_templates_list},
    {"resources/read",            true,  true,  "uri",    true,  mcp_handle_resources_read},
    {"prompts/list",              true,  true,  NULL,     true,  mcp_handle_prompts_list},
    {"prompts/get",               true,  true,  "name",   false, mcp_handle_prompts_get},
    {"completion/complete",       true,  true,  NULL,     false, mcp_handle_complete},
    // clang-format on
};

const struct mcp_method *mcp_method_find(const char *name, bool modern)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i].name, name) == 0)
            return (modern ? methods[i].modern : methods[i].legacy) ? &methods[i] : NULL;
    return NULL;
}

// ---- requests -----------------------------------------------------------------------------------

static void refuse(const struct mcp_from *from, json_t *id, int code, const char *message)
{
    json_t *error = rpc_error_json(id, code, message, NULL);
    if (error)
        from->outlet->send(from->outlet, error, true);
    else
        from->outlet->drop(from->outlet);
    json_decref(error);
}

// Reads what a client may put beside the parameters.
static void read_meta(struct mcp_call *c)
{
    json_t *token = json_object_get(c->request.meta, "progressToken");
    // SECURITY: it is sent with every notification, so its length is bounded as that of an id.
    if (json_is_integer(token) ||
        (json_is_string(token) && json_string_length(token) <= RPC_ID_MAX))
        c->progress_token = token;
    if (!c->modern) {
        c->log_level = c->session ? c->session->log_level : MCP_LEVEL_MAX;
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
                           .session = from->session,
                           .outlet = from->outlet,
                           .version = from->version,
                           .modern = message->modern,
                           .request = *message,
                           .from = from};
    *message = (struct rpc_message){0};
    snprintf(c->owner, sizeof c->owner, "%s", from->owner ? from->owner : "");
    c->capabilities = c->modern       ? json_object_get(c->request.meta, MCP_META_CAPABILITIES)
                      : from->session ? from->session->capabilities
                                      : NULL;
    if (!c->capabilities)
        c->capabilities = nothing;
    read_meta(c);
    m->calls++;
    return c;
}

// Before `initialize` was answered there is only that, and ping.
static bool is_early(const struct mcp_from *from, const struct rpc_message *message)
{
    return !message->modern && !(from->session && from->session->agreed) &&
           strcmp(message->method, "initialize") != 0 && strcmp(message->method, "ping") != 0;
}

static struct mcp_call *receive_request(struct mcp *m, const struct mcp_from *from,
                                        struct rpc_message *message)
{
    const struct mcp_method *method = mcp_method_find(message->method, message->modern);
    const char *no = NULL;
    char text[RPC_METHOD_MAX + 64];
    int code = MCP_INVALID_REQUEST;
    if (!method) {
        snprintf(text, sizeof text, "there is no method '%s'", message->method);
        no = text;
        code = MCP_METHOD_NOT_FOUND;
    } else if (is_early(from, message)) {
        no = "the first request of a session must be 'initialize'";
    } else if (m->calls - m->parked >= MCP_CALLS_MAX) {
        no = "too many requests are in flight; wait for answers before sending more";
        code = MCP_INTERNAL_ERROR;
    } else if (from->session && from->session->call_count >= MCP_SESSION_CALLS_MAX) {
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
    if (c->session && mcp_session_add_call(c->session, c) < 0) {
        mcp_fail(c, MCP_INVALID_REQUEST, NULL, "a request with this id is in flight already");
        return NULL;
    }
    const char *state = json_string_value(json_object_get(c->request.params, "requestState"));
    if (c->modern && state && mcp_state_open(c, state) < 0) {
        mcp_fail(c, MCP_INVALID_PARAMS, NULL,
                 "'requestState' is not the one of this request, or too old; send the request "
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
    struct mcp_session *s = from->session;
    if (!s || strcmp(message->method, "notifications/cancelled") != 0)
        return; // others only say what we know, or what nobody asked for
    struct mcp_call *c = mcp_session_find_call(s, json_object_get(message->params, "requestId"));
    if (c && c->method->handle != handle_initialize)
        mcp_cancel(c);
}

struct mcp_call *mcp_receive(struct mcp *m, const struct mcp_from *from,
                             struct rpc_message *message)
{
    struct mcp_call *c = NULL;
    if (from->session)
        mcp_session_touch(from->session);
    switch (message->kind) {
    case RPC_REQUEST: return receive_request(m, from, message);
    case RPC_NOTIFICATION: receive_notification(from, message); break;
    case RPC_RESPONSE:
        if (from->session)
            mcp_ask_response(from->session, message);
        break;
    case RPC_BATCH: break; // the transports take them apart
    }
    rpc_message_clear(message);
    return c;
}

// ---- start and end ------------------------------------------------------------------------------

int mcp_open(struct mcp *m, struct event_base *base, struct gate *gate, const struct config *c,
             struct err *e)
{
    *m = (struct mcp){.base = base, .gate = gate, .config = c};
    if (getrandom(m->secret, sizeof m->secret, 0) != (ssize_t)sizeof m->secret)
        return err_set(e, ERR_SYSTEM, errno, NULL, "get random bytes");
    int r = mcp_tools_open(m, e);
    if (r == 0)
        r = mcp_kept_open(m, e);
    if (r == 0)
        r = mcp_listen_open(m, e);
    if (r == 0)
        r = mcp_tasks_open(m, e);
    return r;
}

void mcp_close(struct mcp *m)
{
    while (m->oldest)
        mcp_session_end(m->oldest);
    mcp_tasks_close(m);
    mcp_listen_close(m);
    mcp_kept_close(m);
    mcp_tools_close(m);
    if (m->session_timer)
        event_free(m->session_timer);
    m->session_timer = NULL;
}
