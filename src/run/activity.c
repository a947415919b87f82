// SPDX-License-Identifier: Apache-2.0
//
// activity: see activity.h.  Runs in the gate; touches nothing but its arguments.

#include "run/activity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "run/events.h"

enum { MINUTE_MS = 60000, OWNER_BUCKETS = 64 };

// How runs of one owner ended, by the minute.
struct minutes {
    char owner[65];
    struct minutes *next;
    struct {
        int64_t minute; // since 1970
        uint32_t counts[VERDICT_MAX];
    } rows[ACTIVITY_MINUTES];
};

struct noted {
    char owner[65], id[ID_SIZE];
    int64_t at_ms;
    json_t *event; // a denial
};

struct host {
    char owner[65];
    json_t *row; // as events_usage() makes it
    int64_t at_ms;
};

struct activity {
    uint64_t run_count, denial_count;
    struct activity_run runs[ACTIVITY_RUNS]; // rings
    struct noted denials[ACTIVITY_DENIALS];
    size_t host_count;
    struct host hosts[ACTIVITY_HOSTS];
    unsigned owner_count;
    struct minutes *owners[OWNER_BUCKETS];
    struct minutes others; // of owners beyond the bound
};

struct activity *activity_new(void)
{
    return calloc(1, sizeof(struct activity));
}

void activity_free(struct activity *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < ACTIVITY_DENIALS; i++)
        json_decref(a->denials[i].event);
    for (size_t i = 0; i < a->host_count; i++)
        json_decref(a->hosts[i].row);
    for (size_t i = 0; i < OWNER_BUCKETS; i++)
        for (struct minutes *m = a->owners[i], *next; m; m = next) {
            next = m->next;
            free(m);
        }
    free(a);
}

// ---- noting -------------------------------------------------------------------------------------

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static struct minutes **bucket_of(struct activity *a, const char *owner)
{
    uint32_t h = 2166136261u;
    for (; *owner; owner++)
        h = (h ^ (unsigned char)*owner) * 16777619u;
    return &a->owners[h % OWNER_BUCKETS];
}

static struct minutes *minutes_of(struct activity *a, const char *owner)
{
    struct minutes **at = bucket_of(a, owner);
    for (struct minutes *m = *at; m; m = m->next)
        if (strcmp(m->owner, owner) == 0)
            return m;
    struct minutes *m = a->owner_count < ACTIVITY_OWNERS ? calloc(1, sizeof *m) : NULL;
    if (!m)
        return &a->others;
    snprintf(m->owner, sizeof m->owner, "%s", owner);
    m->next = *at;
    *at = m;
    a->owner_count++;
    return m;
}

static void note_verdict(struct minutes *m, int64_t at_ms, enum verdict verdict)
{
    int64_t minute = at_ms / MINUTE_MS;
    size_t i = (size_t)(minute % ACTIVITY_MINUTES);
    if (m->rows[i].minute != minute) {
        memset(&m->rows[i], 0, sizeof m->rows[i]);
        m->rows[i].minute = minute;
    }
    m->rows[i].counts[verdict]++;
}

static void note_denials(struct activity *a, const struct activity_run *run, const struct run *r)
{
    json_auto_t *o = json_object();
    json_t *event;
    size_t i;
    if (events_add(o, r) < 0)
        return;
    json_array_foreach (json_object_get(o, "security_events"), i, event) {
        struct noted *n = &a->denials[a->denial_count++ % ACTIVITY_DENIALS];
        json_decref(n->event);
        memcpy(n->owner, run->owner, sizeof n->owner);
        memcpy(n->id, run->id, sizeof n->id);
        n->at_ms = run->ended_ms;
        n->event = json_incref(event);
    }
}

static bool is_of_host(const struct host *h, const char *owner, json_t *row)
{
    return strcmp(h->owner, owner) == 0 &&
           json_equal(json_object_get(h->row, "host"), json_object_get(row, "host")) &&
           json_equal(json_object_get(h->row, "port"), json_object_get(row, "port"));
}

// The row of a host, a free one, or the one that was not used for longest.
static struct host *host_of(struct activity *a, const char *owner, json_t *row)
{
    struct host *oldest = a->hosts;
    for (size_t i = 0; i < a->host_count; i++) {
        if (is_of_host(&a->hosts[i], owner, row))
            return &a->hosts[i];
        if (a->hosts[i].at_ms < oldest->at_ms)
            oldest = &a->hosts[i];
    }
    if (a->host_count < ACTIVITY_HOSTS)
        return &a->hosts[a->host_count++];
    json_decref(oldest->row);
    *oldest = (struct host){0};
    return oldest;
}

