// SPDX-License-Identifier: Apache-2.0
//
// run: `constrictor run`.  cmd_run() reads the source in the first process, with the rights of the
// user, and starts the keeper.  run_gate() is the gate's side: it runs the code, prints the output
// and images to the terminal (terminal.c), and saves files (saver.c).

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/load_source.h"
#include "cli/network.h"
#include "cli/notebook.h"
#include "cli/run_input.h"
#include "cli/run_show.h"
#include "cli/saver.h"
#include "cli/single_run.h"
#include "keeper/keeper.h"
#include "run/result.h"
#include "run/source.h"

struct run_command {
    const struct config *config;
    char *code;
    size_t code_length;
    char *filename; // for tracebacks, in UTF-8 whatever bytes the file's name has
    json_t *argv;
    json_t *env_vars;
    struct run_files input;
    struct shares shares;
    enum run_stdin_kind stdin_kind;
    struct saver saver;
    int notebook; // it runs this one, and there is no `code`; -1: none
    struct run_show show;
    struct single_run single; // in the gate
};

// ---- the source ---------------------------------------------------------------------------------

static int read_source(struct run_command *cmd, const struct config *c, char **argv, struct err *e)
{
    struct source_text in;
    cmd->notebook = -1;
    if (notebook_is(c, argv[0])) {
        cmd->notebook = notebook_open(argv[0], e);
        return cmd->notebook;
    }
    int r = load_source(c, argv[0], &in, e);
    cmd->code = in.text;
    cmd->code_length = in.length;
    return r < 0 ? r : source_check(cmd->code, cmd->code_length, in.name, c->source_bytes, e);
}

// Sets the name for tracebacks, and sys.argv.
static int name_source(struct run_command *cmd, const struct config *c, int argc, char **argv,
                       struct err *e)
{
    cmd->argv = json_array();
    for (int i = 0; i < argc; i++) {
        size_t n = 0;
        _cleanup_free_ char *clean = utf8_clean(argv[i], strlen(argv[i]), &n);
        (void)json_array_append_new(cmd->argv, json_stringn_nocheck(clean ? clean : "", n));
    }
    const char *first = json_string_value(json_array_get(cmd->argv, 0));
    const char *name = c->code || c->module           ? "<code>"
                       : first && !strcmp(first, "-") ? "<stdin>"
                                                      : first;
    cmd->filename = name ? strdup(name) : NULL;
    return cmd->argv && cmd->filename ? 0 : err_set(e, ERR_SYSTEM, ENOMEM, NULL, "prepare the run");
}

// ---- the gate's side ----------------------------------------------------------------------------

// A failed preload does not fail the run, but the user asked for it.
static void warn_of_preloads(const struct keeper_facts *facts)
{
    json_t *report = json_loads(facts->zygote_report, 0, NULL), *entry;
    size_t i;
    json_array_foreach (json_object_get(report, "failed"), i, entry)
        fprintf(stderr, "constrictor: warning: preload '%s' failed: %s\n",
                json_string_value(json_object_get(entry, "name")),
                json_string_value(json_object_get(entry, "error")));
    json_decref(report);
}

static int print_object(struct run_command *cmd, json_t *o)
{
    run_show_mark_files(&cmd->show, json_object_get(o, "files"));
    if (json_dumpf(o, stdout, JSON_INDENT(2)) < 0 || putchar('\n') == EOF) {
        struct err e;
        err_set(&e, ERR_SYSTEM, errno, NULL, "write the result");
        return cli_fail(&e, false);
    }
    return cli_finish();
}

static int finish(struct run_command *cmd)
{
    struct exec *x = cmd->single.exec;
    struct err e;
    int failed = 0;
    if (x->error.message[0])
        return cli_fail(&x->error, cmd->config->json);
    if (cmd->single.interrupted && x->result.verdict == VERDICT_ERROR)
        x->result.verdict = VERDICT_CANCELLED;
    json_t *o = run_show_result(&cmd->show, x);
    if (!o) {
        err_set(&e, ERR_SYSTEM, ENOMEM, NULL, "build the result");
        return cli_fail(&e, cmd->config->json);
    }
    if (cmd->config->json) {
        failed = print_object(cmd, o);
    } else {
        run_show_files(&cmd->show, o);
        run_show_error(&cmd->show, x, o);
    }
    json_decref(o);
    if (run_show_unwritten()) {
        err_set(&e, ERR_SYSTEM, run_show_unwritten(), NULL, "write the output of the code");
        failed = cli_fail(&e, false);
    }
    int status = failed ? failed : result_exit_status(&x->result);
    // A caller that wants the files must not continue as if they were there.
    return status == 0 && cmd->show.unsaved ? err_exit_status(ERR_OUT_FOLDER) : status;
}

