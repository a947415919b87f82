// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of the broker as a whole: what it lets through, what it refuses and how it says so.

#include "broker_reach.h"

static void test_an_allowed_host_is_reached(void **state)
{
    int far;
    (void)state;
    broker_run_usual();
    int fd = -1;
    char address[INET_ADDRSTRLEN], question[100], answer[QUESTION_MAX + 1];
    assert_int_equal(box_lookup(LOCAL, address), 0);
    assert_memory_equal(address, "198.1", 5);
    // Not one of the usual ports: code that asks gets it.
    snprintf(question, sizeof question, "connect %s %u now", address, port);
    box_ask(question, answer);
    assert_string_equal(answer, "ok");
    fd = box_reach(LOCAL, port, listener, &far);
    say(fd, "ping\n");
    hears(far, "ping\n");
    say(far, "pong\n");
    hears(fd, "pong\n");
    (void)close(fd);
    hears_end(far);
    (void)close(far);
    json_t *o = settle(), *h = json_array_get(json_object_get(o, "hosts"), 0);
    assert_string_equal(text_of(h, "host"), LOCAL);
    assert_int_equal(number_of(h, "port"), port);
    assert_int_equal(number_of(o, "bytes_up"), 5);
    assert_int_equal(number_of(o, "bytes_down"), 5);
    assert_int_equal(number_of(h, "bytes_down"), 5);
    assert_int_equal(json_array_size(json_object_get(o, "events")), 0);
    json_decref(o);
    o = settle();
    assert_int_equal(number_of(o, "connections"), 0);
    json_decref(o);
}

static void test_a_name_that_is_not_allowed_is_refused_and_never_asked_for(void **state)
{
    char address[INET_ADDRSTRLEN], answer[QUESTION_MAX + 1];
    (void)state;
    broker_run_usual();
    assert_int_equal(box_lookup("secret.tunnel.example.org", address), QUERY_NO_NAME);
    assert_int_equal(box_lookup_type("secret.tunnel.example.org", QUERY_AAAA, address),
                     QUERY_NO_NAME);
    assert_int_equal(box_lookup_type("secret.tunnel.example.org", 16, address), QUERY_NO_NAME);
    assert_int_equal(box_lookup("a-127-0-0-1.notok.test", address), QUERY_NO_NAME);
    assert_int_equal(box_lookup("ok.test", address), QUERY_NO_NAME); // *.ok.test is not itself
    box_ask("why secret.tunnel.example.org", answer);
    assert_memory_equal(answer, "no 13 ", 6);
    assert_non_null(strstr(answer, "*.ok.test"));
    assert_int_equal(dns.asked, 0);
    json_t *o = settle(), *e = event_of(o, "resolve", "not_allowed");
    assert_string_equal(text_of(e, "host"), "secret.tunnel.example.org");
    assert_string_equal(text_of(e, "layer"), "broker");
    assert_int_equal(number_of(e, "count"), 1);
    json_decref(o);
}

static void test_other_types_of_allowed_names_are_not_looked_up(void **state)
{
    char address[INET_ADDRSTRLEN];
    (void)state;
    broker_run_usual();
    assert_int_equal(box_lookup_type(LOCAL, 16, address), QUERY_OK);
    assert_int_equal(box_lookup_type(LOCAL, QUERY_AAAA, address), QUERY_OK);
    assert_string_equal(address, "");
    assert_int_equal(dns.asked, 0);
}

static void test_each_name_keeps_its_address(void **state)
{
    char one[INET_ADDRSTRLEN], two[INET_ADDRSTRLEN], again[INET_ADDRSTRLEN];
    (void)state;
    broker_run_usual();
    assert_int_equal(box_lookup(LOCAL, one), 0);
    assert_int_equal(box_lookup("a-127-0-0-1.b.ok.test", two), 0);
    assert_int_equal(box_lookup("A-127-0-0-1.OK.test", again), 0);
    assert_string_not_equal(one, two);
    assert_string_equal(one, again);
}

