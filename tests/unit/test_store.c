// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of files/store: bytes in and out, limits, versions, lists, and what hostile callers
// try.

#include "store_killed.h"

// ---- bytes in, bytes out ------------------------------------------------------------------------

static void a_file_is_copied_and_found(void **state)
{
    (void)state;
    struct artifact found;
    struct stat st;
    for (int again = 0; again < 2; again++) {
        struct answer answer = copy_in("deep/a.csv", 3500000, 3500000);
        assert_true(answer.ok);
        assert_int_equal(answer.a.size, 3500000);
        assert_string_equal(answer.a.mime_type, "text/csv");
        assert_int_equal(strlen(answer.a.token), STORE_TOKEN_LENGTH);
        assert_int_equal(answer.a.expires_ms - answer.a.created_ms, 3600000);
        assert_true(store_by_token(store, answer.a.token, &found));
        assert_memory_equal(&found, &answer.a, sizeof found);
        assert_true(store_by_path(store, "k", "p", "deep/a.csv", &found));
        assert_int_equal(check_bytes(store, &found), 0);
    }
    DIR *d = opendir(folder_path);
    for (const struct dirent *name; (name = readdir(d));) {
        assert_null(strstr(name->d_name, found.token)); // the secret is in no name
        if (name->d_name[0] == '.' || strstr(name->d_name, "shm"))
            continue;
        assert_int_equal(fstatat(folder, name->d_name, &st, 0), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    (void)closedir(d);
}

static void a_file_that_shrinks_is_what_was_read(void **state)
{
    (void)state;
    struct answer answer = copy_in("shrunk", 1000, 5000000);
    assert_true(answer.ok);
    assert_int_equal(answer.a.size, 1000);
    assert_int_equal(check_bytes(store, &answer.a), 0);
    answer = copy_in("nothing", 0, 100);
    assert_true(answer.ok);
    assert_int_equal(answer.a.size, 0);
    answer = copy_in("empty", 0, 0);
    assert_true(answer.ok);
    assert_int_equal(check_bytes(store, &answer.a), 0);
}

static void no_more_than_was_announced(void **state)
{
    (void)state;
    struct answer answer = copy_in("grown", 3000000, 1500000);
    assert_false(answer.ok);
    assert_int_equal(count_files("tmp-") + count_files("a-"), 0);
    struct err e;
    struct artifact a = named("k", "p", "x");
    a.size = 10;
    struct store_copy *copy = store_begin(store, &a, &e);
    assert_true(store_write(copy, "x", 1, 10, &e) < 0);
    assert_true(store_write(copy, "x", 1, UINT64_MAX, &e) < 0);
    assert_int_equal(store_write(copy, "x", 1, 9, &e), 0);
    store_cancel(copy);
}

// A file of nothing takes no room on the disk, and reads as it should.
static void holes_stay_holes(void **state)
{
    (void)state;
    static char zeroes[1 << 20];
    struct artifact a = named("k", "p", "sparse");
    struct stat st;
    struct err e;
    a.size = 40 << 20;
    struct store_copy *copy = store_begin(store, &a, &e);
    for (uint64_t at = 0; at < a.size; at += sizeof zeroes)
        assert_int_equal(store_write(copy, zeroes, sizeof zeroes, at, &e), 0);
    assert_int_equal(store_write(copy, "x", 1, 20 << 20, &e), 0);
    assert_int_equal(store_end(copy, a.size, &a, &e), 0);
    _cleanup_close_ int fd = store_read(store, &a);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, 40 << 20);
    assert_true(st.st_blocks * 512 < 1 << 20);
    char c;
    assert_true(pread(fd, &c, 1, 20 << 20) == 1 && c == 'x');
    reopen(); // and is not taken for damaged
    assert_true(store_by_token(store, a.token, &a));
}

static void a_cancelled_copy_leaves_nothing(void **state)
{
    (void)state;
    struct err e;
    struct artifact a = named("k", "p", "x"), found;
    int fds = unit_fd_count();
    a.size = 8 << 20;
    struct store_copy *first = store_begin(store, &a, &e), *second = store_begin(store, &a, &e);
    assert_int_equal(bring(first, "x", 0, 3 << 20, &e), 0);
    assert_int_equal(count_files("tmp-"), 2);
    store_cancel(second);
    store_cancel(first);
    assert_int_equal(count_files("tmp-"), 0);
    assert_int_equal(count_files("a-"), 0);
    assert_false(store_by_path(store, "k", "p", "x", &found));
    assert_int_equal(unit_fd_count(), fds);
    assert_non_null(store_begin(store, &a, &e));
    reopen(); // a store that is closed lets go of its copies
    assert_int_equal(count_files("tmp-"), 0);
}

static void a_full_disk_is_said_and_nothing_is_announced(void **state)
{
    (void)state;
    struct artifact found;
    write_errno = ENOSPC;
    struct answer answer = copy_in("x", 100, 100);
    assert_false(answer.ok);
    assert_int_equal(answer.error.code, ERR_DISK_FULL);
    assert_non_null(strstr(answer.error.message, "'x'"));
    assert_non_null(strstr(answer.error.hint, "--state"));
    assert_int_equal(count_files("tmp-") + count_files("a-"), 0);
    assert_false(store_by_path(store, "k", "p", "x", &found));
    assert_int_equal(store_figures(store, NULL).files, 0);

    write_errno = 0; // and a limit on this process
    struct rlimit had, low = {.rlim_cur = 50000};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &had), 0);
    low.rlim_max = had.rlim_max;
    void (*was)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    struct err e;
    struct artifact y = named("k", "p", "y");
    answer = copy_in("y", 200000, 200000);
    char *data = calloc(1, 200000);
    int r = store_add_bytes(store, &y, data, 200000, &e);
    free(data);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &had), 0);
    (void)signal(SIGXFSZ, was);
    assert_false(answer.ok);
    assert_int_equal(answer.error.code, ERR_DISK_FULL);
    assert_true(r < 0);
    assert_int_equal(e.code, ERR_DISK_FULL);
    assert_int_equal(count_files("tmp-") + count_files("a-"), 0);
    assert_true(copy_in("x", 100, 100).ok); // and it goes on
}

