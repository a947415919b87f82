// SPDX-License-Identifier: Apache-2.0
//
// nursery: boxes that have an environment's modules imported already, inside their own walls, and
// wait in the
// gate for somebody who asks for that environment.  Which modules: preload.h.  Runs in the gate, on
// its event loop.
//
// Invariants:
//   (1) a box is handed out once, to the owner and for the environment that it was made for, and
//       only when that still has the wheels that it was warmed with; it has the limits and is of
//       the kind that was asked for.
//   (2) there are never more than --warm-boxes of them, those in the making included; those that
//       wait have together at most --warm-memory.  The environment that was wanted least lately
//       goes first.
//   (3) one is made at a time, and only when no run waits for anything but itself.
//   (4) an environment whose modules do not import, hang, or take too much is given up for a while,
//       longer each time.
//
// SECURITY: the code that ran in such a box is a package's: hostile.  It is nobody's but the one
// run's or the one session's that the box is given to, which would have run the same code itself.
// What it printed is dropped.

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

// Sets g->warm_boxes, unless the configuration wants none.  Without memory for it there is none
// either.
void warm_boxes_open(struct gate *g);
void warm_boxes_close(struct gate *g);

struct warm_box_ask {
    const char *owner, *environment;
    const json_t
        *path; // of the environment, as envs_path() says; NULL: there is nothing to import ahead
    const struct wire_limits *limits;
    bool network; // a box of that kind
};

// Somebody is about to run code in this environment.  A box that is ready for it, which is the
// caller's from here on and known to the link; NULL: there is none, and the next one may find one.
struct live_box *warm_boxes_take(struct gate *g, const struct warm_box_ask *ask);

// What a run in it has imported: what its runner reports, hostile; NULL: nothing.
void warm_boxes_learn(struct gate *g, const char *owner, const char *environment,
                      const json_t *imports);

// Some environment has changed, or is gone: boxes that are not as it is now go.
void warm_boxes_changed(struct gate *g);

// This environment is gone, with all that was learned of it.
void warm_boxes_forget(struct gate *g, const char *owner, const char *environment);

// Declares modules for an environment: `names` is what preload_check() made.  A box is made for it
// when it has packages.
int warm_boxes_declare(struct gate *g, const char *owner, const char *environment, json_t *names,
                       struct err *e);
// Adds "preload", "learned" and "warm" to what is shown of an environment.
void warm_boxes_describe(struct gate *g, const char *owner, const char *environment, json_t *shown);

#endif
