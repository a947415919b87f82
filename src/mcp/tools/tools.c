// SPDX-License-Identifier: Apache-2.0
//
// tools: see tools.h.  Called by server.c in the gate.  At start, schemas are parsed and
// the lists made, one for each revision of the protocol, so a list is the same for every client and
// every time.

#include "mcp/tools/tools.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/utf8.h"
#include "mcp/protocol/identity.h"
#include "mcp/protocol/tasks.h"
#include "mcp/tools/schema.h"
#include "mcp/tools/tool_shared.h"
#include "mcp/tools/tool_variants.h"
#include "net/policy.h"
#include "run/network.h"
#include "json/text_value.h"
#include "json/whole.h"

enum { TOOLS_MAX = 256 };

enum { TOOL_SHARES_MAX = 1024 };

struct mcp_tools {
    const struct tool_set *sets[TOOL_SETS_MAX + 1]; // that are on; ends with NULL
    size_t set_count;
    size_t count;
    struct tool_entry entries[TOOLS_MAX];
    json_t *lists[MCP_VERSION_MAX];
    struct mcp_prepared first_pages[MCP_VERSION_MAX]; // of tools/list, made when first asked for
    struct networked {                                // and for the last key with network
        char owner[MCP_OWNER_MAX + 1];
        unsigned generation;
        struct mcp_prepared page;
    } networked[MCP_VERSION_MAX];
    json_t *nothing;              // arguments of a call that has none
    char shares[TOOL_SHARES_MAX]; // shares_describe()
    struct tool_runs *runs;
};

// Every word of this costs each conversation of each model: tests/api/test_tokens.py counts them.
static const struct tool_brief briefs[] = {
    {"execute_python",
     "Run Python in a fresh isolated box. Returns output, last expression's value, figures, "
     "errors, "
     "new files of the working folder /mnt/data.",
     "{\"type\":\"object\",\"properties\":{\"code\":{\"type\":\"string\"},"
     "\"session\":{\"type\":\"string\",\"description\":\"Any name: later calls with it keep "
     "variables, files.\"},"
     "\"stdin\":{\"type\":\"string\"},"
     "\"timeout\":{\"type\":\"number\",\"default\":0,\"maximum\":0,\"description\":\"Seconds. "
     "Above "
     "50 set background.\"},"
     "\"background\":{\"type\":\"boolean\",\"description\":\"Return an id for check_run.\"},"
     "\"details\":{\"type\":\"boolean\",\"description\":\"Add usage, ids, isolation.\"}},"
     "\"required\":[\"code\"]}"},
    {"check_run", "Output and result of a background run.",
     "{\"type\":\"object\",\"properties\":{\"execution_id\":{\"type\":\"string\"},"
     "\"wait\":{\"type\":\"number\",\"maximum\":0,\"description\":\"Seconds.\"}},\"required\":["
     "\"execution_id\"]}"},
    {"install_package", "Install from PyPI for later runs.",
     "{\"type\":\"object\",\"properties\":{\"packages\":{\"type\":\"string\",\"description\":"
     "\"Such as pandas scipy>=1.10\"}},\"required\":[\"packages\"]}"},
    {"list_files", "List session files.",
     "{\"type\":\"object\",\"properties\":{\"session\":{\"type\":\"string\"}},"
     "\"required\":[\"session\"]}"},
    {"read_file", "Read a session file.",
     "{\"type\":\"object\",\"properties\":{\"session\":{\"type\":\"string\"},"
     "\"path\":{\"type\":\"string\"},\"offset\":{\"type\":\"integer\"},"
     "\"length\":{\"type\":\"integer\"}},\"required\":[\"session\",\"path\"]}"},
    {"write_file", "Write a session file.",
     "{\"type\":\"object\",\"properties\":{\"session\":{\"type\":\"string\"},"
     "\"path\":{\"type\":\"string\"},\"text\":{\"type\":\"string\"},"
     "\"base64\":{\"type\":\"string\"}},\"required\":[\"session\",\"path\"]}"},
    {0},
};

#define OUR_TABLES                                                                                 \
    {                                                                                              \
        run_tools, check_tools, session_tools, install_tools, env_tools, package_tools,            \
            file_tools, info_tools                                                                 \
    }

