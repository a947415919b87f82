// SPDX-License-Identifier: Apache-2.0
//
// tool_run_background: see tool_run.h and tool_run_internal.h.  Runs that no call waits for: how
// many there may be, how long their results are kept, and check_run.  Runs in the gate.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "mcp/tools/tool_run_internal.h"
#include "mcp/tools/tools.h"
#include "run/gate.h"

enum {
    TTL_MS = 3600 * 1000,
    WAITERS_MAX = 16, // calls that wait for one run
};

// ---- how many -----------------------------------------------------------------------------------

unsigned tool_runs_background(const struct tool_runs *t)
{
    unsigned n = 0;
    const struct tool_run *run;
    TAILQ_FOREACH (run, &t->background, back)
        n += !run->done;
    return n;
}

// At most TOOL_RUNS_BACKGROUND_MAX entries, so there is no timer: every lookup expires old ones.
static void expire(struct tool_runs *t)
{
    struct tool_run *run, *next;
    int64_t now_ms = clock_ms();
    for (run = TAILQ_FIRST(&t->background); run; run = next) {
        next = TAILQ_NEXT(run, back);
        if (run->done && run->end_ms <= now_ms)
            tool_run_free(run);
    }
}

static unsigned count_of(const struct tool_runs *t, const char *owner, bool running)
{
    unsigned n = 0;
    const struct tool_run *run;
    TAILQ_FOREACH (run, &t->background, back)
        n += strcmp(run->owner, owner) == 0 && !(running && run->done);
    return n;
}

// With several owners, none gets more than half.
static unsigned share_of(const char *owner, unsigned all)
{
    return owner[0] ? (all + 1) / 2 : all;
}

// The oldest result of `owner`; with NULL, of the owner that has most.
static struct tool_run *find_oldest(struct tool_runs *t, const char *owner)
{
    struct tool_run *run, *best = NULL;
    unsigned most = 0;
    TAILQ_FOREACH (run, &t->background, back) {
        if (!run->done || (owner && strcmp(run->owner, owner) != 0))
            continue;
        if (owner)
            return run;
        unsigned count = count_of(t, run->owner, false);
        if (count > most) {
            best = run;
            most = count;
        }
    }
    return best;
}

// Makes room for one more run of this owner.  Never removes a result of an owner that has fewer.
static bool make_room(struct tool_runs *t, const char *owner)
{
    expire(t);
    unsigned own = count_of(t, owner, false);
    struct tool_run *oldest = NULL;
    if (own >= share_of(owner, TOOL_RUNS_BACKGROUND_MAX))
        oldest = find_oldest(t, owner);
    else if (t->background_count < TOOL_RUNS_BACKGROUND_MAX)
        return true;
    else
        oldest = find_oldest(t, NULL);
    if (oldest)
        tool_run_free(oldest);
    return oldest != NULL;
}

// Background runs leave a quarter of all runs to the foreground.
unsigned tool_runs_background_max(const struct gate *g)
{
    unsigned most = g && g->runs_max ? g->runs_max - g->runs_max / 4 : TOOL_RUNS_MAX;
    return most < TOOL_RUNS_BACKGROUND_MAX ? most : TOOL_RUNS_BACKGROUND_MAX;
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
    TAILQ_REMOVE(&w->run->waiters, w, entry);
    w->run->waiter_count--;
    timer_stop(&w->timer);
    free(w);
}

void background_leave(struct tool_run *run)
{
    struct waiter *w;
    while ((w = TAILQ_FIRST(&run->waiters))) {
        w->call->cancel = NULL;
        w->call->work = NULL;
        waiter_free(w);
    }
    if (run->in_background) {
        TAILQ_REMOVE(&run->runs->background, run, back);
        run->runs->background_count--;
    }
}

void background_begin(struct tool_run *run, struct mcp_call *c)
{
    char text[384];
    run->in_background = true;
    TAILQ_INSERT_TAIL(&run->runs->background, run, back);
    run->runs->background_count++;
    snprintf(text, sizeof text,
             "started in the background as run %s\nCall check_run with {\"execution_id\": \"%s\", "
             "\"wait\": 30} until its state is finished.",
             run->id, run->id);
    json_t *object =
        json_pack("{s:s, s:s, s:f, s:s, s:s, s:{}}", "execution_id", run->id, "state", "running",
                  "elapsed_ms", 0.0, "stdout", "", "stderr", "", "truncated");
    tool_answer(c, json_pack("[o]", tool_text(text)), object, false);
}

