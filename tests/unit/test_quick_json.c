// SPDX-License-Identifier: Apache-2.0
//
// Tests of json/quick_json.c: it reads what jansson reads, and nothing that jansson refuses.

#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "json/quick_json.h"

enum { FLAGS = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL };

static const char *const plain[] = {
    "{}",
    "[]",
    " { } ",
    "[[], {}, [1, -2, 0, 123456789012345678]]\n",
    "{\"a\": \"b\", \"c\": [true, false, null], \"\": {\"d\": \"\"}}",
    "{\"code\":\"x = 1\\n\\tif \\\"a\\\":\\r\\\\ \\/ \\b\\f\"}",
    "{\"a\":\"\xc3\xa9 \xe2\x98\x83 \xf0\x9f\x90\x8d \x7f\"}",
};

// Right or wrong, but not plain.
static const char *const other[] = {
    "",
    " ",
    "1",
    "\"a\"",
    "null",
    "{",
    "[",
    "[1",
    "[1,]",
    "[,1]",
    "[1 2]",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{a:1}",
    "{\"a\":1 \"b\":2}",
    "{\"a\":1,\"a\":2}",
    "{\"a\\n\":1}",
    "{\"\xc3\xa9\":1}",
    "[1]x",
    "[1][2]",
    "[01]",
    "[-0]",
    "[-]",
    "[1.5]",
    "[1e3]",
    "[1234567890123456789]",
    "[99999999999999999999]",
    "[tru]",
    "[nul",
    "[truex]",
    "[\"a]",
    "[\"a\\]",
    "[\"a\\",
    "[\"\\u0041\"]",
    "[\"\\ud800\"]",
    "[\"\\x\"]",
    "[\"a\nb\"]",
    "[\"\xff\"]",
    "[\"\xc0\x80\"]",
    "[\"\xed\xa0\x80\"]",
    "[\"\xe2\x98\"]",
    "\xef\xbb\xbf[]",
    "[1]\v",
    "[\"\\u0000\"]",
};

static void same_as_jansson(const char *text, size_t length)
{
    json_t *theirs = json_loadb(text, length, FLAGS, NULL);
    json_t *ours = quick_json_plain(text, length),
           *both = quick_json_load(text, length, FLAGS, NULL);
    if (ours)
        assert_true(theirs && json_equal(ours, theirs));
    assert_true(!both == !theirs && (!both || json_equal(both, theirs)));
    json_decref(theirs);
    json_decref(ours);
    json_decref(both);
}

static void test_plain_text_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        json_t *value = quick_json_plain(plain[i], strlen(plain[i]));
        assert_non_null(value);
        json_decref(value);
        same_as_jansson(plain[i], strlen(plain[i]));
    }
}

static void test_everything_else_is_left_to_jansson(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        assert_null(quick_json_plain(other[i], strlen(other[i])));
        same_as_jansson(other[i], strlen(other[i]));
    }
    same_as_jansson("[\"a\0b\"]", 7);
    same_as_jansson("[\"\\\0\"]", 6);
    same_as_jansson("{\"a\0b\":1}", 9);
    same_as_jansson("[1]\0", 4);
}

static void test_deep_nesting_is_not_plain(void **state)
{
    char text[200];
    (void)state;
    for (size_t depth = 1; depth <= 100; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        json_t *value = quick_json_plain(text, 2 * depth);
        assert_int_equal(value != NULL, depth <= 32);
        json_decref(value);
        same_as_jansson(text, 2 * depth);
    }
}

// Every beginning of a text, in memory of exactly that size, so that a sanitizer sees a step too
// far; and every text with one byte changed.
static void test_pieces_and_changes(void **state)
{
    static const unsigned char bytes[] = {0,   '"', '\\', '{', '}', '[',
                                          ',', ':', '0',  '-', 'u', 0xff};
    (void)state;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        size_t length = strlen(plain[i]);
        for (size_t n = 0; n <= length; n++) {
            char *exact = malloc(n ? n : 1);
            assert_non_null(exact);
            memcpy(exact, plain[i], n);
            same_as_jansson(exact, n);
            free(exact);
        }
        for (size_t at = 0; at < length; at++)
            for (size_t b = 0; b < sizeof bytes; b++) {
                char *changed = strdup(plain[i]);
                assert_non_null(changed);
                changed[at] = (char)bytes[b];
                same_as_jansson(changed, length);
                free(changed);
            }
    }
}

static enum quick_json_fit fit(const char *text)
{
    return quick_json_measure(text, strlen(text), 4, 2);
}

static void values_and_levels_are_counted_before_reading(void **state)
{
    (void)state;
    assert_int_equal(fit(""), QUICK_JSON_FITS);
    assert_int_equal(fit("[1,2,3,4]"), QUICK_JSON_FITS);
    assert_int_equal(fit("[1,2,3,4,5]"), QUICK_JSON_TOO_MANY);
    assert_int_equal(fit("[[]]"), QUICK_JSON_FITS);
    assert_int_equal(fit("[{\"a\":[]}]"), QUICK_JSON_TOO_DEEP);
    assert_int_equal(fit("[],[],"), QUICK_JSON_FITS);
    assert_int_equal(fit("]]]]{}"), QUICK_JSON_FITS); // no JSON: a reader says so
    assert_int_equal(fit("[\"[[[[,,,,,\\\"[[[,,\\\\\"]"), QUICK_JSON_FITS);
    assert_int_equal(fit("[\"\\\\\",1,2,3,4]"), QUICK_JSON_TOO_MANY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_text_is_read),
        cmocka_unit_test(values_and_levels_are_counted_before_reading),
        cmocka_unit_test(test_everything_else_is_left_to_jansson),
        cmocka_unit_test(test_deep_nesting_is_not_plain),
        cmocka_unit_test(test_pieces_and_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
