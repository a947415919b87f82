// SPDX-License-Identifier: Apache-2.0
//
// call: the life of a call after dispatch.c made it: answer, error, notifications, cancellation.
// Every end passes through finish().

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "mcp/protocol/client.h"
#include "mcp/protocol/identity.h"
#include "mcp/protocol/mcp.h"

enum {
    PROGRESS_GAP_US = 20000,
    CACHE_LIST_MS = 300000,
    TRIM_KEYS_MAX = 16,
    TRIM_NAME_MAX = 128,
    TRIM_WORTH_IT = 1024,
    URI_SHOWN_MAX = 200,
};

const char *const mcp_level_names[MCP_LEVEL_MAX] = {
    [MCP_DEBUG] = "debug",     [MCP_INFO] = "info",           [MCP_NOTICE] = "notice",
    [MCP_WARNING] = "warning", [MCP_ERROR] = "error",         [MCP_CRITICAL] = "critical",
    [MCP_ALERT] = "alert",     [MCP_EMERGENCY] = "emergency",
};

int mcp_level_find(const char *name)
{
    for (int i = 0; name && i < MCP_LEVEL_MAX; i++)
        if (strcmp(name, mcp_level_names[i]) == 0)
            return i;
    return -1;
}

// ---- the end ------------------------------------------------------------------------------------

// Removes the call from every table and frees it.  The caller tells its outlet.
static void finish(struct mcp_call *c)
{
    struct mcp *m = c->mcp;
    if (c->ended)
        *c->ended = true;
    mcp_questions_free(c);
    if (c->client)
        mcp_client_remove_call(c->client, c);
    rpc_message_clear(&c->request);
    json_decref(c->state);
    free(c);
    if (--m->calls == 0 && m->on_idle)
        m->on_idle(m);
}

static void send_last(struct mcp_call *c, json_t *message)
{
    struct mcp_outlet *outlet = c->outlet;
    // Out of the client's table first: the client may reuse the id as soon as it has the answer.
    if (c->client)
        mcp_client_remove_call(c->client, c);
    if (message)
        outlet->send(outlet, message, true);
    else
        outlet->drop(outlet); // no memory even for an error
    json_decref(message);
    finish(c);
}

// Adds what every modern result carries.
static void complete_modern(const struct mcp_call *c, json_t *result)
{
    if (!json_object_get(result, "resultType"))
        (void)json_object_set_new(result, "resultType", json_string("complete"));
    const char *type = json_string_value(json_object_get(result, "resultType"));
    if (c->method->cached && type && strcmp(type, "complete") == 0) {
        if (!json_object_get(result, "ttlMs"))
            (void)json_object_set_new(result, "ttlMs", json_integer(CACHE_LIST_MS));
        if (!json_object_get(result, "cacheScope"))
            (void)json_object_set_new(result, "cacheScope", json_string("public"));
    }
    json_t *meta = json_object_get(result, "_meta");
    if (!meta) {
        meta = json_object();
        (void)json_object_set_new(result, "_meta", meta);
    }
    if (!json_object_get(meta, MCP_META_SERVER))
        (void)json_object_set(meta, MCP_META_SERVER, mcp_server_mark());
}

void mcp_answer(struct mcp_call *c, json_t *result)
{
    if (!json_is_object(result)) {
        json_decref(result);
        mcp_fail(c, MCP_INTERNAL_ERROR, NULL, "the server is out of memory; try again later");
        return;
    }
    if (c->modern)
        complete_modern(c, result);
    json_t *o = json_object();
    int failed = json_object_set_new_nocheck(o, "jsonrpc", json_string("2.0")) |
                 json_object_set_nocheck(o, "id", c->request.id) |
                 json_object_set_new_nocheck(o, "result", result);
    if (failed) {
        json_decref(o);
        o = NULL;
    }
    send_last(c, o);
}

