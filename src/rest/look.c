// SPDX-License-Identifier: Apache-2.0
//
// look: see look.h.  A look is a short run of python/runner/look.py in the session's box, which
// works in a copy of the session's process.  It waits for no code: a busy session is refused.
// Handlers of rest/route.c; run in the gate.

#include "rest/look.h"

#include <ctype.h>
#include <string.h>

#include "base/text.h"
#include "rest/execute.h"
#include "json/whole.h"

enum { LISTED_MAX = 500, AXES_MAX = 32 };

// ---- what the box said --------------------------------------------------------------------------

static bool is_axes(json_t *value)
{
    json_t *axis;
    size_t i;
    json_array_foreach (value, i, axis)
        if (!json_is_integer(axis))
            return false;
    return json_is_array(value) && json_array_size(value) <= AXES_MAX;
}

static bool fits(json_t *value, char type)
{
    if (isupper((unsigned char)type) && json_is_null(value))
        return true;
    switch (tolower((unsigned char)type)) {
    case 's': return json_is_string(value);
    case 'i': return json_is_integer(value);
    case 'n': return is_axes(value);
    }
    return false;
}

json_t *look_pick(json_t *from, const struct look_member *members)
{
    json_t *o = json_object();
    int failed = !o;
    for (const struct look_member *m = members; m->name && !failed; m++) {
        json_t *value = json_object_get(from, m->name);
        failed = !fits(value, m->type) || json_object_set(o, m->name, value);
    }
    return json_whole(o, failed);
}

json_t *look_pick_all(json_t *list, const struct look_member *members, size_t most)
{
    json_t *all = json_array(), *item;
    size_t i;
    json_array_foreach (list, i, item) {
        json_t *picked = json_array_size(all) < most ? look_pick(item, members) : NULL;
        if (picked)
            (void)json_array_append_new(all, picked);
    }
    return all;
}

json_int_t look_count(json_t *said, const char *name)
{
    json_t *value = json_object_get(said, name);
    return json_is_integer(value) && json_integer_value(value) > 0 ? json_integer_value(value) : 0;
}

// ---- a look -------------------------------------------------------------------------------------

static void finish(struct rest_call *c, struct exec *x)
{
    if (x->error.code == ERR_SESSION_UNKNOWN || x->error.code == ERR_SESSION_ENDED) {
        rest_fail_session(c, c->id, &x->error);
        return;
    }
    if (x->error.message[0]) {
        rest_fail_err(c, &x->error);
        return;
    }
    json_t *result = x->run ? x->run->result : NULL, *said = json_object_get(result, "look");
    json_t *problem = json_object_get(said, "error");
    if (json_is_object(said) && !problem) {
        c->look_then(c, said, json_is_true(json_object_get(result, "look_whole")));
        return;
    }
    char why[256];
    snprintf(why, sizeof why, "%s",
             json_is_string(problem) ? json_string_value(problem) : "its interpreter said nothing");
    text_sanitize(why);
    rest_fail(c, 503, "look_failed", "run something in the session, or try again",
              "the session could not be looked at: %s", why);
}

static void begin(struct rest_call *c, struct session *s)
{
    struct exec_request request = {.action = EXEC_LOOK,
                                   .code = "",
                                   .session = c->id,
                                   .session_must_exist = true,
                                   .plain = true,
                                   .look = json_incref(c->look_asked)};
    const char *code = field_text(c->body, "code", NULL);
    if (session_has_code(s)) {
        exec_request_clear(&request);
        rest_fail(
            c, 409, err_code_name(ERR_SESSION_BUSY),
            "ask again when the run has ended, or interrupt it",
            "code runs in the session or in a fork of it, which cannot be looked at meanwhile");
        return;
    }
    if (code) {
        request.code = code;
        request.code_length = json_string_length(field_get(c->body, "code", NULL));
    }
    rest_start(c, &request, finish);
}

void look_start(struct rest_call *c, json_t *look,
                void (*then)(struct rest_call *c, json_t *said, bool whole))
{
    c->look_asked = look;
    c->look_then = then;
    if (look)
        rest_with_session(c, false, begin);
    else
        rest_answer(c, 503, NULL);
}

// ---- variables ----------------------------------------------------------------------------------

static void show_variables(struct rest_call *c, json_t *said, bool whole)
{
    static const struct look_member members[] = {{"name", 's'}, {"type", 's'},    {"shape", 'N'},
                                                 {"size", 'I'}, {"preview", 'S'}, {NULL, 0}};
    json_t *list = look_pick_all(json_object_get(said, "variables"), members, LISTED_MAX);
    bool complete = whole && json_is_true(json_object_get(said, "complete"));
    rest_answer(c, 200,
                json_pack("{s:o, s:I, s:b}", "variables", list, "omitted",
                          look_count(said, "omitted"), "complete", complete));
}

void rest_variables(struct rest_call *c)
{
    look_start(c, json_pack("{s:s}", "what", "variables"), show_variables);
}

// ---- at the cursor ------------------------------------------------------------------------------

static json_t *at_cursor(struct rest_call *c, const char *what)
{
    return json_pack("{s:s, s:O*}", "what", what, "cursor", field_get(c->body, "cursor", NULL));
}

static void show_matches(struct rest_call *c, json_t *said, bool whole)
{
    static const struct look_member members[] = {
        {"text", 's'}, {"type", 's'}, {"start", 'i'}, {"end", 'i'}, {NULL, 0}};
    json_t *list = look_pick_all(json_object_get(said, "matches"), members, LISTED_MAX);
    bool complete = whole && json_is_true(json_object_get(said, "complete"));
    rest_answer(c, 200,
                json_pack("{s:o, s:I, s:I, s:I, s:b}", "matches", list, "cursor_start",
                          look_count(said, "cursor_start"), "cursor_end",
                          look_count(said, "cursor_end"), "omitted", look_count(said, "omitted"),
                          "complete", complete));
}

void rest_complete(struct rest_call *c)
{
    look_start(c, at_cursor(c, "complete"), show_matches);
}

static void show_inspection(struct rest_call *c, json_t *said, bool whole)
{
    static const struct look_member members[] = {
        {"name", 'S'}, {"type", 'S'}, {"signature", 'S'}, {"docstring", 'S'}, {NULL, 0}};
    json_t *answer = look_pick(said, members);
    (void)whole;
    if (answer)
        (void)json_object_set_new(answer, "found",
                                  json_boolean(json_is_true(json_object_get(said, "found"))));
    rest_answer(c, 200, answer);
}

void rest_inspect(struct rest_call *c)
{
    look_start(c, at_cursor(c, "inspect"), show_inspection);
}
