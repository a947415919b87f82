// SPDX-License-Identifier: Apache-2.0
//
// dbfolder: lets SQLite work in a folder that is known only by a descriptor.  The gate cannot use
// paths: as root's child it may not search the folders above (think of --state /root/x), and
// Landlock shows it no other folder.  Called by store.c and envs.c in the gate, before their
// databases are opened.

#ifndef CONSTRICTOR_FILES_DBFOLDER_H
#define CONSTRICTOR_FILES_DBFOLDER_H

#include "base/err.h"

#define DBFOLDER_VFS "constrictor"

// Files whose names begin with `prefix`, which is borrowed as well, are in a folder of their own.
// If a group may write there, it may write them, too.
void dbfolder_also(const char *prefix, int folder);

// From now on SQLite finds its files directly in `folder`, which is borrowed; a second call changes
// the folder.
int dbfolder_use(int folder, struct err *e);

#endif
