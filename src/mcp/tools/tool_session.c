// SPDX-License-Identifier: Apache-2.0
//
// tool_session: tools for sessions: open, list, interrupt, close, checkpoint, undo, fork.  See
// tool_shared.h.  Called by tools.c in the gate.  SECURITY: session_find() checks the owner first,
// so another owner's session gets the same answer as an unknown one.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "env/envs.h"
#include "exec/exec.h"
#include "mcp/protocol/bounds.h"
#include "mcp/tools/schema_words.h"
#include "mcp/tools/tool_shared.h"
#include "run/gate.h"
#include "session/session.h"

enum { IDLE_MAX_MS = 3600 * 1000 };

// ---- what all of them do ------------------------------------------------------------------------

static void refuse(struct mcp_call *c, const struct err *e)
{
    tool_error(c, err_code_name(e->code), e->hint, "%s", e->message);
}

static bool has_sessions(struct mcp_call *c)
{
    if (c->mcp->gate && c->mcp->gate->sessions)
        return true;
    tool_error(c, err_code_name(ERR_INTERNAL), NULL, "this server has no sessions");
    return false;
}

// The session that argument `session` names; NULL: the call was answered.
static struct session *find(struct mcp_call *c, json_t *arguments)
{
    struct err e;
    const char *text = has_sessions(c) ? tool_string(c, arguments, "session") : NULL;
    struct session *s = text ? session_find(c->mcp->gate, c->owner, text, &e) : NULL;
    if (text && !s) {
        (void)err_wrap(&e, "argument 'session'");
        refuse(c, &e);
    }
    return s;
}

// Name, if any, and handle.
static void write_names(FILE *f, json_t *o)
{
    const char *name = json_string_value(json_object_get(o, "name"));
    const char *id = json_string_value(json_object_get(o, "session"));
    char shown[SESSION_NAME_MAX + 1];
    snprintf(shown, sizeof shown, "%s", name ? name : "");
    text_sanitize(shown);
    if (name)
        fprintf(f, "'%s' (%s)", shown, id ? id : "?");
    else
        fputs(id ? id : "?", f);
}

// Answers with an object and the text that `write` makes of it.  Takes the object.
static void answer(struct mcp_call *c, json_t *object, void (*write)(FILE *f, json_t *object))
{
    _cleanup_free_ char *text = NULL;
    size_t length = 0;
    FILE *f = object ? open_memstream(&text, &length) : NULL;
    if (f) {
        write(f, object);
        if (fclose(f) != 0)
            length = 0;
    }
    while (length > 0 && text[length - 1] == '\n')
        length--;
    tool_answer(c, length ? json_pack("[o]", tool_text_n(text, length)) : NULL, object, false);
}

// ---- open_session -------------------------------------------------------------------------------

// A call that waits for its session, then for its files and variables.
struct opening {
    struct mcp_call *call; // NULL: it was cancelled
    char id[SESSION_ID_SIZE];
    struct exec *exec;
    struct env_wait *need; // packages come first
};

// The hosts that its code may reach.
static void write_network(FILE *f, json_t *network)
{
    enum { FEW = 4 };
    json_t *allow = json_object_get(network, "allow"), *rule;
    size_t i, more = (size_t)json_integer_value(json_object_get(network, "allow_omitted"));
    if (!json_is_object(network)) {
        fputs(" It has no network.", f);
        return;
    }
    fputs(" It may reach ", f);
    json_array_foreach (allow, i, rule) {
        json_t *host = json_is_string(rule) ? rule : json_object_get(rule, "host");
        if (i < FEW)
            fprintf(f, "%s%s", i ? ", " : "",
                    json_string_value(host) ? json_string_value(host) : "?");
        else
            more++;
    }
    if (more)
        fprintf(f, " and %zu more", more);
    fputc('.', f);
}

