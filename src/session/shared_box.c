// SPDX-License-Identifier: Apache-2.0
//
// shared_box: which run has the box of a session and its forks, and how the box ends.  See
// session_internal.h.  run.c calls it through session_ops.

#include "session/session_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "files/store.h"
#include "run/network.h"

enum { OUTPUT_MAX = 65536 }; // bytes of output of the gate's own runs; it is dropped

static const struct live_user idle_user;
static void forget_fork(struct session *s);

struct shared_box *shared_box_new(struct sessions *all)
{
    struct shared_box *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->all = all;
    h->next_fork = 1;
    TAILQ_INIT(&h->queue);
    TAILQ_INIT(&h->forks);
    return h;
}

// ---- the end ------------------------------------------------------------------------------------

void shared_box_refuse(struct shared_box *h, const struct session *only, const struct err *e)
{
    for (struct run *r = TAILQ_FIRST(&h->queue), *next; r; r = next) {
        next = TAILQ_NEXT(r, list);
        struct session *s = r->request.session;
        if (only && s != only)
            continue;
        TAILQ_REMOVE(&h->queue, r, list);
        s->runs--;
        r->request.session = NULL; // the session may be freed before the run
        run_refuse(r, e);
    }
}

void shared_box_free(struct shared_box *h)
{
    for (struct session *s; (s = TAILQ_FIRST(&h->forks));) {
        TAILQ_REMOVE(&h->forks, s, fork_list);
        session_free(s);
    }
    session_restore_cancel(h);
    timer_stop(&h->timer);
    link_cancel(&h->all->gate->link, &h->box_request);
    if (h->box) {
        network_forget(h->all->gate, h->box->id);
        link_let_go(&h->all->gate->link, h->box->id);
        live_free(h->box);
    }
    free(h);
}

static void end_all(struct shared_box *h, enum session_end why)
{
    struct err e = {0};
    struct session *s;
    h->ending = true;
    TAILQ_FOREACH (s, &h->forks, fork_list) {
        session_retire(s, why);
        session_explain(s, &e);
        shared_box_refuse(h, s, &e);
        if (s->on_open)
            s->on_open(NULL, &e, s->open_argument);
        s->on_open = NULL;
    }
    shared_box_free(h);
}

static enum session_end end_of(const struct wire_ended *m)
{
    static const enum session_end table[END_MAX] = {
        [END_OWN] = SESSION_CRASHED,         [END_DONE] = SESSION_CLOSED,
        [END_WALL] = SESSION_TIMEOUT,        [END_OUTPUT] = SESSION_OUTPUT,
        [END_CANCELLED] = SESSION_CANCELLED, [END_PROTOCOL] = SESSION_CRASHED,
        [END_CPU] = SESSION_TIMEOUT,         [END_MEMORY] = SESSION_MEMORY,
        [END_PROCESSES] = SESSION_PROCESSES, [END_STALL] = SESSION_CRASHED,
    };
    return m->usage.memory_hits ? SESSION_MEMORY
           : m->end < END_MAX   ? table[m->end]
                                : SESSION_CRASHED;
}

static void on_idle_ended(struct live_box *b, const struct wire_ended *m)
{
    end_all(b->owner, end_of(m));
}

static void on_idle_garbage(struct live_box *b)
{
    struct shared_box *h = b->owner;
    (void)link_release(&h->all->gate->link, b->id, END_PROTOCOL, true);
}

static void on_idle_quiet(struct live_box *b)
{
    shared_box_next(b->owner);
}

static const struct live_user idle_user = {
    .on_quiet = on_idle_quiet,
    .on_ended = on_idle_ended,
    .on_garbage = on_idle_garbage,
};

void shared_box_rest(struct shared_box *h)
{
    live_listen(h->box, &idle_user, h);
}

static void box_ended(struct session *s, struct run *r)
{
    struct shared_box *h = s->shared_box;
    enum session_end why = end_of(&r->ended);
    h->running = NULL;
    s->runs--;
    r->request.session = NULL;
    r->box = NULL;
    end_all(h, why);
}

