// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of the porter's parts when memory runs out: each allocation fails once; that is an
// error, nothing is lost, and nothing is left on the wheels.  All allocations of the program's own
// code go through failing_malloc.h.

#include "bundles.h"
#include "failing_malloc.h"

#include "porter/archive.h"
#include "porter/unpack.h"

static struct draft draft;
static struct wheels wheels;
static const struct bundle_size plenty = {.bytes = 1 << 20, .files = 5000};

static int begin(void **state)
{
    (void)state;
    make_wheel_folders(false);
    open_test_wheels(&wheels);
    return 0;
}

static int end(void **state)
{
    (void)state;
    wheels_close(&wheels);
    remove_wheel_folders();
    return 0;
}

static int store(int fd, char ret_id[WHEEL_ID + 1], struct err *e)
{
    struct wheel_move move;
    struct unpack piece;
    struct file_reader in;
    struct bundle_size size;
    int r =
        wheels_id(&wheels, WHEEL_A, "", move.to) < 0 ? -ENOMEM : file_reader_open(&in, fd, NULL, e);
    if (r < 0)
        return r;
    r = unpack_begin(&piece, &wheels, e);
    struct bundle_sink sink = unpack_sink(&piece);
    if (r == 0)
        r = bundle_read(&in, &plenty, &sink, &size, e);
    file_reader_close(&in);
    if (r < 0) {
        unpack_discard(&piece);
        return r;
    }
    unpack_end(&piece);
    memcpy(move.from, piece.name, sizeof piece.name);
    memcpy(ret_id, move.to, sizeof move.to);
    return wheels_put(&wheels, &move, 1, e);
}

// More names than fit the first table.
static int many_files(void)
{
    char path[16];
    draft_begin(&draft);
    for (int i = 0; i < 1000; i++) {
        snprintf(path, sizeof path, "d%d/f%d", i % 10, i);
        draft_file(&draft, path, 0, "x");
    }
    draft_end(&draft);
    return draft_open(draft.data, draft.size);
}

static void storing(void **state)
{
    (void)state;
    char id[WHEEL_ID + 1];
    struct err e = {0};
    _cleanup_close_ int fd = many_files();
    int fds = unit_fd_count(), r = -1, n = 0;
    long before = live;
    for (; r < 0; n++) {
        assert_true(n < 1000);
        fail_at = n + 1;
        r = store(fd, id, &e);
        fail_at = 0;
        assert_int_equal(live, before);
        assert_int_equal(unit_fd_count(), fds);
        if (r < 0)
            assert_int_equal(count_below(""), 0);
    }
    assert_true(n > 2);
    assert_int_equal(count_below(""), 1);
}

static void exporting_and_importing(void **state)
{
    (void)state;
    struct archive_wheel wheel = {.sha256 = WHEEL_A};
    struct archive a = {.manifest = json_pack("{s:s}", "name", "x"), .wheels = &wheel, .count = 1};
    struct archive b;
    struct err e = {0};
    uint64_t bytes;
    draft_good(&draft);
    _cleanup_close_ int fd = draft_open(draft.data, draft.size);
    _cleanup_close_ int file = memfd_create("archive", MFD_CLOEXEC);
    assert_int_equal(store(fd, wheel.id, &e), 0);
    int fds = unit_fd_count(), r = -1, n = 0;
    long before = live;
    for (; r < 0; n++) {
        assert_true(n < 1000);
        assert_int_equal(ftruncate(file, 0), 0);
        assert_int_equal(lseek(file, 0, SEEK_SET), 0);
        fail_at = n + 1;
        r = archive_write(&wheels, file, &a, NULL, &bytes, &e);
        fail_at = 0;
        assert_int_equal(live, before);
        assert_int_equal(unit_fd_count(), fds);
    }
    assert_true(n > 5);
    for (r = -1, n = 0; r < 0; n++) {
        assert_true(n < 1000);
        fail_at = n + 1;
        r = archive_read(&wheels, file, &plenty, NULL, &b, &e);
        fail_at = 0;
        if (r == 0)
            archive_done(&b);
        assert_int_equal(live, before);
        assert_int_equal(unit_fd_count(), fds);
        assert_int_equal(count_below(""), r == 0 ? 2 : 1);
    }
    assert_true(n > 5);
    json_decref(a.manifest);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {TEST(storing), TEST(exporting_and_importing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
