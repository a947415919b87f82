// SPDX-License-Identifier: Apache-2.0
//
// check: `constrictor check`.  cmd_check() works in the first process: it reads the source with the
// rights of the user, then hands over to the keeper; check_gate() is the gate's side, which has a
// box look at the source (check/check.h) and prints what it says.  Nothing of the source is
// executed.

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "check/check.h"
#include "check/check_words.h"
#include "cli/cli.h"
#include "cli/load_source.h"
#include "cli/network.h"
#include "cli/run_packages.h"
#include "config/code_policy.h"
#include "keeper/keeper.h"
#include "net/policy.h"
#include "run/gate.h"

struct job {
    const struct config *config;
    struct source_text input;
    struct gate gate;
    struct check *check; // done; NULL: it was not begun
    bool done;
};

static void on_done(struct check *k)
{
    struct job *job = k->argument;
    job->done = true;
    event_base_loopbreak(k->gate->base);
}

static void on_signal(evutil_socket_t sig, short what, void *argument)
{
    struct job *job = argument;
    (void)sig;
    (void)what;
    event_base_loopbreak(job->gate.base);
}

static int start(struct job *job, struct err *e)
{
    const struct config *c = job->config;
    json_t *policy;
    int r = code_policy_make(c, NULL, NULL, net_is_on(c), true, &policy, e);
    if (r < 0)
        return r;
    struct check_request request = {.owner = "",
                                    .source = job->input.text,
                                    .length = job->input.length,
                                    .policy = policy,
                                    .lint = c->lint,
                                    .from_file = !c->code,
                                    .on_done = on_done,
                                    .argument = job};
    job->check = check_start(&job->gate, &request);
    json_decref(policy);
    struct event *interrupt = evsignal_new(job->gate.base, SIGINT, on_signal, job);
    struct event *terminate = evsignal_new(job->gate.base, SIGTERM, on_signal, job);
    if (!job->check || !interrupt || !terminate || event_add(interrupt, NULL) < 0 ||
        event_add(terminate, NULL) < 0)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "start the check");
    return 0;
}

static int print_answer(const struct job *job)
{
    json_t *answer = job->check->answer;
    int valid = json_is_true(json_object_get(answer, "valid"));
    if (job->config->json) {
        (void)json_dumpf(answer, stdout, JSON_INDENT(2));
        (void)putchar('\n');
    } else {
        _cleanup_free_ char *words =
            check_words(answer, job->config->code                       ? "<code>"
                                : strcmp(job->input.name, "stdin") == 0 ? "<stdin>"
                                                                        : job->input.name);
        if (words)
            (void)fputs(words, stdout);
    }
    int failed = cli_finish();
    return failed ? failed : !valid;
}

static int check_gate(int sock, const struct keeper_facts *facts, void *argument)
{
    struct job *job = argument;
    struct err e;
    if (gate_enter(&job->gate, sock, facts, &e) < 0 ||
        run_packages_open(run_packages_needed(job->config, "", 0), &job->gate, &e) < 0 ||
        start(job, &e) < 0)
        return cli_fail(&e, job->config->json);
    (void)signal(SIGPIPE, SIG_IGN);
    gate_dispatch(&job->gate);
    if (!job->done) {
        err_set(&e, ERR_CANCELLED, 0, NULL, "the check was ended before it was done");
        return cli_fail(&e, job->config->json);
    }
    if (!job->check->answer)
        return cli_fail(&job->check->error, job->config->json);
    return print_answer(job); // no tidying: the process ends here
}

static int cmd_check(const struct config *c, int argc, char **argv)
{
    static struct job job;
    static struct config one;
    struct err e;
    int status = 0;
    (void)argc;
    if (code_policy_check(c, &e) < 0 || load_source(c, argv[0], &job.input, &e) < 0)
        return cli_fail(&e, c->json);
    one = *c;
    one.stock = 1;
    one.network = 2; // off: nothing runs
    job.config = &one;
    struct keeper_plan plan = {.config = &one, .cold = true, .gate = check_gate, .argument = &job};
    run_packages_add_to_plan(run_packages_needed(&one, "", 0), &plan);
    network_add_to_plan(&plan); // an installation has a network of its own
    int r = keeper_run(&plan, &status, &e);
    free(job.input.text);
    if (r == 0)
        return status;
    caps_explain(&one, &e);
    return cli_fail(&e, c->json);
}

const struct command command_check = {
    .name = "check",
    .section = SECTION_RUN,
    .summary = "Check Python code for errors without running it",
    .usage = "check [options] FILE\n"
             "check [options] -c CODE\n"
             "check [options] -",
    .notes = "Reports syntax errors, forbidden imports, likely mistakes and advice.\n"
             "Exit status: 0 when the code is valid, 1 when it is not; else\n"
             "  64 bad option or value      65 source too large     66 unreadable source\n"
             "  69 no isolation or no interpreter                   70 internal error",
    .bit = CONFIG_CHECK,
    .operands_min = 1,
    .operands_max = 1,
    .function = cmd_check,
};
