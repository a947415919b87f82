// SPDX-License-Identifier: Apache-2.0
//
// code_policy: what code may import and call: the configuration and the call decide together.  The
// runner applies it (python/check/policy.py, policed.py).  SECURITY: all of that is advice on top
// of the wall around a box, never the wall itself; but two tiers have a meaning that the kernel
// enforces: without "network" no packet leaves, by net_is_on() and code_policy_has_network();
// without "filesystem" scratch is read-only, by code_policy_freezes().
//
// A call can narrow the configured policy, never widen it.  No side effects; called in the gate
// (exec.c, check.c), by net/policy.c and by the command line.

#ifndef CONSTRICTOR_CONFIG_CODE_POLICY_H
#define CONSTRICTOR_CONFIG_CODE_POLICY_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "config/config.h"

enum code_mode { CODE_OPEN, CODE_GUARDED, CODE_RESTRICTED, CODE_MODE_MAX };
extern const char *const code_mode_names[CODE_MODE_MAX];

enum { CODE_IMPORTS_MAX = 256, CODE_IMPORT_BYTES = 256 }; // of a call

// Checks that the imports in the configuration are names of modules.  Commands that run code call
// it at their start.
int code_policy_check(const struct config *c, struct err *e);
// The configured mode; "auto" becomes guarded if tiers or imports are configured, else open.
enum code_mode code_policy_mode(const struct config *c);
// Whether the configuration includes the tier.
bool code_policy_has_tier(const struct config *c, const char *tier);
// Whether the mode is "auto": then a tool of a stricter server asks for its own mode.
bool code_policy_is_auto(const struct config *c);
// Whether it excludes the network; no box then has one.
bool code_policy_shuts_network(const struct config *c);

// Whether scratch is read-only for code under `policy`, which code_policy_make() made; NULL: under
// the configured policy.
bool code_policy_freezes(const struct config *c, const json_t *policy);
// Whether code under it may have a network, if hosts are allowed.
bool code_policy_has_network(const struct config *c, const json_t *policy);

// Makes the policy of a call in the form the runner reads: a new object, or NULL when there is
// nothing to apply (with `always`: an object even then).  `mode` (a name) and `imports` (an array
// of strings) are what the call asks for, borrowed; NULL: nothing.  Fails with `e` when the call
// asks for more than the configuration allows, or is malformed.
int code_policy_make(const struct config *c, const char *mode, const json_t *imports, bool network,
                     bool always, json_t **ret, struct err *e);
// Adds a list of modules and functions that the code must not use: SCANS of python/check/policy.py.
int code_policy_scan(json_t *policy, const char *scan, struct err *e);

#endif