static void write_opened(FILE *f, json_t *o)
{
    json_t *limits = json_object_get(o, "limits");
    const char *name = json_string_value(json_object_get(o, "name"));
    const char *id = json_string_value(json_object_get(o, "session"));
    fputs("opened session ", f);
    write_names(f, o);
    fprintf(f, "\nPass session=\"%s\" to execute_python, write_file and the other tools.\n",
            name ? name : id);
    fprintf(
        f,
        "It ends when it is not used for %.10g s. Each run: %.10g s of time, %.10g s of processor "
        "time; memory: %.0f MiB.",
        json_number_value(json_object_get(limits, "idle_timeout")),
        json_number_value(json_object_get(limits, "timeout")),
        json_number_value(json_object_get(limits, "cpu_seconds")),
        json_number_value(json_object_get(limits, "memory_bytes")) / (double)TEXT_MIB);
    if (json_is_true(json_object_get(o, "checkpoint")))
        fputs(" A checkpoint is made before every run: undo_session goes back.", f);
    write_network(f, json_object_get(o, "network"));
    json_t *back = json_object_get(o, "restored_files");
    if (back)
        fprintf(f, " %d of its files are back in /mnt/data; variables and imports are gone.",
                (int)json_integer_value(back));
}

static struct mcp_call *end_opening(struct opening *w)
{
    struct mcp_call *c = w->call;
    exec_free(w->exec);
    free(w);
    if (c) {
        c->work = NULL;
        c->cancel = NULL;
    }
    return c;
}

static void close_by_id(struct gate *g, const char *owner, const char *id)
{
    struct err e;
    struct session *s = session_find(g, owner, id, &e);
    if (s)
        session_close(s, SESSION_CLOSED);
}

// Files and variables are in place; on failure the session is closed.
static void on_luggage(struct exec *x)
{
    struct opening *w = x->request.argument;
    struct gate *g = x->gate;
    char owner[MCP_OWNER_MAX + 1], id[SESSION_ID_SIZE];
    struct err e = x->error, gone;
    snprintf(owner, sizeof owner, "%s", x->owner);
    memcpy(id, w->id, sizeof id);
    if (!e.message[0] && x->result.verdict != VERDICT_OK)
        err_set(&e, ERR_BAD_VALUE, 0, x->result.hint,
                "files and variables could not be put into the session: %s",
                result_verdict_name(x->result.verdict));
    struct mcp_call *c = end_opening(w);
    if (e.message[0] || !c)
        close_by_id(g, owner, id);
    if (!c)
        return;
    const struct session *s = e.message[0] ? NULL : session_find(g, owner, id, &gone);
    if (s)
        answer(c, session_json(s), write_opened);
    else
        refuse(c, e.message[0] ? &e : &gone);
}

static void on_open(struct session *s, const struct err *error, void *argument)
{
    struct opening *w = argument;
    json_t *arguments = w->call ? tool_arguments(w->call) : NULL;
    json_t *files = json_object_get(arguments, "files"),
           *variables = json_object_get(arguments, "variables"),
           *env_vars = json_object_get(arguments, "env");
    struct mcp_call *c;
    if (!s) {
        c = end_opening(w);
        if (c)
            refuse(c, error);
        return;
    }
    if (!json_array_size(files) && !json_object_size(variables) && !json_object_size(env_vars)) {
        c = end_opening(w);
        if (c)
            answer(c, session_json(s), write_opened);
        return;
    }
    struct exec_request request = {
        .owner = s->owner,
        .code = "",
        .session = w->id,
        .session_must_exist = true,
        .files = json_array_size(files) ? json_incref(files) : NULL,
        .variables = json_object_size(variables) ? json_incref(variables) : NULL,
        .env_vars = json_object_size(env_vars) ? json_incref(env_vars) : NULL,
        .keep_env_vars = json_object_size(env_vars) > 0,
        .on_done = on_luggage,
        .argument = w};
    w->exec = exec_start(w->call->mcp->gate, &request);
    if (w->exec)
        return;
    c = end_opening(w);
    tool_error(c, err_code_name(ERR_SYSTEM), "close it, and try again later",
               "session '%s' was opened, but the server is out of memory for its files", s->id);
}

