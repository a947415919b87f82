// SPDX-License-Identifier: Apache-2.0
//
// catalogue: see catalogue.h.
//
// SECURITY: files/database.h says what a database that a hostile gate left can do.

#include "files/catalogue.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/database.h"
#include "keeper/state.h"

enum { SCHEMA_VERSION = 1, TEXT_BYTES_MAX = 1 << 16 };

static const char schema[] =
    "BEGIN;"
    "CREATE TABLE artifact("
    " id INTEGER PRIMARY KEY AUTOINCREMENT," // never reused: younger is larger
    " key TEXT NOT NULL UNIQUE,"
    " token TEXT NOT NULL, owner TEXT NOT NULL, place TEXT NOT NULL, execution TEXT NOT NULL,"
    " path TEXT NOT NULL, mime TEXT NOT NULL, size INTEGER NOT NULL, modified INTEGER NOT NULL,"
    " created INTEGER NOT NULL, expires INTEGER NOT NULL,"
    " replaced INTEGER NOT NULL);" // 1: by a later version; 2: its file was removed
    "CREATE INDEX artifact_path ON artifact(owner, place, path, replaced);"
    "CREATE INDEX artifact_age ON artifact(owner, id);"
    "CREATE INDEX artifact_expires ON artifact(expires);"
    "CREATE TABLE gone(key TEXT PRIMARY KEY, reason INTEGER NOT NULL, at INTEGER NOT NULL)"
    " WITHOUT ROWID;"
    "CREATE INDEX gone_at ON gone(at);"
    "PRAGMA user_version = 1;"
    "COMMIT;";

// Sums are computed anew at each start, so no crash can make them wrong.
static const char session_schema[] =
    "CREATE TEMP TABLE usage(owner TEXT PRIMARY KEY, files INTEGER, bytes INTEGER) WITHOUT ROWID;"
    "INSERT INTO temp.usage SELECT owner, COUNT(*), SUM(size) FROM artifact GROUP BY owner;"
    // Names of sessions, as long as they have files.
    "CREATE TABLE IF NOT EXISTS session(owner TEXT NOT NULL, name TEXT NOT NULL, "
    "place TEXT NOT NULL, PRIMARY KEY(owner, name)) WITHOUT ROWID;"
    "CREATE UNIQUE INDEX IF NOT EXISTS session_place ON session(owner, place);"
    "DELETE FROM session WHERE NOT EXISTS (SELECT 1 FROM artifact WHERE "
    "artifact.owner = session.owner AND artifact.place = session.place);";

