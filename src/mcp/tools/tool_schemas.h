// SPDX-License-Identifier: Apache-2.0
//
// tool_schemas: what the tools of tool_execute.c take and give, as JSON schemas; but execute_python
// takes what exec/execute.h says.

#ifndef CONSTRICTOR_MCP_TOOLS_TOOL_SCHEMAS_H
#define CONSTRICTOR_MCP_TOOLS_TOOL_SCHEMAS_H

#include "mcp/tools/schema_words.h"

// clang-format off

// ---- taken --------------------------------------------------------------------------------------

static const char check_input[] =
    "{\"type\": \"object\", \"properties\": {"
    "\"execution_id\": {\"type\": \"string\", \"maxLength\": 64, \"description\": \"The "
        "execution_id that "
        "execute_python returned with background=true.\"}, "
    "\"wait\": {\"type\": \"number\", \"minimum\": 0, \"maximum\": 50, \"default\": 0, "
        "\"description\": \"Seconds to wait for the end of the run.\"}"
    "}, \"required\": [\"execution_id\"], \"additionalProperties\": false}";

// ---- given --------------------------------------------------------------------------------------

#define CUT                                                                                        \
    OBJECT("\"kept\", \"total\"",                                                                  \
           FIELD("kept", INTEGER) ", " FIELD("total", INTEGER) ", "                                \
           FIELD("full_output_uri", NULLABLE(STRING)))

#define FRAME                                                                                      \
    OBJECT("\"file\"",                                                                             \
           FIELD("file", STRING) ", " FIELD("line", NULLABLE(INTEGER)) ", "                        \
           FIELD("column", NULLABLE(INTEGER)) ", " FIELD("function", STRING) ", "                  \
           FIELD("code_line", NULLABLE(STRING)))

#define PICTURE_FIELDS                                                                             \
    FIELD("mime_type", STRING) ", " FIELD("width", INTEGER) ", " FIELD("height", INTEGER) ", "     \
    FIELD("size", INTEGER)

#define SHOWN                                                                                      \
    OBJECT("\"mime_type\", \"size\"",                                                              \
           PICTURE_FIELDS ", " FIELD("uri", STRING) ", " FIELD("text", STRING) ", "                \
           FIELD("chart", ANY) ", " FIELD("chart_summary", NULLABLE(STRING)) ", "                  \
           FIELD("chart_uri", STRING) ", "                                                         \
           FIELD("original", OBJECT("\"mime_type\", \"size\"", PICTURE_FIELDS)))

// What result_json() makes, and `state`.  A run that goes on has what is required, and elapsed_ms.
const char tool_run_schema[] =
    OBJECT("\"execution_id\", \"state\", \"stdout\", \"stderr\", \"truncated\"",
        FIELD("execution_id", STRING) ", "
        FIELD("state", "{\"type\": \"string\", \"enum\": [\"running\", \"finished\"]}") ", "
        FIELD("elapsed_ms", NUMBER) ", "
        FIELD("verdict", "{\"type\": \"string\", \"enum\": [\"ok\", \"error\", \"timeout_wall\", "
              "\"timeout_cpu\", \"out_of_memory\", \"too_many_processes\", \"disk_full\", "
              "\"output_limit\", \"denied\", \"cancelled\", \"lost\"]}") ", "
        FIELD("success", BOOLEAN) ", "
        FIELD("exit_code", NULLABLE(INTEGER)) ", "
        FIELD("signal", NULLABLE(INTEGER)) ", "
        FIELD("phase", "{\"type\": \"string\", \"enum\": [\"execution\", \"syntax_check\", "
            "\"security_check\"]}") ", "
        FIELD("stdout", STRING) ", "
        FIELD("stderr", STRING) ", "
        FIELD("result", NULLABLE(STRING)) ", "
        FIELD("result_json", ANY) ", "
        FIELD("display", LIST(SHOWN)) ", "
        FIELD("display_omitted", INTEGER) ", "
        FIELD("files", LIST(OBJECT("\"path\", \"size\", \"mime_type\"", FILE_FIELDS))) ", "
        FIELD("files_omitted", INTEGER) ", "
        FIELD("files_odd", INTEGER) ", "
        FIELD("files_error", STRING) ", "
        FIELD("variables", LIST(VARIABLE)) ", "
        FIELD("variables_omitted", INTEGER) ", "
        FIELD("session", NULLABLE(STRING)) ", "
        FIELD("session_name", NULLABLE(STRING)) ", "
        FIELD("session_state", "{\"type\": \"string\", \"enum\": [\"open\", \"new\", \"lost\"]}")
            ", "
        FIELD("execution_count", INTEGER) ", "
        FIELD("checkpoint", CHECKPOINT) ", "
        FIELD("fork", STRING) ", "
        FIELD("error", NULLABLE(OBJECT("\"type\", \"message\", \"traceback\"",
            FIELD("type", STRING) ", "
            FIELD("message", STRING) ", "
            FIELD("line", NULLABLE(INTEGER)) ", "
            FIELD("column", NULLABLE(INTEGER)) ", "
            FIELD("code_line", NULLABLE(STRING)) ", "
            FIELD("traceback", LIST(FRAME)) ", "
            FIELD("text", NULLABLE(STRING)) ", "
            FIELD("errno", NULLABLE(INTEGER))))) ", "
        FIELD("usage", OBJECT("\"wall_ms\"",
            FIELD("wall_ms", NULLABLE(NUMBER)) ", "
            FIELD("queue_ms", NULLABLE(NUMBER)) ", "
            FIELD("start_ms", NULLABLE(NUMBER)) ", "
            FIELD("cpu_user_ms", NULLABLE(NUMBER)) ", "
            FIELD("cpu_system_ms", NULLABLE(NUMBER)) ", "
            FIELD("peak_memory_bytes", NULLABLE(INTEGER)) ", "
            FIELD("processes", NULLABLE(INTEGER)) ", "
            FIELD("output_bytes", NULLABLE(INTEGER)) ", "
            FIELD("network", NULLABLE(NETWORK_USAGE)))) ", "
        FIELD("network", NETWORK) ", "
        FIELD("network_error", STRING) ", "
        FIELD("security_events", LIST(SECURITY_EVENT)) ", "
        FIELD("security_events_omitted", INTEGER) ", "
        FIELD("security_observed", LIST(STRING)) ", "
        FIELD("violations", LIST(VIOLATION)) ", "
        FIELD("isolation", MAP(STRING)) ", "
        FIELD("truncated", OBJECT("",
            FIELD("stdout", CUT) ", "
            FIELD("stderr", CUT) ", "
            FIELD("result", CUT) ", "
            FIELD("result_json", CUT) ", "
            FIELD("error", CUT) ", "
            FIELD("traceback", CUT))) ", "
        FIELD("limit", NULLABLE(OBJECT("\"name\", \"value\", \"unit\"",
            FIELD("name", STRING) ", " FIELD("value", INTEGER) ", " FIELD("unit", STRING)))) ", "
        FIELD("environment", PYTHON) ", "
        FIELD("hint", NULLABLE(STRING)));

// clang-format on

#endif