void session_close(struct session *s, enum session_end why)
{
    struct shared_box *h = s->shared_box;
    struct err e;
    if (s->state == SESSION_ENDING)
        return;
    session_retire(s, why);
    session_explain(s, &e);
    shared_box_refuse(h, s, &e);
    struct session *other;
    TAILQ_FOREACH (other, &h->forks, fork_list)
        if (other->state != SESSION_ENDING) {
            forget_fork(s); // the box goes on, for its forks
            return;
        }
    h->ending = true;
    if (s->on_open)
        s->on_open(NULL, &e, s->open_argument);
    s->on_open = NULL;
    if (h->running || h->draining) {
        (void)link_release(&h->all->gate->link, h->box->id, END_CANCELLED, true);
        return; // its ENDED does the rest
    }
    if (h->box)
        link_give_back(&h->all->gate->link, h->box->id);
    shared_box_free(h);
}

// ---- turns --------------------------------------------------------------------------------------

static void enter(struct shared_box *h, struct run *r)
{
    struct session *s = r->request.session;
    h->running = r;
    h->away = h->next_fork > 1 && h->active != s->fork_number;
    h->active = s->fork_number;
    s->state = SESSION_BUSY;
    ledger_touch(s, true);
    run_enter(r, h->box);
}

// An operation reads or writes files of the active fork: a run of another fork has to wait.
static bool is_visited(const struct shared_box *h, const struct session *next)
{
    return h->next_fork > 1 && h->active != next->fork_number && !TAILQ_EMPTY(&h->box->ops);
}

void shared_box_next(struct shared_box *h)
{
    struct run *r = TAILQ_FIRST(&h->queue);
    if (!r || h->running || h->draining || h->restoring || !h->box || h->ending ||
        is_visited(h, r->request.session))
        return;
    TAILQ_REMOVE(&h->queue, r, list);
    enter(h, r);
}

static int join(struct session *s, struct run *r, struct err *e)
{
    struct shared_box *h = s->shared_box;
    if (s->state == SESSION_ENDING || h->ending) {
        session_explain(s, e);
        return -1;
    }
    bool free_now = h->box && !h->running && !h->draining && !h->restoring &&
                    TAILQ_EMPTY(&h->queue) && !is_visited(h, s);
    if (!free_now && s->runs > s->all->config->session_queue)
        return err_set(e, ERR_SESSION_BUSY, 0,
                       "wait for its runs, interrupt it, or use another session",
                       "the session '%s' is busy, and %u runs wait in it already",
                       s->plan.name[0] ? s->plan.name : s->id, s->runs - 1);
    session_leave_idle(s);
    s->runs++;
    if (free_now) {
        enter(h, r);
    } else {
        TAILQ_INSERT_TAIL(&h->queue, r, list);
        if (s->state == SESSION_IDLE)
            s->state = SESSION_BUSY;
    }
    return 0;
}

static void part(struct session *s, struct run *r)
{
    struct shared_box *h = s->shared_box;
    bool waits = h->running != r;
    s->runs--;
    if (waits) {
        TAILQ_REMOVE(&h->queue, r, list);
    } else {
        h->running = NULL;
        bool code_is_in = r->state == RUN_SENDING || r->state == RUN_RUNNING || r->selecting;
        if (h->away && r->state == RUN_PREPARING)
            h->active = UINT32_MAX; // the box may not have switched to it
        h->away = false;
        if (code_is_in && !h->ending)
            shared_box_drain(h);
        else
            shared_box_rest(h);
        ledger_touch(s, code_is_in);
    }
    if (!s->runs && s->box)
        session_become_idle(s);
    shared_box_next(h);
}

bool session_is_away(const struct session *s)
{
    return s->shared_box->away;
}

static void arrived(struct session *s)
{
    s->shared_box->away = false;
}

uint32_t session_forks(const struct session *s)
{
    return s->shared_box->next_fork;
}

