// SPDX-License-Identifier: Apache-2.0
//
// environments: the routes /environments and below: make, look at, change, remove; see env/envs.h.
// Handlers of rest/route.c; run in the gate.
//
//   1. A change is a job.  The answer comes when the job has ended, or after `wait` seconds (202).
//      With "stream", it is a line of JSON for each step, the last one with the whole state.
//   2. A client that disconnects does not end its job; POST .../cancel does.

#include "rest/environments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "env/env_words.h"
#include "env/envs.h"
#include "env/packages.h"
#include "env/preload.h"
#include "env/warm_boxes.h"
#include "rest/lines.h"

enum {
    WAIT_MS = 30000, // unless the call says otherwise
    LOOK_MS = 100,   // between looks at a job that a call waits for
    BACKLOG_MAX = 64 * 1024,
    QUERY_MAX = 4096,
};

struct rest_job {
    struct env_job *job; // NULL: it has ended, or another owner's
    struct packages *packages;
    char id[ENV_JOB_ID_SIZE];
    int64_t until_ms;
    bool stream, starting;
    struct lines lines;
    json_t *last; // the state, if it ended while it was being started
};

void rest_job_free(struct rest_job *j)
{
    if (!j)
        return;
    if (j->job)
        env_job_forget(j->job);
    packages_cancel(j->packages);
    json_decref(j->last);
    free(j);
}

static void *job_new(struct rest_call *c)
{
    c->job = calloc(1, sizeof *c->job);
    if (!c->job)
        rest_answer(c, 503, NULL);
    return c->job;
}

static struct gate *gate_of(const struct rest_call *c)
{
    return c->rest->gate;
}

// ---- answers ------------------------------------------------------------------------------------

// The status of an answer about a job.  The object of a failed job is also an error.
static int status_of(const struct rest_call *c, const json_t *state)
{
    if (!env_status_is_over(state))
        return 202;
    if (!env_status_is_ready(state))
        return 409;
    return c->route->status;
}

// Takes `state`.  The call is gone afterwards.
static void answer_state(struct rest_call *c, json_t *state)
{
    if (!c->job->stream || !state) {
        rest_answer(c, state ? status_of(c, state) : 503, state);
        return;
    }
    lines_write(&c->job->lines, c, "done", state);
    json_decref(state);
    lines_end(&c->job->lines, c);
}

// ---- jobs ---------------------------------------------------------------------------------------

static void on_progress(struct env_job *j, const json_t *state, void *argument)
{
    struct rest_call *c = argument;
    char text[256];
    (void)j;
    if (!c->job->stream || (c->x ? http_stream_backlog(c->x) > BACKLOG_MAX : !c->key))
        return;
    env_words_progress(state, text, sizeof text);
    json_t *line =
        json_pack("{s:O*, s:O*, s:O*, s:O*, s:O*, s:s}", "job", json_object_get(state, "job"),
                  "environment", json_object_get(state, "environment"), "state",
                  json_object_get(state, "state"), "progress", json_object_get(state, "progress"),
                  "elapsed_seconds", json_object_get(state, "elapsed_seconds"), "message", text);
    if (line)
        lines_write(&c->job->lines, c, "progress", line);
    json_decref(line);
}

static void on_done(struct env_job *j, const json_t *state, void *argument)
{
    struct rest_call *c = argument;
    (void)j;
    if (c->job->starting) {
        c->job->last = json_deep_copy(state);
        return;
    }
    c->job->job = NULL; // this listener gets no more calls
    answer_state(c, json_deep_copy(state));
}

static void set_timer(struct rest_call *c, uint64_t ms, void (*on_timer)(void *argument))
{
    if (!timer_set(&c->timer, gate_of(c)->base, ms, on_timer, c))
        on_timer(c); // no timer: answer with the present state
}

// The time to wait is over; the job goes on.
static void on_waited(void *argument)
{
    struct rest_call *c = argument;
    struct err e;
    if (c->job->job)
        env_job_forget(TAKE_PTR(c->job->job));
    json_t *state = envs_status(gate_of(c), c->owner, c->job->id, &e);
    if (state)
        answer_state(c, state);
    else
        rest_fail_err(c, &e);
}

void rest_start_job(struct rest_call *c, struct env_job_plan *plan, bool stream, uint64_t wait_ms)
{
    struct err e;
    struct rest_job *j = job_new(c);
    if (!j)
        return;
    j->stream = stream;
    lines_init(&j->lines, c->x);
    j->starting = true;
    plan->owner = c->owner;
    plan->on_progress = on_progress;
    plan->on_done = on_done;
    plan->argument = c;
    j->job = envs_change(gate_of(c), plan, &e);
    j->starting = false;
    if (!j->job) {
        rest_fail_err(c, &e);
        return;
    }
    if (j->last) {
        j->job = NULL;
        answer_state(c, TAKE_PTR(j->last));
        return;
    }
    snprintf(j->id, sizeof j->id, "%s", env_job_id(j->job));
    if (!j->stream)
        set_timer(c, wait_ms, on_waited);
}

