// SPDX-License-Identifier: Apache-2.0
//
// ask: questions to the client: see mcp.h.  Three ways to one end: a request to a legacy client, a
// second round of the same request for a modern one, a pause for a task.

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "mcp/protocol/client.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/tasks.h"
#include "json/encode.h"

enum { ANSWER_S = 600, STATE_TTL_S = 900, STATE_MAX = 65536, SEAL_SIZE = 32 };

// One open question of a legacy call.
struct ask_item {
    uint64_t number; // its id on the wire
    struct mcp_call *call;
    char key[64];
    bool open;
};

struct mcp_ask {
    size_t count, open;
    struct ask_item items[MCP_QUESTIONS_MAX];
    struct event *timer; // nobody waits for ever
    json_t *answers;
    void (*then)(struct mcp_call *c, json_t *answers);
};

static const struct {
    const char *method, *capability;
} kinds[] = {
    {"elicitation/create", "elicitation"},
    {"sampling/createMessage", "sampling"},
    {"roots/list", "roots"},
};

static const char *capability_of(const char *method)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i].method, method) == 0)
            return kinds[i].capability;
    return "experimental"; // no question of ours
}

static json_t *question_json(const struct mcp_question *q)
{
    json_t *o = json_pack("{s:s}", "method", q->method);
    if (q->params)
        (void)json_object_set(o, "params", q->params);
    return o;
}

// ---- requestState -------------------------------------------------------------------------------

// The request without what changes from round to round.
static int digest_of(const struct mcp_call *c, unsigned char ret[SEAL_SIZE])
{
    json_t *rest = json_copy(c->request.params);
    (void)json_object_del(rest, "inputResponses");
    (void)json_object_del(rest, "requestState");
    (void)json_object_del(rest, "_meta");
    _cleanup_free_ char *text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(rest);
    EVP_MD_CTX *md = text ? EVP_MD_CTX_new() : NULL;
    bool good = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 &&
                EVP_DigestUpdate(md, c->owner, sizeof c->owner) == 1 &&
                EVP_DigestUpdate(md, c->method->name, strlen(c->method->name) + 1) == 1 &&
                EVP_DigestUpdate(md, text, strlen(text)) == 1 &&
                EVP_DigestFinal_ex(md, ret, NULL) == 1;
    EVP_MD_CTX_free(md);
    return good ? 0 : -1;
}

static int seal(const struct mcp_call *c, const char *body, size_t length,
                unsigned char ret[SEAL_SIZE])
{
    unsigned char key[MCP_SECRET_SIZE + SEAL_SIZE];
    memcpy(key, c->mcp->secret, MCP_SECRET_SIZE);
    if (digest_of(c, key + MCP_SECRET_SIZE) < 0)
        return -1;
    return HMAC(EVP_sha256(), key, sizeof key, (const unsigned char *)body, length, ret, NULL) ? 0
                                                                                               : -1;
}

// BODY.SEAL, both in base64url; the body is {"until": seconds, "state": ...}.
char *mcp_state_seal(struct mcp_call *c, json_t *state)
{
    unsigned char mark[SEAL_SIZE];
    json_t *body =
        json_pack("{s:I, s:O}", "until", (json_int_t)time(NULL) + STATE_TTL_S, "state", state);
    _cleanup_free_ char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    _cleanup_free_ char *coded = text ? encode_base64url(text, strlen(text)) : NULL;
    if (!coded || seal(c, coded, strlen(coded), mark) < 0)
        return NULL;
    _cleanup_free_ char *end = encode_base64url(mark, sizeof mark);
    char *ret = NULL;
    if (!end || asprintf(&ret, "%s.%s", coded, end) < 0)
        return NULL;
    return ret;
}

