// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of run/feed: stdin on its way to a box that keeps to the protocol, and to boxes that
// do not.  The test is the box.

#include "live_peer.h"

#include <errno.h>

#include "run/run.h"

enum { BODY = 300 * 1000 };

static struct run r;
static char body[BODY];
static int asked, hungry;
static char prompt[64];

static void on_ask(struct run *run, const char *text, size_t length)
{
    assert_ptr_equal(run, &r);
    asked++;
    snprintf(prompt, sizeof prompt, "%.*s", (int)length, text);
}

static void on_hungry(struct run *run)
{
    assert_ptr_equal(run, &r);
    hungry++;
}

static void note_sent(struct live_box *live)
{
    (void)live;
    saw.sent++;
    feed_on_sent(&r);
}

static const struct live_user box_user = {
    .on_want = feed_on_want, .on_ask = feed_on_ask, .on_sent = note_sent, .on_garbage = on_garbage};

static void begin_run(size_t length, bool open, bool person)
{
    asked = hungry = 0;
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (char)(i * 31 + i / 255);
    r = (struct run){.gate = &gate, .box = b, .state = RUN_RUNNING};
    r.request = (struct run_request){.has_stdin = true,
                                     .stdin_open = open,
                                     .stdin_data = body,
                                     .stdin_length = length,
                                     .output_bytes = 1000,
                                     .on_hungry = on_hungry,
                                     .on_ask = person ? on_ask : NULL};
    assert_true(feed_begin(&r));
    live_listen(b, &box_user, &r);
}

static int end_run(void **state)
{
    live_listen(b, NULL, NULL); // drops what the run has lent
    feed_end(&r);
    return finish(state);
}

static void want(void)
{
    say_flagged(FRAME_WANT, 0, 0, 0, "", 0);
    turn();
}

// The length of the INPUT frame that is there; -1: none.
static int take(char *data)
{
    struct frame_reader reader = {.max = FRAME_CHUNK};
    int length = receive(&reader) ? (int)reader.total : -1;
    assert_true(length < 0 || reader.kind == FRAME_INPUT);
    if (length > 0 && data)
        memcpy(data, reader.data, (size_t)length);
    frame_reader_done(&reader);
    return length;
}

// ---- an honest box ------------------------------------------------------------------------------

static void nothing_is_sent_before_the_box_asks(void **state)
{
    (void)state;
    begin_run(BODY, false, false);
    turn();
    assert_int_equal(take(NULL), -1);
}

static void all_of_it_arrives_one_frame_for_each_question(void **state)
{
    static char all[BODY + FRAME_CHUNK];
    size_t have = 0;
    int n;
    (void)state;
    begin_run(BODY, false, false);
    for (;;) {
        want();
        assert_true((n = take(all + have)) >= 0);
        assert_int_equal(take(NULL), -1);
        if (n == 0)
            break;
        assert_true(n <= FRAME_DATA_MAX);
        have += (size_t)n;
    }
    assert_int_equal(have, BODY);
    assert_memory_equal(all, body, BODY);
    assert_int_equal(saw.garbage, 0);
}

static void an_open_stdin_goes_on_until_it_is_closed(void **state)
{
    char data[FRAME_CHUNK];
    (void)state;
    begin_run(0, true, false);
    want();
    assert_int_equal(take(data), -1);
    assert_int_equal(hungry, 1);
    assert_int_equal(run_feed(&r, "one\n", 4), 0);
    assert_int_equal(take(data), 4);
    assert_int_equal(run_feed(&r, "two\n", 4), 0); // the box has not asked again
    assert_int_equal(take(data), -1);
    want();
    assert_int_equal(take(data), 4);
    assert_memory_equal(data, "two\n", 4);
    assert_int_equal(run_feed(&r, "", 0), 0);
    want();
    assert_int_equal(take(data), 0);
    assert_false(run_is_fed(&r));
    assert_int_equal(run_feed(&r, "x", 1), -EPIPE);
}

static void what_waits_for_the_box_is_bounded(void **state)
{
    (void)state;
    begin_run(0, true, false);
    size_t fed = 0;
    while (run_feed(&r, body, BODY) == 0)
        fed += BODY;
    assert_true(fed <= RUN_FEED_MAX && fed + BODY > RUN_FEED_MAX);
    assert_int_equal(run_feed(&r, body, BODY), -ENOBUFS);
}

static void a_run_that_is_over_takes_nothing(void **state)
{
    (void)state;
    begin_run(0, true, true);
    r.state = RUN_HOLDING;
    assert_int_equal(run_feed(&r, "x", 1), -EPIPE);
    want(); // was on its way
    say_flagged(FRAME_ASK, 0, 1, 0, "?", 1);
    turn();
    assert_true(take(NULL) == -1 && !asked && !saw.garbage);
}

