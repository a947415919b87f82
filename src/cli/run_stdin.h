// SPDX-License-Identifier: Apache-2.0
//
// run_stdin: the stdin of `constrictor run`, for the code.  A file or a pipe is read as far as the
// box has room for it; a terminal only when the code asks, so that what is typed ahead stays with
// the shell.

#ifndef CONSTRICTOR_CLI_RUN_STDIN_H
#define CONSTRICTOR_CLI_RUN_STDIN_H

#include <stdbool.h>

#include "exec/exec.h"

enum run_stdin_kind {
    RUN_STDIN_NONE,     // /dev/null
    RUN_STDIN_CODE,     // the code itself comes from there
    RUN_STDIN_CELLS,    // cells: it is unclear which of them it is for
    RUN_STDIN_FILE,     // read() never waits for others
    RUN_STDIN_STREAM,   // a pipe or a socket
    RUN_STDIN_TERMINAL, // a person
};

// In the first process.
enum run_stdin_kind run_stdin_look(bool is_code, bool is_notebook);

// Fills in what the request says about stdin: after `on_output`.
void run_stdin_add(enum run_stdin_kind kind, struct exec_request *request);
void run_stdin_stop(void); // its run is over

#endif