struct session *session_of_fork(const struct session *s, json_int_t fork_number)
{
    struct session *other;
    TAILQ_FOREACH (other, &s->shared_box->forks, fork_list)
        if (other->fork_number == fork_number && other->state != SESSION_ENDING)
            return other;
    return NULL;
}

struct session *session_find_any(struct gate *g, const char *id)
{
    struct session *s;
    TAILQ_FOREACH (s, &g->sessions->open, all_list)
        if (strcmp(s->id, id) == 0)
            return s;
    return NULL;
}

json_t *sessions_page(struct gate *g, const char *owner, size_t from, size_t most)
{
    json_t *items = json_array();
    const struct session *s;
    size_t total = 0;
    TAILQ_FOREACH (s, &g->sessions->open, all_list) {
        struct wire_usage usage;
        if (owner && strcmp(s->owner, owner) != 0)
            continue;
        size_t at = total++;
        json_t *o = at >= from && at - from < most ? session_json(s) : NULL;
        if (!o)
            continue;
        bool metered = s->box && meter_peek(&s->box->meter, &usage);
        (void)json_object_update_new(
            o,
            json_pack("{s:s, s:o}", "key", s->owner, "peak_memory_bytes",
                      metered ? json_integer((json_int_t)usage.peak_memory_bytes) : json_null()));
        (void)json_array_append_new(items, o);
    }
    return json_pack("{s:I, s:o}", "total", (json_int_t)total, "items", items);
}

int session_rename(struct session *s, const char *name, struct err *e)
{
    struct store *store = s->all->gate->store;
    struct session *other = name[0] ? session_lookup(s->all, s->owner, name) : NULL;
    if (name[0] && session_check_name(name, strlen(name), e) < 0)
        return -1;
    if (other && other != s)
        return err_set(e, ERR_BAD_VALUE, 0, "close that one first, or take another name",
                       "a session '%s' is open already", name);
    session_unlink_name(s);
    snprintf(s->plan.name, sizeof s->plan.name, "%s", name);
    session_link_name(s);
    ledger_write(s);
    if (s->is_saved && store) {
        store_forget_name(store, s->owner, s->id);
        if (name[0])
            (void)store_set_name(store, s->owner, s->id, name, NULL);
    }
    return 0;
}

bool session_has_code(const struct session *s)
{
    const struct shared_box *h = s->shared_box;
    const struct run *r;
    TAILQ_FOREACH (r, &h->queue, list)
        if (!r->request.brief)
            return true;
    return h->draining || (h->running && !h->running->request.brief);
}

int session_interrupt(struct session *s, struct err *e)
{
    struct run *r = s->shared_box->running;
    if (!r || r->request.session != s || r->request.brief)
        return err_set(e, ERR_BAD_VALUE, 0, "there is nothing to do",
                       "nothing runs in the session");
    run_interrupt(r);
    return 0;
}

int session_answer(struct session *s, const char *text, size_t length, bool end, struct err *e)
{
    struct run *r = s->shared_box->running;
    bool mine = r && r->request.session == s && r->request.on_ask && run_is_fed(r);
    // The end may come before the code asks: programs that it starts read stdin and cannot ask.
    if (!mine || (length && !run_is_asking(r)))
        return err_set(e, ERR_BAD_VALUE, 0,
                       mine ? "wait for the next input_request of the stream"
                            : "run the code with interactive: true, and answer while it runs",
                       mine ? "the code does not wait for input now, or was answered already"
                            : "nothing that runs in the session takes input");
    int n = length ? run_feed(r, text, length) : 0;
    if (n == 0 && end)
        n = run_feed(r, "", 0);
    return n == 0 ? 0
                  : err_set(e, ERR_BAD_VALUE, -n, "send less at once", "the input does not fit");
}

// ---- code without a caller ----------------------------------------------------------------------

