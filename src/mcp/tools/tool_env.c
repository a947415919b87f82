// SPDX-License-Identifier: Apache-2.0
//
// tool_env: tools that change environments: install packages, create, reset.  See tool_env.h and
// env/envs.h.  Called by tools.c in the gate.
//
//   1. A call waits for an install; after `wait` it is answered with the progress, and the install
//   goes
//      on.  As a task it waits for the end.
//   2. Cancelling a call cancels its install: the environment stays as it was.
//   3. Without `environment` the environment is "base": what the interpreter has, and what this
//   caller
//      installed into it.  Runs without an environment use it too.  Each caller has its own.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "env/env_words.h"
#include "env/envs.h"
#include "env/packages.h"
#include "env/preload.h"
#include "env/warm_boxes.h"
#include "mcp/protocol/bounds.h"
#include "mcp/tools/answer.h"
#include "mcp/tools/tool_env.h"
#include "run/gate.h"
#include "session/session.h"

enum {
    WAIT_MS = 30000, // unless the call says otherwise
};

// ---- what all of them do ------------------------------------------------------------------------

void tool_env_refuse(struct mcp_call *c, const struct err *e)
{
    tool_error(c, err_code_name(e->code), e->hint, "%s", e->message);
}

bool tool_env_has_gate(struct mcp_call *c)
{
    if (c->mcp->gate)
        return true;
    tool_error(c, err_code_name(ERR_INTERNAL), NULL,
               "there are no environments, because there is no state folder");
    return false;
}

// Answers with an object and the words for it; takes both.
void tool_env_answer(struct mcp_call *c, json_t *object, char *words, bool is_error)
{
    size_t length = words ? strlen(words) : 0;
    while (length > 0 && words[length - 1] == '\n')
        length--;
    json_t *text = length ? answer_clip(words, length, c->mcp->config->text_budget) : NULL;
    free(words);
    c->work = NULL;
    c->cancel = NULL;
    tool_answer(c, text ? json_pack("[{s:s, s:o}]", "type", "text", "text", text) : NULL, object,
                is_error);
}

// The environment that a call means: NULL when the call was answered.
const char *tool_env_name(struct mcp_call *c, json_t *arguments)
{
    if (!json_object_get(arguments, "environment"))
        return ENV_BASE;
    return tool_string(c, arguments, "environment");
}

// Words for an install, and a hint if it goes on.  New.
static char *words_of(const struct mcp *m, json_t *status, const char *lead)
{
    _cleanup_free_ char *words = env_words_status(status);
    const char *job = json_string_value(json_object_get(status, "job"));
    char *text = NULL;
    bool over = env_status_is_over(status), brief = mcp_tool_is_brief(m, "install_package");
    if (!words ||
        asprintf(&text, "%s%s%s%s%s", lead, words,
                 over    ? ""
                 : brief ? "Call install_package again with the same packages to wait for it."
                         : "Call check_package_status with {\"job\": \"",
                 over || brief ? ""
                 : job         ? job
                               : "",
                 over || brief ? "" : "\", \"wait\": 30} for more.") < 0)
        return NULL;
    return text;
}

void tool_env_answer_status(struct mcp_call *c, json_t *status, const char *lead)
{
    bool failed = env_status_is_over(status) && !env_status_is_ready(status);
    tool_env_answer(c, json_incref(status), words_of(c->mcp, status, lead), failed);
}

// ---- an install that a call waits for -----------------------------------------------------------

struct install {
    struct mcp_call *call;
    struct env_job *job;
    struct timer timer;
    bool starting;            // envs_change() has not returned yet
    json_t *last;             // the status from on_done() meanwhile
    tool_env_present present; // NULL: tool_env_answer_status()
    json_t *arguments;        // for `present`
    char lead[256];
    char owner[MCP_OWNER_MAX + 1];
    char id[ENV_JOB_ID_SIZE];
};

static void install_free(struct install *o)
{
    timer_stop(&o->timer);
    json_decref(o->last);
    json_decref(o->arguments);
    free(o);
}

