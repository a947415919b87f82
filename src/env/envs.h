// SPDX-License-Identifier: Apache-2.0
//
// envs: environments of packages: which there are, what is in them, and the jobs that change them.
// Runs in the gate; rows are in a SQLite database in the environments folder (keeper/state.h),
// wheels beside it are written by the porter (porter/porter.h) after a box resolved and unpacked
// them (python/install/installer.py).
//
// Invariants:
//   (1) an environment's row names only wheels that are complete under their final names.
//   (2) a job changes an environment in one transaction, when everything that it needs is there; a
//       job that fails, or is killed at any moment, changes nothing.
//   (3) jobs of one environment go one after the other, in the order they came.
//   (4) a wheel without an environment is removed when nobody has used it for a while; never one
//       that a live session was told of.

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
    ENV_LOCK_MAX = 256 * 1024, // bytes of a lock that somebody brings
};

#define ENV_BASE "base" // always there: what the interpreter has

// How packages get into wheels (installer/installer.h).
struct env_installer {
    void (*install)(struct env_job *j); // env_job_finish() or env_job_fail() follow
    void (*cancel)(struct env_job *j);  // with j->exec: its end follows
    void (*stop)(struct env_job *j);    // nothing more comes of it
    void (*close)(struct envs *v);
};

// Opens the database; what a killed server left is put right.  0, or negative: there are no
// environments but base, and `e` says why (also what every later call answers).
int envs_open(struct gate *g, const struct env_installer *installer, struct err *e);
void envs_close(struct gate *g);

// ---- for runs -----------------------------------------------------------------------------------

// The folders of an environment as code sees them, ["/opt/wheels/ID", ...], new; NULL for base and
// for an
// error.  Marks it as used.  0, or negative and `e`: env_not_found (with what there is),
// env_not_ready.
int envs_path(struct gate *g, const char *owner, const char *name, json_t **ret, struct err *e);

// The environment for a set of packages (an argument `packages`, or PEP 723 metadata in the code):
// found again by the hash of the normalised set, or made.  `on_ready` comes later, exactly once:
// the name of the environment, or NULL and the error.  NULL: memory is out.
typedef void (*env_ready)(const char *name, const struct err *e, void *argument);
struct env_wait;
struct env_wait *envs_need(struct gate *g, const char *owner, const json_t *requirements,
                           env_ready on_ready, void *argument);
void envs_need_cancel(struct env_wait *w);

// ---- for people ---------------------------------------------------------------------------------

// All of them by name: [{"name", "python", "packages" (how many), "bytes", "created", "last_used",
// "state"}].
json_t *envs_list(struct gate *g, const char *owner);
// One: the same and "requirements", "lock": [{"name", "version", "wheel" (its SHA-256), "size"}],
// "jobs".  NULL and `e`.
json_t *envs_describe(struct gate *g, const char *owner, const char *name, struct err *e);
// [{"name", "version"}] of what can be imported, base's own distributions first ("base": true).
// NULL and `e`. Those of base are asked from a box once for each zygote; on_done comes later.
int envs_create(struct gate *g, const char *owner, const char *name, const char *python,
                struct err *e);
int envs_delete(struct gate *g, const char *owner, const char *name, struct err *e);

enum env_change { ENV_INSTALL, ENV_UNINSTALL, ENV_RESET, ENV_IMPORT };

struct env_job_plan {
    enum env_change change;
    const char *owner, *name;
    bool create;                // make the environment when it is not there
    bool fresh;                 // it was made for this order, and goes when that is refused
    const json_t *requirements; // array of texts: to install, or names to uninstall
    const json_t *constraints;  // the same, or NULL
    const char *lock; // ENV_INSTALL: pylock.toml, or requirements with hashes, in place of
                      // requirements; or NULL
    bool upgrade;
    bool source_builds; // only when the configuration allows it
    int fd;             // ENV_IMPORT: a file that envs_export() wrote, open for reading; borrowed
    // Now and then while it goes on, and once when it has ended; `status` is borrowed.  May be
    // NULL.
    void (*on_progress)(struct env_job *j, const json_t *status, void *argument);
    void (*on_done)(struct env_job *j, const json_t *status, void *argument);
    void *argument;
};

// Queues a job.  NULL and `e`: a bad requirement (named), a bad name, too many jobs.  It goes on
// when nobody listens any more (env_job_forget).
struct env_job *envs_change(struct gate *g, const struct env_job_plan *order, struct err *e);
void env_job_forget(struct env_job *j); // no more calls for this listener
int envs_cancel(struct gate *g, const char *owner, const char *job, struct err *e);
const char *env_job_id(const struct env_job *j);

// {"job", "environment", "state": "queued" | "resolving" | "downloading" | "unpacking" |
// "compiling" | "storing" |
//  "ready" | "failed" | "cancelled", "progress": 0..1, "elapsed_seconds", "log": [...],
//  "requirements": [...],
//  "added": [{"name", "version"}], "removed": [...], "error": {"code", "message", "requirement",
//  "resolver_says",
//  "hint"} or null}.  By id, or the newest of an environment that names a package.  New; NULL and
//  `e`.
json_t *envs_status(struct gate *g, const char *owner, const char *job, struct err *e);
json_t *envs_status_of(struct gate *g, const char *owner, const char *name, const char *package,
                       struct err *e);

// Writes an environment into a file, for ENV_IMPORT on another machine; `fd` is borrowed.
// `on_done` comes later, exactly once: how many bytes it has, or the error; unless it is cancelled.
// NULL and `e`: it is not begun.
typedef void (*env_exported)(uint64_t bytes, const struct err *e, void *argument);
struct env_export;
struct env_export *envs_export(struct gate *g, const char *owner, const char *name, int fd,
                               env_exported on_done, void *argument, struct err *e);
void envs_export_cancel(struct env_export *m); // fine with NULL

// A file without a name beside the database, for an environment on its way in or out; negative and
// `e`: none.
int envs_file(struct gate *g, struct err *e);
// Bytes that such a file may have when it comes in.
uint64_t envs_file_max(const struct config *c);

// Splits "pandas matplotlib>=3", checks each by PEP 508's form.  New array, or NULL and `e` naming
// the entry.
json_t *envs_requirements(const json_t *text_or_list, struct err *e);

#endif
