// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of keeper/cgroup: what is counted to a run, in a group that others were in before it.
// The kernel is played by a driver of our own.

#include "unit.h"

#include "keeper/cgroup.h"

static struct wire_usage kernel;

static void usage(struct cgroup *cg, struct wire_usage *ret)
{
    (void)cg;
    *ret = kernel;
}

static const struct cgroup_driver driver = {.name = "test", .usage = usage};
static struct cgroup_root root = {.driver = &driver};

static struct wire_usage measure(uint64_t base_user, uint64_t base_system, uint64_t user,
                                 uint64_t system)
{
    struct cgroup cg = {.root = &root};
    struct wire_usage u;
    kernel = (struct wire_usage){.cpu_user_us = base_user, .cpu_system_us = base_system};
    cgroup_begin(&cg);
    kernel = (struct wire_usage){.cpu_user_us = user, .cpu_system_us = system};
    cgroup_usage(&cg, &u);
    return u;
}

static void assert_cpu(struct wire_usage u, uint64_t user, uint64_t system)
{
    assert_int_equal(u.cpu_user_us, user);
    assert_int_equal(u.cpu_system_us, system);
}

static void what_was_before_is_not_the_runs(void **state)
{
    (void)state;
    assert_cpu(measure(0, 0, 70, 30), 70, 30);
    assert_cpu(measure(9000000, 3000000, 9000070, 3000030), 70, 30);
}

// A tick that met the system moves time from one to the other that the run never had.
static void a_share_that_falls_is_not_the_time_of_all_before(void **state)
{
    (void)state;
    assert_cpu(measure(9000000, 3000000, 8997000, 3004000), 0, 1000);
    assert_cpu(measure(9000000, 3000000, 9004000, 2997000), 1000, 0);
    assert_cpu(measure(9000000, 3000000, 8999000, 2999000), 0, 0);
}

static void what_was_not_measured_stays_so(void **state)
{
    (void)state;
    assert_cpu(measure(5, 5, UINT64_MAX, UINT64_MAX), UINT64_MAX, UINT64_MAX);
    assert_cpu(measure(UINT64_MAX, UINT64_MAX, 70, 30), 70, 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_before_is_not_the_runs),
        cmocka_unit_test(a_share_that_falls_is_not_the_time_of_all_before),
        cmocka_unit_test(what_was_not_measured_stays_so),
    };
    return cmocka_run_group_tests_name("cgroup", tests, NULL, NULL);
}
