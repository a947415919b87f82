// SPDX-License-Identifier: Apache-2.0
//
// folder: walks a folder in the order of names, or removes it with all its content.  By
// descriptors, without following links, to a bounded depth.  Called by wheels.c and archive.c in
// the porter.

#ifndef CONSTRICTOR_PORTER_FOLDER_H
#define CONSTRICTOR_PORTER_FOLDER_H

#include "porter/bundle.h"

enum { FOLDER_DEPTH_MAX = BUNDLE_DEPTH_MAX + 8 };

// 0 or a negative errno; goes on after an error.  A missing folder is no error.
int folder_remove(int parent, const char *name);

// Calls for each ordinary file below the folder, with its open descriptor, which it borrows, and
// its path, as bundle.h wants them.  Anything that is neither file nor folder is an error: wheels
// have none.
struct folder_visit {
    int (*file)(void *argument, int fd, const struct bundle_entry *entry, struct err *e);
    void *argument;
};
int folder_walk(int folder, const struct folder_visit *visit, struct err *e);

#endif