static void answer_install(struct install *o, json_t *status)
{
    struct mcp_call *c = o->call;
    c->work = NULL;
    c->cancel = NULL;
    if (o->present)
        o->present(c, o->arguments, status, NULL);
    else
        tool_env_answer_status(c, status, o->lead);
}

static void refuse_install(struct install *o, const struct err *e)
{
    struct mcp_call *c = o->call;
    c->work = NULL;
    c->cancel = NULL;
    if (o->present)
        o->present(c, o->arguments, NULL, e);
    else
        tool_env_refuse(c, e);
}

static void on_progress(struct env_job *j, const json_t *status, void *argument)
{
    struct install *o = argument;
    char text[256];
    (void)j;
    env_words_progress(status, text, sizeof text);
    mcp_progress(o->call, json_number_value(json_object_get(status, "progress")), 1, text);
}

static void on_done(struct env_job *j, const json_t *status, void *argument)
{
    struct install *o = argument;
    (void)j;
    if (o->starting) {
        o->last = json_deep_copy(status);
        return;
    }
    json_auto_t *copy = json_deep_copy(status); // the callback may free it
    answer_install(o, copy);
    install_free(o);
}

static void on_waited(void *argument)
{
    struct install *o = argument;
    struct mcp_call *c = o->call;
    struct err e;
    env_job_forget(o->job);
    json_t *status = envs_status(c->mcp->gate, o->owner, o->id, &e);
    if (status) {
        answer_install(o, status);
        json_decref(status);
    } else {
        refuse_install(o, &e);
    }
    install_free(o);
}

static void cancel_install(struct mcp_call *c)
{
    struct install *o = c->work;
    struct err e;
    env_job_forget(o->job);
    (void)envs_cancel(c->mcp->gate, o->owner, o->id, &e);
    install_free(o);
}

// Starts an install for any tool set.  `lead` precedes the words of the default set's answer.
static void have_done(struct mcp_call *c, json_t *arguments, struct env_job_plan *request,
                      uint64_t wait_ms, const char *lead, tool_env_present present)
{
    struct err e;
    struct install *o = calloc(1, sizeof *o);
    if (!o) {
        tool_error(c, err_code_name(ERR_SYSTEM), "try again later", "the server is out of memory");
        return;
    }
    o->call = c;
    o->starting = true;
    snprintf(o->owner, sizeof o->owner, "%s", c->owner);
    snprintf(o->lead, sizeof o->lead, "%s", lead);
    o->present = present;
    o->arguments = json_incref(arguments);
    request->owner = o->owner;
    request->on_progress = on_progress;
    request->on_done = on_done;
    request->argument = o;
    o->job = envs_change(c->mcp->gate, request, &e);
    o->starting = false;
    if (!o->job) {
        refuse_install(o, &e);
        install_free(o);
        return;
    }
    if (o->last) {
        answer_install(o, o->last);
        install_free(o);
        return;
    }
    snprintf(o->id, sizeof o->id, "%s", env_job_id(o->job));
    c->work = o;
    c->cancel = cancel_install;
    mcp_call_trim(c);
    // A task waits for the end.
    if (!c->task && !timer_set(&o->timer, c->mcp->base, wait_ms, on_waited, o))
        on_waited(o); // no timer: answer with the status now
}

static void start_install(struct mcp_call *c, json_t *arguments, struct env_job_plan *request,
                          const char *lead)
{
    have_done(c, arguments, request, bounds_milliseconds(arguments, "wait", WAIT_MS), lead, NULL);
}

void tool_env_install(struct mcp_call *c, json_t *arguments, struct env_job_plan *request,
                      uint64_t wait_ms, tool_env_present present)
{
    have_done(c, arguments, request, wait_ms, "", present);
}

// As a task, unless the caller sets `wait`.
static bool is_long(const struct mcp_call *c, json_t *arguments)
{
    (void)c;
    return !json_object_get(arguments, "wait");
}

// ---- for tools that run code --------------------------------------------------------------------

