// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of run/link, with the test playing the keeper on the other end of the socket, and runs
// that only note what they are told.

#include "unit.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "run/link.h"
#include "run/live.h"

struct run {
    struct link_request box_request;
    struct live_box live;
    int boxes, denials, ends, measures;
    uint64_t box;
    enum wire_end end;
    int fd;
};

static struct link l;

static void on_ended(struct live_box *b, const struct wire_ended *m)
{
    struct run *r = b->owner;
    r->ends++;
    r->end = (enum wire_end)m->end;
}

static void on_measured(struct live_box *b, const struct wire_measured *m)
{
    struct run *r = b->owner;
    assert_true(m->box == b->id);
    r->measures++;
}

static const struct live_user user = {.on_ended = on_ended, .on_measured = on_measured};

static void on_box(struct link_request *o, const struct wire_box *m, const int *fds)
{
    struct run *r = (struct run *)o; // its first member
    if (!fds) {
        r->denials++;
        return;
    }
    r->boxes++;
    r->box = m->box;
    r->fd = fds[0];
    r->live = (struct live_box){.id = m->box, .user = &user, .owner = r};
    link_hold(&l, &r->live);
}

static struct event_base *base;
static struct err e;
static int keeper, fds_before, lost_calls, status_calls, room_calls;

static void on_settled(void *argument)
{
    assert_ptr_equal(argument, &l);
    room_calls++;
}

static void on_lost(void *argument)
{
    assert_ptr_equal(argument, &l);
    lost_calls++;
}

static void on_status(const struct wire_status_reply *m, void *argument)
{
    assert_ptr_equal(argument, &l);
    assert_int_equal(m->parked, 3);
    status_calls++;
}

static int begin(void **state)
{
    (void)state;
    int pair[2];
    fds_before = unit_fd_count();
    unit_socketpair(pair);
    base = event_base_new();
    keeper = pair[0];
    lost_calls = status_calls = room_calls = 0;
    return base && link_open(&l, base, pair[1], &e) == 0 ? 0 : -1;
}

static int finish(void **state)
{
    (void)state;
    link_close(&l);
    link_close(&l);
    event_base_free(base);
    fd_close(&keeper);
    return unit_fd_count() == fds_before ? 0 : -1; // no test may leave one behind
}

static void turn(void)
{
    assert_true(event_base_loop(base, EVLOOP_NONBLOCK) >= 0);
}

static uint64_t acquire(struct run *r)
{
    struct wire_acquire m = {.cpu_ms = 5, .limits = {.memory_bytes = 7}};
    union wire_message got;
    r->box_request.on_box = on_box;
    assert_int_equal(link_acquire(&l, &r->box_request, &m, &e), 0);
    assert_int_equal(wire_recv(keeper, &got, NULL, 0, NULL), 1);
    assert_int_equal(got.h.type, WIRE_ACQUIRE);
    assert_true(got.acquire.ticket == m.ticket && m.ticket != 0 &&
                r->box_request.ticket == m.ticket);
    assert_int_equal(got.acquire.limits.memory_bytes, 7);
    return m.ticket;
}

static void give_box(uint64_t ticket, uint64_t box, size_t fd_count)
{
    union wire_message m = {.box = {.ticket = ticket, .box = box}};
    const int fds[3] = {keeper, keeper, keeper};
    assert_int_equal(wire_send(keeper, WIRE_BOX, &m, fds, fd_count), 0);
    turn();
}

static void say_ended(uint64_t box, enum wire_end end)
{
    union wire_message m = {.ended = {.box = box, .end = end}};
    assert_int_equal(wire_send(keeper, WIRE_ENDED, &m, NULL, 0), 0);
    turn();
}

static void expect_release(uint64_t box, enum wire_end end)
{
    union wire_message m;
    assert_int_equal(fd_set_nonblock(keeper, true), 0);
    assert_int_equal(wire_recv(keeper, &m, NULL, 0, NULL), 1);
    assert_int_equal(fd_set_nonblock(keeper, false), 0);
    assert_int_equal(m.h.type, WIRE_RELEASE);
    assert_true(m.release.box == box);
    assert_int_equal(m.release.end, end);
}

