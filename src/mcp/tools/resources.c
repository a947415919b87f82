// SPDX-License-Identifier: Apache-2.0
//
// resources: see resources.h.  The list holds fixed resources and the files of the caller's
// key; outputs of runs are found by their template.

#include "mcp/tools/resources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/utf8.h"
#include "http/mime.h"
#include "mcp/protocol/identity.h"
#include "mcp/tools/answer.h"
#include "mcp/tools/file_resources.h"
#include "mcp/tools/outputs.h"
#include "mcp/tools/tool_run.h"
#include "mcp/tools/tool_shared.h"
#include "net/policy.h"
#include "json/encode.h"

enum {
    COMPLETIONS_MAX = 100,
    GUIDE_TTL_MS = 3600 * 1000,
    INFO_TTL_MS = 5000,
    LIST_TTL_MS = 1000, // files come and go
};

// The guide: each part for servers that have a tool, so that it names nothing that is not there.
static const struct {
    const char *tool; // NULL: for all
    const char *text;
} guide[] = {
    {NULL,
     "# Running Python here\n"
     "\n"
     "`execute_python` runs Python code in an isolated box and returns its output, the value "
     "of the last expression, errors, and the files it made.\n"
     "\n"
     "- **Fresh, or in a session.** Without `session` every call is a fresh interpreter: send "
     "complete code. With `session` (any name) variables, imports and files stay between calls, as "
     "in a notebook.\n"
     "- **Last expression.** The value of the last expression comes back as `result`; there "
     "is no need to print it.\n"
     "- **Pictures.** matplotlib figures come back as images, on `plt.show()` or at the end; "
     "`display(value)` shows images, tables and formulas. There is no need to save a plot.\n"
     "- **Files** go below `/mnt/data` (the working folder) or `/tmp`. They count as memory. "
     "Files left in `/mnt/data` are linked in the answer.\n"
     "- **No network** unless hosts are allowed: the description of `execute_python` says which; "
     "`network` asks for fewer. Code may have servers on 127.0.0.1 of its own box, unless the "
     "operator forbids it.\n"
     "- **Packages.** Code cannot install packages: `install_package` does, or `packages` of "
     "`execute_python` for one run.\n"},
    {"get_sandbox_info",
     "- `get_sandbox_info` lists the interpreter, preloaded modules, hosts and all limits.\n"},
    {NULL,
     "- **Limits** and the interpreter are in the resource `constrictor://info`.\n"
     "- **Input.** `stdin` is what `input()` and `sys.stdin` read; without it `input()` raises "
     "EOFError.\n"
     "- **Arguments** of `execute_python`: `code`, `session`, `stdin`, `timeout` (seconds), "
     "`background`, `details` (usage, ids and isolation in the answer), `files` (list of path and "
     "text or base64, written before the run), `variables` (set before the run), `args` (becomes "
     "`sys.argv[1:]`), `env`, `packages`, `environment`, `memory_mb`, `cpu_seconds`, `network`, "
     "`policy`, `allowed_imports`, `seed`, `interactive`. Each is taken also where the list of "
     "tools does not show it.\n"
     "- **Errors** name the line and give a hint. A run that was stopped still returns its "
     "output so far.\n"
     "\n"
     "## Verdicts\n"
     "\n"
     "| verdict | what happened | what helps |\n"
     "|---|---|---|\n"
     "| `ok` | it ran to the end | |\n"
     "| `error` | an exception, or a non-zero exit code | correct the named line |\n"
     "| `timeout_wall`, `timeout_cpu` | out of time | do less, or raise `timeout` / "
     "`cpu_seconds` |\n"
     "| `out_of_memory` | above the memory limit; after a MemoryError a session goes on | smaller "
     "pieces, or raise `memory_mb` |\n"
     "| `too_many_processes`, `disk_full` | another limit | fewer workers, smaller files |\n"
     "| `output_limit` | printed too much | print a summary, write details to a file |\n"
     "| `denied` | used what the policy or the kernel's filter forbids | use another way |\n"
     "| `cancelled` | the client cancelled it | |\n"
     "| `lost` | the box was ended from outside | run it again |\n"
     "\n"
     "## Sessions\n"
     "\n"
     "A session keeps variables, imports, files and history (`_`, `In`, `Out`). It runs one "
     "call at a time, in order. Errors, timeouts and interruptions keep the variables; only "
     "when its box had to be ended are they lost, and the answer says so first. A session "
     "ends after its idle time; using its name opens it again with its files, without its "
     "variables. Each answer lists new and changed variables.\n"},
    {"undo_session",
     "\n"
     "`open_session` opens one with options of its own. With its `checkpoint: true`, "
     "`undo_session` takes back runs with their variables and files; `fork_session` makes an "
     "independent copy.\n"},
    {NULL, "\n"
           "## Files\n"
           "\n"
           "`write_file` puts a file in, `list_files` and `read_file` look. "
           "Files that a run makes can be read as `sandbox://{session}/{path}` (without a session: "
           "its execution_id) and, over HTTP, downloaded by the link in the answer, for about an "
           "hour, also after the session ended.\n"},
    {"delete_file", "`delete_file` removes a file.\n"},
    {NULL,
     "\n"
     "## Long runs\n"
     "\n"
     "Many clients give up on a call after 60 seconds. For more, pass `background: true`; the "
     "answer has an `execution_id`. Call `check_run` with it and `wait: 30` until `state` is "
     "`finished`.\n"
     "\n"
     "## Long output\n"
     "\n"
     "A long answer keeps its beginning and end and says how much is missing. All of it can "
     "be read for an hour as the resource `run://{execution_id}/stdout` (or `stderr`, "
     "`result`, `error`; pictures and tables as `display-1` and so on).\n"},
};

