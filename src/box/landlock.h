// SPDX-License-Identifier: Apache-2.0
//
// landlock: a second, independent statement of what a box may reach: read everywhere in the tree,
// write in scratch, no TCP (unless it has network), no signal and no abstract socket to the
// outside.

#ifndef CONSTRICTOR_BOX_LANDLOCK_H
#define CONSTRICTOR_BOX_LANDLOCK_H

#include <stdbool.h>
#include <stdint.h>

// The ABI of this kernel; 0 when Landlock is absent or off.
uint32_t landlock_abi(void);

// No file, no TCP, no signal and no abstract socket: only what is open already, and ordinary files
// in one folder (-1: none), which may be read, written, made, renamed and removed there.  0, or -1
// with errno.
int landlock_seal(uint32_t abi, int folder);

// The same with another folder (-1: none).
int landlock_seal_both(uint32_t abi, int folder, int other);

// The same, but in the folder and below it files and folders may be made, written and removed, none
// read.
int landlock_seal_writer(uint32_t abi, int folder);

// For the porter: in the folder and below it files and folders may be read, made, written, renamed
// and removed.
int landlock_seal_porter(uint32_t abi, int folder);

// For the broker: no signal and no abstract socket, TCP as it is, and of all files only these may
// be read (NULL ends them; one that is not there is left out).
int landlock_seal_network(uint32_t abi, const char *const *files);

// Restricts the calling process as far as `abi` goes; 0 does nothing.  0, or -1 with errno.
int landlock_restrict(uint32_t abi, bool network);

#endif
