// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of run/meter, on files that look like those of a cgroup.

#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/meter.h"

enum { FILES_MAX = 4 };

static char folder[] = "/tmp/constrictor-meter-XXXXXX";
static const struct wire_limits limits = {.memory_bytes = 64 << 20, .processes = 8};

static void set(int file, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%d", folder, file);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static struct meter open_meter(enum box_cgroup_kind kind, size_t count)
{
    struct meter m;
    int fds[FILES_MAX];
    char path[64];
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%zu", folder, i);
        assert_true((fds[i] = open(path, O_RDONLY | O_CLOEXEC)) >= 0);
    }
    meter_open(&m, kind, fds, count);
    return m;
}

static void fill_v1(const char *total, const char *system, const char *peak, const char *pids)
{
    set(0, total);
    set(1, system);
    set(2, peak);
    set(3, pids);
}

static void version_1(void **state)
{
    (void)state;
    struct wire_usage u;
    fill_v1("5000000\n", "1000000\n", "1000000\n", "3\n");
    struct meter m = open_meter(BOX_CGROUP_V1, 4);
    assert_int_equal(m.count, 4);
    fill_v1("9000000\n", "2000000\n", "2000000\n", "4\n");
    assert_true(meter_read(&m, &limits, &u));
    assert_true(u.cpu_user_us == 3000 && u.cpu_system_us == 1000); // since it was opened
    assert_true(u.peak_memory_bytes == 2000000 && u.peak_processes == 3);
    assert_true(meter_read(&m, &limits, &u));
    assert_true(u.cpu_user_us == 0 && u.cpu_system_us == 0); // since the last time
    meter_close(&m);
    assert_false(meter_read(&m, &limits, &u));
}

static void what_is_near_a_limit_is_the_keepers(void **state)
{
    (void)state;
    struct wire_usage u;
    fill_v1("1000\n", "0\n", "1000000\n", "2\n");
    struct meter m = open_meter(BOX_CGROUP_V1, 4);
    fill_v1("8000\n", "0\n", "60000000\n", "2\n");
    assert_false(meter_read(&m, &limits, &u));
    assert_true(u.cpu_user_us == 7); // but the time is right
    fill_v1("9000\n", "0\n", "1000000\n", "10\n");
    assert_false(meter_read(&m, &limits, &u));
    fill_v1("9000\n", "0\n", "1000000\n", "9\n");
    assert_true(meter_read(&m, &limits, &u));
    meter_close(&m);
}

static void version_2(void **state)
{
    (void)state;
    struct wire_usage u;
    set(0, "usage_usec 30\nuser_usec 20\nsystem_usec 10\nnice_usec 0\n");
    set(1, "1000000\n");
    set(2, "3\n");
    struct meter m = open_meter(BOX_CGROUP_V2, 3);
    assert_int_equal(m.count, 3);
    set(0, "usage_usec 50\nuser_usec 35\nsystem_usec 15\n");
    assert_true(meter_read(&m, &limits, &u));
    assert_true(u.cpu_user_us == 15 && u.cpu_system_us == 5 && u.peak_processes == 2);
    meter_close(&m);
}

static void files_that_say_something_else_are_no_meter(void **state)
{
    (void)state;
    int before = unit_fd_count();
    set(0, "nothing\n");
    set(1, "1\n");
    set(2, "2\n");
    set(3, "3\n");
    struct meter m = open_meter(BOX_CGROUP_V2, 3);
    assert_int_equal(m.count, 0);
    m = open_meter(BOX_CGROUP_V1, 4);
    assert_int_equal(m.count, 0);
    m = open_meter(BOX_CGROUP_V1, 3); // not all of them
    assert_int_equal(m.count, 0);
    assert_int_equal(unit_fd_count(), before);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char path[64];
    for (int i = 0; i < FILES_MAX; i++) {
        snprintf(path, sizeof path, "%s/%d", folder, i);
        (void)unlink(path);
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_1),
        cmocka_unit_test(what_is_near_a_limit_is_the_keepers),
        cmocka_unit_test(version_2),
        cmocka_unit_test(files_that_say_something_else_are_no_meter),
    };
    return cmocka_run_group_tests_name("meter", tests, make_folder, remove_folder);
}
