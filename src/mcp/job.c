// SPDX-License-Identifier: Apache-2.0
//
// job: see job.h.  Runs in the gate, on its event loop.
//
//   1. A job is in the list `all` from job_start() until job_free().
//   2. job->call is set as long as a call of the foreground waits; whoever ends that call or cancels it
//      clears the field first.
//   3. job->run is set from run_start() until on_done(), which comes exactly once.
//   4. A job of the background is in the list `background` as well; its waiters are calls of job_check().

#include "mcp/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/utf8.h"
#include "gate/result.h"
#include "gate/run.h"
#include "gate/source.h"
#include "mcp/listen.h"
#include "mcp/shape.h"
#include "mcp/tools.h"

enum {
    TTL_MS = 3600 * 1000,
    CODE_TOTAL_MAX = 256 * 1024 * 1024, // bytes of code of all runs that go on
    WAITERS_MAX = 16,                   // calls that wait for one job
    LAST_LINE_BYTES = 512,              // looked at for the last line
    LAST_LINE_MAX = 80,                 // characters of it that are shown
};

struct waiter {
    struct job *job;
    struct mcp_call *call;
    struct event *timer;
    TAILQ_ENTRY(waiter) entry;
};

struct job {
    struct tool_runs *runs;
    struct mcp_call *call;
    struct run *run;
    char id[RESULT_ID_SIZE];
    char owner[MCP_OWNER_MAX + 1];
    json_t *arguments;
    char *meta;
    struct event *tick;
    int64_t begin_us, end_ms;   // end_ms: when a job of the background is forgotten
    uint64_t seen[RUN_STREAMS]; // bytes of output that were told of
    uint64_t lines;
    enum run_stream latest;
    size_t code_length;
    // When a job of the background is done: its answer, or why it had none.
    bool background, in_background, done, is_error;
    json_t *content, *object;
    struct err error;
    unsigned waiter_count;
    TAILQ_HEAD(, waiter) waiters;
    TAILQ_ENTRY(job) all, back;
};

TAILQ_HEAD(job_list, job);

struct tool_runs {
    struct mcp *mcp;
    int64_t begin_ms;
    struct job_list all, background; // oldest first
    unsigned background_count;
    size_t code_length; // of all that go on
};

// ---- the list of them ----------------------------------------------------------------------------

struct tool_runs *tool_runs_new(struct mcp *m)
{
    struct tool_runs *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->mcp = m;
    t->begin_ms = clock_ms();
    TAILQ_INIT(&t->all);
    TAILQ_INIT(&t->background);
    return t;
}

int64_t tool_runs_uptime_ms(const struct tool_runs *t)
{
    return clock_ms() - t->begin_ms;
}

static void waiter_free(struct waiter *w)
{
    TAILQ_REMOVE(&w->job->waiters, w, entry);
    w->job->waiter_count--;
    if (w->timer)
        event_free(w->timer);
    free(w);
}

// Ends nothing: a run that goes on was cancelled before, a call was answered.
static void job_free(struct job *j)
{
    struct waiter *w;
    while ((w = TAILQ_FIRST(&j->waiters))) {
        w->call->cancel = NULL;
        w->call->work = NULL;
        waiter_free(w);
    }
    if (j->call) {
        j->call->cancel = NULL;
        j->call->work = NULL;
    }
    if (j->tick)
        event_free(j->tick);
    run_free(j->run);
    json_decref(j->arguments);
    json_decref(j->content);
    json_decref(j->object);
    free(j->meta);
    j->runs->code_length -= j->code_length;
    TAILQ_REMOVE(&j->runs->all, j, all);
    if (j->in_background) {
        TAILQ_REMOVE(&j->runs->background, j, back);
        j->runs->background_count--;
    }
    free(j);
}

void tool_runs_free(struct tool_runs *t)
{
    struct job *j;
    if (!t)
        return;
    while ((j = TAILQ_FIRST(&t->all))) {
        struct run *r = j->run;
        j->run = NULL; // on_done() finds nothing to do
        if (r) {
            r->request.argument = NULL;
            run_cancel(r);
            run_free(r);
        }
        job_free(j);
    }
    free(t);
}

