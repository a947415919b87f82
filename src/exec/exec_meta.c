// SPDX-License-Identifier: Apache-2.0
//
// exec_meta: see exec_meta.h.

#include "exec/exec_meta.h"

#include <string.h>

#include "base/cleanup.h"
#include "run/gate.h"
#include "json/dump.h"

#define NAMELESS "<code>" // as PLAIN in python/runner

static const char *const action_names[] = {"run", "checkpoint", "undo", "fork", "look"};

static int set_stdin(const struct exec_request *q, json_t *o)
{
    if (q->has_stdin)
        return json_object_set_new(o, "stdin", json_string(q->on_ask ? "ask" : "pipe"));
    return q->no_stdin ? json_object_set_new(o, "no_stdin", json_string(q->no_stdin)) : 0;
}

// Of a session: which copy of its interpreter runs, and what it does.
static int set_session(const struct exec *x, const struct session *s, uint32_t fork_number,
                       json_t *o)
{
    const struct exec_request *q = &x->request;
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
        failed |= json_object_set_new(o, "new_fork", json_integer(fork_number));
    else if (q->checkpoint)
        failed |= json_object_set_new(o, "name", json_string(q->checkpoint));
    if (q->fresh)
        failed |= json_object_set_new(o, "fresh", json_true());
    if (q->steps)
        failed |= json_object_set_new(o, "steps", json_integer(q->steps));
    if (q->keep_env_vars)
        failed |= json_object_set_new(o, "keep_env", json_true());
    return failed;
}

// Without argv the runner makes it of the file name, which in a session has a number added.
static bool is_usual(const json_t *argv, const struct session *s, const char *filename)
{
    const char *first = json_string_value(json_array_get(argv, 0));
    return json_array_size(argv) == 0 ||
           (!s && json_array_size(argv) == 1 && first && strcmp(first, filename) == 0);
}

char *exec_make_meta(const struct exec *x, const struct session *s, const struct exec_meta *m)
{
    const struct exec_request *q = &x->request;
    const char *filename = q->filename ? q->filename : NAMELESS;
    const struct {
        const char *name;
        json_t *value; // NULL: not set
    } objects[] = {
        {"argv", is_usual(q->argv, s, filename) ? NULL : q->argv},
        {"variables", q->variables},
        {"env", q->env_vars},
        {"install", q->install},
        {"policy", m->policy},
        {"path", m->wheels},
        {"transformer", m->transformer},
    };
    json_auto_t *o = json_object();
    int failed = s ? set_session(x, s, m->fork_number, o) : 0;
    for (size_t i = 0; i < ARRAY_LEN(objects); i++)
        if (objects[i].value)
            failed |= json_object_set(o, objects[i].name, objects[i].value);
    if (strcmp(filename, NAMELESS) != 0)
        failed |= json_object_set_new(o, "filename", json_string(filename));
    if (q->named_result)
        failed |= json_object_set_new(o, "named_result", json_true());
    if (q->has_seed)
        failed |= json_object_set_new(o, "seed", json_integer(q->seed));
    failed |= set_stdin(q, o) < 0;
    if (!o || failed)
        return NULL;
    return json_object_size(o) ? dump_text(o) : strdup(""); // "": most runs, see python/ext/plain.h
}