int mcp_prepare(const struct mcp_call *c, json_t *result, struct mcp_prepared *ret)
{
    if (c->modern && json_is_object(result))
        complete_modern(c, result);
    // These hold no user values, so 0.1 need not be 0.10000000000000001.
    char *text = result ? json_dumps(result, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(result);
    if (!text)
        return -1;
    *ret = (struct mcp_prepared){.text = text, .length = strlen(text)};
    return 0;
}

void mcp_prepared_clear(struct mcp_prepared *p)
{
    free(p->text);
    *p = (struct mcp_prepared){0};
}

void mcp_answer_prepared(struct mcp_call *c, const struct mcp_prepared *p)
{
    struct mcp_outlet *outlet = c->outlet;
    if (!outlet->send_text) {
        mcp_answer(c, json_loadb(p->text, p->length, JSON_ALLOW_NUL, NULL));
        return;
    }
    if (c->client)
        mcp_client_remove_call(c->client, c);
    outlet->send_text(outlet, c->request.id, p->text, p->length);
    finish(c);
}

void mcp_fail(struct mcp_call *c, int code, json_t *data, const char *fmt, ...)
{
    char message[1024];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    send_last(c, rpc_error_json(c->request.id, code, message, data));
}

void mcp_resource_missing(struct mcp_call *c, const char *uri)
{
    char shown[URI_SHOWN_MAX + 1];
    snprintf(shown, sizeof shown, "%s", uri);
    text_sanitize(shown);
    mcp_fail(
        c, c->modern ? MCP_INVALID_PARAMS : MCP_RESOURCE_NOT_FOUND, json_pack("{s:s}", "uri", uri),
        "resource not found: '%s'; outputs of runs are kept for an hour; see resources/list and "
        "resources/templates/list",
        shown);
}

void mcp_resource_missing_because(struct mcp_call *c, const char *uri, const struct err *why)
{
    mcp_fail(c, c->modern ? MCP_INVALID_PARAMS : MCP_RESOURCE_NOT_FOUND,
             json_pack("{s:s, s:s}", "uri", uri, "code", err_code_name(why->code)), "%s%s%s",
             why->message, why->hint[0] ? "; " : "", why->hint);
}

void mcp_cancel(struct mcp_call *c)
{
    struct mcp_outlet *outlet = c->outlet;
    if (c->cancel)
        c->cancel(c);
    if (c->client)
        mcp_client_remove_call(c->client, c);
    outlet->drop(outlet);
    finish(c);
}

struct mcp_call *mcp_call_fork(struct mcp_call *c, struct mcp_outlet *outlet)
{
    struct mcp_call *copy = calloc(1, sizeof *copy);
    if (!copy)
        return NULL;
    *copy = *c;
    copy->outlet = outlet;
    copy->client = NULL; // it outlives the client
    copy->from = NULL;
    copy->work = NULL;
    copy->cancel = NULL;
    copy->questions = NULL;
    copy->ended = NULL;
    copy->key[0] = '\0';
    copy->progress_token = NULL;
    copy->log_level = MCP_LEVEL_MAX;
    (void)json_incref(copy->request.message); // owns all the rest of it
    (void)json_incref(copy->state);
    c->mcp->calls++;
    return copy;
}

// SECURITY: only the capabilities that mcp_client_can() may ask for, bounded in number and length.
static json_t *trimmed_capabilities(json_t *all)
{
    static const char *const words[] = {"elicitation", "sampling", "roots", "extensions"};
    json_t *o = json_object();
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        json_t *from = json_object_get(all, words[i]), *to, *value;
        const char *key;
        if (!json_is_object(from) || !(to = json_object()))
            continue;
        json_object_foreach (from, key, value) {
            if (json_object_size(to) >= TRIM_KEYS_MAX)
                break;
            if (json_is_object(value) && strlen(key) <= TRIM_NAME_MAX)
                (void)json_object_set_new(to, key, json_object());
        }
        (void)json_object_set_new(o, words[i], to);
    }
    return o;
}

