// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of mcp/tools/file_resources: URIs of files, as we write them and as others do; and
// what a server without a gate says about files.

#include "mcp_client.h"

#include <string.h>

#include "exec/exec_input.h"
#include "mcp/tools/file_resources.h"

static void check(const char *uri, const char *session, const char *path)
{
    char found_session[FILE_URI_SESSION_MAX + 1] = "?", found_path[SCRATCH_PATH_MAX + 1] = "?";
    int r = file_resources_parse_uri(uri, found_session, found_path);
    if (!session) {
        assert_int_equal(r, -1);
        return;
    }
    assert_int_equal(r, 0);
    assert_string_equal(found_session, session);
    assert_string_equal(found_path, path);
}

static void uris_are_read(void **state)
{
    (void)state;
    check("sandbox://ses_a/b.txt", "ses_a", "b.txt");
    check("sandbox://ses_a/b/c%20d.txt", "ses_a", "b/c d.txt");
    check("sandbox://ses_a/b%2Fc%2fd", "ses_a", "b/c/d");
    check("sandbox://my%20name/b", "my name", "b");
    check("sandbox://a/%C3%A9", "a", "\xc3\xa9");
    check("sandbox://a//mnt/data/x", "a", "x");
    check("sandbox://a/./x//y", "a", "x/y");
    check("sandbox://a/100%25", "a", "100%");
}

static void what_is_none_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "sandbox:/",
        "sandbox://",
        "sandbox://a",
        "sandbox://a/",
        "sandbox:///x",
        "Sandbox://a/x",
        "run://a/x",
        "sandbox://a/%",
        "sandbox://a/%2",
        "sandbox://a/%zz",
        "sandbox://a/%2z",
        "sandbox://a/%00",
        "sandbox://a/x%00y",
        "sandbox://%00/x",
        "sandbox://%/x",
        "sandbox://%ff/x",
        "sandbox://a/..",
        "sandbox://a/../x",
        "sandbox://a/b/../../x",
        "sandbox://a/%2e%2e/x",
        "sandbox://a/%2e%2e%2fx",
        "sandbox://a//etc/passwd",
        "sandbox://a/%ff",
        "sandbox://a/x%0ay",
        "sandbox://a/%1b",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check(bad[i], NULL, NULL);
}

static void long_ones_are_bounded(void **state)
{
    char uri[FILE_URI_MAX * 2], text[SCRATCH_PATH_MAX * 2];
    (void)state;
    for (size_t length = FILE_URI_SESSION_MAX - 1; length < FILE_URI_SESSION_MAX + 3; length++) {
        memset(text, 'p', length);
        text[length] = '\0';
        snprintf(uri, sizeof uri, "sandbox://%s/x", text);
        check(uri, length <= FILE_URI_SESSION_MAX ? text : NULL, "x");
    }
    // Folders of 100 bytes each, up to the longest path and beyond.
    memset(text, 'd', sizeof text);
    for (size_t i = 100; i < sizeof text; i += 101)
        text[i] = '/';
    for (size_t length = SCRATCH_PATH_MAX - 2; length < SCRATCH_PATH_MAX + 3; length++) {
        snprintf(uri, sizeof uri, "sandbox://a/%.*s", (int)length, text);
        char path[SCRATCH_PATH_MAX * 2];
        snprintf(path, sizeof path, "%.*s", (int)length, text);
        check(uri, length <= SCRATCH_PATH_MAX ? "a" : NULL, path);
    }
}

// Whatever a path is made of comes back.
static void what_is_written_is_read(void **state)
{
    static const char *const paths[] = {
        "a",   "a/b",  "a b",       "100%", "%41", "a?b#c", "\xc3\xa9/\xe2\x82\xac",
        "[x]", "a\\b", "a:b@c;d=e",
    };
    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char uri[FILE_URI_MAX];
        exec_file_uri("ses_x", paths[i], uri, sizeof uri);
        check(uri, "ses_x", paths[i]);
        assert_null(strpbrk(uri, " \\[]\"<>^`{|}"));
    }
}

// ---- without a gate -----------------------------------------------------------------------------

static void nothing_can_be_read_without_a_gate(void **state)
{
    static const char *const names[] = {"open_session", "list_sessions", "list_files"};
    (void)state;
    json_t *error = client_ask("", "resources/read", json_pack("{s:s}", "uri", "sandbox://a/b"));
    assert_int_equal(client_code(error), MCP_INVALID_PARAMS);
    assert_false(file_resources_exist(&client_mcp, "sandbox://a/b", ""));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *result =
            client_ask("", "tools/call",
                       json_pack("{s:s, s:o}", "name", names[i], "arguments",
                                 i == 2 ? json_pack("{s:s}", "session", "a") : json_object()));
        assert_true(json_is_true(json_object_get(result, "isError")));
        json_decref(result);
    }
}

// The sanitizers see what an answer that comes at once leaves behind.
static void nothing_can_be_checked_without_a_gate(void **state)
{
    (void)state;
    json_t *result =
        client_ask("", "tools/call",
                   json_pack("{s:s, s:{s:s}}", "name", "validate_code", "arguments", "code", "1"));
    assert_true(json_is_true(json_object_get(result, "isError")));
    json_decref(result);
}

static void completion_without_a_gate_is_empty(void **state)
{
    (void)state;
    json_t *found = file_resources_complete(&client_mcp, "", "session", "", NULL);
    assert_int_equal(json_array_size(found), 0);
    json_decref(found);
    found = file_resources_complete(&client_mcp, "", "path", "", "x");
    assert_int_equal(json_array_size(found), 0);
    json_decref(found);
    assert_null(file_resources_complete(&client_mcp, "", "nothing", "", NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uris_are_read),
        cmocka_unit_test(what_is_none_is_refused),
        cmocka_unit_test(long_ones_are_bounded),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test_setup_teardown(nothing_can_be_read_without_a_gate, client_begin,
                                        client_finish),
        cmocka_unit_test_setup_teardown(nothing_can_be_checked_without_a_gate, client_begin,
                                        client_finish),
        cmocka_unit_test_setup_teardown(completion_without_a_gate_is_empty, client_begin,
                                        client_finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
