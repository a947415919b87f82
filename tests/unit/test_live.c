// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of run/live: reading, output, sending.  Numbers in names are those of the invariants
// in live.c.

#include "live_peer.h"

#include <errno.h>
#include <stdlib.h>

static const struct live_user no_calls;

static int begin_kept(void **state)
{
    (void)state;
    return begin_with(true);
}

// ---- reading ------------------------------------------------------------------------------------

static void frames_reach_whoever_listens(void **state)
{
    (void)state;
    struct frame_exit gone = {.status = 0x100};
    say(FRAME_RESULT, "{}", 2);
    say(FRAME_EXIT, (const char *)&gone, sizeof gone);
    turn();
    assert_int_equal(saw.results, 1);
    assert_string_equal(saw.result, "{}");
    assert_int_equal(saw.flags, FRAME_HAS_FILES);
    assert_true(saw.exits == 1 && saw.status == 0x100);
    live_listen(b, &no_calls, NULL); // nothing to call is fine
    say(FRAME_RESULT, "{}", 2);
    say(FRAME_EXIT, (const char *)&gone, sizeof gone);
    turn();
    live_listen(b, NULL, NULL);
    say(FRAME_RESULT, "{}", 2);
    turn();
    assert_true(saw.results == 1 && !b->silent);
}

static void one_event_reads_no_more_than_its_share(void **state)
{
    (void)state;
    int sent = 0;
    assert_int_equal(fd_set_nonblock(box, true), 0);
    const struct {
        struct frame_header h;
        struct frame_exit gone;
    } leaving = {.h = {.magic = FRAME_MAGIC, .kind = FRAME_EXIT, .total = sizeof leaving.gone}};
    while (send(box, &leaving, sizeof leaving, MSG_NOSIGNAL) > 0)
        sent++;
    assert_true(sent > 20);
    assert_true(event_base_loop(gate.base, EVLOOP_NONBLOCK | EVLOOP_ONCE) >= 0);
    assert_int_equal(saw.exits, 16);
    live_read(b); // all that is there
    assert_int_equal(saw.exits, sent);
}

static void one_event_reads_one_answer(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        say(FRAME_RESULT, "{}", 2);
    for (int i = 1; i <= 2; i++) {
        assert_true(event_base_loop(gate.base, EVLOOP_NONBLOCK | EVLOOP_ONCE) >= 0);
        assert_int_equal(saw.results, i);
    }
    say(FRAME_RESULT, "{}", 2);
    live_read(b); // all that is there
    assert_int_equal(saw.results, 4);
}

static void the_end_of_the_socket_is_not_garbage(void **state)
{
    (void)state;
    say(FRAME_RESULT, "{}", 2);
    fd_close(&box);
    turn();
    assert_true(saw.results == 1 && saw.garbage == 0 && b->silent);
    turn(); // and does not turn for ever
    live_read(b);
    struct frame_piece piece = {"x", 1};
    assert_int_equal(live_send(b, FRAME_RUN, &piece, 1, false), 0);
    assert_int_equal(saw.sent, 0);
}

static void a_socket_that_was_reset(void **state)
{
    (void)state;
    struct frame_piece piece = {"x", 1};
    assert_int_equal(live_send(b, FRAME_RUN, &piece, 1, true), 0);
    fd_close(&box); // with a datagram unread: ECONNRESET here
    turn();
    assert_true(saw.garbage == 0 && b->silent);
}

static void what_no_box_says_ends_the_reading(void **state)
{
    (void)state;
    static const struct {
        unsigned kind;
        size_t length;
    } cases[] = {{FRAME_RUN, 8},   {FRAME_READY, 0},    {FRAME_FAILED, 8},
                 {FRAME_FILE, 16}, {FRAME_KIND_MAX, 1}, {0, 1},
                 {FRAME_EXIT, 3},  {FRAME_EXIT, 5},     {FRAME_FILED, 3}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        say(cases[i].kind, "0123456789abcdef", cases[i].length);
        say(FRAME_RESULT, "{}", 2);
        turn();
        if (saw.garbage != 1 || saw.results || !b->silent)
            fail_msg("case %zu: %d %d", i, saw.garbage, saw.results);
        assert_int_equal(finish(NULL), 0);
        assert_int_equal(begin(NULL), 0);
    }
    assert_int_equal(send(box, "x", 1, 0), 1);
    turn();
    assert_true(saw.garbage == 1 && b->silent);
}

