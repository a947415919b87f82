// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of session/session, home and run together: turns, interruptions, ends, names.

#include "fake_keeper.h"

// ---- tests --------------------------------------------------------------------------------------

static void runs_take_turns_in_the_order_of_asking(void **state)
{
    (void)state;
    struct fake_box *b;
    struct watched w[4] = {0};
    struct session *s = open_one("", "", &b);
    for (int i = 0; i < 3; i++)
        assert_non_null(start(s, (const char *[]){"one", "two", "three"}[i], &w[i], 9000));
    assert_non_null(start(s, "four", &w[3], 9000));
    turn();
    assert_true(w[3].calls == 1 && w[3].error == ERR_SESSION_BUSY); // two may wait
    box_takes_run(b, "one");
    box_has_nothing(b);
    box_answers(b);
    box_has_nothing(b); // not before the keeper has counted
    keeper_measures(b);
    assert_true(w[0].calls == 1 && w[0].end == END_DONE && !w[0].lost);
    box_takes_run(b, "two");
    box_answers(b);
    box_answers(b); // a second answer is dropped
    keeper_measures(b);
    assert_true(w[1].calls == 1 && w[2].calls == 0);
    box_takes_run(b, "three");
    assert_int_equal(s->state, SESSION_BUSY);
    box_answers(b);
    keeper_measures(b);
    assert_true(w[2].calls == 1 && s->state == SESSION_IDLE && gate.running == 0);
}

// A short run that went well asks nothing; one that failed does.
static void what_a_short_run_used_is_read_here(void **state)
{
    (void)state;
    struct fake_box *b;
    struct watched w[3] = {0};
    union wire_message m;
    with_meter = true;
    config.processes = 2000; // the files say 1000
    struct session *s = open_one("", "", &b);
    assert_int_equal(s->box->meter.count, 4);
    assert_non_null(start(s, "one", &w[0], 9000));
    assert_non_null(start(s, "two", &w[1], 9000));
    turn();
    box_takes_run(b, "one");
    box_answers(b);
    assert_true(w[0].calls == 1 && w[0].end == END_DONE && !w[0].lost);
    box_takes_run(b, "two");
    struct frame_piece piece = {"{\"exit_code\": 1}", 16};
    size_t offset = 0;
    assert_int_equal(frame_send(b->control, FRAME_RESULT, &piece, 1, &offset), 0);
    turn();
    assert_int_equal(w[1].calls, 0);
    keeper_measures(b);
    assert_int_equal(w[1].calls, 1);
    // One that takes longer is told of.
    assert_non_null(start(s, "three", &w[2], 9000));
    turn();
    assert_false(hear(WIRE_MEASURE, &m));
    wait_ms(20);
    assert_true(hear(WIRE_MEASURE, &m) && m.measure.cpu_ms == 1000);
    box_takes_run(b, "three");
    box_answers(b);
    keeper_measures(b);
    assert_int_equal(w[2].calls, 1);
}

static void a_timeout_interrupts_and_keeps(void **state)
{
    (void)state;
    struct fake_box *b;
    struct watched w = {0};
    union wire_message m;
    struct session *s = open_one("", "", &b);
    assert_non_null(start(s, "loop", &w, 10));
    turn();
    wait_ms(15);
    assert_true(hear(WIRE_INTERRUPT, &m) && m.interrupt.box == b->id);
    assert_int_equal(w.calls, 0);
    box_answers(b);
    keeper_measures(b);
    assert_true(w.calls == 1 && w.end == END_WALL && !w.lost);
    assert_int_equal(s->state, SESSION_IDLE);
}

static void code_that_does_not_stop_loses_the_session(void **state)
{
    (void)state;
    struct fake_box *b;
    struct watched w = {0}, behind = {0};
    union wire_message m;
    struct session *s = open_one("", "mine", &b);
    char id[SESSION_ID_SIZE];
    snprintf(id, sizeof id, "%s", s->id);
    assert_non_null(start(s, "loop", &w, 10));
    assert_non_null(start(s, "later", &behind, 9000));
    turn();
    wait_ms(60);
    assert_true(hear(WIRE_RELEASE, &m) && m.release.box == b->id && m.release.end == END_WALL);
    end_box(b, END_WALL);
    assert_true(w.calls == 1 && w.end == END_WALL && w.lost);
    assert_true(behind.calls == 1 && behind.error == ERR_SESSION_ENDED);
    assert_null(session_find(&gate, "", id, &e));
    assert_int_equal(e.code, ERR_SESSION_ENDED);
    assert_non_null(strstr(e.message, "did not stop"));
    assert_null(session_find(&gate, "", "mine", &e));
    assert_int_equal(e.code, ERR_SESSION_ENDED);
    assert_null(session_find(&gate, "other", id, &e)); // another key hears nothing of it
    assert_int_equal(e.code, ERR_SESSION_UNKNOWN);
}

static void a_cancelled_run_is_interrupted(void **state)
{
    (void)state;
    struct fake_box *b;
    struct watched w = {0}, behind = {0};
    union wire_message m;
    struct session *s = open_one("", "", &b);
    struct run *r = start(s, "loop", &w, 9000);
    struct run *q = start(s, "later", &behind, 9000);
    turn();
    run_cancel(q);
    assert_true(behind.calls == 1 && behind.end == END_CANCELLED);
    run_cancel(r);
    assert_true(hear(WIRE_INTERRUPT, &m));
    box_answers(b);
    keeper_measures(b);
    assert_true(w.calls == 1 && w.end == END_CANCELLED && !w.lost);
    assert_int_equal(s->state, SESSION_IDLE);
}

