// SPDX-License-Identifier: Apache-2.0
//
// exec_input: checks a client's files and variables (exec.h), and makes the URI of a file.  Used by
// exec.c and by the interfaces.

#ifndef CONSTRICTOR_EXEC_EXEC_INPUT_H
#define CONSTRICTOR_EXEC_EXEC_INPUT_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

// sandbox://{holder}/{path}, percent-encoded.
void exec_file_uri(const char *holder, const char *path, char *buf, size_t cap);

#endif
