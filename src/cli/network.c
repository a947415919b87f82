// SPDX-License-Identifier: Apache-2.0
//
// network: see network.h.

#include "cli/network.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "broker/broker.h"
#include "config/code_policy.h"
#include "net/policy.h"

enum { NETWORK_ON = 1 }; // position in the choices of config.def

// "allow-host from the environment variable CONSTRICTOR_ALLOW_HOST: ..."
static int check_list(const struct config *c, enum config_key key, const struct text_list *list,
                      struct err *e)
{
    static const struct text_list none;
    struct net_rules rules = {0};
    char from[CONFIG_DESCRIBE_MAX];
    bool allow = key == CONFIG_KEY_allow_hosts;
    int r = net_rules_from_lists(allow ? list : &none, allow ? &none : list, &rules, e);
    if (r == 0) {
        net_rules_done(&rules);
        return 0;
    }
    config_format_origin(c, key, c->origins[key], from);
    (void)err_wrap(e, "%s from %s", config_options[key].key, from);
    return r;
}

static int check_file(const struct config *c, struct err *e)
{
    _cleanup_close_ int file = -1;
    if (c->network_file[0]) {
        file = open(c->network_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (file < 0)
            return err_set(e, ERR_BAD_CONFIG_FILE, errno,
                           "give --network-file a readable JSON file",
                           "open '%s' of --network-file", c->network_file);
    }
    struct net_policy *policy = net_policy_load(c, file, e);
    net_policy_free(policy); // fine with NULL
    return policy ? 0 : -1;
}

// An address, or one with a port: "192.0.2.53:5353", "[2001:db8::53]:53".
static bool is_resolver(const char *text)
{
    char address[NET_ADDRESS_TEXT + 1];
    struct net_address parsed;
    uint64_t port;
    bool in_brackets = text[0] == '[';
    const char *last = strrchr(text, ':'), *end = text + strlen(text);
    if (last && (in_brackets ? last[-1] == ']' : strchr(text, ':') == last)) {
        if (text_parse_u64(last + 1, 1, UINT16_MAX, &port) < 0)
            return false;
        end = last;
    }
    if (in_brackets && (end - text < 2 || end[-1] != ']'))
        return false;
    text += in_brackets;
    end -= in_brackets;
    if ((size_t)(end - text) >= sizeof address)
        return false;
    snprintf(address, sizeof address, "%.*s", (int)(end - text), text);
    return net_address_parse(address, &parsed) == 0 && in_brackets <= !net_address_is_v4(&parsed);
}

// Checked here, because the broker would notice only when code looks up a name.
static int check_resolvers(const struct config *c, struct err *e)
{
    char from[CONFIG_DESCRIBE_MAX];
    for (size_t i = 0; i < c->dns_servers.count; i++) {
        const char *text = c->dns_servers.items[i];
        if (is_resolver(text))
            continue;
        config_format_origin(c, CONFIG_KEY_dns_servers, c->origins[CONFIG_KEY_dns_servers], from);
        return err_set(e, ERR_BAD_VALUE, 0,
                       "write an address, such as 192.0.2.53, 192.0.2.53:5353 or [2001:db8::53]:53",
                       "dns '%.80s' from %s is not the address of a resolver", text, from);
    }
    return 0;
}

// The folder becomes part of the tree of boxes, where a mistake would look like a missing layer.
static int check_wheelhouse(const struct config *c, struct err *e)
{
    char from[CONFIG_DESCRIBE_MAX];
    if (!c->find_links[0])
        return 0;
    _cleanup_close_ int fd = open(c->find_links, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        return 0;
    int errnum = errno;
    config_format_origin(c, CONFIG_KEY_find_links, c->origins[CONFIG_KEY_find_links], from);
    return err_set(e, ERR_BAD_VALUE, errnum, "give a readable folder of wheels",
                   "find-links '%.200s' from %s", c->find_links, from);
}

int network_check_config(const struct config *c, bool quiet, struct err *e)
{
    bool rules = c->allow_hosts.count || c->deny_hosts.count;
    if (c->network == NETWORK_ON && !c->allow_hosts.count && !c->network_file[0] && !quiet)
        fprintf(stderr, "constrictor: warning: the network is on, but no host is allowed, so code "
                        "can reach nothing; allow hosts with --allow-host or --network-file, every "
                        "public one with CONSTRICTOR_ALLOW_HOST='*'\n");
    if (code_policy_shuts_network(c) && (c->allow_hosts.count || c->network_file[0]) && !quiet)
        fprintf(stderr, "constrictor: warning: hosts are allowed, but the policy has no tier "
                        "'network', so code can reach nothing; add it to --tiers\n");
    if (code_policy_check(c, e) < 0 || check_resolvers(c, e) < 0 || check_wheelhouse(c, e) < 0)
        return -1;
    // Checked even when the network is off, so that switching it on brings no surprise.
    if (!rules && !c->network_file[0])
        return 0;
    if (check_list(c, CONFIG_KEY_allow_hosts, &c->allow_hosts, e) < 0 ||
        check_list(c, CONFIG_KEY_deny_hosts, &c->deny_hosts, e) < 0)
        return -1;
    return check_file(c, e);
}

void network_add_to_plan(struct keeper_plan *plan)
{
    bool installs = plan->porter && !plan->config->offline;
    if (!net_is_on(plan->config) && !installs)
        return;
    plan->broker = broker_main;
    plan->files[WIRE_FILES_MAX - 1] = plan->config->network_file;
}
