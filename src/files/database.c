// SPDX-License-Identifier: Apache-2.0
//
// database: see database.h.

#include "files/database.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "files/dbfolder.h"

enum { BUSY_MS = 1000, NAME_BYTES = 64 };
enum found { FOUND_GOOD, FOUND_DAMAGED, FOUND_UNUSABLE };

static const char *file_of(const struct database *d, const char *suffix, char ret[NAME_BYTES])
{
    snprintf(ret, NAME_BYTES, "%s%s", d->plan->name, suffix);
    return ret;
}

// ---- statements ---------------------------------------------------------------------------------

int database_failed(const struct database *d, struct err *e)
{
    int code = sqlite3_extended_errcode(d->db), primary = code & 0xff;
    if (primary == SQLITE_FULL ||
        (primary == SQLITE_IOERR && sqlite3_system_errno(d->db) == ENOSPC))
        return err_set(e, ERR_DISK_FULL, 0, "make room on the disk of the state folder",
                       "%s cannot grow: the disk is full", d->plan->what);
    if (primary == SQLITE_BUSY)
        return err_set(e, ERR_BUSY, 0, "try again", "another server is writing to %s",
                       d->plan->what);
    return err_set(e, ERR_STATE_FOLDER, 0,
                   "look at the state folder; the next start replaces a damaged database",
                   "%s: %s (%d)", d->plan->what, sqlite3_errmsg(d->db), code);
}

static sqlite3_stmt *bind_values(struct database *d, int which, const char *types, va_list ap)
{
    sqlite3_stmt *s = d->statements[which];
    for (int i = 0; types[i]; i++)
        if (types[i] == 's')
            (void)sqlite3_bind_text(s, i + 1, va_arg(ap, const char *), -1, SQLITE_TRANSIENT);
        else
            (void)sqlite3_bind_int64(s, i + 1, va_arg(ap, int64_t));
    return s;
}

sqlite3_stmt *database_bind(struct database *d, int which, const char *types, ...)
{
    va_list ap;
    va_start(ap, types);
    sqlite3_stmt *s = bind_values(d, which, types, ap);
    va_end(ap);
    return s;
}

void database_finish(sqlite3_stmt *s)
{
    (void)sqlite3_reset(s); // repeats the error of the last step
    (void)sqlite3_clear_bindings(s);
}

int database_run(struct database *d, struct err *e, int which, const char *types, ...)
{
    va_list ap;
    va_start(ap, types);
    sqlite3_stmt *s = bind_values(d, which, types, ap);
    va_end(ap);
    int r = sqlite3_step(s) == SQLITE_DONE ? 0 : database_failed(d, e);
    database_finish(s);
    return r;
}

int64_t database_number(struct database *d, int64_t otherwise, int which, const char *types, ...)
{
    va_list ap;
    va_start(ap, types);
    sqlite3_stmt *s = bind_values(d, which, types, ap);
    va_end(ap);
    int64_t n = otherwise;
    if (sqlite3_step(s) == SQLITE_ROW && sqlite3_column_type(s, 0) == SQLITE_INTEGER)
        n = sqlite3_column_int64(s, 0);
    database_finish(s);
    return n;
}

int database_end(struct database *d, int r, int commit, int rollback, struct err *e)
{
    if (r >= 0 && database_run(d, e, commit, "") < 0)
        r = -1;
    if (r < 0 && !sqlite3_get_autocommit(d->db))
        (void)database_run(d, NULL, rollback, "");
    return r;
}

void database_text(sqlite3_stmt *s, int column, char *ret, size_t cap)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    snprintf(ret, cap, "%s", text ? text : "");
}

// ---- opening ------------------------------------------------------------------------------------

// Judges the file by the last error.
static enum found judge(const struct database *d, int code, struct err *e)
{
    int errnum = d->db ? sqlite3_system_errno(d->db) : 0, primary = code & 0xff;
    // A link, a folder, or a file of another uid.
    bool odd =
        primary == SQLITE_CANTOPEN && (errnum == ELOOP || errnum == EISDIR || errnum == EACCES);
    // SQLITE_ERROR: a table or a column is missing.
    if (odd || primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB || primary == SQLITE_ERROR) {
        (void)err_set(e, ERR_STATE_FOLDER, odd ? errnum : 0, NULL, "%s",
                      odd ? "open it" : sqlite3_errmsg(d->db));
        return FOUND_DAMAGED;
    }
    (void)err_set(e, ERR_STATE_FOLDER, errnum, "look at the state folder and its disk",
                  "open %s: %s", d->plan->what, sqlite3_errstr(code));
    return FOUND_UNUSABLE;
}

// The first value of the first row, as text.
static int ask(const struct database *d, const char *sql, char *ret, size_t cap)
{
    sqlite3_stmt *s = NULL;
    ret[0] = '\0';
    int r = sqlite3_prepare_v2(d->db, sql, -1, &s, NULL);
    if (r == SQLITE_OK && (r = sqlite3_step(s)) == SQLITE_ROW) {
        database_text(s, 0, ret, cap);
        r = SQLITE_OK;
    }
    (void)sqlite3_finalize(s);
    return r == SQLITE_DONE ? SQLITE_OK : r;
}

