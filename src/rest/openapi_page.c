// SPDX-License-Identifier: Apache-2.0
//
// openapi_page: the answers of the routes that a page needs, for openapi_answers.c.  Pure.

#include <stddef.h>

#include "rest/openapi_answers.h"

// clang-format off
const struct answer page_answers[] = {
    {"Variable", "A variable of a session", {
        {"name", "string", "its name"},
        {"type", "string", "name of its type, such as pandas.DataFrame"},
        {"shape", "any", "its lengths: [rows, columns] of a table, [items] of a list; null: "
            "it has none"},
        {"size", "integer?", "bytes in memory, without what it refers to"},
        {"preview", "string?", "a short text of the value; null: it failed, or took too long"}}},
    {"Variables", "Variables of a session", {
        {"variables", "[Variable]", "in the order in which they were defined; at most 500"},
        {"omitted", "integer", "number of further ones"},
        {"complete", "boolean", "false: it took too long, and shapes, sizes or previews are "
            "missing"}}},
    {"Completion", "A name that fits", {
        {"text", "string", "what replaces the characters from start to end"},
        {"type", "string", "function, class, module, instance, property, keyword or key"},
        {"start", "integer", "characters before it"},
        {"end", "integer", "the cursor"}}},
    {"Completions", "Names that fit at the cursor", {
        {"matches", "[Completion]", "at most 500"},
        {"cursor_start", "integer", "where the text begins that a match replaces"},
        {"cursor_end", "integer", "where it ends"},
        {"omitted", "integer", "number of further ones"},
        {"complete", "boolean", "false: it took too long"}}},
    {"Inspection", "What the name at the cursor is", {
        {"found", "boolean", "false: there is no such name, or it takes code of the session to "
            "find it"},
        {"name", "string?", "as it was found"},
        {"type", "string?", "name of its type"},
        {"signature", "string?", "of a function or class"},
        {"docstring", "string?", "its docstring"}}},
    {"Node", "A state that a session can be in: now, or at a checkpoint", {
        {"id", "string", "handle of the session, or id of the checkpoint"},
        {"parent", "string?", "id of the node before it; null: the beginning"},
        {"label", "string?", "name of the session or of the checkpoint"},
        {"kind", "string", "session (the present) or checkpoint"},
        {"session", "string", "handle of the session that it belongs to"},
        {"created_at", "string", "time"},
        {"runs", "integer", "runs before it"},
        {"code", "string?", "the beginning of the last code that led to a checkpoint"},
        {"undo", "object?", "of a checkpoint: the body for POST /sessions/{session}/undo"}}},
    {"Tree", "Checkpoints and forks of a session", {
        {"current", "string", "id of the node of the session that was asked for"},
        {"nodes", "[Node]", "of all sessions that share its box"}}},
    {"Difference", "Names, each list in order and with at most 200", {
        {"added", "[string]", "only here"},
        {"removed", "[string]", "only in the other"},
        {"changed", "[string]", "in both, and different"},
        {"omitted", "integer", "number of further names"}}},
    {"Comparison", "What differs from another session or a checkpoint", {
        {"with", "string", "handle of the other session, or id of the checkpoint"},
        {"variables", "Difference", "by name"},
        {"files", "Difference", "by path below /mnt/data"},
        {"complete", "boolean", "false: it took too long, or there are more than 1000; the lists "
            "may say too much or too little"}}},
    {"Overview", "What a server does; each list is {total, items}", {
        {"operator", "boolean", "whether this key may stop runs, close sessions, test the walls"},
        {"all", "boolean", "whether this is about all keys, or only about yours"},
        {"server", "object", "version, status, uptime, runs_max"},
        {"boxes", "object?", "of all keys: parked, live, dying; null: not shown to this "
            "key, or not known"},
        {"queue", "object", "running, waiting; waiting is null if it is not shown to this key"},
        {"runs", "object", "under way: execution_id, key, session, state, age_ms, cpu_ms, "
            "peak_memory_bytes (null: known at the end)"},
        {"recent", "object", "runs that ended: execution_id, key, session, verdict, ended_at, "
            "wall_ms, queue_ms, cpu_ms, peak_memory_bytes"},
        {"sessions", "object", "as in GET /sessions, with key and peak_memory_bytes"},
        {"environments", "object", "as in GET /environments, with key"},
        {"installs", "object", "jobs, with key"},
        {"keys", "object", "name, sessions, artifacts {files, bytes}"},
        {"verdicts", "[object]", "of the last hour, by the minute: at, verdicts {name: number}"},
        {"latency", "object", "of the last runs: runs, p50_ms, p99_ms, queue_p50_ms, queue_p99_ms"},
        {"denials", "object", "security events with their hint, execution_id, key, at"},
        {"hosts", "object", "host, port, connections, bytes_up, bytes_down, key, last_used_at"},
        {"artifacts", "object", "files, bytes, quota_bytes, and yours as items"}}},
    {"Stopped", "", {
        {"execution_id", "string", "the run"},
        {"stopped", "boolean", "true: it ends now"}}},
    {"Layer", "An isolation layer", {
        {"name", "string", "its name"},
        {"mandatory", "boolean", "whether boxes are refused without it"},
        {"state", "string", "live, partial, degraded or missing"},
        {"text", "string", "how it is done, or why not"},
        {"fix", "string", "what to do; empty: nothing"},
        {"stops", "string", "what it is for"}}},
    {"Doctor", "The isolation layers", {
        {"ok", "boolean", "all mandatory layers are live"},
        {"layers", "[Layer]", "in the order of constrictor doctor"},
        {"interpreter", "object", "of the boxes"}}},
    {"SelfTest", "Attempts to break out of a box", {
        {"ok", "boolean", "all layers and probes held"},
        {"held", "integer", "probes that held"},
        {"total", "integer", "all probes"},
        {"probes", "[object]", "name, what, held, outcome"},
        {"layers", "[object]", "as seen from inside: name, held (null: unknown), text"}}},
    {"Share", "A link to a report", {
        {"url", "string", "link that needs no key"},
        {"session", "string", "handle of the session"},
        {"expires_at", "string", "when the link ends"},
        {"runs", "integer", "runs in the report"}}},
    {"HistoryRun", "A run of a session", {
        {"number", "integer?", "its execution_count; null: it was not code"},
        {"at", "string", "when it ended"},
        {"undo", "boolean", "true: the session went back to an earlier state"},
        {"code", "string?", "what was run"},
        {"stdout", "string?", "standard output"},
        {"stderr", "string?", "standard error"},
        {"result", "string?", "text of the value of the last expression"},
        {"error", "string?", "text of the error, with its traceback"},
        {"verdict", "string", "how it ended"},
        {"pictures", "[object]", "type, data in base64"},
        {"cut", "boolean", "whether something was too long and was cut"},
        {"bytes", "integer", "what it counts in the history"}}},
    {"History", "What was run in a session", {
        {"session", "string", "its handle"},
        {"name", "string?", "the name it had last"},
        {"omitted", "integer", "earlier runs that are not kept any more"},
        {"runs", "[HistoryRun]", "the oldest first"}}},
    {"Unshared", "", {
        {"session", "string", "as given"},
        {"removed", "integer", "how many links"}}},
    {0},
};
// clang-format on
