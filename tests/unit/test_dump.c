// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of json/dump: the same as jansson says, whatever the value.

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "json/dump.h"

enum { FLAGS = JSON_COMPACT | JSON_ENCODE_ANY };

// Takes the value.
static void check(json_t *value)
{
    assert_non_null(value);
    char *theirs = json_dumps(value, FLAGS), *ours = dump_text(value);
    assert_non_null(theirs);
    assert_non_null(ours);
    assert_string_equal(ours, theirs);
    size_t length = strlen(theirs);
    char *buffer = malloc(length + 1);
    for (size_t size = length > 40 ? length - 40 : 0; size <= length + 1; size++) {
        buffer[length] = '#';
        assert_int_equal(dump_json(value, buffer, size > length ? length : size), length);
        assert_int_equal(buffer[length], '#');
        if (size >= length)
            assert_memory_equal(buffer, theirs, length);
    }
    free(buffer);
    free(ours);
    free(theirs);
    json_decref(value);
}

static void says_what_jansson_says(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}",
        "[]",
        "null",
        "true",
        "\"\"",
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "1e300",
        "-2.5e-7",
        "-0.0",
        "123456789012345678.5",
        "{\"a\":[1,[2,{\"b\":null}],false],\"\":{\"c\":[]},\"d\":\"\\u20ac \\ud83d\\ude00\"}",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\u0001\\u001f\\u007f\\u0080\"",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        check(json_loads(texts[i], JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL));
    for (int c = 0; c < 128; c++) {
        char text[3] = {'x', (char)c, 'y'};
        check(json_stringn(text, 3));
    }
    json_t *wide = json_object();
    for (int i = 0; i < 500; i++) {
        char key[16];
        snprintf(key, sizeof key, "key%d", i);
        (void)json_object_set_new(wide, key, json_integer(i * 7919));
    }
    check(wide);
}

// A time is written as short as it can be, and read again it is the same number.
static void times_are_short(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } rows[] = {{0, "0.0"},
                {0.226, "0.226"},
                {1.5, "1.5"},
                {12, "12.0"},
                {0.25, "0.25"},
                {999.999, "999.999"},
                {0.1, "0.1"},
                {86400000.001, "86400000.001"},
                {1e11, "100000000000.0"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *real = json_real(rows[i].value);
        char *text = dump_text(real);
        assert_string_equal(text, rows[i].text);
        assert_true(strtod(text, NULL) == rows[i].value);
        free(text);
        json_decref(real);
    }
    for (unsigned i = 0; i < 20000; i++) {
        double value = (double)(i * 2654435761U) / (i % 2 ? 1000.0 : 1024.0 * 77);
        json_t *real = json_real(value);
        char *text = dump_text(real);
        assert_true(strtod(text, NULL) == value);
        free(text);
        json_decref(real);
    }
}

// What is too deep or no text is left to jansson, which writes the one and refuses the other.
static void the_odd_is_jansson_s(void **state)
{
    (void)state;
    json_t *deep = json_array();
    for (int i = 0; i < 1000; i++) {
        json_t *outer = json_array();
        (void)json_array_append_new(outer, deep);
        deep = outer;
    }
    check(deep);
    json_t *broken = json_stringn_nocheck("a\xff", 2);
    assert_null(dump_text(broken));
    char buffer[16];
    assert_int_equal(dump_json(broken, buffer, sizeof buffer), 0);
    json_decref(broken);
    assert_null(dump_text(NULL));
}

static void shared_values_are_copied(void **state)
{
    (void)state;
    json_t *values[6];
    for (int i = 0; i < 6; i++) {
        values[i] = json_pack("{s:i}", "number", i);
        dump_share(values[i]); // more than there is room for
    }
    check(json_pack("{s:O, s:O, s:O}", "a", values[0], "b", values[5], "c", values[4]));
    for (int i = 0; i < 6; i++) {
        dump_forget(values[i]);
        assert_int_equal(values[i]->refcount, 1);
        check(values[i]);
    }
    dump_forget(NULL);
}

// Each place and each surrounding of what is escaped: the writer goes by words of eight bytes, and
// by blocks.
static void escapes_are_found_anywhere(void **state)
{
    (void)state;
    static const char *const odd[] = {"\"", "\\",   "\n",       "\x01",         "\x1f",
                                      " ",  "\x7f", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    static char text[9000];
    for (size_t i = 0; i < ARRAY_LEN(odd); i++)
        for (size_t place = 0; place < 40; place++) {
            size_t n = strlen(odd[i]), at = place < 20 ? place : 4096 - 30 + place;
            memset(text, 'x', sizeof text);
            memcpy(text + at, odd[i], n);
            memcpy(text + at + n + 3, odd[i], n);
            check(json_stringn(text, place < 20 ? 32 : sizeof text));
        }
    for (int c = 0; c < 128; c++) { // nothing but escapes, longer than a block
        memset(text, c, sizeof text);
        check(json_stringn(text, sizeof text));
    }
}

static void a_text_goes_around(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } rows[] = {{"", "{\"}"},
                {"a\nb", "{a\\nb\"}"},
                {"\xff", "{\xef\xbf\xbd\"}"},
                {"caf\xc3", "{caf\xef\xbf\xbd\"}"},
                {"\xe2\x82\xac\xe2\x82", "{\xe2\x82\xac\xef\xbf\xbd\xef\xbf\xbd\"}"},
                {"01234567\xed\xa0\x80", "{01234567\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"}"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t length;
        char *text = dump_around("{", rows[i].text, strlen(rows[i].text), "\"}", &length);
        assert_string_equal(text, rows[i].want);
        assert_int_equal(length, strlen(rows[i].want));
        free(text);
    }
}

static void holes_are_left_out(void **state)
{
    (void)state;
    json_t *o = json_pack("{s:i, s:{s:s}, s:s}", "a", 1, "in", "b", "", "c", "");
    struct dump_hole holes[] = {{.value = json_object_get(json_object_get(o, "in"), "b")},
                                {.value = json_object_get(o, "c")}};
    size_t length;
    char *text = dump_text_holes(o, holes, 2, &length);
    assert_string_equal(text, "{\"a\":1,\"in\":{\"b\":},\"c\":}");
    assert_int_equal(length, strlen(text));
    assert_int_equal(holes[0].at, strlen("{\"a\":1,\"in\":{\"b\":"));
    assert_int_equal(holes[1].at, length - 1);
    free(text);
    json_t *other = json_integer(7);
    holes[0].value = other;
    text = dump_text_holes(o, holes, 1, &length);
    assert_true(holes[0].at == SIZE_MAX);
    free(text);
    json_decref(other);
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_jansson_says),     cmocka_unit_test(times_are_short),
        cmocka_unit_test(the_odd_is_jansson_s),       cmocka_unit_test(shared_values_are_copied),
        cmocka_unit_test(escapes_are_found_anywhere), cmocka_unit_test(a_text_goes_around),
        cmocka_unit_test(holes_are_left_out),
    };
    return cmocka_run_group_tests_name("dump", tests, NULL, NULL);
}
