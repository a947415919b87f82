// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of run/live: the box is freed by what it calls, wherever that is called from.  Numbers
// in names are those of the invariants in live.c.

#include "live_peer.h"

#include "files/scratch.h"

// Those that free the box from wherever they are called.
static void free_it(struct live_box *live)
{
    assert_ptr_equal(live, b);
    live_free(TAKE_PTR(b));
}
static void free_on_result(struct live_box *live, const char *data, size_t length, unsigned flags)
{
    (void)data;
    (void)length;
    (void)flags;
    saw.results++;
    free_it(live);
}
static void free_on_exit(struct live_box *live, int status)
{
    (void)status;
    free_it(live);
}
static void free_on_output(struct live_box *live, enum live_stream stream, const char *data,
                           size_t length)
{
    (void)stream;
    (void)data;
    (void)length;
    free_it(live);
}

static const struct live_user destroyer = {.on_result = free_on_result,
                                           .on_exit = free_on_exit,
                                           .on_output = free_on_output,
                                           .on_sent = free_it,
                                           .on_garbage = free_it};

static void inv2_on_result_may_free(void **state)
{
    (void)state;
    live_listen(b, &destroyer, NULL);
    say(FRAME_RESULT, "{}", 2);
    say(FRAME_RESULT, "{}", 2);
    turn();
    assert_true(!b && saw.results == 1);
}

static void inv2_on_result_may_free_in_live_read(void **state)
{
    (void)state;
    live_listen(b, &destroyer, NULL);
    say(FRAME_RESULT, "{}", 2);
    say(FRAME_RESULT, "{}", 2);
    live_read(b);
    assert_true(!b && saw.results == 1);
}

static void inv2_on_exit_may_free(void **state)
{
    (void)state;
    live_listen(b, &destroyer, NULL);
    say(FRAME_EXIT, "0123", 4);
    turn();
    assert_null(b);
}

static void inv2_on_garbage_may_free(void **state)
{
    (void)state;
    live_listen(b, &destroyer, NULL);
    say(FRAME_READY, "", 0);
    turn();
    assert_null(b);
}

static void inv2_on_output_may_free(void **state)
{
    (void)state;
    live_listen(b, &destroyer, NULL);
    print(LIVE_STDOUT, "x");
    print(LIVE_STDERR, "x");
    turn();
    assert_null(b);
}

static void inv2_on_sent_may_free(void **state)
{
    (void)state;
    struct frame_piece piece = {"x", 1};
    live_listen(b, &destroyer, NULL);
    assert_int_equal(live_send(b, FRAME_RUN, &piece, 1, false), 0);
    assert_null(b);
}

static void inv2_on_sent_may_free_later(void **state)
{
    (void)state;
    static char code[1 << 20];
    struct frame_piece piece = {code, sizeof code};
    struct frame_reader r = {.max = FRAME_RUN_MAX};
    live_listen(b, &destroyer, NULL);
    assert_int_equal(live_send(b, FRAME_RUN, &piece, 1, false), 0);
    assert_int_equal(live_send(b, FRAME_FILE, &piece, 1, true), 0);
    for (int i = 0; i < 1000 && b; i++) {
        (void)receive(&r);
        turn();
    }
    assert_null(b);
    frame_reader_done(&r);
}

// The listener of a result asks for what is there already, and frees the box in there.
static void nested_result(struct live_box *live, const char *data, size_t length, unsigned flags)
{
    (void)data;
    (void)length;
    (void)flags;
    live_listen(live, &destroyer, NULL);
    live_read(live);
}

static void inv2_nested_reading_may_free(void **state)
{
    (void)state;
    static const struct live_user nested = {.on_result = nested_result};
    live_listen(b, &nested, NULL);
    for (int i = 0; i < 3; i++)
        say(FRAME_RESULT, "{}", 2);
    turn();
    assert_true(!b && saw.results == 1);
}

static void on_list(const struct live_box *live, struct scratch_reply *reply, void *argument)
{
    assert_true(live == b && reply->error.message[0]);
    saw.failed++;
    if (argument)
        free_it(b);
}

static void inv2_a_failed_operation_may_free(void **state)
{
    (void)state;
    struct err e;
    assert_non_null(scratch_list(b, on_list, NULL, &e));
    assert_non_null(scratch_list(b, on_list, &saw, &e));
    fd_close(&box);
    turn();
    assert_true(!b && saw.failed == 2);
}

static void inv3_garbage_fails_what_is_awaited(void **state)
{
    (void)state;
    struct err e;
    assert_non_null(scratch_list(b, on_list, NULL, &e));
    say(FRAME_READY, "", 0);
    turn();
    assert_true(saw.failed == 1 && saw.garbage == 1);
    assert_null(scratch_list(b, on_list, NULL, &e));
    assert_int_equal(e.code, ERR_SESSION_ENDED);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(inv2_on_result_may_free),
        TEST(inv2_on_result_may_free_in_live_read),
        TEST(inv2_on_exit_may_free),
        TEST(inv2_on_garbage_may_free),
        TEST(inv2_on_output_may_free),
        TEST(inv2_on_sent_may_free),
        TEST(inv2_on_sent_may_free_later),
        TEST(inv2_nested_reading_may_free),
        TEST(inv2_a_failed_operation_may_free),
        TEST(inv3_garbage_fails_what_is_awaited),
    };
    return cmocka_run_group_tests_name("live_free", tests, NULL, NULL);
}