// Subscribers of a background run may read all of it, not only what was too long for the answer.
void background_keep(struct tool_run *run)
{
    static const struct {
        enum output_part part;
        const char *key;
    } parts[] = {{OUTPUT_STDOUT, "stdout"}, {OUTPUT_STDERR, "stderr"}, {OUTPUT_RESULT, "result"}};
    json_t *error = json_object_get(json_object_get(run->object, "error"), "text");
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        json_t *text = json_object_get(run->object, parts[i].key);
        if (json_is_string(text))
            (void)mcp_outputs_add(run->runs->mcp, run->owner, run->id, parts[i].part, "text/plain",
                                  json_string_value(text), json_string_length(text));
    }
    if (json_is_string(error))
        (void)mcp_outputs_add(run->runs->mcp, run->owner, run->id, OUTPUT_ERROR, "text/plain",
                              json_string_value(error), json_string_length(error));
}

void background_finish(struct tool_run *run)
{
    struct waiter *w;
    run->done = true;
    run->end_ms = clock_ms() + TTL_MS;
    for (int part = 0; part < OUTPUT_PART_MAX; part++)
        progress_tell_updated(run, (enum output_part)part);
    while ((w = TAILQ_FIRST(&run->waiters))) {
        struct mcp_call *c = w->call;
        waiter_free(w);
        tool_run_answer(run, c);
    }
}

// ---- looking at one -----------------------------------------------------------------------------

static struct tool_run *find(struct tool_runs *t, const char *owner, const char *id)
{
    struct tool_run *run;
    expire(t);
    TAILQ_FOREACH (run, &t->background, back)
        if (strcmp(run->id, id) == 0 && strcmp(run->owner, owner) == 0)
            return run;
    return NULL;
}

json_t *tool_run_live(struct mcp *m, const char *owner, const char *id, enum output_part part)
{
    struct tool_runs *t = mcp_tool_runs(m);
    struct tool_run *run = t ? find(t, owner, id) : NULL;
    if (!run || !run->exec || (part != OUTPUT_STDOUT && part != OUTPUT_STDERR))
        return NULL;
    return progress_text(run, part == OUTPUT_STDOUT ? RUN_STDOUT : RUN_STDERR);
}

bool tool_run_is_going_on(struct mcp *m, const char *owner, const char *id)
{
    struct tool_runs *t = mcp_tool_runs(m);
    struct tool_run *run = t ? find(t, owner, id) : NULL;
    return run && run->exec;
}

static void answer_running(struct tool_run *run, struct mcp_call *c)
{
    struct answer_options options = tool_run_answer_options(run, true);
    json_t *object = json_pack(
        "{s:s, s:s, s:f, s:o, s:o, s:{}}", "execution_id", run->id, "state", "running",
        "elapsed_ms", (double)((clock_us() - run->begin_us) / 1000), "stdout",
        progress_text(run, RUN_STDOUT), "stderr", progress_text(run, RUN_STDERR), "truncated");
    if (object && run->exec && run->exec->session_id[0])
        (void)json_object_set_new(object, "session", json_string(run->exec->session_id));
    json_t *content = object ? answer_make(&options, object) : NULL;
    c->work = NULL;
    c->cancel = NULL;
    tool_answer(c, content, object, false);
}

static void on_waited(void *argument)
{
    struct waiter *w = argument;
    struct tool_run *run = w->run;
    struct mcp_call *c = w->call;
    waiter_free(w);
    answer_running(run, c);
}

static void cancel_waiter(struct mcp_call *c)
{
    waiter_free(c->work);
}

static int wait_for(struct tool_run *run, struct mcp_call *c, uint64_t wait_ms)
{
    struct waiter *w = run->waiter_count < WAITERS_MAX ? calloc(1, sizeof *w) : NULL;
    if (!w)
        return -1;
    w->run = run;
    w->call = c;
    TAILQ_INSERT_TAIL(&run->waiters, w, entry);
    run->waiter_count++;
    if (!timer_set(&w->timer, c->mcp->base, wait_ms, on_waited, w)) {
        waiter_free(w);
        return -1;
    }
    c->work = w;
    c->cancel = cancel_waiter;
    mcp_call_trim(c);
    return 0;
}

void tool_run_check(struct mcp_call *c, const char *id, uint64_t wait_ms)
{
    struct tool_run *run = find(mcp_tool_runs(c->mcp), c->owner, id);
    char shown[64];
    snprintf(shown, sizeof shown, "%.40s", id);
    text_sanitize(shown);
    if (!run)
        tool_error(c, "unknown_run",
                   "use the execution_id that execute_python gave with background=true; results "
                   "are kept for an hour",
                   "there is no background run '%s'", shown);
    else if (run->done)
        tool_run_answer(run, c);
    else if (wait_ms == 0 || wait_for(run, c, wait_ms) < 0)
        answer_running(run, c);
}
