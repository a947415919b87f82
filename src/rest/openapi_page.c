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
    {0},
};
// clang-format on
