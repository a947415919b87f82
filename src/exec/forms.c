// SPDX-License-Identifier: Apache-2.0
//
// forms: see forms.h.

#include "exec/forms.h"

#include <stdint.h>

#include "env/envs.h"
#include "files/scratch.h"
#include "files/store.h"
#include "net/rule.h"
#include "session/session.h"

// The numbers in the expressions.
_Static_assert(SESSION_NAME_CHARACTERS == 128, "FORM_SESSION");
_Static_assert(ENV_NAME_MAX == 64, "FORM_ENV");
_Static_assert(SCRATCH_NAME_MAX == 255 && SCRATCH_PATH_MAX == 1024, "FORM_FILE");
_Static_assert(STORE_PATH_MAX == 1024, "FORM_ARTIFACT");
_Static_assert(NET_METHOD_MAX == 32 && NET_PATH_MAX >= 170, "rule_object");

// The bounds are in the expression, too.
static json_t *text(const char *pattern)
{
    return json_pack("{s:s, s:s}", "type", "string", "pattern", pattern);
}

static json_t *list(json_t *items, size_t least, size_t most)
{
    return json_pack("{s:s, s:o, s:I, s:I}", "type", "array", "items", items, "minItems",
                     (json_int_t)least, "maxItems", (json_int_t)most);
}

// ---- requirements -------------------------------------------------------------------------------

// PEP 508 with the versions of PEP 440, as they are mostly written; other blanks and more of
// markers are taken, too. Bounded, so that one is never too long.
#define DIGITS "[0-9]{1,8}"
#define RELEASE DIGITS "(?:\\." DIGITS "){0,3}"
#define SUFFIX "(?:(?:a|b|rc|\\.post|\\.dev)[0-9]{1,3})?"
#define CLAUSE                                                                                     \
    "(?:[=!]=" RELEASE "(?:\\.\\*|\\+[a-z0-9]{1,12})?|[=!<>]=" RELEASE SUFFIX "|[<>]" RELEASE      \
    "|~=" DIGITS "(?:\\." DIGITS "){1,2})"
#define MARKER "(?:; ?(?:python_version|sys_platform|platform_machine) ?[=!]= ?'[a-z0-9_.]{1,12}')?"
#define REQUIREMENT                                                                                \
    FORM_PACKAGE "(?:\\[[A-Za-z0-9]{1,20}(?:,[A-Za-z0-9]{1,20}){0,2}\\])?(?: ?" CLAUSE             \
                 "(?:," CLAUSE "){0,2})?" MARKER

json_t *form_requirements(const struct config *c, bool required, const char *help)
{
    // Where addresses are allowed a requirement is more than can be said here.
    bool plain = c->allow_urls.count == 0;
    json_t *one = text(plain ? "^" REQUIREMENT "$" : "^[ -~]+$"),
           *several =
               text(plain ? "^(?:" REQUIREMENT "(?:, ?| )){0,9}" REQUIREMENT "$" : "^[ -~]+$");
    json_t *o = json_pack("{s:[o, o], s:s}", "anyOf", several, list(one, 1, ENV_REQUIREMENTS_MAX),
                          "description", help);
    if (o && !required)
        (void)json_array_append_new(json_object_get(o, "anyOf"),
                                    json_pack("{s:s}", "type", "null"));
    return o;
}

// ---- network ------------------------------------------------------------------------------------

#define LABEL "[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,30}[A-Za-z0-9_])?"
#define LAST "[A-Za-z](?:[A-Za-z0-9-]{0,30}[A-Za-z])?"
#define NAME "(?:\\*\\.)?(?:" LABEL "\\.){0,4}" LAST "\\.?"
#define BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define V4                                                                                         \
    "(?:" BYTE "(?:\\." BYTE "){3}|0\\.0\\.0\\.0/0|" BYTE "\\.0\\.0\\.0/8|" BYTE "\\." BYTE        \
    "\\.0\\.0/16|" BYTE "\\." BYTE "\\." BYTE "\\.0/24)"
#define HEX "[0-9a-f]{1,4}"
#define V6 "(?:" HEX "(?::" HEX "){7}|" HEX "(?::" HEX "){0,2}::" HEX "(?::" HEX "){0,2})"
#define NUMBER "(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3})"
#define PORTS "(?:" NUMBER "|[1-9][0-9]{0,2}-[1-9][0-9]{3}|[1-9][0-9]{3}-[1-5][0-9]{4})"
#define PLACE "(?:\\*|" NAME "|" V4 ")"
#define RULE "^(?:" PLACE "(?::" PORTS ")?|" V6 "|\\[" V6 "\\](?::" PORTS ")?)$"

