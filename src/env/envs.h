// SPDX-License-Identifier: Apache-2.0
//
// envs: environments of packages: listing and describing them, and the jobs that change them.  Runs
// in the gate.  Rows are in a SQLite database in the environments folder (keeper/environments.h).
// The porter (porter/porter.h) writes the wheels beside it after a box has resolved and unpacked
// them (python/install/installer.py).
//
// Invariants:
//   (1) an environment's row names only wheels that are complete under their final names.
//   (2) a job changes an environment in one transaction, when everything that it needs is there; a
//       job that fails, or is killed at any moment, changes nothing.
//   (3) jobs of one environment run one after the other, in the order they came.
//   (4) a wheel without an environment is removed when it was not used for a while; never one whose
//       folder a live session may have.

#ifndef CONSTRICTOR_ENV_ENVS_H
#define CONSTRICTOR_ENV_ENVS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct config;
struct gate;
struct envs;
struct env_job;

enum {
    ENV_NAME_MAX = 64,
    ENV_WHEELS_MAX = 512,
    ENV_WHEEL_ID = 32,
    ENV_REQUIREMENTS_MAX = 100,
    ENV_JOB_ID_SIZE = 24,
    ENV_LOG_LINES = 40,        // of a job, the last ones
    ENV_LOCK_MAX = 256 * 1024, // bytes of a client's lock
};

#define ENV_BASE "base" // always there
#define ENV_DATA "data" // default_env.h; made when packages are installed into it

// How packages get into wheels (installer/installer.h).
struct env_installer {
    void (*install)(struct env_job *j); // env_job_finish() or env_job_fail() follow
    void (*cancel)(struct env_job *j);  // with j->exec: env_job_fail() follows
    void (*stop)(struct env_job *j);    // calls no more functions of the job
    void (*close)(struct envs *v);
};

// Opens the database, and ends the jobs that a killed server left.  0, or negative: there are no
// environments but base, and `e` says why (every later call returns it, too).
int envs_open(struct gate *g, const struct env_installer *installer, struct err *e);
void envs_close(struct gate *g);

// ---- for runs -----------------------------------------------------------------------------------

// The folders of an environment as code sees them, ["/opt/wheels/ID", ...], new; NULL: base without
// packages, or an error.  Marks it as used.  0, or negative and `e`: unknown (the hint names the
// others), or made for another Python.
int envs_path(struct gate *g, const char *owner, const char *name, json_t **ret, struct err *e);

// The environment for a set of packages (an argument `packages`, or PEP 723 metadata in the code):
// found by the hash of the normalised set, or made.  `on_ready` is called later, exactly once, with
// the name of the environment, or NULL and the error.  NULL: memory is out.
typedef void (*env_ready)(const char *name, const struct err *e, void *argument);
struct env_wait;
struct env_wait *envs_need(struct gate *g, const char *owner, const json_t *requirements,
                           env_ready on_ready, void *argument);
void envs_need_cancel(struct env_wait *w);

// ---- for people ---------------------------------------------------------------------------------

// All of the owner, by name: [{"name", "python", "packages" (how many), "bytes", "created",
// "last_used", "state"}].
json_t *envs_list(struct gate *g, const char *owner);
// One: the same and "requirements", "lock": [{"name", "version", "wheel" (its SHA-256), "size"}],
// "jobs".  NULL and `e`.
json_t *envs_describe(struct gate *g, const char *owner, const char *name, struct err *e);
// Jobs, the newest first: [{status of envs_status(), "key"}], at most `most` of an owner: new.
json_t *envs_jobs(struct gate *g, const char *owner, size_t most);
int envs_create(struct gate *g, const char *owner, const char *name, const char *python,
                struct err *e);
int envs_delete(struct gate *g, const char *owner, const char *name, struct err *e);

enum env_change { ENV_INSTALL, ENV_UNINSTALL, ENV_RESET, ENV_IMPORT };

struct env_job_plan {
    enum env_change change;
    const char *owner, *name;
    bool create;                // make the environment when it is not there
    bool fresh;                 // it was made for this job, and is deleted if the job is refused
    const json_t *requirements; // array of texts: to install, or names to uninstall
    const json_t *constraints;  // the same, or NULL
    // ENV_INSTALL: pylock.toml, or requirements with hashes, instead of requirements; or NULL.
    const char *lock;
    bool upgrade;
    bool source_builds; // only when the configuration allows it
    int fd;             // ENV_IMPORT: a file that envs_export() wrote, open for reading; borrowed
    // on_progress now and then, on_done once at the end; `status` is borrowed.  May be NULL.
    void (*on_progress)(struct env_job *j, const json_t *status, void *argument);
    void (*on_done)(struct env_job *j, const json_t *status, void *argument);
    void *argument;
};

// Queues a job.  NULL and `e`: a bad requirement (named), a bad name, too many jobs.
struct env_job *envs_change(struct gate *g, const struct env_job_plan *plan, struct err *e);
void env_job_forget(struct env_job *j); // the job goes on, but calls its functions no more
int envs_cancel(struct gate *g, const char *owner, const char *job, struct err *e);
const char *env_job_id(const struct env_job *j);

// {"job", "environment", "state": "queued" | "resolving" | "downloading" | "unpacking" |
//  "compiling" | "storing" | "ready" | "failed" | "cancelled", "progress": 0..1,
//  "elapsed_seconds", "log": [...], "requirements": [...], "added": [{"name", "version"}],
//  "removed": [...], "error": {"code", "message", "requirement", "resolver_says", "hint"} or null}.
// By id, or the newest job of an environment that is about a package (NULL: any).  New; NULL and
// `e`.
json_t *envs_status(struct gate *g, const char *owner, const char *job, struct err *e);
json_t *envs_status_of(struct gate *g, const char *owner, const char *name, const char *package,
                       struct err *e);

// Writes an environment into a file, for ENV_IMPORT on another machine; `fd` is borrowed.
// `on_done` is called later, exactly once, with the file's size or the error, unless the export is
// cancelled.  NULL and `e`: it did not start.
typedef void (*env_exported)(uint64_t bytes, const struct err *e, void *argument);
struct env_export;
struct env_export *envs_export(struct gate *g, const char *owner, const char *name, int fd,
                               env_exported on_done, void *argument, struct err *e);
void envs_export_cancel(struct env_export *m); // fine with NULL

// An unnamed file beside the database, for an environment that is exported or imported; negative
// and `e`: none.
int envs_file(struct gate *g, struct err *e);
// The largest file that may be imported, in bytes.
uint64_t envs_file_max(const struct config *c);

// Splits "pandas matplotlib>=3", checks each by PEP 508's form.  New array, or NULL and `e` naming
// the entry.
json_t *envs_requirements(const json_t *text_or_list, struct err *e);

#endif
