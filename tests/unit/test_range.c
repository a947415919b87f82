// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of files over HTTP: http/range, http_reply_file() of http/exchange, and the links and
// headers of rest/files.  A server and its clients on one loop, over real sockets.

#include "unit.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "http/door.h"
#include "rest/files.h"

static struct config config;
static struct event_base *base;
static struct http *server;
static struct sockaddr_in address;
static int file; // what is served
static uint64_t claimed;

static void serve(struct http_exchange *x, void *argument)
{
    (void)argument;
    http_serve_file(x, "text/x-test", dup(file), claimed, "\"tag\"");
}

static void serve_safely(struct http_exchange *x, void *argument)
{
    (void)argument;
    char type[64], name[300];
    assert_true(http_query(x, "type", type, sizeof type));
    assert_true(http_query(x, "name", name, sizeof name));
    rest_file_headers(x, name, type);
    http_serve_file(x, type, dup(file), claimed, NULL);
}

static const struct http_route routes[] = {
    {"/f", HTTP_GET | HTTP_HEAD | HTTP_POST, true, serve, NULL},
    {"/safe", HTTP_GET, true, serve_safely, NULL},
    {0},
};

static void set_file(const char *text)
{
    claimed = strlen(text);
    assert_int_equal(ftruncate(file, 0), 0);
    assert_int_equal(pwrite(file, text, claimed, 0), claimed);
}

static int begin(void **state)
{
    struct err e;
    socklen_t n = sizeof address;
    (void)state;
    config_init(&config);
    config.request_ms = 300;
    file = memfd_create("file", MFD_CLOEXEC); // on tmpfs, as those of boxes are
    set_file("0123456789");
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &n), 0);
    base = event_base_new();
    assert_int_equal(door_check_bind(&config, &e), 0);
    server = http_open(base, &config, fd, routes, &e);
    assert_non_null(server);
    return 0;
}

static int end(void **state)
{
    (void)state;
    http_close(server);
    event_base_free(base);
    return close(file);
}

static int client(const char *method, const char *path, const char *headers)
{
    char text[1024];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int n = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", method, path,
                     headers);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(send(fd, text, (size_t)n, MSG_NOSIGNAL), n);
    return fd;
}

// All that comes until `total` bytes are there, the server hangs up (then *ret_ended), or it says
// nothing.
static size_t hear(int fd, char *buf, size_t cap, size_t total, bool *ret_ended)
{
    size_t n = 0;
    int64_t silent_ms = clock_ms();
    *ret_ended = false;
    while (n < total && clock_ms() - silent_ms < 200) {
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
        ssize_t r = recv(fd, buf + n % cap, cap - n % cap, MSG_DONTWAIT);
        if (r > 0) {
            n += (size_t)r;
            silent_ms = clock_ms();
        } else if (r == 0 || errno != EAGAIN) {
            *ret_ended = true;
            break;
        }
    }
    return n;
}

static char answer[65536];

static const char *ask(const char *method, const char *path, const char *headers)
{
    bool ended;
    int fd = client(method, path, headers);
    size_t n = hear(fd, answer, sizeof answer - 1, sizeof answer - 1, &ended);
    answer[n] = '\0';
    assert_false(ended);
    (void)close(fd);
    for (int i = 0; i < 5; i++)
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
    return answer;
}

static const char *body_of(const char *text)
{
    const char *body = strstr(text, "\r\n\r\n");
    assert_non_null(body);
    return body + 4;
}

// ---- ranges -------------------------------------------------------------------------------------