unsigned tool_runs_background(const struct tool_runs *t)
{
    unsigned n = 0;
    const struct job *j;
    TAILQ_FOREACH(j, &t->background, back)
    n += !j->done;
    return n;
}

// At most JOBS_BACKGROUND_MAX entries, so no timer: who looks lets go of what is too old.
static void expire(struct tool_runs *t)
{
    struct job *j, *next;
    int64_t now_ms = clock_ms();
    for (j = TAILQ_FIRST(&t->background); j; j = next) {
        next = TAILQ_NEXT(j, back);
        if (j->done && j->end_ms <= now_ms)
            job_free(j);
    }
}

static unsigned count_of(const struct tool_runs *t, const char *owner, bool running)
{
    unsigned n = 0;
    const struct job *j;
    TAILQ_FOREACH(j, &t->background, back)
    n += strcmp(j->owner, owner) == 0 && !(running && j->done);
    return n;
}

// Where there are several owners, none has more than half of the places.
static unsigned share_of(const char *owner, unsigned all)
{
    return owner[0] ? (all + 1) / 2 : all;
}

// The oldest result of one owner; NULL: of whoever has most.
static struct job *find_oldest(struct tool_runs *t, const char *owner)
{
    struct job *j, *best = NULL;
    unsigned most = 0;
    TAILQ_FOREACH(j, &t->background, back)
    {
        if (!j->done || (owner && strcmp(j->owner, owner) != 0))
            continue;
        if (owner)
            return j;
        unsigned count = count_of(t, j->owner, false);
        if (count > most) {
            best = j;
            most = count;
        }
    }
    return best;
}

// A place for one more of this owner, who cannot push out those that have less.
static bool make_room(struct tool_runs *t, const char *owner)
{
    expire(t);
    unsigned own = count_of(t, owner, false);
    struct job *oldest = NULL;
    if (own >= share_of(owner, JOBS_BACKGROUND_MAX))
        oldest = find_oldest(t, owner);
    else if (t->background_count < JOBS_BACKGROUND_MAX)
        return true;
    else
        oldest = find_oldest(t, NULL);
    if (oldest)
        job_free(oldest);
    return oldest != NULL;
}

static struct job *find(struct tool_runs *t, const char *owner, const char *id)
{
    struct job *j;
    expire(t);
    TAILQ_FOREACH(j, &t->background, back)
    if (strcmp(j->id, id) == 0 && strcmp(j->owner, owner) == 0)
        return j;
    return NULL;
}

// ---- what it printed -----------------------------------------------------------------------------

static json_t *live_text(const struct job *j, enum run_stream stream)
{
    struct evbuffer *buffer = j->run->output[stream];
    size_t length = evbuffer_get_length(buffer), clean = 0;
    const char *data = length ? (const char *)evbuffer_pullup(buffer, -1) : "";
    _cleanup_free_ char *copy = data ? utf8_clean(data, length, &clean) : NULL;
    return copy ? json_stringn_nocheck(copy, clean) : NULL;
}

json_t *job_live(struct mcp *m, const char *owner, const char *id, enum kept_part part)
{
    struct tool_runs *t = mcp_tool_runs(m);
    struct job *j = t ? find(t, owner, id) : NULL;
    if (!j || !j->run || (part != KEPT_STDOUT && part != KEPT_STDERR))
        return NULL;
    return live_text(j, part == KEPT_STDOUT ? RUN_STDOUT : RUN_STDERR);
}

bool job_is_running(struct mcp *m, const char *owner, const char *id)
{
    struct tool_runs *t = mcp_tool_runs(m);
    struct job *j = t ? find(t, owner, id) : NULL;
    return j && j->run;
}

// Counts the lines that came since the last time.  Returns true when something came.
static bool count_lines(struct job *j, enum run_stream stream)
{
    struct evbuffer *buffer = j->run->output[stream];
    struct evbuffer_ptr at;
    size_t length = evbuffer_get_length(buffer), from = (size_t)j->seen[stream];
    char piece[4096];
    if (length <= from || evbuffer_ptr_set(buffer, &at, from, EVBUFFER_PTR_SET) < 0)
        return false;
    j->latest = stream;
    while (from < length) {
        ev_ssize_t n = evbuffer_copyout_from(buffer, &at, piece, sizeof piece);
        if (n <= 0)
            break;
        for (ev_ssize_t i = 0; i < n; i++)
            j->lines += piece[i] == '\n';
        from += (size_t)n;
        if (evbuffer_ptr_set(buffer, &at, (size_t)n, EVBUFFER_PTR_ADD) < 0)
            break;
    }
    j->seen[stream] = length;
    return true;
}

