// SPDX-License-Identifier: Apache-2.0
//
// answer_brief: the object of a run for models that read it beside the content: see answer.h.  Runs
// in the gate; the object is already bounded.

#include <string.h>

#include "base/cleanup.h"
#include "mcp/tools/answer.h"
#include "json/whole.h"

enum { BRIEF_TEXT_MAX = 200 }; // characters of a text

static const char *string_at(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text && text[0] ? text : NULL;
}

static bool is_empty(json_t *value)
{
    return !value || json_is_null(value) || (json_is_string(value) && !json_string_length(value)) ||
           (json_is_array(value) && !json_array_size(value)) ||
           (json_is_object(value) && !json_object_size(value));
}

// Texts at most BRIEF_TEXT_MAX long, with a note of how much the content has more.
static json_t *in_brief(json_t *value)
{
    return json_is_string(value)
               ? answer_clip(json_string_value(value), json_string_length(value), BRIEF_TEXT_MAX)
               : json_incref(value);
}

static int take(json_t *to, json_t *from, const char *const *keys, size_t count)
{
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        json_t *value = json_object_get(from, keys[i]);
        if (!is_empty(value))
            failed |= json_object_set_new(to, keys[i], in_brief(value));
    }
    return failed;
}

static json_t *take_list(json_t *list, const char *const *keys, size_t count)
{
    json_t *some = json_array(), *item;
    size_t i;
    int failed = !some;
    json_array_foreach (list, i, item) {
        json_t *o = json_object();
        failed |= !o || take(o, item, keys, count);
        failed |= json_array_append_new(some, o);
    }
    return json_whole(some, failed);
}

json_t *answer_brief_object(json_t *object, bool details)
{
    static const char *const always[] = {"verdict", "signal",        "stdout",    "stderr",
                                         "result",  "files_omitted", "limit",     "truncated",
                                         "session", "session_name",  "violations"};
    static const char *const running[] = {"execution_id", "state", "elapsed_ms"};
    static const char *const more[] = {"execution_id",    "state",       "exit_code", "phase",
                                       "result_json",     "usage",       "network",   "isolation",
                                       "security_events", "environment", "variables"};
    static const char *const of_error[] = {"type", "message", "line"};
    static const char *const of_file[] = {"path", "size", "uri", "url", "saved", "error"};
    static const char *const of_display[] = {"mime_type", "width", "height", "uri", "chart_uri"};
    json_t *o = json_object(), *error = json_object_get(object, "error"), *part;
    const char *state = string_at(object, "session_state"), *phase = string_at(object, "phase");
    json_int_t code = json_integer_value(json_object_get(object, "exit_code"));
    int failed = !o || take(o, object, always, ARRAY_LEN(always));
    if (!string_at(object, "verdict"))
        failed |= take(o, object, running, ARRAY_LEN(running));
    if (details)
        failed |= take(o, object, more, ARRAY_LEN(more));
    if (code)
        failed |= json_object_set_new(o, "exit_code", json_integer(code));
    if (phase && strcmp(phase, "execution") != 0)
        failed |= json_object_set_new(o, "phase", json_string(phase));
    if (state && strcmp(state, "open") != 0)
        failed |= json_object_set_new(o, "session_state", json_string(state));
    if (json_is_object(error) && (part = json_object())) {
        failed |= take(part, error, of_error, ARRAY_LEN(of_error));
        failed |= json_object_set_new(o, "error", part);
    }
    const struct {
        const char *name;
        const char *const *keys;
        size_t count;
    } lists[] = {{"files", of_file, ARRAY_LEN(of_file)},
                 {"display", of_display, ARRAY_LEN(of_display)}};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        json_t *list = json_object_get(object, lists[i].name);
        if (json_array_size(list))
            failed |= json_object_set_new(o, lists[i].name,
                                          take_list(list, lists[i].keys, lists[i].count));
    }
    return json_whole(o, failed);
}
