// SPDX-License-Identifier: Apache-2.0
//
// network: see network.h: the policy, and what callers ask for.  network_run.c talks to the broker.
// Runs in the gate.

#include "run/network.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "net/policy.h"
#include "run/network_internal.h"
#include "json/whole.h"

// ---- the policy ---------------------------------------------------------------------------------

int network_open(struct gate *g, struct err *e)
{
    const struct config *c = g->facts->config;
    const struct environments *env = g->facts->environments;
    bool installs = env && env->folder >= 0 && !c->offline; // env/envs.h
    if (!net_is_on(c) && !installs)
        return 0;
    struct network *n = calloc(1, sizeof *n);
    if (!n)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "prepare the network of boxes");
    *n = (struct network){.gate = g, .config = c, .sock = -1};
    TAILQ_INIT(&n->queue);
    TAILQ_INIT(&n->waiting);
    n->policy = net_policy_load(c, g->facts->network_file, e);
    if (!n->policy && !g->facts->restarts) {
        free(n);
        return -1;
    }
    // The file became invalid after the start, and then a gate crashed: sessions go on, and new
    // runs have no network until the operator corrects the file.
    if (!n->policy && e)
        log_err(LOG_ERROR, e);
    g->network = n;
    return 0;
}

void network_close(struct gate *g)
{
    struct network *n = TAKE_PTR(g->network);
    if (!n)
        return;
    network_unlink(n);
    for (size_t i = 0; i < LINK_BOX_SLOTS; i++)
        free(n->slots[i].grant);
    net_policy_free(n->policy);
    free(n);
}

int network_reload(struct gate *g, int file, struct err *e)
{
    struct network *n = g->network;
    if (!n || !n->config->network_file[0])
        return 0;
    if (file < 0)
        return err_set(e, ERR_BAD_CONFIG_FILE, 0, "put it back and send SIGHUP again",
                       "the file '%s' of --network-file cannot be opened", n->config->network_file);
    struct net_policy *policy = net_policy_load(n->config, file, e);
    if (!policy)
        return -1;
    net_policy_free(n->policy);
    n->policy = policy;
    n->generation++;
    return 0;
}

unsigned network_generation(const struct gate *g)
{
    return g && g->network ? g->network->generation : 0;
}

static const struct net_rules *rules_of(const struct gate *g, const char *key)
{
    if (!g || !g->network || !g->network->policy)
        return NULL;
    if (!net_is_on(g->network->config) && (!key || strcmp(key, NET_INSTALLER) != 0))
        return NULL; // it is there for installing only
    return &net_policy_of(g->network->policy, key)->rules;
}

bool network_is_allowed(const struct gate *g, const char *key)
{
    const struct net_rules *r = rules_of(g, key);
    bool learns = key && strcmp(key, NET_INSTALLER) == 0; // its hosts come with a rule set
    return r && (r->allow_count > 0 || learns);
}

bool network_wants(const struct gate *g, const char *key, const json_t *set)
{
    return !json_is_false(set) && network_is_allowed(g, key);
}

int network_of_sandbox(const json_t *set, struct err *e)
{
    if (!set || json_is_false(set))
        return 0;
    return err_set(e, ERR_BAD_VALUE, 0,
                   "leave 'network' out or say \"off\", or run it with isolation native",
                   "isolation 'gvisor' has no network");
}

void network_describe(const struct gate *g, const char *key, const json_t *set,
                      char buf[NETWORK_TEXT_MAX])
{
    struct net_rules rules = {0};
    buf[0] = '\0';
    if (!network_wants(g, key, set))
        return;
    if (!set)
        net_rules_describe(rules_of(g, key), buf, NETWORK_TEXT_MAX);
    else if (net_rules_from_json(set, &rules, NULL) == 0)
        net_rules_describe(&rules, buf, NETWORK_TEXT_MAX);
    net_rules_done(&rules);
    text_sanitize(buf); // a cut may have left half a character
}

// The first rules of a list, and how many more there are.
static int show_list(json_t *o, json_t *rules, const char *name, const char *more)
{
    json_t *all = json_object_get(rules, name), *some = json_array();
    size_t count = json_array_size(all),
           shown = count < NETWORK_SHOWN_MAX ? count : NETWORK_SHOWN_MAX;
    int failed = !some;
    for (size_t i = 0; i < shown; i++)
        failed |= json_array_append(some, json_array_get(all, i));
    failed |= json_object_set_new(o, name, some);
    if (count > shown)
        failed |= json_object_set_new(o, more, json_integer((json_int_t)(count - shown)));
    return failed;
}

