// SPDX-License-Identifier: Apache-2.0
//
// repl: `constrictor repl`: one cell after the other in a session of its own, as a person types
// them.  cmd_repl() starts the keeper and, before it, the process that reads the lines (editor.c)
// and the one that saves files (saver.c); repl_gate() is the gate's side.

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/editor.h"
#include "cli/network.h"
#include "cli/run_input.h"
#include "cli/run_show.h"
#include "cli/saver.h"
#include "cli/single_run.h"
#include "keeper/keeper.h"
#include "run/result.h"
#include "run/source.h"

struct repl {
    const struct config *config;
    json_t *env_vars;
    struct run_files input;
    struct shares shares;
    struct saver saver;
    struct editor editor;
    struct run_show show;
    struct single_run single; // in the gate
    bool is_ended;            // by a signal, or because the code called sys.exit()
    int status;               // of the last cell
    unsigned runs;            // that there are to undo
};

// ---- in the gate --------------------------------------------------------------------------------

static void on_idle_signal(int sig, void *argument)
{
    struct run_show *w = argument;
    struct repl *r = (struct repl *)((char *)w - offsetof(struct repl, show));
    if (sig == SIGINT)
        return; // it emptied the line
    r->is_ended = true;
    r->status = 128 + sig;
    (void)event_base_loopbreak(r->single.gate.base);
}

static void tell(const struct err *e, struct repl *r)
{
    r->status = cli_fail(e, false);
}

// The box is gone, and with it everything but what was saved.
static void tell_loss(struct repl *r)
{
    if (r->single.exec->session)
        return;
    r->runs = 0;
    fprintf(stderr, "constrictor: the box has ended, and its variables and files with it; the next "
                    "line starts a new one\n");
}

static void show(struct repl *r)
{
    struct exec *x = r->single.exec;
    json_auto_t *o = run_show_result(&r->show, x);
    if (!o)
        return;
    if (r->single.interrupted && x->session)
        x->result.verdict = VERDICT_ERROR; // the person knows; KeyboardInterrupt is enough
    run_show_mark_files(&r->show, json_object_get(o, "files"));
    run_show_error(&r->show, x, o);
    (void)json_object_clear(r->show.files);
    r->status = result_exit_status(&x->result);
    json_t *code = json_object_get(o, "exit_code");
    bool exits = x->result.verdict == VERDICT_ERROR && x->session &&
                 json_is_null(json_object_get(o, "error")) && json_integer_value(code) != 0;
    // sys.exit(n); or the reader of the output is gone, or SIGTERM came
    r->is_ended = exits || (x->result.verdict == VERDICT_CANCELLED && !r->single.interrupted);
}

static void run_cell(struct repl *r, const struct editor_text *typed)
{
    const struct single_code code = {.text = typed->text,
                                     .length = typed->length,
                                     .filename = "<cell>",
                                     .collect = r->config->out[0]};
    struct err e;
    if (source_check(typed->text, typed->length, "cell", r->config->source_bytes, &e) < 0) {
        e.hint[0] = '\0'; // it is about a file
        tell(&e, r);
        return;
    }
    r->runs++;
    if (single_run_do(&r->single, &code, &e) < 0) {
        tell(&e, r);
        r->is_ended = true;
        return;
    }
    if (r->single.exec->error.message[0])
        tell(&r->single.exec->error, r);
    else
        show(r);
    tell_loss(r);
}

static void undo(struct repl *r, const struct editor_text *typed)
{
    const struct single_code code = {.text = "",
                                     .filename = "<cell>",
                                     .action = EXEC_UNDO,
                                     .steps = (unsigned)strtoul(typed->text, NULL, 10)};
    struct err e;
    r->status = 1;
    if (code.steps > r->runs) {
        fprintf(stderr, "constrictor: runs that can be undone: %u\n", r->runs);
    } else if (single_run_do(&r->single, &code, &e) < 0) {
        tell(&e, r);
        r->is_ended = true;
    } else if (r->single.exec->error.message[0]) {
        tell(&r->single.exec->error, r);
    } else {
        show(r);
        r->runs -= r->status == 0 ? code.steps : 0;
    }
}

