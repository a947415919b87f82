// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of the parts of src/rest that need no server: the check of bodies, the way from a path
// to a route, the OpenAPI document, the lines and the form of a stream, and problem details.

#include "unit.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "exec/fields.h"
#include "http/problem.h"
#include "rest/call.h"
#include "rest/lines.h"
#include "rest/ndjson.h"
#include "rest/openapi.h"
#include "rest/route.h"

static struct config config;

static int setup(void **state)
{
    (void)state;
    config_init(&config);
    return 0;
}

// ---- bodies -------------------------------------------------------------------------------------

static const struct field *fields_of(const char *operation)
{
    for (const struct rest_route *r = rest_routes; r->path; r++)
        if (strcmp(r->operation, operation) == 0)
            return r->fields;
    fail_msg("no operation '%s'", operation);
    return NULL;
}

// NULL: it fits; else the words that the message or the hint must have.
static void check(const char *operation, const char *text, const char *words, const char *hint)
{
    struct err e = {0};
    json_t *body = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    assert_non_null(body);
    int r = fields_check(FIELDS(fields_of(operation)), &config, body, &e);
    if (!words) {
        if (r < 0)
            fail_msg("%s: %s", text, e.message);
    } else {
        assert_true(r < 0);
        assert_int_equal(e.code, ERR_BAD_VALUE);
        if (!strstr(e.message, words) || (hint && !strstr(e.hint, hint)))
            fail_msg("%s: '%s' (%s), not '%s' (%s)", text, e.message, e.hint, words,
                     hint ? hint : "");
        assert_int_equal(utf8_valid_length(e.message, strlen(e.message)), strlen(e.message));
    }
    json_decref(body);
}

static void test_bodies_that_fit(void **state)
{
    (void)state;
    check("execute", "{\"code\": \"\"}", NULL, NULL);
    check("execute",
          "{\"code\": \"1\", \"session_id\": null, \"timeout\": null, \"variables\": null}", NULL,
          NULL);
    check("execute",
          "{\"code\": \"1\", \"session\": \"s\", \"stream\": false, \"timeout\": 0.5, "
          "\"cpu_seconds\": 2, \"memory_mb\": 64, \"args\": [\"a\"], \"variables\": {\"a\": [1]}, "
          "\"files\": [{\"path\": \"a\", \"text\": \"x\", \"encoding\": null}, {\"path\": \"b\", "
          "\"content\": \"eA==\", \"encoding\": \"base64\"}]}",
          NULL, NULL);
    check("execute", "{\"code\": \"1\", \"memory_mb\": 64.0}", NULL, NULL); // a whole number
    check("undo", "{}", NULL, NULL);
}

static void test_bodies_that_do_not_fit(void **state)
{
    (void)state;
    check("execute", "[]", "not a JSON object", "{\"code\"");
    check("execute", "{}", "'code' is missing", NULL);
    check("execute", "{\"code\": null}", "'code' is null, but must be a string", NULL);
    check("execute", "{\"code\": 5}", "'code' is 5, but must be a string", NULL);
    check("execute", "{\"code\": \"1\", \"codee\": 1}", "unknown field 'codee'", "'code'");
    check("execute", "{\"code\": \"1\", \"entirely_else\": 1}", "unknown field 'entirely_else'",
          "session_id");
    check("execute", "{\"code\": \"1\", \"timeout\": \"5s\"}", "'timeout' is the string '5s'",
          NULL);
    check("execute", "{\"code\": \"1\", \"timeout\": 0}",
          "'timeout' is 0, but must be at least 0.1", NULL);
    check("execute", "{\"code\": \"1\", \"timeout\": -1}", "at least", NULL);
    check("execute", "{\"code\": \"1\", \"timeout\": 1e300}", "at most 300", NULL);
    check("execute", "{\"code\": \"1\", \"memory_mb\": 1.5}", "a whole number", NULL);
    check("execute", "{\"code\": \"1\", \"memory_mb\": 1000000}", "at most 2048", NULL);
    check("execute", "{\"code\": \"1\", \"stream\": 0}", "true or false", NULL);
    check("execute", "{\"code\": \"1\", \"session\": \"a\", \"session_id\": \"a\"}", "are the same",
          NULL);
    check("execute", "{\"code\": \"1\", \"args\": [\"a\", 5]}", "5 at position 1", NULL);
    check("execute", "{\"code\": \"1\", \"args\": {}}", "an array of strings", NULL);
    check("execute", "{\"code\": \"1\", \"variables\": []}", "an object", NULL);
    check("execute", "{\"code\": \"1\", \"files\": [5]}", "5 at position 0", NULL);
    check("execute", "{\"code\": \"1\", \"files\": [{\"path\": \"a\"}, {\"text\": \"\"}]}",
          "'files[1].path' is missing", NULL);
    check("execute", "{\"code\": \"1\", \"files\": [{\"path\": \"a\", \"mode\": 7}]}",
          "unknown field 'files[0].mode'", "path");
    check("execute", "{\"code\": \"1\", \"files\": [{\"path\": \"a\", \"encoding\": \"rot13\"}]}",
          "rot13", "base64");
    check("undo", "{\"steps\": 0}", "at least 1", NULL);
    check("undo", "{\"steps\": 1e30}", "at most", NULL);
}

