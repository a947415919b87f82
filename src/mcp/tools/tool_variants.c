// SPDX-License-Identifier: Apache-2.0
//
// tool_variants: see tool_variants.h.  Called by tools.c in the gate; schemas are our own,
// arguments of calls are hostile.

#include "mcp/tools/tool_variants.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "mcp/tools/schema.h"

// ---- the union of two schemas -------------------------------------------------------------------

static bool has_text(json_t *array, const char *text)
{
    json_t *item;
    size_t i;
    json_array_foreach (array, i, item)
        if (strcmp(json_string_value(item), text) == 0)
            return true;
    return false;
}

// The types of a schema as an array, new.
static json_t *types_of(json_t *schema)
{
    json_t *type = json_object_get(schema, "type");
    return json_is_array(type) ? json_copy(type) : json_pack("[O]", type);
}

static int widen_type(json_t *mine, json_t *other)
{
    json_auto_t *types = types_of(mine), *more = types_of(other);
    json_t *item;
    size_t i;
    int failed = !types || !more;
    json_array_foreach (more, i, item) {
        const char *name = json_string_value(item);
        bool covered = strcmp(name, "integer") == 0 && has_text(types, "number");
        if (!covered && !has_text(types, name))
            failed |= json_array_append(types, item);
    }
    // "number" says "integer" too, whichever came first.
    for (i = json_array_size(types); i-- > 0 && has_text(types, "number");)
        if (strcmp(json_string_value(json_array_get(types, i)), "integer") == 0)
            failed |= json_array_remove(types, i);
    failed |= json_object_set(mine, "type",
                              json_array_size(types) == 1 ? json_array_get(types, 0) : types);
    return failed ? -1 : 0;
}

// A bound that one schema lacks is dropped.
static int widen_bounds(json_t *mine, json_t *other)
{
    static const struct {
        const char *name;
        bool is_upper;
    } table[] = {{"minimum", false},          {"maximum", true},         {"minLength", false},
                 {"maxLength", true},         {"minItems", false},       {"maxItems", true},
                 {"exclusiveMinimum", false}, {"exclusiveMaximum", true}};
    int failed = 0;
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        json_t *a = json_object_get(mine, table[i].name),
               *b = json_object_get(other, table[i].name);
        double difference = json_number_value(b) - json_number_value(a);
        if (a && !b)
            failed |= json_object_del(mine, table[i].name);
        else if (a && (table[i].is_upper ? difference > 0 : difference < 0))
            failed |= json_object_set(mine, table[i].name, b);
    }
    return failed ? -1 : 0;
}

static int widen_choices(json_t *mine, json_t *other)
{
    json_t *choices = json_object_get(mine, "enum"), *more = json_object_get(other, "enum"), *item;
    size_t i;
    int failed = 0;
    if (!choices)
        return 0;
    if (!more)
        return json_object_del(mine, "enum");
    json_array_foreach (more, i, item)
        if (!has_text(choices, json_string_value(item)))
            failed |= json_array_append(choices, item);
    return failed ? -1 : 0;
}

static int widen_property(json_t *mine, json_t *other)
{
    return widen_type(mine, other) < 0 || widen_bounds(mine, other) < 0 ||
                   widen_choices(mine, other) < 0
               ? -1
               : 0;
}

// Keeps what both require.
static int narrow_required(json_t *mine, json_t *other)
{
    json_t *names = json_object_get(mine, "required"), *more = json_object_get(other, "required");
    for (size_t i = json_array_size(names); i-- > 0;)
        if (!has_text(more, json_string_value(json_array_get(names, i))) &&
            json_array_remove(names, i) < 0)
            return -1;
    return 0;
}

static int widen_input(json_t *mine, json_t *other)
{
    json_t *properties = json_object_get(mine, "properties"), *property;
    const char *name;
    int failed = 0;
    json_object_foreach (json_object_get(other, "properties"), name, property) {
        json_t *known = json_object_get(properties, name);
        failed |= known ? widen_property(known, property)
                        : json_object_set_new(properties, name, json_deep_copy(property));
    }
    if (!json_object_get(other, "additionalProperties"))
        (void)json_object_del(mine, "additionalProperties");
    return failed || narrow_required(mine, other) < 0 ? -1 : 0;
}

