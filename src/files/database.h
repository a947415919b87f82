// SPDX-License-Identifier: Apache-2.0
//
// database: a SQLite database in a folder that is known by a descriptor (dbfolder.h): opened,
// checked, converted from older versions, and moved aside when it is damaged.  Used in the gate by
// catalogue.c and by env/env_db.c.
//
// SECURITY: a gate that was taken over may have written the database.  So nothing in its schema
// runs (no triggers, views or functions), values are bounded, and a database that fails its check
// is moved aside.

#ifndef CONSTRICTOR_FILES_DATABASE_H
#define CONSTRICTOR_FILES_DATABASE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

// Describes one database.  All of it is static, and borrowed.
struct database_plan {
    const char *name;   // of its files: NAME.db, NAME.damaged
    const char *what;   // in errors: "the catalogue of artifacts"
    const char *folder; // in a hint: "the state folder"
    // Each runs in a transaction of its own: `schema` makes version `version`, `steps[i]` turns
    // version i + 1 into the next one, and sets user_version.
    const char *schema;
    const char *const *steps;
    int version;
    const char *always; // runs at each start; NULL: nothing
    const char *const *statements;
    size_t statement_count;
    int value_bytes_max;
    bool survives_power_cut; // every commit does; else all but the last moments
};

struct database {
    const struct database_plan *plan;
    sqlite3 *db;
    sqlite3_stmt **statements;
};

// `in_use`: by another server, so that a damaged one stays.  Call dbfolder_use() first.  A damaged
// database is moved aside and a new one begun; then *ret_damage says what was wrong, else its
// message is "".
int database_open(struct database *d, const struct database_plan *plan, int folder, bool in_use,
                  struct err *ret_damage, struct err *e);
void database_close(struct database *d);

// ---- statements: `which` is an index, `types` the values: 's' const char *, 'i' int64_t
// ----------

// To step through rows; database_finish() ends it.
sqlite3_stmt *database_bind(struct database *d, int which, const char *types, ...);
void database_finish(sqlite3_stmt *s);
void database_text(sqlite3_stmt *s, int column, char *ret, size_t cap);

// A statement without rows.
int database_run(struct database *d, struct err *e, int which, const char *types, ...);
// The first number that a statement returns, else `otherwise`.
int64_t database_number(struct database *d, int64_t otherwise, int which, const char *types, ...);
// Ends a transaction: commits when `r` is not negative, else rolls back.
int database_end(struct database *d, int r, int commit, int rollback, struct err *e);
// After a failed step: sets `e`, negative.
int database_failed(const struct database *d, struct err *e);

#endif