static void one_range_is_answered_and_nonsense_ignored(void **state)
{
    (void)state;
    static const struct {
        const char *range;
        int status;
        const char *part, *body; // part: of Content-Range, NULL: none
    } cases[] = {
        {"bytes=0-0", 206, "bytes 0-0/10", "0"},
        {"bytes=2-4", 206, "bytes 2-4/10", "234"},
        {"bytes=7-", 206, "bytes 7-9/10", "789"},
        {"bytes=7-100", 206, "bytes 7-9/10", "789"},
        {"bytes=-3", 206, "bytes 7-9/10", "789"},
        {"bytes=-100", 206, "bytes 0-9/10", "0123456789"},
        {"BYTES=1-1 ", 206, "bytes 1-1/10", "1"},
        {"bytes=9-18446744073709551616", 206, "bytes 9-9/10", "9"},
        {"bytes=-18446744073709551626", 206, "bytes 0-9/10", "0123456789"},
        {"bytes=10-", 416, "bytes */10", NULL},
        {"bytes=10-12", 416, "bytes */10", NULL},
        {"bytes=18446744073709551617-", 416, "bytes */10", NULL}, // would be 1 if it wrapped
        {"bytes=-0", 416, "bytes */10", NULL},
        {"bytes=4-2", 200, NULL, "0123456789"},
        {"bytes=0-1,4-5", 200, NULL, "0123456789"},
        {"bytes=", 200, NULL, "0123456789"},
        {"bytes=-", 200, NULL, "0123456789"},
        {"bytes=a-", 200, NULL, "0123456789"},
        {"bytes=1-b", 200, NULL, "0123456789"},
        {"bytes=+1-2", 200, NULL, "0123456789"},
        {"bytes 1-2", 200, NULL, "0123456789"},
        {"lines=1-2", 200, NULL, "0123456789"},
        {"bytes=1", 200, NULL, "0123456789"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char header[128], status[32], part[64];
        snprintf(header, sizeof header, "Range: %s\r\n", cases[i].range);
        snprintf(status, sizeof status, "HTTP/1.1 %d ", cases[i].status);
        snprintf(part, sizeof part, "Content-Range: %s\r\n", cases[i].part ? cases[i].part : "");
        const char *got = ask("GET", "/f", header);
        if (strncmp(got, status, strlen(status)) != 0 ||
            (cases[i].part ? !strstr(got, part) : strstr(got, "Content-Range") != NULL) ||
            (cases[i].body && strcmp(body_of(got), cases[i].body) != 0))
            fail_msg("%s gave %s", cases[i].range, got);
    }
    set_file("");
    assert_non_null(strstr(ask("GET", "/f", "Range: bytes=0-\r\n"), "416 "));
    assert_non_null(strstr(ask("GET", "/f", "Range: bytes=-1\r\n"), "416 "));
    assert_non_null(strstr(ask("GET", "/f", ""), "Content-Length: 0\r\n"));
}

static void only_get_has_ranges(void **state)
{
    (void)state;
    const char *got = ask("HEAD", "/f", "Range: bytes=0-1\r\n");
    assert_non_null(strstr(got, "HTTP/1.1 200 "));
    assert_non_null(strstr(got, "Content-Length: 10\r\n"));
    assert_non_null(strstr(got, "Accept-Ranges: bytes\r\n"));
    assert_non_null(strstr(got, "ETag: \"tag\"\r\n"));
    assert_string_equal(body_of(got), "");
    got = ask("POST", "/f", "Range: bytes=0-1\r\nContent-Length: 0\r\n");
    assert_string_equal(body_of(got), "0123456789");
}

static void conditions_are_kept(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        int status;
    } cases[] = {
        {"If-None-Match: \"tag\"\r\n", 304},
        {"If-None-Match: W/\"tag\"\r\n", 304},
        {"If-None-Match: \"a\", \"tag\" , \"b\"\r\n", 304},
        {"If-None-Match: *\r\n", 304},
        {"If-None-Match: \"ta\"\r\n", 200},
        {"If-None-Match: \"tag\"x\r\n", 200},
        {"If-None-Match: tag\r\n", 200},
        {"If-None-Match: ,,,\r\n", 200},
        {"If-None-Match: W/\r\n", 200},
        {"If-Range: \"tag\"\r\nRange: bytes=1-1\r\n", 206},
        {"If-Range: \"other\"\r\nRange: bytes=1-1\r\n", 200},
        {"If-Range: \"other\"\r\nRange: bytes=100-\r\n", 200},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char status[32];
        snprintf(status, sizeof status, "HTTP/1.1 %d ", cases[i].status);
        const char *got = ask("GET", "/f", cases[i].header);
        if (strncmp(got, status, strlen(status)) != 0)
            fail_msg("%s gave %s", cases[i].header, got);
        if (cases[i].status == 304)
            assert_string_equal(body_of(got), "");
    }
}

// ---- large and strange files --------------------------------------------------------------------

