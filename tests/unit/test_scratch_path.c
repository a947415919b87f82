// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of files/scratch_path: paths as callers write them, and what changed between two
// lists.

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "files/scratch.h"

// ---- paths --------------------------------------------------------------------------------------

static void paths_that_are_taken(void **state)
{
    (void)state;
    static const struct {
        const char *text, *path;
    } cases[] = {
        {"a", "a"},
        {"a/b", "a/b"},
        {"./a/b", "a/b"},
        {"a//b", "a/b"},
        {"a/./b", "a/b"},
        {"a/b/", "a/b"},
        {"a/b/.", "a/b"},
        {"/mnt/data/a/b", "a/b"},
        {"//mnt//data/./a", "a"},
        {"/./mnt/data/a", "a"},
        {"/mnt/data/mnt/data/x", "mnt/data/x"},
        {"mnt/data/x", "mnt/data/x"},
        {"...", "..."},
        {"..a", "..a"},
        {"a..", "a.."},
        {".hidden", ".hidden"},
        {" ", " "},
        {"a b/c\\d", "a b/c\\d"},
        {"~", "~"},
        {"größe/表/😀.csv", "größe/表/😀.csv"},
        {"\xc2\xa0", "\xc2\xa0"},
        {"-rf", "-rf"},
        {"a%2e%2e/b", "a%2e%2e/b"}, // decoding is the caller's, and done before
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char path[SCRATCH_PATH_MAX + 1] = "untouched";
        struct err e = {0};
        if (scratch_path(cases[i].text, strlen(cases[i].text), path, &e) != 0 ||
            strcmp(path, cases[i].path) != 0 || e.message[0])
            fail_msg("'%s' gave '%s' (%s)", cases[i].text, path, e.message);
    }
}

static void paths_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t length; // 0: strlen
        const char *word;
    } cases[] = {
        {"", 0, "names no file"},
        {".", 0, "names no file"},
        {"./.", 0, "names no file"},
        {"/mnt/data", 0, "names no file"},
        {"/mnt/data/", 0, "names no file"},
        {"/", 0, "outside"},
        {"/mnt", 0, "outside"},
        {"/etc/passwd", 0, "outside"},
        {"/mnt/datax", 0, "outside"},
        {"/mnt/dat", 0, "outside"},
        {"/mnt/tmp/x", 0, "outside"},
        {"/MNT/data/x", 0, "outside"},
        {"..", 0, "'..'"},
        {"../x", 0, "'..'"},
        {"a/../../x", 0, "'..'"},
        {"a/../b", 0, "'..'"},
        {"a/..", 0, "'..'"},
        {"/mnt/data/../tmp/x", 0, "'..'"},
        {"/mnt/data/..", 0, "'..'"},
        {"/../mnt/data/x", 0, "'..'"},
        {"a\0b", 3, "control character at byte 1"},
        {"\0", 1, "control"},
        {"a\nb", 0, "control"},
        {"a\rb", 0, "control"},
        {"a\tb", 0, "control"},
        {"\x1b[2J", 0, "control"},
        {"a\x7f", 0, "control"},
        {"a\xc2\x85", 0, "control"},
        {"a\xc2\x9f/b", 0, "control"},
        {"\xff", 0, "UTF-8 at byte 0"},
        {"ab\xc3", 0, "UTF-8 at byte 2"},
        {"\xed\xa0\x80", 0, "UTF-8"},
        {"\xc0\xae\xc0\xae/x", 0, "UTF-8"},
        {"\xf4\x90\x80\x80", 0, "UTF-8"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char path[SCRATCH_PATH_MAX + 1] = "untouched";
        struct err e = {0};
        size_t length = cases[i].length ? cases[i].length : strlen(cases[i].text);
        char *exact = malloc(length + 1);
        assert_non_null(exact);
        memcpy(exact, cases[i].text, length);
        int n = scratch_path(exact, length, path, &e);
        free(exact);
        if (n >= 0 || strcmp(path, "untouched") != 0 || !strstr(e.message, cases[i].word) ||
            e.code != ERR_FILE_PATH || !e.hint[0])
            fail_msg("case %zu gave %d '%s'", i, n, e.message);
        assert_int_equal(utf8_valid_length(e.message, strlen(e.message)), strlen(e.message));
    }
}

