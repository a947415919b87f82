// SPDX-License-Identifier: Apache-2.0
//
// net/rules: what can be written as a rule and what is said about the rest, back to JSON; and every
// allocation failing once.

#include "short_rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "failing_malloc.h"

// ---- helpers
// -------------------------------------------------------------------------------------

static json_t *json(const char *text)
{
    json_error_t fault;
    json_t *o = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &fault);
    if (!o)
        fail_msg("%s: %s", text, fault.text);
    return o;
}

// Of JSON with ' for ".
static struct net_rules rules(const char *text)
{
    char copy[4096];
    struct net_rules r;
    struct err e;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *p = copy; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    json_t *o = json(copy);
    if (net_rules_from_json(o, &r, &e) < 0)
        fail_msg("%s: %s", text, e.message);
    json_decref(o);
    return r;
}

// ---- names --------------------------------------------------------------------------------------

#define A63 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define A61 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define NAME253 A63 "." A63 "." A63 "." A61

static void names_have_one_spelling(void **state)
{
    (void)state;
    static const struct {
        const char *text, *name; // NULL: refused
    } cases[] = {
        {"example.org", "example.org"},
        {"Example.ORG", "example.org"},
        {"example.org.", "example.org"},
        {"localhost", "localhost"},
        {"_dmarc.example.org", "_dmarc.example.org"},
        {"a_b.example.org", "a_b.example.org"},
        {"a--b.example.org", "a--b.example.org"},
        {"r3---x.example.org", "r3---x.example.org"},
        {"1.example", "1.example"},
        {"3d.test", "3d.test"},
        {"b\xc3\xbc"
         "cher.test",
         "xn--bcher-kva.test"},
        {"B\xc3\x9c"
         "CHER.test",
         "xn--bcher-kva.test"},
        {"b"
         "u\xcc\x88"
         "cher.test",
         "xn--bcher-kva.test"}, // not composed
        {"xn--bcher-kva.test", "xn--bcher-kva.test"},
        {"XN--BCHER-KVA.test", "xn--bcher-kva.test"},
        {"fa\xc3\x9f.test", "xn--fa-hia.test"},           // not transitional: not fass
        {"\xe4\xbe\x8b\xe3\x80\x82test", "xn--fsq.test"}, // an ideographic full stop
        {"\xe4\xbe\x8b.test.", "xn--fsq.test"},
        {"\xef\xbc\xa5xample.test", "example.test"}, // full width
        {A63 ".org", A63 ".org"},
        {NAME253, NAME253},
        {NAME253 ".", NAME253},
        {NAME253 "a", NULL},
        {A63 "." A63 "." A63 "." A63, NULL}, // 255
        {A63 "a.org", NULL},
        {"", NULL},
        {".", NULL},
        {"..", NULL},
        {"example.org..", NULL},
        {".example.org", NULL},
        {"a..b", NULL},
        {"-a.org", NULL},
        {"a-.org", NULL},
        {"a.-b.org", NULL},
        {"a b.org", NULL},
        {" a.org", NULL},
        {"a.org\n", NULL},
        {"a.org\r\nX: y", NULL},
        {"a\tb", NULL},
        {"a\x7f", NULL},
        {"a\x80", NULL},
        {"a\xff.org", NULL},
        {"a*b.org", NULL},
        {"*.a.org", NULL},
        {"a:80", NULL},
        {"a/b", NULL},
        {"a@b", NULL},
        {"a%62", NULL},
        {"[::1]", NULL},
        {"::1", NULL},
        {"127.0.0.1", NULL},
        {"127.0.0.1.", NULL},
        {"127.1", NULL},
        {"2130706433", NULL},
        {"0x7f.1", NULL},
        {"0X7F000001", NULL},
        {"0177.0.0.1", NULL},
        {"\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1", NULL}, // full width 127
        {"a.\xef\xbc\x91", NULL},
        {"\xe2\x84\x80.test", NULL}, // a/c
        {"a\xef\xbc\x8f"
         "b.test",
         NULL}, // full width slash
        {"a\xef\xbc\xa0"
         "b.test",
         NULL}, // full width @
        {"a\xc2\xa0"
         "b.test",
         NULL}, // no-break space
        {"xn--a", NULL},
        {"xn--.test", NULL},
        {"xn--bcher-kva-.test", NULL},
        {"xn--example.test", NULL},
        {"\xf0\x9f\x92\xa9\xe2\x80\x8d.test", NULL}, // a joiner where none may be
        {"\xe2\x80\xae.test", NULL},                 // right to left
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char name[NET_HOST_MAX + 1] = "untouched";
        struct err e;
        int r = net_host_normalise(cases[i].text, strlen(cases[i].text), name, &e);
        if ((r == 0) != (cases[i].name != NULL))
            fail_msg("row %zu, '%s' gave %d, %s", i, cases[i].text, r, r ? e.message : name);
        if (r == 0)
            assert_string_equal(name, cases[i].name);
        else if (!is_clean(&e) || !e.hint[0] || strcmp(name, "untouched") != 0)
            fail_msg("row %zu: '%s' / '%s'", i, e.message, e.hint);
        if (r == 0) { // a normal form stays as it is
            char again[NET_HOST_MAX + 1];
            assert_int_equal(net_host_normalise(name, strlen(name), again, &e), 0);
            assert_string_equal(again, name);
        }
    }
    char name[NET_HOST_MAX + 1];
    struct err e;
    assert_int_equal(net_host_normalise("a.org\0.evil", 11, name, &e), -1);
    assert_non_null(strstr(e.message, "NUL"));
    assert_int_equal(net_host_normalise("a.orgXYZ", 5, name, &e), 0); // not terminated
    assert_string_equal(name, "a.org");
    assert_int_equal(net_host_normalise("a", 1, name, NULL), 0);
    assert_int_equal(net_host_normalise("", 0, name, NULL), -1);
}

