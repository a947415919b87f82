// SPDX-License-Identifier: Apache-2.0
//
// exec_input: what a caller brings along to a run, files and variables, checked; and how a file is
// named in a URI.  Used by exec.c and by the interfaces.

#ifndef CONSTRICTOR_EXEC_EXEC_INPUT_H
#define CONSTRICTOR_EXEC_EXEC_INPUT_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

// sandbox://{place}/{path}, percent-encoded.
void exec_file_uri(const char *place, const char *path, char *buf, size_t cap);

#endif
