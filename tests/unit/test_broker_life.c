// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of the broker as a whole: what changes while it lives: grants, rules, gates, boxes,
// and itself.

#include "broker_reach.h"

static void test_a_new_grant_ends_what_it_does_not_allow(void **state)
{
    int far;
    (void)state;
    broker_run_usual();
    int fd = reach(LOCAL, &far);
    say(fd, "x");
    hears(far, "x");
    grant("[{\"allow\": [\"*.ok.test\"]}]");
    say(fd, "y");
    hears(far, "y");
    grant("[{\"allow\": [\"*.ok.test\"], \"deny\": [\"" LOCAL "\"]}]");
    hears_reset(fd);
    hears_reset(far);
    (void)close(fd);
    (void)close(far);
    json_t *o = settle(), *e = event_of(o, "connect", "denied");
    assert_string_equal(text_of(e, "rule"), LOCAL);
    json_decref(o);
    grant("[\"off\"]");
    char address[INET_ADDRSTRLEN];
    assert_int_equal(box_lookup("other.ok.test", address), QUERY_NO_NAME);
}

static void test_before_a_grant_nothing_is_allowed(void **state)
{
    char address[INET_ADDRSTRLEN];
    (void)state;
    add_rule(&config.allow_hosts, "*");
    start_broker();
    assert_int_equal(pthread_create(&dns.thread, NULL, dns_main, NULL), 0);
    send_box(THE_BOX);
    link_gate();
    assert_int_equal(box_lookup(LOCAL, address), QUERY_NO_NAME);
    expect_event("resolve", "not_allowed", LOCAL);
    send_gate(
        "{\"op\": \"grant\", \"box\": 77, \"key\": \"k\", \"run\": \"r\", \"rule_sets\": [7]}");
    assert_int_equal(box_lookup(LOCAL, address), QUERY_NO_NAME);
    // The rules are read again meanwhile: nothing of the old ones is used.
    union wire_message m = {.files = {.present = 1U << (WIRE_FILES_MAX - 1)}};
    int file = memfd_create("network", MFD_CLOEXEC);
    assert_int_equal(fd_write_all(file, "{}", 2), 0);
    assert_int_equal(wire_send(keeper, WIRE_FILES, &m, &file, 1), 0);
    (void)close(file);
    assert_int_equal(box_lookup(LOCAL, address), QUERY_NO_NAME);
    send_gate("[[[");
    send_gate("{\"op\": \"grant\", \"box\": \"x\"}");
    send_gate("{\"op\": \"settle\", \"box\": 5}");
    char buf[200];
    ssize_t n = recv(gate, buf, sizeof buf - 1, 0);
    assert_true(n > 0);
    buf[n] = '\0';
    assert_non_null(strstr(buf, "\"unknown\":true"));
}

static void *grant_late(void *argument)
{
    usleep(300 * 1000);
    send_gate(
        "{\"op\": \"grant\", \"box\": 77, \"key\": \"k\", \"run\": \"r\", \"rule_sets\": []}");
    return argument;
}

// A broker that is new hears of its boxes from the keeper and of their grants from the gate, a
// moment later.
static void test_a_question_before_the_grant_waits_for_it(void **state)
{
    char address[INET_ADDRSTRLEN];
    pthread_t thread;
    (void)state;
    add_rule(&config.allow_hosts, "*.ok.test");
    add_rule(&config.allow_hosts, "127.0.0.1");
    start_broker();
    assert_int_equal(pthread_create(&dns.thread, NULL, dns_main, NULL), 0);
    send_box(THE_BOX);
    link_gate();
    assert_int_equal(pthread_create(&thread, NULL, grant_late, NULL), 0);
    assert_int_equal(box_lookup(LOCAL, address), 0);
    pthread_join(thread, NULL);
    expect_quiet();
}