static void expect_cancel(uint64_t ticket)
{
    union wire_message m;
    assert_int_equal(wire_recv(keeper, &m, NULL, 0, NULL), 1);
    assert_int_equal(m.h.type, WIRE_CANCEL);
    assert_true(m.cancel.ticket == ticket);
}

static void expect_silence(void)
{
    union wire_message m;
    assert_int_equal(fd_set_nonblock(keeper, true), 0);
    assert_int_equal(wire_recv(keeper, &m, NULL, 0, NULL), -EAGAIN);
    assert_int_equal(fd_set_nonblock(keeper, false), 0);
}

static void close_run(struct run *r)
{
    fd_close(&r->fd);
}

static void answers_find_their_run(void **state)
{
    (void)state;
    struct run a = {0}, b = {0}, c = {0};
    uint64_t ta = acquire(&a), tb = acquire(&b), tc = acquire(&c);
    give_box(tb, 4096 + 2, 1);
    give_box(ta, 4096 + 1, 1);
    give_box(tc, 0, 0); // refused
    assert_true(a.boxes == 1 && b.boxes == 1 && c.boxes == 0 && c.denials == 1);
    assert_true(a.box == 4096 + 1 && b.box == 4096 + 2);
    say_ended(4096 + 2, END_CPU);
    assert_true(a.ends == 0 && b.ends == 1 && b.end == END_CPU);
    say_ended(4096 + 2, END_CPU);     // said twice
    say_ended(4096 + 3, END_CPU);     // no run's
    say_ended(2 * 4096 + 1, END_CPU); // another box that had a's slot
    assert_true(a.ends == 0 && b.ends == 1 && c.ends == 0);
    say_ended(4096 + 1, END_OWN);
    assert_int_equal(a.ends, 1);
    give_box(ta, 4096 + 9, 1); // a ticket is good for one box
    assert_int_equal(a.boxes, 1);
    expect_release(4096 + 9, END_CANCELLED);
    expect_silence();
    close_run(&a);
    close_run(&b);
}

static void a_box_for_a_run_that_is_gone_is_given_back(void **state)
{
    (void)state;
    struct run a = {0}, b = {0};
    uint64_t ta = acquire(&a);
    l.on_settled = on_settled;
    l.settled_argument = &l;
    link_cancel(&l, &a.box_request);
    link_cancel(&l, &a.box_request); // twice is fine
    expect_cancel(ta);
    expect_silence();
    assert_int_equal(l.unwanted, 1);
    assert_int_equal(l.free_count, LINK_RUNS_MAX - 1); // the entry is taken until the answer
    uint64_t tb = acquire(&b);
    assert_true(ta % LINK_RUNS_MAX != tb % LINK_RUNS_MAX);
    give_box(ta, 55, 1);
    assert_true(a.boxes == 0 && b.boxes == 0);
    expect_release(55, END_CANCELLED);
    assert_int_equal(l.unwanted, 1); // now it is the box
    assert_int_equal(l.free_count, LINK_RUNS_MAX - 1);
    say_ended(4096 + 55, END_CANCELLED); // another one's
    assert_int_equal(l.unwanted, 1);
    say_ended(55, END_CANCELLED);
    say_ended(55, END_CANCELLED);
    assert_true(l.unwanted == 0 && room_calls == 2); // after the order, after the box
    give_box(tb, 56, 1);
    assert_int_equal(b.boxes, 1);
    link_let_go(&l, 57); // another one's
    link_let_go(&l, 56);
    say_ended(56, END_OWN);
    assert_int_equal(b.ends, 0);
    expect_silence();
    close_run(&b);
}

static void say_measured(uint64_t box)
{
    union wire_message m = {.measured = {.box = box}};
    assert_int_equal(wire_send(keeper, WIRE_MEASURED, &m, NULL, 0), 0);
    turn();
}

