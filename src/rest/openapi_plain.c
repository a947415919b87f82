// SPDX-License-Identifier: Apache-2.0
//
// openapi_plain: the document as generators of clients understand it; see openapi.h.  The exact
// document says of each text which ones are taken: with expressions of a kilobyte that look ahead,
// with values that contain themselves, and with relations between fields.  Validators want that;
// generators stop at it, or make types that do not compile.  Pure.

#include "rest/openapi.h"

#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"

enum { PATTERN_MAX = 80, NAME_MAX_PLAIN = 64 };

// Objects in requests that get a name of their own, by the field that has a list of them.
static const char *const named[][2] = {
    {"files", "FileInput"}, {"items", "BatchEntry"}, {"tests", "TestCase"}};

// The field 'network', which is several types in one.
static const char rule_text[] =
    "{\"type\": \"object\", \"description\": \"A host that code may reach, or may not\","
    " \"required\": [\"host\"], \"properties\": {"
    " \"host\": {\"type\": \"string\"},"
    " \"port\": {\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"string\"}]},"
    " \"methods\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}},"
    " \"paths\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}}}}";
static const char rules_text[] =
    "{\"type\": \"object\", \"description\": \"What code may reach\", \"properties\": {"
    " \"allow\": {\"type\": \"array\", \"items\": {\"anyOf\": [{\"type\": \"string\"},"
    " {\"$ref\": \"#/components/schemas/NetworkRule\"}]}},"
    " \"deny\": {\"type\": \"array\", \"items\": {\"anyOf\": [{\"type\": \"string\"},"
    " {\"$ref\": \"#/components/schemas/NetworkRule\"}]}}}}";
static const char network_text[] =
    "{\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"array\", \"items\": {\"anyOf\": ["
    "{\"type\": \"string\"}, {\"$ref\": \"#/components/schemas/NetworkRule\"}]}},"
    " {\"$ref\": \"#/components/schemas/NetworkRules\"}]}";

static json_t *parse(const char *text)
{
    return json_loads(text, 0, NULL);
}

static void describe_default(json_t *schema)
{
    json_t *value = json_object_get(schema, "default"),
           *help = json_object_get(schema, "description");
    _cleanup_free_ char *text = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    if (text && help)
        (void)json_object_set_new(
            schema, "description",
            json_sprintf("%s (%s by default)", json_string_value(help), text));
    (void)json_object_del(schema, "default");
}

static void drop_null(json_t *schema, const char *key)
{
    json_t *list = json_object_get(schema, key), *item;
    for (size_t i = json_array_size(list); i-- > 0;) {
        item = json_array_get(list, i);
        const char *word =
            json_string_value(json_is_object(item) ? json_object_get(item, "type") : item);
        if (json_is_null(item) || (word && strcmp(word, "null") == 0))
            (void)json_array_remove(list, i);
    }
    if (json_is_array(list) && strcmp(key, "type") == 0 && json_array_size(list) == 1)
        (void)json_object_set(schema, key, json_array_get(list, 0));
}

static bool is_simple(const char *pattern)
{
    return strlen(pattern) <= PATTERN_MAX && !strstr(pattern, "(?");
}

static void simplify(json_t *schema, json_t *schemas);

// The items of a list become a schema with a name.
static void name_items(const char *field, json_t *schema, json_t *schemas)
{
    json_t *items = json_object_get(schema, "items");
    for (size_t i = 0; i < ARRAY_LEN(named); i++)
        if (strcmp(named[i][0], field) == 0 && json_object_get(items, "properties")) {
            (void)json_object_set(schemas, named[i][1], items);
            (void)json_object_set_new(schema, "items", openapi_reference(named[i][1]));
        }
}

static void simplify_fields(json_t *schema, json_t *schemas)
{
    const char *name;
    json_t *field;
    json_object_foreach (json_object_get(schema, "properties"), name, field) {
        simplify(field, schemas);
        name_items(name, field, schemas);
        if (strcmp(name, "network") == 0) {
            json_t *help = json_incref(json_object_get(field, "description"));
            (void)json_object_clear(field);
            (void)json_object_update_new(field, parse(network_text));
            (void)json_object_set_new(field, "description", help);
        }
    }
}