static void test_the_network_file_is_read_again(void **state)
{
    int far;
    static const char one[] = "{\"default\": {\"allow\": [\"*.ok.test\", \"127.0.0.1\"]}}";
    static const char bad[] = "{\"default\": {\"allow\": [\"http://x\"]}}";
    static const char two[] = "{\"default\": {\"allow\": [\"other.test\"]}}";
    const char *texts[] = {one, bad, two};
    int fds[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        fds[i] = memfd_create("network", MFD_CLOEXEC);
        assert_int_equal(fd_write_all(fds[i], texts[i], strlen(texts[i])), 0);
    }
    facts.network_file = fds[0];
    broker_run();
    int fd = reach(LOCAL, &far);
    union wire_message m = {.files = {.present = 1U << (WIRE_FILES_MAX - 1)}};
    assert_int_equal(wire_send(keeper, WIRE_FILES, &m, &fds[1], 1), 0);
    say(fd, "x");
    hears(far, "x");
    expect_quiet(); // a bad file changes nothing
    assert_int_equal(wire_send(keeper, WIRE_FILES, &m, &fds[2], 1), 0);
    hears_reset(fd);
    (void)close(fd);
    (void)close(far);
    char target[64];
    snprintf(target, sizeof target, "%s:%u", LOCAL, port);
    expect_event("connect", "not_allowed", target);
    (void)close(fds[1]);
    (void)close(fds[2]);
}

static void test_a_new_broker_takes_over_the_sockets(void **state)
{
    char address[INET_ADDRSTRLEN];
    int far, status;
    (void)state;
    broker_run_usual();
    int fd = reach(LOCAL, &far);
    say(fd, "x");
    hears(far, "x"); // it was accepted
    assert_int_equal(box_lookup(LOCAL, address), 0);
    assert_int_equal(kill(broker_pid, SIGKILL), 0);
    assert_int_equal(waitpid(broker_pid, &status, 0), broker_pid);
    hears_reset(fd); // not an end in order, which would look like a whole answer
    (void)close(fd);
    (void)close(far);
    fd_close(&keeper);
    start_broker();
    send_box(THE_BOX);
    link_gate();
    grant("[]");
    // What the old one gave out stands for nothing now, and says so.
    connect_is_reset(address, port);
    char target[64];
    snprintf(target, sizeof target, "%s:%u", address, port);
    expect_event("connect", "unknown_address", target);
    // The port is open already.
    fd = box_reach(LOCAL, port, listener, &far);
    say(fd, "x");
    hears(far, "x");
    (void)close(fd);
    (void)close(far);
}

static void test_a_new_gate_finds_boxes_and_grants(void **state)
{
    int far;
    (void)state;
    broker_run_usual();
    int fd = reach(LOCAL, &far);
    link_gate();
    say(fd, "x");
    hears(far, "x");
    json_t *o = settle();
    assert_int_equal(number_of(o, "connections"), 1);
    json_decref(o);
    (void)close(fd);
    (void)close(far);
}

static void test_a_box_that_is_gone_leaves_nothing(void **state)
{
    int far;
    (void)state;
    broker_run_usual();
    int fd = reach(LOCAL, &far);
    say(fd, "x");
    hears(far, "x"); // it was accepted
    union wire_message m = {.net_box = {.box = THE_BOX}};
    assert_int_equal(wire_send(keeper, WIRE_NET_GONE, &m, NULL, 0), 0);
    hears_reset(fd);
    hears_reset(far);
    (void)close(fd);
    (void)close(far);
    json_t *o = settle();
    assert_true(json_is_true(json_object_get(o, "unknown")));
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, finish)
        TEST(test_a_new_grant_ends_what_it_does_not_allow),
        TEST(test_before_a_grant_nothing_is_allowed),
        TEST(test_a_question_before_the_grant_waits_for_it),
        TEST(test_the_network_file_is_read_again),
        TEST(test_a_new_broker_takes_over_the_sockets),
        TEST(test_a_new_gate_finds_boxes_and_grants),
        TEST(test_a_box_that_is_gone_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
