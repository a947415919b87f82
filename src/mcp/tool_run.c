// SPDX-License-Identifier: Apache-2.0
//
// tool_run: see tool_run.h.  Turns arguments, which fit the schema, into the plan of a job; asks for
// consent before when the configuration wants it.  Called by tools.c in the gate.

#include "mcp/tool_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "gate/gate.h"
#include "gate/result.h"
#include "gate/source.h"
#include "keeper/keeper.h"
#include "mcp/shape.h"
#include "mcp/tool_schemas.h"

enum {
    ANSWER_MS = 50000,  // clients give up after 60 s, many without being asked
    CONSENT_ALWAYS = 1, // position in the choices of config.def
    SHOWN_LINES = 20,   // of the code, in a question
    SHOWN_CHARACTERS = 1500,
};

// ---- bounds --------------------------------------------------------------------------------------

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t timeout_max_ms(const struct config *c)
{
    return larger(c->timeout_max_ms, c->wall_ms);
}

static uint64_t timeout_default_ms(const struct config *c, bool background)
{
    if (background)
        return timeout_max_ms(c); // nobody waits for it
    return c->wall_ms < ANSWER_MS ? c->wall_ms : ANSWER_MS;
}

static uint64_t memory_max_bytes(const struct config *c)
{
    return larger(c->memory_max_bytes, c->memory_bytes);
}

// A number without a point where it has no fraction: 30, 0.5.
static json_t *seconds(uint64_t ms)
{
    return ms % 1000 ? json_real((double)ms / 1000) : json_integer((json_int_t)(ms / 1000));
}

static int set_bounds(json_t *properties, const char *name, json_t *maximum, json_t *fallback)
{
    json_t *property = json_object_get(properties, name);
    return json_object_set_new(property, "maximum", maximum) |
           json_object_set_new(property, "default", fallback);
}

static int adapt_execute(const struct mcp *m, json_t *input_schema)
{
    const struct config *c = m->config;
    json_t *properties = json_object_get(input_schema, "properties");
    return set_bounds(properties, "timeout", seconds(timeout_max_ms(c)),
                      seconds(timeout_default_ms(c, false))) |
           set_bounds(properties, "cpu_seconds", seconds(larger(timeout_max_ms(c), c->cpu_ms)),
                      seconds(c->cpu_ms)) |
           set_bounds(properties, "memory_mb",
                      json_integer((json_int_t)(memory_max_bytes(c) / TEXT_MIB)),
                      json_integer((json_int_t)(c->memory_bytes / TEXT_MIB)));
}

// ---- execute_python ------------------------------------------------------------------------------

static uint64_t milliseconds_of(json_t *arguments, const char *name, uint64_t fallback_ms)
{
    json_t *value = json_object_get(arguments, name);
    return value ? (uint64_t)(json_number_value(value) * 1000 + 0.5) : fallback_ms;
}

static json_t *make_argv(json_t *arguments)
{
    json_t *argv = json_pack("[s]", "<code>"), *item;
    size_t i;
    json_array_foreach(json_object_get(arguments, "args"), i, item)(void)
        json_array_append(argv, item);
    return argv;
}

static void execute(struct mcp_call *c)
{
    const struct config *config = c->mcp->config;
    json_t *arguments = tool_arguments(c), *code = json_object_get(arguments, "code");
    json_t *memory = json_object_get(arguments, "memory_mb");
    bool background = json_is_true(json_object_get(arguments, "background"));
    uint64_t wall_ms =
        milliseconds_of(arguments, "timeout", timeout_default_ms(config, background));
    struct job_plan plan = {
        .code = json_string_value(code),
        .code_length = json_string_length(code),
        .arguments = arguments,
        .argv = make_argv(arguments),
        .limits = keeper_limits(config),
        .wall_ms = wall_ms,
        // Who asks for more time wants to compute in it.
        .cpu_ms = milliseconds_of(arguments, "cpu_seconds", larger(config->cpu_ms, wall_ms)),
        .output_bytes = config->output_bytes,
        .background = background,
    };
    if (memory)
        plan.limits.memory_bytes = (uint64_t)json_number_value(memory) * TEXT_MIB;
    job_start(c, &plan);
}

// The first lines of the code, for a person who is to decide.
static json_t *question_text(const char *code, size_t length)
{
    size_t at = 0;
    for (int lines = 0; at < length && lines < SHOWN_LINES; at++)
        lines += code[at] == '\n';
    size_t more = 0, clean = 0;
    for (size_t i = at; i < length; i++)
        more += code[i] == '\n' || i + 1 == length;
    _cleanup_free_ char *shown = shape_clean(code, at, true, &clean);
    json_t *head = shown ? shape_clip(shown, clean, SHOWN_CHARACTERS) : NULL;
    json_t *text = head ? json_sprintf("Run this Python code in a sandbox without network?\n\n%s",
                                       json_string_value(head))
                        : NULL;
    if (text && more) {
        json_t *longer = json_sprintf("%s\n... and %zu more lines", json_string_value(text), more);
        json_decref(text);
        text = longer;
    }
    json_decref(head);
    return text;
}

