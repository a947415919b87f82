// SPDX-License-Identifier: Apache-2.0
//
// tool_info: get_sandbox_info: what code can expect here.  See tool_shared.h.  Called by tools.c in
// the gate.

#include <event2/http.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "exec/background.h"
#include "mcp/protocol/bounds.h"
#include "mcp/tools/schema_words.h"
#include "mcp/tools/tool_shared.h"
#include "net/policy.h"
#include "run/gate.h"
#include "run/network.h"
#include "run/result.h"
#include "session/session.h"
#include "json/whole.h"

// clang-format off

static const char info_input[] =
    "{\"type\": \"object\", \"properties\": {}, \"additionalProperties\": false}";

static const char info_output[] =
    OBJECT("\"version\", \"state\", \"uptime_seconds\", \"network\", \"limits\", \"isolation\", "
           "\"tool_sets\"",
        FIELD("version", STRING) ", "
        FIELD("state", "{\"type\": \"string\", \"enum\": [\"warming\", \"ready\", \"failed\"]}")
            ", "
        FIELD("problem", NULLABLE(STRING)) ", "
        FIELD("uptime_seconds", NUMBER) ", "
        FIELD("python", PYTHON) ", "
        FIELD("network", BOOLEAN) ", "
        FIELD("network_rules", NETWORK) ", "
        FIELD("working_folder", STRING) ", "
        FIELD("shared_folders", LIST(STRING)) ", "
        FIELD("client_folders", LIST(OBJECT("\"path\", \"shared_as\"",
            FIELD("path", STRING) ", "
            FIELD("shared_as", NULLABLE(STRING))))) ", "
        FIELD("limits", MAP(OBJECT("\"default\", \"maximum\", \"unit\"",
            FIELD("default", NUMBER) ", "
            FIELD("maximum", NUMBER) ", "
            FIELD("unit", STRING) ", "
            FIELD("argument", NULLABLE(STRING))))) ", "
        FIELD("isolation", MAP(STRING)) ", "
        FIELD("tool_sets", LIST(STRING)) ", "
        FIELD("sessions", OBJECT("\"open\", \"maximum\", \"idle_seconds\"",
            FIELD("open", INTEGER) ", "
            FIELD("maximum", INTEGER) ", "
            FIELD("idle_seconds", NUMBER) ", "
            FIELD("grace_seconds", NUMBER) ", "
            FIELD("queue", INTEGER) ", "
            FIELD("checkpoints", INTEGER))) ", "
        FIELD("artifacts", OBJECT("\"keep_seconds\", \"quota_bytes\"",
            FIELD("keep_seconds", NUMBER) ", "
            FIELD("quota_bytes", INTEGER))) ", "
        FIELD("runs", OBJECT("",
            FIELD("running", INTEGER) ", "
            FIELD("background", INTEGER) ", "
            FIELD("background_maximum", INTEGER))));

// clang-format on

static json_t *limits_json(const struct config *c)
{
    const struct {
        const char *name, *unit, *argument;
        uint64_t fallback, maximum;
        bool is_time;
    } table[] = {
        {"wall_time", "seconds", "timeout", bounds_timeout_ms(c, false), config_wall_max_ms(c),
         true},
        {"cpu_time", "seconds", "cpu_seconds", c->cpu_ms, config_cpu_max_ms(c), true},
        {"memory", "MiB", "memory_mb", c->memory_bytes / TEXT_MIB, bounds_memory_max(c) / TEXT_MIB,
         false},
        {"processes", "processes and threads", NULL, c->processes, c->processes, false},
        {"scratch", "bytes", NULL, c->scratch_bytes, c->scratch_bytes, false},
        {"scratch_files", "files", NULL, c->inodes, c->inodes, false},
        {"file_size", "bytes", NULL, c->file_size_bytes, c->file_size_bytes, false},
        {"open_files", "files per process", NULL, c->files, c->files, false},
        {"output", "bytes", NULL, c->output_bytes, c->output_bytes, false},
        {"source", "bytes", NULL, c->source_bytes, c->source_bytes, false},
        {"answer_text", "characters", NULL, c->text_budget, c->text_budget, false},
    };
    json_t *o = json_object();
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        json_t *fallback = table[i].is_time ? bounds_seconds(table[i].fallback)
                                            : json_integer((json_int_t)table[i].fallback);
        json_t *maximum = table[i].is_time ? bounds_seconds(table[i].maximum)
                                           : json_integer((json_int_t)table[i].maximum);
        (void)json_object_set_new(o, table[i].name,
                                  json_pack("{s:o, s:o, s:s, s:s?}", "default", fallback, "maximum",
                                            maximum, "unit", table[i].unit, "argument",
                                            table[i].argument));
    }
    return o;
}