static void test_foreign_text_in_messages_is_short_and_clean(void **state)
{
    (void)state;
    char body[5000];
    size_t at = (size_t)snprintf(body, sizeof body, "{\"");
    for (int i = 0; i < 800; i++)
        at += (size_t)snprintf(body + at, sizeof body - at, "\xf0\x9f\x90\x8d");
    snprintf(body + at, sizeof body - at, "\": 1}");
    check("execute", body, "unknown field '", NULL);
    check("execute", "{\"code\": \"1\", \"stream\": \"a\\u0000\\u001b[31mb\"}", "the string 'a",
          NULL);
    snprintf(body, sizeof body, "{\"code\": \"1\", \"session\": \"%0300d\"}", 1);
    check("execute", body, "has 300 characters, but may have at most 128", NULL);
}

static void test_a_limit_follows_the_configuration(void **state)
{
    (void)state;
    config.timeout_max_ms = 5000;
    config.wall_ms = 7000;
    check("execute", "{\"code\": \"1\", \"timeout\": 7}", NULL, NULL); // the default is allowed
    check("execute", "{\"code\": \"1\", \"timeout\": 7.5}", "at most 7", NULL);
}

// ---- routes -------------------------------------------------------------------------------------

static void find(enum http_method method, const char *path, enum route_found want,
                 const char *operation, const char *id, const char *file)
{
    struct route_match m;
    unsigned allow;
    enum route_found found = route_find(&rest_table, method, path, strlen(path), &m, &allow);
    if (found != want)
        fail_msg("%s: %d, not %d", path, (int)found, (int)want);
    if (want != ROUTE_FOUND)
        return;
    assert_string_equal(m.route->operation, operation);
    assert_string_equal(m.id, id);
    assert_string_equal(m.path, file);
}

