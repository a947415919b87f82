// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of parts of src/rest that need no server: keys of calls that are repeated, the form of
// a stream, and problem details.

#include "unit.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/problem.h"
#include "rest/keys.h"
#include "rest/lines.h"
#include "rest/route.h"

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
    (void)take(k, "ann", "9999", "body", 20000, KEYS_KEPT); // somebody else's stay
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

// ---- streams ------------------------------------------------------------------------------------

static void test_the_form_of_a_stream(void **state)
{
    static const struct {
        const char *accept;
        bool events;
    } rows[] = {
        {"", false},
        {"*/*", false},
        {"text/*", false},
        {"text/event-stream", true},
        {"TEXT/EVENT-STREAM;q=0.1", true},
        {"text/event-streams", false},
        {"text/event-stream;q=0", false},
        {"text/event-stream; q=0.000", false},
        {"text/event-stream;charset=utf-8; q=0.5, application/x-ndjson;q=0.4", true},
        {"text/event-stream;q=0.5, application/x-ndjson;q=0.55", false},
        {"application/x-ndjson, text/event-stream", false},
        {"text/event-stream;q=", true},
        {";;;,,,q=1", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (lines_wants_events(rows[i].accept) != rows[i].events)
            fail_msg("%s", rows[i].accept);
}

// ---- problems -----------------------------------------------------------------------------------

static void test_problems(void **state)
{
    (void)state;
    json_t *body = problem_error("session_not_found", "no 'x'", "open it");
    assert_true(problem_dress(body, 404, "/api/v1/a b/\xc3\xa9%\"\n"));
    json_t *expected =
        json_pack("{s:{s:s, s:s, s:s}, s:s, s:s, s:i, s:s, s:s, s:s, s:s}", "error", "code",
                  "session_not_found", "message", "no 'x'", "hint", "open it", "type",
                  PROBLEM_PREFIX "session_not_found", "title", "Session not found", "status", 404,
                  "detail", "no 'x'", "code", "session_not_found", "hint", "open it", "instance",
                  "/api/v1/a%20b/%C3%A9%25%22%0A");
    assert_true(json_equal(body, expected));
    json_decref(expected);
    json_decref(body);
    // What is there stays, and what is no error is none.
    body = json_pack("{s:s, s:{s:s, s:s}}", "status", "mine", "error", "code", "a", "message", "m");
    assert_true(problem_dress(body, 500, NULL));
    assert_string_equal(json_string_value(json_object_get(body, "status")), "mine");
    assert_null(json_object_get(body, "instance"));
    assert_null(json_object_get(body, "hint"));
    json_decref(body);
    body = json_object();
    assert_false(problem_dress(body, 500, "/api/"));
    json_decref(body);
    assert_false(problem_dress(NULL, 500, "/api/"));
    assert_true(problem_is_for("/api/v1/x") && problem_is_for("/api"));
    assert_false(problem_is_for("/apix") || problem_is_for("/mcp") || problem_is_for(""));
}

static void test_methods_of_a_path(void **state)
{
    (void)state;
    assert_int_equal(route_methods("/api/v1/execute", 15), HTTP_POST);
    assert_int_equal(route_methods("/api/v1/sessions", 16), HTTP_GET | HTTP_HEAD | HTTP_POST);
    assert_int_equal(route_methods("/api/v1/nothing", 15), 0);
    assert_int_equal(route_methods("", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_are_read),
        cmocka_unit_test(test_a_key_and_its_states),
        cmocka_unit_test(test_what_keys_hold_is_bounded),
        cmocka_unit_test(test_the_form_of_a_stream),
        cmocka_unit_test(test_problems),
        cmocka_unit_test(test_methods_of_a_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
