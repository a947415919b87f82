// SPDX-License-Identifier: Apache-2.0
//
// single_run: see single_run.h.

#include "cli/single_run.h"

#include <errno.h>
#include <signal.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "cli/cli.h"
#include "session/session.h"

static void on_done(struct exec *x)
{
    struct single_run *o = x->request.argument;
    o->done = true;
    timer_stop(&o->grace);
    run_stdin_stop();
    event_base_loopbreak(x->gate->base);
}

enum { GRACE_MS = 3000 }; // for the code to stop after KeyboardInterrupt

static void on_grace(void *argument)
{
    struct single_run *o = argument;
    exec_cancel(o->exec);
}

// The first Ctrl-C raises KeyboardInterrupt in the code.  The second one, or GRACE_MS, ends the
// run.
static void on_signal(evutil_socket_t sig, short what, void *argument)
{
    struct single_run *o = argument;
    (void)what;
    const struct run *r = o->exec && !o->done ? o->exec->run : NULL;
    if (o->on_signal && !r)
        o->on_signal(sig, o->argument);
    else if (sig == SIGINT && !o->interrupted && r && r->state >= RUN_SENDING) {
        o->interrupted = true;
        exec_interrupt(o->exec);
        (void)timer_set(&o->grace, o->gate.base, GRACE_MS, on_grace, o);
    } else if (o->exec && !o->done) {
        exec_cancel(o->exec);
    }
}

int single_run_open(struct single_run *o, int sock, const struct keeper_facts *facts, struct err *e)
{
    int r = gate_enter(&o->gate, sock, facts, e);
    if (r == 0)
        r = run_packages_open(o->packages, &o->gate, e);
    if (r == 0 && o->lives)
        r = sessions_open(&o->gate, o->config, e);
    if (r < 0)
        return r;
    (void)signal(SIGPIPE, SIG_IGN);
    return cli_catch_signals(o->gate.base, on_signal, o, e);
}

// Its only session, which ends with the command and not before.
static void plan_session(const struct single_run *o, struct session_plan *plan)
{
    session_plan_init(&o->gate, plan);
    plan->idle_ms = 10 * 365 * 24 * TEXT_HOUR_MS;
    plan->checkpoint = o->checkpoints;
}

int single_run_do(struct single_run *o, const struct single_code *code, struct err *e)
{
    const struct config *c = o->config;
    struct session_plan plan;
    json_t *packages = NULL;
    if (!o->exec && c->run_packages.count && run_packages_list(c, &packages, e) < 0)
        return -1;
    plan_session(o, &plan);
    struct exec_request request = {
        .surface = EXEC_CLI,
        .owner = "",
        .action = code->action,
        .code = code->text,
        .code_length = code->length,
        .argv = json_incref(o->argv),
        .filename = code->filename,
        .env_vars = TAKE_PTR(o->env_vars),
        .keep_env_vars = o->lives,
        .has_seed = !o->exec && config_is_set(c, CONFIG_KEY_seed), // once in a notebook
        .seed = c->seed,
        .more_files = o->files ? o->files->files : NULL,
        .more_count = o->files ? o->files->count : 0,
        .network = TAKE_PTR(o->network),
        .environment = c->run_env,
        .packages = packages,
        .session = o->lives ? "session" : NULL,
        .plan = &plan,
        .steps = code->steps,
        .limits = keeper_limits(c),
        .wall_ms = c->wall_ms,
        .output_bytes = c->output_bytes,
        .wait_reaped = true, // for exact figures of time and memory
        .collect = code->collect,
        .on_output = o->on_output,
        .taker = o->taker,
        .on_done = on_done,
        .argument = o,
    };
    run_stdin_add(o->stdin_kind, &request);
    exec_free(TAKE_PTR(o->exec));
    o->files = NULL;
    o->done = o->interrupted = false;
    o->exec = exec_start(&o->gate, &request);
    if (!o->exec)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "start the run");
    (void)event_base_loop(o->gate.base,
                          EVLOOP_NONBLOCK); // forgets that the last run broke the loop
    gate_dispatch(&o->gate);
    if (!o->done)
        return err_set(e, ERR_INTERNAL, 0, NULL, "the keeper ended");
    return 0;
}

int single_run_nothing(struct single_run *o, json_t **ret_o, struct err *e)
{
    static const struct single_code nothing = {.text = "", .filename = "<cell>", .collect = true};
    *ret_o = NULL;
    if (single_run_do(o, &nothing, e) < 0)
        return -1;
    if (o->exec->error.message[0]) {
        *e = o->exec->error;
        return -1;
    }
    *ret_o = exec_json(o->exec);
    return 0;
}

int single_run(struct single_run *o, int sock, const struct keeper_facts *facts, struct err *e)
{
    int r = single_run_open(o, sock, facts, e);
    const struct single_code code = {.text = o->code,
                                     .length = o->code_length,
                                     .filename = o->filename,
                                     .collect = o->taker != NULL};
    return r < 0 ? r : single_run_do(o, &code, e);
}
