// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of http/http, http/conn and http/exchange: a server and its clients on one loop, over
// real sockets.  What libevent's own reader would let pass is in tests/api/test_http_abuse.py.

#include "unit.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "http/door.h"
#include "http/http.h"

static struct config config;
static struct event_base *base;
static struct http *server;
static struct sockaddr_in address;

// What the handlers saw.
static struct http_exchange *held;
static unsigned closed, drained;

// ---- handlers -----------------------------------------------------------------------------------

static void on_close(struct http_exchange *x)
{
    assert_ptr_equal(x, held);
    http_reply(x, 200, NULL, "too late", 8); // does nothing
    held = NULL;
    closed++;
}

static void hold(struct http_exchange *x, void *argument)
{
    (void)argument;
    held = x;
    x->on_close = on_close;
}

static void on_drained(struct http_exchange *x)
{
    assert_ptr_equal(x, held);
    drained++;
}

static void stream(struct http_exchange *x, void *argument)
{
    hold(x, argument);
    x->on_drained = on_drained;
    http_stream_begin(x, 200, "text/event-stream");
    http_stream_write(x, "data: 1\n\n", 9);
}

static void echo(struct http_exchange *x, void *argument)
{
    (void)argument;
    size_t n;
    const char *body = http_body(x, &n);
    http_reply(x, 200, "text/plain", body, n);
}

static void show(struct http_exchange *x, void *argument)
{
    (void)argument;
    char q[16] = "none";
    (void)http_query(x, "q", q, sizeof q);
    json_t *body = json_pack("{s:s, s:s, s:s, s:b, s:b}", "path", x->path, "q", q, "owner",
                             x->owner, "json", http_accepts(x, "application/json"), "events",
                             http_accepts(x, "text/event-stream"));
    http_reply_json(x, 200, body);
    json_decref(body);
}

static void complain(struct http_exchange *x, void *argument)
{
    (void)argument;
    http_reply_error(x, 418, "teapot", "use coffee", "no '%s' here", "tea\n");
}

static const struct http_route routes[] = {
    {"/hold", HTTP_GET | HTTP_POST, false, hold, NULL},
    {"/stream", HTTP_GET, false, stream, NULL},
    {"/echo", HTTP_POST, false, echo, NULL},
    {"/show", HTTP_GET | HTTP_HEAD, false, show, NULL},
    {"/show/*", HTTP_GET, false, show, NULL},
    {"/fail", HTTP_GET, false, complain, NULL},
    {0},
};

// ---- the server and its clients -----------------------------------------------------------------

static int setup(void **state)
{
    (void)state;
    config_init(&config);
    config.request_ms = 300;
    config.connections = 4;
    config.body_bytes = 4096;
    closed = drained = 0;
    return 0;
}

static void start(void)
{
    struct err e;
    socklen_t n = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &n), 0);
    base = event_base_new();
    assert_int_equal(door_check_bind(&config, &e), 0);
    server = http_open(base, &config, fd, routes, &e);
    if (!server)
        fail_msg("%s", e.message);
}

static int teardown(void **state)
{
    (void)state;
    http_close(server);
    event_base_free(base);
    assert_null(held);
    return 0;
}

static void spin(int ms)
{
    int64_t until = clock_ms() + ms;
    do {
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
        (void)poll(NULL, 0, 1);
    } while (clock_ms() < until);
}

