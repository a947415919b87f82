// SPDX-License-Identifier: Apache-2.0
//
// job: see job.h and, for the rules, job_kit.h.  Runs in the gate, on its event loop.

#include "mcp/tools/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "mcp/tools/job_internal.h"
#include "mcp/tools/sandbox.h"
#include "mcp/tools/tools.h"
#include "run/admission.h"
#include "run/gate.h"

// Bytes of code of all runs that go on.  SECURITY: what is small always gets in, or one key could
// shut out all.
enum { CODE_TOTAL_MAX = 256 * 1024 * 1024, CODE_SMALL = 64 * 1024 };

// ---- the list of them ---------------------------------------------------------------------------

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

// Ends nothing: a run that goes on was cancelled before, a call was answered.
void job_free(struct job *j)
{
    background_leave(j);
    if (j->call) {
        j->call->cancel = NULL;
        j->call->work = NULL;
    }
    if (j->tick)
        event_free(j->tick);
    exec_free(j->exec);
    json_decref(j->arguments);
    json_decref(j->content);
    json_decref(j->object);
    j->runs->code_length -= j->code_length;
    TAILQ_REMOVE(&j->runs->all, j, all);
    free(j);
}

void tool_runs_free(struct tool_runs *t)
{
    struct job *j;
    if (!t)
        return;
    while ((j = TAILQ_FIRST(&t->all))) {
        struct exec *x = TAKE_PTR(j->exec); // on_done() finds nothing to do
        if (x) {
            x->request.argument = NULL;
            exec_cancel(x);
            exec_free(x);
        }
        job_free(j);
    }
    free(t);
}

// ---- the answer ---------------------------------------------------------------------------------

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

struct shape job_shape(struct job *j, bool live)
{
    const struct config *c = j->runs->mcp->config;
    return (struct shape){.budget = c->text_budget,
                          .links = !c->no_links,
                          .keep = live ? keep_live : keep_part,
                          .argument = j};
}

// Fills content, object and is_error, or error.
static void make_answer(struct job *j)
{
    struct shape shape = job_shape(j, false);
    if (j->exec->error.message[0]) {
        j->error = j->exec->error;
        return;
    }
    j->object = exec_json(j->exec);
    int failed = !j->object || json_object_set_new(j->object, "state", json_string("finished")) < 0;
    if (!failed)
        sandbox_tell_files(j->runs->mcp, j->owner, json_object_get(j->object, "files"));
    if (!failed && j->background)
        background_keep(j);
    if (j->present && !failed)
        return;
    j->content = failed ? NULL : shape_result(&shape, j->object);
    j->is_error = j->exec->result.verdict != VERDICT_OK;
    if (!j->content)
        err_set(&j->error, ERR_SYSTEM, 0, "run it again later, or let it print less",
                "the server has no memory for the result");
}

// A run that met a limit is worth a line; every run is for those who ask for all.
static void tell_log(const struct job *j, struct mcp_call *c)
{
    json_t *limit = json_object_get(j->object, "limit");
    enum mcp_level level = json_is_object(limit) ? MCP_WARNING : MCP_DEBUG;
    if (!mcp_logs(c, level))
        return;
    mcp_log(c, level, "runs",
            json_pack("{s:s, s:O*, s:O*, s:O*}", "execution_id", j->id, "verdict",
                      json_object_get(j->object, "verdict"), "limit", limit, "usage",
                      json_object_get(j->object, "usage")));
}

void job_answer(struct job *j, struct mcp_call *c)
{
    c->work = NULL;
    c->cancel = NULL;
    if (j->present && j->error.message[0]) {
        j->present(c, j->arguments, NULL, &j->error);
        return;
    }
    if (j->error.message[0]) {
        tool_error(c, err_code_name(j->error.code), j->error.hint, "%s", j->error.message);
        return;
    }
    tell_log(j, c);
    if (j->present) {
        j->present(c, j->arguments, j->object, NULL);
        return;
    }
    tool_answer(c, json_incref(j->content), json_incref(j->object), j->is_error);
}

static void on_done(struct exec *x)
{
    struct job *j = x->request.argument;
    if (!j)
        return; // the server ends
    make_answer(j);
    j->exec = NULL;
    struct mcp_call *c = j->background ? NULL : TAKE_PTR(j->call);
    if (c)
        job_answer(j, c); // before what need not be done while somebody waits
    exec_free(x);
    if (!j->background) {
        job_free(j);
        return;
    }
    if (j->tick)
        event_free(j->tick);
    j->tick = NULL;
    json_decref(j->arguments);
    j->arguments = NULL;
    j->runs->code_length -= j->code_length;
    j->code_length = 0;
    background_finish(j);
}

// ---- the beginning ------------------------------------------------------------------------------

// SECURITY: a box of its own is released with "cancelled", so every process of it is killed; code
// in a session is interrupted, and killed if it does not stop.
static void cancel_job(struct mcp_call *c)
{
    struct job *j = c->work;
    j->call = NULL;
    exec_cancel(j->exec); // on_done() follows, perhaps at once, and frees the job
}

static struct job *job_new(struct mcp_call *c, const struct job_plan *plan)
{
    struct tool_runs *t = mcp_tool_runs(c->mcp);
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        return NULL;
    *j = (struct job){.runs = t,
                      .arguments = json_incref(plan->arguments),
                      .background = plan->background,
                      .present = plan->present,
                      .code_length = plan->request.code_length,
                      .begin_us = clock_us()};
    TAILQ_INIT(&j->waiters);
    snprintf(j->owner, sizeof j->owner, "%s", c->owner);
    t->code_length += j->code_length;
    TAILQ_INSERT_TAIL(&t->all, j, all);
    return j;
}

static bool is_admitted(struct mcp_call *c, const struct job_plan *plan)
{
    struct gate *g = c->mcp->gate;
    struct tool_runs *t = mcp_tool_runs(c->mcp);
    struct err e;
    if (!g)
        tool_error(c, err_code_name(ERR_INTERNAL), NULL, "nothing can be run here");
    else if (admission_check(g, c->owner, &e) < 0)
        tool_error(c, err_code_name(e.code), e.hint, "%s", e.message);
    else if (plan->request.code_length > CODE_SMALL &&
             t->code_length + plan->request.code_length > CODE_TOTAL_MAX)
        tool_error(c, err_code_name(ERR_BUSY), "run it again when others have ended",
                   "the runs that are going on already have too much code together");
    else
        return !plan->background || background_admits(c);
    return false;
}

void job_start(struct mcp_call *c, const struct job_plan *plan)
{
    _cleanup_(exec_request_clear) struct exec_request request = plan->request;
    if (!is_admitted(c, plan))
        return;
    struct job *j = job_new(c, plan);
    if (j) {
        if (request.plan) {
            j->plan = *request.plan;
            request.plan = &j->plan;
        }
        request.owner = j->owner;
        request.on_done = on_done;
        request.argument = j;
        j->exec = exec_start(c->mcp->gate, &request);
    }
    if (!j || !j->exec) {
        if (j)
            job_free(j);
        tool_error(c, err_code_name(ERR_SYSTEM), "try again later", "the server is out of memory");
        return;
    }
    memcpy(j->id, j->exec->id, sizeof j->id);
    if (j->background) {
        progress_start(j);
        background_begin(j, c);
        return;
    }
    j->call = c;
    c->work = j;
    c->cancel = cancel_job;
    mcp_call_trim(c); // the job holds its arguments
    progress_start(j);
}
