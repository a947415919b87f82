// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of the broker as a whole: names inside TLS and HTTP, quotas, and bytes in numbers.

#include "broker_process.h"

#include "client_hello.h"

static char rule[300];

static int reach(int *ret_far)
{
    char address[INET_ADDRSTRLEN], question[100], answer[QUESTION_MAX + 1];
    assert_int_equal(box_lookup(LOCAL, address), 0);
    snprintf(question, sizeof question, "connect %s %u wait", address, port);
    box_ask(question, answer);
    assert_string_equal(answer, "ok");
    return box_reach(LOCAL, port, listener, ret_far);
}

static void done(int fd, int far)
{
    (void)close(fd);
    (void)close(far);
}

static void reach_once(void)
{
    int far, fd = reach(&far);
    done(fd, far);
}

// A network file, because objects and quotas of keys are written there.
static void run_with(const char *json)
{
    facts.network_file = memfd_create("network", MFD_CLOEXEC);
    assert_int_equal(fd_write_all(facts.network_file, json, strlen(json)), 0);
    broker_run();
}

static void expect(const char *action, const char *reason)
{
    char target[64];
    snprintf(target, sizeof target, "%s:%u", LOCAL, port);
    expect_event(action, reason, target);
}

// ---- TLS ----------------------------------------------------------------------------------------

static void send_all(int fd, const void *data, size_t length)
{
    assert_int_equal(send(fd, data, length, MSG_NOSIGNAL), length);
}

static void test_tls_for_the_same_name_passes(void **state)
{
    uint8_t data[8192], got[8192];
    int far;
    (void)state;
    broker_run_usual();
    int fd = reach(&far);
    size_t n = hello_records(LOCAL, 300, 16384, data);
    send_all(fd, data, n);
    send_all(fd, "more", 4);
    for (size_t at = 0; at < n + 4;) {
        ssize_t k = recv(far, got + at, sizeof got - at, 0);
        assert_true(k > 0);
        at += (size_t)k;
    }
    assert_memory_equal(got, data, n);
    assert_memory_equal(got + n, "more", 4);
    done(fd, far);
    expect_quiet();
}

static void test_a_hello_in_pieces_is_put_together(void **state)
{
    uint8_t data[8192], got[8192];
    int far;
    (void)state;
    broker_run_usual();
    int fd = reach(&far);
    size_t n = hello_records(LOCAL, 100, 50, data); // records, too
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (size_t at = 0; at < n; at += 9)
        send_all(fd, data + at, n - at < 9 ? n - at : 9);
    for (size_t at = 0; at < n;) {
        ssize_t k = recv(far, got + at, n - at, 0);
        assert_true(k > 0);
        at += (size_t)k;
    }
    assert_memory_equal(got, data, n);
    done(fd, far);
}

static void test_tls_for_another_name_is_refused(void **state)
{
    static const struct {
        const char *name, *reason;
    } cases[] = {
        {"other.ok.test", "sni_mismatch"}, {NULL, "sni_missing"}, {"a b", "tls_malformed"}};
    uint8_t data[8192];
    char byte;
    int far;
    (void)state;
    broker_run_usual();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int fd = reach(&far);
        send_all(fd, data, hello_records(cases[i].name, 0, 16384, data));
        hears_reset(fd);
        assert_true(recv(far, &byte, 1, 0) <= 0); // not one byte came through
        done(fd, far);
        expect("tls", cases[i].reason);
    }
}

// ---- HTTP ---------------------------------------------------------------------------------------

static void test_http_for_the_same_host_passes_and_is_counted(void **state)
{
    char text[400];
    int far;
    (void)state;
    broker_run_usual();
    int fd = reach(&far);
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text,
                 "POST /x HTTP/1.1\r\nHost: %s:%u\r\nContent-Length: 3\r\n\r\nabc", LOCAL, port);
        say(fd, text);
        hears(far, text);
        say(far, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        hears(fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    }
    done(fd, far);
    json_t *o = settle();
    assert_int_equal(number_of(o, "requests"), 3);
    assert_int_equal(number_of(o, "connections"), 1);
    json_decref(o);
}

