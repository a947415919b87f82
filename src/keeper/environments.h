// SPDX-License-Identifier: Apache-2.0
//
// environments: the folder `environments` in the state folder, in which one server at a time keeps
// unpacked wheels (porter/wheels.h).  The keeper opens it while it has its rights, and holds it
// for life.
//
//   STATE/environments.lock    locked by the server that has it; its pid and its URL, a line each
//   STATE/environments         mode 0711, the porter's uid
//   STATE/environments/rows    mode 0700, the gate's uid and database; all that the gate gets
//   STATE/environments/wheels  mode 0311; boxes see it as /opt/wheels

#ifndef CONSTRICTOR_KEEPER_ENVIRONMENTS_H
#define CONSTRICTOR_KEEPER_ENVIRONMENTS_H

#include <limits.h>
#include <sys/stat.h>

#include "base/err.h"
#include "keeper/slots.h"

enum { ENVIRONMENTS_URL_MAX = 256 };

struct environments {
    int folder; // -1: there are none, see error
    int rows;   // for the gate's database (env/env_db.h)
    int wheels; // opened before its mode forbade reading
    int lock;
    int note;            // the lock's file once more, for the gate's URL (environments_write_note)
    char path[PATH_MAX]; // of wheels, for the jail, which checks device and inode
    dev_t device;
    ino_t inode;
    struct err error; // ERR_BUSY: another server has it
    pid_t holder;     // that one, or 0
    char holder_url[ENVIRONMENTS_URL_MAX];
};

// `parent` is the state folder, open, whose path is `path`.  A failure is also in `error`.
int environments_open(struct environments *env, int parent, const char *path,
                      const struct slots *slots, struct err *e);
void environments_close(struct environments *env);

// In the gate: `url` is where others find this server.  0 or a negative errno.
int environments_write_note(int note, pid_t keeper, const char *url);

#endif
