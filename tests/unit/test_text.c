// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of base/text: what the parsers accept, and everything that they must not.

#include <errno.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/text.h"

static const uint64_t untouched = 4711;

struct number_case {
    const char *text;
    int result;
    uint64_t value;
};

typedef int parser(const char *s, uint64_t min, uint64_t max, uint64_t *ret);

static void check_numbers(parser *parse, const struct number_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t v = untouched;
        int r = parse(cases[i].text, 1, UINT64_MAX, &v);
        if (r != cases[i].result || v != (r == 0 ? cases[i].value : untouched))
            fail_msg("'%s' gave %d and %llu", cases[i].text, r, (unsigned long long)v);
    }
}

// Never a number, whatever the unit.
static const struct number_case never[] = {
    {"", -EINVAL, 0},
    {"-1", -EINVAL, 0},
    {"+1", -EINVAL, 0},
    {" 1", -EINVAL, 0},
    {"1 ", -EINVAL, 0},
    {"1e30", -EINVAL, 0},
    {"1e3", -EINVAL, 0},
    {"0x10", -EINVAL, 0},
    {"nan", -EINVAL, 0},
    {"inf", -EINVAL, 0},
    {"lots", -EINVAL, 0},
    {"1,5", -EINVAL, 0},
    {".5", -EINVAL, 0},
    {"1.", -EINVAL, 0},
    {"1..5", -EINVAL, 0},
    {"1.5.5", -EINVAL, 0},
    {"1\n", -EINVAL, 0},
    {"\xd9\xa1", -EINVAL, 0},
    {"1\xc2\xa0", -EINVAL, 0},
    {"0", -ERANGE, 0},
    {"1x", -EINVAL, 0},
    {"1_000", -EINVAL, 0},
    {"18446744073709551616", -ERANGE, 0},
    {"99999999999999999999999999999999", -ERANGE, 0},
};

static void numbers(void **state)
{
    (void)state;
    static const struct number_case cases[] = {
        {"1", 0, 1},         {"007", 0, 7},      {"18446744073709551615", 0, UINT64_MAX},
        {"1.5", -EINVAL, 0}, {"1M", -EINVAL, 0}, {"1s", -EINVAL, 0},
    };
    check_numbers(text_parse_u64, cases, ARRAY_LEN(cases));
    check_numbers(text_parse_u64, never, ARRAY_LEN(never));
}

static void sizes(void **state)
{
    (void)state;
    static const struct number_case cases[] = {
        {"1048576", 0, 1048576},
        {"64M", 0, 64 * TEXT_MIB},
        {"64m", 0, 64 * TEXT_MIB},
        {"64MiB", 0, 64 * TEXT_MIB},
        {"1GiB", 0, TEXT_GIB},
        {"4K", 0, 4096},
        {"1T", 0, TEXT_TIB},
        {"1.5G", 0, TEXT_GIB + TEXT_GIB / 2},
        {"0.5K", 0, 512},
        {"0.000001T", 0, 1099511},
        {"0.9999999999999999999999T", 0, 1099510528264},
        {"1.5", -EINVAL, 0}, // half a byte
        {"0.0M", -ERANGE, 0},
        {"1MB", 0, TEXT_MIB}, // as Docker and the JVM count, and get_sandbox_info of server R
        {"1 M", -EINVAL, 0},
        {"1mib", -EINVAL, 0},
        {"M", -EINVAL, 0},
        {"1s", -EINVAL, 0},
        {"16777215T", 0, 16777215 * TEXT_TIB},
        {"16777216T", -ERANGE, 0},
        {"16777215.9999999T", 0, 16777215 * TEXT_TIB + 1099510528264},
    };
    check_numbers(text_parse_size, cases, ARRAY_LEN(cases));
    check_numbers(text_parse_size, never, ARRAY_LEN(never));
}

