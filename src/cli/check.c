// SPDX-License-Identifier: Apache-2.0
//
// check: `constrictor check`.  cmd_check() reads the source in the first process, with the rights
// of the user, and starts the keeper.  check_gate() is the gate's side: a box checks the source
// (check/check.h) without executing it, and the gate prints the answer.

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

struct check_command {
    const struct config *config;
    struct source_text input;
    struct gate gate;
    struct check *check; // finished; NULL: not started
    bool done;
};

static void on_done(struct check *k)
{
    struct check_command *cmd = k->argument;
    cmd->done = true;
    event_base_loopbreak(k->gate->base);
}

static void on_signal(evutil_socket_t sig, short what, void *argument)
{
    struct check_command *cmd = argument;
    (void)sig;
    (void)what;
    event_base_loopbreak(cmd->gate.base);
}

static int start(struct check_command *cmd, struct err *e)
{
    const struct config *c = cmd->config;
    json_t *policy;
    int r = code_policy_make(c, NULL, NULL, net_is_on(c), true, &policy, e);
    if (r < 0)
        return r;
    struct check_request request = {.owner = "",
                                    .source = cmd->input.text,
                                    .length = cmd->input.length,
                                    .policy = policy,
                                    .lint = c->lint,
                                    .from_file = !c->code,
                                    .on_done = on_done,
                                    .argument = cmd};
    cmd->check = check_start(&cmd->gate, &request);
    json_decref(policy);
    if (!cmd->check)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "start the check");
    return cli_catch_signals(cmd->gate.base, on_signal, cmd, e);
}

static int print_answer(const struct check_command *cmd)
{
    json_t *answer = cmd->check->answer;
    int valid = json_is_true(json_object_get(answer, "valid"));
    if (cmd->config->json) {
        (void)json_dumpf(answer, stdout, JSON_INDENT(2));
        (void)putchar('\n');
    } else {
        _cleanup_free_ char *words =
            check_words(answer, cmd->config->code                       ? "<code>"
                                : strcmp(cmd->input.name, "stdin") == 0 ? "<stdin>"
                                                                        : cmd->input.name);
        if (words)
            (void)fputs(words, stdout);
    }
    int failed = cli_finish();
    return failed ? failed : !valid;
}

static int check_gate(int sock, const struct keeper_facts *facts, void *argument)
{
    struct check_command *cmd = argument;
    struct err e;
    if (gate_enter(&cmd->gate, sock, facts, &e) < 0 ||
        run_packages_open(run_packages_needed(cmd->config, "", 0), &cmd->gate, &e) < 0 ||
        start(cmd, &e) < 0)
        return cli_fail(&e, cmd->config->json);
    (void)signal(SIGPIPE, SIG_IGN);
    gate_dispatch(&cmd->gate);
    if (!cmd->done) {
        err_set(&e, ERR_CANCELLED, 0, NULL, "the check was interrupted");
        return cli_fail(&e, cmd->config->json);
    }
    if (!cmd->check->answer)
        return cli_fail(&cmd->check->error, cmd->config->json);
    return print_answer(cmd); // the process ends here and frees everything
}

static int cmd_check(const struct config *c, int argc, char **argv)
{
    static struct check_command cmd;
    static struct config one;
    struct err e;
    (void)argc;
    if (code_policy_check(c, &e) < 0 || load_source(c, argv[0], &cmd.input, &e) < 0)
        return cli_fail(&e, c->json);
    one = *c;
    one.stock = 1;
    one.network = 2; // off: the code does not run
    cmd.config = &one;
    struct keeper_plan plan = {.config = &one, .cold = true, .gate = check_gate, .argument = &cmd};
    run_packages_add_to_plan(run_packages_needed(&one, "", 0), &plan);
    network_add_to_plan(&plan); // an install has its own network
    int status = cli_run_keeper(&plan);
    free(cmd.input.text);
    return status;
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
