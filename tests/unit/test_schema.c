// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of mcp/tools/schema: every keyword, what a refusal says, and input that wants to cost
// time.

#include "unit.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "mcp/tools/schema.h"

static const struct {
    const char *schema, *value;
    const char *message; // NULL: it fits
} cases[] = {
    // types
    {"{\"type\":\"object\"}", "{}", NULL},
    {"{\"type\":\"object\"}", "[]",
     "the arguments: this is an array of 0 items, but must be an object"},
    {"{\"properties\":{\"a\":{\"type\":\"string\"}}}", "{\"a\":\"x\"}", NULL},
    {"{\"properties\":{\"a\":{\"type\":\"string\"}}}", "{\"a\":5}",
     "argument 'a' is 5, but must be a string"},
    {"{\"properties\":{\"a\":{\"type\":\"integer\"}}}", "{\"a\":5.0}", NULL},
    {"{\"properties\":{\"a\":{\"type\":\"integer\"}}}", "{\"a\":5.5}",
     "argument 'a' is 5.5, but must be an integer"},
    {"{\"properties\":{\"a\":{\"type\":\"number\"}}}", "{\"a\":5}", NULL},
    {"{\"properties\":{\"a\":{\"type\":\"number\"}}}", "{\"a\":\"5\"}",
     "argument 'a' is \"5\", but must be a number"},
    {"{\"properties\":{\"a\":{\"type\":\"boolean\"}}}", "{\"a\":false}", NULL},
    {"{\"properties\":{\"a\":{\"type\":\"boolean\"}}}", "{\"a\":null}",
     "argument 'a' is null, but must be a boolean"},
    {"{\"properties\":{\"a\":{\"type\":[\"integer\",\"null\"]}}}", "{\"a\":null}", NULL},
    {"{\"properties\":{\"a\":{\"type\":[\"integer\",\"null\"]}}}", "{\"a\":\"\"}",
     "argument 'a' is \"\", but must be an integer or null"},
    {"{\"properties\":{\"a\":{\"type\":\"decimal128\"}}}", "{\"a\":1}", NULL},
    // bounds
    {"{\"properties\":{\"timeout\":{\"type\":\"number\",\"minimum\":0.1}}}", "{\"timeout\":-1}",
     "argument 'timeout' is -1, but must be at least 0.1"},
    {"{\"properties\":{\"a\":{\"minimum\":1,\"maximum\":3}}}", "{\"a\":1}", NULL},
    {"{\"properties\":{\"a\":{\"minimum\":1,\"maximum\":3}}}", "{\"a\":3}", NULL},
    {"{\"properties\":{\"a\":{\"minimum\":1,\"maximum\":3}}}", "{\"a\":3.01}",
     "argument 'a' is 3.01, but must be at most 3"},
    {"{\"properties\":{\"a\":{\"maximum\":9223372036854775806}}}", "{\"a\":9223372036854775807}",
     "argument 'a' is 9223372036854775807, but must be at most 9223372036854775806"},
    {"{\"properties\":{\"a\":{\"exclusiveMinimum\":0}}}", "{\"a\":0}",
     "argument 'a' is 0, but must be above 0"},
    {"{\"properties\":{\"a\":{\"exclusiveMaximum\":1}}}", "{\"a\":1}",
     "argument 'a' is 1, but must be below 1"},
    {"{\"properties\":{\"a\":{\"minimum\":5}}}", "{\"a\":\"text\"}", NULL},
    // lengths count characters
    {"{\"properties\":{\"a\":{\"maxLength\":2}}}", "{\"a\":\"\\u00e4\\ud83d\\ude00\"}", NULL},
    {"{\"properties\":{\"a\":{\"maxLength\":2}}}", "{\"a\":\"abc\"}",
     "argument 'a' has 3 characters, but must have at most 2"},
    {"{\"properties\":{\"a\":{\"minLength\":1}}}", "{\"a\":\"\"}",
     "argument 'a' has 0 characters, but must have at least 1"},
    {"{\"properties\":{\"a\":{\"minItems\":1,\"maxItems\":2}}}", "{\"a\":[1]}", NULL},
    {"{\"properties\":{\"a\":{\"minItems\":1,\"maxItems\":2}}}", "{\"a\":[]}",
     "argument 'a' has 0 items, but must have at least 1"},
    {"{\"properties\":{\"a\":{\"minItems\":1,\"maxItems\":2}}}", "{\"a\":[1,2,3]}",
     "argument 'a' has 3 items, but must have at most 2"},
    // enum and const
    {"{\"properties\":{\"a\":{\"enum\":[\"x\",1,null]}}}", "{\"a\":null}", NULL},
    {"{\"properties\":{\"a\":{\"enum\":[\"x\",1,null]}}}", "{\"a\":\"y\"}",
     "argument 'a' is \"y\", but must be one of \"x\", 1, null"},
    {"{\"properties\":{\"a\":{\"const\":true}}}", "{\"a\":false}",
     "argument 'a' is false, but must be true"},
    // names
    {"{\"properties\":{\"code\":{\"type\":\"string\"}},\"required\":[\"code\"]}", "{}",
     "argument 'code' is missing; it must be given, as a string"},
    {"{\"required\":[\"code\"]}", "{}", "argument 'code' is missing; it must be given"},
    {"{\"properties\":{\"timeout\":{},\"code\":{}},\"additionalProperties\":false}",
     "{\"time_out\":1}",
     "there is no argument 'time_out', did you mean 'timeout'?; possible: timeout, code"},
    {"{\"properties\":{\"timeout\":{}},\"additionalProperties\":false}", "{\"zzzzzzzzzz\":1}",
     "there is no argument 'zzzzzzzzzz'; possible: timeout"},
    {"{\"additionalProperties\":false}", "{\"a\":1}", "there is no argument 'a'; none is taken"},
    {"{\"additionalProperties\":{\"type\":\"string\"}}", "{\"a\":1}",
     "argument 'a' is 1, but must be a string"},
    {"{\"properties\":{\"a\":false}}", "{\"a\":1}", "argument 'a' must not be given"},
    {"{\"properties\":{\"a\":true}}", "{\"a\":1}", NULL},
    // below
    {"{\"properties\":{\"args\":{\"items\":{\"type\":\"string\"}}}}", "{\"args\":[\"a\",\"b\",3]}",
     "argument 'args[2]' is 3, but must be a string"},
    {"{\"properties\":{\"o\":{\"properties\":{\"p\":{\"items\":{\"properties\":{\"q\":{\"type\":"
     "\"null\"}}}}}}}}",
     "{\"o\":{\"p\":[{\"q\":1}]}}", "argument 'o.p[0].q' is 1, but must be null"},
    {"{\"properties\":{\"o\":{\"additionalProperties\":false}}}", "{\"o\":{\"x\":1}}",
     "argument 'o' has no member 'x'; none is taken"},
    {"{\"properties\":{\"o\":{\"required\":[\"p\"]}}}", "{\"o\":{}}",
     "argument 'o.p' is missing; it must be given"},
    // what is not ours is ignored
    {"{\"allOf\":[{\"required\":[\"x\"]}],\"if\":{},\"$ref\":\"#/nowhere\",\"pattern\":\"[\"}",
     "{}", NULL},
    // control characters and long texts do not get through
    {"{\"properties\":{\"a\":{\"type\":\"null\"}}}", "{\"a\":\"x\\u001b[31m\"}",
     "argument 'a' is \"x?[31m\", but must be null"},
    {"{\"properties\":{\"a\":{\"type\":\"null\"}}}", "{\"a\":\"x\\u0000y\"}",
     "argument 'a' is \"x...\", but must be null"},
};