int mcp_state_open(struct mcp_call *c, const char *text)
{
    unsigned char mark[SEAL_SIZE];
    const char *dot = strrchr(text, '.');
    if (!dot || strlen(text) > STATE_MAX || seal(c, text, (size_t)(dot - text), mark) < 0)
        return -1;
    size_t length = 0;
    _cleanup_free_ unsigned char *given = decode_base64url(dot + 1, strlen(dot + 1), &length);
    if (!given || length != sizeof mark || CRYPTO_memcmp(given, mark, sizeof mark) != 0)
        return -1;
    _cleanup_free_ unsigned char *body = decode_base64url(text, (size_t)(dot - text), &length);
    json_t *o = body ? json_loadb((char *)body, length, 0, NULL) : NULL;
    bool fresh = json_integer_value(json_object_get(o, "until")) >= (json_int_t)time(NULL);
    if (fresh) {
        json_decref(c->state);
        c->state = json_incref(json_object_get(o, "state"));
    }
    json_decref(o);
    return fresh ? 0 : -1;
}

// ---- modern: another round ----------------------------------------------------------------------

static void ask_modern(struct mcp_call *c, const struct mcp_question *questions, size_t count,
                       json_t *state, void (*then)(struct mcp_call *c, json_t *answers))
{
    json_t *answers = json_object(), *missing = json_object();
    bool bad = false;
    for (size_t i = 0; i < count; i++) {
        json_t *answer = json_object_get(c->answers, questions[i].key);
        bad = bad || (answer && !json_is_object(answer));
        if (answer)
            (void)json_object_set(answers, questions[i].key, answer);
        else
            (void)json_object_set_new(missing, questions[i].key, question_json(&questions[i]));
    }
    if (bad || !answers || !missing) {
        mcp_fail(c, bad ? MCP_INVALID_PARAMS : MCP_INTERNAL_ERROR, NULL,
                 bad ? "each value of 'inputResponses' must be an object"
                     : "the server is out of memory");
    } else if (json_object_size(missing) == 0) {
        then(c, answers);
    } else {
        json_t *result =
            json_pack("{s:s, s:O}", "resultType", "input_required", "inputRequests", missing);
        _cleanup_free_ char *sealed = state ? mcp_state_seal(c, state) : NULL;
        if (sealed)
            (void)json_object_set_new(result, "requestState", json_string(sealed));
        mcp_answer(c, state && !sealed ? (json_decref(result), NULL) : result);
    }
    json_decref(answers);
    json_decref(missing);
}

// ---- legacy: a request to the client ------------------------------------------------------------

static int compare(const void *a, const void *b)
{
    uint64_t x = ((const struct ask_item *)a)->number, y = ((const struct ask_item *)b)->number;
    return x < y ? -1 : x > y;
}

void mcp_ask_free(struct mcp_call *c)
{
    struct mcp_ask *ask = c->ask;
    if (!ask)
        return;
    c->ask = NULL;
    for (size_t i = 0; i < ask->count; i++)
        if (ask->items[i].open && c->client)
            (void)tdelete(&ask->items[i], &c->client->asks, compare);
    if (ask->timer)
        event_free(ask->timer);
    json_decref(ask->answers);
    free(ask);
}

static void on_silence(evutil_socket_t fd, short what, void *argument)
{
    struct mcp_call *c = argument;
    (void)fd;
    (void)what;
    void (*cancel)(struct mcp_call * c) = TAKE_PTR(c->cancel);
    if (cancel)
        cancel(c);
    mcp_fail(c, MCP_INTERNAL_ERROR, NULL, "the client did not answer within %d s", ANSWER_S);
}

