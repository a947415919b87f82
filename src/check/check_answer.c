// SPDX-License-Identifier: Apache-2.0
//
// check_answer: takes known fields out of a box's report about a source.  See check.h.  Pure.

#include <stdio.h>
#include <string.h>

#include "check/check.h"
#include "run/result.h"

enum { DEPTH_MAX = 6, ENTRIES_MAX = 1000 };

// The JSON types of a field; an object without a field that is `needed` is dropped.
#define TYPE(t) (1U << (t))
enum {
    IS_TEXT = TYPE(JSON_STRING),
    IS_NUMBER = TYPE(JSON_INTEGER),
    IS_TEXT_OR_NULL = TYPE(JSON_STRING) | TYPE(JSON_NULL),
    IS_NUMBER_OR_NULL = TYPE(JSON_INTEGER) | TYPE(JSON_NULL),
    IS_BOOL = TYPE(JSON_TRUE) | TYPE(JSON_FALSE),
    IS_LIST = TYPE(JSON_ARRAY),
    IS_OBJECT = TYPE(JSON_OBJECT),
    IS_OBJECT_OR_NULL = TYPE(JSON_OBJECT) | TYPE(JSON_NULL),
};

struct shape {
    const char *name;
    unsigned types;
    bool needed;
    const struct shape *inside; // of an object, or of the entries of a list
};

static const struct shape line_shape[] = {
    {"line", IS_NUMBER, true, NULL}, {"text", IS_TEXT, true, NULL}, {0}};

static const struct shape error_shape[] = {
    {"type", IS_TEXT, true, NULL},
    {"message", IS_TEXT, true, NULL},
    {"line", IS_NUMBER_OR_NULL, false, NULL},
    {"offset", IS_NUMBER_OR_NULL, false, NULL},
    {"end_offset", IS_NUMBER_OR_NULL, false, NULL},
    {"text", IS_TEXT_OR_NULL, false, NULL},
    {"caret", IS_TEXT_OR_NULL, false, NULL},
    {"context", IS_TEXT_OR_NULL, false, NULL},
    {"lines", IS_LIST, false, line_shape},
    {"hint", IS_TEXT, false, NULL},
    {0},
};

static const struct shape violation_shape[] = {
    {"kind", IS_TEXT, true, NULL},
    {"target", IS_TEXT, true, NULL},
    {"line", IS_NUMBER_OR_NULL, false, NULL},
    {"column", IS_NUMBER_OR_NULL, false, NULL},
    {"reason", IS_TEXT, true, NULL},
    {"hint", IS_TEXT, false, NULL},
    {"layer", IS_TEXT, false, NULL},
    {0},
};

static const struct shape advice_shape[] = {
    {"rule", IS_TEXT, true, NULL},
    {"line", IS_NUMBER_OR_NULL, false, NULL},
    {"column", IS_NUMBER_OR_NULL, false, NULL},
    {"message", IS_TEXT, true, NULL},
    {0},
};

static const struct shape lint_shape[] = {
    {"code", IS_TEXT, true, NULL},
    {"line", IS_NUMBER_OR_NULL, false, NULL},
    {"column", IS_NUMBER_OR_NULL, false, NULL},
    {"message", IS_TEXT, true, NULL},
    {0},
};

static const struct shape complexity_shape[] = {
    {"total", IS_NUMBER, true, NULL}, {"highest", IS_NUMBER, true, NULL}, {0}};

static const struct shape names_shape[] = {
    {"followed", IS_BOOL, true, NULL},
    {"reason", IS_TEXT_OR_NULL, false, NULL},
    {"unbound", IS_LIST, true, NULL},
    {0},
};

static const struct shape analysis_shape[] = {
    {"complete", IS_BOOL, true, NULL},
    {"incomplete", IS_TEXT, false, NULL},
    {"line_count", IS_NUMBER, true, NULL},
    {"blank_lines", IS_NUMBER, false, NULL},
    {"comment_lines", IS_NUMBER, false, NULL},
    {"code_lines", IS_NUMBER, false, NULL},
    {"character_count", IS_NUMBER, true, NULL},
    {"byte_count", IS_NUMBER, false, NULL},
    {"estimated_complexity", IS_TEXT, false, NULL},
    {"complexity", IS_OBJECT, false, complexity_shape},
    {"functions", IS_LIST, false, NULL},
    {"classes", IS_LIST, false, NULL},
    {"imports", IS_LIST, false, NULL},
    {"names", IS_OBJECT, false, names_shape},
    {"omitted", IS_OBJECT, false, NULL},
    {0},
};