static json_t *read_guide(struct mcp *m, const char *owner)
{
    (void)owner;
    json_t *text = json_string("");
    for (size_t i = 0; i < ARRAY_LEN(guide) && text; i++)
        if (!guide[i].tool || mcp_has_tool(m, guide[i].tool)) {
            json_t *longer = json_sprintf("%s%s", json_string_value(text), guide[i].text);
            json_decref(text);
            text = longer;
        }
    return text;
}

static json_t *read_info(struct mcp *m, const char *owner)
{
    json_auto_t *info = tool_info_json(m, owner);
    _cleanup_free_ char *text = info ? json_dumps(info, JSON_INDENT(2)) : NULL;
    return text ? json_string(text) : NULL;
}

static const struct resource {
    const char *uri, *name, *title, *description, *mime_type;
    double priority;
    bool changes;
    const char *tool; // only for servers that have this tool; NULL: always
    int64_t ttl_ms;
    json_t *(*read)(struct mcp *m, const char *owner);
} resources[] = {
    {"constrictor://guide", "guide", "How to use this server",
     "How to run code here, verdicts, long runs and long output", "text/markdown", 0.8, false,
     "check_run", GUIDE_TTL_MS, read_guide},
    {"constrictor://info", "info", "State of the server and its boxes",
     "Python version, preloaded modules, limits and isolation layers", "application/json", 0.5,
     true, NULL, INFO_TTL_MS, read_info},
};

static bool is_offered(const struct mcp *m, const struct resource *r)
{
    return !r->tool || mcp_has_tool(m, r->tool);
}

#define RUN_TEMPLATE "run://{execution_id}/{part}"

static const struct resource_template templates[] = {
    {RUN_TEMPLATE, "run-output", "Output of a run",
     "Full output of a recent run, for one hour; part is stdout, stderr, result, error, or "
     "display-1 "
     "and so on. Text that is mostly control characters is a blob of its bytes",
     NULL, 0.6},
    {FILE_URI_TEMPLATE, "file", "File of a session",
     "A file of a session or a run. session: handle or name of a session, or the execution_id of a "
     "run without one; path: below /mnt/data. Files that a run made are kept for about an hour, "
     "also "
     "after the session ended",
     NULL, 0.7},
};

// ---- lists --------------------------------------------------------------------------------------

// The start of the server, as lastModified of fixed resources.  Computed once, so that the list
// does not differ between calls.
static const char *started_at(struct mcp *m)
{
    static char text[TEXT_TIME_MAX];
    if (!text[0])
        text_format_time((int64_t)time(NULL) * 1000 - tool_runs_uptime_ms(mcp_tool_runs(m)), text);
    return text;
}

static json_t *annotations_json(const struct mcp_call *c, double priority, bool changes)
{
    json_t *o = json_pack("{s:[s, s], s:f}", "audience", "assistant", "user", "priority", priority);
    if (c->version >= MCP_2025_06_18 && !changes)
        (void)json_object_set_new(o, "lastModified", json_string(started_at(c->mcp)));
    return o;
}

// Adds fields of later revisions.
static void add_late_fields(const struct mcp_call *c, json_t *o, const char *title)
{
    if (c->version >= MCP_2025_06_18)
        (void)json_object_set_new(o, "title", json_string(title));
    if (c->version >= MCP_2025_11_25)
        (void)json_object_set_new(o, "icons", mcp_icons_json());
}

