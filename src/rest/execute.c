// SPDX-License-Identifier: Apache-2.0
//
// execute: see execute.h.  Runs in the gate; a handler of rest/route.c.

#include "rest/execute.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "env/envs.h"
#include "env/packages.h"
#include "rest/ndjson.h"
#include "run/network.h"
#include "run/source.h"

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

void rest_set_limits(const struct config *config, json_t *body, struct exec_request *request)
{
    json_t *memory = field_get(body, "memory_mb", NULL);
    request->limits = keeper_limits(config);
    if (memory)
        request->limits.memory_bytes = (uint64_t)json_number_value(memory) * TEXT_MIB;
}

void rest_start(struct rest_call *c, struct exec_request *request,
                void (*finish)(struct rest_call *, struct exec *))
{
    c->finish = finish;
    request->owner = c->owner;
    request->on_done = on_done;
    request->argument = c;
    rest_set_limits(c->rest->config, c->body, request);
    c->exec = exec_start(c->rest->gate, request);
    if (!c->exec)
        rest_answer(c, 503, NULL);
}

// What is null counts as absent, here as everywhere.
static void drop_nulls(json_t *files)
{
    size_t i;
    json_t *file, *value;
    const char *key;
    void *next;
    json_array_foreach (files, i, file)
        json_object_foreach_safe (file, next, key, value)
            if (json_is_null(value))
                (void)json_object_del(file, key);
}

int rest_check_brought(struct gate *g, json_t *body, struct err *e)
{
    json_t *files = field_get(body, "files", NULL), *variables = field_get(body, "variables", NULL);
    drop_nulls(files);
    int r = files ? exec_check_files(g, files, e) : 0;
    return r == 0 && variables ? exec_check_variables(variables, e) : r;
}

int rest_bring(struct rest_call *c, struct exec_request *request)
{
    struct err e;
    if (rest_check_brought(c->rest->gate, c->body, &e) < 0) {
        rest_fail_err(c, &e);
        return -1;
    }
    request->files = json_incref(field_get(c->body, "files", NULL));
    request->variables = json_incref(field_get(c->body, "variables", NULL));
    return 0;
}

int rest_read_packages(struct gate *g, const char *owner, json_t *body, json_t **ret, struct err *e)
{
    json_t *name = field_get(body, "environment", NULL), *path = NULL,
           *packages = field_get(body, "packages", NULL);
    int r = 0;
    if (name && strlen(json_string_value(name)) != json_string_length(name))
        r = err_set(e, ERR_BAD_VALUE, 0, "remove it",
                    "the name of the environment has a NUL character");
    else if (name && packages)
        r = err_set(e, ERR_BAD_VALUE, 0,
                    "install the packages into the environment; then name only that",
                    "fields 'environment' and 'packages' both say what code can import");
    else if (name)
        r = envs_path(g, owner, json_string_value(name), &path, e);
    else if (packages && !(*ret = packages_set(g, packages, e)))
        r = err_wrap(e, "field 'packages'");
    json_decref(path);
    return r;
}

int rest_take_packages(struct rest_call *c)
{
    struct err e;
    if (rest_read_packages(c->rest->gate, c->owner, c->body, &c->packages, &e) == 0)
        return 0;
    rest_fail_err(c, &e);
    return -1;
}

int rest_take_network(struct rest_call *c)
{
    struct err e;
    if (network_parse(c->rest->gate, c->owner, field_get(c->body, "network", NULL), &c->network,
                      &e) == 0)
        return 0;
    (void)err_wrap(&e, "field 'network'");
    rest_fail_err(c, &e);
    return -1;
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

// ---- POST /execute ------------------------------------------------------------------------------

json_t *rest_make_argv(json_t *body)
{
    json_t *argv = json_pack("[s]", "<code>"), *item;
    size_t i;
    json_array_foreach (field_get(body, "args", NULL), i, item)
        (void)json_array_append(argv, item);
    return argv;
}

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

static int check_session(struct rest_call *c, const char *session)
{
    if (!session[0])
        return 0;
    if (!session_is_id(session) && rest_make_plan(c, session) < 0)
        return -1;
    return check_memory(c, session);
}

void rest_execute(struct rest_call *c)
{
    const struct config *config = c->rest->config;
    json_t *code = json_object_get(c->body, "code"), *stream = field_get(c->body, "stream", NULL);
    json_t *given = field_get(c->body, "session", "session_id");
    const char *session = given ? json_string_value(given) : "";
    struct err e;
    if (source_check(json_string_value(code), json_string_length(code), "code",
                     config->source_bytes, &e) < 0 ||
        (given && strlen(session) != json_string_length(given) &&
         err_set(&e, ERR_BAD_VALUE, 0, "remove it",
                 "the name of the session has a NUL character"))) {
        rest_fail_err(c, &e);
        return;
    }
    if (rest_take_network(c) < 0 || rest_take_packages(c) < 0 || check_session(c, session) < 0)
        return;
    uint64_t wall_ms = field_ms(c->body, "timeout", 0);
    _cleanup_(exec_request_clear) struct exec_request request = {
        .action = EXEC_RUN,
        .code = json_string_value(code),
        .code_length = json_string_length(code),
        .session = session,
        .plan = session[0] && !session_is_id(session) ? &c->plan : NULL,
        .wall_ms = wall_ms,
        // Who asks for more time wants to compute in it.
        .cpu_ms = field_ms(c->body, "cpu_seconds", wall_ms > config->cpu_ms ? wall_ms : 0),
        .policy = field_text(c->body, "policy", NULL),
        .allowed_imports = field_get(c->body, "allowed_imports", NULL),
        .collect = true,
    };
    if (rest_bring(c, &request) < 0)
        return;
    request.argv = rest_make_argv(c->body);
    request.network = json_incref(c->network);
    request.environment = field_text(c->body, "environment", NULL);
    request.packages = json_incref(c->packages);
    if (c->whole || (stream && json_is_false(stream))) {
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
