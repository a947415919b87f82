// SPDX-License-Identifier: Apache-2.0
//
// wheels: layers on disk.  A layer is one unpacked wheel, a folder below `layers` that is never
// changed once it has its name.  Used by the porter alone; boxes see `layers`, read-only.
//
//   environments/secret          32 random bytes
//   environments/layers/ID       whole layers; mode 0311: whoever was told an ID can read it,
//   nobody can list them environments/layers/tmp-...  in the making or on their way out; removed at
//   the next start
//
// Invariants:
//   (1) a folder that is named ID is whole, and all of it is on the disk: it gets the name after a
//       sync.
//   (2) nothing is removed under the name ID: it becomes tmp-... first.
//   (3) nothing here follows or makes a link.
//
// Sync: one syncfs() for all layers that are ready, then the renames, then the folder.  For 5,000
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
    SHELF_SECRET = 32,
    SHELF_WHEEL = 64, // hex digits of a wheel's SHA-256
    SHELF_ID = 32,    // hex digits
    SHELF_TMP = 20,   // "tmp-" and 16 hex digits
};

struct shelf {
    int folder; // environments
    int layers; // open for reading since before it had its mode: it can be listed for ever
    uint8_t secret[SHELF_SECRET];
};

// Takes both descriptors, also on failure.  Makes the secret when there is none.
int shelf_open(struct shelf *s, int folder, int layers, struct err *e);
void shelf_close(struct shelf *s);

// The layer of a wheel.  With a scope it is another layer: of content that not everybody should get
// who asks
// for that wheel.  "": none.  Returns -1 when `wheel` is not SHELF_WHEEL small hex digits.
int shelf_id(const struct shelf *s, const char *wheel, const char *scope, char ret[SHELF_ID + 1]);
bool shelf_is_id(const char *text);
bool shelf_is_wheel(const char *text);

bool shelf_has(const struct shelf *s, const char *id);
// Is there room for so many bytes?
int shelf_check_room(const struct shelf *s, uint64_t bytes, struct err *e);

// A new folder tmp-..., open.
int shelf_new(const struct shelf *s, char ret_name[SHELF_TMP + 1], int *ret_fd, struct err *e);

struct shelf_move {
    char from[SHELF_TMP + 1]; // shelf_new; "": there is nothing to do
    char to[SHELF_ID + 1];
};

// Makes layers of what is whole.  All of them are on the disk before the first has its name.  A
// layer that is there already stays, and the new one goes.  After a failure the caller removes
// those that are left.
int shelf_put(const struct shelf *s, const struct shelf_move *moves, size_t count, struct err *e);

// Removes what shelf_new made; there is nobody to tell when it does not work, and the next start
// tries again.
void shelf_remove(const struct shelf *s, const char *name);

// -ENOENT: there is no such layer.
int shelf_drop(const struct shelf *s, const char *id, struct err *e);

// The first `max` layers behind `after` ("": from the beginning), in order.
int shelf_list(const struct shelf *s, const char *after, char (*ret)[SHELF_ID + 1], size_t max,
               size_t *ret_count, bool *ret_more, struct err *e);

// Removes what was left half way; at the start.
int shelf_sweep(const struct shelf *s, struct err *e);

#endif
