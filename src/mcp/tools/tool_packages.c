// SPDX-License-Identifier: Apache-2.0
//
// tool_packages: tools that report on environments: progress of an install, installed packages. See
// tool_env.h and env/packages.h.  Called by tools.c in the gate.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "env/env_words.h"
#include "env/envs.h"
#include "env/packages.h"
#include "mcp/protocol/bounds.h"
#include "mcp/tools/tool_env.h"
#include "run/gate.h"
#include "run/import_names.h"

enum { LOOK_MS = 100 }; // between looks at an install that a call waits for

// ---- check_package_status -----------------------------------------------------------------------

struct look {
    struct mcp_call *call;
    struct timer timer;
    int64_t until_ms;
    char owner[MCP_OWNER_MAX + 1];
    char job[ENV_JOB_ID_SIZE];
};

static void look_free(struct look *l)
{
    timer_stop(&l->timer);
    free(l);
}

static void cancel_look(struct mcp_call *c)
{
    look_free(c->work); // the install belongs to another call
}

static void on_look(void *argument);

static bool look_again(struct look *l)
{
    return timer_set(&l->timer, l->call->mcp->base, LOOK_MS, on_look, l);
}

static void on_look(void *argument)
{
    struct look *l = argument;
    struct mcp_call *c = l->call;
    struct err e;
    char text[256];
    json_t *status = envs_status(c->mcp->gate, l->owner, l->job, &e);
    if (status && !env_status_is_over(status) && clock_ms() < l->until_ms && look_again(l)) {
        env_words_progress(status, text, sizeof text);
        mcp_progress(c, json_number_value(json_object_get(status, "progress")), 1, text);
        json_decref(status);
        return;
    }
    if (status) {
        tool_env_answer_status(c, status, "");
    } else {
        c->work = NULL;
        c->cancel = NULL;
        tool_env_refuse(c, &e);
    }
    json_decref(status);
    look_free(l);
}

// Waits for the install of `status`; -1: cannot wait.
static int wait_for(struct mcp_call *c, json_t *status, uint64_t wait_ms)
{
    const char *job = json_string_value(json_object_get(status, "job"));
    struct look *l = job ? calloc(1, sizeof *l) : NULL;
    if (!l)
        return -1;
    l->call = c;
    l->until_ms = clock_ms() + (int64_t)wait_ms;
    snprintf(l->owner, sizeof l->owner, "%s", c->owner);
    snprintf(l->job, sizeof l->job, "%s", job);
    if (!look_again(l)) {
        look_free(l);
        return -1;
    }
    c->work = l;
    c->cancel = cancel_look;
    mcp_call_trim(c);
    return 0;
}

// A package without an install may have been installed long ago, or be the interpreter's own.
struct search {
    struct mcp_call *call;
    struct packages *packages;
    char package[128];
};

static void cancel_search(struct mcp_call *c)
{
    struct search *s = c->work;
    packages_cancel(s->packages);
    free(s);
}

json_t *tool_env_find_package(json_t *found, const char *package)
{
    char wanted[128], have[128];
    json_t *item;
    size_t i;
    packages_normal_name(package, wanted, sizeof wanted);
    const struct import_name *module = import_name_find(wanted);
    if (module && !module->is_taken)
        snprintf(wanted, sizeof wanted, "%s", module->package);
    json_array_foreach (json_object_get(found, "packages"), i, item) {
        packages_normal_name(json_string_value(json_object_get(item, "name")), have, sizeof have);
        if (strcmp(wanted, have) == 0)
            return item;
    }
    return NULL;
}

