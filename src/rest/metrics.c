// SPDX-License-Identifier: Apache-2.0
//
// metrics: see metrics.h.  The keeper knows the number of boxes: it is asked once
// for all requests that come meanwhile.  Runs in the gate.

#include "rest/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/timer.h"
#include "run/counters.h"
#include "run/result.h"
#include "session/session.h"

#define TYPE "text/plain; version=0.0.4; charset=utf-8"

enum { WAITING_MAX = 64, WAIT_MS = 1000 };

static struct {
    struct gate *gate; // NULL: closed
    int64_t since_ms;
    struct {
        void (*then)(const struct wire_status_reply *m, void *argument);
        void *argument;
    } waiting[WAITING_MAX];
    size_t count;
    struct timer late;
} metrics; // one in a gate

// ---- the text -----------------------------------------------------------------------------------

static void head(FILE *f, const char *name, const char *type, const char *help)
{
    fprintf(f, "# HELP constrictor_%s %s\n# TYPE constrictor_%s %s\n", name, help, name, type);
}

static void number(FILE *f, const char *name, const char *type, const char *help, double value)
{
    head(f, name, type, help);
    fprintf(f, "constrictor_%s %.15g\n", name, value);
}

static void write_runs(FILE *f, const struct counters *t)
{
    head(f, "runs_total", "counter", "Runs that are over, by verdict.");
    for (int v = 0; v < VERDICT_MAX; v++)
        fprintf(f, "constrictor_runs_total{verdict=\"%s\"} %" PRIu64 "\n",
                result_verdict_name((enum verdict)v), t->verdicts[v]);
    head(f, "run_seconds", "histogram", "Time of runs from their box to their end.");
    uint64_t sum = 0;
    for (int i = 0; i < COUNTERS_BUCKETS; i++) {
        sum += t->buckets[i];
        if (i < COUNTERS_BUCKETS - 1)
            fprintf(f, "constrictor_run_seconds_bucket{le=\"%g\"} %" PRIu64 "\n",
                    counters_bounds_s[i], sum);
        else
            fprintf(f, "constrictor_run_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n", sum);
    }
    fprintf(f, "constrictor_run_seconds_sum %.6f\nconstrictor_run_seconds_count %" PRIu64 "\n",
            (double)t->run_us / 1e6, sum);
    number(f, "queue_seconds_total", "counter", "Time that runs waited for a box.",
           (double)t->queue_us / 1e6);
    number(f, "cpu_seconds_total", "counter", "Processor time of runs.", (double)t->cpu_us / 1e6);
    number(f, "output_bytes_total", "counter", "Output of runs.", (double)t->output_bytes);
    number(f, "refused_total", "counter", "Requests to run code that were refused.",
           (double)t->refused);
}

static void write_state(FILE *f, const struct gate *g)
{
    head(f, "info", "gauge", "The version of the server.");
    fprintf(f, "constrictor_info{version=\"" CONSTRICTOR_VERSION "\"} 1\n");
    number(f, "up", "gauge", "Whether code can run.", g->facts->state == KEEPER_READY);
    number(f, "uptime_seconds", "gauge", "Time since this gate started.",
           (double)(clock_ms() - metrics.since_ms) / 1000);
    number(f, "sessions", "gauge", "Open sessions.",
           g->sessions ? (double)sessions_count(g, NULL) : 0);
    number(f, "runs_active", "gauge", "Runs under way.", g->running);
    number(f, "queue_length", "gauge", "Runs that wait for room.", g->deferred_count);
    head(f, "http_answers_total", "counter", "Requests by the class of their answer.");
    static const char *const classes[COUNTERS_CLASSES] = {"none", "1xx", "2xx",
                                                          "3xx",  "4xx", "5xx"};
    for (int i = 0; i < COUNTERS_CLASSES; i++)
        fprintf(f, "constrictor_http_answers_total{class=\"%s\"} %" PRIu64 "\n", classes[i],
                g->counters.answers[i]);
}

// NULL: the keeper did not answer.
static void write_boxes(FILE *f, const struct wire_status_reply *m)
{
    if (!m)
        return;
    head(f, "boxes", "gauge", "Boxes by state: ready and waiting, in use, ending.");
    fprintf(f,
            "constrictor_boxes{state=\"parked\"} %u\nconstrictor_boxes{state=\"live\"} %u\n"
            "constrictor_boxes{state=\"dying\"} %u\n",
            m->parked, m->live, m->dying);
}

static void answer(const struct wire_status_reply *m, void *argument)
{
    struct http_exchange *x = argument;
    _cleanup_free_ char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    x->work = NULL;
    x->on_close = NULL;
    if (f) {
        write_state(f, metrics.gate);
        write_boxes(f, m);
        write_runs(f, &metrics.gate->counters);
    }
    if (!f || fclose(f) != 0)
        http_reply_error(x, 503, err_code_name(ERR_SYSTEM), "try again later",
                         "the server is out of memory");
    else
        http_reply(x, 200, TYPE, text, length);
}

// ---- asking the keeper --------------------------------------------------------------------------

static void answer_all(const struct wire_status_reply *m)
{
    timer_stop(&metrics.late);
    while (metrics.count) {
        --metrics.count;
        metrics.waiting[metrics.count].then(m, metrics.waiting[metrics.count].argument);
    }
}

static void on_status(const struct wire_status_reply *m, void *argument)
{
    (void)argument;
    answer_all(m);
}

static void on_late(void *argument)
{
    (void)argument;
    answer_all(NULL);
}

int metrics_ask(void (*then)(const struct wire_status_reply *m, void *argument), void *argument)
{
    if (metrics.count == WAITING_MAX ||
        !timer_set(&metrics.late, metrics.gate->base, WAIT_MS, on_late, NULL) ||
        link_status(&metrics.gate->link) < 0)
        return -1;
    metrics.waiting[metrics.count].then = then;
    metrics.waiting[metrics.count++].argument = argument;
    return 0;
}

void metrics_forget(const void *argument)
{
    for (size_t i = 0; i < metrics.count; i++)
        if (metrics.waiting[i].argument == argument) {
            metrics.waiting[i] = metrics.waiting[--metrics.count];
            return;
        }
}

static void on_close(struct http_exchange *x)
{
    metrics_forget(x);
}

static void handle(struct http_exchange *x, void *argument)
{
    (void)argument;
    if (!http_shows_all(x)) {
        http_reply_error(x, 403, "metrics_not_allowed",
                         "ask the operator for the key that is named 'metrics' in the file of keys",
                         "these are the numbers of all keys, and this key may not see them");
        return;
    }
    if (metrics_ask(answer, x) < 0)
        answer(NULL, x);
    else
        x->on_close = on_close;
}

void rest_metrics_open(struct gate *g, struct http *h)
{
    static const struct http_route routes[] = {
        {"/metrics", HTTP_GET | HTTP_HEAD, false, handle, NULL},
        {.path = NULL},
    };
    metrics.gate = g;
    metrics.since_ms = clock_ms();
    g->link.on_status = on_status;
    http_count_answers(h, g->counters.answers);
    http_add_routes(h, routes);
}

void rest_metrics_close(void)
{
    if (!metrics.gate)
        return;
    answer_all(NULL);
    metrics.gate->link.on_status = NULL;
    timer_stop(&metrics.late);
    memset(&metrics, 0, sizeof metrics);
}
