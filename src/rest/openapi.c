// SPDX-License-Identifier: Apache-2.0
//
// openapi: see openapi.h.  Pure; called once by rest/rest.c, and by the unit tests.

#include "rest/openapi.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "exec/forms.h"
#include "http/problem.h"
#include "rest/environments.h"
#include "rest/keys.h"
#include "rest/openapi_answers.h"

// ---- answers ------------------------------------------------------------------------------------

// clang-format off
static const struct answer answers[] = {
    {"Problem", "What went wrong: RFC 9457", {
        {"type", "string", "urn:constrictor:problem: and the code"},
        {"title", "string", "the kind of problem in a few words"},
        {"status", "integer", "the status of the answer"},
        {"detail", "string", "what happened, and what is allowed"},
        {"instance", "string", "-path of the request"},
        {"code", "string", "stable code"},
        {"hint", "string", "-what to do next"},
        {"error", "ErrorBody", "the same in the older form"}}},
    {"ErrorBody", "", {
        {"code", "string", "stable code"},
        {"message", "string", "a sentence for people"},
        {"hint", "string", "-what to do next"},
        {"reason", "string", "-why the session ended: closed, expired, evicted, crashed, "
            "out_of_memory, ..."},
        {"ended_at", "string", "-when the session ended"}}},
    {"Execution", "How an execution ended", {
        {"execution_id", "string", "unique id of this execution"},
        {"verdict", "string", "ok, error, timeout_wall, timeout_cpu, out_of_memory, "
            "too_many_processes, "
                              "disk_full, output_limit, denied, cancelled or lost"},
        {"success", "boolean", "whether the verdict is ok"},
        {"exit_code", "integer?", "exit status of the code"},
        {"signal", "integer?", "signal that ended the code"},
        {"phase", "string", "execution, syntax_check or security_check (the policy refused the "
            "code, and nothing ran)"},
        {"stdout", "string", "standard output"},
        {"stderr", "string", "standard error"},
        {"result", "string?", "text of the value of the last expression"},
        {"result_json", "any", "-that value, if it is JSON"},
        {"error", "object?", "type, message, line, column, code_line, traceback, text"},
        {"display", "[object]", "displayed values: objects by MIME type; pictures are base64"},
        {"files", "[File]", "new and changed files"},
        {"variables", "[object]", "-names that were added, changed or removed: name, change, type, "
            "shape or length"},
        {"usage", "object", "wall_ms, queue_ms, start_ms, cpu_user_ms, cpu_system_ms, "
            "peak_memory_bytes, "
                            "processes, output_bytes; network where it had one: connections, "
                            "requests, bytes_up, "
                            "bytes_down, hosts; null when the broker did not say"},
        {"network", "any", "\"off\", or the rules in force: allow and deny"},
        {"network_error", "string", "-why usage.network is unknown"},
        {"security_events", "[SecurityEvent]", "denied attempts of the code"},
        {"security_events_omitted", "integer", "-number of further events"},
        {"security_observed", "[string]", "kinds of events that are observed: syscalls, network, "
            "imports"},
        {"violations", "[Violation]", "-what the policy does not allow, when the phase is "
            "security_check"},
        {"isolation", "object", "state of each isolation layer"},
        {"truncated", "object", "streams that were shortened: bytes kept and total"},
        {"limit", "object?", "the limit that the run met"},
        {"environment", "object", "the interpreter"},
        {"execution_count", "integer", "-number of runs in the session so far"},
        {"checkpoint", "object", "-state of the checkpoint of this run"},
        {"session", "string", "-handle of the session"},
        {"session_name", "string?", "-its name"},
        {"session_state", "string", "-open, new (opened by this run) or lost (ended with it)"},
        {"fork", "string", "-handle of the new session, of a fork"},
        {"hint", "string?", "what to do next"}}},
    {"Violation", "Something in the source that the policy does not allow", {
        {"kind", "string", "import, attribute, call, builtin, ..."},
        {"target", "string", "name of the module, attribute or function"},
        {"line", "integer?", "-where"},
        {"column", "integer?", "-where in the line, from 1"},
        {"reason", "string", "the rule of the policy"},
        {"hint", "string", "-what to do instead"},
        {"layer", "string", "-what found it: python or restricted"}}},
    {"Recommendation", "Advice about a source", {
        {"rule", "string", "stable code"},
        {"line", "integer?", "-where"},
        {"column", "integer?", "-where in the line, from 1"},
        {"message", "string", "the advice"}}},
    {"Check", "The result of a check; the source was not executed", {
        {"valid", "boolean", "no syntax error and no violation"},
        {"error", "object?", "type, message, line, offset, end_offset, text, caret, context, "
            "lines, hint; the type "
                             "ParserCrash: the source crashed the parser"},
        {"violations", "[Violation]", "what the policy does not allow"},
        {"analysis", "object", "complete, line_count, blank_lines, comment_lines, code_lines, "
            "character_count, "
                               "byte_count, estimated_complexity, complexity, functions, classes, "
                               "imports, names"},
        {"recommendations", "[Recommendation]", "advice"},
        {"policy", "object", "mode, tiers, allowed_imports: what was applied"},
        {"python", "string", "version of the interpreter that parsed it"},
        {"lint", "any", "-findings of ruff: code, line, column, message; or why there are none"}}},
    {"SecurityEvent", "A denied attempt of the code", {
        {"kind", "string", "syscall, network, filesystem, import, attribute, call, builtin, ..."},
        {"action", "string", "-resolve, connect, tls, http, quota, udp or raw"},
        {"target", "string", "host and port, or a name"},
        {"line", "integer", "-line of the code"},
        {"host", "string?", "-requested name; null: the code used an address"},
        {"address", "string?", "-address; null: only the name was resolved"},
        {"port", "integer?", "-port"},
        {"rule", "string?", "-the rule that decided, as written; null: no rule matched"},
        {"reason", "string", "-stable code: not_allowed, port_not_allowed, denied, ..."},
        {"layer", "string", "what denied it: seccomp (the kernel) or broker; reported from inside "
            "the box: box, python (policy) or restricted"},
        {"hint", "string", "what to do next"},
        {"count", "integer", "how often"}}},
    {"Message", "A line of the stream: its keys tell its kind; the last line has 'verdict' and "
        "'execution'", {
        {"text", "string", "-output, or the value of the last expression"},
        {"stream", "string", "-stdout, stderr or result"},
        {"image", "string", "-a picture, base64"},
        {"format", "string", "-png, jpeg or svg"},
        {"display", "object", "-other representations of the displayed value, by MIME type"},
        {"error", "string", "-the error in one line"},
        {"input_request", "object", "-prompt: the code of an interactive run waits in input()"},
        {"traceback", "[string]", "-lines of the traceback"},
        {"file", "File", "-a new or changed file"},
        {"verdict", "string", "-how it ended"},
        {"success", "boolean", "-whether the verdict is ok"},
        {"execution_id", "string", "-unique id of this execution"},
        {"session", "string", "-handle of the session"},
        {"execution", "Execution", "-the whole object"}}},
    {"BatchItem", "The result of an item of a batch", {
        {"index", "integer", "position in the request"},
        {"id", "string?", "what the caller calls it"},
        {"verdict", "string", "how it ended; lost: it could not run, and execution.error says why"},
        {"success", "boolean", "whether the verdict is ok"},
        {"execution_id", "string", "-unique id of this execution"},
        {"execution", "object", "-the whole object: see Execution"}}},
    {"BatchMessage", "A line of the stream of a batch: a BatchItem, or, in the last line, the "
        "totals", {
        {"index", "integer", "-position in the request"},
        {"id", "string?", "-what the caller calls it"},
        {"verdict", "string", "-how it ended"},
        {"success", "boolean", "-whether the verdict is ok"},
        {"execution_id", "string", "-unique id of this execution"},
        {"execution", "object", "-the whole object: see Execution"},
        {"done", "boolean", "-of the last line: true"},
        {"total", "integer", "-how many items there were"},
        {"succeeded", "integer", "-how many of them are ok"},
        {"failed", "integer", "-how many are not"},
        {"verdicts", "object", "-how many of each verdict"},
        {"wall_ms", "number", "-how long it took"}}},
    {"Batch", "The results of a batch", {
        {"results", "[BatchItem]", "in the order of the request, or as they finished"},
        {"done", "boolean", "true"},
        {"total", "integer", "how many items there were"},
        {"succeeded", "integer", "how many of them are ok"},
        {"failed", "integer", "how many are not"},
        {"verdicts", "object", "how many of each verdict"},
        {"wall_ms", "number", "how long it took"}}},
    {"Session", "A session", {
        {"session", "string", "handle"},
        {"session_id", "string", "the same"},
        {"name", "string?", "name that the caller chose"},
        {"state", "string", "opening, idle or busy"},
        {"is_busy", "boolean", "whether something runs in it"},
        {"execution_count", "integer", "runs so far"},
        {"waiting", "integer", "queued runs"},
        {"created_at", "string", "time"},
        {"last_used_at", "string", "time"},
        {"last_activity", "string", "the same"},
        {"expires_in_seconds", "number?", "time until an unused session ends"},
        {"checkpoint", "boolean", "whether a checkpoint is made before every run"},
        {"limits", "object", "memory_bytes, scratch_bytes, timeout, cpu_seconds, idle_timeout"},
        {"network", "any", "\"off\", or the rules of the session: allow and deny"},
        {"environment", "string", "environment of packages"},
        {"restored_files", "integer", "-files that are back, of a session that was opened again"},
        {"lost_files", "integer", "-kept files that could not be written back"},
        {"forked_from", "string", "-handle of the session that it was copied from"}}},
    {"Sessions", "Sessions of the caller", {
        {"sessions", "object", "open ones: name, or handle where there is no name -> Session"},
        {"total", "integer", "how many are open"},
        {"ended", "[object]", "sessions that ended recently, and why"}}},
    {"Closed", "", {
        {"session", "string", "handle"},
        {"closed", "boolean", "true"}}},
    {"InputTaken", "", {
        {"session", "string", "handle"},
        {"taken", "boolean", "the code reads it"}}},
    {"Interrupted", "", {
        {"session", "string", "handle"},
        {"interrupted", "boolean", "false: nothing was running"}}},
    {"File", "A file", {
        {"path", "string", "below /mnt/data"},
        {"size", "integer", "bytes"},
        {"mime_type", "string", "by its name or its first bytes"},
        {"modified_at", "string", "-time"},
        {"uri", "string?", "name of it as an MCP resource"},
        {"url", "string?", "link that needs no key and expires; null: the file was not stored"},
        {"error", "object", "-why it was not stored: code, message, hint"}}},
    {"Files", "Files of a session", {
        {"session", "string", "handle"},
        {"live", "boolean", "false: the session has ended, and these are its artifacts"},
        {"files", "[File]", "by path"},
        {"folders", "[string]", "paths"},
        {"left_out", "integer", "further files"},
        {"not_shown", "integer", "links, pipes, sockets, devices and names that are not text"}}},
    {"Deleted", "", {
        {"deleted", "integer", "how many"},
        {"path", "string", "-which"}}},
    {"Artifact", "A stored file of a run", {
        {"path", "string", "below /mnt/data"},
        {"size", "integer", "bytes"},
        {"mime_type", "string", "by its name or its first bytes"},
        {"modified_at", "string", "time"},
        {"uri", "string", "name of it as an MCP resource"},
        {"url", "string?", "link that needs no key and expires"},
        {"session", "string", "handle of the session, or execution_id of a run without a session"},
        {"execution_id", "string", "the run that wrote it"},
        {"created_at", "string", "time"},
        {"expires_at", "string", "time"}}},
    {"Artifacts", "Artifacts of the caller", {
        {"artifacts", "[Artifact]", "newest first"},
        {"left_out", "integer", "further ones"},
        {"total_bytes", "integer", "size of all"},
        {"quota_bytes", "integer", "the quota; when it is full, the oldest artifacts are "
            "removed"}}},
    {"Environment", "An interpreter and its packages", {
        {"name", "string", "its name"},
        {"python", "string", "version of the interpreter"},
        {"packages", "integer", "number of installed packages"},
        {"bytes", "integer", "size of the installed packages; other environments may share them"},
        {"created", "any", "time"},
        {"last_used", "any", "time of the last use"},
        {"state", "string", "ready, or the step that is under way"},
        {"requirements", "[string]", "-what was asked for"},
        {"lock", "[object]", "-installed packages: name, version, wheel, size"},
        {"jobs", "[any]", "-its jobs"},
        {"preload", "[string]", "-modules to import ahead of runs, as declared"},
        {"learned", "[string]", "-modules to import ahead of runs, because runs import them"},
        {"warm", "object", "-boxes that wait with these modules imported: boxes, memory_bytes, "
            "problem"}}},
    {"Environments", "Environments of the caller", {
        {"environments", "[Environment]", "by name"},
        {"total", "integer", "how many"}}},
    {"EnvironmentDeleted", "", {
        {"environment", "string", "its name"},
        {"deleted", "boolean", "true"}}},
    {"Package", "A distribution", {
        {"name", "string", "its name"},
        {"version", "string", "its version"},
        {"base", "boolean", "-whether it belongs to the interpreter"}}},
    {"Packages", "What code in an environment can import", {
        {"environment", "string", "which"},
        {"python", "string", "version of the interpreter"},
        {"packages", "[Package]", "by name"},
        {"count", "integer", "how many"}}},
    {"Job", "A change of an environment; each line of a stream is one, the last one is complete", {
        {"job", "string", "its id"},
        {"environment", "string", "the environment that it changes"},
        {"state", "string", "queued, resolving, downloading, unpacking, compiling, storing, ready, "
            "failed or cancelled"},
        {"progress", "number", "0 to 1"},
        {"elapsed_seconds", "number", "since the request"},
        {"message", "string", "-in a line of a stream: the present step"},
        {"log", "[string]", "-the last lines of its log"},
        {"requirements", "[string]", "-what was asked for"},
        {"added", "[Package]", "-packages that are new"},
        {"removed", "[Package]", "-packages that are gone"},
        {"error", "object?", "-why it failed: code, message, requirement, resolver_says, hint"}}},
    {"Health", "State of the server", {
        {"name", "string", "constrictor"},
        {"version", "string", "of the server"},
        {"status", "string", "ok, starting or unavailable"},
        {"active_sessions", "integer", "open sessions"},
        {"active_runs", "integer", "runs under way"},
        {"uptime", "integer", "seconds"},
        {"mcp_endpoint", "string", "address of MCP"},
        {"api_endpoint", "string", "address of this API"},
        {"docs", "string", "address of this document"},
        {"error", "object", "-why boxes cannot be made"}}},
};
// clang-format on