// ---- limits -------------------------------------------------------------------------------------

static void the_oldest_of_the_same_owner_make_room(void **state)
{
    (void)state;
    struct artifact found, kept[4], other;
    struct err e;
    config.artifact_bytes = 1 << 20;
    other = add_size("other", "o", 900000);
    for (int i = 0; i < 4; i++) {
        char path[8];
        snprintf(path, sizeof path, "f%d", i);
        kept[i] = add_size("k", path, 400000);
    }
    assert_false(store_by_token(store, kept[0].token, &found));
    assert_false(store_by_token(store, kept[1].token, &found));
    assert_true(store_by_token(store, kept[2].token, &found));
    assert_true(store_by_token(store, kept[3].token, &found));
    assert_true(store_by_token(store, other.token, &found));
    assert_non_null(strstr(store_why_gone(store, kept[0].token, "f0"), "make room"));
    assert_null(store_why_gone(store, kept[0].token, "f1"));
    assert_int_equal(count_files("a-"), 3);
    assert_int_equal(store_figures(store, "k").bytes, 800000);
    assert_int_equal(store_figures(store, NULL).bytes, 1700000);

    // One that can never fit is refused before anything is read, and costs nothing.
    struct artifact a = named("k", "p", "huge");
    int fds = unit_fd_count();
    a.size = UINT64_MAX; // a sparse file of any size
    assert_null(store_begin(store, &a, &e));
    assert_int_equal(e.code, ERR_QUOTA);
    assert_non_null(strstr(e.message, "'huge'"));
    assert_non_null(strstr(e.hint, "--artifact-quota"));
    assert_int_equal(unit_fd_count(), fds);
    assert_int_equal(store_figures(store, "k").files, 2);
}

static void the_number_of_artifacts_is_bounded(void **state)
{
    (void)state;
    struct artifact first = add_text("k", "p", "first", "1"), found;
    for (int i = 1; i < STORE_FILES_MAX; i++) {
        char path[32];
        snprintf(path, sizeof path, "f%d", i);
        (void)add_text("k", "p", path, "x");
    }
    assert_int_equal(store_figures(store, "k").files, STORE_FILES_MAX);
    assert_true(store_by_token(store, first.token, &found));
    (void)add_text("k", "p", "one more", "x");
    assert_int_equal(store_figures(store, "k").files, STORE_FILES_MAX);
    assert_false(store_by_token(store, first.token, &found));
    assert_int_equal(count_files("a-"), STORE_FILES_MAX);

    struct artifact *list;
    uint64_t more;
    assert_int_equal(store_list(store, "k", "p", &list, &more), STORE_LIST_MAX);
    assert_int_equal(more, STORE_FILES_MAX - STORE_LIST_MAX);
    free(list);
    assert_int_equal(store_delete(store, "k", "p", NULL), STORE_FILES_MAX);
    assert_int_equal(count_files("a-"), 0);
}

static void copies_at_one_time_are_bounded(void **state)
{
    (void)state;
    struct err e;
    struct artifact a = named("k", "p", "x");
    struct store_copy *copies[STORE_COPIES_MAX];
    struct rlimit files; // as the gate, which raises its soft limit: a login has 1,024
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    int fds = unit_fd_count();
    a.size = 1;
    for (int i = 0; i < STORE_COPIES_MAX; i++)
        assert_non_null(copies[i] = store_begin(store, &a, &e));
    assert_null(store_begin(store, &a, &e));
    assert_int_equal(e.code, ERR_BUSY);
    for (int i = 0; i < STORE_COPIES_MAX; i++)
        assert_int_equal(store_end(copies[i], 0, &a, &e), 0);
    assert_int_equal(unit_fd_count(), fds);
}

