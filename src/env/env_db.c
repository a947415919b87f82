// SPDX-License-Identifier: Apache-2.0
//
// env_db: see env_db.h.
//
// SECURITY: files/database.h says what a database that a hostile gate wrote can do.  Only
// well-formed IDs of wheels are passed to a box (envs.c).

#include "env/env_db.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "files/database.h"
#include "json/dump.h"

enum {
    SCHEMA_VERSION = 3,
    VALUE_MAX = 4 << 20,
    JOBS_KEPT = 2000,
    ANSWERS_KEPT = 200,
};

static const char schema[] =
    "BEGIN;"
    "CREATE TABLE environment("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " owner TEXT NOT NULL, name TEXT NOT NULL, python TEXT NOT NULL,"
    " requirements TEXT NOT NULL, lock TEXT NOT NULL, packages INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL, created INTEGER NOT NULL, used INTEGER NOT NULL,"
    " UNIQUE(owner, name));"
    "CREATE TABLE wheel("
    " id TEXT PRIMARY KEY, sha256 TEXT NOT NULL, scope TEXT NOT NULL, bytes INTEGER NOT NULL,"
    " files INTEGER NOT NULL, used INTEGER NOT NULL, UNIQUE(sha256, scope)) WITHOUT ROWID;"
    "CREATE INDEX wheel_used ON wheel(used);"
    "CREATE TABLE member("
    " environment INTEGER NOT NULL, wheel TEXT NOT NULL, PRIMARY KEY(environment, wheel))"
    " WITHOUT ROWID;"
    "CREATE INDEX member_wheel ON member(wheel);"
    "CREATE TABLE job("
    " number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL,"
    " name TEXT NOT NULL, done INTEGER NOT NULL, status TEXT NOT NULL, at INTEGER NOT NULL,"
    " server INTEGER NOT NULL DEFAULT 0);"
    "CREATE INDEX job_name ON job(owner, name, number);"
    "CREATE INDEX job_done ON job(done);"
    "PRAGMA user_version = 3;"
    "COMMIT;";

// Version 1 called an unpacked wheel a layer and its SHA-256 "wheel".  Texts in JSON cannot contain
// the keys that are replaced: a quote inside a text has a backslash before it.
static const char from_version_1[] =
    "BEGIN;"
    "ALTER TABLE layer RENAME TO wheel;"
    "ALTER TABLE wheel RENAME COLUMN wheel TO sha256;"
    "ALTER TABLE member RENAME COLUMN layer TO wheel;"
    "DROP INDEX layer_used;"
    "CREATE INDEX wheel_used ON wheel(used);"
    "DROP INDEX member_layer;"
    "CREATE INDEX member_wheel ON member(wheel);"
    "UPDATE environment SET lock = replace(replace(lock, '\"wheel\":', '\"sha256\":'),"
    " '\"layer\":', '\"wheel\":');"
    "DROP TABLE IF EXISTS answer;"
    "PRAGMA user_version = 2;"
    "COMMIT;";

// One server at a time had the folder, so that no job said whose it was.
static const char from_version_2[] = "BEGIN;"
                                     "ALTER TABLE job ADD COLUMN server INTEGER NOT NULL DEFAULT 0;"
                                     "PRAGMA user_version = 3;"
                                     "COMMIT;";

// Tables that came later and may be lost: they have no schema version.
static const char later_schema[] =
    "CREATE TABLE IF NOT EXISTS answer("
    " key TEXT PRIMARY KEY, said TEXT NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS preload("
    " owner TEXT NOT NULL, name TEXT NOT NULL, said TEXT NOT NULL, PRIMARY KEY(owner, name))"
    " WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS server(number INTEGER PRIMARY KEY, oldest INTEGER NOT NULL);";

