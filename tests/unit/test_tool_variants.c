// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of variants: the numbered rules of tool_variants.h.

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "mcp/tools/tool_variants.h"

static void none(struct mcp_call *c, json_t *arguments)
{
    (void)c;
    (void)arguments;
}

static const struct mcp_tool first = {
    .name = "tool",
    .description = "Does one thing. And says more.",
    .input_schema = "{\"type\": \"object\", \"properties\": {\"code\": {\"type\": \"string\", "
                    "\"maxLength\": 10}, "
                    "\"timeout\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 5, "
                    "\"default\": 3}, \"mode\": "
                    "{\"type\": \"string\", \"enum\": [\"a\", \"b\"]}}, \"required\": [\"code\"], "
                    "\"additionalProperties\": false}",
    .output_schema = "{\"type\": \"object\"}",
    .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
    .handle = none,
};

static const struct mcp_tool second = {
    .name = "tool",
    .description = "Does another thing. Which no list names.",
    .input_schema =
        "{\"type\": \"object\", \"properties\": {\"code\": {\"type\": \"string\", \"maxLength\": "
        "20}, "
        "\"timeout\": {\"type\": \"number\", \"maximum\": 4, \"default\": 1}, \"mode\": {\"type\": "
        "\"string\", \"enum\": [\"b\", \"c\"]}, \"container_id\": {\"type\": \"string\"}}, "
        "\"required\": "
        "[\"container_id\", \"code\"], \"additionalProperties\": false}",
    .hints = TOOL_READ_ONLY | TOOL_OPEN_WORLD,
    .handle = none,
};

static const struct mcp_tool third = {
    .name = "tool",
    .description = "Takes anything",
    .input_schema = "{\"type\": \"object\", \"properties\": {\"code\": {\"type\": [\"array\", "
                    "\"string\"]}, \"free\": {\"type\": \"boolean\"}}, \"required\": [\"free\"]}",
    .handle = none,
};

static struct tool_entry make(size_t count)
{
    static const struct mcp_tool *const all[] = {&first, &second, &third};
    static const char *const sets[] = {"default", "containers", "kernels"};
    struct tool_entry entry = {0};
    struct mcp m = {0};
    struct err e;
    for (size_t i = 0; i < count; i++)
        assert_int_equal(tool_variants_add(&entry, &m, all[i], NULL, sets[i], &e), 0);
    return entry;
}

static void expect_json(json_t *have, const char *text)
{
    json_t *want = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(want);
    assert_true(json_equal(have, want));
    json_decref(want);
}

static json_t *property(const struct tool_entry *entry, const char *name)
{
    return json_object_get(json_object_get(entry->input, "properties"), name);
}

static void one_variant_is_listed_as_it_is(void **state)
{
    (void)state;
    struct tool_entry entry = make(1);
    expect_json(entry.input, first.input_schema);
    expect_json(entry.output, first.output_schema);
    assert_string_equal(json_string_value(entry.description), first.description);
    assert_int_equal(entry.hints, first.hints);
    tool_variants_clear(&entry);
    tool_variants_clear(&entry); // nothing is left to be freed twice
}

static void rule_2_the_listed_schema_takes_what_any_takes(void **state)
{
    (void)state;
    struct tool_entry entry = make(2);
    expect_json(property(&entry, "code"), "{\"type\": \"string\", \"maxLength\": 20}");
    expect_json(property(&entry, "timeout"),
                "{\"type\": \"number\", \"maximum\": 5, \"default\": 3}"); // no lower bound
    expect_json(property(&entry, "mode"),
                "{\"type\": \"string\", \"enum\": [\"a\", \"b\", \"c\"]}");
    expect_json(property(&entry, "container_id"), "{\"type\": \"string\"}");
    expect_json(json_object_get(entry.input, "required"), "[\"code\"]");
    expect_json(json_object_get(entry.input, "additionalProperties"), "false");
    // The schema of each is its own still.
    expect_json(entry.variants[0].input, first.input_schema);
    expect_json(entry.variants[1].input, second.input_schema);
    tool_variants_clear(&entry);
    entry = make(3);
    expect_json(property(&entry, "code"), "{\"type\": [\"string\", \"array\"]}");
    expect_json(json_object_get(entry.input, "required"), "[]");
    assert_null(json_object_get(entry.input, "additionalProperties"));
    tool_variants_clear(&entry);
}

static void the_description_has_a_sentence_for_each(void **state)
{
    (void)state;
    struct tool_entry entry = make(3);
    assert_string_equal(
        json_string_value(entry.description),
        "Does one thing. And says more. As the tool of the set 'containers', with code, "
        "timeout, mode, container_id: Does another thing. As the tool of the set "
        "'kernels', with code, free: Takes anything");
    tool_variants_clear(&entry);
}