// ---- rules --------------------------------------------------------------------------------------

static void rules_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text, *back; // with ' for "; NULL: the same
    } cases[] = {
        {"'api.example.org'", NULL},
        {"'API.Example.org.:443'", "'api.example.org:443'"},
        {"'a.test:1'", NULL},
        {"'a.test:65535'", NULL},
        {"'a.test:1-65535'", "'a.test'"},
        {"'a.test:80-80'", "'a.test:80'"},
        {"'a.test:8000-8010'", NULL},
        {"'*'", NULL},
        {"'*:443'", NULL},
        {"'*.org'", NULL},
        {"'*.Example.org:80'", "'*.example.org:80'"},
        {"'*.b\\u00fccher.test'", "'*.xn--bcher-kva.test'"},
        {"'192.0.2.7'", NULL},
        {"'192.0.2.7:443'", NULL},
        {"'::ffff:192.0.2.7'", "'192.0.2.7'"},
        {"'[::ffff:192.0.2.7]:80'", "'192.0.2.7:80'"},
        {"'2001:db8::7'", NULL},
        {"'2001:DB8:0::7'", "'2001:db8::7'"},
        {"'[2001:db8::7]'", "'2001:db8::7'"},
        {"'[2001:db8::7]:443'", NULL},
        {"'[2001:db8::7]:443-444'", NULL},
        {"'192.0.2.0/24'", NULL},
        {"'192.0.2.0/24:443'", NULL},
        {"'192.0.2.7/32'", NULL},
        {"'0.0.0.0/0'", NULL},
        {"'::/0'", NULL},
        {"'2001:db8::/32'", NULL},
        {"'[2001:db8::/32]:443'", NULL},
        {"'::ffff:10.0.0.0/104'", "'10.0.0.0/8'"},
        {"{'host': 'A.test'}", "'a.test'"},
        {"{'host': 'a.test', 'port': 80}", "'a.test:80'"},
        {"{'host': 'a.test', 'port': '80-90'}", "'a.test:80-90'"},
        {"{'host': 'a.test', 'port': '1-65535'}", "'a.test'"},
        {"{'host': '192.0.2.0/24', 'port': 80}", "'192.0.2.0/24:80'"},
        {"{'host': '2001:db8::7', 'port': 80}", "'[2001:db8::7]:80'"},
        {"{'host': 'a.test:80', 'methods': ['GET', 'M-SEARCH'], 'paths': ['/v1/*', '*.js', "
         "'/%7ea/%c3']}",
         "{'host': 'a.test', 'port': 80, 'methods': ['GET', 'M-SEARCH'], "
         "'paths': ['/v1/*', '*.js', '/~a/%C3']}"},
        {"{'host': '*', 'port': '80-81', 'paths': ['/']}", NULL},
        {"{'host': '2001:db8::7', 'port': 80, 'methods': ['GET']}", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[600], back[600];
        snprintf(text, sizeof text, "[%s]", cases[i].text);
        struct net_rules r = rules(text);
        json_t *o = net_rules_json(&r);
        char *got = json_dumps(json_array_get(json_object_get(o, "allow"), 0), JSON_ENCODE_ANY);
        snprintf(back, sizeof back, "%s", cases[i].back ? cases[i].back : cases[i].text);
        for (char *p = back; *p; p++)
            *p = *p == '\'' ? '"' : *p;
        if (strcmp(got, back) != 0)
            fail_msg("%s became %s", cases[i].text, got);
        assert_int_equal(r.allow_count, 1);
        assert_int_equal(r.deny_count, 0);
        assert_null(r.deny);
        // What comes out goes in again.
        struct net_rules again;
        struct err e;
        assert_int_equal(net_rules_from_json(o, &again, &e), 0);
        json_t *same = net_rules_json(&again);
        assert_true(json_equal(o, same));
        json_decref(o);
        json_decref(same);
        free(got);
        net_rules_done(&r);
        net_rules_done(&again);
    }
}