static json_t *rule_object(bool bounds)
{
    json_t *port =
        json_pack("{s:[{s:s, s:i, s:i}, {s:s, s:s}]}", "anyOf", "type", "integer", "minimum", 1,
                  "maximum", UINT16_MAX, "type", "string", "pattern", "^" PORTS "$");
    json_t *properties =
        json_pack("{s:o, s:o}", "host", text("^(?:" PLACE "|" V6 ")$"), "port", port);
    if (properties && bounds)
        (void)json_object_update_new(
            properties,
            json_pack(
                "{s:o, s:o}", "methods",
                list(text("^[A-Z0-9!#$%&'*+.^_`|~-]{1,32}$"), 1, NET_METHODS_MAX), "paths",
                list(text("^(?:/[A-Za-z0-9_*-]{1,20}){1,8}/?$|^/$|^\\*$"), 1, NET_PATHS_MAX)));
    return json_pack("{s:s, s:o, s:[s], s:b}", "type", "object", "properties", properties,
                     "required", "host", "additionalProperties", 0);
}

static json_t *rules(bool bounds)
{
    return list(json_pack("{s:[o, o]}", "anyOf", text(RULE), rule_object(bounds)), 0,
                NET_RULES_MAX);
}

json_t *form_network(const char *help)
{
    // What is denied is denied of something.
    json_t *both = json_pack("{s:s, s:{s:o, s:o}, s:[s], s:b}", "type", "object", "properties",
                             "allow", rules(true), "deny", rules(false), "required", "allow",
                             "additionalProperties", 0),
           *none = json_pack("{s:s, s:{s:{s:s, s:i}}, s:b}", "type", "object", "properties", "deny",
                             "type", "array", "maxItems", 0, "additionalProperties", 0);
    return json_pack("{s:[{s:[s, b, n]}, o, o, o], s:s}", "anyOf", "enum", "off", 0, rules(true),
                     both, none, "description", help);
}

// ---- values and files ---------------------------------------------------------------------------

json_t *form_value(void)
{
    return json_pack("{s:s, s:[s, s, s, s, s, s], s:I, s:I, s:{s:s}, s:{s:s}, s:{s:s}}",
                     "description", "any JSON", "type", "null", "boolean", "number", "string",
                     "array", "object", "minimum", (json_int_t)INT64_MIN, "maximum",
                     (json_int_t)INT64_MAX, "propertyNames", "pattern", FORM_NO_NUL,
                     "additionalProperties", "$ref", "#/components/schemas/Value", "items", "$ref",
                     "#/components/schemas/Value");
}

// One of the names of the text, as text or as base64.
static json_t *body_of(const char *name, const char *other, bool coded)
{
    json_t *body = coded ? json_pack("{s:s, s:s}", "type", "string", "pattern", FORM_BASE64)
                         : json_pack("{s:s}", "type", "string"),
           *encoding = coded ? json_pack("{s:[s]}", "enum", "base64")
                             : json_pack("{s:[s, s, n]}", "enum", "utf-8", "text");
    json_t *o =
        json_pack("{s:[s], s:{s:o, s:{s:s}, s:{s:s}, s:o}}", "required", name, "properties", name,
                  body, other, "type", "null", "base64", "type", "null", "encoding", encoding);
    if (o && coded)
        (void)json_array_append_new(json_object_get(o, "required"), json_string("encoding"));
    return o;
}

json_t *form_file_body(void)
{
    json_t *base64 =
        json_pack("{s:[s], s:{s:{s:s}, s:{s:s}, s:{s:s}}}", "required", "base64", "properties",
                  "base64", "type", "string", "text", "type", "null", "content", "type", "null");
    return json_pack("{s:[o, o, o, o, o]}", "anyOf", body_of("text", "content", false),
                     body_of("text", "content", true), body_of("content", "text", false),
                     body_of("content", "text", true), base64);
}

json_t *form_answer(void)
{
    return json_pack("{s:[{s:[s], s:{s:{s:s}}}, {s:[s], s:{s:{s:b}}}]}", "anyOf", "required",
                     "text", "properties", "text", "type", "string", "required", "end",
                     "properties", "end", "const", true);
}

json_t *form_open_imports(void)
{
    return json_pack("{s:[{s:{s:{s:s}}}, {s:{s:{s:[s, s, n]}}}]}", "anyOf", "properties",
                     "allowed_imports", "type", "null", "properties", "policy", "enum", "guarded",
                     "restricted");
}