static void hints_promise_what_all_keep(void **state)
{
    (void)state;
    struct tool_entry entry = make(2);
    assert_int_equal(entry.hints, TOOL_READ_ONLY | TOOL_OPEN_WORLD);
    tool_variants_clear(&entry);
}

static void rule_5_outputs_that_differ_are_not_listed(void **state)
{
    (void)state;
    struct tool_entry entry = make(2);
    assert_null(entry.output);
    tool_variants_clear(&entry);
    struct mcp m = {0};
    struct err e;
    assert_int_equal(tool_variants_add(&entry, &m, &first, NULL, "default", &e), 0);
    assert_int_equal(tool_variants_add(&entry, &m, &first, NULL, "kernels", &e), 0);
    assert_non_null(entry.output);
    tool_variants_clear(&entry);
}

static const struct mcp_tool *choose(const struct tool_entry *entry, const char *text,
                                     char *message, size_t cap)
{
    json_t *arguments = json_loads(text, 0, NULL);
    assert_non_null(arguments);
    const struct mcp_tool *tool = tool_variants_choose(entry, arguments, message, cap);
    json_decref(arguments);
    return tool;
}

static void rule_3_a_call_goes_where_it_fits(void **state)
{
    (void)state;
    struct tool_entry entry = make(3);
    const struct {
        const char *arguments;
        const struct mcp_tool *tool;
        const char *message;
    } cases[] = {
        {"{\"code\": \"1\"}", &first, NULL},
        {"{\"code\": \"1\", \"timeout\": 5}", &first, NULL},
        {"{\"code\": \"1\", \"container_id\": \"c\"}", &second, NULL},
        {"{\"code\": \"1\", \"container_id\": \"c\", \"timeout\": 0.5, \"mode\": \"c\"}", &second,
         NULL},
        {"{\"code\": [], \"free\": true}", &third, NULL},
        {"{\"code\": \"1\", \"container_id\": \"c\", \"free\": true}", &third, NULL},
        {"{}", NULL, "argument 'code' is missing"}, // one problem each in first and third
        {"{\"code\": \"1\", \"timeout\": 9}", NULL,
         "argument 'timeout' is 9, but must be at most 5"},
        {"{\"code\": \"1\", \"container_id\": \"c\", \"timeout\": 9}", NULL,
         "argument 'timeout' is 9, but must be at most 4"},
        {"{\"code\": \"1\", \"time_out\": 1}", NULL, "there is no argument 'time_out'"},
        {"{\"free\": 3}", NULL, "argument 'free' is 3, but must be a boolean"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char message[256] = "";
        assert_ptr_equal(choose(&entry, cases[i].arguments, message, sizeof message),
                         cases[i].tool);
        if (cases[i].message && strncmp(message, cases[i].message, strlen(cases[i].message)) != 0)
            fail_msg("%s: %s", cases[i].arguments, message);
    }
    tool_variants_clear(&entry);
}

static void rule_4_another_spelling_is_taken_and_not_listed(void **state)
{
    (void)state;
    struct tool_entry entry = make(1);
    struct mcp_tool other = second;
    struct mcp m = {0};
    struct err e;
    char message[256];
    other.hints |= TOOL_UNLISTED;
    assert_int_equal(tool_variants_add(&entry, &m, &other, NULL, "containers", &e), 0);
    expect_json(entry.input, first.input_schema);
    assert_non_null(entry.output);
    assert_string_equal(json_string_value(entry.description), first.description);
    assert_int_equal(entry.hints, first.hints);
    assert_ptr_equal(choose(&entry, "{\"code\": \"1\", \"container_id\": \"c\"}", message, 256),
                     &other);
    tool_variants_clear(&entry);
}

static void there_is_room_for_so_many(void **state)
{
    (void)state;
    struct tool_entry entry = {0};
    struct mcp m = {0};
    struct err e = {0};
    for (size_t i = 0; i < TOOL_VARIANTS_MAX; i++)
        assert_int_equal(tool_variants_add(&entry, &m, &first, NULL, "default", &e), 0);
    assert_true(tool_variants_add(&entry, &m, &first, NULL, "default", &e) < 0);
    assert_int_equal(e.code, ERR_INTERNAL);
    tool_variants_clear(&entry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_variant_is_listed_as_it_is),
        cmocka_unit_test(rule_2_the_listed_schema_takes_what_any_takes),
        cmocka_unit_test(the_description_has_a_sentence_for_each),
        cmocka_unit_test(hints_promise_what_all_keep),
        cmocka_unit_test(rule_5_outputs_that_differ_are_not_listed),
        cmocka_unit_test(rule_3_a_call_goes_where_it_fits),
        cmocka_unit_test(rule_4_another_spelling_is_taken_and_not_listed),
        cmocka_unit_test(there_is_room_for_so_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
