// SPDX-License-Identifier: Apache-2.0
//
// tool_execute: see tool_shared.h.  Asks for consent if configured, and turns arguments, which fit
// the schema, into the plan of a tool run.  Called by tools.c in the gate.

#include "mcp/tools/tool_shared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "exec/execute.h"
#include "mcp/protocol/bounds.h"
#include "mcp/tools/answer.h"
#include "mcp/tools/tool_schemas.h"
#include "run/network.h"

enum {
    CONSENT_ALWAYS = 1, // position in the choices of config.def
    SHOWN_LINES = 20,   // of the code, in a question
    SHOWN_CHARACTERS = 1500,
};

static int adapt_execute(const struct mcp *m, json_t *input_schema)
{
    json_t *timeout = json_object_get(json_object_get(input_schema, "properties"), "timeout");
    return json_object_set_new(timeout, "default",
                               bounds_seconds(bounds_timeout_ms(m->config, false)));
}

// ---- what several tools take --------------------------------------------------------------------

const char *tool_string(struct mcp_call *c, json_t *arguments, const char *name)
{
    json_t *value = json_object_get(arguments, name);
    const char *text = json_string_value(value);
    if (text && strlen(text) == json_string_length(value))
        return text;
    tool_error(c, err_code_name(ERR_BAD_VALUE), "remove it",
               "argument '%s' has a NUL character in it", name);
    return NULL;
}

void tool_session_plan(const struct mcp *m, json_t *arguments, struct session_plan *ret)
{
    const struct config *config = m->config;
    json_t *memory = json_object_get(arguments, "memory_mb");
    const char *name = json_string_value(json_object_get(arguments, "name"));
    session_plan_init(m->gate, ret);
    ret->wall_ms = bounds_milliseconds(arguments, "timeout", bounds_timeout_ms(config, false));
    ret->cpu_ms = bounds_milliseconds(arguments, "cpu_seconds", 0);
    ret->idle_ms = bounds_milliseconds(arguments, "idle_timeout", ret->idle_ms);
    if (memory)
        ret->limits.memory_bytes = (uint64_t)json_number_value(memory) * TEXT_MIB;
    if (name)
        snprintf(ret->name, sizeof ret->name, "%s", name);
    ret->checkpoint = json_is_true(json_object_get(arguments, "checkpoint"));
}

int tool_check_inputs(struct mcp_call *c, json_t *arguments)
{
    struct err e;
    json_t *files = json_object_get(arguments, "files"),
           *variables = json_object_get(arguments, "variables"),
           *env_vars = json_object_get(arguments, "env");
    if (!c->mcp->gate) {
        tool_error(c, err_code_name(ERR_INTERNAL), NULL, "this server cannot run code");
        return -1;
    }
    if ((files && exec_check_files(c->mcp->gate, files, &e) < 0) ||
        (variables && exec_check_variables(variables, &e) < 0) ||
        (env_vars && exec_check_env_vars(env_vars, &e) < 0)) {
        tool_error(c, err_code_name(e.code), e.hint, "%s", e.message);
        return -1;
    }
    return 0;
}

int tool_network(struct mcp_call *c, json_t *arguments, json_t **ret_rules)
{
    struct err e;
    if (network_parse(c->mcp->gate, c->owner, json_object_get(arguments, "network"), ret_rules,
                      &e) == 0)
        return 0;
    tool_error(c, err_code_name(e.code), e.hint, "argument 'network': %s", e.message);
    return -1;
}

// ---- execute_python -----------------------------------------------------------------------------

// The session that the arguments name, when it is open.
static struct session *open_session_of(const struct mcp_call *c, json_t *arguments)
{
    struct err e;
    const char *text = json_string_value(json_object_get(arguments, "session"));
    return text && c->mcp->gate ? session_find(c->mcp->gate, c->owner, text, &e) : NULL;
}

static uint64_t wall_ms_of(const struct mcp_call *c, json_t *arguments)
{
    const struct session *s = open_session_of(c, arguments);
    bool background = json_is_true(json_object_get(arguments, "background"));
    uint64_t fallback_ms = bounds_timeout_ms(c->mcp->config, background);
    if (s && !background)
        fallback_ms = s->plan.wall_ms;
    return bounds_milliseconds(arguments, "timeout", fallback_ms);
}

