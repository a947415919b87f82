// SPDX-License-Identifier: Apache-2.0
//
// rules: which hosts code may reach.  The gate parses what callers ask for, the broker parses and
// judges.
//
// A rule is a text, or an object that also bounds HTTP requests:
//   api.example.org          this host, every port
//   api.example.org:443      this port; :8000-8010 a range
//   *.example.org            every name below it, not itself
//   *                        every name
//   192.0.2.7, [2001:db8::7]:443   exactly this address, even a private one
//   192.0.2.0/24, 192.0.2.0/24:443, [2001:db8::/32]:443
//                            a network; opens private addresses only if all of it is private, and
//                            never a cloud's metadata address
//   {"host": "api.example.org", "port": 80, "methods": ["GET"], "paths": ["/v1/*"]}
// Names are compared in lower case, without a trailing dot, and as the DNS spells them (xn--).
//
// Deny wins over allow, and `*` there is every address too.  Every rule set must allow a
// connection: the operator's for the key, the session's, the call's.  Everything else is refused.

#ifndef CONSTRICTOR_NET_RULES_H
#define CONSTRICTOR_NET_RULES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/text.h"
#include "net/address.h"

enum {
    NET_HOST_MAX = 253,
    NET_RULE_TEXT = 300,
    NET_RULES_MAX = 256, // of one list
    NET_RULE_SETS_MAX = 4,
    NET_PATHS_MAX = 16, // of one rule
    NET_PATH_MAX = 200,
};

struct net_rule;

struct net_rules {
    size_t allow_count, deny_count;
    struct net_rule *allow, *deny; // NULL when there are none
};

// Lower case, no trailing dot, IDNA (UTS 46, non-transitional) to A-labels, lengths, characters.
// 0, or negative and `e` says what is wrong with it.  `text` need not be terminated.
int net_host_normalise(const char *text, size_t length, char ret[NET_HOST_MAX + 1], struct err *e);

// From what a caller or an operator wrote: "off" or false (nothing is allowed), ["rule", ...] or
// {"allow": [...], "deny": [...]}.  Unknown members, invalid hosts, schemes, paths, user names,
// blanks, control characters and ports out of range are errors that name the entry.  Duplicates are
// fine.
int net_rules_from_json(const json_t *value, struct net_rules *ret, struct err *e);
int net_rules_from_lists(const struct text_list *allow, const struct text_list *deny,
                         struct net_rules *ret, struct err *e);
void net_rules_done(struct net_rules *r); // fine with zeroes
json_t *
net_rules_json(const struct net_rules *r); // {"allow": [...], "deny": [...]}, normalised; new

// Does `outer` allow all of `inner`?  Gives a clear error to a caller that asks for more than its
// key has; the broker judges by all rule sets anyway.  0, or negative and `e` names the first rule.
int net_rules_within(const struct net_rules *inner, const struct net_rules *outer, struct err *e);

enum net_reason {
    NET_ALLOWED,
    NET_NOT_ALLOWED,   // a rule set has no rule that allows the host
    NET_PORT,          // the host is allowed, on other ports
    NET_DENIED,        // a deny rule
    NET_SCOPE_REFUSED, // the address is private, loopback, metadata, ... and not allowed by itself
    NET_ADDRESS_REFUSED, // connected to an address, and no rule is about it
    NET_HTTP,            // method or path
    NET_REASON_MAX
};
const char *
net_reason_name(enum net_reason reason); // stable codes: "not_allowed", "port_not_allowed", ...

struct net_decision {
    enum net_reason reason;
    enum net_scope scope;     // NET_SCOPE_REFUSED: which
    unsigned set;             // the rule set that refused
    char rule[NET_RULE_TEXT]; // the rule that decided, as it was written; "" when none did
};

// `host` is normalised, or NULL when code connects to an address; `address` is NULL while only the
// name is asked for (then only the name and, if not 0, the port are judged).  sets[0] is the
// operator's: only an address rule there opens an address that is not public.  A name's address is
// judged by the deny rules and by its scope; it needs no address rule when it is public.
void net_judge(const struct net_rules *const *sets, size_t set_count, const char *host,
               const struct net_address *address, uint16_t port, struct net_decision *ret);

// Does a rule allow exactly this address, not only a network around it?  A loopback network counts,
// and the configured package index whose name `host` (or NULL) leads there.
bool net_names_address(const struct net_rules *rules, const char *host,
                       const struct net_address *address, uint16_t port);

// Do rules about this host and port bound methods or paths?  Then every request must be judged.
// `host` is normalised, or the text of the address where code connects to one; NULL is the
// strictest of both.  `path` is as it came, with or without a query.  Deny rules have no bounds.
bool net_bounds_http(const struct net_rules *const *sets, size_t set_count, const char *host,
                     uint16_t port);
void net_judge_http(const struct net_rules *const *sets, size_t set_count, const char *host,
                    uint16_t port, const char *method, const char *path, struct net_decision *ret);

// The ports that rules name for this host, at most `cap`, those that stand alone first; with
// *ret_any, every port, only those.  `host` NULL: of rules about addresses.
size_t net_ports(const struct net_rules *const *sets, size_t set_count, const char *host,
                 uint16_t *ret, size_t cap, bool *ret_any);

// "api.example.org:443, *.example.org and 3 more", for hints.
void net_rules_describe(const struct net_rules *r, char *buf, size_t cap);

#endif