static void test_another_port_is_refused(void **state)
{
    char address[INET_ADDRSTRLEN], question[100], answer[QUESTION_MAX + 1];
    (void)state;
    add_rule(&config.allow_hosts, "a-127-0-0-1.ok.test:443");
    add_rule(&config.allow_hosts, "127.0.0.1");
    broker_run();
    assert_int_equal(box_lookup(LOCAL, address), 0);
    snprintf(question, sizeof question, "connect %s %u wait", address, port);
    box_ask(question, answer);
    assert_memory_equal(answer, "no 13 ", 6);
    assert_non_null(strstr(answer, "port_not_allowed"));
    char target[64];
    snprintf(target, sizeof target, "%s:%u", LOCAL, port);
    expect_event("connect", "port_not_allowed", target);
    // In the box nothing listens there, either.
    assert_int_equal(box_connect(address, port), -ECONNREFUSED);
}

static void test_a_private_address_is_refused_with_its_scope(void **state)
{
    static const struct {
        const char *name, *address;
    } cases[] = {
        {"a-10-0-0-1.ok.test", "10.0.0.1"},
        {"a-192-168-1-1.ok.test", "192.168.1.1"},
        {"a-169-254-169-254.ok.test", "169.254.169.254"},
        {"a-127-0-0-2.ok.test", "127.0.0.2"},
        {"a-100-64-0-1.ok.test", "100.64.0.1"},
        {"a-0-0-0-0.ok.test", "0.0.0.0"},
        {"a-224-0-0-1.ok.test", "224.0.0.1"},
    };
    char address[INET_ADDRSTRLEN], question[100], answer[QUESTION_MAX + 1];
    (void)state;
    broker_run_usual();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(box_lookup(cases[i].name, address), QUERY_NO_NAME);
        snprintf(question, sizeof question, "why %s", cases[i].name);
        box_ask(question, answer);
        assert_memory_equal(answer, "no 13 ", 6);
        assert_non_null(strstr(answer, cases[i].address));
        json_t *o = settle(), *e = event_of(o, "resolve", "address_not_public");
        assert_string_equal(text_of(e, "address"), cases[i].address);
        assert_string_equal(text_of(e, "host"), cases[i].name);
        json_decref(o);
    }
}

static void test_an_address_needs_a_rule_of_its_own(void **state)
{
    char answer[QUESTION_MAX + 1], question[100];
    int far;
    (void)state;
    broker_run_usual();
    listen_by_asking(LOCAL);
    box_ask("connect 192.0.2.1 443 wait", answer);
    assert_memory_equal(answer, "no 13 ", 6);
    expect_event("connect", "address_not_public", "192.0.2.1:443");
    box_ask("connect 8.8.8.8 443 now", answer);
    assert_memory_equal(answer, "no 13 ", 6);
    expect_event("connect", "address_not_allowed", "8.8.8.8:443");
    // Without asking: the port is open in the box, and whatever was meant is judged.
    connect_is_reset("8.8.8.8", port);
    char target[64];
    snprintf(target, sizeof target, "8.8.8.8:%u", port);
    expect_event("connect", "address_not_allowed", target);
    // The operator's rule opens this very address, though it is the host's loopback.
    snprintf(question, sizeof question, "connect 127.0.0.1 %u wait", port);
    box_ask(question, answer);
    assert_string_equal(answer, "ok");
    int fd = box_connect("127.0.0.1", port);
    assert_true(fd >= 0);
    // One was dialled for the name before.
    for (int i = 0; i < 2; i++) {
        wait_readable(listener);
        far = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (i == 0)
            (void)close(far);
    }
    say(fd, "x");
    hears(far, "x");
    (void)close(far);
    (void)close(fd);
}

static void test_the_hosts_loopback_is_named_in_the_refusal(void **state)
{
    char answer[QUESTION_MAX + 1];
    (void)state;
    add_rule(&config.allow_hosts, "*");
    broker_run();
    box_ask("connect 127.0.0.1 8000 wait", answer);
    assert_memory_equal(answer, "no 13 ", 6);
    assert_non_null(strstr(answer, "cannot reach the host's loopback"));
    expect_event("connect", "address_not_public", "127.0.0.1:8000");
}