json_t *network_shown(const struct gate *g, const char *key, json_t *set)
{
    if (!network_wants(g, key, set))
        return json_string("off");
    json_t *rules = set ? json_incref(set) : net_rules_json(rules_of(g, key)), *o = json_object();
    int failed = !rules || show_list(o, rules, "allow", "allow_omitted") ||
                 show_list(o, rules, "deny", "deny_omitted");
    json_decref(rules);
    return json_whole(o, failed);
}

// ---- what callers ask for -----------------------------------------------------------------------

static int refuse(const struct gate *g, const char *key, struct err *e)
{
    char allowed[NETWORK_TEXT_MAX];
    network_describe(g, key, NULL, allowed);
    if (!g->network || !net_is_on(g->network->config))
        err_hint(e, "leave 'network' out; the operator can allow hosts with --allow-host "
                    "or --network-file");
    else if (allowed[0])
        err_hint(e, "ask only for hosts that this key may reach: %.300s", allowed);
    else
        err_hint(e, "leave 'network' out; the operator can allow hosts for this key in "
                    "--network-file");
    e->code = ERR_NETWORK_NOT_ALLOWED;
    return -1;
}

static int check_rules(const struct gate *g, const char *key, const struct net_rules *wanted,
                       struct err *e)
{
    const struct net_rules *own = rules_of(g, key);
    if (!own || !own->allow_count) {
        (void)err_set(e, ERR_NETWORK_NOT_ALLOWED, 0, NULL,
                      own ? "this key may not reach any host"
                          : "this server gives code no network");
        return refuse(g, key, e);
    }
    return net_rules_within(wanted, own, e) < 0 ? refuse(g, key, e) : 0;
}

int network_parse(const struct gate *g, const char *key, const json_t *value, json_t **ret_set,
                  struct err *e)
{
    struct net_rules wanted = {0};
    *ret_set = NULL;
    if (!value || json_is_null(value))
        return 0;
    if (net_rules_from_json(value, &wanted, e) < 0) {
        text_sanitize(e->message);
        return -1;
    }
    // A caller that writes only "deny" expects the rest to be allowed, and would get nothing.
    if (wanted.deny_count && !json_object_get(value, "allow")) {
        net_rules_done(&wanted);
        (void)err_set(e, ERR_BAD_VALUE, 0, NULL, "there is a 'deny' list and no 'allow' list");
        char allowed[NETWORK_TEXT_MAX];
        network_describe(g, key, NULL, allowed);
        err_hint(e,
                 "what is not allowed is refused: write \"allow\", too; this key may reach: %.300s",
                 allowed[0] ? allowed : "nothing");
        return -1;
    }
    if (!wanted.allow_count) {
        net_rules_done(&wanted);
        *ret_set = json_false();
        return 0;
    }
    int r = check_rules(g, key, &wanted, e);
    json_t *set = r < 0 ? NULL : net_rules_json(&wanted);
    net_rules_done(&wanted);
    if (r == 0 && !set)
        r = err_set(e, ERR_SYSTEM, 0, "send less at once", "the server is out of memory");
    if (r == 0 && json_dumpb(set, NULL, 0, JSON_COMPACT) > NETWORK_RULES_MAX)
        r = err_set(e, ERR_BAD_VALUE, 0, "ask for fewer hosts, or use '*.' for many",
                    "the rules are more than %d bytes of JSON", NETWORK_RULES_MAX);
    if (r < 0) {
        text_sanitize(e->message);
        json_decref(set);
        return r;
    }
    *ret_set = set;
    return 0;
}

int network_fits(const json_t *session, bool networked, const json_t *call, struct err *e)
{
    struct net_rules inner = {0}, outer = {0};
    if (!json_is_object(call))
        return 0;
    if (!networked || json_is_false(session))
        return err_set(e, ERR_NETWORK_NOT_ALLOWED, 0,
                       "open another session with the argument 'network'; what a session may reach "
                       "is fixed when it is opened",
                       "this session was opened without network");
    if (!json_is_object(session))
        return 0;
    int r = net_rules_from_json(call, &inner, e);
    if (r == 0)
        r = net_rules_from_json(session, &outer, e);
    if (r == 0 && (r = net_rules_within(&inner, &outer, e)) < 0) {
        char allowed[NETWORK_TEXT_MAX];
        net_rules_describe(&outer, allowed, sizeof allowed);
        err_hint(e, "this session may reach %.300s; a run in it can ask for less, not for more",
                 allowed);
        text_sanitize(e->hint);
        text_sanitize(e->message);
        e->code = ERR_NETWORK_NOT_ALLOWED;
        (void)err_wrap(e, "network");
    }
    net_rules_done(&inner);
    net_rules_done(&outer);
    return r;
}