static struct tool_set full_set = {.name = "full", .tables = OUR_TABLES};
static struct tool_set default_set = {
    .name = "default", .tables = OUR_TABLES, .briefs = briefs, .next = &full_set};
static struct tool_set *registered = &default_set; // all sets, in order of registration

void tool_set_register(struct tool_set *set)
{
    struct tool_set **last = &registered;
    while (*last)
        last = &(*last)->next;
    *last = set;
}

void tool_set_append(json_t *list, json_t *rows)
{
    (void)json_array_extend(list, rows);
    json_decref(rows);
}

// ---- start and end ------------------------------------------------------------------------------

static bool is_wanted(const struct mcp *m, const struct tool_set *set)
{
    const struct text_list *wanted = &m->config->tools;
    if (!set->name)
        return true;
    if (wanted->count == 0)
        return set == &default_set;
    if (set == &default_set && (text_list_has(wanted, "all") || text_list_has(wanted, "full")))
        return false; // those have its tools
    return text_list_has(wanted, set->name) || text_list_has(wanted, "all");
}

static int check_names(const struct text_list *wanted, struct err *e)
{
    for (size_t i = 0; i < wanted->count; i++) {
        const char *name = wanted->items[i];
        bool known = strcmp(name, "all") == 0;
        for (const struct tool_set *set = registered; set && !known; set = set->next)
            known = set->name && strcmp(name, set->name) == 0;
        if (!known)
            return err_set(e, ERR_BAD_VALUE, 0, "'constrictor serve --help' names the sets",
                           "tools: there is no tool set '%s'", name);
    }
    return 0;
}

static const struct tool_brief *brief_of(const struct tool_set *set, const char *name)
{
    const struct tool_brief *b = set->briefs;
    while (b->name && strcmp(b->name, name) != 0)
        b++;
    return b->name ? b : NULL;
}

static int add_tool(struct mcp *m, const struct mcp_tool *tool, const struct tool_set *set,
                    struct err *e)
{
    const struct tool_brief *brief = set->briefs ? brief_of(set, tool->name) : NULL;
    if (set->briefs && !brief)
        return 0;
    struct mcp_tools *t = m->tools;
    size_t i = 0;
    while (i < t->count && strcmp(t->entries[i].name, tool->name) != 0)
        i++;
    if (i == TOOLS_MAX)
        return err_set(e, ERR_INTERNAL, 0, NULL, "more than %d tools", TOOLS_MAX);
    if (i == t->count)
        t->count++;
    return tool_variants_add(&t->entries[i], m, tool, brief, set->name ? set->name : "extra", e);
}

static int add_set(struct mcp *m, const struct tool_set *set, struct err *e)
{
    struct mcp_tools *t = m->tools;
    if (!is_wanted(m, set))
        return 0;
    if (t->set_count == TOOL_SETS_MAX)
        return err_set(e, ERR_INTERNAL, 0, NULL, "more than %d tool sets", TOOL_SETS_MAX);
    t->sets[t->set_count++] = set;
    m->lists_change |= set->lists_change;
    for (size_t k = 0; k < TOOL_TABLES_MAX && set->tables[k]; k++)
        for (const struct mcp_tool *tool = set->tables[k]; tool->name; tool++) {
            int r = add_tool(m, tool, set, e);
            if (r < 0)
                return r;
        }
    return 0;
}

static json_t *annotations_json(const struct tool_entry *entry, bool network)
{
    unsigned hints = entry->hints;
    bool open_world = hints & TOOL_OPEN_WORLD || (network && hints & TOOL_NETWORK);
    return json_pack("{s:s, s:b, s:b, s:b, s:b}", "title",
                     entry->first->title ? entry->first->title : entry->name, "readOnlyHint",
                     !!(hints & TOOL_READ_ONLY), "destructiveHint", !!(hints & TOOL_DESTRUCTIVE),
                     "idempotentHint", !!(hints & TOOL_IDEMPOTENT), "openWorldHint", open_world);
}

