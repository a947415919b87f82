// SPDX-License-Identifier: Apache-2.0
// set_containers: the tool set 'containers': containers in which packages and files stay and every
// run has a fresh interpreter, with links to files; and the tools of that server's successor, which
// calls containers sandboxes.  See container.h and sets.h.  Called by tools.c in the gate.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "compat/container.h"
#include "compat/set_answer.h"
#include "compat/sets.h"
#include "env/env_words.h"
#include "env/packages.h"
#include "mcp/tools/answer.h"
#include "mcp/tools/tool_env.h"
#include "session/session.h"

enum {
    INSTALL_MS = 0,    // that server returns at once; check_package_status tells the rest
    SANDBOXES_MAX = 3, // of one key; without keys only --sessions bounds them
};

// ---- create_python_env, create_sandbox ----------------------------------------------------------

static void present_created(struct mcp_call *c, json_t *arguments, json_t *object,
                            const struct err *error)
{
    const char *id = json_string_value(json_object_get(arguments, "container_id"));
    struct err e;
    if (!object) {
        (void)envs_delete(c->mcp->gate, c->owner, id, &e);
        container_refuse(c, error);
        return;
    }
    if (json_is_true(json_object_get(arguments, "sandbox")))
        set_answer(c,
                   json_pack("{s:s, s:s, s:s, s:s}", "sandbox_id", id, "name",
                             container_name(id)[0] ? container_name(id) : id, "status", "running",
                             "message", "Sandbox created"),
                   json_pack("{s:s}", "container_id", id), 0, false);
    else
        set_answer(c, json_pack("{s:s}", "container_id", id), json_pack("{s:s}", "environment", id),
                   0, false);
}

static bool has_all_sandboxes(struct mcp_call *c)
{
    json_auto_t *ids = c->owner[0] ? containers_list(c) : NULL;
    size_t count = json_array_size(ids);
    return count >= SANDBOXES_MAX;
}

static void create(struct mcp_call *c, const char *name, bool sandbox)
{
    char id[ENV_NAME_MAX + 1];
    struct session_plan session;
    struct err e;
    if (!tool_env_has_gate(c))
        return;
    containers_tidy(c);
    if (sandbox && has_all_sandboxes(c)) {
        err_set(&e, ERR_QUOTA, 0,
                "use one of list_sandboxes, or close one with DELETE /api/v1/sessions/ID; an "
                "unused one "
                "ends by itself",
                "this key already has %d sandboxes, the most at one time", SANDBOXES_MAX);
        container_refuse(c, &e);
        return;
    }
    if (container_make_id(name, id) < 0) {
        err_set(&e, ERR_SYSTEM, 0, "try again later", "the kernel has no random bytes");
        container_refuse(c, &e);
        return;
    }
    bool packages = envs_create(c->mcp->gate, c->owner, id, NULL, &e) == 0;
    json_auto_t *arguments = json_pack("{s:s, s:b}", "container_id", id, "sandbox", sandbox);
    const char *container = json_string_value(json_object_get(arguments, "container_id"));
    struct exec_request request = container_request(c->mcp, container, &session);
    request.code = "";
    request.session_must_exist = false; // it is opened now
    request.environment = packages ? container : NULL;
    struct tool_run_plan plan = {
        .arguments = arguments, .present = present_created, .request = request};
    tool_run_start(c, &plan);
}

static void create_python_env(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    create(c, "", false);
}

static void create_sandbox(struct mcp_call *c, json_t *arguments)
{
    json_t *name = json_object_get(arguments, "name");
    const char *text = json_is_string(name) ? tool_string(c, arguments, "name") : "";
    if (text)
        create(c, text, true);
}

// ---- list_sandboxes -----------------------------------------------------------------------------

static json_t *packages_of(struct mcp_call *c, const char *id)
{
    struct err e;
    json_t *one = envs_describe(c->mcp->gate, c->owner, id, &e), *list = json_array(), *item;
    size_t i;
    json_array_foreach (json_object_get(one, "lock"), i, item)
        (void)json_array_append_new(list,
                                    json_pack("{s:O, s:O}", "name", json_object_get(item, "name"),
                                              "version", json_object_get(item, "version")));
    json_decref(one);
    return list;
}

