// SPDX-License-Identifier: Apache-2.0
//
// code_policy: the configuration and a call become one policy, which is never wider than the
// former.

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "config/code_policy.h"
#include "net/policy.h"

static struct config config;

static int begin(void **state)
{
    (void)state;
    config_init(&config);
    return 0;
}

static void set(enum config_key key, const char *text)
{
    struct err e;
    assert_int_equal(
        config_set(&config, key, text, (struct config_origin){.source = CONFIG_FROM_FLAG}, &e), 0);
}

// With ' for ".  NULL: nothing is applied.
static void check(const char *mode, const char *imports, bool always, const char *want)
{
    struct err e = {0};
    json_t *list = imports ? json_loads(imports, 0, NULL) : NULL, *got = NULL;
    assert_int_equal(code_policy_make(&config, mode, list, false, always, &got, &e), 0);
    char *text = got ? json_dumps(got, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    for (char *p = text; p && *p; p++)
        *p = *p == '"' ? '\'' : *p;
    if (want)
        assert_string_equal(text ? text : "(nothing)", want);
    else
        assert_null(text);
    free(text);
    json_decref(list);
    json_decref(got);
}

static void check_refused(const char *mode, const char *imports, const char *word)
{
    struct err e = {0};
    json_t *list = imports ? json_loads(imports, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL) : NULL,
           *got = NULL;
    assert_true(!imports || list);
    assert_true(code_policy_make(&config, mode, list, false, true, &got, &e) < 0);
    assert_null(got);
    assert_int_equal(e.code, ERR_BAD_VALUE);
    assert_non_null(strstr(e.message, word));
    assert_true(e.hint[0]);
    json_decref(list);
}

static void test_open(void **state)
{
    (void)state;
    check(NULL, NULL, false, NULL);
    check("open", NULL, false, NULL);
    check(NULL, NULL, true, "{'mode':'open'}");
    check("guarded", NULL, false, "{'mode':'guarded','tiers':['basic']}");
    check("restricted", NULL, false, "{'mode':'restricted','tiers':['basic']}");
    // A list is there to be applied, and an open server bounds it by nothing.
    check(NULL, "[\"os\"]", false, "{'allowed_imports':['os'],'mode':'guarded'}");
    check(NULL, "[]", false, "{'allowed_imports':[],'mode':'guarded'}");
    check_refused("open", "[\"os\"]", "no effect");
}

static void test_configured(void **state)
{
    (void)state;
    set(CONFIG_KEY_policy, "guarded");
    check(NULL, NULL, false, "{'mode':'guarded','tiers':['basic']}");
    check(NULL, "[\"os\"]", false, "{'allowed_imports':['os'],'mode':'guarded','tiers':['basic']}");
    check("restricted", NULL, false, "{'mode':'restricted','tiers':['basic']}");
    check_refused("open", NULL, "weaker");
    set(CONFIG_KEY_policy, "restricted");
    check_refused("guarded", NULL, "weaker");
    check_refused("lax", NULL, "unknown policy");
}

static void test_tiers(void **state)
{
    (void)state;
    set(CONFIG_KEY_enable_filesystem, "true");
    assert_int_equal(code_policy_mode(&config), CODE_OPEN); // it only adds
    check("guarded", NULL, false, "{'mode':'guarded','tiers':['basic','filesystem']}");
    set(CONFIG_KEY_tiers, "data_science,network");
    assert_int_equal(code_policy_mode(&config), CODE_GUARDED);
    check(NULL, NULL, false, "{'mode':'guarded','tiers':['data_science','network','filesystem']}");
    set(CONFIG_KEY_allowed_imports, "os, numpy");
    check(NULL, NULL, false, "{'mode':'guarded','override':['os','numpy']}");
    check(NULL, "[\"os\"]", false,
          "{'allowed_imports':['os'],'mode':'guarded','override':['os','numpy']}");
}

// Without the tier there is no network, whichever hosts are allowed.
static void test_network(void **state)
{
    (void)state;
    set(CONFIG_KEY_allow_hosts, "example.org:443");
    assert_true(net_is_on(&config));
    set(CONFIG_KEY_policy, "guarded");
    assert_true(net_is_on(&config)); // no tiers are named: they follow
    check(NULL, NULL, false, "{'mode':'guarded','tiers':['basic','network']}");
    set(CONFIG_KEY_tiers, "basic");
    assert_true(code_policy_shuts_network(&config));
    assert_false(net_is_on(&config));
    check(NULL, NULL, false, "{'mode':'guarded','tiers':['basic']}");
    set(CONFIG_KEY_network, "on");
    assert_true(net_is_on(&config));
    set(CONFIG_KEY_policy, "open");
    set(CONFIG_KEY_network, "auto");
    assert_true(net_is_on(&config));
}

static void test_bad_imports(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "[\"\"]",    "[\"a b\"]",      "[\".a\"]",   "[\"a.\"]",    "[\"a..b\"]",
        "[\"1a\"]",  "[\"a\", 1]",     "[\"*\"]",    "[\"a.*.b\"]", "[\".*\"]",
        "[\"a-b\"]", "[\"a\\u0000\"]", "{\"a\": 1}", "\"os\"",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        check_refused(NULL, bad[i], "allowed_imports");
    check(NULL, "[\"os.path\", \"_x\", \"a.*\", \"caf\u00e9\"]", false,
          "{'allowed_imports':['os.path','_x','a.*','caf\u00e9'],'mode':'guarded'}");
    struct err e;
    assert_int_equal(code_policy_check(&config, &e), 0);
    set(CONFIG_KEY_allowed_imports, "os,a b");
    assert_true(code_policy_check(&config, &e) < 0);
    assert_non_null(strstr(e.message, "a b"));
}

static void test_too_many_imports(void **state)
{
    (void)state;
    struct err e;
    json_t *list = json_array(), *got = NULL;
    for (int i = 0; i <= CODE_IMPORTS_MAX; i++)
        (void)json_array_append_new(list, json_string("a"));
    assert_true(code_policy_make(&config, NULL, list, false, false, &got, &e) < 0);
    (void)json_array_remove(list, 0);
    assert_int_equal(code_policy_make(&config, NULL, list, true, false, &got, &e), 0);
    assert_true(json_is_true(json_object_get(got, "network")));
    json_decref(got);
    json_decref(list);
}

// What a policy means for the kernel.
static void test_what_the_kernel_holds(void **state)
{
    (void)state;
    struct err e;
    json_t *policy = NULL, *list = json_pack("[s]", "os");
    assert_false(code_policy_freezes(&config, NULL)); // open
    assert_true(code_policy_has_network(&config, NULL));
    assert_int_equal(code_policy_make(&config, "guarded", NULL, true, false, &policy, &e), 0);
    assert_true(code_policy_freezes(&config, policy));
    assert_false(code_policy_has_network(&config, policy)); // no hosts are allowed
    json_decref(policy);
    // A list of the call alone is about imports only: it says nothing of tiers.
    assert_int_equal(code_policy_make(&config, NULL, list, true, false, &policy, &e), 0);
    assert_false(code_policy_freezes(&config, policy));
    json_decref(policy);
    set(CONFIG_KEY_policy, "restricted");
    assert_true(code_policy_freezes(&config, NULL));
    assert_int_equal(code_policy_make(&config, NULL, list, true, false, &policy, &e), 0);
    assert_true(code_policy_freezes(&config, policy));
    assert_null(json_object_get(policy, "network"));
    json_decref(policy);
    set(CONFIG_KEY_enable_filesystem, "true");
    assert_false(code_policy_freezes(&config, NULL));
    set(CONFIG_KEY_tiers, "basic,network");
    assert_true(code_policy_has_network(&config, NULL));
    json_decref(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_open, begin),
        cmocka_unit_test_setup(test_configured, begin),
        cmocka_unit_test_setup(test_tiers, begin),
        cmocka_unit_test_setup(test_what_the_kernel_holds, begin),
        cmocka_unit_test_setup(test_network, begin),
        cmocka_unit_test_setup(test_bad_imports, begin),
        cmocka_unit_test_setup(test_too_many_imports, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