static void durations(void **state)
{
    (void)state;
    static const struct number_case cases[] = {
        {"2", 0, 2000},
        {"2s", 0, 2000},
        {"500ms", 0, 500},
        {"1.5m", 0, 90000},
        {"1h", 0, 3600000},
        {"0.25", 0, 250},
        {"0.3333333333", 0, 333},
        {"0.0001", -ERANGE, 0},
        {"1.5ms", -EINVAL, 0},
        {"1d", -EINVAL, 0},
        {"1S", -EINVAL, 0},
        {"1 s", -EINVAL, 0},
        {"1sm", -EINVAL, 0},
        {"18446744073709551s", 0, 18446744073709551000U},
        {"18446744073709552s", -ERANGE, 0},
    };
    check_numbers(text_parse_duration, cases, ARRAY_LEN(cases));
    check_numbers(text_parse_duration, never, ARRAY_LEN(never));
}

static void scaled_numbers(void **state)
{
    (void)state;
    uint64_t v = untouched;
    assert_int_equal(text_parse_scaled("512", TEXT_MIB, 1, TEXT_TIB, &v), 0);
    assert_int_equal(v, 512 * TEXT_MIB);
    assert_int_equal(text_parse_scaled("0.5", TEXT_SECOND_MS, 1, 1000, &v), 0);
    assert_int_equal(v, 500);
    v = untouched;
    assert_int_equal(text_parse_scaled("512M", TEXT_MIB, 1, TEXT_TIB, &v), -EINVAL);
    assert_int_equal(text_parse_scaled("1.5", 1, 1, 10, &v), -EINVAL);
    assert_int_equal(text_parse_scaled("1048577", TEXT_MIB, 1, TEXT_TIB, &v), -ERANGE);
    assert_int_equal(v, untouched);
}

static void bounds_are_included(void **state)
{
    (void)state;
    uint64_t v = untouched;
    assert_int_equal(text_parse_u64("15", 16, 32, &v), -ERANGE);
    assert_int_equal(text_parse_u64("33", 16, 32, &v), -ERANGE);
    assert_int_equal(v, untouched);
    assert_int_equal(text_parse_u64("16", 16, 32, &v), 0);
    assert_int_equal(text_parse_u64("32", 16, 32, &v), 0);
    assert_int_equal(v, 32);
}