#define STATEMENTS(X)                                                                              \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                    \
    X(COMMIT, "COMMIT")                                                                            \
    X(ROLLBACK, "ROLLBACK")                                                                        \
    X(DATA_VERSION, "PRAGMA data_version")                                                         \
    X(GET, "SELECT python, requirements, lock, bytes, created, used, id FROM environment "         \
           "WHERE owner = ?1 AND name = ?2")                                                       \
    X(LIST, "SELECT name, python, packages, bytes, created, used FROM environment "                \
            "WHERE owner = ?1 ORDER BY name")                                                      \
    X(PUT, "INSERT INTO environment(owner, name, python, requirements, lock, packages, bytes, "    \
           "created, used) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8) "                            \
           "ON CONFLICT(owner, name) DO UPDATE SET python = excluded.python, "                     \
           "requirements = excluded.requirements, lock = excluded.lock, "                          \
           "packages = excluded.packages, bytes = excluded.bytes, used = excluded.used")           \
    X(DELETE, "DELETE FROM environment WHERE id = ?1")                                             \
    X(USE, "UPDATE environment SET used = ?3 WHERE owner = ?1 AND name = ?2")                      \
    X(COUNT, "SELECT COUNT(*) FROM environment WHERE owner = ?1")                                  \
    X(OLD_SETS, "SELECT owner, name FROM environment WHERE name LIKE 'set-%' AND used < ?1 "       \
                "AND owner NOT LIKE '@%' LIMIT 64") /* not the server's own */                     \
    X(PART, "DELETE FROM member WHERE environment = ?1")                                           \
    X(PARTED, "UPDATE wheel SET used = ?2 WHERE id IN "                                            \
              "(SELECT wheel FROM member WHERE environment = ?1)")                                 \
    X(JOIN, "INSERT OR IGNORE INTO member(environment, wheel) SELECT ?1, id FROM wheel "           \
            "WHERE id = ?2")                                                                       \
    X(JOINED, "SELECT COUNT(*) FROM member WHERE environment = ?1")                                \
    X(ADD_WHEEL, "INSERT INTO wheel(id, sha256, scope, bytes, files, used) "                       \
                 "VALUES(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT(id) DO UPDATE SET "                   \
                 "used = excluded.used")                                                           \
    X(FIND_WHEEL, "SELECT id, bytes, files FROM wheel WHERE sha256 = ?1 AND scope = ?2")           \
    X(HAS_WHEEL, "SELECT 1 FROM wheel WHERE id = ?1")                                              \
    X(KNOWN, "SELECT sha256 FROM wheel WHERE scope = '' ORDER BY used DESC LIMIT ?1")              \
    X(ORPHANS, "SELECT id FROM wheel WHERE used < ?1 AND NOT EXISTS "                              \
               "(SELECT 1 FROM member WHERE member.wheel = wheel.id) ORDER BY used LIMIT ?2")      \
    X(REMOVE_WHEEL, "DELETE FROM wheel WHERE id = ?1 AND NOT EXISTS "                              \
                    "(SELECT 1 FROM member WHERE member.wheel = ?1)")                              \
    X(WHEEL_BYTES, "SELECT SUM(bytes) FROM wheel")                                                 \
    X(ANSWER, "SELECT said FROM answer WHERE key = ?1 AND at >= ?2")                               \
    X(KEEP_ANSWER, "INSERT INTO answer(key, said, at) VALUES(?1, ?2, ?3) ON CONFLICT(key) DO "     \
                   "UPDATE SET said = excluded.said, at = excluded.at")                            \
    X(TRIM_ANSWERS, "DELETE FROM answer WHERE at < ?1 OR key NOT IN "                              \
                    "(SELECT key FROM answer ORDER BY at DESC LIMIT ?2)")                          \
    X(PUT_JOB, "INSERT INTO job(id, owner, name, done, status, at, server) "                       \
               "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7) "                                               \
               "ON CONFLICT(id) DO UPDATE SET done = excluded.done, status = excluded.status, "    \
               "at = excluded.at")                                                                 \
    X(TRIM_JOBS, "DELETE FROM job WHERE number <= (SELECT MAX(number) FROM job) - ?1")             \
    X(GET_JOB, "SELECT status FROM job WHERE owner = ?1 AND id = ?2")                              \
    X(JOBS, "SELECT status FROM job WHERE owner = ?1 AND name = ?2 ORDER BY number DESC LIMIT ?3") \
    X(JOBS_OF, "SELECT status FROM job WHERE owner = ?1 ORDER BY number DESC LIMIT ?2")            \
    X(LEFT, "SELECT status, id, owner, name, server FROM job WHERE done = 0 LIMIT ?1")             \
    X(PUT_SERVER, "INSERT INTO server(number, oldest) VALUES(?1, ?2) ON CONFLICT(number) DO "      \
                  "UPDATE SET oldest = excluded.oldest")                                           \
    X(DROP_SERVER, "DELETE FROM server WHERE number = ?1")                                         \
    X(SERVERS, "SELECT number, oldest FROM server")                                                \
    X(GET_PRELOAD, "SELECT said FROM preload WHERE owner = ?1 AND name = ?2")                      \
    X(PUT_PRELOAD, "INSERT INTO preload(owner, name, said) VALUES(?1, ?2, ?3) "                    \
                   "ON CONFLICT(owner, name) DO UPDATE SET said = excluded.said")                  \
    X(DROP_PRELOAD, "DELETE FROM preload WHERE owner = ?1 AND name = ?2")