static void cancel_opening(struct mcp_call *c)
{
    struct opening *w = c->work;
    w->call = NULL;
    if (w->need) {
        envs_need_cancel(w->need); // no session yet
        (void)end_opening(w);
    } else if (w->exec)
        exec_cancel(w->exec); // on_luggage() follows
    else
        close_by_id(c->mcp->gate, c->owner, w->id); // on_open() follows
}

// Takes `w`.
static void begin_opening(struct mcp_call *c, struct opening *w, const char *environment)
{
    struct err e;
    struct session_plan plan;
    json_t *network;
    if (tool_network(c, tool_arguments(c), &network) < 0) {
        free(w);
        return;
    }
    tool_session_plan(c->mcp, tool_arguments(c), &plan);
    plan.network = network;
    if (environment)
        snprintf(plan.environment, sizeof plan.environment, "%s", environment);
    const struct session *s = session_open(c->mcp->gate, c->owner, &plan, on_open, w, &e);
    json_decref(network); // the session has a copy
    if (!s) {
        free(w);
        refuse(c, &e);
        return;
    }
    w->call = c;
    memcpy(w->id, s->id, sizeof w->id);
    c->work = w;
    c->cancel = cancel_opening;
}

static void on_packages(const char *name, const struct err *e, void *argument)
{
    struct opening *w = argument;
    struct mcp_call *c = w->call;
    w->need = NULL;
    c->work = NULL;
    c->cancel = NULL;
    if (name) {
        begin_opening(c, w, name);
        return;
    }
    free(w);
    refuse(c, e);
}

// The environment is ready, if one was named.
static bool knows_environment(struct mcp_call *c, const char *environment)
{
    struct err e;
    json_t *path = NULL;
    if (!environment || envs_path(c->mcp->gate, c->owner, environment, &path, &e) == 0) {
        json_decref(path);
        return true;
    }
    (void)err_wrap(&e, "argument 'environment'");
    refuse(c, &e);
    return false;
}

static void open_session(struct mcp_call *c, json_t *arguments)
{
    struct err e;
    const char *environment;
    json_t *name = json_object_get(arguments, "name"), *network, *packages;
    if (!has_sessions(c) || tool_check_inputs(c, arguments) < 0)
        return;
    if (name && !session_is_handle(json_string_value(name)) &&
        session_check_name(json_string_value(name), json_string_length(name), &e) < 0) {
        (void)err_wrap(&e, "argument 'name'");
        refuse(c, &e);
        return;
    }
    if (tool_network(c, arguments, &network) < 0)
        return;
    json_decref(network); // it was only checked
    if (tool_packages(c, arguments, &environment, &packages) < 0 ||
        !knows_environment(c, environment))
        return;
    struct opening *w = calloc(1, sizeof *w);
    if (w && !packages) {
        begin_opening(c, w, environment);
        return;
    }
    if (w)
        w->need = envs_need(c->mcp->gate, c->owner, packages, on_packages, w);
    json_decref(packages);
    if (!w || !w->need) {
        free(w);
        tool_error(c, err_code_name(ERR_SYSTEM), "try again later", "the server is out of memory");
        return;
    }
    w->call = c;
    c->work = w;
    c->cancel = cancel_opening;
}

// ---- list, interrupt, close ---------------------------------------------------------------------

static void write_list(FILE *f, json_t *o)
{
    json_t *item, *open = json_object_get(o, "sessions"), *ended = json_object_get(o, "ended");
    size_t i;
    if (json_array_size(open) == 0)
        fputs("no session is open\n", f);
    json_array_foreach (open, i, item) {
        json_t *left = json_object_get(item, "expires_in_seconds");
        write_names(f, item);
        fprintf(f, ": %s, %d runs", json_string_value(json_object_get(item, "state")),
                (int)json_integer_value(json_object_get(item, "execution_count")));
        if (json_is_number(left))
            fprintf(f, ", ends in %.0f s unless it is used", json_number_value(left));
        fputc('\n', f);
    }
    json_array_foreach (ended, i, item) {
        fputs(i ? "" : "ended lately:\n", f);
        write_names(f, item);
        fprintf(f, " %s, %.0f s ago\n", json_string_value(json_object_get(item, "reason")),
                json_number_value(json_object_get(item, "seconds_ago")));
    }
}

