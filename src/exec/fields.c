// SPDX-License-Identifier: Apache-2.0
//
// fields: see fields.h.  SECURITY: bodies are hostile; a value is quoted in a message only
// shortened and cleaned, and what is looked at is bounded by the size of the body, each value once.

#include "exec/fields.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"
#include "exec/forms.h"
#include "net/rules.h"
#include "json/text_value.h"
#include "json/whole.h"
#include "json/words.h"

enum {
    QUOTE_MAX = 60,   // characters of a foreign text in a message
    PREFIX_MAX = 160, // "files[3].path"
    NEAR = 3,         // edits between a misspelt name and a right one
};

static const struct {
    const char *schema, *words;
} types[FIELD_TYPE_MAX] = {
    [FIELD_STRING] = {"string", "a string"},
    [FIELD_NUMBER] = {"number", "a number"},
    [FIELD_INTEGER] = {"integer", "a whole number"},
    [FIELD_BOOLEAN] = {"boolean", "true or false"},
    [FIELD_OBJECT] = {"object", "an object"},
    [FIELD_TEXTS] = {"object", "an object of strings"},
    [FIELD_OBJECTS] = {"array", "an array of objects"},
    [FIELD_STRINGS] = {"array", "an array of strings"},
    [FIELD_REQUIREMENTS] = {"string", "a string, or an array of strings"},
    [FIELD_NETWORK] = {"object", "\"off\", an array of rules, or an object of them"},
};

// ---- tables -------------------------------------------------------------------------------------

static const struct field *next_inner(struct fields *inner)
{
    for (; inner->rows && inner->rows->name; inner->rows++)
        if (!inner->rows->on || inner->rows->on & inner->on)
            return inner->rows++;
    inner->rows = NULL;
    return NULL;
}

const struct field *field_next(struct field_walk *w)
{
    const struct field *f = next_inner(&w->inner);
    for (; !f && (w->outer.rows->name || w->outer.rows->table); w->outer.rows++) {
        const struct field *row = w->outer.rows;
        w->inner = (struct fields){row->table, row->on};
        if (row->table)
            f = next_inner(&w->inner);
        else if (!row->on || row->on & w->outer.on)
            f = row;
    }
    return f;
}

struct fields field_items(const struct field_walk *w, const struct field *f)
{
    return (struct fields){f->items, w->inner.rows ? w->inner.on : w->outer.on};
}

const struct field *field_find(struct fields all, const char *name)
{
    const struct field *f;
    struct field_walk w = FIELD_WALK(all);
    while ((f = field_next(&w)) && strcmp(f->name, name) != 0)
        ;
    return f;
}

// ---- bounds -------------------------------------------------------------------------------------

static double larger(uint64_t a, uint64_t b)
{
    return (double)(a > b ? a : b);
}

struct field_range field_range(const struct field *f, const struct config *c)
{
    struct field_range r = {.min = f->min, .max = f->max};
    double wall_s = (double)config_wall_max_ms(c) / 1000;
    switch (f->bound) {
    case BOUND_FIXED: return r;
    case BOUND_WALL: r = (struct field_range){0.1, wall_s, true, (double)c->wall_ms / 1000}; break;
    case BOUND_CPU:
        // Without --cpu it depends on the timeout of the call, so there is no one fallback.
        r.fallback = (double)config_cpu_ms(c, 0, 0) / 1000;
        r = (struct field_range){0.1, (double)config_cpu_max_ms(c) / 1000, r.fallback > 0,
                                 r.fallback};
        break;
    case BOUND_MEMORY:
        r = (struct field_range){16,
                                 larger(c->memory_max_bytes / TEXT_MIB, c->memory_bytes / TEXT_MIB),
                                 true, (double)(c->memory_bytes / TEXT_MIB)};
        break;
    case BOUND_IDLE: {
        double idle_s = (double)c->session_idle_ms / 1000;
        r = (struct field_range){1, idle_s > f->max ? idle_s : f->max, true, idle_s};
        break;
    }
    case BOUND_SOURCE: break; // source_check() says more about it
    case BOUND_BUILDS: break;
    }
    return r;
}

