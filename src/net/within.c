// SPDX-License-Identifier: Apache-2.0
//
// within: does one rule set allow everything that another asks for?  The gate calls it before a
// run, so that a caller that asks for more than its key may reach gets an error at once.  Security
// does not depend on it: the broker applies both sets.  It is conservative: each rule asked for
// must lie inside a single rule of the other set.

#include <stdio.h>
#include <string.h>

#include "net/rule.h"

static bool same_host(const struct net_rule *a, const struct net_rule *b)
{
    return a->host_length == b->host_length && memcmp(a->host, b->host, a->host_length) == 0;
}

static bool name_within(const struct net_rule *in, const struct net_rule *out)
{
    if (out->kind == NET_KIND_ANY)
        return true;
    if (in->kind == NET_KIND_ANY)
        return false;
    bool below = out->kind == NET_KIND_BELOW && net_rule_is_above(out, in->host, in->host_length);
    return below || (in->kind == out->kind && same_host(in, out));
}

static bool address_within(const struct net_rule *in, const struct net_rule *out)
{
    unsigned inner = in->kind == NET_KIND_ADDRESS ? 128 : in->prefix;
    unsigned outer = out->kind == NET_KIND_ADDRESS ? 128 : out->prefix;
    return inner >= outer && net_address_within(&in->address, &out->address, outer);
}

static bool host_within(const struct net_rule *in, const struct net_rule *out)
{
    if (net_rule_is_name(in) != net_rule_is_name(out))
        return false;
    if (in->port_min < out->port_min || in->port_max > out->port_max)
        return false;
    return net_rule_is_name(in) ? name_within(in, out) : address_within(in, out);
}

static bool methods_within(const struct net_http *in, const struct net_http *out)
{
    if (out->method_count == 0)
        return true;
    for (size_t i = 0; i < in->method_count; i++) {
        size_t k = 0;
        while (k < out->method_count && strcmp(in->methods[i], out->methods[k]) != 0)
            k++;
        if (k == out->method_count)
            return false;
    }
    return in->method_count > 0;
}

static bool paths_within(const struct net_http *in, const struct net_http *out)
{
    if (out->path_count == 0)
        return true;
    for (size_t i = 0; i < in->path_count; i++) {
        size_t k = 0;
        // The inner glob is taken as a path: only stars match its stars.
        while (k < out->path_count && !net_path_matches(out->paths[k], in->paths[i]))
            k++;
        if (k == out->path_count)
            return false;
    }
    return in->path_count > 0;
}

static bool rule_within(const struct net_rule *in, const struct net_rule *out)
{
    if (!host_within(in, out))
        return false;
    if (!out->http)
        return true;
    return in->http && methods_within(in->http, out->http) && paths_within(in->http, out->http);
}

// "*" denies addresses too.
static bool is_denied(const struct net_rule *in, const struct net_rule *deny)
{
    if (deny->kind == NET_KIND_ANY)
        return in->port_min >= deny->port_min && in->port_max <= deny->port_max;
    return host_within(in, deny);
}

static int refuse(const struct net_rule *r, size_t at, const char *why,
                  const struct net_rules *outer, struct err *e)
{
    char shown[NET_QUOTE_MAX], have[ERR_HINT_MAX - 64];
    net_quote(r->text, strlen(r->text), shown);
    net_rules_describe(outer, have, sizeof have);
    (void)err_set(e, ERR_NETWORK_NOT_ALLOWED, 0, NULL, "allow[%zu]: '%s' %s", at, shown, why);
    if (outer->allow_count)
        err_hint(e, "ask for less: allowed is %s", have);
    else
        err_hint(
            e, "no host is allowed: the operator can add some with --allow-host or --network-file");
    return -1;
}

int net_rules_within(const struct net_rules *inner, const struct net_rules *outer, struct err *e)
{
    for (size_t i = 0; i < inner->allow_count; i++) {
        const struct net_rule *r = &inner->allow[i];
        bool found = false;
        for (size_t k = 0; k < outer->allow_count && !found; k++)
            found = rule_within(r, &outer->allow[k]);
        if (!found)
            return refuse(r, i, "is more than is allowed here", outer, e);
        for (size_t k = 0; k < outer->deny_count; k++)
            if (is_denied(r, &outer->deny[k])) {
                char why[NET_RULE_TEXT + 40];
                snprintf(why, sizeof why, "is denied by the rule '%s'", outer->deny[k].text);
                return refuse(r, i, why, outer, e);
            }
    }
    return 0;
}
