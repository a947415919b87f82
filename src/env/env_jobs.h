// SPDX-License-Identifier: Apache-2.0
//
// env_jobs: what envs.c, env_*.c, warm_boxes.c and installer/ share.

#ifndef CONSTRICTOR_ENV_ENV_JOBS_H
#define CONSTRICTOR_ENV_ENV_JOBS_H

#include <stdio.h>
#include <sys/queue.h>

#include "base/timer.h"
#include "env/env_db.h"
#include "env/env_porter.h"
#include "env/env_share.h"
#include "env/envs.h"
#include "files/scratch.h"
#include "run/gate.h"

enum {
    ENV_ACTIVE_MAX = 2, // installations at one time
    ENV_JOBS_MAX = 256, // running or waiting
    ENV_OWNER_JOBS_MAX = 64,
    ENV_IMPORTS_MAX = 4,  // running or waiting, each with its own open file
    ENV_OWNER_MAX = 1000, // environments of one key
    ENV_KNOWN_MAX = 4096, // wheels that the installer in a box need not download
    ENV_TEXT_MAX = 4096,  // bytes of a resolver's explanation
};

#define ENV_STATE_MAP(X)                                                                           \
    X(ENV_QUEUED, "queued")                                                                        \
    X(ENV_RESOLVING, "resolving")                                                                  \
    X(ENV_DOWNLOADING, "downloading")                                                              \
    X(ENV_UNPACKING, "unpacking")                                                                  \
    X(ENV_COMPILING, "compiling")                                                                  \
    X(ENV_STORING, "storing")                                                                      \
    X(ENV_READY, "ready")                                                                          \
    X(ENV_FAILED, "failed")                                                                        \
    X(ENV_CANCELLED, "cancelled")

enum env_state {
#define X(name, text) name,
    ENV_STATE_MAP(X)
#undef X
        ENV_STATE_MAX
};

struct env_bundle {
    char name[SCRATCH_NAME_MAX + 1];
    int fd;
};

struct env_wait {
    struct envs *all;
    struct env_job *job; // NULL: nothing to wait for, `soon` calls on_ready
    struct timer soon;
    char name[ENV_NAME_MAX + 1];
    struct err error;
    env_ready on_ready;
    void *argument;
    TAILQ_ENTRY(env_wait) list; // of the job
};

struct exec;

struct env_job {
    struct envs *all;
    char id[ENV_JOB_ID_SIZE];
    char owner[65], name[ENV_NAME_MAX + 1];
    enum env_change change;
    bool create, upgrade, source_builds;
    json_t *requirements, *constraints; // as asked
    char *lock_text;                    // the same; NULL: none
    void (*on_progress)(struct env_job *j, const json_t *status, void *argument);
    void (*on_done)(struct env_job *j, const json_t *status, void *argument);
    void *argument;
    TAILQ_HEAD(, env_wait) waits;
    TAILQ_ENTRY(env_job) list;
    // Progress.
    enum env_state state;
    bool started, cancelled;
    bool asks_index; // waits until the index is known
    unsigned rounds; // in which it learned hosts of the index
    double progress;
    int64_t began_us, queued_ms, told_us;
    struct timer again;         // stores the result once more, when another server was writing
    unsigned stores;            // how often that was tried
    json_t *log;                // the last lines
    struct env_row row;         // before the job; requirements NULL: there was none
    json_t *wanted;             // all requirements, old and new
    int fd;                     // ENV_IMPORT: the file; -1: none
    char known[ENV_SHA256 + 1]; // env_known.c: the key of its answer; "": it is not stored
    struct exec *exec;
    struct env_bundle bundles[ENV_WHEELS_MAX];
    size_t bundle_count;
    struct env_bundle bundle; // the one that is read out of the box; fd -1: none
    struct err bundle_error;  // why one could not be read
    json_t *answer;           // of the box
    json_t *lock;             // the new one, being made
    struct env_store {
        struct env_ask *ask; // NULL: no request to the porter
        struct env_job *job;
        size_t index; // in the lock
    } * asks;
    size_t ask_count, asks_left;
    json_t *added, *removed, *warnings, *error;
    json_t *notes; // sentences about names that were replaced; NULL: none
};

struct envs {
    struct gate *gate;
    const struct env_installer *installer;
    struct env_db *db; // NULL: `error` says why
    struct err error;
    json_t *paths; // cache of envs_path(), by "owner/name"
    TAILQ_HEAD(, env_job) jobs;
    size_t job_count, active;
    struct env_share share;
    struct timer soon; // starts what can be started
    struct timer tidy; // removes unused wheels
    bool swept;
    size_t removing; // requests to the porter that remove wheels; no install begins meanwhile
    struct env_ask *sweeping;
    // What the box that installs may reach: a rule set of run/network.h; NULL: not known yet.
    json_t *index;
    struct exec *asking;
    // default_env.c
    char default_env[ENV_NAME_MAX + 1]; // what `base` begins with; "": nothing
    struct env_job *filling;            // NULL: it is not being filled
    int64_t told_ms;                    // when its progress was logged
};

int64_t env_now_ms(void);
void env_forget_paths(struct envs *v); // after an environment changed
// Ends the jobs of servers that do not live any more: they changed nothing.
void env_end_left_jobs(struct envs *v, bool own_too);
int env_no_memory(struct err *e);
bool envs_fits_python(const struct envs *v,
                      const struct env_row *row); // were its wheels made for it?
json_t *env_job_status(const struct env_job *j);  // new

// env_job.c
void env_jobs_start_soon(struct envs *v);
void env_job_tell(struct env_job *j, enum env_state state, double progress, const char *text);
void env_job_fail(struct env_job *j, const char *code, const struct err *e); // NULL: e's code
void env_job_finish(struct env_job *j); // `lock` and `wanted` become the environment
void env_job_free(struct env_job *j);
int env_name_new(char ret[ENV_JOB_ID_SIZE]);
// env_lock.c
json_t *env_lock_entry(struct env_job *j, const json_t *package, struct err *e); // new, checked
int env_wheel_set(json_t *entry, const struct env_wheel *w); // of a lock; 0, or memory is out
// env_known.c.  True: the lock is known without a box, and every wheel is there; `request` is what
// the installer in a box would get.
bool env_known_find(struct env_job *j, const json_t *request);
void env_known_keep(struct env_job *j); // stores the box's answer
// env_move.c
void env_import(struct env_job *j); // ENV_IMPORT: env_job_finish() or env_job_fail() follow
// default_env.c
json_t *data_env_modules(void); // that warm boxes of `data` import; new
void default_env_close(struct envs *v);
bool default_env_serves(const struct envs *v, const char *name); // does this `base` begin with it?
// As env_db_get(), but for `base` without a row the row of the default environment.
int default_env_get(struct envs *v, const char *owner, const char *name, struct env_row *ret,
                    struct err *e);
// env_tidy.c
void env_tidy_open(struct envs *v);
void env_tidy_close(struct envs *v);
int env_make_room(struct envs *v, uint64_t bytes, struct err *e);
bool env_lock_wheels(struct envs *v); // for what goes on now; false: try later

#endif
