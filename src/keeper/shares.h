// SPDX-License-Identifier: Apache-2.0
//
// shares: folders of the user that every box sees, read-only, as /share/NAME: --share.  Opened by
// the first process, with the rights of the user, before anything else starts; the jail attaches
// them to the tree (box/jail.h), and the gate tells clients of them.

#ifndef CONSTRICTOR_KEEPER_SHARES_H
#define CONSTRICTOR_KEEPER_SHARES_H

#include <stddef.h>

#include "base/err.h"
#include "box/jail.h"
#include "config/config.h"

struct shares {
    size_t count;
    struct jail_share items[JAIL_SHARES_MAX];
    int fds[JAIL_SHARES_MAX]; // held for life, so that no other folder gets the inode's number
};

// Opens and checks all of c->shares.  Warns on stderr of a folder that other users may not read.
int shares_open(const struct config *c, struct shares *ret, struct err *e);

// May a server's code have its files saved in this folder, whose path has no links?
int shares_check_out(const struct config *c, const char *path, struct err *e);

// "/share/data, /share/notes"; "" without any.
void shares_describe(const struct shares *s, char *buf, size_t cap);

#endif
