// SPDX-License-Identifier: Apache-2.0
// sessions: the routes /sessions and /sessions/{id}: open, show, close, interrupt, undo,
// checkpoint, fork. Handlers of rest/route.c; run in the gate.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "exec/execute.h"
#include "rest/call.h"
#include "rest/execute.h"
#include "json/whole.h"

// ---- looking ------------------------------------------------------------------------------------

// Adds the names that clients of other servers expect to the object of a session.
static json_t *with_synonyms(json_t *session)
{
    const char *state = json_string_value(json_object_get(session, "state"));
    json_t *more = json_pack("{s:O, s:O, s:b}", "session_id", json_object_get(session, "session"),
                             "last_activity", json_object_get(session, "last_used_at"), "is_busy",
                             state && strcmp(state, "busy") == 0);
    if (session && more && json_object_update_new(session, more) == 0)
        return session;
    json_decref(session);
    return NULL;
}

// By name where there is one, else by handle.
static json_t *by_name(json_t *list)
{
    json_t *o = json_object(), *session;
    size_t i;
    int failed = !o;
    json_array_foreach (list, i, session) {
        json_t *name = json_object_get(session, "name");
        if (!json_is_string(name))
            name = json_object_get(session, "session");
        json_t *shown = with_synonyms(json_incref(session));
        failed |= !shown || json_object_set_new_nocheck(o, json_string_value(name), shown);
    }
    return json_whole(o, failed);
}

void rest_list_sessions(struct rest_call *c)
{
    json_t *all = sessions_json(c->rest->gate, c->owner), *open = json_object_get(all, "sessions");
    json_t *answer =
        json_pack("{s:o, s:I, s:O}", "sessions", by_name(open), "total",
                  (json_int_t)json_array_size(open), "ended", json_object_get(all, "ended"));
    json_decref(all);
    rest_answer(c, 200, answer);
}

void rest_show_session(struct rest_call *c, struct session *s)
{
    rest_answer(c, c->route->status, with_synonyms(session_json(s)));
}

void rest_get_session(struct rest_call *c)
{
    struct err e;
    struct session *s = session_find(c->rest->gate, c->owner, c->id, &e);
    if (s)
        rest_show_session(c, s);
    else
        rest_fail_session(c, c->id, &e);
}

void rest_delete_session(struct rest_call *c)
{
    struct err e;
    struct session *s = session_find(c->rest->gate, c->owner, c->id, &e);
    if (!s && http_may_operate(c->x))
        s = session_find_any(c->rest->gate, c->id);
    if (!s) {
        rest_fail_session(c, c->id, &e);
        return;
    }
    json_t *answer = json_pack("{s:s, s:b}", "session", s->id, "closed", 1);
    session_close(s, SESSION_CLOSED);
    rest_answer(c, 200, answer);
}

void rest_interrupt(struct rest_call *c)
{
    struct err e;
    struct session *s = session_find(c->rest->gate, c->owner, c->id, &e);
    if (!s) {
        rest_fail_session(c, c->id, &e);
        return;
    }
    // It may have ended by itself a moment ago, which is as good.
    bool interrupted = session_interrupt(s, &e) == 0;
    rest_answer(c, 200, json_pack("{s:s, s:b}", "session", s->id, "interrupted", interrupted));
}

static char *line_of(json_t *text, size_t *ret_length)
{
    size_t length = json_string_length(text);
    char *line = malloc(length + 1);
    if (!line)
        return NULL;
    memcpy(line, json_string_value(text), length);
    if (!length || line[length - 1] != '\n')
        line[length++] = '\n';
    *ret_length = length;
    return line;
}

void rest_input(struct rest_call *c)
{
    json_t *text = field_get(c->body, "text", NULL);
    bool end = json_is_true(field_get(c->body, "end", NULL));
    size_t length = 0;
    struct err e;
    struct session *s = session_find(c->rest->gate, c->owner, c->id, &e);
    if (!s) {
        rest_fail_session(c, c->id, &e);
        return;
    }
    if (!text && !end) {
        rest_fail(c, 400, err_code_name(ERR_BAD_VALUE), "give text, or end: true, or both",
                  "there is neither 'text' nor 'end'");
        return;
    }
    _cleanup_free_ char *line = text ? line_of(text, &length) : NULL;
    if (text && !line)
        rest_answer(c, 503, NULL);
    else if (session_answer(s, line, length, end, &e) < 0)
        rest_fail(c, 409, "input_not_wanted", e.hint, "%s", e.message);
    else
        rest_answer(c, 200, json_pack("{s:s, s:b}", "session", s->id, "taken", 1));
}

// ---- opening ------------------------------------------------------------------------------------