static json_t *sandbox_json(struct mcp_call *c, const char *id)
{
    struct err e;
    const struct session *s = session_find(c->mcp->gate, c->owner, id, &e);
    json_auto_t *session = s ? session_json(s) : json_object();
    const char *name = container_name(id)[0] ? container_name(id) : id;
    return json_pack("{s:s, s:s, s:s, s:O*, s:O*, s:O*, s:o}", "sandbox_id", id, "name", name,
                     "status", "running", "created_at", json_object_get(session, "created_at"),
                     "last_used_at", json_object_get(session, "last_used_at"), "expires_in_seconds",
                     json_object_get(session, "expires_in_seconds"), "packages",
                     packages_of(c, id));
}

static void list_sandboxes(struct mcp_call *c, json_t *arguments)
{
    (void)arguments;
    if (!tool_env_has_gate(c))
        return;
    containers_tidy(c);
    json_t *ids = containers_list(c), *list = json_array(), *id;
    size_t i;
    int failed = 0;
    json_array_foreach (ids, i, id)
        failed |= json_array_append_new(list, sandbox_json(c, json_string_value(id)));
    json_decref(ids);
    set_answer(c, json_pack("{s:o, s:i}", "sandboxes", list, "count", (int)json_array_size(list)),
               NULL, failed, false);
}

// ---- installing ---------------------------------------------------------------------------------

static const char *status_name(const json_t *status)
{
    if (!env_status_is_over(status))
        return "installing";
    return env_status_is_ready(status) ? "success" : "failed";
}

// {"status", "success", "complete", "message", "elapsed_seconds", "stderr"?}: new.
static json_t *told_status(struct mcp_call *c, json_t *status, const char *package)
{
    const char *name = status_name(status);
    bool over = env_status_is_over(status), ready = env_status_is_ready(status);
    _cleanup_free_ char *words = env_words_status(status);
    json_t *told = json_pack("{s:o, s:s, s:b, s:O*}", "success",
                             over ? json_boolean(ready) : json_null(), "status", name, "complete",
                             over, "elapsed_seconds", json_object_get(status, "elapsed_seconds"));
    json_t *message =
        over
            ? json_sprintf(ready ? "Package %s was installed" : "Package %s could not be installed",
                           package)
            : json_sprintf("Package %s is being installed; check_package_status tells "
                           "when it is done",
                           package);
    if (told)
        (void)json_object_set_new(told, "message", message);
    if (told && over && !ready)
        (void)json_object_set_new(told, "stderr",
                                  answer_clip(words ? words : "", words ? strlen(words) : 0,
                                              c->mcp->config->text_budget));
    return told;
}

static const char *package_of(json_t *arguments)
{
    return json_string_value(json_object_get(arguments, "package_name"));
}

static void present_install(struct mcp_call *c, json_t *arguments, json_t *status,
                            const struct err *error)
{
    if (!status) {
        container_refuse(c, error);
        return;
    }
    bool failed = env_status_is_over(status) && !env_status_is_ready(status);
    set_answer(c, told_status(c, status, package_of(arguments)), json_incref(status), 0, failed);
}

static void install_package(struct mcp_call *c, json_t *arguments)
{
    struct err e;
    const char *id = container_id(c, arguments);
    if (!id || !tool_string(c, arguments, "package_name"))
        return;
    json_t *requirements = envs_requirements(json_object_get(arguments, "package_name"), &e);
    if (!requirements) {
        (void)err_wrap(&e, "argument 'package_name'");
        container_refuse(c, &e);
        return;
    }
    struct env_job_plan request = {.change = ENV_INSTALL, .name = id, .requirements = requirements};
    json_auto_t *own = json_incref(arguments); // `id` is in it
    tool_env_install(c, arguments, &request, INSTALL_MS, present_install);
    json_decref(requirements);
}

// ---- the status of a package --------------------------------------------------------------------

// A package that no job installed may belong to the interpreter.
struct search {
    struct mcp_call *call;
    struct packages *packages;
    json_t *status; // of the job that installed it, or NULL
    char package[128];
};

static void search_free(struct search *s)
{
    json_decref(s->status);
    free(s);
}

static void cancel_search(struct mcp_call *c)
{
    struct search *s = c->work;
    packages_cancel(s->packages);
    search_free(s);
}

