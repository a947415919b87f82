// SPDX-License-Identifier: Apache-2.0
//
// docs: see docs.h.  Everything but the examples and the meaning of each status is read from the
// document.  SECURITY: as in report.c: every text goes through html_put(), and the policy allows
// one style and nothing else.  A client that may read the document
// may read the page.

#include "rest/docs.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "rest/html.h"
#include "rest/share.h"

static const char style[] =
    ":root{color-scheme:light dark;--dim:#565c58;--line:#d5d9d6;--code:#f1f3f2;--link:#1c6b48}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;"
    "color:#1d1f1e;background:#fff;overflow-wrap:anywhere}"
    "h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:0 0 .3rem}"
    "h3{font-size:.85rem;margin:1rem 0 .3rem;color:var(--dim)}p{margin:.3rem 0}"
    "nav,section{margin-top:1.8rem;border-top:1px solid var(--line);padding-top:1rem}"
    "code,pre{font:14px/1.45 ui-monospace,monospace}h2 code{font-size:1rem}"
    "b{font:700 .8rem ui-monospace,monospace;color:var(--link)}a{color:var(--link)}h2 "
    "a{color:inherit;text-decoration:none}"
    "pre{background:var(--code);margin:0;padding:.6rem .8rem;border-radius:6px;"
    "white-space:pre-wrap}small,i{color:var(--dim);font-size:.85rem;font-style:normal}"
    "ul{padding:0;list-style:none;margin:0}li{padding:.1rem 0}"
    "dl{display:grid;grid-template-columns:15rem 1fr;gap:.35rem 1rem;margin:0}dd{margin:0}"
    "@media(max-width:44rem){dl{display:block}dd{margin:0 0 .5rem 1rem}li small{display:block}}"
    "@media(prefers-color-scheme:dark){:root{--dim:#a5aca8;--line:#383c39;--code:#232625;"
    "--link:#6cc58d}body{color:#e2e5e3;background:#171918}}";

// What curl sends, or its further options.  Examples share a session, which that of 'execute'
// opens.
static const struct {
    const char *operation, *query, *body;
} examples[] = {
    {"execute", "", "{\"code\": \"print(6 * 7)\", \"session\": \"example\", \"stream\": false}"},
    {"start_execution", "", "{\"code\": \"print(6 * 7)\"}"},
    {"batch", "", "{\"items\": [{\"code\": \"6 * 7\"}, {\"code\": \"1 / 0\"}], \"stream\": false}"},
    {"validate", "", "{\"code\": \"import os\"}"},
    {"open_session", "", "{\"name\": \"another\"}"},
    {"answer_input", "", "{\"text\": \"yes\"}"},
    {"complete", "", "{\"code\": \"pri\"}"},
    {"inspect", "", "{\"code\": \"print\"}"},
    {"compare", "", "{\"with\": \"another\"}"},
    {"rename_session", "", "{\"name\": \"example\"}"},
    {"create_environment", "", "{\"name\": \"example\"}"},
    {"install_packages", "", "{\"packages\": \"six\"}"},
    {"remove_packages", "?packages=six", NULL},
    {"delete_artifacts", "?session=example", NULL},
    {"write_file", "", "some text"},
    {"export_environment", "", "-o example.env"},
    {"import_environment", "", "@example.env"},
};

// The table of docs/rest.md; each route says which of them it gives.
static const char *const statuses[][2] = {
    {"400",
     "bad_json, bad_value, bad_requirement, bad_file_path, source_has_nul_byte, source_not_utf8"},
    {"401", "no key, or a wrong one"},
    {"403", "network_not_allowed: more than the key or the session may reach; denied_package; "
            "other_user: a server without keys serves only the user that started it"},
    {"404", "not_found, session_not_found, file_not_found, env_not_found, job_not_found"},
    {"405", "see the header Allow"},
    {"409",
     "conflict with the present state: session_ended, with reason and ended_at; a failed job, "
     "which changed nothing: package_not_found, conflict, ...; idempotency_answer_not_kept, "
     "idempotency_key_in_use, idempotency_key_reused, input_not_wanted, job_over, "
     "restricted_missing, environment_is_base, environment_exists, env_not_ready, session_busy, "
     "session_exists, checkpoint_unavailable, not_a_regular_file, file_refused"},
    {"413", "body_too_large, too_many_values (a body has at most 100,000 JSON values), "
            "source_too_large, file_too_large"},
    {"415", "a JSON body needs Content-Type: application/json"},
    {"416", "the range is outside of the file"},
    {"429", "rate_limited: more runs per minute than --rate; try again after Retry-After"},
    {"503", "network_unavailable; busy: try again after Retry-After; boxes cannot be made (see "
            "/api/v1/health)"},
    {"507", "disk_full, quota_exceeded"},
};

