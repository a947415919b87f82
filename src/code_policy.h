// SPDX-License-Identifier: Apache-2.0
//
// code_policy: what code may import and call, as the configuration and a call say together.  The runner
// applies it (python/policy.py, policed.py).  SECURITY: all of that is advice on top of the wall around a box,
// never the wall itself; only the tier "network" has a meaning that the kernel enforces, by net_is_on().
//
// A call can narrow what is configured and never widen it.  Pure; used by exec.c and check.c in the gate, by
// net/policy.c, and by the command line.

#ifndef CONSTRICTOR_CODE_POLICY_H
#define CONSTRICTOR_CODE_POLICY_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "config.h"

enum code_mode { CODE_OPEN, CODE_GUARDED, CODE_RESTRICTED, CODE_MODE_MAX };
extern const char *const code_mode_names[CODE_MODE_MAX];

enum { CODE_IMPORTS_MAX = 256, CODE_IMPORT_BYTES = 256 }; // of a call

// Are the names in the configuration such of modules?  Called by the commands that run code, at their start.
int code_policy_check(const struct config *c, struct err *e);
// What the configuration says; "auto" is decided: guarded where tiers or imports are named, else open.
enum code_mode code_policy_mode(const struct config *c);
// Is the tier among those that it has?
bool code_policy_has_tier(const struct config *c, const char *tier);
// Does it leave the network out?  Then no box has any.
bool code_policy_shuts_network(const struct config *c);

// The policy of a call as the runner takes it: new, or NULL with 0: there is nothing to apply, but with
// `always` an object all the same.  `mode` (a name) and `imports` (an array of strings) are what the call asks
// for, borrowed; NULL: nothing.  A negative code and `e`: it asks for more than is configured, or is no policy.
int code_policy_make(const struct config *c, const char *mode, const json_t *imports, bool network,
                     bool always, json_t **ret, struct err *e);

#endif
