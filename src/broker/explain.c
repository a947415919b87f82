// SPDX-License-Identifier: Apache-2.0
//
// explain: see explain.h.

#include "broker/explain.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "broker/netbox.h"

enum { TARGET = NET_HOST_MAX + 16, LIST = 200 };

static const char *verb_of(const char *action)
{
    static const struct {
        const char *action, *verb;
    } verbs[] = {{"resolve", "look-up of"}, {"http", "request to"}, {"tls", "TLS to"}};
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        if (strcmp(action, verbs[i].action) == 0)
            return verbs[i].verb;
    return "connection to";
}

static void begin(struct refusal *ret, const char *action, const char *reason, const char *host,
                  const struct net_address *address, uint16_t port)
{
    *ret = (struct refusal){
        .action = action, .reason = reason, .host = host, .address = address, .port = port};
}

static void sentence(struct refusal *r, const char *why)
{
    char target[TARGET];
    report_target(r->host, r->address, r->port, target, sizeof target);
    snprintf(r->sentence, sizeof r->sentence, "%s '%s' refused: %s [%s]", verb_of(r->action),
             target, why, r->reason);
}

// Says what this rule set allows and where to extend it.
static void hint_set(const struct netbox *b, unsigned set, struct refusal *r)
{
    const struct net_rules *rules[NET_RULE_SETS_MAX];
    char list[LIST] = "", text[NET_ADDRESS_TEXT] = "";
    size_t count = netbox_rule_sets(b, rules);
    if (set < count)
        net_rules_describe(rules[set], list, sizeof list);
    if (r->address)
        net_address_text(r->address, text);
    const char *what = r->host ? r->host : text;
    char target[TARGET];
    // Name the port, to ask for no more than needed.
    if (strcmp(r->reason, net_reason_name(NET_PORT)) == 0) {
        report_target(r->host, r->address, r->port, target, sizeof target);
        what = target;
    }
    if (strcmp(b->key, NET_INSTALLER) == 0)
        snprintf(r->hint, sizeof r->hint,
                 "the index names this host; the operator lets installs reach it with --index-host "
                 "%s:%u",
                 r->host ? r->host : text, r->port ? r->port : 443);
    else if (set == 0)
        snprintf(r->hint, sizeof r->hint,
                 "allowed here: %s; ask the operator for --allow-host %s, or for a rule in the "
                 "network file",
                 list[0] ? list : "nothing", what);
    else
        snprintf(r->hint, sizeof r->hint,
                 "this run's 'network' argument allows: %s; name %s in its 'allow' list",
                 list[0] ? list : "nothing", what);
}

static const char *article(enum net_scope scope)
{
    return strchr("aeiou", net_scope_name(scope)[0]) ? "an" : "a";
}

static void explain_scope(const struct netbox *b, const struct net_decision *v, struct refusal *r)
{
    char text[NET_ADDRESS_TEXT] = "", why[256];
    if (r->address)
        net_address_text(r->address, text);
    if (v->scope == NET_LOOPBACK && !r->host)
        snprintf(why, sizeof why, "this is the box itself; a box cannot reach the host's loopback");
    else if (r->host)
        snprintf(why, sizeof why, "it leads to %s, %s %s address", text, article(v->scope),
                 net_scope_name(v->scope));
    else
        snprintf(why, sizeof why, "this is %s %s address", article(v->scope),
                 net_scope_name(v->scope));
    sentence(r, why);
    if (strcmp(b->key, NET_INSTALLER) == 0) {
        snprintf(r->hint, sizeof r->hint,
                 "a package index may be there if the operator names it: --index-url for the "
                 "index, --index-host %s:%u for a host of its files",
                 r->host ? r->host : text, r->port ? r->port : 443);
        return;
    }
    snprintf(
        r->hint, sizeof r->hint,
        "only a rule of the operator for exactly this address opens it, such as --allow-host %s",
        text);
}

void explain_verdict(const struct netbox *b, const char *action, const char *host,
                     const struct net_address *address, uint16_t port, const struct net_decision *v,
                     struct refusal *ret)
{
    char why[NET_RULE_TEXT + 100];
    begin(ret, action, net_reason_name(v->reason), host, address, port);
    snprintf(ret->rule, sizeof ret->rule, "%s", v->rule);
    if (!b->is_granted) {
        sentence(ret, "this box has no permission for the network yet");
        return;
    }
    switch (v->reason) {
    case NET_SCOPE_REFUSED: explain_scope(b, v, ret); return;
    case NET_DENIED:
        snprintf(why, sizeof why, "the rule '%s' denies it", v->rule);
        sentence(ret, why);
        snprintf(ret->hint, sizeof ret->hint, "%s",
                 v->set == 0 ? "the operator denies it; no argument of a run can allow it"
                             : "it is in the 'deny' list of this run's 'network' argument");
        return;
    case NET_PORT:
        snprintf(why, sizeof why, "the host is allowed, but not on port %u%s%s%s", port,
                 v->rule[0] ? " (rule '" : "", v->rule, v->rule[0] ? "')" : "");
        sentence(ret, why);
        break;
    case NET_ADDRESS_REFUSED:
        sentence(ret, "no rule is about this address; connect to an allowed host by its name");
        break;
    case NET_HTTP:
        snprintf(why, sizeof why, "the rule '%s' does not allow this method or path", v->rule);
        sentence(ret, why);
        break;
    case NET_ALLOWED:
    case NET_NOT_ALLOWED:
    case NET_REASON_MAX: sentence(ret, "no rule allows this host"); break;
    }
    hint_set(b, v->set, ret);
}

void explain_quota(const char *host, const struct net_address *address, uint16_t port,
                   const char *which, struct refusal *ret)
{
    // Of a box, and of a key's hour; see config.def and net/policy.h.
    static const struct {
        const char *which, *what, *option;
    } quotas[] = {
        {"rate", "new connections and look-ups in a second", "--net-rate"},
        {"connections", "connections", "--net-connections"},
        {"sockets", "connections at one time", "--net-sockets"},
        {"requests", "requests", "--net-requests"},
        {"bytes_up", "bytes sent", "--net-up"},
        {"bytes_down", "bytes received", "--net-down"},
        {"names", "names", NULL},
        {"ports", "ports", NULL},
        {"lookups", "look-ups at one time", NULL},
        {"descriptors", "connections of the whole server", NULL},
    };
    bool of_key = strncmp(which, "key_", 4) == 0;
    const char *name = of_key ? which + 4 : which;
    char why[160];
    begin(ret, "quota", which, host, address, port);
    for (size_t i = 0; i < ARRAY_LEN(quotas); i++) {
        if (strcmp(quotas[i].which, name) != 0)
            continue;
        snprintf(why, sizeof why, "%s used up its %s", of_key ? "this key has" : "this box has",
                 quotas[i].what);
        sentence(ret, why);
        if (of_key)
            snprintf(ret->hint, sizeof ret->hint,
                     "wait for the next hour, or ask the operator for more in the network file");
        else if (quotas[i].option)
            snprintf(ret->hint, sizeof ret->hint,
                     "use less, begin a new session, or ask the operator for a higher %s",
                     quotas[i].option);
        else
            snprintf(ret->hint, sizeof ret->hint, "use fewer, or begin a new session");
        return;
    }
}

void explain_other(const char *action, const char *reason, const char *host,
                   const struct net_address *address, uint16_t port, const char *why,
                   const char *hint, struct refusal *ret)
{
    begin(ret, action, reason, host, address, port);
    sentence(ret, why);
    snprintf(ret->hint, sizeof ret->hint, "%s", hint ? hint : "");
}
