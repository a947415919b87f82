// SPDX-License-Identifier: Apache-2.0
//
// net/policy: the configuration and the file of --network-file become what each key has.

#include "short_rules.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "failing_malloc.h"
#include "http/door.h"
#include "net/policy.h"
#include "net/proxy.h"

static_assert((int)NET_POLICY_NAME_MAX == (int)DOOR_OWNER_MAX, "the names of keys");

static struct config config;

static int begin(void **state)
{
    (void)state;
    config_init(&config);
    snprintf(config.network_file, sizeof config.network_file, "/etc/net.json");
    return 0;
}

static int file_of(const char *text, size_t length)
{
    int fd = memfd_create("policy", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, length), length); // leaves the offset at the end
    return fd;
}

// With ' for ".
static struct net_policy *load(const char *text, struct err *e)
{
    size_t n = strlen(text);
    char *copy = strdup(text);
    for (char *p = copy; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    int fd = file_of(copy, n);
    struct net_policy *p = net_policy_load(&config, fd, e);
    (void)close(fd);
    free(copy);
    return p;
}

static void check(const struct net_policy *p, const char *key, const char *allow, const char *deny)
{
    const struct net_grant *g = net_policy_of(p, key);
    json_t *o = net_rules_json(&g->rules);
    char *a = json_dumps(json_object_get(o, "allow"), JSON_COMPACT);
    char *d = json_dumps(json_object_get(o, "deny"), JSON_COMPACT);
    if (strcmp(a, allow) != 0 || strcmp(d, deny) != 0)
        fail_msg("'%s' has %s and %s", key ? key : "NULL", a, d);
    free(a);
    free(d);
    json_decref(o);
}

static void the_network_is_on_when_somebody_may(void **state)
{
    (void)state;
    enum { AUTO, ON, OFF };
    static const struct {
        int network;
        const char *hosts, *file;
        bool on;
    } cases[] = {
        {AUTO, "", "", false}, {AUTO, "a.test", "", true},   {AUTO, "", "/x", true},
        {ON, "", "", true},    {OFF, "a.test", "/x", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        config_init(&config);
        config.network = cases[i].network;
        (void)text_list_add(&config.allow_hosts, cases[i].hosts);
        snprintf(config.network_file, sizeof config.network_file, "%s", cases[i].file);
        assert_int_equal(net_is_on(&config), cases[i].on);
    }
    // The words of the table are what the numbers here mean.
    static const struct {
        const char *text;
        bool on;
    } words[] = {{"auto", false}, {"on", true}, {"off", false}, {"true", true}, {"false", false}};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        struct config_origin origin = {.source = CONFIG_FROM_FLAG};
        struct err e;
        config_init(&config);
        if (config_set(&config, CONFIG_KEY_network, words[i].text, origin, &e) == 0)
            assert_int_equal(net_is_on(&config), words[i].on);
        else
            assert_true(i > 2); // not a word of it
    }
}

static void the_configuration_alone_is_the_default(void **state)
{
    (void)state;
    struct err e;
    (void)text_list_add(&config.allow_hosts, "A.test:443");
    (void)text_list_add(&config.deny_hosts, "b.test");
    config.net_sockets = 9;
    struct net_policy *p = net_policy_load(&config, -1, &e);
    assert_non_null(p);
    check(p, "anybody", "[\"a.test:443\"]", "[\"b.test\"]");
    check(p, "", "[\"a.test:443\"]", "[\"b.test\"]");
    check(p, NULL, "[\"a.test:443\"]", "[\"b.test\"]");
    const struct net_grant *g = net_policy_of(p, "x");
    assert_int_equal(g->box.sockets, 9);
    assert_int_equal(g->box.connections, config.net_connections);
    assert_int_equal(g->box.requests, config.net_requests);
    assert_int_equal(g->box.rate, config.net_rate);
    assert_int_equal(g->box.bytes_up, config.net_up_bytes);
    assert_int_equal(g->box.bytes_down, config.net_down_bytes);
    assert_true(g->key.connections == UINT64_MAX && g->key.bytes_down == UINT64_MAX);
    net_policy_free(p);
}

static void keys_have_their_own(void **state)
{
    (void)state;
    struct err e;
    (void)text_list_add(&config.allow_hosts, "config.test");
    (void)text_list_add(&config.deny_hosts, "never.test");
    struct net_policy *p =
        load("{'default': {'deny': ['bad.test'], 'box': {'rate': 5, 'bytes_up': '1M'},"
             "             'key': {'bytes_down': 1000}},"
             " 'keys': {'zoe': {'allow': ['z.test'], 'deny': ['zz.test'], 'box': {'rate': 7}},"
             "          'bob': {},"
             "          'idp:123': {'allow': [{'host': 'j.test', 'methods': ['GET']}],"
             "                      'key': {'connections': 3, 'bytes_down': '1G'}}}}",
             &e);
    if (!p)
        fail_msg("%s", e.message);
    check(p, "somebody", "[\"config.test\"]", "[\"bad.test\",\"never.test\"]");
    check(p, "zoe", "[\"z.test\"]", "[\"zz.test\",\"bad.test\",\"never.test\"]");
    check(p, "bob", "[]", "[\"bad.test\",\"never.test\"]");
    check(p, "idp:123", "[{\"host\":\"j.test\",\"methods\":[\"GET\"]}]",
          "[\"bad.test\",\"never.test\"]");
    check(p, "Zoe", "[\"config.test\"]", "[\"bad.test\",\"never.test\"]");
    assert_int_equal(net_policy_of(p, "zoe")->box.rate, 7);
    assert_int_equal(net_policy_of(p, "bob")->box.rate, 5);
    assert_int_equal(net_policy_of(p, "zoe")->box.bytes_up, 1 << 20);
    assert_int_equal(net_policy_of(p, "zoe")->key.bytes_down, 1000);
    assert_int_equal(net_policy_of(p, "idp:123")->key.bytes_down, 1 << 30);
    assert_int_equal(net_policy_of(p, "idp:123")->key.connections, 3);
    assert_true(net_policy_of(p, "idp:123")->key.rate == UINT64_MAX);
    char name[NET_POLICY_NAME_MAX + 10];
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = '\0';
    assert_ptr_equal(net_policy_of(p, name), net_policy_of(p, "somebody"));
    net_policy_free(p);
    net_policy_free(NULL);
}

static void the_file_replaces_what_the_configuration_allows(void **state)
{
    (void)state;
    struct err e;
    (void)text_list_add(&config.allow_hosts, "config.test");
    struct net_policy *p = load("{'default': {'allow': []}}", &e);
    check(p, "x", "[]", "[]");
    net_policy_free(p);
    p = load("{'default': {'allow': ['a.test']}, 'keys': {}}", &e);
    check(p, "x", "[\"a.test\"]", "[]");
    net_policy_free(p);
    p = load("{}", &e);
    check(p, "x", "[\"config.test\"]", "[]");
    net_policy_free(p);
}

static void off_is_off_but_mistakes_are_told(void **state)
{
    (void)state;
    struct err e;
    config.network = 2;
    struct net_policy *p =
        load("{'default': {'allow': ['a.test']}, 'keys': {'b': {'allow': ['*']}}}", &e);
    assert_non_null(p);
    check(p, "x", "[]", "[]");
    check(p, "b", "[]", "[]");
    net_policy_free(p);
    assert_null(load("{'default': {'allow': ['http://a.test']}}", &e));
}

static void bad_files_are_explained(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message, *hint;
    } cases[] = {
        {"", "line", NULL},
        {"[]", "JSON object", NULL},
        {"{'default': {}, 'default': {}}", "duplicate", NULL},
        {"{'defaults': {}}", "'defaults'", "did you mean 'default'"},
        {"{'default': []}", "default", NULL},
        {"{'default': {'allows': []}}", "default: unknown member 'allows'", "did you mean 'allow'"},
        {"{'default': {'allow': ['a.test', 'http://b.test']}}", "default: allow[1]", "'b.test:80'"},
        {"{'default': {'deny': ['a b']}}", "default: deny[0]", NULL},
        {"{'default': {'box': 1}}", "default: box", NULL},
        {"{'default': {'box': {'rates': 1}}}", "default: box: unknown member 'rates'", "'rate'"},
        {"{'default': {'box': {'rate': 0}}}", "default: box.rate", NULL},
        {"{'default': {'box': {'rate': -1}}}", "default: box.rate", NULL},
        {"{'default': {'box': {'rate': 1.5}}}", "default: box.rate", NULL},
        {"{'default': {'box': {'rate': '5'}}}", "default: box.rate", NULL},
        {"{'default': {'box': {'rate': null}}}", "default: box.rate", NULL},
        {"{'default': {'key': {'bytes_up': '1X'}}}", "default: key.bytes_up", "1G"},
        {"{'default': {'key': {'bytes_up': '0'}}}", "default: key.bytes_up", "1G"},
        {"{'default': {'key': {'bytes_up': 99999999999999999999}}}", "line", NULL},
        {"{'keys': []}", "keys", NULL},
        {"{'keys': {'': {}}}", "keys", NULL},
        {"{'keys': {'bob': []}}", "keys.bob", NULL},
        {"{'keys': {'bob': {'allow': ['a.test', '10.0.0.1/8']}}}", "keys.bob: allow[1]",
         "10.0.0.0/8"},
        {"{'keys': {'bob': {'key': {'sockets': true}}}}", "keys.bob: key.sockets", NULL},
        {"{'keys': {'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa': {}}}",
         "keys", NULL},
        {"{'keys': {'bob': {}, 'bob': {}}}", "duplicate", NULL},
        {"{'default': {'allow': ['a\\u0000b']}}", "line", NULL},
        {"\xff", "line", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = {0};
        struct net_policy *p = load(cases[i].text, &e);
        if (p)
            fail_msg("%s was taken", cases[i].text);
        if (!strstr(e.message, "/etc/net.json") || !strstr(e.message, cases[i].message) ||
            !is_clean(&e) || !e.hint[0] || (cases[i].hint && !strstr(e.hint, cases[i].hint)))
            fail_msg("%s: '%s' / '%s'", cases[i].text, e.message, e.hint);
    }
    struct err e = {0};
    (void)text_list_add(&config.allow_hosts, "a.test,http://b.test");
    assert_null(load("{}", &e));
    assert_non_null(strstr(e.message, "allow[1]"));
    assert_null(strstr(e.message, "net.json"));
    assert_null(net_policy_load(&config, -1, NULL));
}

static void large_files_are_refused(void **state)
{
    (void)state;
    struct err e = {0};
    size_t n = NET_POLICY_FILE_MAX + 1;
    char *text = malloc(n + 1);
    assert_non_null(text);
    memset(text, ' ', n);
    memcpy(text, "{}", 2);
    int fd = file_of(text, n);
    assert_null(net_policy_load(&config, fd, &e));
    assert_non_null(strstr(e.message, "larger"));
    assert_int_equal(ftruncate(fd, NET_POLICY_FILE_MAX), 0);
    struct net_policy *p = net_policy_load(&config, fd, &e);
    assert_non_null(p);
    net_policy_free(p);
    (void)close(fd);
    // Too many keys.
    size_t at = (size_t)snprintf(text, n, "{\"keys\": {");
    for (int i = 0; i <= NET_POLICY_KEYS_MAX; i++)
        at += (size_t)snprintf(text + at, n - at, "%s\"k%d\": {}", i ? ", " : "", i);
    snprintf(text + at, n - at, "}}");
    assert_null(load(text, &e));
    assert_non_null(strstr(e.message, "1025 names"));
    free(text);
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    assert_null(net_policy_load(&config, fds[0], &e)); // no file: an error, and no waiting
    assert_int_equal(e.code, ERR_BAD_CONFIG_FILE);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void many_keys_are_found(void **state)
{
    (void)state;
    struct err e;
    char text[64 * NET_POLICY_KEYS_MAX], want[64], key[16];
    size_t at = (size_t)snprintf(text, sizeof text, "{'keys': {");
    for (int i = 0; i < NET_POLICY_KEYS_MAX; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s'k%d': {'allow': ['h%d.test']}",
                               i ? ", " : "", i, i);
    snprintf(text + at, sizeof text - at, "}}");
    struct net_policy *p = load(text, &e);
    assert_non_null(p);
    for (int i = 0; i < NET_POLICY_KEYS_MAX; i++) {
        snprintf(key, sizeof key, "k%d", i);
        snprintf(want, sizeof want, "[\"h%d.test\"]", i);
        check(p, key, want, "[]");
    }
    net_policy_free(p);
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    static const char text[] =
        "{\"default\": {\"deny\": [\"bad.test\"]}, \"keys\": {\"a\": {\"allow\": [\"a.test\"]}, "
        "\"b\": {\"deny\": [\"b.test\", {\"host\": \"c.test\", \"port\": 1}]}}}";
    (void)text_list_add(&config.allow_hosts, "config.test");
    (void)text_list_add(&config.deny_hosts, "never.test");
    int fd = file_of(text, sizeof text - 1);
    json_set_alloc_funcs(__wrap_malloc, __wrap_free);
    bool failed = true;
    for (long n = 1; failed; n++) {
        struct err e = {0};
        long before = live;
        fail_at = n;
        struct net_policy *p = net_policy_load(&config, fd, &e);
        failed = fail_at == 0;
        fail_at = 0;
        if (failed != (p == NULL))
            fail_msg("allocation %ld", n);
        if (!p)
            assert_true(e.code == ERR_SYSTEM || e.code == ERR_BAD_CONFIG_FILE); // jansson mumbles
        net_policy_free(p);
        assert_int_equal(live, before);
        assert_true(n < 500);
    }
    json_set_alloc_funcs(malloc, free);
    (void)close(fd);
}

#define POLICY_TEST(f) cmocka_unit_test_setup(f, begin)

// What a gate says that the index's pages say: one name each, https alone, and not many.
static void test_hosts_that_are_learned(void **state)
{
    (void)state;
    static const char *const bad[] = {"*:443",
                                      "*.example.org:443",
                                      "files.example.org",
                                      "files.example.org:80",
                                      "files.example.org:1-443",
                                      "192.0.2.1:443",
                                      "192.0.2.0/24:443",
                                      "[2001:db8::1]:443"};
    struct err e;
    struct net_rules rules = {0};
    config.network_file[0] = '\0';
    snprintf(config.index_url, sizeof config.index_url, "http://index.example.org:8080/simple");
    struct net_policy *p = net_policy_load(&config, -1, &e), *next;
    assert_non_null(p);
    const struct net_grant *g = net_policy_of(p, NET_INSTALLER);
    assert_int_equal(g->rules.allow_count, 1);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        json_t *o = json_pack("[s, s]", "files.example.org:443", bad[i]);
        assert_int_equal(net_rules_from_json(o, &rules, &e), 0);
        assert_true(net_policy_learn(p, &rules, &e) < 0);
        assert_int_equal(g->rules.allow_count, 1); // nothing of it
        net_rules_done(&rules);
        json_decref(o);
    }
    for (unsigned round = 0; round < 2; round++)
        for (int i = 0; i <= NET_LEARNED_MAX; i++) {
            json_t *o = json_pack("[s, o]", "index.example.org:8080",
                                  json_sprintf("f%d.example.org:443", i));
            assert_int_equal(net_rules_from_json(o, &rules, &e), 0);
            assert_int_equal(net_policy_learn(p, &rules, &e) == 0, i < NET_LEARNED_MAX);
            net_rules_done(&rules);
            json_decref(o);
        }
    assert_int_equal(g->rules.allow_count, 1 + NET_LEARNED_MAX);
    next = net_policy_load(&config, -1, &e);
    assert_int_equal(net_policy_learn_from(next, p, &e), 0);
    assert_int_equal(net_policy_of(next, NET_INSTALLER)->rules.allow_count, 1 + NET_LEARNED_MAX);
    // No other owner has any of it.
    assert_int_equal(net_policy_of(p, "somebody")->rules.allow_count, 0);
    net_policy_free(next);
    net_policy_free(p);
}

static bool may_install_from(const struct net_policy *p, const char *host, const char *address,
                             uint16_t port)
{
    const struct net_rules *rules = &net_policy_of(p, NET_INSTALLER)->rules;
    struct net_address a;
    struct net_decision v;
    assert_int_equal(net_address_parse(address, &a), 0);
    net_judge(&rules, 1, host, &a, port, &v);
    assert_int_equal(net_names_address(rules, host, &a, port),
                     v.reason == NET_ALLOWED && v.scope != NET_PUBLIC);
    return v.reason == NET_ALLOWED;
}

// The name of the operator's index may lead inside; no other name may, whoever gave it.
static void test_an_index_inside(void **state)
{
    (void)state;
    struct err e;
    struct net_rules rules = {0};
    config.network_file[0] = '\0';
    snprintf(config.index_url, sizeof config.index_url, "https://index.corp.test/simple");
    assert_int_equal(text_list_add(&config.index_hosts, "files.corp.test:8443,*.cdn.test"), 0);
    assert_int_equal(text_list_add(&config.allow_urls, "urls.corp.test"), 0);
    struct net_policy *p = net_policy_load(&config, -1, &e);
    assert_non_null(p);
    json_t *o = json_pack("[s]", "learned.corp.test:443");
    assert_int_equal(net_rules_from_json(o, &rules, &e), 0);
    assert_int_equal(net_policy_learn(p, &rules, &e), 0);
    net_rules_done(&rules);
    json_decref(o);
    static const char *const inside[] = {"10.0.0.7", "127.0.0.1", "192.168.1.1", "203.0.113.80",
                                         "fd00::7"};
    for (size_t i = 0; i < ARRAY_LEN(inside); i++) {
        assert_true(may_install_from(p, "index.corp.test", inside[i], 443));
        assert_true(may_install_from(p, "files.corp.test", inside[i], 8443));
        assert_false(may_install_from(p, "index.corp.test", inside[i], 80));
        assert_false(may_install_from(p, "files.corp.test", inside[i], 443));
        assert_false(may_install_from(p, "a.cdn.test", inside[i], 443));
        assert_false(may_install_from(p, "urls.corp.test", inside[i], 443));
        assert_false(may_install_from(p, "learned.corp.test", inside[i], 443));
        assert_false(may_install_from(p, NULL, inside[i], 443));
    }
    static const char *const never[] = {"169.254.169.254", "0.0.0.0", "224.0.0.1", "fd00:ec2::254"};
    for (size_t i = 0; i < ARRAY_LEN(never); i++)
        assert_false(may_install_from(p, "index.corp.test", never[i], 443));
    net_policy_free(p);
}

// Without an index of the operator's nothing is open until it is known which one pip asks.
static void test_no_index_is_no_host(void **state)
{
    (void)state;
    struct err e;
    config.network_file[0] = '\0';
    struct net_policy *p = net_policy_load(&config, -1, &e);
    assert_int_equal(net_policy_of(p, NET_INSTALLER)->rules.allow_count, 0);
    net_policy_free(p);
    snprintf(config.index_url, sizeof config.index_url, "https://me:hunter2@index.example.org/");
    assert_null(net_policy_load(&config, -1, &e));
    assert_null(strstr(e.message, "hunter2"));
    assert_non_null(strstr(e.message, "credentials"));
}

static void test_proxies(void **state)
{
    (void)state;
    static const struct {
        const char *url, *host;
        unsigned port;
        const char *login;
    } good[] = {
        {"http://proxy.example.org:3128", "proxy.example.org", 3128, ""},
        {"http://proxy.example.org/", "proxy.example.org", 80, ""},
        {"http://a:b@192.0.2.1:8080", "192.0.2.1", 8080, "Basic YTpi"},
        {"http://a:%40@b@proxy.example.org:1", "proxy.example.org", 1,
         "Basic YTpAQGI="}, // the last one
        {"http://[2001:db8::1]:3128", "2001:db8::1", 3128, ""},
        {"http://[2001:db8::1]", "2001:db8::1", 80, ""},
    };
    static const char *const bad[] = {"",
                                      "proxy.example.org",
                                      "https://proxy.example.org",
                                      "http://",
                                      "http://:80",
                                      "http://x:0",
                                      "http://x:65536",
                                      "http://x:",
                                      "http://x:1x",
                                      "http://x/path",
                                      "http://[2001:db8::1",
                                      "http://hunter2:%0ax@y:1",
                                      "http://hunter2@"};
    struct net_proxy p;
    struct err e;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_int_equal(net_proxy_parse(good[i].url, &p, &e), 0);
        assert_string_equal(p.host, good[i].host);
        assert_int_equal(p.port, good[i].port);
        assert_string_equal(p.login, good[i].login);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (net_proxy_parse(bad[i], &p, &e) == 0)
            fail_msg("%s was taken", bad[i]);
        assert_null(strstr(e.message, "hunter2"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        POLICY_TEST(the_network_is_on_when_somebody_may),
        POLICY_TEST(the_configuration_alone_is_the_default),
        POLICY_TEST(keys_have_their_own),
        POLICY_TEST(the_file_replaces_what_the_configuration_allows),
        POLICY_TEST(off_is_off_but_mistakes_are_told),
        POLICY_TEST(bad_files_are_explained),
        POLICY_TEST(large_files_are_refused),
        POLICY_TEST(many_keys_are_found),
        POLICY_TEST(no_memory_is_an_error),
        cmocka_unit_test_setup(test_hosts_that_are_learned, begin),
        cmocka_unit_test_setup(test_no_index_is_no_host, begin),
        cmocka_unit_test_setup(test_an_index_inside, begin),
        cmocka_unit_test(test_proxies),
    };
    return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
