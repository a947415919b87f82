// SPDX-License-Identifier: Apache-2.0
//
// run: see run.h.  Everything read here from a box is hostile: lengths are bounded by frame.c and
// by the output limit, and nothing that the box says decides about verdict or usage.

#include "run/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "run/admission.h"

enum {
    QUEUE_GRACE_MS = 60000, // longest wait for a box, on top of the wall time of the run
    PREPARE_MS = 60000,     // for the caller, before and after the code
    SHORT_MS = 5,           // the keeper is not told of a shorter run in a session
    FRESH_GRACE_MS = 250,   // of code in a box of its own, to say which line was running
    EARLY_MS = 50,          // so soon after it was sent, code may not handle an interruption
    MEASURE_MS = 5000,      // for the keeper
};

static const struct live_user run_user;
static void leave_queue(struct run *r);
static void on_selected(struct run *r, const char *data, size_t length);

// ---- timers -------------------------------------------------------------------------------------

static const struct session_ops *session_of(const struct run *r)
{
    return r->gate->session_ops;
}

static bool set_timer(struct run *r, uint64_t ms, void (*call)(void *argument))
{
    return timer_set(&r->timer, r->gate->base, ms, call, r);
}

// ---- the end ------------------------------------------------------------------------------------

// Denied calls count for this run, also those of threads that earlier runs left.
static void take_denials(struct run *r)
{
    if (!r->box || r->denials)
        return;
    r->told = r->box->told;
    r->denials = TAKE_PTR(r->box->denials);
}

static void drop_box(struct run *r)
{
    struct live_box *b = r->box;
    take_denials(r);
    r->box = NULL;
    if (!b || r->request.session)
        return; // the session owns the box
    network_forget(r->gate, b->id);
    link_let_go(&r->gate->link, b->id);
    live_free(b);
}

static void settled(void *argument)
{
    struct run *r = argument;
    r->state = RUN_DONE;
    r->gate->running--;
    admission_return(r->gate, &r->admitted);
    r->request.on_done(r); // may free r
}

static void done(struct run *r)
{
    r->t_end_us = (uint64_t)clock_us();
    timer_stop(&r->timer);
    r->state = RUN_SETTLING;
    bool waits = network_await(r->request.network, settled, r);
    drop_box(r);
    if (!waits)
        settled(r);
}

// Gives the box back to the keeper.  The first reason counts.
static void release(struct run *r, enum wire_end end)
{
    if (r->state >= RUN_ENDING)
        return;
    r->state = RUN_ENDING;
    r->end = end;
    timer_stop(&r->timer);
    network_settle(r->request.network); // before the box is gone
    bool wait = r->request.wait_reaped || end != END_DONE;
    if (link_release(&r->gate->link, r->box->id, end, wait) < 0)
        log_line(LOG_ERROR, "the keeper cannot be reached");
}

// From here on the keeper watches the CPU time of this run, and passes interruptions on.
static void watch(struct run *r)
{
    if (!r->watched)
        (void)link_measure(&r->gate->link, r->box->id, r->request.cpu_ms, MEASURE_KEPT);
    r->watched = true;
}

static void on_grace(void *argument)
{
    struct run *r = argument;
    release(r, r->soft == END_OWN ? END_CANCELLED : r->soft);
}

static uint64_t grace_of(const struct run *r)
{
    uint64_t grace_ms = r->gate->facts->config->grace_ms;
    return r->request.session || grace_ms < FRESH_GRACE_MS ? grace_ms : FRESH_GRACE_MS;
}

// Repeats an early interruption: the first may have come before the code handled it, and the
// session would be lost for nothing.  Later ones are not repeated: the code may be busy handling
// the first.
static void on_early(void *argument)
{
    struct run *r = argument;
    uint64_t grace_ms = grace_of(r);
    (void)link_interrupt(&r->gate->link, r->box->id);
    if (!set_timer(r, grace_ms > EARLY_MS ? grace_ms - EARLY_MS : 1, on_grace))
        release(r, r->soft);
}