static void start(struct rest_call *c, struct env_job_plan *plan)
{
    rest_start_job(c, plan, json_is_true(field_get(c->body, "stream", NULL)),
                   field_ms(c->body, "wait", WAIT_MS));
}

// Reads the requirements of a field: 0 (and NULL without it), or -1: answered.
static int requirements(struct rest_call *c, const char *name, json_t **ret)
{
    struct err e;
    json_t *given = field_get(c->body, name, NULL);
    *ret = given ? envs_requirements(given, &e) : NULL;
    if (!given || *ret)
        return 0;
    (void)err_wrap(&e, "field '%s'", name);
    rest_fail_err(c, &e);
    return -1;
}

static void install(struct rest_call *c, const char *name, bool fresh)
{
    json_t *packages, *constraints;
    if (requirements(c, "packages", &packages) < 0)
        return;
    if (requirements(c, "constraints", &constraints) < 0) {
        json_decref(packages);
        return;
    }
    struct env_job_plan plan = {
        .change = ENV_INSTALL,
        .name = name,
        .fresh = fresh,
        .lock = field_text(c->body, "lock", NULL),
        .requirements = packages,
        .constraints = constraints,
        .upgrade = json_is_true(field_get(c->body, "upgrade", NULL)),
        .source_builds = json_is_true(field_get(c->body, "source_builds", NULL)),
    };
    start(c, &plan);
    json_decref(packages);
    json_decref(constraints);
}

void rest_install(struct rest_call *c)
{
    install(c, c->id, false);
}

void rest_uninstall(struct rest_call *c)
{
    char names[QUERY_MAX], all[8] = "";
    struct err e;
    int some = rest_query(c, "packages", names, sizeof names);
    if (some < 0 || rest_query(c, "all", all, sizeof all) < 0)
        return;
    bool every = strcmp(all, "true") == 0 || strcmp(all, "1") == 0;
    if (!!some == every) {
        rest_fail(c, 400, err_code_name(ERR_BAD_VALUE),
                  "add ?packages=NAME for some packages, or ?all=true for all",
                  "the request does not say which packages to remove");
        return;
    }
    json_auto_t *text = some ? json_string(names) : NULL;
    json_t *list = some ? envs_requirements(text, &e) : NULL;
    if (some && !list) {
        (void)err_wrap(&e, "the query parameter 'packages'");
        rest_fail_err(c, &e);
        return;
    }
    struct env_job_plan plan = {
        .change = some ? ENV_UNINSTALL : ENV_RESET, .name = c->id, .requirements = list};
    start(c, &plan);
    json_decref(list);
}

static void on_look(void *argument)
{
    struct rest_call *c = argument;
    struct err e;
    json_t *state = envs_status(gate_of(c), c->owner, c->job->id, &e);
    if (state && !env_status_is_over(state) && clock_ms() < c->job->until_ms &&
        timer_set(&c->timer, gate_of(c)->base, LOOK_MS, on_look, c)) {
        json_decref(state);
        return;
    }
    if (state)
        rest_answer(c, 200, state); // also for a failed job: the request itself succeeded
    else
        rest_fail_err(c, &e);
}

// Jobs belong to the caller, and each is found below its own environment only.
static json_t *find_job(struct rest_call *c, struct err *e)
{
    json_t *state = envs_status(gate_of(c), c->owner, c->job_id, e);
    const char *of = json_string_value(json_object_get(state, "environment"));
    if (!state || (of && strcmp(of, c->id) == 0))
        return state;
    json_decref(state);
    err_set(e, ERR_JOB_UNKNOWN, 0, "see the environment for its jobs",
            "environment '%s' has no job '%s'", c->id, c->job_id);
    return NULL;
}

void rest_get_job(struct rest_call *c)
{
    struct err e;
    uint64_t wait_ms = 0;
    if (rest_query_seconds(c, "wait", REST_WAIT_MAX_S, &wait_ms) < 0)
        return;
    json_t *state = find_job(c, &e);
    if (!state) {
        rest_fail_err(c, &e);
        return;
    }
    if (wait_ms == 0 || env_status_is_over(state)) {
        rest_answer(c, 200, state);
        return;
    }
    json_decref(state);
    struct rest_job *j = job_new(c);
    if (!j)
        return;
    snprintf(j->id, sizeof j->id, "%s", c->job_id);
    j->until_ms = clock_ms() + (int64_t)wait_ms;
    set_timer(c, LOOK_MS, on_look);
}

// POST and not DELETE: the job stays as a record.
void rest_cancel_job(struct rest_call *c)
{
    struct err e;
    json_t *state = find_job(c, &e);
    const char *now = json_string_value(json_object_get(state, "state"));
    if (state && env_status_is_over(state) && now && strcmp(now, "cancelled") == 0) {
        rest_answer(c, 200, state); // cancelled already
        return;
    }
    if (state && env_status_is_over(state)) {
        rest_fail(c, 409, "job_over", "what it did stays; install or remove something instead",
                  "the job has already ended: it is %s", now ? now : "over");
        json_decref(state);
        return;
    }
    if (!state || envs_cancel(gate_of(c), c->owner, c->job_id, &e) < 0) {
        json_decref(state);
        rest_fail_err(c, &e);
        return;
    }
    json_decref(state);
    state = envs_status(gate_of(c), c->owner, c->job_id, &e);
    if (state)
        rest_answer(c, 200, state);
    else
        rest_fail_err(c, &e);
}

