// SPDX-License-Identifier: Apache-2.0
//
// exec: see exec.h.  Runs in the gate, on its event loop.

#include "exec/exec.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "config/code_policy.h"
#include "env/restricted_package.h"
#include "env/warm_boxes.h"
#include "exec/exec_internal.h"
#include "exec/exec_meta.h"
#include "exec/exec_network.h"
#include "exec/exec_tiers.h"
#include "exec/history.h"
#include "run/activity.h"
#include "run/rate.h"
#include "json/encode.h"
#include "json/whole.h"

// SECURITY: a limit that a look meets ends the session if the code hangs, so it is above the time
// after which the runner itself gives up (LOOK_S of python/runner/look.py).
enum { LOOK_MS = 10000 };

static void write_next(struct exec *x);

static void stop_op(const struct exec *x)
{
    struct exec_work *w = x->work;
    if (w->op)
        scratch_cancel(TAKE_PTR(w->op));
    if (w->copy)
        store_cancel(TAKE_PTR(w->copy));
}

static void clear_work(const struct exec *x)
{
    struct exec_work *w = x->work;
    if (!w)
        return;
    stop_op(x);
    scratch_list_clear(&w->before);
    scratch_list_clear(&w->now);
    json_decref(w->files);
    json_decref(w->policy);
    json_decref(w->wheels);
    free(w->changes);
    free(w->bytes);
    free(w->stdin_bytes);
    free(w->meta);
    free(w);
}

// ---- before the code ----------------------------------------------------------------------------

// Ends the run, whose code has not started, with this error.
static void give_up(struct exec *x, const struct err *e)
{
    x->error = *e;
    run_cancel(x->run);
}

static void on_before(const struct live_box *b, struct scratch_reply *reply, void *argument)
{
    struct exec *x = argument;
    (void)b;
    x->work->op = NULL;
    if (reply->error.message[0]) {
        give_up(x, &reply->error);
        return;
    }
    x->work->before = reply->list;
    reply->list = (struct scratch_list){0};
    run_go(x->run);
}

// Files that are there before the code runs are not collected.
static void list_before(struct exec *x)
{
    struct err e;
    x->work->op = scratch_list(x->run->box, on_before, x, &e);
    if (!x->work->op)
        give_up(x, &e);
}

static void on_written(const struct live_box *b, struct scratch_reply *reply, void *argument)
{
    struct exec *x = argument;
    struct session *s = x->run->request.session;
    (void)b;
    x->work->op = NULL;
    if (s && x->work->save && !reply->error.message[0])
        session_save_bytes(s, &reply->file, x->work->save, x->work->save_length);
    x->work->save = NULL;
    free(TAKE_PTR(x->work->bytes));
    if (reply->error.message[0]) {
        err_wrap(&reply->error, "files: '%s'", x->work->path);
        give_up(x, &reply->error);
        return;
    }
    write_next(x);
}

static void write_next(struct exec *x)
{
    struct exec_work *w = x->work;
    json_t *file = json_array_get(x->request.files, w->file++);
    struct err e;
    if (!file && w->more_file < x->request.more_count) {
        const struct exec_file *more = &x->request.more_files[w->more_file++];
        snprintf(w->path, sizeof w->path, "%s", more->path);
        w->op = scratch_write(x->run->box, w->path, more->data, more->length, on_written, x, &e);
        if (!w->op)
            give_up(x, &e);
        return;
    }
    if (!file) {
        list_before(x);
        return;
    }
    json_t *text = json_object_get(file, "text"), *coded = json_object_get(file, "base64");
    const void *data = json_string_value(text);
    size_t length = json_string_length(text);
    snprintf(w->path, sizeof w->path, "%s", json_string_value(json_object_get(file, "path")));
    if (coded)
        data = w->bytes =
            decode_base64(json_string_value(coded), json_string_length(coded), &length);
    w->save = data;
    w->save_length = length;
    if (data)
        w->op = scratch_write(x->run->box, w->path, data, length, on_written, x, &e);
    else
        err_set(&e, ERR_SYSTEM, 0, "send less at once", "no memory for the file '%s'", w->path);
    if (!w->op)
        give_up(x, &e);
}

