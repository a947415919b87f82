// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of base/timer.

#include "unit.h"

#include <stdlib.h>

#include "base/timer.h"

struct owner {
    struct event_base *base;
    struct timer timer;
    unsigned calls, again;
};

static bool memory_is_out;

static void *get(size_t size)
{
    return memory_is_out ? NULL : malloc(size);
}

static void *get_more(void *old, size_t size)
{
    return memory_is_out ? NULL : realloc(old, size);
}

static void on_time(void *argument)
{
    struct owner *o = argument;
    o->calls++;
    assert_false(timer_is_set(&o->timer));
    if (o->again) {
        o->again--;
        assert_true(timer_set(&o->timer, o->base, 0, on_time, o));
    }
}

static void a_call_comes_once_and_may_set_the_next(void **state)
{
    struct owner o = {.base = *state, .again = 2};
    assert_false(timer_is_set(&o.timer));
    timer_stop(&o.timer);
    assert_true(timer_set(&o.timer, o.base, 0, on_time, &o));
    assert_true(timer_is_set(&o.timer));
    assert_int_equal(event_base_dispatch(o.base), 1); // nothing is left to wait for
    assert_int_equal(o.calls, 3);
}

static void a_call_that_was_stopped_does_not_come(void **state)
{
    struct owner o = {.base = *state};
    assert_true(timer_set(&o.timer, o.base, 0, on_time, &o));
    timer_stop(&o.timer);
    assert_false(timer_is_set(&o.timer));
    assert_int_equal(event_base_dispatch(o.base), 1);
    assert_int_equal(o.calls, 0);
}

static void free_owner(void *argument)
{
    free(argument);
}

static void a_call_may_free_its_owner(void **state)
{
    struct owner *o = calloc(1, sizeof *o);
    assert_non_null(o);
    assert_true(timer_set(&o->timer, *state, 0, free_owner, o));
    assert_int_equal(event_base_dispatch(*state), 1);
}

// The listening socket, for one, is off until its timer comes.
static void a_timer_is_not_lost_when_memory_is_out(void **state)
{
    struct owner o = {.base = *state};
    assert_true(timer_set(&o.timer, o.base, 60000, on_time, &o));
    memory_is_out = true;
    bool set = timer_set(&o.timer, o.base, 0, on_time, &o);
    memory_is_out = false;
    assert_true(set);
    assert_int_equal(event_base_dispatch(o.base), 1);
    assert_int_equal(o.calls, 1);
}

static int begin(void **state)
{
    *state = event_base_new();
    return *state ? 0 : -1;
}

static int end(void **state)
{
    event_base_free(*state);
    return 0;
}

int main(void)
{
    event_set_mem_functions(get, get_more, free);
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(a_call_comes_once_and_may_set_the_next),
        TEST(a_call_that_was_stopped_does_not_come),
        TEST(a_call_may_free_its_owner),
        TEST(a_timer_is_not_lost_when_memory_is_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
