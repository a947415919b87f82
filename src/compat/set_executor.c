// SPDX-License-Identifier: Apache-2.0
// set_executor: the tool set 'executor': execute_python, install_package, list_installed_packages,
// reset_sandbox and get_sandbox_info, each with one text as its answer.  Code runs in a fresh box
// with the caller's environment "base", into which packages are installed until it is reset.  See
// sets.h. Called by tools.c in the gate. A failed run is an answer and not an error of the tool,
// because those clients read its text.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "compat/set_answer.h"
#include "compat/sets.h"
#include "env/env_words.h"
#include "env/envs.h"
#include "env/packages.h"
#include "mcp/protocol/bounds.h"
#include "mcp/tools/answer.h"
#include "mcp/tools/tool_env.h"
#include "run/source.h"

enum {
    TIMEOUT_MS = 60 * 1000, // unless a wall time is configured
    TIMEOUT_MIN_MS = 1000,
    TIMEOUT_MAX_MS = 300 * 1000,
    INSTALL_MS = 300 * 1000, // how long install_package waits
    RESET_MS = 60 * 1000,
};

// ---- execute_python -----------------------------------------------------------------------------

static uint64_t largest_ms(const struct config *c)
{
    uint64_t most = config_wall_max_ms(c);
    return most < TIMEOUT_MAX_MS ? most : TIMEOUT_MAX_MS;
}

static uint64_t default_ms(const struct config *c)
{
    bool given = c->origins[CONFIG_KEY_wall_ms].source != CONFIG_FROM_DEFAULT;
    uint64_t wall = given ? c->wall_ms : TIMEOUT_MS;
    return wall < largest_ms(c) ? wall : largest_ms(c);
}

// The wall time of a call, clamped to the bounds as that server does.
static uint64_t timeout_ms(const struct config *c, json_t *arguments)
{
    json_t *value = json_object_get(arguments, "timeout");
    double seconds = json_number_value(value);
    if (!value)
        return default_ms(c);
    if (seconds * 1000 < TIMEOUT_MIN_MS)
        return TIMEOUT_MIN_MS;
    return seconds * 1000 > (double)largest_ms(c) ? largest_ms(c) : (uint64_t)(seconds * 1000);
}

static bool is_clamped(const struct config *c, json_t *arguments)
{
    json_t *value = json_object_get(arguments, "timeout");
    return value && json_number_value(value) * 1000 != (double)timeout_ms(c, arguments);
}

// How a failed run ended, in one line.
static void say_status(FILE *f, json_t *object, uint64_t wall_ms)
{
    const char *verdict = json_string_value(json_object_get(object, "verdict"));
    const char *hint = json_string_value(json_object_get(object, "hint"));
    json_t *exit_code = json_object_get(object, "exit_code");
    if (!verdict || strcmp(verdict, "ok") == 0)
        return;
    fprintf(f, "[STATUS]: %s", verdict);
    if (strcmp(verdict, "timeout_wall") == 0)
        fprintf(
            f,
            ": execution timed out after %.10g seconds; the code and all its processes were ended",
            (double)wall_ms / 1000);
    else if (strcmp(verdict, "error") == 0 && json_is_integer(exit_code))
        fprintf(f, ", exit code %d%s%s", (int)json_integer_value(exit_code),
                hint ? "\n[HINT]: " : "", hint ? hint : "");
    else if (hint)
        fprintf(f, ": %s", hint);
    fputc('\n', f);
}

// Appends a part that begins on a new line and ends with a line feed.
static void say_part(FILE *f, const char *label, json_t *text, bool *at_start)
{
    size_t length = json_string_length(text);
    const char *bytes = json_string_value(text);
    if (!length)
        return;
    fprintf(f, "%s%s", *at_start ? "" : "\n", label);
    (void)fwrite(bytes, 1, length, f);
    *at_start = bytes[length - 1] == '\n';
}