// Stops the code: a limit is met, or the run is cancelled.  A session may keep its state.  A fresh
// box whose time is up may tell where it is: the traceback of KeyboardInterrupt names the line.
void run_stop(struct run *r, enum wire_end end)
{
    bool asks = r->request.session || (end == END_WALL && r->request.names_line);
    if (!asks || r->state == RUN_SENDING) {
        release(r, end); // half a frame is in the socket: only ending the box is left
        return;
    }
    if (r->state != RUN_RUNNING || r->soft != END_OWN)
        return; // it has answered, or was interrupted already
    watch(r);
    r->soft = end;
    (void)link_interrupt(&r->gate->link, r->box->id);
    bool early = (uint64_t)clock_us() - r->t_box_us < EARLY_MS * 1000ULL;
    uint64_t grace_ms = grace_of(r);
    if (!set_timer(r, early && grace_ms > EARLY_MS ? EARLY_MS : grace_ms,
                   early && grace_ms > EARLY_MS ? on_early : on_grace))
        release(r, end);
}

// ---- what the box says --------------------------------------------------------------------------

static void on_overdue(void *argument)
{
    release(argument, END_CANCELLED);
}

static void on_result(struct live_box *b, const char *data, size_t length, unsigned flags)
{
    struct run *r = b->owner;
    if (r->state == RUN_PREPARING && r->selecting) {
        on_selected(r, data, length);
        return;
    }
    if (r->result || r->state == RUN_HOLDING || r->state == RUN_MEASURING ||
        r->state == RUN_PREPARING)
        return; // one run, one result
    r->result = run_parse_result(data, length);
    r->flags = flags;
    if (r->state >= RUN_ENDING)
        return; // the run ends already; the result is only noted
    if (!r->result) {
        release(r, END_PROTOCOL);
        return;
    }
    timer_stop(&r->timer);
    r->state = RUN_HOLDING;
    network_settle(r->request.network); // while the box ends, or its files are looked at
    if (r->request.on_answer && r->request.on_answer(r, flags)) {
        if (r->state == RUN_HOLDING && !set_timer(r, PREPARE_MS, on_overdue))
            release(r, END_CANCELLED);
        return;
    }
    run_let_go(r);
}

static void finish_lasting(struct run *r, enum wire_end end)
{
    r->end = end;
    r->ended.box = r->box->id;
    r->ended.end = end;
    session_of(r)->part(r->request.session, r); // the next one may begin
    r->has_turn = false;
    done(r);
}

// A quick success far from every limit: the gate reads its usage itself.  Not too often in a row:
// the keeper bounds the CPU time of a session that it believes to be idle.
static bool is_short(struct run *r)
{
    struct meter *m = &r->box->meter;
    json_t *code = json_object_get(r->result, "exit_code");
    bool went_well = json_is_integer(code) && json_integer_value(code) == 0 &&
                     !json_is_object(json_object_get(r->result, "error"));
    if (r->watched || r->soft != END_OWN || r->end == END_OUTPUT || !went_well || r->box->silent ||
        r->box->denials || // the keeper has counted them
        !meter_read(m, &r->box->limits, &r->ended.usage))
        return false;
    m->unseen_us += r->ended.usage.cpu_user_us + r->ended.usage.cpu_system_us;
    r->metered = true;
    return m->unseen_us < r->request.cpu_ms * 1000 / 4;
}

static void on_report(void *argument)
{
    run_let_go(argument);
}

void run_let_go(struct run *r)
{
    if (r->state != RUN_HOLDING)
        return; // the box ended meanwhile, and so will the run
    if (!r->request.session) {
        release(r, END_DONE);
        return;
    }
    // The session exists as long as the run has its turn, so the run keeps it until the report is
    // here.
    if (network_await(r->request.network, on_report, r))
        return;
    if (is_short(r)) {
        finish_lasting(r, END_DONE);
        return;
    }
    r->state = RUN_MEASURING;
    // A box that hung up is dead and ENDED follows: the session must not look alive.
    bool is_dead = r->box->silent;
    if ((!is_dead && link_measure(&r->gate->link, r->box->id, 0, MEASURE_KEPT) < 0) ||
        !set_timer(r, MEASURE_MS, on_overdue))
        release(r, END_CANCELLED);
}

