// SPDX-License-Identifier: Apache-2.0
//
// sse: see sse.h.  Runs in the gate.  Its clients are not in the table of client.c, which ends idle
// ones and whose ids are valid at /mcp.

#include "mcp/transport/sse.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "mcp/protocol/client.h"
#include "mcp/transport/http.h"
#include "mcp/transport/post.h"
#include "mcp/transport/stream.h"

enum { ID_BYTES = 16, ID_MAX = 2 * ID_BYTES + 1 };

struct client {
    struct mcp_outlet outlet; // first: of all its calls and of the client
    char id[ID_MAX];
    struct mcp_client *client;
    struct stream *stream;
};

static struct {
    struct mcp *mcp;
    void *clients; // tsearch tree by id
} server;

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct client *)a)->id, ((const struct client *)b)->id);
}

// ---- the stream ---------------------------------------------------------------------------------

static void client_send(struct mcp_outlet *o, json_t *message, bool last)
{
    struct client *c = (struct client *)o;
    (void)last;
    if (c->stream)
        stream_send(c->stream, message);
}

static void client_drop(struct mcp_outlet *o)
{
    (void)o; // the stream is shared and stays
}

// Ends the client, its calls and its stream.
static void client_free(struct client *c)
{
    (void)tdelete(c, &server.clients, compare);
    if (c->client)
        mcp_client_end(c->client);
    stream_free(c->stream);
    free(c);
}

static void on_gone(struct stream *s)
{
    client_free(s->owner);
}

static int make_id(char id[ID_MAX])
{
    unsigned char bytes[ID_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return -1;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

static struct client *client_new(const char *owner)
{
    struct client *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->outlet = (struct mcp_outlet){.send = client_send, .drop = client_drop};
    c->client = mcp_client_new_private(server.mcp, owner);
    c->stream = stream_new(posts_streams(), NULL, false);
    if (!c->client || !c->stream || make_id(c->id) < 0 || !tsearch(c, &server.clients, compare)) {
        client_free(c);
        return NULL;
    }
    c->client->outlet = &c->outlet;
    c->stream->owner = c;
    c->stream->on_gone = on_gone;
    return c;
}

static void handle_stream(struct http_exchange *x, void *argument)
{
    char endpoint[64 + ID_MAX];
    (void)argument;
    struct client *c = client_new(x->owner);
    if (!c) {
        http_reply_error(x, 503, "busy", "try again later", "the server is out of memory");
        return;
    }
    snprintf(endpoint, sizeof endpoint, "/messages?session_id=%s", c->id);
    stream_connect(c->stream, x);
    stream_send_text(c->stream, "endpoint", endpoint);
}

// ---- messages -----------------------------------------------------------------------------------

// SECURITY: another owner's session is answered like an unknown one.
static struct client *client_find(struct http_exchange *x)
{
    struct client key, **found = NULL;
    if (!http_query(x, "session_id", key.id, sizeof key.id)) {
        http_reply_error(x, 400, "no_session",
                         "open GET /sse and send to the path that its first event names",
                         "the query needs 'session_id'");
        return NULL;
    }
    found = tfind(&key, &server.clients, compare);
    if (found && strcmp((*found)->client->owner, x->owner) == 0)
        return *found;
    http_reply_error(x, 404, "unknown_session", "open GET /sse again",
                     "there is no such session, or its stream has ended");
    return NULL;
}

static int refuse_modern(const struct rpc_message *m, struct rpc_refusal *no)
{
    return rpc_refuse(no, MCP_INVALID_REQUEST, 400, m->id, NULL,
                      "messages of protocol version %s are served at /mcp, not here",
                      mcp_version_name(MCP_2026_07_28));
}

static void receive(struct client *c, struct rpc_message *m)
{
    struct mcp_from from = {.client = c->client,
                            .outlet = &c->outlet,
                            .owner = c->client->owner,
                            .version = c->client->version};
    (void)mcp_receive(server.mcp, &from, m);
}

static void receive_element(struct client *c, json_t *element, size_t length)
{
    struct rpc_message m;
    struct rpc_refusal no;
    int r = rpc_sort(json_incref(element), &m, &no);
    if (r == 0 && (m.modern || m.kind == RPC_BATCH)) {
        r = refuse_modern(&m, &no);
        rpc_message_clear(&m);
    }
    if (r == 0 && (r = rpc_check_params(&m, length, &no)) < 0)
        rpc_message_clear(&m);
    if (r == 0) {
        receive(c, &m);
        return;
    }
    json_auto_t *message = rpc_refusal_json(&no);
    if (message)
        stream_send(c->stream, message);
    rpc_refusal_clear(&no);
}

static int read_message(struct http_exchange *x, const struct client *c, struct rpc_message *ret,
                        struct rpc_refusal *no)
{
    size_t length;
    const char *body = http_body(x, &length);
    int r = rpc_read(body, length, ret, no);
    http_body_done(x);
    if (r < 0)
        return r;
    if (ret->modern)
        r = refuse_modern(ret, no);
    else if (ret->kind == RPC_BATCH && !(c->client->agreed && c->client->version == MCP_2025_03_26))
        r = rpc_refuse(no, MCP_INVALID_REQUEST, 400, NULL, NULL,
                       "batches exist in protocol version %s only; send one message at a time",
                       mcp_version_name(MCP_2025_03_26));
    if (r < 0)
        rpc_message_clear(ret);
    return r;
}

static void handle_message(struct http_exchange *x, void *argument)
{
    static const char accepted[] = "Accepted";
    struct rpc_message m;
    struct rpc_refusal no;
    (void)argument;
    if (!mcp_http_is_json(x))
        return;
    struct client *c = client_find(x);
    if (!c)
        return;
    if (read_message(x, c, &m, &no) < 0) {
        post_refuse(x, &no);
        return;
    }
    http_reply(x, 202, "text/plain", accepted, sizeof accepted - 1);
    if (m.kind != RPC_BATCH) {
        receive(c, &m);
        return;
    }
    for (size_t i = 0; i < json_array_size(m.message); i++)
        receive_element(c, json_array_get(m.message, i), m.length);
    rpc_message_clear(&m);
}

// ---- the server ---------------------------------------------------------------------------------

int mcp_sse_open(struct mcp *m, struct http *h, struct err *e)
{
    static const struct http_route routes[] = {
        {"/sse", HTTP_GET, false, handle_stream, NULL},
        {"/sse/", HTTP_GET, false, handle_stream, NULL},
        {"/messages", HTTP_POST, false, handle_message, NULL},
        {"/messages/", HTTP_POST, false, handle_message, NULL},
        {.path = NULL},
    };
    (void)e; // cannot fail
    server.mcp = m;
    http_add_routes(h, routes);
    http_set_events(h, "/", "/sse"); // for gateways that are given this server's bare address
    return 0;
}

void mcp_sse_close(void)
{
    while (server.clients) // a node of the tree begins with the pointer to its client
        client_free(*(struct client **)server.clients);
    server.mcp = NULL;
}
