// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of mcp/tools/outputs: outputs are found by their owner only, the bounds hold whatever
// is added, the oldest go first, and URIs have one form.

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/tools/outputs.h"

enum { MIB = 1 << 20 };

static struct mcp m;

static int begin(void **state)
{
    struct err e;
    (void)state;
    memset(&m, 0, sizeof m);
    m.base = event_base_new();
    return m.base ? mcp_outputs_open(&m, &e) : -1;
}

static int end(void **state)
{
    (void)state;
    mcp_outputs_close(&m);
    event_base_free(m.base);
    return 0;
}

static const char *id_of(unsigned n)
{
    static char id[4][37];
    static unsigned next;
    char *ret = id[next++ % 4];
    snprintf(ret, 37, "%08x-0000-4000-8000-000000000000", n);
    return ret;
}

static int add(const char *owner, unsigned n, enum output_part part, size_t length)
{
    char *text = malloc(length + 1);
    assert_non_null(text);
    memset(text, 'a' + (int)(n % 26), length);
    int r = mcp_outputs_add(&m, owner, id_of(n), part, "text/plain", text, length);
    free(text);
    return r;
}

static const char *mime_type; // of what was found last

static bool has(const char *owner, unsigned n, enum output_part part)
{
    size_t length = 0;
    return mcp_outputs_find(&m, owner, id_of(n), part, &mime_type, &length) != NULL;
}

static void test_outputs_are_found(void **state)
{
    size_t length = 0;
    (void)state;
    assert_int_equal(mcp_outputs_add(&m, "", id_of(1), OUTPUT_STDOUT, "text/plain", "a\0b", 3), 0);
    assert_int_equal(mcp_outputs_add(&m, "", id_of(1), OUTPUT_ERROR, "text/plain", "", 0), 0);
    const char *text = mcp_outputs_find(&m, "", id_of(1), OUTPUT_STDOUT, &mime_type, &length);
    assert_non_null(text);
    assert_int_equal(length, 3);
    assert_memory_equal(text, "a\0b", 4);
    assert_non_null(mcp_outputs_find(&m, "", id_of(1), OUTPUT_ERROR, &mime_type, &length));
    assert_int_equal(length, 0);
    assert_string_equal(mime_type, "text/plain");
    assert_int_equal(mcp_outputs_add(&m, "", id_of(1), OUTPUT_PART_MAX - 1, "image/png", "AAAA", 4),
                     0);
    text = mcp_outputs_find(&m, "", id_of(1), OUTPUT_PART_MAX - 1, &mime_type, &length);
    assert_memory_equal(text, "AAAA", 5);
    assert_string_equal(mime_type, "image/png");
    assert_null(mcp_outputs_find(&m, "", id_of(1), OUTPUT_STDERR, &mime_type, &length));
    assert_null(mcp_outputs_find(&m, "", id_of(2), OUTPUT_STDOUT, &mime_type, &length));
    assert_null(mcp_outputs_find(&m, "", "", OUTPUT_STDOUT, &mime_type, &length));
}

static void test_a_part_is_replaced(void **state)
{
    size_t length = 0;
    (void)state;
    for (int i = 0; i < 1000; i++) // would be far above every bound if the old one counted on
        assert_int_equal(add("", 1, OUTPUT_STDOUT, i % 2 ? MIB : 10), 0);
    assert_non_null(mcp_outputs_find(&m, "", id_of(1), OUTPUT_STDOUT, &mime_type, &length));
    assert_int_equal(length, MIB);
}

static void test_owners_do_not_see_each_other(void **state)
{
    (void)state;
    assert_int_equal(add("alice", 1, OUTPUT_STDOUT, 10), 0);
    assert_true(has("alice", 1, OUTPUT_STDOUT));
    assert_false(has("bob", 1, OUTPUT_STDOUT));
    assert_false(has("", 1, OUTPUT_STDOUT));
    // nor can one write into the other's run
    assert_int_equal(add("bob", 1, OUTPUT_STDERR, 10), -1);
    assert_false(has("alice", 1, OUTPUT_STDERR));
    json_t *ids = mcp_outputs_ids(&m, "bob", "", 10);
    assert_int_equal(json_array_size(ids), 0);
    json_decref(ids);
}

static void test_too_large_is_refused(void **state)
{
    (void)state;
    assert_int_equal(add("", 1, OUTPUT_STDOUT, 8 * MIB + 1), -1);
    assert_false(has("", 1, OUTPUT_STDOUT));
    assert_int_equal(add("", 1, OUTPUT_STDOUT, 5 * MIB), 0);
    assert_int_equal(add("", 1, OUTPUT_STDERR, 4 * MIB), -1); // together too much
    assert_true(has("", 1, OUTPUT_STDOUT));
    assert_int_equal(add("", 1, OUTPUT_STDERR, 3 * MIB), 0);
}

