// SPDX-License-Identifier: Apache-2.0
//
// Tests of json/text_value.c: which texts stand for a value, and which stay texts.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "json/text_value.h"

static const struct {
    const char *text, *type, *value; // NULL: none
} table[] = {
    {"5", "integer", "5"},
    {" -5 ", "integer", "-5"},
    {"5.0", "integer", "5.0"},
    {"5.5", "number", "5.5"},
    {"5.5", "integer", NULL},
    {"5s", "number", NULL},
    {"", "number", NULL},
    {" ", "number", NULL},
    {"0x10", "number", NULL},
    {"NaN", "number", NULL},
    {"Infinity", "number", NULL},
    {"1e999", "number", NULL},
    {"99999999999999999999", "integer", NULL},
    {"true", "number", NULL},
    {"true", "boolean", "true"},
    {"False", "boolean", "false"},
    {"YES", "boolean", "true"},
    {"0", "boolean", "false"},
    {"2", "boolean", NULL},
    {"maybe", "boolean", NULL},
    {"[\"math\"]", "array", "[\"math\"]"},
    {"math", "array", NULL},
    {"{}", "array", NULL},
    {"{\"a\": 1}", "object", "{\"a\":1}"},
    {"{\"a\": 1, \"a\": 2}", "object", NULL},
    {"[", "array", NULL},
    {"5", "string", NULL},
    {"5", "null", NULL},
    {"null", "null", NULL},
};

static void stands_for_a_value_or_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        json_auto_t *text = json_string(table[i].text), *value = text_value(text, table[i].type);
        _cleanup_free_ char *dumped =
            value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        if (table[i].value)
            assert_string_equal(dumped ? dumped : table[i].text, table[i].value);
        assert_int_equal(dumped != NULL, table[i].value != NULL);
    }
}

static void only_texts_are_read(void **state)
{
    (void)state;
    json_auto_t *number = json_integer(5), *nul = json_stringn("true\0x", 6);
    assert_null(text_value(number, "number"));
    assert_null(text_value(NULL, "number"));
    assert_null(text_value(nul, "boolean"));
    assert_null(text_value(nul, "array"));
}

static void what_a_text_may_hold_is_bounded(void **state)
{
    (void)state;
    enum { LENGTH = 1 << 20 };
    _cleanup_free_ char *many = malloc(LENGTH);
    assert_non_null(many);
    memset(many, '[', LENGTH);
    json_auto_t *deep = json_stringn(many, LENGTH);
    assert_null(text_value(deep, "array"));
    for (size_t i = 1; i < LENGTH; i++)
        many[i] = i % 2 ? '1' : ',';
    many[LENGTH - 1] = ']';
    json_auto_t *wide = json_stringn(many, LENGTH);
    assert_null(text_value(wide, "array"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stands_for_a_value_or_nothing),
        cmocka_unit_test(only_texts_are_read),
        cmocka_unit_test(what_a_text_may_hold_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