enum statement {
#define X(name, sql) S_##name,
    STATEMENTS(X)
#undef X
        S_MAX
};

static const char *const sql_of[S_MAX] = {
#define X(name, sql) [S_##name] = sql,
    STATEMENTS(X)
#undef X
};

struct env_db {
    struct database db;
    int64_t version; // of the data, as SQLite counts the changes of others
};

void env_row_clear(struct env_row *r)
{
    json_decref(r->requirements);
    json_decref(r->lock);
    *r = (struct env_row){0};
}

// ---- statements ---------------------------------------------------------------------------------

static json_t *take_json(sqlite3_stmt *s, int column)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    return text ? json_loadb(text, (size_t)sqlite3_column_bytes(s, column), 0, NULL) : NULL;
}

bool env_db_changed(struct env_db *d)
{
    int64_t had = d->version;
    d->version = database_number(&d->db, had, S_DATA_VERSION, "");
    return d->version != had;
}

// ---- environments -------------------------------------------------------------------------------

static int64_t find(struct env_db *d, const char *owner, const char *name)
{
    sqlite3_stmt *s = database_bind(&d->db, S_GET, "ss", owner, name);
    int64_t id = sqlite3_step(s) == SQLITE_ROW ? sqlite3_column_int64(s, 6) : 0;
    database_finish(s);
    return id;
}

int env_db_get(struct env_db *d, const char *owner, const char *name, struct env_row *ret,
               struct err *e)
{
    sqlite3_stmt *s = database_bind(&d->db, S_GET, "ss", owner, name);
    int r = sqlite3_step(s);
    *ret = (struct env_row){0};
    if (r == SQLITE_ROW) {
        database_text(s, 0, ret->python, sizeof ret->python);
        ret->requirements = take_json(s, 1);
        ret->lock = take_json(s, 2);
        ret->bytes = (uint64_t)sqlite3_column_int64(s, 3);
        ret->created_ms = sqlite3_column_int64(s, 4);
        ret->used_ms = sqlite3_column_int64(s, 5);
    } else if (r != SQLITE_DONE) {
        (void)database_failed(&d->db, e);
    }
    database_finish(s);
    if (r != SQLITE_ROW)
        return r == SQLITE_DONE ? 0 : -1;
    if (json_is_array(ret->requirements) && json_is_array(ret->lock))
        return 1;
    env_row_clear(ret);
    return err_set(e, ERR_STATE_FOLDER, 0, "reset or delete the environment",
                   "the row of the environment '%s' cannot be read", name);
}

json_t *env_db_list(struct env_db *d, const char *owner, struct err *e)
{
    sqlite3_stmt *s = database_bind(&d->db, S_LIST, "s", owner);
    json_t *list = json_array();
    int r, bad = !list;
    while (!bad && (r = sqlite3_step(s)) == SQLITE_ROW) {
        char created[TEXT_TIME_MAX], used[TEXT_TIME_MAX];
        text_format_time(sqlite3_column_int64(s, 4), created);
        text_format_time(sqlite3_column_int64(s, 5), used);
        bad = json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:s, s:s}", "name",
                                                    sqlite3_column_text(s, 0), "python",
                                                    sqlite3_column_text(s, 1), "packages",
                                                    (json_int_t)sqlite3_column_int64(s, 2), "bytes",
                                                    (json_int_t)sqlite3_column_int64(s, 3),
                                                    "created", created, "last_used", used));
    }
    database_finish(s);
    if (!bad)
        return list;
    json_decref(list);
    (void)err_set(e, ERR_SYSTEM, 0, NULL, "the server is out of memory");
    return NULL;
}

