// SPDX-License-Identifier: Apache-2.0
//
// run_show: what `run` and `repl` show of a run: its output as it comes, pictures and values,
// errors and denials, and the files that it left, which saver.c saves.  run_show_open() is called
// in the first process, which knows the terminal; the others in the gate.

#ifndef CONSTRICTOR_CLI_RUN_SHOW_H
#define CONSTRICTOR_CLI_RUN_SHOW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/terminal.h"
#include "config/config.h"
#include "exec/exec.h"
#include "run/gate.h"

struct run_show {
    const struct config *config;
    const struct gate *gate; // of the run; the caller sets it before the run
    // The script: its copy in the box does not count as a file that the code left.  NULL: none.
    const char *filename, *code;
    size_t code_length;
    bool values; // print the value of the last expression
    bool talks;  // repl: there is no --json

    struct terminal terminal;
    json_t *files;    // path -> {"saved"} or {"error"}; null: it is the script
    json_t *pictures; // entries for "files" of the result
    unsigned images, saved_images;
    unsigned left;    // files that the code left
    unsigned unsaved; // files that could not be saved
    // The file being received: it is compared with the script, saved, or neither.
    char file[SCRATCH_PATH_MAX + 1];
    uint64_t file_size;
    bool comparing, saving;
};

int run_show_open(struct run_show *w, const struct config *c, struct err *e);

// For struct single_run, whose `argument` is the struct run_show.  Output goes to our stdout and
// stderr; the files go to the saver.
int run_show_output(struct exec *x, enum run_stream stream, struct evbuffer *data);
extern const struct exec_taker run_show_taker;

// Saves the pictures of a run and, unless the configuration says --json, shows them and its value.
// Returns its object, new; NULL: memory is out.
json_t *run_show_result(struct run_show *w, struct exec *x);
// Prints the error, the hints and the denials.
void run_show_error(const struct run_show *w, const struct exec *x, json_t *o);
// Prints what was not saved, and how to save it.
void run_show_files(const struct run_show *w, json_t *o);
// Adds to each file of a list how it was saved, adds the pictures, and removes the script, which
// the code did not make.
void run_show_mark_files(struct run_show *w, json_t *list);

// Why output of the code could not be written (errno); 0: all was written.
int run_show_unwritten(void);

#endif
