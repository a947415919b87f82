// SPDX-License-Identifier: Apache-2.0
// set_kernels: the tool set 'kernels': code in sessions that keep their variables, files fetched
// into them, and the resource session://{session_id}.  See sets.h.  Called by tools.c and
// resources.c in the gate.  There every session has one id: the name that its caller chose, or the
// handle.

#include "compat/sets.h"

#include <event2/http.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "exec/fetch.h"
#include "mcp/protocol/bounds.h"
#include "mcp/tools/resources.h"
#include "mcp/tools/tool_shared.h"
#include "rest/ndjson.h"
#include "run/display.h"
#include "run/gate.h"
#include "run/source.h"
#include "session/session.h"
#include "json/dump.h"
#include "json/whole.h"

#define FOLDER "/mnt/data"
#define SCHEME "session://"
#define TEMPLATE SCHEME "{session_id}"

enum { RESOURCE_TTL_MS = 1000 };

// ---- what all of them do ------------------------------------------------------------------------

// Answers with an object as JSON text and as structured content, and with more blocks.  Takes both.
static void answer(struct mcp_call *c, json_t *object, json_t *blocks, bool is_error)
{
    _cleanup_free_ char *text = object ? dump_text(object) : NULL;
    json_t *content = text ? json_pack("[o]", tool_text(text)) : NULL;
    if (content && blocks && json_array_extend(content, blocks) < 0) {
        json_decref(content);
        content = NULL;
    }
    json_decref(blocks);
    tool_answer(c, content, object, is_error);
}

static bool has_sessions(struct mcp_call *c)
{
    if (c->mcp->gate && c->mcp->gate->sessions)
        return true;
    tool_error(c, err_code_name(ERR_INTERNAL), NULL, "this server has no sessions");
    return false;
}

static const char *id_of(const struct session *s)
{
    return s->plan.name[0] ? s->plan.name : s->id;
}

// An optional argument; NULL if it is missing or null.  -1: it has a NUL, and the call was
// answered.
static int optional(struct mcp_call *c, json_t *arguments, const char *name, const char **ret)
{
    json_t *value = json_object_get(arguments, name);
    *ret = NULL;
    if (!value || json_is_null(value) || json_string_length(value) == 0)
        return 0;
    *ret = tool_string(c, arguments, name);
    return *ret ? 0 : -1;
}

static uint64_t timeout_ms(const struct mcp_call *c, json_t *arguments)
{
    json_t *given = json_object_get(arguments, "timeout");
    uint64_t fallback_ms = bounds_timeout_ms(c->mcp->config, false);
    return json_is_number(given) ? bounds_milliseconds(arguments, "timeout", fallback_ms)
                                 : fallback_ms;
}

// ---- execute_python_code ------------------------------------------------------------------------

static void write_text(FILE *f, json_t *text)
{
    if (json_is_string(text))
        (void)fwrite(json_string_value(text), 1, json_string_length(text), f);
}

// All output and displayed text, and the value of the last expression: one text, new.
static json_t *output_text(json_t *object)
{
    _cleanup_free_ char *text = NULL;
    size_t length = 0, i;
    json_t *item, *value = json_object_get(object, "display_value");
    FILE *f = open_memstream(&text, &length);
    struct picture p;
    if (!f)
        return NULL;
    write_text(f, json_object_get(object, "stdout"));
    write_text(f, json_object_get(object, "stderr"));
    json_array_foreach (json_object_get(object, "display"), i, item) {
        bool is_value = json_is_integer(value) && json_integer_value(value) == (json_int_t)i;
        if (!is_value && !display_picture(item, &p))
            write_text(f, json_object_get(item, "text/plain"));
    }
    write_text(f, json_object_get(object, "result"));
    if (fclose(f) != 0)
        return NULL;
    return json_stringn_nocheck(text, length);
}

