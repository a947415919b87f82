// SPDX-License-Identifier: Apache-2.0
//
// env_job: see envs.h: the queue of jobs that change environments, and how they end.
// installer/installer.c does the work between (the box, the wheels).  Runs in the gate, on its
// event loop.
//
// Invariants:
//   (1) a job is in `jobs` from envs_change() to its end, first come first; `active` counts the
//       started ones.
//   (2) at most one job of an environment is started: the first.
//   (3) a started job has the lock of its environment and, with others, that of the wheels
//       (env_share.h).
//   (4) callbacks are never called from within envs_change() or envs_need().

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "env/env_jobs.h"
#include "env/env_text.h"
#include "env/warm_boxes.h"

enum {
    TELL_EVERY_US = 100000,
    LINE_MAX_BYTES = 300,
    LOOK_MS = 100, // at what another server does
    STORES_MAX = 50,
};

static const char *const state_names[ENV_STATE_MAX] = {
#define X(name, text) [name] = text,
    ENV_STATE_MAP(X)
#undef X
};

int env_name_new(char ret[ENV_JOB_ID_SIZE])
{
    unsigned char bytes[9];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return -1;
    size_t at = (size_t)snprintf(ret, ENV_JOB_ID_SIZE, "job_");
    for (size_t i = 0; i < sizeof bytes; i++, at += 2)
        snprintf(ret + at, ENV_JOB_ID_SIZE - at, "%02x", bytes[i]);
    return 0;
}

// ---- status -------------------------------------------------------------------------------------

static json_t *or_null(json_t *o)
{
    return o ? json_incref(o) : json_null();
}

static json_t *or_list(json_t *o)
{
    return o ? json_incref(o) : json_array();
}

json_t *env_job_status(const struct env_job *j)
{
    static const char *const changes[] = {"install", "uninstall", "reset", "import"};
    double elapsed = j->began_us ? (double)(clock_us() - j->began_us) / 1e6 : 0;
    return json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o}", "job", j->id,
                     "environment", j->name, "change", changes[j->change], "state",
                     state_names[j->state], "progress", j->progress, "elapsed_seconds", elapsed,
                     "log", j->log ? json_deep_copy(j->log) : json_array(), "requirements",
                     or_list(j->requirements), "added", or_list(j->added), "removed",
                     or_list(j->removed), "warnings", or_list(j->warnings), "error",
                     or_null(j->error));
}

static void add_line(struct env_job *j, const char *text)
{
    char line[LINE_MAX_BYTES];
    if (!j->log && !(j->log = json_array()))
        return;
    snprintf(line, sizeof line, "%s", text);
    text_sanitize(line);
    if (json_array_size(j->log) >= ENV_LOG_LINES)
        (void)json_array_remove(j->log, 0);
    (void)json_array_append_new(j->log, json_string(line));
}

static void store_status(struct env_job *j, bool over)
{
    struct envs *v = j->all;
    struct err e;
    json_auto_t *status = env_job_status(j);
    if (!status || env_db_put_job(v->db, j->id, j->owner, j->name, v->share.number, over, status,
                                  env_now_ms(), &e) < 0)
        log_line(LOG_ERROR, "the state of installation %s could not be stored", j->id);
}

void env_job_tell(struct env_job *j, enum env_state state, double progress, const char *text)
{
    bool changed = state != j->state;
    j->state = state;
    if (progress > j->progress)
        j->progress = progress;
    if (text && text[0])
        add_line(j, text);
    if (changed && !env_share_is_alone(&j->all->share))
        store_status(j, false); // for those who ask another server
    int64_t now_us = clock_us();
    if (!j->on_progress || (!changed && now_us - j->told_us < TELL_EVERY_US))
        return;
    j->told_us = now_us;
    json_auto_t *status = env_job_status(j);
    if (status)
        j->on_progress(j, status, j->argument);
}

// ---- the end ------------------------------------------------------------------------------------