static json_t *reference(const char *name, size_t length)
{
    return json_pack("{s:o}", "$ref", json_sprintf("#/components/schemas/%.*s", (int)length, name));
}

static json_t *type_schema(const char *type, size_t length)
{
    if (type[0] == '[')
        return json_pack("{s:s, s:o}", "type", "array", "items", type_schema(type + 1, length - 2));
    if (isupper((unsigned char)type[0]))
        return reference(type, length);
    if (strncmp(type, "any", length) == 0)
        return json_object();
    return json_pack("{s:o}", "type", json_stringn(type, length));
}

static json_t *answer_field_schema(const struct answer_field *f)
{
    size_t length = strlen(f->type);
    bool nullable = f->type[length - 1] == '?';
    json_t *schema = type_schema(f->type, length - nullable);
    if (nullable)
        (void)json_object_set_new(schema, "type",
                                  json_pack("[o, s]", json_stringn(f->type, length - 1), "null"));
    (void)json_object_set_new(schema, "description", json_string(f->help + (f->help[0] == '-')));
    return schema;
}

static json_t *answer_schema(const struct answer *a)
{
    json_t *properties = json_object(), *required = json_array();
    for (const struct answer_field *f = a->fields; f->name; f++) {
        (void)json_object_set_new(properties, f->name, answer_field_schema(f));
        if (f->help[0] != '-')
            (void)json_array_append_new(required, json_string(f->name));
    }
    json_t *o = json_pack("{s:s, s:o}", "type", "object", "properties", properties);
    if (a->help[0])
        (void)json_object_set_new(o, "description", json_string(a->help));
    if (json_array_size(required))
        (void)json_object_set(o, "required", required);
    json_decref(required);
    return o;
}

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
    json_t *schema = reference(r->answer, strlen(r->answer));
    // With packages, the answer is the job that installs them.
    if (strcmp(r->operation, "create_environment") == 0)
        schema = json_pack("{s:[o, o]}", "anyOf", schema, reference("Job", 3));
    return schema;
}

