// SPDX-License-Identifier: Apache-2.0
//
// tempfile: unnamed files in a folder of the server, for bytes that do not fit into memory.

#ifndef CONSTRICTOR_FILES_TEMPFILE_H
#define CONSTRICTOR_FILES_TEMPFILE_H

#include "base/err.h"

// Opens one for reading and writing.  `folder`: the state folder or the one of environments; -1:
// there is none. The descriptor, or a negative code and `e`.
int tempfile_open(int folder, struct err *e);
// Sets `e`: why bytes could not be written to it.
int tempfile_failed(int errnum, struct err *e);

#endif