// Fills in a request from the arguments.  -1: the call was answered; the caller clears it in any
// case.
static int read_request(struct mcp_call *c, json_t *arguments, struct exec_request *ret)
{
    struct err e;
    if (!c->mcp->gate)
        tool_error(c, err_code_name(ERR_INTERNAL), NULL, "this server cannot run code");
    else if (execute_read(c->mcp->gate, c->owner, arguments, EXECUTE_TOOL, ret, &e) < 0)
        tool_error(c, err_code_name(e.code), e.hint, "%s", e.message);
    else
        return 0;
    return -1;
}

static bool can_ask(const struct mcp_call *c)
{
    json_t *modes = json_object_get(c->capabilities, "elicitation");
    return mcp_client_can(c, "elicitation") &&
           !(json_object_get(modes, "url") && !json_object_get(modes, "form"));
}

// A modern call or a task would have to end, or pause, while its code goes on.
static void add_person(struct mcp_call *c, json_t *arguments, struct exec_request *q)
{
    bool background = json_is_true(json_object_get(arguments, "background"));
    if (!json_is_true(json_object_get(arguments, "interactive")))
        return;
    if (c->client && !c->modern && !c->task && !background && can_ask(c)) {
        q->has_stdin = q->stdin_open = true;
        q->on_ask = tool_run_ask;
    } else {
        q->no_stdin =
            "EOF when reading a line: a person cannot be asked in this call; pass the input "
            "as 'stdin'";
    }
}

static void execute(struct mcp_call *c)
{
    const struct config *config = c->mcp->config;
    json_t *arguments = tool_arguments(c);
    const struct session *s = open_session_of(c, arguments);
    struct session_plan fresh;
    struct tool_run_plan plan = {.arguments = arguments,
                                 .background =
                                     json_is_true(json_object_get(arguments, "background"))};
    struct exec_request *q = &plan.request;
    if (read_request(c, arguments, q) < 0) {
        exec_request_clear(q);
        return;
    }
    add_person(c, arguments, q);
    tool_session_plan(c->mcp, arguments, &fresh);
    q->plan = &fresh;
    q->wall_ms = wall_ms_of(c, arguments);
    q->output_bytes = s ? s->plan.output_bytes : config->output_bytes;
    tool_run_start(c, &plan);
}

// The first lines of the code, for the person who decides.
static json_t *question_text(const struct mcp_call *c, const char *code, size_t length,
                             const json_t *rules)
{
    char reach[NETWORK_TEXT_MAX];
    network_describe(c->mcp->gate, c->owner, rules, reach);
    size_t at = 0;
    for (int lines = 0; at < length && lines < SHOWN_LINES; at++)
        lines += code[at] == '\n';
    size_t more = 0, clean = 0;
    for (size_t i = at; i < length; i++)
        more += code[i] == '\n' || i + 1 == length;
    _cleanup_free_ char *shown = answer_clean(code, at, true, &clean);
    json_auto_t *head = shown ? answer_clip(shown, clean, SHOWN_CHARACTERS) : NULL;
    json_t *text = head ? json_sprintf("Run this Python code in an isolated box %s%s?\n\n%s",
                                       reach[0] ? "that may reach " : "without network", reach,
                                       json_string_value(head))
                        : NULL;
    if (text && more) {
        json_t *longer = json_sprintf("%s\n... and %zu more lines", json_string_value(text), more);
        json_decref(text);
        text = longer;
    }
    return text;
}

bool tool_has_consent(struct mcp_call *c, json_t *answers)
{
    if (c->mcp->config->consent != CONSENT_ALWAYS)
        return true;
    json_t *answer = json_object_get(answers, "approve");
    const char *action = json_string_value(json_object_get(answer, "action"));
    json_t *yes = json_object_get(json_object_get(answer, "content"), "approve");
    if (action && strcmp(action, "accept") == 0 && json_is_true(yes))
        return true;
    tool_error(c, "consent_declined", "do not run it again unless the person asks for it",
               "the person at the client did not approve this run; nothing was run");
    return false;
}

static void consented(struct mcp_call *c, json_t *answers)
{
    if (tool_has_consent(c, answers))
        execute(c);
}