static void list_sessions(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    if (has_sessions(c))
        answer(c, sessions_json(c->mcp->gate, c->owner), write_list);
}

static void write_interrupted(FILE *f, json_t *o)
{
    fputs(json_is_true(json_object_get(o, "interrupted"))
              ? "interrupted: the code gets a KeyboardInterrupt; if it stops soon the session "
                "keeps its "
                "variables; the answer of its run tells"
              : "no code runs in the session; nothing to interrupt",
          f);
}

static void interrupt_session(struct mcp_call *c, json_t *arguments)
{
    struct err e;
    struct session *s = find(c, arguments);
    if (!s)
        return;
    char id[SESSION_ID_SIZE];
    memcpy(id, s->id, sizeof id);
    int r = session_interrupt(s, &e);
    answer(c, json_pack("{s:s, s:b}", "session", id, "interrupted", r == 0), write_interrupted);
}

static void write_closed(FILE *f, json_t *o)
{
    fprintf(f,
            "closed session %s; its variables are gone, files that were announced can be fetched "
            "until their time is over",
            json_string_value(json_object_get(o, "session")));
}

static void close_session(struct mcp_call *c, json_t *arguments)
{
    struct session *s = find(c, arguments);
    if (!s)
        return;
    json_t *o = json_pack("{s:s, s:s?, s:b}", "session", s->id, "name",
                          s->plan.name[0] ? s->plan.name : NULL, "closed", 1);
    session_close(s, SESSION_CLOSED);
    answer(c, o, write_closed);
}

// ---- back in time -------------------------------------------------------------------------------

static void start(struct mcp_call *c, json_t *arguments, enum exec_action action, const char *name,
                  unsigned steps)
{
    struct session *s = find(c, arguments);
    if (!s)
        return;
    struct tool_run_plan plan = {
        .arguments = arguments,
        .request = {.action = action,
                    .code = "",
                    .session = json_string_value(json_object_get(arguments, "session")),
                    .session_must_exist = true,
                    .checkpoint = name,
                    .steps = steps,
                    .collect = action == EXEC_UNDO}};
    tool_run_start(c, &plan);
}

// An optional argument: 0 and NULL if missing; -1: the call was answered.
static int optional(struct mcp_call *c, json_t *arguments, const char *name, const char **ret)
{
    *ret = NULL;
    if (!json_object_get(arguments, name))
        return 0;
    *ret = tool_string(c, arguments, name);
    return *ret ? 0 : -1;
}

static void checkpoint_session(struct mcp_call *c, json_t *arguments)
{
    const char *name;
    if (optional(c, arguments, "name", &name) == 0)
        start(c, arguments, EXEC_CHECKPOINT, name, 0);
}

static void undo_session(struct mcp_call *c, json_t *arguments)
{
    const char *name;
    json_t *steps = json_object_get(arguments, "steps");
    if (optional(c, arguments, "checkpoint", &name) < 0)
        return;
    if (name && steps) {
        tool_error(c, err_code_name(ERR_BAD_VALUE), "leave one of them out",
                   "arguments 'steps' and 'checkpoint' exclude each other");
        return;
    }
    start(c, arguments, EXEC_UNDO, name, name ? 0 : steps ? (unsigned)json_number_value(steps) : 1);
}

static void fork_session(struct mcp_call *c, json_t *arguments)
{
    const char *name;
    struct err e;
    if (!has_sessions(c) || optional(c, arguments, "name", &name) < 0)
        return;
    if (name && session_check_name(name, strlen(name), &e) < 0) {
        (void)err_wrap(&e, "argument 'name'");
        refuse(c, &e);
    } else if (name && session_find(c->mcp->gate, c->owner, name, &e)) {
        tool_error(c, err_code_name(ERR_BAD_VALUE), "close that one first, or take another name",
                   "argument 'name': a session '%s' is open already", name);
    } else {
        start(c, arguments, EXEC_FORK, name, 0);
    }
}

// ---- schemas ------------------------------------------------------------------------------------

