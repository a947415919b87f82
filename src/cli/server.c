// SPDX-License-Identifier: Apache-2.0
//
// server: see server.h.

#include "cli/server.h"

#include <signal.h>

#include "base/log.h"
#include "compat/sets.h"
#include "config/code_policy.h"
#include "env/default_env.h"
#include "env/envs.h"
#include "env/restricted_package.h"
#include "files/store.h"
#include "installer/installer.h"
#include "mcp/server.h"
#include "session/session.h"

// Without a store, code runs all the same, but its files have no links.
static void open_store(struct server *s)
{
    struct err e;
    int folder = s->gate.facts->state_folder;
    if (folder < 0)
        return;
    s->gate.store = store_open(s->config, s->gate.base, folder, &e);
    if (!s->gate.store)
        log_err(LOG_WARN, &e);
}

// Without environments, code has the packages of the interpreter.
static void open_environments(struct server *s)
{
    struct err e;
    if (s->gate.facts->environments && envs_open(&s->gate, &env_installer, &e) < 0)
        log_line(LOG_WARN, "packages cannot be installed: %s [%s]", e.message,
                 err_code_name(e.code));
    default_env_begin(&s->gate);
    // Now, so that the first run does not wait for it.
    if (code_policy_mode(s->config) == CODE_RESTRICTED ||
        (code_policy_is_auto(s->config) && text_list_has(&s->config->tools, "restricted")))
        restricted_package_begin(&s->gate);
}

int server_enter(struct server *s, const struct config *c, int sock,
                 const struct keeper_facts *facts, struct err *e)
{
    s->config = c;
    int r = gate_enter(&s->gate, sock, facts, e);
    if (r < 0)
        return r;
    s->gate.runs_max = c->runs;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN); // the keeper handles it; a terminal signals both
    r = sessions_open(&s->gate, c, e);
    if (r < 0)
        return r;
    open_store(s);
    open_environments(s);
    compat_register_sets();
    return mcp_open(&s->mcp, s->gate.base, &s->gate, c, e);
}

void server_leave(struct server *s)
{
    mcp_close(&s->mcp);
    envs_close(&s->gate);
    sessions_close(&s->gate);
    if (s->gate.store)
        store_close(s->gate.store);
}
