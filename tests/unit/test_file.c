// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of base/file: small files of the kernel, as they are and as they should not be.

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"

static int dir = -1;
static char dir_name[] = "/tmp/constrictor-test-XXXXXX";

static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir_name))
        return -1;
    dir = open(dir_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir < 0 ? -1 : 0;
}

static int remove_dir(void **state)
{
    (void)state;
    (void)unlinkat(dir, "f", 0);
    fd_close(&dir);
    return rmdir(dir_name);
}

static void put(const char *data, size_t len)
{
    int fd = openat(dir, "f", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, data, len), 0);
    fd_close(&fd);
}

static void reads_what_fits_and_terminates_it(void **state)
{
    (void)state;
    for (size_t n = 0; n < 40; n++) {
        char data[40], *buf = malloc(32);
        assert_non_null(buf);
        memset(data, 'd', sizeof data);
        memset(buf, '#', 32);
        put(data, n);
        ssize_t r = file_read_at(dir, "f", buf, 32);
        assert_int_equal(r, n < 32 ? (ssize_t)n : -EFBIG);
        if (r >= 0)
            assert_int_equal(strlen(buf), n);
        free(buf);
    }
}

static void what_cannot_be_read(void **state)
{
    (void)state;
    char buf[8];
    uint64_t v = 7;
    int before = unit_fd_count();
    assert_int_equal(file_read_at(dir, "absent", buf, sizeof buf), -ENOENT);
    assert_int_equal(file_read_at(dir, ".", buf, sizeof buf), -EISDIR);
    assert_int_equal(file_read_at(dir, "f", buf, 0), -EFBIG);
    assert_int_equal(file_read_u64_at(dir, "absent", &v), -ENOENT);
    assert_int_equal(file_read_key_at(dir, "absent", "k", &v), -ENOENT);
    assert_int_equal(file_write_at(dir, "absent", "1"), -ENOENT);
    assert_int_equal(file_write_at(dir, ".", "1"), -EISDIR);
    assert_int_equal(v, 7);
    assert_int_equal(unit_fd_count(), before);
}

static void writes_and_reads_back(void **state)
{
    (void)state;
    const uint64_t numbers[] = {0, 1, 4096, INT64_MAX, UINT64_MAX - 1, UINT64_MAX};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        uint64_t v = 7;
        put("", 0);
        assert_int_equal(file_write_u64_at(dir, "f", numbers[i]), 0);
        assert_int_equal(file_read_u64_at(dir, "f", &v), 0);
        assert_true(v == numbers[i]);
    }
    char buf[32];
    put("", 0);
    assert_int_equal(file_write_at(dir, "f", "+memory +pids"), 0);
    assert_int_equal(file_read_at(dir, "f", buf, sizeof buf), 13);
    assert_string_equal(buf, "+memory +pids");
    // A device that takes nothing.
    assert_int_equal(file_write_at(AT_FDCWD, "/dev/full", "1"), -ENOSPC);
}

static void numbers(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int result;
        uint64_t value;
    } cases[] = {
        {"0\n", 0, 0},
        {"42\n", 0, 42},
        {"max\n", 0, UINT64_MAX},
        {"18446744073709551615\n", 0, UINT64_MAX},
        {"18446744073709551616\n", -EINVAL, 0},
        {"", -EINVAL, 0},
        {"\n", -EINVAL, 0},
        {"lots\n", -EINVAL, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t v = 7;
        put(cases[i].text, strlen(cases[i].text));
        assert_int_equal(file_read_u64_at(dir, "f", &v), cases[i].result);
        assert_true(v == (cases[i].result ? 7 : cases[i].value));
    }
}

static void keys(void **state)
{
    (void)state;
    static const char text[] = "low 1\noom 2\noom_kill 3\nVmRSS:\t   4 kB\nlast max";
    const struct {
        const char *key;
        int result;
        uint64_t value;
    } cases[] = {
        {"low", 0, 1},           {"oom", 0, 2},
        {"oom_kill", 0, 3},      {"VmRSS", 0, 4},
        {"last", 0, UINT64_MAX}, {"kill", -ENOENT, 0},
        {"oom_ki", -ENOENT, 0},  {"oom_kill_", -ENOENT, 0},
    };
    put(text, sizeof text - 1);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t v = 7;
        assert_int_equal(file_read_key_at(dir, "f", cases[i].key, &v), cases[i].result);
        assert_true(v == (cases[i].result ? 7 : cases[i].value));
    }
}

static void keys_in_strange_files(void **state)
{
    (void)state;
    uint64_t v = 7;
    char big[5000];
    memset(big, 'x', sizeof big);
    put(big, sizeof big);
    assert_int_equal(file_read_key_at(dir, "f", "x", &v), -EFBIG);
    put("", 0);
    assert_int_equal(file_read_key_at(dir, "f", "x", &v), -ENOENT);
    put("x", 1);
    assert_int_equal(file_read_key_at(dir, "f", "x", &v), -ENOENT);
    put("x ", 2);
    assert_int_equal(file_read_key_at(dir, "f", "x", &v), -EINVAL);
    put("a\0x 1\n", 6); // what follows a NUL byte is not read
    assert_int_equal(file_read_key_at(dir, "f", "x", &v), -ENOENT);
    put("\n\n\nx 5\n", 7);
    assert_int_equal(file_read_key_at(dir, "f", "x", &v), 0);
    assert_int_equal(v, 5);
}

static void keys_through_a_descriptor_that_stays_open(void **state)
{
    (void)state;
    uint64_t v = 7;
    put("low 1\noom_kill 3\n", 17);
    int fd = openat(dir, "f", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 2; i++) { // from its beginning each time
        assert_int_equal(file_read_key(fd, "oom_kill", &v), 0);
        assert_int_equal(v, 3);
    }
    put("low 1\noom_kill 44\n", 18); // as it is now
    assert_int_equal(file_read_key(fd, "oom_kill", &v), 0);
    assert_int_equal(v, 44);
    assert_int_equal(file_read_key(fd, "oom", &v), -ENOENT);
    fd_close(&fd);
    assert_int_equal(file_read_key(-1, "low", &v), -EBADF);
    assert_int_equal(v, 44);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_fits_and_terminates_it),
        cmocka_unit_test(what_cannot_be_read),
        cmocka_unit_test(writes_and_reads_back),
        cmocka_unit_test(numbers),
        cmocka_unit_test(keys),
        cmocka_unit_test(keys_in_strange_files),
        cmocka_unit_test(keys_through_a_descriptor_that_stays_open),
    };
    return cmocka_run_group_tests_name("file", tests, make_dir, remove_dir);
}
