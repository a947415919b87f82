// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of gate/session, home, adopt and run together: the test plays the keeper on one socket and the
// boxes on others.

#include "unit.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "gate/epitaph.h"
#include "gate/gate.h"
#include "gate/home.h"
#include "gate/ledger.h"
#include "gate/run.h"
#include "gate/session.h"

static struct config config;
static struct caps caps; // large
static struct keeper_facts facts;
static bool with_meter;
static struct gate gate;
static int keeper, fds_before;
static struct err e;

// A box as the test has it: the other ends of what the gate got.
struct fake_box {
    uint64_t id;
    int control, out, err;
};
static struct fake_box boxes[64];
static unsigned box_count;

static void start_gate(void)
{
    int pair[2];
    unit_socketpair(pair);
    keeper = pair[0];
    assert_int_equal(fd_set_nonblock(keeper, true), 0);
    gate = (struct gate){.facts = &facts, .base = event_base_new(), .base_url = ""};
    assert_int_equal(link_open(&gate.link, gate.base, pair[1], &e), 0);
    assert_int_equal(sessions_open(&gate, &config, &e), 0);
}

static void stop_gate(void)
{
    link_close(&gate.link);
    event_base_free(gate.base);
    fd_close(&keeper);
}

static int begin(void **state)
{
    (void)state;
    fds_before = unit_fd_count();
    config_init(&config);
    config.sessions = 4;
    config.session_queue = 2;
    config.grace_ms = 30;
    caps.cgroups.driver = &cgroup1_driver;
    facts = (struct keeper_facts){.config = &config, .caps = &caps};
    with_meter = false;
    box_count = 0;
    start_gate();
    return 0;
}

static void close_boxes(void)
{
    for (unsigned i = 0; i < box_count; i++) {
        fd_close(&boxes[i].control);
        fd_close(&boxes[i].out);
        fd_close(&boxes[i].err);
    }
}

static int finish(void **state)
{
    (void)state;
    sessions_close(&gate);
    stop_gate();
    close_boxes();
    if (facts.ledger)
        (void)munmap(facts.ledger, sizeof *facts.ledger);
    return unit_fd_count() == fds_before ? 0 : -1;
}

static void turn(void)
{
    for (int i = 0; i < 3; i++)
        assert_true(event_base_loop(gate.base, EVLOOP_NONBLOCK) >= 0);
}

static void wait_ms(int ms)
{
    struct timeval t = {.tv_usec = ms * 1000};
    (void)event_base_loopexit(gate.base, &t);
    (void)event_base_dispatch(gate.base);
}

// ---- the keeper --------------------------------------------------------------------------------------

static bool hear(enum wire_type type, union wire_message *ret)
{
    while (wire_recv(keeper, ret, NULL, 0, NULL) == 1)
        if (ret->h.type == type)
            return true;
    return false;
}

static struct fake_box *make_box(int fds[3])
{
    int control[2], out[2], err[2];
    unit_socketpair(control);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    struct fake_box *b = &boxes[box_count++];
    *b = (struct fake_box){
        .id = 4096 + box_count, .control = control[0], .out = out[1], .err = err[1]};
    fds[0] = control[1];
    fds[1] = out[0];
    fds[2] = err[0];
    return b;
}

// What a cgroup says.
static int number_file(const char *text)
{
    char path[] = "/tmp/constrictor-sessions-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    return fd;
}

static struct fake_box *give_box(void)
{
    union wire_message m;
    int fds[3 + WIRE_METER_FDS];
    assert_true(hear(WIRE_ACQUIRE, &m));
    assert_int_equal(m.acquire.keep, 1);
    struct fake_box *b = make_box(fds);
    m = (union wire_message){.box = {.ticket = m.acquire.ticket, .box = b->id, .parked = 1}};
    size_t count = 3;
    for (int i = 0; with_meter && i < WIRE_METER_FDS; i++)
        fds[count++] = number_file("1000\n");
    m.box.meter_fds = (uint32_t)count - 3;
    assert_int_equal(wire_send(keeper, WIRE_BOX, &m, fds, count), 0);
    for (size_t i = 0; i < count; i++)
        fd_close(&fds[i]);
    turn();
    return b;
}