// clang-format off

#define INPUT(required, fields)                                                                    \
    "{\"type\": \"object\", \"properties\": {" fields "}, \"required\": [" required "], "          \
    "\"additionalProperties\": false}"
#define SESSION SESSION_ARGUMENT("Handle or name of the session.")
#define NAME_ARGUMENT(text)                                                                        \
    "\"name\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 128, \"description\": \"" \
        text "\"}"

static const char open_input[] = INPUT("",
    NAME_ARGUMENT("Any name, unique among your open sessions; or the handle of a session that "
                  "ended, to open it again with its files.") ", "
    ENVIRONMENT_ARGUMENT("Environment from create_python_env; default base. Packages installed "
        "later can be "
        "imported at once.") ", "
    PACKAGES_ARGUMENT("Packages, such as \\\"pandas matplotlib>=3\\\" or a list, instead of "
        "environment: an "
        "environment with exactly these is made once and found again later.") ", "
    "\"idle_timeout\": {\"type\": \"number\", \"minimum\": 1, \"description\": \"Seconds without "
        "a run after "
        "which it ends.\"}, "
    "\"timeout\": {\"type\": \"number\", \"minimum\": 0.1, \"description\": \"Default wall time "
        "limit of a run, "
        "in seconds.\"}, "
    "\"memory_mb\": {\"type\": \"integer\", \"minimum\": 16, \"description\": \"Memory limit in "
        "MiB, including "
        "files in /mnt/data.\"}, "
    "\"cpu_seconds\": {\"type\": \"number\", \"minimum\": 0.1, \"description\": \"Default CPU "
        "time limit of a "
        "run, in seconds; when it is left out, all cores until the timeout.\"}, "
    "\"checkpoint\": {\"type\": \"boolean\", \"default\": false, \"description\": \"Make a "
        "checkpoint "
        "before every run, for undo_session.\"}, "
    FILES_ARGUMENT ", " VARIABLES_ARGUMENT ", " ENV_VARS_ARGUMENT ", "
    NETWORK_ARGUMENT("Hosts its code may reach, for its whole life:"));

static const char none_input[] = INPUT("", "");
static const char one_input[] = INPUT("\"session\"", SESSION);

static const char undo_input[] = INPUT("\"session\"",
    SESSION ", "
    "\"steps\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 64, \"description\": \"How "
        "many runs to "
        "undo; default 1.\"}, "
    "\"checkpoint\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 128, "
        "\"description\": \"Restore "
        "this named checkpoint instead.\"}");

static const char checkpoint_input[] = INPUT("\"session\"",
    SESSION ", " NAME_ARGUMENT("Name of the checkpoint, for undo_session."));

static const char fork_input[] = INPUT("\"session\"",
    SESSION ", " NAME_ARGUMENT("Any name for the copy."));

#define OPEN_FIELDS                                                                                \
    FIELD("session", STRING) ", " FIELD("name", NULLABLE(STRING)) ", "                             \
    FIELD("state", STRING) ", " FIELD("execution_count", INTEGER) ", " FIELD("waiting", \
        INTEGER) ", " \
    FIELD("created_at", NULLABLE(STRING)) ", " FIELD("last_used_at", NULLABLE(STRING)) ", "        \
    FIELD("expires_in_seconds", NULLABLE(NUMBER)) ", " FIELD("checkpoint", BOOLEAN) ", "           \
    FIELD("limits", MAP(NUMBER)) ", " FIELD("network", NETWORK) ", "                               \
    FIELD("environment", STRING) ", "                                                              \
    FIELD("restored_files", INTEGER) ", " FIELD("lost_files", INTEGER) ", "                        \
    FIELD("forked_from", NULLABLE(STRING))

static const char open_output[] = OBJECT("\"session\", \"state\", \"limits\"", OPEN_FIELDS);

