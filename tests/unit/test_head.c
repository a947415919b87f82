// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of http/head: what counts as a request at all.

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "http/head.h"

#define OK "GET / HTTP/1.1\r\nHost: a\r\n"

// The status of the fault, 0: good, 1: not complete.
static int head_status(const char *data, size_t n, struct head *ret)
{
    struct head_scan scan = {0};
    struct head_fault fault = {0};
    ssize_t end = 0;
    char *copy = malloc(n ? n : 1); // of just its size
    memcpy(copy, data, n);
    // In pieces it must come to the same.
    for (size_t i = 1; i <= n && end == 0; i++)
        end = head_find_end(&scan, copy, i, &fault);
    int r = end == 0 ? 1 : end < 0 ? fault.status : 0;
    if (end > 0)
        r = head_parse(copy, (size_t)end, ret, &fault) < 0 ? fault.status : 0;
    free(copy);
    assert_true(r <= 1 || (fault.code && fault.message));
    return r;
}

static void heads(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
        int status;
    } rows[] = {
#define ROW(text, status) {text, sizeof(text) - 1, status}
        ROW(OK "\r\n", 0),
        ROW(OK, 1),
        ROW("", 1),
        ROW("GET / HTTP/1.0\r\nHost: a\r\n\r\n", 0),
        ROW("GET / HTTP/1.1\r\n\r\n", 400),
        ROW("GET / HTTP/1.0\r\n\r\n", 400),
        ROW("GET /health HTTP/1.0\r\n\r\n", 0),
        ROW("GET /health HTTP/1.1\r\n\r\n", 400),
        ROW("GET /health HTTP/1.0\r\nOrigin: http://a\r\n\r\n", 400),
        ROW("GET / HTTP/1.1\nHost: a\n\n", 400),
        ROW("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ROW("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 505),
        ROW(" GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ROW("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ROW("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        ROW("GET / HTTP/2.0\r\n\r\n", 505),
        ROW("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ROW(OK "X: a\r\n b\r\n\r\n", 400),
        ROW(OK "X: a\0b\r\n\r\n", 400),
        ROW(OK "X: a\rb\r\n\r\n", 400),
        ROW(OK "X : a\r\n\r\n", 400),
        ROW(OK "X\r\n\r\n", 400),
        ROW(OK ": a\r\n\r\n", 400),
        ROW(OK "X:\r\n\r\n", 0),
        ROW(OK "X: \xff\xfe\r\n\r\n", 0),
        ROW(OK "X: a\x7f\r\n\r\n", 400),
        ROW(OK "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400),
        ROW(OK "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ROW(OK "Content-Length: 0005\r\n\r\n", 0),
        ROW(OK "Content-Length: 5 5\r\n\r\n", 400),
        ROW(OK "Content-Length: 9999999999999999999\r\n\r\n", 400),
        ROW(OK "Transfer-Encoding: Chunked\r\n\r\n", 0),
        ROW(OK "Transfer-Encoding: chunked, identity\r\n\r\n", 501),
        ROW(OK "Mcp-Name: a\r\nMCP-NAME: a\r\n\r\n", 400),
        ROW(OK "Accept: a\r\nAccept: b\r\n\r\n", 0),
        ROW(OK "Expect: x\r\n\r\n", 417),
        ROW("HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", 400),
#undef ROW
    };
    struct head h;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int r = head_status(rows[i].text, rows[i].n, &h);
        if (r != rows[i].status)
            fail_msg("%s: %d instead of %d", rows[i].text, r, rows[i].status);
    }
    // At the limits.
    char *large = malloc(HEAD_MAX + 1);
    memset(large, 'a', HEAD_MAX + 1);
    memcpy(large, OK "X: ", sizeof OK + 2);
    memcpy(large + HEAD_MAX - 4, "\r\n\r\n", 4);
    assert_int_equal(head_status(large, HEAD_MAX, &h), 0);
    large[HEAD_MAX - 1] = 'a';
    assert_int_equal(head_status(large, HEAD_MAX, &h), 431);
    free(large);
}

static void chunked_bodies(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int result;
    } rows[] = {
        {"0\r\n\r\n", 1},
        {"3\r\nabc\r\n0\r\n\r\n", 1},
        {"A\r\n0123456789\r\n00\r\n\r\n", 1},
        {"3\r\nabc\r\n0\r\n", 0},
        {"", 0},
        {"+3\r\nabc\r\n0\r\n\r\n", -1},
        {"3;a=b\r\nabc\r\n0\r\n\r\n", -1},
        {"3 \r\nabc\r\n0\r\n\r\n", -1},
        {" 3\r\nabc\r\n0\r\n\r\n", -1},
        {"\r\n", -1},
        {"3\nabc", -1},
        {"3\r\nabcd", -1},
        {"0\r\nX: y\r\n\r\n", -1},
        {"00000000\r\n\r\n", 1},
        {"000000000\r\n\r\n", -1},
        {"65\r\n", -1}, // 101 bytes of 100
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (size_t step = 1; step < 4; step++) {
            struct chunks c = {.max = 100};
            struct head_fault fault;
            size_t n = strlen(rows[i].text), at = 0, used = 0;
            int r = 0;
            for (; r == 0 && at < n; at += step)
                r = chunks_feed(&c, rows[i].text + at, step < n - at ? step : n - at, &used,
                                &fault);
            if (r != rows[i].result)
                fail_msg("%s: %d instead of %d", rows[i].text, r, rows[i].result);
        }
}

static void lists(void **state)
{
    (void)state;
    static const char text[] = " a ,, b\t,c d,";
    static const char *const items[] = {"a", "b", "c d"};
    struct slice list = {text, sizeof text - 1}, item;
    for (size_t i = 0; i < ARRAY_LEN(items); i++) {
        assert_true(slice_next(&list, &item));
        assert_true(slice_is(item, items[i]));
    }
    assert_false(slice_next(&list, &item));
    list = (struct slice){NULL, 0};
    assert_false(slice_next(&list, &item));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads),
        cmocka_unit_test(chunked_bodies),
        cmocka_unit_test(lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