// Files and variables are in the session, or the session is closed.
static void finish_filling(struct rest_call *c, struct exec *x)
{
    struct err e;
    struct session *s = session_find(c->rest->gate, c->owner, c->id, &e);
    if (x->error.message[0]) {
        e = x->error;
    } else if (x->result.verdict == VERDICT_OK && s) {
        rest_show_session(c, s);
        return;
    } else {
        json_t *object = exec_json(x);
        const char *message =
            json_string_value(json_object_get(json_object_get(object, "error"), "message"));
        (void)err_set(&e, ERR_FILE_REFUSED, 0, x->result.hint,
                      "files and variables could not be put into the session: %s",
                      message ? message : result_verdict_name(x->result.verdict));
        text_sanitize(e.message);
        json_decref(object);
    }
    if (s)
        session_close(s, SESSION_CLOSED);
    rest_fail_err(c, &e);
}

static void fill(struct rest_call *c, struct session *s)
{
    struct exec_request request = {.action = EXEC_RUN, .code = "", .session = c->id};
    snprintf(c->id, sizeof c->id, "%s", s->id);
    request.files = json_incref(field_get(c->body, "files", NULL)); // checked before it was opened
    request.variables = json_incref(field_get(c->body, "variables", NULL));
    request.env_vars = json_incref(field_get(c->body, "env", NULL));
    request.keep_env_vars = request.env_vars != NULL;
    rest_start(c, &request, finish_filling);
}

void rest_post_session(struct rest_call *c)
{
    json_t *name = field_get(c->body, "name", "session_id");
    _cleanup_(exec_request_clear) struct exec_request asked = {0};
    struct session_plan *plan = &c->plan;
    struct err e;
    if (execute_read(c->rest->gate, c->owner, c->body, EXECUTE_SESSION, &asked, &e) < 0) {
        rest_fail_err(c, &e);
        return;
    }
    c->network = TAKE_PTR(asked.network);
    if (rest_make_plan(c, name && json_string_length(name) ? json_string_value(name) : NULL) < 0)
        return;
    plan->wall_ms = asked.wall_ms ? asked.wall_ms : plan->wall_ms;
    plan->cpu_ms = asked.cpu_ms;
    plan->idle_ms = field_ms(c->body, "idle_timeout", plan->idle_ms);
    if (asked.environment)
        snprintf(plan->environment, sizeof plan->environment, "%s", asked.environment);
    plan->checkpoint = json_is_true(field_get(c->body, "checkpoint", NULL));
    bool brings = json_array_size(asked.files) || json_object_size(asked.variables) ||
                  json_object_size(asked.env_vars);
    rest_open_session(c, brings ? fill : rest_show_session);
}

// ---- undo, checkpoint, fork ---------------------------------------------------------------------

static void finish_action(struct rest_call *c, struct exec *x)
{
    if (x->error.message[0]) {
        if (x->error.code == ERR_SESSION_UNKNOWN || x->error.code == ERR_SESSION_ENDED)
            rest_fail_session(c, c->id, &x->error);
        else if (c->route->handle == rest_fork &&
                 x->error.code == ERR_BAD_VALUE) // the name is taken
            rest_fail(c, 409, "session_exists", x->error.hint, "%s", x->error.message);
        else
            rest_fail_err(c, &x->error);
        return;
    }
    json_t *object = exec_json(x);
    json_t *error = json_object_get(object, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    if (object && !json_is_true(json_object_get(object, "success"))) {
        const char *hint = json_string_value(json_object_get(object, "hint"));
        rest_fail(c, 409,
                  message ? "checkpoint_unavailable" : result_verdict_name(x->result.verdict), hint,
                  "%s", message ? message : "the action failed");
        json_decref(object);
        return;
    }
    rest_answer(c, c->route->status, object);
}

static void act(struct rest_call *c, enum exec_action action, const char *name, unsigned steps)
{
    struct exec_request request = {.action = action,
                                   .code = "",
                                   .session = c->id,
                                   .session_must_exist = true,
                                   .checkpoint = name,
                                   .steps = steps};
    rest_start(c, &request, finish_action);
}

void rest_undo(struct rest_call *c)
{
    json_t *steps = field_get(c->body, "steps", NULL);
    const char *name = field_text(c->body, "checkpoint", NULL);
    if (steps && name)
        rest_fail(c, 400, err_code_name(ERR_BAD_VALUE), "give one of them",
                  "fields 'steps' and 'checkpoint' cannot be given together");
    else
        act(c, EXEC_UNDO, name, steps ? (unsigned)json_number_value(steps) : 1);
}

void rest_checkpoint(struct rest_call *c)
{
    act(c, EXEC_CHECKPOINT, field_text(c->body, "name", NULL), 0);
}

void rest_fork(struct rest_call *c)
{
    const char *name = field_text(c->body, "name", NULL);
    struct err e;
    if (name && session_check_name(name, strlen(name), &e) < 0)
        rest_fail_err(c, &e);
    else
        act(c, EXEC_FORK, name, 0);
}