static void test_every_spelling_of_a_private_address_is_refused(void **state)
{
    static const char *const addresses[] = {
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "2002:a00:1::",
        "fe80::1",
        "fd00::1",
        "fd00:ec2::254",
        "ff02::1",
        "0.0.0.0",
        "169.254.169.254",
        "100.100.100.200",
        "255.255.255.255",
        "198.18.0.1",
    };
    char question[100], answer[QUESTION_MAX + 1];
    (void)state;
    add_rule(&config.allow_hosts, "*");
    add_rule(&config.allow_hosts, "0.0.0.0/0");
    add_rule(&config.allow_hosts, "::/0");
    broker_run();
    for (size_t i = 0; i < ARRAY_LEN(addresses); i++) {
        snprintf(question, sizeof question, "connect %s 80 wait", addresses[i]);
        box_ask(question, answer);
        if (strncmp(answer, "no 13 ", 6) != 0)
            fail_msg("%s: %s", addresses[i], answer);
    }
    // And by IPv6 itself, without asking; a look-up has opened the port.
    char address[INET_ADDRSTRLEN];
    assert_int_equal(box_lookup("a-44-128-0-1.test", address), 0);
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = htons(80)};
    assert_int_equal(inet_pton(AF_INET6, "fd00::1", &at.sin6_addr), 1);
    int fd = box_socket('6');
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    hears_reset(fd);
    (void)close(fd);
    json_t *o = settle();
    assert_int_equal(number_of(o, "connections"), 0);
    json_decref(o);
}

static void test_ports_of_address_rules_are_open_without_asking(void **state)
{
    char text[32];
    (void)state;
    snprintf(text, sizeof text, "127.0.0.1:%u", port);
    add_rule(&config.allow_hosts, text);
    broker_run();
    json_decref(settle());
    int fd = box_connect("127.0.0.1", port);
    assert_true(fd >= 0);
    wait_readable(listener);
    int far = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    say(fd, "x");
    hears(far, "x");
    (void)close(fd);
    (void)close(far);
}

static void test_rebinding_leads_nowhere(void **state)
{
    char address[INET_ADDRSTRLEN], question[100], answer[QUESTION_MAX + 1];
    int far, refused = 0;
    (void)state;
    broker_run_usual();
    // A resolver that answers 127.0.0.1 (allowed) and 10.0.0.1 (not) in turn: either is judged by
    // itself.
    assert_int_equal(box_lookup("flip.ok.test", address), 0);
    snprintf(question, sizeof question, "connect %s %u wait", address, port);
    for (int i = 0; i < 4; i++) {
        usleep(1100 * 1000); // longer than the least time that answers are kept
        box_ask(question, answer);
        if (strncmp(answer, "no 13 ", 6) == 0) {
            refused++;
            assert_non_null(strstr(answer, "10.0.0.1"));
            continue;
        }
        assert_string_equal(answer, "ok");
        wait_readable(listener);
        far = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        (void)close(far);
    }
    assert_int_equal(refused, 2);
    json_t *o = settle(), *e = event_of(o, "connect", "address_not_public");
    assert_string_equal(text_of(e, "address"), "10.0.0.1");
    json_decref(o);
}

static void test_bad_addresses_of_a_name_are_skipped(void **state)
{
    int far;
    (void)state;
    broker_run_usual();
    int fd = reach("mixed.ok.test", &far);
    say(fd, "x");
    hears(far, "x");
    (void)close(fd);
    (void)close(far);
    expect_quiet();
}

static void test_a_thousand_addresses_are_no_burden(void **state)
{
    int far;
    (void)state;
    broker_run_usual();
    int fd = reach("many.ok.test", &far); // 127.0.0.1 is the first of them; the others are refused
    say(fd, "x");
    hears(far, "x");
    (void)close(fd);
    (void)close(far);
}