static bool on_box(struct run *r)
{
    struct exec *x = r->request.argument;
    struct session *s = r->request.session;
    struct err e;
    bool brings = json_array_size(x->request.files) > 0 || x->request.more_count > 0;
    // A client has written files since the last run.
    bool looks = s && x->request.collect && s->files_writes != r->box->writes;
    x->run = r;
    if (!brings && !looks)
        return false;
    if (s && session_is_away(s)) { // the box has to switch to this fork first
        if (!run_select(r)) {
            err_set(&e, ERR_SYSTEM, 0, "try again later", "the server is out of memory");
            give_up(x, &e);
        }
    } else if (brings) {
        write_next(x);
    } else {
        list_before(x);
    }
    return true;
}

// ---- the end ------------------------------------------------------------------------------------

// The interpreter counts its runs; the gate's count misses those of a previous gate.
static void take_count(const struct run *r, struct session *s)
{
    json_t *count = json_object_get(r->result, "execution_count");
    if (json_is_integer(count) && json_integer_value(count) >= 0 &&
        json_integer_value(count) < UINT32_MAX)
        s->executions = (unsigned)json_integer_value(count);
}

// The interpreter of a fork crashed without a checkpoint; the box goes on for its other forks.
static bool fork_is_lost(const struct run *r)
{
    const char *state =
        json_string_value(json_object_get(json_object_get(r->result, "checkpoint"), "state"));
    return state && strcmp(state, "lost") == 0;
}

static void note_run(const struct exec *x, const struct run *r)
{
    counters_run(&x->gate->counters, r, &x->result);
    if (x->gate->activity)
        activity_note(x->gate->activity, x->id, x->owner, x->session_id, r, x->result.verdict);
}

static void on_done(struct run *r)
{
    struct exec *x = r->request.argument;
    struct exec_work *w = x->work;
    struct session *s = r->request.session; // NULL: a fresh box, or the session ended
    bool failed = json_is_object(json_object_get(r->result, "error"));
    x->run = r;
    if (!x->error.message[0])
        x->error = r->error;
    if (w->wheels)
        warm_boxes_learn(x->gate, x->owner, w->environment.name,
                         json_object_get(r->result, "imports"));
    w->lost = x->session_id[0] && !s;
    exec_count_uncollected(x, r);
    x->session = s;
    if (s)
        take_count(r, s);
    if (s)
        exec_remember_files(x, s);
    if (s && x->request.action == EXEC_FORK && r->result && !failed && !x->error.message[0]) {
        struct session *fork = session_fork(s, x->request.checkpoint, w->fork_number, &x->error);
        if (fork)
            snprintf(w->fork, sizeof w->fork, "%s", fork->id);
        if (fork && x->gate->histories)
            history_fork(x->gate->histories, s, fork);
    }
    if (!x->error.message[0]) {
        result_judge(r, &x->result);
        if (!x->request.install && !x->request.look) // only code of clients is counted
            note_run(x, r);
        exec_hint(x, s);
        exec_hint_at_network(x, s);
        exec_hint_at_files(x);
    } else {
        x->gate->counters.refused++;
    }
    if (!x->request.look)
        exec_audit(x);
    if (s && fork_is_lost(r)) {
        w->lost = true;
        x->session = NULL;
        r->request.session = NULL;
        session_close(s, SESSION_CRASHED);
    }
    x->request.on_done(x);
}

// ---- the beginning ------------------------------------------------------------------------------

// Finds the session, or opens it on the first use of its name.
static struct session *find_session(struct exec *x)
{
    const struct exec_request *q = &x->request;
    struct gate *g = x->gate;
    struct session_plan plan;
    int64_t when_ms;
    struct session *s = session_find(g, x->owner, q->session, &x->error);
    if (s || session_is_id(q->session) || q->session_must_exist || q->action != EXEC_RUN)
        return s;
    x->error = (struct err){0};
    if (session_check_name(q->session, strlen(q->session), &x->error) < 0)
        return NULL;
    if (q->plan)
        plan = *q->plan;
    else
        session_plan_init(g, &plan);
    if (q->network)
        plan.network = q->network;
    snprintf(plan.name, sizeof plan.name, "%s", q->session);
    if (q->environment && q->environment[0])
        snprintf(plan.environment, sizeof plan.environment, "%s", q->environment);
    plan.limits.readonly |= q->limits.readonly;
    plan.limits.isolation = q->limits.isolation;
    plan.policed = x->work->policy != NULL;
    x->work->previous = session_why_ended(g, x->owner, q->session, &when_ms);
    x->work->opened = true;
    return session_open(g, x->owner, &plan, NULL, NULL, &x->error);
}

