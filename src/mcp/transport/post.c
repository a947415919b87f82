// SPDX-License-Identifier: Apache-2.0
//
// post: see post.h.  Runs in the gate.
//
// A post is one POST that waits for the answers of a request or a batch.  It is the outlet of its
// calls.
//
//   WAITING    nothing was sent: the answer will be one JSON body
//   STREAMING  a message came before the answer, or it takes long: the answer is a stream of events
//   ALONE      the client of a legacy call left before anything was sent: the answer is dropped
//
//   1. A post lives until its last call has sent its answer or was dropped.
//   2. A modern client that leaves cancels its call; a legacy one does not.
//   3. Each message goes to exactly one stream.

#include "mcp/transport/post.h"

#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mcp/protocol/client.h"
#include "mcp/protocol/subscriptions.h"
#include "mcp/transport/http.h"

#define HEADER_SESSION "Mcp-Session-Id"
#define JSON_TYPE "application/json"
#define EVENTS_TYPE "text/event-stream"

enum { OWN_STREAMS_MAX = 4 }; // connected GET streams of one client

struct post {
    struct mcp_outlet outlet; // first: the calls know only this
    struct post *next, *previous;
    struct http_exchange *x; // WAITING, else NULL
    struct stream *stream;   // STREAMING, else NULL
    struct mcp_client *client;
    struct mcp_call *call; // of one request, in flight
    enum mcp_version version;
    bool modern, takes_json, takes_events;
    bool is_listen, is_initialize;
    bool failed;           // initialize was answered with an error
    unsigned open;         // calls in flight, plus one while receiving
    json_t *answers;       // of a batch: array; else NULL
    size_t answers_length; // of their text, including sent ones
    struct timer patience; // fires when the answer takes long
};

// Of a client that ever used a stream.
struct shelf {
    struct mcp_outlet outlet; // first: the client's
    struct stream_shelf streams;
    struct mcp_client *client;
};

static struct {
    struct mcp *mcp;
    struct streams streams;
    struct post *posts;
    int dropped_status; // for a post without an answer
} server;

struct streams *posts_streams(void)
{
    return &server.streams;
}

void posts_set_dropped(int status)
{
    server.dropped_status = status;
}

void post_refuse(struct http_exchange *x, struct rpc_refusal *no)
{
    json_auto_t *body = rpc_refusal_json(no);
    if (body)
        http_reply_json(x, no->status, body);
    else
        http_reply(x, 500, NULL, NULL, 0);
    rpc_refusal_clear(no);
}

// ---- the streams of a client -------------------------------------------------------------------

// Sends on the newest connected stream, else on the newest that may be resumed.
static void own_send(struct mcp_outlet *o, json_t *message, bool last)
{
    struct shelf *shelf = (struct shelf *)o;
    struct stream *best = NULL;
    (void)last;
    for (struct stream *s = shelf->streams.first; s; s = s->next)
        if (s->own && !s->finished && (!best || (s->x && !best->x)))
            best = s;
    if (best)
        stream_send(best, message);
}

static void own_drop(struct mcp_outlet *o)
{
    (void)o; // not called: no call has this outlet
}

static void on_client_end(struct mcp_client *client)
{
    struct shelf *shelf = client->transport;
    stream_shelf_clear(&shelf->streams);
    client->transport = NULL;
    client->outlet = NULL;
    free(shelf);
}

static struct shelf *shelf_of(struct mcp_client *client)
{
    if (client->transport)
        return client->transport;
    struct shelf *shelf = calloc(1, sizeof *shelf);
    if (!shelf)
        return NULL;
    shelf->outlet = (struct mcp_outlet){.send = own_send, .drop = own_drop};
    shelf->client = client;
    client->transport = shelf;
    client->on_end = on_client_end;
    return shelf;
}

// A client that listens is in use.
static void touch_client(struct stream *s)
{
    struct shelf *shelf = s->owner;
    mcp_client_touch(shelf->client);
}

static struct stream *new_stream(struct mcp_client *client, enum mcp_version version)
{
    struct shelf *shelf = shelf_of(client);
    struct stream *s =
        shelf ? stream_new(&server.streams, &shelf->streams, version >= MCP_2025_11_25) : NULL;
    if (s) {
        s->owner = shelf;
        s->on_alive = touch_client;
    }
    return s;
}

