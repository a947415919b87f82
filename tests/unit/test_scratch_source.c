// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of files/scratch: a file whose bytes come later, into a hostile box.

#include "unit.h"

#include "scratch_hostile.h"

static ssize_t source_gives; // the next time; then -EAGAIN
static ssize_t give(void *to, size_t most, void *argument, struct err *error)
{
    ssize_t n = source_gives;
    (void)argument;
    source_gives = -EAGAIN;
    if (n > 0)
        memset(to, 'x', (size_t)n <= most ? (size_t)n : most);
    if (n < 0 && n != -EAGAIN)
        (void)err_set(error, ERR_SYSTEM, (int)-n, NULL, "the source failed");
    return n;
}

static void answer_create(uint64_t inode)
{
    struct frame_filed f = answer(FILE_CREATE);
    f.stat.inode = inode;
    say(&f, sizeof f, -1);
}

static void answer_write(void)
{
    struct frame_filed f = answer(FILE_WRITE);
    f.offset = asked.offset;
    say(&f, sizeof f, -1);
}

static void a_source_that_dribbles(void **state)
{
    (void)state;
    static const struct scratch_source source = {.give = give};
    source_gives = -EAGAIN;
    struct scratch_op *op = scratch_write_from(b, "x", UINT64_MAX, &source, on_done, &saw, &e);
    assert_true(op && hear() && asked.op == FILE_CREATE && asked.length == 0);
    scratch_wake(op); // too early
    assert_false(hear());
    source_gives = -EAGAIN;
    answer_create(7);
    assert_false(hear());
    for (uint64_t at = 0; at < 30; at += 3) {
        source_gives = 3;
        scratch_wake(op);
        assert_true(hear() && asked.op == FILE_WRITE && asked.length == 3 && asked.offset == at);
        assert_int_equal(asked.inode, 7);
        answer_write();
    }
    usleep(200000); // twice the patience with a box
    turn();
    assert_int_equal(saw.calls, 0);
    source_gives = 0;
    scratch_wake(op);
    assert_true(hear() && asked.op == FILE_COMMIT);
    scratch_wake(op); // too late
    assert_false(hear());
    struct frame_filed f = answer(FILE_COMMIT);
    say(&f, sizeof f, -1);
    until_called(1);
    assert_true(worked());
}

static void a_source_that_fails_or_never_ends(void **state)
{
    (void)state;
    static const struct scratch_source source = {.give = give};
    source_gives = 5;
    struct scratch_op *op = scratch_write_from(b, "x", 100, &source, on_done, &saw, &e);
    assert_true(op && hear() && asked.op == FILE_CREATE && asked.length == 5);
    answer_create(7);
    source_gives = -EIO;
    scratch_wake(op);
    assert_true(hear() && asked.op == FILE_ABORT);
    assert_true(saw.calls == 1 && saw.reply.error.code == ERR_SYSTEM);

    forget();
    source_gives = FRAME_DATA_MAX;
    op = scratch_write_from(b, "x", UINT64_MAX, &source, on_done, &saw, &e);
    assert_true(op && hear());
    answer_create(7);
    unsigned n = 0;
    do {
        source_gives = FRAME_DATA_MAX;
        scratch_wake(op);
        assert_true(hear());
        if (asked.op == FILE_WRITE)
            answer_write();
    } while (asked.op == FILE_WRITE && ++n < 2000);
    assert_true(asked.op == FILE_ABORT && n == (64 << 20) / FRAME_DATA_MAX - 1);
    assert_true(saw.calls == 1 && saw.reply.error.code == ERR_FILE_TOO_LARGE);
}

static void a_box_without_an_inode(void **state)
{
    (void)state;
    static const struct scratch_source source = {.give = give};
    source_gives = -EAGAIN;
    assert_non_null(scratch_write_from(b, "x", 100, &source, on_done, &saw, &e));
    assert_true(hear());
    answer_create(0);
    assert_true(saw.garbage);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_source_that_dribbles),
        TEST(a_source_that_fails_or_never_ends),
        TEST(a_box_without_an_inode),
    };
    return cmocka_run_group_tests_name("scratch_source", tests, NULL, NULL);
}