static int client(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void say(int fd, const char *text, size_t n)
{
    assert_int_equal(send(fd, text, n, MSG_NOSIGNAL), n);
}

// What the server says within `ms`, or until it hangs up, which is shown as "|".
static const char *hear(int fd, int ms)
{
    static char buf[65536];
    size_t n = 0;
    int64_t until = clock_ms() + ms;
    do {
        spin(1);
        ssize_t r = recv(fd, buf + n, sizeof buf - n - 2, MSG_DONTWAIT);
        if (r == 0 || (r < 0 && errno != EAGAIN)) {
            buf[n++] = '|';
            break;
        }
        if (r > 0)
            n += (size_t)r;
    } while (clock_ms() < until);
    buf[n] = '\0';
    return buf;
}

static void expect(const char *request, const char *begin, const char *end)
{
    int fd = client();
    say(fd, request, strlen(request));
    const char *got = hear(fd, 60);
    size_t n = strlen(got), m = strlen(end);
    if (strncmp(got, begin, strlen(begin)) != 0 || n < m || strcmp(got + n - m, end) != 0)
        fail_msg("%s\n--- gave\n%s\n--- instead of %s ... %s", request, got, begin, end);
    (void)close(fd);
    spin(3);
}

static unsigned count(const char *text, const char *what)
{
    unsigned n = 0;
    for (const char *p = text; (p = strstr(p, what)); p++)
        n++;
    return n;
}

#define HOST "Host: localhost\r\n"
#define KEY "X-API-Key: correct-horse\r\n"

// ---- tests --------------------------------------------------------------------------------------

static void answers(void **state)
{
    (void)state;
    start();
    expect("GET /show?a=b&q=x%20y+z HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 OK\r\n",
           "{\"path\":\"/show\",\"q\":\"x y z\",\"owner\":\"\",\"json\":true,\"events\":true}");
    expect("GET /show/a%2fb?q="
           "12345678901234567 HTTP/1.1\r\n" HOST
           "Accept: text/*;q=0.5, application/json;q=0\r\n\r\n",
           "HTTP/1.1 200 OK\r\n",
           "{\"path\":\"/show/a/b\",\"q\":\"\",\"owner\":\"\",\"json\":false,\"events\":true}");
    expect("HEAD /show HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 OK\r\n", "\r\n\r\n");
    expect(
        "GET /fail HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 418 ",
        "{\"error\":{\"code\":\"teapot\",\"message\":\"no 'tea?' here\",\"hint\":\"use coffee\"}}");
    expect("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc", "HTTP/1.1 200 OK\r\n",
           "\r\n\r\nabc");
    expect("POST /echo HTTP/1.1\r\n" HOST
           "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\n5\r\n0\r\n\r\n",
           "HTTP/1.1 200 OK\r\n", "\r\n\r\nabc5");
    expect("GET /show HTTP/1.0\r\n" HOST "\r\n", "HTTP/1.0 200 OK\r\n", "}|");
    expect("GET /nothing HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 404 ", "}}");
    expect("POST /show HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n",
           "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD, OPTIONS\r\n", "}}");
    expect("OPTIONS /show HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 204 ", "\r\n\r\n");
    expect("GET /show HTTP/1.1\r\nHost: evil.example.com\r\n\r\n", "HTTP/1.1 403 ", "}}");
    expect("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 4097\r\n\r\n", "HTTP/1.1 413 ", "}}|");
    expect("POST /nothing HTTP/1.1\r\n" HOST "Content-Length: 4000\r\n\r\n", "HTTP/1.1 404 ",
           "}}|");
}

static void requests_of_two_minds_end_the_connection(void **state)
{
    (void)state;
    start();
    expect("POST /echo HTTP/1.1\r\n" HOST
           "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
           "GET /show HTTP/1.1\r\n" HOST "\r\n",
           "HTTP/1.1 400 ", "}}|");
    expect("GET /show HTTP/1.1\r\n" HOST "X: a\r\n b\r\n\r\n", "HTTP/1.1 400 ", "}}|");
    expect("FROB /show HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 405 ", "}}|");
    int fd = client();
    say(fd, "GET /show HTTP/1.1\r\n" HOST "X: a\0b\r\n\r\n", 47);
    assert_int_equal(strncmp(hear(fd, 60), "HTTP/1.1 400 ", 13), 0);
    (void)close(fd);
}

static void requests_in_a_row(void **state)
{
    (void)state;
    start();
    static const char show_it[] = "GET /show HTTP/1.1\r\n" HOST "\r\n";
    char many[1024] = "";
    for (int i = 0; i < 5; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "%s", show_it);
    int fd = client();
    say(fd, many, strlen(many));
    assert_int_equal(count(hear(fd, 60), "HTTP/1.1 200"), 5);
    // Behind one that takes its time, in pieces, the second one cut in two.
    say(fd, "GET /hold HTTP/1.1\r\n" HOST "\r\nGET /sh", 46);
    spin(20);
    assert_non_null(held);
    say(fd, "ow HTTP/1.1\r\n" HOST "\r\n", 32);
    spin(20);
    http_reply(TAKE_PTR(held), 200, "text/plain", "late", 4);
    const char *got = hear(fd, 60);
    assert_int_equal(count(got, "HTTP/1.1 200"), 2);
    assert_true(strstr(got, "late") < strstr(got, "/show"));
    // Byte by byte.
    for (size_t i = 0; i < sizeof show_it - 1; i++) {
        say(fd, show_it + i, 1);
        spin(1);
    }
    assert_int_equal(count(hear(fd, 60), "HTTP/1.1 200"), 1);
    (void)close(fd);
}

static void the_end_of_a_client_is_seen(void **state)
{
    (void)state;
    start();
    static const char *const requests[] = {"GET /hold HTTP/1.1\r\n" HOST "\r\n",
                                           "POST /hold HTTP/1.1\r\n" HOST
                                           "Content-Length: 3\r\n\r\nabc",
                                           "GET /stream HTTP/1.1\r\n" HOST "\r\n"};
    for (unsigned i = 0; i < ARRAY_LEN(requests); i++) {
        int fd = client();
        say(fd, requests[i], strlen(requests[i]));
        spin(400); // longer than request_ms: the client is not the slow one
        assert_non_null(held);
        assert_int_equal(http_exchanges(server), 1);
        say(fd, "what comes now is early", 23);
        spin(20);
        assert_int_equal(closed, i);
        (void)close(fd);
        spin(20);
        assert_int_equal(closed, i + 1);
        assert_int_equal(http_exchanges(server), 0);
    }
}

static void streams(void **state)
{
    (void)state;
    start();
    int fd = client();
    static char piece[16384];
    memset(piece, 'x', sizeof piece);
    say(fd, "GET /stream HTTP/1.1\r\n" HOST "\r\n", 41);
    assert_non_null(strstr(hear(fd, 30), "\r\n\r\n9\r\ndata: 1\n\n\r\n"));
    unsigned before = drained;
    // A client that reads gets everything, and the writer hears of room.
    for (int i = 0; i < 400; i++)
        http_stream_write(held, piece, sizeof piece);
    assert_true(http_stream_backlog(held) > 400 * sizeof piece / 2);
    size_t total = 0;
    static char sink[1 << 18];
    // What the server has sent may still be in the kernel.
    for (int i = 0;
         i < 2000 && (http_stream_backlog(held) || drained == before || total <= 3000000); i++) {
        ssize_t r = recv(fd, sink, sizeof sink, MSG_DONTWAIT);
        total += r > 0 ? (size_t)r : 0;
        spin(1);
    }
    assert_true(drained > before && total > 3000000);
    http_stream_end(TAKE_PTR(held));
    for (int i = 0; i < 2000 && http_exchanges(server); i++) {
        (void)recv(fd, sink, sizeof sink, MSG_DONTWAIT);
        spin(1);
    }
    assert_int_equal(http_exchanges(server), 0);
    // One that does not read is cut off.
    say(fd, "GET /stream HTTP/1.1\r\n" HOST "\r\n", 41);
    spin(20);
    for (int i = 0; i < 400; i++)
        http_stream_write(held, piece, sizeof piece);
    int64_t begun = clock_ms();
    while (closed == 0 && clock_ms() - begun < 5000)
        spin(1);
    assert_int_equal(closed, 1);
    assert_true(clock_ms() - begun >= 290);
    (void)close(fd);
}

static void slow_requests(void **state)
{
    (void)state;
    start();
    int silent = client(), dribbling = client(), stuck = client();
    say(dribbling, "GET /show HTTP/1.1\r\nX: ", 23);
    say(stuck, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\nabc", 64);
    // Each byte is a sign of life, and yet it ends.
    int64_t begun = clock_ms();
    for (char c = 0;
         clock_ms() - begun < 5000 && recv(dribbling, &c, 1, MSG_PEEK | MSG_DONTWAIT) < 0;) {
        (void)send(dribbling, "x", 1, MSG_NOSIGNAL);
        spin(5);
    }
    assert_true(clock_ms() - begun >= 290);
    assert_int_equal(strncmp(hear(dribbling, 10), "HTTP/1.1 408 ", 13), 0);
    assert_int_equal(strncmp(hear(stuck, 100), "HTTP/1.1 408 ", 13), 0);
    assert_string_equal(hear(silent, 100), "|");
    (void)close(silent);
    (void)close(dribbling);
    (void)close(stuck);
}

static void too_many_connections(void **state)
{
    (void)state;
    config.request_ms = 60000;
    start();
    int fds[4];
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = client();
        say(fds[i], "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nab", 61);
    }
    spin(20);
    expect("GET /show HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 503 ", "}}|");
    // One of them has nothing to do any more: after a while it makes room.
    say(fds[0], "c", 1);
    assert_non_null(strstr(hear(fds[0], 30), "200 OK"));
    expect("GET /show HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 503 ", "}}|");
    spin(1050);
    expect("GET /show HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 ", "}");
    assert_string_equal(hear(fds[0], 20), "|");
    // The others were not disturbed.
    for (size_t i = 1; i < ARRAY_LEN(fds); i++) {
        say(fds[i], "c", 1);
        assert_non_null(strstr(hear(fds[i], 30), "200 OK"));
    }
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        (void)close(fds[i]);
}

// Heads that never end, refusals that linger: what has not shown a key goes, the oldest first.
static void strangers_make_room(void **state)
{
    (void)state;
    config.request_ms = 60000;
    assert_int_equal(text_list_add(&config.api_keys, "a:correct-horse"), 0);
    start();
    int known = client(), fds[3];
    say(known, "POST /echo HTTP/1.1\r\n" HOST KEY "Content-Length: 3\r\n\r\nab",
        61 + sizeof KEY - 1);
    spin(10);
    static const char *const words[] = {"", "GET /sh",
                                        "GET /show HTTP/1.1\r\n" HOST "X-API-Key: wrong\r\n\r\n"};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = client();
        say(fds[i], words[i], strlen(words[i]));
        spin(10);
    }
    int next[2];
    for (size_t i = 0; i < ARRAY_LEN(next); i++) {
        next[i] = client();
        say(next[i], "GET /hold HTTP/1.1\r\n" HOST KEY "\r\n", 39 + sizeof KEY - 1);
        spin(20);
        assert_non_null(held);
        http_reply(TAKE_PTR(held), 200, "text/plain", "yes", 3);
        assert_non_null(strstr(hear(next[i], 20), "200 OK"));
        assert_int_equal(strncmp(hear(fds[i], 20), "HTTP/1.1 503 ", 13), 0);
    }
    const char *got = hear(fds[2], 20);
    assert_true(strncmp(got, "HTTP/1.1 401 ", 13) == 0 && !strchr(got, '|'));
    say(known, "c", 1);
    assert_non_null(strstr(hear(known, 20), "200 OK"));
    (void)close(known);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        (void)close(fds[i]);
    for (size_t i = 0; i < ARRAY_LEN(next); i++)
        (void)close(next[i]);
}

