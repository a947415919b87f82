// SPDX-License-Identifier: Apache-2.0
//
// bench_gate: boxes under load.  Runs in a gate process, as a server's gate would.  See bench.h.

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench.h"
#include "run/gate.h"
#include "run/run.h"
#include "session/session.h"

struct worker { // one run after the other
    struct driver *driver;
    struct event *pause;
    double begin_us;
};

struct driver {
    const struct bench_load *load;
    const struct config *config;
    struct gate gate;
    struct session *session; // of a live load
    struct worker workers[1024];
    struct event *poll;
    int started, finished, waits;
    double begin_us;
};

static void next(struct worker *w);

// ---- memory -------------------------------------------------------------------------------------

static void ask(struct driver *d, enum bench_question question, struct bench_memory *ret)
{
    struct bench_shared *s = d->load->shared;
    s->keeper = getppid();
    s->gate = getpid();
    atomic_store(&s->question, question);
    for (int i = 0; i < 5000 && atomic_load(&s->question) != ASK_NOTHING; i++)
        (void)usleep(1000);
    *ret = s->answer;
}

// ---- runs ---------------------------------------------------------------------------------------

static bool is_over(const struct driver *d)
{
    return d->started >= d->load->runs ||
           (d->load->seconds_max > 0 && bench_now_us() - d->begin_us > d->load->seconds_max * 1e6);
}

static void record(struct driver *d, double us, const struct run *r)
{
    struct bench_shared *s = d->load->shared;
    bool ok = !r->error.message[0] && r->result && !json_object_get(r->result, "error");
    if (!ok) {
        s->failed++;
        snprintf(s->failure, sizeof s->failure, "%s",
                 r->error.message[0] ? r->error.message : "the code failed");
    }
    if (s->latency.count < BENCH_SAMPLES_MAX)
        s->latency.us[s->latency.count++] = us;
    d->finished++;
}

static void finish(struct driver *d)
{
    d->load->shared->seconds = (bench_now_us() - d->begin_us) / 1e6;
    if (d->load->memory)
        ask(d, ASK_KEEPER, &d->load->shared->after);
    event_base_loopbreak(d->gate.base);
}

static void after_pause(evutil_socket_t fd, short what, void *argument)
{
    (void)fd;
    (void)what;
    next(argument);
}

static void on_done(struct run *r)
{
    struct worker *w = r->request.argument;
    struct driver *d = w->driver;
    record(d, bench_now_us() - w->begin_us, r);
    run_free(r);
    if (is_over(d)) {
        if (d->finished == d->started)
            finish(d);
        return;
    }
    struct timeval pause = {0, d->load->pause_us};
    if (d->load->pause_us)
        (void)event_add(w->pause, &pause);
    else
        next(w);
}

static void next(struct worker *w)
{
    struct driver *d = w->driver;
    const struct config *c = d->config;
    static const char live_meta[] = "{\"mode\": \"session\"}";
    if (is_over(d)) {
        if (d->finished == d->started)
            finish(d);
        return;
    }
    struct run_request request = {
        .code = d->load->code,
        .code_length = strlen(d->load->code),
        .meta = d->load->live ? live_meta : "",
        .meta_length = d->load->live ? strlen(live_meta) : 0,
        .limits = keeper_limits(c),
        .wall_ms = c->wall_ms,
        .cpu_ms = c->cpu_ms,
        .output_bytes = c->output_bytes,
        .session = d->session,
        .on_done = on_done,
        .argument = w,
    };
    d->started++;
    w->begin_us = bench_now_us();
    if (!run_start(&d->gate, &request)) {
        d->load->shared->failed++;
        event_base_loopbreak(d->gate.base);
    }
}

// ---- the start: when the stock is full ----------------------------------------------------------

static void on_poll(evutil_socket_t fd, short what, void *argument)
{
    struct driver *d = argument;
    (void)fd;
    (void)what;
    (void)link_status(&d->gate.link);
}

static void begin(struct driver *d)
{
    d->begin_us = bench_now_us();
    for (int i = 0; i < d->load->at_once; i++)
        next(&d->workers[i]);
}

static void give_up(struct driver *d, const struct err *e)
{
    d->load->shared->failed++;
    snprintf(d->load->shared->failure, sizeof d->load->shared->failure, "%s", e->message);
    event_base_loopbreak(d->gate.base);
}

static void on_open(struct session *s, const struct err *error, void *argument)
{
    struct driver *d = argument;
    d->session = s;
    if (s)
        begin(d);
    else
        give_up(d, error);
}

// All runs in one box.
static void begin_live(struct driver *d)
{
    struct session_plan plan;
    struct err e;
    session_plan_init(&d->gate, &plan);
    if (!session_open(&d->gate, "bench", &plan, on_open, d, &e))
        give_up(d, &e);
}

static void on_status(const struct wire_status_reply *m, void *argument)
{
    struct driver *d = argument;
    struct timeval soon = {0, 5000};
    if (m->parked < d->config->stock && d->waits++ < 12000) {
        (void)event_add(d->poll, &soon);
        return;
    }
    d->load->shared->zygote = (pid_t)m->zygote_pid;
    (void)usleep(50000); // let the last park settle
    if (d->load->memory)
        ask(d, ASK_ZYGOTE_PSS, &d->load->shared->before);
    if (d->load->live)
        begin_live(d);
    else
        begin(d);
}

int bench_gate(int sock, const struct keeper_facts *facts, void *argument)
{
    static struct driver d; // large, and there is one
    struct err e;
    d = (struct driver){.load = argument, .config = facts->config};
    if (gate_enter(&d.gate, sock, facts, &e) < 0 ||
        (d.load->live && sessions_open(&d.gate, facts->config, &e) < 0))
        return 1;
    for (int i = 0; i < d.load->at_once; i++)
        d.workers[i] = (struct worker){
            .driver = &d, .pause = evtimer_new(d.gate.base, after_pause, &d.workers[i])};
    d.gate.link.on_status = on_status;
    d.gate.link.status_argument = &d;
    d.poll = evtimer_new(d.gate.base, on_poll, &d);
    on_poll(-1, 0, &d);
    gate_dispatch(&d.gate);
    return 0;
}
