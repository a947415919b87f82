// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of porter/bundle: what is good arrives as it was, what is bad is refused with a
// sentence, and before anything of it is used.

#include "bundles.h"

static struct draft draft;
static const struct bundle_size plenty = {.bytes = 1 << 20, .files = 100};

// ---- a sink that remembers ----------------------------------------------------------------------

enum { SEEN_MAX = 64 };

static struct {
    unsigned begun, ended;
    uint64_t bytes, open_size, got;
    char paths[SEEN_MAX][BUNDLE_PATH_MAX + 1];
    bool executable[SEEN_MAX];
} seen;

static int on_begin(void *argument, const struct bundle_entry *entry, struct err *e)
{
    (void)argument, (void)e;
    assert_int_equal(seen.begun, seen.ended);
    assert_int_equal(strlen(entry->path), entry->length);
    assert_null(bundle_flaw(entry->path, entry->length));
    if (seen.begun < SEEN_MAX) {
        memcpy(seen.paths[seen.begun], entry->path, entry->length + 1);
        seen.executable[seen.begun] = entry->executable;
    }
    seen.begun++;
    seen.open_size = entry->size;
    seen.got = 0;
    return 0;
}

static int on_data(void *argument, const uint8_t *data, size_t n, struct err *e)
{
    (void)argument, (void)data, (void)e;
    assert_true(n > 0);
    seen.got += n;
    seen.bytes += n;
    return 0;
}

static int on_end(void *argument, struct err *e)
{
    (void)argument, (void)e;
    assert_int_equal(seen.got, seen.open_size);
    seen.ended++;
    return 0;
}

static const struct bundle_sink sink = {.begin = on_begin, .data = on_data, .end = on_end};

static int read_fd(int fd, const struct bundle_size *limit, struct bundle_size *ret, struct err *e)
{
    struct file_reader in;
    struct bundle_size size;
    memset(&seen, 0, sizeof seen);
    int r = file_reader_open(&in, fd, NULL, e);
    if (r == 0)
        r = bundle_read(&in, limit, &sink, &size, e);
    if (r == 0)
        r = file_reader_at_end(&in, e);
    file_reader_close(&in);
    if (r == 0)
        *ret = size;
    return r;
}

static int read_bytes(const void *data, size_t size, const struct bundle_size *limit,
                      struct bundle_size *ret, struct err *e)
{
    _cleanup_close_ int fd = draft_open(data, size);
    return read_fd(fd, limit, ret, e);
}

static void must_be_bad(const char *with)
{
    struct err e = {0};
    struct bundle_size size = {77, 77};
    assert_int_equal(read_bytes(draft.data, draft.size, &plenty, &size, &e), -EBADMSG);
    assert_int_equal(e.code, ERR_BAD_BUNDLE);
    if (!strstr(e.message, with))
        fail_msg("'%s' is not in '%s'", with, e.message);
    assert_int_equal(size.bytes, 77); // set only on success
}

// ---- good ---------------------------------------------------------------------------------------

static void a_good_one_arrives(void **state)
{
    (void)state;
    struct err e = {0};
    struct bundle_size size;
    draft_good(&draft);
    if (read_bytes(draft.data, draft.size, &plenty, &size, &e) < 0)
        fail_msg("%s", e.message);
    assert_int_equal(size.files, 6);
    assert_int_equal(size.bytes, draft.bytes);
    assert_int_equal(seen.bytes, draft.bytes);
    assert_string_equal(seen.paths[3], "pkg/deep/tool");
    assert_true(seen.executable[3] && !seen.executable[0]);
    assert_string_equal(seen.paths[5], "\xc3\xbc.py");
}

static void one_without_files_is_a_bundle(void **state)
{
    (void)state;
    struct bundle_size size;
    draft_begin(&draft);
    draft_end(&draft);
    assert_int_equal(read_bytes(draft.data, draft.size, &plenty, &size, NULL), 0);
    assert_int_equal(size.files, 0);
}