#define COLUMNS "id, token, owner, place, execution, path, mime, size, modified, created, expires"
#define STATEMENTS(X)                                                                              \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                    \
    X(COMMIT, "COMMIT")                                                                            \
    X(ROLLBACK, "ROLLBACK")                                                                        \
    X(REPLACE, "UPDATE artifact SET replaced = 1 WHERE owner = ?1 AND place = ?2 AND path = ?3 "   \
               "AND replaced = 0")                                                                 \
    X(INSERT, "INSERT INTO artifact(key, token, owner, place, execution, path, mime, size, "       \
              "modified, created, expires, replaced) "                                             \
              "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0)")                           \
    X(DELETE, "DELETE FROM artifact WHERE id = ?1")                                                \
    X(USE, "INSERT INTO temp.usage(owner, files, bytes) VALUES(?1, ?2, ?3) ON CONFLICT(owner) "    \
           "DO UPDATE SET files = files + excluded.files, bytes = bytes + excluded.bytes")         \
    X(USED, "SELECT files, bytes FROM temp.usage WHERE owner = ?1")                                \
    X(USED_ALL, "SELECT SUM(files), SUM(bytes) FROM temp.usage")                                   \
    X(GONE_ADD, "INSERT OR REPLACE INTO gone(key, reason, at) VALUES(?1, ?2, ?3)")                 \
    X(GONE_FIND, "SELECT reason FROM gone WHERE key = ?1")                                         \
    X(GONE_OLD, "DELETE FROM gone WHERE at < ?1")                                                  \
    X(GONE_MANY, "DELETE FROM gone WHERE at <= (SELECT at FROM gone ORDER BY at DESC "             \
                 "LIMIT 1 OFFSET ?1)")                                                             \
    X(BY_KEY, "SELECT " COLUMNS " FROM artifact WHERE key = ?1")                                   \
    X(BY_PATH, "SELECT " COLUMNS " FROM artifact WHERE owner = ?1 AND place = ?2 AND path = ?3 "   \
               "AND replaced <> 1 ORDER BY id DESC LIMIT 1")                                       \
    X(AFTER, "SELECT " COLUMNS " FROM artifact WHERE id > ?1 ORDER BY id LIMIT ?2")                \
    X(DUE, "SELECT " COLUMNS " FROM artifact WHERE expires <= ?1 ORDER BY expires LIMIT ?2")       \
    X(OLDEST, "SELECT " COLUMNS " FROM artifact WHERE owner = ?1 ORDER BY id LIMIT ?2")            \
    X(OF_PATH, "SELECT " COLUMNS " FROM artifact WHERE owner = ?1 AND place = ?2 AND path = ?3 "   \
               "LIMIT ?4")                                                                         \
    X(OF_HOLDER, "SELECT " COLUMNS " FROM artifact WHERE owner = ?1 AND place = ?2 LIMIT ?3")      \
    X(LIST_HOLDER, "SELECT " COLUMNS " FROM artifact WHERE owner = ?1 AND place = ?2 AND "         \
                   "replaced = 0 AND expires > ?3 ORDER BY path LIMIT ?4")                         \
    X(LIST_ALL, "SELECT " COLUMNS " FROM artifact WHERE owner = ?1 AND replaced = 0 AND "          \
                "expires > ?2 ORDER BY id DESC LIMIT ?3")                                          \
    X(COUNT_HOLDER, "SELECT COUNT(*) FROM artifact WHERE owner = ?1 AND place = ?2 AND "           \
                    "replaced = 0 AND expires > ?3")                                               \
    X(COUNT_ALL, "SELECT COUNT(*) FROM artifact WHERE owner = ?1 AND replaced = 0 AND "            \
                 "expires > ?2")                                                                   \
    X(FIRST_DUE, "SELECT MIN(expires) FROM artifact")                                              \
    X(RETIRE, "UPDATE artifact SET replaced = 2 WHERE owner = ?1 AND place = ?2 AND replaced = 0 " \
              "AND (path = ?3 OR (path > ?3 || '/' AND path < ?3 || '0'))")                        \
    X(PROLONG, "UPDATE artifact SET expires = ?3 WHERE owner = ?1 AND place = ?2 AND "             \
               "replaced = 0")                                                                     \
    X(NAME_SET, "INSERT OR REPLACE INTO session(owner, name, place) VALUES(?1, ?2, ?3)")           \
    X(NAME_DROP, "DELETE FROM session WHERE owner = ?1 AND place = ?2")                            \
    X(NAME_UNUSED, "DELETE FROM session WHERE owner = ?1 AND place = ?2 AND NOT EXISTS "           \
                   "(SELECT 1 FROM artifact WHERE owner = ?1 AND place = ?2)")                     \
    X(BY_NAME, "SELECT place FROM session WHERE owner = ?1 AND name = ?2")                         \
    X(NAME_OF, "SELECT name FROM session WHERE owner = ?1 AND place = ?2")

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

struct catalogue {
    struct database db;
};

int catalogue_key(const char *text, size_t length, char ret[CATALOGUE_KEY_LENGTH + 1])
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    if (EVP_Digest(text, length, hash, NULL, EVP_sha256(), NULL) != 1)
        return -1;
    for (size_t i = 0; i < CATALOGUE_KEY_LENGTH / 2; i++)
        snprintf(ret + 2 * i, 3, "%02x", hash[i]);
    return 0;
}

const char *catalogue_name(const struct artifact *a)
{
    const char *slash = strrchr(a->path, '/');
    return slash ? slash + 1 : a->path;
}