static void paths_at_their_bounds(void **state)
{
    (void)state;
    char text[3 * SCRATCH_PATH_MAX], path[SCRATCH_PATH_MAX + 1];
    struct err e;
    // A name.
    memset(text, 'n', sizeof text);
    assert_int_equal(scratch_path(text, SCRATCH_NAME_MAX, path, &e), 0);
    assert_true(scratch_path(text, SCRATCH_NAME_MAX + 1, path, &e) < 0);
    assert_non_null(strstr(e.message, "256 bytes"));
    // A depth: 32 names.
    for (int i = 0; i < SCRATCH_DEPTH_MAX + 1; i++)
        memcpy(text + 2 * i, "d/", 2);
    assert_int_equal(scratch_path(text, 2 * SCRATCH_DEPTH_MAX, path, &e), 0);
    assert_true(scratch_path(text, 2 * SCRATCH_DEPTH_MAX + 2, path, &e) < 0);
    assert_non_null(strstr(e.message, "32 names deep"));
    // All of it: 4 names of 255 and 3 slashes are 1023.
    memset(text, 'n', sizeof text);
    for (int i = 1; i <= 4; i++)
        text[256 * i - 1] = '/';
    assert_int_equal(scratch_path(text, 1023, path, &e), 0);
    assert_int_equal(strlen(path), 1023);
    assert_int_equal(scratch_path(text, 1024, path, &e), 0); // with a slash behind it
    assert_true(scratch_path(text, 1025, path, &e) < 0);
    assert_non_null(strstr(e.message, "1024 bytes"));
    // 1024 exactly: a shorter way to cut the same.
    memset(text, 'n', sizeof text);
    for (int i = 1; i <= 4; i++)
        text[205 * i - 1] = '/';
    assert_int_equal(scratch_path(text, 1024, path, &e), 0);
    assert_int_equal(strlen(path), 1024);
    // A megabyte of nothing is a short path.
    char *slashes = malloc(1 << 20);
    assert_non_null(slashes);
    memset(slashes, '/', 1 << 20);
    memcpy(slashes, "a", 1);
    assert_int_equal(scratch_path(slashes, 1 << 20, path, &e), 0);
    assert_string_equal(path, "a");
    free(slashes);
}

// ---- changes ------------------------------------------------------------------------------------

static struct scratch_list list_of(struct scratch_file *files, size_t count)
{
    return (struct scratch_list){.files = files, .count = count};
}

static void changes_between_two_lists(void **state)
{
    (void)state;
    struct scratch_file then[] = {
        {.path = "a", .size = 1, .mtime_ns = 1, .ctime_ns = 1, .inode = 1},
        {.path = "b", .size = 1, .mtime_ns = 1, .ctime_ns = 1, .inode = 2},
        {.path = "c", .size = 1, .mtime_ns = 1, .ctime_ns = 1, .inode = 3},
        {.path = "d", .size = 1, .mtime_ns = 1, .ctime_ns = 1, .inode = 4},
        {.path = "e", .folder = true},
        {.path = "gone", .size = 1},
        {.path = "same", .size = 1, .mtime_ns = 1, .ctime_ns = 1, .inode = 6},
        {.path = "was a folder", .folder = true},
    };
    struct scratch_file now[] = {
        {.path = "0 new", .size = 0},
        {.path = "a", .size = 2, .mtime_ns = 1, .ctime_ns = 1, .inode = 1},
        {.path = "b", .size = 1, .mtime_ns = 2, .ctime_ns = 1, .inode = 2},
        {.path = "c", .size = 1, .mtime_ns = 1, .ctime_ns = 2, .inode = 3},
        {.path = "d", .size = 1, .mtime_ns = 1, .ctime_ns = 1, .inode = 5},
        {.path = "e", .folder = true, .mtime_ns = 9}, // folders do not count
        {.path = "new folder", .folder = true},
        {.path = "same", .size = 1, .mtime_ns = 1, .ctime_ns = 1, .inode = 6},
        {.path = "was a folder"},
        {.path = "zz new"},
    };
    const size_t expected[] = {0, 1, 2, 3, 4, 8, 9};
    struct scratch_list before = list_of(then, ARRAY_LEN(then)),
                        after = list_of(now, ARRAY_LEN(now));
    struct scratch_list none = {0};
    size_t *changes;
    assert_int_equal(scratch_changes(&before, &after, &changes), ARRAY_LEN(expected));
    assert_memory_equal(changes, expected, sizeof expected);
    free(changes);
    assert_int_equal(scratch_changes(&before, &before, &changes), 0);
    free(changes);
    assert_int_equal(scratch_changes(&before, &none, &changes), 0);
    free(changes);
    assert_int_equal(scratch_changes(&none, &before, &changes), 6);
    free(changes);
}

// When the list of before was not whole, files that it left out are not all new.
static void changes_when_files_were_left_out(void **state)
{
    (void)state;
    struct scratch_file then[] = {{.path = "b", .ctime_ns = 50}, {.path = "c", .ctime_ns = 100}};
    struct scratch_file now[] = {{.path = "a", .ctime_ns = 70},   // left out before
                                 {.path = "b", .ctime_ns = 60},   // changed
                                 {.path = "d", .ctime_ns = 101}}; // new
    struct scratch_list before = list_of(then, 2), after = list_of(now, 3);
    before.left_out = 7;
    size_t *changes;
    assert_int_equal(scratch_changes(&before, &after, &changes), 2);
    assert_true(changes[0] == 1 && changes[1] == 2);
    free(changes);
}

#define PLAIN(f) cmocka_unit_test(f)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLAIN(paths_that_are_taken),
        PLAIN(paths_that_are_refused),
        PLAIN(paths_at_their_bounds),
        PLAIN(changes_between_two_lists),
        PLAIN(changes_when_files_were_left_out),
    };
    return cmocka_run_group_tests_name("scratch_path", tests, NULL, NULL);
}