static void test_a_resolver_that_fails_is_told_apart(void **state)
{
    static const struct {
        const char *name, *question, *answer;
        int code;
    } cases[] = {
        {"nowhere.ok.test", "why nowhere.ok.test", "no 2 ", QUERY_NO_NAME},
        {"empty.ok.test", "why empty.ok.test", "no 2 ", QUERY_NO_NAME},
        {"servfail.ok.test", "why servfail.ok.test", "no 11 ", QUERY_FAILED},
        {"garbage.ok.test", "why garbage.ok.test", "no 1", QUERY_FAILED},
        {"silent.ok.test", "why silent.ok.test", "no 110 ", QUERY_FAILED},
    };
    char address[INET_ADDRSTRLEN], answer[QUESTION_MAX + 1];
    (void)state;
    broker_run_usual();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t began = clock_ms();
        int code = box_lookup(cases[i].name, address);
        if (code != cases[i].code)
            fail_msg("%s: code %d", cases[i].name, code);
        assert_true(clock_ms() - began < 20000);
        box_ask(cases[i].question, answer);
        if (strncmp(answer, cases[i].answer, strlen(cases[i].answer)) != 0)
            fail_msg("%s: %s", cases[i].name, answer);
        // Known for some seconds: no look-up waits twice.
        began = clock_ms();
        assert_int_equal(box_lookup(cases[i].name, address), cases[i].code);
        assert_true(clock_ms() - began < 3000);
    }
    expect_quiet(); // nothing was refused
}

static void test_a_dead_resolver_is_an_answer(void **state)
{
    char address[INET_ADDRSTRLEN];
    (void)state;
    memset(&config.dns_servers, 0, sizeof config.dns_servers);
    add_rule(&config.dns_servers, "127.0.0.1:1"); // nothing listens
    broker_run_usual();
    int64_t began = clock_ms();
    assert_int_equal(box_lookup(LOCAL, address), QUERY_FAILED);
    assert_true(clock_ms() - began < 20000);
}

static void test_the_far_side_speaks_first(void **state)
{
    int far;
    (void)state;
    broker_run_usual();
    int fd = reach(LOCAL, &far);
    say(far, "220 mail.example.org\r\n");
    hears(fd, "220 mail.example.org\r\n");
    say(fd, "EHLO box\r\n"); // begins like a request, and is none
    hears(far, "EHLO box\r\n");
    (void)close(fd);
    (void)close(far);
    expect_quiet();
}

static void test_half_of_a_connection_ends_alone(void **state)
{
    int far;
    (void)state;
    broker_run_usual();
    int fd = reach(LOCAL, &far);
    say(fd, "question\n");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    hears(far, "question\n");
    hears_end(far);
    say(far, "answer");
    hears(fd, "answer");
    (void)close(far);
    hears_end(fd);
    (void)close(fd);
}

static void reset(int fd)
{
    struct linger now = {.l_onoff = 1};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
    (void)close(fd);
}

static void test_a_reset_is_a_reset_on_the_other_side(void **state)
{
    int far;
    (void)state;
    broker_run_usual();
    int fd = reach(LOCAL, &far);
    reset(far);
    hears_reset(fd);
    (void)close(fd);
    fd = reach(LOCAL, &far);
    reset(fd);
    hears_reset(far);
    (void)close(far);
    expect_quiet();
}

static void test_an_upstream_failure_keeps_its_errno(void **state)
{
    char address[INET_ADDRSTRLEN], question[100], answer[QUESTION_MAX + 1];
    (void)state;
    broker_run_usual();
    assert_int_equal(box_lookup(LOCAL, address), 0);
    snprintf(question, sizeof question, "connect %s 1 wait", address);
    box_ask(question, answer);
    assert_memory_equal(answer, "no 111 ", 7);
    assert_non_null(strstr(answer, LOCAL));
    expect_quiet();
}