static json_t *get(const json_t *o, const char *key)
{
    return json_object_get(o, key);
}

static const char *word(const json_t *o, const char *key)
{
    return json_string_value(get(o, key));
}

static void put_json(FILE *f, const json_t *value)
{
    _cleanup_free_ char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
    html_put(f, text);
}

// One type that a schema has in `type`, or all of `anyOf`: "string or array of FileInfo".
static void put_type(FILE *f, const json_t *schema)
{
    const json_t *types = get(schema, "type"), *list = get(schema, "anyOf"), *one;
    const char *reference = word(schema, "$ref"), *before = "";
    size_t i;
    if (reference)
        fprintf(f, "<a href=\"#object-%1$s\">%1$s</a>", strrchr(reference, '/') + 1);
    else if (!types && !list && get(schema, "enum"))
        put_json(f, json_array_get(get(schema, "enum"), 0));
    else if (!types && !list)
        fputs("any", f);
    json_array_foreach (list, i, one) {
        const char *name = word(one, "type");
        if (name && (strcmp(name, "null") == 0 || strcmp(name, before) == 0))
            continue;
        fputs(i ? " or " : "", f);
        put_type(f, one);
        before = name ? name : "";
    }
    for (i = 0; types && (i == 0 || i < json_array_size(types)); i++) {
        const char *name =
            json_string_value(json_is_array(types) ? json_array_get(types, i) : types);
        if (strcmp(name, "null") == 0)
            continue;
        fprintf(f, "%s%s", i ? " or " : "", name);
        if (strcmp(name, "array") == 0) {
            bool several = get(get(schema, "items"), "anyOf");
            fputs(several ? " of (" : " of ", f);
            put_type(f, get(schema, "items"));
            fputs(several ? ")" : "", f);
        }
    }
}

static void put_bounds(FILE *f, const json_t *schema)
{
    static const char *const bounds[][3] = {{"default", "default ", ""},
                                            {"minimum", "at least ", ""},
                                            {"maximum", "at most ", ""},
                                            {"minLength", "at least ", " characters"},
                                            {"maxLength", "at most ", " characters"},
                                            {"x-maximum-bytes", "at most ", " bytes"},
                                            {"minItems", "at least ", " items"},
                                            {"maxItems", "at most ", " items"},
                                            {"maxProperties", "at most ", " names"},
                                            {"enum", "one of ", ""}};
    for (size_t i = 0, n = 0; i <= ARRAY_LEN(bounds); i++) {
        const json_t *value = i < ARRAY_LEN(bounds) ? get(schema, bounds[i][0]) : NULL;
        if (value) {
            fprintf(f, "%s%s", n++ ? ", " : " <small>(", bounds[i][1]);
            put_json(f, value);
            fputs(bounds[i][2], f);
        } else if (i == ARRAY_LEN(bounds) && n)
            fputs(")</small>", f);
    }
}

static void put_row(FILE *f, const char *prefix, const char *name, const json_t *schema,
                    const char *note, const char *help)
{
    fputs("<dt><code>", f);
    html_put(f, prefix);
    html_put(f, name);
    fputs("</code> <i>", f);
    put_type(f, schema);
    fprintf(f, "%s</i></dt><dd>", note);
    html_put(f, help);
    put_bounds(f, schema);
    fputs("</dd>\n", f);
}

// The properties of an object, and those of objects in its lists.
static void put_properties(FILE *f, const char *prefix, const json_t *schema, bool request)
{
    const char *name;
    json_t *field, *one;
    json_object_foreach (get(schema, "properties"), name, field) {
        bool required = false;
        size_t i;
        json_array_foreach (get(schema, "required"), i, one)
            required |= strcmp(json_string_value(one), name) == 0;
        put_row(f, prefix, name, field,
                required == request ? (request ? ", required" : ", not always") : "",
                word(field, "description"));
        json_auto_t *inner = json_sprintf("%s%s[].", prefix, name);
        put_properties(f, json_string_value(inner), get(field, "items"), request);
    }
}