// The last line that is not empty, shortened, fit to be shown.
static void last_line(const struct job *j, char *buf, size_t cap)
{
    char tail[LAST_LINE_BYTES + 1];
    struct evbuffer *buffer = j->run->output[j->latest];
    size_t length = evbuffer_get_length(buffer),
           from = length > LAST_LINE_BYTES ? length - LAST_LINE_BYTES : 0;
    struct evbuffer_ptr at;
    ev_ssize_t n = evbuffer_ptr_set(buffer, &at, from, EVBUFFER_PTR_SET) < 0
                       ? 0
                       : evbuffer_copyout_from(buffer, &at, tail, LAST_LINE_BYTES);
    buf[0] = '\0';
    while (n > 0 && strchr(" \t\r\n", tail[n - 1])) // a NUL counts as blank too
        n--;
    if (n <= 0)
        return;
    size_t begin = (size_t)n;
    while (begin > 0 && tail[begin - 1] != '\n' && tail[begin - 1] != '\r')
        begin--;
    while (begin > 0 && begin < (size_t)n && ((unsigned char)tail[begin] & 0xc0) == 0x80)
        begin++; // the first bytes of a character are further ahead
    size_t count = 0, at_byte = begin;
    for (; at_byte < (size_t)n && count < LAST_LINE_MAX; count++) {
        size_t step = utf8_sequence((unsigned char *)tail + at_byte, (size_t)n - at_byte);
        if (tail[at_byte] == '\0')
            tail[at_byte] = '?';
        at_byte += step ? step : 1;
    }
    snprintf(buf, cap, "%.*s", (int)(at_byte - begin), tail + begin);
    text_sanitize(buf);
    if (at_byte < (size_t)n && strlen(buf) + 4 < cap)
        strncat(buf, "...", cap - strlen(buf) - 1);
}

// ---- once a second -------------------------------------------------------------------------------

static void tell_progress(struct job *j, double elapsed_s)
{
    char line[LAST_LINE_MAX * 4 + 8], text[sizeof line + 96];
    double waited_s = 0;
    if (!j->run->t_box_us) {
        snprintf(text, sizeof text, "waiting for a box, %.0f s", elapsed_s);
        waited_s = elapsed_s;
    } else {
        last_line(j, line, sizeof line);
        snprintf(text, sizeof text, "running %.0f s, %llu %s of output%s%s", elapsed_s,
                 (unsigned long long)j->lines, j->lines == 1 ? "line" : "lines",
                 line[0] ? ": " : "", line);
        waited_s = (double)((int64_t)j->run->t_box_us - j->begin_us) / 1e6;
    }
    double total_s = (double)j->run->request.wall_ms / 1000 + (double)(int64_t)waited_s;
    mcp_progress(j->call, elapsed_s < total_s ? elapsed_s : total_s, total_s, text);
}

static void tell_updated(struct job *j, enum kept_part part)
{
    char uri[KEPT_URI_MAX];
    mcp_kept_uri(j->id, part, uri);
    mcp_resource_updated(j->runs->mcp, uri, j->owner);
}

static void on_tick(evutil_socket_t fd, short what, void *argument)
{
    struct job *j = argument;
    (void)fd;
    (void)what;
    if (!j->run)
        return;
    bool out = count_lines(j, RUN_STDOUT), err = count_lines(j, RUN_STDERR);
    if (j->background && out)
        tell_updated(j, KEPT_STDOUT);
    if (j->background && err)
        tell_updated(j, KEPT_STDERR);
    if (j->call)
        tell_progress(j, (double)(clock_us() - j->begin_us) / 1e6);
}