// ---- environments -------------------------------------------------------------------------------

void rest_list_environments(struct rest_call *c)
{
    json_t *list = envs_list(gate_of(c), c->owner);
    rest_answer(c, 200,
                list ? json_pack("{s:o, s:I}", "environments", list, "total",
                                 (json_int_t)json_array_size(list))
                     : NULL);
}

// Takes `one`.
static void answer_lock(struct rest_call *c, json_t *one)
{
    _cleanup_free_ char *text = env_words_lock(one);
    json_decref(one);
    if (!text) {
        rest_answer(c, 503, NULL);
        return;
    }
    struct http_exchange *x = rest_let_go(c);
    rest_free(c);
    http_add_header(x, "Cache-Control", "no-store");
    http_reply(x, 200, "text/plain; charset=utf-8", text, strlen(text));
}

void rest_get_environment(struct rest_call *c)
{
    struct err e;
    char format[16] = "";
    if (c->route->query && rest_query(c, "format", format, sizeof format) < 0)
        return;
    bool lock = strcmp(format, "requirements") == 0;
    if (format[0] && !lock && strcmp(format, "json") != 0) {
        rest_fail(c, 400, err_code_name(ERR_BAD_VALUE), "leave it out, or use 'requirements'",
                  "the query parameter 'format' is neither 'json' nor 'requirements'");
        return;
    }
    json_t *one = envs_describe(gate_of(c), c->owner, c->id, &e);
    if (one && lock)
        answer_lock(c, one);
    else if (one)
        rest_answer(c, c->route->status, one);
    else
        rest_fail_err(c, &e);
}

static int create(struct rest_call *c, json_t *preload, struct err *e)
{
    struct gate *g = gate_of(c);
    struct err ignored;
    if (envs_create(g, c->owner, c->id, field_text(c->body, "python", NULL), e) < 0)
        return -1;
    if (!preload || warm_boxes_declare(g, c->owner, c->id, preload, e) >= 0)
        return 0;
    (void)envs_delete(g, c->owner, c->id, &ignored);
    return -1;
}

void rest_post_environment(struct rest_call *c)
{
    struct err e;
    const char *name = field_text(c->body, "name", NULL);
    json_t *packages, *constraints;
    if (strlen(name) != json_string_length(field_get(c->body, "name", NULL))) {
        rest_fail(c, 400, err_code_name(ERR_BAD_VALUE), "remove it",
                  "the name of the environment has a NUL character");
        return;
    }
    // Errors are found before anything is made.
    if (requirements(c, "constraints", &constraints) < 0)
        return;
    json_decref(constraints);
    if (requirements(c, "packages", &packages) < 0)
        return;
    const char *lock = field_text(c->body, "lock", NULL);
    bool some = json_array_size(packages) > 0 || lock;
    bool both = json_array_size(packages) > 0 && lock;
    json_decref(packages);
    if (both) {
        rest_fail(c, 400, err_code_name(ERR_BAD_VALUE), "give one of them",
                  "fields 'packages' and 'lock' both say what to install");
        return;
    }
    json_t *given = field_get(c->body, "preload", NULL);
    json_auto_t *preload = given ? preload_check(given, &e) : NULL;
    if (given && !preload) {
        (void)err_wrap(&e, "field 'preload'");
        rest_fail_err(c, &e);
        return;
    }
    snprintf(c->id, sizeof c->id, "%s", name);
    json_t *old = envs_describe(gate_of(c), c->owner, c->id, &e);
    json_decref(old);
    if (old)
        rest_fail(c, 409, "environment_exists", "use it, or choose another name",
                  "there is an environment '%s' already", c->id);
    else if (create(c, preload, &e) < 0)
        rest_fail_err(c, &e);
    else if (some)
        install(c, c->id, true);
    else
        rest_get_environment(c);
}

void rest_delete_environment(struct rest_call *c)
{
    struct err e;
    if (strcmp(c->id, ENV_BASE) == 0)
        rest_fail(c, 409, "environment_is_base",
                  "to remove what was installed into it, remove all its packages",
                  "the environment '" ENV_BASE "' is always there");
    else if (envs_delete(gate_of(c), c->owner, c->id, &e) < 0)
        rest_fail_err(c, &e);
    else
        rest_answer(c, 200, json_pack("{s:s, s:b}", "environment", c->id, "deleted", 1));
}

static void on_packages(json_t *answer, const struct err *e, void *argument)
{
    struct rest_call *c = argument;
    c->job->packages = NULL;
    if (answer)
        rest_answer(c, 200, json_incref(answer));
    else
        rest_fail_err(c, e);
}

void rest_list_packages(struct rest_call *c)
{
    struct err e;
    struct rest_job *j = job_new(c);
    if (!j)
        return;
    j->packages = packages_ask(gate_of(c), c->owner, c->id, on_packages, c, &e);
    if (!j->packages)
        rest_fail_err(c, &e);
}
