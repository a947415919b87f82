// SPDX-License-Identifier: Apache-2.0
//
// packages: the distributions that can be imported in an environment: those of its lock
// (env/envs.h), and the interpreter's own, which a box lists at most every five minutes.  Called by
// MCP, REST and the command line in the gate.

#ifndef CONSTRICTOR_ENV_PACKAGES_H
#define CONSTRICTOR_ENV_PACKAGES_H

#include <jansson.h>

#include "base/err.h"

struct gate;
struct packages;

enum { PACKAGES_BASE_MAX = 4000 }; // distributions of the interpreter that are listed

// `answer` is borrowed: {"environment", "python", "packages": [{"name", "version", "base": whether
// it is the interpreter's own}], "count"}, by name; NULL and `e`: the list failed.
typedef void (*packages_done)(json_t *answer, const struct err *e, void *argument);

// `on_done` comes later, exactly once, unless it is cancelled.  NULL and `e`: there is no such
// environment.
struct packages *packages_ask(struct gate *g, const char *owner, const char *environment,
                              packages_done on_done, void *argument, struct err *e);
void packages_cancel(struct packages *p);

// The requirements of a run or a session, checked: new.  NULL and `e`: one is invalid, or this
// server has no environments.
json_t *packages_set(struct gate *g, const json_t *text_or_list, struct err *e);

// "Foo_.bar" and "foo-bar" are the same: the normal form of a name (PEP 503), cut at `cap`.
void packages_normal_name(const char *name, char *buf, size_t cap);

#endif