// Without it nobody hears of progress, and nothing else is lost.
static void start_tick(struct job *j)
{
    struct timeval second = {.tv_sec = 1};
    if (!j->background && !(j->call && j->call->progress_token))
        return;
    j->tick = event_new(j->runs->mcp->base, -1, EV_PERSIST, on_tick, j);
    if (j->tick)
        (void)event_add(j->tick, &second);
}

// ---- the answer ----------------------------------------------------------------------------------

static bool keep_part(void *argument, enum kept_part part, const char *mime_type, const char *text,
                      size_t length, char ret_uri[KEPT_URI_MAX])
{
    struct job *j = argument;
    mcp_kept_uri(j->id, part, ret_uri);
    return mcp_kept_add(j->runs->mcp, j->owner, j->id, part, mime_type, text, length) == 0;
}

// A run that goes on is read where it is.
static bool keep_live(void *argument, enum kept_part part, const char *mime_type, const char *text,
                      size_t length, char ret_uri[KEPT_URI_MAX])
{
    struct job *j = argument;
    (void)mime_type;
    (void)text;
    (void)length;
    mcp_kept_uri(j->id, part, ret_uri);
    return true;
}

static struct shape shape_of(struct job *j, bool live)
{
    const struct config *c = j->runs->mcp->config;
    return (struct shape){.budget = c->text_budget,
                          .links = !c->no_links,
                          .keep = live ? keep_live : keep_part,
                          .argument = j};
}

// Whoever watches a background run may read all of it, not only what was too long for the answer.
static void keep_all(struct job *j)
{
    static const struct {
        enum kept_part part;
        const char *key;
    } parts[] = {{KEPT_STDOUT, "stdout"}, {KEPT_STDERR, "stderr"}, {KEPT_RESULT, "result"}};
    json_t *error = json_object_get(json_object_get(j->object, "error"), "text");
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        json_t *text = json_object_get(j->object, parts[i].key);
        if (json_is_string(text))
            (void)mcp_kept_add(j->runs->mcp, j->owner, j->id, parts[i].part, "text/plain",
                               json_string_value(text), json_string_length(text));
    }
    if (json_is_string(error))
        (void)mcp_kept_add(j->runs->mcp, j->owner, j->id, KEPT_ERROR, "text/plain",
                           json_string_value(error), json_string_length(error));
}

// Fills content, object and is_error, or error.
static void make_answer(struct job *j)
{
    struct result res;
    struct shape shape = shape_of(j, false);
    if (j->run->error.message[0]) {
        j->error = j->run->error;
        return;
    }
    result_judge(j->run, &res);
    j->object = result_json(j->run, &res);
    int failed = !j->object || json_object_set_new(j->object, "execution_id", json_string(j->id)) |
                                   json_object_set_new(j->object, "state", json_string("finished"));
    if (!failed && j->background)
        keep_all(j);
    j->content = failed ? NULL : shape_result(&shape, j->object);
    j->is_error = res.verdict != VERDICT_OK;
    if (!j->content)
        err_set(&j->error, ERR_SYSTEM, 0, "run it again later, or let it print less",
                "the server has no memory for the result");
}

// A run that met a limit is worth a line; every run is for those who ask for all.
static void tell_log(const struct job *j, struct mcp_call *c)
{
    json_t *limit = json_object_get(j->object, "limit");
    mcp_log(c, json_is_object(limit) ? MCP_WARNING : MCP_DEBUG, "runs",
            json_pack("{s:s, s:O*, s:O*, s:O*}", "execution_id", j->id, "verdict",
                      json_object_get(j->object, "verdict"), "limit", limit, "usage",
                      json_object_get(j->object, "usage")));
}

static void answer(struct job *j, struct mcp_call *c)
{
    c->work = NULL;
    c->cancel = NULL;
    if (j->error.message[0]) {
        tool_error(c, err_code_name(j->error.code), j->error.hint, "%s", j->error.message);
        return;
    }
    tell_log(j, c);
    tool_answer(c, json_incref(j->content), json_incref(j->object), j->is_error);
}

static void finish_background(struct job *j)
{
    struct waiter *w;
    j->done = true;
    j->end_ms = clock_ms() + TTL_MS;
    for (int part = 0; part < KEPT_PART_MAX; part++)
        tell_updated(j, (enum kept_part)part);
    while ((w = TAILQ_FIRST(&j->waiters))) {
        struct mcp_call *c = w->call;
        waiter_free(w);
        answer(j, c);
    }
}

