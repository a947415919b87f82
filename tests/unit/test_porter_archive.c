// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of porter/archive: what was exported comes back; what is damaged, or was made to do
// harm, leaves nothing.

#include "open_wheels.h"

#include "porter/archive.h"

static int export_two(struct archive *a)
{
    struct archive_wheel two[2] = {{.sha256 = WHEEL_A}, {.sha256 = WHEEL_B}};
    uint64_t bytes;
    struct err e = {0};
    struct stat st;
    store_good(WHEEL_A, two[0].id);
    store_good(WHEEL_B, two[1].id);
    a->wheels = two;
    a->count = 2;
    a->manifest = json_pack("{s:s, s:[i, i]}", "name", "env", "n", 1, 2);
    int fd = memfd_create("archive", MFD_CLOEXEC);
    if (archive_write(&wheels, fd, a, NULL, &bytes, &e) < 0)
        fail_msg("%s", e.message);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, bytes);
    a->wheels = NULL;
    return fd;
}

static void what_was_exported_comes_back(void **state)
{
    (void)state;
    struct archive a, b;
    struct err e = {0};
    char normal[WHEEL_ID + 1];
    int fds = unit_fd_count();
    int fd = export_two(&a), again = export_two(&b);
    struct stat st[2];
    json_decref(b.manifest);
    assert_true(fstat(fd, &st[0]) == 0 && fstat(again, &st[1]) == 0);
    assert_int_equal(st[0].st_size, st[1].st_size);
    void *x = mmap(NULL, (size_t)st[0].st_size, PROT_READ, MAP_SHARED, fd, 0);
    void *y = mmap(NULL, (size_t)st[0].st_size, PROT_READ, MAP_SHARED, again, 0);
    assert_memory_equal(x, y, (size_t)st[0].st_size); // nothing in it depends on the moment
    (void)munmap(x, (size_t)st[0].st_size);
    (void)munmap(y, (size_t)st[0].st_size);
    (void)close(again);
    if (archive_read(&wheels, fd, &plenty, NULL, &b, &e) < 0)
        fail_msg("%s", e.message);
    assert_true(json_equal(a.manifest, b.manifest));
    assert_int_equal(b.count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(b.wheels[i].sha256, i ? WHEEL_B : WHEEL_A);
        assert_int_equal(b.wheels[i].size.files, 6);
        is_whole(b.wheels[i].id);
        assert_int_equal(mode_of(b.wheels[i].id, "pkg/deep/tool"), S_IFREG | 0555);
        // SECURITY: it is not what others get for that wheel.
        assert_int_equal(wheels_id(&wheels, b.wheels[i].sha256, "", normal), 0);
        assert_string_not_equal(normal, b.wheels[i].id);
    }
    assert_int_equal(count_below(""), 4);
    struct archive c;
    assert_int_equal(archive_read(&wheels, fd, &plenty, NULL, &c, &e), 0);
    assert_string_equal(c.wheels[0].id, b.wheels[0].id); // the same once more is no more
    assert_int_equal(count_below(""), 4);
    archive_done(&c);
    archive_done(&b);
    archive_done(&a);
    (void)close(fd);
    assert_int_equal(unit_fd_count(), fds);
}

static void a_damaged_archive_leaves_nothing(void **state)
{
    (void)state;
    struct archive a, b;
    int fd = export_two(&a);
    static uint8_t data[DRAFT_MAX];
    ssize_t size = pread(fd, data, sizeof data, 0);
    (void)close(fd);
    archive_done(&a);
    char page[4][WHEEL_ID + 1];
    size_t count;
    bool more;
    assert_int_equal(wheels_list(&wheels, "", page, 4, &count, &more, NULL), 0);
    while (count)
        assert_int_equal(wheels_drop(&wheels, page[--count], NULL), 0);
    for (ssize_t i = 0; i < size; i++) { // a byte is other, or it ends there
        struct err e = {0};
        data[i] ^= 1;
        fd = draft_open(data, (size_t)size);
        assert_true(archive_read(&wheels, fd, &plenty, NULL, &b, &e) < 0);
        assert_true(e.code == ERR_BAD_ARCHIVE || e.code == ERR_PACKAGE_TOO_LARGE);
        (void)close(fd);
        data[i] ^= 1;
        fd = draft_open(data, (size_t)i);
        assert_int_equal(archive_read(&wheels, fd, &plenty, NULL, &b, &e), -EBADMSG);
        assert_int_equal(e.code, ERR_BAD_ARCHIVE);
        (void)close(fd);
    }
    assert_int_equal(count_below(""), 0);
    data[size] = 0;
    fd = draft_open(data, (size_t)size + 1);
    assert_true(archive_read(&wheels, fd, &plenty, NULL, &b, NULL) < 0);
    (void)close(fd);
    // The limit is for both wheels.
    struct bundle_size limit = {.bytes = plenty.bytes, .files = 11};
    struct err e = {0};
    fd = draft_open(data, (size_t)size);
    assert_int_equal(archive_read(&wheels, fd, &limit, NULL, &b, &e), -EFBIG);
    assert_int_equal(count_below(""), 0);
    limit.files = 12;
    assert_int_equal(archive_read(&wheels, fd, &limit, NULL, &b, &e), 0);
    assert_int_equal(count_below(""), 2);
    archive_done(&b);
    (void)close(fd);
}

