// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of rest/keys: calls that are repeated with the same Idempotency-Key.

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rest/keys.h"

// ---- keys ---------------------------------------------------------------------------------------

static void test_keys_are_read(void **state)
{
    static const struct {
        const char *value, *text; // NULL: refused
    } rows[] = {
        {"abc", "abc"},     {"\"abc\"", "abc"}, {"\"a\\\"b\\\\c\"", "a\"b\\c"},
        {"a b \t", "a b"},  {"\"a b\"", "a b"}, {"", NULL},
        {"\"\"", NULL},     {"\"", NULL},       {"\"a", NULL},
        {"a\"", NULL},      {"a\"b", NULL},     {"\"a\"b\"", NULL},
        {"\"\\\"", NULL},   {"a\tb", NULL},     {"\"a\x7f\"", NULL},
        {"\xc3\xa9", NULL},
    };
    char buf[KEYS_TEXT_MAX + 1], longest[KEYS_TEXT_MAX + 4];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int r = keys_parse(rows[i].value, buf);
        if (!rows[i].text)
            assert_int_equal(r, -1);
        else if (r < 0 || strcmp(buf, rows[i].text) != 0)
            fail_msg("'%s': '%s'", rows[i].value, r < 0 ? "refused" : buf);
    }
    memset(longest, 'x', sizeof longest);
    longest[KEYS_TEXT_MAX] = '\0';
    assert_int_equal(keys_parse(longest, buf), 0);
    longest[KEYS_TEXT_MAX] = 'x';
    longest[KEYS_TEXT_MAX + 1] = '\0';
    assert_int_equal(keys_parse(longest, buf), -1);
}

static struct rest_key *take(struct keys *k, const char *owner, const char *text, const char *body,
                             int64_t now_ms, int expected)
{
    int found = -1;
    struct rest_key *key = keys_take(k, owner, text, body, strlen(body), now_ms, &found);
    assert_non_null(key);
    assert_int_equal(found, expected);
    return key;
}

static void answer(struct rest_key *key, int status, size_t length)
{
    char *text = calloc(1, length + 1);
    assert_non_null(text);
    keys_begin(key, status, "application/json");
    keys_note(key, text, length);
    keys_end(key);
    free(text);
}

static void test_a_key_and_its_states(void **state)
{
    struct keys *k = keys_new();
    (void)state;
    struct rest_key *key = take(k, "ann", "k", "body", 1, KEYS_NEW);
    (void)take(k, "ann", "k", "body", 2, KEYS_UNDER_WAY);
    (void)take(k, "ann", "k", "other", 2, KEYS_OTHER);
    answer(take(k, "bob", "k", "other", 2, KEYS_NEW), 200, 1); // another owner, another key
    answer(take(k, "an", "nk", "other", 2, KEYS_NEW), 200,
           1); // and no two that look alike in a row
    answer(key, 200, 100);
    (void)take(k, "ann", "k", "body", 3, KEYS_KEPT);
    (void)take(k, "ann", "k", "other", 3, KEYS_OTHER);
    assert_int_equal(keys_bytes(k), 102);
    // What is allocated counts: ahead of what comes while it is written, and no more than that when
    // it is kept.
    key = take(k, "ann", "long", "body", 3, KEYS_NEW);
    for (int i = 0; i < 1025; i++)
        keys_note(key, "x", 1);
    assert_int_equal(keys_bytes(k), 102 + 2048);
    keys_begin(key, 200, "text/plain");
    keys_end(key);
    assert_int_equal(keys_bytes(k), 102 + 1025);
    // An error says that nothing was done.
    answer(take(k, "ann", "e", "body", 3, KEYS_NEW), 400, 10);
    keys_drop(take(k, "ann", "e", "another", 3, KEYS_NEW));
    answer(take(k, "ann", "e", "body", 3, KEYS_NEW), 200, KEYS_ANSWER_MAX + 1);
    (void)take(k, "ann", "e", "body", 4, KEYS_NOT_KEPT);
    // A day later it is as if it had never been.
    (void)take(k, "ann", "k", "body", KEYS_TTL_MS, KEYS_KEPT);
    answer(take(k, "ann", "k", "other", 1 + KEYS_TTL_MS, KEYS_NEW), 200, 1);
    keys_free(k);
}

static void test_what_keys_hold_is_bounded(void **state)
{
    struct keys *k = keys_new();
    char text[32];
    (void)state;
    for (int i = 0; i < KEYS_OWNER_MAX + 500; i++) {
        snprintf(text, sizeof text, "%d", i);
        answer(take(k, "ann", text, "body", i, KEYS_NEW), 200, 10);
    }
    assert_int_equal(keys_count(k), KEYS_OWNER_MAX);
    answer(take(k, "ann", "0", "body", 20000, KEYS_NEW), 200, 10); // the oldest had to go
    // Bytes: the oldest answers go, their keys stay.
    for (int i = 0; i < 40; i++) {
        snprintf(text, sizeof text, "large %d", i);
        answer(take(k, "bob", text, "body", i, KEYS_NEW), 200, KEYS_ANSWER_MAX);
        assert_true(keys_bytes(k) <= KEYS_OWNER_BYTES + 10 * KEYS_OWNER_MAX);
    }
    (void)take(k, "bob", "large 0", "body", 20000, KEYS_NOT_KEPT);
    (void)take(k, "bob", "large 39", "body", 20000, KEYS_KEPT);
    (void)take(k, "ann", "9999", "body", 20000, KEYS_KEPT); // another owner's stay
    for (int owner = 0; owner < 10; owner++)
        for (int i = 0; i < 16; i++) {
            char name[16];
            snprintf(name, sizeof name, "owner %d", owner);
            snprintf(text, sizeof text, "%d", i);
            answer(take(k, name, text, "body", 20001, KEYS_NEW), 200, KEYS_ANSWER_MAX);
            assert_true(keys_bytes(k) <= KEYS_BYTES);
        }
    keys_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_are_read),
        cmocka_unit_test(test_a_key_and_its_states),
        cmocka_unit_test(test_what_keys_hold_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
