// SPDX-License-Identifier: Apache-2.0
//
// env_words: environments and packages (env/envs.h, env/packages.h) as text for people and models.
// Pure; called by MCP and the command line.  Each text is new; NULL: memory is out.

#ifndef CONSTRICTOR_ENV_ENV_WORDS_H
#define CONSTRICTOR_ENV_ENV_WORDS_H

#include <jansson.h>
#include <stdbool.h>

// A job's status: its progress, what it has changed, or why it changed nothing.
char *env_words_status(json_t *status);
// The same in one line, at most `cap` bytes, for progress.
void env_words_progress(const json_t *status, char *buf, size_t cap);
char *env_words_packages(json_t *answer); // of packages_ask()
char *env_words_list(json_t *list);       // of envs_list()
char *env_words_describe(json_t *one);    // of envs_describe()
char *env_words_lock(json_t *one);        // the same, as a requirements file with hashes: a lock

// Of a status: has it ended?  With success?
bool env_status_is_over(const json_t *status);
bool env_status_is_ready(const json_t *status);

#endif