static const struct shape policy_shape[] = {
    {"mode", IS_TEXT, true, NULL},
    {"advice", IS_TEXT, false, NULL},
    {"tiers", IS_LIST, false, NULL},
    {"allowed_imports", IS_LIST, false, NULL},
    {"tier_modules", IS_OBJECT, false, NULL},
    {0},
};

static const struct shape check_shape[] = {
    {"valid", IS_BOOL, true, NULL},
    {"error", IS_OBJECT_OR_NULL, true, error_shape},
    {"violations", IS_LIST, true, violation_shape},
    {"analysis", IS_OBJECT, true, analysis_shape},
    {"recommendations", IS_LIST, true, advice_shape},
    {"policy", IS_OBJECT, true, policy_shape},
    {"python", IS_TEXT, true, NULL},
    {"lint", IS_LIST | IS_OBJECT, false, lint_shape},
    {0},
};

static const struct shape *find(const struct shape *table, const char *name)
{
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

static bool fits(json_t *value, const struct shape *table, int room);

// Entries that do not fit are dropped.
static void tidy_list(json_t *list, const struct shape *table, int room)
{
    while (json_array_size(list) > ENTRIES_MAX)
        (void)json_array_remove(list, json_array_size(list) - 1);
    for (size_t i = json_array_size(list); i-- > 0;)
        if (!fits(json_array_get(list, i), table, room))
            (void)json_array_remove(list, i);
}

// Removes unknown fields and those of another type; false: not an object, or a needed field lacks.
static bool fits(json_t *object, const struct shape *table, int room)
{
    const char *name;
    json_t *value;
    void *next;
    if (!json_is_object(object) || room == 0)
        return false;
    json_object_foreach_safe (object, next, name, value) {
        const struct shape *s = find(table, name);
        bool good = s && s->types & TYPE(json_typeof(value));
        if (good && s->inside && json_is_array(value))
            tidy_list(value, s->inside, room - 1);
        else if (good && s->inside && json_is_object(value) && !(s->types & IS_LIST))
            good = fits(value, s->inside, room - 1);
        if (!good)
            (void)json_object_del(object, name);
    }
    for (const struct shape *s = table; s->name; s++)
        if (s->needed && !json_object_get(object, s->name))
            return false;
    return true;
}

json_t *check_take(json_t *report)
{
    json_t *said = json_object_get(report, "check");
    if (!said || !result_is_shallow(said, DEPTH_MAX) || !fits(said, check_shape, DEPTH_MAX))
        return NULL;
    // SECURITY: a source with an error or violation is never valid, whatever the box says.
    bool bad = json_is_object(json_object_get(said, "error")) ||
               json_array_size(json_object_get(said, "violations")) > 0;
    if (bad && json_object_set_new(said, "valid", json_false()) < 0)
        return NULL;
    return json_incref(said);
}

json_t *check_crashed(const char *source, size_t length, const char *why, const char *python)
{
    size_t lines = length && source[length - 1] != '\n', characters = 0;
    for (size_t i = 0; i < length; i++) {
        lines += source[i] == '\n';
        characters += ((unsigned char)source[i] & 0xc0) != 0x80;
    }
    return json_pack("{s:b, s:{s:s, s:s, s:n, s:n, s:n, s:s, s:s, s:s, s:[], s:s}, s:[], "
                     "s:{s:b, s:s, s:I, s:I, s:I}, s:[], s:{s:s}, s:s}",
                     "valid", 0, "error", "type", "ParserCrash", "message", why, "line", "offset",
                     "end_offset", "text", "", "caret", "", "context", "", "lines", "hint",
                     "split it into smaller parts, and long expressions into several statements",
                     "violations", "analysis", "complete", 0, "incomplete",
                     "the parser crashed or met a limit", "line_count", (json_int_t)lines,
                     "character_count", (json_int_t)characters, "byte_count", (json_int_t)length,
                     "recommendations", "policy", "mode", "open", "python", python);
}
