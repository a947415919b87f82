// SPDX-License-Identifier: Apache-2.0
//
// openapi_answers: the objects that the API answers with, as a table; see openapi.h.  Pure.

#include "rest/openapi_answers.h"

#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"
#include "rest/openapi.h"

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
        {"error", "ExecutionError?", "the exception that ended the code"},
        {"display", "[object]", "displayed values: objects by MIME type; pictures are base64"},
        {"display_omitted", "integer", "-further displayed values, beyond the limits"},
        {"display_value", "integer", "-which of them is the value of the last expression"},
        {"display_originals", "[object]", "-pictures before they were made smaller, by MIME type; "
            "item: which of display"},
        {"files", "[FileInfo]", "new and changed files"},
        {"files_omitted", "integer", "-further files, beyond the limit"},
        {"files_odd", "integer", "-new names that are not regular files, or not text"},
        {"files_error", "string", "-why files were not stored"},
        {"variables", "[VariableChange]", "-names that were added, changed or removed"},
        {"variables_omitted", "integer", "-further names, beyond the limit"},
        {"usage", "Usage", "what it used"},
        {"network", "any", "\"off\", or the rules in force: allow and deny"},
        {"network_error", "string", "-why usage.network is unknown"},
        {"security_events", "[SecurityEvent]", "denied attempts of the code"},
        {"security_events_omitted", "integer", "-number of further events"},
        {"security_observed", "[string]", "kinds of events that are observed: syscalls, network, "
            "imports"},
        {"violations", "[Violation]", "-what the policy does not allow, when the phase is "
            "security_check"},
        {"isolation", "object", "state of each isolation layer"},
        {"truncated", "Truncated", "streams that were shortened"},
        {"limit", "Limit?", "the limit that the run met"},
        {"environment", "Interpreter", "the interpreter"},
        {"execution_count", "integer", "-number of runs in the session so far"},
        {"checkpoint", "Checkpoint", "-state of the checkpoint of this run"},
        {"session", "string", "-handle of the session"},
        {"session_name", "string?", "-its name"},
        {"session_state", "string", "-open, new (opened by this run) or lost (ended with it)"},
        {"fork", "string", "-handle of the new session, of a fork"},
        {"hint", "string?", "what to do next"}}},
    {"ExecutionError", "The exception that ended the code", {
        {"type", "string", "its class"},
        {"message", "string", "its text"},
        {"line", "integer?", "line of the code"},
        {"column", "integer?", "column of the code, from 1"},
        {"code_line", "string?", "that line"},
        {"traceback", "[Frame]", "outermost first"},
        {"text", "string?", "the traceback as Python prints it"},
        {"errno", "integer?", "of an OSError"}}},
    {"Frame", "An entry of a traceback", {
        {"file", "string", "-name of the file; <code> is the code of the run"},
        {"line", "integer?", "-where"},
        {"column", "integer?", "-where in the line, from 1"},
        {"function", "string", "-name of the function"},
        {"code_line", "string?", "-that line"}}},
    {"VariableChange", "A global name of the code that the run changed", {
        {"name", "string", "its name"},
        {"change", "string", "added, changed or removed"},
        {"type", "string", "-class of its value"},
        {"shape", "[integer]", "-of an array or a table"},
        {"length", "integer", "-of a value that has one"},
        {"text", "string", "-of a short value"}}},
    {"Usage", "What an execution used; null: the kernel did not say", {
        {"wall_ms", "number?", "time of the code"},
        {"queue_ms", "number?", "wait for a free box"},
        {"start_ms", "number?", "making of a box, when none was ready"},
        {"cpu_user_ms", "number?", "processor time in the code"},
        {"cpu_system_ms", "number?", "processor time in the kernel"},
        {"peak_memory_bytes", "integer?", "most memory at one time"},
        {"processes", "integer?", "most processes at one time"},
        {"output_bytes", "integer?", "output, kept or not"},
        {"network", "NetworkUsage?", "-where it had one; null: the broker did not say"}}},
    {"NetworkUsage", "What an execution used of the network", {
        {"connections", "integer", "how many"},
        {"requests", "integer", "how many"},
        {"bytes_up", "integer", "sent"},
        {"bytes_down", "integer", "received"},
        {"hosts", "[object]", "host, port, connections, bytes_up, bytes_down of each"},
        {"hosts_omitted", "integer", "-further hosts"}}},
    {"Truncated", "Streams that were shortened", {
        {"stdout", "Kept", "-standard output"},
        {"stderr", "Kept", "-standard error"}}},
    {"Kept", "How much of a stream was kept", {
        {"kept", "integer", "bytes in the answer"},
        {"total", "integer", "bytes that the code wrote"}}},
    {"Limit", "The limit that a run met", {
        {"name", "string", "wall, cpu, memory, processes, scratch, inodes, files, file-size or "
            "output"},
        {"value", "integer", "how much was allowed"},
        {"unit", "string", "of the value"}}},
    {"Interpreter", "The interpreter that ran the code", {
        {"python", "string", "its path"},
        {"version", "string", "its version"},
        {"preloaded", "[string]", "modules that were imported ahead"},
        {"preload_failed", "[any]", "modules that could not be"}}},
    {"Checkpoint", "State of a checkpoint", {
        {"state", "string", "-what became of it"},
        {"reason", "string", "-why it could not be made"},
        {"name", "string", "-its name"},
        {"kept", "integer", "-how many are kept"},
        {"dropped", "integer", "-how many were dropped"},
        {"available", "integer", "-how many can be returned to"}}},
    {"Refusal", "Why a call or an item was not done", {
        {"code", "string", "stable code"},
        {"message", "string", "a sentence for people"},
        {"hint", "string", "-what to do next"}}},
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
        {"offset", "integer", "-of a background execution: where the next line begins"},
        {"image", "string", "-a picture, base64"},
        {"format", "string", "-png, jpeg or svg"},
        {"display", "object", "-other representations of the displayed value, by MIME type"},
        {"error", "string", "-the error in one line"},
        {"input_request", "object", "-prompt: the code of an interactive run waits in input()"},
        {"traceback", "[string]", "-lines of the traceback"},
        {"file", "FileInfo", "-a new or changed file"},
        {"verdict", "string", "-how it ended"},
        {"success", "boolean", "-whether the verdict is ok"},
        {"execution_id", "string", "-unique id of this execution"},
        {"session", "string", "-handle of the session"},
        {"execution", "Execution", "-the whole object"}}},
    {"Background", "State of a background execution", {
        {"execution_id", "string", "its id"},
        {"state", "string", "running, finished, or failed: it could not run"},
        {"created_at", "string", "time"},
        {"elapsed_ms", "number", "since then, or until it ended"},
        {"output_offset", "integer", "bytes of output so far"},
        {"session", "string", "-handle of the session"},
        {"verdict", "string", "-how it ended"},
        {"execution", "Execution", "-the whole object, when it has ended"},
        {"error", "Refusal", "-why it could not run"},
        {"webhook", "WebhookState", "-the call to the webhook"}}},
    {"WebhookState", "State of the call to a webhook", {
        {"state", "string", "waiting, calling, delivered or failed"},
        {"id", "string", "-its header Webhook-Id"},
        {"status", "integer", "-of the receiver's answer"},
        {"attempts", "integer", "-how many"},
        {"error", "string", "-why it failed"}}},
    {"Backgrounds", "Background executions of the caller", {
        {"executions", "[Background]", "oldest first"},
        {"total", "integer", "how many"}}},
    {"ExecutionRemoved", "", {
        {"execution_id", "string", "its id"},
        {"cancelled", "boolean", "it was running and is being ended; its state follows"},
        {"deleted", "boolean", "it had ended, and its result is forgotten"}}},
    {"BatchItem", "The result of an item of a batch", {
        {"index", "integer", "position in the request"},
        {"id", "string?", "what the caller calls it"},
        {"test", "integer", "-position in its tests"},
        {"passed", "boolean", "the verdict is ok, and the output is right, where there is a test"},
        {"checker", "object", "-how the checker ended: verdict, result, message"},
        {"verdict", "string", "how it ended; lost, with an error: it did not run"},
        {"success", "boolean", "whether the verdict is ok"},
        {"execution_id", "string", "-unique id of this execution"},
        {"execution", "Execution", "-the whole object"},
        {"error", "Refusal", "-why it did not run; then there is no execution"}}},
    {"BatchMessage", "A line of the stream of a batch: a BatchItem, or, in the last line, the "
        "totals", {
        {"index", "integer", "-position in the request"},
        {"id", "string?", "-what the caller calls it"},
        {"test", "integer", "-position in its tests"},
        {"checker", "object", "-how the checker ended: verdict, result, message"},
        {"verdict", "string", "-how it ended"},
        {"success", "boolean", "-whether the verdict is ok"},
        {"execution_id", "string", "-unique id of this execution"},
        {"execution", "Execution", "-the whole object"},
        {"error", "Refusal", "-why it did not run; then there is no execution"},
        {"passed", "any", "-whether it passed; in the last line: how many did"},
        {"done", "boolean", "-of the last line: true"},
        {"total", "integer", "-how many runs there were"},
        {"succeeded", "integer", "-how many of them are ok"},
        {"failed", "integer", "-how many did not pass"},
        {"p50_ms", "number?", "-wall time of a run, the median"},
        {"p99_ms", "number?", "-the same, what 99 % do not exceed"},
        {"verdicts", "object", "-how many of each verdict"},
        {"wall_ms", "number", "-how long it took"}}},
    {"Batch", "The results of a batch", {
        {"results", "[BatchItem]", "in the order of the request, or as they finished"},
        {"done", "boolean", "true"},
        {"total", "integer", "how many runs there were"},
        {"succeeded", "integer", "how many of them are ok"},
        {"passed", "integer", "how many are ok, with the right output where there is a test"},
        {"failed", "integer", "how many are not"},
        {"p50_ms", "number?", "wall time of a run, the median"},
        {"p99_ms", "number?", "the same, what 99 % do not exceed"},
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
    {"FileInfo", "A file", {
        {"path", "string", "below /mnt/data"},
        {"size", "integer", "bytes"},
        {"mime_type", "string", "by its name or its first bytes"},
        {"modified_at", "string", "-time"},
        {"uri", "string?", "name of it as an MCP resource"},
        {"url", "string?", "link that needs no key and expires; null: the file was not stored"},
        {"error", "Refusal", "-why it was not stored"}}},
    {"Files", "Files of a session", {
        {"session", "string", "handle"},
        {"live", "boolean", "false: the session has ended, and these are its artifacts"},
        {"files", "[FileInfo]", "by path"},
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

json_t *openapi_reference(const char *name)
{
    return reference(name, strlen(name));
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
    if (nullable && isupper((unsigned char)f->type[0]))
        schema = json_pack("{s:[o, {s:s}]}", "anyOf", schema, "type", "null");
    else if (nullable)
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

json_t *openapi_answers(void)
{
    json_t *schemas = json_object();
    for (size_t i = 0; i < ARRAY_LEN(answers); i++)
        (void)json_object_set_new(schemas, answers[i].name, answer_schema(&answers[i]));
    for (const struct answer *a = page_answers; a->name; a++)
        (void)json_object_set_new(schemas, a->name, answer_schema(a));
    return schemas;
}
