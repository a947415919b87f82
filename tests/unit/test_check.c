// SPDX-License-Identifier: Apache-2.0
//
// check/check_answer, check_cache, check_words: what a box says about a source is taken over by
// name and type, answers are remembered within bounds, and the text of one has nothing in it that
// steers a terminal.

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "check/check_words.h"

#define ANALYSIS "'analysis':{'complete':true,'line_count':1,'character_count':2}"
#define REST                                                                                       \
    "'violations':[]," ANALYSIS ",'recommendations':[],'policy':{'mode':'open'},'python':'3'"
#define GOOD "{'check':{'valid':true,'error':null," REST "}}"

// With ' for ".
static json_t *parse(const char *text)
{
    char *copy = strdup(text);
    for (char *p = copy; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    json_t *o = json_loads(copy, JSON_ALLOW_NUL, NULL);
    free(copy);
    assert_non_null(o);
    return o;
}

static json_t *take(const char *text)
{
    json_t *report = parse(text), *answer = check_take(report);
    json_decref(report);
    return answer;
}

static void test_what_is_no_answer(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{}",
        "{'check':null}",
        "{'check':[]}",
        "{'check':{}}",
        "{'check':{'valid':1,'error':null," REST "}}",
        "{'check':{'valid':true," REST "}}",
        "{'check':{'valid':true,'error':'x'," REST "}}",
        "{'check':{'valid':false,'error':{'type':'SyntaxError'}," REST "}}",
        "{'check':{'valid':true,'error':null,'violations':{}," ANALYSIS
        ",'recommendations':[],'policy':{'mode':'open'},'python':'3'}}",
        "{'check':{'valid':true,'error':null,'violations':[],'analysis':{'complete':true},"
        "'recommendations':[],'policy':{'mode':'open'},'python':'3'}}",
        "{'check':{'valid':true,'error':null,'lint':[[[[[[[[[1]]]]]]]]]," REST "}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_null(take(bad[i]));
}

static void test_what_is_taken(void **state)
{
    (void)state;
    json_t *answer = take(GOOD);
    assert_true(json_is_true(json_object_get(answer, "valid")));
    json_decref(answer);
    // Unknown fields and invalid entries are dropped, and code with a violation is not valid.
    answer = take("{'check':{'valid':true,'error':null,'more':1,'violations':[1,{'kind':'import'},"
                  "{'kind':'import','target':'os','reason':'no','line':'x','extra':[]}]," ANALYSIS
                  ",'recommendations':[{'rule':'a'},{'rule':'a','message':'b','line':null}],"
                  "'policy':{'mode':'open','x':1},'python':'3'}}");
    assert_non_null(answer);
    assert_false(json_is_true(json_object_get(answer, "valid")));
    assert_null(json_object_get(answer, "more"));
    json_t *violations = json_object_get(answer, "violations"),
           *only = json_array_get(violations, 0);
    assert_int_equal(json_array_size(violations), 1);
    assert_null(json_object_get(only, "line"));
    assert_null(json_object_get(only, "extra"));
    assert_int_equal(json_array_size(json_object_get(answer, "recommendations")), 1);
    assert_null(json_object_get(json_object_get(answer, "policy"), "x"));
    json_decref(answer);
}

static void test_a_crash(void **state)
{
    (void)state;
    static const char source[] = "a = 1\n\xc3\xa9 = 2\nx";
    json_t *answer =
        check_crashed(source, sizeof source - 1, "the code crashes the parser", "3.11");
    json_t *report = json_pack("{s:O}", "check", answer), *same = check_take(report);
    assert_non_null(same); // it has the shape of any other
    json_t *analysis = json_object_get(answer, "analysis");
    assert_int_equal(json_integer_value(json_object_get(analysis, "line_count")), 3);
    assert_int_equal(json_integer_value(json_object_get(analysis, "character_count")), 13);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(answer, "error"), "type")),
        "ParserCrash");
    json_decref(same);
    json_decref(report);
    json_decref(answer);
}

static void test_the_cache(void **state)
{
    (void)state;
    struct check_cache *m = check_cache_new();
    unsigned char one[32], two[32];
    const char *parts[] = {"ab", "c"}, *others[] = {"a", "bc"};
    const size_t lengths[] = {2, 1}, other_lengths[] = {1, 2};
    assert_int_equal(check_cache_key(parts, lengths, 2, one), 0);
    assert_int_equal(check_cache_key(others, other_lengths, 2, two), 0);
    assert_memory_not_equal(one, two, sizeof one);
    json_t *answer = json_object();
    check_cache_put(m, one, answer, 100, 1000);
    assert_ptr_equal(check_cache_get(m, one, 1001), answer);
    assert_null(check_cache_get(m, two, 1001));
    check_cache_put(m, one, answer, 200, 1000); // in its place
    assert_null(check_cache_get(m, one, 1000 + CHECK_KEEP_MS));
    assert_int_equal(check_cache_bytes(m), 0);
    check_cache_put(m, one, answer, CHECK_CACHE_MAX, 0); // too large to be kept
    assert_int_equal(check_cache_bytes(m), 0);
    for (unsigned i = 0; i < 1000; i++) {
        memcpy(two, &i, sizeof i);
        check_cache_put(m, two, answer, 100000, 0);
        assert_true(check_cache_bytes(m) <= CHECK_CACHE_MAX);
    }
    assert_ptr_equal(check_cache_get(m, two, 0), answer);
    check_cache_free(m);
    json_decref(answer);
}

static void test_words(void **state)
{
    (void)state;
    json_t *answer = take("{'check':{'valid':false,'error':{'type':'SyntaxError','message':'bad "
                          "\\u001b[31m','line':3,"
                          "'offset':5,'context':'> 3 | x\\u009b\\n      ^'}," REST "}}");
    assert_non_null(answer);
    char *words = check_words(answer, "a.py");
    assert_non_null(strstr(words, "a.py:3:5: SyntaxError: bad ?[31m\n> 3 | x??\n"));
    free(words);
    words = check_words(answer, NULL);
    assert_non_null(strstr(words, "line 3, column 5: SyntaxError"));
    assert_true(strncmp(words, "not valid", 9) == 0);
    free(words);
    json_decref(answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_no_answer),
        cmocka_unit_test(test_what_is_taken),
        cmocka_unit_test(test_a_crash),
        cmocka_unit_test(test_the_cache),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