// Its old wheels count as used now, so that they stay for runs that have their folders.
static int part(struct env_db *d, int64_t id, int64_t now_ms, struct err *e)
{
    int r = database_run(&d->db, e, S_PARTED, "ii", id, now_ms);
    return r < 0 ? r : database_run(&d->db, e, S_PART, "i", id);
}

static int put(struct env_db *d, const char *owner, const char *name, const struct env_row *row,
               int64_t now_ms, struct err *e)
{
    _cleanup_free_ char *requirements = dump_text(row->requirements), *lock = dump_text(row->lock);
    json_t *item;
    size_t i;
    uint64_t bytes = 0;
    if (!requirements || !lock)
        return err_set(e, ERR_SYSTEM, 0, NULL, "the server is out of memory");
    json_array_foreach (row->lock, i, item) {
        bytes += (uint64_t)json_integer_value(json_object_get(item, "unpacked"));
    }
    int64_t count = (int64_t)json_array_size(row->lock);
    int r = database_run(&d->db, e, S_PUT, "sssssiii", owner, name, row->python, requirements, lock,
                         count, (int64_t)bytes, now_ms);
    int64_t id = r < 0 ? 0 : find(d, owner, name);
    if (r == 0)
        r = part(d, id, now_ms, e);
    json_array_foreach (row->lock, i, item) {
        const char *wheel = json_string_value(json_object_get(item, "wheel"));
        if (r == 0)
            r = database_run(&d->db, e, S_JOIN, "is", id, wheel ? wheel : "");
    }
    if (r == 0 && database_number(&d->db, 0, S_JOINED, "i", id) != count)
        r = err_set(e, ERR_INTERNAL, 0, "try again", "a wheel of the environment '%s' has no row",
                    name);
    return r;
}

int env_db_put(struct env_db *d, const char *owner, const char *name, const struct env_row *row,
               int64_t now_ms, struct err *e)
{
    int r = database_run(&d->db, e, S_BEGIN, "");
    return r < 0
               ? r
               : database_end(&d->db, put(d, owner, name, row, now_ms, e), S_COMMIT, S_ROLLBACK, e);
}

static int delete (struct env_db *d, int64_t id, int64_t now_ms, struct err *e)
{
    int r = part(d, id, now_ms, e);
    return r < 0 ? r : database_run(&d->db, e, S_DELETE, "i", id);
}

int env_db_delete(struct env_db *d, const char *owner, const char *name, int64_t now_ms,
                  struct err *e)
{
    int r = database_run(&d->db, e, S_BEGIN, "");
    if (r < 0)
        return r;
    int64_t id = find(d, owner, name);
    r = id ? delete (d, id, now_ms, e) : 0;
    r = database_end(&d->db, r < 0 ? r : database_run(&d->db, e, S_DROP_PRELOAD, "ss", owner, name),
                     S_COMMIT, S_ROLLBACK, e);
    return r < 0 ? r : id != 0;
}

void env_db_use(struct env_db *d, const char *owner, const char *name, int64_t now_ms)
{
    (void)database_run(&d->db, NULL, S_USE, "ssi", owner, name, now_ms);
}

int64_t env_db_count(struct env_db *d, const char *owner)
{
    return database_number(&d->db, 0, S_COUNT, "s", owner);
}

int env_db_forget_sets(struct env_db *d, int64_t before_ms, int64_t now_ms)
{
    struct {
        char owner[65], name[ENV_NAME_MAX + 1];
    } found[64];
    size_t n = 0;
    int count = 0;
    sqlite3_stmt *s = database_bind(&d->db, S_OLD_SETS, "i", before_ms);
    while (n < ARRAY_LEN(found) && sqlite3_step(s) == SQLITE_ROW) {
        database_text(s, 0, found[n].owner, sizeof found[n].owner);
        database_text(s, 1, found[n].name, sizeof found[n].name);
        n++;
    }
    database_finish(s);
    for (size_t i = 0; i < n; i++)
        count += env_db_delete(d, found[i].owner, found[i].name, now_ms, NULL) > 0;
    return count;
}

// ---- wheels -------------------------------------------------------------------------------------

