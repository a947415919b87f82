// SPDX-License-Identifier: Apache-2.0
//
// single_run: runs one piece of code in one box, for `run` and `doctor`.  Called in the gate, by
// the function of a keeper_plan; gives up every privilege first.

#ifndef CONSTRICTOR_CLI_SINGLE_RUN_H
#define CONSTRICTOR_CLI_SINGLE_RUN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "cli/run_files.h"
#include "cli/run_packages.h"
#include "config/config.h"
#include "exec/exec.h"
#include "run/gate.h"

struct single_run {
    const struct config *config; // the limits of the run
    const char *code, *filename; // borrowed
    size_t code_length;
    json_t *argv;                  // taken
    const struct run_files *files; // borrowed; NULL: none
    json_t *env_vars;              // of run_input.h, taken; NULL: none
    json_t *network;               // a rule set, taken; NULL: what the configuration allows
    enum run_packages packages;    // as given to run_packages_add_to_plan()
    // As in struct exec_request, with this struct as x->request.argument.  NULL: output is
    // collected, files are ignored.
    int (*on_output)(struct exec *x, enum run_stream stream, struct evbuffer *data);
    const struct exec_taker *taker;
    void *argument; // of the caller's

    // Filled by single_run().
    struct gate gate;
    struct exec *exec; // finished; its `error` is set when there was no box
    bool done;
    bool interrupted; // by Ctrl-C
};

// Returns 0 when the run is over, or the error that kept it from starting.  Frees nothing: the
// process is about to end.
int single_run(struct single_run *o, int sock, const struct keeper_facts *facts, struct err *e);

#endif