// SECURITY: what is on its way is on the disk and in no quota; one owner has at most a quota of it.
static void bytes_on_their_way_are_bounded_for_each_owner(void **state)
{
    (void)state;
    struct err e;
    struct artifact a = named("one", "p", "x"), b = named("two", "p", "x");
    config.artifact_bytes = 10 << 20;
    a.size = b.size = 6 << 20;
    struct store_copy *first = store_begin(store, &a, &e);
    assert_non_null(first);
    assert_null(store_begin(store, &a, &e));
    assert_int_equal(e.code, ERR_BUSY);
    struct store_copy *other = store_begin(store, &b, &e); // another owner does not notice
    assert_non_null(other);
    a.size = 4 << 20;
    struct store_copy *small = store_begin(store, &a, &e);
    assert_non_null(small);
    store_cancel(first);
    store_cancel(small);
    store_cancel(other);
}

static void artifacts_expire_by_themselves(void **state)
{
    (void)state;
    struct artifact a = add_text("k", "p", "old.txt", "1"), b, found;
    ahead_s = 3000;
    b = add_text("k", "p", "young.txt", "2");
    loop_for(60);
    assert_true(store_by_token(store, a.token, &found));
    ahead_s = 3601;
    assert_false(store_by_token(store, a.token, &found)); // before any sweep
    assert_false(store_by_path(store, "k", "p", "old.txt", &found));
    assert_string_equal(store_why_gone(store, a.token, "old.txt"), "has expired");
    assert_null(store_why_gone(store, a.token, "other.txt"));
    struct artifact *list;
    uint64_t more;
    assert_int_equal(store_list(store, "k", NULL, &list, &more), 1);
    assert_int_equal(more, 0);
    free(list);
    loop_for(100);
    assert_int_equal(count_files("a-"), 1);
    assert_string_equal(store_why_gone(store, a.token, "old.txt"), "has expired");
    expect_text(&b, "2");
    reopen();
    assert_string_equal(store_why_gone(store, a.token, "old.txt"), "has expired");
    ahead_s = 95000; // a day later even that is forgotten
    loop_for(100);
    assert_int_equal(count_files("a-"), 0);
    assert_int_equal(store_figures(store, NULL).files, 0);
    assert_null(store_why_gone(store, a.token, "old.txt"));
    assert_non_null(store_why_gone(store, b.token, "young.txt"));
}

static void the_time_of_a_file_is_its_end(void **state)
{
    (void)state;
    char name[300] = "";
    struct stat st;
    struct artifact a = add_text("k", "p", "x", "1");
    DIR *d = opendir(folder_path);
    for (const struct dirent *n; (n = readdir(d));)
        if (n->d_name[0] == 'a')
            snprintf(name, sizeof name, "%s", n->d_name);
    (void)closedir(d);
    assert_int_equal(fstatat(folder, name, &st, 0), 0);
    assert_in_range(st.st_mtime * 1000, a.expires_ms, a.expires_ms + 2000); // never before it
}

// ---- versions, lists, deleting ------------------------------------------------------------------

static void a_newer_version_does_not_break_the_older_link(void **state)
{
    (void)state;
    struct artifact one = add_text("k", "p", "a.txt", "one"),
                    two = add_text("k", "p", "a.txt", "two"), found, *list;
    uint64_t more;
    assert_string_not_equal(one.token, two.token);
    assert_int_equal(store_list(store, "k", "p", &list, &more), 1);
    assert_string_equal(list[0].token, two.token);
    assert_int_equal(more, 0);
    free(list);
    assert_true(store_by_path(store, "k", "p", "a.txt", &found));
    assert_string_equal(found.token, two.token);
    assert_true(store_by_token(store, one.token, &found));
    expect_text(&one, "one");
    expect_text(&two, "two");
    assert_int_equal(store_delete(store, "k", "p", "a.txt"), 2); // all versions
    assert_false(store_by_token(store, one.token, &found));
    assert_string_equal(store_why_gone(store, one.token, "a.txt"), "was deleted");
}