// ---- words --------------------------------------------------------------------------------------

static void describe(json_t *value, char *buf)
{
    json_describe(value, QUOTE_MAX, "the string '", "'", buf);
}

// "code, session, ...": the names of a table, for a hint.
static void list_names(struct fields all, char *buf, size_t cap)
{
    const struct field *f;
    struct field_walk w = FIELD_WALK(all);
    size_t at = 0;
    buf[0] = '\0';
    while ((f = field_next(&w)) && at < cap)
        at += (size_t)snprintf(buf + at, cap - at, "%s%s", at ? ", " : "", f->name);
}

static int unknown_field(struct fields all, const char *prefix, const char *name, struct err *e)
{
    char shown[QUOTE_MAX * 4 + 8], names[ERR_HINT_MAX - 64];
    const struct field *nearest = NULL, *f;
    struct field_walk w = FIELD_WALK(all);
    unsigned best = NEAR + 1;
    while ((f = field_next(&w))) {
        unsigned distance = text_distance(f->name, name);
        if (distance < best) {
            best = distance;
            nearest = f;
        }
    }
    json_quote(name, strlen(name), QUOTE_MAX, shown, sizeof shown);
    list_names(all, names, sizeof names);
    (void)err_set(e, ERR_BAD_VALUE, 0, NULL, "unknown field '%s%s'", prefix, shown);
    if (nearest)
        err_hint(e, "did you mean '%s'? the fields are: %s", nearest->name, names);
    else
        err_hint(e, "the fields are: %s", names);
    return -1;
}