static int configure(const struct database *d)
{
    static const struct {
        int option, on;
    } options[] = {{SQLITE_DBCONFIG_DEFENSIVE, 1},
                   {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
                   {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                   {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0}};
    static const char *const pragmas[] = {
        "PRAGMA temp_store = MEMORY", "PRAGMA cell_size_check = ON", "PRAGMA journal_mode = WAL",
        "PRAGMA journal_size_limit = 4194304"};
    char text[64];
    (void)sqlite3_extended_result_codes(d->db, 1);
    (void)sqlite3_busy_timeout(d->db,
                               BUSY_MS); // another server writes, or a killed gate is still exiting
    (void)sqlite3_limit(d->db, SQLITE_LIMIT_LENGTH, d->plan->value_bytes_max);
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        (void)sqlite3_db_config(d->db, options[i].option, options[i].on, NULL);
    // A database that is being made has nothing to lose; its syncs would take 30 ms.
    int r = d->plan->survives_power_cut ? SQLITE_OK
                                        : ask(d, "PRAGMA synchronous = OFF", text, sizeof text);
    for (size_t i = 0; r == SQLITE_OK && i < ARRAY_LEN(pragmas); i++)
        r = ask(d, pragmas[i], text, sizeof text);
    return r;
}

static int convert(const struct database *d, long version)
{
    int r = SQLITE_OK;
    if (version <= 0)
        return sqlite3_exec(d->db, d->plan->schema, NULL, NULL, NULL);
    for (; r == SQLITE_OK && version < d->plan->version; version++)
        r = sqlite3_exec(d->db, d->plan->steps[version - 1], NULL, NULL, NULL);
    return r;
}

static enum found check(const struct database *d, struct err *e)
{
    char text[256], version[32];
    int r = ask(d, "PRAGMA quick_check(1)", text, sizeof text);
    if (r == SQLITE_OK)
        r = ask(d, "PRAGMA user_version", version, sizeof version);
    if (r != SQLITE_OK)
        return judge(d, r, e);
    if (strcmp(text, "ok") != 0) {
        (void)err_set(e, ERR_STATE_FOLDER, 0, NULL, "%s", text);
        return FOUND_DAMAGED;
    }
    long found = strtol(version, NULL, 10);
    if (found > d->plan->version) {
        (void)err_set(e, ERR_STATE_FOLDER, 0, "use that version, or another folder with --state",
                      "a newer version of this program made %s", d->plan->what);
        return FOUND_UNUSABLE;
    }
    r = convert(d, found);
    return r == SQLITE_OK ? FOUND_GOOD : judge(d, r, e);
}

static enum found open_once(struct database *d, struct err *e)
{
    enum {
        FLAGS = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                SQLITE_OPEN_PRIVATECACHE
    };
    char name[NAME_BYTES];
    int r = sqlite3_open_v2(file_of(d, ".db", name), &d->db, FLAGS, DBFOLDER_VFS);
    if (r == SQLITE_OK)
        r = configure(d);
    if (r != SQLITE_OK)
        return judge(d, r, e);
    enum found found = check(d, e);
    if (found != FOUND_GOOD)
        return found;
    r = sqlite3_exec(d->db,
                     d->plan->survives_power_cut ? "PRAGMA synchronous = FULL"
                                                 : "PRAGMA synchronous = NORMAL",
                     NULL, NULL, NULL);
    if (r == SQLITE_OK && d->plan->always)
        r = sqlite3_exec(d->db, d->plan->always, NULL, NULL, NULL);
    for (size_t i = 0; i < d->plan->statement_count && r == SQLITE_OK; i++)
        r = sqlite3_prepare_v3(d->db, d->plan->statements[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &d->statements[i], NULL);
    return r == SQLITE_OK ? FOUND_GOOD : judge(d, r, e);
}

static void close_once(struct database *d)
{
    for (size_t i = 0; d->statements && i < d->plan->statement_count; i++) {
        (void)sqlite3_finalize(d->statements[i]);
        d->statements[i] = NULL;
    }
    (void)sqlite3_close(d->db);
    d->db = NULL;
}

// Keeps one damaged database for the operator; the next one replaces it.
static int move_aside(const struct database *d, int folder, struct err *e)
{
    char from[NAME_BYTES], to[NAME_BYTES];
    (void)unlinkat(folder, file_of(d, ".db-shm", from), 0);
    (void)unlinkat(folder, file_of(d, ".damaged-wal", to), 0);
    (void)renameat(folder, file_of(d, ".db-wal", from), folder, to); // often there is none
    if (renameat(folder, file_of(d, ".db", from), folder, file_of(d, ".damaged", to)) == 0 ||
        errno == ENOENT)
        return 0;
    int r =
        err_set(e, ERR_STATE_FOLDER, errno, "", "move %s aside, which is damaged", d->plan->what);
    err_hint(e, "remove '%s' from %s", from, d->plan->folder);
    return r;
}

int database_open(struct database *d, const struct database_plan *plan, int folder, bool in_use,
                  struct err *ret_damage, struct err *e)
{
    *ret_damage = (struct err){0};
    *d = (struct database){.plan = plan,
                           .statements = calloc(plan->statement_count, sizeof *d->statements)};
    if (!d->statements)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "open %s", plan->what);
    enum found found = open_once(d, e);
    if (found == FOUND_DAMAGED && in_use) {
        err_hint(e, "end the other servers of %s, and start this one again", plan->folder);
    } else if (found == FOUND_DAMAGED) {
        *ret_damage = *e;
        close_once(d);
        if (move_aside(d, folder, e) == 0)
            found = open_once(d, e);
    }
    if (found == FOUND_GOOD)
        return 0;
    database_close(d);
    return -1;
}

void database_close(struct database *d)
{
    close_once(d);
    free(d->statements);
    d->statements = NULL;
}