static json_t *answer_content(const struct rest_route *r)
{
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
    (void)json_object_update_new(
        kinds, content("application/x-ndjson",
                       json_pack("{s:s, s:o}", "description", "lines, each with this object",
                                 "x-line", reference(line, strlen(line)))));
    (void)json_object_update_new(
        kinds,
        content("text/event-stream",
                json_pack(
                    "{s:s, s:o}", "description",
                    "events, each with this object as data; for clients that prefer them in Accept",
                    "x-line", reference(line, strlen(line)))));
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
                                            content("application/json", reference("Job", 3))));
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
                      content("application/json", reference("Health", strlen("Health")))));
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
                     content(PROBLEM_TYPE, reference("Problem", strlen("Problem"))), "headers",
                     "Retry-After", header("of 503: seconds", "string"), "WWW-Authenticate",
                     header("of 401", "string"));
}

static json_t *components(void)
{
    json_t *schemas = json_object();
    for (size_t i = 0; i < ARRAY_LEN(answers); i++)
        (void)json_object_set_new(schemas, answers[i].name, answer_schema(&answers[i]));
    for (const struct answer *a = page_answers; a->name; a++)
        (void)json_object_set_new(schemas, a->name, answer_schema(a));
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
    return json_pack("{s:s, s:{s:s, s:s, s:s, s:{s:s, s:s}}, s:[{s:s}], s:o, s:o, s:o}", "openapi",
                     "3.1.0", "info", "title", "Constrictor", "version", CONSTRICTOR_VERSION,
                     "description", "Runs Python code in isolated boxes", "license", "name",
                     "Apache 2.0", "identifier", "Apache-2.0", "servers", "url",
                     base_url[0] ? base_url : "/", "security", security(c), "paths",
                     paths(routes, c), "components", components());
}
