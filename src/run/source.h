// SPDX-License-Identifier: Apache-2.0
//
// source: checks the code to run.  Used by the command line and by the
// tools of the MCP server, so that both give the same errors.

#ifndef CONSTRICTOR_RUN_SOURCE_H
#define CONSTRICTOR_RUN_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

// Refuses what Python would refuse with fewer words: too large, a NUL byte, not UTF-8.  `name` is
// how the message calls it.
int source_check(const char *code, size_t length, const char *name, uint64_t max, struct err *e);
int source_too_large(const char *name, uint64_t max, struct err *e);

#endif