// The key of an ended artifact: a hash of its link.
static int link_key(const char *token, const char *name, char ret[CATALOGUE_KEY_LENGTH + 1])
{
    char text[STORE_TOKEN_LENGTH + 1 + STORE_PATH_MAX + 1];
    int n = snprintf(text, sizeof text, "%s/%s", token, name);
    return n < 0 || n >= (int)sizeof text ? -1 : catalogue_key(text, (size_t)n, ret);
}

// ---- statements ---------------------------------------------------------------------------------

static void take_row(sqlite3_stmt *s, struct catalogue_row *row)
{
    struct artifact *a = &row->a;
    int64_t size = sqlite3_column_int64(s, 7);
    *row = (struct catalogue_row){0};
    row->id = sqlite3_column_int64(s, 0);
    database_text(s, 1, a->token, sizeof a->token);
    database_text(s, 2, a->owner, sizeof a->owner);
    database_text(s, 3, a->holder, sizeof a->holder);
    database_text(s, 4, a->execution_id, sizeof a->execution_id);
    database_text(s, 5, a->path, sizeof a->path);
    database_text(s, 6, a->mime_type, sizeof a->mime_type);
    a->size = size < 0 ? 0 : (uint64_t)size;
    a->modified_ms = sqlite3_column_int64(s, 8);
    a->created_ms = sqlite3_column_int64(s, 9);
    a->expires_ms = sqlite3_column_int64(s, 10);
}

static size_t take_rows(sqlite3_stmt *s, struct catalogue_row *ret, size_t cap)
{
    size_t n = 0;
    while (n < cap && sqlite3_step(s) == SQLITE_ROW)
        take_row(s, &ret[n++]);
    database_finish(s);
    return n;
}

static bool take_one(sqlite3_stmt *s, int64_t now_ms, struct artifact *ret)
{
    struct catalogue_row row;
    if (take_rows(s, &row, 1) == 0 || row.a.expires_ms <= now_ms)
        return false;
    *ret = row.a;
    return true;
}

// ---- changes ------------------------------------------------------------------------------------

int catalogue_begin(struct catalogue *c, struct err *e)
{
    return database_run(&c->db, e, S_BEGIN, "");
}

void catalogue_rollback(struct catalogue *c)
{
    (void)database_end(&c->db, -1, S_COMMIT, S_ROLLBACK, NULL);
}

int catalogue_commit(struct catalogue *c, struct err *e)
{
    return database_end(&c->db, 0, S_COMMIT, S_ROLLBACK, e);
}

static int use(struct catalogue *c, const char *owner, int64_t files, int64_t bytes, struct err *e)
{
    return database_run(&c->db, e, S_USE, "sii", owner, files, bytes);
}

int catalogue_add(struct catalogue *c, const struct artifact *a, struct err *e)
{
    char key[CATALOGUE_KEY_LENGTH + 1];
    if (catalogue_key(a->token, strlen(a->token), key) < 0)
        return err_set(e, ERR_SYSTEM, 0, NULL, "hash a token");
    int r = database_run(&c->db, e, S_REPLACE, "sss", a->owner, a->holder, a->path);
    if (r == 0)
        r = database_run(&c->db, e, S_INSERT, "sssssssiiii", key, a->token, a->owner, a->holder,
                         a->execution_id, a->path, a->mime_type, (int64_t)a->size, a->modified_ms,
                         a->created_ms, a->expires_ms);
    return r < 0 ? r : use(c, a->owner, 1, (int64_t)a->size, e);
}

int catalogue_remove(struct catalogue *c, const struct catalogue_row *row, enum catalogue_end end,
                     int64_t now_ms, struct err *e)
{
    const struct artifact *a = &row->a;
    char key[CATALOGUE_KEY_LENGTH + 1];
    int r = database_run(&c->db, e, S_DELETE, "i", row->id);
    if (r == 0)
        r = use(c, a->owner, -1, -(int64_t)a->size, e);
    if (r == 0 && link_key(a->token, catalogue_name(a), key) == 0)
        r = database_run(&c->db, e, S_GONE_ADD, "sii", key, (int64_t)end, now_ms);
    return r < 0 ? r : database_run(&c->db, e, S_NAME_UNUSED, "ss", a->owner, a->holder);
}