static void test_paths(void **state)
{
    (void)state;
    find(HTTP_POST, "/api/v1/execute", ROUTE_FOUND, "execute", "", "");
    find(HTTP_POST, "/api/v1/execute/", ROUTE_FOUND, "execute", "", "");
    find(HTTP_GET, "/api/v1/execute", ROUTE_METHOD, NULL, NULL, NULL);
    find(HTTP_HEAD, "/api/v1/sessions", ROUTE_FOUND, "list_sessions", "", "");
    find(HTTP_GET, "/api/v1/sessions/a%2Fb", ROUTE_FOUND, "get_session", "a/b", "");
    find(HTTP_GET, "/api/v1/sessions/a%20b%C3%A9/files", ROUTE_FOUND, "list_files", "a b\xc3\xa9",
         "");
    find(HTTP_GET, "/api/v1/sessions/a/files/", ROUTE_FOUND, "list_files", "a", "");
    find(HTTP_GET, "/api/v1/sessions/a/files/b", ROUTE_FOUND, "read_file", "a", "b");
    find(HTTP_PUT, "/api/v1/sessions/a/files/b/c%2Fd%20e", ROUTE_FOUND, "write_file", "a",
         "b/c/d e");
    // What they mean is for scratch_path() to say.
    find(HTTP_PUT, "/api/v1/sessions/a/files/../x", ROUTE_FOUND, "write_file", "a", "../x");
    find(HTTP_PUT, "/api/v1/sessions/a/files//x", ROUTE_FOUND, "write_file", "a", "/x");
    find(HTTP_POST, "/api/v1/sessions/a/files", ROUTE_METHOD, NULL, NULL, NULL);
    find(HTTP_GET, "/api/v1", ROUTE_UNKNOWN, NULL, NULL, NULL);
    find(HTTP_GET, "/api/v1/", ROUTE_UNKNOWN, NULL, NULL, NULL);
    find(HTTP_GET, "/api/v1/sessions//files", ROUTE_UNKNOWN, NULL, NULL, NULL);
    find(HTTP_GET, "/api/v1//sessions", ROUTE_UNKNOWN, NULL, NULL, NULL);
    find(HTTP_GET, "/api/v1/sessionsx", ROUTE_UNKNOWN, NULL, NULL, NULL);
    find(HTTP_GET, "/api/v1/sessions/a/filesx", ROUTE_UNKNOWN, NULL, NULL, NULL);
    find(HTTP_GET, "/api/v2/sessions", ROUTE_UNKNOWN, NULL, NULL, NULL);
    find(HTTP_GET, "", ROUTE_UNKNOWN, NULL, NULL, NULL);
    find(HTTP_GET, "/api/v1/sessions/%", ROUTE_ENCODING, NULL, NULL, NULL);
    find(HTTP_GET, "/api/v1/sessions/%g1", ROUTE_ENCODING, NULL, NULL, NULL);
    find(HTTP_GET, "/api/v1/sessions/a%00b", ROUTE_ENCODING, NULL, NULL, NULL);
    find(HTTP_GET, "/api/v1/sessions/a/files/x%0Ay", ROUTE_ENCODING, NULL, NULL, NULL);
    find(HTTP_GET, "/api/v1/sessions/a/files/x%7F", ROUTE_ENCODING, NULL, NULL, NULL);
    find(HTTP_GET, "/api/v1/sessions/a/files/x%2", ROUTE_ENCODING, NULL, NULL, NULL);
}

static void test_long_paths(void **state)
{
    (void)state;
    char path[8192];
    struct route_match m;
    unsigned allow;
    snprintf(path, sizeof path, "/api/v1/sessions/%0127d%%F0%%9F%%90%%8D", 1);
    assert_int_equal(route_find(&rest_table, HTTP_GET, path, strlen(path), &m, &allow),
                     ROUTE_FOUND);
    snprintf(path, sizeof path, "/api/v1/sessions/%0128d%%F0%%9F%%90%%8D", 1);
    assert_int_equal(route_find(&rest_table, HTTP_GET, path, strlen(path), &m, &allow),
                     ROUTE_TOO_LONG);
    snprintf(path, sizeof path, "/api/v1/sessions/a/files/%01024d", 1);
    assert_int_equal(route_find(&rest_table, HTTP_GET, path, strlen(path), &m, &allow),
                     ROUTE_FOUND);
    snprintf(path, sizeof path, "/api/v1/sessions/a/files/%01025d", 1);
    assert_int_equal(route_find(&rest_table, HTTP_GET, path, strlen(path), &m, &allow),
                     ROUTE_TOO_LONG);
}

static void test_allow_names_every_method_of_a_path(void **state)
{
    (void)state;
    static const char path[] = "/api/v1/sessions/a/files/b";
    struct route_match m;
    unsigned allow = 0;
    assert_int_equal(route_find(&rest_table, HTTP_POST, path, strlen(path), &m, &allow),
                     ROUTE_METHOD);
    assert_int_equal(allow, HTTP_GET | HTTP_HEAD | HTTP_PUT | HTTP_DELETE);
}

// Ends of the buffer, not of a string.
static void test_paths_are_not_read_beyond_their_end(void **state)
{
    (void)state;
    static const char path[] = "/api/v1/sessions/a/files/b%41";
    for (size_t n = 0; n < sizeof path; n++) {
        _cleanup_free_ char *copy = malloc(n ? n : 1);
        struct route_match m;
        unsigned allow;
        memcpy(copy, path, n);
        (void)route_find(&rest_table, HTTP_GET, copy, n, &m, &allow);
    }
}

