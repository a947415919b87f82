// SPDX-License-Identifier: Apache-2.0
//
// wheels: unpacked wheels on disk.  Each is a folder below `wheels` that never changes once it has
// its name.  Only the porter uses this; boxes see `wheels`, read-only.
//
//   environments/secret          32 random bytes
//   environments/wheels          mode 0311: code that knows an ID can read it, none can list them
//   environments/wheels/ID       a complete wheel
//   environments/wheels/tmp-NNNN...  incomplete, or being removed; NNNN is the number of the server
//                                that does it
//   environments/porters         each porter holds the byte of its server's number, and byte 0
//   while
//                                it makes the secret
//
// Invariants:
//   (1) a folder named ID is complete and on the disk: it gets the name after a sync.
//   (2) a folder is renamed to tmp-... before it is removed.
//   (3) nothing here follows or makes a link.
//   (4) a folder tmp-... is removed by its own server or, when that has no porter any more, by any
//       other one, at a start and when wheels are listed.
//
// Sync: one syncfs() for all wheels that are ready, then the renames, then the folder.  For 5,000
// files of 30 kB on ext4 it took 0.14 s, a fsync() of each 1.1 to 3.2 s, and 0.4 to 1.3 s when
// their writing was begun before (three runs on a busy machine).  The price: it also waits for
// unwritten data of other programs on that disk.
//
// Files are made 0444 or 0555.  Folders stay 0755: a box cannot write through a read-only mount,
// and an operator can remove the state folder by hand.

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
    WHEEL_TMP = 24,    // "tmp-", 4 digits of the server's number, 16 random hex digits
};

struct wheels {
    int parent;      // the folder of environments, for the secret
    int folder;      // of wheels; opened for reading before it got its mode, so it can be listed
    int lock;        // the file `porters`
    unsigned number; // of this server
    bool shared;     // by servers with other uids, which have its group
    uint8_t secret[WHEEL_SECRET];
};

// Takes both descriptors, also on failure.  Makes the secret when there is none, and sets the umask
// with which others can read, and servers that share the folder write, what this process makes.
int wheels_open(struct wheels *s, int parent, int folder, unsigned number, struct err *e);
void wheels_close(struct wheels *s);

// The ID of a wheel.  With a scope the wheel is another one, whose content other scopes may not
// get.  "": none.  Returns -1 when `sha256` is not WHEEL_SHA256 small hex digits.
int wheels_id(const struct wheels *s, const char *sha256, const char *scope,
              char ret[WHEEL_ID + 1]);
bool wheels_is_id(const char *text);
bool wheels_is_sha256(const char *text);

bool wheels_has(const struct wheels *s, const char *id);
// Does the disk have room for so many bytes?
int wheels_check_room(const struct wheels *s, uint64_t bytes, struct err *e);

// A new folder tmp-..., open.
int wheels_new(const struct wheels *s, char ret_name[WHEEL_TMP + 1], int *ret_fd, struct err *e);

struct wheel_move {
    char from[WHEEL_TMP + 1]; // wheels_new; "": there is nothing to do
    char to[WHEEL_ID + 1];
};

// Gives complete folders their names, after one sync of all.  An existing wheel stays and the new
// folder is removed.  After a failure the caller removes the rest.
int wheels_put(const struct wheels *s, const struct wheel_move *moves, size_t count, struct err *e);

// Removes a folder of wheels_new().  Ignores errors: the next sweep tries again.
void wheels_remove(const struct wheels *s, const char *name);

// -ENOENT: there is no such wheel.
int wheels_drop(const struct wheels *s, const char *id, struct err *e);

// The first `max` wheels after `after` ("": from the beginning), sorted.
int wheels_list(const struct wheels *s, const char *after, char (*ret)[WHEEL_ID + 1], size_t max,
                size_t *ret_count, bool *ret_more, struct err *e);

// Removes incomplete folders that no living porter has.
int wheels_sweep(const struct wheels *s, struct err *e);

#endif
