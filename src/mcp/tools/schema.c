// SPDX-License-Identifier: Apache-2.0
//
// schema: see schema.h.  Called by tools.c with the arguments of a call, which are hostile, and
// with our own schemas.  A table of keywords; each has a function that checks one value and
// explains an error so that a model can act on it.

#include "mcp/tools/schema.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/utf8.h"
#include "json/words.h"

enum {
    DEPTH_MAX = 32,
    EFFORT_MAX = 200000, // values looked at; more than one message can hold
    NAME_TEXT_MAX = 40,  // characters of a foreign name in a message
    PATH_TEXT_MAX = 200,
};

struct check {
    char *message;
    size_t cap;
    unsigned effort;
    char path[PATH_TEXT_MAX]; // "args[3]", "" for the root
};

static int say(struct check *k, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int say(struct check *k, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = k->path[0] ? snprintf(k->message, k->cap, "argument '%s' ", k->path)
                       : snprintf(k->message, k->cap, "the arguments: this ");
    if (n >= 0 && (size_t)n < k->cap)
        vsnprintf(k->message + n, k->cap - (size_t)n, fmt, ap);
    va_end(ap);
    text_sanitize(k->message); // may be cut within a character
    return -1;
}

static void describe(json_t *value, char *buf)
{
    json_describe(value, JSON_WORDS_MAX, "\"", "\"", buf);
}

// ---- keywords -----------------------------------------------------------------------------------

static const char *article(const char *type)
{
    return strcmp(type, "null") == 0 ? "" : strchr("aeio", type[0]) ? "an " : "a ";
}

static int check_type(struct check *k, json_t *type, json_t *value, json_t *schema)
{
    char list[128] = "", text[JSON_WORDS_SIZE];
    size_t at = 0, count = json_is_array(type) ? json_array_size(type) : 1;
    (void)schema;
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_is_array(type) ? json_array_get(type, i) : type);
        if (!name || json_has_type(value, name))
            return 0;
        if (at < sizeof list)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s%s", i ? " or " : "",
                                   article(name), name);
    }
    // SECURITY: a text in place of an object may hold secrets, such as those of 'env'.
    if (json_is_string(value) && strcmp(list, "an object") == 0)
        snprintf(text, sizeof text, "a string");
    else
        describe(value, text);
    return say(k, "is %s, but must be %s", text, list);
}

static int check_enum(struct check *k, json_t *choices, json_t *value, json_t *schema)
{
    char list[512] = "", text[JSON_WORDS_SIZE], choice[JSON_WORDS_SIZE];
    size_t i, at = 0;
    json_t *item;
    (void)schema;
    json_array_foreach (choices, i, item) {
        if (json_equal(item, value))
            return 0;
        describe(item, choice);
        if (at < sizeof list)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", choice);
    }
    describe(value, text);
    return say(k, "is %s, but must be one of %s", text, list);
}

static int check_const(struct check *k, json_t *only, json_t *value, json_t *schema)
{
    char text[JSON_WORDS_SIZE], wanted[JSON_WORDS_SIZE];
    (void)schema;
    if (json_equal(only, value))
        return 0;
    describe(value, text);
    describe(only, wanted);
    return say(k, "is %s, but must be %s", text, wanted);
}

static int out_of_bounds(struct check *k, json_t *value, const char *words, json_t *bound)
{
    char text[JSON_WORDS_SIZE], limit[JSON_WORDS_SIZE];
    describe(value, text);
    describe(bound, limit);
    return say(k, "is %s, but must be %s %s", text, words, limit);
}

// The first of two numbers is less; integers are compared exactly.
static bool less(json_t *a, json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b))
        return json_integer_value(a) < json_integer_value(b);
    return json_number_value(a) < json_number_value(b);
}

static int check_minimum(struct check *k, json_t *min, json_t *value, json_t *schema)
{
    (void)schema;
    return json_is_number(value) && less(value, min) ? out_of_bounds(k, value, "at least", min) : 0;
}