static void consented(struct mcp_call *c, json_t *answers)
{
    json_t *answer = json_object_get(answers, "approve");
    const char *action = json_string_value(json_object_get(answer, "action"));
    json_t *yes = json_object_get(json_object_get(answer, "content"), "approve");
    if (action && strcmp(action, "accept") == 0 && json_is_true(yes))
        execute(c);
    else
        tool_error(c, "consent_declined", "do not run it again unless the person asks for it",
                   "the person at the client did not approve this run; nothing was run");
}

static bool can_ask(const struct mcp_call *c)
{
    json_t *modes = json_object_get(c->capabilities, "elicitation");
    return mcp_client_can(c, "elicitation") &&
           !(json_object_get(modes, "url") && !json_object_get(modes, "form"));
}

static void ask_consent(struct mcp_call *c, json_t *code)
{
    if (!can_ask(c)) {
        tool_error(c, "consent_unavailable",
                   "use a client that supports elicitation, or start the server with "
                   "--consent never",
                   "this server runs code only with a person's consent, and this client cannot ask "
                   "for it; nothing was run");
        return;
    }
    struct mcp_question question = {
        .key = "approve",
        .method = "elicitation/create",
        .params =
            json_pack("{s:o, s:{s:s, s:{s:{s:s, s:s, s:s, s:b}}, s:[s]}}", "message",
                      question_text(json_string_value(code), json_string_length(code)),
                      "requestedSchema", "type", "object", "properties", "approve", "type",
                      "boolean", "title", "Run it", "description",
                      "Allow this code to run in the sandbox", "default", 0, "required", "approve"),
    };
    if (!question.params) {
        tool_error(c, err_code_name(ERR_SYSTEM), "try again later", "the server is out of memory");
        return;
    }
    // The state binds the answer to this code; without it nobody was asked about this code yet.
    if (!json_is_true(json_object_get(c->state, "consent")))
        c->answers = NULL;
    mcp_ask(c, &question, 1, json_pack("{s:b}", "consent", 1), consented);
}

static void execute_python(struct mcp_call *c, json_t *arguments)
{
    struct err e;
    json_t *code = json_object_get(arguments, "code");
    if (source_check(json_string_value(code), json_string_length(code), "code",
                     c->mcp->config->source_bytes, &e) < 0)
        tool_error(c, err_code_name(e.code), e.hint, "%s", e.message);
    else if (c->mcp->config->consent == CONSENT_ALWAYS)
        ask_consent(c, code);
    else
        execute(c);
}

static bool is_long(const struct mcp_call *c, json_t *arguments)
{
    return !json_is_true(json_object_get(arguments, "background")) &&
           milliseconds_of(arguments, "timeout", timeout_default_ms(c->mcp->config, false)) >
               ANSWER_MS;
}

// ---- check_run -----------------------------------------------------------------------------------

static void check_run(struct mcp_call *c, json_t *arguments)
{
    job_check(c, json_string_value(json_object_get(arguments, "execution_id")),
              milliseconds_of(arguments, "wait", 0));
}

// ---- get_sandbox_info ----------------------------------------------------------------------------

static json_t *limits_json(const struct config *c)
{
    const struct {
        const char *name, *unit, *argument;
        uint64_t fallback, maximum;
        bool is_time;
    } table[] = {
        {"wall_time", "seconds", "timeout", timeout_default_ms(c, false), timeout_max_ms(c), true},
        {"cpu_time", "seconds", "cpu_seconds", c->cpu_ms, larger(timeout_max_ms(c), c->cpu_ms),
         true},
        {"memory", "MiB", "memory_mb", c->memory_bytes / TEXT_MIB, memory_max_bytes(c) / TEXT_MIB,
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
        json_t *fallback = table[i].is_time ? seconds(table[i].fallback)
                                            : json_integer((json_int_t)table[i].fallback);
        json_t *maximum = table[i].is_time ? seconds(table[i].maximum)
                                           : json_integer((json_int_t)table[i].maximum);
        (void)json_object_set_new(o, table[i].name,
                                  json_pack("{s:o, s:o, s:s, s:s?}", "default", fallback, "maximum",
                                            maximum, "unit", table[i].unit, "argument",
                                            table[i].argument));
    }
    return o;
}

json_t *tool_run_info(struct mcp *m)
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
        "uptime_seconds", (json_int_t)(tool_runs_uptime_ms(runs) / 1000), "network", 0,
        "working_folder", "/mnt/data", "limits", limits_json(m->config), "isolation",
        facts ? result_isolation(facts->caps) : json_object(), "tool_sets", mcp_tool_sets(m));
    if (!o)
        return NULL;
    int failed = json_object_set_new(
        o, "runs",
        json_pack("{s:i, s:i, s:i}", "running", m->gate ? (int)m->gate->running : 0, "background",
                  (int)tool_runs_background(runs), "background_maximum",
                  (int)tool_runs_background_max(m->gate)));
    if (facts && facts->interp)
        failed |= json_object_set_new(o, "python", result_environment(facts));
    if (failed) {
        json_decref(o);
        return NULL;
    }
    return o;
}

