// SPDX-License-Identifier: Apache-2.0
//
// env_local: see env.h.  `constrictor env` without a server: the first process becomes the keeper;
// env_gate() is its gate, which opens the environments, does one thing, and prints the result.

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/env.h"
#include "cli/network.h"
#include "env/envs.h"
#include "env/packages.h"
#include "env/preload.h"
#include "env/warm_boxes.h"
#include "installer/installer.h"
#include "keeper/keeper.h"
#include "porter/porter.h"
#include "run/gate.h"

static const char owner[] = ""; // as on a server without keys

struct work {
    const struct env_command *ask;
    struct gate gate;
    struct env_job *job;
    char id[ENV_JOB_ID_SIZE];
    json_t *answer;
    struct err error; // message[0]: there is no answer
    bool done, interrupted;
};

static void finish(struct work *w)
{
    w->done = true;
    event_base_loopbreak(w->gate.base);
}

// ---- jobs ---------------------------------------------------------------------------------------

static void on_progress(struct env_job *j, const json_t *status, void *argument)
{
    (void)j;
    (void)argument;
    env_show_progress(status);
}

static void on_done(struct env_job *j, const json_t *status, void *argument)
{
    struct work *w = argument;
    (void)j;
    w->job = NULL;
    w->answer = json_deep_copy(status);
    if (!w->answer)
        err_set(&w->error, ERR_SYSTEM, ENOMEM, NULL, "copy the answer");
    finish(w);
}

static int start_job(struct work *w, enum env_change change)
{
    const struct env_command *ask = w->ask;
    const struct config *c = ask->config;
    json_auto_t *list = NULL;
    if (json_array_size(ask->packages)) {
        list = envs_requirements(ask->packages, &w->error);
        if (!list)
            return -1;
    }
    struct env_job_plan o = {.change = change,
                             .owner = owner,
                             .name = ask->name,
                             .create = change == ENV_IMPORT,
                             .fresh = ask->verb == VERB_CREATE,
                             .fd = change == ENV_IMPORT ? w->gate.facts->keep[0] : -1,
                             .requirements = list,
                             .upgrade = c->upgrade,
                             .source_builds = c->source_builds,
                             .on_progress = on_progress,
                             .on_done = on_done,
                             .argument = w};
    w->job = envs_change(&w->gate, &o, &w->error);
    if (!w->job && !w->done)
        return -1;
    if (w->job)
        snprintf(w->id, sizeof w->id, "%s", env_job_id(w->job));
    return 0;
}

// The first Ctrl-C cancels the install; the second ends the program at once.
static void on_signal(evutil_socket_t sig, short what, void *argument)
{
    struct work *w = argument;
    struct err e;
    (void)sig;
    (void)what;
    if (!w->interrupted && w->job && envs_cancel(&w->gate, owner, w->id, &e) == 0)
        w->interrupted = true;
    else
        event_base_loopbreak(w->gate.base);
}

// ---- looking ------------------------------------------------------------------------------------

static void on_packages(json_t *answer, const struct err *e, void *argument)
{
    struct work *w = argument;
    w->answer = json_incref(answer);
    if (!answer)
        w->error = *e;
    finish(w);
}

static int ask_packages(struct work *w)
{
    const char *name = w->ask->name;
    if (!name)
        name = ENV_BASE;
    return packages_ask(&w->gate, owner, name, on_packages, w, &w->error) ? 0 : -1;
}

static void on_exported(uint64_t bytes, const struct err *e, void *argument)
{
    struct work *w = argument;
    if (e)
        w->error = *e;
    else
        w->answer = env_file_answer(w->ask, bytes);
    finish(w);
}

// Finishes with an answer; NULL: returns -1, w->error has the reason.
static int take(struct work *w, json_t *answer)
{
    w->answer = answer;
    w->done = answer != NULL;
    return answer ? 0 : -1;
}