static void on_done(struct run *r)
{
    struct job *j = r->request.argument;
    if (!j)
        return; // the server ends
    if (j->call || j->background)
        make_answer(j);
    if (j->tick)
        event_free(j->tick);
    j->tick = NULL;
    j->run = NULL;
    run_free(r);
    json_decref(j->arguments);
    j->arguments = NULL;
    j->runs->code_length -= j->code_length;
    j->code_length = 0;
    if (j->background) {
        finish_background(j);
        return;
    }
    struct mcp_call *c = TAKE_PTR(j->call);
    if (c)
        answer(j, c);
    job_free(j);
}

// ---- the beginning -------------------------------------------------------------------------------

// SECURITY: the run is released with "cancelled", so every process of the box is killed.
static void cancel_job(struct mcp_call *c)
{
    struct job *j = c->work;
    j->call = NULL;
    run_cancel(j->run); // on_done() follows, perhaps at once, and frees the job
}

static struct job *job_new(struct mcp_call *c, const struct job_plan *plan)
{
    struct tool_runs *t = mcp_tool_runs(c->mcp);
    char *meta = source_meta("<code>", plan->argv);
    struct job *j = meta ? calloc(1, sizeof *j) : NULL;
    if (!j) {
        free(meta);
        return NULL;
    }
    *j = (struct job){.runs = t,
                      .meta = meta,
                      .arguments = json_incref(plan->arguments),
                      .background = plan->background,
                      .code_length = plan->code_length,
                      .begin_us = clock_us()};
    TAILQ_INIT(&j->waiters);
    snprintf(j->owner, sizeof j->owner, "%s", c->owner);
    t->code_length += j->code_length;
    TAILQ_INSERT_TAIL(&t->all, j, all);
    if (result_new_id(j->id) < 0) {
        job_free(j);
        return NULL;
    }
    return j;
}

static void answer_started(struct job *j, struct mcp_call *c)
{
    char text[384];
    snprintf(text, sizeof text,
             "started in the background as run %s\nCall check_run with {\"execution_id\": \"%s\", "
             "\"wait\": 30} until its state is finished.",
             j->id, j->id);
    json_t *object =
        json_pack("{s:s, s:s, s:f, s:s, s:s, s:{}}", "execution_id", j->id, "state", "running",
                  "elapsed_ms", 0.0, "stdout", "", "stderr", "", "truncated");
    tool_answer(c, json_pack("[o]", tool_text(text)), object, false);
}

// Runs of the background leave a quarter of the places to those that somebody waits for.
unsigned tool_runs_background_max(const struct gate *g)
{
    unsigned most = g && g->runs_max ? g->runs_max - g->runs_max / 4 : JOBS_RUNNING_MAX;
    return most < JOBS_BACKGROUND_MAX ? most : JOBS_BACKGROUND_MAX;
}

static bool is_admitted(struct mcp_call *c, const struct job_plan *plan)
{
    struct gate *g = c->mcp->gate;
    struct tool_runs *t = mcp_tool_runs(c->mcp);
    unsigned most = g && g->runs_max ? g->runs_max : JOBS_RUNNING_MAX;
    if (!g)
        tool_error(c, err_code_name(ERR_INTERNAL), NULL, "nothing can be run here");
    else if (g->running >= most)
        tool_error(c, err_code_name(ERR_BUSY), "run it again when others have ended",
                   "%u runs are going on already, and more are not allowed at one time", most);
    else if (t->code_length + plan->code_length > CODE_TOTAL_MAX)
        tool_error(c, err_code_name(ERR_BUSY), "run it again when others have ended",
                   "the runs that are going on already have too much code together");
    else if (plan->background &&
             count_of(t, c->owner, true) >= share_of(c->owner, tool_runs_background_max(g)))
        tool_error(c, err_code_name(ERR_BUSY),
                   "wait for one of them with check_run, or run it without background",
                   "%u runs are going on in the background already", count_of(t, c->owner, true));
    else if (plan->background &&
             (tool_runs_background(t) >= tool_runs_background_max(g) || !make_room(t, c->owner)))
        tool_error(c, err_code_name(ERR_BUSY),
                   "wait for one of them with check_run, or run it without background",
                   "%u runs are going on in the background already", tool_runs_background(t));
    else
        return true;
    return false;
}

