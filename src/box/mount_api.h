// SPDX-License-Identifier: Apache-2.0
//
// mount_api: what older headers lack of the calls open_tree, move_mount and mount_setattr.

#ifndef CONSTRICTOR_BOX_MOUNT_API_H
#define CONSTRICTOR_BOX_MOUNT_API_H

#include <fcntl.h>
#include <sys/mount.h>

#include <linux/mount.h> // behind sys/mount.h, or the two do not go together in Ubuntu 22.04

// glibc before 2.36 has neither the wrappers nor, together with <sys/mount.h>, the constants.
#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#ifndef MOVE_MOUNT_F_EMPTY_PATH
#define MOVE_MOUNT_F_EMPTY_PATH 0x00000004
#endif
#ifndef MOVE_MOUNT_T_SYMLINKS
#define MOVE_MOUNT_T_SYMLINKS 0x00000010
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

#ifndef MOVE_MOUNT_T_EMPTY_PATH
#define MOVE_MOUNT_T_EMPTY_PATH 0x00000040
#endif

#endif