static void test_http_for_another_host_is_refused(void **state)
{
    static const char *const bad[] = {
        "GET / HTTP/1.1\r\nHost: other.test\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "\r\n\r\nGET / HTTP/1.1\r\nHost: other.test\r\n\r\n",
    };
    char text[200];
    int far;
    (void)state;
    broker_run_usual();
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        int fd = reach(&far);
        say(fd, bad[i]);
        hears_reset(fd);
        done(fd, far);
        expect("http", "host_mismatch");
    }
    // Also as the second one, and byte by byte.
    int fd = reach(&far), on = 1;
    snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", LOCAL);
    say(fd, text);
    hears(far, text);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (const char *p = bad[0]; *p; p++)
        if (send(fd, p, 1, MSG_NOSIGNAL) != 1)
            break;
    hears_reset(fd);
    done(fd, far);
    expect("http", "host_mismatch");
    // HTTP/2 and TLS name hosts where the broker does not look.
    static const char *const upgrades[] = {"h2c", "TLS/1.2", "websocket, h2c"};
    for (size_t i = 0; i < ARRAY_LEN(upgrades); i++) {
        fd = reach(&far);
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: %s\r\nUpgrade: %s\r\n\r\n", LOCAL,
                 upgrades[i]);
        say(fd, text);
        hears_reset(fd);
        done(fd, far);
        expect("http", "http_upgrade");
    }
    fd = reach(&far);
    say(fd, "CONNECT other.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n");
    hears_reset(fd);
    done(fd, far);
    expect("http", "http_ambiguous");
}

// SECURITY: what a lenient server reads as a request is one, however it begins and wherever it is
// cut.
static void test_http_is_known_by_its_first_line(void **state)
{
    static const char rest[] = " / HTTP/1.1\r\nHost: other.test\r\n\r\n";
    static const struct {
        const char *first, *second;
    } cases[] = {
        {"", " GET"},
        {"", "G(T"},
        {"", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
        {"X", "YZ"},
        {"ge", "t"},
        {"PURGE /x H", "TTP/1.1 x"},
        {"PRI", " * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
        {"", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
    };
    char text[200];
    int far, on = 1;
    (void)state;
    broker_run_usual();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int fd = reach(&far);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (cases[i].first[0]) {
            say(fd, cases[i].first);
            hears(far, cases[i].first); // it does not wait
        }
        snprintf(text, sizeof text, "%s%s", cases[i].second, rest);
        say(fd, text);
        hears_reset(fd);
        done(fd, far);
        expect("http", "http_ambiguous");
    }
    // And what is none goes on at once.
    static const char *const others[] = {"SSH-2.0-x y", "\r\n", "HTTP/1.1 is it not", "\r\nGET x"};
    int fd = reach(&far);
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        say(fd, others[i]);
        hears(far, others[i]);
    }
    done(fd, far);
    expect_quiet();
}

static void run_bounded(void)
{
    snprintf(
        rule, sizeof rule,
        "{\"default\": {\"allow\": [\"127.0.0.1\", {\"host\": \"%s\", \"port\": %u, \"methods\": "
        "[\"GET\"], \"paths\": [\"/v1/*\"]}]}}",
        LOCAL, port);
    run_with(rule);
}

static void test_methods_and_paths_are_judged(void **state)
{
    static const struct {
        const char *request, *action, *reason;
    } cases[] = {
        {"POST /v1/x HTTP/1.1\r\nHost: " LOCAL "\r\nContent-Length: 0\r\n\r\n", "http",
         "request_not_allowed"},
        {"GET /v2/x HTTP/1.1\r\nHost: " LOCAL "\r\n\r\n", "http", "request_not_allowed"},
        {"GET /v1/../admin HTTP/1.1\r\nHost: " LOCAL "\r\n\r\n", "http", "http_ambiguous"},
        {"GET /v1/%2e%2e/admin HTTP/1.1\r\nHost: " LOCAL "\r\n\r\n", "http", "http_ambiguous"},
        {"GET /v1/x HTTP/1.1\r\nHost: " LOCAL "\r\nUpgrade: h2c\r\n\r\n", "http", "http_upgrade"},
        {"hello\r\n\r\n", "http", "http_ambiguous"},
        {"\x16\x03\x01", "tls", "http_bounded"},
    };
    char good[200];
    int far;
    (void)state;
    run_bounded();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int fd = reach(&far);
        snprintf(good, sizeof good, "GET /v1/ok?q HTTP/1.1\r\nHost: %s\r\n\r\n", LOCAL);
        if (i < 4) { // it does not help to be good first
            say(fd, good);
            hears(far, good);
        }
        say(fd, cases[i].request);
        hears_reset(fd);
        done(fd, far);
        expect(cases[i].action, cases[i].reason);
    }
}

