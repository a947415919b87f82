// SPDX-License-Identifier: Apache-2.0
//
// wheels: wheels on disk.  A wheel is one unpacked wheel, a folder below `wheels` that is never
// changed once it has its name.  Used by the porter alone; boxes see `wheels`, read-only.
//
//   environments/secret          32 random bytes
//   environments/wheels/ID       whole wheels; mode 0311: whoever was told an ID can read it,
//   nobody can list them environments/wheels/tmp-...  in the making or on their way out; removed at
//   the next start
//
// Invariants:
//   (1) a folder that is named ID is whole, and all of it is on the disk: it gets the name after a
//       sync.
//   (2) nothing is removed under the name ID: it becomes tmp-... first.
//   (3) nothing here follows or makes a link.
//
// Sync: one syncfs() for all wheels that are ready, then the renames, then the folder.  For 5,000
// files of 30 kB on ext4 it took 0.14 s, a fsync() of each 1.1 to 3.2 s, and 0.4 to 1.3 s when
// their writing was begun before (three runs on a busy machine).  The price: what others left
// unwritten on that disk is waited for as well.
//
// Files are made 0444 or 0555.  Folders stay 0755: a box cannot write through a read-only mount,
// and whoever removes the state folder by hand should be able to.

#ifndef CONSTRICTOR_PORTER_WHEELS_H
#define CONSTRICTOR_PORTER_WHEELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    WHEEL_SECRET = 32,
    WHEEL_SHA256 = 64, // hex digits of a wheel's SHA-256
    WHEEL_ID = 32,     // hex digits
    WHEEL_TMP = 20,    // "tmp-" and 16 hex digits
};

struct wheels {
    int parent; // the folder of environments, for the secret
    int folder; // of wheels; opened for reading before it got its mode, so it can be listed
    uint8_t secret[WHEEL_SECRET];
};

// Takes both descriptors, also on failure.  Makes the secret when there is none.
int wheels_open(struct wheels *s, int parent, int folder, struct err *e);
void wheels_close(struct wheels *s);

// The wheel of a wheel.  With a scope it is another wheel: of content that not everybody should get
// who asks
// for that wheel.  "": none.  Returns -1 when `wheel` is not WHEEL_SHA256 small hex digits.
int wheels_id(const struct wheels *s, const char *sha256, const char *scope,
              char ret[WHEEL_ID + 1]);
bool wheels_is_id(const char *text);
bool wheels_is_sha256(const char *text);

bool wheels_has(const struct wheels *s, const char *id);
// Is there room for so many bytes?
int wheels_check_room(const struct wheels *s, uint64_t bytes, struct err *e);

// A new folder tmp-..., open.
int wheels_new(const struct wheels *s, char ret_name[WHEEL_TMP + 1], int *ret_fd, struct err *e);

struct wheel_move {
    char from[WHEEL_TMP + 1]; // wheels_new; "": there is nothing to do
    char to[WHEEL_ID + 1];
};

// Makes wheels of what is whole.  All of them are on the disk before the first has its name.  A
// wheel that is there already stays, and the new one goes.  After a failure the caller removes
// those that are left.
int wheels_put(const struct wheels *s, const struct wheel_move *moves, size_t count, struct err *e);

// Removes what wheels_new made; there is nobody to tell when it does not work, and the next start
// tries again.
void wheels_remove(const struct wheels *s, const char *name);

// -ENOENT: there is no such wheel.
int wheels_drop(const struct wheels *s, const char *id, struct err *e);

// The first `max` wheels behind `after` ("": from the beginning), in order.
int wheels_list(const struct wheels *s, const char *after, char (*ret)[WHEEL_ID + 1], size_t max,
                size_t *ret_count, bool *ret_more, struct err *e);

// Removes what was left half way; at the start.
int wheels_sweep(const struct wheels *s, struct err *e);

#endif