static void descriptors_that_nobody_asked_for_are_closed(void **state)
{
    (void)state;
    struct {
        struct frame_header h;
        char text[2];
    } m = {{.magic = FRAME_MAGIC, .kind = FRAME_RESULT, .total = 2}, "{}"};
    for (size_t count = 1; count <= 3; count++) {
        const int fds[3] = {box, box, box};
        int before = unit_fd_count();
        if (!unit_try_send(box, &m, sizeof m.h + 2, fds, count)) { // Linux 6.16
            unit_take_rights(b->control);
            unit_send_raw(box, &m, sizeof m.h + 2, fds, count);
        }
        turn();
        assert_true(saw.garbage == 1 && saw.results == 0);
        assert_int_equal(unit_fd_count(), before);
        assert_int_equal(finish(NULL), 0);
        assert_int_equal(begin(NULL), 0);
    }
}

static void a_frame_that_was_cut_off_gives_way(void **state)
{
    (void)state;
    say_part(FRAME_RESULT, 500, 0, "abc", 3);
    say(FRAME_RESULT, "{}", 2);
    turn();
    assert_true(saw.results == 1 && saw.garbage == 0);
}

// The gate before this one had read its beginning.
static void a_large_frame_is_not_kept(void **state)
{
    (void)state;
    static char piece[FRAME_CHUNK];
    say_part(FRAME_RESULT, FRAME_CHUNK + 3, 0, piece, sizeof piece);
    turn();
    assert_true(saw.results == 0 && b->reader.data);
    say_part(FRAME_RESULT, FRAME_CHUNK + 3, FRAME_CHUNK, "abc", 3);
    turn();
    assert_true(saw.results == 1 && !b->reader.data && !saw.garbage);
    say(FRAME_RESULT, "{}", 2);
    turn();
    assert_true(saw.results == 2 && !saw.garbage);
}

static void a_kept_box_may_be_in_the_middle_of_a_frame(void **state)
{
    (void)state;
    say_part(FRAME_RESULT, 500, 400, "abc", 3);
    say_part(FRAME_RESULT, 500, 403, "abc", 3);
    say(FRAME_RESULT, "{}", 2);
    turn();
    assert_true(saw.results == 1 && saw.garbage == 0);
    say_part(FRAME_RESULT, 500, 403, "abc", 3); // but only at first
    turn();
    assert_int_equal(saw.garbage, 1);
}

// ---- output -------------------------------------------------------------------------------------

static void output_reaches_who_listens_by_stream(void **state)
{
    (void)state;
    print(LIVE_STDERR, "warning");
    turn();
    assert_true(saw.outputs[LIVE_STDERR] == 1 && saw.outputs[LIVE_STDOUT] == 0);
    assert_string_equal(saw.printed, "warning");
    print(LIVE_STDOUT, "1");
    print(LIVE_STDOUT, "2");
    turn();
    assert_true(saw.outputs[LIVE_STDOUT] == 2 && !saw.garbage);
}

static void a_box_that_prints_to_no_stream_is_garbage(void **state)
{
    (void)state;
    print(LIVE_STREAMS, "x");
    turn();
    assert_true(saw.garbage == 1 && b->silent);
}

static void empty_output_is_garbage(void **state)
{
    (void)state;
    print(LIVE_STDOUT, "");
    turn();
    assert_true(saw.garbage == 1 && b->silent);
}

// SECURITY: between two runs its init keeps output back; a box that sends some all the same wants
// to keep us busy.
static void output_that_nobody_listens_to_is_garbage(void **state)
{
    (void)state;
    static const struct live_user deaf = {.on_garbage = on_garbage};
    live_listen(b, &deaf, NULL);
    print(LIVE_STDOUT, "x");
    turn();
    assert_true(saw.garbage == 1 && b->silent);
}