static void a_connection_goes_on_after_a_file(void **state)
{
    (void)state;
    bool ended;
    int fd = client("GET", "/f", "");
    size_t n = hear(fd, answer, sizeof answer - 1, sizeof answer - 1, &ended);
    answer[n] = '\0';
    assert_string_equal(body_of(answer), "0123456789");
    static const char again[] = "GET /f HTTP/1.1\r\nHost: localhost\r\n\r\n"
                                "GET /f HTTP/1.1\r\nHost: localhost\r\nRange: bytes=3-3\r\n\r\n";
    assert_int_equal(send(fd, again, sizeof again - 1, 0), sizeof again - 1);
    n = hear(fd, answer, sizeof answer - 1, sizeof answer - 1, &ended);
    answer[n] = '\0';
    assert_false(ended);
    assert_non_null(strstr(body_of(answer), "0123456789HTTP/1.1 206 "));
    assert_string_equal(answer + n - 5, "\r\n\r\n3");
    (void)close(fd);
}

static void a_large_file_arrives_whole(void **state)
{
    (void)state;
    enum { SIZE = 20 << 20 };
    unsigned char *data = malloc(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (unsigned char)(i * 7 + i / 65536);
    assert_int_equal(pwrite(file, data, SIZE, 0), SIZE);
    claimed = SIZE;
    bool ended;
    char *got = malloc(SIZE + 1024);
    int fd = client("GET", "/f", "");
    size_t n = hear(fd, got, SIZE + 1024, SIZE + 1023, &ended);
    assert_false(ended);
    const char *body = body_of(got);
    assert_int_equal(n - (size_t)(body - got), SIZE);
    assert_memory_equal(body, data, SIZE);
    (void)close(fd);
    free(got);
    free(data);
}

// More than all connections together may hold in memory: it is never there as a whole.
static void a_file_larger_than_memory_is_streamed(void **state)
{
    (void)state;
    claimed = (uint64_t)400 << 20;
    assert_int_equal(ftruncate(file, (off_t)claimed), 0); // sparse
    bool ended;
    char *buf = malloc(1 << 20);
    int fd = client("GET", "/f", "");
    size_t n = hear(fd, buf, 1 << 20, claimed + (64 << 10), &ended);
    assert_false(ended);
    assert_true(n > claimed && n < claimed + 1024);
    (void)close(fd);
    free(buf);
}

static void a_file_that_shrinks_ends_the_connection(void **state)
{
    (void)state;
    bool ended;
    (void)ask("GET", "/f", ""); // the first connection opens what asks for the user of a peer
    // Before anything was read, and in the middle.
    for (int middle = 0; middle < 2; middle++) {
        enum { SIZE = 30 << 20 };
        int fds = unit_fd_count();
        assert_int_equal(ftruncate(file, middle ? SIZE : 3), 0);
        claimed = SIZE;
        char *buf = malloc(1 << 20);
        int fd = client("GET", "/f", "");
        size_t n = hear(fd, buf, 1 << 20, 1 << 20, &ended);
        if (middle) {
            assert_false(ended);
            assert_int_equal(ftruncate(file, 100), 0);
            n += hear(fd, buf, 1 << 20, SIZE + 1024, &ended);
        }
        assert_true(ended);
        assert_true(n < SIZE);
        (void)close(fd);
        free(buf);
        assert_int_equal(unit_fd_count(), fds);
    }
    set_file("0123456789"); // and the server lives
    assert_string_equal(body_of(ask("GET", "/f", "")), "0123456789");
}

static void a_file_that_grows_is_as_long_as_it_was(void **state)
{
    (void)state;
    claimed = 4;
    assert_string_equal(body_of(ask("GET", "/f", "")), "0123");
}

static void a_client_that_leaves_lets_go_of_the_file(void **state)
{
    (void)state;
    bool ended;
    (void)ask("GET", "/f", "");
    int fds = unit_fd_count();
    claimed = 100 << 20;
    assert_int_equal(ftruncate(file, (off_t)claimed), 0);
    int fd = client("GET", "/f", "");
    (void)hear(fd, answer, sizeof answer, 1 << 20, &ended);
    assert_true(unit_fd_count() > fds);
    (void)close(fd);
    for (int64_t until = clock_ms() + 500; clock_ms() < until && unit_fd_count() > fds;)
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
    assert_int_equal(unit_fd_count(), fds);
    // One that does not read is cut off.
    fd = client("GET", "/f", "");
    for (int64_t until = clock_ms() + 3000; clock_ms() < until && unit_fd_count() > fds + 1;)
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
    assert_true(unit_fd_count() <= fds + 1);
    (void)close(fd);
}

// ---- links and headers --------------------------------------------------------------------------

static void links_are_encoded(void **state)
{
    (void)state;
    static const struct {
        const char *base, *path, *url;
    } cases[] = {
        {"http://h", "a.txt", "http://h/files/T/a.txt"},
        {"http://h/p", "deep/in/a.txt", "http://h/p/files/T/a.txt"},
        {"http://h", "a b?#%&+.txt", "http://h/files/T/a%20b%3F%23%25%26%2B.txt"},
        {"http://h", "\xc3\xbc<\"'>\\", "http://h/files/T/%C3%BC%3C%22%27%3E%5C"},
        {"", "a.txt", ""},
    };
    char url[REST_FILE_URL_MAX];
    struct artifact a = {.token = "T"};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        snprintf(a.path, sizeof a.path, "%s", cases[i].path);
        assert_int_equal(rest_file_url(cases[i].base, &a, url, sizeof url), cases[i].base[0] != 0);
        assert_string_equal(url, cases[i].url);
    }
    memset(a.path, 0xc3, 255); // the longest name there is
    a.path[255] = '\0';
    assert_true(rest_file_url("http://h", &a, url, sizeof url));
    assert_int_equal(strlen(url), strlen("http://h/files/T/") + 3 * 255);
    for (size_t cap = 0; cap < 40; cap++) {
        char *small = malloc(cap + 1);
        assert_false(rest_file_url("http://h", &a, small, cap));
        free(small);
    }
}

