// SPDX-License-Identifier: Apache-2.0
//
// net/judge and net/within: verdicts about connections and requests, the ports of a host, and rules
// within rules.

#include "short_rules.h"

#include <time.h>

// ---- connections --------------------------------------------------------------------------------

static void connections_are_judged(void **state)
{
    (void)state;
    static const struct {
        const char *sets, *host, *address;
        uint16_t port;
        enum net_reason reason;
        unsigned set;
        const char *rule; // NULL: ""
    } cases[] = {
        {"a.test", "a.test", NULL, 0, NET_ALLOWED, 0, "a.test"},
        {"a.test", "a.test", NULL, 443, NET_ALLOWED, 0, "a.test"},
        {"A.Test.", "a.test", NULL, 443, NET_ALLOWED, 0, "A.Test."},
        {"a.test", "b.a.test", NULL, 0, NET_NOT_ALLOWED, 0, NULL},
        {"a.test", "xa.test", NULL, 0, NET_NOT_ALLOWED, 0, NULL},
        {"a.test", "a.test.evil", NULL, 0, NET_NOT_ALLOWED, 0, NULL},
        {"a.test:443", "a.test", NULL, 0, NET_ALLOWED, 0, "a.test:443"},
        {"a.test:443", "a.test", NULL, 80, NET_PORT, 0, "a.test:443"},
        {"a.test:443 a.test:80-81", "a.test", NULL, 81, NET_ALLOWED, 0, "a.test:80-81"},
        {"a.test:80-81", "a.test", NULL, 82, NET_PORT, 0, "a.test:80-81"},
        {"*.a.test", "b.a.test", NULL, 0, NET_ALLOWED, 0, "*.a.test"},
        {"*.a.test", "c.b.a.test", NULL, 0, NET_ALLOWED, 0, "*.a.test"},
        {"*.a.test", "a.test", NULL, 0, NET_NOT_ALLOWED, 0, NULL},
        {"*.a.test", "ba.test", NULL, 0, NET_NOT_ALLOWED, 0, NULL},
        {"*", "x", NULL, 1, NET_ALLOWED, 0, "*"},
        {"-", "a.test", NULL, 0, NET_NOT_ALLOWED, 0, NULL},
        {"", "a.test", NULL, 0, NET_NOT_ALLOWED, 0, NULL},
        {"", NULL, "1.2.3.4", 1, NET_ADDRESS_REFUSED, 0, NULL},
        {"* !a.test", "a.test", NULL, 0, NET_DENIED, 0, "a.test"},
        {"a.test !*.test", "a.test", NULL, 0, NET_DENIED, 0, "*.test"},
        {"* !a.test:25", "a.test", NULL, 0, NET_ALLOWED, 0, "*"},
        {"* !a.test:25", "a.test", NULL, 25, NET_DENIED, 0, "a.test:25"},
        {"* !a.test:25", "a.test", NULL, 26, NET_ALLOWED, 0, "*"},
        {"* !1.2.3.4", "a.test", "1.2.3.4", 1, NET_DENIED, 0, "1.2.3.4"},
        {"* !1.2.3.0/24:80", "a.test", "1.2.3.4", 80, NET_DENIED, 0, "1.2.3.0/24:80"},
        {"* !1.2.3.0/24:80", "a.test", "1.2.3.4", 81, NET_ALLOWED, 0, "*"},
        {"* !1.2.3.4", "a.test", "64:ff9b::1.2.3.4", 1, NET_DENIED, 0, "1.2.3.4"},
        {"* !1.2.3.4", "a.test", "2002:102:304::1", 1, NET_DENIED, 0, "1.2.3.4"},
        {"* | * !a.test", "a.test", NULL, 0, NET_DENIED, 1, "a.test"},
        {"1.2.3.4 !1.0.0.0/8", NULL, "1.2.3.4", 1, NET_DENIED, 0, "1.0.0.0/8"},
        {"1.2.3.4 !*", NULL, "1.2.3.4", 1, NET_DENIED, 0, "*"},
        {"1.2.3.4 !::/0", NULL, "1.2.3.4", 1, NET_ALLOWED, 0, "1.2.3.4"},
        {"a.test", "a.test", "1.2.3.4", 443, NET_ALLOWED, 0, "a.test"},
        {"a.test", "a.test", "10.0.0.1", 443, NET_SCOPE_REFUSED, 0, "a.test"},
        {"*", "a.test", "127.0.0.1", 443, NET_SCOPE_REFUSED, 0, "*"},
        {"*", "a.test", "169.254.169.254", 80, NET_SCOPE_REFUSED, 0, "*"},
        {"*", "a.test", "64:ff9b::127.0.0.1", 80, NET_SCOPE_REFUSED, 0, "*"},
        {"*", "a.test", "::ffff:127.0.0.1", 80, NET_SCOPE_REFUSED, 0, "*"},
        {"* 0.0.0.0/0 ::/0", "a.test", "10.0.0.1", 80, NET_SCOPE_REFUSED, 0, "*"},
        {"a.test 10.0.0.1", "a.test", "10.0.0.1", 443, NET_ALLOWED, 0, "a.test"},
        {"a.test 10.0.0.1", "a.test", "10.0.0.2", 443, NET_SCOPE_REFUSED, 0, "a.test"},
        {"a.test 10.0.0.1:80", "a.test", "10.0.0.1", 443, NET_SCOPE_REFUSED, 0, "a.test"},
        {"a.test 10.0.0.0/8", "a.test", "10.0.0.1", 443, NET_ALLOWED, 0, "a.test"},
        {"a.test 10.0.0.0/7", "a.test", "10.0.0.1", 443, NET_SCOPE_REFUSED, 0, "a.test"},
        {"a.test 169.254.0.0/16", "a.test", "169.254.1.1", 80, NET_ALLOWED, 0, "a.test"},
        {"a.test 169.254.0.0/16", "a.test", "169.254.169.254", 80, NET_SCOPE_REFUSED, 0, "a.test"},
        {"a.test 169.254.169.254/32", "a.test", "169.254.169.254", 80, NET_SCOPE_REFUSED, 0,
         "a.test"},
        {"a.test 169.254.169.254", "a.test", "169.254.169.254", 80, NET_ALLOWED, 0, "a.test"},
        {"a.test 10.0.0.1", "a.test", "64:ff9b::10.0.0.1", 80, NET_SCOPE_REFUSED, 0, "a.test"},
        {"10.0.0.1", "a.test", "10.0.0.1", 80, NET_NOT_ALLOWED, 0, NULL},
        {"a.test | a.test 10.0.0.1", "a.test", "10.0.0.1", 80, NET_SCOPE_REFUSED, 0, "a.test"},
        {"*", NULL, "1.2.3.4", 80, NET_ADDRESS_REFUSED, 0, NULL},
        {"*", NULL, "169.254.169.254", 80, NET_SCOPE_REFUSED, 0, NULL},
        {"1.2.3.4", NULL, "1.2.3.4", 80, NET_ALLOWED, 0, "1.2.3.4"},
        {"1.2.3.4", NULL, "::ffff:1.2.3.4", 80, NET_ALLOWED, 0, "1.2.3.4"},
        {"1.2.3.4", NULL, "64:ff9b::1.2.3.4", 80, NET_ADDRESS_REFUSED, 0, NULL},
        {"1.2.3.4:443", NULL, "1.2.3.4", 80, NET_PORT, 0, "1.2.3.4:443"},
        {"0.0.0.0/0", NULL, "1.2.3.4", 80, NET_ALLOWED, 0, "0.0.0.0/0"},
        {"::/0", NULL, "1.2.3.4", 80, NET_ADDRESS_REFUSED, 0, NULL},
        {"0.0.0.0/0", NULL, "10.0.0.1", 80, NET_SCOPE_REFUSED, 0, "0.0.0.0/0"},
        {"10.0.0.0/8", NULL, "10.0.0.1", 80, NET_ALLOWED, 0, "10.0.0.0/8"},
        {"127.0.0.1:8080", NULL, "127.0.0.1", 8080, NET_ALLOWED, 0, "127.0.0.1:8080"},
        {"127.0.0.1:8080", NULL, "127.0.0.1", 8081, NET_PORT, 0, "127.0.0.1:8080"},
        {"127.0.0.1", NULL, "::1", 80, NET_SCOPE_REFUSED, 0, NULL},
        {"0.0.0.0/0 | 1.2.3.4", NULL, "1.2.3.4", 80, NET_ALLOWED, 0, "0.0.0.0/0"},
        {"0.0.0.0/0 | 1.2.3.4", NULL, "1.2.3.5", 80, NET_ADDRESS_REFUSED, 1, NULL},
        {"0.0.0.0/0 | 10.0.0.1", NULL, "10.0.0.1", 80, NET_SCOPE_REFUSED, 0, "0.0.0.0/0"},
        {"10.0.0.1 | 0.0.0.0/0", NULL, "10.0.0.1", 80, NET_ALLOWED, 0, "10.0.0.1"},
        {"10.0.0.1 | *", NULL, "10.0.0.1", 80, NET_ADDRESS_REFUSED, 1, NULL},
        {"* | a.test | a.test:443", "a.test", NULL, 443, NET_ALLOWED, 0, "*"},
        {"* | a.test | a.test:443", "a.test", NULL, 80, NET_PORT, 2, "a.test:443"},
        {"* | a.test | *", "b.test", NULL, 80, NET_NOT_ALLOWED, 1, NULL},
        {"a.test | *", "b.test", NULL, 80, NET_NOT_ALLOWED, 0, NULL},
        {"a.test | -", "a.test", NULL, 80, NET_NOT_ALLOWED, 1, NULL},
        {"a.test 10.0.0.1~GET", "a.test", "10.0.0.1", 80, NET_SCOPE_REFUSED, 0, "a.test"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *address = cases[i].address, *rule = cases[i].rule ? cases[i].rule : "";
        struct net_address a = short_address(address ? address : "::");
        struct short_sets l;
        struct net_decision v;
        short_sets(&l, cases[i].sets);
        memset(&v, 0xee, sizeof v);
        net_judge(l.at, l.count, cases[i].host, address ? &a : NULL, cases[i].port, &v);
        if (v.reason != cases[i].reason || v.set != cases[i].set || strcmp(v.rule, rule) != 0)
            fail_msg("row %zu, %s: %s by rule set %u, '%s'", i, cases[i].sets,
                     net_reason_name(v.reason), v.set, v.rule);
        short_sets_done(&l);
    }
    for (int i = 0; i < NET_REASON_MAX; i++)
        assert_non_null(net_reason_name((enum net_reason)i));
}

static void a_verdict_tells_the_scope(void **state)
{
    (void)state;
    struct net_rules r = short_rules("*");
    const struct net_rules *sets[] = {&r};
    struct net_decision v;
    struct net_address a = short_address("169.254.169.254");
    net_judge(sets, 1, "a.test", &a, 80, &v);
    assert_int_equal(v.scope, NET_METADATA);
    net_judge(sets, 1, NULL, &a, 80, &v);
    assert_int_equal(v.scope, NET_METADATA);
    net_rules_done(&r);
}

static void judging_is_fast(void **state)
{
    (void)state;
    json_t *list = json_array();
    for (int i = 0; i < NET_RULES_MAX; i++)
        (void)json_array_append_new(list, json_sprintf("*.n%d.example.org:443", i));
    struct net_rules r;
    struct err e;
    assert_int_equal(net_rules_from_json(list, &r, &e), 0);
    json_decref(list);
    const struct net_rules *sets[] = {&r, &r, &r, &r};
    struct net_decision v;
    clock_t begin = clock();
    for (int i = 0; i < 10000; i++)
        net_judge(sets, 4, "api.n255.example.org", NULL, 443, &v);
    assert_int_equal(v.reason, NET_ALLOWED);
    double each = (double)(clock() - begin) / CLOCKS_PER_SEC / 10000;
    print_message("# %.1f us for 4 rule sets of %d rules\n", each * 1e6, NET_RULES_MAX);
    assert_true(each < 1e-3);
    net_rules_done(&r);
}

// ---- requests -----------------------------------------------------------------------------------

#define API "a.test:80~GET,HEAD~/v1/*,/ok"

static void requests_are_judged(void **state)
{
    (void)state;
    static const struct {
        const char *sets, *host, *method, *path;
        bool bounded;
        enum net_reason reason;
        unsigned set;
    } cases[] = {
        {API, "a.test", "GET", "/v1/x", true, NET_ALLOWED, 0},
        {API, "a.test", "GET", "/v1/x?../..", true, NET_ALLOWED, 0},
        {API, "a.test", "HEAD", "/ok", true, NET_ALLOWED, 0},
        {API, "a.test", "POST", "/ok", true, NET_HTTP, 0},
        {API, "a.test", "get", "/ok", true, NET_HTTP, 0},
        {API, "a.test", "GET", "/okay", true, NET_HTTP, 0},
        {API, "a.test", "GET", "/v1/../admin", true, NET_HTTP, 0},
        {API, "a.test", "GET", "/v1/%2e%2e/admin", true, NET_HTTP, 0},
        {API, "a.test", "GET", "/%76%31/x", true, NET_ALLOWED, 0},
        {API, "a.test", "GET", "/v1//x", true, NET_HTTP, 0},
        {API, "a.test", "GET", "*", true, NET_HTTP, 0},
        {API, "a.test", "GET", "", true, NET_HTTP, 0},
        {API, "b.test", "GET", "/v1/x", false, NET_NOT_ALLOWED, 0},
        {"a.test:80 | " API, "a.test", "POST", "/ok", true, NET_HTTP, 1},
        {API " | a.test:80", "a.test", "POST", "/ok", true, NET_HTTP, 0},
        {API " | *", "a.test", "GET", "/ok", true, NET_ALLOWED, 0},
        {"a.test", "a.test", "POST", "/a/../b", false, NET_ALLOWED, 0},
        {"a.test~GET", "a.test", "GET", "//../x", true, NET_ALLOWED, 0},
        {"a.test~~/x", "a.test", "DELETE", "/x", true, NET_ALLOWED, 0},
        {"a.test~~/x *.test~PUT", "a.test", "PUT", "/y", true, NET_ALLOWED, 0},
        {"a.test~~/x *.test:80", "a.test", "PUT", "/y", false, NET_ALLOWED, 0},
        {"a.test~~/x *.test:81", "a.test", "PUT", "/y", true, NET_HTTP, 0},
        {"a.test~~/x !a.test:80", "a.test", "PUT", "/x", true, NET_DENIED, 0},
        // connections to an address, in text
        {"1.2.3.4~~/x", "1.2.3.4", "PUT", "/x", true, NET_ALLOWED, 0},
        {"1.2.3.4~~/x", "1.2.3.4", "PUT", "/y", true, NET_HTTP, 0},
        {"1.2.3.0/24~~/x", "1.2.3.4", "PUT", "/y", true, NET_HTTP, 0},
        {"1.2.3.4", "1.2.3.4", "PUT", "/y", false, NET_ALLOWED, 0},
        {"10.0.0.1~~/x", "10.0.0.1", "PUT", "/x", true, NET_ALLOWED, 0},
        // no host is named: closed
        {"1.2.3.4~~/x 1.2.3.5", NULL, "PUT", "/x", true, NET_ADDRESS_REFUSED, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct short_sets l;
        struct net_decision v;
        short_sets(&l, cases[i].sets);
        net_judge_http(l.at, l.count, cases[i].host, 80, cases[i].method, cases[i].path, &v);
        if (v.reason != cases[i].reason || v.set != cases[i].set)
            fail_msg("row %zu: %s by %u '%s'", i, net_reason_name(v.reason), v.set, v.rule);
        if (net_bounds_http(l.at, l.count, cases[i].host, 80) != cases[i].bounded)
            fail_msg("row %zu: bounded is wrong", i);
        if (v.reason == NET_HTTP)
            assert_true(v.rule[0]);
        short_sets_done(&l);
    }
}

// ---- ports --------------------------------------------------------------------------------------

static void ports_are_listed(void **state)
{
    (void)state;
    static const struct {
        const char *sets, *host;
        bool any;
        size_t count;
        uint16_t ports[4];
    } cases[] = {
        {"a.test", "a.test", true, 0, {0}},
        {"a.test a.test:80", "a.test", true, 1, {80}},
        {"a.test a.test:80-90 a.test:7 !*:8", "a.test", true, 1, {7}},
        {"a.test:443", "a.test", false, 1, {443}},
        {"a.test:8000 *.test:443 b.test:1", "a.test", false, 2, {8000, 443}},
        {"a.test:8000-8002", "a.test", false, 3, {8000, 8001, 8002}},
        {"a.test:1-60000 a.test:70", "a.test", false, 4, {70, 443, 80, 1}},
        {"* | a.test:443", "a.test", false, 1, {443}},
        {"a.test:1-60000 | a.test:50000 a.test:60001", "a.test", false, 1, {50000}},
        {"a.test:80 | a.test:443", "a.test", false, 0, {0}},
        {"a.test:80-81 !*:80", "a.test", false, 1, {81}},
        {"a.test !*:80", "a.test", true, 0, {0}},
        {"b.test", "a.test", false, 0, {0}},
        {"a.test:65535 1.2.3.4:99", "a.test", false, 1, {65535}},
        {"a.test:65535 1.2.3.4:99", NULL, false, 1, {99}},
        {"a.test:65535 1.2.3.4", NULL, true, 0, {0}},
        {"", "a.test", false, 0, {0}},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct short_sets l;
        uint16_t got[4] = {0};
        bool any = !cases[i].any;
        short_sets(&l, cases[i].sets);
        size_t count = net_ports(l.at, l.count, cases[i].host, got, 4, &any);
        if (count != cases[i].count || any != cases[i].any ||
            memcmp(got, cases[i].ports, sizeof got) != 0)
            fail_msg("row %zu: %zu ports, any %d: %u %u %u %u", i, count, any, got[0], got[1],
                     got[2], got[3]);
        short_sets_done(&l);
    }
}

// ---- within -------------------------------------------------------------------------------------

static void rules_are_within_rules(void **state)
{
    (void)state;
    static const struct {
        const char *inner, *outer;
        bool within;
    } cases[] = {
        {"", "", true},
        {"", "a.test", true},
        {"a.test", "", false},
        {"a.test", "a.test", true},
        {"A.TEST.", "a.test", true},
        {"a.test:443", "a.test", true},
        {"a.test", "a.test:443", false},
        {"a.test:80-90", "a.test:80-85 a.test:86-90", false},
        {"a.test:81", "a.test:80-85", true},
        {"b.a.test", "*.a.test", true},
        {"a.test", "*.a.test", false},
        {"*.a.test", "a.test", false},
        {"*.b.a.test", "*.a.test", true},
        {"*.a.test", "*.a.test", true},
        {"*.a.test", "*.b.a.test", false},
        {"*.ba.test", "*.a.test", false},
        {"*.a.test", "*", true},
        {"*", "*.test", false},
        {"*", "*", true},
        {"*:80", "*", true},
        {"a.test", "1.2.3.4", false},
        {"1.2.3.4", "*", false},
        {"1.2.3.4", "1.2.3.4", true},
        {"::ffff:1.2.3.4", "1.2.3.4", true},
        {"1.2.3.4", "1.2.3.0/24", true},
        {"1.2.3.4/32", "1.2.3.4", true},
        {"1.2.4.4", "1.2.3.0/24", false},
        {"1.2.3.0/24", "1.2.0.0/16", true},
        {"1.2.0.0/16", "1.2.3.0/24", false},
        {"1.2.3.4", "::/0", false},
        {"2001:db8::/48", "::/0", true},
        {"1.2.3.4:80", "1.2.3.0/24:81", false},
        {"a.test b.test", "b.test a.test", true},
        {"a.test c.test", "b.test a.test", false},
        {"*.test", "* !a.test", true},
        {"a.test", "* !a.test", false},
        {"a.test", "* !*.test", false},
        {"a.test", "* !a.test:25", true},
        {"a.test:25", "* !a.test:25", false},
        {"1.2.3.4", "1.2.3.4 !*", false},
        {"a.test !b.test", "a.test", true},
        {"a.test", "a.test~GET", false},
        {"a.test~GET", "a.test", true},
        {"a.test~GET", "a.test~GET,PUT", true},
        {"a.test~GET,PUT", "a.test~GET", false},
        {"a.test~GET", "a.test~~/a", false},
        {"a.test~~/a/b*", "a.test~~/x,/a/*", true},
        {"a.test~~/a*", "a.test~~/a/*", false},
        {"a.test~~/a/*", "a.test~~/a/b", false},
        {"a.test~~/a/*/c", "a.test~~/a/*", true},
        {"a.test~~*", "a.test~~/*", false},
        {"a.test~~/a,/b", "a.test~~/a", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct net_rules inner = short_rules(cases[i].inner), outer = short_rules(cases[i].outer);
        struct err e = {0};
        int r = net_rules_within(&inner, &outer, &e);
        if ((r == 0) != cases[i].within)
            fail_msg("%s in %s: %s", cases[i].inner, cases[i].outer, e.message);
        if (r < 0 && (!is_clean(&e) || !e.hint[0] || !strstr(e.message, "allow[") ||
                      e.code != ERR_NETWORK_NOT_ALLOWED))
            fail_msg("%s in %s: '%s' / '%s'", cases[i].inner, cases[i].outer, e.message, e.hint);
        net_rules_done(&inner);
        net_rules_done(&outer);
    }
}

// Whatever inner rules allow that are within outer ones, the outer ones allow.
static void within_means_what_the_judge_means(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "a.test",       "*.a.test",    "b.a.test",     "*",        "*.test",     "a.test:80",
        "a.test:79-81", "*:80",        "*.test:80-90", "1.2.3.4",  "1.2.3.0/24", "1.2.3.4:80",
        "0.0.0.0/0",    "2001:db8::7", "::/0",         "10.0.0.1", "10.0.0.0/8", "*.b.a.test"};
    static const char *const hosts[] = {"a.test", "b.a.test", "c.b.a.test", "test", "x.org"};
    static const char *const addresses[] = {"1.2.3.4", "1.2.3.5", "2001:db8::7", "10.0.0.1",
                                            "1.2.3.9"};
    static const uint16_t ports[] = {79, 80, 81, 443};
    unsigned yes = 0;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        for (size_t k = 0; k < ARRAY_LEN(texts); k++) {
            struct net_rules inner = short_rules(texts[i]), outer = short_rules(texts[k]);
            bool within = net_rules_within(&inner, &outer, NULL) == 0;
            yes += within;
            // As second rule sets behind one that allows all that there is, so that only they
            // decide.
            struct net_rules all = short_rules("* 0.0.0.0/0 ::/0 10.0.0.1 2001:db8::7");
            const struct net_rules *a[] = {&all, &inner}, *b[] = {&all, &outer};
            for (size_t p = 0; within && p < ARRAY_LEN(ports); p++)
                for (size_t h = 0; h < ARRAY_LEN(hosts) + ARRAY_LEN(addresses); h++) {
                    struct net_decision va, vb;
                    const char *host = h < ARRAY_LEN(hosts) ? hosts[h] : NULL;
                    struct net_address address =
                        short_address(host ? "1.2.3.9" : addresses[h - ARRAY_LEN(hosts)]);
                    net_judge(a, 2, host, &address, ports[p], &va);
                    net_judge(b, 2, host, &address, ports[p], &vb);
                    if (va.reason == NET_ALLOWED && vb.reason != NET_ALLOWED)
                        fail_msg("%s is not within %s", texts[i], texts[k]);
                }
            net_rules_done(&inner);
            net_rules_done(&outer);
            net_rules_done(&all);
        }
    assert_true(yes > ARRAY_LEN(texts));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_are_judged),
        cmocka_unit_test(a_verdict_tells_the_scope),
        cmocka_unit_test(judging_is_fast),
        cmocka_unit_test(requests_are_judged),
        cmocka_unit_test(ports_are_listed),
        cmocka_unit_test(rules_are_within_rules),
        cmocka_unit_test(within_means_what_the_judge_means),
    };
    return cmocka_run_group_tests_name("judge", tests, NULL, NULL);
}