static void on_found(json_t *found, const struct err *e, void *argument)
{
    struct search *s = argument;
    struct mcp_call *c = s->call;
    char *words = NULL;
    c->work = NULL;
    c->cancel = NULL;
    if (!found) {
        tool_env_refuse(c, e);
        free(s);
        return;
    }
    const char *name = json_string_value(json_object_get(found, "environment"));
    json_t *item = tool_env_find_package(found, s->package);
    const char *version = json_string_value(json_object_get(item, "version"));
    if (item &&
        asprintf(&words, "%s %s is installed in environment '%s'%s",
                 json_string_value(json_object_get(item, "name")), version, name,
                 json_is_true(json_object_get(item, "base")) ? " (it is the interpreter's own)"
                                                             : "") < 0)
        words = NULL;
    if (!item && asprintf(&words,
                          "'%s' is not installed in environment '%s', and is not being installed\n"
                          "hint: install_package installs it; the name to import may be another",
                          s->package, name) < 0)
        words = NULL;
    tool_env_answer(c,
                    json_pack("{s:n, s:s, s:s, s:f, s:f, s:[], s:[s], s:o, s:[], s:n, s:s?}", "job",
                              "environment", name, "state", item ? "ready" : "not_found",
                              "progress", item ? 1.0 : 0.0, "elapsed_seconds", 0.0, "log",
                              "requirements", s->package, "added", json_array(), "removed", "error",
                              "installed_version", version),
                    words, false);
    free(s);
}

static void search(struct mcp_call *c, const char *environment, const char *package)
{
    struct err e;
    struct search *s = calloc(1, sizeof *s);
    if (!s) {
        tool_error(c, err_code_name(ERR_SYSTEM), "try again later", "the server is out of memory");
        return;
    }
    s->call = c;
    snprintf(s->package, sizeof s->package, "%s", package);
    text_sanitize(s->package);
    s->packages = packages_ask(c->mcp->gate, c->owner, environment, on_found, s, &e);
    if (!s->packages) {
        free(s);
        tool_env_refuse(c, &e);
        return;
    }
    c->work = s;
    c->cancel = cancel_search;
}

void tool_env_bare_name(const char *requirement, char *buf, size_t cap)
{
    requirement += strspn(requirement, " \t");
    snprintf(buf, cap, "%.*s", (int)strcspn(requirement, " \t[<>=!~;@("), requirement);
}

static void check_package_status(struct mcp_call *c, json_t *arguments)
{
    struct err e;
    uint64_t wait_ms = bounds_milliseconds(arguments, "wait", 0);
    const char *key = json_object_get(arguments, "package_name") ? "package_name" : "package";
    const char *name = tool_env_has_gate(c) ? tool_env_name(c, arguments) : NULL, *job = NULL;
    char package[128] = "";
    if (!name)
        return;
    if (!json_object_get(arguments, "job") == !json_object_get(arguments, key)) {
        tool_error(c, err_code_name(ERR_BAD_VALUE),
                   "pass the job that install_package returned, or the name of a package",
                   "pass one of the arguments 'job' and 'package'");
        return;
    }
    if (json_object_get(arguments, "job") && !(job = tool_string(c, arguments, "job")))
        return;
    if (!job) {
        const char *text = tool_string(c, arguments, key);
        if (!text)
            return;
        tool_env_bare_name(text, package, sizeof package);
    }
    json_auto_t *status = job ? envs_status(c->mcp->gate, c->owner, job, &e)
                              : envs_status_of(c->mcp->gate, c->owner, name, package, &e);
    if (!status && job) {
        tool_env_refuse(c, &e);
    } else if (!status || (package[0] && env_status_is_ready(status))) {
        // A later install may have removed it again.
        search(c, name, package);
    } else if (env_status_is_over(status) || wait_ms == 0 || wait_for(c, status, wait_ms) < 0) {
        tool_env_answer_status(c, status, "");
    }
}

// ---- list_installed_packages --------------------------------------------------------------------

struct listing {
    struct mcp_call *call;
    struct packages *packages;
    char owner[MCP_OWNER_MAX + 1];
    bool lock; // the text is the lock
};

static void cancel_listing(struct mcp_call *c)
{
    struct listing *l = c->work;
    packages_cancel(l->packages);
    free(l);
}

static json_t *names_of(struct gate *g, const char *owner)
{
    json_t *list = envs_list(g, owner), *names = json_array(), *item;
    size_t i;
    json_array_foreach (list, i, item)
        (void)json_array_append(names, json_object_get(item, "name"));
    json_decref(list);
    return names;
}