// ---- a route ------------------------------------------------------------------------------------

// With the values of the examples in place of {id} and the others.
static void put_path(FILE *f, bool reads_base, const char *path)
{
    static const char *const values[][2] = {{"execution}", "EXECUTION_ID"},
                                            {"job}", "JOB_ID"},
                                            {"path}", "data.txt"},
                                            {"name}", "example"},
                                            {"id}", "example"}};
    const char *open;
    for (; (open = strchr(path, '{')); path = strchr(open, '}') + 1) {
        html_put_bytes(f, path, (size_t)(open - path));
        for (size_t i = 0; i < ARRAY_LEN(values); i++)
            if (strncmp(open + 1, values[i][0], strlen(values[i][0])) == 0)
                html_put(f, reads_base && open[1] == 'n' ? "base" : values[i][1]);
    }
    html_put(f, path);
}

static void put_example(FILE *f, const json_t *document, const char *method, const char *path,
                        const json_t *operation)
{
    const char *name = word(operation, "operationId"), *query = "", *body = NULL,
               *base = word(json_array_get(get(document, "servers"), 0), "url");
    for (size_t i = 0; i < ARRAY_LEN(examples); i++)
        if (strcmp(examples[i].operation, name) == 0) {
            query = examples[i].query;
            body = examples[i].body;
        }
    fprintf(f, "<h3>Example</h3>\n<pre>curl -X %s '", method);
    html_put(f, strcmp(base, "/") == 0 ? "" : base);
    put_path(f, strcmp(method, "GET") == 0 && !(body && body[0] == '-'), path);
    html_put(f, query);
    fputs("'", f);
    if (json_array_size(get(document, "security")) && !get(operation, "security"))
        fputs(" \\\n     -H \"Authorization: Bearer $KEY\"", f);
    if (body && body[0] == '{')
        fputs(" \\\n     -H 'Content-Type: application/json'", f);
    if (body) {
        fputs(body[0] == '-' ? " " : " \\\n     --data-binary '", f);
        html_put(f, body);
        fputs(body[0] == '-' ? "" : "'", f);
    }
    fputs("</pre>\n", f);
}

static void put_parameters(FILE *f, const json_t *document, const json_t *operation)
{
    const json_t *list = get(operation, "parameters"), *one,
                 *body = get(get(get(get(operation, "requestBody"), "content"), "application/json"),
                             "schema");
    size_t i;
    if (json_array_size(list))
        fputs("<h3>In the address and the head</h3>\n<dl>\n", f);
    json_array_foreach (list, i, one) {
        if (get(one, "$ref"))
            one = get(get(get(document, "components"), "parameters"), "IdempotencyKey");
        json_auto_t *note = json_sprintf(", %s%s", word(one, "in"),
                                         json_is_true(get(one, "required")) ? ", required" : "");
        put_row(f, "", word(one, "name"), get(one, "schema"), json_string_value(note),
                word(one, "description"));
    }
    fputs(json_array_size(list) ? "</dl>\n" : "", f);
    if (!body)
        return;
    fputs("<h3>Fields of the body</h3>\n<dl>\n", f);
    put_properties(f, "", body, true);
    fputs("</dl>\n", f);
}

static void put_answers(FILE *f, const json_t *operation)
{
    const char *status, *type;
    json_t *answer, *kind;
    fputs("<h3>Answers</h3>\n<dl>\n", f);
    json_object_foreach (get(operation, "responses"), status, answer)
        json_object_foreach (get(answer, "content"), type, kind) {
            const json_t *line = get(get(kind, "schema"), "x-line");
            fprintf(f, "<dt><code>%s</code> <i>%s</i></dt><dd>", status, type);
            fputs(line ? "a stream, each line or event: " : "", f);
            put_type(f, line ? line : get(kind, "schema"));
            fputs("</dd>\n", f);
        }
    fputs("</dl>\n<p>Errors:", f);
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++)
        if (get(get(get(operation, "responses"), statuses[i][0]), "$ref"))
            fprintf(f, " <a href=\"#error-%s\">%s</a>", statuses[i][0], statuses[i][0]);
    fputs(" <a href=\"#errors\">or another one</a></p>\n", f);
}