// ---- the OpenAPI document -----------------------------------------------------------------------

static void check_references(json_t *document, json_t *value)
{
    const char *key;
    json_t *item;
    size_t i;
    json_array_foreach (value, i, item)
        check_references(document, item);
    json_object_foreach (value, key, item) {
        check_references(document, item);
        if (strcmp(key, "$ref") != 0)
            continue;
        char path[128], *rest = path, *part;
        json_t *at = document;
        snprintf(path, sizeof path, "%s", json_string_value(item) + 2);
        while ((part = strsep(&rest, "/")))
            at = json_object_get(at, part);
        if (!at)
            fail_msg("%s leads nowhere", json_string_value(item));
    }
}

static void test_the_document_is_the_tables(void **state)
{
    (void)state;
    json_t *document = openapi_json(rest_routes, &config, "http://127.0.0.1:8000");
    assert_non_null(document);
    check_references(document, document);
    size_t operations = 0;
    for (const struct rest_route *r = rest_routes; r->path; r++, operations++) {
        static const char *const methods[] = {
            [HTTP_GET] = "get", [HTTP_POST] = "post", [HTTP_DELETE] = "delete", [HTTP_PUT] = "put"};
        char path[128];
        snprintf(path, sizeof path, "/api/v1%s", r->path);
        json_t *operation = json_object_get(
            json_object_get(json_object_get(document, "paths"), path), methods[r->method]);
        assert_string_equal(json_string_value(json_object_get(operation, "operationId")),
                            r->operation);
        assert_non_null(r->handle);
        json_t *schema = json_object_get(
            json_object_get(json_object_get(json_object_get(operation, "requestBody"), "content"),
                            "application/json"),
            "schema");
        assert_int_equal(schema != NULL, r->fields != NULL);
        size_t count = 0;
        const struct field *f;
        struct field_walk w = FIELD_WALK(FIELDS(r->fields));
        for (; r->fields && (f = field_next(&w)); count++)
            assert_non_null(json_object_get(json_object_get(schema, "properties"), f->name));
        assert_int_equal(json_object_size(json_object_get(schema, "properties")), count);
    }
    assert_true(operations > 10);
    json_decref(document);
}

static void test_the_document_has_the_bounds_in_force(void **state)
{
    (void)state;
    config.timeout_max_ms = 90000;
    config.wall_ms = 20500;
    json_t *document = openapi_json(rest_routes, &config, "");
    json_t *schema = fields_schema(FIELDS(fields_of("execute")), &config);
    json_t *timeout = json_object_get(json_object_get(schema, "properties"), "timeout");
    assert_int_equal(json_integer_value(json_object_get(timeout, "maximum")), 90);
    assert_true(json_real_value(json_object_get(timeout, "default")) == 20.5);
    char *text = json_dumps(document, 0), *part = json_dumps(timeout, 0);
    assert_non_null(strstr(text, part));
    free(text);
    free(part);
    json_decref(schema);
    json_decref(document);
}

// ---- the lines of a stream ----------------------------------------------------------------------

static void test_no_half_characters(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t whole;
    } table[] = {
        {"", 0},
        {"ab", 2},
        {"\xc3\xa9", 2},
        {"a\xc3", 1},
        {"\xe2\x82", 0},
        {"\xe2\x82\xac", 3},
        {"a\xf0\x9f\x90", 1},
        {"\xf0\x9f\x90\x8d", 4},
        {"\xf0", 0},
        {"\x80\x80", 2},
        {"\xff", 1},
        {"\xc0", 1},
        {"\x80\x80\x80\x80", 4},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        assert_int_equal(ndjson_whole(table[i].text, strlen(table[i].text)), table[i].whole);
}

static json_t *messages_of(const char *object)
{
    json_t *o = json_loads(object, 0, NULL);
    assert_non_null(o);
    json_t *list = ndjson_messages(o);
    assert_non_null(list);
    json_decref(o);
    return list;
}

