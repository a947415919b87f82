// SPDX-License-Identifier: Apache-2.0
//
// single_run: runs code for one user of the command line: one piece of code in one box, for `run`
// and `doctor`, or one piece after the other in a session, for notebooks and `repl`.  Called in the
// gate, by the function of a keeper_plan; gives up every privilege first.

#ifndef CONSTRICTOR_CLI_SINGLE_RUN_H
#define CONSTRICTOR_CLI_SINGLE_RUN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/timer.h"
#include "cli/run_files.h"
#include "cli/run_packages.h"
#include "cli/run_stdin.h"
#include "config/config.h"
#include "exec/exec.h"
#include "run/gate.h"

struct single_run {
    const struct config *config; // the limits of the run
    const char *code, *filename; // borrowed
    size_t code_length;
    bool lives;                    // a session: single_run_do() may be called again
    bool checkpoints;              // which can be undone
    json_t *argv;                  // taken
    const struct run_files *files; // borrowed; NULL: none
    json_t *env_vars;              // of run_input.h, taken; NULL: none
    enum run_stdin_kind stdin_kind;
    json_t *network;            // a rule set, taken; NULL: what the configuration allows
    enum run_packages packages; // as given to run_packages_add_to_plan()
    // As in struct exec_request, with this struct as x->request.argument.  NULL: output is
    // collected, files are ignored.
    int (*on_output)(struct exec *x, enum run_stream stream, struct evbuffer *data);
    const struct exec_taker *taker;
    void *argument; // of the caller's
    // A signal while nothing runs.  NULL: it is ignored.
    void (*on_signal)(int sig, void *argument);

    // The rest is filled in.
    struct gate gate;
    struct exec *exec; // finished; its `error` is set when there was no box
    bool done;
    bool interrupted; // by Ctrl-C
    struct timer grace;
};

struct single_code {
    const char *text, *filename; // borrowed until it has run
    size_t length;
    bool collect;            // the files that are new or changed since the last run that collected
    enum exec_action action; // EXEC_RUN, or EXEC_UNDO
    unsigned steps;          // of EXEC_UNDO
};

int single_run_open(struct single_run *o, int sock, const struct keeper_facts *facts,
                    struct err *e);
// Returns 0 when the run is over: o->exec has it until the next one.
int single_run_do(struct single_run *o, const struct single_code *code, struct err *e);
// A run without code: it brings the files of --in, or collects those that earlier runs left.
// `ret_o`: its object, new; NULL: memory is out.
int single_run_nothing(struct single_run *o, json_t **ret_o, struct err *e);

// Both, with the code of `o`.

// Returns 0 when the run is over, or the error that kept it from starting.  Frees nothing: the
// process is about to end.
int single_run(struct single_run *o, int sock, const struct keeper_facts *facts, struct err *e);

#endif