static void nothing_that_could_run_is_shown(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        bool shown;
    } cases[] = {
        {"image/png", true},        {"image/jpeg", true},
        {"text/plain", true},       {"text/html", false},
        {"image/svg%2Bxml", false}, {"application/xhtml%2Bxml", false},
        {"application/xml", false}, {"text/javascript", false},
        {"application/pdf", false}, {"application/octet-stream", false},
        {"image/png%20", false},    {"IMAGE/PNG", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char path[128], want[64];
        snprintf(path, sizeof path, "/safe?name=x&type=%s", cases[i].type);
        snprintf(want, sizeof want, "Content-Disposition: %s; filename=\"x\"",
                 cases[i].shown ? "inline" : "attachment");
        const char *got = ask("GET", path, "");
        if (!strstr(got, want))
            fail_msg("%s gave %s", path, got);
        assert_non_null(strstr(got, "X-Content-Type-Options: nosniff\r\n"));
        assert_non_null(strstr(got, "Content-Security-Policy: sandbox; default-src 'none'\r\n"));
        assert_non_null(strstr(got, "Referrer-Policy: no-referrer\r\n"));
        assert_non_null(strstr(got, "Cross-Origin-Resource-Policy: same-origin\r\n"));
        assert_non_null(strstr(got, "Cache-Control: private"));
    }
}

static void names_cannot_leave_their_header(void **state)
{
    (void)state;
    static const struct {
        const char *name, *header;
    } cases[] = {
        {"a%22%3B%20x%3Dy", "filename=\"a__ x=y\"; filename*=UTF-8''a%22%3B%20x%3Dy"},
        {"%C3%BC.txt", "filename=\"__.txt\"; filename*=UTF-8''%C3%BC.txt"},
        {"a%5C%22b", "filename=\"a__b\"; filename*=UTF-8''a%5C%22b"},
        {"dir/file", "filename=\"file\"; filename*=UTF-8''file"},
        {"%2541", "filename=\"_41\"; filename*=UTF-8''%2541"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char path[128];
        snprintf(path, sizeof path, "/safe?type=text/csv&name=%s", cases[i].name);
        const char *got = ask("GET", path, "");
        if (!strstr(got, cases[i].header))
            fail_msg("%s gave %s", cases[i].name, got);
    }
}

#define RANGE_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RANGE_TEST(one_range_is_answered_and_nonsense_ignored),
        RANGE_TEST(only_get_has_ranges),
        RANGE_TEST(conditions_are_kept),
        RANGE_TEST(a_connection_goes_on_after_a_file),
        RANGE_TEST(a_large_file_arrives_whole),
        RANGE_TEST(a_file_larger_than_memory_is_streamed),
        RANGE_TEST(a_file_that_shrinks_ends_the_connection),
        RANGE_TEST(a_file_that_grows_is_as_long_as_it_was),
        RANGE_TEST(a_client_that_leaves_lets_go_of_the_file),
        RANGE_TEST(links_are_encoded),
        RANGE_TEST(nothing_that_could_run_is_shown),
        RANGE_TEST(names_cannot_leave_their_header),
    };
    return cmocka_run_group_tests_name("range", tests, NULL, NULL);
}