// Adds the pictures to the object and to the blocks.
static int add_images(json_t *object, json_t *images, json_t *blocks)
{
    json_t *item;
    size_t i;
    int failed = 0;
    json_array_foreach (json_object_get(object, "display"), i, item) {
        struct picture p;
        if (!display_picture(item, &p))
            continue;
        const char *format = strcmp(p.mime_type, "image/png") == 0 ? "png" : "jpeg";
        failed |= json_array_append_new(images, json_pack("{s:s, s:s, s:s}", "type", "image",
                                                          "format", format, "data", p.base64));
        failed |= json_array_append_new(blocks, tool_image(p.base64, p.mime_type));
    }
    return failed;
}

// That server has two forms of answers: with "error", and without.
static json_t *shape(json_t *arguments, json_t *object, json_t *blocks)
{
    const char *session = json_string_value(json_object_get(arguments, "session_id"));
    json_auto_t *images = json_array();
    json_t *o = json_object();
    int failed = !images || !o;
    failed |= json_object_set_new(o, "output", output_text(object)) |
              add_images(object, images, blocks) | json_object_set(o, "images", images) |
              json_object_set_new(o, "session_id",
                                  json_string(session && session[0] ? session : "default"));
    if (!json_is_true(json_object_get(object, "success"))) {
        json_auto_t *error = ndjson_error(object);
        failed |= json_object_set(o, "error", json_object_get(error, "error")) |
                  json_object_set(o, "traceback", json_object_get(error, "traceback"));
    }
    // That server does not send these.
    failed |= json_object_set(o, "verdict", json_object_get(object, "verdict")) |
              json_object_set(o, "execution_id", json_object_get(object, "execution_id"));
    if (json_array_size(json_object_get(object, "files")))
        failed |= json_object_set(o, "files", json_object_get(object, "files"));
    // Such as that this is a new session of the name; the hint about a limit is in the error.
    if (json_is_string(json_object_get(object, "hint")) &&
        !json_is_object(json_object_get(object, "limit")))
        failed |= json_object_set(o, "hint", json_object_get(object, "hint"));
    return json_whole(o, failed);
}

static void present_run(struct mcp_call *c, json_t *arguments, json_t *object,
                        const struct err *error)
{
    if (error) {
        answer(c,
               json_pack("{s:s, s:[], s:s, s:s}", "error", error->message, "traceback", "code",
                         err_code_name(error->code), "hint", error->hint),
               NULL, true);
        return;
    }
    json_t *blocks = json_array();
    json_t *o = blocks ? shape(arguments, object, blocks) : NULL;
    answer(c, o, blocks, false);
}

static void run_code(struct mcp_call *c, json_t *answers)
{
    const struct config *config = c->mcp->config;
    json_t *arguments = tool_arguments(c), *code = json_object_get(arguments, "code");
    struct session_plan fresh;
    if (!tool_has_consent(c, answers))
        return;
    session_plan_init(c->mcp->gate, &fresh);
    uint64_t wall_ms = timeout_ms(c, arguments);
    struct tool_run_plan plan = {
        .arguments = arguments,
        .present = present_run,
        .request = {.code = json_string_value(code),
                    .code_length = json_string_length(code),
                    .argv = json_pack("[s]", "<code>"),
                    .session = json_string_value(json_object_get(arguments, "session_id")),
                    .plan = &fresh,
                    .limits = fresh.limits,
                    .wall_ms = wall_ms,
                    .output_bytes = config->output_bytes,
                    .collect = true}};
    tool_run_start(c, &plan);
}

static void execute_python_code(struct mcp_call *c, json_t *arguments)
{
    struct err e;
    const char *session;
    json_t *code = json_object_get(arguments, "code");
    if (!has_sessions(c) || optional(c, arguments, "session_id", &session) < 0)
        return;
    if (source_check(json_string_value(code), json_string_length(code), "code",
                     c->mcp->config->source_bytes, &e) < 0)
        tool_error(c, err_code_name(e.code), e.hint, "%s", e.message);
    else
        tool_ask_consent(c, code, NULL, run_code);
}