static void on_hungry(struct run *r)
{
    struct exec *x = r->request.argument;
    x->run = r;
    x->request.on_hungry(x);
}

static void on_ask(struct run *r, const char *prompt, size_t length)
{
    struct exec *x = r->request.argument;
    x->run = r;
    x->request.on_ask(x, prompt, length);
}

// False: memory is out.
static bool add_stdin(struct exec *x, struct run_request *request)
{
    const struct exec_request *q = &x->request;
    request->has_stdin = q->has_stdin;
    request->stdin_open = q->stdin_open;
    request->stdin_data = q->stdin_text;
    request->stdin_length = q->stdin_length;
    request->on_hungry = q->on_hungry ? on_hungry : NULL;
    request->on_ask = q->on_ask ? on_ask : NULL;
    if (!q->stdin_coded)
        return true;
    request->stdin_data = x->work->stdin_bytes =
        decode_base64(q->stdin_text, q->stdin_length, &request->stdin_length);
    return request->stdin_data != NULL;
}

bool exec_begin(struct exec *x)
{
    const struct exec_request *q = &x->request;
    const struct config *c = x->gate->facts->config;
    struct session *s = NULL;
    // A request with a bad policy opens no session.
    if (q->action == EXEC_RUN && !q->plain &&
        (code_policy_make(c, q->policy, q->allowed_imports, network_is_allowed(x->gate, x->owner),
                          q->scan != NULL, &x->work->policy, &x->error) < 0 ||
         (q->scan && code_policy_scan(x->work->policy, q->scan, &x->error) < 0)))
        return false;
    if (exec_apply_tiers(x, x->work->policy) < 0)
        return false;
    if (q->session && q->session[0]) {
        s = x->gate->sessions ? find_session(x) : NULL;
        if (!s && !x->error.message[0])
            err_set(&x->error, ERR_INTERNAL, 0, NULL, "this server has no sessions");
        if (!s || exec_check_tiers(x, s) < 0 || exec_check_sandbox(x, s) < 0)
            return false;
        snprintf(x->session_id, sizeof x->session_id, "%s", s->id);
        snprintf(x->work->name, sizeof x->work->name, "%s", s->plan.name);
        if (q->action == EXEC_FORK && session_check_fork(s, q->checkpoint, &x->error) < 0)
            return false;
        if (q->action == EXEC_FORK)
            x->work->fork_number = session_next_fork(s);
    }
    if (!q->look &&                                                      // it reaches no host
        exec_use_network(x, s, x->work->opened ? NULL : q->network) < 0) // else the session has it
        return false;
    if (!q->plain && exec_find_path(x, s, &x->work->wheels) < 0)
        return false;
    x->session = s;
    struct exec_meta m = {x->work->policy, x->work->wheels, x->work->fork_number,
                          restricted_package_path(x->gate, x->work->policy)};
    x->work->meta = exec_make_meta(x, s, &m);
    json_decref(m.transformer);
    if (!x->work->meta) {
        err_set(&x->error, ERR_SYSTEM, 0, "send less at once", "the server is out of memory");
        return false;
    }
    uint64_t wall_ms = q->wall_ms ? q->wall_ms
                       : s        ? s->plan.wall_ms
                                  : c->wall_ms,
             cpu_ms = q->cpu_ms ? q->cpu_ms
                      : s       ? s->plan.cpu_ms
                                : 0,
             output = s ? s->plan.output_bytes : c->output_bytes;
    if (q->look && wall_ms < LOOK_MS)
        wall_ms = LOOK_MS;
    if (q->look && cpu_ms && cpu_ms < LOOK_MS)
        cpu_ms = LOOK_MS;
    struct run_request request = {
        .owner = x->owner,
        .code = q->code ? q->code : "",
        .code_length = q->code_length,
        .meta = x->work->meta,
        .meta_length = strlen(x->work->meta),
        .limits = s ? s->plan.limits : q->limits,
        .wall_ms = wall_ms,
        .cpu_ms = config_cpu_ms(c, cpu_ms, wall_ms),
        .output_bytes = q->output_bytes ? q->output_bytes : output,
        .cut_output = q->cut_output,
        .wait_reaped = q->wait_reaped,
        .session = s,
        .network = x->network,
        .policed = x->work->policy != NULL,
        .brief = q->look != NULL,
        .names_line =
            q->action == EXEC_RUN && !q->install && !q->plain && !q->look && !q->ends_silently,
        .wheel_files = q->install && x->gate->facts->config->find_links[0],
        .warm_box =
            exec_warm_box_ask(x, s, x->work->wheels, x->work->policy, &x->work->environment),
        .on_box = on_box,
        .on_answer = exec_collect,
        .on_output = q->on_output ? exec_on_output : NULL,
        .on_done = on_done,
        .argument = x};
    x->run = add_stdin(x, &request) ? run_start(x->gate, &request) : NULL;
    if (!x->run)
        err_set(&x->error, ERR_SYSTEM, 0, "try again later", "the server is out of memory");
    return x->run != NULL;
}

