// SPDX-License-Identifier: Apache-2.0
//
// exec_hint: what helps after a run that failed, in the words of the interface that asked: its
// tools, its fields, its options, and their largest values.  Called by exec.c in the gate.
// SECURITY: the error is the work of user code; only checked names go into a hint.

#include "exec/exec_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "env/envs.h"
#include "keeper/environments.h"

// ---- a module that is not there -----------------------------------------------------------------

static bool can_install(const struct exec *x)
{
    const struct config *c = x->gate->facts->config;
    const struct environments *env = x->gate->facts->environments;
    if (x->request.surface == EXEC_CLI) // `run` installs before it runs
        return !c->offline || c->find_links[0];
    return env && env->folder >= 0 && (!c->offline || c->find_links[0]);
}

// The environment that code of this run imports from, as install tools name it; "": base.
static const char *environment_of(const struct exec *x, const struct session *s)
{
    const char *name = s ? s->plan.environment : x->request.environment;
    return name && strcmp(name, ENV_BASE) != 0 ? name : "";
}

static void hint_package(struct exec *x, const struct session *s)
{
    struct missing_package p;
    char *hint = x->result.hint;
    const size_t cap = sizeof x->result.hint;
    if (!result_missing_package(x->run, &x->result, &p))
        return;
    if (!p.name[0] && x->request.surface != EXEC_MCP)
        return; // the general hint says NAME
    const char *sure = p.is_known ? "" : "if that is the package's name, ",
               *environment = environment_of(x, s);
    if (!can_install(x)) {
        snprintf(hint, cap, "this server installs no packages; do without it");
        return;
    }
    switch (x->request.surface) {
    case EXEC_MCP:
        if (!p.name[0])
            snprintf(hint, cap,
                     "install_package takes the name of the package that has this module");
        else if (x->request.packages)
            snprintf(hint, cap, "%sadd %s to 'packages'", sure, p.name);
        else
            snprintf(hint, cap,
                     "%scall install_package with packages=\"%s\"%s%s%s, then run it again", sure,
                     p.name, environment[0] ? ", environment=\"" : "", environment,
                     environment[0] ? "\"" : "");
        return;
    case EXEC_REST:
        snprintf(
            hint, cap,
            "%sinstall it with POST /api/v1/environments/%s/packages {\"packages\": [\"%s\"]}, or "
            "name it in the field 'packages' of the call",
            sure, environment[0] ? environment : ENV_BASE, p.name);
        return;
    case EXEC_CLI: snprintf(hint, cap, "%sadd --package %s", sure, p.name); return;
    case EXEC_ELSEWHERE: return;
    }
}

// ---- a limit that was met -----------------------------------------------------------------------

// The argument or field that raises each limit; none: only the operator can.
static const char *argument_of(enum limit limit)
{
    switch (limit) {
    case LIMIT_WALL: return "timeout";
    case LIMIT_CPU: return "cpu_seconds";
    case LIMIT_MEMORY: return "memory_mb";
    case LIMIT_NONE:
    case LIMIT_PROCESSES:
    case LIMIT_SCRATCH:
    case LIMIT_INODES:
    case LIMIT_FILES:
    case LIMIT_FILE_SIZE:
    case LIMIT_OUTPUT:
    case LIMIT_MAX: break;
    }
    return NULL;
}

static void hint_limit(struct exec *x, const struct session *s)
{
    const struct config *c = x->gate->facts->config;
    const struct run_request *q = &x->run->request;
    const enum limit limit = x->result.limit;
    const char *argument = argument_of(limit);
    char *hint = x->result.hint, *generic = strstr(hint, ", or allow more");
    uint64_t now = limit == LIMIT_WALL  ? q->wall_ms
                   : limit == LIMIT_CPU ? q->cpu_ms
                                        : q->limits.memory_bytes,
             most = limit == LIMIT_MEMORY ? c->memory_max_bytes : c->timeout_max_ms;
    uint64_t unit = limit == LIMIT_MEMORY ? TEXT_MIB : 1000;
    if (!generic)
        return;
    size_t room = sizeof x->result.hint - (size_t)(generic - hint);
    if (!argument) {
        snprintf(generic, room, " (the operator sets this limit)");
    } else if (limit == LIMIT_MEMORY && s) {
        snprintf(generic, room, ", or open another session with '%s', at most %llu", argument,
                 (unsigned long long)(most / unit));
    } else if (now >= most) {
        snprintf(generic, room, "; that is the largest '%s'", argument);
    } else {
        bool background = x->request.surface == EXEC_MCP && limit == LIMIT_WALL;
        snprintf(generic, room, ", or set '%s', at most %llu%s", argument,
                 (unsigned long long)(most / unit),
                 background ? ", above 50 with background=true" : "");
    }
}

void exec_hint(struct exec *x, const struct session *s)
{
    if (x->request.surface == EXEC_ELSEWHERE)
        return;
    hint_package(x, s);
    if (x->request.surface != EXEC_CLI) // it names the option itself
        hint_limit(x, s);
}