static json_t *sessions_info(const struct mcp *m)
{
    const struct config *c = m->config;
    return json_pack("{s:i, s:i, s:o, s:o, s:i, s:i}", "open",
                     m->gate ? (int)sessions_count(m->gate, NULL) : 0, "maximum", (int)c->sessions,
                     "idle_seconds", bounds_seconds(c->session_idle_ms), "grace_seconds",
                     bounds_seconds(c->grace_ms), "queue", (int)c->session_queue, "checkpoints",
                     (int)c->checkpoints);
}

// Folders of the user that code can read.
static json_t *shares_json(const struct keeper_facts *facts)
{
    const struct shares *shares = facts ? facts->shares : NULL;
    json_t *list = json_array();
    for (size_t i = 0; shares && i < shares->count; i++)
        (void)json_array_append_new(list, json_string(shares->items[i].at));
    return list;
}

// ---- the client's own folders (roots) -----------------------------------------------------------

enum { ROOTS_MAX = 16 };

// The path of "file:///home/ann/sales"; caller frees.  NULL: it is no such URI.
static char *root_path(const char *uri)
{
    static const char scheme[] = "file://";
    if (!uri || strncmp(uri, scheme, sizeof scheme - 1) != 0 || strlen(uri) > PATH_MAX)
        return NULL;
    const char *at = strchr(uri + sizeof scheme - 1, '/'); // behind a host name
    size_t length = 0;
    char *path = at ? evhttp_uridecode(at, 0, &length) : NULL;
    while (path && length > 1 && path[length - 1] == '/')
        path[--length] = '\0';
    if (path && strlen(path) == length)
        text_sanitize(path);
    else
        free(TAKE_PTR(path));
    return path;
}

// Where code finds it; NULL: nowhere.
static const char *shared_as(const struct shares *shares, const char *path, char *buf, size_t cap)
{
    for (size_t i = 0; shares && i < shares->count; i++) {
        size_t n = strlen(shares->items[i].path);
        if (strncmp(path, shares->items[i].path, n) != 0 || (path[n] && path[n] != '/'))
            continue;
        snprintf(buf, cap, "%s%s", shares->items[i].at, path + n);
        return buf;
    }
    return NULL;
}

// SECURITY: only told, never opened: the person who starts the server says what is shared, and a
// gate that hostile code has taken over cannot say it for them.
static json_t *roots_json(const struct mcp *m, json_t *roots)
{
    json_t *list = json_array(), *root;
    char at[PATH_MAX + 64];
    size_t i;
    json_array_foreach (roots, i, root) {
        _cleanup_free_ char *path = root_path(json_string_value(json_object_get(root, "uri")));
        const char *found =
            path ? shared_as(m->gate ? m->gate->facts->shares : NULL, path, at, sizeof at) : NULL;
        if (path && json_array_size(list) < ROOTS_MAX)
            (void)json_array_append_new(list,
                                        json_pack("{s:s, s:s?}", "path", path, "shared_as", found));
    }
    return list;
}

static void print_roots(FILE *f, json_t *roots)
{
    json_t *root;
    size_t i;
    json_array_foreach (roots, i, root) {
        const char *path = json_string_value(json_object_get(root, "path")),
                   *at = json_string_value(json_object_get(root, "shared_as"));
        if (at)
            fprintf(f, "folder of the client: %s: code reads it as %s\n", path, at);
        else
            fprintf(f,
                    "folder of the client: %s: code cannot read it; with the user's consent, add "
                    "\"--share\", \"%s\" to the arguments of this server in the client's "
                    "settings\n",
                    path, path);
    }
}

// ---- the answer ---------------------------------------------------------------------------------