static void figures_find_their_box(void **state)
{
    (void)state;
    struct run a = {0};
    union wire_message m;
    give_box(acquire(&a), 4096 + 7, 1);
    assert_int_equal(link_measure(&l, 4096 + 7, 9, MEASURE_KEPT), 0);
    assert_int_equal(wire_recv(keeper, &m, NULL, 0, NULL), 1);
    assert_true(m.h.type == WIRE_MEASURE && m.measure.box == 4096 + 7 && m.measure.cpu_ms == 9);
    say_measured(7); // an earlier box of this slot
    say_measured(0);
    assert_int_equal(a.measures, 0);
    say_measured(4096 + 7);
    assert_int_equal(a.measures, 1);
    a.live.late = true; // its former user has asked
    say_measured(4096 + 7);
    assert_int_equal(a.measures, 1);
    say_measured(4096 + 7);
    assert_int_equal(a.measures, 2);
    say_ended(4096 + 7, END_OWN);
    say_measured(4096 + 7);
    assert_int_equal(a.measures, 2);
    close_run(&a);
}

static struct {
    int calls, last;
    int fd;
} adopted;

static void on_adopt(const struct wire_adopt *m, const int *fds, void *argument)
{
    assert_ptr_equal(argument, &adopted);
    adopted.calls++;
    adopted.last += !m->box;
    assert_true(!fds == !m->box);
    if (fds)
        adopted.fd = fds[0];
}

static void boxes_of_an_earlier_gate(void **state)
{
    (void)state;
    union wire_message m = {.adopt = {.box = 31}};
    const int fds[3] = {keeper, keeper, keeper};
    memset(&adopted, 0, sizeof adopted);
    assert_int_equal(wire_send(keeper, WIRE_ADOPT, &m, fds, 1), 0);
    turn();
    expect_release(31, END_CANCELLED); // no run takes any
    l.on_adopt = on_adopt;
    l.adopt_argument = &adopted;
    assert_int_equal(wire_send(keeper, WIRE_ADOPT, &m, fds, 1), 0);
    turn();
    assert_true(adopted.calls == 1 && adopted.last == 0);
    m.adopt.box = 32;
    assert_int_equal(wire_send(keeper, WIRE_ADOPT, &m, fds, 2), 0); // not whole
    turn();
    assert_int_equal(adopted.calls, 1);
    expect_release(32, END_CANCELLED);
    m.adopt.box = 0;
    assert_int_equal(wire_send(keeper, WIRE_ADOPT, &m, fds, 2), 0);
    turn();
    assert_true(adopted.calls == 2 && adopted.last == 1);
    expect_silence();
    fd_close(&adopted.fd);
}

static void a_cancelled_request_that_is_refused_leaves_room(void **state)
{
    (void)state;
    struct run a = {0}, b = {0};
    uint64_t ta = acquire(&a);
    l.on_settled = on_settled;
    l.settled_argument = &l;
    link_cancel(&l, &a.box_request);
    expect_cancel(ta);
    give_box(ta, 0, 0);
    give_box(ta, 0, 0); // said twice
    assert_true(a.boxes == 0 && a.denials == 0);
    assert_true(l.unwanted == 0 && room_calls == 1);
    assert_int_equal(l.free_count, LINK_RUNS_MAX);
    uint64_t tb = acquire(&b); // gets a's entry, but not a's ticket
    assert_true(ta != tb && ta % LINK_RUNS_MAX == tb % LINK_RUNS_MAX);
    give_box(ta, 0, 0);
    assert_int_equal(b.denials, 0);
    give_box(tb, 0, 0);
    assert_int_equal(b.denials, 1);
    expect_silence();
}

