// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of keeper/stems: which of those that rest stay, and that each socket is closed once.

#include "unit.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "keeper/stems.h"

static struct stems stems;

static int begin(void **state)
{
    (void)state;
    memset(&stems, 0, sizeof stems);
    stems_init(&stems);
    return 0;
}

static int end(void **state)
{
    (void)state;
    stems_end_all(&stems);
    assert_int_equal(stems.resting_count, 0);
    return 0;
}

static int add(int slot)
{
    int sock[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
    stems_add(&stems, slot, sock[0]);
    return sock[1];
}

// The stem's side: has the keeper let go of it?
static bool is_ended(int far)
{
    char byte;
    return recv(far, &byte, 1, MSG_DONTWAIT) == 0;
}

static void test_there_is_none(void **state)
{
    (void)state;
    assert_int_equal(stems_wake(&stems, 7), -1);
    stems_rest(&stems, 7);
    stems_end(&stems, 7);
    assert_int_equal(stems.resting_count, 0);
}

static void test_it_comes_back(void **state)
{
    (void)state;
    int far = add(7), sock = stems.by_slot[7].sock;
    assert_int_equal(stems_wake(&stems, 7), sock);
    stems_rest(&stems, 7);
    stems_rest(&stems, 7); // said twice, counted once
    assert_int_equal(stems.resting_count, 1);
    assert_int_equal(stems_wake(&stems, 7), sock);
    assert_int_equal(stems.resting_count, 0);
    assert_false(is_ended(far));
    stems_end(&stems, 7);
    assert_true(is_ended(far));
    assert_int_equal(stems_wake(&stems, 7), -1);
    (void)close(far);
}

// The one that has rested longest goes, never one that has a box.
static void test_few_stay(void **state)
{
    enum { MANY = STEMS_RESTING_MAX + 10 };
    int far[MANY];
    (void)state;
    for (int i = 0; i < MANY; i++)
        far[i] = add(i + 1);
    for (int i = 1; i < MANY; i++) // the first one's box lives on
        stems_rest(&stems, i + 1);
    assert_int_equal(stems.resting_count, STEMS_RESTING_MAX);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(is_ended(far[i]), i > 0 && i < MANY - STEMS_RESTING_MAX);
    stems_end_all(&stems);
    for (int i = 0; i < MANY; i++) {
        assert_true(is_ended(far[i]));
        (void)close(far[i]);
    }
}

static void test_a_new_one_takes_the_place(void **state)
{
    (void)state;
    int first = add(3), second = add(3);
    assert_true(is_ended(first));
    assert_false(is_ended(second));
    (void)close(first);
    (void)close(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_there_is_none, begin, end),
        cmocka_unit_test_setup_teardown(test_it_comes_back, begin, end),
        cmocka_unit_test_setup_teardown(test_few_stay, begin, end),
        cmocka_unit_test_setup_teardown(test_a_new_one_takes_the_place, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