static json_t *run_text(const struct config *c, json_t *arguments, json_t *object)
{
    _cleanup_free_ char *text = NULL;
    size_t length = 0;
    bool at_start = true;
    FILE *f = open_memstream(&text, &length);
    json_t *errors = f ? set_stderr(object) : NULL;
    if (!f)
        return NULL;
    say_part(f, "", json_object_get(object, "stdout"), &at_start);
    say_part(f, "[STDERR]:\n", errors, &at_start);
    json_decref(errors);
    bool well = json_is_true(json_object_get(object, "success")),
         clamped = is_clamped(c, arguments);
    if (well && ftell(f) == 0) {
        fputs("Code executed successfully (no output).", f);
        at_start = false;
    }
    if (!at_start && (!well || clamped))
        fputc('\n', f);
    say_status(f, object, timeout_ms(c, arguments));
    if (clamped)
        fprintf(f, "[NOTE]: timeout %.10g is not between %d and %d; %.10g seconds were used\n",
                json_number_value(json_object_get(arguments, "timeout")), TIMEOUT_MIN_MS / 1000,
                (int)(largest_ms(c) / 1000), (double)timeout_ms(c, arguments) / 1000);
    return fclose(f) == 0 ? json_stringn(text, length) : NULL;
}

static void present_run(struct mcp_call *c, json_t *arguments, json_t *object,
                        const struct err *error)
{
    const struct config *config = c->mcp->config;
    if (!object) {
        tool_env_refuse(c, error);
        return;
    }
    json_t *blocks = set_blocks(c, object), *text = run_text(config, arguments, object);
    if (is_clamped(config, arguments))
        (void)json_object_set_new(object, "timeout",
                                  json_pack("{s:O, s:o}", "requested",
                                            json_object_get(arguments, "timeout"), "used",
                                            bounds_seconds(timeout_ms(config, arguments))));
    set_say(c, text, blocks, json_incref(object), false);
}

static void execute(struct mcp_call *c, json_t *answers)
{
    if (!tool_has_consent(c, answers))
        return;
    const struct config *config = c->mcp->config;
    json_t *arguments = tool_arguments(c), *code = json_object_get(arguments, "code");
    uint64_t wall_ms = timeout_ms(config, arguments);
    struct session_plan fresh;
    session_plan_init(c->mcp->gate, &fresh);
    struct tool_run_plan plan = {.arguments = arguments,
                                 .present = present_run,
                                 .request = {
                                     .code = json_string_value(code),
                                     .code_length = json_string_length(code),
                                     .argv = json_pack("[s]", "<code>"),
                                     .limits = fresh.limits,
                                     .wall_ms = wall_ms,
                                     .output_bytes = config->output_bytes,
                                     .collect = true,
                                 }};
    tool_run_start(c, &plan);
}

static void execute_python(struct mcp_call *c, json_t *arguments)
{
    struct err e;
    json_t *code = json_object_get(arguments, "code");
    if (source_check(json_string_value(code), json_string_length(code), "code",
                     c->mcp->config->source_bytes, &e) < 0)
        tool_env_refuse(c, &e);
    else if (tool_env_has_gate(c))
        tool_ask_consent(c, code, NULL, execute);
}

static bool is_long(const struct mcp_call *c, json_t *arguments)
{
    return json_object_get(arguments, "timeout") &&
           timeout_ms(c->mcp->config, arguments) > BOUNDS_ANSWER_MS;
}

static int adapt_execute(const struct mcp *m, json_t *input_schema)
{
    json_t *timeout = json_object_get(json_object_get(input_schema, "properties"), "timeout");
    return json_object_set_new(timeout, "default", bounds_seconds(default_ms(m->config)));
}

// ---- install_package, reset_sandbox -------------------------------------------------------------

// "numpy-2.1.0 pandas-2.2.3", as pip writes it.
static void say_packages(FILE *f, json_t *packages)
{
    json_t *item;
    size_t i;
    json_array_foreach (packages, i, item)
        fprintf(f, " %s-%s", json_string_value(json_object_get(item, "name")),
                json_string_value(json_object_get(item, "version")));
}

static void say_words(FILE *f, json_t *status)
{
    _cleanup_free_ char *words = env_words_status(status);
    fputs(words ? words : "", f);
}

