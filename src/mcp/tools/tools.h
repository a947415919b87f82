// SPDX-License-Identifier: Apache-2.0
//
// tools: the table of tools, tools/list and tools/call.  To add a tool, add a row to the
// table that fits (tool_execute.c, tool_session.c, ...).  A new table is named in a tool set:
// `default_set` in tools.c, or one of src/compat, which hands its sets over at the start.

#ifndef CONSTRICTOR_MCP_TOOLS_TOOLS_H
#define CONSTRICTOR_MCP_TOOLS_TOOLS_H

#include "exec/fields.h"
#include "mcp/protocol/mcp.h"

enum tool_hint {
    TOOL_READ_ONLY = 1 << 0,
    TOOL_DESTRUCTIVE = 1 << 1,
    TOOL_IDEMPOTENT = 1 << 2,
    TOOL_OPEN_WORLD = 1 << 3, // reaches the network
    TOOL_NETWORK = 1 << 4,    // reaches what the key may; the description tells
    TOOL_UNLISTED = 1 << 5,   // a variant (tool_variants.h) that is accepted but not listed
};

enum tool_task {
    TOOL_TASK_NEVER,
    TOOL_TASK_LONG,   // as a task when the client can and tool->is_long() says so
    TOOL_TASK_ALWAYS, // as a task whenever the client can
    TOOL_TASK_ONLY,   // only for clients with tasks
};

struct mcp_tool {
    const char *name, *title, *description;
    const char *input_schema;  // JSON text: root object, no root combinators, no $ref
    struct fields input;       // in place of it, when it has rows: a table
    const char *output_schema; // the same, or NULL
    unsigned hints;
    enum tool_task task;
    bool (*is_long)(const struct mcp_call *c, json_t *arguments);
    // The arguments are valid by the schema.  Ends the call with tool_answer(), mcp_fail(),
    // mcp_ask().
    void (*handle)(struct mcp_call *c, json_t *arguments);
    // Sets the bounds of the configuration in the input schema, once; or NULL.
    int (*adapt)(const struct mcp *m, json_t *input_schema);
};

enum { TOOL_SETS_MAX = 16, TOOL_TABLES_MAX = 8 };

// How a set lists a tool in few words.  The tool takes all its arguments; those that are not listed
// stand in the guide.  Of a listed property `default`, `minimum` and `maximum` are those of the
// tool.
struct tool_brief {
    const char *name, *description;
    const char *input_schema; // JSON text
};

// Tools, and the resources and prompts that belong to them.  The functions may be NULL; the arrays
// that they return are new.
struct tool_set {
    const char *name;                               // for --tools; NULL: always on
    const struct mcp_tool *tables[TOOL_TABLES_MAX]; // each ends with a row without a name
    const struct tool_brief *briefs; // the only tools of its tables that it offers; NULL: all
    bool lists_change;               // it announces changes of tools, resources and prompts
    struct tool_set *next;           // set by tool_set_register()

    json_t *(*resources)(const struct mcp_call *c); // rows of resources/list
    json_t *(*templates)(const struct mcp_call *c); // rows of resources/templates/list
    // Ends the call, or returns false: the URI is none of this set's.
    bool (*resource_read)(struct mcp_call *c, const char *uri);
    bool (*resource_exists)(struct mcp *m, const char *uri, const char *owner);
    // Values for a variable that begin with `prefix`; NULL: none of this set's.
    json_t *(*resource_complete)(struct mcp *m, const char *owner, const char *uri_template,
                                 const char *variable, const char *prefix);

    json_t *(*prompts)(const struct mcp_call *c); // rows of prompts/list
    bool (*prompt_get)(struct mcp_call *c, const char *name, json_t *arguments);
    json_t *(*prompt_complete)(const char *prompt, const char *argument, const char *prefix);
};

// Call it before mcp_open(), once for each set, in the order in which variants of one tool are
// tried (tool_variants.h).
void tool_set_register(struct tool_set *set);

int mcp_tools_open(struct mcp *m, struct err *e); // parses the schemas, once
void mcp_tools_close(struct mcp *m);

void mcp_handle_tools_list(struct mcp_call *c);
void mcp_handle_tools_call(struct mcp_call *c);

// The names of the tool sets that are switched on: array, new.
json_t *mcp_tool_sets(const struct mcp *m);
bool mcp_tool_set_is_on(const struct mcp *m, const char *name);
bool mcp_has_tool(const struct mcp *m, const char *name);
bool mcp_tool_is_brief(const struct mcp *m, const char *name); // listed and answered in few words
// The sets that are switched on, by number; NULL after the last.
const struct tool_set *mcp_tool_set(const struct mcp *m, size_t i);
// Appends rows of a set (array or NULL, taken) to a list.
void tool_set_append(json_t *list, json_t *rows);
struct tool_runs *mcp_tool_runs(const struct mcp *m); // the runs that tools started: tool_run.h

// ---- for the handlers of tools -----------------------------------------------------------------

// The arguments of a call, also later than in the handler; never NULL.  Borrowed.
json_t *tool_arguments(const struct mcp_call *c);

// Answers a tools/call.  Takes `content` (array of content blocks) and `structured` (object or
// NULL). Leaves out what the client's revision does not know: structuredContent before 2025-06-18,
// resource_link blocks before 2025-06-18, audio before 2025-03-26.
void tool_answer(struct mcp_call *c, json_t *content, json_t *structured, bool is_error);
// The same, not sent: new, NULL when memory is out.
json_t *tool_result(const struct mcp_call *c, json_t *content, json_t *structured, bool is_error);
// A tool error that a model can act on: isError, one text block of the message, "hint: ..." and
// "code: ...", and structuredContent {"error": {"code", "message", "hint"}} when the tool has no
// output schema.
void tool_error(struct mcp_call *c, const char *code, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

json_t *tool_text(const char *text); // a text block
json_t *tool_text_n(const char *text, size_t length);
json_t *tool_image(const char *base64, const char *mime_type); // an image block
json_t *tool_link(const char *uri, const char *name, const char *mime_type, json_int_t size);

#endif
