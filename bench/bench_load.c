// SPDX-License-Identifier: Apache-2.0
//
// bench_load: see bench_load.h.

#include "bench_load.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "keeper/keeper.h"
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
    struct bench_result *result;
    const struct config *config;
    struct gate gate;
    struct session *session; // of a live load
    struct worker workers[BENCH_AT_ONCE_MAX];
    struct event *poll;
    int started, finished, waits;
    double begin_us;
};

enum question { ASK_NOTHING, ASK_FULL, ASK_END };

static struct bench_result *shared;

static void next(struct worker *w);

// ---- figures ------------------------------------------------------------------------------------

double bench_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_percentile(struct bench_samples *s, double percent)
{
    if (s->count == 0)
        return -1;
    qsort(s->us, (size_t)s->count, sizeof *s->us, compare);
    int i = (int)((double)s->count * percent / 100.0);
    return s->us[i < s->count ? i : s->count - 1];
}

// ---- the gate: memory ---------------------------------------------------------------------------

static void ask(struct driver *d, enum question question)
{
    struct bench_result *s = d->result;
    if (!d->load->look)
        return;
    (void)usleep(200000); // let the last boxes settle
    s->keeper = getppid();
    s->gate = getpid();
    atomic_store(&s->question, question);
    for (int i = 0; i < 5000 && atomic_load(&s->question) != ASK_NOTHING; i++)
        (void)usleep(1000);
}

// ---- the gate: runs -----------------------------------------------------------------------------

static bool is_over(const struct driver *d)
{
    return d->started >= d->load->runs ||
           (d->load->seconds > 0 && bench_now_us() - d->begin_us > d->load->seconds * 1e6);
}

static void record(struct driver *d, double us, const struct run *r)
{
    struct bench_result *s = d->result;
    bool ok = !r->error.message[0] && r->result && !json_object_get(r->result, "error");
    if (!ok) {
        s->failed++;
        snprintf(s->failure, sizeof s->failure, "%s",
                 r->error.message[0] ? r->error.message : "the code failed");
    }
    if (s->latency.count < BENCH_SAMPLES_MAX)
        s->latency.us[s->latency.count++] = us;
    s->runs = ++d->finished;
}

static void finish(struct driver *d)
{
    d->result->seconds = (bench_now_us() - d->begin_us) / 1e6;
    ask(d, ASK_END);
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
    struct timeval pause = {0, d->load->pause_us};
    if (d->load->pause_us && !is_over(d))
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
        d->result->failed++;
        event_base_loopbreak(d->gate.base);
    }
}

// ---- the gate: the start, when the stock is full ------------------------------------------------

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
    d->result->failed++;
    snprintf(d->result->failure, sizeof d->result->failure, "%s", e->message);
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
    d->result->zygote = (pid_t)m->zygote_pid;
    (void)usleep(50000); // let the last park settle
    ask(d, ASK_FULL);
    if (d->load->live)
        begin_live(d);
    else
        begin(d);
}

static int enter_gate(int sock, const struct keeper_facts *facts, void *argument)
{
    static struct driver d; // large, and there is one
    struct err e;
    d = (struct driver){.load = argument, .result = shared, .config = facts->config};
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

// ---- the caller: memory -------------------------------------------------------------------------

static double pss_kb(pid_t pid)
{
    char path[64];
    uint64_t kb = 0;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    return file_read_key_at(AT_FDCWD, path, "Pss", &kb) < 0 ? 0 : (double)kb;
}

// Pid 1 of a namespace in the zygote's: "NSpid: 4711 23 1".
static bool is_init(pid_t pid)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    if (file_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
        return false;
    char *line = strstr(text, "\nNSpid:");
    char *end = line ? strchr(line + 1, '\n') : NULL;
    return end && end[-1] == '1' && end[-2] == '\t';
}

// The processes below the zygote: boxes, and stems with their boxes.  An init shares its memory
// with the user process, so it counts for both.
static void weigh_children(pid_t pid, struct bench_boxes *ret)
{
    char path[64];
    _cleanup_free_ char *text = malloc(65536);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    if (!text || file_read_at(AT_FDCWD, path, text, 65536) <= 0)
        return;
    for (char *p = text, *end; *p; p = end) {
        pid_t child = (pid_t)strtol(p, &end, 10);
        if (end == p)
            break;
        ret->pss_kb += pss_kb(child);
        if (is_init(child))
            ret->boxes++;
        else
            weigh_children(child, ret);
    }
}

struct bench_boxes bench_weigh(pid_t zygote)
{
    struct bench_boxes boxes = {.pss_kb = pss_kb(zygote)};
    weigh_children(zygote, &boxes);
    return boxes;
}

// ---- the caller: one load -----------------------------------------------------------------------

static void become_keeper(const struct config *c, const struct bench_load *load)
{
    static struct config config;
    struct keeper_plan plan = {.config = &config, .gate = enter_gate, .argument = (void *)load};
    struct err e;
    int status = 1;
    config = *c;
    config.stock = (uint32_t)load->stock;
    config.preload = (struct text_list){0};
    if (load->preload)
        (void)text_list_add(&config.preload, load->preload);
    if (keeper_run(&plan, &status, &e) < 0)
        snprintf(shared->failure, sizeof shared->failure, "%s", e.message);
    _exit(status);
}

struct bench_result *bench_load(const struct config *c, const struct bench_load *load)
{
    int status = 1;
    if (!shared)
        shared =
            mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return shared = NULL;
    memset(shared, 0, sizeof *shared);
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        become_keeper(c, load);
    for (pid_t ended = 0; pid > 0 && ended == 0; (void)usleep(20000)) { // seldom
        ended = waitpid(pid, &status, WNOHANG);
        int question = atomic_load(&shared->question);
        if (question == ASK_NOTHING)
            continue;
        load->look(shared, question == ASK_END);
        atomic_store(&shared->question, ASK_NOTHING);
    }
    if (pid < 0 || (status != 0 && shared->failed == 0))
        shared->failed = 1;
    return shared;
}