static json_t *install_text(const struct config *c, json_t *status)
{
    _cleanup_free_ char *text = NULL;
    size_t length = 0, i;
    json_t *item, *added = json_object_get(status, "added");
    FILE *f = open_memstream(&text, &length);
    if (!f)
        return NULL;
    if (!env_status_is_over(status)) {
        say_words(f, status);
        fputs("The installation continues; list_installed_packages shows when it is done.", f);
    } else if (!env_status_is_ready(status)) {
        fputs("Error: Failed to install packages; nothing was changed.\n", f);
        say_words(f, status);
    } else if (json_array_size(added)) {
        fputs("Successfully installed", f);
        say_packages(f, added);
    } else {
        fputs("Requirement already satisfied:", f);
        json_array_foreach (json_object_get(status, "requirements"), i, item)
            fprintf(f, "%s %s", i ? "," : "", json_string_value(item));
    }
    if (fclose(f) != 0)
        return NULL;
    while (length > 0 && text[length - 1] == '\n')
        length--;
    return answer_clip(text, length, c->text_budget);
}

static void present_install(struct mcp_call *c, json_t *arguments, json_t *status,
                            const struct err *error)
{
    (void)arguments;
    if (!status) {
        tool_env_refuse(c, error);
        return;
    }
    bool failed = env_status_is_over(status) && !env_status_is_ready(status);
    set_say(c, install_text(c->mcp->config, status), NULL, json_incref(status), failed);
}

static void install_package(struct mcp_call *c, json_t *arguments)
{
    json_auto_t *requirements = tool_env_has_gate(c) ? tool_env_requirements(c, arguments) : NULL;
    if (!requirements)
        return;
    struct env_job_plan request = {
        .change = ENV_INSTALL, .name = ENV_BASE, .requirements = requirements};
    tool_env_install(c, arguments, &request, INSTALL_MS, present_install);
}

static void present_reset(struct mcp_call *c, json_t *arguments, json_t *status,
                          const struct err *error)
{
    (void)arguments;
    if (!status) {
        tool_env_refuse(c, error);
        return;
    }
    bool failed = env_status_is_over(status) && !env_status_is_ready(status);
    if (!failed && env_status_is_over(status))
        set_say(c, json_string("Sandbox environment has been reset successfully."), NULL,
                json_incref(status), false);
    else
        tool_env_answer_status(c, status, "");
}

static void reset_sandbox(struct mcp_call *c, json_t *arguments)
{
    struct env_job_plan request = {.change = ENV_RESET, .name = ENV_BASE};
    if (tool_env_has_gate(c))
        tool_env_install(c, arguments, &request, RESET_MS, present_reset);
}

// ---- list_installed_packages --------------------------------------------------------------------

struct listing {
    struct mcp_call *call;
    struct packages *packages;
};

static void cancel_listing(struct mcp_call *c)
{
    struct listing *l = c->work;
    packages_cancel(l->packages);
    free(l);
}

static size_t widest(json_t *packages, const char *key, const char *title)
{
    size_t i, width = strlen(title);
    json_t *item;
    json_array_foreach (packages, i, item) {
        size_t length = json_string_length(json_object_get(item, key));
        if (length > width)
            width = length;
    }
    return width;
}

static void say_line(FILE *f, char c, size_t width)
{
    for (size_t i = 0; i < width; i++)
        fputc(c, f);
}

// Two columns with underlined titles, as `pip list` prints them.
static json_t *columns_text(const struct config *c, json_t *packages)
{
    _cleanup_free_ char *text = NULL;
    size_t length = 0, i;
    int width = (int)widest(packages, "name", "Package");
    json_t *item;
    FILE *f = open_memstream(&text, &length);
    if (!f)
        return NULL;
    fprintf(f, "%-*s Version\n", width, "Package");
    say_line(f, '-', (size_t)width);
    fputc(' ', f);
    say_line(f, '-', widest(packages, "version", "Version"));
    json_array_foreach (packages, i, item)
        fprintf(f, "\n%-*s %s", width, json_string_value(json_object_get(item, "name")),
                json_string_value(json_object_get(item, "version")));
    return fclose(f) == 0 ? answer_clip(text, length, c->text_budget) : NULL;
}

static void on_listed(json_t *found, const struct err *e, void *argument)
{
    struct listing *l = argument;
    struct mcp_call *c = l->call;
    c->work = NULL;
    c->cancel = NULL;
    free(l);
    if (!found)
        tool_env_refuse(c, e);
    else
        set_say(c, columns_text(c->mcp->config, json_object_get(found, "packages")), NULL,
                json_incref(found), false);
}