static void one_run_is_told_to_drop_what_waits_in_the_pipes(void **state)
{
    (void)state;
    struct frame_reader r = {.max = 100};
    struct frame_piece piece = {"x", 1};
    b->discard = true;
    assert_int_equal(live_send(b, FRAME_FILE, &piece, 1, true), 0);
    assert_true(receive(&r) && r.flags == 0);
    assert_int_equal(live_send(b, FRAME_RUN, &piece, 1, false), 0);
    assert_true(receive(&r) && r.flags == (FRAME_KEPT | FRAME_DISCARD));
    assert_int_equal(live_send(b, FRAME_RUN, &piece, 1, false), 0);
    assert_true(receive(&r) && r.flags == FRAME_KEPT);
    frame_reader_done(&r);
}

// ---- sending ------------------------------------------------------------------------------------

static void inv1_frames_are_never_mixed(void **state)
{
    (void)state;
    enum { SIZE = 3 << 20 };
    char *code = malloc(SIZE), small[] = "first";
    assert_non_null(code);
    memset(code, 'c', SIZE);
    struct frame_reader r = {.max = FRAME_RUN_MAX};
    struct frame_piece pieces[] = {{"head", 4}, {code, SIZE}}, piece = {small, 5};
    assert_int_equal(live_send(b, FRAME_RUN, pieces, 2, false), 0);
    pieces[0].data = "none"; // the array itself is not kept
    assert_int_equal(live_send(b, FRAME_FILE, &piece, 1, true), 0);
    memcpy(small, "later", 5); // a copy was made
    assert_int_equal(live_send(b, FRAME_FILE, &piece, 1, true), 0);
    assert_true(saw.sent == 0 && b->frame_count == 3);
    int rounds = 0;
    while (!receive(&r)) {
        turn();
        assert_true(++rounds < 1000);
    }
    assert_true(r.kind == FRAME_RUN && r.total == SIZE + 4 && r.flags == 0);
    assert_memory_equal(r.data, "head", 4);
    assert_true(memcmp(r.data + 4, code, SIZE) == 0);
    turn();
    assert_int_equal(saw.sent, 1); // for the borrowed one alone
    free(code);
    assert_true(receive(&r) && r.kind == FRAME_FILE && memcmp(r.data, "first", 5) == 0);
    assert_true(receive(&r) && r.kind == FRAME_FILE && memcmp(r.data, "later", 5) == 0);
    assert_true(!receive(&r) && b->frame_count == 0);
    frame_reader_done(&r);
}

// The next listener does not get the bytes.  The box sees a frame that was cut off.
static void what_another_had_lent_is_dropped(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    char *code = calloc(1, SIZE), head[] = "head";
    assert_non_null(code);
    struct frame_reader r = {.max = FRAME_RUN_MAX};
    struct frame_piece pieces[] = {{head, 4}, {code, SIZE}}, piece = {"file", 4};
    assert_int_equal(live_send(b, FRAME_RUN, pieces, 2, false), 0);
    assert_int_equal(live_send(b, FRAME_FILE, &piece, 1, true), 0);
    assert_int_equal(live_send(b, FRAME_RUN, pieces, 1, false), 0);
    live_listen(b, &listener, &saw); // the same
    assert_int_equal(b->frame_count, 3);
    live_listen(b, &listener, &r); // another
    free(code);
    memset(head, 0, sizeof head);
    assert_int_equal(b->frame_count, 1);
    for (int i = 0; i < 100 && !receive(&r); i++)
        turn();
    assert_true(r.kind == FRAME_FILE && r.total == 4);
    assert_int_equal(saw.sent, 0);
    frame_reader_done(&r);
}

