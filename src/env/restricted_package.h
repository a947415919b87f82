// SPDX-License-Identifier: Apache-2.0
//
// restricted_package: what the policy 'restricted' needs and an interpreter need not have:
// RestrictedPython.  Where the server's interpreter lacks it, it is installed once, as any package
// is (envs.h), into an environment of the server's own that nobody sees in a list, and every box
// that needs it is told its folder beside the environment of the caller (exec_meta.c, check.c;
// python/check/restricted.py).  Runs in the gate, on its event loop.
//
// Invariants:
//   (1) nothing runs under 'restricted', and nothing is checked for it, before it is known where it
//       comes from; or it is told why there is none.
//   (2) there is one installation at a time, however many wait for it.
//   (3) the owner of the environment is a name that no key and no subject of a token can have: what
//       a caller installs is never what his code is transformed with.

#ifndef CONSTRICTOR_ENV_RESTRICTED_PACKAGE_H
#define CONSTRICTOR_ENV_RESTRICTED_PACKAGE_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

struct gate;
struct restricted_package;
struct policy_wait;

#define POLICY_OWNER "@policy" // of environments that are the server's own

// Must code under this mode (a name; NULL: that of the configuration) wait for it?
bool restricted_package_is_awaited(struct gate *g, const char *mode);

// on_ready comes later, exactly once, unless it is cancelled: NULL, or why there is none.  NULL:
// memory is out.
typedef void (*policy_ready)(const struct err *e, void *argument);
struct policy_wait *restricted_package_wait(struct gate *g, policy_ready on_ready, void *argument);
void restricted_package_cancel(struct policy_wait *w);

// The folders for a box that has this policy, ["/opt/wheels/ID"], new; NULL: it needs none, or
// there are none.
json_t *restricted_package_path(struct gate *g, const json_t *policy);

// Has it made ready before somebody needs it, as soon as there are boxes.  What goes wrong is
// logged.
void restricted_package_begin(struct gate *g);

void restricted_package_on_state(struct gate *g); // gate.c: there are boxes, or none any more
void restricted_package_close(struct gate *g);    // who waits is forgotten

#endif