// ---- entries ------------------------------------------------------------------------------------

enum {
    ALL_OF = TOOL_READ_ONLY |
             TOOL_IDEMPOTENT, // set when every variant has it; other hints: when any has it
    FIRST_SENTENCE_MAX = 300,
};

static unsigned both_hints(unsigned a, unsigned b)
{
    return (a & b & ALL_OF) | ((a | b) & ~(unsigned)ALL_OF);
}

static size_t first_sentence(const char *text)
{
    const char *end = strstr(text, ". ");
    size_t length = end ? (size_t)(end - text) + 1 : strlen(text);
    return length < FIRST_SENTENCE_MAX ? length : FIRST_SENTENCE_MAX;
}

// Adds one sentence for a later variant: its set, its arguments, what it does.
static json_t *describe(json_t *so_far, const struct tool_variant *v, const char *set)
{
    char names[256] = "";
    size_t at = 0;
    const char *name;
    json_t *property;
    json_object_foreach (json_object_get(v->input, "properties"), name, property)
        if (at < sizeof names)
            at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "", name);
    return json_sprintf("%s As the tool of the set '%s', with %s: %.*s", json_string_value(so_far),
                        set, names[0] ? names : "no arguments",
                        (int)first_sentence(v->tool->description), v->tool->description);
}

// The bounds of the configuration, for the properties that a brief schema lists.
static int take_bounds(json_t *brief, json_t *input)
{
    static const char *const bounds[] = {"default", "minimum", "maximum"};
    json_t *all = json_object_get(input, "properties"), *property;
    const char *name;
    int failed = 0;
    json_object_foreach (json_object_get(brief, "properties"), name, property)
        for (size_t i = 0; i < ARRAY_LEN(bounds); i++) {
            json_t *bound = json_object_get(json_object_get(all, name), bounds[i]);
            if (json_object_get(property, bounds[i]))
                failed |= bound ? json_object_set(property, bounds[i], bound)
                                : json_object_del(property, bounds[i]);
        }
    return failed ? -1 : 0;
}

static int begin(struct tool_entry *entry, const struct tool_variant *v,
                 const struct tool_brief *brief)
{
    const struct mcp_tool *tool = v->tool;
    entry->name = tool->name;
    entry->first = tool;
    entry->hints = tool->hints;
    entry->input = json_deep_copy(v->input);
    entry->output = tool->output_schema ? json_loads(tool->output_schema, 0, NULL) : NULL;
    entry->description = json_string(brief ? brief->description : tool->description);
    if (brief && (!(entry->brief = json_loads(brief->input_schema, 0, NULL)) ||
                  take_bounds(entry->brief, entry->input) < 0))
        return -1;
    return !entry->input || (tool->output_schema && !entry->output) || !entry->description ? -1 : 0;
}

static int join(struct tool_entry *entry, const struct tool_variant *v, const char *set)
{
    const char *output = v->tool->output_schema, *first = entry->first->output_schema;
    if (v->tool->hints & TOOL_UNLISTED)
        return 0;
    json_t *description = describe(entry->description, v, set);
    if (!description || widen_input(entry->input, v->input) < 0 ||
        (entry->brief && widen_input(entry->brief, v->input) < 0)) {
        json_decref(description);
        return -1;
    }
    json_decref(entry->description);
    entry->description = description;
    entry->hints = both_hints(entry->hints, v->tool->hints);
    if (entry->output && (!output || strcmp(output, first) != 0)) {
        json_decref(entry->output);
        entry->output = NULL;
    }
    return 0;
}

