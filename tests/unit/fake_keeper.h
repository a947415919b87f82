// SPDX-License-Identifier: Apache-2.0
//
// fake_keeper: a gate with sessions, of which the test plays the keeper on one socket and the boxes
// on others. Used by test_session.c and test_adopt.c, one gate in each.

#ifndef CONSTRICTOR_FAKE_KEEPER_H
#define CONSTRICTOR_FAKE_KEEPER_H

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
#include "run/gate.h"
#include "run/run.h"
#include "session/ended.h"
#include "session/session.h"
#include "session/session_internal.h"
#include "wire/ledger.h"

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
    int control;
};
static struct fake_box boxes[64];
static unsigned box_count;

static inline void start_gate(void)
{
    int pair[2];
    unit_socketpair(pair);
    keeper = pair[0];
    assert_int_equal(fd_set_nonblock(keeper, true), 0);
    gate = (struct gate){.facts = &facts, .base = event_base_new(), .base_url = ""};
    assert_int_equal(link_open(&gate.link, gate.base, pair[1], &e), 0);
    assert_int_equal(sessions_open(&gate, &config, &e), 0);
}

static inline void stop_gate(void)
{
    link_close(&gate.link);
    event_base_free(gate.base);
    fd_close(&keeper);
}

static inline int begin(void **state)
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

static inline void close_boxes(void)
{
    for (unsigned i = 0; i < box_count; i++) {
        fd_close(&boxes[i].control);
    }
}

static inline int finish(void **state)
{
    (void)state;
    sessions_close(&gate);
    stop_gate();
    close_boxes();
    if (facts.ledger)
        (void)munmap(facts.ledger, sizeof *facts.ledger);
    return unit_fd_count() == fds_before ? 0 : -1;
}

static inline void turn(void)
{
    for (int i = 0; i < 3; i++)
        assert_true(event_base_loop(gate.base, EVLOOP_NONBLOCK) >= 0);
}

static inline void wait_ms(int ms)
{
    struct timeval t = {.tv_usec = ms * 1000};
    (void)event_base_loopexit(gate.base, &t);
    (void)event_base_dispatch(gate.base);
}

// ---- the keeper ---------------------------------------------------------------------------------

static inline bool hear(enum wire_type type, union wire_message *ret)
{
    while (wire_recv(keeper, ret, NULL, 0, NULL) == 1)
        if (ret->h.type == type)
            return true;
    return false;
}

static inline struct fake_box *make_box(int *ret_control)
{
    int control[2];
    unit_socketpair(control);
    struct fake_box *b = &boxes[box_count++];
    *b = (struct fake_box){.id = 4096 + box_count, .control = control[0]};
    *ret_control = control[1];
    return b;
}

// What a cgroup says.
static inline int number_file(const char *text)
{
    char path[] = "/tmp/constrictor-sessions-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    return fd;
}

static inline struct fake_box *give_box(void)
{
    union wire_message m;
    int fds[1 + WIRE_METER_FDS];
    assert_true(hear(WIRE_ACQUIRE, &m));
    assert_int_equal(m.acquire.keep, 1);
    struct fake_box *b = make_box(fds);
    m = (union wire_message){.box = {.ticket = m.acquire.ticket, .box = b->id, .parked = 1}};
    size_t count = 1;
    for (int i = 0; with_meter && i < WIRE_METER_FDS; i++)
        fds[count++] = number_file("1000\n");
    m.box.meter_fds = (uint32_t)count - 1;
    assert_int_equal(wire_send(keeper, WIRE_BOX, &m, fds, count), 0);
    for (size_t i = 0; i < count; i++)
        fd_close(&fds[i]);
    turn();
    return b;
}

// Nothing was met.
static const struct wire_usage room_left = {
    .cpu_user_us = 7, .scratch_free_bytes = 1 << 20, .scratch_free_inodes = 100};

static inline void end_box(struct fake_box *b, enum wire_end end)
{
    union wire_message m = {.ended = {.box = b->id, .end = end, .usage = room_left}};
    assert_int_equal(wire_send(keeper, WIRE_ENDED, &m, NULL, 0), 0);
    turn();
}

// ---- the box ------------------------------------------------------------------------------------

static inline void box_takes_run(struct fake_box *b, const char *code)
{
    char frame[4096];
    ssize_t n = recv(b->control, frame, sizeof frame, MSG_DONTWAIT);
    assert_true(n > (ssize_t)strlen(code));
    assert_memory_equal(frame + n - strlen(code), code, strlen(code));
}

static inline void box_has_nothing(struct fake_box *b)
{
    char frame[4096];
    assert_int_equal(recv(b->control, frame, sizeof frame, MSG_DONTWAIT), -1);
}

static inline void box_answers(struct fake_box *b)
{
    static const char json[] = "{\"exit_code\": 0, \"result\": \"2\"}";
    struct frame_piece piece = {json, sizeof json - 1};
    size_t offset = 0;
    assert_int_equal(frame_send(b->control, FRAME_RESULT, &piece, 1, &offset), 0);
    turn();
}

// It is asked whether a run goes on in it; returns the tag for the answer.
static inline uint32_t box_is_asked(struct fake_box *b)
{
    struct {
        struct frame_header h;
        struct frame_file f;
    } m;
    assert_int_equal(recv(b->control, &m, sizeof m, MSG_DONTWAIT), sizeof m);
    assert_true(m.h.kind == FRAME_FILE && m.f.op == FILE_BUSY);
    return m.f.tag;
}

static inline void box_says_busy(struct fake_box *b, uint32_t tag, bool busy)
{
    struct frame_filed filed = {.op = FILE_BUSY, .tag = tag, .count = busy};
    struct frame_piece piece = {&filed, sizeof filed};
    size_t offset = 0;
    assert_int_equal(frame_send(b->control, FRAME_FILED, &piece, 1, &offset), 0);
    turn();
}

static inline void keeper_measures(struct fake_box *b)
{
    union wire_message m;
    do
        assert_true(hear(WIRE_MEASURE, &m));
    while (m.measure.cpu_ms != 0 || m.measure.box != b->id);
    m = (union wire_message){.measured = {.box = b->id, .usage = room_left}};
    assert_int_equal(wire_send(keeper, WIRE_MEASURED, &m, NULL, 0), 0);
    turn();
}

// ---- runs ---------------------------------------------------------------------------------------

struct watched {
    int calls;
    enum wire_end end;
    bool lost;
    enum err_code error;
    char message[ERR_MESSAGE_MAX];
};

static inline void on_done(struct run *r)
{
    struct watched *w = r->request.argument;
    w->calls++;
    w->end = r->end;
    w->lost = !r->request.session;
    w->error = r->error.code;
    snprintf(w->message, sizeof w->message, "%s", r->error.message);
    run_free(r);
}

static inline struct run *start(struct session *s, const char *code, struct watched *w,
                                uint64_t wall_ms)
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

static inline struct session *open_one(const char *owner, const char *name, struct fake_box **ret)
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

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, finish)

#endif