int exec_on_output(struct run *r, enum run_stream stream, struct evbuffer *data)
{
    struct exec *x = r->request.argument;
    return x->request.on_output(x, stream, data);
}

// All fields that a request owns; the only list of them.
static const size_t owned[] = {
    offsetof(struct exec_request, argv),      offsetof(struct exec_request, files),
    offsetof(struct exec_request, variables), offsetof(struct exec_request, network),
    offsetof(struct exec_request, packages),  offsetof(struct exec_request, install),
    offsetof(struct exec_request, env_vars),  offsetof(struct exec_request, look),
};

void exec_request_clear(struct exec_request *q)
{
    for (size_t i = 0; i < ARRAY_LEN(owned); i++) {
        json_t **field = (json_t **)((char *)q + owned[i]);
        json_decref(TAKE_PTR(*field));
    }
}

// Leaves nothing in `from` that has to be freed.
static struct exec_request take_request(struct exec_request *from)
{
    struct exec_request q = *from;
    for (size_t i = 0; i < ARRAY_LEN(owned); i++)
        *(json_t **)((char *)from + owned[i]) = NULL;
    return q;
}

struct exec *exec_start(struct gate *g, struct exec_request *request)
{
    _cleanup_(exec_request_clear) struct exec_request q = take_request(request);
    struct exec *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    *x = (struct exec){.gate = g, .request = take_request(&q), .work = calloc(1, sizeof *x->work)};
    snprintf(x->owner, sizeof x->owner, "%s", request->owner ? request->owner : "");
    x->request.owner = x->owner;
    if (!x->work || !(x->work->files = json_array()) || id_new(x->id) < 0) {
        exec_free(x);
        return NULL;
    }
    if (!g->execs.tqh_last)
        TAILQ_INIT(&g->execs);
    TAILQ_INSERT_TAIL(&g->execs, x, list);
    exec_audit_begin(x);
    // Runs that the gate itself needs do not count for the key's --rate.
    bool allowed = request->action != EXEC_RUN || request->plain ||
                   rates_take(g->rates, x->owner, clock_us(), &x->error) == 0;
    int wait = allowed ? exec_wait_for_packages(x) : -1;
    if (wait > 0 || (wait == 0 && exec_begin(x)))
        return x;
    // on_done comes later: the caller does not have `x` yet.
    g->counters.refused++;
    exec_audit(x);
    if (!exec_end_soon(x)) {
        exec_free(x);
        return NULL;
    }
    return x;
}

void exec_cancel(struct exec *x)
{
    struct exec_work *w = x->work;
    struct err e;
    (void)err_set(&e, ERR_CANCELLED, 0, NULL, "the run was cancelled");
    if (x->packages && exec_cancel_packages(x)) {
        if (!exec_end_soon(x))
            log_line(LOG_ERROR,
                     "out of memory: a cancelled run that waits for packages never ends");
        return;
    }
    if (!x->run || timer_is_set(&x->soon))
        return;
    exec_end_taker(x, 0, &e);
    stop_op(x);
    w->change_count = w->change; // nothing more is collected
    run_cancel(x->run);
}