static void end_box(struct fake_box *b, enum wire_end end)
{
    union wire_message m = {.ended = {.box = b->id, .end = end}};
    assert_int_equal(wire_send(keeper, WIRE_ENDED, &m, NULL, 0), 0);
    turn();
}

// ---- the box -----------------------------------------------------------------------------------------

static void box_takes_run(struct fake_box *b, const char *code)
{
    char frame[4096];
    ssize_t n = recv(b->control, frame, sizeof frame, MSG_DONTWAIT);
    assert_true(n > (ssize_t)strlen(code));
    assert_memory_equal(frame + n - strlen(code), code, strlen(code));
}

static void box_has_nothing(struct fake_box *b)
{
    char frame[4096];
    assert_int_equal(recv(b->control, frame, sizeof frame, MSG_DONTWAIT), -1);
}

static void box_answers(struct fake_box *b)
{
    static const char json[] = "{\"exit_code\": 0, \"result\": \"2\"}";
    struct frame_piece piece = {json, sizeof json - 1};
    size_t offset = 0;
    assert_int_equal(frame_send(b->control, FRAME_RESULT, &piece, 1, &offset), 0);
    turn();
}

// It is asked whether a run goes on in it; returns the tag for the answer.
static uint32_t box_is_asked(struct fake_box *b)
{
    struct {
        struct frame_header h;
        struct frame_file f;
    } m;
    assert_int_equal(recv(b->control, &m, sizeof m, MSG_DONTWAIT), sizeof m);
    assert_true(m.h.kind == FRAME_FILE && m.f.op == FILE_BUSY);
    return m.f.tag;
}

static void box_says_busy(struct fake_box *b, uint32_t tag, bool busy)
{
    struct frame_filed filed = {.op = FILE_BUSY, .tag = tag, .count = busy};
    struct frame_piece piece = {&filed, sizeof filed};
    size_t offset = 0;
    assert_int_equal(frame_send(b->control, FRAME_FILED, &piece, 1, &offset), 0);
    turn();
}

static void keeper_measures(struct fake_box *b)
{
    union wire_message m;
    do
        assert_true(hear(WIRE_MEASURE, &m));
    while (m.measure.cpu_ms != 0 || m.measure.box != b->id);
    m = (union wire_message){.measured = {.box = b->id, .usage = {.cpu_user_us = 7}}};
    assert_int_equal(wire_send(keeper, WIRE_MEASURED, &m, NULL, 0), 0);
    turn();
}

// ---- runs --------------------------------------------------------------------------------------------

struct watched {
    int calls;
    enum wire_end end;
    bool lost;
    enum err_code error;
    char message[ERR_MESSAGE_MAX];
};

static void on_done(struct run *r)
{
    struct watched *w = r->request.argument;
    w->calls++;
    w->end = r->end;
    w->lost = !r->request.session;
    w->error = r->error.code;
    snprintf(w->message, sizeof w->message, "%s", r->error.message);
    run_free(r);
}

static struct run *start(struct session *s, const char *code, struct watched *w, uint64_t wall_ms)
{
    struct run_request request = {.code = code,
                                  .code_length = strlen(code),
                                  .meta = "",
                                  .wall_ms = wall_ms,
                                  .cpu_ms = 1000,
                                  .output_bytes = 1000,
                                  .session = s,
                                  .on_done = on_done,
                                  .argument = w};
    return run_start(&gate, &request);
}

static struct session *open_one(const char *owner, const char *name, struct fake_box **ret)
{
    struct session_plan plan;
    session_plan_init(&gate, &plan);
    snprintf(plan.name, sizeof plan.name, "%s", name);
    struct session *s = session_open(&gate, owner, &plan, NULL, NULL, &e);
    assert_non_null(s);
    struct fake_box *b = give_box();
    assert_int_equal(s->state, SESSION_IDLE);
    keeper_measures(b);
    if (ret)
        *ret = b;
    return s;
}

// ---- tests -------------------------------------------------------------------------------------------

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
    box_answers(b); // a second answer is nobody's
    keeper_measures(b);
    assert_true(w[1].calls == 1 && w[2].calls == 0);
    box_takes_run(b, "three");
    assert_int_equal(s->state, SESSION_BUSY);
    box_answers(b);
    keeper_measures(b);
    assert_true(w[2].calls == 1 && s->state == SESSION_IDLE && gate.running == 0);
}

