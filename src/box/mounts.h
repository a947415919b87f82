// SPDX-License-Identifier: Apache-2.0
//
// mounts: what a box mounts over the zygote's read-only tree.  Called from the recipe in enter.c.

#ifndef CONSTRICTOR_BOX_MOUNTS_H
#define CONSTRICTOR_BOX_MOUNTS_H

#include <stdbool.h>
#include <stdint.h>

// In the zygote, once: which folders of the interpreter scratch will cover (JAIL_COVERED in
// box/jail.h).  0 or a negative errno.
int mounts_find_covered(void);

// One tmpfs with a size and an inode limit; its folders are /mnt/data, /tmp and /dev/shm, so that
// all that a box can write counts together (0 inodes: as many as fit).  In it links to what it
// covers of the interpreter.  0, or -1 with errno.
int mounts_scratch(uint64_t bytes, uint32_t inodes);

// After this, processes of the box can write to scratch only through the descriptor that this
// returns: /mnt/data as it was before.  -1 with errno.
//
// How: a second mount of the same tmpfs, read-only, on top of the first.  The first one has no name
// then, and a box cannot unmount.  Closing the descriptor closes the last way to it.
int mounts_freeze_scratch(void);

// Covers the operator's folder of wheel files (box/jail.h), if there is one.  0, or -1 with errno.
int mounts_hide_wheel_files(void);

// A private /proc with the box's own processes and nothing else; `without`: an empty folder instead
// (operators who allow that layer to be degraded).  0, or -1 with errno.
int mounts_proc(bool without);

#endif