void env_job_free(struct env_job *j)
{
    struct envs *v = j->all;
    struct env_wait *w;
    j->all->installer->stop(j);
    TAILQ_REMOVE(&v->jobs, j, list);
    v->job_count--;
    timer_stop(&j->again);
    if (j->started) {
        v->active--;
        env_share_give(&v->share, j->owner, j->name);
        (void)env_lock_wheels(v);
    }
    while ((w = TAILQ_FIRST(&j->waits))) {
        TAILQ_REMOVE(&j->waits, w, list);
        w->job = NULL;
    }
    json_decref(j->requirements);
    json_decref(j->constraints);
    free(j->lock_text);
    json_decref(j->log);
    json_decref(j->wanted);
    json_decref(j->answer);
    json_decref(j->lock);
    json_decref(j->added);
    json_decref(j->removed);
    json_decref(j->warnings);
    json_decref(j->notes);
    json_decref(j->error);
    env_row_clear(&j->row);
    free(j->asks);
    free(j);
}

static void error_of(const struct env_job *j, struct err *e)
{
    const char *message = json_string_value(json_object_get(j->error, "message")),
               *hint = json_string_value(json_object_get(j->error, "hint"));
    (void)err_set(e, j->state == ENV_CANCELLED ? ERR_CANCELLED : ERR_INSTALL, 0, hint, "%s",
                  message ? message : "the packages could not be installed");
}

// Stores the final status, calls on_done and all on_ready, and frees the job.
static void end(struct env_job *j, enum env_state state)
{
    struct envs *v = j->all;
    struct env_wait *w;
    struct err e;
    j->all->installer->stop(j);
    j->state = state;
    if (state == ENV_READY)
        j->progress = 1;
    store_status(j, true);
    json_auto_t *status = env_job_status(j);
    if (j->on_done && status)
        j->on_done(j, status, j->argument);
    if (state != ENV_READY)
        error_of(j, &e);
    while ((w = TAILQ_FIRST(&j->waits))) {
        TAILQ_REMOVE(&j->waits, w, list);
        env_ready on_ready = w->on_ready;
        void *argument = w->argument;
        free(w);
        on_ready(state == ENV_READY ? j->name : NULL, state == ENV_READY ? NULL : &e, argument);
    }
    env_job_free(j);
    env_jobs_start_soon(v);
}

// All requirements as one text, for an error that is not about one of them.
static json_t *all_asked(const struct env_job *j)
{
    char text[300];
    size_t n = 0, i;
    json_t *item;
    json_array_foreach (j->requirements, i, item) {
        const char *own = json_string_value(item);
        if (!own || n + strlen(own) + 2 > sizeof text)
            break;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? " " : "", own);
    }
    return n ? json_string(text) : json_null();
}

void env_job_fail(struct env_job *j, const char *code, const struct err *e)
{
    bool cancelled = j->cancelled;
    if (!j->error)
        j->error = json_pack("{s:s, s:s, s:o, s:n, s:o}", "code",
                             cancelled ? "cancelled"
                             : code    ? code
                                       : err_code_name(e->code),
                             "message", cancelled ? "it was cancelled" : e->message, "requirement",
                             all_asked(j), "resolver_says", "hint",
                             e->hint[0] && !cancelled ? json_string(e->hint) : json_null());
    end(j, cancelled ? ENV_CANCELLED : ENV_FAILED);
}

static json_t *version_in(const json_t *lock, const char *name)
{
    json_t *item;
    size_t i;
    json_array_foreach ((json_t *)lock, i, item) {
        const char *own = json_string_value(json_object_get(item, "name"));
        if (own && strcmp(own, name) == 0)
            return json_object_get(item, "version");
    }
    return NULL;
}

// The packages in `now` that `before` lacks, or has in another version.
static json_t *difference(const json_t *now, const json_t *before)
{
    json_t *list = json_array(), *item;
    size_t i;
    json_array_foreach ((json_t *)now, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        json_t *version = json_object_get(item, "version");
        if (name && !json_equal(version_in(before, name), version))
            (void)json_array_append_new(list,
                                        json_pack("{s:s, s:O}", "name", name, "version", version));
    }
    return list;
}