static const char list_output[] = OBJECT("\"sessions\", \"ended\"",
    FIELD("sessions", LIST(OBJECT("\"session\", \"state\"", OPEN_FIELDS))) ", "
    FIELD("ended", LIST(OBJECT("\"session\", \"end\", \"reason\"",
        FIELD("session", STRING) ", " FIELD("name", NULLABLE(STRING)) ", "
        FIELD("end", STRING) ", " FIELD("reason", STRING) ", " FIELD("seconds_ago", NUMBER)))));

static const char interrupt_output[] = OBJECT("\"session\", \"interrupted\"",
    FIELD("session", STRING) ", " FIELD("interrupted", BOOLEAN));

static const char close_output[] = OBJECT("\"session\", \"closed\"",
    FIELD("session", STRING) ", " FIELD("name", NULLABLE(STRING)) ", " FIELD("closed", BOOLEAN));

// clang-format on

static int adapt_open(const struct mcp *m, json_t *input_schema)
{
    json_t *idle = json_object_get(json_object_get(input_schema, "properties"), "idle_timeout");
    uint64_t own_ms = m->config->session_idle_ms;
    return bounds_adapt(m->config, input_schema, true) |
           json_object_set_new(idle, "maximum",
                               bounds_seconds(bounds_larger(own_ms, IDLE_MAX_MS))) |
           json_object_set_new(idle, "default", bounds_seconds(own_ms));
}

// ---- the table ----------------------------------------------------------------------------------

const struct mcp_tool session_tools[] = {
    {
        .name = "open_session",
        .title = "Open a session",
        .description =
            "Open a session: a Python interpreter that keeps variables, imports and files "
            "between calls of execute_python. Needed only to set limits, an idle time, "
            "checkpoints or initial files; execute_python opens a session when given a name. "
            "Returns its handle. A session ends after its idle time, or as the longest idle one "
            "when there are too many. With the handle of a session that ended as `name`, it is "
            "opened again with its files, without its variables.",
        .input_schema = open_input,
        .output_schema = open_output,
        .hints = TOOL_NETWORK,
        .handle = open_session,
        .adapt = adapt_open,
    },
    {
        .name = "list_sessions",
        .title = "List sessions",
        .description =
            "List your open sessions with handle, name, state, number of runs and time until "
            "they end, and recently ended ones with the reason.",
        .input_schema = none_input,
        .output_schema = list_output,
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .handle = list_sessions,
    },
    {
        .name = "interrupt_session",
        .title = "Interrupt a session",
        .description =
            "Interrupt the code running in a session, as Ctrl-C does: it gets a "
            "KeyboardInterrupt, and the session keeps its variables. Code that does not stop "
            "within the grace time is ended together with its session.",
        .input_schema = one_input,
        .output_schema = interrupt_output,
        .hints = TOOL_IDEMPOTENT,
        .handle = interrupt_session,
    },
    {
        .name = "close_session",
        .title = "Close a session",
        .description =
            "End a session: running and waiting code is stopped, variables and files are gone. "
            "Files already linked can be fetched until they expire.",
        .input_schema = one_input,
        .output_schema = close_output,
        .hints = TOOL_DESTRUCTIVE,
        .handle = close_session,
    },
    {
        .name = "checkpoint_session",
        .title = "Make a checkpoint",
        .description =
            "Save the variables and files of a session so that undo_session can restore them, "
            "by name if one is given. Returns the reason when that is not possible, for example "
            "while threads run.",
        .input_schema = checkpoint_input,
        .output_schema = tool_run_schema,
        .handle = checkpoint_session,
    },
    {
        .name = "undo_session",
        .title = "Undo runs of a session",
        .description =
            "Undo the last runs of a session: restores variables and files. Needs checkpoints: "
            "open_session with checkpoint=true makes one before every run, checkpoint_session "
            "makes one now.",
        .input_schema = undo_input,
        .output_schema = tool_run_schema,
        .hints = TOOL_DESTRUCTIVE,
        .handle = undo_session,
    },
    {
        .name = "fork_session",
        .title = "Fork a session",
        .description =
            "Copy a session with its variables and files, to try something without touching the "
            "original. Returns the handle of the copy.",
        .input_schema = fork_input,
        .output_schema = tool_run_schema,
        .handle = fork_session,
    },
    {0},
};
