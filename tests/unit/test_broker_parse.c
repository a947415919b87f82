// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of the broker's parsers: broker/hello, request, query, ask_words.

#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "broker/box_question.h"
#include "broker/box_question_parse.h"
#include "broker/query.h"
#include "broker/request.h"
#include "broker/tls_hello.h"
#include "client_hello.h"

// ---- hello --------------------------------------------------------------------------------------

static void test_a_hello_names_its_host(void **state)
{
    uint8_t data[32 * 1024];
    char name[NET_HOST_MAX + 1];
    (void)state;
    size_t n = hello_records("API.example.org", 100, 16384, data);
    assert_int_equal(tls_hello_read(data, n, name), TLS_HELLO_DONE);
    assert_string_equal(name, "api.example.org");
    n = hello_records(NULL, 0, 16384, data);
    assert_int_equal(tls_hello_read(data, n, name), TLS_HELLO_DONE);
    assert_string_equal(name, "");
}

static void test_a_hello_may_be_cut_anywhere(void **state)
{
    uint8_t data[64 * 1024];
    char name[NET_HOST_MAX + 1];
    (void)state;
    for (size_t size = 1; size < 400; size += 7) {
        size_t n = hello_records("a.example.org", 200, size, data);
        for (size_t k = 1; k < n; k++)
            assert_int_equal(tls_hello_read(data, k, name), TLS_HELLO_MORE);
        assert_int_equal(tls_hello_read(data, n, name), TLS_HELLO_DONE);
        assert_string_equal(name, "a.example.org");
    }
}

static void test_what_is_no_hello(void **state)
{
    static const char *const names[] = {"a b", "a\nb", "a..b", "-", "a/b", "1.2.3.4.5.6\x80"};
    uint8_t data[32 * 1024], copy[32 * 1024];
    char name[NET_HOST_MAX + 1];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        size_t n = hello_records(names[i], 0, 16384, data);
        assert_int_equal(tls_hello_read(data, n, name), TLS_HELLO_BAD);
    }
    size_t n = hello_records("a.example.org", 0, 16384, data);
    memcpy(copy, data, n);
    copy[5] = 2; // another message
    assert_int_equal(tls_hello_read(copy, n, name), TLS_HELLO_BAD);
    memcpy(copy, data, n);
    copy[3] = copy[4] = 0; // an empty record
    assert_int_equal(tls_hello_read(copy, n, name), TLS_HELLO_BAD);
    memcpy(copy, data, n);
    copy[0] = 23; // application data
    assert_int_equal(tls_hello_read(copy, n, name), TLS_HELLO_BAD);
    // Any length inside that does not fit.
    for (size_t i = 43; i < n; i++) {
        memcpy(copy, data, n);
        copy[i] = 0xff;
        (void)tls_hello_read(copy, n, name);
    }
    // Longer than any client sends.
    n = hello_records("a.example.org", 20000, 16384, data);
    assert_int_equal(tls_hello_read(data, TLS_HELLO_MAX, name), TLS_HELLO_BAD);
}

static void test_two_names_are_none(void **state)
{
    uint8_t data[4096];
    char name[NET_HOST_MAX + 1];
    (void)state;
    // The padding becomes a second server_name.
    size_t n = hello_records("a.example.org", 18, 16384, data);
    uint8_t *p = data + n - 18 - 4;
    p = hello_put(p, 0, 2);
    p = hello_put(p, 18, 2);
    p = hello_put(p, 16, 2);
    p = hello_put(p, 0, 1);
    p = hello_put(p, 13, 2);
    memcpy(p, "b.example.org", 13);
    assert_int_equal(tls_hello_read(data, n, name), TLS_HELLO_BAD);
}

// ---- request ------------------------------------------------------------------------------------

static struct request r;
static struct request_head head;
static const char *why;

static enum request_step next(const char *text, size_t *ret_used)
{
    return request_next(&r, (const uint8_t *)text, strlen(text), &head, ret_used, &why);
}

