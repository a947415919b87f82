// SPDX-License-Identifier: Apache-2.0
//
// store: artifacts: files that runs left, copied out of their boxes so that they outlive them.  The
// bytes are in files of the state folder, their metadata in a SQLite catalogue beside them.  Runs
// in the gate, whose Landlock ruleset lets it into this one folder (keeper/state.c opens it).
//
// Invariants:
//   (1) a row is in the catalogue only after its file is complete under its final name: an
//       announced artifact exists.
//   (2) a file without a row is swept at the next start; so are files with the name of an
//       unfinished copy.
//   (3) one server at a time uses the folder (the keeper locks it).

#ifndef CONSTRICTOR_FILES_STORE_H
#define CONSTRICTOR_FILES_STORE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "config/config.h"
#include "http/mime.h"

enum {
    STORE_TOKEN_LENGTH = 32, // base64url, 192 bits
    STORE_OWNER_MAX = 64,
    STORE_HOLDER_MAX = 64, // a session's id or a run's
    STORE_PATH_MAX = 1024,
    STORE_FILES_MAX = 10000, // artifacts of one owner
    STORE_LIST_MAX = 1000,
    STORE_COPIES_MAX = 1024, // unfinished at one time; each has a descriptor open
};

struct store;

struct artifact {
    char token[STORE_TOKEN_LENGTH + 1]; // unguessable; a client that has it may read the file
    char owner[STORE_OWNER_MAX + 1];
    char holder[STORE_HOLDER_MAX + 1]; // session, or the execution_id of a run without one
    char execution_id[37];             // the run that left it
    char path[STORE_PATH_MAX + 1];     // below /mnt/data
    char mime_type[MIME_TYPE_MAX + 1];
    uint64_t size;
    int64_t modified_ms, created_ms, expires_ms; // since 1970
};

// `folder`: the state folder, opened by the keeper; borrowed for good.  Sweeps leftover files.
struct store *store_open(const struct config *c, struct event_base *base, int folder,
                         struct err *e);
void store_close(struct store *s);

// Begins to store a file.  Of `a` the caller gives owner, holder, execution_id, path, size (how
// many bytes it has at most) and modified_ms; the rest is filled in.  The oldest artifacts of the
// owner make room within the quota; a file larger than the quota is refused.  An artifact of the
// same owner, holder and path is replaced; its link still gives the old bytes until it expires.
// NULL and `e` on failure.
struct store_copy;
struct store_copy *store_begin(struct store *s, const struct artifact *a, struct err *e);
// Writes bytes at any offset; bytes that are never written are 0.  0, or a negative code.
int store_write(struct store_copy *copy, const void *data, size_t length, uint64_t offset,
                struct err *e);
void store_set_modified(struct store_copy *copy, int64_t modified_ms); // NULL: does nothing
// The file is complete and has `size` bytes.  0 and `ret`, or a negative code; the copy is freed
// either way.
int store_end(struct store_copy *copy, uint64_t size, struct artifact *ret, struct err *e);
void store_cancel(struct store_copy *copy);
// Stores bytes in memory (pictures) at once.  0 and `a` filled in, or a negative code.
int store_add_bytes(struct store *s, struct artifact *a, const void *data, size_t length,
                    struct err *e);

// Finds an artifact; false: there is none, or it has expired.
bool store_by_token(struct store *s, const char *token, struct artifact *ret);
bool store_by_path(struct store *s, const char *owner, const char *holder, const char *path,
                   struct artifact *ret); // the newest
// Why an artifact is gone, as words that follow "it"; NULL: the link is unknown.
const char *store_why_gone(struct store *s, const char *token, const char *name);
// Opens the file for reading; -1: it is gone.
int store_read(struct store *s, const struct artifact *a);

// The newest of each path, by path; of one holder, or of all (holder NULL) by age.  Returns how
// many, at most STORE_LIST_MAX; `ret` is the caller's to free.  *ret_more: how many there are
// beyond.
size_t store_list(struct store *s, const char *owner, const char *holder, struct artifact **ret,
                  uint64_t *ret_more);

// Deletes one artifact, or all of a holder (path NULL).  Returns how many.
unsigned store_delete(struct store *s, const char *owner, const char *holder, const char *path);

// Marks the newest version of a file, or of all files of a folder, as removed.  Their links stay.
void store_retire(struct store *s, const char *owner, const char *holder, const char *path);
// A session that a client named; the name leads to its files as long as there are some.
int store_set_name(struct store *s, const char *owner, const char *holder, const char *name,
                   struct err *e);
bool store_by_name(struct store *s, const char *owner, const char *name,
                   char ret_holder[STORE_HOLDER_MAX + 1]);
bool store_name_of(struct store *s, const char *owner, const char *holder, char *ret, size_t cap);
void store_forget_name(struct store *s, const char *owner, const char *holder);
bool store_holds(struct store *s, const char *owner, const char *holder); // any file
// The newest versions expire after the configured time from now on.
void store_prolong(struct store *s, const char *owner, const char *holder);
// What a holder has does not expire while this says that it lives.
void store_set_alive(struct store *s,
                     bool (*is_alive)(const char *owner, const char *holder, void *argument),
                     void *argument);

struct store_figures {
    uint64_t files, bytes;
};
struct store_figures store_figures(struct store *s, const char *owner); // NULL: of all

#endif