static void a_file_larger_than_the_buffer_arrives_in_pieces(void **state)
{
    (void)state;
    struct bundle_size size, limit = {.bytes = 3 * FILEIO_BUFFER, .files = 2};
    size_t big = 2 * FILEIO_BUFFER + 12345;
    char *text = malloc(big + 1);
    assert_non_null(text);
    memset(text, 'x', big);
    text[big] = '\0';
    draft_begin(&draft);
    draft_head(&draft, 3, 0, big);
    draft_put(&draft, "a/b", 3);
    _cleanup_close_ int fd = draft_open(draft.data, draft.size);
    assert_int_equal(fd_write_all(fd, text, big), 0);
    draft.size = 0;
    draft_head(&draft, 0, 1, big);
    assert_int_equal(fd_write_all(fd, draft.data, draft.size), 0);
    assert_int_equal(read_fd(fd, &limit, &size, NULL), 0);
    assert_int_equal(seen.bytes, big);
    free(text);
}

// ---- bad ----------------------------------------------------------------------------------------

static void cut_short_at_every_byte(void **state)
{
    (void)state;
    draft_good(&draft);
    for (size_t n = 0; n < draft.size; n++) {
        struct err e = {0};
        struct bundle_size size;
        assert_int_equal(read_bytes(draft.data, n, &plenty, &size, &e), -EBADMSG);
        assert_int_equal(e.code, ERR_BAD_BUNDLE);
        assert_true(e.message[0] != '\0');
    }
}

static void every_flipped_bit_is_seen_or_harmless(void **state)
{
    (void)state;
    for (size_t i = 0; i < 8; i++) {
        draft_good(&draft);
        for (size_t at = 0; at < draft.size; at++) {
            struct bundle_size size;
            struct err e = {0};
            draft.data[at] ^= (uint8_t)(1U << i);
            int r = read_bytes(draft.data, draft.size, &plenty, &size, &e);
            assert_true(r == 0 || r == -EBADMSG || r == -EFBIG);
            assert_true(r == 0 || e.message[0]);
            if (r == 0) // only in names and contents
                assert_true(size.files == 6 && size.bytes == draft.bytes);
            draft.data[at] ^= (uint8_t)(1U << i);
        }
    }
}

static void bytes_behind_the_end(void **state)
{
    (void)state;
    draft_good(&draft);
    draft_put(&draft, "x", 1);
    must_be_bad("1 bytes follow");
}

static void totals_must_fit(void **state)
{
    (void)state;
    static const struct {
        int files, bytes;
    } cases[] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        draft_begin(&draft);
        draft_file(&draft, "a", 0, "text");
        draft.files += (uint64_t)(int64_t)cases[i].files;
        draft.bytes += (uint64_t)(int64_t)cases[i].bytes;
        draft_end(&draft);
        must_be_bad("it declares");
    }
}