static void test_a_request_is_taken_apart(void **state)
{
    size_t used;
    static const char text[] = "GET /v1/a%20b?x=/../y HTTP/1.1\r\nHost: API.Example.org:8080\r\n"
                               "Accept: */*\r\n\r\nGET";
    (void)state;
    r = (struct request){0};
    assert_int_equal(next(text, &used), REQUEST_HEAD);
    assert_int_equal(used, sizeof text - 4);
    assert_string_equal(head.method, "GET");
    assert_string_equal(head.path, "/v1/a%20b");
    assert_string_equal(head.host, "api.example.org");
    assert_true(head.plain);
    assert_false(head.upgrade);
    assert_int_equal(next("GET", &used), REQUEST_MORE);
    assert_int_equal(used, 0);
}

static void test_bodies_end_where_they_say(void **state)
{
    size_t used;
    (void)state;
    r = (struct request){0};
    assert_int_equal(next("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", &used),
                     REQUEST_HEAD);
    assert_int_equal(next("abc", &used), REQUEST_BODY);
    assert_int_equal(used, 3);
    assert_int_equal(next("deGET", &used), REQUEST_BODY);
    assert_int_equal(used, 2);
    assert_int_equal(r.state, REQUEST_IN_HEAD);
    assert_int_equal(next("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", &used),
                     REQUEST_HEAD);
    static const char body[] = "5;x=y\r\nabcde\r\nA\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n";
    for (size_t i = 0; i < sizeof body - 1; i++) {
        char byte[2] = {body[i]};
        assert_int_equal(r.state != REQUEST_IN_HEAD, 1);
        assert_int_equal(next(byte, &used), REQUEST_BODY);
        assert_int_equal(used, 1);
    }
    assert_int_equal(r.state, REQUEST_IN_HEAD);
    assert_int_equal(next("GET / HTTP/1.0\r\nHost: a\r\n\r\n", &used), REQUEST_HEAD);
}

static void test_what_can_be_read_in_two_ways_is_refused(void **state)
{
    static const char *const bad[] = {
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET  / HTTP/1.1\r\n\r\n",
        "GET\t/ HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1 \r\n\r\n",
        "GET / HTTP/2.0\r\n\r\n",
        "GET http://other.test/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET //other.test\\@x#y HTTP/1.1\r\n\r\n",
        "GET a HTTP/1.1\r\n\r\n",
        "CONNECT other.test:443 HTTP/1.1\r\nHost: a\r\n\r\n",
        "CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\nGET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
        "GET / HTTP/1.1\r\nX: y\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nX: a\rb\r\n\r\n",
        "GET / HTTP/1.1\r\nX: a\x01\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: +5\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 5, 5\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n",
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nUpgrade: a\r\nUpgrade: b\r\n\r\n",
        "GET / HTTP/1.1\r\n: x\r\n\r\n",
        "GET / HTTP/1.1\r\nx\r\n\r\n",
    };
    size_t used;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        r = (struct request){0};
        if (next(bad[i], &used) != REQUEST_BAD)
            fail_msg("%s", bad[i]);
        assert_non_null(why);
    }
    static const char *const chunks[] = {
        "x\r\n",    "\r\n",   ";a\r\n",  "1\n",   "fffffffffffffffff\r\n",
        "1\r\nabc", "1 \r\n", "0\r\n\n", "-1\r\n"};
    for (size_t i = 0; i < ARRAY_LEN(chunks); i++) {
        r = (struct request){.state = REQUEST_IN_SIZE};
        if (next(chunks[i], &used) != REQUEST_BAD)
            fail_msg("%s", chunks[i]);
    }
}

