// SPDX-License-Identifier: Apache-2.0
//
// maps: this process's mappings, from /proc/self/maps, one at a time.
//
// Without stdio, malloc and errno: the caller may be measuring which pages it writes to, or share
// its memory with another process (box/checkpoint.c, box/pages.c).

#ifndef CONSTRICTOR_BASE_MAPS_H
#define CONSTRICTOR_BASE_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mapping {
    uintptr_t start, end;
    char mode[5];     // as "rw-p"
    bool file;        // of a file, also one that is deleted
    const char *name; // "" where there is none; cut when long; valid until the next call
};

// Bits of /proc/self/pagemap that need no privilege.
#define PAGE_PRESENT (UINT64_C(1) << 63)
#define PAGE_SWAPPED (UINT64_C(1) << 62)
#define PAGE_FILE_OR_SHARED (UINT64_C(1) << 61)
#define PAGE_EXCLUSIVE (UINT64_C(1) << 56)

struct maps {
    int fd;
    bool failed; // the last maps_next() was not the end
    size_t have, at;
    char text[4096], line[512];
};

// 0 or a negative errno.  The second one finds a /proc that has no name, or another.
int maps_open(struct maps *m);
int maps_open_at(struct maps *m, int proc);

// False at the end, which closes.
bool maps_next(struct maps *m, struct mapping *ret);

#endif
