// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of files/share: one owner never gets all of it.

#include "unit.h"

#include "files/share.h"

static struct share room = TAILQ_HEAD_INITIALIZER(room);

static void one_owner_has_half_and_two_leave_some(void **state)
{
    (void)state;
    struct share_part parts[8] = {0};
    assert_true(share_take(&room, &parts[0], "one", 1, 4));
    assert_true(share_take(&room, &parts[1], "one", 1, 4));
    assert_false(share_take(&room, &parts[2], "one", 1, 4));
    assert_true(share_take(&room, &parts[3], "two", 1, 4));
    assert_false(share_take(&room, &parts[4], "two", 1, 4));
    assert_true(share_take(&room, &parts[5], "three", 1, 4));
    assert_false(share_take(&room, &parts[6], "four", 1, 4));
    share_give(&parts[0]);
    share_give(&parts[0]); // again: nothing happens
    assert_true(share_take(&room, &parts[6], "four", 1, 4));
    for (int i = 0; i < 8; i++)
        share_give(&parts[i]);
    assert_true(TAILQ_EMPTY(&room));
}

static void amounts_do_not_overflow(void **state)
{
    (void)state;
    struct share_part a, b = {0};
    assert_false(share_take(&room, &b, "one", UINT64_MAX, 1000));
    assert_true(share_take(&room, &a, "one", 1000, 1000)); // all of it, when it is alone
    assert_false(share_take(&room, &b, "two", 1, 1000));
    assert_false(share_take(&room, &b, "two", UINT64_MAX, 1000));
    assert_true(share_take(&room, &b, "two", 0, 1000));
    share_give(&a);
    share_give(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_owner_has_half_and_two_leave_some),
        cmocka_unit_test(amounts_do_not_overflow),
    };
    return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
