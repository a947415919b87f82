// SPDX-License-Identifier: Apache-2.0
//
// rule: one rule, for the files of this room only.  Others use rules.h.

#ifndef CONSTRICTOR_NET_RULE_H
#define CONSTRICTOR_NET_RULE_H

#include <string.h>

#include "net/rules.h"

enum {
    NET_NAME_MAX =
        1024, // bytes of a rule as it is written: a name in UTF-8 is longer than its A-labels
    NET_QUOTE_MAX = 80,
    NET_METHODS_MAX = 16, // of one rule
    NET_METHOD_MAX = 32,
    NET_PATH_SEEN_MAX = 4096, // a longer path of a request is not allowed where paths are bounded
};

enum net_kind {
    NET_KIND_HOST,
    NET_KIND_BELOW, // *.example.org
    NET_KIND_ANY,   // *
    NET_KIND_ADDRESS,
    NET_KIND_NETWORK,
};

// Bounds on requests.  A count of 0 is no bound.
struct net_http {
    size_t method_count, path_count;
    char methods[NET_METHODS_MAX][NET_METHOD_MAX + 1];
    char *paths[NET_PATHS_MAX];
};

struct net_rule {
    enum net_kind kind;
    uint16_t port_min, port_max; // 1 and 65535: every port
    unsigned prefix;             // of a network, as in address.h
    struct net_address address;
    size_t host_length;
    const char *host;      // in `text`; BELOW: without "*."
    char *text;            // as it was written, then the host
    struct net_http *http; // NULL: no bounds
    bool inside;           // a HOST: its name may lead to private addresses; only policy.c sets it
};

static inline bool net_rule_any_port(const struct net_rule *r)
{
    return r->port_min <= 1 && r->port_max == UINT16_MAX;
}

static inline bool net_rule_is_name(const struct net_rule *r)
{
    return r->kind == NET_KIND_HOST || r->kind == NET_KIND_BELOW || r->kind == NET_KIND_ANY;
}

// Does the name end with a dot and the rule's, with something before that?
static inline bool net_rule_is_above(const struct net_rule *r, const char *host, size_t length)
{
    return length > r->host_length + 1 && host[length - r->host_length - 1] == '.' &&
           memcmp(r->host, host + length - r->host_length, r->host_length) == 0;
}

// rule.c: one rule.  `bounds`: may it say methods and paths?
int net_rule_parse(struct net_rule *ret, const json_t *value, bool bounds, struct err *e);
int net_rule_parse_text(struct net_rule *ret, const char *text, size_t length, struct err *e);
void net_rule_done(struct net_rule *r);
int net_rule_copy(struct net_rule *ret,
                  const struct net_rule *r); // of one without bounds; 0 or -ENOMEM
void net_rule_format(const struct net_rule *r, char ret[NET_RULE_TEXT]); // normalised
json_t *net_rule_json(const struct net_rule *r);

// rules.c: lists that may be NULL; a context such as "allow[3]" is before each message.
int net_rules_from_arrays(const json_t *allow, const json_t *deny, struct net_rules *ret,
                          struct err *e);
int net_rules_add_deny(struct net_rules *r, const struct net_rules *from); // copies; 0 or -ENOMEM
// "did you mean": for an unknown member; `names` ends with NULL.
int net_unknown_member(const char *name, const char *const *names, struct err *e);

// host.c: foreign text for messages, and a check for what no host contains: controls, blanks,
// invalid UTF-8.
void net_quote(const char *text, size_t length, char ret[NET_QUOTE_MAX]);
int net_check_characters(const char *text, size_t length, struct err *e);

// path.c: paths of requests.  Reduces a path to its one spelling, in `ret` of `cap` bytes; -1 and
// the reason when servers could read it in two ways.  Stars are kept.
int net_path_reduce(const char *path, size_t length, char *ret, size_t cap, const char **ret_why);
bool net_path_matches(const char *glob, const char *path); // linear; '*' is anything, '/' too

#endif