void exec_interrupt(struct exec *x)
{
    if (x->run)
        run_interrupt(x->run);
}

void exec_free(struct exec *x)
{
    if (!x)
        return;
    timer_stop(&x->soon);
    if (x->list.tqe_prev)
        TAILQ_REMOVE(&x->gate->execs, x, list);
    exec_free_packages(x);
    run_free(x->run);
    network_run_free(x->network);
    clear_work(x);
    exec_request_clear(&x->request);
    free(x);
}

// ---- the object ---------------------------------------------------------------------------------

static int set_session(struct exec *x, json_t *o)
{
    struct exec_work *w = x->work;
    const struct session *s = x->session;
    char hint[640];
    int failed =
        json_object_set_new(o, "session", json_string(x->session_id)) |
        json_object_set_new(o, "session_name", w->name[0] ? json_string(w->name) : json_null()) |
        json_object_set_new(o, "session_state",
                            json_string(w->lost     ? "lost"
                                        : w->opened ? "new"
                                                    : "open"));
    if (w->fork[0])
        failed |= json_object_set_new(o, "fork", json_string(w->fork));
    const char *old = json_string_value(json_object_get(o, "hint"));
    if (w->lost)
        snprintf(hint, sizeof hint, "%s%sthe session ended with this run; its variables are lost",
                 old ? old : "", old ? "; " : "");
    else if (w->opened && s && (s->restored || s->not_restored))
        snprintf(
            hint, sizeof hint,
            "%s%sthe session of this name %s and was opened again: %u of its files are back in "
            "/mnt/data, %u are not; its variables and imports are gone",
            old ? old : "", old ? "; " : "",
            w->previous == SESSION_OPEN ? "ended" : session_end_words[w->previous], s->restored,
            s->not_restored);
    else if (w->opened && w->previous != SESSION_OPEN)
        snprintf(hint, sizeof hint, "%s%sthis is a new session: the earlier one of this name %s",
                 old ? old : "", old ? "; " : "", session_end_words[w->previous]);
    else if (x->session && x->session->network_lost)
        snprintf(hint, sizeof hint,
                 "%s%sthe server was restarted, and this session's network rules were too long to "
                 "save: it has no network any more",
                 old ? old : "", old ? "; " : "");
    else if (x->result.limit != LIMIT_NONE || x->result.verdict == VERDICT_CANCELLED)
        snprintf(hint, sizeof hint, "%s%sthe session and its variables are kept", old ? old : "",
                 old ? "; " : "");
    else
        return failed;
    return failed | json_object_set_new(o, "hint", json_string(hint));
}

static void note_history(const struct exec *x, json_t *object)
{
    const struct exec_request *q = &x->request;
    bool undo = q->action == EXEC_UNDO && x->result.verdict == VERDICT_OK;
    if (!x->session_id[0] || !x->gate->histories || x->work->noted ||
        !(undo || (q->action == EXEC_RUN && q->code_length)))
        return;
    x->work->noted = true;
    history_note(x->gate->histories, &(struct history_run){.owner = x->owner,
                                                           .session = x->session_id,
                                                           .code = q->code,
                                                           .code_length = q->code_length,
                                                           .undo = undo,
                                                           .run = x->run,
                                                           .object = object});
}

json_t *exec_json(struct exec *x)
{
    struct exec_work *w = x->work;
    json_t *o = result_json(x->run, &x->result, x->id);
    if (!o)
        return NULL;
    int failed = json_object_set(o, "files", w->files);
    if (w->odd)
        failed |= json_object_set_new(o, "files_odd", json_integer((json_int_t)w->odd));
    if (w->omitted)
        failed |= json_object_set_new(o, "files_omitted", json_integer((json_int_t)w->omitted));
    if (w->file_error.message[0]) {
        char text[ERR_MESSAGE_MAX + ERR_HINT_MAX + 8];
        snprintf(text, sizeof text, "%s%s%s", w->file_error.message,
                 w->file_error.hint[0] ? "; " : "", w->file_error.hint);
        text_sanitize(text);
        failed |= json_object_set_new(o, "files_error", json_string(text));
    }
    if (x->session_id[0])
        failed |= set_session(x, o);
    o = json_whole(o, failed);
    if (o)
        note_history(x, o);
    return o;
}