// A small message with all that later messages of this call need.
static json_t *trimmed(const struct mcp_call *c)
{
    json_t *meta = json_object(), *name = json_object_get(c->request.params, "name");
    if (!json_is_string(name) || json_string_length(name) > TRIM_NAME_MAX)
        name = NULL;
    json_t *o = json_pack("{s:s, s:O, s:s, s:{s:o, s:O*}}", "jsonrpc", "2.0", "id", c->request.id,
                          "method", c->request.method, "params", "_meta", meta, "name", name);
    int bad = 0;
    if (o && c->modern)
        bad |=
            json_object_set_new(meta, MCP_META_CAPABILITIES, trimmed_capabilities(c->capabilities));
    if (o && c->progress_token)
        bad |= json_object_set(meta, "progressToken", c->progress_token);
    if (o && !bad)
        return o;
    json_decref(o);
    return NULL;
}

void mcp_call_trim(struct mcp_call *c)
{
    struct rpc_message small;
    struct rpc_refusal no;
    if (c->request.length && c->request.length <= TRIM_WORTH_IT)
        return;
    json_t *o = c->request.message ? trimmed(c) : NULL;
    if (!o) // keep the whole request
        return;
    if (rpc_sort(o, &small, &no) < 0) {
        rpc_refusal_clear(&no);
        return;
    }
    // The new message holds `progress_token` now; legacy capabilities belong to the client.
    if (c->modern)
        c->capabilities = json_object_get(small.meta, MCP_META_CAPABILITIES);
    small.modern = c->request.modern;
    c->answers = NULL;
    rpc_message_clear(&c->request);
    c->request = small;
}

// ---- notifications
// ---------------------------------------------------------------------------------

void mcp_notify(struct mcp_call *c, const char *method, json_t *params)
{
    json_auto_t *message = json_pack("{s:s, s:s}", "jsonrpc", "2.0", "method", method);
    if (params)
        (void)json_object_set_new(message, "params", params);
    if (message)
        c->outlet->send(c->outlet, message, false);
}

// Monotonic, and at most one in PROGRESS_GAP_US, whatever the handler does.
void mcp_progress(struct mcp_call *c, double progress, double total, const char *message)
{
    int64_t now_us = clock_us();
    bool first = c->progress_us == 0, whole = total > 0 && progress >= total;
    if (!c->progress_token || !isfinite(progress) || (!first && progress <= c->progress) ||
        (!first && !whole && now_us - c->progress_us < PROGRESS_GAP_US))
        return;
    c->progress = progress;
    c->progress_us = now_us;
    json_t *params =
        json_pack("{s:O, s:f}", "progressToken", c->progress_token, "progress", progress);
    if (total > 0)
        (void)json_object_set_new(params, "total", json_real(total));
    if (message && c->version >= MCP_2025_03_26)
        (void)json_object_set_new(params, "message", json_string(message));
    mcp_notify(c, "notifications/progress", params);
}

bool mcp_logs(const struct mcp_call *c, enum mcp_level level)
{
    return (int)level >= c->log_level;
}

void mcp_log(struct mcp_call *c, enum mcp_level level, const char *logger, json_t *data)
{
    if (!mcp_logs(c, level)) {
        json_decref(data);
        return;
    }
    mcp_notify(c, "notifications/message",
               json_pack("{s:s, s:s, s:o}", "level", mcp_level_names[level], "logger", logger,
                         "data", data));
}

bool mcp_client_can(const struct mcp_call *c, const char *capability)
{
    char word[64];
    size_t length = strcspn(capability, "./");
    snprintf(word, sizeof word, "%.*s", (int)length, capability);
    json_t *found = json_object_get(c->capabilities, word);
    if (capability[length])
        found = json_object_get(found, capability + length + 1);
    return json_is_object(found);
}
