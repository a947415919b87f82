// SPDX-License-Identifier: Apache-2.0
//
// judge: decides about a connection or a request.  The broker calls it for everything that code
// does; linear in the number of rules, allocates nothing.
//
// The order of decisions:
//  1. a deny rule of any rule set, on the name, the address, or an IPv4 address inside of it;
//  2. each rule set must allow the name, or the address where code connects to one;
//  3. an address that is not public needs a rule of the operator's (sets[0]) about that address, or
//     about the host of the configured package index.

#include <stdio.h>
#include <string.h>

#include "net/rule.h"

// ---- one rule -----------------------------------------------------------------------------------

static bool names_host(const struct net_rule *r, const char *host, size_t length)
{
    switch (r->kind) {
    case NET_KIND_ANY: return true;
    case NET_KIND_HOST: return r->host_length == length && memcmp(r->host, host, length) == 0;
    case NET_KIND_BELOW: return net_rule_is_above(r, host, length);
    case NET_KIND_ADDRESS:
    case NET_KIND_NETWORK: return false;
    }
    return false;
}

static bool holds_address(const struct net_rule *r, const struct net_address *a)
{
    if (r->kind == NET_KIND_ADDRESS)
        return memcmp(r->address.bytes, a->bytes, sizeof a->bytes) == 0;
    return r->kind == NET_KIND_NETWORK && net_address_within(a, &r->address, r->prefix);
}

static bool has_port(const struct net_rule *r, uint16_t port)
{
    return port >= r->port_min && port <= r->port_max;
}

// Can this rule open an address that is not public?
static bool opens(const struct net_rule *r, enum net_scope scope)
{
    if (r->kind == NET_KIND_ADDRESS)
        return true;
    return scope != NET_METADATA && net_network_scope(&r->address, r->prefix) != NET_PUBLIC;
}

// ---- the question ------------------------------------------------------------------------------

struct question {
    const char *host; // NULL: code connects to the address
    size_t length;
    const struct net_address *address; // NULL: not known yet
    struct net_address inner[NET_ADDRESS_EMBEDDED_MAX];
    size_t inner_count;
    enum net_scope scope;
    uint16_t port; // 0: not known yet
};

static void ask(struct question *q, const char *host, const struct net_address *address,
                uint16_t port)
{
    *q = (struct question){.host = host, .address = address, .port = port};
    q->length = host ? strlen(host) : 0;
    if (address) {
        q->inner_count = net_address_embedded(address, q->inner);
        q->scope = net_address_scope(address);
    }
}

// Is the rule about this host or address, whatever the port?
static bool concerns(const struct net_rule *r, const struct question *q)
{
    if (q->host)
        return names_host(r, q->host, q->length);
    return q->address && holds_address(r, q->address);
}

static bool denies(const struct net_rule *r, const struct question *q)
{
    // A rule with ports does not apply to a look-up.
    if (q->port ? !has_port(r, q->port) : !net_rule_any_port(r))
        return false;
    if (r->kind == NET_KIND_ANY || (q->host && names_host(r, q->host, q->length)))
        return true;
    if (!q->address)
        return false;
    if (holds_address(r, q->address))
        return true;
    for (size_t i = 0; i < q->inner_count; i++)
        if (holds_address(r, &q->inner[i]))
            return true;
    return false;
}

static void decide(struct net_decision *ret, enum net_reason reason, unsigned set,
                   const struct net_rule *r)
{
    ret->reason = reason;
    ret->set = set;
    snprintf(ret->rule, sizeof ret->rule, "%s", r ? r->text : "");
}

static bool is_denied(const struct net_rules *const *sets, size_t count, const struct question *q,
                      struct net_decision *ret)
{
    for (size_t l = 0; l < count; l++)
        for (size_t i = 0; i < sets[l]->deny_count; i++)
            if (denies(&sets[l]->deny[i], q)) {
                decide(ret, NET_DENIED, (unsigned)l, &sets[l]->deny[i]);
                return true;
            }
    return false;
}

// The rule that allows it; or NULL, and *ret_near is one that allows it on another port.
static const struct net_rule *find(const struct net_rules *set, const struct question *q,
                                   const struct net_rule **ret_near)
{
    for (size_t i = 0; i < set->allow_count; i++) {
        const struct net_rule *r = &set->allow[i];
        if (!concerns(r, q))
            continue;
        if (q->port == 0 || has_port(r, q->port))
            return r;
        *ret_near = r;
    }
    return NULL;
}

// A host that the operator configured as the package index, as company mirrors are: its address is
// the operator's choice.  SECURITY: only rules of the box that installs are so (policy.c), for one
// exact name and port.  A cloud's metadata address stays shut, whatever a resolver answers: no
// index is there, and it gives credentials to every client.
static bool leads_inside(const struct net_rule *r, const struct question *q)
{
    return r->inside && q->host && names_host(r, q->host, q->length) && has_port(r, q->port) &&
           q->scope != NET_METADATA && q->scope != NET_UNSPECIFIED && q->scope != NET_MULTICAST;
}

