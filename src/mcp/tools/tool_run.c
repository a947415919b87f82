// SPDX-License-Identifier: Apache-2.0
//
// tool_run: see tool_run.h and, for the invariants, tool_run_internal.h.  Runs in the gate.

#include "mcp/tools/tool_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "mcp/tools/answer.h"
#include "mcp/tools/file_resources.h"
#include "mcp/tools/tool_run_internal.h"
#include "mcp/tools/tools.h"
#include "run/admission.h"
#include "run/gate.h"

// Bytes of code of all runs that go on.  SECURITY: small code is always admitted; otherwise one key
// could shut out all others.
enum { CODE_TOTAL_MAX = 256 * 1024 * 1024, CODE_SMALL = 64 * 1024 };

// ---- all runs ---------------------------------------------------------------------------

struct tool_runs *tool_runs_new(struct mcp *m)
{
    struct tool_runs *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->mcp = m;
    t->begin_ms = clock_ms();
    TAILQ_INIT(&t->all);
    return t;
}

int64_t tool_runs_uptime_ms(const struct tool_runs *t)
{
    return clock_ms() - t->begin_ms;
}

// The run has ended or was cancelled before, and its call was answered.
void tool_run_free(struct tool_run *run)
{
    background_leave(run);
    if (run->call) {
        run->call->cancel = NULL;
        run->call->work = NULL;
    }
    timer_stop(&run->tick);
    exec_free(run->exec);
    json_decref(run->arguments);
    json_decref(run->content);
    json_decref(run->object);
    run->runs->code_length -= run->code_length;
    TAILQ_REMOVE(&run->runs->all, run, all);
    free(run);
}

void tool_runs_free(struct tool_runs *t)
{
    struct tool_run *run;
    if (!t)
        return;
    while ((run = TAILQ_FIRST(&t->all))) {
        struct exec *x = TAKE_PTR(run->exec); // on_done() finds nothing to do
        if (x) {
            x->request.argument = NULL;
            exec_cancel(x);
            exec_free(x);
        }
        tool_run_free(run);
    }
    free(t);
}

// ---- the answer ---------------------------------------------------------------------------------

static bool keep_part(void *argument, enum output_part part, const char *mime_type,
                      const char *text, size_t length, char ret_uri[OUTPUT_URI_MAX])
{
    struct tool_run *run = argument;
    mcp_outputs_uri(run->id, part, ret_uri);
    return mcp_outputs_add(run->runs->mcp, run->owner, run->id, part, mime_type, text, length) == 0;
}

// The output of a run that goes on is read from its buffers.
static bool keep_live(void *argument, enum output_part part, const char *mime_type,
                      const char *text, size_t length, char ret_uri[OUTPUT_URI_MAX])
{
    struct tool_run *run = argument;
    (void)mime_type;
    (void)text;
    (void)length;
    mcp_outputs_uri(run->id, part, ret_uri);
    return true;
}

struct answer_options tool_run_answer_options(struct tool_run *run, bool live)
{
    const struct config *c = run->runs->mcp->config;
    return (struct answer_options){.budget = c->text_budget,
                                   .links = !c->no_links && !run->brief,
                                   .brief = run->brief && !run->details,
                                   .details = run->details,
                                   .memory_bytes = run->memory_bytes,
                                   .keep = live ? keep_live : keep_part,
                                   .argument = run};
}

// Sets content, object and is_error, or error.
static void make_answer(struct tool_run *run)
{
    struct answer_options options = tool_run_answer_options(run, false);
    if (run->exec->error.message[0]) {
        run->error = run->exec->error;
        return;
    }
    run->object = exec_json(run->exec);
    run->memory_bytes = run->exec->run ? run->exec->run->request.limits.memory_bytes : 0;
    options.memory_bytes = run->memory_bytes;
    int failed =
        !run->object || json_object_set_new(run->object, "state", json_string("finished")) < 0;
    if (!failed)
        file_resources_tell(run->runs->mcp, run->owner, json_object_get(run->object, "files"));
    if (!failed && run->background)
        background_keep(run);
    if (run->present && !failed)
        return;
    run->content = failed ? NULL : answer_make(&options, run->object);
    run->is_error = run->exec->result.verdict != VERDICT_OK;
    if (!run->content)
        err_set(&run->error, ERR_SYSTEM, 0, "run it again later, or print less",
                "the server is out of memory for the result");
}

// A run that hit a limit is a warning; every other run is a debug message.
static void tell_log(const struct tool_run *run, struct mcp_call *c)
{
    json_t *limit = json_object_get(run->object, "limit");
    enum mcp_level level = json_is_object(limit) ? MCP_WARNING : MCP_DEBUG;
    if (!mcp_logs(c, level))
        return;
    mcp_log(c, level, "runs",
            json_pack("{s:s, s:O*, s:O*, s:O*}", "execution_id", run->id, "verdict",
                      json_object_get(run->object, "verdict"), "limit", limit, "usage",
                      json_object_get(run->object, "usage")));
}

void tool_run_answer(struct tool_run *run, struct mcp_call *c)
{
    c->work = NULL;
    c->cancel = NULL;
    if (run->present && run->error.message[0]) {
        run->present(c, run->arguments, NULL, &run->error);
        return;
    }
    if (run->error.message[0]) {
        tool_error(c, err_code_name(run->error.code), run->error.hint, "%s", run->error.message);
        return;
    }
    tell_log(run, c);
    if (run->present) {
        run->present(c, run->arguments, run->object, NULL);
        return;
    }
    tool_answer(c, json_incref(run->content),
                run->brief ? answer_brief_object(run->object, run->details)
                           : json_incref(run->object),
                run->is_error);
}