static json_t *description_json(const struct tool_entry *entry, const char *network,
                                const char *shares)
{
    if (!(entry->hints & TOOL_NETWORK))
        return json_incref(entry->description);
    return json_sprintf("%s%s%s%s%s%s%s", json_string_value(entry->description),
                        shares[0] ? " Folders of the user, read-only: " : "", shares,
                        shares[0] ? "; open files there instead of asking for their content." : "",
                        network[0] ? " Network: only " : " No network", network, ".");
}

// A schema that several tools share, such as that of a run, is listed with the first of them: some
// clients show each to the model.  A brief tool has none.
static bool lists_output(const struct mcp_tools *t, const struct tool_entry *entry)
{
    const struct tool_entry *other = t->entries;
    while (other != entry &&
           !(other->output && other->first->output_schema == entry->first->output_schema))
        other++;
    return entry->output && !entry->brief && other == entry;
}

// A tool with the fields that a revision knows, for a key that may reach `network` ("": nothing).
static json_t *tool_json(const struct mcp_tools *t, const struct tool_entry *entry,
                         enum mcp_version version, const char *network)
{
    const struct mcp_tool *tool = entry->first;
    json_t *o = json_pack("{s:s, s:o, s:O}", "name", tool->name, "description",
                          description_json(entry, network, t->shares), "inputSchema",
                          entry->brief ? entry->brief : entry->input);
    int failed = !o;
    if (version >= MCP_2025_06_18 && tool->title)
        failed |= json_object_set_new(o, "title", json_string(tool->title));
    if (version >= MCP_2025_06_18 && lists_output(t, entry))
        failed |= json_object_set(o, "outputSchema", entry->output);
    if (version >= MCP_2025_03_26)
        failed |= json_object_set_new(o, "annotations", annotations_json(entry, network[0]));
    return json_whole(o, failed);
}

static int make_lists(struct mcp_tools *t)
{
    int failed = 0;
    for (int v = 0; v < MCP_VERSION_MAX; v++) {
        failed |= !(t->lists[v] = json_array());
        for (size_t i = 0; i < t->count; i++)
            failed |= json_array_append_new(t->lists[v],
                                            tool_json(t, &t->entries[i], (enum mcp_version)v, ""));
    }
    return failed ? -1 : 0;
}

int mcp_tools_open(struct mcp *m, struct err *e)
{
    struct mcp_tools *t = m->tools = calloc(1, sizeof *t);
    if (!t || !(t->nothing = json_object()) || !(t->runs = tool_runs_new(m)))
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "make the table of tools");
    shares_describe(m->gate ? m->gate->facts->shares : NULL, t->shares, sizeof t->shares);
    int r = check_names(&m->config->tools, e);
    for (const struct tool_set *set = registered; set && r == 0; set = set->next)
        r = add_set(m, set, e);
    if (r == 0 && make_lists(t) < 0)
        r = err_set(e, ERR_SYSTEM, ENOMEM, NULL, "make the lists of tools");
    return r;
}

void mcp_tools_close(struct mcp *m)
{
    struct mcp_tools *t = m->tools;
    if (!t)
        return;
    tool_runs_free(t->runs);
    for (int v = 0; v < MCP_VERSION_MAX; v++) {
        json_decref(t->lists[v]);
        mcp_prepared_clear(&t->first_pages[v]);
        mcp_prepared_clear(&t->networked[v].page);
    }
    for (size_t i = 0; i < t->count; i++)
        tool_variants_clear(&t->entries[i]);
    json_decref(t->nothing);
    free(t);
    m->tools = NULL;
}

// ---- finding ------------------------------------------------------------------------------------

static const struct tool_entry *find(const struct mcp *m, const char *name)
{
    for (size_t i = 0; i < m->tools->count; i++)
        if (strcmp(m->tools->entries[i].name, name) == 0)
            return &m->tools->entries[i];
    return NULL;
}

const struct tool_set *mcp_tool_set(const struct mcp *m, size_t i)
{
    return m->tools->sets[i];
}

json_t *mcp_tool_sets(const struct mcp *m)
{
    json_t *names = json_array();
    for (const struct tool_set **set = m->tools->sets; *set; set++)
        if ((*set)->name)
            (void)json_array_append_new(names, json_string((*set)->name));
    return names;
}