// After env_known_keep(): they are about this job.
static void note(struct env_job *j)
{
    json_t *all = j->notes ? json_copy(j->notes) : NULL;
    if (!all)
        return;
    if (j->warnings)
        (void)json_array_extend(all, j->warnings);
    json_decref(j->warnings);
    j->warnings = all;
}

// A `base` that is reset begins with the default environment again.
static int store(struct env_job *j, const struct env_row *row, struct err *e)
{
    struct envs *v = j->all;
    struct err ignored;
    if (j->change == ENV_RESET && default_env_serves(v, j->name)) {
        int r = env_db_delete(v->db, j->owner, j->name, env_now_ms(), e);
        struct env_row begins = {0};
        if (r >= 0 && default_env_get(v, j->owner, j->name, &begins, e) > 0) {
            json_decref(j->lock); // what was removed is the rest
            j->lock = json_incref(begins.lock);
        }
        env_row_clear(&begins);
        return r;
    }
    int r = env_db_put(v->db, j->owner, j->name, row, env_now_ms(), e);
    if (r == 0 && !j->row.requirements && strcmp(j->name, ENV_DATA) == 0) {
        json_auto_t *modules = data_env_modules();
        if (modules) // without them, the first runs are only slower
            (void)warm_boxes_declare(v->gate, j->owner, j->name, modules, &ignored);
    }
    return r;
}

static void on_again(void *argument)
{
    env_job_finish(argument);
}

void env_job_finish(struct env_job *j)
{
    struct envs *v = j->all;
    struct env_row row = {.requirements = j->wanted, .lock = j->lock};
    struct err e;
    const struct interp *interp = v->gate->facts->interp;
    snprintf(row.python, sizeof row.python, "%s", interp ? interp->version : "");
    if (!j->create && !j->row.requirements && strcmp(j->name, ENV_BASE) != 0)
        (void)err_set(&e, ERR_ENV_UNKNOWN, 0, "create it first", "there is no environment '%s'",
                      j->name);
    else if (store(j, &row, &e) >= 0) {
        env_forget_paths(v);
        j->added = difference(j->lock, j->row.lock);
        j->removed = difference(j->row.lock, j->lock);
        env_known_keep(j);
        note(j);
        end(j, ENV_READY);
        return;
    } else if (e.code == ERR_BUSY && j->stores++ < STORES_MAX &&
               timer_set(&j->again, v->gate->base, LOOK_MS, on_again, j)) {
        return; // another server was writing
    }
    env_job_fail(j, NULL, &e);
}

// ---- beginning ----------------------------------------------------------------------------------

static int plan_uninstall(struct env_job *j, struct err *e)
{
    json_t *item;
    size_t i;
    char key[ENV_REQUIREMENT_MAX + 1];
    json_array_foreach (j->requirements, i, item) {
        env_key_of(json_string_value(item), key);
        if (env_names_package(j->row.requirements, key))
            continue;
        if (version_in(j->row.lock, key))
            return err_set(e, ERR_BAD_VALUE, 0,
                           "uninstall the package that needs it; this one was not asked for itself",
                           "the package %s is in the environment '%s' because another one needs it",
                           key, j->name);
        return err_set(e, ERR_BAD_VALUE, 0,
                       "list the packages of the environment to see their names",
                       "the package %s is not in the environment '%s'", key, j->name);
    }
    j->wanted = env_without(j->row.requirements, j->requirements);
    return 0;
}

static bool has_all(const json_t *had, const json_t *asked)
{
    json_t *item, *own;
    size_t i, k;
    json_array_foreach ((json_t *)asked, i, item) {
        bool found = false;
        json_array_foreach ((json_t *)had, k, own)
            found |= json_equal(own, item);
        if (!found)
            return false;
    }
    return true;
}