int tool_packages(struct mcp_call *c, json_t *arguments, const char **ret_environment,
                  json_t **ret_packages)
{
    struct err e;
    json_t *packages = json_object_get(arguments, "packages");
    bool named = json_object_get(arguments, "environment");
    *ret_environment = named ? tool_string(c, arguments, "environment") : NULL;
    *ret_packages = NULL;
    if (named && !*ret_environment)
        return -1;
    if (named && packages) {
        tool_error(c, err_code_name(ERR_BAD_VALUE),
                   "install the packages with install_package, then pass only the environment",
                   "arguments 'environment' and 'packages' exclude each other");
        return -1;
    }
    if (!packages || (c->mcp->gate && (*ret_packages = packages_set(c->mcp->gate, packages, &e))))
        return 0;
    if (!tool_env_has_gate(c))
        return -1;
    (void)err_wrap(&e, "argument 'packages'");
    tool_env_refuse(c, &e);
    return -1;
}

// ---- install_package ----------------------------------------------------------------------------

json_t *tool_env_requirements(struct mcp_call *c, json_t *arguments)
{
    struct err e;
    json_t *packages = json_object_get(arguments, "packages"),
           *names = json_object_get(arguments, "package_names");
    if (!packages == !names) {
        tool_error(c, err_code_name(ERR_BAD_VALUE),
                   "pass packages, such as \"pandas matplotlib>=3\"",
                   packages ? "arguments 'packages' and 'package_names' are the same; pass one"
                            : "argument 'packages' is missing");
        return NULL;
    }
    json_t *list = envs_requirements(packages ? packages : names, &e);
    if (list)
        return list;
    (void)err_wrap(&e, "argument '%s'", packages ? "packages" : "package_names");
    tool_env_refuse(c, &e);
    return NULL;
}

// Requirements of an optional argument: 0 and NULL without it; -1: the call was answered.
static int constraints_of(struct mcp_call *c, json_t *arguments, json_t **ret)
{
    struct err e;
    json_t *given = json_object_get(arguments, "constraints");
    *ret = given ? envs_requirements(given, &e) : NULL;
    if (!given || *ret)
        return 0;
    (void)err_wrap(&e, "argument 'constraints'");
    tool_env_refuse(c, &e);
    return -1;
}

// With a `lead` the environment was made for it.
static void install(struct mcp_call *c, json_t *arguments, const char *name, json_t *requirements,
                    const char *lead)
{
    json_auto_t *constraints = NULL;
    if (constraints_of(c, arguments, &constraints) < 0)
        return;
    struct env_job_plan request = {
        .change = ENV_INSTALL,
        .name = name,
        .fresh = lead[0] != '\0',
        .lock = json_string_value(json_object_get(arguments, "lock")),
        .requirements = requirements,
        .constraints = constraints,
        .upgrade = json_is_true(json_object_get(arguments, "upgrade")),
        .source_builds = json_is_true(json_object_get(arguments, "source_builds")),
    };
    start_install(c, arguments, &request, lead);
}

static void install_package(struct mcp_call *c, json_t *arguments)
{
    const char *name = tool_env_has_gate(c) ? tool_env_name(c, arguments) : NULL;
    json_auto_t *requirements = name ? tool_env_requirements(c, arguments) : NULL;
    if (!requirements)
        return;
    json_auto_t *own = json_incref(arguments); // owns `name`; the call frees its own
    install(c, arguments, name, requirements, "");
}

// ---- create_python_env --------------------------------------------------------------------------

static bool make_name(char buf[ENV_NAME_MAX + 1])
{
    unsigned char random[4];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return false;
    snprintf(buf, ENV_NAME_MAX + 1, "env-%02x%02x%02x%02x", random[0], random[1], random[2],
             random[3]);
    return true;
}