static void a_question_reaches_the_client_and_counts_as_output(void **state)
{
    (void)state;
    begin_run(0, true, true);
    say_flagged(FRAME_ASK, 0, 6, 0, "name? ", 6);
    turn();
    assert_int_equal(asked, 0); // it may be full of bytes that are on their way
    want();
    say_flagged(FRAME_ASK, 0, 6, 0, "name? ", 6);
    turn();
    assert_int_equal(asked, 1);
    assert_true(run_is_asking(&r));
    assert_int_equal(run_feed(&r, "Ada\n", 4), 0);
    assert_false(run_is_asking(&r));
    want();
    assert_string_equal(prompt, "name? ");
    for (int i = 0; i < 100; i++) {
        say_flagged(FRAME_ASK, 0, 6, 0, "name? ", 6);
        turn();
        if (run_is_asking(&r)) {
            assert_int_equal(run_feed(&r, "Ada\n", 4), 0);
            want();
        }
    }
    assert_true(asked > 5 && asked < 20); // output_bytes is 1000
}

static void a_question_before_the_answer_counts_as_much_output(void **state)
{
    (void)state;
    begin_run(0, true, true);
    want();
    for (int i = 0; i < 100; i++) {
        say_flagged(FRAME_ASK, 0, 6, 0, "name? ", 6);
        turn();
    }
    assert_int_equal(asked, 1); // output_bytes is 1000
}

// ---- boxes that lie -----------------------------------------------------------------------------

static void a_box_that_asks_without_reading_gets_one_frame_at_a_time(void **state)
{
    (void)state;
    begin_run(BODY, false, false);
    for (int i = 0; i < 50 && !saw.garbage; i++)
        want();
    assert_true(b->frame_count <= 1); // the rest is in the socket, which is bounded
    assert_int_equal(saw.garbage, 1); // it asked before it was answered, or after the end
}

static void to_ask_twice_breaks_the_protocol(void **state)
{
    (void)state;
    begin_run(0, true, false);
    want();
    want();
    assert_int_equal(saw.garbage, 1);
}

static void to_ask_after_the_end_breaks_the_protocol(void **state)
{
    (void)state;
    begin_run(0, false, false);
    want();
    assert_int_equal(take(NULL), 0);
    want();
    assert_int_equal(saw.garbage, 1);
}

static void to_ask_for_a_stdin_that_the_run_does_not_have(void **state)
{
    (void)state;
    begin_run(0, false, false);
    feed_end(&r);
    want();
    assert_int_equal(saw.garbage, 1);
}

static void to_ask_a_person_who_is_not_there(void **state)
{
    (void)state;
    begin_run(0, true, false);
    say_flagged(FRAME_ASK, 0, 1, 0, "?", 1);
    turn();
    assert_true(saw.garbage == 1 && !asked);
}

static void a_prompt_without_end(void **state)
{
    (void)state;
    begin_run(0, true, true);
    say_flagged(FRAME_ASK, 0, FRAME_ASK_MAX + 1, 0, body, FRAME_ASK_MAX + 1);
    turn();
    assert_true(saw.garbage == 1 && !asked);
}

static void a_want_with_bytes(void **state)
{
    (void)state;
    begin_run(0, true, false);
    say_flagged(FRAME_WANT, 0, 1, 0, "x", 1);
    turn();
    assert_int_equal(saw.garbage, 1);
}

static void a_box_that_sends_input(void **state)
{
    (void)state;
    begin_run(0, true, false);
    say_flagged(FRAME_INPUT, 0, 1, 0, "x", 1);
    turn();
    assert_int_equal(saw.garbage, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end_run)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_sent_before_the_box_asks),
        TEST(all_of_it_arrives_one_frame_for_each_question),
        TEST(an_open_stdin_goes_on_until_it_is_closed),
        TEST(what_waits_for_the_box_is_bounded),
        TEST(a_run_that_is_over_takes_nothing),
        TEST(a_question_reaches_the_client_and_counts_as_output),
        TEST(a_question_before_the_answer_counts_as_much_output),
        TEST(a_box_that_asks_without_reading_gets_one_frame_at_a_time),
        TEST(to_ask_twice_breaks_the_protocol),
        TEST(to_ask_after_the_end_breaks_the_protocol),
        TEST(to_ask_for_a_stdin_that_the_run_does_not_have),
        TEST(to_ask_a_person_who_is_not_there),
        TEST(a_prompt_without_end),
        TEST(a_want_with_bytes),
        TEST(a_box_that_sends_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
