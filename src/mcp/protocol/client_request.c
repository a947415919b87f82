// SPDX-License-Identifier: Apache-2.0
//
// client_request: questions to the client: see mcp_ask() in mcp.h.  A legacy client gets a request,
// a modern one is asked to send its request again with the answers, and a task pauses.

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mcp/protocol/client.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/tasks.h"

enum { ANSWER_S = 600 };

// One open question of a legacy call.
struct question {
    uint64_t number; // its id on the wire
    struct mcp_call *call;
    char key[64];
    bool open, may_refuse;
};

struct mcp_questions {
    size_t count, open;
    struct question items[MCP_QUESTIONS_MAX];
    struct timer timer; // for a client that does not answer
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
    return "experimental"; // not reached: all questions are in the table
}

static json_t *question_json(const struct mcp_question *q)
{
    json_t *o = json_pack("{s:s}", "method", q->method);
    if (q->params)
        (void)json_object_set(o, "params", q->params);
    return o;
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
    uint64_t x = ((const struct question *)a)->number, y = ((const struct question *)b)->number;
    return x < y ? -1 : x > y;
}

void mcp_questions_free(struct mcp_call *c)
{
    struct mcp_questions *asked = c->questions;
    if (!asked)
        return;
    c->questions = NULL;
    for (size_t i = 0; i < asked->count; i++)
        if (asked->items[i].open && c->client)
            (void)tdelete(&asked->items[i], &c->client->questions, compare);
    timer_stop(&asked->timer);
    json_decref(asked->answers);
    free(asked);
}

static void on_silence(void *argument)
{
    struct mcp_call *c = argument;
    void (*cancel)(struct mcp_call * c) = TAKE_PTR(c->cancel);
    if (cancel)
        cancel(c);
    mcp_fail(c, MCP_INTERNAL_ERROR, NULL, "the client did not answer within %d s", ANSWER_S);
}

static void ask_legacy(struct mcp_call *c, const struct mcp_question *questions, size_t count,
                       void (*then)(struct mcp_call *c, json_t *answers))
{
    struct mcp_client *client = c->client;
    mcp_questions_free(c);
    struct mcp_questions *asked = calloc(1, sizeof *asked);
    if (!asked || !(asked->answers = json_object()) ||
        !timer_set(&asked->timer, c->mcp->base, ANSWER_S * 1000, on_silence, c)) {
        if (asked)
            json_decref(asked->answers);
        free(asked);
        mcp_fail(c, MCP_INTERNAL_ERROR, NULL, "the server is out of memory");
        return;
    }
    c->questions = asked;
    asked->then = then;
    for (size_t i = 0; i < count; i++) {
        struct question *item = &asked->items[asked->count];
        *item = (struct question){
            .number = ++client->next_question, .call = c, .may_refuse = questions[i].may_refuse};
        snprintf(item->key, sizeof item->key, "%s", questions[i].key);
        if (!tsearch(item, &client->questions, compare)) {
            mcp_fail(c, MCP_INTERNAL_ERROR, NULL, "the server is out of memory");
            return;
        }
        item->open = true;
        asked->count++;
        asked->open++;
    }
    // Send when all are in the table: the first answer may come while the second is being sent.
    for (size_t i = 0; i < count; i++) {
        json_t *message = question_json(&questions[i]);
        (void)json_object_set_new(message, "jsonrpc", json_string("2.0"));
        (void)json_object_set_new(message, "id", json_integer((json_int_t)asked->items[i].number));
        if (message)
            c->outlet->send(c->outlet, message, false);
        json_decref(message);
    }
}

void mcp_client_answered(struct mcp_client *client, const struct rpc_message *m)
{
    struct question key = {.number = (uint64_t)json_integer_value(m->id)};
    struct question **found =
        json_is_integer(m->id) ? tfind(&key, &client->questions, compare) : NULL;
    if (!found)
        return; // unknown, or no longer waited for
    struct question *item = *found;
    struct mcp_call *c = item->call;
    struct mcp_questions *asked = c->questions;
    (void)tdelete(item, &client->questions, compare);
    item->open = false;
    asked->open--;
    json_t *result = json_object_get(m->message, "result");
    if (!json_is_object(result) && item->may_refuse)
        result = NULL;
    else if (!json_is_object(result)) {
        const char *text =
            json_string_value(json_object_get(json_object_get(m->message, "error"), "message"));
        mcp_fail(c, MCP_INTERNAL_ERROR, NULL, "the client did not answer '%s': %.200s", item->key,
                 text ? text : "no reason given");
        return;
    }
    (void)json_object_set_new(asked->answers, item->key,
                              result ? json_incref(result) : json_null());
    if (asked->open == 0) {
        json_t *answers = json_incref(asked->answers);
        asked->then(c, answers); // may end the call, or ask again
        json_decref(answers);
    }
}

// ---- mcp_ask
// ----------------------------------------------------------------------------------------

// The first capability that the client lacks for these questions, or NULL.
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
    json_t *params[MCP_QUESTIONS_MAX] = {NULL}; // the call and its questions may end before
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