static int create(struct work *w)
{
    struct gate *g = &w->gate;
    const char *name = w->ask->name;
    if (json_array_size(w->ask->packages)) { // report bad packages before creating anything
        json_t *list = envs_requirements(w->ask->packages, &w->error);
        if (!list)
            return -1;
        json_decref(list);
    }
    json_auto_t *preload = NULL;
    if (w->ask->preload && !(preload = preload_check(w->ask->preload, &w->error)))
        return -1;
    if (envs_create(g, owner, name, NULL, &w->error) < 0 ||
        (preload && warm_boxes_declare(g, owner, name, preload, &w->error) < 0))
        return -1;
    if (json_array_size(w->ask->packages))
        return start_job(w, ENV_INSTALL);
    return take(w, envs_describe(g, owner, name, &w->error));
}

static int begin(struct work *w)
{
    struct gate *g = &w->gate;
    const struct env_command *ask = w->ask;
    json_t *list;
    switch (ask->verb) {
    case VERB_LIST:
        list = envs_list(g, owner);
        return take(w, list ? json_pack("{s:o, s:I}", "environments", list, "total",
                                        (json_int_t)json_array_size(list))
                            : NULL);
    case VERB_CREATE: return create(w);
    case VERB_INSTALL: return start_job(w, ENV_INSTALL);
    case VERB_UNINSTALL: return start_job(w, ENV_UNINSTALL);
    case VERB_RESET: return start_job(w, ENV_RESET);
    case VERB_PACKAGES: return ask_packages(w);
    case VERB_IMPORT: return start_job(w, ENV_IMPORT);
    case VERB_EXPORT:
        return envs_export(g, owner, ask->name, g->facts->keep[0], on_exported, w, &w->error) ? 0
                                                                                              : -1;
    case VERB_DESCRIBE: return take(w, envs_describe(g, owner, ask->name, &w->error));
    case VERB_STATUS: return take(w, envs_status(g, owner, ask->job, &w->error));
    case VERB_DELETE:
        if (envs_delete(g, owner, ask->name, &w->error) < 0)
            return -1;
        return take(w, json_pack("{s:s, s:b}", "environment", ask->name, "deleted", 1));
    case VERB_MAX: break;
    }
    return err_set(&w->error, ERR_INTERNAL, 0, NULL, "'env' has no such action");
}

// ---- the gate -----------------------------------------------------------------------------------

static int env_gate(int sock, const struct keeper_facts *facts, void *argument)
{
    struct work *w = argument;
    struct err e;
    if (gate_enter(&w->gate, sock, facts, &e) < 0 ||
        cli_catch_signals(w->gate.base, on_signal, w, &e) < 0 ||
        envs_open(&w->gate, &env_installer, &e) < 0)
        return env_show_error(w->ask, &e);
    (void)signal(SIGPIPE, SIG_IGN);
    if (begin(w) < 0) {
        if (!w->error.message[0])
            err_set(&w->error, ERR_SYSTEM, ENOMEM, NULL, "look at the environments");
        return env_show_error(w->ask, &w->error);
    }
    if (!w->done)
        gate_dispatch(&w->gate);
    envs_close(&w->gate);
    if (w->done && w->answer)
        return env_show_answer(w->ask, TAKE_PTR(w->answer));
    if (!w->error.message[0])
        err_set(&w->error, ERR_CANCELLED, 0, NULL, "interrupted; the environment is unchanged");
    return env_show_error(w->ask, &w->error);
}

int env_local(const struct env_command *ask)
{
    static struct work work;
    static struct config one;
    struct err e;
    one = *ask->config;
    one.stock = 1;
    if (ask->preload)
        one.preload = (struct text_list){
            0}; // they are for the environment, not for the boxes of this program
    work.ask = ask;
    struct keeper_plan plan = {
        .config = &one, .state = true, .porter = porter_main, .gate = env_gate, .argument = &work};
    if (ask->fd >= 0)
        plan.keep[plan.keep_count++] = fcntl(ask->fd, F_DUPFD_CLOEXEC, 3); // the keeper closes it
    network_add_to_plan(&plan);
    if (network_check_config(&one, true, &e) < 0)
        return cli_fail(&e, one.json);
    return cli_run_keeper(&plan);
}
