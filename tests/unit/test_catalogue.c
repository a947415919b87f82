// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of files/store with files/catalogue and files/dbfolder: what a start finds, whatever
// happened before.  A child does the work and is killed at every step; the parent looks at what is
// left.

#include "store_killed.h"

// ---- what is found at the start -----------------------------------------------------------------

static void a_restart_finds_what_was(void **state)
{
    (void)state;
    struct artifact a = add_text("k", "p", "x.txt", "here"), found;
    reopen();
    assert_true(store_by_token(store, a.token, &found));
    assert_memory_equal(&a, &found, sizeof a);
    expect_text(&found, "here");
    assert_int_equal(store_figures(store, "k").bytes, 4);
}

static void put(const char *name, const char *text)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    (void)close(fd);
}

static void files_without_rows_are_swept_and_rows_without_files(void **state)
{
    (void)state;
    struct artifact a = add_text("k", "p", "a", "aa"), b = add_text("k", "p", "b", "bb"),
                    c = add_text("k", "p", "c", "cc"), found;
    put("tmp-1", "x");
    put("a-00000000000000000000000000000000", "x");
    put("a-", "x");
    put("notes.txt", "the operator's");
    assert_int_equal(symlinkat("/etc/passwd", folder, "a-link"), 0);
    int fd = store_read(store, &a);
    char link[64], path[PATH_MAX] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    assert_true(readlink(link, path, sizeof path - 1) > 0);
    (void)close(fd);
    store_close(store);
    assert_int_equal(truncate(path, 1), 0); // as a machine that lost its power might leave it
    open_store();
    assert_false(store_by_token(store, a.token, &found));
    assert_non_null(strstr(store_why_gone(store, a.token, "a"), "crash"));
    expect_text(&b, "bb");
    expect_text(&c, "cc");
    assert_int_equal(count_files("a-"), 2);
    assert_int_equal(count_files("tmp-"), 0);
    assert_int_equal(count_files("notes.txt"), 1);
    assert_int_equal(access("/etc/passwd", F_OK), 0);
}

// As another process that can write there.
static void change_catalogue(const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open_v2("catalogue.db", &db, SQLITE_OPEN_READWRITE, DBFOLDER_VFS), 0);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void a_damaged_catalogue_is_put_aside(void **state)
{
    (void)state;
    static const char *const contents[] = {
        "not a database at all, but long enough to look like one: 0123456789 0123456789",
        "SQLite format 3",
    };
    for (size_t i = 0; i < ARRAY_LEN(contents); i++) {
        struct artifact a = add_text("k", "p", "a", "aa"), found;
        store_close(store);
        put("catalogue.db", contents[i]);
        open_store();
        assert_false(store_by_token(store, a.token, &found));
        assert_int_equal(count_files("a-"), 0);
        assert_int_equal(count_files("catalogue.damaged"), 1);
        (void)add_text("k", "p", "b", "bb");
    }
    // In the middle of it.
    for (int i = 0; i < 50; i++)
        (void)add_text("k", "p", "x", "y");
    store_close(store);
    int fd = openat(folder, "catalogue.db", O_WRONLY | O_CLOEXEC);
    char junk[3000];
    memset(junk, 0xa5, sizeof junk);
    for (off_t at = 4096; at < 12000; at += 4096)
        assert_int_equal(pwrite(fd, junk, sizeof junk, at + 100), sizeof junk);
    (void)close(fd);
    open_store();
    (void)add_text("k", "p", "b", "bb");

    // A link in its place is not followed.
    store_close(store);
    assert_int_equal(unlinkat(folder, "catalogue.db", 0), 0);
    put("elsewhere", "untouched");
    assert_int_equal(symlinkat("elsewhere", folder, "catalogue.db"), 0);
    open_store();
    (void)add_text("k", "p", "b", "bb");
    char text[32] = "";
    fd = openat(folder, "elsewhere", O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, text, sizeof text), 9);
    assert_string_equal(text, "untouched");
    (void)close(fd);
}

