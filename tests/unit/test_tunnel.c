// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of broker/tunnel: a proxy that answers slowly, or not at all, holds nothing for longer
// than it may.

#include "unit.h"

#include "moved_clock.h"

#include <event2/event.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "broker/tunnel.h"

static struct event *event; // the last one that was added, and for how long
static struct timeval most;
static bool bounded;

int __real_event_add(struct event *ev, const struct timeval *wait);
int __wrap_event_add(struct event *ev, const struct timeval *wait);
int __wrap_event_add(struct event *ev, const struct timeval *wait)
{
    event = ev;
    bounded = wait != NULL;
    most = wait ? *wait : (struct timeval){0};
    return __real_event_add(ev, wait);
}

static int calls, last_fd, last_errnum;

static void on_done(int fd, int errnum, const char *why, void *argument)
{
    (void)why;
    (void)argument;
    calls++;
    last_fd = fd;
    last_errnum = errnum;
}

struct lab {
    struct event_base *base;
    int far; // the proxy
    struct tunnel *tunnel;
};

static int begin(void **state)
{
    static struct lab lab;
    static const struct net_proxy proxy = {.login = ""};
    int pair[2];
    char question[512];
    ahead_s = 0;
    calls = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    lab = (struct lab){.base = event_base_new(), .far = pair[1]};
    lab.tunnel = tunnel_new(lab.base, pair[0], &proxy, "index.test", 443, on_done, NULL);
    assert_non_null(lab.tunnel);
    event_base_loop(lab.base, EVLOOP_ONCE);
    ssize_t n = read(lab.far, question, sizeof question - 1);
    assert_true(n > 0);
    question[n] = '\0';
    assert_non_null(strstr(question, "CONNECT index.test:443 HTTP/1.1\r\n"));
    *state = &lab;
    return 0;
}

static int end(void **state)
{
    struct lab *lab = *state;
    if (calls)
        fd_close(&last_fd);
    else
        tunnel_free(lab->tunnel);
    fd_close(&lab->far);
    event_base_free(lab->base);
    return 0;
}

static void a_false_alarm_keeps_the_bound(void **state)
{
    struct lab *lab = *state;
    bounded = false;
    event_active(event, EV_READ, 0); // the kernel says so, and there is nothing
    event_base_loop(lab->base, EVLOOP_NONBLOCK);
    assert_int_equal(calls, 0);
    assert_true(bounded);
    assert_true(most.tv_sec <= TUNNEL_MS / 1000);
}

static void a_byte_now_and_then_gives_no_more_time(void **state)
{
    struct lab *lab = *state;
    ahead_s = TUNNEL_MS / 1000 - 5;
    assert_int_equal(write(lab->far, "HTTP/1.1 2", 10), 10);
    event_base_loop(lab->base, EVLOOP_ONCE);
    assert_int_equal(calls, 0);
    assert_true(bounded && most.tv_sec <= 5);
    ahead_s = TUNNEL_MS / 1000 + 5; // and when it is over, it is
    assert_int_equal(write(lab->far, "0", 1), 1);
    event_base_loop(lab->base, EVLOOP_ONCE);
    event_base_loop(lab->base, EVLOOP_ONCE);
    assert_int_equal(calls, 1);
    assert_int_equal(last_errnum, ETIMEDOUT);
}

static void what_follows_the_answer_is_the_boxs(void **state)
{
    struct lab *lab = *state;
    char rest[16];
    static const char said[] = "HTTP/1.1 200 yes\r\nA: b\r\n\r\nhello";
    assert_int_equal(write(lab->far, said, sizeof said - 1), sizeof said - 1);
    event_base_loop(lab->base, EVLOOP_ONCE);
    assert_int_equal(calls, 1);
    assert_int_equal(last_errnum, 0);
    assert_int_equal(read(last_fd, rest, sizeof rest), 5);
    assert_memory_equal(rest, "hello", 5);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        T(a_false_alarm_keeps_the_bound),
        T(a_byte_now_and_then_gives_no_more_time),
        T(what_follows_the_answer_is_the_boxs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