static int check_maximum(struct check *k, json_t *max, json_t *value, json_t *schema)
{
    (void)schema;
    return json_is_number(value) && less(max, value) ? out_of_bounds(k, value, "at most", max) : 0;
}

static int check_above(struct check *k, json_t *min, json_t *value, json_t *schema)
{
    (void)schema;
    return json_is_number(value) && !less(min, value) ? out_of_bounds(k, value, "above", min) : 0;
}

static int check_below(struct check *k, json_t *max, json_t *value, json_t *schema)
{
    (void)schema;
    return json_is_number(value) && !less(value, max) ? out_of_bounds(k, value, "below", max) : 0;
}

static int check_length(struct check *k, json_t *bound, json_t *value, bool is_max)
{
    size_t length = json_string_length(value), count = 0;
    const char *text = json_string_value(value);
    if (!text)
        return 0;
    for (size_t i = 0; i < length; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    json_int_t limit = json_integer_value(bound);
    if (is_max ? count <= (size_t)limit : count >= (size_t)limit)
        return 0;
    return say(k, "has %zu characters, but must have at %s %" JSON_INTEGER_FORMAT, count,
               is_max ? "most" : "least", limit);
}

static int check_min_length(struct check *k, json_t *min, json_t *value, json_t *schema)
{
    (void)schema;
    return check_length(k, min, value, false);
}

static int check_max_length(struct check *k, json_t *max, json_t *value, json_t *schema)
{
    (void)schema;
    return check_length(k, max, value, true);
}

static int check_min_items(struct check *k, json_t *min, json_t *value, json_t *schema)
{
    (void)schema;
    if (!json_is_array(value) || json_array_size(value) >= (size_t)json_integer_value(min))
        return 0;
    return say(k, "has %zu items, but must have at least %" JSON_INTEGER_FORMAT,
               json_array_size(value), json_integer_value(min));
}

static int check_max_items(struct check *k, json_t *max, json_t *value, json_t *schema)
{
    (void)schema;
    if (!json_is_array(value) || json_array_size(value) <= (size_t)json_integer_value(max))
        return 0;
    return say(k, "has %zu items, but must have at most %" JSON_INTEGER_FORMAT,
               json_array_size(value), json_integer_value(max));
}

// ---- what contains other values -----------------------------------------------------------------

static int check_value(struct check *k, json_t *schema, json_t *value, int depth);

// Checks a child value, with its name added to the path.
static int check_member(struct check *k, json_t *schema, json_t *value, int depth, const char *name,
                        size_t index)
{
    char old[PATH_TEXT_MAX], shown[NAME_TEXT_MAX * 4 + 8];
    memcpy(old, k->path, sizeof old);
    size_t at = strlen(k->path);
    if (name) {
        json_quote(name, strlen(name), NAME_TEXT_MAX, shown, sizeof shown);
        snprintf(k->path + at, sizeof k->path - at, "%s%s", at ? "." : "", shown);
    } else {
        snprintf(k->path + at, sizeof k->path - at, "[%zu]", index);
    }
    int r = check_value(k, schema, value, depth);
    memcpy(k->path, old, sizeof old);
    return r;
}

static int check_required(struct check *k, json_t *names, json_t *value, json_t *schema)
{
    size_t i;
    json_t *name;
    if (!json_is_object(value))
        return 0;
    json_array_foreach (names, i, name) {
        const char *key = json_string_value(name);
        if (!key || json_object_get(value, key))
            continue;
        json_t *member = json_object_get(json_object_get(schema, "properties"), key);
        const char *type = json_string_value(json_object_get(member, "type"));
        size_t at = strlen(k->path);
        snprintf(k->path + at, sizeof k->path - at, "%s%s", at ? "." : "", key);
        return type ? say(k, "is missing; it must be given, as %s%s", article(type), type)
                    : say(k, "is missing; it must be given");
    }
    return 0;
}

// An unknown name: suggests a similar one and lists all.
static int unknown_name(struct check *k, const char *name, json_t *known)
{
    char shown[NAME_TEXT_MAX * 4 + 8], list[384] = "";
    const char *key, *near = NULL;
    unsigned best = 4; // further away is another word
    size_t at = 0;
    json_t *member;
    json_object_foreach (known, key, member) {
        unsigned distance = text_distance(name, key);
        if (distance < best && distance < strlen(key)) {
            best = distance;
            near = key;
        }
        if (at < sizeof list)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", key);
    }
    json_quote(name, strlen(name), NAME_TEXT_MAX, shown, sizeof shown);
    int n = k->path[0]
                ? snprintf(k->message, k->cap, "argument '%s' has no member '%s'", k->path, shown)
                : snprintf(k->message, k->cap, "there is no argument '%s'", shown);
    if (n >= 0 && (size_t)n < k->cap)
        snprintf(k->message + n, k->cap - (size_t)n, "%s%s%s; %s%s", near ? ", did you mean '" : "",
                 near ? near : "", near ? "'?" : "", at ? "possible: " : "none is taken", list);
    text_sanitize(k->message);
    return -1;
}

static int check_object(struct check *k, json_t *schema, json_t *value, int depth)
{
    json_t *known = json_object_get(schema, "properties");
    json_t *others = json_object_get(schema, "additionalProperties"), *item;
    const char *key;
    json_object_foreach (value, key, item) {
        json_t *below = json_object_get(known, key);
        if (!below && json_is_false(others))
            return unknown_name(k, key, known);
        if (!below)
            below = others;
        if (below && check_member(k, below, item, depth, key, 0) < 0)
            return -1;
    }
    return 0;
}

static int check_array(struct check *k, json_t *schema, json_t *value, int depth)
{
    json_t *items = json_object_get(schema, "items"), *item;
    size_t i;
    if (!items)
        return 0;
    json_array_foreach (value, i, item)
        if (check_member(k, items, item, depth, NULL, i) < 0)
            return -1;
    return 0;
}

static const struct {
    const char *name;
    int (*check)(struct check *k, json_t *keyword, json_t *value, json_t *schema);
} keywords[] = {
    // The type first: other keywords assume the right type.
    {"type", check_type},
    {"const", check_const},
    {"enum", check_enum},
    {"minimum", check_minimum},
    {"maximum", check_maximum},
    {"exclusiveMinimum", check_above},
    {"exclusiveMaximum", check_below},
    {"minLength", check_min_length},
    {"maxLength", check_max_length},
    {"minItems", check_min_items},
    {"maxItems", check_max_items},
    {"required", check_required},
};

static int check_value(struct check *k, json_t *schema, json_t *value, int depth)
{
    if (json_is_true(schema) || (schema && !json_is_object(schema) && !json_is_false(schema)))
        return 0;
    if (json_is_false(schema))
        return say(k, "must not be given");
    if (depth >= DEPTH_MAX)
        return say(k, "is nested too deeply; at most %d levels", DEPTH_MAX);
    if (++k->effort > EFFORT_MAX)
        return say(k, "holds too many values to check");
    for (size_t i = 0; i < ARRAY_LEN(keywords); i++) {
        json_t *keyword = json_object_get(schema, keywords[i].name);
        if (keyword && keywords[i].check(k, keyword, value, schema) < 0)
            return -1;
    }
    if (json_is_object(value))
        return check_object(k, schema, value, depth + 1);
    if (json_is_array(value))
        return check_array(k, schema, value, depth + 1);
    return 0;
}

int schema_check(json_t *schema, json_t *value, char *ret_message, size_t cap)
{
    struct check k = {.message = ret_message, .cap = cap};
    if (cap)
        ret_message[0] = '\0';
    return check_value(&k, schema, value, 0);
}
