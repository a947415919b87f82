// SPDX-License-Identifier: Apache-2.0
//
// env: what the files of `constrictor env` share: env.c (the command line), env_local.c (works in
// its own gate), env_remote.c (asks a server), env_file.c (files), env_show.c (output).

#ifndef CONSTRICTOR_CLI_ENV_H
#define CONSTRICTOR_CLI_ENV_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "config/config.h"

enum env_verb {
    VERB_LIST,
    VERB_CREATE,
    VERB_INSTALL,
    VERB_UNINSTALL,
    VERB_PACKAGES,
    VERB_DESCRIBE,
    VERB_RESET,
    VERB_DELETE,
    VERB_STATUS,
    VERB_EXPORT,
    VERB_IMPORT,
    VERB_MAX
};

enum { ENV_FILE_NAME_MAX = 65 };

struct env_command {
    const struct config *config;
    enum env_verb verb;
    const char *name;                  // of the environment; NULL: none given
    const char *job;                   // VERB_STATUS: the id of an install
    const char *file;                  // VERB_EXPORT, VERB_IMPORT: its path, or "-"
    int fd;                            // the same, open; -1: none
    char file_name[ENV_FILE_NAME_MAX]; // VERB_IMPORT without a name: the file's
    json_t *packages;                  // array of strings, as written; never NULL
    json_t *preload;                   // VERB_CREATE: the modules of --preload; NULL: not given
};

// Each prints the answer or the error, and returns the exit status.
int env_local(const struct env_command *ask);
int env_remote(const struct env_command *ask, const char *url);

// Whether a server that uses our state folder has an address; then `ret` is it.
bool env_find_server(const struct config *c, char *ret, size_t cap);

// Opens the file of a verb that has one.  At the end a complete file takes its final name.
int env_file_open(struct env_command *ask, struct err *e);
int env_file_finish(struct env_command *ask, bool good, struct err *e);
// The answer for a written file; new.
json_t *env_file_answer(const struct env_command *ask, uint64_t bytes);
// The name of an environment that is imported from the file.
int env_file_name(const char *file, char ret[ENV_FILE_NAME_MAX], struct err *e);

// ---- output ----------------------------------------------------------------------------

// Shows the progress of an install: a bar on stderr, when that is a terminal.
void env_show_progress(const json_t *status);
// Prints the answer, in the form of REST; takes it.  Returns the exit status: 1 for a failed
// install.
int env_show_answer(const struct env_command *ask, json_t *answer);
int env_show_error(const struct env_command *ask, const struct err *e);

#endif
