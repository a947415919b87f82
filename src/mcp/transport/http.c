// SPDX-License-Identifier: Apache-2.0
//
// mcp/transport/http: see mcp/transport/http.h.  Runs in the gate; everything in a request may be
// hostile.  The order of the checks is part of the protocol: a client tells the eras apart by the
// error that it gets.

#include "mcp/transport/http.h"

#include <event2/keyvalq_struct.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>

#include "mcp/protocol/client.h"
#include "mcp/tools/tools.h"
#include "mcp/transport/headers.h"
#include "mcp/transport/post.h"

#define HEADER_SESSION "Mcp-Session-Id"
#define JSON_TYPE "application/json"

static struct mcp *the_mcp; // there is one in a process

// ---- headers of a request -----------------------------------------------------------------------

static unsigned get_header(const void *of, const char *name, const char **ret)
{
    const struct http_exchange *x = of;
    struct evkeyval *header;
    unsigned count = 0;
    TAILQ_FOREACH (header, evhttp_request_get_input_headers(x->ev), next) {
        if (strcasecmp(header->key, name) != 0)
            continue;
        if (!count)
            *ret = header->value;
        count++;
    }
    return count;
}

static int check_params(void *argument, json_t *schema, json_t *arguments, struct rpc_refusal *no)
{
    struct headers headers = {get_header, argument};
    return headers_check_params(&headers, schema, arguments, no);
}

bool mcp_http_is_json(struct http_exchange *x)
{
    const char *type = http_header(x, "Content-Type");
    size_t n = strlen(JSON_TYPE);
    if (type && strncasecmp(type, JSON_TYPE, n) == 0 && strchr("; \t", type[n])) // also its end
        return true;
    http_reply_error(x, 415, "unsupported_media_type", "send 'Content-Type: application/json'",
                     "the body must be " JSON_TYPE);
    return false;
}

// ---- the legacy client of a request -------------------------------------------------------------

// The version of the header, else the client's.
static int find_version(struct http_exchange *x, const struct mcp_client *client, json_t *id,
                        enum mcp_version *ret, struct rpc_refusal *no)
{
    const char *value = NULL;
    unsigned count = get_header(x, HEADER_VERSION, &value);
    int version = count == 1 ? mcp_version_find(value) : count ? -1 : (int)client->version;
    if (version < 0 || version > (int)MCP_NEWEST_LEGACY)
        return rpc_refuse(no, MCP_INVALID_REQUEST, 400, id, NULL,
                          "the header '" HEADER_VERSION
                          "' is no version of a session; this one agreed "
                          "on '%s'",
                          mcp_version_name(client->version));
    *ret = (enum mcp_version)version;
    return 0;
}

static int find_client(struct http_exchange *x, json_t *id, struct mcp_client **ret,
                       enum mcp_version *ret_version, struct rpc_refusal *no)
{
    const char *value = NULL;
    if (get_header(x, HEADER_SESSION, &value) != 1)
        return rpc_refuse(no, MCP_INVALID_REQUEST, 400, id, NULL,
                          "one header '" HEADER_SESSION "' is needed: begin with 'initialize', or "
                          "send params._meta of protocol version %s",
                          mcp_version_name(MCP_2026_07_28));
    // SECURITY: the same answer for an unknown session and for one of another owner.
    struct mcp_client *client = mcp_client_find(the_mcp, value, x->owner);
    if (!client)
        return rpc_refuse(no, MCP_INVALID_REQUEST, 404, id, NULL,
                          "there is no such session, or it has ended; begin again with "
                          "'initialize'");
    *ret = client;
    return find_version(x, client, id, ret_version, no);
}

static bool is_modern_header(const struct http_exchange *x)
{
    const char *value = NULL;
    return get_header(x, HEADER_VERSION, &value) == 1 &&
           mcp_version_find(value) > (int)MCP_NEWEST_LEGACY;
}

// ---- POST: modern -------------------------------------------------------------------------------

static int check_modern(struct http_exchange *x, const struct rpc_message *m,
                        enum mcp_version *ret_version, struct rpc_refusal *no)
{
    struct headers headers = {get_header, x};
    if (headers_check_version(&headers, m, no) < 0 || rpc_check_modern(m, ret_version, no) < 0)
        return -1;
    if (m->kind != RPC_REQUEST)
        return 0;
    const struct mcp_method *method = mcp_method_find(the_mcp, m->method, true);
    if (!method)
        return rpc_refuse(no, MCP_METHOD_NOT_FOUND, 404, m->id, NULL,
                          "there is no method '%s' in protocol version %s", m->method,
                          mcp_version_name(*ret_version));
    return headers_check_standard(&headers, m, method, no);
}

static void accept_message(struct http_exchange *x)
{
    http_reply(x, 202, NULL, NULL, 0);
}