static int plan(struct env_job *j, struct err *e)
{
    struct envs *v = j->all;
    int r = default_env_get(v, j->owner, j->name, &j->row, e);
    if (r < 0)
        return r;
    if (r == 0 && !j->create && strcmp(j->name, ENV_BASE) != 0)
        return err_set(e, ERR_ENV_UNKNOWN, 0, "create it first", "there is no environment '%s'",
                       j->name);
    switch (j->change) {
    case ENV_INSTALL:
        j->wanted = j->lock_text ? json_array() // installer/installer.c adds what the lock names
                                 : env_merge(j->row.requirements, j->requirements);
        break;
    case ENV_UNINSTALL:
        if (plan_uninstall(j, e) < 0)
            return -1;
        break;
    case ENV_RESET:
    case ENV_IMPORT: j->wanted = json_array(); break;
    }
    if (!j->wanted)
        return env_no_memory(e);
    if (json_array_size(j->wanted) > ENV_REQUIREMENTS_MAX)
        return err_set(e, ERR_BAD_VALUE, 0, "use another environment for some of them",
                       "the environment '%s' would have more than %d requirements", j->name,
                       ENV_REQUIREMENTS_MAX);
    return 0;
}

static void start(struct env_job *j)
{
    struct err e;
    j->began_us = clock_us();
    if (plan(j, &e) < 0) {
        env_job_fail(j, NULL, &e);
        return;
    }
    bool known = j->change == ENV_INSTALL && !j->upgrade && !j->lock_text &&
                 json_array_size(j->row.lock) && json_array_size(j->constraints) == 0 &&
                 has_all(j->row.requirements, j->requirements);
    if (j->change == ENV_IMPORT) {
        env_import(j);
        return;
    }
    if (known)
        j->lock = json_incref(j->row.lock);
    else if (json_array_size(j->wanted) == 0 && !j->lock_text)
        j->lock = json_array();
    if (j->lock)
        env_job_finish(j);
    else
        j->all->installer->install(j);
}

static bool is_first(const struct env_job *j)
{
    const struct env_job *other;
    TAILQ_FOREACH (other, &j->all->jobs, list) {
        if (other == j)
            return true;
        if (strcmp(other->owner, j->owner) == 0 && strcmp(other->name, j->name) == 0)
            return false;
    }
    return true;
}

// False: another server changes this environment, or removes wheels.
static bool take(struct env_job *j)
{
    struct envs *v = j->all;
    if (!env_share_take(&v->share, j->owner, j->name))
        return false;
    v->active++;
    if (env_lock_wheels(v)) {
        j->started = true;
        return true;
    }
    v->active--;
    env_share_give(&v->share, j->owner, j->name);
    return false;
}

static void on_soon(void *argument)
{
    struct envs *v = argument;
    struct env_job *j, *next;
    bool waits = false;
    if (v->removing)
        return; // env_tidy.c calls env_jobs_start_soon()
    for (j = TAILQ_FIRST(&v->jobs); j && v->active < ENV_ACTIVE_MAX; j = next) {
        next = TAILQ_NEXT(j, list);
        if (j->started || !is_first(j))
            continue;
        if (!take(j)) {
            waits = true;
            continue;
        }
        start(j); // may free it, and others
        env_jobs_start_soon(v);
        return;
    }
    if (waits && !timer_set(&v->soon, v->gate->base, LOOK_MS, on_soon, v))
        log_line(LOG_ERROR, "out of memory: an installation does not start");
}

void env_jobs_start_soon(struct envs *v)
{
    if (!timer_set(&v->soon, v->gate->base, 0, on_soon, v))
        log_line(LOG_ERROR, "out of memory: an installation does not start");
}

// ---- queueing -----------------------------------------------------------------------------------

