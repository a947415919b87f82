// SPDX-License-Identifier: Apache-2.0
// rest: see rest.h.  Also the routes about the server itself: health and the OpenAPI document.

#include "rest/rest.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "exec/history.h"
#include "rest/batch.h"
#include "rest/call.h"
#include "rest/docs.h"
#include "rest/executions.h"
#include "rest/keys.h"
#include "rest/metrics.h"
#include "rest/openapi.h"
#include "rest/share.h"
#include "run/activity.h"

enum { ALL_METHODS = HTTP_GET | HTTP_HEAD | HTTP_POST | HTTP_PUT | HTTP_DELETE };

enum { MOUNTS_MAX = 8 };

static struct rest *the_rest; // there is one in a gate
static struct rest_mount mounts[MOUNTS_MAX];
static struct http_route health_routes[3];

// ---- the server itself --------------------------------------------------------------------------

const char *rest_status_word(const struct gate *g)
{
    static const char *const words[] = {
        [KEEPER_WARMING] = "starting", [KEEPER_READY] = "ok", [KEEPER_FAILED] = "unavailable"};
    return words[g->facts->state];
}

void rest_health(struct rest_call *c)
{
    const struct gate *g = c->rest->gate;
    const char *base = g->base_url ? g->base_url : "";
    bool asks_ready = c->x && strcmp(c->x->path, "/ready") == 0;
    bool failed = asks_ready ? g->facts->state != KEEPER_READY : g->facts->state == KEEPER_FAILED;
    json_t *body =
        json_pack("{s:s, s:s, s:s, s:i, s:i, s:I, s:o, s:o, s:o}", "name", "constrictor", "version",
                  CONSTRICTOR_VERSION, "status", rest_status_word(g), "active_sessions",
                  g->sessions ? (int)sessions_count(g, NULL) : 0, "active_runs", (int)g->running,
                  "uptime", (json_int_t)(clock_ms() - c->rest->since_ms) / 1000, "mcp_endpoint",
                  json_sprintf("%s/mcp", base), "api_endpoint", json_sprintf("%s" REST_BASE, base),
                  "docs", json_sprintf("%s" REST_BASE "/openapi.json", base));
    if (failed && body && g->facts->error)
        (void)json_object_set_new(body, "error",
                                  json_pack("{s:s}", "code", err_code_name(g->facts->error->code)));
    rest_answer(c, failed ? 503 : 200, body);
}

void rest_openapi(struct rest_call *c)
{
    int exact = rest_query_switch(c, "exact");
    if (exact >= 0)
        rest_answer(c, 200, json_incref(exact ? c->rest->openapi_exact : c->rest->openapi));
}

// /health, where monitors expect it, and /ready, which fails until there are boxes.
static void handle_health(struct http_exchange *x, void *argument)
{
    struct rest *rest = argument;
    struct rest_call *c = calloc(1, sizeof *c);
    if (!c) {
        http_reply_error(x, 503, err_code_name(ERR_SYSTEM), "try again later",
                         "the server is out of memory");
        return;
    }
    *c = (struct rest_call){.rest = rest, .x = x};
    TAILQ_INSERT_TAIL(&rest->calls, c, list);
    rest_health(c);
}

// ---- the beginning and the end ------------------------------------------------------------------

// Adds one row to the HTTP server for the path that needs no key, and one for all others;
// rest_handle() tells these apart.
static void add_table(struct rest *rest, struct rest_mount *m, const struct rest_table *table)
{
    struct http_route *row = m->rows;
    *m = (struct rest_mount){.rest = rest, .table = *table};
    for (const struct rest_route *r = table->routes; r->path; r++) {
        if (!r->open)
            continue;
        assert(row == m->rows && r->method == HTTP_GET);
        snprintf(m->open_path, sizeof m->open_path, "%s%s", table->base, r->path);
        *row++ = (struct http_route){m->open_path, HTTP_GET | HTTP_HEAD, true, rest_handle, m};
    }
    snprintf(m->prefix, sizeof m->prefix, "%s/*", table->base);
    *row = (struct http_route){m->prefix, ALL_METHODS, false, rest_handle, m};
    http_add_routes(rest->http, m->rows);
}

int rest_open(struct gate *g, struct http *h, const struct config *c, const struct rest_table *more,
              struct err *e)
{

    struct rest *rest = calloc(1, sizeof *rest);
    if (rest) {
        *rest = (struct rest){.gate = g, .http = h, .config = c, .since_ms = clock_ms()};
        TAILQ_INIT(&rest->calls);
        rest->openapi_exact = openapi_json(rest_routes, c, g->base_url ? g->base_url : "");
        rest->openapi = rest->openapi_exact ? openapi_plain(rest->openapi_exact) : NULL;
        rest->keys = keys_new();
        g->activity = activity_new();   // NULL: the overview shows less
        g->histories = histories_new(); // NULL: there are no reports
    }
    if (!rest || !rest->openapi || !rest->keys) {
        if (rest) {
            json_decref(rest->openapi);
            json_decref(rest->openapi_exact);
            keys_free(rest->keys);
        }
        free(rest);
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "open the REST API");
    }
    the_rest = rest;
    health_routes[0] =
        (struct http_route){"/health", HTTP_GET | HTTP_HEAD, true, handle_health, rest};
    health_routes[1] =
        (struct http_route){"/ready", HTTP_GET | HTTP_HEAD, true, handle_health, rest};
    http_add_routes(h, health_routes);
    add_table(rest, &mounts[0], &rest_table);
    for (size_t i = 0; more && more[i].base && i + 1 < MOUNTS_MAX; i++)
        add_table(rest, &mounts[i + 1], &more[i]);
    rest_metrics_open(g, h);
    rest_shares_open(rest);
    rest_docs_open(rest);
    http_set_streams_body(h, rest_streams_body, rest);
    http_set_methods(h, route_methods);
    return 0;
}

// Closes the session that is being opened for a call.
static void give_up_opening(struct rest_call *c)
{
    struct rest *rest = c->rest;
    struct err e;
    struct session *s = session_find(rest->gate, c->owner, c->opening, &e);
    rest_let_go(c);
    if (s)
        session_close(s, SESSION_CLOSED); // this tells the call, which ends
    if (TAILQ_FIRST(&rest->calls) == c)
        rest_free(c);
}

void rest_close(void)
{
    struct rest *rest = TAKE_PTR(the_rest);
    struct rest_call *c;
    if (!rest)
        return;
    rest_metrics_close();
    while ((c = TAILQ_FIRST(&rest->calls))) {
        if (c->opening[0]) {
            give_up_opening(c);
            continue;
        }
        struct exec *x = TAKE_PTR(c->exec);
        if (x) {
            x->request.argument = NULL; // on_done() finds nothing to do
            exec_cancel(x);
            exec_free(x);
        }
        rest_free(c);
    }
    rest_drop_executions(rest);
    json_decref(rest->openapi);
    json_decref(rest->openapi_exact);
    free(rest->docs);
    keys_free(rest->keys);
    activity_free(TAKE_PTR(rest->gate->activity));
    histories_free(TAKE_PTR(rest->gate->histories));
    rest_shares_free(rest->shares);
    batches_free(rest->batches);
    free(rest);
}
