// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of mcp/protocol/rpc: what is a message, of which era, and which error belongs to what
// is none.

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "mcp/protocol/rpc.h"

static int read_text(const char *text, struct rpc_message *m, struct rpc_refusal *no)
{
    return rpc_read(text, strlen(text), m, no);
}

static void assert_refused(const char *text, int code)
{
    struct rpc_message m;
    struct rpc_refusal no;
    assert_int_equal(read_text(text, &m, &no), -1);
    assert_int_equal(no.code, code);
    assert_true(no.status == 400);
    json_t *o = rpc_refusal_json(&no);
    assert_non_null(o);
    assert_non_null(json_object_get(o, "id"));
    json_decref(o);
    rpc_refusal_clear(&no);
}

static void kinds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum rpc_kind kind;
    } rows[] = {
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", RPC_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\",\"params\":{}}", RPC_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", RPC_NOTIFICATION},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", RPC_RESPONSE},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,\"message\":\"\"}}", RPC_RESPONSE},
        {"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", RPC_BATCH},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rpc_message m;
        struct rpc_refusal no;
        assert_int_equal(read_text(rows[i].text, &m, &no), 0);
        assert_int_equal(m.kind, rows[i].kind);
        assert_false(m.modern);
        rpc_message_clear(&m);
    }
}