// At too many connections of one client the oldest goes.
static void limit_own(struct mcp_client *client)
{
    struct shelf *shelf = client->transport;
    struct stream *oldest = NULL;
    unsigned connected = 0;
    for (struct stream *s = shelf ? shelf->streams.first : NULL; s; s = s->next)
        if (s->own && s->x) {
            oldest = s;
            connected++;
        }
    if (connected >= OWN_STREAMS_MAX)
        stream_finish(oldest);
}

void post_listen(struct http_exchange *x, struct mcp_client *client, enum mcp_version version)
{
    limit_own(client);
    struct stream *s = new_stream(client, version);
    if (!s) {
        http_reply_error(x, 503, "busy", "try again later", "the server is out of memory");
        return;
    }
    s->own = true;
    client->outlet = &((struct shelf *)client->transport)->outlet;
    stream_connect(s, x);
}

bool post_resume(struct http_exchange *x, struct mcp_client *client, const char *event_id)
{
    struct shelf *shelf = client->transport;
    uint32_t sequence;
    // SECURITY: only events of this client are searched.
    struct stream *s = shelf ? stream_find(&shelf->streams, event_id, &sequence) : NULL;
    if (s)
        stream_resume(s, x, sequence);
    return s != NULL;
}

// ---- the life of a post -------------------------------------------------------------------------

static struct http_exchange *take_exchange(struct post *p)
{
    struct http_exchange *x = TAKE_PTR(p->x);
    if (x) {
        x->work = NULL;
        x->on_close = NULL;
    }
    return x;
}

static void post_free(struct post *p)
{
    *(p->previous ? &p->previous->next : &server.posts) = p->next;
    if (p->next)
        p->next->previous = p->previous;
    timer_stop(&p->patience);
    if (p->stream && !p->stream->shelf)
        stream_free(p->stream);
    json_decref(p->answers);
    free(p);
}

// The last call has ended.
static void post_end(struct post *p)
{
    struct http_exchange *x = take_exchange(p);
    if (p->stream)
        stream_finish(p->stream);
    else if (x && json_array_size(p->answers))
        http_reply_json(x, 200, p->answers);
    else if (x) // cancelled, or a batch without a request
        http_reply(x, server.dropped_status, NULL, NULL, 0);
    post_free(p);
}

static void release(struct post *p)
{
    if (--p->open == 0)
        post_end(p);
}

// The client left before anything was sent.
static void on_close(struct http_exchange *x)
{
    struct post *p = x->work;
    p->x = NULL;
    if (p->modern && p->call)
        mcp_cancel(p->call); // frees the post
}

// The modern client of a stream left.
static void on_gone(struct stream *s)
{
    struct post *p = s->owner;
    if (p->call)
        mcp_cancel(p->call); // frees the post
}

// WAITING -> STREAMING.  False: it never will.
static bool begin_stream(struct post *p)
{
    if (p->stream)
        return true;
    if (!p->x)
        return false;
    struct stream *s =
        p->modern ? stream_new(&server.streams, NULL, false) : new_stream(p->client, p->version);
    if (!s)
        return false;
    if (p->modern) {
        s->owner = p;
        s->on_gone = on_gone;
    }
    p->stream = s;
    stream_connect(s, take_exchange(p));
    for (size_t i = 0; i < json_array_size(p->answers); i++) // of a batch, so far
        stream_send(s, json_array_get(p->answers, i));
    (void)json_array_clear(p->answers);
    return true;
}

// The answer takes long: stream, because a proxy would cut a silent connection, and the client
// could not resume it.
static void on_patience(void *argument)
{
    (void)begin_stream(argument);
}

// ---- what calls send ----------------------------------------------------------------------------

static int status_of(const struct post *p, json_t *message)
{
    static const struct {
        int code, status;
    } statuses[] = {
        {MCP_METHOD_NOT_FOUND, 404},
        {MCP_HEADER_MISMATCH, 400},
        {MCP_MISSING_CAPABILITY, 400},
        {MCP_UNSUPPORTED_VERSION, 400},
    };
    json_int_t code =
        json_integer_value(json_object_get(json_object_get(message, "error"), "code"));
    for (size_t i = 0; p->modern && i < ARRAY_LEN(statuses); i++)
        if (statuses[i].code == code)
            return statuses[i].status;
    return 200;
}

