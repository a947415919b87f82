// SPDX-License-Identifier: Apache-2.0
//
// catalogue: see catalogue.h.
//
// SECURITY: the database may have been left by a gate that was taken over.  So nothing in its
// schema is run (no triggers, no views, no functions), texts and numbers are bounded when they are
// read, and a database that does not look as it should is put aside.

#include "files/catalogue.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "files/dbfolder.h"
#include "keeper/state.h"

#define DATABASE STATE_CATALOGUE_PREFIX ".db"
#define DAMAGED STATE_CATALOGUE_PREFIX ".damaged"

enum { SCHEMA_VERSION = 1, BUSY_MS = 2000, TEXT_BYTES_MAX = 1 << 16 };

static const char schema[] =
    "BEGIN;"
    "CREATE TABLE artifact("
    " id INTEGER PRIMARY KEY AUTOINCREMENT," // never used twice: younger is larger
    " key TEXT NOT NULL UNIQUE,"
    " token TEXT NOT NULL, owner TEXT NOT NULL, place TEXT NOT NULL, execution TEXT NOT NULL,"
    " path TEXT NOT NULL, mime TEXT NOT NULL, size INTEGER NOT NULL, modified INTEGER NOT NULL,"
    " created INTEGER NOT NULL, expires INTEGER NOT NULL, replaced INTEGER NOT NULL);"
    "CREATE INDEX artifact_path ON artifact(owner, place, path, replaced);"
    "CREATE INDEX artifact_age ON artifact(owner, id);"
    "CREATE INDEX artifact_expires ON artifact(expires);"
    "CREATE TABLE gone(key TEXT PRIMARY KEY, reason INTEGER NOT NULL, at INTEGER NOT NULL)"
    " WITHOUT ROWID;"
    "CREATE INDEX gone_at ON gone(at);"
    "PRAGMA user_version = 1;"
    "COMMIT;";

// Sums are counted anew at each start: they are never wrong, and no crash can make them so.
static const char session_schema[] =
    "CREATE TEMP TABLE usage(owner TEXT PRIMARY KEY, files INTEGER, bytes INTEGER) WITHOUT ROWID;"
    "INSERT INTO temp.usage SELECT owner, COUNT(*), SUM(size) FROM artifact GROUP BY owner;";

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
               "AND replaced = 0 LIMIT 1")                                                         \
    X(AFTER, "SELECT " COLUMNS " FROM artifact WHERE id > ?1 ORDER BY id LIMIT ?2")                \
    X(DUE, "SELECT " COLUMNS " FROM artifact WHERE expires <= ?1 ORDER BY expires LIMIT ?2")       \
    X(OLDEST, "SELECT " COLUMNS " FROM artifact WHERE owner = ?1 ORDER BY id LIMIT ?2")            \
    X(OF_PATH, "SELECT " COLUMNS " FROM artifact WHERE owner = ?1 AND place = ?2 AND path = ?3 "   \
               "LIMIT ?4")                                                                         \
    X(OF_PLACE, "SELECT " COLUMNS " FROM artifact WHERE owner = ?1 AND place = ?2 LIMIT ?3")       \
    X(LIST_PLACE, "SELECT " COLUMNS " FROM artifact WHERE owner = ?1 AND place = ?2 AND "          \
                  "replaced = 0 AND expires > ?3 ORDER BY path LIMIT ?4")                          \
    X(LIST_ALL, "SELECT " COLUMNS " FROM artifact WHERE owner = ?1 AND replaced = 0 AND "          \
                "expires > ?2 ORDER BY id DESC LIMIT ?3")                                          \
    X(COUNT_PLACE, "SELECT COUNT(*) FROM artifact WHERE owner = ?1 AND place = ?2 AND "            \
                   "replaced = 0 AND expires > ?3")                                                \
    X(COUNT_ALL, "SELECT COUNT(*) FROM artifact WHERE owner = ?1 AND replaced = 0 AND "            \
                 "expires > ?2")                                                                   \
    X(FIRST_DUE, "SELECT MIN(expires) FROM artifact")

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
    sqlite3 *db;
    sqlite3_stmt *statements[S_MAX];
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

