// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of base/maps: what the kernel says of mappings that the test has made itself.

#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/maps.h"

static bool find(const void *start, struct mapping *ret, char *name, size_t cap)
{
    struct maps maps;
    struct mapping m;
    bool found = false;
    assert_int_equal(maps_open(&maps), 0);
    while (maps_next(&maps, &m))
        if ((uintptr_t)start >= m.start && (uintptr_t)start < m.end) {
            found = true;
            *ret = m;
            snprintf(name, cap, "%s", m.name);
        }
    assert_false(maps.failed);
    assert_int_equal(maps.fd, -1);
    assert_false(maps_next(&maps, &m)); // the end stays the end
    return found;
}

// Three pages, of which the middle one is another mapping than its neighbours.
static char *make_three(int fd, int flags)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *at = mmap(NULL, 3 * page, PROT_NONE, flags, fd, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    assert_int_equal(mprotect(at + page, page, PROT_READ | PROT_WRITE), 0);
    return at + page;
}

static void says_where_a_mapping_is_and_what_may_be_done_there(void **state)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct mapping m;
    char name[600];
    (void)state;
    char *at = make_three(-1, MAP_PRIVATE | MAP_ANONYMOUS);
    assert_true(find(at, &m, name, sizeof name));
    assert_int_equal(m.start, (uintptr_t)at);
    assert_int_equal(m.end, (uintptr_t)at + page);
    assert_string_equal(m.mode, "rw-p");
    assert_false(m.file);
    assert_string_equal(name, "");
    assert_int_equal(munmap(at - page, 3 * page), 0);
    assert_true(!find(at, &m, name, sizeof name) || m.start > (uintptr_t)at);
}

static void knows_a_file_by_its_name_also_when_it_is_gone(void **state)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char path[] = "/tmp/constrictor maps-XXXXXX", name[600];
    struct mapping m;
    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && ftruncate(fd, (off_t)(3 * page)) == 0);
    char *at = make_three(fd, MAP_SHARED);
    assert_true(find(at, &m, name, sizeof name));
    assert_string_equal(m.mode, "rw-s");
    assert_true(m.file);
    assert_string_equal(name, path);
    assert_int_equal(unlink(path), 0);
    assert_true(find(at, &m, name, sizeof name));
    assert_true(m.file);
    assert_non_null(strstr(name, " (deleted)"));
    assert_int_equal(munmap(at - page, 3 * page), 0);
    (void)close(fd);
}

// A line that does not fit is one line all the same.
static void cuts_a_long_name(void **state)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char folder[] = "/tmp/constrictor-maps-XXXXXX", path[1200], name[600];
    struct mapping m;
    int fds[2];
    char *at[2];
    (void)state;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 2; i++) {
        // The names differ at their beginning only: 250 letters in each of three folders.
        snprintf(path, sizeof path, "%s/%d%0249d", folder, i, 0);
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(path, sizeof path, "%s/%d%0249d/%0250d", folder, i, 0, 0);
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(path, sizeof path, "%s/%d%0249d/%0250d/%0250d", folder, i, 0, 0, 0);
        fds[i] = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fds[i] >= 0 && ftruncate(fds[i], (off_t)(3 * page)) == 0);
        at[i] = make_three(fds[i], MAP_PRIVATE);
    }
    for (int i = 0; i < 2; i++) {
        char begin[64];
        snprintf(begin, sizeof begin, "%s/%d000", folder, i);
        assert_true(find(at[i], &m, name, sizeof name));
        assert_int_equal(m.start, (uintptr_t)at[i]);
        assert_true(m.file);
        assert_int_equal(strncmp(name, begin, strlen(begin)), 0);
        assert_true(strlen(name) > 300 && strlen(name) < 512);
        assert_int_equal(munmap(at[i] - page, 3 * page), 0);
        (void)close(fds[i]);
        snprintf(path, sizeof path, "%s/%d%0249d/%0250d/%0250d", folder, i, 0, 0, 0);
        for (char *slash = path + strlen(path); slash > path + strlen(folder);
             slash = strrchr(path, '/')) {
            *slash = '\0';
            (void)remove(path);
        }
    }
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_where_a_mapping_is_and_what_may_be_done_there),
        cmocka_unit_test(knows_a_file_by_its_name_also_when_it_is_gone),
        cmocka_unit_test(cuts_a_long_name),
    };
    return cmocka_run_group_tests_name("maps", tests, NULL, NULL);
}
