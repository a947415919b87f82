// SPDX-License-Identifier: Apache-2.0
//
// network: what code may reach, as the gate sees it: the operator's policy for each key, what a
// caller asks for, and the link to the broker (broker/broker.h), which decides and reports.  The
// gate never judges a connection: whatever it gets wrong, the broker applies the operator's rules.
//
// If the configuration gives no key network, g->network is NULL; every function here accepts that.
//
// What a caller asked for is a rule set: NULL (what the key has), json_false() (nothing), or
// {"allow": [...], "deny": [...]}, normalised.

#ifndef CONSTRICTOR_RUN_NETWORK_H
#define CONSTRICTOR_RUN_NETWORK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct gate;
struct network;
struct network_run; // the network of one run

enum {
    NETWORK_RULES_MAX = 40 * 1024, // bytes of JSON: three of them fit into a datagram
    NETWORK_SHOWN_MAX = 32,        // rules of a list in a result
    NETWORK_TEXT_MAX = 512,        // of network_describe()
    NETWORK_WAIT_MS = 1000,        // for the broker
};

// Reads the policy (facts->network_file) if any key may have network; sets g->network.
int network_open(struct gate *g, struct err *e);
void network_close(struct gate *g);
// Reads the policy again; on failure the old one stays in force.
int network_reload(struct gate *g, int file, struct err *e);
// A socket to the broker, taken; -1: there is no broker for the moment.
void network_link(struct gate *g, int sock);

// ---- keys ---------------------------------------------------------------------------------------

bool network_is_allowed(const struct gate *g, const char *key); // may it reach anything?
unsigned network_generation(const struct gate *g); // changes when the policy is read again
// "off", or {"allow": [...], "deny": [...]}, at most NETWORK_SHOWN_MAX of each: new.
json_t *network_shown(const struct gate *g, const char *key, json_t *set);
// "api.example.org:443 and 3 more", "" for nothing.
void network_describe(const struct gate *g, const char *key, const json_t *set,
                      char buf[NETWORK_TEXT_MAX]);

// Makes a new rule set of what a caller wrote (NULL: nothing).  0, or a negative code and `e`: it
// is invalid, or more than the key has.
int network_parse(const struct gate *g, const char *key, const json_t *value, json_t **ret_set,
                  struct err *e);
// Does a box for this rule set need sockets at all?
// A sandbox has no network (keeper/backend.h): fails for a run that asks for some.
int network_of_sandbox(const json_t *set, struct err *e);
bool network_wants(const struct gate *g, const char *key, const json_t *set);
// May a run with rule set `call` use a session with rule set `session`, whose box has sockets or
// not?
int network_fits(const json_t *session, bool networked, const json_t *call, struct err *e);

// ---- one run ------------------------------------------------------------------------------------

// `session` and `call` are rule sets, borrowed.  NULL: memory is out.
struct network_run *network_run_new(struct gate *g, const char *key, const char *id,
                                    json_t *session, json_t *call);
void network_run_free(struct network_run *u); // fine with NULL

// Tells the broker what the box may reach.  True: there is no broker yet, and `then` is called when
// there is one, or when the wait was too long.
bool network_enter(struct network_run *u, uint64_t box, void (*then)(void *argument),
                   void *argument);
// The code is done: asks the broker for the report, once, if the run was granted anything.
void network_settle(struct network_run *u);
// True: the report is awaited, and `then` is called with or without it.
bool network_await(struct network_run *u, void (*then)(void *argument), void *argument);

json_t *network_run_shown(const struct network_run *u); // as network_shown(), borrowed
json_t *network_run_usage(const struct network_run *u); // borrowed; NULL: there was no report
json_t *
network_run_events(const struct network_run *u); // the report's own list, unchecked; may be NULL
uint64_t network_run_omitted(const struct network_run *u); // events that it left out

// Forgets the grant of a box that is gone or has no owner any more.
void network_forget(struct gate *g, uint64_t box);

#endif