// Name and interpreter of a new environment; false: the call was answered.
static bool read_new(struct mcp_call *c, json_t *arguments, char name[ENV_NAME_MAX + 1],
                     const char **ret_python)
{
    const char *given = NULL;
    *ret_python = NULL;
    if (json_object_get(arguments, "name") && !(given = tool_string(c, arguments, "name")))
        return false;
    if (json_object_get(arguments, "python") &&
        !(*ret_python = tool_string(c, arguments, "python")))
        return false;
    if (given)
        snprintf(name, ENV_NAME_MAX + 1, "%s", given);
    else if (!make_name(name)) {
        tool_error(c, err_code_name(ERR_SYSTEM), "try again later",
                   "the kernel has no random bytes");
        return false;
    }
    return true;
}

static int create(struct mcp_call *c, const char *name, const char *python, json_t *preload,
                  struct err *e)
{
    struct err ignored;
    if (envs_create(c->mcp->gate, c->owner, name, python, e) < 0)
        return -1;
    if (!preload || warm_boxes_declare(c->mcp->gate, c->owner, name, preload, e) >= 0)
        return 0;
    (void)envs_delete(c->mcp->gate, c->owner, name, &ignored);
    return -1;
}

static void create_python_env(struct mcp_call *c, json_t *arguments)
{
    struct err e;
    char name[ENV_NAME_MAX + 1], lead[256];
    const char *python;
    json_auto_t *requirements = NULL, *constraints = NULL;
    json_t *packages = json_object_get(arguments, "packages");
    if (!tool_env_has_gate(c) || !read_new(c, arguments, name, &python))
        return;
    if (packages && !(requirements = envs_requirements(packages, &e))) {
        (void)err_wrap(&e, "argument 'packages'");
        tool_env_refuse(c, &e);
        return;
    }
    json_t *lock = json_object_get(arguments, "lock");
    if (lock && (requirements || strlen(json_string_value(lock)) != json_string_length(lock))) {
        tool_error(c, err_code_name(ERR_BAD_VALUE), "give one of them, as text",
                   requirements ? "arguments 'packages' and 'lock' exclude each other"
                                : "argument 'lock' has a NUL character");
        return;
    }
    json_t *modules = json_object_get(arguments, "preload");
    json_auto_t *preload = modules ? preload_check(modules, &e) : NULL;
    if (modules && !preload) {
        (void)err_wrap(&e, "argument 'preload'");
        tool_env_refuse(c, &e);
        return;
    }
    // Check before the environment is made.
    if (constraints_of(c, arguments, &constraints) < 0)
        return;
    if (create(c, name, python, preload, &e) < 0) {
        tool_env_refuse(c, &e);
        return;
    }
    size_t n = (size_t)snprintf(
        lead, sizeof lead,
        "created environment '%s'\nPass environment=\"%s\" to execute_python, open_session and "
        "install_package.\n",
        name, name);
    if (mcp_tool_set_is_on(c->mcp, "containers") && n < sizeof lead)
        (void)snprintf(lead + n, sizeof lead - n, "container_id: %s\n", name);
    if (json_array_size(requirements) || lock) {
        install(c, arguments, name, requirements, lead);
    } else {
        json_t *status =
            json_pack("{s:n, s:s, s:s, s:f, s:f, s:[], s:[], s:[], s:[], s:n}", "job",
                      "environment", name, "state", "ready", "progress", 1.0, "elapsed_seconds",
                      0.0, "log", "requirements", "added", "removed", "error");
        // Clients of that set look for this.
        if (mcp_tool_set_is_on(c->mcp, "containers"))
            (void)json_object_set_new(status, "container_id", json_string(name));
        tool_env_answer(c, status, strdup(lead), false);
    }
}

// ---- uninstall_package --------------------------------------------------------------------------

static void uninstall_package(struct mcp_call *c, json_t *arguments)
{
    const char *name = tool_env_has_gate(c) ? tool_env_name(c, arguments) : NULL;
    json_auto_t *names = name ? tool_env_requirements(c, arguments) : NULL;
    if (!names)
        return;
    json_auto_t *own = json_incref(arguments);
    struct env_job_plan request = {.change = ENV_UNINSTALL, .name = name, .requirements = names};
    start_install(c, arguments, &request, "");
}