static void simplify(json_t *schema, json_t *schemas)
{
    static const char *const gone[] = {"not", "allOf", "propertyNames", "x-maximum-bytes"};
    const char *pattern = json_string_value(json_object_get(schema, "pattern"));
    json_t *each = json_object_get(schema, "additionalProperties"), *item;
    size_t i;
    describe_default(schema);
    for (i = 0; i < ARRAY_LEN(gone); i++)
        (void)json_object_del(schema, gone[i]);
    if (pattern && !is_simple(pattern))
        (void)json_object_del(schema, "pattern");
    drop_null(schema, "type");
    drop_null(schema, "enum");
    drop_null(schema, "anyOf");
    const char *type = json_string_value(json_object_get(schema, "type"));
    if (type && strcmp(type, "boolean") == 0)
        (void)json_object_del(schema, "enum");
    if (json_object_get(each, "$ref")) // of any value
        (void)json_object_set_new(schema, "additionalProperties", json_object());
    else if (json_is_object(each))
        simplify(each, schemas);
    if (json_is_object(item = json_object_get(schema, "items")))
        simplify(item, schemas);
    json_array_foreach (json_object_get(schema, "anyOf"), i, item)
        simplify(item, schemas);
    simplify_fields(schema, schemas);
}

// "open_session" -> "OpenSessionRequest"
static json_t *name_of_request(const char *operation)
{
    char name[NAME_MAX_PLAIN];
    size_t n = 0;
    for (bool up = true; *operation && n + 1 < sizeof name; operation++) {
        if (*operation == '_') {
            up = true;
            continue;
        }
        name[n++] = (char)(up ? toupper((unsigned char)*operation) : *operation);
        up = false;
    }
    name[n] = '\0';
    return json_sprintf("%sRequest", name);
}

// A generated type whose answer is a stream or an object has to say which.
static void require_stream(json_t *body)
{
    const char *help = json_string_value(json_object_get(
        json_object_get(json_object_get(body, "properties"), "stream"), "description"));
    if (help && strncmp(help, "true (default)", 14) == 0)
        (void)json_array_append_new(json_object_get(body, "required"), json_string("stream"));
}

// One type for each answer: of several, types of generators are all at once.  A stream is named
// beside it.
static void simplify_answers(json_t *answers)
{
    static const char *const others[] = {"application/x-ndjson", "text/event-stream", "text/plain",
                                         "*/*"};
    const char *status;
    json_t *answer;
    json_object_foreach (answers, status, answer) {
        json_t *kinds = json_object_get(answer, "content"), *kind;
        for (size_t i = 0; i < ARRAY_LEN(others) && json_object_size(kinds) > 1; i++) {
            if ((kind = json_object_get(kinds, others[i])) && json_object_get(kind, "schema"))
                (void)json_object_set(answer, "x-stream",
                                      json_object_get(json_object_get(kind, "schema"), "x-line"));
            (void)json_object_del(kinds, others[i]);
        }
    }
}

static void simplify_operation(json_t *operation, json_t *schemas)
{
    json_t *kinds = json_object_get(json_object_get(operation, "requestBody"), "content"),
           *kind = json_object_get(kinds, "application/json"),
           *body = json_object_get(kind, "schema"), *parameter;
    size_t i;
    simplify_answers(json_object_get(operation, "responses"));
    if (json_object_size(kinds) > 1)
        (void)json_object_del(kinds, "application/x-ndjson");
    json_array_foreach (json_object_get(operation, "parameters"), i, parameter)
        if (json_object_get(parameter, "schema"))
            simplify(json_object_get(parameter, "schema"), schemas);
    if (!body)
        return;
    simplify(body, schemas);
    require_stream(body);
    json_auto_t *name =
        name_of_request(json_string_value(json_object_get(operation, "operationId")));
    (void)json_object_set(schemas, json_string_value(name), body);
    (void)json_object_set_new(kind, "schema", openapi_reference(json_string_value(name)));
}

json_t *openapi_plain(const json_t *exact)
{
    json_t *o = json_deep_copy(exact), *components = json_object_get(o, "components"),
           *schemas = json_object_get(components, "schemas"), *path, *operation;
    const char *key;
    (void)json_object_del(schemas, "Value");
    (void)json_object_set_new(schemas, "NetworkRule", parse(rule_text));
    (void)json_object_set_new(schemas, "NetworkRules", parse(rules_text));
    json_object_foreach (json_object_get(components, "parameters"), key, path)
        simplify(json_object_get(path, "schema"), schemas);
    json_object_foreach (json_object_get(o, "paths"), key, path) {
        const char *method;
        json_object_foreach (path, method, operation)
            simplify_operation(operation, schemas);
    }
    return o;
}