static void words(void **state)
{
    (void)state;
    bool flag = false;
    int choice = -1;
    assert_int_equal(text_parse_bool("yes", &flag), 0);
    assert_true(flag);
    assert_int_equal(text_parse_bool("0", &flag), 0);
    assert_false(flag);
    assert_int_equal(text_parse_bool("", &flag), -EINVAL);
    assert_int_equal(text_parse_bool("maybe", &flag), -EINVAL);
    assert_int_equal(text_parse_choice("error", "error|warn|debug", &choice), 0);
    assert_int_equal(choice, 0);
    assert_int_equal(text_parse_choice("debug", "error|warn|debug", &choice), 0);
    assert_int_equal(choice, 2);
    static const char *const bad[] = {"", "warn|debug", "war", "warning", "WARN", "|"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(text_parse_choice(bad[i], "error|warn|debug", &choice), -EINVAL);
    assert_int_equal(choice, 2);
}

static void formats_read_back(void **state)
{
    (void)state;
    static const struct {
        uint64_t v;
        const char *size, *duration;
    } cases[] = {
        {0, "0", "0ms"},
        {1, "1", "1ms"},
        {1000, "1000", "1s"},
        {1024, "1K", "1024ms"},
        {1536, "1536", "1536ms"},
        {90000, "90000", "90s"},
        {TEXT_MIB, "1M", "1048576ms"},
        {24 * TEXT_HOUR_MS, "84375K", "24h"},
        {TEXT_TIB, "1T", "1099511627776ms"},
        {UINT64_MAX, "18446744073709551615", "18446744073709551615ms"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char buf[64];
        uint64_t v;
        text_format_size(cases[i].v, buf, sizeof buf);
        assert_string_equal(buf, cases[i].size);
        assert_int_equal(text_parse_size(buf, 0, UINT64_MAX, &v), 0);
        assert_true(v == cases[i].v);
        text_format_duration(cases[i].v, buf, sizeof buf);
        assert_string_equal(buf, cases[i].duration);
        assert_int_equal(text_parse_duration(buf, 0, UINT64_MAX, &v), 0);
        assert_true(v == cases[i].v);
    }
}

static void lists(void **state)
{
    (void)state;
    static struct text_list list;
    memset(&list, 0, sizeof list);
    assert_int_equal(text_list_add(&list, "numpy, pandas"), 0);
    assert_int_equal(text_list_add(&list, "numpy"), 0);
    assert_int_equal(text_list_add(&list, ""), 0);
    assert_int_equal(list.count, 2);
    assert_string_equal(list.items[1], "pandas");
    assert_true(text_list_has(&list, "numpy"));
    assert_false(text_list_has(&list, "num"));
    static const char *const bad[] = {",", "a,", ",a", "a,,b", " ", "a\nb", "a,\x7f"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(text_list_add(&list, bad[i]), -EINVAL);
}

static void lists_are_bounded(void **state)
{
    (void)state;
    static struct text_list list;
    char item[TEXT_ITEM_MAX + 2];
    memset(&list, 0, sizeof list);
    memset(item, 'x', sizeof item);
    item[TEXT_ITEM_MAX + 1] = '\0';
    assert_int_equal(text_list_add(&list, item), -ENAMETOOLONG);
    item[TEXT_ITEM_MAX] = '\0';
    assert_int_equal(text_list_add(&list, item), 0);
    for (int i = 1; i < TEXT_LIST_MAX; i++) {
        snprintf(item, sizeof item, "m%d", i);
        assert_int_equal(text_list_add(&list, item), 0);
    }
    assert_int_equal(text_list_add(&list, "one_more"), -E2BIG);
    assert_int_equal(text_list_add(&list, "m1"), 0);
    assert_int_equal(list.count, TEXT_LIST_MAX);
}

static void distances(void **state)
{
    (void)state;
    char longer[100];
    memset(longer, 'a', sizeof longer);
    longer[99] = '\0';
    assert_int_equal(text_distance("memory", "memory"), 0);
    assert_int_equal(text_distance("memroy", "memory"), 2);
    assert_int_equal(text_distance("", "wall"), 4);
    assert_int_equal(text_distance("kitten", "sitting"), 3);
    assert_true(text_distance(longer, "a") == UINT32_MAX);
    longer[63] = '\0';
    assert_int_equal(text_distance(longer, longer), 0);
}

static void foreign_text_is_made_safe(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"plain 'text'", "plain 'text'"},
        {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\x8d",
         "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\x8d"},
        {"\x1b[31mred\x7f\n\t", "?[31mred???"},
        {"\xc3", "?"},                // cut short
        {"a\xe2\x82", "a??"},         // cut short
        {"\xc0\xaf", "??"},           // overlong
        {"\xe0\x80\xaf", "???"},      // overlong
        {"\xed\xa0\x80", "???"},      // surrogate
        {"\xf4\x90\x80\x80", "????"}, // above U+10FFFF
        {"\xff\xfe", "??"},           // never valid
        {"\xc2\x9b"
         "2J",
         "??2J"}, // C1: CSI
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char buf[64];
        snprintf(buf, sizeof buf, "%s", cases[i].in);
        text_sanitize(buf);
        assert_string_equal(buf, cases[i].out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(sizes),
        cmocka_unit_test(durations),
        cmocka_unit_test(scaled_numbers),
        cmocka_unit_test(bounds_are_included),
        cmocka_unit_test(words),
        cmocka_unit_test(formats_read_back),
        cmocka_unit_test(lists),
        cmocka_unit_test(lists_are_bounded),
        cmocka_unit_test(distances),
        cmocka_unit_test(foreign_text_is_made_safe),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