static json_t *resource_json(const struct mcp_call *c, const struct resource *r)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:o}", "uri", r->uri, "name", r->name,
                          "description", r->description, "mimeType", r->mime_type, "annotations",
                          annotations_json(c, r->priority, r->changes));
    add_late_fields(c, o, r->title);
    return o;
}

// For caches in or before the client.
static void add_cache_hints(const struct mcp_call *c, json_t *result, int64_t ttl_ms,
                            bool is_private)
{
    if (!c->modern)
        return;
    (void)json_object_set_new(result, "ttlMs", json_integer(ttl_ms));
    (void)json_object_set_new(result, "cacheScope", json_string(is_private ? "private" : "public"));
}

// Answers with one page of `all`; takes it.
static void answer_page(struct mcp_call *c, const char *name, const char *key, json_t *all,
                        bool is_private)
{
    size_t first, total = json_array_size(all);
    if (mcp_page_begin(c, name, &first) < 0) {
        json_decref(all);
        return;
    }
    size_t next = first + MCP_PAGE < total ? first + MCP_PAGE : total;
    json_t *page = json_array();
    for (size_t i = first; i < next; i++)
        (void)json_array_append(page, json_array_get(all, i));
    json_t *result = json_pack("{s:o}", key, page);
    if (result)
        mcp_page_next(c, name, result, next, total);
    if (result && is_private)
        add_cache_hints(c, result, LIST_TTL_MS, true);
    json_decref(all);
    mcp_answer(c, result);
}

void mcp_handle_resources_list(struct mcp_call *c)
{
    json_t *all = json_array();
    for (size_t i = 0; i < ARRAY_LEN(resources); i++)
        if (is_offered(c->mcp, &resources[i]))
            (void)json_array_append_new(all, resource_json(c, &resources[i]));
    const struct tool_set *set;
    for (size_t i = 0; (set = mcp_tool_set(c->mcp, i)); i++)
        if (set->resources)
            tool_set_append(all, set->resources(c));
    tool_set_append(all, file_resources_list(c));
    answer_page(c, "resources", "resources", all, true);
}

json_t *mcp_resource_template(const struct mcp_call *c, const struct resource_template *t)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:s*, s:o}", "uriTemplate", t->uri_template, "name",
                          t->name, "description", t->description, "mimeType", t->mime_type,
                          "annotations", annotations_json(c, t->priority, true));
    add_late_fields(c, o, t->title);
    return o;
}

void mcp_handle_templates_list(struct mcp_call *c)
{
    json_t *all = json_array();
    const struct tool_set *set;
    for (size_t i = 0; i < ARRAY_LEN(templates); i++)
        (void)json_array_append_new(all, mcp_resource_template(c, &templates[i]));
    for (size_t i = 0; (set = mcp_tool_set(c->mcp, i)); i++)
        if (set->templates)
            tool_set_append(all, set->templates(c));
    answer_page(c, "templates", "resourceTemplates", all, false);
}

// ---- read ---------------------------------------------------------------------------------------

void mcp_resource_answer(struct mcp_call *c, json_t *contents, int64_t ttl_ms, bool is_private)
{
    json_t *result = contents ? json_pack("{s:[o]}", "contents", contents) : NULL;
    if (result)
        add_cache_hints(c, result, ttl_ms, is_private);
    mcp_answer(c, result);
}

static json_t *contents_json(const char *uri, const char *mime_type, const char *key, json_t *text)
{
    return text ? json_pack("{s:s, s:s, s:o}", "uri", uri, "mimeType", mime_type, key, text) : NULL;
}

// SECURITY: in JSON a control character takes six bytes.  Text that would be longer than its base64
// is sent as base64, so no output grows beyond about twice its length.
static bool is_mostly_control(const char *text, size_t length)
{
    size_t controls = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        controls += c < 0x20 && c != '\n' && c != '\r' && c != '\t';
    }
    return controls > length / 15; // 5 bytes more for each, or a third more for all
}

bool mcp_is_text(const char *data, size_t length)
{
    return !memchr(data, '\0', length) && !is_mostly_control(data, length) &&
           utf8_valid_length(data, length) == length;
}

// SECURITY: code in the box chose the type and the text, which may be no base64 at all.
static bool is_base64(const char *mime_type, const char *text, size_t length)
{
    size_t size;
    _cleanup_free_ unsigned char *data =
        mime_is_binary(mime_type) ? decode_base64(text, length, &size) : NULL;
    return data != NULL;
}

