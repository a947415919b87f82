// SPDX-License-Identifier: Apache-2.0
//
// network: what code may reach, as the gate sees it: the operator's policy for each key, what a
// caller asks for, and the link to the broker (broker/broker.h), which decides and reports.  The
// gate never judges a connection; whatever it gets wrong here, the broker goes by the operator's
// rules.
//
// A gate whose configuration gives nobody network has none of this: g->network is NULL, and every
// function here takes that.
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

// Reads the policy (facts->network_file) if anybody may have network; sets g->network.
int network_open(struct gate *g, struct err *e);
void network_close(struct gate *g);
// Reads the policy again; the one that was in force stays when it is not good.
int network_reload(struct gate *g, int file, struct err *e);
// A socket to the broker, taken; -1: there is no broker for the moment.
void network_link(struct gate *g, int sock);

// ---- keys ---------------------------------------------------------------------------------------

bool network_is_allowed(const struct gate *g, const char *key); // may it reach anything?
unsigned network_generation(const struct gate *g); // another one: the policy was read again
// "off", or {"allow": [...], "deny": [...]}, at most NETWORK_SHOWN_MAX of each: new.
json_t *network_shown(const struct gate *g, const char *key, json_t *set);
// "api.example.org:443 and 3 more", "" for nothing.
void network_describe(const struct gate *g, const char *key, const json_t *set,
                      char buf[NETWORK_TEXT_MAX]);

// What a caller wrote (NULL: nothing) becomes a rule set, new.  0, or a negative code and `e`: not
// rules, or more than the key has.
int network_parse(const struct gate *g, const char *key, const json_t *value, json_t **ret_set,
                  struct err *e);
// Does a box for this rule set need sockets at all?
bool network_wants(const struct gate *g, const char *key, const json_t *set);
// May a run with this rule set be in a session with that one, in a box of that kind?
int network_fits(const json_t *session, bool networked, const json_t *call, struct err *e);

// ---- one run ------------------------------------------------------------------------------------

// `session` and `call` are rule sets, borrowed; NULL and memory is out.
struct network_run *network_run_new(struct gate *g, const char *key, const char *id,
                                    json_t *session, json_t *call);
void network_run_free(struct network_run *u); // fine with NULL

// The box is there: tells the broker what it may reach.  True: there is no broker yet, and `then`
// comes when there is one, or when the wait was too long.
bool network_enter(struct network_run *u, uint64_t box, void (*then)(void *argument),
                   void *argument);
// The code is done: asks for the report.  Once, and only what was granted.
void network_settle(struct network_run *u);
// True: the report is awaited, and `then` comes, with or without it.
bool network_await(struct network_run *u, void (*then)(void *argument), void *argument);

json_t *network_run_shown(const struct network_run *u); // as network_shown(), borrowed
json_t *network_run_usage(const struct network_run *u); // borrowed; NULL: there was no report
json_t *
network_run_events(const struct network_run *u); // the report's own list, unchecked; may be NULL
uint64_t network_run_omitted(const struct network_run *u); // events that it left out

// The box is gone, or nobody's any more.
void network_forget(struct gate *g, uint64_t box);

#endif