static void a_strange_schema_is_put_aside(void **state)
{
    (void)state;
    store_close(store);
    change_catalogue("ALTER TABLE artifact RENAME COLUMN path TO paths");
    open_store();
    assert_int_equal(count_files("catalogue.damaged"), 1);
    struct artifact a = add_text("k", "p", "a", "aa"), found;
    store_close(store);
    // What a gate that was taken over might plant: it is not run.
    change_catalogue("CREATE TRIGGER t AFTER INSERT ON artifact BEGIN DELETE FROM artifact; END");
    open_store();
    (void)add_text("k", "p", "b", "bb");
    assert_true(store_by_token(store, a.token, &found));
    assert_true(store_by_path(store, "k", "p", "b", &found));
}

static void a_newer_catalogue_is_left_alone(void **state)
{
    (void)state;
    struct err e = {0};
    store_close(store);
    store = NULL;
    change_catalogue("PRAGMA user_version = 99");
    assert_null(store_open(&config, base, folder, &e));
    assert_non_null(strstr(e.message, "newer version"));
    assert_int_equal(count_files("catalogue.damaged"), 0);
    change_catalogue("PRAGMA user_version = 1");
    open_store();
}

// ---- killed at every step -----------------------------------------------------------------------

static void announce(const struct artifact *a, int to)
{
    (void)!write(to, a, sizeof *a);
}

// The child's work: the store is opened, files come in both ways, some replace others.
static void add_many(int announced)
{
    struct err e;
    open_store();
    tick_in_sqlite();
    for (int round = 0; round < 2; round++) {
        unsigned char data[300];
        struct artifact small = named("k", "p", "b"), large = named("k", "p", "l");
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = byte_at("b", i);
        if (store_add_bytes(store, &small, data, sizeof data, &e) == 0)
            announce(&small, announced);
        large.size = 1500000;
        struct store_copy *copy = store_begin(store, &large, &e);
        if (copy && bring(copy, "l", 0, large.size, &e) == 0 &&
            store_end(copy, large.size, &large, &e) == 0)
            announce(&large, announced);
    }
}

// The other way: there is a quota, some are deleted, all expire.
static void remove_many(int announced)
{
    struct err e;
    (void)announced;
    config.artifact_bytes = 1000;
    open_store();
    tick_in_sqlite();
    for (int i = 0; i < 4; i++) {
        unsigned char data[300];
        char path[8];
        snprintf(path, sizeof path, "%d", i);
        struct artifact a = named("k", "p", path);
        for (size_t n = 0; n < sizeof data; n++)
            data[n] = byte_at(path, n);
        (void)store_add_bytes(store, &a, data, sizeof data, &e);
    }
    (void)store_delete(store, "k", "p", "3");
    ahead_s = 4000;
    for (int i = 0; i < 100 && store_figures(store, NULL).files; i++)
        loop_for(5);
}

// True: it was killed before it was done.
static bool killed_at(unsigned step, void (*work)(int), int announced)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        crash_at = step;
        work(announced);
        crash_at = 0;
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status))
        assert_int_equal(status, 0);
    return WIFSIGNALED(status);
}