// The same as text: everything but what repeats itself, a line each.
static char *info_text(json_t *info)
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
    json_array_foreach(json_object_get(python, "preloaded"), i, item)
        fprintf(f, "%s %s", i ? "," : "", json_string_value(item) ? json_string_value(item) : "?");
    fputs(i ? "\n" : " none\n", f);
    json_array_foreach(json_object_get(python, "preload_failed"), i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));
        fprintf(f, "preload failed: %s\n", name ? name : "?");
    }
    fprintf(f, "network: none; working folder: %s; each run starts fresh\nlimits:\n",
            json_string_value(json_object_get(info, "working_folder")));
    json_object_foreach(json_object_get(info, "limits"), key, item)
    {
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
    json_object_foreach(json_object_get(info, "isolation"), key, item)
        fprintf(f, "  %s: %s\n", key, json_string_value(item));
    fputs("tool sets:", f);
    json_array_foreach(json_object_get(info, "tool_sets"), i, item)
        fprintf(f, " %s", json_string_value(item));
    item = json_object_get(info, "runs");
    fprintf(f, "\nruns: %d, in the background %d of at most %d",
            (int)json_integer_value(json_object_get(item, "running")),
            (int)json_integer_value(json_object_get(item, "background")),
            (int)json_integer_value(json_object_get(item, "background_maximum")));
    return fclose(f) == 0 ? text : (free(text), NULL);
}

// All that can change of the answer.
struct info_key {
    const struct mcp *mcp;
    int64_t uptime_s, state, running, background;
};

static struct info_key info_key(struct mcp *m)
{
    struct tool_runs *runs = mcp_tool_runs(m);
    return (struct info_key){.mcp = m,
                             .uptime_s = tool_runs_uptime_ms(runs) / 1000,
                             .state = m->gate ? (int64_t)m->gate->facts->state : -1,
                             .running = m->gate ? (int64_t)m->gate->running : 0,
                             .background = tool_runs_background(runs)};
}

static void get_sandbox_info(struct mcp_call *c, json_t *arguments)
{
    // Clients poll this one, and making its text takes ten times as long as sending it.
    static struct {
        struct info_key key;
        struct mcp_prepared answer;
    } last[MCP_VERSION_MAX];
    struct mcp_prepared *answer = &last[c->version].answer;
    struct info_key key = info_key(c->mcp);
    (void)arguments;
    if (!answer->text || memcmp(&key, &last[c->version].key, sizeof key) != 0) {
        json_t *info = tool_run_info(c->mcp);
        _cleanup_free_ char *text = info ? info_text(info) : NULL;
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

// ---- the table -----------------------------------------------------------------------------------

const struct mcp_tool run_tools[] = {
    {
        .name = "execute_python",
        .title = "Run Python code",
        .description =
            "Runs Python code in an isolated sandbox and returns stdout, stderr, the value of the "
            "last expression and any error with its line. Every call starts a fresh interpreter: "
            "variables and files do not survive it, so send complete code. There is no network and "
            "nothing can be installed during a run; files can be written below /mnt/data. Output "
            "that is too long is shortened in the middle, and the answer says where all of it can "
            "be read. For code that needs more than 50 seconds, pass background=true and fetch the "
            "result with check_run. get_sandbox_info tells limits and preloaded modules.",
        .input_schema = execute_input,
        .output_schema = run_output,
        .hints = 0, // changes nothing outside its own box, which is gone afterwards
        .sets = TOOLS_DEFAULT,
        .task = TOOL_TASK_LONG,
        .is_long = is_long,
        .handle = execute_python,
        .adapt = adapt_execute,
    },
    {
        .name = "check_run",
        .title = "Check a background run",
        .description =
            "State and output of a run that execute_python started with background=true: what it "
            "printed so far while it runs, the whole result when it is finished. 'wait' makes the "
            "call wait for the end of the run. Results can be fetched again for one hour.",
        .input_schema = check_input,
        .output_schema = run_output,
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .sets = TOOLS_DEFAULT,
        .handle = check_run,
    },
    {
        .name = "get_sandbox_info",
        .title = "Describe the sandbox",
        .description =
            "Tells what code can expect here: Python version, preloaded modules, limits with their "
            "defaults and the largest values that execute_python takes, isolation layers, tool "
            "sets, version and state of the server.",
        .input_schema = info_input,
        .output_schema = info_output,
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .sets = TOOLS_DEFAULT,
        .handle = get_sandbox_info,
    },
    {0},
};