static void answers_to_questions_that_nobody_asked(void **state)
{
    (void)state;
    const uint64_t tickets[] = {0, 1, LINK_RUNS_MAX, UINT64_MAX, LINK_RUNS_MAX * 7ULL + 3};
    for (size_t i = 0; i < ARRAY_LEN(tickets); i++) {
        give_box(tickets[i], 77 + i, 1);
        expect_release(77 + i, END_CANCELLED);
        give_box(tickets[i], 0, 0);
        say_ended(tickets[i], END_WALL);
        expect_silence();
    }
    assert_int_equal(l.free_count, LINK_RUNS_MAX);
}

// The run hears of no box, so nothing else would ever end it.
static void a_box_without_its_one_descriptor_is_refused_and_given_back(void **state)
{
    (void)state;
    for (size_t n = 0; n < 3; n += 2) {
        struct run a = {0};
        give_box(acquire(&a), 60 + n, n);
        assert_true(a.boxes == 0 && a.denials == 1);
        expect_release(60 + n, END_CANCELLED);
    }
}

static void descriptors_on_other_messages_are_closed(void **state)
{
    (void)state;
    union wire_message m = {.ended = {.box = 1, .end = END_OWN}};
    const int fds[3] = {keeper, keeper, keeper};
    int before = unit_fd_count();
    assert_int_equal(wire_send(keeper, WIRE_ENDED, &m, fds, 3), 0);
    turn();
    assert_int_equal(unit_fd_count(), before);
}

static struct {
    int calls, type;
    size_t count;
} news;

static void on_news(const union wire_message *m, const int *fds, size_t count, void *argument)
{
    assert_ptr_equal(argument, &news);
    news.calls++;
    news.type = m->h.type;
    news.count = count;
    for (size_t i = 0; i < count; i++)
        assert_true(fcntl(fds[i], F_GETFD) >= 0);
}

static void news_are_passed_on_and_their_descriptors_closed(void **state)
{
    (void)state;
    static union wire_message m;
    const enum wire_type types[] = {WIRE_INTERPRETER, WIRE_ZYGOTE_READY, WIRE_FAILED, WIRE_FILES};
    const int fds[2] = {keeper, keeper};
    int before = unit_fd_count();
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        memset(&m, 0, sizeof m);
        m.files.present = types[i] == WIRE_FILES ? 3 : 0;
        // No run listens: nothing happens.
        l.on_news = NULL;
        news.calls = 0;
        assert_int_equal(wire_send(keeper, types[i], &m, fds, 2), 0);
        turn();
        assert_int_equal(news.calls, 0);
        l.on_news = on_news;
        l.news_argument = &news;
        assert_int_equal(wire_send(keeper, types[i], &m, fds, 2), 0);
        turn();
        assert_int_equal(news.calls, 1);
        assert_int_equal(news.type, types[i]);
        assert_int_equal(news.count, 2);
        assert_int_equal(unit_fd_count(), before);
    }
}

static void no_more_than_so_many_wait(void **state)
{
    (void)state;
    static struct run runs[LINK_RUNS_MAX];
    static uint64_t tickets[LINK_RUNS_MAX];
    struct wire_acquire m = {0};
    for (int i = 0; i < LINK_RUNS_MAX; i++)
        tickets[i] = acquire(&runs[i]);
    assert_true(link_acquire(&l, &runs[0].box_request, &m, &e) < 0);
    assert_int_equal(e.code, ERR_BUSY);
    assert_true(e.hint[0] != '\0');
    for (int i = 0; i < LINK_RUNS_MAX; i++)
        for (int k = 1; i % 512 == 0 && k < 4; k++)
            assert_true(tickets[i] != tickets[(i + k) % LINK_RUNS_MAX]);
    give_box(tickets[4711], 0, 0);
    assert_int_equal(runs[4711].denials, 1);
    assert_true(acquire(&runs[4711]) % LINK_RUNS_MAX == tickets[4711] % LINK_RUNS_MAX);
}