static void post_modern(struct http_exchange *x, struct rpc_message *m)
{
    struct rpc_refusal no;
    enum mcp_version version;
    if (check_modern(x, m, &version, &no) < 0) {
        post_refuse(x, &no);
        rpc_message_clear(m);
    } else if (m->kind == RPC_REQUEST) {
        post_request(x, NULL, version, m, check_params);
    } else {
        accept_message(x); // no notification has an effect over HTTP
        rpc_message_clear(m);
    }
}

// ---- POST: legacy -------------------------------------------------------------------------------

static void post_initialize(struct http_exchange *x, struct rpc_message *m)
{
    struct rpc_refusal no;
    struct mcp_client *client = mcp_client_new(the_mcp, x->owner);
    if (!client) {
        (void)rpc_refuse(&no, MCP_INTERNAL_ERROR, 503, m->id, NULL,
                         "there are too many sessions at work; try again later");
        post_refuse(x, &no);
        rpc_message_clear(m);
        return;
    }
    post_request(x, client, client->version, m, NULL);
}

// ---- POST: legacy, without a session ------------------------------------------------------------

#define KERNELS_PATH "/ai/sandbox/v1/mcp"

// The original server of this path has no sessions, so a request may stand alone.
static bool stands_alone(const struct http_exchange *x)
{
    return strncmp(x->path, KERNELS_PATH, sizeof KERNELS_PATH - 1) == 0 &&
           !http_header(x, HEADER_SESSION);
}

// A client for one such request, reused from earlier ones.  Each serves one request at a time,
// because all callers without a session count their ids from 1.
static struct mcp_client *take_spare(const char *owner, enum mcp_version version)
{
    enum { SPARE_MAX = 256 };
    static char ids[SPARE_MAX][MCP_SESSION_ID_LENGTH + 1];
    char *spare = NULL;
    for (size_t i = 0; i < SPARE_MAX; i++) {
        struct mcp_client *client = ids[i][0] ? mcp_client_find(the_mcp, ids[i], owner) : NULL;
        if (client && client->call_count == 0 && client->version == version)
            return client;
        if (!client && !spare)
            spare = ids[i]; // free
    }
    struct mcp_client *client = spare ? mcp_client_new(the_mcp, owner) : NULL;
    if (!client)
        return NULL;
    client->version = version;
    client->agreed = true;
    client->capabilities = json_object(); // no questions can be asked
    memcpy(spare, client->id, sizeof ids[0]);
    return client;
}

static void post_alone(struct http_exchange *x, struct rpc_message *m)
{
    struct rpc_refusal no;
    const char *value = NULL;
    unsigned count = get_header(x, HEADER_VERSION, &value);
    int version = count ? mcp_version_find(value) : MCP_2025_03_26;
    if (m->kind != RPC_REQUEST) {
        accept_message(x);
        rpc_message_clear(m);
        return;
    }
    struct mcp_client *client = version >= 0 && version <= (int)MCP_NEWEST_LEGACY
                                    ? take_spare(x->owner, (enum mcp_version)version)
                                    : NULL;
    if (client) {
        post_request(x, client, client->version, m, NULL);
        return;
    }
    if (version < 0 || version > (int)MCP_NEWEST_LEGACY)
        (void)rpc_refuse(&no, MCP_INVALID_REQUEST, 400, m->id, NULL,
                         "the header '" HEADER_VERSION "' names no version that is known here");
    else
        (void)rpc_refuse(&no, MCP_INTERNAL_ERROR, 503, m->id, NULL,
                         "there are too many requests at work; try again later");
    post_refuse(x, &no);
    rpc_message_clear(m);
}

// One message of a legacy client.
static void post_legacy(struct http_exchange *x, struct rpc_message *m)
{
    struct mcp_client *client;
    struct rpc_refusal no;
    enum mcp_version version;
    if (stands_alone(x)) {
        post_alone(x, m);
        return;
    }
    if (find_client(x, m->id, &client, &version, &no) < 0) {
        post_refuse(x, &no);
        rpc_message_clear(m);
    } else if (m->kind == RPC_REQUEST) {
        post_request(x, client, version, m, NULL);
    } else {
        struct mcp_from from = {.client = client, .owner = client->owner, .version = version};
        accept_message(x);
        (void)mcp_receive(the_mcp, &from, m);
    }
}

// A message whose body names no era.
static void post_plain(struct http_exchange *x, struct rpc_message *m)
{
    struct rpc_refusal no;
    if (m->kind == RPC_REQUEST && strcmp(m->method, "initialize") == 0) {
        post_initialize(x, m);
        return;
    }
    if (!is_modern_header(x)) {
        post_legacy(x, m);
        return;
    }
    if (m->kind == RPC_NOTIFICATION)
        accept_message(x);
    else if (m->kind == RPC_RESPONSE)
        (void)rpc_refuse(&no, MCP_INVALID_REQUEST, 400, m->id, NULL,
                         "in protocol version %s the server sends no requests to respond to",
                         mcp_version_name(MCP_2026_07_28));
    else
        (void)rpc_refuse(&no, MCP_INVALID_PARAMS, 400, m->id, NULL,
                         "params._meta must have '" MCP_META_VERSION "' and '" MCP_META_CAPABILITIES
                         "'");
    if (m->kind != RPC_NOTIFICATION)
        post_refuse(x, &no);
    rpc_message_clear(m);
}