static void test_a_head_without_end_is_refused(void **state)
{
    static uint8_t data[REQUEST_HEAD_MAX + 100];
    size_t used;
    (void)state;
    memset(data, 'a', sizeof data);
    memcpy(data, "GET / HTTP/1.1\r\nX: ", 19);
    r = (struct request){0};
    assert_int_equal(request_next(&r, data, REQUEST_HEAD_MAX - 1, &head, &used, &why),
                     REQUEST_MORE);
    assert_int_equal(request_next(&r, data, REQUEST_HEAD_MAX, &head, &used, &why), REQUEST_BAD);
}

static void test_paths_that_servers_read_differently(void **state)
{
    static const struct {
        const char *path;
        bool plain;
    } cases[] = {
        {"/", true},          {"/v1/x", true},      {"/v1/a.b", true},    {"/v1/.well", true},
        {"/v1/a%20b", true},  {"/v1/%C3%BC", true}, {"/v1/../a", false},  {"/v1/..", false},
        {"/v1/./a", false},   {"/v1//a", false},    {"/v1/..;/a", false}, {"/v1/%2e%2e/a", false},
        {"/v1/%2fa", false},  {"/v1/%5c", false},   {"/v1/\\a", false},   {"/%761", false},
        {"/v1/%252e", false}, {"/v1/%", false},     {"/v1/%0a", false},   {"/v1/%zz", false}};
    char text[200];
    size_t used;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", cases[i].path);
        r = (struct request){0};
        assert_int_equal(next(text, &used), REQUEST_HEAD);
        if (head.plain != cases[i].plain)
            fail_msg("%s", cases[i].path);
    }
}

