// SPDX-License-Identifier: Apache-2.0
//
// env_porter: the gate's end of the link to the porter (porter/porter.h), which writes wheels.
// Used by env_job.c and envs.c.
//
// A question is kept until it is answered: a porter that is new is asked again.  All of them can be
// asked twice: a wheel that is there is not written again, and one that is gone is gone.

#ifndef CONSTRICTOR_ENV_ENV_PORTER_H
#define CONSTRICTOR_ENV_ENV_PORTER_H

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"

struct gate;
struct env_porter;
struct env_ask; // a question

enum {
    ENV_PORTER_WAIT_MS = 20000, // without a porter, and all questions fail
    ENV_PORTER_ASKS_MAX = 1024,
};

// A socket to the porter, taken; -1: there is none for the moment.
void env_porter_link(struct gate *g, int sock);
void env_porter_close(struct gate *g);

// `answer` is borrowed, or NULL and the error.  Exactly once, later.
typedef void (*env_answer)(const json_t *answer, const struct err *e, void *argument);

// `question` is taken: "op" and what it needs; the number is added here.  `fd` is taken, -1: none.
// NULL: memory is out, or too many wait.
struct env_ask *env_porter_ask(struct gate *g, json_t *question, int fd, env_answer done,
                               void *argument);
void env_porter_forget(struct env_ask *a); // no answer is wanted; what was begun is cancelled

#endif
