// SPDX-License-Identifier: Apache-2.0
//
// The keeper's epoll goes on when the user has no watch left.

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "keeper/poller.h"
#include "unit.h"

static bool is_full; // the kernel's answer to every EPOLL_CTL_ADD

int __real_epoll_ctl(int epoll, int op, int fd, struct epoll_event *ev);
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *ev);

int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *ev)
{
    if (op != EPOLL_CTL_ADD || !is_full)
        return __real_epoll_ctl(epoll, op, fd, ev);
    errno = ENOSPC;
    return -1;
}

enum { MANY = 200 };
static int epoll, fds[MANY];

static int setup(void **state)
{
    (void)state;
    is_full = false;
    epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < MANY; i++)
        fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < MANY; i++)
        poller_close(&fds[i]);
    (void)close(epoll);
    return 0;
}

static void watch(int i)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = (uint64_t)i};
    assert_int_equal(poller_ctl(epoll, EPOLL_CTL_ADD, fds[i], &ev), 0);
}

static void ring(int i)
{
    assert_int_equal(write(fds[i], &(uint64_t){1}, 8), 8);
}

static void hush(int i)
{
    uint64_t n;
    assert_int_equal(read(fds[i], &n, sizeof n), 8);
}

static void test_a_refused_descriptor_is_heard(void **state)
{
    struct epoll_event events[8];
    (void)state;
    watch(0);
    is_full = true;
    watch(1);
    ring(1);
    assert_int_equal(poller_wait(epoll, events, 8), 1);
    assert_int_equal(events[0].data.u64, 1);
    assert_int_equal(events[0].events, EPOLLIN);
    ring(0);
    assert_int_equal(poller_wait(epoll, events, 8), 2);
}

static void test_a_refused_descriptor_goes_to_epoll_when_there_is_room(void **state)
{
    struct epoll_event events[8], ev = {.events = EPOLLIN};
    (void)state;
    is_full = true;
    watch(1);
    is_full = false;
    ring(1);
    assert_int_equal(poller_wait(epoll, events, 8), 1);
    assert_int_equal(events[0].data.u64, 1);
    assert_int_equal(__real_epoll_ctl(epoll, EPOLL_CTL_ADD, fds[1], &ev), -1);
    assert_int_equal(errno, EEXIST);
}

static void test_changing_and_removing(void **state)
{
    struct epoll_event events[8], ev = {.events = 0, .data.u64 = 7};
    (void)state;
    is_full = true;
    watch(1);
    watch(2);
    ring(1);
    ring(2);
    assert_int_equal(poller_ctl(epoll, EPOLL_CTL_MOD, fds[1], &ev), 0);
    assert_int_equal(poller_wait(epoll, events, 8), 1); // a box at rest
    assert_int_equal(events[0].data.u64, 2);
    ev.events = EPOLLIN;
    assert_int_equal(poller_ctl(epoll, EPOLL_CTL_MOD, fds[1], &ev), 0);
    assert_int_equal(poller_ctl(epoll, EPOLL_CTL_DEL, fds[2], NULL), 0);
    assert_int_equal(poller_wait(epoll, events, 8), 1);
    assert_int_equal(events[0].data.u64, 7);
    assert_int_equal(poller_ctl(epoll, EPOLL_CTL_DEL, fds[2], NULL), -1);
    assert_int_equal(errno, ENOENT);
}

static void test_a_closed_descriptor_is_forgotten(void **state)
{
    struct epoll_event events[8];
    (void)state;
    is_full = true;
    watch(1);
    watch(2);
    ring(1);
    ring(2);
    poller_close(&fds[1]);
    assert_int_equal(fds[1], -1);
    assert_int_equal(poller_wait(epoll, events, 8), 1);
    assert_int_equal(events[0].data.u64, 2);
}

static void test_neither_side_starves_the_other(void **state)
{
    struct epoll_event events[8];
    bool heard[MANY] = {false};
    (void)state;
    watch(0);
    ring(0);
    is_full = true;
    for (int i = 1; i < MANY; i++) {
        watch(i);
        ring(i);
    }
    for (int round = 0; round < 2 * MANY; round++) {
        int n = poller_wait(epoll, events, 8);
        bool first = false;
        for (int i = 0; i < n; i++) {
            heard[events[i].data.u64] = true;
            first |= events[i].data.u64 == 0;
        }
        assert_true(first);
    }
    for (int i = 0; i < MANY; i++)
        assert_true(heard[i]);
    hush(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_refused_descriptor_is_heard, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_refused_descriptor_goes_to_epoll_when_there_is_room,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_changing_and_removing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_closed_descriptor_is_forgotten, setup, teardown),
        cmocka_unit_test_setup_teardown(test_neither_side_starves_the_other, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
