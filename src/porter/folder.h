// SPDX-License-Identifier: Apache-2.0
//
// folder: a folder and all that is in it: walked in the order of names, or removed.  By
// descriptors, without following a link, to a bounded depth.  Called by wheels.c and archive.c in
// the porter.

#ifndef CONSTRICTOR_PORTER_FOLDER_H
#define CONSTRICTOR_PORTER_FOLDER_H

#include "porter/bundle.h"

enum { FOLDER_DEPTH_MAX = BUNDLE_DEPTH_MAX + 8 };

// 0 or a negative errno; it goes on where it can.  What is not there is removed already.
int folder_remove(int parent, const char *name);

// Calls for each ordinary file below the folder, with its open descriptor, which it borrows, and
// its path, as bundle.h wants them.  What is neither file nor folder is an error: no wheel has
// such.
struct folder_visit {
    int (*file)(void *argument, int fd, const struct bundle_entry *entry, struct err *e);
    void *argument;
};
int folder_walk(int folder, const struct folder_visit *visit, struct err *e);

#endif
