// SPDX-License-Identifier: Apache-2.0
//
// warm_boxes: boxes that have already imported an environment's modules, inside their own walls,
// and wait for a run or session in that environment.  Which modules: preload.h.  Runs in the gate,
// on its event loop.
//
// Invariants:
//   (1) a box is handed out once, to the owner and environment that it was made for, with the
//       limits and network asked for, and only while the environment has the same wheels.
//   (2) there are never more than --warm-boxes, those being made included; waiting ones have
//       together at most --warm-memory.  The least recently wanted environment loses its boxes
//       first.
//   (3) one is made at a time, and only while no run waits for a box.
//   (4) an environment whose modules hang, or take too much, gets no warm boxes for a while, longer
//       each time.
//
// SECURITY: code of packages ran in such a box: it is hostile.  The box goes to one run or one
// session, which would have run the same code itself.  What the code printed is dropped.

#ifndef CONSTRICTOR_ENV_WARM_BOXES_H
#define CONSTRICTOR_ENV_WARM_BOXES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/wire.h"

struct gate;
struct live_box;
struct warm_boxes;

// Sets g->warm_boxes, unless the configuration has none or memory is out.
void warm_boxes_open(struct gate *g);
void warm_boxes_close(struct gate *g);

struct warm_box_ask {
    const char *owner, *environment;
    const json_t *path; // of envs_path(); NULL: nothing to preload
    const struct wire_limits *limits;
    bool network; // the box can reach hosts
};

// A warm box for code that is about to run in this environment; the caller owns it, and the link
// knows it.  NULL: there is none; the next call may find one.
struct live_box *warm_boxes_take(struct gate *g, const struct warm_box_ask *ask);

// Counts what a run has imported, as its runner reports it: hostile; NULL: nothing.
void warm_boxes_learn(struct gate *g, const char *owner, const char *environment,
                      const json_t *imports);

// Runs in this environment will come: a box is made when its modules are known.
void warm_boxes_expect(struct gate *g, const char *owner, const char *environment);

// Some environment has changed or was deleted: outdated boxes end.
void warm_boxes_changed(struct gate *g);

// This environment was deleted: forgets all that was learned about it.
void warm_boxes_forget(struct gate *g, const char *owner, const char *environment);

// Declares modules for an environment; `names` is of preload_check().  If the environment has
// packages, a box is made.
int warm_boxes_declare(struct gate *g, const char *owner, const char *environment, json_t *names,
                       struct err *e);
// Adds "preload", "learned" and "warm" to the description of an environment.
void warm_boxes_describe(struct gate *g, const char *owner, const char *environment, json_t *shown);

#endif
