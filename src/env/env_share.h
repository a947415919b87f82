// SPDX-License-Identifier: Apache-2.0
//
// env_share: how the gates of several servers that use one folder of environments keep out of each
// other's way.  Used by envs.c, env_job.c and env_tidy.c.
//
// They are locks of bytes in the file `rows/locks`.  The kernel drops them when a gate ends, in any
// way.  A gate never waits for one, except for the first while it starts.
//
//   byte 0               the database is being opened, and perhaps converted or replaced
//   byte 1               shared: an install runs, and wheels must stay; exclusive: wheels are
//   removed byte 16 + number     the server of this number lives others, by a hash    an
//   environment is being changed
//
// SECURITY: a gate that was taken over can hold locks for ever: others then cannot change
// environments, and say so.  It could write the rows themselves, too.

#ifndef CONSTRICTOR_ENV_ENV_SHARE_H
#define CONSTRICTOR_ENV_ENV_SHARE_H

#include <stdbool.h>

#include "base/err.h"

struct env_share {
    int fd; // -1: not open
    unsigned number;
};

enum env_share_wheels { ENV_WHEELS_FREE, ENV_WHEELS_USE, ENV_WHEELS_REMOVE };

// Waits until no other server opens the database; env_share_opened() lets others do so.
int env_share_open(struct env_share *s, int folder, unsigned number, struct err *e);
void env_share_opened(const struct env_share *s);
void env_share_close(struct env_share *s);

bool env_share_is_alone(const struct env_share *s);
bool env_share_is_alive(const struct env_share *s, unsigned number); // another server

// False: another server uses what this one wants to remove, or removes what this one wants to use.
// Try later.
bool env_share_wheels(const struct env_share *s, enum env_share_wheels how);

// False: another server changes this environment.  A lock does not count how often it was taken.
bool env_share_take(const struct env_share *s, const char *owner, const char *name);
void env_share_give(const struct env_share *s, const char *owner, const char *name);
bool env_share_is_taken(const struct env_share *s, const char *owner, const char *name);

#endif
