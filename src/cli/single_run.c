// SPDX-License-Identifier: Apache-2.0
//
// single_run: see single_run.h.

#include "cli/single_run.h"

#include <errno.h>
#include <signal.h>

#include "base/cleanup.h"
#include "cli/cli.h"

static void on_done(struct exec *x)
{
    struct single_run *o = x->request.argument;
    o->done = true;
    event_base_loopbreak(x->gate->base);
}

enum { GRACE_S = 3 }; // for the code to stop after KeyboardInterrupt

static void on_grace(evutil_socket_t fd, short what, void *argument)
{
    struct single_run *o = argument;
    (void)fd;
    (void)what;
    exec_cancel(o->exec);
}

// The first Ctrl-C raises KeyboardInterrupt in the code.  The second one, or GRACE_S, ends the run.
static void on_signal(evutil_socket_t sig, short what, void *argument)
{
    struct single_run *o = argument;
    (void)what;
    const struct run *r = o->exec->run;
    if (sig == SIGINT && !o->interrupted && r && r->state >= RUN_SENDING) {
        struct timeval grace = {.tv_sec = GRACE_S};
        o->interrupted = true;
        exec_interrupt(o->exec);
        (void)event_base_once(o->gate.base, -1, EV_TIMEOUT, on_grace, o, &grace);
    } else {
        exec_cancel(o->exec);
    }
}

int single_run(struct single_run *o, int sock, const struct keeper_facts *facts, struct err *e)
{
    const struct config *c = o->config;
    json_t *packages = NULL;
    int r = gate_enter(&o->gate, sock, facts, e);
    if (r == 0)
        r = run_packages_open(o->packages, &o->gate, e);
    if (r == 0 && c->run_packages.count)
        r = run_packages_list(c, &packages, e);
    if (r < 0)
        return r;
    struct exec_request request = {
        .owner = "",
        .code = o->code,
        .code_length = o->code_length,
        .argv = TAKE_PTR(o->argv),
        .filename = o->filename,
        .env_vars = TAKE_PTR(o->env_vars),
        .more_files = o->files ? o->files->files : NULL,
        .more_count = o->files ? o->files->count : 0,
        .network = TAKE_PTR(o->network),
        .environment = c->run_env,
        .packages = packages,
        .limits = keeper_limits(c),
        .wall_ms = c->wall_ms,
        .output_bytes = c->output_bytes,
        .wait_reaped = true, // for exact figures of time and memory
        .collect = o->taker != NULL,
        .on_output = o->on_output,
        .taker = o->taker,
        .on_done = on_done,
        .argument = o,
    };
    (void)signal(SIGPIPE, SIG_IGN);
    o->exec = exec_start(&o->gate, &request);
    if (!o->exec)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "start the run");
    r = cli_catch_signals(o->gate.base, on_signal, o, e);
    if (r < 0)
        return r;
    gate_dispatch(&o->gate);
    if (!o->done)
        return err_set(e, ERR_INTERNAL, 0, NULL, "the keeper ended");
    return 0;
}