// What an artifact is remembered by after its end: its link, and that not readable.
static int link_key(const char *token, const char *name, char ret[CATALOGUE_KEY_LENGTH + 1])
{
    char text[STORE_TOKEN_LENGTH + 1 + STORE_PATH_MAX + 1];
    int n = snprintf(text, sizeof text, "%s/%s", token, name);
    return n < 0 || n >= (int)sizeof text ? -1 : catalogue_key(text, (size_t)n, ret);
}

// ---- statements ---------------------------------------------------------------------------------

static int failed(const struct catalogue *c, struct err *e)
{
    int code = sqlite3_extended_errcode(c->db), primary = code & 0xff;
    if (primary == SQLITE_FULL ||
        (primary == SQLITE_IOERR && sqlite3_system_errno(c->db) == ENOSPC))
        return err_set(e, ERR_DISK_FULL, 0, "make room on the disk of the state folder",
                       "the catalogue of artifacts cannot grow: the disk is full");
    return err_set(e, ERR_STATE_FOLDER, 0,
                   "look at the state folder; a damaged catalogue is replaced at the next start",
                   "the catalogue of artifacts: %s (%d)", sqlite3_errmsg(c->db), code);
}

// A statement with its values: 's' const char *, 'i' int64_t.
static sqlite3_stmt *prepare(struct catalogue *c, enum statement which, const char *types, ...)
{
    sqlite3_stmt *s = c->statements[which];
    va_list ap;
    va_start(ap, types);
    for (int i = 0; types[i]; i++) // lengths are bounded by struct artifact
        if (types[i] == 's')
            (void)sqlite3_bind_text(s, i + 1, va_arg(ap, const char *), -1, SQLITE_TRANSIENT);
        else
            (void)sqlite3_bind_int64(s, i + 1, va_arg(ap, int64_t));
    va_end(ap);
    return s;
}

static void finish(sqlite3_stmt *s)
{
    (void)sqlite3_reset(s); // says again what the step said
    (void)sqlite3_clear_bindings(s);
}

static int run(const struct catalogue *c, sqlite3_stmt *s, struct err *e)
{
    int r = sqlite3_step(s) == SQLITE_DONE ? 0 : failed(c, e);
    finish(s);
    return r;
}

static void take_text(sqlite3_stmt *s, int column, char *ret, size_t cap)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    snprintf(ret, cap, "%s", text ? text : "");
}