// The end of a run whose box lives on.
static void on_measured(struct live_box *b, const struct wire_measured *m)
{
    struct run *r = b->owner;
    if (r->state != RUN_MEASURING)
        return;
    enum wire_end end = r->soft != END_OWN     ? r->soft
                        : r->end == END_OUTPUT ? END_OUTPUT
                        : m->end == END_CPU    ? END_CPU
                                               : END_DONE;
    // The meter counts everything since the previous run; the keeper only the runs it was told of.
    struct wire_usage own = r->ended.usage, usage = m->usage;
    if (!r->metered && b->meter.count)
        (void)meter_read(&b->meter, &b->limits, &own);
    if (b->meter.count) {
        usage.cpu_user_us = own.cpu_user_us;
        usage.cpu_system_us = own.cpu_system_us;
    }
    b->meter.unseen_us = 0;
    r->ended.usage = usage;
    finish_lasting(r, end);
}

static void on_exit_frame(struct live_box *b, int status)
{
    struct run *r = b->owner;
    r->has_exit = true;
    r->exit_status = status; // ENDED follows by itself
}

static void on_garbage(struct live_box *b)
{
    release(b->owner, END_PROTOCOL);
}

static void on_ended(struct live_box *b, const struct wire_ended *m)
{
    struct run *r = b->owner;
    r->has_ended = true;
    r->ended = *m;
    r->state = RUN_ENDING;
    network_settle(r->request.network); // before the session forgets its box
    live_read(b);                       // output, an EXIT or RESULT may still be unread
    take_denials(r);
    if (r->request.session) {
        r->has_turn = false;
        session_of(r)->box_ended(r->request.session, r);
    }
    done(r);
}

// ---- sending ------------------------------------------------------------------------------------

static void on_sent(struct live_box *b)
{
    struct run *r = b->owner;
    if (r->state == RUN_SENDING)
        r->state = RUN_RUNNING;
    else
        feed_on_sent(r);
}

static void on_wall(void *argument)
{
    run_stop(argument, END_WALL);
}

// Tells the keeper of a run that outlasts SHORT_MS; most runs in a session do not.
static void on_not_short(void *argument)
{
    struct run *r = argument;
    watch(r);
    if (!set_timer(r, r->request.wall_ms - SHORT_MS, on_wall))
        release(r, END_CANCELLED);
}

void run_go(struct run *r)
{
    if (r->state != RUN_PREPARING)
        return;
    struct frame_run head = {.meta_length = (uint32_t)r->request.meta_length,
                             .code_length = (uint32_t)r->request.code_length};
    struct frame_piece pieces[] = {{&head, sizeof head},
                                   {r->request.meta, r->request.meta_length},
                                   {r->request.code, r->request.code_length}};
    r->state = RUN_SENDING;
    r->box->has_stdin = r->feed != NULL;
    r->t_box_us = (uint64_t)clock_us();
    bool short_first = r->request.session && r->box->meter.count && r->request.wall_ms > SHORT_MS;
    if (live_send(r->box, FRAME_RUN, pieces, 3, false) < 0 ||
        !set_timer(r, short_first ? SHORT_MS : r->request.wall_ms,
                   short_first ? on_not_short : on_wall))
        release(r, END_CANCELLED);
    if (r->request.session && !short_first && r->state != RUN_ENDING)
        watch(r);
}

// Cancels a run that has sent nothing to the session's box yet.
static void give_up(struct run *r)
{
    leave_queue(r);
    r->end = END_CANCELLED;
    done(r);
}

static void on_given_up(void *argument)
{
    give_up(argument);
}

// Lets the caller use the box before the code is sent.
static void prepare(struct run *r)
{
    r->entering = true;
    bool later = r->request.on_box && r->request.on_box(r);
    r->entering = false;
    if (!later) {
        run_go(r);
        return;
    }
    bool given_up = r->end == END_CANCELLED; // from within on_box
    if (r->state == RUN_PREPARING &&
        !set_timer(r, given_up ? 0 : PREPARE_MS, given_up ? on_given_up : on_overdue))
        release(r, END_CANCELLED);
}

bool run_select(struct run *r)
{
    char meta[80];
    snprintf(meta, sizeof meta, "{\"mode\":\"session\",\"op\":\"select\",\"fork\":%u}",
             session_of(r)->fork_number(r->request.session));
    struct frame_run head = {.meta_length = (uint32_t)strlen(meta)};
    struct frame_piece pieces[] = {{&head, sizeof head}, {meta, head.meta_length}};
    r->selecting = live_send(r->box, FRAME_RUN, pieces, 2, true) == 0;
    return r->selecting;
}