// With a digest that fits, so that the other checks are met.
static int seal_archive(struct draft *k)
{
    uint8_t sum[32];
    assert_int_equal(EVP_Digest(k->data, k->size, sum, NULL, EVP_sha256(), NULL), 1);
    draft_put(k, sum, sizeof sum);
    return draft_open(k->data, k->size);
}

static void draft_wheel(struct draft *k, const char *wheel)
{
    uint8_t length[4];
    fileio_put_u32(length, (uint32_t)strlen(wheel));
    draft_put(k, length, 4);
    draft_put(k, wheel, strlen(wheel));
    draft_put(k, "CBUN1\n", 6);
    draft_head(k, 0, 0, 0);
}

static void hostile_archives(void **state)
{
    (void)state;
    static const struct {
        const char *manifest, *first, *second, *with; // with NULL: good
    } cases[] = {
        {"{}", WHEEL_A, WHEEL_B, NULL},
        {"{}", NULL, NULL, NULL},
        {"[]", NULL, NULL, "not a JSON object"},
        {"", NULL, NULL, "not a JSON object"},
        {"{", NULL, NULL, "not a JSON object"},
        {"{\"a\":1,\"a\":2}", NULL, NULL, "not a JSON object"},
        {"{}", WHEEL_A, WHEEL_A, "twice"},
        {"{}", "../../../../../../../../../../../../../../../../../../etc/passwd", NULL,
         "no valid SHA-256"},
        {"{}", "aa", NULL, ""},
        {"{}", WHEEL_A "a", NULL, "no valid SHA-256"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct archive a;
        struct err e = {0};
        uint8_t length[4];
        draft.size = 0;
        draft_put(&draft, "CENV1\n", 6);
        fileio_put_u32(length, (uint32_t)strlen(cases[i].manifest));
        draft_put(&draft, length, 4);
        draft_put(&draft, cases[i].manifest, strlen(cases[i].manifest));
        if (cases[i].first)
            draft_wheel(&draft, cases[i].first);
        if (cases[i].second)
            draft_wheel(&draft, cases[i].second);
        _cleanup_close_ int fd = seal_archive(&draft);
        int r = archive_read(&wheels, fd, &plenty, NULL, &a, &e);
        assert_int_equal(r == 0, cases[i].with == NULL);
        if (r == 0)
            archive_done(&a);
        else if (e.code != ERR_BAD_ARCHIVE || !strstr(e.message, cases[i].with))
            fail_msg("case %zu: %s", i, e.message);
    }
    // A manifest that says it is 4 GiB.
    struct archive a;
    struct err e = {0};
    draft.size = 0;
    draft_put(&draft, "CENV1\n\xff\xff\xff\xff{}", 12);
    _cleanup_close_ int fd = seal_archive(&draft);
    assert_int_equal(archive_read(&wheels, fd, &plenty, NULL, &a, &e), -EBADMSG);
    assert_non_null(strstr(e.message, "4294967295"));
}

static void an_export_that_cannot_be_written(void **state)
{
    (void)state;
    struct archive_wheel wheel = {.sha256 = WHEEL_A};
    struct archive a = {.manifest = json_object(), .wheels = &wheel, .count = 1};
    struct err e = {0};
    uint64_t bytes;
    _cleanup_close_ int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    store_good(WHEEL_A, wheel.id);
    assert_int_equal(archive_write(&wheels, full, &a, NULL, &bytes, &e), -ENOSPC);
    assert_int_equal(e.code, ERR_DISK_FULL);
    assert_int_equal(wheels_drop(&wheels, wheel.id, &e), 0);
    assert_int_equal(archive_write(&wheels, full, &a, NULL, &bytes, &e), -ENOENT);
    assert_int_equal(e.code, ERR_FILE_UNKNOWN);
    json_decref(a.manifest);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin_fast, end)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_exported_comes_back, begin, end),
        TEST(a_damaged_archive_leaves_nothing),
        TEST(hostile_archives),
        TEST(an_export_that_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