static void take_row(sqlite3_stmt *s, struct catalogue_row *row)
{
    struct artifact *a = &row->a;
    int64_t size = sqlite3_column_int64(s, 7);
    *row = (struct catalogue_row){0};
    row->id = sqlite3_column_int64(s, 0);
    take_text(s, 1, a->token, sizeof a->token);
    take_text(s, 2, a->owner, sizeof a->owner);
    take_text(s, 3, a->place, sizeof a->place);
    take_text(s, 4, a->execution_id, sizeof a->execution_id);
    take_text(s, 5, a->path, sizeof a->path);
    take_text(s, 6, a->mime_type, sizeof a->mime_type);
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
    finish(s);
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

static int64_t take_number(sqlite3_stmt *s, int64_t otherwise)
{
    int64_t n = otherwise;
    if (sqlite3_step(s) == SQLITE_ROW && sqlite3_column_type(s, 0) == SQLITE_INTEGER)
        n = sqlite3_column_int64(s, 0);
    finish(s);
    return n;
}

// ---- changes ------------------------------------------------------------------------------------

int catalogue_begin(struct catalogue *c, struct err *e)
{
    return run(c, c->statements[S_BEGIN], e);
}

void catalogue_rollback(struct catalogue *c)
{
    if (!sqlite3_get_autocommit(c->db))
        (void)run(c, c->statements[S_ROLLBACK], NULL);
}

int catalogue_commit(struct catalogue *c, struct err *e)
{
    int r = run(c, c->statements[S_COMMIT], e);
    if (r < 0)
        catalogue_rollback(c);
    return r;
}

static int use(struct catalogue *c, const char *owner, int64_t files, int64_t bytes, struct err *e)
{
    return run(c, prepare(c, S_USE, "sii", owner, files, bytes), e);
}

int catalogue_add(struct catalogue *c, const struct artifact *a, struct err *e)
{
    char key[CATALOGUE_KEY_LENGTH + 1];
    if (catalogue_key(a->token, strlen(a->token), key) < 0)
        return err_set(e, ERR_SYSTEM, 0, NULL, "hash a token");
    int r = run(c, prepare(c, S_REPLACE, "sss", a->owner, a->place, a->path), e);
    if (r == 0)
        r = run(c,
                prepare(c, S_INSERT, "sssssssiiii", key, a->token, a->owner, a->place,
                        a->execution_id, a->path, a->mime_type, (int64_t)a->size, a->modified_ms,
                        a->created_ms, a->expires_ms),
                e);
    return r < 0 ? r : use(c, a->owner, 1, (int64_t)a->size, e);
}

int catalogue_remove(struct catalogue *c, const struct catalogue_row *row, enum catalogue_end end,
                     int64_t now_ms, struct err *e)
{
    const struct artifact *a = &row->a;
    char key[CATALOGUE_KEY_LENGTH + 1];
    int r = run(c, prepare(c, S_DELETE, "i", row->id), e);
    if (r == 0)
        r = use(c, a->owner, -1, -(int64_t)a->size, e);
    if (r == 0 && link_key(a->token, catalogue_name(a), key) == 0)
        r = run(c, prepare(c, S_GONE_ADD, "sii", key, (int64_t)end, now_ms), e);
    return r;
}

int catalogue_trim(struct catalogue *c, int64_t now_ms, struct err *e)
{
    int r = run(c, prepare(c, S_GONE_OLD, "i", now_ms - CATALOGUE_GONE_MS), e);
    return r < 0 ? r : run(c, prepare(c, S_GONE_MANY, "i", (int64_t)CATALOGUE_GONE_MAX), e);
}

// ---- questions ----------------------------------------------------------------------------------

bool catalogue_by_token(struct catalogue *c, const char *token, int64_t now_ms,
                        struct artifact *ret)
{
    char key[CATALOGUE_KEY_LENGTH + 1];
    struct artifact a;
    // SECURITY: a look into an index takes longer the more of the text is right; so it is asked for
    // a hash, of which nobody can choose the beginning, and the token itself is compared in
    // constant time.
    if (strlen(token) != STORE_TOKEN_LENGTH || catalogue_key(token, STORE_TOKEN_LENGTH, key) < 0 ||
        !take_one(prepare(c, S_BY_KEY, "s", key), now_ms, &a) ||
        CRYPTO_memcmp(a.token, token, STORE_TOKEN_LENGTH) != 0)
        return false;
    *ret = a;
    return true;
}

bool catalogue_has_key(struct catalogue *c, const char *key)
{
    struct catalogue_row row;
    return take_rows(prepare(c, S_BY_KEY, "s", key), &row, 1) > 0;
}

bool catalogue_by_path(struct catalogue *c, const char *owner, const char *place, const char *path,
                       int64_t now_ms, struct artifact *ret)
{
    return take_one(prepare(c, S_BY_PATH, "sss", owner, place, path), now_ms, ret);
}

bool catalogue_ended(struct catalogue *c, const char *token, const char *name,
                     enum catalogue_end *ret)
{
    char key[CATALOGUE_KEY_LENGTH + 1];
    if (link_key(token, name, key) < 0)
        return false;
    int64_t reason = take_number(prepare(c, S_GONE_FIND, "s", key), -1);
    if (reason < END_EXPIRED || reason > END_DAMAGED)
        return false;
    *ret = (enum catalogue_end)reason;
    return true;
}

size_t catalogue_after(struct catalogue *c, int64_t id, struct catalogue_row *ret, size_t cap)
{
    return take_rows(prepare(c, S_AFTER, "ii", id, (int64_t)cap), ret, cap);
}

size_t catalogue_due(struct catalogue *c, int64_t now_ms, struct catalogue_row *ret, size_t cap)
{
    return take_rows(prepare(c, S_DUE, "ii", now_ms, (int64_t)cap), ret, cap);
}

size_t catalogue_oldest(struct catalogue *c, const char *owner, struct catalogue_row *ret,
                        size_t cap)
{
    return take_rows(prepare(c, S_OLDEST, "si", owner, (int64_t)cap), ret, cap);
}

size_t catalogue_of(struct catalogue *c, const char *owner, const char *place, const char *path,
                    struct catalogue_row *ret, size_t cap)
{
    int64_t limit = (int64_t)cap;
    return take_rows(path ? prepare(c, S_OF_PATH, "sssi", owner, place, path, limit)
                          : prepare(c, S_OF_PLACE, "ssi", owner, place, limit),
                     ret, cap);
}

size_t catalogue_list(struct catalogue *c, const char *owner, const char *place, int64_t now_ms,
                      struct artifact *ret, size_t cap)
{
    struct catalogue_row row;
    sqlite3_stmt *s = place ? prepare(c, S_LIST_PLACE, "ssii", owner, place, now_ms, (int64_t)cap)
                            : prepare(c, S_LIST_ALL, "sii", owner, now_ms, (int64_t)cap);
    size_t n = 0;
    while (n < cap && sqlite3_step(s) == SQLITE_ROW) {
        take_row(s, &row);
        ret[n++] = row.a;
    }
    finish(s);
    return n;
}

uint64_t catalogue_count(struct catalogue *c, const char *owner, const char *place, int64_t now_ms)
{
    return (uint64_t)take_number(place ? prepare(c, S_COUNT_PLACE, "ssi", owner, place, now_ms)
                                       : prepare(c, S_COUNT_ALL, "si", owner, now_ms),
                                 0);
}

int64_t catalogue_first_due(struct catalogue *c)
{
    return take_number(c->statements[S_FIRST_DUE], -1);
}

struct store_figures catalogue_figures(struct catalogue *c, const char *owner)
{
    struct store_figures f = {0};
    sqlite3_stmt *s = owner ? prepare(c, S_USED, "s", owner) : c->statements[S_USED_ALL];
    if (sqlite3_step(s) == SQLITE_ROW)
        f = (struct store_figures){(uint64_t)sqlite3_column_int64(s, 0),
                                   (uint64_t)sqlite3_column_int64(s, 1)};
    finish(s);
    return f;
}

// ---- opening ------------------------------------------------------------------------------------

enum found { FOUND_GOOD, FOUND_DAMAGED, FOUND_UNUSABLE };

// What the last error means for the file.
static enum found judge(const struct catalogue *c, int code, struct err *e)
{
    int errnum = c->db ? sqlite3_system_errno(c->db) : 0;
    switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR: // a table or a column is not there
        (void)err_set(e, ERR_STATE_FOLDER, 0, NULL, "%s", sqlite3_errmsg(c->db));
        return FOUND_DAMAGED;
    case SQLITE_CANTOPEN:
        if (errnum == ELOOP || errnum == EISDIR ||
            errnum == EACCES) { // a link, a folder, another's
            (void)err_set(e, ERR_STATE_FOLDER, errnum, NULL, "open it");
            return FOUND_DAMAGED;
        }
        /* fallthrough */
    default:
        (void)err_set(e, ERR_STATE_FOLDER, errnum, "look at the state folder and its disk",
                      "open the catalogue of artifacts: %s", sqlite3_errstr(code));
        return FOUND_UNUSABLE;
    }
}