static void on_selected(struct run *r, const char *data, size_t length)
{
    json_auto_t *said = run_parse_result(data, length);
    bool worked = said && !json_is_object(json_object_get(said, "error"));
    r->selecting = false;
    if (r->end == END_CANCELLED) {
        give_up(r);
    } else if (worked) {
        session_of(r)->arrived(r->request.session);
        prepare(r);
    } else {
        run_go(r); // its result then says what is wrong
    }
}

static void on_granted(void *argument)
{
    struct run *r = argument;
    if (r->state == RUN_PREPARING)
        prepare(r);
}

// The run has its box.
static void begin(struct run *r, struct live_box *b)
{
    r->box = b;
    r->t_box_us = (uint64_t)clock_us();
    r->state = RUN_PREPARING;
    timer_stop(&r->timer);
    live_listen(b, &run_user, r);
    if (r->request.network && network_enter(r->request.network, b->id, on_granted, r))
        return; // the broker must have the rules before the code is sent
    prepare(r);
}

void run_enter(struct run *r, struct live_box *b)
{
    r->has_turn = true;
    r->parked = true;
    begin(r, b);
}

static void on_box(struct link_request *o, const struct wire_box *m, const int *fds)
{
    struct run *r = (struct run *)((char *)o - offsetof(struct run, box_request));
    timer_stop(&r->timer);
    if (!fds) {
        err_set(&r->error, (enum err_code)m->error_code, 0, m->hint, "%s", m->error);
        done(r);
        return;
    }
    struct live_box *b = live_new(r->gate, m->box, &r->request.limits, false, fds[0]);
    if (!b) {
        link_give_back(&r->gate->link, m->box);
        err_set(&r->error, ERR_SYSTEM, 0, "run it again later", "the server is out of memory");
        done(r);
        return;
    }
    link_hold(&r->gate->link, b);
    r->parked = m->parked;
    begin(r, b);
}

static const struct live_user run_user = {
    .on_result = on_result,
    .on_exit = on_exit_frame,
    .on_output = run_on_output,
    .on_want = feed_on_want,
    .on_ask = feed_on_ask,
    .on_sent = on_sent,
    .on_garbage = on_garbage,
    .on_measured = on_measured,
    .on_ended = on_ended,
};

// ---- what waits for a box -----------------------------------------------------------------------

static void fail_soon(void *argument)
{
    done(argument);
}

static void defer(struct run *r)
{
    struct gate *g = r->gate;
    if (!g->deferred_count)
        TAILQ_INIT(&g->deferred);
    TAILQ_INSERT_TAIL(&g->deferred, r, list);
    g->deferred_count++;
    r->deferred = true;
}

static void undefer(struct run *r)
{
    if (!r->deferred)
        return;
    TAILQ_REMOVE(&r->gate->deferred, r, list);
    r->gate->deferred_count--;
    r->deferred = false;
}

// Takes a run out of whatever it waits for.
static void leave_queue(struct run *r)
{
    undefer(r);
    link_cancel(&r->gate->link, &r->box_request);
    if (r->request.session && r->has_turn)
        session_of(r)->part(r->request.session, r);
    r->has_turn = false;
}

// SECURITY: a run that is cancelled while it waits is over for its caller at once, but the keeper
// may still be making a box for it.  Such a box counts like a run: otherwise a caller that cancels
// each call at once could have any number of boxes made.  Runs above the bound are deferred here,
// in the gate, where cancelling costs nothing.
static bool may_ask(const struct gate *g, unsigned more)
{
    return !g->runs_max || g->running - g->deferred_count + more + g->link.unwanted <= g->runs_max;
}

// Takes a warm box that fits.  What it used before does not count for this run.
static bool take_warm(struct run *r)
{
    struct live_box *b = r->request.warm_box && r->gate->take_warm_box
                             ? r->gate->take_warm_box(r->gate, r->request.warm_box)
                             : NULL;
    if (!b)
        return false;
    (void)link_measure(&r->gate->link, b->id, r->request.cpu_ms, MEASURE_ONCE);
    r->parked = true;
    begin(r, b);
    return true;
}

static int acquire(struct run *r)
{
    if (take_warm(r))
        return 0;
    struct wire_acquire m = {.cpu_ms = r->request.cpu_ms,
                             .network = r->request.network != NULL,
                             .wheel_files = r->request.wheel_files,
                             .limits = r->request.limits};
    r->box_request.on_box = on_box;
    return link_acquire(&r->gate->link, &r->box_request, &m, &r->error);
}