// Invariant (1) as the dead process left it, before any repair: no row without its
// file.
static void check_rows(void)
{
    sqlite3 *db;
    sqlite3_stmt *rows = NULL;
    struct stat st;
    char name[64];
    assert_int_equal(sqlite3_open_v2("catalogue.db", &db,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, DBFOLDER_VFS),
                     SQLITE_OK);
    // Killed very early there is no table yet.
    (void)sqlite3_prepare_v2(db, "SELECT key, size FROM artifact", -1, &rows, NULL);
    while (rows && sqlite3_step(rows) == SQLITE_ROW) {
        snprintf(name, sizeof name, "a-%s", (const char *)sqlite3_column_text(rows, 0));
        assert_int_equal(fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(st.st_size, sqlite3_column_int64(rows, 1));
    }
    assert_int_equal(sqlite3_finalize(rows), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

// Invariants (1) and (2) of store.h.
static void check_invariants(void)
{
    struct artifact *list;
    uint64_t more;
    size_t count = store_list(store, "k", NULL, &list, &more);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(check_bytes(store, &list[i]), 0);
    free(list);
    assert_int_equal(count_files("tmp-"), 0);
    assert_int_equal(count_files("a-"), store_figures(store, NULL).files);
}

static void kill_at_every_step(void (*work)(int))
{
    unsigned step = 1;
    for (bool killed = true; killed; step++) {
        int announced[2];
        struct artifact a, found;
        store_close(store);
        store = NULL;
        assert_int_equal(pipe2(announced, O_CLOEXEC), 0);
        killed = killed_at(step, work, announced[1]);
        (void)close(announced[1]);
        check_rows();
        open_store();
        check_invariants();
        while (read(announced[0], &a, sizeof a) == (ssize_t)sizeof a) {
            assert_true(store_by_token(store, a.token, &found)); // what was announced is there
            assert_memory_equal(&a, &found, sizeof a);
            assert_int_equal(check_bytes(store, &found), 0);
        }
        (void)close(announced[0]);
        (void)store_delete(store, "k", "p", NULL);
        assert_true(step < 2000);
    }
    assert_true(step > 30); // it was killed at all
}

static void killed_while_adding_nothing_announced_is_lost(void **state)
{
    (void)state;
    kill_at_every_step(add_many);
}

static void killed_while_removing_nothing_is_half_there(void **state)
{
    (void)state;
    kill_at_every_step(remove_many);
}

// ---- as the gate does it ------------------------------------------------------------------------

// Returns a line number, of what is wrong, or 0.
static int in_a_cell(void)
{
    struct err e;
    struct artifact a = named("k", "p", "x.txt"), found;
    if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(54321, 54321, 54321) < 0 ||
                           setresuid(54321, 54321, 54321) < 0))
        return __LINE__;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || landlock_seal(landlock_abi(), folder) < 0)
        return __LINE__;
    if (open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 && landlock_abi() > 0)
        return __LINE__;
    store = store_open(&config, base, folder, &e);
    if (!store || store_add_bytes(store, &a, "inside", 6, &e) < 0 ||
        !store_by_token(store, a.token, &found))
        return __LINE__;
    int fd = store_read(store, &found);
    char text[8] = "";
    if (fd < 0 || read(fd, text, 6) != 6 || strcmp(text, "inside") != 0)
        return __LINE__;
    if (store_delete(store, "k", "p", "x.txt") != 1)
        return __LINE__;
    store_close(store);
    return 0;
}

static void a_descriptor_is_all_that_it_needs(void **state)
{
    (void)state;
    int status;
    store_close(store);
    store = NULL;
    // Behind a folder that only root may search.
    char closed[128], inner[160];
    snprintf(closed, sizeof closed, "%s/closed", folder_path);
    snprintf(inner, sizeof inner, "%s/closed/inner", folder_path);
    assert_int_equal(mkdir(closed, 0700), 0);
    assert_int_equal(mkdir(inner, 0700), 0);
    if (geteuid() == 0)
        assert_int_equal(chown(inner, 54321, 54321), 0);
    int outer = folder;
    folder = open(inner, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder >= 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(in_a_cell());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    DIR *d = opendir(inner);
    for (const struct dirent *name; (name = readdir(d));)
        (void)unlinkat(folder, name->d_name, 0);
    (void)closedir(d);
    (void)close(folder);
    folder = outer;
    assert_int_equal(rmdir(inner), 0);
    assert_int_equal(rmdir(closed), 0);
    open_store();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(a_restart_finds_what_was),
        STORE_TEST(files_without_rows_are_swept_and_rows_without_files),
        STORE_TEST(a_damaged_catalogue_is_put_aside),
        STORE_TEST(a_strange_schema_is_put_aside),
        STORE_TEST(a_newer_catalogue_is_left_alone),
        STORE_TEST(killed_while_adding_nothing_announced_is_lost),
        STORE_TEST(killed_while_removing_nothing_is_half_there),
        STORE_TEST(a_descriptor_is_all_that_it_needs),
    };
    return cmocka_run_group_tests_name("catalogue", tests, NULL, NULL);
}
