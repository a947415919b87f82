// SPDX-License-Identifier: Apache-2.0
//
// code_policy: what code may import and call, as the configuration and a call say together.  The
// runner applies it (python/policy.py, policed.py).  SECURITY: all of that is advice on top of the
// wall around a box, never the wall itself; but two tiers have a meaning that the kernel enforces:
// without "network" no packet leaves, by net_is_on() and code_policy_has_network(); without
// "filesystem" scratch is read-only, by code_policy_freezes().
//
// A call can narrow what is configured and never widen it.  Pure; used by exec.c and check.c in the
// gate, by net/policy.c, and by the command line.

#ifndef CONSTRICTOR_CONFIG_CODE_POLICY_H
#define CONSTRICTOR_CONFIG_CODE_POLICY_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "config/config.h"

enum code_mode { CODE_OPEN, CODE_GUARDED, CODE_RESTRICTED, CODE_MODE_MAX };
extern const char *const code_mode_names[CODE_MODE_MAX];

enum { CODE_IMPORTS_MAX = 256, CODE_IMPORT_BYTES = 256 }; // of a call

// Are the names in the configuration such of modules?  Called by the commands that run code, at
// their start.
int code_policy_check(const struct config *c, struct err *e);
// What the configuration says; "auto" is decided: guarded where tiers or imports are named, else
// open.
enum code_mode code_policy_mode(const struct config *c);
// Is the tier among those that it has?
bool code_policy_has_tier(const struct config *c, const char *tier);
// Is it left to whoever runs code?  Then a tool of a stricter server asks for its own.
bool code_policy_is_auto(const struct config *c);
// Does it leave the network out?  Then no box has any.
bool code_policy_shuts_network(const struct config *c);

// Of a policy that code_policy_make() made, NULL where it made none; with `policy` NULL of the
// configuration. Can code under it not write to scratch?
bool code_policy_freezes(const struct config *c, const json_t *policy);
// May code under it have a network, if hosts are allowed?
bool code_policy_has_network(const struct config *c, const json_t *policy);

// The policy of a call as the runner takes it: new, or NULL with 0: there is nothing to apply, but
// with `always` an object all the same.  `mode` (a name) and `imports` (an array of strings) are
// what the call asks for, borrowed; NULL: nothing.  A negative code and `e`: it asks for more than
// is configured, or is no policy.
int code_policy_make(const struct config *c, const char *mode, const json_t *imports, bool network,
                     bool always, json_t **ret, struct err *e);
// Adds a list of modules and functions that the code may not use besides: SCANS of
// python/policy.py.
int code_policy_scan(json_t *policy, const char *scan, struct err *e);

#endif