static void memory_kills_and_says_so(void **state)
{
    (void)state;
    struct fake_box *b;
    struct watched w = {0};
    struct session *s = open_one("", "", &b);
    char id[SESSION_ID_SIZE];
    snprintf(id, sizeof id, "%s", s->id);
    assert_non_null(start(s, "big", &w, 9000));
    turn();
    end_box(b, END_MEMORY);
    assert_true(w.calls == 1 && w.lost);
    int64_t when;
    assert_int_equal(session_why_ended(&gate, "", id, &when), SESSION_MEMORY);
}

static void the_longest_idle_makes_room(void **state)
{
    (void)state;
    struct session *s[5];
    union wire_message m;
    char first[SESSION_ID_SIZE];
    for (int i = 0; i < 4; i++)
        s[i] = open_one("", "", NULL);
    snprintf(first, sizeof first, "%s", s[0]->id);
    struct watched w = {0};
    assert_non_null(start(s[0], "x", &w, 9000)); // not idle
    turn();
    char second[SESSION_ID_SIZE];
    snprintf(second, sizeof second, "%s", s[1]->id);
    s[4] = open_one("", "", NULL);
    assert_non_null(session_find(&gate, "", first, &e));
    assert_null(session_find(&gate, "", second, &e));
    assert_non_null(strstr(e.message, "make room"));
    assert_int_equal(sessions_count(&gate, NULL), 4);
    (void)hear(WIRE_RELEASE, &m);
    box_answers(&boxes[0]);
    keeper_measures(&boxes[0]);
    assert_int_equal(w.calls, 1);
}

static void one_key_cannot_push_out_all_others(void **state)
{
    (void)state;
    char other[SESSION_ID_SIZE];
    struct session *s = open_one("a", "", NULL);
    snprintf(other, sizeof other, "%s", s->id);
    for (int i = 0; i < 6; i++)
        (void)open_one("b", "", NULL);
    assert_non_null(session_find(&gate, "a", other, &e));
    assert_int_equal(sessions_count(&gate, "b"), 3);
}

static void names_belong_to_a_key(void **state)
{
    (void)state;
    struct session *a = open_one("a", "work", NULL), *b = open_one("b", "work", NULL);
    struct session_plan plan = a->plan;
    assert_ptr_equal(session_find(&gate, "a", "work", &e), a);
    assert_ptr_equal(session_find(&gate, "b", "work", &e), b);
    assert_null(session_find(&gate, "c", "work", &e));
    assert_null(session_open(&gate, "a", &plan, NULL, NULL, &e)); // taken
    session_close(a, SESSION_CLOSED);
    assert_null(session_find(&gate, "a", "work", &e));
    assert_int_equal(e.code, ERR_SESSION_ENDED);
    assert_ptr_equal(session_find(&gate, "b", "work", &e), b);
}

static void idle_sessions_expire_and_busy_ones_do_not(void **state)
{
    (void)state;
    config.session_idle_ms = 40;
    struct fake_box *b;
    struct session *s = open_one("", "", &b);
    char id[SESSION_ID_SIZE];
    snprintf(id, sizeof id, "%s", s->id);
    struct watched w = {0};
    assert_non_null(start(s, "long", &w, 9000));
    wait_ms(80);
    assert_non_null(session_find(&gate, "", id, &e));
    box_answers(b);
    keeper_measures(b);
    assert_int_equal(w.calls, 1);
    wait_ms(80);
    assert_null(session_find(&gate, "", id, &e));
    assert_non_null(strstr(e.message, "not used"));
}

static void a_refused_box_fails_the_open_and_its_runs(void **state)
{
    (void)state;
    struct session_plan plan;
    struct watched w = {0};
    union wire_message m;
    session_plan_init(&gate, &plan);
    struct session *s = session_open(&gate, "", &plan, NULL, NULL, &e);
    assert_non_null(s);
    assert_non_null(start(s, "x", &w, 9000));
    assert_true(hear(WIRE_ACQUIRE, &m));
    m = (union wire_message){.box = {.ticket = m.acquire.ticket, .error_code = ERR_ZYGOTE}};
    snprintf(m.box.error, sizeof m.box.error, "no zygote");
    assert_int_equal(wire_send(keeper, WIRE_BOX, &m, NULL, 0), 0);
    turn();
    assert_true(w.calls == 1 && w.error == ERR_ZYGOTE);
    assert_string_equal(w.message, "no zygote");
    assert_int_equal(sessions_count(&gate, NULL), 0);
}

static void names(void **state)
{
    (void)state;
    char longer[SESSION_NAME_MAX + 2];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(session_check_name("analysis-1", 10, &e), 0);
    assert_int_equal(session_check_name("Grüße 1", strlen("Grüße 1"), &e), 0);
    assert_true(session_check_name("", 0, &e) < 0);
    assert_true(session_check_name("a\nb", 3, &e) < 0);
    assert_true(session_check_name("\xff", 1, &e) < 0);
    assert_true(session_check_name("ses_abc", 7, &e) < 0);
    assert_true(session_check_name(longer, strlen(longer), &e) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(runs_take_turns_in_the_order_of_asking),
        TEST(what_a_short_run_used_is_read_here),
        TEST(a_timeout_interrupts_and_keeps),
        TEST(code_that_does_not_stop_loses_the_session),
        TEST(a_cancelled_run_is_interrupted),
        TEST(memory_kills_and_says_so),
        TEST(the_longest_idle_makes_room),
        TEST(one_key_cannot_push_out_all_others),
        TEST(names_belong_to_a_key),
        TEST(idle_sessions_expire_and_busy_ones_do_not),
        TEST(a_refused_box_fails_the_open_and_its_runs),
        TEST(names),
    };
    return cmocka_run_group_tests_name("sessions", tests, NULL, NULL);
}
