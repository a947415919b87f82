// SPDX-License-Identifier: Apache-2.0
//
// restricted_package: RestrictedPython, which the policy 'restricted' needs.  If the server's
// interpreter lacks it, the gate installs it once, like any package (envs.h), into an environment
// of its own that no client sees.  Each box under the policy gets its folder beside those of the
// client's environment (exec/exec_meta.c, check/check.c; python/check/restricted.py).  Runs in the
// gate, on its event loop.
//
// Invariants:
//   (1) no code runs under 'restricted', and none is checked for it, before the package is there;
//       if it cannot be installed, the client gets the reason.
//   (2) there is one installation at a time, however many wait for it.
//   (3) SECURITY: the owner of the environment is a name that no key and no token can have, so a
//       client can never replace the package that transforms its code.

#ifndef CONSTRICTOR_ENV_RESTRICTED_PACKAGE_H
#define CONSTRICTOR_ENV_RESTRICTED_PACKAGE_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

struct gate;
struct restricted_package;
struct policy_wait;

#define POLICY_OWNER "@policy" // the owner of the server's own environments

// Must code under this mode (a name; NULL: the configuration's) wait for the package?
bool restricted_package_is_awaited(struct gate *g, const char *mode);

// on_ready is called later, exactly once, unless the wait is cancelled; `e`: why the package is
// missing, or NULL.  NULL: memory is out.
typedef void (*policy_ready)(const struct err *e, void *argument);
struct policy_wait *restricted_package_wait(struct gate *g, policy_ready on_ready, void *argument);
void restricted_package_cancel(struct policy_wait *w);

// The folders for a box under this policy, ["/opt/wheels/ID"], new; NULL: it needs none, or the
// package is missing.
json_t *restricted_package_path(struct gate *g, const json_t *policy);

// Installs the package ahead of its first use, as soon as there are boxes.  Errors are logged.
void restricted_package_begin(struct gate *g);

void restricted_package_on_state(struct gate *g); // gate.c: the keeper has boxes, or none any more
void restricted_package_close(struct gate *g);    // calls no on_ready

#endif