static void list_installed_packages(struct mcp_call *c, json_t *arguments)
{
    struct err e;
    (void)arguments;
    if (!tool_env_has_gate(c))
        return;
    struct listing *l = calloc(1, sizeof *l);
    if (l) {
        l->call = c;
        l->packages = packages_ask(c->mcp->gate, c->owner, ENV_BASE, on_listed, l, &e);
    } else {
        err_set(&e, ERR_SYSTEM, 0, "try again later", "the server is out of memory");
    }
    if (!l || !l->packages) {
        free(l);
        tool_env_refuse(c, &e);
        return;
    }
    c->work = l;
    c->cancel = cancel_listing;
}

// ---- get_sandbox_info ---------------------------------------------------------------------------

static void get_sandbox_info(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    json_t *info = tool_info_json(c->mcp, c->owner), *python = json_object_get(info, "python");
    const char *version = json_string_value(json_object_get(python, "version"));
    const char *path = json_string_value(json_object_get(python, "python"));
    const char *state = json_string_value(json_object_get(info, "state"));
    bool ready = state && strcmp(state, "ready") == 0;
    const char *status = ready ? "Initialized" : "Not initialized (it is made on first use)";
    json_t *text = json_sprintf("Python version: %s\nEnvironment path: %s\nStatus: %s",
                                version ? version : "unknown", path ? path : "unknown", status);
    if (info)
        (void)json_object_update_new(info, json_pack("{s:s?, s:s?, s:s}", "python_version", version,
                                                     "path", path, "status", status));
    set_say(c, text, NULL, info, false);
}

// ---- the table ----------------------------------------------------------------------------------

// clang-format off

static const char execute_input[] = INPUT("\"code\"",
    "\"code\": {\"type\": \"string\", \"description\": \"The Python code to execute.\"}, "
    "\"timeout\": {\"type\": \"integer\", \"default\": 60, \"description\": \"Longest wall time in "
        "seconds, 1 to "
        "300; other values become the nearest bound, and the answer says so.\"}");

static const char install_input[] = INPUT("",
    "\"package_names\": " REQUIREMENTS("One text with several packages, such as \\\"pandas "
        "matplotlib\\\" or "
        "\\\"requests>=2.28.0\\\", or a list of them; no options of pip.") ", "
    PACKAGES_ARGUMENT("Another name of package_names."));

static const char nothing_input[] = INPUT("", "");

// clang-format on

static const struct mcp_tool tools[] = {
    {
        .name = "execute_python",
        .title = "Run Python code",
        .description =
            "Executes Python code in the sandbox and returns what it printed to stdout and stderr "
            "and "
            "how it ended. Every call is a new process; packages that were installed are there, "
            "variables and files of earlier calls are not.",
        .input_schema = execute_input,
        .output_schema = tool_run_schema,
        .hints = TOOL_NETWORK,
        .task = TOOL_TASK_LONG,
        .is_long = is_long,
        .handle = execute_python,
        .adapt = adapt_execute,
    },
    {
        .name = "install_package",
        .title = "Install packages",
        .description = "Installs Python packages into the sandbox; they stay until reset_sandbox.",
        .input_schema = install_input,
        .hints = TOOL_IDEMPOTENT | TOOL_OPEN_WORLD,
        .handle = install_package,
    },
    {
        .name = "list_installed_packages",
        .title = "List installed packages",
        .description = "Lists all packages that code in the sandbox can import.",
        .input_schema = nothing_input,
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .handle = list_installed_packages,
    },
    {
        .name = "reset_sandbox",
        .title = "Remove installed packages",
        .description = "Resets the sandbox to a clean state: removes all installed packages.",
        .input_schema = nothing_input,
        .hints = TOOL_DESTRUCTIVE | TOOL_IDEMPOTENT,
        .handle = reset_sandbox,
    },
    {
        .name = "get_sandbox_info",
        .title = "Describe the sandbox",
        .description = "Describes the sandbox: Python version, path and status.",
        .input_schema = nothing_input,
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .handle = get_sandbox_info,
    },
    {0},
};

struct tool_set executor_set = {
    .name = "executor",
    .tables = {tools},
};