// A message before the answer.
static void send_before(struct post *p, json_t *message)
{
    bool is_question = json_object_get(message, "id") != NULL;
    struct mcp_outlet *own = p->client ? p->client->outlet : NULL;
    if (!p->stream && is_question && own && !(p->x && p->takes_events)) {
        own->send(own, message, false); // the client accepts no stream here, but has another one
        return;
    }
    // Without a stream, a question or a subscription is useless.
    if ((p->takes_events || is_question || p->is_listen) && begin_stream(p))
        stream_send(p->stream, message);
}

static void send_one(struct post *p, json_t *message)
{
    int status = status_of(p, message);
    if (p->is_initialize) {
        p->failed = !json_object_get(message, "result");
        if (!p->failed && p->x)
            http_add_header(p->x, HEADER_SESSION, p->client->id);
    }
    if (!p->takes_json && status == 200)
        (void)begin_stream(p);
    if (p->stream)
        stream_send(p->stream, message);
    else if (p->answers)
        (void)json_array_append(p->answers, message);
    else if (p->x)
        http_reply_json(take_exchange(p), status, message);
}

static void send_answer(struct post *p, json_t *message)
{
    json_t *fitting =
        p->answers ? rpc_batch_answer(&p->answers_length, message) : json_incref(message);
    if (fitting)
        send_one(p, fitting);
    json_decref(fitting);
}

static void post_send(struct mcp_outlet *o, json_t *message, bool last)
{
    struct post *p = (struct post *)o;
    if (!last) {
        send_before(p, message);
        return;
    }
    p->call = NULL;
    send_answer(p, message);
    release(p);
}

// Only an answer in one JSON body is sent as text; other cases are rare.
static void post_send_text(struct mcp_outlet *o, json_t *id, const char *result, size_t length)
{
    static const char begin[] = "{\"jsonrpc\":\"2.0\",\"id\":", middle[] = ",\"result\":";
    struct post *p = (struct post *)o;
    if (!p->x || p->stream || p->answers || !p->takes_json || p->is_initialize) {
        json_t *value = json_loadb(result, length, JSON_ALLOW_NUL, NULL);
        json_t *message = json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", value);
        post_send(o, message, true);
        json_decref(message);
        return;
    }
    struct evbuffer *body = evbuffer_new();
    char number[RPC_ID_TEXT_MAX];
    size_t n = json_dumpb(id, number, sizeof number, JSON_ENCODE_ANY);
    p->call = NULL;
    if (body && evbuffer_expand(body, sizeof begin + n + sizeof middle + length + 1) == 0) {
        (void)evbuffer_add(body, begin, sizeof begin - 1);
        (void)evbuffer_add(body, number, n);
        (void)evbuffer_add(body, middle, sizeof middle - 1);
        (void)evbuffer_add(body, result, length);
        (void)evbuffer_add(body, "}", 1);
        http_reply_buffer(take_exchange(p), 200, JSON_TYPE, body);
    } else {
        http_reply_error(take_exchange(p), 503, "out_of_memory", "try again later",
                         "the server is out of memory");
    }
    if (body)
        evbuffer_free(body);
    release(p);
}

static void post_drop(struct mcp_outlet *o)
{
    struct post *p = (struct post *)o;
    p->call = NULL;
    release(p);
}

void mcp_http_close_stream(struct mcp_call *c)
{
    struct post *p = (struct post *)c->outlet;
    if (c->outlet->send != post_send || p->modern || p->version < MCP_2025_11_25)
        return;
    if (p->takes_events && begin_stream(p))
        stream_hang_up(p->stream);
}

// ---- requests -----------------------------------------------------------------------------------

static struct post *post_new(struct http_exchange *x, struct mcp_client *client,
                             enum mcp_version version, bool modern)
{
    struct post *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    *p =
        (struct post){.outlet = {.send = post_send, .drop = post_drop, .send_text = post_send_text},
                      .next = server.posts,
                      .x = x,
                      .client = client,
                      .version = version,
                      .modern = modern,
                      .takes_json = http_accepts(x, JSON_TYPE),
                      .takes_events = http_accepts(x, EVENTS_TYPE),
                      .open = 1};
    if (!p->takes_events) // a client that accepts neither gets JSON
        p->takes_json = true;
    if (p->next)
        p->next->previous = p;
    server.posts = p;
    x->work = p;
    x->on_close = on_close;
    return p;
}

static void refuse_memory(struct http_exchange *x, json_t *id)
{
    struct rpc_refusal no;
    (void)rpc_refuse(&no, MCP_INTERNAL_ERROR, 503, id, NULL, "the server is out of memory");
    post_refuse(x, &no);
}