// ---- reset_sandbox ------------------------------------------------------------------------------

// Closes the caller's sessions.  Returns how many.
static unsigned close_sessions(struct mcp_call *c)
{
    struct gate *g = c->mcp->gate;
    json_t *all = g->sessions ? sessions_json(g, c->owner) : NULL, *item;
    unsigned closed = 0;
    size_t i;
    json_array_foreach (json_object_get(all, "sessions"), i, item) {
        struct err e;
        struct session *s =
            session_find(g, c->owner, json_string_value(json_object_get(item, "session")), &e);
        if (s) {
            session_close(s, SESSION_CLOSED);
            closed++;
        }
    }
    json_decref(all);
    return closed;
}

static void reset_sandbox(struct mcp_call *c, json_t *arguments)
{
    char lead[128] = "";
    const char *name = tool_env_has_gate(c) ? tool_env_name(c, arguments) : NULL;
    if (!name)
        return;
    if (json_is_true(json_object_get(arguments, "sessions")))
        snprintf(lead, sizeof lead, "closed sessions: %u\n", close_sessions(c));
    json_auto_t *own = json_incref(arguments);
    struct env_job_plan request = {.change = ENV_RESET, .name = name};
    start_install(c, arguments, &request, lead);
}

// ---- schemas ------------------------------------------------------------------------------------

// clang-format off

#define MORE_ARGUMENTS                                                                             \
    "\"constraints\": " REQUIREMENTS("Limits on versions, such as \\\"numpy<2\\\"; they install " \
        "nothing.") ", " \
    "\"source_builds\": {\"type\": \"boolean\", \"default\": false, \"description\": \"Build " \
        "packages without a " \
        "wheel, in a box, if the server allows it.\"}"

static const char install_input[] = INPUT("",
    PACKAGES_ARGUMENT("Packages, such as \\\"pandas matplotlib>=3\\\", or a list. Names, "
        "versions, extras and "
        "markers; no pip options.") ", "
    "\"package_names\": " REQUIREMENTS("Another name of packages.") ", "
    ENVIRONMENT_ARGUMENT("Environment from create_python_env. Default: your base, used by runs "
        "and sessions "
        "without an environment.") ", "
    "\"upgrade\": {\"type\": \"boolean\", \"default\": false, \"description\": \"Also upgrade "
        "packages that are "
        "installed.\"}, "
    MORE_ARGUMENTS ", "
    WAIT_ARGUMENT("30", "Seconds to wait for the end; then it continues in the background."));

static const char create_input[] = INPUT("",
    "\"name\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 64, \"description\": "
        "\"Letters, digits, "
        "'-', '_' and '.'; generated if left out.\"}, "
    "\"python\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 32, \"description\": "
        "\"Python version, "
        "such as \\\"3.12\\\"; must be the server's, the default.\"}, "
    PACKAGES_ARGUMENT("Packages to install: \\\"pandas matplotlib>=3\\\", or a list.") ", "
    "\"lock\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 262144, \"description\": "
        "\"Text of a "
        "pylock.toml, or of a requirements file with a --hash for each package, to install "
            "exactly, instead of "
        "packages.\"}, "
    "\"preload\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}, \"maxItems\": 32, "
        "\"description\": \"Modules "
        "that boxes import in advance, such as [\\\"pandas\\\"]; frequent imports are learned "
            "anyway.\"}, "
    MORE_ARGUMENTS ", "
    WAIT_ARGUMENT("30", "Seconds to wait for the end."));

static const char uninstall_input[] = INPUT("",
    PACKAGES_ARGUMENT("Names of packages to remove: one text, or a list.") ", "
    "\"package_names\": " REQUIREMENTS("Another name of packages.") ", "
    ENVIRONMENT_ARGUMENT("Environment; default base.") ", "
    WAIT_ARGUMENT("30", "Seconds to wait for the end; then it continues in the background."));