int catalogue_retire(struct catalogue *c, const char *owner, const char *holder, const char *path,
                     struct err *e)
{
    return database_run(&c->db, e, S_RETIRE, "sss", owner, holder, path);
}

int catalogue_prolong(struct catalogue *c, const char *owner, const char *holder,
                      int64_t expires_ms, struct err *e)
{
    return database_run(&c->db, e, S_PROLONG, "ssi", owner, holder, expires_ms);
}

int catalogue_set_name(struct catalogue *c, const char *owner, const char *holder, const char *name,
                       struct err *e)
{
    return database_run(&c->db, e, S_NAME_SET, "sss", owner, name, holder);
}

int catalogue_forget_name(struct catalogue *c, const char *owner, const char *holder, struct err *e)
{
    return database_run(&c->db, e, S_NAME_DROP, "ss", owner, holder);
}

int catalogue_trim(struct catalogue *c, int64_t now_ms, struct err *e)
{
    int r = database_run(&c->db, e, S_GONE_OLD, "i", now_ms - CATALOGUE_GONE_MS);
    return r < 0 ? r : database_run(&c->db, e, S_GONE_MANY, "i", (int64_t)CATALOGUE_GONE_MAX);
}

// ---- questions ----------------------------------------------------------------------------------

bool catalogue_by_token(struct catalogue *c, const char *token, int64_t now_ms,
                        struct artifact *ret)
{
    char key[CATALOGUE_KEY_LENGTH + 1];
    struct artifact a;
    // SECURITY: the time of an index lookup tells how much of the text matches.  So the index has a
    // hash, whose beginning an attacker cannot choose, and the token itself is compared in constant
    // time.
    if (strlen(token) != STORE_TOKEN_LENGTH || catalogue_key(token, STORE_TOKEN_LENGTH, key) < 0 ||
        !take_one(database_bind(&c->db, S_BY_KEY, "s", key), now_ms, &a) ||
        CRYPTO_memcmp(a.token, token, STORE_TOKEN_LENGTH) != 0)
        return false;
    *ret = a;
    return true;
}

bool catalogue_has_key(struct catalogue *c, const char *key)
{
    struct catalogue_row row;
    return take_rows(database_bind(&c->db, S_BY_KEY, "s", key), &row, 1) > 0;
}

bool catalogue_by_path(struct catalogue *c, const char *owner, const char *holder, const char *path,
                       int64_t now_ms, struct artifact *ret)
{
    return take_one(database_bind(&c->db, S_BY_PATH, "sss", owner, holder, path), now_ms, ret);
}

bool catalogue_ended(struct catalogue *c, const char *token, const char *name,
                     enum catalogue_end *ret)
{
    char key[CATALOGUE_KEY_LENGTH + 1];
    if (link_key(token, name, key) < 0)
        return false;
    int64_t reason = database_number(&c->db, -1, S_GONE_FIND, "s", key);
    if (reason < END_EXPIRED || reason > END_DAMAGED)
        return false;
    *ret = (enum catalogue_end)reason;
    return true;
}

static bool take_text(sqlite3_stmt *s, char *ret, size_t cap)
{
    bool found = sqlite3_step(s) == SQLITE_ROW;
    if (found)
        database_text(s, 0, ret, cap);
    database_finish(s);
    return found;
}

bool catalogue_by_name(struct catalogue *c, const char *owner, const char *name, char *ret,
                       size_t cap)
{
    return take_text(database_bind(&c->db, S_BY_NAME, "ss", owner, name), ret, cap);
}

bool catalogue_name_of(struct catalogue *c, const char *owner, const char *holder, char *ret,
                       size_t cap)
{
    return take_text(database_bind(&c->db, S_NAME_OF, "ss", owner, holder), ret, cap);
}

