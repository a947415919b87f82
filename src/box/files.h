// SPDX-License-Identifier: Apache-2.0
//
// files: the box's end of FILE frames (wire/frame.h): lists, reads, replaces and removes files in
// the scratch folder when the gate asks.  Called by box/init.c, in pid 1 or, before the first run,
// in the user process; so it uses sys_raw() only and a few kilobytes of stack.  It keeps no
// descriptor from one frame to the next.  Code that locks a file makes it wait, and only its own
// box.
//
// SECURITY: it has only the rights of user code, which may overwrite its memory or move the folder
// meanwhile.  The effects stay inside the box.

#ifndef CONSTRICTOR_BOX_FILES_H
#define CONSTRICTOR_BOX_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILES_ROOT "/mnt/data"

// Answers one FILE frame on `sock`; `root` is the folder, `busy` whether a run goes on.  False: not
// a valid request.
bool files_serve(int sock, const char *root, bool busy, const void *frame, size_t length);
// The same, with `root` below the folder `at`.
bool files_serve_at(int sock, int at, const char *root, bool busy, const void *frame,
                    size_t length);

// How much the file system of `root` holds.  When two of these differ, something was made or
// removed.
struct files_usage {
    uint64_t inodes, blocks;
};
struct files_usage files_usage(const char *root);

#endif