static const char reset_input[] = INPUT("",
    ENVIRONMENT_ARGUMENT("Environment; default base.") ", "
    "\"sessions\": {\"type\": \"boolean\", \"default\": false, \"description\": \"Also close all "
        "your open "
        "sessions; variables and files are gone.\"}, "
    WAIT_ARGUMENT("30", "Seconds to wait for a current install."));

// What envs_status() makes; "not_found": no install has this package.
const char tool_env_status_output[] =
    OBJECT("\"environment\", \"state\", \"progress\", \"elapsed_seconds\"",
        FIELD("job", NULLABLE(STRING)) ", "
        FIELD("environment", STRING) ", "
        FIELD("state", "{\"type\": \"string\", \"enum\": [\"queued\", \"resolving\", "
            "\"downloading\", \"unpacking\", "
              "\"compiling\", \"storing\", \"ready\", \"failed\", \"cancelled\", "
                  "\"not_found\"]}") ", "
        FIELD("progress", NUMBER) ", "
        FIELD("elapsed_seconds", NUMBER) ", "
        FIELD("log", LIST(STRING)) ", "
        FIELD("requirements", LIST(STRING)) ", "
        FIELD("added", LIST(PACKAGE)) ", "
        FIELD("removed", LIST(PACKAGE)) ", "
        FIELD("change", STRING) ", "
        FIELD("warnings", LIST(STRING)) ", "
        FIELD("installed_version", NULLABLE(STRING)) ", "
        FIELD("error", NULLABLE(OBJECT("\"code\", \"message\"",
            FIELD("code", STRING) ", " FIELD("message", STRING) ", "
            FIELD("requirement", NULLABLE(STRING)) ", " FIELD("resolver_says", NULLABLE(STRING))
                ", "
            FIELD("hint", NULLABLE(STRING))))));

// clang-format on

const struct mcp_tool install_tools[] = {
    {
        .name = "install_package",
        .title = "Install packages",
        .description =
            "Install Python packages and their dependencies from this server's package index. "
            "execute_python can import them at once, also in open sessions. They stay until "
            "reset_sandbox, also across server restarts. A failed install changes nothing and "
            "returns the reason. No package code runs during installation. An install that "
            "takes longer than 'wait' continues; check_package_status reports progress.",
        .input_schema = install_input,
        .output_schema = tool_env_status_output,
        .hints = TOOL_IDEMPOTENT | TOOL_OPEN_WORLD,
        .task = TOOL_TASK_LONG,
        .is_long = is_long,
        .handle = install_package,
    },
    {0},
};

const struct mcp_tool env_tools[] = {
    {
        .name = "create_python_env",
        .title = "Create an environment",
        .description =
            "Create a named environment with its own packages on top of the interpreter's. Use "
            "it with environment=\"name\" in execute_python, open_session and install_package. "
            "It is cheap: environments share packages.",
        .input_schema = create_input,
        .output_schema = tool_env_status_output,
        .hints = TOOL_OPEN_WORLD,
        .task = TOOL_TASK_LONG,
        .is_long = is_long,
        .handle = create_python_env,
    },
    {
        .name = "uninstall_package",
        .title = "Remove packages",
        .description =
            "Remove installed packages from an environment, and dependencies that only they "
            "need. The interpreter's own packages stay, and so does what sessions have imported.",
        .input_schema = uninstall_input,
        .output_schema = tool_env_status_output,
        .hints = TOOL_DESTRUCTIVE,
        .task = TOOL_TASK_LONG,
        .is_long = is_long,
        .handle = uninstall_package,
    },
    {
        .name = "reset_sandbox",
        .title = "Remove installed packages",
        .description =
            "Remove all packages that were installed into an environment. 'base' then has those of "
            "the server's default environment, if there is one; the interpreter's own stay. "
            "Sessions keep what they have imported; sessions=true closes them.",
        .input_schema = reset_input,
        .output_schema = tool_env_status_output,
        .hints = TOOL_DESTRUCTIVE | TOOL_IDEMPOTENT,
        .handle = reset_sandbox,
    },
    {0},
};