// SECURITY: the rows are a run's few hosts (EVENTS_HOSTS_MAX), and the table is bounded.
static void note_hosts(struct activity *a, const struct activity_run *run, json_t *usage)
{
    static const char *const counts[] = {"connections", "bytes_up", "bytes_down"};
    json_t *row;
    size_t i;
    json_array_foreach (json_object_get(usage, "hosts"), i, row) {
        struct host *h = host_of(a, run->owner, row);
        h->at_ms = run->ended_ms;
        if (!h->row) {
            memcpy(h->owner, run->owner, sizeof h->owner);
            h->row = json_deep_copy(row);
            continue;
        }
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            json_int_t old = json_integer_value(json_object_get(h->row, counts[k])), sum;
            if (__builtin_add_overflow(old, json_integer_value(json_object_get(row, counts[k])),
                                       &sum))
                sum = INT64_MAX;
            (void)json_object_set_new(h->row, counts[k], json_integer(sum));
        }
    }
}

void activity_note(struct activity *a, const char *id, const char *owner, const char *session,
                   const struct run *r, enum verdict verdict)
{
    struct activity_run *run = &a->runs[a->run_count++ % ACTIVITY_RUNS];
    const struct wire_usage *u = &r->ended.usage;
    uint64_t box_us = r->t_box_us ? r->t_box_us : r->t_end_us;
    bool timed = u->cpu_user_us != UINT64_MAX && u->cpu_system_us != UINT64_MAX;
    *run = (struct activity_run){.verdict = verdict,
                                 .ended_ms = now_ms(),
                                 .queue_us = box_us - r->t_begin_us,
                                 .wall_us = r->t_end_us - box_us,
                                 .cpu_us = timed ? u->cpu_user_us + u->cpu_system_us : UINT64_MAX,
                                 .memory_bytes = u->peak_memory_bytes};
    snprintf(run->id, sizeof run->id, "%s", id);
    snprintf(run->owner, sizeof run->owner, "%s", owner);
    snprintf(run->session, sizeof run->session, "%s", session);
    note_verdict(minutes_of(a, owner), run->ended_ms, verdict);
    json_t *usage = r->request.network ? network_run_usage(r->request.network) : NULL;
    if (usage)
        note_hosts(a, run, usage);
    if (r->denials || json_object_get(r->result, "security_events") ||
        (r->request.network && json_array_size(network_run_events(r->request.network))))
        note_denials(a, run, r);
}

// ---- showing ------------------------------------------------------------------------------------

static json_t *time_of(int64_t ms)
{
    char text[TEXT_TIME_MAX];
    text_format_time(ms, text);
    return json_string(text);
}

static json_t *number(uint64_t n)
{
    return n == UINT64_MAX ? json_null() : json_integer((json_int_t)n);
}

static json_t *milliseconds(uint64_t us)
{
    return us == UINT64_MAX ? json_null() : json_real((double)us / 1000);
}

static bool is_shown(const char *owner, const char *of)
{
    return !owner || strcmp(owner, of) == 0;
}

// Takes part in a page: counts it, and says whether it is to be shown.
static bool turn(size_t *total, size_t from, size_t most)
{
    size_t at = (*total)++;
    return at >= from && at - from < most;
}

static json_t *page(size_t total, json_t *items)
{
    return json_pack("{s:I, s:o}", "total", (json_int_t)total, "items", items);
}

json_t *activity_runs(const struct activity *a, const char *owner, size_t from, size_t most)
{
    json_t *items = json_array();
    size_t total = 0;
    for (uint64_t i = a->run_count; i-- > 0 && a->run_count - i <= ACTIVITY_RUNS;) {
        const struct activity_run *r = &a->runs[i % ACTIVITY_RUNS];
        if (!is_shown(owner, r->owner) || !turn(&total, from, most))
            continue;
        (void)json_array_append_new(
            items,
            json_pack("{s:s, s:s, s:s?, s:s, s:o, s:o, s:o, s:o, s:o}", "execution_id", r->id,
                      "key", r->owner, "session", r->session[0] ? r->session : NULL, "verdict",
                      result_verdict_name(r->verdict), "ended_at", time_of(r->ended_ms), "wall_ms",
                      milliseconds(r->wall_us), "queue_ms", milliseconds(r->queue_us), "cpu_ms",
                      milliseconds(r->cpu_us), "peak_memory_bytes", number(r->memory_bytes)));
    }
    return page(total, items);
}