// SECURITY: only the operator can open addresses of internal networks, and only by naming the
// address: a name that resolves to 127.0.0.1 is DNS rebinding.
static bool is_opened(const struct net_rules *operator, const struct question * q)
{
    for (size_t i = 0; i < operator->allow_count; i++) {
        const struct net_rule *r = &operator->allow[i];
        if (leads_inside(r, q))
            return true;
        // Bounds on requests apply to the name; an address rule with bounds is for connections to
        // that address.
        if (holds_address(r, q->address) && has_port(r, q->port) && opens(r, q->scope) &&
            !(q->host && r->http))
            return true;
    }
    return false;
}

static enum net_reason why_not(const struct question *q, const struct net_rule *near, size_t set)
{
    if (near)
        return NET_PORT;
    if (q->host)
        return NET_NOT_ALLOWED;
    return set == 0 && q->scope != NET_PUBLIC ? NET_SCOPE_REFUSED : NET_ADDRESS_REFUSED;
}

void net_judge(const struct net_rules *const *sets, size_t set_count, const char *host,
               const struct net_address *address, uint16_t port, struct net_decision *ret)
{
    struct question q;
    const struct net_rule *first = NULL;
    ask(&q, host, address, port);
    *ret = (struct net_decision){.scope = q.scope};
    if (is_denied(sets, set_count, &q, ret))
        return;
    for (size_t l = 0; l < set_count; l++) {
        const struct net_rule *near = NULL, *r = find(sets[l], &q, &near);
        if (!r) {
            decide(ret, why_not(&q, near, l), (unsigned)l, near);
            return;
        }
        first = first ? first : r;
    }
    if (!first) // without any rule set, nothing is allowed
        decide(ret, why_not(&q, NULL, 0), 0, NULL);
    else if (address && q.scope != NET_PUBLIC && !is_opened(sets[0], &q))
        decide(ret, NET_SCOPE_REFUSED, 0, first);
    else
        decide(ret, NET_ALLOWED, 0, first);
}

bool net_names_address(const struct net_rules *rules, const char *host,
                       const struct net_address *address, uint16_t port)
{
    struct question q;
    ask(&q, host, address, port);
    for (size_t i = 0; i < rules->allow_count; i++) {
        const struct net_rule *r = &rules->allow[i];
        bool is_named = r->kind == NET_KIND_ADDRESS ||
                        (r->kind == NET_KIND_NETWORK &&
                         net_network_scope(&r->address, r->prefix) == NET_LOOPBACK);
        if ((is_named && holds_address(r, address) && has_port(r, port)) || leads_inside(r, &q))
            return true;
    }
    return false;
}

// ---- HTTP ---------------------------------------------------------------------------------------

// `host` may be an address in text, for connections to one.
static void ask_http(struct question *q, const char *host, uint16_t port,
                     struct net_address *address)
{
    if (host && net_address_parse(host, address) == 0)
        ask(q, NULL, address, port);
    else
        ask(q, host, NULL, port);
}

bool net_bounds_http(const struct net_rules *const *sets, size_t set_count, const char *host,
                     uint16_t port)
{
    struct net_address address;
    struct question q;
    ask_http(&q, host, port, &address);
    for (size_t l = 0; l < set_count; l++) {
        bool free_of_bounds = false, bounded = false;
        for (size_t i = 0; i < sets[l]->allow_count && !free_of_bounds; i++) {
            const struct net_rule *r = &sets[l]->allow[i];
            // Without a host the rule is unknown: any rule with bounds counts.
            if ((host ? !concerns(r, &q) : net_rule_is_name(r)) || !has_port(r, port))
                continue;
            bounded |= r->http != NULL;
            free_of_bounds = host && !r->http;
        }
        if (bounded && !free_of_bounds)
            return true;
    }
    return false;
}

static bool has_method(const struct net_http *h, const char *method)
{
    for (size_t i = 0; i < h->method_count; i++)
        if (strcmp(h->methods[i], method) == 0)
            return true;
    return h->method_count == 0;
}

static bool has_path(const struct net_http *h, const char *path)
{
    for (size_t i = 0; i < h->path_count; i++)
        if (path && net_path_matches(h->paths[i], path))
            return true;
    return h->path_count == 0;
}

// `path` is reduced; NULL: it could not be, and no bound on paths is met.
static bool allows_request(const struct net_rules *set, const struct question *q,
                           const char *method, const char *path, const struct net_rule **ret_near)
{
    *ret_near = NULL;
    for (size_t i = 0; i < set->allow_count; i++) {
        const struct net_rule *r = &set->allow[i];
        if (!concerns(r, q) || !has_port(r, q->port))
            continue;
        if (!r->http || (has_method(r->http, method) && has_path(r->http, path)))
            return true;
        *ret_near = r;
    }
    return false;
}

