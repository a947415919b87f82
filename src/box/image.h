// SPDX-License-Identifier: Apache-2.0
//
// image: the zygote's memory as a file that every box maps privately.  Called by the extension when
// the zygote has done all that it does in Python and is about to make boxes.
//
// A fork goes through every page of anonymous memory and every mapping, and the end of the copy
// does so again: with 17 MiB of warm interpreter and its libraries, more than a box costs
// otherwise.  A box finds pages of a file in the page cache when it first touches them, and copies
// those that it writes to as before.  So it pays for what it uses and not for what the zygote has
// imported.

#ifndef CONSTRICTOR_BOX_IMAGE_H
#define CONSTRICTOR_BOX_IMAGE_H

#include <stddef.h>
#include <stdint.h>

struct image_area {
    uintptr_t start, end;
};

// Puts the heap of malloc, the program and its libraries, and those of the given areas that
// are still what they were into the file.  Other memory stays as it is: an allocator of its own may
// give pages back with madvise() and count on zeroes, or grow them with mremap(), which a file
// cannot do.
// The caller has one thread and may mount.  0: all, some or nothing of it is in the file.  A
// negative errno: memory is lost, and the caller must end.
int image_share(const struct image_area *areas, size_t count);

// Once more, for what was written to since: then none of these pages is the caller's own.  The file
// is shut now.  0, or a negative errno: memory is lost or the file is not shut, and the caller must
// end.
int image_renew(void);

#endif