// Code whose caller was freed, or was lost with the previous gate, is interrupted; when it stops,
// the session goes on.
static void drained(struct shared_box *h)
{
    struct session *s;
    h->draining = false;
    scratch_cancel(TAKE_PTR(h->asked));
    timer_stop(&h->timer);
    shared_box_rest(h);
    TAILQ_FOREACH (s, &h->forks, fork_list)
        ledger_touch(s, false);
    shared_box_next(h);
}

// The keeper answers after it has sent the interrupt, so the interrupt cannot hit the next run.
static void on_drain_result(struct live_box *b, const char *data, size_t length, unsigned flags)
{
    struct shared_box *h = b->owner;
    (void)data;
    (void)length;
    (void)flags;
    (void)link_measure(&h->all->gate->link, b->id, 0, MEASURE_KEPT);
}

static void on_drain_measured(struct live_box *b, const struct wire_measured *m)
{
    (void)m;
    drained(b->owner);
}

// The previous gate may not have sent all of its run, or may have read the result: then no result
// comes, and this answer ends the draining.
static void on_drain_busy(const struct live_box *b, struct scratch_reply *reply, void *argument)
{
    struct shared_box *h = argument;
    h->asked = NULL;
    // As after a result: wait until the keeper has sent the interrupt.
    if (!reply->error.message[0] && !reply->busy && h->draining && !h->ending)
        (void)link_measure(&h->all->gate->link, b->id, 0, MEASURE_KEPT);
}

static void on_drain_output(struct live_box *b, enum live_stream stream, const char *data,
                            size_t length)
{
    (void)b;
    (void)stream;
    (void)data;
    (void)length;
}

// Its client is gone, and with it the rest of its stdin.
static int on_drain_want(struct live_box *b)
{
    struct frame_piece end = {"", 0};
    (void)live_send(b, FRAME_INPUT, &end, 1, true);
    return 0;
}

static int on_drain_ask(struct live_box *b, const char *prompt, size_t length)
{
    (void)b;
    (void)prompt;
    (void)length;
    return 0;
}

static const struct live_user drain_user = {
    .on_result = on_drain_result,
    .on_want = on_drain_want,
    .on_ask = on_drain_ask,
    .on_measured = on_drain_measured,
    .on_output = on_drain_output,
    .on_ended = on_idle_ended,
    .on_garbage = on_idle_garbage,
};

static void on_drain_over(void *argument)
{
    struct shared_box *h = argument;
    (void)link_release(&h->all->gate->link, h->box->id, END_CANCELLED, true);
}

void shared_box_drain(struct shared_box *h)
{
    struct session *s;
    h->draining = true;
    TAILQ_FOREACH (s, &h->forks, fork_list)
        ledger_touch(s, true); // the next gate has to drain it as well
    live_listen(h->box, &drain_user, h);
    (void)link_interrupt(&h->all->gate->link, h->box->id);
    if (!h->asked)
        h->asked = scratch_busy(h->box, on_drain_busy, h, NULL); // NULL: the grace ends it
    if (!timer_set(&h->timer, h->all->gate->base, h->all->config->grace_ms, on_drain_over, h))
        on_drain_over(h);
}

// A run of the gate's own, behind those that wait, drops a fork of a box that goes on.
static void on_dropped(struct run *r)
{
    free((char *)(uintptr_t)r->request.meta);
    run_free(r);
}

// The box chooses which fork is active next.
static bool on_drop_answer(struct run *r, unsigned flags)
{
    (void)flags;
    r->request.session->shared_box->active = UINT32_MAX;
    return false;
}

void shared_box_forget_fork(struct shared_box *h, uint32_t fork_number)
{
    struct session *other;
    char *meta = NULL;
    TAILQ_FOREACH (other, &h->forks, fork_list)
        if (other->state != SESSION_ENDING)
            break;
    if (!other ||
        asprintf(&meta, "{\"mode\":\"session\",\"op\":\"drop\",\"fork\":%u}", fork_number) < 0)
        return;
    struct run_request request = {.code = "",
                                  .meta = meta,
                                  .meta_length = strlen(meta),
                                  .limits = other->plan.limits,
                                  .wall_ms = other->plan.wall_ms,
                                  .cpu_ms = session_cpu_ms(other),
                                  .output_bytes = OUTPUT_MAX,
                                  .session = other,
                                  .brief = true,
                                  .on_answer = on_drop_answer,
                                  .on_done = on_dropped};
    if (!run_start(h->all->gate, &request))
        free(meta); // the fork stays until the box ends
}