void net_judge_http(const struct net_rules *const *sets, size_t set_count, const char *host,
                    uint16_t port, const char *method, const char *path, struct net_decision *ret)
{
    char reduced[NET_PATH_SEEN_MAX];
    const char *why;
    struct net_address address;
    struct question q;
    ask_http(&q, host, port, &address);
    net_judge(sets, set_count, q.host, q.address, port, ret);
    if (ret->reason != NET_ALLOWED)
        return;
    bool clear = net_path_reduce(path, strcspn(path, "?"), reduced, sizeof reduced, &why) == 0;
    for (size_t l = 0; l < set_count; l++) {
        const struct net_rule *near;
        if (!allows_request(sets[l], &q, method, clear ? reduced : NULL, &near)) {
            decide(ret, NET_HTTP, (unsigned)l, near);
            return;
        }
    }
}

// ---- ports --------------------------------------------------------------------------------------

struct ports {
    uint8_t bits[(UINT16_MAX + 1) / 8];
};

static bool is_set(const struct ports *p, unsigned port)
{
    return p->bits[port / 8] >> (port % 8) & 1;
}

static void set_range(struct ports *p, unsigned low, unsigned high, bool on)
{
    for (unsigned port = low; port <= high;) {
        if (port % 8 == 0 && port + 7 <= high) {
            size_t bytes = (high + 1 - port) / 8;
            memset(p->bits + port / 8, on ? 0xff : 0, bytes);
            port += (unsigned)bytes * 8;
            continue;
        }
        uint8_t bit = (uint8_t)(1u << (port % 8));
        p->bits[port / 8] = (uint8_t)(on ? p->bits[port / 8] | bit : p->bits[port / 8] & ~bit);
        port++;
    }
}

// Without a host: connections to addresses.
static bool is_about(const struct net_rule *r, const struct question *q)
{
    return q->host ? names_host(r, q->host, q->length) : !net_rule_is_name(r);
}

// What one rule set allows; true: every port.
static bool collect(const struct net_rules *set, const struct question *q, struct ports *ret)
{
    memset(ret, 0, sizeof *ret);
    for (size_t i = 0; i < set->allow_count; i++) {
        if (!is_about(&set->allow[i], q))
            continue;
        set_range(ret, set->allow[i].port_min, set->allow[i].port_max, true);
        if (net_rule_any_port(&set->allow[i]))
            return true;
    }
    return false;
}

static void take(struct ports *open, unsigned port, uint16_t *ret, size_t cap, size_t *n)
{
    if (*n < cap && is_set(open, port)) {
        ret[(*n)++] = (uint16_t)port;
        set_range(open, port, port, false);
    }
}

size_t net_ports(const struct net_rules *const *sets, size_t set_count, const char *host,
                 uint16_t *ret, size_t cap, bool *ret_any)
{
    struct ports open, mine;
    struct question q;
    size_t n = 0;
    bool any = set_count > 0;
    ask(&q, host, NULL, 0);
    memset(&open, 0xff, sizeof open);
    for (size_t l = 0; l < set_count; l++) {
        any &= collect(sets[l], &q, &mine);
        for (size_t i = 0; i < sizeof open.bits; i++)
            open.bits[i] &= mine.bits[i];
        for (size_t i = 0; i < sets[l]->deny_count; i++) {
            const struct net_rule *r = &sets[l]->deny[i];
            if (host && names_host(r, host, q.length))
                set_range(&open, r->port_min, r->port_max, false);
        }
    }
    *ret_any = any;
    if (set_count == 0)
        return 0;
    // Single ports in rules come first, then the usual ones, then those of ranges.
    for (size_t l = 0; l < set_count; l++)
        for (size_t i = 0; i < sets[l]->allow_count; i++) {
            const struct net_rule *r = &sets[l]->allow[i];
            if (r->port_min == r->port_max && is_about(r, &q))
                take(&open, r->port_min, ret, cap, &n);
        }
    if (any)
        return n;
    take(&open, 443, ret, cap, &n);
    take(&open, 80, ret, cap, &n);
    for (unsigned port = 1; port <= UINT16_MAX && n < cap; port++)
        take(&open, port, ret, cap, &n);
    return n;
}

// ---- names --------------------------------------------------------------------------------------

static const char *const reason_names[NET_REASON_MAX] = {
    [NET_ALLOWED] = "allowed",
    [NET_NOT_ALLOWED] = "not_allowed",
    [NET_PORT] = "port_not_allowed",
    [NET_DENIED] = "denied",
    [NET_SCOPE_REFUSED] = "address_not_public",
    [NET_ADDRESS_REFUSED] = "address_not_allowed",
    [NET_HTTP] = "request_not_allowed",
};

const char *net_reason_name(enum net_reason reason)
{
    return (unsigned)reason < NET_REASON_MAX ? reason_names[reason] : "unknown";
}