static bool is_long(const struct mcp_call *c, json_t *arguments)
{
    return timeout_ms(c, arguments) > BOUNDS_ANSWER_MS;
}

static int adapt_timeout(const struct mcp *m, json_t *input_schema)
{
    json_t *timeout = json_object_get(json_object_get(input_schema, "properties"), "timeout");
    return json_object_set_new(timeout, "maximum", bounds_seconds(config_wall_max_ms(m->config)));
}

// ---- sessions -----------------------------------------------------------------------------------

static json_t *session_info(const struct session *s)
{
    return json_pack("{s:I, s:f, s:s, s:f, s:b}", "execution_count", (json_int_t)s->executions,
                     "last_activity", (double)s->used_ms / 1000, "status", "active", "created_at",
                     (double)s->created_ms / 1000, "is_busy", s->state == SESSION_BUSY);
}

// The owner's sessions by their ids, new.  NULL: memory is out.
static json_t *sessions_by_id(struct gate *g, const char *owner)
{
    struct err e;
    json_t *all = sessions_json(g, owner), *o = json_object(), *item;
    size_t i;
    int failed = !all || !o;
    json_array_foreach (json_object_get(all, "sessions"), i, item) {
        const char *id = json_string_value(json_object_get(item, "session"));
        const struct session *s = id ? session_find(g, owner, id, &e) : NULL;
        if (s)
            failed |= json_object_set_new_nocheck(o, id_of(s), session_info(s));
    }
    json_decref(all);
    return json_whole(o, failed);
}

static void list_active_sessions(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    if (!has_sessions(c))
        return;
    json_t *o = sessions_by_id(c->mcp->gate, c->owner);
    answer(c,
           o ? json_pack("{s:I, s:o}", "total", (json_int_t)json_object_size(o), "sessions", o)
             : NULL,
           NULL, false);
}

static void terminate_session(struct mcp_call *c, json_t *arguments)
{
    struct err e;
    char shown[SESSION_NAME_MAX + 1];
    const char *id = has_sessions(c) ? tool_string(c, arguments, "session_id") : NULL;
    if (!id)
        return;
    struct session *s = session_find(c->mcp->gate, c->owner, id, &e);
    bool ended = !s && e.code == ERR_SESSION_ENDED;
    snprintf(shown, sizeof shown, "%s", id);
    if (s)
        session_close(s, SESSION_CLOSED);
    text_sanitize(shown);
    answer(c,
           json_pack("{s:s, s:o}", "status", s ? "success" : "warning", "message",
                     s ? json_sprintf("Session %s terminated", shown)
                       : json_sprintf("Session %s not found or already terminated%s%s", shown,
                                      ended ? ": " : "", ended ? e.message : "")),
           NULL, false);
}

// ---- create_session_with_files ------------------------------------------------------------------

static void present_created(struct mcp_call *c, json_t *arguments, json_t *object,
                            const struct err *error)
{
    json_auto_t *outcome = object ? fetch_outcome(object) : NULL;
    // The answer names the session that the run was in.
    const char *id = json_string_value(json_object_get(object, "session_name"));
    (void)arguments;
    if (!id)
        id = json_string_value(json_object_get(object, "session"));
    if (error)
        answer(c,
               json_pack("{s:s, s:s, s:s, s:s}", "status", "error", "error", error->message, "code",
                         err_code_name(error->code), "hint", error->hint),
               NULL, true);
    else
        answer(c,
               outcome ? json_pack("{s:s, s:s, s:O, s:O, s:s}", "session_id", id ? id : "",
                                   "working_directory", FOLDER, "downloaded_files",
                                   json_object_get(outcome, "downloaded_files"), "errors",
                                   json_object_get(outcome, "errors"), "status", "success")
                       : NULL,
               NULL, false);
}