// A head is on the stack of the function that sends it, and may have to wait.
static void small_pieces_are_not_borrowed(void **state)
{
    (void)state;
    static char code[1 << 20];
    char head[] = "head";
    struct frame_reader r = {.max = FRAME_RUN_MAX};
    struct frame_piece piece = {code, sizeof code}, second = {head, 4};
    assert_int_equal(live_send(b, FRAME_RUN, &piece, 1, false), 0);
    assert_int_equal(live_send(b, FRAME_RUN, &second, 1, false), 0);
    memset(head, 0, sizeof head);
    for (int i = 0; i < 100 && !receive(&r); i++)
        turn();
    turn();
    assert_true(receive(&r) && r.total == 4 && memcmp(r.data, "head", 4) == 0);
    frame_reader_done(&r);
}

static void a_box_that_does_not_read_is_sent_no_more_than_so_many(void **state)
{
    (void)state;
    static char text[1 << 10];
    struct frame_piece piece = {text, sizeof text};
    int sent = 0;
    while (sent < 10000 && live_send(b, FRAME_FILE, &piece, 1, true) == 0)
        sent++;
    assert_true(sent > 100 && sent < 2000 && b->frame_count <= 256);
    assert_int_equal(live_send(b, FRAME_FILE, &piece, 1, true), -ENOMEM);
}

static void a_small_frame_goes_at_once(void **state)
{
    (void)state;
    struct frame_reader r = {.max = 100};
    struct frame_piece piece = {"x", 1};
    assert_int_equal(live_send(b, FRAME_RUN, &piece, 1, false), 0);
    assert_int_equal(saw.sent, 1);
    assert_true(receive(&r));
    struct frame_piece five[5] = {{0}};
    assert_int_equal(live_send(b, FRAME_RUN, five, 5, true), -ENOMEM);
    frame_reader_done(&r);
}

static void runs_in_a_kept_box_say_so(void **state)
{
    (void)state;
    struct frame_reader r = {.max = 100};
    struct frame_piece piece = {"x", 1};
    assert_int_equal(live_send(b, FRAME_RUN, &piece, 1, false), 0);
    assert_true(receive(&r) && r.flags == FRAME_KEPT);
    assert_int_equal(live_send(b, FRAME_FILE, &piece, 1, true), 0);
    assert_true(receive(&r) && r.flags == 0);
    frame_reader_done(&r);
}

static void a_box_that_dies_while_it_is_sent_to(void **state)
{
    (void)state;
    static char code[1 << 20];
    struct frame_piece piece = {code, sizeof code};
    assert_int_equal(live_send(b, FRAME_RUN, &piece, 1, false), 0);
    fd_close(&box);
    turn();
    turn();
    assert_true(saw.sent == 0 && saw.garbage == 0 && b->frame_count == 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, finish)
#define TEST_KEPT(f) cmocka_unit_test_setup_teardown(f, begin_kept, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(frames_reach_whoever_listens),
        TEST(one_event_reads_no_more_than_its_share),
        TEST(one_event_reads_one_answer),
        TEST(the_end_of_the_socket_is_not_garbage),
        TEST(a_socket_that_was_reset),
        TEST(what_no_box_says_ends_the_reading),
        TEST(descriptors_that_nobody_asked_for_are_closed),
        TEST(a_frame_that_was_cut_off_gives_way),
        TEST(a_large_frame_is_not_kept),
        TEST_KEPT(a_kept_box_may_be_in_the_middle_of_a_frame),
        TEST(output_reaches_who_listens_by_stream),
        TEST(a_box_that_prints_to_no_stream_is_garbage),
        TEST(empty_output_is_garbage),
        TEST(output_that_nobody_listens_to_is_garbage),
        TEST_KEPT(one_run_is_told_to_drop_what_waits_in_the_pipes),
        TEST(inv1_frames_are_never_mixed),
        TEST(what_another_had_lent_is_dropped),
        TEST(small_pieces_are_not_borrowed),
        TEST(a_box_that_does_not_read_is_sent_no_more_than_so_many),
        TEST(a_small_frame_goes_at_once),
        TEST_KEPT(runs_in_a_kept_box_say_so),
        TEST(a_box_that_dies_while_it_is_sent_to),
    };
    return cmocka_run_group_tests_name("live", tests, NULL, NULL);
}