static void bad_paths(void **state)
{
    (void)state;
    static char long_part[300], long_path[402], deep[80];
    memset(long_part, 'p', 256);
    memset(long_path, 'x', 401);
    long_path[200] = '/';
    for (int i = 0; i < 33; i++)
        memcpy(deep + 2 * i, "d/", 2);
    deep[65] = '\0';
    static const struct {
        const char *path, *with;
    } cases[] = {
        {"/etc/passwd", "absolute"},
        {"../x", "leads out"},
        {"a/../../x", "leads out"},
        {"a/..", "leads out"},
        {"..", "leads out"},
        {".", "leads out"},
        {"./a", "leads out"},
        {"a/./b", "leads out"},
        {"a//b", "empty part"},
        {"a/", "empty part"},
        {"/", "absolute"},
        {"a\nb", "control"},
        {"a\x7f", "control"},
        {"a\xc2\x85z", "control"},
        {"\x1b[2J", "control"},
        {"a\xff", "not UTF-8"},
        {"\xc0\xae\xc0\xae/x", "not UTF-8"}, // ".." in the long form
        {"\xed\xa0\x80", "not UTF-8"},
        {long_part, "more than 255"},
        {long_path, "401 bytes"},
        {deep, "deeper than 32"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        draft_begin(&draft);
        draft_file(&draft, "good", 0, "1");
        draft_file(&draft, cases[i].path, 0, "2");
        draft_end(&draft);
        must_be_bad(cases[i].with);
        assert_int_equal(seen.begun, 1); // the bad one was never shown
    }
    draft_begin(&draft);
    draft_raw(&draft, "a\0b", 3, 0, "1");
    draft_end(&draft);
    must_be_bad("control");
}

static void paths_at_the_limits(void **state)
{
    (void)state;
    char path[BUNDLE_PATH_MAX + 1], deep[80];
    struct bundle_size size;
    struct err e = {0};
    memset(path, 'x', sizeof path);
    path[200] = '/';
    path[BUNDLE_PATH_MAX] = '\0';
    for (int i = 0; i < 32; i++)
        memcpy(deep + 2 * i, "d/", 2);
    deep[63] = '\0';
    draft_begin(&draft);
    draft_file(&draft, path, 0, "1");
    draft_file(&draft, deep, 0, "2");
    draft_file(&draft, "...", 0, "3");
    draft_file(&draft, "..a/.b", 0, "4");
    draft_end(&draft);
    if (read_bytes(draft.data, draft.size, &plenty, &size, &e) < 0)
        fail_msg("%s", e.message);
}

static void names_that_do_not_go_together(void **state)
{
    (void)state;
    static const struct {
        const char *first, *second, *with; // NULL: they do
    } cases[] = {
        {"a", "a", "twice"},
        {"a/b/c", "a/b/c", "twice"},
        {"a", "A", "capital letters"},
        {"pkg/Mod.py", "pkg/mod.py", "capital letters"},
        {"Pkg/a.py", "pkg/b.py", "capital letters"}, // two folders that may be one
        {"a/B/c", "a/b/d", "capital letters"},
        {"a", "a/b", "both a file and a folder"},
        {"a/b", "a", "both a file and a folder"},
        {"a/b/c", "a/b", "both a file and a folder"},
        {"A/b", "a", "capital letters"},
        {"a", "A/b", "capital letters"},
        {"a/b", "a/c", NULL},
        {"a/b", "ab", NULL},
        {"a/b", "b/a", NULL},
        {"\xc3\x84", "\xc3\xa4", NULL}, // only ASCII is folded
        {"[", "{", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        draft_begin(&draft);
        draft_file(&draft, cases[i].first, 0, "1");
        draft_file(&draft, "between/them", 0, "x");
        draft_file(&draft, cases[i].second, 0, "2");
        draft_end(&draft);
        struct bundle_size size;
        if (cases[i].with)
            must_be_bad(cases[i].with);
        else
            assert_int_equal(read_bytes(draft.data, draft.size, &plenty, &size, NULL), 0);
    }
}

static void unknown_flags(void **state)
{
    (void)state;
    static const uint32_t flags[] = {2, 3, 0x80000000, 04755};
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        draft_begin(&draft);
        draft_file(&draft, "a", flags[i], "1");
        draft_end(&draft);
        must_be_bad("flags");
    }
}

static void lengths_that_wrap(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - 15, (uint64_t)1 << 63, 1 << 20};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct bundle_size size, limit = {.bytes = UINT64_MAX, .files = 10};
        struct err e = {0};
        draft_begin(&draft);
        draft_head(&draft, 1, 0, sizes[i]);
        draft_put(&draft, "a", 1);
        draft_head(&draft, 0, 1, sizes[i]);
        assert_int_equal(read_bytes(draft.data, draft.size, &limit, &size, &e), -EBADMSG);
        assert_int_equal(seen.begun, 0);
    }
    draft_begin(&draft);
    draft_head(&draft, UINT32_MAX, 0, 0);
    must_be_bad("4294967295 bytes");
}

// ---- limits -------------------------------------------------------------------------------------

