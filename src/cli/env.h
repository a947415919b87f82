// SPDX-License-Identifier: Apache-2.0
//
// env: what the files of `constrictor env` share: env.c (the command line), env_local.c (in a gate
// of its own), env_remote.c (by asking a server), env_show.c (what people see).

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
    const char *name; // of the environment; NULL: none was given, and the verb needs none
    const char *job;  // VERB_STATUS
    const char *file; // VERB_EXPORT, VERB_IMPORT: its path, or "-"
    int fd;           // the same, open; -1: none
    char file_name[ENV_FILE_NAME_MAX]; // VERB_IMPORT without a name: the file's
    json_t *packages;                  // array of texts as they were written; never NULL
    json_t *preload;                   // VERB_CREATE: modules, as --preload says; NULL: it does not
};

// Each returns the exit status of the program, and has printed all there is to say.
int env_local(const struct env_command *ask);
int env_remote(const struct env_command *ask, const char *url);

// Is there a server that has the environments of our state folder?  True: its address is in `ret`,
// or `ret` is
// "" when it has none; `ret_pid` is its process.
bool env_find_server(const struct config *c, char *ret, size_t cap, int *ret_pid);

// Opens the file of a verb that has one; and in the end puts one that was written whole into its
// place.
int env_file_open(struct env_command *ask, struct err *e);
int env_file_finish(struct env_command *ask, bool good, struct err *e);
// What is answered when it was written.  New.
json_t *env_file_answer(const struct env_command *ask, uint64_t bytes);
// The name that an environment gets by the file that it comes from.
int env_file_name(const char *file, char ret[ENV_FILE_NAME_MAX], struct err *e);

// ---- what people see ----------------------------------------------------------------------------

// A step of a job: a bar on stderr when that is a terminal.
void env_show_progress(const json_t *status);
// The answer, which is what REST answers too; taken.  Returns the exit status: 1 for a job that
// failed.
int env_show_answer(const struct env_command *ask, json_t *answer);
int env_show_error(const struct env_command *ask, const struct err *e);

#endif