bool mcp_tool_set_is_on(const struct mcp *m, const char *name)
{
    for (const struct tool_set **set = m->tools->sets; *set; set++)
        if ((*set)->name && strcmp((*set)->name, name) == 0)
            return true;
    return false;
}

bool mcp_has_tool(const struct mcp *m, const char *name)
{
    return find(m, name) != NULL;
}

bool mcp_tool_is_brief(const struct mcp *m, const char *name)
{
    const struct tool_entry *entry = find(m, name);
    return entry && entry->brief;
}

struct tool_runs *mcp_tool_runs(const struct mcp *m)
{
    return m->tools ? m->tools->runs : NULL;
}

// ---- tools/list ---------------------------------------------------------------------------------

// The cached page for this caller: one for all without network, one for the last key with network.
static struct mcp_prepared *page_of(struct mcp_call *c, bool network)
{
    struct networked *own = &c->mcp->tools->networked[c->version];
    unsigned generation = network_generation(c->mcp->gate);
    if (!network)
        return &c->mcp->tools->first_pages[c->version];
    if (own->generation != generation || strcmp(own->owner, c->owner) != 0) {
        mcp_prepared_clear(&own->page);
        own->page = (struct mcp_prepared){0};
        own->generation = generation;
        snprintf(own->owner, sizeof own->owner, "%s", c->owner);
    }
    return &own->page;
}

static json_t *make_page(const struct mcp_call *c, size_t first, size_t next, const char *network)
{
    const struct mcp_tools *t = c->mcp->tools;
    json_t *page = json_array();
    int failed = !page;
    for (size_t i = first; i < next; i++)
        failed |=
            network[0]
                ? json_array_append_new(page, tool_json(t, &t->entries[i], c->version, network))
                : json_array_append(page, json_array_get(t->lists[c->version], i));
    return json_whole(page, failed);
}

void mcp_handle_tools_list(struct mcp_call *c)
{
    char network[NETWORK_TEXT_MAX];
    network_describe(c->mcp->gate, c->owner, NULL, network);
    struct mcp_prepared *prepared = page_of(c, network[0]);
    size_t first, total = c->mcp->tools->count;
    if (mcp_page_begin(c, "tools", &first) < 0)
        return;
    if (first == 0 && prepared->text) {
        mcp_answer_prepared(c, prepared);
        return;
    }
    size_t next = first + MCP_PAGE < total ? first + MCP_PAGE : total;
    json_t *result = json_pack("{s:o}", "tools", make_page(c, first, next, network));
    // SECURITY: a shared cache must not tell other keys what this one may reach.
    if (result && c->modern && c->mcp->gate && net_is_on(c->mcp->config))
        (void)json_object_set_new(result, "cacheScope", json_string("private"));
    if (result)
        mcp_page_next(c, "tools", result, next, total);
    if (first == 0 && result && mcp_prepare(c, json_incref(result), prepared) == 0) {
        json_decref(result);
        mcp_answer_prepared(c, prepared);
        return;
    }
    mcp_answer(c, result);
}

// ---- tools/call ---------------------------------------------------------------------------------