json_t *tool_info_json(struct mcp *m, const char *owner)
{
    static const char *const states[] = {
        [KEEPER_WARMING] = "warming", [KEEPER_READY] = "ready", [KEEPER_FAILED] = "failed"};
    const struct keeper_facts *facts = m->gate ? m->gate->facts : NULL;
    enum keeper_state state = facts ? facts->state : KEEPER_FAILED;
    struct tool_runs *runs = mcp_tool_runs(m);
    json_t *o = json_pack(
        "{s:s, s:s, s:s?, s:I, s:b, s:s, s:o, s:o, s:o}", "version", CONSTRICTOR_VERSION, "state",
        states[state], "problem",
        state == KEEPER_FAILED && facts && facts->error ? facts->error->message : NULL,
        "uptime_seconds", (json_int_t)(tool_runs_uptime_ms(runs) / 1000), "network",
        network_is_allowed(m->gate, owner), "working_folder", "/mnt/data", "limits",
        limits_json(m->config), "isolation", facts ? result_isolation(facts->caps) : json_object(),
        "tool_sets", mcp_tool_sets(m));
    if (!o)
        return NULL;
    int failed = json_object_set_new(
        o, "runs",
        json_pack("{s:i, s:i, s:i}", "running", m->gate ? (int)m->gate->running : 0, "background",
                  (int)tool_runs_background(runs), "background_maximum",
                  (int)background_most(m->gate)));
    failed |= json_object_set_new(o, "sessions", sessions_info(m));
    failed |= json_object_set_new(o, "shared_folders", shares_json(facts));
    failed |= json_object_set_new(o, "network_rules", network_shown(m->gate, owner, NULL));
    failed |= json_object_set_new(o, "artifacts",
                                  json_pack("{s:o, s:I}", "keep_seconds",
                                            bounds_seconds(m->config->artifact_ms), "quota_bytes",
                                            (json_int_t)m->config->artifact_bytes));
    if (facts && facts->interp)
        failed |= json_object_set_new(o, "python", result_interpreter(facts));
    return json_whole(o, failed);
}

// The same as text, a line each.
static char *info_text(json_t *info, const char *network)
{
    char *text = NULL;
    size_t length = 0, i;
    FILE *f = open_memstream(&text, &length);
    json_t *python = json_object_get(info, "python"), *item;
    const char *key, *problem = json_string_value(json_object_get(info, "problem"));
    if (!f)
        return NULL;
    fprintf(f, "constrictor %s, %s, up %.0f s\n",
            json_string_value(json_object_get(info, "version")),
            json_string_value(json_object_get(info, "state")),
            json_number_value(json_object_get(info, "uptime_seconds")));
    if (problem)
        fprintf(f, "problem: %s\n", problem);
    const char *version = json_string_value(json_object_get(python, "version"));
    if (version && version[0])
        fprintf(f, "python: %s (%s)\n", version,
                json_string_value(json_object_get(python, "python")));
    fputs("preloaded modules:", f);
    json_array_foreach (json_object_get(python, "preloaded"), i, item)
        fprintf(f, "%s %s", i ? "," : "", json_string_value(item) ? json_string_value(item) : "?");
    fputs(i ? "\n" : " none\n", f);
    json_array_foreach (json_object_get(python, "preload_failed"), i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        fprintf(f, "preload failed: %s\n", name ? name : "?");
    }
    json_array_foreach (json_object_get(info, "shared_folders"), i, item)
        fprintf(f, "folder of the user, read-only: %s\n", json_string_value(item));
    print_roots(f, json_object_get(info, "client_folders"));
    fprintf(f,
            "network: %s; working folder: %s; each run starts fresh unless it names a session\n"
            "limits:\n",
            network[0] ? network : "none",
            json_string_value(json_object_get(info, "working_folder")));
    json_object_foreach (json_object_get(info, "limits"), key, item) {
        double fallback = json_number_value(json_object_get(item, "default"));
        double maximum = json_number_value(json_object_get(item, "maximum"));
        const char *argument = json_string_value(json_object_get(item, "argument"));
        fprintf(f, "  %s: %.10g %s", key, fallback,
                json_string_value(json_object_get(item, "unit")));
        if (argument)
            fprintf(f, " (argument %s, at most %.10g)", argument, maximum);
        fputc('\n', f);
    }
    fputs("isolation:\n", f);
    json_object_foreach (json_object_get(info, "isolation"), key, item)
        fprintf(f, "  %s: %s\n", key, json_string_value(item));
    fputs("tool sets:", f);
    json_array_foreach (json_object_get(info, "tool_sets"), i, item)
        fprintf(f, " %s", json_string_value(item));
    item = json_object_get(info, "runs");
    fprintf(f, "\nruns: %d, in the background %d of at most %d",
            (int)json_integer_value(json_object_get(item, "running")),
            (int)json_integer_value(json_object_get(item, "background")),
            (int)json_integer_value(json_object_get(item, "background_maximum")));
    item = json_object_get(info, "sessions");
    fprintf(
        f,
        "\nsessions: %d of at most %d open, each ends when unused for %.10g s; %d checkpoints to "
        "undo to; %d runs may wait in one",
        (int)json_integer_value(json_object_get(item, "open")),
        (int)json_integer_value(json_object_get(item, "maximum")),
        json_number_value(json_object_get(item, "idle_seconds")),
        (int)json_integer_value(json_object_get(item, "checkpoints")),
        (int)json_integer_value(json_object_get(item, "queue")));
    item = json_object_get(info, "artifacts");
    fprintf(f, "\nfiles that runs leave behind: kept for %.10g s, %.10g bytes for each key",
            json_number_value(json_object_get(item, "keep_seconds")),
            json_number_value(json_object_get(item, "quota_bytes")));
    return fclose(f) == 0 ? text : (free(text), NULL);
}

