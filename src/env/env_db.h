// SPDX-License-Identifier: Apache-2.0
//
// env_db: rows of environments, wheels and jobs, in a SQLite database in the folder `rows` of the
// environments folder (keeper/environments.h).  Used by envs.c and env_job.c; only the gate opens
// it.
//
// Invariants:
//   (1) every wheel that an environment names has a row, written after the porter has reported that
//       the wheel is complete.
//   (2) an environment changes in one transaction.
//   (3) a wheel's row is removed before the wheel.

#ifndef CONSTRICTOR_ENV_ENV_DB_H
#define CONSTRICTOR_ENV_ENV_DB_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "env/envs.h"

struct env_db;

#define ENV_DB_PREFIX "environments" // of its files: files/dbfolder.h

enum { ENV_SHA256 = 64, ENV_SCOPE_MAX = 64 };

struct env_row {
    char python[64];
    json_t *requirements; // array of texts
    json_t *lock; // [{"name", "version", "sha256", "wheel", "size", "unpacked", "files", ...}]
    uint64_t bytes;
    int64_t created_ms, used_ms;
};
void env_row_clear(struct env_row *r);

// As catalogue_open().  `in_use`: by another server, so that a damaged one is an error.
struct env_db *env_db_open(int folder, bool in_use, struct err *ret_damage, struct err *e);
void env_db_close(struct env_db *d);

// Has another server changed anything since the last call?
bool env_db_changed(struct env_db *d);

// ---- environments -------------------------------------------------------------------------------

// 1: found, 0: there is none, negative: `e`.
int env_db_get(struct env_db *d, const char *owner, const char *name, struct env_row *ret,
               struct err *e);
// [{"name", "python", "packages", "bytes", "created", "last_used"}] by name; new.
json_t *env_db_list(struct env_db *d, const char *owner, struct err *e);
// Makes or replaces it.  `bytes` and the times are set here.
int env_db_put(struct env_db *d, const char *owner, const char *name, const struct env_row *row,
               int64_t now_ms, struct err *e);
int env_db_delete(struct env_db *d, const char *owner, const char *name, int64_t now_ms,
                  struct err *e); // 1: it was there
void env_db_use(struct env_db *d, const char *owner, const char *name, int64_t now_ms);
int64_t env_db_count(struct env_db *d, const char *owner);
// Removes sets of packages not used since `before_ms`, except the server's own.  Returns how many.
int env_db_forget_sets(struct env_db *d, int64_t before_ms, int64_t now_ms);

// ---- wheels -------------------------------------------------------------------------------------

struct env_wheel {
    char id[ENV_WHEEL_ID + 1];
    char sha256[ENV_SHA256 + 1];
    char scope[ENV_SCOPE_MAX + 1]; // "": every environment may use it
    uint64_t bytes, files;
};

int env_db_add_wheel(struct env_db *d, const struct env_wheel *w, int64_t now_ms, struct err *e);
bool env_db_find_wheel(struct env_db *d, const char *sha256, const char *scope,
                       struct env_wheel *ret);
bool env_db_has_wheel(struct env_db *d, const char *id);
// SHA-256 of the wheels that every environment may use, last used first; new.
json_t *env_db_known(struct env_db *d, size_t most);
// Wheels that no environment has, and that were not used since `before_ms`.
size_t env_db_orphans(struct env_db *d, int64_t before_ms, char (*ret)[ENV_WHEEL_ID + 1],
                      size_t cap);
int env_db_remove_wheel(struct env_db *d, const char *id, struct err *e);
uint64_t env_db_wheel_bytes(struct env_db *d);

// ---- answers of the index -----------------------------------------------------------------------

// The answer stored under this key, if it is not older than `since_ms`; new, or NULL.
json_t *env_db_known_answer(struct env_db *d, const char *key, int64_t since_ms);
// Stores an answer; removes those older than `since_ms`, and the oldest when there are too many.
int env_db_keep_answer(struct env_db *d, const char *key, json_t *said, int64_t now_ms,
                       int64_t since_ms);

// ---- jobs ---------------------------------------------------------------------------------------

// Stores a job's status, as envs_status() shows it.  `server`: the number of the one that does it.
int env_db_put_job(struct env_db *d, const char *id, const char *owner, const char *name,
                   unsigned server, bool over, json_t *status, int64_t now_ms, struct err *e);
json_t *env_db_get_job(struct env_db *d, const char *owner, const char *id); // new, or NULL
// The jobs of an environment, newest first; `owner` NULL: all that have not ended, as {"status",
// "id", "owner", "name", "server"}.
json_t *env_db_jobs(struct env_db *d, const char *owner, const char *name, size_t most);

// ---- servers that share the folder --------------------------------------------------------------

// What began before `oldest_ms` on this server has ended.
int env_db_put_server(struct env_db *d, unsigned number, int64_t oldest_ms);
void env_db_drop_server(struct env_db *d, unsigned number);
json_t *env_db_servers(struct env_db *d); // [[number, oldest_ms]], new

// ---- preloaded modules: env/preload.h -----------------------------------------------------------

json_t *env_db_get_preload(struct env_db *d, const char *owner, const char *name); // new, or NULL
int env_db_put_preload(struct env_db *d, const char *owner, const char *name, json_t *said,
                       struct err *e);

#endif
