// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of mcp/transport/headers: the values of headers, and which requests are refused for
// them.

#include "unit.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "mcp/transport/headers.h"

// ---- a request of our own -----------------------------------------------------------------------

struct pair {
    const char *name, *value;
};

// `of` is an array that ends with a row without a name.
static unsigned get(const void *of, const char *name, const char **ret)
{
    unsigned count = 0;
    for (const struct pair *p = of; p->name; p++)
        if (strcasecmp(p->name, name) == 0) {
            if (!count)
                *ret = p->value;
            count++;
        }
    return count;
}

#define HEADERS(...)                                                                               \
    (struct headers)                                                                               \
    {                                                                                              \
        get, (const struct pair[])                                                                 \
        {                                                                                          \
            __VA_ARGS__                                                                            \
            {                                                                                      \
                NULL, NULL                                                                         \
            }                                                                                      \
        }                                                                                          \
    }

// The code of the refusal, 0: none.
static int code_of(int r, struct rpc_refusal *no)
{
    if (r == 0)
        return 0;
    assert_int_equal(r, -1);
    assert_true(no->message[0]);
    if (no->code == MCP_HEADER_MISMATCH)
        assert_int_equal(no->status, 400);
    rpc_refusal_clear(no);
    return no->code;
}

// ---- values -------------------------------------------------------------------------------------

static void assert_decodes(const char *value, const char *expected)
{
    char *text = NULL;
    size_t length = 77;
    assert_int_equal(header_decode(value, &text, &length), 0);
    assert_int_equal(length, strlen(expected));
    assert_string_equal(text, expected);
    free(text);
}

static void assert_invalid(const char *value)
{
    char *text = NULL;
    size_t length;
    assert_int_equal(header_decode(value, &text, &length), -EINVAL);
    assert_null(text);
}

static void test_plain_values(void **state)
{
    (void)state;
    assert_decodes("", "");
    assert_decodes("us-west1", "us-west1");
    assert_decodes(" \t us west \t ", "us west");
    assert_decodes("a\tb", "a\tb");
    assert_invalid("gr\xc3\xbc\xc3\x9f"); // must be encoded
    assert_invalid("a\x7f");
    assert_invalid("a\x01");
    assert_invalid("a\nb");
}