json_t *activity_denials(const struct activity *a, const char *owner, size_t from, size_t most)
{
    json_t *items = json_array();
    size_t total = 0;
    for (uint64_t i = a->denial_count; i-- > 0 && a->denial_count - i <= ACTIVITY_DENIALS;) {
        const struct noted *n = &a->denials[i % ACTIVITY_DENIALS];
        if (!is_shown(owner, n->owner) || !turn(&total, from, most))
            continue;
        json_t *o = json_copy(n->event);
        if (o &&
            json_object_update_new(o, json_pack("{s:s, s:s, s:o}", "execution_id", n->id, "key",
                                                n->owner, "at", time_of(n->at_ms))) == 0)
            (void)json_array_append(items, o);
        json_decref(o);
    }
    return page(total, items);
}

static int by_time(const void *a, const void *b)
{
    const struct host *const *x = a, *const *y = b;
    return (*x)->at_ms > (*y)->at_ms ? -1 : (*x)->at_ms < (*y)->at_ms;
}

json_t *activity_hosts(const struct activity *a, const char *owner, size_t from, size_t most)
{
    const struct host *sorted[ACTIVITY_HOSTS];
    json_t *items = json_array();
    size_t total = 0, n = 0;
    for (size_t i = 0; i < a->host_count; i++)
        if (is_shown(owner, a->hosts[i].owner))
            sorted[n++] = &a->hosts[i];
    qsort((void *)sorted, n, sizeof *sorted, by_time);
    for (size_t i = 0; i < n; i++) {
        json_t *o = turn(&total, from, most) ? json_copy(sorted[i]->row) : NULL;
        if (o &&
            json_object_update_new(o, json_pack("{s:s, s:o}", "key", sorted[i]->owner,
                                                "last_used_at", time_of(sorted[i]->at_ms))) == 0)
            (void)json_array_append(items, o);
        json_decref(o);
    }
    return page(total, items);
}

static void add_minute(const struct minutes *m, int64_t minute, uint32_t sums[VERDICT_MAX])
{
    size_t i = (size_t)(minute % ACTIVITY_MINUTES);
    for (int v = 0; v < VERDICT_MAX && m->rows[i].minute == minute; v++)
        sums[v] += m->rows[i].counts[v];
}

json_t *activity_verdicts(const struct activity *a, const char *owner, int64_t at_ms)
{
    json_t *list = json_array();
    for (int64_t minute = at_ms / MINUTE_MS - ACTIVITY_MINUTES + 1; minute <= at_ms / MINUTE_MS;
         minute++) {
        uint32_t sums[VERDICT_MAX] = {0};
        json_t *counts = json_object();
        if (!owner)
            add_minute(&a->others, minute, sums);
        for (size_t b = 0; b < OWNER_BUCKETS; b++)
            for (const struct minutes *m = a->owners[b]; m; m = m->next)
                if (is_shown(owner, m->owner))
                    add_minute(m, minute, sums);
        for (int v = 0; v < VERDICT_MAX; v++)
            if (sums[v])
                (void)json_object_set_new(counts, result_verdict_name((enum verdict)v),
                                          json_integer(sums[v]));
        if (json_object_size(counts))
            (void)json_array_append_new(
                list,
                json_pack("{s:o, s:O}", "at", time_of(minute * MINUTE_MS), "verdicts", counts));
        json_decref(counts);
    }
    return list;
}

static int by_size(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

// The value below which a part of them are, in milliseconds.
static json_t *quantile(const uint64_t *sorted, size_t n, double part)
{
    return n ? milliseconds(sorted[(size_t)((double)(n - 1) * part + 0.5)]) : json_null();
}

json_t *activity_latency(const struct activity *a, const char *owner)
{
    static uint64_t wall[ACTIVITY_RUNS], queue[ACTIVITY_RUNS];
    size_t n = 0;
    for (uint64_t i = 0; i < a->run_count && i < ACTIVITY_RUNS; i++)
        if (is_shown(owner, a->runs[i].owner)) {
            wall[n] = a->runs[i].wall_us;
            queue[n++] = a->runs[i].queue_us;
        }
    qsort(wall, n, sizeof *wall, by_size);
    qsort(queue, n, sizeof *queue, by_size);
    return json_pack("{s:I, s:o, s:o, s:o, s:o}", "runs", (json_int_t)n, "p50_ms",
                     quantile(wall, n, 0.5), "p99_ms", quantile(wall, n, 0.99), "queue_p50_ms",
                     quantile(queue, n, 0.5), "queue_p99_ms", quantile(queue, n, 0.99));
}
