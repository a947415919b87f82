// SPDX-License-Identifier: Apache-2.0
//
// env_porter: the gate's end of the link to the porter (porter/porter.h), which writes wheels.
// Used by env_job.c and envs.c.
//
// A request stays until it is answered; a new porter gets the unanswered ones again.  Repeating is
// harmless: a wheel that is there is not written again, and dropping a missing one succeeds.

#ifndef CONSTRICTOR_ENV_ENV_PORTER_H
#define CONSTRICTOR_ENV_ENV_PORTER_H

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"

struct gate;
struct env_porter;
struct env_ask; // a request

enum {
    ENV_PORTER_WAIT_MS = 20000, // without a porter, then all requests fail
    ENV_PORTER_ASKS_MAX = 1024,
};

// `sock`, a socket to the porter, is taken; -1: there is no porter for the moment.
void env_porter_link(struct gate *g, int sock);
void env_porter_close(struct gate *g);

// `answer` is borrowed, or NULL, and then `e` is set.  Called exactly once, later.
typedef void (*env_answer)(const json_t *answer, const struct err *e, void *argument);

// Sends a request.  `question` is taken: "op" and its fields; the number is added here.  `fd` is
// taken, -1: none.  NULL: memory is out, or too many requests wait.
struct env_ask *env_porter_ask(struct gate *g, json_t *question, int fd, env_answer done,
                               void *argument);
void env_porter_forget(struct env_ask *a); // cancels it; `done` is not called

#endif