void run_send_deferred(struct gate *g)
{
    while (g->deferred_count && may_ask(g, 1)) {
        struct run *r = TAILQ_FIRST(&g->deferred);
        undefer(r);
        if (acquire(r) < 0)
            done(r);
    }
}

static void on_wait(void *argument)
{
    struct run *r = argument;
    leave_queue(r);
    err_set(&r->error, ERR_BUSY, ETIMEDOUT, "run it again, or send fewer runs at once",
            r->request.session ? "the session was busy with other runs for too long"
                               : "no box was free in time");
    done(r);
}

static int admit(struct run *r)
{
    struct gate *g = r->gate;
    const char *owner = r->request.owner     ? r->request.owner
                        : r->request.session ? session_of(r)->owner(r->request.session)
                                             : "";
    int n = admission_take(g, owner, &r->admitted, &r->error);
    if (n < 0)
        return n;
    if (r->request.session) {
        r->has_turn = true; // or waits for it: the session knows this run from here on
        n = session_of(r)->join(r->request.session, r, &r->error);
        r->has_turn = n == 0;
        return n;
    }
    if (g->deferred_count || !may_ask(g, 0)) {
        defer(r);
        return 0;
    }
    return acquire(r);
}

struct run *run_start(struct gate *g, const struct run_request *request)
{
    struct run *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    *r = (struct run){.gate = g, .request = *request, .t_begin_us = (uint64_t)clock_us()};
    g->running++;
    g->begun++;
    for (int i = 0; i < RUN_STREAMS; i++)
        if (!(r->output[i] = evbuffer_new())) {
            run_free(r);
            return NULL;
        }
    if (request->has_stdin && !feed_begin(r)) {
        run_free(r);
        return NULL;
    }
    bool refused = admit(r) < 0;
    // Not done() from here: the caller does not have its run yet.
    if (refused && !set_timer(r, 0, fail_soon)) {
        run_free(r);
        return NULL;
    }
    if (!refused && r->state == RUN_WAITING) // without the timer: a longer wait
        (void)set_timer(r, request->wall_ms + QUEUE_GRACE_MS, on_wait);
    return r;
}

void run_refuse(struct run *r, const struct err *e)
{
    r->has_turn = false;
    r->error = *e;
    if (!set_timer(r, 0, fail_soon))
        done(r);
}

void run_cancel(struct run *r)
{
    if (r->state == RUN_WAITING && (r->box_request.ticket || r->deferred || r->has_turn)) {
        leave_queue(r);
        r->end = END_CANCELLED;
        done(r);
    } else if (r->state == RUN_PREPARING && r->entering && r->request.session) {
        r->end = END_CANCELLED; // prepare() ends it: its callers still use this run
    } else if (r->state == RUN_PREPARING && r->selecting) {
        r->end = END_CANCELLED; // on_selected() ends it
        if (!set_timer(r, r->gate->facts->config->grace_ms, on_overdue))
            release(r, END_CANCELLED);
    } else if (r->state == RUN_PREPARING && r->request.session) {
        give_up(r);
    } else if (r->state == RUN_PREPARING) {
        release(r, END_CANCELLED);
    } else if (r->state == RUN_SENDING || r->state == RUN_RUNNING) {
        run_stop(r, END_CANCELLED);
    } else if (r->state == RUN_HOLDING && !r->request.session) {
        release(r, END_CANCELLED);
    } else if (r->state == RUN_HOLDING) {
        r->soft = END_CANCELLED;
        run_let_go(r);
    }
}

void run_interrupt(struct run *r)
{
    if (r->state != RUN_SENDING && r->state != RUN_RUNNING)
        return;
    if (r->request.session)
        run_stop(r, END_CANCELLED);
    else
        (void)link_interrupt(&r->gate->link, r->box->id);
}

void run_free(struct run *r)
{
    if (!r)
        return;
    if (r->state != RUN_DONE) {
        r->gate->running--;
        admission_return(r->gate, &r->admitted);
        leave_queue(r);
        if (r->box && !r->request.session)
            link_let_go(&r->gate->link, r->box->id);
    }
    timer_stop(&r->timer);
    drop_box(r);
    for (int i = 0; i < RUN_STREAMS; i++)
        if (r->output[i])
            evbuffer_free(r->output[i]);
    feed_end(r);
    json_decref(r->result);
    free(r->denials);
    free(r);
}
