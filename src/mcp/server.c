// SPDX-License-Identifier: Apache-2.0
//
// server: see server.h.  Answers what concerns the connection itself: initialize, server/discover,
// ping, logging.

#include "mcp/server.h"

#include <errno.h>
#include <sys/random.h>

#include "mcp/protocol/client.h"
#include "mcp/protocol/identity.h"
#include "mcp/protocol/subscriptions.h"
#include "mcp/protocol/tasks.h"
#include "mcp/tools/outputs.h"
#include "mcp/tools/prompts.h"
#include "mcp/tools/resources.h"
#include "mcp/tools/tools.h"

enum { CAPABILITIES_MAX = 8192 };

// Clients show them to models beside the list of tools, so they do not repeat it.
static const char about_boxes[] =
    "Runs Python code in isolated boxes with limits on time and memory. Nothing of the host is "
    "visible.";
static const char about_packages[] =
    " Code cannot use pip: install_package adds packages. Without 'session' each run is a fresh "
    "interpreter; a session ends when it is idle for some minutes.";
static const char about_more[] = " get_sandbox_info lists limits and installed libraries.";

static json_t *instructions(const struct mcp *m)
{
    return json_sprintf("%s%s%s", about_boxes, mcp_has_tool(m, "check_run") ? about_packages : "",
                        mcp_has_tool(m, "undo_session") ? about_more : "");
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
    struct mcp_client *client = c->client;
    json_t *params = c->request.params, *wanted = json_object_get(params, "protocolVersion"),
           *can = json_object_get(params, "capabilities");
    if (!client || client->agreed) {
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
    client->version =
        version < 0 || version > MCP_NEWEST_LEGACY ? MCP_NEWEST_LEGACY : (enum mcp_version)version;
    // SECURITY: they live as long as the client, so their size is bounded.
    if (json_dumpb(can, NULL, 0, JSON_COMPACT) > CAPABILITIES_MAX) {
        mcp_fail(c, MCP_INVALID_PARAMS, NULL, "'capabilities' may have at most %d bytes",
                 CAPABILITIES_MAX);
        return;
    }
    client->capabilities = json_incref(can);
    client->agreed = true;
    mcp_subscriptions_join(client);
    c->version = client->version;
    mcp_answer(c, json_pack("{s:s, s:o, s:O, s:o}", "protocolVersion",
                            mcp_version_name(client->version), "capabilities", capabilities(c),
                            "serverInfo", mcp_server_info(client->version), "instructions",
                            instructions(c->mcp)));
}

static void handle_discover(struct mcp_call *c)
{
    mcp_answer(c, json_pack("{s:[s], s:o, s:o, s:{s:O}}", "supportedVersions",
                            mcp_version_name(MCP_2026_07_28), "capabilities", capabilities(c),
                            "instructions", instructions(c->mcp), "_meta", MCP_META_SERVER,
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
    c->client->log_level = level;
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
    {.name = NULL},
    // clang-format on
};

// ---- start and end ------------------------------------------------------------------------------

int mcp_open(struct mcp *m, struct event_base *base, struct gate *gate, const struct config *c,
             struct err *e)
{
    *m = (struct mcp){.base = base,
                      .gate = gate,
                      .config = c,
                      .methods = methods,
                      .resource_exists = mcp_resource_exists};
    if (getrandom(m->secret, sizeof m->secret, 0) != (ssize_t)sizeof m->secret)
        return err_set(e, ERR_SYSTEM, errno, NULL, "get random bytes");
    int r = mcp_tools_open(m, e);
    if (r == 0)
        r = mcp_outputs_open(m, e);
    if (r == 0)
        r = mcp_subscriptions_open(m, e);
    if (r == 0)
        r = mcp_tasks_open(m, e);
    return r;
}

void mcp_close(struct mcp *m)
{
    while (m->oldest)
        mcp_client_end(m->oldest);
    mcp_tasks_close(m);
    mcp_subscriptions_close(m);
    mcp_outputs_close(m);
    mcp_tools_close(m);
    timer_stop(&m->client_timer);
}