#define PNG_1X1                                                                                    \
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+"                                \
    "M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

static void test_messages(void **state)
{
    (void)state;
    json_t *list = messages_of(
        "{\"execution_id\": \"x\", \"verdict\": \"error\", \"success\": false, \"result\": null, "
        "\"error\": {\"type\": \"NameError\", \"message\": \"no\", \"line\": 3, \"text\": "
        "\"Traceback:\\n  File\\nNameError: no\\n\"}, \"files\": [{\"path\": \"a\"}], "
        "\"display\": [{\"image/png\": \"" PNG_1X1 "\", \"text/plain\": \"<Figure>\"}, "
        "{\"image/svg+xml\": \"<svg/>\"}, {\"text/html\": \"<b>\"}]}");
    assert_int_equal(json_array_size(list), 6);
    json_t *m = json_array_get(list, 0);
    assert_string_equal(json_string_value(json_object_get(m, "image")), PNG_1X1);
    assert_string_equal(json_string_value(json_object_get(m, "format")), "png");
    assert_int_equal(json_object_size(json_object_get(m, "display")), 1);
    m = json_array_get(list, 1);
    assert_string_equal(json_string_value(json_object_get(m, "image")), "PHN2Zy8+");
    assert_string_equal(json_string_value(json_object_get(m, "format")), "svg");
    m = json_array_get(list, 2);
    assert_null(json_object_get(m, "image"));
    assert_non_null(json_object_get(json_object_get(m, "display"), "text/html"));
    m = json_array_get(list, 3);
    assert_string_equal(json_string_value(json_object_get(m, "error")), "NameError: no");
    assert_int_equal(json_array_size(json_object_get(m, "traceback")), 3);
    assert_non_null(json_object_get(json_array_get(list, 4), "file"));
    m = json_array_get(list, 5);
    assert_string_equal(json_string_value(json_object_get(m, "verdict")), "error");
    assert_non_null(json_object_get(json_object_get(m, "execution"), "display"));
    assert_null(json_object_get(m, "error")); // a client that looks for it shows it twice
    json_decref(list);
}

static void test_failures_without_an_exception_have_words(void **state)
{
    (void)state;
    json_t *list =
        messages_of("{\"verdict\": \"timeout_wall\", \"success\": false, \"error\": null, "
                    "\"hint\": \"stopped after 1s\"}");
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "error")),
                        "timeout_wall: stopped after 1s");
    json_decref(list);
    list = messages_of(
        "{\"verdict\": \"error\", \"success\": false, \"exit_code\": 3, \"hint\": null}");
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "error")),
                        "SystemExit: exit status 3");
    json_decref(list);
    struct err e;
    (void)err_set(&e, ERR_BUSY, 0, "later", "too many");
    list = ndjson_refusal("id", &e);
    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "verdict")),
                        "lost");
    json_decref(list);
}

static void test_every_code_has_a_status(void **state)
{
    (void)state;
    for (int code = 0; code < ERR_CODE_MAX; code++) {
        struct err e = {.code = (enum err_code)code};
        int status = rest_status(&e);
        assert_true(status >= 400 && status <= 599);
    }
    struct err busy = {.code = ERR_BUSY}, ended = {.code = ERR_SESSION_ENDED};
    assert_int_equal(rest_status(&busy), 503);
    assert_int_equal(rest_status(&ended), 409);
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

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_bodies_that_fit),
        TEST(test_bodies_that_do_not_fit),
        TEST(test_foreign_text_in_messages_is_short_and_clean),
        TEST(test_a_limit_follows_the_configuration),
        TEST(test_paths),
        TEST(test_long_paths),
        TEST(test_allow_names_every_method_of_a_path),
        TEST(test_paths_are_not_read_beyond_their_end),
        TEST(test_the_document_is_the_tables),
        TEST(test_the_document_has_the_bounds_in_force),
        TEST(test_no_half_characters),
        TEST(test_messages),
        TEST(test_failures_without_an_exception_have_words),
        TEST(test_every_code_has_a_status),
        TEST(test_the_form_of_a_stream),
        TEST(test_problems),
        TEST(test_methods_of_a_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
