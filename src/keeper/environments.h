// SPDX-License-Identifier: Apache-2.0
//
// environments: the folder `environments` in the state folder, in which servers keep unpacked
// wheels (porter/wheels.h).  The keeper opens it while it has its rights, and holds it for life.
// Several servers share it; env/env_share.h says how they keep out of each other's way.
//
//   STATE/environments.lock    shared by the servers that use it; exclusive while the first one
//                              prepares it, whose pid it has, and the format, a line each
//   STATE/environments.server  locked by the one that others may ask: its pid and URL, a line each
//   STATE/environments         mode 0711, the porter's uid
//   STATE/environments/rows    mode 0700, the gate's uid and database; all that the gate gets
//   STATE/environments/wheels  mode 0311; boxes see it as /opt/wheels
//
// As root each server has uids of its own.  The first one owns the folders; gates and porters of
// the others get in by the groups of `rows` and `wheels`, which are those of the first one's gate
// and porter, and of no box.  The modes then have the same bits for the group, and the setgid bit.

#ifndef CONSTRICTOR_KEEPER_ENVIRONMENTS_H
#define CONSTRICTOR_KEEPER_ENVIRONMENTS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "keeper/slots.h"

enum { ENVIRONMENTS_URL_MAX = 256 };

struct environments {
    int folder; // -1: there are none, see error
    int rows;   // for the gate's database (env/env_db.h)
    int wheels; // opened before its mode forbade reading
    int lock;
    int note;              // environments.server, for the gate (environments_write_note)
    unsigned number;       // of this server while it lives: that of its numbered folder
    uint32_t rows_group;   // what its gate needs to write rows; 0: nothing
    uint32_t wheels_group; // the same of its porter
    char path[PATH_MAX];   // of wheels, for the jail, which checks device and inode
    dev_t device;
    ino_t inode;
    struct err error;
    bool first; // no other server used it when this one came
};

// `parent` is the state folder, open, whose path is `path`.  A failure is also in `error`.
int environments_open(struct environments *env, int parent, const char *path,
                      const struct slots *slots, struct err *e);
void environments_close(struct environments *env);

// In the gate: `url` is where others find this server.  0, or a negative errno; -EWOULDBLOCK: they
// find another one, which lives.
int environments_write_note(int note, pid_t keeper, const char *url);

#endif
