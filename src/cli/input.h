// SPDX-License-Identifier: Apache-2.0
//
// input: the source that a command is about: a file, the text behind -c, or stdin.  Read in the
// first process, with the rights of the user.  Called by cli/run.c and cli/check.c.

#ifndef CONSTRICTOR_CLI_INPUT_H
#define CONSTRICTOR_CLI_INPUT_H

#include <stddef.h>

#include "base/err.h"
#include "config/config.h"

struct input {
    char *text; // the caller frees
    size_t length;
    const char *name; // for messages: "-c", "stdin", or the path; borrowed
};

// `operand` is the path or "-"; not looked at with -c.  Bytes of any kind; at most
// config->source_bytes of them.
int input_load(const struct config *c, const char *operand, struct input *ret, struct err *e);

#endif