static void a_keeper_that_does_not_read_makes_us_busy(void **state)
{
    (void)state;
    static struct run r;
    struct wire_acquire m = {0};
    int result = 0;
    for (int i = 0; i < LINK_RUNS_MAX && result == 0; i++)
        result = link_acquire(&l, &r.box_request, &m, &e);
    assert_true(result < 0);
    assert_int_equal(e.code, ERR_BUSY);
    uint32_t free_count = l.free_count; // what was not sent holds no entry
    assert_true(link_acquire(&l, &r.box_request, &m, &e) < 0);
    assert_int_equal(l.free_count, free_count);
}

static void other_requests_arrive(void **state)
{
    (void)state;
    union wire_message m;
    l.on_status = on_status;
    l.status_argument = &l;
    assert_int_equal(link_release(&l, 5, END_DONE, true), 0);
    assert_int_equal(link_interrupt(&l, 6), 0);
    assert_int_equal(link_status(&l), 0);
    assert_int_equal(wire_recv(keeper, &m, NULL, 0, NULL), 1);
    assert_true(m.h.type == WIRE_RELEASE && m.release.box == 5 && m.release.wait_reaped == 1);
    assert_int_equal(wire_recv(keeper, &m, NULL, 0, NULL), 1);
    assert_true(m.h.type == WIRE_INTERRUPT && m.interrupt.box == 6);
    assert_int_equal(wire_recv(keeper, &m, NULL, 0, NULL), 1);
    assert_int_equal(m.h.type, WIRE_STATUS);
    m.status_reply.parked = 3;
    assert_int_equal(wire_send(keeper, WIRE_STATUS_REPLY, &m, NULL, 0), 0);
    turn();
    assert_int_equal(status_calls, 1);
    l.on_status = NULL;
    assert_int_equal(wire_send(keeper, WIRE_STATUS_REPLY, &m, NULL, 0), 0);
    assert_int_equal(wire_send(keeper, WIRE_SPAWN, &m, NULL, 0), 0); // not for us
    turn();
    assert_false(l.lost);
}

static void check_lost(void)
{
    static struct run r;
    struct wire_acquire m = {0};
    turn();
    assert_true(l.lost);
    assert_int_equal(lost_calls, 1);
    turn();
    assert_int_equal(lost_calls, 1);
    assert_true(link_acquire(&l, &r.box_request, &m, &e) < 0);
    assert_int_equal(e.code, ERR_INTERNAL);
}

static void a_keeper_that_is_gone(void **state)
{
    (void)state;
    l.on_lost = on_lost;
    l.lost_argument = &l;
    fd_close(&keeper);
    check_lost();
    assert_true(link_release(&l, 1, END_DONE, false) < 0); // and does not wait for ever
}

static void a_keeper_that_talks_nonsense(void **state)
{
    (void)state;
    l.on_lost = on_lost;
    l.lost_argument = &l;
    const int fds[3] = {keeper, keeper, keeper};
    unit_send_raw(keeper, "nonsense", 8, fds, 3);
    check_lost();
}

static void without_a_listener_a_lost_keeper_ends_the_loop(void **state)
{
    (void)state;
    fd_close(&keeper);
    assert_int_equal(event_base_dispatch(base), 0);
    assert_true(event_base_got_break(base));
    assert_true(l.lost);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, finish)
    const struct CMUnitTest tests[] = {
        TEST(answers_find_their_run),
        TEST(a_box_for_a_run_that_is_gone_is_given_back),
        TEST(a_cancelled_request_that_is_refused_leaves_room),
        TEST(figures_find_their_box),
        TEST(boxes_of_an_earlier_gate),
        TEST(answers_to_questions_that_nobody_asked),
        TEST(a_box_without_its_one_descriptor_is_refused_and_given_back),
        TEST(descriptors_on_other_messages_are_closed),
        TEST(news_are_passed_on_and_their_descriptors_closed),
        TEST(no_more_than_so_many_wait),
        TEST(a_keeper_that_does_not_read_makes_us_busy),
        TEST(other_requests_arrive),
        TEST(a_keeper_that_is_gone),
        TEST(a_keeper_that_talks_nonsense),
        TEST(without_a_listener_a_lost_keeper_ends_the_loop),
    };
    return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
