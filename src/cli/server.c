// SPDX-License-Identifier: Apache-2.0
//
// server: see server.h.

#include "cli/server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "compat/sets.h"
#include "config/code_policy.h"
#include "env/default_env.h"
#include "env/envs.h"
#include "env/restricted_package.h"
#include "files/store.h"
#include "installer/installer.h"
#include "mcp/server.h"
#include "run/rate.h"
#include "session/session.h"

// ---- logs ---------------------------------------------------------------------------------------

// SECURITY: a link in a folder that others write to would append to a file of their choice.
enum { APPEND = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK | O_CLOEXEC };

// With --log-dir, replaces stderr by the log file, for this process and all its children.
static int divert_log(const struct config *c, int *ret_before, struct err *e)
{
    if (!c->log_dir[0])
        return 0;
    int folder = mkdir(c->log_dir, 0700) < 0 && errno != EEXIST
                     ? -1
                     : open(c->log_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int file = folder < 0 ? -1 : openat(folder, "constrictor.log", APPEND, 0600);
    int errnum = errno;
    fd_close(&folder);
    *ret_before = file < 0 ? -1 : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (*ret_before < 0 || dup2(file, STDERR_FILENO) < 0) {
        fd_close(&file);
        return err_set(e, ERR_BAD_VALUE, errnum,
                       "name a folder that this user can write to, or omit it to log to stderr",
                       "log-dir: write to constrictor.log in '%.300s'", c->log_dir);
    }
    fd_close(&file);
    return 0;
}

static int open_run_audit(struct keeper_plan *plan, struct err *e)
{
    const char *path = plan->config->run_audit_file;
    struct stat st;
    if (!path[0])
        return 0;
    int fd = open(path, APPEND, 0600);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        int errnum = fd < 0 ? errno : 0;
        fd_close(&fd);
        return err_set(e, ERR_BAD_VALUE, errnum, "name a file that this user can append to",
                       "run-audit-file: append to '%.300s'", path);
    }
    plan->keep[plan->keep_count++] = fd;
    plan->run_audit = plan->keep_count;
    return 0;
}

int server_open_logs(struct keeper_plan *plan, int *ret_before, struct err *e)
{
    log_with_time();
    *ret_before = -1;
    int r = open_run_audit(plan, e); // first, so that stderr tells of a failure
    return r < 0 ? r : divert_log(plan->config, ret_before, e);
}

// ---- the gate -----------------------------------------------------------------------------------

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
    s->gate.rates = rates_new(c->rate); // lives as long as this process
    if (c->rate && !s->gate.rates)
        return err_set(e, ERR_SYSTEM, 0, NULL, "the gate is out of memory");
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