static int check_plan(struct envs *v, const struct env_job_plan *o, struct err *e)
{
    const struct config *c = v->gate->facts->config;
    const struct env_job *j;
    struct env_row row;
    unsigned own = 0, imports = 0;
    if (env_check_name(o->name, e) < 0)
        return -1;
    if (o->source_builds && !c->source_builds)
        return err_set(e, ERR_BAD_VALUE, 0, "ask for a version that has wheels",
                       "this server does not build packages from source (--source-builds)");
    if (o->change == ENV_INSTALL && env_check_all_allowed(c, o->requirements, e) < 0)
        return -1;
    TAILQ_FOREACH (j, &v->jobs, list) {
        own += strcmp(j->owner, o->owner) == 0;
        imports += j->change == ENV_IMPORT;
    }
    if (v->job_count >= ENV_JOBS_MAX || own >= ENV_OWNER_JOBS_MAX ||
        (o->change == ENV_IMPORT && imports >= ENV_IMPORTS_MAX))
        return err_set(e, ERR_BUSY, 0, "wait until some are done",
                       "too many installations are running or waiting");
    int r = env_db_get(v->db, o->owner, o->name, &row, e);
    bool used = r > 0 && json_array_size(row.lock);
    env_row_clear(&row);
    if (used && o->change == ENV_IMPORT)
        return err_set(e, ERR_ENV_EXISTS, 0,
                       "give it another name, or delete or reset that environment first",
                       "the environment '%s' already has packages", o->name);
    if (r == 0 && !o->create && strcmp(o->name, ENV_BASE) != 0 && strcmp(o->name, ENV_DATA) != 0)
        return err_set(e, ERR_ENV_UNKNOWN, 0, "create it first, or leave the name out for 'base'",
                       "there is no environment '%s'", o->name);
    if (r == 0 && env_db_count(v->db, o->owner) >= ENV_OWNER_MAX)
        return err_set(e, ERR_QUOTA, 0, "delete some", "there are %d environments already",
                       ENV_OWNER_MAX);
    return r < 0 ? r : 0;
}

static struct env_job *queue_job(struct gate *g, const struct env_job_plan *o, struct err *e)
{
    struct envs *v = g->envs;
    if (!v || !v->db) {
        if (v)
            *e = v->error;
        else
            (void)err_set(e, ERR_STATE_FOLDER, 0, NULL,
                          "there are no environments, because there is no state folder");
        return NULL;
    }
    json_t *requirements = NULL, *constraints = NULL;
    bool has_list = (o->change == ENV_INSTALL && !o->lock) || o->change == ENV_UNINSTALL;
    if (o->lock && (o->change != ENV_INSTALL || strlen(o->lock) > ENV_LOCK_MAX)) {
        (void)err_set(e, ERR_BAD_VALUE, 0, "leave out what is not needed",
                      "the lock is larger than %d KiB", ENV_LOCK_MAX / 1024);
        return NULL;
    }
    if (has_list && !(requirements = envs_requirements(o->requirements, e)))
        return NULL;
    if (o->constraints && json_array_size(o->constraints) &&
        !(constraints = envs_requirements(o->constraints, e))) {
        (void)err_wrap(e, "constraints");
        json_decref(requirements);
        return NULL;
    }
    json_t *notes = NULL;
    if (o->change == ENV_INSTALL && requirements && env_use_packages(requirements, &notes, e) < 0) {
        json_decref(requirements);
        json_decref(constraints);
        return NULL;
    }
    struct env_job_plan checked = *o;
    checked.requirements = requirements;
    char *lock = NULL;
    struct env_job *j = check_plan(v, &checked, e) < 0 ? NULL : calloc(1, sizeof *j);
    if (j && o->lock && !(lock = strdup(o->lock))) {
        (void)env_no_memory(e);
        free(TAKE_PTR(j));
    }
    if (!j) {
        json_decref(notes);
        json_decref(requirements);
        json_decref(constraints);
        return NULL;
    }
    *j = (struct env_job){.all = v,
                          .change = o->change,
                          .create = o->create || strcmp(o->name, ENV_DATA) == 0,
                          .upgrade = o->upgrade,
                          .source_builds = o->source_builds,
                          .bundle = {.fd = -1},
                          .fd = o->change == ENV_IMPORT ? fcntl(o->fd, F_DUPFD_CLOEXEC, 0) : -1,
                          .requirements = requirements,
                          .constraints = constraints,
                          .notes = notes,
                          .lock_text = lock,
                          .on_progress = o->on_progress,
                          .on_done = o->on_done,
                          .argument = o->argument,
                          .queued_ms = env_now_ms()};
    snprintf(j->owner, sizeof j->owner, "%s", o->owner);
    snprintf(j->name, sizeof j->name, "%s", o->name);
    TAILQ_INIT(&j->waits);
    TAILQ_INSERT_TAIL(&v->jobs, j, list);
    v->job_count++;
    json_auto_t *status = env_name_new(j->id) < 0 ? NULL : env_job_status(j);
    int r = status ? env_db_put_job(v->db, j->id, j->owner, j->name, v->share.number, false, status,
                                    j->queued_ms, e)
                   : env_no_memory(e);
    if (r < 0) {
        env_job_free(j);
        return NULL;
    }
    env_jobs_start_soon(v);
    return j;
}