int env_db_add_wheel(struct env_db *d, const struct env_wheel *w, int64_t now_ms, struct err *e)
{
    return database_run(&d->db, e, S_ADD_WHEEL, "sssiii", w->id, w->sha256, w->scope,
                        (int64_t)w->bytes, (int64_t)w->files, now_ms);
}

bool env_db_find_wheel(struct env_db *d, const char *sha256, const char *scope,
                       struct env_wheel *ret)
{
    sqlite3_stmt *s = database_bind(&d->db, S_FIND_WHEEL, "ss", sha256, scope);
    bool found = sqlite3_step(s) == SQLITE_ROW;
    *ret = (struct env_wheel){0};
    if (found) {
        database_text(s, 0, ret->id, sizeof ret->id);
        snprintf(ret->sha256, sizeof ret->sha256, "%s", sha256);
        snprintf(ret->scope, sizeof ret->scope, "%s", scope);
        ret->bytes = (uint64_t)sqlite3_column_int64(s, 1);
        ret->files = (uint64_t)sqlite3_column_int64(s, 2);
    }
    database_finish(s);
    return found;
}

bool env_db_has_wheel(struct env_db *d, const char *id)
{
    return database_number(&d->db, 0, S_HAS_WHEEL, "s", id) == 1;
}

json_t *env_db_known(struct env_db *d, size_t most)
{
    sqlite3_stmt *s = database_bind(&d->db, S_KNOWN, "i", (int64_t)most);
    json_t *list = json_array();
    while (list && sqlite3_step(s) == SQLITE_ROW)
        (void)json_array_append_new(list, json_string((const char *)sqlite3_column_text(s, 0)));
    database_finish(s);
    return list;
}

size_t env_db_orphans(struct env_db *d, int64_t before_ms, char (*ret)[ENV_WHEEL_ID + 1],
                      size_t cap)
{
    sqlite3_stmt *s = database_bind(&d->db, S_ORPHANS, "ii", before_ms, (int64_t)cap);
    size_t n = 0;
    while (n < cap && sqlite3_step(s) == SQLITE_ROW)
        database_text(s, 0, ret[n++], ENV_WHEEL_ID + 1);
    database_finish(s);
    return n;
}

int env_db_remove_wheel(struct env_db *d, const char *id, struct err *e)
{
    return database_run(&d->db, e, S_REMOVE_WHEEL, "s", id);
}

uint64_t env_db_wheel_bytes(struct env_db *d)
{
    return (uint64_t)database_number(&d->db, 0, S_WHEEL_BYTES, "");
}

// ---- answers of the index -----------------------------------------------------------------------

json_t *env_db_known_answer(struct env_db *d, const char *key, int64_t since_ms)
{
    sqlite3_stmt *s = database_bind(&d->db, S_ANSWER, "si", key, since_ms);
    json_t *said = sqlite3_step(s) == SQLITE_ROW ? take_json(s, 0) : NULL;
    database_finish(s);
    return said;
}

int env_db_keep_answer(struct env_db *d, const char *key, json_t *said, int64_t now_ms,
                       int64_t since_ms)
{
    _cleanup_free_ char *text = dump_text(said);
    if (!text)
        return -1;
    int r = database_run(&d->db, NULL, S_KEEP_ANSWER, "ssi", key, text, now_ms);
    return r < 0
               ? r
               : database_run(&d->db, NULL, S_TRIM_ANSWERS, "ii", since_ms, (int64_t)ANSWERS_KEPT);
}

// ---- jobs ---------------------------------------------------------------------------------------

int env_db_put_job(struct env_db *d, const char *id, const char *owner, const char *name,
                   unsigned server, bool over, json_t *status, int64_t now_ms, struct err *e)
{
    _cleanup_free_ char *text = dump_text(status);
    if (!text)
        return err_set(e, ERR_SYSTEM, 0, NULL, "the server is out of memory");
    int r = database_run(&d->db, e, S_PUT_JOB, "sssisii", id, owner, name, (int64_t)over, text,
                         now_ms, (int64_t)server);
    if (r == 0 && over)
        r = database_run(&d->db, e, S_TRIM_JOBS, "i", (int64_t)JOBS_KEPT);
    return r;
}

