// SPDX-License-Identifier: Apache-2.0
//
// fetch: what callers ask for, and what a box says came of it, which is hostile.  And the ids of
// requests.

#include "exec/fetch.h"

#include <string.h>

#include "http/request_log.h"
#include "unit.h"

static json_t *items(const char *urls, const char *files, struct err *e)
{
    json_t *u = urls ? json_loads(urls, JSON_ALLOW_NUL, NULL) : NULL,
           *f = files ? json_loads(files, JSON_ALLOW_NUL, NULL) : NULL;
    json_t *list = fetch_items(u, f, e);
    json_decref(u);
    json_decref(f);
    return list;
}

static void both_lists_become_one(void **state)
{
    struct err e;
    (void)state;
    json_t *list = items(
        "[\"http://a.test/1\"]",
        "[{\"url\": \"http://a.test/2\", \"id\": \"two\"}, {\"url\": \"x\", \"id\": null}]", &e);
    json_t *expected =
        json_loads("[{\"url\": \"http://a.test/1\"}, {\"url\": \"http://a.test/2\", \"id\": "
                   "\"two\"}, {\"url\": \"x\"}]",
                   0, NULL);
    assert_true(json_equal(list, expected));
    json_decref(list);
    json_decref(expected);
    list = items(NULL, NULL, &e);
    assert_int_equal(json_array_size(list), 0);
    json_decref(list);
}

static void what_is_too_much_is_refused(void **state)
{
    struct err e;
    (void)state;
    json_t *many = json_array();
    for (int i = 0; i <= FETCH_FILES_MAX; i++)
        (void)json_array_append_new(many, json_string("http://a.test/"));
    assert_null(fetch_items(many, NULL, &e));
    assert_int_equal(e.code, ERR_BAD_VALUE);
    json_decref(many);
    static const char *const bad[] = {"[5]", "[\"\"]", "[\"http://a.test/\\u0000\"]", "[null]",
                                      "[{}]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(items(bad[i], NULL, &e));
        assert_non_null(strstr(e.message, "file_urls[0]"));
    }
    assert_null(items(NULL, "[{\"id\": \"a\"}]", &e));
    assert_null(items(NULL, "[{\"url\": \"u\", \"id\": 5}]", &e));
    char text[FETCH_URL_MAX + 2];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    json_t *one = json_pack("[s]", text);
    assert_null(fetch_items(one, NULL, &e));
    json_decref(one);
}

static json_t *outcome(const char *said, bool success)
{
    json_t *object = json_pack("{s:s, s:b, s:s}", "stdout", said, "success", success, "verdict",
                               success ? "ok" : "timeout_wall");
    json_t *o = fetch_outcome(object);
    json_decref(object);
    assert_non_null(o);
    return o;
}

static void what_the_box_says_is_taken_as_it_may_be(void **state)
{
    (void)state;
    json_t *o =
        outcome("{\"files\": [{\"name\": \"a\", \"id\": \"i\"}, {\"name\": \"b\", \"id\": null}], "
                "\"errors\": [\"no\", 5]}\nmore",
                true);
    json_t *expected = json_loads(
        "{\"downloaded_files\": [\"a\", \"b\"], \"errors\": [\"no\"], \"ids\": {\"a\": \"i\"}}", 0,
        NULL);
    assert_true(json_equal(o, expected));
    json_decref(expected);
    json_decref(o);
    static const char *const odd[] = {"",
                                      "[",
                                      "[]",
                                      "{\"files\": 5, \"errors\": {}}",
                                      "{\"files\": [{\"name\": 5}]}",
                                      "{\"files\": [[]]}",
                                      "\"text\""};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        o = outcome(odd[i], false);
        assert_int_equal(json_array_size(json_object_get(o, "downloaded_files")), 0);
        json_t *errors = json_object_get(o, "errors");
        assert_int_equal(json_array_size(errors), 1);
        assert_string_equal(json_string_value(json_array_get(errors, 0)),
                            "Downloads were stopped: timeout_wall");
        json_decref(o);
    }
}

static void the_run_has_a_bound(void **state)
{
    static struct config c;
    struct err e;
    (void)state;
    config_init(&c);
    json_t *list = items("[\"http://a.test/1\", \"http://a.test/2\"]", NULL, &e);
    struct exec_request request = {0};
    assert_int_equal(fetch_prepare(&c, list, 10, &request, &e), 0);
    assert_int_equal(request.wall_ms, 25000);
    assert_true(request.plain);
    assert_int_equal(json_array_size(request.argv), 3);
    json_decref(request.argv);
    assert_int_equal(fetch_prepare(&c, list, 300, &request, &e), 0);
    assert_int_equal(request.wall_ms, c.timeout_max_ms);
    json_decref(request.argv);
    json_decref(list);
}

static void ids_of_requests(void **state)
{
    char text[REQUEST_ID_SIZE + 1];
    (void)state;
    assert_true(request_id_is_good("a-1_2.3:4/5+6=7@8#9"));
    assert_false(request_id_is_good(""));
    assert_false(request_id_is_good("a b"));
    assert_false(request_id_is_good("a\r\nSet-Cookie: x"));
    assert_false(request_id_is_good("\xc3\xbc"));
    memset(text, 'a', sizeof text);
    text[REQUEST_ID_SIZE] = '\0';
    assert_false(request_id_is_good(text));
    text[REQUEST_ID_SIZE - 1] = '\0';
    assert_true(request_id_is_good(text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_lists_become_one),
        cmocka_unit_test(what_is_too_much_is_refused),
        cmocka_unit_test(what_the_box_says_is_taken_as_it_may_be),
        cmocka_unit_test(the_run_has_a_bound),
        cmocka_unit_test(ids_of_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
