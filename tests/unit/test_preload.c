// SPDX-License-Identifier: Apache-2.0
//
// Tests of env/preload.c: names of modules, what is learned from runs, and how it is kept.

#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "env/preload.h"

static void names_of_modules(void **state)
{
    static const struct {
        const char *text;
        bool good;
    } cases[] = {
        {"numpy", true},      {"matplotlib.pyplot", true},
        {"_x1", true},        {"a.b.c", true},
        {"", false},          {".", false},
        {".a", false},        {"a.", false},
        {"a..b", false},      {"1a", false},
        {"a.1", false},       {"a-b", false},
        {"a b", false},       {"a;b", false},
        {"a\nb", false},      {"\xc3\xa4", false},
        {"os.kill()", false}, {"../x", false},
    };
    char lengthy[PRELOAD_NAME_MAX + 2];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(preload_is_name(cases[i].text, strlen(cases[i].text)), cases[i].good);
    memset(lengthy, 'a', sizeof lengthy);
    assert_true(preload_is_name(lengthy, PRELOAD_NAME_MAX));
    assert_false(preload_is_name(lengthy, PRELOAD_NAME_MAX + 1));
    assert_false(preload_is_name("a\0b", 3));
}

static void assert_names(json_t *list, const char *expected)
{
    char *text = json_dumps(list, JSON_COMPACT);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
    json_decref(list);
}

static json_t *check(const char *json)
{
    struct err e = {0};
    json_t *given = json_loads(json, JSON_DECODE_ANY, NULL);
    json_t *list = preload_check(given, &e);
    json_decref(given);
    if (!list)
        assert_true(e.message[0] != '\0');
    return list;
}

static void declared_as_text_or_list(void **state)
{
    char many[PRELOAD_MAX * 8 + 32] = "";
    (void)state;
    assert_names(check("\"numpy pandas,numpy\""), "[\"numpy\",\"pandas\"]");
    assert_names(check("[\"numpy\", \"a.b\"]"), "[\"numpy\",\"a.b\"]");
    assert_names(check("[]"), "[]");
    static const char *const bad[] = {
        "1", "{}", "[1]", "[[\"a\"]]", "\"a;b\"", "[\"import os\", \"-x\"]", "\"a\\u0000b\""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err e = {0};
        json_t *given = json_loads(bad[i], JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(given);
        assert_null(preload_check(given, &e));
        assert_int_equal(e.code, ERR_BAD_VALUE);
        json_decref(given);
    }
    for (int i = 0, at = 0; i <= PRELOAD_MAX; i++)
        at += snprintf(many + at, sizeof many - (size_t)at, "m%d ", i);
    struct err e = {0};
    json_t *text = json_string(many);
    assert_null(preload_check(text, &e));
    json_decref(text);
}

static void learn(struct preload *p, const char *json)
{
    json_t *said = json_loads(json, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    preload_learn(p, said);
    json_decref(said);
}

static void what_runs_import_is_learned(void **state)
{
    struct preload p = {0};
    (void)state;
    assert_names(preload_names(&p), "[]");
    learn(&p, "[\"numpy\", \"numpy\"]");
    assert_names(preload_names(&p), "[\"numpy\"]");
    for (int i = 0; i < 9; i++)
        learn(&p, "[\"pandas\"]");
    assert_names(preload_names(&p), "[\"pandas\"]"); // numpy: one run in ten
    p.declared = check("[\"scipy\", \"pandas\"]");
    assert_names(preload_names(&p), "[\"scipy\",\"pandas\"]");
    preload_give_up(&p, "pandas");
    assert_names(preload_names(&p), "[\"scipy\"]");
    preload_forgive(&p);
    assert_names(preload_names(&p), "[\"scipy\",\"pandas\"]");
    preload_clear(&p);
}

static void hostile_reports_teach_nothing(void **state)
{
    struct preload p = {0};
    (void)state;
    learn(&p, "\"numpy\"");
    learn(&p, "{\"numpy\": 1}");
    learn(&p, "[1, null, [], \"a b\", \"x;y\", \"a\\u0000b\", \"\"]");
    assert_int_equal(p.learned_count, 0);
    assert_int_equal(p.runs, 0);
    char text[4096] = "[";
    for (int i = 0; i < 100; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s\"m%d\"", i ? "," : "", i);
    snprintf(text + strlen(text), sizeof text - strlen(text), "]");
    learn(&p, text);
    assert_int_equal(p.learned_count, PRELOAD_REPORT_MAX);
    for (int i = 0; i < 10000; i++) { // new names without an end
        char one[32];
        snprintf(one, sizeof one, "[\"n%d\"]", i);
        learn(&p, one);
        assert_true(p.learned_count <= PRELOAD_MAX);
    }
    preload_clear(&p);
}

static void old_habits_fade(void **state)
{
    struct preload p = {0};
    (void)state;
    for (int i = 0; i < 60; i++)
        learn(&p, "[\"old\"]");
    for (int i = 0; i < 400; i++)
        learn(&p, "[\"new\"]");
    assert_names(preload_names(&p), "[\"new\"]");
    preload_clear(&p);
}

static void it_is_kept_and_read(void **state)
{
    struct preload p = {0}, q = {0};
    (void)state;
    p.declared = check("\"scipy\"");
    learn(&p, "[\"numpy\"]");
    json_t *said = preload_json(&p);
    preload_read(&q, said);
    assert_names(preload_names(&q), "[\"scipy\",\"numpy\"]");
    json_decref(said);
    static const char *const odd[] = {
        "null", "[]", "{\"declared\": 1, \"runs\": -5, \"counts\": []}",
        "{\"counts\": {\"a;b\": 3, \"x\": -1, \"y\": \"z\"}, \"runs\": 1e9}"};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        said = json_loads(odd[i], JSON_DECODE_ANY, NULL);
        preload_read(&q, said);
        assert_names(preload_names(&q), "[]");
        json_decref(said);
    }
    preload_clear(&p);
    preload_clear(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_modules),
        cmocka_unit_test(declared_as_text_or_list),
        cmocka_unit_test(what_runs_import_is_learned),
        cmocka_unit_test(hostile_reports_teach_nothing),
        cmocka_unit_test(old_habits_fade),
        cmocka_unit_test(it_is_kept_and_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