json_t *env_db_get_job(struct env_db *d, const char *owner, const char *id)
{
    sqlite3_stmt *s = database_bind(&d->db, S_GET_JOB, "ss", owner, id);
    json_t *status = sqlite3_step(s) == SQLITE_ROW ? take_json(s, 0) : NULL;
    database_finish(s);
    return status;
}

json_t *env_db_jobs(struct env_db *d, const char *owner, const char *name, size_t most)
{
    sqlite3_stmt *s = !owner  ? database_bind(&d->db, S_LEFT, "i", (int64_t)most)
                      : !name ? database_bind(&d->db, S_JOBS_OF, "si", owner, (int64_t)most)
                              : database_bind(&d->db, S_JOBS, "ssi", owner, name, (int64_t)most);
    json_t *list = json_array();
    while (list && sqlite3_step(s) == SQLITE_ROW) {
        json_t *status = take_json(s, 0);
        if (!owner)
            status = json_pack(
                "{s:o, s:s, s:s, s:s, s:I}", "status", status ? status : json_object(), "id",
                sqlite3_column_text(s, 1), "owner", sqlite3_column_text(s, 2), "name",
                sqlite3_column_text(s, 3), "server", (json_int_t)sqlite3_column_int64(s, 4));
        if (status)
            (void)json_array_append_new(list, status);
    }
    database_finish(s);
    return list;
}

// ---- servers that share the folder --------------------------------------------------------------

int env_db_put_server(struct env_db *d, unsigned number, int64_t oldest_ms)
{
    return database_run(&d->db, NULL, S_PUT_SERVER, "ii", (int64_t)number, oldest_ms);
}

void env_db_drop_server(struct env_db *d, unsigned number)
{
    (void)database_run(&d->db, NULL, S_DROP_SERVER, "i", (int64_t)number);
}

json_t *env_db_servers(struct env_db *d)
{
    sqlite3_stmt *s = database_bind(&d->db, S_SERVERS, "");
    json_t *list = json_array();
    while (list && sqlite3_step(s) == SQLITE_ROW)
        (void)json_array_append_new(list,
                                    json_pack("[I, I]", (json_int_t)sqlite3_column_int64(s, 0),
                                              (json_int_t)sqlite3_column_int64(s, 1)));
    database_finish(s);
    return list;
}

// ---- preloaded modules --------------------------------------------------------------------------

json_t *env_db_get_preload(struct env_db *d, const char *owner, const char *name)
{
    sqlite3_stmt *s = database_bind(&d->db, S_GET_PRELOAD, "ss", owner, name);
    json_t *said = sqlite3_step(s) == SQLITE_ROW ? take_json(s, 0) : NULL;
    database_finish(s);
    return said;
}

int env_db_put_preload(struct env_db *d, const char *owner, const char *name, json_t *said,
                       struct err *e)
{
    _cleanup_free_ char *text = dump_text(said);
    return text ? database_run(&d->db, e, S_PUT_PRELOAD, "sss", owner, name, text)
                : err_set(e, ERR_SYSTEM, 0, NULL, "the server is out of memory");
}

// ---- opening ------------------------------------------------------------------------------------

struct env_db *env_db_open(int folder, bool in_use, struct err *ret_damage, struct err *e)
{
    static const char *const steps[] = {from_version_1, from_version_2};
    static const struct database_plan plan = {.name = ENV_DB_PREFIX,
                                              .what = "the list of environments",
                                              .folder = "the folder environments/rows",
                                              .schema = schema,
                                              .steps = steps,
                                              .version = SCHEMA_VERSION,
                                              .always = later_schema,
                                              .statements = sql_of,
                                              .statement_count = S_MAX,
                                              .value_bytes_max = VALUE_MAX,
                                              // an install that was reported is not lost; the
                                              // porter has synced its wheels before
                                              .survives_power_cut = true};
    struct env_db *d = calloc(1, sizeof *d);
    if (!d) {
        (void)err_set(e, ERR_SYSTEM, ENOMEM, NULL, "open the list of environments");
        return NULL;
    }
    if (database_open(&d->db, &plan, folder, in_use, ret_damage, e) == 0) {
        (void)env_db_changed(d);
        return d;
    }
    free(d);
    return NULL;
}

void env_db_close(struct env_db *d)
{
    if (!d)
        return;
    database_close(&d->db);
    free(d);
}