// ---- POST: batches of 2025-03-26 ----------------------------------------------------------------

static void handle_batch(struct http_exchange *x, struct rpc_message *m)
{
    struct mcp_client *client;
    struct rpc_refusal no;
    enum mcp_version version;
    int r = find_client(x, NULL, &client, &version, &no);
    if (r == 0 && (client->version != MCP_2025_03_26 || version != MCP_2025_03_26))
        r = rpc_refuse(&no, MCP_INVALID_REQUEST, 400, NULL, NULL,
                       "batches exist in protocol version %s only; send one message at a time",
                       mcp_version_name(MCP_2025_03_26));
    if (r == 0) {
        post_batch(x, client, version, m);
        return;
    }
    post_refuse(x, &no);
    rpc_message_clear(m);
}

static void handle_post(struct http_exchange *x)
{
    struct rpc_message m;
    struct rpc_refusal no;
    size_t length;
    if (!mcp_http_is_json(x))
        return;
    const char *body = http_body(x, &length);
    int r = rpc_read(body, length, &m, &no);
    http_body_done(x); // a stream may last for days
    if (r < 0)
        post_refuse(x, &no);
    else if (m.kind == RPC_BATCH)
        handle_batch(x, &m);
    else if (m.modern)
        post_modern(x, &m);
    else
        post_plain(x, &m);
}

// ---- GET and DELETE: legacy clients -------------------------------------------------------------

// The client of a GET or DELETE; NULL: it was answered.
static struct mcp_client *client_of(struct http_exchange *x, enum mcp_version *ret_version)
{
    struct mcp_client *client;
    struct rpc_refusal no;
    if (is_modern_header(x)) { // the new protocol has only POST
        http_add_header(x, "Allow", "POST");
        http_reply_error(x, 405, "method_not_allowed", "send POST",
                         "protocol version %s has only POST", mcp_version_name(MCP_2026_07_28));
        return NULL;
    }
    if (find_client(x, NULL, &client, ret_version, &no) == 0)
        return client;
    post_refuse(x, &no);
    return NULL;
}

static void handle_get(struct http_exchange *x)
{
    enum mcp_version version;
    struct mcp_client *client = client_of(x, &version);
    const char *id = NULL;
    if (!client)
        return;
    unsigned count = get_header(x, "Last-Event-ID", &id);
    if (!count)
        post_listen(x, client, version);
    else if (count > 1 || !post_resume(x, client, id))
        http_reply_error(x, 400, "unknown_event",
                         "open a new stream: the same GET without Last-Event-ID",
                         "Last-Event-ID is not an event of this session, or its stream is over");
}

static void handle_delete(struct http_exchange *x)
{
    enum mcp_version version;
    struct mcp_client *client = client_of(x, &version);
    if (!client)
        return;
    posts_set_dropped(404); // for posts that wait for its answers
    mcp_client_end(client);
    posts_set_dropped(202);
    http_reply(x, 204, NULL, NULL, 0);
}

// ---- the server ---------------------------------------------------------------------------------

void mcp_http_handle(struct http_exchange *x, void *argument)
{
    (void)argument;
    switch (x->method) {
    case HTTP_POST: handle_post(x); return;
    case HTTP_GET: handle_get(x); return;
    case HTTP_DELETE: handle_delete(x); return;
    case HTTP_PUT:
    case HTTP_HEAD: break; // not routed here
    }
    http_reply_error(x, 405, "method_not_allowed", NULL, "this path takes POST, GET and DELETE");
}

void mcp_http_open(struct mcp *m, struct http *h)
{
    static const struct http_route routes[] = {
        {"/mcp", HTTP_POST | HTTP_GET | HTTP_DELETE, false, mcp_http_handle, NULL},
        {"/mcp/", HTTP_POST | HTTP_GET | HTTP_DELETE, false, mcp_http_handle, NULL},
        {.path = NULL},
    };
    // The path of the original server of the tool set 'kernels'.
    static const struct http_route kernel_routes[] = {
        {KERNELS_PATH, HTTP_POST | HTTP_GET | HTTP_DELETE, false, mcp_http_handle, NULL},
        {KERNELS_PATH "/", HTTP_POST | HTTP_GET | HTTP_DELETE, false, mcp_http_handle, NULL},
        {.path = NULL},
    };
    posts_open(m);
    the_mcp = m;
    http_add_routes(h, routes);
    if (mcp_tool_set_is_on(m, "kernels"))
        http_add_routes(h, kernel_routes);
}

void mcp_http_stop(void)
{
    if (the_mcp)
        posts_stop();
}

void mcp_http_close(void)
{
    if (!the_mcp)
        return;
    posts_set_dropped(503);
    mcp_http_stop();
    while (the_mcp->oldest)
        mcp_client_end(the_mcp->oldest); // also ends its calls and their posts
    posts_close();
    the_mcp = NULL;
}