static int run_gate(int sock, const struct keeper_facts *facts, void *argument)
{
    struct run_command *cmd = argument;
    struct err e;
    cmd->show.gate = &cmd->single.gate;
    cmd->show.filename = cmd->notebook < 0 ? cmd->filename : NULL;
    cmd->show.code = cmd->code;
    cmd->show.code_length = cmd->code_length;
    // Field by field: the struct is large and already zeroed.
    struct single_run *o = &cmd->single;
    o->config = cmd->config;
    o->code = cmd->code;
    o->code_length = cmd->code_length;
    o->filename = cmd->filename;
    o->argv = TAKE_PTR(cmd->argv);
    o->env_vars = TAKE_PTR(cmd->env_vars);
    o->files = &cmd->input;
    o->stdin_kind = cmd->stdin_kind;
    o->packages = run_packages_needed(cmd->config, cmd->code, cmd->code_length);
    o->on_output = cmd->config->json ? NULL : run_show_output;
    o->taker = &run_show_taker;
    o->argument = &cmd->show;
    if (!cmd->config->json)
        warn_of_preloads(facts);
    if (cmd->notebook >= 0)
        return notebook_run(cmd->filename, o, &cmd->show, sock, facts);
    if (single_run(&cmd->single, sock, facts, &e) < 0)
        return cli_fail(&e, cmd->config->json);
    return finish(cmd); // the process ends here and frees everything
}

static bool is_file(const struct run_command *cmd)
{
    return cmd->filename && cmd->filename[0] != '<';
}

static int cmd_run(const struct config *c, int argc, char **argv)
{
    static struct run_command cmd;
    struct err e;
    int status = 0;
    cmd.config = c;
    if (network_check_config(c, c->json, &e) < 0 || read_source(&cmd, c, argv, &e) < 0 ||
        name_source(&cmd, c, argc, argv, &e) < 0 || run_env_vars(c, &cmd.env_vars, &e) < 0 ||
        run_files_read(c, is_file(&cmd) ? argv[0] : NULL, &cmd.input, &e) < 0 ||
        shares_open(c, &cmd.shares, &e) < 0 || (c->out[0] && saver_start(&cmd.saver, c, &e) < 0) ||
        run_show_open(&cmd.show, c, &e) < 0)
        return cli_fail(&e, c->json);
    cmd.stdin_kind = run_stdin_look(strcmp(cmd.filename, "<stdin>") == 0, cmd.notebook >= 0);
    // One run needs one box and a minimal interpreter.
    struct keeper_plan plan = {.config = c,
                               .cold = true,
                               .stock = 1,
                               .shares = &cmd.shares,
                               .gate = run_gate,
                               .argument = &cmd};
    run_packages_add_to_plan(run_packages_needed(c, cmd.code, cmd.code_length), &plan);
    network_add_to_plan(&plan);
    if (cmd.saver.pid)
        plan.keep[plan.keep_count++] = cmd.saver.sock;
    if (cmd.notebook >= 0)
        plan.keep[plan.keep_count++] = cmd.notebook;
    int r = keeper_run(&plan, &status, &e);
    saver_end(&cmd.saver, r < 0);
    free(cmd.code);
    free(cmd.filename);
    json_decref(cmd.argv);
    json_decref(cmd.env_vars);
    run_files_clear(&cmd.input);
    if (r == 0)
        return status;
    caps_explain(c, &e);
    return cli_fail(&e, c->json);
}

const struct command command_run = {
    .name = "run",
    .section = SECTION_RUN,
    .summary = "Run Python code once, in a fresh box",
    .usage = "run [options] FILE [ARGS...]\n"
             "run [options] FILE.ipynb [ARGS...]\n"
             "run [options] -c CODE [ARGS...]\n"
             "run [options] -m MODULE [ARGS...]\n"
             "run [options] - [ARGS...]",
    .notes = "A file can list the packages it needs in a '# /// script' block (PEP 723).\n"
             "Exit status: that of the code (0, n after sys.exit(n), 1 after an exception,\n"
             "128+n after signal n); else\n"
             "  64 bad option or value      65 unusable source      66 unreadable source\n"
             "  69 no isolation or no interpreter                   70 internal error\n"
             "  73 cannot write to the folder of --out\n"
             "  121 too many processes      122 disk full           123 too much output\n"
             "  124 time limit              125 box lost            126 denied\n"
             "  130 cancelled               137 out of memory",
    .bit = CONFIG_RUN,
    .operands_min = 1,
    .operands_max = INT_MAX,
    .function = cmd_run,
};
