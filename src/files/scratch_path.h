// SPDX-License-Identifier: Apache-2.0
//
// scratch_path: the parts of scratch.c that need no box: decoding its answers about files, and
// error texts.  scratch_path(), scratch_changes() and scratch_list_clear() of scratch.h are in
// scratch_path.c as well.

#ifndef CONSTRICTOR_FILES_SCRATCH_PATH_H
#define CONSTRICTOR_FILES_SCRATCH_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "files/scratch.h"
#include "wire/frame.h"
#include "wire/wire.h"

// Is it a FILED frame?  Then its head is in `ret`.
bool scratch_check(const char *data, size_t length, struct frame_filed *ret);

// Adds the entries after the head to the list, whose array has `*capacity` elements.  0, -EBADMSG
// or -ENOMEM.
int scratch_decode(struct scratch_list *l, size_t *capacity, const struct frame_filed *f,
                   const char *data, size_t length);
void scratch_list_sort(struct scratch_list *l);

// Why an operation that began with `op` (0: none did) failed.
void scratch_error(struct err *e, int errnum, enum frame_file_op op, const char *path,
                   const struct wire_limits *limits);
// The same for a file of at least `size` bytes where `room` bytes would have fitted.
void scratch_no_room(struct err *e, const char *path, uint64_t size, uint64_t room,
                     const struct wire_limits *limits);

#endif
