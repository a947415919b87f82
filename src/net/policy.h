// SPDX-License-Identifier: Apache-2.0
//
// policy: the operator's rules and quotas for the network, by default and for each key. From the
// configuration (--allow-host, --deny-host, --net-*) and the file of --network-file.  Read by the
// gate, which tells callers what is allowed, and by the broker, which decides.
//
// The file:  {"default": {"allow": [...], "deny": [...], "box": QUOTA, "key": QUOTA},
//             "keys": {"NAME": {the same}, ...}}
//   QUOTA: {"connections", "sockets", "requests", "rate", "bytes_up", "bytes_down"}, each optional;
//   of "key" per hour for all boxes of a key together, without one there is no bound.
// A named key has its own rules instead of the default's, and the default's quotas where it sets
// none.  "allow" of the configuration is the default's when the file has none; "deny" of both hold
// for every key.

#ifndef CONSTRICTOR_NET_POLICY_H
#define CONSTRICTOR_NET_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "config/config.h"
#include "net/rules.h"

enum {
    NET_POLICY_FILE_MAX = 1 << 20,
    NET_POLICY_KEYS_MAX = 1024,
    NET_POLICY_NAME_MAX = 64, // as http/door.h: DOOR_OWNER_MAX
};

// Not the name of any key (http/door.c): the box that installs packages.  It may reach the index
// and its files' hosts, and nothing else, whether code may use the network or not.
#define NET_INSTALLER "@installer"

struct net_quota { // UINT64_MAX: no bound
    uint64_t connections, sockets, requests, rate, bytes_up, bytes_down;
};

struct net_grant { // what one key has
    struct net_rules rules;
    struct net_quota box, key;
};

struct net_policy;

// `file` is a descriptor of --network-file, borrowed, -1: there is none.  NULL and `e` on failure.
struct net_policy *net_policy_load(const struct config *c, int file, struct err *e);
void net_policy_free(struct net_policy *p);

// Never NULL; a key that is not named gets the default.
const struct net_grant *net_policy_of(const struct net_policy *p, const char *key);

// Can any key reach any host?  Judged by the configuration alone (--network, and whether there are
// rules or a file), before the file is read.
bool net_is_on(const struct config *c);

// The hosts of an index that the configuration does not name: the one that pip asks, and what the
// index's own pages say of where its files are.  For NET_INSTALLER from now on.  SECURITY: the gate
// names them and may be hostile: each must be one name on the https port, at most NET_LEARNED_MAX
// in the life of the broker, and names lead to public addresses only.  Hosts that are already
// allowed are fine.  0, or negative and `e`: nothing was learned.
enum { NET_LEARNED_MAX = 16 };
int net_policy_learn(struct net_policy *p, const struct net_rules *hosts, struct err *e);
// Copies the learned hosts into the policy that replaces this one.
int net_policy_learn_from(struct net_policy *p, const struct net_policy *old, struct err *e);

// The rule for the host of an index.  0, or negative and `e`.
int net_url_rule(const char *url, char ret[TEXT_ITEM_MAX + 1], struct err *e);

#endif