static void test_the_first_bytes_tell_http(void **state)
{
    static const struct {
        const char *text;
        enum request_look look;
    } cases[] = {
        {"G", REQUEST_LOOK_MORE},
        {"GET /", REQUEST_LOOK_MORE},
        {"GET / HTTP/1.1\r", REQUEST_LOOK_MORE},
        {"GET / HTTP/1.1\r\n", REQUEST_LOOK_YES},
        {"get / http/1.0\n", REQUEST_LOOK_YES},
        {"FROB\t/ HTTP/1.1\r\n", REQUEST_LOOK_YES},
        {"PRI * HTTP/2.0\r\n", REQUEST_LOOK_YES},
        {" G(T\v/ HTTP/1.1 \r\n", REQUEST_LOOK_YES},
        {"HTTP/1.1 200 OK\r\n", REQUEST_LOOK_NO},
        {"x", REQUEST_LOOK_NO},
        {"hello", REQUEST_LOOK_NO},
        {"hello world", REQUEST_LOOK_NO},
        {"EHLO box\r\n", REQUEST_LOOK_NO},
        {"SSH-2.0-x y\r\n", REQUEST_LOOK_NO},
        {"GET key\r\n", REQUEST_LOOK_NO},
        {"*1\r\n$4\r\nPING\r\n", REQUEST_LOOK_NO},
        {"\x01\x02", REQUEST_LOOK_NO},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (request_look((const uint8_t *)cases[i].text, strlen(cases[i].text)) != cases[i].look)
            fail_msg("%s", cases[i].text);
}

// ---- query --------------------------------------------------------------------------------------

static void test_questions_to_the_resolver(void **state)
{
    static const uint8_t good[] = {1, 2,   1,   0,   0, 1,   0,   0, 0, 0, 0, 0,
                                   3, 'a', '.', 'c', 2, 'O', 'k', 0, 0, 1, 0, 1};
    struct query q;
    uint8_t copy[600], answer[QUERY_ANSWER_MAX];
    (void)state;
    assert_int_equal(query_read(good, sizeof good, &q), 0);
    assert_string_equal(q.name, "a\\046c.Ok"); // the dot inside a label is none between labels
    assert_int_equal(q.type, QUERY_A);
    size_t n = query_answer(&q, QUERY_OK, (const uint8_t[]){198, 18, 0, 1}, 30, answer);
    assert_int_equal(n, sizeof good + 16);
    assert_int_equal(answer[2] & 0x80, 0x80);
    assert_int_equal(answer[7], 1);
    for (size_t i = 0; i < sizeof good; i++) // cut off anywhere
        assert_int_not_equal(query_read(good, i, &q), 0);
    memcpy(copy, good, sizeof good);
    copy[12] = 0xc0; // a pointer
    assert_int_equal(query_read(copy, sizeof good, &q), QUERY_FORMAT);
    memcpy(copy, good, sizeof good);
    copy[5] = 2; // two questions
    assert_int_equal(query_read(copy, sizeof good, &q), QUERY_FORMAT);
    memcpy(copy, good, sizeof good);
    copy[2] = 0x81; // an answer
    assert_int_equal(query_read(copy, sizeof good, &q), -1);
    memcpy(copy, good, sizeof good);
    copy[23] = 3; // another class
    assert_int_equal(query_read(copy, sizeof good, &q), QUERY_NOT_DONE);
    // The longest name, and one byte more.
    memset(copy, 0, sizeof copy);
    copy[5] = 1;
    uint8_t *p = copy + 12;
    for (int i = 0; i < 4; i++) {
        *p = i < 3 ? 63 : 61;
        memset(p + 1, 0, *p);
        p += 1 + *p;
    }
    assert_int_equal(query_read(copy, 12 + 255 + 4, &q), QUERY_NOT_DONE); // class 0
    copy[12 + 3 * 64] = 62;
    assert_int_equal(query_read(copy, 12 + 256 + 4, &q), QUERY_FORMAT);
}

// ---- ask ----------------------------------------------------------------------------------------

static void test_questions_to_the_broker(void **state)
{
    static const struct {
        const char *text;
        int kind; // -1: none
    } cases[] = {
        {"why a.example.org", QUESTION_WHY},
        {"connect 198.18.0.1 443 wait", QUESTION_CONNECT},
        {"connect ::1 443 now", QUESTION_CONNECT},
        {"note udp 1.2.3.4 53", QUESTION_UDP},
        {"note raw 2 3 1", QUESTION_RAW},
        {"why", -1},
        {"why ", -1},
        {"why a b", -1},
        {" why a", -1},
        {"why  a", -1},
        {"connect 198.18.0.1 443", -1},
        {"connect 198.18.0.1 443 later", -1},
        {"connect 198.18.0.1 0 now", -1},
        {"connect 198.18.0.1 65536 now", -1},
        {"connect 0x7f.1 80 now", -1},
        {"connect host 80 now", -1},
        {"note udp 1.2.3.4", -1},
        {"note raw 2 3 1 4", -1},
        {"frob", -1},
        {"", -1},
    };
    char text[QUESTION_MAX + 1];
    struct box_question w;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        snprintf(text, sizeof text, "%s", cases[i].text);
        int k = box_question_parse(text, strlen(cases[i].text), &w) < 0 ? -1 : (int)w.kind;
        if (k != cases[i].kind)
            fail_msg("'%s': %d", cases[i].text, k);
    }
    memcpy(text, "why a\0b", 8);
    assert_int_equal(box_question_parse(text, 7, &w), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_hello_names_its_host),
        cmocka_unit_test(test_a_hello_may_be_cut_anywhere),
        cmocka_unit_test(test_what_is_no_hello),
        cmocka_unit_test(test_two_names_are_none),
        cmocka_unit_test(test_a_request_is_taken_apart),
        cmocka_unit_test(test_bodies_end_where_they_say),
        cmocka_unit_test(test_what_can_be_read_in_two_ways_is_refused),
        cmocka_unit_test(test_a_head_without_end_is_refused),
        cmocka_unit_test(test_paths_that_servers_read_differently),
        cmocka_unit_test(test_the_first_bytes_tell_http),
        cmocka_unit_test(test_questions_to_the_resolver),
        cmocka_unit_test(test_questions_to_the_broker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
