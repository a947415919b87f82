// SPDX-License-Identifier: Apache-2.0
//
// dbfolder: lets SQLite work in a folder that is known by a descriptor and by nothing else.  The gate cannot
// use paths: as root's child it may not search the folders above (think of --state /root/x), and Landlock
// shows it no other folder.  Called by catalogue.c in the gate, once, before the first database is opened.

#ifndef CONSTRICTOR_GATE_DBFOLDER_H
#define CONSTRICTOR_GATE_DBFOLDER_H

#include "base/err.h"

#define DBFOLDER_VFS "constrictor"

// From now on each file that SQLite names is a file right in `folder`, which is borrowed; a second call
// changes the folder.  One folder in a process at a time.
int dbfolder_use(int folder, struct err *e);

#endif
