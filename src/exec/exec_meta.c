// SPDX-License-Identifier: Apache-2.0
//
// exec_meta: see exec_meta.h.

#include "exec/exec_meta.h"

#include <string.h>

#include "run/gate.h"
#include "run/source.h"
#include "json/dump.h"

#define NAMELESS "<code>" // as PLAIN in python/runner

static const char *const action_names[] = {"run", "checkpoint", "undo", "fork", "look"};

static int set_stdin(const struct exec_request *q, json_t *o)
{
    if (q->has_stdin)
        return json_object_set_new(o, "stdin", json_string(q->on_ask ? "ask" : "pipe"));
    return q->no_stdin ? json_object_set_new(o, "no_stdin", json_string(q->no_stdin)) : 0;
}

char *exec_session_meta(const struct exec *x, const struct session *s, const struct exec_meta *m)
{
    const struct exec_request *q = &x->request;
    json_auto_t *o = json_object();
    int failed = json_object_set_new(o, "mode", json_string("session")) |
                 json_object_set_new(o, "fork", json_integer(s->fork_number)) |
                 json_object_set_new(o, "checkpoints_max",
                                     json_integer(x->gate->facts->config->checkpoints));
    // Saves a checkpoint from measuring the memory of earlier checkpoints.
    if (s->box && s->box->meter.most_bytes)
        failed |= json_object_set_new(o, "memory_ever",
                                      json_integer((json_int_t)s->box->meter.most_bytes));
    if (q->action != EXEC_RUN)
        failed |= json_object_set_new(o, "op", json_string(action_names[q->action]));
    else if (s->plan.checkpoint)
        failed |= json_object_set_new(o, "checkpoint", json_true());
    if (q->look)
        failed |= json_object_set(o, "look", q->look);
    if (q->action == EXEC_FORK)
        failed |= json_object_set_new(o, "new_fork", json_integer(m->fork_number));
    else if (q->checkpoint)
        failed |= json_object_set_new(o, "name", json_string(q->checkpoint));
    if (q->fresh)
        failed |= json_object_set_new(o, "fresh", json_true());
    if (q->steps)
        failed |= json_object_set_new(o, "steps", json_integer(q->steps));
    if (q->filename)
        failed |= json_object_set_new(o, "filename", json_string(q->filename));
    if (q->argv)
        failed |= json_object_set(o, "argv", q->argv);
    if (q->variables)
        failed |= json_object_set(o, "variables", q->variables);
    if (q->env_vars)
        failed |= json_object_set(o, "env", q->env_vars);
    if (q->has_seed)
        failed |= json_object_set_new(o, "seed", json_integer(q->seed));
    if (q->keep_env_vars)
        failed |= json_object_set_new(o, "keep_env", json_true());
    failed |= set_stdin(q, o) < 0;
    if (m->policy)
        failed |= json_object_set(o, "policy", m->policy);
    if (m->wheels)
        failed |= json_object_set(o, "path", m->wheels);
    if (m->transformer)
        failed |= json_object_set(o, "transformer", m->transformer);
    if (q->named_result)
        failed |= json_object_set_new(o, "named_result", json_true());
    return failed ? NULL : dump_text(o);
}

// Do the file name and argv say no more than the defaults do?
static bool is_nameless(const struct exec_request *q)
{
    const char *first = json_string_value(json_array_get(q->argv, 0));
    return (!q->filename || strcmp(q->filename, NAMELESS) == 0) && json_array_size(q->argv) <= 1 &&
           (!first || strcmp(first, NAMELESS) == 0);
}

char *exec_fresh_meta(const struct exec *x, const struct exec_meta *m)
{
    const struct exec_request *q = &x->request;
    bool plain = !q->install && !q->variables && !q->env_vars && !m->policy && !m->wheels &&
                 !q->named_result && !q->has_stdin && !q->no_stdin && !q->has_seed;
    if (plain && is_nameless(q))
        return strdup(""); // most runs: see python/ext/plain.h
    if (plain)
        return source_meta(q->filename ? q->filename : NAMELESS,
                           q->argv ? json_incref(q->argv) : json_array());
    json_auto_t *o = q->install
                         ? json_pack("{s:O}", "install", q->install)
                         : json_pack("{s:s, s:O*, s:O*, s:O*, s:O*, s:O*, s:O*}", "filename",
                                     q->filename ? q->filename : NAMELESS, "argv", q->argv,
                                     "variables", q->variables, "env", q->env_vars, "policy",
                                     m->policy, "path", m->wheels, "transformer", m->transformer);
    int failed = o && q->named_result && json_object_set_new(o, "named_result", json_true()) < 0;
    if (o && q->has_seed)
        failed |= json_object_set_new(o, "seed", json_integer(q->seed)) < 0;
    failed |= o && set_stdin(q, o) < 0;
    return o && !failed ? dump_text(o) : NULL;
}
