// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of run/admission: the share of the runs that each key has.

#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "run/admission.h"
#include "run/gate.h"

enum { PLACES_TEST_MAX = 256 };

static struct gate gate;
static struct admitted *taken[PLACES_TEST_MAX];
static unsigned count;

static int setup(void **state)
{
    (void)state;
    gate = (struct gate){.runs_max = 64};
    count = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    while (count)
        admission_return(&gate, &taken[--count]);
    assert_int_equal(gate.admitted, 0);
    assert_null(LIST_FIRST(&gate.holders));
    return 0;
}

static bool take(const char *owner, struct err *e)
{
    if (admission_take(&gate, owner, &taken[count], e) < 0)
        return false;
    count++;
    return true;
}

// As many as it can get, up to `most`.
static unsigned take_all(const char *owner, unsigned most)
{
    struct err e;
    unsigned n = 0;
    while (n < most && take(owner, &e))
        n++;
    return n;
}

static void one_owner_has_every_place(void **state)
{
    (void)state;
    struct err e;
    for (gate.owners = 0; gate.owners < 2; gate.owners++) {
        assert_int_equal(admission_most(&gate), 64);
        assert_int_equal(take_all(gate.owners ? "a" : "", 1000), 64);
        assert_false(take("a", &e));
        assert_int_equal(e.code, ERR_BUSY);
        assert_non_null(strstr(e.hint, "--runs"));
        (void)teardown(NULL);
    }
    gate.runs_max = 0; // no bound
    assert_int_equal(take_all("", 100), 100);
}

static void a_greedy_key_leaves_the_last_quarter(void **state)
{
    (void)state;
    struct err e;
    gate.owners = 2;
    assert_int_equal(take_all("greedy", 1000), 48);
    assert_int_equal(admission_most(&gate), 48);
    assert_false(take("greedy", &e));
    assert_int_equal(e.code, ERR_BUSY);
    assert_non_null(strstr(e.message, "48 of its runs"));
    assert_int_equal(take_all("other", 1000), 16);
    assert_false(take("other", &e));
    // What the gate runs for itself has no share.
    admission_return(&gate, &taken[--count]);
    assert_true(take("", &e));
}

static void a_place_that_is_returned_can_be_taken(void **state)
{
    (void)state;
    struct err e;
    gate.owners = 3;
    assert_int_equal(take_all("greedy", 1000), 48);
    admission_return(&gate, &taken[--count]);
    assert_null(taken[count]);
    admission_return(&gate, &taken[count]); // does nothing
    assert_int_equal(gate.admitted, 47);
    assert_true(take("greedy", &e));
    assert_false(take("greedy", &e));
}

// However many places and keys there are, and in whatever order greedy keys come: each key finds
// its share.
static void each_key_finds_its_share(void **state)
{
    (void)state;
    static const unsigned places[] = {2, 3, 4, 5, 8, 24, 64, 100};
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        for (unsigned keys = 2; keys < 40; keys++) {
            char owner[16];
            gate = (struct gate){.runs_max = places[i], .owners = keys};
            unsigned quarter = places[i] - admission_most(&gate), share = quarter / (keys - 1);
            for (unsigned k = 0; k + 1 < keys; k++) { // all but one are greedy
                snprintf(owner, sizeof owner, "key-%u", k);
                unsigned got = take_all(owner, 1000);
                assert_true(got >= share || keys - 1 > quarter);
                assert_true(got || k > quarter);
            }
            assert_true(take_all("last", 1000) >= share);
            (void)teardown(NULL);
        }
}

static void tokens_leave_room_for_a_quarter_of_newcomers(void **state)
{
    (void)state;
    char owner[16];
    gate.owners = INT_MAX;
    assert_int_equal(take_all("greedy", 1000), 48);
    for (unsigned i = 0; i < 16; i++) {
        snprintf(owner, sizeof owner, "iss:%u", i);
        assert_int_equal(take_all(owner, 1000), 1);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(one_owner_has_every_place),
        TEST(a_greedy_key_leaves_the_last_quarter),
        TEST(a_place_that_is_returned_can_be_taken),
        TEST(each_key_finds_its_share),
        TEST(tokens_leave_room_for_a_quarter_of_newcomers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