static void test_notes_are_events_of_the_box(void **state)
{
    char answer[QUESTION_MAX + 1];
    (void)state;
    broker_run_usual();
    box_ask("note udp 8.8.8.8 53", answer);
    assert_memory_equal(answer, "no 13 ", 6);
    box_ask("note raw 2 3 1", answer);
    assert_memory_equal(answer, "no 1 ", 5);
    box_ask("note raw 2 3", answer);
    assert_memory_equal(answer, "no 22 ", 6);
    json_t *o = settle(), *e = event_of(o, "udp", "udp");
    assert_string_equal(text_of(e, "layer"), "box");
    assert_string_equal(text_of(e, "target"), "8.8.8.8:53");
    e = event_of(o, "raw", "socket_kind");
    assert_string_equal(text_of(e, "layer"), "box");
    json_decref(o);
    // However much code says of itself, what the broker saw is in the report.
    char question[64], address[INET_ADDRSTRLEN];
    for (int i = 1; i <= 2 * BROKER_EVENTS_MAX; i++) {
        snprintf(question, sizeof question, "note udp 8.8.8.%d 53", i);
        box_ask(question, answer);
    }
    assert_int_equal(box_lookup("no.example.org", address), QUERY_NO_NAME);
    expect_event("resolve", "not_allowed", "no.example.org");
}

static void test_each_connection_has_a_line_in_the_audit(void **state)
{
    char buf[8192], address[INET_ADDRSTRLEN];
    int far;
    (void)state;
    broker_run_usual();
    int fd = reach(LOCAL, &far);
    say(fd, "abc");
    hears(far, "abc");
    (void)close(fd);
    hears_end(far);
    (void)close(far);
    expect_quiet(); // and with it the end of the connection is taken in
    assert_int_equal(box_lookup("no.example.org", address), QUERY_NO_NAME);
    expect_event("resolve", "not_allowed", "no.example.org");
    ssize_t n = pread(audit_fd, buf, sizeof buf - 1, 0);
    assert_true(n > 0);
    buf[n] = '\0';
    char *second = strchr(buf, '\n') + 1;
    json_t *o = json_loadb(buf, (size_t)(second - buf), 0, NULL);
    assert_string_equal(text_of(o, "verdict"), "allowed");
    assert_string_equal(text_of(o, "host"), LOCAL);
    assert_string_equal(text_of(o, "address"), "127.0.0.1");
    assert_string_equal(text_of(o, "key"), "k");
    assert_string_equal(text_of(o, "run"), "r1");
    assert_string_equal(text_of(o, "rule"), "*.ok.test");
    assert_int_equal(number_of(o, "bytes_up"), 3);
    json_decref(o);
    o = json_loads(second, JSON_DISABLE_EOF_CHECK, NULL);
    assert_string_equal(text_of(o, "verdict"), "refused");
    assert_string_equal(text_of(o, "reason"), "not_allowed");
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, finish)
        TEST(test_an_allowed_host_is_reached),
        TEST(test_a_name_that_is_not_allowed_is_refused_and_never_asked_for),
        TEST(test_other_types_of_allowed_names_are_not_looked_up),
        TEST(test_each_name_keeps_its_address),
        TEST(test_another_port_is_refused),
        TEST(test_a_private_address_is_refused_with_its_scope),
        TEST(test_an_address_needs_a_rule_of_its_own),
        TEST(test_the_hosts_loopback_is_named_in_the_refusal),
        TEST(test_every_spelling_of_a_private_address_is_refused),
        TEST(test_ports_of_address_rules_are_open_without_asking),
        TEST(test_rebinding_leads_nowhere),
        TEST(test_bad_addresses_of_a_name_are_skipped),
        TEST(test_a_thousand_addresses_are_no_burden),
        TEST(test_a_resolver_that_fails_is_told_apart),
        TEST(test_a_dead_resolver_is_an_answer),
        TEST(test_the_far_side_speaks_first),
        TEST(test_half_of_a_connection_ends_alone),
        TEST(test_a_reset_is_a_reset_on_the_other_side),
        TEST(test_an_upstream_failure_keeps_its_errno),
        TEST(test_notes_are_events_of_the_box),
        TEST(test_each_connection_has_a_line_in_the_audit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