static void on_done(struct exec *x)
{
    struct tool_run *run = x->request.argument;
    if (!run)
        return; // the server ends
    make_answer(run);
    run->exec = NULL;
    struct mcp_call *c = run->background ? NULL : TAKE_PTR(run->call);
    if (c)
        tool_run_answer(run, c); // first: the client waits for it
    exec_free(x);
    if (!run->background) {
        tool_run_free(run);
        return;
    }
    timer_stop(&run->tick);
    json_decref(run->arguments);
    run->arguments = NULL;
    run->runs->code_length -= run->code_length;
    run->code_length = 0;
    background_finish(run);
}

// ---- a person answers input() -------------------------------------------------------------------

// Declined, cancelled or refused: the end of stdin.
static void on_answer(struct mcp_call *c, json_t *answers)
{
    struct tool_run *run = c->work;
    json_t *answer = json_object_get(answers, "input"),
           *text = json_object_get(json_object_get(answer, "content"), "text");
    const char *action = json_string_value(json_object_get(answer, "action"));
    struct run *r = run && run->exec ? run->exec->run : NULL;
    if (!r || !run_is_fed(r))
        return; // the run is over; its answer is on its way
    bool accepted = action && strcmp(action, "accept") == 0 && json_is_string(text);
    json_t *line = accepted ? json_sprintf("%s\n", json_string_value(text)) : NULL;
    if (!line || run_feed(r, json_string_value(line), json_string_length(line)) < 0)
        (void)run_feed(r, "", 0);
    json_decref(line);
}

void tool_run_ask(struct exec *x, const char *prompt, size_t length)
{
    struct tool_run *run = x->request.argument;
    struct mcp_call *c = run ? run->call : NULL;
    size_t size = 0;
    if (!c)
        return; // it was cancelled
    // SECURITY: the prompt is the code's, so the person is told that the code asks.
    _cleanup_free_ char *clean = answer_clean(prompt, length, true, &size);
    struct mcp_question question = {
        .key = "input",
        .method = "elicitation/create",
        .may_refuse = true,
        .params = json_pack("{s:o, s:{s:s, s:{s:{s:s, s:s}}, s:[s]}}", "message",
                            json_sprintf("The running code asks for input: %s", clean ? clean : ""),
                            "requestedSchema", "type", "object", "properties", "text", "type",
                            "string", "title", "Input", "required", "text"),
    };
    if (question.params)
        mcp_ask(c, &question, 1, NULL, on_answer);
    else
        (void)run_feed(x->run, "", 0);
}

// ---- the beginning ------------------------------------------------------------------------------

// SECURITY: cancelling kills every process of a run's own box; code in a session is interrupted,
// and killed if it does not stop.
static void cancel_run(struct mcp_call *c)
{
    struct tool_run *run = c->work;
    run->call = NULL;
    exec_cancel(run->exec); // on_done() follows, perhaps at once, and frees the run
}

static struct tool_run *tool_run_new(struct mcp_call *c, const struct tool_run_plan *plan)
{
    struct tool_runs *t = mcp_tool_runs(c->mcp);
    struct tool_run *run = calloc(1, sizeof *run);
    if (!run)
        return NULL;
    *run = (struct tool_run){.runs = t,
                             .arguments = json_incref(plan->arguments),
                             .background = plan->background,
                             .present = plan->present,
                             .code_length = plan->request.code_length,
                             .brief = mcp_tool_is_brief(c->mcp, "execute_python"),
                             .details = json_is_true(json_object_get(plan->arguments, "details")),
                             .begin_us = clock_us()};
    TAILQ_INIT(&run->waiters);
    snprintf(run->owner, sizeof run->owner, "%s", c->owner);
    t->code_length += run->code_length;
    TAILQ_INSERT_TAIL(&t->all, run, all);
    return run;
}

static bool is_admitted(struct mcp_call *c, const struct tool_run_plan *plan)
{
    struct gate *g = c->mcp->gate;
    struct tool_runs *t = mcp_tool_runs(c->mcp);
    struct err e;
    if (!g)
        tool_error(c, err_code_name(ERR_INTERNAL), NULL, "this server cannot run code");
    else if (admission_check(g, c->owner, &e) < 0)
        tool_error(c, err_code_name(e.code), e.hint, "%s", e.message);
    else if (plan->request.code_length > CODE_SMALL &&
             t->code_length + plan->request.code_length > CODE_TOTAL_MAX)
        tool_error(c, err_code_name(ERR_BUSY), "run it again when others have ended",
                   "the runs that are going on have too much code together");
    else
        return !plan->background || background_admits(c);
    return false;
}

void tool_run_start(struct mcp_call *c, const struct tool_run_plan *plan)
{
    _cleanup_(exec_request_clear) struct exec_request request = plan->request;
    request.ends_silently = plan->present != NULL;
    if (!is_admitted(c, plan))
        return;
    struct tool_run *run = tool_run_new(c, plan);
    if (run) {
        if (request.plan) {
            run->plan = *request.plan;
            request.plan = &run->plan;
        }
        request.owner = run->owner;
        request.on_done = on_done;
        request.argument = run;
        run->exec = exec_start(c->mcp->gate, &request);
    }
    if (!run || !run->exec) {
        if (run)
            tool_run_free(run);
        tool_error(c, err_code_name(ERR_SYSTEM), "try again later", "the server is out of memory");
        return;
    }
    memcpy(run->id, run->exec->id, sizeof run->id);
    if (run->background) {
        progress_start(run);
        background_begin(run, c);
        return;
    }
    run->call = c;
    c->work = run;
    c->cancel = cancel_run;
    mcp_call_trim(c); // the run holds its arguments
    progress_start(run);
}