static void ask_legacy(struct mcp_call *c, const struct mcp_question *questions, size_t count,
                       void (*then)(struct mcp_call *c, json_t *answers))
{
    struct mcp_client *client = c->client;
    mcp_ask_free(c);
    struct mcp_ask *ask = calloc(1, sizeof *ask);
    struct timeval wait = {.tv_sec = ANSWER_S};
    if (ask)
        ask->timer = evtimer_new(c->mcp->base, on_silence, c);
    if (!ask || !(ask->answers = json_object()) || !ask->timer ||
        event_add(ask->timer, &wait) < 0) {
        if (ask && ask->timer)
            event_free(ask->timer);
        if (ask)
            json_decref(ask->answers);
        free(ask);
        mcp_fail(c, MCP_INTERNAL_ERROR, NULL, "the server is out of memory");
        return;
    }
    c->ask = ask;
    ask->then = then;
    for (size_t i = 0; i < count; i++) {
        struct ask_item *item = &ask->items[ask->count];
        *item = (struct ask_item){.number = ++client->next_ask, .call = c};
        snprintf(item->key, sizeof item->key, "%s", questions[i].key);
        if (!tsearch(item, &client->asks, compare)) {
            mcp_fail(c, MCP_INTERNAL_ERROR, NULL, "the server is out of memory");
            return;
        }
        item->open = true;
        ask->count++;
        ask->open++;
    }
    // When all are in the table: the answer to the first may come while the second is being sent.
    for (size_t i = 0; i < count; i++) {
        json_t *message = question_json(&questions[i]);
        (void)json_object_set_new(message, "jsonrpc", json_string("2.0"));
        (void)json_object_set_new(message, "id", json_integer((json_int_t)ask->items[i].number));
        if (message)
            c->outlet->send(c->outlet, message, false);
        json_decref(message);
    }
}

void mcp_ask_response(struct mcp_client *client, const struct rpc_message *m)
{
    struct ask_item key = {.number = (uint64_t)json_integer_value(m->id)};
    struct ask_item **found = json_is_integer(m->id) ? tfind(&key, &client->asks, compare) : NULL;
    if (!found)
        return; // nobody asked, or nobody waits any more
    struct ask_item *item = *found;
    struct mcp_call *c = item->call;
    struct mcp_ask *ask = c->ask;
    (void)tdelete(item, &client->asks, compare);
    item->open = false;
    ask->open--;
    json_t *result = json_object_get(m->message, "result");
    if (!json_is_object(result)) {
        const char *text =
            json_string_value(json_object_get(json_object_get(m->message, "error"), "message"));
        mcp_fail(c, MCP_INTERNAL_ERROR, NULL, "the client did not answer '%s': %.200s", item->key,
                 text ? text : "no reason given");
        return;
    }
    (void)json_object_set(ask->answers, item->key, result);
    if (ask->open == 0) {
        json_t *answers = json_incref(ask->answers);
        ask->then(c, answers); // may end the call, or ask again
        json_decref(answers);
    }
}

// ---- all ----------------------------------------------------------------------------------------

// A question that the client cannot take is not sent.
static const char *missing_capability(const struct mcp_call *c,
                                      const struct mcp_question *questions, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!mcp_client_can(c, capability_of(questions[i].method)))
            return capability_of(questions[i].method);
    return NULL;
}

void mcp_ask(struct mcp_call *c, const struct mcp_question *questions, size_t count, json_t *state,
             void (*then)(struct mcp_call *c, json_t *answers))
{
    const char *missing = missing_capability(c, questions, count);
    json_t *params[MCP_QUESTIONS_MAX] = {NULL}; // the questions may be gone with the call
    for (size_t i = 0; i < count && i < MCP_QUESTIONS_MAX; i++)
        params[i] = questions[i].params;
    if (missing)
        mcp_fail(c, c->modern ? MCP_MISSING_CAPABILITY : MCP_INVALID_PARAMS,
                 json_pack("{s:{s:{}}}", "requiredCapabilities", missing),
                 "this needs the client capability '%s'", missing);
    else if (count > MCP_QUESTIONS_MAX || (!c->modern && !c->client))
        mcp_fail(c, MCP_INTERNAL_ERROR, NULL, "the question cannot be asked");
    else if (c->task)
        mcp_task_ask(c, questions, count, then);
    else if (c->modern)
        ask_modern(c, questions, count, state, then);
    else
        ask_legacy(c, questions, count, then);
    for (size_t i = 0; i < MCP_QUESTIONS_MAX; i++)
        json_decref(params[i]);
    json_decref(state);
}