static void greet(const struct repl *r)
{
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
        fprintf(stderr,
                "Python %s in a box of constrictor " CONSTRICTOR_VERSION
                ". :help shows the commands, Ctrl-D ends.\n",
                r->single.gate.facts->interp->version);
}

static int finish(struct repl *r)
{
    struct err e;
    json_t *last = NULL;
    if (r->single.exec->session && !r->config->out[0] && !run_show_unwritten() &&
        single_run_nothing(&r->single, &last, &e) == 0 && last)
        run_show_files(&r->show, last);
    json_decref(last);
    return cli_finish() ?: r->status;
}

static int repl_gate(int sock, const struct keeper_facts *facts, void *argument)
{
    struct repl *r = argument;
    struct single_run *o = &r->single;
    struct editor_text typed;
    struct err e;
    json_t *nothing;
    r->show.gate = &o->gate;
    r->show.values = r->show.talks = true;
    o->config = r->config;
    o->lives = o->checkpoints = true;
    o->files = &r->input;
    o->env_vars = TAKE_PTR(r->env_vars);
    o->stdin_kind = run_stdin_look(!isatty(STDIN_FILENO), true);
    o->packages = run_packages_needed(r->config, "", 0);
    o->on_output = run_show_output;
    o->taker = &run_show_taker;
    o->argument = &r->show;
    o->on_signal = on_idle_signal;
    if (single_run_open(o, sock, facts, &e) < 0 || single_run_nothing(o, &nothing, &e) < 0)
        return cli_fail(&e, false);
    json_decref(nothing);
    greet(r);
    while (!r->is_ended && !run_show_unwritten()) {
        editor_ask(&o->gate, o->gate.own.keep[o->gate.own.keep_count - 1], &typed);
        if (r->is_ended || typed.kind == EDITOR_END)
            break;
        if (typed.kind == EDITOR_UNDO)
            undo(r, &typed);
        else
            run_cell(r, &typed);
        editor_free(&typed);
    }
    return finish(r); // the process ends here and frees everything
}

// ---- in the first process -----------------------------------------------------------------------

static int cmd_repl(const struct config *c, int argc, char **argv)
{
    static struct repl r;
    struct err e;
    int status = 0;
    (void)argc;
    (void)argv;
    r.config = c;
    if (network_check_config(c, false, &e) < 0 || run_env_vars(c, &r.env_vars, &e) < 0 ||
        run_files_read(c, NULL, &r.input, &e) < 0 || shares_open(c, &r.shares, &e) < 0 ||
        (c->out[0] && saver_start(&r.saver, c, &e) < 0) || run_show_open(&r.show, c, &e) < 0 ||
        editor_start(&r.editor, c, &e) < 0)
        return cli_fail(&e, false);
    // Not `cold`: such an interpreter has no checkpoints.
    struct keeper_plan plan = {
        .config = c, .stock = 1, .shares = &r.shares, .gate = repl_gate, .argument = &r};
    run_packages_add_to_plan(run_packages_needed(c, "", 0), &plan);
    network_add_to_plan(&plan);
    if (r.saver.pid)
        plan.keep[plan.keep_count++] = r.saver.sock;
    plan.keep[plan.keep_count++] = TAKE_FD(r.editor.sock);
    int failed = keeper_run(&plan, &status, &e);
    editor_end(&r.editor);
    saver_end(&r.saver, failed < 0);
    run_files_clear(&r.input);
    json_decref(r.env_vars);
    if (failed == 0)
        return status;
    caps_explain(c, &e);
    return cli_fail(&e, false);
}

const struct command command_repl = {
    .name = "repl",
    .section = SECTION_RUN,
    .summary = "Type Python into a box of its own, line by line",
    .usage = "repl [options]",
    .notes = "Blocks run after an empty line; the value of a last expression is printed.\n"
             "Ctrl-C stops the code that runs; ':undo' goes back to before the last run;\n"
             "':help' lists the commands; Ctrl-D ends. Lines come from stdin if that is no\n"
             "terminal. Limits of time and output hold for each run. Exit status: that of\n"
             "the last run.",
    .bit = CONFIG_REPL,
    .operands_max = 0,
    .function = cmd_repl,
};