size_t catalogue_after(struct catalogue *c, int64_t id, struct catalogue_row *ret, size_t cap)
{
    return take_rows(database_bind(&c->db, S_AFTER, "ii", id, (int64_t)cap), ret, cap);
}

size_t catalogue_due(struct catalogue *c, int64_t now_ms, struct catalogue_row *ret, size_t cap)
{
    return take_rows(database_bind(&c->db, S_DUE, "ii", now_ms, (int64_t)cap), ret, cap);
}

size_t catalogue_oldest(struct catalogue *c, const char *owner, struct catalogue_row *ret,
                        size_t cap)
{
    return take_rows(database_bind(&c->db, S_OLDEST, "si", owner, (int64_t)cap), ret, cap);
}

size_t catalogue_of(struct catalogue *c, const char *owner, const char *holder, const char *path,
                    struct catalogue_row *ret, size_t cap)
{
    int64_t limit = (int64_t)cap;
    return take_rows(path ? database_bind(&c->db, S_OF_PATH, "sssi", owner, holder, path, limit)
                          : database_bind(&c->db, S_OF_HOLDER, "ssi", owner, holder, limit),
                     ret, cap);
}

size_t catalogue_list(struct catalogue *c, const char *owner, const char *holder, int64_t now_ms,
                      struct artifact *ret, size_t cap)
{
    struct catalogue_row row;
    sqlite3_stmt *s =
        holder ? database_bind(&c->db, S_LIST_HOLDER, "ssii", owner, holder, now_ms, (int64_t)cap)
               : database_bind(&c->db, S_LIST_ALL, "sii", owner, now_ms, (int64_t)cap);
    size_t n = 0;
    while (n < cap && sqlite3_step(s) == SQLITE_ROW) {
        take_row(s, &row);
        ret[n++] = row.a;
    }
    database_finish(s);
    return n;
}

uint64_t catalogue_count(struct catalogue *c, const char *owner, const char *holder, int64_t now_ms)
{
    int64_t n = holder ? database_number(&c->db, 0, S_COUNT_HOLDER, "ssi", owner, holder, now_ms)
                       : database_number(&c->db, 0, S_COUNT_ALL, "si", owner, now_ms);
    return (uint64_t)n;
}

int64_t catalogue_first_due(struct catalogue *c)
{
    return database_number(&c->db, -1, S_FIRST_DUE, "");
}

struct store_figures catalogue_figures(struct catalogue *c, const char *owner)
{
    struct store_figures f = {0};
    sqlite3_stmt *s =
        owner ? database_bind(&c->db, S_USED, "s", owner) : c->db.statements[S_USED_ALL];
    if (sqlite3_step(s) == SQLITE_ROW)
        f = (struct store_figures){(uint64_t)sqlite3_column_int64(s, 0),
                                   (uint64_t)sqlite3_column_int64(s, 1)};
    database_finish(s);
    return f;
}

// ---- opening ------------------------------------------------------------------------------------

struct catalogue *catalogue_open(int folder, struct err *ret_damage, struct err *e)
{
    static const struct database_plan plan = {.name = STATE_CATALOGUE_PREFIX,
                                              .what = "the catalogue of artifacts",
                                              .folder = "the state folder",
                                              .schema = schema,
                                              .version = SCHEMA_VERSION,
                                              .always = session_schema,
                                              .statements = sql_of,
                                              .statement_count = S_MAX,
                                              .value_bytes_max = 16 * TEXT_BYTES_MAX};
    struct catalogue *c = calloc(1, sizeof *c);
    if (!c) {
        (void)err_set(e, ERR_SYSTEM, ENOMEM, NULL, "open the catalogue of artifacts");
        return NULL;
    }
    if (database_open(&c->db, &plan, folder, false, ret_damage, e) == 0)
        return c;
    free(c);
    return NULL;
}

void catalogue_close(struct catalogue *c)
{
    if (!c)
        return;
    database_close(&c->db);
    free(c);
}