static void unknown_tool(struct mcp_call *c, const char *name)
{
    const struct mcp_tools *t = c->mcp->tools;
    char shown[TEXT_ITEM_MAX + 1];
    const char *near = NULL;
    unsigned best = 8;
    for (size_t i = 0; i < t->count; i++) {
        unsigned distance = text_distance(name, t->entries[i].name);
        if (distance < best) {
            best = distance;
            near = t->entries[i].name;
        }
    }
    snprintf(shown, sizeof shown, "%.128s", name);
    text_sanitize(shown);
    mcp_fail(c, MCP_INVALID_PARAMS, json_pack("{s:s}", "name", shown),
             "unknown tool '%s'%s%s%s; tools/list names them all", shown,
             near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
}

// SEP-2243: headers that repeat arguments.  False: the call was failed.
static bool headers_fit(struct mcp_call *c, const struct tool_entry *entry, json_t *arguments)
{
    struct rpc_refusal no = {0};
    if (!c->from || !c->from->check_params ||
        c->from->check_params(c->from->argument, entry->input, arguments, &no) == 0)
        return true;
    mcp_fail(c, no.code, json_incref(no.data), "%s", no.message);
    rpc_refusal_clear(&no);
    return false;
}

// The call to go on with: a task's or the same; NULL: it was ended.
static struct mcp_call *choose_task(struct mcp_call *c, const struct mcp_tool *tool,
                                    json_t *arguments)
{
    bool can = c->modern && mcp_client_can(c, "extensions/" MCP_EXTENSION_TASKS);
    switch (tool->task) {
    case TOOL_TASK_NEVER: return c;
    case TOOL_TASK_LONG:
        if (!can || !tool->is_long || !tool->is_long(c, arguments))
            return c;
        break;
    case TOOL_TASK_ALWAYS:
        if (!can)
            return c;
        break;
    case TOOL_TASK_ONLY:
        if (!can) {
            mcp_task_missing(c);
            return NULL;
        }
        break;
    }
    return mcp_task_begin(c);
}

// Arguments as a handler gets them.
json_t *tool_arguments(const struct mcp_call *c)
{
    json_t *arguments = json_object_get(c->request.params, "arguments");
    return json_is_object(arguments) ? arguments : c->mcp->tools->nothing;
}

static bool is_required(json_t *schema, const char *name)
{
    json_t *item;
    size_t i;
    json_array_foreach (json_object_get(schema, "required"), i, item)
        if (strcmp(json_string_value(item), name) == 0)
            return true;
    return false;
}

// The value that a text stands for, of one of the types of the argument; new, or NULL.
static json_t *read_text(json_t *property, json_t *text)
{
    json_t *type = json_object_get(property, "type"), *value = NULL;
    size_t count = json_is_array(type) ? json_array_size(type) : 1;
    for (size_t i = 0; i < count && !value; i++) {
        const char *word = json_string_value(json_is_array(type) ? json_array_get(type, i) : type);
        value = word ? text_value(text, word) : NULL;
    }
    return value;
}

// Many clients write null for a missing argument, and models write "5" for 5.
static void mend_arguments(json_t *schema, json_t *arguments)
{
    json_t *properties = json_object_get(schema, "properties"), *value;
    const char *name;
    void *next;
    char ignored[64];
    json_object_foreach_safe (arguments, next, name, value) {
        bool can_mend = json_is_null(value) || json_is_string(value);
        json_t *property = can_mend ? json_object_get(properties, name) : NULL, *read;
        if (!property || schema_check(property, value, ignored, sizeof ignored) == 0)
            continue;
        if (json_is_string(value) && (read = read_text(property, value)))
            (void)json_object_set_new(arguments, name, read);
        else if (json_is_null(value) && !is_required(schema, name))
            (void)json_object_del(arguments, name);
    }
}

void mcp_handle_tools_call(struct mcp_call *c)
{
    json_t *name = json_object_get(c->request.params, "name");
    json_t *given = json_object_get(c->request.params, "arguments");
    if (!json_is_string(name)) {
        mcp_fail(c, MCP_INVALID_PARAMS, NULL, "'name' must be the name of a tool, as a text");
        return;
    }
    const struct tool_entry *entry = find(c->mcp, json_string_value(name));
    if (!entry) {
        unknown_tool(c, json_string_value(name));
        return;
    }
    if (given && !json_is_object(given) && !json_is_null(given)) {
        mcp_fail(c, MCP_INVALID_PARAMS, NULL, "'arguments' must be an object");
        return;
    }
    json_t *arguments = tool_arguments(c);
    if (!headers_fit(c, entry, arguments))
        return;
    mend_arguments(entry->input, arguments);
    char message[768];
    const struct mcp_tool *tool = tool_variants_choose(entry, arguments, message, sizeof message);
    if (!tool) {
        tool_error(c, err_code_name(ERR_BAD_VALUE), "correct it and call the tool again", "%s",
                   message);
        return;
    }
    struct mcp_call *on = choose_task(c, tool, arguments);
    if (on)
        tool->handle(on, tool_arguments(on));
}

// ---- for the handlers of tools ------------------------------------------------------------------

// Does this revision know the kind of block?
static bool is_known(json_t *block, enum mcp_version version)
{
    static const struct {
        const char *type;
        enum mcp_version since;
    } table[] = {{"resource_link", MCP_2025_06_18}, {"audio", MCP_2025_03_26}};
    const char *type = json_string_value(json_object_get(block, "type"));
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (type && strcmp(type, table[i].type) == 0)
            return version >= table[i].since;
    return true;
}

// SECURITY: a model and a person must read the same, so hidden characters in content become
// visible. structuredContent keeps them for programs.
static int reveal(json_t *block)
{
    static const char *const keys[] = {"text", "name", "title"}; // the last two of links
    int failed = 0;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const json_t *text = json_object_get(block, keys[i]);
        size_t length = json_string_length(text);
        if (!length || utf8_find_hidden(json_string_value(text), length) == length)
            continue;
        _cleanup_free_ char *copy = utf8_reveal(json_string_value(text), length, &length);
        failed |= json_object_set_new_nocheck(block, keys[i],
                                              copy ? json_stringn_nocheck(copy, length) : NULL);
    }
    return failed;
}