static void stopping_lets_exchanges_end(void **state)
{
    (void)state;
    start();
    int idle = client(), busy = client();
    say(busy, "GET /hold HTTP/1.1\r\n" HOST "\r\n", 39);
    spin(30);
    http_stop(server);
    assert_string_equal(hear(idle, 50), "|");
    int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(late, (struct sockaddr *)&address, sizeof address), -1);
    http_reply(TAKE_PTR(held), 200, "text/plain", "bye", 3);
    const char *got = hear(busy, 100);
    assert_non_null(strstr(got, "Connection: close\r\n"));
    assert_non_null(strstr(got, "\r\n\r\nbye|"));
    assert_int_equal(http_exchanges(server), 0);
    (void)close(idle);
    (void)close(busy);
    (void)close(late);
}

// Connections in every state at the end: what is left open or unfreed is seen by the sanitizer and
// here.
static void closing_ends_everything(void **state)
{
    (void)state;
    int before = unit_fd_count();
    start();
    int fds[4];
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        fds[i] = client();
    say(fds[0], "GET /stream HTTP/1.1\r\n" HOST "\r\n", 41);
    say(fds[1], "GET /show", 9);
    say(fds[2], "nonsense\n", 9);
    spin(30);
    int surplus = client(); // accepted, and not yet looked at when the server closes
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    http_close(server);
    assert_int_equal(closed, 1);
    server = NULL;
    event_base_free(base);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        (void)close(fds[i]);
    (void)close(surplus);
    assert_int_equal(unit_fd_count(), before);
    base = event_base_new();
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(answers),
        TEST(requests_of_two_minds_end_the_connection),
        TEST(requests_in_a_row),
        TEST(the_end_of_a_client_is_seen),
        TEST(streams),
        TEST(slow_requests),
        TEST(too_many_connections),
        TEST(strangers_make_room),
        TEST(stopping_lets_exchanges_end),
        TEST(closing_ends_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
