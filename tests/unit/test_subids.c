// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of keeper/subids: which ids an ordinary user may hand out, and what a box with one of
// them can read.

#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keeper/slots.h"
#include "keeper/subids.h"

static uint64_t read_text(const char *text, uint64_t *ret_first)
{
    FILE *f = fmemopen((void *)text, strlen(text), "r");
    assert_non_null(f);
    uint64_t count = subids_read(f, "ann", 1234, ret_first);
    (void)fclose(f);
    return count;
}

static void the_longest_range_of_this_user_is_taken(void **state)
{
    (void)state;
    uint64_t first = 0;
    assert_int_equal(read_text("bob:100000:65536\nann:200000:4096\n1234:300000:65536\n", &first),
                     65536);
    assert_int_equal(first, 300000);
    assert_int_equal(read_text("ann:200000:4096\n", &first), 4096);
    assert_int_equal(first, 200000);
    assert_int_equal(read_text("ann:200000:4096", &first), 4096); // without a last newline
}

static void lines_that_make_no_sense_are_left_out(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        "ann\n",
        "ann:\n",
        "ann:100000\n",
        "ann:100000:\n",
        "ann:x:65536\n",
        "ann:100000:x\n",
        "ann:100000:65536x\n",
        "ann:0:65536\n",          // the machine's own
        "ann:999:65536\n",        //
        "ann:4294901760:65536\n", // up to (uid_t)-1
        "ann:-1:65536\n",         //
        "ann:100000:-1\n",        //
        "ann:100000:99999999999999999999\n",
        "anna:100000:65536\n",
        "12345:100000:65536\n",
        ":100000:65536\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        uint64_t first = 7;
        assert_int_equal(lines[i][0] ? read_text(lines[i], &first) : 0, 0);
        assert_int_equal(first, 7);
    }
}

static void a_user_without_a_name_has_only_its_number(void **state)
{
    (void)state;
    uint64_t first = 0;
    const char text[] = ":100000:65536\n1234:200000:4096\n";
    FILE *f = fmemopen((void *)text, strlen(text), "r");
    assert_int_equal(subids_read(f, "", 1234, &first), 4096);
    (void)fclose(f);
}

static void make(const char *folder, const char *name, mode_t mode)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    (void)close(fd);
}

static void what_others_may_not_read_is_found_at_any_depth(void **state)
{
    (void)state;
    char folder[] = "/var/tmp/test_subids.XXXXXX", below[64], part[64];
    int before = unit_fd_count();
    assert_non_null(mkdtemp(folder));
    assert_false(subids_may_read(folder, part, sizeof part)); // mkdtemp makes it 0700
    assert_int_equal(chmod(folder, 0755), 0);
    assert_true(subids_may_read(folder, part, sizeof part));
    snprintf(below, sizeof below, "%s/a", folder);
    assert_int_equal(mkdir(below, 0755), 0);
    make(below, "readable.py", 0644);
    snprintf(part, sizeof part, "%s/link", folder);
    assert_int_equal(symlink("/nowhere", part), 0);
    assert_true(subids_may_read(folder, part, sizeof part));
    make(below, "private.py", 0640);
    assert_false(subids_may_read(folder, part, sizeof part));
    assert_string_equal(part, "private.py");
    make(below, "private.py", 0644);
    assert_true(subids_may_read(folder, part, sizeof part));
    assert_int_equal(chmod(below, 0744), 0); // can be listed, not entered
    assert_false(subids_may_read(folder, part, sizeof part));
    assert_string_equal(part, "a");
    static const char *const names[] = {"a/readable.py", "a/private.py", "a", "link", ""};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(part, sizeof part, "%s/%s", folder, names[i]);
        assert_int_equal(remove(part), 0);
    }
    assert_true(subids_may_read(folder, part, sizeof part)); // the jail says that it is gone
    assert_int_equal(unit_fd_count(), before);
}

// Whatever this machine has: an answer, or a reason and a fix, and nothing is left open.
static void there_are_ids_or_a_reason(void **state)
{
    (void)state;
    static struct slots slots;
    char why[512] = "", fix[512] = "";
    struct err e;
    int before = unit_fd_count();
    if (geteuid() == 0)
        return; // root has ids of its own
    assert_int_equal(slots_open(&slots, 1987600000, &e), 0);
    if (slots_delegate(&slots, why, fix, sizeof why)) {
        assert_true(slots_have_uids(&slots) && !slots_may_give(&slots));
        slots_forgo(&slots);
    } else {
        assert_true(why[0] && fix[0]);
    }
    assert_false(slots_have_uids(&slots));
    assert_int_equal(slots.uid_first, geteuid());
    slots_close(&slots);
    assert_int_equal(unit_fd_count(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_range_of_this_user_is_taken),
        cmocka_unit_test(lines_that_make_no_sense_are_left_out),
        cmocka_unit_test(a_user_without_a_name_has_only_its_number),
        cmocka_unit_test(what_others_may_not_read_is_found_at_any_depth),
        cmocka_unit_test(there_are_ids_or_a_reason),
    };
    return cmocka_run_group_tests_name("subids", tests, NULL, NULL);
}