void job_start(struct mcp_call *c, const struct job_plan *plan)
{
    if (!is_admitted(c, plan)) {
        json_decref(plan->argv);
        return;
    }
    struct job *j = job_new(c, plan);
    struct run_request request = {.code = plan->code,
                                  .code_length = plan->code_length,
                                  .meta = j ? j->meta : "",
                                  .meta_length = j ? strlen(j->meta) : 0,
                                  .limits = plan->limits,
                                  .wall_ms = plan->wall_ms,
                                  .cpu_ms = plan->cpu_ms,
                                  .output_bytes = plan->output_bytes,
                                  .on_done = on_done,
                                  .argument = j};
    if (j)
        j->run = run_start(c->mcp->gate, &request);
    if (!j || !j->run) {
        if (j)
            job_free(j);
        tool_error(c, err_code_name(ERR_SYSTEM), "try again later", "the server is out of memory");
        return;
    }
    if (j->background) {
        j->in_background = true;
        TAILQ_INSERT_TAIL(&j->runs->background, j, back);
        j->runs->background_count++;
        start_tick(j);
        answer_started(j, c);
        return;
    }
    j->call = c;
    c->work = j;
    c->cancel = cancel_job;
    mcp_call_trim(c); // the job holds its arguments
    start_tick(j);
}

// ---- looking at a background run -----------------------------------------------------------------

static void answer_running(struct job *j, struct mcp_call *c)
{
    struct shape shape = shape_of(j, true);
    json_t *object =
        json_pack("{s:s, s:s, s:f, s:o, s:o, s:{}}", "execution_id", j->id, "state", "running",
                  "elapsed_ms", (double)((clock_us() - j->begin_us) / 1000), "stdout",
                  live_text(j, RUN_STDOUT), "stderr", live_text(j, RUN_STDERR), "truncated");
    json_t *content = object ? shape_result(&shape, object) : NULL;
    c->work = NULL;
    c->cancel = NULL;
    tool_answer(c, content, object, false);
}

static void on_waited(evutil_socket_t fd, short what, void *argument)
{
    struct waiter *w = argument;
    struct job *j = w->job;
    struct mcp_call *c = w->call;
    (void)fd;
    (void)what;
    waiter_free(w);
    answer_running(j, c);
}

static void cancel_waiter(struct mcp_call *c)
{
    waiter_free(c->work);
}

static int wait_for(struct job *j, struct mcp_call *c, uint64_t wait_ms)
{
    struct timeval wait = {.tv_sec = (time_t)(wait_ms / 1000),
                           .tv_usec = (suseconds_t)(wait_ms % 1000) * 1000};
    struct waiter *w = j->waiter_count < WAITERS_MAX ? calloc(1, sizeof *w) : NULL;
    if (!w)
        return -1;
    w->job = j;
    w->call = c;
    TAILQ_INSERT_TAIL(&j->waiters, w, entry);
    j->waiter_count++;
    w->timer = event_new(c->mcp->base, -1, 0, on_waited, w);
    if (!w->timer || event_add(w->timer, &wait) < 0) {
        waiter_free(w);
        return -1;
    }
    c->work = w;
    c->cancel = cancel_waiter;
    mcp_call_trim(c);
    return 0;
}

void job_check(struct mcp_call *c, const char *id, uint64_t wait_ms)
{
    struct job *j = find(mcp_tool_runs(c->mcp), c->owner, id);
    char shown[64];
    snprintf(shown, sizeof shown, "%.40s", id);
    text_sanitize(shown);
    if (!j)
        tool_error(c, "unknown_run",
                   "use the execution_id that execute_python gave with background=true; results "
                   "are kept for an hour",
                   "there is no background run '%s'", shown);
    else if (j->done)
        answer(j, c);
    else if (wait_ms == 0 || wait_for(j, c, wait_ms) < 0)
        answer_running(j, c);
}