// ---- the page -----------------------------------------------------------------------------------

static void put_routes(FILE *f, const json_t *document, bool whole)
{
    const char *path, *method;
    json_t *methods, *operation;
    json_object_foreach (get(document, "paths"), path, methods)
        json_object_foreach (methods, method, operation) {
            const char *id = word(operation, "operationId");
            char name[8] = "";
            for (size_t i = 0; method[i] && i + 1 < sizeof name; i++)
                name[i] = (char)toupper((unsigned char)method[i]);
            if (whole)
                fprintf(f, "<section id=\"%s\">\n<h2>", id);
            fprintf(f, "%s<a href=\"#%s\"><b>%s</b> <code>%s</code></a>%s", whole ? "" : "<li>", id,
                    name, path, whole ? "</h2>\n<p>" : " <small>");
            html_put(f, word(operation, "summary"));
            fputs(whole ? "</p>\n" : "</small></li>\n", f);
            if (!whole)
                continue;
            put_example(f, document, name, path, operation);
            put_parameters(f, document, operation);
            put_answers(f, operation);
            fputs("</section>\n", f);
        }
}

static void put_page(FILE *f, const json_t *document, const char *policy)
{
    const char *name;
    json_t *schema;
    html_begin(f, policy);
    fprintf(f,
            "REST API of Constrictor</title>\n<style>%s</style>\n<main>\n"
            "<h1>The REST API of Constrictor</h1>\n<p>Version " CONSTRICTOR_VERSION
            ", with the limits of this server. Made from "
            "<a href=\"" REST_BASE "/openapi.json\">its OpenAPI document</a>, for generators of "
            "clients. <a href=\"#objects\">Objects</a> · <a href=\"#errors\">Errors</a> · "
            "<a href=\"/\">Console</a></p>\n",
            style);
    if (json_array_size(get(document, "security")))
        fputs("<p>This server wants a key: <code>Authorization: Bearer KEY</code> or <code>"
              "X-API-Key: KEY</code>. For the examples, first <code>KEY='your key'</code>.</p>\n",
              f);
    fputs("<p>The first example opens the session that others use.</p>\n<nav><h2>Routes</h2>\n"
          "<ul>\n",
          f);
    put_routes(f, document, false);
    fputs("</ul></nav>\n", f);
    put_routes(f, document, true);
    fputs("<section id=\"errors\">\n<h2>Errors</h2>\n<p>Each has a <code>code</code> that is "
          "stable, a <code>detail</code> and a <code>hint</code>: "
          "<a href=\"#object-Problem\">Problem</a>.</p>\n<dl>\n",
          f);
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        fprintf(f, "<dt id=\"error-%s\">%s</dt><dd>", statuses[i][0], statuses[i][0]);
        html_put(f, statuses[i][1]);
        fputs("</dd>\n", f);
    }
    fputs("</dl>\n</section>\n<section id=\"objects\">\n<h2>Objects in answers</h2>\n", f);
    json_object_foreach (get(get(document, "components"), "schemas"), name, schema) {
        fprintf(f, "<h3 id=\"object-%s\">%s</h3>\n<p>", name, name);
        html_put(f, word(schema, "description"));
        fputs("</p>\n<dl>\n", f);
        put_properties(f, "", schema, false);
        fputs("</dl>\n", f);
    }
    fputs("</section>\n</main>\n", f);
}

static void serve(struct http_exchange *x, void *argument)
{
    struct rest *rest = argument;
    char policy[HTML_POLICY_MAX];
    html_policy(style, "", policy);
    if (!rest->docs) {
        FILE *f = open_memstream(&rest->docs, &rest->docs_length);
        if (f)
            put_page(f, rest->openapi_exact, policy);
        if (!f || fclose(f) != 0) {
            free(TAKE_PTR(rest->docs));
            http_reply_error(x, 503, err_code_name(ERR_SYSTEM), "try again later",
                             "the server is out of memory");
            return;
        }
    }
    rest_add_page_headers(x, policy);
    http_reply(x, 200, "text/html; charset=utf-8", rest->docs, rest->docs_length);
}

void rest_docs_open(struct rest *rest)
{
    static struct http_route routes[2];
    routes[0] = (struct http_route){"/docs", HTTP_GET | HTTP_HEAD, false, serve, rest};
    http_add_routes(rest->http, routes);
}