// A short run that went well asks nobody; one that failed does.
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
    assert_int_equal(session_epitaph(&gate, "", id, &when), SESSION_MEMORY);
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

// ---- another gate ------------------------------------------------------------------------------------

static void crash_and_adopt(const struct fake_box *alive, bool busy)
{
    union wire_message m = {0};
    int fds[3];
    // The gate is gone without a word; its memory is, for the test, let go of by hand.
    struct ledger *saved = malloc(sizeof *saved);
    assert_non_null(saved);
    memcpy(saved, facts.ledger, sizeof *saved);
    sessions_close(&gate);
    stop_gate();
    memcpy(facts.ledger, saved, sizeof *saved);
    free(saved);
    facts.restarts++;
    start_gate();
    if (alive) {
        struct fake_box *b = make_box(fds);
        m.adopt = (struct wire_adopt){.box = alive->id};
        b->id = alive->id;
        assert_int_equal(wire_send(keeper, WIRE_ADOPT, &m, fds, 3), 0);
        for (int i = 0; i < 3; i++)
            fd_close(&fds[i]);
    }
    m.adopt = (struct wire_adopt){.box = 0};
    assert_int_equal(wire_send(keeper, WIRE_ADOPT, &m, NULL, 0), 0);
    assert_int_equal(sessions_adopt(&gate, &e), 0);
    if (busy)
        assert_true(hear(WIRE_INTERRUPT, &m));
}

static void note_busy(uint64_t box)
{
    for (unsigned i = 0; i < LEDGER_ENTRIES; i++)
        if (facts.ledger->entries[i].live && facts.ledger->entries[i].box == box)
            facts.ledger->entries[i].busy = 1;
}

static bool is_noted_busy(uint64_t box)
{
    for (unsigned i = 0; i < LEDGER_ENTRIES; i++)
        if (facts.ledger->entries[i].live && facts.ledger->entries[i].box == box)
            return facts.ledger->entries[i].busy;
    return false;
}

static void sessions_go_on_in_the_next_gate(void **state)
{
    (void)state;
    struct fake_box *b, *lost;
    struct watched w = {0};
    facts.ledger = ledger_new();
    assert_non_null(facts.ledger);
    sessions_close(&gate);
    stop_gate();
    start_gate();
    struct session *s = open_one("key", "work", &b);
    struct session *gone = open_one("key", "gone", &lost);
    char id[SESSION_ID_SIZE], gone_id[SESSION_ID_SIZE];
    snprintf(id, sizeof id, "%s", s->id);
    snprintf(gone_id, sizeof gone_id, "%s", gone->id);
    s->executions = 5;
    struct fake_box before = *b;
    assert_non_null(start(s, "x", &w, 9000));
    turn();
    // `w` is on the stack of this test: let the run end before the crash, but not the ledger know of it.
    box_answers(b);
    keeper_measures(b);
    note_busy(before.id);
    crash_and_adopt(&before, true);
    s = session_find(&gate, "key", "work", &e);
    assert_non_null(s);
    assert_string_equal(s->id, id);
    assert_int_equal(s->executions, 5);
    assert_null(session_find(&gate, "other", id, &e));
    assert_null(session_find(&gate, "key", gone_id, &e));
    assert_non_null(strstr(e.message, "restarted"));
    // What ran when the gate died is interrupted; then the next run has its turn.
    struct fake_box *now = &boxes[box_count - 1];
    struct watched next = {0};
    assert_non_null(start(s, "after", &next, 9000));
    turn();
    box_says_busy(now, box_is_asked(now), true);
    box_has_nothing(now);
    box_answers(now);
    box_has_nothing(now);
    keeper_measures(now); // by then the interruption is through
    box_takes_run(now, "after");
    box_answers(now);
    keeper_measures(now);
    assert_true(next.calls == 1 && next.end == END_DONE);
    // Once more; but the gate was killed before the whole run was sent, or after it had read the result.
    before = *now;
    note_busy(before.id);
    crash_and_adopt(&before, true);
    assert_non_null(s = session_find(&gate, "key", "work", &e));
    now = &boxes[box_count - 1];
    next = (struct watched){0};
    assert_non_null(start(s, "later", &next, 9000));
    turn();
    uint32_t tag = box_is_asked(now);
    box_has_nothing(now);
    assert_true(is_noted_busy(before.id)); // for a gate after this one
    box_says_busy(now, tag, false);
    box_has_nothing(now);
    keeper_measures(now); // by then the interruption is through
    box_takes_run(now, "later");
    box_answers(now);
    keeper_measures(now);
    assert_true(next.calls == 1 && next.end == END_DONE);
}