static json_t *run_contents(const char *uri, const char *mime_type, const char *text, size_t length)
{
    size_t clean = 0;
    if (is_base64(mime_type, text, length))
        return contents_json(uri, mime_type, "blob", json_stringn(text, length));
    if (is_mostly_control(text, length)) {
        _cleanup_free_ char *coded = encode_base64(text, length);
        return contents_json(uri, mime_type, "blob",
                             coded ? json_stringn_nocheck(coded, strlen(coded)) : NULL);
    }
    _cleanup_free_ char *copy = answer_clean(text, length, false, &clean);
    return contents_json(uri, mime_type, "text", copy ? json_stringn_nocheck(copy, clean) : NULL);
}

// An output of a run: the output so far if it goes on, else the stored one, or NULL.
static json_t *read_run(struct mcp *m, const char *uri, const char *owner)
{
    char id[ID_SIZE];
    enum output_part part;
    size_t length;
    if (mcp_outputs_parse_uri(uri, id, &part) < 0)
        return NULL;
    json_t *live = tool_run_live(m, owner, id, part);
    const char *text = live ? json_string_value(live) : NULL, *mime_type = "text/plain";
    if (live)
        length = json_string_length(live);
    else if (!(text = mcp_outputs_find(m, owner, id, part, &mime_type, &length)))
        return NULL;
    json_t *contents = run_contents(uri, mime_type, text, length);
    json_decref(live);
    return contents;
}

void mcp_handle_resources_read(struct mcp_call *c)
{
    const char *uri = json_string_value(json_object_get(c->request.params, "uri"));
    if (!uri) {
        mcp_fail(c, MCP_INVALID_PARAMS, NULL, "'uri' must be the URI of a resource, as a text");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(resources); i++)
        if (strcmp(uri, resources[i].uri) == 0 && is_offered(c->mcp, &resources[i])) {
            mcp_resource_answer(c,
                                contents_json(uri, resources[i].mime_type, "text",
                                              resources[i].read(c->mcp, c->owner)),
                                resources[i].ttl_ms, c->mcp->gate && net_is_on(c->mcp->config));
            return;
        }
    if (file_resources_read(c, uri))
        return;
    const struct tool_set *set;
    for (size_t i = 0; (set = mcp_tool_set(c->mcp, i)); i++)
        if (set->resource_read && set->resource_read(c, uri))
            return;
    json_t *contents = read_run(c->mcp, uri, c->owner);
    if (contents)
        mcp_resource_answer(c, contents, 0, true);
    else
        mcp_resource_missing(c, uri);
}

bool mcp_resource_exists(struct mcp *m, const char *uri, const char *owner)
{
    for (size_t i = 0; i < ARRAY_LEN(resources); i++)
        if (strcmp(uri, resources[i].uri) == 0)
            return true;
    char id[ID_SIZE];
    enum output_part part;
    const char *mime_type;
    size_t length;
    if (mcp_outputs_parse_uri(uri, id, &part) == 0)
        return tool_run_is_going_on(m, owner, id) ||
               mcp_outputs_find(m, owner, id, part, &mime_type, &length);
    const struct tool_set *set;
    for (size_t i = 0; (set = mcp_tool_set(m, i)); i++)
        if (set->resource_exists && set->resource_exists(m, uri, owner))
            return true;
    return file_resources_exist(m, uri, owner);
}

// ---- completion ---------------------------------------------------------------------------------

json_t *mcp_resource_complete(struct mcp *m, const char *owner, const char *uri_template,
                              const char *variable, const char *prefix, json_t *known)
{
    if (strcmp(uri_template, FILE_URI_TEMPLATE) == 0)
        return file_resources_complete(m, owner, variable, prefix,
                                       json_string_value(json_object_get(known, "session")));
    const struct tool_set *set;
    for (size_t i = 0; (set = mcp_tool_set(m, i)); i++) {
        json_t *found = set->resource_complete
                            ? set->resource_complete(m, owner, uri_template, variable, prefix)
                            : NULL;
        if (found)
            return found;
    }
    if (strcmp(uri_template, RUN_TEMPLATE) != 0)
        return NULL;
    if (strcmp(variable, "execution_id") == 0)
        return mcp_outputs_ids(m, owner, prefix, COMPLETIONS_MAX);
    if (strcmp(variable, "part") != 0)
        return NULL;
    json_t *names = json_array();
    for (int i = 0; i < OUTPUT_PART_MAX; i++)
        if (strncmp(output_part_names[i], prefix, strlen(prefix)) == 0)
            (void)json_array_append_new(names, json_string(output_part_names[i]));
    return names;
}