static void on_listed(json_t *found, const struct err *e, void *argument)
{
    struct listing *l = argument;
    struct mcp_call *c = l->call;
    struct gate *g = c->mcp->gate;
    json_t *object = found ? json_copy(found) : NULL, *name;
    char *words = found ? env_words_packages(found) : NULL, *text = NULL;
    size_t length, i;
    c->work = NULL;
    c->cancel = NULL;
    if (!found) {
        tool_env_refuse(c, e);
        free(l);
        return;
    }
    if (l->lock) {
        struct err ignored;
        json_t *one = envs_describe(
            g, l->owner, json_string_value(json_object_get(found, "environment")), &ignored);
        free(words);
        words = env_words_lock(one);
        json_decref(one);
    }
    json_t *names = names_of(g, l->owner);
    FILE *f = open_memstream(&text, &length);
    if (f) {
        fputs(words ? words : "", f);
        if (!l->lock) {
            fputs("environments:", f);
            json_array_foreach (names, i, name)
                fprintf(f, "%s %s", i ? "," : "", json_string_value(name));
        }
        if (fclose(f) != 0)
            free(TAKE_PTR(text));
    }
    free(words);
    if (object)
        (void)json_object_set_new(object, "environments", names);
    tool_env_answer(c, object, text, false);
    free(l);
}

static void list_installed_packages(struct mcp_call *c, json_t *arguments)
{
    struct err e;
    const char *name = tool_env_has_gate(c) ? tool_env_name(c, arguments) : NULL;
    struct listing *l = name ? calloc(1, sizeof *l) : NULL;
    if (!name)
        return;
    if (l) {
        l->call = c;
        snprintf(l->owner, sizeof l->owner, "%s", c->owner);
        l->lock = json_is_true(json_object_get(arguments, "lock"));
        l->packages = packages_ask(c->mcp->gate, c->owner, name, on_listed, l, &e);
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

// ---- schemas ------------------------------------------------------------------------------------

// clang-format off

static const char status_input[] = INPUT("",
    "\"job\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 64, \"description\": \"Job "
        "from "
        "install_package, create_python_env or reset_sandbox.\"}, "
    "\"package\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 200, \"description\": "
        "\"Name of a "
        "package, instead of the job.\"}, "
    "\"package_name\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 200, "
        "\"description\": \"Another name "
        "of package.\"}, "
    ENVIRONMENT_ARGUMENT("Where to look for the package; default base.") ", "
    WAIT_ARGUMENT("0", "Seconds to wait for the end."));

static const char list_input[] = INPUT("",
    ENVIRONMENT_ARGUMENT("Environment; default base.") ", "
    "\"lock\": {\"type\": \"boolean\", \"default\": false, \"description\": \"Return the lock as "
        "text: a "
        "requirements file with hashes, for the lock of create_python_env.\"}");

static const char list_output[] =
    OBJECT("\"environment\", \"python\", \"packages\", \"count\", \"environments\"",
        FIELD("environment", STRING) ", "
        FIELD("python", STRING) ", "
        FIELD("packages", LIST(PACKAGE)) ", "
        FIELD("count", INTEGER) ", "
        FIELD("environments", LIST(STRING)));

// clang-format on

const struct mcp_tool package_tools[] = {
    {
        .name = "check_package_status",
        .title = "Check an installation",
        .description =
            "Get the progress of an install: state, last log lines, what it added, or why it "
            "failed. Takes the job that install_package returned, or a package name, which also "
            "returns the installed version. 'wait' waits for the end.",
        .input_schema = status_input,
        .output_schema = tool_env_status_output,
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .handle = check_package_status,
    },
    {
        .name = "list_installed_packages",
        .title = "List installed packages",
        .description = "List the packages that code in an environment can import, with versions; "
                       "those marked base are the "
                       "interpreter's, in every environment. Also lists "
                       "your environments.",
        .input_schema = list_input,
        .output_schema = list_output,
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .handle = list_installed_packages,
    },
    {0},
};