static void forget_fork(struct session *s)
{
    struct shared_box *h = s->shared_box;
    if (h->running && h->running->request.session == s)
        run_interrupt(h->running);
    shared_box_forget_fork(h, s->fork_number);
}

// ---- files of a fork ----------------------------------------------------------------------------

struct session_visit {
    struct run *run;
    char meta[80];
    void (*then)(struct session *s, const struct err *error, void *argument);
    void *argument;
};

// The files are in place, and stay there while an operation uses them: see is_visited().
static bool on_visit_answer(struct run *r, unsigned flags)
{
    struct session_visit *v = r->request.argument;
    (void)flags;
    if (json_is_object(json_object_get(r->result, "error")) || !v->then)
        return false;
    arrived(r->request.session);
    void (*then)(struct session *, const struct err *, void *) = TAKE_PTR(v->then);
    then(r->request.session, NULL, v->argument);
    return false;
}

static void on_visited(struct run *r)
{
    struct session_visit *v = r->request.argument;
    struct err e = r->error;
    if (!e.message[0])
        err_set(&e, ERR_SESSION_ENDED, 0,
                "run something in the session to see what is wrong with it",
                "the files of the session cannot be reached");
    if (v->then)
        v->then(NULL, &e, v->argument);
    run_free(r);
    free(v);
}

// Scratch shows its files, and no waiting run will change that before it can be used.
static bool files_are_current(const struct session *s)
{
    const struct shared_box *h = s->shared_box;
    return h->next_fork == 1 ||
           (h->active == s->fork_number && !h->away && (h->running || TAILQ_EMPTY(&h->queue)));
}

struct session_visit *session_visit(struct session *s,
                                    void (*then)(struct session *s, const struct err *error,
                                                 void *argument),
                                    void *argument)
{
    struct err e;
    if (s->is_idle_listed) { // reading or writing its files is using it
        session_leave_idle(s);
        session_become_idle(s);
    }
    if (files_are_current(s)) {
        then(s, NULL, argument);
        return NULL;
    }
    struct session_visit *v = calloc(1, sizeof *v);
    if (v) {
        v->then = then;
        v->argument = argument;
        snprintf(v->meta, sizeof v->meta, "{\"mode\":\"session\",\"op\":\"select\",\"fork\":%u}",
                 s->fork_number);
        struct run_request request = {.code = "",
                                      .meta = v->meta,
                                      .meta_length = strlen(v->meta),
                                      .limits = s->plan.limits,
                                      .wall_ms = s->plan.wall_ms,
                                      .cpu_ms = session_cpu_ms(s),
                                      .output_bytes = OUTPUT_MAX,
                                      .session = s,
                                      .brief = true,
                                      .on_answer = on_visit_answer,
                                      .on_done = on_visited,
                                      .argument = v};
        v->run = run_start(s->all->gate, &request);
        if (v->run)
            return v;
        free(v);
    }
    err_memory(&e);
    then(NULL, &e, argument);
    return NULL;
}

void session_visit_cancel(struct session_visit *v)
{
    v->then = NULL; // the run goes on; nothing is called at its end
}

// ---- session_ops --------------------------------------------------------------------------------

static const char *owner_of(const struct session *s)
{
    return s->owner;
}

static uint32_t fork_number_of(const struct session *s)
{
    return s->fork_number;
}

const struct session_ops session_ops = {
    .join = join,
    .arrived = arrived,
    .part = part,
    .box_ended = box_ended,
    .owner = owner_of,
    .fork_number = fork_number_of,
    .oldest_ms = sessions_oldest_ms,
};