static void test_encoded_values(void **state)
{
    (void)state;
    assert_decodes("=?base64?SGVsbG8=?=", "Hello");
    assert_decodes("  =?base64?SGVsbG8=?=  ", "Hello");
    assert_decodes("=?base64?"
                   "?=",
                   ""); // apart, or it is a trigraph
    assert_decodes("=?base64?SGVsbG8sIOS4lueVjA==?=", "Hello, \xe4\xb8\x96\xe7\x95\x8c");
    assert_decodes("=?base64?IHBhZGRlZCA=?=", " padded ");
    assert_decodes("=?base64?bGluZTEKbGluZTI=?=", "line1\nline2");
    assert_decodes("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "=?base64?literal?=");
    char *text;
    size_t length;
    assert_int_equal(header_decode("=?base64?AABB?=", &text, &length), 0);
    assert_int_equal(length, 3);
    assert_memory_equal(text, "\0\0A", 3);
    free(text);
}

static void test_what_only_looks_encoded(void **state)
{
    (void)state;
    assert_decodes("SGVsbG8=", "SGVsbG8=");
    assert_decodes("=?base64?SGVsbG8=", "=?base64?SGVsbG8=");
    assert_decodes("SGVsbG8=?=", "SGVsbG8=?=");
    assert_decodes("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="); // the mark is lower case
    assert_decodes("=?base64?=", "=?base64?=");                   // the two marks overlap
}

static void test_bad_base64(void **state)
{
    static const char *const bad[] = {
        "=?base64?SGVsbG8?=",     // padding is missing
        "=?base64?SGVsbG8==?=",   // too much of it
        "=?base64?SGVs!!!bG8=?=", // not of the alphabet
        "=?base64?SGVs bG8=?=",   // a blank
        "=?base64?SGVsbG9=?=",    // bits that no byte takes
        "=?base64?QR==?=",        // the same, two digits
        "=?base64?QQ==QQ==?=",    // padding in the middle
        "=?base64?QQ=A?=",        // the same, within a group
        "=?base64?====?=",        // nothing but padding
        "=?base64?A===?=",        // half a byte
        "=?base64?_-8=?=",        // the alphabet of URLs
        "=?base64?//8=?=",        // ff ff: not UTF-8
        "=?base64?7aCA?=",        // a surrogate
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_invalid(bad[i]);
}

// ---- standard headers ---------------------------------------------------------------------------

static struct rpc_message message(const char *text)
{
    struct rpc_message m;
    struct rpc_refusal no;
    assert_int_equal(rpc_read(text, strlen(text), &m, &no), 0);
    return m;
}

#define CALL                                                                                       \
    "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\","       \
    "\"_meta\":{\"" MCP_META_VERSION "\":\"2026-07-28\"}}}"

static const struct mcp_method call_row = {.name = "tools/call", .name_param = "name"},
                               list_row = {.name = "tools/list"};

static int standard(const char *text, const struct mcp_method *row, struct headers headers)
{
    struct rpc_message m = message(text);
    struct rpc_refusal no;
    int code = code_of(headers_check_standard(&headers, &m, row, &no), &no);
    rpc_message_clear(&m);
    return code;
}

#define VERSION {"MCP-Protocol-Version", "2026-07-28"},

static void test_standard_headers(void **state)
{
    (void)state;
    int no = MCP_HEADER_MISMATCH;
#define CHECK(expected, ...)                                                                       \
    assert_int_equal(standard(CALL, &call_row, HEADERS(__VA_ARGS__)), expected)
    CHECK(0, VERSION{"Mcp-Method", "tools/call"}, {"Mcp-Name", "echo"}, );
    CHECK(0, VERSION{"mcp-method", "tools/call"}, {"MCP-NAME", " echo\t"}, );
    CHECK(0, VERSION{"Mcp-Method", "tools/call"}, {"Mcp-Name", "=?base64?ZWNobw==?="}, );
    CHECK(no, {"Mcp-Method", "tools/call"}, {"Mcp-Name", "echo"}, ); // no version
    CHECK(no, VERSION{"Mcp-Name", "echo"}, );                        // no method
    CHECK(no, VERSION{"Mcp-Method", "tools/call"}, );                // no name
    CHECK(no, VERSION{"Mcp-Method", "TOOLS/CALL"}, {"Mcp-Name", "echo"}, );
    CHECK(no, VERSION{"Mcp-Method", "tools/list"}, {"Mcp-Name", "echo"}, );
    CHECK(no, VERSION{"Mcp-Method", "tools/call"}, {"Mcp-Name", "Echo"}, );
    CHECK(no, VERSION{"Mcp-Method", "tools/call"}, {"Mcp-Name", "=?base64?ZWNobw?="}, );
    // SECURITY: two that differ are two routes.
    CHECK(no, VERSION{"Mcp-Method", "tools/call"}, {"Mcp-Name", "echo"}, {"mcp-name", "other"}, );
    CHECK(no, VERSION{"Mcp-Method", "tools/call"}, {"Mcp-Method", "tools/call"},
          {"Mcp-Name", "echo"}, );
#undef CHECK
    // A method without a name needs none, and one that is there does not matter.
    static const char list[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}";
    assert_int_equal(standard(list, &list_row, HEADERS(VERSION{"Mcp-Method", "tools/list"}, )), 0);
    // A body without the name is refused by the handler, unless the header has one.
    static const char nameless[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\","
                                   "\"params\":{\"name\":5}}";
    assert_int_equal(standard(nameless, &call_row, HEADERS(VERSION{"Mcp-Method", "tools/call"}, )),
                     0);
    assert_int_equal(standard(nameless, &call_row,
                              HEADERS(VERSION{"Mcp-Method", "tools/call"}, {"Mcp-Name", "5"}, )),
                     no);
}

static void test_version_header(void **state)
{
    (void)state;
    struct rpc_message m = message(CALL);
    struct rpc_refusal no;
    struct headers none = HEADERS(), same = HEADERS(VERSION),
                   other = HEADERS({"MCP-Protocol-Version", "2025-11-25"}, ),
                   twice = HEADERS(VERSION VERSION);
    assert_int_equal(headers_check_version(&none, &m, &no), 0);
    assert_int_equal(headers_check_version(&same, &m, &no), 0);
    assert_int_equal(code_of(headers_check_version(&other, &m, &no), &no), MCP_HEADER_MISMATCH);
    assert_int_equal(code_of(headers_check_version(&twice, &m, &no), &no), MCP_HEADER_MISMATCH);
    // The refusal carries the id of the request.
    assert_int_equal(headers_check_version(&other, &m, &no), -1);
    assert_int_equal(json_integer_value(no.id), 7);
    rpc_refusal_clear(&no);
    rpc_message_clear(&m);
}

// ---- mirrored arguments -------------------------------------------------------------------------

static const char schema_text[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"region\":{\"type\":\"string\",\"x-mcp-header\":\"Region\"},"
    "\"count\":{\"type\":\"integer\",\"x-mcp-header\":\"Count\"},"
    "\"dry\":{\"type\":\"boolean\",\"x-mcp-header\":\"Dry-Run\"},"
    "\"ratio\":{\"type\":\"number\",\"x-mcp-header\":\"Ratio\"},"
    "\"bad\":{\"type\":\"string\",\"x-mcp-header\":\"not a token\"},"
    "\"list\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"x-mcp-header\":\"Item\"}},"
    "\"deep\":{\"type\":\"object\",\"properties\":{"
    "\"tenant\":{\"type\":\"string\",\"x-mcp-header\":\"Tenant\"}}}}}";

static int params(const char *arguments, struct headers headers)
{
    json_t *schema = json_loads(schema_text, 0, NULL), *given = json_loads(arguments, 0, NULL);
    struct rpc_refusal no;
    assert_non_null(schema);
    assert_non_null(given);
    int code = code_of(headers_check_params(&headers, schema, given, &no), &no);
    json_decref(schema);
    json_decref(given);
    return code;
}

static void test_params(void **state)
{
    (void)state;
    int no = MCP_HEADER_MISMATCH;
#define CHECK(expected, arguments, ...)                                                            \
    assert_int_equal(params(arguments, HEADERS(__VA_ARGS__)), expected)
    CHECK(0, "{}");
    CHECK(0, "{\"region\":\"eu\"}", {"Mcp-Param-Region", "eu"}, );
    CHECK(0, "{\"region\":\"eu\"}", {"MCP-PARAM-REGION", " eu "}, );
    CHECK(0, "{\"region\":\"eu\"}", {"Mcp-Param-Region", "=?base64?ZXU=?="}, );
    CHECK(0, "{\"region\":\"\"}", {"Mcp-Param-Region", ""}, );
    CHECK(no, "{\"region\":\"eu\"}");
    CHECK(no, "{\"region\":\"eu\"}", {"Mcp-Param-Region", "EU"}, );
    CHECK(no, "{\"region\":\"eu\"}", {"Mcp-Param-Region", "=?base64?ZXU?="}, );
    CHECK(no, "{\"region\":\"eu\"}", {"Mcp-Param-Region", "eu"}, {"Mcp-Param-Region", "us"}, );
    CHECK(no, "{}", {"Mcp-Param-Region", "eu"}, );
    CHECK(0, "{\"region\":null}");
    CHECK(no, "{\"region\":null}", {"Mcp-Param-Region", "null"}, );
    CHECK(0, "{\"region\":[\"eu\"]}"); // the schema refuses it, as a tool error
    CHECK(no, "{\"region\":[\"eu\"]}", {"Mcp-Param-Region", "eu"}, );
    // A NUL byte in the argument does not end the comparison.
    CHECK(no, "{\"count\":1}", {"Mcp-Param-Count", "=?base64?MQAy?="}, );
    // Nested properties count; items do not, nor do types and names that the rules exclude.
    CHECK(0, "{\"deep\":{\"tenant\":\"a\"}}", {"Mcp-Param-Tenant", "a"}, );
    CHECK(no, "{\"deep\":{\"tenant\":\"a\"}}");
    CHECK(0, "{\"list\":[\"x\"],\"ratio\":1.5,\"bad\":\"x\"}", {"Mcp-Param-Item", "y"},
          {"Mcp-Param-Ratio", "2"}, );
    CHECK(0, "{}", {"Mcp-Param-Unknown", "x"}, );
#undef CHECK
}

static void test_typed_params(void **state)
{
    (void)state;
    static const struct {
        const char *argument, *header;
        bool same;
    } rows[] = {
        {"42", "42", true},       {"42", "42.0", true},
        {"42.0", "42", true},     {"-7", "-7", true},
        {"42", "042", true},      {"42", "43", false},
        {"42", "42.5", false},    {"42", "42.", false},
        {"42", "+42", false},     {"42", "4.2e1", false},
        {"42", "0x2a", false},    {"42", "", false},
        {"42", "-", false},       {"42", "42 42", false},
        {"42", "\"42\"", false},  {"9007199254740991", "9007199254740991", true},
        {"0", "inf", false},      {"0", "00000000000000000000000000000000000000000", false},
        {"0", "-0", true},        {"9007199254740993", "9007199254740992", false},
        {"true", "true", true},   {"true", "false", false},
        {"true", "TRUE", false},  {"true", "1", false},
        {"false", "false", true}, {"\"42\"", "42", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char arguments[64];
        snprintf(arguments, sizeof arguments, "{\"count\":%s}", rows[i].argument);
        int code = params(arguments, HEADERS({"Mcp-Param-Count", rows[i].header}, ));
        if (code != (rows[i].same ? 0 : MCP_HEADER_MISMATCH))
            fail_msg("argument %s, header '%s': %d", rows[i].argument, rows[i].header, code);
    }
}

// Foreign bytes in a message must not make the answer itself unreadable.
static void test_refusals_are_json(void **state)
{
    (void)state;
    struct rpc_message m = message(CALL);
    struct rpc_refusal no;
    char value[3000];
    memset(value, '\xff', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    struct headers h = HEADERS({"MCP-Protocol-Version", value}, );
    assert_int_equal(headers_check_version(&h, &m, &no), -1);
    json_t *body = rpc_refusal_json(&no);
    char *text = json_dumps(body, 0);
    assert_non_null(text);
    assert_true(strlen(text) < 1000);
    free(text);
    json_decref(body);
    rpc_refusal_clear(&no);
    rpc_message_clear(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_values),
        cmocka_unit_test(test_encoded_values),
        cmocka_unit_test(test_what_only_looks_encoded),
        cmocka_unit_test(test_bad_base64),
        cmocka_unit_test(test_standard_headers),
        cmocka_unit_test(test_version_header),
        cmocka_unit_test(test_params),
        cmocka_unit_test(test_typed_params),
        cmocka_unit_test(test_refusals_are_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