json_t *tool_result(const struct mcp_call *c, json_t *content, json_t *structured, bool is_error)
{
    json_t *blocks = json_array(), *block, *result = NULL;
    size_t i;
    int failed = !content;
    json_array_foreach (content, i, block)
        if (is_known(block, c->version))
            failed |= reveal(block) | json_array_append(blocks, block);
    json_decref(content);
    result = json_object();
    failed |= json_object_set_new_nocheck(result, "content", blocks);
    if (structured && c->version >= MCP_2025_06_18)
        failed |= json_object_set(result, "structuredContent", structured);
    json_decref(structured);
    if (is_error)
        failed |= json_object_set_new(result, "isError", json_true());
    if (failed) {
        json_decref(result);
        result = NULL;
    }
    return result;
}

void tool_answer(struct mcp_call *c, json_t *content, json_t *structured, bool is_error)
{
    mcp_answer(c, tool_result(c, content, structured, is_error));
}

void tool_error(struct mcp_call *c, const char *code, const char *hint, const char *fmt, ...)
{
    char message[1024], text[2048];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    text_sanitize(message);
    // What the lower rooms say names tools of the full set.
    if (hint && strstr(hint, "open_session") && !mcp_has_tool(c->mcp, "open_session"))
        hint = "use a name of your choice as 'session': its first use opens it";
    bool has_hint = hint && hint[0];
    snprintf(text, sizeof text, "%s%s%s\ncode: %s", message, has_hint ? "\nhint: " : "",
             has_hint ? hint : "", code);
    const char *name = json_string_value(json_object_get(c->request.params, "name"));
    const struct tool_entry *entry = name ? find(c->mcp, name) : NULL;
    json_t *structured = NULL;
    if (!entry || !entry->output)
        structured = json_pack("{s:{s:s, s:s, s:s?}}", "error", "code", code, "message", message,
                               "hint", has_hint ? hint : NULL);
    tool_answer(c, json_pack("[o]", tool_text(text)), structured, true);
}

json_t *tool_text(const char *text)
{
    return tool_text_n(text, strlen(text));
}

json_t *tool_text_n(const char *text, size_t length)
{
    json_t *o = json_object();
    if (json_object_set_new_nocheck(o, "type", json_string("text")) == 0 &&
        json_object_set_new_nocheck(o, "text", json_stringn_nocheck(text, length)) == 0)
        return o;
    json_decref(o);
    return NULL;
}

json_t *tool_image(const char *base64, const char *mime_type)
{
    return json_pack("{s:s, s:s, s:s}", "type", "image", "data", base64, "mimeType", mime_type);
}

json_t *tool_link(const char *uri, const char *name, const char *mime_type, json_int_t size)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:s}", "type", "resource_link", "uri", uri, "name", name,
                          "mimeType", mime_type);
    if (size >= 0)
        (void)json_object_set_new(o, "size", json_integer(size));
    return o;
}
