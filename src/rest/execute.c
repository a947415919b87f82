// SPDX-License-Identifier: Apache-2.0
//
// execute: see execute.h.  Runs in the gate; a handler of rest/route.c.

#include "rest/execute.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "exec/execute.h"
#include "rest/ndjson.h"

// ---- what goes on -------------------------------------------------------------------------------

static void on_done(struct exec *x)
{
    struct rest_call *c = x->request.argument;
    if (!c)
        return; // the server ends
    c->exec = NULL;
    if (rest_is_wanted(c))
        c->finish(c, x);
    else
        rest_free(c);
    exec_free(x);
}

void rest_start(struct rest_call *c, struct exec_request *request,
                void (*finish)(struct rest_call *, struct exec *))
{
    c->finish = finish;
    request->owner = c->owner;
    request->on_done = on_done;
    request->argument = c;
    c->exec = exec_start(c->rest->gate, request);
    if (!c->exec)
        rest_answer(c, 503, NULL);
}

// ---- answers ------------------------------------------------------------------------------------

static void fail_execution(struct rest_call *c, const struct exec *x)
{
    if (x->error.code == ERR_SESSION_UNKNOWN || x->error.code == ERR_SESSION_ENDED)
        rest_fail_session(c, x->request.session ? x->request.session : "", &x->error);
    else
        rest_fail_err(c, &x->error);
}

static void finish_whole(struct rest_call *c, struct exec *x)
{
    if (x->error.message[0])
        fail_execution(c, x);
    else
        rest_answer(c, 200, exec_json(x));
}

static void finish_stream(struct rest_call *c, struct exec *x)
{
    json_t *object = NULL, *messages = NULL;
    if (x->error.message[0] && !ndjson_begun(c->stream)) {
        fail_execution(c, x);
        return;
    }
    if (x->error.message[0]) {
        messages = ndjson_refusal(x->id, &x->error);
    } else if (!x->run || ndjson_give_back(c->stream, x->run) == 0) {
        object = exec_json(x);
        messages = object ? ndjson_messages(object) : NULL;
        json_decref(object);
    }
    ndjson_finish(c->stream, messages);
}

static int on_output(struct exec *x, enum run_stream stream, struct evbuffer *data)
{
    struct rest_call *c = x->request.argument;
    if (!c || !rest_is_wanted(c))
        return 0; // the client is gone: it was cancelled
    return ndjson_output(c->stream, stream, data);
}

static void on_ask(struct exec *x, const char *prompt, size_t length)
{
    struct rest_call *c = x->request.argument;
    if (c && rest_is_wanted(c))
        ndjson_ask(c->stream, prompt, length);
}

// A person needs a place to send answers to, and must hear the question.
static int check_interactive(struct rest_call *c, const struct exec_request *q, bool streams)
{
    const char *lack = !q->session || !q->session[0] ? "a session, to which the answers are sent"
                       : !streams                    ? "a stream, which says when the code waits"
                                                     : NULL;
    if (lack)
        rest_fail(c, 400, err_code_name(ERR_BAD_VALUE),
                  "give 'session' and leave 'stream' out, or pass 'stdin' in its place",
                  "field 'interactive' needs %s", lack);
    else if (c->key)
        rest_fail(c, 400, err_code_name(ERR_BAD_VALUE), "leave the header out",
                  "an interactive run cannot be repeated with Idempotency-Key");
    return lack || c->key ? -1 : 0;
}

// ---- POST /execute ------------------------------------------------------------------------------

// A session keeps the memory that it was opened with, so asking for another amount is a mistake.
static int check_memory(struct rest_call *c, const char *session)
{
    json_t *memory = field_get(c->body, "memory_mb", NULL);
    struct err e;
    struct session *s = memory ? session_find(c->rest->gate, c->owner, session, &e) : NULL;
    if (!s || s->plan.limits.memory_bytes == (uint64_t)json_number_value(memory) * TEXT_MIB)
        return 0;
    rest_fail(c, 409, err_code_name(ERR_BAD_VALUE), "leave memory_mb out, or open another session",
              "the session has %llu MiB of memory, which cannot be changed",
              (unsigned long long)(s->plan.limits.memory_bytes / TEXT_MIB));
    return -1;
}

int rest_check_session(struct rest_call *c, const char *session)
{
    if (!session_is_id(session) && rest_make_plan(c, session) < 0)
        return -1;
    return check_memory(c, session);
}

void rest_execute(struct rest_call *c)
{
    _cleanup_(exec_request_clear) struct exec_request request = {0};
    json_t *stream = field_get(c->body, "stream", NULL);
    struct err e;
    if (execute_read(c->rest->gate, c->owner, c->body, EXECUTE_RUN, &request, &e) < 0) {
        rest_fail_err(c, &e);
        return;
    }
    bool named = request.session && request.session[0];
    bool streams = !c->whole && !json_is_false(stream);
    if (json_is_true(field_get(c->body, "interactive", NULL))) {
        if (check_interactive(c, &request, streams) < 0)
            return;
        request.has_stdin = request.stdin_open = true;
        request.on_ask = on_ask;
    }
    if (named && rest_check_session(c, request.session) < 0)
        return;
    request.plan = named && !session_is_id(request.session) ? &c->plan : NULL;
    if (!streams) {
        rest_start(c, &request, c->whole ? c->whole : finish_whole);
        return;
    }
    request.on_output = on_output;
    if (!(c->stream = ndjson_new(c))) {
        rest_answer(c, 503, NULL);
        return;
    }
    rest_start(c, &request, finish_stream);
}