static void bad_rules_are_explained(void **state)
{
    (void)state;
    static const struct {
        const char *text;           // with ' for "
        const char *message, *hint; // parts of them; NULL: something
    } cases[] = {
        {"['']", "allow[0]", "api.example.org"},
        {"['a.test', 'b.test', 'c..test']", "allow[2]: 'c..test'", NULL},
        {"{'deny': ['a.test', 'http://b.test']}", "deny[1]", "'b.test:80'"},
        {"['https://api.example.org/v1?x=1']", "scheme", "'api.example.org:443'"},
        {"['HTTPS://u:p@api.example.org:8443/v1']", "scheme", "'api.example.org:8443'"},
        {"['ftp://a.test']", "scheme", "'a.test'"},
        {"['//a.test']", "path", NULL},
        {"['user@a.test']", "user name", "'a.test'"},
        {"['a.test@b.test:80']", "user name", "'b.test:80'"},
        {"['a.test/v1']", "path", "'a.test'"},
        {"['a.test:80/v1']", "path", "'a.test:80'"},
        {"['a.test/24']", "path", NULL},
        {"['a.test?x']", "path", "'a.test'"},
        {"['a.test#x']", "path", "'a.test'"},
        {"['a.test\\\\b']", "path", "'a.test'"},
        {"['a.test\\r\\nHost: b']", "line break", NULL},
        {"['a.test\\n']", "line break", NULL},
        {"['a.test\\u0000b']", "NUL", NULL},
        {"['a test']", "blank", NULL},
        {"[' a.test']", "blank", NULL},
        {"['a\\ttest']", "tab", NULL},
        {"['a\\u001btest']", "control", NULL},
        {"['a.test:']", "no port", NULL},
        {"['a.test:0']", "port", "1 to 65535"},
        {"['a.test:65536']", "port", "1 to 65535"},
        {"['a.test:99999999999999999999']", "port", NULL},
        {"['a.test:080']", "port", NULL},
        {"['a.test:-1']", "port", NULL},
        {"['a.test:+80']", "port", NULL},
        {"['a.test:80-']", "port", NULL},
        {"['a.test:80-70']", "'a.test:80-70': '80-70' is a range", "'70-80'"},
        {"['a.test:1-2-3']", "port", NULL},
        {"['a.test:http']", "port", NULL},
        {"['a.test:443:443']", "neither", NULL},
        {"[':80']", "allow[0]", NULL},
        {"['[::1']", "']'", NULL},
        {"['::1]']", "'['", NULL},
        {"['[::1]x']", "after the ']'", NULL},
        {"['[::1]/128']", "after the ']'", NULL},
        {"['[::1]:']", "no port", NULL},
        {"['[a.test]:80']", "neither", NULL},
        {"['[192.0.2.7]:80']", "neither", NULL},
        {"['fe80::1%eth0']", "'%'", "zone"},
        {"['[fe80::1%25eth0]:80']", "'%'", "zone"},
        {"['10.0.0.1/33']", "network", "0 to 32"},
        {"['10.0.0.0/']", "network", NULL},
        {"['10.0.0.0/08']", "network", NULL},
        {"['10.0.0.0/-1']", "network", NULL},
        {"['10.0.0.0/8/8']", "network", NULL},
        {"['10.0.0.1/8']", "bits", "'10.0.0.0/8'"},
        {"['192.0.2.7/24']", "bits", "'192.0.2.0/24'"},
        {"['2001:db8::7/32']", "bits", "'2001:db8::/32'"},
        {"['2001:db8::/129']", "network", "0 to 128"},
        {"['::ffff:0:0/80']", "bits", NULL},
        {"['2130706433']", "address", "'127.0.0.1'"},
        {"['0x7f.1']", "address", "'127.0.0.1'"},
        {"['0x7f000001:80']", "address", "'127.0.0.1'"},
        {"['0177.0.0.1']", "address", "'127.0.0.1'"},
        {"['127.1']", "address", "'127.0.0.1'"},
        {"['1.2.3.4.']", "address", "'1.2.3.4'"},
        {"['1.2.3.4.:80']", "address", NULL},
        {"['1.2.3.256']", "address", NULL},
        {"['*.127.1']", "address", NULL},
        {"['a.*.test']", "'*'", "*.example.org"},
        {"['*a.test']", "'*'", "*.example.org"},
        {"['a*']", "'*'", NULL},
        {"['**']", "'*'", NULL},
        {"['*.*.test']", "'*'", NULL},
        {"['*.']", "empty", NULL},
        {"['*..test']", "empty", NULL},
        {"['.test']", "empty", "*.example.org"},
        {"['-a.test']", "'-'", NULL},
        {"['xn--a.test']", "IDNA", NULL},
        {"[1]", "a number", NULL},
        {"[null]", "null", NULL},
        {"[true]", "true or false", NULL},
        {"[['a.test']]", "a list", NULL},
        {"[{}]", "no host", NULL},
        {"[{'host': 1}]", "host", NULL},
        {"[{'host': 'a.test', 'ports': 80}]", "'ports'", "did you mean 'port'"},
        {"[{'host': 'a.test', 'method': ['GET']}]", "'method'", "did you mean 'methods'"},
        {"[{'host': 'a.test', 'zzzzzzz': 1}]", "'zzzzzzz'", "host, port, methods, paths"},
        {"[{'host': 'a.test', 'port': 0}]", "port", NULL},
        {"[{'host': 'a.test', 'port': 65536}]", "port", NULL},
        {"[{'host': 'a.test', 'port': 80.5}]", "port", NULL},
        {"[{'host': 'a.test', 'port': '80-70'}]", "port", "'70-80'"},
        {"[{'host': 'a.test', 'port': ''}]", "port", NULL},
        {"[{'host': 'a.test', 'port': null}]", "port", NULL},
        {"[{'host': 'a.test:80', 'port': 80}]", "both", NULL},
        {"[{'host': 'http://a.test'}]", "scheme", NULL},
        {"[{'host': 'a.test', 'methods': 'GET'}]", "methods", NULL},
        {"[{'host': 'a.test', 'methods': []}]", "methods", NULL},
        {"[{'host': 'a.test', 'methods': ['GET', 'get']}]", "methods[1]", "capitals"},
        {"[{'host': 'a.test', 'methods': ['G T']}]", "methods[0]", NULL},
        {"[{'host': 'a.test', 'methods': ['']}]", "methods[0]", NULL},
        {"[{'host': 'a.test', 'methods': [1]}]", "methods[0]", NULL},
        {"[{'host': 'a.test', 'methods': ['AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA']}]", "methods[0]",
         NULL},
        {"[{'host': 'a.test', 'methods': "
         "['A','A','A','A','A','A','A','A','A','A','A','A','A','A','A','A','A']}]",
         "more than 16", NULL},
        {"[{'host': 'a.test', 'paths': []}]", "paths", NULL},
        {"[{'host': 'a.test', 'paths': ['v1']}]", "paths[0]", NULL},
        {"[{'host': 'a.test', 'paths': ['']}]", "paths[0]", NULL},
        {"[{'host': 'a.test', 'paths': ['/a/../b']}]", "paths[0]", NULL},
        {"[{'host': 'a.test', 'paths': ['/a//b']}]", "two slashes", NULL},
        {"[{'host': 'a.test', 'paths': ['/a?b']}]", "paths[0]", "query"},
        {"[{'host': 'a.test', 'paths': ['/a%2fb']}]", "paths[0]", NULL},
        {"[{'host': 'a.test', 'paths': ['/a%zz']}]", "paths[0]", NULL},
        {"[{'host': 'a.test', 'paths': ['/a b']}]", "paths[0]", NULL},
        {"[{'host': 'a.test', 'paths': ['/\\u00fc']}]", "paths[0]", NULL},
        {"{'deny': [{'host': 'a.test', 'methods': ['GET']}]}", "deny[0]", NULL},
        {"{'allows': ['a.test']}", "'allows'", "did you mean 'allow'"},
        {"{'allow': 'a.test'}", "allow", "["},
        {"{'allow': {'host': 'a.test'}}", "allow", NULL},
        {"{'deny': null}", "deny", NULL},
        {"'a.test'", "'a.test'", "\"off\""},
        {"'on'", "'on'", "\"off\""},
        {"'OFF'", "'OFF'", "\"off\""},
        {"'off\\u0000'", "off", NULL},
        {"true", "true", "\"off\""},
        {"null", "null", NULL},
        {"7", "number", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[600];
        struct net_rules r = {.allow_count = 77};
        struct err e = {0};
        long before = live;
        snprintf(text, sizeof text, "%s", cases[i].text);
        for (char *p = text; *p; p++)
            *p = *p == '\'' ? '"' : *p;
        json_t *o = json(text);
        if (net_rules_from_json(o, &r, &e) >= 0)
            fail_msg("%s was taken", cases[i].text);
        json_decref(o);
        assert_int_equal(live, before);
        assert_int_equal(r.allow_count, 77); // untouched
        if (!is_clean(&e) || !e.hint[0] || e.code != ERR_BAD_VALUE ||
            (cases[i].message && !strstr(e.message, cases[i].message)) ||
            (cases[i].hint && !strstr(e.hint, cases[i].hint)))
            fail_msg("%s: '%s' / '%s'", cases[i].text, e.message, e.hint);
    }
}

static void nothing_is_allowed_by_off(void **state)
{
    (void)state;
    static const char *const texts[] = {"'off'", "false", "[]", "{}", "{'allow': []}"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct net_rules r = rules(texts[i]);
        assert_int_equal(r.allow_count + r.deny_count, 0);
        assert_null(r.allow);
        net_rules_done(&r);
    }
}

static void large_input_is_refused_fast(void **state)
{
    (void)state;
    enum { TEN_MB = 10 << 20 };
    static const char fills[] = {'a', '.', '*', ':', '[', '%', '/', '@', '\n', '\xff', '\xc3'};
    char *text = malloc(TEN_MB);
    assert_non_null(text);
    struct timespec begin, end;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    for (size_t i = 0; i < sizeof fills; i++) {
        char name[NET_HOST_MAX + 1];
        struct net_rule r;
        struct err e;
        memset(text, fills[i], TEN_MB);
        assert_true(net_host_normalise(text, TEN_MB, name, &e) < 0 && is_clean(&e));
        assert_true(net_rule_parse_text(&r, text, TEN_MB, &e) < 0 && is_clean(&e));
        // The longest that is looked at.
        assert_true(net_host_normalise(text, NET_NAME_MAX, name, &e) < 0 && is_clean(&e));
        assert_true(net_rule_parse_text(&r, text, NET_NAME_MAX, &e) < 0 && is_clean(&e));
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true(end.tv_sec - begin.tv_sec < 5);
    free(text);
    json_t *list = json_array();
    struct net_rules r;
    struct err e;
    for (int i = 0; i < NET_RULES_MAX; i++)
        (void)json_array_append_new(list, json_string("a.test"));
    assert_int_equal(net_rules_from_json(list, &r, &e), 0);
    net_rules_done(&r);
    (void)json_array_append_new(list, json_string("a.test"));
    assert_true(net_rules_from_json(list, &r, &e) < 0);
    assert_non_null(strstr(e.message, "257 rules"));
    json_decref(list);
}

static void lists_of_the_configuration_are_read(void **state)
{
    (void)state;
    struct text_list allow = {0}, deny = {0};
    struct net_rules r;
    struct err e;
    assert_int_equal(text_list_add(&allow, "A.test:443,[2001:db8::7]:80,*"), 0);
    assert_int_equal(text_list_add(&deny, "b.test"), 0);
    assert_int_equal(net_rules_from_lists(&allow, &deny, &r, &e), 0);
    assert_int_equal(r.allow_count, 3);
    assert_int_equal(r.deny_count, 1);
    net_rules_done(&r);
    assert_int_equal(net_rules_from_lists(&allow, NULL, &r, &e), 0);
    assert_int_equal(r.deny_count, 0);
    net_rules_done(&r);
    net_rules_done(&r);
    assert_int_equal(text_list_add(&deny, "http://c.test"), 0);
    assert_true(net_rules_from_lists(&allow, &deny, &r, &e) < 0);
    assert_non_null(strstr(e.message, "deny[1]"));
}

static void rules_are_described(void **state)
{
    (void)state;
    char buf[64];
    struct net_rules r = rules("['a.test:443', '*.b.test']");
    net_rules_describe(&r, buf, sizeof buf);
    assert_string_equal(buf, "a.test:443, *.b.test");
    net_rules_done(&r);
    r = rules("['a.test:443', '*.b.test', 'c.test', 'd.test', 'long-long-name.test', 'e.test']");
    net_rules_describe(&r, buf, sizeof buf);
    assert_string_equal(buf, "a.test:443, *.b.test, c.test, d.test and 2 more");
    for (size_t cap = 0; cap < sizeof buf; cap++) {
        memset(buf, 'x', sizeof buf);
        net_rules_describe(&r, buf, cap);
        assert_true(cap == 0 || strnlen(buf, cap) < cap);
        assert_int_equal(buf[cap], 'x');
    }
    net_rules_done(&r);
    net_rules_describe(&r, buf, sizeof buf);
    assert_string_equal(buf, "nothing");
}

// ---- random -------------------------------------------------------------------------------------

static const char *pick(const char *const *from, size_t n)
{
    return from[(size_t)random() % n];
}

// A random text of pieces that rules are made of: most are bad, and some are not.
static void make_text(char *buf, size_t cap)
{
    static const char *const pieces[] = {
        "a",  "b.test",   ".",    "*", "*.", ":", "80", "-", "443", "1.2.3.4", "/", "24", "[", "]",
        "::", "2001:db8", "xn--", "_", "0x", "%", "@",  "A", "8-9", "\xc3\xbc"};
    size_t n = 0;
    buf[0] = '\0';
    for (long i = random() % 5; i >= 0 && n < cap; i--)
        n += (size_t)snprintf(buf + n, cap - n, "%s", pick(pieces, ARRAY_LEN(pieces)));
}

static void random_rules_come_back(void **state)
{
    (void)state;
    srandom(5);
    unsigned taken = 0;
    for (int i = 0; i < 100000; i++) {
        char text[64];
        struct net_rules r, again;
        struct err e;
        make_text(text, sizeof text);
        json_t *o = json_pack("{s:[s]}", random() % 2 ? "allow" : "deny", text);
        assert_non_null(o);
        if (net_rules_from_json(o, &r, &e) < 0) {
            assert_true(is_clean(&e) && e.hint[0]);
            json_decref(o);
            continue;
        }
        taken++;
        json_t *out = net_rules_json(&r);
        assert_int_equal(net_rules_from_json(out, &again, &e), 0);
        json_t *second = net_rules_json(&again);
        if (!json_equal(out, second))
            fail_msg("%s is not stable", text);
        // The same rules are within each other.
        assert_int_equal(net_rules_within(&r, &again, &e), 0);
        assert_int_equal(net_rules_within(&again, &r, &e), 0);
        json_decref(o);
        json_decref(out);
        json_decref(second);
        net_rules_done(&r);
        net_rules_done(&again);
    }
    assert_true(taken > 1000);
}

// ---- faults -------------------------------------------------------------------------------------

static void no_memory_is_an_error(void **state)
{
    (void)state;
    json_t *o = json(
        "{\"allow\": [\"a.test\", {\"host\": \"b.test\", \"port\": 80, \"methods\": [\"GET\"], "
        "\"paths\": [\"/a\", \"/b\"]}, \"10.0.0.0/8\"], \"deny\": [\"c.test\"]}");
    struct net_rules more = short_rules("!a.test !1.2.3.0/24:80");
    bool failed = true;
    for (long n = 1; failed; n++) {
        struct net_rules r = {0};
        struct err e = {0};
        long before = live;
        fail_at = n;
        int bad = net_rules_from_json(o, &r, &e);
        if (bad == 0)
            bad = net_rules_add_deny(&r, &more);
        failed = fail_at == 0;
        fail_at = 0;
        assert_int_equal(bad < 0, failed);
        assert_true(bad == 0 || bad == -ENOMEM);
        net_rules_done(&r);
        assert_int_equal(live, before);
        assert_true(n < 100);
    }
    net_rules_done(&more);
    json_decref(o);
}

static void no_memory_for_json_is_null(void **state)
{
    (void)state;
    struct net_rules r =
        rules("{'allow': ['a.test', {'host': 'b.test', 'port': '80-81', 'methods': ['GET'], "
              "'paths': ['/a']}], 'deny': ['c.test']}");
    json_set_alloc_funcs(__wrap_malloc, __wrap_free);
    bool failed = true;
    for (long n = 1; failed; n++) {
        long before = live;
        fail_at = n;
        json_t *o = net_rules_json(&r);
        failed = fail_at == 0;
        fail_at = 0;
        assert_int_equal(o == NULL, failed);
        json_decref(o);
        assert_int_equal(live, before);
        assert_true(n < 200);
    }
    json_set_alloc_funcs(malloc, free);
    net_rules_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_have_one_spelling),
        cmocka_unit_test(rules_are_read),
        cmocka_unit_test(bad_rules_are_explained),
        cmocka_unit_test(nothing_is_allowed_by_off),
        cmocka_unit_test(large_input_is_refused_fast),
        cmocka_unit_test(lists_of_the_configuration_are_read),
        cmocka_unit_test(rules_are_described),
        cmocka_unit_test(random_rules_come_back),
        cmocka_unit_test(no_memory_is_an_error),
        cmocka_unit_test(no_memory_for_json_is_null),
    };
    return cmocka_run_group_tests_name("rules", tests, NULL, NULL);
}