static void on_found(json_t *found, const struct err *e, void *argument)
{
    struct search *s = argument;
    struct mcp_call *c = s->call;
    c->work = NULL;
    c->cancel = NULL;
    json_t *item = found ? tool_env_find_package(found, s->package) : NULL;
    if (!found) {
        container_refuse(c, e);
    } else if (item) {
        json_t *elapsed = json_object_get(s->status, "elapsed_seconds");
        set_answer(c,
                   json_pack("{s:b, s:s, s:b, s:o, s:o, s:O}", "success", 1, "status", "success",
                             "complete", 1, "elapsed_seconds",
                             elapsed ? json_incref(elapsed) : json_integer(0), "message",
                             json_sprintf("Package %s is installed", s->package), "version",
                             json_object_get(item, "version")),
                   s->status ? json_incref(s->status) : NULL, 0, false);
    } else {
        set_answer(c,
                   json_pack("{s:b, s:s, s:b, s:o}", "success", 0, "status", "not_found",
                             "complete", 1, "message",
                             json_sprintf("Package %s is not installed and not being installed",
                                          s->package)),
                   NULL, 0, false);
    }
    search_free(s);
}

static void search(struct mcp_call *c, const char *id, const char *package, json_t *status)
{
    struct err e = {0};
    struct search *s = calloc(1, sizeof *s);
    if (s) {
        s->call = c;
        s->status = json_incref(status);
        snprintf(s->package, sizeof s->package, "%s", package);
        text_sanitize(s->package);
        s->packages = packages_ask(c->mcp->gate, c->owner, id, on_found, s, &e);
    } else {
        err_set(&e, ERR_SYSTEM, 0, "try again later", "the server is out of memory");
    }
    if (!s || !s->packages) {
        if (s)
            search_free(s);
        container_refuse(c, &e);
        return;
    }
    c->work = s;
    c->cancel = cancel_search;
}

static void check_package(struct mcp_call *c, json_t *arguments)
{
    struct err e;
    char package[128];
    const char *id = container_id(c, arguments);
    const char *text = id ? tool_string(c, arguments, "package_name") : NULL;
    if (!text)
        return;
    tool_env_bare_name(text, package, sizeof package);
    json_auto_t *status = envs_status_of(c->mcp->gate, c->owner, id, package, &e);
    if (!status || env_status_is_ready(status)) // only the present state counts
        search(c, id, package, status);
    else
        set_answer(c, told_status(c, status, package), json_incref(status), 0, false);
}

// ---- the table ----------------------------------------------------------------------------------

// clang-format off

#define ID_ARGUMENT(name, maker)                                                                   \
    "\"" name "\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 64, \"description\": " \
        "\"What " maker \
    " returned.\"}"
#define PACKAGE_ARGUMENT                                                                           \
    "\"package_name\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 20000, " \
        "\"description\": \"Name of " \
    "the package, such as numpy; versions and several of them too, such as \\\"pandas " \
        "matplotlib>=3\\\".\"}"
#define CODE_ARGUMENT                                                                              \
    "\"code\": {\"type\": \"string\", \"description\": \"The Python code to run.\"}"

#define CONTAINER ID_ARGUMENT("container_id", "create_python_env")
#define SANDBOX ID_ARGUMENT("sandbox_id", "create_sandbox")

static const char nothing_input[] = INPUT("", "");
static const char run_input[] = INPUT("\"container_id\", \"code\"", CONTAINER ", " CODE_ARGUMENT);
static const char run_sandbox_input[] = INPUT("\"sandbox_id\", \"code\"",
    SANDBOX ", " CODE_ARGUMENT);
static const char package_input[] = INPUT("\"container_id\", \"package_name\"",
    CONTAINER ", " PACKAGE_ARGUMENT);
static const char package_sandbox_input[] = INPUT("\"sandbox_id\", \"package_name\"",
    SANDBOX ", " PACKAGE_ARGUMENT);
static const char create_input[] = INPUT("",
    "\"name\": {\"type\": [\"string\", \"null\"], \"maxLength\": 64, \"description\": \"A name of "
        "your choice.\"}");
static const char terminal_input[] = INPUT("\"sandbox_id\", \"command\"", SANDBOX ", "
    "\"command\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 100000, \"description\": "
        "\"A command line "
        "for /bin/sh; it runs in /mnt/data.\"}");