static void lists_are_sorted_and_of_one_owner(void **state)
{
    (void)state;
    struct artifact *list;
    uint64_t more;
    (void)add_text("k", "p", "b", "1");
    (void)add_text("k", "p", "a", "1");
    (void)add_text("k", "q", "c", "1");
    (void)add_text("other", "p", "secret", "1");
    (void)add_text("", "p", "nobody's", "1");
    assert_int_equal(store_list(store, "k", "p", &list, &more), 2);
    assert_string_equal(list[0].path, "a");
    assert_string_equal(list[1].path, "b");
    free(list);
    assert_int_equal(store_list(store, "k", NULL, &list, &more), 3);
    assert_string_equal(list[0].path, "c"); // the youngest first
    assert_string_equal(list[2].path, "b");
    free(list);
    assert_int_equal(store_list(store, "", NULL, &list, &more), 1);
    free(list);
    assert_int_equal(store_list(store, "nobody", NULL, &list, &more), 0);
    assert_null(list);
    assert_int_equal(store_delete(store, "k", "q", "a"), 0);
    assert_int_equal(store_delete(store, "other", "q", NULL), 0);
    assert_int_equal(store_delete(store, "k", "p", NULL), 2);
    assert_int_equal(store_figures(store, NULL).files, 3);
    assert_int_equal(store_figures(store, "k").files, 1);
}

// ---- hostile input ------------------------------------------------------------------------------

static void only_the_whole_token_opens(void **state)
{
    (void)state;
    struct artifact a = add_text("k", "p", "x", "1"), found;
    static const char *const forged[] = {
        "",
        "x",
        "' OR 1=1 --",
        "%",
        "________________________________",
        "00000000000000000000000000000000",
        "' OR ''='                       ",
    };
    for (size_t i = 0; i < ARRAY_LEN(forged); i++)
        assert_false(store_by_token(store, forged[i], &found));
    for (size_t i = 0; i < STORE_TOKEN_LENGTH; i++) {
        char token[STORE_TOKEN_LENGTH + 1];
        memcpy(token, a.token, sizeof token);
        token[i] = token[i] == 'A' ? 'B' : 'A';
        assert_false(store_by_token(store, token, &found));
        assert_null(store_why_gone(store, token, "x"));
        memcpy(token, a.token, sizeof token);
        token[i] = '\0';
        assert_false(store_by_token(store, token, &found));
    }
    assert_true(store_by_token(store, a.token, &found));
    assert_false(store_by_path(store, "k2", "p", "x", &found)); // another's
    assert_false(store_by_path(store, "", "p", "x", &found));
}

static void odd_names_are_kept_or_refused(void **state)
{
    (void)state;
    struct err e;
    struct artifact found;
    static const char *const good[] = {
        "a",       "a b.txt",      "'; DROP TABLE artifact; --",
        "%s%n",    "ä/ö.csv",      "...",
        "..a/b..", "a\"b\\c",      "100%.txt",
        "?#&=",    ".hidden",      "tmp-x",
        "a-0",     "catalogue.db",
    };
    static const char *const bad[] = {
        "",      "/etc/passwd", "../x", "a/../b", "a/..",  ".",        "..",
        "a/./b", "a//b",        "a/",   "a\nb",   "a\x7f", "\xff\xfe", "a\xc3",
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct artifact a = add_text("k", "p", good[i], good[i]);
        assert_true(store_by_path(store, "k", "p", good[i], &found));
        assert_string_equal(found.path, good[i]);
        expect_text(&a, good[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct artifact a = named("k", "p", bad[i]);
        assert_true(store_add_bytes(store, &a, "x", 1, &e) < 0);
        assert_int_equal(e.code, ERR_BAD_VALUE);
        int fds = unit_fd_count();
        a.size = 1;
        assert_null(store_begin(store, &a, &e));
        assert_int_equal(unit_fd_count(), fds);
    }
    assert_int_equal(store_figures(store, "k").files, ARRAY_LEN(good));
    assert_int_equal(count_files("a-"), ARRAY_LEN(good));
    reopen();
    assert_int_equal(store_figures(store, "k").files, ARRAY_LEN(good));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(a_file_is_copied_and_found),
        STORE_TEST(a_file_that_shrinks_is_what_was_read),
        STORE_TEST(no_more_than_was_announced),
        STORE_TEST(holes_stay_holes),
        STORE_TEST(a_cancelled_copy_leaves_nothing),
        STORE_TEST(a_full_disk_is_said_and_nothing_is_announced),
        STORE_TEST(the_oldest_of_the_same_owner_make_room),
        STORE_TEST(the_number_of_artifacts_is_bounded),
        STORE_TEST(copies_at_one_time_are_bounded),
        STORE_TEST(bytes_on_their_way_are_bounded_for_each_owner),
        STORE_TEST(artifacts_expire_by_themselves),
        STORE_TEST(the_time_of_a_file_is_its_end),
        STORE_TEST(a_newer_version_does_not_break_the_older_link),
        STORE_TEST(lists_are_sorted_and_of_one_owner),
        STORE_TEST(only_the_whole_token_opens),
        STORE_TEST(odd_names_are_kept_or_refused),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