struct env_job *envs_change(struct gate *g, const struct env_job_plan *o, struct err *e)
{
    struct env_job *j = queue_job(g, o, e);
    struct err ignored;
    if (!j && o->fresh)
        (void)envs_delete(g, o->owner, o->name, &ignored);
    return j;
}

void env_job_forget(struct env_job *j)
{
    j->on_progress = NULL;
    j->on_done = NULL;
}

const char *env_job_id(const struct env_job *j)
{
    return j->id;
}

int envs_cancel(struct gate *g, const char *owner, const char *job, struct err *e)
{
    struct envs *v = g->envs;
    struct env_job *j = NULL;
    if (v && v->db)
        TAILQ_FOREACH (j, &v->jobs, list)
            if (strcmp(j->id, job) == 0 && strcmp(j->owner, owner) == 0)
                break;
    if (!j) {
        json_t *status = v && v->db ? envs_status(g, owner, job, e) : NULL;
        const char *state = json_string_value(json_object_get(status, "state"));
        bool over = !state || strcmp(state, "ready") == 0 || strcmp(state, "failed") == 0 ||
                    strcmp(state, "cancelled") == 0;
        json_decref(status);
        return err_set(e, ERR_JOB_UNKNOWN, 0,
                       over ? "ask for the job's status: it may have ended already"
                            : "another server on this state folder runs it: cancel it there",
                       "this server runs no installation with that id");
    }
    j->cancelled = true;
    if (j->exec) {
        v->installer->cancel(j);
        return 0;
    }
    struct err why = {.code = ERR_CANCELLED};
    env_job_fail(j, NULL, &why);
    return 0;
}

// ---- sets of packages ---------------------------------------------------------------------------

static void on_known(void *argument)
{
    struct env_wait *w = argument;
    struct env_wait done = *w;
    free(w);
    done.on_ready(done.error.message[0] ? NULL : done.name, &done.error, done.argument);
}

static struct env_wait *answer_soon(struct env_wait *w)
{
    if (timer_set(&w->soon, w->all->gate->base, 0, on_known, w))
        return w;
    free(w);
    return NULL;
}

struct env_wait *envs_need(struct gate *g, const char *owner, const json_t *requirements,
                           env_ready on_ready, void *argument)
{
    struct envs *v = g->envs;
    struct env_wait *w = v ? calloc(1, sizeof *w) : NULL;
    struct env_row row;
    if (!w)
        return NULL;
    *w = (struct env_wait){.all = v, .on_ready = on_ready, .argument = argument};
    const struct interp *interp = g->facts->interp;
    if (!v->db) {
        w->error = v->error;
        return answer_soon(w);
    }
    if (env_set_name(requirements, interp ? interp->version : "", w->name) < 0) {
        (void)env_no_memory(&w->error);
        return answer_soon(w);
    }
    struct env_job *j;
    TAILQ_FOREACH (j, &v->jobs, list)
        if (strcmp(j->owner, owner) == 0 && strcmp(j->name, w->name) == 0)
            break;
    if (!j) {
        int r = env_db_get(v->db, owner, w->name, &row, &w->error);
        env_row_clear(&row);
        if (r != 0)
            return answer_soon(w);
        struct env_job_plan job = {.change = ENV_INSTALL,
                                   .owner = owner,
                                   .name = w->name,
                                   .create = true,
                                   .requirements = requirements};
        j = envs_change(g, &job, &w->error);
        if (!j)
            return answer_soon(w);
    }
    w->job = j;
    TAILQ_INSERT_TAIL(&j->waits, w, list);
    return w;
}

void envs_need_cancel(struct env_wait *w)
{
    if (w->job)
        TAILQ_REMOVE(&w->job->waits, w, list);
    timer_stop(&w->soon);
    free(w);
}