static void test_a_websocket_passes_when_the_server_agrees(void **state)
{
    static const char hello[] = "GET /v1/ws HTTP/1.1\r\nHost: " LOCAL
                                "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    static const char smuggled[] = "DELETE /admin HTTP/1.1\r\nHost: " LOCAL "\r\n\r\n";
    int far;
    (void)state;
    run_bounded();
    int fd = reach(&far);
    say(fd, hello);
    hears(far, hello);
    say(fd, "\x81\x02hi"); // early: waits for the answer
    say(far, "HTTP/1.1 101 Switching Protocols\r\n\r\n");
    hears(fd, "HTTP/1.1 101 Switching Protocols\r\n\r\n");
    hears(far, "\x81\x02hi");
    done(fd, far);
    expect_quiet();
    // A server that does not agree goes on reading requests, and so do we.
    fd = reach(&far);
    say(fd, hello);
    say(fd, smuggled);
    hears(far, hello);
    say(far, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    hears_reset(fd);
    char byte;
    assert_true(recv(far, &byte, 1, 0) <= 0);
    done(fd, far);
    expect("http", "request_not_allowed");
}

// ---- quotas -------------------------------------------------------------------------------------

static void run_quota(const char *who, const char *what)
{
    snprintf(rule, sizeof rule,
             "{\"default\": {\"allow\": [\"*.ok.test\", \"127.0.0.1\"], \"%s\": {%s}}}", who, what);
    run_with(rule);
}

static void expect_quota(const char *reason)
{
    json_t *o = settle(), *e = event_of(o, "quota", reason);
    assert_true(number_of(e, "count") >= 1);
    json_decref(o);
}

static void no_more(void)
{
    char address[INET_ADDRSTRLEN], question[100], answer[QUESTION_MAX + 1];
    assert_int_equal(box_lookup(LOCAL, address), 0);
    snprintf(question, sizeof question, "connect %s %u wait", address, port);
    box_ask(question, answer);
    assert_memory_equal(answer, "no 13 ", 6);
    connect_is_reset(address, port);
}

static void test_connections_in_all(void **state)
{
    (void)state;
    run_quota("box", "\"connections\": 2");
    for (int i = 0; i < 2; i++)
        reach_once();
    no_more();
    expect_quota("connections");
}

static void test_connections_at_one_time(void **state)
{
    int a, b;
    (void)state;
    run_quota("box", "\"sockets\": 2");
    int one = reach(&a), two = reach(&b);
    no_more();
    expect_quota("sockets");
    done(one, a);
    json_decref(settle());
    reach_once();
    done(two, b);
}

static void test_a_key_has_quotas_of_its_own(void **state)
{
    (void)state;
    run_quota("key", "\"connections\": 1");
    reach_once();
    no_more();
    expect_quota("key_connections");
}

static void test_requests(void **state)
{
    char text[200];
    int far;
    (void)state;
    run_quota("box", "\"requests\": 2");
    int fd = reach(&far);
    snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", LOCAL);
    for (int i = 0; i < 2; i++) {
        say(fd, text);
        hears(far, text);
    }
    say(fd, text);
    hears_reset(fd);
    done(fd, far);
    expect_quota("requests");
}

static void test_bytes_up_and_down(void **state)
{
    int far;
    (void)state;
    run_quota("box", "\"bytes_up\": 10, \"bytes_down\": 10");
    int fd = reach(&far);
    say(fd, "12345 6789");
    hears(far, "12345 6789");
    say(far, "0123456789");
    hears(fd, "0123456789");
    say(fd, "x");
    hears_reset(fd);
    done(fd, far);
    expect_quota("bytes_up");
    fd = reach(&far);
    say(far, "x");
    hears_reset(fd);
    done(fd, far);
    expect_quota("bytes_down");
}

static int64_t broker_cpu_ms(void)
{
    clockid_t clock;
    struct timespec t;
    assert_int_equal(clock_getcpuclockid(broker_pid, &clock), 0);
    assert_int_equal(clock_gettime(clock, &t), 0);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void test_a_flood_is_cheap_and_counted(void **state)
{
    enum { FLOOD = 2000 };
    char address[INET_ADDRSTRLEN];
    (void)state;
    run_quota("box", "\"rate\": 20");
    reach_once();
    assert_int_equal(box_lookup(LOCAL, address), 0);
    int64_t began = clock_ms(), cpu_ms = broker_cpu_ms();
    for (int i = 0; i < FLOOD; i++) {
        int fd = box_connect("192.0.2.1", port);
        if (fd >= 0)
            (void)close(fd);
    }
    int64_t took = clock_ms() - began;
    assert_true(broker_cpu_ms() - cpu_ms < FLOOD); // far below, but for sanitizers
    json_t *o = settle();
    long long refused = 0;
    size_t i;
    json_t *e;
    json_array_foreach (json_object_get(o, "events"), i, e)
        refused += number_of(e, "count");
    assert_true(json_array_size(json_object_get(o, "events")) <= 3);
    // The last ones may still be in the queue of the listener, which is not that of the question.
    assert_in_range(refused, FLOOD * 9 / 10, FLOOD);
    json_decref(o);
    for (int k = 0; k < 100; k++)
        (void)box_lookup(LOCAL, address);
    expect_quota("rate");
    // Refusals of one box are written a hundred times a second.
    static char buf[1 << 20];
    ssize_t n = pread(audit_fd, buf, sizeof buf, 0);
    size_t lines = 0;
    for (ssize_t k = 0; k < n; k++)
        lines += buf[k] == '\n';
    assert_true(lines < 100 * (size_t)(took / 1000 + 3));
}

// ---- bytes --------------------------------------------------------------------------------------

struct pusher {
    int fd;
    size_t bytes;
    unsigned seed;
};

static void *push(void *argument)
{
    struct pusher *p = argument;
    static __thread uint8_t buf[65536];
    size_t at = 0;
    while (at < p->bytes) {
        size_t n = p->bytes - at < sizeof buf ? p->bytes - at : sizeof buf;
        for (size_t i = 0; i < n; i++)
            buf[i] = (uint8_t)((at + i) * 31 + p->seed);
        ssize_t k = send(p->fd, buf, n, MSG_NOSIGNAL);
        if (k <= 0)
            break;
        at += (size_t)k;
    }
    (void)shutdown(p->fd, SHUT_WR);
    return NULL;
}

static void take(int fd, size_t bytes, unsigned seed, int pause_us)
{
    static uint8_t buf[65536];
    size_t at = 0;
    for (;;) {
        ssize_t n = recv(fd, buf, sizeof buf, 0);
        assert_true(n >= 0);
        if (n == 0)
            break;
        for (ssize_t i = 0; i < n; i++)
            if (buf[i] != (uint8_t)((at + (size_t)i) * 31 + seed))
                fail_msg("byte %zu is wrong", at + (size_t)i);
        at += (size_t)n;
        if (pause_us && at % (1 << 20) < sizeof buf)
            usleep((useconds_t)pause_us);
    }
    assert_int_equal(at, bytes);
}

static void test_bytes_arrive_as_they_were_sent(void **state)
{
    enum { BYTES = 24 * 1024 * 1024 };
    int far;
    (void)state;
    broker_run_usual();
    int fd = reach(&far);
    // Both ways at once; the box reads slowly, so that its side fills up.
    struct pusher up = {fd, BYTES, 1}, down = {far, BYTES, 2};
    pthread_t a, b;
    assert_int_equal(pthread_create(&a, NULL, push, &up), 0);
    assert_int_equal(pthread_create(&b, NULL, push, &down), 0);
    // In a thread of its own the far side would be read meanwhile; one after the other also tests
    // that a full direction does not stop the other.
    take(fd, BYTES, 2, 2000);
    take(far, BYTES, 1, 0);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    done(fd, far);
    json_t *o = settle();
    assert_int_equal(number_of(o, "bytes_up"), BYTES);
    assert_int_equal(number_of(o, "bytes_down"), BYTES);
    json_decref(o);
}

static void test_many_connections_at_once(void **state)
{
    enum { MANY = 60 };
    int fds[MANY], fars[MANY];
    (void)state;
    broker_run_usual();
    for (int i = 0; i < MANY; i++)
        fds[i] = reach(&fars[i]);
    for (int i = 0; i < MANY; i++) {
        say(fds[i], "x");
        hears(fars[i], "x");
        say(fars[i], "y");
    }
    for (int i = 0; i < MANY; i++)
        hears(fds[i], "y");
    json_t *o = settle();
    assert_int_equal(number_of(o, "connections"), MANY);
    assert_int_equal(number_of(o, "bytes_up"), MANY);
    json_decref(o);
    for (int i = 0; i < MANY; i++)
        done(fds[i], fars[i]);
}

// SECURITY: code chooses where a datagram seems to come from.  From our own ports it would be our
// answer, and the answer to that.
static void test_the_broker_does_not_answer_itself(void **state)
{
    static const uint16_t ports[] = {NET_DNS_PORT, NET_ASK_PORT};
    char answer[QUESTION_MAX + 1], path[64], stat[1024], *p;
    (void)state;
    broker_run_usual();
    for (size_t i = 0; i < 4; i++) {
        struct sockaddr_in mine = at_v4("127.0.0.2", ports[i % 2]),
                           at = at_v4("127.0.0.1", ports[i / 2]);
        struct in_pktinfo from = {.ipi_spec_dst.s_addr = htonl(INADDR_LOOPBACK)};
        union {
            struct cmsghdr h;
            char room[CMSG_SPACE(sizeof from)];
        } control = {.h = {CMSG_LEN(sizeof from), IPPROTO_IP, IP_PKTINFO}};
        struct iovec text = {"no question of any use", 22};
        struct msghdr m = {.msg_name = &at,
                           .msg_namelen = sizeof at,
                           .msg_iov = &text,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof control};
        memcpy(CMSG_DATA(&control.h), &from, sizeof from);
        int fd = box_socket('u');
        assert_int_equal(bind(fd, (struct sockaddr *)&mine, sizeof mine), 0);
        assert_int_equal(sendmsg(fd, &m, 0), 22);
        (void)close(fd);
    }
    usleep(1000 * 1000);
    box_ask("why no.example.org", answer);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)broker_pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, stat, sizeof stat - 1);
    (void)close(fd);
    assert_true(n > 0);
    stat[n] = '\0';
    p = strrchr(stat, ')');
    unsigned long user = 0, kernel = 0;
    assert_non_null(p);
    assert_int_equal(
        sscanf(p, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel), 2);
    if (user + kernel > 10) // hundredths of a second
        fail_msg("it used %lu ms of processor time for four datagrams", (user + kernel) * 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, finish)
        TEST(test_tls_for_the_same_name_passes),
        TEST(test_a_hello_in_pieces_is_put_together),
        TEST(test_tls_for_another_name_is_refused),
        TEST(test_http_for_the_same_host_passes_and_is_counted),
        TEST(test_http_for_another_host_is_refused),
        TEST(test_http_is_known_by_its_first_line),
        TEST(test_methods_and_paths_are_judged),
        TEST(test_a_websocket_passes_when_the_server_agrees),
        TEST(test_connections_in_all),
        TEST(test_connections_at_one_time),
        TEST(test_a_key_has_quotas_of_its_own),
        TEST(test_requests),
        TEST(test_bytes_up_and_down),
        TEST(test_a_flood_is_cheap_and_counted),
        TEST(test_bytes_arrive_as_they_were_sent),
        TEST(test_many_connections_at_once),
        TEST(test_the_broker_does_not_answer_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
