// SPDX-License-Identifier: Apache-2.0
//
// background: see job.h and job_kit.h.  Jobs that no call waits for: how many there may be, how
// long their results are kept, and check_run.  Runs in the gate, on its event loop.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "mcp/tools/job_internal.h"
#include "mcp/tools/tools.h"
#include "run/gate.h"

enum {
    TTL_MS = 3600 * 1000,
    WAITERS_MAX = 16, // calls that wait for one job
};

// ---- how many -----------------------------------------------------------------------------------

unsigned tool_runs_background(const struct tool_runs *t)
{
    unsigned n = 0;
    const struct job *j;
    TAILQ_FOREACH (j, &t->background, back)
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
    TAILQ_FOREACH (j, &t->background, back)
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
    TAILQ_FOREACH (j, &t->background, back) {
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

// Runs of the background leave a quarter of the places to those that somebody waits for.
unsigned tool_runs_background_max(const struct gate *g)
{
    unsigned most = g && g->runs_max ? g->runs_max - g->runs_max / 4 : JOBS_RUNNING_MAX;
    return most < JOBS_BACKGROUND_MAX ? most : JOBS_BACKGROUND_MAX;
}

bool background_admits(struct mcp_call *c)
{
    struct tool_runs *t = mcp_tool_runs(c->mcp);
    unsigned most = tool_runs_background_max(c->mcp->gate), own = count_of(t, c->owner, true);
    if (own < share_of(c->owner, most) && make_room(t, c->owner))
        return true;
    tool_error(c, err_code_name(ERR_BUSY),
               "wait for one of them with check_run, or run it without background",
               "%u of your runs are going on in the background already", own);
    return false;
}

// ---- the beginning and the end ------------------------------------------------------------------

static void waiter_free(struct waiter *w)
{
    TAILQ_REMOVE(&w->job->waiters, w, entry);
    w->job->waiter_count--;
    if (w->timer)
        event_free(w->timer);
    free(w);
}

void background_leave(struct job *j)
{
    struct waiter *w;
    while ((w = TAILQ_FIRST(&j->waiters))) {
        w->call->cancel = NULL;
        w->call->work = NULL;
        waiter_free(w);
    }
    if (j->in_background) {
        TAILQ_REMOVE(&j->runs->background, j, back);
        j->runs->background_count--;
    }
}

void background_begin(struct job *j, struct mcp_call *c)
{
    char text[384];
    j->in_background = true;
    TAILQ_INSERT_TAIL(&j->runs->background, j, back);
    j->runs->background_count++;
    snprintf(text, sizeof text,
             "started in the background as run %s\nCall check_run with {\"execution_id\": \"%s\", "
             "\"wait\": 30} until its state is finished.",
             j->id, j->id);
    json_t *object =
        json_pack("{s:s, s:s, s:f, s:s, s:s, s:{}}", "execution_id", j->id, "state", "running",
                  "elapsed_ms", 0.0, "stdout", "", "stderr", "", "truncated");
    tool_answer(c, json_pack("[o]", tool_text(text)), object, false);
}

// Whoever watches a background run may read all of it, not only what was too long for the answer.
void background_keep(struct job *j)
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

void background_finish(struct job *j)
{
    struct waiter *w;
    j->done = true;
    j->end_ms = clock_ms() + TTL_MS;
    for (int part = 0; part < KEPT_PART_MAX; part++)
        progress_tell_updated(j, (enum kept_part)part);
    while ((w = TAILQ_FIRST(&j->waiters))) {
        struct mcp_call *c = w->call;
        waiter_free(w);
        job_answer(j, c);
    }
}

// ---- looking at one -----------------------------------------------------------------------------

static struct job *find(struct tool_runs *t, const char *owner, const char *id)
{
    struct job *j;
    expire(t);
    TAILQ_FOREACH (j, &t->background, back)
        if (strcmp(j->id, id) == 0 && strcmp(j->owner, owner) == 0)
            return j;
    return NULL;
}

json_t *job_live(struct mcp *m, const char *owner, const char *id, enum kept_part part)
{
    struct tool_runs *t = mcp_tool_runs(m);
    struct job *j = t ? find(t, owner, id) : NULL;
    if (!j || !j->exec || (part != KEPT_STDOUT && part != KEPT_STDERR))
        return NULL;
    return progress_text(j, part == KEPT_STDOUT ? RUN_STDOUT : RUN_STDERR);
}

bool job_is_running(struct mcp *m, const char *owner, const char *id)
{
    struct tool_runs *t = mcp_tool_runs(m);
    struct job *j = t ? find(t, owner, id) : NULL;
    return j && j->exec;
}

static void answer_running(struct job *j, struct mcp_call *c)
{
    struct shape shape = job_shape(j, true);
    json_t *object = json_pack("{s:s, s:s, s:f, s:o, s:o, s:{}}", "execution_id", j->id, "state",
                               "running", "elapsed_ms", (double)((clock_us() - j->begin_us) / 1000),
                               "stdout", progress_text(j, RUN_STDOUT), "stderr",
                               progress_text(j, RUN_STDERR), "truncated");
    if (object && j->exec && j->exec->session_id[0])
        (void)json_object_set_new(object, "session", json_string(j->exec->session_id));
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
        job_answer(j, c);
    else if (wait_ms == 0 || wait_for(j, c, wait_ms) < 0)
        answer_running(j, c);
}