// All messages were received.
static void received(struct post *p)
{
    if (p->open > 1 && p->x && p->takes_events)
        (void)timer_set(&p->patience, server.mcp->base, STREAM_ALIVE_S * 1000, on_patience, p);
    release(p);
}

void post_request(struct http_exchange *x, struct mcp_client *client, enum mcp_version version,
                  struct rpc_message *m, check_params_fn *check_params)
{
    struct post *p = post_new(x, client, version, m->modern);
    bool is_initialize = !m->modern && strcmp(m->method, "initialize") == 0, failed = true;
    if (p) {
        char owner[sizeof x->owner]; // the exchange may end before
        memcpy(owner, x->owner, sizeof owner);
        struct mcp_from from = {.client = client,
                                .outlet = &p->outlet,
                                .owner = owner,
                                .version = version,
                                .check_params = check_params,
                                .argument = x};
        p->is_initialize = is_initialize;
        p->is_listen = m->modern && strcmp(m->method, "subscriptions/listen") == 0;
        if (is_initialize)
            p->version = MCP_2024_11_05; // no version yet: the plainest stream
        p->open++;
        p->call = mcp_receive(server.mcp, &from, m);
        failed = p->failed;
        received(p);
    } else {
        refuse_memory(x, m->id);
        rpc_message_clear(m);
    }
    if (is_initialize && failed)
        mcp_client_end(client);
}

// One element of a batch; an error does not stop the others.
static void receive_element(struct post *p, const char *owner, json_t *element, size_t length)
{
    struct rpc_message m;
    struct rpc_refusal no;
    struct mcp_from from = {
        .client = p->client, .outlet = &p->outlet, .owner = owner, .version = p->version};
    int r = rpc_sort(json_incref(element), &m, &no);
    if (r == 0 && (m.kind == RPC_BATCH || m.modern ||
                   (m.kind == RPC_REQUEST && strcmp(m.method, "initialize") == 0))) {
        r = rpc_refuse(&no, MCP_INVALID_REQUEST, 400, m.id, NULL,
                       "a batch cannot hold 'initialize', another batch, or messages of %s",
                       mcp_version_name(MCP_2026_07_28));
        rpc_message_clear(&m);
    }
    if (r == 0 && (r = rpc_check_params(&m, length, &no)) < 0)
        rpc_message_clear(&m);
    if (r == 0 && m.kind == RPC_REQUEST && rpc_batch_is_full(p->answers_length)) {
        r = rpc_refuse_full(&no, m.id);
        rpc_message_clear(&m);
    }
    if (r == 0) {
        p->open += m.kind == RPC_REQUEST;
        (void)mcp_receive(server.mcp, &from, &m);
        return;
    }
    json_auto_t *answer = rpc_refusal_json(&no);
    if (answer)
        send_answer(p, answer);
    rpc_refusal_clear(&no);
}

void post_batch(struct http_exchange *x, struct mcp_client *client, enum mcp_version version,
                struct rpc_message *m)
{
    char owner[sizeof x->owner];
    memcpy(owner, x->owner, sizeof owner);
    json_t *answers = json_array();
    struct post *p = answers ? post_new(x, client, version, false) : NULL;
    if (p) {
        p->answers = answers;
        for (size_t i = 0; i < json_array_size(m->message); i++)
            receive_element(p, owner, json_array_get(m->message, i), m->length);
        received(p);
    } else {
        json_decref(answers);
        refuse_memory(x, NULL);
    }
    rpc_message_clear(m);
}

// ---- start and end ------------------------------------------------------------------------------

void posts_open(struct mcp *m)
{
    server.mcp = m;
    server.dropped_status = 202;
    streams_open(&server.streams, m->base);
}

void posts_stop(void)
{
    mcp_subscriptions_end_all(server.mcp);
    for (struct mcp_client *client = server.mcp->oldest; client; client = client->newer) {
        struct shelf *shelf = client->transport;
        for (struct stream *s = shelf ? shelf->streams.first : NULL; s; s = s->next)
            if (s->own)
                stream_finish(s);
    }
}

void posts_close(void)
{
    for (struct post *p = server.posts, *next; p; p = next) {
        next = p->next;
        if (p->call)
            mcp_cancel(p->call); // frees the post
    }
    streams_close(&server.streams);
    server.mcp = NULL;
}