static void test_the_oldest_go_first(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(add("", i, OUTPUT_STDOUT, 4 * MIB), 0);
    assert_false(has("", 0, OUTPUT_STDOUT));
    assert_false(has("", 12, OUTPUT_STDOUT));
    assert_true(has("", 13, OUTPUT_STDOUT)); // seven of 4 MiB and their overhead fit into 32 MiB
    assert_true(has("", 19, OUTPUT_STDOUT));
    // A further part of the oldest run pushes out younger ones, not itself.
    assert_int_equal(add("", 13, OUTPUT_STDERR, 4 * MIB), 0);
    assert_true(has("", 13, OUTPUT_STDOUT));
    assert_true(has("", 13, OUTPUT_STDERR));
    assert_false(has("", 14, OUTPUT_STDOUT));
}

static void test_one_owner_leaves_room_for_others(void **state)
{
    (void)state;
    assert_int_equal(add("alice", 1000, OUTPUT_STDOUT, 4 * MIB), 0);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(add("bob", i, OUTPUT_STDOUT, 4 * MIB), 0);
    assert_true(has("alice", 1000, OUTPUT_STDOUT));
    // Three of them fill it all; then the oldest of the owner with most goes.
    for (unsigned i = 0; i < 7; i++)
        assert_int_equal(add("carol", 2000 + i, OUTPUT_STDOUT, 4 * MIB), 0);
    for (unsigned i = 0; i < 7; i++)
        assert_int_equal(add("dave", 3000 + i, OUTPUT_STDOUT, 4 * MIB), 0);
    assert_true(has("alice", 1000, OUTPUT_STDOUT));
    assert_false(has("bob", 93, OUTPUT_STDOUT));
    assert_true(has("bob", 99, OUTPUT_STDOUT));
    assert_true(has("dave", 3006, OUTPUT_STDOUT));
    assert_true(has("carol", 2006, OUTPUT_STDOUT));
}

static void test_many_small_ones_are_bounded(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 100000; i++)
        assert_int_equal(add("", i, OUTPUT_STDOUT, 1), 0);
    json_t *ids = mcp_outputs_ids(&m, "", "", 1000000);
    assert_in_range(json_array_size(ids), 25000, 33000); // 32 MiB of overhead
    json_decref(ids);
}

static void test_ids_by_prefix_newest_first(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(add("", i, OUTPUT_STDOUT, 1), 0);
    json_t *ids = mcp_outputs_ids(&m, "", "0000001", 3);
    assert_int_equal(json_array_size(ids), 3);
    assert_string_equal(json_string_value(json_array_get(ids, 0)), id_of(0x1f));
    assert_string_equal(json_string_value(json_array_get(ids, 2)), id_of(0x1d));
    json_decref(ids);
    ids = mcp_outputs_ids(&m, "", "zz", 3);
    assert_int_equal(json_array_size(ids), 0);
    json_decref(ids);
}

static void test_uris(void **state)
{
    static const char *const bad[] = {
        "",
        "run://",
        "run:///stdout",
        "run://00000001-0000-4000-8000-000000000000",
        "run://00000001-0000-4000-8000-000000000000/",
        "run://00000001-0000-4000-8000-000000000000/stdoutx",
        "run://00000001-0000-4000-8000-000000000000/STDOUT",
        "run://00000001-0000-4000-8000-000000000000/stdout/",
        "run://00000001-0000-4000-8000-00000000000G/stdout",
        "run://00000001-0000-4000-8000-00000000000A/stdout",
        "run://00000001-0000-4000-8000-0000000000000/stdout",
        "RUN://00000001-0000-4000-8000-000000000000/stdout",
        "run://00000001-0000-4000-8000-000000000000/../stdout",
        "run://00000001-0000-4000-8000-000000000000/display-0",
        "run://00000001-0000-4000-8000-000000000000/display-01",
        "run://00000001-0000-4000-8000-000000000000/display-21",
        "run://00000001-0000-4000-8000-000000000000/display-",
        "run://00000001-0000-4000-8000-000000000000%2fstdout",
        " run://00000001-0000-4000-8000-000000000000/stdout",
    };
    char uri[OUTPUT_URI_MAX], id[37];
    enum output_part part;
    (void)state;
    for (int i = 0; i < OUTPUT_PART_MAX; i++) {
        mcp_outputs_uri(id_of(7), (enum output_part)i, uri);
        assert_int_equal(mcp_outputs_parse_uri(uri, id, &part), 0);
        assert_string_equal(id, id_of(7));
        assert_int_equal(part, i);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(mcp_outputs_parse_uri(bad[i], id, &part), -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_outputs_are_found),
        TEST(test_a_part_is_replaced),
        TEST(test_owners_do_not_see_each_other),
        TEST(test_too_large_is_refused),
        TEST(test_the_oldest_go_first),
        TEST(test_one_owner_leaves_room_for_others),
        TEST(test_many_small_ones_are_bounded),
        TEST(test_ids_by_prefix_newest_first),
        TEST(test_uris),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
