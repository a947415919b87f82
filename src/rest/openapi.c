// SPDX-License-Identifier: Apache-2.0
//
// openapi: see openapi.h.  Pure; called once by rest/rest.c, and by the unit tests.

#include "rest/openapi.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "exec/forms.h"
#include "http/problem.h"
#include "rest/environments.h"
#include "rest/keys.h"

// ---- routes -------------------------------------------------------------------------------------

static const char *method_name(enum http_method method)
{
    switch (method) {
    case HTTP_GET: return "get";
    case HTTP_POST: return "post";
    case HTTP_DELETE: return "delete";
    case HTTP_PUT: return "put";
    case HTTP_HEAD: return "head";
    }
    return "get";
}

static json_t *parameter(const char *name, const char *in, bool required, const char *help,
                         json_t *schema)
{
    return json_pack("{s:s, s:s, s:b, s:s, s:o}", "name", name, "in", in, "required", required,
                     "description", help, "schema", schema);
}

static json_t *query_parameter(const struct field *f, const struct config *c)
{
    struct field plain = *f;
    plain.required = true; // a query has no null
    return parameter(f->name, "query", f->required, f->help, field_schema(&plain, FIELDS(NULL), c));
}

static json_t *parameters(const struct rest_route *r, const struct config *c)
{
    static const struct {
        const char *name, *help, *pattern; // with the bounds
    } of_path[] = {
        {"id", "handle or name of a session", FORM_SESSION_GIVEN},
        {"execution", "id of a background execution", FORM_SESSION_GIVEN},
        {"name", "name of an environment", FORM_ENV},
        {"job", "id of a job", FORM_JOB},
        {"path",
         "path below /mnt/data; slashes need no encoding; at most 1024 bytes of UTF-8, 255 for "
         "each name",
         FORM_FILE_ONE},
    };
    json_t *list = json_array();
    char part[16];
    for (size_t i = 0; i < ARRAY_LEN(of_path); i++) {
        snprintf(part, sizeof part, "{%s}", of_path[i].name);
        if (strstr(r->path, part))
            (void)json_array_append_new(list,
                                        parameter(of_path[i].name, "path", true, of_path[i].help,
                                                  json_pack("{s:s, s:s}", "type", "string",
                                                            "pattern", of_path[i].pattern)));
    }
    for (const struct field *f = r->query; f && f->name; f++)
        (void)json_array_append_new(list, query_parameter(f, c));
    return list;
}

static json_t *content(const char *type, json_t *schema)
{
    return json_pack("{s:{s:o}}", type, "schema", schema);
}

static json_t *bytes_schema(void)
{
    return json_pack("{s:s, s:s}", "type", "string", "format", "binary");
}

static json_t *request_body(const struct rest_route *r, const struct config *c)
{
    json_t *kinds = r->body == BODY_RAW
                        ? content("application/octet-stream", bytes_schema())
                        : content("application/json", fields_schema(FIELDS(r->fields), c));
    if (r->handle == rest_batch)
        (void)json_object_update_new(
            kinds,
            content("application/x-ndjson", json_pack("{s:s, s:s}", "type", "string", "description",
                                                      "a line of JSON for each item; the fields "
                                                      "beside 'items' are in the query")));
    return json_pack("{s:b, s:o}", "required", r->body == BODY_JSON, "content", kinds);
}

// The schema of a line, if the answer can be a stream.
static const char *line_of(const struct rest_route *r)
{
    static const char *const lines[][2] = {{"Execution", "Message"},
                                           {"Batch", "BatchMessage"},
                                           {"Job", "Job"},
                                           {"Environment", "Job"}};
    const struct field *rows = r->fields ? r->fields : r->query;
    bool streams = rows && field_find(FIELDS(rows), "stream");
    for (size_t i = 0; streams && i < ARRAY_LEN(lines); i++)
        if (strcmp(r->answer, lines[i][0]) == 0)
            return lines[i][1];
    return NULL;
}

static json_t *answer_schema_of(const struct rest_route *r)
{
    json_t *schema = openapi_reference(r->answer);
    // With packages, the answer is the job that installs them.
    if (strcmp(r->operation, "create_environment") == 0)
        schema = json_pack("{s:[o, o]}", "anyOf", schema, openapi_reference("Job"));
    return schema;
}

static void add_streams(json_t *kinds, const char *line)
{
    (void)json_object_update_new(
        kinds, content("application/x-ndjson",
                       json_pack("{s:s, s:o}", "description", "lines, each with this object",
                                 "x-line", openapi_reference(line))));
    (void)json_object_update_new(
        kinds,
        content("text/event-stream",
                json_pack(
                    "{s:s, s:o}", "description",
                    "events, each with this object as data; for clients that prefer them in Accept",
                    "x-line", openapi_reference(line))));
}

static json_t *answer_content(const struct rest_route *r)
{
    if (r->handle == rest_get_file) { // for generators, which know no "*/*"
        json_t *kinds = content("application/octet-stream", bytes_schema());
        (void)json_object_update_new(kinds, content(r->answer, bytes_schema()));
        return kinds;
    }
    if (r->handle == rest_read_execution) {
        json_t *kinds = json_object();
        add_streams(kinds, "Message");
        return kinds;
    }
    if (strchr(r->answer, '/'))
        return content(r->answer,
                       strcmp(r->answer, "application/json") == 0 ? json_object() : bytes_schema());
    json_t *kinds = content("application/json", answer_schema_of(r));
    if (r->handle == rest_get_environment && r->query) // ?format=requirements
        (void)json_object_update_new(kinds,
                                     content("text/plain", json_pack("{s:s}", "type", "string")));
    const char *line = line_of(r);
    if (!line)
        return kinds;
    add_streams(kinds, line);
    return kinds;
}