// The first value of the first row, as text.
static int ask(const struct catalogue *c, const char *sql, char *ret, size_t cap)
{
    sqlite3_stmt *s = NULL;
    ret[0] = '\0';
    int r = sqlite3_prepare_v2(c->db, sql, -1, &s, NULL);
    if (r == SQLITE_OK && (r = sqlite3_step(s)) == SQLITE_ROW) {
        take_text(s, 0, ret, cap);
        r = SQLITE_OK;
    }
    (void)sqlite3_finalize(s);
    return r == SQLITE_DONE ? SQLITE_OK : r;
}

static int configure(const struct catalogue *c)
{
    static const struct {
        int option, on;
    } options[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
        {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
        {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
    };
    static const char *const pragmas[] = {
        "PRAGMA temp_store = MEMORY", "PRAGMA cell_size_check = ON",
        "PRAGMA synchronous = OFF", // while it is made: 30 ms that nobody needs
        "PRAGMA journal_mode = WAL",  "PRAGMA journal_size_limit = 4194304",
    };
    char text[64];
    (void)sqlite3_extended_result_codes(c->db, 1);
    (void)sqlite3_busy_timeout(c->db, BUSY_MS); // a gate that was killed is not quite gone yet
    (void)sqlite3_limit(c->db, SQLITE_LIMIT_LENGTH, 16 * TEXT_BYTES_MAX);
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        (void)sqlite3_db_config(c->db, options[i].option, options[i].on, NULL);
    for (size_t i = 0; i < ARRAY_LEN(pragmas); i++) {
        int r = ask(c, pragmas[i], text, sizeof text);
        if (r != SQLITE_OK)
            return r;
    }
    return SQLITE_OK;
}

static enum found look(const struct catalogue *c, struct err *e)
{
    char text[256], version[32];
    int r = ask(c, "PRAGMA quick_check(1)", text, sizeof text);
    if (r == SQLITE_OK)
        r = ask(c, "PRAGMA user_version", version, sizeof version);
    if (r != SQLITE_OK)
        return judge(c, r, e);
    if (strcmp(text, "ok") != 0) {
        (void)err_set(e, ERR_STATE_FOLDER, 0, NULL, "%s", text);
        return FOUND_DAMAGED;
    }
    long found = strtol(version, NULL, 10);
    if (found > SCHEMA_VERSION) {
        (void)err_set(e, ERR_STATE_FOLDER, 0, "use that version, or another folder with --state",
                      "the catalogue of artifacts was made by a newer version of this program");
        return FOUND_UNUSABLE;
    }
    if (found == 0)
        r = sqlite3_exec(c->db, schema, NULL, NULL, NULL);
    return r == SQLITE_OK ? FOUND_GOOD : judge(c, r, e);
}

static enum found open_database(struct catalogue *c, struct err *e)
{
    int flags =
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
    int r = sqlite3_open_v2(DATABASE, &c->db, flags, DBFOLDER_VFS);
    if (r == SQLITE_OK)
        r = configure(c);
    if (r != SQLITE_OK)
        return judge(c, r, e);
    enum found found = look(c, e);
    if (found != FOUND_GOOD)
        return found;
    // NORMAL: a commit survives every crash of ours, and the machine's but for the last moments.
    r = sqlite3_exec(c->db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
    if (r == SQLITE_OK)
        r = sqlite3_exec(c->db, session_schema, NULL, NULL, NULL);
    for (int i = 0; i < S_MAX && r == SQLITE_OK; i++)
        r = sqlite3_prepare_v3(c->db, sql_of[i], -1, SQLITE_PREPARE_PERSISTENT, &c->statements[i],
                               NULL);
    return r == SQLITE_OK ? FOUND_GOOD : judge(c, r, e);
}

static void close_database(struct catalogue *c)
{
    for (int i = 0; i < S_MAX; i++) {
        (void)sqlite3_finalize(c->statements[i]);
        c->statements[i] = NULL;
    }
    (void)sqlite3_close(c->db);
    c->db = NULL;
}

// For whoever wants to know what happened; the next one takes its place.
static int move_aside(int folder, struct err *e)
{
    (void)unlinkat(folder, DATABASE "-shm", 0);
    (void)unlinkat(folder, DAMAGED "-wal", 0);
    (void)renameat(folder, DATABASE "-wal", folder, DAMAGED "-wal"); // often there is none
    if (renameat(folder, DATABASE, folder, DAMAGED) == 0 || errno == ENOENT)
        return 0;
    return err_set(e, ERR_STATE_FOLDER, errno, "remove '" DATABASE "' from the state folder",
                   "move a damaged catalogue of artifacts aside");
}

struct catalogue *catalogue_open(int folder, struct err *ret_damage, struct err *e)
{
    struct catalogue *c = calloc(1, sizeof *c);
    *ret_damage = (struct err){0};
    if (!c) {
        (void)err_set(e, ERR_SYSTEM, ENOMEM, NULL, "open the catalogue of artifacts");
        return NULL;
    }
    enum found found = open_database(c, e);
    if (found == FOUND_DAMAGED) {
        *ret_damage = *e;
        close_database(c);
        if (move_aside(folder, e) == 0)
            found = open_database(c, e);
    }
    if (found == FOUND_GOOD)
        return c;
    catalogue_close(c);
    return NULL;
}

void catalogue_close(struct catalogue *c)
{
    if (!c)
        return;
    close_database(c);
    free(c);
}