// Opens a session and fetches files into it.  Takes the items.
static void create(struct mcp_call *c, json_t *arguments, const char *session, json_t *items)
{
    struct err e;
    struct session_plan fresh;
    json_t *seconds = json_object_get(arguments, "timeout");
    struct exec_request request = {.session = session, .plan = &fresh, .collect = true};
    int r = json_array_size(items) ? fetch_check(c->mcp->gate, c->owner, session, &e) : 0;
    if (r == 0)
        r = fetch_prepare(c->mcp->config, items,
                          json_is_number(seconds) ? json_number_value(seconds) : FETCH_TIMEOUT_S,
                          &request, &e);
    json_decref(items);
    if (r < 0) {
        present_created(c, arguments, NULL, &e);
        return;
    }
    session_plan_init(c->mcp->gate, &fresh);
    // The name may be one of ours, so the tool run owns it with its arguments.
    json_auto_t *own = json_pack("{s:s}", "session_id", session);
    request.session = json_string_value(json_object_get(own, "session_id"));
    struct tool_run_plan plan = {.arguments = own, .request = request, .present = present_created};
    tool_run_start(c, &plan);
}

static void create_session_with_files(struct mcp_call *c, json_t *arguments)
{
    struct err e;
    char made[FETCH_NAME_SIZE];
    const char *session;
    json_t *urls = json_object_get(arguments, "file_urls");
    if (!has_sessions(c) || optional(c, arguments, "session_id", &session) < 0)
        return;
    if (!session && fetch_new_name(made) == 0)
        session = made;
    json_t *items = session ? fetch_items(urls, NULL, &e) : NULL;
    if (items)
        create(c, arguments, session, items);
    else if (session)
        present_created(c, arguments, NULL, &e);
    else
        tool_error(c, err_code_name(ERR_SYSTEM), "try again later",
                   "the kernel has no random bytes");
}

// ---- session://{session_id} ---------------------------------------------------------------------

// The id in a URI, with or without %XX.  0, or -1: it is another URI.
static int parse_uri(const char *uri, char ret[SESSION_NAME_MAX + 1])
{
    size_t length = 0;
    if (strncmp(uri, SCHEME, sizeof SCHEME - 1) != 0)
        return -1;
    _cleanup_free_ char *id = evhttp_uridecode(uri + sizeof SCHEME - 1, 0, &length);
    if (!id || !length || length > SESSION_NAME_MAX || strlen(id) != length)
        return -1;
    memcpy(ret, id, length + 1);
    return 0;
}

static struct session *find_by_uri(struct mcp *m, const char *uri, const char *owner)
{
    struct err e;
    char id[SESSION_NAME_MAX + 1];
    if (!m->gate || !m->gate->sessions || parse_uri(uri, id) < 0)
        return NULL;
    return session_find(m->gate, owner, id, &e);
}

static json_t *templates(const struct mcp_call *c)
{
    static const struct resource_template session = {
        TEMPLATE,           "session",
        "Session",          "An open session: the number of its runs, and the time of the last one",
        "application/json", 0.4,
    };
    return json_pack("[o]", mcp_resource_template(c, &session));
}

static bool resource_exists(struct mcp *m, const char *uri, const char *owner)
{
    return find_by_uri(m, uri, owner);
}

static bool resource_read(struct mcp_call *c, const char *uri)
{
    const struct session *s = find_by_uri(c->mcp, uri, c->owner);
    if (!s)
        return false;
    json_auto_t *o = session_info(s);
    int failed = json_object_set_new(o, "session_id", json_string(id_of(s))) |
                 json_object_set_new(
                     o, "kernel_info",
                     json_pack("{s:s, s:s}", "name", "python3", "working_directory", FOLDER));
    _cleanup_free_ char *text = failed ? NULL : json_dumps(o, JSON_INDENT(2));
    mcp_resource_answer(c,
                        text ? json_pack("{s:s, s:s, s:s}", "uri", uri, "mimeType",
                                         "application/json", "text", text)
                             : NULL,
                        RESOURCE_TTL_MS, true);
    return true;
}