static void too_much_is_seen_before_it_is_used(void **state)
{
    (void)state;
    struct bundle_size size;
    struct err e = {0};
    draft_begin(&draft);
    draft_file(&draft, "a", 0, "12345");
    draft_file(&draft, "b", 0, "12345");
    draft_end(&draft);
    struct bundle_size limit = {.bytes = 9, .files = 10};
    assert_int_equal(read_bytes(draft.data, draft.size, &limit, &size, &e), -EFBIG);
    assert_int_equal(e.code, ERR_PACKAGE_TOO_LARGE);
    assert_int_equal(seen.begun, 1);
    limit = (struct bundle_size){.bytes = 10, .files = 1};
    assert_int_equal(read_bytes(draft.data, draft.size, &limit, &size, &e), -EFBIG);
    assert_int_equal(seen.begun, 1);
    limit = (struct bundle_size){.bytes = 10, .files = 2};
    assert_int_equal(read_bytes(draft.data, draft.size, &limit, &size, &e), 0);
    // A hundred gigabytes of nothing.
    draft_begin(&draft);
    draft_head(&draft, 1, 0, (uint64_t)100 << 30);
    draft_put(&draft, "a", 1);
    _cleanup_close_ int fd = draft_open(draft.data, draft.size);
    assert_int_equal(ftruncate(fd, (off_t)101 << 30), 0);
    assert_int_equal(read_fd(fd, &plenty, &size, &e), -EFBIG);
    assert_int_equal(seen.begun, 0);
}

static void folders_count_too(void **state)
{
    (void)state;
    struct bundle_size size, limit = {.bytes = 1000, .files = 10};
    struct err e = {0};
    draft_begin(&draft);
    draft_file(&draft, "a/b/c/d/e/f/g/h/i/j/k/l", 0, "1");
    draft_end(&draft);
    assert_int_equal(read_bytes(draft.data, draft.size, &limit, &size, &e), -EFBIG);
    assert_non_null(strstr(e.message, "folders"));
}

static void ten_thousand_names(void **state)
{
    (void)state;
    enum { MANY = 10000 };
    struct bundle_size size, limit = {.bytes = 1000, .files = MANY + 1};
    struct err e = {0};
    static char data[MANY * 40];
    size_t n = 6;
    memcpy(data, "CBUN1\n", n);
    for (int i = 0; i <= MANY; i++) {
        uint8_t head[16] = {0};
        char path[20];
        int length = snprintf(path, sizeof path, "d%d/f%d", i % 100, i == MANY ? 7 : i);
        if (i == MANY)
            length = snprintf(path, sizeof path, "D7/f8");
        fileio_put_u32(head, (uint32_t)length);
        memcpy(data + n, head, sizeof head);
        memcpy(data + n + sizeof head, path, (size_t)length);
        n += sizeof head + (size_t)length;
    }
    // The last one is in a folder that differs from an early one in a capital letter.
    assert_int_equal(read_bytes(data, n, &limit, &size, &e), -EBADMSG);
    assert_non_null(strstr(e.message, "capital letters"));
    assert_int_equal(seen.begun, MANY);
}

// ---- files that are none, or change -------------------------------------------------------------

