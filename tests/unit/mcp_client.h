// SPDX-License-Identifier: Apache-2.0
//
// mcp_client: a client of the MCP core without any transport, for unit tests: it hands messages in
// and keeps what comes out.  The server has no gate, so nothing can be run.

#ifndef CONSTRICTOR_MCP_CLIENT_H
#define CONSTRICTOR_MCP_CLIENT_H

#include "unit.h"

#include <event2/event.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "mcp/protocol/client.h"
#include "mcp/protocol/mcp.h"
#include "mcp/server.h"

// One request, or one stream: everything that was sent to it, and how it ended.
struct client_outlet {
    struct mcp_outlet outlet; // first
    json_t *messages;         // array
    bool last, dropped;
    struct mcp_call *call;           // while it is in flight
    struct mcp_call *cancel_on_send; // a transport that gives up while it sends
};

static struct config client_config;
static struct event_base *client_base;
static struct mcp client_mcp;

static inline void client_on_send(struct mcp_outlet *o, json_t *message, bool last)
{
    struct client_outlet *c = (struct client_outlet *)(void *)o;
    assert_false(c->last || c->dropped); // nothing comes after the end
    json_array_append_new(c->messages, json_deep_copy(message));
    c->last = last;
    if (c->cancel_on_send && !last) {
        struct mcp_call *victim = c->cancel_on_send;
        c->cancel_on_send = NULL;
        mcp_cancel(victim);
    }
}

static inline void client_on_drop(struct mcp_outlet *o)
{
    struct client_outlet *c = (struct client_outlet *)(void *)o;
    assert_false(c->last || c->dropped);
    c->dropped = true;
}

static inline void client_open(struct client_outlet *c)
{
    *c = (struct client_outlet){.outlet = {.send = client_on_send, .drop = client_on_drop},
                                .messages = json_array()};
}

static inline void client_close(struct client_outlet *c)
{
    json_decref(c->messages);
    c->messages = NULL;
}

static inline json_t *client_message(struct client_outlet *c, size_t i)
{
    return json_array_get(c->messages, i);
}

static inline size_t client_count(struct client_outlet *c)
{
    return json_array_size(c->messages);
}

static inline int client_begin(void **state)
{
    struct err e;
    (void)state;
    client_base = event_base_new();
    client_config.mcp_sessions = 100;
    client_config.mcp_session_ms = 1800000;
    if (!client_config.tools.count && text_list_add(&client_config.tools, "full") < 0)
        return -1;
    return client_base && mcp_open(&client_mcp, client_base, NULL, &client_config, &e) == 0 ? 0
                                                                                            : -1;
}

static inline int client_finish(void **state)
{
    (void)state;
    mcp_close(&client_mcp);
    event_base_free(client_base);
    return client_mcp.calls == 0 && client_mcp.lasting == 0 ? 0 : -1;
}

// Sends {"method": ..., "params": ...}; a modern one gets the _meta that it needs.  Takes params.
static inline void client_send(struct client_outlet *c, struct mcp_client *client,
                               const char *owner, bool modern, json_t *capabilities,
                               const char *method, json_t *params)
{
    static int id;
    struct rpc_message message;
    struct rpc_refusal no = {0};
    if (!params)
        params = json_object();
    if (modern)
        json_object_set_new(params, "_meta",
                            json_pack("{s:s, s:o}", MCP_META_VERSION, "2026-07-28",
                                      MCP_META_CAPABILITIES, capabilities));
    else
        json_decref(capabilities);
    json_t *o = json_pack("{s:s, s:i, s:s, s:o}", "jsonrpc", "2.0", "id", ++id, "method", method,
                          "params", params);
    assert_int_equal(rpc_sort(o, &message, &no), 0);
    struct mcp_from from = {.client = client,
                            .outlet = &c->outlet,
                            .owner = owner,
                            .version = modern ? MCP_2026_07_28 : MCP_2025_11_25};
    c->call = mcp_receive(&client_mcp, &from, &message);
}

// Everything that a client can have.
static inline json_t *client_all(void)
{
    return json_pack("{s:{}, s:{}, s:{}, s:{s:{}}}", "elicitation", "sampling", "roots",
                     "extensions", MCP_EXTENSION_TASKS);
}

// A modern request that is answered at once: its result or its error, new.
static inline json_t *client_ask_with(const char *owner, json_t *capabilities, const char *method,
                                      json_t *params)
{
    struct client_outlet c;
    client_open(&c);
    client_send(&c, NULL, owner, true, capabilities, method, params);
    assert_true(c.last);
    json_t *m = client_message(&c, client_count(&c) - 1), *r = json_object_get(m, "result");
    if (!r)
        r = json_object_get(m, "error");
    assert_non_null(r);
    json_incref(r);
    client_close(&c);
    return r;
}

static inline json_t *client_ask(const char *owner, const char *method, json_t *params)
{
    return client_ask_with(owner, client_all(), method, params);
}

static inline int client_code(json_t *error) // takes it
{
    int code = (int)json_integer_value(json_object_get(error, "code"));
    json_decref(error);
    return code;
}

static inline const char *client_text(json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

// Lets timers of the server fire for a while.
static inline void client_wait(int ms)
{
    struct timeval wait = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    (void)event_base_loopexit(client_base, &wait);
    assert_true(event_base_dispatch(client_base) >= 0);
}

#endif