static json_t *resource_complete(struct mcp *m, const char *owner, const char *uri_template,
                                 const char *variable, const char *prefix)
{
    if (strcmp(uri_template, TEMPLATE) != 0 || strcmp(variable, "session_id") != 0)
        return NULL;
    json_t *names = json_array(), *value;
    json_auto_t *o = m->gate && m->gate->sessions ? sessions_by_id(m->gate, owner) : NULL;
    const char *id;
    json_object_foreach (o, id, value)
        if (strncmp(id, prefix, strlen(prefix)) == 0)
            (void)json_array_append_new(names, json_string(id));
    return names;
}

// ---- the table ----------------------------------------------------------------------------------

#define SESSION_ID_TEXT "\"type\": [\"string\", \"null\"], \"maxLength\": 128, \"description\": \""

static const struct mcp_tool tools[] = {
    {
        .name = "execute_python_code",
        .title = "Run Python code in a session",
        .description =
            "Runs Python code in an isolated sandbox and returns its output, its images and its "
            "error. With session_id (any name, opened on first use) variables and files stay from "
            "call to call; without it the code has a fresh interpreter.",
        .input_schema =
            "{\"type\": \"object\", \"properties\": {"
            "\"code\": {\"type\": \"string\", \"description\": \"Python source to run.\"}, "
            "\"session_id\": {" SESSION_ID_TEXT
            "Name of the session to run in; its first use opens it.\"}, "
            "\"timeout\": {\"type\": [\"integer\", \"null\"], \"minimum\": 1, \"description\": "
            "\"Longest wall time in seconds.\"}"
            "}, \"required\": [\"code\"], \"additionalProperties\": false}",
        .hints = TOOL_NETWORK,
        .task = TOOL_TASK_LONG,
        .is_long = is_long,
        .handle = execute_python_code,
        .adapt = adapt_timeout,
    },
    {
        .name = "list_active_sessions",
        .title = "List active sessions",
        .description =
            "Your open sessions by their ids, each with the number of its runs and the time of the "
            "last one.",
        .input_schema = "{\"type\": \"object\", \"properties\": {}, \"additionalProperties\": "
                        "false}",
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .handle = list_active_sessions,
    },
    {
        .name = "terminate_session",
        .title = "Terminate a session",
        .description = "Ends a session: its processes, variables and files are gone at once.",
        .input_schema = "{\"type\": \"object\", \"properties\": {\"session_id\": {\"type\": "
                        "\"string\", \"minLength\": 1, \"maxLength\": 128, \"description\": "
                        "\"Id of the session.\"}}, \"required\": [\"session_id\"], "
                        "\"additionalProperties\": false}",
        .hints = TOOL_DESTRUCTIVE | TOOL_IDEMPOTENT,
        .handle = terminate_session,
    },
    {
        .name = "create_session_with_files",
        .title = "Open a session with files",
        .description =
            "Opens a session and fetches files into its working folder, from hosts that code here "
            "may reach; certificates are checked. Tells which files arrived and why others did "
            "not.",
        .input_schema =
            "{\"type\": \"object\", \"properties\": {"
            "\"session_id\": {" SESSION_ID_TEXT
            "Name of the session, open or new; without it, the server makes one.\"}, "
            "\"file_urls\": {\"type\": [\"array\", \"null\"], \"maxItems\": 64, \"items\": "
            "{\"type\": \"string\", \"maxLength\": 2048}, \"description\": \"Addresses of the "
            "files, http or https.\"}, "
            "\"timeout\": {\"type\": \"number\", \"minimum\": 0.1, \"maximum\": 300, \"default\": "
            "30, \"description\": \"Longest time for each file in seconds.\"}"
            "}, \"additionalProperties\": false}",
        .hints = TOOL_NETWORK,
        .handle = create_session_with_files,
    },
    {0},
};

struct tool_set kernel_set = {
    .name = "kernels",
    .tables = {tools, install_tools, package_tools}, // that server's kernels have matplotlib
    .templates = templates,
    .resource_read = resource_read,
    .resource_exists = resource_exists,
    .resource_complete = resource_complete,
};