// JSON has numbers that we cannot hold.  Its sender waits for the answer to a request, so that is
// named.
static void a_number_that_is_too_large_is_of_its_request(void **state)
{
    (void)state;
    static const struct {
        const char *id, *answer;
    } rows[] = {{"7", "7"}, {"\"a\"", "\"a\""}, {"-3", "-3"}, {"[1]", "null"}, {"1.5", "null"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[200];
        struct rpc_message m;
        struct rpc_refusal no;
        snprintf(text, sizeof text,
                 "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"a\",\"params\":{\"x\":1%040d}}",
                 rows[i].id, 0);
        assert_int_equal(read_text(text, &m, &no), -1);
        json_t *o = rpc_refusal_json(&no);
        char *id = json_dumps(json_object_get(o, "id"), JSON_ENCODE_ANY);
        assert_string_equal(id, rows[i].answer);
        assert_non_null(strstr(no.message, "too large"));
        free(id);
        json_decref(o);
        rpc_refusal_clear(&no);
    }
}

static void what_is_no_message_has_its_error(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int code;
    } rows[] = {
        {"", MCP_PARSE_ERROR},
        {"{", MCP_PARSE_ERROR},
        {"\xff\xfe", MCP_PARSE_ERROR},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}", MCP_PARSE_ERROR},
        {"{\"jsonrpc\":\"2.0\",\"id\":99999999999999999999,\"method\":\"ping\"}",
         MCP_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1e999,\"method\":\"ping\"}", MCP_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{\"x\":1e999}}",
         MCP_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{\"x\":99999999999999999999}}",
         MCP_INVALID_PARAMS},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"} x", MCP_PARSE_ERROR},
        {"\"text\"", MCP_PARSE_ERROR},
        {"[]", MCP_INVALID_REQUEST},
        {"{}", MCP_INVALID_REQUEST},
        {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", MCP_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", MCP_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", MCP_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"a\\u0000b\",\"method\":\"ping\"}", MCP_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", MCP_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\\u0000b\"}", MCP_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\"}", MCP_INVALID_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":[1]}", MCP_INVALID_PARAMS},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{\"_meta\":1}}",
         MCP_INVALID_PARAMS},
        {"{\"jsonrpc\":\"2.0\",\"result\":{}}", MCP_INVALID_REQUEST},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_refused(rows[i].text, rows[i].code);
}

static void depth_and_size_are_bounded(void **state)
{
    (void)state;
    enum { DEEP = 100000, MANY = 300000 };
    char *text = malloc(DEEP + 1);
    assert_non_null(text);
    memset(text, '[', DEEP);
    text[DEEP] = '\0';
    assert_refused(text, MCP_INVALID_REQUEST);
    free(text);
    text = malloc(MANY + 3);
    assert_non_null(text);
    text[0] = '[';
    for (int i = 0; i < MANY; i += 2) {
        text[1 + i] = '0';
        text[2 + i] = ',';
    }
    text[MANY] = ']';
    text[MANY + 1] = '\0';
    assert_refused(text, MCP_INVALID_REQUEST);
    free(text);
    // Brackets in a string are no nesting.
    char brackets[1200];
    memset(brackets, '[', 1000);
    brackets[1000] = '\0';
    char whole[1400];
    snprintf(whole, sizeof whole,
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{\"code\":\"\\\"%s\"}}",
             brackets);
    struct rpc_message m;
    struct rpc_refusal no;
    assert_int_equal(read_text(whole, &m, &no), 0);
    rpc_message_clear(&m);
}

#define MODERN(version, capabilities)                                                              \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":"               \
    "{\"io.modelcontextprotocol/protocolVersion\":" version capabilities "}}}"

static void the_new_era(void **state)
{
    (void)state;
    static const char can[] = ",\"io.modelcontextprotocol/clientCapabilities\":{}";
    static const struct {
        const char *version;
        bool can;
        int code; // 0: served
    } rows[] = {
        {"\"2026-07-28\"", true, 0},
        {"\"2026-07-28\"", false, MCP_INVALID_PARAMS},
        {"7", true, MCP_INVALID_PARAMS},
        {"\"2025-11-25\"", true, MCP_UNSUPPORTED_VERSION},
        {"\"1999-01-01\"", true, MCP_UNSUPPORTED_VERSION},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rpc_message m;
        struct rpc_refusal no;
        enum mcp_version version = MCP_VERSION_MAX;
        char text[512];
        snprintf(text, sizeof text, MODERN("%s", "%s"), rows[i].version, rows[i].can ? can : "");
        assert_int_equal(read_text(text, &m, &no), 0);
        assert_true(m.modern);
        int r = rpc_check_modern(&m, &version, &no);
        assert_int_equal(r, rows[i].code ? -1 : 0);
        if (rows[i].code) {
            assert_int_equal(no.code, rows[i].code);
            assert_true(json_equal(no.id, m.id));
            rpc_refusal_clear(&no);
        } else {
            assert_int_equal(version, MCP_2026_07_28);
        }
        rpc_message_clear(&m);
    }
}

static void an_unsupported_version_is_told_which_are(void **state)
{
    (void)state;
    struct rpc_message m;
    struct rpc_refusal no;
    enum mcp_version version;
    assert_int_equal(
        read_text(MODERN("\"2027-01-01\"", ",\"io.modelcontextprotocol/clientCapabilities\":{}"),
                  &m, &no),
        0);
    assert_int_equal(rpc_check_modern(&m, &version, &no), -1);
    json_t *expected =
        json_pack("{s:[s], s:s}", "supported", "2026-07-28", "requested", "2027-01-01");
    assert_true(json_equal(no.data, expected));
    json_decref(expected);
    rpc_refusal_clear(&no);
    rpc_message_clear(&m);
}

// The beginning of a line that is too long to be read.
static void the_id_of_half_a_request(void **state)
{
    (void)state;
    static const struct {
        const char *text, *id; // id as JSON; NULL: none
    } rows[] = {
        {"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"a\":\"xxx", "7"},
        {" {\"id\" : \"a\\u0062\" , \"method\":\"m\",\"params\":[[[", "\"ab\""},
        {"{\"method\":\"m\",\"params\":{\"id\":1,\"b\":[{\"id\":2}]},\"id\":3}", "3"},
        {"{\"params\":{\"id\":1", NULL},
        {"{\"params\":{\"x\":\"\\\",\\\"id\\\":1,\"},\"method\":\"m\",\"id\":-4,", "-4"},
        {"{\"id\":7,\"result\":{\"a\":1},\"x", NULL}, // an answer
        {"{\"method\":\"m\",\"id\":12", NULL},        // 12 or 123
        {"{\"id\":\"12", NULL},
        {"{\"method\":\"m\",\"id\":1,\"id\":2,", NULL},
        {"{\"method\":\"m\",\"id\":1,\"i\\u0064\":2,", NULL},
        {"{\"method\":\"m\",\"id\":null,", NULL},
        {"{\"method\":\"m\",\"id\":1.5,", NULL},
        {"{\"method\":\"m\",\"id\":true,", NULL},
        {"{\"method\":\"m\",\"id\":{},", NULL},
        {"{\"method\":\"m\",\"id\":99999999999999999999999,", NULL},
        {"{\"id\" 1,", NULL},
        {"[{\"id\":1,", NULL},
        {"\"id\":1,", NULL},
        {"{", NULL},
        {"", NULL},
        {"{\"id", NULL},
        {"{\"id\\", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t length = strlen(rows[i].text);
        char *copy = malloc(length + 1); // so that the sanitizer sees its end
        memcpy(copy, rows[i].text, length);
        copy = realloc(copy, length ? length : 1);
        json_t *id = rpc_peek_id(copy, length);
        char *found = id ? json_dumps(id, JSON_ENCODE_ANY) : NULL;
        if ((found != NULL) != (rows[i].id != NULL) || (found && strcmp(found, rows[i].id) != 0))
            fail_msg("%s: %s", rows[i].text, found ? found : "none");
        free(found);
        free(copy);
        json_decref(id);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds),
        cmocka_unit_test(what_is_no_message_has_its_error),
        cmocka_unit_test(a_number_that_is_too_large_is_of_its_request),
        cmocka_unit_test(depth_and_size_are_bounded),
        cmocka_unit_test(the_id_of_half_a_request),
        cmocka_unit_test(the_new_era),
        cmocka_unit_test(an_unsupported_version_is_told_which_are),
    };
    return cmocka_run_group_tests_name("rpc", tests, NULL, NULL);
}