void tool_ask_consent(struct mcp_call *c, json_t *code, const json_t *rules,
                      void (*then)(struct mcp_call *c, json_t *answers))
{
    if (c->mcp->config->consent != CONSENT_ALWAYS) {
        then(c, NULL);
        return;
    }
    if (!can_ask(c)) {
        tool_error(c, "consent_unavailable",
                   "use a client that supports elicitation, or start the server with "
                   "--consent never",
                   "this server needs a person's consent for each run, and this client cannot ask "
                   "for it; nothing was run");
        return;
    }
    struct mcp_question question = {
        .key = "approve",
        .method = "elicitation/create",
        .params =
            json_pack("{s:o, s:{s:s, s:{s:{s:s, s:s, s:s, s:b}}, s:[s]}}", "message",
                      question_text(c, json_string_value(code), json_string_length(code), rules),
                      "requestedSchema", "type", "object", "properties", "approve", "type",
                      "boolean", "title", "Run it", "description",
                      "Allow this code to run in the box", "default", 0, "required", "approve"),
    };
    if (!question.params) {
        tool_error(c, err_code_name(ERR_SYSTEM), "try again later", "the server is out of memory");
        return;
    }
    // SECURITY: the state binds the answer to this code; an answer without it does not count.
    if (!json_is_true(json_object_get(c->state, "consent")))
        c->answers = NULL;
    mcp_ask(c, &question, 1, json_pack("{s:b}", "consent", 1), then);
}

// The memory of a session is fixed; asking for another value is an error.
static bool memory_fits(struct mcp_call *c, json_t *arguments)
{
    json_t *wanted = json_object_get(arguments, "memory_mb");
    const struct session *s = wanted ? open_session_of(c, arguments) : NULL;
    if (!s || s->plan.limits.memory_bytes == (uint64_t)json_number_value(wanted) * TEXT_MIB)
        return true;
    tool_error(
        c, err_code_name(ERR_BAD_VALUE), "leave memory_mb out, or open another session with it",
        "argument 'memory_mb': this session was opened with %llu MiB, which cannot be changed",
        (unsigned long long)(s->plan.limits.memory_bytes / TEXT_MIB));
    return false;
}

static void execute_python(struct mcp_call *c, json_t *arguments)
{
    // Read for its errors, before a person is asked; execute() reads it again.
    _cleanup_(exec_request_clear) struct exec_request checked = {0};
    if (read_request(c, arguments, &checked) == 0 && memory_fits(c, arguments))
        tool_ask_consent(c, json_object_get(arguments, "code"), checked.network, consented);
}

static bool is_long(const struct mcp_call *c, json_t *arguments)
{
    return !json_is_true(json_object_get(arguments, "background")) &&
           wall_ms_of(c, arguments) > BOUNDS_ANSWER_MS;
}

// ---- check_run ----------------------------------------------------------------------------------

static void check_run(struct mcp_call *c, json_t *arguments)
{
    tool_run_check(c, json_string_value(json_object_get(arguments, "execution_id")),
                   bounds_milliseconds(arguments, "wait", 0));
}

// ---- the table ----------------------------------------------------------------------------------

const struct mcp_tool run_tools[] = {
    {
        .name = "execute_python",
        .title = "Run Python code",
        .description =
            "Run Python code in an isolated box. Returns stdout, stderr, the value of the "
            "last expression, figures and tables, errors with their line, and links to files "
            "written to the working folder /mnt/data. Without 'session' each call is a fresh "
            "interpreter, so send complete code; with session='any name' variables, imports and "
            "files stay between calls, as in a notebook, and the answer lists changed "
            "variables. 'files' and 'variables' bring data in; install_package or 'packages' "
            "add libraries. Long output is shortened in the middle; the answer links to all of "
            "it. For code that needs more than 50 seconds, pass background=true and fetch the "
            "result with check_run. get_sandbox_info lists limits and preloaded modules.",
        .input = {execute_rows, EXECUTE_TOOL},
        .output_schema = tool_run_schema,
        .hints = TOOL_NETWORK, // changes nothing else outside its box
        .task = TOOL_TASK_LONG,
        .is_long = is_long,
        .handle = execute_python,
        .adapt = adapt_execute,
    },
    {
        .name = "check_run",
        .title = "Check a background run",
        .description =
            "Get the state and output of a run that execute_python started with "
            "background=true: its output so far, or the whole result when finished. 'wait' "
            "waits for the end. Results can be fetched for one hour.",
        .input_schema = check_input,
        .output_schema = tool_run_schema,
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .handle = check_run,
    },
    {0},
};
