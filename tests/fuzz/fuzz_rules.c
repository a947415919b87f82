// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of src/net: the input is a rule, as a name, as the JSON of
// rules, as the path of a request.  Whatever is taken must come back the same from its own JSON, be
// within itself, and a name that is taken must be one that the DNS can have.

#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "net/policy.h"
#include "net/rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void is_clean(const struct err *e)
{
    char copy[ERR_MESSAGE_MAX];
    memcpy(copy, e->message, sizeof copy);
    text_sanitize(copy);
    assert(copy[0] && strcmp(copy, e->message) == 0);
}

static void name(const char *text, size_t size)
{
    char host[NET_HOST_MAX + 1], again[NET_HOST_MAX + 1];
    struct err e;
    if (net_host_normalise(text, size, host, &e) < 0) {
        is_clean(&e);
        return;
    }
    assert(host[0] && host[0] != '.' && !strstr(host, "..") && strlen(host) <= NET_HOST_MAX);
    assert(strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == strlen(host));
    assert(!net_name_is_numeric(host));
    assert(net_host_normalise(host, strlen(host), again, &e) == 0 && strcmp(host, again) == 0);
}

// One name and a few addresses, none of them public.
static void judge(const struct net_rules *r)
{
    static const char *const addresses[] = {"127.0.0.1", "10.0.0.1", "169.254.169.254",
                                            "64:ff9b::7f00:1", "::1"};
    const struct net_rules *sets[] = {r, r};
    struct net_rules nothing = {0};
    const struct net_rules *off[] = {r, &nothing};
    struct net_decision v;
    uint16_t ports[8];
    bool any;
    size_t n = net_ports(sets, 2, "a.test", ports, 8, &any);
    assert(n <= 8 && !(any && n));
    for (size_t i = 0; i < n; i++) {
        net_judge(sets, 2, "a.test", NULL, ports[i], &v);
        assert(v.reason == NET_ALLOWED);
    }
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        struct net_address a;
        assert(net_address_parse(addresses[i], &a) == 0);
        net_judge(sets, 2, "a.test", &a, 80, &v);
        bool opened = false;
        for (size_t k = 0; k < r->allow_count; k++)
            opened |= r->allow[k].kind == NET_KIND_ADDRESS || r->allow[k].kind == NET_KIND_NETWORK;
        assert(opened || v.reason != NET_ALLOWED);
        net_judge(off, 2, NULL, &a, 80, &v);
        assert(v.reason != NET_ALLOWED);
    }
    (void)net_bounds_http(sets, 2, "a.test", 80);
    net_judge_http(sets, 2, "a.test", 80, "GET", "/v1/%61", &v);
}

static void rules(const json_t *value)
{
    struct net_rules r, again;
    struct err e;
    char text[256];
    if (net_rules_from_json(value, &r, &e) < 0) {
        is_clean(&e);
        return;
    }
    json_t *out = net_rules_json(&r);
    assert(out && net_rules_from_json(out, &again, &e) == 0);
    json_t *same = net_rules_json(&again);
    assert(same && json_equal(out, same));
    // What a list denies as a whole is not within it; without that it is.
    size_t denied = again.deny_count;
    again.deny_count = 0;
    assert(net_rules_within(&r, &again, &e) == 0);
    again.deny_count = denied;
    net_rules_describe(&r, text, sizeof text);
    judge(&r);
    net_rules_done(&r);
    net_rules_done(&again);
    json_decref(out);
    json_decref(same);
}

static void policy(const char *text, size_t size)
{
    static struct config config;
    struct err e;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, text, size) != (ssize_t)size)
        abort();
    if (!config.net_rate)
        config_init(&config);
    config.network = 1;
    struct net_policy *p = net_policy_load(&config, fd, &e);
    if (p)
        assert(net_policy_of(p, "bob"));
    else
        is_clean(&e);
    net_policy_free(p);
    (void)close(fd);
}

static void path(const char *text, size_t size)
{
    char reduced[NET_PATH_SEEN_MAX], again[NET_PATH_SEEN_MAX];
    const char *why;
    if (net_path_reduce(text, size, reduced, sizeof reduced, &why) < 0) {
        assert(why);
        return;
    }
    assert(reduced[0] == '/' && !strstr(reduced, "//") && !strstr(reduced, "/../"));
    assert(net_path_reduce(reduced, strlen(reduced), again, sizeof again, &why) == 0);
    assert(strcmp(reduced, again) == 0);
    assert(net_path_matches("*", reduced) && net_path_matches("/*", reduced));
    assert(net_path_matches(reduced, reduced)); // its stars, if it has any, are met by themselves
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1); // of just its size, so that reading on is seen
    struct net_rule r;
    struct err e;
    if (!text)
        return 0;
    text = realloc(text, size ? size : 1);
    memcpy(text, data, size);
    name(text, size);
    path(text, size);
    if (net_rule_parse_text(&r, text, size, &e) == 0) {
        json_t *list = json_pack("[o]", net_rule_json(&r));
        rules(list);
        json_decref(list);
        net_rule_done(&r);
    } else {
        is_clean(&e);
    }
    json_t *value = json_loadb(text, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (value) {
        rules(value);
        policy(text, size);
    }
    json_decref(value);
    free(text);
    return 0;
}