static json_t *failure(void)
{
    return json_pack("{s:s}", "$ref", "#/components/responses/Failure");
}

static json_t *success(const struct rest_route *r)
{
    json_t *o = json_pack("{s:s, s:o}", "description", r->summary, "content", answer_content(r));
    if (r->keyed)
        (void)json_object_set_new(o, "headers",
                                  json_pack("{s:{s:s}}", "Idempotency-Replayed", "$ref",
                                            "#/components/headers/IdempotencyReplayed"));
    return o;
}

static json_t *responses(const struct rest_route *r)
{
    char status[8];
    json_t *o = json_object();
    snprintf(status, sizeof status, "%d", r->status);
    (void)json_object_set_new(o, status, success(r));
    // A stream sends its status before anything is made.
    if (r->status != 200 && line_of(r))
        (void)json_object_set_new(o, "200", success(r));
    if (strcmp(r->answer, "Job") == 0 || strcmp(r->operation, "create_environment") == 0)
        (void)json_object_set_new(o, "202",
                                  json_pack("{s:s, s:o}", "description", "It continues as a job",
                                            "content",
                                            content("application/json", openapi_reference("Job"))));
    if (r->keyed)
        (void)json_object_set_new(o, "409", failure());
    for (size_t i = 0; i < ROUTE_ERRORS_MAX && r->errors[i]; i++) {
        snprintf(status, sizeof status, "%d", r->errors[i]);
        (void)json_object_set_new(o, status, failure());
    }
    if (strcmp(r->operation, "health") == 0)
        (void)json_object_set_new(
            o, "503",
            json_pack("{s:s, s:o}", "description", "Boxes cannot be made", "content",
                      content("application/json", openapi_reference("Health"))));
    if (!r->open)
        (void)json_object_set_new(o, "401", failure());
    (void)json_object_set_new(o, "default", failure());
    return o;
}

static json_t *operation(const struct rest_route *r, const struct config *c)
{
    json_t *o = json_pack("{s:s, s:s, s:o}", "operationId", r->operation, "summary", r->summary,
                          "responses", responses(r));
    json_auto_t *list = parameters(r, c);
    if (r->keyed)
        (void)json_array_append_new(
            list, json_pack("{s:s}", "$ref", "#/components/parameters/IdempotencyKey"));
    if (json_array_size(list))
        (void)json_object_set(o, "parameters", list);
    if (r->body != BODY_NONE)
        (void)json_object_set_new(o, "requestBody", request_body(r, c));
    if (r->open)
        (void)json_object_set_new(o, "security", json_array());
    return o;
}

static json_t *paths(const struct rest_route *routes, const struct config *c)
{
    json_t *o = json_object();
    for (const struct rest_route *r = routes; r->path; r++) {
        char path[128];
        snprintf(path, sizeof path, REST_BASE "%s", r->path);
        if (!json_object_get(o, path))
            (void)json_object_set_new(o, path, json_object());
        (void)json_object_set_new(json_object_get(o, path), method_name(r->method),
                                  operation(r, c));
    }
    return o;
}

static json_t *key_parameter(void)
{
    return parameter(
        "Idempotency-Key", "header", false,
        "a string of your choice: a repeated call with the same key is not done again, and "
        "gets the first answer, for 24 hours",
        json_pack("{s:s, s:s}", "type", "string", "pattern", KEYS_FORM));
}

static json_t *header(const char *help, const char *type)
{
    return json_pack("{s:s, s:{s:s}}", "description", help, "schema", "type", type);
}

static json_t *failure_response(void)
{
    return json_pack("{s:s, s:o, s:{s:o, s:o}}", "description",
                     "The request failed and changed nothing; the object says why", "content",
                     content(PROBLEM_TYPE, openapi_reference("Problem")), "headers", "Retry-After",
                     header("of 503: seconds", "string"), "WWW-Authenticate",
                     header("of 401", "string"));
}

static json_t *components(void)
{
    json_t *schemas = openapi_answers();
    (void)json_object_set_new(schemas, "Value", form_value());
    return json_pack("{s:o, s:{s:o}, s:{s:o}, s:{s:o}, s:{s:{s:s, s:s}, s:{s:s, s:s, s:s}}}",
                     "schemas", schemas, "responses", "Failure", failure_response(), "parameters",
                     "IdempotencyKey", key_parameter(), "headers", "IdempotencyReplayed",
                     header("true: this is the stored answer of the first call", "string"),
                     "securitySchemes", "bearer", "type", "http", "scheme", "bearer", "key", "type",
                     "apiKey", "in", "header", "name", "X-API-Key");
}

// A server without keys needs no credentials.
static json_t *security(const struct config *c)
{
    if (!c->api_keys.count && !c->api_key_file[0] && !c->oauth_issuer[0])
        return json_array();
    return json_pack("[{s:[]}, {s:[]}]", "bearer", "key");
}

json_t *openapi_json(const struct rest_route *routes, const struct config *c, const char *base_url)
{
    return json_pack("{s:s, s:{s:s, s:s, s:s, s:{s:s, s:s}}, s:{s:s, s:o}, s:[{s:s}], s:o, s:o, "
                     "s:o}",
                     "openapi", "3.1.0", "info", "title", "Constrictor", "version",
                     CONSTRICTOR_VERSION, "description", "Runs Python code in isolated boxes",
                     "license", "name", "Apache 2.0", "identifier", "Apache-2.0", "externalDocs",
                     "description", "This document as a page for people", "url",
                     json_sprintf("%s/docs", base_url), "servers", "url",
                     base_url[0] ? base_url : "/", "security", security(c), "paths",
                     paths(routes, c), "components", components());
}