int tool_variants_add(struct tool_entry *entry, const struct mcp *m, const struct mcp_tool *tool,
                      const struct tool_brief *brief, const char *set, struct err *e)
{
    if (entry->count == TOOL_VARIANTS_MAX)
        return err_set(e, ERR_INTERNAL, 0, NULL, "more than %d tools of the name '%s'",
                       TOOL_VARIANTS_MAX, tool->name);
    struct tool_variant *v = &entry->variants[entry->count++];
    v->tool = tool;
    v->input = tool->input.rows ? fields_tool_schema(tool->input, m->config)
                                : json_loads(tool->input_schema, 0, NULL);
    if (!v->input || (tool->adapt && tool->adapt(m, v->input) < 0) ||
        (entry->count == 1 ? begin(entry, v, brief) : join(entry, v, set)) < 0)
        return err_set(e, ERR_INTERNAL, 0, NULL, "the schemas of tool '%s'", tool->name);
    return 0;
}

void tool_variants_clear(struct tool_entry *entry)
{
    for (size_t i = 0; i < entry->count; i++)
        json_decref(entry->variants[i].input);
    json_decref(entry->input);
    json_decref(entry->brief);
    json_decref(entry->output);
    json_decref(entry->description);
    *entry = (struct tool_entry){0};
}

// ---- choosing -----------------------------------------------------------------------------------

// How many arguments are wrong or missing.
static size_t count_problems(json_t *schema, json_t *arguments)
{
    json_t *known = json_object_get(schema, "properties"), *item;
    bool closed = json_is_false(json_object_get(schema, "additionalProperties"));
    char ignored[64];
    const char *name;
    size_t i, count = 0;
    json_array_foreach (json_object_get(schema, "required"), i, item)
        count += !json_object_get(arguments, json_string_value(item));
    json_object_foreach (arguments, name, item) {
        json_t *property = json_object_get(known, name);
        count += property ? schema_check(property, item, ignored, sizeof ignored) < 0 : closed;
    }
    return count;
}

// Is there an argument that this schema lacks?  With `listed`: that only other variants have.
static bool has_foreign(json_t *schema, json_t *listed, json_t *arguments)
{
    json_t *own = json_object_get(schema, "properties"), *item;
    const char *name;
    json_object_foreach (arguments, name, item) {
        if (!json_object_get(own, name) &&
            (!listed || json_object_get(json_object_get(listed, "properties"), name)))
            return true;
    }
    return false;
}

// Explains arguments that fit no variant, by the listed schema unless an unlisted variant is
// closer.
static void explain(const struct tool_entry *entry, const struct tool_variant *best, size_t fewest,
                    json_t *arguments, char *ret_message, size_t cap)
{
    bool listed = schema_check(entry->input, arguments, ret_message, cap) == 0;
    size_t problems = listed ? SIZE_MAX : count_problems(entry->input, arguments);
    // With as many problems, the variant that was meant has the better bounds.
    if (problems < fewest || (problems == fewest && has_foreign(best->input, NULL, arguments)))
        return;
    const char *lead = listed && has_foreign(best->input, entry->input, arguments)
                           ? "these arguments are not taken together: "
                           : "";
    int n = snprintf(ret_message, cap, "%s", lead);
    if (n >= 0 && (size_t)n < cap)
        (void)schema_check(best->input, arguments, ret_message + n, cap - (size_t)n);
}

const struct mcp_tool *tool_variants_choose(const struct tool_entry *entry, json_t *arguments,
                                            char *ret_message, size_t cap)
{
    const struct tool_variant *best = &entry->variants[0];
    if (schema_check(best->input, arguments, ret_message, cap) == 0)
        return best->tool;
    if (entry->count == 1)
        return NULL;
    size_t fewest = count_problems(best->input, arguments);
    for (size_t i = 1; i < entry->count; i++) {
        const struct tool_variant *v = &entry->variants[i];
        if (schema_check(v->input, arguments, ret_message, cap) == 0)
            return v->tool;
        size_t count = count_problems(v->input, arguments);
        if (count < fewest) {
            fewest = count;
            best = v;
        }
    }
    explain(entry, best, fewest, arguments, ret_message, cap);
    return NULL;
}