static void a_forged_ledger_is_not_believed(void **state)
{
    (void)state;
    facts.ledger = ledger_new();
    assert_non_null(facts.ledger);
    memset(facts.ledger, 0xff, sizeof *facts.ledger);
    for (int i = 0; i < 3; i++) { // no end of string anywhere, no sound id
        facts.ledger->entries[i].box = 4097 + (uint64_t)i;
        memset(facts.ledger->entries[i].id, 's', sizeof facts.ledger->entries[i].id);
    }
    sessions_close(&gate);
    stop_gate();
    facts.restarts = 1;
    start_gate();
    union wire_message m = {.adopt = {.box = 4097}};
    int fds[3];
    (void)make_box(fds);
    assert_int_equal(wire_send(keeper, WIRE_ADOPT, &m, fds, 3), 0);
    for (int i = 0; i < 3; i++)
        fd_close(&fds[i]);
    m.adopt.box = 0;
    assert_int_equal(wire_send(keeper, WIRE_ADOPT, &m, NULL, 0), 0);
    assert_int_equal(sessions_adopt(&gate, &e), 0);
    assert_int_equal(sessions_count(&gate, NULL), 0);
    assert_true(hear(WIRE_RELEASE, &m) && m.release.box == 4097); // a box that nobody knows
}

static void two_entries_of_one_session(void **state)
{
    (void)state;
    struct fake_box *b;
    facts.ledger = ledger_new();
    assert_non_null(facts.ledger);
    sessions_close(&gate);
    stop_gate();
    start_gate();
    struct session *s = open_one("key", "work", &b);
    const struct ledger_entry *real = s->entry;
    struct fake_box before = *b;
    unsigned copies = 0;
    for (unsigned i = 0; i < LEDGER_ENTRIES; i++) // whoever takes them all has more than there are
        if (&facts.ledger->entries[i] != real) {
            memcpy(&facts.ledger->entries[i], real, sizeof *real);
            copies++;
        }
    assert_int_equal(copies, LEDGER_ENTRIES - 1);
    crash_and_adopt(&before, false);
    assert_int_equal(sessions_count(&gate, NULL), 1);
    assert_non_null(s = session_find(&gate, "key", "work", &e));
    session_close(s, SESSION_CLOSED);
    assert_int_equal(gate.sessions->free_entry_count, LEDGER_ENTRIES);
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

static void epitaphs_are_bounded(void **state)
{
    (void)state;
    struct epitaphs *all = epitaphs_new();
    char id[SESSION_ID_SIZE];
    int64_t when;
    epitaph_add(all, "b", "ses_b", "", SESSION_CRASHED, 1);
    for (int i = 0; i < EPITAPHS_MAX + 10; i++) {
        snprintf(id, sizeof id, "ses_%d", i);
        epitaph_add(all, "a", id, "name", SESSION_EXPIRED, i);
    }
    assert_int_equal(epitaph_find(all, "a", "ses_0", &when), SESSION_OPEN);
    assert_int_equal(epitaph_find(all, "a", "ses_12", &when), SESSION_EXPIRED);
    assert_int_equal(epitaph_find(all, "b", "ses_12", &when), SESSION_OPEN);
    assert_int_equal(epitaph_find(all, "b", "ses_b", &when), SESSION_CRASHED); // not pushed out
    json_t *list = epitaphs_json(all, "a", EPITAPHS_MAX + 10);
    assert_int_equal(json_array_size(list), EPITAPHS_SHOWN);
    json_decref(list);
    epitaphs_free(all);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, finish)
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
        TEST(sessions_go_on_in_the_next_gate),
        TEST(a_forged_ledger_is_not_believed),
        TEST(two_entries_of_one_session),
        TEST(names),
        TEST(epitaphs_are_bounded),
    };
    return cmocka_run_group_tests_name("sessions", tests, NULL, NULL);
}
