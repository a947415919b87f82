// SPDX-License-Identifier: Apache-2.0
//
// load_source: reads the source of `run` and `check`: a file, the text behind -c, or stdin.  Called
// in the first process, with the rights of the user.

#ifndef CONSTRICTOR_CLI_LOAD_SOURCE_H
#define CONSTRICTOR_CLI_LOAD_SOURCE_H

#include <stddef.h>

#include "base/err.h"
#include "config/config.h"

struct source_text {
    char *text; // the caller frees
    size_t length;
    const char *name; // for messages: "-c", "stdin", or the path; borrowed
};

// `operand` is the path or "-"; ignored with -c.  Reads at most config->source_bytes, of any kind.
int load_source(const struct config *c, const char *operand, struct source_text *ret,
                struct err *e);

#endif