static int bad(const struct field *f, const char *prefix, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static int bad(const struct field *f, const char *prefix, struct err *e, const char *fmt, ...)
{
    char text[ERR_MESSAGE_MAX - 200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)err_set(e, ERR_BAD_VALUE, 0, f->help, "field '%s%s' %s", prefix, f->name, text);
    if (e)
        text_sanitize(e->message); // a cut may have left half a character
    return -1;
}

// ---- one value ----------------------------------------------------------------------------------

static size_t count_characters(json_t *text)
{
    return utf8_count(json_string_value(text), json_string_length(text));
}

static bool has_type(const struct field *f, json_t *value)
{
    switch (f->type) {
    case FIELD_STRING: return json_is_string(value);
    case FIELD_NUMBER: return json_is_number(value);
    case FIELD_INTEGER: return json_has_type(value, "integer");
    case FIELD_BOOLEAN: return json_is_boolean(value);
    case FIELD_OBJECT:
    case FIELD_TEXTS: return json_is_object(value);
    case FIELD_OBJECTS:
    case FIELD_STRINGS: return json_is_array(value);
    case FIELD_REQUIREMENTS: return json_is_string(value) || json_is_array(value);
    case FIELD_NETWORK:
        return json_is_string(value) || json_is_array(value) || json_is_object(value) ||
               json_is_false(value);
    case FIELD_TYPE_MAX: break;
    }
    return false;
}

// What min and max are about: the number itself, or how much there is of it.
static double measure(const struct field *f, json_t *value, const char **ret_unit)
{
    *ret_unit = "";
    switch (f->type) {
    case FIELD_STRING: *ret_unit = " characters"; return (double)count_characters(value);
    case FIELD_OBJECT:
    case FIELD_TEXTS: *ret_unit = " keys"; return (double)json_object_size(value);
    case FIELD_OBJECTS:
    case FIELD_STRINGS: *ret_unit = " items"; return (double)json_array_size(value);
    case FIELD_NUMBER:
    case FIELD_INTEGER: return json_number_value(value);
    case FIELD_BOOLEAN:
    case FIELD_REQUIREMENTS:
    case FIELD_NETWORK:
    case FIELD_TYPE_MAX: break;
    }
    return 0;
}

static int check_range(const struct field *f, const char *prefix, const struct config *c,
                       json_t *value, struct err *e)
{
    struct field_range r = field_range(f, c);
    const char *unit;
    if (f->type == FIELD_BOOLEAN || f->type == FIELD_NETWORK || f->type == FIELD_REQUIREMENTS ||
        (r.min == 0 && r.max == 0))
        return 0;
    double amount = measure(f, value, &unit);
    if (amount < r.min)
        return bad(f, prefix, e, "%s %.15g%s, but must %s at least %.15g", unit[0] ? "has" : "is",
                   amount, unit, unit[0] ? "have" : "be", r.min);
    // SECURITY: NaN is not JSON, but a comparison that it fails would let it pass.
    if (!(amount <= r.max))
        return bad(f, prefix, e, "%s %.15g%s, but may %s at most %.15g", unit[0] ? "has" : "is",
                   amount, unit, unit[0] ? "have" : "be", r.max);
    return 0;
}

static bool is_choice(const char *choices, const char *text, size_t length)
{
    for (const char *p = choices; *p;) {
        size_t n = strcspn(p, "|");
        if (n == length && memcmp(p, text, n) == 0)
            return true;
        p += n + (p[n] == '|');
    }
    return false;
}

static int check_strings(const struct field *f, const char *prefix, json_t *list, struct err *e)
{
    size_t i;
    json_t *item;
    char text[JSON_WORDS_SIZE];
    json_array_foreach (list, i, item) {
        if (json_is_string(item))
            continue;
        describe(item, text);
        return bad(f, prefix, e, "has %s at position %zu, but must be an array of strings", text,
                   i);
    }
    return 0;
}

static int check_table(struct fields all, const char *prefix, const struct config *c, json_t *body,
                       struct err *e);

// Tables are our own, so the depth is theirs.
static int check_objects(const struct field *f, struct fields items, const char *prefix,
                         const struct config *c, json_t *list, struct err *e)
{
    size_t i;
    json_t *item;
    char deeper[PREFIX_MAX], text[JSON_WORDS_SIZE];
    json_array_foreach (list, i, item) {
        if (!json_is_object(item)) {
            describe(item, text);
            return bad(f, prefix, e, "has %s at position %zu, but must be an array of objects",
                       text, i);
        }
        snprintf(deeper, sizeof deeper, "%s%s[%zu].", prefix, f->name, i);
        int r = check_table(items, deeper, c, item, e);
        if (r < 0)
            return r;
    }
    return 0;
}

static int check_value(const struct field *f, struct fields items, const char *prefix,
                       const struct config *c, json_t *value, struct err *e)
{
    char text[JSON_WORDS_SIZE];
    if (!has_type(f, value) && f->type == FIELD_TEXTS)
        return bad(f, prefix, e, "must be %s", types[f->type].words);
    if (!has_type(f, value)) {
        describe(value, text);
        return bad(f, prefix, e, "is %s, but must be %s", text, types[f->type].words);
    }
    int r = check_range(f, prefix, c, value, e);
    if (r < 0)
        return r;
    if (f->choices && !is_choice(f->choices, json_string_value(value), json_string_length(value))) {
        describe(value, text);
        return bad(f, prefix, e, "is %s, but must be one of %s", text, f->choices);
    }
    if (f->bound == BOUND_BUILDS && json_is_true(value) && !c->source_builds)
        return bad(f, prefix, e, "is true, but this server builds no packages (--source-builds)");
    // Readers stop at the NUL, so such a text would be taken for another one.
    if (f->type == FIELD_STRING && f->pattern && f->bound != BOUND_SOURCE &&
        strlen(json_string_value(value)) != json_string_length(value))
        return bad(f, prefix, e, "has a NUL character");
    if (f->type == FIELD_STRINGS || (f->type == FIELD_REQUIREMENTS && json_is_array(value)))
        return check_strings(f, prefix, value, e);
    return f->type == FIELD_OBJECTS ? check_objects(f, items, prefix, c, value, e) : 0;
}

// ---- a body -------------------------------------------------------------------------------------

static bool is_given(json_t *body, const char *name)
{
    json_t *value = json_object_get(body, name);
    return value && !json_is_null(value);
}

// Required by one of its names is enough.
static bool is_missing(struct fields all, const struct field *f, json_t *body)
{
    const struct field *other;
    struct field_walk w = FIELD_WALK(all);
    if (!f->required || is_given(body, f->name))
        return false;
    while ((other = field_next(&w)))
        if (other->same_as && strcmp(other->same_as, f->name) == 0 && is_given(body, other->name))
            return false;
    return true;
}

// The server that the set 'kernels' replaces takes "5" for 5.  So with this set a text is replaced
// by the value that it holds; without it only what the OpenAPI document describes is valid.
static json_t *read_text(const struct field *f, const struct config *c, json_t *body, json_t *value)
{
    if (has_type(f, value) ||
        (!text_list_has(&c->tools, "kernels") && !text_list_has(&c->tools, "all")))
        return value;
    json_t *read = text_value(value, types[f->type].schema);
    return read && json_object_set_new(body, f->name, read) == 0 ? read : value;
}

static int check_table(struct fields all, const char *prefix, const struct config *c, json_t *body,
                       struct err *e)
{
    const struct field *f;
    struct field_walk w = FIELD_WALK(all);
    const char *name;
    json_t *value;
    json_object_foreach (body, name, value)
        if (!field_find(all, name))
            return unknown_field(all, prefix, name, e);
    while ((f = field_next(&w))) {
        if (is_missing(all, f, body) && !json_object_get(body, f->name))
            return bad(f, prefix, e, "is missing");
        value = json_object_get(body, f->name);
        if (!value || (json_is_null(value) && !f->required))
            continue;
        value = read_text(f, c, body, value);
        int r = check_value(f, field_items(&w, f), prefix, c, value, e);
        if (r < 0)
            return r;
        if (f->same_as && is_given(body, f->name) && is_given(body, f->same_as))
            return bad(f, prefix, e, "and '%s' are the same: give one of them", f->same_as);
    }
    return 0;
}

int fields_check(struct fields all, const struct config *c, json_t *body, struct err *e)
{
    if (!json_is_object(body))
        return err_set(e, ERR_BAD_VALUE, 0, "send one object, such as {\"code\": \"1 + 1\"}",
                       "the body is not a JSON object");
    return check_table(all, "", c, body, e);
}

// ---- the schema ---------------------------------------------------------------------------------

// A number without a point where it has no fraction.
static json_t *number(double d)
{
    return d < 0x1p53 && trunc(d) == d ? json_integer((json_int_t)d) : json_real(d);
}

static int set_range(json_t *o, const struct field *f, const struct config *c)
{
    static const struct {
        const char *min, *max;
    } words[FIELD_TYPE_MAX] = {
        [FIELD_STRING] = {"minLength", "maxLength"},
        [FIELD_NUMBER] = {"minimum", "maximum"},
        [FIELD_INTEGER] = {"minimum", "maximum"},
        [FIELD_OBJECT] = {"minProperties", "maxProperties"},
        [FIELD_TEXTS] = {"minProperties", "maxProperties"},
        [FIELD_OBJECTS] = {"minItems", "maxItems"},
        [FIELD_STRINGS] = {"minItems", "maxItems"},
    };
    struct field_range r = field_range(f, c);
    int failed = 0;
    if (!words[f->type].min)
        return 0;
    bool is_number = f->type == FIELD_NUMBER || f->type == FIELD_INTEGER;
    if (r.min > 0 || (is_number && r.max > 0))
        failed |= json_object_set_new(o, words[f->type].min, number(r.min));
    if (r.max > 0)
        failed |= json_object_set_new(o, words[f->type].max, number(r.max));
    if (r.has_fallback)
        failed |= json_object_set_new(o, "default", number(r.fallback));
    return failed;
}

static json_t *choices_schema(const char *choices, bool nullable)
{
    json_t *list = json_array();
    for (const char *p = choices; *p;) {
        size_t n = strcspn(p, "|");
        (void)json_array_append_new(list, json_stringn(p, n));
        p += n + (p[n] == '|');
    }
    if (nullable)
        (void)json_array_append_new(list, json_null());
    return list;
}

json_t *field_schema(const struct field *f, struct fields items, const struct config *c)
{
    if (f->type == FIELD_REQUIREMENTS)
        return form_requirements(c, f->required, f->help);
    if (f->type == FIELD_NETWORK)
        return form_network(f->help);
    // What may be left out may be null as well.
    json_t *type = f->required ? json_string(types[f->type].schema)
                               : json_pack("[s, s]", types[f->type].schema, "null");
    json_t *o = json_pack("{s:o, s:s}", "type", type, "description", f->help);
    if (!o)
        return NULL;
    int failed = set_range(o, f, c);
    if (f->bound == BOUND_SOURCE)
        failed |= json_object_set_new(o, "x-maximum-bytes", number((double)c->source_bytes));
    if (f->choices)
        failed |= json_object_set_new(o, "enum", choices_schema(f->choices, !f->required));
    if (f->bound == BOUND_BUILDS && !c->source_builds)
        failed |= json_object_set_new(o, "enum", json_pack("[b, n]", 0));
    if (f->type == FIELD_STRING && f->pattern)
        failed |= json_object_set_new(o, "pattern", json_string(f->pattern));
    else if (f->type == FIELD_STRINGS)
        failed |= json_object_set_new(
            o, "items", json_pack("{s:s, s:s*}", "type", "string", "pattern", f->pattern));
    else if (f->type == FIELD_OBJECT)
        failed |= json_object_update_new(
            o, json_pack("{s:{s:s}, s:{s:s}}", "propertyNames", "pattern",
                         f->pattern ? f->pattern : FORM_NO_NUL, "additionalProperties", "$ref",
                         "#/components/schemas/Value"));
    else if (f->type == FIELD_TEXTS)
        failed |= json_object_update_new(o, json_pack("{s:{s:s}, s:{s:s, s:s}}", "propertyNames",
                                                      "pattern", f->pattern, "additionalProperties",
                                                      "type", "string", "pattern", FORM_NO_NUL));
    else if (f->type == FIELD_OBJECTS)
        failed |= json_object_set_new(o, "items", fields_schema(items, c));
    return json_whole(o, failed);
}

// Not both, unless one is null.
static json_t *not_both(const char *a, const char *b)
{
    return json_pack("{s:{s:[s, s], s:{s:{s:{s:s}}, s:{s:{s:s}}}}}", "not", "required", a, b,
                     "properties", a, "not", "type", "null", b, "not", "type", "null");
}

// What is said of several fields; NULL: nothing.
static json_t *relations(struct fields all)
{
    const struct field *f;
    struct field_walk w = FIELD_WALK(all);
    json_t *list = json_array(), *pairs = json_array();
    bool whole = false; // one of them says it all
    while ((f = field_next(&w))) {
        const char *other = f->same_as ? f->same_as : f->excludes;
        if (f->together)
            (void)json_array_append_new(list, f->together());
        whole |= f->together == form_file_body;
        if (other && field_find(all, other))
            (void)json_array_append_new(pairs, not_both(f->name, other));
    }
    if (!whole)
        (void)json_array_extend(list, pairs);
    json_decref(pairs);
    if (json_array_size(list))
        return list;
    json_decref(list);
    return NULL;
}

typedef json_t *schema_of(const struct field *f, struct fields items, const struct config *c);

static json_t *object_schema(struct fields all, const struct config *c, schema_of *schema)
{
    const struct field *f;
    struct field_walk w = FIELD_WALK(all);
    json_auto_t *properties = json_object(), *required = json_array();
    int failed = !properties || !required;
    while (!failed && (f = field_next(&w))) {
        failed |= json_object_set_new(properties, f->name, schema(f, field_items(&w, f), c));
        if (f->required)
            failed |= json_array_append_new(required, json_string(f->name));
    }
    return failed ? NULL
                  : json_pack("{s:s, s:O, s:O*, s:b}", "type", "object", "properties", properties,
                              "required", json_array_size(required) ? required : NULL,
                              "additionalProperties", 0);
}

json_t *fields_schema(struct fields all, const struct config *c)
{
    json_t *o = object_schema(all, c, field_schema);
    json_auto_t *apart = relations(all);
    if (!o || !apart || json_object_set(o, "allOf", apart) == 0)
        return o;
    json_decref(o);
    return NULL;
}

// ---- the schema of a tool -----------------------------------------------------------------------

// The help of a row as sentences.
static json_t *describe_row(const struct field *f)
{
    return json_sprintf("%c%s.%s%s", toupper((unsigned char)f->help[0]), f->help + 1,
                        f->tool_help ? " " : "", f->tool_help ? f->tool_help : "");
}

// Several types in one word: clients drop every tool for an argument without a "type".
static json_t *tool_type(const struct field *f, struct fields items, const struct config *c)
{
    switch (f->type) {
    case FIELD_OBJECTS:
        return json_pack("{s:s, s:o}", "type", "array", "items", fields_tool_schema(items, c));
    case FIELD_STRINGS: {
        json_t *each = json_pack("{s:s}", "type", "string");
        if (each && f->pattern) // all of them want one character at least
            (void)json_object_set_new(each, "minLength", json_integer(1));
        if (each && f->tool_each > 0)
            (void)json_object_set_new(each, "maxLength", number(f->tool_each));
        return json_pack("{s:s, s:o}", "type", "array", "items", each);
    }
    case FIELD_REQUIREMENTS:
        return json_pack("{s:[s, s], s:i, s:i, s:i, s:i, s:{s:s, s:i, s:i}}", "type", "array",
                         "string", "minLength", 1, "maxLength", 20000, "minItems", 1, "maxItems",
                         100, "items", "type", "string", "minLength", 1, "maxLength", 1000);
    case FIELD_NETWORK:
        return json_pack("{s:[s, s, s], s:i, s:{s:[s, s]}, s:{s:{s:s}, s:{s:s}}}", "type", "array",
                         "string", "object", "maxItems", NET_RULES_MAX, "items", "type", "string",
                         "object", "properties", "allow", "type", "array", "deny", "type", "array");
    case FIELD_STRING:
    case FIELD_NUMBER:
    case FIELD_INTEGER:
    case FIELD_BOOLEAN:
    case FIELD_OBJECT:
    case FIELD_TEXTS:
    case FIELD_TYPE_MAX: break;
    }
    return json_pack("{s:s}", "type", types[f->type].schema);
}

static json_t *tool_schema(const struct field *f, struct fields items, const struct config *c)
{
    json_t *o = tool_type(f, items, c);
    int failed = !o || (f->type != FIELD_OBJECT && f->type != FIELD_TEXTS && set_range(o, f, c));
    if (!failed && f->choices)
        failed = json_object_set_new(o, "enum", choices_schema(f->choices, false));
    if (!failed && f->type == FIELD_BOOLEAN)
        failed = json_object_set_new(o, "default", json_false());
    if (!failed && json_object_set_new(o, "description", describe_row(f)) == 0)
        return o;
    json_decref(o);
    return NULL;
}

json_t *fields_tool_schema(struct fields all, const struct config *c)
{
    return object_schema(all, c, tool_schema);
}

// ---- reading a body -----------------------------------------------------------------------------

json_t *field_get(json_t *body, const char *name, const char *other)
{
    json_t *value = json_object_get(body, name);
    if ((!value || json_is_null(value)) && other)
        value = json_object_get(body, other);
    return value && !json_is_null(value) ? value : NULL;
}

const char *field_text(json_t *body, const char *name, const char *other)
{
    return json_string_value(field_get(body, name, other));
}

uint64_t field_ms(json_t *body, const char *name, uint64_t fallback_ms)
{
    json_t *value = field_get(body, name, NULL);
    return value ? (uint64_t)(json_number_value(value) * 1000 + 0.5) : fallback_ms;
}