static void only_ordinary_files(void **state)
{
    (void)state;
    struct bundle_size size;
    struct err e = {0};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(read_fd(ends[0], &plenty, &size, &e), -EBADMSG);
    int folder = open("/", O_RDONLY | O_DIRECTORY), null = open("/dev/zero", O_RDONLY);
    assert_int_equal(read_fd(folder, &plenty, &size, &e), -EBADMSG);
    assert_int_equal(read_fd(null, &plenty, &size, &e), -EBADMSG);
    (void)close(folder);
    (void)close(null);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

// What is there at the beginning is what counts; the sink makes the file longer and shorter.
static int changing_fd;
static off_t change_to;

static int on_begin_change(void *argument, const struct bundle_entry *entry, struct err *e)
{
    (void)argument, (void)entry, (void)e;
    assert_int_equal(ftruncate(changing_fd, change_to), 0);
    return 0;
}

static int end_quietly(void *argument, struct err *e)
{
    (void)argument, (void)e;
    return 0;
}

static void a_file_that_changes_while_it_is_read(void **state)
{
    (void)state;
    struct err e = {0};
    struct bundle_size got;
    struct file_reader in;
    struct bundle_sink changing = {.begin = on_begin_change, .data = on_data, .end = end_quietly};
    draft_good(&draft);
    _cleanup_close_ int fd = draft_open(draft.data, draft.size);
    changing_fd = fd;
    change_to = (off_t)draft.size + 100;
    assert_int_equal(file_reader_open(&in, fd, NULL, &e), 0);
    assert_int_equal(bundle_read(&in, &plenty, &changing, &got, &e), 0);
    assert_int_equal(file_reader_at_end(&in, &e), -EBADMSG);
    assert_non_null(strstr(e.message, "grew"));
    file_reader_close(&in);
    // A file of which the second half goes away: the buffer is smaller than it.
    draft_begin(&draft);
    draft_head(&draft, 1, 0, 3 * FILEIO_BUFFER);
    draft_put(&draft, "a", 1);
    size_t head = draft.size;
    _cleanup_close_ int large = draft_open(draft.data, head);
    assert_int_equal(ftruncate(large, 4 * FILEIO_BUFFER), 0);
    changing_fd = large;
    change_to = (off_t)head + FILEIO_BUFFER + 1;
    struct bundle_size limit = {.bytes = 4 * FILEIO_BUFFER, .files = 1};
    assert_int_equal(file_reader_open(&in, large, NULL, &e), 0);
    assert_int_equal(bundle_read(&in, &limit, &changing, &got, &e), -EBADMSG);
    assert_non_null(strstr(e.message, "cut off"));
    file_reader_close(&in);
}

static void the_writer_writes_what_the_reader_reads(void **state)
{
    (void)state;
    struct file_writer out;
    struct bundle_size size = {0}, got;
    struct bundle_entry entry = {.path = "a/b", .length = 3, .executable = true, .size = 5};
    _cleanup_close_ int fd = memfd_create("x", MFD_CLOEXEC);
    assert_int_equal(file_writer_open(&out, fd, NULL, NULL), 0);
    assert_int_equal(bundle_begin(&out, NULL), 0);
    assert_int_equal(bundle_add(&out, &entry, NULL), 0);
    assert_int_equal(file_writer_write(&out, "12345", 5, NULL), 0);
    size = (struct bundle_size){.bytes = 5, .files = 1};
    assert_int_equal(bundle_end(&out, &size, NULL), 0);
    assert_int_equal(file_writer_flush(&out, NULL), 0);
    file_writer_close(&out);
    assert_int_equal(read_fd(fd, &plenty, &got, NULL), 0);
    assert_true(got.files == 1 && got.bytes == 5 && seen.executable[0]);
    assert_string_equal(seen.paths[0], "a/b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_one_arrives),
        cmocka_unit_test(one_without_files_is_a_bundle),
        cmocka_unit_test(a_file_larger_than_the_buffer_arrives_in_pieces),
        cmocka_unit_test(cut_short_at_every_byte),
        cmocka_unit_test(every_flipped_bit_is_seen_or_harmless),
        cmocka_unit_test(bytes_behind_the_end),
        cmocka_unit_test(totals_must_fit),
        cmocka_unit_test(bad_paths),
        cmocka_unit_test(paths_at_the_limits),
        cmocka_unit_test(names_that_do_not_go_together),
        cmocka_unit_test(unknown_flags),
        cmocka_unit_test(lengths_that_wrap),
        cmocka_unit_test(too_much_is_seen_before_it_is_used),
        cmocka_unit_test(folders_count_too),
        cmocka_unit_test(ten_thousand_names),
        cmocka_unit_test(only_ordinary_files),
        cmocka_unit_test(a_file_that_changes_while_it_is_read),
        cmocka_unit_test(the_writer_writes_what_the_reader_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