static json_t *load(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    assert_non_null(value);
    return value;
}

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *schema = load(cases[i].schema), *value = load(cases[i].value);
        char message[512];
        int r = schema_check(schema, value, message, sizeof message);
        if (r != (cases[i].message ? -1 : 0))
            print_message("%s with %s: %s\n", cases[i].schema, cases[i].value, message);
        assert_int_equal(r, cases[i].message ? -1 : 0);
        assert_string_equal(message, cases[i].message ? cases[i].message : "");
        json_decref(schema);
        json_decref(value);
    }
}

static void test_values_are_shortened(void **state)
{
    (void)state;
    json_t *schema = load("{\"properties\":{\"a\":{\"type\":\"integer\"}}}");
    size_t length = 1 << 20;
    char *text = malloc(length);
    assert_non_null(text);
    for (size_t i = 0; i < length; i += 2)
        memcpy(text + i, "\xc3\xa4", 2);
    json_t *value = json_pack("{s:s%}", "a", text, length);
    for (size_t cap = 1; cap < 512; cap++) {
        char message[512];
        assert_int_equal(schema_check(schema, value, message, cap), -1);
        assert_true(strlen(message) < cap);
        assert_int_equal(utf8_valid_length(message, strlen(message)), strlen(message));
    }
    char message[512];
    assert_int_equal(schema_check(schema, value, message, sizeof message), -1);
    assert_non_null(strstr(message, "\xc3\xa4...\", but must be an integer"));
    assert_true(strlen(message) < 80 * 2 + 80);
    json_decref(value);
    json_decref(schema);
    free(text);
}

// A schema that allows any depth meets a value that uses it.
static void test_depth_is_bounded(void **state)
{
    (void)state;
    json_t *schema = load("{\"items\":true}"), *value = json_array();
    for (int i = 0; i < 40; i++) {
        json_t *outer = json_object();
        (void)json_object_set_new(outer, "items", schema);
        schema = outer;
        json_t *list = json_array();
        (void)json_array_append_new(list, value);
        value = list;
    }
    char message[512];
    assert_int_equal(schema_check(schema, value, message, sizeof message), -1);
    assert_non_null(strstr(message, "too deeply"));
    json_decref(schema);
    json_decref(value);
}

static void test_effort_is_bounded(void **state)
{
    (void)state;
    json_t *schema = load("{\"properties\":{\"a\":{\"items\":{}}}}"), *list = json_array();
    for (int i = 0; i < 250000; i++)
        (void)json_array_append_new(list, json_null());
    json_t *value = json_pack("{s:o}", "a", list);
    char message[512];
    assert_int_equal(schema_check(schema, value, message, sizeof message), -1);
    assert_non_null(strstr(message, "too many values"));
    json_decref(schema);
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_values_are_shortened),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_effort_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
