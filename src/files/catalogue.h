// SPDX-License-Identifier: Apache-2.0
//
// catalogue: the metadata of artifacts, in SQLite.  It has rows, not bytes: store.c joins the two.
// Runs in the gate.
//
// Text of clients and boxes is bound as values, never put into SQL.

#ifndef CONSTRICTOR_FILES_CATALOGUE_H
#define CONSTRICTOR_FILES_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "files/store.h"

struct catalogue;

enum {
    CATALOGUE_KEY_LENGTH = 32,    // hexadecimal digits
    CATALOGUE_BATCH = 64,         // rows at a time, where there may be many
    CATALOGUE_GONE_MAX = 20000,   // artifacts that are remembered after their end
    CATALOGUE_GONE_MS = 86400000, // for how long they are remembered
};

// Why an artifact is gone.
enum catalogue_end { END_EXPIRED, END_QUOTA, END_DELETED, END_DAMAGED };

struct catalogue_row {
    int64_t id; // younger is larger
    struct artifact a;
};

// The name of a token's file and row: part of its SHA-256, because file names are less secret than
// a token.  -1: OpenSSL fails.
int catalogue_key(const char *text, size_t length, char ret[CATALOGUE_KEY_LENGTH + 1]);

// Opens the catalogue in the folder that dbfolder_use() was given, or begins one.  A damaged one is
// moved aside; then *ret_damage says what was wrong with it, else it is "".
struct catalogue *catalogue_open(int folder, struct err *ret_damage, struct err *e);
void catalogue_close(struct catalogue *c);

// Changes are made between these two.  A commit that fails has been rolled back.
int catalogue_begin(struct catalogue *c, struct err *e);
int catalogue_commit(struct catalogue *c, struct err *e);
void catalogue_rollback(struct catalogue *c);

// Adds a row; an existing one with the same owner, holder and path becomes an older version.
int catalogue_add(struct catalogue *c, const struct artifact *a, struct err *e);
int catalogue_remove(struct catalogue *c, const struct catalogue_row *row, enum catalogue_end end,
                     int64_t now_ms, struct err *e);
int catalogue_trim(struct catalogue *c, int64_t now_ms,
                   struct err *e); // forgets what ended long ago

// One row.  False: there is none, or it has expired.
bool catalogue_by_token(struct catalogue *c, const char *token, int64_t now_ms,
                        struct artifact *ret);
bool catalogue_by_path(struct catalogue *c, const char *owner, const char *holder, const char *path,
                       int64_t now_ms, struct artifact *ret);
bool catalogue_has_key(struct catalogue *c, const char *key);
// Why the artifact that had this link is gone.  False: the link is unknown.
bool catalogue_ended(struct catalogue *c, const char *token, const char *name,
                     enum catalogue_end *ret);

// Each returns at most `cap` rows.
size_t catalogue_after(struct catalogue *c, int64_t id, struct catalogue_row *ret, size_t cap);
size_t catalogue_due(struct catalogue *c, int64_t now_ms, struct catalogue_row *ret, size_t cap);
size_t catalogue_oldest(struct catalogue *c, const char *owner, struct catalogue_row *ret,
                        size_t cap);
size_t catalogue_of(struct catalogue *c, const char *owner, const char *holder,
                    const char *path /* NULL: any */, struct catalogue_row *ret, size_t cap);
// For store_list().
size_t catalogue_list(struct catalogue *c, const char *owner, const char *holder, int64_t now_ms,
                      struct artifact *ret, size_t cap);
uint64_t catalogue_count(struct catalogue *c, const char *owner, const char *holder,
                         int64_t now_ms);

int64_t catalogue_first_due(struct catalogue *c);                               // -1: none
struct store_figures catalogue_figures(struct catalogue *c, const char *owner); // NULL: all

// For the functions of store.h with these names.
int catalogue_retire(struct catalogue *c, const char *owner, const char *holder, const char *path,
                     struct err *e);
int catalogue_prolong(struct catalogue *c, const char *owner, const char *holder,
                      int64_t expires_ms, struct err *e);
int catalogue_set_name(struct catalogue *c, const char *owner, const char *holder, const char *name,
                       struct err *e);
int catalogue_forget_name(struct catalogue *c, const char *owner, const char *holder,
                          struct err *e);
bool catalogue_by_name(struct catalogue *c, const char *owner, const char *name, char *ret,
                       size_t cap);
bool catalogue_name_of(struct catalogue *c, const char *owner, const char *holder, char *ret,
                       size_t cap);

// The part after the last slash.
const char *catalogue_name(const struct artifact *a);

#endif