static const char upload_input[] = INPUT("\"sandbox_id\", \"local_file_path\"", SANDBOX ", "
    "\"local_file_path\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 4096, "
        "\"description\": \"Path of "
        "the file at the client; its last part becomes the name in the sandbox.\"}, "
    "\"dest_path\": {\"type\": \"string\", \"maxLength\": 1024, \"default\": \"/mnt/data\", "
        "\"description\": \"Folder "
        "in the sandbox.\"}, "
    "\"content\": {\"type\": \"string\", \"description\": \"Content of the file, as text: this "
        "server never reads "
        "files of its own machine.\"}, "
    "\"content_base64\": {\"type\": \"string\", \"description\": \"The same as base64; instead of "
        "content.\"}");

// clang-format on

static const struct mcp_tool tools[] = {
    {
        .name = "create_python_env",
        .title = "Create a container",
        .description =
            "Creates an isolated container for Python and returns its container_id for the "
            "other tools. Its packages and files stay from call to call; an unused container is "
            "removed.",
        .input_schema = nothing_input,
        .handle = create_python_env,
    },
    {
        .name = "execute_python_code",
        .title = "Run Python code in a container",
        .description = "Runs Python code in a container and returns stdout, stderr, the exit code "
                       "and links to "
                       "the files that it saved in its working folder. Every call has a fresh "
                       "interpreter. Save figures with plt.savefig() and data with df.to_csv().",
        .input_schema = run_input,
        .hints = TOOL_NETWORK,
        .handle = container_execute,
    },
    {
        .name = "execute_python_code",
        .description = "The same in a sandbox of create_sandbox.",
        .input_schema = run_sandbox_input,
        .hints = TOOL_NETWORK | TOOL_UNLISTED,
        .handle = container_execute,
    },
    {
        .name = "install_package_in_env",
        .title = "Install a package in a container",
        .description = "Installs a package in a container. Returns at once; "
                       "check_package_status then tells how a longer installation ends.",
        .input_schema = package_input,
        .hints = TOOL_IDEMPOTENT | TOOL_OPEN_WORLD,
        .handle = install_package,
    },
    {
        .name = "check_package_status",
        .title = "Check a package in a container",
        .description =
            "State of a package in a container: success, installing, failed or not_found.",
        .input_schema = package_input,
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .handle = check_package,
    },
    {
        .name = "create_sandbox",
        .title = "Create a sandbox",
        .description =
            "Creates an isolated sandbox, with a name if you like, and returns its sandbox_id.",
        .input_schema = create_input,
        .handle = create_sandbox,
    },
    {
        .name = "list_sandboxes",
        .title = "List sandboxes",
        .description = "Lists your sandboxes and the packages installed in them.",
        .input_schema = nothing_input,
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .handle = list_sandboxes,
    },
    {
        .name = "install_package_in_sandbox",
        .title = "Install a package in a sandbox",
        .description =
            "Installs a package in a sandbox. Returns at once; "
            "check_package_installation_status then tells how a longer installation ends.",
        .input_schema = package_sandbox_input,
        .hints = TOOL_IDEMPOTENT | TOOL_OPEN_WORLD,
        .handle = install_package,
    },
    {
        .name = "check_package_installation_status",
        .title = "Check a package in a sandbox",
        .description = "State of a package in a sandbox.",
        .input_schema = package_sandbox_input,
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .handle = check_package,
    },
    {
        .name = "execute_terminal_command",
        .title = "Run a command in a sandbox",
        .description =
            "Runs a command line in a sandbox, isolated as code is, and returns stdout, stderr and "
            "the exit code.",
        .input_schema = terminal_input,
        .hints = TOOL_NETWORK,
        .handle = container_terminal,
    },
    {
        .name = "upload_file_to_sandbox",
        .title = "Put a file into a sandbox",
        .description =
            "Writes a file into a sandbox. Pass its content: the server reads no files of its own "
            "machine.",
        .input_schema = upload_input,
        .hints = TOOL_IDEMPOTENT,
        .handle = container_upload,
    },
    {0},
};

struct tool_set container_set = {
    .name = "containers",
    .tables = {tools},
};
