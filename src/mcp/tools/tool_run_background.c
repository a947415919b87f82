// SPDX-License-Identifier: Apache-2.0
//
// tool_run_background: see tool_run.h and tool_run_internal.h.  Runs that no call waits for
// (exec/background.h), and check_run.  Runs in the gate.

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "mcp/tools/tool_run_internal.h"
#include "mcp/tools/tools.h"
#include "run/gate.h"

enum { WAITERS_MAX = 16 }; // calls that wait for one run

// ---- how many -----------------------------------------------------------------------------------

static struct tool_run *run_of(struct background *b)
{
    return b ? (struct tool_run *)((char *)b - offsetof(struct tool_run, back)) : NULL;
}

static void drop(struct background *b)
{
    tool_run_free(run_of(b));
}

unsigned tool_runs_background(const struct tool_runs *t)
{
    return background_going_on(t->mcp->gate, NULL);
}

bool background_admits(struct mcp_call *c)
{
    struct err e;
    if (background_admit(c->mcp->gate, c->owner, &e) == 0)
        return true;
    tool_error(c, err_code_name(ERR_BUSY),
               "wait for one of them with check_run, or run it without background", "%s",
               e.message);
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
    if (run->back.drop)
        background_remove(&run->back);
}

void background_begin(struct tool_run *run, struct mcp_call *c)
{
    char text[384];
    run->back.gate = c->mcp->gate;
    snprintf(run->back.owner, sizeof run->back.owner, "%s", run->owner);
    memcpy(run->back.id, run->id, sizeof run->back.id);
    run->back.drop = background_add(&run->back) == 0 ? drop : NULL;
    snprintf(
        text, sizeof text,
        "running in the background: call check_run with {\"execution_id\": \"%s\", \"wait\": 30} "
        "until it is finished",
        run->id);
    json_t *object =
        json_pack("{s:s, s:s, s:f, s:s, s:s, s:{}}", "execution_id", run->id, "state", "running",
                  "elapsed_ms", 0.0, "stdout", "", "stderr", "", "truncated");
    if (run->brief) {
        json_decref(object);
        object = json_pack("{s:s, s:s}", "execution_id", run->id, "state", "running");
    }
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
    background_end(&run->back);
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
    return run_of(background_find(t->mcp->gate, owner, id, drop));
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
    if (run->brief && object) {
        json_t *small = answer_brief_object(object, run->details);
        json_decref(object);
        object = small;
    }
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