// All that the answer depends on.
struct info_key {
    const struct mcp *mcp;
    int64_t uptime_s, state, running, background, sessions, generation;
    char owner[MCP_OWNER_MAX +
               8]; // of a key that may have network; fills the struct without padding
};

static struct info_key info_key(struct mcp *m, const char *owner)
{
    struct tool_runs *runs = mcp_tool_runs(m);
    struct info_key key = {.mcp = m,
                           .uptime_s = tool_runs_uptime_ms(runs) / 1000,
                           .state = m->gate ? (int64_t)m->gate->facts->state : -1,
                           .running = m->gate ? (int64_t)m->gate->running : 0,
                           .background = tool_runs_background(runs),
                           .sessions = m->gate ? (int64_t)sessions_count(m->gate, NULL) : 0,
                           .generation = network_generation(m->gate)};
    if (m->gate && net_is_on(m->config))
        snprintf(key.owner, sizeof key.owner, "%s", owner);
    return key;
}

static void answer_roots(struct mcp_call *c, json_t *answers)
{
    json_t *info = tool_info_json(c->mcp, c->owner), *roots = json_object_get(answers, "roots");
    char network[NETWORK_TEXT_MAX];
    if (info)
        (void)json_object_set_new(info, "client_folders",
                                  roots_json(c->mcp, json_object_get(roots, "roots")));
    network_describe(c->mcp->gate, c->owner, NULL, network);
    _cleanup_free_ char *text = info ? info_text(info, network) : NULL;
    json_t *content = text ? json_pack("[o]", tool_text(text)) : NULL;
    mcp_answer(c, tool_result(c, content, info, false));
}

static void get_sandbox_info(struct mcp_call *c, json_t *arguments)
{
    const struct mcp_question roots = {.key = "roots", .method = "roots/list", .may_refuse = true};
    if (c->mcp->is_local && mcp_client_can(c, "roots")) {
        mcp_ask(c, &roots, 1, NULL, answer_roots);
        return;
    }

    // Clients poll this tool, and making its text takes ten times as long as sending it.
    static struct {
        struct info_key key;
        struct mcp_prepared answer;
    } last[MCP_VERSION_MAX];
    struct mcp_prepared *answer = &last[c->version].answer;
    struct info_key key = info_key(c->mcp, c->owner);
    char network[NETWORK_TEXT_MAX];
    (void)arguments;
    if (!answer->text || memcmp(&key, &last[c->version].key, sizeof key) != 0) {
        json_t *info = tool_info_json(c->mcp, c->owner);
        network_describe(c->mcp->gate, c->owner, NULL, network);
        _cleanup_free_ char *text = info ? info_text(info, network) : NULL;
        json_t *content = text ? json_pack("[o]", tool_text(text)) : NULL;
        mcp_prepared_clear(answer);
        if (mcp_prepare(c, tool_result(c, content, info, false), answer) < 0) {
            mcp_answer(c, NULL);
            return;
        }
        last[c->version].key = key;
    }
    mcp_answer_prepared(c, answer);
}

// ---- the table ----------------------------------------------------------------------------------

const struct mcp_tool info_tools[] = {
    {
        .name = "get_sandbox_info",
        .title = "Describe the server and its boxes",
        .description =
            "Describe the server and its boxes: Python version, preloaded modules, default and "
            "maximum "
            "limits, sessions, how long files are kept, isolation layers, tool sets, server "
            "version and state.",
        .input_schema = info_input,
        .output_schema = info_output,
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .handle = get_sandbox_info,
    },
    {0},
};
