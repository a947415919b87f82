// SPDX-License-Identifier: Apache-2.0
//
// What the kernel holds for a process beside its pages is counted: each kind grows with the number
// of its objects.

#include "keeper/overhead.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"

enum { MANY = 200 };

static const char *own_status(void)
{
    static char text[4096];
    assert_true(file_read_at(AT_FDCWD, "/proc/self/status", text, sizeof text) > 0);
    return text;
}

static void test_open_files_count(void **state)
{
    int fds[MANY];
    (void)state;
    uint64_t before = overhead_bytes(getpid(), own_status());
    for (int i = 0; i < MANY; i++)
        assert_true((fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
    uint64_t with = overhead_bytes(getpid(), own_status());
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    assert_true(with >= before + MANY * UINT64_C(4096));
}

static uint64_t count_mappings(size_t *ret_most)
{
    bool nameless = false;
    *ret_most = overhead_mappings_most(own_status());
    return overhead_mappings(getpid(), UINT64_MAX, &nameless);
}

static void test_mappings_count_and_the_bound_holds(void **state)
{
    size_t most, page = (size_t)sysconf(_SC_PAGESIZE);
    char *at = mmap(NULL, 2 * MANY * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)state;
    assert_ptr_not_equal(at, MAP_FAILED);
    uint64_t before = count_mappings(&most);
    assert_true(before > 0 && before <= most);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(mprotect(at + 2 * i * page, page, PROT_READ), 0);
    uint64_t with = count_mappings(&most);
    assert_true(with >= before + MANY * UINT64_C(2) * 200 && with <= most);
    munmap(at, 2 * MANY * page);
}

static void test_shared_memory_without_a_name_costs_more(void **state)
{
    size_t most, page = (size_t)sysconf(_SC_PAGESIZE);
    void *at[MANY];
    (void)state;
    uint64_t before = count_mappings(&most);
    for (size_t i = 0; i < MANY; i++)
        at[i] = mmap(NULL, page, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t with = count_mappings(&most);
    bool nameless = false;
    (void)overhead_mappings(getpid(), UINT64_MAX, &nameless);
    assert_true(nameless);
    for (size_t i = 0; i < MANY; i++)
        munmap(at[i], page);
    assert_true(with >= before + MANY * UINT64_C(1200) && with <= most);
}

static void test_counting_ends_when_it_is_enough(void **state)
{
    bool nameless = false;
    (void)state;
    assert_true(overhead_mappings(getpid(), 0, &nameless) > 0);
    assert_int_equal(overhead_mappings(-1, UINT64_MAX, &nameless), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_files_count),
        cmocka_unit_test(test_mappings_count_and_the_bound_holds),
        cmocka_unit_test(test_shared_memory_without_a_name_costs_more),
        cmocka_unit_test(test_counting_ends_when_it_is_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
